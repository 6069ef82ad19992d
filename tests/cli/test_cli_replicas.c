/*
 * --replicas: a single primary with a replica, as one process after another sees them.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    PRIMARY = 0,
    REPLICA = 1,
    NO_QUORUM = 69,
    BUSY = 75
};

static struct driver driver;

static const char *value_at(int i, const char *key)
{
    const char *value = servers_command(i, "GET", key, NULL);

    return value != NULL ? value : "";
}

/* Marked first: a primary with replicas is none that is durable, and that would be said. */
static void set_up(void)
{
    servers_start(2);
    driver_set_nodes(servers_uris(), 1);
    driver_mark();
    servers_replicate(REPLICA, PRIMARY);
    (void)servers_command(PRIMARY, "SET", "probe", "1", NULL); /* what follows reaches it, too */
    WAIT_UNTIL(strcmp(value_at(REPLICA, "probe"), "1") == 0);
}

static void tear_down(void)
{
    servers_stop();
}

static void take_line(char token[128])
{
    (void)snprintf(token, 128, "%.*s", (int)strcspn(driver.out.bytes, "\n"), driver.out.bytes);
}

START_TEST(test_what_was_acknowledged_is_at_the_replica)
{
    char token[128];
    int64_t left_ms;

    ck_assert_int_eq(
        RUN(&driver, "acquire", "--ttl", "20s", "--replicas", "1", "--replica-timeout", "10s", "k"),
        0);
    take_line(token);
    ck_assert_int_eq(strncmp(token, value_at(REPLICA, "k"), 32), 0); /* the moment it returned */
    ck_assert_int_eq(RUN(&driver, "extend", "--ttl", "50s", "--replicas", "1", "--replica-timeout",
                         "10s", "k", token),
                     0);
    left_ms = atoll(servers_command(REPLICA, "PTTL", "k", NULL));
    ck_assert_int_gt(left_ms, 20000);
    ck_assert_int_eq(RUN(&driver, "release", "k", token), 0);
    WAIT_UNTIL(value_at(REPLICA, "k")[0] == '\0');
}
END_TEST

START_TEST(test_a_lock_outlives_its_primary)
{
    char token[128];

    ck_assert_int_eq(
        RUN(&driver, "acquire", "--ttl", "30s", "--replicas", "1", "--replica-timeout", "10s", "k"),
        0);
    take_line(token);
    servers_kill(PRIMARY);
    servers_promote(REPLICA);
    driver_set_nodes(servers_uris() + REPLICA, 1);
    ck_assert_int_eq(RUN(&driver, "acquire", "--restart-guard", "0", "k"), BUSY);
    ck_assert_int_eq(strncmp(token, value_at(REPLICA, "k"), 32), 0);
}
END_TEST

START_TEST(test_run_holds_what_the_replica_has)
{
    char path[64], command[160];

    (void)driver_file("the command ends without it\n", path);
    (void)snprintf(command, sizeof command,
                   "echo \"$REDLOCK_TOKEN inside\"; while [ -e %s ]; do sleep 0.02; done; exit 9",
                   path);
    START(&driver, "run", "--replicas", "1", "--replica-timeout", "10s", "k", "--", "sh", "-c",
          command);
    driver_expect(&driver, " inside");
    ck_assert_uint_eq(strlen(value_at(REPLICA, "k")), 32);
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, value_at(REPLICA, "k")));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(driver_wait(&driver), 9);
    WAIT_UNTIL(value_at(REPLICA, "k")[0] == '\0' && value_at(PRIMARY, "k")[0] == '\0');
}
END_TEST

START_TEST(test_too_few_are_no_lock)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "--replicas", "2", "--replica-timeout", "50ms", "k"),
                     NO_QUORUM);
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_ptr_nonnull(
        strstr(driver.err.bytes, "2 replicas asked for, 1 acknowledged within 50 ms"));
    WAIT_UNTIL(value_at(REPLICA, "k")[0] == '\0' && value_at(PRIMARY, "k")[0] == '\0');
    ck_assert_int_eq(
        RUN(&driver, "run", "--replicas", "2", "--wait", "0", "k", "--", "echo", "ran"), NO_QUORUM);
    ck_assert_ptr_null(strstr(driver.out.bytes, "ran"));
}
END_TEST

static Suite *replicas_suite(void)
{
    Suite *suite = suite_create("cli replicas");
    TCase *tcase = tcase_create("replicas");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, test_what_was_acknowledged_is_at_the_replica);
    tcase_add_test(tcase, test_a_lock_outlives_its_primary);
    tcase_add_test(tcase, test_run_holds_what_the_replica_has);
    tcase_add_test(tcase, test_too_few_are_no_lock);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, replicas_suite);
}
