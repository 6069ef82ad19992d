/*
 * A client's life, questions to it, and the application's own event loop.
 *
 * In a forked child nothing is locked or sent: a thread that held the mutex does not exist there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_state.h"
#include "validity.h"

enum {
    FLUSH_MS = 500
}; /* of redlock_client_free(), unless a node timeout is set */

static struct redlock__engine *make_engine(const redlock_client *client)
{
    const struct redlock__settings *settings = client->settings;
    struct redlock__node_config nodes[REDLOCK_MAX_NODES] = {0};
    struct redlock__engine_config config = {.n = settings->n,
                                            .nodes = nodes,
                                            .quorum = settings->quorum,
                                            .drift_ppm = settings->drift_ppm,
                                            .max_ttl_ms = settings->max_ttl_ms,
                                            .restart_guard_ms = settings->restart_guard_ms,
                                            .node_timeout_ms = settings->node_timeout_ms,
                                            .replicas = settings->replicas,
                                            .replica_timeout_ms = settings->replica_timeout_ms,
                                            .entropy = redlock__origin_entropy,
                                            .entropy_context = client->origin};

    for (uint32_t i = 0; i < settings->n; i++) {
        const struct redlock__endpoint *endpoint = &settings->endpoints[i];
        memcpy(nodes[i].address, endpoint->address, sizeof nodes[i].address);
        nodes[i].user = endpoint->user;
        nodes[i].password = endpoint->password;
        nodes[i].client_name = settings->client_name;
        nodes[i].database = endpoint->database;
        nodes[i].connect_timeout_ns = redlock__ms_to_ns(settings->connect_timeout_ms);
        nodes[i].silence_limit_ns = redlock__ms_to_ns(settings->silence_limit_ms);
        redlock__origin_entropy(client->origin, &nodes[i].seed, sizeof nodes[i].seed);
    }
    return redlock__engine_new(&config, redlock__clock_ns());
}

static void say(char *text, size_t text_size, const char *what)
{
    if (text != NULL)
        (void)snprintf(text, text_size, "%s", what);
}

static void free_parts(redlock_client *client)
{
    redlock__io_free(client->io, true);
    redlock__engine_free(client->engine);
    redlock__pool_drain(&client->spare_locks);
    redlock__pool_drain(&client->spare_extras);
    redlock__free_seats(client);
    redlock__origin_free(client->origin);
    redlock__settings_free(client->settings);
    (void)pthread_cond_destroy(&client->called);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}

static int start_client(redlock_client *client, char *text, size_t text_size)
{
    int rc;

    client->origin = redlock__origin_new();
    if (client->origin == NULL) {
        say(text, text_size, "the system gives no entropy");
        return REDLOCK_ERR_SYSTEM;
    }
    client->engine = make_engine(client);
    if (client->engine == NULL) {
        say(text, text_size, "out of memory");
        return REDLOCK_ERR_MEMORY;
    }
    say(text, text_size, "the system gives no descriptor");
    rc = redlock__io_new(client->settings, client->engine, &client->io, text, text_size);
    if (rc != 0)
        return rc;
    if (client->settings->external_loop) {
        redlock__settle_locked(client);
        return 0;
    }
    client->threaded = true;
    if (redlock__start_thread(&client->background, false, redlock__run_background, client) != 0) {
        client->threaded = false;
        say(text, text_size, "the system gives no thread");
        return REDLOCK_ERR_SYSTEM;
    }
    return 0;
}

int redlock_client_new(const redlock_options *options, redlock_client **client, char *text,
                       size_t text_size)
{
    redlock_client *made;
    int rc;

    say(text, text_size, "");
    if (options == NULL || client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return REDLOCK_ERR_MEMORY;
    (void)pthread_mutex_init(&made->mutex, NULL);
    (void)pthread_cond_init(&made->called, NULL);
    rc = redlock__settings_new(options, &made->settings, text, text_size);
    if (rc == 0)
        rc = start_client(made, text, text_size);
    if (rc != 0) {
        free_parts(made);
        return rc;
    }
    say(text, text_size, "");
    *client = made;
    return 0;
}

/* Removals already under way, also behind answers that are owed. */
static void flush_removals(redlock_client *client)
{
    int64_t most_ms = client->settings->node_timeout_ms;
    int64_t end_ns = redlock__clock_ns() + redlock__ms_to_ns(most_ms != 0 ? most_ms : FLUSH_MS);

    client->now_ns = redlock__clock_ns();
    redlock__io_flush(client->io);
    while (redlock__engine_flushing(client->engine) && client->now_ns < end_ns) {
        int64_t next_ns = redlock__engine_next_deadline(client->engine);
        redlock__io_watch(client->io, REDLOCK__DRIVER, REDLOCK__WATCH_ALL,
                          redlock__min(next_ns, end_ns));
        redlock__io_poll(client->io, REDLOCK__DRIVER);
        client->now_ns = redlock__io_read(client->io, REDLOCK__DRIVER);
        redlock__io_flush(client->io);
    }
}

void redlock_client_free(redlock_client *client)
{
    int cancel_state;

    if (client == NULL)
        return;
    if (!redlock__client_here(
            client)) { /* the engine may be half way through a change: left as it is */
        redlock__io_free(client->io, false);
        redlock__origin_free(client->origin);
        redlock__settings_free(client->settings);
        redlock__free_seats(client);
        free(client);
        return;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (client->threaded) {
        (void)pthread_mutex_lock(&client->mutex);
        client->stopping = true;
        redlock__io_wake(client->io, REDLOCK__BACKGROUND);
        (void)pthread_mutex_unlock(&client->mutex);
        (void)pthread_join(client->background, NULL);
    }
    flush_removals(client);
    free_parts(client);
    (void)pthread_setcancelstate(cancel_state, NULL);
}

/* All of it, into the caller's struct of whatever version, which begins with its size. */
static void give_versioned(void *to, const void *all, size_t all_size)
{
    size_t size = *(size_t *)to;

    if (size > all_size)
        memset((char *)to + all_size, 0, size - all_size);
    memcpy(to, all, size < all_size ? size : all_size);
    *(size_t *)to = size;
}

size_t redlock_health(const redlock_client *client, redlock_node_health *nodes, size_t count)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    int64_t now_ns, wall_ns;

    if (client == NULL || !redlock__client_here(client))
        return 0;
    if (nodes == NULL)
        count = 0;
    now_ns = redlock__clock_ns();
    wall_ns = redlock__wall_ns();
    (void)pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < c->settings->n && i < count; i++) {
        const struct redlock__node *node = redlock__engine_node(c->engine, i);
        enum redlock__node_phase phase = redlock__node_phase(node);
        nodes[i].state = phase == REDLOCK__NODE_PHASE_DOWN    ? REDLOCK_NODE_DOWN
                         : phase == REDLOCK__NODE_PHASE_READY ? REDLOCK_NODE_READY
                                                              : REDLOCK_NODE_CONNECTING;
        nodes[i].pending = redlock__node_pending(node);
        nodes[i].connects = redlock__node_connects(node);
        memcpy(nodes[i].address, c->settings->endpoints[i].address, sizeof nodes[i].address);
        say(nodes[i].text, sizeof nodes[i].text, redlock__node_text(node));
        redlock__engine_health(c->engine, i, &nodes[i], now_ns);
        if (nodes[i].offset_bound_us >= 0)
            nodes[i].offset_us -= (wall_ns - now_ns) / 1000;
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return client->settings->n;
}

int redlock_fleet_get(const redlock_client *client, redlock_fleet *fleet)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    redlock_fleet all = {.size = sizeof all};

    if (client == NULL || fleet == NULL || fleet->size < sizeof fleet->size)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    (void)pthread_mutex_lock(&c->mutex);
    redlock__engine_fleet(c->engine, &all);
    (void)pthread_mutex_unlock(&c->mutex);
    give_versioned(fleet, &all, sizeof all);
    return 0;
}

int redlock_stats_get(const redlock_client *client, redlock_stats *stats)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    redlock_stats all = {.size = sizeof all};

    if (client == NULL || stats == NULL || stats->size < sizeof stats->size)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    (void)pthread_mutex_lock(&c->mutex);
    redlock__engine_stats(c->engine, &all);
    (void)pthread_mutex_unlock(&c->mutex);
    give_versioned(stats, &all, sizeof all);
    return 0;
}

/* ---- without a handle --------------------------------------------------- */

static void copy_inspection(const redlock_client *client,
                            const struct redlock__inspection *inspection,
                            redlock_node_inspection *nodes, size_t count)
{
    for (uint32_t i = 0; i < client->settings->n && i < count; i++) {
        nodes[i] = inspection->nodes[i];
        memcpy(nodes[i].result.address, client->settings->endpoints[i].address,
               sizeof nodes[i].result.address);
    }
}

int redlock_inspect(redlock_client *client, const void *key, size_t key_len,
                    redlock_inspection *sum, redlock_node_inspection *nodes, size_t node_count)
{
    struct redlock__full_key full;
    struct redlock__inspection *inspection;
    int cancel_state, rc;

    if (client == NULL || key == NULL || sum == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    if (!client->threaded)
        return REDLOCK_ERR_STATE;
    rc = redlock__full_key(client->settings, key, key_len, &full);
    if (rc != 0)
        return rc;
    cancel_state = redlock__enter(client);
    rc = redlock__engine_inspect(client->engine, full.text, full.len, redlock__clock_ns(),
                                 &inspection);
    if (rc == 0) {
        struct redlock__call call = {.inspection = inspection};
        client->unannounced++;
        redlock__wait_locked(client, &call);
        client->unannounced--;
        copy_inspection(client, inspection, nodes, nodes == NULL ? 0 : node_count);
        redlock__inspection_sum_up(inspection, redlock__engine_quorum(client->engine), sum);
        redlock__engine_forget_inspection(client->engine, inspection);
    }
    redlock__leave(client, cancel_state);
    return rc;
}

int redlock_init(redlock_client *client, const redlock_init_options *options,
                 redlock_node_result *results, size_t count, int64_t *wait_ms)
{
    redlock_init_options checked;
    struct redlock__init_config config;
    struct redlock__init *init;
    int cancel_state, rc;

    if (client == NULL || wait_ms == NULL || (results == NULL && count != 0))
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    if (!client->threaded)
        return REDLOCK_ERR_STATE;
    rc = redlock__init_options_check(client->settings, options, &checked);
    if (rc != 0)
        return rc;
    config = (struct redlock__init_config){.no_leases_out = checked.no_leases_out != 0,
                                           .fence_base = checked.fence_base != 0,
                                           .retire = checked.retire,
                                           .replace = checked.replace};
    cancel_state = redlock__enter(client);
    init = redlock__engine_init(client->engine, &config, redlock__clock_ns(), &rc);
    if (init != NULL) {
        struct redlock__call call = {.init = init};
        client->unannounced++;
        redlock__wait_locked(client, &call);
        client->unannounced--;
        for (uint32_t i = 0; i < client->settings->n && i < count; i++) {
            results[i] = init->results[i];
            memcpy(results[i].address, client->settings->endpoints[i].address,
                   sizeof results[i].address);
        }
        rc = init->result;
        *wait_ms = init->wait_ms;
        redlock__engine_forget_init(client->engine, init);
    }
    redlock__leave(client, cancel_state);
    return rc;
}

/* ---- an application's own event loop ------------------------------------ */

int redlock_fd(const redlock_client *client)
{
    if (client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    return client->threaded ? REDLOCK_ERR_STATE : redlock__io_loop_fd(client->io);
}

int64_t redlock_next_timeout_ms(const redlock_client *client)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    int64_t next_ns, left_ns, timeout_ms = -1;

    if (client == NULL || !redlock__client_here(client) || client->threaded)
        return -1;
    (void)pthread_mutex_lock(&c->mutex);
    next_ns = redlock__engine_next_deadline(c->engine);
    left_ns = redlock__max(0, redlock__add(next_ns, -redlock__clock_ns()));
    if (redlock__owes_callback_locked(client) || redlock__io_has_news(c->io))
        timeout_ms = 0;
    else if (next_ns != REDLOCK__NEVER)
        timeout_ms = redlock__add(left_ns, REDLOCK__MS - 1) / REDLOCK__MS;
    (void)pthread_mutex_unlock(&c->mutex);
    return timeout_ms;
}

int redlock_process(redlock_client *client)
{
    int cancel_state, rc = 0;

    if (client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    if (client->threaded)
        return REDLOCK_ERR_STATE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&client->mutex);
    if (client->calling != NULL) {
        rc = REDLOCK_ERR_STATE;
    } else {
        redlock__io_watch(client->io, REDLOCK__BACKGROUND, REDLOCK__WATCH_ALL, 0);
        redlock__io_poll(client->io, REDLOCK__BACKGROUND);
        client->now_ns = redlock__io_read(client->io, REDLOCK__BACKGROUND);
        client->processing = true;
        do {
            redlock__io_flush(client->io);
            redlock__settle_locked(client);
        } while (redlock__dispatch_locked(client));
        client->processing = false;
    }
    redlock__unlock(client);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return rc;
}
