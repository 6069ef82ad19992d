/*
 * What each primary said in a lease's newest round, or why nothing: kept for whoever asks how it
 * came out. What is always the same is kept as a number; what a primary said itself, in a block
 * that a lease has only as long as there is something in it.
 */
#ifndef REDLOCK__RECORD_H
#define REDLOCK__RECORD_H

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
    REDLOCK__REASON_OWN /* in `texts` */
};

struct redlock__lease_vote {
    /* Not of the round, but of the hold: until when this primary keeps the key, on our clock, if it
     * is counted. And what steps of its clock seen since the round began take from that. */
    int64_t end_ns, shift_ns;
    int32_t elapsed_us; /* -1: none */
    uint8_t vote;       /* a redlock_vote */
    enum redlock__reason reason;
};

/* A vote and its reason, into the record of the round. */
void redlock__lease_record(struct redlock__lease *lease, uint32_t node, redlock_vote vote,
                           const char *text, int64_t now_ns);
const char *redlock__lease_text(const struct redlock__lease *lease, uint32_t node);
const char *redlock__reason_text(enum redlock__reason reason);

/* A round begins: nobody has answered. */
void redlock__lease_begin_record(struct redlock__lease *lease);

#endif
