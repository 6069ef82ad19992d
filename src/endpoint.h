/*
 * Where a primary is and how to log in there, taken from a URI. Pure.
 */
#ifndef REDLOCK__ENDPOINT_H
#define REDLOCK__ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

enum {
    REDLOCK__DEFAULT_PORT = 6379,
    REDLOCK__MAX_HOST_LEN = 238, /* so that host, port and database fit into an address text */
    REDLOCK__MAX_IPV6_LEN = 45,
    REDLOCK__MAX_PATH_LEN = 103,   /* what every system's sun_path holds */
    REDLOCK__MAX_SECRET_LEN = 4096 /* of a user or a password */
};

struct redlock__endpoint {
    /* For people, and what tells one primary from another: host:port, [v6]:port or
     * the path, then the database if it is not 0. No user, no password. */
    char address[REDLOCK_ADDRESS_LEN];
    char host[REDLOCK__MAX_HOST_LEN + 1]; /* lower case; without brackets; or the path */
    bool local;                           /* host is the path of a unix socket */
    bool numeric;                         /* host is an IPv4 or IPv6 address */
    bool tls;                             /* rediss:// */
    uint16_t port;
    uint32_t database;
    char *user;     /* NULL: none */
    char *password; /* NULL: no AUTH */
};

/* Takes one URI apart. 0; ERR_URI, ERR_UNSUPPORTED or ERR_MEMORY with the reason. On an error
 * nothing in *endpoint needs to be freed. */
int redlock__endpoint_parse(const char *uri, struct redlock__endpoint *endpoint,
                            const char **reason);
void redlock__endpoint_clear(struct redlock__endpoint *endpoint);

#endif
