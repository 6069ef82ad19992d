/*
 * Extends and renewals: the counted set, the deadline, what is set again, and how a hold
 * ends when they fail; also a lease from another process.
 */
#include "lease_driver.h"

/* ---- extending ---------------------------------------------------------- */

START_TEST(an_extend_answered_by_a_quorum_of_the_set_moves_the_deadline)
{
    hold("ooo");
    extend(2 * TTL_MS, 500);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(0), TTL_MS, 10000));
    answers("ooo", 501);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(500), 2 * TTL_MS, 10000));
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
}
END_TEST

START_TEST(a_shorter_ttl_lowers_the_deadline_before_anything_is_sent)
{
    hold("ooo");
    extend(100, 10);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(10), 100, 10000));
    answers("osses", 20);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(10), 100, 10000)); /* stays low */
}
END_TEST

START_TEST(a_failed_extend_leaves_the_old_deadline_and_the_keys)
{
    hold("ooooo");
    extend(5 * TTL_MS, 10);
    answers("ooess", 11);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(0), TTL_MS, 10000));
    ck_assert_uint_eq(take_wants(), 0);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
}
END_TEST

START_TEST(only_the_counted_set_counts)
{
    hold("ooo");
    answers("...oo", 2); /* granted after the verdict */
    extend(TTL_MS, 10);
    answers("ooess", 11);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    extend(TTL_MS, 20);
    answers("oo.oo", 21);
    ck_assert_int_eq(lease->op, REDLOCK__OP_EXTEND); /* four are ours, two of the set */
    answers("..o", 22);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_uint_eq(lease->counted, 0x1f); /* known before the round began: now counted */
}
END_TEST

START_TEST(a_primary_first_seen_in_a_round_counts_only_after_the_next)
{
    hold("ooo");
    ck_assert_uint_eq(grant.known, 0x7);
    extend(TTL_MS, 10);
    answers("ooo", 11);
    answers("...o", 12); /* late, and not known when the round began */
    ck_assert_uint_eq(lease->counted, 0x7);
    ck_assert_uint_eq(grant.known, 0xf);
    extend(TTL_MS, 20);
    ck_assert_uint_eq(lease->may_join, 0xf);
    answers("ooo", 21);
    ck_assert_uint_eq(lease->counted, 0x7);
    answers("...o", 22);
    ck_assert_uint_eq(lease->counted, 0xf);
}
END_TEST

START_TEST(missing_and_foreign_leave_the_set)
{
    hold_all();
    extend(TTL_MS, 10);
    answers("fx", 11);
    ck_assert_uint_eq(lease->counted, 0x1c);
    answers("..ooo", 12);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_uint_eq(lease->counted, 0x1c);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_REFILL);
    ck_assert_uint_eq(lease->refill, 0x1); /* the free one, not the foreign one */
}
END_TEST

START_TEST(fewer_than_a_quorum_in_the_set_is_lost_at_once)
{
    hold("ooo");
    extend(TTL_MS, 10);
    answers(_i == 0 ? "f" : "x", 11);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
    ck_assert_int_eq(lease->result, REDLOCK_LOST);
    ck_assert(!redlock__lease_held(lease, at(11)));
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE | REDLOCK__EVENT_BIT_LOST);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON); /* and nothing is set again */
}
END_TEST

START_TEST(nothing_is_set_again_after_a_failed_round)
{
    hold_all();
    extend(TTL_MS, 10);
    answers("fosss", 11);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(take_wants() & REDLOCK__WANT_REFILL, 0);
}
END_TEST

START_TEST(nothing_is_set_again_where_an_earlier_set_may_still_arrive)
{
    hold("ooo"); /* 3 and 4 have not answered their SET */
    extend(TTL_MS, 10);
    answers("ooo", 11);
    answers("...ff", 12);
    ck_assert_uint_eq(lease->refill, 0);
    ck_assert_uint_eq(take_wants() & REDLOCK__WANT_REFILL, 0);
}
END_TEST

START_TEST(an_extend_that_completes_after_the_old_validity_is_expired)
{
    hold("ooo");
    extend(TTL_MS, 900);
    answers("oo", 950);
    int64_t end = redlock__held_until(lease->deadline_ns, 0);
    redlock__lease_handle_deadline(lease, &random_state, end); /* the engine looks at this first */
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
    answers("..o", 990);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
    ck_assert_int_eq(lease->deadline_ns, 0); /* not taken back */
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE | REDLOCK__EVENT_BIT_LOST);
}
END_TEST

START_TEST(extending_a_lost_lease_tells_why_and_sends_nothing)
{
    hold("ooo");
    redlock__lease_handle_deadline(lease, &random_state, at(TTL_MS));
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
    redlock__lease_start_extend(lease, TTL_MS);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
    ck_assert_uint_eq(take_wants(), 0);
}
END_TEST

/* ---- renewing ----------------------------------------------------------- */

START_TEST(a_renewal_joins_another_if_it_is_due_soon)
{
    int64_t due_ns = t0 + TTL_MS * REDLOCK__MS / 3, early_ns = TTL_MS * REDLOCK__MS / 64;

    hold("ooo");
    ck_assert(!redlock__lease_join_renewal(lease, due_ns)); /* it doesn't renew */
    lease->renews = true;
    lease->renew_ns = due_ns;
    ck_assert(!redlock__lease_join_renewal(lease, due_ns - early_ns - 1));
    ck_assert_uint_eq(take_wants(), 0);
    ck_assert(redlock__lease_join_renewal(lease, due_ns - early_ns));
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_EXTEND);
    ck_assert(!redlock__lease_join_renewal(lease, due_ns)); /* once */
}
END_TEST

START_TEST(renewal_comes_at_a_third_of_the_ttl)
{
    lease->renews = true;
    hold("ooo");
    ck_assert_int_eq(redlock__lease_next_deadline(lease), t0 + TTL_MS * REDLOCK__MS / 3);
    tick(334);
    begin_extend(334);
    answers("ooo", 335);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_RENEWED);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(334), TTL_MS, 10000));
    ck_assert_int_eq(lease->renew_ns, at(334) + TTL_MS * REDLOCK__MS / 3);
}
END_TEST

START_TEST(failing_is_told_once_and_lost_once)
{
    uint32_t seen = 0, failing = 0, lost = 0;
    lease->renews = true;
    hold("ooo");
    int64_t end = redlock__held_until(lease->deadline_ns, 0);
    for (int k = 0; k < 100 && lease->state != REDLOCK__LEASE_LOST; k++) {
        int64_t due = redlock__lease_next_deadline(lease);
        redlock__lease_handle_deadline(lease, &random_state, due);
        if (lease->state == REDLOCK__LEASE_HELD) {
            begin_extend((due - t0) / REDLOCK__MS + 1);
            answers("sssss", (due - t0) / REDLOCK__MS + 2);
        }
        seen = take_events();
        failing += (seen & REDLOCK__EVENT_BIT_FAILING) != 0;
        lost += (seen & REDLOCK__EVENT_BIT_LOST) != 0;
        ck_assert(lost == 0 || due <= end);
    }
    ck_assert_uint_eq(failing, 1);
    ck_assert_uint_eq(lost, 1);
    ck_assert_int_eq(redlock__lease_lost_reason(lease), REDLOCK_EXPIRED);
    ck_assert_int_eq(redlock__lease_next_deadline(lease), REDLOCK__NEVER);
}
END_TEST

START_TEST(a_renewal_after_a_failed_one_makes_it_well_again)
{
    lease->renews = true;
    hold("ooo");
    for (int k = 0; k < 2; k++) {
        tick(400 + 600 * k);
        begin_extend(400 + 600 * k);
        answers("oosss", 410 + 600 * k);
        ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_FAILING); /* anew each time */
        tick(600 + 600 * k);
        begin_extend(600 + 600 * k);
        answers("ooo", 601 + 600 * k);
        ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_RENEWED);
        ck_assert(redlock__lease_held(lease, at(601 + 600 * k)));
    }
}
END_TEST

START_TEST(the_cap_ends_renewal_and_then_the_hold)
{
    lease->renews = true;
    terms.max_hold_ms = 1500;
    hold("ooo");
    tick(400);
    begin_extend(400);
    answers("ooo", 401);
    ck_assert_int_lt(lease->deadline_ns, at(1500));
    tick(800);
    begin_extend(800);
    answers("ooo", 801);
    ck_assert_int_eq(lease->deadline_ns, at(1500));
    ck_assert_int_eq(lease->renew_ns, REDLOCK__NEVER);
    redlock__lease_handle_deadline(lease, &random_state, at(1500));
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
}
END_TEST

START_TEST(a_call_waits_for_the_renewal_under_way)
{
    lease->renews = true;
    hold("ooo");
    tick(400);
    begin_extend(400);
    redlock__lease_start_extend(lease, 5 * TTL_MS);
    ck_assert_int_eq(lease->extend_ttl_ms, TTL_MS);
    answers("ooo", 401);
    ck_assert_int_eq(lease->op, REDLOCK__OP_EXTEND); /* its own round comes now */
    begin_extend(401);
    answers("ooo", 402);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(401), 5 * TTL_MS, 10000));
}
END_TEST

START_TEST(stop_renewing_stops_it)
{
    lease->renews = true;
    hold("ooo");
    redlock__lease_stop_renewing(lease);
    ck_assert_int_eq(redlock__lease_next_deadline(lease),
                     redlock__held_until(lease->deadline_ns, 0));
}
END_TEST

/* ---- adopted ------------------------------------------------------------ */

static void adopt(uint32_t counted)
{
    grant = (struct redlock__grant){.lease = lease, .written = 0x1f};
    lease->grant = &grant;
    redlock__lease_start_adopted(lease, counted);
}

START_TEST(an_adopted_lease_is_not_held_before_its_first_extend)
{
    lease->renews = true;
    adopt(0x7);
    ck_assert(!redlock__lease_held(lease, at(0)));
    ck_assert_int_eq(redlock__lease_next_deadline(lease), REDLOCK__NEVER);
    extend(TTL_MS, 10);
    answers("ooo", 11);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert(redlock__lease_held(lease, at(11)));
    ck_assert_int_ne(lease->renew_ns, REDLOCK__NEVER);
}
END_TEST

START_TEST(an_adopted_lease_counts_its_set_and_sets_nothing_again)
{
    adopt(0xf);
    extend(TTL_MS, 10);
    answers("ooof", 11);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    answer(3, REDLOCK_VOTE_FREE, 12);
    ck_assert_uint_eq(lease->counted, 0x7);
    ck_assert_uint_eq(take_wants() & REDLOCK__WANT_REFILL, 0);
    ck_assert_uint_eq(lease->refill, 0);
}
END_TEST

START_TEST(an_adopted_lease_that_is_gone_says_which_way)
{
    adopt(0x7);
    extend(TTL_MS, 10);
    answers(_i == 0 ? "f" : "x", 11);
    ck_assert_int_eq(lease->result, _i == 0 ? REDLOCK_EXPIRED : REDLOCK_LOST);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
}
END_TEST

START_TEST(a_failed_first_extend_can_be_tried_again)
{
    adopt(0x7);
    extend(TTL_MS, 10);
    answers("sss", 20);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ADOPTED);
    ck_assert(!redlock__lease_held(lease, at(20)));
    extend(TTL_MS, 30);
    answers("ooo", 31);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
}
END_TEST

/* ---- main --------------------------------------------------------------- */

static void add_extending(TCase *t)
{
    tcase_add_test(t, an_extend_answered_by_a_quorum_of_the_set_moves_the_deadline);
    tcase_add_test(t, a_shorter_ttl_lowers_the_deadline_before_anything_is_sent);
    tcase_add_test(t, a_failed_extend_leaves_the_old_deadline_and_the_keys);
    tcase_add_test(t, only_the_counted_set_counts);
    tcase_add_test(t, a_primary_first_seen_in_a_round_counts_only_after_the_next);
    tcase_add_test(t, missing_and_foreign_leave_the_set);
    tcase_add_loop_test(t, fewer_than_a_quorum_in_the_set_is_lost_at_once, 0, 2);
    tcase_add_test(t, nothing_is_set_again_after_a_failed_round);
    tcase_add_test(t, nothing_is_set_again_where_an_earlier_set_may_still_arrive);
    tcase_add_test(t, an_extend_that_completes_after_the_old_validity_is_expired);
    tcase_add_test(t, extending_a_lost_lease_tells_why_and_sends_nothing);
}

static void add_renewing(TCase *t)
{
    tcase_add_test(t, renewal_comes_at_a_third_of_the_ttl);
    tcase_add_test(t, a_renewal_joins_another_if_it_is_due_soon);
    tcase_add_test(t, failing_is_told_once_and_lost_once);
    tcase_add_test(t, a_renewal_after_a_failed_one_makes_it_well_again);
    tcase_add_test(t, the_cap_ends_renewal_and_then_the_hold);
    tcase_add_test(t, a_call_waits_for_the_renewal_under_way);
    tcase_add_test(t, stop_renewing_stops_it);
}

static void add_adopted(TCase *t)
{
    tcase_add_test(t, an_adopted_lease_is_not_held_before_its_first_extend);
    tcase_add_test(t, an_adopted_lease_counts_its_set_and_sets_nothing_again);
    tcase_add_loop_test(t, an_adopted_lease_that_is_gone_says_which_way, 0, 2);
    tcase_add_test(t, a_failed_first_extend_can_be_tried_again);
}

int main(void)
{
    Suite *suite = suite_create("lease_extend");
    add_extending(add_case(suite, "extending"));
    add_renewing(add_case(suite, "renewing"));
    add_adopted(add_case(suite, "adopted"));
    return run_suite(suite);
}
