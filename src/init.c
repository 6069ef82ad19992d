/*
 * Marking the primaries. See redlock_init() in redlock.h.
 *
 * The fleet's id is made of the run ids of its members, not drawn by lot: two that do this at the
 * same time write the same markers. Each marker is compared before it is set, so one that
 * somebody else wrote meanwhile stays.
 *
 * Fencing numbers may begin at 0 only where none were given yet. A primary that was flushed looks
 * as if it were such a one, so all are asked: after the last marker is written, whether any has a
 * base. Numbers given before a flush that the marker written here didn't see were given with
 * bases on the others, which are found then; and where a flush took that marker, the base is
 * refused.
 */
#include "init.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "validity.h"

enum {
    AGAIN_MS = 250 /* ask no sooner: it is marked within a second */
};

static const char unmarkable[] = "refused to be marked: grant +eval +set +get +del ~redlock:*";

static const char unanswered[] = "no answer in time";

static bool has(uint32_t nodes, uint32_t i)
{
    return (nodes >> i & 1) != 0;
}

static void tell(struct redlock__init *init, uint32_t i, redlock_vote vote, const char *text)
{
    init->results[i].vote = vote;
    (void)snprintf(init->results[i].text, sizeof init->results[i].text, "%s", text);
}

/* FNV-1a over each run id, summed up so that the order of the list doesn't matter. */
static uint64_t fleet_id(const struct redlock__engine *engine)
{
    uint64_t id = 0;

    for (uint32_t i = 0; i < engine->n; i++) {
        uint64_t hash = UINT64_C(14695981039346656037);

        for (const char *c = engine->members[i].facts.run_id; *c != '\0'; c++)
            hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
        id += hash;
    }
    return id;
}

static struct redlock__marker marker_for(const struct redlock__engine *engine, uint32_t i)
{
    const struct redlock__member *member = &engine->members[i];
    const struct redlock__facts *facts = &member->facts;
    struct redlock__marker marker = engine->fleet.marker;

    if (!engine->fleet.marked)
        marker = (struct redlock__marker){.fleet = fleet_id(engine),
                                          .n = engine->n,
                                          .quorum = engine->fleet.quorum,
                                          .max_ttl_ms = engine->fleet.max_ttl_ms};
    marker.member = i + 1;
    marker.retired = false;
    marker.durable = facts->given[REDLOCK__FACT_SETTINGS] && facts->durable &&
                     !member->replicas_seen && facts->second_offset == -1;
    marker.second_offset = facts->second_offset;
    memcpy(marker.run_id, facts->run_id, sizeof marker.run_id);
    return marker;
}

/* ---- reading ------------------------------------------------------------ */

/* What is known may be from the time when the connection was made. */
static void ask_all(struct redlock__engine *engine, struct redlock__init *init, int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine);

    init->asked_ns = now_ns;
    init->due_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);
    for (uint32_t i = 0; i < engine->n; i++)
        if (has(ready, i))
            (void)redlock__watch_reread(engine, i, now_ns);
}

/* The floor is asked for last. */
static bool has_answered(const struct redlock__engine *engine, const struct redlock__init *init,
                         uint32_t i)
{
    return engine->members[i].facts.floor_asked_ns >= init->asked_ns;
}

static bool is_read(struct redlock__engine *engine, const struct redlock__init *init,
                    int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine);

    for (uint32_t i = 0; i < engine->n && now_ns < init->due_ns; i++)
        if (has(ready, i) && !has_answered(engine, init, i)) {
            redlock__engine_touch(engine, init->due_ns);
            return false;
        }
    return true;
}

/* ---- deciding ----------------------------------------------------------- */

/* Whether all that is needed to decide is there; says what is not. */
static int check_members(struct redlock__engine *engine, struct redlock__init *init)
{
    uint32_t ready = redlock__engine_ready(engine);
    int rc = 0;

    for (uint32_t i = 0; i < engine->n; i++) {
        const struct redlock__member *member = &engine->members[i];
        redlock_standing kind = engine->standings[i].kind;
        bool fits = kind != REDLOCK_STANDING_REPLICA && kind != REDLOCK_STANDING_TWIN &&
                    kind != REDLOCK_STANDING_EVICTING &&
                    (kind != REDLOCK_STANDING_MISFIT || i + 1 == init->config.replace);

        if (!has(ready, i)) {
            tell(init, i, REDLOCK_VOTE_DOWN, redlock__engine_absence(engine->nodes[i]));
            rc = rc == 0 ? REDLOCK_NO_QUORUM : rc;
        } else if (!has_answered(engine, init, i)) {
            tell(init, i, REDLOCK_VOTE_DOWN, unanswered);
            rc = rc == 0 ? REDLOCK_NO_QUORUM : rc;
        } else if (kind == REDLOCK_STANDING_UNREADABLE || member->facts.mark_refused ||
                   member->facts.run_id[0] == '\0') {
            tell(init, i, REDLOCK_VOTE_ERROR,
                 member->facts.mark_refused ? unmarkable : engine->standings[i].text);
            rc = rc == 0 ? REDLOCK_NO_QUORUM : rc;
        } else if (!fits) {
            tell(init, i, REDLOCK_VOTE_BARRED, engine->standings[i].text);
            rc = REDLOCK_ERR_MISCONFIGURED;
        }
    }
    return rc;
}

enum step {
    MARK_NOW,
    LEAVE,
    WAIT
};

/* What is to be done about one member, and for how long it has to be watched before. */
static enum step next_step(const struct redlock__engine *engine, const struct redlock__init *init,
                           uint32_t i, int64_t now_ns, int64_t *wait_ns)
{
    const struct redlock__member *member = &engine->members[i];
    bool this_run = redlock__member_is_marked(member);
    struct redlock__fleet all = engine->fleet;
    int64_t watched_until_ns = redlock__add(
        member->watched_ns, redlock__max(engine->fleet.guard_ns, engine->fleet.full_guard_ns));

    *wait_ns = 0;
    if (i + 1 == init->config.retire)
        return MARK_NOW;
    if (this_run && (i + 1 != init->config.replace || member->misfit[0] == '\0'))
        return LEAVE;
    if (engine->fleet.marked && i + 1 != init->config.replace) {
        struct redlock__standing standing;

        all.guard_ns = redlock__max(all.guard_ns, all.full_guard_ns);
        standing = redlock__member_standing(member, &all, now_ns);
        *wait_ns = redlock__ms_to_ns(AGAIN_MS);
        if (!standing.counts)
            *wait_ns = redlock__max(standing.counts_at_ns - now_ns, *wait_ns);
        return engine->standings[i].kind == REDLOCK_STANDING_RETIRED ? LEAVE : WAIT;
    }
    if (init->config.no_leases_out || now_ns >= watched_until_ns)
        return MARK_NOW;
    *wait_ns = watched_until_ns - now_ns;
    return WAIT;
}

static void mark(struct redlock__engine *engine, struct redlock__init *init, uint32_t i,
                 int64_t now_ns)
{
    struct redlock__marker marker = marker_for(engine, i);

    marker.retired = i + 1 == init->config.retire;
    if (redlock__watch_mark(engine, i, &marker, "", now_ns))
        init->written |= UINT32_C(1) << i;
    else
        tell(init, i, REDLOCK_VOTE_DOWN, redlock__engine_absence(engine->nodes[i]));
}

/* The largest time of day among the primaries, in milliseconds: above all numbers given so far, if
 * there were fewer attempts than one a millisecond, of all names, and no clock was set back. */
static int64_t time_base(const struct redlock__engine *engine, int64_t now_ns)
{
    int64_t base = 0;

    for (uint32_t i = 0; i < engine->n; i++) {
        const struct redlock__clock *clock = &engine->members[i].clock;

        if (clock->samples > 0)
            base = redlock__max(base, redlock__add(now_ns, clock->last.most_ns) / REDLOCK__MS + 1);
    }
    return base;
}

/* Fencing starts at 0 where no primary was prepared for it, or where told to at the time of day:
 * all may have forgotten that they were. What single ones forgot they take over from the others. */
static void write_bases(struct redlock__engine *engine, struct redlock__init *init, int64_t now_ns)
{
    struct redlock__base base = {0};

    if (engine->fleet.based && !init->config.fence_base)
        return;
    for (uint32_t i = 0; i < engine->n; i++)
        if (!has_answered(engine, init, i))
            return; /* it may have a base */
    if (init->config.fence_base)
        base.number = time_base(engine, now_ns);
    for (uint32_t i = 0; i < engine->n; i++) {
        const struct redlock__member *member = &engine->members[i];
        if (!engine->standings[i].counts || !redlock__member_is_marked(member) ||
            redlock__watch_remembers(engine, i) || !member->facts.given[REDLOCK__FACT_FLOOR])
            continue;
        memcpy(base.run_id, member->facts.run_id, sizeof base.run_id);
        if (member->based)
            base.number = redlock__max(base.number, member->base.number);
        if (redlock__watch_base(engine, i, &base, now_ns))
            init->rebased |= UINT32_C(1) << i;
    }
}

static void decide(struct redlock__engine *engine, struct redlock__init *init, int64_t now_ns)
{
    enum step steps[REDLOCK_MAX_NODES];
    int64_t wait_ns, longest_ns = 0;
    bool wait = false;

    init->result = check_members(engine, init);
    if (init->result != 0)
        return;
    for (uint32_t i = 0; i < engine->n; i++) {
        steps[i] = next_step(engine, init, i, now_ns, &wait_ns);
        wait = wait || steps[i] == WAIT;
        longest_ns = redlock__max(longest_ns, wait_ns);
        tell(init, i, REDLOCK_VOTE_OURS,
             steps[i] == LEAVE ? engine->standings[i].text : "to be watched for a whole guard");
        if (steps[i] == WAIT && engine->fleet.marked)
            tell(init, i, REDLOCK_VOTE_BARRED, engine->standings[i].text);
    }
    init->wait_ms = (longest_ns + REDLOCK__MS - 1) / REDLOCK__MS;
    if (wait)
        init->result = REDLOCK_PENDING;
    /* A new fleet is marked as a whole. */
    for (uint32_t i = 0; i < engine->n; i++)
        if (steps[i] == MARK_NOW && (!wait || engine->fleet.marked))
            mark(engine, init, i, now_ns);
    init->fence = !wait;
}

/* ---- telling ------------------------------------------------------------ */

/* Those whose base was written. Without the right to it they still lock, and are said to when
 * somebody asks for a fencing token; who asked for a base is told here. */
static void sum_up_fencing(struct redlock__engine *engine, struct redlock__init *init)
{
    for (uint32_t i = 0; i < engine->n && init->config.fence_base; i++) {
        redlock_node_result *result = &init->results[i];

        if (!has(init->rebased, i) || result->vote != REDLOCK_VOTE_OURS)
            continue;
        if (redlock__watch_remembers(engine, i)) {
            (void)snprintf(result->text, sizeof result->text, "fencing goes on above %" PRId64,
                           engine->members[i].base.number);
            continue;
        }
        tell(init, i, REDLOCK_VOTE_ERROR, redlock__watch_oblivion(engine, i));
        init->result = REDLOCK_NO_QUORUM;
    }
}

static void sum_up(struct redlock__engine *engine, struct redlock__init *init)
{
    for (uint32_t i = 0; i < engine->n; i++) {
        const struct redlock__member *member = &engine->members[i];
        bool retire = i + 1 == init->config.retire;

        if (!has(init->written, i))
            continue;
        if (member->facts.mark_refused)
            tell(init, i, REDLOCK_VOTE_ERROR, unmarkable);
        else if (redlock__node_phase(engine->nodes[i]) != REDLOCK__NODE_PHASE_READY)
            tell(init, i, REDLOCK_VOTE_DOWN, redlock__engine_absence(engine->nodes[i]));
        else if (retire && member->parsed && member->marker.retired)
            tell(init, i, REDLOCK_VOTE_OURS, "retired");
        else if (!retire && engine->standings[i].counts)
            tell(init, i, REDLOCK_VOTE_OURS, "marked");
        else
            tell(init, i, REDLOCK_VOTE_BARRED, engine->standings[i].text);
        if (init->results[i].vote != REDLOCK_VOTE_OURS)
            init->result = REDLOCK_NO_QUORUM;
    }
    for (uint32_t i = 0; i < engine->n && init->fence; i++) {
        if (has_answered(engine, init, i) || init->results[i].vote != REDLOCK_VOTE_OURS)
            continue;
        tell(init, i, REDLOCK_VOTE_DOWN, unanswered);
        init->result = REDLOCK_NO_QUORUM;
    }
}

/* ---- stages ------------------------------------------------------------- */

/* On to the next one; false: not yet. */
static bool proceed(struct redlock__engine *engine, struct redlock__init *init, int64_t now_ns)
{
    switch (init->stage) {
    case REDLOCK__INIT_CONNECTING:
        if (now_ns < init->gate_ns && !redlock__engine_settled(engine, now_ns)) {
            redlock__engine_touch(engine, init->gate_ns);
            return false;
        }
        ask_all(engine, init, now_ns);
        break;
    case REDLOCK__INIT_READING:
        if (!is_read(engine, init, now_ns))
            return false;
        decide(engine, init, now_ns);
        break;
    case REDLOCK__INIT_MARKING:
        if ((init->written & engine->marks_owed) != 0)
            return false;
        if (init->fence && init->written != 0)
            ask_all(engine, init, now_ns);
        break;
    case REDLOCK__INIT_READING_AGAIN:
        if (!is_read(engine, init, now_ns))
            return false;
        if (init->fence)
            write_bases(engine, init, now_ns);
        break;
    case REDLOCK__INIT_BASING:
        if ((init->rebased & engine->bases_owed) != 0)
            return false;
        sum_up(engine, init);
        sum_up_fencing(engine, init);
        init->done = true;
        return false;
    }
    init->stage++;
    return true;
}

void redlock__init_news(struct redlock__engine *engine, int64_t now_ns)
{
    struct redlock__init *init = engine->init;

    while (init != NULL && !init->done && proceed(engine, init, now_ns))
        continue;
}

struct redlock__init *redlock__engine_init(struct redlock__engine *engine,
                                           const struct redlock__init_config *config,
                                           int64_t now_ns, int *rc)
{
    struct redlock__init *init;

    redlock__engine_handle_deadline(engine, now_ns);
    *rc = engine->init != NULL ? REDLOCK_ERR_STATE : REDLOCK_ERR_MEMORY;
    if (engine->init != NULL)
        return NULL;
    init = calloc(1, sizeof *init + engine->n * sizeof init->results[0]);
    if (init == NULL)
        return NULL;
    for (uint32_t i = 0; i < engine->n; i++)
        init->results[i].elapsed_us = -1;
    redlock__engine_hurry(engine, now_ns);
    *rc = 0;
    init->config = *config;
    init->gate_ns = redlock__add(now_ns, engine->connect_timeout_ns);
    engine->init = init;
    redlock__watch_settle(engine, now_ns);
    redlock__init_news(engine, now_ns);
    redlock__engine_run(engine, now_ns);
    return init;
}

void redlock__engine_forget_init(struct redlock__engine *engine, struct redlock__init *init)
{
    if (engine->init == init)
        engine->init = NULL;
    free(init);
}
