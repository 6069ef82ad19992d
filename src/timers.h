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

/* One that is due NEVER is in the heap all the same, until it is stopped. There is room. */
void redlock__timers_set(struct redlock__timers *timers, struct redlock__timer *timer,
                         int64_t due_ns);
void redlock__timers_stop(struct redlock__timers *timers, struct redlock__timer *timer);

/* The earliest deadline; NEVER: none. */
int64_t redlock__timers_next(const struct redlock__timers *timers);
/* The first of those that are due; NULL: none. */
struct redlock__timer *redlock__timers_due(const struct redlock__timers *timers, int64_t now_ns);
/* Stops it too. */
struct redlock__timer *redlock__timers_take(struct redlock__timers *timers, int64_t now_ns);

/* All of them, in whatever order, for i from 0 on; NULL: there are no more. Not to be gone through
 * while any is set or stopped. */
struct redlock__timer *redlock__timers_at(const struct redlock__timers *timers, uint32_t i);
/* All of them are due by then. */
void redlock__timers_hasten(struct redlock__timers *timers, int64_t due_ns);

#endif
