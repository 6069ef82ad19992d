#include "crowd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"
#include "works_client.h"

enum {
    LOOK_MS = 20,
    SOON_MS = 20, /* until all threads run, for each hundred of them */
    GRACE_S = 10  /* after the end, for those who still wait, likewise */
};

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

/* ---- one worker ------------------------------------------------------------------------- */

void crowd_work(const struct crowd_lock *lock, const struct crowd_span *span,
                const atomic_bool *stop, struct crowd_tally *tally)
{
    int64_t asked_ns, held_ns;
    void *grip;

    works_sleep_until(span->start_ns);
    while ((asked_ns = bench_now_ns()) < span->end_ns && !atomic_load(stop)) {
        if (!lock->enter(lock->context, &grip)) {
            tally->failed = true;
            return;
        }
        held_ns = bench_now_ns();
        hist_add(&tally->waits, held_ns - asked_ns);
        tally->turns += held_ns < span->end_ns;
        works_sleep(CROWD_HOLD_NS);
        if (!lock->leave(lock->context, grip)) {
            tally->failed = true;
            return;
        }
    }
}

/* ---- adding up -------------------------------------------------------------------------- */

bool crowd_sum(const struct crowd_tally tallies[], unsigned count, const struct crowd_span *span,
               struct crowd_result *result)
{
    struct hist *waits = calloc(1, sizeof *waits);
    double busiest = 0, idlest = INFINITY, turns = 0;
    bool failed = waits == NULL;

    for (unsigned i = 0; i < count && !failed; i++) {
        failed = tallies[i].failed;
        hist_merge(waits, &tallies[i].waits);
        turns += (double)tallies[i].turns;
        busiest = fmax(busiest, (double)tallies[i].turns);
        idlest = fmin(idlest, (double)tallies[i].turns);
    }
    failed = failed || !(turns > 0);
    if (!failed)
        *result = (struct crowd_result){
            .turns = turns,
            .per_second = turns * (double)NS_PER_S / (double)(span->end_ns - span->start_ns),
            .evenness = busiest / fmax(idlest, 0.5),
            .p99_ms = (double)hist_percentile_ns(waits, 99) / (double)NS_PER_MS,
            .longest_ms = (double)waits->most_ns / (double)NS_PER_MS};
    free(waits);
    return !failed;
}

/* ---- threads ------------------------------------------------------------------------------ */

struct crowd {
    const struct crowd_lock *lock;
    struct crowd_span span;
    atomic_bool stop;
    atomic_uint left; /* who are done */
    unsigned count;
    struct worker *workers;
    struct crowd_tally *tallies; /* one of each */
};

struct worker {
    struct crowd *crowd;
    struct crowd_tally *tally;
    pthread_t thread;
};

/* Begun ones count. */
static int64_t hundreds(const struct crowd *crowd)
{
    return 1 + crowd->count / 100;
}

static void *run_worker(void *argument)
{
    struct worker *worker = argument;
    struct crowd *crowd = worker->crowd;

    crowd_work(crowd->lock, &crowd->span, &crowd->stop, worker->tally);
    if (worker->tally->failed)
        atomic_store(&crowd->stop, true);
    (void)atomic_fetch_add(&crowd->left, 1);
    return NULL;
}

static void see_through(struct crowd *crowd, const struct bench *bench, unsigned started)
{
    bool told = false;

    while (atomic_load(&crowd->left) < started) {
        int64_t late_ns = bench_now_ns() - crowd->span.end_ns;

        if (*bench->interrupted != 0)
            atomic_store(&crowd->stop, true);
        if ((atomic_load(&crowd->stop) || late_ns > hundreds(crowd) * GRACE_S * NS_PER_S) &&
            !told) {
            told = true;
            if (crowd->lock->give_up != NULL)
                crowd->lock->give_up(crowd->lock->context);
        }
        works_sleep(LOOK_MS * NS_PER_MS);
    }
}

static unsigned start_workers(struct crowd *crowd)
{
    unsigned n = 0;

    for (; n < crowd->count; n++) {
        struct worker *worker = &crowd->workers[n];

        *worker = (struct worker){.crowd = crowd, .tally = &crowd->tallies[n]};
        if (bench_thread_create(&worker->thread, run_worker, worker) != 0)
            break;
    }
    return n;
}

static bool run_threads(struct crowd *crowd, struct bench *bench, double seconds,
                        struct crowd_result *result)
{
    unsigned started;

    crowd->span.start_ns = bench_now_ns() + hundreds(crowd) * SOON_MS * NS_PER_MS;
    crowd->span.end_ns = crowd->span.start_ns + (int64_t)(seconds * (double)NS_PER_S);
    started = start_workers(crowd);
    if (started < crowd->count)
        atomic_store(&crowd->stop, true);
    see_through(crowd, bench, started);
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(crowd->workers[i].thread, NULL);
    if (started < crowd->count)
        return bench_fail(bench, "only %u of %u threads could be started", started, crowd->count);
    return *bench->interrupted == 0 &&
           crowd_sum(crowd->tallies, crowd->count, &crowd->span, result);
}

bool crowd_of_threads(struct bench *bench, const struct crowd_lock *lock, double seconds,
                      struct crowd_result *result)
{
    struct crowd crowd = {.lock = lock, .count = bench->workers};
    bool done = false;

    crowd.workers = calloc(crowd.count, sizeof *crowd.workers);
    crowd.tallies = calloc(crowd.count, sizeof *crowd.tallies);
    if (crowd.workers != NULL && crowd.tallies != NULL)
        done = run_threads(&crowd, bench, seconds, result);
    else
        (void)bench_fail(bench, "no memory for a crowd");
    free(crowd.tallies);
    free(crowd.workers);
    return done;
}

/* ---- the library ---------------------------------------------------------------------------- */

static bool enter_ours(void *context, void **grip)
{
    struct crowd_ours *ours = context;
    redlock_lock_options options;
    redlock_lock *lock;
    int rc;

    redlock_lock_options_init(&options);
    options.ttl_ms = WORKS_TTL_MS;
    options.wait_ms = REDLOCK_WAIT_FOREVER;
    options.cancel = ours->cancel;
    rc = redlock_acquire(ours->client, ours->key, strlen(ours->key), &options, &lock);
    if (rc == REDLOCK_OK)
        *grip = lock;
    else
        atomic_store(&ours->rc, rc);
    return rc == REDLOCK_OK;
}

static bool leave_ours(void *context, void *grip)
{
    struct crowd_ours *ours = context;
    int rc = redlock_release(grip);

    if (rc != REDLOCK_OK)
        atomic_store(&ours->rc, rc);
    return rc == REDLOCK_OK;
}

static void cancel_ours(void *context)
{
    struct crowd_ours *ours = context;

    if (ours->cancel != NULL)
        redlock_cancel(ours->cancel);
}

struct crowd_lock crowd_lock_of(struct crowd_ours *ours)
{
    return (struct crowd_lock){
        .context = ours, .enter = enter_ours, .leave = leave_ours, .give_up = cancel_ours};
}
