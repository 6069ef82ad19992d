/* See comparison.h. A report has some dozens of chapters, so they are simply looked through. */
#include "comparison.h"

#include <string.h>

#include "analysis.h"

const struct comparison_measure comparison_measures[COMPARISON_MEASURES] = {
    {"available", "probe.availability", false},
    {"acquire p50", "acquire.p50_ms", false},
    {"acquire p99", "acquire.p99_ms", false},
    {"overlaps", "c1.overlaps", true},
    {"stale, unfenced", "stale.plain", true},
    {"stale, fenced", "c5.accepted_stale", true},
    {"orphans", "c6.orphans", true},
    {"longest outage", "probe.outage_ms", false},
};

static bool is_first_row(const struct report *report, size_t which)
{
    if (report->chapters[which].row == NULL)
        return false;
    for (size_t i = 0; i < which; i++)
        if (report->chapters[i].row != NULL &&
            strcmp(report->chapters[i].row, report->chapters[which].row) == 0)
            return false;
    return true;
}

static bool is_first_mode(const struct report *report, size_t which)
{
    if (report->chapters[which].row == NULL)
        return false;
    for (size_t i = 0; i < which; i++)
        if (report->chapters[i].row != NULL &&
            strcmp(report->chapters[i].mode, report->chapters[which].mode) == 0)
            return false;
    return true;
}

size_t comparison_next_row(const struct report *report, size_t from)
{
    while (from < report->count && !is_first_row(report, from))
        from++;
    return from;
}

size_t comparison_next_mode(const struct report *report, size_t from)
{
    while (from < report->count && !is_first_mode(report, from))
        from++;
    return from;
}

/* What checkers find is of the whole run; of a rate or a time that would be another thing. */
const double *comparison_value(const struct chapter *chapter,
                               const struct comparison_measure *measure)
{
    const double *value = analysis_metric(chapter->analysis, measure->metric, "fault");
    const char *metric = measure->metric;
    bool checker = metric[0] == 'c' && metric[1] >= '0' && metric[1] <= '9';

    if (value == NULL && (checker || strncmp(metric, "stale.", 6) == 0))
        value = analysis_metric(chapter->analysis, metric, "");
    return value;
}

const struct chapter *comparison_at(const struct report *report, const char *row, const char *mode)
{
    for (size_t i = 0; i < report->count; i++) {
        const struct chapter *chapter = &report->chapters[i];
        if (chapter->row != NULL && strcmp(chapter->row, row) == 0 &&
            strcmp(chapter->mode, mode) == 0)
            return chapter;
    }
    return NULL;
}
