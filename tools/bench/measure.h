/* Cycles of acquire and release, by whoever does them. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench.h"
#include "floor.h"
#include "hist.h"
#include "ours.h"

/* Who does it. False: it failed, which has been said, or there was an interruption. */
struct side {
    bool (*acquire)(void *context);
    bool (*release)(void *context);
    void *context;
};

struct measured {
    uint64_t cycles;
    double seconds, cpu_us; /* of the whole process, meanwhile */
    struct hist acquire, release, cycle;
};

/* As long as `seconds`, after some cycles that don't count. */
bool measure_cycles(struct bench *bench, const struct side *side, struct measured *measured);
/* A thread for each side, and no times of single cycles. */
bool measure_threads(struct bench *bench, const struct side *sides, unsigned count,
                     struct measured *measured);
/* Both, one after the other, which first by the round. */
bool measure_both(struct bench *bench, const struct side *ours, const struct side *base,
                  struct measured measured[2]);

double measured_p_us(const struct hist *hist, double p);
double measured_cpu_us(const struct measured *measured); /* per cycle */
double measured_rate(const struct measured *measured);   /* cycles per second */

/* ---- sides -------------------------------------------------------------------- */

/* The library's; the client is the caller's. */
struct ours_side {
    struct bench *bench;
    redlock_client *client;
    redlock_lock_options options;
    redlock_lock *lock;
    char key[OURS_KEY];
    size_t key_len;
};
struct side ours_side(struct ours_side *ours, struct bench *bench, redlock_client *client,
                      unsigned number);

struct floor_side {
    struct bench *bench;
    struct floor *floor;
    bool fenced;
    char key[OURS_KEY];
};
struct side floor_side(struct floor_side *at, struct bench *bench, struct floor *floor,
                       unsigned number);

#endif
