/*
 * See pool.h. What is over is a singly linked list, through the first bytes of each. A slab is a
 * pointer to the one before it, and things. Under AddressSanitizer a slab has one thing, and goes
 * with it.
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

struct slab {
    struct slab *older;
    struct slab *newer; /* where they go one by one */
};

#if defined(WATCHED)

void *redlock__pool_take(struct redlock__pool *pool, size_t size)
{
    struct slab *slab = calloc(1, sizeof *slab + size), *older = pool->slabs;

    if (slab == NULL)
        return NULL;
    slab->older = older;
    if (older != NULL)
        older->newer = slab;
    pool->slabs = slab;
    return slab + 1;
}

void redlock__pool_give(struct redlock__pool *pool, void *thing)
{
    struct slab *slab = thing == NULL ? NULL : (struct slab *)thing - 1;

    if (slab == NULL)
        return;
    if (slab->newer != NULL)
        slab->newer->older = slab->older;
    else
        pool->slabs = slab->older;
    if (slab->older != NULL)
        slab->older->newer = slab->newer;
    free(slab);
}

#else

__attribute__((cold)) static void *take_fresh(struct redlock__pool *pool, size_t size)
{
    void *thing;

    if (pool->left == 0) {
        struct slab *slab = calloc(1, sizeof *slab + REDLOCK__POOL_SLAB * size);

        if (slab == NULL)
            return NULL;
        slab->older = pool->slabs;
        pool->slabs = slab;
        pool->fresh = (char *)(slab + 1);
        pool->left = REDLOCK__POOL_SLAB;
    }
    thing = pool->fresh;
    pool->fresh += size;
    pool->left--;
    return thing;
}

void *redlock__pool_take(struct redlock__pool *pool, size_t size)
{
    void *thing = pool->first;

    if (thing == NULL)
        return take_fresh(pool, size);
    memcpy(&pool->first, thing, sizeof pool->first);
    memset(thing, 0, size);
    return thing;
}

void redlock__pool_give(struct redlock__pool *pool, void *thing)
{
    if (thing == NULL)
        return;
    memcpy(thing, &pool->first, sizeof pool->first);
    pool->first = thing;
}

#endif

void redlock__pool_drain(struct redlock__pool *pool)
{
    while (pool->slabs != NULL) {
        struct slab *slab = pool->slabs;

        pool->slabs = slab->older;
        free(slab);
    }
    *pool = (struct redlock__pool){0};
}
