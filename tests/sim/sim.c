/*
 * The clock of the simulated world and its one loop: the checkers look at the instants up
 * to the next event, time jumps there, the event happens, the checkers look again. All
 * else is called from here.
 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validity.h"

/* ---- making one --------------------------------------------------------- */

struct sim_config sim_defaults(uint32_t n, uint32_t clients, uint64_t seed)
{
    return (struct sim_config){.n = n,
                               .clients = clients,
                               .drift_ppm = 10000,
                               .max_ttl_ms = 60000,
                               .connect_timeout_ms = 1000,
                               .silence_limit_ms = 2000,
                               .latency_min_ns = 100 * SIM_US,
                               .latency_max_ns = 500 * SIM_US,
                               .seed = seed};
}

static void entropy(void *context, void *buf, size_t len)
{
    struct sim_client *client = context;
    unsigned char *to = buf;
    for (size_t i = 0; i < len; i++)
        to[i] = (unsigned char)(sim_random(&client->entropy) >> 24);
}

static void make_client(struct sim *sim, uint32_t c)
{
    const struct sim_config *config = &sim->config;
    struct sim_client *client = &sim->clients[c];
    client->entropy.state = sim_random(&sim->random);
    client->random.state = sim_random(&sim->random);
    client->lateness_ns = config->lateness_ns;
    if (client->clock_ns == 0)
        client->clock_ns = sim_between(&sim->random, SIM_S, 1000 * SIM_S);
    for (uint32_t i = 0; i < config->n; i++) {
        struct redlock__node_config *node = &sim->node_configs[c][i];
        snprintf(node->address, sizeof(node->address), "node%u", i);
        node->password = config->password;
        node->client_name = "sim";
        node->database = config->database;
        node->connect_timeout_ns = config->connect_timeout_ms * SIM_MS;
        node->silence_limit_ns = config->silence_limit_ms * SIM_MS;
        node->seed = sim_random(&sim->random);
    }
    struct redlock__engine_config engine = {.n = config->n,
                                            .nodes = sim->node_configs[c],
                                            .quorum = config->quorum,
                                            .drift_ppm = config->drift_ppm,
                                            .max_ttl_ms = config->max_ttl_ms,
                                            .restart_guard_ms = config->restart_guard_ms,
                                            .node_timeout_ms = config->node_timeout_ms,
                                            .entropy = entropy,
                                            .entropy_context = client};
    client->engine = redlock__engine_new(&engine, sim_clock(client, sim->now_ns));
    if (client->engine == NULL)
        abort();
}

static void begin_client(struct sim *sim, void *context)
{
    sim_drive(sim, (uint32_t)(uintptr_t)context);
}

void sim_start_client(struct sim *sim, uint32_t client)
{
    if (sim->clients[client].engine != NULL)
        sim_kill_client(sim, client);
    sim->clients[client].wake = 0;
    make_client(sim, client);
    sim_drive(sim, client);
}

struct sim *sim_new(const struct sim_config *config)
{
    struct sim *sim = calloc(1, sizeof(*sim));
    if (sim == NULL || config->n > SIM_MAX_NODES || config->clients > SIM_MAX_CLIENTS)
        abort();
    sim->config = *config;
    sim->random.state = config->seed;
    sim->checks = SIM_CHECK_ALL;
    sim->hash = UINT64_C(14695981039346656037);
    sim->trace = getenv("REDLOCK_SIM_TRACE") != NULL;
    for (uint32_t i = 0; i < config->n; i++) {
        sim_server_init(&sim->servers[i], i);
        sim->servers[i].early = config->early;
        sim->servers[i].password = config->password;
        sim->servers[i].wall_ns += sim_between(&sim->random, -SIM_S, SIM_S);
    }
    for (uint32_t c = 0; c < config->clients; c++) {
        make_client(sim, c);
        for (uint32_t i = 0; i < config->n; i++) {
            sim->links[c][i].min_ns = config->latency_min_ns;
            sim->links[c][i].max_ns = config->latency_max_ns;
            sim->links[c][i].slice = config->slice;
        }
        sim_at(sim, 0, begin_client, (void *)(uintptr_t)c);
    }
    return sim;
}

void sim_free(struct sim *sim)
{
    if (sim == NULL)
        return;
    sim_clients_free(sim);
    sim_net_free(sim);
    for (uint32_t i = 0; i < sim->config.n; i++)
        sim_server_destroy(&sim->servers[i]);
    free(sim->heap.events);
    free(sim);
}

/* ---- time --------------------------------------------------------------- */

void sim_at(struct sim *sim, int64_t in_ns, sim_call_fn *call, void *context)
{
    sim_heap_push(&sim->heap, (struct sim_event){.at_ns = sim->now_ns + in_ns,
                                                 .kind = SIM_EV_CALL,
                                                 .call = call,
                                                 .context = context});
}

static void dispatch(struct sim *sim, const struct sim_event *event)
{
    switch (event->kind) {
    case SIM_EV_CONNECT:
    case SIM_EV_UP:
    case SIM_EV_DOWN:
        sim_net_event(sim, event);
        break;
    case SIM_EV_WAKE:
        sim_client_wake(sim, event->client, event->id);
        break;
    case SIM_EV_CALL:
        event->call(sim, event->context);
        break;
    }
}

bool sim_step(struct sim *sim, int64_t until_ns)
{
    if (sim->heap.count == 0 || sim->heap.events[0].at_ns > until_ns) {
        sim_check_before(sim, until_ns);
        if (until_ns > sim->now_ns)
            sim->now_ns = until_ns;
        return false;
    }
    struct sim_event event = sim_heap_pop(&sim->heap);
    sim_check_before(sim, event.at_ns);
    if (event.at_ns > sim->now_ns)
        sim->now_ns = event.at_ns;
    sim->steps++;
    sim_note(sim, (uint64_t)event.kind, event.id, (uint64_t)event.at_ns);
    dispatch(sim, &event);
    sim_check_now(sim);
    return true;
}

void sim_run(struct sim *sim, int64_t for_ns)
{
    int64_t until_ns = sim->now_ns + for_ns;
    while (sim_step(sim, until_ns))
        continue;
}

bool sim_run_until(struct sim *sim, sim_condition_fn *cond, void *context, int64_t for_ns)
{
    int64_t until_ns = sim->now_ns + for_ns;
    while (!cond(sim, context))
        if (!sim_step(sim, until_ns))
            return cond(sim, context);
    return true;
}

void sim_note(struct sim *sim, uint64_t what, uint64_t a, uint64_t b)
{
    uint64_t values[3] = {what, a, b};
    for (size_t i = 0; i < 3; i++)
        sim->hash = (sim->hash ^ values[i]) * UINT64_C(1099511628211);
}

void sim_tell(struct sim *sim, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%10.3f ms  ", (double)sim->now_ns / 1e6);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* ---- what is where ------------------------------------------------------ */

static struct sim_entry *find(struct sim *sim, uint32_t node, const char *key)
{
    return sim_server_find(&sim->servers[node], sim->config.database, key, strlen(key),
                           sim->now_ns);
}

const char *sim_value(struct sim *sim, uint32_t node, const char *key)
{
    const struct sim_entry *e = find(sim, node, key);
    return e != NULL ? e->value : NULL;
}

bool sim_has(struct sim *sim, uint32_t node, const struct sim_lock *lock)
{
    const char *value = sim_value(sim, node, lock->key);
    return value != NULL && strcmp(value, sim_token(lock)) == 0;
}

uint32_t sim_where(struct sim *sim, const struct sim_lock *lock)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        if (sim_has(sim, i, lock))
            mask |= UINT32_C(1) << i;
    return mask;
}

uint32_t sim_present(struct sim *sim, const char *key)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        if (sim_value(sim, i, key) != NULL)
            mask |= UINT32_C(1) << i;
    return mask;
}

int64_t sim_pttl(struct sim *sim, uint32_t node, const char *key)
{
    const struct sim_entry *e = find(sim, node, key);
    return e == NULL ? -2 : e->when_ms - sim_server_wall_ms(&sim->servers[node], sim->now_ns);
}

void sim_vanish(struct sim *sim, uint32_t node, const char *key)
{
    sim_server_vanish(&sim->servers[node], key);
}

void sim_set_foreign(struct sim *sim, uint32_t node, const char *key, int64_t ttl_ms)
{
    sim_server_plant(&sim->servers[node], key, "somebody-else", ttl_ms, sim->now_ns);
}

uint64_t sim_count(const struct sim *sim, int node, enum sim_command command)
{
    uint64_t sum = 0;
    for (int i = 0; i < (int)sim->config.n; i++)
        if (node == SIM_ALL || node == i)
            sum += command == SIM_ANY ? sim->servers[i].commands : sim->servers[i].count[command];
    return sum;
}

redlock_stats sim_stats(const struct sim *sim, uint32_t client)
{
    redlock_stats stats = {.size = sizeof(stats)};
    redlock__engine_stats(sim->clients[client].engine, &stats);
    return stats;
}
