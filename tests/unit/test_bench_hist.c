/* The bench's histogram: how exact it is, its ends, and adding up. The source is included. */
#include <check.h>
#include <stdlib.h>

#include "../../tools/bench/hist.c"

static struct hist hist, other;

static void set_up(void)
{
    hist_clear(&hist);
    hist_clear(&other);
}

START_TEST(an_empty_one_has_nothing)
{
    ck_assert_int_eq(hist_percentile_ns(&hist, 50), 0);
    ck_assert_int_eq(hist_percentile_ns(&hist, 100), 0);
    ck_assert_double_eq(hist_mean_ns(&hist), 0);
}
END_TEST

START_TEST(one_value_is_all_percentiles)
{
    hist_add(&hist, 123456789);
    ck_assert_int_eq(hist_percentile_ns(&hist, 100), 123456789);
    ck_assert_int_le(hist_percentile_ns(&hist, 0.1), 123456789);
    ck_assert_int_ge(hist_percentile_ns(&hist, 0.1), 123456789 - 123456789 / 128 - 1);
    ck_assert_double_eq(hist_mean_ns(&hist), 123456789);
}
END_TEST

/* Whatever the size, a value is known to within one part in 128, and never said to be larger than
 * the largest. */
START_TEST(values_of_all_sizes)
{
    for (int64_t value = 1; value < (int64_t)1 << 45; value += value / 3 + 1) {
        int64_t told;

        hist_clear(&hist);
        hist_add(&hist, value);
        hist_add(&hist, (int64_t)1 << 46);
        told = hist_percentile_ns(&hist, 50);
        ck_assert_int_ge(told, value - value / 128 - 1);
        ck_assert_int_le(told, value + value / 128 + 1);
    }
}
END_TEST

START_TEST(percentiles_are_ranks)
{
    for (int i = 1; i <= 1000; i++)
        hist_add(&hist, (int64_t)i * 1000000);
    for (int p = 1; p <= 100; p++) {
        int64_t exact = (int64_t)p * 10 * 1000000, told = hist_percentile_ns(&hist, p);

        ck_assert_msg(llabs(told - exact) <= exact / 128 + 1, "p%d: %lld", p, (long long)told);
    }
    ck_assert_int_eq(hist_percentile_ns(&hist, 100), 1000000000);
}
END_TEST

START_TEST(added_up_they_are_as_one)
{
    static struct hist both;

    hist_clear(&both);
    for (int i = 1; i <= 500; i++) {
        int64_t value = (int64_t)i * i * 1000;

        hist_add(i % 2 != 0 ? &hist : &other, value);
        hist_add(&both, value);
    }
    hist_merge(&hist, &other);
    ck_assert_uint_eq(hist.count, both.count);
    ck_assert_int_eq(hist.least_ns, both.least_ns);
    ck_assert_int_eq(hist.most_ns, both.most_ns);
    for (int p = 5; p <= 100; p += 5)
        ck_assert_int_eq(hist_percentile_ns(&hist, p), hist_percentile_ns(&both, p));
}
END_TEST

/* A clock that went back, and more than nineteen hours. */
START_TEST(values_out_of_range_count)
{
    hist_add(&hist, -5);
    hist_add(&hist, INT64_MAX);
    ck_assert_uint_eq(hist.count, 2);
    ck_assert_int_le(hist_percentile_ns(&hist, 50), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench hist");
    TCase *tcase = tcase_create("hist");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, an_empty_one_has_nothing);
    tcase_add_test(tcase, one_value_is_all_percentiles);
    tcase_add_test(tcase, values_of_all_sizes);
    tcase_add_test(tcase, percentiles_are_ranks);
    tcase_add_test(tcase, added_up_they_are_as_one);
    tcase_add_test(tcase, values_out_of_range_count);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
