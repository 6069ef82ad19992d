/*
 * See amnesia.h. Of three or five primaries one restarts now and then, mostly after it has been
 * down for a while: a lease taken meanwhile has no votes to spare, so that one that forgets is
 * enough for a second holder where nothing guards against it.
 */
#include "amnesia.h"

#include <stdio.h>
#include <string.h>

#include "marker.h"

enum {
    LONG_LIVED = 2,
    CLIENTS = 4,
    SPAN_MS = 5000,
    HOLD_MS = 600 /* on average, in a fleet of short leases */
};

struct amnesia {
    struct sim *sim;
    const struct amnesia_config *config;
    struct sim_random random;
    struct sim_lock *locks[CLIENTS];
    int64_t longest_pause_ms;
    struct amnesia_result result;
};

/* One simulation at a time. */
static struct amnesia *current;

void amnesia_mark(struct sim *sim, uint32_t node, bool durable)
{
    struct redlock__marker marker = {.fleet = 7,
                                     .member = node + 1,
                                     .n = sim->config.n,
                                     .quorum = sim->config.n / 2 + 1,
                                     .max_ttl_ms = sim->config.max_ttl_ms,
                                     .durable = durable,
                                     .second_offset = sim->servers[node].second_offset};
    char text[REDLOCK__MARKER_LEN];

    sim_server_run_id(&sim->servers[node], marker.run_id);
    redlock__marker_format(&marker, text);
    (void)sim_server_plant(&sim->servers[node], REDLOCK__MARKER_KEY, text, 0, sim->now_ns);
}

/* ---- who wants the lock ------------------------------------------------- */

static void take(struct amnesia *story, uint32_t client)
{
    struct redlock__lease_config config = sim_lock_config(
        sim_between(&story->random, client % 2 == 0 ? 300 : 40, story->config->max_ttl_ms));

    config.wait_ms = client < LONG_LIVED ? 200 : 0;
    config.renew = sim_chance(&story->random, 20);
    story->locks[client] = sim_acquire(story->sim, client, "k", &config, NULL);
}

static void finish(struct amnesia *story, uint32_t client)
{
    struct sim_lock *lock = story->locks[client];

    story->result.acquired += lock->acquired;
    story->result.lost += lock->lost > 0;
    story->locks[client] = NULL;
    if (lock->acquired && sim_chance(&story->random, 60))
        sim_forget(story->sim, lock, true); /* its keys live on, nobody holds them */
    else
        sim_forget(story->sim, lock, false);
}

/* Now and then: long leases are held for longer. */
static bool is_done(struct amnesia *story, int64_t pause_ms)
{
    return sim_between(&story->random, 0, HOLD_MS + story->config->max_ttl_ms) < pause_ms;
}

static void work(struct sim *sim, void *context)
{
    struct amnesia *story = current;
    uint32_t client = (uint32_t)(uintptr_t)context;
    struct sim_lock *lock = story->locks[client];
    int64_t pause_ms = sim_between(&story->random, 5, client < LONG_LIVED ? 60 : 100);

    if (lock == NULL && client >= LONG_LIVED)
        sim_start_client(sim, client);
    if (lock == NULL)
        take(story, client);
    else if (!lock->running && (!sim_held(sim, lock) || is_done(story, pause_ms)))
        finish(story, client);
    sim_at(sim, pause_ms * SIM_MS, work, context);
}

/* ---- who forgets -------------------------------------------------------- */

static void come_back(struct sim *sim, void *context)
{
    struct amnesia *story = current;
    uint32_t i = (uint32_t)(uintptr_t)context;
    struct sim_server *server = &sim->servers[i];
    enum amnesia_kind kind = story->config->kind;

    if (!server->down)
        return;
    if (kind == AMNESIA_CORRECTED) /* it boots with a clock that is wrong, and set soon after */
        sim_server_step(server, -300 * SIM_S);
    sim_start_server(sim, i, kind == AMNESIA_DURABLE || kind == AMNESIA_PROMOTED);
    if (kind == AMNESIA_CORRECTED)
        sim_server_step(server, 300 * SIM_S);
    if (kind == AMNESIA_PROMOTED) {
        (void)sim_server_vanish(server, "k");
        server->replicas = 0;
        server->second_offset = sim_chance(&story->random, 50) ? 1000 : -1; /* as it restarts */
    }
    if (story->config->credulous)
        amnesia_mark(sim, i, false);
}

static bool is_held(const struct amnesia *story)
{
    for (uint32_t c = 0; c < CLIENTS; c++)
        if (story->locks[c] != NULL && sim_held(story->sim, story->locks[c]))
            return true;
    return false;
}

/* Where all markers are gone at once nothing is left but uptime: said in docs/safety.md. */
static bool is_last_marked(struct sim *sim, uint32_t node)
{
    uint32_t others = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        others +=
            i != node && !sim->servers[i].down && sim_value(sim, i, REDLOCK__MARKER_KEY) != NULL;
    return others == 0;
}

static void forget(struct sim *sim, void *context)
{
    struct amnesia *story = context;
    uint32_t i = (uint32_t)sim_between(&story->random, 0, sim->config.n - 1);

    sim_at(sim, sim_between(&story->random, 10, story->longest_pause_ms) * SIM_MS, forget, story);
    if (sim->servers[i].down || (story->config->kind == AMNESIA_CORRECTED &&
                                 story->config->marked && is_last_marked(sim, i)))
        return;
    story->result.forgot += is_held(story);
    if (story->config->kind == AMNESIA_FLUSHED) {
        sim_server_flush(&sim->servers[i]);
        return;
    }
    sim_stop_server(sim, i);
    sim_at(sim, sim_between(&story->random, 0, 200) * SIM_MS, come_back, (void *)(uintptr_t)i);
}

/* ---- one run ------------------------------------------------------------ */

struct amnesia_result amnesia_run(uint64_t seed, const struct amnesia_config *config)
{
    struct amnesia story = {.config = config, .random = {.state = seed ^ UINT64_C(0x5eed)}};
    struct sim_config simulation =
        sim_defaults(sim_chance(&story.random, 60) ? 3 : 5, CLIENTS, seed);

    simulation.max_ttl_ms = config->max_ttl_ms;
    simulation.restart_guard_ms = config->guard_ms;
    simulation.lateness_ns = 0;
    story.sim = sim_new(&simulation);
    /* A primary that forgot does not have the holder's key: only a second holder is wrong. */
    story.sim->checks = SIM_CHECK_ALL & ~(uint32_t)(SIM_CHECK_VALIDITY | SIM_CHECK_ORPHANS);
    story.longest_pause_ms = sim_between(&story.random, 300, 3000);
    current = &story;
    for (uint32_t i = 0; i < simulation.n; i++) {
        story.sim->servers[i].durable =
            config->kind == AMNESIA_DURABLE || config->kind == AMNESIA_PROMOTED;
        story.sim->servers[i].replicas = config->kind == AMNESIA_PROMOTED;
        /* As long before as uptime needs to be believed. */
        story.sim->servers[i].started_wall_s -= 1000;
        if (config->marked)
            amnesia_mark(story.sim, i, story.sim->servers[i].durable);
    }
    for (uint32_t c = 0; c < CLIENTS; c++)
        sim_at(story.sim, (20 + c) * SIM_MS, work, (void *)(uintptr_t)c);
    sim_at(story.sim, 100 * SIM_MS, forget, &story);
    sim_run(story.sim, (SPAN_MS + config->max_ttl_ms) * SIM_MS);
    if (sim_violation(story.sim) != NULL)
        (void)snprintf(story.result.violation, sizeof(story.result.violation), "%s",
                       sim_violation(story.sim));
    sim_free(story.sim);
    return story.result;
}
