/*
 * See fencing.h. The order of two acquisitions is certain where one had its result before the other
 * began: then the later one must have the larger token, whatever clocks, keys and the network did
 * in between. No two tokens are ever the same.
 */
#include "fencing.h"

#include <stdio.h>
#include <string.h>

#include "amnesia.h"
#include "fence.h"

enum {
    CLIENTS = 4,
    MAX_TTL_MS = 400,
    SPAN_MS = 1500,
    MAX_TOKENS = 2000
};

struct tenure {
    int64_t token, held_ns;
};

struct fencing {
    struct sim *sim;
    const struct fencing_config *config;
    struct sim_random random;
    struct sim_lock *locks[CLIENTS];
    int64_t begun_ns[CLIENTS];
    bool noted[CLIENTS];
    struct tenure tenures[MAX_TOKENS];
    size_t count;
    struct fencing_result result;
};

/* One simulation at a time. */
static struct fencing *current;

void fencing_mark(struct sim *sim, uint32_t node, int64_t number)
{
    struct redlock__base base = {.number = number};
    char text[REDLOCK__BASE_LEN];

    amnesia_mark(sim, node, false);
    sim_server_run_id(&sim->servers[node], base.run_id);
    redlock__base_format(&base, text);
    (void)sim_server_plant_score(&sim->servers[node], REDLOCK__FLOOR_KEY, text, number,
                                 sim->now_ns);
}

/* ---- who wants the lock ------------------------------------------------- */

static void note(struct fencing *story, uint32_t client)
{
    struct tenure is = {.token = redlock__lease_fencing(story->locks[client]->lease)->token,
                        .held_ns = story->sim->now_ns};

    if (is.token <= 0 && story->result.violation[0] == '\0')
        (void)snprintf(story->result.violation, sizeof(story->result.violation),
                       "held without a token");
    for (size_t i = 0; i < story->count && story->result.violation[0] == '\0'; i++) {
        const struct tenure *was = &story->tenures[i];
        bool before = was->held_ns <= story->begun_ns[client];

        if (was->token == is.token || (before && was->token > is.token))
            (void)snprintf(story->result.violation, sizeof(story->result.violation),
                           "seed %#llx: token %lld after %lld",
                           (unsigned long long)story->sim->config.seed, (long long)is.token,
                           (long long)was->token);
    }
    if (story->count < MAX_TOKENS)
        story->tenures[story->count++] = is;
    story->result.acquired++;
    story->result.settled += story->locks[client]->lease->round_command == REDLOCK__CMD_SETTLE;
}

static void take(struct fencing *story, uint32_t client)
{
    struct redlock__lease_config config =
        sim_lock_config(sim_between(&story->random, 40, MAX_TTL_MS));

    config.fence = true;
    config.wait_ms = sim_chance(&story->random, 50) ? 0 : 100;
    story->begun_ns[client] = story->sim->now_ns;
    story->noted[client] = false;
    story->locks[client] = sim_acquire(story->sim, client, "k", &config, NULL);
}

static void finish(struct fencing *story, uint32_t client)
{
    sim_forget(story->sim, story->locks[client], sim_chance(&story->random, 20));
    story->locks[client] = NULL;
}

/* A token counts from the moment the caller is told. */
static void on_event(struct sim *sim, struct sim_lock *lock, redlock_event event)
{
    struct fencing *story = current;
    uint32_t client = lock->client;

    (void)sim;
    if (event == REDLOCK_EVENT_DONE && story->locks[client] == lock && !story->noted[client] &&
        lock->lease->op == REDLOCK__OP_NONE && lock->lease->result == REDLOCK_OK) {
        story->noted[client] = true;
        note(story, client);
    }
}

static void work(struct sim *sim, void *context)
{
    struct fencing *story = current;
    uint32_t client = (uint32_t)(uintptr_t)context;
    struct sim_lock *lock = story->locks[client];

    if (lock == NULL)
        take(story, client);
    else if (!lock->running && (!sim_held(sim, lock) || sim_chance(&story->random, 40)))
        finish(story, client);
    else if (!lock->running && sim_chance(&story->random, 20))
        (void)sim_extend(sim, lock, 0);
    sim_at(sim, sim_between(&story->random, 0, 12) * SIM_MS, work, context);
}

/* ---- what goes wrong ---------------------------------------------------- */

static void lose_reply(struct fencing *story)
{
    static const enum sim_action actions[] = {SIM_SWALLOW_REPLY, SIM_CUT_AT_REPLY, SIM_HOLD_REPLY,
                                              SIM_HOLD_REQUEST, SIM_CUT_AT_REQUEST};
    int client = (int)sim_between(&story->random, 0, CLIENTS - 1);
    int node = (int)sim_between(&story->random, 0, story->sim->config.n - 1);

    sim_disarm(story->sim, client, node);
    sim_trigger(story->sim, client, node,
                sim_chance(&story->random, 30)   ? SIM_SETTLE
                : sim_chance(&story->random, 50) ? SIM_GRANT
                                                 : SIM_EXEC,
                (uint32_t)sim_between(&story->random, 1, 2),
                actions[sim_between(&story->random, 0, 4)]);
}

static void forget(struct fencing *story, uint32_t node)
{
    struct sim *sim = story->sim;

    sim_restart_server(sim, node, story->config->unguarded_recovery);
    story->result.forgot++;
    if (!story->config->unguarded_recovery)
        return;
    (void)sim_server_vanish(&sim->servers[node], "redlock:fence:{k}");
    fencing_mark(sim, node, 0);
}

/* As `redlock init --fence-base` does. What counters it kept may be far below. */
static void rebase(struct fencing *story, uint32_t node)
{
    struct sim *sim = story->sim;
    int64_t number = 0;

    for (uint32_t i = 0; i < sim->config.n; i++) {
        const struct sim_entry *floor = sim_server_find(&sim->servers[i], 0, REDLOCK__FLOOR_KEY,
                                                        strlen(REDLOCK__FLOOR_KEY), sim->now_ns);
        if (floor != NULL && floor->score > number)
            number = floor->score;
    }
    sim_restart_server(sim, node, true);
    fencing_mark(sim, node, number + sim_between(&story->random, 0, 5));
}

static void upset(struct sim *sim, void *context)
{
    struct fencing *story = context;
    uint32_t node = (uint32_t)sim_between(&story->random, 0, sim->config.n - 1);

    sim_at(sim, sim_between(&story->random, 0, 30) * SIM_MS, upset, story);
    switch (sim_between(&story->random, 0, 5)) {
    case 0:
    case 1:
        (void)sim_server_vanish(&sim->servers[node], "k");
        if (story->config->settle == SIM_SETTLE_FORGETS)
            (void)sim_server_vanish(&sim->servers[node], "redlock:fence:{k}");
        break;
    case 2:
    case 3:
        lose_reply(story);
        break;
    case 4:
        if (sim_chance(&story->random, 20))
            (void)sim_server_vanish(&sim->servers[node], "redlock:fence:{k}");
        else if (story->config->rebase && sim_chance(&story->random, 10))
            rebase(story, node);
        break;
    default:
        if (sim_chance(&story->random, 30))
            sim_deliver(sim, SIM_ALL, SIM_ALL);
        else if (story->config->forget && sim_chance(&story->random, 5))
            forget(story, node);
        break;
    }
}

static bool has_recovered(struct sim *sim, uint32_t node)
{
    const char *text = sim_value(sim, node, REDLOCK__FLOOR_KEY);
    struct redlock__base base;
    char run_id[41];

    sim_server_run_id(&sim->servers[node], run_id);
    return sim->servers[node].run > 1 && text != NULL && redlock__base_parse(text, &base) &&
           strcmp(base.run_id, run_id) == 0;
}

/* ---- one run ------------------------------------------------------------ */

struct fencing_result fencing_run(uint64_t seed, const struct fencing_config *config)
{
    static struct fencing story;
    struct sim_config simulation;

    story = (struct fencing){.config = config, .random = {.state = seed ^ UINT64_C(0xfe9ce)}};
    simulation = sim_defaults(sim_chance(&story.random, 60) ? 3 : 5, CLIENTS, seed);
    simulation.max_ttl_ms = MAX_TTL_MS;
    simulation.restart_guard_ms = REDLOCK_GUARD_AUTO;
    simulation.node_timeout_ms = 20;
    simulation.lateness_ns = 0;
    simulation.latency_max_ns = 2 * SIM_MS;
    story.sim = sim_new(&simulation);
    /* Keys vanish: two may believe to hold it. Tokens are all that is looked at. */
    story.sim->checks = SIM_CHECK_SPIN;
    story.sim->on_event = on_event;
    current = &story;
    for (uint32_t i = 0; i < simulation.n; i++) {
        story.sim->servers[i].settle = config->settle;
        story.sim->servers[i].count_up = config->count_up;
        fencing_mark(story.sim, i, 0);
    }
    for (uint32_t c = 0; c < CLIENTS; c++)
        sim_at(story.sim, (20 + c) * SIM_MS, work, (void *)(uintptr_t)c);
    sim_at(story.sim, 30 * SIM_MS, upset, &story);
    sim_run(story.sim, (config->forget ? 6 : 1) * SPAN_MS * SIM_MS);
    if (story.result.violation[0] == '\0' && sim_violation(story.sim) != NULL)
        (void)snprintf(story.result.violation, sizeof(story.result.violation), "%s",
                       sim_violation(story.sim));
    for (uint32_t i = 0; i < simulation.n; i++) {
        story.result.recovered += has_recovered(story.sim, i);
        story.result.transactions += story.sim->servers[i].transactions;
    }
    sim_free(story.sim);
    return story.result;
}
