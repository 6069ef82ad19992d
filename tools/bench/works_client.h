/* Clients of the library as the works use them. */
#ifndef BENCH_WORKS_CLIENT_H
#define BENCH_WORKS_CLIENT_H

#include <stddef.h>

#include "bench.h"

enum {
    WORKS_TTL_MS = 10000,
    WORKS_TEXT_LEN = 512,
    WORKS_KEY_LEN = 64
};

/* A client of these primaries, with the bench's password, that is connected to all of them, each of
 * which counts, and that has had a lock once. NULL, and text says why: it didn't come to that
 * within a few seconds. Marks nothing. */
redlock_client *works_client(const struct bench *bench, const char *const *uris, unsigned n,
                             char text[WORKS_TEXT_LEN]);

/* A name that no other process uses. */
void works_key(char key[WORKS_KEY_LEN], const char *name);

/* How long one side is measured: bench->seconds, but at least `least`; below half a second it is
 * taken as it is, and the figures mean nothing: a trial. */
double works_seconds(const struct bench *bench, double least);

void works_sleep_until(int64_t ns); /* of bench_now_ns() */
void works_sleep(int64_t ns);

#endif
