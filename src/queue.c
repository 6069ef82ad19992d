/*
 * See queue.h. A hash table of names, each with a circle of leases that wait: the last one knows
 * the first.
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

/* More than half of the buckets there is room for are in use; what belongs in one that isn't yet is
 * in the one it will split. */
static struct redlock__name **bucket_of(const struct redlock__names *names, uint64_t hash)
{
    uint32_t i = (uint32_t)(hash ^ hash >> 32) & (names->size - 1);

    return &names->buckets[i < names->used ? i : i - names->size / 2];
}

__attribute__((cold)) static bool make_room(struct redlock__names *names)
{
    uint32_t size = names->size == 0 ? FIRST_BUCKETS : 2 * names->size;
    struct redlock__name **buckets = realloc(names->buckets, size * sizeof(*buckets));

    if (buckets == NULL)
        return false;
    names->buckets = buckets;
    names->size = size;
    return true;
}

/* One bucket more: what belongs there leaves the one it was in till now. */
__attribute__((cold)) static void split(struct redlock__names *names)
{
    uint32_t half = names->size / 2;
    struct redlock__name **from = &names->buckets[names->used - half], *name;

    names->buckets[names->used++] = NULL;
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
        while (names->used < names->size)
            names->buckets[names->used++] = NULL;
    }
    if (names->count >= names->used && (names->used < names->size || make_room(names)))
        split(names);
    return true;
}

static struct redlock__name *find(struct redlock__name *name, uint64_t hash, const void *key,
                                  size_t len)
{
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

    redlock__pool_give(&names->others, name->others);
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
    bucket = bucket_of(names, hash);
    name = find(*bucket, hash, key, len);
    if (name == NULL) {
        name = name_new(names, len);
        if (name == NULL)
            return NULL;
        name->hash = hash;
        name->len = (uint16_t)len;
        memcpy(name->key, key, len);
        name->next = *bucket;
        *bucket = name;
        names->count++;
    }
    name->refs++;
    return name;
}

void redlock__name_unref(struct redlock__names *names, struct redlock__name *name)
{
    struct redlock__name **link;

    if (--name->refs > 0)
        return;
    for (link = bucket_of(names, name->hash); *link != name;)
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
            name_free(names, name);
        }
    for (uint32_t i = 0; i < REDLOCK__NAME_CLASSES; i++)
        redlock__pool_drain(&names->pools[i]);
    redlock__pool_drain(&names->others);
    free(names->buckets);
    *names = (struct redlock__names){0};
}

/* ---- others --------------------------------------------------------------- */

const struct redlock__others redlock__no_others = {0};

struct redlock__others *redlock__name_others(struct redlock__names *names,
                                             struct redlock__name *name)
{
    if (name->others == NULL)
        name->others = redlock__pool_take(&names->others, sizeof *name->others);
    return name->others;
}

/* ---- the queue of a name ------------------------------------------------ */

static void insert(struct redlock__lease *lease, bool first)
{
    struct redlock__name *name = lease->name;

    lease->queued = true;
    if (name->last == NULL) {
        lease->next_waiting = name->last = lease;
        return;
    }
    lease->next_waiting = name->last->next_waiting;
    name->last->next_waiting = lease;
    if (!first)
        name->last = lease;
}

void redlock__queue_join(struct redlock__lease *lease)
{
    if (!lease->queued)
        insert(lease, false);
}

void redlock__queue_leave(struct redlock__lease *lease)
{
    struct redlock__name *name = lease->name;
    struct redlock__lease *before = name->last;

    if (!lease->queued)
        return;
    while (before->next_waiting != lease)
        before = before->next_waiting;
    before->next_waiting = lease->next_waiting;
    if (before == lease)
        name->last = NULL;
    else if (name->last == lease)
        name->last = before;
    lease->queued = false;
    lease->next_waiting = NULL;
}

void redlock__queue_take(struct redlock__lease *lease)
{
    redlock__queue_leave(lease);
    lease->name->owner = lease;
}

/* The name is left alone for this lease's base delay. */
static void leave_alone(struct redlock__names *names, struct redlock__name *name,
                        const struct redlock__lease *lease, int64_t now_ns)
{
    struct redlock__others *others = redlock__name_others(names, name);

    if (others != NULL)
        others->not_before_ns =
            redlock__add(now_ns, redlock__ms_to_ns(lease->terms->retry_base_ms));
}

void redlock__queue_yield(struct redlock__names *names, struct redlock__lease *lease,
                          int64_t now_ns)
{
    struct redlock__name *name = lease->name;

    if (name->owner != lease)
        return;
    name->owner = NULL;
    if (name->last == NULL) {
        name->handovers = 0;
        if (now_ns < redlock__name_known(name)->crowded_ns)
            leave_alone(names, name, lease, now_ns); /* whoever comes next finds others before it */
        return;
    }
    if (++name->handovers < REDLOCK__HANDOVERS)
        return;
    name->handovers = 0;
    leave_alone(names, name, redlock__queue_head(name), now_ns);
}

bool redlock__queue_follows(const struct redlock__name *name, const struct redlock__lease *lease,
                            int64_t now_ns)
{
    const struct redlock__lease *head = redlock__queue_head(name);

    if (name->owner != NULL && name->owner != lease)
        return true;
    return head != NULL && head != lease && head->retry_ns <= now_ns &&
           (name->owner == NULL ? redlock__name_known(name)->not_before_ns <= now_ns
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
    if (name->owner != NULL || name->last == NULL)
        return REDLOCK__NEVER;
    return redlock__max(redlock__queue_head(name)->retry_ns,
                        redlock__name_known(name)->not_before_ns);
}
