/* The library's side: clients of the first n primaries. */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "bench.h"

enum {
    OURS_TTL_MS = 30000,
    OURS_KEY = 96
};

/* Own primaries belong together in the number that is used; sees to that. Named ones are as they
 * are. False: said. */
bool ours_mark(struct bench *bench, unsigned n);

/* As the library has them by default, with these primaries and their password. The uris are the
 * bench's. */
void ours_options(const struct bench *bench, unsigned n, redlock_options *options);

/* Connected to all that can be reached, and with a lock taken and given back, so that nothing is
 * left to be set up. ours_mark() is called. NULL: said, unless `refused` isn't NULL and the
 * primaries don't fit together in this number, which is left there. */
redlock_client *ours_open(struct bench *bench, unsigned n, bool external_loop, bool *refused);

/* Names of this process: redlock-bench:PID:WHAT */
void ours_key(char key[OURS_KEY], const char *what, unsigned number);

#endif
