/*
 * The thread: waits in epoll, without the mutex, for sockets and for one timer, which is also how
 * other threads wake it. epoll rather than poll(), since that holds on to descriptors while it
 * waits: what another thread closes would stay open until it returns.
 */
#include "proxy_parts.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    SECOND_NS = 1000 * 1000 * 1000
};

struct note {
    const struct link *link;
    const char *what;
    uint64_t n;
};

struct notes {
    struct note *items;
    size_t count, size;
};

struct proxy {
    uint64_t seed;
    proxy_listener *listener;
    void *context;
    int epoll;
    struct watch timer;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all that follows, and the links */
    pthread_cond_t changed;
    bool stopping;
    struct link *links;
    unsigned sessions; /* those in memory */
    struct notes notes;
};

int64_t proxy_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* ---- what is watched --------------------------------------------------------------- */

void watch_want_locked(struct proxy *proxy, struct watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    int what = watch->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (watch->watched && watch->events == events)
        return;
    watch->watched = epoll_ctl(proxy->epoll, what, watch->fd, &event) == 0;
    watch->events = events;
}

void watch_forget_locked(struct proxy *proxy, struct watch *watch)
{
    struct epoll_event unused = {0};

    if (watch->watched)
        (void)epoll_ctl(proxy->epoll, EPOLL_CTL_DEL, watch->fd, &unused);
    watch->watched = false;
}

/* Taken from epoll by hand, and reset by a disconnect: a copy of the descriptor that a child has
 * between fork and exec would keep both alive. */
void watch_close_locked(struct proxy *proxy, struct watch *watch, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    if (watch->fd < 0)
        return;
    watch_forget_locked(proxy, watch);
    if (reset) {
        (void)setsockopt(watch->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        (void)connect(watch->fd, &nowhere, sizeof nowhere);
    }
    (void)close(watch->fd);
    watch->fd = -1;
}

/* The timer at this time; now: 0; not at all: PROXY_NEVER. */
static void set_timer(struct proxy *proxy, int64_t at)
{
    struct itimerspec when = {0};

    if (at != PROXY_NEVER) {
        at = at > 0 ? at : 1; /* zero would disarm it */
        when.it_value = (struct timespec){.tv_sec = at / SECOND_NS, .tv_nsec = at % SECOND_NS};
    }
    (void)timerfd_settime(proxy->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- the mutex --------------------------------------------------------------------- */

void proxy_enter(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->mutex);
}

void proxy_leave(struct proxy *proxy)
{
    set_timer(proxy, 0);
    (void)pthread_mutex_unlock(&proxy->mutex);
}

void proxy_changed_locked(struct proxy *proxy)
{
    (void)pthread_cond_broadcast(&proxy->changed);
}

bool proxy_wait_locked(struct proxy *proxy, int64_t until)
{
    struct timespec at = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};

    return pthread_cond_timedwait(&proxy->changed, &proxy->mutex, &at) != ETIMEDOUT;
}

bool proxy_admit_locked(struct proxy *proxy)
{
    if (proxy->sessions == PROXY_SESSIONS_MAX)
        return false;
    proxy->sessions++;
    return true;
}

/* ---- what the listener is told --------------------------------------------------------- */

/* Without memory for it, a note is lost: it tells a story, nothing depends on it. */
void proxy_note_locked(struct link *link, const char *what, uint64_t n)
{
    struct notes *notes = &link->proxy->notes;

    if (link->proxy->listener == NULL)
        return;
    if (notes->count == notes->size) {
        size_t size = notes->size == 0 ? 64 : 2 * notes->size;
        struct note *items = realloc(notes->items, size * sizeof *items);
        if (items == NULL)
            return;
        notes->items = items;
        notes->size = size;
    }
    notes->items[notes->count++] = (struct note){.link = link, .what = what, .n = n};
}

/* Without the mutex: the listener may call whatever it likes. */
static void tell(const struct proxy *proxy, struct notes *notes)
{
    for (size_t i = 0; i < notes->count; i++)
        proxy->listener(proxy->context, notes->items[i].link->name, notes->items[i].what,
                        (int64_t)notes->items[i].n);
    free(notes->items);
    *notes = (struct notes){0};
}

/* ---- the thread --------------------------------------------------------------------- */

static void bury_dead(struct proxy *proxy, struct link *link)
{
    struct session **at = &link->sessions;

    while (*at != NULL) {
        struct session *session = *at;
        if (session->dead) {
            *at = session->next;
            free(session);
            proxy->sessions--;
        } else {
            at = &session->next;
        }
    }
}

/* Does what is due in this link; when the next thing is. */
static int64_t serve_link(struct proxy *proxy, struct link *link)
{
    int64_t now = proxy_now(), next = PROXY_NEVER;

    if (link->deaf_until > 0)
        link_listen_locked(link);
    if (link->deaf_until > 0)
        next = link->deaf_until;
    for (struct session *s = link->sessions; s != NULL; s = s->next) {
        if (s->next_at <= now)
            session_pump_locked(s);
        if (s->next_at < next)
            next = s->next_at;
    }
    bury_dead(proxy, link);
    return next;
}

static void serve_links(struct proxy *proxy)
{
    int64_t next = PROXY_NEVER;

    for (struct link *link = proxy->links; link != NULL; link = link->next) {
        int64_t at = serve_link(proxy, link);
        next = at < next ? at : next;
    }
    set_timer(proxy, next);
}

static void dispatch(const struct epoll_event *event)
{
    struct watch *watch = event->data.ptr;
    uint64_t rung;

    switch (watch->kind) {
    case WATCH_TIMER:
        (void)!read(watch->fd, &rung, sizeof rung);
        break;
    case WATCH_LISTENER:
        link_accept_locked(watch->owner);
        break;
    case WATCH_CLIENT:
        session_event_locked(watch->owner, REQUESTS, event->events);
        break;
    case WATCH_SERVER:
        session_event_locked(watch->owner, REPLIES, event->events);
        break;
    }
}

static void *run(void *argument)
{
    struct proxy *proxy = argument;
    struct epoll_event events[EVENTS];

    proxy_enter(proxy);
    while (!proxy->stopping) {
        struct notes notes;
        int n;

        serve_links(proxy);
        notes = proxy->notes;
        proxy->notes = (struct notes){0};
        (void)pthread_mutex_unlock(&proxy->mutex);
        tell(proxy, &notes);
        n = epoll_wait(proxy->epoll, events, EVENTS, -1);
        proxy_enter(proxy);
        for (int i = 0; i < n; i++)
            dispatch(&events[i]);
    }
    (void)pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------ */

static int start_thread(struct proxy *proxy)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&proxy->thread, NULL, run, proxy);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void init_locks(struct proxy *proxy)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&proxy->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&proxy->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

/* All but the thread. */
static void free_parts(struct proxy *proxy)
{
    struct link *next;

    for (struct link *link = proxy->links; link != NULL; link = next) {
        next = link->next;
        link_free(link);
    }
    if (proxy->timer.fd >= 0)
        (void)close(proxy->timer.fd);
    if (proxy->epoll >= 0)
        (void)close(proxy->epoll);
    (void)pthread_cond_destroy(&proxy->changed);
    (void)pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

struct proxy *proxy_new(uint64_t seed, proxy_listener *listener, void *context)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    int error;

    if (proxy == NULL)
        return NULL;
    proxy->seed = seed;
    proxy->listener = listener;
    proxy->context = context;
    init_locks(proxy);
    proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
    proxy->timer = (struct watch){.kind = WATCH_TIMER, .fd = -1};
    proxy->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (proxy->epoll < 0 || proxy->timer.fd < 0) {
        error = errno;
    } else {
        watch_want_locked(proxy, &proxy->timer, EPOLLIN);
        error = start_thread(proxy);
    }
    if (error == 0)
        return proxy;
    free_parts(proxy);
    errno = error;
    return NULL;
}

void proxy_free(struct proxy *proxy)
{
    if (proxy == NULL)
        return;
    proxy_enter(proxy);
    proxy->stopping = true;
    proxy_leave(proxy);
    (void)pthread_join(proxy->thread, NULL);
    tell(proxy, &proxy->notes);
    proxy->listener = NULL;
    free_parts(proxy);
}

struct link *proxy_link(struct proxy *proxy, const char *name, int target)
{
    struct link *link = link_new(proxy, name, target, proxy->seed);

    if (link == NULL)
        return NULL;
    proxy_enter(proxy);
    link->next = proxy->links;
    proxy->links = link;
    link_listen_locked(link);
    proxy_leave(proxy);
    return link;
}
