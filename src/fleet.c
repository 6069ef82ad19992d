/*
 * What the members have in common, and what about them doesn't go together. See member.h.
 *
 * The reference is what most of the marked members share, the first of equals; so one primary of
 * another fleet is the odd one, not all others.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "member.h"
#include "validity.h"

enum {
    DEFAULT_MAX_TTL_MS = 60000,
    DEFAULT_DRIFT_PPM = 10000
};

static bool agree(const struct redlock__marker *a, const struct redlock__marker *b)
{
    return a->fleet == b->fleet && a->n == b->n && a->quorum == b->quorum &&
           a->max_ttl_ms == b->max_ttl_ms;
}

static bool has_say(const struct redlock__member *member)
{
    return member->parsed && !member->marker.retired;
}

/* The member whose marker most agree with; NULL: there is none. */
static const struct redlock__member *find_reference(const struct redlock__member *members,
                                                    uint32_t n)
{
    const struct redlock__member *best = NULL;
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t with = 0;

        if (!has_say(&members[i]))
            continue;
        for (uint32_t j = 0; j < n; j++)
            with += has_say(&members[j]) && agree(&members[i].marker, &members[j].marker);
        if (with > most) {
            most = with;
            best = &members[i];
        }
    }
    return best;
}

__attribute__((format(printf, 2, 3))) static void misfit(struct redlock__member *member,
                                                         const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(member->misfit, sizeof member->misfit, format, arguments);
    va_end(arguments);
}

/* Against what this client was told to use. */
static void compare_with_options(const struct redlock__fleet *fleet, struct redlock__member *member)
{
    const struct redlock__marker *marker = &member->marker;

    if (marker->n != fleet->n)
        misfit(member, "marked as one of %" PRIu32 " primaries, but this list has %" PRIu32,
               marker->n, fleet->n);
    else if (fleet->asked_quorum != 0 && marker->quorum != fleet->asked_quorum)
        misfit(member, "marked for a quorum of %" PRIu32 ", but this client asks for %" PRIu32,
               marker->quorum, fleet->asked_quorum);
    else if (fleet->asked_max_ttl_ms != 0 && marker->max_ttl_ms != fleet->asked_max_ttl_ms)
        misfit(member, "marked for max_ttl %" PRId64 " ms, but this client asks for %" PRId64 " ms",
               marker->max_ttl_ms, fleet->asked_max_ttl_ms);
    else if (marker->quorum < redlock__majority(marker->n) || marker->quorum > marker->n)
        misfit(member, "its marker asks for a quorum of %" PRIu32 " of %" PRIu32, marker->quorum,
               marker->n);
}

static void compare_with_reference(struct redlock__member *member,
                                   const struct redlock__member *reference)
{
    const struct redlock__marker *ours = &reference->marker, *its = &member->marker;

    if (its->fleet != ours->fleet)
        misfit(member, "of fleet %08" PRIx64 ", but %.48s is of fleet %08" PRIx64, its->fleet >> 32,
               reference->address, ours->fleet >> 32);
    else if (its->n != ours->n)
        misfit(member, "marked as one of %" PRIu32 " primaries, %.48s as one of %" PRIu32, its->n,
               reference->address, ours->n);
    else if (its->quorum != ours->quorum)
        misfit(member, "marked for a quorum of %" PRIu32 ", %.48s for %" PRIu32, its->quorum,
               reference->address, ours->quorum);
    else if (its->max_ttl_ms != ours->max_ttl_ms)
        misfit(member, "marked for max_ttl %" PRId64 " ms, %.48s for %" PRId64 " ms",
               its->max_ttl_ms, reference->address, ours->max_ttl_ms);
}

static void find_misfits(struct redlock__fleet *fleet, struct redlock__member *members,
                         const struct redlock__member *reference)
{
    for (uint32_t i = 0; i < fleet->n; i++) {
        struct redlock__member *member = &members[i];

        member->misfit[0] = '\0';
        if (member->facts.given[REDLOCK__FACT_MARKER] && member->facts.marked && !member->parsed)
            misfit(member, "its key redlock:fleet can't be understood: of a later version?");
        if (!has_say(member))
            continue;
        compare_with_options(fleet, member);
        if (member->misfit[0] == '\0' && reference != NULL)
            compare_with_reference(member, reference);
    }
}

/* One vote for one server: the first of those connected that say they are the same run. */
static void find_twins(struct redlock__fleet *fleet, struct redlock__member *members,
                       uint32_t ready)
{
    for (uint32_t i = 0; i < fleet->n; i++) {
        const char *run_id = members[i].facts.run_id;

        members[i].twin = NULL;
        for (uint32_t j = 0; j < i && members[i].twin == NULL; j++)
            if ((ready >> i & ready >> j & 1) != 0 && run_id[0] != '\0' &&
                strcmp(run_id, members[j].facts.run_id) == 0)
                members[i].twin = &members[j];
    }
}

/* max_ttl + drift + 1 s. What other clients allow for drift isn't known: the default at least. */
static int64_t full_guard_ms(const struct redlock__fleet *fleet)
{
    uint32_t ppm = fleet->drift_ppm > DEFAULT_DRIFT_PPM ? fleet->drift_ppm : DEFAULT_DRIFT_PPM;

    return redlock__add(redlock__add(fleet->max_ttl_ms, redlock__drift_ms(fleet->max_ttl_ms, ppm)),
                        1000);
}

void redlock__fleet_settle(struct redlock__fleet *fleet, struct redlock__member *members,
                           uint32_t ready)
{
    const struct redlock__member *reference = find_reference(members, fleet->n);
    int64_t guard_ms = fleet->asked_guard_ms, full_ms;

    if (reference != NULL) {
        fleet->marked = true;
        fleet->marker = reference->marker;
    }
    fleet->all_seen = redlock__count(ready) == fleet->n;
    for (uint32_t i = 0; i < fleet->n; i++)
        fleet->based = fleet->based || members[i].based;
    find_misfits(fleet, members, reference);
    find_twins(fleet, members, ready);
    fleet->quorum = fleet->asked_quorum;
    fleet->max_ttl_ms = fleet->asked_max_ttl_ms;
    if (fleet->quorum == 0)
        fleet->quorum = redlock__majority(fleet->n);
    if (fleet->max_ttl_ms == 0)
        fleet->max_ttl_ms = DEFAULT_MAX_TTL_MS;
    if (fleet->marked && fleet->marker.n == fleet->n && fleet->asked_quorum == 0 &&
        fleet->marker.quorum > fleet->quorum && fleet->marker.quorum <= fleet->n)
        fleet->quorum = fleet->marker.quorum;
    if (fleet->marked && fleet->asked_max_ttl_ms == 0)
        fleet->max_ttl_ms = fleet->marker.max_ttl_ms;
    full_ms = full_guard_ms(fleet);
    fleet->full_guard_ns = redlock__ms_to_ns(full_ms);
    fleet->guard_ns = guard_ms < 0 ? fleet->full_guard_ns : redlock__ms_to_ns(guard_ms);
}

bool redlock__fleet_stood_still(const struct redlock__fleet *fleet,
                                const struct redlock__member *members, uint32_t ready,
                                int64_t recent_ns, int64_t now_ns)
{
    int64_t least = INT64_MIN, most = INT64_MAX;
    uint32_t stepped = 0;

    for (uint32_t i = 0; i < fleet->n; i++) {
        const struct redlock__clock *clock = &members[i].clock;

        if ((ready >> i & 1) == 0 || clock->samples < 2)
            continue;
        if (clock->step_seen_ns == 0 || now_ns - clock->step_seen_ns > recent_ns)
            return false;
        least = redlock__max(least, clock->step_least_ns);
        most = redlock__min(most, clock->step_most_ns);
        stepped++;
    }
    return stepped >= fleet->quorum && least > 0 && least <= most;
}
