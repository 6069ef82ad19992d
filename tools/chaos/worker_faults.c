/* Faults of workers: they stop, go on, die; with their records, as those of nodes and links. */
#include "scene_state.h"
#include "worker.h"

static void tell_worker(struct scene *scene, const struct member *member, const char *action,
                        const char *state, int64_t requested_ns)
{
    history_put(scene->history,
                json_pack("{s:s, s:i, s:s, s:s, s:[], s:{s:s}, s:I, s:b, s:s}", "type", "fault",
                          "fault", member->fault, "action", action, "state", state, "nodes",
                          "params", "worker", member->name, "requested_ns",
                          (json_int_t)requested_ns, "verified", 1, "text", member->name));
}

void scene_freeze_worker(struct scene *scene, struct worker *worker)
{
    int64_t requested_ns = history_now();
    struct member *member = scene__member(scene, worker);

    if (!scene__goes_on(scene))
        return;
    worker_freeze(worker);
    member->fault = ++scene->fault_number;
    tell_worker(scene, member, "freeze-worker", "start", requested_ns);
}

void scene_thaw_worker(struct scene *scene, struct worker *worker)
{
    int64_t requested_ns = history_now();
    struct member *member = scene__member(scene, worker);

    if (!scene__goes_on(scene))
        return;
    tell_worker(scene, member, "freeze-worker", "stop", requested_ns);
    worker_thaw(worker);
}

void scene_kill_worker(struct scene *scene, struct worker *worker)
{
    int64_t requested_ns = history_now();
    struct member *member = scene__member(scene, worker);

    if (!scene__goes_on(scene))
        return;
    worker_kill(worker);
    member->running = false;
    member->fault = ++scene->fault_number;
    tell_worker(scene, member, "kill-worker", "start", requested_ns);
    tell_worker(scene, member, "kill-worker", "stop", requested_ns);
}

void scene_stop_worker(struct scene *scene, struct worker *worker)
{
    struct member *member = scene__member(scene, worker);

    if (!scene__goes_on(scene))
        return;
    if (worker_stop(worker, 5000) != 0)
        scene_fail(scene, "worker %s did not end in order", worker_name(worker));
    member->running = false;
}
