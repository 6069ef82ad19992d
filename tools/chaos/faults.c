/*
 * Faults, each with its records: when it was asked for, when it was in effect, whether it took.
 * A fault of a node is seen in the node's state or clock; one of a link in what the link counted
 * until it was healed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_plan.h"
#include "scene_state.h"

#define NS_PER_MS INT64_C(1000000)

json_t *scene__nodes(unsigned nodes)
{
    json_t *array = json_array();

    for (int node = 1; nodes >> (node - 1) != 0; node++)
        if (nodes & NODE(node))
            json_array_append_new(array, json_integer(node));
    return array;
}

static void tell(struct scene *scene, const struct active *fault, const char *state,
                 int64_t requested_ns, bool verified, const char *text)
{
    json_t *links = json_array();

    for (int node = 1; fault->group >= 0 && node <= SCENE_NODES; node++)
        if (fault->nodes & NODE(node))
            json_array_append_new(links,
                                  json_sprintf("%s:%d", scene->groups[fault->group].name, node));
    history_put(scene->history,
                json_pack("{s:s, s:i, s:s, s:s, s:o, s:o, s:I, s:b, s:s}", "type", "fault", "fault",
                          fault->number, "action", fault->action, "state", state, "nodes",
                          scene__nodes(fault->nodes), "links", links, "requested_ns",
                          (json_int_t)requested_ns, "verified", verified, "text", text));
}

/* Keeps it in mind until it stops. */
static struct active *begin(struct scene *scene, const char *action, unsigned nodes, int group)
{
    static struct active none; /* where there are too many: the scene is over anyway */
    struct active *fault;

    if (scene->fault_count == FAULTS_MAX) {
        scene_fail(scene, "more than %d faults at once", FAULTS_MAX);
        return &none;
    }
    fault = &scene->faults[scene->fault_count++];
    *fault = (struct active){.number = ++scene->fault_number, .nodes = nodes, .group = group};
    (void)snprintf(fault->action, sizeof fault->action, "%s", action);
    return fault;
}

static void drop(struct scene *scene, struct active *fault)
{
    *fault = scene->faults[--scene->fault_count];
}

/* A fault of one instant: begun and over. */
static void tell_once(struct scene *scene, const char *action, unsigned nodes, int64_t requested_ns,
                      bool verified, const char *text)
{
    struct active fault = {.number = ++scene->fault_number, .nodes = nodes, .group = -1};

    (void)snprintf(fault.action, sizeof fault.action, "%s", action);
    tell(scene, &fault, "start", requested_ns, verified, text);
    tell(scene, &fault, "stop", requested_ns, true, "");
}

static void stop_node_fault(struct scene *scene, const char *action, unsigned nodes,
                            int64_t requested_ns)
{
    for (unsigned i = scene->fault_count; i-- > 0;) {
        struct active *fault = &scene->faults[i];
        struct active part = *fault;

        if (fault->group >= 0 || strcmp(fault->action, action) != 0 || !(fault->nodes & nodes))
            continue;
        fault->nodes &= ~nodes;
        if (fault->nodes != 0)
            continue; /* others of it are still so */
        tell(scene, &part, "stop", requested_ns, true, "");
        drop(scene, fault);
    }
}

typedef int node_verb(struct runtime *runtime, unsigned node);

/* What is done to nodes, and what they are then. */
struct deed {
    const char *verb;
    node_verb *act;
    const char *state;
    bool kept;
};

/* True if it was done to all. Told of each at once: with containers it takes a while. */
static bool each(struct scene *scene, unsigned nodes, const struct deed *deed)
{
    for (unsigned node = 1; node <= SCENE_NODES; node++) {
        if (!(nodes & NODE(node)))
            continue;
        if (deed->act(scene->runtime, node) != 0) {
            scene_fail(scene, "%s node %u: %s", deed->verb, node, runtime_text(scene->runtime));
            return false;
        }
        scene__tell_node(scene, node, deed->state, deed->kept);
    }
    return true;
}

static bool all_are(struct scene *scene, unsigned nodes, enum node_state state)
{
    for (unsigned node = 1; node <= SCENE_NODES; node++)
        if ((nodes & NODE(node)) && runtime_state(scene->runtime, node) != state)
            return false;
    return true;
}

/* The modes with one primary have only node 1, and its replica as node 2. A fault of nodes that
 * aren't there at all would not be one. */
static unsigned there(struct scene *scene, unsigned nodes)
{
    unsigned found = scene->mode == MODE_REDLOCK ? nodes : nodes & NODE(1);

    if (nodes != 0 && found == 0)
        scene_fail(scene, "this mode has no such node");
    return found;
}

/* ---- nodes ---------------------------------------------------------------- */

void scene_kill(struct scene *scene, unsigned nodes)
{
    static const struct deed kill = {"kill", runtime_kill, "down", false};
    int64_t requested_ns = history_now();
    struct active *fault;

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !each(scene, nodes, &kill))
        return;
    fault = begin(scene, "kill", nodes, -1);
    tell(scene, fault, "start", requested_ns, all_are(scene, nodes, NODE_DOWN), "SIGKILL");
}

void scene_revive(struct scene *scene, unsigned nodes, enum revival revival)
{
    static const char *const words[] = {"with its data", "empty", "with older data"};
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    for (unsigned node = 1; node <= SCENE_NODES && scene__goes_on(scene); node++) {
        if (!(nodes & NODE(node)))
            continue;
        if (runtime_revive(scene->runtime, node, revival, NULL) != 0) {
            scene_fail(scene, "revive node %u: %s", node, runtime_text(scene->runtime));
            return;
        }
        scene__tell_node(scene, node, "up", revival == REVIVE_KEPT);
    }
    if (nodes == 0 || scene->over)
        return;
    stop_node_fault(scene, "kill", nodes, requested_ns);
    tell_once(scene, "restart", nodes, requested_ns, all_are(scene, nodes, NODE_UP),
              words[revival]);
}

void scene_freeze(struct scene *scene, unsigned nodes)
{
    static const struct deed freeze = {"freeze", runtime_freeze, "frozen", true};
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !each(scene, nodes, &freeze))
        return;
    tell(scene, begin(scene, "freeze", nodes, -1), "start", requested_ns,
         all_are(scene, nodes, NODE_FROZEN), "");
}

void scene_thaw(struct scene *scene, unsigned nodes)
{
    static const struct deed thaw = {"thaw", runtime_thaw, "thawed", true};
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !each(scene, nodes, &thaw))
        return;
    stop_node_fault(scene, "freeze", nodes, requested_ns);
}

/* ---- clocks ---------------------------------------------------------------- */

/* What the server itself says is what the plan says, within a second. */
static bool clock_took(struct scene *scene, unsigned node)
{
    redisReply *reply = runtime_command(scene->runtime, node, "TIME");
    int64_t wanted_ns = clock_plan_now(runtime_clock(scene->runtime, node));
    int64_t shown_ns = 0;

    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        shown_ns = strtoll(reply->element[0]->str, NULL, 10) * CLOCK_NS_PER_S +
                   strtoll(reply->element[1]->str, NULL, 10) * 1000;
    freeReplyObject(reply);
    return llabs(wanted_ns - shown_ns) < 1000 * NS_PER_MS;
}

struct bend {
    const char *action;
    int64_t amount;
    bool silent;
};

static void bend_clocks(struct scene *scene, unsigned nodes, const struct bend *bend)
{
    int64_t requested_ns = history_now();
    bool took = true;
    char text[64];

    nodes = there(scene, nodes);
    for (unsigned node = 1; node <= SCENE_NODES && scene__goes_on(scene); node++) {
        struct clock_plan *plan = runtime_clock(scene->runtime, node);

        if (!(nodes & NODE(node)))
            continue;
        if (plan == NULL) {
            scene_fail(scene, "node %u has no clock of its own here", node);
            return;
        }
        if (strcmp(bend->action, "clock-step") == 0)
            clock_plan_step(plan, bend->amount * NS_PER_MS);
        else
            clock_plan_rate(plan, bend->amount);
        scene__tell_clock(scene, node);
        if (!bend->silent)
            took = took && clock_took(scene, node);
    }
    if (bend->silent || nodes == 0 || scene->over)
        return;
    (void)snprintf(text, sizeof text, "%+lld %s", (long long)bend->amount,
                   strcmp(bend->action, "clock-step") == 0 ? "ms" : "ppm");
    tell_once(scene, bend->action, nodes, requested_ns, took, text);
}

void scene_clock_step(struct scene *scene, unsigned nodes, int64_t ms)
{
    bend_clocks(scene, nodes, &(struct bend){"clock-step", ms, false});
}

void scene_clock_jerk(struct scene *scene, unsigned nodes, int64_t ms)
{
    bend_clocks(scene, nodes, &(struct bend){"clock-step", ms, true});
}

void scene_clock_rate(struct scene *scene, unsigned nodes, int64_t ppm)
{
    bend_clocks(scene, nodes, &(struct bend){"clock-rate", ppm, false});
}

/* ---- what nodes hold and answer ------------------------------------------------ */

/* Words at blanks; what follows a | is the last one, blanks and all. */
static int run_command(struct scene *scene, unsigned node, const char *command)
{
    const char *last = strchr(command, '|');
    char format[128];

    if (last == NULL)
        return runtime_do(scene->runtime, node, command);
    (void)snprintf(format, sizeof format, "%.*s%%s", (int)(last - command), command);
    return runtime_do(scene->runtime, node, format, last + 1);
}

static bool run_commands(struct scene *scene, unsigned nodes, const char *const *commands)
{
    for (unsigned node = 1; node <= SCENE_NODES; node++) {
        for (const char *const *command = commands; (nodes & NODE(node)) && *command != NULL;
             command++) {
            if (run_command(scene, node, *command) != 0) {
                scene_fail(scene, "node %u, %s: %s", node, *command, runtime_text(scene->runtime));
                return false;
            }
        }
    }
    return true;
}

void scene_drop(struct scene *scene, unsigned nodes, bool on)
{
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    for (unsigned node = 1; node <= SCENE_NODES && scene__goes_on(scene); node++) {
        if ((nodes & NODE(node)) && runtime_drop(scene->runtime, node, on) != 0) {
            scene_fail(scene, "drop packets to node %u: %s", node, runtime_text(scene->runtime));
            return;
        }
    }
    if (scene->over)
        return;
    if (on)
        tell(scene, begin(scene, "drop", nodes, -1), "start", requested_ns, true, "in the kernel");
    else
        stop_node_fault(scene, "drop", nodes, requested_ns);
}

void scene_flush(struct scene *scene, unsigned nodes)
{
    static const char *const commands[] = {"FLUSHALL", NULL};
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !run_commands(scene, nodes, commands))
        return;
    for (unsigned node = 1; node <= SCENE_NODES; node++)
        if (nodes & NODE(node))
            scene__tell_node(scene, node, "up", false);
    tell_once(scene, "flush", nodes, requested_ns, true, "FLUSHALL");
}

void scene_ail(struct scene *scene, unsigned nodes, const char *action, const char *const *commands)
{
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !run_commands(scene, nodes, commands))
        return;
    tell(scene, begin(scene, action, nodes, -1), "start", requested_ns, true, commands[0]);
}

void scene_cure(struct scene *scene, unsigned nodes, const char *const *commands)
{
    int64_t requested_ns = history_now();

    nodes = there(scene, nodes);
    if (nodes == 0 || !scene__goes_on(scene) || !run_commands(scene, nodes, commands))
        return;
    for (unsigned i = scene->fault_count; i-- > 0;) {
        struct active *fault = &scene->faults[i];

        if (fault->group >= 0 || fault->nodes != nodes || strcmp(fault->action, "kill") == 0 ||
            strcmp(fault->action, "freeze") == 0)
            continue;
        tell(scene, fault, "stop", requested_ns, true, "");
        drop(scene, fault);
    }
}

/* ---- one primary and its replica ------------------------------------------------- */

void scene_cut_replica(struct scene *scene)
{
    int64_t requested_ns = history_now();

    if (!scene__goes_on(scene) || scene->mode < MODE_REPLICA)
        return;
    if (runtime_cut_replica(scene->runtime, 2) != 0) {
        scene_fail(scene, "cut the replica: %s", runtime_text(scene->runtime));
        return;
    }
    tell_once(scene, "cut-replica", NODE(1), requested_ns, true, "the replica hears nothing more");
}

void scene_failover(struct scene *scene)
{
    int64_t requested_ns = history_now();

    if (!scene__goes_on(scene) || scene->mode < MODE_REPLICA)
        return;
    if (runtime_promote(scene->runtime, 2) != 0) {
        scene_fail(scene, "promote the replica: %s", runtime_text(scene->runtime));
        return;
    }
    for (unsigned i = 0; i < scene->group_count; i++)
        link_target(scene->groups[i].links[0], runtime_port(scene->runtime, 2));
    tell_once(scene, "failover", NODE(1), requested_ns, true, "the replica is the primary now");
}

/* ---- links -------------------------------------------------------------------------------- */

static const char *const toxics[] = {"delay",     "hold",  "swallow", "refuse",     "silent",
                                     "half-open", "slice", "trickle", "reset-storm"};

static void infect(struct link *link, const struct toxic *toxic, enum way way)
{
    switch (toxic->kind) {
    case TOXIC_DELAY:
        link_delay(link, way, toxic->delay);
        break;
    case TOXIC_HOLD:
        link_flow(link, way, FLOW_HOLD);
        break;
    case TOXIC_SWALLOW:
        link_flow(link, way, FLOW_SWALLOW);
        break;
    case TOXIC_SLICE:
        link_slice(link, way, (unsigned)toxic->amount, 0);
        break;
    case TOXIC_TRICKLE:
        link_bandwidth(link, way, (int64_t)toxic->amount);
        break;
    case TOXIC_REFUSE:
    case TOXIC_SILENT:
    case TOXIC_HALF_OPEN:
    case TOXIC_RESETS:
        break;
    }
}

static void infect_link(struct link *link, const struct toxic *toxic)
{
    int ways = toxic->ways == 0 ? BOTH_WAYS : toxic->ways;

    if (toxic->kind == TOXIC_REFUSE || toxic->kind == TOXIC_SILENT) {
        if (toxic->kind == TOXIC_REFUSE)
            link_refuse(link, true);
        else
            link_silent(link, true);
        link_reset(link);
    } else if (toxic->kind == TOXIC_HALF_OPEN) {
        link_half_open(link);
    } else if (toxic->kind == TOXIC_RESETS) {
        link_reset_chance(link, toxic->amount);
    }
    if (ways & ONLY_REQUESTS)
        infect(link, toxic, REQUESTS);
    if (ways & ONLY_REPLIES)
        infect(link, toxic, REPLIES);
}

/* What grows only if the toxic works. A refusal is the kernel's, in force at once and not counted.
 */
static uint64_t evidence(struct link *link, enum toxic_kind kind)
{
    struct link_count count = link_count(link);

    switch (kind) {
    case TOXIC_DELAY:
        return count.delayed[REQUESTS] + count.delayed[REPLIES];
    case TOXIC_HOLD:
        return count.held[REQUESTS] + count.held[REPLIES];
    case TOXIC_SWALLOW:
    case TOXIC_HALF_OPEN:
        return count.swallowed[REQUESTS] + count.swallowed[REPLIES];
    case TOXIC_SILENT:
        return count.accepted + count.resets;
    case TOXIC_REFUSE:
    case TOXIC_RESETS:
        return count.resets + count.refused;
    case TOXIC_SLICE:
    case TOXIC_TRICKLE:
        break;
    }
    return count.bytes[REQUESTS] + count.bytes[REPLIES];
}

void scene_infect(struct scene *scene, const char *group, unsigned nodes, const struct toxic *toxic)
{
    int64_t requested_ns = history_now();
    int g = scene__group(scene, group);
    struct active *fault;
    char text[64] = "";

    nodes = there(scene, nodes);
    if (nodes == 0 || g < 0 || !scene__goes_on(scene))
        return;
    fault = begin(scene, toxics[toxic->kind], nodes, g);
    fault->kind = toxic->kind;
    for (unsigned node = 0; node < scene_nodes(scene); node++) {
        if (!(nodes & NODE(node + 1)))
            continue;
        fault->seen[node] = evidence(scene->groups[g].links[node], toxic->kind);
        infect_link(scene->groups[g].links[node], toxic);
    }
    if (toxic->kind == TOXIC_DELAY)
        (void)snprintf(text, sizeof text, "%lld \xc2\xb1 %lld ms each way",
                       (long long)(toxic->delay.base_ns / NS_PER_MS),
                       (long long)(toxic->delay.spread_ns / NS_PER_MS));
    else if (toxic->ways == ONLY_REQUESTS || toxic->ways == ONLY_REPLIES)
        (void)snprintf(text, sizeof text, "%s only",
                       toxic->ways == ONLY_REQUESTS ? "requests" : "replies");
    tell(scene, fault, "start", requested_ns, true, text);
}

void scene_many_faults(struct scene *scene)
{
    scene->many_faults = true;
}

void scene_heal(struct scene *scene, const char *group, unsigned nodes)
{
    int64_t requested_ns = history_now();
    int g = scene__group(scene, group);

    nodes = there(scene, nodes);
    if (g < 0 || !scene__goes_on(scene))
        return;
    for (unsigned i = scene->fault_count; i-- > 0;) {
        struct active *fault = &scene->faults[i];
        bool took = true;

        if (fault->group != g || (fault->nodes & nodes) == 0)
            continue;
        for (unsigned node = 0; node < scene_nodes(scene); node++)
            if (fault->kind != TOXIC_REFUSE && (fault->nodes & NODE(node + 1)))
                took =
                    took && evidence(scene->groups[g].links[node], fault->kind) > fault->seen[node];
        tell(scene, fault, "stop", requested_ns, took || scene->many_faults,
             took ? "" : "nothing came by");
        drop(scene, fault);
    }
    for (unsigned node = 0; node < scene_nodes(scene); node++)
        if (nodes & NODE(node + 1))
            link_heal(scene->groups[g].links[node]);
}

void scene_trigger(struct scene *scene, const char *group, unsigned node,
                   const struct trigger *trigger)
{
    static const char *const actions[] = {"drop-reply",   "hold-reply", "drop-request",
                                          "hold-request", "cut",        "cut-reply"};
    struct link *link = scene_link(scene, group, node);
    struct active fault = {.number = ++scene->fault_number, .nodes = NODE(node)};

    if (link == NULL)
        (void)there(scene, NODE(node));
    if (link == NULL || !scene__goes_on(scene))
        return;
    fault.group = scene__group(scene, group);
    (void)snprintf(fault.action, sizeof fault.action, "%s", actions[trigger->action]);
    tell(scene, &fault, "start", history_now(), true,
         trigger->command != NULL ? trigger->command : "any command");
    link_trigger(link, trigger);
}

bool scene_await_trigger(struct scene *scene, const char *group, unsigned node)
{
    struct link *link = scene_link(scene, group, node);

    if (link == NULL || !scene__goes_on(scene))
        return false;
    if (link_await_trigger(link, 5000 * NS_PER_MS))
        return true;
    scene_fail(scene, "the trigger at %s was never pulled", link_name(link));
    return false;
}
