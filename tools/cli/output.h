/* Standard error, for a process that must not wait for who reads it. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Writes a line, newline included, to standard error, or drops it where there is no room: at once,
 * or for the patient after a moment. Threads: any; the library's must not be patient, for it
 * renews. Returns 0, or -1 if the line, or its end, was dropped.
 */
int output_report(const char *line, size_t length, int patient);

/* How many lines were dropped since the last that was written. That line is to say so, if another
 * can be written. */
int64_t output_dropped(void);

#endif
