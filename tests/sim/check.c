/*
 * What must hold, held against the truth that only the simulator knows.
 *
 * Between two events a claim can only end and a key can only expire: so it is enough to
 * look after each event, and once more at the last instant before the next one, or at
 * the last instant of a claim if that comes first.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sim.h"
#include "validity.h"

enum {
    SLACK_MS = 2
};

void sim_violate(struct sim *sim, uint32_t check, const char *format, ...)
{
    va_list arguments;
    char text[160];
    if ((sim->checks & check) == 0)
        return;
    for (uint32_t i = 0; i < 8; i++)
        if (check == UINT32_C(1) << i)
            sim->violations[i]++;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (sim->trace)
        sim_tell(sim, "VIOLATION: %s", text);
    if (sim->first_violation[0] != '\0')
        return;
    snprintf(sim->first_violation, sizeof(sim->first_violation),
             "seed 0x%016llx, at %lld.%06lld ms: %s", (unsigned long long)sim->config.seed,
             (long long)(sim->now_ns / SIM_MS), (long long)(sim->now_ns % SIM_MS), text);
}

uint32_t sim_violations(const struct sim *sim, uint32_t checks)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 8; i++)
        if ((checks & (UINT32_C(1) << i)) != 0)
            sum += sim->violations[i];
    return sum;
}

const char *sim_violation(const struct sim *sim)
{
    return sim->first_violation[0] != '\0' ? sim->first_violation : NULL;
}

static uint32_t holders(struct sim *sim, const struct sim_lock *lock, int64_t at_ns)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->config.n; i++) {
        const struct sim_entry *e = sim_server_find(&sim->servers[i], sim->config.database,
                                                    lock->key, strlen(lock->key), at_ns);
        if (e != NULL && strcmp(e->value, sim_token(lock)) == 0)
            count++;
    }
    return count;
}

/* N - quorum of the rules, whatever quorum the clients were told. */
static uint32_t spare(const struct sim *sim)
{
    uint32_t quorum = redlock__majority(sim->config.n);
    return sim->config.n - (sim->config.quorum > quorum ? sim->config.quorum : quorum);
}

static void check_validity(struct sim *sim, const struct sim_lock *lock, int64_t at_ns)
{
    uint32_t count = holders(sim, lock, at_ns);
    if (count <= spare(sim))
        sim_violate(sim, SIM_CHECK_VALIDITY,
                    "client %u claims %s with its key on %u of %u primaries (seen at %lld us)",
                    lock->client, lock->key, count, sim->config.n, (long long)(at_ns / 1000));
}

/* The last instant at which the lock's owner, left alone, will believe that it holds it. */
static int64_t claim_end(const struct sim *sim, const struct sim_lock *lock)
{
    int64_t until_ns = redlock__held_until(lock->lease->deadline_ns, lock->min_validity_ms);
    return sim_instant(&sim->clients[lock->client], until_ns) - 1;
}

void sim_check_before(struct sim *sim, int64_t until_ns)
{
    if (until_ns <= sim->now_ns || (sim->checks & SIM_CHECK_VALIDITY) == 0)
        return;
    for (const struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next)
        if (sim_held(sim, lock))
            check_validity(sim, lock, redlock__min(until_ns - 1, claim_end(sim, lock)));
}

static void check_exclusive(struct sim *sim, const struct sim_lock *lock)
{
    for (const struct sim_lock *other = lock->next; other != NULL; other = other->next)
        if (strcmp(lock->key, other->key) == 0 && sim_held(sim, other))
            sim_violate(sim, SIM_CHECK_EXCLUSIVE, "clients %u and %u both hold %s", lock->client,
                        other->client, lock->key);
}

static void check_bounds(struct sim *sim, struct sim_lock *lock, int64_t now_ns)
{
    const struct sim_client *c = &sim->clients[lock->client];
    if (!lock->running || c->frozen || lock->due_ns == REDLOCK__NEVER)
        return;
    if (now_ns > lock->due_ns + 2 * c->lateness_ns + SLACK_MS * SIM_MS) {
        sim_violate(sim, SIM_CHECK_BOUNDS,
                    "client %u: an operation (%d) on %s runs beyond its deadline", lock->client,
                    (int)lock->lease->op, lock->key);
        lock->due_ns = REDLOCK__NEVER;
    }
}

static void check_lost(struct sim *sim, struct sim_lock *lock, int64_t now_ns)
{
    const struct sim_client *c = &sim->clients[lock->client];
    if (lock->over && sim_held(sim, lock))
        sim_violate(sim, SIM_CHECK_LOST, "client %u took %s back after its end", lock->client,
                    lock->key);
    lock->over = lock->over || (lock->acquired && !sim_held(sim, lock));
    if (!lock->acquired || lock->releasing || c->frozen)
        return;
    if (lock->lost > 0 && sim_held(sim, lock))
        sim_violate(sim, SIM_CHECK_LOST, "client %u holds %s after LOST", lock->client, lock->key);
    if (lock->lost == 0 && now_ns > lock->deadline_ns + 2 * c->lateness_ns)
        sim_violate(sim, SIM_CHECK_LOST, "client %u was not told that %s is lost", lock->client,
                    lock->key);
}

void sim_check_now(struct sim *sim)
{
    for (struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next) {
        int64_t now_ns = sim_clock(&sim->clients[lock->client], sim->now_ns);
        check_bounds(sim, lock, now_ns);
        check_lost(sim, lock, now_ns);
        if (!sim_held(sim, lock))
            continue;
        check_exclusive(sim, lock);
        if ((sim->checks & SIM_CHECK_VALIDITY) != 0)
            check_validity(sim, lock, sim->now_ns);
    }
}

static bool has_owner(struct sim *sim, const char *value)
{
    for (const struct sim_lock *lock = sim->locks; lock != NULL; lock = lock->next)
        if (strcmp(sim_token(lock), value) == 0)
            return true;
    return false;
}

void sim_check_orphans(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->config.n; i++) {
        struct sim_server *server = &sim->servers[i];
        for (size_t k = 0; k < server->entry_count; k++) {
            const struct sim_entry *e = &server->entries[k];
            bool alive = sim_server_find(server, e->database, e->key, e->key_len, sim->now_ns) == e;
            bool own = e->key_len > 8 && memcmp(e->key, "redlock:", 8) == 0;
            if (alive && !own && !e->planted && !e->late && !e->refused &&
                !has_owner(sim, e->value))
                sim_violate(sim, SIM_CHECK_ORPHANS, "%s of %.8s is left on primary %u", e->key,
                            e->value, i);
        }
    }
}
