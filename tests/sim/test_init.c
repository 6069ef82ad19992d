/*
 * Marking primaries while others do the same, and while one of them is flushed: the numbers of
 * fenced locks never begin anew. On each trail what was read is out of date when it is acted on.
 */
#include <string.h>

#include "engine.h"
#include "fence.h"
#include "init.h"
#include "marker.h"
#include "scenario.h"

enum {
    N = 5,
    SLOW = 0, /* client 0 is slow, client 1 does the same meanwhile, and has locks */
    OTHER = 1,
    FLUSHED = 0
};

static struct redlock__init *init_by(struct sim *sim, uint32_t client)
{
    struct redlock__init_config config = {.no_leases_out = true};
    int rc;
    struct redlock__init *init = redlock__engine_init(
        sim->clients[client].engine, &config, sim_clock(&sim->clients[client], sim->now_ns), &rc);

    ck_assert_ptr_nonnull(init);
    sim_drive(sim, client);
    return init;
}

static int end_of(struct sim *sim, uint32_t client, struct redlock__init *init)
{
    int result = init->result;

    ck_assert(init->done);
    redlock__engine_forget_init(sim->clients[client].engine, init);
    return result;
}

/* So that it reads what is there now; nothing is left to do. */
static void look(struct sim *sim, uint32_t client)
{
    struct redlock__init *init = init_by(sim, client);

    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(end_of(sim, client, init), REDLOCK_OK);
}

static int64_t fenced_cycle(struct sim *sim, uint32_t client)
{
    struct redlock__lease_config config = sim_lock_config(500);
    struct sim_lock *lock;
    int64_t fence;

    config.fence = true;
    config.wait_ms = 100;
    lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    fence = redlock__lease_fencing(lock->lease)->token;
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_run(sim, 5 * SIM_MS);
    return fence;
}

static struct sim *unmarked(int i)
{
    struct sim_config config = sim_defaults(N, 2, scenario_seed(1700 + (uint64_t)i));

    config.max_ttl_ms = 600;
    config.restart_guard_ms = REDLOCK_GUARD_AUTO;
    config.node_timeout_ms = 400;
    return scenario_with(&config);
}

/* What the flushed one has now; "": nothing. */
static const char *base_of(struct sim *sim)
{
    const char *text = sim_value(sim, FLUSHED, REDLOCK__FLOOR_KEY);

    return text != NULL ? text : "";
}

/* In the end it goes on above what was given. */
static void assert_goes_on(struct sim *sim, int64_t given)
{
    struct redlock__base base;
    int64_t fence;

    sim_run(sim, 4 * SIM_S); /* beyond the guard */
    fence = fenced_cycle(sim, OTHER);
    ck_assert_int_gt(fence, given);
    sim_run(sim, 2 * SIM_S);
    ck_assert(redlock__base_parse(base_of(sim), &base));
    ck_assert_int_ge(base.number, given);
}

START_TEST(alone_all_begin_at_0)
{
    struct sim *sim = unmarked(_i);
    struct redlock__init *init = init_by(sim, SLOW);
    struct redlock__base base;

    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(end_of(sim, SLOW, init), REDLOCK_OK);
    ck_assert(redlock__base_parse(base_of(sim), &base));
    ck_assert_int_eq(base.number, 0);
    look(sim, OTHER);
    ck_assert_int_eq(fenced_cycle(sim, OTHER), 1);
    scenario_end(sim);
}
END_TEST

/* Its markers are on their way while the other's were written, with locks given, and a flush. The
 * flushed one takes the marker: what is there afterwards tells that it is not new. */
START_TEST(numbers_given_before_the_marker_arrived)
{
    struct sim *sim = unmarked(_i);
    struct redlock__init *slow, *other;
    int64_t given = 0;

    for (int i = 0; i < N; i++)
        sim_trigger(sim, SLOW, i, SIM_MARK, 1, SIM_HOLD_REQUEST);
    slow = init_by(sim, SLOW);
    sim_run(sim, 10 * SIM_MS);
    other = init_by(sim, OTHER);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(end_of(sim, OTHER, other), REDLOCK_OK);
    for (int k = 0; k < 3; k++)
        given = fenced_cycle(sim, OTHER);
    ck_assert_int_eq(given, 3);
    sim_server_flush(&sim->servers[FLUSHED]);
    for (int i = 0; i < N; i++)
        sim_deliver(sim, SLOW, i);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_ptr_nonnull(sim_value(sim, FLUSHED, REDLOCK__MARKER_KEY));
    ck_assert_int_eq(end_of(sim, SLOW, slow), REDLOCK_OK);
    assert_goes_on(sim, given);
    scenario_end(sim);
}
END_TEST

/* Its last base is on its way while the others are used, and a flush takes the marker: the script
 * sees that. */
START_TEST(numbers_given_before_the_base_arrived)
{
    struct sim *sim = unmarked(_i);
    struct redlock__init *slow;
    int64_t given = 0;

    sim_trigger(sim, SLOW, FLUSHED, SIM_RECOVER, 1, SIM_HOLD_REQUEST);
    slow = init_by(sim, SLOW);
    sim_run(sim, 20 * SIM_MS);
    look(sim, OTHER);
    for (int k = 0; k < 3; k++)
        given = fenced_cycle(sim, OTHER);
    ck_assert_int_ge(given, 3);
    sim_server_flush(&sim->servers[FLUSHED]);
    sim_deliver(sim, SLOW, FLUSHED);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_str_eq(base_of(sim), "");
    ck_assert_ptr_null(sim_value(sim, FLUSHED, REDLOCK__FLOOR_KEY));
    sim_run(sim, 500 * SIM_MS);
    (void)end_of(sim, SLOW, slow);
    assert_goes_on(sim, given);
    scenario_end(sim);
}
END_TEST

/* What it knows is from before all of it. */
START_TEST(numbers_given_since_it_last_looked)
{
    struct sim *sim = unmarked(_i);
    struct redlock__init *slow, *other;
    int64_t given;

    sim_run(sim, 4 * SIM_S); /* it has seen the guard through and looks no more */
    other = init_by(sim, OTHER);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(end_of(sim, OTHER, other), REDLOCK_OK);
    given = fenced_cycle(sim, OTHER);
    sim_server_flush(&sim->servers[FLUSHED]);
    slow = init_by(sim, SLOW);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(end_of(sim, SLOW, slow), REDLOCK_PENDING);
    ck_assert_ptr_null(sim_value(sim, FLUSHED, REDLOCK__MARKER_KEY));
    ck_assert_str_eq(base_of(sim), "");
    assert_goes_on(sim, given);
    scenario_end(sim);
}
END_TEST

/* It says so, and marks none. */
START_TEST(one_that_does_not_answer_is_named)
{
    struct sim *sim = unmarked(_i);
    struct redlock__init *slow;

    sim_black_hole(sim, SLOW, 3, true);
    slow = init_by(sim, SLOW);
    sim_run(sim, 500 * SIM_MS);
    ck_assert_int_eq(slow->results[3].vote, REDLOCK_VOTE_DOWN);
    ck_assert_str_eq(slow->results[3].text, "no answer in time");
    ck_assert_int_eq(end_of(sim, SLOW, slow), REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(sim_present(sim, REDLOCK__MARKER_KEY), 0);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("init");
    TCase *t = scenario_case(suite, "init", 60);

    tcase_add_loop_test(t, alone_all_begin_at_0, 0, 5);
    tcase_add_loop_test(t, numbers_given_before_the_marker_arrived, 0, 10);
    tcase_add_loop_test(t, numbers_given_before_the_base_arrived, 0, 10);
    tcase_add_loop_test(t, numbers_given_since_it_last_looked, 0, 10);
    tcase_add_loop_test(t, one_that_does_not_answer_is_named, 0, 5);
    return scenario_main(suite);
}
