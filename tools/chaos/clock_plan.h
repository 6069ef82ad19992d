/*
 * A clock plan: a file that says what the clocks of a process show. The process is started with
 * LD_PRELOAD=.../libredlock_clock_preload.so and REDLOCK_CLOCK_PLAN=<file>; whoever made the file
 * bends the clocks while the process runs, and the plan outlives the process.
 *
 * The wall clock runs along a line through a point, at a rate of its own, measured by the kernel's
 * CLOCK_MONOTONIC. CLOCK_MONOTONIC and CLOCK_BOOTTIME run as they are, plus an offset (a suspended
 * machine's boottime goes on while its monotonic clock stands). Timeouts of poll() and the like
 * are the kernel's business and stay as they are.
 *
 * A plan has one writer at a time and any number of readers. Of the two slots the readers use the
 * one that `sequence` names, while the next one is written: nobody ever waits for a writer, not
 * even for one that was killed or stopped half way.
 */
#ifndef CLOCK_PLAN_H
#define CLOCK_PLAN_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_PLAN_VARIABLE "REDLOCK_CLOCK_PLAN"
#define CLOCK_PLAN_MAGIC 0x31636b6c6f636452u /* other layouts need another one */
#define CLOCK_NS_PER_S INT64_C(1000000000)

enum {
    CLOCK_PLAN_SIZE = 4096, /* of the file and of its mapping */
    CLOCK_STOPPED_PPM = -1000000
};

/* What a slot holds. */
enum {
    CLOCK_BASE_MONO_NS, /* the point: at this time of the kernel's CLOCK_MONOTONIC */
    CLOCK_BASE_WALL_NS, /* the wall clock shows this */
    CLOCK_RATE_PPB,     /* how much faster it runs, in parts per billion; -10^9: it stands */
    CLOCK_MONOTONIC_OFFSET_NS,
    CLOCK_BOOTTIME_OFFSET_NS,
    CLOCK_WORDS
};

struct clock_settings {
    int64_t word[CLOCK_WORDS];
};

struct clock_plan {
    uint64_t magic;
    _Atomic uint64_t sequence;
    _Atomic int64_t slots[2][CLOCK_WORDS];
};

_Static_assert(sizeof(struct clock_plan) <= CLOCK_PLAN_SIZE, "a plan is one page");
_Static_assert(sizeof(time_t) == 8 && sizeof(long) == 8, "times are the kernel's 64 bit ones");

/* ---- writing ------------------------------------------------------------ */

/* Makes the file, which must not exist yet, with a wall clock that is right and offsets of 0. To be
 * done before a process with that plan starts. NULL: errno says why. */
struct clock_plan *clock_plan_create(const char *path);
/* The file stays, and what it says stays in force. NULL is fine. */
void clock_plan_close(struct clock_plan *plan);

/* The wall clock: jumps by so much; goes on from where it is at another rate; stands still. */
void clock_plan_step(struct clock_plan *plan, int64_t ns);
void clock_plan_rate(struct clock_plan *plan, int64_t ppm);
void clock_plan_freeze(struct clock_plan *plan);
/* Of the other two clocks, from the real ones; 0 for the real one. A clock that is to stay
 * monotonic must not be given a smaller offset than before. */
void clock_plan_offsets(struct clock_plan *plan, int64_t monotonic_ns, int64_t boottime_ns);

/* What the wall clock shows now. */
int64_t clock_plan_now(const struct clock_plan *plan);

/* ---- the arithmetic, for both sides --------------------------------------- */

/* By raw system calls: who bends clocks must not ask bent ones. */
static inline int64_t clock_real_ns(clockid_t clock)
{
    struct timespec now = {0};

    (void)syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

static inline struct clock_settings clock_plan_settings(const struct clock_plan *plan)
{
    struct clock_settings settings;
    uint64_t before, after;

    do {
        before = atomic_load_explicit(&plan->sequence, memory_order_acquire);
        for (int i = 0; i < CLOCK_WORDS; i++)
            settings.word[i] =
                atomic_load_explicit(&plan->slots[before % 2][i], memory_order_acquire);
        after = atomic_load_explicit(&plan->sequence, memory_order_relaxed);
    } while (before != after);
    return settings;
}

/* 128 bits: an hour at a billion parts per billion is more than 64 bits hold. */
static inline int64_t clock_wall_ns(const struct clock_settings *settings, int64_t mono_ns)
{
    __extension__ typedef __int128 wide;
    int64_t passed = mono_ns - settings->word[CLOCK_BASE_MONO_NS];
    wide gained = (wide)passed * settings->word[CLOCK_RATE_PPB] / CLOCK_NS_PER_S;

    return (int64_t)(settings->word[CLOCK_BASE_WALL_NS] + passed + gained);
}

#endif
