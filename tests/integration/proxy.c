/*
 * See proxy.h. A session is a client's connection and one to the server; each has two flows,
 * buffers in three parts:
 *
 *   0 .. open       may be written
 *   open .. whole   held: whole commands, or any replies
 *   whole .. len    the beginning of a command
 *
 * The thread polls with the mutex free and does all else with it held. Nobody but the thread
 * opens, closes or moves sessions: a test that wants that leaves a wish and waits for it. Modes and
 * counters are changed under the mutex, so a mode is in force for all that is received after
 * the call.
 *
 * A session whose client is gone while requests are held is an orphan: it keeps them until they
 * are to be delivered.
 */
#include "proxy.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSIONS_MAX = 64,
    NAMES_MAX = 32,
    NAME_LEN = 16,
    BLOCK = 64 * 1024,
    PATIENCE_S = 10
};

struct flow {
    char *data;
    size_t size, open, whole, len;
};

struct session {
    int client, server; /* -1: gone */
    bool delivering;
    struct flow flows[2];
};

struct name {
    char text[NAME_LEN];
    long count;
};

struct trigger {
    char command[NAME_LEN];
    long left; /* 0: unused */
    enum proxy_way way;
    enum proxy_mode mode;
};

struct proxy {
    int keeper; /* keeps the port while nobody listens */
    int wake, port, server_port;
    char uri[64];
    pthread_t thread;
    atomic_bool stopping;
    pthread_mutex_t mutex; /* guards all that follows */
    pthread_cond_t changed;
    int listener; /* -1: refuses */
    bool cutting, delivering;
    enum proxy_mode modes[2];
    size_t bytes[2];
    struct name names[NAMES_MAX];
    struct trigger trigger;
    struct session sessions[SESSIONS_MAX];
    int count;
};

/* ---- commands ----------------------------------------------------------- */

/* A line "<kind><number>\r\n" at *at. False: not there, or not all of it. */
static bool read_number(const char *data, size_t len, size_t *at, char kind, size_t *number)
{
    const char *end = len > *at ? memchr(data + *at, '\n', len - *at) : NULL;

    if (end == NULL || data[*at] != kind)
        return false;
    *number = strtoul(data + *at + 1, NULL, 10);
    *at = (size_t)(end - data) + 1;
    return true;
}

/* Bytes of the command data begins with, and its name; 0: not all there. */
static size_t read_command(const char *data, size_t len, char name[NAME_LEN])
{
    size_t at = 0, arguments, size;

    if (!read_number(data, len, &at, '*', &arguments))
        return 0;
    for (size_t i = 0; i < arguments; i++) {
        if (!read_number(data, len, &at, '$', &size) || len - at < size + 2)
            return 0;
        if (i == 0)
            (void)snprintf(name, NAME_LEN, "%.*s", (int)size, data + at);
        at += size + 2;
    }
    return at;
}

/* NULL: none such. */
static struct name *find_name(struct proxy *proxy, const char *text, bool add)
{
    for (int i = 0; i < NAMES_MAX; i++) {
        struct name *name = &proxy->names[i];

        if (name->text[0] == '\0' && add)
            (void)snprintf(name->text, sizeof name->text, "%s", text);
        if (strcmp(name->text, text) == 0)
            return name;
    }
    return NULL;
}

static void pull_trigger(struct proxy *proxy, const char *command)
{
    struct trigger *trigger = &proxy->trigger;

    if (trigger->left > 0 && strcmp(trigger->command, command) == 0 && --trigger->left == 0)
        proxy->modes[trigger->way] = trigger->mode;
}

/* ---- flows -------------------------------------------------------------- */

static void drop(struct flow *flow, size_t from, size_t n)
{
    memmove(flow->data + from, flow->data + from + n, flow->len - from - n);
    flow->len -= n;
}

static void take_requests(struct proxy *proxy, struct flow *flow)
{
    char name[NAME_LEN];
    size_t n;

    while ((n = read_command(flow->data + flow->whole, flow->len - flow->whole, name)) > 0) {
        struct name *known = find_name(proxy, name, true);

        if (known != NULL)
            known->count++;
        pull_trigger(proxy, name);
        if (proxy->modes[PROXY_REQUESTS] == PROXY_SWALLOW) {
            drop(flow, flow->whole, n);
            continue;
        }
        flow->whole += n;
        if (proxy->modes[PROXY_REQUESTS] == PROXY_PASS)
            flow->open = flow->whole;
    }
}

static void take_replies(struct proxy *proxy, struct flow *flow)
{
    if (proxy->modes[PROXY_REPLIES] == PROXY_SWALLOW)
        flow->len = flow->whole;
    flow->whole = flow->len;
    if (proxy->modes[PROXY_REPLIES] == PROXY_PASS)
        flow->open = flow->whole;
}

/* False: nothing more will come. */
static bool receive(struct proxy *proxy, struct flow *flow, enum proxy_way way, int from)
{
    ssize_t n;

    if (flow->size - flow->len < BLOCK) {
        flow->size = flow->len + 2 * (size_t)BLOCK;
        flow->data = realloc(flow->data, flow->size);
        if (flow->data == NULL)
            abort();
    }
    n = recv(from, flow->data + flow->len, BLOCK, MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    flow->len += (size_t)n;
    proxy->bytes[way] += (size_t)n;
    if (way == PROXY_REQUESTS)
        take_requests(proxy, flow);
    else
        take_replies(proxy, flow);
    return true;
}

static void transmit(struct flow *flow, int to)
{
    ssize_t n = 0;

    if (to >= 0 && flow->open > 0)
        n = send(to, flow->data, flow->open, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n <= 0)
        return;
    drop(flow, 0, (size_t)n);
    flow->open -= (size_t)n;
    flow->whole -= (size_t)n;
}

/* ---- sessions ----------------------------------------------------------- */

static void hang_up(int *fd, bool reset)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (*fd < 0)
        return;
    if (reset)
        (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    (void)close(*fd);
    *fd = -1;
}

static void empty(struct flow *flow)
{
    free(flow->data);
    *flow = (struct flow){0};
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void open_session(struct proxy *proxy)
{
    struct sockaddr_in address = loopback(proxy->server_port);
    struct session session = {.client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC)};

    if (session.client < 0)
        return;
    session.server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (session.server < 0 || proxy->count == SESSIONS_MAX ||
        connect(session.server, (struct sockaddr *)&address, sizeof address) != 0) {
        hang_up(&session.client, true);
        hang_up(&session.server, false);
        return;
    }
    proxy->sessions[proxy->count++] = session;
}

static void lose_client(struct session *session, bool reset)
{
    struct flow *requests = &session->flows[PROXY_REQUESTS];

    transmit(requests, session->server);
    hang_up(&session->client, reset);
    empty(&session->flows[PROXY_REPLIES]);
    if (requests->whole == 0)
        hang_up(&session->server, false);
}

/* The kept requests go out, the server sees the end behind them, and answers with its own. */
static void deliver(struct session *session)
{
    struct flow *requests = &session->flows[PROXY_REQUESTS];

    session->delivering = true;
    requests->open = requests->whole;
    transmit(requests, session->server);
    if (requests->open == 0)
        (void)shutdown(session->server, SHUT_WR);
}

static void serve_session(struct proxy *proxy, struct session *session, short client, short server)
{
    struct flow *requests = &session->flows[PROXY_REQUESTS];
    struct flow *replies = &session->flows[PROXY_REPLIES];

    if (client != 0 && !receive(proxy, requests, PROXY_REQUESTS, session->client))
        lose_client(session, false);
    if (server != 0 && session->server >= 0 &&
        !receive(proxy, replies, PROXY_REPLIES, session->server))
        hang_up(&session->server, false);
    if (proxy->cutting && session->client >= 0)
        lose_client(session, true);
    if (session->client >= 0) {
        transmit(requests, session->server);
        transmit(replies, session->client);
    } else if (session->server >= 0) {
        replies->open = replies->whole = replies->len = 0;
        if ((proxy->delivering || session->delivering) && requests->whole > 0)
            deliver(session);
    }
    if (session->server < 0 && replies->len == 0)
        hang_up(&session->client, false);
}

static void forget_ended(struct proxy *proxy)
{
    int kept = 0;

    for (int i = 0; i < proxy->count; i++) {
        struct session *session = &proxy->sessions[i];

        if (session->client >= 0 || session->server >= 0) {
            proxy->sessions[kept++] = *session;
            continue;
        }
        empty(&session->flows[PROXY_REQUESTS]);
        empty(&session->flows[PROXY_REPLIES]);
    }
    proxy->count = kept;
}

/* ---- the thread --------------------------------------------------------- */

static nfds_t fill(const struct proxy *proxy, struct pollfd *fds)
{
    nfds_t n = 0;

    fds[n++] = (struct pollfd){.fd = proxy->wake, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    for (int i = 0; i < proxy->count; i++) {
        const struct session *s = &proxy->sessions[i];
        short to_client = s->flows[PROXY_REPLIES].open > 0 ? POLLOUT : 0;
        short to_server = s->flows[PROXY_REQUESTS].open > 0 ? POLLOUT : 0;
        fds[n++] = (struct pollfd){.fd = s->client, .events = POLLIN | to_client};
        fds[n++] = (struct pollfd){.fd = s->server, .events = POLLIN | to_server};
    }
    return n;
}

static bool has_orphans(const struct proxy *proxy)
{
    bool any = false;
    for (int i = 0; i < proxy->count; i++)
        any |= proxy->sessions[i].client < 0;
    return any;
}

static void serve(struct proxy *proxy, const struct pollfd *fds)
{
    int old = proxy->count;
    uint64_t woken;

    if (fds[0].revents != 0)
        (void)!read(proxy->wake, &woken, sizeof woken);
    if (fds[1].revents != 0)
        open_session(proxy);
    for (int i = 0; i < old; i++)
        serve_session(proxy, &proxy->sessions[i], fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
    forget_ended(proxy);
    proxy->cutting = false;
    if (!has_orphans(proxy))
        proxy->delivering = false;
}

static void *run(void *argument)
{
    struct proxy *proxy = argument;
    struct pollfd fds[2 + 2 * SESSIONS_MAX];

    (void)pthread_mutex_lock(&proxy->mutex);
    while (!proxy->stopping) {
        nfds_t n = fill(proxy, fds);
        (void)pthread_mutex_unlock(&proxy->mutex);
        (void)poll(fds, n, -1);
        (void)pthread_mutex_lock(&proxy->mutex);
        serve(proxy, fds);
        (void)pthread_cond_broadcast(&proxy->changed);
    }
    (void)pthread_mutex_unlock(&proxy->mutex);
    return NULL;
}

static void wake(struct proxy *proxy)
{
    uint64_t one = 1;

    (void)!write(proxy->wake, &one, sizeof one);
}

/* ---- life --------------------------------------------------------------- */

static void start_thread(struct proxy *proxy)
{
    sigset_t all, before;
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&proxy->mutex, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&proxy->changed, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        ck_abort_msg("no thread");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* A socket on this port; 0: on any. */
static int bind_to(int port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0)
        ck_abort_msg("no loopback port");
    return fd;
}

struct proxy *proxy_new(int port)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    struct proxy *proxy = calloc(1, sizeof *proxy);

    ck_assert_ptr_nonnull(proxy);
    proxy->server_port = port;
    proxy->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    proxy->keeper = bind_to(0);
    ck_assert_int_eq(getsockname(proxy->keeper, (struct sockaddr *)&address, &len), 0);
    proxy->port = ntohs(address.sin_port);
    (void)snprintf(proxy->uri, sizeof proxy->uri, "redis://127.0.0.1:%d", proxy->port);
    proxy->listener = bind_to(proxy->port);
    ck_assert_int_eq(listen(proxy->listener, SESSIONS_MAX), 0);
    start_thread(proxy);
    return proxy;
}

void proxy_free(struct proxy *proxy)
{
    if (proxy == NULL)
        return;
    proxy->stopping = true;
    wake(proxy);
    (void)pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->count; i++) {
        hang_up(&proxy->sessions[i].client, true);
        hang_up(&proxy->sessions[i].server, false);
    }
    forget_ended(proxy);
    hang_up(&proxy->listener, false);
    (void)close(proxy->keeper);
    (void)close(proxy->wake);
    (void)pthread_cond_destroy(&proxy->changed);
    (void)pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

const char *proxy_uri(const struct proxy *proxy)
{
    return proxy->uri;
}

/* ---- control ------------------------------------------------------------ */

void proxy_set(struct proxy *proxy, enum proxy_way way, enum proxy_mode mode)
{
    (void)pthread_mutex_lock(&proxy->mutex);
    proxy->modes[way] = mode;
    for (int i = 0; i < proxy->count && mode == PROXY_PASS; i++)
        if (proxy->sessions[i].client >= 0)
            proxy->sessions[i].flows[way].open = proxy->sessions[i].flows[way].whole;
    (void)pthread_mutex_unlock(&proxy->mutex);
    wake(proxy);
}

void proxy_set_at(struct proxy *proxy, const char *command, long k, enum proxy_way way,
                  enum proxy_mode mode)
{
    (void)pthread_mutex_lock(&proxy->mutex);
    proxy->trigger = (struct trigger){.left = k, .way = way, .mode = mode};
    (void)snprintf(proxy->trigger.command, NAME_LEN, "%s", command);
    (void)pthread_mutex_unlock(&proxy->mutex);
}

void proxy_refuse(struct proxy *proxy, int refuse)
{
    int rc = 0;

    (void)pthread_mutex_lock(&proxy->mutex);
    if (refuse) {
        hang_up(&proxy->listener, false);
    } else if (proxy->listener < 0) {
        proxy->listener = bind_to(proxy->port);
        rc = listen(proxy->listener, SESSIONS_MAX);
    }
    (void)pthread_mutex_unlock(&proxy->mutex);
    ck_assert_int_eq(rc, 0);
    wake(proxy);
}

/* ---- counters and waiting ----------------------------------------------- */

/* Waits with the mutex held; false when patience ends. *until begins as zero. */
static bool wait_locked(struct proxy *proxy, struct timespec *until)
{
    if (until->tv_sec == 0) {
        (void)clock_gettime(CLOCK_MONOTONIC, until);
        until->tv_sec += PATIENCE_S;
    }
    return pthread_cond_timedwait(&proxy->changed, &proxy->mutex, until) != ETIMEDOUT;
}

static void wait_for_wish(struct proxy *proxy, const bool *wish, const char *what)
{
    struct timespec until = {0};
    bool in_time = true;

    wake(proxy);
    while (*wish && in_time)
        in_time = wait_locked(proxy, &until);
    (void)pthread_mutex_unlock(&proxy->mutex);
    ck_assert_msg(in_time, "proxy: %s takes too long", what);
}

void proxy_cut(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->mutex);
    proxy->modes[PROXY_REQUESTS] = proxy->modes[PROXY_REPLIES] = PROXY_PASS;
    proxy->trigger.left = 0;
    proxy->cutting = true;
    wait_for_wish(proxy, &proxy->cutting, "cutting");
}

void proxy_deliver(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->mutex);
    proxy->delivering = has_orphans(proxy);
    wait_for_wish(proxy, &proxy->delivering, "delivering");
}

/* What can be counted: commands of a name, bytes received, bytes held. */
struct counter {
    const char *command; /* NULL: bytes */
    enum proxy_way way;
    bool held;
};

static size_t count_locked(struct proxy *proxy, const struct counter *counter)
{
    size_t sum = 0;

    if (counter->command != NULL) {
        const struct name *name = find_name(proxy, counter->command, false);
        return name == NULL ? 0 : (size_t)name->count;
    }
    if (!counter->held)
        return proxy->bytes[counter->way];
    for (int i = 0; i < proxy->count; i++) {
        const struct flow *flow = &proxy->sessions[i].flows[counter->way];
        sum += flow->whole - flow->open;
    }
    return sum;
}

/* Waits until it's at least n, if n > 0. */
static size_t count(struct proxy *proxy, struct counter counter, size_t n)
{
    struct timespec until = {0};
    size_t found;

    (void)pthread_mutex_lock(&proxy->mutex);
    do
        found = count_locked(proxy, &counter);
    while (found < n && wait_locked(proxy, &until));
    (void)pthread_mutex_unlock(&proxy->mutex);
    ck_assert_msg(found >= n, "proxy: %zu %s, not %zu", found,
                  counter.command != NULL ? counter.command : "bytes", n);
    return found;
}

long proxy_count(struct proxy *proxy, const char *command)
{
    return (long)count(proxy, (struct counter){.command = command}, 0);
}

void proxy_await_command(struct proxy *proxy, const char *command, long k)
{
    (void)count(proxy, (struct counter){.command = command}, (size_t)k);
}

void proxy_await_bytes(struct proxy *proxy, enum proxy_way way, size_t n)
{
    (void)count(proxy, (struct counter){.way = way}, n);
}

void proxy_await_held(struct proxy *proxy, enum proxy_way way, size_t n)
{
    (void)count(proxy, (struct counter){.way = way, .held = true}, n);
}
