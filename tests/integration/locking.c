/*
 * See locking.h.
 */
#include "locking.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "servers.h"

redlock_node_result results[N];

redlock_options options_for(const char *const *uris, size_t n)
{
    redlock_options options;

    redlock_options_init(&options);
    options.nodes = uris;
    options.node_count = n;
    options.restart_guard_ms = 0; /* new servers without markers are to count at once */
    return options;
}

redlock_client *new_client(const redlock_options *options)
{
    redlock_client *client = NULL;
    char text[256];
    int rc = redlock_client_new(options, &client, text, sizeof text);

    ck_assert_msg(rc == 0, "%s: %s", redlock_strerror(rc), text);
    return client;
}

redlock_client *client_of(const char *const *uris, size_t n, int64_t node_timeout_ms)
{
    redlock_options options = options_for(uris, n);

    options.node_timeout_ms = node_timeout_ms;
    options.silence_limit_ms = 60000;
    return new_client(&options);
}

redlock_lock_options lock_options(int64_t ttl_ms, int64_t wait_ms)
{
    redlock_lock_options options;

    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    options.results = results;
    options.result_count = N;
    return options;
}

void assert_rc(int rc, int wanted)
{
    char text[N * 160] = "";
    size_t used = 0;

    for (int i = 0; i < N; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "; %s %s",
                                 redlock_vote_name(results[i].vote), results[i].text);
    ck_assert_msg(rc == wanted, "'%s', not '%s'%s", redlock_strerror(rc), redlock_strerror(wanted),
                  text);
}

redlock_lock *acquire(redlock_client *client, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;

    assert_rc(redlock_acquire(client, "job", 3, options, &lock), REDLOCK_OK);
    return lock;
}

int try_lock(redlock_client *client, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, "job", 3, options, &lock);

    return rc == 0 ? redlock_release(lock) : rc;
}

int has_key(int i)
{
    return strcmp(servers_command(i, "EXISTS", "job", NULL), "1") == 0;
}

int is_settled(const redlock_client *client, size_t n)
{
    redlock_node_health health[N];
    size_t all = redlock_health(client, health, N), ready = 0;
    uint32_t pending = 0;

    for (size_t i = 0; i < all; i++) {
        ready += health[i].state == REDLOCK_NODE_READY;
        pending += health[i].pending;
    }
    return pending == 0 && ready == n;
}

redlock_client *settled_five(void)
{
    redlock_options options = options_for(servers_uris(), N);
    redlock_client *client;

    options.node_timeout_ms = 5000;
    client = new_client(&options);
    AWAIT(is_settled(client, N));
    return client;
}

void acquire_all(redlock_client *client, redlock_lock **locks, uint32_t count, uint32_t at_once,
                 const redlock_lock_options *options)
{
    for (uint32_t begun = 0; begun < count; begun += at_once) {
        for (uint32_t i = begun; i < begun + at_once; i++)
            if (redlock_start_acquire(client, &i, sizeof i, options, &locks[i]) != 0)
                ck_abort_msg("not begun");
        for (uint32_t i = begun; i < begun + at_once; i++) {
            AWAIT(redlock_poll_result(locks[i]) != REDLOCK_PENDING);
            if (redlock_poll_result(locks[i]) != REDLOCK_OK)
                ck_abort_msg("not held: %s", redlock_strerror(redlock_poll_result(locks[i])));
        }
    }
}

void release_all(redlock_lock **locks, uint32_t count, uint32_t at_once)
{
    for (uint32_t begun = 0; begun < count; begun += at_once) {
        for (uint32_t i = begun; i < begun + at_once; i++)
            if (redlock_start_release(locks[i]) != 0)
                ck_abort_msg("no release begun");
        for (uint32_t i = begun; i < begun + at_once; i++) {
            int rc = redlock_release(locks[i]);

            if (rc != REDLOCK_OK)
                ck_abort_msg("not released: %s", redlock_strerror(rc));
        }
    }
}
