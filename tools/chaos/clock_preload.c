/*
 * A library for LD_PRELOAD that shows a process the clocks of its plan; see clock_plan.h. Without
 * a plan, or with one that cannot be read, the clocks are the real ones; that is decided once, at
 * the first look at a clock.
 *
 * An allocator may look at the clock while it allocates, and before main(): so nothing in here
 * allocates, looks up symbols or uses stdio. That is where the usual libraries of this kind send
 * redis-server into endless recursion.
 */
#include "clock_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

#define EXPORTED __attribute__((visibility("default")))

/* ---- the plan ------------------------------------------------------------- */

static const struct clock_plan no_plan;
static _Atomic(const struct clock_plan *) the_plan; /* NULL: not looked for yet */

/* A shorter file would be a SIGBUS later on. */
static const struct clock_plan *map_plan(const char *path)
{
    const struct clock_plan *plan = &no_plan;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return plan;
    if (lseek(fd, 0, SEEK_END) >= CLOCK_PLAN_SIZE) {
        void *mapping = mmap(NULL, CLOCK_PLAN_SIZE, PROT_READ, MAP_SHARED, fd, 0);
        if (mapping != MAP_FAILED)
            plan = mapping;
    }
    (void)syscall(SYS_close, fd);
    if (plan->magic != CLOCK_PLAN_MAGIC)
        plan = &no_plan;
    return plan;
}

/* NULL: there is none. Two threads may both map it at first; the second mapping does no harm. */
static const struct clock_plan *plan_in_force(void)
{
    const struct clock_plan *plan = atomic_load_explicit(&the_plan, memory_order_acquire);

    if (plan == NULL && environ != NULL) { /* else it's too early to know */
        int saved_errno = errno;
        const char *path = getenv(CLOCK_PLAN_VARIABLE);
        plan = path == NULL ? &no_plan : map_plan(path);
        atomic_store_explicit(&the_plan, plan, memory_order_release);
        errno = saved_errno;
    }
    return plan == &no_plan ? NULL : plan;
}

/* ---- the clocks ----------------------------------------------------------- */

static int64_t wall_ns(void)
{
    const struct clock_plan *plan = plan_in_force();
    struct clock_settings settings;

    if (plan == NULL)
        return clock_real_ns(CLOCK_REALTIME);
    settings = clock_plan_settings(plan);
    return clock_wall_ns(&settings, clock_real_ns(CLOCK_MONOTONIC));
}

static struct timespec timespec_of(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / CLOCK_NS_PER_S, .tv_nsec = ns % CLOCK_NS_PER_S};

    if (time.tv_nsec < 0) { /* a plan may show times before 1970 */
        time.tv_sec--;
        time.tv_nsec += CLOCK_NS_PER_S;
    }
    return time;
}

static int offset_clock(clockid_t clock, int offset_word, struct timespec *now)
{
    const struct clock_plan *plan = plan_in_force();
    int rc = (int)syscall(SYS_clock_gettime, clock, now);

    if (rc == 0 && plan != NULL) {
        int64_t offset_ns = clock_plan_settings(plan).word[offset_word];
        *now = timespec_of(now->tv_sec * CLOCK_NS_PER_S + now->tv_nsec + offset_ns);
    }
    return rc;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        *now = timespec_of(wall_ns());
        return 0;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_COARSE:
        return offset_clock(clock, CLOCK_MONOTONIC_OFFSET_NS, now);
    case CLOCK_BOOTTIME:
        return offset_clock(clock, CLOCK_BOOTTIME_OFFSET_NS, now);
    default:
        return (int)syscall(SYS_clock_gettime, clock, now);
    }
}

EXPORTED int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time = timespec_of(wall_ns());

    now->tv_sec = time.tv_sec;
    now->tv_usec = time.tv_nsec / 1000;
    if (zone != NULL)
        *(struct timezone *)zone = (struct timezone){0};
    return 0;
}

EXPORTED time_t time(time_t *now)
{
    time_t seconds = timespec_of(wall_ns()).tv_sec;

    if (now != NULL)
        *now = seconds;
    return seconds;
}
