/*
 * Looking whether a name that was busy may be free, before it is asked for again. See
 * engine_state.h.
 *
 * An attempt writes, and what it wrote has to be removed: two requests to each primary, in which
 * others' attempts may get entangled. So a poll begins with a look: how long the key still lives,
 * on just so many primaries that the answer is as good as an attempt's. Of c that are connected and
 * count, q would have to be free. If it is there on c - q + 1 of them, then at most q - 1 are, and
 * an attempt would be in vain. Anything else, a silent primary or an error too, leads to one at
 * once. So a lock that was given back is found as soon as by attempts alone, and what they say of
 * each primary stays as it is only while nothing has changed.
 */
#include "engine_state.h"
#include "pause.h"
#include "validity.h"

/* So few pauses before the wait ends each poll is an attempt, whose reason is the wait's result. */
static bool ends_soon(const struct redlock__lease *lease, int64_t now_ns)
{
    return lease->wait_until_ns != REDLOCK__NEVER &&
           lease->wait_until_ns - now_ns < 2 * redlock__ms_to_ns(lease->terms->retry_cap_ms);
}

static uint32_t nth(const struct redlock__engine *engine, const struct redlock__name *name,
                    uint32_t k)
{
    return (uint32_t)((name->hash + k) % engine->n);
}

/* Those that were seen to have the key come first: others may never have got it. */
static uint32_t choose(const struct redlock__engine *engine, const struct redlock__lease *lease)
{
    uint32_t able = redlock__engine_counting(engine), chosen = 0;
    uint32_t count = redlock__count(able), wanted;

    if (count < engine->fleet.quorum)
        return 0; /* an attempt will say so */
    wanted = count - engine->fleet.quorum + 1;
    for (uint32_t k = 0; k < 2 * engine->n && redlock__count(chosen) < wanted; k++) {
        uint32_t i = nth(engine, lease->name, k),
                 from = k < engine->n ? able & lease->busy_at : able;

        chosen |= from & UINT32_C(1) << i;
    }
    return chosen;
}

/* False: not all of them could be asked. */
static bool ask(struct redlock__engine *engine, struct redlock__lease *lease, uint32_t nodes,
                int64_t now_ns)
{
    struct redlock__name *name = lease->name;
    struct redlock__wake *wake = name->others->wake;
    struct redlock__tag tag = {
        .owner = name, .command = REDLOCK__CMD_PROBE, .round = wake->probe_no};
    struct redlock__bytes bytes;
    int64_t deadline_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns);

    redlock__encode_pttl(&bytes, name->key, name->len);
    for (uint32_t i = 0; i < engine->n && bytes.len != 0; i++) {
        if ((nodes >> i & 1) == 0 ||
            !redlock__engine_request(engine, i, &tag, &bytes, deadline_ns, now_ns))
            continue;
        wake->probing |= UINT32_C(1) << i;
        name->refs++;
        engine->stats.requests++;
    }
    redlock__bytes_free(&bytes);
    return nodes != 0 && wake->probing == nodes;
}

bool redlock__probe(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__wake *wake = redlock__name_known(lease->name)->wake;
    bool attempt;

    if (wake == NULL)
        return false;
    attempt = !wake->waiting || wake->got || wake->doubted || wake->probing != 0 ||
              lease->last_reason != REDLOCK_BUSY || ends_soon(lease, now_ns);
    wake->probe_no = ++engine->wake.probes;
    wake->probing = 0;
    wake->doubted = false;
    if (attempt || !ask(engine, lease, choose(engine, lease), now_ns))
        return false;
    lease->slowed = false;
    redlock__pause_prolong(lease, wake->blocked, &engine->random, now_ns);
    return true;
}

/* Where it isn't there, or won't be before the pause is over, it is asked for then. */
static void take_in(struct redlock__engine *engine, struct redlock__lease *head,
                    const struct redlock__node_event *event, int64_t now_ns)
{
    int64_t planned_ns = head->retry_ns;
    bool there =
        event->result == REDLOCK__RESULT_ANSWER && event->answer.vote == REDLOCK_VOTE_FOREIGN;

    if (there)
        redlock__pause_cut(head, event->answer.value, &engine->random, now_ns);
    else
        head->retry_ns = redlock__min(head->retry_ns, now_ns);
    if (!there || head->retry_ns < planned_ns)
        head->name->others->wake->doubted = true;
    redlock__engine_work_on(engine, head);
}

void redlock__probe_answered(struct redlock__engine *engine, uint32_t node,
                             const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__name *name = event->tag.owner;
    struct redlock__lease *head = redlock__queue_head(name);
    struct redlock__wake *wake = redlock__name_known(name)->wake;
    uint32_t bit = UINT32_C(1) << node;

    if (wake != NULL && wake->probe_no == event->tag.round && (wake->probing & bit) != 0) {
        wake->probing &= ~bit;
        if (head != NULL && head->state == REDLOCK__LEASE_WAITING)
            take_in(engine, head, event, now_ns);
    }
    if (event->result != REDLOCK__RESULT_TIMEOUT)
        redlock__name_unref(&engine->names, name);
}
