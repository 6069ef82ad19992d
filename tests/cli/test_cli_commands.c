/* acquire, extend, release and show with real primaries, all of which count. */
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

static const char *address(int i)
{
    return servers_uri(i) + strlen("redis://");
}

/* On how many primaries the key is: acquire is done when a majority has it. */
static int count_keys(const char *key)
{
    int count = 0;

    for (int i = 0; i < N; i++)
        count += strcmp(servers_command(i, "EXISTS", key, NULL), "1") == 0;
    return count;
}

/* What acquire or extend printed: one line. */
static const char *take_token(char token[128])
{
    ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 1);
    ck_assert_uint_lt(driver.out.length, 128);
    memcpy(token, driver.out.bytes, driver.out.length);
    token[driver.out.length - 1] = '\0';
    return token;
}

static void expect_out(const char *text)
{
    ck_assert_msg(strstr(driver.out.bytes, text) != NULL, "no %s in: %s", text, driver.out.bytes);
}

/* ---- tokens ------------------------------------------------------------------ */

START_TEST(test_token_of_acquire_extends_and_releases)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "20s", "k"), 0);
    take_token(token);
    ck_assert_str_eq(driver.err.bytes, "");
    ck_assert_int_ge(count_keys("k"), 3);
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 75);
    ck_assert_str_eq(driver.out.bytes, "");

    ck_assert_int_eq(RUN(&driver, "extend", "--ttl", "50s", "k", token), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "show", "--json", "k"), 0);
    ck_assert_int_gt(strtol(strstr(driver.out.bytes, "\"remaining_ms\":") + 15, NULL, 10), 21000);

    ck_assert_int_eq(RUN(&driver, "release", "k", token), 0);
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_str_eq(driver.err.bytes, "");
    ck_assert_int_eq(RUN(&driver, "show", "k"), 1);
    ck_assert_int_eq(RUN(&driver, "release", "k", token), 73);
    ck_assert_int_eq(RUN(&driver, "extend", "k", token), 73);
}
END_TEST

START_TEST(test_token_of_a_lost_lock_touches_nobody_else)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    take_token(token);
    for (int i = 0; i < N; i++)
        servers_command(i, "SET", "k", "somebody else", NULL);
    ck_assert_int_eq(RUN(&driver, "extend", "k", token), 73);
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_int_eq(RUN(&driver, "release", "k", token), 73);
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "GET", "k", NULL), "somebody else");
}
END_TEST

START_TEST(test_token_of_other_primaries_is_misconfigured)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    take_token(token);
    driver_set_nodes(servers_uris(), 3);
    ck_assert_int_eq(RUN(&driver, "release", "k", token), 78);
    ck_assert_int_eq(RUN(&driver, "extend", "k", token), 78);
}
END_TEST

START_TEST(test_extend_without_a_quorum_leaves_the_keys)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "50s", "k"), 0);
    take_token(token);
    for (int i = 2; i < N; i++)
        servers_freeze(i);
    ck_assert_int_eq(RUN(&driver, "extend", "k", token), 69);
    for (int i = 2; i < N; i++)
        servers_thaw(i);
    ck_assert_int_ge(count_keys("k"), 3);
}
END_TEST

/* Full, or closed, whatever else is: no file of ours is to take its place. */
START_TEST(test_a_lock_nobody_gets_the_token_of_is_released)
{
    static const char *const closed[] = {">/dev/full", ">&-", "0<&- 1>&-", "0<&- 1>&- 2>&-"};
    char script[1024];

    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        snprintf(script, sizeof script, "%s acquire k %s", REDLOCK_CLI_PATH, closed[i]);
        driver_start_program(&driver, WORDS("sh", "-c", script), 0);
        ck_assert_int_eq(driver_wait(&driver), 70);
        ck_assert_int_eq(RUN(&driver, "show", "k"), 1);
    }
}
END_TEST

static const char *const printing[] = {"show k",    "show --json k", "--help",
                                       "--version", "acquire k",     "acquire --json k"};

START_TEST(test_output_that_cannot_be_written_is_said)
{
    char script[1024];

    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    if (_i >= 4)
        for (int i = 0; i < N; i++)
            servers_command(i, "DEL", "k", NULL);
    snprintf(script, sizeof script, "%s %s >/dev/full", REDLOCK_CLI_PATH, printing[_i]);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), 70);
    ck_assert_ptr_nonnull(
        strstr(driver.err.bytes, "cannot write to standard output: No space left on device"));
    ck_assert_int_eq(driver_count(driver.err.bytes, "\n"), 1);
}
END_TEST

/* The members of a token are those that hold the lock, not those that were quickest. */
START_TEST(test_token_counts_every_primary_that_has_the_key)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "20s", "k"), 0);
    take_token(token);
    ck_assert_ptr_nonnull(strstr(token, ":1f-"));
    ck_assert_int_eq(RUN(&driver, "extend", "--ttl", "20s", "k", token), 0);
    take_token(token);
    ck_assert_ptr_nonnull(strstr(token, ":1f-"));
}
END_TEST

START_TEST(test_extend_with_any_two_of_five_killed)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "20s", "k"), 0);
    take_token(token);
    servers_kill(_i);
    servers_kill((_i + 1) % N);
    ck_assert_int_eq(RUN(&driver, "extend", "--ttl", "20s", "k", token), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "extend", "--ttl", "20s", "k", token), 0);
}
END_TEST

START_TEST(test_acquire_waits_as_long_as_told)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "60s", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--wait", "1s", "-E", "5", "k"), 5);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "still held by somebody else after 1.0 s"));
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "1s", "another"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--wait", "forever", "another"), 0);
}
END_TEST

START_TEST(test_signal_ends_a_waiting_acquire)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    START(&driver, "acquire", "-v", "--wait", "forever", "k");
    driver_expect(&driver, "waiting for 'k': held by ");
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_str_eq(driver.out.bytes, "");
}
END_TEST

START_TEST(test_prefix_is_part_of_the_key)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "--prefix", "app:", "k"), 0);
    ck_assert_int_ge(count_keys("app:k"), 3);
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "app:k"), 75);
}
END_TEST

/* ---- outages ------------------------------------------------------------------ */

START_TEST(test_two_of_five_killed_works)
{
    char token[128];

    servers_kill(3);
    servers_kill(4);
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "show", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "extend", "k", token), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "release", "k", token), 0);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", "exit 6"), 6);
}
END_TEST

START_TEST(test_three_of_five_killed_is_69_and_lists_each)
{
    for (int i = 2; i < N; i++)
        servers_kill(i);
    for (int use = 0; use < 2; use++) {
        int rc = use ? RUN(&driver, "acquire", "k") : RUN(&driver, "run", "-n", "k", "--", "true");

        ck_assert_int_eq(rc, 69);
        ck_assert_ptr_nonnull(strstr(driver.err.bytes, "no quorum for 'k'"));
        for (int i = 0; i < N; i++)
            ck_assert_ptr_nonnull(strstr(driver.err.bytes, address(i)));
        ck_assert_int_ge(driver_count(driver.err.bytes, "refused"), 3);
    }
    ck_assert_int_eq(RUN(&driver, "show", "k"), 69);
    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "k"), 69);
    expect_out("\"result\":\"no_quorum\"");
    ck_assert_str_eq(driver.err.bytes, "");
}
END_TEST

START_TEST(test_run_that_waits_through_an_outage_says_so)
{
    for (int i = 2; i < N; i++)
        servers_kill(i);
    START(&driver, "run", "--restart-guard", "0", "k", "--", "sh", "-c", "exit 8");
    driver_expect(&driver, "too few primaries answer");
    servers_revive(2); /* empty: it has no vote for a minute, but for the option */
    ck_assert_int_eq(driver_wait(&driver), 8);
}
END_TEST

/* It answers, but not to SET: only a look at the attempts themselves tells why. */
START_TEST(test_a_wait_that_cannot_succeed_says_what_the_primaries_say)
{
    for (int i = 0; i < 3; i++)
        servers_command(i, "ACL", "SETUSER", "default", "-set", NULL);
    START(&driver, "run", "k", "--", "sh", "-c", "exit 8");
    driver_expect(&driver, "too few primaries answer (");
    driver_expect(&driver, "NOPERM");
    for (int i = 0; i < 3; i++)
        servers_command(i, "ACL", "SETUSER", "default", "+set", NULL);
    ck_assert_int_eq(driver_wait(&driver), 8);
}
END_TEST

START_TEST(test_json_of_a_wait_that_cannot_succeed_has_the_reasons)
{
    for (int i = 0; i < 3; i++)
        servers_command(i, "ACL", "SETUSER", "default", "-set", NULL);
    START(&driver, "run", "--json", "k", "--", "true");
    driver_expect(&driver, "\"event\":\"waiting\",\"key\":\"k\",\"holder\":\"unknown\"");
    driver_expect(&driver, "\"text\":\"NOPERM");
    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
}
END_TEST

START_TEST(test_waiting_for_an_outer_run_is_refused)
{
    const char *tool = REDLOCK_CLI_PATH;

    ck_assert_int_eq(RUN(&driver, "run", "k", "--", tool, "run", "k", "--", "true"), 75);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "an outer 'redlock run' already holds 'k'"));
    ck_assert_int_eq(driver_count(driver.err.bytes, "\n"), 1);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", tool, "acquire", "-w", "forever", "k"), 75);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", tool, "run", "-n", "k", "--", "true"), 75);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "held by somebody else"));
    /* another lock of the same name, and an environment that has outlived its run */
    ck_assert_int_eq(
        RUN(&driver, "run", "k", "--", tool, "run", "--prefix", "p", "k", "--", "true"), 0);
    setenv("REDLOCK_KEY", "k", 1);
    setenv("REDLOCK_TOKEN", "0123456789abcdef:7-01234567", 1);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", "exit 4"), 4);
    unsetenv("REDLOCK_KEY");
    unsetenv("REDLOCK_TOKEN");
}
END_TEST

/* ---- show and JSON -------------------------------------------------------------- */

START_TEST(test_show_tells_holder_and_time)
{
    char token[128];

    ck_assert_int_eq(RUN(&driver, "show", "k"), 1);
    expect_out("'k': free");
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "show", "k"), 0);
    expect_out("'k': held by ");
    expect_out(" s left");
    for (int i = 0; i < N; i++)
        expect_out(address(i));
    *strchr(token, ':') = '\0';
    ck_assert_ptr_null(strstr(driver.out.bytes, token)); /* only its beginning */
    ck_assert_int_eq(RUN(&driver, "show", "-q", "k"), 0);
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_int_eq(RUN(&driver, "show", "--json", "k"), 0);
    expect_out("{\"command\":\"show\",\"key\":\"k\",\"holder\":\"one\",\"status\":0,\"votes\":");
    ck_assert_ptr_null(strstr(driver.out.bytes, token));
}
END_TEST

START_TEST(test_json_is_one_line_with_the_documented_fields)
{
    char token[128];
    const char *at;

    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "k"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 1);
    expect_out("{\"command\":\"acquire\",\"key\":\"k\",\"result\":\"ok\",");
    expect_out("\"ttl_ms\":10000,\"validity_ms\":");
    expect_out("\"clock\":\"CLOCK_BOOTTIME\"");
    expect_out("\"nodes\":[{\"address\":\"127.0.0.1:");
    at = strstr(driver.out.bytes, "\"token\":\"") + strlen("\"token\":\"");
    snprintf(token, sizeof token, "%.*s", (int)strcspn(at, "\""), at);
    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "k"), 75);
    expect_out("\"result\":\"busy\",");
    expect_out("\"status\":75,");
    ck_assert_int_eq(RUN(&driver, "extend", "--json", "k", token), 0);
    expect_out("{\"command\":\"extend\",\"key\":\"k\",\"result\":\"ok\",");
    ck_assert_int_eq(RUN(&driver, "release", "--json", "k", token), 0);
    expect_out("{\"command\":\"release\",\"key\":\"k\",\"result\":\"ok\",");
    ck_assert_int_eq(RUN(&driver, "release", "--json", "k", token), 73);
    expect_out("\"result\":\"expired\",");
}
END_TEST

struct key_case {
    const char *key, *json;
};

static const struct key_case keys[] = {
    {"plain", "\"key\":\"plain\",\""},
    {"a\"b\\c/d", "\"key\":\"a\\\"b\\\\c/d\",\""},
    {"line\nbreak\ttab\x1b[31m\x7f", "\"key\":\"line\\u000abreak\\u0009tab\\u001b[31m\\u007f\",\""},
    {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\x92",
     "\"key\":\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x94\x92\",\""},
    {"\xc2\x9bm", "\"key\":\"\\u009bm\",\""},
    {"\xff\xfe", "\"key\":\"\\ufffd\\ufffd\",\"key_hex\":\"fffe\""},
    {"a\xc3", "\"key\":\"a\\ufffd\",\"key_hex\":\"61c3\""},
    {"\xc0\xaf", "\"key\":\"\\ufffd\\ufffd\",\"key_hex\":\"c0af\""},
    {"\xed\xa0\x80", "\"key\":\"\\ufffd\\ufffd\\ufffd\",\"key_hex\":\"eda080\""},
    {"\xf4\x90\x80\x80", "\"key\":\"\\ufffd\\ufffd\\ufffd\\ufffd\",\"key_hex\":\"f4908080\""},
};

START_TEST(test_keys_of_any_bytes)
{
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        ck_assert_int_eq(RUN(&driver, "acquire", "--json", keys[i].key), 0);
        expect_out(keys[i].json);
        ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 1);
        ck_assert_int_ge(count_keys(keys[i].key), 3);
        ck_assert_int_eq(RUN(&driver, "show", keys[i].key), 0);
        for (size_t j = 0; j < driver.out.length; j++) { /* nothing a terminal would obey */
            unsigned char c = (unsigned char)driver.out.bytes[j];

            ck_assert_int_eq(c == '\n' || (c >= 0x20 && c != 0x7f), 1);
        }
    }
}
END_TEST

static Suite *commands_suite(void)
{
    Suite *suite = suite_create("cli commands");
    TCase *five = tcase_create("five primaries");

    tcase_add_checked_fixture(five, set_up, tear_down);
    tcase_set_timeout(five, 60);
    tcase_add_test(five, test_token_of_acquire_extends_and_releases);
    tcase_add_test(five, test_token_of_a_lost_lock_touches_nobody_else);
    tcase_add_test(five, test_token_of_other_primaries_is_misconfigured);
    tcase_add_test(five, test_extend_without_a_quorum_leaves_the_keys);
    tcase_add_test(five, test_a_lock_nobody_gets_the_token_of_is_released);
    tcase_add_loop_test(five, test_output_that_cannot_be_written_is_said, 0, 6);
    tcase_add_test(five, test_token_counts_every_primary_that_has_the_key);
    tcase_add_loop_test(five, test_extend_with_any_two_of_five_killed, 0, N);
    tcase_add_test(five, test_acquire_waits_as_long_as_told);
    tcase_add_test(five, test_signal_ends_a_waiting_acquire);
    tcase_add_test(five, test_prefix_is_part_of_the_key);
    tcase_add_test(five, test_two_of_five_killed_works);
    tcase_add_test(five, test_three_of_five_killed_is_69_and_lists_each);
    tcase_add_test(five, test_run_that_waits_through_an_outage_says_so);
    tcase_add_test(five, test_a_wait_that_cannot_succeed_says_what_the_primaries_say);
    tcase_add_test(five, test_json_of_a_wait_that_cannot_succeed_has_the_reasons);
    tcase_add_test(five, test_waiting_for_an_outer_run_is_refused);
    tcase_add_test(five, test_show_tells_holder_and_time);
    tcase_add_test(five, test_json_is_one_line_with_the_documented_fields);
    tcase_add_test(five, test_keys_of_any_bytes);
    suite_add_tcase(suite, five);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, commands_suite);
}
