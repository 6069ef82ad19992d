/*
 * A client's connection and its one to the server. An end is closed when it was read to its end and
 * nothing more will be written to it, or when its peer has reset it; a session whose ends are both
 * closed is over. Resets that are passed on wait for the bytes before them to arrive, for the
 * kernel would drop what it hasn't sent.
 */
#include "proxy_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    BLOCK = 64 * 1024,
    DRAIN_RETRY_NS = 1000 * 1000,
    DRAIN_MAX_NS = 100 * 1000 * 1000,
    BANDWIDTH_PIECES = 100, /* a second's bytes leave in so many */
    SECOND_NS = 1000 * 1000 * 1000
};

/* ---- the end of a session ---------------------------------------------------- */

static void bury(struct session *session, const char *what)
{
    if (session->dead)
        return;
    session->dead = true;
    session->next_at = PROXY_NEVER;
    session->link->count.open--;
    for (enum way way = REQUESTS; way <= REPLIES; way++)
        (void)byte_queue_cut(&session->lanes[way].queue, session->lanes[way].queue.out);
    proxy_note_locked(session->link, what, session->number);
    proxy_changed_locked(session->link->proxy);
}

static void drop_both(struct session *session, const char *what)
{
    for (enum way from = REQUESTS; from <= REPLIES; from++)
        watch_close_locked(session->link->proxy, &session->ends[from].watch, true);
    bury(session, what);
}

void session_reset_locked(struct session *session)
{
    if (session->dead)
        return;
    session->link->count.resets++;
    drop_both(session, "reset");
}

/* Its peer hears of it in the ordinary way, and nothing more is written or read there. */
void session_close_end_locked(struct session *session, enum way from)
{
    struct lane *towards = &session->lanes[1 - from];

    watch_close_locked(session->link->proxy, &session->ends[from].watch, false);
    session->ends[from].read_ended = session->ends[from].write_ended = true;
    (void)byte_queue_cut(&towards->queue, towards->queue.out);
    towards->blocked = false;
    if (from == REPLIES)
        session->connecting = false;
}

bool session_torn_locked(const struct session *session)
{
    return session->mute != NOT_MUTE || session->lanes[REQUESTS].lost ||
           session->lanes[REPLIES].lost;
}

/* The peer has reset it. */
static void end_gone(struct session *session, enum way from)
{
    session_close_end_locked(session, from);
    lane_end_locked(session, from, ENDING_RESET);
}

/* ---- writing ------------------------------------------------------------------- */

static void later(struct session *session, int64_t at)
{
    if (at < session->next_at)
        session->next_at = at;
}

/* How many bytes, beginning with *data, may leave now, in one piece. */
static size_t sendable(struct session *session, enum way way, int64_t now, const char **data)
{
    struct lane *lane = &session->lanes[way];
    struct link *link = session->link;
    uint64_t limit = lane_limit_locked(session, way);
    size_t n;

    if (limit <= lane->queue.out || lane->queue.first == NULL)
        return 0;
    n = byte_queue_due(&lane->queue, now, data);
    if (n == 0 || lane->next_send > now) {
        later(session, n == 0 ? byte_queue_next(&lane->queue) : lane->next_send);
        return 0;
    }
    if (n > limit - lane->queue.out)
        n = (size_t)(limit - lane->queue.out);
    if (link->slice[way] > 0 && n > link->slice[way])
        n = link->slice[way];
    if (link->bandwidth[way] > 0) {
        size_t piece = (size_t)(link->bandwidth[way] / BANDWIDTH_PIECES) + 1;
        n = n < piece ? n : piece;
    }
    return n;
}

static void sent(struct session *session, enum way way, int64_t now, size_t n)
{
    struct lane *lane = &session->lanes[way];
    struct link *link = session->link;
    int64_t pause = link->slice[way] > 0 ? link->gap_ns[way] : 0;

    byte_queue_leave(&lane->queue, n);
    if (link->bandwidth[way] > 0) {
        int64_t needed = (int64_t)((double)n * SECOND_NS / (double)link->bandwidth[way]);
        pause = pause > needed ? pause : needed;
    }
    if (pause > 0)
        lane->next_send = now + pause;
}

/* False: the destination is gone. */
static bool send_due(struct session *session, enum way way, int64_t now)
{
    struct lane *lane = &session->lanes[way];
    int fd = session->ends[1 - way].watch.fd;
    const char *data = NULL;
    size_t n;

    lane->blocked = false;
    while ((n = sendable(session, way, now, &data)) > 0) {
        ssize_t written = send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (written >= 0)
            sent(session, way, now, (size_t)written);
        else if (errno == EAGAIN)
            lane->blocked = true;
        else if (errno != EINTR)
            return false;
        if (lane->blocked)
            break;
    }
    return true;
}

/* All that was written has been sent, or that has taken too long. */
static bool drained(struct session *session, enum way way, int64_t now)
{
    int left = 0;

    if (ioctl(session->ends[1 - way].watch.fd, SIOCOUTQNSD, &left) != 0 || left == 0)
        return true;
    if (session->drain_until == 0)
        session->drain_until = now + DRAIN_MAX_NS;
    later(session, now + DRAIN_RETRY_NS);
    return now >= session->drain_until;
}

/* What comes behind a FIN of our own may be lost: the FIN isn't. */
static bool ending_is_next(const struct session *session, enum way way)
{
    const struct lane *lane = &session->lanes[way];

    if (lane->lost && (!lane->closed || lane->by_flow))
        return false;
    return lane->ending != ENDING_NONE && !lane->ending_passed && lane->queue.first == NULL &&
           lane->cut == PROXY_NOWHERE && !lane_held_locked(session, way);
}

static void pass_ending(struct session *session, enum way way, int64_t now)
{
    struct lane *lane = &session->lanes[way];
    struct end *to = &session->ends[1 - way];

    if (lane->ending_due > now) {
        later(session, lane->ending_due);
    } else if (lane->ending == ENDING_FIN) {
        (void)shutdown(to->watch.fd, SHUT_WR);
        to->write_ended = lane->ending_passed = true;
    } else if (drained(session, way, now)) {
        drop_both(session, "closed");
    }
}

static void pump_lane(struct session *session, enum way way)
{
    struct lane *lane = &session->lanes[way];
    int64_t now = proxy_now();

    if (session->ends[1 - way].watch.fd < 0 || (way == REQUESTS && session->connecting))
        return;
    if (lane->stop_until <= now) {
        lane->stop = PROXY_NOWHERE;
        lane->stop_until = PROXY_NEVER;
    }
    later(session, lane->stop_until);
    if (!send_due(session, way, now)) {
        session_event_locked(session, 1 - way, EPOLLERR); /* what it said before comes first */
        return;
    }
    if (lane->queue.out == lane->cut && drained(session, way, now)) {
        trigger_done_locked(session, session->cutting.serial);
        session_reset_locked(session);
    } else if (ending_is_next(session, way)) {
        pass_ending(session, way, now);
    }
}

static void close_done(struct session *session)
{
    bool open = false;

    for (enum way from = REQUESTS; from <= REPLIES; from++) {
        struct end *end = &session->ends[from];
        if (end->watch.fd < 0)
            continue;
        if (end->read_ended && (end->write_ended || session->mute != NOT_MUTE))
            session_close_end_locked(session, from);
        else
            open = true;
    }
    if (!open)
        bury(session, "closed");
}

static uint32_t wanted(const struct session *session, enum way from)
{
    uint32_t events = 0;

    if (from == REPLIES && session->connecting)
        return EPOLLOUT;
    if (!session->ends[from].read_ended && session->lanes[from].queue.memory < PROXY_LANE_BYTES)
        events |= EPOLLIN;
    if (session->lanes[1 - from].blocked)
        events |= EPOLLOUT;
    return events;
}

void session_pump_locked(struct session *session)
{
    if (session->dead)
        return;
    session->next_at = PROXY_NEVER;
    for (enum way way = REQUESTS; way <= REPLIES && !session->dead; way++)
        pump_lane(session, way);
    if (!session->dead)
        close_done(session);
    if (session->dead)
        return;
    for (enum way from = REQUESTS; from <= REPLIES; from++)
        if (session->ends[from].watch.fd >= 0)
            watch_want_locked(session->link->proxy, &session->ends[from].watch,
                              wanted(session, from));
}

/* ---- reading ------------------------------------------------------------------- */

/* One block; false: there is nothing more for now, or for ever. */
static bool read_block(struct session *session, enum way from)
{
    static _Thread_local char block[BLOCK];
    ssize_t n = recv(session->ends[from].watch.fd, block, sizeof block, MSG_DONTWAIT);

    if (n > 0) {
        lane_take_locked(session, from, block, (size_t)n);
        return !session->dead;
    }
    if (n < 0 && errno == EINTR)
        return true;
    if (n == 0) {
        session->ends[from].read_ended = true;
        lane_end_locked(session, from, ENDING_FIN);
    } else if (errno != EAGAIN) {
        end_gone(session, from);
    }
    return false;
}

static void connected(struct session *session)
{
    struct link *link = session->link;
    int error = 0;
    socklen_t len = sizeof error;

    session->connecting = false;
    (void)getsockopt(session->ends[REPLIES].watch.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error == 0)
        return;
    link->count.refused++;
    proxy_note_locked(link, "refused", session->number);
    end_gone(session, REPLIES);
}

/* Sends and receives everything that was left of a connection in trouble. */
static void end_in_trouble(struct session *session, enum way from)
{
    while (!session->ends[from].read_ended && read_block(session, from))
        ;
    if (!session->dead && session->ends[from].watch.fd >= 0)
        end_gone(session, from);
}

void session_event_locked(struct session *session, enum way from, uint32_t events)
{
    if (session->dead || session->ends[from].watch.fd < 0)
        return;
    if (from == REPLIES && session->connecting)
        connected(session);
    else if ((events & (EPOLLERR | EPOLLHUP)) != 0)
        end_in_trouble(session, from);
    else if ((events & EPOLLIN) != 0 && !session->ends[from].read_ended)
        (void)read_block(session, from);
    session_pump_locked(session);
}

/* ---- the beginning -------------------------------------------------------------- */

static void connect_to(struct session *session, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    session->ends[REPLIES].watch.fd = fd;
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return;
    if (fd >= 0 && errno == EINPROGRESS) {
        session->connecting = true;
        return;
    }
    session->link->count.refused++;
    proxy_note_locked(session->link, "refused", session->number);
    end_gone(session, REPLIES);
}

static struct session *new_session(struct link *link, int client)
{
    struct session *session = calloc(1, sizeof *session);

    if (session == NULL)
        return NULL;
    session->link = link;
    session->number = link->count.accepted;
    session->next_at = PROXY_NEVER;
    session->mute = link->silent ? MUTE_SILENT : NOT_MUTE;
    for (enum way from = REQUESTS; from <= REPLIES; from++) {
        session->lanes[from].stop = session->lanes[from].cut = PROXY_NOWHERE;
        session->lanes[from].stop_until = PROXY_NEVER;
        session->ends[from].watch = (struct watch){.fd = -1, .owner = session};
    }
    session->ends[REQUESTS].watch.kind = WATCH_CLIENT;
    session->ends[REPLIES].watch.kind = WATCH_SERVER;
    session->ends[REQUESTS].watch.fd = client;
    session->next = link->sessions;
    link->sessions = session;
    return session;
}

void session_begin_locked(struct link *link, int client)
{
    struct watch unused = {.fd = client};
    struct session *session;
    int one = 1;

    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    link->count.accepted++;
    session = proxy_admit_locked(link->proxy) ? new_session(link, client) : NULL;
    if (session == NULL) {
        link->count.resets++;
        watch_close_locked(link->proxy, &unused, true);
        proxy_note_locked(link, "reset", link->count.accepted);
        return;
    }
    link->count.open++;
    proxy_note_locked(link, "connected", session->number);
    if (session->mute == NOT_MUTE)
        connect_to(session, link->target);
    session_pump_locked(session);
}
