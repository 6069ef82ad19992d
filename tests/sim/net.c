/*
 * Connections as TCP gives them: bytes arrive in order and none is lost while the
 * connection lives. What goes wrong is that they are late, held, cut off by the end of the
 * connection, or fall into a black hole until it ends.
 *
 * Upwards the stream is cut into whole commands when it enters the network, which is
 * where triggers match; downwards each reply is a segment (two, if the link slices).
 * A connection has two ends. When the client closes its end, what it sent is still
 * delivered, late if held: that is how a SET reaches a primary after its connection died.
 * When the client aborts, what was on its way is lost unless a proxy has it already.
 */
#include <stdlib.h>
#include <string.h>

#include "net.h"
#include "sim.h"

struct sim_segment {
    struct sim_segment *next;
    int64_t due_ns;
    bool barrier; /* nothing from here on is delivered until sim_deliver() */
    bool end;     /* the peer closed or died */
    size_t len;
    char data[];
};

void sim_buffer_add(struct sim_buffer *buffer, const char *data, size_t len)
{
    if (len == 0)
        return;
    if (buffer->len + len > buffer->size) {
        buffer->size = (buffer->len + len) * 2;
        buffer->data = realloc(buffer->data, buffer->size);
        if (buffer->data == NULL)
            abort();
    }
    memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

void sim_buffer_drop(struct sim_buffer *buffer, size_t len)
{
    buffer->len -= len;
    memmove(buffer->data, buffer->data + len, buffer->len);
}

/* ---- pipes -------------------------------------------------------------- */

static struct sim_link *link_of(struct sim *sim, const struct sim_conn *conn)
{
    return &sim->links[conn->client][conn->node];
}

static int64_t latency(struct sim *sim, const struct sim_conn *conn)
{
    const struct sim_link *link = link_of(sim, conn);
    return sim_between(&sim->random, link->min_ns, link->max_ns);
}

static void drop_segments(struct sim_pipe *pipe)
{
    while (pipe->first != NULL) {
        struct sim_segment *next = pipe->first->next;
        free(pipe->first);
        pipe->first = next;
    }
    pipe->last = NULL;
}

static void schedule(struct sim *sim, const struct sim_conn *conn, enum sim_event_kind kind,
                     int64_t at_ns)
{
    sim_heap_push(&sim->heap, (struct sim_event){.at_ns = at_ns, .kind = kind, .id = conn->id});
}

static struct sim_segment *put(struct sim *sim, struct sim_conn *conn, struct sim_pipe *pipe,
                               const char *data, size_t len)
{
    if (pipe->swallowed)
        return NULL;
    struct sim_segment *segment = malloc(sizeof(*segment) + len);
    if (segment == NULL)
        abort();
    *segment = (struct sim_segment){.len = len, .due_ns = sim->now_ns + latency(sim, conn)};
    if (segment->due_ns < pipe->last_due_ns)
        segment->due_ns = pipe->last_due_ns;
    pipe->last_due_ns = segment->due_ns;
    if (len > 0)
        memcpy(segment->data, data, len);
    if (pipe->last != NULL)
        pipe->last->next = segment;
    else
        pipe->first = segment;
    pipe->last = segment;
    schedule(sim, conn, pipe == &conn->up ? SIM_EV_UP : SIM_EV_DOWN, segment->due_ns);
    return segment;
}

/* Takes what is due; the bytes go to `to`. True if the end was among it. */
static bool take_due(struct sim *sim, struct sim_pipe *pipe, struct sim_buffer *to)
{
    bool end = false;
    while (pipe->first != NULL && !pipe->held && pipe->first->due_ns <= sim->now_ns) {
        struct sim_segment *segment = pipe->first;
        if (segment->barrier) {
            pipe->held = true;
            break;
        }
        end = end || segment->end;
        sim_buffer_add(to, segment->data, segment->len);
        pipe->first = segment->next;
        if (pipe->first == NULL)
            pipe->last = NULL;
        free(segment);
    }
    return end;
}

/* ---- ends --------------------------------------------------------------- */

void sim_net_reap(struct sim *sim)
{
    struct sim_conn **at = &sim->conns;
    while (*at != NULL) {
        struct sim_conn *conn = *at;
        if (!conn->client_open && conn->server_open && conn->up.first == NULL &&
            (conn->at_server.len == 0 || !conn->connected || conn->blocked != 0))
            conn->server_open = false;
        if (conn->client_open || conn->server_open) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        drop_segments(&conn->up);
        drop_segments(&conn->down);
        free(conn->entering.data);
        free(conn->at_server.data);
        free(conn->at_client.data);
        free(conn->blocked_on.data);
        free(conn);
    }
}

struct sim_conn *sim_conn_of(struct sim *sim, uint32_t client, uint32_t link)
{
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->client == client && conn->link == link && conn->client_open)
            return conn;
    return NULL;
}

static struct sim_conn *conn_by_id(struct sim *sim, uint64_t id)
{
    struct sim_conn *conn = sim->conns;
    while (conn != NULL && conn->id != id)
        conn = conn->next;
    return conn;
}

void sim_net_connect(struct sim *sim, uint32_t client, uint32_t link_no)
{
    uint32_t node = redlock__engine_primary(sim->clients[client].engine, link_no);
    struct sim_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        abort();
    struct sim_link *link = &sim->links[client][node];
    conn->id = ++sim->next_id;
    conn->client = client;
    conn->node = node;
    conn->link = link_no;
    conn->client_open = true;
    conn->up.held = link->hold_up;
    conn->down.held = link->hold_down;
    conn->up.swallowed = conn->down.swallowed = link->black_hole || link->accept_silent;
    conn->next = sim->conns;
    sim->conns = conn;
    if (!link->black_hole)
        schedule(sim, conn, SIM_EV_CONNECT, sim->now_ns + latency(sim, conn) + latency(sim, conn));
}

static void connect_arrived(struct sim *sim, struct sim_conn *conn)
{
    struct sim_link *link = link_of(sim, conn);
    if (!conn->client_open || conn->connected || conn->server_open || conn->end_at_client)
        return;
    if (link->hold_up || link->hold_down) /* the handshake waits, too */
        return;
    if (sim->servers[conn->node].down || link->refuse) {
        conn->end_at_client = true;
    } else {
        conn->server_open = true;
        conn->connected = true;
    }
    if (!sim->clients[conn->client].frozen)
        sim_client_connected(sim, conn);
}

void sim_net_end_server_side(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->server_open)
        return;
    conn->server_open = false;
    drop_segments(&conn->up);
    conn->at_server.len = 0;
    if (!conn->client_open)
        return;
    struct sim_segment *segment = put(sim, conn, &conn->down, NULL, 0);
    if (segment != NULL)
        segment->end = true;
}

/* The client's end dies at once, as after a reset. */
static void reset_client_side(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->client_open || conn->end_at_client)
        return;
    drop_segments(&conn->down);
    conn->end_at_client = true;
    if (!sim->clients[conn->client].frozen)
        sim_client_readable(sim, conn);
}

void sim_net_close(struct sim *sim, struct sim_conn *conn, bool abort_it)
{
    conn->client_open = false;
    conn->peer.late = true;
    drop_segments(&conn->down);
    if (abort_it && !link_of(sim, conn)->proxy && !conn->survives)
        drop_segments(&conn->up);
    sim_net_reap(sim);
}

/* ---- triggers ----------------------------------------------------------- */

/* 0: no trigger; else action + 1 */
static int fires(struct sim_link *link, enum sim_command command, bool reply)
{
    for (size_t i = 0; i < SIM_MAX_TRIGGERS; i++) {
        struct sim_trigger *t = &link->triggers[i];
        bool at_reply = t->action == SIM_HOLD_REPLY || t->action == SIM_SWALLOW_REPLY ||
                        t->action == SIM_CUT_AT_REPLY;
        if (!t->armed || at_reply != reply || (t->command != SIM_ANY && t->command != command))
            continue;
        if (t->skip > 0) {
            t->skip--;
            continue;
        }
        t->armed = false;
        return (int)t->action + 1;
    }
    return 0;
}

static void cut_later(struct sim *sim, void *context)
{
    struct sim_conn *conn = conn_by_id(sim, (uint64_t)(uintptr_t)context);
    if (conn != NULL)
        reset_client_side(sim, conn);
    sim_net_reap(sim);
}

void sim_net_lose_requests(struct sim_conn *conn)
{
    conn->server_open = false;
    conn->at_server.len = 0;
    drop_segments(&conn->up);
}

static void cut_both_later(struct sim *sim, void *context)
{
    struct sim_conn *conn = conn_by_id(sim, (uint64_t)(uintptr_t)context);
    if (conn != NULL)
        sim_net_lose_requests(conn);
    cut_later(sim, context);
}

void sim_net_reset_soon(struct sim *sim, const struct sim_conn *conn)
{
    sim_at(sim, 0, cut_later, (void *)(uintptr_t)conn->id);
}

void sim_net_swallow(struct sim_conn *conn)
{
    conn->up.swallowed = conn->down.swallowed = true;
    drop_segments(&conn->up);
    drop_segments(&conn->down);
}

static void open_pipe(struct sim *sim, struct sim_conn *conn, struct sim_pipe *pipe,
                      enum sim_event_kind kind)
{
    pipe->held = false;
    for (struct sim_segment *segment = pipe->first; segment != NULL; segment = segment->next) {
        segment->barrier = false;
        schedule(sim, conn, kind, segment->due_ns > sim->now_ns ? segment->due_ns : sim->now_ns);
    }
}

void sim_net_open(struct sim *sim, struct sim_conn *conn)
{
    open_pipe(sim, conn, &conn->up, SIM_EV_UP);
    open_pipe(sim, conn, &conn->down, SIM_EV_DOWN);
    if (!conn->connected && conn->client_open && !link_of(sim, conn)->black_hole)
        schedule(sim, conn, SIM_EV_CONNECT, sim->now_ns + latency(sim, conn));
}

static void put_command(struct sim *sim, struct sim_conn *conn, const char *data, size_t len,
                        enum sim_command command)
{
    int action = fires(link_of(sim, conn), command, false) - 1;
    void *id = (void *)(uintptr_t)conn->id;
    if (action == (int)SIM_SWALLOW_REQUEST)
        conn->up.swallowed = true;
    struct sim_segment *segment = put(sim, conn, &conn->up, data, len);
    if (segment == NULL)
        return;
    if (action == (int)SIM_HOLD_REQUEST || action == (int)SIM_CUT_LATE)
        segment->barrier = true;
    if (action == (int)SIM_CUT_LATE) {
        conn->survives = true;
        sim_at(sim, 0, cut_later, id);
    }
    if (action == (int)SIM_CUT_AT_REQUEST)
        sim_at(sim, 0, cut_both_later, id);
}

static void put_reply(struct sim *sim, struct sim_conn *conn, const struct sim_reply *reply,
                      enum sim_command command)
{
    struct sim_link *link = link_of(sim, conn);
    int action = fires(link, command, true) - 1;
    size_t cut = 0;
    if (!conn->client_open)
        return;
    if (action == (int)SIM_SWALLOW_REPLY)
        conn->down.swallowed = true;
    if (action == (int)SIM_CUT_AT_REPLY) {
        sim_at(sim, 0, cut_both_later, (void *)(uintptr_t)conn->id);
        return;
    }
    if (link->slice)
        cut = (size_t)sim_between(&sim->random, 0, (int64_t)reply->len - 1);
    struct sim_segment *head = NULL;
    if (cut > 0)
        head = put(sim, conn, &conn->down, reply->data, cut);
    struct sim_segment *tail = put(sim, conn, &conn->down, reply->data + cut, reply->len - cut);
    head = head != NULL ? head : tail;
    if (head != NULL && action == (int)SIM_HOLD_REPLY)
        head->barrier = true;
}

/* ---- moving bytes ------------------------------------------------------- */

void sim_net_send(struct sim *sim, struct sim_conn *conn, const char *data, size_t len)
{
    struct sim_args args;
    sim_buffer_add(&conn->entering, data, len);
    for (;;) {
        size_t used = sim_parse(conn->entering.data, conn->entering.len, &args);
        if (used == SIZE_MAX)
            sim_violate(sim, SIM_CHECK_WIRE, "client %u sent what is no command", conn->client);
        if (used == 0 || used == SIZE_MAX)
            return;
        put_command(sim, conn, conn->entering.data, used, sim_classify(&args));
        sim_buffer_drop(&conn->entering, used);
    }
}

/* ---- blocked connections ------------------------------------------------ */

static void unblock(struct sim *sim, struct sim_conn *conn, const struct sim_reply *reply)
{
    conn->blocked = 0;
    put_reply(sim, conn, reply, SIM_BLPOP);
    sim_net_serve(sim, conn);
}

static void block_ends(struct sim *sim, void *context)
{
    struct sim_reply nothing = {.len = 5, .data = "*-1\r\n"};
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        if (conn->server_open && conn->blocked == (uint64_t)(uintptr_t)context) {
            unblock(sim, conn, &nothing);
            break;
        }
    sim_net_reap(sim);
}

static void block(struct sim *sim, struct sim_conn *conn, const struct sim_args *args,
                  int64_t for_ms)
{
    conn->blocked = ++sim->next_id;
    conn->blocked_on.len = 0;
    sim_buffer_add(&conn->blocked_on, args->data[1], args->len[1]);
    sim_at(sim, for_ms * SIM_MS, block_ends, (void *)(uintptr_t)conn->blocked);
}

/* Who has been blocked longest gets the first element. */
static void serve_blocked(struct sim *sim, uint32_t node)
{
    struct sim_server *server = &sim->servers[node];
    struct sim_reply reply = {0};
    for (;;) {
        struct sim_conn *first = NULL;
        for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
            if (conn->node == node && conn->server_open && conn->blocked != 0 &&
                (first == NULL || conn->blocked < first->blocked) &&
                sim_server_find(server, conn->peer.database, conn->blocked_on.data,
                                conn->blocked_on.len, sim->now_ns) != NULL)
                first = conn;
        if (first == NULL || !sim_server_pop(server, first->peer.database, first->blocked_on.data,
                                             first->blocked_on.len, sim->now_ns, &reply))
            return;
        unblock(sim, first, &reply);
    }
}

void sim_net_serve(struct sim *sim, struct sim_conn *conn)
{
    struct sim_server *server = &sim->servers[conn->node];
    while (conn->server_open && !server->frozen && conn->blocked == 0 && conn->at_server.len > 0) {
        struct sim_args args;
        struct sim_reply reply = {0};
        size_t used = sim_parse(conn->at_server.data, conn->at_server.len, &args);
        if (used == 0 || used == SIZE_MAX)
            return;
        enum sim_command command = sim_classify(&args);
        sim_server_execute(server, &conn->peer, &args, sim->now_ns, &reply);
        sim_note(sim, (uint64_t)command, conn->node, (uint64_t)(unsigned char)reply.data[1]);
        if (sim->trace)
            sim_tell(sim, "client %u node %u: %.*s %.*s -> %.*s", conn->client, conn->node,
                     (int)(command == SIM_EXTEND || command == SIM_RELEASE ? 0 : args.len[0]),
                     args.data[0],
                     command == SIM_EXTEND    ? 6
                     : command == SIM_RELEASE ? 7
                                              : 0,
                     command == SIM_EXTEND ? "EXTEND" : "RELEASE", (int)reply.len - 2, reply.data);
        if (server->foul != NULL)
            sim_violate(sim, SIM_CHECK_WIRE, "client %u: %s", conn->client, server->foul);
        if (reply.blocks)
            block(sim, conn, &args, reply.block_ms);
        sim_buffer_drop(&conn->at_server, used);
        if (!reply.blocks)
            put_reply(sim, conn, &reply, command);
        if (command == SIM_LPUSH)
            serve_blocked(sim, conn->node);
    }
}

static void arrived_up(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->server_open)
        return;
    take_due(sim, &conn->up, &conn->at_server);
    sim_net_serve(sim, conn);
    sim_net_reap(sim);
}

static void arrived_down(struct sim *sim, struct sim_conn *conn)
{
    if (!conn->client_open)
        return;
    if (take_due(sim, &conn->down, &conn->at_client))
        conn->end_at_client = true;
    if (!sim->clients[conn->client].frozen && (conn->at_client.len > 0 || conn->end_at_client))
        sim_client_readable(sim, conn);
}

void sim_net_event(struct sim *sim, const struct sim_event *event)
{
    struct sim_conn *conn = conn_by_id(sim, event->id);
    if (conn == NULL)
        return;
    if (event->kind == SIM_EV_CONNECT)
        connect_arrived(sim, conn);
    else if (event->kind == SIM_EV_UP)
        arrived_up(sim, conn);
    else
        arrived_down(sim, conn);
}

void sim_net_free(struct sim *sim)
{
    for (struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        conn->client_open = conn->server_open = false;
    sim_net_reap(sim);
}
