/* What run and compare have in common: one play after another, and a report of them all. */
#ifndef CHAOS_SERIES_H
#define CHAOS_SERIES_H

#include "args.h"

/* Exit status. argc, argv: as given, for the report. */
int series_run(const struct args *args, int argc, char **argv);
int series_compare(const struct args *args, int argc, char **argv);
/* Judges these files. */
int series_check(const struct args *args);

#endif
