/*
 * The arithmetic of a lease, against exact rational arithmetic and at its ends.
 *
 * With ttl t ms and p ppm a holder may trust at most t * (1 - p / 10^6) - 2 ms. Compared
 * in units of a millionth of a millisecond all of it is whole numbers.
 */
#include <check.h>
#include <stdlib.h>

#include "redlock.h"
#include "validity.h"

static const uint32_t ppms[] = {0,     1,     7,     500,    999,    1000,   1001,  9999,
                                10000, 10001, 83333, 100000, 333333, 499999, 500000};
enum {
    PPMS = sizeof(ppms) / sizeof(ppms[0])
};

static const int64_t day_ms = INT64_C(86400000);

START_TEST(drift_is_the_least_whole_number_that_covers_the_rate_and_two_ms)
{
    int64_t ppm = ppms[_i];
    for (int64_t ttl = 0; ttl <= 5000; ttl++) {
        int64_t drift = redlock__drift_ms(ttl, (uint32_t)ppm) - 2;
        ck_assert_int_ge(drift * 1000000, ttl * ppm);
        ck_assert_int_lt((drift - 1) * 1000000, ttl * ppm);
    }
}
END_TEST

START_TEST(every_rounding_goes_against_the_holder)
{
    int64_t ppm = ppms[_i], start = 123456789;
    for (int64_t ttl = 1; ttl <= 5000; ttl++) {
        int64_t trusted = redlock__deadline(start, ttl, (uint32_t)ppm) - start;
        int64_t exact = ttl * (1000000 - ppm) - 2000000; /* in ns */
        ck_assert_int_ge(trusted, 0);
        ck_assert_int_le(trusted, exact > 0 ? exact : 0);
        ck_assert_int_gt(trusted, exact - REDLOCK__MS);
        ck_assert_int_eq(trusted % REDLOCK__MS, 0);
    }
}
END_TEST

START_TEST(more_drift_never_gives_a_later_deadline)
{
    for (int64_t ttl = 1; ttl <= 5000; ttl += 7)
        for (size_t i = 1; i < PPMS; i++)
            ck_assert_int_le(redlock__deadline(0, ttl, ppms[i]),
                             redlock__deadline(0, ttl, ppms[i - 1]));
}
END_TEST

START_TEST(a_ttl_within_its_own_drift_is_never_held)
{
    for (int64_t ttl = 0; ttl <= 3; ttl++) {
        int64_t deadline = redlock__deadline(77, ttl, 10000);
        ck_assert_int_eq(deadline, 77);
        ck_assert(!redlock__is_held(deadline, 77, 0));
    }
    ck_assert_int_eq(redlock__deadline(77, 4, 10000), 77 + REDLOCK__MS);
    ck_assert(redlock__is_held(redlock__deadline(77, 4, 10000), 77, 0));
    ck_assert(!redlock__is_held(redlock__deadline(77, 4, 10000), 78, 0));
}
END_TEST

START_TEST(a_ttl_of_days_does_not_wrap)
{
    for (int64_t days = 1; days <= 365; days++) {
        int64_t ttl = days * day_ms;
        ck_assert_int_eq(redlock__drift_ms(ttl, 10000), ttl / 100 + 2);
        ck_assert_int_eq(redlock__deadline(5, ttl, 10000), 5 + (ttl - ttl / 100 - 2) * REDLOCK__MS);
        ck_assert_int_eq(redlock__drift_ms(ttl, REDLOCK_MAX_DRIFT_PPM), ttl / 2 + 2);
    }
}
END_TEST

START_TEST(sums_saturate_instead_of_wrapping)
{
    ck_assert_int_eq(redlock__add(INT64_MAX, 1), INT64_MAX);
    ck_assert_int_eq(redlock__add(1, INT64_MAX), INT64_MAX);
    ck_assert_int_eq(redlock__add(INT64_MAX, INT64_MAX), INT64_MAX);
    ck_assert_int_eq(redlock__add(INT64_MIN, -1), INT64_MIN);
    ck_assert_int_eq(redlock__add(INT64_MIN, INT64_MIN), INT64_MIN);
    ck_assert_int_eq(redlock__add(INT64_MAX, INT64_MIN), -1);
    ck_assert_int_eq(redlock__ms_to_ns(INT64_MAX), INT64_MAX);
    ck_assert_int_eq(redlock__ms_to_ns(INT64_MAX / REDLOCK__MS),
                     INT64_MAX / REDLOCK__MS * REDLOCK__MS);
    ck_assert_int_eq(redlock__ms_to_ns(INT64_MAX / REDLOCK__MS + 1), INT64_MAX);
    ck_assert_int_eq(redlock__ms_to_ns(0), 0);
}
END_TEST

START_TEST(absurd_ttls_leave_the_holder_nothing_or_less_than_asked)
{
    ck_assert_int_eq(redlock__drift_ms(INT64_MAX, 10000), INT64_MAX);
    ck_assert_int_eq(redlock__deadline(9, INT64_MAX, 10000), 9);
    ck_assert_int_eq(redlock__drift_ms(INT64_MAX, 0), 2);
    ck_assert_int_eq(redlock__deadline(9, INT64_MAX, 0), INT64_MAX);
    ck_assert_int_eq(redlock__deadline(INT64_MAX - 5, 1000, 0), INT64_MAX);
    ck_assert_int_eq(redlock__drift_ms(0, 10000), 2);
    ck_assert_int_eq(redlock__deadline(9, 0, 0), 9);
}
END_TEST

START_TEST(remaining_is_rounded_down_and_never_negative)
{
    ck_assert_int_eq(redlock__remaining_ms(10 * REDLOCK__MS, 0), 10);
    ck_assert_int_eq(redlock__remaining_ms(10 * REDLOCK__MS - 1, 0), 9);
    ck_assert_int_eq(redlock__remaining_ms(10 * REDLOCK__MS, 10 * REDLOCK__MS - 1), 0);
    ck_assert_int_eq(redlock__remaining_ms(5, 5), 0);
    ck_assert_int_eq(redlock__remaining_ms(5, 6), 0);
    ck_assert_int_eq(redlock__remaining_ms(INT64_MIN, INT64_MAX), 0);
    ck_assert_int_eq(redlock__remaining_ms(INT64_MAX, -1), INT64_MAX / REDLOCK__MS);
}
END_TEST

START_TEST(zero_milliseconds_left_is_not_held)
{
    ck_assert(!redlock__is_held(REDLOCK__MS, 1, 0));
    ck_assert(redlock__is_held(REDLOCK__MS, 0, 0));
    ck_assert(!redlock__is_held(0, 0, 0));
    ck_assert(!redlock__is_held(11 * REDLOCK__MS - 1, 0, 10));
    ck_assert(redlock__is_held(11 * REDLOCK__MS, 0, 10));
    ck_assert(!redlock__is_held(INT64_MAX, 0, INT64_MAX));
}
END_TEST

START_TEST(held_until_is_the_first_instant_that_is_not_held)
{
    static const int64_t margins[] = {0, 1, 2, 10, 999, 1000};
    for (size_t i = 0; i < sizeof(margins) / sizeof(margins[0]); i++)
        for (int64_t odd = 0; odd < 3; odd++) {
            int64_t deadline = 2000 * REDLOCK__MS + odd * 333333;
            int64_t until = redlock__held_until(deadline, margins[i]);
            ck_assert(!redlock__is_held(deadline, until, margins[i]));
            ck_assert(redlock__is_held(deadline, until - 1, margins[i]));
        }
    ck_assert_int_lt(redlock__held_until(1000, INT64_MAX), 0);
}
END_TEST

START_TEST(a_majority_is_more_than_half)
{
    for (uint32_t n = 1; n <= REDLOCK_MAX_NODES; n++) {
        uint32_t q = redlock__majority(n);
        ck_assert_uint_gt(2 * q, n);
        ck_assert_uint_le(2 * (q - 1), n);
    }
    ck_assert_uint_eq(redlock__count(0), 0);
    ck_assert_uint_eq(redlock__count(UINT32_MAX), 32);
    ck_assert_uint_eq(redlock__count(UINT32_C(0x80000001)), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("validity");
    TCase *rounding = tcase_create("rounding"), *ends = tcase_create("ends");

    tcase_set_timeout(rounding, 20);
    tcase_add_loop_test(rounding, drift_is_the_least_whole_number_that_covers_the_rate_and_two_ms,
                        0, PPMS);
    tcase_add_loop_test(rounding, every_rounding_goes_against_the_holder, 0, PPMS);
    tcase_add_test(rounding, more_drift_never_gives_a_later_deadline);
    tcase_add_test(rounding, remaining_is_rounded_down_and_never_negative);
    tcase_add_test(rounding, zero_milliseconds_left_is_not_held);
    tcase_add_test(rounding, held_until_is_the_first_instant_that_is_not_held);
    suite_add_tcase(suite, rounding);

    tcase_set_timeout(ends, 20);
    tcase_add_test(ends, a_ttl_within_its_own_drift_is_never_held);
    tcase_add_test(ends, a_ttl_of_days_does_not_wrap);
    tcase_add_test(ends, sums_saturate_instead_of_wrapping);
    tcase_add_test(ends, absurd_ttls_leave_the_holder_nothing_or_less_than_asked);
    tcase_add_test(ends, a_majority_is_more_than_half);
    suite_add_tcase(suite, ends);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
