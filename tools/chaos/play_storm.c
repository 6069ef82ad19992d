/*
 * Everything at once, drawn from the seed, within what the lock promises to stand: at most two
 * primaries are out of service at a time, those in their guard among them, and clocks step by what
 * it allows for.
 */
#include <stdio.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    VICTIMS = 4,
    KINDS = 9
};

/* Two nodes at most that don't count now. */
struct out {
    unsigned nodes;
    int64_t until_ns[SCENE_NODES];
};

static void let_back(struct out *out)
{
    for (unsigned i = 0; i < SCENE_NODES; i++)
        if (history_now() >= out->until_ns[i])
            out->nodes &= ~NODE(i + 1);
}

/* A node that may go out now, or 0. */
static unsigned draw(struct scene *scene, struct out *out, int64_t out_ms)
{
    unsigned node = 1 + (unsigned)stream_below(scene_stream(scene), scene_nodes(scene));

    let_back(out);
    if ((out->nodes & NODE(node)) || __builtin_popcount(out->nodes) >= 2)
        return 0;
    out->nodes |= NODE(node);
    out->until_ns[node - 1] = history_now() + out_ms * NS_PER_MS;
    return node;
}

static void restart(struct scene *scene, struct out *out, int64_t ms)
{
    unsigned node = draw(scene, out, ms + scene_guard_ms(scene) + 2000);

    if (node == 0)
        return;
    scene_kill(scene, NODE(node));
    scene_wait(scene, ms);
    scene_revive(scene, NODE(node), REVIVE_EMPTY);
}

static void pause_node(struct scene *scene, struct out *out, int64_t ms)
{
    unsigned node = draw(scene, out, ms + 1000);

    if (node == 0)
        return;
    scene_freeze(scene, NODE(node));
    scene_wait(scene, ms);
    scene_thaw(scene, NODE(node));
}

/* Back, or forward within the drift that is allowed for. A larger step forward may end a lease that
 * a bare majority keeps, until it's noticed: that is what clock-step-bare shows. */
static void step(struct scene *scene)
{
    unsigned node = 1 + (unsigned)stream_below(scene_stream(scene), scene_nodes(scene));

    scene_clock_step(scene, NODE(node), stream_between(scene_stream(scene), -1500, 15));
}

static void infect_one(struct scene *scene, struct out *out, const struct toxic *toxic, int64_t ms)
{
    unsigned node = draw(scene, out, ms + 1000);

    if (node == 0)
        return;
    scene_infect(scene, "P", NODE(node), toxic);
    scene_wait(scene, ms);
    scene_heal(scene, "P", NODE(node));
}

static void infect_all(struct scene *scene, const struct toxic *toxic, int64_t ms)
{
    scene_infect(scene, "P", ALL_NODES, toxic);
    scene_wait(scene, ms);
    scene_heal(scene, "P", ALL_NODES);
}

static void one_fault(struct scene *scene, struct out *out, struct worker **victims)
{
    static const struct toxic kinds[] = {
        {.kind = TOXIC_HOLD},
        {.kind = TOXIC_SWALLOW, .ways = ONLY_REPLIES},
        {.kind = TOXIC_SWALLOW, .ways = ONLY_REQUESTS},
        {.kind = TOXIC_REFUSE},
        {.kind = TOXIC_SILENT},
        {.kind = TOXIC_HALF_OPEN},
        {.kind = TOXIC_DELAY, .delay = {LAW_PARETO, 20 * NS_PER_MS, 40 * NS_PER_MS}}};
    static const struct toxic mild[] = {
        {.kind = TOXIC_DELAY, .delay = {LAW_EXPONENTIAL, 0, 5 * NS_PER_MS}},
        {.kind = TOXIC_SLICE, .amount = 3},
        {.kind = TOXIC_RESETS, .amount = 0.01}};
    struct stream *stream = scene_stream(scene);
    int64_t ms = stream_between(stream, 300, 2500);
    struct worker *victim = victims[stream_below(stream, VICTIMS)];

    switch (stream_below(stream, KINDS)) {
    case 0:
        restart(scene, out, ms);
        break;
    case 1:
        pause_node(scene, out, ms);
        break;
    case 2:
        step(scene);
        break;
    case 3:
        scene_freeze_worker(scene, victim);
        scene_wait(scene, ms);
        scene_thaw_worker(scene, victim);
        break;
    case 4:
        infect_all(scene, &mild[stream_below(stream, sizeof mild / sizeof mild[0])], ms);
        break;
    default:
        infect_one(scene, out, &kinds[stream_below(stream, sizeof kinds / sizeof kinds[0])], ms);
        break;
    }
}

void play_storm(struct scene *scene)
{
    int64_t begin_ns, limit_ms = scene_stage(scene)->storm_ms;
    struct out out = {0};
    struct worker *victims[VICTIMS];

    scene_many_faults(scene);
    scene_phase(scene, "before");
    scene_crowd(scene, "P", 16 - VICTIMS, 8);
    for (int i = 0; i < VICTIMS; i++) {
        char name[16];
        json_t *spec;

        (void)snprintf(name, sizeof name, "v%d", i + 1);
        spec = scene_spec(scene, name, "contender", "P");
        json_object_set_new(spec, "names", json_pack("[s, s]", "job-1", "job-2"));
        victims[i] = scene_start(scene, spec);
    }
    scene_wait(scene, 2000);
    scene_phase(scene, "storm");
    for (begin_ns = history_now(); scene_goes_on(scene) && scene_since_ms(begin_ns) < limit_ms;
         scene_wait(scene, stream_between(scene_stream(scene), 0, 1000)))
        one_fault(scene, &out, victims);
    if (limit_ms >= 600000) {
        scene_expect(scene, EFFECT, "acquire.ok", "", "ge", 10000);
        scene_expect(scene, EFFECT, "probe.count", "", "ge", 10000);
    }
    scene_expect_clean(scene);
    scene_liveness(scene);
}
