/*
 * See hold.h. Each counted primary has an end of its own; the hold ends with the quorum-th latest.
 */
#include "hold.h"

#include "validity.h"

static bool has(uint32_t nodes, uint32_t i)
{
    return (nodes >> i & 1) != 0;
}

void redlock__hold_finish(struct redlock__lease *lease, int result)
{
    if (lease->op == REDLOCK__OP_NONE)
        return;
    lease->op = REDLOCK__OP_NONE;
    lease->result = result;
    lease->events |= REDLOCK__EVENT_BIT_DONE;
}

void redlock__hold_lose(struct redlock__lease *lease, int reason)
{
    lease->state = REDLOCK__LEASE_LOST;
    lease->lost_reason = reason;
    lease->deadline_ns = 0;
    lease->renew_ns = REDLOCK__NEVER;
    lease->wants = REDLOCK__WANT_ABANDON;
    if (lease->op != REDLOCK__OP_RELEASE) /* which says it by its result */
        lease->events |= REDLOCK__EVENT_BIT_LOST;
    redlock__hold_finish(lease, reason);
}

bool redlock__hold_exists(const struct redlock__lease *lease)
{
    return lease->state == REDLOCK__LEASE_RENEWING || lease->state == REDLOCK__LEASE_HELD ||
           lease->state == REDLOCK__LEASE_ADOPTED;
}

/* ---- until when --------------------------------------------------------- */

void redlock__hold_keep(struct redlock__lease *lease, uint32_t nodes, int64_t ttl_ms)
{
    for (uint32_t i = 0; i < lease->n; i++) {
        uint32_t ppm = lease->node_ppm != NULL ? lease->node_ppm[i] : lease->drift_ppm;
        int64_t end_ns;

        if (!has(nodes, i))
            continue;
        end_ns = redlock__deadline(lease->round.start_ns, ttl_ms, ppm);
        lease->votes[i].end_ns = redlock__add(end_ns, -lease->votes[i].shift_ns);
    }
}

/* The quorum-th latest end of those counted: as long as a quorum keeps the key. */
static int64_t quorum_end(const struct redlock__lease *lease)
{
    int64_t best = 0, first = REDLOCK__NEVER;

    if (redlock__count(lease->counted) == lease->quorum) { /* all are needed */
        for (uint32_t i = 0; i < lease->n; i++)
            if (has(lease->counted, i))
                first = redlock__min(first, lease->votes[i].end_ns);
        return redlock__max(first, 0);
    }
    for (uint32_t i = 0; i < lease->n; i++) {
        int64_t end_ns = lease->votes[i].end_ns;
        uint32_t as_late = 0;

        for (uint32_t j = 0; j < lease->n; j++)
            as_late += has(lease->counted, j) && lease->votes[j].end_ns >= end_ns;
        if (has(lease->counted, i) && as_late >= lease->quorum)
            best = redlock__max(best, end_ns);
    }
    return best;
}

void redlock__hold_set_deadline(struct redlock__lease *lease)
{
    lease->deadline_ns = redlock__min(quorum_end(lease), lease->cap_ns);
}

void redlock__hold_lower(struct redlock__lease *lease, int64_t deadline_ns)
{
    for (uint32_t i = 0; i < lease->n; i++)
        lease->votes[i].end_ns = redlock__min(lease->votes[i].end_ns, deadline_ns);
    lease->deadline_ns = redlock__min(lease->deadline_ns, deadline_ns);
}

/* The ends of those counted have changed: the hold may be over earlier, or already. */
static void recount(struct redlock__lease *lease, int64_t now_ns)
{
    if (lease->deadline_ns == 0)
        return;
    lease->deadline_ns = redlock__min(lease->deadline_ns, quorum_end(lease));
    if (!redlock__lease_held(lease, now_ns))
        redlock__hold_lose(lease, REDLOCK_EXPIRED);
}

/* ---- what takes primaries away ------------------------------------------ */

/* A lease without a quorum to count on can't ever be extended. */
void redlock__hold_uncount(struct redlock__lease *lease, uint32_t node, int64_t now_ns)
{
    lease->counted &= ~(UINT32_C(1) << node);
    lease->known_before &= ~(UINT32_C(1) << node);
    if (redlock__count(lease->counted) < lease->quorum)
        redlock__hold_lose(lease, lease->deadline_ns == 0 && !lease->seen_foreign ? REDLOCK_EXPIRED
                                                                                  : REDLOCK_LOST);
    else
        recount(lease, now_ns);
}

void redlock__lease_stepped(struct redlock__lease *lease, uint32_t node, int64_t step_ns,
                            int64_t now_ns)
{
    struct redlock__lease_vote *vote = &lease->votes[node];

    if (!redlock__hold_exists(lease) && lease->state != REDLOCK__LEASE_ACQUIRING)
        return;
    vote->shift_ns = redlock__add(vote->shift_ns, step_ns);
    vote->end_ns = redlock__add(vote->end_ns, -step_ns);
    if (redlock__hold_exists(lease))
        recount(lease, now_ns);
}

int redlock__lease_margin(const struct redlock__lease *lease, int64_t now_ns)
{
    uint32_t keep = 0;

    if (!redlock__lease_held(lease, now_ns))
        return -1;
    for (uint32_t i = 0; i < lease->n; i++)
        keep += has(lease->counted, i) && lease->votes[i].end_ns > now_ns;
    return (int)keep - (int)lease->quorum;
}
