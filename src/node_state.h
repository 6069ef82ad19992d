/*
 * What node.c and greeting.c share of a connection. Nobody else includes this.
 */
#ifndef REDLOCK__NODE_STATE_H
#define REDLOCK__NODE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "node.h"
#include "reading.h"
#include "replies.h"
#include "ring.h"

struct redlock__node {
    struct redlock__node_seen seen; /* comes first: see node.h */
    struct redlock__node_config config;
    char text[REDLOCK_TEXT_LEN];

    struct redlock__ring ring; /* dropped ones included */
    uint32_t dropped;          /* at the head */
    uint32_t greeting;         /* greeting commands owed: behind the dropped */
    int64_t overdue_ns;        /* deadlines up to here are missed: as last told */
    struct redlock__facts facts;

    uint64_t sent; /* bytes of this connection taken by the driver */

    struct redlock__replies replies; /* of this connection */
    struct redlock__reading reading; /* of the oldest request */
    int64_t received_ns;             /* when the last byte came */

    int64_t connecting_since_ns; /* of the present or last connect */
    bool securing;               /* in it: only the handshake of TLS is missing */
    int64_t ready_since_ns;
    int64_t pause_ms; /* before the connect after the next failure; 0: at once */
    uint64_t random;
    uint64_t connects, disconnects;
};

/* ---- node.c ---- */

/* A command of the greeting, which has no deadline of its own. False: out of memory. */
bool redlock__node_append(struct redlock__node *node, const struct redlock__tag *tag,
                          const struct redlock__bytes *bytes, int64_t now_ns);

/* ---- greeting.c ---- */

/* False: out of memory. */
bool redlock__greeting_send(struct redlock__node *node, int64_t now_ns);
/* The next answer to it. False: what it says means that no other command will be served. */
bool redlock__greeting_answered(struct redlock__node *node, const struct redisReply *reply,
                                int64_t now_ns, struct redlock__answer *answer);

#endif
