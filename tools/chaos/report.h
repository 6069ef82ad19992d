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
/* What report_json() writes, to a stream. 0, or an errno. */
int report_print_json(const struct report *report, FILE *stream);
/*
 * Both files: 0, or an errno; then nothing new is there, and what was there before still is.
 *
 * report.json has "schema": 1. Fields may be added under that number; none changes its meaning or
 * goes. What can't be had is null. Times are ns from the begin of the chapter's run.
 *
 *   schema title command status(0-3) made_s(Unix time)
 *   environment{kernel machine cpus version jansson}
 *   chapters[]
 *     scenario mode row(null: not of a comparison) verdict(expected|unsafe|inconclusive|
 *     unavailable) reason history again run{}(the record) begin_ns(CLOCK_MONOTONIC) duration_ns
 *     interrupted records
 *     counts{leases probes points}
 *     metrics{phase{name: number}}   phase "": the whole run
 *     checkers[]{id(C1-C10) title ran checked found}
 *     expectations[]{metric phase op value kind text met actual}
 *     violations[]{checker t_ns text records[] leases[]{worker try name owner}}
 *     violations_found
 *     phases[]{name begin_ns end_ns}
 *     faults[]{fault action text nodes[] begin_ns end_ns verified}
 *
 * The same field by field: docs/harness-report.md.
 */
int report_json(const struct report *report, const char *path);
int report_html(const struct report *report, const char *path);

#endif
