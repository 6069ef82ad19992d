/* Connections that are not the library's: of the floor, and to ask a primary for its counters. */
#ifndef BENCH_DIAL_H
#define BENCH_DIAL_H

#include <hiredis/hiredis.h>

#include "bench.h"

/* Blocking, logged in, its database chosen. NULL and the reason in `problem`, without passwords. */
redisContext *dial(const struct bench *bench, unsigned i, char *problem, size_t size);

/* One command, whose reply is 0 or more; -1 on any failure. */
long long dial_number(redisContext *context, const char *command);

/* How many acquires, extends and releases a primary was asked for so far, as its INFO commandstats
 * counts them; what a script calls is left out, but for a fenced SET. -1: it doesn't say. */
long long dial_commands(const struct bench *bench, unsigned i);

#endif
