/*
 * One clock for everything absolute.
 *
 * The library publishes a lease's deadline on the clock that counts suspend: CLOCK_BOOTTIME on
 * Linux, CLOCK_MONOTONIC elsewhere. The wrapper hands that number to its guardian, and both compare
 * it with the same clock, so no process ever converts between two of them. poll(2) sleeps on
 * another clock, therefore every timeout is computed anew from an absolute time after each wake.
 */
#include "clock.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

#ifdef CLOCK_BOOTTIME
#define CLOCK_ID CLOCK_BOOTTIME
#define CLOCK_ID_NAME "CLOCK_BOOTTIME"
#else
#define CLOCK_ID CLOCK_MONOTONIC
#define CLOCK_ID_NAME "CLOCK_MONOTONIC"
#endif

int64_t clock_now_ns(void)
{
    struct timespec now;

    /* It cannot fail for a clock that exists; without a clock no deadline could be kept. */
    if (clock_gettime(CLOCK_ID, &now) != 0)
        abort();
    return (int64_t)now.tv_sec * 1000 * CLOCK_NS_PER_MS + now.tv_nsec;
}

const char *clock_name(void)
{
    return CLOCK_ID_NAME;
}

int clock_poll_timeout(int64_t at_ns, int64_t now_ns)
{
    int64_t ms;

    if (at_ns == CLOCK_NEVER)
        return -1;
    if (at_ns <= now_ns)
        return 0;
    ms = (at_ns - now_ns - 1) / CLOCK_NS_PER_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

int64_t clock_ms_to_ns(int64_t ms)
{
    return ms > INT64_MAX / CLOCK_NS_PER_MS ? INT64_MAX : ms * CLOCK_NS_PER_MS;
}
