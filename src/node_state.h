/*
 * What node.c, node_output.c and greeting.c share of a connection. Nobody else includes this.
 */
#ifndef REDLOCK__NODE_STATE_H
#define REDLOCK__NODE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
    bool uneven;        /* requests may be dropped or overdue, which is told before answers */
    int64_t overdue_ns; /* deadlines up to here are missed: as last told */
    struct redlock__facts facts;

    uint64_t end;  /* bytes of this connection's output so far */
    uint64_t sent; /* of those, taken by the driver */

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

/* ---- node_output.c ---- */

/* For one more request, of so many bytes. False: out of memory. */
bool redlock__node_make_room(struct redlock__node *node, size_t len);

static inline bool redlock__node_has_room(const struct redlock__node *node, size_t len)
{
    return node->ring.count < node->ring.size && node->seen.out_size - node->seen.out_tail >= len;
}

/* Where there is room. lent: `data` may be borrowed. */
static inline void redlock__node_append(struct redlock__node *node, const struct redlock__tag *tag,
                                        const char *data, size_t len, bool lent,
                                        int64_t deadline_ns, int64_t now_ns)
{
    struct redlock__pending *pending = redlock__ring_push(&node->ring, deadline_ns);

    pending->tag = *tag;
    pending->queued_ns = now_ns;
    pending->begin = node->end;
    node->end += len;
    if (lent && node->seen.out_tail == 0) {
        node->seen.from = data;
    } else {
        if (node->seen.from != node->seen.out)
            redlock__node_keep(node);
        memcpy(node->seen.out + node->seen.out_tail, data, len);
    }
    node->seen.out_tail += len;
}

/* ---- greeting.c ---- */

/* False: out of memory. */
bool redlock__greeting_send(struct redlock__node *node, int64_t now_ns);
/* The next answer to it. False: what it says means that no other command will be served. */
bool redlock__greeting_answered(struct redlock__node *node, const struct redisReply *reply,
                                int64_t now_ns, struct redlock__answer *answer);

#endif
