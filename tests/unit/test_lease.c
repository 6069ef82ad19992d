/*
 * A lease from its first attempt to its release or its end by the clock; what extends and
 * renewals do to it is in test_lease_extend.c.
 */
#include "lease_driver.h"

/* ---- acquiring ---------------------------------------------------------- */

START_TEST(a_quorum_of_grants_is_held_from_the_start_of_the_attempt)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
    attempt(100);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers("oo", 110);
    ck_assert_int_eq(lease->op, REDLOCK__OP_ACQUIRE);
    answers("..o", 120);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(lease->deadline_ns, redlock__deadline(at(100), TTL_MS, 10000));
    ck_assert_uint_eq(lease->counted, 0x7);
    ck_assert_uint_eq(take_wants(), 0);
    ck_assert_int_eq(lease->renew_ns, REDLOCK__NEVER); /* never on unless asked for */
}
END_TEST

START_TEST(a_grant_after_the_verdict_is_not_counted)
{
    hold("ooo");
    answer(3, REDLOCK_VOTE_OURS, 5);
    ck_assert_uint_eq(lease->counted, 0x7);
    ck_assert_uint_eq(grant.known, 0xf);
    ck_assert_int_eq(redlock__lease_said(lease)[3].vote, REDLOCK_VOTE_OURS); /* but told */
}
END_TEST

START_TEST(the_reason_of_one_attempt_is_its_result)
{
    static const struct {
        const char *votes;
        int result;
    } cases[] = {{"xxx", REDLOCK_BUSY},        {"ooxxx", REDLOCK_BUSY},
                 {"oosxx", REDLOCK_BUSY},      {"ssse", REDLOCK_NO_QUORUM},
                 {"oosse", REDLOCK_NO_QUORUM}, {"eee", REDLOCK_NO_QUORUM}};
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers(cases[_i].votes, 1);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, cases[_i].result);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
    ck_assert(!redlock__lease_held(lease, at(1)));
}
END_TEST

START_TEST(a_quorum_that_comes_when_the_validity_is_used_up_is_expired)
{
    int64_t last_ms = TTL_MS - redlock__drift_ms(TTL_MS, 10000) - 1;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    if (_i == 0) {
        answers("ooo", last_ms);
        ck_assert_int_eq(lease->result, REDLOCK_OK);
        return;
    }
    redlock__lease_answer(lease,
                          &(struct redlock__lease_news){.nodes = 1,
                                                        .command = REDLOCK__CMD_SET,
                                                        .round_no = lease->round_no,
                                                        .vote = REDLOCK_VOTE_OURS,
                                                        .text = ""},
                          at(1));
    answers(".oo", last_ms + 1);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
    ck_assert_int_eq(lease->deadline_ns, 0);
}
END_TEST

START_TEST(min_validity_is_wanted_at_the_grant_and_ends_the_hold)
{
    terms.min_validity_ms = 500;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers("ooo", 100);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    int64_t end = redlock__held_until(lease->deadline_ns, 500);
    ck_assert(redlock__lease_held(lease, end - 1));
    ck_assert(!redlock__lease_held(lease, end));
    ck_assert_int_eq(redlock__lease_next_deadline(lease), end);
    redlock__lease_handle_deadline(lease, &random_state, end);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_LOST);
    ck_assert_int_eq(redlock__lease_lost_reason(lease), REDLOCK_EXPIRED);
}
END_TEST

START_TEST(a_grant_with_less_than_min_validity_is_expired)
{
    terms.min_validity_ms = 900;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers("ooo", 100);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
}
END_TEST

START_TEST(pauses_are_within_base_and_cap_and_the_upper_end_doubles)
{
    wait_ms = REDLOCK_WAIT_FOREVER;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    int64_t now_ms = 0;
    for (int k = 0; k < 30; k++) {
        int64_t upper = 10;
        for (int i = 0; i <= k && upper < 100; i++)
            upper *= 2;
        upper = redlock__min(upper, 100);
        attempt(now_ms);
        wait_ms = REDLOCK_WAIT_FOREVER;
        for (uint32_t i = 0; i < 3; i++)
            redlock__lease_answer(lease,
                                  &(struct redlock__lease_news){.nodes = UINT32_C(1) << i,
                                                                .command = REDLOCK__CMD_SET,
                                                                .round_no = lease->round_no,
                                                                .vote = REDLOCK_VOTE_FOREIGN,
                                                                .text = "",
                                                                .random = &random_state},
                                  at(now_ms));
        ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
        int64_t pause_ms = (lease->retry_ns - at(now_ms)) / REDLOCK__MS;
        ck_assert_int_ge(pause_ms, 10);
        ck_assert_int_le(pause_ms, upper);
        ck_assert(!redlock__lease_due(lease, lease->retry_ns - 1));
        abandon();
        now_ms += pause_ms;
    }
    ck_assert_int_eq(lease->op, REDLOCK__OP_ACQUIRE);
}
END_TEST

START_TEST(no_pause_begins_that_would_end_after_the_wait)
{
    wait_ms = 15;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers("xxx", 7);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED); /* 7 + 10 > 15 */
    ck_assert_int_eq(lease->result, REDLOCK_BUSY);
}
END_TEST

START_TEST(a_wait_that_ends_tells_the_last_reason_or_wait_deadline)
{
    wait_ms = 50;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    if (_i == 1) {
        attempt(0);
        answers("sss", 1);
        ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
        abandon();
    }
    ck_assert_int_eq(redlock__lease_next_deadline(lease), at(50));
    redlock__lease_handle_deadline(lease, &random_state, at(50) - 1);
    ck_assert_int_eq(lease->op, REDLOCK__OP_ACQUIRE);
    tick(50);
    ck_assert_int_eq(lease->result, _i == 1 ? REDLOCK_NO_QUORUM : REDLOCK_WAIT_DEADLINE);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
}
END_TEST

START_TEST(a_wait_that_ends_during_an_attempt_ends_it)
{
    wait_ms = 50;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(40);
    answers("oo", 45);
    tick(50);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, REDLOCK_NO_QUORUM);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
    answers("..ooo", 51); /* too late */
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert(!redlock__lease_held(lease, at(51)));
}
END_TEST

START_TEST(a_waiting_attempt_that_was_busy_asks_how_long)
{
    wait_ms = 500;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers("oxx", 1);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING); /* 0, 3 and 4 might do */
    answers("...x", 1);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON | REDLOCK__WANT_PTTL);
    ck_assert_uint_eq(lease->busy_at, 0xe);
    lease->retry_ns = at(100);
    redlock__pause_cut(lease, 30, &random_state, at(2));
    ck_assert_int_le(lease->retry_ns, at(2 + 30 + 10));
    ck_assert_int_ge(lease->retry_ns, at(2 + 30));
    redlock__pause_cut(lease, 5000, &random_state, at(2)); /* a hint never makes it later */
    ck_assert_int_le(lease->retry_ns, at(42));
    redlock__pause_cut(lease, -1, &random_state, at(2)); /* no ttl: no news */
    ck_assert_int_ge(lease->retry_ns, at(32));
}
END_TEST

START_TEST(cancelling_an_acquire_abandons_its_keys)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    if (_i == 1) {
        attempt(0);
        answers("oo", 1);
    }
    redlock__lease_stop(lease, REDLOCK_CANCELLED);
    ck_assert_int_eq(lease->result, REDLOCK_CANCELLED);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_uint_eq(take_wants(), _i == 1 ? REDLOCK__WANT_ABANDON : 0);
}
END_TEST

START_TEST(answers_of_an_earlier_round_do_not_vote)
{
    wait_ms = 1000;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    uint32_t first = lease->round_no;
    answers("oosss", 1);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
    abandon();
    attempt(30);
    answers("oo", 31);
    answer_round(first, 2, REDLOCK_VOTE_OURS, 32);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
}
END_TEST

/* ---- releasing ---------------------------------------------------------- */

START_TEST(a_release_tells_what_was_found)
{
    static const struct {
        const char *votes;
        int result;
    } cases[] = {{"ooo", REDLOCK_OK},          {"oofff", REDLOCK_EXPIRED}, {"ooxff", REDLOCK_LOST},
                 {"oosss", REDLOCK_NO_QUORUM}, {"fffss", REDLOCK_EXPIRED}, {"xxxss", REDLOCK_LOST},
                 {"eeeoo", REDLOCK_NO_QUORUM}};
    hold("ooo");
    redlock__lease_start_release(lease);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_RELEASE);
    redlock__lease_begin_release(lease, at(10));
    ck_assert(!redlock__lease_held(lease, at(10)));
    answers(cases[_i].votes, 11);
    ck_assert_int_eq(lease->result, cases[_i].result);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
}
END_TEST

START_TEST(renewal_never_runs_after_a_release)
{
    lease->renews = true;
    hold("ooo");
    if (_i == 1) { /* a renewal under way */
        tick(400);
        begin_extend(400);
    }
    redlock__lease_start_release(lease);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_RELEASE);
    redlock__lease_begin_release(lease, at(401));
    ck_assert_int_eq(redlock__lease_next_deadline(lease), REDLOCK__NEVER);
    answers("ooooo", 402);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_uint_eq(lease->wants & REDLOCK__WANT_EXTEND, 0);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
}
END_TEST

START_TEST(releasing_a_lost_lease_tells_why_and_sends_nothing_more)
{
    hold("ooo");
    redlock__lease_handle_deadline(lease, &random_state, at(TTL_MS));
    abandon();
    redlock__lease_start_release(lease);
    ck_assert_int_eq(lease->result, REDLOCK_EXPIRED);
    ck_assert_uint_eq(take_wants(), 0);
}
END_TEST

START_TEST(cancelling_a_release_ends_it_and_the_removal_goes_on)
{
    hold("ooo");
    redlock__lease_start_release(lease);
    if (_i == 1) {
        (void)take_wants();
        redlock__lease_begin_release(lease, at(10));
    }
    redlock__lease_stop(lease, REDLOCK_CANCELLED);
    ck_assert_int_eq(lease->result, REDLOCK_CANCELLED);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_uint_eq(take_wants(), _i == 1 ? 0 : REDLOCK__WANT_ABANDON);
    ck_assert(!redlock__lease_held(lease, at(11)));
}
END_TEST

/* ---- main --------------------------------------------------------------- */

static void add_acquiring(TCase *t)
{
    tcase_add_test(t, a_quorum_of_grants_is_held_from_the_start_of_the_attempt);
    tcase_add_test(t, a_grant_after_the_verdict_is_not_counted);
    tcase_add_loop_test(t, the_reason_of_one_attempt_is_its_result, 0, 6);
    tcase_add_loop_test(t, a_quorum_that_comes_when_the_validity_is_used_up_is_expired, 0, 2);
    tcase_add_test(t, min_validity_is_wanted_at_the_grant_and_ends_the_hold);
    tcase_add_test(t, a_grant_with_less_than_min_validity_is_expired);
    tcase_add_test(t, pauses_are_within_base_and_cap_and_the_upper_end_doubles);
    tcase_add_test(t, no_pause_begins_that_would_end_after_the_wait);
    tcase_add_loop_test(t, a_wait_that_ends_tells_the_last_reason_or_wait_deadline, 0, 2);
    tcase_add_test(t, a_wait_that_ends_during_an_attempt_ends_it);
    tcase_add_test(t, a_waiting_attempt_that_was_busy_asks_how_long);
    tcase_add_loop_test(t, cancelling_an_acquire_abandons_its_keys, 0, 2);
    tcase_add_test(t, answers_of_an_earlier_round_do_not_vote);
}

static void add_releasing(TCase *t)
{
    tcase_add_loop_test(t, a_release_tells_what_was_found, 0, 7);
    tcase_add_loop_test(t, renewal_never_runs_after_a_release, 0, 2);
    tcase_add_test(t, releasing_a_lost_lease_tells_why_and_sends_nothing_more);
    tcase_add_loop_test(t, cancelling_a_release_ends_it_and_the_removal_goes_on, 0, 2);
}

int main(void)
{
    Suite *suite = suite_create("lease");
    add_acquiring(add_case(suite, "acquiring"));
    add_releasing(add_case(suite, "releasing"));
    return run_suite(suite);
}
