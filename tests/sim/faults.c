/*
 * What can go wrong with primaries and links, in the words tests and swarms use. All of it
 * takes effect at once on what is on its way; nothing here decides when.
 */
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "sim.h"

/* ---- faults of primaries ------------------------------------------------ */

void sim_freeze_server(struct sim *sim, uint32_t node)
{
    sim->servers[node].frozen = true;
}

void sim_thaw_server(struct sim *sim, uint32_t node)
{
    sim->servers[node].frozen = false;
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->node == node)
            sim_net_serve(sim, conn);
    sim_net_reap(sim);
}

void sim_stop_server(struct sim *sim, uint32_t node)
{
    sim->servers[node].down = true;
    sim->servers[node].frozen = false;
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->node == node)
            sim_net_end_server_side(sim, conn);
    sim_net_reap(sim);
}

void sim_start_server(struct sim *sim, uint32_t node, bool keep_data)
{
    sim->servers[node].down = false;
    if (!keep_data)
        sim_server_flush(&sim->servers[node]);
    sim_server_start(&sim->servers[node], sim->now_ns);
}

void sim_restart_server(struct sim *sim, uint32_t node, bool keep_data)
{
    sim_stop_server(sim, node);
    sim_start_server(sim, node, keep_data);
}

void sim_error(struct sim *sim, uint32_t node, enum sim_command command, const char *text)
{
    for (int i = 0; i < (int)SIM_COMMANDS; i++)
        if (command == SIM_ANY || (int)command == i)
            sim->servers[node].error[i] = text;
}

/* ---- faults of links ---------------------------------------------------- */

static bool on_link(const struct sim_conn *conn, int client, int node)
{
    return (client == SIM_ALL || (uint32_t)client == conn->client) &&
           (node == SIM_ALL || (uint32_t)node == conn->node);
}

typedef void link_fn(struct sim_link *link, int64_t a, int64_t b);

static void for_links(struct sim *sim, int client, int node, link_fn *fn, int64_t a, int64_t b)
{
    for (uint32_t c = 0; c < sim->config.clients; c++)
        for (uint32_t i = 0; i < sim->config.n; i++)
            if ((client == SIM_ALL || (uint32_t)client == c) &&
                (node == SIM_ALL || (uint32_t)node == i))
                fn(&sim->links[c][i], a, b);
}

static void link_hold(struct sim_link *link, int64_t up, int64_t down)
{
    link->hold_up = up != 0;
    link->hold_down = down != 0;
}

void sim_hold(struct sim *sim, int client, int node, int directions)
{
    int64_t up = directions & SIM_UP, down = directions & SIM_DOWN;
    for_links(sim, client, node, link_hold, up, down);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        if (!on_link(conn, client, node))
            continue;
        conn->up.held = conn->up.held || up != 0;
        conn->down.held = conn->down.held || down != 0;
    }
}

void sim_deliver(struct sim *sim, int client, int node)
{
    for_links(sim, client, node, link_hold, 0, 0);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        if (on_link(conn, client, node))
            sim_net_open(sim, conn);
    }
}

static void link_black_hole(struct sim_link *link, int64_t on, int64_t unused)
{
    (void)unused;
    link->black_hole = on != 0;
}

void sim_black_hole(struct sim *sim, int client, int node, bool on)
{
    for_links(sim, client, node, link_black_hole, on, 0);
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        if (on && on_link(conn, client, node))
            sim_net_swallow(conn);
    }
    sim_net_reap(sim);
}

void sim_cut(struct sim *sim, int client, int node, bool bytes_survive)
{
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next) {
        if (!on_link(conn, client, node) || !conn->connected)
            continue;
        conn->survives = bytes_survive;
        if (!bytes_survive)
            sim_net_lose_requests(conn);
        if (conn->client_open)
            sim_net_reset_soon(sim, conn);
    }
    sim_net_reap(sim);
}

static void link_refuse(struct sim_link *link, int64_t on, int64_t unused)
{
    (void)unused;
    link->refuse = on != 0;
}

void sim_refuse(struct sim *sim, int client, int node, bool on)
{
    for_links(sim, client, node, link_refuse, on, 0);
}

static void link_silent(struct sim_link *link, int64_t on, int64_t unused)
{
    (void)unused;
    link->accept_silent = on != 0;
}

void sim_accept_silent(struct sim *sim, int client, int node, bool on)
{
    for_links(sim, client, node, link_silent, on, 0);
}

static void link_latency(struct sim_link *link, int64_t min_ns, int64_t max_ns)
{
    link->min_ns = min_ns;
    link->max_ns = max_ns;
}

void sim_latency(struct sim *sim, int client, int node, int64_t min_ns, int64_t max_ns)
{
    for_links(sim, client, node, link_latency, min_ns, max_ns);
}

void sim_trigger(struct sim *sim, int client, int node, enum sim_command command, uint32_t k,
                 enum sim_action action)
{
    for (uint32_t c = 0; c < sim->config.clients; c++)
        for (uint32_t i = 0; i < sim->config.n; i++) {
            if ((client != SIM_ALL && (uint32_t)client != c) ||
                (node != SIM_ALL && (uint32_t)node != i))
                continue;
            struct sim_trigger *t = sim->links[c][i].triggers;
            while (t->armed)
                if (++t == sim->links[c][i].triggers + SIM_MAX_TRIGGERS)
                    abort();
            *t = (struct sim_trigger){
                .armed = true, .command = command, .skip = k - 1, .action = action};
        }
}

static void link_disarm(struct sim_link *link, int64_t a, int64_t b)
{
    (void)a;
    (void)b;
    memset(link->triggers, 0, sizeof(link->triggers));
}

void sim_disarm(struct sim *sim, int client, int node)
{
    for_links(sim, client, node, link_disarm, 0, 0);
}

void sim_heal(struct sim *sim)
{
    sim_disarm(sim, SIM_ALL, SIM_ALL);
    sim_black_hole(sim, SIM_ALL, SIM_ALL, false);
    sim_refuse(sim, SIM_ALL, SIM_ALL, false);
    sim_accept_silent(sim, SIM_ALL, SIM_ALL, false);
    sim_deliver(sim, SIM_ALL, SIM_ALL);
    for (uint32_t i = 0; i < sim->config.n; i++) {
        sim_error(sim, i, SIM_ANY, NULL);
        if (sim->servers[i].down)
            sim_start_server(sim, i, true);
        if (sim->servers[i].frozen)
            sim_thaw_server(sim, i);
    }
}
