/* resp.c: where commands and replies begin, however the stream is cut. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resp.h"
#include "seed.h"

#define SEEDS 2000

static char trace[4096];

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void note(const char *format, ...)
{
    size_t used = strlen(trace);
    va_list rest;

    va_start(rest, format);
    (void)vsnprintf(trace + used, sizeof trace - used, format, rest);
    va_end(rest);
}

/* What is decided where, as "name key@start ", in pieces of `piece` bytes. */
static const char *commands_of(const char *text, size_t piece)
{
    struct resp_commands commands = {0};
    size_t len = strlen(text);
    enum resp_event event;

    trace[0] = '\0';
    for (size_t at = 0; at < len;) {
        size_t n = len - at < piece ? len - at : piece;
        at += resp_commands(&commands, text + at, n, &event);
        if (event == RESP_COMMAND)
            note("%s %.*s@%d ", commands.name, (int)(commands.has_key ? commands.key_len : 1),
                 commands.has_key ? commands.key : "-", (int)commands.resp.start);
    }
    if (!commands.resp.opaque)
        ck_assert_uint_eq(commands.resp.at, len);
    note("%s", commands.resp.opaque ? "opaque" : resp_undecided(&commands) ? "undecided" : "");
    return trace;
}

/* "[12" a reply begins at 12, "]17 " it ends before 17. */
static const char *replies_of(const char *text, size_t len, size_t piece)
{
    struct resp_replies replies = {0};
    enum resp_event event;

    trace[0] = '\0';
    for (size_t at = 0; at < len;) {
        size_t n = len - at < piece ? len - at : piece;
        at += resp_replies(&replies, text + at, n, &event);
        if (event == RESP_REPLY)
            note("[%d", (int)replies.resp.start);
        else if (event == RESP_REPLY_END)
            note("]%d ", (int)replies.resp.at);
    }
    note("%s", replies.resp.opaque ? "opaque" : "");
    return trace;
}

struct sample {
    const char *text, *expected;
};

#define EVAL "*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n"

static const struct sample commands[] = {
    {"*1\r\n$4\r\nping\r\n", "PING -@0 "},
    {"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\n*1\r\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n",
     "SET a@0 GET b@29 "},
    {EVAL "1\r\n$3\r\nkey\r\n", "EVAL key@0 "},
    {EVAL "0\r\n$3\r\narg\r\n*1\r\n$4\r\nPING\r\n", "EVAL -@0 PING -@44 "},
    {"*3\r\n$4\r\nEVAL\r\n$1\r\nx\r\n$1\r\n1\r\n", "EVAL -@0 "},
    {"*2\r\n$6\r\nSCRIPT\r\n$0\r\n\r\n", "SCRIPT @0 "},
    {"*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n", "PING -@9 "},
    {"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$100\r\nx", "SET a@0 "},
    {"*3\r\n$3\r\nSET\r\n$1\r\na", "undecided"},
    {"*", "undecided"},
    {"*3\r\n$4\r\nEVAL\r\n$100\r\nxyz", "undecided"},
    {"*1\r\n$40\r\n0123456789012345678901234567890123456789\r\n",
     "0123456789012345678901234567890 -@0 "},
    {"PING\r\n", "opaque"},
    {"*x\r\n", "opaque"},
    {"*1\r\n+OK\r\n", "opaque"},
    {"*1\r\n$-1\r\n", "opaque"},
    {"*1\r\n$1\r\nabc", "opaque"},
    {"*99999999999999999999\r\n", "opaque"},
};

START_TEST(test_commands)
{
    const struct sample *sample = &commands[_i];

    for (size_t piece = 1; piece <= strlen(sample->text); piece++)
        ck_assert_str_eq(commands_of(sample->text, piece), sample->expected);
}
END_TEST

static const struct sample replies[] = {
    {"+OK\r\n-ERR no\r\n:-1\r\n", "[0]5 [5]14 [14]19 "},
    {"$5\r\n+OK\r\n\r\n$-1\r\n$0\r\n\r\n", "[0]11 [11]16 [16]22 "},
    {"*2\r\n*2\r\n:1\r\n$1\r\nx\r\n*0\r\n*-1\r\n+OK\r\n", "[0]23 [23]28 [28]33 "},
    {"_\r\n#t\r\n,1.5\r\n(12345678901234567890\r\n", "[0]3 [3]7 [7]13 [13]36 "},
    {"%1\r\n+a\r\n*1\r\n:1\r\n~2\r\n:1\r\n:2\r\n", "[0]16 [16]28 "},
    {"!5\r\nERR x\r\n=5\r\ntxt:x\r\n", "[0]11 [11]22 "},
    {">2\r\n+a\r\n+b\r\n+OK\r\n", "[12]17 "},
    {"|1\r\n+ttl\r\n:3\r\n*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n", "[0]38 "},
    {"*3\r\n+a\r\n", "[0"},
    {"\x16\x03\x01", "opaque"},
    {"+OK\r\n?\r\n", "[0]5 opaque"},
    {"$1\r\nabc", "[0opaque"},
};

START_TEST(test_replies)
{
    const struct sample *sample = &replies[_i];

    for (size_t piece = 1; piece <= strlen(sample->text); piece++)
        ck_assert_str_eq(replies_of(sample->text, strlen(sample->text), piece), sample->expected);
}
END_TEST

/* A key that is long, or comes late, isn't known; the command is, and so is what follows. */
START_TEST(test_limits)
{
    struct resp_commands late = {0};
    size_t size = 2 * RESP_UNDECIDED_MAX, used;
    char *text = malloc(size + 128);
    enum resp_event event;
    int head;

    ck_assert_ptr_nonnull(text);
    head = snprintf(text, 64, "*2\r\n$3\r\nGET\r\n$%d\r\n", RESP_KEY_MAX + 1);
    memset(text + head, 'k', RESP_KEY_MAX + 1);
    strcpy(text + head + RESP_KEY_MAX + 1, "\r\n*1\r\n$4\r\nPING\r\n");
    ck_assert_ptr_nonnull(strstr(commands_of(text, 100), "GET -@0 PING -@"));

    head = snprintf(text, 64, "*4\r\n$4\r\nEVAL\r\n$%zu\r\n", size);
    memset(text + head, 's', size);
    used = resp_commands(&late, text, (size_t)head + RESP_UNDECIDED_MAX / 2, &event);
    ck_assert_int_eq(event, RESP_MORE);
    ck_assert(resp_undecided(&late));
    used += resp_commands(&late, text + used, RESP_UNDECIDED_MAX, &event);
    ck_assert_int_eq(event, RESP_COMMAND);
    ck_assert_str_eq(late.name, "EVAL");
    ck_assert(!late.has_key && !resp_undecided(&late));
    free(text);
}
END_TEST

/* Any bytes are used up, and in any pieces say the same. */
static void try_bytes(uint64_t seed)
{
    static const char alphabet[] = "*$+-:~%>|_!=0123\r\n\r\n\r\nab";
    struct stream stream = stream_of(seed, "bytes");
    char text[200], whole[sizeof trace];
    size_t len = sizeof text - 1;

    for (size_t i = 0; i < len; i++)
        text[i] = alphabet[stream_below(&stream, sizeof alphabet - 1)];
    text[len] = '\0';
    text[0] = '*';
    strcpy(whole, commands_of(text, len));
    ck_assert_msg(strcmp(commands_of(text, 1), whole) == 0, "seed %d: %s", (int)seed, whole);
    strcpy(whole, replies_of(text, len, len));
    ck_assert_msg(strcmp(replies_of(text, len, 1), whole) == 0, "seed %d: %s", (int)seed, whole);
}

START_TEST(test_random_bytes)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        try_bytes(seed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("resp");
    TCase *tcase = tcase_create("streams");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, test_commands, 0, (int)(sizeof commands / sizeof *commands));
    tcase_add_loop_test(tcase, test_replies, 0, (int)(sizeof replies / sizeof *replies));
    tcase_add_test(tcase, test_limits);
    tcase_add_test(tcase, test_random_bytes);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
