/*
 * One thread: what a lock costs that nobody else wants.
 */
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dial.h"
#include "measure.h"
#include "works.h"

#define CYCLE_LIMIT 1.10
#define CPU_LIMIT 1.15
#define PLAIN_LIMIT 1.05
#define FENCED_LIMIT 1.25
#define FENCED_ACQUIRE_LIMIT 1.10

/* A figure's name with its variant. */
#define FIGURE(text, variant, name) (snprintf(text, sizeof text, "%s%s", variant, name), text)

static struct measured *new_pair(struct bench *bench)
{
    struct measured *measured = malloc(2 * sizeof *measured);

    if (!measured)
        bench_fail(bench, "out of memory");
    return measured;
}

/* ---- cycle ----------------------------------------------------------------------- */

/* Per primary, by its own count; NaN: it doesn't say. */
static double commands_of(const struct bench *bench, unsigned n, const long long *before,
                          uint64_t cycles)
{
    double sum = 0;

    for (unsigned i = 0; i < n; i++) {
        long long now = dial_commands(bench, i);

        if (now < 0 || before[i] < 0)
            return NAN;
        sum += (double)(now - before[i]);
    }
    return sum / n / (double)cycles;
}

/* Measured alone, since the cycles that warm up count on the primaries, too. */
static double count_commands(struct bench *bench, const struct side *side, unsigned n)
{
    enum {
        CYCLES = 500
    };
    long long before[REDLOCK_MAX_NODES];

    for (unsigned i = 0; i < n; i++)
        before[i] = dial_commands(bench, i);
    for (unsigned k = 0; k < CYCLES; k++)
        if (*bench->interrupted != 0 || !side->acquire(side->context) ||
            !side->release(side->context))
            return NAN;
    return commands_of(bench, n, before, CYCLES);
}

static void sample_cycles(struct bench *bench, const char *variant, const struct measured m[2],
                          const char *base_name, double limit)
{
    char text[96];

    bench_sample(bench, FIGURE(text, variant, "acquire p50"), "us",
                 measured_p_us(&m[0].acquire, 50), measured_p_us(&m[1].acquire, 50), base_name, 0);
    bench_sample(bench, FIGURE(text, variant, "cycle p50"), "us", measured_p_us(&m[0].cycle, 50),
                 measured_p_us(&m[1].cycle, 50), base_name, limit);
}

/* All that is said of one thread; ours against whatever the base is. */
static void sample_all(struct bench *bench, const struct measured m[2], const char *base_name,
                       double cycle_limit, double cpu_limit)
{
    bench_sample(bench, "acquire p50", "us", measured_p_us(&m[0].acquire, 50),
                 measured_p_us(&m[1].acquire, 50), base_name, 0);
    bench_sample(bench, "acquire p99", "us", measured_p_us(&m[0].acquire, 99),
                 measured_p_us(&m[1].acquire, 99), base_name, 0);
    bench_sample(bench, "release p50", "us", measured_p_us(&m[0].release, 50),
                 measured_p_us(&m[1].release, 50), base_name, 0);
    bench_sample(bench, "cycle p50", "us", measured_p_us(&m[0].cycle, 50),
                 measured_p_us(&m[1].cycle, 50), base_name, cycle_limit);
    bench_sample(bench, "CPU per cycle", "us", measured_cpu_us(&m[0]), measured_cpu_us(&m[1]),
                 base_name, cpu_limit);
}

static bool measure_cycle(struct bench *bench, const struct side sides[2], struct measured m[2])
{
    double ours, base;

    if (!measure_both(bench, &sides[0], &sides[1], m))
        return false;
    sample_all(bench, m, "floor", CYCLE_LIMIT, CPU_LIMIT);
    ours = count_commands(bench, &sides[0], bench->n);
    base = count_commands(bench, &sides[1], bench->n);
    if (!isnan(ours) && !isnan(base))
        bench_sample(bench, "commands per primary", "", ours, base, "floor", 0);
    return true;
}

static bool cycle_round(struct bench *bench)
{
    struct floor *floor = floor_open(bench, bench->n);
    redlock_client *client = floor ? ours_open(bench, bench->n, false, NULL) : NULL;
    struct measured *m = new_pair(bench);
    struct ours_side ours;
    struct floor_side base;
    bool done = false;

    if (client && m) {
        struct side sides[2] = {ours_side(&ours, bench, client, 0),
                                floor_side(&base, bench, floor, 0)};

        done = measure_cycle(bench, sides, m);
    }
    free(m);
    redlock_client_free(client);
    floor_close(floor);
    return done;
}

/* ---- against hiredis alone -------------------------------------------------------- */

/* What a program does that has no library for locks: one primary, blocking. */
struct plain {
    struct bench *bench;
    redisContext *context;
    char key[OURS_KEY], token[33], ttl[16];
    unsigned long long count;
};

static bool plain_is(struct plain *plain, redisReply *reply, bool good)
{
    if (reply)
        freeReplyObject(reply);
    return good || bench_fail(plain->bench, "hiredis: %s",
                              plain->context->err ? plain->context->errstr : "not granted");
}

static bool plain_acquire(void *context)
{
    struct plain *plain = context;
    redisReply *reply;

    snprintf(plain->token, sizeof plain->token, "%032llx", plain->count++);
    reply =
        redisCommand(plain->context, "SET %s %s NX PX %s", plain->key, plain->token, plain->ttl);
    return plain_is(plain, reply, reply && reply->type == REDIS_REPLY_STATUS);
}

static bool plain_release(void *context)
{
    struct plain *plain = context;
    redisReply *reply = redisCommand(plain->context, "EVAL %s 1 %s %s",
                                     "if redis.call('get',KEYS[1])==ARGV[1] then return "
                                     "redis.call('del',KEYS[1]) else return 0 end",
                                     plain->key, plain->token);

    return plain_is(plain, reply,
                    reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1);
}

static bool against_plain(struct bench *bench, const struct side *ours, struct measured m[2])
{
    struct plain plain = {.bench = bench};
    struct side base = {plain_acquire, plain_release, &plain};
    char problem[256];
    bool done;

    plain.context = dial(bench, 0, problem, sizeof problem);
    if (!plain.context)
        return bench_fail(bench, "%s", problem);
    ours_key(plain.key, "base", 1);
    snprintf(plain.ttl, sizeof plain.ttl, "%d", OURS_TTL_MS);
    done = measure_both(bench, ours, &base, m);
    redisFree(plain.context);
    if (done)
        sample_cycles(bench, "N=1: ", m, "hiredis", PLAIN_LIMIT);
    return done;
}

/* ---- nodes ------------------------------------------------------------------------- */

static bool measure_nodes(struct bench *bench, unsigned n, redlock_client *client,
                          struct measured m[2])
{
    struct floor *floor = floor_open(bench, n);
    struct ours_side ours;
    struct floor_side base;
    char variant[16];
    struct side mine = ours_side(&ours, bench, client, 0);
    struct side other;
    bool done;

    if (!floor)
        return false;
    other = floor_side(&base, bench, floor, 0);
    done = measure_both(bench, &mine, &other, m);
    floor_close(floor);
    if (!done)
        return false;
    snprintf(variant, sizeof variant, "N=%u: ", n);
    sample_cycles(bench, variant, m, "floor", 0);
    return n != 1 || against_plain(bench, &mine, m);
}

/* Named primaries that are marked as five can't be used as three: that is left out. All of them are
 * not: then it is a failure like any other. */
static bool nodes_once(struct bench *bench, unsigned n, struct measured m[2])
{
    bool refused = false, done;
    redlock_client *client = ours_open(bench, n, false, n != bench->total ? &refused : NULL);

    if (!client) {
        if (refused && bench->round == 0)
            bench_fail(bench, "left out N = %u: they are marked to be used together", n);
        return refused;
    }
    done = measure_nodes(bench, n, client, m);
    redlock_client_free(client);
    return done;
}

static bool nodes_round(struct bench *bench)
{
    static const unsigned numbers[] = {1, 3, 5, 7};
    struct measured *m = new_pair(bench);
    bool done = m != NULL;

    for (size_t i = 0; done && i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] <= bench->total)
            done = nodes_once(bench, numbers[i], m);
    free(m);
    return done;
}

/* ---- extend ------------------------------------------------------------------------ */

static bool extend_ours(void *context)
{
    struct ours_side *ours = context;
    int rc = redlock_extend(ours->lock, 0);

    return rc == REDLOCK_OK || bench_fail(ours->bench, "extend: %s", redlock_strerror(rc));
}

static bool extend_floor(void *context)
{
    struct floor_side *at = context;

    return floor_extend(at->floor) || bench_fail(at->bench, "the floor's extend failed");
}

static bool nothing(void *context)
{
    (void)context;
    return true;
}

static bool measure_extend(struct bench *bench, struct ours_side *ours, struct floor_side *base,
                           struct measured m[2])
{
    struct side mine = {extend_ours, nothing, ours}, other = {extend_floor, nothing, base};

    if (!measure_both(bench, &mine, &other, m))
        return false;
    bench_sample(bench, "extend p50", "us", measured_p_us(&m[0].cycle, 50),
                 measured_p_us(&m[1].cycle, 50), "floor", 0);
    bench_sample(bench, "extend p99", "us", measured_p_us(&m[0].cycle, 99),
                 measured_p_us(&m[1].cycle, 99), "floor", 0);
    bench_sample(bench, "CPU per extend", "us", measured_cpu_us(&m[0]), measured_cpu_us(&m[1]),
                 "floor", 0);
    return true;
}

static bool extend_round(struct bench *bench)
{
    struct floor *floor = floor_open(bench, bench->n);
    redlock_client *client = floor ? ours_open(bench, bench->n, false, NULL) : NULL;
    struct measured *m = new_pair(bench);
    struct ours_side ours;
    struct floor_side base;
    bool done = false;

    if (client && m) {
        struct side mine = ours_side(&ours, bench, client, 0);
        struct side other = floor_side(&base, bench, floor, 0);

        if (mine.acquire(&ours)) {
            done = other.acquire(&base) && measure_extend(bench, &ours, &base, m);
            (void)mine.release(&ours);
            (void)other.release(&base);
        }
    }
    free(m);
    redlock_client_free(client);
    floor_close(floor);
    return done;
}

/* ---- fenced ------------------------------------------------------------------------- */

static bool can_fence(struct bench *bench, struct ours_side *ours)
{
    int rc = redlock_acquire(ours->client, ours->key, ours->key_len, &ours->options, &ours->lock);

    if (rc == REDLOCK_OK)
        return redlock_release(ours->lock) == REDLOCK_OK;
    if (rc == REDLOCK_ERR_MISCONFIGURED)
        return bench_fail(bench, "fencing tokens need primaries that are marked: redlock init");
    return bench_fail(bench, "%s", redlock_strerror(rc));
}

static bool measure_fenced(struct bench *bench, const struct side *fenced,
                           const struct side *unfenced, const struct side *floor,
                           struct measured m[2])
{
    if (!measure_both(bench, fenced, unfenced, m))
        return false;
    bench_sample(bench, "cycle p50", "us", measured_p_us(&m[0].cycle, 50),
                 measured_p_us(&m[1].cycle, 50), "unfenced", FENCED_LIMIT);
    if (!measure_both(bench, fenced, floor, m))
        return false;
    bench_sample(bench, "acquire p50", "us", measured_p_us(&m[0].acquire, 50),
                 measured_p_us(&m[1].acquire, 50), "floor", FENCED_ACQUIRE_LIMIT);
    bench_sample(bench, "CPU per cycle", "us", measured_cpu_us(&m[0]), measured_cpu_us(&m[1]),
                 "floor", 0);
    return true;
}

static bool fenced_round(struct bench *bench)
{
    struct floor *floor = floor_open(bench, bench->n);
    redlock_client *client = floor ? ours_open(bench, bench->n, false, NULL) : NULL;
    struct measured *m = new_pair(bench);
    struct ours_side with, without;
    struct floor_side base;
    bool done = false;

    if (client && m) {
        struct side fenced = ours_side(&with, bench, client, 0);
        struct side unfenced = ours_side(&without, bench, client, 1);
        struct side other = floor_side(&base, bench, floor, 0);

        with.options.fence = 1;
        base.fenced = true;
        done = can_fence(bench, &with) && measure_fenced(bench, &fenced, &unfenced, &other, m);
    }
    free(m);
    redlock_client_free(client);
    floor_close(floor);
    return done;
}

/* ---- many against one --------------------------------------------------------------- */

/* What a side of the comparison does: its own client, for a round. */
static bool compare_one(struct bench *bench, unsigned n, struct measured *m, double *commands)
{
    redlock_client *client = ours_open(bench, n, false, NULL);
    struct ours_side ours;
    struct side side;
    bool done;

    if (!client)
        return false;
    side = ours_side(&ours, bench, client, 0);
    done = measure_cycles(bench, &side, m);
    if (done)
        *commands = count_commands(bench, &side, n);
    redlock_client_free(client);
    return done;
}

static bool compare_round(struct bench *bench)
{
    struct measured *m = new_pair(bench);
    double commands[2] = {NAN, NAN};
    bool done = m != NULL;

    for (unsigned i = 0; done && i < 2; i++) {
        unsigned which = i ^ bench->round % 2; /* 0: all of them */

        done = compare_one(bench, which == 0 ? bench->n : 1, &m[which], &commands[which]);
    }
    if (done) {
        sample_all(bench, m, "one primary", 0, 0);
        bench_sample(bench, "commands per primary", "", commands[0], commands[1], "one primary", 0);
    }
    free(m);
    return done;
}

const struct bench_work bench_works_compare[] = {
    {"compare", "the library with all primaries against the first alone", compare_round},
    {NULL, NULL, NULL},
};

const struct bench_work bench_works_basic[] = {
    {"cycle", "one thread, acquire and release", cycle_round},
    {"nodes", "the same with 1, 3, 5 and 7 primaries, and one against hiredis alone", nodes_round},
    {"threads", "threads on one client, a key each (--workers)", works_threads},
    {"loop", "an event loop without threads, leases in flight (--workers)", works_loop},
    {"extend", "one thread extends a lease", extend_round},
    {"fenced", "acquire and release with fencing tokens", fenced_round},
    {"native", "what extend and release cost a server by its own commands, against scripts",
     works_native},
    {"held", "many held leases with renewal, for three ttls of 30 s; see --leases", works_held},
    {"waiting", "one waiter without end on a held name, for 10 times --seconds", works_waiting},
    {NULL, NULL, NULL},
};
