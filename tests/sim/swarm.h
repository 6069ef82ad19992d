/*
 * Random applications under random faults, all from one seed, then a quiet phase in which
 * everything must work again and nothing may be left.
 */
#ifndef SIM_SWARM_H
#define SIM_SWARM_H

#include "sim.h"

enum {
    SWARM_CUTS = 1,     /* connections die, connects are refused */
    SWARM_HOLDS = 2,    /* bytes wait */
    SWARM_HOLES = 4,    /* bytes vanish, connects get no answer */
    SWARM_SERVERS = 8,  /* primaries freeze, and restart with their data */
    SWARM_CLIENTS = 16, /* clients freeze */
    SWARM_ERRORS = 32,  /* primaries refuse commands */
    SWARM_LATE = 64,    /* requests land after their connection's end */
    SWARM_SLOW = 128,   /* latencies up to the ttl */
    SWARM_KILLS = 256,  /* one client dies */
    SWARM_ALL = 511
};

struct swarm_result {
    char violation[256]; /* "": none */
    uint64_t hash;
    uint64_t steps;
    uint64_t acquired, extended, lost, released; /* of all clients */
};

/* faults: which kinds may happen; a seed uses a random subset. */
struct swarm_result swarm_run(uint64_t seed, uint32_t faults);

#endif
