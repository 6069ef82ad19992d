/*
 * See member.h. Source of the restart guard: redis.io, "Distributed Locks with Redis", on
 * delayed restarts; what counts as evidence instead of waiting is our own and argued for in
 * docs/safety.md.
 */
#include "member.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "validity.h"

void redlock__member_init(struct redlock__member *member, uint32_t number, const char *address)
{
    *member = (struct redlock__member){.number = number,
                                       .barred_since_ns = REDLOCK__NEVER,
                                       .seen_since_ns = REDLOCK__NEVER,
                                       .counts_since_ns = REDLOCK__NEVER,
                                       .forgot_ns = INT64_MIN};
    (void)snprintf(member->address, sizeof member->address, "%s", address);
}

/* ---- evidence ----------------------------------------------------------- */

static void begin_anew(struct redlock__member *member, int64_t now_ns)
{
    member->watched_ns = member->proven_ns = now_ns;
    member->seen_since_ns = REDLOCK__NEVER;
    member->seen[0] = '\0';
}

/* A primary that was a replica for a while keeps its run id, and has the other's data: its
 * second_repl_offset is another one from then on. */
bool redlock__member_is_marked(const struct redlock__member *member)
{
    return member->parsed && !member->marker.retired &&
           member->facts.given[REDLOCK__FACT_REPLICATION] &&
           member->marker.second_offset == member->facts.second_offset &&
           strcmp(member->marker.run_id, member->facts.run_id) == 0;
}

/* A promoted replica has another server's data, and lags behind it. What it says of its past is
 * lost when it restarts; so replicas seen earlier count as well, and the marker keeps that. */
static bool kept_its_data(const struct redlock__member *member)
{
    const struct redlock__facts *facts = &member->facts;

    return member->parsed && member->marker.durable && facts->given[REDLOCK__FACT_SETTINGS] &&
           facts->durable && facts->given[REDLOCK__FACT_REPLICATION] && !facts->replica &&
           facts->replicas == 0 && facts->second_offset == -1 && !member->replicas_seen;
}

static void take_marker(struct redlock__member *member)
{
    member->parsed = member->facts.given[REDLOCK__FACT_MARKER] && member->facts.marked &&
                     redlock__marker_parse(member->facts.marker_text, &member->marker);
    if (!redlock__member_is_marked(member))
        return;
    member->seen[0] = '\0'; /* that key went when the marker was written */
    member->seen_since_ns = REDLOCK__NEVER;
}

static void take_base(struct redlock__member *member)
{
    member->based = member->facts.given[REDLOCK__FACT_FLOOR] &&
                    redlock__base_parse(member->facts.base_text, &member->base);
}

/* True if it is, or since `before` was, another server's replica: its data were exchanged. */
static bool take_replication(struct redlock__member *member, const struct redlock__facts *before,
                             int64_t now_ns)
{
    const struct redlock__facts *facts = &member->facts;

    if (!facts->given[REDLOCK__FACT_REPLICATION])
        return false;
    if (facts->replicas > 0 || facts->replica)
        member->replicas_seen = true;
    if (!facts->replica && (!before->given[REDLOCK__FACT_REPLICATION] ||
                            before->second_offset == facts->second_offset))
        return false;
    member->succeeded = true; /* being up for long says nothing */
    member->waived = false;
    begin_anew(member, now_ns);
    return true;
}

/* The marker is gone, or another one that doesn't name this run: the keys beside it are gone or
 * exchanged as well. */
static bool lost_marker(struct redlock__member *member, const char *before, int64_t now_ns)
{
    const struct redlock__facts *facts = &member->facts;

    if (!facts->given[REDLOCK__FACT_MARKER] || strcmp(before, facts->marker_text) == 0 ||
        redlock__member_is_marked(member))
        return false;
    member->succeeded = true; /* being up for long says nothing */
    member->waived = false;
    begin_anew(member, now_ns);
    return true;
}

bool redlock__member_greeted(struct redlock__member *member, const struct redlock__facts *facts,
                             int64_t now_ns)
{
    bool another = strcmp(member->facts.run_id, facts->run_id) != 0;
    bool again = member->greeted;
    struct redlock__facts before = member->facts;
    bool remembered = redlock__member_remembers(member);
    bool exchanged;

    member->facts = *facts;
    member->greeted = true;
    member->seen_owed = false;
    take_marker(member);
    take_base(member);
    exchanged = take_replication(member, &before, now_ns);
    if (remembered && !redlock__member_remembers(member))
        member->forgot_ns = now_ns;
    member->proven_ns = member->watched_ns;
    if (another || !again) {
        member->succeeded = again;
        member->waived = kept_its_data(member);
        if (!member->waived) { /* else its keys go on, by a clock that may have been set since */
            redlock__clock_reset(&member->clock);
            redlock__member_unbar(member);
        }
        begin_anew(member, now_ns);
        member->counts_since_ns = REDLOCK__NEVER;
        return again && !member->waived;
    }
    return lost_marker(member, before.marker_text, now_ns) || exchanged;
}

/* The primary's own key for this run: gone or another one means that it was flushed. */
static bool take_seen(struct redlock__member *member, int64_t now_ns)
{
    const struct redlock__facts *facts = &member->facts;
    int64_t age_ns = redlock__max(facts->seen_age_us, 0);

    bool flushed = member->seen[0] != '\0' && strcmp(member->seen, facts->seen) != 0;
    int64_t since_ns;

    member->seen_owed = false;
    if (!facts->given[REDLOCK__FACT_SEEN])
        return false;
    if (flushed)
        begin_anew(member, now_ns);
    age_ns = age_ns > INT64_MAX / 1000 ? INT64_MAX : age_ns * 1000;
    since_ns = redlock__add(facts->seen_asked_ns, -age_ns);
    if (member->seen[0] == '\0') /* what was before the key is not vouched for */
        member->watched_ns = redlock__max(member->watched_ns, since_ns);
    memcpy(member->seen, facts->seen, sizeof member->seen);
    member->seen_since_ns = since_ns;
    member->proven_ns = facts->seen_asked_ns;
    return flushed;
}

static bool take_in(struct redlock__member *member, enum redlock__command command,
                    const struct redlock__facts *facts, int64_t now_ns)
{
    struct redlock__facts before = member->facts;

    member->facts = *facts;
    switch (redlock__fact_of(command)) {
    case REDLOCK__FACT_MARKER:
        take_marker(member);
        if (facts->refusal[REDLOCK__FACT_SEEN][0] != '\0') /* the marker is all there is */
            member->proven_ns = now_ns;
        break;
    case REDLOCK__FACT_REPLICATION:
        return take_replication(member, &before, now_ns);
    case REDLOCK__FACT_SEEN:
        return take_seen(member, now_ns);
    case REDLOCK__FACT_FLOOR:
        take_base(member);
        break;
    case REDLOCK__FACT_SERVER:
    case REDLOCK__FACT_SETTINGS:
    case REDLOCK__FACT_CLOCK:
    case REDLOCK__FACT_MULTI:
    case REDLOCK__FACTS:
        break;
    }
    return lost_marker(member, before.marker_text, now_ns);
}

bool redlock__member_told(struct redlock__member *member, enum redlock__command command,
                          const struct redlock__facts *facts, int64_t now_ns)
{
    bool remembered = redlock__member_remembers(member), forgot;

    if (strcmp(member->facts.run_id, facts->run_id) != 0)
        return false; /* said before its greeting was taken in */
    forgot = take_in(member, command, facts, now_ns);
    if (remembered && !redlock__member_remembers(member))
        member->forgot_ns = now_ns;
    return forgot;
}

void redlock__member_bar(struct redlock__member *member, int64_t now_ns)
{
    member->barred_since_ns = now_ns;
}

void redlock__member_unbar(struct redlock__member *member)
{
    member->barred_since_ns = REDLOCK__NEVER;
}

/* ---- standing ----------------------------------------------------------- */

__attribute__((format(printf, 4, 5))) static struct redlock__standing
stand(redlock_standing kind, bool counts, int64_t counts_at_ns, const char *format, ...)
{
    struct redlock__standing standing = {
        .kind = kind, .counts = counts, .counts_at_ns = counts_at_ns};
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(standing.text, sizeof standing.text, format, arguments);
    va_end(arguments);
    return standing;
}

/* Whole seconds, rounded up. */
static int64_t seconds(int64_t ns)
{
    return ns <= 0 ? 0 : (ns - 1) / (1000 * REDLOCK__MS) + 1;
}

static int64_t started_ns(const struct redlock__member *member)
{
    int64_t second_ns = 1000 * REDLOCK__MS;
    int64_t uptime_s = redlock__min(member->facts.uptime_s, INT64_MAX / second_ns);

    return redlock__add(member->facts.uptime_read_ns, -uptime_s * second_ns);
}

/* When it will count in a fleet with markers, if its evidence doesn't break. The primary's own key
 * is a second worse, since what it is compared with is what another process saw. */
static int64_t probation_end(const struct redlock__member *member,
                             const struct redlock__fleet *fleet)
{
    int64_t end = redlock__add(member->watched_ns, fleet->guard_ns);

    if (member->seen_since_ns != REDLOCK__NEVER)
        end = redlock__min(end, redlock__add(redlock__add(member->seen_since_ns, fleet->guard_ns),
                                             1000 * REDLOCK__MS));
    return end;
}

static struct redlock__standing stand_marked(const struct redlock__member *member,
                                             const struct redlock__fleet *fleet, int64_t now_ns)
{
    int64_t end_ns = probation_end(member, fleet);
    if (redlock__member_is_marked(member))
        return stand(REDLOCK_STANDING_COUNTS, true, now_ns, "marked: it has not restarted since");
    if (member->waived)
        return stand(REDLOCK_STANDING_COUNTS, true, now_ns,
                     "restarted, and is durable: it kept its data");
    if (member->proven_ns >= end_ns)
        return stand(REDLOCK_STANDING_COUNTS, true, now_ns,
                     "restarted longer ago than any lease lasts");
    end_ns = redlock__max(end_ns, redlock__add(now_ns, 1));
    if (!member->facts.marked)
        return stand(REDLOCK_STANDING_GUARD, false, end_ns,
                     "has no marker: it is new, or lost its data; counts in %" PRId64 " s",
                     seconds(end_ns - now_ns));
    return stand(REDLOCK_STANDING_GUARD, false, end_ns,
                 "restarted %" PRId64 " s ago and may have forgotten a lease: counts in %" PRId64
                 " s",
                 seconds(now_ns - started_ns(member)), seconds(end_ns - now_ns));
}

static struct redlock__standing stand_unmarked(const struct redlock__member *member,
                                               const struct redlock__fleet *fleet, int64_t now_ns)
{
    int64_t end_ns = probation_end(member, fleet);
    int64_t uptime_end_ns =
        redlock__add(started_ns(member), redlock__add(fleet->guard_ns, 1000 * REDLOCK__MS));
    bool by_uptime = fleet->all_seen && !member->succeeded;

    if (member->proven_ns >= end_ns)
        return stand(REDLOCK_STANDING_COUNTS, true, now_ns,
                     "watched for longer than any lease lasts");
    if (by_uptime && now_ns >= uptime_end_ns)
        return stand(REDLOCK_STANDING_UNCONFIRMED, true, now_ns,
                     "unconfirmed: up for long enough, as it says itself; see 'redlock init'");
    if (end_ns <= now_ns) /* as soon as that is confirmed */
        end_ns = redlock__add(now_ns, 1);
    if (by_uptime && (end_ns == now_ns + 1 || uptime_end_ns < end_ns))
        end_ns = uptime_end_ns;
    return stand(REDLOCK_STANDING_GUARD, false, end_ns,
                 "started %" PRId64 " s ago, counts in %" PRId64
                 " s; if no lease can be out: redlock init --no-leases-out",
                 seconds(now_ns - started_ns(member)), seconds(end_ns - now_ns));
}

static struct redlock__standing stand_refused(const struct redlock__member *member,
                                              const struct redlock__fleet *fleet,
                                              enum redlock__fact fact, const char *right,
                                              int64_t now_ns)
{
    bool counts = fleet->guard_ns == 0;

    return stand(counts ? REDLOCK_STANDING_COUNTS : REDLOCK_STANDING_UNREADABLE, counts,
                 counts ? now_ns : REDLOCK__NEVER, "grant %s: without it %s (%.40s)", right,
                 counts ? "nobody checks who this is" : "its vote can't count",
                 member->facts.refusal[fact]);
}

static struct redlock__standing stand_stepped(const struct redlock__member *member,
                                              const struct redlock__fleet *fleet, int64_t now_ns)
{
    const struct redlock__clock *clock = &member->clock;
    int64_t end_ns = redlock__add(member->barred_since_ns, fleet->guard_ns);
    int64_t middle_ms = (clock->step_least_ns / 2 + clock->step_most_ns / 2) / REDLOCK__MS;

    return stand(REDLOCK_STANDING_STEPPED, false, end_ns,
                 "its clock was stepped by %+" PRId64 " ms %" PRId64 " s ago, counts in %" PRId64
                 " s",
                 middle_ms, seconds(now_ns - member->barred_since_ns), seconds(end_ns - now_ns));
}

/* What it is, before what it may remember. */
static bool stand_apart(const struct redlock__member *member, const struct redlock__fleet *fleet,
                        int64_t now_ns, struct redlock__standing *standing)
{
    const struct redlock__facts *facts = &member->facts;

    if (!member->greeted)
        *standing = stand(REDLOCK_STANDING_UNKNOWN, false, REDLOCK__NEVER, "not connected yet");
    else if (facts->replica)
        *standing = stand(REDLOCK_STANDING_REPLICA, false, REDLOCK__NEVER,
                          "a replica of another server; list that one, and only primaries");
    else if (member->twin != NULL)
        *standing = stand(REDLOCK_STANDING_TWIN, false, REDLOCK__NEVER,
                          "the same server as %.64s (run id %.12s...)", member->twin->address,
                          facts->run_id);
    else if (member->misfit[0] != '\0')
        *standing = stand(REDLOCK_STANDING_MISFIT, false, REDLOCK__NEVER, "%s", member->misfit);
    else if (facts->policy[0] != '\0' && fleet->guard_ns > 0)
        *standing = stand(REDLOCK_STANDING_EVICTING, false, REDLOCK__NEVER,
                          "it may evict locks: set maxmemory-policy noeviction instead of %s",
                          facts->policy);
    else if (member->parsed && member->marker.retired)
        *standing = stand(REDLOCK_STANDING_RETIRED, false, REDLOCK__NEVER,
                          "retired by 'redlock init': another primary has its place");
    else if (!facts->given[REDLOCK__FACT_SERVER])
        *standing = stand_refused(member, fleet, REDLOCK__FACT_SERVER, "+info", now_ns);
    else if (!facts->given[REDLOCK__FACT_REPLICATION])
        *standing = stand_refused(member, fleet, REDLOCK__FACT_REPLICATION, "+info", now_ns);
    else if (!facts->given[REDLOCK__FACT_MARKER])
        *standing = stand_refused(member, fleet, REDLOCK__FACT_MARKER, "+get ~redlock:*", now_ns);
    else
        return false;
    return true;
}

struct redlock__standing redlock__member_standing(const struct redlock__member *member,
                                                  const struct redlock__fleet *fleet,
                                                  int64_t now_ns)
{
    struct redlock__standing standing;

    if (stand_apart(member, fleet, now_ns, &standing))
        return standing;
    if (fleet->guard_ns == 0)
        return stand(REDLOCK_STANDING_COUNTS, true, now_ns, "the restart guard is off");
    if (member->barred_since_ns != REDLOCK__NEVER &&
        now_ns < redlock__add(member->barred_since_ns, fleet->guard_ns))
        return stand_stepped(member, fleet, now_ns);
    return fleet->marked ? stand_marked(member, fleet, now_ns)
                         : stand_unmarked(member, fleet, now_ns);
}

bool redlock__member_on_probation(const struct redlock__member *member,
                                  const struct redlock__fleet *fleet, int64_t now_ns)
{
    struct redlock__standing standing;

    if (fleet->guard_ns == 0 || member->waived || redlock__member_is_marked(member) ||
        stand_apart(member, fleet, now_ns, &standing))
        return false;
    return fleet->marked ||
           redlock__member_standing(member, fleet, now_ns).kind == REDLOCK_STANDING_GUARD;
}

bool redlock__member_wants_mark(const struct redlock__member *member,
                                const struct redlock__fleet *fleet, int64_t now_ns,
                                struct redlock__marker *marker)
{
    struct redlock__fleet all = *fleet;
    bool demote = member->parsed && member->marker.durable && member->replicas_seen;

    /* The marker is evidence for everybody, also for those who ask for more than this client. */
    all.guard_ns = redlock__max(fleet->guard_ns, fleet->full_guard_ns);
    if (!fleet->marked || !redlock__member_standing(member, &all, now_ns).counts ||
        member->facts.mark_refused || (redlock__member_is_marked(member) && !demote))
        return false;
    *marker = fleet->marker;
    marker->member = member->parsed ? member->marker.member : member->number;
    marker->durable = member->facts.given[REDLOCK__FACT_SETTINGS] && member->facts.durable &&
                      !member->replicas_seen;
    if (member->parsed && !member->marker.durable && !member->waived)
        marker->durable = false; /* init alone says that again */
    marker->second_offset = member->facts.second_offset;
    memcpy(marker->run_id, member->facts.run_id, sizeof marker->run_id);
    return true;
}

/* ---- fencing numbers ---------------------------------------------------- */

bool redlock__member_remembers(const struct redlock__member *member)
{
    return member->based && strcmp(member->base.run_id, member->facts.run_id) == 0;
}

/* The largest number known to those others that remember, if a quorum of them was asked since. */
static bool recover_from(const struct redlock__member *members, uint32_t i,
                         const struct redlock__fleet *fleet, uint32_t ready, int64_t *number)
{
    int64_t since_ns = redlock__max(members[i].counts_since_ns, members[i].forgot_ns);
    uint32_t heard = 0;

    *number = members[i].based ? members[i].base.number : 0;
    for (uint32_t j = 0; j < fleet->n; j++) {
        const struct redlock__member *other = &members[j];

        if (j == i || (ready >> j & 1) == 0 || other->counts_since_ns == REDLOCK__NEVER ||
            !redlock__member_remembers(other) || other->facts.floor_asked_ns < since_ns)
            continue;
        heard++;
        *number = redlock__max(*number, redlock__max(other->facts.floor, other->base.number));
    }
    return heard >= fleet->quorum;
}

bool redlock__member_wants_base(const struct redlock__member *members, uint32_t i,
                                const struct redlock__fleet *fleet, uint32_t ready,
                                struct redlock__base *base)
{
    const struct redlock__member *member = &members[i];

    if (!fleet->marked || fleet->guard_ns == 0 || member->counts_since_ns == REDLOCK__NEVER ||
        !member->facts.given[REDLOCK__FACT_FLOOR] ||
        !redlock__member_is_marked(member) || /* by whose marker a flush shows */
        member->facts.recover_refused || redlock__member_remembers(member) ||
        (member->facts.base_text[0] != '\0' && !member->based)) /* of a later version? */
        return false;
    memcpy(base->run_id, member->facts.run_id, sizeof base->run_id);
    base->number = member->base.number;
    if (member->waived && member->based)
        return true;
    return recover_from(members, i, fleet, ready, &base->number);
}
