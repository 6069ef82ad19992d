/*
 * What is said to a primary: see command.h. Its answers are in answer.c.
 *
 * A request is written as it goes: constants as they go out, with their heads, and in between what
 * differs, argument after argument. Scripts always go out as EVAL with their text: they are short,
 * and a primary that restarted or flushed its script cache needs no second try.
 */
#include "command.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "marker.h"

enum {
    NUMBER_LEN = 24,
    HEAD_LEN = NUMBER_LEN + 3, /* a kind, a count, CRLF */
    RUN_ID = 40                /* no longer */
};

static const char waiting_prefix[] = "redlock:waiting:";
static const char wake_prefix[] = "redlock:wake:";
static const char seen_prefix[] = "redlock:seen:";

/* ---- requests ----------------------------------------------------------- */

/* Where what comes next goes. `to` is NULL once there was no memory for it. */
struct writer {
    struct redlock__bytes *bytes;
    char *to, *end;
};

/* Of what every lock needs: all that is called is compiled into it, so that its writer is in
 * registers, and what is constant is written a word at a time. */
#define FLAT __attribute__((flatten))

/* On the heap, with room for so many bytes more. */
__attribute__((noinline, cold)) static struct writer grown(struct writer writer, size_t more)
{
    struct redlock__bytes *bytes = writer.bytes;
    size_t len = writer.to == NULL ? 0 : (size_t)(writer.to - redlock__bytes_data(bytes));
    size_t size = 2 * (len + more);
    char *heap = writer.to == NULL ? NULL : realloc(bytes->heap, size);

    if (heap == NULL) {
        redlock__bytes_free(bytes);
        return (struct writer){.bytes = bytes};
    }
    if (bytes->heap == NULL)
        memcpy(heap, bytes->room, len);
    bytes->heap = heap;
    return (struct writer){.bytes = bytes, .to = heap + len, .end = heap + size};
}

static bool has_room(struct writer *writer, size_t len)
{
    if ((size_t)(writer->end - writer->to) < len)
        *writer = grown(*writer, len);
    return writer->to != NULL;
}

static void put_bytes(struct writer *writer, const void *data, size_t len)
{
    memcpy(writer->to, data, len);
    writer->to += len;
}

#define TEN(tens)                                                                                  \
    tens "0" tens "1" tens "2" tens "3" tens "4" tens "5" tens "6" tens "7" tens "8" tens "9"
static const char pairs[] =
    TEN("0") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7") TEN("8") TEN("9");

/* Of digits, which end at `end`: two at a time. Returns where they begin. */
static char *digits_before(char *end, uint64_t value)
{
    for (; value >= 100; value /= 100)
        memcpy(end -= 2, pairs + 2 * (value % 100), 2);
    if (value >= 10)
        memcpy(end -= 2, pairs + 2 * value, 2);
    else
        *--end = (char)('0' + value);
    return end;
}

/* In front of an argument, or of all of them; of a constant it is one. */
static void put_head(struct writer *writer, char kind, size_t count)
{
    char *to = writer->to;

    *to++ = kind;
    if (count < 10) {
        *to++ = (char)('0' + count);
    } else if (count < 100) {
        memcpy(to, pairs + 2 * count, 2);
        to += 2;
    } else {
        char text[NUMBER_LEN];
        size_t len = (size_t)(text + sizeof text - digits_before(text + sizeof text, count));

        memcpy(to, text + sizeof text - len, len);
        to += len;
    }
    memcpy(to, "\r\n", 2);
    writer->to = to + 2;
}

/* A constant as it goes out: whole arguments, each with its head. */
static void put(struct writer *writer, const char *text)
{
    if (has_room(writer, strlen(text)))
        put_bytes(writer, text, strlen(text));
}

/* Followed by those bytes. */
static struct writer begin_at(struct redlock__bytes *bytes, const char *data, size_t len)
{
    struct writer writer = {
        .bytes = bytes, .to = bytes->room, .end = bytes->room + sizeof bytes->room};

    bytes->len = 0;
    bytes->heap = NULL;
    if (has_room(&writer, len))
        put_bytes(&writer, data, len);
    return writer;
}

/* By that constant. */
static struct writer begin_with(struct redlock__bytes *bytes, const char *text)
{
    return begin_at(bytes, text, strlen(text));
}

/* So many arguments follow. */
static struct writer begin(struct redlock__bytes *bytes, unsigned count)
{
    struct writer writer = begin_with(bytes, "");
    put_head(&writer, '*', count);
    return writer;
}

/* An argument of two parts. */
static void add_both(struct writer *writer, const char *prefix, size_t prefix_len, const void *data,
                     size_t len)
{
    if (!has_room(writer, HEAD_LEN + prefix_len + len + 2))
        return;
    put_head(writer, '$', prefix_len + len);
    put_bytes(writer, prefix, prefix_len);
    put_bytes(writer, data, len);
    put_bytes(writer, "\r\n", 2);
}

static void add_bytes(struct writer *writer, const void *data, size_t len)
{
    add_both(writer, "", 0, data, len);
}

static void add(struct writer *writer, const char *text)
{
    add_bytes(writer, text, strlen(text));
}

/* None of those we send is below zero. */
static void add_number(struct writer *writer, int64_t value)
{
    char text[2 * NUMBER_LEN], *end = text + NUMBER_LEN;
    char *at = digits_before(end, (uint64_t)value);

    assert(value >= 0);
    if (!has_room(writer, HEAD_LEN + NUMBER_LEN))
        return;
    put_head(writer, '$', (size_t)(end - at));
    memcpy(end, "\r\n", 2);
    memcpy(writer->to, at, NUMBER_LEN); /* all at once, and what comes next over the rest */
    writer->to += end + 2 - at;
}

static struct redlock__bytes *end(struct writer *writer)
{
    struct redlock__bytes *bytes = writer->bytes;

    bytes->len = writer->to == NULL ? 0 : (size_t)(writer->to - redlock__bytes_data(bytes));
    return bytes;
}

static void add_token(struct writer *writer, const char *token)
{
    _Static_assert(REDLOCK__TOKEN_HEX == 32, "its head says so");
    if (!has_room(writer, sizeof "$32\r\n\r\n" + REDLOCK__TOKEN_HEX))
        return;
    put_bytes(writer, "$32\r\n", 5);
    put_bytes(writer, token, REDLOCK__TOKEN_HEX);
    put_bytes(writer, "\r\n", 2);
}

/* Whose lock: its key and its token. */
static void add_lock(struct writer *writer, const void *key, size_t key_len, const char *token)
{
    _Static_assert(REDLOCK__TOKEN_HEX == 32, "its head says so");
    if (!has_room(writer, HEAD_LEN + key_len + sizeof "\r\n$32\r\n\r\n" + REDLOCK__TOKEN_HEX))
        return;
    put_head(writer, '$', key_len);
    put_bytes(writer, key, key_len);
    put_bytes(writer, "\r\n$32\r\n", 7);
    put_bytes(writer, token, REDLOCK__TOKEN_HEX);
    put_bytes(writer, "\r\n", 2);
}

/* A script and its keys' count; the keys come next. */
static void add_eval(struct writer *args, const char *script, const char *keys)
{
    put(args, "$4\r\nEVAL\r\n");
    add(args, script);
    add(args, keys);
}

struct redlock__bytes *redlock__encode_auth(struct redlock__bytes *bytes, const char *user,
                                            const char *password)
{
    struct writer args =
        begin_with(bytes, user != NULL ? "*3\r\n$4\r\nAUTH\r\n" : "*2\r\n$4\r\nAUTH\r\n");
    if (user != NULL)
        add(&args, user);
    add(&args, password);
    return end(&args);
}

struct redlock__bytes *redlock__encode_select(struct redlock__bytes *bytes, uint32_t database)
{
    struct writer args = begin_with(bytes, "*2\r\n$6\r\nSELECT\r\n");
    add_number(&args, database);
    return end(&args);
}

struct redlock__bytes *redlock__encode_setname(struct redlock__bytes *bytes, const char *name)
{
    struct writer args = begin_with(bytes, "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n");
    add(&args, name);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_set(struct redlock__bytes *bytes, const void *key,
                                                size_t key_len, const char *token, int64_t ttl_ms)
{
    struct writer args = begin_with(bytes, "*6\r\n$3\r\nSET\r\n");
    add_lock(&args, key, key_len, token);
    put(&args, "$2\r\nNX\r\n$2\r\nPX\r\n");
    add_number(&args, ttl_ms);
    return end(&args);
}

static struct writer begin_script(struct redlock__bytes *bytes,
                                  const struct redlock__constant *start, const void *key,
                                  size_t key_len, const char *token)
{
    struct writer writer = begin_at(bytes, start->text, start->len);

    add_lock(&writer, key, key_len, token);
    return writer;
}

FLAT struct redlock__bytes *redlock__encode_extend(struct redlock__bytes *bytes, const void *key,
                                                   size_t key_len, const char *token,
                                                   int64_t ttl_ms)
{
    struct writer args = begin_script(bytes, &redlock__extend_start, key, key_len, token);
    add_number(&args, ttl_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_extend_writing(struct redlock__bytes *bytes, const void *key,
                                                      size_t key_len, const char *token,
                                                      int64_t ttl_ms)
{
    struct writer args = begin(bytes, 7);
    add_eval(&args, redlock__extend_script, "1");
    add_lock(&args, key, key_len, token);
    add_number(&args, ttl_ms);
    add(&args, "write");
    return end(&args);
}

struct redlock__bytes *redlock__encode_wait(struct redlock__bytes *bytes, uint32_t replicas,
                                            int64_t timeout_ms)
{
    struct writer args = begin_with(bytes, "*3\r\n$4\r\nWAIT\r\n");
    add_number(&args, replicas);
    add_number(&args, timeout_ms);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_release(struct redlock__bytes *bytes, const void *key,
                                                    size_t key_len, const char *token)
{
    struct writer args = begin_script(bytes, &redlock__release_start, key, key_len, token);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_extend_native(struct redlock__bytes *bytes,
                                                          const void *key, size_t key_len,
                                                          const char *token, int64_t ttl_ms)
{
    struct writer args = begin_with(bytes, "*8\r\n$3\r\nSET\r\n");
    add_lock(&args, key, key_len, token);
    put(&args, "$4\r\nIFEQ\r\n");
    add_token(&args, token);
    put(&args, "$3\r\nGET\r\n$2\r\nPX\r\n");
    add_number(&args, ttl_ms);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_delifeq(struct redlock__bytes *bytes, const void *key,
                                                    size_t key_len, const char *token)
{
    struct writer args = begin_with(bytes, "*3\r\n$7\r\nDELIFEQ\r\n");
    add_lock(&args, key, key_len, token);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_delex(struct redlock__bytes *bytes, const void *key,
                                                  size_t key_len, const char *token)
{
    struct writer args = begin_with(bytes, "*4\r\n$5\r\nDELEX\r\n");
    add_bytes(&args, key, key_len);
    put(&args, "$4\r\nIFEQ\r\n");
    add_token(&args, token);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_release_asking(struct redlock__bytes *bytes,
                                                           const void *key, size_t key_len,
                                                           const char *token)
{
    struct writer args = begin_script(bytes, &redlock__release_asking_start, key, key_len, token);
    add_both(&args, waiting_prefix, sizeof waiting_prefix - 1, key, key_len);
    return end(&args);
}

struct redlock__bytes *redlock__encode_waiting(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, int64_t life_ms)
{
    struct writer args = begin_with(bytes, "*5\r\n$3\r\nSET\r\n");
    add_both(&args, waiting_prefix, sizeof waiting_prefix - 1, key, key_len);
    put(&args, "$1\r\n1\r\n$2\r\nPX\r\n");
    add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_block(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, int64_t seconds)
{
    struct writer args = begin_with(bytes, "*3\r\n$5\r\nBLPOP\r\n");
    add_both(&args, wake_prefix, sizeof wake_prefix - 1, key, key_len);
    add_number(&args, seconds);
    return end(&args);
}

struct redlock__bytes *redlock__encode_push(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len, uint32_t part, int64_t life_ms)
{
    static const char *const names[] = {"*2\r\n$3\r\nDEL\r\n", "*3\r\n$5\r\nLPUSH\r\n",
                                        "*3\r\n$7\r\nPEXPIRE\r\n"};
    struct writer args = begin_with(bytes, names[part]);
    add_both(&args, wake_prefix, sizeof wake_prefix - 1, key, key_len);
    if (part == 1)
        add(&args, "1");
    if (part == 2)
        add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_pttl(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len)
{
    struct writer args = begin_with(bytes, "*2\r\n$4\r\nPTTL\r\n");
    add_bytes(&args, key, key_len);
    return end(&args);
}

struct redlock__bytes *redlock__encode_get(struct redlock__bytes *bytes, const void *key,
                                           size_t key_len)
{
    struct writer args = begin_with(bytes, "*2\r\n$3\r\nGET\r\n");
    add_bytes(&args, key, key_len);
    return end(&args);
}

struct redlock__bytes *redlock__encode_fact(struct redlock__bytes *bytes,
                                            enum redlock__command command)
{
    static const struct {
        enum redlock__command command;
        unsigned count;
        const char *words[5];
    } texts[] = {{REDLOCK__CMD_INFO_SERVER, 2, {"INFO", "server"}},
                 {REDLOCK__CMD_INFO_REPLICATION, 2, {"INFO", "replication"}},
                 {REDLOCK__CMD_SETTINGS, 3, {"CONFIG", "GET", REDLOCK__SETTINGS_PATTERN}},
                 {REDLOCK__CMD_MARKER, 2, {"GET", REDLOCK__MARKER_KEY}},
                 {REDLOCK__CMD_TIME, 1, {"TIME"}},
                 {REDLOCK__CMD_MULTI, 1, {"MULTI"}},
                 {REDLOCK__CMD_FLOOR, 5, {"ZRANGE", REDLOCK__FLOOR_KEY, "0", "-1", "WITHSCORES"}}};
    struct writer args;
    size_t row = 0;

    while (texts[row].command != command && row + 1 < sizeof texts / sizeof texts[0])
        row++;
    assert(texts[row].command == command);
    args = begin(bytes, texts[row].count);
    for (unsigned i = 0; i < texts[row].count; i++)
        add(&args, texts[row].words[i]);
    if (command == REDLOCK__CMD_MULTI)
        put(&args, "*1\r\n$4\r\nEXEC\r\n");
    return end(&args);
}

struct redlock__bytes *redlock__encode_discard(struct redlock__bytes *bytes)
{
    struct writer args = begin_with(bytes, "*1\r\n$7\r\nDISCARD\r\n");
    return end(&args);
}

/* The key of a name's counter. */
struct counter {
    size_t len; /* 0: the name is too long */
    char data[sizeof "redlock:fence:{}" + REDLOCK_MAX_KEY_LEN];
};

static void make_counter(struct counter *counter, const void *key, size_t key_len)
{
    static const char before[] = "redlock:fence:{";
    size_t len = sizeof(before) - 1;

    counter->len = 0;
    if (key_len > REDLOCK_MAX_KEY_LEN)
        return;
    memcpy(counter->data, before, len);
    memcpy(counter->data + len, key, key_len);
    counter->data[len + key_len] = '}';
    counter->len = len + key_len + 1;
}

/* The keys of a fenced lock: its own, its counter, and the floor. */
static bool add_fenced(struct writer *args, const char *script, const void *key, size_t key_len)
{
    struct counter counter;

    make_counter(&counter, key, key_len);
    if (counter.len == 0)
        return false;
    add_eval(args, script, "3");
    add_bytes(args, key, key_len);
    add_bytes(args, counter.data, counter.len);
    add(args, REDLOCK__FLOOR_KEY);
    return true;
}

/* The number a base's text ends with; -1: none that we would write. */
static int64_t base_number(const char *base)
{
    size_t end = strlen(base), at = end;
    int64_t number = 0;

    while (at > 0 && base[at - 1] >= '0' && base[at - 1] <= '9')
        at--;
    if (at == end)
        return -1;
    for (; at < end; at++) {
        number = number * 10 + (base[at] - '0');
        if (number > REDLOCK__FENCE_MAX)
            return -1;
    }
    return number;
}

int64_t redlock__grant_number(int64_t heard, const char *base)
{
    int64_t number = base_number(base);

    if (number < 0)
        return 0;
    return (heard > number ? heard : number) + 1;
}

FLAT struct redlock__bytes *redlock__encode_grant(struct redlock__bytes *bytes, const void *key,
                                                  size_t key_len, const char *token, int64_t ttl_ms,
                                                  int64_t heard, const char *base)
{
    struct writer args = begin(bytes, 10);
    int64_t number = redlock__grant_number(heard, base);
    if (number == 0 || !add_fenced(&args, redlock__grant_script, key, key_len))
        return bytes;
    add(&args, token);
    add_number(&args, ttl_ms);
    add_number(&args, number);
    add(&args, base);
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_transaction(struct redlock__bytes *bytes,
                                                        const void *key, size_t key_len,
                                                        const char *token, int64_t ttl_ms,
                                                        const char *base)
{
    struct writer args = begin(bytes, 1);
    struct counter counter;

    make_counter(&counter, key, key_len);
    if (counter.len == 0)
        return bytes;
    put(&args, "$5\r\nMULTI\r\n*6\r\n$3\r\nSET\r\n");
    add_bytes(&args, key, key_len);
    add(&args, token);
    put(&args, "$2\r\nNX\r\n$2\r\nPX\r\n");
    add_number(&args, ttl_ms);
    put(&args, "*6\r\n$4\r\nZADD\r\n");
    add_bytes(&args, counter.data, counter.len);
    put(&args, "$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n$1\r\n" REDLOCK__COUNTER_MEMBER
               "\r\n*6\r\n$4\r\nZADD\r\n$13\r\n" REDLOCK__FLOOR_KEY
               "\r\n$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n");
    add(&args, base);
    put(&args, "*1\r\n$4\r\nEXEC\r\n");
    return end(&args);
}

FLAT struct redlock__bytes *redlock__encode_settle(struct redlock__bytes *bytes, const void *key,
                                                   size_t key_len, const char *token, int64_t fence,
                                                   const char *base)
{
    struct writer args = begin(bytes, 9);
    if (!add_fenced(&args, redlock__settle_script, key, key_len))
        return bytes;
    add(&args, token);
    add_number(&args, fence);
    add(&args, base);
    return end(&args);
}

struct redlock__bytes *redlock__encode_recover(struct redlock__bytes *bytes, const char *old,
                                               const char *base, int64_t number, const char *marker)
{
    struct writer args = begin(bytes, 9);
    add_eval(&args, redlock__recover_script, "2");
    add(&args, REDLOCK__FLOOR_KEY);
    add(&args, REDLOCK__MARKER_KEY);
    add(&args, old);
    add(&args, base);
    add_number(&args, number);
    add(&args, marker);
    return end(&args);
}

static void add_seen_key(struct writer *args, const char *run_id)
{
    size_t len = strlen(run_id);
    add_both(args, seen_prefix, sizeof seen_prefix - 1, run_id, len < RUN_ID ? len : RUN_ID);
}

struct redlock__bytes *redlock__encode_seen(struct redlock__bytes *bytes, const char *run_id,
                                            int64_t life_ms)
{
    struct writer args = begin(bytes, 5);
    add_eval(&args, redlock__seen_script, "1");
    add_seen_key(&args, run_id);
    add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_mark(struct redlock__bytes *bytes, const char *run_id,
                                            const char *old, const char *seen, const char *marker)
{
    struct writer args = begin(bytes, 8);
    add_eval(&args, redlock__mark_script, "2");
    add(&args, REDLOCK__MARKER_KEY);
    add_seen_key(&args, run_id);
    add(&args, old);
    add(&args, seen);
    add(&args, marker);
    return end(&args);
}

void redlock__bytes_free(struct redlock__bytes *bytes)
{
    if (bytes->heap != NULL) /* seldom: the call is spared */
        free(bytes->heap);
    bytes->heap = NULL;
    bytes->len = 0;
}
