/*
 * A checker that can't fire proves nothing. Each one is made to fire here by breaking one
 * assumption, and where it tells something, the same world without the fault is clean.
 */
#include <string.h>

#include "scenario.h"
#include "swarm.h"
#include "validity.h"

static void unheard(struct sim *sim, void *context)
{
    (void)sim;
    (void)context;
}

/* Something happens, so that the checkers look. */
static void look(struct sim *sim)
{
    sim_at(sim, 0, unheard, NULL);
    sim_run(sim, 0);
}

/* From now on the client's driver forgets its timers. */
static void forget_timers(struct sim *sim, uint32_t client)
{
    sim->clients[client].wake = UINT64_MAX;
    sim->clients[client].wake_ns = 0;
}

static void end_with(struct sim *sim, uint32_t check)
{
    ck_assert_uint_gt(sim_violations(sim, check), 0);
    ck_assert_ptr_nonnull(sim_violation(sim));
    ck_assert_ptr_nonnull(strstr(sim_violation(sim), "seed 0x"));
    sim_free(sim);
}

START_TEST(two_holders_are_seen_when_a_quorum_is_two_of_five)
{
    struct sim_config config = sim_defaults(5, 2, 1);
    config.quorum = 2;
    struct sim *sim = sim_new(&config);
    for (int i = 0; i < 5; i++)
        sim_refuse(sim, i < 2 ? 1 : 0, i, true); /* A reaches 0 and 1, B the rest */
    scenario_connect(sim);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    ck_assert_uint_eq(sim_violations(sim, SIM_CHECK_EXCLUSIVE), 0);
    ck_assert_int_eq(sim_lock_now(sim, 1, "k", 1000)->result, REDLOCK_OK);
    end_with(sim, SIM_CHECK_EXCLUSIVE);
}
END_TEST

START_TEST(two_holders_are_seen_when_a_primary_forgets)
{
    struct sim *sim = scenario_new(3, 2, 2);
    sim_refuse(sim, 0, 2, true);
    sim_cut(sim, 0, 2, false);
    sim_run(sim, SIM_MS);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    sim_restart_server(sim, 1, false);
    sim_run(sim, 200 * SIM_MS);
    ck_assert_int_eq(sim_lock_now(sim, 1, "k", 1000)->result, REDLOCK_OK);
    end_with(sim, SIM_CHECK_EXCLUSIVE);
}
END_TEST

/* A lease held to its end on clocks of these rates. */
static struct sim *held_to_the_end(uint32_t drift_ppm, int64_t client_ppm, int64_t server_ppm,
                                   bool early, uint64_t seed)
{
    struct sim_config config = sim_defaults(3, 1, seed);
    config.drift_ppm = drift_ppm;
    config.early = early;
    struct sim *sim = sim_new(&config);
    sim->clients[0].rate_ppm = client_ppm;
    for (uint32_t i = 0; i < 3; i++)
        sim_server_rate(&sim->servers[i], server_ppm, 0);
    scenario_connect(sim);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 2000)->result, REDLOCK_OK);
    sim_run(sim, 3 * SIM_S);
    return sim;
}

START_TEST(claims_beyond_the_keys_are_seen_without_drift_allowance_on_fast_primaries)
{
    end_with(held_to_the_end(0, 0, 50000, false, 3), SIM_CHECK_VALIDITY);
}
END_TEST

START_TEST(claims_beyond_the_keys_are_seen_without_drift_allowance_on_a_slow_client)
{
    end_with(held_to_the_end(0, -50000, 0, false, 4), SIM_CHECK_VALIDITY);
}
END_TEST

START_TEST(claims_beyond_the_keys_are_seen_when_drift_is_over_the_allowance)
{
    end_with(held_to_the_end(10000, -8000, 8000, true, 5), SIM_CHECK_VALIDITY);
}
END_TEST

START_TEST(drift_within_the_allowance_is_clean)
{
    for (int64_t of_client = 0; of_client <= 10000; of_client += 1000) {
        struct sim *sim = held_to_the_end(10000, -of_client, 10000 - of_client, true,
                                          (uint64_t)(_i * 100 + of_client));
        ck_assert_ptr_null(sim_violation(sim));
        sim_free(sim);
    }
}
END_TEST

START_TEST(claims_beyond_the_keys_are_seen_when_clocks_step_forward)
{
    struct sim *sim = scenario_new(3, 1, 6);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    sim_server_step(&sim->servers[0], SIM_S);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_ptr_null(sim_violation(sim)); /* one is no matter */
    sim_server_step(&sim->servers[1], SIM_S);
    sim_run(sim, 5 * SIM_MS);
    end_with(sim, SIM_CHECK_VALIDITY);
}
END_TEST

START_TEST(claims_beyond_the_keys_are_seen_when_a_majority_vanishes)
{
    struct sim *sim = scenario_new(5, 1, 7);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_ptr_null(sim_violation(sim));
        sim_vanish(sim, i, "k");
        look(sim);
    }
    end_with(sim, SIM_CHECK_VALIDITY);
}
END_TEST

START_TEST(a_key_whose_removal_was_eaten_is_an_orphan)
{
    struct sim *sim = scenario_new(3, 1, 8);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 60000);
    sim_run(sim, 5 * SIM_MS);
    sim_trigger(sim, 0, 2, SIM_RELEASE, 1, SIM_SWALLOW_REQUEST);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 100 * SIM_MS);
    sim_check_orphans(sim);
    end_with(sim, SIM_CHECK_ORPHANS);
}
END_TEST

START_TEST(a_key_left_behind_by_intent_is_an_orphan)
{
    struct sim *sim = scenario_new(3, 1, 9);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 60000);
    sim_check_orphans(sim);
    ck_assert_ptr_null(sim_violation(sim)); /* its owner lives */
    sim_forget(sim, lock, true);
    sim_check_orphans(sim);
    end_with(sim, SIM_CHECK_ORPHANS);
}
END_TEST

START_TEST(an_operation_without_timers_runs_beyond_its_deadline)
{
    struct sim *sim = scenario_new(3, 1, 10);
    struct redlock__lease_config config = sim_lock_config(1000);
    for (uint32_t i = 0; i < 3; i++)
        sim_freeze_server(sim, i);
    ck_assert_ptr_nonnull(sim_acquire(sim, 0, "k", &config, NULL));
    forget_timers(sim, 0);
    sim_run(sim, 2 * SIM_S);
    look(sim);
    end_with(sim, SIM_CHECK_BOUNDS);
}
END_TEST

START_TEST(a_loss_without_timers_is_told_too_late)
{
    struct sim *sim = scenario_new(3, 1, 11);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    forget_timers(sim, 0);
    sim_run(sim, 2 * SIM_S);
    look(sim);
    end_with(sim, SIM_CHECK_LOST);
}
END_TEST

START_TEST(a_loss_that_is_told_twice_is_seen)
{
    struct sim *sim = scenario_new(3, 1, 12);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 100);
    lock->lost = 1; /* as if it had been told before */
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(lock->lost, 2);
    end_with(sim, SIM_CHECK_LOST);
}
END_TEST

START_TEST(a_hold_that_is_taken_back_is_seen)
{
    struct sim *sim = scenario_new(3, 1, 17);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    lock->over = true; /* as if it had run out between two events */
    look(sim);
    end_with(sim, SIM_CHECK_LOST);
}
END_TEST

START_TEST(an_event_of_a_lock_nobody_knows_is_seen)
{
    struct sim *sim = scenario_new(3, 1, 13);
    struct redlock__lease_config config = sim_lock_config(1000);
    struct redlock__lease *lease = NULL;
    ck_assert_int_eq(redlock__engine_acquire(sim->clients[0].engine, "k", 1, &config,
                                             sim_clock(&sim->clients[0], sim->now_ns), &lease),
                     REDLOCK_OK);
    sim_drive(sim, 0);
    sim_run(sim, 50 * SIM_MS);
    end_with(sim, SIM_CHECK_EVENTS);
}
END_TEST

START_TEST(commands_that_could_touch_another_owners_key_are_seen)
{
    static const char *const foul[] = {"*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n", "*1\r\n$8\r\nFLUSHALL\r\n",
                                       "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", "GET k\r\n"};
    struct sim *sim = scenario_new(3, 1, 14);
    sim_net_send(sim, sim_conn_of(sim, 0, 0), foul[_i], strlen(foul[_i]));
    sim_run(sim, 10 * SIM_MS);
    end_with(sim, SIM_CHECK_WIRE);
}
END_TEST

START_TEST(a_deadline_that_stays_due_is_seen)
{
    struct sim *sim = scenario_new(3, 1, 15);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    sim->clients[0].clock_ns += 3600 * SIM_S;
    for (int i = 0; i < 300; i++)
        sim_drive(sim, 0);
    end_with(sim, SIM_CHECK_SPIN);
}
END_TEST

START_TEST(a_checker_that_is_off_is_silent)
{
    struct sim *sim = scenario_new(3, 1, 16);
    sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY;
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 1000)->result, REDLOCK_OK);
    for (uint32_t i = 0; i < 3; i++)
        sim_vanish(sim, i, "k");
    sim_run(sim, 5 * SIM_MS);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("checkers");
    TCase *t = scenario_case(suite, "fire", 20);

    tcase_add_test(t, two_holders_are_seen_when_a_quorum_is_two_of_five);
    tcase_add_test(t, two_holders_are_seen_when_a_primary_forgets);
    tcase_add_test(t, claims_beyond_the_keys_are_seen_without_drift_allowance_on_fast_primaries);
    tcase_add_test(t, claims_beyond_the_keys_are_seen_without_drift_allowance_on_a_slow_client);
    tcase_add_test(t, claims_beyond_the_keys_are_seen_when_drift_is_over_the_allowance);
    tcase_add_test(t, claims_beyond_the_keys_are_seen_when_clocks_step_forward);
    tcase_add_test(t, claims_beyond_the_keys_are_seen_when_a_majority_vanishes);
    tcase_add_test(t, a_key_whose_removal_was_eaten_is_an_orphan);
    tcase_add_test(t, a_key_left_behind_by_intent_is_an_orphan);
    tcase_add_test(t, an_operation_without_timers_runs_beyond_its_deadline);
    tcase_add_test(t, a_loss_without_timers_is_told_too_late);
    tcase_add_test(t, a_loss_that_is_told_twice_is_seen);
    tcase_add_test(t, a_hold_that_is_taken_back_is_seen);
    tcase_add_test(t, an_event_of_a_lock_nobody_knows_is_seen);
    tcase_add_loop_test(t, commands_that_could_touch_another_owners_key_are_seen, 0, 4);
    tcase_add_test(t, a_deadline_that_stays_due_is_seen);

    TCase *quiet = scenario_case(suite, "are silent", 60);
    tcase_add_loop_test(quiet, drift_within_the_allowance_is_clean, 0, 20);
    tcase_add_test(quiet, a_checker_that_is_off_is_silent);
    return scenario_main(suite);
}
