/*
 * redlock bench as a command: its figures as an object, servers of its own, what it refuses, and
 * how it ends. What the figures are is not looked at.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    N = 5
};

#define MOMENT "--rounds", "1", "--seconds", "100ms"
#define IN_FULL "--rounds", "1", "--seconds", "500ms"

static struct driver driver;

static int run(const char *const *words)
{
    return driver_run(&driver, words);
}
#define RUN_BENCH(...) run((const char *const[]){"bench", __VA_ARGS__, NULL})

static void expect_out(const char *text)
{
    ck_assert_msg(strstr(driver.out.bytes, text) != NULL, "no %s in:\n%s%s", text, driver.out.bytes,
                  driver.err.bytes);
}

static void expect_err(const char *text)
{
    ck_assert_msg(strstr(driver.err.bytes, text) != NULL, "no %s in:\n%s", text, driver.err.bytes);
}

static void named(void)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
    driver_mark();
}

START_TEST(figures_of_named_primaries)
{
    static const char *const figures[] = {"acquire p50", "acquire p99", "release p50", "cycle p50",
                                          "CPU per cycle"};
    char text[128];

    named();
    ck_assert_int_eq(RUN_BENCH("--json", MOMENT, "cycle"), 0);
    expect_out("\"primaries\":5");
    expect_out("\"own_servers\":0");
    expect_out("\"workers\":16");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        snprintf(text, sizeof text, "{\"work\":\"cycle\",\"figure\":\"%s\",\"unit\":\"us\"",
                 figures[i]);
        expect_out(text);
    }
    ck_assert_ptr_null(strstr(driver.out.bytes, "\"ratio\":null"));
    servers_stop();
}
END_TEST

START_TEST(servers_of_its_own)
{
    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(RUN_BENCH(MOMENT, "cycle"), 0);
    expect_err("starting servers of its own");
    expect_out("5 primaries of its own on loopback");
    expect_out("cycle p50");
}
END_TEST

START_TEST(works_are_listed)
{
    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(RUN_BENCH("--list"), 0);
    expect_out("cycle ");
    expect_out("one-key-processes ");
    expect_out("broken ");
    ck_assert_int_eq(RUN_BENCH("--list", "--json"), 0);
    expect_out("{\"works\":[{\"name\":\"cycle\"");
}
END_TEST

START_TEST(what_is_no_work_is_refused)
{
    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(RUN_BENCH("cycle", "sprint"), 64);
    expect_err("there is no work 'sprint'; redlock bench --list names them");
    ck_assert_int_eq(RUN_BENCH("cycle", "extend", "cycle"), 64);
    expect_err("the work cycle is named twice");
    ck_assert_int_eq(RUN_BENCH("--rounds", "0", "cycle"), 64);
    ck_assert_int_eq(RUN_BENCH("--seconds", "0", "cycle"), 64);
}
END_TEST

START_TEST(a_crowd_has_from_2_to_1000)
{
    static const char *const wrong[] = {"1", "1001", "0", "-3", "two", "3.5", ""};

    driver_set_nodes(NULL, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(RUN_BENCH("--workers", wrong[i], "threads"), 64);
        expect_err(": it must be a whole number from 2 to 1000");
    }
    ck_assert_int_eq(RUN_BENCH("--workers", "2", "--list"), 0);
    ck_assert_int_eq(RUN_BENCH("--workers", "1000", "--list"), 0);
}
END_TEST

/* Not where they are not to be started. */
START_TEST(a_crowd_of_processes_has_at_most_64)
{
    driver_set_nodes((const char *const[]){"redis://127.0.0.1:1"}, 1);
    ck_assert_int_eq(RUN_BENCH("--workers", "65", "cycle", "one-key-processes"), 64);
    expect_err(
        "--workers 65: the work one-key-processes takes at most 64: take fewer, or leave it out");
    ck_assert_int_eq(RUN_BENCH("--workers", "65"), 64);
    expect_err("--workers 65: the work one-key-processes takes at most 64: take fewer, or name "
               "other works");
    ck_assert_int_eq(RUN_BENCH("--workers", "64", "one-key-processes"), 69);
    ck_assert_int_eq(RUN_BENCH("--workers", "65", "one-key"), 69);
    ck_assert_int_eq(RUN_BENCH("--workers", "65", "--compare"), 69);
}
END_TEST

START_TEST(primaries_that_cant_be_measured)
{
    driver_set_nodes((const char *const[]){"redis://127.0.0.1:1"}, 1);
    ck_assert_int_eq(RUN_BENCH(MOMENT, "cycle"), 69);
    expect_err("primary 1 of 1: Connection refused");
    driver_set_nodes((const char *const[]){"rediss://127.0.0.1:1"}, 1);
    ck_assert_int_eq(RUN_BENCH(MOMENT, "cycle"), 64);
    expect_err("bench doesn't measure encryption");
}
END_TEST

START_TEST(one_that_wants_a_password_is_no_table)
{
    servers_start_with(N, (const char *const[]){"--requirepass", "secret", NULL});
    driver_set_nodes(servers_uris(), N);
    ck_assert_int_eq(RUN_BENCH(MOMENT, "cycle"), 69);
    expect_err("NOAUTH");
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_int_eq(RUN_BENCH("--json", MOMENT, "cycle"), 69);
    expect_out("\"figures\":[]}");
    servers_stop();
}
END_TEST

START_TEST(no_program_to_start)
{
    char path[4096];

    snprintf(path, sizeof path, "%s", getenv("PATH"));
    driver_set_nodes(NULL, 0);
    setenv("PATH", "/nowhere", 1);
    ck_assert_int_eq(RUN_BENCH(MOMENT, "cycle"), 127);
    expect_err("there is no redis-server or valkey-server");
    setenv("PATH", path, 1);
}
END_TEST

/* What is left out is no failure, nor the reason of a later one. */
START_TEST(numbers_that_are_left_out)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), 3);
    driver_mark();
    ck_assert_int_eq(RUN_BENCH(MOMENT, "nodes"), 0);
    expect_err("left out N = 1");
    expect_out("N=3: cycle p50");
    ck_assert_int_eq(RUN_BENCH(MOMENT, "nodes", "unequal"), 70);
    expect_err("needs 5 primaries");
    servers_stop();
}
END_TEST

START_TEST(all_of_them_are_not_left_out)
{
    named();
    driver_set_nodes(servers_uris(), 3); /* of five that are marked */
    ck_assert_int_eq(RUN_BENCH(MOMENT, "nodes"), 78);
    ck_assert_str_eq(driver.out.bytes, "");
    servers_stop();
}
END_TEST

/* ---- what the exit status says --------------------------------------------------------- */

/* Whichever it is: the verdicts and the status agree. */
START_TEST(a_check_fails_where_a_limit_was_missed)
{
    int status;

    named();
    status = RUN_BENCH("--check", "--json", MOMENT, "fenced");
    ck_assert(strstr(driver.out.bytes, "\"verdict\":\"") != NULL);
    ck_assert_int_eq(status, strstr(driver.out.bytes, "\"verdict\":\"missed\"") != NULL);
    ck_assert_int_eq(RUN_BENCH("--json", MOMENT, "fenced"), 0);
    servers_stop();
}
END_TEST

START_TEST(interrupted_it_shows_what_it_has)
{
    driver_set_nodes(NULL, 0);
    driver_start(&driver,
                 (const char *const[]){"bench", IN_FULL, "--leases", "1", "cycle", "held", NULL});
    driver_expect(&driver, "redlock: held: ");
    ck_assert_int_eq(kill(driver.pid, SIGINT), 0);
    ck_assert_int_eq(driver_wait(&driver), 130);
    expect_out("primaries of its own on loopback");
    expect_out("cycle p50");
}
END_TEST

START_TEST(interrupted_before_it_has_anything)
{
    driver_set_nodes(NULL, 0);
    driver_start(&driver, (const char *const[]){"bench", IN_FULL, "--leases", "1", "held", NULL});
    driver_expect(&driver, "redlock: held: ");
    ck_assert_int_eq(kill(driver.pid, SIGINT), 0);
    ck_assert_int_eq(driver_wait(&driver), 130);
    ck_assert_str_eq(driver.out.bytes, "");
    expect_err("nothing was measured yet");
}
END_TEST

/* ---- the work that holds for long ------------------------------------------------------- */

static bool no_key_is_left(void)
{
    for (int i = 0; i < N; i++)
        if (servers_command(i, "KEYS", "redlock-bench:*", NULL)[0] != '\0')
            return false;
    return true;
}

START_TEST(a_moment_is_enough_for_a_look)
{
    named();
    ck_assert_int_eq(RUN_BENCH("--json", MOMENT, "--leases", "20", "held"), 0);
    expect_err("redlock: held: round 1 of 1: 20 leases held for 0 of 0.1 s");
    expect_out("{\"work\":\"held\",\"figure\":\"leases kept for a moment\",\"unit\":\"\","
               "\"ours\":20,\"base\":20,");
    expect_out("\"figure\":\"memory per lease, but its name\"");
    AWAIT(no_key_is_left());
    ck_assert_int_eq(RUN_BENCH("--quiet", MOMENT, "--leases", "1", "held"), 0);
    ck_assert_str_eq(driver.err.bytes, "");
    servers_stop();
}
END_TEST

/* Nobody waits for them here. */
START_TEST(a_signal_ends_three_ttls_of_holding)
{
    named();
    driver_start(&driver, (const char *const[]){"bench", IN_FULL, "--leases", "20", "held", NULL});
    driver_expect(&driver, "redlock: held: round 1 of 1: 20 leases held for 0 of 90 s\n");
    ck_assert_int_eq(kill(driver.pid, SIGTERM), 0);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
    ck_assert_str_eq(driver.out.bytes, "");
    AWAIT(no_key_is_left());
    servers_stop();
}
END_TEST

/* ---- the servers' own commands ---------------------------------------------------------- */

static const struct flavour {
    const char *name; /* NULL: the machine's */
    bool extends, releases;
} flavours[] = {{NULL, false, false},
                {"redis-8.6", true, true},
                {"valkey-8.1", true, false},
                {"valkey-9.1", true, true}};

enum {
    FLAVOURS = sizeof flavours / sizeof flavours[0]
};

static void expect_native(const char *figure, bool there)
{
    char text[160];

    snprintf(text, sizeof text, "{\"work\":\"native\",\"figure\":\"server's time per %s\"", figure);
    ck_assert_int_eq(driver_count(driver.out.bytes, text), there);
}

/* Keys of it are not left, either. */
START_TEST(native_commands_against_scripts)
{
    const struct flavour *flavour = &flavours[_i];

    if (!servers_use(flavour->name)) {
        printf("skipped: %s is not in the cache; tools/servers.sh get %s\n", flavour->name,
               flavour->name);
        return;
    }
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
    ck_assert_int_eq(RUN_BENCH("--json", "--rounds", "2", "--seconds", "50ms", "native"), 0);
    expect_native("extend", flavour->extends);
    expect_native("release", flavour->releases);
    ck_assert_int_eq(driver_count(driver.err.bytes, "has no native commands"),
                     !flavour->extends || !flavour->releases);
    ck_assert_ptr_null(strstr(driver.out.bytes, "null,\"ratio"));
    ck_assert_str_eq(servers_command(0, "KEYS", "redlock-bench:*", NULL), "");
    servers_stop();
    (void)servers_use(NULL);
}
END_TEST

static Suite *bench_suite(void)
{
    Suite *suite = suite_create("cli bench");
    TCase *tcase = tcase_create("bench");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, figures_of_named_primaries);
    tcase_add_test(tcase, servers_of_its_own);
    tcase_add_test(tcase, works_are_listed);
    tcase_add_test(tcase, what_is_no_work_is_refused);
    tcase_add_test(tcase, a_crowd_has_from_2_to_1000);
    tcase_add_test(tcase, a_crowd_of_processes_has_at_most_64);
    tcase_add_test(tcase, primaries_that_cant_be_measured);
    tcase_add_test(tcase, one_that_wants_a_password_is_no_table);
    tcase_add_test(tcase, no_program_to_start);
    tcase_add_test(tcase, numbers_that_are_left_out);
    tcase_add_test(tcase, all_of_them_are_not_left_out);
    tcase_add_test(tcase, a_check_fails_where_a_limit_was_missed);
    tcase_add_test(tcase, interrupted_it_shows_what_it_has);
    tcase_add_test(tcase, interrupted_before_it_has_anything);
    tcase_add_test(tcase, a_moment_is_enough_for_a_look);
    tcase_add_test(tcase, a_signal_ends_three_ttls_of_holding);
    tcase_add_loop_test(tcase, native_commands_against_scripts, 0, FLAVOURS);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, bench_suite);
}
