/* C3: claims against the keys of begin_held(), which is what a test starts from if not told. */
#include "synthetic.h"

/* Others could have had it at true_ms; violated: it was still claimed then. */
static void assert_truth(double true_ms, bool violated)
{
    struct analysis *analysis = end_at(9000);

    ck_assert_int_eq(analysis->leases[0].true_ns, AT(true_ms));
    ck_assert_uint_eq(found(analysis, 3), violated);
    assert_metric(analysis, "c3.min_ms", true_ms - 1978);
    assert_metric(analysis, "c3.p50_ms", true_ms - 1978);
    assert_metric(analysis, "c3.leases", 1);
    analysis_free(analysis);
}

static void assert_unmeasured(void)
{
    struct analysis *analysis = end_at(9000);

    ck_assert_int_eq(analysis->leases[0].true_ns, INT64_MIN);
    ck_assert_uint_eq(found(analysis, 3), 0);
    assert_metric(analysis, "c3.unmeasured", 1);
    assert_absent(analysis, "c3.min_ms");
    analysis_free(analysis);
}

START_TEST(keys_outlive_an_honest_claim)
{
    begin_held(ALL_NODES);
    keysgone(ALL_NODES, "expired", 2002);
    assert_truth(2001, false);
}
END_TEST

START_TEST(a_claim_that_is_too_long_is_found)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(5), AT(2001) + 1, 1, "w1-1");
    keys(ALL_NODES, "w1-1", 6, 2001);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 1);
    assert_metric(analysis, "c3.min_ms", -0.000001);
    assert_metric(analysis, "c3.negative", 1);
    ck_assert_int_eq(analysis->violations[0].leases[0], 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_claim_to_the_last_moment_is_not)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    granted_ns("w1", 1, "a", AT(5), AT(2001), 1, "w1-1");
    keys(ALL_NODES, "w1-1", 6, 2001);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_step_of_one_clock_leaves_a_majority)
{
    begin_held(ALL_NODES);
    clock_at(1, 0, 0, 0);
    clock_at(1, 500, 10000, 0);
    assert_truth(2001, false);
}
END_TEST

START_TEST(a_step_across_the_expiry_of_three_kills_at_the_step)
{
    begin_held(ALL_NODES);
    for (int number = 1; number <= 3; number++) {
        clock_at(number, 0, 0, 0);
        clock_at(number, 500 + number, 10000, 0);
    }
    assert_truth(503, true);
}
END_TEST

START_TEST(a_small_step_brings_the_end_nearer)
{
    begin_held(ALL_NODES);
    for (int number = 1; number <= 3; number++)
        clock_at(number, 500, 300, 0);
    assert_truth(1701, true);
}
END_TEST

START_TEST(fast_clocks_are_exact)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    for (int number = 1; number <= 5; number++)
        clock_at(number, 1, 0, 50000000); /* 5 % */
    keys(ALL_NODES, "w1-1", 6, 2101);     /* 2100 ms of theirs: 2000 of ours */
    assert_truth(2001, false);
}
END_TEST

START_TEST(fast_clocks_end_a_lease_early)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    for (int number = 1; number <= 5; number++)
        clock_at(number, 1, 0, 250000000);
    keys(ALL_NODES, "w1-1", 6, 2001);
    assert_truth(1601, true);
}
END_TEST

START_TEST(a_clock_that_stands_never_ends_it)
{
    begin_held(ALL_NODES);
    for (int number = 1; number <= 3; number++)
        clock_at(number, 100, 0, -1000000000);
    assert_unmeasured();
}
END_TEST

START_TEST(a_bare_majority_and_an_empty_restart)
{
    begin_held(0x7);
    node(3, "down", 500, true);
    node(3, "up", 900, false);
    assert_truth(2001, false); /* it votes for nobody until its guard is over */
}
END_TEST

static void held_by(const char *votes)
{
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a','rc':'ok',"
        "'owner':'w1-1','fence':1,'validity_ms':1970,'deadline_ns':%" PRId64
        ",'attempts':1,'node':[%s]",
        AT(5), AT(1978), votes);
}

START_TEST(a_claim_without_a_quorum_of_grants_is_found)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    held_by("{'node':1,'vote':'ours'},{'node':2,'vote':'ours'},{'node':3,'vote':'free'}");
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 1);
    assert_metric(analysis, "c3.negative", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_lease_that_is_renewed_may_be_asking_again)
{
    begin();
    put("'type':'invoke','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a',"
        "'renew':true",
        AT(0));
    held_by("{'node':1,'vote':'no vote'},{'node':2,'vote':'no vote'},{'node':3,'vote':'no vote'}");
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    analysis_free(analysis);
}
END_TEST

/* The word of an earlier try's removal, after the grant: the release found the key all the same. */
START_TEST(what_its_release_found_was_there)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    held_by("{'node':1,'vote':'ours'},{'node':2,'vote':'ours'},{'node':3,'vote':'ours'}");
    keys(0x7, "w1-1", 6, 2001);
    keysgone(0x1, "del", 8);
    invoke("w1", 1, "release", "a", 50);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'release','name':'a','rc':'ok',"
        "'node':[{'node':1,'vote':'ours'},{'node':2,'vote':'ours'},{'node':3,'vote':'ours'}]",
        AT(51));
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_bare_majority_and_a_flush)
{
    begin_held(0x7);
    node(3, "up", 900, false);
    assert_truth(900, true);
}
END_TEST

START_TEST(with_five_two_may_forget)
{
    begin_held(ALL_NODES);
    node(2, "up", 900, false);
    node(3, "up", 901, false);
    assert_truth(2001, false);
}
END_TEST

START_TEST(with_five_three_may_not)
{
    begin_held(ALL_NODES);
    node(2, "up", 900, false);
    node(3, "up", 901, false);
    node(5, "up", 902, false);
    assert_truth(902, true);
}
END_TEST

START_TEST(a_restart_with_data_forgets_nothing)
{
    begin_held(0x7);
    node(3, "down", 500, true);
    node(3, "up", 900, true);
    assert_truth(2001, false);
}
END_TEST

START_TEST(a_node_that_is_down_for_good_gives_its_vote_to_nobody)
{
    begin_held(0x7);
    node(3, "down", 500, true);
    assert_truth(2001, false);
}
END_TEST

START_TEST(a_foreign_removal_is_a_loss)
{
    begin_held(0x7);
    keysgone(0x2, "del", 700);
    assert_truth(700, true);
}
END_TEST

START_TEST(eviction_and_flush_are_losses)
{
    begin_held(ALL_NODES);
    keysgone(0x1, "evicted", 600);
    keysgone(0x2, "flushed", 650);
    keysgone(0x4, "evicted", 700);
    assert_truth(700, true);
}
END_TEST

START_TEST(the_own_release_is_none)
{
    begin_held(0x7);
    release("w1", 1, 700);
    keysgone(0x7, "del", 701);
    assert_truth(2001, false);
}
END_TEST

START_TEST(what_happens_after_a_release_does_not_matter)
{
    begin_held(0x7);
    release("w1", 1, 700);
    keysgone(0x7, "del", 701);
    node(3, "up", 900, false);
    clock_at(1, 0, 0, 0);
    clock_at(1, 1000, 10000, 0);
    assert_truth(2001, false);
}
END_TEST

START_TEST(the_word_of_an_earlier_keys_end_may_come_late)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    keys(0x7, "w1-1", 6, 2001);
    release("w1", 1, 100);
    lease("w2", 1, 50, 110, 2);
    keys(0x7, "w2-1", 111, 2103); /* seen before it is heard that w1's are gone */
    keysgone(0x7, "del", 112);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    ck_assert_int_eq(analysis->leases[1].true_ns, AT(2103));
    analysis_free(analysis);
}
END_TEST

/* A lease of "a" for which the first three nodes say that they granted it. */
static void granted_by_three(const char *worker, double asked, double held, const char *owner)
{
    invoke(worker, 1, "acquire", "a", asked);
    put("'type':'return','t':%" PRId64 ",'worker':'%s','try':1,'op':'acquire','name':'a',"
        "'rc':'ok','owner':'%s','deadline_ns':%" PRId64
        ",'node':[{'node':1,'vote':'ours'},{'node':2,'vote':'ours'},{'node':3,'vote':'ours'}]",
        AT(held), worker, owner, AT(asked + 1978));
}

START_TEST(the_word_of_a_key_never_seen_may_come_late_too)
{
    begin();
    granted_by_three("w1", 0, 5, "w1-1");
    release("w1", 1, 100);
    lease("w2", 1, 50, 110, 2);
    keys(0x7, "w2-1", 111, 2103); /* the first look was too late for w1's keys */
    keysgone(0x7, "del", 112);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    ck_assert_int_eq(analysis->leases[1].true_ns, AT(2103));
    analysis_free(analysis);
}
END_TEST

START_TEST(one_release_explains_one_removal)
{
    begin();
    granted_by_three("w1", 0, 5, "w1-1");
    release("w1", 1, 100);
    lease("w2", 1, 50, 110, 2);
    keys(0x7, "w2-1", 111, 2103);
    keysgone(0x7, "del", 112);
    keysgone(0x7, "del", 130); /* whose was that? */
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 1);
    ck_assert_int_eq(analysis->leases[1].true_ns, AT(130));
    analysis_free(analysis);
}
END_TEST

START_TEST(a_node_counts_once)
{
    begin();
    granted_by_three("w1", 0, 5, "w1-1");
    keys(0x7, "w1-1", 2, 2001);
    keysgone(0x1, "del", 3); /* a second attempt of the same call */
    keys(0x1, "w1-1", 4, 2003);
    node(3, "up", 900, false);
    assert_truth(900, true);
}
END_TEST

/* A try that failed set and removed its key before anybody asked about it. */
START_TEST(a_removal_after_which_the_key_is_there_was_of_another)
{
    begin_held(0x7);
    put("'type':'keygone','t':%" PRId64 ",'node':1,'name':'a','how':'del','owner':'w1-1'", AT(50));
    keys(0x1, "w1-1", 50, 2001 + 20); /* which has been extended meanwhile */
    assert_truth(2001, false);
}
END_TEST

START_TEST(a_removal_after_which_another_has_it_is_a_loss)
{
    begin_held(0x7);
    put("'type':'keygone','t':%" PRId64 ",'node':1,'name':'a','how':'del','owner':'w2-1'", AT(50));
    keys(0x1, "w2-1", 50, 2050);
    assert_truth(50, true);
}
END_TEST

START_TEST(a_key_seen_again_was_never_gone)
{
    begin_held(0x7);
    keysgone(0x7, "del", 300);
    keys(0x7, "w1-1", 301, 2001);
    assert_truth(2001, false);
}
END_TEST

START_TEST(an_extension_moves_both_ends)
{
    struct analysis *analysis;

    begin_held(ALL_NODES);
    extend("w1", 1, 1000, "ok", 2978);
    keys(ALL_NODES, "w1-1", 1010, 3001);
    analysis = end_at(9000);
    ck_assert_int_eq(analysis->leases[0].true_ns, AT(3001));
    ck_assert_uint_eq(found(analysis, 3), 0);
    assert_metric(analysis, "c3.min_ms", 23);
    analysis_free(analysis);
}
END_TEST

START_TEST(an_extension_that_reached_two_nodes_is_no_extension)
{
    struct analysis *analysis;

    begin_held(ALL_NODES);
    extend("w1", 1, 1000, "ok", 2978); /* a liar */
    keys(0x3, "w1-1", 1010, 3001);
    analysis = end_at(9000);
    ck_assert_int_eq(analysis->leases[0].true_ns, AT(2001));
    ck_assert_uint_eq(found(analysis, 3), 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(an_extension_let_go_before_it_was_seen_is_no_measure)
{
    begin_held(ALL_NODES);
    extend("w1", 1, 1000, "ok", 2978);
    release("w1", 1, 1002);
    keysgone(ALL_NODES, "del", 1003);
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    assert_absent(analysis, "c3.min_ms");
    analysis_free(analysis);
}
END_TEST

START_TEST(a_node_may_join_again)
{
    begin_held(ALL_NODES);
    node(1, "up", 300, false);
    node(2, "up", 301, false);
    keys(0x3, "w1-1", 600, 2600); /* a renewal put them back */
    node(3, "up", 900, false);
    assert_truth(2001, false); /* then 4 and 5 go as well */
}
END_TEST

START_TEST(keys_never_seen_are_not_measured)
{
    begin_held(0x3);
    assert_unmeasured();
}
END_TEST

START_TEST(a_client_without_owners_is_not_measured)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a',"
        "'rc':'ok','deadline_ns':%" PRId64,
        AT(5), AT(1978));
    keys(ALL_NODES, "peer", 6, 2001);
    assert_unmeasured();
}
END_TEST

/* Grants that nobody saw can't make a violation, nor hide one. */
START_TEST(grants_not_seen_are_taken_to_last)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a',"
        "'rc':'ok','owner':'w1-1','deadline_ns':%" PRId64
        ",'node':[{'node':1,'vote':'ours'},{'node':2,'vote':'ours'},{'node':3,'vote':'ours'},"
        "{'node':4,'vote':'ours'},{'node':5,'vote':'error','text':'OOM'}]",
        AT(5), AT(1978));
    keys(0x7, "w1-1", 6, 2001);
    node(1, "up", 500, false); /* 2, 3 and 4 are left */
    struct analysis *analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 3), 0);
    assert_absent(analysis, "c3.min_ms");
    analysis_free(analysis);
}
END_TEST

START_TEST(a_single_primary_is_a_majority)
{
    open_script();
    put_run("single", 1, 1);
    put_worker("w1", 1, "actor");
    lease("w1", 1, 0, 5, 1);
    keys(0x1, "w1-1", 6, 2001);
    keysgone(0x1, "flushed", 1000);
    assert_truth(1000, true);
}
END_TEST

START_TEST(with_four_nodes_exclusive_lasts_down_to_two)
{
    open_script();
    put_run("redlock", 4, 3);
    put_worker("w1", 1, "actor");
    lease("w1", 1, 0, 5, 1);
    keys(0xf, "w1-1", 6, 2001);
    keysgone(0x1, "flushed", 1000);
    keysgone(0x2, "flushed", 1100);
    keysgone(0x4, "flushed", 1200);
    assert_truth(1200, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_truth");
    TCase *truth = tcase_create("truth");

    tcase_add_test(truth, keys_outlive_an_honest_claim);
    tcase_add_test(truth, a_claim_that_is_too_long_is_found);
    tcase_add_test(truth, a_claim_to_the_last_moment_is_not);
    tcase_add_test(truth, a_step_of_one_clock_leaves_a_majority);
    tcase_add_test(truth, a_step_across_the_expiry_of_three_kills_at_the_step);
    tcase_add_test(truth, a_small_step_brings_the_end_nearer);
    tcase_add_test(truth, fast_clocks_are_exact);
    tcase_add_test(truth, fast_clocks_end_a_lease_early);
    tcase_add_test(truth, a_clock_that_stands_never_ends_it);
    tcase_add_test(truth, a_bare_majority_and_an_empty_restart);
    tcase_add_test(truth, a_bare_majority_and_a_flush);
    tcase_add_test(truth, a_claim_without_a_quorum_of_grants_is_found);
    tcase_add_test(truth, a_lease_that_is_renewed_may_be_asking_again);
    tcase_add_test(truth, what_its_release_found_was_there);
    tcase_add_test(truth, with_five_two_may_forget);
    tcase_add_test(truth, with_five_three_may_not);
    tcase_add_test(truth, a_restart_with_data_forgets_nothing);
    tcase_add_test(truth, a_node_that_is_down_for_good_gives_its_vote_to_nobody);
    tcase_add_test(truth, a_foreign_removal_is_a_loss);
    tcase_add_test(truth, eviction_and_flush_are_losses);
    tcase_add_test(truth, the_own_release_is_none);
    tcase_add_test(truth, what_happens_after_a_release_does_not_matter);
    tcase_add_test(truth, the_word_of_an_earlier_keys_end_may_come_late);
    tcase_add_test(truth, the_word_of_a_key_never_seen_may_come_late_too);
    tcase_add_test(truth, one_release_explains_one_removal);
    tcase_add_test(truth, a_node_counts_once);
    tcase_add_test(truth, a_removal_after_which_the_key_is_there_was_of_another);
    tcase_add_test(truth, a_removal_after_which_another_has_it_is_a_loss);
    tcase_add_test(truth, a_key_seen_again_was_never_gone);
    tcase_add_test(truth, an_extension_moves_both_ends);
    tcase_add_test(truth, an_extension_that_reached_two_nodes_is_no_extension);
    tcase_add_test(truth, an_extension_let_go_before_it_was_seen_is_no_measure);
    tcase_add_test(truth, a_node_may_join_again);
    tcase_add_test(truth, keys_never_seen_are_not_measured);
    tcase_add_test(truth, a_client_without_owners_is_not_measured);
    tcase_add_test(truth, grants_not_seen_are_taken_to_last);
    tcase_add_test(truth, a_single_primary_is_a_majority);
    tcase_add_test(truth, with_four_nodes_exclusive_lasts_down_to_two);
    suite_add_tcase(suite, truth);
    return run_suite(suite);
}
