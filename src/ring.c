/*
 * See ring.h.
 */
#include "ring.h"

#include <stdlib.h>

#include "validity.h"

#define FIRST_SIZE 16u /* a power of two, as all sizes */

void redlock__ring_init(struct redlock__ring *ring)
{
    *ring = (struct redlock__ring){.min_deadline_ns = REDLOCK__NEVER};
}

void redlock__ring_destroy(struct redlock__ring *ring)
{
    free(ring->entries);
    redlock__ring_init(ring);
}

bool redlock__ring_grow(struct redlock__ring *ring)
{
    uint32_t size = ring->size == 0 ? FIRST_SIZE : ring->size * 2;
    struct redlock__pending *entries = calloc(size, sizeof(*entries));
    if (entries == NULL)
        return false;
    for (uint32_t i = 0; i < ring->count; i++)
        entries[(ring->head + i) & (size - 1)] = *redlock__ring_at(ring, i);
    free(ring->entries);
    ring->entries = entries;
    ring->size = size;
    return true;
}

void redlock__ring_disarm(struct redlock__ring *ring)
{
    ring->min_deadline_ns = REDLOCK__NEVER;
    ring->sweeping = false;
}

static void begin_sweep(struct redlock__ring *ring)
{
    if (ring->late < ring->head) /* they were answered since */
        ring->late = ring->head;
    ring->sweep = ring->late;
    ring->sweep_min_ns = REDLOCK__NEVER;
    ring->sweeping = true;
}

/* The next entry that is due, marked; NULL: there is none behind. */
static struct redlock__pending *sweep_on(struct redlock__ring *ring, int64_t now_ns)
{
    while (ring->sweep < ring->head + ring->count) {
        struct redlock__pending *e = redlock__ring_at(ring, (uint32_t)(ring->sweep - ring->head));
        bool due = !e->timed_out && e->deadline_ns <= now_ns;

        e->timed_out |= due;
        if (e->timed_out && ring->sweep == ring->late)
            ring->late++;
        ring->sweep++;
        if (due)
            return e;
        if (e->timed_out)
            continue;
        ring->sweep_min_ns = redlock__min(ring->sweep_min_ns, e->deadline_ns);
        if (ring->sweep > ring->ordered) /* this one is */
            break;
    }
    return NULL;
}

struct redlock__pending *redlock__ring_overdue(struct redlock__ring *ring, int64_t now_ns)
{
    /* Once more if time went on during a sweep. */
    while (ring->min_deadline_ns <= now_ns) {
        struct redlock__pending *e;

        if (!ring->sweeping || ring->sweep < ring->head)
            begin_sweep(ring);
        e = sweep_on(ring, now_ns);
        if (e != NULL)
            return e;
        ring->min_deadline_ns = ring->sweep_min_ns;
        ring->sweeping = false;
    }
    return NULL;
}
