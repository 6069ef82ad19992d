/*
 * Looking before asking: a waiter finds out that a lock is still held without writing anything, and
 * misses nothing that an attempt would have found.
 */
#include <stdio.h>
#include <string.h>

#include "scenario.h"
#include "validity.h"

static struct sim_lock *wait_for(struct sim *sim, uint32_t client, int64_t wait_ms, int64_t cap_ms)
{
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = wait_ms;
    config.retry_cap_ms = cap_ms;
    struct sim_lock *lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

static void set_everywhere(struct sim *sim, int64_t ttl_ms)
{
    for (uint32_t i = 0; i < sim->config.n; i++)
        sim_set_foreign(sim, i, "k", ttl_ms);
}

static void vanish_at(struct sim *sim, uint32_t mask)
{
    for (uint32_t i = 0; i < sim->config.n; i++)
        if ((mask >> i & 1) != 0)
            sim_vanish(sim, i, "k");
}

static void finish(struct sim *sim, struct sim_lock *lock)
{
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}

START_TEST(a_poll_that_finds_it_held_writes_nothing)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 7};
    uint32_t n = sizes[_i], looks_at = n - (n / 2 + 1) + 1;
    struct sim *sim = scenario_new(n, 1, 1700 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 1000);
    sim_run(sim, 10 * SIM_S);
    uint64_t sets = sim_count(sim, SIM_ALL, SIM_SET), asked = sim_count(sim, SIM_ALL, SIM_PTTL);
    uint64_t removals = sim_count(sim, SIM_ALL, SIM_RELEASE);
    uint64_t requests = sim_stats(sim, 0).requests, blocks = sim_count(sim, SIM_ALL, SIM_BLPOP);
    uint64_t waiting = sim_count(sim, SIM_ALL, SIM_WAITING);
    sim_run(sim, 60 * SIM_S);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_SET), sets);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_RELEASE), removals);
    asked = sim_count(sim, SIM_ALL, SIM_PTTL) - asked;
    ck_assert_uint_ge(asked, looks_at * 59); /* no pause is longer than the cap */
    ck_assert_uint_le(asked, looks_at * 121);
    blocks = sim_count(sim, SIM_ALL, SIM_BLPOP) - blocks;
    waiting = sim_count(sim, SIM_ALL, SIM_WAITING) - waiting;
    requests = sim_stats(sim, 0).requests - requests; /* some are on their way at each end */
    ck_assert_uint_ge(requests + looks_at, asked + blocks + waiting);
    ck_assert_uint_le(requests, asked + blocks + waiting + looks_at);
    vanish_at(sim, UINT32_MAX);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    finish(sim, lock);
}
END_TEST

/* Whichever they are, and whichever have been looked at. */
START_TEST(any_quorum_that_becomes_free_is_found_by_the_next_look)
{
    uint32_t mask = (uint32_t)_i;
    if (redlock__count(mask) < 3)
        return;
    struct sim *sim = scenario_new(5, 1, 1720 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    vanish_at(sim, mask);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 105 * SIM_MS);
    finish(sim, lock);
}
END_TEST

START_TEST(fewer_than_a_quorum_are_tried_once)
{
    uint32_t mask = (uint32_t)_i;
    if (redlock__count(mask) > 2)
        return;
    struct sim *sim = scenario_new(5, 1, 1760 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    uint64_t attempts = sim_stats(sim, 0).attempts;
    vanish_at(sim, mask);
    sim_run(sim, 5 * SIM_S);
    ck_assert(lock->running);
    ck_assert_uint_le(sim_stats(sim, 0).attempts, attempts + 1);
    vanish_at(sim, UINT32_MAX);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 105 * SIM_MS);
    finish(sim, lock);
}
END_TEST

/* Two can't answer, and with the others there is a quorum: whether they are silent or gone. */
START_TEST(no_answer_is_no_reason_to_wait)
{
    uint32_t first = (uint32_t)_i % 5, second = (first + 1 + (uint32_t)_i / 10) % 5;
    bool gone = _i % 2 == 0;
    struct sim *sim = scenario_new(5, 1, 1800 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != first && i != second)
            sim_vanish(sim, i, "k");
        else if (gone)
            sim_stop_server(sim, i);
        else
            sim_freeze_server(sim, i);
    }
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, (gone ? 110 : 610) * SIM_MS); /* and a node timeout */
    sim_heal(sim);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 30 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Answers that take longer than the pauses: the poll after a look that nobody has answered is an
 * attempt, or the next look would make the first one's answers worth nothing, for ever. */
START_TEST(answers_slower_than_the_pauses_are_no_reason_to_wait)
{
    struct sim *sim = scenario_new(5, 1, 1900 + (uint64_t)_i);
    set_everywhere(sim, 0);
    sim_latency(sim, SIM_ALL, SIM_ALL, 150 * SIM_MS, 160 * SIM_MS);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 5 * SIM_S);
    vanish_at(sim, UINT32_MAX);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 1500 * SIM_MS); /* two attempts, and what is between */
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 2 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* A key that only one primary has was enough while two others were away. When they are back it
 * isn't any more: others are looked at as well, which don't have it. */
START_TEST(primaries_that_come_back_are_looked_at_too)
{
    uint32_t has = (uint32_t)_i % 5, first = (has + 1) % 5,
             second = (has + 2 + (uint32_t)_i / 5) % 5;
    struct sim *sim = scenario_new(5, 1, 1920 + (uint64_t)_i);
    sim_set_foreign(sim, has, "k", 0);
    sim_refuse(sim, 0, (int)first, true);
    sim_refuse(sim, 0, (int)second, true);
    sim_cut(sim, 0, (int)first, false);
    sim_cut(sim, 0, (int)second, false);
    sim_run(sim, 5 * SIM_MS);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    ck_assert(lock->running);
    ck_assert_int_eq(lock->lease->last_reason, REDLOCK_BUSY);
    sim_refuse(sim, 0, SIM_ALL, false);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 5 * SIM_S); /* as soon as they are connected */
    finish(sim, lock);
}
END_TEST

/* Where more were seen to have the key than have to be looked at, which of them depends on the
 * name: none is asked for all names. */
START_TEST(looks_at_many_names_are_spread)
{
    enum {
        NAMES = 12
    };
    struct sim *sim = scenario_new(5, 1, 1940);
    struct redlock__lease_config config = sim_lock_config(10000);
    struct sim_lock *locks[NAMES];
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    for (uint32_t k = 0; k < NAMES; k++) {
        char key[8];
        snprintf(key, sizeof key, "k%u", k);
        for (uint32_t i = 0; i < 5; i++)
            sim_set_foreign(sim, i, key, 0);
        locks[k] = sim_acquire(sim, 0, key, &config, NULL);
    }
    sim_freeze_client(sim, 0);
    sim_run(sim, 20 * SIM_MS);
    sim_thaw_client(sim, 0); /* all answers are there then: the first three say enough */
    sim_run(sim, SIM_S);
    sim_refuse(sim, 0, 4, true);
    sim_cut(sim, 0, 4, false);
    sim_run(sim, 200 * SIM_MS); /* with four of them, two are enough */
    uint64_t attempts = sim_stats(sim, 0).attempts, all = 0, before[5], asked[5];
    for (uint32_t i = 0; i < 5; i++)
        before[i] = sim_count(sim, (int)i, SIM_PTTL);
    sim_run(sim, 20 * SIM_S);
    for (uint32_t i = 0; i < 5; i++)
        all += asked[i] = sim_count(sim, (int)i, SIM_PTTL) - before[i];
    ck_assert_uint_eq(sim_stats(sim, 0).attempts, attempts);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_uint_ge(asked[i], all / 12); /* a third: all alike */
    ck_assert_uint_eq(asked[3] + asked[4], 0);
    for (uint32_t k = 0; k < NAMES; k++) {
        sim_cancel(sim, locks[k]);
        sim_forget(sim, locks[k], false);
    }
    sim_heal(sim);
    sim_run(sim, 20 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Where there is no quorum to look at an attempt says so, and again when there is one. */
START_TEST(without_a_quorum_nobody_looks)
{
    struct sim *sim = scenario_new(5, 1, 1950 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    ck_assert_int_eq(lock->lease->last_reason, REDLOCK_BUSY);
    for (uint32_t k = 0; k < 3; k++) {
        sim_refuse(sim, 0, (int)((uint32_t)_i + k) % 5, true);
        sim_cut(sim, 0, (int)((uint32_t)_i + k) % 5, false);
    }
    sim_run(sim, 300 * SIM_MS);
    uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL);
    sim_run(sim, 2 * SIM_S);
    ck_assert_int_eq(lock->lease->last_reason, REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_PTTL), looks);
    sim_refuse(sim, 0, SIM_ALL, false);
    vanish_at(sim, UINT32_MAX);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    finish(sim, lock);
}
END_TEST

/* The wake-up says that it is free: a look would only cost a round trip. */
START_TEST(who_is_woken_asks_without_a_look)
{
    struct sim *sim = scenario_new(5, 2, 1960 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *lock = wait_for(sim, 1, REDLOCK_WAIT_FOREVER, 10000);
    sim_run(sim, 5 * SIM_S);
    ck_assert_int_eq(lock->lease->last_reason, REDLOCK_BUSY);
    uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL), attempts = sim_stats(sim, 1).attempts;
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_uint_eq(sim_stats(sim, 1).attempts, attempts + 1);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_PTTL), looks);
    finish(sim, lock);
}
END_TEST

/* A look that says when the key ends is the last one: at its end there is an attempt. Unless that
 * end and that of the pause are so close together that the pause is not shortened. */
START_TEST(the_end_that_a_look_found_is_no_time_for_another)
{
    uint32_t looked = 0, worlds = 20;
    for (uint32_t k = 0; k < worlds; k++) {
        struct sim *sim = scenario_new(5, 1, 1980 + k);
        set_everywhere(sim, 0);
        struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 2000);
        sim_run(sim, 20 * SIM_S + k * 100 * SIM_MS);
        uint64_t attempts = sim_stats(sim, 0).attempts;
        set_everywhere(sim, 4500);
        sim_run(sim, 4499 * SIM_MS);
        uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL);
        ck_assert(lock->running);
        ck_assert_uint_eq(sim_stats(sim, 0).attempts, attempts);
        ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
        ck_assert_uint_eq(sim_stats(sim, 0).attempts, attempts + 1);
        looked += sim_count(sim, SIM_ALL, SIM_PTTL) != looks;
        finish(sim, lock);
    }
    ck_assert_uint_le(looked, worlds / 4);
}
END_TEST

/* Who can be woken comes back late in each pause. Who can't, at any time of it. */
START_TEST(who_cant_be_woken_looks_more_often)
{
    struct sim *sim = scenario_new(5, 1, 2000 + (uint64_t)_i);
    for (uint32_t i = 0; i < 5 && _i == 0; i++)
        sim_error(sim, i, SIM_BLPOP,
                  "NOPERM this user has no permissions to run the 'blpop' command");
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 1000);
    sim_run(sim, 10 * SIM_S);
    uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL);
    sim_run(sim, 200 * SIM_S);
    looks = (sim_count(sim, SIM_ALL, SIM_PTTL) - looks) / 3;
    ck_assert_uint_ge(looks, _i == 0 ? 340 : 230); /* 396 and 267 on the average */
    ck_assert_uint_le(looks, _i == 0 ? 460 : 310);
    vanish_at(sim, UINT32_MAX);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    finish(sim, lock);
}
END_TEST

/* Without the right to look, each poll is an attempt. */
START_TEST(who_may_not_look_asks)
{
    struct sim *sim = scenario_new(5, 1, 1830);
    for (uint32_t i = 0; i < 5; i++)
        sim_error(sim, i, SIM_PTTL,
                  "NOPERM this user has no permissions to run the 'pttl' command");
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, REDLOCK_WAIT_FOREVER, 100);
    sim_run(sim, 2 * SIM_S);
    uint64_t attempts = sim_stats(sim, 0).attempts;
    sim_run(sim, 10 * SIM_S);
    ck_assert_uint_ge(sim_stats(sim, 0).attempts, attempts + 100);
    vanish_at(sim, UINT32_MAX);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    finish(sim, lock);
}
END_TEST

/* The last polls of a wait are attempts: the result is what was so at its end. */
START_TEST(the_end_of_a_wait_is_an_attempt)
{
    bool outage = _i % 2 == 0;
    struct sim *sim = scenario_new(5, 1, 1840 + (uint64_t)_i);
    set_everywhere(sim, 0);
    int64_t start_ns = sim->now_ns;
    struct sim_lock *lock = wait_for(sim, 0, 5000, 500);
    sim_run(sim, 3 * SIM_S);
    uint64_t attempts = sim_stats(sim, 0).attempts;
    if (outage)
        for (uint32_t i = 0; i < 3; i++)
            sim_freeze_server(sim, i);
    ck_assert_int_eq(sim_wait(sim, lock), outage ? REDLOCK_NO_QUORUM : REDLOCK_BUSY);
    ck_assert_int_le(sim->now_ns - start_ns, 5001 * SIM_MS);
    ck_assert_uint_gt(sim_stats(sim, 0).attempts, attempts);
    sim_forget(sim, lock, false);
    sim_heal(sim);
    sim_run(sim, 30 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* That begins two pauses before the end at least, so that one attempt has the time to end. */
START_TEST(the_last_two_pauses_of_a_wait_end_in_attempts)
{
    struct sim *sim = scenario_new(5, 1, 1850 + (uint64_t)_i);
    set_everywhere(sim, 0);
    struct sim_lock *lock = wait_for(sim, 0, 6000, 1000);
    sim_run(sim, 3900 * SIM_MS);
    uint64_t attempts = sim_stats(sim, 0).attempts;
    ck_assert_uint_le(attempts, 2);
    sim_run(sim, 1120 * SIM_MS); /* a pause, and a round trip */
    ck_assert_uint_gt(sim_stats(sim, 0).attempts, attempts);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
    sim_forget(sim, lock, false);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* The holder renews, and then dies. Only what the looks say of the key's time makes the waiter come
 * back when it is over, since its pauses could be longer. */
START_TEST(a_dead_holders_lock_is_found_right_after_its_ttl)
{
    struct sim *sim = scenario_new(5, 2, 1860 + (uint64_t)_i);
    scenario_hold_renewed(sim, 0, 3000);
    struct sim_lock *lock = wait_for(sim, 1, REDLOCK_WAIT_FOREVER, 10000);
    sim_run(sim, 10 * SIM_S + _i * 100 * SIM_MS);
    ck_assert(lock->running);
    uint64_t attempts = sim_stats(sim, 1).attempts;
    int64_t left_ms = 0;
    for (uint32_t i = 0; i < 5; i++)
        left_ms = redlock__max(left_ms, sim_pttl(sim, i, "k"));
    sim_kill_client(sim, 0);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, (left_ms + 50) * SIM_MS);
    ck_assert_uint_le(sim_stats(sim, 1).attempts, attempts + 3);
    finish(sim, lock);
}
END_TEST

/* A minority at a time, so that looks and attempts meet all kinds of answers. */
START_TEST(keys_that_come_and_go_confuse_nobody)
{
    struct sim *sim = scenario_new(5, 1, 1880 + (uint64_t)_i);
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    set_everywhere(sim, 60000);
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    sim_run(sim, 2 * SIM_S);
    for (int k = 0; k < 50; k++) { /* one after the other goes and comes back */
        sim_vanish(sim, (uint32_t)k % 5, "k");
        sim_run(sim, 37 * SIM_MS);
        sim_set_foreign(sim, (uint32_t)k % 5, "k", 60000);
    }
    ck_assert(lock->running);
    vanish_at(sim, UINT32_MAX);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 105 * SIM_MS);
    finish(sim, lock);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *t = scenario_case(suite, "looks", 60);
    tcase_add_loop_test(t, a_poll_that_finds_it_held_writes_nothing, 0, 6);
    tcase_add_loop_test(t, any_quorum_that_becomes_free_is_found_by_the_next_look, 0, 32);
    tcase_add_loop_test(t, fewer_than_a_quorum_are_tried_once, 0, 32);
    tcase_add_loop_test(t, no_answer_is_no_reason_to_wait, 0, 30);
    tcase_add_loop_test(t, answers_slower_than_the_pauses_are_no_reason_to_wait, 0, 10);
    tcase_add_loop_test(t, primaries_that_come_back_are_looked_at_too, 0, 15);
    tcase_add_test(t, looks_at_many_names_are_spread);
    tcase_add_loop_test(t, without_a_quorum_nobody_looks, 0, 5);
    tcase_add_loop_test(t, who_is_woken_asks_without_a_look, 0, 10);
    tcase_add_test(t, the_end_that_a_look_found_is_no_time_for_another);
    tcase_add_loop_test(t, who_cant_be_woken_looks_more_often, 0, 2);
    tcase_add_test(t, who_may_not_look_asks);
    tcase_add_loop_test(t, the_end_of_a_wait_is_an_attempt, 0, 10);
    tcase_add_loop_test(t, the_last_two_pauses_of_a_wait_end_in_attempts, 0, 10);
    tcase_add_loop_test(t, a_dead_holders_lock_is_found_right_after_its_ttl, 0, 20);
    tcase_add_loop_test(t, keys_that_come_and_go_confuse_nobody, 0, 5);
    return scenario_main(suite);
}
