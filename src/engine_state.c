/*
 * What the engine's parts all ask of its state. See engine_state.h.
 */
#include "engine_state.h"

#include <stdio.h>

#include "validity.h"

bool redlock__engine_settled(const struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = 0; i < engine->n; i++) {
        switch (redlock__node_phase(engine->nodes[i])) {
        case REDLOCK__NODE_PHASE_READY:
            if (engine->members[i].seen_owed)
                return false;
            break;
        case REDLOCK__NODE_PHASE_DOWN:
            if (redlock__node_has_task(engine->nodes[i], now_ns))
                return false;
            break;
        case REDLOCK__NODE_PHASE_CONNECTING:
        case REDLOCK__NODE_PHASE_GREETING:
            return false;
        }
    }
    return true;
}

bool redlock__engine_gate_open(struct redlock__engine *engine, uint32_t counted, int64_t gate_ns,
                               int64_t now_ns)
{
    bool quorum = redlock__count(redlock__engine_ready(engine) & counted) >= engine->fleet.quorum;

    if (now_ns >= gate_ns || (quorum && now_ns >= engine->grace_ns) ||
        redlock__engine_settled(engine, now_ns))
        return true;
    redlock__engine_look(engine, quorum ? redlock__min(gate_ns, engine->grace_ns) : gate_ns);
    return false;
}

void redlock__engine_hurry(struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = 0; i < engine->n; i++)
        redlock__node_hurry(engine->nodes[i], now_ns);
    engine->stirred |= REDLOCK__STIRRED;
}

/* Where it fails, the link may have, which is news. */
bool redlock__engine_request(struct redlock__engine *engine, uint32_t i,
                             const struct redlock__tag *tag, const struct redlock__bytes *bytes,
                             int64_t deadline_ns, int64_t now_ns)
{
    bool sent = redlock__node_request(engine->nodes[i], tag, bytes, deadline_ns, now_ns);

    engine->stirred |= (uint32_t)sent << i;
    engine->owed += sent;
    if (!sent)
        engine->news |= UINT32_C(1) << i;
    return sent;
}

struct redlock__bytes *redlock__engine_bytes(struct redlock__engine *engine)
{
    uint32_t k = engine->newest ^= 1;

    for (; engine->lent[k] != 0; engine->lent[k] &= engine->lent[k] - 1)
        redlock__node_keep(engine->nodes[redlock__first(engine->lent[k])]);
    redlock__bytes_free(&engine->bytes[k]);
    return &engine->bytes[k];
}

uint32_t redlock__engine_send(struct redlock__engine *engine, struct redlock__grant *grant,
                              const struct redlock__tag *tag, uint32_t nodes, int64_t deadline_ns,
                              int64_t now_ns)
{
    uint32_t sent =
        redlock__node_request_all(engine->nodes, nodes & redlock__engine_ready(engine), tag,
                                  &engine->bytes[engine->newest], deadline_ns, now_ns);
    uint32_t count = redlock__count(sent);

    engine->lent[engine->newest] |= sent;
    engine->stirred |= sent;
    engine->news |= nodes & ~sent;
    engine->owed += count;
    grant->requests += count;
    engine->stats.requests += count;
    return sent;
}

const char *redlock__engine_absence(const struct redlock__node *node)
{
    const char *text = redlock__node_text(node);

    if (text[0] != '\0')
        return text;
    return redlock__node_phase(node) == REDLOCK__NODE_PHASE_GREETING
               ? "connected, but no answer yet"
               : "no connection yet";
}

static int64_t node_timeout_ms(const struct redlock__engine *engine, int64_t ttl_ms)
{
    if (engine->node_timeout_ms > 0)
        return engine->node_timeout_ms;
    return redlock__min(redlock__max(ttl_ms / 20, 20), 500);
}

int64_t redlock__engine_node_deadline(const struct redlock__engine *engine, int64_t ttl_ms,
                                      int64_t now_ns)
{
    return redlock__add(now_ns, redlock__ms_to_ns(node_timeout_ms(engine, ttl_ms)));
}

/* What should be on its way and isn't, since there was no memory, is tried again. */
void redlock__engine_arm_grant(struct redlock__engine *engine, struct redlock__grant *grant,
                               int64_t now_ns)
{
    int64_t due_ns;

    if (!grant->abandoned || grant->owed == 0) {
        redlock__timers_stop(&engine->grant_timers, &grant->timer);
        return;
    }
    due_ns = redlock__grant_next_deadline(grant);
    if ((redlock__grant_to_remove(grant, now_ns) & redlock__engine_ready(engine)) != 0)
        due_ns = redlock__min(due_ns, redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns));
    redlock__timers_set(&engine->grant_timers, &grant->timer, due_ns);
}

void redlock__engine_say(struct redlock__engine *engine, int level, const char *address,
                         const char *what)
{
    uint32_t slot = (engine->log_first + engine->log_count) % REDLOCK__LOG_LINES;

    if (engine->log_count == REDLOCK__LOG_LINES)
        engine->log_first = (engine->log_first + 1) % REDLOCK__LOG_LINES;
    else
        engine->log_count++;
    engine->log[slot].level = level;
    (void)snprintf(engine->log[slot].text, sizeof engine->log[slot].text, "%s: %s", address, what);
}

void redlock__engine_work_on(struct redlock__engine *engine, struct redlock__lease *lease)
{
    if (lease == NULL || lease->in_work)
        return;
    lease->in_work = true;
    lease->next_work = NULL;
    if (engine->work_head == NULL)
        engine->work_head = lease;
    else
        engine->work_tail->next_work = lease;
    engine->work_tail = lease;
}
