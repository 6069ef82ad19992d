/*
 * Marking the primaries of a fleet (redlock_init in redlock.h), as a state the engine moves on:
 * waits for all connections, decides, writes, and is done.
 */
#ifndef REDLOCK__INIT_H
#define REDLOCK__INIT_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

struct redlock__init_config {
    bool no_leases_out, fence_base;
    uint32_t retire, replace; /* from 1; 0: none */
};

struct redlock__init {
    struct redlock__init_config config;
    int64_t gate_ns; /* waits for connections no longer */
    bool decided, done;
    int result;
    int64_t wait_ms;
    uint32_t written, rebased;     /* whose marker, whose base is being written */
    redlock_node_result results[]; /* n; addresses are the facade's to fill */
};

#endif
