/*
 * What a history says. analysis_of() reads the file, runs the checkers, measures, and compares with
 * what the run was to show. Nothing here talks to a server or knows of a run in progress.
 *
 * Checkers
 *   C1 claimed overlap   per name, the times in which a client claims the lock are disjoint
 *   C2 witness overlap   a word in shared memory, no clock: two were inside; an update was lost
 *   C3 validity truth    from a claimed deadline to the moment when so many keys were gone that
 *                        another client could have a majority; never negative
 *   C4 fence order       tokens of a name are distinct, and rise with time
 *   C5 fence effect      the guarded resource took no write with a smaller token than before
 *   C6 orphans           keys whose owner failed, let go or died are gone within their ttl
 *   C7 deadlines         no call returned later than its time limit and a slack
 *   C8 liveness          after the faults, every prober succeeds again
 *   C9 reasons           the primaries' answers are those the fault must give
 *   C10 hygiene          descriptors, threads and memory stay, nothing is left behind
 *
 * Metrics: a name, a phase ("" for the whole run) and a number; those that can't be had
 * (nothing happened) are absent, and an expectation of an absent one is not met.
 *   c1.overlaps c1.longest_ms
 *   c2.overlaps c2.lost_updates c2.paused (damage by one whose claim was over: no violation)
 *   c3.min_ms c3.p1_ms c3.p50_ms c3.leases (measured) c3.unmeasured c3.negative (violations)
 *   c4.disorders c4.tokens   c5.accepted_stale
 *   c6.orphans c6.excused (by a node's fault) c6.ghosts c6.ghost_p99_ms c6.late_births
 *   c7.late c7.worst_ms (beyond what the call might wait)   c8.missing c8.worst_ms   c9.wrong
 *   c10.fds c10.threads c10.rss_kb c10.left
 *   stale.plain (taken unfenced) stale.refused (refused fenced) writes.plain writes.fenced
 *   lost.true lost.false (told, though a majority stood and time was left)   fault.unverified
 *   and every record "measure"
 * These also per phase; what began in it belongs to it, a lease when it was granted, and leases
 * that collide to the phase of the first of them: c1.overlaps   c2.overlaps c2.lost_updates
 *   c3.negative c3.min_ms c3.p1_ms c3.p50_ms c3.leases
 *   probe.count probe.availability (0 .. 1) probe.low probe.high (Wilson, 95 %) probe.outage_ms
 *   probe.p50_ms probe.p99_ms
 *   acquire.returned (all calls) acquire.split (failed though a node had granted)
 *   acquire.ok acquire.per_s acquire.jain acquire.attempts (mean of a success): without probers
 *   acquire.p50_ms .p90_ms .p99_ms .p999_ms .max_ms: of successes, without probers
 *   validity.min_ms validity.p50_ms   extend.ok extend.failed (calls and renewals)
 *   rc.<code> (returns of acquire with it) vote.<node>.<vote>; only those above 0 are listed
 *
 * Verdict: unsafe if a safety expectation is not met; else inconclusive if the harness failed, the
 * run was interrupted or its history ends early, a fault did not take, no lock was ever acquired,
 * an effect is not met or a safety expectation's metric is absent; else unavailable if a liveness
 * expectation is not met.
 */
#ifndef CHAOS_ANALYSIS_H
#define CHAOS_ANALYSIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CHECKERS = 10
};

enum verdict {
    VERDICT_EXPECTED = 0,     /* all as expected */
    VERDICT_UNSAFE = 1,       /* a safety expectation not met, or a control that did not fire */
    VERDICT_INCONCLUSIVE = 2, /* too little happened, a fault did not take, the harness failed */
    VERDICT_UNAVAILABLE = 3   /* a liveness or availability expectation not met */
};

struct phase {
    char *name;
    int64_t begin_ns, end_ns;
};

struct fault {
    int64_t number;
    char *action, *text; /* text: parameters in words, "" if none */
    uint64_t nodes;      /* bit 0: node 1 */
    int64_t begin_ns, end_ns;
    bool verified;
};

/* One lease as its worker saw it, and as it really was. */
struct lease {
    unsigned worker; /* index */
    const char *name;
    char owner[17];
    int64_t number; /* try */
    int64_t fence;  /* 0: none */
    int64_t asked_ns, held_ns;
    int64_t claimed_ns; /* the last deadline claimed */
    int64_t until_ns;   /* claims it no longer: min(deadline, release invoked, lost told, killed) */
    int64_t true_ns;    /* when a majority could be had by others; INT64_MIN: not known */
    bool released, lost, killed;
    int64_t record; /* i of its return */
};

struct probe {
    unsigned worker;
    int64_t begin_ns, end_ns;
    bool ok;
};

struct point { /* a contended acquire's latency */
    int64_t t, latency_ns;
    bool ok;
};

struct span { /* of a node's life that isn't "up", or in guard */
    unsigned node;
    const char *what; /* "down", "frozen", "barred" */
    int64_t begin_ns, end_ns;
};

struct offset { /* from t on, a node's wall clock is so much ahead of its first record */
    unsigned node;
    int64_t t, offset_ns, rate_ppb;
};

struct violation {
    int checker; /* 1 .. CHECKERS */
    int64_t t;
    int64_t records[2]; /* i; -1: none */
    long leases[2];     /* index; -1: none */
    char *text;
};

struct metric {
    char *name, *phase;
    double value;
};

struct expectation {
    char *metric, *phase, *op, *kind, *text;
    double value;
    bool known, met;
    double actual;
};

struct checker {
    const char *title;
    bool ran;       /* there was something to check */
    size_t checked; /* how many things */
    size_t found;   /* violations */
};

struct analysis {
    json_t *run; /* the run record */
    int64_t begin_ns, end_ns;
    bool interrupted;
    size_t records;

    char **workers;
    char **roles;
    size_t worker_count;
    unsigned node_count;

    struct phase *phases;
    size_t phase_count;
    struct fault *faults;
    size_t fault_count;
    struct lease *leases;
    size_t lease_count;
    struct probe *probes;
    size_t probe_count;
    struct point *points;
    size_t point_count;
    struct span *spans;
    size_t span_count;
    struct offset *offsets;
    size_t offset_count;
    struct violation *violations; /* the first 1,000; checkers[].found has all */
    size_t violation_count;
    struct metric *metrics;
    size_t metric_count;
    struct expectation *expectations;
    size_t expectation_count;
    struct checker checkers[CHECKERS]; /* [0] is C1 */

    enum verdict verdict;
    char *reason; /* one line: why it is not "as expected"; "" if it is */
};

/* NULL: text says why (no such file, line 17 is not JSON, ...). */
struct analysis *analysis_of(const char *path, char *text, size_t text_size);
void analysis_free(struct analysis *analysis);

/* NULL: absent. Of rc. and vote. those not listed are 0 where acquires returned. */
const double *analysis_metric(const struct analysis *analysis, const char *name, const char *phase);
const char *verdict_name(enum verdict verdict); /* "as expected", "UNSAFE", ... */

#endif
