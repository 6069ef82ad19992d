/*
 * What a connection received as answers to its requests: the usual ones by their bytes, others
 * reply by reply, of a request with several up to its last one. Pure.
 */
#ifndef REDLOCK__READING_H
#define REDLOCK__READING_H

#include <stdbool.h>
#include <stdint.h>

#include "replies.h"
#include "ring.h"

/* Of the request whose replies are being read. */
struct redlock__reading {
    uint8_t queued;                 /* replies taken before its last one */
    char refusal[REDLOCK_TEXT_LEN]; /* what one of those said instead; "": they are as expected */
};

/* The next reply is skipped if its bytes say yes to such a request, and nothing else:
 * redlock__decode_plain_yes(). */
static inline bool redlock__reading_yes(struct redlock__replies *replies,
                                        enum redlock__command command)
{
    if (command == REDLOCK__CMD_SET)
        return redlock__replies_skip(replies, "+OK\r\n", 5);
    return (command == REDLOCK__CMD_RELEASE || command == REDLOCK__CMD_EXTEND) &&
           redlock__replies_skip(replies, ":1\r\n", 4);
}

/* All replies to a GRANT by transaction are skipped if they are the usual ones, and decoded. */
bool redlock__reading_counts(struct redlock__replies *replies, const struct redlock__tag *tag,
                             struct redlock__answer *answer);

/* As redlock__replies_next(), the last reply to a request: those before it are taken as they come,
 * and counted down in its tag. */
redisReply *redlock__reading_last(struct redlock__reading *reading,
                                  struct redlock__replies *replies, struct redlock__tag *tag,
                                  const char **problem);

/* What that one says. */
void redlock__reading_decode(const struct redlock__reading *reading, const struct redlock__tag *tag,
                             const redisReply *reply, struct redlock__answer *answer);

#endif
