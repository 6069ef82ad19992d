/*
 * See fenced.h.
 */
#include "fenced.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "fence.h"
#include "locking.h"
#include "servers.h"

static int64_t last;

redlock_client *fenced_client(const char *const *uris, size_t n)
{
    redlock_options options = options_for(uris, n);

    options.restart_guard_ms = REDLOCK_GUARD_AUTO;
    options.node_timeout_ms = 500;
    options.silence_limit_ms = 60000;
    return new_client(&options);
}

void fenced_mark(size_t n)
{
    redlock_options options = options_for(servers_uris(), n);
    redlock_init_options init;
    int64_t wait_ms;
    redlock_client *client;

    options.restart_guard_ms = REDLOCK_GUARD_AUTO;
    options.max_ttl_ms = FENCED_MAX_TTL_MS;
    options.node_timeout_ms = 500; /* as above: a loaded machine is no silent one */
    client = new_client(&options);
    redlock_init_options_init(&init);
    init.no_leases_out = 1;
    ck_assert_int_eq(redlock_init(client, &init, results, n, &wait_ms), 0);
    redlock_client_free(client);
    last = 0;
}

redlock_lock_options fenced_options(int64_t wait_ms)
{
    redlock_lock_options options = lock_options(FENCED_TTL_MS, wait_ms);

    options.fence = 1;
    return options;
}

redlock_lock *fenced_take(redlock_client *client)
{
    redlock_lock_options options = fenced_options(5000);
    redlock_lock *lock = acquire(client, &options);
    int64_t token = redlock_fence(lock);

    ck_assert_int_gt(token, last);
    last = token;
    return lock;
}

int64_t fenced_cycle(redlock_client *client)
{
    ck_assert_int_eq(redlock_release(fenced_take(client)), 0);
    return last;
}

int64_t fenced_last(void)
{
    return last;
}

int64_t fenced_number(int i, const char *key)
{
    char line[200];
    int64_t number;
    const char *text = servers_command(i, "ZRANGE", key, "0", "-1", "WITHSCORES", NULL);
    const char *score = strchr(text, '\n');

    if (score == NULL)
        return -1;
    (void)snprintf(line, sizeof line, "%.*s", (int)strcspn(score + 1, "\n"), score + 1);
    return redlock__fence_parse(line, &number) ? number : -1;
}

int64_t fenced_base(int i)
{
    struct redlock__base base;
    char text[REDLOCK__BASE_LEN];
    const char *run_id;

    (void)snprintf(text, sizeof text, "%s",
                   servers_command(i, "ZRANGE", REDLOCK__FLOOR_KEY, "0", "-1", NULL));
    text[strcspn(text, "\n")] = '\0';
    if (!redlock__base_parse(text, &base))
        return -1;
    run_id = strstr(servers_command(i, "INFO", "server", NULL), "run_id:");
    ck_assert_ptr_nonnull(run_id);
    return strncmp(run_id + strlen("run_id:"), base.run_id, 40) == 0 ? base.number : -1;
}

int fenced_in_step(const redlock_client *client, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (fenced_number((int)i, FENCED_COUNTER) != fenced_number(0, FENCED_COUNTER))
            return 0;
    return is_settled(client, n);
}
