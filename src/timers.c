/*
 * See timers.h. Deadlines stand next to each other in the heap, so that comparing four children
 * touches one or two lines of memory and none of their owners.
 */
#include "timers.h"

#include <assert.h>
#include <stdlib.h>

#include "validity.h"

enum {
    FIRST_SIZE = 64,
    CHILDREN = 4
};

struct redlock__timer_entry {
    int64_t due_ns;
    struct redlock__timer *timer;
};

bool redlock__timers_reserve(struct redlock__timers *timers, uint32_t count)
{
    uint32_t size = timers->size == 0 ? FIRST_SIZE : timers->size + timers->size / 2;
    struct redlock__timer_entry *entries;

    if (count <= timers->size)
        return true;
    size = size < count ? count : size;
    entries = realloc(timers->entries, size * sizeof *entries);
    if (entries == NULL)
        return false;
    timers->entries = entries;
    timers->size = size;
    return true;
}

void redlock__timers_destroy(struct redlock__timers *timers)
{
    free(timers->entries);
    *timers = (struct redlock__timers){0};
}

static void put(struct redlock__timers *timers, uint32_t i, struct redlock__timer_entry entry)
{
    timers->entries[i] = entry;
    entry.timer->place = i + 1;
}

/* The entry belongs at i or nearer to the root. */
static void rise(struct redlock__timers *timers, uint32_t i, struct redlock__timer_entry entry)
{
    while (i > 0) {
        uint32_t parent = (i - 1) / CHILDREN;

        if (timers->entries[parent].due_ns <= entry.due_ns)
            break;
        put(timers, i, timers->entries[parent]);
        i = parent;
    }
    put(timers, i, entry);
}

/* It belongs at i or further from the root. */
static void sink(struct redlock__timers *timers, uint32_t i, struct redlock__timer_entry entry)
{
    for (;;) {
        uint32_t first = i * CHILDREN + 1, least = first;

        if (first >= timers->count)
            break;
        for (uint32_t k = first + 1; k < first + CHILDREN && k < timers->count; k++)
            if (timers->entries[k].due_ns < timers->entries[least].due_ns)
                least = k;
        if (entry.due_ns <= timers->entries[least].due_ns)
            break;
        put(timers, i, timers->entries[least]);
        i = least;
    }
    put(timers, i, entry);
}

/* In place of what was due at was_ns. */
static void replace(struct redlock__timers *timers, uint32_t i, struct redlock__timer_entry entry,
                    int64_t was_ns)
{
    if (entry.due_ns < was_ns)
        rise(timers, i, entry);
    else
        sink(timers, i, entry);
}

void redlock__timers_stop(struct redlock__timers *timers, struct redlock__timer *timer)
{
    uint32_t i = timer->place - 1;
    struct redlock__timer_entry last;

    if (timer->place == 0)
        return;
    assert(i < timers->count && timers->entries[i].timer == timer);
    timer->place = 0;
    last = timers->entries[--timers->count];
    if (i < timers->count)
        replace(timers, i, last, timers->entries[i].due_ns);
}

void redlock__timers_set(struct redlock__timers *timers, struct redlock__timer *timer,
                         int64_t due_ns)
{
    struct redlock__timer_entry entry = {.due_ns = due_ns, .timer = timer};
    uint32_t i = timer->place - 1;

    if (timer->place != 0) {
        assert(i < timers->count && timers->entries[i].timer == timer);
        if (due_ns != timers->entries[i].due_ns)
            replace(timers, i, entry, timers->entries[i].due_ns);
    } else {
        assert(timers->count < timers->size);
        rise(timers, timers->count++, entry);
    }
}

int64_t redlock__timers_next(const struct redlock__timers *timers)
{
    return timers->count == 0 ? REDLOCK__NEVER : timers->entries[0].due_ns;
}

struct redlock__timer *redlock__timers_due(const struct redlock__timers *timers, int64_t now_ns)
{
    return timers->count == 0 || timers->entries[0].due_ns > now_ns ? NULL
                                                                    : timers->entries[0].timer;
}

struct redlock__timer *redlock__timers_take(struct redlock__timers *timers, int64_t now_ns)
{
    struct redlock__timer *first = redlock__timers_due(timers, now_ns);

    if (first != NULL)
        redlock__timers_stop(timers, first);
    return first;
}

struct redlock__timer *redlock__timers_at(const struct redlock__timers *timers, uint32_t i)
{
    return i < timers->count ? timers->entries[i].timer : NULL;
}

/* It stays a heap: no two entries change places. */
void redlock__timers_hasten(struct redlock__timers *timers, int64_t due_ns)
{
    for (uint32_t i = 0; i < timers->count; i++)
        timers->entries[i].due_ns = redlock__min(timers->entries[i].due_ns, due_ns);
}
