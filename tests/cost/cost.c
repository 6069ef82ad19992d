/*
 * Acquires and releases a lock over a network that costs nothing, inside a function of its own, so
 * that callgrind counts that alone: see check_cost.sh.
 *
 *     cost plain|unguarded|fenced|extend ENDPOINT...
 *
 * Says how many cycles were counted, and how many system calls they made.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "redlock.h"

enum {
    CYCLES = 100,
    WARM = 200,
    SAMPLE_MS = 5000
};

void measured(redlock_client *client, const redlock_lock_options *options, int extend);

static void check(int rc, const char *what)
{
    if (rc == REDLOCK_OK)
        return;
    fprintf(stderr, "cost: %s: %s\n", what, redlock_strerror(rc));
    exit(EXIT_FAILURE);
}

static void cycle(redlock_client *client, const redlock_lock_options *options, int extend)
{
    redlock_lock *lock;

    check(redlock_acquire(client, "cost", 4, options, &lock), "acquire");
    if (extend)
        check(redlock_extend(lock, 0), "extend");
    check(redlock_release(lock), "release");
}

__attribute__((noinline)) void measured(redlock_client *client, const redlock_lock_options *options,
                                        int extend)
{
    for (int i = 0; i < CYCLES; i++)
        cycle(client, options, extend);
}

int main(int argc, char **argv)
{
    redlock_options options;
    redlock_lock_options lock_options;
    redlock_client *client;
    struct network_calls calls;
    int extend;

    if (argc < 3) {
        fprintf(stderr, "usage: cost plain|unguarded|fenced|extend ENDPOINT...\n");
        return 64;
    }
    extend = strcmp(argv[1], "extend") == 0;
    redlock_options_init(&options);
    options.nodes = (const char *const *)argv + 2;
    options.node_count = (size_t)argc - 2;
    if (strcmp(argv[1], "unguarded") == 0)
        options.restart_guard_ms = 0;
    check(redlock_client_new(&options, &client, NULL, 0), "client");
    redlock_lock_options_init(&lock_options);
    lock_options.ttl_ms = 30000;
    lock_options.wait_ms = 60000;
    lock_options.fence = strcmp(argv[1], "fenced") == 0;
    for (int i = 0; i < WARM; i++)
        cycle(client, &lock_options, extend);
    /* Once a second the primaries are asked for the time; that just happened. */
    (void)network_saw_sample();
    for (int i = 0; i < SAMPLE_MS && !network_saw_sample(); i++) {
        cycle(client, &lock_options, extend);
        (void)poll(NULL, 0, 1);
    }
    (void)poll(NULL, 0, 50); /* and was answered */
    cycle(client, &lock_options, extend);
    (void)poll(NULL, 0, 50);
    network_instead(true);
    cycle(client, &lock_options, extend); /* what was left to read */
    network_instead(true);
    measured(client, &lock_options, extend);
    calls = network_calls();
    printf("cycles %d\nsends %.2f\nreceives %.2f\npolls %.2f\n", CYCLES,
           (double)calls.sends / CYCLES, (double)calls.receives / CYCLES,
           (double)calls.polls / CYCLES);
    network_instead(false);
    redlock_client_free(client);
    return EXIT_SUCCESS;
}
