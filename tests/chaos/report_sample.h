/*
 * Analyses as a run would give them, without a run: made up from a seed, so that a report of them
 * looks like one of real servers.
 */
#ifndef REPORT_SAMPLE_H
#define REPORT_SAMPLE_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"
#include "report.h"

#define SAMPLE_MS INT64_C(1000000)
#define SAMPLE_BEGIN INT64_C(812345000000000)

enum {
    SAMPLE_CONTENDERS = 8,
    SAMPLE_PROBERS = 4,
    SAMPLE_NAMES = 4,
    SAMPLE_MANY = 64 /* phases, faults, ... */
};

struct sample {
    struct analysis analysis;
    uint64_t random;
    size_t lease_room, point_room, probe_room;
    char names[SAMPLE_CONTENDERS + SAMPLE_PROBERS][32];
    char *workers[SAMPLE_CONTENDERS + SAMPLE_PROBERS], *roles[SAMPLE_CONTENDERS + SAMPLE_PROBERS];
    struct phase phases[SAMPLE_MANY];
    struct fault faults[SAMPLE_MANY];
    struct span spans[SAMPLE_MANY];
    struct offset offsets[SAMPLE_MANY];
    struct metric metrics[SAMPLE_MANY];
    struct expectation expectations[SAMPLE_MANY];
    struct violation violations[SAMPLE_MANY];
};

/* ---- chance ---------------------------------------------------------------- */

static inline double sample_random(struct sample *sample)
{
    sample->random = sample->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(sample->random >> 33) / 2147483648.0;
}

static inline int64_t sample_between(struct sample *sample, double low_ms, double high_ms)
{
    return (int64_t)((low_ms + sample_random(sample) * (high_ms - low_ms)) * (double)SAMPLE_MS);
}

/* Most are quick, a few are not. */
static inline int64_t sample_latency(struct sample *sample, double median_ms)
{
    double u = sample_random(sample) + sample_random(sample) + sample_random(sample) - 1.5;

    return (int64_t)(median_ms * exp(1.6 * u) * (double)SAMPLE_MS);
}

static inline int64_t sample_at(double seconds)
{
    return SAMPLE_BEGIN + (int64_t)(seconds * 1e9);
}

/* ---- parts ------------------------------------------------------------------- */

static inline void sample_phase(struct sample *sample, const char *name, double from, double to)
{
    sample->phases[sample->analysis.phase_count++] =
        (struct phase){(char *)name, sample_at(from), sample_at(to)};
}

static inline void sample_fault(struct sample *sample, const char *action, const char *text,
                                uint64_t nodes, double from, double to, bool verified)
{
    size_t number = sample->analysis.fault_count++;

    sample->faults[number] =
        (struct fault){(int64_t)number + 1, (char *)action, (char *)text, nodes,
                       sample_at(from),     sample_at(to),  verified};
}

static inline void sample_span(struct sample *sample, unsigned node, const char *what, double from,
                               double to)
{
    sample->spans[sample->analysis.span_count++] =
        (struct span){node, what, sample_at(from), sample_at(to)};
}

static inline void sample_offset(struct sample *sample, unsigned node, double at, double offset_ms,
                                 int64_t rate_ppb)
{
    sample->offsets[sample->analysis.offset_count++] =
        (struct offset){node, sample_at(at), (int64_t)(offset_ms * (double)SAMPLE_MS), rate_ppb};
}

static inline void sample_metric(struct sample *sample, const char *name, const char *phase,
                                 double value)
{
    sample->metrics[sample->analysis.metric_count++] =
        (struct metric){(char *)name, (char *)phase, value};
}

static inline void sample_expect(struct sample *sample, const char *metric, const char *phase,
                                 const char *op, double value, const char *kind, double actual,
                                 bool met)
{
    sample->expectations[sample->analysis.expectation_count++] =
        (struct expectation){.metric = (char *)metric,
                             .phase = (char *)phase,
                             .op = (char *)op,
                             .kind = (char *)kind,
                             .text = (char *)"",
                             .value = value,
                             .known = !isnan(actual),
                             .met = met,
                             .actual = actual};
}

static inline void sample_violation(struct sample *sample, int checker, int64_t t, long one,
                                    long other, const char *text)
{
    sample->violations[sample->analysis.violation_count++] =
        (struct violation){checker, t, {1200, 1207}, {one, other}, (char *)text};
    sample->analysis.checkers[checker - 1].found++;
}

/* Where an array is full, what comes on top of it is left out. */
static inline struct lease *sample_lease(struct sample *sample)
{
    if (sample->analysis.lease_count == sample->lease_room)
        return NULL;
    return &sample->analysis.leases[sample->analysis.lease_count++];
}

/* ---- a crowd --------------------------------------------------------------------- */

/* Every name is taken by one contender after the other. */
static inline void sample_contend(struct sample *sample, const char *name, double until,
                                  double pause_ms)
{
    int64_t t = sample_at(0.05), fence = 0;

    while (t < sample_at(until)) {
        struct lease *lease = sample_lease(sample);
        int64_t latency = sample_latency(sample, 2.2);
        if (lease == NULL)
            break;
        *lease =
            (struct lease){.worker = (unsigned)(sample_random(sample) * SAMPLE_CONTENDERS * 0.999),
                           .name = name,
                           .number = (int64_t)sample->analysis.lease_count,
                           .fence = ++fence,
                           .asked_ns = t,
                           .held_ns = t + latency,
                           .released = true,
                           .record = (int64_t)sample->analysis.lease_count * 2};
        (void)snprintf(lease->owner, sizeof lease->owner, "%016llx",
                       (unsigned long long)sample->random);
        lease->claimed_ns = t + 1978 * SAMPLE_MS;
        lease->until_ns = lease->held_ns + sample_between(sample, 5, 50);
        lease->true_ns = lease->until_ns + sample_between(sample, 0.2, 1.4);
        t = lease->true_ns + sample_between(sample, 0.3 * pause_ms, 1.7 * pause_ms);
        if (sample->analysis.point_count < sample->point_room)
            sample->analysis.points[sample->analysis.point_count++] =
                (struct point){lease->held_ns, latency, sample_random(sample) > 0.02};
    }
}

/* Succeeds but for the time in which it must not. */
static inline void sample_probe(struct sample *sample, unsigned worker, double until,
                                double fails_from, double fails_to)
{
    for (int64_t t = sample_at(0.02 * worker); t < sample_at(until); t += 100 * SAMPLE_MS) {
        bool ok = t < sample_at(fails_from) || t >= sample_at(fails_to);
        if (sample->analysis.probe_count == sample->probe_room)
            return;
        sample->analysis.probes[sample->analysis.probe_count++] =
            (struct probe){worker, t, t + (ok ? sample_latency(sample, 1.3) : 80 * SAMPLE_MS), ok};
    }
}

static inline void sample_checkers(struct sample *sample)
{
    static const char *const titles[CHECKERS] = {
        "claimed overlap", "witness overlap", "validity truth", "fence order", "fence effect",
        "orphans",         "deadlines",       "liveness",       "reasons",     "hygiene"};

    for (size_t i = 0; i < CHECKERS; i++)
        sample->analysis.checkers[i] = (struct checker){titles[i], i != 8, 600 + 37 * i, 0};
}

static inline json_t *sample_run(const char *scenario, const char *title)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:[s,s,s], s:i, s:i, s:i, s:i, s:s}", "scenario",
                     scenario, "title", title, "seed", (json_int_t)42, "runtime", "processes",
                     "server", "redis 7.0.15", "redis 7.0.15", "redis 7.0.15", "nodes", 5, "quorum",
                     3, "ttl_ms", 2000, "drift_ppm", 10000, "version", "0.1.0");
}

static inline struct sample *sample_new(const char *scenario, const char *title, double seconds,
                                        size_t leases)
{
    struct sample *sample = calloc(1, sizeof *sample);
    struct analysis *analysis = &sample->analysis;

    sample->random = 20240611 + leases;
    sample->lease_room = sample->point_room = sample->probe_room = leases;
    *analysis = (struct analysis){.run = sample_run(scenario, title),
                                  .begin_ns = SAMPLE_BEGIN,
                                  .end_ns = sample_at(seconds),
                                  .records = leases * 9,
                                  .workers = sample->workers,
                                  .roles = sample->roles,
                                  .worker_count = SAMPLE_CONTENDERS + SAMPLE_PROBERS,
                                  .node_count = 5,
                                  .phases = sample->phases,
                                  .faults = sample->faults,
                                  .spans = sample->spans,
                                  .offsets = sample->offsets,
                                  .metrics = sample->metrics,
                                  .expectations = sample->expectations,
                                  .violations = sample->violations,
                                  .reason = (char *)""};
    analysis->leases = calloc(leases, sizeof *analysis->leases);
    analysis->points = calloc(leases, sizeof *analysis->points);
    analysis->probes = calloc(leases, sizeof *analysis->probes);
    for (size_t i = 0; i < analysis->worker_count; i++) {
        bool prober = i >= SAMPLE_CONTENDERS;
        (void)snprintf(sample->names[i], sizeof sample->names[i], "%s-%zu",
                       prober ? "prober" : "worker", prober ? i - SAMPLE_CONTENDERS + 1 : i + 1);
        sample->workers[i] = sample->names[i];
        sample->roles[i] = (char *)(prober ? "prober" : "contender");
    }
    sample_checkers(sample);
    return sample;
}

static inline void sample_free(struct sample *sample)
{
    json_decref(sample->analysis.run);
    free(sample->analysis.leases);
    free(sample->analysis.points);
    free(sample->analysis.probes);
    free(sample);
}

/* ---- whole scenarios ---------------------------------------------------------------- */

static inline void sample_crowd(struct sample *sample, double until, double fails_from,
                                double fails_to)
{
    static const char *const names[SAMPLE_NAMES] = {"orders", "invoices", "mail", "stock"};

    for (size_t i = 0; i < SAMPLE_NAMES; i++)
        sample_contend(sample, names[i], until, 62);
    for (unsigned i = 0; i < SAMPLE_PROBERS; i++)
        sample_probe(sample, SAMPLE_CONTENDERS + i, until, fails_from, fails_to);
}

static inline void sample_phases(struct sample *sample)
{
    sample_phase(sample, "calm", 0, 3);
    sample_phase(sample, "fault", 3, 11);
    sample_phase(sample, "after", 11, 15);
}

static inline void sample_metrics(struct sample *sample, double available, double p99)
{
    static const char *const phases[] = {"calm", "fault", "after"};

    sample_metric(sample, "acquire.ok", "", (double)sample->analysis.lease_count);
    sample_metric(sample, "acquire.per_s", "", (double)sample->analysis.lease_count / 15);
    sample_metric(sample, "acquire.p50_ms", "", 2.31);
    sample_metric(sample, "acquire.p99_ms", "", p99);
    sample_metric(sample, "probe.availability", "", available);
    sample_metric(sample, "probe.outage_ms", "", (1 - available) * 15000);
    sample_metric(sample, "c1.overlaps", "", (double)sample->analysis.checkers[0].found);
    sample_metric(sample, "c3.min_ms", "", sample->analysis.checkers[2].found > 0 ? -3120.4 : 8.7);
    sample_metric(sample, "stale.plain", "", sample->analysis.checkers[0].found > 0 ? 2 : 0);
    sample_metric(sample, "c5.accepted_stale", "", 0);
    sample_metric(sample, "c6.orphans", "", 0);
    for (size_t i = 0; i < 3; i++) {
        sample_metric(sample, "acquire.p50_ms", phases[i], i == 1 ? 3.4 : 2.1);
        sample_metric(sample, "acquire.p99_ms", phases[i], i == 1 ? p99 : 8.2);
        sample_metric(sample, "probe.availability", phases[i],
                      i == 1 ? 1 - (1 - available) * 15 / 8 : 1);
    }
}

/* One violation: two hold "orders", since a clock jumped under the first. */
static inline struct sample *sample_unsafe(void)
{
    struct sample *sample = sample_new(
        "clock-step-bare", "A clock steps on the one node that two majorities share", 15, 4000);
    struct analysis *analysis = &sample->analysis;
    struct lease *first, *second;

    sample_phases(sample);
    sample_fault(sample, "clock step", "+10 s", 4, 4.0, 11, true);
    sample_fault(sample, "kill", "", 3, 5.0, 9.0, true);
    sample_span(sample, 1, "down", 5, 9);
    sample_span(sample, 2, "down", 5, 8.2);
    sample_span(sample, 2, "frozen", 8.2, 9);
    sample_span(sample, 1, "barred", 9, 11.6);
    sample_span(sample, 2, "barred", 9, 11.6);
    sample_offset(sample, 3, 4, 10000, 0);
    sample_offset(sample, 3, 11, 0, 0);
    sample_offset(sample, 5, 2, 0, 6000000);
    sample_crowd(sample, 15, 5.0, 6.1);
    first = sample_lease(sample);
    second = sample_lease(sample);
    *first = (struct lease){2,
                            "orders",
                            "9f31c2aa70b1d45e",
                            88,
                            64,
                            sample_at(6.0),
                            sample_at(6.004),
                            sample_at(7.978),
                            sample_at(7.978),
                            sample_at(6.75),
                            false,
                            true,
                            false,
                            1200};
    *second = (struct lease){5,
                             "orders",
                             "11aa22bb33cc44dd",
                             61,
                             63,
                             sample_at(6.74),
                             sample_at(6.752),
                             sample_at(8.72),
                             sample_at(7.4),
                             sample_at(7.401),
                             false,
                             false,
                             true,
                             1207};
    sample_violation(sample, 1, second->held_ns, (long)analysis->lease_count - 2,
                     (long)analysis->lease_count - 1,
                     "worker-3 and worker-6 both claimed \"orders\" for 648 ms");
    sample_violation(sample, 3, sample_at(6.75), (long)analysis->lease_count - 2, -1,
                     "worker-3 claimed \"orders\" 1.23 s longer than it was so");
    sample_metrics(sample, 0.927, 41.7);
    sample_expect(sample, "c1.overlaps", "", "eq", 0, "safety", 1, false);
    sample_expect(sample, "c3.min_ms", "", "ge", 0, "safety", -1228, false);
    sample_expect(sample, "c5.accepted_stale", "", "eq", 0, "safety", 0, true);
    sample_expect(sample, "probe.availability", "after", "ge", 1, "liveness", 1, true);
    sample_expect(sample, "vote.3.clock", "fault", "ge", 1, "effect", NAN, false);
    analysis->verdict = VERDICT_UNSAFE;
    analysis->reason = (char *)"2 safety expectations were not met: c1.overlaps is 1, c3.min_ms is "
                               "-1228";
    return sample;
}

static inline struct sample *sample_calm(const char *scenario)
{
    struct sample *sample = sample_new(scenario, "Nothing happens", 15, 4000);

    sample_phases(sample);
    sample_crowd(sample, 15, 15, 15);
    sample_metrics(sample, 1, 9.4);
    sample_expect(sample, "c1.overlaps", "", "eq", 0, "safety", 0, true);
    sample_expect(sample, "probe.availability", "", "eq", 1, "liveness", 1, true);
    return sample;
}

static inline struct sample *sample_inconclusive(void)
{
    struct sample *sample = sample_new("delay", "Slow links", 15, 400);

    sample_phases(sample);
    sample_fault(sample, "delay", "30 ms \u00b1 30 ms on every link, both ways", 31, 3, 11, false);
    sample_fault(sample, "delay", "150 ms", 3, 5, 11, true);
    sample_fault(sample, "reset", "one in twenty requests", 16, 5.2, 11, true);
    sample->analysis.verdict = VERDICT_INCONCLUSIVE;
    sample->analysis.reason = (char *)"a fault did not take: delay";
    return sample;
}

#endif
