/*
 * redlock run on a terminal: who is in the foreground, whom Ctrl-C and Ctrl-Z reach, and what comes
 * back.
 *
 * The shell is bash without its start files, once as the command and once as the one that starts
 * redlock; the program below it is a worker, which shows on its board that it lives. Prompts are
 * told apart from what was typed by the arithmetic in them.
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
    N = 3
};

#define PROMPT "ready> "
#define CTRL_C "\x03"
#define CTRL_Z "\x1a"
#define CTRL_BACKSLASH "\x1c"

static struct driver driver, other;
static struct worker_board *board;
static int asked, prompts;

static void set_up(void)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
    driver_mark();
    board = worker_board_new();
    setenv("TERM", "dumb", 1);
    setenv("PS1", PROMPT, 1);
    unsetenv("HISTFILE");
    unsetenv("PROMPT_COMMAND");
    asked = prompts = 0;
}

static void tear_down(void)
{
    worker_board_free(board);
    servers_stop();
}

static void start_shell(void)
{
    driver_start_program(&driver, WORDS("bash", "--norc", "--noprofile", "--noediting", "-i"), 1);
}

static void start_shell_under_lock(const char *ttl)
{
    driver_start_program(&driver,
                         WORDS(REDLOCK_CLI_PATH, "run", "--ttl", ttl, "k", "--", "bash", "--norc",
                               "--noprofile", "--noediting", "-i"),
                         1);
}

/* What is typed while the shell is busy with a signal may be lost: everything waits for its prompt.
 */
static void expect_prompt(void)
{
    prompts++;
    driver_expect_times(&driver, PROMPT, prompts);
}

static void type_line(const char *line)
{
    expect_prompt();
    driver_type(&driver, line);
}

/* Types a command; `run` puts redlock before the worker. */
static void type_worker(const char *run, const char *flags)
{
    char line[2048];

    snprintf(line, sizeof line, "%s%s --worker %s %s\n", run, worker_program(), worker_board_path(),
             flags);
    type_line(line);
    worker_wait(board, 1);
}

/* Asks the shell for the status of what ran last; the shell answers only when it has the terminal
 * back. */
static void expect_status(int status)
{
    char line[64], answer[64];

    asked++;
    snprintf(line, sizeof line, "echo [$?/$((%d+1000))]\n", asked);
    snprintf(answer, sizeof answer, "[%d/%d]", status, asked + 1000);
    type_line(line);
    driver_expect(&driver, answer);
}

static void leave(int status)
{
    char line[32];

    snprintf(line, sizeof line, "exit %d\n", status);
    type_line(line);
    ck_assert_int_eq(driver_wait(&driver), status);
}

static void expect_running(void)
{
    int64_t before = worker_last_beat(board);

    WAIT_UNTIL(worker_last_beat(board) > before);
}

/* ---- a shell under the lock ----------------------------------------------------- */

START_TEST(test_shell_owns_the_terminal)
{
    start_shell_under_lock("10s");
    expect_status(0);
    ck_assert_ptr_null(strstr(driver.out.bytes, "no job control"));
    ck_assert_int_eq(RUN(&other, "acquire", "k"), 75);
    leave(7);
    ck_assert_int_eq(RUN(&other, "acquire", "k"), 0);
}
END_TEST

START_TEST(test_ctrl_c_reaches_the_shell_s_child_and_not_the_shell)
{
    start_shell_under_lock("10s");
    type_worker("", "-");
    driver_type(&driver, CTRL_C);
    expect_status(130);
    ck_assert_int_eq(board->workers[0].signal, SIGINT);
    expect_prompt();
    driver_type(&driver, CTRL_C);
    expect_status(130);
    leave(3);
}
END_TEST

START_TEST(test_ctrl_z_and_fg_inside_the_shell)
{
    start_shell_under_lock("10s");
    type_worker("", "-");
    driver_type(&driver, CTRL_Z);
    driver_expect(&driver, "Stopped");
    expect_status(128 + SIGTSTP);
    type_line("fg\n");
    expect_running();
    driver_type(&driver, CTRL_C);
    expect_status(130);
    leave(0);
}
END_TEST

START_TEST(test_shell_and_its_jobs_end_with_the_lease)
{
    start_shell_under_lock("1s");
    type_worker("", "s"); /* the shell puts it into a group of its own */
    ck_assert_int_ne(getpgid(board->workers[0].pid),
                     getpgid(driver_child_of(driver_child_of(driver.pid))));
    servers_freeze(0);
    servers_freeze(1);
    ck_assert_int_eq(driver_wait(&driver), 73);
    ck_assert_int_eq(driver_is_alive(board->workers[0].pid), 0);
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, "the lease on 'k' cannot be renewed"));
}
END_TEST

/* ---- redlock as a job of a shell --------------------------------------------------- */

START_TEST(test_ctrl_c_ends_the_command)
{
    char run[1024];

    snprintf(run, sizeof run, "%s run k -- ", REDLOCK_CLI_PATH);
    start_shell();
    type_worker(run, "-");
    driver_type(&driver, CTRL_C);
    expect_status(130);
    ck_assert_int_eq(board->workers[0].signal, SIGINT);
    ck_assert_int_eq(RUN(&other, "show", "k"), 1);
    leave(0);
}
END_TEST

/* One Ctrl-C, as without redlock; the shell is told by how its child died, and its own copy. */
START_TEST(test_ctrl_c_ends_a_loop)
{
    char script[1024];

    snprintf(script, sizeof script,
             "for i in 1 2 3; do echo \"<$i>\"; %s run k -- %s --worker %s -; done; echo the end",
             REDLOCK_CLI_PATH, worker_program(), worker_board_path());
    driver_start_program(&driver, WORDS(_i ? "sh" : "bash", "-c", script), 1);
    worker_wait(board, 1);
    WAIT_UNTIL(tcgetpgrp(driver.out.fd) == board->workers[0].pid);
    driver_type(&driver, CTRL_C);
    ck_assert_int_eq(driver_wait(&driver), -SIGINT);
    ck_assert_int_eq(board->workers[0].signal, SIGINT);
    ck_assert_ptr_null(strstr(driver.out.bytes, "<2>"));
    ck_assert_ptr_null(strstr(driver.out.bytes, "the end"));
    ck_assert_int_eq(RUN(&other, "show", "k"), 1);
}
END_TEST

START_TEST(test_ctrl_backslash_ends_the_command)
{
    char run[1024];

    snprintf(run, sizeof run, "ulimit -c 0; %s run k -- ", REDLOCK_CLI_PATH);
    start_shell();
    type_worker(run, "-");
    driver_type(&driver, CTRL_BACKSLASH);
    expect_status(128 + SIGQUIT);
    leave(0);
}
END_TEST

START_TEST(test_ctrl_z_stops_the_job_and_fg_continues_it)
{
    char run[1024];

    snprintf(run, sizeof run, "%s run k -- ", REDLOCK_CLI_PATH);
    start_shell();
    type_worker(run, "-");
    driver_type(&driver, CTRL_Z);
    driver_expect(&driver, "Stopped");
    driver_expect(&driver, "the lease on 'k' is not renewed meanwhile");
    expect_status(128 + SIGTSTP);
    type_line("fg\n");
    expect_running();
    driver_type(&driver, CTRL_Z);
    driver_expect_times(&driver, "Stopped", 2);
    type_line("bg\n");
    expect_running();
    type_line("fg\n");
    WAIT_UNTIL(tcgetpgrp(driver.out.fd) != driver.pid); /* not the shell's any more */
    driver_type(&driver, CTRL_C);
    expect_status(130);
    leave(0);
}
END_TEST

START_TEST(test_a_job_left_stopped_ends_with_its_lease)
{
    char run[1024];

    snprintf(run, sizeof run, "%s run --ttl 3s k -- ", REDLOCK_CLI_PATH);
    start_shell();
    type_worker(run, "-");
    driver_type(&driver, CTRL_Z);
    driver_expect(&driver, "Stopped");
    worker_wait_dead(board);
    ck_assert_int_eq(board->workers[0].signal, SIGTERM);
    type_line("fg\n");
    expect_status(73);
    leave(0);
}
END_TEST

/* The worker's output is a pipe: its reader is in our group, and stays in the foreground. */
START_TEST(test_a_pipeline_stays_in_the_foreground)
{
    char line[2048];

    snprintf(
        line, sizeof line,
        "%s run k -- %s --worker %s - | bash -c 'trap \"\" INT; read x </dev/tty; echo \"<$x>\"'\n",
        REDLOCK_CLI_PATH, worker_program(), worker_board_path());
    start_shell();
    type_line(line);
    worker_wait(board, 1);
    driver_type(&driver, "hello\n");
    driver_expect(&driver, "<hello>");
    driver_type(&driver, CTRL_C);
    expect_status(0);
    ck_assert_int_eq(board->workers[0].signal, SIGINT);
    leave(0);
}
END_TEST

/* In a pipeline, too, a command that wants to read from the terminal gets it. */
START_TEST(test_a_command_in_a_pipeline_gets_the_terminal_when_it_reads)
{
    char line[1024];

    snprintf(line, sizeof line, "%s run k -- sh -c 'read x; echo \"<$x>\"' | cat\n",
             REDLOCK_CLI_PATH);
    start_shell();
    type_line(line);
    driver_type(&driver, "hello\n");
    driver_expect(&driver, "<hello>");
    expect_status(0);
    leave(0);
}
END_TEST

START_TEST(test_terminal_modes_come_back_from_a_killed_command)
{
    char line[1024];

    snprintf(line, sizeof line,
             "%s run --max-hold 1s --ttl 1s k -- sh -c 'stty raw -echo; sleep 100'\n",
             REDLOCK_CLI_PATH);
    driver_start_program(&driver, WORDS("sh"), 1); /* one that does not care for modes itself */
    type_line(line);
    driver_expect(&driver, "--max-hold: the command is ended");
    type_line("stty -a; echo [$((1000+1))]\n");
    driver_expect(&driver, "[1001]");
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, " icanon"));
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, " echo "));
    leave(0);
}
END_TEST

/* ---- waiting -------------------------------------------------------------------- */

START_TEST(test_waiting_is_said_and_ctrl_c_ends_it)
{
    ck_assert_int_eq(RUN(&other, "acquire", "--ttl", "60s", "k"), 0);
    driver_start_program(&driver, WORDS(REDLOCK_CLI_PATH, "run", "k", "--", "true"), 1);
    driver_expect(&driver, "waiting for 'k': held by ");
    driver_expect(&driver, " left");
    driver_type(&driver, CTRL_C);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
}
END_TEST

START_TEST(test_waiting_can_be_stopped_and_continued)
{
    char line[1024];

    ck_assert_int_eq(RUN(&other, "acquire", "--ttl", "60s", "k"), 0);
    snprintf(line, sizeof line, "%s run k -- sh -c 'exit 4'\n", REDLOCK_CLI_PATH);
    start_shell();
    type_line(line);
    driver_expect(&driver, "waiting for 'k': held by ");
    driver_type(&driver, CTRL_Z);
    driver_expect(&driver, "Stopped");
    type_line("fg\n");
    for (int i = 0; i < N; i++)
        servers_command(i, "DEL", "k", NULL);
    expect_status(4);
    leave(0);
}
END_TEST

static Suite *terminal_suite(void)
{
    Suite *suite = suite_create("cli terminal");
    TCase *tests = tcase_create("terminal");

    if (access("/bin/bash", X_OK) != 0)
        return suite;
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_shell_owns_the_terminal);
    tcase_add_test(tests, test_ctrl_c_reaches_the_shell_s_child_and_not_the_shell);
    tcase_add_test(tests, test_ctrl_z_and_fg_inside_the_shell);
    tcase_add_test(tests, test_shell_and_its_jobs_end_with_the_lease);
    tcase_add_test(tests, test_ctrl_c_ends_the_command);
    tcase_add_loop_test(tests, test_ctrl_c_ends_a_loop, 0, 2);
    tcase_add_test(tests, test_ctrl_backslash_ends_the_command);
    tcase_add_test(tests, test_ctrl_z_stops_the_job_and_fg_continues_it);
    tcase_add_test(tests, test_a_job_left_stopped_ends_with_its_lease);
    tcase_add_test(tests, test_a_pipeline_stays_in_the_foreground);
    tcase_add_test(tests, test_a_command_in_a_pipeline_gets_the_terminal_when_it_reads);
    tcase_add_test(tests, test_terminal_modes_come_back_from_a_killed_command);
    tcase_add_test(tests, test_waiting_is_said_and_ctrl_c_ends_it);
    tcase_add_test(tests, test_waiting_can_be_stopped_and_continued);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, terminal_suite);
}
