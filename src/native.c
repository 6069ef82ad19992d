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
    BY_SCRIPT,
    BY_SET_IFEQ,
    BY_DELIFEQ,
    BY_DELEX,
    WAYS
};

static const char *const rights[WAYS] = {"+eval", "+set +get", "+delifeq", "+delex"};

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

/* One primary is to tell whether somebody waits (wake.h), which only the script can. */
static bool asks(const struct redlock__grant *grant, enum redlock__command command, uint32_t node)
{
    return command == REDLOCK__CMD_RELEASE && grant->asked_at == node + 1;
}

static enum way choose(const struct redlock__engine *engine, const struct redlock__grant *grant,
                       enum redlock__command command, uint32_t node, int64_t ttl_ms)
{
    const struct redlock__facts *facts = redlock__node_facts(engine->nodes[node]);
    enum way way = native_way(facts->native & ~facts->refused, command);

    if ((facts->refused & REDLOCK__CAN_EVAL) == 0 &&
        (asks(grant, command, node) || script_is_better(engine, grant, command, ttl_ms)))
        return BY_SCRIPT;
    return way;
}

/* ---- sending ------------------------------------------------------------- */

static void encode(struct redlock__bytes *bytes, const struct redlock__engine *engine,
                   const struct redlock__grant *grant, const char *token, enum way way,
                   enum redlock__command command, uint32_t node, int64_t ttl_ms)
{
    const struct redlock__name *name = grant->name;

    if (way == BY_SET_IFEQ)
        redlock__encode_extend_native(bytes, name->key, name->len, token,
                                      redlock__max(ttl_ms, longest(engine, grant)));
    else if (way == BY_DELIFEQ)
        redlock__encode_delifeq(bytes, name->key, name->len, token);
    else if (way == BY_DELEX)
        redlock__encode_delex(bytes, name->key, name->len, token);
    else if (asks(grant, command, node)) /* by script, see choose() */
        redlock__encode_release_asking(bytes, name->key, name->len, token);
    else if (command == REDLOCK__CMD_EXTEND)
        redlock__encode_extend(bytes, name->key, name->len, token, ttl_ms);
    else
        redlock__encode_release(bytes, name->key, name->len, token);
}

/* A round has one time limit, also where nodes are asked twice in it. */
static int64_t deadline_for(const struct redlock__engine *engine,
                            const struct redlock__grant *grant, uint32_t nodes, uint32_t round_no,
                            int64_t now_ns)
{
    const struct redlock__lease *lease = grant->lease;

    if (lease != NULL && lease->round_no == round_no && (lease->round.owed & nodes) != 0)
        now_ns = lease->round.start_ns;
    return redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);
}

/* To `nodes`, of which the round still owes all or none; returns those that took it. */
static uint32_t put(struct redlock__engine *engine, struct redlock__grant *grant,
                    const struct redlock__tag *tag, const struct redlock__bytes *bytes,
                    uint32_t nodes, int64_t now_ns)
{
    int64_t deadline_ns = deadline_for(engine, grant, nodes, tag->round, now_ns);
    uint32_t sent = redlock__engine_send(engine, grant, tag, bytes, nodes, deadline_ns, now_ns);

    if (tag->command == REDLOCK__CMD_EXTEND_NATIVE)
        redlock__grant_asked(grant, sent, tag->round, tag->ttl_ms, now_ns);
    else if (tag->command != REDLOCK__CMD_EXTEND)
        redlock__grant_removing(grant, sent);
    return sent;
}

static struct redlock__tag tag_for(const struct redlock__engine *engine,
                                   struct redlock__grant *grant, enum way way,
                                   enum redlock__command command, uint32_t round_no, int64_t ttl_ms)
{
    struct redlock__tag tag = {
        .owner = grant, .command = command, .round = round_no, .ttl_ms = ttl_ms};

    if (way == BY_SET_IFEQ) {
        tag.command = REDLOCK__CMD_EXTEND_NATIVE;
        tag.ttl_ms = redlock__max(ttl_ms, longest(engine, grant));
    } else if (way != BY_SCRIPT) {
        tag.command = REDLOCK__CMD_RELEASE_NATIVE;
    }
    return tag;
}

/* To those in `nodes` for which this way was chosen, all the same bytes. */
static uint32_t send_by(struct redlock__engine *engine, struct redlock__grant *grant,
                        const char *token, enum way way, enum redlock__command command,
                        uint32_t round_no, uint32_t nodes, int64_t ttl_ms, int64_t now_ns)
{
    struct redlock__tag tag = tag_for(engine, grant, way, command, round_no, ttl_ms);
    uint32_t first = 0, sent;
    struct redlock__bytes bytes;

    while ((nodes >> first & 1) == 0)
        first++;
    encode(&bytes, engine, grant, token, way, command, first, ttl_ms);
    sent = put(engine, grant, &tag, &bytes, nodes, now_ns);
    redlock__bytes_free(&bytes);
    return sent;
}

uint32_t redlock__native_send(struct redlock__engine *engine, struct redlock__grant *grant,
                              enum redlock__command command, uint32_t round_no, uint32_t nodes,
                              int64_t ttl_ms, int64_t now_ns)
{
    struct redlock__token_text token = redlock__grant_token(grant);
    uint32_t by[WAYS] = {0}, asked = 0, sent = 0;

    for (uint32_t i = 0; i < engine->n; i++) { /* before sending changes what is the longest */
        if ((nodes >> i & 1) == 0)
            continue;
        if (asks(grant, command, i))
            asked = UINT32_C(1) << i;
        else
            by[choose(engine, grant, command, i, ttl_ms)] |= UINT32_C(1) << i;
    }
    if (asked != 0) {
        enum way way = choose(engine, grant, command, grant->asked_at - 1, ttl_ms);
        sent |= send_by(engine, grant, token.hex, way, command, round_no, asked, ttl_ms, now_ns);
    }
    for (uint32_t way = 0; way < WAYS; way++)
        if (by[way] != 0)
            sent |= send_by(engine, grant, token.hex, (enum way)way, command, round_no, by[way],
                            ttl_ms, now_ns);
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
    struct redlock__tag tag =
        tag_for(engine, grant, way, command, event->tag.round, event->tag.ttl_ms);
    struct redlock__bytes bytes;
    bool sent;

    encode(&bytes, engine, grant, redlock__grant_token(grant).hex, way, command, node,
           event->tag.ttl_ms);
    sent = put(engine, grant, &tag, &bytes, UINT32_C(1) << node, now_ns) != 0;
    redlock__bytes_free(&bytes);
    grant->requests -= sent; /* that of the event */
    return sent;
}

static bool ask_owner(struct redlock__engine *engine, uint32_t node,
                      const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__grant *grant = event->tag.owner;
    struct redlock__tag tag = {
        .owner = grant, .command = REDLOCK__CMD_OWNER, .round = event->tag.round};
    struct redlock__bytes bytes;
    bool sent;

    redlock__encode_get(&bytes, grant->name->key, grant->name->len);
    sent = put(engine, grant, &tag, &bytes, UINT32_C(1) << node, now_ns) != 0;
    redlock__bytes_free(&bytes);
    grant->requests -= sent;
    return sent;
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
