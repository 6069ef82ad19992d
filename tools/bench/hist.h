/*
 * A histogram with a bounded relative error (HDR): buckets of powers of two, each cut into 128
 * equal parts, so a value is known to within 1/128. Fixed size, no allocation while recording.
 */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum {
    HIST_PARTS = 128,
    HIST_OCTAVES = 40 /* up to 128 << 39 ns: over 19 hours */
};

struct hist {
    uint64_t count, total_ns;
    int64_t least_ns, most_ns;
    uint64_t buckets[(HIST_OCTAVES + 1) * HIST_PARTS];
};

void hist_clear(struct hist *hist);
void hist_add(struct hist *hist, int64_t value_ns);
void hist_merge(struct hist *into, const struct hist *from);
/* 0 < p <= 100; 0 for an empty one. Never above the largest value recorded. */
int64_t hist_percentile_ns(const struct hist *hist, double p);
double hist_mean_ns(const struct hist *hist);

#endif
