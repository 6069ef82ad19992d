/* What is sent, byte by byte, and what each kind of answer counts as. */
#include "command.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECONDS = 20
};

#define TOKEN "0123456789abcdef0123456789abcdef"
#define WIRE_TOKEN "$32\r\n" TOKEN "\r\n"

static struct redlock__bytes request;

static void assert_wire(struct redlock__bytes *bytes, const char *expected, size_t len)
{
    ck_assert_uint_eq(bytes->len, len);
    ck_assert_mem_eq(redlock__bytes_data(bytes), expected, len);
    redlock__bytes_free(bytes);
    ck_assert_uint_eq(bytes->len, 0);
}

/* Literals only: their size is the length, NUL bytes included. */
#define ASSERT_WIRE(bytes, expected) assert_wire(bytes, expected, sizeof(expected) - 1)

/* ---- requests ----------------------------------------------------------- */

START_TEST(set_is_literally_set_nx_px)
{
    ASSERT_WIRE(redlock__encode_set(&request, "job", 3, TOKEN, 10000),
                "*6\r\n$3\r\nSET\r\n$3\r\njob\r\n" WIRE_TOKEN "$2\r\nNX\r\n$2\r\nPX\r\n"
                "$5\r\n10000\r\n");
}
END_TEST

START_TEST(keys_may_hold_any_byte)
{
    ASSERT_WIRE(redlock__encode_set(&request, "a\0\r\n\xff", 5, TOKEN, 31536000000),
                "*6\r\n$3\r\nSET\r\n$5\r\na\0\r\n\xff\r\n" WIRE_TOKEN "$2\r\nNX\r\n$2\r\nPX\r\n"
                "$11\r\n31536000000\r\n");
    ASSERT_WIRE(redlock__encode_get(&request, "\0", 1), "*2\r\n$3\r\nGET\r\n$1\r\n\0\r\n");
    ASSERT_WIRE(redlock__encode_pttl(&request, "%s", 2), "*2\r\n$4\r\nPTTL\r\n$2\r\n%s\r\n");
}
END_TEST

START_TEST(the_longest_key_is_sent_whole)
{
    char key[REDLOCK_MAX_KEY_LEN];
    memset(key, 'k', sizeof(key));
    redlock__encode_get(&request, key, sizeof(key));
    ck_assert_uint_ne(request.len, 0);
    ck_assert_uint_eq(request.len, strlen("*2\r\n$3\r\nGET\r\n$4096\r\n\r\n") + sizeof(key));
    redlock__bytes_free(&request);
}
END_TEST

/* Also where no usual request has one that long. */
START_TEST(every_length_is_announced)
{
    static const size_t lens[] = {1, 9, 10, 99, 100, 999, 1000, 1010, 9999, 10000, 123456};
    size_t len = lens[_i];
    char *password = malloc(len + 1), *expected = malloc(len + 64);
    int head;

    memset(password, 'p', len);
    password[len] = '\0';
    head = snprintf(expected, len + 64, "*2\r\n$4\r\nAUTH\r\n$%zu\r\n%s\r\n", len, password);
    assert_wire(redlock__encode_auth(&request, NULL, password), expected, (size_t)head);
    free(password);
    free(expected);
}
END_TEST

START_TEST(every_number_is_written_whole)
{
    static const int64_t numbers[] = {0, 9, 10, 99, 100, 31536000000, INT64_MAX};
    char expected[64];
    int len = snprintf(expected, sizeof expected, "%" PRId64, numbers[_i]);

    len = snprintf(expected, sizeof expected,
                   "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$%d\r\n%" PRId64 "\r\n", len, numbers[_i]);
    assert_wire(redlock__encode_wait(&request, 1, numbers[_i]), expected, (size_t)len);
}
END_TEST

START_TEST(scripts_go_out_as_text_with_one_key)
{
    char expected[1024];
    int len = snprintf(expected, sizeof(expected),
                       "*6\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$1\r\nk\r\n" WIRE_TOKEN
                       "$4\r\n5000\r\n",
                       strlen(redlock__extend_script), redlock__extend_script);
    assert_wire(redlock__encode_extend(&request, "k", 1, TOKEN, 5000), expected, (size_t)len);

    len = snprintf(expected, sizeof(expected),
                   "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$1\r\nk\r\n" WIRE_TOKEN,
                   strlen(redlock__release_script), redlock__release_script);
    assert_wire(redlock__encode_release(&request, "k", 1, TOKEN), expected, (size_t)len);
}
END_TEST

START_TEST(native_commands_compare_first)
{
    ASSERT_WIRE(redlock__encode_extend_native(&request, "k", 1, TOKEN, 5000),
                "*8\r\n$3\r\nSET\r\n$1\r\nk\r\n" WIRE_TOKEN "$4\r\nIFEQ\r\n" WIRE_TOKEN
                "$3\r\nGET\r\n$2\r\nPX\r\n$4\r\n5000\r\n");
    ASSERT_WIRE(redlock__encode_delifeq(&request, "a\0b", 3, TOKEN),
                "*3\r\n$7\r\nDELIFEQ\r\n$3\r\na\0b\r\n" WIRE_TOKEN);
    ASSERT_WIRE(redlock__encode_delex(&request, "a\0b", 3, TOKEN),
                "*4\r\n$5\r\nDELEX\r\n$3\r\na\0b\r\n$4\r\nIFEQ\r\n" WIRE_TOKEN);
}
END_TEST

START_TEST(release_asks_whether_somebody_waits)
{
    char expected[1024];
    int len = snprintf(expected, sizeof(expected),
                       "*6\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$1\r\nk\r\n" WIRE_TOKEN
                       "$17\r\nredlock:waiting:k\r\n",
                       strlen(redlock__release_asking_script), redlock__release_asking_script);
    assert_wire(redlock__encode_release_asking(&request, "k", 1, TOKEN), expected, (size_t)len);
}
END_TEST

START_TEST(waiting_and_waking)
{
    ASSERT_WIRE(redlock__encode_waiting(&request, "k\0", 2, 5000),
                "*5\r\n$3\r\nSET\r\n$18\r\nredlock:waiting:k\0\r\n$1\r\n1\r\n$2\r\nPX\r\n"
                "$4\r\n5000\r\n");
    ASSERT_WIRE(redlock__encode_block(&request, "k", 1, 3),
                "*3\r\n$5\r\nBLPOP\r\n$14\r\nredlock:wake:k\r\n$1\r\n3\r\n");
    ASSERT_WIRE(redlock__encode_push(&request, "k", 1, 0, 9),
                "*2\r\n$3\r\nDEL\r\n$14\r\nredlock:wake:k\r\n");
    ASSERT_WIRE(redlock__encode_push(&request, "k", 1, 1, 9),
                "*3\r\n$5\r\nLPUSH\r\n$14\r\nredlock:wake:k\r\n$1\r\n1\r\n");
    ASSERT_WIRE(redlock__encode_push(&request, "k", 1, 2, 9),
                "*3\r\n$7\r\nPEXPIRE\r\n$14\r\nredlock:wake:k\r\n$1\r\n9\r\n");
}
END_TEST

START_TEST(no_script_can_create_a_key)
{
    ck_assert_ptr_null(strstr(redlock__extend_script, "SET"));
    ck_assert_ptr_null(strstr(redlock__release_script, "SET"));
    ck_assert_ptr_null(strstr(redlock__release_asking_script, "SET"));
}
END_TEST

/* The facts' scripts write: their own two keys, and only those they are given. */
START_TEST(scripts_are_literally_these)
{
    ck_assert_str_eq(
        redlock__seen_script,
        "local t = redis.call('TIME') local now = string.format('%.0f', t[1] * 1000000 + t[2]) "
        "local seen = redis.call('GET', KEYS[1]) "
        "if seen then redis.pcall('SET', KEYS[1], seen, 'PX', ARGV[1]) "
        "else redis.call('SET', KEYS[1], now, 'PX', ARGV[1]) seen = now end "
        "return seen .. ' ' .. now");
    ck_assert_str_eq(
        redlock__mark_script,
        "local marker = redis.call('GET', KEYS[1]) or '' "
        "if marker ~= ARGV[1] then return marker end "
        "if ARGV[2] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[2] then return marker end "
        "redis.call('SET', KEYS[1], ARGV[3]) redis.call('DEL', KEYS[2]) return ARGV[3]");
}
END_TEST

START_TEST(questions_for_facts)
{
    ASSERT_WIRE(redlock__encode_fact(&request, REDLOCK__CMD_INFO_SERVER),
                "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n");
    ASSERT_WIRE(redlock__encode_fact(&request, REDLOCK__CMD_INFO_REPLICATION),
                "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n");
    ASSERT_WIRE(redlock__encode_fact(&request, REDLOCK__CMD_SETTINGS),
                "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$12\r\n*a[px][pm]e*\r\n");
    ASSERT_WIRE(redlock__encode_fact(&request, REDLOCK__CMD_MARKER),
                "*2\r\n$3\r\nGET\r\n$13\r\nredlock:fleet\r\n");
    ASSERT_WIRE(redlock__encode_fact(&request, REDLOCK__CMD_TIME), "*1\r\n$4\r\nTIME\r\n");
}
END_TEST

#define RUN_ID "0123456789abcdef0123456789abcdef01234567"

START_TEST(seen_has_one_key_named_after_the_run)
{
    char expected[1024];
    int len =
        snprintf(expected, sizeof(expected),
                 "*5\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n1\r\n$53\r\nredlock:seen:" RUN_ID "\r\n"
                 "$5\r\n70000\r\n",
                 strlen(redlock__seen_script), redlock__seen_script);
    assert_wire(redlock__encode_seen(&request, RUN_ID, 70000), expected, (size_t)len);
    assert_wire(redlock__encode_seen(&request, RUN_ID "beyond", 70000), expected, (size_t)len);
}
END_TEST

START_TEST(mark_compares_before_it_writes)
{
    static const struct {
        const char *old, *seen;
    } cases[] = {{"", ""}, {"old one", ""}, {"", "77"}, {"old one", "1795988578600219"}};
    char expected[2048];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int len =
            snprintf(expected, sizeof(expected),
                     "*8\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n2\r\n$13\r\nredlock:fleet\r\n"
                     "$53\r\nredlock:seen:" RUN_ID "\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$3\r\nnew\r\n",
                     strlen(redlock__mark_script), redlock__mark_script, strlen(cases[i].old),
                     cases[i].old, strlen(cases[i].seen), cases[i].seen);
        assert_wire(redlock__encode_mark(&request, RUN_ID, cases[i].old, cases[i].seen, "new"),
                    expected, (size_t)len);
    }
}
END_TEST

/* Literally: the order of arguments is what the scripts rely on. */
START_TEST(fenced_commands_carry_three_keys)
{
    char expected[2048];
    int len = snprintf(expected, sizeof(expected),
                       "*10\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n3\r\n$1\r\nk\r\n"
                       "$17\r\nredlock:fence:{k}\r\n$13\r\nredlock:floor\r\n"
                       "$1\r\nt\r\n$4\r\n5000\r\n$2\r\n42\r\n$13\r\nrun=a base=40\r\n",
                       strlen(redlock__grant_script), redlock__grant_script);
    assert_wire(redlock__encode_grant(&request, "k", 1, "t", 5000, 41, "run=a base=40"), expected,
                (size_t)len);

    len = snprintf(expected, sizeof(expected),
                   "*9\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n3\r\n$1\r\nk\r\n"
                   "$17\r\nredlock:fence:{k}\r\n$13\r\nredlock:floor\r\n"
                   "$1\r\nt\r\n$2\r\n42\r\n$10\r\nrun=a base\r\n",
                   strlen(redlock__settle_script), redlock__settle_script);
    assert_wire(redlock__encode_settle(&request, "k", 1, "t", 42, "run=a base"), expected,
                (size_t)len);

    len = snprintf(expected, sizeof(expected),
                   "*9\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n2\r\n"
                   "$13\r\nredlock:floor\r\n$13\r\nredlock:fleet\r\n$3\r\nold\r\n$3\r\nnew\r\n"
                   "$2\r\n17\r\n$4\r\nmark\r\n",
                   strlen(redlock__recover_script), redlock__recover_script);
    assert_wire(redlock__encode_recover(&request, "old", "new", 17, "mark"), expected, (size_t)len);
}
END_TEST

START_TEST(a_counter_is_named_after_any_key)
{
    static char key[REDLOCK_MAX_KEY_LEN + 1] = "a\0}\r\n{";
    static const char counter[] = "$22\r\nredlock:fence:{a\0}\r\n{}\r\n";
    bool found = false;

    redlock__encode_grant(&request, key, 6, "t", 1, 0, "base=0");
    ck_assert_uint_ne(request.len, 0);
    for (size_t i = 0; i + sizeof(counter) - 1 <= request.len; i++)
        found =
            found || memcmp(redlock__bytes_data(&request) + i, counter, sizeof(counter) - 1) == 0;
    ck_assert(found);
    redlock__bytes_free(&request);
    redlock__encode_settle(&request, key, REDLOCK_MAX_KEY_LEN, "t", 1, "b");
    ck_assert_uint_gt(request.len, 2 * REDLOCK_MAX_KEY_LEN);
    redlock__bytes_free(&request);
    ck_assert_uint_eq(redlock__encode_grant(&request, key, sizeof(key), "t", 1, 0, "base=0")->len,
                      0);
    ck_assert_uint_eq(redlock__encode_settle(&request, key, sizeof(key), "t", 1, "b")->len, 0);
}
END_TEST

/* No right is needed for it but these. */
START_TEST(fencing_scripts_need_few_rights)
{
    static const char *const scripts[] = {redlock__grant_script, redlock__settle_script,
                                          redlock__recover_script};
    static const char *const rights[] = {"('GET'",    "('SET'",    "('DEL'",     "('ZADD'",
                                         "('ZSCORE'", "('ZRANGE'", "('PEXPIRE'", "('%.0f'"};
    for (size_t i = 0; i < 3; i++)
        for (const char *at = scripts[i]; (at = strstr(at, "('")) != NULL; at++) {
            size_t k = 0;
            while (k < 8 && strncmp(at, rights[k], strlen(rights[k])) != 0)
                k++;
            ck_assert_msg(k < 8, "%.20s", at);
        }
}
END_TEST

START_TEST(greeting_commands)
{
    ASSERT_WIRE(redlock__encode_auth(&request, NULL, "pw"), "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n");
    ASSERT_WIRE(redlock__encode_auth(&request, "me", "pw"),
                "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$2\r\npw\r\n");
    ASSERT_WIRE(redlock__encode_select(&request, 12), "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    ASSERT_WIRE(redlock__encode_setname(&request, "lib"),
                "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\nlib\r\n");
}
END_TEST

START_TEST(freeing_nothing_is_fine)
{
    struct redlock__bytes bytes = {.len = 0};
    redlock__bytes_free(&bytes);
}
END_TEST

/* ---- answers ------------------------------------------------------------ */

static struct redlock__answer decode(enum redlock__command command, const char *wire)
{
    struct redlock__answer answer;
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    ck_assert_int_eq(redisReaderFeed(reader, wire, strlen(wire)), REDIS_OK);
    ck_assert_int_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    ck_assert_ptr_nonnull(reply);
    redlock__decode(command, reply, &answer);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return answer;
}

static const struct {
    enum redlock__command command;
    const char *wire;
    redlock_vote vote;
    int64_t value;
    const char *text;
} decoded[] = {
    {REDLOCK__CMD_SET, "+OK\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SET, "$-1\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_SET, ":1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 1"},
    {REDLOCK__CMD_SET, "+QUEUED\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status QUEUED"},
    {REDLOCK__CMD_SET, "+OKAY\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OKAY"},
    {REDLOCK__CMD_SET, "+\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status "},
    {REDLOCK__CMD_SET, "$2\r\nOK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type string"},
    {REDLOCK__CMD_SET, "*1\r\n+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type array"},
    {REDLOCK__CMD_EXTEND, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_EXTEND, ":0\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_EXTEND, ":-1\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_EXTEND, ":2\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 2"},
    {REDLOCK__CMD_EXTEND, "$-1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type nil"},
    {REDLOCK__CMD_EXTEND, "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK"},
    {REDLOCK__CMD_RELEASE, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_RELEASE, ":0\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_RELEASE, ":-1\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_RELEASE, ":2\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_RELEASE, ":3\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_RELEASE, ":-2\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_RELEASE, ":4\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 4"},
    {REDLOCK__CMD_WAITING, "+OK\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_WAITING, "$-1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type nil"},
    {REDLOCK__CMD_BLOCK, "*2\r\n$1\r\nw\r\n$1\r\n1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_BLOCK, "*-1\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_BLOCK, "-NOPERM no\r\n", REDLOCK_VOTE_ERROR, 0, "NOPERM no"},
    {REDLOCK__CMD_PUSH, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_PUSH, "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK"},
    {REDLOCK__CMD_PUSHED, ":0\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_PUSHED, ":1\r\n", REDLOCK_VOTE_OURS, 1, ""},
    {REDLOCK__CMD_RELEASE, "*-1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type nil"},
    {REDLOCK__CMD_GRANT, ":1\r\n", REDLOCK_VOTE_OURS, 1, ""},
    {REDLOCK__CMD_GRANT, ":4503599627370496\r\n", REDLOCK_VOTE_OURS, INT64_C(1) << 52, ""},
    {REDLOCK__CMD_GRANT, ":4503599627370497\r\n", REDLOCK_VOTE_ERROR, 0,
     "unexpected reply integer 4503599627370497"},
    {REDLOCK__CMD_GRANT, ":0\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 0"},
    {REDLOCK__CMD_GRANT, ":-1\r\n", REDLOCK_VOTE_FOREIGN, -1, ""},
    {REDLOCK__CMD_GRANT, ":-2\r\n", REDLOCK_VOTE_ERROR, -2,
     "it forgot its fencing numbers just now"},
    {REDLOCK__CMD_GRANT, ":-3\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer -3"},
    {REDLOCK__CMD_GRANT, "$1\r\n7\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type string"},
    {REDLOCK__CMD_GRANT, "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK"},
    {REDLOCK__CMD_SETTLE, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SETTLE, ":0\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_SETTLE, ":-1\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_SETTLE, ":2\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 2"},
    {REDLOCK__CMD_PTTL, ":1500\r\n", REDLOCK_VOTE_FOREIGN, 1500, ""},
    {REDLOCK__CMD_PTTL, ":0\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_PTTL, ":-1\r\n", REDLOCK_VOTE_FOREIGN, -1, ""},
    {REDLOCK__CMD_PTTL, ":-2\r\n", REDLOCK_VOTE_FREE, -2, ""},
    {REDLOCK__CMD_PTTL, "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK"},
    {REDLOCK__CMD_GET, "$-1\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_GET, "$5\r\nowner\r\n", REDLOCK_VOTE_FOREIGN, 0, "owner"},
    {REDLOCK__CMD_GET, "$0\r\n\r\n", REDLOCK_VOTE_FOREIGN, 0, ""},
    {REDLOCK__CMD_GET, "$3\r\n\t\r\n\r\n", REDLOCK_VOTE_FOREIGN, 0, "???"},
    {REDLOCK__CMD_GET, ":3\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 3"},
    {REDLOCK__CMD_EXTEND_NATIVE, "$-1\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_EXTEND_NATIVE, "$5\r\nowner\r\n", REDLOCK_VOTE_FOREIGN, 0, "owner"},
    {REDLOCK__CMD_EXTEND_NATIVE, "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK"},
    {REDLOCK__CMD_EXTEND_NATIVE, ":1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 1"},
    {REDLOCK__CMD_RELEASE_NATIVE, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_RELEASE_NATIVE, ":0\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_RELEASE_NATIVE, ":-1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer -1"},
    {REDLOCK__CMD_RELEASE_NATIVE, ":2\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 2"},
    {REDLOCK__CMD_OWNER, "$-1\r\n", REDLOCK_VOTE_FREE, 0, ""},
    {REDLOCK__CMD_OWNER, "$5\r\nowner\r\n", REDLOCK_VOTE_FOREIGN, 0, "owner"},
    {REDLOCK__CMD_OWNER, ":0\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 0"},
    {REDLOCK__CMD_AUTH, "+OK\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_AUTH, "-WRONGPASS invalid\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGPASS invalid"},
    {REDLOCK__CMD_AUTH, ":1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 1"},
    {REDLOCK__CMD_SELECT, "+OK\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SELECT, "-ERR DB index is out of range\r\n", REDLOCK_VOTE_ERROR, 0,
     "ERR DB index is out of range"},
    {REDLOCK__CMD_SETNAME, "+OK\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SETNAME, "-NOPERM no client rights\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SETNAME, "-ERR unknown command\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SETNAME, ":1\r\n", REDLOCK_VOTE_OURS, 0, ""},
    {REDLOCK__CMD_SETNAME, "-NOAUTH Authentication required.\r\n", REDLOCK_VOTE_ERROR, 0,
     "NOAUTH Authentication required."},
    {REDLOCK__CMD_SETNAME, "-LOADING Redis is loading\r\n", REDLOCK_VOTE_ERROR, 0,
     "LOADING Redis is loading"},
    {REDLOCK__CMD_SETNAME, "-DENIED protected mode\r\n", REDLOCK_VOTE_ERROR, 0,
     "DENIED protected mode"},
    {REDLOCK__CMD_SETNAME, "-ERR max number of clients reached\r\n", REDLOCK_VOTE_ERROR, 0,
     "ERR max number of clients reached"},
};

START_TEST(each_reply_counts_as_the_table_says)
{
    struct redlock__answer answer = decode(decoded[_i].command, decoded[_i].wire);
    ck_assert_int_eq(answer.vote, decoded[_i].vote);
    ck_assert_int_eq(answer.value, decoded[_i].value);
    ck_assert_str_eq(answer.text, decoded[_i].text);
}
END_TEST

START_TEST(a_plain_yes_is_what_reading_it_gives)
{
    static const struct {
        enum redlock__command command;
        const char *wire;
    } yes[] = {{REDLOCK__CMD_SET, "+OK\r\n"},
               {REDLOCK__CMD_RELEASE, ":1\r\n"},
               {REDLOCK__CMD_EXTEND, ":1\r\n"}};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        struct redlock__answer answer = decode(yes[i].command, yes[i].wire), known;
        redlock__decode_plain_yes(yes[i].command, &known);
        ck_assert_int_eq(answer.vote, known.vote);
        ck_assert_int_eq(answer.value, known.value);
        ck_assert_int_eq(answer.waits, known.waits);
        ck_assert_str_eq(answer.text, known.text);
    }
}
END_TEST

START_TEST(only_a_script_that_ran_tells_who_waits)
{
    static const struct {
        enum redlock__command command;
        const char *wire;
        enum redlock__waits waits;
    } cases[] = {
        {REDLOCK__CMD_RELEASE, ":1\r\n", REDLOCK__WAITS_NOBODY},
        {REDLOCK__CMD_RELEASE, ":0\r\n", REDLOCK__WAITS_NOBODY},
        {REDLOCK__CMD_RELEASE, ":-1\r\n", REDLOCK__WAITS_NOBODY},
        {REDLOCK__CMD_RELEASE, ":2\r\n", REDLOCK__WAITS_SOMEBODY},
        {REDLOCK__CMD_RELEASE, ":3\r\n", REDLOCK__WAITS_SOMEBODY},
        {REDLOCK__CMD_RELEASE, ":-2\r\n", REDLOCK__WAITS_SOMEBODY},
        {REDLOCK__CMD_RELEASE, "-NOPERM no right\r\n", REDLOCK__WAITS_UNKNOWN},
        {REDLOCK__CMD_RELEASE_NATIVE, ":1\r\n", REDLOCK__WAITS_UNKNOWN},
        {REDLOCK__CMD_RELEASE_NATIVE, ":0\r\n", REDLOCK__WAITS_UNKNOWN},
        {REDLOCK__CMD_OWNER, "$-1\r\n", REDLOCK__WAITS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_int_eq(decode(cases[i].command, cases[i].wire).waits, cases[i].waits);
}
END_TEST

/* What they say is for facts.c; only who will serve nothing at all is refused. */
START_TEST(answers_about_facts_are_no_votes)
{
    static const char *const fine[] = {"$3\r\nany\r\n",
                                       "$-1\r\n",
                                       ":1\r\n",
                                       "+OK\r\n",
                                       "*1\r\n$1\r\nx\r\n",
                                       "*0\r\n",
                                       "-NOPERM no right\r\n",
                                       "-BUSY a script\r\n",
                                       "-OOM no memory\r\n",
                                       "-ERR unknown command\r\n"};
    static const char *const fatal[] = {"NOAUTH Authentication required.",
                                        "LOADING Redis is loading", "DENIED protected mode",
                                        "ERR max number of clients reached"};
    for (int c = REDLOCK__CMD_INFO_SERVER; c <= REDLOCK__CMD_RECOVER; c++) {
        for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
            struct redlock__answer answer = decode((enum redlock__command)c, fine[i]);
            ck_assert_int_eq(answer.vote, REDLOCK_VOTE_OURS);
            ck_assert_str_eq(answer.text, "");
            ck_assert_int_eq(answer.value, 0);
        }
        for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
            char wire[256];
            snprintf(wire, sizeof(wire), "-%s\r\n", fatal[i]);
            struct redlock__answer answer = decode((enum redlock__command)c, wire);
            ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
            ck_assert_str_eq(answer.text, fatal[i]);
        }
    }
}
END_TEST

static const char *const errors[] = {
    "MISCONF Redis is configured to save RDB snapshots",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script.",
    "READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'eval' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "MOVED 3999 127.0.0.1:6381",
    "ERR max number of clients reached",
};

START_TEST(an_error_keeps_its_text_and_is_never_a_vote)
{
    static const enum redlock__command commands[] = {
        REDLOCK__CMD_SET, REDLOCK__CMD_EXTEND, REDLOCK__CMD_RELEASE, REDLOCK__CMD_PTTL,
        REDLOCK__CMD_GET, REDLOCK__CMD_GRANT,  REDLOCK__CMD_SETTLE};
    char wire[256];
    snprintf(wire, sizeof(wire), "-%s\r\n", errors[_i]);
    for (size_t c = 0; c < sizeof(commands) / sizeof(commands[0]); c++) {
        struct redlock__answer answer = decode(commands[c], wire);
        ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
        ck_assert_str_eq(answer.text, errors[_i]);
        ck_assert_int_eq(answer.value, 0);
    }
}
END_TEST

START_TEST(a_refusal_is_of_the_command_not_of_the_key)
{
    static const char *const refusals[] = {
        "NOPERM this user has no permissions to run the 'eval' command",
        "NOPERM User u has no permissions to run the 'delex' command",
        "ERR unknown command 'DELIFEQ', with args beginning with: 'k' 't' ", "ERR syntax error",
        "ERR The user executing the script can't run this command or subcommand script: f"};
    static const char *const others[] = {
        "NOPERM No permissions to access a key",
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR max number of clients reached", ""};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        ck_assert(redlock__is_refusal(refusals[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        ck_assert(!redlock__is_refusal(others[i]));
}
END_TEST

START_TEST(a_long_error_is_cut_and_terminated)
{
    char wire[4096];
    memset(wire, 'x', sizeof(wire));
    wire[0] = '-';
    memcpy(wire + sizeof(wire) - 3, "\r\n", 3);
    struct redlock__answer answer = decode(REDLOCK__CMD_SET, wire);
    ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
    ck_assert_uint_eq(strlen(answer.text), REDLOCK_TEXT_LEN - 1);

    wire[0] = '+';
    answer = decode(REDLOCK__CMD_SET, wire);
    ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
    ck_assert_uint_lt(strlen(answer.text), REDLOCK_TEXT_LEN);
}
END_TEST

START_TEST(a_binary_error_is_made_printable)
{
    ck_assert_str_eq(decode(REDLOCK__CMD_SET, "-ERR \x01\x7f\xc3\xbc\t.\r\n").text, "ERR ?????.");
    ck_assert_str_eq(decode(REDLOCK__CMD_SET, "-\r\n").text, "error without a text");
}
END_TEST

START_TEST(replies_without_content_do_no_harm)
{
    struct redlock__answer answer;
    for (int command = REDLOCK__CMD_AUTH; command <= REDLOCK__CMD_MARK; command++) {
        redlock__decode((enum redlock__command)command, NULL, &answer);
        ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
        ck_assert_str_eq(answer.text, "no reply");
        for (int type = -1; type <= 20; type++) {
            redisReply reply = {.type = type};
            redlock__decode((enum redlock__command)command, &reply, &answer);
            ck_assert(answer.vote == REDLOCK_VOTE_ERROR ? answer.text[0] != '\0'
                                                        : answer.text[0] == '\0');
        }
    }
}
END_TEST

/* ---- texts -------------------------------------------------------------- */

START_TEST(printable_never_writes_past_its_buffer)
{
    char to[4] = {'#', '#', '#', '#'};
    redlock__printable(to, 0, "abc", 3);
    ck_assert_int_eq(to[0], '#');
    redlock__printable(to, 1, "abc", 3);
    ck_assert_str_eq(to, "");
    redlock__printable(to, 3, "abc", 3);
    ck_assert_str_eq(to, "ab");
    ck_assert_int_eq(to[3], '#');
    redlock__printable(to, sizeof(to), "a\0c", 3);
    ck_assert_str_eq(to, "a?c");
}
END_TEST

static void assert_concealed(const char *text, const char *secret, const char *expected)
{
    char buffer[32];
    snprintf(buffer, sizeof(buffer), "%s", text);
    redlock__conceal(buffer, sizeof(buffer), secret);
    ck_assert_str_eq(buffer, expected);
}

START_TEST(a_secret_is_cut_out_of_a_text)
{
    assert_concealed("args: 'hunter2'", "hunter2", "args: '...");
    assert_concealed("hunter2", "hunter2", "...");
    assert_concealed("x", "x", "...");
    assert_concealed("t?b", "t\tb", "...");
    assert_concealed("nothing of it", "hunter2", "nothing of it");
    assert_concealed("ends with hunt", "hunter2", "ends with hunt");
    assert_concealed("no secret", NULL, "no secret");
    assert_concealed("no secret", "", "no secret");
    /* 31 characters: the buffer may have cut the secret. */
    assert_concealed("a text that fills it all, hunte", "hunter2", "a text that fills it all, ...");
    assert_concealed("a text that fills it all, to: h", "hunter2",
                     "a text that fills it all, to: .");
}
END_TEST

/* ------------------------------------------------------------------------- */

static Suite *command_suite(void)
{
    Suite *suite = suite_create("command");
    TCase *requests = tcase_create("requests");
    tcase_set_timeout(requests, SECONDS);
    tcase_add_test(requests, set_is_literally_set_nx_px);
    tcase_add_test(requests, keys_may_hold_any_byte);
    tcase_add_test(requests, the_longest_key_is_sent_whole);
    tcase_add_loop_test(requests, every_length_is_announced, 0, 11);
    tcase_add_loop_test(requests, every_number_is_written_whole, 0, 7);
    tcase_add_test(requests, scripts_go_out_as_text_with_one_key);
    tcase_add_test(requests, native_commands_compare_first);
    tcase_add_test(requests, release_asks_whether_somebody_waits);
    tcase_add_test(requests, waiting_and_waking);
    tcase_add_test(requests, no_script_can_create_a_key);
    tcase_add_test(requests, greeting_commands);
    tcase_add_test(requests, scripts_are_literally_these);
    tcase_add_test(requests, questions_for_facts);
    tcase_add_test(requests, seen_has_one_key_named_after_the_run);
    tcase_add_test(requests, mark_compares_before_it_writes);
    tcase_add_test(requests, fenced_commands_carry_three_keys);
    tcase_add_test(requests, a_counter_is_named_after_any_key);
    tcase_add_test(requests, fencing_scripts_need_few_rights);
    tcase_add_test(requests, freeing_nothing_is_fine);
    suite_add_tcase(suite, requests);

    TCase *answers = tcase_create("answers");
    tcase_set_timeout(answers, SECONDS);
    tcase_add_loop_test(answers, each_reply_counts_as_the_table_says, 0,
                        (int)(sizeof(decoded) / sizeof(decoded[0])));
    tcase_add_test(answers, a_plain_yes_is_what_reading_it_gives);
    tcase_add_test(answers, only_a_script_that_ran_tells_who_waits);
    tcase_add_loop_test(answers, an_error_keeps_its_text_and_is_never_a_vote, 0,
                        (int)(sizeof(errors) / sizeof(errors[0])));
    tcase_add_test(answers, answers_about_facts_are_no_votes);
    tcase_add_test(answers, a_refusal_is_of_the_command_not_of_the_key);
    tcase_add_test(answers, a_long_error_is_cut_and_terminated);
    tcase_add_test(answers, a_binary_error_is_made_printable);
    tcase_add_test(answers, replies_without_content_do_no_harm);
    tcase_add_test(answers, printable_never_writes_past_its_buffer);
    tcase_add_test(answers, a_secret_is_cut_out_of_a_text);
    suite_add_tcase(suite, answers);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(command_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
