/*
 * Measures the lock against a floor: raw sockets that send the same commands to the same servers,
 * in turns with it, so that each figure is also a ratio.
 *
 * A work is measured in rounds. Each round runs ours and its base one after the other and adds one
 * sample per figure; what is reported is the median over the rounds, of values and of ratios.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

enum {
    BENCH_WORKERS = 16 /* of a crowd, unless it is said: what aims for crowds are set for */
};

struct bench {
    const char *uris[REDLOCK_MAX_NODES]; /* primaries, as the library takes them */
    unsigned n;
    double seconds;  /* how long one side of one round is measured */
    unsigned rounds; /* 5 */
    unsigned round;  /* the present one, from 0: odd ones measure the base first */
    struct bench_results *results;
    volatile const int *interrupted; /* a signal's number: leave the round soon */

    const char *password; /* where a URI has none; NULL: none */
    unsigned total;   /* uris in all: n of them are used, but for works that vary their number */
    bool own;         /* started by the bench: may be marked anew, and changed */
    unsigned marked;  /* of its own: how many are marked as belonging together */
    unsigned leases;  /* for the work that holds many */
    unsigned workers; /* threads, leases in flight or processes of a crowd */
};

/*
 * One round's sample of a figure. `figure` names what was measured ("cycle p50"), with its variant
 * in front where there are several ("16 threads: cycles per second"). base: what ours is compared
 * with, called base_name ("floor"); NaN: nothing. limit: the ratio ours / base to stay at or below;
 * below 0: at or above -limit; 0: none.
 */
void bench_sample(struct bench *bench, const char *figure, const char *unit, double ours,
                  double base, const char *base_name, double limit);

/* A limit of a work whose size is `workers`: none, if that is not the size it was set for. */
double bench_crowd_limit(const struct bench *bench, double limit);

/* Says on standard error why a round can't be measured; returns false. */
__attribute__((format(printf, 2, 3))) bool bench_fail(struct bench *bench, const char *format, ...);

/* Says on standard error how far a round is that takes long: in place of what was said last if that
 * is a terminal. Not with --quiet. */
__attribute__((format(printf, 2, 3))) void bench_tell(const struct bench *bench, const char *format,
                                                      ...);

/* One round. False: it could not be measured, which has been said. */
typedef bool bench_round(struct bench *bench);

struct bench_work {
    const char *name; /* a word for the command line */
    const char *what; /* one line */
    bench_round *round;
};

/* works_*.c: each a NULL-terminated table */
extern const struct bench_work bench_works_basic[];
extern const struct bench_work bench_works_crowd[];
extern const struct bench_work bench_works_trouble[];

/* ---- measuring ---------------------------------------------------------------------------- */

int64_t bench_now_ns(void);
double bench_cpu_us(void); /* user and system time of this process so far */

#endif
