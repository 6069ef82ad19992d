/*
 * What a primary says about itself: the newest of each kind, as read on one connection. Pure.
 *
 * Asked in the greeting, and in part again in samples. A primary may refuse any of it; the rest
 * still stands, and the refusal's text is kept.
 */
#ifndef REDLOCK__FACTS_H
#define REDLOCK__FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "command.h"
#include "fence.h"
#include "marker.h"
#include "redlock.h"

enum redlock__fact {
    REDLOCK__FACT_SERVER,      /* INFO server: run_id, uptime */
    REDLOCK__FACT_REPLICATION, /* INFO replication */
    REDLOCK__FACT_SETTINGS,    /* CONFIG GET: durable, evicting */
    REDLOCK__FACT_MARKER,      /* GET of the marker, or what is there after writing it */
    REDLOCK__FACT_SEEN,        /* since when this run is known to run: by the primary's own clock */
    REDLOCK__FACT_CLOCK,       /* TIME */
    REDLOCK__FACT_FLOOR,       /* base and floor of fencing numbers (fence.h) */
    REDLOCK__FACT_MULTI,       /* it takes transactions */
    REDLOCK__FACTS
};

/* What compares and acts without a script; and, to be refused like them, the scripts. */
enum {
    REDLOCK__CAN_SET_IFEQ = 1, /* SET with IFEQ and GET */
    REDLOCK__CAN_DELIFEQ = 2,
    REDLOCK__CAN_DELEX = 4,
    REDLOCK__CAN_EVAL = 8
};

struct redlock__facts {
    bool given[REDLOCK__FACTS];
    char refusal[REDLOCK__FACTS][REDLOCK_TEXT_LEN]; /* "": given, or not asked yet */

    uint32_t native;  /* REDLOCK__CAN_*: what a server of its version has */
    uint32_t refused; /* of that, what it refused on this connection; EVAL as well */
    char run_id[REDLOCK_RUN_ID_LEN];
    int64_t uptime_s, uptime_read_ns;
    bool replica;
    int64_t replicas, second_offset; /* connected_slaves, second_repl_offset */
    bool durable;                    /* on disk before it is acknowledged */
    char policy[32];                 /* by which it may evict keys; "": it doesn't */
    bool marked;                     /* there is a marker: see marker_text */
    char marker_text[REDLOCK__MARKER_LEN];
    bool mark_refused; /* on this connection */
    char seen[24];     /* the key's value: the primary's time in microseconds */
    int64_t seen_age_us, seen_asked_ns;
    struct redlock__sample sample;
    char base_text[REDLOCK__BASE_LEN]; /* "": there is none */
    int64_t floor, floor_asked_ns;     /* -1: there is none, nor a base */
    bool recover_refused;              /* on this connection */
};

/* The kind of fact a command asks for; REDLOCK__FACTS: none. */
enum redlock__fact redlock__fact_of(enum redlock__command command);

/* Takes in the reply to a command that asks for a fact, and what any reply shows about commands
 * this primary refuses. asked_ns: before it was queued. */
void redlock__facts_take(struct redlock__facts *facts, enum redlock__command command,
                         const struct redisReply *reply, int64_t asked_ns, int64_t read_ns);

#endif
