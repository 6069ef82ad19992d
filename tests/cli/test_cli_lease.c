/*
 * redlock run when something dies, stops or is lost: nothing of the command may live when the
 * validity has ended.
 *
 * Proof is the command's own last sign of life, a time of the same clock as the deadlines that the
 * tool reports, which is compared with the last deadline that was in force. All members of the
 * command's family report. Leases are short here, and what is measured is who was earlier, never
 * how long anything took.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    N = 5
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

/* Runs a family of one to four; see worker.h for the flags of each. */
static void start_family(const char *ttl, const char *const *flags, int count)
{
    const char *words[DRIVER_WORDS_MAX] = {
        "run",      "--json",           "--ttl", ttl, "k", "--", worker_program(),
        "--worker", worker_board_path()};

    for (int i = 0; i < count; i++)
        words[9 + i] = flags[i];
    driver_start(&driver, words);
    worker_wait(board, count);
    driver_expect(&driver, "\"renewed\"");
}

#define START_FAMILY(ttl, ...)                                                                     \
    start_family(ttl, WORDS(__VA_ARGS__), (int)(sizeof WORDS(__VA_ARGS__) / sizeof(char *)) - 1)

static void freeze_majority(void)
{
    for (int i = 0; i < 3; i++)
        servers_freeze(i);
}

static void thaw_majority(void)
{
    for (int i = 0; i < 3; i++)
        servers_thaw(i);
}

/* Everything ended by itself, and had ended before the last deadline that was said. */
static void expect_dead_in_time(void)
{
    int64_t deadline_ns;

    worker_wait_dead(board);
    deadline_ns = driver_last_number(&driver, "deadline_ns");
    ck_assert_int_gt(deadline_ns, 0);
    ck_assert_int_lt(worker_last_beat(board), deadline_ns);
}

static void expect_lost(void)
{
    ck_assert_int_eq(driver_wait(&driver), 73);
    for (int i = 0; i < WORKER_MAX; i++) /* before the tool itself ended */
        ck_assert_int_eq(board->workers[i].pid != 0 && driver_is_alive(board->workers[i].pid), 0);
    expect_dead_in_time();
}

/* ---- the lease is lost ------------------------------------------------------ */

START_TEST(test_majority_frozen)
{
    START_FAMILY("1s", "s", "s");
    freeze_majority();
    expect_lost();
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"event\":\"renewal_failing\""));
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"event\":\"terminating\""));
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"event\":\"killed\""));
}
END_TEST

START_TEST(test_majority_killed)
{
    START_FAMILY("1s", "s");
    for (int i = 0; i < 3; i++)
        servers_kill(i);
    expect_lost();
}
END_TEST

START_TEST(test_minority_killed_is_no_loss)
{
    int renewed;

    START_FAMILY("1s", "s");
    servers_kill(0);
    servers_freeze(1);
    driver_expect(&driver, "\"renewed\"");
    renewed = driver_count(driver.err.bytes, "\"renewed\"");
    driver_expect_times(&driver, "\"renewed\"", renewed + 4);
    board->stop = 1 + 3;
    ck_assert_int_eq(driver_wait(&driver), 3);
}
END_TEST

START_TEST(test_key_taken_away)
{
    START_FAMILY("1s", "s", "s");
    for (int i = 0; i < 3; i++)
        servers_command(i, "SET", "k", "somebody else", NULL);
    expect_lost();
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"event\":\"lost\""));
    ck_assert_str_eq(servers_command(0, "GET", "k", NULL), "somebody else");
}
END_TEST

/* Not only when its time would be up: somebody else may hold it already. */
START_TEST(test_loss_ends_the_command_before_its_time)
{
    START_FAMILY("3s", "-");
    for (int i = 0; i < 3; i++)
        servers_command(i, "SET", "k", "somebody else", NULL);
    expect_lost();
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
    ck_assert_int_lt(worker_last_beat(board),
                     driver_last_number(&driver, "deadline_ns") - 3 * INT64_C(1000000000) / 5);
}
END_TEST

START_TEST(test_one_line_says_why)
{
    START(&driver, "run", "--ttl", "3s", "k", "--", worker_program(), "--worker",
          worker_board_path(), "s");
    worker_wait(board, 1);
    freeze_majority();
    ck_assert_int_eq(driver_wait(&driver), 73);
    ck_assert_int_eq(driver_count(driver.err.bytes, "\n"), 1);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "the lease on 'k' "));
    ck_assert_msg(strstr(driver.err.bytes, servers_uri(1) + strlen("redis://")) != NULL, "%s",
                  driver.err.bytes);
}
END_TEST

START_TEST(test_a_command_that_cleans_up_in_its_grace_is_not_killed)
{
    START_FAMILY("3s", "-", "-");
    freeze_majority();
    expect_lost();
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
    ck_assert_int_eq(board->workers[1].signal, SIGTERM);
    ck_assert_ptr_null(strstr(driver.err.bytes, "\"event\":\"killed\""));
}
END_TEST

START_TEST(test_a_stopped_command_is_ended_too)
{
    START_FAMILY("3s", "-");
    kill(board->workers[0].pid, SIGSTOP);
    driver_expect(&driver, "\"event\":\"stopped\"");
    freeze_majority();
    expect_lost();
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
}
END_TEST

START_TEST(test_who_left_the_group_is_ended_too)
{
    START_FAMILY("1s", "s", "sg", "sd", "s");
    freeze_majority();
    expect_lost();
}
END_TEST

START_TEST(test_orphans_are_ended_too)
{
    START_FAMILY("1s", "s", "og", "od", "sd");
    freeze_majority();
    expect_lost();
}
END_TEST

START_TEST(test_a_child_that_survives_its_parent_s_TERM_is_ended_too)
{
    START_FAMILY("6s", "-", "s", "sg");
    freeze_majority();
    expect_lost();
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
    ck_assert_int_eq(driver_last_number(&driver, "signal"), SIGTERM);
}
END_TEST

START_TEST(test_not_taken_back_when_the_majority_wakes_up)
{
    START_FAMILY("1s", "s");
    freeze_majority();
    driver_expect(&driver, "\"event\":\"terminating\"");
    thaw_majority(); /* renewing may succeed now; the command was asked to end all the same */
    expect_lost();
}
END_TEST

/* ---- one of us dies or stops -------------------------------------------------- */

/* At once: the lease would live longer than the patience of this test. */
START_TEST(test_wrapper_killed)
{
    START(&driver, "run", "--json", "--ttl", "60s", "k", "--", worker_program(), "--worker",
          worker_board_path(), "s", "s", "sg", "sd");
    worker_wait(board, 4);
    driver_expect(&driver, "\"started\"");
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    expect_dead_in_time();
    ck_assert_int_eq(RUN(&other, "show", "k"), 0); /* nobody released it */
}
END_TEST

START_TEST(test_key_of_a_killed_wrapper_goes_at_its_ttl)
{
    START_FAMILY("2s", "s");
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    expect_dead_in_time();
    ck_assert_int_eq(RUN(&other, "acquire", "-n", "k"), 75);
    ck_assert_int_eq(RUN(&other, "acquire", "--wait", "10s", "k"), 0);
}
END_TEST

START_TEST(test_wrapper_killed_after_the_command_ended_kills_what_is_left)
{
    START_FAMILY("2s", "s", "s");
    kill(driver.pid, SIGSTOP); /* so that it does not release */
    kill(board->workers[0].pid, SIGKILL);
    kill(driver.pid, SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), -SIGKILL);
    expect_dead_in_time();
}
END_TEST

START_TEST(test_wrapper_frozen)
{
    START_FAMILY("1s", "s", "s", "sg");
    kill(driver.pid, SIGSTOP);
    worker_wait_dead(board);
    ck_assert_int_eq(driver.ended, 0);
    kill(driver.pid, SIGCONT);
    expect_lost();
}
END_TEST

START_TEST(test_guardian_killed)
{
    START_FAMILY("10s", "s", "s", "sg", "sd");
    kill(driver_child_of(driver.pid), SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), 70);
    expect_dead_in_time();
    ck_assert_int_eq(RUN(&other, "show", "k"), 1);
}
END_TEST

/* A shell that execs leaves us the children it has. They are not the command's. */
START_TEST(test_guardian_killed_spares_who_was_there_before)
{
    char script[2048];
    int64_t before;

    snprintf(script, sizeof script,
             "sleep 100 & echo $!; exec %s run --json k -- %s --worker %s s sd", REDLOCK_CLI_PATH,
             worker_program(), worker_board_path());
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    worker_wait(board, 2);
    driver_expect(&driver, "\"started\"");
    before = strtol(driver.out.bytes, NULL, 10);
    ck_assert_int_gt(before, 0);
    kill(driver_parent_of(board->workers[0].pid), SIGKILL);
    ck_assert_int_eq(driver_wait(&driver), 70);
    expect_dead_in_time();
    ck_assert_int_eq(driver_is_alive((pid_t)before), 1);
    kill((pid_t)before, SIGKILL);
}
END_TEST

START_TEST(test_guardian_frozen_and_majority_frozen)
{
    START_FAMILY("1s", "s", "s", "sg");
    kill(driver_child_of(driver.pid), SIGSTOP);
    freeze_majority();
    expect_lost();
}
END_TEST

/* Who ends the command in the guardian's place tells how it ended, not what was done last. */
START_TEST(test_guardian_frozen_after_the_command_ended)
{
    START_FAMILY("1s", "-", "s");
    kill(driver_child_of(driver.pid), SIGSTOP);
    kill(board->workers[0].pid, SIGTERM);
    freeze_majority();
    expect_lost();
    ck_assert_int_eq(driver_last_number(&driver, "signal"), SIGTERM);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "\"event\":\"killed\""));
}
END_TEST

/* It slept longer than a lease; meanwhile the lease was renewed. */
START_TEST(test_guardian_that_wakes_up_reads_before_it_kills)
{
    pid_t guardian;
    int renewed;

    START_FAMILY("1s", "s");
    guardian = driver_child_of(driver.pid);
    kill(guardian, SIGSTOP);
    renewed = driver_count(driver.err.bytes, "\"renewed\"");
    driver_expect_times(&driver, "\"renewed\"", renewed + 5);
    kill(guardian, SIGCONT);
    renewed = driver_count(driver.err.bytes, "\"renewed\"");
    driver_expect_times(&driver, "\"renewed\"", renewed + 3);
    board->stop = 1 + 3;
    ck_assert_int_eq(driver_wait(&driver), 3);
}
END_TEST

START_TEST(test_guardian_has_a_name_of_its_own)
{
    char path[64], name[32] = "";
    FILE *file;

    START_FAMILY("1s", "-");
    snprintf(path, sizeof path, "/proc/%ld/comm", (long)driver_child_of(driver.pid));
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(name, sizeof name, file));
    fclose(file);
    ck_assert_str_eq(name, "rlk-guardian\n");
    board->stop = 1;
    ck_assert_int_eq(driver_wait(&driver), 0);
}
END_TEST

START_TEST(test_guardian_ignores_signals)
{
    static const int numbers[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                  SIGTSTP, SIGUSR1, SIGUSR2, SIGPIPE};
    pid_t guardian;

    START_FAMILY("1s", "s");
    guardian = driver_child_of(driver.pid);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        kill(guardian, numbers[i]);
    freeze_majority(); /* so it must do its work now */
    expect_lost();
}
END_TEST

static Suite *lease_suite(void)
{
    Suite *suite = suite_create("cli lease");
    TCase *lost = tcase_create("lost");
    TCase *dead = tcase_create("dead");

    tcase_add_checked_fixture(lost, set_up, tear_down);
    tcase_set_timeout(lost, 60);
    tcase_add_test(lost, test_majority_frozen);
    tcase_add_test(lost, test_majority_killed);
    tcase_add_test(lost, test_minority_killed_is_no_loss);
    tcase_add_test(lost, test_key_taken_away);
    tcase_add_test(lost, test_loss_ends_the_command_before_its_time);
    tcase_add_test(lost, test_one_line_says_why);
    tcase_add_test(lost, test_a_command_that_cleans_up_in_its_grace_is_not_killed);
    tcase_add_test(lost, test_a_stopped_command_is_ended_too);
    tcase_add_test(lost, test_who_left_the_group_is_ended_too);
    tcase_add_test(lost, test_orphans_are_ended_too);
    tcase_add_test(lost, test_a_child_that_survives_its_parent_s_TERM_is_ended_too);
    tcase_add_test(lost, test_not_taken_back_when_the_majority_wakes_up);
    suite_add_tcase(suite, lost);
    tcase_add_checked_fixture(dead, set_up, tear_down);
    tcase_set_timeout(dead, 60);
    tcase_add_test(dead, test_wrapper_killed);
    tcase_add_test(dead, test_key_of_a_killed_wrapper_goes_at_its_ttl);
    tcase_add_test(dead, test_wrapper_killed_after_the_command_ended_kills_what_is_left);
    tcase_add_test(dead, test_wrapper_frozen);
    tcase_add_test(dead, test_guardian_killed);
    tcase_add_test(dead, test_guardian_killed_spares_who_was_there_before);
    tcase_add_test(dead, test_guardian_frozen_and_majority_frozen);
    tcase_add_test(dead, test_guardian_frozen_after_the_command_ended);
    tcase_add_test(dead, test_guardian_that_wakes_up_reads_before_it_kills);
    tcase_add_test(dead, test_guardian_has_a_name_of_its_own);
    tcase_add_test(dead, test_guardian_ignores_signals);
    suite_add_tcase(suite, dead);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, lease_suite);
}
