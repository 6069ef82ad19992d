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
        entries[i] = *redlock__ring_at(ring, i);
    free(ring->entries);
    ring->entries = entries;
    ring->size = size;
    ring->head = 0;
    return true;
}

void redlock__ring_disarm(struct redlock__ring *ring)
{
    ring->min_deadline_ns = REDLOCK__NEVER;
    ring->sweep = 0;
}

struct redlock__pending *redlock__ring_overdue(struct redlock__ring *ring, int64_t now_ns)
{
    /* Once more if time went on during a sweep. */
    while (ring->min_deadline_ns <= now_ns) {
        if (ring->sweep == 0)
            ring->sweep_min_ns = REDLOCK__NEVER;
        while (ring->sweep < ring->count) {
            struct redlock__pending *e = redlock__ring_at(ring, ring->sweep++);
            if (!e->timed_out && e->deadline_ns <= now_ns) {
                e->timed_out = true;
                return e;
            }
            if (!e->timed_out)
                ring->sweep_min_ns = redlock__min(ring->sweep_min_ns, e->deadline_ns);
        }
        ring->min_deadline_ns = ring->sweep_min_ns;
        ring->sweep = 0;
    }
    return NULL;
}
