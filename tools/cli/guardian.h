/* The process between the wrapper and the command. */
#ifndef CLI_GUARDIAN_H
#define CLI_GUARDIAN_H

#include <stdint.h>
#include <sys/types.h>

#include "signals.h"

struct guardian_plan {
    char **argv; /* the command */
    const char *key;
    int64_t grace_ns, margin_ns;
    const struct signals *signals; /* what the command is to find */
    int quiet, json;
};

/*
 * Forks it. To be called with all signals blocked, and before there are threads. Returns its
 * process id with *channel, the wrapper's end, set; or -1.
 */
pid_t guardian_start(const struct guardian_plan *plan, int *channel);

#endif
