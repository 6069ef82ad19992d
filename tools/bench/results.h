/* Samples, figure by figure, and how they are shown. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "bench.h"

struct bench_sample_pair {
    double ours, base; /* base NaN: nothing to compare with */
};

struct bench_figure {
    const char *work; /* the table's word */
    char *name;
    const char *unit, *base_name; /* literals */
    double limit;
    unsigned count;
    struct bench_sample_pair *samples;
};

struct bench_results {
    const struct bench_work *work; /* whose round is under way */
    bool say;                      /* problems go to standard error; --json, too */
    int rc;                        /* the last result of the library that ended a round */
    unsigned count;
    struct bench_figure *figures;
};

struct bench_medians {
    double ours, base, ratio, ratio_least, ratio_most; /* NaN: there is none */
};

void bench_results_free(struct bench_results *results);
void bench_medians_of(const struct bench_figure *figure, struct bench_medians *medians);

/* "met", "missed", or NULL: it has no limit, or nothing to be compared with. */
const char *bench_verdict(const struct bench_figure *figure, const struct bench_medians *medians);
bool bench_any_missed(const struct bench_results *results);

#endif
