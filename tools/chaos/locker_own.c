/* Our own client; see locker.h. By the public header alone, as a user's program would do it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "history.h"
#include "locker.h"
#include "redlock.h"

struct own {
    struct locker base;
    const struct worker_spec *spec;
    redlock_client *client;
    locker_told *told;
    void *context;
    clockid_t clock; /* of the library */
    pthread_mutex_t mutex;
    bool cancelled;
    redlock_cancel_handle *waiting; /* of the acquire that runs */
};

struct own_hold {
    struct hold base;
    redlock_lock *lock;
    redlock_cancel_handle *cancel; /* of the acquire alone: a release is not to be cancelled */
    redlock_node_result results[SPEC_NODES];
};

static struct own *own_of(const struct hold *hold)
{
    return (struct own *)hold->locker;
}

static redlock_lock *lock_of(const struct hold *hold)
{
    return ((const struct own_hold *)hold)->lock;
}

/* ---- the library's clock ------------------------------------------------- */

/* Through libc: a clock plan may bend it. */
static int64_t library_now(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A time of the library's clock on that of the history. Both are read adjacent; of three tries the
 * closest counts, so that being interrupted in between moves nothing. */
static int64_t history_time(const struct own *own, int64_t library_ns)
{
    int64_t closest = INT64_MAX, offset_ns = 0;

    if (library_ns == 0)
        return 0;
    for (int i = 0; i < 3; i++) {
        int64_t before = history_now(), library = library_now(own->clock), after = history_now();
        if (after - before < closest) {
            closest = after - before;
            offset_ns = before + closest / 2 - library;
        }
    }
    return library_ns + offset_ns;
}

/* ---- results -------------------------------------------------------------- */

static const char *rc_name(int rc)
{
    switch (rc) {
    case REDLOCK_OK:
        return "ok";
    case REDLOCK_BUSY:
        return "busy";
    case REDLOCK_NO_QUORUM:
        return "no_quorum";
    case REDLOCK_WAIT_DEADLINE:
        return "wait_deadline";
    case REDLOCK_EXPIRED:
        return "expired";
    case REDLOCK_LOST:
        return "lost";
    case REDLOCK_CANCELLED:
        return "cancelled";
    case REDLOCK_PENDING:
        return "pending";
    case REDLOCK_ERR_MISCONFIGURED:
        return "misconfigured";
    default:
        return "error";
    }
}

static json_t *node_record(size_t i, const redlock_node_result *result)
{
    json_t *node =
        json_pack("{s:i, s:s}", "node", (int)i + 1, "vote", redlock_vote_name(result->vote));

    if (node != NULL && result->elapsed_us >= 0)
        (void)json_object_set_new(node, "us", json_integer(result->elapsed_us));
    if (node != NULL && result->text[0] != '\0')
        (void)json_object_set_new(node, "text", json_string(result->text));
    return node;
}

static json_t *node_records(const redlock_node_result *results, size_t count)
{
    json_t *nodes = json_array();

    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(nodes, node_record(i, &results[i]));
    return nodes;
}

static uint64_t attempts_of(const struct own *own)
{
    redlock_stats stats = {.size = sizeof stats};

    return redlock_stats_get(own->client, &stats) == 0 ? stats.attempts : 0;
}

static struct outcome outcome_of(const struct own *own, int rc, const redlock_node_result *results)
{
    struct outcome outcome = {.rc = rc_name(rc), .attempts = 1};

    if (!redlock_is_outcome(rc))
        (void)snprintf(outcome.text, sizeof outcome.text, "%s", redlock_strerror(rc));
    outcome.nodes = node_records(results, own->spec->node_count);
    return outcome;
}

static void add_hold(const struct hold *hold, struct outcome *outcome)
{
    redlock_lock *lock = lock_of(hold);

    (void)snprintf(outcome->owner, sizeof outcome->owner, "%s", hold->owner);
    outcome->fence = hold->fence;
    outcome->validity_ms = redlock_remaining_ms(lock);
    outcome->deadline_ns = history_time(own_of(hold), redlock_deadline_ns(lock));
}

/* ---- locks ---------------------------------------------------------------- */

static void on_event(void *context, redlock_lock *lock, redlock_event event)
{
    const struct own_hold *hold = context;
    const struct own *own = own_of(&hold->base);
    const char *name = event == REDLOCK_EVENT_RENEWED           ? "renewed"
                       : event == REDLOCK_EVENT_RENEWAL_FAILING ? "failing"
                       : event == REDLOCK_EVENT_LOST            ? "lost"
                                                                : NULL;

    if (name != NULL)
        own->told(own->context, hold->base.number, name,
                  history_time(own, redlock_deadline_ns(lock)));
}

static void learn(struct own_hold *hold, redlock_lock *lock)
{
    char token[REDLOCK_TOKEN_LEN];
    int64_t fence = redlock_fence(lock);

    hold->lock = lock;
    hold->base.fence = fence > 0 ? fence : 0;
    if (redlock_token(lock, token, sizeof token) == 0) {
        memcpy(hold->base.owner, token, LOCKER_OWNER_LEN);
        hold->base.owner[LOCKER_OWNER_LEN] = '\0';
    }
}

static void set_waiting(struct own *own, redlock_cancel_handle *cancel)
{
    pthread_mutex_lock(&own->mutex);
    own->waiting = cancel;
    if (cancel != NULL && own->cancelled)
        redlock_cancel(cancel);
    pthread_mutex_unlock(&own->mutex);
}

static void own_cancel(struct locker *locker)
{
    struct own *own = (struct own *)locker;

    pthread_mutex_lock(&own->mutex);
    own->cancelled = true;
    if (own->waiting != NULL)
        redlock_cancel(own->waiting);
    pthread_mutex_unlock(&own->mutex);
}

static void free_hold(struct own_hold *hold)
{
    if (hold != NULL)
        redlock_cancel_free(hold->cancel);
    free(hold);
}

static struct own_hold *new_hold(struct own *own, const struct wish *wish)
{
    struct own_hold *hold = calloc(1, sizeof *hold);

    if (hold == NULL || redlock_cancel_new(&hold->cancel) != 0) {
        free_hold(hold);
        return NULL;
    }
    hold->base = (struct hold){.locker = &own->base, .number = wish->number};
    return hold;
}

static int acquire(struct own *own, const struct wish *wish, struct own_hold *made,
                   redlock_lock **lock)
{
    redlock_lock_options options;
    int rc;

    redlock_lock_options_init(&options);
    options.ttl_ms = wish->ttl_ms;
    options.wait_ms = wish->wait_ms;
    options.renew = wish->renew;
    options.fence = wish->fence;
    options.on_event = on_event;
    options.event_context = made;
    options.cancel = made->cancel;
    options.results = made->results;
    options.result_count = SPEC_NODES;
    set_waiting(own, made->cancel);
    rc = redlock_acquire(own->client, wish->name, strlen(wish->name), &options, lock);
    set_waiting(own, NULL);
    return rc;
}

static void own_acquire(struct locker *locker, const struct wish *wish, struct outcome *outcome,
                        struct hold **hold)
{
    struct own *own = (struct own *)locker;
    struct own_hold *made = new_hold(own, wish);
    uint64_t attempts = attempts_of(own);
    redlock_lock *lock = NULL;
    int rc;

    if (made == NULL) {
        *outcome = (struct outcome){.rc = "error", .text = "out of memory"};
        return;
    }
    rc = acquire(own, wish, made, &lock);
    *outcome = outcome_of(own, rc, made->results);
    outcome->attempts = (int64_t)(attempts_of(own) - attempts);
    if (rc != 0) {
        free_hold(made);
        return;
    }
    learn(made, lock);
    add_hold(&made->base, outcome);
    *hold = &made->base;
}

static void own_extend(struct hold *hold, int64_t ttl_ms, struct outcome *outcome)
{
    int rc = redlock_extend(lock_of(hold), ttl_ms);

    *outcome = outcome_of(own_of(hold), rc, ((struct own_hold *)hold)->results);
    add_hold(hold, outcome);
}

static void own_release(struct hold *hold, struct outcome *outcome)
{
    int rc = redlock_release(lock_of(hold));

    *outcome = outcome_of(own_of(hold), rc, ((struct own_hold *)hold)->results);
    memcpy(outcome->owner, hold->owner, sizeof outcome->owner);
    outcome->fence = hold->fence;
    free_hold((struct own_hold *)hold);
}

static bool own_held(const struct hold *hold)
{
    return redlock_is_held(lock_of(hold)) == 1;
}

static int64_t own_remaining_ms(const struct hold *hold)
{
    return redlock_remaining_ms(lock_of(hold));
}

static int64_t own_deadline_ns(const struct hold *hold)
{
    return history_time(own_of(hold), redlock_deadline_ns(lock_of(hold)));
}

static int own_margin(const struct hold *hold)
{
    return redlock_margin(lock_of(hold));
}

/* ---- what it tells about itself ------------------------------------------- */

static const char *standing_name(redlock_standing standing)
{
    static const char *const names[] = {"unknown", "counts",  "unconfirmed", "guard",
                                        "stepped", "retired", "unreadable",  "replica",
                                        "twin",    "misfit",  "evicting"};

    return (size_t)standing < sizeof names / sizeof names[0] ? names[standing] : "?";
}

static json_t *own_health(struct locker *locker)
{
    const struct own *own = (const struct own *)locker;
    size_t count = own->spec->node_count;
    redlock_node_health *nodes = calloc(count, sizeof *nodes);
    json_t *list = json_array();

    if (nodes != NULL)
        (void)redlock_health(own->client, nodes, count);
    for (size_t i = 0; nodes != NULL && i < count; i++)
        (void)json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:b, s:b, s:I, s:I}", "standing", standing_name(nodes[i].kind),
                      "text", nodes[i].standing, "ready", nodes[i].state == REDLOCK_NODE_READY,
                      "counts", nodes[i].counts, "step_ms", (json_int_t)(nodes[i].step_us / 1000),
                      "ppm", (json_int_t)(nodes[i].rate_bound_ppm >= 0 ? nodes[i].rate_ppm : 0)));
    free(nodes);
    return json_pack("{s:o}", "nodes", list);
}

static uint32_t member_of(const json_t *command, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(command, key));
}

/* The first node's reason, if there is one. */
static const char *reason_of(const redlock_node_result *results, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (results[i].text[0] != '\0')
            return results[i].text;
    return "";
}

static json_t *own_init(struct locker *locker, const json_t *command)
{
    const struct own *own = (const struct own *)locker;
    redlock_node_result results[SPEC_NODES] = {0};
    const json_t *leases_out = json_object_get(command, "no_leases_out");
    redlock_init_options options;
    const char *text;
    int64_t wait_ms = 0;
    int rc;

    redlock_init_options_init(&options);
    options.no_leases_out = !json_is_false(leases_out);
    options.retire = member_of(command, "retire");
    options.replace = member_of(command, "replace");
    options.fence_base = json_is_true(json_object_get(command, "fence_base"));
    rc = redlock_init(own->client, &options, results, SPEC_NODES, &wait_ms);
    text = reason_of(results, own->spec->node_count);
    return json_pack("{s:s, s:s, s:I, s:o}", "rc", rc_name(rc), "text",
                     text[0] != '\0' || rc == 0 ? text : redlock_strerror(rc), "wait_ms",
                     (json_int_t)wait_ms, "node", node_records(results, own->spec->node_count));
}

static const struct {
    const char *name;
    size_t offset;
} counters[] = {{"attempts", offsetof(redlock_stats, attempts)},
                {"acquired", offsetof(redlock_stats, acquired)},
                {"busy", offsetof(redlock_stats, busy)},
                {"no_quorum", offsetof(redlock_stats, no_quorum)},
                {"extended", offsetof(redlock_stats, extended)},
                {"extend_failed", offsetof(redlock_stats, extend_failed)},
                {"lost", offsetof(redlock_stats, lost)},
                {"released", offsetof(redlock_stats, released)},
                {"requests", offsetof(redlock_stats, requests)},
                {"late_replies", offsetof(redlock_stats, late_replies)},
                {"connects", offsetof(redlock_stats, connects)},
                {"disconnects", offsetof(redlock_stats, disconnects)},
                {"leases", offsetof(redlock_stats, leases)},
                {"cleanups", offsetof(redlock_stats, cleanups)}};

static json_t *own_counters(struct locker *locker)
{
    redlock_stats stats = {.size = sizeof stats};
    json_t *json = json_object();

    (void)redlock_stats_get(((struct own *)locker)->client, &stats);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&stats + counters[i].offset, sizeof value);
        (void)json_object_set_new(json, counters[i].name, json_integer((json_int_t)value));
    }
    return json;
}

/* ---- life ----------------------------------------------------------------- */

static bool own_ready(struct locker *locker)
{
    const struct own *own = (const struct own *)locker;
    redlock_node_health nodes[SPEC_NODES] = {0};
    size_t count = redlock_health(own->client, nodes, SPEC_NODES), ready = 0;

    for (size_t i = 0; i < count; i++)
        ready += nodes[i].state == REDLOCK_NODE_READY;
    return ready == count;
}

static void own_free(struct locker *locker)
{
    struct own *own = (struct own *)locker;

    redlock_client_free(own->client);
    (void)pthread_mutex_destroy(&own->mutex);
    free(own);
}

static int new_client(const struct worker_spec *spec, redlock_client **client, char *text,
                      size_t size)
{
    redlock_options options;

    redlock_options_init(&options);
    options.nodes = spec->nodes;
    options.node_count = spec->node_count;
    options.quorum = (uint32_t)spec->quorum;
    options.max_ttl_ms = spec->max_ttl_ms;
    options.drift_ppm = (uint32_t)spec->drift_ppm;
    options.node_timeout_ms = spec->node_timeout_ms;
    options.restart_guard_ms = spec->guard_ms;
    options.replicas = (uint32_t)spec->replicas;
    options.prefix = spec->prefix;
    options.client_name = spec->worker;
    return redlock_client_new(&options, client, text, size);
}

static const struct locker_kind own_kind = {.renews = true,
                                            .free = own_free,
                                            .ready = own_ready,
                                            .acquire = own_acquire,
                                            .extend = own_extend,
                                            .release = own_release,
                                            .held = own_held,
                                            .remaining_ms = own_remaining_ms,
                                            .deadline_ns = own_deadline_ns,
                                            .margin = own_margin,
                                            .cancel = own_cancel,
                                            .health = own_health,
                                            .init = own_init,
                                            .counters = own_counters};

struct locker *locker_own(const struct worker_spec *spec, locker_told *told, void *context,
                          char *text, size_t size)
{
    struct own *own = calloc(1, sizeof *own);
    int rc;

    text[0] = '\0';
    if (own == NULL)
        return NULL;
    *own = (struct own){.base.kind = &own_kind,
                        .spec = spec,
                        .told = told,
                        .context = context,
                        .clock = CLOCK_BOOTTIME};
    /* That one's client is weakened in just this. */
    if (spec->control != NULL && strcmp(spec->control, "K14") == 0)
        own->clock = CLOCK_MONOTONIC;
    rc = new_client(spec, &own->client, text, size);
    if (rc == 0) {
        (void)pthread_mutex_init(&own->mutex, NULL);
        return &own->base;
    }
    if (text[0] == '\0')
        (void)snprintf(text, size, "%s", redlock_strerror(rc));
    free(own);
    return NULL;
}
