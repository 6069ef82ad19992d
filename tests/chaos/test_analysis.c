/* The reader, what it makes of broken files, and the verdict. */
#include "synthetic.h"

#include <errno.h>

/* ---- files ------------------------------------------------------------------ */

static void assert_refused(const char *part)
{
    char text[300] = "";
    struct analysis *analysis = try_script(text, sizeof text);

    ck_assert_msg(analysis == NULL, "taken: %s", part);
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in \"%s\"", part, text);
}

START_TEST(no_file)
{
    char text[300] = "";

    ck_assert_ptr_null(analysis_of("/no/such/file", text, sizeof text));
    ck_assert_str_eq(text, strerror(ENOENT));
}
END_TEST

START_TEST(an_empty_file)
{
    open_script();
    assert_refused("no record of type \"run\"");
}
END_TEST

START_TEST(a_line_cut_short_is_the_end_of_a_run_that_was_killed)
{
    char text[300] = "";
    struct analysis *analysis;

    begin();
    lease("w1", 1, 0, 5, 1);
    ck_assert_int_gt(fprintf(script.stream, "{\"i\":%d,\"type\":\"inv", 9), 0);
    analysis = try_script(text, sizeof text);
    ck_assert_msg(analysis != NULL, "%s", text);
    ck_assert(analysis->interrupted);
    ck_assert_int_eq(analysis->verdict, VERDICT_INCONCLUSIVE);
    ck_assert_ptr_nonnull(strstr(analysis->reason, "middle of line 9"));
    ck_assert_uint_eq(analysis->lease_count, 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_worker_may_go_before_it_is_known)
{
    char text[300] = "";
    struct analysis *analysis;

    open_script();
    put_run("redlock", 5, 3);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'failed','text':''", AT(1));
    put("'type':'end','t':%" PRId64 ",'interrupted':false", AT(2));
    analysis = try_script(text, sizeof text);
    ck_assert_msg(analysis != NULL, "%s", text);
    ck_assert_int_eq(analysis->verdict, VERDICT_INCONCLUSIVE);
    ck_assert_uint_eq(analysis->worker_count, 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_run_without_an_end_was_interrupted)
{
    char text[300] = "";
    struct analysis *analysis;

    begin();
    lease("w1", 1, 0, 5, 1);
    analysis = try_script(text, sizeof text);
    ck_assert_msg(analysis != NULL, "%s", text);
    ck_assert_int_eq(analysis->verdict, VERDICT_INCONCLUSIVE);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_line_cut_short_after_the_end_is_an_error)
{
    begin();
    put("'type':'end','t':%" PRId64 ",'interrupted':false", AT(1));
    ck_assert_int_gt(fprintf(script.stream, "{\"i\":"), 0);
    assert_refused("line 8: not JSON");
}
END_TEST

START_TEST(a_line_cut_short_within_is_an_error)
{
    begin();
    ck_assert_int_gt(fprintf(script.stream, "{\"i\":\n"), 0);
    lease("w1", 1, 0, 5, 1);
    assert_refused("line 7: not JSON");
}
END_TEST

START_TEST(what_is_not_an_object_is_an_error)
{
    begin();
    ck_assert_int_gt(fprintf(script.stream, "[1]\n"), 0);
    assert_refused("line 7: not an object");
}
END_TEST

START_TEST(an_unknown_type_is_an_error)
{
    begin();
    put("'type':'surprise','t':1");
    assert_refused("line 7: surprise: type is not known");
}
END_TEST

START_TEST(errors_name_line_and_field)
{
    begin();
    put("'type':'invoke','t':1,'worker':'w1','op':'acquire','name':'a'");
    assert_refused("line 7: invoke: try is missing");
    begin();
    put("'type':'invoke','t':1,'worker':5,'op':'acquire','try':1,'name':'a'");
    assert_refused("line 7: invoke: worker is not text");
    begin();
    put("'type':'invoke','t':1,'worker':'w1','op':'steal','try':1,'name':'a'");
    assert_refused("line 7: invoke: op is \"steal\"");
    begin();
    put("'type':'key','t':1,'node':65,'name':'a','owner':'o','when_ms':1");
    assert_refused("line 7: key: node is not a whole number from 1 to 64");
    begin();
    put("'type':'key','t':-1,'node':1,'name':'a','owner':'o','when_ms':1");
    assert_refused("line 7: key: t is not a whole number");
    begin();
    put("'type':'check','t':1,'worker':'w1','try':1,'held':'yes'");
    assert_refused("line 7: check: held is not true or false");
    begin();
    put("'type':'return','t':1,'worker':'w1','try':1,'op':'acquire','name':'a','rc':'ok'");
    assert_refused("line 7: return: deadline_ns is missing");
    begin();
    put("'type':'return','t':1,'worker':'w1','try':1,'op':'acquire','name':'a','rc':'busy',"
        "'node':[{'node':'one'}]");
    assert_refused("line 7: return: node is not a whole number");
}
END_TEST

START_TEST(a_return_needs_its_invoke)
{
    begin();
    returned("w1", 1, "acquire", "a", 5, "busy");
    assert_refused("record 6: a return without its invoke");
}
END_TEST

START_TEST(a_worker_needs_its_record)
{
    begin();
    invoke("w9", 1, "acquire", "a", 5);
    assert_refused("record 6: worker \"w9\"");
}
END_TEST

/* ---- tables ----------------------------------------------------------------- */

START_TEST(phases_faults_spans_and_offsets)
{
    begin();
    phase("calm", 0);
    phase("fault", 100);
    phase("calm", 300);
    phase("end", 500);
    put("'type':'fault','t':%" PRId64 ",'fault':3,'action':'freeze','state':'start','nodes':[1,3],"
        "'params':{'ms':50,'how':'hard'},'verified':true",
        AT(110));
    put("'type':'fault','t':%" PRId64 ",'fault':3,'action':'freeze','state':'stop','verified':true",
        AT(160));
    node(1, "frozen", 110, true);
    node(1, "thawed", 160, true);
    node(2, "down", 200, true);
    clock_at(1, 0, 0, 0);
    clock_at(1, 250, -3000, 500000);
    lease("w1", 1, 0, 5, 1);
    struct analysis *analysis = end_at(501);
    ck_assert_uint_eq(analysis->phase_count, 3);
    ck_assert_str_eq(analysis->phases[1].name, "fault");
    ck_assert_int_eq(analysis->phases[1].begin_ns, AT(100));
    ck_assert_int_eq(analysis->phases[1].end_ns, AT(300));
    ck_assert_int_eq(analysis->phases[2].end_ns, AT(500));
    ck_assert_uint_eq(analysis->fault_count, 1);
    ck_assert_uint_eq(analysis->faults[0].nodes, 0x5);
    ck_assert_int_eq(analysis->faults[0].end_ns, AT(160));
    ck_assert_str_eq(analysis->faults[0].text, "ms 50, how hard");
    ck_assert_uint_eq(analysis->span_count, 2);
    ck_assert_str_eq(analysis->spans[0].what, "frozen");
    ck_assert_int_eq(analysis->spans[0].end_ns, AT(160));
    ck_assert_str_eq(analysis->spans[1].what, "down");
    ck_assert_int_eq(analysis->spans[1].end_ns, AT(501));
    ck_assert_uint_eq(analysis->offset_count, 2);
    ck_assert_int_eq(analysis->offsets[1].offset_ns, -3000 * MS_NS);
    ck_assert_int_eq(analysis->offsets[1].rate_ppb, 500000);
    ck_assert_uint_eq(analysis->worker_count, 5);
    ck_assert_str_eq(analysis->workers[3], "p4");
    ck_assert_str_eq(analysis->roles[3], "prober");
    ck_assert_uint_eq(analysis->node_count, 5);
    analysis_free(analysis);
}
END_TEST

static void barred_at(int try, double ms)
{
    invoke("w1", try, "acquire", "a", ms);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':%d,'op':'acquire','name':'a',"
        "'rc':'no_quorum','node':[{'node':4,'vote':'barred','text':'restarted'}]",
        AT(ms + 10), try);
}

START_TEST(barred_times_are_joined)
{
    begin();
    barred_at(1, 100);
    barred_at(2, 500);
    barred_at(3, 1500);
    struct analysis *analysis = end_at(2000);
    ck_assert_uint_eq(analysis->span_count, 2);
    ck_assert_str_eq(analysis->spans[0].what, "barred");
    ck_assert_uint_eq(analysis->spans[0].node, 4);
    ck_assert_int_eq(analysis->spans[0].begin_ns, AT(100));
    ck_assert_int_eq(analysis->spans[0].end_ns, AT(510));
    ck_assert_int_eq(analysis->spans[1].begin_ns, AT(1500));
    analysis_free(analysis);
}
END_TEST

/* ---- verdict ---------------------------------------------------------------- */

/* One good lease. */
static void begin_good(void)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    release("w1", 1, 50);
}

static void assert_verdict(enum verdict verdict, const char *part)
{
    struct analysis *analysis = end_at(9000);

    ck_assert_msg(analysis->verdict == verdict, "%s: %s", verdict_name(analysis->verdict),
                  analysis->reason);
    ck_assert_msg(strstr(analysis->reason, part) != NULL, "%s", analysis->reason);
    ck_assert_int_eq(analysis->reason[0] == '\0', verdict == VERDICT_EXPECTED);
    analysis_free(analysis);
}

START_TEST(as_expected)
{
    begin_good();
    expect("c1.overlaps", "eq", 0, "safety");
    expect("acquire.ok", "ge", 1, "effect");
    expect("acquire.max_ms", "lt", 6, "liveness");
    expect("rc.busy", "eq", 0, "liveness");
    expect("acquire.ok", "ne", 2, "liveness");
    expect("acquire.ok", "le", 1, "liveness");
    expect("acquire.ok", "gt", 0, "liveness");
    assert_verdict(VERDICT_EXPECTED, "");
}
END_TEST

START_TEST(unsafe)
{
    begin_good();
    lease("w2", 1, 0, 40, 2);
    expect("c1.overlaps", "eq", 0, "safety");
    assert_verdict(VERDICT_UNSAFE, "c1.overlaps is 1, expected 0: as it must");
}
END_TEST

START_TEST(a_control_that_does_not_fire)
{
    begin_good();
    expect("c1.overlaps", "ge", 1, "safety");
    assert_verdict(VERDICT_UNSAFE, "c1.overlaps is 0, expected at least 1");
}
END_TEST

START_TEST(a_control_that_fires)
{
    begin_good();
    lease("w2", 1, 0, 40, 2);
    expect("c1.overlaps", "ge", 1, "safety");
    assert_verdict(VERDICT_EXPECTED, "");
}
END_TEST

START_TEST(no_acquisition_is_inconclusive)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", 10, "busy");
    expect("c1.overlaps", "eq", 0, "safety");
    assert_verdict(VERDICT_INCONCLUSIVE, "no lock was acquired");
}
END_TEST

START_TEST(an_absent_metric_of_safety_proves_nothing)
{
    begin_good();
    expect("c2.overlaps", "eq", 0, "safety");
    assert_verdict(VERDICT_INCONCLUSIVE, "c2.overlaps is absent");
}
END_TEST

START_TEST(an_absent_metric_of_liveness_is_not_met)
{
    begin_good();
    expect("probe.availability", "ge", 0.99, "liveness");
    assert_verdict(VERDICT_UNAVAILABLE, "probe.availability is absent");
}
END_TEST

START_TEST(an_effect_that_is_missing_is_inconclusive)
{
    begin_good();
    expect("acquire.ok", "ge", 1000, "effect");
    assert_verdict(VERDICT_INCONCLUSIVE, "acquire.ok is 1, expected at least 1000");
}
END_TEST

START_TEST(a_fault_that_did_not_take_is_inconclusive)
{
    begin_good();
    put("'type':'fault','t':%" PRId64 ",'fault':7,'action':'pause','state':'start',"
        "'verified':false",
        AT(5));
    assert_verdict(VERDICT_INCONCLUSIVE, "fault 7 (pause)");
}
END_TEST

START_TEST(a_harness_that_failed_is_inconclusive)
{
    begin_good();
    put("'type':'error','t':%" PRId64 ",'text':'no server'", AT(5));
    assert_verdict(VERDICT_INCONCLUSIVE, "no server");
}
END_TEST

START_TEST(an_interrupted_run_is_inconclusive)
{
    begin_good();
    put("'type':'end','t':%" PRId64 ",'interrupted':true", AT(60));
    assert_verdict(VERDICT_INCONCLUSIVE, "interrupted");
}
END_TEST

START_TEST(unsafe_comes_before_inconclusive_before_unavailable)
{
    begin_good();
    expect("acquire.ok", "ge", 5, "liveness");
    assert_verdict(VERDICT_UNAVAILABLE, "acquire.ok");
    begin_good();
    expect("acquire.ok", "ge", 5, "liveness");
    expect("acquire.ok", "ge", 6, "effect");
    assert_verdict(VERDICT_INCONCLUSIVE, "at least 6");
    begin_good();
    expect("acquire.ok", "ge", 6, "effect");
    expect("c1.overlaps", "ge", 1, "safety");
    expect("c1.overlaps", "ge", 2, "safety");
    assert_verdict(VERDICT_UNSAFE, "(and 1 more)");
}
END_TEST

START_TEST(an_expectation_of_a_phase)
{
    begin_good();
    phase("calm", 0);
    phase("fault", 1000);
    put("'type':'expect','t':1,'metric':'acquire.ok','phase':'calm','op':'eq','value':1,"
        "'kind':'liveness'");
    assert_verdict(VERDICT_EXPECTED, "");
    begin_good();
    put("'type':'expect','t':1,'metric':'acquire.ok','phase':'missing','op':'eq','value':0,"
        "'kind':'liveness'");
    assert_verdict(VERDICT_UNAVAILABLE, "acquire.ok (missing) is absent");
}
END_TEST

START_TEST(measures_are_metrics)
{
    begin_good();
    put("'type':'measure','t':1,'name':'my.own','phase':'','value':2.5");
    expect("my.own", "eq", 2.5, "safety");
    assert_verdict(VERDICT_EXPECTED, "");
}
END_TEST

START_TEST(only_so_many_violations_are_kept)
{
    struct analysis *analysis;

    begin();
    for (int i = 1; i <= 1500; i++)
        lease("w1", i, i, i + 0.5, 0);
    analysis = end_at(9000);
    ck_assert_uint_eq(found(analysis, 1), 1499);
    ck_assert_uint_eq(analysis->violation_count, 1000);
    analysis_free(analysis);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis");
    TCase *files = tcase_create("files"), *verdicts = tcase_create("verdicts");

    tcase_add_test(files, no_file);
    tcase_add_test(files, an_empty_file);
    tcase_add_test(files, a_line_cut_short_is_the_end_of_a_run_that_was_killed);
    tcase_add_test(files, a_worker_may_go_before_it_is_known);
    tcase_add_test(files, a_run_without_an_end_was_interrupted);
    tcase_add_test(files, a_line_cut_short_after_the_end_is_an_error);
    tcase_add_test(files, a_line_cut_short_within_is_an_error);
    tcase_add_test(files, what_is_not_an_object_is_an_error);
    tcase_add_test(files, an_unknown_type_is_an_error);
    tcase_add_test(files, errors_name_line_and_field);
    tcase_add_test(files, a_return_needs_its_invoke);
    tcase_add_test(files, a_worker_needs_its_record);
    tcase_add_test(files, phases_faults_spans_and_offsets);
    tcase_add_test(files, barred_times_are_joined);
    suite_add_tcase(suite, files);
    tcase_add_test(verdicts, as_expected);
    tcase_add_test(verdicts, unsafe);
    tcase_add_test(verdicts, a_control_that_does_not_fire);
    tcase_add_test(verdicts, a_control_that_fires);
    tcase_add_test(verdicts, no_acquisition_is_inconclusive);
    tcase_add_test(verdicts, an_absent_metric_of_safety_proves_nothing);
    tcase_add_test(verdicts, an_absent_metric_of_liveness_is_not_met);
    tcase_add_test(verdicts, an_effect_that_is_missing_is_inconclusive);
    tcase_add_test(verdicts, a_fault_that_did_not_take_is_inconclusive);
    tcase_add_test(verdicts, a_harness_that_failed_is_inconclusive);
    tcase_add_test(verdicts, an_interrupted_run_is_inconclusive);
    tcase_add_test(verdicts, unsafe_comes_before_inconclusive_before_unavailable);
    tcase_add_test(verdicts, an_expectation_of_a_phase);
    tcase_add_test(verdicts, measures_are_metrics);
    tcase_add_test(verdicts, only_so_many_violations_are_kept);
    suite_add_tcase(suite, verdicts);
    return run_suite(suite);
}
