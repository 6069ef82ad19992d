/*
 * Setting a scene and bringing it to its end; its time, and what is expected of it.
 */
#include "scene.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_plan.h"
#include "observer.h"
#include "redlock.h"
#include "scene_state.h"
#include "worker.h"

#define NS_PER_MS INT64_C(1000000)

static const char *const modes[] = {"redlock", "single", "single-replica", "single-replica-wait"};

const char *mode_name(enum mode mode)
{
    return modes[mode];
}

bool scene__goes_on(struct scene *scene)
{
    int error;

    if (scene->over)
        return false;
    if (*scene->stage->interrupted) {
        scene->over = true;
        return false;
    }
    error = history_error(scene->history);
    if (error != 0)
        scene->over = true;
    return !scene->over;
}

bool scene_goes_on(const struct scene *scene)
{
    return !scene->over;
}

const struct stage *scene_stage(const struct scene *scene)
{
    return scene->stage;
}

struct runtime *scene_runtime(const struct scene *scene)
{
    return scene->runtime;
}

enum mode scene_mode(const struct scene *scene)
{
    return scene->mode;
}

const char *scene_name(const struct scene *scene)
{
    return scene->name;
}

struct stream *scene_stream(struct scene *scene)
{
    return &scene->schedule;
}

int64_t scene_ttl(const struct scene *scene)
{
    return scene->conditions.ttl_ms;
}

bool scene_fenced(const struct scene *scene)
{
    return !scene->conditions.unfenced && scene->stage->peer == NULL;
}

unsigned scene_nodes(const struct scene *scene)
{
    return scene->mode == MODE_REDLOCK ? SCENE_NODES : 1;
}

int64_t scene_guard_ms(const struct scene *scene)
{
    int64_t max = scene->conditions.max_ttl_ms;

    return max + max / 100 + 2 + 1000;
}

void scene_fail(struct scene *scene, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!scene->over)
        history_put(scene->history, json_pack("{s:s, s:s}", "type", "error", "text", text));
    scene->over = true;
}

/* ---- what is heard while it runs -------------------------------------------- */

static const char *text_of(const json_t *record, const char *field)
{
    const char *text = json_string_value(json_object_get(record, field));

    return text != NULL ? text : "";
}

static void heard_return(struct scene *scene, const json_t *record)
{
    const char *worker = text_of(record, "worker");

    if (strcmp(text_of(record, "op"), "acquire") != 0)
        return;
    for (unsigned i = 0; i < scene->member_count; i++) {
        struct member *member = &scene->members[i];

        if (strcmp(member->name, worker) != 0)
            continue;
        member->tried++;
        if (strcmp(text_of(record, "rc"), "ok") == 0) {
            member->acquired++;
            member->acquired_ns = json_integer_value(json_object_get(record, "t"));
        }
    }
}

static void heard(void *context, const json_t *record)
{
    struct scene *scene = context;
    const char *type = text_of(record, "type");

    pthread_mutex_lock(&scene->mutex);
    if (strcmp(type, "return") == 0)
        heard_return(scene, record);
    else if (strcmp(type, "enter") == 0 && json_is_false(json_object_get(record, "ok")))
        scene->violations++;
    pthread_mutex_unlock(&scene->mutex);
}

static void heard_link(void *context, const char *link, const char *what, int64_t n)
{
    struct scene *scene = context;

    history_put(scene->history, json_pack("{s:s, s:s, s:s, s:I}", "type", "link", "link", link,
                                          "what", what, "n", (json_int_t)n));
}

/* ---- beginning ------------------------------------------------------------------ */

static json_t *texts(int count, char **values)
{
    json_t *array = json_array();

    for (int i = 0; i < count; i++)
        json_array_append_new(array, json_string_nocheck(values[i]));
    return array;
}

static void tell_run(struct scene *scene, const char *title)
{
    const struct conditions *c = &scene->conditions;
    unsigned nodes = scene_nodes(scene);
    char seed[24];

    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)scene->stage->seed);
    history_put(
        scene->history,
        json_pack(
            "{s:s, s:I, s:s, s:s, s:o, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:i, "
            "s:I, s:I, s:s, s:b}",
            "type", "run", "wall_ns", (json_int_t)clock_real_ns(CLOCK_REALTIME), "seed", seed,
            "version", CHAOS_VERSION, "args", texts(scene->stage->argc, scene->stage->argv),
            "scenario", scene->name, "title", title, "mode", mode_name(scene->mode), "runtime",
            runtime_kind(scene->runtime) == RUNTIME_DOCKER ? "docker" : "process", "server",
            runtime_version(scene->runtime), "nodes", (int)nodes, "quorum", (int)(nodes / 2 + 1),
            "replicas", scene->mode == MODE_REPLICA_WAIT ? 1 : 0, "ttl_ms", (json_int_t)c->ttl_ms,
            "max_ttl_ms", (json_int_t)c->max_ttl_ms, "drift_ppm", c->no_drift ? 0 : 10000,
            "guard_ms", (json_int_t)(c->no_guard ? 0 : scene_guard_ms(scene)), "node_timeout_ms",
            (json_int_t)c->node_timeout_ms, "control", c->control != NULL ? c->control : "",
            "fenced", !c->unfenced));
}

void scene__tell_node(struct scene *scene, unsigned node, const char *state, bool kept)
{
    char run_id[64] = "";

    if (strcmp(state, "up") == 0) {
        redisReply *reply = runtime_command(scene->runtime, node, "INFO server");
        const char *found =
            reply != NULL && reply->str != NULL ? strstr(reply->str, "run_id:") : NULL;

        if (found != NULL)
            (void)sscanf(found, "run_id:%60[0-9a-f]", run_id);
        freeReplyObject(reply);
    }
    history_put(scene->history,
                json_pack("{s:s, s:i, s:s, s:s, s:b}", "type", "node", "node", (int)node, "state",
                          state, "run_id", run_id, "kept", kept));
}

void scene__tell_clock(struct scene *scene, unsigned node)
{
    const struct clock_plan *plan = runtime_clock(scene->runtime, node);
    struct clock_settings settings;

    if (plan == NULL)
        return;
    settings = clock_plan_settings(plan);
    history_put(scene->history,
                json_pack("{s:s, s:i, s:I, s:I, s:I}", "type", "clock", "node", (int)node,
                          "mono_ns", (json_int_t)settings.word[CLOCK_BASE_MONO_NS], "wall_ns",
                          (json_int_t)settings.word[CLOCK_BASE_WALL_NS], "rate_ppb",
                          (json_int_t)settings.word[CLOCK_RATE_PPB]));
}

/* Marks the primaries, as an operator would; nothing is out, they are new. */
static bool mark(struct scene *scene, char *text, size_t text_size)
{
    char uris[SCENE_NODES][48];
    const char *nodes[SCENE_NODES];
    redlock_options options;
    redlock_init_options how;
    redlock_client *client;
    int64_t wait_ms = 0;
    int rc;

    redlock_options_init(&options);
    for (unsigned i = 0; i < scene_nodes(scene); i++) {
        (void)snprintf(uris[i], sizeof uris[i], "redis://127.0.0.1:%d",
                       runtime_port(scene->runtime, i + 1));
        nodes[i] = uris[i];
    }
    options.nodes = nodes;
    options.node_count = scene_nodes(scene);
    options.max_ttl_ms = scene->conditions.max_ttl_ms;
    options.connect_timeout_ms = options.node_timeout_ms = 5000; /* nothing is tested here yet */
    if (redlock_client_new(&options, &client, text, text_size) != 0)
        return false;
    redlock_init_options_init(&how);
    how.no_leases_out = 1;
    rc = redlock_init(client, &how, NULL, 0, &wait_ms);
    redlock_client_free(client);
    if (rc != 0)
        (void)snprintf(text, text_size, "the primaries could not be marked: %s",
                       redlock_strerror(rc));
    return rc == 0;
}

static void default_conditions(struct scene *scene, const struct conditions *given)
{
    struct conditions *c = &scene->conditions;

    *c = *given;
    if (runtime_is_slow(scene->runtime) && c->slow_ttl_ms != 0)
        c->ttl_ms = c->slow_ttl_ms;
    if (runtime_is_slow(scene->runtime) && c->slow_node_timeout_ms != 0)
        c->node_timeout_ms = c->slow_node_timeout_ms;
    if (c->ttl_ms == 0)
        c->ttl_ms = 2000;
    if (c->max_ttl_ms == 0)
        c->max_ttl_ms = c->ttl_ms;
    if (c->node_timeout_ms == 0)
        c->node_timeout_ms = 100;
    if (c->renew == 0)
        c->renew = 0.01;
    if (c->renew < 0)
        c->renew = 0;
    if (scene->mode == MODE_REPLICA_WAIT || c->no_guard)
        c->unfenced = true; /* the library refuses: it could not keep the promise */
}

static bool open_all(struct scene *scene, const char *history_path, char *text, size_t text_size)
{
    scene->history = history_create(history_path);
    if (scene->history == NULL) {
        (void)snprintf(text, text_size, "%s: %s", history_path, strerror(errno));
        return false;
    }
    if (runtime_fresh(scene->runtime, scene->conditions.persistence) != 0) {
        (void)snprintf(text, text_size, "%s", runtime_text(scene->runtime));
        return false;
    }
    if (scene->mode >= MODE_REPLICA && runtime_replicate(scene->runtime, 2, 1) != 0) {
        (void)snprintf(text, text_size, "%s", runtime_text(scene->runtime));
        return false;
    }
    if (!mark(scene, text, text_size))
        return false;
    history_listen(scene->history, heard, scene);
    scene->proxy = proxy_new(scene->stage->seed, heard_link, scene);
    if (scene->proxy != NULL)
        scene->workers = workers_new(scene->history);
    if (scene->workers == NULL)
        (void)snprintf(text, text_size, "links and workers: %s", strerror(errno));
    return scene->workers != NULL;
}

struct scene *scene_new(const struct stage *stage, const char *name, const char *title,
                        enum mode mode, const struct conditions *conditions,
                        const char *history_path, char *text, size_t text_size)
{
    struct scene *scene = calloc(1, sizeof *scene);

    if (scene == NULL) {
        (void)snprintf(text, text_size, "out of memory");
        return NULL;
    }
    scene->stage = stage;
    scene->runtime = stage->runtime;
    scene->name = name;
    scene->mode = mode;
    scene->schedule = stream_of(stage->seed, name);
    (void)pthread_mutex_init(&scene->mutex, NULL);
    default_conditions(scene, conditions);
    if (!open_all(scene, history_path, text, text_size)) {
        (void)scene_free(scene);
        return NULL;
    }
    scene->begin_ns = history_now();
    tell_run(scene, title);
    for (unsigned node = 1; node <= scene_nodes(scene); node++) {
        scene__tell_clock(scene, node);
        scene__tell_node(scene, node, "up", true);
    }
    scene->observer = observer_new(scene->runtime, scene_nodes(scene), scene->history);
    if (scene->observer == NULL)
        scene_fail(scene, "observer: %s", strerror(errno));
    return scene;
}

/* ---- ending ------------------------------------------------------------------------ */

static void stop_workers(struct scene *scene)
{
    for (unsigned i = 0; i < scene->member_count; i++)
        if (scene->members[i].running &&
            worker_stop(scene->members[i].worker, scene->over ? 0 : 5000) != 0)
            scene_fail(scene, "worker %s did not end in order", scene->members[i].name);
}

int scene_free(struct scene *scene)
{
    int error = 0;

    if (scene->workers != NULL) {
        bool interrupted = *scene->stage->interrupted != 0;

        for (unsigned i = 0; i < scene->group_count && !scene->over; i++)
            for (unsigned node = 0; node < scene_nodes(scene); node++)
                link_heal(scene->groups[i].links[node]);
        stop_workers(scene);
        workers_free(scene->workers);
        observer_free(scene->observer);
        history_put(scene->history,
                    json_pack("{s:s, s:b}", "type", "end", "interrupted", interrupted));
    }
    proxy_free(scene->proxy);
    if (scene->history != NULL)
        error = history_close(scene->history);
    json_decref(scene->answer);
    (void)pthread_mutex_destroy(&scene->mutex);
    free(scene);
    return error;
}

/* ---- time ---------------------------------------------------------------------------- */

void scene_phase(struct scene *scene, const char *name)
{
    if (!scene__goes_on(scene))
        return;
    (void)snprintf(scene->phase, sizeof scene->phase, "%s", name);
    history_put(scene->history, json_pack("{s:s, s:s}", "type", "phase", "name", name));
}

int64_t scene_since_ms(int64_t t_ns)
{
    return (history_now() - t_ns) / NS_PER_MS;
}

void scene_wait(struct scene *scene, int64_t ms)
{
    int64_t end_ns = history_now() + ms * NS_PER_MS;
    int64_t left_ms;

    while (scene__goes_on(scene) && (left_ms = (end_ns - history_now()) / NS_PER_MS) > 0) {
        (void)poll(NULL, 0, left_ms < 100 ? (int)left_ms : 100);
        if (scene->stage->progress != NULL)
            scene->stage->progress(scene->stage->progress_context, scene);
    }
}

void scene_span(struct scene *scene, int64_t long_ms, int64_t quick_ms)
{
    scene_wait(scene, scene->stage->quick ? quick_ms : long_ms);
}

/* ---- what must come out ---------------------------------------------------------------- */

void scene_expect(struct scene *scene, enum kind kind, const char *metric, const char *phase,
                  const char *op, double value)
{
    static const char *const kinds[] = {"safety", "liveness", "effect"};
    /* Another client need not say which keys are its own: then there is nothing to measure. */
    bool measured = scene->stage->peer == NULL || strncmp(metric, "c3.", 3) != 0;

    if (!scene->over && measured)
        history_put(scene->history,
                    json_pack("{s:s, s:s, s:s, s:s, s:f, s:s}", "type", "expect", "metric", metric,
                              "phase", phase, "op", op, "value", value, "kind", kinds[kind]));
}

void scene_expect_fenced(struct scene *scene)
{
    if (scene_fenced(scene)) {
        scene_expect(scene, EFFECT, "c4.tokens", "", "ge", 1);
        scene_expect(scene, SAFETY, "c4.disorders", "", "eq", 0);
    }
    if (scene->wrote && scene_fenced(scene))
        scene_expect(scene, SAFETY, "c5.accepted_stale", "", "eq", 0);
    scene_expect(scene, LIVENESS, "c7.late", "", "eq", 0);
    scene_expect(scene, LIVENESS, "c10.fds", "", "le", 8); /* links for waiting are kept */
    scene_expect(scene, LIVENESS, "c10.threads", "", "le", 0);
}

void scene_expect_true(struct scene *scene, const char *phase)
{
    scene_expect(scene, SAFETY, "c1.overlaps", phase, "eq", 0);
    if (scene->entered) {
        scene_expect(scene, SAFETY, "c2.overlaps", phase, "eq", 0);
        scene_expect(scene, SAFETY, "c2.lost_updates", phase, "eq", 0);
    }
    scene_expect(scene, EFFECT, "c3.leases", phase, "ge", 1);
    scene_expect(scene, SAFETY, "c3.min_ms", phase, "ge", 0);
    scene_expect(scene, SAFETY, "c3.negative", phase, "eq", 0);
}

void scene_expect_clean(struct scene *scene)
{
    scene_expect_true(scene, "");
    scene_expect_fenced(scene);
}

void scene_expect_available(struct scene *scene, const char *phase, double least)
{
    scene_expect(scene, EFFECT, "probe.count", phase, "ge", 4);
    /* Not met only where the probes contradict it: a stall of a busy machine hits all at once. */
    scene_expect(scene, LIVENESS, "probe.high", phase, "ge", least);
}

void scene_expect_reason(struct scene *scene, unsigned nodes, const char *phase, const char *word)
{
    if (!scene->reasons)
        scene_expect(scene, LIVENESS, "c9.wrong", "", "eq", 0);
    scene->reasons = true;
    for (unsigned node = 1; node <= scene_nodes(scene) && !scene->over; node++)
        if (nodes & NODE(node))
            history_put(scene->history, json_pack("{s:s, s:i, s:s, s:s}", "type", "reason", "node",
                                                  (int)node, "phase", phase, "word", word));
}

void scene_measure(struct scene *scene, const char *name, double value)
{
    if (!scene->over)
        history_put(scene->history, json_pack("{s:s, s:s, s:s, s:f}", "type", "measure", "name",
                                              name, "phase", "", "value", value));
}

void scene_check(struct scene *scene, enum kind kind, const char *name, bool holds)
{
    scene_measure(scene, name, holds);
    scene_expect(scene, kind, name, "", "eq", 1);
}

/* ---- at a glance -------------------------------------------------------------------------- */

struct glance scene_glance(const struct scene *scene)
{
    struct scene *locked = (struct scene *)scene; /* for its mutex */
    struct glance glance = {.phase = scene->phase,
                            .elapsed_ms = scene_since_ms(scene->begin_ns),
                            .faults = scene->fault_count};

    pthread_mutex_lock(&locked->mutex);
    for (unsigned i = 0; i < scene->member_count; i++) {
        const struct member *member = &scene->members[i];

        if (strcmp(member->role, "prober") == 0) {
            glance.probes += member->tried;
            glance.probed += member->acquired;
        } else {
            glance.acquired += member->acquired;
        }
    }
    glance.violations = scene->violations;
    pthread_mutex_unlock(&locked->mutex);
    return glance;
}
