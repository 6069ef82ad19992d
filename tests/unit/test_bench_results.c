/* What the bench makes of its samples: medians, ratios, verdicts. The source is included. */
#include <check.h>
#include <math.h>
#include <stdlib.h>

#include "../../tools/bench/bench.c"

static const struct bench_work work = {.name = "work"};
static struct bench_results results;
static struct bench bench;

static void set_up(void)
{
    results = (struct bench_results){.work = &work};
    bench = (struct bench){.results = &results};
}

static void tear_down(void)
{
    bench_results_free(&results);
}

static void sample(double ours, double base, double limit)
{
    bench_sample(&bench, "figure", "us", ours, base, "base", limit);
}

static struct bench_medians medians(void)
{
    struct bench_medians all;

    ck_assert_uint_eq(results.count, 1);
    bench_medians_of(&results.figures[0], &all);
    return all;
}

static const char *verdict(void)
{
    const struct bench_medians all = medians();

    return bench_verdict(&results.figures[0], &all);
}

START_TEST(a_ratio_is_taken_within_its_round)
{
    sample(10, 10, 0);
    sample(40, 20, 0);
    sample(30, 40, 0);
    ck_assert_double_eq(medians().ours, 30);
    ck_assert_double_eq(medians().base, 20);
    ck_assert_double_eq(medians().ratio, 1);
    ck_assert_double_eq(medians().ratio_least, 0.75);
    ck_assert_double_eq(medians().ratio_most, 2);
}
END_TEST

START_TEST(of_an_even_number_the_mean_of_two)
{
    sample(1, 1, 0);
    sample(3, 1, 0);
    ck_assert_double_eq(medians().ours, 2);
    ck_assert_double_eq(medians().ratio, 2);
}
END_TEST

START_TEST(what_is_not_there_is_left_out)
{
    sample(1, NAN, 1);
    ck_assert_double_eq(medians().ours, 1);
    ck_assert(isnan(medians().base) && isnan(medians().ratio));
    ck_assert(isnan(medians().ratio_least) && isnan(medians().ratio_most));
    ck_assert_ptr_null(verdict());
    sample(NAN, 2, 1);
    sample(1, 0, 1); /* no ratio that one could compare */
    ck_assert(isnan(medians().ratio));
    ck_assert_ptr_null(verdict());
    ck_assert(!bench_any_missed(&results));
}
END_TEST

START_TEST(a_limit_from_above)
{
    sample(11, 10, 1.1);
    ck_assert_str_eq(verdict(), "met");
    ck_assert(!bench_any_missed(&results));
    sample(14, 10, 1.1);
    ck_assert_str_eq(verdict(), "missed");
    ck_assert(bench_any_missed(&results));
}
END_TEST

START_TEST(a_limit_from_below)
{
    sample(9, 10, -0.9);
    ck_assert_str_eq(verdict(), "met");
    sample(7, 10, -0.9);
    ck_assert_str_eq(verdict(), "missed");
    ck_assert(bench_any_missed(&results));
}
END_TEST

START_TEST(no_limit_is_no_verdict)
{
    sample(100, 1, 0);
    ck_assert_ptr_null(verdict());
    ck_assert(!bench_any_missed(&results));
}
END_TEST

START_TEST(limits_of_crowds_are_for_the_usual_size)
{
    bench.workers = BENCH_WORKERS;
    ck_assert_double_eq(bench_crowd_limit(&bench, -0.9), -0.9);
    bench.workers = BENCH_WORKERS + 1;
    ck_assert_double_eq(bench_crowd_limit(&bench, -0.9), 0);
    bench.workers = 2;
    ck_assert_double_eq(bench_crowd_limit(&bench, 1.2), 0);
}
END_TEST

START_TEST(figures_are_told_apart)
{
    static const struct bench_work other = {.name = "other"};

    sample(1, 1, 0);
    bench_sample(&bench, "figure", "us", 1, 1, "another base", 0);
    bench_sample(&bench, "another figure", "us", 1, NAN, NULL, 0);
    results.work = &other;
    sample(1, 1, 0);
    ck_assert_uint_eq(results.count, 4);
    for (unsigned i = 0; i < results.count; i++)
        ck_assert_uint_eq(results.figures[i].count, 1);
}
END_TEST

static Suite *bench_results_suite(void)
{
    Suite *suite = suite_create("bench results");
    TCase *t = tcase_create("bench results");

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_ratio_is_taken_within_its_round);
    tcase_add_test(t, of_an_even_number_the_mean_of_two);
    tcase_add_test(t, what_is_not_there_is_left_out);
    tcase_add_test(t, a_limit_from_above);
    tcase_add_test(t, a_limit_from_below);
    tcase_add_test(t, no_limit_is_no_verdict);
    tcase_add_test(t, limits_of_crowds_are_for_the_usual_size);
    tcase_add_test(t, figures_are_told_apart);
    suite_add_tcase(suite, t);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(bench_results_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
