/*
 * Memory for things of one size, of which there may be very many: in slabs, so that each takes its
 * size and no more, and kept once they are over, for the next ones. A client that acquires and
 * releases again and again asks the system for none; one that had many leases keeps their memory
 * until it is freed. Under AddressSanitizer each thing has memory of its own and nothing is
 * kept, so that it sees what is used afterwards.
 *
 * Whose mutex guards what is in the pool guards the pool.
 */
#ifndef REDLOCK__POOL_H
#define REDLOCK__POOL_H

#include <stddef.h>
#include <stdint.h>

enum {
    REDLOCK__POOL_SLAB = 32 /* things */
};

/* All zero: empty. */
struct redlock__pool {
    void *first; /* of those that are over */
    void *slabs; /* the newest, and through its first bytes the others */
    char *fresh; /* of the newest slab: `left` things that nobody has had yet */
    uint32_t left;
};

/* `size` bytes, all zero; a pool's things are all of the same size, and not smaller than a pointer.
 * NULL: out of memory. */
void *redlock__pool_take(struct redlock__pool *pool, size_t size);
void redlock__pool_give(struct redlock__pool *pool, void *thing); /* NULL accepted */
/* Frees all of it, also what wasn't given back. */
void redlock__pool_drain(struct redlock__pool *pool);

#endif
