/*
 * How much a client sends by itself at once. See engine_state.h.
 *
 * A process that was stopped for a while finds all its renewals due, or all its leases lost.
 * Thousands of requests at once would wait behind each other for longer than their time, here and
 * at the primaries, and no connection takes any number of them. So of the renewals only some are
 * under way at a time, enough for all to be renewed within a third of their ttl over round trips of
 * a 48th of it. The others wait, the one whose hold ends first is the next; and where
 * there is time for two more rounds only, it waits no longer. Removals are put off while a
 * connection has many requests on their way already.
 */
#include <stddef.h>

#include "engine_state.h"
#include "validity.h"

enum {
    LEAST = 4096,
    MOST = 32768,
    SHARE = 16, /* a part of all leases */
    REMOVALS = 16384
};

static bool has_room(const struct redlock__engine *engine)
{
    uint32_t share = engine->lease_count / SHARE;

    return engine->renewing < LEAST || (engine->renewing < share && engine->renewing < MOST);
}

bool redlock__pace_renewal(struct redlock__engine *engine, struct redlock__lease *lease,
                           int64_t now_ns)
{
    int64_t round_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns) - now_ns;
    int64_t end_ns = redlock__held_until(lease->deadline_ns, lease->terms->min_validity_ms);
    int64_t last_ns = redlock__add(end_ns, -2 * round_ns);

    if (lease->op == REDLOCK__OP_EXTEND || has_room(engine) || now_ns >= last_ns ||
        !redlock__timers_reserve(&engine->paced, engine->paced.count + 1))
        return true;
    redlock__timers_set(&engine->paced, &lease->pace, end_ns);
    redlock__engine_look(engine, last_ns);
    return false;
}

/* It hasn't waited for connections yet: as when it came due. */
void redlock__pace_next(struct redlock__engine *engine, int64_t now_ns)
{
    struct redlock__timer *timer;
    struct redlock__lease *lease;

    if (engine->paced.count == 0 || !has_room(engine))
        return;
    timer = redlock__timers_take(&engine->paced, REDLOCK__NEVER);
    lease = (struct redlock__lease *)((char *)timer - offsetof(struct redlock__lease, pace));
    lease->gate_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns);
    redlock__engine_work_on(engine, lease);
}

uint32_t redlock__pace_removals(const struct redlock__engine *engine)
{
    uint32_t nodes = redlock__engine_ready(engine);

    for (uint32_t i = 0; i < engine->n; i++)
        if (redlock__node_pending(engine->nodes[i]) >= REMOVALS)
            nodes &= ~(UINT32_C(1) << i);
    return nodes;
}
