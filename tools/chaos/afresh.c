/*
 * All nodes afresh; see runtime_fresh(). Where starting takes long, as containers do, a server that
 * answers is told to execute itself again instead (DEBUG CRASH-AND-RECOVER): with an emptied
 * directory and its first configuration it is as new, and has a new run id. If it can't be asked,
 * or won't, it is killed and started.
 */
#include "clock_plan.h"
#include "runtime_state.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

enum {
    RENEW_MS = 2000
};

/* ---- emptying --------------------------------------------------------------------------- */

static void right_clock(struct clock_plan *plan)
{
    clock_plan_rate(plan, 0);
    clock_plan_step(plan, clock_real_ns(CLOCK_REALTIME) - clock_plan_now(plan));
    clock_plan_offsets(plan, 0, 0);
}

static int empty_node(struct runtime *runtime, unsigned node)
{
    if (runtime_at(runtime, node)->on_host && runtime->ops->reach_host(runtime, node, false) != 0)
        return -1;
    right_clock(runtime_clock(runtime, node));
    if (runtime_on_path(runtime, node, "data", tree_empty) != 0 ||
        runtime_on_path(runtime, node, "older", tree_remove) != 0)
        return -1;
    return config_write(runtime, node, NULL);
}

/* ---- starting --------------------------------------------------------------------------- */

/* Whether it began anew; then its connections were closed without an answer. */
static bool renew(struct runtime *runtime, unsigned node)
{
    const struct runtime_node *at = runtime_at(runtime, node);
    redisReply *reply;
    redisContext *context;
    bool closed;

    if (!at->made || at->on_host || at->dropping || runtime_probe(runtime, node) != PONGS ||
        empty_node(runtime, node) != 0)
        return false;
    context = runtime_connect(runtime, node, RENEW_MS);
    if (context == NULL)
        return false;
    reply = redisCommand(context, "DEBUG CRASH-AND-RECOVER 0");
    closed = reply == NULL && context->err != REDIS_ERR_IO;
    freeReplyObject(reply);
    redisFree(context);
    return closed;
}

/* Those of the set that have to be killed and started. */
static uint32_t renew_all(struct runtime *runtime, uint32_t set)
{
    for (unsigned i = 1; runtime->ops->slow && i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0 && renew(runtime, i))
            set &= ~runtime_set(i);
    return set;
}

static int start_again(struct runtime *runtime, uint32_t set)
{
    if (set == 0)
        return 0;
    if (runtime_end(runtime, set) != 0)
        return -1;
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0 && empty_node(runtime, i) != 0)
            return -1;
    return runtime->ops->launch(runtime, set);
}

static int start_afresh(struct runtime *runtime, uint32_t set)
{
    if (start_again(runtime, renew_all(runtime, set)) != 0)
        return -1;
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0 && runtime_await(runtime, i, SERVER_READY_MS) != 0)
            return -1;
    return 0;
}

/* ---- clocks ----------------------------------------------------------------------------- */

/* Whether its wall clock, in seconds, is within one of the plan's; -1: it doesn't tell. */
static int follows_plan(struct runtime *runtime, unsigned node)
{
    redisReply *reply = runtime_command(runtime, node, "TIME");
    int64_t plan_s = clock_plan_now(runtime_clock(runtime, node)) / CLOCK_NS_PER_S;
    int rc = -1;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        rc = llabs(strtoll(reply->element[0]->str, NULL, 10) - plan_s) <= 1;
    freeReplyObject(reply);
    return rc;
}

/* On node 1, which is started again afterwards: a server should not have seen that. */
static int prove_clocks(struct runtime *runtime)
{
    int follows;

    clock_plan_step(runtime_clock(runtime, 1), 3600 * CLOCK_NS_PER_S);
    follows = follows_plan(runtime, 1);
    if (follows < 0)
        return runtime_fail(runtime, "node 1 does not tell the time");
    if (follows == 0 && runtime->kind == RUNTIME_DOCKER)
        return runtime_fail(runtime,
                            "the servers in %s do not follow the harness's clocks: an image that "
                            "does not use glibc (Alpine's)? Name one based on Debian, as redis:8 "
                            "is, with REDLOCK_IMAGE, or use --runtime process",
                            runtime->image);
    if (follows == 0)
        return runtime_fail(
            runtime,
            "%s does not follow the harness's clocks: is it linked statically? Name "
            "another with --server",
            runtime->server);
    runtime->clocks_proven = true;
    return start_afresh(runtime, runtime_set(1));
}

int runtime_fresh(struct runtime *runtime, enum persistence persistence)
{
    runtime->persistence = persistence;
    if (start_afresh(runtime, runtime_all(runtime)) != 0)
        return -1;
    return runtime->clocks_proven ? 0 : prove_clocks(runtime);
}
