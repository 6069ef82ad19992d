/* C7 to C10, and the numbers that are not a checker's. */
#include "synthetic.h"

#include "numbers.h"

/* ---- C7 --------------------------------------------------------------------- */

/* wait 1000, connect 1000, node 100, slack 1500 */
#define LIMIT 3600.0

START_TEST(a_call_may_take_as_long_as_it_may_wait)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", LIMIT, "busy");
    struct analysis *analysis = end_at(9000);
    assert_metric(analysis, "c7.late", 0);
    assert_metric(analysis, "c7.worst_ms", LIMIT - 1000);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_late_return_is_found)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    returned("w1", 1, "acquire", "a", LIMIT + 0.001, "busy");
    struct analysis *analysis = end_at(9000);
    assert_metric(analysis, "c7.late", 1);
    ck_assert_int_eq(analysis->violations[0].checker, 7);
    analysis_free(analysis);
}
END_TEST

static void freeze(const char *params)
{
    put("'type':'fault','t':%" PRId64 ",'fault':1,'action':'freeze-worker','state':'start',"
        "'params':{%s}",
        AT(100), params);
    put("'type':'fault','t':%" PRId64 ",'fault':1,'action':'freeze-worker','state':'stop',"
        "'params':{%s}",
        AT(6100), params);
}

static void late_call(const char *worker, double took)
{
    invoke(worker, 1, "acquire", "a", 50);
    returned(worker, 1, "acquire", "a", 50 + took, "busy");
}

START_TEST(a_frozen_worker_cannot_return)
{
    begin();
    freeze("'worker':'w1'");
    late_call("w1", 6000 + LIMIT);
    late_call("w2", 6000 + LIMIT); /* was not frozen */
    struct analysis *analysis = end_at(20000);
    assert_metric(analysis, "c7.late", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_freeze_does_not_excuse_everything)
{
    begin();
    freeze("'worker':'w1'");
    late_call("w1", 6000 + LIMIT + 1);
    struct analysis *analysis = end_at(20000);
    assert_metric(analysis, "c7.late", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_call_that_hangs_is_found)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    struct analysis *analysis = end_at(9000);
    assert_metric(analysis, "c7.late", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_call_of_a_dead_worker_does_not_hang)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(800));
    lease("w2", 1, 10, 20, 1);
    struct analysis *analysis = end_at(9000);
    assert_metric(analysis, "c7.late", 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_call_that_hangs_until_its_worker_is_killed_is_late)
{
    begin();
    invoke("w1", 1, "acquire", "a", 0);
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(8000));
    lease("w2", 1, 10, 20, 1);
    struct analysis *analysis = end_at(9000);
    assert_metric(analysis, "c7.late", 1);
    analysis_free(analysis);
}
END_TEST

/* ---- what is measured again ---------------------------------------------------- */

START_TEST(each_of_several_measures_must_hold)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    put("'type':'measure','t':%" PRId64 ",'name':'counted','phase':'','value':0", AT(10));
    put("'type':'measure','t':%" PRId64 ",'name':'counted','phase':'','value':1", AT(20));
    expect("counted", "eq", 1, "safety");
    struct analysis *analysis = end_at(100);
    ck_assert_int_eq(analysis->verdict, VERDICT_UNSAFE);
    analysis_free(analysis);
}
END_TEST

/* ---- C8 --------------------------------------------------------------------- */

START_TEST(every_prober_comes_back)
{
    begin();
    phase("fault", 0);
    probe("p4", 1, 10, 5, "no_quorum");
    phase("liveness", 1000);
    probe("p4", 2, 1010, 5, "no_quorum");
    probe("p4", 3, 1110, 5, "ok");
    probe("p5", 1, 1020, 5, "ok");
    phase("end", 5000);
    struct analysis *analysis = end_at(5001);
    assert_metric(analysis, "c8.missing", 0);
    assert_metric(analysis, "c8.worst_ms", 115);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_prober_that_does_not_is_found)
{
    begin();
    probe("p5", 1, 20, 5, "ok"); /* before */
    phase("liveness", 1000);
    probe("p4", 1, 1010, 5, "ok");
    phase("end", 5000);
    struct analysis *analysis = end_at(5001);
    assert_metric(analysis, "c8.missing", 1);
    ck_assert_ptr_nonnull(strstr(analysis->violations[0].text, "p5"));
    analysis_free(analysis);
}
END_TEST

START_TEST(without_the_phase_liveness_is_not_known)
{
    begin();
    probe("p4", 1, 1010, 5, "ok");
    struct analysis *analysis = end_at(5001);
    ck_assert(!analysis->checkers[7].ran);
    assert_absent(analysis, "c8.missing");
    assert_absent(analysis, "c8.worst_ms");
    analysis_free(analysis);
}
END_TEST

/* ---- C9 --------------------------------------------------------------------- */

static void answered(double ms, int number, const char *vote, const char *text)
{
    static int try = 100;

    invoke("w1", ++try, "acquire", "a", ms);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':%d,'op':'acquire','name':'a',"
        "'rc':'no_quorum','node':[{'node':%d,'vote':'%s','us':120,'text':'%s'}]",
        AT(ms + 1), try, number, vote, text);
}

static void wants(int number, const char *where, const char *word)
{
    put("'type':'reason','t':%" PRId64 ",'node':%d,'phase':'%s','word':'%s'", AT(0), number, where,
        word);
}

START_TEST(reasons_that_were_given)
{
    begin();
    phase("calm", 0);
    phase("oom", 100);
    answered(150, 2, "error", "OOM command not allowed");
    wants(2, "oom", "OOM");
    wants(2, "", "OOM");
    struct analysis *analysis = end_at(1000);
    assert_metric(analysis, "c9.wrong", 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(reasons_that_were_not)
{
    begin();
    phase("calm", 0);
    phase("oom", 100);
    phase("after", 200);
    answered(150, 2, "error", "OOM command not allowed");
    wants(2, "calm", "OOM");    /* another phase */
    wants(3, "oom", "OOM");     /* another node */
    wants(2, "oom", "MISCONF"); /* another word */
    struct analysis *analysis = end_at(1000);
    assert_metric(analysis, "c9.wrong", 3);
    analysis_free(analysis);
}
END_TEST

/* ---- C10 -------------------------------------------------------------------- */

static void weight(const char *process, const char *when, double ms, int fds, int threads, int rss)
{
    put("'type':'hygiene','t':%" PRId64 ",'worker':'%s','when':'%s','fds':%d,'threads':%d,"
        "'rss_kb':%d",
        AT(ms), process, when, fds, threads, rss);
}

START_TEST(what_stays_within_bounds)
{
    begin();
    weight("w1", "begin", 1, 10, 2, 10000);
    weight("harness", "begin", 1, 20, 5, 4000);
    weight("w1", "end", 100, 12, 4, 15000);
    weight("harness", "end", 100, 20, 5, 8090); /* more than half, but not 4 MB */
    put("'type':'measure','t':%" PRId64 ",'name':'left','phase':'','value':0", AT(110));
    struct analysis *analysis = end_at(120);
    ck_assert_uint_eq(found(analysis, 10), 0);
    assert_metric(analysis, "c10.fds", 2);
    assert_metric(analysis, "c10.threads", 2);
    assert_metric(analysis, "c10.rss_kb", 5000);
    assert_metric(analysis, "c10.left", 0);
    analysis_free(analysis);
}
END_TEST

START_TEST(what_grows_is_found)
{
    begin();
    weight("w1", "begin", 1, 10, 2, 10000);
    weight("w2", "begin", 1, 10, 2, 10000);
    weight("w3", "begin", 1, 10, 2, 10000);
    weight("w1", "end", 100, 19, 2, 10000);
    weight("w2", "end", 100, 10, 5, 10000);
    weight("w3", "end", 100, 10, 2, 15001);
    put("'type':'measure','t':%" PRId64 ",'name':'left','phase':'','value':1", AT(110));
    struct analysis *analysis = end_at(120);
    ck_assert_uint_eq(found(analysis, 10), 4);
    assert_metric(analysis, "c10.left", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(half_a_weighing_says_nothing)
{
    begin();
    weight("w1", "begin", 1, 10, 2, 10000);
    weight("w2", "end", 1, 99, 99, 10000);
    struct analysis *analysis = end_at(120);
    ck_assert(!analysis->checkers[9].ran);
    assert_absent(analysis, "c10.fds");
    analysis_free(analysis);
}
END_TEST

/* ---- numbers ---------------------------------------------------------------- */

START_TEST(percentiles_are_exact)
{
    int64_t values[100];

    for (int i = 0; i < 100; i++)
        values[i] = 100 - i;
    numbers_sort(values, 100);
    ck_assert_int_eq(numbers_percentile(values, 100, 0), 1);
    ck_assert_int_eq(numbers_percentile(values, 100, 0.5), 50);
    ck_assert_int_eq(numbers_percentile(values, 100, 0.99), 99);
    ck_assert_int_eq(numbers_percentile(values, 100, 0.999), 100);
    ck_assert_int_eq(numbers_percentile(values, 100, 1), 100);
    ck_assert_int_eq(numbers_percentile(values, 1, 0.5), 1);
}
END_TEST

START_TEST(wilson_and_jain)
{
    const size_t even[] = {5, 5, 5, 5}, greedy[] = {7, 0, 0, 0}, none[] = {0, 0};
    struct interval interval = numbers_wilson(90, 100);

    ck_assert_double_eq_tol(interval.low, 0.825634, 1e-6);
    ck_assert_double_eq_tol(interval.high, 0.944771, 1e-6);
    ck_assert_double_eq(numbers_wilson(10, 10).high, 1);
    ck_assert_double_eq(numbers_wilson(0, 10).low, 0);
    ck_assert_double_eq(numbers_jain(even, 4), 1);
    ck_assert_double_eq(numbers_jain(greedy, 4), 0.25);
    ck_assert_double_eq(numbers_jain(none, 2), 0);
}
END_TEST

START_TEST(probes_per_phase)
{
    begin();
    phase("calm", 0);
    probe("p4", 1, 10, 4, "ok");
    probe("p5", 1, 20, 8, "ok");
    phase("fault", 100);
    probe("p4", 2, 110, 50, "no_quorum");
    probe("p4", 3, 210, 50, "no_quorum");
    probe("p4", 4, 310, 6, "ok");
    probe("p5", 2, 120, 6, "ok");
    phase("end", 400);
    struct analysis *analysis = end_at(401);
    assert_metric(analysis, "probe.count", 6);
    assert_metric_in(analysis, "probe.availability", "calm", 1);
    assert_metric_in(analysis, "probe.availability", "fault", 0.5);
    assert_metric_in(analysis, "probe.outage_ms", "calm", 0);
    assert_metric_in(analysis, "probe.outage_ms", "fault", 200);
    assert_metric_in(analysis, "probe.p50_ms", "calm", 4);
    assert_metric_in(analysis, "probe.p99_ms", "calm", 8);
    assert_metric_in(analysis, "rc.no_quorum", "fault", 2);
    assert_metric_in(analysis, "rc.no_quorum", "calm", 0);
    ck_assert_ptr_null(analysis_metric(analysis, "rc.no_quorum", "no such phase"));
    ck_assert_uint_eq(analysis->probe_count, 6);
    analysis_free(analysis);
}
END_TEST

START_TEST(acquisitions)
{
    begin();
    lease("w1", 1, 0, 10, 1);
    lease("w2", 1, 20, 50, 2);
    lease("w1", 2, 60, 80, 3);
    extend("w1", 2, 100, "ok", 2100);
    extend("w1", 2, 110, "no_quorum", 0);
    event("w2", 1, "failing", 120, 0);
    answered(200, 3, "ours", "");
    probe("p4", 1, 300, 4, "ok"); /* not one of these */
    struct analysis *analysis = end_at(2000);
    assert_metric(analysis, "acquire.ok", 3);
    assert_metric(analysis, "acquire.returned", 5);
    assert_metric(analysis, "acquire.per_s", 1.5);
    assert_metric(analysis, "acquire.attempts", 1);
    assert_metric(analysis, "acquire.split", 1);
    assert_metric(analysis, "acquire.jain", 9.0 / 15); /* 2, 1, 0 */
    assert_metric(analysis, "acquire.p50_ms", 20);
    assert_metric(analysis, "acquire.max_ms", 30);
    assert_metric(analysis, "validity.min_ms", 1970);
    assert_metric(analysis, "extend.ok", 1);
    assert_metric(analysis, "extend.failed", 2);
    assert_metric(analysis, "rc.ok", 4);
    assert_metric(analysis, "vote.3.ours", 1);
    assert_metric(analysis, "vote.3.error", 0);
    ck_assert_uint_eq(analysis->point_count, 4);
    analysis_free(analysis);
}
END_TEST

START_TEST(losses_true_and_false)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    keys(ALL_NODES, "w1-1", 6, 2001);
    event("w1", 1, "lost", 500, 0); /* nothing had happened */
    lease("w2", 1, 600, 605, 2);
    keys(ALL_NODES, "w2-1", 606, 2601);
    keysgone(0x7, "flushed", 700);
    event("w2", 1, "lost", 900, 0);
    struct analysis *analysis = end_at(5000);
    assert_metric(analysis, "lost.false", 1);
    assert_metric(analysis, "lost.true", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(a_loss_told_at_the_end_is_true)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    keys(ALL_NODES, "w1-1", 6, 3001); /* longer than claimed */
    event("w1", 1, "lost", 1900, 0);
    struct analysis *analysis = end_at(5000);
    assert_metric(analysis, "lost.false", 0);
    assert_metric(analysis, "lost.true", 1);
    analysis_free(analysis);
}
END_TEST

START_TEST(nothing_happened_nothing_is_known)
{
    begin();
    struct analysis *analysis = end_at(100);
    assert_absent(analysis, "c1.overlaps");
    assert_absent(analysis, "c6.orphans");
    assert_absent(analysis, "c7.late");
    assert_absent(analysis, "probe.availability");
    assert_absent(analysis, "acquire.ok");
    assert_absent(analysis, "rc.ok");
    assert_absent(analysis, "lost.false");
    analysis_free(analysis);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_calls");
    TCase *checkers = tcase_create("checkers"), *numbers = tcase_create("numbers");

    tcase_add_test(checkers, a_call_may_take_as_long_as_it_may_wait);
    tcase_add_test(checkers, a_late_return_is_found);
    tcase_add_test(checkers, a_frozen_worker_cannot_return);
    tcase_add_test(checkers, a_freeze_does_not_excuse_everything);
    tcase_add_test(checkers, a_call_that_hangs_is_found);
    tcase_add_test(checkers, a_call_of_a_dead_worker_does_not_hang);
    tcase_add_test(checkers, a_call_that_hangs_until_its_worker_is_killed_is_late);
    tcase_add_test(checkers, each_of_several_measures_must_hold);
    tcase_add_test(checkers, every_prober_comes_back);
    tcase_add_test(checkers, a_prober_that_does_not_is_found);
    tcase_add_test(checkers, without_the_phase_liveness_is_not_known);
    tcase_add_test(checkers, reasons_that_were_given);
    tcase_add_test(checkers, reasons_that_were_not);
    tcase_add_test(checkers, what_stays_within_bounds);
    tcase_add_test(checkers, what_grows_is_found);
    tcase_add_test(checkers, half_a_weighing_says_nothing);
    suite_add_tcase(suite, checkers);
    tcase_add_test(numbers, percentiles_are_exact);
    tcase_add_test(numbers, wilson_and_jain);
    tcase_add_test(numbers, probes_per_phase);
    tcase_add_test(numbers, acquisitions);
    tcase_add_test(numbers, losses_true_and_false);
    tcase_add_test(numbers, a_loss_told_at_the_end_is_true);
    tcase_add_test(numbers, nothing_happened_nothing_is_known);
    suite_add_tcase(suite, numbers);
    return run_suite(suite);
}
