/*
 * What all workers of a run share, in memory that outlives each of them: for each lock name a
 * witness that knows no clock, and the resource that the lock guards.
 *
 * The witness is one word. Who believes to hold the lock swaps it from 0 to its own number, and
 * back when it leaves; if the swap fails, two were inside. A counter that is read, waited on and
 * written back shows lost updates.
 *
 * The resource has two cells. One takes every write, as a file or a device would; the other refuses
 * a fencing token smaller than one it has taken. Both count. A write is stale if a holder with a
 * larger fencing token (or, without tokens, a later session) has written before.
 */
#ifndef CHAOS_SHARED_H
#define CHAOS_SHARED_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARED_NAMES = 64
};

struct shared;

/* A memfd, to be inherited by workers; -1: errno. */
int shared_create(void);
/* Maps it. NULL: errno. */
struct shared *shared_map(int fd);
void shared_unmap(struct shared *shared);

/* 0 .. SHARED_NAMES - 1, the same for all that ask for the name; -1: full. */
int shared_slot(struct shared *shared, const char *name);

struct entry {
    bool ok;        /* nobody was inside */
    uint32_t other; /* who was, else 0 */
};
/* worker > 0 */
struct entry shared_enter(struct shared *shared, int slot, uint32_t worker);
/* False: somebody else had taken the witness meanwhile. */
bool shared_leave(struct shared *shared, int slot, uint32_t worker);
/* A worker is dead: takes its witnesses back. How many there were. */
unsigned shared_clear(struct shared *shared, uint32_t worker);

/* Reads the counter; the caller waits; writes it back plus 1. False: an update was lost. */
uint64_t shared_count_begin(struct shared *shared, int slot);
bool shared_count_end(struct shared *shared, int slot, uint64_t seen);

struct written {
    uint64_t sequence; /* of writes to this cell, refused ones too */
    bool accepted;
    bool stale;
};
/* fence 0: the holder has none; `session` is then what orders holders: see shared_session(). */
struct written shared_write(struct shared *shared, int slot, bool fenced, int64_t fence,
                            uint64_t session);
/* A number for a new grant, larger than all given before. */
uint64_t shared_session(struct shared *shared);

#endif
