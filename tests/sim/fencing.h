/*
 * Fenced locks on one name, taken by several clients while replies get lost, bytes wait, and lock
 * keys and counters vanish at any moment; all from one seed. What is looked for is a token that
 * doesn't rise.
 */
#ifndef SIM_FENCING_H
#define SIM_FENCING_H

#include "sim.h"

struct fencing_config {
    enum sim_settle settle;  /* of the primaries */
    enum sim_count count_up; /* as well */
    bool forget;             /* primaries restart empty, too */
    bool rebase;             /* restart with all they had, and a base above all floors */
    bool unguarded_recovery; /* what forgot is trusted at once, with the numbers it has */
};

struct fencing_result {
    char violation[256]; /* "": none */
    uint64_t acquired, settled;
    uint64_t transactions;      /* that set a lock on a primary */
    uint64_t forgot, recovered; /* restarts; primaries that have a base of a later run at the end */
};

struct fencing_result fencing_run(uint64_t seed, const struct fencing_config *config);

/* Markers, bases and floors on a primary, as redlock_init() makes them; the number of its base. */
void fencing_mark(struct sim *sim, uint32_t node, int64_t number);

#endif
