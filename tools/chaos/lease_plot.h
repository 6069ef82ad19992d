/*
 * How leases are drawn, and which: not more than LEASE_BOXES of a chapter, those of violations
 * first, then those just before and after them of the same name, then an even choice of the rest.
 */
#ifndef CHAOS_LEASE_PLOT_H
#define CHAOS_LEASE_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "plot.h"

struct lease;

enum {
    LEASE_BOXES = 2500,
    LEASE_COLOURS = 6 /* names; the others share one */
};

enum lease_mark {
    LEASE_HIDDEN = 0,
    LEASE_SHOWN,
    LEASE_VIOLATING
};

struct lease_choice {
    unsigned char *mark; /* enum lease_mark of each */
    size_t shown;
    size_t *order; /* all leases, by name and then by time */
    const char *names[LEASE_COLOURS];
    size_t name_count; /* contended names, LEASE_COLOURS at most */
};

/* False: no memory. Free it in either case. */
bool lease_choose(struct lease_choice *choice, const struct analysis *analysis);
void lease_choice_free(struct lease_choice *choice);

/* 1 .. LEASE_COLOURS; 0: one of the others. */
unsigned lease_colour(const struct lease_choice *choice, const char *name);

/* `middle` is that of the row. Details: the wait before and where others
 * could have it, for drawings of few. */
void lease_draw(const struct plot *plot, const struct lease_choice *choice, size_t which,
                double middle, bool details);

#endif
