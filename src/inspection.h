/*
 * "Who holds it, and for how long still?", asked of every primary with GET and PTTL.
 * Advisory: two reads, no lock.
 */
#ifndef REDLOCK__INSPECTION_H
#define REDLOCK__INSPECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "redlock.h"

struct redlock__name;

struct redlock__inspection {
    struct redlock__inspection *next; /* in the engine's list */
    struct redlock__name *name;
    uint32_t n;
    uint32_t requests; /* on their way, carrying this */
    uint32_t owed;     /* primaries still to answer */
    bool started;
    bool forgotten;  /* nobody will look; freed with the last request */
    int64_t gate_ns; /* starts no later */
    int64_t start_ns;
    redlock_node_inspection nodes[]; /* n; addresses are the facade's to fill */
};

/* A primary's answer to GET or PTTL, or SILENT, or DOWN. PTTL goes out behind GET. */
void redlock__inspection_answer(struct redlock__inspection *inspection, uint32_t node,
                                enum redlock__command command, const struct redlock__answer *answer,
                                int64_t now_ns);

/* The majority's verdict. */
void redlock__inspection_sum_up(const struct redlock__inspection *inspection, uint32_t quorum,
                                redlock_inspection *sum);

#endif
