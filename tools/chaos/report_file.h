/*
 * A file that appears whole or not at all: it is written beside its place under another name,
 * brought to the disk and then renamed.
 */
#ifndef CHAOS_REPORT_FILE_H
#define CHAOS_REPORT_FILE_H

#include <stdio.h>

/* Writes everything; 0 or an errno. What the stream itself notes needs no mention. */
typedef int report_writer(const void *context, FILE *stream);

/* 0, or an errno: then what was at `path` before still is, and nothing else is left. */
int report_file(const char *path, report_writer *writer, const void *context);

#endif
