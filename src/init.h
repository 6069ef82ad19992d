/*
 * Marking the primaries of a fleet (redlock_init in redlock.h), as a state the engine moves on:
 * waits for all connections, reads what is there now, decides, writes the markers, reads again, and
 * writes the bases.
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

enum redlock__init_stage {
    REDLOCK__INIT_CONNECTING,
    REDLOCK__INIT_READING,
    REDLOCK__INIT_MARKING,
    REDLOCK__INIT_READING_AGAIN,
    REDLOCK__INIT_BASING
};

struct redlock__init {
    struct redlock__init_config config;
    enum redlock__init_stage stage;
    bool fence, done;         /* whether to prepare for fencing; it is over */
    int64_t gate_ns;          /* waits for connections no longer */
    int64_t asked_ns, due_ns; /* all were asked then; waits for answers no longer */
    int result;
    int64_t wait_ms;
    uint32_t written, rebased;     /* whose marker, whose base is being written */
    redlock_node_result results[]; /* n; addresses are the facade's to fill */
};

#endif
