/* C6: keys that stay, keys that come late. */
#include "synthetic.h"

static void assert_orphans(double orphans, double excused, double ghosts, double late)
{
    struct analysis *analysis = end_at(30000);

    ck_assert_uint_eq(found(analysis, 6), (size_t)orphans);
    assert_metric(analysis, "c6.orphans", orphans);
    assert_metric(analysis, "c6.excused", excused);
    assert_metric(analysis, "c6.ghosts", ghosts);
    assert_metric(analysis, "c6.late_births", late);
    analysis_free(analysis);
}

START_TEST(keys_that_go_with_the_release)
{
    begin_held(ALL_NODES);
    release("w1", 1, 100);
    keysgone(ALL_NODES, "del", 102);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(keys_of_a_dead_owner_go_with_their_ttl)
{
    begin_held(ALL_NODES);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(80));
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(a_key_left_by_a_release_is_a_ghost)
{
    struct analysis *analysis;

    begin_held(ALL_NODES);
    release("w1", 1, 100); /* returns at 101 */
    keysgone(0x7, "del", 102);
    keysgone(0x8, "del", 301); /* node 5 keeps it to the end, 2001 */
    analysis = end_at(30000);
    assert_metric(analysis, "c6.ghosts", 2);
    assert_metric(analysis, "c6.ghost_p99_ms", 1900);
    assert_metric(analysis, "c6.orphans", 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_key_of_a_failed_attempt_is_a_ghost)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 100, "no_quorum");
    keys(0x3, "who", 6, 2001);
    keysgone(0x1, "del", 101);
    assert_orphans(0, 0, 1, 0);
}
END_TEST

START_TEST(a_key_of_a_failed_attempt_that_is_gone_is_none)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 100, "busy");
    keys(0x3, "who", 6, 2001);
    keysgone(0x3, "del", 90);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(a_key_is_no_ghost_while_an_attempt_goes_on)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 500, "no_quorum");
    invoke("w2", 1, "acquire", "a", 100);
    returned("w2", 1, "acquire", "a", 150, "busy");
    keys(0x3, "who", 200, 2200);
    keysgone(0x3, "del", 400);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(a_key_that_outlives_its_ttl_is_an_orphan)
{
    begin_held(0x3);
    keys(0x4, "w1-1", 6, 3008); /* the last word was at 5 ms */
    assert_orphans(1, 0, 0, 0);
}
END_TEST

START_TEST(a_key_within_the_slack_is_not)
{
    begin_held(0x3);
    keys(0x4, "w1-1", 6, 3005);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(a_clock_set_back_excuses)
{
    begin_held(ALL_NODES);
    clock_at(1, 0, 0, 0);
    clock_at(1, 1000, -3600000, 0);
    assert_orphans(0, 1, 0, 0);
}
END_TEST

START_TEST(a_slow_clock_excuses)
{
    begin_held(ALL_NODES);
    clock_at(1, 1, 0, -500000000);
    assert_orphans(0, 1, 0, 0);
}
END_TEST

START_TEST(a_frozen_node_excuses)
{
    begin_held(0x3);
    keys(0x4, "w1-1", 6, 9000);
    node(3, "frozen", 100, true);
    node(3, "thawed", 4000, true);
    assert_orphans(0, 1, 0, 0);
}
END_TEST

START_TEST(an_extension_counts_as_a_word)
{
    begin_held(ALL_NODES);
    extend("w1", 1, 1900, "ok", 3878);
    keys(ALL_NODES, "w1-1", 1902, 3901);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

START_TEST(a_request_delivered_after_a_cut_is_a_late_birth)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 100, "wait_deadline");
    keys(0x7, "who", 3000, 5000);
    assert_orphans(0, 0, 3, 3);
}
END_TEST

START_TEST(of_a_killed_worker_too)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(100));
    keys(0x1, "who", 2101, 4100);
    assert_orphans(0, 0, 1, 1);
}
END_TEST

START_TEST(a_birth_within_the_ttl_is_not_late)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 100, "wait_deadline");
    keys(0x1, "who", 2100, 4100);
    assert_orphans(0, 0, 1, 0);
}
END_TEST

START_TEST(a_late_birth_of_a_known_owner_is_an_orphan)
{
    begin_held(0x7);
    release("w1", 1, 100);
    keysgone(0x7, "del", 101);
    keys(0x10, "w1-1", 5000, 7000);
    assert_orphans(1, 0, 1, 1);
}
END_TEST

START_TEST(a_held_lease_of_a_client_without_owners_is_no_ghost)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a',"
        "'rc':'ok','deadline_ns':%" PRId64,
        AT(5), AT(1978));
    keys(ALL_NODES, "peer", 6, 2001);
    assert_orphans(0, 0, 0, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_keys");
    TCase *orphans = tcase_create("orphans");

    tcase_add_test(orphans, keys_that_go_with_the_release);
    tcase_add_test(orphans, keys_of_a_dead_owner_go_with_their_ttl);
    tcase_add_test(orphans, a_key_left_by_a_release_is_a_ghost);
    tcase_add_test(orphans, a_key_of_a_failed_attempt_is_a_ghost);
    tcase_add_test(orphans, a_key_of_a_failed_attempt_that_is_gone_is_none);
    tcase_add_test(orphans, a_key_is_no_ghost_while_an_attempt_goes_on);
    tcase_add_test(orphans, a_key_that_outlives_its_ttl_is_an_orphan);
    tcase_add_test(orphans, a_key_within_the_slack_is_not);
    tcase_add_test(orphans, a_clock_set_back_excuses);
    tcase_add_test(orphans, a_slow_clock_excuses);
    tcase_add_test(orphans, a_frozen_node_excuses);
    tcase_add_test(orphans, an_extension_counts_as_a_word);
    tcase_add_test(orphans, a_request_delivered_after_a_cut_is_a_late_birth);
    tcase_add_test(orphans, of_a_killed_worker_too);
    tcase_add_test(orphans, a_birth_within_the_ttl_is_not_late);
    tcase_add_test(orphans, a_late_birth_of_a_known_owner_is_an_orphan);
    tcase_add_test(orphans, a_held_lease_of_a_client_without_owners_is_no_ghost);
    suite_add_tcase(suite, orphans);
    return run_suite(suite);
}
