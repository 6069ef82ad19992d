/*
 * A fenced lease: when a second round is needed, what it may find, and that it lives by the time of
 * the first.
 */
#include "lease_driver.h"

static uint32_t grant_round;

static void fenced_attempt(void)
{
    lease->fenced = true;
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    ck_assert_int_eq(lease->round_command, REDLOCK__CMD_GRANT);
    grant_round = lease->round_no;
}

/* To the first round, whichever is open now. */
static void say_granted(uint32_t node, int64_t number, bool behind, int64_t ms)
{
    struct redlock__lease_news news = {.nodes = UINT32_C(1) << node,
                                       .command = REDLOCK__CMD_GRANT,
                                       .round_no = grant_round,
                                       .vote = REDLOCK_VOTE_OURS,
                                       .number = number,
                                       .behind = behind,
                                       .text = ""};
    redlock__grant_set_answer(&grant, UINT32_C(1) << node, REDLOCK_VOTE_OURS);
    redlock__lease_answer(lease, &news, at(ms));
}

static void granted(uint32_t node, int64_t number, int64_t ms)
{
    say_granted(node, number, false, ms);
}

/* A wish the engine has granted. */
static void begin_settle(void)
{
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_SETTLE);
    redlock__lease_begin_settle(lease);
    ck_assert_int_eq(lease->round_command, REDLOCK__CMD_SETTLE);
}

/* 7, 7 and 8 at 10 ms: only the third primary has the token. */
static void uneven(void)
{
    fenced_attempt();
    granted(0, 7, 10);
    granted(1, 7, 10);
    granted(2, 8, 10);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled, 0x1b);
    ck_assert_uint_eq(take_events(), 0);
    ck_assert_int_eq(lease->op, REDLOCK__OP_ACQUIRE);
    begin_settle();
}

static void assert_failed(int result)
{
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, result);
    ck_assert_uint_eq(take_wants(), REDLOCK__WANT_ABANDON);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
    ck_assert_int_eq(lease->deadline_ns, 0);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token,
                     0); /* was never settled, and nobody may have it */
}

static int64_t end_after(int64_t ms)
{
    return redlock__deadline(at(ms), TTL_MS, 10000);
}

/* ---- needed or not ------------------------------------------------------ */

START_TEST(a_quorum_with_one_number_needs_no_second_round)
{
    fenced_attempt();
    for (uint32_t i = 0; i < 3; i++)
        granted(i, 7, 10);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 7);
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled, 0x18);
    ck_assert_int_eq(lease->deadline_ns, end_after(0));
}
END_TEST

START_TEST(a_second_round_makes_a_quorum_of_the_token)
{
    uneven();
    answers("o", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers(".o", 30);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(lease->result, REDLOCK_OK);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_uint_eq(lease->counted, 0x7);
    ck_assert_int_eq(lease->deadline_ns, end_after(0)); /* by the first round's start */
}
END_TEST

/* The same number, but on two of them the counter isn't there, or is another. */
START_TEST(who_is_behind_its_number_is_settled)
{
    fenced_attempt();
    granted(0, 8, 10);
    say_granted(1, 8, true, 10);
    say_granted(2, 8, true, 10);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled, 0x1e);
    begin_settle();
    answers(".o", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers("..o", 30);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    say_granted(3, 9, true, 40); /* late: above it, and to be looked at all the same */
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled >> 3 & 1, 1);
    ck_assert_uint_eq(take_wants() & REDLOCK__WANT_SETTLE, REDLOCK__WANT_SETTLE);
}
END_TEST

START_TEST(who_was_behind_in_one_round_is_not_in_the_next)
{
    fenced_attempt();
    say_granted(0, 8, true, 10);
    ck_assert_uint_eq(redlock__lease_fencing(lease)->behind, 1);
    answers(".ffff", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    lease->grant = NULL;
    (void)take_wants();
    (void)take_events();
    fenced_attempt();
    ck_assert_uint_eq(redlock__lease_fencing(lease)->behind, 0);
    for (uint32_t i = 0; i < 3; i++)
        granted(i, 9, 30);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
}
END_TEST

/* Those whose answer to GRANT was not read may take the place of those that are above the token. */
START_TEST(who_is_above_the_token_is_left_out)
{
    uneven();
    answers("ff", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers("...oo", 30);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(lease->counted, 0x1c);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
}
END_TEST

START_TEST(without_a_quorum_of_the_token_the_attempt_fails)
{
    static const struct {
        const char *votes;
        int result;
    } cases[] = {{"ff.f", REDLOCK_BUSY},
                 {"ss.s", REDLOCK_NO_QUORUM},
                 {"ee.e", REDLOCK_NO_QUORUM},
                 {"of.ss", REDLOCK_BUSY}};
    uneven();
    answers(cases[_i].votes, 20);
    assert_failed(cases[_i].result);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 0);
}
END_TEST

START_TEST(the_next_attempt_begins_anew)
{
    wait_ms = REDLOCK_WAIT_FOREVER;
    uneven();
    answers("ff.f", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_WAITING);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 0);
    abandon();
    attempt(900);
    grant_round = lease->round_no;
    ck_assert_int_eq(lease->round_command, REDLOCK__CMD_GRANT);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(redlock__lease_fencing(lease)->numbers[i], 0);
        granted(i, 9, 910);
    }
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 9);
    ck_assert_int_eq(lease->deadline_ns, end_after(900));
}
END_TEST

/* ---- meanwhile ---------------------------------------------------------- */

START_TEST(a_late_number_changes_nothing)
{
    uneven();
    granted(3, 12, 15);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    ck_assert_uint_eq(take_wants(), 0);
    answers("o..f", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers(".o", 20);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_uint_eq(lease->counted, 0x7);
}
END_TEST

START_TEST(a_step_since_the_first_round_counts)
{
    fenced_attempt();
    granted(0, 7, 10);
    if (_i == 0)
        redlock__lease_stepped(lease, 0, 300 * REDLOCK__MS, at(10));
    granted(1, 7, 10);
    granted(2, 8, 10);
    begin_settle();
    if (_i == 1)
        redlock__lease_stepped(lease, 0, 300 * REDLOCK__MS, at(15));
    answers("oo", 20);
    ck_assert_int_eq(lease->deadline_ns, end_after(-300));
}
END_TEST

START_TEST(who_forgets_is_not_settled_any_more)
{
    uneven();
    redlock__lease_forgotten(lease, 2, &random_state, at(15));
    answers("oo", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ACQUIRING);
    answers("...o", 30);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(lease->counted, 0xb);
}
END_TEST

START_TEST(a_second_round_that_uses_the_validity_up_is_expired)
{
    terms.min_validity_ms = 500;
    uneven();
    answers("oo", _i == 0 ? 480 : 500);
    if (_i == 0)
        ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    else
        assert_failed(REDLOCK_EXPIRED);
}
END_TEST

START_TEST(cancelling_ends_it)
{
    uneven();
    redlock__lease_stop(lease, REDLOCK_CANCELLED);
    assert_failed(REDLOCK_CANCELLED);
    answers("oo", 20);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_ENDED);
    ck_assert_int_eq(lease->result, REDLOCK_CANCELLED);
    ck_assert_uint_eq(take_events(), 0);
}
END_TEST

START_TEST(cancelling_before_it_is_sent_sends_nothing)
{
    fenced_attempt();
    granted(0, 7, 10);
    granted(1, 7, 10);
    granted(2, 8, 10);
    redlock__lease_stop(lease, REDLOCK_CANCELLED);
    assert_failed(REDLOCK_CANCELLED);
}
END_TEST

START_TEST(the_end_of_the_wait_ends_it)
{
    wait_ms = 50;
    uneven();
    answers("o", 20);
    ck_assert_int_eq(redlock__lease_next_deadline(lease), at(50));
    tick(50);
    assert_failed(REDLOCK_NO_QUORUM);
}
END_TEST

/* ---- afterwards --------------------------------------------------------- */

START_TEST(what_comes_late_is_settled_if_that_is_any_use)
{
    static const struct {
        int64_t number;
        uint32_t wants, unsettled;
    } cases[] = {{6, REDLOCK__WANT_SETTLE, 0x18}, {7, 0, 0x10}, {8, 0, 0x10}};
    fenced_attempt();
    for (uint32_t i = 0; i < 3; i++)
        granted(i, 7, 10);
    (void)take_wants();
    granted(3, cases[_i].number, 20);
    ck_assert_uint_eq(take_wants(), cases[_i].wants);
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled, cases[_i].unsettled);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 7);
}
END_TEST

START_TEST(a_settled_one_is_remembered_also_after_the_round)
{
    struct redlock__lease_news news = {
        .nodes = 1 << 3, .command = REDLOCK__CMD_SETTLE, .vote = REDLOCK_VOTE_OURS, .text = ""};
    fenced_attempt();
    for (uint32_t i = 0; i < 3; i++)
        granted(i, 7, 10);
    redlock__lease_answer(lease, &news, at(20));
    ck_assert_uint_eq(redlock__lease_fencing(lease)->unsettled, 0x10);
    ck_assert_uint_eq(lease->counted, 0x7);
}
END_TEST

START_TEST(extending_leaves_the_token)
{
    uneven();
    answers("oo", 20);
    (void)take_wants();
    extend(TTL_MS, 100);
    answers("ooo", 110);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_int_eq(redlock__lease_fencing(lease)->token, 8);
    ck_assert_int_eq(lease->deadline_ns, end_after(100));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lease, fenced");
    TCase *t = add_case(suite, "settling");
    tcase_add_test(t, a_quorum_with_one_number_needs_no_second_round);
    tcase_add_test(t, a_second_round_makes_a_quorum_of_the_token);
    tcase_add_test(t, who_is_behind_its_number_is_settled);
    tcase_add_test(t, who_was_behind_in_one_round_is_not_in_the_next);
    tcase_add_test(t, who_is_above_the_token_is_left_out);
    tcase_add_loop_test(t, without_a_quorum_of_the_token_the_attempt_fails, 0, 4);
    tcase_add_test(t, the_next_attempt_begins_anew);

    t = add_case(suite, "meanwhile");
    tcase_add_test(t, a_late_number_changes_nothing);
    tcase_add_loop_test(t, a_step_since_the_first_round_counts, 0, 2);
    tcase_add_test(t, who_forgets_is_not_settled_any_more);
    tcase_add_loop_test(t, a_second_round_that_uses_the_validity_up_is_expired, 0, 2);
    tcase_add_test(t, cancelling_ends_it);
    tcase_add_test(t, cancelling_before_it_is_sent_sends_nothing);
    tcase_add_test(t, the_end_of_the_wait_ends_it);

    t = add_case(suite, "afterwards");
    tcase_add_loop_test(t, what_comes_late_is_settled_if_that_is_any_use, 0, 3);
    tcase_add_test(t, a_settled_one_is_remembered_also_after_the_round);
    tcase_add_test(t, extending_leaves_the_token);
    return run_suite(suite);
}
