/*
 * Many leases at once: by threads that share a client, and by an event loop without any.
 */
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "works.h"

#define THREADS_LIMIT (-2.3)
#define LOOP_LIMIT (-0.9)

/* ---- threads --------------------------------------------------------------------- */

struct crew_member {
    struct floor *floor;
    struct floor_side base;
    struct ours_side ours;
};

struct crew {
    unsigned count;
    struct crew_member *members;
    struct side *sides[2]; /* ours, the base: of each member */
    struct measured measured[2];
};

static struct crew *new_crew(struct bench *bench)
{
    struct crew *crew = calloc(1, sizeof *crew);

    if (!crew)
        return NULL;
    crew->count = bench->workers;
    crew->members = calloc(crew->count, sizeof *crew->members);
    for (unsigned i = 0; i < 2; i++)
        crew->sides[i] = calloc(crew->count, sizeof *crew->sides[i]);
    return crew;
}

static void free_crew(struct crew *crew)
{
    if (!crew)
        return;
    for (unsigned i = 0; crew->members && i < crew->count; i++)
        floor_close(crew->members[i].floor);
    for (unsigned i = 0; i < 2; i++)
        free(crew->sides[i]);
    free(crew->members);
    free(crew);
}

static bool prepare_crew(struct bench *bench, struct crew *crew, redlock_client *client)
{
    if (!crew || !crew->members || !crew->sides[0] || !crew->sides[1])
        return bench_fail(bench, "out of memory");
    if (!floor_room(bench, crew->count, bench->n))
        return false;
    for (unsigned i = 0; i < crew->count; i++) {
        struct crew_member *member = &crew->members[i];

        member->floor = floor_open(bench, bench->n);
        if (!member->floor)
            return false;
        crew->sides[0][i] = ours_side(&member->ours, bench, client, i);
        crew->sides[1][i] = floor_side(&member->base, bench, member->floor, i);
    }
    return true;
}

static bool measure_crew(struct bench *bench, struct crew *crew)
{
    struct measured *m = crew->measured;

    for (unsigned i = 0; i < 2; i++) {
        unsigned which = i ^ bench->round % 2;

        if (!measure_threads(bench, crew->sides[which], crew->count, &m[which]))
            return false;
    }
    bench_sample(bench, "cycles per second", "", measured_rate(&m[0]), measured_rate(&m[1]),
                 "floor", bench_crowd_limit(bench, THREADS_LIMIT));
    bench_sample(bench, "CPU per cycle", "us", measured_cpu_us(&m[0]), measured_cpu_us(&m[1]),
                 "floor", 0);
    return true;
}

bool works_threads(struct bench *bench)
{
    redlock_client *client = ours_open(bench, bench->n, false, NULL);
    struct crew *crew = client ? new_crew(bench) : NULL;
    bool done = client && prepare_crew(bench, crew, client) && measure_crew(bench, crew);

    free_crew(crew);
    redlock_client_free(client);
    return done;
}

/* ---- an event loop ---------------------------------------------------------------- */

struct loop;

struct lane {
    struct loop *loop;
    redlock_lock *lock; /* NULL: idle */
    bool releasing;
    redlock_lock_options options;
    char key[OURS_KEY];
    size_t key_len;
};

struct loop {
    struct bench *bench;
    redlock_client *client;
    unsigned count;
    struct lane *lanes;
    uint64_t cycles;
    unsigned busy;
    bool ending, failed;
};

static void fail(struct loop *loop, const char *what, int rc)
{
    if (!loop->failed)
        bench_fail(loop->bench, "%s: %s", what, redlock_strerror(rc));
    loop->failed = true;
}

static void begin(struct lane *lane)
{
    struct loop *loop = lane->loop;
    int rc;

    lane->releasing = false;
    lane->lock = NULL;
    rc = redlock_start_acquire(loop->client, lane->key, lane->key_len, &lane->options, &lane->lock);
    if (rc != REDLOCK_OK)
        fail(loop, "acquire", rc);
}

static void released(struct lane *lane)
{
    struct loop *loop = lane->loop;
    int rc = redlock_release(lane->lock);

    lane->lock = NULL;
    if (rc != REDLOCK_OK)
        fail(loop, "release", rc);
    loop->cycles++;
    if (!loop->ending && !loop->failed)
        begin(lane);
    if (!lane->lock)
        loop->busy--;
}

static void on_event(void *context, redlock_lock *lock, redlock_event event)
{
    struct lane *lane = context;
    int rc;

    if (event != REDLOCK_EVENT_DONE)
        return;
    if (lane->releasing) {
        released(lane);
        return;
    }
    rc = redlock_poll_result(lock);
    lane->releasing = true;
    if (rc == REDLOCK_OK)
        rc = redlock_start_release(lock);
    if (rc == REDLOCK_OK)
        return;
    fail(lane->loop, "acquire", rc);
    released(lane);
}

static void turn(struct loop *loop)
{
    struct pollfd fd = {.fd = redlock_fd(loop->client), .events = POLLIN};
    int rc;

    poll(&fd, 1, (int)redlock_next_timeout_ms(loop->client));
    rc = redlock_process(loop->client);
    if (rc != REDLOCK_OK)
        fail(loop, "the loop", rc);
}

static void run_until(struct loop *loop, int64_t end_ns)
{
    while (bench_now_ns() < end_ns && *loop->bench->interrupted == 0 && !loop->failed)
        turn(loop);
}

/* Started, warmed, measured, ended. */
static double run_ours(struct loop *loop)
{
    int64_t start_ns, now_ns, patience_ns = 1000000000;
    double rate;
    uint64_t before;

    for (unsigned i = 0; i < loop->count && !loop->failed; i++) {
        begin(&loop->lanes[i]);
        loop->busy += loop->lanes[i].lock != NULL;
    }
    run_until(loop, bench_now_ns() + (int64_t)(loop->bench->seconds * 1e9 / 10));
    before = loop->cycles;
    start_ns = bench_now_ns();
    run_until(loop, start_ns + (int64_t)(loop->bench->seconds * 1e9));
    now_ns = bench_now_ns();
    rate = (double)(loop->cycles - before) / ((double)(now_ns - start_ns) / 1e9);
    loop->ending = true;
    while (loop->busy > 0 && bench_now_ns() < now_ns + patience_ns && !loop->failed)
        turn(loop);
    return loop->failed || loop->busy > 0 ? NAN : rate;
}

static void prepare_lanes(struct loop *loop)
{
    for (unsigned i = 0; i < loop->count; i++) {
        struct lane *lane = &loop->lanes[i];

        lane->loop = loop;
        redlock_lock_options_init(&lane->options);
        lane->options.ttl_ms = OURS_TTL_MS;
        lane->options.on_event = on_event;
        lane->options.event_context = lane;
        ours_key(lane->key, "ours", i);
        lane->key_len = strlen(lane->key);
    }
}

static double loop_ours(struct bench *bench)
{
    struct loop loop = {.bench = bench, .count = bench->workers};
    double rate = NAN;

    loop.client = ours_open(bench, bench->n, true, NULL);
    if (!loop.client)
        return NAN;
    loop.lanes = calloc(loop.count, sizeof *loop.lanes);
    if (loop.lanes) {
        prepare_lanes(&loop);
        rate = run_ours(&loop);
    } else {
        bench_fail(bench, "out of memory");
    }
    for (unsigned i = 0; loop.lanes && i < loop.count; i++)
        if (loop.lanes[i].lock)
            redlock_release(loop.lanes[i].lock);
    redlock_client_free(loop.client);
    free(loop.lanes);
    return rate;
}

static double loop_floor(struct bench *bench)
{
    struct floor *floor = floor_open(bench, bench->n);
    uint64_t cycles = 0;

    if (floor && floor_loop(floor, bench->workers, (int64_t)(bench->seconds * 1e9 / 10)) > 0)
        cycles = floor_loop(floor, bench->workers, (int64_t)(bench->seconds * 1e9));
    floor_close(floor);
    return cycles > 0 ? (double)cycles / bench->seconds : NAN;
}

bool works_loop(struct bench *bench)
{
    double rates[2] = {NAN, NAN}, cpu_us[2];

    for (unsigned i = 0; i < 2; i++) {
        unsigned which = i ^ bench->round % 2;

        cpu_us[which] = bench_cpu_us();
        rates[which] = which == 0 ? loop_ours(bench) : loop_floor(bench);
        cpu_us[which] = bench_cpu_us() - cpu_us[which];
        if (isnan(rates[which]) || *bench->interrupted != 0)
            return false;
    }
    bench_sample(bench, "cycles per second", "", rates[0], rates[1], "floor",
                 bench_crowd_limit(bench, LOOP_LIMIT));
    /* The tenth that warms is in the CPU time, so it has to be in the cycles. */
    for (unsigned i = 0; i < 2; i++)
        cpu_us[i] /= rates[i] * bench->seconds * 1.1;
    bench_sample(bench, "CPU per cycle", "us", cpu_us[0], cpu_us[1], "floor", 0);
    return true;
}
