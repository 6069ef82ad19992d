/*
 * See swarm.h. Clock rates stay within the drift allowance, no clock steps and no primary
 * forgets: then no checker may find anything, whatever else happens.
 */
#include "swarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "validity.h"

enum {
    MAX_WORKERS = 8,
    KEYS = 2
};

struct worker {
    uint32_t client;
    char key[8];
    struct sim_lock *lock;
};

struct swarm {
    struct sim *sim;
    struct sim_random random;
    uint32_t faults;
    uint32_t worker_count;
    struct worker workers[MAX_WORKERS];
    bool long_ttl;
    bool quiet, killed;
    int64_t fault_pause_ns, think_ns;
};

/* One simulation at a time: callbacks find their swarm here. */
static struct swarm *current;

static bool one_in(struct swarm *swarm, int64_t n)
{
    return sim_between(&swarm->random, 1, n) == 1;
}

static uint32_t any_client(struct swarm *swarm)
{
    return (uint32_t)sim_between(&swarm->random, 0, swarm->sim->config.clients - 1);
}

static uint32_t any_node(struct swarm *swarm)
{
    return (uint32_t)sim_between(&swarm->random, 0, swarm->sim->config.n - 1);
}

/* ---- workers ------------------------------------------------------------ */

static int64_t any_ttl(struct swarm *swarm)
{
    if (swarm->long_ttl)
        return sim_between(&swarm->random, 15000, 30000);
    return one_in(swarm, 4) ? sim_between(&swarm->random, 10, 100)
                            : sim_between(&swarm->random, 100, 1000);
}

static void begin(struct swarm *swarm, struct worker *worker)
{
    struct redlock__lease_config config = sim_lock_config(any_ttl(swarm));
    config.retry_base_ms = sim_between(&swarm->random, 1, 20);
    config.retry_cap_ms = sim_between(&swarm->random, config.retry_base_ms, 200);
    config.renew = one_in(swarm, 2);
    if (one_in(swarm, 2))
        config.wait_ms = sim_between(&swarm->random, 1, 1000);
    else if (one_in(swarm, 4))
        config.wait_ms = REDLOCK_WAIT_FOREVER;
    if (one_in(swarm, 8))
        config.max_hold_ms = sim_between(&swarm->random, 50, 1500);
    if (one_in(swarm, 8))
        config.min_validity_ms = sim_between(&swarm->random, 0, config.ttl_ms / 2);
    worker->lock = sim_acquire(swarm->sim, worker->client, worker->key, &config, NULL);
}

static void drop(struct swarm *swarm, struct worker *worker)
{
    sim_forget(swarm->sim, worker->lock, false);
    worker->lock = NULL;
}

static void use(struct swarm *swarm, struct worker *worker)
{
    struct sim_lock *lock = worker->lock;
    int64_t what = sim_between(&swarm->random, 0, 9);
    if (lock->running) {
        if (what == 0)
            sim_cancel(swarm->sim, lock);
        else if (what == 1 && one_in(swarm, 3))
            drop(swarm, worker);
        else if (what == 2 && lock->acquired && !lock->releasing)
            (void)sim_release(swarm->sim, lock);
    } else if (!lock->acquired || lock->releasing || what == 0) {
        drop(swarm, worker);
    } else if (what <= 3) {
        (void)sim_extend(swarm->sim, lock, one_in(swarm, 2) ? 0 : any_ttl(swarm));
    } else if (what <= 6) {
        (void)sim_release(swarm->sim, lock);
    }
}

static void work(struct sim *sim, void *context)
{
    struct worker *worker = context;
    struct swarm *swarm = current;
    if (swarm->quiet || sim->clients[worker->client].engine == NULL)
        return;
    if (!sim->clients[worker->client].frozen) {
        if (worker->lock == NULL)
            begin(swarm, worker);
        else
            use(swarm, worker);
    }
    sim_at(sim, sim_between(&swarm->random, 0, swarm->think_ns), work, worker);
}

/* Now and then a callback acts at once. */
static void on_event(struct sim *sim, struct sim_lock *lock, redlock_event event)
{
    struct swarm *swarm = current;
    (void)sim;
    if (swarm->quiet || event == REDLOCK_EVENT_DONE || !one_in(swarm, 4))
        return;
    for (uint32_t i = 0; i < swarm->worker_count; i++)
        if (swarm->workers[i].lock == lock && !lock->running)
            use(swarm, &swarm->workers[i]);
}

/* ---- faults ------------------------------------------------------------- */

struct fault {
    uint32_t kind; /* a SWARM_* bit */
    uint32_t client, node;
};

static void end_fault(struct sim *sim, void *context)
{
    struct fault *fault = context;
    int c = (int)fault->client, i = (int)fault->node;
    switch (fault->kind) {
    case SWARM_CUTS:
        sim_refuse(sim, c, i, false);
        break;
    case SWARM_HOLES:
        sim_black_hole(sim, c, i, false);
        break;
    case SWARM_HOLDS:
    case SWARM_LATE:
        sim_disarm(sim, c, i);
        sim_deliver(sim, c, i);
        break;
    case SWARM_SERVERS:
        if (sim->servers[i].down)
            sim_start_server(sim, fault->node, true);
        sim_thaw_server(sim, fault->node);
        break;
    case SWARM_CLIENTS:
        sim_thaw_client(sim, fault->client);
        break;
    case SWARM_ERRORS:
        sim_error(sim, fault->node, SIM_ANY, NULL);
        break;
    case SWARM_SLOW:
        sim_latency(sim, c, i, sim->config.latency_min_ns, sim->config.latency_max_ns);
        break;
    default:
        break;
    }
    free(fault);
}

static enum sim_command any_command(struct swarm *swarm)
{
    static const enum sim_command commands[] = {SIM_SET, SIM_EXTEND, SIM_RELEASE, SIM_ANY};
    return commands[sim_between(&swarm->random, 0, 3)];
}

static void hold(struct swarm *swarm, const struct fault *fault)
{
    struct sim *sim = swarm->sim;
    if (one_in(swarm, 2)) {
        sim_hold(sim, (int)fault->client, (int)fault->node,
                 (int)sim_between(&swarm->random, SIM_UP, SIM_BOTH));
        return;
    }
    sim_disarm(sim, (int)fault->client, (int)fault->node);
    sim_trigger(sim, (int)fault->client, (int)fault->node, any_command(swarm),
                (uint32_t)sim_between(&swarm->random, 1, 3),
                one_in(swarm, 2) ? SIM_HOLD_REQUEST : SIM_HOLD_REPLY);
}

static void cut(struct swarm *swarm, const struct fault *fault)
{
    struct sim *sim = swarm->sim;
    if (one_in(swarm, 4)) {
        sim_refuse(sim, (int)fault->client, (int)fault->node, true);
    } else if (one_in(swarm, 2)) {
        sim_disarm(sim, (int)fault->client, (int)fault->node);
        sim_trigger(sim, (int)fault->client, (int)fault->node, any_command(swarm),
                    (uint32_t)sim_between(&swarm->random, 1, 3),
                    one_in(swarm, 2) ? SIM_CUT_AT_REQUEST : SIM_CUT_AT_REPLY);
        return;
    }
    sim_cut(sim, (int)fault->client, (int)fault->node, false);
}

static void upset_server(struct swarm *swarm, const struct fault *fault)
{
    if (one_in(swarm, 2))
        sim_freeze_server(swarm->sim, fault->node);
    else
        sim_stop_server(swarm->sim, fault->node);
}

static void refuse_commands(struct swarm *swarm, const struct fault *fault)
{
    static const char *const texts[] = {"MISCONF Errors writing to the AOF file: No space left",
                                        "OOM command not allowed when used memory > 'maxmemory'.",
                                        "LOADING Redis is loading the dataset in memory",
                                        "BUSY Redis is busy running a script."};
    struct sim_server *server = &swarm->sim->servers[fault->node];
    sim_error(swarm->sim, fault->node, any_command(swarm),
              texts[sim_between(&swarm->random, 0, 3)]);
    if (server->forbidden != 0) /* who doesn't learn its version would have nothing but scripts */
        server->error[SIM_INFO_SERVER] = NULL;
}

static void begin_fault(struct swarm *swarm, const struct fault *fault)
{
    struct sim *sim = swarm->sim;
    int c = (int)fault->client, i = (int)fault->node;
    switch (fault->kind) {
    case SWARM_CUTS:
        cut(swarm, fault);
        break;
    case SWARM_HOLDS:
        hold(swarm, fault);
        break;
    case SWARM_HOLES:
        sim_black_hole(sim, c, i, true);
        break;
    case SWARM_SERVERS:
        upset_server(swarm, fault);
        break;
    case SWARM_CLIENTS:
        sim_freeze_client(sim, fault->client);
        break;
    case SWARM_ERRORS:
        refuse_commands(swarm, fault);
        break;
    case SWARM_LATE:
        sim_disarm(sim, c, i);
        sim_trigger(sim, c, i, any_command(swarm), 1, SIM_CUT_LATE);
        break;
    case SWARM_SLOW:
        sim_latency(sim, c, i, 0, sim_between(&swarm->random, SIM_MS, 600 * SIM_MS));
        break;
    default:
        break;
    }
}

static void upset(struct sim *sim, void *context)
{
    struct swarm *swarm = context;
    uint32_t kind = UINT32_C(1) << sim_between(&swarm->random, 0, 7);
    if (swarm->quiet)
        return;
    sim_at(sim, sim_between(&swarm->random, 0, swarm->fault_pause_ns), upset, swarm);
    if ((swarm->faults & kind) == 0)
        return;
    struct fault *fault = malloc(sizeof(*fault));
    if (fault == NULL)
        abort();
    *fault = (struct fault){.kind = kind, .client = any_client(swarm), .node = any_node(swarm)};
    begin_fault(swarm, fault);
    sim_at(sim, sim_between(&swarm->random, SIM_MS, 800 * SIM_MS), end_fault, fault);
}

/* One dies, and leaves its keys to their ttl. */
static void kill_one(struct sim *sim, void *context)
{
    struct swarm *swarm = context;
    uint32_t client = any_client(swarm);
    for (uint32_t i = 0; i < swarm->worker_count; i++)
        if (swarm->workers[i].client == client)
            swarm->workers[i].lock = NULL;
    sim_kill_client(sim, client);
    swarm->killed = true;
}

/* ---- one run ------------------------------------------------------------ */

static struct sim_config any_config(struct swarm *swarm, uint64_t seed)
{
    static const uint32_t sizes[] = {1, 2, 3, 3, 3, 4, 5, 5, 5, 7};
    uint32_t n = sizes[sim_between(&swarm->random, 0, 9)];
    struct sim_config config = sim_defaults(n, (uint32_t)sim_between(&swarm->random, 2, 4), seed);
    config.early = one_in(swarm, 2);
    config.slice = one_in(swarm, 3);
    config.connect_timeout_ms = sim_between(&swarm->random, 50, 300);
    config.silence_limit_ms = sim_between(&swarm->random, 150, 500);
    config.latency_max_ns = sim_between(&swarm->random, 200 * SIM_US, 10 * SIM_MS);
    if (one_in(swarm, 2)) /* a round trip fits in, or nothing ever works */
        config.node_timeout_ms =
            sim_between(&swarm->random, 3 + 2 * config.latency_max_ns / SIM_MS, 100);
    config.lateness_ns = one_in(swarm, 2) ? 0 : sim_between(&swarm->random, 0, 2 * SIM_MS);
    config.database = one_in(swarm, 4) ? 3 : 0;
    config.password = one_in(swarm, 4) ? "secret" : NULL;
    if (one_in(swarm, 4))
        config.quorum = (uint32_t)sim_between(&swarm->random, redlock__majority(n), n);
    return config;
}

/* Servers of several versions, and users without some rights. Where scripts are refused, native
 * commands are there: else nothing could be extended or removed. */
static void mix_servers(struct swarm *swarm)
{
    struct sim *sim = swarm->sim;
    bool mixed = one_in(swarm, 2);
    uint32_t kind = (uint32_t)sim_between(&swarm->random, 0, 3);
    for (uint32_t i = 0; i < sim->config.n; i++) {
        struct sim_server *server = &sim->servers[i];
        if (mixed)
            kind = (uint32_t)sim_between(&swarm->random, 0, 3);
        server->native = sim_server_kind(kind);
        server->unknown = one_in(swarm, 2);
        if (one_in(swarm, 6))
            server->forbidden = server->native;
        else if (kind >= 2 && one_in(swarm, 4))
            server->forbidden = REDLOCK__CAN_EVAL;
    }
}

/* Each clock runs as wrong as the allowance permits, or less. */
static void set_clocks(struct swarm *swarm)
{
    struct sim *sim = swarm->sim;
    int64_t of_clients = sim_between(&swarm->random, 0, 10000), of_servers = 10000 - of_clients;
    for (uint32_t c = 0; c < sim->config.clients; c++)
        sim->clients[c].rate_ppm =
            one_in(swarm, 2) ? -of_clients : sim_between(&swarm->random, -of_clients, of_clients);
    for (uint32_t i = 0; i < sim->config.n; i++)
        sim->servers[i].rate_ppm =
            one_in(swarm, 2) ? of_servers : sim_between(&swarm->random, -of_servers, of_servers);
}

static void start_workers(struct swarm *swarm)
{
    uint32_t clients = swarm->sim->config.clients;
    uint32_t each = (uint32_t)sim_between(&swarm->random, 1, MAX_WORKERS / clients);
    swarm->worker_count = clients * each;
    for (uint32_t i = 0; i < swarm->worker_count; i++) {
        struct worker *worker = &swarm->workers[i];
        worker->client = i % clients;
        snprintf(worker->key, sizeof(worker->key), "k%d",
                 one_in(swarm, 3) ? 1 : (int)sim_between(&swarm->random, 0, KEYS - 1));
        sim_at(swarm->sim, 0, work, worker);
    }
}

static void be_quiet(struct swarm *swarm)
{
    struct sim *sim = swarm->sim;
    swarm->quiet = true;
    sim_heal(sim);
    sim_latency(sim, SIM_ALL, SIM_ALL, sim->config.latency_min_ns, sim->config.latency_max_ns);
    for (uint32_t c = 0; c < sim->config.clients; c++)
        sim_thaw_client(sim, c);
    for (uint32_t i = 0; i < swarm->worker_count; i++) {
        struct worker *worker = &swarm->workers[i];
        if (worker->lock == NULL)
            continue;
        if (one_in(swarm, 2))
            (void)sim_release(sim, worker->lock);
        drop(swarm, worker);
    }
    sim_run(sim, 5 * SIM_S);
    if (!swarm->killed)
        sim_check_orphans(sim);
}

/* Everybody can lock again. */
static void check_alive(struct swarm *swarm)
{
    struct sim *sim = swarm->sim;
    for (uint32_t c = 0; c < sim->config.clients; c++) {
        struct redlock__lease_config config = sim_lock_config(1000);
        if (sim->clients[c].engine == NULL)
            continue;
        config.wait_ms = 3000;
        struct sim_lock *lock = sim_acquire(sim, c, "probe", &config, NULL);
        if (lock == NULL || sim_wait(sim, lock) != REDLOCK_OK || !sim_held(sim, lock))
            sim_violate(sim, SIM_CHECK_BOUNDS, "client %u can't lock when all is well again", c);
        if (lock != NULL)
            (void)sim_release_now(sim, lock);
        if (redlock__engine_flushing(sim->clients[c].engine))
            sim_run(sim, 100 * SIM_MS);
        if (sim_stats(sim, c).leases != 0)
            sim_violate(sim, SIM_CHECK_BOUNDS, "client %u still knows forgotten locks", c);
    }
}

struct swarm_result swarm_run(uint64_t seed, uint32_t faults)
{
    struct swarm swarm = {.random = {.state = seed ^ UINT64_C(0x5eed)}};
    struct swarm_result result = {.violation = ""};
    struct sim_config config = any_config(&swarm, seed);
    swarm.long_ttl = one_in(&swarm, 3);
    swarm.faults = faults & (uint32_t)sim_random(&swarm.random);
    swarm.fault_pause_ns = sim_between(&swarm.random, 2 * SIM_MS, 200 * SIM_MS);
    swarm.think_ns = sim_between(&swarm.random, 5 * SIM_MS, 200 * SIM_MS);
    swarm.sim = sim_new(&config);
    current = &swarm;
    set_clocks(&swarm);
    mix_servers(&swarm);
    swarm.sim->on_event = on_event;
    start_workers(&swarm);
    upset(swarm.sim, &swarm);
    if ((swarm.faults & SWARM_KILLS) != 0)
        sim_at(swarm.sim, sim_between(&swarm.random, 0, 3 * SIM_S), kill_one, &swarm);
    sim_run(swarm.sim, 3 * SIM_S);
    be_quiet(&swarm);
    check_alive(&swarm);
    if (sim_violation(swarm.sim) != NULL)
        memcpy(result.violation, swarm.sim->first_violation, sizeof(result.violation));
    result.hash = swarm.sim->hash;
    result.steps = swarm.sim->steps;
    for (uint32_t c = 0; c < config.clients; c++) {
        if (swarm.sim->clients[c].engine == NULL)
            continue;
        redlock_stats stats = sim_stats(swarm.sim, c);
        result.acquired += stats.acquired;
        result.extended += stats.extended;
        result.lost += stats.lost;
        result.released += stats.released;
    }
    sim_free(swarm.sim);
    current = NULL;
    return result;
}
