/*
 * See measure.h. The clock is read three times a cycle, for ours as for the base. A process's CPU
 * time includes the library's own thread, if it has something to do.
 */
#include "measure.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "threads.h"

enum {
    WARM_CYCLES = 300,
    WARM_NS = 300 * 1000 * 1000 /* not longer than */
};

double measured_p_us(const struct hist *hist, double p)
{
    return (double)hist_percentile_ns(hist, p) / 1000;
}

double measured_cpu_us(const struct measured *measured)
{
    return measured->cpu_us / (double)measured->cycles;
}

double measured_rate(const struct measured *measured)
{
    return (double)measured->cycles / measured->seconds;
}

static int64_t duration_ns(const struct bench *bench)
{
    return (int64_t)(bench->seconds * 1e9);
}

/* ---- one thread ------------------------------------------------------------------ */

static bool warm(struct bench *bench, const struct side *side)
{
    int64_t end_ns = bench_now_ns() + WARM_NS;

    for (unsigned i = 0; i < WARM_CYCLES && bench_now_ns() < end_ns; i++)
        if (*bench->interrupted != 0 || !side->acquire(side->context) ||
            !side->release(side->context))
            return false;
    return true;
}

bool measure_cycles(struct bench *bench, const struct side *side, struct measured *measured)
{
    int64_t start_ns, end_ns, now_ns;
    double cpu_us;

    memset(measured, 0, sizeof *measured);
    if (!warm(bench, side))
        return false;
    cpu_us = bench_cpu_us();
    start_ns = now_ns = bench_now_ns();
    end_ns = start_ns + duration_ns(bench);
    while (now_ns < end_ns) {
        int64_t begun_ns = now_ns, acquired_ns;

        if (*bench->interrupted != 0 || !side->acquire(side->context))
            return false;
        acquired_ns = bench_now_ns();
        if (!side->release(side->context))
            return false;
        now_ns = bench_now_ns();
        hist_add(&measured->acquire, acquired_ns - begun_ns);
        hist_add(&measured->release, now_ns - acquired_ns);
        hist_add(&measured->cycle, now_ns - begun_ns);
    }
    measured->cpu_us = bench_cpu_us() - cpu_us;
    measured->seconds = (double)(now_ns - start_ns) / 1e9;
    measured->cycles = measured->cycle.count;
    return true;
}

bool measure_both(struct bench *bench, const struct side *ours, const struct side *base,
                  struct measured measured[2])
{
    unsigned first = bench->round % 2;

    for (unsigned i = 0; i < 2; i++) {
        unsigned which = i ^ first; /* 0: ours */

        if (!measure_cycles(bench, which == 0 ? ours : base, &measured[which]))
            return false;
    }
    return true;
}

/* ---- many threads ----------------------------------------------------------------- */

struct crowd {
    struct bench *bench;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* ready or open */
    unsigned ready;
    bool open; /* they may begin */
    _Atomic int stop, failed;
};

struct worker {
    struct crowd *crowd;
    const struct side *side;
    pthread_t thread;
    uint64_t cycles;
};

static void wait_for_opening(struct crowd *crowd)
{
    pthread_mutex_lock(&crowd->mutex);
    crowd->ready++;
    pthread_cond_broadcast(&crowd->changed);
    while (!crowd->open)
        pthread_cond_wait(&crowd->changed, &crowd->mutex);
    pthread_mutex_unlock(&crowd->mutex);
}

static void open_for(struct crowd *crowd, unsigned count)
{
    pthread_mutex_lock(&crowd->mutex);
    while (crowd->ready < count)
        pthread_cond_wait(&crowd->changed, &crowd->mutex);
    crowd->open = true;
    pthread_cond_broadcast(&crowd->changed);
    pthread_mutex_unlock(&crowd->mutex);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct crowd *crowd = worker->crowd;
    const struct side *side = worker->side;

    if (!warm(crowd->bench, side))
        atomic_store(&crowd->failed, 1);
    wait_for_opening(crowd);
    while (!atomic_load_explicit(&crowd->stop, memory_order_relaxed)) {
        if (!side->acquire(side->context) || !side->release(side->context)) {
            atomic_store(&crowd->failed, 1);
            break;
        }
        worker->cycles++;
    }
    return NULL;
}

static void wait_out(struct bench *bench, struct crowd *crowd, int64_t end_ns)
{
    const struct timespec slice = {.tv_nsec = 10 * 1000 * 1000};

    while (bench_now_ns() < end_ns && *bench->interrupted == 0 && !atomic_load(&crowd->failed))
        nanosleep(&slice, NULL);
}

/* Signals are the main thread's. */
static unsigned start_all(struct worker *workers, unsigned count)
{
    sigset_t all, old;
    unsigned started = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started < count &&
           bench_thread_create(&workers[started].thread, work, &workers[started]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

static bool run_crowd(struct crowd *crowd, struct worker *workers, unsigned count,
                      struct measured *measured)
{
    struct bench *bench = crowd->bench;
    unsigned started = start_all(workers, count);
    int64_t start_ns;
    double cpu_us;

    if (started < count) {
        bench_fail(bench, "no more threads can be had than %u", started);
        atomic_store(&crowd->stop, 1);
        atomic_store(&crowd->failed, 1);
    }
    open_for(crowd, started);
    cpu_us = bench_cpu_us();
    start_ns = bench_now_ns();
    wait_out(bench, crowd, start_ns + duration_ns(bench));
    measured->seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    measured->cpu_us = bench_cpu_us() - cpu_us;
    atomic_store(&crowd->stop, 1);
    for (unsigned i = 0; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
        measured->cycles += workers[i].cycles;
    }
    if (atomic_load(&crowd->failed) || *bench->interrupted != 0)
        return false;
    return measured->cycles > 0 || bench_fail(bench, "no cycle was done in the time");
}

bool measure_threads(struct bench *bench, const struct side *sides, unsigned count,
                     struct measured *measured)
{
    struct crowd crowd = {
        .bench = bench, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    struct worker *workers = calloc(count, sizeof *workers);
    bool done;

    memset(measured, 0, sizeof *measured);
    if (!workers)
        return bench_fail(bench, "out of memory");
    for (unsigned i = 0; i < count; i++)
        workers[i] = (struct worker){.crowd = &crowd, .side = &sides[i]};
    done = run_crowd(&crowd, workers, count, measured);
    pthread_cond_destroy(&crowd.changed);
    pthread_mutex_destroy(&crowd.mutex);
    free(workers);
    return done;
}

/* ---- sides ------------------------------------------------------------------------ */

static bool say_failure(struct bench *bench, const char *what, int rc)
{
    return *bench->interrupted != 0 ? false
                                    : bench_fail(bench, "%s: %s", what, redlock_strerror(rc));
}

static bool ours_acquire(void *context)
{
    struct ours_side *ours = context;
    int rc = redlock_acquire(ours->client, ours->key, ours->key_len, &ours->options, &ours->lock);

    return rc == REDLOCK_OK || say_failure(ours->bench, "acquire", rc);
}

static bool ours_release(void *context)
{
    struct ours_side *ours = context;
    int rc = redlock_release(ours->lock);

    return rc == REDLOCK_OK || say_failure(ours->bench, "release", rc);
}

struct side ours_side(struct ours_side *ours, struct bench *bench, redlock_client *client,
                      unsigned number)
{
    memset(ours, 0, sizeof *ours);
    ours->bench = bench;
    ours->client = client;
    redlock_lock_options_init(&ours->options);
    ours->options.ttl_ms = OURS_TTL_MS;
    ours_key(ours->key, "ours", number);
    ours->key_len = strlen(ours->key);
    return (struct side){ours_acquire, ours_release, ours};
}

static bool acquire_floor(void *context)
{
    struct floor_side *at = context;

    if (at->fenced ? floor_acquire_fenced(at->floor, at->key, OURS_TTL_MS)
                   : floor_acquire(at->floor, at->key, OURS_TTL_MS))
        return true;
    return *at->bench->interrupted != 0 ? false
                                        : bench_fail(at->bench, "the floor's acquire failed");
}

static bool release_floor(void *context)
{
    struct floor_side *at = context;

    if (floor_release(at->floor))
        return true;
    return *at->bench->interrupted != 0 ? false
                                        : bench_fail(at->bench, "the floor's release failed");
}

struct side floor_side(struct floor_side *at, struct bench *bench, struct floor *floor,
                       unsigned number)
{
    memset(at, 0, sizeof *at);
    at->bench = bench;
    at->floor = floor;
    ours_key(at->key, "base", number);
    return (struct side){acquire_floor, release_floor, at};
}
