/*
 * See queue.h. A hash table of names, each with a singly linked list of leases.
 */
#include "queue.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "validity.h"

enum {
    FIRST_BUCKETS = 256 /* a power of two, as all sizes */
};

static uint64_t hash_of(const unsigned char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ key[i]) * UINT64_C(1099511628211);
    return hash;
}

/* ---- the table ---------------------------------------------------------- */

/* The bits that choose among the buckets in use: those of the next power of two; for what isn't in
 * use yet, one less. */
static struct redlock__name **bucket_of(const struct redlock__names *names, uint64_t hash)
{
    uint32_t mixed = (uint32_t)(hash ^ hash >> 32), all = FIRST_BUCKETS, i;

    while (all < names->used)
        all *= 2;
    i = mixed & (all - 1);
    return &names->buckets[i < names->used ? i : i - all / 2];
}

static bool make_room(struct redlock__names *names)
{
    uint32_t size = names->size == 0 ? FIRST_BUCKETS : 2 * names->size;
    struct redlock__name **buckets = realloc(names->buckets, size * sizeof(*buckets));

    if (buckets == NULL)
        return false;
    for (uint32_t i = names->size; i < size; i++)
        buckets[i] = NULL;
    names->buckets = buckets;
    names->size = size;
    return true;
}

/* One bucket more: what belongs there leaves the one it was in till now. */
static void split(struct redlock__names *names)
{
    uint32_t half = names->size / 2;
    struct redlock__name **from = &names->buckets[names->used - half], *name;

    names->used++;
    while ((name = *from) != NULL) {
        struct redlock__name **to = bucket_of(names, name->hash);

        if (to == &names->buckets[names->used - 1]) {
            *from = name->next;
            name->next = *to;
            *to = name;
        } else {
            from = &name->next;
        }
    }
}

static bool grow(struct redlock__names *names)
{
    if (names->used == 0) {
        if (!make_room(names))
            return false;
        names->used = names->size;
    }
    if (names->count >= names->used && (names->used < names->size || make_room(names)))
        split(names);
    return true;
}

static struct redlock__name *find(const struct redlock__names *names, uint64_t hash,
                                  const void *key, size_t len)
{
    struct redlock__name *name = *bucket_of(names, hash);

    while (name != NULL &&
           (name->hash != hash || name->len != len || memcmp(name->key, key, len) != 0))
        name = name->next;
    return name;
}

/* NULL: for names of that length none is kept. */
static struct redlock__pool *pool_of(struct redlock__names *names, size_t len)
{
    size_t step = (len - 1) / REDLOCK__NAME_STEP;

    return step < REDLOCK__NAME_CLASSES ? &names->pools[step] : NULL;
}

static struct redlock__name *name_new(struct redlock__names *names, size_t len)
{
    size_t steps = (len + REDLOCK__NAME_STEP - 1) / REDLOCK__NAME_STEP;
    struct redlock__pool *pool = pool_of(names, len);

    if (pool == NULL)
        return calloc(1, offsetof(struct redlock__name, key) + len);
    return redlock__pool_take(pool,
                              offsetof(struct redlock__name, key) + steps * REDLOCK__NAME_STEP);
}

static void name_free(struct redlock__names *names, struct redlock__name *name)
{
    struct redlock__pool *pool = pool_of(names, name->len);

    if (pool == NULL)
        free(name);
    else
        redlock__pool_give(pool, name);
}

struct redlock__name *redlock__name_ref(struct redlock__names *names, const void *key, size_t len)
{
    uint64_t hash = hash_of(key, len);
    struct redlock__name *name, **bucket;

    if (!grow(names))
        return NULL;
    name = find(names, hash, key, len);
    if (name == NULL) {
        name = name_new(names, len);
        if (name == NULL)
            return NULL;
        name->hash = hash;
        name->len = (uint16_t)len;
        memcpy(name->key, key, len);
        bucket = bucket_of(names, hash);
        name->next = *bucket;
        *bucket = name;
        names->count++;
    }
    name->refs++;
    return name;
}

void redlock__name_unref(struct redlock__names *names, struct redlock__name *name)
{
    struct redlock__name **link = bucket_of(names, name->hash);

    if (--name->refs > 0)
        return;
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    names->count--;
    name_free(names, name);
}

void redlock__names_free(struct redlock__names *names)
{
    for (uint32_t i = 0; i < names->used; i++)
        while (names->buckets[i] != NULL) {
            struct redlock__name *name = names->buckets[i];
            names->buckets[i] = name->next;
            free(name);
        }
    for (uint32_t i = 0; i < REDLOCK__NAME_CLASSES; i++)
        redlock__pool_drain(&names->pools[i]);
    free(names->buckets);
    *names = (struct redlock__names){0};
}

/* ---- the queue of a name ------------------------------------------------ */

static void insert(struct redlock__lease *lease, bool first)
{
    struct redlock__name *name = lease->name;

    lease->queued = true;
    lease->next_waiting = NULL;
    if (name->head == NULL) {
        name->head = name->tail = lease;
    } else if (first) {
        lease->next_waiting = name->head;
        name->head = lease;
    } else {
        name->tail->next_waiting = lease;
        name->tail = lease;
    }
}

void redlock__queue_join(struct redlock__lease *lease)
{
    if (!lease->queued)
        insert(lease, false);
}

void redlock__queue_leave(struct redlock__lease *lease)
{
    struct redlock__name *name = lease->name;
    struct redlock__lease *before = NULL, *at = name->head;

    if (!lease->queued)
        return;
    while (at != lease) {
        before = at;
        at = at->next_waiting;
    }
    if (before == NULL)
        name->head = lease->next_waiting;
    else
        before->next_waiting = lease->next_waiting;
    if (name->tail == lease)
        name->tail = before;
    lease->queued = false;
    lease->next_waiting = NULL;
}

void redlock__queue_take(struct redlock__lease *lease)
{
    redlock__queue_leave(lease);
    lease->name->owner = lease;
}

void redlock__queue_yield(struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__name *name = lease->name;

    if (name->owner != lease)
        return;
    name->owner = NULL;
    if (name->head == NULL) {
        name->handovers = 0;
        if (now_ns < name->crowded_ns) /* whoever comes next finds others before it */
            name->not_before_ns =
                redlock__add(now_ns, redlock__ms_to_ns(lease->config.retry_base_ms));
        return;
    }
    if (++name->handovers < REDLOCK__HANDOVERS)
        return;
    name->handovers = 0;
    name->not_before_ns = redlock__add(now_ns, redlock__ms_to_ns(name->head->config.retry_base_ms));
}

bool redlock__queue_follows(const struct redlock__name *name, const struct redlock__lease *lease,
                            int64_t now_ns)
{
    if (name->owner != NULL && name->owner != lease)
        return true;
    return name->head != NULL && name->head != lease && name->head->retry_ns <= now_ns &&
           (name->owner == NULL ? name->not_before_ns <= now_ns
                                : name->handovers + 1 < REDLOCK__HANDOVERS);
}

void redlock__queue_rejoin(struct redlock__lease *lease, bool first)
{
    if (lease->name->owner == lease)
        lease->name->owner = NULL;
    if (!lease->queued)
        insert(lease, first);
}

int64_t redlock__queue_due(const struct redlock__name *name)
{
    if (name->owner != NULL || name->head == NULL)
        return REDLOCK__NEVER;
    return redlock__max(name->head->retry_ns, name->not_before_ns);
}
