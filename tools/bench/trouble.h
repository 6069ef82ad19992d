/* Cycles of acquire and release, one after the other, and what came of them. */
#ifndef BENCH_TROUBLE_H
#define BENCH_TROUBLE_H

#include "bench.h"
#include "hist.h"

struct cycles {
    uint64_t tried, held; /* held: acquired, and released by a majority */
    int rc;               /* the last that was not 0 */
    struct hist acquire, release;
};

void cycles_clear(struct cycles *cycles);
/* Times of those that failed are not in the histograms. */
void cycles_run(struct cycles *cycles, redlock_client *client, const char *key);
/* As many as can be had in that time, at least one. */
void cycles_run_for(struct cycles *cycles, redlock_client *client, const char *key,
                    int64_t duration_ns, volatile const int *interrupted);

/* A connection that asks one thing, PING, and waits for the answer, whatever that is. */
int ping_open(int port);        /* on 127.0.0.1; -1: errno */
bool ping(int fd, int64_t *ns); /* false: no answer within a few seconds */

#endif
