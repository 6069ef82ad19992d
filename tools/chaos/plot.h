/*
 * The frame that all drawings of a chapter share: one time axis, the faults as bands across, the
 * phases along the top. Drawings of one width lie exactly under one another.
 *
 * Coordinates are pixels of the drawing, y downwards. Numbers are written with two digits at most.
 */
#ifndef CHAOS_PLOT_H
#define CHAOS_PLOT_H

#include <stdint.h>
#include <stdio.h>

struct analysis;

enum {
    PLOT_WIDTH = 1180, /* of the whole drawing, for runs of up to a minute */
    PLOT_LEFT = 112,   /* what is left of the time axis: names of rows */
    PLOT_RIGHT = 66,   /* and right of it: numbers of rows */
    PLOT_PHASES = 22,  /* heights */
    PLOT_LANE = 19,
    PLOT_AXIS = 24
};

struct plot {
    FILE *stream;
    const struct analysis *analysis;
    size_t chapter; /* from 1: part of every id */
    int64_t begin_ns, end_ns;
    double width;
    double top, bottom; /* of what faults and the grid go across */
};

/* The whole run; wide enough to tell things apart, so that long runs scroll. */
struct plot plot_of(FILE *stream, const struct analysis *analysis, size_t chapter);

/* What lies outside is put at the border. */
double plot_x(const struct plot *plot, int64_t t);
/* The same, but as far outside as it is. */
double plot_x_free(const struct plot *plot, int64_t t);

/* Opens and ends the figure's scrolling container and its drawing. */
void plot_open(const struct plot *plot, double height, const char *kind, const char *title);
void plot_close(const struct plot *plot);

/* From top to bottom: vertical lines, with the seconds below. */
void plot_axis(const struct plot *plot);
/* From top to bottom, without words. */
void plot_bands(const struct plot *plot);
/* Names of phases, in a line whose top is y. */
void plot_phases(const struct plot *plot, double y);
/* How many lanes the labels of faults need. */
unsigned plot_lanes(const struct plot *plot);
/* The labels, with ids c<chapter>-f<fault>, in lanes from y downwards. */
void plot_fault_labels(const struct plot *plot, double y);
/* A row's name at the left, a baseline from there on. */
void plot_row(const struct plot *plot, double middle, const char *name);

#endif
