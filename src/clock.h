/*
 * A primary's wall clock against ours. Pure.
 *
 * A sample says what the primary's clock showed (s) between two readings of ours, a before the
 * question was queued and b after the answer was read: the offset lies in [s - b, s - a]. What
 * moves between two samples is a step if no rate a kernel allows explains it, else rate. Of a
 * rate only what is proven counts, the lower end of its interval; so asymmetric delay never
 * makes a primary look faster than it is, and nothing here ever makes a lease longer.
 */
#ifndef REDLOCK__CLOCK_H
#define REDLOCK__CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    REDLOCK__CLOCK_MAX_PPM = 100000, /* a faster move is a step: Linux slews by no more */
    REDLOCK__CLOCK_WINDOW_MS = 10000 /* a rate is estimated over at least this */
};

struct redlock__sample {
    int64_t server_us;         /* since 1970, rounded down */
    int64_t asked_ns, read_ns; /* on our clock */
};

struct redlock__offset {
    int64_t least_ns, most_ns;
    int64_t asked_ns, read_ns;
};

struct redlock__clock {
    uint32_t samples; /* saturates; 0: never measured */
    struct redlock__offset last;
    struct redlock__offset older, newer; /* where two overlapping windows begin */
    bool rated;
    int32_t slowest_ppm, fastest_ppm;                  /* the proven interval */
    int64_t step_least_ns, step_most_ns, step_seen_ns; /* the last step; seen 0: none */
};

/* Forgets everything: another server process. */
void redlock__clock_reset(struct redlock__clock *clock);

/* True if the clock was stepped since the last sample: see step_*. */
bool redlock__clock_sample(struct redlock__clock *clock, const struct redlock__sample *sample);

/* How much faster than ours it is proven to run; 0 if nothing is proven. */
uint32_t redlock__clock_proven_ppm(const struct redlock__clock *clock);

#endif
