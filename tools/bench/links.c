/*
 * The child is told by records on a socket pair, does what they say, and answers each with a 0.
 * Its first record is the ports of the links. The end of the socket is its end.
 */
#include "links.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "../chaos/proxy.h"
#include "reroute.h"

struct order {
    unsigned link;
    enum links_state state;
    int64_t ns;
};

struct greeting {
    int error;
    int ports[LINKS_MAX];
};

struct links {
    struct bench *bench;
    unsigned n;
    int targets[LINKS_MAX];
    char *uris[LINKS_MAX];
    int ports[LINKS_MAX];
    pid_t child;
    int fd;
};

/* ---- in the child --------------------------------------------------------------------------- */

static void obey(struct link *link, const struct order *order)
{
    struct delay late = {.law = LAW_CONSTANT, .base_ns = order->ns};
    struct delay half = {.law = LAW_CONSTANT, .base_ns = order->ns / 2};

    switch (order->state) {
    case LINKS_WELL:
        link_heal(link);
        break;
    case LINKS_FARTHER:
        link_delay(link, REQUESTS, half);
        link_delay(link, REPLIES, half);
        break;
    case LINKS_SILENT:
        link_flow(link, REQUESTS, FLOW_SWALLOW);
        link_flow(link, REPLIES, FLOW_SWALLOW);
        break;
    case LINKS_REFUSE:
        link_refuse(link, true);
        link_reset(link);
        break;
    case LINKS_SLOW:
        link_delay(link, REPLIES, late);
        break;
    }
}

static struct greeting make_links(const struct links *links, struct proxy **proxy,
                                  struct link *made[])
{
    struct greeting greeting = {.error = 0};
    char name[16];

    *proxy = proxy_new(1, NULL, NULL);
    if (*proxy == NULL)
        greeting.error = errno;
    for (unsigned i = 0; i < links->n && greeting.error == 0; i++) {
        (void)snprintf(name, sizeof name, "%u", i);
        made[i] = proxy_link(*proxy, name, links->targets[i]);
        if (made[i] == NULL)
            greeting.error = errno;
        else
            greeting.ports[i] = link_port(made[i]);
    }
    return greeting;
}

/* Ends the process. */
static void serve(const struct links *links, int fd, pid_t parent)
{
    struct link *made[LINKS_MAX];
    struct proxy *proxy;
    struct greeting greeting;
    struct order order;
    int done = 0;

#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    if (getppid() != parent)
        _exit(1);
    greeting = make_links(links, &proxy, made);
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) < 0 || greeting.error != 0)
        _exit(1);
    while (recv(fd, &order, sizeof order, 0) == (ssize_t)sizeof order && order.link < links->n) {
        obey(made[order.link], &order);
        if (send(fd, &done, sizeof done, MSG_NOSIGNAL) < 0)
            break;
    }
    proxy_free(proxy);
    _exit(0);
}

/* ---- in the parent -------------------------------------------------------------------------- */

/* A whole record. False: the child is gone. */
static bool receive(int fd, void *record, size_t size)
{
    ssize_t n;

    do
        n = recv(fd, record, size, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

static bool start(struct links *links)
{
    int fds[2];
    pid_t parent = getpid();

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        return bench_fail(links->bench, "no proxy: %s", strerror(errno));
    links->fd = fds[0];
    links->child = fork();
    if (links->child == 0) {
        (void)close(fds[0]);
        serve(links, fds[1], parent);
    }
    (void)close(fds[1]);
    if (links->child > 0)
        return true;
    links->child = 0;
    return bench_fail(links->bench, "no proxy: %s", strerror(errno));
}

static bool greet(struct links *links)
{
    struct greeting greeting;

    if (!receive(links->fd, &greeting, sizeof greeting))
        return bench_fail(links->bench, "the proxy ended");
    if (greeting.error != 0)
        return bench_fail(links->bench, "the proxy can't make its links: %s",
                          strerror(greeting.error));
    memcpy(links->ports, greeting.ports, sizeof links->ports);
    return true;
}

static bool make_targets(struct links *links, const char *const *uris)
{
    for (unsigned i = 0; i < links->n; i++) {
        const char *why;

        links->targets[i] = reroute_port(uris[i], &why);
        if (links->targets[i] == 0) /* without the URI, which may hold a password */
            return bench_fail(links->bench, "primary %u can't be put behind a proxy: %s", i + 1,
                              why);
    }
    return true;
}

static bool make_uris(struct links *links, const char *const *uris)
{
    for (unsigned i = 0; i < links->n; i++) {
        links->uris[i] = malloc(REROUTE_URI_LEN);
        if (links->uris[i] == NULL ||
            !reroute_uri(uris[i], links->ports[i], links->uris[i], REROUTE_URI_LEN))
            return bench_fail(links->bench, "no memory for the URI of a link");
    }
    return true;
}

struct links *links_open(struct bench *bench, const char *const *uris, unsigned n)
{
    struct links *links = calloc(1, sizeof *links);

    if (links == NULL || n > LINKS_MAX) {
        (void)bench_fail(bench, "no memory for links");
        free(links);
        return NULL;
    }
    links->bench = bench;
    links->n = n;
    links->fd = -1;
    if (make_targets(links, uris) && start(links) && greet(links) && make_uris(links, uris))
        return links;
    links_close(links);
    return NULL;
}

void links_close(struct links *links)
{
    if (links == NULL)
        return;
    if (links->fd >= 0)
        (void)close(links->fd);
    if (links->child > 0)
        while (waitpid(links->child, NULL, 0) < 0 && errno == EINTR)
            ;
    for (unsigned i = 0; i < links->n; i++)
        free(links->uris[i]);
    free(links);
}

const char *const *links_uris(const struct links *links)
{
    return (const char *const *)links->uris;
}

int links_port(const struct links *links, unsigned i)
{
    return links->ports[i];
}

bool links_set(struct links *links, unsigned i, enum links_state state, int64_t ns)
{
    struct order order = {.link = i, .state = state, .ns = ns};
    int done;

    if (send(links->fd, &order, sizeof order, MSG_NOSIGNAL) == (ssize_t)sizeof order &&
        receive(links->fd, &done, sizeof done) && done == 0)
        return true;
    return bench_fail(links->bench, "the proxy ended");
}
