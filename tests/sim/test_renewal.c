/*
 * Renewal, loss and the end of holds: what a holder is told, and when.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"

static void freeze_three(struct sim *sim)
{
    for (uint32_t i = 2; i < 5; i++)
        sim_freeze_server(sim, i);
}

static void thaw_three(struct sim *sim)
{
    for (uint32_t i = 2; i < 5; i++)
        sim_thaw_server(sim, i);
}

START_TEST(renewal_is_never_on_unless_asked_for)
{
    struct sim *sim = scenario_new(5, 1, 600);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 300);
    sim_run(sim, 290 * SIM_MS);
    ck_assert(sim_held(sim, lock));
    sim_run(sim, 20 * SIM_MS);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_EXTEND), 0);
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

/* The second's renewal would be due 5 ms, or 20 ms, after the first's. */
START_TEST(a_renewal_leaves_with_another_that_is_due_soon_before)
{
    struct sim *sim = scenario_new(5, 1, 608 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(3000);
    struct sim_lock *first, *second;
    config.renew = true;
    sim_latency(sim, 0, SIM_ALL, SIM_US, SIM_US);
    sim_run(sim, 100 * SIM_MS);
    first = sim_acquire(sim, 0, "a", &config, NULL);
    sim_run(sim, (_i == 0 ? 5 : 20) * SIM_MS);
    second = sim_acquire(sim, 0, "b", &config, NULL);
    sim_run(sim, (_i == 0 ? 997 : 982) * SIM_MS); /* 2 ms after the first is due */
    ck_assert_uint_eq(first->renewed, 2);         /* once at first, for those that answered late */
    ck_assert_uint_eq(second->renewed, _i == 0 ? 2 : 1);
    sim_run(sim, 30 * SIM_MS);
    ck_assert_uint_eq(second->renewed, 2);
    ck_assert_int_eq(sim_release_now(sim, first), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, second), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(renewal_keeps_a_lease_with_one_command_a_primary_each_third_of_the_ttl)
{
    struct sim *sim = scenario_new(5, 1, 610 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 900);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    sim_run(sim, 30 * SIM_S);
    ck_assert(sim_held(sim, lock));
    ck_assert_uint_ge(lock->renewed, 98);
    ck_assert_uint_le(lock->renewed, 100);
    ck_assert_uint_le(sim_count(sim, SIM_ALL, SIM_ANY) - before, 5 * (lock->renewed + 1));
    ck_assert_uint_eq(lock->failing, 0);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(three_frozen_for_two_ttls_is_failing_early_and_lost_in_time)
{
    struct sim *sim = scenario_new(5, 1, 620 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 1000);
    sim_run(sim, 500 * SIM_MS + _i * SIM_MS * 17);
    freeze_three(sim);
    int64_t deadline_ns = lock->deadline_ns;
    sim_run(sim, 2 * SIM_S);
    ck_assert_uint_eq(lock->failing, 1);
    ck_assert_uint_eq(lock->lost, 1);
    deadline_ns = redlock__max(deadline_ns, lock->deadline_ns);
    ck_assert_int_le(lock->lost_ns, deadline_ns);
    ck_assert_int_le(lock->failing_ns, deadline_ns - 200 * SIM_MS);
    ck_assert(!sim_held(sim, lock));
    thaw_three(sim);
    sim_run(sim, 100 * SIM_MS);
    ck_assert(!sim_held(sim, lock)); /* what they answer now takes nothing back */
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_EXPIRED);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

START_TEST(three_frozen_for_less_is_no_loss)
{
    struct sim *sim = scenario_new(5, 1, 640 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 1000);
    sim_run(sim, 500 * SIM_MS + _i * SIM_MS * 17);
    freeze_three(sim);
    sim_run(sim, 300 * SIM_MS);
    thaw_three(sim);
    sim_run(sim, 5 * SIM_S);
    ck_assert_uint_le(lock->failing, 1);
    ck_assert_uint_eq(lock->lost, 0);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(primaries_restarted_empty_one_by_one_are_set_again)
{
    struct sim *sim = scenario_new(5, 1, 660 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 900);
    sim_run(sim, 700 * SIM_MS);
    for (uint32_t i = 0; i < 10; i++) {
        sim_restart_server(sim, i % 5, false);
        sim_run(sim, SIM_S);
        ck_assert_uint_eq(sim_where(sim, lock), 0x1f);
    }
    ck_assert_uint_eq(lock->lost, 0);
    ck_assert_uint_eq(lock->failing, 0);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* Held on 0, 1 and 2 only; the others come back at once. */
static struct sim_lock *hold_bare_majority(struct sim *sim)
{
    sim_stop_server(sim, 3);
    sim_stop_server(sim, 4);
    sim_run(sim, 5 * SIM_MS);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 900);
    sim_start_server(sim, 3, true);
    sim_start_server(sim, 4, true);
    ck_assert_uint_eq(sim_where(sim, lock), 0x07);
    return lock;
}

START_TEST(a_renewal_tops_up_a_bare_majority_and_then_a_primary_may_go)
{
    struct sim *sim = scenario_new(5, 1, 680 + (uint64_t)_i);
    struct sim_lock *lock = hold_bare_majority(sim);
    sim_run(sim, 250 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, lock), 0x07);
    sim_run(sim, 100 * SIM_MS); /* the next renewal */
    ck_assert_uint_eq(sim_where(sim, lock), 0x1f);
    sim_run(sim, 300 * SIM_MS); /* and the one that counts them */
    ck_assert_uint_eq(lock->lease->counted, 0x1f);
    sim_restart_server(sim, 0, false);
    sim_stop_server(sim, 1);
    sim_run(sim, 3 * SIM_S);
    ck_assert_uint_eq(lock->lost, 0);
    ck_assert_uint_eq(lock->failing, 0);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_primary_lost_before_the_top_up_is_the_end_and_nothing_is_created)
{
    struct sim *sim = scenario_new(5, 1, 700 + (uint64_t)_i);
    struct sim_lock *lock = hold_bare_majority(sim);
    uint64_t sets = sim_count(sim, SIM_ALL, SIM_SET);
    int64_t deadline_ns = lock->deadline_ns;
    bool forgets = _i % 2 == 0;
    if (forgets) {
        sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY;
        sim_restart_server(sim, 0, false);
    } else {
        sim_stop_server(sim, 0);
    }
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_int_le(lock->lost_ns, deadline_ns);
    ck_assert_uint_eq(lock->failing, forgets ? 0 : 1);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_SET), sets);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_int_eq(sim_release_now(sim, lock), forgets ? REDLOCK_LOST : REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

START_TEST(releasing_while_a_renewal_fires_leaves_no_key_and_tells_no_loss)
{
    for (uint64_t k = 0; k < 100; k++) {
        struct sim *sim = scenario_new(5, 1, 100000 + 100 * (uint64_t)_i + k);
        struct sim_random random = {.state = sim->config.seed};
        struct sim_lock *lock = scenario_hold_renewed(sim, 0, 3000);
        struct sim_client *client = &sim->clients[0];
        int64_t renew_ns = sim_instant(client, lock->lease->renew_ns);
        int64_t near_ns = k % 3 == 0 ? 0 : sim_between(&random, -50 * SIM_US, 2 * SIM_MS);
        sim_run(sim, renew_ns + near_ns - sim->now_ns);
        ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
        sim_run(sim, 20 * SIM_MS);
        if (sim_present(sim, "k") != 0 || sim_stats(sim, 0).lost != 0)
            ck_abort_msg("seed %llu: keys %#x, lost %llu", (unsigned long long)sim->config.seed,
                         sim_present(sim, "k"), (unsigned long long)sim_stats(sim, 0).lost);
        scenario_end(sim);
    }
}
END_TEST

START_TEST(the_cap_on_the_hold_ends_it_for_the_primaries_too)
{
    struct sim *sim = scenario_new(5, 1, 720);
    struct redlock__lease_config config = sim_lock_config(900);
    config.renew = true;
    config.max_hold_ms = 5000;
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    int64_t start_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, start_ns + 4990 * SIM_MS - sim->now_ns);
    ck_assert(sim_held(sim, lock));
    sim_run(sim, 12 * SIM_MS);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_uint_eq(lock->failing, 0);
    ck_assert_uint_eq(sim_present(sim, "k"), 0); /* removed, not left to the ttl */
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

START_TEST(min_validity_ends_the_hold_early)
{
    struct sim *sim = scenario_new(5, 1, 725);
    struct redlock__lease_config config = sim_lock_config(1000);
    config.min_validity_ms = 600;
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 380 * SIM_MS);
    ck_assert(sim_held(sim, lock));
    sim_run(sim, 20 * SIM_MS);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    sim_forget(sim, lock, false);
    sim_run(sim, 5 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_shorter_ttl_counts_at_once_even_if_the_round_fails)
{
    struct sim *sim = scenario_new(5, 2, 730 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 5000);
    for (uint32_t i = 0; i < 5; i++) /* all shorten, three of their answers are lost */
        if (i > 1)
            sim_trigger(sim, 0, (int)i, SIM_EXTEND, 1, SIM_SWALLOW_REPLY);
    ck_assert_int_eq(sim_extend_now(sim, lock, 300), REDLOCK_NO_QUORUM);
    /* The node timeout of 250 is over: little is left of 300. */
    ck_assert_int_le(
        redlock__remaining_ms(lock->deadline_ns, sim_clock(&sim->clients[0], sim->now_ns)), 50);
    sim_run(sim, 60 * SIM_MS);
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_int_eq(sim_lock_now(sim, 1, "k", 1000)->result, REDLOCK_OK);
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_failed_extend_does_not_release_a_valid_lease)
{
    struct sim *sim = scenario_new(5, 1, 750 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 1000);
    freeze_three(sim);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_NO_QUORUM);
    ck_assert(sim_held(sim, lock));
    ck_assert_uint_eq(sim_where(sim, lock), 0x1f);
    ck_assert_uint_eq(lock->failing, 0); /* the caller was told */
    thaw_three(sim);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 100 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* ---- pauses of the holder ----------------------------------------------- */

START_TEST(a_frozen_holder_knows_at_once_and_touches_nothing)
{
    struct sim *sim = scenario_new(5, 2, 760 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    struct sim_lock *a = scenario_hold_renewed(sim, 0, 1000);
    config.wait_ms = 3000;
    sim_run(sim, 100 * SIM_MS + _i * 31 * SIM_MS);
    sim_freeze_client(sim, 0);
    struct sim_lock *b = sim_acquire(sim, 1, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, b), REDLOCK_OK);
    bool still_there = _i % 2 == 0;
    if (!still_there)
        ck_assert_int_eq(sim_release(sim, b), REDLOCK_OK);
    sim_run(sim, 2 * SIM_S - sim->now_ns % SIM_S);
    ck_assert(!sim_held(sim, a)); /* by the clock, before anything was processed */
    uint32_t where = still_there ? sim_where(sim, b) : 0;
    sim_thaw_client(sim, 0);
    ck_assert(!sim_held(sim, a));
    ck_assert_int_eq(sim_extend_now(sim, a, 0), REDLOCK_EXPIRED);
    ck_assert_int_eq(sim_release_now(sim, a), REDLOCK_EXPIRED);
    sim_run(sim, 20 * SIM_MS);
    if (still_there) {
        ck_assert(sim_held(sim, b));
        ck_assert_uint_eq(sim_where(sim, b), where);
        ck_assert_uint_ge(redlock__count(where), 3);
        ck_assert_int_ge(sim_pttl(sim, (uint32_t)redlock__first(where), "k"), 17000);
        ck_assert_int_eq(sim_release(sim, b), REDLOCK_OK);
    }
    sim_run(sim, 20 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, b, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_renewal_answered_during_a_pause_is_not_taken_after_the_deadline)
{
    struct sim *sim = scenario_new(5, 1, 780 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 1000);
    sim_run(sim, 50 * SIM_MS); /* the first renewal, for those who granted after the verdict */
    uint32_t renewed = (uint32_t)lock->renewed;
    sim_run(sim, sim_instant(&sim->clients[0], lock->lease->renew_ns) + 10 * SIM_US - sim->now_ns);
    ck_assert_int_eq(lock->lease->state, REDLOCK__LEASE_RENEWING);
    sim_freeze_client(sim, 0);
    sim_run(sim, 1200 * SIM_MS);
    sim_thaw_client(sim, 0); /* five times "ours" waits in its sockets */
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_uint_eq(lock->renewed, renewed);
    sim_run(sim, 50 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

START_TEST(a_renewal_heard_after_the_old_deadline_takes_nothing_back)
{
    struct sim_config config = sim_defaults(5, 1, scenario_seed(790 + (uint64_t)_i));
    config.node_timeout_ms = 2000; /* the answers are not late, only the lease is over */
    struct sim *sim = scenario_with(&config);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 1000);
    sim_run(sim, 50 * SIM_MS); /* the first renewal, for those who granted after the verdict */
    uint32_t renewed = (uint32_t)lock->renewed;
    sim_run(sim, sim_instant(&sim->clients[0], lock->lease->renew_ns) + 10 * SIM_US - sim->now_ns);
    sim_freeze_client(sim, 0);
    sim_run(sim, 660 * SIM_MS + _i * 10 * SIM_MS); /* the renewed keys live on, 1320 in all */
    ck_assert_uint_eq(sim_where(sim, lock), 0x1f);
    sim_thaw_client(sim, 0);
    ck_assert(!sim_held(sim, lock));
    ck_assert_uint_eq(lock->lost, 1);
    ck_assert_uint_eq(lock->renewed, renewed);
    sim_run(sim, 50 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_EXPIRED);
    scenario_end(sim);
}
END_TEST

START_TEST(a_client_frozen_within_an_acquire_returns_expired)
{
    struct sim *sim = scenario_new(5, 1, 800 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(1000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_freeze_client(sim, 0);
    sim_run(sim, 1500 * SIM_MS);
    sim_thaw_client(sim, 0);
    sim_wait(sim, lock);
    ck_assert_int_ne(lock->result, REDLOCK_OK);
    ck_assert(!sim_held(sim, lock));
    sim_run(sim, 50 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

static void add_holds(TCase *t)
{
    tcase_add_test(t, renewal_is_never_on_unless_asked_for);
    tcase_add_loop_test(t, a_renewal_leaves_with_another_that_is_due_soon_before, 0, 2);
    tcase_add_loop_test(t, renewal_keeps_a_lease_with_one_command_a_primary_each_third_of_the_ttl,
                        0, 4);
    tcase_add_loop_test(t, three_frozen_for_two_ttls_is_failing_early_and_lost_in_time, 0, 20);
    tcase_add_loop_test(t, three_frozen_for_less_is_no_loss, 0, 20);
    tcase_add_loop_test(t, primaries_restarted_empty_one_by_one_are_set_again, 0, 10);
    tcase_add_loop_test(t, a_renewal_tops_up_a_bare_majority_and_then_a_primary_may_go, 0, 10);
    tcase_add_loop_test(t, a_primary_lost_before_the_top_up_is_the_end_and_nothing_is_created, 0,
                        10);
    tcase_add_test(t, the_cap_on_the_hold_ends_it_for_the_primaries_too);
    tcase_add_test(t, min_validity_ends_the_hold_early);
    tcase_add_loop_test(t, a_shorter_ttl_counts_at_once_even_if_the_round_fails, 0, 10);
    tcase_add_loop_test(t, a_failed_extend_does_not_release_a_valid_lease, 0, 10);
}

/* The renewal that came due while the extend waited had joined it. */
START_TEST(a_cancelled_extend_takes_no_renewal_along)
{
    struct sim *sim = scenario_new(3, 1, 990 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 3000);

    sim_run(sim, 500 * SIM_MS);
    for (int i = 0; i < 3; i++) {
        sim_cut(sim, 0, i, false);
        sim_black_hole(sim, 0, i, true); /* it goes on connecting */
    }
    sim_run(sim, 450 * SIM_MS);
    (void)sim_extend(sim, lock, 0);
    sim_run(sim, 100 * SIM_MS); /* the renewal is due in here */
    sim_cancel(sim, lock);
    sim_heal(sim);
    sim_run(sim, 6 * SIM_S);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("renewal");
    add_holds(scenario_case(suite, "holds", 20));

    TCase *t = scenario_case(suite, "pauses", 20);
    tcase_add_loop_test(t, a_frozen_holder_knows_at_once_and_touches_nothing, 0, 20);
    tcase_add_loop_test(t, a_renewal_answered_during_a_pause_is_not_taken_after_the_deadline, 0,
                        20);
    tcase_add_loop_test(t, a_renewal_heard_after_the_old_deadline_takes_nothing_back, 0, 20);
    tcase_add_loop_test(t, a_client_frozen_within_an_acquire_returns_expired, 0, 20);

    t = scenario_case(suite, "ten thousand releases", 60);
    tcase_add_loop_test(t, releasing_while_a_renewal_fires_leaves_no_key_and_tells_no_loss, 0, 100);
    tcase_add_loop_test(t, a_cancelled_extend_takes_no_renewal_along, 0, 20);
    return scenario_main(suite);
}
