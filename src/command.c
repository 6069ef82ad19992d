/*
 * What is said to a primary: see command.h. Its answers are in answer.c.
 *
 * A request is written as it goes, argument after argument, behind their number. Scripts
 * always go out as EVAL with their text: they are short, and a primary that restarted
 * or flushed its script cache needs no second try.
 */
#include "command.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "marker.h"

enum {
    NUMBER_LEN = 24,
    HEAD_LEN = NUMBER_LEN + 3, /* a kind, a count, CRLF */
    SEEN_KEY_LEN = 64
};

static const char waiting_prefix[] = "redlock:waiting:";
static const char wake_prefix[] = "redlock:wake:";

/* ---- requests ----------------------------------------------------------- */

/* Where the next argument goes. `to` is NULL once there was no memory for one. */
struct writer {
    struct redlock__bytes *bytes;
    char *to, *end;
    unsigned missing; /* arguments of those that were announced */
};

/* The digits, not terminated. Returns behind them. */
static inline char *put_digits(char *to, uint64_t value)
{
    char reversed[NUMBER_LEN];
    size_t n = 0;

    for (; value >= 10; value /= 10)
        reversed[n++] = (char)('0' + value % 10);
    *to++ = (char)('0' + value);
    while (n > 0)
        *to++ = reversed[--n];
    return to;
}

static inline char *put_head(char *to, char kind, size_t count)
{
    *to++ = kind;
    if (count < 10) {
        *to++ = (char)('0' + count);
    } else if (count < 100) {
        *to++ = (char)('0' + count / 10);
        *to++ = (char)('0' + count % 10);
    } else {
        to = put_digits(to, count);
    }
    memcpy(to, "\r\n", 2);
    return to + 2;
}

static inline struct writer begin(struct redlock__bytes *bytes, unsigned count)
{
    bytes->len = 0;
    bytes->heap = NULL;
    return (struct writer){.bytes = bytes,
                           .to = put_head(bytes->room, '*', count),
                           .end = bytes->room + sizeof bytes->room,
                           .missing = count};
}

/* Makes room for so many bytes more, on the heap. */
static bool grow(struct writer *writer, size_t more)
{
    struct redlock__bytes *bytes = writer->bytes;
    bool first = bytes->heap == NULL;
    size_t len, size;
    char *heap;

    if (writer->to == NULL)
        return false;
    len = (size_t)(writer->to - redlock__bytes_data(bytes));
    size = 2 * (len + more);
    heap = realloc(bytes->heap, size);
    if (heap != NULL) {
        if (first)
            memcpy(heap, bytes->room, len);
        bytes->heap = heap;
        writer->to = heap + len;
        writer->end = heap + size;
        return true;
    }
    free(bytes->heap);
    bytes->heap = writer->to = writer->end = NULL;
    return false;
}

static inline void add_bytes(struct writer *writer, const void *data, size_t len)
{
    char *to;

    writer->missing--;
    if ((size_t)(writer->end - writer->to) < HEAD_LEN + len + 2 &&
        !grow(writer, HEAD_LEN + len + 2))
        return;
    to = put_head(writer->to, '$', len);
    memcpy(to, data, len);
    memcpy(to + len, "\r\n", 2);
    writer->to = to + len + 2;
}

/* What is the same in each, as it goes out. */
static void add_piece(struct writer *writer, const char *text, size_t len)
{
    if ((size_t)(writer->end - writer->to) < len && !grow(writer, len))
        return;
    memcpy(writer->to, text, len);
    writer->to += len;
}

#define ADD_PIECE(writer, text) add_piece(writer, text, sizeof(text) - 1)

static inline void add(struct writer *writer, const char *text)
{
    add_bytes(writer, text, strlen(text));
}

/* None of those we send is below zero. */
static void add_number(struct writer *writer, int64_t value)
{
    char number[NUMBER_LEN];

    assert(value >= 0);
    add_bytes(writer, number, (size_t)(put_digits(number, (uint64_t)value) - number));
}

static struct redlock__bytes *end(struct writer *writer)
{
    struct redlock__bytes *bytes = writer->bytes;

    assert(writer->missing == 0);
    bytes->len = writer->to == NULL ? 0 : (size_t)(writer->to - redlock__bytes_data(bytes));
    return bytes;
}

/* A command about the key of this owner. */
static void add_owned(struct writer *args, const char *command, const void *key, size_t key_len,
                      const char *token)
{
    add(args, command);
    add_bytes(args, key, key_len);
    add(args, token);
}

/* A script and its keys' count; the keys come next. */
static inline void add_eval(struct writer *args, const char *script, const char *keys)
{
    add(args, "EVAL");
    add(args, script);
    add(args, keys);
}

struct redlock__bytes *redlock__encode_auth(struct redlock__bytes *bytes, const char *user,
                                            const char *password)
{
    struct writer args = begin(bytes, user != NULL ? 3 : 2);
    add(&args, "AUTH");
    if (user != NULL)
        add(&args, user);
    add(&args, password);
    return end(&args);
}

struct redlock__bytes *redlock__encode_select(struct redlock__bytes *bytes, uint32_t database)
{
    struct writer args = begin(bytes, 2);
    add(&args, "SELECT");
    add_number(&args, database);
    return end(&args);
}

struct redlock__bytes *redlock__encode_setname(struct redlock__bytes *bytes, const char *name)
{
    struct writer args = begin(bytes, 3);
    add(&args, "CLIENT");
    add(&args, "SETNAME");
    add(&args, name);
    return end(&args);
}

struct redlock__bytes *redlock__encode_set(struct redlock__bytes *bytes, const void *key,
                                           size_t key_len, const char *token, int64_t ttl_ms)
{
    struct writer args = begin(bytes, 6);
    add_owned(&args, "SET", key, key_len, token);
    add(&args, "NX");
    add(&args, "PX");
    add_number(&args, ttl_ms);
    return end(&args);
}

static void add_script(struct writer *args, const char *script, const void *key, size_t key_len,
                       const char *token)
{
    add_eval(args, script, "1");
    add_bytes(args, key, key_len);
    add(args, token);
}

struct redlock__bytes *redlock__encode_extend(struct redlock__bytes *bytes, const void *key,
                                              size_t key_len, const char *token, int64_t ttl_ms)
{
    struct writer args = begin(bytes, 6);
    add_script(&args, redlock__extend_script, key, key_len, token);
    add_number(&args, ttl_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_extend_writing(struct redlock__bytes *bytes, const void *key,
                                                      size_t key_len, const char *token,
                                                      int64_t ttl_ms)
{
    struct writer args = begin(bytes, 7);
    add_script(&args, redlock__extend_script, key, key_len, token);
    add_number(&args, ttl_ms);
    add(&args, "write");
    return end(&args);
}

struct redlock__bytes *redlock__encode_wait(struct redlock__bytes *bytes, uint32_t replicas,
                                            int64_t timeout_ms)
{
    struct writer args = begin(bytes, 3);
    add(&args, "WAIT");
    add_number(&args, replicas);
    add_number(&args, timeout_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_release(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, const char *token)
{
    struct writer args = begin(bytes, 5);
    add_script(&args, redlock__release_script, key, key_len, token);
    return end(&args);
}

struct redlock__bytes *redlock__encode_extend_native(struct redlock__bytes *bytes, const void *key,
                                                     size_t key_len, const char *token,
                                                     int64_t ttl_ms)
{
    struct writer args = begin(bytes, 8);
    add_owned(&args, "SET", key, key_len, token);
    add(&args, "IFEQ");
    add(&args, token);
    add(&args, "GET");
    add(&args, "PX");
    add_number(&args, ttl_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_delifeq(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, const char *token)
{
    struct writer args = begin(bytes, 3);
    add_owned(&args, "DELIFEQ", key, key_len, token);
    return end(&args);
}

struct redlock__bytes *redlock__encode_delex(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, const char *token)
{
    struct writer args = begin(bytes, 4);
    add(&args, "DELEX");
    add_bytes(&args, key, key_len);
    add(&args, "IFEQ");
    add(&args, token);
    return end(&args);
}

/* "redlock:waiting:" and the name: one buffer for each of the two keys of a name. */
struct side_key {
    size_t len;
    char data[sizeof "redlock:waiting:" + REDLOCK_MAX_KEY_LEN];
};

static void make_side_key(struct side_key *side, const char *prefix, const void *key,
                          size_t key_len)
{
    size_t len = strlen(prefix);
    if (key_len > REDLOCK_MAX_KEY_LEN)
        key_len = REDLOCK_MAX_KEY_LEN;
    memcpy(side->data, prefix, len);
    memcpy(side->data + len, key, key_len);
    side->len = len + key_len;
}

struct redlock__bytes *redlock__encode_release_asking(struct redlock__bytes *bytes, const void *key,
                                                      size_t key_len, const char *token)
{
    struct writer args = begin(bytes, 6);
    struct side_key waiting;
    make_side_key(&waiting, waiting_prefix, key, key_len);
    add_script(&args, redlock__release_asking_script, key, key_len, token);
    add_bytes(&args, waiting.data, waiting.len);
    return end(&args);
}

struct redlock__bytes *redlock__encode_waiting(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, int64_t life_ms)
{
    struct writer args = begin(bytes, 5);
    struct side_key waiting;
    make_side_key(&waiting, waiting_prefix, key, key_len);
    add(&args, "SET");
    add_bytes(&args, waiting.data, waiting.len);
    add(&args, "1");
    add(&args, "PX");
    add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_block(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, int64_t seconds)
{
    struct writer args = begin(bytes, 3);
    struct side_key wake;
    make_side_key(&wake, wake_prefix, key, key_len);
    add(&args, "BLPOP");
    add_bytes(&args, wake.data, wake.len);
    add_number(&args, seconds);
    return end(&args);
}

struct redlock__bytes *redlock__encode_push(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len, uint32_t part, int64_t life_ms)
{
    static const char *const names[] = {"DEL", "LPUSH", "PEXPIRE"};
    struct writer args = begin(bytes, part == 0 ? 2 : 3);
    struct side_key wake;
    make_side_key(&wake, wake_prefix, key, key_len);
    add(&args, names[part]);
    add_bytes(&args, wake.data, wake.len);
    if (part == 1)
        add(&args, "1");
    if (part == 2)
        add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_pttl(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len)
{
    struct writer args = begin(bytes, 2);
    add(&args, "PTTL");
    add_bytes(&args, key, key_len);
    return end(&args);
}

struct redlock__bytes *redlock__encode_get(struct redlock__bytes *bytes, const void *key,
                                           size_t key_len)
{
    struct writer args = begin(bytes, 2);
    add(&args, "GET");
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
        ADD_PIECE(&args, "*1\r\n$4\r\nEXEC\r\n");
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

struct redlock__bytes *redlock__encode_grant(struct redlock__bytes *bytes, const void *key,
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

struct redlock__bytes *redlock__encode_transaction(struct redlock__bytes *bytes, const void *key,
                                                   size_t key_len, const char *token,
                                                   int64_t ttl_ms, const char *base)
{
    struct writer args = begin(bytes, 1);
    struct counter counter;

    make_counter(&counter, key, key_len);
    if (counter.len == 0)
        return bytes;
    args.missing = 5;
    ADD_PIECE(&args, "$5\r\nMULTI\r\n*6\r\n$3\r\nSET\r\n");
    add_bytes(&args, key, key_len);
    add(&args, token);
    ADD_PIECE(&args, "$2\r\nNX\r\n$2\r\nPX\r\n");
    add_number(&args, ttl_ms);
    ADD_PIECE(&args, "*6\r\n$4\r\nZADD\r\n");
    add_bytes(&args, counter.data, counter.len);
    ADD_PIECE(&args, "$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n$1\r\n" REDLOCK__COUNTER_MEMBER
                     "\r\n*6\r\n$4\r\nZADD\r\n$13\r\n" REDLOCK__FLOOR_KEY
                     "\r\n$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n");
    add(&args, base);
    ADD_PIECE(&args, "*1\r\n$4\r\nEXEC\r\n");
    return end(&args);
}

struct redlock__bytes *redlock__encode_settle(struct redlock__bytes *bytes, const void *key,
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

static void seen_key(char key[SEEN_KEY_LEN], const char *run_id)
{
    snprintf(key, SEEN_KEY_LEN, "redlock:seen:%.40s", run_id);
}

struct redlock__bytes *redlock__encode_seen(struct redlock__bytes *bytes, const char *run_id,
                                            int64_t life_ms)
{
    struct writer args = begin(bytes, 5);
    char key[SEEN_KEY_LEN];
    seen_key(key, run_id);
    add_eval(&args, redlock__seen_script, "1");
    add(&args, key);
    add_number(&args, life_ms);
    return end(&args);
}

struct redlock__bytes *redlock__encode_mark(struct redlock__bytes *bytes, const char *run_id,
                                            const char *old, const char *seen, const char *marker)
{
    struct writer args = begin(bytes, 8);
    char key[SEEN_KEY_LEN];
    seen_key(key, run_id);
    add_eval(&args, redlock__mark_script, "2");
    add(&args, REDLOCK__MARKER_KEY);
    add(&args, key);
    add(&args, old);
    add(&args, seen);
    add(&args, marker);
    return end(&args);
}

void redlock__bytes_free(struct redlock__bytes *bytes)
{
    free(bytes->heap);
    bytes->heap = NULL;
    bytes->len = 0;
}
