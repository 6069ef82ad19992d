/* A primary's URI, led to another port of this machine. Pure. */
#ifndef BENCH_REROUTE_H
#define BENCH_REROUTE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    REROUTE_URI_LEN = 10240 /* user and password as the library takes them, and the rest */
};

/* The port of a primary on 127.0.0.1; 0, and why: it can not be rerouted. */
int reroute_port(const char *uri, const char **why);
/* The same primary, database, user and password, by 127.0.0.1:port. False: it doesn't fit. Only for
 * one that reroute_port() takes. */
bool reroute_uri(const char *uri, int port, char *text, size_t size);

#endif
