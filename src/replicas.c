/*
 * See replicas.h. The vote of a round is held back until WAIT has answered: to the grant the SET is
 * known at once, since it has to be removed; the lease hears of it as an answer of round 0, which
 * is none.
 */
#include "replicas.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine_state.h"
#include "validity.h"

enum {
    IDLE_MS = 3000,
    THE_PRIMARY = 0
};

/* ---- turns -------------------------------------------------------------- */

static bool is_ready(const struct redlock__turn *turn)
{
    return turn->side != NULL && redlock__node_phase(turn->side->node) == REDLOCK__NODE_PHASE_READY;
}

static struct redlock__turn *free_turn(struct redlock__engine *engine)
{
    for (uint32_t i = 0; i < REDLOCK__TURNS; i++)
        if (is_ready(&engine->replicas.turns[i]) && !engine->replicas.turns[i].busy)
            return &engine->replicas.turns[i];
    return NULL;
}

static void set_idle(struct redlock__engine *engine, struct redlock__turn *turn, int64_t now_ns)
{
    turn->busy = false;
    turn->idle_until_ns = redlock__add(now_ns, redlock__ms_to_ns(IDLE_MS));
    redlock__engine_touch(engine, turn->idle_until_ns);
}

/* One more connection, unless one is on its way. */
static void open_turn(struct redlock__engine *engine, int64_t now_ns)
{
    int64_t wait_ns = redlock__ms_to_ns(engine->replicas.timeout_ms);
    struct redlock__turn *none = NULL;

    for (uint32_t i = 0; i < REDLOCK__TURNS; i++) {
        struct redlock__turn *turn = &engine->replicas.turns[i];

        if (turn->side != NULL && !turn->busy && !is_ready(turn))
            return;
        if (turn->side == NULL && none == NULL)
            none = turn;
    }
    if (none == NULL)
        return;
    none->side = redlock__side_take(engine, THE_PRIMARY, wait_ns);
    if (none->side != NULL)
        set_idle(engine, none, now_ns);
}

bool redlock__replicas_gate(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns)
{
    struct redlock__replicas *replicas = &engine->replicas;
    bool patient = lease->op == REDLOCK__OP_ACQUIRE && !lease->once;

    if (replicas->wanted == 0 || redlock__engine_ready(engine) == 0 || free_turn(engine) != NULL ||
        (!patient && now_ns >= lease->gate_ns)) {
        lease->turn = 0;
        return true;
    }
    open_turn(engine, now_ns);
    if (lease->turn == 0)
        lease->turn = ++replicas->arrivals != 0 ? replicas->arrivals : ++replicas->arrivals;
    if (!patient)
        redlock__engine_look(engine, lease->gate_ns);
    return false;
}

static bool is_eligible(const struct redlock__lease *lease, int64_t now_ns)
{
    if (lease->turn == 0)
        return false;
    return (lease->wants & REDLOCK__WANT_EXTEND) != 0 ||
           (lease->state == REDLOCK__LEASE_WAITING && redlock__queue_head(lease->name) == lease &&
            redlock__queue_due(lease->name) <= now_ns);
}

/* A connection is free: whoever has waited longest for one. */
static void call_next(struct redlock__engine *engine, int64_t now_ns)
{
    struct redlock__lease *first = NULL, *lease;

    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++)
        if (is_eligible(lease, now_ns) &&
            (first == NULL || (int32_t)(lease->turn - first->turn) < 0))
            first = lease;
    redlock__engine_work_on(engine, first);
}

/* ---- sending ------------------------------------------------------------ */

uint32_t redlock__replicas_send(struct redlock__engine *engine, struct redlock__grant *grant,
                                enum redlock__command command, uint32_t round_no, int64_t ttl_ms,
                                int64_t now_ns)
{
    struct redlock__turn *turn = free_turn(engine);
    const struct redlock__name *name = grant->name;
    struct redlock__tag tag = {.owner = grant, .command = command, .round = round_no};
    struct redlock__bytes bytes;
    bool sent;

    if (turn == NULL)
        return 0;
    if (command == REDLOCK__CMD_SET)
        redlock__encode_set(&bytes, name->key, name->len, redlock__grant_token(grant).hex, ttl_ms);
    else
        redlock__encode_extend_writing(&bytes, name->key, name->len,
                                       redlock__grant_token(grant).hex, ttl_ms);
    sent =
        bytes.len != 0 &&
        redlock__side_request(engine, turn->side, &tag, &bytes,
                              redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns), now_ns);
    redlock__bytes_free(&bytes);
    if (!sent)
        return 0;
    turn->busy = true;
    turn->command = command;
    turn->round_no = round_no;
    grant->requests++;
    engine->stats.requests++;
    if (command == REDLOCK__CMD_SET) /* a removal over the other connection may overtake it */
        grant->moved |= UINT32_C(1) << THE_PRIMARY;
    return UINT32_C(1) << THE_PRIMARY;
}

static bool send_wait(struct redlock__engine *engine, struct redlock__turn *turn,
                      struct redlock__grant *grant, int64_t now_ns)
{
    struct redlock__replicas *replicas = &engine->replicas;
    struct redlock__tag tag = {
        .owner = grant, .command = REDLOCK__CMD_REPLICAS, .round = turn->round_no};
    struct redlock__bytes bytes;
    int64_t until_ns = redlock__add(redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns),
                                    redlock__ms_to_ns(replicas->timeout_ms));
    bool sent;

    redlock__encode_wait(&bytes, replicas->wanted, replicas->timeout_ms);
    sent =
        bytes.len != 0 && redlock__side_request(engine, turn->side, &tag, &bytes, until_ns, now_ns);
    redlock__bytes_free(&bytes);
    grant->requests += sent;
    engine->stats.requests += sent;
    return sent;
}

/* ---- news --------------------------------------------------------------- */

/* Of WAIT: the vote that was held back. */
static void judge(struct redlock__engine *engine, const struct redlock__turn *turn,
                  struct redlock__node_event *event, int64_t now_ns)
{
    const struct redlock__replicas *replicas = &engine->replicas;
    struct redlock__grant *grant = event->tag.owner;
    struct redlock__answer *answer = &event->answer;
    struct redlock__lease_news news = {.nodes = UINT32_C(1) << THE_PRIMARY,
                                       .command = turn->command,
                                       .round_no = event->tag.round,
                                       .vote = answer->vote,
                                       .text = answer->text,
                                       .random = &engine->random};

    if (answer->vote == REDLOCK_VOTE_OURS && answer->value < (int64_t)replicas->wanted) {
        news.vote = REDLOCK_VOTE_ERROR;
        (void)snprintf(answer->text, sizeof answer->text,
                       "%" PRIu32 " replica%s asked for, %" PRId64 " acknowledged within %" PRId64
                       " ms",
                       replicas->wanted, replicas->wanted == 1 ? "" : "s", answer->value,
                       replicas->timeout_ms);
    }
    redlock__lease_answer(grant->lease, &news, now_ns);
    redlock__engine_work_on(engine, grant->lease);
}

static void wait_news(struct redlock__engine *engine, struct redlock__turn *turn,
                      struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    bool told = event->result == REDLOCK__RESULT_LATE || event->timed_out;

    if (event->result != REDLOCK__RESULT_TIMEOUT) {
        grant->requests--;
        set_idle(engine, turn, now_ns);
    }
    if (grant->lease != NULL && !told)
        judge(engine, turn, event, now_ns);
    redlock__grant_free_if_done(engine, grant);
}

static void round_news(struct redlock__engine *engine, struct redlock__turn *turn,
                       struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    bool answered =
        event->result == REDLOCK__RESULT_ANSWER || event->result == REDLOCK__RESULT_LATE;
    bool ours = answered && event->answer.vote == REDLOCK_VOTE_OURS;

    if (event->result != REDLOCK__RESULT_TIMEOUT)
        set_idle(engine, turn, now_ns);
    if (ours && grant->lease != NULL && !grant->abandoned &&
        event->result == REDLOCK__RESULT_ANSWER) {
        if (send_wait(engine, turn, grant, now_ns)) {
            turn->busy = true;
            event->tag.round = 0;
        } else { /* nobody can acknowledge it: no lock */
            event->answer.vote = REDLOCK_VOTE_ERROR;
            (void)snprintf(event->answer.text, sizeof event->answer.text, "out of memory");
        }
    }
    grant->requests++; /* until we are through with it */
    redlock__engine_deliver(engine, THE_PRIMARY, event, now_ns);
    if (ours && grant->abandoned && event->tag.command == REDLOCK__CMD_SET) {
        redlock__grant_landed(grant, THE_PRIMARY);
        redlock__serve_removals(engine, grant, now_ns);
    }
    grant->requests--;
    redlock__grant_free_if_done(engine, grant);
}

static bool pump(struct redlock__engine *engine, struct redlock__turn *turn, int64_t now_ns)
{
    struct redlock__side *side = turn->side;
    struct redlock__node_event event;
    enum redlock__node_phase phase;
    bool news = false;

    while (redlock__node_pull(side->node, now_ns, &event)) {
        if (event.tag.command == REDLOCK__CMD_REPLICAS)
            wait_news(engine, turn, &event, now_ns);
        else
            round_news(engine, turn, &event, now_ns);
        news = true;
    }
    phase = redlock__node_phase(side->node);
    news = news || phase != side->phase;
    side->phase = phase;
    if (news && !turn->busy && is_ready(turn))
        call_next(engine, now_ns);
    return news;
}

bool redlock__replicas_pump(struct redlock__engine *engine, int64_t now_ns)
{
    bool news = false;

    for (uint32_t i = 0; i < REDLOCK__TURNS; i++)
        if (engine->replicas.turns[i].side != NULL)
            news |= pump(engine, &engine->replicas.turns[i], now_ns);
    return news;
}

bool redlock__replicas_owed(const struct redlock__engine *engine)
{
    for (uint32_t i = 0; i < REDLOCK__TURNS; i++)
        if (engine->replicas.turns[i].busy)
            return true;
    return false;
}

void redlock__replicas_handle_deadline(struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = 0; i < REDLOCK__TURNS; i++) {
        struct redlock__turn *turn = &engine->replicas.turns[i];

        if (turn->side == NULL || turn->busy)
            continue;
        if (now_ns >= turn->idle_until_ns) {
            redlock__side_leave(engine, turn->side, now_ns);
            turn->side = NULL;
        } else {
            redlock__engine_touch(engine, turn->idle_until_ns);
        }
    }
}
