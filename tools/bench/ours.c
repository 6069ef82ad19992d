/*
 * See ours.h. A primary that has just started doesn't count before the restart guard is over,
 * unless it is marked; so the bench marks its own, as whoever sets up new primaries has to.
 */
#include "ours.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dial.h"
#include "results.h"

enum {
    FIRST_WAIT_MS = 3000, /* for the first lock */
    READY_TRIES = 1000,
    PAUSE_MS = 2
};

void ours_options(const struct bench *bench, unsigned n, redlock_options *options)
{
    redlock_options_init(options);
    options->nodes = bench->uris;
    options->node_count = n;
    options->password = bench->password;
    options->client_name = "redlock-bench";
}

void ours_key(char key[OURS_KEY], const char *what, unsigned number)
{
    snprintf(key, OURS_KEY, "redlock-bench:%ld:%.40s:%u", (long)getpid(), what, number);
}

/* ---- marking ------------------------------------------------------------------- */

static bool empty_all(struct bench *bench)
{
    for (unsigned i = 0; i < bench->total; i++) {
        char problem[256];
        redisContext *context = dial(bench, i, problem, sizeof problem);
        redisReply *reply = context ? redisCommand(context, "FLUSHALL") : NULL;

        if (reply)
            freeReplyObject(reply);
        if (context)
            redisFree(context);
        if (!reply)
            return bench_fail(bench, "a server of its own doesn't answer");
    }
    return true;
}

static bool mark_first(struct bench *bench, unsigned n)
{
    redlock_init_options how;
    redlock_options options;
    redlock_client *client;
    char why[256] = "";
    int64_t wait_ms = 0;
    int rc;

    ours_options(bench, n, &options);
    rc = redlock_client_new(&options, &client, why, sizeof why);
    if (rc != REDLOCK_OK)
        return bench_fail(bench, "%s: %s", redlock_strerror(rc), why);
    redlock_init_options_init(&how);
    how.no_leases_out = 1;
    rc = redlock_init(client, &how, NULL, 0, &wait_ms);
    redlock_client_free(client);
    return rc == REDLOCK_OK ||
           bench_fail(bench, "marking its own servers: %s", redlock_strerror(rc));
}

bool ours_mark(struct bench *bench, unsigned n)
{
    if (!bench->own || bench->marked == n)
        return true;
    bench->marked = 0;
    if (!empty_all(bench) || !mark_first(bench, n))
        return false;
    bench->marked = n;
    return true;
}

/* ---- clients -------------------------------------------------------------------- */

/* With an external loop: until the operation is done. */
static int drive(redlock_client *client, const redlock_lock *lock)
{
    struct pollfd fd = {.fd = redlock_fd(client), .events = POLLIN};
    int rc;

    while ((rc = redlock_poll_result(lock)) == REDLOCK_PENDING) {
        poll(&fd, 1, (int)redlock_next_timeout_ms(client));
        if (redlock_process(client) != REDLOCK_OK)
            return REDLOCK_ERR_SYSTEM;
    }
    return rc;
}

static int first_lock(redlock_client *client, bool external_loop, redlock_node_result *results)
{
    redlock_lock_options options;
    redlock_lock *lock = NULL;
    char key[OURS_KEY];
    int rc;

    redlock_lock_options_init(&options);
    options.wait_ms = FIRST_WAIT_MS;
    options.results = results;
    options.result_count = REDLOCK_MAX_NODES;
    ours_key(key, "first", 0);
    if (!external_loop) {
        rc = redlock_acquire(client, key, strlen(key), &options, &lock);
        return rc == REDLOCK_OK ? redlock_release(lock) : rc;
    }
    rc = redlock_start_acquire(client, key, strlen(key), &options, &lock);
    if (rc != REDLOCK_OK)
        return rc;
    rc = drive(client, lock);
    if (rc == REDLOCK_OK)
        rc = redlock_start_release(lock);
    if (rc == REDLOCK_OK)
        rc = drive(client, lock);
    redlock_release(lock);
    return rc;
}

/* Whether it is in use, or can't be. */
static bool is_settled(const redlock_node_health *node)
{
    return node->state == REDLOCK_NODE_READY ? node->pending == 0 : node->text[0] != '\0';
}

static void await_rest(redlock_client *client, unsigned n, bool external_loop)
{
    redlock_node_health nodes[REDLOCK_MAX_NODES];

    for (unsigned tries = 0; tries < READY_TRIES; tries++) {
        unsigned settled = 0;

        redlock_health(client, nodes, REDLOCK_MAX_NODES);
        for (unsigned i = 0; i < n; i++)
            settled += is_settled(&nodes[i]);
        if (settled == n)
            return;
        poll(NULL, 0, PAUSE_MS);
        if (external_loop)
            (void)redlock_process(client);
    }
}

static const char *first_reason(const redlock_node_result *results, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (results[i].text[0] != '\0')
            return results[i].text;
    return "";
}

redlock_client *ours_open(struct bench *bench, unsigned n, bool external_loop, bool *refused)
{
    redlock_node_result results[REDLOCK_MAX_NODES];
    redlock_client *client = NULL;
    redlock_options options;
    char why[256] = "";
    int rc;

    memset(results, 0, sizeof results);
    if (!ours_mark(bench, n))
        return NULL;
    ours_options(bench, n, &options);
    options.external_loop = external_loop;
    rc = redlock_client_new(&options, &client, why, sizeof why);
    if (rc == REDLOCK_OK)
        rc = first_lock(client, external_loop, results);
    if (rc == REDLOCK_OK) {
        await_rest(client, n, external_loop);
        return client;
    }
    redlock_client_free(client);
    if (refused && rc == REDLOCK_ERR_MISCONFIGURED) { /* the caller goes on without */
        *refused = true;
        return NULL;
    }
    bench->results->rc = rc;
    bench_fail(bench, "%s: %s", redlock_strerror(rc), why[0] ? why : first_reason(results, n));
    return NULL;
}
