/*
 * --fence: where the number is told, that it rises from process to process, and what is said where
 * there is none to be had.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    N = 5,
    USAGE = 64,
    NO_QUORUM = 69,
    MISCONFIGURED = 78
};

#define RIGHTS                                                                                     \
    "+info", "+config|get", "+get", "+set", "+pttl", "+eval", "+del", "+pexpire", "+time",         \
        "+zadd", "+zscore", "+zrange", "+client|setname"

static struct driver driver;

static void set_up_bare(void)
{
    servers_start(N);
    driver_set_nodes(servers_uris(), N);
}

static void set_up(void)
{
    set_up_bare();
    driver_mark();
}

static void tear_down(void)
{
    servers_stop();
}

static void expect_said(const char *text)
{
    ck_assert_msg(strstr(driver.out.bytes, text) || strstr(driver.err.bytes, text),
                  "no \"%s\" in:\n%s%s", text, driver.out.bytes, driver.err.bytes);
}

/* The second line of acquire --fence; the first one's token to `token`, if that isn't NULL. */
static long long take_fence(char token[128])
{
    char *line = strchr(driver.out.bytes, '\n'), *end;
    long long fence;

    ck_assert_ptr_nonnull(line);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 2);
    if (token != NULL)
        (void)snprintf(token, 128, "%.*s", (int)(line - driver.out.bytes), driver.out.bytes);
    fence = strtoll(line + 1, &end, 10);
    ck_assert_str_eq(end, "\n");
    return fence;
}

static long long number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    ck_assert_msg(at != NULL, "no %s in: %s", name, text);
    return strtoll(at + strlen(name), NULL, 10);
}

static void await_free(void)
{
    WAIT_UNTIL(servers_with_key("k") == 0);
}

/* ---- where it is told --------------------------------------------------------- */

START_TEST(test_acquire_prints_a_second_line)
{
    char token[128];

    for (long long k = 1; k <= 3; k++) {
        ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), 0);
        ck_assert_int_eq(take_fence(token), k);
        ck_assert_str_eq(driver.err.bytes, "");
        ck_assert_int_eq(RUN(&driver, "extend", "k", token), 0);
        ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 1);
        ck_assert_int_eq(RUN(&driver, "release", "k", token), 0);
        await_free();
    }
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "--json", "--fence", "k"), 0);
    ck_assert_int_eq(number_behind(driver.out.bytes, "\"fence\":"), 4);
    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "--wait", "10s", "k"), 0);
    ck_assert_ptr_null(strstr(driver.out.bytes, "fence"));
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "--json", "k"), 75);
    ck_assert_ptr_null(strstr(driver.out.bytes, "fence"));
}
END_TEST

START_TEST(test_run_hands_it_to_the_command)
{
    for (int k = 1; k <= 3; k++) {
        char expected[32];

        ck_assert_int_eq(RUN(&driver, "run", "--json", "--fence", "k", "--", "sh", "-c",
                             "echo \"number $REDLOCK_FENCE\""),
                         0);
        (void)snprintf(expected, sizeof expected, "number %d\n", k);
        ck_assert_str_eq(driver.out.bytes, expected);
        ck_assert_int_eq(driver_last_number(&driver, "fence"), k);
        await_free();
    }
}
END_TEST

/* The outer run's number would be taken for the inner one's. */
START_TEST(test_a_plain_run_has_none_whatever_it_inherits)
{
    char script[1024];

    (void)snprintf(script, sizeof script,
                   "%s run other -- sh -c 'echo \"[${REDLOCK_FENCE-none}]\"'", REDLOCK_CLI_PATH);
    ck_assert_int_eq(RUN(&driver, "run", "--fence", "k", "--", "sh", "-c", script), 0);
    ck_assert_str_eq(driver.out.bytes, "[none]\n");
}
END_TEST

START_TEST(test_options_are_where_they_belong)
{
    ck_assert_int_eq(RUN(&driver, "extend", "--fence", "k", "t"), USAGE);
    expect_said("extend has no option --fence");
    ck_assert_int_eq(RUN(&driver, "init", "--fence"), USAGE);
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence-base", "k"), USAGE);
    expect_said("acquire has no option --fence-base");
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "--restart-guard", "0", "k"), USAGE);
    expect_said("--fence needs the restart guard");
    ck_assert_int_eq(RUN(&driver, "run", "--restart-guard=0", "--fence", "k", "true"), USAGE);
}
END_TEST

/* ---- where there is none ------------------------------------------------------- */

START_TEST(test_unmarked_primaries_and_what_to_type)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), MISCONFIGURED);
    ck_assert_int_eq(driver_count(driver.err.bytes, "redlock init --no-leases-out"), N);
    ck_assert_int_eq(RUN(&driver, "run", "--fence", "k", "--", "true"), MISCONFIGURED);
    expect_said("redlock init --no-leases-out");
    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "--fence", "k"), MISCONFIGURED);
    expect_said("\"result\":\"misconfigured\"");
    driver_mark();
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), 0);
}
END_TEST

/* By a version that knew nothing of it. */
START_TEST(test_marked_primaries_that_are_not_prepared)
{
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "DEL", "redlock:floor", NULL);
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), MISCONFIGURED);
    ck_assert_int_eq(driver_count(driver.err.bytes, "not prepared for fencing: redlock init"), N);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "init"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--wait", "10s", "--fence", "k"), 0);
    ck_assert_int_eq(take_fence(NULL), 1);
}
END_TEST

static void allow_everywhere(const char *rule)
{
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "default", rule, NULL), "OK");
}

START_TEST(test_without_scripts_the_right_is_named)
{
    allow_everywhere("-eval");
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), NO_QUORUM);
    expect_said("'eval'");
    ck_assert_int_eq(servers_with_key("k"), 0);
    allow_everywhere("+eval");
    ck_assert_int_eq(RUN(&driver, "acquire", "--fence", "k"), 0);
}
END_TEST

/* docs/operations.md, Access control. */
START_TEST(test_the_smallest_set_of_rights_is_enough)
{
    static char uris[N][80];
    const char *list[N];
    char token[128];

    for (int i = 0; i < N; i++) {
        ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "locks", "on", ">secret", "~app:*",
                                         "~redlock:*", RIGHTS, NULL),
                         "OK");
        (void)snprintf(uris[i], sizeof uris[i], "redis://locks:secret@127.0.0.1:%d",
                       servers_port(i));
        list[i] = uris[i];
    }
    driver_set_nodes(list, N);
    driver_mark();
    ck_assert_int_eq(RUN(&driver, "acquire", "--prefix", "app:", "--fence", "k"), 0);
    ck_assert_int_eq(take_fence(token), 1);
    ck_assert_int_eq(RUN(&driver, "extend", "--prefix", "app:", "k", token), 0);
    ck_assert_int_eq(RUN(&driver, "release", "--prefix", "app:", "k", token), 0);
    WAIT_UNTIL(servers_with_key("app:k") == 0);
    ck_assert_str_eq(servers_command(0, "ZSCORE", "redlock:fence:{app:k}", "n", NULL), "1");
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "locks", "resetkeys", "~app:*",
                                         "%R~redlock:*", NULL),
                         "OK");
    ck_assert_int_eq(RUN(&driver, "acquire", "--prefix", "app:", "--fence", "k"), NO_QUORUM);
    expect_said("access"); /* a key: the server's words */
    ck_assert_int_eq(servers_with_key("app:k"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--prefix", "app:", "k"), 0);
}
END_TEST

/* ---- those that forgot ----------------------------------------------------------- */

static int is_free_of_guards(void)
{
    return RUN(&driver, "show") == 0 && strstr(driver.out.bytes, "5 of 5 primaries count") != NULL;
}

START_TEST(test_a_majority_that_forgot_is_told_from_where_to_go_on)
{
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--max-ttl", "1s"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "--fence", "k"), 0);
    for (int i = 0; i < 3; i++) {
        servers_kill(i);
        servers_revive(i);
    }
    WAIT_UNTIL(is_free_of_guards());
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "--fence", "k"), NO_QUORUM);
    ck_assert_int_eq(driver_count(driver.err.bytes, "redlock init --fence-base"), 3);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "init", "--fence-base"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": fencing goes on above 1"), 3);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked before"), 2);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "300ms", "--wait", "10s", "--fence", "k"), 0);
    ck_assert_int_gt(take_fence(NULL), 1000LL * 1000 * 1000 * 1000);
    ck_assert_int_eq(RUN(&driver, "init", "--fence-base"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked before"), N);
}
END_TEST

/* By commands alone, none of which lives for long. */
START_TEST(test_one_that_forgot_recovers_by_itself)
{
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--max-ttl", "1s"), 0);
    for (int k = 0; k < 3; k++)
        ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "100ms", "--wait", "10s", "--fence", "k"),
                         0);
    servers_kill(0);
    servers_revive(0);
    WAIT_UNTIL(is_free_of_guards());
    WAIT_UNTIL(RUN(&driver, "acquire", "--ttl", "100ms", "--wait", "1s", "--fence", "k") == 0 &&
               servers_command(0, "EXISTS", "redlock:floor", NULL)[0] == '1');
    ck_assert_int_ge(
        number_behind(servers_command(0, "ZRANGE", "redlock:floor", "0", "-1", NULL), " base="), 3);
}
END_TEST

static Suite *fence_suite(void)
{
    Suite *suite = suite_create("cli fence");
    TCase *marked = tcase_create("marked"), *bare = tcase_create("bare");

    tcase_add_checked_fixture(marked, set_up, tear_down);
    tcase_set_timeout(marked, 60);
    tcase_add_test(marked, test_acquire_prints_a_second_line);
    tcase_add_test(marked, test_run_hands_it_to_the_command);
    tcase_add_test(marked, test_a_plain_run_has_none_whatever_it_inherits);
    tcase_add_test(marked, test_options_are_where_they_belong);
    tcase_add_test(marked, test_marked_primaries_that_are_not_prepared);
    tcase_add_test(marked, test_without_scripts_the_right_is_named);
    suite_add_tcase(suite, marked);
    tcase_add_checked_fixture(bare, set_up_bare, tear_down);
    tcase_set_timeout(bare, 60);
    tcase_add_test(bare, test_unmarked_primaries_and_what_to_type);
    tcase_add_test(bare, test_the_smallest_set_of_rights_is_enough);
    tcase_add_test(bare, test_a_majority_that_forgot_is_told_from_where_to_go_on);
    tcase_add_test(bare, test_one_that_forgot_recovers_by_itself);
    suite_add_tcase(suite, bare);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, fence_suite);
}
