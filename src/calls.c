/*
 * The engine's life, and the calls of the facade: acquire, adopt, extend, release, detach,
 * inspect. Each takes the time, handles what is due, changes one lease, and lets
 * the engine run. See engine.h.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "validity.h"

static const char reserved[] = "redlock:";

/* ---- life --------------------------------------------------------------- */

struct redlock__engine *redlock__engine_new(const struct redlock__engine_config *config,
                                            int64_t now_ns)
{
    struct redlock__engine *engine = calloc(1, sizeof *engine);

    if (engine == NULL)
        return NULL;
    engine->nodes = engine->seen.nodes;
    engine->stirred |= REDLOCK__STIRRED;
    engine->yes[0].tag.what = UINT64_MAX;
    engine->drift_ppm = config->drift_ppm;
    engine->node_timeout_ms = config->node_timeout_ms;
    engine->replicas.wanted = config->replicas;
    engine->replicas.timeout_ms = config->replica_timeout_ms;
    engine->entropy = config->entropy;
    engine->entropy_context = config->entropy_context;
    engine->entropy(engine->entropy_context, &engine->random, sizeof engine->random);
    engine->max_locks = config->max_locks != 0 ? config->max_locks : REDLOCK_MAX_LOCKS;
    engine->created_ns = now_ns;
    engine->grace_ns = engine->earliest_ns = REDLOCK__NEVER;
    for (engine->n = 0; engine->n < config->n; engine->n++) {
        struct redlock__node_config node = config->nodes[engine->n];

        node.all = &engine->seen.all;
        node.bit = UINT32_C(1) << engine->n;
        engine->nodes[engine->n] = redlock__node_new(&node);
        engine->seen.links = engine->n + 1;
        if (engine->nodes[engine->n] == NULL) {
            redlock__engine_free(engine);
            return NULL;
        }
        engine->every |= node.bit;
        engine->connect_timeout_ns =
            redlock__max(engine->connect_timeout_ns, node.connect_timeout_ns);
    }
    if (!redlock__watch_new(engine, config) || !redlock__side_new(engine, config->nodes)) {
        redlock__engine_free(engine);
        return NULL;
    }
    return engine;
}

/* Leases, grants and names go with their pools. */
void redlock__engine_free(struct redlock__engine *engine)
{
    struct redlock__lease *lease;

    if (engine == NULL)
        return;
    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++)
        redlock__lease_clear(lease);
    while (engine->inspections != NULL) {
        struct redlock__inspection *inspection = engine->inspections;
        engine->inspections = inspection->next;
        free(inspection);
    }
    for (uint32_t i = 0; i < engine->n; i++)
        redlock__node_free(engine->nodes[i]);
    redlock__side_free(engine);
    redlock__names_free(&engine->names);
    redlock__bytes_free(&engine->bytes[0]);
    redlock__bytes_free(&engine->bytes[1]);
    redlock__pool_drain(&engine->spare_grants);
    redlock__pool_drain(&engine->spare_leases);
    redlock__pool_drain(&engine->spare_fenced);
    redlock__pool_drain(&engine->spare_terms);
    redlock__timers_destroy(&engine->lease_timers);
    redlock__timers_destroy(&engine->grant_timers);
    redlock__timers_destroy(&engine->paced);
    redlock__watch_free(engine);
    free(engine->init);
    free(engine);
}

/* ---- checks ------------------------------------------------------------- */

static int check_key(const void *key, size_t len)
{
    size_t prefix = sizeof reserved - 1;

    if (len == 0 || len > REDLOCK_MAX_KEY_LEN)
        return REDLOCK_ERR_KEY;
    if (len >= prefix && memcmp(key, reserved, prefix) == 0)
        return REDLOCK_ERR_KEY;
    return REDLOCK_OK;
}

static int check_ttl(const struct redlock__engine *engine, int64_t ttl_ms, int64_t min_validity_ms)
{
    /* Where the marked maximum is asked for, the rest is checked when it is known. */
    if (ttl_ms < 1 || (engine->fleet.asked_max_ttl_ms != 0 && ttl_ms > engine->fleet.max_ttl_ms))
        return REDLOCK_ERR_TTL;
    if (redlock__usable_ms(ttl_ms, engine->drift_ppm) <= min_validity_ms)
        return REDLOCK_ERR_TTL;
    return REDLOCK_OK;
}

/* ---- leases ------------------------------------------------------------- */

static struct redlock__pool *spare(struct redlock__engine *engine, bool fence)
{
    return fence ? &engine->spare_fenced : &engine->spare_leases;
}

/* Somebody wants a quorum: don't sit out the pauses of reconnecting. */
static void hurry(struct redlock__engine *engine, int64_t now_ns)
{
    if (redlock__count(redlock__engine_ready(engine)) >= engine->fleet.quorum)
        return;
    redlock__engine_hurry(engine, now_ns);
}

static void let_go(struct redlock__engine *engine, struct redlock__lease_terms *terms)
{
    if (terms != NULL && --terms->users == 0)
        redlock__pool_give(&engine->spare_terms, terms);
}

/* The newest ones, if they are the same; NULL: out of memory. */
static struct redlock__lease_terms *terms_of(struct redlock__engine *engine,
                                             const struct redlock__lease_config *config)
{
    struct redlock__lease_terms *terms = engine->terms;

    if (terms == NULL || terms->min_validity_ms != config->min_validity_ms ||
        terms->max_hold_ms != config->max_hold_ms ||
        terms->retry_base_ms != config->retry_base_ms ||
        terms->retry_cap_ms != config->retry_cap_ms) {
        terms = redlock__pool_take(&engine->spare_terms, sizeof *terms);
        if (terms == NULL)
            return NULL;
        *terms = (struct redlock__lease_terms){.min_validity_ms = config->min_validity_ms,
                                               .max_hold_ms = config->max_hold_ms,
                                               .retry_base_ms = config->retry_base_ms,
                                               .retry_cap_ms = config->retry_cap_ms,
                                               .node_ppm = engine->node_ppm,
                                               .users = 1};
        let_go(engine, engine->terms);
        engine->terms = terms;
    }
    terms->users++;
    return terms;
}

static int lease_new(struct redlock__engine *engine, const void *key, size_t key_len,
                     const struct redlock__lease_config *config, int64_t now_ns,
                     struct redlock__lease **created)
{
    struct redlock__lease_terms *terms;
    struct redlock__lease *lease;
    int rc = check_key(key, key_len);

    if (rc == REDLOCK_OK)
        rc = check_ttl(engine, config->ttl_ms, config->min_validity_ms);
    if (rc != REDLOCK_OK)
        return rc;
    if (engine->lease_count >= engine->max_locks)
        return REDLOCK_ERR_LIMIT;
    if (!redlock__timers_reserve(&engine->lease_timers, engine->lease_count + 1))
        return REDLOCK_ERR_MEMORY;
    lease = redlock__pool_take(spare(engine, config->fence),
                               redlock__lease_size(engine->n, config->fence));
    if (lease == NULL)
        return REDLOCK_ERR_MEMORY;
    terms = terms_of(engine, config);
    lease->name = terms != NULL ? redlock__name_ref(&engine->names, key, key_len) : NULL;
    if (lease->name == NULL) {
        let_go(engine, terms);
        redlock__pool_give(spare(engine, config->fence), lease);
        return REDLOCK_ERR_MEMORY;
    }
    redlock__lease_init(lease, engine->n, config, terms);
    lease->quorum = (uint8_t)engine->fleet.quorum;
    lease->gate_ns = redlock__add(now_ns, engine->connect_timeout_ns);
    engine->lease_count++;
    *created = lease;
    return REDLOCK_OK;
}

/* A wait shorter than the connect timeout still ends with an attempt, and so with a reason
 * per primary: the last moment to begin it. */
static int64_t last_start(const struct redlock__engine *engine, const struct redlock__lease *lease,
                          int64_t now_ns)
{
    int64_t round_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns) - now_ns;

    if (lease->wait_until_ns == REDLOCK__NEVER)
        return REDLOCK__NEVER;
    return lease->wait_until_ns - redlock__min(round_ns, (lease->wait_until_ns - now_ns) / 4);
}

int redlock__engine_acquire(struct redlock__engine *engine, const void *key, size_t key_len,
                            const struct redlock__lease_config *config, int64_t now_ns,
                            struct redlock__lease **created)
{
    struct redlock__lease *lease;
    int rc;

    redlock__engine_handle_deadline(engine, now_ns);
    rc = lease_new(engine, key, key_len, config, now_ns, &lease);
    if (rc != REDLOCK_OK)
        return rc;
    hurry(engine, now_ns);
    redlock__lease_start_acquire(lease, config->wait_ms, now_ns);
    redlock__wake_arrive(engine, lease, now_ns);
    lease->gate_ns = redlock__min(lease->gate_ns, last_start(engine, lease, now_ns));
    if (config->wait_ms == 0 && (lease->name->owner != NULL || lease->name->last != NULL))
        redlock__lease_stop(lease, REDLOCK_BUSY);
    redlock__engine_work_on(engine, lease);
    redlock__engine_run(engine, now_ns);
    *created = lease;
    return REDLOCK_OK;
}

int redlock__engine_adopt(struct redlock__engine *engine, const void *key, size_t key_len,
                          const char *value, uint32_t counted,
                          const struct redlock__lease_config *config, int64_t now_ns,
                          struct redlock__lease **created)
{
    struct redlock__lease *lease;
    int rc;

    redlock__engine_handle_deadline(engine, now_ns);
    rc = lease_new(engine, key, key_len, config, now_ns, &lease);
    if (rc != REDLOCK_OK)
        return rc;
    redlock__timers_set(&engine->lease_timers, &lease->timer, REDLOCK__NEVER);
    redlock__lease_start_adopted(lease, counted);
    lease->counted_state = lease->state;
    lease->grant = redlock__grant_new(engine, lease, value);
    if (lease->grant == NULL) {
        redlock__engine_forget(engine, lease, true, now_ns);
        return REDLOCK_ERR_MEMORY;
    }
    /* Nobody here knows where the other process wrote to: remove everywhere. */
    lease->grant->written = engine->every;
    redlock__grant_extended(lease->grant, engine->fleet.max_ttl_ms, now_ns);
    lease->grant->shared = true; /* for as long as anybody may have promised: native.c */
    *created = lease;
    return REDLOCK_OK;
}

int redlock__engine_extend(struct redlock__engine *engine, struct redlock__lease *lease,
                           int64_t ttl_ms, int64_t now_ns)
{
    int rc;

    redlock__engine_handle_deadline(engine, now_ns);
    if (lease->op != REDLOCK__OP_NONE || lease->state == REDLOCK__LEASE_ENDED ||
        lease->state == REDLOCK__LEASE_RELEASING)
        return REDLOCK_ERR_STATE;
    if (ttl_ms == 0)
        ttl_ms = lease->ttl_ms;
    rc = check_ttl(engine, ttl_ms, lease->terms->min_validity_ms);
    if (rc != REDLOCK_OK)
        return rc;
    hurry(engine, now_ns);
    lease->gate_ns = redlock__add(now_ns, engine->connect_timeout_ns);
    redlock__lease_start_extend(lease, ttl_ms);
    redlock__engine_work_on(engine, lease);
    redlock__engine_run(engine, now_ns);
    return REDLOCK_OK;
}

int redlock__engine_release(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns)
{
    redlock__engine_handle_deadline(engine, now_ns);
    if (lease->op != REDLOCK__OP_NONE)
        redlock__lease_stop(lease, REDLOCK_CANCELLED);
    if (lease->state == REDLOCK__LEASE_ENDED || lease->state == REDLOCK__LEASE_RELEASING)
        return REDLOCK_ERR_STATE;
    hurry(engine, now_ns);
    lease->gate_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns);
    if (lease->state == REDLOCK__LEASE_ADOPTED)
        lease->gate_ns = redlock__add(now_ns, engine->connect_timeout_ns);
    redlock__lease_start_release(lease);
    redlock__engine_work_on(engine, lease);
    redlock__engine_run(engine, now_ns);
    return REDLOCK_OK;
}

void redlock__engine_stop(struct redlock__engine *engine, struct redlock__lease *lease, int reason,
                          int64_t now_ns)
{
    redlock__engine_handle_deadline(engine, now_ns);
    redlock__lease_stop(lease, reason);
    redlock__engine_work_on(engine, lease);
    redlock__engine_run(engine, now_ns);
}

bool redlock__engine_detach(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns)
{
    redlock__engine_handle_deadline(engine, now_ns);
    redlock__lease_stop_renewing(lease);
    return !redlock__engine_handing_on(lease);
}

/* Out of the engine's timers, and out of the work and event lists, which are short. */
static void unlink_lease(struct redlock__engine *engine, struct redlock__lease *lease)
{
    struct redlock__lease **link, *last = NULL;

    for (link = &engine->work_head; lease->in_work && *link != lease; link = &(*link)->next_work)
        last = *link;
    if (lease->in_work) {
        *link = lease->next_work;
        if (engine->work_tail == lease)
            engine->work_tail = last;
    }
    last = NULL;
    for (link = &engine->events_head; lease->in_events && *link != lease;
         link = &(*link)->next_event)
        last = *link;
    if (lease->in_events) {
        *link = lease->next_event;
        if (engine->events_tail == lease)
            engine->events_tail = last;
    }
    redlock__timers_stop(&engine->lease_timers, &lease->timer);
    redlock__timers_stop(&engine->paced, &lease->pace);
    engine->renewing -= lease->counted_state == REDLOCK__LEASE_RENEWING;
    engine->lease_count--;
}

void redlock__engine_forget(struct redlock__engine *engine, struct redlock__lease *lease,
                            bool leave_keys, int64_t now_ns)
{
    struct redlock__grant *grant;

    redlock__engine_handle_deadline(engine, now_ns);
    if (!leave_keys && lease->op != REDLOCK__OP_NONE)
        redlock__engine_stop(engine, lease, REDLOCK_CANCELLED, now_ns);
    grant = lease->grant;
    if (grant != NULL) {
        grant->lease = NULL;
        if (!leave_keys && !grant->abandoned) {
            redlock__engine_abandon(engine, grant);
            redlock__serve_removals(engine, grant, now_ns);
        }
        redlock__grant_free_if_done(engine, grant);
    }
    lease->grant = NULL;
    redlock__queue_leave(lease);
    redlock__queue_yield(&engine->names, lease, now_ns);
    redlock__engine_work_on(engine, redlock__queue_head(lease->name));
    unlink_lease(engine, lease);
    if (redlock__wake_concerned(lease->name))
        redlock__wake_settle(engine, lease->name, now_ns);
    redlock__name_unref(&engine->names, lease->name);
    redlock__lease_clear(lease);
    let_go(engine, lease->terms);
    redlock__pool_give(spare(engine, lease->fenced), lease);
    redlock__pace_next(engine, now_ns);
    redlock__engine_run(engine, now_ns);
}

/* ---- events, logs, counters --------------------------------------------- */

redlock_event redlock__engine_pull_event(struct redlock__engine *engine,
                                         struct redlock__lease **which)
{
    static const redlock_event events[] = {REDLOCK_EVENT_RENEWAL_FAILING, REDLOCK_EVENT_RENEWED,
                                           REDLOCK_EVENT_LOST, REDLOCK_EVENT_DONE};
    struct redlock__lease *lease;

    while ((lease = engine->events_head) != NULL) {
        if (lease->events != 0) {
            uint32_t first = redlock__first(lease->events);

            lease->events &= (uint8_t)(lease->events - 1);
            *which = lease;
            return events[first];
        }
        engine->events_head = lease->next_event;
        lease->in_events = false;
    }
    return REDLOCK_EVENT_NONE;
}

bool redlock__engine_pull_log(struct redlock__engine *engine, int *level,
                              char line[REDLOCK__LOG_LEN])
{
    const struct redlock__log_line *first = &engine->log[engine->log_first];

    if (engine->log_count == 0)
        return false;
    *level = first->level;
    memcpy(line, first->text, sizeof first->text);
    engine->log_first = (engine->log_first + 1) % REDLOCK__LOG_LINES;
    engine->log_count--;
    return true;
}

void redlock__engine_stats(const struct redlock__engine *engine, redlock_stats *stats)
{
    const struct redlock__grant *grant;
    size_t size = stats->size;

    *stats = engine->stats;
    stats->size = size;
    stats->leases = engine->lease_count;
    for (uint32_t k = 0; (grant = redlock__engine_remains(engine, k)) != NULL; k++)
        stats->cleanups += grant->owed != 0;
    for (uint32_t i = 0; i < engine->n; i++) {
        stats->connects += redlock__node_connects(engine->nodes[i]);
        stats->disconnects += redlock__node_disconnects(engine->nodes[i]);
    }
}

uint32_t redlock__engine_n(const struct redlock__engine *engine)
{
    return engine->n;
}

uint32_t redlock__engine_quorum(const struct redlock__engine *engine)
{
    return engine->fleet.quorum;
}

/* ---- inspections -------------------------------------------------------- */

int redlock__engine_inspect(struct redlock__engine *engine, const void *key, size_t key_len,
                            int64_t now_ns, struct redlock__inspection **created)
{
    struct redlock__inspection *inspection;
    int rc = check_key(key, key_len);

    redlock__engine_handle_deadline(engine, now_ns);
    if (rc != REDLOCK_OK)
        return rc;
    inspection = calloc(1, sizeof *inspection + engine->n * sizeof inspection->nodes[0]);
    if (inspection == NULL)
        return REDLOCK_ERR_MEMORY;
    inspection->name = redlock__name_ref(&engine->names, key, key_len);
    if (inspection->name == NULL) {
        free(inspection);
        return REDLOCK_ERR_MEMORY;
    }
    hurry(engine, now_ns);
    inspection->n = engine->n;
    inspection->gate_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);
    inspection->next = engine->inspections;
    engine->inspections = inspection;
    redlock__engine_start_inspection(engine, inspection, now_ns);
    redlock__engine_run(engine, now_ns);
    *created = inspection;
    return REDLOCK_OK;
}

void redlock__engine_forget_inspection(struct redlock__engine *engine,
                                       struct redlock__inspection *inspection)
{
    inspection->forgotten = true;
    redlock__engine_free_inspection_if_done(engine, inspection);
}
