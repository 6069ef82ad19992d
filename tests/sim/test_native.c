/*
 * Extending and releasing by the servers' own commands: that they are used, what happens where
 * something is refused, and the trails on which a native extend would cut what a later one
 * promised. Each of those has its naive version as well, in which the checkers must fire.
 */
#include <string.h>

#include "amnesia.h"
#include "facts.h"
#include "scenario.h"
#include "validity.h"

enum {
    KINDS = 4, /* 0: without native commands */
    EVERY = REDLOCK__CAN_SET_IFEQ | REDLOCK__CAN_DELIFEQ | REDLOCK__CAN_DELEX
};

static struct sim *world(uint32_t n, uint32_t clients, uint32_t kind, uint64_t seed)
{
    struct sim_config config = sim_defaults(n, clients, scenario_seed(seed));
    config.native = sim_server_kind(kind);
    return scenario_with(&config);
}

static void forbid(struct sim *sim, uint32_t what, bool unknown)
{
    for (uint32_t i = 0; i < sim->config.n; i++) {
        sim->servers[i].forbidden = what;
        sim->servers[i].unknown = unknown;
    }
}

static uint64_t natives(const struct sim *sim)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        sum += sim->servers[i].natives;
    return sum;
}

static uint64_t scripts(const struct sim *sim)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < sim->config.n; i++)
        sum += sim->servers[i].scripts;
    return sum;
}

static const char *text_of(const struct sim_lock *lock, uint32_t node)
{
    return redlock__lease_text(lock->lease, node);
}

/* ---- which way ---------------------------------------------------------- */

START_TEST(servers_are_asked_by_the_commands_they_have)
{
    struct sim *sim = world(3, 1, (uint32_t)_i, 10);
    struct sim_lock *lock = scenario_hold_all(sim, 1000);
    ck_assert_int_eq(sim_extend_now(sim, lock, 2000), REDLOCK_OK); /* raised */
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(natives(sim), _i == 0 ? 0 : 6);
    ck_assert_uint_eq(scripts(sim), _i == 0 ? 6 : 0);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    /* One removal goes by script: it tells whether somebody waits. */
    ck_assert_uint_eq(natives(sim), _i == 0 ? 0 : _i == 1 ? 6 : 8);
    ck_assert_uint_eq(scripts(sim), _i == 0 ? 9 : _i == 1 ? 3 : 1);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(a_renewing_lease_begins_by_script_and_goes_on_natively)
{
    struct sim *sim = world(3, 1, 3, 11);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 300);
    sim_run(sim, 50 * SIM_MS);
    ck_assert_uint_eq(scripts(sim), 3);
    ck_assert_uint_eq(natives(sim), 0);
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(scripts(sim), 3);
    ck_assert_uint_ge(natives(sim), 24);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(less_time_is_asked_for_by_script_and_keeps_no_key_longer)
{
    struct sim *sim = world(3, 1, 2, 12);
    struct sim_lock *lock = scenario_hold_all(sim, 1000);
    uint64_t before = natives(sim);
    ck_assert_int_eq(sim_extend_now(sim, lock, 200), REDLOCK_OK);
    sim_run(sim, 150 * SIM_MS);
    ck_assert_int_eq(sim_extend_now(sim, lock, 200), REDLOCK_OK);
    ck_assert_uint_eq(natives(sim), before);
    ck_assert_int_le(sim_pttl(sim, 0, "k"), 850);
    ck_assert_int_eq(sim_extend_now(sim, lock, 1000), REDLOCK_OK);
    ck_assert_uint_gt(natives(sim), before);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(without_scripts_less_time_is_only_the_holders)
{
    struct sim *sim = world(3, 1, 2, 13);
    forbid(sim, REDLOCK__CAN_EVAL, false);
    struct sim_lock *lock = scenario_hold_all(sim, 1000);
    sim_run(sim, 300 * SIM_MS);
    ck_assert_int_eq(sim_extend_now(sim, lock, 200), REDLOCK_OK); /* in the same round */
    ck_assert_int_ge(sim_pttl(sim, 0, "k"), 990);
    ck_assert_int_le(
        redlock__remaining_ms(lock->deadline_ns, sim_clock(&sim->clients[0], sim->now_ns)), 200);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(scripts(sim), 0);
    scenario_end(sim);
}
END_TEST

/* ---- refusals ----------------------------------------------------------- */

START_TEST(a_refused_native_command_is_a_script_at_once_and_from_then_on)
{
    struct sim *sim = world(3, 1, 2 + (uint32_t)_i % 2, 20 + (uint64_t)_i);
    forbid(sim, EVERY, _i < 2);
    struct sim_lock *lock = scenario_hold_all(sim, 1000); /* one extend: asked twice */
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_EXTEND), 6);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_EXTEND), 9);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_RELEASE), 5); /* one by script at once */
    ck_assert_uint_eq(natives(sim), 0);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    scenario_end(sim);
}
END_TEST

START_TEST(without_scripts_and_native_commands_the_missing_right_is_named)
{
    struct sim *sim = world(3, 1, _i == 0 ? 0 : 3, 30);
    struct sim_lock *lock;
    forbid(sim, REDLOCK__CAN_EVAL | EVERY, false);
    lock = sim_lock_now(sim, 0, "k", 300);
    ck_assert_int_eq(lock->result, REDLOCK_OK);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_NO_QUORUM);
    sim_run(sim, 5 * SIM_MS); /* its answer may come after the verdict */
    ck_assert_str_eq(text_of(lock, 0),
                     _i == 0 ? "NOPERM for eval: grant +eval, or use a server with native commands "
                               "(Redis 8.4, Valkey 9.0)"
                             : "NOPERM for eval and set +get: grant +eval or +set +get");
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_NO_QUORUM);
    sim_run(sim, SIM_S);
    scenario_end(sim);
}
END_TEST

/* What may have been promised to others isn't known before the markers are read. */
START_TEST(a_lock_taken_over_at_once_is_not_cut)
{
    struct sim_config config = sim_defaults(3, 2, scenario_seed(45 + (uint64_t)_i));
    config.max_ttl_ms = 0;
    config.restart_guard_ms = REDLOCK_GUARD_AUTO;
    struct sim *sim = sim_new(&config);
    sim->checks &= ~(uint32_t)SIM_CHECK_EXCLUSIVE; /* both have the token */
    sim->config.max_ttl_ms = 600000;               /* what the primaries are marked with */
    for (uint32_t i = 0; i < 3; i++) {
        sim->servers[i].native = REDLOCK__CAN_SET_IFEQ | REDLOCK__CAN_DELIFEQ;
        amnesia_mark(sim, i, false);
    }
    scenario_connect(sim);
    struct sim_lock *lock = scenario_hold_all(sim, 300000), *taken;
    char value[64] = "";
    strncpy(value, sim_token(lock), sizeof(value) - 1);
    sim->config.max_ttl_ms = 0;
    sim_start_client(sim, 1);
    taken = sim_adopt(sim, 1, "k", value, 7, 60000);
    ck_assert_int_eq(sim_extend_now(sim, taken, 60000), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    for (int i = 0; i < 3; i++)
        ck_assert_int_gt(sim_pttl(sim, (uint32_t)i, "k"), 299000);
    sim_forget(sim, taken, true);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_lock_taken_over_is_extended_without_scripts_for_the_longest_time)
{
    struct sim *sim = world(3, 2, 3, 40);
    forbid(sim, REDLOCK__CAN_EVAL, false);
    struct sim_lock *lock = scenario_hold_all(sim, 1000), *taken;
    char value[64] = "";
    strncpy(value, sim_token(lock), sizeof(value) - 1);
    sim_forget(sim, lock, true);
    taken = sim_adopt(sim, 1, "k", value, 7, 1000);
    ck_assert_int_eq(sim_extend_now(sim, taken, 1000), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_int_ge(sim_pttl(sim, 0, "k"), sim->config.max_ttl_ms - 10);
    ck_assert_int_eq(sim_release_now(sim, taken), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* ---- trails --------------------------------------------------------------- */

/* A lease of 1 s; an extend to `ttl_ms` doesn't reach `nodes` in time and is left behind there. */
static struct sim_lock *leave_behind(struct sim *sim, uint32_t nodes, int64_t ttl_ms)
{
    struct sim_lock *lock = scenario_hold_all(sim, 1000);
    if ((sim->servers[0].forbidden & REDLOCK__CAN_EVAL) != 0) /* that is known from here on */
        ck_assert_int_eq(sim_extend_now(sim, lock, 900), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    for (int i = 0; i < (int)sim->config.n; i++)
        if ((nodes >> i & 1) != 0)
            sim_trigger(sim, 0, i, SIM_EXTEND, 1, SIM_CUT_LATE);
    (void)sim_extend_now(sim, lock, ttl_ms);
    sim_run(sim, 100 * SIM_MS);
    return lock;
}

/* It arrives; for a second after that the checkers watch, and so does another client. */
static void arrive(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->config.n; i++)
        sim->servers[i].last_extend = 0;
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, 1500 * SIM_MS);
    ck_assert_int_eq(sim->servers[0].last_extend, 1); /* it did, at our key */
    struct sim_lock *other = sim_lock_now(sim, 1, "k", 1000);
    sim_forget(sim, other, false);
    sim_run(sim, 20 * SIM_MS);
}

static void end_fired(struct sim *sim)
{
    ck_assert_uint_gt(sim_violations(sim, SIM_CHECK_VALIDITY), 0);
    ck_assert_uint_gt(sim_violations(sim, SIM_CHECK_EXCLUSIVE), 0);
    sim_free(sim);
}

/* Trail (c) of docs/safety.md on servers with native commands: what is asked for less is left
 * behind. _i % 2: scripts are refused, and the time asked for is the longest so far. */
START_TEST(a_late_shorter_extend_cuts_nothing)
{
    struct sim *sim = world(3, 2, 1 + (uint32_t)_i % 3, 100 + (uint64_t)_i);
    forbid(sim, _i % 2 == 0 ? 0 : REDLOCK__CAN_EVAL, false);
    if (sim->servers[0].native == REDLOCK__CAN_SET_IFEQ)
        forbid(sim, 0, false);
    struct sim_lock *lock = leave_behind(sim, 7, 300);
    ck_assert_int_eq(sim_extend_now(sim, lock, 0), REDLOCK_OK);
    ck_assert_int_eq(sim_extend_now(sim, lock, 1000), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, 600 * SIM_MS);
    ck_assert(sim_held(sim, lock));
    sim_forget(sim, lock, false);
    sim_run(sim, 50 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(had_it_set_the_time_it_would_have_cut)
{
    struct sim *sim = world(3, 2, 0, 120 + (uint64_t)_i);
    for (uint32_t i = 0; i < 3; i++)
        sim->servers[i].cutting = true; /* as SET does, with the time that was asked for */
    struct sim_lock *lock = leave_behind(sim, 7, 300);
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_OK);
    arrive(sim);
    end_fired(sim);
}
END_TEST

/* Trail (d): an extend to as much as before is left behind, then the time is raised. */
START_TEST(a_raise_does_not_go_where_a_native_extend_may_still_arrive)
{
    struct sim *sim = world(3, 2, 1 + (uint32_t)_i % 3, 140 + (uint64_t)_i);
    struct sim_lock *lock = leave_behind(sim, 7, 1000);
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(text_of(lock, 0),
                     "not asked: an extend to less, sent before, may still arrive there");
    ck_assert_int_eq(sim_extend_now(sim, lock, 1000), REDLOCK_OK); /* what it had, it can have */
    sim_deliver(sim, 0, SIM_ALL);
    sim_run(sim, 900 * SIM_MS);
    ck_assert(sim_held(sim, lock));
    sim_forget(sim, lock, false);
    sim_run(sim, 50 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(where_only_one_may_be_cut_the_others_carry_the_raise)
{
    struct sim *sim = world(3, 2, 3, 160 + (uint64_t)_i);
    struct sim_lock *lock = leave_behind(sim, 1, 1000);
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_OK);
    ck_assert_int_ge(sim_pttl(sim, 1, "k"), 4900);
    arrive(sim);
    ck_assert(sim_held(sim, lock));
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_OK); /* and go on to */
    sim_forget(sim, lock, false);
    sim_run(sim, 50 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* Natively or by script, that makes no difference. */
START_TEST(had_it_been_raised_there_it_would_have_been_cut)
{
    struct sim *sim = world(3, 2, 3, 180 + (uint64_t)_i);
    struct sim_lock *lock = leave_behind(sim, 7, 1000);
    lock->lease->grant->late = 0;
    if (_i % 2 == 0)
        lock->lease->grant->ttl_ms = 60000; /* so the raise is a script */
    ck_assert_int_eq(sim_extend_now(sim, lock, 5000), REDLOCK_OK);
    ck_assert((scripts(sim) > 0) == (_i % 2 == 0));
    arrive(sim);
    end_fired(sim);
}
END_TEST

/* The same, but who raises is another process, which has the token. naive: it isn't told. */
static struct sim *hand_on(uint64_t seed, bool naive)
{
    struct sim *sim = world(3, 3, 3, seed);
    struct sim_lock *lock = leave_behind(sim, 7, 1000), *taken;
    int64_t cut_ms = 0;
    uint32_t cut = redlock__engine_share(sim->clients[0].engine, lock->lease, &cut_ms);
    char value[64] = "";
    strncpy(value, sim_token(lock), sizeof(value) - 1);
    ck_assert_uint_eq(cut, 7);
    ck_assert_int_eq(cut_ms, 1000);
    sim_forget(sim, lock, true);
    taken = sim_adopt(sim, 2, "k", value, 7, 1000);
    if (!naive)
        redlock__grant_warn(taken->lease->grant, cut, cut_ms);
    ck_assert_int_eq(sim_extend_now(sim, taken, 5000), naive ? REDLOCK_OK : REDLOCK_NO_QUORUM);
    if (!naive)
        ck_assert_int_eq(sim_extend_now(sim, taken, 1000), REDLOCK_OK);
    arrive(sim);
    return sim;
}

START_TEST(who_takes_a_lock_over_is_told_where_it_may_be_cut)
{
    struct sim *sim = hand_on(200 + (uint64_t)_i, false);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

START_TEST(had_he_not_been_told_it_would_have_been_cut)
{
    end_fired(hand_on(220 + (uint64_t)_i, true));
}
END_TEST

/* A lease whose token others have extends by script, so it can't cut what they promised. */
START_TEST(a_shared_lease_cuts_nothing_that_others_promised)
{
    struct sim *sim = world(3, 3, 3, 240 + (uint64_t)_i);
    forbid(sim, _i % 2 == 0 ? 0 : REDLOCK__CAN_EVAL, false);
    struct sim_lock *lock = scenario_hold_renewed(sim, 0, 1000), *taken;
    int64_t cut_ms = 0;
    sim_run(sim, 20 * SIM_MS);
    sim->checks &= ~(uint32_t)SIM_CHECK_EXCLUSIVE; /* the two are one */
    uint32_t cut = redlock__engine_share(sim->clients[0].engine, lock->lease, &cut_ms);
    taken = sim_adopt(sim, 2, "k", sim_token(lock), 7, 1000);
    ck_assert_uint_eq(cut, 0);
    ck_assert_int_eq(sim_extend_now(sim, taken, 5000), REDLOCK_OK);
    sim_run(sim, SIM_S); /* renewed by its first owner, who then dies */
    sim_kill_client(sim, 0);
    sim_run(sim, 3 * SIM_S);
    ck_assert(sim_held(sim, taken));
    ck_assert_int_eq(sim_try(sim, 1, "k", 1000), REDLOCK_BUSY);
    ck_assert_int_eq(sim_release_now(sim, taken), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("native commands");
    TCase *t = scenario_case(suite, "ways", 20);
    tcase_add_loop_test(t, servers_are_asked_by_the_commands_they_have, 0, KINDS);
    tcase_add_test(t, a_renewing_lease_begins_by_script_and_goes_on_natively);
    tcase_add_test(t, less_time_is_asked_for_by_script_and_keeps_no_key_longer);
    tcase_add_test(t, without_scripts_less_time_is_only_the_holders);

    t = scenario_case(suite, "refusals", 20);
    tcase_add_loop_test(t, a_refused_native_command_is_a_script_at_once_and_from_then_on, 0, 4);
    tcase_add_loop_test(t, without_scripts_and_native_commands_the_missing_right_is_named, 0, 2);
    tcase_add_test(t, a_lock_taken_over_is_extended_without_scripts_for_the_longest_time);
    tcase_add_loop_test(t, a_lock_taken_over_at_once_is_not_cut, 0, 5);

    t = scenario_case(suite, "trails", 20);
    tcase_add_loop_test(t, a_late_shorter_extend_cuts_nothing, 0, 12);
    tcase_add_loop_test(t, had_it_set_the_time_it_would_have_cut, 0, 6);
    tcase_add_loop_test(t, a_raise_does_not_go_where_a_native_extend_may_still_arrive, 0, 12);
    tcase_add_loop_test(t, where_only_one_may_be_cut_the_others_carry_the_raise, 0, 6);
    tcase_add_loop_test(t, had_it_been_raised_there_it_would_have_been_cut, 0, 6);
    tcase_add_loop_test(t, who_takes_a_lock_over_is_told_where_it_may_be_cut, 0, 6);
    tcase_add_loop_test(t, had_he_not_been_told_it_would_have_been_cut, 0, 6);
    tcase_add_loop_test(t, a_shared_lease_cuts_nothing_that_others_promised, 0, 6);
    return scenario_main(suite);
}
