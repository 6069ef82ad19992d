/*
 * See resolver.h. A lookup's mutex guards its result, its count of owners and the
 * right to write to wake_fd: the thread does so only while the asker still holds on, and the asker
 * lets go under that same mutex before it closes the descriptor.
 */
#include "resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "system.h"
#include "validity.h"

enum {
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_PROBES = 3
};

struct redlock__lookup {
    pthread_mutex_t mutex;
    uint32_t owners;
    bool over;
    int wake_fd; /* -1: nobody asks any more */
    const char *text;
    struct redlock__addresses addresses;
    char port[8];
    char host[REDLOCK__MAX_HOST_LEN + 1];
};

/* ---- sockets ------------------------------------------------------------ */

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

int redlock__open_socket(int family, int64_t user_timeout_ms)
{
#if defined(SOCK_CLOEXEC)
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
#else
    int fd = socket(family, SOCK_STREAM, 0);
    if (fd >= 0 && !redlock__set_up_descriptor(fd)) {
        (void)close(fd);
        return -1;
    }
#endif
    if (fd < 0)
        return -1;
#if defined(SO_NOSIGPIPE)
    set_option(fd, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
    if (family == AF_UNIX)
        return fd;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
#if defined(__linux__)
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)redlock__min(user_timeout_ms, INT32_MAX));
#endif
    return fd;
}

bool redlock__is_itself(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_len = sizeof here, there_len = sizeof there;

    if (getsockname(fd, (struct sockaddr *)&here, &here_len) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_len) != 0)
        return false;
    return here.ss_family != AF_UNIX && here_len == there_len &&
           memcmp(&here, &there, here_len) == 0;
}

/* ---- addresses ---------------------------------------------------------- */

static void add_address(struct redlock__addresses *addresses, const void *address, socklen_t len)
{
    struct redlock__address *to = &addresses->list[addresses->count];

    if (addresses->count == REDLOCK__MAX_ADDRESSES || len > sizeof to->storage)
        return;
    memcpy(&to->storage, address, len);
    to->len = len;
    addresses->count++;
}

bool redlock__resolve_directly(const struct redlock__endpoint *endpoint,
                               struct redlock__addresses *addresses)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(endpoint->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(endpoint->port)};

    addresses->count = 0;
    if (endpoint->local) {
        size_t len = strlen(endpoint->host) + 1;
        if (len <= sizeof local.sun_path) {
            memcpy(local.sun_path, endpoint->host, len);
            add_address(addresses, &local, sizeof local);
        }
    } else if (inet_pton(AF_INET, endpoint->host, &v4.sin_addr) == 1) {
        add_address(addresses, &v4, sizeof v4);
    } else if (inet_pton(AF_INET6, endpoint->host, &v6.sin6_addr) == 1) {
        add_address(addresses, &v6, sizeof v6);
    }
    return addresses->count != 0;
}

/* ---- lookups ------------------------------------------------------------ */

/* Frees it if this was the last owner; called with the mutex held. */
static void let_go_locked(struct redlock__lookup *lookup)
{
    bool last = --lookup->owners == 0;

    (void)pthread_mutex_unlock(&lookup->mutex);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

static void *run_lookup(void *argument)
{
    struct redlock__lookup *lookup = argument;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(lookup->host, lookup->port, &hints, &found);

    (void)pthread_mutex_lock(&lookup->mutex);
    for (struct addrinfo *a = rc == 0 ? found : NULL; a != NULL; a = a->ai_next)
        add_address(&lookup->addresses, a->ai_addr, a->ai_addrlen);
    if (lookup->addresses.count == 0)
        lookup->text = rc == 0 ? "no address" : gai_strerror(rc);
    lookup->over = true;
    if (lookup->wake_fd >= 0 && write(lookup->wake_fd, "", 1) < 0) {
        /* The pipe is full: it will wake its reader anyway. */
    }
    let_go_locked(lookup);
    if (rc == 0)
        freeaddrinfo(found);
    return NULL;
}

struct redlock__lookup *redlock__lookup_new(const struct redlock__endpoint *endpoint, int wake_fd)
{
    struct redlock__lookup *lookup = calloc(1, sizeof *lookup);
    pthread_t thread;

    if (lookup == NULL)
        return NULL;
    if (pthread_mutex_init(&lookup->mutex, NULL) != 0) {
        free(lookup);
        return NULL;
    }
    lookup->owners = 2;
    lookup->wake_fd = wake_fd;
    memcpy(lookup->host, endpoint->host, sizeof lookup->host);
    (void)snprintf(lookup->port, sizeof lookup->port, "%u", (unsigned)endpoint->port);
    if (redlock__start_thread(&thread, true, run_lookup, lookup) != 0) {
        (void)pthread_mutex_destroy(&lookup->mutex);
        free(lookup);
        return NULL;
    }
    return lookup;
}

bool redlock__lookup_result(struct redlock__lookup *lookup, struct redlock__addresses *addresses,
                            const char **text)
{
    bool over;

    (void)pthread_mutex_lock(&lookup->mutex);
    over = lookup->over;
    if (over) {
        *addresses = lookup->addresses;
        *text = lookup->text;
    }
    (void)pthread_mutex_unlock(&lookup->mutex);
    return over;
}

void redlock__lookup_free(struct redlock__lookup *lookup)
{
    if (lookup == NULL)
        return;
    (void)pthread_mutex_lock(&lookup->mutex);
    lookup->wake_fd = -1;
    let_go_locked(lookup);
}
