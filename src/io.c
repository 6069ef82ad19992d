/*
 * See io.h. What links are, and how they come and go, is in io_link.c; here bytes move over those
 * that are open.
 *
 * A node's output becomes ciphertext only when what was made before is sent: what counts as sent is
 * at most one record ahead of the kernel.
 *
 * Answers are received without a loop, one buffer a turn and link: poll is level-triggered,
 * and no primary can keep the others waiting.
 */
#include "io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io_state.h"
#include "validity.h"

enum {
    USER_TIMEOUT_MS = 60000, /* where max_ttl is left to the markers */
    PASSES = 8,              /* of one flush */
};

/* ---- moving bytes ------------------------------------------------------- */

/* It may have found an end or an error where none is of the socket. */
static void check_tls(struct redlock__io *io, uint32_t i)
{
    const struct redlock__tls_stream *tls = io->links[i].tls;
    enum redlock__tls_state state = redlock__tls_state(tls);

    if (state == REDLOCK__TLS_FAILED)
        redlock__link_break(io, i, "TLS: ", redlock__tls_text(tls), 0);
    else if (state == REDLOCK__TLS_ENDED)
        redlock__link_lose(io, i, "", 0);
}

/* Of len bytes of ciphertext in the buffer. What came before the peer's end counts. */
__attribute__((noinline)) static void decrypt(struct redlock__io *io, uint32_t i, size_t len,
                                              int64_t now_ns)
{
    struct redlock__tls_stream *tls = io->links[i].tls;
    size_t n;

    redlock__tls_take(tls, io->buffer, len);
    if (io->links[i].state == LINK_SECURING && redlock__tls_state(tls) == REDLOCK__TLS_OPEN)
        redlock__link_connected(io, i);
    while ((n = redlock__tls_read(tls, io->buffer, REDLOCK__IO_BUFFER)) > 0)
        redlock__engine_receive(io->engine, i, io->buffer, n, now_ns);
    check_tls(io, i);
}

/* Where nothing was received: the end (number 0), or an error. */
__attribute__((cold)) static void end_receiving(struct redlock__io *io, uint32_t i, int number)
{
    if (number == 0)
        redlock__link_lose(io, i, "", 0);
    else if (number != EAGAIN && number != EWOULDBLOCK && number != EINTR)
        redlock__link_lose(io, i, "receive: ", number);
}

static void receive_tls(struct redlock__io *io, uint32_t i, int64_t now_ns)
{
    ssize_t n = recv(io->links[i].fd, io->buffer, REDLOCK__IO_BUFFER, 0);

    if (n > 0)
        decrypt(io, i, (size_t)n, now_ns);
    else
        end_receiving(io, i, n == 0 ? 0 : errno);
}

/* False: nothing came, and *number says why. Of what did, the engine is yet to be told. */
static inline bool receive_plain(const struct redlock__io *io, uint32_t i, int fd, int64_t now_ns,
                                 int *number)
{
    struct redlock__node *node = redlock__engine_node(io->engine, i);
    size_t len;
    char *room = redlock__node_room(node, &len);
    ssize_t n;

    if (room == NULL) {
        *number = ENOMEM;
        return false;
    }
    n = recv(fd, room, len, 0);
    if (n <= 0) {
        *number = n == 0 ? 0 : errno;
        return false;
    }
    redlock__node_received(node, (size_t)n, now_ns);
    return true;
}

__attribute__((noinline)) static void receive(struct redlock__io *io, uint32_t i, int64_t now_ns)
{
    int number;

    if (io->links[i].tls != NULL)
        receive_tls(io, i, now_ns);
    else if (receive_plain(io, i, io->links[i].fd, now_ns, &number))
        redlock__engine_received(io->engine, UINT64_C(1) << i);
    else
        end_receiving(io, i, number);
}

/* Ciphertext that waits, or if there is none, the node's next output as such. */
static const char *encrypt_output(struct redlock__node *node, struct redlock__tls_stream *tls,
                                  size_t *len)
{
    const char *data = redlock__tls_output(tls, len);

    if (*len > 0)
        return data;
    data = redlock__node_output(node, len);
    redlock__node_sent(node, redlock__tls_write(tls, data, *len));
    return redlock__tls_output(tls, len);
}

/* What the peer said before it hung up tells more than that it did. */
static void end_sending(struct redlock__io *io, uint32_t i, int number)
{
    receive(io, i, redlock__clock_ns());
    if (io->links[i].state != LINK_BROKEN)
        redlock__link_lose(io, i, "send: ", number);
}

/* The kernel took nothing. */
__attribute__((cold)) static void not_sent(struct redlock__io *io, uint32_t i, int number)
{
    if (number == EAGAIN || number == EWOULDBLOCK)
        io->links[i].blocked = true, io->changes++;
    else if (number != EINTR)
        end_sending(io, i, number);
}

static void send_output(struct redlock__io *io, struct redlock__node *node, uint32_t i)
{
    struct link *link = &io->links[i];

    while ((link->state == LINK_OPEN || link->state == LINK_SECURING) && !link->blocked) {
        struct redlock__tls_stream *tls = link->tls;
        size_t len;
        const char *data =
            tls != NULL ? encrypt_output(node, tls, &len) : redlock__node_output(node, &len);
        ssize_t sent;
        if (len == 0) {
            if (tls != NULL)
                check_tls(io, i);
            return;
        }
        sent = send(link->fd, data, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            not_sent(io, i, errno);
        } else if (tls != NULL) {
            redlock__tls_sent(tls, (size_t)sent);
        } else {
            redlock__node_sent(node, (size_t)sent);
            if ((size_t)sent == len)
                return;
        }
    }
}

/* Requests to a primary: nearly always to one whose link is plain, and which takes them at once. */
static inline void send_requests(struct redlock__io *io, uint32_t i)
{
    struct redlock__node *node = redlock__engine_node(io->engine, i);
    const struct link *link = &io->links[i];
    bool plain = (io->plain >> i & 1) != 0;
    size_t len;
    const char *data = redlock__node_output(node, &len);

    if (plain && len > 0 && !link->blocked) {
        ssize_t sent = send(link->fd, data, len, MSG_NOSIGNAL);

        if (sent == (ssize_t)len) {
            redlock__node_sent_all(node);
            return;
        }
        redlock__node_keep(node);
        if (sent > 0)
            redlock__node_sent(node, (size_t)sent);
        else
            not_sent(io, i, errno);
    }
    redlock__node_keep(node);
    send_output(io, node, i); /* what is left, as far as it goes now */
}

/* All that the primaries were given to send, or as much as goes out now. Those that are behind come
 * last: a round ends with the others. */
static void send_all(struct redlock__io *io, uint32_t primaries)
{
    uint32_t behind = primaries & redlock__engine_see(io->engine)->behind;

    for (uint32_t rest = primaries & ~behind; rest != 0; rest &= rest - 1)
        send_requests(io, redlock__first(rest));
    for (; behind != 0; behind &= behind - 1)
        send_requests(io, redlock__first(behind));
    redlock__engine_sent(io->engine, primaries);
}

/* Tells the external loop what changed; what it doesn't take is told again. */
__attribute__((noinline)) static void register_links(struct redlock__io *io)
{
    io->registered = io->changes;
    for (uint32_t i = 0; i < REDLOCK__MAX_LINKS; i++) {
        struct link *link = &io->links[i];
        uint32_t wanted = redlock__link_interest(link);

        if (link->fd < 0)
            continue;
        link->registered = redlock__loop_change(io->loop_fd, link->fd, link->registered, wanted);
        if (link->registered != wanted)
            io->registered = io->changes - 1;
    }
}

/* Whatever nodes and links want: connections, closing them, and output that had to wait. */
__attribute__((noinline)) static void serve_links(struct redlock__io *io)
{
    io->news &= ~REDLOCK__STIRRED;
    for (uint32_t i = 0; i < redlock__engine_links(io->engine); i++) {
        struct redlock__node *node = redlock__engine_node(io->engine, i);

        if (node == NULL)
            continue;
        if (redlock__node_phase(node) != REDLOCK__NODE_PHASE_READY)
            redlock__link_do_tasks(io, i);
        send_output(io, node, i);
    }
}

bool redlock__io_has_news(struct redlock__io *io)
{
    io->news |= redlock__engine_stirred(io->engine);
    return io->news != 0;
}

void redlock__io_flush(struct redlock__io *io)
{
    for (int pass = 0; pass < PASSES && redlock__io_has_news(io); pass++) {
        uint32_t primaries = io->news & ~REDLOCK__STIRRED;

        io->news &= REDLOCK__STIRRED;
        send_all(io, primaries);
        if (io->news != 0)
            serve_links(io);
    }
    if (io->loop_fd >= 0 && io->registered != io->changes)
        register_links(io);
}

/* ---- reading ------------------------------------------------------------ */

/* What poll found of a link. */
__attribute__((noinline)) static void handle_link(struct redlock__io *io, const struct watch *watch,
                                                  uint32_t i, int64_t now_ns)
{
    struct link *link = &io->links[i];
    int ready = watch->fds[1 + i].revents;

    if (watch->generation[i] != link->generation ||
        redlock__node_has_task(redlock__engine_node(io->engine, i), now_ns))
        return;
    if ((ready & POLLOUT) != 0 || link->state != LINK_OPEN || link->tls != NULL)
        io->news |= REDLOCK__STIRRED;
    if ((ready & POLLOUT) != 0 && link->blocked)
        link->blocked = false, io->changes++;
    if (link->state == LINK_CONNECTING)
        redlock__link_finish_connect(io, i);
    else if ((ready & ~POLLOUT) != 0)
        receive(io, i, now_ns);
}

/* Mask: primaries from which answers can just be received, if poll found some. */
static inline uint64_t readable(const struct redlock__io *io, const struct watch *watch)
{
    if (watch->changes != io->changes)
        return 0;
    return io->plain & redlock__engine_see(io->engine)->all.ready;
}

/* The links that are more than read. Whatever happens to them, the engine may judge by the time: so
 * it is told before what the others have received. */
__attribute__((noinline)) static void handle_others(struct redlock__io *io,
                                                    const struct watch *watch, uint64_t others,
                                                    uint64_t failed, const int numbers[],
                                                    int64_t now_ns)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if ((failed >> i & 1) != 0)
            end_receiving(io, i, numbers[i]);
        else if ((others >> i & 1) != 0)
            handle_link(io, watch, i, now_ns);
}

int64_t redlock__io_read(struct redlock__io *io, enum redlock__party party)
{
    struct watch *watch = &io->watches[party];
    int64_t now_ns = redlock__clock_ns();
    uint64_t plain, bit = 1, received = 0, others = 0, failed = 0;
    int numbers[REDLOCK__MAX_LINKS]; /* of those that failed */

    watch->in_poll = false;
    if (watch->signal.raised || watch->fds[0].revents != 0) {
        redlock__signal_lower(&watch->signal);
        io->news |= REDLOCK__STIRRED; /* a lookup may have ended */
    }
    if (watch->scope == REDLOCK__WATCH_ALL)
        io->looked_ns = now_ns;
    plain = readable(io, watch);
    for (uint32_t i = 0; i < watch->count; i++, bit <<= 1) {
        const struct pollfd *found = &watch->fds[1 + i];

        if (found->revents == 0)
            continue;
        if (found->revents != POLLIN || (plain & bit) == 0)
            others |= bit;
        else if (receive_plain(io, i, found->fd, now_ns, &numbers[i]))
            received |= bit;
        else
            failed |= bit;
    }
    redlock__engine_received(io->engine, received);
    if ((others | failed) != 0)
        handle_others(io, watch, others, failed, numbers, now_ns);
    now_ns = redlock__clock_ns();
    redlock__engine_handle_deadline(io->engine, now_ns);
    return now_ns;
}

int redlock__io_loop_fd(const struct redlock__io *io)
{
    return io->loop_fd >= 0 ? io->loop_fd : REDLOCK_ERR_UNSUPPORTED;
}

/* ---- life --------------------------------------------------------------- */

static int open_links(struct redlock__io *io, const struct redlock__settings *settings, char *text,
                      size_t text_size)
{
    for (uint32_t i = 0; i < io->n; i++) {
        struct link *link = &io->links[i];
        link->endpoint = &settings->endpoints[i];
        if (!link->endpoint->numeric)
            continue;
        if (!redlock__resolve_directly(link->endpoint, &link->addresses)) {
            if (text != NULL)
                (void)snprintf(text, text_size, "node %u, %s: not an address", (unsigned)i + 1,
                               link->endpoint->address);
            return REDLOCK_ERR_URI;
        }
    }
    return 0;
}

int redlock__io_new(const struct redlock__settings *settings, struct redlock__engine *engine,
                    struct redlock__io **io, char *text, size_t text_size)
{
    struct redlock__io *made = calloc(1, sizeof *made);
    int rc;

    if (made == NULL)
        return REDLOCK_ERR_MEMORY;
    made->engine = engine;
    made->n = settings->n;
    made->user_timeout_ms = settings->max_ttl_ms != 0 ? settings->max_ttl_ms : USER_TIMEOUT_MS;
    made->looked_ns = redlock__clock_ns();
    made->loop_fd = -1;
    made->news = REDLOCK__STIRRED;
    for (uint32_t i = 0; i < REDLOCK__MAX_LINKS; i++)
        made->links[i].fd = -1;
    for (int i = 0; i < REDLOCK__PARTIES; i++)
        made->watches[i].signal = (struct redlock__signal){.fds = {-1, -1}};
    rc = open_links(made, settings, text, text_size);
    if (rc == 0 && settings->tls.wanted)
        rc = redlock__tls_new(&settings->tls, &made->tls, text, text_size);
    if (rc == 0 && settings->tls.wanted) {
        made->buffer = malloc(REDLOCK__IO_BUFFER);
        rc = made->buffer != NULL ? 0 : REDLOCK_ERR_MEMORY;
    }
    if (rc == 0 &&
        (!redlock__signal_open(&made->watches[REDLOCK__DRIVER].signal) ||
         !redlock__signal_open(&made->watches[REDLOCK__BACKGROUND].signal) ||
         (settings->external_loop &&
          !redlock__loop_open(&made->loop_fd, made->watches[REDLOCK__BACKGROUND].signal.fds[0]))))
        rc = REDLOCK_ERR_SYSTEM;
    if (rc != 0)
        redlock__io_free(made, true);
    else
        *io = made;
    return rc;
}

/* Gives every link up, so that its node says how it is to be closed. */
static void shut_links(struct redlock__io *io)
{
    for (uint32_t i = 0; i < redlock__engine_links(io->engine); i++) {
        struct redlock__node *node = redlock__engine_node(io->engine, i);
        int64_t now_ns = redlock__clock_ns();
        enum redlock__node_task task;
        if (node == NULL)
            continue;
        redlock__engine_node_failed(io->engine, i, "the client is closed", now_ns);
        task = redlock__node_take_task(node, now_ns);
        if (task == REDLOCK__TASK_CLOSE || task == REDLOCK__TASK_ABORT)
            redlock__link_close(io, &io->links[i], task == REDLOCK__TASK_ABORT);
    }
}

void redlock__io_free(struct redlock__io *io, bool here)
{
    if (io == NULL)
        return;
    if (here)
        shut_links(io);
    for (uint32_t i = 0; i < REDLOCK__MAX_LINKS; i++) {
        struct link *link = &io->links[i];
        if (link->fd >= 0)
            (void)close(link->fd);
        if (!here)
            continue;
        redlock__lookup_free(link->lookup);
        redlock__tls_close(link->tls);
    }
    if (here)
        redlock__tls_free(io->tls);
    for (int i = 0; i < REDLOCK__PARTIES; i++)
        redlock__signal_close(&io->watches[i].signal);
    if (io->loop_fd >= 0)
        (void)close(io->loop_fd);
    free(io->buffer);
    free(io);
}
