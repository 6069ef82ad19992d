/*
 * Clients that compete for one name while primaries restart and forget, all from one seed: clients
 * that live long and some that live for one lock, leases of different lengths, some left to their
 * ttl. What is looked for is a second holder.
 */
#ifndef SIM_AMNESIA_H
#define SIM_AMNESIA_H

#include "sim.h"

enum amnesia_kind {
    AMNESIA_EMPTY,    /* all data is gone */
    AMNESIA_FLUSHED,  /* so it is, but the process runs on */
    AMNESIA_DURABLE,  /* nothing is gone, as its marker promised */
    AMNESIA_PROMOTED, /* a replica takes the place: it has the marker, and no lock */
    AMNESIA_CORRECTED /* all data is gone, and its clock was 300 s behind when it booted */
};

struct amnesia_config {
    enum amnesia_kind kind;
    int64_t max_ttl_ms;
    int64_t guard_ms; /* REDLOCK_GUARD_AUTO: as it is meant to be */
    bool marked;
    bool credulous; /* whoever has a marker is taken for one who remembers */
};

struct amnesia_result {
    char violation[256];     /* "": none */
    uint64_t acquired, lost; /* locks */
    uint64_t forgot;         /* restarts while a lock was held */
};

struct amnesia_result amnesia_run(uint64_t seed, const struct amnesia_config *config);

/* Markers on all primaries, each naming its present run. */
void amnesia_mark(struct sim *sim, uint32_t node, bool durable);

#endif
