/*
 * The requests of one connection that wait for an answer, in the order written. Pure.
 *
 * Deadlines. The earliest deadline is cached and only ever too early (its request may have been
 * answered since). Once it is due, a sweep over the ring finds what is late, one entry a call, and
 * the next earliest on its way. A late entry stays where it is, so that its answer is consumed
 * there and never taken for the next one's. Where requests have as much time as those in front of
 * them, or more, as most have, a sweep looks only at those that are late: of a primary that
 * answers late there are thousands.
 */
#ifndef REDLOCK__RING_H
#define REDLOCK__RING_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "validity.h"

/* Carried by a request, given back with each of its results. */
struct redlock__tag {
    void *owner;
    union {
        struct {
            enum redlock__command command : 8;
            uint8_t before; /* replies that still come before its last one */
            uint16_t unused;
            uint32_t round;
        };
        uint64_t what; /* all of that, to be compared */
    };
    union {
        int64_t ttl_ms; /* of an extend: what it asks for */
        int64_t number; /* of a GRANT: what its counter has to reach; 0: the script sees to that */
    };
};

struct redlock__pending {
    struct redlock__tag tag;
    int64_t queued_ns;
    int64_t deadline_ns; /* NEVER: greeting */
    uint64_t begin;      /* offset in the output of its connection */
    bool timed_out;
    bool written;    /* of a dropped entry */
    uint64_t unused; /* one of 64 bytes is found faster */
};

struct redlock__ring {
    struct redlock__pending *entries; /* size of them, a power of two */
    uint32_t size, count;
    uint64_t head;           /* the oldest one's number; all are numbered as they come */
    int64_t min_deadline_ns; /* of those not timed out, or earlier */
    int64_t newest_ns;       /* deadline of the newest */
    uint64_t ordered;        /* from here on none is due before the one in front of it */
    uint64_t late;           /* in front of this all are timed out */
    bool sweeping;
    uint64_t sweep;       /* next entry to look at */
    int64_t sweep_min_ns; /* earliest deadline among those looked at */
};

void redlock__ring_init(struct redlock__ring *ring);
void redlock__ring_destroy(struct redlock__ring *ring);

/* i < count, 0: the oldest */
static inline struct redlock__pending *redlock__ring_at(const struct redlock__ring *ring,
                                                        uint32_t i)
{
    return &ring->entries[(ring->head + i) & (ring->size - 1)];
}

/* The oldest; there is one, or nothing is done with it. */
static inline struct redlock__pending *redlock__ring_first(const struct redlock__ring *ring)
{
    return &ring->entries[ring->head & (ring->size - 1)];
}

/* Makes room for one more; false: out of memory. */
bool redlock__ring_grow(struct redlock__ring *ring);
static inline bool redlock__ring_reserve(struct redlock__ring *ring)
{
    return ring->count < ring->size || redlock__ring_grow(ring);
}

/* The new last one, with that deadline; the rest of it is the caller's to fill in. */
static inline struct redlock__pending *redlock__ring_push(struct redlock__ring *ring,
                                                          int64_t deadline_ns)
{
    struct redlock__pending *pending = redlock__ring_at(ring, ring->count);

    if (deadline_ns < ring->newest_ns)
        ring->ordered = ring->head + ring->count;
    ring->newest_ns = deadline_ns;
    ring->count++;
    pending->deadline_ns = deadline_ns;
    pending->timed_out = pending->written = false;
    ring->min_deadline_ns = redlock__min(ring->min_deadline_ns, deadline_ns);
    return pending;
}

/* Drops the oldest; what it pointed to stays readable until the next push. */
static inline void redlock__ring_pop(struct redlock__ring *ring)
{
    ring->head++;
    ring->count--;
}

/* No entry is due any more: their connection is gone. */
void redlock__ring_disarm(struct redlock__ring *ring);

/* The next entry that was due at now_ns and isn't marked timed_out; it is marked now. NULL: none.
 */
struct redlock__pending *redlock__ring_overdue(struct redlock__ring *ring, int64_t now_ns);

#endif
