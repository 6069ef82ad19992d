/*
 * The table of a comparison: faults down, modes across, both in the order in which chapters bring
 * them. A fault that a mode doesn't know has no chapter and leaves a hole.
 */
#ifndef CHAOS_COMPARISON_H
#define CHAOS_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>

#include "report.h"

enum {
    COMPARISON_MEASURES = 8
};

/* What is put in each cell. */
struct comparison_measure {
    const char *title, *metric;
    bool harm; /* more than none of it is bad */
};
extern const struct comparison_measure comparison_measures[COMPARISON_MEASURES];

/* The first chapter from `from` on that begins a new row (mode); report->count: no more. */
size_t comparison_next_row(const struct report *report, size_t from);
size_t comparison_next_mode(const struct report *report, size_t from);
/* The metric as it was in the phase "fault"; what checkers found, in the whole run. NULL: not
 * known. */
const double *comparison_value(const struct chapter *chapter,
                               const struct comparison_measure *measure);
/* NULL: no such chapter */
const struct chapter *comparison_at(const struct report *report, const char *row, const char *mode);

#endif
