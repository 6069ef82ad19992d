/*
 * One connection's bytes received, and the replies in them. Pure.
 *
 * Nearly all answers to a lock's commands are "+OK", a number, nil or a short string, and are taken
 * as they are out of the bytes: no memory is taken for them. What is anything else, or not there as
 * a whole, is hiredis' reader's, with all that follows until it has nothing left. All answers to
 * our commands are of five types; any other first byte is an error before the reader sees it.
 * Arrays are short and flat: hiredis' own maker of them would take memory for as many elements as a
 * peer names.
 */
#ifndef REDLOCK__REPLIES_H
#define REDLOCK__REPLIES_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    REDLOCK__LEAST_ROOM = 1024,      /* bytes to receive into */
    REDLOCK__MAX_REPLY = 1024 * 1024 /* bytes kept of one that isn't there as a whole */
};

/* The number of elements is an int up to hiredis 0.14. */
#if HIREDIS_MAJOR >= 1
typedef size_t redlock__array_size;
#else
typedef int redlock__array_size;
#endif

struct redlock__replies {
    char *in; /* in_head .. in_tail was received, and not shown to the reader */
    size_t in_size, in_head, in_tail;
    redisReply brief;    /* the last reply, if it was a short one */
    redisReader *reader; /* NULL: closed */
    bool plain;          /* it is open, and the reader has nothing: it needs not be asked */
    redisReplyObjectFunctions functions;
    void *(*make_array)(const redisReadTask *task, redlock__array_size elements);
    bool array_refused;
    char problem[160];
};

/* A new connection; all zero is a closed one. False: out of memory. */
bool redlock__replies_open(struct redlock__replies *replies);
void redlock__replies_close(struct redlock__replies *replies);
void redlock__replies_destroy(struct redlock__replies *replies);

bool redlock__replies_make_room(struct redlock__replies *replies);
bool redlock__replies_take_rare(struct redlock__replies *replies, size_t len);

/* Where bytes may be received to: *len of them, and not few; NULL: out of memory. */
static inline char *redlock__replies_room(struct redlock__replies *replies, size_t *len)
{
    if (replies->in_size - replies->in_tail < REDLOCK__LEAST_ROOM &&
        !redlock__replies_make_room(replies))
        return NULL;
    *len = replies->in_size - replies->in_tail;
    return replies->in + replies->in_tail;
}

/* So many came there. False: out of memory. They are nothing when closed. */
static inline bool redlock__replies_take(struct redlock__replies *replies, size_t len)
{
    if (!replies->plain || replies->in_tail + len == replies->in_size)
        return redlock__replies_take_rare(replies, len);
    replies->in_tail += len;
    return true;
}

/* Bytes that the reader wasn't shown: as long as there are some, it has none. */
static inline bool redlock__replies_received(const struct redlock__replies *replies)
{
    return replies->in_head != replies->in_tail;
}

/* Bytes that haven't been read. */
static inline bool redlock__replies_any(const struct redlock__replies *replies)
{
    return redlock__replies_received(replies) || (!replies->plain && replies->reader != NULL &&
                                                  replies->reader->len != replies->reader->pos);
}

/* The next reply, if it is this one, of four or five bytes, is skipped: two comparisons, no call.
 */
static inline bool redlock__replies_skip(struct redlock__replies *replies, const char *text,
                                         size_t len)
{
    const char *at = replies->in + replies->in_head;
    uint32_t is, wanted;

    if (replies->in_tail - replies->in_head < len)
        return false;
    memcpy(&is, at, sizeof is);
    memcpy(&wanted, text, sizeof wanted);
    if (is != wanted || (len > sizeof is && at[sizeof is] != text[sizeof is]))
        return false;
    replies->in_head += len;
    if (replies->in_head == replies->in_tail)
        replies->in_head = replies->in_tail = 0;
    return true;
}

/* The replies to MULTI, three commands and EXEC, if they are there and as usual: all of them are
 * skipped, the first command said +OK, the others gave these numbers. */
bool redlock__replies_skip_counts(struct redlock__replies *replies, int64_t *second,
                                  int64_t *third);

/* The next reply, until redlock__replies_done(). NULL: none yet, or what follows can't be read;
 * then *problem says why, and the connection is of no more use. */
redisReply *redlock__replies_next(struct redlock__replies *replies, const char **problem);
void redlock__replies_done(struct redlock__replies *replies, redisReply *reply);

#endif
