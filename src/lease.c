/*
 * See lease.h. Source: redis.io, "Distributed Locks with Redis" for acquire and
 * release; the counted set of an extend, which that page leaves open, is our own and
 * argued for in docs/safety.md.
 *
 * Three kinds of function: start_* takes a call, begin_* opens a round the engine is
 * about to send, the rest takes news. A round that ends goes through one function per
 * kind: attempt_over(), extend_over(), release_over(). Whatever ends the hold goes
 * through lose().
 */
#include "lease.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "fence.h"
#include "hold.h"
#include "pause.h"
#include "validity.h"

enum {
    JOIN_PARTS = 64 /* of a ttl: a renewal begins one of them early, to leave with another */
};

static uint32_t all_nodes(const struct redlock__lease *lease)
{
    return (UINT32_C(1) << lease->n) - 1; /* n < 32 */
}

/* ---- memory ------------------------------------------------------------- */

/* Of a lease and what all of them have. */
static size_t plain_size(uint32_t n)
{
    size_t size = offsetof(struct redlock__lease, ends_ns) + n * sizeof(int64_t) +
                  n * sizeof(struct redlock__lease_said);

    return (size + sizeof(int64_t) - 1) / sizeof(int64_t) * sizeof(int64_t);
}

size_t redlock__lease_size(uint32_t n, bool fence)
{
    return plain_size(n) +
           (fence ? sizeof(struct redlock__lease_fencing) + n * sizeof(int64_t) : 0);
}

struct redlock__lease_fencing *redlock__lease_fencing(const struct redlock__lease *lease)
{
    assert(lease->fenced);
    return (struct redlock__lease_fencing *)((uintptr_t)lease + plain_size(lease->n));
}

void redlock__lease_init(struct redlock__lease *lease, uint32_t n,
                         const struct redlock__lease_config *config,
                         struct redlock__lease_terms *terms)
{
    lease->n = (uint8_t)n;
    lease->terms = terms;
    lease->cap_ns = REDLOCK__NEVER;
    lease->ttl_ms = config->ttl_ms;
    lease->renews = config->renew;
    lease->fenced = config->fence;
}

void redlock__lease_clear(struct redlock__lease *lease)
{
    if (lease->rare != NULL) /* hardly any has it: the call is spared */
        free(lease->rare);
    lease->rare = NULL;
}

/* ---- rounds ------------------------------------------------------------- */

static void forget_numbers(struct redlock__lease *lease)
{
    struct redlock__lease_fencing *fencing = redlock__lease_fencing(lease);

    memset(fencing->numbers, 0, lease->n * sizeof(int64_t));
    fencing->behind = 0;
}

static void begin_round(struct redlock__lease *lease, enum redlock__command command,
                        uint32_t counted, int64_t now_ns)
{
    lease->round_no++;
    lease->slowed = false;
    lease->round_command = command;
    redlock__round_begin(&lease->round, lease->quorum, counted, all_nodes(lease), now_ns);
    redlock__lease_begin_record(lease);
    if (lease->fenced)
        forget_numbers(lease);
}

/* It goes on with the attempt: by its time, and with what steps took since then. */
void redlock__lease_begin_settle(struct redlock__lease *lease)
{
    uint32_t granted = lease->round.ours;
    uint32_t settled = granted & ~redlock__lease_fencing(lease)->unsettled;

    lease->wants &= (uint8_t)~REDLOCK__WANT_SETTLE;
    lease->round_no++;
    lease->round_command = REDLOCK__CMD_SETTLE;
    redlock__round_begin(&lease->round, lease->quorum, lease->round.counted, all_nodes(lease),
                         lease->round.start_ns);
    (void)redlock__round_answer(&lease->round, settled, REDLOCK_VOTE_OURS);
}

static void schedule_renewal(struct redlock__lease *lease, int64_t ttl_ms)
{
    lease->renew_ns = REDLOCK__NEVER;
    if (lease->renews && lease->deadline_ns < lease->cap_ns)
        lease->renew_ns = redlock__add(lease->round.start_ns, redlock__ms_to_ns(ttl_ms) / 3);
}

/* ---- acquire ------------------------------------------------------------ */

void redlock__lease_start_acquire(struct redlock__lease *lease, int64_t wait_ms, int64_t now_ns)
{
    lease->state = REDLOCK__LEASE_WAITING;
    lease->op = REDLOCK__OP_ACQUIRE;
    lease->result = REDLOCK_PENDING;
    lease->last_reason = REDLOCK_PENDING;
    lease->retry_ns = now_ns;
    lease->once = wait_ms == 0;
    lease->wait_until_ns = REDLOCK__NEVER;
    if (wait_ms > 0)
        lease->wait_until_ns = redlock__add(now_ns, redlock__ms_to_ns(wait_ms));
}

bool redlock__lease_due(const struct redlock__lease *lease, int64_t now_ns)
{
    return lease->state == REDLOCK__LEASE_WAITING && now_ns >= lease->retry_ns;
}

static void forget_token(struct redlock__lease *lease)
{
    if (lease->fenced)
        redlock__lease_fencing(lease)->token = 0;
}

void redlock__lease_begin_attempt(struct redlock__lease *lease, struct redlock__grant *grant,
                                  int64_t now_ns)
{
    assert(lease->state == REDLOCK__LEASE_WAITING && lease->grant == NULL);
    lease->grant = grant;
    lease->state = REDLOCK__LEASE_ACQUIRING;
    forget_token(lease);
    begin_round(lease, lease->fenced ? REDLOCK__CMD_GRANT : REDLOCK__CMD_SET, all_nodes(lease),
                now_ns);
}

static void give_up_acquire(struct redlock__lease *lease, int reason)
{
    lease->state = REDLOCK__LEASE_ENDED;
    forget_token(lease); /* which may not be settled */
    redlock__hold_finish(lease, reason);
}

static void pause_or_give_up(struct redlock__lease *lease, int reason, uint64_t *random,
                             int64_t now_ns)
{
    lease->last_reason = (int8_t)reason;
    if (!redlock__pause_begin(lease, random, now_ns))
        give_up_acquire(lease, reason);
}

static void attempt_failed(struct redlock__lease *lease, int reason, uint64_t *random,
                           int64_t now_ns)
{
    lease->busy_at = lease->round.foreign;
    forget_token(lease);
    lease->wants &= (uint8_t)~REDLOCK__WANT_SETTLE;
    lease->wants |= REDLOCK__WANT_ABANDON;
    pause_or_give_up(lease, reason, random, now_ns);
    if (lease->state == REDLOCK__LEASE_WAITING && lease->busy_at != 0)
        lease->wants |= REDLOCK__WANT_PTTL;
}

/* A quorum of grants has been read. False: the token is still to be settled. */
static bool choose_fence(struct redlock__lease *lease)
{
    struct redlock__lease_fencing *fencing = redlock__lease_fencing(lease);
    int64_t numbers[REDLOCK_MAX_NODES] = {0};
    uint32_t settled;

    for (uint32_t i = 0; i < lease->n; i++)
        numbers[i] = fencing->numbers[i];
    fencing->token = redlock__fence_choose(numbers, lease->round.ours, &settled);
    settled &= ~fencing->behind;
    fencing->unsettled = all_nodes(lease) & ~settled;
    lease->wants |= REDLOCK__WANT_SETTLE;
    return redlock__count(settled) >= lease->quorum;
}

/* The hold begins with the round. */
static void start_cap(struct redlock__lease *lease)
{
    int64_t max_hold_ns = redlock__ms_to_ns(lease->terms->max_hold_ms);

    lease->cap_ns =
        max_hold_ns > 0 ? redlock__add(lease->round.start_ns, max_hold_ns) : REDLOCK__NEVER;
}

static void attempt_over(struct redlock__lease *lease, uint64_t *random, int64_t now_ns)
{
    const struct redlock__round *round = &lease->round;

    if (round->verdict != REDLOCK__ROUND_WON) {
        attempt_failed(lease,
                       round->verdict == REDLOCK__ROUND_BUSY ? REDLOCK_BUSY : REDLOCK_NO_QUORUM,
                       random, now_ns);
        return;
    }
    if (lease->round_command == REDLOCK__CMD_GRANT && !choose_fence(lease))
        return; /* still acquiring */
    start_cap(lease);
    lease->counted = round->ours & round->counted;
    redlock__hold_keep(lease, lease->counted, lease->ttl_ms);
    redlock__hold_set_deadline(lease);
    if (!redlock__is_held(lease->deadline_ns, now_ns, lease->terms->min_validity_ms)) {
        lease->deadline_ns = 0;
        lease->counted = 0;
        lease->cap_ns = REDLOCK__NEVER;
        attempt_failed(lease, REDLOCK_EXPIRED, random, now_ns);
        return;
    }
    /* Here what it needed while it waited gives way to what it needs while it is held. */
    lease->state = REDLOCK__LEASE_HELD;
    lease->wanted_ttl_ms = lease->extend_ttl_ms = 0;
    lease->may_join = lease->refill = 0;
    schedule_renewal(lease, lease->ttl_ms);
    redlock__hold_finish(lease, REDLOCK_OK);
}

/* ---- extend ------------------------------------------------------------- */

void redlock__lease_start_adopted(struct redlock__lease *lease, uint32_t counted)
{
    lease->state = REDLOCK__LEASE_ADOPTED;
    lease->adopted = true;
    lease->result = REDLOCK_OK;
    lease->counted = counted;
    lease->renew_ns = REDLOCK__NEVER;
    lease->wanted_ttl_ms = lease->extend_ttl_ms = 0;
    lease->may_join = lease->refill = 0;
}

void redlock__lease_start_extend(struct redlock__lease *lease, int64_t ttl_ms)
{
    lease->op = REDLOCK__OP_EXTEND;
    lease->result = REDLOCK_PENDING;
    if (lease->state == REDLOCK__LEASE_LOST) {
        redlock__hold_finish(lease, redlock__lease_lost_reason(lease));
        return;
    }
    lease->wanted_ttl_ms = ttl_ms;
    lease->wants |= REDLOCK__WANT_EXTEND;
}

/* A shorter ttl counts for the holder before any primary hears of it, whatever becomes of
 * the round. A longer one lowers nothing here. */
void redlock__lease_begin_extend(struct redlock__lease *lease, uint32_t drift_ppm,
                                 uint32_t counting, int64_t now_ns)
{
    int64_t lowered;

    assert(lease->state == REDLOCK__LEASE_HELD || lease->state == REDLOCK__LEASE_ADOPTED);
    assert(lease->grant != NULL);
    lease->automatic = lease->op != REDLOCK__OP_EXTEND;
    lease->extend_ttl_ms = lease->automatic ? lease->ttl_ms : lease->wanted_ttl_ms;
    lowered = redlock__deadline(now_ns, lease->extend_ttl_ms, drift_ppm);
    redlock__hold_lower(lease, lowered);
    lease->may_join = lease->grant->known & counting;
    lease->renew_ns = REDLOCK__NEVER;
    lease->state = REDLOCK__LEASE_RENEWING;
    begin_round(lease, REDLOCK__CMD_EXTEND, lease->counted, now_ns);
}

/* After a successful round, of the primaries that answered in it: who joins the set, and
 * who is to be set again. Not where an earlier SET may still arrive, and not by a process
 * that got the lease from another one, which may know of such a SET. */
static void take_in(struct redlock__lease *lease, uint32_t answered)
{
    lease->counted |= lease->round.ours & lease->may_join & answered;
    redlock__hold_keep(lease, lease->counted & lease->round.ours & answered, lease->extend_ttl_ms);
    redlock__hold_set_deadline(lease);
    if (lease->adopted)
        return;
    lease->refill |= lease->round.free & answered & ~lease->grant->unanswered;
    if (lease->refill != 0)
        lease->wants |= REDLOCK__WANT_REFILL;
}

static void extend_failed(struct redlock__lease *lease, int64_t now_ns)
{
    bool was_held = lease->deadline_ns != 0;
    int64_t pause = redlock__max(lease->extend_ttl_ms / 10, 1);

    lease->state = was_held ? REDLOCK__LEASE_HELD : REDLOCK__LEASE_ADOPTED;
    if (was_held && lease->renews && lease->deadline_ns < lease->cap_ns)
        lease->renew_ns = redlock__add(now_ns, redlock__ms_to_ns(pause));
    if (!lease->automatic) {
        redlock__hold_finish(lease, REDLOCK_NO_QUORUM);
        return;
    }
    if (!lease->failing)
        lease->events |= REDLOCK__EVENT_BIT_FAILING;
    lease->failing = true;
}

static void extend_over(struct redlock__lease *lease, int64_t now_ns)
{
    if (lease->round.verdict != REDLOCK__ROUND_WON) {
        extend_failed(lease, now_ns);
        return;
    }
    if (lease->deadline_ns == 0)
        start_cap(lease);
    lease->ttl_ms = lease->extend_ttl_ms;
    take_in(lease, all_nodes(lease));
    schedule_renewal(lease, lease->extend_ttl_ms);
    if (!redlock__is_held(lease->deadline_ns, now_ns, lease->terms->min_validity_ms)) {
        redlock__hold_lose(lease, REDLOCK_EXPIRED);
        return;
    }
    lease->state = REDLOCK__LEASE_HELD;
    lease->failing = false;
    if (lease->automatic)
        lease->events |= REDLOCK__EVENT_BIT_RENEWED;
    else
        redlock__hold_finish(lease, REDLOCK_OK);
}

/* An answer to any extend of this lease, also to an earlier round: a primary answers in
 * order, so what it says is newer than all it said before. */
static void note_extend_answer(struct redlock__lease *lease, uint32_t nodes, redlock_vote vote,
                               int64_t now_ns)
{
    if (!redlock__hold_exists(lease))
        return;
    if (vote == REDLOCK_VOTE_FOREIGN)
        lease->seen_foreign = true;
    if (vote == REDLOCK_VOTE_FREE || vote == REDLOCK_VOTE_FOREIGN ||
        redlock__count(lease->counted) < lease->quorum)
        redlock__hold_uncount(lease, nodes, now_ns);
}

/* ---- release ------------------------------------------------------------ */

void redlock__lease_start_release(struct redlock__lease *lease)
{
    lease->op = REDLOCK__OP_RELEASE;
    lease->result = REDLOCK_PENDING;
    lease->renew_ns = REDLOCK__NEVER;
    if (lease->state == REDLOCK__LEASE_LOST) {
        lease->state = REDLOCK__LEASE_ENDED;
        redlock__hold_finish(lease, redlock__lease_lost_reason(lease));
        return;
    }
    lease->wants = REDLOCK__WANT_RELEASE;
}

void redlock__lease_begin_release(struct redlock__lease *lease, int64_t now_ns)
{
    lease->state = REDLOCK__LEASE_RELEASING;
    lease->deadline_ns = 0;
    begin_round(lease, REDLOCK__CMD_RELEASE, all_nodes(lease), now_ns);
}

static void release_over(struct redlock__lease *lease)
{
    const struct redlock__round *round = &lease->round;
    int result = REDLOCK_OK;

    if (round->verdict == REDLOCK__ROUND_NO_QUORUM)
        result = REDLOCK_NO_QUORUM;
    else if (round->verdict == REDLOCK__ROUND_BUSY)
        result = round->foreign != 0 ? REDLOCK_LOST : REDLOCK_EXPIRED;
    lease->state = REDLOCK__LEASE_ENDED;
    redlock__hold_finish(lease, result);
}

/* ---- news --------------------------------------------------------------- */

/* To the round that made or renewed the hold, after its verdict. */
static void late_answer(struct redlock__lease *lease, uint32_t nodes, int64_t now_ns)
{
    bool grants = (lease->round.ours & ~lease->counted) != 0;

    if (lease->round_command == REDLOCK__CMD_EXTEND)
        take_in(lease, nodes);
    else if (lease->round.owed == 0 && grants && lease->renew_ns != REDLOCK__NEVER)
        lease->renew_ns = redlock__min(lease->renew_ns, now_ns);
}

static void round_over(struct redlock__lease *lease, uint64_t *random, int64_t now_ns)
{
    switch (lease->state) {
    case REDLOCK__LEASE_ACQUIRING:
        attempt_over(lease, random, now_ns);
        break;
    case REDLOCK__LEASE_RENEWING:
        extend_over(lease, now_ns);
        break;
    case REDLOCK__LEASE_RELEASING:
        release_over(lease);
        break;
    case REDLOCK__LEASE_WAITING:
    case REDLOCK__LEASE_HELD:
    case REDLOCK__LEASE_ADOPTED:
    case REDLOCK__LEASE_LOST:
    case REDLOCK__LEASE_ENDED:
        break;
    }
}

/* Also of a round that is over: what is left to settle is settled in the background. */
__attribute__((noinline)) static void note_number(struct redlock__lease *lease,
                                                  const struct redlock__lease_news *news)
{
    struct redlock__lease_fencing *fencing;

    if (news->command != REDLOCK__CMD_SETTLE && news->command != REDLOCK__CMD_GRANT)
        return;
    fencing = redlock__lease_fencing(lease);
    if (news->command == REDLOCK__CMD_SETTLE) {
        fencing->unsettled &= ~news->nodes;
        return;
    }
    if (news->round_no == lease->round_no) {
        fencing->numbers[redlock__first(news->nodes)] = news->number;
        fencing->behind |= news->behind ? news->nodes : 0;
    }
    if (!redlock__hold_exists(lease) || fencing->token == 0)
        return;
    /* It has the token already, or can't be lowered to it. */
    if (news->number >= fencing->token && !news->behind)
        fencing->unsettled &= ~news->nodes;
    else
        lease->wants |= REDLOCK__WANT_SETTLE;
}

void redlock__lease_answer(struct redlock__lease *lease, const struct redlock__lease_news *news,
                           int64_t now_ns)
{
    if (news->vote == REDLOCK_VOTE_OURS && lease->fenced)
        note_number(lease, news);
    if (news->command == REDLOCK__CMD_EXTEND)
        note_extend_answer(lease, news->nodes, news->vote, now_ns);
    if (news->round_no != lease->round_no)
        return;
    redlock__lease_record(lease, news->nodes, news->vote, news->text, now_ns);
    if (redlock__round_answer(&lease->round, news->nodes, news->vote))
        round_over(lease, news->random, now_ns);
    else if (lease->state == REDLOCK__LEASE_HELD && lease->round.verdict == REDLOCK__ROUND_WON)
        late_answer(lease, news->nodes, now_ns);
}

void redlock__lease_forgotten(struct redlock__lease *lease, uint32_t node, uint64_t *random,
                              int64_t now_ns)
{
    if (!redlock__hold_exists(lease) && lease->state != REDLOCK__LEASE_ACQUIRING)
        return;
    if (redlock__lease_said(lease)[node].vote == REDLOCK_VOTE_OURS)
        redlock__lease_record(lease, UINT32_C(1) << node, REDLOCK_VOTE_DOWN,
                              redlock__reason_text(REDLOCK__REASON_FORGOT), now_ns);
    if (redlock__hold_exists(lease))
        redlock__hold_uncount(lease, UINT32_C(1) << node, now_ns);
    if (redlock__round_answer(&lease->round, UINT32_C(1) << node, REDLOCK_VOTE_DOWN))
        round_over(lease, random, now_ns);
}

/* ---- ends and timers ---------------------------------------------------- */

void redlock__lease_stop(struct redlock__lease *lease, int reason)
{
    switch (lease->op) {
    case REDLOCK__OP_NONE:
        break;
    case REDLOCK__OP_ACQUIRE:
        lease->wants = lease->grant != NULL ? REDLOCK__WANT_ABANDON : 0;
        give_up_acquire(lease, reason);
        break;
    case REDLOCK__OP_EXTEND:
        lease->wants &= (uint8_t)~REDLOCK__WANT_EXTEND;
        /* A renewal that came due while it waited had joined it, and goes on alone. */
        if (lease->renews && lease->state == REDLOCK__LEASE_HELD &&
            lease->renew_ns == REDLOCK__NEVER && lease->deadline_ns < lease->cap_ns)
            lease->wants |= REDLOCK__WANT_EXTEND;
        lease->automatic = true;
        redlock__hold_finish(lease, reason);
        break;
    case REDLOCK__OP_RELEASE:
        if (lease->state != REDLOCK__LEASE_RELEASING)
            lease->wants = REDLOCK__WANT_ABANDON;
        lease->state = REDLOCK__LEASE_ENDED;
        lease->deadline_ns = 0;
        redlock__hold_finish(lease, reason);
        break;
    }
}

void redlock__lease_stop_renewing(struct redlock__lease *lease)
{
    lease->renews = false;
    if (redlock__hold_exists(lease))
        lease->renew_ns = REDLOCK__NEVER;
}

/* When the hold ends by the clock; NEVER where there is none. */
static int64_t hold_end(const struct redlock__lease *lease)
{
    if (lease->deadline_ns == 0)
        return REDLOCK__NEVER;
    return redlock__held_until(lease->deadline_ns, lease->terms->min_validity_ms);
}

int64_t redlock__lease_next_deadline(const struct redlock__lease *lease)
{
    switch (lease->state) {
    case REDLOCK__LEASE_WAITING:
    case REDLOCK__LEASE_ACQUIRING:
        return lease->wait_until_ns;
    case REDLOCK__LEASE_HELD:
        return redlock__min(hold_end(lease), lease->renew_ns);
    case REDLOCK__LEASE_RENEWING:
        return hold_end(lease);
    case REDLOCK__LEASE_ADOPTED:
    case REDLOCK__LEASE_RELEASING:
    case REDLOCK__LEASE_LOST:
    case REDLOCK__LEASE_ENDED:
        break;
    }
    return REDLOCK__NEVER;
}

/* An attempt that is cut short says less than the one before it. */
static void wait_is_over(struct redlock__lease *lease, uint64_t *random, int64_t now_ns)
{
    int before = lease->last_reason;

    if (lease->state == REDLOCK__LEASE_ACQUIRING) {
        if (redlock__round_give_up(&lease->round))
            attempt_over(lease, random, now_ns);
        if (before != REDLOCK_PENDING)
            lease->result = (int8_t)before;
        return;
    }
    give_up_acquire(lease, lease->last_reason == REDLOCK_PENDING ? REDLOCK_WAIT_DEADLINE
                                                                 : lease->last_reason);
}

bool redlock__lease_join_renewal(struct redlock__lease *lease, int64_t now_ns)
{
    int64_t early_ns = redlock__ms_to_ns(lease->ttl_ms) / JOIN_PARTS;

    if (lease->state != REDLOCK__LEASE_HELD || lease->renew_ns == REDLOCK__NEVER ||
        redlock__add(lease->renew_ns, -early_ns) > now_ns)
        return false;
    lease->renew_ns = REDLOCK__NEVER;
    lease->wants |= REDLOCK__WANT_EXTEND;
    return true;
}

void redlock__lease_handle_deadline(struct redlock__lease *lease, uint64_t *random, int64_t now_ns)
{
    if (now_ns < redlock__lease_next_deadline(lease))
        return;
    if (lease->state == REDLOCK__LEASE_WAITING || lease->state == REDLOCK__LEASE_ACQUIRING) {
        wait_is_over(lease, random, now_ns);
        return;
    }
    if (now_ns >= hold_end(lease)) {
        redlock__hold_lose(lease, REDLOCK_EXPIRED);
        return;
    }
    lease->renew_ns = REDLOCK__NEVER;
    lease->wants |= REDLOCK__WANT_EXTEND;
}
