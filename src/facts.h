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
#include "marker.h"
#include "redlock.h"

enum redlock__fact {
    REDLOCK__FACT_SERVER,      /* INFO server: run_id, uptime */
    REDLOCK__FACT_REPLICATION, /* INFO replication */
    REDLOCK__FACT_SETTINGS,    /* CONFIG GET *append*: durable */
    REDLOCK__FACT_MARKER,      /* GET of the marker, or what is there after writing it */
    REDLOCK__FACT_SEEN,        /* since when this run is known to run: by the primary's own clock */
    REDLOCK__FACT_CLOCK,       /* TIME */
    REDLOCK__FACTS
};

struct redlock__facts {
    bool given[REDLOCK__FACTS];
    char refusal[REDLOCK__FACTS][REDLOCK_TEXT_LEN]; /* "": given, or not asked yet */

    char run_id[REDLOCK_RUN_ID_LEN];
    int64_t uptime_s, uptime_read_ns;
    bool replica;
    int64_t replicas, second_offset; /* connected_slaves, second_repl_offset */
    bool durable;                    /* on disk before it is acknowledged */
    bool marked;                     /* there is a marker: see marker_text */
    char marker_text[REDLOCK__MARKER_LEN];
    bool mark_refused; /* on this connection */
    char seen[24];     /* the key's value: the primary's time in microseconds */
    int64_t seen_age_us, seen_asked_ns;
    struct redlock__sample sample;
};

/* The kind of fact a command asks for; REDLOCK__FACTS: none. */
enum redlock__fact redlock__fact_of(enum redlock__command command);

/* Takes in the reply to a command that asks for a fact. asked_ns: before it was queued. */
void redlock__facts_take(struct redlock__facts *facts, enum redlock__command command,
                         const struct redisReply *reply, int64_t asked_ns, int64_t read_ns);

#endif
