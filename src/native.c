/*
 * The engine's fifth part: extend and release by the server's own compare-and-act commands where it
 * has them, else by script. See engine_state.h.
 *
 * What a server has is read off its version in the greeting (facts.c). A command it refuses all the
 * same, for a user's lack of rights or because a proxy doesn't know it, is asked again the other
 * way at once, in the same round, and isn't tried again on that connection.
 *
 * Release. Natively where it can be. A removal that removed nothing doesn't say whether the key is
 * gone or somebody else's: where a lease waits for that, one GET behind it does.
 *
 * Extend. A script never shortens what a primary keeps; SET sets. So a native extend always asks
 * for the longest time ever asked for under this token, and by anybody: where other processes may
 * have the token that is max_ttl. Where that is more than the caller wants a script is better,
 * since a primary then keeps the key no longer than he said; it is used unless scripts are refused.
 * The same goes for the first extend that a lease makes by itself, a moment after it was acquired:
 * that is when tokens are given to others. What a dead connection left behind is grant.c's
 * account; the argument is in docs/safety.md.
 */
#include <stdio.h>
#include <string.h>

#include "engine_state.h"
#include "validity.h"

enum way {
    BY_ASKING, /* by the script that tells whether somebody waits (wake.h) */
    BY_SCRIPT,
    BY_SET_IFEQ,
    BY_DELIFEQ,
    BY_DELEX,
    WAYS
};

static const char *const rights[WAYS] = {"+eval", "+eval", "+set +get", "+delifeq", "+delex"};

/* ---- which way ----------------------------------------------------------- */

/* The best of `can`; BY_SCRIPT: none is native. */
static enum way native_way(uint32_t can, enum redlock__command command)
{
    if (command == REDLOCK__CMD_EXTEND)
        return (can & REDLOCK__CAN_SET_IFEQ) != 0 ? BY_SET_IFEQ : BY_SCRIPT;
    if ((can & REDLOCK__CAN_DELIFEQ) != 0)
        return BY_DELIFEQ;
    return (can & REDLOCK__CAN_DELEX) != 0 ? BY_DELEX : BY_SCRIPT;
}

/* What may have been promised to anybody who has the token. */
static int64_t longest(const struct redlock__engine *engine, const struct redlock__grant *grant)
{
    return grant->shared ? redlock__max(grant->ttl_ms, engine->fleet.max_ttl_ms) : grant->ttl_ms;
}

/* The key would be kept for longer than was asked for, or the token may be about to be shared. */
static bool script_is_better(const struct redlock__engine *engine,
                             const struct redlock__grant *grant, enum redlock__command command,
                             int64_t ttl_ms)
{
    if (command != REDLOCK__CMD_EXTEND)
        return false;
    return ttl_ms < longest(engine, grant) ||
           (!grant->extended && grant->lease != NULL && grant->lease->automatic);
}

/* Mask: where the script for a release also tells whether somebody waits. */
static uint32_t asking(const struct redlock__grant *grant, enum redlock__command command)
{
    if (command != REDLOCK__CMD_RELEASE || grant->asked_at == 0)
        return 0;
    return UINT32_C(1) << (grant->asked_at - 1);
}

void redlock__native_greeted(struct redlock__engine *engine, uint32_t i)
{
    uint32_t bit = UINT32_C(1) << i;

    engine->native &= ~bit;
    if (redlock__node_facts(engine->nodes[i])->native != 0)
        engine->native |= bit;
}

/* Masks of `nodes`, by way. scripts: they are preferred; where somebody is asked whether others
 * wait they are, too. */
static void choose(const struct redlock__engine *engine, const struct redlock__grant *grant,
                   enum redlock__command command, uint32_t nodes, bool scripts, uint32_t by[WAYS])
{
    uint32_t by_script = nodes, ask = asking(grant, command);

    for (nodes &= engine->native; nodes != 0; nodes &= nodes - 1) {
        uint32_t i = redlock__first(nodes), bit = UINT32_C(1) << i;
        const struct redlock__facts *facts = redlock__node_facts(engine->nodes[i]);
        enum way native = native_way(facts->native & ~facts->refused, command);

        if (native == BY_SCRIPT ||
            ((scripts || (ask & bit) != 0) && (facts->refused & REDLOCK__CAN_EVAL) == 0))
            continue;
        by[native] |= bit;
        by_script &= ~bit;
    }
    by[BY_ASKING] = by_script & ask;
    by[BY_SCRIPT] = by_script & ~ask;
}

/* ---- sending ------------------------------------------------------------- */

/* What is asked for, whichever way. */
struct question {
    struct redlock__engine *engine;
    struct redlock__grant *grant;
    enum redlock__command command; /* EXTEND or RELEASE */
    uint32_t round_no;
    int64_t ttl_ms;
    int64_t deadline_ns, now_ns;
    struct redlock__token_text token;
};

/* What a native extend asks for. */
static int64_t native_ttl_ms(const struct question *q)
{
    return redlock__max(q->ttl_ms, longest(q->engine, q->grant));
}

static void encode(struct redlock__bytes *bytes, const struct question *q, enum way way)
{
    const struct redlock__name *name = q->grant->name;
    const char *token = q->token.hex;

    switch (way) {
    case BY_ASKING:
        redlock__encode_release_asking(bytes, name->key, name->len, token);
        break;
    case BY_SET_IFEQ:
        redlock__encode_extend_native(bytes, name->key, name->len, token, native_ttl_ms(q));
        break;
    case BY_DELIFEQ:
        redlock__encode_delifeq(bytes, name->key, name->len, token);
        break;
    case BY_DELEX:
        redlock__encode_delex(bytes, name->key, name->len, token);
        break;
    default: /* BY_SCRIPT */
        if (q->command == REDLOCK__CMD_EXTEND)
            redlock__encode_extend(bytes, name->key, name->len, token, q->ttl_ms);
        else
            redlock__encode_release(bytes, name->key, name->len, token);
        break;
    }
}

/* A round has one time limit, also where nodes are asked twice in it. Of `nodes` it still owes all
 * or none. */
static int64_t deadline_for(const struct redlock__engine *engine,
                            const struct redlock__grant *grant, uint32_t nodes, uint32_t round_no,
                            int64_t now_ns)
{
    const struct redlock__lease *lease = grant->lease;

    if (lease != NULL && lease->round_no == round_no && (lease->round.owed & nodes) != 0)
        now_ns = lease->round.start_ns;
    return redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);
}

/* To `nodes`, all the same bytes; returns those that took it. */
static uint32_t send_by(const struct question *q, enum way way, uint32_t nodes)
{
    struct redlock__tag tag = {
        .owner = q->grant, .command = q->command, .round = q->round_no, .ttl_ms = q->ttl_ms};
    uint32_t sent;

    if (way == BY_SET_IFEQ) {
        tag.command = REDLOCK__CMD_EXTEND_NATIVE;
        tag.ttl_ms = native_ttl_ms(q);
    } else if (way == BY_DELIFEQ || way == BY_DELEX) {
        tag.command = REDLOCK__CMD_RELEASE_NATIVE;
    }
    encode(redlock__engine_bytes(q->engine), q, way);
    sent = redlock__engine_send(q->engine, q->grant, &tag, nodes, q->deadline_ns, q->now_ns);
    if (way == BY_SET_IFEQ)
        redlock__grant_asked(q->grant, sent, q->round_no, tag.ttl_ms, q->now_ns);
    else if (q->command == REDLOCK__CMD_RELEASE)
        redlock__grant_removing(q->grant, sent);
    return sent;
}

uint32_t redlock__native_send(struct redlock__engine *engine, struct redlock__grant *grant,
                              enum redlock__command command, uint32_t round_no, uint32_t nodes,
                              int64_t ttl_ms, int64_t now_ns)
{
    struct question q = {.engine = engine,
                         .grant = grant,
                         .command = command,
                         .round_no = round_no,
                         .ttl_ms = ttl_ms,
                         .deadline_ns = deadline_for(engine, grant, nodes, round_no, now_ns),
                         .now_ns = now_ns,
                         .token = redlock__grant_token(grant)};
    bool scripts = script_is_better(engine, grant, command, ttl_ms);
    uint32_t by[WAYS] = {0}, sent = 0;

    choose(engine, grant, command, nodes, scripts, by); /* before sending changes the longest ttl */
    for (uint32_t way = 0; nodes != 0; nodes &= ~by[way++])
        if (by[way] != 0)
            sent |= send_by(&q, (enum way)way, by[way]);
    return sent;
}

/* ---- asking once more ---------------------------------------------------- */

/* Nobody waits for an answer any more, but that the key is gone. */
static bool is_stale(const struct redlock__node_event *event)
{
    const struct redlock__grant *grant = event->tag.owner;

    return grant->lease == NULL || grant->lease->round_no != event->tag.round;
}

/* In place of the request whose answer this is. False: it could not be sent. */
static bool ask_again(struct redlock__engine *engine, uint32_t node, enum way way,
                      enum redlock__command command, const struct redlock__node_event *event,
                      int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    uint32_t bit = UINT32_C(1) << node;
    struct question q = {.engine = engine,
                         .grant = grant,
                         .command = command,
                         .round_no = event->tag.round,
                         .ttl_ms = event->tag.ttl_ms,
                         .deadline_ns = deadline_for(engine, grant, bit, event->tag.round, now_ns),
                         .now_ns = now_ns,
                         .token = redlock__grant_token(grant)};
    bool sent = send_by(&q, way, bit) != 0;

    grant->requests -= sent; /* that of the event */
    return sent;
}

static bool ask_owner(struct redlock__engine *engine, uint32_t node,
                      const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    struct redlock__tag tag = {
        .owner = grant, .command = REDLOCK__CMD_OWNER, .round = event->tag.round};
    uint32_t bit = UINT32_C(1) << node, sent;
    int64_t deadline_ns = deadline_for(engine, grant, bit, tag.round, now_ns);

    redlock__encode_get(redlock__engine_bytes(engine), grant->name->key, grant->name->len);
    sent = redlock__engine_send(engine, grant, &tag, bit, deadline_ns, now_ns);
    redlock__grant_removing(grant, sent);
    grant->requests -= sent != 0;
    return sent != 0;
}

/* Neither way is left. */
static void explain(const struct redlock__facts *facts, enum redlock__command command,
                    struct redlock__answer *answer)
{
    enum way native = native_way(facts->native, command);
    const char *prefix = strncmp(answer->text, "NOPERM", 6) == 0 ? "NOPERM" : "command refused";

    if (native == BY_SCRIPT)
        (void)snprintf(answer->text, sizeof answer->text,
                       "%s for eval: grant +eval, or use a server with native commands "
                       "(Redis 8.4, Valkey 9.0)",
                       prefix);
    else
        (void)snprintf(answer->text, sizeof answer->text, "%s for eval and %s: grant +eval or %s",
                       prefix, rights[native] + 1, rights[native]);
}

/* A command was refused. True: it was asked the other way. */
static bool go_round(struct redlock__engine *engine, uint32_t node, enum redlock__command command,
                     struct redlock__node_event *event, int64_t now_ns)
{
    const struct redlock__facts *facts = redlock__node_facts(engine->nodes[node]);
    enum way way = native_way(facts->native & ~facts->refused, command);

    if (event->answer.vote != REDLOCK_VOTE_ERROR || !redlock__is_refusal(event->answer.text))
        return false;
    if (way == BY_SCRIPT && (facts->refused & REDLOCK__CAN_EVAL) != 0) {
        explain(facts, command, &event->answer);
        return false;
    }
    if (way == BY_SCRIPT && (asking(event->tag.owner, command) >> node & 1) != 0)
        way = BY_ASKING;
    if (command == REDLOCK__CMD_EXTEND && is_stale(event))
        return false;
    return ask_again(engine, node, way, command, event, now_ns);
}

/* ---- news ---------------------------------------------------------------- */

/* What SET with GET gave is what was there before. */
static void judge_extend(struct redlock__node_event *event)
{
    const struct redlock__grant *grant = event->tag.owner;

    if (event->answer.vote != REDLOCK_VOTE_FOREIGN)
        return;
    if (strcmp(event->answer.text, redlock__grant_token(grant).hex) == 0)
        event->answer.vote = REDLOCK_VOTE_OURS;
    event->answer.text[0] = '\0'; /* as a script says it */
}

/* An earlier SET of ours may have arrived in between: it is removed once more, later. */
static void judge_owner(struct redlock__node_event *event)
{
    const struct redlock__grant *grant = event->tag.owner;

    if (event->answer.vote != REDLOCK_VOTE_FOREIGN)
        return;
    if (strcmp(event->answer.text, redlock__grant_token(grant).hex) != 0) {
        event->answer.text[0] = '\0';
        return;
    }
    event->answer.vote = REDLOCK_VOTE_ERROR;
    (void)snprintf(event->answer.text, sizeof event->answer.text,
                   "there again after it was not there to be removed");
}

static bool extend_news(struct redlock__engine *engine, uint32_t node,
                        struct redlock__node_event *event, bool answered, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;

    event->tag.command = REDLOCK__CMD_EXTEND;
    if (event->result == REDLOCK__RESULT_DROPPED) {
        grant->asked &= ~(UINT32_C(1) << node);
        if (event->written)
            redlock__grant_left(grant, node, event->tag.ttl_ms);
    }
    if (!answered)
        return false;
    redlock__grant_told(grant, node, event->tag.round);
    judge_extend(event);
    return go_round(engine, node, REDLOCK__CMD_EXTEND, event, now_ns);
}

static bool release_news(struct redlock__engine *engine, uint32_t node,
                         struct redlock__node_event *event, bool answered, int64_t now_ns)
{
    enum redlock__command command = event->tag.command;

    event->tag.command = REDLOCK__CMD_RELEASE;
    if (!answered)
        return false;
    if (command == REDLOCK__CMD_OWNER) {
        judge_owner(event);
        return false;
    }
    if (event->answer.vote == REDLOCK_VOTE_FREE) {
        if (is_stale(event))
            return false;
        if (ask_owner(engine, node, event, now_ns))
            return true;
        event->answer.vote = REDLOCK_VOTE_ERROR;
        (void)snprintf(event->answer.text, sizeof event->answer.text,
                       "not there to be removed, and couldn't be asked whose it is");
        return false;
    }
    return go_round(engine, node, REDLOCK__CMD_RELEASE, event, now_ns);
}

bool redlock__native_news(struct redlock__engine *engine, uint32_t node,
                          struct redlock__node_event *event, int64_t now_ns)
{
    bool answered =
        event->result == REDLOCK__RESULT_ANSWER || event->result == REDLOCK__RESULT_LATE;

    switch (event->tag.command) {
    case REDLOCK__CMD_EXTEND:
    case REDLOCK__CMD_RELEASE:
        return event->answer.vote == REDLOCK_VOTE_ERROR && answered &&
               go_round(engine, node, event->tag.command, event, now_ns);
    case REDLOCK__CMD_EXTEND_NATIVE:
        return extend_news(engine, node, event, answered, now_ns);
    case REDLOCK__CMD_RELEASE_NATIVE:
    case REDLOCK__CMD_OWNER:
        return release_news(engine, node, event, answered, now_ns);
    default: /* as it is */
        return false;
    }
}

/* ---- tokens given away --------------------------------------------------- */

bool redlock__engine_handing_on(const struct redlock__lease *lease)
{
    return lease->state == REDLOCK__LEASE_RENEWING ||
           (lease->round_command == REDLOCK__CMD_EXTEND && lease->grant != NULL &&
            (lease->round.owed & lease->grant->asked) != 0);
}

uint32_t redlock__engine_share(const struct redlock__engine *engine,
                               const struct redlock__lease *lease, int64_t *cut_ms)
{
    uint32_t nodes = redlock__grant_share(lease->grant, cut_ms);

    return *cut_ms < engine->fleet.max_ttl_ms ? nodes : 0;
}
