/*
 * Side links: further connections of a client to one of its primaries, for commands that block
 * their connection and would keep everybody behind them waiting.
 *
 * A side link is a node of its own, bound to a primary's endpoint: the same greeting, but for what
 * is asked about the primary, the same deadlines and pauses. Its owner takes one, uses its node,
 * and leaves it; a connection left is closed, and whatever was on its way is nobody's any more. The
 * driver treats it as any link: those of the primaries are numbered 0 to n - 1, side links from n
 * on.
 */
#ifndef REDLOCK__SIDE_H
#define REDLOCK__SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "node.h"

enum {
    REDLOCK__SIDE_LINKS = 24 /* of one client, those that are just being closed included */
};

struct redlock__engine;

struct redlock__side {
    struct redlock__node *node; /* NULL: not in use */
    uint32_t primary;
    enum redlock__node_phase phase; /* as last seen by the owner */
    bool left;                      /* nobody's; closed as soon as the driver comes to it */
};

bool redlock__side_new(struct redlock__engine *engine, const struct redlock__node_config *configs);
void redlock__side_free(struct redlock__engine *engine);

/* Begins to connect. more_silence_ns: how much longer than others it may be silent. NULL: all are
 * in use, or out of memory. */
struct redlock__side *redlock__side_take(struct redlock__engine *engine, uint32_t primary,
                                         int64_t more_silence_ns);
void redlock__side_leave(struct redlock__engine *engine, struct redlock__side *side,
                         int64_t now_ns);
/* redlock__node_request() to it. */
bool redlock__side_request(struct redlock__engine *engine, struct redlock__side *side,
                           const struct redlock__tag *tag, const struct redlock__bytes *bytes,
                           int64_t deadline_ns, int64_t now_ns);

/* Forgets what links that were left still had to tell. */
void redlock__side_tidy(struct redlock__engine *engine, int64_t now_ns);

#endif
