/*
 * What nodes have to tell the engine, given to its owners. See engine_state.h.
 *
 * Most of it is a yes to a request that went to all primaries. Those of one turn are collected by
 * request, and taken in together: a round is then told once, and not as often as there are
 * primaries. Before anything else is taken in, from any node, what was collected is: of one node
 * all stays in the order in which it came.
 */
#include <assert.h>

#include "engine_state.h"
#include "pause.h"
#include "validity.h"

/* ---- of grants ----------------------------------------------------------- */

static void removal_news(struct redlock__engine *engine, struct redlock__grant *grant,
                         uint32_t nodes, const struct redlock__node_event *event, int64_t now_ns)
{
    if (redlock__grant_removed(grant, nodes, event->answer.vote) != 0)
        grant->again_ns = redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);
    if (grant->asked_at != 0)
        redlock__wake_released(engine, grant, nodes, event->answer.waits, now_ns);
}

static void grant_answer(struct redlock__engine *engine, struct redlock__grant *grant,
                         uint32_t nodes, const struct redlock__node_event *event, int64_t now_ns)
{
    redlock_vote vote = event->answer.vote;

    switch (event->tag.command) {
    case REDLOCK__CMD_GRANT:
        redlock__fenced_answer(engine, grant, &event->answer);
        if (vote == REDLOCK_VOTE_ERROR && event->tag.number != 0 &&
            !redlock__node_facts(engine->nodes[redlock__first(nodes)])->given[REDLOCK__FACT_MULTI])
            redlock__fenced_refused(engine, redlock__first(nodes), now_ns);
        if (event->answer.value == REDLOCK__GRANT_FORGOT)
            redlock__watch_doubt(engine, redlock__first(nodes), now_ns);
        redlock__grant_set_answer(grant, nodes, vote);
        break;
    case REDLOCK__CMD_SET:
        redlock__grant_set_answer(grant, nodes, vote);
        break;
    case REDLOCK__CMD_SETTLE:
        redlock__grant_settle_answer(grant, nodes, vote);
        break;
    case REDLOCK__CMD_EXTEND:
        redlock__grant_extend_answer(grant, nodes, vote);
        break;
    default:
        removal_news(engine, grant, nodes, event, now_ns);
        break;
    }
    /* Of an answer that removed it there and is not the last, the timer needs not know. */
    if (grant->abandoned && (grant->owed == 0 || grant->again != 0))
        redlock__engine_arm_grant(engine, grant, now_ns);
}

static void grant_news(struct redlock__engine *engine, struct redlock__grant *grant, uint32_t nodes,
                       const struct redlock__node_event *event, int64_t now_ns)
{
    bool set = event->tag.command == REDLOCK__CMD_SET || event->tag.command == REDLOCK__CMD_GRANT;

    switch (event->result) {
    case REDLOCK__RESULT_ANSWER:
    case REDLOCK__RESULT_LATE:
        grant_answer(engine, grant, nodes, event, now_ns);
        break;
    case REDLOCK__RESULT_DROPPED:
        redlock__grant_dropped(grant, redlock__first(nodes), set, event->written);
        break;
    case REDLOCK__RESULT_TIMEOUT:
        break;
    }
}

/* A lease longer than max_ttl is one of a client that was told otherwise. */
__attribute__((noinline)) static void note_longer_ttl(struct redlock__engine *engine, uint32_t node,
                                                      const struct redlock__answer *answer)
{
    if (answer->vote != REDLOCK_VOTE_FOREIGN || answer->value <= engine->fleet.max_ttl_ms ||
        engine->longer_told || engine->fleet.guard_ns == 0)
        return;
    engine->longer_told = true;
    redlock__engine_say(engine, REDLOCK_LOG_WARNING, redlock__node_address(engine->nodes[node]),
                        "somebody's lease is longer than max_ttl: the restart guard does not cover "
                        "it. Use one max_ttl everywhere, see 'redlock init'");
}

__attribute__((noinline)) static void hint(struct redlock__engine *engine,
                                           const struct redlock__grant *grant,
                                           const struct redlock__answer *answer, int64_t now_ns)
{
    struct redlock__lease *head = redlock__queue_head(grant->name);

    if (answer->vote == REDLOCK_VOTE_FREE && redlock__wake_trusted(grant->name, now_ns))
        return; /* it is somebody else's turn */
    if (head == NULL || (answer->vote != REDLOCK_VOTE_FREE && answer->vote != REDLOCK_VOTE_FOREIGN))
        return;
    redlock__pause_cut(head, answer->vote == REDLOCK_VOTE_FREE ? 0 : answer->value, &engine->random,
                       now_ns);
    redlock__engine_work_on(engine, head);
}

/* The same of all in `nodes`. */
static void deliver(struct redlock__engine *engine, uint32_t nodes,
                    const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    struct redlock__lease *lease = grant->lease;
    bool told = event->result == REDLOCK__RESULT_DROPPED && event->timed_out;

    if (event->result != REDLOCK__RESULT_TIMEOUT)
        grant->requests -= redlock__count(nodes);
    if (event->tag.command == REDLOCK__CMD_HINT) {
        note_longer_ttl(engine, redlock__first(nodes), &event->answer);
        hint(engine, grant, &event->answer, now_ns);
    } else {
        grant_news(engine, grant, nodes, event, now_ns);
        if (lease != NULL && !told) {
            struct redlock__lease_news news = {.nodes = nodes,
                                               .command = event->tag.command,
                                               .round_no = event->tag.round,
                                               .vote = event->answer.vote,
                                               .number = event->answer.value,
                                               .behind = event->answer.behind,
                                               .text = event->answer.text,
                                               .random = &engine->random};
            redlock__lease_answer(lease, &news, now_ns);
            redlock__engine_work_on(engine, lease);
        }
    }
    redlock__grant_free_if_done(engine, grant);
}

void redlock__engine_deliver(struct redlock__engine *engine, uint32_t node,
                             const struct redlock__node_event *event, int64_t now_ns)
{
    deliver(engine, UINT32_C(1) << node, event, now_ns);
}

/* ---- what many say at once ----------------------------------------------- */

/* Primaries that said yes to the same request are taken in together, before anything else is. */
static void take_in_yes(struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = 1; i <= engine->yes_count; i++) {
        struct redlock__yes *yes = &engine->yes[i];
        struct redlock__node_event event;

        event.result = REDLOCK__RESULT_ANSWER;
        event.tag = yes->tag;
        event.written = event.timed_out = false;
        redlock__decode_plain_yes(yes->tag.command, &event.answer);
        ((struct redlock__grant *)yes->tag.owner)->yes_at = 0;
        deliver(engine, yes->nodes, &event, now_ns);
    }
    engine->yes_count = 0;
}

/* The first that says so, to this request. */
static void begin_yes(struct redlock__engine *engine, uint32_t node_bit, struct redlock__tag tag,
                      int64_t now_ns)
{
    struct redlock__grant *grant = tag.owner;

    if (grant->yes_at != 0 || engine->yes_count == REDLOCK__YES_AT_ONCE)
        take_in_yes(engine, now_ns);
    grant->yes_at = (uint8_t)++engine->yes_count;
    engine->yes[grant->yes_at].tag = tag;
    engine->yes[grant->yes_at].nodes = node_bit;
}

static inline void note_yes(struct redlock__engine *engine, uint32_t node_bit,
                            const struct redlock__tag *tag, int64_t now_ns)
{
    struct redlock__yes *yes = &engine->yes[((const struct redlock__grant *)tag->owner)->yes_at];

    if (yes->tag.what == tag->what)
        yes->nodes |= node_bit;
    else
        begin_yes(engine, node_bit, *tag, now_ns);
}

static void deliver_inspection(struct redlock__engine *engine, uint32_t node,
                               const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__inspection *inspection = event->tag.owner;

    if (event->result != REDLOCK__RESULT_TIMEOUT)
        inspection->requests--;
    if (event->tag.command == REDLOCK__CMD_PTTL)
        note_longer_ttl(engine, node, &event->answer);
    redlock__inspection_answer(inspection, node, event->tag.command, &event->answer, now_ns);
    redlock__engine_free_inspection_if_done(engine, inspection);
}

/* ---- of nodes ------------------------------------------------------------ */

/* Of all nodes, the yes that each begins with. Those with more to tell stay in `news`; of the
 * others there is none, but what may follow from their yes. */
static void hear_yes(struct redlock__engine *engine, int64_t now_ns)
{
    uint32_t asked = engine->news, more_of = 0, heard = 0;

    engine->news = 0;
    for (uint32_t rest = asked; rest != 0; rest &= rest - 1) {
        struct redlock__node *node = engine->nodes[redlock__first(rest)];
        uint32_t bit = rest & (~rest + 1);
        bool more = true;

        while (more) {
            const struct redlock__tag *tag = redlock__node_pull_yes(node, &more);

            if (tag == NULL) {
                more_of |= bit;
                break;
            }
            heard++;
            note_yes(engine, bit, tag, now_ns);
        }
    }
    engine->owed -= heard;
    engine->seen.behind &= ~(asked & ~more_of);
    engine->news |= more_of;
}

static void note_pace(struct redlock__engine *engine, uint32_t i, enum redlock__node_result result)
{
    uint32_t bit = UINT32_C(1) << i;

    if (result == REDLOCK__RESULT_TIMEOUT)
        engine->seen.behind |= bit;
    else if (result == REDLOCK__RESULT_ANSWER)
        engine->seen.behind &= ~bit;
}

/* Takes in all else that node i has to tell; false if nothing. */
__attribute__((noinline)) static bool pump(struct redlock__engine *engine, uint32_t i,
                                           int64_t now_ns)
{
    struct redlock__node *node = engine->nodes[i];
    struct redlock__node_event event;
    bool news = false;

    take_in_yes(engine, now_ns);
    engine->news &= ~(UINT32_C(1) << i);
    while (redlock__node_pull(node, now_ns, &event)) {
        news = true;
        engine->owed -= event.result != REDLOCK__RESULT_TIMEOUT;
        note_pace(engine, i, event.result);
        if (event.result == REDLOCK__RESULT_LATE)
            engine->stats.late_replies++;
        if (event.tag.command >= REDLOCK__CMD_INFO_SERVER)
            redlock__watch_news(engine, i, &event, now_ns);
        else if (event.tag.command == REDLOCK__CMD_GET || event.tag.command == REDLOCK__CMD_PTTL)
            deliver_inspection(engine, i, &event, now_ns);
        else if (event.tag.command == REDLOCK__CMD_PUSH || event.tag.command == REDLOCK__CMD_PUSHED)
            redlock__wake_pushed(engine, i, &event, now_ns);
        else if (event.tag.command == REDLOCK__CMD_PROBE)
            redlock__probe_answered(engine, i, &event, now_ns);
        else if (!redlock__native_news(engine, i, &event, now_ns))
            redlock__engine_deliver(engine, i, &event, now_ns);
    }
    if (redlock__node_changes(node) != engine->changes[i]) {
        redlock__engine_phase_changed(engine, i, now_ns);
        news = true;
    }
    return news;
}

__attribute__((noinline)) bool redlock__news_take(struct redlock__engine *engine, int64_t now_ns)
{
    bool any = false;

    while (engine->news != 0) {
        hear_yes(engine, now_ns);
        if (engine->news != 0)
            any |= pump(engine, redlock__first(engine->news), now_ns);
    }
    if (engine->yes_count > 0)
        take_in_yes(engine, now_ns);
    return any;
}
