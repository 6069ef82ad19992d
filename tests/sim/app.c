/*
 * The application: what a program does with the library's calls, one struct sim_lock for
 * each handle. What it was told (results, events) and what it may believe by its own
 * clock is kept here; the checkers hold that against the truth.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "validity.h"

static int64_t clock_of(const struct sim *sim, uint32_t client)
{
    return sim_clock(&sim->clients[client], sim->now_ns);
}

static int64_t node_timeout_ms(const struct sim *sim, int64_t ttl_ms)
{
    if (sim->config.node_timeout_ms > 0)
        return sim->config.node_timeout_ms;
    return redlock__min(redlock__max(ttl_ms / 20, 20), 500);
}

struct redlock__lease_config sim_lock_config(int64_t ttl_ms)
{
    return (struct redlock__lease_config){
        .ttl_ms = ttl_ms, .retry_base_ms = 10, .retry_cap_ms = 100};
}

/* A round that a frozen client had not begun is begun late, and has its time all the same;
 * only a wait is over when it is over. */
void sim_locks_thawed(struct sim *sim, uint32_t client)
{
    for (struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next) {
        int64_t round_ns = node_timeout_ms(sim, lock->longest_ttl_ms) * SIM_MS;
        if (lock->client == client && lock->running && !lock->waits)
            lock->due_ns = redlock__max(lock->due_ns, clock_of(sim, client) + 2 * round_ns);
    }
}

void sim_locks_settle(struct sim *sim, uint32_t client)
{
    for (struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next) {
        if (lock->client != client)
            continue;
        if (lock->running && lock->lease->op == REDLOCK__OP_NONE) {
            lock->running = false;
            lock->result = lock->lease->result;
            lock->acquired = lock->acquired || lock->result == REDLOCK_OK;
            sim_note(sim, 200, client, (uint64_t)lock->result);
            if (sim->trace)
                sim_tell(sim, "client %u %s: result %d (%p)", client, lock->key, lock->result,
                         (void *)lock);
            if (lock->awaits_done)
                sim_violate(sim, SIM_CHECK_EVENTS, "a result without DONE");
        }
        if (lock->lease->deadline_ns != 0)
            lock->deadline_ns = lock->lease->deadline_ns;
    }
}

static void started(struct sim *sim, struct sim_lock *lock, int64_t budget_ms)
{
    lock->running = true;
    lock->awaits_done = true;
    lock->result = REDLOCK_PENDING;
    if (sim->trace)
        sim_tell(sim, "client %u %s: begins op %d, budget %lld ms (%p)", lock->client, lock->key,
                 (int)lock->lease->op, (long long)budget_ms, (void *)lock);
    lock->due_ns = REDLOCK__NEVER;
    if (budget_ms >= 0)
        lock->due_ns = clock_of(sim, lock->client) + budget_ms * SIM_MS;
}

static struct sim_lock *lock_new(struct sim *sim, uint32_t client, const char *key,
                                 const struct redlock__lease_config *config,
                                 struct redlock__lease *lease)
{
    struct sim_lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL)
        abort();
    lock->client = client;
    strncpy(lock->key, key, sizeof(lock->key) - 1);
    lock->lease = lease;
    lock->min_validity_ms = config->min_validity_ms;
    lock->longest_ttl_ms = config->ttl_ms;
    lock->next = sim->locks;
    sim->locks = lock;
    return lock;
}

struct sim_lock *sim_acquire(struct sim *sim, uint32_t client, const char *key,
                             const struct redlock__lease_config *config, int *rc)
{
    struct redlock__lease *lease = NULL;
    int result = redlock__engine_acquire(sim->clients[client].engine, key, strlen(key), config,
                                         clock_of(sim, client), &lease);
    if (rc != NULL)
        *rc = result;
    if (result != REDLOCK_OK)
        return NULL;
    struct sim_lock *lock = lock_new(sim, client, key, config, lease);
    lock->waits = config->wait_ms != 0;
    started(sim, lock,
            config->wait_ms == REDLOCK_WAIT_FOREVER ? -1
            : config->wait_ms > 0
                ? config->wait_ms
                : sim->config.connect_timeout_ms + node_timeout_ms(sim, config->ttl_ms));
    sim_drive(sim, client);
    return lock;
}

struct sim_lock *sim_adopt(struct sim *sim, uint32_t client, const char *key, const char *value,
                           uint32_t counted, int64_t ttl_ms)
{
    struct redlock__lease_config config = sim_lock_config(ttl_ms);
    struct redlock__lease *lease = NULL;
    if (redlock__engine_adopt(sim->clients[client].engine, key, strlen(key), value, counted,
                              &config, clock_of(sim, client), &lease) != REDLOCK_OK)
        return NULL;
    sim_drive(sim, client);
    return lock_new(sim, client, key, &config, lease);
}

int sim_extend(struct sim *sim, struct sim_lock *lock, int64_t ttl_ms)
{
    struct redlock__engine *engine = sim->clients[lock->client].engine;
    int rc = redlock__engine_extend(engine, lock->lease, ttl_ms, clock_of(sim, lock->client));
    if (rc != REDLOCK_OK)
        return rc;
    lock->waits = false;
    lock->longest_ttl_ms = redlock__max(lock->longest_ttl_ms, ttl_ms);
    /* A renewal under way is waited for, then connections being set up. */
    started(sim, lock,
            sim->config.connect_timeout_ms + 2 * node_timeout_ms(sim, lock->longest_ttl_ms));
    sim_drive(sim, lock->client);
    return REDLOCK_OK;
}

int sim_release(struct sim *sim, struct sim_lock *lock)
{
    struct redlock__engine *engine = sim->clients[lock->client].engine;
    int64_t timeout_ms = node_timeout_ms(sim, lock->longest_ttl_ms);
    lock->released_in_time = sim_held(sim, lock);
    lock->releasing = true;
    lock->interrupted = lock->running;
    lock->waits = false;
    int rc = redlock__engine_release(engine, lock->lease, clock_of(sim, lock->client));
    if (rc != REDLOCK_OK)
        return rc;
    started(sim, lock, 2 * timeout_ms);
    sim_drive(sim, lock->client);
    return REDLOCK_OK;
}

void sim_cancel(struct sim *sim, struct sim_lock *lock)
{
    redlock__engine_stop(sim->clients[lock->client].engine, lock->lease, REDLOCK_CANCELLED,
                         clock_of(sim, lock->client));
    sim_drive(sim, lock->client);
}

void sim_forget(struct sim *sim, struct sim_lock *lock, bool leave_keys)
{
    uint32_t client = lock->client;
    struct sim_lock **at = &sim->locks;
    redlock__engine_forget(sim->clients[client].engine, lock->lease, leave_keys,
                           clock_of(sim, client));
    while (*at != lock)
        at = &(*at)->next;
    *at = lock->next;
    free(lock);
    sim_drive(sim, client);
}

static bool ended(struct sim *sim, void *context)
{
    const struct sim_lock *lock = context;
    (void)sim;
    return !lock->running;
}

int sim_wait(struct sim *sim, struct sim_lock *lock)
{
    if (!sim_run_until(sim, ended, lock, 3600 * SIM_S))
        sim_violate(sim, SIM_CHECK_BOUNDS, "an operation did not end within an hour");
    return lock->result;
}

bool sim_held(const struct sim *sim, const struct sim_lock *lock)
{
    return lock->acquired && !lock->releasing &&
           redlock__lease_held(lock->lease, clock_of(sim, lock->client));
}

const char *sim_token(const struct sim_lock *lock)
{
    static struct redlock__token_text text; /* until it is asked again */

    if (lock->lease->grant == NULL)
        return "";
    text = redlock__grant_token(lock->lease->grant);
    return text.hex;
}

struct sim_lock *sim_lock_now(struct sim *sim, uint32_t client, const char *key, int64_t ttl_ms)
{
    struct redlock__lease_config config = sim_lock_config(ttl_ms);
    struct sim_lock *lock = sim_acquire(sim, client, key, &config, NULL);
    if (lock != NULL)
        sim_wait(sim, lock);
    return lock;
}

int sim_try(struct sim *sim, uint32_t client, const char *key, int64_t ttl_ms)
{
    struct redlock__lease_config config = sim_lock_config(ttl_ms);
    int result = REDLOCK_PENDING;
    struct sim_lock *lock = sim_acquire(sim, client, key, &config, &result);
    if (lock == NULL)
        return result;
    result = sim_wait(sim, lock);
    if (result == REDLOCK_OK)
        (void)sim_release_now(sim, lock);
    else
        sim_forget(sim, lock, false);
    return result;
}

int sim_extend_now(struct sim *sim, struct sim_lock *lock, int64_t ttl_ms)
{
    int rc = sim_extend(sim, lock, ttl_ms);
    return rc == REDLOCK_OK ? sim_wait(sim, lock) : rc;
}

int sim_release_now(struct sim *sim, struct sim_lock *lock)
{
    int rc = sim_release(sim, lock);
    if (rc == REDLOCK_OK)
        rc = sim_wait(sim, lock);
    sim_forget(sim, lock, false);
    return rc;
}
