/*
 * The writing side; see clock_plan.h. Every change first moves the line's point to now, so that
 * what changes afterwards, the rate or the time shown, has no effect on the past: that is what
 * keeps the clock continuous when its rate changes.
 */
#include "clock_plan.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>

/* ---- files -------------------------------------------------------------- */

static void *map_new_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), error;
    void *mapping = MAP_FAILED;

    if (fd < 0)
        return MAP_FAILED;
    if (ftruncate(fd, CLOCK_PLAN_SIZE) == 0)
        mapping = mmap(NULL, CLOCK_PLAN_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    error = errno;
    (void)close(fd);
    if (mapping == MAP_FAILED)
        (void)unlink(path);
    errno = error;
    return mapping;
}

void clock_plan_close(struct clock_plan *plan)
{
    if (plan != NULL)
        (void)munmap(plan, CLOCK_PLAN_SIZE);
}

/* ---- changes -------------------------------------------------------------- */

/* A reader that sees a word of this change also sees the value of `sequence` before it, and so that
 * it has to read again. (No fences: ThreadSanitizer doesn't know them.) */
static void publish(struct clock_plan *plan, const struct clock_settings *settings)
{
    uint64_t next = atomic_load_explicit(&plan->sequence, memory_order_relaxed) + 1;

    for (int i = 0; i < CLOCK_WORDS; i++)
        atomic_store_explicit(&plan->slots[next % 2][i], settings->word[i], memory_order_release);
    atomic_store_explicit(&plan->sequence, next, memory_order_release);
}

static struct clock_settings settings_from_now(const struct clock_plan *plan)
{
    struct clock_settings settings = clock_plan_settings(plan);
    int64_t mono_ns = clock_real_ns(CLOCK_MONOTONIC);

    settings.word[CLOCK_BASE_WALL_NS] = clock_wall_ns(&settings, mono_ns);
    settings.word[CLOCK_BASE_MONO_NS] = mono_ns;
    return settings;
}

struct clock_plan *clock_plan_create(const char *path)
{
    struct clock_settings settings = {{0}};
    struct clock_plan *plan = map_new_file(path);

    if ((void *)plan == MAP_FAILED)
        return NULL;
    settings.word[CLOCK_BASE_MONO_NS] = clock_real_ns(CLOCK_MONOTONIC);
    settings.word[CLOCK_BASE_WALL_NS] = clock_real_ns(CLOCK_REALTIME);
    publish(plan, &settings);
    plan->magic = CLOCK_PLAN_MAGIC;
    return plan;
}

void clock_plan_step(struct clock_plan *plan, int64_t ns)
{
    struct clock_settings settings = settings_from_now(plan);

    settings.word[CLOCK_BASE_WALL_NS] += ns;
    publish(plan, &settings);
}

void clock_plan_rate(struct clock_plan *plan, int64_t ppm)
{
    struct clock_settings settings = settings_from_now(plan);

    settings.word[CLOCK_RATE_PPB] = ppm * 1000;
    publish(plan, &settings);
}

void clock_plan_freeze(struct clock_plan *plan)
{
    clock_plan_rate(plan, CLOCK_STOPPED_PPM);
}

void clock_plan_offsets(struct clock_plan *plan, int64_t monotonic_ns, int64_t boottime_ns)
{
    struct clock_settings settings = settings_from_now(plan);

    settings.word[CLOCK_MONOTONIC_OFFSET_NS] = monotonic_ns;
    settings.word[CLOCK_BOOTTIME_OFFSET_NS] = boottime_ns;
    publish(plan, &settings);
}

int64_t clock_plan_now(const struct clock_plan *plan)
{
    struct clock_settings settings = clock_plan_settings(plan);

    return clock_wall_ns(&settings, clock_real_ns(CLOCK_MONOTONIC));
}
