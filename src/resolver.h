/*
 * From endpoints to sockets, without ever waiting.
 *
 * A numeric address and a socket's path are turned on the spot. A name goes to
 * getaddrinfo() in a thread of its own, one per lookup: it knows no time limit and can't be
 * stopped, so a lookup is a job with two owners, the thread and whoever asked. The last one to let
 * go frees it, so a lookup that hangs for ever costs one sleeping thread, and nobody waits for it.
 */
#ifndef REDLOCK__RESOLVER_H
#define REDLOCK__RESOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "endpoint.h"

enum {
    REDLOCK__MAX_ADDRESSES = 16
}; /* of one name; further ones are not tried */

struct redlock__addresses {
    uint32_t count;
    struct redlock__address {
        struct sockaddr_storage storage;
        socklen_t len;
    } list[REDLOCK__MAX_ADDRESSES];
};

/* Of a numeric or local endpoint. False: the system does not understand it. */
bool redlock__resolve_directly(const struct redlock__endpoint *endpoint,
                               struct redlock__addresses *addresses);

struct redlock__lookup;

/* Starts a lookup; wake_fd (a non-blocking pipe) gets one byte when it is over. NULL: no memory
 * or no thread. */
struct redlock__lookup *redlock__lookup_new(const struct redlock__endpoint *endpoint, int wake_fd);

/* False: still running. True: *addresses is filled; or its count is 0 and *text (static) says why.
 */
bool redlock__lookup_result(struct redlock__lookup *lookup, struct redlock__addresses *addresses,
                            const char **text);

/* Whoever asked lets go; wake_fd is not touched after this. NULL accepted. */
void redlock__lookup_free(struct redlock__lookup *lookup);

/* A stream socket that doesn't block and is closed on exec; -1: errno. Bytes that the peer
 * doesn't acknowledge for user_timeout_ms end the connection, where the system can do that. */
int redlock__open_socket(int family, int64_t user_timeout_ms);

/* The socket is connected to itself: a port in the range of local ports, that nobody
 * listens on, can be. */
bool redlock__is_itself(int fd);

#endif
