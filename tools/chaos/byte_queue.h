/*
 * Bytes on their way: in order, each with the time it may leave. Positions are counted from the
 * beginning of the stream.
 */
#ifndef CHAOS_BYTE_QUEUE_H
#define CHAOS_BYTE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct byte_queue_chunk;

/* Zero is an empty one. */
struct byte_queue {
    struct byte_queue_chunk *first, *last;
    uint64_t in, out; /* positions of what comes next and what leaves next */
    int64_t latest;   /* when the last byte may leave */
    size_t memory;    /* all that is in use, overhead included */
};

/* They leave no sooner than those before them. False: no memory. */
bool byte_queue_put(struct byte_queue *queue, const char *data, size_t n, int64_t due);
/* How many bytes may leave, beginning with *data; there may be more behind them. */
size_t byte_queue_due(const struct byte_queue *queue, int64_t now, const char **data);
/* When the first may; INT64_MAX: there is none. */
int64_t byte_queue_next(const struct byte_queue *queue);
void byte_queue_leave(struct byte_queue *queue, size_t n); /* n <= byte_queue_due() */
/* Forgets all from this position on, as if it hadn't come. Returns how many bytes. */
uint64_t byte_queue_cut(struct byte_queue *queue, uint64_t position);
void byte_queue_hurry(struct byte_queue *queue); /* all may leave at once */

#endif
