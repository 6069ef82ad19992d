/* SplitMix64 (Steele, Lea, Flood 2014); a stream starts from the seed and the FNV-1a hash of its
 * name. */
#include "seed.h"

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct stream stream_of(uint64_t seed, const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return (struct stream){.state = mix(seed) ^ hash};
}

uint64_t stream_next(struct stream *stream)
{
    stream->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(stream->state);
}

uint64_t stream_below(struct stream *stream, uint64_t limit)
{
    uint64_t uneven = (UINT64_MAX - limit + 1) % limit; /* so many numbers come once too often */
    uint64_t drawn;

    do
        drawn = stream_next(stream);
    while (drawn < uneven);
    return drawn % limit;
}

int64_t stream_between(struct stream *stream, int64_t least, int64_t most)
{
    return least + (int64_t)stream_below(stream, (uint64_t)(most - least) + 1);
}

double stream_unit(struct stream *stream)
{
    return (double)(stream_next(stream) >> 11) * 0x1p-53;
}
