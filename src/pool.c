/*
 * See pool.h. A singly linked list, through the first bytes of what is kept.
 */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#endif
#ifndef WATCHED
#define WATCHED 0
#endif

void *redlock__pool_take(struct redlock__pool *pool, size_t size)
{
    void *thing = pool->first;

    if (thing == NULL)
        return calloc(1, size);
    memcpy(&pool->first, thing, sizeof pool->first);
    pool->count--;
    memset(thing, 0, size);
    return thing;
}

void redlock__pool_give(struct redlock__pool *pool, void *thing)
{
    if (thing == NULL)
        return;
    if (WATCHED || pool->count >= REDLOCK__POOL_KEEPS) {
        free(thing);
        return;
    }
    memcpy(thing, &pool->first, sizeof pool->first);
    pool->first = thing;
    pool->count++;
}

void redlock__pool_drain(struct redlock__pool *pool)
{
    while (pool->first != NULL) {
        void *thing = pool->first;

        memcpy(&pool->first, thing, sizeof pool->first);
        free(thing);
    }
    pool->count = 0;
}
