/*
 * Hand-overs among clients that know of each other: who gives a lock back wakes the next one along
 * with the removals, and a wake-up that comes too early, or in vain, costs little.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"
#include "wake.h"

enum {
    WAITERS = 3 /* clients 1 to 3 */
};

static struct sim_lock *wait_for(struct sim *sim, uint32_t client, int64_t base_ms, int64_t cap_ms)
{
    struct redlock__lease_config config = sim_lock_config(30000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    config.retry_base_ms = base_ms;
    config.retry_cap_ms = cap_ms;
    struct sim_lock *lock = sim_acquire(sim, client, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    return lock;
}

/* The primary on which "k" is waited for. */
static uint32_t wake_node(struct sim *sim)
{
    uint32_t mask = sim_present(sim, "redlock:waiting:k"), i = 0;
    ck_assert_uint_eq(redlock__count(mask), 1);
    while (mask != UINT32_C(1) << i)
        i++;
    return i;
}

static uint32_t blocked(const struct sim *sim)
{
    uint32_t count = 0;
    for (const struct sim_conn *conn = sim->conns; conn != NULL; conn = conn->next)
        count += conn->blocked != 0 && conn->server_open && conn->client_open;
    return count;
}

/* Client 0 holds "k", the others wait for it in order, and it knows that. */
struct line {
    struct sim *sim;
    struct sim_lock *held, *locks[1 + WAITERS];
    uint32_t node;
};

/* base_ms and cap_ms are those of the waiters' pauses once it is so. */
static struct line line_new(uint64_t seed, int64_t base_ms, int64_t cap_ms)
{
    struct line line = {.sim = scenario_new(5, 1 + WAITERS, seed)};
    struct sim *sim = line.sim;
    line.held = sim_lock_now(sim, 0, "k", 30000);
    for (uint32_t k = 1; k <= WAITERS; k++) {
        line.locks[k] = wait_for(sim, k, 3000, 6000);
        sim_run(sim, 5 * SIM_MS);
        ck_assert_uint_eq(blocked(sim), k);
    }
    line.node = wake_node(sim);
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    for (uint32_t k = 1; k <= WAITERS; k++) { /* all get it, and want it again */
        ck_assert_int_eq(sim_wait(sim, line.locks[k]), REDLOCK_OK);
        if (k == 1)
            line.locks[0] = wait_for(sim, 0, 3000, 6000);
        sim_run(sim, 2 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, line.locks[k]), REDLOCK_OK);
        sim_run(sim, 2 * SIM_MS); /* it hears that somebody was woken */
        line.locks[k] = wait_for(sim, k, 3000, 6000);
    }
    ck_assert_int_eq(sim_wait(sim, line.locks[0]), REDLOCK_OK);
    line.held = line.locks[0];
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(blocked(sim), WAITERS);
    for (uint32_t k = 1; k <= WAITERS; k++) {
        line.locks[k]->lease->terms->retry_base_ms = base_ms;
        line.locks[k]->lease->terms->retry_cap_ms = cap_ms;
    }
    return line;
}

/* From this one on they get it one after the other. */
static void line_serve(struct line *line, uint32_t first)
{
    struct sim *sim = line->sim;
    for (uint32_t k = first; k <= WAITERS; k++) {
        ck_assert_int_eq(sim_wait(sim, line->locks[k]), REDLOCK_OK);
        for (uint32_t j = k + 1; j <= WAITERS; j++)
            ck_assert(line->locks[j]->running);
        ck_assert_int_eq(sim_release_now(sim, line->locks[k]), REDLOCK_OK);
    }
}

/* It waits no longer. */
static void line_leave(struct line *line, uint32_t k)
{
    sim_cancel(line->sim, line->locks[k]);
    sim_forget(line->sim, line->locks[k], false);
}

/* All others in line get it. */
static void line_end(struct line *line)
{
    struct sim *sim = line->sim;
    line_serve(line, 1);
    sim_run(sim, 5 * SIM_S);
    ck_assert_uint_eq(sim_present(sim, "redlock:wake:k"), 0);
    scenario_end(sim);
}

/* It waits for no answer: here none comes. */
START_TEST(the_next_is_woken_with_the_removal)
{
    struct line line = line_new(1900 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    uint64_t pushed = sim_count(sim, (int)line.node, SIM_LPUSH);
    for (int i = 0; i < 5; i++)
        sim_trigger(sim, 0, i, SIM_RELEASE, 1, SIM_HOLD_REPLY);
    ck_assert_int_eq(sim_release(sim, line.held), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 3 * SIM_MS);
    ck_assert(line.held->running);
    sim_deliver(sim, 0, SIM_ALL);
    ck_assert_int_eq(sim_wait(sim, line.held), REDLOCK_OK);
    sim_forget(sim, line.held, false);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, (int)line.node, SIM_LPUSH), pushed + 1); /* once */
    ck_assert(line.locks[2]->running);
    line_end(&line);
}
END_TEST

/* The removals are slow where nobody is woken: the one who was woken has come too early, and looks
 * again soon, although others stand in line. */
START_TEST(a_wake_up_that_overtakes_the_removals_is_not_lost)
{
    struct line line = line_new(1920 + (uint64_t)_i, 10, 4000);
    struct sim *sim = line.sim;
    line.locks[1]->lease->tries = 10; /* as after a long wait, with long pauses */
    uint64_t attempts = sim_stats(sim, 1).attempts;
    int64_t late_ms = _i * 3;
    int64_t pause_ms = INT64_C(10) << (1 + (3 + late_ms) / 10); /* the longest it may be in then */
    for (uint32_t i = 0, holds = 0; i < 5 && holds < 3; i++)
        if (i != line.node) {
            sim_trigger(sim, 0, (int)i, SIM_RELEASE, 1, SIM_HOLD_REQUEST);
            holds++;
        }
    ck_assert_int_eq(sim_release(sim, line.held), REDLOCK_OK);
    sim_run(sim, 3 * SIM_MS + late_ms * SIM_MS);
    ck_assert_uint_eq(sim_stats(sim, 1).attempts, attempts + 1);
    ck_assert(line.locks[1]->running);
    sim_deliver(sim, 0, SIM_ALL);
    int64_t since_ns = sim->now_ns;
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns,
                     (redlock__min(pause_ms, 4 * late_ms + 10) + 12) * SIM_MS);
    ck_assert_int_eq(sim_wait(sim, line.held), REDLOCK_OK);
    sim_forget(sim, line.held, false);
    line_end(&line);
}
END_TEST

/* Whoever stood in line before it asked knows nothing yet: where no wake-up comes it asks, and then
 * looks. */
START_TEST(who_has_not_asked_yet_does_not_look)
{
    struct line line = line_new(1940 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    uint64_t attempts[1 + WAITERS];
    for (uint32_t k = 1; k <= WAITERS; k++) {
        ck_assert_int_eq(line.locks[k]->lease->last_reason, REDLOCK_PENDING);
        attempts[k] = sim_stats(sim, k).attempts;
    }
    sim_run(sim, 3100 * SIM_MS);
    for (uint32_t k = 1; k <= WAITERS; k++) {
        ck_assert_uint_eq(sim_stats(sim, k).attempts, attempts[k] + 1);
        ck_assert_int_eq(line.locks[k]->lease->last_reason, REDLOCK_BUSY);
    }
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    line_end(&line);
}
END_TEST

/* As long as wake-ups are trusted, each pause is an eighth of the longest at least: also those
 * behind a look, of which the first are short. */
START_TEST(who_trusts_in_wake_ups_hardly_looks)
{
    struct line line = line_new(2010 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    line.held->lease->terms->retry_base_ms = 10; /* it leaves the name alone no longer than that */
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    line.locks[0] = wait_for(sim, 0, 10, 1200);
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    while (line.locks[0]->lease->last_reason != REDLOCK_BUSY && sim->now_ns < since_ns + SIM_S)
        sim_run(sim, SIM_MS);
    sim_run(sim, 10 * SIM_MS); /* it has asked, and how long the key lives */
    uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL);
    while (sim_count(sim, SIM_ALL, SIM_PTTL) == looks && sim->now_ns < since_ns + SIM_S)
        sim_run(sim, SIM_MS);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_int_le(sim->now_ns - since_ns, 700 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_PTTL), looks + 3);
    sim_run(sim, 140 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_PTTL), looks + 3);
    line_leave(&line, 0);
    ck_assert_int_eq(sim_release_now(sim, line.locks[1]), REDLOCK_OK);
    line_serve(&line, 2);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* It stands behind the others and knows it, but can't be woken: its pauses stay short. */
START_TEST(who_cant_be_woken_trusts_in_nothing)
{
    struct line line = line_new(2120 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    line.held->lease->terms->retry_base_ms = 10; /* it leaves the name alone no longer than that */
    for (uint32_t i = 0; i < 5; i++)
        sim_error(sim, i, SIM_BLPOP, "NOPERM no permissions to run it");
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    line.locks[0] = wait_for(sim, 0, 10, 2400);
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    while (line.locks[0]->lease->last_reason != REDLOCK_BUSY && sim->now_ns < since_ns + SIM_S)
        sim_run(sim, SIM_MS);
    ck_assert_int_le(sim->now_ns - since_ns, 700 * SIM_MS);
    sim_run(sim, 5 * SIM_MS);
    uint64_t looks = sim_count(sim, SIM_ALL, SIM_PTTL);
    sim_run(sim, 150 * SIM_MS); /* 20, 40, 80 */
    ck_assert_uint_ge(sim_count(sim, SIM_ALL, SIM_PTTL), looks + 6);
    for (uint32_t k = 0; k <= WAITERS; k++)
        if (k != 1)
            line_leave(&line, k);
    ck_assert_int_eq(sim_release_now(sim, line.locks[1]), REDLOCK_OK);
    sim_heal(sim);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Standing back is for those who have the time: who doesn't wait asks at once, who waits for less
 * than a pause before the wait is over. */
START_TEST(who_has_no_time_does_not_stand_back_for_long)
{
    struct line line = line_new(2140 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    struct redlock__lease_config config = sim_lock_config(30000);
    config.wait_ms = _i % 2 == 0 ? 0 : 200;
    config.retry_base_ms = 3000;
    config.retry_cap_ms = 6000;
    line.held->lease->terms->retry_base_ms = 10; /* it leaves the name alone no longer than that */
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    int64_t since_ns = sim->now_ns;
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    ck_assert_ptr_nonnull(lock);
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_BUSY);
    ck_assert_int_le(sim->now_ns - since_ns, (config.wait_ms + 15) * SIM_MS);
    sim_forget(sim, lock, false);
    ck_assert_int_eq(sim_release_now(sim, line.locks[1]), REDLOCK_OK);
    line_serve(&line, 2);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* They have left in the meantime: what was pushed is gone a moment later, or the next one to wait
 * asks once more than needed. */
START_TEST(where_the_line_is_gone_nothing_stays)
{
    struct line line = line_new(1950 + (uint64_t)_i, 10, 1000);
    struct sim *sim = line.sim;
    for (uint32_t k = 1; k <= WAITERS; k++)
        line_leave(&line, k);
    sim_run(sim, 2 * SIM_MS);
    ck_assert_uint_eq(blocked(sim), 0);
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    sim_run(sim, 2 * SIM_MS);
    ck_assert_uint_eq(sim_present(sim, "redlock:wake:k"), UINT32_C(1) << line.node);
    if (_i % 2 == 0) { /* it knows that nobody waits: it stands back for nobody */
        int64_t since_ns = sim->now_ns;
        struct sim_lock *lock = wait_for(sim, 0, 10, 1000);
        ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
        ck_assert_int_le(sim->now_ns - since_ns, 2 * SIM_MS);
        uint64_t attempts = sim_stats(sim, 1).attempts;
        line.locks[1] = wait_for(sim, 1, 3000, 6000);
        sim_run(sim, 100 * SIM_MS);
        ck_assert_uint_le(sim_stats(sim, 1).attempts, attempts + 2);
        ck_assert_uint_eq(blocked(sim), 1);
        ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
        ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
        ck_assert_int_eq(sim_release_now(sim, line.locks[1]), REDLOCK_OK);
    }
    sim_run(sim, 10 * SIM_S);
    ck_assert_uint_eq(sim_present(sim, "redlock:wake:k"), 0);
    ck_assert_uint_eq(sim_present(sim, "redlock:waiting:k"), 0);
    scenario_end(sim);
}
END_TEST

/* Nor does the one who pushed stand back for them, once it hears that nobody took it: not where it
 * comes later, and not where it has come already. */
START_TEST(nobody_in_line_is_nobody_to_stand_back_for)
{
    struct line line = line_new(2060 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    bool already = _i % 2 != 0;
    for (uint32_t k = 1; k <= WAITERS; k++)
        line_leave(&line, k);
    sim_run(sim, 2 * SIM_MS);
    ck_assert_uint_eq(blocked(sim), 0);
    for (uint32_t i = 0; i < 5; i++) /* or it would be woken by what it pushed itself */
        sim_error(sim, i, SIM_BLPOP, "NOPERM no permissions to run it");
    if (already)
        sim_hold(sim, 0, (int)line.node, SIM_DOWN);
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    if (!already)
        sim_run(sim, 2 * SIM_MS);
    int64_t since_ns = sim->now_ns;
    struct sim_lock *lock = wait_for(sim, 0, 3000, 6000);
    if (already) {
        sim_run(sim, 20 * SIM_MS);
        ck_assert_int_eq(lock->lease->last_reason, REDLOCK_PENDING);
        ck_assert(lock->running);
        sim_deliver(sim, 0, SIM_ALL);
        since_ns = sim->now_ns;
    }
    ck_assert_int_eq(sim_wait(sim, lock), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 3 * SIM_MS);
    ck_assert_int_eq(sim_release_now(sim, lock), REDLOCK_OK);
    sim_heal(sim);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* The lock was got while the primary with the line was away, so none of those that have the key can
 * tell of the line: nobody is woken elsewhere, and that nobody waits there says nothing. */
START_TEST(the_line_is_at_a_primary_that_never_had_the_key)
{
    struct line line = line_new(2100 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    line.held->lease->terms->retry_base_ms = 10; /* it leaves the name alone no longer than that */
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    sim_run(sim, 2 * SIM_MS);
    line.locks[0] = wait_for(sim, 0, 10, 20);
    sim_refuse(sim, 0, (int)line.node, true);
    sim_cut(sim, 0, (int)line.node, false);
    for (uint32_t k = 1; k <= WAITERS; k++) {
        ck_assert_int_eq(sim_wait(sim, line.locks[k]), REDLOCK_OK);
        ck_assert_int_eq(sim_release_now(sim, line.locks[k]), REDLOCK_OK);
    }
    ck_assert_int_eq(sim_wait(sim, line.locks[0]), REDLOCK_OK);
    for (uint32_t k = 1; k <= WAITERS; k++)
        line.locks[k] = wait_for(sim, k, 3000, 6000);
    sim_refuse(sim, 0, (int)line.node, false);
    for (int ms = 0; ms < 500 && sim_conn_of(sim, 0, line.node) == NULL; ms++)
        sim_run(sim, SIM_MS);
    sim_run(sim, 5 * SIM_MS);
    ck_assert_ptr_nonnull(sim_conn_of(sim, 0, line.node));
    for (uint32_t i = 0; i < 5; i++)
        if (i != line.node) /* that client 0 stood there meanwhile */
            sim_vanish(sim, i, "redlock:waiting:k");
    ck_assert_uint_eq(sim_where(sim, line.locks[0]) >> line.node & 1, 0);
    ck_assert_uint_eq(sim_present(sim, "redlock:waiting:k"), UINT32_C(1) << line.node);
    uint64_t pushed = sim_count(sim, SIM_ALL, SIM_LPUSH);
    ck_assert_int_eq(sim_release_now(sim, line.locks[0]), REDLOCK_OK);
    sim_run(sim, 3 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, SIM_ALL, SIM_LPUSH), pushed);
    line.locks[0] = wait_for(sim, 0, 3000, 6000); /* it stands back for them, as before */
    sim_run(sim, 20 * SIM_MS);
    ck_assert_int_eq(line.locks[0]->lease->last_reason, REDLOCK_PENDING);
    ck_assert(line.locks[0]->running);
    for (uint32_t k = 0; k <= WAITERS; k++)
        line_leave(&line, k);
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Those of one client leave the name alone after each eighth of them. Where nobody is known to
 * wait, only one such gap in eight is kept, and that is a quarter as long. */
START_TEST(gaps_for_nobody_are_few_and_short)
{
    enum {
        TURNS = 8 * 16 + 4
    };
    struct sim *sim = scenario_new(5, 1, 2080 + (uint64_t)_i);
    struct sim_lock *locks[TURNS];
    uint32_t gaps = 0;
    for (int k = 0; k < TURNS; k++)
        locks[k] = wait_for(sim, 0, 100, 200);
    for (int k = 0; k < TURNS; k++) {
        int64_t since_ns = sim->now_ns;
        ck_assert_int_eq(sim_wait(sim, locks[k]), REDLOCK_OK);
        gaps += sim->now_ns - since_ns >= 15 * SIM_MS;
        ck_assert_int_le(sim->now_ns - since_ns, 30 * SIM_MS);
        ck_assert_int_eq(sim_release_now(sim, locks[k]), REDLOCK_OK);
    }
    ck_assert_uint_eq(gaps, 2);
    sim_run(sim, 5 * SIM_S);
    scenario_end(sim);
}
END_TEST

/* Where too few removals can be sent it will not be free, and nobody is told that it was. */
START_TEST(nobody_is_woken_with_too_few_removals)
{
    struct line line = line_new(1980 + (uint64_t)_i, 3000, 6000);
    struct sim *sim = line.sim;
    uint64_t pushed = sim_count(sim, (int)line.node, SIM_LPUSH);
    for (uint32_t i = 0, cuts = 0; i < 5 && cuts < 3; i++)
        if (i != line.node) {
            sim_refuse(sim, 0, (int)i, true);
            sim_cut(sim, 0, (int)i, false);
            cuts++;
        }
    sim_run(sim, SIM_MS);
    ck_assert_int_eq(sim_release(sim, line.held), REDLOCK_OK);
    sim_run(sim, 20 * SIM_MS);
    ck_assert_uint_eq(sim_count(sim, (int)line.node, SIM_LPUSH), pushed);
    sim_refuse(sim, 0, SIM_ALL, false);
    int64_t since_ns = sim->now_ns; /* as soon as it is connected again */
    ck_assert_int_eq(sim_wait(sim, line.locks[1]), REDLOCK_OK);
    ck_assert_int_le(sim->now_ns - since_ns, 3 * SIM_S);
    sim_forget(sim, line.held, false);
    line_end(&line);
}
END_TEST

/* Whoever blocks again soon need not say again that somebody waits. */
START_TEST(that_somebody_waits_is_said_once_a_second)
{
    struct line line = line_new(2000 + (uint64_t)_i, 10, 1000);
    struct sim *sim = line.sim;
    uint64_t said = sim_count(sim, (int)line.node, SIM_WAITING), turns = 0;
    uint64_t asked = sim_count(sim, (int)line.node, SIM_BLPOP);
    int64_t end_ns = sim->now_ns + 4 * SIM_S;
    for (uint32_t k = 1; sim->now_ns < end_ns; k = (k + 1) % (1 + WAITERS), turns++) {
        struct sim_lock *next = line.locks[k];
        uint32_t was = line.held->client;
        ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
        line.locks[was] = wait_for(sim, was, 10, 1000);
        ck_assert_int_eq(sim_wait(sim, next), REDLOCK_OK);
        line.held = next;
        sim_run(sim, 4 * SIM_MS);
        ck_assert_int_gt(sim_pttl(sim, line.node, "redlock:waiting:k"), 3000);
    }
    ck_assert_uint_ge(sim_count(sim, (int)line.node, SIM_BLPOP) - asked, turns);
    ck_assert_uint_le(sim_count(sim, (int)line.node, SIM_WAITING) - said, 5 * (1 + WAITERS));
    ck_assert_uint_ge(turns, 600);
    line.locks[line.held->client] = NULL;
    ck_assert_int_eq(sim_release_now(sim, line.held), REDLOCK_OK);
    for (uint32_t k = 0; k <= WAITERS; k++)
        if (line.locks[k] != NULL) {
            line_leave(&line, k);
        }
    sim_run(sim, 10 * SIM_S);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *t = scenario_case(suite, "in line", 30);
    tcase_add_loop_test(t, the_next_is_woken_with_the_removal, 0, 20);
    tcase_add_loop_test(t, a_wake_up_that_overtakes_the_removals_is_not_lost, 0, 20);
    tcase_add_loop_test(t, who_has_not_asked_yet_does_not_look, 0, 10);
    tcase_add_loop_test(t, who_trusts_in_wake_ups_hardly_looks, 0, 20);
    tcase_add_loop_test(t, who_cant_be_woken_trusts_in_nothing, 0, 10);
    tcase_add_loop_test(t, who_has_no_time_does_not_stand_back_for_long, 0, 10);
    tcase_add_loop_test(t, where_the_line_is_gone_nothing_stays, 0, 20);
    tcase_add_loop_test(t, nobody_in_line_is_nobody_to_stand_back_for, 0, 20);
    tcase_add_loop_test(t, the_line_is_at_a_primary_that_never_had_the_key, 0, 10);
    tcase_add_loop_test(t, gaps_for_nobody_are_few_and_short, 0, 10);
    tcase_add_loop_test(t, nobody_is_woken_with_too_few_removals, 0, 10);
    tcase_add_loop_test(t, that_somebody_waits_is_said_once_a_second, 0, 5);
    return scenario_main(suite);
}
