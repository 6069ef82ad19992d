/*
 * Random numbers that come again: from one seed, streams by name, so that what one part draws
 * doesn't depend on how much another part drew.
 */
#ifndef CHAOS_SEED_H
#define CHAOS_SEED_H

#include <stdint.h>

struct stream {
    uint64_t state;
};

struct stream stream_of(uint64_t seed, const char *name);
uint64_t stream_next(struct stream *stream);
uint64_t stream_below(struct stream *stream, uint64_t limit);               /* 0 .. limit - 1 */
int64_t stream_between(struct stream *stream, int64_t least, int64_t most); /* both can come */
double stream_unit(struct stream *stream);                                  /* 0 <= x < 1 */

#endif
