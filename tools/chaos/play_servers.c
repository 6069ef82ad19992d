/* Primaries that are there and refuse, forget, or aren't what they seem. */
#include <stdio.h>
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

struct ailment {
    const char *name;
    const char *word; /* the reason starts with it, or has it */
    const char *const *commands, *const *cure;
    bool cuts; /* connections: a try then waits for the connect timeout */
};

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct ailment ailments[] = {
    {"oom", "OOM", LIST("CONFIG SET maxmemory 1"), LIST("CONFIG SET maxmemory 0"), false},
    {"misconf", "MISCONF", LIST("CONFIG SET save |3600 1", "CONFIG SET dir /proc", "BGSAVE"),
     LIST("CONFIG SET save |", "CONFIG SET dir /tmp"), false},
    {"noreplicas", "NOREPLICAS", LIST("CONFIG SET min-replicas-to-write 1"),
     LIST("CONFIG SET min-replicas-to-write 0"), false},
    {"noauth", "NOAUTH", LIST("CONFIG SET requirepass secret", "CLIENT KILL TYPE normal"),
     LIST("AUTH secret", "CONFIG SET requirepass |"), true},
    {"noperm", "NOPERM", LIST("ACL SETUSER default -set -eval"), LIST("ACL SETUSER default +@all"),
     false},
    {"maxclients", "max number of clients",
     LIST("CONFIG SET maxclients 1", "CLIENT KILL TYPE normal"),
     LIST("CONFIG SET maxclients 10000"), true},
};

/* "" if it was done; only until the next call. */
static const char *error_of(redisReply *reply)
{
    static char text[200];

    text[0] = '\0';
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        (void)snprintf(text, sizeof text, "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

/* What a new client hears: the server may say it before it is asked anything, and hang up. */
static const char *error_of_new(struct scene *scene, unsigned node)
{
    redisContext *context = runtime_connect(scene_runtime(scene), node, 500);
    const char *error;
    void *reply = NULL;

    if (context == NULL)
        return "";
    (void)redisAppendCommand(context, "EXISTS chaos-probe");
    (void)redisGetReply(context, &reply);
    error = error_of(reply);
    redisFree(context);
    return error;
}

/* Until each of the nodes itself refuses for that reason; what would be written never is. */
static void await_refusals(struct scene *scene, const struct ailment *ailment, unsigned nodes)
{
    int64_t begin_ns = history_now();

    for (unsigned node = 1; node <= scene_nodes(scene); node++) {
        while ((nodes & NODE(node)) && scene_goes_on(scene)) {
            const char *error = ailment->cuts
                                    ? error_of_new(scene, node)
                                    : error_of(runtime_command(scene_runtime(scene), node,
                                                               "SET chaos-probe 1 XX PX 1"));

            if (strstr(error, ailment->word) != NULL)
                break;
            if (scene_since_ms(begin_ns) > 3000)
                scene_fail(scene, "%s on node %u did not take: it says \"%s\"", ailment->name, node,
                           error);
            scene_wait(scene, 20);
        }
    }
}

static void ail(struct scene *scene, const struct ailment *ailment, unsigned nodes,
                const char *phase, double least)
{
    scene_ail(scene, nodes, ailment->name, ailment->commands);
    await_refusals(scene, ailment, nodes);
    scene_wait(scene, 200); /* answers under way, connections that were killed */
    scene_phase(scene, phase);
    scene_span(scene, ailment->cuts ? 3500 : 1500, ailment->cuts ? 2500 : 1000);
    if (least > 0)
        scene_expect_available(scene, phase, least);
    else
        scene_expect(scene, SAFETY, "probe.availability", phase, "eq", 0);
    if (scene_stage(scene)->peer == NULL) /* another client gives no reasons */
        scene_expect_reason(scene, nodes, phase, ailment->word);
    scene_phase(scene, "cure");
    scene_cure(scene, nodes, ailment->cure);
    scene_check(scene, LIVENESS, "cured", scene_until_probed(scene, 5000) >= 0);
    scene_wait(scene, 300);
}

void play_server_errors(struct scene *scene)
{
    static const char *const flush[] = {"SCRIPT FLUSH", NULL};

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 4, 4);
    scene_span(scene, 2000, 1000);
    for (size_t i = 0; i < sizeof ailments / sizeof ailments[0]; i++) {
        char phase[32];

        (void)snprintf(phase, sizeof phase, "%s on 2", ailments[i].name);
        ail(scene, &ailments[i], NODE(4) | NODE(5), phase, 0.9);
        (void)snprintf(phase, sizeof phase, "%s on 3", ailments[i].name);
        ail(scene, &ailments[i], NODE(3) | NODE(4) | NODE(5), phase, 0);
    }
    scene_ail(scene, ALL_NODES, "script-flush", flush);
    scene_phase(scene, "script flush");
    scene_span(scene, 1500, 1000);
    scene_cure(scene, ALL_NODES, flush);
    scene_expect_available(scene, "script flush", NEARLY_ALL);
    scene_expect_clean(scene);
    scene_liveness(scene);
}

/* ---- eviction ------------------------------------------------------------------- */

static const char *const may_evict[] = {"CONFIG SET maxmemory 200mb",
                                        "CONFIG SET maxmemory-policy allkeys-random",
                                        "CLIENT KILL TYPE normal", NULL};
static const char *const evicts[] = {"CONFIG SET maxmemory 1", NULL};
static const char *const evicts_no_more[] = {"CONFIG SET maxmemory 0",
                                             "CONFIG SET maxmemory-policy noeviction",
                                             "CLIENT KILL TYPE normal", NULL};

void play_evict(struct scene *scene)
{
    unsigned three = NODE(1) | NODE(2) | NODE(3);

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 4, 4);
    scene_span(scene, 2000, 1000);
    scene_ail(scene, three, "may-evict", may_evict);
    scene_wait(scene, 1000); /* reconnected, told */
    scene_phase(scene, "evicting");
    scene_ail(scene, three, "evict", evicts);
    scene_span(scene, 3000, 1500);
    scene_phase(scene, "after");
    scene_cure(scene, three, evicts_no_more);
    scene_expect(scene, SAFETY, "probe.availability", "evicting", "eq", 0);
    if (scene_stage(scene)->peer == NULL)
        scene_expect_reason(scene, three, "evicting", "evict");
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect(scene, SAFETY, "c2.overlaps", "", "eq", 0);
}

static void b_takes(struct scene *scene, struct worker *a, int64_t a_lock, struct worker *b)
{
    int64_t lock = act_poll(scene, b, "job", 5, 3000);

    scene_check(scene, SAFETY, "b_breaks_in", lock >= 0);
    if (lock < 0)
        return;
    act_enter(scene, b, lock);
    act_write(scene, b, lock, false);
    act_write(scene, a, a_lock, false);
    act_leave(scene, b, lock);
    act_leave(scene, a, a_lock);
    (void)act_release(scene, b, lock);
    (void)act_release(scene, a, a_lock);
}

void play_evict_control(struct scene *scene)
{
    unsigned three = NODE(1) | NODE(2) | NODE(3);
    struct worker *a, *b;
    int64_t lock;

    scene_phase(scene, "before");
    scene_ail(scene, three, "may-evict", may_evict);
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    lock = act_acquire(scene, a, "job", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    if (lock < 0)
        return;
    act_enter(scene, a, lock);
    scene_ail(scene, three, "evict", evicts);
    for (unsigned node = 1; node <= 3 && scene_goes_on(scene); node++)
        freeReplyObject(runtime_command(scene_runtime(scene), node, "SET filler 1"));
    scene_cure(scene, three, LIST("CONFIG SET maxmemory 200mb"));
    scene_phase(scene, "evicted");
    b_takes(scene, a, lock, b);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
    scene_expect(scene, SAFETY, "c2.overlaps", "", "ge", 1);
}

/* ---- FLUSHALL ------------------------------------------------------------------------ */

/* Until the client counts the node no more: ms, or -1. */
static int64_t until_out(struct scene *scene, struct worker *actor, unsigned node, int64_t limit_ms)
{
    int64_t begin_ns = history_now();

    while (scene_goes_on(scene)) {
        if (json_is_false(json_object_get(act_health(scene, actor, node), "counts")))
            return scene_since_ms(begin_ns);
        if (scene_since_ms(begin_ns) > limit_ms)
            return -1;
        scene_wait(scene, 10);
    }
    return -1;
}

void play_flush_one(struct scene *scene)
{
    struct worker *watcher;
    int64_t lock, out_ms, counted_ms, again_ms, begin_ns;
    bool held;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    watcher = keep_watch(scene, &lock);
    if (lock < 0)
        return;
    scene_span(scene, 2000, 1000);
    begin_ns = history_now();
    scene_flush(scene, NODE(1));
    scene_phase(scene, "flushed");
    /* It is asked with each renewal, of which there is more than one in a ttl, or the lock is lost.
     */
    out_ms = until_out(scene, watcher, 1, scene_ttl(scene));
    scene_measure(scene, "out_ms", (double)out_ms);
    counted_ms = act_until_counted(scene, watcher, ALL_NODES, scene_guard_ms(scene) + 5000);
    again_ms = scene_since_ms(begin_ns);
    scene_measure(scene, "counted_again_ms", (double)again_ms);
    held = act_held(scene, watcher, lock);
    scene_check(scene, EFFECT, "watched_all_the_time", held);
    if (!held)
        return;
    scene_check(scene, SAFETY, "waited_for_the_guard",
                out_ms >= 0 && (counted_ms < 0 || again_ms >= scene_ttl(scene)));
    scene_check(scene, LIVENESS, "counted_again", counted_ms >= 0);
    scene_expect_clean(scene);
    scene_expect_available(scene, "flushed", NEARLY_ALL);
    scene_liveness(scene);
}

/* Nothing can keep A's lock; but no number comes twice, and A is told. */
void play_flush_three(struct scene *scene)
{
    struct worker *a, *b;
    int64_t lock, begin_ns;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    lock = act_acquire(scene, b, "job", 2000, NULL);
    scene_check(scene, EFFECT, "b_had_it", lock >= 0);
    if (lock < 0)
        return;
    (void)act_release(scene, b, lock);
    lock = act_keep(scene, a, "job");
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    if (lock < 0)
        return;
    scene_flush(scene, NODE(1) | NODE(2) | NODE(3));
    scene_phase(scene, "flushed");
    for (begin_ns = history_now();
         scene_goes_on(scene) && act_held(scene, a, lock) && scene_since_ms(begin_ns) < 5000;
         scene_wait(scene, 10))
        ;
    scene_measure(scene, "a_lost_ms", (double)scene_since_ms(begin_ns));
    scene_check(scene, LIVENESS, "a_is_told", scene_since_ms(begin_ns) <= scene_ttl(scene));
    (void)act_release(scene, a, lock);
    /* What was counted is gone, and it may be refused; if not, its number is judged too. */
    lock = act_poll(scene, b, "job", 100, scene_guard_ms(scene) + 1500);
    scene_measure(scene, "b_got_it", lock >= 0);
    if (lock >= 0)
        (void)act_release(scene, b, lock);
    scene_expect(scene, EFFECT, "c4.tokens", "", "ge", 2);
    scene_expect_fenced(scene);
}

/* ---- lists of primaries ------------------------------------------------------------------ */

/* Names 2 and 3 lead to one server. What the client says; NULL: it can't be asked. */
static const char *acquire_with_twins(struct scene *scene)
{
    const char *rc = "none";
    struct worker *right, *a;
    int64_t lock;

    scene_phase(scene, "before");
    right = scene_actor(scene, "right", "P");
    lock = act_acquire(scene, right, "warm", 2000, NULL);
    scene_check(scene, EFFECT, "right_list_works", lock >= 0);
    if (lock < 0)
        return NULL;
    (void)act_release(scene, right, lock);
    if (scene_goes_on(scene))
        link_target(scene_link(scene, "D", 3), runtime_port(scene_runtime(scene), 2));
    scene_phase(scene, "twins");
    a = scene_actor(scene, "a", "D");
    lock = act_acquire(scene, a, "job", 500, &rc);
    if (lock < 0)
        return rc;
    (void)act_release(scene, a, lock);
    return "ok"; /* rc was of an answer before the last */
}

void play_duplicates(struct scene *scene)
{
    const char *rc = acquire_with_twins(scene);

    if (rc != NULL)
        scene_check(scene, SAFETY, "refused", strcmp(rc, "misconfigured") == 0);
}

void play_duplicates_control(struct scene *scene)
{
    const char *rc = acquire_with_twins(scene);

    if (rc != NULL)
        scene_check(scene, SAFETY, "not_refused", strcmp(rc, "ok") == 0);
}

/* A client that knows only three of the five. */
void play_wrong_members(struct scene *scene)
{
    const char *rc = "";
    struct worker *right, *few;
    json_t *spec;
    int64_t lock;

    scene_phase(scene, "before");
    right = scene_actor(scene, "right", "P");
    lock = act_acquire(scene, right, "warm", 2000, NULL);
    scene_check(scene, EFFECT, "right_list_works", lock >= 0);
    if (lock < 0)
        return;
    (void)act_release(scene, right, lock);
    spec = scene_spec(scene, "few", "actor", "P");
    while (json_array_size(json_object_get(spec, "nodes")) > 3)
        json_array_remove(json_object_get(spec, "nodes"), 3);
    few = scene_start(scene, spec);
    scene_phase(scene, "three of five");
    (void)act_acquire(scene, few, "job", 500, &rc);
    scene_check(scene, SAFETY, "refused", strcmp(rc, "misconfigured") == 0);
}
