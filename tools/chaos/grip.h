/*
 * A lock in a worker's hands, and all that is told about it: each call goes into the history before
 * and after, with times taken right there.
 */
#ifndef CHAOS_GRIP_H
#define CHAOS_GRIP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker_self.h"

struct grip {
    struct worker_self *self;
    struct hold *hold;
    char name[SPEC_NAME_LEN];
    int slot; /* of the name, in shared memory */
    uint64_t session;
    bool held;        /* as last seen */
    int64_t asked_ns; /* when */
    bool inside;
    bool counting; /* the counter was read as `counted`, and not written back yet */
    bool lost_update;
    uint64_t counted;
};

/* NULL: not held. record: NULL, or gets a new reference to the return record, as these three all
 * do. wish->number is given here. */
struct grip *grip_acquire(struct worker_self *self, struct wish *wish, json_t **record);
bool grip_extend(struct grip *grip, int64_t ttl_ms, json_t **record);
/* Leaves first, if it is still inside. Frees the grip. */
void grip_release(struct grip *grip, json_t **record);

/* is_held(), now. Told if that has changed, if the last time it was asked is so long ago that the
 * process must have been stopped, or if `tell`. */
bool grip_check(struct grip *grip, bool tell);

/* Takes the witness and reads the counter. */
struct entry grip_enter(struct grip *grip);

/* Writes the counter back, once; grip_leave() tells whether an update was lost. */
void grip_count(struct grip *grip);

struct left {
    bool ok, lost_update;
};
/* Writes the counter back if that isn't done yet and the lock is still held, or `blind`. */
struct left grip_leave(struct grip *grip, bool blind);

/* To one cell of the guarded resource. False: not written, since it isn't held, and not `blind`; or
 * since the fenced cell wants a fence. */
bool grip_write(struct grip *grip, bool fenced, bool blind, struct written *written);

#endif
