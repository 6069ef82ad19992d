/* Which commands a server has, by what it says its version is, and what it refused. */
#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

enum {
    SET_IFEQ = REDLOCK__CAN_SET_IFEQ,
    DELIFEQ = REDLOCK__CAN_DELIFEQ,
    DELEX = REDLOCK__CAN_DELEX,
    EVAL = REDLOCK__CAN_EVAL
};

static void take(struct redlock__facts *facts, enum redlock__command command, int type,
                 const char *text)
{
    char copy[512];
    redisReply reply = {.type = type, .str = copy, .len = strlen(text)};

    (void)snprintf(copy, sizeof copy, "%s", text);
    redlock__facts_take(facts, command, &reply, 1, 2);
}

static uint32_t native_of(const char *lines)
{
    struct redlock__facts facts = {0};
    char info[400];

    (void)snprintf(info, sizeof info,
                   "# Server\r\n%sgcc_version:12.2.0\r\nrun_id:0123abcd\r\nuptime_in_seconds:7\r\n",
                   lines);
    take(&facts, REDLOCK__CMD_INFO_SERVER, REDIS_REPLY_STRING, info);
    ck_assert(facts.given[REDLOCK__FACT_SERVER]);
    return facts.native;
}

static const struct {
    const char *lines;
    uint32_t native;
} versions[] = {
    {"redis_version:7.0.15\r\n", 0},
    {"redis_version:8.0.2\r\n", 0},
    {"redis_version:8.3.99\r\n", 0},
    {"redis_version:8.4.0\r\n", SET_IFEQ | DELEX},
    {"redis_version:8.10.0\r\n", SET_IFEQ | DELEX},
    {"redis_version:9.0.0\r\n", SET_IFEQ | DELEX},
    {"redis_version:10.1.0\r\n", SET_IFEQ | DELEX},
    {"redis_version:255.255.255\r\n", 0}, /* built from no release: asked by script */
    {"redis_version:8\r\n", 0},
    {"redis_version:\r\n", 0},
    {"redis_version:eight.four\r\n", 0},
    {"redis_version:-9.5\r\n", 0},
    {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.4\r\n", 0},
    {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n", SET_IFEQ},
    {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.0\r\n", SET_IFEQ | DELIFEQ},
    {"redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.2.0\r\n",
     SET_IFEQ | DELIFEQ | DELEX},
    {"redis_version:9.9.9\r\nvalkey_version:7.2.5\r\n", 0}, /* its own version counts */
    {"redis_version:9.9.9\r\nvalkey_version:?\r\n", 0},
    {"redis_version:8.4.0\r\ngarnet_version:1.0.50\r\n", 0}, /* another product */
    {"dragonfly_version:df-v1.30\r\nredis_version:8.4.0\r\n", 0},
    {"", 0},
};

START_TEST(a_version_says_which_commands_there_are)
{
    ck_assert_uint_eq(native_of(versions[_i].lines), versions[_i].native);
}
END_TEST

START_TEST(what_is_refused_is_remembered)
{
    static const char noperm[] = "NOPERM User u has no permissions to run the 'x' command";
    struct redlock__facts facts = {0};

    take(&facts, REDLOCK__CMD_EXTEND, REDIS_REPLY_ERROR, "MISCONF no space left");
    take(&facts, REDLOCK__CMD_EXTEND, REDIS_REPLY_ERROR, "NOPERM No permissions to access a key");
    take(&facts, REDLOCK__CMD_GET, REDIS_REPLY_ERROR, noperm);
    take(&facts, REDLOCK__CMD_EXTEND, REDIS_REPLY_STRING, noperm);
    ck_assert_uint_eq(facts.refused, 0);
    take(&facts, REDLOCK__CMD_EXTEND_NATIVE, REDIS_REPLY_ERROR, "ERR syntax error");
    ck_assert_uint_eq(facts.refused, SET_IFEQ);
    take(&facts, REDLOCK__CMD_RELEASE_NATIVE, REDIS_REPLY_ERROR, "ERR unknown command 'DELEX'");
    ck_assert_uint_eq(facts.refused, SET_IFEQ | DELIFEQ | DELEX);
    take(&facts, REDLOCK__CMD_RELEASE, REDIS_REPLY_ERROR, noperm);
    ck_assert_uint_eq(facts.refused, SET_IFEQ | DELIFEQ | DELEX | EVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("native");
    TCase *native = tcase_create("native commands");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(native, a_version_says_which_commands_there_are, 0,
                        (int)(sizeof versions / sizeof versions[0]));
    tcase_add_test(native, what_is_refused_is_remembered);
    suite_add_tcase(suite, native);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
