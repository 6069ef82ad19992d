/* The command line of redlock-chaos. */
#ifndef CHAOS_ARGS_H
#define CHAOS_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime.h"
#include "scene.h"

/* Exit statuses, besides the verdicts of analysis.h. */
enum {
    EXIT_USAGE = 64,
    EXIT_MISSING = 69,  /* no engine, no server, no image */
    EXIT_INTERNAL = 70, /* the report could not be written, no memory */
    EXIT_SIGNAL = 128
};

enum command {
    COMMAND_RUN,
    COMMAND_COMPARE,
    COMMAND_LIST,
    COMMAND_CHECK,
    COMMAND_SWEEP
};

struct args {
    enum command command;
    enum runtime_kind runtime;
    uint64_t seed;
    bool seeded;
    bool mode_given;
    enum mode mode;
    bool quick, quiet, json;
    int64_t seconds; /* of the storm; 0: 600 */
    const char *out; /* NULL: named after the time */
    const char *server, *image;
    const char **peer; /* NULL-terminated, or NULL */
    char **names;      /* scenarios, rows, histories */
    int name_count;
};

/* -1: go on; else an exit status: help was shown, or what is wrong was said. */
int args_read(struct args *args, int argc, char **argv);
void args_free(struct args *args);

#endif
