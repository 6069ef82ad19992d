/*
 * Whom the engine trusts: takes in what the primaries say about themselves, samples their clocks,
 * and keeps what follows from it: whose votes count, what drift to allow for, which leases lost a
 * vote. See engine_state.h; what is decided is decided in member.c, fleet.c and clock.c.
 *
 * Samples are TIME, the marker, and who replicates from it, behind whatever else goes out: once a
 * second while a lease is held or a member is on probation, and with a round if the last ones are
 * old. All connected primaries are asked at once; so what all of them say moved can be told from
 * what one says.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "validity.h"

enum {
    PERIOD_MS = 1000,
    SEEN_MS = 604800000, /* a week: the key of a run outlives guard and last question by that */
    STALE_MS = 2000,     /* older samples are renewed with the next round */
    RECENT_MS = 5000,    /* steps this far apart may be one stop of our own clock */
};

static uint32_t bit_of(uint32_t i)
{
    return UINT32_C(1) << i;
}

bool redlock__watch_new(struct redlock__engine *engine, const struct redlock__engine_config *config)
{
    engine->fleet = (struct redlock__fleet){.n = engine->n,
                                            .drift_ppm = config->drift_ppm,
                                            .asked_quorum = config->quorum,
                                            .asked_max_ttl_ms = config->max_ttl_ms,
                                            .asked_guard_ms = config->restart_guard_ms};
    engine->sampled_ns = INT64_MIN;
    engine->sample_ns = engine->standing_ns = REDLOCK__NEVER;
    engine->members = calloc(engine->n, sizeof engine->members[0]);
    engine->standings = calloc(engine->n, sizeof engine->standings[0]);
    if (engine->members == NULL || engine->standings == NULL)
        return false;
    for (uint32_t i = 0; i < engine->n; i++) {
        redlock__member_init(&engine->members[i], i + 1, redlock__node_address(engine->nodes[i]));
        engine->node_ppm[i] = config->drift_ppm;
    }
    redlock__fleet_settle(&engine->fleet, engine->members, 0);
    if (config->restart_guard_ms == 0)
        redlock__engine_say(engine, REDLOCK_LOG_WARNING, "restart guard",
                            "off: a primary that restarts without its data can vote twice");
    return true;
}

void redlock__watch_free(struct redlock__engine *engine)
{
    free(engine->members);
    free(engine->standings);
}

/* ---- asking ------------------------------------------------------------- */

static bool ask_by(struct redlock__engine *engine, uint32_t i, const struct redlock__tag *tag,
                   struct redlock__bytes *bytes, int64_t now_ns)
{
    int64_t deadline_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);
    bool sent =
        bytes->len != 0 && redlock__engine_request(engine, i, tag, bytes, deadline_ns, now_ns);

    redlock__bytes_free(bytes);
    engine->probes[i] += sent;
    engine->stats.requests += sent;
    return sent;
}

static bool ask(struct redlock__engine *engine, uint32_t i, enum redlock__command command,
                struct redlock__bytes *bytes, int64_t now_ns)
{
    struct redlock__tag tag = {.command = command};

    return ask_by(engine, i, &tag, bytes, now_ns);
}

static void ask_since_when(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__member *member = &engine->members[i];
    int64_t guard_ns = redlock__max(engine->fleet.guard_ns, engine->fleet.full_guard_ns);
    int64_t life_ms = SEEN_MS + guard_ns / REDLOCK__MS;
    struct redlock__bytes bytes;

    if (redlock__member_on_probation(member, &engine->fleet, now_ns) &&
        ask(engine, i, REDLOCK__CMD_SEEN,
            redlock__encode_seen(&bytes, member->facts.run_id, life_ms), now_ns) &&
        member->seen[0] == '\0')
        member->seen_owed = true;
}

static void sample(struct redlock__engine *engine, int64_t now_ns)
{
    static const enum redlock__command questions[] = {REDLOCK__CMD_TIME, REDLOCK__CMD_MARKER,
                                                      REDLOCK__CMD_INFO_REPLICATION};
    struct redlock__bytes bytes;
    uint32_t ready = redlock__engine_ready(engine);

    engine->sampled_ns = now_ns;
    for (uint32_t i = 0; i < engine->n; i++) {
        if ((ready & bit_of(i)) == 0 || engine->probes[i] > 0)
            continue;
        for (size_t k = 0; k < sizeof questions / sizeof questions[0]; k++)
            if (ask(engine, i, questions[k], redlock__encode_fact(&bytes, questions[k]), now_ns) &&
                questions[k] == REDLOCK__CMD_TIME)
                engine->times_owed |= bit_of(i);
        ask_since_when(engine, i, now_ns);
        if (engine->oblivion) /* another client may have taken something over */
            (void)ask(engine, i, REDLOCK__CMD_FLOOR,
                      redlock__encode_fact(&bytes, REDLOCK__CMD_FLOOR), now_ns);
    }
}

bool redlock__watch_mark(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__marker *marker, const char *seen, int64_t now_ns)
{
    const struct redlock__facts *facts = &engine->members[i].facts;
    char text[REDLOCK__MARKER_LEN];
    struct redlock__bytes bytes;

    redlock__marker_format(marker, text);
    if (!ask(engine, i, REDLOCK__CMD_MARK,
             redlock__encode_mark(&bytes, facts->run_id, facts->marker_text, seen, text), now_ns))
        return false;
    engine->marks_owed |= bit_of(i);
    return true;
}

static void arm(struct redlock__engine *engine, int64_t now_ns)
{
    if (engine->sample_ns == REDLOCK__NEVER)
        engine->sample_ns = redlock__add(now_ns, PERIOD_MS * REDLOCK__MS);
    redlock__engine_touch(engine, engine->sample_ns);
}

/* ---- what follows ------------------------------------------------------- */

static void forget(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__lease *lease;

    if (engine->fleet.guard_ns == 0)
        return; /* told that primaries don't forget */
    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++) {
        if (lease->grant != NULL)
            redlock__grant_forgotten(lease->grant, i);
        redlock__lease_forgotten(lease, i, &engine->random, now_ns);
        redlock__engine_work_on(engine, lease);
    }
}

static void shorten(struct redlock__engine *engine, uint32_t i, int64_t by_ns, int64_t now_ns)
{
    struct redlock__lease *lease;

    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++) {
        redlock__lease_stepped(lease, i, by_ns, now_ns);
        redlock__engine_work_on(engine, lease);
    }
}

/* A primary is proven to run faster than what was allowed for. */
static void allow(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    uint32_t ppm = redlock__clock_proven_ppm(&engine->members[i].clock);
    uint32_t was = engine->node_ppm[i];
    struct redlock__lease *lease;

    if (ppm < engine->drift_ppm)
        ppm = engine->drift_ppm;
    engine->node_ppm[i] = ppm > REDLOCK_MAX_DRIFT_PPM ? REDLOCK_MAX_DRIFT_PPM : ppm;
    for (uint32_t k = 0; ppm > was && (lease = redlock__engine_lease(engine, k)) != NULL; k++) {
        int64_t ttl_ms = redlock__lease_longest_ttl_ms(lease);
        int64_t more_ms = redlock__drift_ms(ttl_ms, ppm) - redlock__drift_ms(ttl_ms, was);

        redlock__lease_stepped(lease, i, redlock__ms_to_ns(more_ms), now_ns);
        redlock__engine_work_on(engine, lease);
    }
}

/* All clocks at once by the same time: that was ours. */
static void excuse(struct redlock__engine *engine, int64_t now_ns)
{
    int64_t recent_ns = redlock__ms_to_ns(RECENT_MS);

    if (engine->times_owed != 0 ||
        !redlock__fleet_stood_still(&engine->fleet, engine->members, redlock__engine_ready(engine),
                                    recent_ns, now_ns))
        return;
    for (uint32_t i = 0; i < engine->n; i++)
        if (now_ns - engine->members[i].barred_since_ns <= recent_ns)
            redlock__member_unbar(&engine->members[i]);
}

static void take_sample(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__member *member = &engine->members[i];

    if (redlock__clock_sample(&member->clock, &member->facts.sample)) {
        if (member->clock.step_least_ns > 0) {
            redlock__member_bar(member, now_ns);
            shorten(engine, i, member->clock.step_most_ns, now_ns);
        }
        redlock__engine_say(engine, REDLOCK_LOG_WARNING, member->address, "its clock was stepped");
    }
    allow(engine, i, now_ns);
    excuse(engine, now_ns);
}

/* ---- fencing numbers ---------------------------------------------------- */

bool redlock__watch_remembers(const struct redlock__engine *engine, uint32_t i)
{
    return redlock__member_remembers(&engine->members[i]);
}

const char *redlock__watch_oblivion(const struct redlock__engine *engine, uint32_t i)
{
    const struct redlock__facts *facts = &engine->members[i].facts;
    uint32_t knowing = 0;

    if (engine->fleet.guard_ns == 0)
        return "fencing needs the restart guard";
    if (!facts->given[REDLOCK__FACT_FLOOR])
        return "fencing needs its keys: grant +eval +zadd +zscore +zrange ~redlock:*";
    if (!engine->fleet.based)
        return "not prepared for fencing: redlock init";
    if (facts->recover_refused ||
        (facts->mark_refused && !redlock__member_is_marked(&engine->members[i])))
        return "it can't take fencing numbers over: grant +eval +zadd +zrange +get +set +del "
               "~redlock:*";
    for (uint32_t j = 0; j < engine->n; j++)
        knowing += j != i && redlock__watch_remembers(engine, j);
    if (knowing < engine->fleet.quorum)
        return "it forgot its fencing numbers, and too few others know them: if that lasts, "
               "redlock init --fence-base";
    return "it forgot its fencing numbers, and takes them over from the others in a moment";
}

/* The marker first: if that is gone as well, it doesn't count before the base is seen to be gone,
 * and takes nothing over until its guard is over. */
bool redlock__watch_reread(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    static const enum redlock__command questions[] = {REDLOCK__CMD_MARKER, REDLOCK__CMD_FLOOR};
    struct redlock__bytes bytes;
    bool sent = false;

    for (size_t k = 0; k < sizeof questions / sizeof questions[0]; k++)
        sent = ask(engine, i, questions[k], redlock__encode_fact(&bytes, questions[k]), now_ns) ||
               sent;
    return sent;
}

void redlock__watch_doubt(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    if ((engine->doubted & bit_of(i)) == 0 && redlock__watch_reread(engine, i, now_ns))
        engine->doubted |= bit_of(i);
}

void redlock__watch_multi(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__tag tag = {.command = REDLOCK__CMD_MULTI, .before = REDLOCK__BEFORE_NOTHING};
    struct redlock__bytes bytes;

    if ((engine->multi_asked & bit_of(i)) == 0 &&
        ask_by(engine, i, &tag, redlock__encode_fact(&bytes, REDLOCK__CMD_MULTI), now_ns))
        engine->multi_asked |= bit_of(i);
}

bool redlock__watch_base(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__base *base, int64_t now_ns)
{
    const struct redlock__facts *facts = &engine->members[i].facts;
    char text[REDLOCK__BASE_LEN];
    struct redlock__bytes bytes;

    redlock__base_format(base, text);
    if (!ask(engine, i, REDLOCK__CMD_RECOVER,
             redlock__encode_recover(&bytes, facts->base_text, text, base->number,
                                     facts->marker_text),
             now_ns))
        return false;
    engine->bases_owed |= bit_of(i);
    return true;
}

/* Those that forgot get their base, as soon as the others have told what is needed for it. */
static bool rebase(struct redlock__engine *engine, uint32_t ready, int64_t now_ns)
{
    bool wanted = false;

    for (uint32_t i = 0; i < engine->n; i++) {
        const struct redlock__member *member = &engine->members[i];
        struct redlock__base base;

        if ((ready & bit_of(i)) == 0 || member->counts_since_ns == REDLOCK__NEVER ||
            (engine->bases_owed & bit_of(i)) != 0 || !engine->fleet.based ||
            redlock__member_remembers(member))
            continue;
        if (now_ns < engine->base_ns[i])
            wanted = true;
        else if (redlock__member_wants_base(engine->members, i, &engine->fleet, ready, &base)) {
            engine->base_ns[i] = redlock__add(now_ns, PERIOD_MS * REDLOCK__MS);
            (void)redlock__watch_base(engine, i, &base, now_ns);
        } else
            wanted = wanted || !member->facts.recover_refused;
    }
    return wanted;
}

/* ---- standings ---------------------------------------------------------- */

static bool in_force(redlock_standing kind)
{
    return kind == REDLOCK_STANDING_REPLICA || kind == REDLOCK_STANDING_TWIN ||
           kind == REDLOCK_STANDING_MISFIT || kind == REDLOCK_STANDING_EVICTING;
}

static void note_standing(struct redlock__engine *engine, uint32_t i,
                          const struct redlock__standing *is, bool ready)
{
    struct redlock__standing *was = &engine->standings[i];
    bool changed = was->kind != is->kind;

    *was = *is;
    if (changed && ready)
        redlock__engine_say(engine,
                            is->kind == REDLOCK_STANDING_COUNTS ? REDLOCK_LOG_INFO
                            : in_force(is->kind)                ? REDLOCK_LOG_ERROR
                                                                : REDLOCK_LOG_WARNING,
                            engine->members[i].address, is->text);
}

/* A standing that changes by time alone; or with an answer that is due, and there is one a second.
 */
static void note_time(struct redlock__engine *engine, const struct redlock__standing *standing,
                      int64_t now_ns)
{
    int64_t then_ns = standing->counts_at_ns;

    if (standing->kind == REDLOCK_STANDING_GUARD && then_ns <= redlock__add(now_ns, 1))
        then_ns = redlock__add(now_ns, PERIOD_MS * REDLOCK__MS);
    if ((standing->kind == REDLOCK_STANDING_STEPPED || standing->kind == REDLOCK_STANDING_GUARD) &&
        then_ns > now_ns)
        engine->standing_ns = redlock__min(engine->standing_ns, then_ns);
}

static void wake_waiting(struct redlock__engine *engine)
{
    struct redlock__lease *lease;

    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++)
        if (lease->state == REDLOCK__LEASE_WAITING || lease->wants != 0)
            redlock__engine_work_on(engine, lease);
}

/* The votes of those that are no members of their own are taken back. */
static void drop_strangers(struct redlock__engine *engine, uint32_t strangers, int64_t now_ns)
{
    struct redlock__lease *lease;

    for (uint32_t i = 0; i < engine->n; i++)
        for (uint32_t k = 0;
             (strangers & bit_of(i)) != 0 && (lease = redlock__engine_lease(engine, k)) != NULL;
             k++)
            if ((lease->counted & bit_of(i)) != 0) {
                redlock__lease_forgotten(lease, i, &engine->random, now_ns);
                redlock__engine_work_on(engine, lease);
            }
}

static void remark(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__member *member = &engine->members[i];
    struct redlock__marker marker;

    if ((engine->marks_owed & bit_of(i)) != 0 || now_ns < engine->mark_ns[i] ||
        !redlock__member_wants_mark(member, &engine->fleet, now_ns, &marker))
        return;
    /* If it comes back unchanged, there is something new to read first. */
    engine->mark_ns[i] = redlock__add(now_ns, PERIOD_MS * REDLOCK__MS);
    (void)redlock__watch_mark(engine, i, &marker, member->waived ? "" : member->seen, now_ns);
}

/* What this client writes down for others is evidence for those who ask for the whole guard. */
static bool counts_for_all(const struct redlock__engine *engine,
                           const struct redlock__member *member, int64_t now_ns)
{
    struct redlock__fleet all = engine->fleet;

    all.guard_ns = redlock__max(all.guard_ns, all.full_guard_ns);
    return redlock__member_standing(member, &all, now_ns).counts;
}

void redlock__watch_settle(struct redlock__engine *engine, int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine), counting = 0, strangers = 0;
    bool probation = false, oblivion;

    redlock__fleet_settle(&engine->fleet, engine->members, ready);
    engine->standing_ns = REDLOCK__NEVER;
    for (uint32_t i = 0; i < engine->n; i++) {
        struct redlock__member *member = &engine->members[i];
        struct redlock__standing standing =
            redlock__member_standing(member, &engine->fleet, now_ns);
        bool is_ready = (ready & bit_of(i)) != 0;

        counting |= standing.counts ? bit_of(i) : 0;
        if (!counts_for_all(engine, member, now_ns))
            member->counts_since_ns = REDLOCK__NEVER;
        else if (member->counts_since_ns == REDLOCK__NEVER)
            member->counts_since_ns = now_ns;
        strangers |= in_force(standing.kind) && is_ready ? bit_of(i) : 0;
        note_standing(engine, i, &standing, is_ready);
        note_time(engine, &standing, now_ns);
        if (!is_ready)
            continue;
        probation = probation || redlock__member_on_probation(member, &engine->fleet, now_ns);
        remark(engine, i, now_ns);
    }
    redlock__engine_touch(engine, engine->standing_ns);
    engine->misfit = strangers != 0;
    if (strangers != 0)
        drop_strangers(engine, strangers, now_ns);
    if ((counting & ~engine->counting) != 0)
        wake_waiting(engine);
    engine->counting = counting;
    oblivion = rebase(engine, ready, now_ns);
    if (oblivion && !engine->oblivion)
        engine->sample_ns = now_ns; /* ask the others at once */
    engine->oblivion = oblivion;
    if (probation || oblivion)
        arm(engine, now_ns);
}

/* ---- news --------------------------------------------------------------- */

void redlock__watch_greeted(struct redlock__engine *engine, uint32_t i, int64_t now_ns)
{
    struct redlock__member *member = &engine->members[i];
    const struct redlock__facts *facts = redlock__node_facts(engine->nodes[i]);

    engine->probes[i] = 0;
    engine->times_owed &= ~bit_of(i);
    engine->marks_owed &= ~bit_of(i);
    engine->mark_ns[i] = engine->base_ns[i] = INT64_MIN;
    engine->bases_owed &= ~bit_of(i);
    engine->doubted &= ~bit_of(i);
    engine->multi_asked &= ~bit_of(i);
    if (redlock__member_greeted(member, facts, now_ns))
        forget(engine, i, now_ns);
    engine->sampled_ns = now_ns;
    if (facts->given[REDLOCK__FACT_CLOCK])
        take_sample(engine, i, now_ns);
    redlock__watch_settle(engine, now_ns);
    ask_since_when(engine, i, now_ns);
}

void redlock__watch_news(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__member *member = &engine->members[i];
    enum redlock__command command = event->tag.command;
    const struct redlock__facts *facts = redlock__node_facts(engine->nodes[i]);

    if (command == REDLOCK__CMD_INFO_SERVER)
        redlock__native_greeted(engine, i);
    if (command == REDLOCK__CMD_TIME)
        engine->times_owed &= ~bit_of(i);
    if (command == REDLOCK__CMD_MARK)
        engine->marks_owed &= ~bit_of(i);
    if (command == REDLOCK__CMD_RECOVER)
        engine->bases_owed &= ~bit_of(i);
    if (event->result == REDLOCK__RESULT_TIMEOUT) {
        redlock__init_news(engine, now_ns);
        return;
    }
    engine->probes[i] -= engine->probes[i] > 0;
    if (event->result == REDLOCK__RESULT_DROPPED) {
        member->seen_owed = false;
        redlock__init_news(engine, now_ns);
        return;
    }
    if (command == REDLOCK__CMD_MULTI && !facts->given[REDLOCK__FACT_MULTI] &&
        event->tag.number == 0)
        redlock__fenced_refused(engine, i, now_ns);
    if (command == REDLOCK__CMD_FLOOR)
        engine->doubted &= ~bit_of(i);
    if (redlock__member_told(member, command, facts, now_ns)) {
        forget(engine, i, now_ns);
        redlock__watch_doubt(engine, i, now_ns); /* its numbers may be gone as well */
    }
    if (command == REDLOCK__CMD_TIME && facts->given[REDLOCK__FACT_CLOCK])
        take_sample(engine, i, now_ns);
    redlock__watch_settle(engine, now_ns);
    if (command == REDLOCK__CMD_SEEN || command == REDLOCK__CMD_RECOVER)
        wake_waiting(engine);
    redlock__init_news(engine, now_ns);
}

/* ---- when to ask -------------------------------------------------------- */

void redlock__watch_round(struct redlock__engine *engine, int64_t now_ns)
{
    if (redlock__add(engine->sampled_ns, STALE_MS * REDLOCK__MS) <= now_ns)
        sample(engine, now_ns);
}

void redlock__watch_hold(struct redlock__engine *engine, int64_t now_ns)
{
    arm(engine, now_ns);
}

static bool is_wanted(const struct redlock__engine *engine, int64_t now_ns)
{
    uint32_t ready = redlock__engine_ready(engine);
    const struct redlock__lease *lease;

    if (engine->oblivion)
        return true;
    for (uint32_t k = 0; (lease = redlock__engine_lease(engine, k)) != NULL; k++)
        if (lease->deadline_ns != 0)
            return true;
    for (uint32_t i = 0; i < engine->n; i++)
        if ((ready & bit_of(i)) != 0 &&
            redlock__member_on_probation(&engine->members[i], &engine->fleet, now_ns))
            return true;
    return false;
}

void redlock__watch_handle_deadline(struct redlock__engine *engine, int64_t now_ns)
{
    if (now_ns >= engine->standing_ns)
        redlock__watch_settle(engine, now_ns);
    redlock__engine_touch(engine, engine->standing_ns);
    if (now_ns >= engine->sample_ns) {
        engine->sample_ns = REDLOCK__NEVER;
        if (is_wanted(engine, now_ns)) {
            sample(engine, now_ns);
            arm(engine, now_ns);
        }
    }
    redlock__engine_touch(engine, engine->sample_ns);
}

/* ---- for people --------------------------------------------------------- */

void redlock__engine_fleet(const struct redlock__engine *engine, redlock_fleet *fleet)
{
    fleet->marked = engine->fleet.marked;
    fleet->quorum = engine->fleet.quorum;
    fleet->max_ttl_ms = engine->fleet.max_ttl_ms;
    fleet->guard_ms = engine->fleet.guard_ns / REDLOCK__MS;
}

static int64_t middle_us(int64_t least_ns, int64_t most_ns)
{
    return (least_ns / 2 + most_ns / 2) / 1000;
}

static void describe_clock(const struct redlock__clock *clock, redlock_node_health *health,
                           int64_t now_ns)
{
    health->offset_bound_us = health->rate_bound_ppm = -1;
    health->step_age_ms = -1;
    if (clock->samples > 0) {
        health->offset_us = middle_us(clock->last.least_ns, clock->last.most_ns);
        health->offset_bound_us = (clock->last.most_ns - clock->last.least_ns) / 2000 + 1;
    }
    if (clock->step_seen_ns != 0) {
        health->step_us = middle_us(clock->step_least_ns, clock->step_most_ns);
        health->step_age_ms = (now_ns - clock->step_seen_ns) / REDLOCK__MS;
    }
    if (clock->rated) {
        health->rate_ppm = clock->slowest_ppm / 2 + clock->fastest_ppm / 2;
        health->rate_bound_ppm = (clock->fastest_ppm - clock->slowest_ppm) / 2 + 2;
    }
}

void redlock__engine_health(const struct redlock__engine *engine, uint32_t i,
                            redlock_node_health *health, int64_t now_ns)
{
    const struct redlock__member *member = &engine->members[i];
    struct redlock__standing standing = redlock__member_standing(member, &engine->fleet, now_ns);

    health->kind = standing.kind;
    health->counts = standing.counts;
    health->counts_in_ms = -1;
    if (standing.counts_at_ns != REDLOCK__NEVER)
        health->counts_in_ms = redlock__max(
            (redlock__max(standing.counts_at_ns, now_ns) - now_ns + REDLOCK__MS - 1) / REDLOCK__MS,
            0);
    memcpy(health->standing, standing.text, sizeof health->standing);
    memcpy(health->run_id, member->facts.run_id, sizeof health->run_id);
    describe_clock(&member->clock, health, now_ns);
}
