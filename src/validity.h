/*
 * The arithmetic of a lease. Pure; every rounding goes against the holder, and
 * every sum saturates, so that no ttl, however large, wraps into a longer lease.
 *
 * Source of the formula: redis.io, "Distributed Locks with Redis": validity =
 * ttl - elapsed - clock drift. The allowance of 2 ms on top of the rate: one for
 * a server that deletes a key up to 1 ms early (Redis 8 and newer), one for
 * rounding on our side.
 */
#ifndef REDLOCK__VALIDITY_H
#define REDLOCK__VALIDITY_H

#include <stdbool.h>
#include <stdint.h>

/* No deadline. Compares greater than every time. */
#define REDLOCK__NEVER INT64_MAX

#define REDLOCK__MS INT64_C(1000000) /* nanoseconds in a millisecond */

static inline int64_t redlock__add(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* a >= 0 */
static inline int64_t redlock__ms_to_ns(int64_t ms)
{
    return ms > INT64_MAX / REDLOCK__MS ? INT64_MAX : ms * REDLOCK__MS;
}

static inline uint32_t redlock__majority(uint32_t n)
{
    return n / 2 + 1;
}

extern const uint8_t redlock__counts[256]; /* of bits, in a byte */

static inline uint32_t redlock__count(uint32_t mask)
{
    uint32_t count = redlock__counts[mask & 255];

    while ((mask >>= 8) != 0)
        count += redlock__counts[mask & 255];
    return count;
}

/* The lowest that is in the mask, which has one. */
static inline uint32_t redlock__first(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

/* Of a ttl >= 0: the part that clocks running at different rates may eat. */
static inline int64_t redlock__drift_ms(int64_t ttl_ms, uint32_t ppm)
{
    const int64_t most = INT64_MAX - 999999;

    /* The first test spares the division. */
    if (ttl_ms > most / UINT32_MAX && ppm != 0 && ttl_ms > most / (int64_t)ppm)
        return ttl_ms;
    return redlock__add((ttl_ms * (int64_t)ppm + 999999) / 1000000, 2);
}

/* Of a ttl >= 0: what drift leaves; it may leave less than nothing. */
static inline int64_t redlock__usable_ms(int64_t ttl_ms, uint32_t ppm)
{
    return ttl_ms - redlock__drift_ms(ttl_ms, ppm);
}

/* The instant a lease that started at start_ns ends; start_ns itself if drift
 * eats it all. */
static inline int64_t redlock__deadline(int64_t start_ns, int64_t ttl_ms, uint32_t ppm)
{
    int64_t usable = redlock__usable_ms(ttl_ms, ppm);
    return usable <= 0 ? start_ns : redlock__add(start_ns, redlock__ms_to_ns(usable));
}

/* Whole milliseconds left, never negative. */
static inline int64_t redlock__remaining_ms(int64_t deadline_ns, int64_t now_ns)
{
    return deadline_ns <= now_ns ? 0 : redlock__add(deadline_ns, -now_ns) / REDLOCK__MS;
}

/* Held only while more than min_validity_ms is left: 0 ms left is not held. */
static inline bool redlock__is_held(int64_t deadline_ns, int64_t now_ns, int64_t min_validity_ms)
{
    return redlock__remaining_ms(deadline_ns, now_ns) > min_validity_ms;
}

/* The first instant at which redlock__is_held() is false. */
static inline int64_t redlock__held_until(int64_t deadline_ns, int64_t min_validity_ms)
{
    int64_t margin = redlock__ms_to_ns(redlock__add(min_validity_ms, 1));
    return redlock__add(redlock__add(deadline_ns, -margin), 1);
}

static inline int64_t redlock__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t redlock__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
