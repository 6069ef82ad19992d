/* Links that lose, hold, delay, cut and mangle. */
#include <stdio.h>
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

#define NS_PER_MS INT64_C(1000000)

static const struct toxic hold_all = {.kind = TOXIC_HOLD};
static const struct toxic lose_replies = {.kind = TOXIC_SWALLOW, .ways = ONLY_REPLIES};
static const struct toxic refuse = {.kind = TOXIC_REFUSE};

/* Until no node has the key: ms, or -1. */
static int64_t until_gone(struct scene *scene, const char *name, int64_t limit_ms)
{
    int64_t begin_ns = history_now();

    while (scene_goes_on(scene)) {
        int found = 0;

        for (unsigned node = 1; node <= scene_nodes(scene); node++) {
            redisReply *reply = runtime_command(scene_runtime(scene), node, "EXISTS %s", name);

            found += reply == NULL || reply->integer != 0;
            freeReplyObject(reply);
        }
        if (found == 0)
            return scene_since_ms(begin_ns);
        if (scene_since_ms(begin_ns) > limit_ms)
            return -1;
        scene_wait(scene, 20);
    }
    return -1;
}

/* SETs are carried out, their answers lost. */
void play_ghost_grant(struct scene *scene)
{
    unsigned two = NODE(4) | NODE(5), three = NODE(3) | two;
    int64_t back_ms;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 2000, 1000);
    scene_infect(scene, "P", two, &lose_replies);
    scene_phase(scene, "two");
    scene_span(scene, 5000, 2000);
    scene_heal(scene, "P", two);
    scene_phase(scene, "between");
    scene_span(scene, 2000, 1000);
    scene_infect(scene, "P", three, &lose_replies);
    scene_wait(scene, 300); /* rounds that were under way */
    scene_phase(scene, "three");
    scene_span(scene, 4000, 2000);
    scene_phase(scene, "after");
    scene_heal(scene, "P", three);
    back_ms = scene_until_probed(scene, 8000);
    scene_measure(scene, "back_ms", (double)back_ms);
    scene_check(scene, LIVENESS, "back_within_a_ttl",
                back_ms >= 0 && back_ms <= scene_ttl(scene) + 2000);
    scene_expect_clean(scene);
    scene_expect_available(scene, "two", NEARLY_ALL);
    scene_expect(scene, SAFETY, "probe.availability", "three", "eq", 0);
    scene_expect(scene, LIVENESS, "c6.orphans", "", "eq", 0);
    scene_expect(scene, LIVENESS, "c6.late_births", "", "eq", 0);
    scene_liveness(scene);
}

/* By scene_crowd()'s workers of P or Q. */
static uint64_t acquired_by(struct scene *scene, bool p, unsigned contenders, unsigned probers)
{
    uint64_t sum = 0;
    char name[8];

    for (unsigned i = 1; i <= contenders; i++) {
        (void)snprintf(name, sizeof name, "%c%u", p ? 'w' : 'Q', i);
        sum += scene_acquired(scene, name, NULL);
    }
    for (unsigned i = 1; i <= probers; i++) {
        (void)snprintf(name, sizeof name, "%sp%u", p ? "" : "Q", i);
        sum += scene_acquired(scene, name, NULL);
    }
    return sum;
}

/* P reaches 1 and 2, Q the rest; then the other way round. */
void play_partition(struct scene *scene)
{
    unsigned two = NODE(1) | NODE(2), three = ALL_NODES & ~two;
    int swaps = scene_stage(scene)->quick ? 1 : 3;
    bool nothing = true, works = true;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 3, 2);
    scene_crowd(scene, "Q", 3, 2);
    scene_span(scene, 2000, 1000);
    for (int i = 0; i <= swaps; i++) {
        bool p_few = i % 2 == 0;
        const char *few = p_few ? "P" : "Q", *many = p_few ? "Q" : "P";
        uint64_t few_had, had;

        scene_infect(scene, few, three, &hold_all);
        scene_infect(scene, many, two, &hold_all);
        scene_phase(scene, p_few ? "Q has three" : "P has three");
        scene_wait(scene, 500); /* answers that were under way */
        few_had = acquired_by(scene, p_few, 3, 2);
        had = acquired_by(scene, !p_few, 0, 2);
        scene_span(scene, 4000, 2500);
        nothing = nothing && acquired_by(scene, p_few, 3, 2) == few_had;
        works = works && acquired_by(scene, !p_few, 0, 2) > had;
        scene_heal(scene, few, three);
        scene_heal(scene, many, two);
    }
    scene_check(scene, SAFETY, "the_few_get_nothing", nothing);
    scene_check(scene, LIVENESS, "the_many_work", works);
    scene_expect_clean(scene);
    scene_liveness(scene);
}

/* Each client has a majority of its own, no two the same. */
void play_ring(struct scene *scene)
{
    static const char *const groups[] = {"A", "B", "C", "D", "E"};
    uint64_t begun;

    scene_phase(scene, "ring");
    for (unsigned k = 0; k < 5; k++) {
        unsigned seen = NODE(k + 1) | NODE((k + 1) % 5 + 1) | NODE((k + 2) % 5 + 1);

        scene_infect(scene, groups[k], ALL_NODES & ~seen, &refuse);
        scene_crowd(scene, groups[k], 2, 0);
    }
    begun = scene_acquired(scene, NULL, "contender");
    scene_span(scene, 8000, 4000);
    scene_check(scene, LIVENESS, "progress", scene_acquired(scene, NULL, "contender") > begun + 4);
    scene_expect_clean(scene);
}

void play_delay(struct scene *scene)
{
    static const struct toxic some = {.kind = TOXIC_DELAY,
                                      .delay = {LAW_UNIFORM, 15 * NS_PER_MS, 15 * NS_PER_MS}};
    static const struct toxic slow = {.kind = TOXIC_DELAY,
                                      .delay = {LAW_CONSTANT, 75 * NS_PER_MS, 0}};

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 2000, 1000);
    scene_infect(scene, "P", ALL_NODES, &some);
    scene_phase(scene, "delay");
    scene_span(scene, 5000, 3000);
    scene_heal(scene, "P", ALL_NODES);
    scene_infect(scene, "P", NODE(4) | NODE(5), &slow);
    scene_phase(scene, "two slow");
    scene_span(scene, 5000, 3000);
    scene_heal(scene, "P", NODE(4) | NODE(5));
    scene_expect_clean(scene);
    scene_expect_available(scene, "delay", 0.9);
    scene_expect_available(scene, "two slow", NEARLY_ALL);
    /* The third fastest round trip of five, each the sum of two that are even over 0 .. 30 ms. */
    scene_expect(scene, LIVENESS, "probe.p50_ms", "delay", "ge", 10);
    scene_expect(scene, LIVENESS, "probe.p50_ms", "delay", "le", 60);
    scene_expect(scene, LIVENESS, "probe.p50_ms", "two slow", "le", 60);
    scene_liveness(scene);
}

/* Answers come when the ttl is over. */
void play_slow_majority(struct scene *scene)
{
    struct toxic slow = {.kind = TOXIC_DELAY,
                         .ways = ONLY_REPLIES,
                         .delay = {LAW_CONSTANT, scene_ttl(scene) * 12 / 10 * NS_PER_MS, 0}};
    unsigned three = NODE(3) | NODE(4) | NODE(5);
    const char *rc = "";
    struct worker *a;
    int64_t lock;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "P");
    lock = act_acquire(scene, a, "warm", 2000, NULL);
    scene_check(scene, EFFECT, "a_works", lock >= 0);
    if (lock < 0)
        return;
    scene_wait(scene, 200); /* its keys are seen */
    (void)act_release(scene, a, lock);
    scene_infect(scene, "P", three, &slow);
    scene_phase(scene, "slow");
    lock = act_acquire(scene, a, "job", 0, &rc);
    scene_check(scene, SAFETY, "not_held", lock < 0);
    if (lock >= 0)
        return;
    scene_heal(scene, "P", three);
    scene_phase(scene, "after");
    scene_check(scene, LIVENESS, "gone_within_a_ttl",
                until_gone(scene, "job", scene_ttl(scene) + 2000) >= 0);
    lock = act_poll(scene, a, "job", 20, 8000);
    scene_check(scene, LIVENESS, "free_again", lock >= 0);
    if (lock >= 0)
        (void)act_release(scene, a, lock);
    scene_expect_clean(scene);
}

static const struct toxic silent = {.kind = TOXIC_SILENT};
static const struct toxic half_open = {.kind = TOXIC_HALF_OPEN};
static const struct toxic resets = {.kind = TOXIC_RESETS, .amount = 0.05};

void play_blackhole(struct scene *scene)
{
    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 2000, 1000);
    scene_infect(scene, "P", NODE(1) | NODE(2), &silent);
    scene_phase(scene, "black hole");
    scene_span(scene, 6000, 3000);
    scene_heal(scene, "P", NODE(1) | NODE(2));
    scene_expect_clean(scene);
    scene_expect_available(scene, "black hole", NEARLY_ALL);
    scene_liveness(scene);
}

void play_half_open(struct scene *scene)
{
    struct worker *watcher;
    uint64_t before = 0, accepted = 0;
    int64_t begin_ns;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    watcher = scene_actor(scene, "watcher", "P");
    scene_span(scene, 2000, 1000);
    if (scene_goes_on(scene))
        before = link_count(scene_link(scene, "P", 1)).accepted;
    scene_infect(scene, "P", NODE(1), &half_open);
    scene_phase(scene, "half open");
    for (begin_ns = history_now(); scene_goes_on(scene) && scene_since_ms(begin_ns) < 10000;
         scene_wait(scene, 50)) {
        accepted = link_count(scene_link(scene, "P", 1)).accepted;
        if (accepted >= before + 12)
            break;
    }
    scene_measure(scene, "replaced_ms", (double)scene_since_ms(begin_ns));
    scene_check(scene, LIVENESS, "replaced", accepted >= before + 12);
    scene_heal(scene, "P", NODE(1));
    scene_check(scene, LIVENESS, "counted",
                act_until_counted(scene, watcher, ALL_NODES, 8000) >= 0);
    scene_expect_clean(scene);
    scene_expect_available(scene, "half open", NEARLY_ALL);
    scene_liveness(scene);
}

void play_reset_storm(struct scene *scene)
{
    uint64_t before[SCENE_NODES] = {0};
    double most = 0, seconds;
    int64_t begin_ns;

    scene_phase(scene, "before");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 2000, 1000);
    scene_infect(scene, "P", ALL_NODES, &resets);
    scene_phase(scene, "resets");
    begin_ns = history_now();
    for (unsigned i = 0; i < SCENE_NODES && scene_goes_on(scene); i++)
        before[i] = link_count(scene_link(scene, "P", i + 1)).accepted;
    scene_span(scene, 6000, 3000);
    seconds = (double)scene_since_ms(begin_ns) / 1000;
    for (unsigned i = 0; i < SCENE_NODES && scene_goes_on(scene); i++) {
        double rate =
            (double)(link_count(scene_link(scene, "P", i + 1)).accepted - before[i]) / seconds / 12;

        most = rate > most ? rate : most;
    }
    scene_measure(scene, "reconnects_per_s_client_and_node", most);
    scene_check(scene, LIVENESS, "no_tight_reconnect", most < 20);
    scene_heal(scene, "P", ALL_NODES);
    scene_expect_clean(scene);
    scene_expect_available(scene, "resets", 0.9);
    scene_liveness(scene);
}

/* Each byte by itself, a thin line, an answer cut after each of its bytes. */
void play_slices(struct scene *scene)
{
    static const struct toxic bytes = {.kind = TOXIC_SLICE, .amount = 1};
    static const struct toxic thin = {.kind = TOXIC_TRICKLE, .amount = 4000};
    bool counted = true, held = true, gone = true;
    struct worker *a;

    scene_phase(scene, "slices");
    a = scene_actor(scene, "a", "A");
    scene_crowd(scene, "P", 2, 2); /* each byte is a packet of its own: few are enough */
    scene_span(scene, 1000, 500);
    scene_infect(scene, "P", ALL_NODES, &bytes);
    scene_span(scene, 4000, 2000);
    scene_heal(scene, "P", ALL_NODES);
    scene_infect(scene, "P", NODE(1) | NODE(2), &thin);
    scene_phase(scene, "trickle");
    scene_span(scene, 4000, 2000);
    scene_heal(scene, "P", NODE(1) | NODE(2));
    scene_phase(scene, "cuts");
    for (unsigned byte = 0; byte < 6; byte++) {
        struct trigger cut = {
            .command = "SET", .key = "job", .k = 1, .action = TRIGGER_CUT_REPLY, .bytes = byte};
        const json_t *got;

        counted = counted && act_until_counted(scene, a, ALL_NODES, 5000) >= 0;
        scene_trigger(scene, "A", 1, &cut);
        got = json_object_get(scene_do(scene, a,
                                       json_pack("{s:s, s:s, s:i, s:b}", "do", "acquire", "name",
                                                 "job", "wait_ms", 1000, "fence", 0)),
                              "lock");
        if (got != NULL) {
            int64_t lock = json_integer_value(got);

            held = held && act_held(scene, a, lock);
            (void)act_release(scene, a, lock);
        } else {
            held = false;
        }
        (void)scene_await_trigger(scene, "A", 1);
        gone = gone && until_gone(scene, "job", scene_ttl(scene)) >= 0;
    }
    scene_check(scene, LIVENESS, "counted", counted);
    scene_check(scene, LIVENESS, "held_by_the_others", held);
    scene_check(scene, LIVENESS, "gone", gone);
    scene_expect_clean(scene);
    scene_expect_available(scene, "slices", 0.8);
    scene_expect_available(scene, "trickle", NEARLY_ALL);
    scene_liveness(scene);
}

/* Links clog one after another, and open in another order. */
void play_swizzle(struct scene *scene)
{
    int rounds = scene_stage(scene)->quick ? 1 : 6;

    scene_phase(scene, "swizzle");
    scene_crowd(scene, "P", 8, 4);
    scene_span(scene, 1000, 500);
    for (int i = 0; i < rounds; i++) {
        unsigned clogged = 0, open = (unsigned)stream_below(scene_stream(scene), 31) + 1;

        while ((clogged | open) != clogged) {
            unsigned node = NODE(1 + stream_below(scene_stream(scene), scene_nodes(scene)));

            if (!(open & node) || (clogged & node))
                continue;
            scene_infect(scene, "P", node, &hold_all);
            clogged |= node;
            scene_wait(scene, stream_between(scene_stream(scene), 200, 800));
        }
        while (clogged != 0) {
            unsigned node = NODE(1 + stream_below(scene_stream(scene), scene_nodes(scene)));

            if (!(clogged & node))
                continue;
            scene_heal(scene, "P", node);
            clogged &= ~node;
            scene_wait(scene, stream_between(scene_stream(scene), 200, 800));
        }
    }
    scene_expect_clean(scene);
    scene_liveness(scene);
}

/* ---- requests that the kernel keeps ----------------------------------------------- */

/* What the client asked the three has not reached them: it has no answer that says so. One that
 * lives on has given up meanwhile, and says that. */
static bool is_kept(struct scene *scene, struct worker *a, bool killed)
{
    json_t *answer = scene_goes_on(scene) ? worker_answer(a, 0) : NULL;
    const char *rc = json_string_value(json_object_get(answer, "rc"));
    bool kept = answer == NULL || (!killed && rc != NULL && strcmp(rc, "ok") != 0);

    json_decref(answer);
    return kept;
}

/* Three nodes' packets are dropped while the client asks, and pass again when it has long ended: in
 * order, or killed before it could take anything back. How many keys came then; -1: can't say. */
static int born_late(struct scene *scene, bool killed)
{
    unsigned three = NODE(3) | NODE(4) | NODE(5);
    struct worker *a;
    int64_t lock, begin_ns;
    int born = 0;

    scene_phase(scene, "before");
    a = scene_actor(scene, "a", "direct");
    lock = act_acquire(scene, a, "warm", 2000, NULL);
    scene_check(scene, EFFECT, "a_works", lock >= 0);
    if (lock < 0)
        return -1;
    (void)act_release(scene, a, lock);
    scene_drop(scene, three, true);
    scene_phase(scene, "dropped");
    if (scene_goes_on(scene))
        (void)worker_ask(
            a, json_pack("{s:s, s:s, s:i}", "do", "acquire", "name", "job", "wait_ms", 0));
    scene_wait(scene, 400);
    scene_check(scene, EFFECT, "requests_are_kept", is_kept(scene, a, killed));
    if (killed)
        scene_kill_worker(scene, a);
    else
        scene_stop_worker(scene, a);
    scene_wait(scene, 3 * scene_ttl(scene));
    scene_drop(scene, three, false);
    scene_phase(scene, "healed");
    for (begin_ns = history_now(); scene_goes_on(scene) && scene_since_ms(begin_ns) < 8000;
         scene_wait(scene, 20)) {
        for (unsigned node = 3; node <= 5; node++) {
            redisReply *reply = runtime_command(scene_runtime(scene), node, "EXISTS job");

            if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
                scene_fail(scene, "node %u doesn't say whether it has the key", node);
            else
                born += reply->integer == 1;
            freeReplyObject(reply);
        }
        if (born > 0)
            break;
    }
    return born;
}

void play_late_set(struct scene *scene)
{
    int born = born_late(scene, false);

    if (born < 0)
        return;
    scene_check(scene, SAFETY, "nothing_is_born_late", born == 0);
    scene_expect(scene, SAFETY, "c6.late_births", "", "eq", 0);
}

void play_late_set_control(struct scene *scene)
{
    int born = born_late(scene, true);

    if (born < 0)
        return;
    scene_check(scene, SAFETY, "born_after_its_owner_died", born > 0);
    scene_expect(scene, SAFETY, "c6.late_births", "", "ge", 1);
}
