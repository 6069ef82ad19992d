/*
 * Drives one engine as the library's driver does: does its nodes' tasks, moves their bytes,
 * hands over what arrived and what is due, pulls events; all at the client's own time. A
 * frozen client does nothing at all: what arrives waits in its sockets, and after the thaw
 * the first thing looked at is, at random, a socket or the clock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "validity.h"

enum {
    MAX_TURNS = 1000,
    MAX_SPINS = 200
};

/* ---- clock -------------------------------------------------------------- */

int64_t sim_clock(const struct sim_client *client, int64_t now_ns)
{
    return client->clock_ns + sim_scale(now_ns, client->rate_ppm);
}

int64_t sim_instant(const struct sim_client *client, int64_t clock_ns)
{
    if (clock_ns == REDLOCK__NEVER)
        return INT64_MAX;
    int64_t guess =
        (int64_t)((double)(clock_ns - client->clock_ns) / (1.0 + (double)client->rate_ppm / 1e6));
    while (sim_clock(client, guess) >= clock_ns)
        guess -= 1 + (sim_clock(client, guess) - clock_ns) / 2;
    while (sim_clock(client, guess) < clock_ns)
        guess += 1 + (clock_ns - sim_clock(client, guess)) / 2;
    return guess;
}

static int64_t clock_of(const struct sim *sim, uint32_t client)
{
    return sim_clock(&sim->clients[client], sim->now_ns);
}

/* ---- events of locks ---------------------------------------------------- */

static struct sim_lock *lock_of(struct sim *sim, const struct redlock__lease *lease)
{
    struct sim_lock *lock = sim->locks;
    while (lock != NULL && lock->lease != lease)
        lock = lock->next;
    return lock;
}

static void note_event(struct sim *sim, struct sim_lock *lock, redlock_event event)
{
    int64_t now_ns = clock_of(sim, lock->client);
    switch (event) {
    case REDLOCK_EVENT_DONE:
        lock->dones++;
        if (!lock->awaits_done && !lock->interrupted)
            sim_violate(sim, SIM_CHECK_EVENTS, "DONE without an operation");
        /* The operation a release interrupted is done, too: one event for it or for both. */
        lock->awaits_done = lock->interrupted && lock->lease->op != REDLOCK__OP_NONE;
        lock->interrupted = false;
        break;
    case REDLOCK_EVENT_RENEWED:
        lock->renewed++;
        break;
    case REDLOCK_EVENT_RENEWAL_FAILING:
        lock->failing++;
        lock->failing_ns = now_ns;
        break;
    case REDLOCK_EVENT_LOST:
        lock->lost_ns = now_ns;
        if (++lock->lost > 1)
            sim_violate(sim, SIM_CHECK_LOST, "LOST was told twice");
        if (lock->released_in_time)
            sim_violate(sim, SIM_CHECK_LOST, "LOST was told after the release began");
        break;
    case REDLOCK_EVENT_NONE:
        break;
    }
}

static bool pull_event(struct sim *sim, uint32_t client)
{
    struct redlock__lease *lease = NULL;
    redlock_event event = redlock__engine_pull_event(sim->clients[client].engine, &lease);
    if (event == REDLOCK_EVENT_NONE)
        return false;
    struct sim_lock *lock = lock_of(sim, lease);
    sim_note(sim, 100 + (uint64_t)event, client, 0);
    if (lock == NULL) {
        sim_violate(sim, SIM_CHECK_EVENTS, "an event of a forgotten lock");
        return true;
    }
    if (sim->trace)
        sim_tell(sim, "client %u %s: event %d", client, lock->key, (int)event);
    note_event(sim, lock, event);
    if (sim->on_event != NULL)
        sim->on_event(sim, lock, event);
    return true;
}

/* ---- driving ------------------------------------------------------------ */

static bool do_task(struct sim *sim, uint32_t client, uint32_t i)
{
    struct redlock__node *node = redlock__engine_node(sim->clients[client].engine, i);
    enum redlock__node_task task =
        node == NULL ? REDLOCK__TASK_NONE : redlock__node_take_task(node, clock_of(sim, client));
    struct sim_conn *conn = sim_conn_of(sim, client, i);
    if (task == REDLOCK__TASK_NONE)
        return false;
    if (task == REDLOCK__TASK_CONNECT && conn != NULL)
        sim_violate(sim, SIM_CHECK_WIRE, "a second connection to one primary");
    else if (task == REDLOCK__TASK_CONNECT)
        sim_net_connect(sim, client, i);
    else if (conn != NULL)
        sim_net_close(sim, conn, task == REDLOCK__TASK_ABORT);
    return true;
}

static bool send_output(struct sim *sim, uint32_t client, uint32_t i)
{
    struct redlock__node *node = redlock__engine_node(sim->clients[client].engine, i);
    struct sim_conn *conn = sim_conn_of(sim, client, i);
    size_t len = 0;
    const char *data = node == NULL ? "" : redlock__node_output(node, &len);
    if (len == 0 || conn == NULL || !conn->told || conn->end_at_client)
        return false;
    if (sim->links[client][conn->node].slice)
        len = (size_t)sim_between(&sim->clients[client].random, 1, (int64_t)len);
    sim_net_send(sim, conn, data, len);
    redlock__node_sent(node, len);
    return true;
}

static void pull_log(struct sim *sim, uint32_t client)
{
    char line[REDLOCK__LOG_LEN];
    int level = 0;
    while (redlock__engine_pull_log(sim->clients[client].engine, &level, line)) {
        sim->log_seen += sim->log_wanted != NULL && strstr(line, sim->log_wanted) != NULL;
        if (sim->trace)
            sim_tell(sim, "client %u log %d: %s", client, level, line);
    }
}

static void arm_wake(struct sim *sim, uint32_t client)
{
    struct sim_client *c = &sim->clients[client];
    int64_t at_ns = sim_instant(c, redlock__engine_next_deadline(c->engine));
    if (c->closing && c->close_by_ns < at_ns)
        at_ns = c->close_by_ns;
    if (at_ns <= sim->now_ns) {
        if (c->spin_ns != sim->now_ns)
            c->spins = 0;
        c->spin_ns = sim->now_ns;
        if (++c->spins > MAX_SPINS)
            sim_violate(sim, SIM_CHECK_SPIN, "client %u: a deadline stays due", client);
        at_ns = sim->now_ns + (c->spins > MAX_SPINS ? SIM_MS : 0);
    } else if (at_ns != INT64_MAX) {
        at_ns += sim_between(&c->random, 0, c->lateness_ns);
    }
    if (c->wake != 0 && c->wake_ns <= at_ns)
        return;
    c->wake_ns = at_ns;
    c->wake = ++sim->next_id;
    if (at_ns != INT64_MAX)
        sim_heap_push(&sim->heap,
                      (struct sim_event){
                          .at_ns = at_ns, .kind = SIM_EV_WAKE, .id = c->wake, .client = client});
}

static void end_client(struct sim *sim, uint32_t client, bool in_order)
{
    struct sim_client *c = &sim->clients[client];
    redlock__engine_free(c->engine);
    c->engine = NULL;
    c->closing = false;
    for (uint32_t i = 0; i < REDLOCK__MAX_LINKS; i++) {
        struct sim_conn *conn = sim_conn_of(sim, client, i);
        if (conn != NULL)
            sim_net_close(sim, conn, !in_order);
    }
    struct sim_lock **at = &sim->locks;
    while (*at != NULL) {
        struct sim_lock *lock = *at;
        if (lock->client != client) {
            at = &lock->next;
            continue;
        }
        *at = lock->next;
        free(lock);
    }
}

static void close_if_flushed(struct sim *sim, uint32_t client)
{
    struct sim_client *c = &sim->clients[client];
    if (c->closing && !c->driving &&
        (sim->now_ns >= c->close_by_ns || !redlock__engine_flushing(c->engine)))
        end_client(sim, client, true);
}

void sim_drive(struct sim *sim, uint32_t client)
{
    struct sim_client *c = &sim->clients[client];
    bool more = true;
    if (c->engine == NULL || c->frozen || c->driving)
        return;
    c->driving = true;
    for (uint32_t turns = 0; more; turns++) {
        more = false;
        for (uint32_t i = 0; i < redlock__engine_links(c->engine); i++)
            more = do_task(sim, client, i) || send_output(sim, client, i) || more;
        more = pull_event(sim, client) || more;
        if (turns == MAX_TURNS) {
            sim_violate(sim, SIM_CHECK_SPIN, "client %u goes round in circles", client);
            break;
        }
    }
    pull_log(sim, client);
    c->driving = false;
    sim_locks_settle(sim, client);
    arm_wake(sim, client);
    close_if_flushed(sim, client);
}

/* ---- what arrives ------------------------------------------------------- */

static void hear_connected(struct sim *sim, struct sim_conn *conn)
{
    struct sim_client *c = &sim->clients[conn->client];
    if (conn->told || c->engine == NULL)
        return;
    if (conn->connected) {
        conn->told = true;
        redlock__engine_connected(c->engine, conn->link, clock_of(sim, conn->client));
    } else if (conn->end_at_client) {
        redlock__engine_node_failed(c->engine, conn->link, "connection refused",
                                    clock_of(sim, conn->client));
    }
}

static void hear_bytes(struct sim *sim, struct sim_conn *conn)
{
    struct sim_client *c = &sim->clients[conn->client];
    int64_t now_ns = clock_of(sim, conn->client);
    size_t at = 0, len = conn->at_client.len;
    if (c->engine == NULL)
        return;
    while (at < len) {
        size_t part = len - at;
        if (sim->links[conn->client][conn->node].slice)
            part = (size_t)sim_between(&c->random, 1, (int64_t)part);
        redlock__engine_receive(c->engine, conn->link, conn->at_client.data + at, part, now_ns);
        at += part;
    }
    conn->at_client.len = 0;
    if (conn->end_at_client && conn->told)
        redlock__engine_node_failed(c->engine, conn->link, "connection closed", now_ns);
}

void sim_client_connected(struct sim *sim, struct sim_conn *conn)
{
    uint32_t client = conn->client;
    hear_connected(sim, conn);
    sim_drive(sim, client);
}

void sim_client_readable(struct sim *sim, struct sim_conn *conn)
{
    uint32_t client = conn->client;
    hear_connected(sim, conn);
    hear_bytes(sim, conn);
    if (sim->clients[client].engine != NULL)
        redlock__engine_handle_deadline(sim->clients[client].engine, clock_of(sim, client));
    sim_drive(sim, client);
}

void sim_client_wake(struct sim *sim, uint32_t client, uint64_t id)
{
    struct sim_client *c = &sim->clients[client];
    if (c->engine == NULL || c->frozen || c->wake != id)
        return;
    c->wake = 0;
    redlock__engine_handle_deadline(c->engine, clock_of(sim, client));
    sim_drive(sim, client);
}

/* ---- a client's life ---------------------------------------------------- */

void sim_freeze_client(struct sim *sim, uint32_t client)
{
    sim->clients[client].frozen = true;
}

void sim_thaw_client(struct sim *sim, uint32_t client)
{
    struct sim_client *c = &sim->clients[client];
    if (!c->frozen || c->engine == NULL)
        return;
    c->frozen = false;
    c->wake = 0;
    sim_locks_thawed(sim, client);
    if (sim_chance(&c->random, 50))
        redlock__engine_handle_deadline(c->engine, clock_of(sim, client));
    for (uint32_t i = 0; i < REDLOCK__MAX_LINKS; i++) {
        struct sim_conn *conn = sim_conn_of(sim, client, i);
        if (conn == NULL)
            continue;
        hear_connected(sim, conn);
        hear_bytes(sim, conn);
    }
    redlock__engine_handle_deadline(c->engine, clock_of(sim, client));
    sim_drive(sim, client);
}

void sim_kill_client(struct sim *sim, uint32_t client)
{
    sim->clients[client].frozen = false;
    end_client(sim, client, false);
}

void sim_close_client(struct sim *sim, uint32_t client)
{
    struct sim_client *c = &sim->clients[client];
    int64_t timeout_ms = sim->config.node_timeout_ms > 0 ? sim->config.node_timeout_ms : 500;
    c->closing = true;
    c->close_by_ns = sim_instant(c, clock_of(sim, client) + timeout_ms * SIM_MS);
    c->wake = 0;
    sim_drive(sim, client);
}

void sim_clients_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->config.clients; i++)
        if (sim->clients[i].engine != NULL)
            end_client(sim, i, true);
}
