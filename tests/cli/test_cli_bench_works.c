/*
 * The works of bench that are about crowds and about primaries in trouble: each runs for a moment
 * on real servers and gives its figures. What the figures are is not looked at. Whatever ends a
 * work, no process and no key of it is left.
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
    N = 5,
    CROWD = 16,
    LARGER = 20
};

#define MOMENT "--rounds", "1", "--seconds", "100ms"
#define LONG "--rounds", "1", "--seconds", "60s"

static struct driver driver;

static void set_up(void)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
    driver_mark();
}

static void tear_down(void)
{
    servers_stop();
}

/* ---- what is left ------------------------------------------------------------------------- */

static bool no_key_is_left(void)
{
    for (int i = 0; i < N; i++)
        if (servers_command(i, "KEYS", "redlock-bench:*", NULL)[0] != '\0')
            return false;
    return true;
}

static void expect_none_alive(const pid_t *children, int count)
{
    for (int i = 0; i < count; i++)
        WAIT_UNTIL(!driver_is_alive(children[i]));
}

/* ---- figures ------------------------------------------------------------------------------ */

static void expect_figure(const char *work, const char *figure)
{
    char text[256];

    snprintf(text, sizeof text, "{\"work\":\"%s\",\"figure\":\"%s\",\"unit\":\"", work, figure);
    ck_assert_msg(driver_count(driver.out.bytes, text) == 1, "not once %s in:\n%s%s", text,
                  driver.out.bytes, driver.err.bytes);
}

static void run_work(const char *work)
{
    int status = RUN(&driver, "bench", "--json", MOMENT, work);

    ck_assert_msg(status == 0, "%d: %s", status, driver.err.bytes);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"ours\":null"), 0);
    AWAIT(no_key_is_left());
}

START_TEST(threads_on_one_key)
{
    run_work("one-key");
    expect_figure("one-key", "acquisitions");
    expect_figure("one-key", "busiest / idlest thread");
    expect_figure("one-key", "p99 wait");
    expect_figure("one-key", "longest wait");
    expect_figure("one-key", "failed / acquisition");
    expect_figure("one-key", "CPU per acquisition");
}
END_TEST

START_TEST(processes_on_one_key)
{
    run_work("one-key-processes");
    expect_figure("one-key-processes", "acquisitions");
    expect_figure("one-key-processes", "busiest / idlest process");
    expect_figure("one-key-processes", "p99 wait");
    expect_figure("one-key-processes", "longest wait");
    expect_figure("one-key-processes", "failed / acquisition");
}
END_TEST

START_TEST(the_base_comes_first_in_every_second_round)
{
    int status = RUN(&driver, "bench", "--json", "--rounds", "2", "--seconds", "50ms", "one-key",
                     "one-key-processes");

    ck_assert_msg(status == 0, "%d: %s", status, driver.err.bytes);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"ours\":null"), 0);
    AWAIT(no_key_is_left());
}
END_TEST

/* ---- crowds of another size ----------------------------------------------------------------- */

static const char *const crowds[] = {"threads", "loop", "one-key", "one-key-processes"};

/* Its aims are not for them. */
START_TEST(a_smaller_crowd)
{
    int status = RUN(&driver, "bench", "--json", MOMENT, "--workers", "3", crowds[_i]);
    int figures = driver_count(driver.out.bytes, "\"figure\":");

    ck_assert_msg(status == 0, "%d: %s", status, driver.err.bytes);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"workers\":3,"), 1);
    ck_assert_int_ge(figures, 2);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"ours\":null"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"limit\":null,\"verdict\":\"\""), figures);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"base_name\":\"target\""), 0);
    AWAIT(no_key_is_left());
}
END_TEST

START_TEST(the_usual_one_has_aims)
{
    int status = RUN(&driver, "bench", "--json", MOMENT, crowds[_i]);

    ck_assert_msg(status == 0, "%d: %s", status, driver.err.bytes);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"workers\":16,"), 1);
    ck_assert_int_ge(driver_count(driver.out.bytes, "\"verdict\":\"m"), 1);
}
END_TEST

START_TEST(a_table_says_the_size)
{
    ck_assert_int_eq(RUN(&driver, "bench", MOMENT, "--workers", "3", "threads"), 0);
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, " a side, crowds of 3\n"));
}
END_TEST

START_TEST(each_of_a_larger_crowd_has_its_key)
{
    START(&driver, "bench", LONG, "--workers", "20", crowds[_i]);
    AWAIT(servers_command(0, "KEYS", "redlock-bench:*:ours:19", NULL)[0] != '\0');
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    AWAIT(no_key_is_left());
}
END_TEST

START_TEST(a_larger_crowd_of_processes)
{
    pid_t children[LARGER + 1];

    START(&driver, "bench", LONG, "--workers", "20", "one-key-processes");
    WAIT_UNTIL(driver_children_of(driver.pid, children, LARGER + 1) == LARGER);
    AWAIT(!no_key_is_left());
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    expect_none_alive(children, LARGER);
    AWAIT(no_key_is_left());
}
END_TEST

/* 60 threads with 5 connections each, and 128 for everything else. */
static int run_limited(const char *limit)
{
    char script[256];

    snprintf(script, sizeof script, "%s && exec \"$0\" bench --json --workers 60 threads \"$@\"",
             limit);
    driver_start_program(&driver, WORDS("sh", "-c", script, REDLOCK_CLI_PATH, MOMENT), 0);
    return driver_wait(&driver);
}

START_TEST(descriptors_are_had_as_far_as_it_goes)
{
    int status = run_limited("ulimit -S -n 200");

    ck_assert_msg(status == 0, "%d: %s", status, driver.err.bytes);
    expect_figure("threads", "cycles per second");
    ck_assert_int_eq(run_limited("ulimit -n 427"), 70);
    ck_assert_msg(strstr(driver.err.bytes, "need 428 descriptors, and at most 427 are allowed") !=
                      NULL,
                  "%s", driver.err.bytes);
    ck_assert_int_eq(run_limited("ulimit -n 428"), 0);
}
END_TEST

START_TEST(primaries_that_are_far)
{
    run_work("unequal");
    expect_figure("unequal", "acquire p50");
    expect_figure("unequal", "release p50");
}
END_TEST

START_TEST(primaries_that_are_broken)
{
    static const char *const counts[] = {"one", "two"};
    static const char *const faults[] = {"black-holed", "refusing", "slow"};
    static const char *const figures[] = {"acquire p50", "acquire p99", "release p50", "success",
                                          "first acquire"};
    char figure[128];

    run_work("broken");
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < 5; k++) {
                snprintf(figure, sizeof figure, "%s %s: %s", counts[i], faults[j], figures[k]);
                expect_figure("broken", figure);
            }
}
END_TEST

/* ---- what they need ------------------------------------------------------------------------ */

static const char *const troubles[] = {"unequal", "broken"};

START_TEST(fewer_than_five_is_said)
{
    driver_set_nodes(servers_uris(), 3);
    ck_assert_int_ne(RUN(&driver, "bench", MOMENT, troubles[_i]), 0);
    ck_assert_msg(strstr(driver.err.bytes, "needs 5 primaries on 127.0.0.1, there are 3") != NULL,
                  "%s", driver.err.bytes);
}
END_TEST

START_TEST(one_elsewhere_is_said)
{
    const char *uris[N];
    char elsewhere[64];

    for (int i = 0; i < N; i++)
        uris[i] = servers_uri(i);
    snprintf(elsewhere, sizeof elsewhere, "redis://[::1]:%d", servers_port(3));
    uris[3] = elsewhere;
    driver_set_nodes(uris, N);
    ck_assert_int_ne(RUN(&driver, "bench", MOMENT, troubles[_i]), 0);
    ck_assert_msg(strstr(driver.err.bytes, "primary 4 can't be put behind a proxy: it is not on "
                                           "127.0.0.1") != NULL,
                  "%s", driver.err.bytes);
}
END_TEST

/* ---- ends ----------------------------------------------------------------------------------- */

static void start_crowd(pid_t children[CROWD])
{
    START(&driver, "bench", LONG, "one-key-processes");
    WAIT_UNTIL(driver_children_of(driver.pid, children, CROWD) == CROWD);
    AWAIT(!no_key_is_left());
}

START_TEST(a_signal_ends_a_crowd_of_processes)
{
    pid_t children[CROWD];

    start_crowd(children);
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    expect_none_alive(children, CROWD);
    AWAIT(no_key_is_left());
}
END_TEST

START_TEST(a_crowd_ends_with_its_parent)
{
    pid_t children[CROWD];

    start_crowd(children);
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    expect_none_alive(children, CROWD);
}
END_TEST

START_TEST(one_that_dies_ends_the_crowd_and_is_said)
{
    pid_t children[CROWD];

    start_crowd(children);
    kill(children[5], SIGKILL);
    ck_assert_int_gt(driver_wait(&driver), 0);
    ck_assert_msg(strstr(driver.err.bytes, "ended by signal 9") != NULL, "%s", driver.err.bytes);
    expect_none_alive(children, CROWD);
}
END_TEST

static const char *const works[] = {"one-key", "unequal", "broken"};

START_TEST(a_signal_ends_a_work)
{
    pid_t children[CROWD];
    int count;

    START(&driver, "bench", LONG, works[_i]);
    AWAIT(!no_key_is_left());
    count = driver_children_of(driver.pid, children, CROWD);
    ck_assert_int_eq(count, _i == 0 ? 0 : 1); /* the proxy */
    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
    expect_none_alive(children, count);
    AWAIT(no_key_is_left());
}
END_TEST

START_TEST(a_proxy_ends_with_its_parent)
{
    pid_t children[CROWD];

    START(&driver, "bench", LONG, "unequal");
    WAIT_UNTIL(driver_children_of(driver.pid, children, CROWD) == 1);
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    expect_none_alive(children, 1);
}
END_TEST

START_TEST(a_proxy_that_dies_is_said)
{
    pid_t children[CROWD];

    START(&driver, "bench", LONG, "unequal");
    WAIT_UNTIL(driver_children_of(driver.pid, children, CROWD) == 1);
    AWAIT(!no_key_is_left());
    kill(children[0], SIGKILL);
    ck_assert_int_gt(driver_wait(&driver), 0);
    ck_assert_msg(strstr(driver.err.bytes, "unequal: ") != NULL, "%s", driver.err.bytes);
}
END_TEST

static Suite *bench_works_suite(void)
{
    Suite *suite = suite_create("cli bench works");
    TCase *t = tcase_create("bench works");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, threads_on_one_key);
    tcase_add_test(t, processes_on_one_key);
    tcase_add_test(t, the_base_comes_first_in_every_second_round);
    tcase_add_loop_test(t, a_smaller_crowd, 0, 4);
    tcase_add_loop_test(t, the_usual_one_has_aims, 0, 4);
    tcase_add_test(t, a_table_says_the_size);
    tcase_add_loop_test(t, each_of_a_larger_crowd_has_its_key, 0, 2); /* threads, loop */
    tcase_add_test(t, a_larger_crowd_of_processes);
    tcase_add_test(t, descriptors_are_had_as_far_as_it_goes);
    tcase_add_test(t, primaries_that_are_far);
    tcase_add_test(t, primaries_that_are_broken);
    tcase_add_loop_test(t, fewer_than_five_is_said, 0, 2);
    tcase_add_loop_test(t, one_elsewhere_is_said, 0, 2);
    tcase_add_test(t, a_signal_ends_a_crowd_of_processes);
    tcase_add_test(t, a_crowd_ends_with_its_parent);
    tcase_add_test(t, one_that_dies_ends_the_crowd_and_is_said);
    tcase_add_loop_test(t, a_signal_ends_a_work, 0, 3);
    tcase_add_test(t, a_proxy_ends_with_its_parent);
    tcase_add_test(t, a_proxy_that_dies_is_said);
    suite_add_tcase(suite, t);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, bench_works_suite);
}
