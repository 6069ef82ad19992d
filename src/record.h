/*
 * What each primary said in a lease's newest round, or why nothing: kept for whoever asks how it
 * came out. What is always the same is kept as a number; what a primary said itself, and what its
 * clock took from it, in a block that a lease has only as long as there is something in it.
 */
#ifndef REDLOCK__RECORD_H
#define REDLOCK__RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

struct redlock__lease;

/* Reasons that are always the same, and so take no memory. */
enum __attribute__((packed)) redlock__reason {
    REDLOCK__REASON_NONE, /* the vote says it all */
    REDLOCK__REASON_NO_ANSWER,
    REDLOCK__REASON_FORGOT,
    REDLOCK__REASON_KEY_NOT_OURS,
    REDLOCK__REASON_NO_REPLICA_LINK,
    REDLOCK__REASON_NOT_WRITTEN,
    REDLOCK__REASON_TOO_FEW_COUNT,
    REDLOCK__REASON_TOO_FEW_OTHERS,
    REDLOCK__REASON_MAY_BE_CUT,
    REDLOCK__REASON_OWN /* in `rare` */
};

struct redlock__lease_said {
    uint32_t vote : 3;     /* a redlock_vote */
    uint32_t reason : 4;   /* a redlock__reason */
    uint32_t slow : 1;     /* `elapsed` is in ms, not in us */
    uint32_t elapsed : 24; /* since the round began, + 1; 0: no answer */
};

/* Of a primary, what is kept only as long as there is any. */
struct redlock__lease_rare {
    int64_t shift_ns;            /* what steps of its clock took, seen since the round began */
    char text[REDLOCK_TEXT_LEN]; /* what it said itself */
};

/* A vote of some primaries and its reason, into the record of the round. */
void redlock__lease_record(struct redlock__lease *lease, uint32_t nodes, redlock_vote vote,
                           const char *text, int64_t now_ns);
const char *redlock__lease_text(const struct redlock__lease *lease, uint32_t node);
/* -1: no answer. */
int64_t redlock__lease_elapsed_us(const struct redlock__lease *lease, uint32_t node);
const char *redlock__reason_text(enum redlock__reason reason);

/* A step of a primary's clock; false: out of memory. */
bool redlock__lease_shift(struct redlock__lease *lease, uint32_t node, int64_t step_ns);

/* A round begins: nobody has answered. */
void redlock__lease_begin_record(struct redlock__lease *lease);

#endif
