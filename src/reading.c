/*
 * See reading.h.
 */
#include "reading.h"

#include <string.h>

bool redlock__reading_counts(struct redlock__replies *replies, const struct redlock__tag *tag,
                             struct redlock__answer *answer)
{
    int64_t counter, floor;

    if (tag->before != REDLOCK__BEFORE_GRANT ||
        !redlock__replies_skip_counts(replies, &counter, &floor))
        return false;
    redlock__decode_counts(counter, floor, tag->number, answer);
    return true;
}

redisReply *redlock__reading_last(struct redlock__reading *reading,
                                  struct redlock__replies *replies, struct redlock__tag *tag,
                                  const char **problem)
{
    char text[REDLOCK_TEXT_LEN];
    redisReply *reply;

    while ((reply = redlock__replies_next(replies, problem)) != NULL && tag->before > 0) {
        if (reading->queued == 0)
            reading->refusal[0] = '\0';
        if (!redlock__decode_queued(reply, reading->queued == 0, text) &&
            reading->refusal[0] == '\0')
            memcpy(reading->refusal, text, sizeof text);
        redlock__replies_done(replies, reply);
        reading->queued++;
        tag->before--;
    }
    if (reply != NULL)
        reading->queued = 0;
    return reply;
}

void redlock__reading_decode(const struct redlock__reading *reading, const struct redlock__tag *tag,
                             const redisReply *reply, struct redlock__answer *answer)
{
    if (tag->command == REDLOCK__CMD_GRANT && tag->number != 0)
        redlock__decode_transaction(reply, reading->refusal, tag->number, answer);
    else
        redlock__decode(tag->command, reply, answer);
}
