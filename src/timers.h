/*
 * Deadlines in order: a heap, four children to an entry, whose timers know their places. Pure.
 *
 * Setting, moving and stopping a timer takes O(log n), and needs no memory but what was reserved
 * when its owner was made: so it can't fail. What is due comes in the order of deadlines; which of
 * two equal ones comes first depends on nothing but the calls made before.
 */
#ifndef REDLOCK__TIMERS_H
#define REDLOCK__TIMERS_H

#include <stdbool.h>
#include <stdint.h>

/* A member of its owner; all zero: not set. */
struct redlock__timer {
    uint32_t place; /* in the heap, + 1; 0: not set */
};

struct redlock__timers {
    struct redlock__timer_entry *entries;
    uint32_t count, size;
};

/* Room for `count` timers in all; false: out of memory. */
bool redlock__timers_reserve(struct redlock__timers *timers, uint32_t count);
void redlock__timers_destroy(struct redlock__timers *timers);

/* NEVER stops it. There is room. */
void redlock__timers_set(struct redlock__timers *timers, struct redlock__timer *timer,
                         int64_t due_ns);
void redlock__timers_stop(struct redlock__timers *timers, struct redlock__timer *timer);

/* The earliest deadline; NEVER: none. */
int64_t redlock__timers_next(const struct redlock__timers *timers);
/* Stops the first of those that are due; NULL: none. */
struct redlock__timer *redlock__timers_take(struct redlock__timers *timers, int64_t now_ns);

#endif
