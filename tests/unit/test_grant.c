/*
 * What is owed to the primaries after an attempt or a lease, told as the engine tells it.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "grant.h"
#include "validity.h"

enum {
    TTL_MS = 1000,
    ORPHAN_MS = 60000
};

static const int64_t now = 5 * REDLOCK__MS;
static const int64_t again = 55 * REDLOCK__MS;

static struct redlock__lease *const somebody = (struct redlock__lease *)&now;

static struct redlock__grant granted(uint32_t nodes)
{
    struct redlock__grant grant = {.lease = somebody};
    redlock__grant_set(&grant, nodes, TTL_MS, now);
    return grant;
}

static void abandon(struct redlock__grant *grant)
{
    redlock__grant_abandon(grant, ORPHAN_MS);
    grant->lease = NULL;
}

static void removed(struct redlock__grant *grant, uint32_t node, redlock_vote vote,
                    int64_t again_ns)
{
    if (redlock__grant_removed(grant, UINT32_C(1) << node, vote) != 0)
        grant->again_ns = again_ns;
}

START_TEST(a_token_is_text_and_back)
{
    static const char *const texts[] = {"00000000000000000000000000000000",
                                        "ffffffffffffffffffffffffffffffff",
                                        "0123456789abcdeffedcba9876543210"};
    struct redlock__grant grant = {.token = {0}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        redlock__grant_take_token(&grant, texts[i]);
        ck_assert_str_eq(redlock__grant_token(&grant).hex, texts[i]);
    }
    for (unsigned byte = 0; byte < 256; byte++) { /* each, in each place of four */
        char text[REDLOCK__TOKEN_HEX + 1] = "";

        for (unsigned i = 0; i < sizeof grant.token; i++) {
            grant.token[i] = (uint8_t)(i % 4 == byte % 4 ? byte : 255 - byte);
            (void)snprintf(text + 2 * i, 3, "%02x", grant.token[i]);
        }
        ck_assert_str_eq(redlock__grant_token(&grant).hex, text);
    }
}
END_TEST

START_TEST(a_grant_owes_a_removal_wherever_a_set_was_written)
{
    struct redlock__grant grant = granted(0x1f);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__grant_set_answer(&grant, 1 << 1, REDLOCK_VOTE_FOREIGN);
    redlock__grant_set_answer(&grant, 1 << 2, REDLOCK_VOTE_ERROR);
    ck_assert_uint_eq(grant.known, 0x01);
    ck_assert_uint_eq(grant.unanswered, 0x18);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0); /* not before it is abandoned */
    abandon(&grant);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x1f);
    ck_assert(!redlock__grant_done(&grant));
}
END_TEST

START_TEST(a_removal_under_way_is_not_sent_twice)
{
    struct redlock__grant grant = granted(0x3);
    abandon(&grant);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x2);
    removed(&grant, 0, REDLOCK_VOTE_OURS, again);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x2);
}
END_TEST

START_TEST(what_was_forgotten_is_not_known_but_still_owed)
{
    struct redlock__grant grant = granted(0x3);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__grant_set_answer(&grant, 1 << 1, REDLOCK_VOTE_OURS);
    redlock__grant_forgotten(&grant, 0);
    ck_assert_uint_eq(grant.known, 0x2);
    ck_assert_uint_eq(grant.unanswered, 0);
    abandon(&grant);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x3);
}
END_TEST

START_TEST(any_lock_answer_ends_what_is_owed)
{
    static const redlock_vote votes[] = {REDLOCK_VOTE_OURS, REDLOCK_VOTE_FREE,
                                         REDLOCK_VOTE_FOREIGN};
    struct redlock__grant grant = granted(0x7);
    for (uint32_t i = 0; i < 3; i++)
        redlock__grant_set_answer(&grant, UINT32_C(1) << i, REDLOCK_VOTE_OURS);
    abandon(&grant);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(!redlock__grant_done(&grant));
        redlock__grant_removing(&grant, UINT32_C(1) << i);
        removed(&grant, i, votes[i], again);
    }
    ck_assert(redlock__grant_done(&grant));
    ck_assert_int_eq(redlock__grant_next_deadline(&grant), REDLOCK__NEVER);
}
END_TEST

START_TEST(a_removal_lost_with_its_connection_is_owed_again)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    abandon(&grant);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    redlock__grant_dropped(&grant, 0, false, true);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x1);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_OURS, again);
    ck_assert(redlock__grant_done(&grant)); /* the SET was answered: nothing can overtake */
}
END_TEST

START_TEST(a_removal_that_may_have_overtaken_its_set_is_sent_once_more_later)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_dropped(&grant, 0, true, true);
    abandon(&grant);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_FREE, again);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, again - 1), 0);
    ck_assert_int_eq(redlock__grant_next_deadline(&grant), again);
    redlock__grant_handle_deadline(&grant, again);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, again), 0x1);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_FREE, 2 * again);
    ck_assert(redlock__grant_done(&grant)); /* twice is enough */
}
END_TEST

START_TEST(a_set_that_was_never_written_cannot_be_overtaken)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_dropped(&grant, 0, true, false);
    ck_assert_uint_eq(grant.unanswered, 0);
    abandon(&grant);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_FREE, again);
    ck_assert(redlock__grant_done(&grant));
}
END_TEST

START_TEST(a_refused_removal_is_tried_once_more_and_then_left_to_the_ttl)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    abandon(&grant);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_ERROR, again);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, again - 1), 0);
    redlock__grant_handle_deadline(&grant, again);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, again), 0x1);
    redlock__grant_removing(&grant, UINT32_C(1) << 0);
    removed(&grant, 0, REDLOCK_VOTE_ERROR, 2 * again);
    ck_assert(redlock__grant_done(&grant));
}
END_TEST

START_TEST(seeing_the_key_answers_the_set)
{
    struct redlock__grant grant = granted(0x3);
    redlock__grant_dropped(&grant, 0, true, true);
    redlock__grant_extend_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__grant_extend_answer(&grant, 1 << 1, REDLOCK_VOTE_SILENT);
    ck_assert_uint_eq(grant.known, 0x1);
    ck_assert_uint_eq(grant.unanswered, 0x2);
    redlock__grant_extend_answer(&grant, 1 << 0, REDLOCK_VOTE_FREE);
    ck_assert_uint_eq(grant.known, 0);
    redlock__grant_extend_answer(&grant, 1 << 1, REDLOCK_VOTE_FOREIGN);
    ck_assert_uint_eq(grant.unanswered, 0x2); /* its SET may still arrive */
}
END_TEST

/* ---- native extends ------------------------------------------------------- */

static void left_behind(struct redlock__grant *grant, uint32_t node, uint32_t round, int64_t ttl_ms)
{
    redlock__grant_asked(grant, UINT32_C(1) << node, round, ttl_ms, now);
    redlock__grant_left(grant, node, ttl_ms);
    grant->asked &= ~(UINT32_C(1) << node);
}

START_TEST(what_was_left_behind_cuts_only_what_is_longer)
{
    struct redlock__grant grant = granted(0x7);
    left_behind(&grant, 0, 1, TTL_MS);
    ck_assert_uint_eq(redlock__grant_cut(&grant, TTL_MS), 0);
    ck_assert_uint_eq(redlock__grant_cut(&grant, TTL_MS + 1), 0x1);
    redlock__grant_extended(&grant, 2 * TTL_MS, now); /* raised on the others */
    ck_assert_uint_eq(redlock__grant_cut(&grant, TTL_MS), 0);
    ck_assert_uint_eq(redlock__grant_cut(&grant, 2 * TTL_MS), 0x1);
    left_behind(&grant, 1, 2, 2 * TTL_MS); /* the new time is no less than itself */
    ck_assert_uint_eq(redlock__grant_cut(&grant, 2 * TTL_MS), 0x1);
    ck_assert_uint_eq(redlock__grant_cut(&grant, 3 * TTL_MS), 0x3);
    redlock__grant_extended(&grant, 3 * TTL_MS, now);
    ck_assert_uint_eq(redlock__grant_cut(&grant, TTL_MS + 1), 0x3); /* the least of all counts */
    ck_assert_uint_eq(redlock__grant_cut(&grant, TTL_MS), 0);
}
END_TEST

START_TEST(what_is_left_behind_after_a_raise_may_be_from_before_it)
{
    struct redlock__grant grant = granted(0x7);
    redlock__grant_asked(&grant, UINT32_C(1) << 0, 1, TTL_MS, now);
    redlock__grant_asked(&grant, UINT32_C(1) << 0, 2, 2 * TTL_MS, now);
    redlock__grant_left(&grant, 0, TTL_MS);
    redlock__grant_left(&grant, 0, 2 * TTL_MS);
    ck_assert_uint_eq(redlock__grant_cut(&grant, 2 * TTL_MS), 0x1);
}
END_TEST

START_TEST(an_answer_to_the_newest_is_one_to_all)
{
    struct redlock__grant grant = granted(0x7);
    int64_t cut_ms;
    redlock__grant_asked(&grant, UINT32_C(1) << 0, 1, TTL_MS, now);
    redlock__grant_asked(&grant, UINT32_C(1) << 0, 2, TTL_MS, now);
    redlock__grant_told(&grant, 0, 1);
    ck_assert_uint_eq(redlock__grant_share(&grant, &cut_ms), 0x1);
    ck_assert_int_eq(cut_ms, TTL_MS);
    redlock__grant_told(&grant, 0, 2);
    ck_assert_uint_eq(redlock__grant_share(&grant, &cut_ms), 0);
    ck_assert(grant.shared);
}
END_TEST

START_TEST(who_gets_the_token_is_told_the_least_that_may_arrive)
{
    struct redlock__grant grant = granted(0x7), other = {.written = 0x7};
    int64_t cut_ms;
    left_behind(&grant, 0, 1, TTL_MS);
    redlock__grant_asked(&grant, UINT32_C(1) << 1, 2, 3 * TTL_MS, now);
    ck_assert_uint_eq(redlock__grant_share(&grant, &cut_ms), 0x3);
    ck_assert_int_eq(cut_ms, TTL_MS);
    redlock__grant_warn(&other, 0x3, cut_ms);
    redlock__grant_extended(&other, 10 * TTL_MS, now);
    ck_assert_uint_eq(redlock__grant_cut(&other, TTL_MS), 0);
    ck_assert_uint_eq(redlock__grant_cut(&other, TTL_MS + 1), 0x3);
}
END_TEST

START_TEST(a_primary_seen_to_have_the_key_is_owed_a_removal_though_not_set_by_us)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_extend_answer(&grant, 1 << 3, REDLOCK_VOTE_OURS);
    abandon(&grant);
    ck_assert_uint_eq(redlock__grant_to_remove(&grant, now), 0x9);
}
END_TEST

START_TEST(nothing_is_owed_once_no_key_can_be_left)
{
    struct redlock__grant grant = granted(0x3);
    int64_t life_ms = TTL_MS + redlock__drift_ms(TTL_MS, 10000);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__grant_set_answer(&grant, 1 << 1, REDLOCK_VOTE_OURS);
    abandon(&grant);
    ck_assert_int_eq(redlock__grant_next_deadline(&grant), now + life_ms * REDLOCK__MS);
    redlock__grant_handle_deadline(&grant, grant.gone_ns - 1);
    ck_assert(!redlock__grant_done(&grant));
    redlock__grant_handle_deadline(&grant, grant.gone_ns);
    ck_assert(redlock__grant_done(&grant));
}
END_TEST

START_TEST(a_set_without_answer_may_be_under_way_as_long_as_connections_allow)
{
    struct redlock__grant grant = granted(0x1);
    int64_t life_ms = TTL_MS + redlock__drift_ms(TTL_MS, 10000) + ORPHAN_MS;
    abandon(&grant);
    ck_assert_int_eq(grant.gone_ns, now + life_ms * REDLOCK__MS);
}
END_TEST

START_TEST(the_longest_ttl_ever_asked_for_counts)
{
    struct redlock__grant grant = granted(0x1);
    redlock__grant_set_answer(&grant, 1 << 0, REDLOCK_VOTE_OURS);
    redlock__grant_extended(&grant, 5 * TTL_MS, now);
    redlock__grant_extended(&grant, TTL_MS, 2 * now);
    abandon(&grant);
    ck_assert_int_eq(grant.gone_ns,
                     2 * now + (5 * TTL_MS + redlock__drift_ms(5 * TTL_MS, 10000)) * REDLOCK__MS);
}
END_TEST

START_TEST(a_grant_in_use_or_with_requests_on_their_way_is_not_done)
{
    struct redlock__grant grant = granted(0);
    grant.requests = 1;
    ck_assert(!redlock__grant_done(&grant));
    abandon(&grant);
    ck_assert(!redlock__grant_done(&grant));
    grant.requests = 0;
    ck_assert(redlock__grant_done(&grant));
}
END_TEST

START_TEST(deadlines_saturate)
{
    struct redlock__grant grant = {.lease = somebody};
    redlock__grant_set(&grant, 1, INT64_MAX / REDLOCK__MS, INT64_MAX - 5);
    abandon(&grant);
    ck_assert_int_eq(grant.gone_ns, INT64_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grant");
    TCase *owed = tcase_create("owed"), *time = tcase_create("time");

    tcase_set_timeout(owed, 10);
    tcase_add_test(owed, a_token_is_text_and_back);
    tcase_add_test(owed, a_grant_owes_a_removal_wherever_a_set_was_written);
    tcase_add_test(owed, a_removal_under_way_is_not_sent_twice);
    tcase_add_test(owed, what_was_forgotten_is_not_known_but_still_owed);
    tcase_add_test(owed, any_lock_answer_ends_what_is_owed);
    tcase_add_test(owed, a_removal_lost_with_its_connection_is_owed_again);
    tcase_add_test(owed, a_removal_that_may_have_overtaken_its_set_is_sent_once_more_later);
    tcase_add_test(owed, a_set_that_was_never_written_cannot_be_overtaken);
    tcase_add_test(owed, a_refused_removal_is_tried_once_more_and_then_left_to_the_ttl);
    tcase_add_test(owed, seeing_the_key_answers_the_set);
    tcase_add_test(owed, a_primary_seen_to_have_the_key_is_owed_a_removal_though_not_set_by_us);
    tcase_add_test(owed, a_grant_in_use_or_with_requests_on_their_way_is_not_done);
    suite_add_tcase(suite, owed);

    TCase *native = tcase_create("native extends");
    tcase_set_timeout(native, 10);
    tcase_add_test(native, what_was_left_behind_cuts_only_what_is_longer);
    tcase_add_test(native, what_is_left_behind_after_a_raise_may_be_from_before_it);
    tcase_add_test(native, an_answer_to_the_newest_is_one_to_all);
    tcase_add_test(native, who_gets_the_token_is_told_the_least_that_may_arrive);
    suite_add_tcase(suite, native);

    tcase_set_timeout(time, 10);
    tcase_add_test(time, nothing_is_owed_once_no_key_can_be_left);
    tcase_add_test(time, a_set_without_answer_may_be_under_way_as_long_as_connections_allow);
    tcase_add_test(time, the_longest_ttl_ever_asked_for_counts);
    tcase_add_test(time, deadlines_saturate);
    suite_add_tcase(suite, time);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
