/* That redlock bench never says a password, whatever it measures and whatever goes wrong. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

#define PASSWORD DRIVER_PASSWORD
#define MOMENT "--rounds", "1", "--seconds", "50ms"

enum {
    N = 5,
    CROWD = 16,
    URI = 128
};

static struct driver driver;
static char uris[N][URI];

/* REDLOCK_NODES, with this password in each. */
static void name_with(const char *password)
{
    const char *list[N];

    for (int i = 0; i < N; i++) {
        snprintf(uris[i], URI, "redis://default:%s@127.0.0.1:%d", password, servers_port(i));
        list[i] = uris[i];
    }
    driver_set_nodes(list, N);
}

static void set_up(void)
{
    servers_start_with(N, WORDS("--requirepass", PASSWORD));
    name_with(PASSWORD);
    driver_mark();
}

static void tear_down(void)
{
    servers_stop();
}

static void expect_secret_kept(void)
{
    driver_expect_secret_kept(&driver);
}

static void expect_err(const char *text)
{
    ck_assert_msg(strstr(driver.err.bytes, text) != NULL, "no %s in:\n%s", text, driver.err.bytes);
}

#define EVERYTHING                                                                                 \
    "--leases", "10", "cycle", "nodes", "threads", "loop", "extend", "fenced", "native", "held",   \
        "waiting", "one-key", "one-key-processes", "unequal", "broken"

/* Whether a crowd has a turn in so short a time is not looked at. */
START_TEST(figures)
{
    (void)RUN(&driver, "bench", MOMENT, "-vv", EVERYTHING);
    expect_secret_kept();
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, "cycle p50"));
    (void)RUN(&driver, "bench", MOMENT, "-vv", "--json", EVERYTHING);
    expect_secret_kept();
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, "cycle p50"));
    ck_assert_int_eq(RUN(&driver, "bench", MOMENT, "-vv", "--json", "--compare"), 78);
    expect_secret_kept();
}
END_TEST

START_TEST(a_wrong_one)
{
    name_with(PASSWORD "-not");
    ck_assert_int_eq(RUN(&driver, "bench", MOMENT, "-vv", EVERYTHING), 69);
    expect_err("primary 1 of 5: WRONGPASS");
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "bench", MOMENT, "-vv", "--json", EVERYTHING), 69);
    expect_secret_kept();
}
END_TEST

/* Some refuse what they don't know by repeating it. */
START_TEST(one_that_is_repeated)
{
    servers_stop();
    servers_start_with(N, WORDS("--rename-command", "AUTH", ""));
    name_with(PASSWORD);
    ck_assert_int_eq(RUN(&driver, "bench", MOMENT, "-vv", "cycle"), 69);
    expect_err("primary 1 of 5: AUTH is refused");
    expect_secret_kept();
}
END_TEST

START_TEST(primaries_that_cant_be_led_through_a_proxy)
{
    const char *list[N];
    char elsewhere[URI];

    for (int i = 0; i < N; i++)
        list[i] = uris[i];
    snprintf(elsewhere, URI, "redis://default:%s@[::1]:%d", PASSWORD, servers_port(3));
    list[3] = elsewhere;
    driver_set_nodes(list, N);
    ck_assert_int_ne(RUN(&driver, "bench", MOMENT, "-vv", "unequal", "broken"), 0);
    expect_err("primary 4 can't be put behind a proxy");
    expect_secret_kept();
}
END_TEST

START_TEST(mistakes)
{
    static const char *const wrong[] = {
        "redis://user:" PASSWORD "@h:nonsense", "http://user:" PASSWORD "@h",
        "rediss://user:" PASSWORD "@127.0.0.1:1", "redis://user:" PASSWORD "@127.0.0.1:1"};
    char path[64];

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_ne(RUN(&driver, "bench", MOMENT, "-vv", "--node", wrong[i], "cycle"), 0);
        expect_secret_kept();
        driver_set_nodes(&wrong[i], 1);
        ck_assert_int_ne(RUN(&driver, "bench", MOMENT, "-vv", "--json", "cycle"), 0);
        expect_secret_kept();
        driver_set_nodes(NULL, 0);
        driver_file(wrong[i], path);
        ck_assert_int_ne(RUN(&driver, "bench", MOMENT, "-vv", "--nodes-file", path, "cycle"), 0);
        expect_secret_kept();
        unlink(path);
        ck_assert_int_eq(RUN(&driver, "bench", MOMENT, wrong[i]), 64);
        expect_secret_kept();
        ck_assert_int_eq(RUN(&driver, "bench", "--rounds", wrong[i]), 64);
        expect_secret_kept();
    }
}
END_TEST

START_TEST(arguments_are_overwritten_in_its_processes_too)
{
    pid_t children[CROWD];

    driver_set_nodes(NULL, 0);
    START(&driver, "bench", "--rounds", "1", "--seconds", "60s", "one-key-processes", "--node",
          uris[0], "--node", uris[1], "--node", uris[2], "--node", uris[3], "--node", uris[4]);
    WAIT_UNTIL(driver_children_of(driver.pid, children, CROWD) == CROWD);
    driver_expect_secret_hidden(driver.pid);
    driver_expect_secret_hidden(children[0]);
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    expect_secret_kept();
}
END_TEST

static Suite *bench_passwords_suite(void)
{
    Suite *suite = suite_create("cli bench passwords");
    TCase *t = tcase_create("bench passwords");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, figures);
    tcase_add_test(t, a_wrong_one);
    tcase_add_test(t, one_that_is_repeated);
    tcase_add_test(t, primaries_that_cant_be_led_through_a_proxy);
    tcase_add_test(t, mistakes);
    tcase_add_test(t, arguments_are_overwritten_in_its_processes_too);
    suite_add_tcase(suite, t);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, bench_passwords_suite);
}
