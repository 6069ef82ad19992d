/*
 * What redlock bench leaves behind, however it ends: none of the processes that it started (servers
 * of its own, the proxy, a crowd), and no directory.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    SERVERS = 5,
    CROWD = 16,
    CHILDREN = 32
};

#define MOMENT "--rounds", "1", "--seconds", "1s"
#define LONG "--rounds", "1", "--seconds", "60s"

static struct driver driver;
static char directory[64]; /* where temporary ones belong */
static pid_t children[CHILDREN];
static int count;

static void set_up(void)
{
    snprintf(directory, sizeof directory, "/tmp/redlock-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    setenv("TMPDIR", directory, 1);
    driver_set_nodes(NULL, 0);
}

/* It must be empty. */
static void expect_no_directory(void)
{
    ck_assert_int_eq(rmdir(directory), 0);
    ck_assert_int_eq(mkdir(directory, 0700), 0);
}

static void tear_down(void)
{
    ck_assert_int_eq(rmdir(directory), 0);
}

/* Frozen it starts no more of them. */
static void freeze(void)
{
    int status;

    ck_assert_int_eq(kill(driver.pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(driver.pid, &status, WUNTRACED), driver.pid);
    ck_assert(WIFSTOPPED(status));
}

static void thaw(void)
{
    ck_assert_int_eq(kill(driver.pid, SIGCONT), 0);
}

static void note_children(void)
{
    freeze();
    count = driver_children_of(driver.pid, children, CHILDREN);
}

static bool there_are(int wanted)
{
    return driver_children_of(driver.pid, children, CHILDREN) == wanted;
}

static void expect_none_alive(void)
{
    for (int i = 0; i < count; i++)
        ck_assert_msg(!driver_is_alive(children[i]), "%d of %d is alive", i, count);
}

static void await_none_alive(void)
{
    for (int i = 0; i < count; i++)
        WAIT_UNTIL(!driver_is_alive(children[i]));
}

/* ---- each kind of process, each end -------------------------------------------------------- */

static const struct work {
    const char *name;
    int children;
} works[] = {{"cycle", SERVERS}, {"unequal", SERVERS + 1}, {"one-key-processes", SERVERS + CROWD}};

enum {
    WORKS = sizeof works / sizeof works[0]
};

/* Until all that it starts is there; it is frozen then. */
static void start(const char *const *words, int wanted)
{
    driver_start(&driver, words);
    WAIT_UNTIL(there_are(wanted));
    note_children();
    ck_assert_int_eq(count, wanted);
    expect_no_directory();
}

START_TEST(by_itself)
{
    const struct work *work = &works[_i];

    start(WORDS("bench", MOMENT, work->name), work->children);
    thaw();
    ck_assert_int_eq(driver_wait(&driver), 0);
    expect_none_alive();
}
END_TEST

START_TEST(by_a_signal)
{
    const struct work *work = &works[_i / 3];
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    start(WORDS("bench", LONG, work->name), work->children);
    kill(driver.pid, signals[_i % 3]);
    thaw();
    ck_assert_int_eq(driver_wait(&driver), 128 + signals[_i % 3]);
    expect_none_alive();
}
END_TEST

/* The second one finds the first noted, and ends it at once. */
START_TEST(by_two_signals)
{
    const struct work *work = &works[_i];
    int status;

    start(WORDS("bench", LONG, work->name), work->children);
    kill(driver.pid, SIGINT);
    kill(driver.pid, SIGTERM);
    thaw();
    status = driver_wait(&driver);
    ck_assert(status == 128 + SIGINT || status == 128 + SIGTERM);
    ck_assert_str_eq(driver.out.bytes, "");
    await_none_alive();
}
END_TEST

START_TEST(by_a_signal_that_cant_be_handled)
{
    const struct work *work = &works[_i];

    start(WORDS("bench", LONG, work->name), work->children);
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    await_none_alive();
}
END_TEST

/* ---- before there is anything to measure ------------------------------------------------------
 */

START_TEST(killed_while_it_starts_servers)
{
    START(&driver, "bench", LONG, "cycle");
    WAIT_UNTIL(!there_are(0));
    note_children();
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    await_none_alive();
    expect_no_directory();
}
END_TEST

START_TEST(a_signal_while_it_starts_servers)
{
    START(&driver, "bench", LONG, "cycle");
    WAIT_UNTIL(!there_are(0));
    note_children();
    kill(driver.pid, SIGINT);
    thaw();
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    expect_none_alive();
    expect_no_directory();
}
END_TEST

/* ---- on a terminal --------------------------------------------------------------------------- */

/* Ctrl-C goes to the whole foreground; the servers are none of it. */
START_TEST(ctrl_c_ends_it_in_order)
{
    const char *const words[] = {REDLOCK_CLI_PATH, "bench", MOMENT, "--leases", "1",
                                 "cycle",          "held",  NULL};

    driver_start_program(&driver, words, 1);
    driver_expect(&driver, "held: round 1 of 1");
    note_children();
    ck_assert_int_eq(count, SERVERS);
    thaw();
    driver_type(&driver, "\003");
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, "cycle p50"));
    expect_none_alive();
}
END_TEST

static Suite *bench_ends_suite(void)
{
    Suite *suite = suite_create("cli bench ends");
    TCase *t = tcase_create("bench ends");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, by_itself, 0, WORKS);
    tcase_add_loop_test(t, by_a_signal, 0, 3 * WORKS);
    tcase_add_loop_test(t, by_two_signals, 0, WORKS);
    tcase_add_loop_test(t, by_a_signal_that_cant_be_handled, 0, WORKS);
    tcase_add_test(t, killed_while_it_starts_servers);
    tcase_add_test(t, a_signal_while_it_starts_servers);
    tcase_add_test(t, ctrl_c_ends_it_in_order);
    suite_add_tcase(suite, t);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, bench_ends_suite);
}
