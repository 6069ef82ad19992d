/*
 * A crowd: workers that all want one name, hold it for a millisecond and ask again at once, with
 * whatever lock. What they have seen is added up the same way, be they threads or processes.
 */
#ifndef BENCH_CROWD_H
#define BENCH_CROWD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench.h"
#include "hist.h"

enum {
    CROWD_HOLD_NS = 1000000
};

struct crowd_lock {
    void *context;
    /* Waits for ever, or until give_up. Any thread. *grip is what leave() needs. False: failed. */
    bool (*enter)(void *context, void **grip);
    bool (*leave)(void *context, void *grip);
    void (*give_up)(void *context); /* NULL: it can't */
};

/* When: times of bench_now_ns(). */
struct crowd_span {
    int64_t start_ns, end_ns;
};

/* Of one worker. Every wait is in it, also one that outlasts the span; turns are those that began
 * within it. */
struct crowd_tally {
    uint64_t turns;
    bool failed;
    struct hist waits;
};

void crowd_work(const struct crowd_lock *lock, const struct crowd_span *span,
                const atomic_bool *stop, struct crowd_tally *tally);

struct crowd_result {
    double turns, per_second;
    double evenness; /* busiest / idlest; one that had no turn counts as half of one */
    double p99_ms, longest_ms;
};
/* Of `count` tallies. False: a worker failed, or nobody had a turn. */
bool crowd_sum(const struct crowd_tally tallies[], unsigned count, const struct crowd_span *span,
               struct crowd_result *result);

/* A crowd of bench->workers threads. False: it was said why not, or interrupted. */
bool crowd_of_threads(struct bench *bench, const struct crowd_lock *lock, double seconds,
                      struct crowd_result *result);

/* A crowd of bench->workers processes, each with a client of its own, and so with connections to
 * all primaries. More than CROWD_PROCESSES_MAX would measure how the machine copes with them. */
enum {
    CROWD_PROCESSES_MAX = 64
};
struct crowd_costs {
    double failed_per_turn; /* attempts that were not held */
};
bool crowd_of_processes(struct bench *bench, const char *key, double seconds,
                        struct crowd_result *result, struct crowd_costs *costs);

/* The library as such a lock, in any thread. */
struct crowd_ours {
    redlock_client *client;
    redlock_cancel_handle *cancel; /* NULL: none */
    const char *key;
    atomic_int rc; /* the last that was not 0 */
};
struct crowd_lock crowd_lock_of(struct crowd_ours *ours);

#endif
