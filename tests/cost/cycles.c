/*
 * Acquires and releases one lock a number of times, for tools that count what that costs: the
 * script check_cost.sh, strace, perf.
 *
 *     cycles COUNT plain|unguarded|fenced|extend ENDPOINT...
 *
 * The lock is warm before the count begins; so the difference between two runs with different
 * counts is what the cycles cost, whatever thread paid for it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

enum {
    WARM = 200
};

static int fail(const char *what, int rc)
{
    fprintf(stderr, "cycles: %s: %s\n", what, redlock_strerror(rc));
    return EXIT_FAILURE;
}

static int cycle(redlock_client *client, const redlock_lock_options *options, int extend)
{
    redlock_lock *lock;
    int rc = redlock_acquire(client, "cycles", 6, options, &lock);

    if (rc == REDLOCK_OK && extend)
        rc = redlock_extend(lock, 0);
    if (rc == REDLOCK_OK)
        rc = redlock_release(lock);
    return rc;
}

int main(int argc, char **argv)
{
    redlock_options client_options;
    redlock_lock_options lock_options;
    redlock_client *client;
    int rc;

    if (argc < 4) {
        fprintf(stderr, "usage: cycles COUNT plain|unguarded|fenced|extend ENDPOINT...\n");
        return 64;
    }
    redlock_options_init(&client_options);
    if (strcmp(argv[2], "unguarded") == 0)
        client_options.restart_guard_ms = 0;
    redlock_lock_options_init(&lock_options);
    lock_options.ttl_ms = 30000;
    lock_options.wait_ms = 10000; /* a slow start under such a tool isn't what is counted */
    lock_options.fence = strcmp(argv[2], "fenced") == 0;
    client_options.nodes = (const char *const *)argv + 3;
    client_options.node_count = (size_t)argc - 3;
    rc = redlock_client_new(&client_options, &client, NULL, 0);
    if (rc != REDLOCK_OK)
        return fail("open", rc);
    for (long i = 0, count = WARM + atol(argv[1]); i < count && rc == REDLOCK_OK; i++)
        rc = cycle(client, &lock_options, strcmp(argv[2], "extend") == 0);
    redlock_client_free(client);
    return rc == REDLOCK_OK ? EXIT_SUCCESS : fail("cycle", rc);
}
