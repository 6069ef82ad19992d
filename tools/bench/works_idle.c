/*
 * Clients that mostly do nothing: they hold leases, which have to be renewed, or they wait for one.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "measure.h"
#include "works.h"
#include "works_client.h"

#define RENEWAL_LIMIT 0.2
#define MEMORY_ALLOWED 512 /* bytes of a lease, beyond its name */
#define SHARE_ALLOWED 0.1  /* percent of a core */
#define WAITING_SIDES 10   /* how many times bench->seconds it waits */
#define HELD_SECONDS (3 * OURS_TTL_MS / 1000)
#define HELD_TELL_SECONDS 10 /* how often it is said how far that is */

static bool pause_until(const struct bench *bench, int64_t end_ns)
{
    const struct timespec slice = {.tv_nsec = 50 * 1000 * 1000};

    while (bench_now_ns() < end_ns && *bench->interrupted == 0)
        nanosleep(&slice, NULL);
    return *bench->interrupted == 0;
}

/* Of this process, in bytes. */
static double resident(void)
{
    long total, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file)
        return NAN;
    if (fscanf(file, "%ld %ld", &total, &pages) != 2)
        pages = 0;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- held -------------------------------------------------------------------------- */

struct herd {
    struct bench *bench;
    redlock_client *client;
    redlock_lock **locks;
    unsigned count; /* that are held */
    size_t name_len;
};

static bool take_all(struct herd *herd)
{
    redlock_lock_options options;
    char key[OURS_KEY];

    redlock_lock_options_init(&options);
    options.ttl_ms = OURS_TTL_MS;
    options.renew = 1;
    for (; herd->count < herd->bench->leases; herd->count++) {
        int rc;

        if (*herd->bench->interrupted != 0)
            return false;
        ours_key(key, "held", herd->count);
        herd->name_len = strlen(key);
        rc =
            redlock_acquire(herd->client, key, herd->name_len, &options, &herd->locks[herd->count]);
        if (rc != REDLOCK_OK)
            return bench_fail(herd->bench, "after %u leases: %s", herd->count,
                              redlock_strerror(rc));
    }
    return true;
}

static unsigned kept(const struct herd *herd)
{
    unsigned count = 0;

    for (unsigned i = 0; i < herd->count; i++)
        count += redlock_is_held(herd->locks[i]) != 0;
    return count;
}

static uint64_t renewals(const struct herd *herd)
{
    redlock_stats stats = {.size = sizeof stats};

    return redlock_stats_get(herd->client, &stats) == REDLOCK_OK ? stats.extended : 0;
}

/* CPU of a lone extend, to compare a renewal with. */
static double lone_extend_us(struct bench *bench, redlock_client *client)
{
    struct ours_side ours;
    struct side side = ours_side(&ours, bench, client, 0);
    int64_t end_ns = bench_now_ns() + (int64_t)(bench->seconds * 1e9);
    double cpu_us;
    unsigned count = 0;

    if (!side.acquire(&ours))
        return NAN;
    cpu_us = bench_cpu_us();
    while (bench_now_ns() < end_ns && *bench->interrupted == 0 &&
           redlock_extend(ours.lock, 0) == REDLOCK_OK)
        count++;
    cpu_us = bench_cpu_us() - cpu_us;
    (void)side.release(&ours);
    return count > 0 ? cpu_us / count : NAN;
}

/* The time is the work's own, not --seconds, unless a look is all that is wanted. */
static double held_seconds(const struct bench *bench)
{
    return fmin(works_seconds(bench, HELD_SECONDS), HELD_SECONDS);
}

static bool keep_all(const struct herd *herd, double seconds)
{
    int64_t start_ns = bench_now_ns();

    for (double at = 0; at < seconds; at += HELD_TELL_SECONDS) {
        double until = fmin(at + HELD_TELL_SECONDS, seconds);

        bench_tell(herd->bench, "%u leases held for %g of %g s", herd->count, at, seconds);
        if (!pause_until(herd->bench, start_ns + (int64_t)(until * 1e9)))
            return false;
    }
    return true;
}

static bool hold(struct herd *herd, double lone_us)
{
    struct bench *bench = herd->bench;
    double before = resident(), seconds = held_seconds(bench), cpu_us, memory;
    uint64_t renewed;

    if (!take_all(herd))
        return false;
    memory = (resident() - before) / herd->count - (double)herd->name_len;
    renewed = renewals(herd);
    cpu_us = bench_cpu_us();
    if (!keep_all(herd, seconds))
        return false;
    cpu_us = bench_cpu_us() - cpu_us;
    renewed = renewals(herd) - renewed;
    bench_sample(bench,
                 seconds < HELD_SECONDS ? "leases kept for a moment" : "leases kept for three ttls",
                 "", kept(herd), herd->count, "taken", -1);
    bench_sample(bench, "renewals", "", (double)renewed, NAN, NULL, 0);
    if (renewed > 0)
        bench_sample(bench, "CPU per renewal", "us", cpu_us / (double)renewed, lone_us,
                     "lone extend", RENEWAL_LIMIT);
    bench_sample(bench, "memory per lease, but its name", "B", memory, MEMORY_ALLOWED, "allowed",
                 1);
    return true;
}

bool works_held(struct bench *bench)
{
    struct herd herd = {.bench = bench};
    bool done = false;
    double lone_us;

    herd.client = ours_open(bench, bench->n, false, NULL);
    herd.locks = malloc(bench->leases * sizeof(redlock_lock *));
    if (herd.client && herd.locks) {
        memset(herd.locks, 0, bench->leases * sizeof(redlock_lock *)); /* it is resident, then */
        lone_us = lone_extend_us(bench, herd.client);
        done = !isnan(lone_us) && hold(&herd, lone_us);
    }
    for (unsigned i = 0; i < herd.count; i++)
        redlock_release(herd.locks[i]);
    free(herd.locks);
    redlock_client_free(herd.client);
    return done;
}

/* ---- waiting ----------------------------------------------------------------------- */

struct waiter {
    redlock_client *client;
    redlock_cancel_handle *cancel;
    const char *key;
    int result;
};

static void *wait_main(void *context)
{
    struct waiter *waiter = context;
    redlock_lock_options options;
    redlock_lock *lock = NULL;

    redlock_lock_options_init(&options);
    options.ttl_ms = OURS_TTL_MS;
    options.wait_ms = REDLOCK_WAIT_FOREVER;
    options.cancel = waiter->cancel;
    waiter->result =
        redlock_acquire(waiter->client, waiter->key, strlen(waiter->key), &options, &lock);
    if (waiter->result == REDLOCK_OK)
        redlock_release(lock);
    return NULL;
}

/* Of all threads but this one, which looks every 50 ms whether it is to stop. */
static double others_cpu_us(void)
{
    struct timespec mine;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mine);
    return bench_cpu_us() - (double)mine.tv_sec * 1e6 - (double)mine.tv_nsec / 1e3;
}

/* A second for it to get into its rhythm, then what it takes. */
static bool watch(struct bench *bench)
{
    int64_t start_ns;
    double cpu_us, memory, seconds;

    if (!pause_until(bench, bench_now_ns() + 1000000000))
        return false;
    memory = resident();
    cpu_us = others_cpu_us();
    start_ns = bench_now_ns();
    if (!pause_until(bench, start_ns + (int64_t)(bench->seconds * WAITING_SIDES * 1e9)))
        return false;
    seconds = (double)(bench_now_ns() - start_ns) / 1e9;
    bench_sample(bench, "CPU of a core", "%", (others_cpu_us() - cpu_us) / seconds / 1e4,
                 SHARE_ALLOWED, "allowed", 1);
    bench_sample(bench, "memory grown by", "B", resident() - memory, NAN, NULL, 0);
    return true;
}

static bool wait_and_watch(struct bench *bench, struct waiter *waiter)
{
    pthread_t thread;
    sigset_t all, old;
    bool done;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, NULL, wait_main, waiter);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return bench_fail(bench, "%s", strerror(rc));
    done = watch(bench);
    redlock_cancel(waiter->cancel);
    pthread_join(thread, NULL);
    if (waiter->result != REDLOCK_CANCELLED)
        return bench_fail(bench, "it didn't wait: %s", redlock_strerror(waiter->result));
    return done;
}

/* The floor holds the name: what that costs is nothing, and none of it the library's. */
bool works_waiting(struct bench *bench)
{
    int64_t ttl_ms = (int64_t)(bench->seconds * WAITING_SIDES * 1000) + OURS_TTL_MS;
    struct waiter waiter = {0};
    struct floor *floor = floor_open(bench, bench->n);
    char key[OURS_KEY];
    bool done = false;

    ours_key(key, "ours", 0);
    waiter.key = key;
    waiter.client = floor ? ours_open(bench, bench->n, false, NULL) : NULL;
    if (waiter.client && redlock_cancel_new(&waiter.cancel) == REDLOCK_OK) {
        done = floor_acquire(floor, key, ttl_ms) ? wait_and_watch(bench, &waiter)
                                                 : bench_fail(bench, "the name is not free");
        floor_release(floor);
    }
    redlock_client_free(waiter.client);
    redlock_cancel_free(waiter.cancel);
    floor_close(floor);
    return done;
}
