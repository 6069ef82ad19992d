/*
 * See grant.h. Source of the obligation to release everywhere: redis.io,
 * "Distributed Locks with Redis", step 5 of the algorithm, and the discussion of lost
 * replies in antirez/redlock-rb issue 3: remove wherever the command may have been sent.
 */
#include "grant.h"

#include <assert.h>
#include <string.h>

#include "validity.h"

static uint32_t bit_of(uint32_t node)
{
    return UINT32_C(1) << node;
}

/* ---- the token ---------------------------------------------------------- */

static uint8_t digit_of(uint8_t value)
{
    return (uint8_t)(value + (value > 9 ? 'a' - 10 : '0'));
}

/* Without a table and without a branch: compilers make a few operations on many bytes of it. */
struct redlock__token_text redlock__grant_token(const struct redlock__grant *grant)
{
    struct redlock__token_text text;

    for (size_t i = 0; i < sizeof grant->token; i++) {
        text.hex[2 * i] = (char)digit_of(grant->token[i] >> 4);
        text.hex[2 * i + 1] = (char)digit_of(grant->token[i] & 15);
    }
    text.hex[REDLOCK__TOKEN_HEX] = '\0';
    return text;
}

/* Of a hexadecimal digit. */
static uint8_t value_of(char digit)
{
    return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void redlock__grant_take_token(struct redlock__grant *grant, const char *hex)
{
    for (size_t i = 0; i < sizeof grant->token; i++)
        grant->token[i] = (uint8_t)(value_of(hex[2 * i]) << 4 | value_of(hex[2 * i + 1]));
}

/* ---- what may exist ----------------------------------------------------- */

/* What was the longest so far, and may still arrive, would cut a longer one. */
static void reach(struct redlock__grant *grant, int64_t ttl_ms)
{
    if (ttl_ms <= grant->ttl_ms)
        return;
    if (grant->late != 0 && (grant->cut == 0 || grant->ttl_ms < grant->cut_ms))
        grant->cut_ms = grant->ttl_ms;
    grant->cut |= grant->late;
    grant->late = 0;
    grant->ttl_ms = ttl_ms;
}

void redlock__grant_set(struct redlock__grant *grant, uint32_t nodes, int64_t ttl_ms,
                        int64_t now_ns)
{
    assert(!grant->abandoned);
    grant->written |= nodes;
    grant->unanswered |= nodes;
    reach(grant, ttl_ms);
    grant->last_write_ns = now_ns;
}

void redlock__grant_extended(struct redlock__grant *grant, int64_t ttl_ms, int64_t now_ns)
{
    assert(!grant->abandoned);
    reach(grant, ttl_ms);
    grant->last_write_ns = now_ns;
    grant->extended = true;
}

void redlock__grant_set_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote)
{
    grant->unanswered &= ~nodes;
    if (vote == REDLOCK_VOTE_OURS)
        grant->known |= nodes;
}

void redlock__grant_extend_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote)
{
    switch (vote) {
    case REDLOCK_VOTE_OURS:
        grant->known |= nodes;
        grant->written |= nodes;
        grant->unanswered &= ~nodes;
        break;
    case REDLOCK_VOTE_FREE:
    case REDLOCK_VOTE_FOREIGN:
        grant->known &= ~nodes;
        break;
    case REDLOCK_VOTE_NONE:
    case REDLOCK_VOTE_ERROR:
    case REDLOCK_VOTE_SILENT:
    case REDLOCK_VOTE_DOWN:
    case REDLOCK_VOTE_BARRED:
        break;
    }
}

/* ---- native extends ----------------------------------------------------- */

void redlock__grant_asked(struct redlock__grant *grant, uint32_t nodes, uint32_t round_no,
                          int64_t ttl_ms, int64_t now_ns)
{
    if (nodes == 0)
        return;
    redlock__grant_extended(grant, ttl_ms, now_ns);
    if (grant->asked == 0 || ttl_ms < grant->asked_ms)
        grant->asked_ms = ttl_ms;
    grant->asked |= nodes;
    grant->asked_round = round_no;
}

/* A primary answers in order: the newest answer is the last one owed. */
void redlock__grant_told(struct redlock__grant *grant, uint32_t node, uint32_t round_no)
{
    if (!grant->abandoned && round_no == grant->asked_round)
        grant->asked &= ~bit_of(node);
}

void redlock__grant_left(struct redlock__grant *grant, uint32_t node, int64_t ttl_ms)
{
    if (grant->abandoned) /* nobody extends it any more */
        return;
    if (ttl_ms >= grant->ttl_ms) {
        grant->late |= bit_of(node);
        return;
    }
    if (grant->cut == 0 || ttl_ms < grant->cut_ms)
        grant->cut_ms = ttl_ms;
    grant->cut |= bit_of(node);
}

uint32_t redlock__grant_cut(const struct redlock__grant *grant, int64_t ttl_ms)
{
    uint32_t nodes = ttl_ms > grant->ttl_ms ? grant->late : 0;

    assert(!grant->abandoned);
    return nodes | (ttl_ms > grant->cut_ms ? grant->cut : 0);
}

uint32_t redlock__grant_share(struct redlock__grant *grant, int64_t *cut_ms)
{
    uint32_t nodes = grant->asked | grant->late | grant->cut;

    assert(!grant->abandoned);
    grant->shared = true;
    *cut_ms = grant->ttl_ms;
    if (grant->asked != 0)
        *cut_ms = redlock__min(*cut_ms, grant->asked_ms);
    if (grant->cut != 0)
        *cut_ms = redlock__min(*cut_ms, grant->cut_ms);
    return nodes;
}

void redlock__grant_warn(struct redlock__grant *grant, uint32_t nodes, int64_t cut_ms)
{
    grant->cut = nodes;
    grant->cut_ms = cut_ms;
}

void redlock__grant_settle_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote)
{
    if (vote == REDLOCK_VOTE_OURS)
        grant->known |= nodes;
}

void redlock__grant_landed(struct redlock__grant *grant, uint32_t node)
{
    assert(grant->abandoned);
    grant->owed |= bit_of(node);
    grant->in_flight &= ~bit_of(node);
    grant->again &= ~bit_of(node);
}

void redlock__grant_forgotten(struct redlock__grant *grant, uint32_t node)
{
    grant->known &= ~bit_of(node);
}

void redlock__grant_dropped(struct redlock__grant *grant, uint32_t node, bool set, bool written)
{
    if (grant->abandoned)
        grant->in_flight &= ~bit_of(node);
    if (set && !written)
        grant->unanswered &= ~bit_of(node);
    else
        grant->moved |= bit_of(node);
}

void redlock__grant_abandon(struct redlock__grant *grant, int64_t orphan_ms)
{
    int64_t life_ms = redlock__add(grant->ttl_ms, redlock__drift_ms(grant->ttl_ms, 10000));
    int64_t last_write_ns = grant->last_write_ns;

    assert(!grant->abandoned);
    if (grant->unanswered != 0)
        life_ms = redlock__add(life_ms, orphan_ms);
    grant->abandoned = true;
    grant->owed = grant->written;
    grant->in_flight = grant->again = grant->repeated = 0;
    grant->asked_at = grant->waits_at = 0;
    grant->again_ns = 0;
    grant->gone_ns = redlock__add(last_write_ns, redlock__ms_to_ns(life_ms));
}

uint32_t redlock__grant_to_remove(const struct redlock__grant *grant, int64_t now_ns)
{
    uint32_t waiting;

    if (!grant->abandoned)
        return 0;
    waiting = now_ns < grant->again_ns ? grant->again : 0;
    return grant->owed & ~grant->in_flight & ~waiting;
}

void redlock__grant_removing(struct redlock__grant *grant, uint32_t nodes)
{
    assert(grant->abandoned);
    grant->in_flight |= nodes;
    grant->again &= ~nodes;
}

uint32_t redlock__grant_removed(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote)
{
    uint32_t overtaking = grant->moved & grant->unanswered;
    uint32_t again = vote == REDLOCK_VOTE_ERROR ? nodes : nodes & overtaking;

    again &= ~grant->repeated;
    grant->in_flight &= ~nodes;
    grant->repeated |= again;
    grant->again |= again;
    grant->owed &= ~(nodes & ~again);
    return again;
}

int64_t redlock__grant_next_deadline(const struct redlock__grant *grant)
{
    if (!grant->abandoned || grant->owed == 0)
        return REDLOCK__NEVER;
    if ((grant->again & grant->owed & ~grant->in_flight) != 0)
        return redlock__min(grant->again_ns, grant->gone_ns);
    return grant->gone_ns;
}

void redlock__grant_handle_deadline(struct redlock__grant *grant, int64_t now_ns)
{
    if (!grant->abandoned)
        return;
    if (now_ns >= grant->gone_ns)
        grant->owed = 0;
    if (now_ns >= grant->again_ns)
        grant->again = 0;
}

bool redlock__grant_done(const struct redlock__grant *grant)
{
    return grant->lease == NULL && grant->requests == 0 && (!grant->abandoned || grant->owed == 0);
}
