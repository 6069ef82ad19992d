/*
 * Many that want one name, hold it for a millisecond and ask again at once: threads of one
 * client, and processes with a client each. The base of both is the floor with a first-come queue
 * inside the process: as many threads, one set of connections.
 *
 * Fairness needs many turns: each side is measured for at least three seconds. What a crowd is held
 * against, limits and targets, is for the usual size of it.
 */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "crowd.h"
#include "floor.h"
#include "floor_queue.h"
#include "ours.h"
#include "works_client.h"

#define LEAST_SECONDS 3.0
/* What figures that have no base are held against. */
#define EVEN 1.0
#define PROCESSES_P99_MS 100.0
#define PROCESSES_FAILED 3.0

struct side {
    struct crowd_result result;
    struct crowd_costs costs;
    double cpu_us; /* for a turn */
};

typedef bool measure_side(struct bench *bench, double seconds, struct side *side);

/* ---- the floor ------------------------------------------------------------------------------ */

struct queued_floor {
    struct floor_queue queue;
    struct floor *floor;
    char key[WORKS_KEY_LEN];
};

static bool enter_floor(void *context, void **grip)
{
    struct queued_floor *queued = context;

    *grip = NULL;
    floor_queue_enter(&queued->queue);
    if (floor_acquire(queued->floor, queued->key, WORKS_TTL_MS))
        return true;
    floor_queue_leave(&queued->queue);
    return false;
}

static bool leave_floor(void *context, void *grip)
{
    struct queued_floor *queued = context;
    bool released = floor_release(queued->floor);

    (void)grip;
    floor_queue_leave(&queued->queue);
    return released;
}

static bool measure_floor(struct bench *bench, double seconds, struct side *side)
{
    struct queued_floor queued;
    struct crowd_lock lock = {.context = &queued, .enter = enter_floor, .leave = leave_floor};
    double cpu_us;
    bool done;

    works_key(queued.key, "crowd-floor");
    queued.floor = floor_open(bench, bench->n);
    if (queued.floor == NULL)
        return false;
    floor_queue_init(&queued.queue);
    cpu_us = bench_cpu_us();
    done = crowd_of_threads(bench, &lock, seconds, &side->result);
    side->cpu_us = (bench_cpu_us() - cpu_us) / side->result.turns;
    floor_queue_destroy(&queued.queue);
    floor_close(queued.floor);
    if (!done && *bench->interrupted == 0)
        return bench_fail(bench, "the floor's crowd did not get the lock");
    return done;
}

/* ---- threads of one client ------------------------------------------------------------------ */

static bool measure_client(struct bench *bench, double seconds, struct crowd_ours *ours,
                           struct side *side)
{
    struct crowd_lock lock = crowd_lock_of(ours);
    redlock_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    double cpu_us;

    (void)redlock_stats_get(ours->client, &before);
    cpu_us = bench_cpu_us();
    if (!crowd_of_threads(bench, &lock, seconds, &side->result)) {
        if (*bench->interrupted != 0)
            return false;
        return bench_fail(bench, "the crowd did not get the lock: %s",
                          redlock_strerror(atomic_load(&ours->rc)));
    }
    side->cpu_us = (bench_cpu_us() - cpu_us) / side->result.turns;
    (void)redlock_stats_get(ours->client, &after);
    side->costs.failed_per_turn =
        (double)(after.attempts - before.attempts - (after.acquired - before.acquired)) /
        (double)(after.acquired - before.acquired);
    return true;
}

static bool measure_threads(struct bench *bench, double seconds, struct side *side)
{
    char text[WORKS_TEXT_LEN], key[WORKS_KEY_LEN];
    struct crowd_ours ours = {.key = key};
    bool done = false;

    works_key(key, "crowd");
    ours.client = works_client(bench, bench->uris, bench->n, text);
    if (ours.client == NULL)
        return *bench->interrupted == 0 && bench_fail(bench, "%s", text);
    if (redlock_cancel_new(&ours.cancel) == REDLOCK_OK)
        done = measure_client(bench, seconds, &ours, side);
    else
        (void)bench_fail(bench, "no memory for a crowd");
    redlock_client_free(ours.client);
    redlock_cancel_free(ours.cancel);
    return done;
}

/* ---- processes ------------------------------------------------------------------------------ */

static bool measure_processes(struct bench *bench, double seconds, struct side *side)
{
    char key[WORKS_KEY_LEN];

    works_key(key, "processes");
    return crowd_of_processes(bench, key, seconds, &side->result, &side->costs);
}

/* ---- the rounds -------------------------------------------------------------------------------
 */

static bool measure_both(struct bench *bench, measure_side *measure_ours, struct side *ours,
                         struct side *base)
{
    double seconds = works_seconds(bench, LEAST_SECONDS);

    *ours = *base = (struct side){.cpu_us = 0};
    if (!ours_mark(bench, bench->n))
        return false;
    if (bench->round % 2 == 0)
        return measure_ours(bench, seconds, ours) && measure_floor(bench, seconds, base);
    return measure_floor(bench, seconds, base) && measure_ours(bench, seconds, ours);
}

#define FLOOR_NAME "queue+floor"

static bool one_key(struct bench *bench)
{
    struct side ours, base;

    if (!measure_both(bench, measure_threads, &ours, &base))
        return false;
    bench_sample(bench, "acquisitions", "1/s", ours.result.per_second, base.result.per_second,
                 FLOOR_NAME, bench_crowd_limit(bench, -0.97));
    bench_sample(bench, "busiest / idlest thread", "", ours.result.evenness, EVEN, "even",
                 bench_crowd_limit(bench, 1.05));
    bench_sample(bench, "p99 wait", "ms", ours.result.p99_ms, base.result.p99_ms, FLOOR_NAME,
                 bench_crowd_limit(bench, 1.2));
    bench_sample(bench, "longest wait", "ms", ours.result.longest_ms, base.result.longest_ms,
                 FLOOR_NAME, 0);
    bench_sample(bench, "failed / acquisition", "", ours.costs.failed_per_turn, NAN, "", 0);
    bench_sample(bench, "CPU per acquisition", "us", ours.cpu_us, base.cpu_us, FLOOR_NAME, 0);
    return true;
}

/* Nothing but a limit to be compared with: without it, nothing. */
static void sample_target(struct bench *bench, const char *figure, const char *unit, double ours,
                          double target)
{
    double limit = bench_crowd_limit(bench, 1);

    bench_sample(bench, figure, unit, ours, limit == 0 ? NAN : target, limit == 0 ? "" : "target",
                 limit);
}

static bool one_key_processes(struct bench *bench)
{
    struct side ours, base;

    if (!measure_both(bench, measure_processes, &ours, &base))
        return false;
    bench_sample(bench, "acquisitions", "1/s", ours.result.per_second, base.result.per_second,
                 FLOOR_NAME, bench_crowd_limit(bench, -0.9));
    bench_sample(bench, "busiest / idlest process", "", ours.result.evenness, EVEN, "even",
                 bench_crowd_limit(bench, 1.5));
    sample_target(bench, "p99 wait", "ms", ours.result.p99_ms, PROCESSES_P99_MS);
    bench_sample(bench, "longest wait", "ms", ours.result.longest_ms, base.result.longest_ms,
                 FLOOR_NAME, 0);
    sample_target(bench, "failed / acquisition", "", ours.costs.failed_per_turn, PROCESSES_FAILED);
    return true;
}

const struct bench_work bench_works_crowd[] = {
    {.name = "one-key",
     .what = "threads of a client on one key (--workers), held 1 ms, against a queued floor",
     .round = one_key},
    {.name = "one-key-processes",
     .what = "processes on one key (--workers), held 1 ms, against the same queued floor",
     .round = one_key_processes},
    {.name = NULL}};
