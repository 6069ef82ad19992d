/*
 * The rules of a link. Each call first accepts who has connected already where it matters to
 * which rules a connection is subject, then changes the rule, then does what follows from it.
 *
 * A listener that refuses is shut down rather than closed: that stops it at once even while
 * a forked child has a copy, it can't fail to come back, and its port stays bound meanwhile.
 */
#include "proxy_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 512,
    DEAF_NS = 10 * 1000 * 1000
};

/* ---- accepting ------------------------------------------------------------------ */

void link_listen_locked(struct link *link)
{
    bool deaf = link->deaf_until > proxy_now();

    if (!deaf)
        link->deaf_until = 0;
    if (link->refuse || deaf)
        watch_forget_locked(link->proxy, &link->listener);
    else
        watch_want_locked(link->proxy, &link->listener, EPOLLIN);
}

void link_accept_locked(struct link *link)
{
    while (!link->refuse) {
        int client = accept4(link->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (client >= 0) {
            session_begin_locked(link, client);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            link->deaf_until = proxy_now() + DEAF_NS;
            link_listen_locked(link);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

/* Refuses, or listens again, as the rule is. */
static void refuse_locked(struct link *link, bool refuse)
{
    if (refuse == link->refuse)
        return;
    if (refuse) {
        link_accept_locked(link);
        (void)shutdown(link->listener.fd, SHUT_RDWR);
    } else if (listen(link->listener.fd, BACKLOG) != 0) {
        proxy_note_locked(link, "cannot listen", (uint64_t)errno);
    }
    link->refuse = refuse;
    link_listen_locked(link);
}

/* ---- making and freeing ------------------------------------------------------------ */

/* A socket bound to this port, 0: any; then to *port. */
static int bind_to(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)*port)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, error;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0) {
        *port = ntohs(address.sin_port);
        return fd;
    }
    error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return -1;
}

static void draw_from(struct link *link, uint64_t seed)
{
    static const char *const kinds[] = {"requests", "replies", "resets"};
    struct stream *const streams[] = {&link->delays[REQUESTS], &link->delays[REPLIES],
                                      &link->resets};
    char name[128];

    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "link %s of %.96s", kinds[i], link->name);
        *streams[i] = stream_of(seed, name);
    }
}

void link_free(struct link *link)
{
    struct session *session, *next;

    for (session = link->sessions; session != NULL; session = next) {
        next = session->next;
        session_reset_locked(session);
        free(session);
    }
    if (link->listener.fd >= 0)
        (void)close(link->listener.fd);
    if (link->keeper >= 0)
        (void)close(link->keeper);
    free(link->names);
    free(link->name);
    free(link);
}

struct link *link_new(struct proxy *proxy, const char *name, int target, uint64_t seed)
{
    struct link *link = calloc(1, sizeof *link);
    int error;

    if (link == NULL)
        return NULL;
    link->proxy = proxy;
    link->target = target;
    link->keeper = -1;
    link->listener = (struct watch){.kind = WATCH_LISTENER, .fd = -1, .owner = link};
    link->name = strdup(name);
    link->names = calloc(PROXY_NAMES_MAX, sizeof *link->names);
    if (link->name != NULL && link->names != NULL) {
        link->keeper = bind_to(&link->port);
        link->listener.fd = link->keeper >= 0 ? bind_to(&link->port) : -1;
        if (link->listener.fd >= 0 && listen(link->listener.fd, BACKLOG) == 0) {
            draw_from(link, seed);
            return link;
        }
    }
    error = errno;
    link_free(link);
    errno = error;
    return NULL;
}

int link_port(const struct link *link)
{
    return link->port;
}

const char *link_name(const struct link *link)
{
    return link->name;
}

/* ---- lasting faults ------------------------------------------------------------------ */

static void pump_all(struct link *link)
{
    for (struct session *s = link->sessions; s != NULL; s = s->next)
        session_pump_locked(s);
}

void link_delay(struct link *link, enum way way, struct delay delay)
{
    proxy_enter(link->proxy);
    link->delay[way] = delay;
    proxy_leave(link->proxy);
}

/* What has changed for a session when its way has a new flow. */
static void reflow(struct session *session, enum way way, enum flow flow)
{
    struct lane *lane = &session->lanes[way];

    if (flow == FLOW_SWALLOW && !lane->lost &&
        (lane->queue.first != NULL || (lane->ending != ENDING_NONE && !lane->ending_passed))) {
        lane->by_flow = true;
        lane_lose_locked(session, way, lane->queue.out);
    } else if (flow == FLOW_HOLD) { /* an abandoned connection sends nothing again */
        if (way == REQUESTS && lane->ending == ENDING_RESET)
            (void)byte_queue_cut(&lane->queue, lane->queue.out);
        lane_count_held_locked(session, way);
    } else if (flow == FLOW_PASS && lane->by_flow) {
        session_reset_locked(session);
    }
}

void link_flow(struct link *link, enum way way, enum flow flow)
{
    proxy_enter(link->proxy);
    link_accept_locked(link);
    link->flow[way] = flow;
    for (struct session *s = link->sessions; s != NULL; s = s->next)
        if (!s->dead)
            reflow(s, way, flow);
    pump_all(link);
    proxy_leave(link->proxy);
}

void link_slice(struct link *link, enum way way, unsigned most, int64_t gap_ns)
{
    proxy_enter(link->proxy);
    link->slice[way] = most;
    link->gap_ns[way] = gap_ns;
    proxy_leave(link->proxy);
}

void link_bandwidth(struct link *link, enum way way, int64_t bytes_per_s)
{
    proxy_enter(link->proxy);
    link->bandwidth[way] = bytes_per_s;
    proxy_leave(link->proxy);
}

void link_reset_chance(struct link *link, double chance)
{
    proxy_enter(link->proxy);
    link->reset_chance = chance;
    proxy_leave(link->proxy);
}

void link_refuse(struct link *link, bool refuse)
{
    proxy_enter(link->proxy);
    refuse_locked(link, refuse);
    proxy_leave(link->proxy);
}

static void silent_locked(struct link *link, bool silent)
{
    link_accept_locked(link);
    link->silent = silent;
    for (struct session *s = link->sessions; s != NULL && !silent; s = s->next)
        if (s->mute == MUTE_SILENT)
            session_reset_locked(s);
}

void link_silent(struct link *link, bool silent)
{
    proxy_enter(link->proxy);
    silent_locked(link, silent);
    proxy_leave(link->proxy);
}

static void let_go(struct session *session)
{
    for (enum way way = REQUESTS; way <= REPLIES; way++) {
        struct lane *lane = &session->lanes[way];
        lane->stop = lane->cut = PROXY_NOWHERE;
        lane->stop_until = PROXY_NEVER;
        lane->next_send = lane->ending_due = 0;
        byte_queue_hurry(&lane->queue);
    }
    session->effects_count = 0;
    session_pump_locked(session);
}

void link_heal(struct link *link)
{
    proxy_enter(link->proxy);
    silent_locked(link, false);
    refuse_locked(link, false);
    for (enum way way = REQUESTS; way <= REPLIES; way++) {
        link->delay[way] = (struct delay){0};
        link->flow[way] = FLOW_PASS;
        link->slice[way] = 0;
        link->bandwidth[way] = 0;
    }
    link->reset_chance = 0;
    link->trigger.armed = false;
    for (struct session *s = link->sessions; s != NULL; s = s->next) {
        if (session_torn_locked(s))
            session_reset_locked(s);
        else if (!s->dead)
            let_go(s);
    }
    proxy_leave(link->proxy);
}

/* ---- at once ---------------------------------------------------------------------------- */

static void reset_all_locked(struct link *link)
{
    link_accept_locked(link);
    for (struct session *s = link->sessions; s != NULL; s = s->next)
        session_reset_locked(s);
}

void link_reset(struct link *link)
{
    proxy_enter(link->proxy);
    reset_all_locked(link);
    proxy_leave(link->proxy);
}

static void half_open_locked(struct session *session)
{
    session->mute = MUTE_HALF_OPEN;
    lane_lose_locked(session, REQUESTS, session->lanes[REQUESTS].queue.out);
    lane_lose_locked(session, REPLIES, session->lanes[REPLIES].queue.out);
    session_close_end_locked(session, REPLIES);
    session_pump_locked(session);
}

void link_half_open(struct link *link)
{
    proxy_enter(link->proxy);
    link_accept_locked(link);
    for (struct session *s = link->sessions; s != NULL; s = s->next)
        if (!s->dead && s->mute == NOT_MUTE)
            half_open_locked(s);
    proxy_leave(link->proxy);
}

void link_half_close(struct link *link, enum way way)
{
    proxy_enter(link->proxy);
    link_accept_locked(link);
    for (struct session *s = link->sessions; s != NULL; s = s->next) {
        if (s->dead || s->mute != NOT_MUTE)
            continue;
        s->lanes[way].closed = true;
        if (s->lanes[way].ending == ENDING_NONE) {
            s->lanes[way].ending = ENDING_FIN;
            s->lanes[way].ending_due = s->lanes[way].queue.latest;
        }
        session_pump_locked(s);
    }
    proxy_leave(link->proxy);
}

void link_target(struct link *link, int port)
{
    proxy_enter(link->proxy);
    reset_all_locked(link);
    link->target = port;
    proxy_leave(link->proxy);
}

/* ---- triggers ----------------------------------------------------------------------------- */

void link_trigger(struct link *link, const struct trigger *trigger)
{
    struct armed_trigger *armed = &link->trigger;

    proxy_enter(link->proxy);
    *armed = (struct armed_trigger){.armed = true,
                                    .serial = armed->serial + 1,
                                    .trigger = *trigger,
                                    .any_command = trigger->command == NULL,
                                    .any_key = trigger->key == NULL};
    if (trigger->command != NULL)
        (void)snprintf(armed->command, sizeof armed->command, "%s", trigger->command);
    if (trigger->key != NULL) {
        armed->key_len = strlen(trigger->key); /* too long a one: none is equal to it */
        (void)snprintf(armed->key, sizeof armed->key, "%s", trigger->key);
    }
    armed->trigger.command = armed->trigger.key = NULL;
    proxy_leave(link->proxy);
}

bool link_await_trigger(struct link *link, int64_t timeout_ns)
{
    int64_t now = proxy_now(), until = PROXY_NEVER;
    bool done;

    if (timeout_ns < PROXY_NEVER - now)
        until = now + timeout_ns;

    proxy_enter(link->proxy);
    while (!link->trigger.done && proxy_wait_locked(link->proxy, until))
        ;
    done = link->trigger.done;
    proxy_leave(link->proxy);
    return done;
}

void link_release(struct link *link)
{
    proxy_enter(link->proxy);
    for (struct session *s = link->sessions; s != NULL; s = s->next) {
        for (enum way way = REQUESTS; way <= REPLIES; way++) {
            s->lanes[way].stop = PROXY_NOWHERE;
            s->lanes[way].stop_until = PROXY_NEVER;
        }
        session_pump_locked(s);
    }
    proxy_leave(link->proxy);
}

/* ---- account -------------------------------------------------------------------------------- */

struct link_count link_count(struct link *link)
{
    struct link_count count;

    proxy_enter(link->proxy);
    count = link->count;
    proxy_leave(link->proxy);
    return count;
}

uint64_t link_commands(struct link *link, const char *command)
{
    uint64_t n = 0;

    proxy_enter(link->proxy);
    for (size_t i = 0; i < link->names_count; i++)
        if (strcmp(link->names[i].name, command) == 0)
            n = link->names[i].n;
    proxy_leave(link->proxy);
    return n;
}
