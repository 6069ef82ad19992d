/* Primaries that die, and come back with, without or with older data. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

enum {
    CONTENDERS = 8,
    PROBERS = 4,
    SLACK_MS = 1500 /* of a busy machine, on what the rules say */
};

void play_calm(struct scene *scene)
{
    scene_phase(scene, "calm");
    scene_crowd(scene, "P", CONTENDERS, PROBERS);
    scene_span(scene, 10000, 3000);
    scene_expect_clean(scene);
    scene_expect_available(scene, "calm", NEARLY_ALL);
    /* 22 ms of drift, 3 ms, and the round trip of a machine that is busy with all this. */
    scene_expect(scene, LIVENESS, "c3.p50_ms", "", "le", 30);
    scene_expect(scene, LIVENESS, "c6.orphans", "", "eq", 0);
}

/* How long the youngest of the nodes has been up by its own account, which is not wrong by the time
 * that it took to start a container. The difference of two whole seconds: it may be up to one more
 * than that, or less; so what is less than a ttl of whole seconds is too little for certain. */
static int64_t uptime_ms(struct scene *scene, unsigned nodes)
{
    long long least_s = LLONG_MAX;

    for (unsigned node = 1; node <= SCENE_NODES && scene_goes_on(scene); node++) {
        static const char field[] = "uptime_in_seconds:";
        redisReply *reply;
        const char *found = NULL;
        long long seconds = 0;

        if (!(nodes & NODE(node)))
            continue;
        reply = runtime_command(scene_runtime(scene), node, "INFO server");
        if (reply != NULL && reply->str != NULL)
            found = strstr(reply->str, field);
        if (found != NULL)
            seconds = strtoll(found + strlen(field), NULL, 10);
        else
            scene_fail(scene, "node %u doesn't say how long it is up", node);
        if (seconds < least_s)
            least_s = seconds;
        freeReplyObject(reply);
    }
    return least_s == LLONG_MAX ? 0 : least_s * 1000;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void play_kill_minority(struct scene *scene)
{
    bool own = scene_stage(scene)->peer == NULL; /* another client doesn't say what it counts */
    int64_t counted_ms = -1, age_ms = 0, begin_ns;
    struct worker *watcher = NULL;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", CONTENDERS, PROBERS);
    if (own)
        watcher = scene_actor(scene, "watcher", "P");
    scene_span(scene, 3000, 1000);
    scene_kill(scene, NODE(4) | NODE(5));
    scene_phase(scene, "down");
    scene_span(scene, 5000, 2000);
    scene_phase(scene, "guard");
    begin_ns = history_now();
    scene_revive(scene, NODE(4) | NODE(5), REVIVE_EMPTY);
    if (own) {
        counted_ms = act_until_counted(scene, watcher, ALL_NODES, scene_guard_ms(scene) + 5000);
        age_ms = least(uptime_ms(scene, NODE(4) | NODE(5)), scene_since_ms(begin_ns));
        scene_measure(scene, "counted_again_ms", (double)counted_ms);
    } else {
        scene_wait(scene, scene_guard_ms(scene) + 1000);
    }
    scene_phase(scene, "after");
    scene_span(scene, 3000, 1000);
    scene_expect_clean(scene);
    scene_expect_available(scene, "down", NEARLY_ALL);
    scene_expect_available(scene, "guard", NEARLY_ALL);
    scene_expect_available(scene, "after", NEARLY_ALL);
    if (own) {
        scene_check(scene, LIVENESS, "counted_again", counted_ms >= 0);
        scene_check(scene, SAFETY, "waited_for_the_guard",
                    counted_ms < 0 || age_ms >= scene_ttl(scene));
        /* An empty one says that it has no marker, one that was marked since, when it restarted. */
        scene_expect_reason(scene, NODE(4) | NODE(5), "guard", "counts in");
    }
    scene_liveness(scene);
}

void play_kill_majority(struct scene *scene)
{
    unsigned three = NODE(3) | NODE(4) | NODE(5);
    int64_t back_ms, age_ms, begin_ns;
    bool waited = true;
    uint64_t had;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", CONTENDERS, PROBERS);
    scene_span(scene, 3000, 1000);
    scene_phase(scene, "dying"); /* one after another */
    scene_kill(scene, three);
    scene_phase(scene, "down");
    scene_span(scene, 5000, 2000);
    scene_phase(scene, "guard");
    had = scene_acquired(scene, NULL, "prober");
    begin_ns = history_now();
    for (unsigned node = 3; node <= SCENE_NODES; node++) {
        scene_revive(scene, NODE(node), REVIVE_EMPTY);
        /* The first one is the oldest: with those that stayed it is a majority. */
        waited = waited &&
                 (scene_acquired(scene, NULL, "prober") == had ||
                  least(uptime_ms(scene, NODE(3)), scene_since_ms(begin_ns)) >= scene_ttl(scene));
    }
    back_ms = scene_until_probed(scene, scene_guard_ms(scene) + 8000);
    age_ms = least(uptime_ms(scene, NODE(3)), scene_since_ms(begin_ns));
    scene_measure(scene, "back_ms", (double)back_ms);
    scene_expect_clean(scene);
    scene_expect_available(scene, "before", NEARLY_ALL);
    scene_expect(scene, SAFETY, "probe.availability", "down", "eq", 0);
    scene_check(scene, SAFETY, "waited_for_the_guard",
                waited && (back_ms < 0 || age_ms >= scene_ttl(scene)));
    scene_check(scene, LIVENESS, "back_in_time",
                back_ms >= 0 && back_ms <= scene_guard_ms(scene) + 1200 + SLACK_MS);
    if (scene_stage(scene)->peer == NULL) /* another client has no word for it */
        scene_expect(scene, EFFECT, "rc.no_quorum", "down", "ge", 1);
    scene_liveness(scene);
}

/* ---- the same three nodes, and one that they have in common ------------------- */

/* A reaches only 1, 2 and 3, B only 3, 4 and 5. */
struct pair {
    struct worker *a, *b;
    int64_t a_lock;
};

static const struct toxic refuse = {.kind = TOXIC_REFUSE};

static struct pair pair_of(struct scene *scene, json_t *b_changes)
{
    struct pair pair = {.a_lock = -1};
    json_t *spec;

    scene_phase(scene, "before");
    scene_infect(scene, "A", NODE(4) | NODE(5), &refuse);
    scene_infect(scene, "B", NODE(1) | NODE(2), &refuse);
    pair.a = scene_actor(scene, "a", "A");
    spec = scene_spec(scene, "b", "actor", "B");
    (void)json_object_update(spec, b_changes);
    json_decref(b_changes);
    pair.b = scene_start(scene, spec);
    return pair;
}

/* False: it didn't get it, and nothing can be said. */
static bool a_takes(struct scene *scene, struct pair *pair)
{
    pair->a_lock = act_acquire(scene, pair->a, "job", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", pair->a_lock >= 0);
    if (pair->a_lock < 0)
        return false;
    act_enter(scene, pair->a, pair->a_lock);
    act_write(scene, pair->a, pair->a_lock, false);
    return true;
}

/* B asks while A has it, and must get nothing; later it must. */
static void b_waits(struct scene *scene, struct pair *pair, int64_t limit_ms)
{
    int64_t begin_ns = history_now();
    int64_t left_ms = act_remaining(scene, pair->a, pair->a_lock);
    int64_t lock;

    scene_check(scene, EFFECT, "a_still_has_it", left_ms > 200);
    lock = act_poll(scene, pair->b, "job", 20, left_ms);
    scene_check(scene, SAFETY, "b_waits", lock < 0);
    act_leave(scene, pair->a, pair->a_lock);
    (void)act_release(scene, pair->a, pair->a_lock);
    scene_heal(scene, "B", NODE(1) | NODE(2));
    if (lock < 0)
        lock = act_poll(scene, pair->b, "job", 20, limit_ms);
    scene_check(scene, LIVENESS, "b_gets_it_in_the_end", lock >= 0);
    scene_measure(scene, "b_waited_ms", (double)scene_since_ms(begin_ns));
    if (lock >= 0) {
        act_enter(scene, pair->b, lock);
        act_write(scene, pair->b, lock, false);
        act_leave(scene, pair->b, lock);
        (void)act_release(scene, pair->b, lock);
    }
}

/* B gets it while A has it: both write. */
static void b_breaks_in(struct scene *scene, struct pair *pair, int64_t limit_ms)
{
    int64_t lock = act_poll(scene, pair->b, "job", 5, limit_ms);

    scene_check(scene, SAFETY, "b_breaks_in", lock >= 0);
    if (lock < 0)
        return;
    act_enter(scene, pair->b, lock);
    act_write(scene, pair->b, lock, false);
    act_write(scene, pair->a, pair->a_lock, false);
    scene_wait(scene, 1200);
    act_leave(scene, pair->b, lock);
    (void)act_release(scene, pair->b, lock);
    act_leave(scene, pair->a, pair->a_lock);
    (void)act_release(scene, pair->a, pair->a_lock);
}

static void expect_broken(struct scene *scene)
{
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
    scene_expect(scene, SAFETY, "c2.overlaps", "", "ge", 1);
    if (scene_fenced(scene))
        scene_expect(scene, SAFETY, "c5.accepted_stale", "", "eq", 0);
}

/* A can't look: where it saw that node 3 has forgotten its lock, it would give it up at once. */
static bool restart_third(struct scene *scene, struct pair *pair, enum revival revival)
{
    if (revival == REVIVE_OLDER && runtime_remember(scene_runtime(scene), 3) != 0)
        scene_fail(scene, "remember node 3: %s", runtime_text(scene_runtime(scene)));
    if (!a_takes(scene, pair))
        return false;
    scene_kill(scene, NODE(3));
    scene_infect(scene, "A", NODE(3), &refuse);
    scene_revive(scene, NODE(3), revival);
    scene_phase(scene, "restarted");
    return true;
}

static void play_guarded(struct scene *scene, enum revival revival)
{
    struct pair pair = pair_of(scene, json_object());

    if (!restart_third(scene, &pair, revival))
        return;
    b_waits(scene, &pair, scene_guard_ms(scene) + 8000);
    scene_expect_clean(scene);
}

static void play_unguarded(struct scene *scene, enum revival revival)
{
    struct pair pair = pair_of(scene, json_object());

    if (!restart_third(scene, &pair, revival))
        return;
    b_breaks_in(scene, &pair, 2000);
    expect_broken(scene);
    scene_expect(scene, SAFETY, "c1.longest_ms", "", "ge", 1000);
    scene_expect(scene, SAFETY, "stale.plain", "", "ge", 1);
}

void play_empty_guard(struct scene *scene)
{
    play_guarded(scene, REVIVE_EMPTY);
}

void play_empty_noguard(struct scene *scene)
{
    play_unguarded(scene, REVIVE_EMPTY);
}

void play_older_guard(struct scene *scene)
{
    play_guarded(scene, REVIVE_OLDER);
}

void play_older_noguard(struct scene *scene)
{
    play_unguarded(scene, REVIVE_OLDER);
}

/* B's locks are short. A guard by its own ttl would be over while A's long lease is not. */
void play_mixed_guard(struct scene *scene)
{
    struct pair pair = pair_of(scene, json_pack("{s:i}", "ttl_ms", 1000));

    if (!restart_third(scene, &pair, REVIVE_EMPTY))
        return;
    b_waits(scene, &pair, scene_guard_ms(scene) + 8000);
    scene_expect_clean(scene);
}

void play_mixed_noguard(struct scene *scene)
{
    static const struct toxic hold = {.kind = TOXIC_HOLD};
    struct pair pair = pair_of(scene, json_pack("{s:i, s:i}", "ttl_ms", 1000, "guard_ms", 1200));

    if (!a_takes(scene, &pair))
        return;
    scene_infect(scene, "A", NODE(3), &hold); /* or A would see the restart, and know */
    scene_kill(scene, NODE(3));
    scene_revive(scene, NODE(3), REVIVE_EMPTY);
    scene_phase(scene, "restarted");
    b_breaks_in(scene, &pair, 4000);
    expect_broken(scene);
}

/* ---- with their data -------------------------------------------------------------- */

void play_durable_restart(struct scene *scene)
{
    struct worker *watcher;
    int64_t counted_ms;
    bool at_once = true;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", CONTENDERS, PROBERS);
    watcher = scene_actor(scene, "watcher", "P");
    scene_span(scene, 2000, 1000);
    scene_phase(scene, "restarts");
    for (unsigned node = 1; node <= SCENE_NODES; node++) {
        scene_kill(scene, NODE(node));
        scene_wait(scene, 200);
        scene_revive(scene, NODE(node), REVIVE_KEPT);
        counted_ms = act_until_counted(scene, watcher, ALL_NODES, 5000);
        at_once = at_once && counted_ms >= 0 && counted_ms < scene_guard_ms(scene) - 500;
        scene_span(scene, 1000, 300);
    }
    scene_check(scene, LIVENESS, "counted_at_once", at_once);
    scene_expect_clean(scene);
    scene_expect_available(scene, "restarts", NEARLY_ALL);
    scene_liveness(scene);
}

/* ---- one primary --------------------------------------------------------------------- */

void play_single_restart(struct scene *scene)
{
    scene_phase(scene, "before");
    scene_crowd(scene, "P", CONTENDERS, PROBERS);
    scene_span(scene, 2000, 1000);
    scene_phase(scene, "dying");
    scene_kill(scene, NODE(1));
    scene_phase(scene, "down");
    scene_span(scene, 4000, 2000);
    scene_phase(scene, "after");
    scene_revive(scene, NODE(1), REVIVE_KEPT);
    scene_expect_clean(scene);
    scene_expect_available(scene, "before", NEARLY_ALL);
    scene_expect(scene, SAFETY, "probe.availability", "down", "eq", 0);
    scene_liveness(scene);
}

/* The replica has heard nothing of A's lock when it takes the primary's place. */
static void lose_by_failover(struct scene *scene, struct worker *a, struct worker *b)
{
    struct pair pair = {.a = a, .b = b};

    if (!a_takes(scene, &pair))
        return;
    scene_kill(scene, NODE(1));
    scene_failover(scene);
    scene_phase(scene, "failed over");
    b_breaks_in(scene, &pair, 4000);
    expect_broken(scene);
}

void play_failover(struct scene *scene)
{
    struct worker *a, *b;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    scene_cut_replica(scene);
    lose_by_failover(scene, a, b);
}

/* Of two replicas one acknowledges; the other is promoted. */
void play_failover_wait(struct scene *scene)
{
    struct worker *a, *b;
    json_t *spec;

    scene_phase(scene, "before");
    if (runtime_replicate(scene_runtime(scene), 3, 1) != 0)
        scene_fail(scene, "second replica: %s", runtime_text(scene_runtime(scene)));
    scene_cut_replica(scene);
    a = scene_actor(scene, "a", "P");
    /* The promoted one has no replica to wait for. */
    spec = scene_spec(scene, "b", "actor", "P");
    json_object_set_new(spec, "replicas", json_integer(0));
    b = scene_start(scene, spec);
    lose_by_failover(scene, a, b);
}
