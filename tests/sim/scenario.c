/*
 * See scenario.h.
 */
#include "scenario.h"

#include <stdlib.h>

#include "validity.h"

uint64_t scenario_seed(uint64_t otherwise)
{
    const char *text = getenv("REDLOCK_SIM_SEED");
    return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

struct sim *scenario_with(const struct sim_config *config)
{
    struct sim *sim = sim_new(config);
    scenario_connect(sim);
    return sim;
}

struct sim *scenario_new(uint32_t n, uint32_t clients, uint64_t seed)
{
    struct sim_config config = sim_defaults(n, clients, scenario_seed(seed));
    return scenario_with(&config);
}

void scenario_connect(struct sim *sim)
{
    sim_run(sim, 20 * SIM_MS);
}

void scenario_end(struct sim *sim)
{
    sim_check_orphans(sim);
    if (sim_violation(sim) != NULL)
        ck_abort_msg("%s", sim_violation(sim));
    sim_free(sim);
}

struct sim_lock *scenario_hold_all(struct sim *sim, int64_t ttl_ms)
{
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", ttl_ms);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    /* Grants read after the verdict are counted after the next successful extend. */
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(redlock__count(lock->lease->counted), sim->config.n);
    return lock;
}

struct sim_lock *scenario_hold_renewed(struct sim *sim, uint32_t client, int64_t ttl_ms)
{
    struct redlock__lease_config config = sim_lock_config(ttl_ms);
    config.renew = true;
    struct sim_lock *lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    return lock;
}

TCase *scenario_case(Suite *suite, const char *name, double seconds)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, seconds);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int scenario_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
