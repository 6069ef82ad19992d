/*
 * Acquiring and extending: what a client may believe. The engine is the real one, the world
 * is scripted; the checkers of the simulator run along in every test.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"

/* How many primaries said one of the two to the newest extend, all told: what a client would
 * go by that takes any quorum of them. */
static uint32_t naive_count(const struct sim *sim, int64_t said, int64_t or_said)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        count += sim->servers[i].last_extend == said || sim->servers[i].last_extend == or_said;
    return count;
}

/* ---- the counted set ---------------------------------------------------- */

START_TEST(a_holder_is_told_lost_after_another_came_and_went)
{
    struct sim *sim = scenario_new(5, 2, 100 + (uint64_t)_i);
    sim->checks &= ~(uint32_t)SIM_CHECK_EXCLUSIVE; /* a primary forgets in here */
    for (int i = 3; i < 5; i++) {
        sim_cut(sim, 0, i, false);
        sim_refuse(sim, 0, i, true);
    }
    sim_run(sim, 5 * SIM_MS);
    struct sim_lock *a = sim_lock_now(sim, 0, "k", 2000);
    ck_assert_int_eq(a->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, a), 0x07);
    sim_vanish(sim, 0, "k");
    sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY;
    struct sim_lock *b = sim_lock_now(sim, 1, "k", 2000);
    ck_assert_int_eq(b->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, b), 0x19);
    ck_assert_int_eq(sim_release_now(sim, b), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    sim_refuse(sim, 0, SIM_ALL, false);
    sim_run(sim, 2 * SIM_S / 10);

    ck_assert_int_eq(sim_extend_now(sim, a, 0), REDLOCK_LOST);
    ck_assert(!sim_held(sim, a));
    ck_assert_uint_eq(a->lost, 1);
    sim_run(sim, 20 * SIM_MS);
    /* Setting the missing ones again and counting them would have gone on. */
    ck_assert_uint_ge(naive_count(sim, 1, 0), 3);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, a, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_late_grant_seen_before_a_verdict_does_not_carry_the_next_round)
{
    struct sim *sim = scenario_new(3, 2, 200 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(2000);
    sim->checks &= ~(uint32_t)(SIM_CHECK_EXCLUSIVE | SIM_CHECK_VALIDITY);
    sim_trigger(sim, 0, 0, SIM_SET, 1, SIM_HOLD_REQUEST);
    struct sim_lock *a = sim_lock_now(sim, 0, "k", 2000);
    ck_assert_int_eq(a->result, REDLOCK_OK);
    ck_assert_uint_eq(a->lease->counted, 0x6);

    sim_hold(sim, 1, 2, SIM_UP); /* B's SET is slow on the way to 2 */
    struct sim_lock *b = sim_acquire(sim, 1, "k", &config, NULL);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, b), 0x1);
    sim_trigger(sim, 0, 2, SIM_EXTEND, 1, SIM_HOLD_REPLY);
    ck_assert_int_eq(sim_extend(sim, a, 0), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert(a->running);
    sim_vanish(sim, 2, "k");
    sim_deliver(sim, 1, 2);
    ck_assert_int_eq(sim_wait(sim, b), REDLOCK_OK);
    ck_assert_uint_eq(sim_where(sim, b), 0x5);
    sim_hold(sim, 1, 2, SIM_UP);
    ck_assert_int_eq(sim_release(sim, b), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x6);

    sim_deliver(sim, 0, 0); /* A's SET lands at last, its EXTEND behind it */
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, a), 0x3);
    ck_assert(a->running);
    ck_assert_uint_eq(a->lease->grant->known & 0x1, 0x1);
    sim_deliver(sim, 0, 2);
    ck_assert_int_eq(sim_wait(sim, a), REDLOCK_OK);
    ck_assert_uint_eq(a->lease->counted, 0x6); /* not 0: not known before that round */

    ck_assert_int_eq(sim_extend_now(sim, a, 0), REDLOCK_LOST);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_ge(naive_count(sim, 1, 1), 2);
    ck_assert(!sim_held(sim, a));
    sim_deliver(sim, 1, 2);
    sim_run(sim, 300 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    sim_forget(sim, a, false);
    sim_forget(sim, b, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_primary_whose_set_may_still_arrive_is_not_set_again)
{
    struct sim *sim = scenario_new(5, 1, 220 + (uint64_t)_i);
    sim_trigger(sim, 0, 0, SIM_SET, 1, SIM_CUT_LATE);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 5000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 50 * SIM_MS); /* connected again */
    for (int k = 0; k < 3; k++) {
        ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
        sim_run(sim, 5 * SIM_MS);
        ck_assert_int_eq(sim->servers[0].last_extend, 0);
        ck_assert_uint_eq(sim_count(sim, 0, SIM_SET), 0);
    }
    sim_deliver(sim, 0, 0);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, lock), 0x1f);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(lock->lease->counted & 0x1, 0); /* seen, and counted only by the next */
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(lock->lease->counted & 0x1, 1);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 500 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

/* ---- acquiring ---------------------------------------------------------- */

START_TEST(an_uncontended_acquire_is_one_set_per_primary)
{
    struct sim *sim = scenario_new(5, 1, 300 + (uint64_t)_i);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 500 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY) - before, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(sim_count(sim, i, SIM_SET), 1);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 500 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY) - before, 10);
    ck_assert_uint_eq(sim_stats(sim, 0).requests, 10);
    scenario_end(sim);
}
END_TEST

START_TEST(the_first_lock_after_start_does_not_fail_for_connecting)
{
    struct sim_config config = sim_defaults(5, 1, scenario_seed(320 + (uint64_t)_i));
    config.latency_max_ns = 40 * SIM_MS;
    struct sim *sim = sim_new(&config);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 10000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, SIM_S);
    scenario_end(sim);
}
END_TEST

START_TEST(two_of_five_at_start_are_no_quorum_whatever_comes_back)
{
    struct sim_config config = sim_defaults(5, 1, scenario_seed(340));
    struct sim *sim = sim_new(&config);
    struct redlock__lease_config lock_config = sim_lock_config(5000);
    lock_config.wait_ms = 3000;
    for (uint32_t i = 2; i < 5; i++) {
        sim_stop_server(sim, i);
        sim_set_foreign(sim, i, "k", 60000);
    }
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &lock_config, NULL);
    sim_run(sim, 500 * SIM_MS);
    ck_assert(lock->running);
    for (uint32_t i = 2; i < 5; i++)
        sim_start_server(sim, i, true);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
    sim_run(sim, 50 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x1c);
    for (uint32_t i = 2; i < 5; i++)
        ck_assert_str_eq(sim_value(sim, i, "k"), "somebody-else");
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(nothing_is_sent_where_no_quorum_can_answer)
{
    struct sim *sim = scenario_new(5, 1, 345);
    struct sim_lock *lock = scenario_hold_all(sim, 5000);
    for (uint32_t i = 2; i < 5; i++)
        sim_stop_server(sim, i);
    sim_run(sim, 200 * SIM_MS);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    ck_assert_int_eq(sim_try(sim, 0, "another", 1000), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_NO_QUORUM);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY), before);
    ck_assert_uint_eq(sim_present(sim, "another"), 0);
    for (uint32_t i = 2; i < 5; i++)
        sim_start_server(sim, i, true);
    sim_run(sim, 1500 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(two_primaries_gone_are_no_matter_and_their_reasons_are_told)
{
    struct sim *sim = scenario_new(5, 1, 350 + (uint64_t)_i);
    sim_stop_server(sim, 3);
    sim_black_hole(sim, 0, 4, true);
    sim_run(sim, 5 * SIM_MS);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 60 * SIM_MS);
    ck_assert_int_eq(redlock__lease_said(lock->lease)[3].vote, REDLOCK_VOTE_DOWN);
    ck_assert_str_ne(redlock__lease_text(lock->lease, 3), "");
    ck_assert_int_eq(redlock__lease_said(lock->lease)[4].vote, REDLOCK_VOTE_SILENT);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 50 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k") & 0x7, 0);
    scenario_end(sim);
}
END_TEST

/* It is sent requests after the others, until it has answered one in time. */
START_TEST(one_that_takes_too_long_is_behind_until_it_doesnt)
{
    struct sim *sim = scenario_new(5, 1, 360 + (uint64_t)_i);
    const struct redlock__engine_seen *seen;
    struct sim_lock *lock;

    sim_run(sim, 5 * SIM_MS);
    seen = redlock__engine_see(sim->clients[0].engine);
    lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_uint_eq(seen->behind, 0);
    sim_latency(sim, 0, 3, 400 * SIM_MS, 400 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    ck_assert_uint_eq(seen->behind, 0); /* it still has time */
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(seen->behind, 1 << 3);
    sim_run(sim, SIM_S); /* an answer that comes late changes nothing */
    ck_assert_uint_eq(seen->behind, 1 << 3);
    sim_latency(sim, 0, 3, SIM_MS / 10, SIM_MS / 2);
    lock = sim_lock_now(sim, 0, "k", 1000);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(seen->behind, 0);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_quorum_that_answers_after_the_ttl_is_never_held_and_its_keys_go)
{
    struct sim_config config = sim_defaults(5, 1, scenario_seed(360 + (uint64_t)_i));
    config.node_timeout_ms = 1000;
    struct sim *sim = scenario_with(&config);
    for (int i = 0; i < 3; i++)
        sim_latency(sim, 0, i, 60 * SIM_MS, 60 * SIM_MS);
    struct redlock__lease_config lock_config = sim_lock_config(100);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &lock_config, NULL);
    while (lock->running) {
        sim_run(sim, SIM_MS);
        ck_assert(!redlock__lease_held(lock->lease, sim_clock(&sim->clients[0], sim->now_ns)));
    }
    ck_assert_int_eq(lock->result, REDLOCK_EXPIRED);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_RELEASE), 5);
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(validity_counts_from_the_winning_attempt)
{
    struct sim *sim = scenario_new(5, 1, 370 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(300);
    config.wait_ms = 5000;
    for (uint32_t i = 0; i < 5; i++)
        sim_set_foreign(sim, i, "k", 1000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_ge(sim->now_ns, SIM_S);
    int64_t left_ms =
        redlock__remaining_ms(lock->deadline_ns, sim_clock(&sim->clients[0], sim->now_ns));
    ck_assert_int_ge(left_ms, 300 - redlock__drift_ms(300, 10000) - 2);
    ck_assert_int_eq(lock->deadline_ns, redlock__deadline(lock->lease->round.start_ns, 300, 10000));
    ck_assert_uint_gt(sim_stats(sim, 0).attempts, 1);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(own_keys_of_a_failed_attempt_do_not_block_the_next)
{
    struct sim *sim = scenario_new(5, 1, 380 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(20000);
    config.wait_ms = 2000;
    for (uint32_t i = 2; i < 5; i++)
        sim_error(sim, i, SIM_SET, "OOM command not allowed when used memory > 'maxmemory'.");
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_run(sim, 100 * SIM_MS);
    ck_assert(lock->running);
    ck_assert_int_eq(lock->lease->last_reason, REDLOCK_NO_QUORUM);
    for (uint32_t i = 2; i < 5; i++)
        sim_error(sim, i, SIM_SET, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_where(sim, lock) & 0x3, 0x3);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_late_reply_is_never_taken_for_the_next_commands)
{
    struct sim *sim = scenario_new(1, 1, 390 + (uint64_t)_i);
    sim_trigger(sim, 0, 0, SIM_SET, 1, SIM_HOLD_REPLY);
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_NO_QUORUM); /* its OK is on its way */
    sim_run(sim, 5 * SIM_MS);
    sim_set_foreign(sim, 0, "k", 60000);
    struct redlock__lease_config config = sim_lock_config(1000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_run(sim, 10 * SIM_MS);
    ck_assert(lock->running);
    sim_deliver(sim, 0, 0); /* OK, the removal's answer, then nil */
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
    ck_assert_uint_eq(sim_stats(sim, 0).late_replies,
                      1 + (uint64_t)(sim_count(sim, 0, SIM_RELEASE) > 2));
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_str_eq(sim_value(sim, 0, "k"), "somebody-else");
    scenario_end(sim);
}
END_TEST

START_TEST(even_fleets_split_in_half_are_busy_and_leave_nothing)
{
    uint32_t n = _i % 2 == 0 ? 2 : 4;
    struct sim *sim = scenario_new(n, 1, 400 + (uint64_t)_i);
    for (uint32_t i = 0; i < n / 2; i++)
        sim_set_foreign(sim, i, "k", 60000);
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), (UINT32_C(1) << (n / 2)) - 1);
    scenario_end(sim);
}
END_TEST

START_TEST(a_higher_quorum_is_honoured)
{
    struct sim_config config = sim_defaults(5, 1, scenario_seed(410));
    config.quorum = 4;
    struct sim *sim = scenario_with(&config);
    sim_set_foreign(sim, 0, "k", 60000);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_set_foreign(sim, 1, "k", 60000);
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    sim_run(sim, 50 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(bad_requests_are_refused_before_anything_is_sent)
{
    struct sim *sim = scenario_new(3, 1, 420);
    struct redlock__lease_config config = sim_lock_config(1000);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    static const int64_t ttls[] = {INT64_MIN, -1, 0, 1, 2, 3, 60001, INT64_MAX};
    int rc = REDLOCK_OK;
    for (size_t i = 0; i < sizeof(ttls) / sizeof(ttls[0]); i++) {
        config.ttl_ms = ttls[i];
        ck_assert_ptr_null(sim_acquire(sim, 0, "k", &config, &rc));
        ck_assert_int_eq(rc, REDLOCK_ERR_TTL);
    }
    config.ttl_ms = 1000;
    ck_assert_ptr_null(sim_acquire(sim, 0, "redlock:x", &config, &rc));
    ck_assert_int_eq(rc, REDLOCK_ERR_KEY);
    config.min_validity_ms = 990;
    ck_assert_ptr_null(sim_acquire(sim, 0, "k", &config, &rc));
    ck_assert_int_eq(rc, REDLOCK_ERR_TTL);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY), before);
    ck_assert_uint_eq(sim_stats(sim, 0).leases, 0);
    scenario_end(sim);
}
END_TEST

/* ---- node errors -------------------------------------------------------- */

static const char *const error_words[] = {
    "MISCONF Errors writing to the AOF file: No space left on device",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to run the 'set' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "MOVED 3999 127.0.0.1:6381",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
    "ERR max number of clients reached",
    "OK", /* an error that says OK is an error */
};
enum {
    WORDS = sizeof(error_words) / sizeof(error_words[0])
};

START_TEST(an_error_is_never_a_vote_and_two_such_primaries_are_no_matter)
{
    struct sim *sim = scenario_new(5, 1, 500 + (uint64_t)_i);
    for (uint32_t i = 0; i < 2; i++)
        for (int c = (int)SIM_SET; c <= (int)SIM_RELEASE; c++)
            sim_error(sim, i, (enum sim_command)c, error_words[_i]);
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(redlock__lease_said(lock->lease)[i].vote, REDLOCK_VOTE_ERROR);
        ck_assert_str_eq(redlock__lease_text(lock->lease, i), error_words[_i]);
    }
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(three_primaries_with_errors_are_no_quorum)
{
    struct sim *sim = scenario_new(5, 1, 520 + (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 2000);
    for (uint32_t i = 0; i < 3; i++)
        for (int c = (int)SIM_SET; c <= (int)SIM_RELEASE; c++)
            sim_error(sim, i, (enum sim_command)c, error_words[_i]);
    ck_assert_int_eq(sim_try(sim, 0, "other", 1000), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_NO_QUORUM);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_NO_QUORUM);
    for (uint32_t i = 0; i < 3; i++)
        sim_error(sim, i, SIM_ANY, NULL);
    sim_run(sim, 500 * SIM_MS); /* a refused removal is sent once more */
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_primary_that_refuses_the_greeting_is_down_with_its_words)
{
    struct sim_config config = sim_defaults(3, 1, scenario_seed(540));
    struct sim *sim = sim_new(&config);
    sim_error(sim, 0, SIM_ANY, "ERR max number of clients reached");
    struct sim_lock *lock = sim_lock_now(sim, 0, "k", 1000);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(redlock__lease_said(lock->lease)[0].vote, REDLOCK_VOTE_DOWN);
    ck_assert_ptr_nonnull(strstr(redlock__lease_text(lock->lease, 0), "max number of clients"));
    sim_run(sim, 700 * SIM_MS);
    ck_assert_uint_lt(sim_count(sim, 0, SIM_SETNAME), 12); /* it backs off */
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    scenario_end(sim);
}
END_TEST

START_TEST(a_wrong_password_is_no_quorum_with_the_reason)
{
    struct sim_config config = sim_defaults(3, 1, scenario_seed(550));
    config.password = "secret";
    struct sim *sim = sim_new(&config);
    for (uint32_t i = 0; i < 3; i++)
        sim->servers[i].password = "another";
    struct redlock__lease_config lock_config = sim_lock_config(1000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &lock_config, NULL);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_NO_QUORUM);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(strstr(redlock__lease_text(lock->lease, i), "WRONGPASS"));
    sim_forget(sim, lock, false);
    scenario_end(sim);
}
END_TEST

START_TEST(a_key_of_another_type_is_somebody_elses)
{
    struct sim *sim = scenario_new(5, 1, 560);
    for (uint32_t i = 0; i < 5; i++)
        sim_server_plant(&sim->servers[i], "k", "list", 0, sim->now_ns)->other_type = true;
    ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_BUSY);
    sim_run(sim, 200 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0x1f);
    scenario_end(sim);
}
END_TEST

/* Trail (c): an extend with a short ttl reaches nobody in time and its connections die. A later,
 * longer one succeeds over new connections. Then the old bytes arrive everywhere: they must not
 * cut what the later one promised. The checkers watch; so does another client. */
START_TEST(a_late_shorter_extend_cuts_nothing)
{
    struct sim *sim = scenario_new(3, 2, (uint64_t)_i);
    struct sim_lock *lock = scenario_hold_all(sim, 5000), *other;
    for (int i = 0; i < 3; i++)
        sim_trigger(sim, 0, i, SIM_EXTEND, 1, SIM_CUT_LATE);
    ck_assert_int_eq(sim_extend_now(sim, lock, 500), REDLOCK_NO_QUORUM);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_OK);
    for (uint32_t i = 0; i < 3; i++)
        sim->servers[i].last_extend = 0;
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, SIM_S);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(sim->servers[i].last_extend, 1); /* it did arrive, at our key */
    ck_assert(sim_held(sim, lock));
    other = sim_lock_now(sim, 1, "k", 1000);
    ck_assert_int_eq(other->result, REDLOCK_BUSY);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *t = scenario_case(suite, "counted set", 20);
    tcase_add_loop_test(t, a_holder_is_told_lost_after_another_came_and_went, 0, 20);
    tcase_add_loop_test(t, a_late_grant_seen_before_a_verdict_does_not_carry_the_next_round, 0, 20);

    tcase_add_loop_test(t, a_late_shorter_extend_cuts_nothing, 0, 10);
    tcase_add_loop_test(t, a_primary_whose_set_may_still_arrive_is_not_set_again, 0, 10);

    t = scenario_case(suite, "acquiring", 20);
    tcase_add_loop_test(t, an_uncontended_acquire_is_one_set_per_primary, 0, 10);
    tcase_add_loop_test(t, the_first_lock_after_start_does_not_fail_for_connecting, 0, 20);
    tcase_add_test(t, two_of_five_at_start_are_no_quorum_whatever_comes_back);
    tcase_add_test(t, nothing_is_sent_where_no_quorum_can_answer);
    tcase_add_loop_test(t, two_primaries_gone_are_no_matter_and_their_reasons_are_told, 0, 10);
    tcase_add_loop_test(t, one_that_takes_too_long_is_behind_until_it_doesnt, 0, 10);
    tcase_add_loop_test(t, a_quorum_that_answers_after_the_ttl_is_never_held_and_its_keys_go, 0,
                        10);
    tcase_add_loop_test(t, validity_counts_from_the_winning_attempt, 0, 10);
    tcase_add_loop_test(t, own_keys_of_a_failed_attempt_do_not_block_the_next, 0, 10);
    tcase_add_loop_test(t, a_late_reply_is_never_taken_for_the_next_commands, 0, 10);
    tcase_add_loop_test(t, even_fleets_split_in_half_are_busy_and_leave_nothing, 0, 10);
    tcase_add_test(t, a_higher_quorum_is_honoured);
    tcase_add_test(t, bad_requests_are_refused_before_anything_is_sent);

    t = scenario_case(suite, "node errors", 20);
    tcase_add_loop_test(t, an_error_is_never_a_vote_and_two_such_primaries_are_no_matter, 0, WORDS);
    tcase_add_loop_test(t, three_primaries_with_errors_are_no_quorum, 0, WORDS);
    tcase_add_test(t, a_primary_that_refuses_the_greeting_is_down_with_its_words);
    tcase_add_test(t, a_wrong_password_is_no_quorum_with_the_reason);
    tcase_add_test(t, a_key_of_another_type_is_somebody_elses);
    return scenario_main(suite);
}
