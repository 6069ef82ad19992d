/* Clients that stop, sleep and die. */
#include <stdio.h>
#include <string.h>

#include "clock_plan.h"
#include "history.h"
#include "scenarios.h"
#include "worker.h"

#define NS_PER_MS INT64_C(1000000)

/* A holds it and stops for three ttls; B gets it meanwhile. */
struct stopped {
    struct worker *a, *b;
    int64_t a_lock, b_lock;
};

static bool b_succeeds(struct scene *scene, struct stopped *s)
{
    int64_t begin_ns = history_now();

    s->b_lock = act_poll(scene, s->b, "job", 20, 2 * scene_ttl(scene));
    scene_measure(scene, "succeeded_ms", (double)scene_since_ms(begin_ns));
    scene_check(scene, LIVENESS, "b_succeeds", s->b_lock >= 0);
    if (s->b_lock < 0)
        return false;
    act_enter(scene, s->b, s->b_lock);
    act_write(scene, s->b, s->b_lock, false);
    return true;
}

/* False: A never had it, and nothing can be said. */
static bool a_takes(struct scene *scene, struct stopped *s)
{
    s->a_lock = act_acquire(scene, s->a, "job", 2000, NULL);
    scene_check(scene, EFFECT, "a_has_it", s->a_lock >= 0);
    if (s->a_lock < 0)
        return false;
    act_enter(scene, s->a, s->a_lock);
    act_write(scene, s->a, s->a_lock, false);
    return true;
}

/* False: A or B didn't get it. */
static bool freeze_a(struct scene *scene, struct stopped *s)
{
    bool got;

    scene_phase(scene, "before");
    s->a = scene_actor(scene, "a", "P");
    s->b = scene_actor(scene, "b", "P");
    if (!a_takes(scene, s))
        return false;
    scene_freeze_worker(scene, s->a);
    scene_phase(scene, "frozen");
    got = b_succeeds(scene, s);
    scene_thaw_worker(scene, s->a);
    scene_phase(scene, "thawed");
    return got;
}

static void go_on(struct scene *scene, struct stopped *s, bool blind)
{
    const char *rc;

    if (blind)
        act_write(scene, s->a, s->a_lock, true);
    scene_check(scene, SAFETY, "a_knows_it_is_over", !act_held(scene, s->a, s->a_lock));
    if (!blind)
        act_write(scene, s->a, s->a_lock, false);
    rc = act_extend(scene, s->a, s->a_lock);
    scene_check(scene, SAFETY, "a_cannot_extend",
                strcmp(rc, "expired") == 0 || strcmp(rc, "lost") == 0);
    act_leave(scene, s->a, s->a_lock);
    rc = act_release(scene, s->a, s->a_lock);
    scene_check(scene, LIVENESS, "a_is_told",
                strcmp(rc, "expired") == 0 || strcmp(rc, "lost") == 0);
    scene_check(scene, SAFETY, "b_is_unharmed",
                act_held(scene, s->b, s->b_lock) &&
                    strcmp(act_extend(scene, s->b, s->b_lock), "ok") == 0);
    act_leave(scene, s->b, s->b_lock);
    (void)act_release(scene, s->b, s->b_lock);
}

void play_freeze_holder(struct scene *scene)
{
    struct stopped s;

    if (!freeze_a(scene, &s))
        return;
    go_on(scene, &s, false);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect(scene, SAFETY, "c3.min_ms", "", "ge", 0);
    scene_expect(scene, SAFETY, "stale.plain", "", "eq", 0);
    scene_expect_fenced(scene);
}

void play_freeze_blind(struct scene *scene)
{
    struct stopped s;

    if (!freeze_a(scene, &s))
        return;
    go_on(scene, &s, true);
    scene_expect(scene, SAFETY, "stale.plain", "", "ge", 1);
    scene_expect(scene, SAFETY, "stale.refused", "", "ge", 1);
    scene_expect(scene, SAFETY, "c5.accepted_stale", "", "eq", 0);
}

/* The grants come while it is stopped. */
void play_freeze_in_acquire(struct scene *scene)
{
    const struct trigger hold = {
        .command = "SET", .key = "job", .k = 1, .action = TRIGGER_HOLD_REPLY};
    const json_t *answer;
    struct worker *a;
    const char *rc;
    int64_t warm;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    warm = act_acquire(scene, a, "warm", 2000, NULL);
    scene_check(scene, EFFECT, "a_works", warm >= 0);
    if (warm < 0)
        return;
    (void)act_release(scene, a, warm);
    for (unsigned node = 3; node <= 5; node++)
        scene_trigger(scene, "P", node, &hold);
    if (scene_goes_on(scene))
        (void)worker_ask(
            a, json_pack("{s:s, s:s, s:i}", "do", "acquire", "name", "job", "wait_ms", 0));
    for (unsigned node = 3; node <= 5; node++)
        (void)scene_await_trigger(scene, "P", node);
    scene_freeze_worker(scene, a);
    scene_phase(scene, "frozen");
    for (unsigned node = 3; node <= 5 && scene_goes_on(scene); node++)
        link_release(scene_link(scene, "P", node));
    scene_wait(scene, scene_ttl(scene));
    scene_thaw_worker(scene, a);
    scene_phase(scene, "thawed");
    answer = scene_goes_on(scene) ? worker_answer(a, 10000) : NULL;
    rc = json_string_value(json_object_get(answer, "rc"));
    if (rc == NULL) {
        scene_fail(scene, "actor a gave no answer");
        rc = "none";
    }
    scene_check(scene, SAFETY, "not_held", strcmp(rc, "ok") != 0);
    /* When it wakes there are late grants, and nodes that were silent for a ttl: whichever it sees.
     */
    scene_check(scene, LIVENESS, "a_is_told",
                strcmp(rc, "expired") == 0 || strcmp(rc, "no_quorum") == 0);
    json_decref((json_t *)answer);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect(scene, LIVENESS, "c6.orphans", "", "eq", 0);
}

void play_client_crash(struct scene *scene)
{
    struct worker *victim;
    char name[24];
    int crashes = scene_stage(scene)->quick ? 3 : 8;
    bool all_had_it = true;

    scene_phase(scene, "crashes");
    scene_crowd(scene, "P", 6, 4);
    for (int i = 0; i < crashes; i++) {
        int64_t lock;

        (void)snprintf(name, sizeof name, "victim%d", i + 1);
        victim = scene_actor(scene, name, "P");
        /* Among a crowd, behind leases of those killed before: its turn may be long in coming. */
        lock = act_acquire(scene, victim, "job-1", 20000, NULL);
        all_had_it = all_had_it && lock >= 0;
        scene_kill_worker(scene, victim);
        scene_span(scene, 1000, 500);
    }
    scene_check(scene, EFFECT, "victims_had_it", all_had_it);
    scene_expect_clean(scene);
    scene_expect_available(scene, "crashes", NEARLY_ALL);
    scene_expect(scene, LIVENESS, "c6.orphans", "", "eq", 0);
    scene_liveness(scene);
}

/* Three primaries stop: shortly, then for longer than the lease can last. */
void play_renewal(struct scene *scene)
{
    unsigned three = NODE(3) | NODE(4) | NODE(5);
    struct worker *a;
    int64_t lock;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    lock = act_keep(scene, a, "job");
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    if (lock < 0)
        return;
    scene_wait(scene, scene_ttl(scene));
    scene_check(scene, LIVENESS, "renewed", act_held(scene, a, lock));
    scene_freeze(scene, three);
    scene_phase(scene, "short");
    scene_wait(scene, 300);
    scene_thaw(scene, three);
    scene_wait(scene, 2 * scene_ttl(scene));
    scene_check(scene, LIVENESS, "survives_300_ms", act_held(scene, a, lock));
    scene_freeze(scene, three);
    scene_phase(scene, "long");
    scene_wait(scene, 2 * scene_ttl(scene));
    scene_check(scene, SAFETY, "lost_after_two_ttls", !act_held(scene, a, lock));
    scene_thaw(scene, three);
    scene_phase(scene, "after");
    scene_wait(scene, scene_ttl(scene));
    scene_check(scene, SAFETY, "not_taken_back", !act_held(scene, a, lock));
    (void)act_release(scene, a, lock);
    lock = act_poll(scene, a, "job", 20, 5000);
    scene_check(scene, LIVENESS, "free_again", lock >= 0);
    if (lock >= 0)
        (void)act_release(scene, a, lock);
    scene_expect(scene, LIVENESS, "lost.true", "", "eq", 1);
    scene_expect_clean(scene);
}

/* ---- a machine that sleeps ------------------------------------------------------- */

/* While A is stopped its CLOCK_MONOTONIC is made to stand, as in suspend; CLOCK_BOOTTIME goes on.
 * False: A or B didn't get it. */
static bool sleep_through(struct scene *scene, struct stopped *s)
{
    char path[4096];
    struct clock_plan *plan;
    json_t *spec = scene_spec(scene, "a", "actor", "P");
    int64_t begin_ns;
    bool got;

    scene_phase(scene, "before");
    (void)snprintf(path, sizeof path, "%s/worker-a.clock", scene_stage(scene)->directory);
    (void)remove(path);
    plan = clock_plan_create(path);
    if (plan == NULL)
        scene_fail(scene, "%s: no clock plan", path);
    json_object_set_new(spec, "clock", json_string(path));
    s->a = scene_start(scene, spec);
    s->b = scene_actor(scene, "b", "P");
    if (!a_takes(scene, s)) {
        clock_plan_close(plan);
        return false;
    }
    begin_ns = history_now();
    scene_freeze_worker(scene, s->a);
    scene_phase(scene, "asleep");
    got = b_succeeds(scene, s);
    scene_wait(scene, 2 * scene_ttl(scene) - scene_since_ms(begin_ns));
    if (plan != NULL)
        clock_plan_offsets(plan, begin_ns - history_now(), 0);
    scene_thaw_worker(scene, s->a);
    scene_phase(scene, "awake");
    clock_plan_close(plan);
    return got;
}

static void wake_up(struct scene *scene, struct stopped *s)
{
    act_write(scene, s->a, s->a_lock, false);
    act_leave(scene, s->a, s->a_lock);
    (void)act_release(scene, s->a, s->a_lock);
    act_leave(scene, s->b, s->b_lock);
    (void)act_release(scene, s->b, s->b_lock);
}

void play_suspend(struct scene *scene)
{
    struct stopped s;

    if (!sleep_through(scene, &s))
        return;
    scene_check(scene, SAFETY, "a_knows_it_is_over", !act_held(scene, s.a, s.a_lock));
    wake_up(scene, &s);
    scene_expect(scene, SAFETY, "stale.plain", "", "eq", 0);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "eq", 0);
    scene_expect_fenced(scene);
}

void play_suspend_control(struct scene *scene)
{
    struct stopped s;

    if (!sleep_through(scene, &s))
        return;
    scene_check(scene, SAFETY, "a_still_believes", act_held(scene, s.a, s.a_lock));
    wake_up(scene, &s);
    scene_expect(scene, SAFETY, "stale.plain", "", "ge", 1);
    scene_expect(scene, SAFETY, "c5.accepted_stale", "", "eq", 0);
}

/* ---- no descriptors left ------------------------------------------------------------- */

void play_exhaust(struct scene *scene)
{
    json_t *spec = scene_spec(scene, "a", "actor", "P");
    struct worker *a;
    int64_t lock;

    scene_phase(scene, "before");
    json_object_set_new(spec, "limits", json_pack("{s:i}", "nofile", 14));
    a = scene_start(scene, spec);
    scene_crowd(scene, "P", 4, 4);
    lock = act_poll(scene, a, "job-a", 20, 3000);
    scene_measure(scene, "with_few_descriptors", lock >= 0);
    if (lock >= 0)
        scene_check(scene, LIVENESS, "released", strcmp(act_release(scene, a, lock), "ok") == 0);
    scene_phase(scene, "resets");
    for (unsigned node = 1; node <= scene_nodes(scene) && scene_goes_on(scene); node++)
        link_reset(scene_link(scene, "P", node));
    scene_span(scene, 3000, 1500);
    lock = act_poll(scene, a, "job-a", 20, 3000);
    scene_check(scene, LIVENESS, "recovers", lock >= 0);
    if (lock >= 0)
        (void)act_release(scene, a, lock);
    scene_expect_clean(scene);
    scene_liveness(scene);
}
