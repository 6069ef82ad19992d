/*
 * The rows of a comparison: the same faults at the same times for each mode. What five primaries
 * have as node 1 the others have as their only one; nothing is expected, all is measured.
 */
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

static void begin(struct scene *scene)
{
    scene_phase(scene, "before");
    scene_crowd(scene, "P", 6, 4);
    scene_span(scene, 2000, 1000);
}

static void fault(struct scene *scene)
{
    scene_phase(scene, "fault");
    scene_span(scene, 4000, 2500);
}

static void finish(struct scene *scene)
{
    scene_phase(scene, "after");
    scene_span(scene, 2000, 1000);
}

static void row_none(struct scene *scene)
{
    begin(scene);
    fault(scene);
    finish(scene);
}

static void down(struct scene *scene, unsigned nodes)
{
    begin(scene);
    scene_kill(scene, nodes);
    fault(scene);
    scene_revive(scene, nodes, REVIVE_EMPTY);
    finish(scene);
}

static void row_one_down(struct scene *scene)
{
    down(scene, NODE(1));
}

static void row_two_down(struct scene *scene)
{
    down(scene, NODE(1) | NODE(2));
}

static void row_three_down(struct scene *scene)
{
    down(scene, NODE(1) | NODE(2) | NODE(3));
}

static void row_restart(struct scene *scene)
{
    begin(scene);
    for (int i = 0; i < 3; i++) {
        scene_kill(scene, NODE(1));
        scene_revive(scene, NODE(1), REVIVE_EMPTY);
        scene_span(scene, 1500, 800);
    }
    fault(scene);
    finish(scene);
}

static void row_restart_durable(struct scene *scene)
{
    begin(scene);
    for (int i = 0; i < 3; i++) {
        scene_kill(scene, NODE(1));
        scene_revive(scene, NODE(1), REVIVE_KEPT);
        scene_span(scene, 1500, 800);
    }
    fault(scene);
    finish(scene);
}

/* The primary's link to its replica is cut first: replication is asynchronous. */
static void row_failover(struct scene *scene)
{
    begin(scene);
    scene_cut_replica(scene);
    scene_wait(scene, 300);
    scene_kill(scene, NODE(1));
    scene_failover(scene);
    fault(scene);
    finish(scene);
}

static void row_partition(struct scene *scene)
{
    static const struct toxic hold = {.kind = TOXIC_HOLD};

    begin(scene);
    scene_infect(scene, "P", NODE(1), &hold);
    fault(scene);
    scene_heal(scene, "P", NODE(1));
    finish(scene);
}

static void step(struct scene *scene, unsigned nodes)
{
    begin(scene);
    for (int i = 0; i < 3; i++) {
        scene_clock_step(scene, nodes, 10000);
        scene_span(scene, 1000, 600);
    }
    fault(scene);
    finish(scene);
}

static void row_step_one(struct scene *scene)
{
    step(scene, NODE(1));
}

static void row_step_three(struct scene *scene)
{
    step(scene, NODE(1) | NODE(2) | NODE(3));
}

/* It writes when it wakes, without asking. */
static void row_frozen(struct scene *scene)
{
    struct worker *a;
    int64_t lock;

    begin(scene);
    a = scene_actor(scene, "a", "P");
    for (int i = 0; i < 2; i++) {
        lock = act_poll(scene, a, "job-1", 5, 4000);
        act_write(scene, a, lock, false);
        scene_freeze_worker(scene, a);
        scene_wait(scene, scene_ttl(scene) * 3 / 2);
        scene_thaw_worker(scene, a);
        act_write(scene, a, lock, true);
        (void)act_release(scene, a, lock);
    }
    fault(scene);
    finish(scene);
}

const struct row rows[] = {
    {.name = "none", .title = "no fault", .play = row_none},
    /* Without fencing tokens where a majority forgets them: that needs init --fence-base. */
    {.name = "1 down",
     .title = "one primary is killed",
     .conditions = {.unfenced = true},
     .play = row_one_down},
    {.name = "2 down", .title = "two are", .conditions = {.unfenced = true}, .play = row_two_down},
    {.name = "3 down",
     .title = "three are",
     .conditions = {.unfenced = true},
     .play = row_three_down},
    {.name = "restart empty",
     .title = "one restarts without its data",
     .conditions = {.unfenced = true},
     .play = row_restart},
    {.name = "restart durable",
     .title = "one restarts with all it had",
     .conditions = {.persistence = PERSIST_ALWAYS},
     .play = row_restart_durable},
    {.name = "failover", .title = "the primary dies, a replica takes over", .play = row_failover},
    {.name = "partition", .title = "one primary can't be reached", .play = row_partition},
    {.name = "clock step 1", .title = "one clock steps by 10 s", .play = row_step_one},
    {.name = "clock step 3", .title = "three clocks do", .play = row_step_three},
    {.name = "frozen worker", .title = "a holder stops, wakes and writes", .play = row_frozen},
};
const size_t row_count = sizeof rows / sizeof rows[0];
