/* For tests of the reports alone. Where the checkers are linked in, their functions are used. */
#ifndef WITHOUT_ANALYSIS_H
#define WITHOUT_ANALYSIS_H

#include <stddef.h>
#include <string.h>

#include "analysis.h"

__attribute__((weak)) const double *analysis_metric(const struct analysis *analysis,
                                                    const char *name, const char *phase)
{
    for (size_t i = 0; i < analysis->metric_count; i++)
        if (strcmp(analysis->metrics[i].name, name) == 0 &&
            strcmp(analysis->metrics[i].phase, phase) == 0)
            return &analysis->metrics[i].value;
    return NULL;
}

__attribute__((weak)) const char *verdict_name(enum verdict verdict)
{
    static const char *const names[] = {"as expected", "UNSAFE", "INCONCLUSIVE", "UNAVAILABLE"};

    return names[verdict];
}

#endif
