/*
 * See engine.h. Every call ends in run(): pull each node's results, give them to their
 * owners, and serve the leases on the work list, until nothing is left to do. Serving
 * a lease can queue requests, fail a node, or hand a name to the next waiter, and never
 * recurses: it only puts more on the lists.
 *
 * Timers. Leases and grants have one each, in heaps; only what is due is looked at. A lease's is
 * set in one place, whenever it has been served, and everything that changes a lease has it served:
 * it is then never later than the lease's own deadline, nor than the time at which what it waits
 * for may be there. Of all else there are few: earliest_ns is a lower bound of their next deadline,
 * all.deadline_ns that of the nodes', and once it is reached all of them are asked.
 */
#include "engine_state.h"
#include "pause.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validity.h"

enum {
    GRACE_LEAST_MS = 25,
    TOGETHER_MS = 10 /* renewals due within it begin together */
};

_Static_assert(offsetof(struct redlock__lease, timer) == 0 &&
                   offsetof(struct redlock__grant, timer) == 0,
               "a timer is found by its owner's address");

/* ---- small things -------------------------------------------------------- */

/* The node of a link may have something to tell. */
static void note_news(struct redlock__engine *engine, uint32_t i)
{
    if (i < engine->n)
        engine->news |= UINT32_C(1) << i;
}

static bool has_sides(const struct redlock__engine *engine)
{
    return engine->seen.links > engine->n;
}

static struct redlock__lease *next_work(struct redlock__engine *engine)
{
    struct redlock__lease *lease = engine->work_head;
    if (lease != NULL) {
        engine->work_head = lease->next_work;
        lease->in_work = false;
    }
    return lease;
}

/* ---- inspections -------------------------------------------------------- */

static void ask(struct redlock__engine *engine, struct redlock__inspection *inspection,
                uint32_t node, int64_t now_ns)
{
    const struct redlock__name *name = inspection->name;
    struct redlock__tag tag = {.owner = inspection, .command = REDLOCK__CMD_GET};
    struct redlock__bytes get, pttl;
    int64_t deadline = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);

    redlock__encode_get(&get, name->key, name->len);
    redlock__encode_pttl(&pttl, name->key, name->len);
    if (get.len != 0 && pttl.len != 0 &&
        redlock__engine_request(engine, node, &tag, &get, deadline, now_ns)) {
        inspection->requests++;
        inspection->owed |= UINT32_C(1) << node;
        tag.command = REDLOCK__CMD_PTTL;
        if (redlock__engine_request(engine, node, &tag, &pttl, deadline, now_ns))
            inspection->requests++;
    }
    redlock__bytes_free(&get);
    redlock__bytes_free(&pttl);
}

void redlock__engine_start_inspection(struct redlock__engine *engine,
                                      struct redlock__inspection *inspection, int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine);

    if (inspection->started || inspection->forgotten)
        return;
    if (now_ns < inspection->gate_ns && !redlock__engine_settled(engine, now_ns)) {
        redlock__engine_touch(engine, inspection->gate_ns); /* all are wanted */
        return;
    }
    inspection->started = true;
    inspection->start_ns = now_ns;
    for (uint32_t i = 0; i < engine->n; i++) {
        redlock_node_result *result = &inspection->nodes[i].result;

        if ((ready & (UINT32_C(1) << i)) != 0)
            ask(engine, inspection, i, now_ns);
        if ((inspection->owed & (UINT32_C(1) << i)) != 0)
            continue;
        result->vote = REDLOCK_VOTE_DOWN;
        result->elapsed_us = -1;
        (void)snprintf(result->text, sizeof result->text, "%s",
                       redlock__engine_absence(engine->nodes[i]));
    }
}

void redlock__engine_free_inspection_if_done(struct redlock__engine *engine,
                                             struct redlock__inspection *inspection)
{
    struct redlock__inspection **link = &engine->inspections;

    if (!inspection->forgotten || inspection->requests > 0)
        return;
    while (*link != inspection)
        link = &(*link)->next;
    *link = inspection->next;
    redlock__name_unref(&engine->names, inspection->name);
    free(inspection);
}

/* ---- grants, and connections ------------------------------------------------ */

static void look_at_grants(struct redlock__engine *engine, int64_t now_ns)
{
    struct redlock__timer *timer;

    while ((timer = redlock__timers_take(&engine->grant_timers, now_ns)) != NULL) {
        struct redlock__grant *grant = (struct redlock__grant *)timer;

        redlock__grant_handle_deadline(grant, now_ns);
        if (grant->abandoned)
            redlock__serve_removals(engine, grant, now_ns);
        redlock__grant_free_if_done(engine, grant);
    }
}

/* The first quorum is there: slower primaries get as much time again as it took, and not less
 * than GRACE_LEAST_MS, since a busy machine may just not have run them yet. */
static void start_grace(struct redlock__engine *engine, int64_t now_ns)
{
    int64_t grace_ns = redlock__max(now_ns - engine->created_ns, redlock__ms_to_ns(GRACE_LEAST_MS));

    if (redlock__count(redlock__engine_ready(engine)) >= engine->fleet.quorum)
        engine->grace_ns =
            redlock__min(redlock__add(now_ns, grace_ns),
                         redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns));
}

void redlock__engine_phase_changed(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__node *node = engine->nodes[i];
    enum redlock__node_phase was = engine->phases[i], is = redlock__node_phase(node);
    struct redlock__lease *lease;

    engine->phases[i] = is;
    engine->stirred |= REDLOCK__STIRRED;
    engine->changes[i] = redlock__node_changes(node);
    if (is == REDLOCK__NODE_PHASE_READY) {
        engine->seen.behind &= ~(UINT32_C(1) << i);
        redlock__wake_greeted(engine, i);
        redlock__native_greeted(engine, i);
        redlock__watch_greeted(engine, i, now_ns);
    } else if (was == REDLOCK__NODE_PHASE_READY) {
        redlock__watch_settle(engine, now_ns);
    }
    if (is == REDLOCK__NODE_PHASE_READY) {
        redlock__engine_say(engine, REDLOCK_LOG_INFO, redlock__node_address(node), "connected");
        redlock__timers_hasten(&engine->grant_timers, now_ns);
        look_at_grants(engine, now_ns);
    } else if (is == REDLOCK__NODE_PHASE_DOWN || was == REDLOCK__NODE_PHASE_READY) {
        redlock__engine_say(engine, REDLOCK_LOG_WARNING, redlock__node_address(node),
                            redlock__node_text(node));
    }
    if (engine->grace_ns == REDLOCK__NEVER)
        start_grace(engine, now_ns);
    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++)
        if (lease->state == REDLOCK__LEASE_WAITING || lease->wants != 0)
            redlock__engine_work_on(engine, lease);
    for (struct redlock__inspection *at = engine->inspections; at != NULL; at = at->next)
        redlock__engine_start_inspection(engine, at, now_ns);
    redlock__init_news(engine, now_ns);
}

/* What side links have to tell; true if anything. */
__attribute__((noinline)) static bool pump_sides(struct redlock__engine *engine, int64_t now_ns)
{
    bool more = redlock__replicas_pump(engine, now_ns);

    return redlock__wake_pump(engine, now_ns) || more;
}

__attribute__((noinline)) static void run(struct redlock__engine *engine, int64_t now_ns)
{
    bool more;

    do {
        struct redlock__lease *lease;

        more = engine->news != 0 && redlock__news_take(engine, now_ns);
        if (has_sides(engine))
            more |= pump_sides(engine, now_ns);
        while ((lease = next_work(engine)) != NULL) {
            redlock__serve_lease(engine, lease, now_ns);
            more = true;
        }
    } while (engine->news != 0 || (more && has_sides(engine)));
}

void redlock__engine_run(struct redlock__engine *engine, int64_t now_ns)
{
    if (engine->news != 0 || engine->work_head != NULL || has_sides(engine))
        run(engine, now_ns);
}

/* ---- links -------------------------------------------------------------- */

uint32_t redlock__engine_primary(const struct redlock__engine *engine, uint32_t i)
{
    return i < engine->n ? i : engine->sides[i - engine->n].primary;
}

/* ---- timers ------------------------------------------------------------- */

/* The wait of a lease is over that only waited for connections: that is no quorum, and
 * each primary has its reason. */
static void explain_wait(struct redlock__engine *engine, struct redlock__lease *lease)
{
    uint32_t counting = redlock__engine_counting(engine);

    if (lease->state != REDLOCK__LEASE_WAITING || lease->last_reason != REDLOCK_PENDING ||
        lease->name->owner != NULL || redlock__queue_head(lease->name) != lease ||
        redlock__count(counting) >= engine->fleet.quorum)
        return;
    lease->last_reason = REDLOCK_NO_QUORUM;
    redlock__explain_unsent(engine, lease, REDLOCK__CMD_SET, 0);
}

/* Renewals that are due at nearly the same time begin at the same, and leave together. */
static void join_renewals(struct redlock__engine *engine, int64_t now_ns)
{
    int64_t soon_ns = redlock__add(now_ns, redlock__ms_to_ns(TOGETHER_MS));
    struct redlock__timer *timer;
    bool joined = true;

    while (joined && (timer = redlock__timers_due(&engine->lease_timers, soon_ns)) != NULL) {
        struct redlock__lease *lease = (struct redlock__lease *)timer;

        redlock__timers_set(&engine->lease_timers, timer, REDLOCK__NEVER);
        joined = redlock__lease_join_renewal(lease, now_ns);
        redlock__engine_work_on(engine, lease);
    }
}

/* Each is due again only once it has been served. */
static void look_at_leases(struct redlock__engine *engine, int64_t now_ns)
{
    struct redlock__timer *timer;
    uint32_t renewals = 0;

    while ((timer = redlock__timers_due(&engine->lease_timers, now_ns)) != NULL) {
        struct redlock__lease *lease = (struct redlock__lease *)timer;

        redlock__timers_set(&engine->lease_timers, timer, REDLOCK__NEVER);
        if (now_ns >= redlock__lease_next_deadline(lease)) {
            explain_wait(engine, lease);
            /* a renewal waits no longer for connections than for an answer */
            lease->gate_ns = redlock__engine_node_deadline(engine, lease->ttl_ms, now_ns);
        }
        redlock__lease_handle_deadline(lease, &engine->random, now_ns);
        redlock__engine_work_on(engine, lease);
        renewals += lease->state == REDLOCK__LEASE_HELD && lease->wants == REDLOCK__WANT_EXTEND;
    }
    if (renewals > 0)
        join_renewals(engine, now_ns);
}

static int64_t next_own_deadline(const struct redlock__engine *engine)
{
    return redlock__min(engine->earliest_ns,
                        redlock__min(redlock__timers_next(&engine->lease_timers),
                                     redlock__timers_next(&engine->grant_timers)));
}

int64_t redlock__engine_next_deadline(const struct redlock__engine *engine)
{
    return redlock__min(next_own_deadline(engine), engine->seen.all.deadline_ns);
}

/* Of leases, grants and inspections; true if any was due. */
static bool handle_own_deadlines(struct redlock__engine *engine, int64_t now_ns)
{
    if (now_ns < next_own_deadline(engine))
        return false;
    engine->earliest_ns = REDLOCK__NEVER;
    redlock__watch_handle_deadline(engine, now_ns);
    redlock__wake_handle_deadline(engine, now_ns);
    redlock__replicas_handle_deadline(engine, now_ns);
    look_at_leases(engine, now_ns);
    look_at_grants(engine, now_ns);
    for (struct redlock__inspection *at = engine->inspections; at != NULL; at = at->next)
        redlock__engine_start_inspection(engine, at, now_ns);
    redlock__init_news(engine, now_ns);
    return true;
}

/* True if any was due. */
static bool handle_node_deadlines(struct redlock__engine *engine, int64_t now_ns)
{
    bool due = false;

    engine->seen.all.deadline_ns = REDLOCK__NEVER;
    for (uint32_t i = 0; i < redlock__engine_links(engine); i++) {
        struct redlock__node *node = redlock__engine_node(engine, i);

        if (node == NULL)
            continue;
        if (now_ns >= redlock__node_next_deadline(node)) {
            redlock__node_handle_deadline(node, now_ns);
            note_news(engine, i);
            engine->stirred |= REDLOCK__STIRRED;
            due = true;
        }
        engine->seen.all.deadline_ns =
            redlock__min(engine->seen.all.deadline_ns, redlock__node_next_deadline(node));
    }
    return due;
}

/* Leases' ends, then answers, and then a node's deadlines: an answer may have been waiting in its
 * socket all the time. */
__attribute__((noinline)) static void handle_deadline(struct redlock__engine *engine,
                                                      int64_t now_ns)
{
    bool due = handle_own_deadlines(engine, now_ns);

    if (engine->news != 0 || has_sides(engine))
        redlock__engine_run(engine, now_ns);
    if (now_ns >= engine->seen.all.deadline_ns)
        due |= handle_node_deadlines(engine, now_ns);
    if (due)
        redlock__engine_run(engine, now_ns);
}

void redlock__engine_handle_deadline(struct redlock__engine *engine, int64_t now_ns)
{
    if (engine->news != 0 || has_sides(engine) || now_ns >= redlock__engine_next_deadline(engine))
        handle_deadline(engine, now_ns);
}

/* ---- for the driver ----------------------------------------------------- */

void redlock__engine_connected(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    redlock__engine_handle_deadline(engine, now_ns);
    redlock__node_connected(redlock__engine_node(engine, i), now_ns);
    note_news(engine, i);
    engine->stirred |= REDLOCK__STIRRED;
    redlock__engine_run(engine, now_ns);
}

void redlock__engine_node_failed(struct redlock__engine *engine, uint32_t i, const char *text,
                                 int64_t now_ns)
{
    redlock__engine_handle_deadline(engine, now_ns);
    redlock__node_fail(redlock__engine_node(engine, i), text, now_ns);
    note_news(engine, i);
    engine->stirred |= REDLOCK__STIRRED;
    redlock__engine_run(engine, now_ns);
}

/* Nothing is taken in yet: a lease's own end comes before any answer for it. */
void redlock__engine_received(struct redlock__engine *engine, uint64_t links)
{
    engine->news |= (uint32_t)links & engine->every; /* side links are asked anyway */
}

void redlock__engine_receive(struct redlock__engine *engine, uint32_t i, const char *data,
                             size_t len, int64_t now_ns)
{
    redlock__node_receive(redlock__engine_node(engine, i), data, len, now_ns);
    note_news(engine, i);
}

uint32_t redlock__engine_stirred(struct redlock__engine *engine)
{
    uint32_t stirred = engine->stirred;

    engine->stirred = 0;
    return stirred;
}

void redlock__engine_sent(struct redlock__engine *engine, uint32_t primaries)
{
    primaries &= ~engine->stirred; /* those have got more since */
    for (uint32_t rest = primaries; rest != 0; rest &= rest - 1)
        assert(!redlock__node_borrows(engine->nodes[redlock__first(rest)]));
    engine->lent[0] &= ~primaries;
    engine->lent[1] &= ~primaries;
}

#ifndef NDEBUG
/* As the nodes have it. */
static uint32_t count_owed(const struct redlock__engine *engine)
{
    uint32_t owed = 0;

    for (uint32_t i = 0; i < engine->n; i++)
        owed += redlock__node_pending(engine->nodes[i]);
    return owed;
}
#endif

bool redlock__engine_owed(const struct redlock__engine *engine)
{
    assert(engine->news != 0 || engine->owed == count_owed(engine));
    if (engine->owed > 0)
        return true;
    for (uint32_t i = 0; redlock__engine_ready(engine) != engine->every && i < engine->n; i++)
        if (redlock__node_owes(engine->nodes[i])) /* a greeting */
            return true;
    return engine->replicas.wanted != 0 && redlock__replicas_owed(engine);
}

/* Primaries that were not reached yet and are owed a removal. */
static uint32_t owed_elsewhere(const struct redlock__engine *engine)
{
    const struct redlock__grant *grant;
    uint32_t owed = 0;

    for (uint32_t k = 0; (grant = redlock__engine_remains(engine, k)) != NULL; k++)
        owed |= grant->owed & ~grant->again;
    return owed;
}

bool redlock__engine_flushing(const struct redlock__engine *engine)
{
    uint32_t owed = owed_elsewhere(engine);

    for (uint32_t i = 0; i < engine->n; i++) {
        enum redlock__node_phase phase = redlock__node_phase(engine->nodes[i]);
        size_t unsent;

        (void)redlock__node_output(engine->nodes[i], &unsent);
        if (phase == REDLOCK__NODE_PHASE_READY) {
            if (unsent > 0 || redlock__node_pending(engine->nodes[i]) > 0)
                return true;
        } else if (phase != REDLOCK__NODE_PHASE_DOWN && (owed & UINT32_C(1) << i) != 0) {
            return true;
        }
    }
    return false;
}
