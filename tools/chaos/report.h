/*
 * What a person or a program reads after a run: a table on the terminal, report.json, report.html.
 * Files appear whole or not at all.
 */
#ifndef CHAOS_REPORT_H
#define CHAOS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct analysis;

struct chapter { /* one scenario of a report */
    const char *scenario;
    const char *mode;    /* redlock, single, single-replica, single-replica-wait */
    const char *row;     /* in a comparison: the fault; else NULL */
    const char *history; /* path, relative to the report */
    const char *again;   /* the command that replays it */
    const struct analysis *analysis;
};

struct report {
    const char *title;
    const char *command;
    const struct chapter *chapters;
    size_t count;
    bool comparison; /* rows by faults, columns by modes */
};

/* The worst exit status of all: 1 before 3 before 2; 0. */
int report_status(const struct report *report);

void report_print(const struct report *report, FILE *stream, bool colour);
/* 0, or an errno; nothing is left half-written. */
int report_json(const struct report *report, const char *path);
int report_html(const struct report *report, const char *path);

#endif
