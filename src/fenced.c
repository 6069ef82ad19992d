/*
 * Fenced grants on their way: by script, or where all is in step by transaction. See
 * engine_state.h; what both mean, and why numbers rise with either, is in docs/safety.md.
 *
 * A transaction costs a primary half as much, but counts up also where the lock is somebody else's.
 * So it is for names that nobody else wants, it seems: the last attempt of this client had its
 * token at once, from grants that all agreed. Their hashes are kept, not the names, which don't
 * outlive a lock. One that is taken for another costs a settling at most. Once an hour it is the
 * script all the same: it renews the counter's ttl.
 */
#include "engine_state.h"
#include "validity.h"

enum {
    IS_DISCARD = 1,   /* in a tag, and so not zero */
    CALM_MS = 3600000 /* much less than REDLOCK__FENCE_TTL_MS */
};

/* ---- calm names --------------------------------------------------------- */

static struct redlock__calm *slot_of(struct redlock__engine *engine,
                                     const struct redlock__name *name)
{
    return &engine->calm[name->hash & (REDLOCK__CALM_NAMES - 1)];
}

static void disturb(struct redlock__engine *engine, const struct redlock__name *name)
{
    struct redlock__calm *slot = slot_of(engine, name);

    if (slot->hash == name->hash)
        slot->hash = 0;
}

static bool is_calm(struct redlock__engine *engine, const struct redlock__name *name,
                    int64_t now_ns)
{
    const struct redlock__calm *slot = slot_of(engine, name);

    if (slot->hash == name->hash && slot->until_ns <= now_ns)
        disturb(engine, name);
    return slot->hash == name->hash;
}

void redlock__fenced_over(struct redlock__engine *engine, const struct redlock__lease *lease)
{
    bool agreed = lease->state == REDLOCK__LEASE_HELD &&
                  lease->round_command == REDLOCK__CMD_GRANT && lease->round.foreign == 0;
    struct redlock__calm *slot = slot_of(engine, lease->name);
    uint64_t hash = lease->name->hash;

    if (!agreed)
        disturb(engine, lease->name);
    else if (slot->hash != hash) /* by script, then */
        *slot = (struct redlock__calm){
            .hash = hash,
            .until_ns = redlock__add(lease->round.start_ns, redlock__ms_to_ns(CALM_MS))};
}

/* Where there is no memory for it, it isn't kept: it only helps those that are behind. */
static void note_heard(struct redlock__engine *engine, struct redlock__name *name, int64_t number)
{
    struct redlock__others *others;

    if (number <= redlock__name_known(name)->heard)
        return;
    others = redlock__name_others(&engine->names, name);
    if (others != NULL)
        others->heard = number;
}

/* Also of one that comes late, when the token is known. */
static bool is_in_step(const struct redlock__grant *grant, const struct redlock__answer *answer)
{
    const struct redlock__lease *lease = grant->lease;
    int64_t token = lease == NULL ? 0 : redlock__lease_fencing(lease)->token;

    return answer->vote == REDLOCK_VOTE_OURS && !answer->behind &&
           (token == 0 || token == answer->value);
}

void redlock__fenced_answer(struct redlock__engine *engine, const struct redlock__grant *grant,
                            const struct redlock__answer *answer)
{
    if (answer->vote == REDLOCK_VOTE_OURS)
        note_heard(engine, grant->name, answer->value);
    if (!is_in_step(grant, answer))
        disturb(engine, grant->name);
}

/* Where MULTI is permitted and EXEC is not, Redis before 7 would queue all that follows. What comes
 * of it doesn't matter. */
void redlock__fenced_refused(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__tag tag = {.command = REDLOCK__CMD_MULTI, .number = IS_DISCARD};
    int64_t deadline_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);
    struct redlock__bytes bytes;

    (void)redlock__engine_request(engine, i, &tag, redlock__encode_discard(&bytes), deadline_ns,
                                  now_ns);
    redlock__bytes_free(&bytes);
}

/* ---- requests ----------------------------------------------------------- */

/* How a grant goes to that primary; its tag says so. */
static void encode_grant(struct redlock__engine *engine, const struct redlock__grant *grant,
                         const char *token, uint32_t i, bool calm, struct redlock__tag *tag,
                         struct redlock__bytes *bytes)
{
    const struct redlock__name *name = grant->name;
    const char *base = engine->members[i].facts.base_text;
    int64_t heard = redlock__name_known(name)->heard;

    tag->before = 0;
    tag->number = 0;
    if (calm && redlock__node_facts(engine->nodes[i])->given[REDLOCK__FACT_MULTI])
        tag->number = redlock__grant_number(heard, base);
    if (tag->number == 0) {
        redlock__encode_grant(bytes, name->key, name->len, token, grant->ttl_ms, heard, base);
        return;
    }
    tag->before = REDLOCK__BEFORE_GRANT;
    redlock__encode_transaction(bytes, name->key, name->len, token, grant->ttl_ms, base);
}

uint32_t redlock__fenced_send(struct redlock__engine *engine, struct redlock__lease *lease,
                              enum redlock__command command, uint32_t round_no, uint32_t nodes,
                              int64_t now_ns)
{
    struct redlock__grant *grant = lease->grant;
    const struct redlock__name *name = grant->name;
    struct redlock__token_text token = redlock__grant_token(grant);
    struct redlock__tag tag = {.owner = grant, .command = command, .round = round_no};
    int64_t deadline_ns = redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);
    bool calm = command == REDLOCK__CMD_GRANT && is_calm(engine, name, now_ns);
    uint32_t sent = 0;

    for (uint32_t i = 0; i < engine->n; i++) {
        if ((nodes >> i & 1) == 0)
            continue;
        if (command == REDLOCK__CMD_GRANT)
            encode_grant(engine, grant, token.hex, i, calm, &tag, redlock__engine_bytes(engine));
        else
            redlock__encode_settle(redlock__engine_bytes(engine), name->key, name->len, token.hex,
                                   redlock__lease_fencing(lease)->token,
                                   engine->members[i].facts.base_text);
        sent |= redlock__engine_send(engine, grant, &tag, UINT32_C(1) << i, deadline_ns, now_ns);
        if (calm)
            redlock__watch_multi(engine, i, now_ns);
    }
    return sent;
}
