/*
 * What will happen when: a binary heap by time, then by the order of scheduling, so that
 * equal instants are served the same way in each run. And the random numbers: splitmix64,
 * one state for each purpose, all from the one seed (S. Vigna, public domain algorithm).
 */
#include <stdlib.h>

#include "sim.h"

uint64_t sim_random(struct sim_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t sim_between(struct sim_random *random, int64_t low, int64_t high)
{
    if (high <= low)
        return low;
    return low + (int64_t)(sim_random(random) % (uint64_t)(high - low + 1));
}

bool sim_chance(struct sim_random *random, uint32_t percent)
{
    return sim_random(random) % 100 < percent;
}

static bool before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void sim_heap_push(struct sim_heap *heap, struct sim_event event)
{
    if (heap->count == heap->size) {
        heap->size = heap->size == 0 ? 64 : heap->size * 2;
        heap->events = realloc(heap->events, heap->size * sizeof(event));
        if (heap->events == NULL)
            abort();
    }
    event.order = heap->order++;
    size_t i = heap->count++;
    for (; i > 0 && before(&event, &heap->events[(i - 1) / 2]); i = (i - 1) / 2)
        heap->events[i] = heap->events[(i - 1) / 2];
    heap->events[i] = event;
}

struct sim_event sim_heap_pop(struct sim_heap *heap)
{
    struct sim_event first = heap->events[0];
    struct sim_event last = heap->events[--heap->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!before(&heap->events[child], &last))
            break;
        heap->events[i] = heap->events[child];
        i = child;
    }
    if (heap->count > 0)
        heap->events[i] = last;
    return first;
}
