/* A list of chunks as they came: pieces of one read have one due time. */
#include "byte_queue.h"

#include <stdlib.h>
#include <string.h>

struct byte_queue_chunk {
    struct byte_queue_chunk *next;
    uint64_t begin;
    int64_t due;
    size_t len;
    char data[];
};

static void free_chunk(struct byte_queue *queue, struct byte_queue_chunk *chunk, size_t size)
{
    queue->memory -= sizeof *chunk + size;
    free(chunk);
}

bool byte_queue_put(struct byte_queue *queue, const char *data, size_t n, int64_t due)
{
    struct byte_queue_chunk *chunk;

    if (n == 0)
        return true;
    chunk = malloc(sizeof *chunk + n);
    if (chunk == NULL)
        return false;
    if (due > queue->latest)
        queue->latest = due;
    *chunk = (struct byte_queue_chunk){.begin = queue->in, .due = queue->latest, .len = n};
    memcpy(chunk->data, data, n);
    if (queue->last == NULL)
        queue->first = chunk;
    else
        queue->last->next = chunk;
    queue->last = chunk;
    queue->in += n;
    queue->memory += sizeof *chunk + n;
    return true;
}

size_t byte_queue_due(const struct byte_queue *queue, int64_t now, const char **data)
{
    const struct byte_queue_chunk *first = queue->first;
    size_t gone;

    if (first == NULL || first->due > now)
        return 0;
    gone = (size_t)(queue->out - first->begin);
    *data = first->data + gone;
    return first->len - gone;
}

int64_t byte_queue_next(const struct byte_queue *queue)
{
    return queue->first == NULL ? INT64_MAX : queue->first->due;
}

void byte_queue_leave(struct byte_queue *queue, size_t n)
{
    struct byte_queue_chunk *first = queue->first;

    queue->out += n;
    if (first == NULL || queue->out < first->begin + first->len)
        return;
    queue->first = first->next;
    if (queue->first == NULL)
        queue->last = NULL;
    free_chunk(queue, first, first->len);
}

uint64_t byte_queue_cut(struct byte_queue *queue, uint64_t position)
{
    struct byte_queue_chunk **at = &queue->first, *chunk, *next;
    uint64_t lost = queue->in - position;

    queue->last = NULL;
    while (*at != NULL && (*at)->begin < position) {
        queue->last = *at;
        at = &(*at)->next;
    }
    chunk = *at;
    *at = NULL;
    for (; chunk != NULL; chunk = next) {
        next = chunk->next;
        free_chunk(queue, chunk, chunk->len);
    }
    if (queue->last != NULL && queue->last->begin + queue->last->len > position) {
        size_t kept = (size_t)(position - queue->last->begin);
        queue->memory -= queue->last->len - kept;
        queue->last->len = kept;
    }
    queue->in = position;
    byte_queue_leave(queue, 0); /* what is left of the first may have left already */
    return lost;
}

void byte_queue_hurry(struct byte_queue *queue)
{
    queue->latest = 0;
    for (struct byte_queue_chunk *chunk = queue->first; chunk != NULL; chunk = chunk->next)
        chunk->due = 0;
}
