/*
 * See replies.h. What the reader has begun it has to end: bytes go to `in` only while it has
 * nothing, and all of `in` goes to it as soon as it is to judge one reply.
 */
#include "replies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_IN ((size_t)4096)
#define MOST_IN ((size_t)64 * 1024) /* unless more waits to be read */
#define MAX_ELEMENTS 64             /* of an array */
#define MAX_DIGITS 18               /* of a number that fits for sure */

/* ---- a connection's life -------------------------------------------------- */

/* In place of the reader's own. */
static void *make_array(const redisReadTask *task, redlock__array_size elements)
{
    struct redlock__replies *replies = task->privdata;

    if (task->parent != NULL || elements > MAX_ELEMENTS) {
        replies->array_refused = true;
        return NULL;
    }
    return replies->make_array(task, elements);
}

bool redlock__replies_open(struct redlock__replies *replies)
{
    redisReader *reader = redisReaderCreate();

    if (reader == NULL)
        return false;
    replies->functions = *reader->fn;
    replies->functions.createArray = make_array;
    replies->make_array = reader->fn->createArray;
    replies->array_refused = false;
    reader->fn = &replies->functions;
    reader->privdata = replies;
    replies->reader = reader;
    replies->plain = true;
    return true;
}

void redlock__replies_close(struct redlock__replies *replies)
{
    if (replies->reader != NULL)
        redisReaderFree(replies->reader);
    replies->reader = NULL;
    replies->plain = false;
    replies->in_head = replies->in_tail = 0;
}

void redlock__replies_destroy(struct redlock__replies *replies)
{
    redlock__replies_close(replies);
    free(replies->in);
    replies->in = NULL;
}

/* ---- bytes ---------------------------------------------------------------- */

__attribute__((cold)) bool redlock__replies_make_room(struct redlock__replies *replies)
{
    size_t size = replies->in_size == 0 ? FIRST_IN : 2 * replies->in_size;
    char *in;

    if (replies->in_head == replies->in_tail && replies->in_tail > 0) {
        replies->in_head = replies->in_tail = 0;
        return true;
    }
    in = realloc(replies->in, size);
    if (in == NULL)
        return false;
    replies->in = in;
    replies->in_size = size;
    return true;
}

/* There may be much to come, of a crowd: where there is no memory, it comes in more turns. */
__attribute__((cold)) bool redlock__replies_take_rare(struct redlock__replies *replies, size_t len)
{
    if (replies->reader == NULL)
        return true;
    if (!replies->plain)
        return redisReaderFeed(replies->reader, replies->in + replies->in_tail, len) == REDIS_OK;
    replies->in_tail += len;
    if (replies->in_size < MOST_IN)
        (void)redlock__replies_make_room(replies);
    return true;
}

/* ---- short replies -------------------------------------------------------- */

/* The number whose digits begin at *at, without leading zeros and with its CRLF. False: none, or
 * the reader is to say what is wrong with it. */
static bool brief_number(const char **at, const char *end, long long *number)
{
    const char *p = *at;
    bool negative = p < end && *p == '-';
    const char *first = p += negative;
    long long value = 0;

    while (p < end && p - first < MAX_DIGITS && *p >= '0' && *p <= '9')
        value = 10 * value + (*p++ - '0');
    if (p == first || end - p < 2 || p[0] != '\r' || p[1] != '\n' ||
        (*first == '0' && (p - first > 1 || negative)))
        return false;
    *number = negative ? -value : value;
    *at = p + 2;
    return true;
}

/* A string of the length read, at `text`. Its CRLF becomes its end: callers expect one. Returns
 * where the next reply begins, NULL: not a short string. */
static char *brief_string(char *text, const char *end, long long len, redisReply *reply)
{
    if (len == -1) {
        reply->type = REDIS_REPLY_NIL;
        return text;
    }
    if (len < 0 || end - text < 2 || len > end - text - 2 || text[len] != '\r' ||
        text[len + 1] != '\n')
        return NULL;
    text[len] = '\0';
    reply->type = REDIS_REPLY_STRING;
    reply->str = text;
    reply->len = (size_t)len;
    return text + len + 2;
}

/* Takes the next reply out of what was received, if it is a short one that is there as a whole. */
static bool take_brief(struct redlock__replies *replies)
{
    static char ok[] = "OK";
    redisReply *reply = &replies->brief;
    const char *at = replies->in + replies->in_head, *end = replies->in + replies->in_tail;
    char kind = *at++;
    long long number = 0;

    reply->str = NULL; /* an earlier one's, which may be gone */
    reply->len = 0;
    if (kind == '+' && end - at >= 4 && memcmp(at, "OK\r\n", 4) == 0) {
        reply->type = REDIS_REPLY_STATUS;
        reply->str = ok;
        reply->len = 2;
        at += 4;
    } else if ((kind != ':' && kind != '$') || !brief_number(&at, end, &number)) {
        return false;
    } else if (kind == ':') {
        reply->type = REDIS_REPLY_INTEGER;
        reply->integer = number;
    } else {
        at = brief_string(replies->in + (at - replies->in), end, number, reply);
    }
    if (at == NULL)
        return false;
    replies->in_head = (size_t)(at - replies->in);
    return true;
}

/* A string that is a whole number above 0. */
static bool brief_score(const char **at, const char *end, int64_t *number)
{
    long long len, value;
    const char *first;

    if (*at == end || *(*at)++ != '$' || !brief_number(at, end, &len))
        return false;
    first = *at;
    if (!brief_number(at, end, &value) || value < 1 || *at - first != len + 2)
        return false;
    *number = value;
    return true;
}

bool redlock__replies_skip_counts(struct redlock__replies *replies, int64_t *second, int64_t *third)
{
    static const char usual[] = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n";
    const char *at = replies->in + replies->in_head, *end = replies->in + replies->in_tail;

    if ((size_t)(end - at) < sizeof usual - 1 || memcmp(at, usual, sizeof usual - 1) != 0)
        return false;
    at += sizeof usual - 1;
    if (!brief_score(&at, end, second) || !brief_score(&at, end, third))
        return false;
    replies->in_head = (size_t)(at - replies->in);
    return true;
}

/* ---- replies in their order ----------------------------------------------- */

static redisReply *fail(struct redlock__replies *replies, const char **problem, const char *what)
{
    (void)snprintf(replies->problem, sizeof replies->problem, "protocol error: %s", what);
    *problem = replies->problem;
    return NULL;
}

static redisReply *fail_first(struct redlock__replies *replies, const char **problem, char first)
{
    char text[64];

    (void)snprintf(text, sizeof text, "a reply starts with byte 0x%02x%s",
                   (unsigned)(unsigned char)first,
                   first == 0x15 ? ", as one of a TLS port does" : "");
    return fail(replies, problem, text);
}

/* Of the reader. */
static redisReply *read_reply(struct redlock__replies *replies, const char **problem)
{
    redisReader *reader = replies->reader;
    void *reply = NULL;
    char text[64];

    if (reader->len == reader->pos)
        return NULL;
    char first = reader->buf[reader->pos]; /* of a reply, if ridx is -1 */
    if (reader->ridx < 0 && memchr("+-:$*", first, 5) == NULL)
        return fail_first(replies, problem, first);
    if (redisReaderGetReply(reader, &reply) != REDIS_OK) {
        if (replies->array_refused)
            return fail(replies, problem, "a long or nested array");
        if (reader->err != REDIS_ERR_OOM)
            return fail(replies, problem, reader->errstr);
        *problem = reader->errstr;
        return NULL;
    }
    if (reply == NULL && reader->len - reader->pos > REDLOCK__MAX_REPLY) {
        (void)snprintf(text, sizeof text, "a reply of more than %d bytes", REDLOCK__MAX_REPLY);
        return fail(replies, problem, text);
    }
    return reply;
}

redisReply *redlock__replies_next(struct redlock__replies *replies, const char **problem)
{
    size_t rest = replies->in_tail - replies->in_head;
    redisReply *reply;

    *problem = NULL;
    if (replies->reader == NULL)
        return NULL;
    if (rest > 0 && take_brief(replies))
        return &replies->brief;
    if (rest > 0) {
        const char *data = replies->in + replies->in_head;

        replies->in_head = replies->in_tail = 0;
        if (redisReaderFeed(replies->reader, data, rest) != REDIS_OK) {
            *problem = "out of memory";
            return NULL;
        }
    }
    reply = read_reply(replies, problem);
    replies->plain = replies->reader->len == replies->reader->pos && replies->reader->ridx < 0;
    return reply;
}

void redlock__replies_done(struct redlock__replies *replies, redisReply *reply)
{
    if (reply != &replies->brief)
        freeReplyObject(reply);
}
