/*
 * Servers of the bench's own, for where no primaries are named: on free loopback ports, nothing on
 * disk. They die with the thread that started them, whatever ends it.
 */
#ifndef BENCH_SERVERS_H
#define BENCH_SERVERS_H

#include <stddef.h>
#include <sys/types.h>

enum {
    SERVERS_MOST = 7,
    SERVERS_URI = 48
};

struct servers {
    unsigned count;
    pid_t pids[SERVERS_MOST];
    char uris[SERVERS_MOST][SERVERS_URI];
    char program[4096]; /* its path */
};

/* redis-server or valkey-server on PATH. 0, or -1: neither is there. */
int servers_find(struct servers *servers);

/* Returns when all answer: 0, or -1 and the reason; what was started is to be ended all the same.
 */
int servers_start(struct servers *servers, unsigned count, char *problem, size_t size);
void servers_end(struct servers *servers);

#endif
