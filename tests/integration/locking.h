/*
 * What tests of a client on five servers share. A lock made with lock_options() records what
 * each primary said, and assert_rc() tells it when a result is not the wanted one.
 */
#ifndef TESTS_LOCKING_H
#define TESTS_LOCKING_H

#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

enum {
    N = 5
};

extern redlock_node_result results[N];

/* Without the restart guard: tests are about something else unless they say so. */
redlock_options options_for(const char *const *uris, size_t n);
redlock_client *new_client(const redlock_options *options);
/* With a node timeout of its own; never gives up a silent link. */
redlock_client *client_of(const char *const *uris, size_t n, int64_t node_timeout_ms);
redlock_lock_options lock_options(int64_t ttl_ms, int64_t wait_ms);
void assert_rc(int rc, int wanted);
/* "job"; the test fails if it is not held. */
redlock_lock *acquire(redlock_client *client, const redlock_lock_options *options);
/* Acquires "job" and releases it. */
int try_lock(redlock_client *client, const redlock_lock_options *options);
int has_key(int i);
/* Locks on as many names, `at_once` of them begun before they are waited for; `count` is a multiple
 * of that. The test fails if one is not held. */
void acquire_all(redlock_client *client, redlock_lock **locks, uint32_t count, uint32_t at_once,
                 const redlock_lock_options *options);
/* The test fails if one was not held till then. */
void release_all(redlock_lock **locks, uint32_t count, uint32_t at_once);
/* Of the five servers, connected to all of them, and patient on a busy machine. */
redlock_client *settled_five(void);
/* Connected to n, and nothing is owed: every answer so far has been read. */
int is_settled(const redlock_client *client, size_t n);

#endif
