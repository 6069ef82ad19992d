/*
 * What primaries take back from a lease: clocks that step or run fast, restarts and flushes; and
 * how much of a hold is left then.
 */
#include "lease_driver.h"

enum {
    DRIFT_MS = 12 /* of TTL_MS at 1 % */
};

static const int64_t step_ns = 100 * REDLOCK__MS;

static int64_t end_of(int64_t start_ms)
{
    return redlock__deadline(at(start_ms), TTL_MS, 10000);
}

static void stepped(uint32_t nodes, int64_t by_ns, int64_t ms)
{
    for (uint32_t i = 0; i < lease->n; i++)
        if ((nodes >> i & 1) != 0)
            redlock__lease_stepped(lease, i, by_ns, at(ms));
}

static void forgotten(uint32_t node, int64_t ms)
{
    redlock__lease_forgotten(lease, node, &random_state, at(ms));
}

static void acquire(const char *votes)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers(votes, 1);
}

static void assert_lost(int reason)
{
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
    ck_assert_int_eq(redlock__lease_lost_reason(lease), reason);
    ck_assert_int_eq(lease->deadline_ns, 0);
    ck_assert_uint_ne(take_events() & REDLOCK__EVENT_BIT_LOST, 0);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
}

/* ---- clocks that step --------------------------------------------------- */

/* All five counted, by an extend at 2 ms. */
START_TEST(a_minority_that_stepped_moves_nothing)
{
    static const uint32_t minorities[] = {0x01, 0x10, 0x03, 0x18, 0x11};
    hold_all();
    stepped(minorities[_i], step_ns, 10);
    ck_assert_int_eq(lease->deadline_ns, end_of(2));
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(lease->counted, 0x1f); /* their votes stand for as long as their keys */
    ck_assert_uint_eq(take_events(), 0);
}
END_TEST

START_TEST(a_majority_that_stepped_takes_the_quorum_along)
{
    static const uint32_t majorities[] = {0x07, 0x1c, 0x15, 0x0f, 0x1f};
    hold_all();
    stepped(majorities[_i], step_ns, 10);
    ck_assert_int_eq(lease->deadline_ns, end_of(2) - step_ns);
    ck_assert_int_eq(redlock__lease_next_deadline(lease),
                     redlock__held_until(end_of(2) - step_ns, 0));
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
}
END_TEST

START_TEST(of_different_steps_the_quorumth_counts)
{
    hold_all();
    for (uint32_t i = 0; i < MAX_N; i++)
        redlock__lease_stepped(lease, i, (int64_t)(i + 1) * step_ns, at(10));
    ck_assert_int_eq(lease->deadline_ns, end_of(2) - 3 * step_ns);
}
END_TEST

START_TEST(steps_add_up)
{
    hold_all();
    stepped(0x1f, step_ns, 10);
    stepped(0x0f, step_ns, 11);
    ck_assert_int_eq(lease->deadline_ns, end_of(2) - 2 * step_ns);
}
END_TEST

START_TEST(of_a_bare_quorum_every_step_counts)
{
    hold("ooo");
    stepped(0x18, step_ns, 10); /* not counted */
    ck_assert_int_eq(lease->deadline_ns, end_of(0));
    stepped(0x02, step_ns, 10);
    ck_assert_int_eq(lease->deadline_ns, end_of(0) - step_ns);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert(redlock__lease_held(lease, at(TTL_MS - DRIFT_MS - 101)));
    ck_assert(!redlock__lease_held(lease, at(TTL_MS - DRIFT_MS - 100)));
}
END_TEST

START_TEST(a_step_beyond_the_end_loses_at_once)
{
    hold("ooo");
    stepped(0x01, (TTL_MS - DRIFT_MS - 10 + _i) * REDLOCK__MS, 9);
    if (_i == 0) {
        ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
        return;
    }
    assert_lost(REDLOCK_EXPIRED);
    stepped(0x07, step_ns, 10); /* said once */
    ck_assert_uint_eq(take_events(), 0);
}
END_TEST

START_TEST(min_validity_is_looked_at_too)
{
    terms.min_validity_ms = 500;
    hold("ooo");
    stepped(0x01, 500 * REDLOCK__MS, 10);
    assert_lost(REDLOCK_EXPIRED);
}
END_TEST

START_TEST(a_step_while_acquiring_shortens_what_is_granted)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    if (_i == 0)
        stepped(0x02, step_ns, 1); /* before its answer */
    answers("oo", 2);
    if (_i == 1)
        stepped(0x02, step_ns, 3); /* behind it */
    answers("..o", 4);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->deadline_ns, end_of(0) - step_ns);
}
END_TEST

START_TEST(a_step_that_eats_it_all_is_expired)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    stepped(0x01, TTL_MS * REDLOCK__MS, 1);
    answers("ooo", 2);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
}
END_TEST

START_TEST(the_next_attempt_begins_after_the_step)
{
    wait_ms = REDLOCK_WAIT_FOREVER;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    stepped(0x01, step_ns, 1);
    answers("xxx", 2);
    abandon();
    stepped(0x01, step_ns, 3); /* nothing is held: nothing to take */
    attempt(200);
    answers("ooo", 201);
    ck_assert_int_eq(lease->deadline_ns, end_of(200));
}
END_TEST

START_TEST(a_step_while_renewing_shortens_both)
{
    hold("ooo");
    extend(TTL_MS, 100);
    stepped(0x04, step_ns, 101);
    ck_assert_int_eq(lease->deadline_ns, end_of(0) - step_ns);
    answers("ooo", 102);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(lease->deadline_ns, end_of(100) - step_ns);
    extend(TTL_MS, 200);
    answers("ooo", 201);
    ck_assert_int_eq(lease->deadline_ns, end_of(200)); /* set after the step */
}
END_TEST

START_TEST(a_step_shortens_late_answers_as_well)
{
    hold_all();
    extend(TTL_MS, 100);
    answers("ooo", 101);
    ck_assert_int_eq(lease->deadline_ns, end_of(100));
    stepped(0x1f, step_ns, 102);
    ck_assert_int_eq(lease->deadline_ns, end_of(100) - step_ns);
    answers("...oo", 103);
    ck_assert_int_eq(lease->deadline_ns, end_of(100) - step_ns);
}
END_TEST

START_TEST(a_step_of_an_adopted_lease_shortens_its_first_extend)
{
    grant = (struct redlock__grant){.lease = lease, .written = 0x1f};
    lease->grant = &grant;
    redlock__lease_start_adopted(lease, 0x07);
    stepped(0x07, step_ns, 1);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ADOPTED);
    extend(TTL_MS, 10);
    stepped(0x07, 2 * step_ns, 11);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_RENEWING);
    answers("ooo", 12);
    ck_assert_int_eq(lease->deadline_ns, end_of(10) - 2 * step_ns);
}
END_TEST

START_TEST(what_is_over_has_no_clock)
{
    hold("ooo");
    redlock__lease_start_release(lease);
    (void)take_wants();
    redlock__lease_begin_release(lease, at(1));
    stepped(0x1f, step_ns, 2);
    answers("ooo", 3);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    stepped(0x1f, step_ns, 4);
    ck_assert_uint_eq(take_events() & REDLOCK__EVENT_BIT_LOST, 0);
}
END_TEST

START_TEST(huge_steps_do_not_wrap)
{
    hold_all();
    stepped(0x03, INT64_MAX, 10);
    stepped(0x03, INT64_MAX, 10);
    ck_assert_int_eq(lease->deadline_ns, end_of(2));
    stepped(0x04, INT64_MAX, 10);
    assert_lost(REDLOCK_EXPIRED);
}
END_TEST

/* ---- clocks that run fast ----------------------------------------------- */

START_TEST(each_primary_has_its_own_allowance)
{
    uint32_t ppm[] = {50000, 10000, 90000, 20000, 10000};
    terms.node_ppm = ppm;
    hold("ooo");
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(0), TTL_MS, 90000));
    answers("...oo", 1);
    extend(TTL_MS, 2);
    answers("ooooo", 3);
    ck_assert_uint_eq(lease->counted, 0x1f);
    /* 1, 4 and 3 are the three slowest: the third latest end is 3's */
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(2), TTL_MS, 20000));
}
END_TEST

START_TEST(what_a_round_gives_is_by_the_rate_then)
{
    uint32_t ppm[] = {10000, 10000, 10000, 10000, 10000};
    terms.node_ppm = ppm;
    hold("ooo");
    ppm[0] = 50000;
    ck_assert_int_eq(lease->deadline_ns, end_of(0));
    extend(TTL_MS, 100);
    answers("ooo", 101);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(100), TTL_MS, 50000));
}
END_TEST

/* ---- what was forgotten ------------------------------------------------- */

START_TEST(a_grant_is_taken_back)
{
    acquire("oo");
    forgotten(0, 2);
    ck_assert_int_eq(redlock__lease_said(lease)[0].vote, REDLOCK_VOTE_DOWN);
    ck_assert_str_eq(redlock__lease_text(lease, 0), "it restarted or was flushed since");
    answers("..o", 3);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING); /* three said so, two stand */
    answers("...o", 4);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(lease->counted, 0x0e);
}
END_TEST

START_TEST(a_grant_taken_back_may_end_the_attempt)
{
    acquire(_i == 0 ? "ooss" : "ooxx");
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    forgotten(1, 2);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, _i == 0 ? REDLOCK_NO_QUORUM : REDLOCK_BUSY);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
}
END_TEST

START_TEST(who_has_not_answered_has_nothing_to_forget_but_its_vote)
{
    acquire("oo");
    forgotten(4, 2);
    ck_assert_int_eq(redlock__lease_said(lease)[4].vote, REDLOCK_VOTE_NONE);
    answers("..o", 3);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
}
END_TEST

START_TEST(a_primary_that_forgot_leaves_the_set)
{
    hold_all();
    forgotten(1, 10);
    ck_assert_uint_eq(lease->counted, 0x1d);
    ck_assert_int_eq(lease->deadline_ns, end_of(2));
    forgotten(1, 11); /* again is nothing new */
    ck_assert_uint_eq(lease->counted, 0x1d);
    forgotten(4, 12);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(take_events(), 0);
    forgotten(0, 13);
    assert_lost(REDLOCK_LOST);
    forgotten(2, 14);
    ck_assert_uint_eq(take_events(), 0);
}
END_TEST

START_TEST(who_was_not_counted_is_not_missed)
{
    hold("ooo");
    forgotten(4, 10);
    ck_assert_uint_eq(lease->counted, 0x07);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    forgotten(0, 11);
    assert_lost(REDLOCK_LOST);
}
END_TEST

/* Those that are left may have the earlier ends. */
START_TEST(a_vote_that_goes_takes_its_end_along)
{
    hold_all();
    stepped(0x03, step_ns, 10);
    ck_assert_int_eq(lease->deadline_ns, end_of(2));
    forgotten(4, 11);
    ck_assert_int_eq(lease->deadline_ns, end_of(2) - step_ns);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
}
END_TEST

START_TEST(a_vote_that_goes_may_end_the_hold)
{
    hold_all();
    stepped(0x03, TTL_MS * REDLOCK__MS, 10);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    forgotten(4, 11);
    assert_lost(REDLOCK_EXPIRED);
}
END_TEST

START_TEST(it_does_not_come_back_in_the_same_round)
{
    hold_all();
    extend(TTL_MS, 10);
    if (_i == 0)
        answers("o", 11);
    forgotten(0, 12);
    ck_assert_uint_eq(lease->counted, 0x1e);
    answers(".ooo", 13);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_uint_eq(lease->counted, 0x1e);
    answers("o", 14); /* late, or set again meanwhile */
    ck_assert_uint_eq(lease->counted, 0x1e);
    extend(TTL_MS, 20);
    answers("ooooo", 21);
    ck_assert_uint_eq(lease->counted, 0x1f); /* known ours when that began */
}
END_TEST

START_TEST(what_a_renewal_loses_may_fail_it)
{
    hold_all();
    extend(TTL_MS, 10);
    answers("oosss", 11);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    extend(TTL_MS, 20);
    answers("oos", 21);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_RENEWING);
    answers("...s", 22);
    forgotten(0, 23); /* it can't be won any more */
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(lease->deadline_ns, end_of(2));
}
END_TEST

START_TEST(an_adopted_lease_forgets_too)
{
    grant = (struct redlock__grant){.lease = lease, .written = 0x1f};
    lease->grant = &grant;
    redlock__lease_start_adopted(lease, 0x07);
    forgotten(0, 1);
    assert_lost(REDLOCK_EXPIRED);
}
END_TEST

START_TEST(who_waits_or_is_done_forgets_nothing)
{
    wait_ms = REDLOCK_WAIT_FOREVER;
    acquire("xxx");
    forgotten(0, 2);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
    ck_assert_int_eq(redlock__lease_said(lease)[0].vote, REDLOCK_VOTE_FOREIGN);
}
END_TEST

/* A primary whose vote doesn't count now may have the key, and still not join. */
START_TEST(only_those_whose_vote_counts_join)
{
    hold("ooo");
    answers("...oo", 1);
    counting = 0x0f;
    extend(TTL_MS, 2);
    answers("ooooo", 3);
    ck_assert_uint_eq(lease->counted, 0x0f);
    counting = 0x11;
    extend(TTL_MS, 4);
    answers("ooooo", 5);
    ck_assert_uint_eq(lease->counted, 0x1f); /* who is in stays in */
}
END_TEST

/* ---- margin ------------------------------------------------------------- */

static int margin(int64_t ms)
{
    return redlock__lease_margin(lease, at(ms));
}

START_TEST(margin_is_what_may_go)
{
    ck_assert_int_eq(margin(0), -1);
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers("oo", 1);
    ck_assert_int_eq(margin(1), -1);
    answers("..o", 2);
    ck_assert_int_eq(margin(2), 0);
    answers("...oo", 3);
    ck_assert_int_eq(margin(3), 0); /* after the verdict: not counted yet */
    (void)take_events();
    extend(TTL_MS, 4);
    ck_assert_int_eq(margin(4), 0);
    answers("ooooo", 5);
    ck_assert_int_eq(margin(5), 2);
    forgotten(3, 6);
    ck_assert_int_eq(margin(6), 1);
    forgotten(4, 6);
    ck_assert_int_eq(margin(6), 0);
    forgotten(0, 6);
    ck_assert_int_eq(margin(6), -1);
}
END_TEST

START_TEST(who_let_the_key_go_is_no_margin)
{
    hold_all();
    ck_assert_int_eq(margin(10), 2);
    stepped(0x01, TTL_MS * REDLOCK__MS, 10);
    ck_assert_int_eq(margin(10), 1);
    stepped(0x02, TTL_MS * REDLOCK__MS, 10);
    ck_assert_int_eq(margin(10), 0);
    stepped(0x04, TTL_MS * REDLOCK__MS, 10);
    ck_assert_int_eq(margin(10), -1);
}
END_TEST

START_TEST(margin_ends_with_the_hold)
{
    hold_all();
    int64_t end = redlock__held_until(lease->deadline_ns, 0);
    ck_assert_int_eq(redlock__lease_margin(lease, end - 1), 2);
    ck_assert_int_eq(redlock__lease_margin(lease, end), -1);
}
END_TEST

/* ---- main --------------------------------------------------------------- */

static void add_clocks(TCase *t)
{
    tcase_add_loop_test(t, a_minority_that_stepped_moves_nothing, 0, 5);
    tcase_add_loop_test(t, a_majority_that_stepped_takes_the_quorum_along, 0, 5);
    tcase_add_test(t, of_different_steps_the_quorumth_counts);
    tcase_add_test(t, steps_add_up);
    tcase_add_test(t, of_a_bare_quorum_every_step_counts);
    tcase_add_loop_test(t, a_step_beyond_the_end_loses_at_once, 0, 2);
    tcase_add_test(t, min_validity_is_looked_at_too);
    tcase_add_loop_test(t, a_step_while_acquiring_shortens_what_is_granted, 0, 2);
    tcase_add_test(t, a_step_that_eats_it_all_is_expired);
    tcase_add_test(t, the_next_attempt_begins_after_the_step);
    tcase_add_test(t, a_step_while_renewing_shortens_both);
    tcase_add_test(t, a_step_shortens_late_answers_as_well);
    tcase_add_test(t, a_step_of_an_adopted_lease_shortens_its_first_extend);
    tcase_add_test(t, what_is_over_has_no_clock);
    tcase_add_test(t, huge_steps_do_not_wrap);
    tcase_add_test(t, each_primary_has_its_own_allowance);
    tcase_add_test(t, what_a_round_gives_is_by_the_rate_then);
}

static void add_forgotten(TCase *t)
{
    tcase_add_test(t, a_grant_is_taken_back);
    tcase_add_loop_test(t, a_grant_taken_back_may_end_the_attempt, 0, 2);
    tcase_add_test(t, who_has_not_answered_has_nothing_to_forget_but_its_vote);
    tcase_add_test(t, a_primary_that_forgot_leaves_the_set);
    tcase_add_test(t, who_was_not_counted_is_not_missed);
    tcase_add_test(t, a_vote_that_goes_takes_its_end_along);
    tcase_add_test(t, a_vote_that_goes_may_end_the_hold);
    tcase_add_loop_test(t, it_does_not_come_back_in_the_same_round, 0, 2);
    tcase_add_test(t, what_a_renewal_loses_may_fail_it);
    tcase_add_test(t, an_adopted_lease_forgets_too);
    tcase_add_test(t, who_waits_or_is_done_forgets_nothing);
    tcase_add_test(t, only_those_whose_vote_counts_join);
}

static void add_margin(TCase *t)
{
    tcase_add_test(t, margin_is_what_may_go);
    tcase_add_test(t, who_let_the_key_go_is_no_margin);
    tcase_add_test(t, margin_ends_with_the_hold);
}

int main(void)
{
    Suite *suite = suite_create("lease_losses");
    add_clocks(add_case(suite, "clocks"));
    add_forgotten(add_case(suite, "forgotten"));
    add_margin(add_case(suite, "margin"));
    return run_suite(suite);
}
