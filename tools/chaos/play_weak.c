/* What the rules are for: exact schedules in which a client that breaks one of them goes wrong, and
 * a right one doesn't. */
#include <stdlib.h>
#include <string.h>

#include "history.h"
#include "scenarios.h"
#include "worker.h"

#define NS_PER_MS INT64_C(1000000)

static const struct toxic refuse = {.kind = TOXIC_REFUSE};

/* K1: A reaches two nodes, B two others. */
void play_quorum_control(struct scene *scene)
{
    struct worker *a, *b;
    int64_t a_lock, b_lock;

    scene_phase(scene, "two each");
    scene_infect(scene, "A", NODE(3) | NODE(4) | NODE(5), &refuse);
    scene_infect(scene, "B", NODE(1) | NODE(2) | NODE(3), &refuse);
    a = scene_actor(scene, "a", "A");
    b = scene_actor(scene, "b", "B");
    a_lock = act_acquire(scene, a, "job", 1000, NULL);
    act_enter(scene, a, a_lock);
    b_lock = act_acquire(scene, b, "job", 500, NULL);
    act_enter(scene, b, b_lock);
    scene_check(scene, SAFETY, "both_have_it", a_lock >= 0 && b_lock >= 0);
    act_leave(scene, b, b_lock);
    act_leave(scene, a, a_lock);
    (void)act_release(scene, b, b_lock);
    (void)act_release(scene, a, a_lock);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
    scene_expect(scene, SAFETY, "c2.overlaps", "", "ge", 1);
}

/* Counters differ: A comes by 3, 4 and 5, where 5 is far ahead; B by 1, 2 and 3. */
static void take_in_turn(struct scene *scene)
{
    struct worker *a, *b;
    int64_t lock;

    scene_phase(scene, "skewed");
    scene_infect(scene, "A", NODE(1) | NODE(2), &refuse);
    scene_infect(scene, "B", NODE(4) | NODE(5), &refuse);
    a = scene_actor(scene, "a", "A");
    b = scene_actor(scene, "b", "B");
    if (scene_goes_on(scene) &&
        runtime_do(scene_runtime(scene), 5, "ZADD redlock:fence:{job} 10 n") != 0)
        scene_fail(scene, "%s", runtime_text(scene_runtime(scene)));
    lock = act_acquire(scene, a, "job", 1000, NULL);
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    act_write(scene, a, lock, false);
    scene_wait(scene, 200); /* its keys are seen */
    (void)act_release(scene, a, lock);
    lock = act_poll(scene, b, "job", 20, 4000);
    scene_check(scene, EFFECT, "b_has_it", lock >= 0);
    act_write(scene, b, lock, false);
    (void)act_release(scene, b, lock);
}

void play_fence_skew(struct scene *scene)
{
    take_in_turn(scene);
    scene_expect_clean(scene);
    scene_expect(scene, SAFETY, "stale.refused", "", "eq", 0);
}

void play_fence_skew_control(struct scene *scene)
{
    take_in_turn(scene);
    scene_expect(scene, SAFETY, "c4.disorders", "", "ge", 1);
}

/* Until the command gives that number there. */
static void await_number(struct scene *scene, unsigned node, const char *command, long long number)
{
    int64_t begin_ns = history_now();

    while (scene_goes_on(scene)) {
        redisReply *reply = runtime_command(scene_runtime(scene), node, command);
        long long found = -1;

        if (reply != NULL && reply->type == REDIS_REPLY_INTEGER)
            found = reply->integer;
        else if (reply != NULL && reply->type == REDIS_REPLY_STRING)
            found = atoll(reply->str);
        freeReplyObject(reply);
        if (found == number)
            return;
        if (scene_since_ms(begin_ns) > 4000)
            scene_fail(scene, "node %u, %s: %lld instead of %lld", node, command, found, number);
        scene_wait(scene, 5);
    }
}

static void vanish(struct scene *scene, unsigned node)
{
    if (scene_goes_on(scene) && runtime_do(scene_runtime(scene), node, "DEL job") != 0)
        scene_fail(scene, "%s", runtime_text(scene_runtime(scene)));
}

static void ask(struct scene *scene, struct worker *actor)
{
    if (scene_goes_on(scene))
        (void)worker_ask(
            actor, json_pack("{s:s, s:s, s:i}", "do", "acquire", "name", "job", "wait_ms", 0));
}

/* Of an acquire that was asked for: its fencing token; 0: none. */
static int64_t token_of(struct scene *scene, struct worker *actor)
{
    json_t *answer = scene_goes_on(scene) ? worker_answer(actor, 20000) : NULL;
    const char *rc = json_string_value(json_object_get(answer, "rc"));
    int64_t token = rc != NULL && strcmp(rc, "ok") == 0
                        ? json_integer_value(json_object_get(answer, "fence"))
                        : 0;

    json_decref(answer);
    return token;
}

static void release_link(struct scene *scene, const char *group, unsigned node)
{
    if (scene_goes_on(scene))
        link_release(scene_link(scene, group, node));
}

/*
 * K11. B has number 11 from node 3, and asks 4 late. Meanwhile its key vanishes from 3, where A is
 * granted 12 and doesn't hear of it yet; A has 11 from node 1, and settles it at 2 and, if it may,
 * at 3, though 3 has counted further. A's key vanishes from 4, and B settles its 11 at 4 and 5.
 */
static void settle_twice(struct scene *scene, int64_t tokens[2])
{
    static const struct trigger late_request = {
        .command = "EVAL", .key = "job", .k = 1, .action = TRIGGER_HOLD_REQUEST};
    static const struct trigger late_settle = {
        .command = "EVAL", .key = "job", .k = 2, .action = TRIGGER_HOLD_REQUEST};
    static const struct trigger late_reply = {
        .command = "EVAL", .key = "job", .k = 1, .action = TRIGGER_HOLD_REPLY};
    struct worker *a, *b;
    int64_t lock;

    scene_phase(scene, "twice");
    scene_infect(scene, "A", NODE(5), &refuse);
    scene_infect(scene, "B", NODE(1) | NODE(2), &refuse);
    a = scene_actor(scene, "a", "A");
    b = scene_actor(scene, "b", "B");
    lock = act_acquire(scene, a, "warm", 1000, NULL);
    (void)act_release(scene, a, lock);
    for (unsigned node = 1; node <= 3 && scene_goes_on(scene); node += 2)
        if (runtime_do(scene_runtime(scene), node, "ZADD redlock:fence:{job} 10 n") != 0)
            scene_fail(scene, "%s", runtime_text(scene_runtime(scene)));
    scene_trigger(scene, "B", 4, &late_request);
    ask(scene, b);
    await_number(scene, 3, "EXISTS job", 1);
    await_number(scene, 5, "EXISTS job", 1);
    (void)scene_await_trigger(scene, "B", 4);
    vanish(scene, 3);
    scene_trigger(scene, "A", 3, &late_reply);
    scene_trigger(scene, "A", 4, &late_settle);
    ask(scene, a);
    (void)scene_await_trigger(scene, "A", 4);
    (void)scene_await_trigger(scene, "A", 3); /* or it would be held after it's let go */
    await_number(scene, 2, "ZSCORE redlock:fence:{job} n", 11);
    release_link(scene, "A", 3);
    vanish(scene, 4);
    release_link(scene, "B", 4);
    tokens[1] = token_of(scene, b);
    release_link(scene, "A", 4);
    tokens[0] = token_of(scene, a);
    scene_measure(scene, "token_a", (double)tokens[0]);
    scene_measure(scene, "token_b", (double)tokens[1]);
}

void play_fence_twice(struct scene *scene)
{
    int64_t tokens[2];

    settle_twice(scene, tokens);
    scene_check(scene, EFFECT, "b_has_it", tokens[1] > 0);
    scene_check(scene, SAFETY, "no_token_comes_twice", tokens[0] != tokens[1]);
    scene_expect(scene, SAFETY, "c4.disorders", "", "eq", 0);
}

void play_fence_twice_control(struct scene *scene)
{
    int64_t tokens[2];

    settle_twice(scene, tokens);
    scene_check(scene, SAFETY, "a_token_came_twice", tokens[0] > 0 && tokens[0] == tokens[1]);
    scene_expect(scene, SAFETY, "c4.disorders", "", "ge", 1);
}

/* K12: the answers of two nodes are lost, then it's let go. */
static void release_unseen(struct scene *scene)
{
    static const struct trigger drop = {
        .command = NULL, .key = "job", .k = 1, .action = TRIGGER_DROP_REPLY};
    struct worker *a;
    int64_t lock;

    scene_phase(scene, "unseen");
    a = scene_actor(scene, "a", "P");
    lock = act_acquire(scene, a, "warm", 1000, NULL);
    scene_wait(scene, 200); /* its keys are seen */
    (void)act_release(scene, a, lock);
    scene_trigger(scene, "P", 4, &drop);
    scene_trigger(scene, "P", 5, &drop);
    lock = act_acquire(scene, a, "job", 1000, NULL);
    scene_check(scene, EFFECT, "a_has_it", lock >= 0);
    (void)act_release(scene, a, lock);
    (void)scene_await_trigger(scene, "P", 4);
    (void)scene_await_trigger(scene, "P", 5);
    scene_wait(scene, scene_ttl(scene) + 500);
}

void play_release_unseen(struct scene *scene)
{
    release_unseen(scene);
    scene_expect_clean(scene);
    scene_expect(scene, LIVENESS, "c6.orphans", "", "eq", 0);
    scene_expect(scene, LIVENESS, "c6.ghosts", "", "eq", 0);
}

void play_release_unseen_control(struct scene *scene)
{
    release_unseen(scene);
    scene_expect(scene, SAFETY, "c6.ghosts", "", "ge", 2);
    scene_expect(scene, SAFETY, "c6.ghost_p99_ms", "", "ge", 1000);
}

/* K13: requests take 300 ms; who starts to count when the first answer comes claims too much. */
void play_start_late_control(struct scene *scene)
{
    static const struct toxic slow = {
        .kind = TOXIC_DELAY, .ways = ONLY_REPLIES, .delay = {LAW_CONSTANT, 300 * NS_PER_MS, 0}};
    struct worker *a, *b;
    int64_t a_lock, b_lock;

    scene_phase(scene, "slow");
    a = scene_actor(scene, "a", "A");
    b = scene_actor(scene, "b", "B");
    scene_infect(scene, "A", ALL_NODES, &slow);
    a_lock = act_acquire(scene, a, "job", 3000, NULL);
    scene_check(scene, EFFECT, "a_has_it", a_lock >= 0);
    b_lock = act_poll(scene, b, "job", 2, 2 * scene_ttl(scene));
    (void)act_release(scene, b, b_lock);
    scene_heal(scene, "A", ALL_NODES);
    (void)act_release(scene, a, a_lock);
    scene_expect(scene, SAFETY, "c3.min_ms", "", "lt", 0);
    scene_expect(scene, SAFETY, "c1.overlaps", "", "ge", 1);
}
