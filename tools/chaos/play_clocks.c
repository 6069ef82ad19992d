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

/* ---- steps that are not noticed at once --------------------------------------- */

/*
 * A lease on a bare majority is others' to have once the clock of one of it steps forward, until
 * its client notices. So nothing is expected of the claims of those granted in the phase
 * "unnoticed": it begins when what is out before the step will have ended, and ends when each
 * client has a newer sample. The fences hold all the time, and leases that all five keep stand it.
 */
enum {
    KEPT = 4,
    NOTICED_MS = 3000 /* samples are 2 s old at most when a round begins, and 1 s with a lease */
};

struct holders { /* of leases on all five, renewed as long as the scene lasts */
    struct worker *watcher, *keeper;
    int64_t watched, kept[KEPT];
};

static void keep_holding(struct scene *scene, struct holders *holders)
{
    bool all = true;

    holders->watcher = keep_watch(scene, &holders->watched);
    holders->keeper = scene_actor(scene, "keeper", "P");
    for (int i = 0; i < KEPT; i++) {
        char name[24];

        (void)snprintf(name, sizeof name, "kept-%d", i + 1);
        holders->kept[i] = act_keep(scene, holders->keeper, name);
        all = all && holders->kept[i] >= 0;
    }
    scene_check(scene, EFFECT, "keeper_has_its_locks", all);
}

/* Whether one is lost is for them to say; what they claim all that time is for C3 of "before". */
static void expect_held_on(struct scene *scene, const struct holders *holders)
{
    bool all = holders->watched >= 0 && act_held(scene, holders->watcher, holders->watched);

    for (int i = 0; i < KEPT; i++)
        all = all && holders->kept[i] >= 0 && act_held(scene, holders->keeper, holders->kept[i]);
    scene_check(scene, LIVENESS, "held_all_the_time", all);
}

/* An extended one ends two ttls after it was granted at the latest; others are not renewed here. */
static void begin_unnoticed(struct scene *scene)
{
    scene_phase(scene, "unnoticed");
    scene_wait(scene, 2 * scene_ttl(scene));
}

struct course { /* what came of all steps so far: of a name the last measure counts */
    bool seen, counted, waited;
};

static void step_and_back(struct scene *scene, struct worker *watcher, unsigned node,
                          struct course *course)
{
    int64_t begin_ns = history_now(), seen_ms, counted_ms;

    scene_clock_step(scene, NODE(node), 10000);
    seen_ms = until_step_seen(scene, watcher, node, 10000);
    scene_measure(scene, "step_seen_ms", (double)seen_ms);
    course->seen = course->seen && seen_ms >= 0 && seen_ms <= 2500;
    counted_ms =
        act_until_counted(scene, watcher, NODE(node), NOTICED_MS - scene_since_ms(begin_ns));
    if (counted_ms >= 0 && scene_since_ms(begin_ns) < scene_ttl(scene))
        course->waited = false;
    scene_wait(scene, NOTICED_MS - scene_since_ms(begin_ns));
    scene_phase(scene, "noticed");
    counted_ms = act_until_counted(scene, watcher, NODE(node), scene_guard_ms(scene) + 4000);
    course->counted = course->counted && counted_ms >= 0;
    scene_wait(scene, 1000);
}

void play_step_one(struct scene *scene)
{
    unsigned last = scene_stage(scene)->quick ? 1 : SCENE_NODES;
    struct course course = {true, true, true};
    struct holders holders;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    keep_holding(scene, &holders);
    scene_span(scene, 3000, 2000);
    for (unsigned node = 1; node <= last; node++) {
        begin_unnoticed(scene);
        step_and_back(scene, holders.watcher, node, &course);
    }
    expect_held_on(scene, &holders);
    scene_check(scene, LIVENESS, "step_seen", course.seen);
    scene_check(scene, LIVENESS, "counted_again", course.counted);
    scene_check(scene, SAFETY, "waited_for_the_guard", course.waited);
    scene_expect_true(scene, "before");
    scene_expect_true(scene, "noticed");
    scene_expect_fenced(scene);
    scene_expect_available(scene, "unnoticed", MOST);
    scene_expect_available(scene, "noticed", NEARLY_ALL);
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

/* Ahead by a second more each time: whenever two samples are taken, the later one shows a step
 * forward. Of a clock that is back where it was, half of them would show none. */
static void tremble(struct scene *scene, unsigned nodes, int64_t ms)
{
    int64_t begin_ns = history_now();

    while (scene_goes_on(scene) && scene_since_ms(begin_ns) < ms) {
        scene_clock_jerk(scene, nodes, -9000);
        scene_wait(scene, 5);
        scene_clock_jerk(scene, nodes, 10000);
        scene_wait(scene, 5);
    }
}

/* It asks all of them with a round, also when its lock is lost. */
static bool sees_a_step(struct scene *scene, struct worker *watcher, unsigned node)
{
    int64_t begin_ns = history_now();

    do {
        int64_t lock = act_acquire(scene, watcher, "glance", 0, NULL);

        if (lock >= 0)
            (void)act_release(scene, watcher, lock);
        if (step_seen_ms(scene, watcher, node) > 0)
            return true;
        scene_wait(scene, 20);
    } while (scene_goes_on(scene) && scene_since_ms(begin_ns) < 1000);
    return false;
}

static void play_strobe(struct scene *scene, unsigned nodes, struct holders *holders)
{
    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    keep_holding(scene, holders);
    scene_span(scene, 2000, 1000);
    begin_unnoticed(scene);
    scene_clock_step(scene, nodes, 10000);
    tremble(scene, nodes, NOTICED_MS);
    scene_check(scene, EFFECT, "a_step_was_seen", sees_a_step(scene, holders->watcher, 1));
    scene_phase(scene, "strobe");
    tremble(scene, nodes, scene_stage(scene)->quick ? 2000 : 5000);
    if (scene_goes_on(scene))
        scene_clock_rate(scene, nodes, 0);
    scene_phase(scene, "after");
    scene_check(
        scene, LIVENESS, "counted_again",
        act_until_counted(scene, holders->watcher, ALL_NODES, scene_guard_ms(scene) + 5000) >= 0);
}

void play_strobe_one(struct scene *scene)
{
    static const char *const phases[] = {"before", "strobe", "after"};
    struct holders holders;

    play_strobe(scene, NODE(1), &holders);
    expect_held_on(scene, &holders);
    for (size_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        scene_expect_true(scene, phases[i]);
        scene_expect_available(scene, phases[i], NEARLY_ALL);
    }
    scene_expect_fenced(scene);
    scene_expect_available(scene, "unnoticed", MOST);
    scene_liveness(scene);
}

void play_strobe_three(struct scene *scene)
{
    struct holders holders;

    play_strobe(scene, NODE(1) | NODE(2) | NODE(3), &holders);
    scene_expect_fenced(scene);
    scene_liveness(scene);
}
