/* What happened when: a row per node and per worker, faults across. */
#ifndef CHAOS_TIMELINE_H
#define CHAOS_TIMELINE_H

#include <stddef.h>

#include "lease_plot.h"

/* Marks of violations have the ids c<chapter>-m<number from 1> and link to c<chapter>-v<number>. */
void timeline_draw(const struct plot *plot, const struct lease_choice *choice);

/* A violation from near: its leases and the others of that name about then. Nothing for a violation
 * that isn't about leases. */
void timeline_draw_near(const struct plot *plot, const struct lease_choice *choice,
                        size_t violation);

#endif
