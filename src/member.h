/*
 * What is known of one primary as a member of the fleet, and whether its vote counts. Pure.
 *
 * A primary that forgot a lease would vote twice. So a run of a server process counts only with
 * evidence that nothing it might have forgotten can still be held. Strongest first:
 *   marker     names this very run: it has not restarted since
 *   durable    kept its data: the marker says so, the settings still do, and no replica was seen
 *   watched    by this client, or as the primary's own key says, for a whole guard
 *   uptime     of a fleet without markers: says so itself, unconfirmed. Only when all members are
 *              connected: those that can't be reached may be the marked ones
 * Evidence that breaks (the key is gone or another, as after FLUSHALL) begins anew.
 *
 * Standing is computed from the evidence and the time, never stored.
 */
#ifndef REDLOCK__MEMBER_H
#define REDLOCK__MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "facts.h"
#include "marker.h"
#include "redlock.h"

/* What all members share. */
struct redlock__fleet {
    uint32_t n, drift_ppm;
    uint32_t asked_quorum;                    /* 0: as marked, or a majority */
    int64_t asked_max_ttl_ms, asked_guard_ms; /* 0: as marked, or 60000; below 0: by max_ttl */

    /* Some member has, or had, a marker: fleet, n, quorum and max_ttl_ms that most of them share.
     */
    bool marked;
    struct redlock__marker marker;
    bool based;    /* some member has, or had, a base of fencing numbers */
    bool all_seen; /* every member is connected: if none is marked, the fleet isn't */
    uint32_t quorum;
    int64_t max_ttl_ms, guard_ns;
    int64_t full_guard_ns; /* what everybody may rely on, whatever this client asked for */
};

struct redlock__standing {
    redlock_standing kind;
    bool counts;
    int64_t counts_at_ns; /* NEVER: not by waiting */
    char text[REDLOCK_TEXT_LEN];
};

struct redlock__member {
    uint32_t number; /* in the list, from 1 */
    char address[REDLOCK_ADDRESS_LEN];
    bool greeted;
    bool succeeded;        /* this client has known an earlier run: uptime says nothing */
    int64_t watched_ns;    /* since when this run and its evidence are seen unbroken */
    int64_t proven_ns;     /* the last time they were confirmed */
    int64_t seen_since_ns; /* by the primary's key, on our clock; NEVER: not known */
    char seen[24];         /* that key's value, "": not known */
    bool seen_owed;        /* asked for, for the first time on this connection */
    bool replicas_seen;    /* in this run or an earlier one */
    bool waived;           /* this run came back with its data */
    bool parsed;           /* there is a marker, and it is understood: see marker */
    struct redlock__marker marker;
    bool based; /* there is a base, and it is understood: see base */
    struct redlock__base base;
    int64_t counts_since_ns;     /* counted without a break; NEVER: doesn't */
    int64_t forgot_ns;           /* when its numbers were last seen to be gone */
    struct redlock__facts facts; /* the newest */
    struct redlock__clock clock;
    int64_t barred_since_ns; /* its clock was stepped then; NEVER: it counts */
    const struct redlock__member *twin;
    char misfit[REDLOCK_TEXT_LEN]; /* "": it fits */
};

void redlock__member_init(struct redlock__member *member, uint32_t number, const char *address);

/* A new connection is READY. True if what the primary granted before may be forgotten. */
bool redlock__member_greeted(struct redlock__member *member, const struct redlock__facts *facts,
                             int64_t now_ns);
/* An answer on this connection to a command that asks for a fact. True as above. */
bool redlock__member_told(struct redlock__member *member, enum redlock__command command,
                          const struct redlock__facts *facts, int64_t now_ns);

/* Its clock was stepped, or turned out not to have been. */
void redlock__member_bar(struct redlock__member *member, int64_t now_ns);
void redlock__member_unbar(struct redlock__member *member);

/* Its marker names the run it is in, with the data it was written to. */
bool redlock__member_is_marked(const struct redlock__member *member);

struct redlock__standing redlock__member_standing(const struct redlock__member *member,
                                                  const struct redlock__fleet *fleet,
                                                  int64_t now_ns);

/* Its own key of this run is to be asked for, with the marker, once a second. */
bool redlock__member_on_probation(const struct redlock__member *member,
                                  const struct redlock__fleet *fleet, int64_t now_ns);
/* Its marker should say something else: see *marker. */
bool redlock__member_wants_mark(const struct redlock__member *member,
                                const struct redlock__fleet *fleet, int64_t now_ns,
                                struct redlock__marker *marker);

/* It has all numbers it ever gave, as far as this client knows: it may grant fenced locks. */
bool redlock__member_remembers(const struct redlock__member *member);

/*
 * Its base should be *base. With the durable waiver it remembers, and only the run is new. Else it
 * counts again after its guard, and gets the largest number that a quorum of the *others* know, all
 * asked after that. False: nothing to do, or not yet.
 */
bool redlock__member_wants_base(const struct redlock__member *members, uint32_t i,
                                const struct redlock__fleet *fleet, uint32_t ready,
                                struct redlock__base *base);

/* Everything the members have in common, or not: fleet's lower half, twins and misfits.
 * ready: mask of those connected. */
void redlock__fleet_settle(struct redlock__fleet *fleet, struct redlock__member *members,
                           uint32_t ready);

/*
 * Of those whose clocks stepped forward in the last `recent_ns`: true if all that are connected and
 * measured did, at least a quorum, by the same amount within bounds. Then it is ours that stood
 * still, and no primary forgot anything early by its own doing.
 */
bool redlock__fleet_stood_still(const struct redlock__fleet *fleet,
                                const struct redlock__member *members, uint32_t ready,
                                int64_t recent_ns, int64_t now_ns);

#endif
