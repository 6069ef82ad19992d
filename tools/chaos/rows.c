/*
 * The rows of a comparison: the same faults at the same times for each mode. What five primaries
 * have as node 1 the others have as their only one; nothing is expected, all is measured. Besides
 * the crowd an actor takes one of its locks just before the fault, works half a second with it, and
 * then writes if it still believes that it may.
 */
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

enum {
    WORKS_MS = 500
};

struct holder {
    struct worker *worker;
    int64_t lock;
};

static struct holder begin(struct scene *scene)
{
    struct holder holder = {.lock = -1};

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 6, 4);
    holder.worker = scene_actor(scene, "holder", "P");
    scene_span(scene, 2000, 1000);
    return holder;
}

/* It waits its turn: whoever only tries finds a lock of the crowd always taken. */
static void take(struct scene *scene, struct holder *holder)
{
    holder->lock = act_acquire(scene, holder->worker, "job-1", 8000, NULL);
    if (holder->lock >= 0)
        act_write(scene, holder->worker, holder->lock, false);
    else
        scene_fail(scene, "the holder did not get its lock");
}

/* The fault is there, or was. */
static void stay(struct scene *scene, struct holder *holder)
{
    scene_wait(scene, WORKS_MS);
    act_write(scene, holder->worker, holder->lock, false);
    scene_span(scene, 4000, 2500);
    (void)act_release(scene, holder->worker, holder->lock);
}

static void finish(struct scene *scene)
{
    scene_phase(scene, "after");
    scene_span(scene, 2000, 1000);
}

static void row_none(struct scene *scene)
{
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_phase(scene, "fault");
    stay(scene, &holder);
    finish(scene);
}

static void down(struct scene *scene, unsigned nodes)
{
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_kill(scene, nodes);
    scene_phase(scene, "fault");
    stay(scene, &holder);
    finish(scene);
    scene_revive(scene, nodes, REVIVE_EMPTY);
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

static void restart(struct scene *scene, enum revival revival)
{
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_phase(scene, "fault");
    scene_kill(scene, NODE(1));
    scene_revive(scene, NODE(1), revival);
    stay(scene, &holder);
    finish(scene);
}

static void row_restart(struct scene *scene)
{
    restart(scene, REVIVE_EMPTY);
}

static void row_restart_durable(struct scene *scene)
{
    restart(scene, REVIVE_KEPT);
}

/* The primary's link to its replica is cut first: replication is asynchronous. Not where a lock
 * counts only with the replica's word: then it has none that the replica hasn't. */
static void row_failover(struct scene *scene)
{
    struct holder holder = begin(scene);

    if (scene_mode(scene) != MODE_REPLICA_WAIT)
        scene_cut_replica(scene);
    take(scene, &holder);
    scene_phase(scene, "fault");
    scene_kill(scene, NODE(1));
    scene_failover(scene);
    stay(scene, &holder);
    finish(scene);
}

static void row_partition(struct scene *scene)
{
    static const struct toxic hold = {.kind = TOXIC_HOLD};
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_infect(scene, "P", NODE(1), &hold);
    scene_phase(scene, "fault");
    stay(scene, &holder);
    scene_heal(scene, "P", NODE(1));
    finish(scene);
}

static void step(struct scene *scene, unsigned nodes)
{
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_phase(scene, "fault");
    scene_clock_step(scene, nodes, 10000);
    stay(scene, &holder);
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
    struct holder holder = begin(scene);

    take(scene, &holder);
    scene_phase(scene, "fault");
    scene_freeze_worker(scene, holder.worker);
    scene_wait(scene, scene_ttl(scene) * 3 / 2);
    scene_thaw_worker(scene, holder.worker);
    act_write(scene, holder.worker, holder.lock, true);
    (void)act_release(scene, holder.worker, holder.lock);
    finish(scene);
}

const struct row rows[] = {
    {.name = "none", .title = "no fault", .play = row_none},
    {.name = "1 down", .title = "one primary is killed", .play = row_one_down},
    {.name = "2 down", .title = "two are", .play = row_two_down},
    {.name = "3 down", .title = "three are", .play = row_three_down},
    {.name = "restart empty",
     .title = "one restarts without its data",
     .as_used = true,
     .play = row_restart},
    {.name = "restart durable",
     .title = "one restarts with all it had",
     .conditions = {.persistence = PERSIST_ALWAYS},
     .play = row_restart_durable},
    {.name = "failover",
     .title = "the primary dies, a replica that missed the last writes takes over",
     .as_used = true,
     .play = row_failover},
    {.name = "partition", .title = "one primary can't be reached", .play = row_partition},
    {.name = "clock step 1", .title = "one clock steps by 10 s", .play = row_step_one},
    {.name = "clock step 3", .title = "three clocks do", .play = row_step_three},
    {.name = "frozen worker", .title = "a holder stops, wakes and writes", .play = row_frozen},
};
const size_t row_count = sizeof rows / sizeof rows[0];
