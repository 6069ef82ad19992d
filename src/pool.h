/*
 * Memory of things of one size that are over, kept for the next ones: a client that acquires and
 * releases again and again asks the system for none. Under AddressSanitizer nothing is kept, so
 * that it sees what is used afterwards.
 *
 * Whose mutex guards what is in the pool guards the pool.
 */
#ifndef REDLOCK__POOL_H
#define REDLOCK__POOL_H

#include <stddef.h>
#include <stdint.h>

enum {
    REDLOCK__POOL_KEEPS = 256 /* things, at most */
};

/* All zero: empty. */
struct redlock__pool {
    void *first;
    uint32_t count;
};

/* `size` bytes, all zero; a pool's things are all of the same size, and not smaller than a pointer.
 * NULL: out of memory. */
void *redlock__pool_take(struct redlock__pool *pool, size_t size);
void redlock__pool_give(struct redlock__pool *pool, void *thing); /* NULL accepted */
void redlock__pool_drain(struct redlock__pool *pool);

#endif
