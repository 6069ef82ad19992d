/*
 * Clocks of primaries that jump or run fast while locks are held, and a client's own clock that
 * stands still: which votes go, how much validity is left, and who holds what after it.
 *
 * Primaries here are marked, so that all of them count from the start.
 */
#include "amnesia.h"
#include "member.h"
#include "scenario.h"
#include "validity.h"

enum {
    MAX_TTL_MS = 30000
};

static struct sim *marked_with(uint32_t n, uint32_t clients, uint64_t seed, uint32_t drift_ppm)
{
    struct sim_config config = sim_defaults(n, clients, scenario_seed(seed));

    config.max_ttl_ms = MAX_TTL_MS;
    config.restart_guard_ms = REDLOCK_GUARD_AUTO;
    config.drift_ppm = drift_ppm;
    struct sim *sim = sim_new(&config);
    for (uint32_t i = 0; i < n; i++)
        amnesia_mark(sim, i, false);
    scenario_connect(sim);
    return sim;
}

static struct sim *marked(uint32_t n, uint32_t clients, uint64_t seed)
{
    return marked_with(n, clients, seed, 10000);
}

static redlock_node_health health(struct sim *sim, uint32_t client, uint32_t node)
{
    redlock_node_health health = {.state = REDLOCK_NODE_READY};
    redlock__engine_health(sim->clients[client].engine, node, &health,
                           sim_clock(&sim->clients[client], sim->now_ns));
    return health;
}

static uint32_t counting(struct sim *sim, uint32_t client)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        count += health(sim, client, i).counts != 0;
    return count;
}

static int margin(struct sim *sim, const struct sim_lock *lock)
{
    return redlock__lease_margin(lock->lease, sim_clock(&sim->clients[lock->client], sim->now_ns));
}

/* ---- steps -------------------------------------------------------------- */

START_TEST(a_step_takes_one_vote_and_leaves_the_lock_held)
{
    struct sim *sim = marked(5, 2, 7000 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 20000);
    int64_t deadline_ns = lock->lease->deadline_ns;

    ck_assert_int_eq(margin(sim, lock), 2);
    sim_server_step(&sim->servers[2], 30 * SIM_S);
    sim_run(sim, 2 * SIM_S);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(lock->lease->deadline_ns, deadline_ns);
    ck_assert_int_eq(margin(sim, lock), 1);
    ck_assert_int_eq(health(sim, 0, 2).counts, 0);
    ck_assert_ptr_nonnull(strstr(health(sim, 0, 2).standing, "stepped"));
    ck_assert_uint_eq(counting(sim, 0), 4);

    /* Nothing new is asked of it until all that it might have dropped early is over. */
    uint64_t sets = sim_count(sim, 2, SIM_SET);
    ck_assert_int_eq(sim_try(sim, 0, "other", 1000), REDLOCK_OK);
    ck_assert_uint_eq(sim_count(sim, 2, SIM_SET), sets);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, (MAX_TTL_MS + MAX_TTL_MS / 100 + 2000) * SIM_MS);
    ck_assert_int_eq(sim_try(sim, 0, "other", 1000), REDLOCK_OK);
    ck_assert_uint_eq(sim_count(sim, 2, SIM_SET), sets + 1);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_step_back_takes_nothing)
{
    struct sim *sim = marked(5, 1, 7100 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 20000);

    sim_server_step(&sim->servers[0], -30 * SIM_S);
    sim_run(sim, 2 * SIM_S);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(margin(sim, lock), 2);
    ck_assert_uint_eq(counting(sim, 0), 5);
    redlock_node_health seen = health(sim, 0, 0);
    ck_assert_int_lt(seen.step_us, -29000000);
    ck_assert_int_gt(seen.step_us, -31000000);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* On a bare quorum the lock goes with the vote: told, and before anybody else has it. */
START_TEST(a_step_on_a_bare_quorum_ends_the_lock)
{
    struct sim *sim = marked(5, 2, 7200 + (uint64_t)_i);

    sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY; /* up to the next sample: said so */
    sim_refuse(sim, 0, 3, true);
    sim_refuse(sim, 0, 4, true);
    sim_cut(sim, 0, 3, false);
    sim_cut(sim, 0, 4, false);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 20000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(margin(sim, lock), 0);
    sim_server_step(&sim->servers[1], 30 * SIM_S);
    sim_run(sim, 2 * SIM_S);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    sim_forget(sim, lock, false);
    sim_heal(sim);
    sim_run(sim, 2 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Nothing runs, and its clock doesn't either. */
static void pause_machine(struct sim *sim, uint32_t client, int64_t for_ns)
{
    sim_freeze_client(sim, client);
    sim_run(sim, for_ns);
    sim->clients[client].clock_ns -= for_ns;
    sim_thaw_client(sim, client);
}

/* A paused virtual machine whose clock did not go on: all primaries seem to have jumped. */
START_TEST(a_clock_of_ones_own_that_stood_still_shortens_and_takes_no_vote)
{
    struct sim *sim = marked(5, 1, 7300 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 20000);
    int64_t deadline_ns = lock->lease->deadline_ns;

    sim_run(sim, sim_between(&sim->random, 0, 1000) * SIM_MS);
    pause_machine(sim, 0, 3 * SIM_S);
    sim_run(sim, 2500 * SIM_MS);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_le(lock->lease->deadline_ns, deadline_ns - 3 * SIM_S);
    ck_assert_int_gt(lock->lease->deadline_ns, deadline_ns - 3 * SIM_S - 400 * SIM_MS);
    ck_assert_uint_eq(counting(sim, 0), 5);
    ck_assert_int_eq(margin(sim, lock), 2);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* The same for longer than the lease has left: it is over, and said so. */
START_TEST(a_clock_that_stood_still_for_longer_than_the_lease_ends_it)
{
    struct sim *sim = marked(3, 2, 7400 + (uint64_t)_i);

    sim->checks &= ~(uint32_t)(SIM_CHECK_VALIDITY | SIM_CHECK_EXCLUSIVE);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 5000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    pause_machine(sim, 0, 6 * SIM_S);
    sim_run(sim, 1500 * SIM_MS);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_uint_eq(counting(sim, 0), 3);
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* ---- rates -------------------------------------------------------------- */

static const int64_t rates[] = {-90000, -20000, -5000, 5000, 20000, 50000, 90000};

START_TEST(a_rate_is_measured_within_its_bound_and_is_no_step)
{
    struct sim *sim = marked(3, 1, 7500 + (uint64_t)_i);

    sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY;
    sim_server_rate(&sim->servers[1], rates[_i], sim->now_ns);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 5000);
    sim_run(sim, 25 * SIM_S);
    redlock_node_health seen = health(sim, 0, 1);
    ck_assert_int_eq(seen.step_age_ms, -1);
    ck_assert_int_ge(seen.rate_bound_ppm, 0);
    ck_assert_int_lt(seen.rate_bound_ppm, 1000);
    ck_assert_int_le(seen.rate_ppm - seen.rate_bound_ppm, rates[_i]);
    ck_assert_int_ge(seen.rate_ppm + seen.rate_bound_ppm, rates[_i]);
    ck_assert_uint_eq(counting(sim, 0), 3);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* All primaries run fast, by more than is allowed for. Until that is measured the promise is not
 * kept, which is what the checker sees; after it, it is. */
START_TEST(a_measured_rate_keeps_the_promise_that_the_allowance_did_not)
{
    struct sim *sim = marked(3, 1, 7600 + (uint64_t)_i);

    for (uint32_t i = 0; i < 3; i++)
        sim_server_rate(&sim->servers[i], 20000 + 30000 * (_i % 2), sim->now_ns);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 9000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim->checks = SIM_CHECK_ALL & ~(uint32_t)SIM_CHECK_VALIDITY;
    sim_run(sim, 12 * SIM_S);
    sim_forget(sim, lock, false);
    lock = scenario_hold_renewed(sim, 0, 5000);
    sim_run(sim, 15 * SIM_S);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);

    sim->checks = SIM_CHECK_ALL;
    lock = sim_lock_now(sim, 0, "k", 20000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_lt(lock->lease->deadline_ns - lock->lease->round.start_ns, 19800 * SIM_MS);
    sim_run(sim, 21 * SIM_S);
    ck_assert(!sim_held(sim, lock));
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(the_fixed_allowance_alone_breaks_it)
{
    struct sim *sim = marked(3, 1, 7700 + (uint64_t)_i);

    for (uint32_t i = 0; i < 3; i++)
        sim_server_rate(&sim->servers[i], 20000, sim->now_ns);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 9000); /* over before it is measured */
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 9 * SIM_S);
    ck_assert_uint_gt(sim_violations(sim, SIM_CHECK_VALIDITY), 0);
    sim_free(sim);
}
END_TEST

/* A held lock is told as soon as the rate is: its deadline is brought nearer. */
START_TEST(a_held_lock_is_shortened_when_a_rate_is_found)
{
    struct sim *sim = marked(3, 1, 7800 + (uint64_t)_i);

    for (uint32_t i = 0; i < 3; i++)
        sim_server_rate(&sim->servers[i], 50000, sim->now_ns);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", MAX_TTL_MS);
    int64_t deadline_ns = lock->lease->deadline_ns;

    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 12 * SIM_S);
    ck_assert_int_lt(lock->lease->deadline_ns, deadline_ns - MAX_TTL_MS * SIM_MS * 35 / 1000);
    sim_run(sim, 20 * SIM_S); /* the checker looks on */
    ck_assert(!sim_held(sim, lock));
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* ---- a ttl the guard was not made for ----------------------------------- */

START_TEST(a_lease_longer_than_max_ttl_is_told_once)
{
    struct sim *sim = marked(3, 1, 7900 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(1000);

    sim->log_wanted = "longer than max_ttl";
    config.wait_ms = 300;
    for (uint32_t i = 0; i < 3; i++)
        sim_set_foreign(sim, i, "k", _i == 0 ? MAX_TTL_MS : 2 * MAX_TTL_MS);
    for (int times = 0; times < 2; times++) {
        struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
        ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
        sim_forget(sim, lock, false);
    }
    ck_assert_uint_eq(sim->log_seen, _i == 0 ? 0 : 1);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clocks");
    TCase *t = scenario_case(suite, "steps", 30);
    tcase_add_loop_test(t, a_step_takes_one_vote_and_leaves_the_lock_held, 0, 20);
    tcase_add_loop_test(t, a_step_back_takes_nothing, 0, 20);
    tcase_add_loop_test(t, a_step_on_a_bare_quorum_ends_the_lock, 0, 20);
    tcase_add_loop_test(t, a_clock_of_ones_own_that_stood_still_shortens_and_takes_no_vote, 0, 50);
    tcase_add_loop_test(t, a_clock_that_stood_still_for_longer_than_the_lease_ends_it, 0, 20);

    t = scenario_case(suite, "rates", 30);
    tcase_add_loop_test(t, a_rate_is_measured_within_its_bound_and_is_no_step, 0,
                        (int)(sizeof(rates) / sizeof(rates[0])));
    tcase_add_loop_test(t, a_measured_rate_keeps_the_promise_that_the_allowance_did_not, 0, 10);
    tcase_add_test(t, the_fixed_allowance_alone_breaks_it);
    tcase_add_loop_test(t, a_held_lock_is_shortened_when_a_rate_is_found, 0, 10);

    t = scenario_case(suite, "ttls", 30);
    tcase_add_loop_test(t, a_lease_longer_than_max_ttl_is_told_once, 0, 2);
    return scenario_main(suite);
}
