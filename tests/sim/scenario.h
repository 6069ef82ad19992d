/*
 * What every scenario test needs: a small world, the check that no checker fired, and a
 * main program. REDLOCK_SIM_SEED sets the seed of all worlds (latencies and jitter differ),
 * REDLOCK_SIM_TRACE prints what happens.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <check.h>

#include "sim.h"

uint64_t scenario_seed(uint64_t otherwise);

/* n primaries, ready clients; checkers on. */
struct sim *scenario_new(uint32_t n, uint32_t clients, uint64_t seed);
struct sim *scenario_with(const struct sim_config *config);
/* Lets the clients connect. */
void scenario_connect(struct sim *sim);
/* No checker fired, and no key of a forgotten lock is left; then it is freed. */
void scenario_end(struct sim *sim);

/* A lock of client 0 on "k" that all primaries granted and all count. */
struct sim_lock *scenario_hold_all(struct sim *sim, int64_t ttl_ms);
struct sim_lock *scenario_hold_renewed(struct sim *sim, uint32_t client, int64_t ttl_ms);

TCase *scenario_case(Suite *suite, const char *name, double seconds);
int scenario_main(Suite *suite);

#endif
