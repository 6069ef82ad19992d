/*
 * See clock.h. Two windows overlap, each at least REDLOCK__CLOCK_WINDOW_MS long when it is used:
 * when the newer has got that old it becomes the older one and a new one begins. So after the
 * first window there is always a rate over one to two windows. A step begins them anew.
 */
#include "clock.h"

#include "validity.h"

static const int64_t window_ns = REDLOCK__CLOCK_WINDOW_MS * REDLOCK__MS;

void redlock__clock_reset(struct redlock__clock *clock)
{
    *clock = (struct redlock__clock){0};
}

/* What a rate of REDLOCK__CLOCK_MAX_PPM moves between two samples, at most. */
static int64_t explained_ns(const struct redlock__offset *from, const struct redlock__offset *to)
{
    return (to->read_ns - from->asked_ns) / (1000000 / REDLOCK__CLOCK_MAX_PPM);
}

/* Parts per million, rounded up if up; saturated. */
static int32_t ppm_of(int64_t moved_ns, int64_t over_ns, bool up)
{
    double ppm = (double)moved_ns * 1e6 / (double)over_ns;
    int32_t whole;

    if (ppm > 1e9 || ppm < -1e9)
        return ppm > 0 ? 1000000000 : -1000000000;
    whole = (int32_t)ppm;
    if (up && (double)whole < ppm)
        return whole + 1;
    return !up && (double)whole > ppm ? whole - 1 : whole;
}

/* The offsets hold at some moment of their samples, which may be as far apart as the outer ends
 * or as near as the inner ones: whatever makes the interval wider is taken. */
static void rate(struct redlock__clock *clock, const struct redlock__offset *from,
                 const struct redlock__offset *to)
{
    int64_t longest = to->read_ns - from->asked_ns, shortest = to->asked_ns - from->read_ns;
    int64_t least = to->least_ns - from->most_ns, most = to->most_ns - from->least_ns;

    if (shortest <= 0)
        return;
    clock->slowest_ppm = ppm_of(least, least > 0 ? longest : shortest, false);
    clock->fastest_ppm = ppm_of(most, most > 0 ? shortest : longest, true);
    clock->rated = true;
}

static void restart(struct redlock__clock *clock, const struct redlock__offset *offset)
{
    clock->older = clock->newer = *offset;
    clock->rated = false;
}

static void measure(struct redlock__clock *clock, const struct redlock__offset *offset)
{
    if (offset->asked_ns - clock->older.read_ns >= window_ns)
        rate(clock, &clock->older, offset);
    if (offset->asked_ns - clock->newer.read_ns >= window_ns) {
        clock->older = clock->newer;
        clock->newer = *offset;
    }
}

bool redlock__clock_sample(struct redlock__clock *clock, const struct redlock__sample *sample)
{
    struct redlock__offset now = {.least_ns = sample->server_us * 1000 - sample->read_ns,
                                  .most_ns = sample->server_us * 1000 + 1000 - sample->asked_ns,
                                  .asked_ns = sample->asked_ns,
                                  .read_ns = sample->read_ns};
    int64_t least = now.least_ns - clock->last.most_ns, most = now.most_ns - clock->last.least_ns;
    int64_t explained = explained_ns(&clock->last, &now);
    bool stepped = clock->samples > 0 && (least > explained || most < -explained);

    clock->last = now;
    if (clock->samples == 0 || stepped)
        restart(clock, &now);
    else
        measure(clock, &now);
    clock->samples += clock->samples < UINT32_MAX;
    if (stepped) {
        clock->step_least_ns = least;
        clock->step_most_ns = most;
        clock->step_seen_ns = now.read_ns;
    }
    return stepped;
}

uint32_t redlock__clock_proven_ppm(const struct redlock__clock *clock)
{
    return clock->rated && clock->slowest_ppm > 0 ? (uint32_t)clock->slowest_ppm : 0;
}
