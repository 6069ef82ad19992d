/*
 * Keys are removed wherever a SET may have gone, however an attempt or a lease ended.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"

START_TEST(a_set_whose_reply_was_lost_is_removed_and_foreign_keys_stay)
{
    struct sim *sim = scenario_new(5, 1, 900 + (uint64_t)_i);
    sim_trigger(sim, 0, 2, SIM_SET, 1, _i % 2 == 0 ? SIM_SWALLOW_REPLY : SIM_CUT_AT_REPLY);
    sim_set_foreign(sim, 3, "k", 60000);
    sim_set_foreign(sim, 4, "k", 60000);
    ck_assert_int_eq(sim_try(sim, 0, "k", 20000), REDLOCK_BUSY);
    sim_run(sim, 1500 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x18);
    for (uint32_t i = 3; i < 5; i++) {
        ck_assert_str_eq(sim_value(sim, i, "k"), "somebody-else");
        ck_assert_int_ge(sim_pttl(sim, i, "k"), 58000 - 1000);
    }
    scenario_end(sim);
}
END_TEST

START_TEST(a_cancelled_acquire_removes_what_it_was_granted)
{
    struct sim *sim = scenario_new(5, 1, 920 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    for (int i = 2; i < 5; i++)
        sim_hold(sim, 0, i, _i % 2 == 0 ? SIM_UP : SIM_DOWN);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_run(sim, 5 * SIM_MS);
    ck_assert(lock->running);
    ck_assert_uint_ne(sim_present(sim, "k"), 0);
    sim_cancel(sim, lock);
    ck_assert(!lock->running); /* at once */
    ck_assert_int_eq(lock->result, REDLOCK_CANCELLED);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k") & 0x3, 0);
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_wait_that_ends_after_a_partial_grant_removes_it)
{
    struct sim *sim = scenario_new(5, 1, 940 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    config.wait_ms = 30 + 10 * _i;
    for (int i = 2; i < 5; i++)
        sim_hold(sim, 0, i, SIM_BOTH);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    int64_t start_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_NO_QUORUM);
    ck_assert_int_le(sim->now_ns - start_ns, config.wait_ms * SIM_MS + SIM_MS);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_wait_is_over_in_time_with_black_holes_and_refusals)
{
    struct sim_config sim_config = sim_defaults(5, 1, scenario_seed(955 + (uint64_t)_i));
    struct sim *sim = sim_new(&sim_config);
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = 200;
    sim_black_hole(sim, 0, 0, true);
    sim_black_hole(sim, 0, 1, true);
    sim_accept_silent(sim, 0, 2, true);
    sim_refuse(sim, 0, 3, true);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_NO_QUORUM);
    ck_assert_int_le(sim->now_ns, 202 * SIM_MS);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(redlock__lease_said(lock->lease)[i].vote, REDLOCK_VOTE_DOWN);
        ck_assert_str_ne(redlock__lease_text(lock->lease, i), "");
    }
    sim_forget(sim, lock, false);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_frozen_primary_that_runs_its_queue_when_thawed_keeps_no_key)
{
    struct sim *sim = scenario_new(5, 1, 960 + (uint64_t)_i);
    sim_freeze_server(sim, 0);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 60000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    /* Within the silence limit, or after the link was given up and made anew. */
    sim_run(sim, _i % 2 == 0 ? 500 * SIM_MS : 5 * SIM_S);
    sim_thaw_server(sim, 0);
    sim_run(sim, 2 * SIM_S);
    ck_assert_uint_ge(sim_count(sim, 0, SIM_SET), 1); /* it did run */
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_set_that_lands_after_its_connection_died_is_removed_the_second_time)
{
    struct sim *sim = scenario_new(5, 1, 980 + (uint64_t)_i);
    sim->links[0][0].proxy = true;
    sim_trigger(sim, 0, 0, SIM_SET, 1, SIM_CUT_LATE);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 20000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    while (sim_count(sim, 0, SIM_RELEASE) == 0)
        sim_run(sim, SIM_MS);
    sim_run(sim, SIM_MS); /* the first removal found nothing */
    ck_assert_uint_eq(sim_count(sim, 0, SIM_SET), 0);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 1);
    sim_deliver(sim, 0, 0);
    sim_run(sim, 2 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x1);
    sim_run(sim, 600 * SIM_MS); /* a node timeout later */
    ck_assert_uint_eq(sim_count(sim, 0, SIM_RELEASE), 2);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_link_given_up_with_a_set_unanswered_takes_the_set_with_it)
{
    struct sim *sim = scenario_new(5, 1, 990 + (uint64_t)_i);
    sim_hold(sim, 0, 0, SIM_UP);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 60000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 3 * SIM_S); /* longer than the silence limit: aborted, not closed in order */
    sim_deliver(sim, 0, 0);
    sim_run(sim, 2 * SIM_S);
    ck_assert_uint_eq(sim_count(sim, 0, SIM_SET), 0);
    ck_assert_uint_eq(sim_where(sim, lock), 0x1e);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, SIM_S);
    scenario_end(sim);
}
END_TEST

START_TEST(a_primary_that_was_down_hears_of_the_removal_when_it_is_back)
{
    struct sim *sim = scenario_new(5, 1, 1000 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 60000);
    sim_stop_server(sim, 4);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_S);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x10);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 1);
    sim_start_server(sim, 4, true);
    sim_run(sim, 1500 * SIM_MS); /* at most the longest pause between connects */
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_primary_that_stays_away_is_given_up_when_no_key_can_be_left)
{
    struct sim *sim = scenario_new(5, 1, 1010);
    struct sim_lock *lock = scenario_hold_all(sim, 3000);
    sim_stop_server(sim, 4);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 2900 * SIM_MS);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 1);
    sim_run(sim, 300 * SIM_MS);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 0);
    scenario_end(sim);
}
END_TEST

START_TEST(forgetting_a_lock_without_release_removes_its_keys)
{
    struct sim *sim = scenario_new(5, 1, 1020 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    if (_i % 2 == 0)
        sim_wait(sim, lock);
    sim_forget(sim, lock, false);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_uint_eq(sim_stats(sim, 0).leases, 0);
    ck_assert_uint_eq(sim_stats(sim, 0).cleanups, 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_client_that_closes_flushes_its_removals_first)
{
    struct sim *sim = scenario_new(5, 2, 1040 + (uint64_t)_i);
    sim_latency(sim, 0, SIM_ALL, 20 * SIM_MS, 60 * SIM_MS);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 20000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_release(sim, lock);
    sim_close_client(sim, 0);
    ck_assert_ptr_nonnull(sim->clients[0].engine);
    sim_run(sim, 500 * SIM_MS);
    ck_assert_ptr_null(sim->clients[0].engine);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_int_eq(sim_try(sim, 1, "k", 1000), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_client_that_closes_waits_at_most_a_node_timeout)
{
    struct sim *sim = scenario_new(5, 1, 1060);
    struct sim_lock *lock = scenario_hold_all(sim, 20000);
    sim_freeze_server(sim, 0);
    sim_release(sim, lock);
    int64_t start_ns = sim->now_ns;
    sim_close_client(sim, 0);
    while (sim->clients[0].engine != NULL)
        sim_run(sim, SIM_MS);
    ck_assert_int_le(sim->now_ns - start_ns, 502 * SIM_MS);
    ck_assert_int_ge(sim->now_ns - start_ns, 400 * SIM_MS);
    sim_thaw_server(sim, 0); /* the removal was written, and closing kept it */
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

static bool greets_again(struct sim *sim, void *context)
{
    (void)context;
    return redlock__node_phase(redlock__engine_node(sim->clients[0].engine, 0)) ==
               REDLOCK__NODE_PHASE_GREETING &&
           sim_stats(sim, 0).disconnects > 0;
}

START_TEST(a_client_that_closes_waits_for_a_link_that_comes_up)
{
    struct sim *sim = scenario_new(5, 1, 1065 + (uint64_t)_i);
    struct sim_lock *lock;

    sim_freeze_server(sim, 0);
    lock = sim_lock_now(sim, 0, "k", 60000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert(sim_run_until(sim, greets_again, NULL, 5 * SIM_S));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_close_client(sim, 0);
    sim_run(sim, 100 * SIM_MS);
    sim_thaw_server(sim, 0);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_ptr_null(sim->clients[0].engine);
    ck_assert_uint_ge(sim_count(sim, 0, SIM_SET), 1);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_lost_lease_is_removed_everywhere)
{
    struct sim *sim = scenario_new(5, 1, 1070 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    config.min_validity_ms = 18000;
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 3 * SIM_S);
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(releasing_an_expired_lease_is_one_answer_at_once)
{
    struct sim *sim = scenario_new(5, 1, 1080);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 200);
    sim_run(sim, SIM_S);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    int64_t start_ns = sim->now_ns;
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    ck_assert_int_eq(sim->now_ns, start_ns);
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY), before);
    scenario_end(sim);
}
END_TEST

START_TEST(a_release_with_silent_primaries_ends_after_a_node_timeout)
{
    struct sim *sim = scenario_new(5, 1, 1090 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 10000);
    for (uint32_t i = 0; i < 3; i++)
        sim_freeze_server(sim, i);
    int64_t start_ns = sim->now_ns;
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_NO_QUORUM);
    ck_assert_int_le(sim->now_ns - start_ns, 501 * SIM_MS);
    for (uint32_t i = 0; i < 3; i++)
        sim_thaw_server(sim, i);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_detached_lock_keeps_its_keys_and_is_not_renewed)
{
    struct sim *sim = scenario_new(5, 1, 1100);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 900);
    sim_run(sim, 50 * SIM_MS);
    uint64_t extends = sim_count(sim, SIM_ALL, SIM_EXTEND);
    ck_assert(redlock__engine_detach(sim->clients[0].engine, lock->lease,
                                     sim_clock(&sim->clients[0], sim->now_ns)));
    sim_forget(sim, lock, true);
    sim_run(sim, 800 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x1f);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_EXTEND), extends);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_RELEASE), 0);
    sim_run(sim, 200 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

/* ---- handed on to another process --------------------------------------- */

/* Client 0 acquires and detaches; client 1 has the token and the counted set. */
static struct sim_lock *hand_on(struct sim *sim, int64_t ttl_ms, uint32_t *counted)
{
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", ttl_ms);
    char value[64] = "";
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    strncpy(value, sim_token(lock), sizeof(value) - 1);
    *counted = lock->lease->counted;
    sim_forget(sim, lock, true);
    lock = sim_adopt(sim, 1, "k", value, *counted, ttl_ms);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

START_TEST(an_adopted_lock_is_held_only_after_its_first_extend)
{
    struct sim *sim = scenario_new(5, 2, 1110 + (uint64_t)_i);
    uint32_t counted = 0;
    struct sim_lock *lock = hand_on(sim, 5000, &counted);
    ck_assert_uint_eq(redlock__count(counted), 3);
    ck_assert(!sim_held(sim, lock));
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(an_adopted_lock_sets_nothing_again)
{
    struct sim *sim = scenario_new(5, 2, 1130 + (uint64_t)_i);
    uint32_t counted = 0;
    struct sim_lock *lock = hand_on(sim, 5000, &counted);
    for (uint32_t i = 0; i < 5; i++)
        if ((counted & (UINT32_C(1) << i)) == 0)
            sim_vanish(sim, i, "k");
    uint64_t sets = sim_count(sim, SIM_ALL, SIM_SET);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_SET), sets);
    ck_assert_uint_eq(sim_present(sim, "k"), counted);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(an_adopted_lock_that_is_gone_says_which_way_and_touches_nothing)
{
    struct sim *sim = scenario_new(5, 2, 1150 + (uint64_t)_i);
    uint32_t counted = 0;
    struct sim_lock *lock = hand_on(sim, 500, &counted);
    sim_run(sim, SIM_S);
    bool taken = _i % 2 == 0;
    for (uint32_t i = 0; i < 5 && taken; i++)
        sim_set_foreign(sim, i, "k", 60000);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), taken ? REDLOCK_LOST : REDLOCK_EXPIRED);
    ck_assert(!sim_held(sim, lock));
    (void)sim_release_now(sim, lock);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), taken ? 0x1f : 0);
    scenario_end(sim);
}
END_TEST

static void add_attempts(TCase *t)
{
    tcase_add_loop_test(t, a_set_whose_reply_was_lost_is_removed_and_foreign_keys_stay, 0, 10);
    tcase_add_loop_test(t, a_cancelled_acquire_removes_what_it_was_granted, 0, 10);
    tcase_add_loop_test(t, a_wait_that_ends_after_a_partial_grant_removes_it, 0, 10);
    tcase_add_loop_test(t, a_wait_is_over_in_time_with_black_holes_and_refusals, 0, 10);
    tcase_add_loop_test(t, a_frozen_primary_that_runs_its_queue_when_thawed_keeps_no_key, 0, 10);
    tcase_add_loop_test(t, a_link_given_up_with_a_set_unanswered_takes_the_set_with_it, 0, 5);
    tcase_add_loop_test(t, a_set_that_lands_after_its_connection_died_is_removed_the_second_time, 0,
                        10);
}

int main(void)
{
    Suite *suite = suite_create("cleanup");
    add_attempts(scenario_case(suite, "attempts", 20));

    TCase *t = scenario_case(suite, "leases", 20);
    tcase_add_loop_test(t, a_primary_that_was_down_hears_of_the_removal_when_it_is_back, 0, 10);
    tcase_add_test(t, a_primary_that_stays_away_is_given_up_when_no_key_can_be_left);
    tcase_add_loop_test(t, forgetting_a_lock_without_release_removes_its_keys, 0, 10);
    tcase_add_loop_test(t, a_client_that_closes_flushes_its_removals_first, 0, 10);
    tcase_add_loop_test(t, a_client_that_closes_waits_for_a_link_that_comes_up, 0, 10);
    tcase_add_test(t, a_client_that_closes_waits_at_most_a_node_timeout);
    tcase_add_loop_test(t, a_lost_lease_is_removed_everywhere, 0, 5);
    tcase_add_test(t, releasing_an_expired_lease_is_one_answer_at_once);
    tcase_add_loop_test(t, a_release_with_silent_primaries_ends_after_a_node_timeout, 0, 5);
    tcase_add_test(t, a_detached_lock_keeps_its_keys_and_is_not_renewed);

    t = scenario_case(suite, "handed on", 20);
    tcase_add_loop_test(t, an_adopted_lock_is_held_only_after_its_first_extend, 0, 10);
    tcase_add_loop_test(t, an_adopted_lock_sets_nothing_again, 0, 10);
    tcase_add_loop_test(t, an_adopted_lock_that_is_gone_says_which_way_and_touches_nothing, 0, 10);
    return scenario_main(suite);
}
