/* C1, C2, C4, C5: each must keep quiet where all is well, and find what is wrong. */
#include "synthetic.h"

/* ---- C1 --------------------------------------------------------------------- */

static void assert_overlaps(double end, size_t expected)
{
    struct analysis *analysis = end_at(end);

    ck_assert(analysis->checkers[0].ran);
    ck_assert_uint_eq(found(analysis, 1), expected);
    assert_metric(analysis, "c1.overlaps", (double)expected);
    analysis_free(analysis);
}

START_TEST(leases_one_after_the_other_do_not_overlap)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    release("w1", 1, 50);
    lease("w2", 1, 10, 55, 2);
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(touching_is_not_overlapping)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(5), AT(1978), 1, "one");
    invoke("w2", 1, "acquire", "a", 100);
    granted_ns("w2", 1, "a", AT(1978), AT(3000), 2, "two");
    assert_overlaps(4000, 0);
}
END_TEST

START_TEST(one_nanosecond_is_found)
{
    struct analysis *analysis;

    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(5), AT(1978), 1, "one");
    invoke("w2", 1, "acquire", "a", 100);
    granted_ns("w2", 1, "a", AT(1978) - 1, AT(3000), 2, "two");
    analysis = end_at(4000);
    ck_assert_uint_eq(found(analysis, 1), 1);
    assert_metric(analysis, "c1.longest_ms", 0.000001);
    ck_assert_int_eq(analysis->violations[0].leases[0], 0);
    ck_assert_int_eq(analysis->violations[0].leases[1], 1);
    ck_assert_int_eq(analysis->violations[0].records[0], analysis->leases[0].record);
    ck_assert_ptr_nonnull(strstr(analysis->violations[0].text, "w1"));
    ck_assert_ptr_nonnull(strstr(analysis->violations[0].text, "w2"));
    analysis_free(analysis);
}
END_TEST

START_TEST(a_claim_over_before_it_began_is_none)
{
    struct analysis *analysis;

    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(2500), AT(1978), 1, "one");
    lease("w2", 1, 2100, 2200, 2);
    analysis = end_at(5000);
    ck_assert_uint_eq(found(analysis, 1), 0);
    ck_assert_int_eq(analysis->leases[1].until_ns, analysis->leases[1].held_ns);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_long_claim_is_remembered_behind_short_ones)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(5), AT(9000), 1, "long");
    lease("w2", 1, 10, 20, 2);
    release("w2", 1, 30);
    lease("w3", 1, 40, 50, 3); /* not with w2, but with w1 */
    release("w3", 1, 60);
    assert_overlaps(10000, 2);
}
END_TEST

static void check(const char *worker, int number, double ms, bool held)
{
    put("'type':'check','t':%" PRId64 ",'worker':'%s','try':%d,'held':%s", AT(ms), worker, number,
        held ? "true" : "false");
}

START_TEST(who_believes_after_its_deadline_is_found)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    check("w1", 1, 1977, true);
    lease("w2", 1, 4000, 4005, 2);
    check("w2", 1, 5980, true);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 1), 1);
    ck_assert_int_eq(analysis->violations[0].leases[0], 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(who_was_renewed_may_believe_longer)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    check("w1", 1, 2500, true);
    event("w1", 1, "renewed", 700, 2678);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 1), 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_token_that_was_asked_for_is_missed)
{
    begin();
    put("'type':'invoke','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a',"
        "'ttl_ms':2000,'wait_ms':0,'fence':true",
        AT(0));
    granted_ns("w1", 1, "a", AT(5), AT(1978), 0, "w1-1");
    lease("w2", 1, 4000, 4005, 0);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 4), 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(names_do_not_meet)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    invoke("w2", 1, "acquire", "b", 0);
    granted_ns("w2", 1, "b", AT(5), AT(1978), 1, "two");
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(a_call_that_never_returned_claims_nothing)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(100));
    lease("w2", 1, 10, 20, 1);
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(a_release_that_never_returned_has_ended_the_claim)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    invoke("w1", 1, "release", "a", 50);
    lease("w2", 1, 40, 60, 2);
    assert_overlaps(3000, 0);
}
END_TEST

static void second_lease_at_100(void)
{
    lease("w2", 1, 90, 100, 2);
    release("w2", 1, 110);
}

START_TEST(lost_told_ends_a_claim)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    event("w1", 1, "lost", 80, 0);
    second_lease_at_100();
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(lost_told_too_late_does_not)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    event("w1", 1, "lost", 105, 0);
    second_lease_at_100();
    assert_overlaps(3000, 1);
}
END_TEST

START_TEST(a_check_that_says_no_ends_a_claim)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    put("'type':'check','t':%" PRId64 ",'worker':'w1','try':1,'held':true", AT(10));
    put("'type':'check','t':%" PRId64 ",'worker':'w1','try':1,'held':false", AT(80));
    second_lease_at_100();
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(death_ends_a_claim)
{
    struct analysis *analysis;

    begin();
    lease("w1", 1, 0, 5, 1);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(80));
    second_lease_at_100();
    analysis = end_at(3000);
    ck_assert_uint_eq(found(analysis, 1), 0);
    ck_assert(analysis->leases[0].killed);
    ck_assert_int_eq(analysis->leases[0].until_ns, AT(80));
    analysis_free(analysis);
}
END_TEST

START_TEST(an_extension_prolongs_a_claim)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    extend("w1", 1, 1000, "ok", 2978);
    lease("w2", 1, 2000, 2500, 2);
    assert_overlaps(5000, 1);
}
END_TEST

START_TEST(a_failed_extension_does_not)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    extend("w1", 1, 1000, "no_quorum", 2978);
    lease("w2", 1, 2000, 2500, 2);
    assert_overlaps(5000, 0);
}
END_TEST

START_TEST(an_extension_that_says_lost_ends_it)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    extend("w1", 1, 50, "lost", 0);
    second_lease_at_100();
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(a_renewal_prolongs_a_claim)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    event("w1", 1, "renewed", 1000, 2978);
    lease("w2", 1, 2000, 2500, 2);
    assert_overlaps(5000, 1);
}
END_TEST

START_TEST(lines_may_come_in_another_order_than_times)
{
    begin();
    granted_ns("w2", 1, "a", AT(55), AT(1988), 2, "two");
    returned("w1", 1, "release", "a", 51, "ok");
    invoke("w1", 1, "release", "a", 50);
    granted_ns("w1", 1, "a", AT(5), AT(1978), 1, "one");
    invoke("w2", 1, "acquire", "a", 10);
    invoke("w1", 1, "acquire", "a", 0);
    assert_overlaps(3000, 0);
}
END_TEST

START_TEST(overlaps_name_the_faults)
{
    struct analysis *analysis;

    begin();
    put("'type':'fault','t':%" PRId64 ",'fault':1,'action':'swallow','state':'start'", AT(50));
    put("'type':'fault','t':%" PRId64 ",'fault':1,'action':'swallow','state':'stop'", AT(70));
    put("'type':'fault','t':%" PRId64 ",'fault':2,'action':'kill','state':'start'", AT(80));
    lease("w1", 1, 0, 5, 1);
    second_lease_at_100();
    analysis = end_at(3000);
    ck_assert_uint_eq(found(analysis, 1), 1);
    ck_assert_ptr_nonnull(strstr(analysis->violations[0].text, "during kill"));
    ck_assert_ptr_null(strstr(analysis->violations[0].text, "swallow"));
    analysis_free(analysis);
}
END_TEST

/* ---- C2 --------------------------------------------------------------------- */

static void enter(const char *worker, double ms, bool ok, int other)
{
    put("'type':'enter','t':%" PRId64 ",'worker':'%s','try':1,'name':'a','ok':%s,'other':%d",
        AT(ms), worker, ok ? "true" : "false", other);
}

static void leave(const char *worker, double ms, bool ok, bool lost)
{
    put("'type':'leave','t':%" PRId64 ",'worker':'%s','try':1,'name':'a','ok':%s,'lost_update':%s",
        AT(ms), worker, ok ? "true" : "false", lost ? "true" : "false");
}

static void assert_witness(size_t violations, double overlaps, double lost, double paused)
{
    struct analysis *analysis = end_at(9000);

    ck_assert_uint_eq(found(analysis, 2), violations);
    assert_metric(analysis, "c2.overlaps", overlaps);
    assert_metric(analysis, "c2.lost_updates", lost);
    assert_metric(analysis, "c2.paused", paused);
    analysis_free(analysis);
}

START_TEST(one_after_the_other_is_fine)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    leave("w1", 40, true, false);
    release("w1", 1, 50);
    lease("w2", 1, 50, 60, 2);
    enter("w2", 61, true, 0);
    leave("w2", 70, true, false);
    assert_witness(0, 0, 0, 0);
}
END_TEST

START_TEST(two_believers_inside_are_found)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    lease("w2", 1, 10, 20, 2);
    enter("w2", 21, false, 1);
    leave("w2", 30, false, false); /* refused: counted once */
    leave("w1", 40, true, false);
    assert_witness(1, 1, 0, 0);
}
END_TEST

START_TEST(one_who_slept_over_its_deadline_is_no_believer)
{
    begin();
    lease("w1", 1, 0, 5, 1); /* claimed to 1978 */
    enter("w1", 6, true, 0);
    lease("w2", 1, 2000, 2010, 2);
    enter("w2", 2011, false, 1);
    leave("w2", 2020, false, false);
    leave("w1", 3000, true, true);
    assert_witness(0, 0, 0, 2);
}
END_TEST

START_TEST(who_enters_after_its_own_deadline_is_no_believer)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    lease("w2", 1, 2000, 2010, 2);
    enter("w2", 2011, true, 0);
    enter("w1", 2020, false, 2);
    leave("w2", 2030, true, true); /* what w1 did */
    assert_witness(0, 0, 0, 2);
}
END_TEST

START_TEST(a_lost_update_among_believers_is_found)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    leave("w1", 40, true, true);
    assert_witness(1, 0, 1, 0);
}
END_TEST

START_TEST(a_failed_leave_within_the_claim_is_found)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    leave("w1", 40, false, false);
    assert_witness(1, 1, 0, 0);
}
END_TEST

START_TEST(a_failed_leave_after_the_claim_is_not)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    leave("w1", 4000, false, false);
    assert_witness(0, 0, 0, 1);
}
END_TEST

/* ---- C4 --------------------------------------------------------------------- */

static void assert_disorders(size_t expected)
{
    struct analysis *analysis = end_at(9000);

    ck_assert(analysis->checkers[3].ran);
    ck_assert_uint_eq(found(analysis, 4), expected);
    assert_metric(analysis, "c4.disorders", (double)expected);
    analysis_free(analysis);
}

START_TEST(rising_tokens_are_fine)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    lease("w2", 1, 10, 20, 3);
    lease("w1", 2, 30, 40, 7);
    assert_disorders(0);
}
END_TEST

START_TEST(calls_at_the_same_time_may_get_them_in_any_order)
{
    begin();
    lease("w1", 1, 0, 50, 2);
    lease("w2", 1, 50, 60, 1); /* invoked when the other returned, not after it */
    assert_disorders(0);
}
END_TEST

START_TEST(equal_tokens_are_found)
{
    begin();
    lease("w1", 1, 0, 5, 4);
    lease("w2", 1, 10, 20, 4);
    assert_disorders(1);
}
END_TEST

START_TEST(falling_tokens_are_found)
{
    begin();
    lease("w1", 1, 0, 5, 4);
    lease("w2", 1, 10, 20, 5);
    lease("w3", 1, 30, 40, 2);
    assert_disorders(1);
}
END_TEST

START_TEST(leases_without_tokens_are_not_looked_at)
{
    struct analysis *analysis;

    begin();
    lease("w1", 1, 0, 5, 0);
    lease("w2", 1, 10, 20, 0);
    analysis = end_at(5000);
    ck_assert(!analysis->checkers[3].ran);
    assert_absent(analysis, "c4.disorders");
    analysis_free(analysis);
}
END_TEST

START_TEST(tokens_of_other_names_do_not_matter)
{
    begin();
    lease("w1", 1, 0, 5, 4);
    invoke("w2", 1, "acquire", "b", 10);
    granted_ns("w2", 1, "b", AT(20), AT(1000), 4, "two");
    assert_disorders(0);
}
END_TEST

/* ---- C5 --------------------------------------------------------------------- */

static void write_of(bool fenced, int fence, int sequence, bool accepted, bool stale)
{
    put("'type':'write','t':%" PRId64 ",'worker':'w1','try':1,'name':'a','fenced':%s,'fence':%d,"
        "'sequence':%d,'accepted':%s,'stale':%s,'believed':true",
        AT(sequence), fenced ? "true" : "false", fence, sequence, accepted ? "true" : "false",
        stale ? "true" : "false");
}

START_TEST(a_fence_that_works)
{
    struct analysis *analysis;

    begin();
    write_of(true, 1, 1, true, false);
    write_of(false, 1, 1, true, false);
    write_of(true, 2, 2, true, false);
    write_of(true, 1, 3, false, true); /* refused */
    write_of(false, 1, 2, true, true); /* taken, unfenced */
    write_of(true, 2, 4, true, false);
    analysis = end_at(100);
    assert_metric(analysis, "c5.accepted_stale", 0);
    assert_metric(analysis, "stale.plain", 1);
    assert_metric(analysis, "stale.refused", 1);
    assert_metric(analysis, "writes.plain", 2);
    assert_metric(analysis, "writes.fenced", 4);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_fence_that_does_not)
{
    struct analysis *analysis;

    begin();
    write_of(true, 2, 2, true, false); /* lines in another order than writes */
    write_of(true, 1, 3, true, true);
    write_of(true, 1, 1, true, false);
    analysis = end_at(100);
    ck_assert_uint_eq(found(analysis, 5), 1);
    assert_metric(analysis, "c5.accepted_stale", 1);
    analysis_free(analysis);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_leases");
    TCase *claims = tcase_create("claims"), *witness = tcase_create("witness");
    TCase *fences = tcase_create("fences");

    tcase_add_test(claims, leases_one_after_the_other_do_not_overlap);
    tcase_add_test(claims, touching_is_not_overlapping);
    tcase_add_test(claims, one_nanosecond_is_found);
    tcase_add_test(claims, a_claim_over_before_it_began_is_none);
    tcase_add_test(claims, a_long_claim_is_remembered_behind_short_ones);
    tcase_add_test(claims, names_do_not_meet);
    tcase_add_test(claims, who_believes_after_its_deadline_is_found);
    tcase_add_test(claims, who_was_renewed_may_believe_longer);
    tcase_add_test(claims, a_token_that_was_asked_for_is_missed);
    tcase_add_test(claims, a_call_that_never_returned_claims_nothing);
    tcase_add_test(claims, a_release_that_never_returned_has_ended_the_claim);
    tcase_add_test(claims, lost_told_ends_a_claim);
    tcase_add_test(claims, lost_told_too_late_does_not);
    tcase_add_test(claims, a_check_that_says_no_ends_a_claim);
    tcase_add_test(claims, death_ends_a_claim);
    tcase_add_test(claims, an_extension_prolongs_a_claim);
    tcase_add_test(claims, a_failed_extension_does_not);
    tcase_add_test(claims, an_extension_that_says_lost_ends_it);
    tcase_add_test(claims, a_renewal_prolongs_a_claim);
    tcase_add_test(claims, lines_may_come_in_another_order_than_times);
    tcase_add_test(claims, overlaps_name_the_faults);
    suite_add_tcase(suite, claims);
    tcase_add_test(witness, one_after_the_other_is_fine);
    tcase_add_test(witness, two_believers_inside_are_found);
    tcase_add_test(witness, one_who_slept_over_its_deadline_is_no_believer);
    tcase_add_test(witness, who_enters_after_its_own_deadline_is_no_believer);
    tcase_add_test(witness, a_lost_update_among_believers_is_found);
    tcase_add_test(witness, a_failed_leave_within_the_claim_is_found);
    tcase_add_test(witness, a_failed_leave_after_the_claim_is_not);
    suite_add_tcase(suite, witness);
    tcase_add_test(fences, rising_tokens_are_fine);
    tcase_add_test(fences, calls_at_the_same_time_may_get_them_in_any_order);
    tcase_add_test(fences, equal_tokens_are_found);
    tcase_add_test(fences, falling_tokens_are_found);
    tcase_add_test(fences, leases_without_tokens_are_not_looked_at);
    tcase_add_test(fences, tokens_of_other_names_do_not_matter);
    tcase_add_test(fences, a_fence_that_works);
    tcase_add_test(fences, a_fence_that_does_not);
    suite_add_tcase(suite, fences);
    return run_suite(suite);
}
