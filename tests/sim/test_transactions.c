/*
 * Grants by transaction (src/fenced.c): when they are used, what stops that, and the trail on which
 * the same commands one by one give a token twice.
 */
#include <string.h>

#include "fence.h"
#include "fencing.h"
#include "scenario.h"

enum {
    N = 3,
    STEADY = 0, /* client 0 takes the lock again and again, client 1 sometimes */
    OTHER = 1
};

#define COUNTER "redlock:fence:{k}"

static struct sim *sim;
static const char *name = "k";

typedef bool reached_fn(int64_t counter, int64_t floor, int64_t number);

reached_fn __real_redlock__fence_reached, __wrap_redlock__fence_reached;

static bool unchecked; /* whatever a transaction gave counts as given */

bool __wrap_redlock__fence_reached(int64_t counter, int64_t floor, int64_t number)
{
    return unchecked || __real_redlock__fence_reached(counter, floor, number);
}

static void setup(void)
{
    struct sim_config config = sim_defaults(N, 2, scenario_seed(2100));

    config.max_ttl_ms = 600;
    config.restart_guard_ms = REDLOCK_GUARD_AUTO;
    config.node_timeout_ms = 400;
    sim = sim_new(&config);
    for (uint32_t i = 0; i < N; i++)
        fencing_mark(sim, i, 0);
    scenario_connect(sim);
}

static void teardown(void)
{
    unchecked = false;
    name = "k";
    scenario_end(sim);
}

static struct sim_lock *start(uint32_t client)
{
    struct redlock__lease_config config = sim_lock_config(500);

    config.fence = true;
    return sim_acquire(sim, client, name, &config, NULL);
}

static int64_t token_of(const struct sim_lock *lock)
{
    return redlock__lease_fencing(lock->lease)->token;
}

static int64_t cycle(uint32_t client)
{
    struct sim_lock *lock = start(client);
    int64_t token;

    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS); /* the last answers */
    token = token_of(lock);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    return token;
}

/* Of a script, of whether transactions are taken, and then as many as that. */
static void calm(uint32_t client)
{
    for (int k = 0; k < 2; k++)
        (void)cycle(client);
}

struct counts {
    uint64_t scripts, transactions, settles;
};

static struct counts counts_of(uint32_t node)
{
    const struct sim_server *server = &sim->servers[node];

    return (struct counts){server->count[SIM_GRANT], server->transactions,
                           server->count[SIM_SETTLE]};
}

/* Since then. */
static void assert_grew(const struct counts *before, uint32_t node, uint64_t scripts,
                        uint64_t transactions)
{
    struct counts now = counts_of(node);

    ck_assert_uint_eq(now.scripts - before->scripts, scripts);
    ck_assert_uint_eq(now.transactions - before->transactions, transactions);
}

static void put_counter(uint32_t node, int64_t number)
{
    (void)sim_server_plant_score(&sim->servers[node], COUNTER, REDLOCK__COUNTER_MEMBER, number,
                                 sim->now_ns);
}

static int64_t counter_of(uint32_t node)
{
    const struct sim_entry *counter =
        sim_server_find(&sim->servers[node], 0, COUNTER, strlen(COUNTER), sim->now_ns);

    return counter == NULL ? -1 : counter->score;
}

/* ---- when ---------------------------------------------------------------- */

START_TEST(in_step_grants_are_transactions)
{
    struct counts before[N];
    int64_t token;

    for (uint32_t i = 0; i < N; i++)
        before[i] = counts_of(i);
    token = cycle(STEADY);
    for (uint32_t i = 0; i < N; i++) {
        assert_grew(&before[i], i, 1, 0);
        ck_assert_uint_eq(sim->servers[i].count[SIM_MULTI], 0); /* nobody asks for one lock */
    }
    ck_assert_int_eq(cycle(STEADY), ++token);
    for (uint32_t i = 0; i < N; i++) {
        assert_grew(&before[i], i, 2, 0);
        ck_assert_uint_eq(sim->servers[i].count[SIM_EXEC], 1); /* of nothing */
    }
    for (int k = 0; k < 10; k++)
        ck_assert_int_eq(cycle(STEADY), ++token);
    for (uint32_t i = 0; i < N; i++) {
        assert_grew(&before[i], i, 2, 10);
        ck_assert_uint_eq(sim->servers[i].count[SIM_EXEC], 11);
        ck_assert_uint_eq(sim->servers[i].count[SIM_SETTLE], 0);
        ck_assert_int_eq(counter_of(i), token);
    }
}
END_TEST

START_TEST(what_is_busy_is_asked_by_script_until_it_is_taken_again)
{
    struct counts before;
    struct sim_lock *lock, *vain;

    calm(STEADY);
    lock = start(OTHER);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    before = counts_of(0);
    for (int k = 0; k < 3; k++) {
        vain = start(STEADY);
        ck_assert_int_eq(sim_wait(sim, vain), REDLOCK_BUSY);
        sim_forget(sim, vain, false);
        sim_run(sim, 5 * SIM_MS);
        assert_grew(&before, 0, (uint64_t)k, 0); /* the first was a transaction */
    }
    ck_assert_uint_eq(sim->servers[0].count[SIM_EXEC], 2);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 3, 0);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 3, 1);
}
END_TEST

START_TEST(what_had_to_be_settled_is_granted_by_script_next)
{
    struct counts before;
    int64_t token;

    calm(STEADY);
    put_counter(0, 50);
    before = counts_of(1);
    token = cycle(STEADY);
    ck_assert_int_eq(counter_of(0), 51);
    ck_assert(token == 51 || token == 3); /* as the answers came */
    assert_grew(&before, 1, 0, 1);
    ck_assert_int_gt(cycle(STEADY), token);
    assert_grew(&before, 1, 1, 1);
}
END_TEST

/* It is heard of when the lock is held already. */
START_TEST(one_that_turns_out_to_be_out_of_step_disturbs)
{
    struct counts before;
    struct sim_lock *lock;

    calm(STEADY);
    if (_i < 2)
        put_counter(2, 50);
    if (_i == 1)
        sim_server_find(&sim->servers[2], 0, REDLOCK__FLOOR_KEY, strlen(REDLOCK__FLOOR_KEY),
                        sim->now_ns)
            ->score = 100;
    if (_i == 2)
        (void)sim_server_plant(&sim->servers[2], "k", "somebody", 3, sim->now_ns);
    sim_trigger(sim, STEADY, 2, SIM_EXEC, 1, SIM_HOLD_REPLY);
    before = counts_of(0);
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_eq(token_of(lock), 3);
    sim_deliver(sim, STEADY, 2);
    sim_run(sim, 10 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 10 * SIM_MS);
    assert_grew(&before, 0, 0, 1);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 1, 1);
}
END_TEST

/* What is in use doesn't expire. */
START_TEST(once_an_hour_a_script_renews_the_counter)
{
    struct counts before;

    calm(STEADY);
    (void)cycle(STEADY);
    sim_run(sim, 3590 * SIM_S);
    before = counts_of(0);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 0, 1);
    for (int k = 0; k < 3; k++) {
        sim_run(sim, 3590 * SIM_S);
        before = counts_of(0);
        (void)cycle(STEADY);
        assert_grew(&before, 0, 1, 0);
        (void)cycle(STEADY);
        assert_grew(&before, 0, 1, 1);
        sim_run(sim, 20 * SIM_S);
    }
}
END_TEST

/* Whoever may not, or whose proxy can't. */
START_TEST(where_there_are_no_transactions_scripts_go_on)
{
    struct counts before = counts_of(0);

    sim_error(sim, 0, SIM_MULTI, "NOPERM User u has no permissions to run the 'multi' command");
    for (int k = 0; k < 5; k++)
        (void)cycle(STEADY);
    assert_grew(&before, 0, 5, 0);
    ck_assert_uint_eq(sim->servers[0].count[SIM_MULTI], 1); /* asked once */
    ck_assert_uint_eq(sim->servers[1].transactions, 3);
}
END_TEST

/* The connection is left in MULTI, as Redis 6 leaves it, and would queue whatever follows. */
START_TEST(one_that_may_begin_and_not_end_them_is_left)
{
    for (uint32_t i = 0; i < N; i++)
        sim_error(sim, i, SIM_EXEC,
                  "NOPERM this user has no permissions to run the 'exec' command");
    for (int k = 0; k < 5; k++)
        (void)cycle(STEADY);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_uint_eq(sim->servers[i].count[SIM_MULTI], 1);
        ck_assert_uint_eq(sim->servers[i].count[SIM_DISCARD], 1);
    }
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
}
END_TEST

/* The same to one whose rights were changed. */
START_TEST(one_that_may_end_them_no_more_is_left)
{
    calm(STEADY);
    for (uint32_t i = 0; i < N; i++)
        sim_error(sim, i, SIM_EXEC,
                  "NOPERM this user has no permissions to run the 'exec' command");
    ck_assert_int_eq(sim_wait(sim, start(STEADY)), REDLOCK_NO_QUORUM);
    sim_run(sim, 5 * SIM_MS);
    for (int k = 0; k < 3; k++)
        (void)cycle(STEADY);
}
END_TEST

START_TEST(another_connection_is_asked_anew)
{
    struct counts before;

    sim_error(sim, 0, SIM_MULTI, "NOPERM User u has no permissions to run the 'multi' command");
    for (int k = 0; k < 3; k++)
        (void)cycle(STEADY);
    sim_error(sim, 0, SIM_MULTI, NULL);
    before = counts_of(0);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 1, 0);
    sim_cut(sim, STEADY, 0, false);
    sim_run(sim, 200 * SIM_MS);
    before = counts_of(0);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 1, 0);
    ck_assert_uint_eq(sim->servers[0].count[SIM_MULTI], 2);
    (void)cycle(STEADY);
    assert_grew(&before, 0, 1, 1);
}
END_TEST

/* Its commands were executed one by one: what they set counts for nothing and is removed. */
START_TEST(one_that_takes_them_no_more_is_noticed)
{
    struct sim_lock *lock;
    struct counts before;

    calm(STEADY);
    sim_error(sim, 0, SIM_MULTI, "NOPERM User u has no permissions to run the 'multi' command");
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_int_eq(redlock__lease_said(lock->lease)[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_str_eq(redlock__lease_text(lock->lease, 0),
                     "NOPERM User u has no permissions to run the 'multi' command");
    ck_assert(sim_has(sim, 0, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    before = counts_of(0);
    for (int k = 0; k < 5; k++)
        (void)cycle(STEADY);
    assert_grew(&before, 0, 5, 0);
}
END_TEST

/* ---- what it finds ------------------------------------------------------- */

START_TEST(a_counter_that_expired_goes_on_from_the_floor)
{
    int64_t token;

    calm(STEADY);
    token = cycle(STEADY);
    for (uint32_t i = 0; i < N; i++)
        if (i >= (uint32_t)_i)
            (void)sim_server_vanish(&sim->servers[i], COUNTER);
    ck_assert_int_eq(cycle(STEADY), token + 1);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_int_eq(counter_of(i), token + 1);
    ck_assert_int_eq(cycle(STEADY), token + 2);
}
END_TEST

START_TEST(one_that_was_flushed_refuses_and_its_key_counts_for_nothing)
{
    struct sim_lock *lock;

    calm(STEADY);
    sim_server_flush(&sim->servers[0]);
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert(sim_has(sim, 0, lock));
    ck_assert_int_ne(redlock__lease_said(lock->lease)[0].vote, REDLOCK_VOTE_OURS);
    ck_assert_uint_eq(lock->lease->counted & 1, 0);
    ck_assert_int_eq(counter_of(0), -1);                      /* nothing was made */
    ck_assert_uint_eq(sim->servers[0].count[SIM_DISCARD], 0); /* nothing was refused */
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
}
END_TEST

START_TEST(a_plain_holder_keeps_it_busy)
{
    struct sim_lock *lock;

    calm(STEADY);
    for (uint32_t i = 0; i < N; i++)
        (void)sim_server_plant(&sim->servers[i], "k", "somebody", 300, sim->now_ns);
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
    sim_forget(sim, lock, false);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_str_eq(sim_value(sim, i, "k"), "somebody");
    sim_run(sim, 400 * SIM_MS);
    (void)cycle(STEADY);
}
END_TEST

/* The lock is set there, and has no number: it takes no part, keeps others out, and is removed. */
START_TEST(a_counter_of_another_type_is_an_error)
{
    struct sim_lock *lock, *vain;

    calm(STEADY);
    (void)sim_server_plant(&sim->servers[0], COUNTER, "7", 0, sim->now_ns);
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_int_eq(redlock__lease_said(lock->lease)[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(redlock__lease_text(lock->lease, 0), "WRONGTYPE"));
    ck_assert_uint_eq(sim->servers[0].count[SIM_DISCARD], 0);
    vain = start(OTHER);
    ck_assert_int_eq(sim_wait(sim, vain), REDLOCK_BUSY);
    sim_forget(sim, vain, false);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    (void)sim_server_vanish(&sim->servers[0], COUNTER);
}
END_TEST

START_TEST(a_command_that_is_refused_refuses_all)
{
    struct sim_lock *lock;

    calm(STEADY);
    sim_error(sim, 0, SIM_ZADD, "MISCONF Errors writing to the AOF file");
    lock = start(STEADY);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_str_eq(redlock__lease_text(lock->lease, 0), "MISCONF Errors writing to the AOF file");
    ck_assert(!sim_has(sim, 0, lock));
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
}
END_TEST

static const enum sim_action losses[] = {SIM_SWALLOW_REPLY, SIM_CUT_AT_REPLY, SIM_HOLD_REPLY,
                                         SIM_HOLD_REQUEST, SIM_CUT_AT_REQUEST};
static const enum sim_command parts[] = {SIM_MULTI, SIM_SET, SIM_ZADD, SIM_EXEC};

/* At each of its parts, in each way: the others decide, and nothing stays. */
START_TEST(a_part_that_is_lost_costs_a_vote)
{
    enum sim_action action = losses[_i / 4];
    int64_t token, before;

    calm(STEADY);
    before = cycle(STEADY);
    sim_trigger(sim, STEADY, 0, parts[_i % 4], 1, action);
    token = cycle(STEADY);
    ck_assert_int_eq(token, before + 1);
    sim_run(sim, 500 * SIM_MS);
    sim_deliver(sim, SIM_ALL, SIM_ALL);
    sim_run(sim, 3000 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "k"), 0);
    for (int k = 0; k < 5; k++) {
        before = token;
        token = cycle(STEADY);
        ck_assert_int_gt(token, before);
    }
    ck_assert_int_eq(counter_of(0), token);
}
END_TEST

/* ---- why it has to be one ------------------------------------------------- */

/*
 * STEADY sets the lock on 0, and counts late there. Meanwhile its key vanishes, and OTHER is
 * granted it by 0, which is behind, and by 2, and would settle the number of 2 on 0. But before
 * that comes, STEADY has counted 0 up to just that number, and has it from 1 as well.
 */
static void count_late(int64_t tokens[2])
{
    struct sim_lock *steady, *other;
    int64_t number;

    calm(STEADY);
    (void)cycle(STEADY);
    number = cycle(STEADY);
    put_counter(0, number - 1);
    sim_trigger(sim, STEADY, 0, SIM_ZADD, 1, SIM_HOLD_REQUEST);
    sim_trigger(sim, STEADY, 2, SIM_MULTI, 1, SIM_HOLD_REQUEST);
    steady = start(STEADY);
    sim_run(sim, 5 * SIM_MS);
    (void)sim_server_vanish(&sim->servers[0], "k");
    sim_trigger(sim, OTHER, 0, SIM_SETTLE, 1, SIM_HOLD_REQUEST);
    other = start(OTHER);
    sim_run(sim, 5 * SIM_MS);
    sim_deliver(sim, STEADY, 0);
    sim_run(sim, 5 * SIM_MS);
    sim_deliver(sim, OTHER, 0);
    sim_run(sim, 5 * SIM_MS);
    sim_deliver(sim, SIM_ALL, SIM_ALL);
    (void)sim_wait(sim, steady);
    (void)sim_wait(sim, other);
    tokens[0] = token_of(steady);
    tokens[1] = token_of(other);
    sim_forget(sim, steady, false);
    sim_forget(sim, other, false);
    sim_run(sim, 1000 * SIM_MS);
}

START_TEST(counted_late_no_token_comes_twice)
{
    int64_t tokens[2];

    count_late(tokens);
    ck_assert_int_eq(tokens[0], 0); /* the key on 0 was set after OTHER's */
    ck_assert_int_gt(tokens[1], 0);
}
END_TEST

START_TEST(one_by_one_a_token_comes_twice)
{
    int64_t tokens[2];

    sim->checks = SIM_CHECK_SPIN; /* a key vanishes, and both have it */
    for (uint32_t i = 0; i < N; i++)
        sim->servers[i].count_up = SIM_COUNT_SINGLY;
    count_late(tokens);
    ck_assert_int_gt(tokens[0], 0);
    ck_assert_int_eq(tokens[0], tokens[1]);
}
END_TEST

/* ---- why its number is looked at ------------------------------------------ */

/*
 * 0 was given a base far above its counters. By transaction, which it is known to take from a lock
 * of another name, STEADY has the lock from 0 and 1; then OTHER from 0 and 2.
 */
static void leave_one_behind(int64_t tokens[2])
{
    struct sim_lock *other;
    uint64_t before;
    int64_t counter;

    calm(STEADY);
    counter = cycle(STEADY);
    sim_restart_server(sim, 0, true);
    fencing_mark(sim, 0, counter + 1000);
    sim_run(sim, 3000 * SIM_MS);
    name = "j";
    before = counts_of(0).transactions;
    for (int k = 0; k < 8 && counts_of(0).transactions == before; k++)
        (void)cycle(STEADY);
    name = "k";
    ck_assert_int_eq(counter_of(0), counter);
    before = counts_of(0).transactions;
    sim_trigger(sim, STEADY, 2, SIM_MULTI, 1, SIM_HOLD_REQUEST);
    tokens[0] = cycle(STEADY);
    ck_assert_uint_eq(counts_of(0).transactions, before + 1); /* not by script */
    sim_trigger(sim, OTHER, 1, SIM_GRANT, 1, SIM_HOLD_REQUEST);
    other = start(OTHER);
    ck_assert_int_eq(sim_wait(sim, other), REDLOCK_OK);
    tokens[1] = token_of(other);
    sim_deliver(sim, SIM_ALL, SIM_ALL);
    (void)sim_release_now(sim, other);
    sim_run(sim, 1000 * SIM_MS);
}

START_TEST(one_that_is_behind_is_settled_first)
{
    int64_t tokens[2];

    leave_one_behind(tokens);
    ck_assert_int_gt(tokens[1], tokens[0]);
}
END_TEST

START_TEST(not_looked_at_a_token_comes_twice)
{
    int64_t tokens[2];

    unchecked = true;
    leave_one_behind(tokens);
    ck_assert_int_eq(tokens[1], tokens[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transactions");
    TCase *t = scenario_case(suite, "transactions", 20);

    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, in_step_grants_are_transactions);
    tcase_add_test(t, what_is_busy_is_asked_by_script_until_it_is_taken_again);
    tcase_add_test(t, what_had_to_be_settled_is_granted_by_script_next);
    tcase_add_loop_test(t, one_that_turns_out_to_be_out_of_step_disturbs, 0, 3);
    tcase_add_test(t, once_an_hour_a_script_renews_the_counter);
    tcase_add_test(t, where_there_are_no_transactions_scripts_go_on);
    tcase_add_test(t, one_that_may_begin_and_not_end_them_is_left);
    tcase_add_test(t, one_that_may_end_them_no_more_is_left);
    tcase_add_test(t, another_connection_is_asked_anew);
    tcase_add_test(t, one_that_takes_them_no_more_is_noticed);
    tcase_add_loop_test(t, a_counter_that_expired_goes_on_from_the_floor, 0, N);
    tcase_add_test(t, one_that_was_flushed_refuses_and_its_key_counts_for_nothing);
    tcase_add_test(t, a_plain_holder_keeps_it_busy);
    tcase_add_test(t, a_counter_of_another_type_is_an_error);
    tcase_add_test(t, a_command_that_is_refused_refuses_all);
    tcase_add_loop_test(t, a_part_that_is_lost_costs_a_vote, 0, 20);
    tcase_add_test(t, counted_late_no_token_comes_twice);
    tcase_add_test(t, one_by_one_a_token_comes_twice);
    tcase_add_test(t, one_that_is_behind_is_settled_first);
    tcase_add_test(t, not_looked_at_a_token_comes_twice);
    return scenario_main(suite);
}
