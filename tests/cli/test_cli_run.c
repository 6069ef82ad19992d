/*
 * redlock run with real primaries: the command's status, signals, descriptors and environment, and
 * the lock around it. What happens when processes die or leases are lost is in test_cli_lease.c.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    N = 3
};

static struct driver driver, other;
static struct worker_board *board;

static void set_up(void)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
    driver_mark();
    board = worker_board_new();
}

static void tear_down(void)
{
    worker_board_free(board);
    servers_stop();
}

static void start_worker(const char *ttl, const char *flags, const char *more)
{
    START(&driver, "run", "--json", "--ttl", ttl, "k", "--", worker_program(), "--worker",
          worker_board_path(), flags, more);
    worker_wait(board, more ? 2 : 1);
}

static void expect_free(const char *key)
{
    ck_assert_int_eq(RUN(&other, "show", key), 1);
}

/* ---- status ---------------------------------------------------------------- */

START_TEST(test_status_of_the_command_passes)
{
    static const int statuses[] = {0, 1, 3, 64, 69, 73, 75, 127, 255};

    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        char script[32];

        snprintf(script, sizeof script, "exit %d", statuses[i]);
        ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", script), statuses[i]);
        ck_assert_str_eq(driver.err.bytes, "");
    }
    expect_free("k");
}
END_TEST

START_TEST(test_signal_of_the_command_is_128_and_its_number)
{
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", "kill -KILL $$"), 128 + SIGKILL);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", "kill -TERM $$"), 128 + SIGTERM);
    expect_free("k");
}
END_TEST

START_TEST(test_a_command_that_is_not_there_is_127)
{
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "redlock-no-such-command"), 127);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "command not found"));
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "/no/such/command"), 127);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "No such file"));
    expect_free("k");
}
END_TEST

START_TEST(test_a_command_that_cannot_be_executed_is_126)
{
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "/dev/null"), 126);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "ermission denied"));
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "/"), 126);
    expect_free("k");
}
END_TEST

/* ---- what the command finds ------------------------------------------------- */

START_TEST(test_environment_names_key_and_token)
{
    const char *out = driver.out.bytes;

    ck_assert_int_eq(
        RUN(&driver, "run", "the key", "--", "sh", "-c", "echo \"$REDLOCK_KEY=$REDLOCK_TOKEN\""),
        0);
    ck_assert_int_eq(strncmp(out, "the key=", 8), 0);
    ck_assert_ptr_nonnull(strchr(out + 8, ':'));
}
END_TEST

START_TEST(test_token_in_the_environment_is_the_lock_s)
{
    char script[1024];

    snprintf(script, sizeof script,
             "%s extend --ttl 20s \"$REDLOCK_KEY\" \"$REDLOCK_TOKEN\" >/dev/null && exit 5",
             REDLOCK_CLI_PATH);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", script), 5);
}
END_TEST

START_TEST(test_standard_input_passes_through)
{
    char script[1024];

    snprintf(script, sizeof script, "echo hello | %s run k -- cat", REDLOCK_CLI_PATH);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), 0);
    ck_assert_str_eq(driver.out.bytes, "hello\n");
}
END_TEST

/* The same program says the same with and without the lock around it. */
static void expect_same(const char *shell)
{
    char script[1024];

    driver_start_program(&other, WORDS("sh", "-c", shell), 0);
    ck_assert_int_eq(driver_wait(&other), 0);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", shell), 0);
    ck_assert_str_eq(driver.out.bytes, other.out.bytes);
    snprintf(script, sizeof script,
             "exec 7</dev/null; trap '' HUP USR1; exec %s run k -- sh -c '%s'", REDLOCK_CLI_PATH,
             shell);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), 0);
    snprintf(script, sizeof script, "exec 7</dev/null; trap '' HUP USR1; exec sh -c '%s'", shell);
    driver_start_program(&other, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&other), 0);
    ck_assert_str_eq(driver.out.bytes, other.out.bytes);
}

START_TEST(test_no_descriptor_of_ours_is_inherited)
{
    expect_same("ls /proc/self/fd");
}
END_TEST

START_TEST(test_closed_standard_descriptors_stay_closed)
{
    static const char inner[] = "sh -c 'ls /proc/self/fd'";
    char script[1024];

    snprintf(script, sizeof script, "exec 0<&- 2>&-; exec %s", inner);
    driver_start_program(&other, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&other), 0);
    snprintf(script, sizeof script, "exec 0<&- 2>&-; exec %s run k -- %s", REDLOCK_CLI_PATH, inner);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), 0);
    ck_assert_str_eq(driver.out.bytes, other.out.bytes);
}
END_TEST

START_TEST(test_events_nobody_can_get_do_not_matter)
{
    char script[1024];

    snprintf(script, sizeof script, "exec %s run --json k -- sh -c 'exit 5' 2>&-",
             REDLOCK_CLI_PATH);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), 5);
    expect_free("k");
}
END_TEST

/* Starts the worker with a pipe as standard error that has no room at all, and no reader who makes
 * some. Returns the end to read from. */
static int start_unheard(const char *option)
{
    char script[2048], byte = 'x';
    int fds[2];

    ck_assert_int_eq(pipe(fds), 0);
    fcntl(fds[0], F_SETFD, FD_CLOEXEC);
    fcntl(fds[1], F_SETFL, O_NONBLOCK);
    while (write(fds[1], &byte, 1) == 1)
        ;
    fcntl(fds[1], F_SETFL, 0);
    snprintf(script, sizeof script, "exec %s run %s --ttl 1s k -- %s --worker %s - 2>&%d",
             REDLOCK_CLI_PATH, option, worker_program(), worker_board_path(), fds[1]);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    close(fds[1]);
    worker_wait(board, 1);
    return fds[0];
}

static const char *const talkative[] = {"--json", "-vv", "--json -vv"};

START_TEST(test_nobody_reads_standard_error)
{
    int reader = start_unheard(talkative[_i]);
    int64_t end_ns = driver_now_ns() + INT64_C(1500000000);

    WAIT_UNTIL(worker_last_beat(board) > end_ns); /* it lives longer than its first lease */
    board->stop = 1 + 6;
    ck_assert_int_eq(driver_wait(&driver), 6);
    expect_free("k");
    close(reader);
}
END_TEST

START_TEST(test_signals_pass_where_nobody_reads_standard_error)
{
    int reader = start_unheard("--json");

    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
    expect_free("k");
    close(reader);
}
END_TEST

START_TEST(test_what_nobody_read_is_counted)
{
    int reader = start_unheard("--json");
    char text[4096];
    size_t count = 0;
    ssize_t n;

    while (count < 40000) { /* room for all that follows */
        n = read(reader, text, sizeof text);
        ck_assert_int_gt(n, 0);
        count += (size_t)n;
    }
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
    for (count = 0; (n = read(reader, text, sizeof text - 1)) > 0 && count == 0;) {
        text[n] = '\0';
        count += strstr(text, "\"key\":\"k\",\"dropped\":") != NULL;
    }
    ck_assert_uint_eq(count, 1);
    close(reader);
}
END_TEST

START_TEST(test_signals_are_as_they_were)
{
    expect_same("grep -E \"Sig(Blk|Ign|Cgt)|ShdPnd\" /proc/self/status");
}
END_TEST

START_TEST(test_command_has_a_group_of_its_own)
{
    pid_t guardian;

    start_worker("10s", "-", NULL);
    guardian = driver_child_of(driver.pid);
    ck_assert_int_eq(driver_child_of(guardian), board->workers[0].pid);
    ck_assert_int_eq(getpgid(board->workers[0].pid), board->workers[0].pid);
    ck_assert_int_eq(getpgid(guardian), guardian);
    ck_assert_int_eq(getsid(board->workers[0].pid), getsid(driver.pid));
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
}
END_TEST

/* ---- signals ----------------------------------------------------------------- */

START_TEST(test_signals_reach_the_whole_group)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    int number = numbers[_i];

    start_worker("10s", "-", "-");
    kill(driver.pid, number);
    ck_assert_int_eq(driver_wait(&driver), 128 + number);
    worker_wait_dead(board);
    ck_assert_int_eq(board->workers[0].signal, number);
    ck_assert_int_eq(board->workers[1].signal, number);
    ck_assert_ptr_nonnull(
        strstr(driver.err.bytes, "\"event\":\"released\",\"key\":\"k\",\"result\":\"ok\""));
    expect_free("k");
}
END_TEST

START_TEST(test_a_command_that_ignores_a_signal_goes_on)
{
    start_worker("1s", "s", NULL);
    kill(driver.pid, SIGTERM);
    driver_expect_times(&driver, "\"renewed\"", 3);
    ck_assert_int_eq(RUN(&other, "acquire", "k"), 75);
    board->stop = 1 + 4;
    ck_assert_int_eq(driver_wait(&driver), 4);
    expect_free("k");
}
END_TEST

START_TEST(test_signal_while_waiting_ends_the_wait)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    int number = numbers[_i];

    start_worker("10s", "-", NULL);
    START(&other, "run", "--json", "k", "--", "true");
    driver_expect(&other, "\"waiting\"");
    kill(other.pid, number);
    ck_assert_int_eq(driver_wait(&other), 128 + number);
    ck_assert_ptr_null(strstr(other.err.bytes, "\"acquired\""));
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
    expect_free("k");
}
END_TEST

/* ---- the lock around it ------------------------------------------------------- */

START_TEST(test_held_all_the_time_and_free_right_after)
{
    start_worker("1s", "-", NULL);
    for (int renewed = 0; renewed < 6; renewed = driver_count(driver.err.bytes, "\"renewed\"")) {
        ck_assert_int_eq(RUN(&other, "acquire", "--wait", "0", "k"), 75);
        driver_expect_times(&driver, "\"renewed\"", renewed + 1);
    }
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
    ck_assert_int_eq(RUN(&other, "acquire", "--wait", "0", "k"), 0);
}
END_TEST

START_TEST(test_second_run_waits_for_the_first)
{
    start_worker("10s", "-", NULL);
    START(&other, "run", "--json", "k", "--", "sh", "-c", "exit 9");
    driver_expect(&other, "\"waiting\"");
    ck_assert_int_eq(other.ended, 0);
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
    ck_assert_int_eq(driver_wait(&other), 9);
}
END_TEST

START_TEST(test_busy_is_75_or_what_was_asked_for)
{
    start_worker("10s", "-", NULL);
    ck_assert_int_eq(RUN(&other, "run", "-n", "k", "--", "true"), 75);
    ck_assert_ptr_nonnull(strstr(other.err.bytes, "'k' is held by somebody else"));
    ck_assert_int_eq(RUN(&other, "run", "-n", "-E", "0", "k", "--", "false"), 0);
    ck_assert_int_eq(RUN(&other, "run", "--wait", "1s", "--conflict-exit-code=9", "k", "true"), 9);
    ck_assert_int_eq(RUN(&other, "run", "--json", "-n", "k", "--", "true"), 75);
    ck_assert_ptr_nonnull(
        strstr(other.err.bytes, "\"event\":\"failed\",\"key\":\"k\",\"result\":\"busy\""));
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
}
END_TEST

START_TEST(test_what_the_command_leaves_behind_lives_and_the_lock_is_free)
{
    start_worker("10s", "o", "-");
    ck_assert_int_eq(driver_wait(&driver), 0);
    expect_free("k");
    ck_assert_int_eq(driver_is_alive(board->workers[1].pid), 1);
    kill(board->workers[1].pid, SIGKILL);
}
END_TEST

START_TEST(test_max_hold_ends_the_command)
{
    int64_t started_ns = driver_now_ns();

    START(&driver, "run", "--ttl", "1s", "--max-hold", "1s", "k", "--", worker_program(),
          "--worker", worker_board_path(), "s");
    ck_assert_int_eq(driver_wait(&driver), 73);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "--max-hold"));
    ck_assert_int_eq(driver_count(driver.err.bytes, "\n"), 1);
    ck_assert_int_gt(worker_last_beat(board), started_ns);
    expect_free("k");
}
END_TEST

START_TEST(test_events_tell_the_story)
{
    static const char *const events[] = {"acquired", "started", "exited", "released"};
    const char *at;

    start_worker("1s", "-", NULL);
    driver_expect(&driver, "\"renewed\"");
    board->stop = 1 + 7;
    ck_assert_int_eq(driver_wait(&driver), 7);
    /* The first renewal comes as soon as all have answered: before or after the start. */
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "{\"event\":\"renewed\",\"key\":\"k\""));
    at = driver.err.bytes;
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        char event[64];

        snprintf(event, sizeof event, "{\"event\":\"%s\",\"key\":\"k\"", events[i]);
        at = strstr(at, event);
        ck_assert_msg(at != NULL, "no %s after what is before it in:\n%s", event, driver.err.bytes);
    }
    ck_assert_int_eq(driver_last_number(&driver, "status"), 7);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"clock\":\"CLOCK_BOOTTIME\""));
    ck_assert_int_gt(driver_last_number(&driver, "deadline_ns"),
                     driver_now_ns() - INT64_C(10000000000));
}
END_TEST

START_TEST(test_verbose_tells_each_vote)
{
    ck_assert_int_eq(RUN(&driver, "run", "-v", "k", "--", "true"), 0);
    for (int i = 0; i < N; i++)
        ck_assert_ptr_nonnull(strstr(driver.err.bytes, servers_uri(i) + strlen("redis://")));
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "ours ("));
}
END_TEST

static Suite *run_suite(void)
{
    Suite *suite = suite_create("cli run");
    TCase *tests = tcase_create("run");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_status_of_the_command_passes);
    tcase_add_test(tests, test_signal_of_the_command_is_128_and_its_number);
    tcase_add_test(tests, test_a_command_that_is_not_there_is_127);
    tcase_add_test(tests, test_a_command_that_cannot_be_executed_is_126);
    tcase_add_test(tests, test_environment_names_key_and_token);
    tcase_add_test(tests, test_token_in_the_environment_is_the_lock_s);
    tcase_add_test(tests, test_standard_input_passes_through);
    tcase_add_test(tests, test_no_descriptor_of_ours_is_inherited);
    tcase_add_test(tests, test_closed_standard_descriptors_stay_closed);
    tcase_add_test(tests, test_events_nobody_can_get_do_not_matter);
    tcase_add_loop_test(tests, test_nobody_reads_standard_error, 0, 3);
    tcase_add_test(tests, test_signals_pass_where_nobody_reads_standard_error);
    tcase_add_test(tests, test_what_nobody_read_is_counted);
    tcase_add_test(tests, test_signals_are_as_they_were);
    tcase_add_test(tests, test_command_has_a_group_of_its_own);
    tcase_add_loop_test(tests, test_signals_reach_the_whole_group, 0, 4);
    tcase_add_test(tests, test_a_command_that_ignores_a_signal_goes_on);
    tcase_add_loop_test(tests, test_signal_while_waiting_ends_the_wait, 0, 3);
    tcase_add_test(tests, test_held_all_the_time_and_free_right_after);
    tcase_add_test(tests, test_second_run_waits_for_the_first);
    tcase_add_test(tests, test_busy_is_75_or_what_was_asked_for);
    tcase_add_test(tests, test_what_the_command_leaves_behind_lives_and_the_lock_is_free);
    tcase_add_test(tests, test_max_hold_ends_the_command);
    tcase_add_test(tests, test_events_tell_the_story);
    tcase_add_test(tests, test_verbose_tells_each_vote);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, run_suite);
}
