/*
 * See queue.h. A hash table of names, each with a singly linked list of leases.
 */
#include "queue.h"

#include <stdlib.h>
#include <string.h>

#include "validity.h"

static uint64_t hash_of(const unsigned char *key, size_t len)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ key[i]) * UINT64_C(1099511628211);
    return hash;
}

struct redlock__name *redlock__name_ref(struct redlock__names *names, const void *key, size_t len)
{
    uint64_t hash = hash_of(key, len);
    struct redlock__name **bucket = &names->buckets[hash % REDLOCK__NAME_BUCKETS];
    struct redlock__name *name;

    for (name = *bucket; name != NULL; name = name->next)
        if (name->hash == hash && name->len == len && memcmp(name->key, key, len) == 0)
            break;
    if (name == NULL) {
        name = calloc(1, sizeof *name + len);
        if (name == NULL)
            return NULL;
        name->hash = hash;
        name->len = len;
        memcpy(name->key, key, len);
        name->next = *bucket;
        *bucket = name;
    }
    name->refs++;
    return name;
}

void redlock__name_unref(struct redlock__names *names, struct redlock__name *name)
{
    struct redlock__name **link = &names->buckets[name->hash % REDLOCK__NAME_BUCKETS];

    if (--name->refs > 0)
        return;
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
    free(name);
}

void redlock__names_free(struct redlock__names *names)
{
    for (size_t i = 0; i < REDLOCK__NAME_BUCKETS; i++)
        while (names->buckets[i] != NULL) {
            struct redlock__name *name = names->buckets[i];
            names->buckets[i] = name->next;
            free(name);
        }
}

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
