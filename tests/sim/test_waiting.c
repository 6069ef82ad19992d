/*
 * Waiting: within one client in order, between clients fairly, and never at a high price.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"

static struct sim_lock *wait_for(struct sim *sim, uint32_t client, const char *key, int64_t wait_ms)
{
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = wait_ms;
    struct sim_lock *lock = sim_acquire(sim, client, key, &config, NULL);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

START_TEST(waiters_of_one_client_are_served_in_order)
{
    enum {
        WAITERS = 6
    };
    struct sim *sim = scenario_new(5, 1, 1200 + (uint64_t)_i);
    struct sim_lock *locks[WAITERS];
    for (int k = 0; k < WAITERS; k++) {
        locks[k] = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
        sim_run(sim, SIM_MS);
    }
    for (int k = 0; k < WAITERS; k++) {
        ck_assert_int_eq(sim_wait(sim, locks[k]), REDLOCK_OK);
        for (int j = k + 1; j < WAITERS; j++)
            ck_assert(locks[j]->running);
        sim_run(sim, 100 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, locks[k]), REDLOCK_OK);
    }
    ck_assert_uint_eq(sim_stats(sim, 0).attempts, WAITERS); /* no attempt was in vain */
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(wait_zero_behind_a_local_holder_or_waiter_is_busy_at_once)
{
    struct sim *sim = scenario_new(5, 1, 1220);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 10000);
    sim_run(sim, 20 * SIM_MS); /* it reaches the slowest primary, too */
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    int64_t start_ns = sim->now_ns;
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    ck_assert_int_eq(sim->now_ns, start_ns);
    struct sim_lock *waiter = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    ck_assert_int_eq(sim_try(sim, 0, "another", 1000), REDLOCK_OK);
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY), before + 10); /* of "another" */
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, waiter), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, waiter), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_wait_behind_a_local_holder_ends_with_wait_deadline)
{
    struct sim *sim = scenario_new(5, 1, 1230);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 10000);
    int64_t start_ns = sim->now_ns;
    struct sim_lock *waiter = wait_for(sim, 0, "k", 300);
    ck_assert_int_eq(sim_wait(sim, waiter), REDLOCK_WAIT_DEADLINE);
    ck_assert_int_le(sim->now_ns - start_ns, 301 * SIM_MS);
    sim_forget(sim, waiter, false);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_waiter_that_is_cancelled_leaves_the_queue)
{
    struct sim *sim = scenario_new(5, 1, 1240);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 10000);
    struct sim_lock *first = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    struct sim_lock *second = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    struct sim_lock *third = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    sim_cancel(sim, second);
    ck_assert_int_eq(second->result, REDLOCK_CANCELLED);
    sim_forget(sim, first, false);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, third), REDLOCK_OK);
    sim_forget(sim, second, false);
    ck_assert_int_eq(sim_release_now(sim, third), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(after_eight_hand_overs_another_client_gets_its_turn)
{
    enum {
        WAITERS = 30
    };
    struct sim *sim = scenario_new(5, 2, 1250 + (uint64_t)_i);
    struct sim_lock *locks[WAITERS];
    struct sim_lock *other = NULL;
    for (int k = 0; k < WAITERS; k++)
        locks[k] = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    ck_assert_int_eq(sim_wait(sim, locks[0]), REDLOCK_OK);
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    config.retry_base_ms = 3;
    config.retry_cap_ms = 6;
    other = sim_acquire(sim, 1, "k", &config, NULL);
    sim_run(sim, 20 * SIM_MS);
    int turns = 0;
    for (; turns < WAITERS && other->running; turns++) {
        while (locks[turns]->running && other->running)
            sim_run(sim, 100 * SIM_US);
        if (other->running)
            ck_assert_int_eq(sim_release_now(sim, locks[turns]), REDLOCK_OK);
    }
    ck_assert_int_eq(other->result, REDLOCK_OK);
    ck_assert_int_le(turns, 3 * 8 + 1); /* one of the first gaps is long enough */
    ck_assert_int_eq(sim_release_now(sim, other), REDLOCK_OK);
    for (; turns < WAITERS; turns++) {
        ck_assert_int_eq(sim_wait(sim, locks[turns]), REDLOCK_OK);
        ck_assert_int_eq(sim_release_now(sim, locks[turns]), REDLOCK_OK);
    }
    sim_run(sim, 50 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_head_that_fails_without_a_quorum_goes_to_the_tail)
{
    struct sim *sim = scenario_new(5, 1, 1270 + (uint64_t)_i);
    for (uint32_t i = 0; i < 3; i++)
        sim_error(sim, i, SIM_SET, "LOADING Redis is loading the dataset in memory");
    struct sim_lock *first = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    struct sim_lock *second = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    while (first->lease->last_reason == REDLOCK_PENDING)
        sim_run(sim, 100 * SIM_US);
    ck_assert_int_eq(first->lease->last_reason, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(second->lease->last_reason, REDLOCK_PENDING);
    sim_error(sim, 0, SIM_SET, NULL);
    sim_error(sim, 1, SIM_SET, NULL);
    for (int k = 0; k < 2000 && first->running && second->running; k++)
        sim_run(sim, 100 * SIM_US);
    ck_assert(first->running);
    ck_assert_int_eq(sim_wait(sim, second), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, second), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, first), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, first), REDLOCK_OK);
    sim_run(sim, SIM_S);
    scenario_end(sim);
}
END_TEST

START_TEST(a_head_that_finds_it_busy_stays_first)
{
    struct sim *sim = scenario_new(5, 1, 1280 + (uint64_t)_i);
    for (uint32_t i = 0; i < 5; i++)
        sim_set_foreign(sim, i, "k", 0);
    struct sim_lock *first = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    struct sim_lock *second = wait_for(sim, 0, "k", REDLOCK_WAIT_FOREVER);
    for (int k = 0; k < 20; k++) { /* attempts fail, whatever the looks say */
        sim_run(sim, 100 * SIM_MS);
        sim_vanish(sim, (uint32_t)k % 5, "k");
        sim_run(sim, 100 * SIM_MS);
        sim_set_foreign(sim, (uint32_t)k % 5, "k", 0);
    }
    ck_assert_uint_gt(sim_stats(sim, 0).busy, 3);
    ck_assert_int_eq(second->lease->last_reason, REDLOCK_PENDING);
    for (uint32_t i = 0; i < 5; i++)
        sim_vanish(sim, i, "k");
    ck_assert_int_eq(sim_wait(sim, first), REDLOCK_OK);
    ck_assert(second->running);
    ck_assert_int_eq(sim_release_now(sim, first), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, second), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, second), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(endless_waiting_costs_little_and_grows_nothing)
{
    struct sim *sim = scenario_new(5, 1, 1290);
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    config.retry_cap_ms = 1000;
    for (uint32_t i = 0; i < 5; i++)
        sim_set_foreign(sim, i, "k", 0); /* for ever */
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_run(sim, 10 * SIM_S);
    uint64_t before = sim_count(sim, 0, SIM_ANY);
    for (int k = 0; k < 600; k++) {
        sim_run(sim, SIM_S);
        ck_assert_uint_le(sim_stats(sim, 0).cleanups, 2);
        ck_assert_uint_eq(sim_stats(sim, 0).leases, 1);
    }
    ck_assert(lock->running);
    ck_assert_uint_le(sim_count(sim, 0, SIM_ANY) - before, 600 * 9);
    ck_assert_uint_ge(sim_count(sim, SIM_ALL, SIM_PTTL), 3 * 600); /* looks */
    for (uint32_t i = 0; i < 5; i++)
        sim_vanish(sim, i, "k");
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_dead_holders_lock_is_free_right_after_its_ttl)
{
    struct sim *sim = scenario_new(5, 2, 1300 + (uint64_t)_i);
    ck_assert_int_eq(sim_lock_now(sim, 0, "k", 3000)->result, REDLOCK_OK);
    int64_t granted_ns = sim->now_ns;
    sim_kill_client(sim, 0);
    struct redlock__lease_config config = sim_lock_config(1000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    config.retry_cap_ms = 5000; /* only what the primaries say makes it wake in time */
    struct sim_lock *lock = sim_acquire(sim, 1, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_ge(sim->now_ns - granted_ns, 2990 * SIM_MS);
    ck_assert_int_le(sim->now_ns - granted_ns, 3050 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(wait_zero_asks_nobody_how_long)
{
    struct sim *sim = scenario_new(5, 1, 1320);
    for (uint32_t i = 0; i < 5; i++)
        sim_set_foreign(sim, i, "k", 5000);
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_PTTL), 0);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_SET), 5);
    scenario_end(sim);
}
END_TEST

/* Each of a crowd wants the lock for a moment, some 35 times a second. */
enum {
    CROWD = 6
};

struct crowd {
    struct sim_random random;
    struct sim_lock *locks[CROWD];
    int64_t rest_until_ns[CROWD];
    uint32_t turns[CROWD];
};

static void crowd_turn(struct sim *sim, void *context)
{
    struct crowd *crowd = context;
    for (uint32_t c = 0; c < CROWD; c++) {
        struct sim_lock *lock = crowd->locks[c];
        if (lock == NULL && sim->now_ns >= crowd->rest_until_ns[c])
            crowd->locks[c] = wait_for(sim, c, "k", REDLOCK_WAIT_FOREVER);
        if (lock == NULL || lock->running)
            continue;
        crowd->turns[c] += lock->result == REDLOCK_OK;
        sim_forget(sim, lock, false);
        crowd->locks[c] = NULL;
        crowd->rest_until_ns[c] = sim->now_ns + sim_between(&crowd->random, 0, 50 * SIM_MS);
    }
    sim_at(sim, SIM_MS, crowd_turn, crowd);
}

START_TEST(in_a_crowd_of_clients_nobody_starves)
{
    struct sim *sim = scenario_new(5, CROWD, 1330 + (uint64_t)_i);
    struct crowd crowd = {.random = {.state = sim->config.seed}};
    uint32_t sum = 0, least = UINT32_MAX;
    sim_at(sim, 0, crowd_turn, &crowd);
    sim_run(sim, 30 * SIM_S);
    for (uint32_t c = 0; c < CROWD; c++) {
        sum += crowd.turns[c];
        least = crowd.turns[c] < least ? crowd.turns[c] : least;
    }
    ck_assert_uint_ge(sum, 30 * 30); /* somebody always wins */
    ck_assert_uint_ge(least, sum / CROWD / 2);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waiting");
    TCase *t = scenario_case(suite, "one client", 20);
    tcase_add_loop_test(t, waiters_of_one_client_are_served_in_order, 0, 10);
    tcase_add_test(t, wait_zero_behind_a_local_holder_or_waiter_is_busy_at_once);
    tcase_add_test(t, a_wait_behind_a_local_holder_ends_with_wait_deadline);
    tcase_add_test(t, a_waiter_that_is_cancelled_leaves_the_queue);
    tcase_add_loop_test(t, a_head_that_fails_without_a_quorum_goes_to_the_tail, 0, 10);
    tcase_add_loop_test(t, a_head_that_finds_it_busy_stays_first, 0, 10);

    t = scenario_case(suite, "many clients", 30);
    tcase_add_loop_test(t, after_eight_hand_overs_another_client_gets_its_turn, 0, 20);
    tcase_add_test(t, endless_waiting_costs_little_and_grows_nothing);
    tcase_add_loop_test(t, a_dead_holders_lock_is_free_right_after_its_ttl, 0, 10);
    tcase_add_test(t, wait_zero_asks_nobody_how_long);
    tcase_add_loop_test(t, in_a_crowd_of_clients_nobody_starves, 0, 5);
    return scenario_main(suite);
}
