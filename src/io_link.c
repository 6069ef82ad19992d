/*
 * How links come and go: the part of io.h that opens and closes. A link is one primary's
 * descriptor:
 *
 *   CLOSED -> RESOLVING -> CONNECTING -> [SECURING ->] OPEN
 *     ^           |            |             |          |
 *     +--CLOSE----+---------- BROKEN <-------+----------+
 *
 * SECURING is the handshake of a rediss:// endpoint; the node is connected when it is over.
 *
 * The node decides when to connect and when to give up; the link only follows its tasks. A failure
 * is reported to the engine and leaves the link BROKEN, neither polled nor read, until the node's
 * task says how to close it: in order, or with SO_LINGER 0 where a SET may still lie in the
 * kernel's send queue, which would otherwise be delivered long after its owner gave up.
 * TCP_USER_TIMEOUT bounds that for links nobody gave up.
 *
 * A name's addresses are tried one after the other within the node's connect timeout; if that runs
 * out, the next connect begins with the next one. Names are resolved anew each time.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io_state.h"
#include "validity.h"

/* ---- opening ------------------------------------------------------------ */

static void set_state(struct redlock__io *io, struct link *link, enum link_state state)
{
    uint64_t bit = UINT64_C(1) << (link - io->links);

    io->changes++;
    link->state = state;
    link->generation++;
    io->plain &= ~bit;
    if (state == LINK_OPEN && link->tls == NULL)
        io->plain |= bit;
}

__attribute__((cold)) void redlock__link_break(struct redlock__io *io, uint32_t i, const char *what,
                                               const char *why, int number)
{
    char text[REDLOCK_TEXT_LEN], room[REDLOCK__ERRNO_LEN];

    if (why == NULL)
        why = redlock__errno_text(number, room);
    (void)snprintf(text, sizeof text, "%s%s", what, why);
    set_state(io, &io->links[i], LINK_BROKEN);
    io->news |= REDLOCK__STIRRED;
    redlock__engine_node_failed(io->engine, i, text, redlock__clock_ns());
}

__attribute__((cold)) void redlock__link_lose(struct redlock__io *io, uint32_t i, const char *what,
                                              int number)
{
    const struct link *link = &io->links[i];
    const struct redlock__node *node = redlock__engine_node(io->engine, i);
    bool greeting = redlock__node_phase(node) == REDLOCK__NODE_PHASE_GREETING;
    bool ended = number == 0 || number == ECONNRESET || number == EPIPE;
    const char *guess = link->tls != NULL ? redlock__tls_guess(link->tls) : NULL;

    if (guess != NULL && ended)
        redlock__link_break(io, i, "TLS: ", guess, 0);
    else if (ended && link->tls == NULL && greeting && !link->endpoint->local)
        redlock__link_break(io, i, "", "closed before any answer, is it a TLS port?", 0);
    else
        redlock__link_break(io, i, what, number == 0 ? "closed by the primary" : NULL, number);
}

void redlock__link_connected(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];

    link->first = (link->first + link->tried - 1) % link->addresses.count;
    set_state(io, link, LINK_OPEN);
    io->news |= REDLOCK__STIRRED;
    redlock__engine_connected(io->engine, i, redlock__clock_ns());
}

static void close_descriptor(struct redlock__io *io, struct link *link)
{
    if (link->fd < 0)
        return;
    (void)redlock__loop_change(io->loop_fd, link->fd, link->registered, 0);
    link->registered = 0;
    redlock__tls_close(link->tls);
    link->tls = NULL;
    (void)close(link->fd);
    link->fd = -1;
    link->blocked = false;
}

/* Connects to the next address that can be tried; the last error breaks the link. */
static void try_addresses(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];
    int number = ECONNREFUSED;

    while (link->tried < link->addresses.count) {
        const struct redlock__address *address =
            &link->addresses.list[(link->first + link->tried++) % link->addresses.count];
        close_descriptor(io, link);
        link->fd = redlock__open_socket(address->storage.ss_family, io->user_timeout_ms);
        if (link->fd < 0) {
            number = errno;
            continue;
        }
        if (connect(link->fd, (const struct sockaddr *)&address->storage, address->len) == 0 ||
            errno == EINPROGRESS) {
            set_state(io, link, LINK_CONNECTING);
            return;
        }
        number = errno;
    }
    redlock__link_break(io, i, "connect: ", NULL, number);
}

/* A side link is bound anew each time: to the endpoint of its primary. */
static void bind_side(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];
    const struct link *primary = &io->links[redlock__engine_primary(io->engine, i)];

    if (link->endpoint == primary->endpoint)
        return;
    redlock__lookup_free(link->lookup);
    link->lookup = NULL;
    link->endpoint = primary->endpoint;
    link->addresses = primary->addresses;
    link->first = primary->first;
}

static void start_connect(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];

    if (i >= io->n)
        bind_side(io, i);
    link->tried = 0;
    if (link->endpoint->numeric) {
        try_addresses(io, i);
        return;
    }
    if (link->lookup == NULL)
        link->lookup =
            redlock__lookup_new(link->endpoint, io->watches[REDLOCK__BACKGROUND].signal.fds[1]);
    if (link->lookup == NULL)
        redlock__link_break(io, i, "", "no thread to resolve the name", 0);
    else
        set_state(io, link, LINK_RESOLVING);
}

static void take_lookup(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];
    const char *text = NULL;

    if (!redlock__lookup_result(link->lookup, &link->addresses, &text))
        return;
    redlock__lookup_free(link->lookup);
    link->lookup = NULL;
    if (link->addresses.count == 0)
        redlock__link_break(io, i, "name: ", text, 0);
    else
        try_addresses(io, i);
}

static void start_tls(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];

    link->tls = redlock__tls_open(io->tls, link->endpoint->host);
    if (link->tls == NULL)
        redlock__link_break(io, i, "TLS: ", "out of memory", 0);
    else
        set_state(io, link, LINK_SECURING);
    redlock__node_securing(redlock__engine_node(io->engine, i));
}

__attribute__((cold)) void redlock__link_finish_connect(struct redlock__io *io, uint32_t i)
{
    struct link *link = &io->links[i];
    int number = 0;
    socklen_t len = sizeof number;

    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &number, &len) != 0)
        number = errno;
    if (number == 0 && redlock__is_itself(link->fd))
        number = ELOOP;
    if (number == 0 && link->endpoint->tls)
        start_tls(io, i);
    else if (number == 0)
        redlock__link_connected(io, i);
    else if (link->tried < link->addresses.count)
        try_addresses(io, i);
    else
        redlock__link_break(io, i, "connect: ", NULL, number);
}

void redlock__link_close(struct redlock__io *io, struct link *link, bool abort_it)
{
    if (abort_it && link->fd >= 0) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        (void)setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    } else if (link->tls != NULL && !link->blocked) { /* its last words, if there is room */
        const char *data;
        size_t len;
        redlock__tls_goodbye(link->tls);
        data = redlock__tls_output(link->tls, &len);
        (void)send(link->fd, data, len, MSG_NOSIGNAL);
    }
    /* Its time is over: begin with the next one. */
    if (link->state == LINK_CONNECTING || link->state == LINK_SECURING)
        link->first += link->tried;
    close_descriptor(io, link);
    set_state(io, link, LINK_CLOSED);
}

/* ---- tasks --------------------------------------------------------------- */

__attribute__((noinline)) void redlock__link_do_tasks(struct redlock__io *io, uint32_t i)
{
    struct redlock__node *node = redlock__engine_node(io->engine, i);
    int64_t now_ns = redlock__clock_ns();
    enum redlock__node_task task;

    while (redlock__node_has_task(node, now_ns)) {
        task = redlock__node_take_task(node, now_ns);
        if (task == REDLOCK__TASK_CONNECT)
            start_connect(io, i);
        else
            redlock__link_close(io, &io->links[i], task == REDLOCK__TASK_ABORT);
    }
    if (io->links[i].state == LINK_RESOLVING)
        take_lookup(io, i);
}
