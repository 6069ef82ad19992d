/*
 * Waking those who wait elsewhere: what a client does so that a lock that was released goes to the
 * next who waits for it, in any process, at once and in order.
 *
 * Polling stays: each head of a queue asks the primaries again after growing pauses, and whatever
 * of what follows is lost costs no more than such a pause. But while it waits, having found the
 * lock busy, its client also sits in BLPOP redlock:wake:NAME on one primary, over a side link, and
 * keeps redlock:waiting:NAME there. The script that releases tells whether that key exists;
 * if so, and once a quorum of the removals is confirmed, the releaser pushes one element. The
 * server gives it to whoever has been blocked longest. So nobody pushes where nobody waits. Where
 * others are known to stand in line the element goes right behind the removal, and a round trip is
 * saved; it may then overtake removals on other primaries.
 *
 * The primary is the first connected one in an order that all clients share: by a hash of the name
 * and of the primary's run id (its address where it doesn't tell).
 *
 * A wake-up is a chance to ask, never a lock. Whoever got one and doesn't ask, or couldn't for
 * another reason than that it was busy, pushes it on.
 */
#ifndef REDLOCK__WAKE_H
#define REDLOCK__WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "queue.h"
#include "side.h"

enum {
    REDLOCK__WAKES = 16 /* names of one client that can be woken for; the others only poll */
};

struct redlock__node_event;

/* A name this client waits for, or did a moment ago. */
struct redlock__wake {
    struct redlock__name *name; /* referenced; NULL: free */
    struct redlock__side *side; /* NULL: none could be had, or none is needed */
    bool waiting;               /* somebody of this client waits */
    bool blocked;               /* BLPOP is unanswered */
    bool got;                   /* a wake-up that hasn't been used */
    bool eager;                 /* one came, and it was busy still: asks again soon */
    bool doubted; /* it may be free: no more looking before the next attempt (probe.c) */
    uint32_t probing, probe_no; /* primaries that owe an answer to the newest look */
    int64_t got_ns;
    int64_t said_ns;       /* that somebody waits: until then it need not be said again */
    int64_t idle_until_ns; /* not waiting: forgotten then */
};

struct redlock__waker {
    struct redlock__wake wakes[REDLOCK__WAKES];
    uint64_t hashes[REDLOCK_MAX_NODES];           /* of the primaries */
    int64_t no_block_until_ns[REDLOCK_MAX_NODES]; /* it was refused */
    int64_t no_push_until_ns[REDLOCK_MAX_NODES];
    uint32_t probes; /* looks so far (probe.c) */
    bool said;       /* that rights are missing */
};

/* A primary's connection is READY: it has told who it is. */
void redlock__wake_greeted(struct redlock__engine *engine, uint32_t i);

/* A lease begins to acquire. Where others are known to wait, it queues behind them instead of
 * asking first. */
void redlock__wake_arrive(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns);

/* Somebody waits for the name, or did a moment ago: else there is nothing to settle. */
static inline bool redlock__wake_concerned(const struct redlock__name *name)
{
    return name->last != NULL || redlock__name_known(name)->wake != NULL;
}

/* After anything about the name's queue has changed. */
void redlock__wake_settle(struct redlock__engine *engine, struct redlock__name *name,
                          int64_t now_ns);

/* What only others' wake-ups can make better: they came lately, and one is waited for. */
bool redlock__wake_trusted(const struct redlock__name *name, int64_t now_ns);

/* Removals of the grant are about to go to `nodes`. One primary is to be asked whether somebody
 * waits (grant->asked_at), of those that may have the key, since no other gets a removal. Or, where
 * that is known and the removals are the first ones, it is told to wake somebody right behind its
 * own: which one; n: none. */
uint32_t redlock__wake_removing(const struct redlock__engine *engine, struct redlock__grant *grant,
                                uint32_t nodes, bool first, int64_t now_ns);
void redlock__wake_push(struct redlock__engine *engine, struct redlock__name *name,
                        uint32_t primary, int64_t now_ns);
/* A removal of the grant was answered. Where a primary released by a command that can't tell
 * whether somebody waits, or refused, that is not known, and what was known stays. */
void redlock__wake_released(struct redlock__engine *engine, struct redlock__grant *grant,
                            uint32_t nodes, enum redlock__waits waits, int64_t now_ns);
/* An answer to what was pushed. */
void redlock__wake_pushed(struct redlock__engine *engine, uint32_t node,
                          const struct redlock__node_event *event, int64_t now_ns);

/* Takes in what the side links of those that wait have to tell; false if nothing. */
bool redlock__wake_pump(struct redlock__engine *engine, int64_t now_ns);
void redlock__wake_handle_deadline(struct redlock__engine *engine, int64_t now_ns);

#endif
