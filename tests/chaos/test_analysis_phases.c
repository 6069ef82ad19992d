/* C1, C2, C3 by phase: a lease belongs to the one in which it was granted, leases that collide to
 * that of the first of them. */
#include "synthetic.h"

enum {
    SECOND_MS = 1000 /* when the phase "second" begins */
};

static void begin_phases(void)
{
    begin();
    phase("first", 0);
    phase("second", SECOND_MS);
    phase("third", 6000); /* in which nothing happens */
}

static void assert_absent_in(const struct analysis *analysis, const char *name, const char *where)
{
    ck_assert_msg(analysis_metric(analysis, name, where) == NULL, "%s is there", name);
}

/* Also that the whole run has both. */
static void assert_by_phase(const struct analysis *analysis, const char *name, double first,
                            double second)
{
    assert_metric_in(analysis, name, "first", first);
    assert_metric_in(analysis, name, "second", second);
    assert_metric(analysis, name, first + second);
    assert_absent_in(analysis, name, "third");
}

static void assert_overlaps(double first, double second)
{
    struct analysis *analysis = end_at(9000);

    assert_by_phase(analysis, "c1.overlaps", first, second);
    analysis_free(analysis);
}

START_TEST(an_overlap_belongs_to_whom_it_breaks_into)
{
    begin_phases();
    lease("w1", 1, 0, 5, 1); /* until 1978 */
    lease("w2", 1, 1100, 1105, 2);
    assert_overlaps(1, 0);
}
END_TEST

START_TEST(an_overlap_of_two_of_the_same_phase)
{
    begin_phases();
    lease("w1", 1, 0, 5, 1);
    release("w1", 1, 50);
    lease("w2", 1, 1100, 1105, 2);
    lease("w3", 1, 1200, 1205, 3);
    assert_overlaps(0, 1);
}
END_TEST

START_TEST(a_belief_after_the_deadline_belongs_to_its_own)
{
    begin_phases();
    lease("w1", 1, 0, 5, 1); /* until 1978 */
    put("'type':'check','t':%" PRId64 ",'worker':'w1','try':1,'held':true", AT(2500));
    lease("w2", 1, 3000, 3005, 2);
    assert_overlaps(1, 0);
}
END_TEST

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

/* Two inside from one phase to the next: the newcomer has done nothing wrong. */
START_TEST(who_was_inside_before_is_whose_phase_it_is)
{
    struct analysis *analysis;

    begin_phases();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    lease("w2", 1, 1100, 1105, 2);
    enter("w2", 1106, false, 1);
    leave("w2", 1150, false, true);
    leave("w1", 1200, true, false);
    analysis = end_at(9000);
    assert_by_phase(analysis, "c2.overlaps", 1, 0);
    assert_by_phase(analysis, "c2.lost_updates", 1, 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(two_inside_of_the_same_phase)
{
    struct analysis *analysis;

    begin_phases();
    lease("w1", 1, 0, 5, 1);
    enter("w1", 6, true, 0);
    leave("w1", 40, true, false);
    release("w1", 1, 50);
    lease("w2", 1, 1100, 1105, 2);
    enter("w2", 1106, true, 0);
    lease("w3", 1, 1200, 1205, 3);
    enter("w3", 1206, false, 2);
    leave("w3", 1250, false, false);
    leave("w2", 1300, true, true);
    analysis = end_at(9000);
    assert_by_phase(analysis, "c2.overlaps", 0, 1);
    assert_by_phase(analysis, "c2.lost_updates", 0, 1);
    analysis_free(analysis);
}
END_TEST

/* Three clocks step at 1500, when one lease was let go and another is held. */
START_TEST(a_claim_belongs_to_the_phase_of_its_grant)
{
    struct analysis *analysis;

    begin_phases();
    lease("w1", 1, 0, 5, 1);
    keys(ALL_NODES, "w1-1", 6, 2001);
    release("w1", 1, 500);
    keysgone(ALL_NODES, "del", 500);
    lease("w2", 1, 1100, 1105, 2);
    keys(ALL_NODES, "w2-1", 1106, 3101);
    for (int number = 1; number <= 3; number++) {
        clock_at(number, 0, 0, 0);
        clock_at(number, 1500, 10000, 0);
    }
    analysis = end_at(9000);
    assert_by_phase(analysis, "c3.negative", 0, 1);
    assert_metric_in(analysis, "c3.min_ms", "first", 23);
    assert_metric_in(analysis, "c3.min_ms", "second", 1500 - (1100 + 1978));
    analysis_free(analysis);
}
END_TEST

START_TEST(a_claim_without_its_grants_has_a_phase_too)
{
    struct analysis *analysis;

    begin_phases();
    invoke("w1", 1, "acquire", "a", 1100);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':1,'op':'acquire','name':'a','rc':'ok',"
        "'owner':'w1-1','fence':1,'validity_ms':1970,'deadline_ns':%" PRId64
        ",'attempts':1,'node':[{'node':1,'vote':'ours'}]",
        AT(1105), AT(3078));
    analysis = end_at(9000);
    assert_metric_in(analysis, "c3.negative", "second", 1);
    assert_absent_in(analysis, "c3.negative", "first");
    analysis_free(analysis);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_phases");
    TCase *phases = tcase_create("phases");

    tcase_add_test(phases, an_overlap_belongs_to_whom_it_breaks_into);
    tcase_add_test(phases, an_overlap_of_two_of_the_same_phase);
    tcase_add_test(phases, a_belief_after_the_deadline_belongs_to_its_own);
    tcase_add_test(phases, who_was_inside_before_is_whose_phase_it_is);
    tcase_add_test(phases, two_inside_of_the_same_phase);
    tcase_add_test(phases, a_claim_belongs_to_the_phase_of_its_grant);
    tcase_add_test(phases, a_claim_without_its_grants_has_a_phase_too);
    suite_add_tcase(suite, phases);
    return run_suite(suite);
}
