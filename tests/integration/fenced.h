/*
 * What tests of fencing tokens on real servers share: primaries marked for a ttl of a second, so
 * that the restart guard is two; and one memory of all tokens of "job", which only rise.
 */
#ifndef TESTS_FENCED_H
#define TESTS_FENCED_H

#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

enum {
    FENCED_MAX_TTL_MS = 1000,
    FENCED_TTL_MS = 900
};

#define FENCED_COUNTER "redlock:fence:{job}"

/* Marks the first n servers, on which no lease is out. Tokens begin anew. */
void fenced_mark(size_t n);
redlock_client *fenced_client(const char *const *uris, size_t n);
redlock_lock_options fenced_options(int64_t wait_ms);
/* "job", with a token above all before. */
redlock_lock *fenced_take(redlock_client *client);
/* Takes and releases it; the token. */
int64_t fenced_cycle(redlock_client *client);
int64_t fenced_last(void);

/* The number in a key of a server, a score of a set, -1: none. */
int64_t fenced_number(int i, const char *key);
/* Of its base, -1: none, or it is of an earlier run of the server. */
int64_t fenced_base(int i);
/* All n have the same counter, and nothing is under way. */
int fenced_in_step(const redlock_client *client, size_t n);

#endif
