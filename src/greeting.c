/*
 * What is said first on a connection, and what comes of it: who we are, and what is to be known of
 * the primary before the first vote. See node_state.h.
 */
#include "node_state.h"

static bool greet(struct redlock__node *node, enum redlock__command command,
                  struct redlock__bytes *bytes, int64_t now_ns)
{
    struct redlock__tag tag = {.command = command};
    bool queued = bytes->len != 0 && redlock__node_make_room(node, bytes->len);

    if (queued) /* it has no deadline of its own */
        redlock__node_append(node, &tag, redlock__bytes_data(bytes), bytes->len, false,
                             REDLOCK__NEVER, now_ns);
    node->greeting += queued ? 1 : 0;
    redlock__bytes_free(bytes);
    return queued;
}

/* What we want to know before the first vote. The clock comes last: nothing slow in between. */
static const enum redlock__command introduction[] = {
    REDLOCK__CMD_INFO_SERVER, REDLOCK__CMD_INFO_REPLICATION,
    REDLOCK__CMD_SETTINGS,    REDLOCK__CMD_MARKER,
    REDLOCK__CMD_FLOOR,       REDLOCK__CMD_TIME};

bool redlock__greeting_send(struct redlock__node *node, int64_t now_ns)
{
    const struct redlock__node_config *c = &node->config;
    const char *name = c->client_name != NULL ? c->client_name : "";
    struct redlock__bytes bytes;
    if (c->password != NULL &&
        !greet(node, REDLOCK__CMD_AUTH, redlock__encode_auth(&bytes, c->user, c->password), now_ns))
        return false;
    if (c->database != 0 &&
        !greet(node, REDLOCK__CMD_SELECT, redlock__encode_select(&bytes, c->database), now_ns))
        return false;
    if (!greet(node, REDLOCK__CMD_SETNAME, redlock__encode_setname(&bytes, name), now_ns))
        return false;
    for (size_t i = 0; !c->plain && i < sizeof(introduction) / sizeof(introduction[0]); i++)
        if (!greet(node, introduction[i], redlock__encode_fact(&bytes, introduction[i]), now_ns))
            return false;
    return true;
}

bool redlock__greeting_answered(struct redlock__node *node, const struct redisReply *reply,
                                int64_t now_ns, struct redlock__answer *answer)
{
    const struct redlock__pending asked = *redlock__ring_at(&node->ring, 0);

    redlock__ring_pop(&node->ring);
    redlock__decode(asked.tag.command, reply, answer);
    redlock__facts_take(&node->facts, asked.tag.command, reply, asked.queued_ns, now_ns);
    node->greeting--;
    return answer->vote == REDLOCK_VOTE_OURS;
}
