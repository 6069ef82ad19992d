/*
 * Who of this client wants which name: first come, first served.
 *
 * Callers of one client that wait for the same name queue here, and only the head asks
 * the primaries; the rest would only make split votes. A name's owner is this
 * client's lease that acquires, holds or renews it: while there is one, nobody asks.
 * After REDLOCK__HANDOVERS hand-overs from owner to head the name is left alone for a
 * base delay, so that another process gets its turn.
 */
#ifndef REDLOCK__QUEUE_H
#define REDLOCK__QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lease.h"
#include "pool.h"

enum {
    REDLOCK__HANDOVERS = 8,
    REDLOCK__NAME_STEP = 8,    /* of the sizes of names that share slabs */
    REDLOCK__NAME_CLASSES = 16 /* of them: longer names are rare */
};

/* What there is to know of others who want a name: few names have any. */
struct redlock__others {
    int64_t not_before_ns;      /* the head asks no earlier */
    int64_t crowded_ns;         /* until then clients elsewhere are taken to wait in order */
    int64_t heard;              /* the largest fencing number seen of it; 0: none */
    struct redlock__wake *wake; /* NULL: none (wake.h) */
};

/* A lock's name as the primaries know it, shared by leases, grants and inspections. */
struct redlock__name {
    struct redlock__name *next; /* in its bucket */
    uint64_t hash;
    struct redlock__lease *owner;
    struct redlock__lease *last;    /* that waits; NULL: nobody does */
    struct redlock__others *others; /* NULL: nothing is known of any */
    uint32_t refs;
    uint16_t len;
    uint8_t handovers; /* since another process could get its turn */
    uint8_t spared;    /* gaps for others, since nobody stood in line (wake.c) */
    char key[];        /* len bytes */
};

/* A hash table that grows by one bucket, which takes its names from one other, as names come. */
struct redlock__names {
    struct redlock__name **buckets; /* room for `size`, a power of two; `used` of them in use */
    uint32_t size, used, count;
    struct redlock__pool pools[REDLOCK__NAME_CLASSES], others;
};

/* The name, with one more reference; NULL: out of memory. Where only the table can't grow, it gets
 * slower. */
struct redlock__name *redlock__name_ref(struct redlock__names *names, const void *key, size_t len);
void redlock__name_unref(struct redlock__names *names, struct redlock__name *name);
/* All of them, whoever still refers to them. */
void redlock__names_free(struct redlock__names *names);

/* For what is to be kept of others; NULL: out of memory, and then nothing is. */
struct redlock__others *redlock__name_others(struct redlock__names *names,
                                             struct redlock__name *name);
extern const struct redlock__others redlock__no_others;

/* What is known of others, or that nothing is. */
static inline const struct redlock__others *redlock__name_known(const struct redlock__name *name)
{
    return name->others != NULL ? name->others : &redlock__no_others;
}

/* Whoever waits longest; NULL: nobody. */
static inline struct redlock__lease *redlock__queue_head(const struct redlock__name *name)
{
    return name->last == NULL ? NULL : name->last->next_waiting;
}

void redlock__queue_join(struct redlock__lease *lease);  /* at the tail, unless queued */
void redlock__queue_leave(struct redlock__lease *lease); /* NULL-safe: only if queued */

/* The lease starts an attempt: it leaves the queue and owns the name. */
void redlock__queue_take(struct redlock__lease *lease);
/* The owner lets go; the next head may ask, unless enough hand-overs went by. */
void redlock__queue_yield(struct redlock__names *names, struct redlock__lease *lease,
                          int64_t now_ns);

/* This lease lets go, or has: somebody of this client follows at once. */
bool redlock__queue_follows(const struct redlock__name *name, const struct redlock__lease *lease,
                            int64_t now_ns);

/* An attempt failed and the lease waits on: a busy one stays first, any other
 * reason sends it to the tail. */
void redlock__queue_rejoin(struct redlock__lease *lease, bool first);

/* When the head may ask: NEVER if there is an owner or nobody waits. */
int64_t redlock__queue_due(const struct redlock__name *name);

#endif
