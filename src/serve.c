/*
 * What leases and grants want sent. See engine_state.h.
 *
 * A lease leaves its wishes in `wants`; redlock__serve_lease() grants them one after the
 * other until none is left that can be granted now. Each round goes out the same
 * way: encode once, queue on every primary it is for, and tell the lease at once about those
 * it could not be sent to.
 */
#include "engine_state.h"

#include "validity.h"

enum {
    LOOK_MS = 1000
};

/* ---- grants ------------------------------------------------------------- */

struct redlock__grant *redlock__grant_new(struct redlock__engine *engine,
                                          struct redlock__lease *lease, const char *value)
{
    struct redlock__grant *grant = NULL;

    if (redlock__timers_reserve(&engine->grant_timers, engine->grant_count + 1))
        grant = redlock__pool_take(&engine->spare_grants, sizeof *grant);
    if (grant == NULL)
        return NULL;
    if (value != NULL)
        redlock__grant_take_token(grant, value);
    else
        engine->entropy(engine->entropy_context, grant->token, sizeof grant->token);
    grant->name = lease->name;
    grant->name->refs++;
    grant->lease = lease;
    engine->grant_count++;
    return grant;
}

void redlock__grant_free_if_done(struct redlock__engine *engine, struct redlock__grant *grant)
{
    if (grant->requests > 0 || !redlock__grant_done(grant))
        return;
    engine->grant_count--;
    redlock__timers_stop(&engine->grant_timers, &grant->timer);
    redlock__name_unref(&engine->names, grant->name);
    redlock__pool_give(&engine->spare_grants, grant);
}

/* Others may have extended a shared one to what wasn't known when it was adopted. */
void redlock__engine_abandon(struct redlock__engine *engine, struct redlock__grant *grant)
{
    if (grant->shared)
        grant->ttl_ms = redlock__max(grant->ttl_ms, engine->fleet.max_ttl_ms);
    redlock__grant_abandon(grant, engine->fleet.max_ttl_ms);
}

/* ---- requests ----------------------------------------------------------- */

static uint32_t send_set(struct redlock__engine *engine, struct redlock__grant *grant,
                         uint32_t round_no, uint32_t nodes, int64_t ttl_ms, int64_t now_ns)
{
    const struct redlock__name *name = grant->name;
    struct redlock__tag tag = {.owner = grant, .command = REDLOCK__CMD_SET, .round = round_no};
    int64_t deadline_ns = redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);

    if (nodes == 0)
        return 0;
    if (engine->replicas.wanted != 0)
        return redlock__replicas_send(engine, grant, tag.command, round_no, ttl_ms, now_ns);
    redlock__encode_set(redlock__engine_bytes(engine), name->key, name->len,
                        redlock__grant_token(grant).hex, ttl_ms);
    return redlock__engine_send(engine, grant, &tag, nodes, deadline_ns, now_ns);
}

static uint32_t send_extend(struct redlock__engine *engine, struct redlock__grant *grant,
                            uint32_t round_no, uint32_t nodes, int64_t ttl_ms, int64_t now_ns)
{
    if (nodes == 0)
        return 0;
    return engine->replicas.wanted != 0 ? redlock__replicas_send(engine, grant, REDLOCK__CMD_EXTEND,
                                                                 round_no, ttl_ms, now_ns)
                                        : redlock__native_send(engine, grant, REDLOCK__CMD_EXTEND,
                                                               round_no, nodes, ttl_ms, now_ns);
}

/* round_no 0: of no round. */
static uint32_t send_removals(struct redlock__engine *engine, struct redlock__grant *grant,
                              uint32_t round_no, uint32_t nodes, int64_t now_ns)
{
    uint32_t woken, sent;

    if (nodes == 0)
        return 0;
    woken = redlock__wake_removing(engine, grant, nodes, round_no != 0, now_ns);
    sent = redlock__native_send(engine, grant, REDLOCK__CMD_RELEASE, round_no, nodes, 0, now_ns);
    if (woken < engine->n && (sent >> woken & 1) != 0)
        redlock__wake_push(engine, grant->name, woken, now_ns);
    return sent;
}

static void send_hint(struct redlock__engine *engine, struct redlock__grant *grant, uint32_t nodes,
                      int64_t now_ns)
{
    struct redlock__tag tag = {.owner = grant, .command = REDLOCK__CMD_HINT};
    int64_t deadline_ns = redlock__engine_node_deadline(engine, grant->ttl_ms, now_ns);

    redlock__encode_pttl(redlock__engine_bytes(engine), grant->name->key, grant->name->len);
    (void)redlock__engine_send(engine, grant, &tag, nodes, deadline_ns, now_ns);
}

void redlock__serve_removals(struct redlock__engine *engine, struct redlock__grant *grant,
                             int64_t now_ns)
{
    uint32_t nodes = redlock__grant_to_remove(grant, now_ns) & redlock__pace_removals(engine);

    (void)send_removals(engine, grant, 0, nodes, now_ns);
    redlock__engine_arm_grant(engine, grant, now_ns);
}

/* ---- counters -------------------------------------------------------------- */

static void count_attempt(struct redlock__engine *engine, const struct redlock__lease *lease)
{
    if (lease->round.verdict == REDLOCK__ROUND_BUSY)
        engine->stats.busy++;
    else if (lease->round.verdict == REDLOCK__ROUND_NO_QUORUM)
        engine->stats.no_quorum++;
}

static void count_change(struct redlock__engine *engine, struct redlock__lease *lease)
{
    enum redlock__lease_state was = lease->counted_state, is = lease->state;

    lease->counted_state = is;
    if (was == REDLOCK__LEASE_ACQUIRING && lease->fenced)
        redlock__fenced_over(engine, lease);
    if (was == REDLOCK__LEASE_ACQUIRING && is == REDLOCK__LEASE_HELD) {
        engine->stats.acquired++, engine->began = lease->grant->held = true;
    } else if (was == REDLOCK__LEASE_ACQUIRING) {
        count_attempt(engine, lease);
    } else if (was == REDLOCK__LEASE_RENEWING) {
        engine->renewing--;
        if (lease->round.verdict == REDLOCK__ROUND_WON && is == REDLOCK__LEASE_HELD)
            engine->stats.extended++, engine->began = true;
        else
            engine->stats.extend_failed++;
    }
    if (is == REDLOCK__LEASE_RENEWING)
        engine->renewing++;
    else if (is == REDLOCK__LEASE_LOST)
        engine->stats.lost++;
    else if (is == REDLOCK__LEASE_RELEASING)
        engine->stats.released++;
}

static void count(struct redlock__engine *engine, struct redlock__lease *lease)
{
    if (lease->counted_state != lease->state)
        count_change(engine, lease);
}

/* ---- rounds ------------------------------------------------------------- */

/* Why a round's command was not sent to a node. */
static const char *unsent_text(const struct redlock__engine *engine, uint32_t i,
                               enum redlock__command command, redlock_vote vote)
{
    if (vote == REDLOCK_VOTE_DOWN)
        return redlock__engine_absence(engine->nodes[i]);
    if (vote == REDLOCK_VOTE_BARRED)
        return (engine->counting >> i & 1) != 0 ? redlock__watch_oblivion(engine, i)
                                                : engine->standings[i].text;
    if (command == REDLOCK__CMD_SETTLE)
        return redlock__reason_text(REDLOCK__REASON_KEY_NOT_OURS);
    if (engine->replicas.wanted != 0 && command != REDLOCK__CMD_RELEASE)
        return redlock__reason_text(REDLOCK__REASON_NO_REPLICA_LINK);
    if (command == REDLOCK__CMD_RELEASE)
        return redlock__reason_text(REDLOCK__REASON_NOT_WRITTEN);
    return redlock__reason_text(command == REDLOCK__CMD_EXTEND ? REDLOCK__REASON_TOO_FEW_COUNT
                                                               : REDLOCK__REASON_TOO_FEW_OTHERS);
}

static redlock_vote unsent_vote(const struct redlock__engine *engine, uint32_t i,
                                enum redlock__command command)
{
    if (redlock__node_phase(engine->nodes[i]) != REDLOCK__NODE_PHASE_READY)
        return REDLOCK_VOTE_DOWN;
    if ((command == REDLOCK__CMD_SET || command == REDLOCK__CMD_GRANT) &&
        (engine->counting >> i & 1) == 0)
        return REDLOCK_VOTE_BARRED;
    if (command == REDLOCK__CMD_GRANT && !redlock__watch_remembers(engine, i))
        return REDLOCK_VOTE_BARRED;
    return REDLOCK_VOTE_NONE;
}

void redlock__explain_unsent(struct redlock__engine *engine, struct redlock__lease *lease,
                             enum redlock__command command, uint32_t sent)
{
    for (uint32_t i = 0; i < engine->n; i++) {
        redlock_vote vote = unsent_vote(engine, i, command);

        if ((sent >> i & 1) == 0)
            redlock__lease_record(lease, UINT32_C(1) << i, vote,
                                  unsent_text(engine, i, command, vote), 0);
    }
}

/* Tells the lease of every node the round's command was not sent to. */
static void report_unsent(struct redlock__engine *engine, struct redlock__lease *lease,
                          uint32_t sent, int64_t now_ns)
{
    uint32_t unsent = engine->every & ~sent;

    if (unsent == 0)
        return;
    struct redlock__lease_news news = {
        .command = lease->round_command, .round_no = lease->round_no, .random = &engine->random};
    uint32_t cut = 0; /* asked of the grant now: an answer may end the lease */

    if (news.command == REDLOCK__CMD_EXTEND)
        cut = redlock__grant_cut(lease->grant, lease->extend_ttl_ms);
    for (; unsent != 0; unsent &= unsent - 1) {
        uint32_t i = redlock__first(unsent);

        news.nodes = UINT32_C(1) << i;
        news.vote = unsent_vote(engine, i, news.command);
        news.text = unsent_text(engine, i, news.command, news.vote);
        if (news.vote == REDLOCK_VOTE_NONE && (cut >> i & 1) != 0)
            news.text = redlock__reason_text(REDLOCK__REASON_MAY_BE_CUT);
        redlock__lease_answer(lease, &news, now_ns);
    }
}

/* Some primary that is connected has been prepared for fencing by `redlock init`. */
static bool is_fenced(const struct redlock__engine *engine)
{
    uint32_t ready = redlock__engine_ready(engine);

    for (uint32_t i = 0; i < engine->n; i++)
        if ((ready >> i & 1) != 0 && engine->members[i].based)
            return engine->fleet.guard_ns > 0;
    return redlock__count(ready) < engine->fleet.quorum; /* too few to say so */
}

/* Those whose grants count, of a fenced lock or a plain one. */
static uint32_t granting(const struct redlock__engine *engine, bool fence)
{
    uint32_t counting = redlock__engine_counting(engine);

    for (uint32_t i = 0; fence && i < engine->n; i++)
        if (!redlock__watch_remembers(engine, i))
            counting &= ~(UINT32_C(1) << i);
    return counting;
}

/* What only the primaries could tell: whether they go together, and how long a ttl may be. False:
 * the operation has ended with what is wrong. */
static bool may_begin(struct redlock__engine *engine, struct redlock__lease *lease, int64_t ttl_ms)
{
    lease->quorum = (uint8_t)engine->fleet.quorum;
    if (engine->misfit && !engine->began) {
        redlock__explain_unsent(engine, lease, REDLOCK__CMD_SET, 0);
        redlock__lease_stop(lease, REDLOCK_ERR_MISCONFIGURED);
        return false;
    }
    if (lease->fenced && lease->op == REDLOCK__OP_ACQUIRE && !is_fenced(engine)) {
        redlock__explain_unsent(engine, lease, REDLOCK__CMD_GRANT, 0);
        redlock__lease_stop(lease, REDLOCK_ERR_MISCONFIGURED);
        return false;
    }
    if (ttl_ms > engine->fleet.max_ttl_ms) {
        redlock__lease_stop(lease, REDLOCK_ERR_TTL);
        return false;
    }
    return true;
}

static void begin_attempt(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns)
{
    uint32_t counting = granting(engine, lease->fenced), sent;
    struct redlock__grant *grant = NULL;

    if (!may_begin(engine, lease, lease->ttl_ms))
        return;
    if (engine->grant_count < engine->max_locks)
        grant = redlock__grant_new(engine, lease, NULL);
    if (grant == NULL) {
        redlock__lease_stop(lease, engine->grant_count < engine->max_locks ? REDLOCK_ERR_MEMORY
                                                                           : REDLOCK_ERR_LIMIT);
        return;
    }
    engine->stats.attempts++;
    redlock__queue_take(lease);
    redlock__lease_begin_attempt(lease, grant, now_ns);
    count(engine, lease);
    grant->ttl_ms = lease->ttl_ms;
    /* Where no quorum can answer, no key is left behind either. */
    if (redlock__count(counting) < engine->fleet.quorum)
        counting = 0;
    sent = lease->fenced
               ? redlock__fenced_send(engine, lease, REDLOCK__CMD_GRANT, lease->round_no, counting,
                                      now_ns)
               : send_set(engine, grant, lease->round_no, counting, lease->ttl_ms, now_ns);
    redlock__watch_round(engine, now_ns);
    redlock__grant_set(grant, sent, lease->ttl_ms, now_ns);
    report_unsent(engine, lease, sent, now_ns);
}

static void begin_extend(struct redlock__engine *engine, struct redlock__lease *lease,
                         int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine), sent;

    lease->wants &= (uint8_t)~REDLOCK__WANT_EXTEND;
    if (lease->op == REDLOCK__OP_EXTEND && !may_begin(engine, lease, lease->wanted_ttl_ms))
        return;
    redlock__lease_begin_extend(lease, engine->drift_ppm, engine->counting, now_ns);
    count(engine, lease);
    ready &= ~redlock__grant_cut(lease->grant, lease->extend_ttl_ms);
    if (redlock__count(ready & lease->counted) < engine->fleet.quorum)
        ready = 0;
    sent = send_extend(engine, lease->grant, lease->round_no, ready, lease->extend_ttl_ms, now_ns);
    redlock__watch_round(engine, now_ns);
    redlock__grant_extended(lease->grant, lease->extend_ttl_ms, now_ns);
    report_unsent(engine, lease, sent, now_ns);
}

static void begin_release(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns)
{
    struct redlock__grant *grant = lease->grant;
    uint32_t sent;

    lease->wants = 0;
    redlock__lease_begin_release(lease, now_ns);
    count(engine, lease);
    redlock__engine_abandon(engine, grant);
    sent = send_removals(engine, grant, lease->round_no,
                         redlock__grant_to_remove(grant, now_ns) & redlock__engine_ready(engine),
                         now_ns);
    redlock__engine_arm_grant(engine, grant, now_ns);
    report_unsent(engine, lease, sent, now_ns);
}

static void abandon(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__grant *grant = lease->grant;

    lease->grant = NULL;
    if (grant == NULL)
        return;
    grant->lease = NULL;
    if (!grant->abandoned)
        redlock__engine_abandon(engine, grant);
    redlock__serve_removals(engine, grant, now_ns);
    if ((lease->wants & REDLOCK__WANT_PTTL) != 0)
        send_hint(engine, grant, lease->busy_at & redlock__engine_ready(engine), now_ns);
    redlock__grant_free_if_done(engine, grant);
}

static void refill(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    uint32_t nodes = lease->refill & redlock__engine_counting(engine) & ~lease->grant->unanswered;
    uint32_t sent = send_set(engine, lease->grant, 0, nodes, lease->ttl_ms, now_ns);
    redlock__grant_set(lease->grant, sent, lease->ttl_ms, now_ns);
    lease->refill = 0;
}

/* The second round of an attempt; or, for a lock that is held, whatever is left to settle. */
static void settle(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__lease_fencing *fencing = redlock__lease_fencing(lease);
    bool acquiring = lease->state == REDLOCK__LEASE_ACQUIRING;
    uint32_t may_be_ours = acquiring ? lease->grant->written : lease->grant->known;
    uint32_t nodes = fencing->unsettled & may_be_ours & redlock__engine_ready(engine), sent;

    if (acquiring)
        redlock__lease_begin_settle(lease);
    sent = redlock__fenced_send(engine, lease, REDLOCK__CMD_SETTLE, acquiring ? lease->round_no : 0,
                                nodes, now_ns);
    if (acquiring)
        report_unsent(engine, lease, sent | ~fencing->unsettled, now_ns);
    fencing->unsettled &= ~sent; /* one try each: afterwards it is a help, not a promise */
}

/* ---- serving a lease ---------------------------------------------------- */

/* Where replicas are to acknowledge, a round needs a connection of its own. */
static bool has_link(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    return engine->replicas.wanted == 0 || redlock__replicas_gate(engine, lease, now_ns);
}

/* The rounds a lease wishes wait, as its first attempt does, for connections being set up. */
static bool serve_round(struct redlock__engine *engine, struct redlock__lease *lease,
                        int64_t now_ns)
{
    bool release = (lease->wants & REDLOCK__WANT_RELEASE) != 0;
    bool extend = (lease->wants & REDLOCK__WANT_EXTEND) != 0 &&
                  (lease->state == REDLOCK__LEASE_HELD || lease->state == REDLOCK__LEASE_ADOPTED);

    uint32_t counted = release ? UINT32_MAX : lease->counted;

    if ((!release && !extend) ||
        !redlock__engine_gate_open(engine, counted, lease->gate_ns, now_ns) ||
        (extend && !release &&
         (!has_link(engine, lease, now_ns) || !redlock__pace_renewal(engine, lease, now_ns))))
        return false;
    if (release)
        begin_release(engine, lease, now_ns);
    else
        begin_extend(engine, lease, now_ns);
    return true;
}

/* One wish of the lease; false: none can be granted now. */
static bool serve_wish(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    if (lease->wants == 0)
        return false;
    if ((lease->wants & (REDLOCK__WANT_ABANDON | REDLOCK__WANT_PTTL)) != 0) {
        abandon(engine, lease, now_ns);
        lease->wants &= (uint8_t) ~(REDLOCK__WANT_ABANDON | REDLOCK__WANT_PTTL);
        return true;
    }
    if ((lease->wants & REDLOCK__WANT_REFILL) != 0) {
        lease->wants &= (uint8_t)~REDLOCK__WANT_REFILL;
        refill(engine, lease, now_ns);
        return true;
    }
    if ((lease->wants & REDLOCK__WANT_SETTLE) != 0) {
        lease->wants &= (uint8_t)~REDLOCK__WANT_SETTLE;
        settle(engine, lease, now_ns);
        return true;
    }
    return serve_round(engine, lease, now_ns);
}

/* True if a waiting lease's turn has come. */
static bool may_attempt(struct redlock__engine *engine, struct redlock__lease *lease,
                        int64_t now_ns)
{
    int64_t due_ns;

    if (lease->state != REDLOCK__LEASE_WAITING || lease->wants != 0 ||
        redlock__queue_head(lease->name) != lease)
        return false;
    due_ns = redlock__queue_due(lease->name);
    if (due_ns > now_ns) {
        redlock__engine_look(engine, due_ns);
        return false;
    }
    return redlock__engine_gate_open(engine, engine->counting, lease->gate_ns, now_ns) &&
           has_link(engine, lease, now_ns);
}

static void queue_up(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__lease *head;

    switch (lease->state) {
    case REDLOCK__LEASE_WAITING:
        redlock__queue_rejoin(lease, lease->last_reason == REDLOCK_BUSY);
        break;
    case REDLOCK__LEASE_RELEASING:
    case REDLOCK__LEASE_LOST:
    case REDLOCK__LEASE_ENDED:
        redlock__queue_leave(lease);
        if (lease->name->owner == lease)
            redlock__queue_yield(&engine->names, lease, now_ns);
        break;
    case REDLOCK__LEASE_ACQUIRING:
    case REDLOCK__LEASE_HELD:
    case REDLOCK__LEASE_ADOPTED:
    case REDLOCK__LEASE_RENEWING:
        break;
    }
    head = redlock__queue_head(lease->name);
    if (head != lease)
        redlock__engine_work_on(engine, head);
}

static void post_events(struct redlock__engine *engine, struct redlock__lease *lease)
{
    if (lease->events == 0 || lease->in_events)
        return;
    lease->in_events = true;
    lease->next_event = NULL;
    if (engine->events_head == NULL)
        engine->events_head = lease;
    else
        engine->events_tail->next_event = lease;
    engine->events_tail = lease;
}

/* Who waits for something else than time, a side link that another name uses, say, isn't always
 * told when it is there, and looks every now and then. */
static void arm(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns)
{
    bool waits =
        lease->state == REDLOCK__LEASE_WAITING && redlock__queue_head(lease->name) == lease;
    int64_t due_ns = redlock__min(redlock__lease_next_deadline(lease), engine->look_ns);

    if (waits || lease->wants != 0)
        due_ns = redlock__min(due_ns, redlock__add(now_ns, redlock__ms_to_ns(LOOK_MS)));
    redlock__timers_set(&engine->lease_timers, &lease->timer, due_ns);
}

void redlock__serve_lease(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns)
{
    engine->look_ns = REDLOCK__NEVER;
    if (engine->paced.count != 0)
        redlock__timers_stop(&engine->paced, &lease->pace);
    for (;;) {
        count(engine, lease);
        if (serve_wish(engine, lease, now_ns))
            continue;
        queue_up(engine, lease, now_ns);
        if (!may_attempt(engine, lease, now_ns))
            break;
        if (redlock__probe(engine, lease, now_ns))
            continue;
        begin_attempt(engine, lease, now_ns);
    }
    if (redlock__wake_concerned(lease->name))
        redlock__wake_settle(engine, lease->name, now_ns);
    post_events(engine, lease);
    if (lease->deadline_ns != 0)
        redlock__watch_hold(engine, now_ns);
    arm(engine, lease, now_ns);
    if (engine->paced.count != 0)
        redlock__pace_next(engine, now_ns);
}
