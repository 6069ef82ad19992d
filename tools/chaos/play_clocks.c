/* Wall clocks of primaries that step, run at another rate, tremble. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

enum {
    HOUR_MS = 3600000
};

/* A round that carries the sample which shows a step counts that primary's grant no more, and is
 * given up where it had gone with the first three answers: a try for each client and step. */
#define MOST 0.95

struct worker *keep_watch(struct scene *scene, int64_t *lock)
{
    struct worker *watcher = scene_actor(scene, "watcher", "P");
    int64_t got = act_keep(scene, watcher, "watched");

    scene_check(scene, EFFECT, "watcher_has_its_lock", got >= 0);
    if (lock != NULL)
        *lock = got;
    return watcher;
}

static int64_t step_seen_ms(struct scene *scene, struct worker *watcher, unsigned node)
{
    return json_integer_value(json_object_get(act_health(scene, watcher, node), "step_ms"));
}

/* Until the client says that the node's clock was stepped by about that: ms, or -1. */
static int64_t until_step_seen(struct scene *scene, struct worker *watcher, unsigned node,
                               int64_t step_ms)
{
    int64_t begin_ns = history_now();

    while (scene_goes_on(scene)) {
        int64_t seen = step_seen_ms(scene, watcher, node);

        if (seen > step_ms - 200 && seen < step_ms + 200)
            return scene_since_ms(begin_ns);
        if (scene_since_ms(begin_ns) > 5000)
            return -1;
        scene_wait(scene, 10);
    }
    return -1;
}

void play_step_one(struct scene *scene)
{
    unsigned last = scene_stage(scene)->quick ? 1 : SCENE_NODES;
    bool seen = true, counted = true, waited = true; /* of all: of a name the last measure counts */
    struct worker *watcher;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    watcher = keep_watch(scene, NULL);
    scene_span(scene, 3000, 2000);
    scene_phase(scene, "steps");
    for (unsigned node = 1; node <= last; node++) {
        int64_t seen_ms, counted_ms;

        scene_clock_step(scene, NODE(node), 10000);
        seen_ms = until_step_seen(scene, watcher, node, 10000);
        scene_measure(scene, "step_seen_ms", (double)seen_ms);
        seen = seen && seen_ms >= 0 && seen_ms <= 2500;
        counted_ms = act_until_counted(scene, watcher, NODE(node), scene_guard_ms(scene) + 4000);
        counted = counted && counted_ms >= 0;
        waited = waited && (counted_ms < 0 || counted_ms + seen_ms >= scene_ttl(scene));
    }
    scene_check(scene, LIVENESS, "step_seen", seen);
    scene_check(scene, LIVENESS, "counted_again", counted);
    scene_check(scene, SAFETY, "waited_for_the_guard", waited);
    scene_expect_clean(scene);
    scene_expect_available(scene, "steps", MOST);
    scene_liveness(scene);
}

/* A has a bare majority; one of it forgets by its clock. */
void play_step_bare(struct scene *scene)
{
    static const struct toxic refuse = {.kind = TOXIC_REFUSE};
    struct worker *a, *b;
    int64_t a_lock, b_lock, begin_ns;

    scene_phase(scene, "before");
    scene_infect(scene, "A", NODE(4) | NODE(5), &refuse);
    scene_infect(scene, "B", NODE(1) | NODE(2), &refuse);
    a = scene_actor(scene, "a", "A");
    b = scene_actor(scene, "b", "B");
    a_lock = act_acquire(scene, a, "job", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", a_lock >= 0);
    if (a_lock < 0)
        return;
    act_enter(scene, a, a_lock);
    scene_clock_step(scene, NODE(3), 10000);
    begin_ns = history_now();
    b_lock = act_poll(scene, b, "job", 1, 500);
    scene_phase(scene, "stepped");
    scene_check(scene, SAFETY, "b_breaks_in", b_lock >= 0);
    if (b_lock < 0)
        return;
    act_enter(scene, b, b_lock);
    act_write(scene, b, b_lock, false);
    act_write(scene, a, a_lock, false);
    while (scene_goes_on(scene) && act_held(scene, a, a_lock) && scene_since_ms(begin_ns) < 5000)
        scene_wait(scene, 10);
    scene_measure(scene, "a_lost_ms", (double)scene_since_ms(begin_ns));
    scene_check(scene, LIVENESS, "a_is_told_in_a_second_or_so", scene_since_ms(begin_ns) <= 2500);
    act_leave(scene, a, a_lock);
    (void)act_release(scene, a, a_lock);
    act_leave(scene, b, b_lock);
    (void)act_release(scene, b, b_lock);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
    scene_expect(scene, SAFETY, "lost.true", "", "ge", 1);
    scene_expect_fenced(scene);
}

void play_step_majority(struct scene *scene)
{
    struct worker *a, *b;
    int64_t a_lock, b_lock, back_ms;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    scene_crowd(scene, "P", 0, 4);
    scene_wait(scene, 500);
    a_lock = act_acquire(scene, a, "job", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", a_lock >= 0);
    if (a_lock < 0)
        return;
    act_enter(scene, a, a_lock);
    scene_clock_step(scene, NODE(1) | NODE(2) | NODE(3), HOUR_MS);
    b_lock = act_poll(scene, b, "job", 1, 500);
    scene_phase(scene, "stepped");
    scene_check(scene, SAFETY, "b_breaks_in", b_lock >= 0);
    if (b_lock < 0)
        return;
    act_enter(scene, b, b_lock);
    act_write(scene, b, b_lock, false);
    act_write(scene, a, a_lock, false);
    scene_wait(scene, 200);
    act_leave(scene, b, b_lock);
    (void)act_release(scene, b, b_lock);
    act_leave(scene, a, a_lock);
    (void)act_release(scene, a, a_lock);
    scene_wait(scene, scene_guard_ms(scene) + 2500);
    back_ms = scene_until_probed(scene, 5000);
    scene_check(scene, LIVENESS, "back_after_the_guard", back_ms >= 0);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
    scene_expect_fenced(scene);
    scene_liveness(scene);
}

/* How many of the nodes keep the key for more than `least_ms`. */
static int kept_long(struct scene *scene, const char *name, long long least_ms)
{
    int kept = 0;

    for (unsigned node = 1; node <= SCENE_NODES && scene_goes_on(scene); node++) {
        redisReply *reply = runtime_command(scene_runtime(scene), node, "PTTL %s", name);

        kept += reply != NULL && reply->type == REDIS_REPLY_INTEGER && reply->integer > least_ms;
        freeReplyObject(reply);
    }
    return kept;
}

void play_clock_back(struct scene *scene)
{
    struct worker *a, *b;
    const char *rc = "";
    int64_t lock;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 4, 4);
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    scene_span(scene, 2000, 1000);
    lock = act_acquire(scene, a, "crashed", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    if (lock < 0)
        return;
    scene_kill_worker(scene, a);
    scene_clock_step(scene, NODE(1) | NODE(2) | NODE(3), -HOUR_MS);
    scene_phase(scene, "back");
    scene_wait(scene, scene_ttl(scene) + 500);
    lock = act_acquire(scene, b, "crashed", 500, &rc);
    scene_check(scene, EFFECT, "that_name_is_taken", lock < 0 && strcmp(rc, "busy") == 0);
    scene_check(scene, EFFECT, "keys_live_an_hour_more",
                kept_long(scene, "crashed", HOUR_MS / 2) == 3);
    scene_span(scene, 4000, 2000);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect(scene, SAFETY, "c2.overlaps", "", "eq", 0);
    scene_expect(scene, SAFETY, "c3.min_ms", "", "ge", 0);
    scene_expect_fenced(scene);
    scene_expect_available(scene, "back", NEARLY_ALL);
    scene_liveness(scene);
}

/* ---- rates -------------------------------------------------------------------- */

void play_rate(struct scene *scene)
{
    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 2000, 1000);
    scene_clock_rate(scene, ALL_NODES, 5000);
    scene_phase(scene, "fast");
    scene_span(scene, 10000, 4000);
    scene_expect_clean(scene);
    scene_expect_available(scene, "fast", NEARLY_ALL);
    scene_liveness(scene);
}

/* A keeps it to the end that it claims; B asks all the time. */
static void hold_to_the_end(struct scene *scene, struct worker *a, struct worker *b)
{
    int64_t a_lock = act_acquire(scene, a, "job", 2000, NULL);
    int64_t b_lock;

    scene_check(scene, EFFECT, "a_has_it", a_lock >= 0);
    if (a_lock < 0)
        return;
    b_lock = act_poll(scene, b, "job", 2, 2 * scene_ttl(scene));
    scene_check(scene, LIVENESS, "b_gets_it", b_lock >= 0);
    if (b_lock >= 0)
        (void)act_release(scene, b, b_lock);
    (void)act_release(scene, a, a_lock);
}

void play_rate_fast(struct scene *scene)
{
    struct worker *a, *b;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    b = scene_actor(scene, "b", "P");
    scene_clock_rate(scene, ALL_NODES, 50000);
    scene_phase(scene, "fast");
    hold_to_the_end(scene, a, b);
    scene_expect(scene, SAFETY, "c3.min_ms", "", "lt", 0);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
}

/* 5 % on all, against an allowance of 1 %: once it is measured the allowance grows. */
void play_rate_measured(struct scene *scene)
{
    struct worker *a, *b;

    scene_phase(scene, "before");
    a = keep_watch(scene, NULL);
    b = scene_actor(scene, "b", "P");
    scene_clock_rate(scene, ALL_NODES, 50000);
    scene_phase(scene, "measuring");
    scene_wait(scene, 14000);
    scene_phase(scene, "measured");
    hold_to_the_end(scene, a, b);
    scene_expect(scene, SAFETY, "c3.min_ms", "measured", "ge", 0);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect_fenced(scene);
}

/* ---- a clock that trembles ---------------------------------------------------------- */

static void strobe(struct scene *scene, unsigned nodes, int64_t ms)
{
    int64_t begin_ns = history_now();

    scene_clock_step(scene, nodes, 5000);
    for (int sign = -1; scene_goes_on(scene) && scene_since_ms(begin_ns) < ms; sign = -sign) {
        scene_clock_jerk(scene, nodes, sign * 10000);
        scene_wait(scene, 5);
    }
    if (scene_goes_on(scene))
        scene_clock_rate(scene, nodes, 0);
}

static void play_strobe(struct scene *scene, unsigned nodes)
{
    struct worker *watcher;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    watcher = keep_watch(scene, NULL);
    scene_span(scene, 2000, 1000);
    scene_phase(scene, "strobe");
    strobe(scene, nodes, scene_stage(scene)->quick ? 2000 : 5000);
    scene_check(scene, EFFECT, "a_step_was_seen", step_seen_ms(scene, watcher, 1) != 0);
    scene_phase(scene, "after");
    scene_check(scene, LIVENESS, "counted_again",
                act_until_counted(scene, watcher, ALL_NODES, scene_guard_ms(scene) + 5000) >= 0);
}

void play_strobe_one(struct scene *scene)
{
    play_strobe(scene, NODE(1));
    scene_expect_clean(scene);
    scene_expect_available(scene, "strobe", MOST);
    scene_liveness(scene);
}

void play_strobe_three(struct scene *scene)
{
    play_strobe(scene, NODE(1) | NODE(2) | NODE(3));
    scene_expect_fenced(scene);
    scene_liveness(scene);
}
