/*
 * Rounds of 1 to 9 primaries. What the verdict has to be is computed in here from all votes
 * of a round, the plain way; the round gets them one by one, in some order, and must come
 * to that verdict in every order, as soon as it is certain, and not before.
 */
#include <check.h>
#include <stdlib.h>

#include "round.h"
#include "validity.h"

static const redlock_vote answers[] = {REDLOCK_VOTE_OURS, REDLOCK_VOTE_FREE, REDLOCK_VOTE_FOREIGN,
                                       REDLOCK_VOTE_ERROR};
enum {
    KINDS = 4,
    MAX_N = 9,
    MANY = 7
};

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static uint32_t all(uint32_t n)
{
    return (UINT32_C(1) << n) - 1;
}

static enum redlock__verdict expected(uint32_t n, uint32_t quorum, uint32_t counted,
                                      const redlock_vote *votes)
{
    uint32_t ours = 0, said = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (votes[i] == REDLOCK_VOTE_OURS && (counted & (UINT32_C(1) << i)) != 0)
            ours++;
        if (votes[i] == REDLOCK_VOTE_OURS || votes[i] == REDLOCK_VOTE_FREE ||
            votes[i] == REDLOCK_VOTE_FOREIGN)
            said++;
    }
    if (ours >= quorum)
        return REDLOCK__ROUND_WON;
    return said >= quorum ? REDLOCK__ROUND_BUSY : REDLOCK__ROUND_NO_QUORUM;
}

static void votes_of(uint32_t code, uint32_t n, redlock_vote *votes)
{
    for (uint32_t i = 0; i < n; i++, code /= KINDS)
        votes[i] = answers[code % KINDS];
}

static void shuffle(uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = draw(i), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
}

/* Whether the round comes to the expected verdict, seals it once, and keeps it. (One
 * assertion a split would take longer than all the rest.) */
static bool play(uint32_t n, uint32_t quorum, uint32_t counted, const redlock_vote *votes,
                 const uint32_t *order)
{
    struct redlock__round round;
    int seals = 0;
    bool kept = true;
    redlock__round_begin(&round, quorum, counted, all(n), 1);
    if (round.verdict != REDLOCK__ROUND_OPEN)
        seals++;
    for (uint32_t i = 0; i < n; i++) {
        enum redlock__verdict before = round.verdict;
        seals += redlock__round_answer(&round, UINT32_C(1) << order[i], votes[order[i]]);
        kept = kept && (before == REDLOCK__ROUND_OPEN || before == round.verdict);
    }
    return kept && seals == 1 && round.verdict == expected(n, quorum, counted, votes);
}

static bool plays_in_any_order(uint32_t n, const redlock_vote *votes)
{
    uint32_t order[MAX_N];
    for (uint32_t quorum = redlock__majority(n); quorum <= n; quorum++)
        for (int k = 0; k < 3; k++) {
            shuffle(order, n);
            if (!play(n, quorum, all(n), votes, order))
                return false;
        }
    return true;
}

START_TEST(every_split_of_votes_has_its_verdict_in_any_order)
{
    uint32_t n = (uint32_t)_i, codes = 1;
    redlock_vote votes[MAX_N];
    state = n;
    for (uint32_t i = 0; i < n; i++)
        codes *= KINDS;
    for (uint32_t code = 0; code < codes; code++) {
        votes_of(code, n, votes);
        if (!plays_in_any_order(n, votes))
            ck_abort_msg("n %u, votes %u (base 4, first primary last)", n, code);
    }
}
END_TEST

START_TEST(sampled_splits_of_eight_and_nine_have_their_verdict)
{
    redlock_vote votes[MAX_N];
    state = (uint64_t)_i;
    for (int k = 0; k < 20000; k++) {
        uint32_t code = draw(UINT32_C(1) << (2 * MAX_N));
        votes_of(code, (uint32_t)_i, votes);
        if (!plays_in_any_order((uint32_t)_i, votes))
            ck_abort_msg("n %d, votes %u (base 4, first primary last)", _i, code);
    }
}
END_TEST

/* Whether all ways in which the rest could answer lead to the same verdict. */
static bool certain(uint32_t n, uint32_t quorum, const redlock_vote *votes, const uint32_t *order,
                    uint32_t given)
{
    redlock_vote whole[MAX_N];
    uint32_t codes = 1;
    enum redlock__verdict first = REDLOCK__ROUND_OPEN;
    for (uint32_t i = given; i < n; i++)
        codes *= KINDS;
    for (uint32_t code = 0; code < codes; code++) {
        uint32_t rest = code;
        for (uint32_t i = 0; i < n; i++) {
            whole[order[i]] = i < given ? votes[order[i]] : answers[rest % KINDS];
            rest = i < given ? rest : rest / KINDS;
        }
        enum redlock__verdict verdict = expected(n, quorum, all(n), whole);
        if (code > 0 && verdict != first)
            return false;
        first = verdict;
    }
    return true;
}

START_TEST(the_verdict_is_sealed_as_soon_as_it_is_certain_and_not_before)
{
    uint32_t n = (uint32_t)_i, order[MAX_N];
    redlock_vote votes[MAX_N];
    state = n;
    for (int k = 0; k < 2000; k++) {
        struct redlock__round round;
        uint32_t quorum = redlock__majority(n) + draw(n - redlock__majority(n) + 1);
        votes_of(draw(UINT32_C(1) << (2 * n)), n, votes);
        shuffle(order, n);
        redlock__round_begin(&round, quorum, all(n), all(n), 1);
        for (uint32_t given = 0; given <= n; given++) {
            bool sealed = round.verdict != REDLOCK__ROUND_OPEN;
            if (sealed != certain(n, quorum, votes, order, given))
                ck_abort_msg("n %u, quorum %u, sample %d, after %u answers", n, quorum, k, given);
            if (given < n)
                redlock__round_answer(&round, UINT32_C(1) << order[given], votes[order[given]]);
        }
    }
}
END_TEST

START_TEST(only_counted_primaries_win_a_round)
{
    uint32_t n = (uint32_t)_i, order[MAX_N];
    redlock_vote votes[MAX_N];
    state = 100 + n;
    for (int k = 0; k < 20000; k++) {
        uint32_t counted = draw(UINT32_C(1) << n), quorum = redlock__majority(n);
        votes_of(draw(UINT32_C(1) << (2 * n)), n, votes);
        shuffle(order, n);
        if (!play(n, quorum, counted, votes, order))
            ck_abort_msg("n %u, counted %#x, sample %d", n, counted, k);
    }
}
END_TEST

START_TEST(half_against_half_is_busy_and_never_hangs)
{
    for (uint32_t n = 2; n <= 8; n += 2) {
        struct redlock__round round;
        redlock__round_begin(&round, redlock__majority(n), all(n), all(n), 1);
        for (uint32_t i = 0; i < n; i++)
            redlock__round_answer(&round, UINT32_C(1) << i,
                                  i % 2 == 0 ? REDLOCK_VOTE_OURS : REDLOCK_VOTE_FOREIGN);
        ck_assert_int_eq(round.verdict, REDLOCK__ROUND_BUSY);
    }
}
END_TEST

START_TEST(late_answers_do_not_change_a_sealed_verdict)
{
    struct redlock__round round;
    redlock__round_begin(&round, 3, all(5), all(5), 1);
    for (uint32_t i = 0; i < 3; i++)
        redlock__round_answer(&round, UINT32_C(1) << i, REDLOCK_VOTE_SILENT);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
    for (uint32_t i = 0; i < 5; i++) {
        ck_assert(!redlock__round_answer(&round, UINT32_C(1) << i, REDLOCK_VOTE_OURS));
        ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
    }
    ck_assert_uint_eq(round.ours, all(5)); /* the record has them */
}
END_TEST

START_TEST(a_late_answer_after_silence_counts_while_the_verdict_is_open)
{
    struct redlock__round round;
    redlock__round_begin(&round, 2, all(3), all(3), 1);
    redlock__round_answer(&round, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__round_answer(&round, 1 << 1, REDLOCK_VOTE_SILENT);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_OPEN);
    ck_assert(redlock__round_answer(&round, 1 << 1, REDLOCK_VOTE_OURS));
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_WON);
}
END_TEST

/* Where a primary forgot what it said. */
START_TEST(an_answer_taken_back_does_not_count)
{
    struct redlock__round round;
    redlock__round_begin(&round, 2, all(3), all(3), 1);
    redlock__round_answer(&round, 1 << 0, REDLOCK_VOTE_OURS);
    ck_assert(!redlock__round_answer(&round, 1 << 0, REDLOCK_VOTE_DOWN));
    ck_assert_uint_eq(round.ours, 0);
    ck_assert_uint_eq(round.owed, 0x6);
    ck_assert(!redlock__round_answer(&round, 1 << 1, REDLOCK_VOTE_OURS));
    ck_assert(redlock__round_answer(&round, 1 << 2, REDLOCK_VOTE_OURS));
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_WON);
    ck_assert(!redlock__round_answer(&round, 1 << 2, REDLOCK_VOTE_DOWN)); /* sealed */
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_WON);
    ck_assert_uint_eq(round.ours, 2);
}
END_TEST

START_TEST(those_not_asked_have_failed)
{
    struct redlock__round round;
    redlock__round_begin(&round, 2, all(3), 1, 1);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
    redlock__round_begin(&round, 2, all(3), all(3), 1);
    redlock__round_answer(&round, 1 << 0, REDLOCK_VOTE_BARRED);
    ck_assert_uint_eq(round.owed, 0x6);
    ck_assert(redlock__round_answer(&round, 1 << 1, REDLOCK_VOTE_BARRED));
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
}
END_TEST

START_TEST(giving_up_seals_an_open_round)
{
    struct redlock__round round;
    redlock__round_begin(&round, 3, all(5), all(5), 1);
    redlock__round_answer(&round, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__round_answer(&round, 1 << 1, REDLOCK_VOTE_FOREIGN);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_OPEN);
    ck_assert(redlock__round_give_up(&round));
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
    ck_assert(!redlock__round_give_up(&round));
    ck_assert_uint_eq(round.owed, 0);
}
END_TEST

START_TEST(nobody_asked_is_no_quorum_from_the_start)
{
    struct redlock__round round;
    redlock__round_begin(&round, 3, all(5), 3, 1);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_NO_QUORUM);
    redlock__round_begin(&round, 3, 3, all(5), 1);
    ck_assert_int_eq(round.verdict, REDLOCK__ROUND_OPEN); /* busy or no quorum, not known yet */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("round");
    TCase *splits = tcase_create("splits"), *single = tcase_create("single");

    tcase_set_timeout(splits, 60);
    tcase_add_loop_test(splits, every_split_of_votes_has_its_verdict_in_any_order, 1, MANY + 1);
    tcase_add_loop_test(splits, sampled_splits_of_eight_and_nine_have_their_verdict, MANY + 1,
                        MAX_N + 1);
    tcase_add_loop_test(splits, the_verdict_is_sealed_as_soon_as_it_is_certain_and_not_before, 1,
                        6);
    tcase_add_loop_test(splits, only_counted_primaries_win_a_round, 1, MAX_N + 1);
    suite_add_tcase(suite, splits);

    tcase_set_timeout(single, 10);
    tcase_add_test(single, half_against_half_is_busy_and_never_hangs);
    tcase_add_test(single, late_answers_do_not_change_a_sealed_verdict);
    tcase_add_test(single, a_late_answer_after_silence_counts_while_the_verdict_is_open);
    tcase_add_test(single, an_answer_taken_back_does_not_count);
    tcase_add_test(single, those_not_asked_have_failed);
    tcase_add_test(single, giving_up_seals_an_open_round);
    tcase_add_test(single, nobody_asked_is_no_quorum_from_the_start);
    suite_add_tcase(suite, single);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
