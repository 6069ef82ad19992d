/*
 * Waking across clients: in order, at once, passed on by whoever has no use for it, and never more
 * than a help: without it the lock is found by polling.
 */
#include <string.h>

#include "facts.h"
#include "scenario.h"
#include "validity.h"
#include "wake.h"

enum {
    WAITERS = 6 /* clients 1 to 6 */
};

/* Polls so seldom that only a wake-up can come in time. */
static struct sim_lock *wait_long(struct sim *sim, uint32_t client, int64_t wait_ms)
{
    struct redlock__lease_config config = sim_lock_config(30000);
    config.wait_ms = wait_ms;
    config.retry_base_ms = 3000;
    config.retry_cap_ms = 6000;
    struct sim_lock *lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

static struct sim_lock *wait_short(struct sim *sim, uint32_t client)
{
    struct redlock__lease_config config = sim_lock_config(30000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    struct sim_lock *lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

/* The primary on which "k" is waited for: where the key is. */
static uint32_t wake_node(struct sim *sim)
{
    uint32_t mask = sim_present(sim, "redlock:waiting:k");
    ck_assert_uint_eq(redlock__count(mask), 1);
    for (uint32_t i = 0; i < sim->config.n; i++)
        if (mask == UINT32_C(1) << i)
            return i;
    return 0;
}

static uint32_t blocked(const struct sim *sim)
{
    uint32_t count = 0;
    for (const struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        count += conn->blocked != 0 && conn->server_open && conn->client_open;
    return count;
}

START_TEST(waiters_of_many_clients_are_served_in_order)
{
    struct sim *sim = scenario_new(5, 1 + WAITERS, 1400 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000), *locks[WAITERS];
    for (uint32_t k = 0; k < WAITERS; k++) {
        locks[k] = wait_long(sim, k + 1, REDLOCK_WAIT_FOREVER);
        sim_run(sim, 10 * SIM_MS);
        ck_assert_uint_eq(blocked(sim), k + 1);
    }
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    for (uint32_t k = 0; k < WAITERS; k++) {
        int64_t since_ns = sim->now_ns;
        ck_assert_int_eq(sim_wait(sim, locks[k]), REDLOCK_OK);
        ck_assert_int_le(sim->now_ns - since_ns, 10 * SIM_MS);
        for (uint32_t j = k + 1; j < WAITERS; j++)
            ck_assert(locks[j]->running);
        ck_assert_uint_eq(sim_stats(sim, k + 1).attempts, 2); /* it was busy, then woken */
        sim_run(sim, 2 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, locks[k]), REDLOCK_OK);
    }
    sim_run(sim, 10 * SIM_S); /* beyond its ttl no trace is left */
    ck_assert_uint_eq(sim_present(sim, "redlock:waiting:k"), 0);
    ck_assert_uint_eq(sim_present(sim, "redlock:wake:k"), 0);
    ck_assert_uint_eq(blocked(sim), 0);
    for (const struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        ck_assert_uint_lt(conn->link, sim->config.n);
    scenario_end(sim);
}
END_TEST

START_TEST(alone_a_cycle_is_two_commands_a_primary)
{
    struct sim *sim = scenario_new(5, 1, 1420);
    uint64_t before = sim_count(sim, SIM_ALL, SIM_ANY);
    for (int k = 0; k < 20; k++) {
        ck_assert_int_eq(sim_try(sim, 0, "k", 1000), REDLOCK_OK);
        sim_run(sim, 5 * SIM_MS);
    }
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_ANY) - before, 20 * 10);
    scenario_end(sim);
}
END_TEST

START_TEST(a_lost_wake_up_costs_a_poll)
{
    struct sim *sim = scenario_new(5, 2, 1430 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 100 * SIM_MS);
    for (uint32_t i = 0; i < 5; i++)
        sim_error(sim, i, SIM_LPUSH, "OOM command not allowed when used memory > 'maxmemory'.");
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    sim_run(sim, SIM_S);
    ck_assert(lock->running);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 6100 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(when_the_primary_of_the_waiters_dies_they_move)
{
    struct sim *sim = scenario_new(5, 3, 1450 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *first = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 50 * SIM_MS);
    struct sim_lock *second = wait_long(sim, 2, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 50 * SIM_MS);
    uint32_t node = wake_node(sim);
    sim_stop_server(sim, node);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_uint_eq(blocked(sim), 2);
    ck_assert_uint_eq(redlock__count(sim_present(sim, "redlock:waiting:k")), 2); /* one on a dead */
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    struct sim_lock *next = first->running ? second : first; /* both moved at the same time */
    ck_assert(!next->running);
    ck_assert_int_eq(next->result, REDLOCK_OK);
    sim_start_server(sim, node, false);
    sim_run(sim, 5 * SIM_S); /* back to the first choice */
    ck_assert_int_eq(sim_release_now(sim, next), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    next = next == first ? second : first;
    ck_assert(!next->running);
    ck_assert_int_eq(sim_release_now(sim, next), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

static const enum sim_command refused[] = {SIM_WAITING, SIM_BLPOP, SIM_LPUSH, SIM_PEXPIRE, SIM_DEL};

START_TEST(without_the_rights_there_is_polling)
{
    struct sim *sim = scenario_new(5, 2, 1470 + (uint64_t)_i);
    for (uint32_t i = 0; i < 5; i++)
        sim_error(sim, i, refused[_i], "NOPERM this user has no permissions to run it");
    for (int round = 0; round < 10; round++) {
        struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
        struct sim_lock *lock = wait_short(sim, 1);
        sim_run(sim, 300 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
        int64_t since_ns = sim->now_ns;
        ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
        ck_assert_int_le(sim->now_ns - since_ns, 150 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
        sim_run(sim, 5 * SIM_MS);
    }
    ck_assert_uint_le(sim_count(sim, SIM_ALL, refused[_i]), 10); /* not asked again and again */
    scenario_end(sim);
}
END_TEST

/* The first one was out of reach when the lock was taken, and is back for its owner alone. */
START_TEST(one_that_never_had_the_key_is_not_asked)
{
    struct sim *sim = scenario_new(5, 2, 1560 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 100 * SIM_MS);
    uint32_t first = wake_node(sim);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    for (int client = 0; client < 2; client++) {
        sim_refuse(sim, client, (int)first, true);
        sim_cut(sim, client, (int)first, false);
    }
    (void)sim_server_vanish(&sim->servers[first], "redlock:waiting:k");
    sim_run(sim, 5 * SIM_S);
    held = sim_lock_now(sim, 0, "k", 30000);
    lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_refuse(sim, 0, (int)first, false);
    sim_run(sim, 6 * SIM_S);
    ck_assert_ptr_nonnull(sim_conn_of(sim, 0, first));
    ck_assert_uint_ne(wake_node(sim), first);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 20 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* Who releases without a script can't ask, and hears it from what it pushes. Where it can't do that
 * either, which is no answer, it goes on believing what it knows of others, and stands in line
 * behind them. */
START_TEST(without_scripts_what_is_known_of_others_stays)
{
    struct sim_config config = sim_defaults(5, 2, scenario_seed(1480 + (uint64_t)_i / 3));
    bool scripts = _i % 3 == 0, pushes = _i % 3 == 1;
    config.native = sim_server_kind(3);
    struct sim *sim = scenario_with(&config);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK); /* client 0 knows that it woke it */
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    held = sim_lock_now(sim, 0, "k", 30000);
    for (uint32_t i = 0; i < 5; i++) {
        sim->servers[i].forbidden = scripts ? 0 : REDLOCK__CAN_EVAL;
        for (int k = 0; k < 2 && !scripts && !pushes; k++)
            sim_error(sim, i, k == 0 ? SIM_LPUSH : SIM_PEXPIRE, "NOPERM no permissions to run it");
        (void)sim_server_vanish(&sim->servers[i], "redlock:waiting:k");
        (void)sim_server_vanish(&sim->servers[i], "redlock:wake:k"); /* left by client 1 */
    }
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    lock = wait_long(sim, 0, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 100 * SIM_MS);
    ck_assert_int_eq(lock->running, !scripts && !pushes); /* told that nobody waits, it asked */
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* The wake-up arrives, and at the same moment its waiter is gone. */
START_TEST(a_wake_up_nobody_needs_is_passed_on)
{
    struct sim *sim = scenario_new(5, 3, 1490 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *first = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 50 * SIM_MS);
    struct sim_lock *second = wait_long(sim, 2, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 50 * SIM_MS);
    uint64_t attempts = sim_stats(sim, 1).attempts;
    ck_assert_int_eq(sim_release(sim, held), REDLOCK_OK);
    while (sim_stats(sim, 1).attempts == attempts) /* popped, and asking */
        ck_assert(sim_step(sim, sim->now_ns + SIM_S));
    if (_i % 2 == 0) {
        sim_cancel(sim, first);
        ck_assert_int_eq(first->result, REDLOCK_CANCELLED);
    }
    sim_forget(sim, first, false);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, second), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 20 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, second), REDLOCK_OK);
    sim_forget(sim, held, false);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_waiter_that_left_steals_no_wake_up)
{
    struct sim *sim = scenario_new(5, 3, 1510 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *first =
        wait_long(sim, 1, 4000); /* longer than a pause, or it would not wait */
    sim_run(sim, 50 * SIM_MS);
    struct sim_lock *second = wait_long(sim, 2, REDLOCK_WAIT_FOREVER);
    ck_assert_int_eq(sim_wait(sim, first), REDLOCK_BUSY);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(blocked(sim), 1);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, second), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 10 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, second), REDLOCK_OK);
    sim_forget(sim, first, false);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* Woken earlier, it would find it busy. */
START_TEST(nobody_is_woken_before_a_quorum_is_free)
{
    struct sim *sim = scenario_new(5, 2, 1580 + (uint64_t)_i);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 30000);
    struct sim_lock *lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 50 * SIM_MS);
    uint32_t node = wake_node(sim);
    for (uint32_t i = 0, holds = 0; i < 5 && holds < 3; i++)
        if (i != node) {
            sim_trigger(sim, 0, (int)i, SIM_RELEASE, 1, SIM_HOLD_REQUEST);
            holds++;
        }
    ck_assert_int_eq(sim_release(sim, held), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, (int)node, SIM_RELEASE), 2); /* of the first attempt, too */
    ck_assert_uint_eq(sim_count(sim, (int)node, SIM_LPUSH), 0);
    sim_deliver(sim, 0, SIM_ALL);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 10 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_forget(sim, held, false);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(a_foreign_release_is_noticed_by_polling)
{
    struct sim *sim = scenario_new(5, 1, 1530 + (uint64_t)_i);
    for (uint32_t i = 0; i < 5; i++)
        sim_set_foreign(sim, i, "k", 60000);
    struct sim_lock *lock = wait_short(sim, 0);
    sim_run(sim, SIM_S);
    for (uint32_t i = 0; i < 5; i++)
        sim_vanish(sim, i, "k");
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 110 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(waiting_costs_a_command_or_two_a_second)
{
    struct sim *sim = scenario_new(5, 2, 1550);
    struct sim_lock *held = sim_lock_now(sim, 0, "k", 60000);
    struct sim_lock *lock = wait_long(sim, 1, REDLOCK_WAIT_FOREVER);
    sim_run(sim, 3 * SIM_S);
    uint32_t node = wake_node(sim);
    uint64_t blocks = sim_count(sim, SIM_ALL, SIM_BLPOP);
    sim_run(sim, 30 * SIM_S);
    ck_assert_uint_le(sim_count(sim, SIM_ALL, SIM_BLPOP) - blocks, 11);
    ck_assert_uint_ge(sim_count(sim, SIM_ALL, SIM_BLPOP) - blocks, 9);
    ck_assert_int_gt(sim_pttl(sim, node, "redlock:waiting:k"), 1500); /* renewed in time */
    ck_assert_uint_eq(sim_count(sim, (int)node, SIM_LPUSH), 0);
    ck_assert_int_eq(sim_release_now(sim, held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

START_TEST(no_more_names_than_there_are_links)
{
    enum {
        NAMES = 24
    };
    struct sim *sim = scenario_new(5, 2, 1560);
    struct sim_lock *held[NAMES], *locks[NAMES];
    struct redlock__lease_config config = sim_lock_config(30000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    for (int k = 0; k < NAMES; k++) {
        char key[8] = {'n', (char)('a' + k)};
        held[k] = sim_lock_now(sim, 0, key, 30000);
        locks[k] = sim_acquire(sim, 1, key, &config, NULL);
    }
    sim_run(sim, SIM_S);
    ck_assert_uint_eq(blocked(sim), REDLOCK__WAKES);
    for (int k = 0; k < NAMES; k++) {
        ck_assert_int_eq(sim_release_now(sim, held[k]), REDLOCK_OK);
        ck_assert_int_eq(sim_wait(sim, locks[k]), REDLOCK_OK);
        ck_assert_int_eq(sim_release_now(sim, locks[k]), REDLOCK_OK);
    }
    sim_run(sim, 20 * SIM_MS);
    scenario_end(sim);
}
END_TEST

/* ---- a crowd ------------------------------------------------------------ */

struct crowd {
    uint32_t clients, threads; /* of client 0; the others have one */
    struct sim_lock *locks[24];
    int64_t hold_until_ns[24];
    uint32_t turns[SIM_MAX_CLIENTS];
    uint32_t late; /* free for longer than it should */
};

static void crowd_turn(struct sim *sim, void *context)
{
    struct crowd *crowd = context;
    uint32_t count = crowd->threads + crowd->clients - 1;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t client = k < crowd->threads ? 0 : k - crowd->threads + 1;
        struct sim_lock *lock = crowd->locks[k];
        if (lock == NULL) {
            crowd->locks[k] = wait_short(sim, client);
        } else if (!lock->running && lock->result == REDLOCK_OK && !lock->releasing &&
                   crowd->hold_until_ns[k] == 0) {
            crowd->hold_until_ns[k] = sim->now_ns + SIM_MS;
            crowd->turns[client]++;
        } else if (!lock->running && !lock->releasing && sim->now_ns >= crowd->hold_until_ns[k]) {
            ck_assert_int_eq(sim_release(sim, lock), REDLOCK_OK);
        } else if (!lock->running && lock->releasing) {
            sim_forget(sim, lock, false);
            crowd->locks[k] = NULL;
            crowd->hold_until_ns[k] = 0;
        }
    }
    sim_at(sim, 100 * SIM_US, crowd_turn, crowd);
}

static struct sim *run_crowd(struct crowd *crowd, uint64_t seed)
{
    struct sim *sim = scenario_new(5, crowd->clients, seed);
    sim_at(sim, 0, crowd_turn, crowd);
    sim_run(sim, 10 * SIM_S);
    return sim;
}

START_TEST(a_lone_waiter_gets_its_share_against_sixteen_threads)
{
    struct crowd crowd = {.clients = 2, .threads = 16};
    struct sim *sim = run_crowd(&crowd, 1600 + (uint64_t)_i);
    uint32_t all = crowd.turns[0] + crowd.turns[1];
    ck_assert_uint_ge(all, 1500);
    ck_assert_uint_ge(crowd.turns[1], all / 40);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

/* Nobody can stand in line, so the sixteen hear that nobody waits. */
START_TEST(one_that_polls_gets_its_turn_against_sixteen_threads)
{
    struct crowd crowd = {.clients = 2, .threads = 16};
    struct sim *sim = scenario_new(5, crowd.clients, 1640 + (uint64_t)_i);
    for (uint32_t i = 0; i < 5; i++)
        sim_error(sim, i, SIM_WAITING, "NOPERM this user has no permissions to run it");
    sim_at(sim, 0, crowd_turn, &crowd);
    sim_run(sim, 30 * SIM_S);
    ck_assert_uint_ge(crowd.turns[0], 10000);
    ck_assert_uint_ge(crowd.turns[1], crowd.turns[0] / 40);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

START_TEST(eight_clients_take_turns)
{
    struct crowd crowd = {.clients = 8, .threads = 1};
    struct sim *sim = run_crowd(&crowd, 1620 + (uint64_t)_i);
    uint32_t all = 0, least = UINT32_MAX;
    uint64_t attempts = 0;
    for (uint32_t c = 0; c < 8; c++) {
        all += crowd.turns[c];
        least = crowd.turns[c] < least ? crowd.turns[c] : least;
        attempts += sim_stats(sim, c).attempts;
    }
    ck_assert_uint_ge(least, all / 8 / 2);
    ck_assert_msg(attempts <= 2 * all, "%u turns, %u attempts", all, (unsigned)attempts);
    ck_assert_uint_ge(all, 1500);
    ck_assert_ptr_null(sim_violation(sim));
    sim_free(sim);
}
END_TEST

START_TEST(the_same_seed_is_the_same_story)
{
    uint64_t hash[2];
    for (int k = 0; k < 2; k++) {
        struct crowd crowd = {.clients = 4, .threads = 3};
        struct sim *sim = run_crowd(&crowd, 1640);
        hash[k] = sim->hash;
        sim_free(sim);
    }
    ck_assert_uint_eq(hash[0], hash[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wake");
    TCase *t = scenario_case(suite, "waking", 30);
    tcase_add_loop_test(t, waiters_of_many_clients_are_served_in_order, 0, 20);
    tcase_add_test(t, alone_a_cycle_is_two_commands_a_primary);
    tcase_add_loop_test(t, a_wake_up_nobody_needs_is_passed_on, 0, 20);
    tcase_add_loop_test(t, a_waiter_that_left_steals_no_wake_up, 0, 20);
    tcase_add_loop_test(t, nobody_is_woken_before_a_quorum_is_free, 0, 10);
    tcase_add_test(t, waiting_costs_a_command_or_two_a_second);
    tcase_add_test(t, no_more_names_than_there_are_links);

    t = scenario_case(suite, "polling", 30);
    tcase_add_loop_test(t, a_lost_wake_up_costs_a_poll, 0, 10);
    tcase_add_loop_test(t, when_the_primary_of_the_waiters_dies_they_move, 0, 20);
    tcase_add_loop_test(t, one_that_never_had_the_key_is_not_asked, 0, 10);
    tcase_add_loop_test(t, without_scripts_what_is_known_of_others_stays, 0, 9);
    tcase_add_loop_test(t, without_the_rights_there_is_polling, 0,
                        (int)(sizeof(refused) / sizeof(refused[0])));
    tcase_add_loop_test(t, a_foreign_release_is_noticed_by_polling, 0, 10);

    t = scenario_case(suite, "crowds", 60);
    tcase_add_loop_test(t, one_that_polls_gets_its_turn_against_sixteen_threads, 0, 5);
    tcase_add_loop_test(t, a_lone_waiter_gets_its_share_against_sixteen_threads, 0, 5);
    tcase_add_loop_test(t, eight_clients_take_turns, 0, 5);
    tcase_add_test(t, the_same_seed_is_the_same_story);
    return scenario_main(suite);
}
