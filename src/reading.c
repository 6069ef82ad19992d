/*
 * See reading.h.
 */
#include "reading.h"

#include <string.h>

bool redlock__reading_usual(struct redlock__replies *replies, const struct redlock__tag *tag,
                            struct redlock__answer *answer)
{
    enum redlock__command command = tag->command;
    int64_t counter, floor;
    bool yes = false;

    if (command == REDLOCK__CMD_SET)
        yes = redlock__replies_skip(replies, "+OK\r\n");
    else if (command == REDLOCK__CMD_RELEASE || command == REDLOCK__CMD_EXTEND)
        yes = redlock__replies_skip(replies, ":1\r\n");
    else if (tag->before == REDLOCK__BEFORE_GRANT &&
             redlock__replies_skip_counts(replies, &counter, &floor)) {
        redlock__decode_counts(counter, floor, tag->number, answer);
        return true;
    }
    if (yes)
        redlock__decode_plain_yes(command, answer);
    return yes;
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
