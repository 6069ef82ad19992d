/* The measured: latencies, availability, fencing tokens, over the time axis of the timeline. */
#ifndef CHAOS_CHARTS_H
#define CHAOS_CHARTS_H

#include "lease_plot.h"

enum {
    LATENCY_DOTS = 1500,
    FENCE_DOTS = 1000
};

/* Each draws nothing if there is nothing to draw. Where there are too many dots, the slowest of
 * each few is shown; the number shown is returned. */
size_t charts_latency(const struct plot *plot);
void charts_availability(const struct plot *plot);
size_t charts_fences(const struct plot *plot, const struct lease_choice *choice);

#endif
