/*
 * See hist.h. Octave 0 has the values below 128 as they are; octave o >= 1 those from 128 << (o-1)
 * to 256 << (o-1), in 128 parts of 1 << (o-1) each.
 */
#include "hist.h"

#include <math.h>
#include <string.h>

enum {
    PARTS_LOG2 = 7,
    BUCKETS = (HIST_OCTAVES + 1) * HIST_PARTS
};

void hist_clear(struct hist *hist)
{
    memset(hist, 0, sizeof *hist);
}

static unsigned bucket_of(uint64_t value)
{
    unsigned octave, bucket;

    if (value < HIST_PARTS)
        return (unsigned)value;
    octave = 64 - (unsigned)__builtin_clzll(value) - PARTS_LOG2;
    if (octave > HIST_OCTAVES)
        return BUCKETS - 1;
    bucket = octave * HIST_PARTS + (unsigned)((value >> (octave - 1)) - HIST_PARTS);
    return bucket;
}

/* The largest value of a bucket. */
static int64_t top_of(unsigned bucket)
{
    unsigned octave = bucket / HIST_PARTS, part = bucket % HIST_PARTS;

    if (octave == 0)
        return part;
    return ((int64_t)(HIST_PARTS + part + 1) << (octave - 1)) - 1;
}

void hist_add(struct hist *hist, int64_t value_ns)
{
    if (value_ns < 0)
        value_ns = 0;
    if (hist->count == 0 || value_ns < hist->least_ns)
        hist->least_ns = value_ns;
    if (value_ns > hist->most_ns)
        hist->most_ns = value_ns;
    hist->count++;
    hist->total_ns += (uint64_t)value_ns;
    hist->buckets[bucket_of((uint64_t)value_ns)]++;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->least_ns < into->least_ns)
        into->least_ns = from->least_ns;
    if (from->most_ns > into->most_ns)
        into->most_ns = from->most_ns;
    into->count += from->count;
    into->total_ns += from->total_ns;
    for (unsigned i = 0; i < BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

int64_t hist_percentile_ns(const struct hist *hist, double p)
{
    uint64_t wanted = (uint64_t)ceil(p / 100 * (double)hist->count), seen = 0;

    if (wanted == 0)
        wanted = 1;
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= wanted)
            return top_of(i) < hist->most_ns && i < BUCKETS - 1 ? top_of(i) : hist->most_ns;
    }
    return hist->most_ns;
}

double hist_mean_ns(const struct hist *hist)
{
    return hist->count == 0 ? 0 : (double)hist->total_ns / (double)hist->count;
}
