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
    lease->result = (int8_t)result;
    lease->events |= REDLOCK__EVENT_BIT_DONE;
}

void redlock__hold_lose(struct redlock__lease *lease, int reason)
{
    lease->state = REDLOCK__LEASE_LOST;
    lease->outlived = reason == REDLOCK_EXPIRED;
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

int64_t redlock__lease_longest_ttl_ms(const struct redlock__lease *lease)
{
    return redlock__hold_exists(lease) ? redlock__max(lease->ttl_ms, lease->extend_ttl_ms)
                                       : lease->ttl_ms;
}

bool redlock__lease_held(const struct redlock__lease *lease, int64_t now_ns)
{
    return redlock__is_held(lease->deadline_ns, now_ns, lease->terms->min_validity_ms);
}

/* ---- until when --------------------------------------------------------- */

void redlock__hold_keep(struct redlock__lease *lease, uint32_t nodes, int64_t ttl_ms)
{
    const uint32_t *node_ppm = lease->terms->node_ppm;
    const struct redlock__lease_rare *rare = lease->rare;
    int64_t end_ns = 0;
    uint32_t ppm = UINT32_MAX; /* for which that is */

    for (; nodes != 0; nodes &= nodes - 1) {
        uint32_t i = redlock__first(nodes);

        if (node_ppm[i] != ppm) {
            ppm = node_ppm[i];
            end_ns = redlock__deadline(lease->round.start_ns, ttl_ms, ppm);
        }
        lease->ends_ns[i] = rare != NULL ? redlock__add(end_ns, -rare[i].shift_ns) : end_ns;
    }
}

/* How many of those counted keep the key until then, or longer. */
static uint32_t keep_until(const struct redlock__lease *lease, int64_t end_ns)
{
    uint32_t keep = 0;

    for (uint32_t rest = lease->counted; rest != 0; rest &= rest - 1)
        keep += lease->ends_ns[redlock__first(rest)] >= end_ns;
    return keep;
}

/* The quorum-th latest end of those counted: as long as a quorum keeps the key. 0: there are too
 * few. Most often all of them end together. */
static int64_t quorum_end(const struct redlock__lease *lease)
{
    int64_t best = REDLOCK__NEVER, latest = 0;

    if (redlock__count(lease->counted) < lease->quorum)
        return 0;
    for (uint32_t rest = lease->counted; rest != 0; rest &= rest - 1) {
        int64_t end_ns = lease->ends_ns[redlock__first(rest)];

        best = redlock__min(best, end_ns);
        latest = redlock__max(latest, end_ns);
    }
    for (uint32_t rest = lease->counted; rest != 0 && best != latest; rest &= rest - 1) {
        int64_t end_ns = lease->ends_ns[redlock__first(rest)];

        if (end_ns > best && keep_until(lease, end_ns) >= lease->quorum)
            best = end_ns;
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
        lease->ends_ns[i] = redlock__min(lease->ends_ns[i], deadline_ns);
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
void redlock__hold_uncount(struct redlock__lease *lease, uint32_t nodes, int64_t now_ns)
{
    lease->counted &= ~nodes;
    lease->may_join &= ~nodes;
    if (redlock__count(lease->counted) < lease->quorum)
        redlock__hold_lose(lease, lease->deadline_ns == 0 && !lease->seen_foreign ? REDLOCK_EXPIRED
                                                                                  : REDLOCK_LOST);
    else
        recount(lease, now_ns);
}

/* Where there is no memory to keep it, the vote is no good any more. */
void redlock__lease_stepped(struct redlock__lease *lease, uint32_t node, int64_t step_ns,
                            int64_t now_ns)
{
    if (!redlock__hold_exists(lease) && lease->state != REDLOCK__LEASE_ACQUIRING)
        return;
    lease->ends_ns[node] = redlock__add(lease->ends_ns[node], -step_ns);
    if (!redlock__lease_shift(lease, node, step_ns)) {
        lease->round.counted &= ~(UINT32_C(1) << node);
        if (redlock__hold_exists(lease))
            redlock__hold_uncount(lease, UINT32_C(1) << node, now_ns);
    } else if (redlock__hold_exists(lease)) {
        recount(lease, now_ns);
    }
}

int redlock__lease_margin(const struct redlock__lease *lease, int64_t now_ns)
{
    uint32_t keep = 0;

    if (!redlock__lease_held(lease, now_ns))
        return -1;
    for (uint32_t i = 0; i < lease->n; i++)
        keep += has(lease->counted, i) && lease->ends_ns[i] > now_ns;
    return (int)keep - (int)lease->quorum;
}
