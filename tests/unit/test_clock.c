/*
 * A primary's clock against ours. Here the truth is known: a simulated clock with an offset, a
 * rate and steps answers at some moment between question and answer. What is said of it must
 * contain the truth, and must not be wider than delays and rounding make it.
 */
#include "clock.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "validity.h"

#define MS(n) ((n)*REDLOCK__MS)

static struct redlock__clock ours;

/* The primary's clock: at now_ns on ours it shows server_ns + (1 + ppm) (now - since). */
static struct {
    int64_t server_ns, since_ns;
    double ppm;
} theirs;

static int64_t now;

static void setup_with(double ppm)
{
    redlock__clock_reset(&ours);
    now = MS(5000000);
    theirs.server_ns = INT64_C(1795988578600219123);
    theirs.since_ns = now;
    theirs.ppm = ppm;
}

static void setup(void)
{
    setup_with(0);
}

/* Rebased at each reading: then doubles are exact enough. */
static int64_t shown_us(int64_t at_ns)
{
    int64_t gone = at_ns - theirs.since_ns;
    theirs.server_ns += gone + (int64_t)((double)gone * theirs.ppm / 1e6);
    theirs.since_ns = at_ns;
    return theirs.server_ns / 1000;
}

/* Asked now, read there out_ns later and here another back_ns later. */
static bool sample(int64_t out_ns, int64_t back_ns)
{
    struct redlock__sample taken = {.asked_ns = now, .server_us = shown_us(now + out_ns)};
    now += out_ns + back_ns;
    taken.read_ns = now;
    return redlock__clock_sample(&ours, &taken);
}

static int64_t true_offset_ns(void)
{
    return theirs.server_ns - theirs.since_ns;
}

static void assert_offset(int64_t width_ns)
{
    ck_assert_int_le(ours.last.least_ns, true_offset_ns());
    ck_assert_int_ge(ours.last.most_ns, true_offset_ns());
    ck_assert_int_eq(ours.last.most_ns - ours.last.least_ns, width_ns + 1000);
}

/* ---- offset and steps --------------------------------------------------- */

START_TEST(the_offset_is_as_wide_as_the_round_trip)
{
    ck_assert(!sample(MS(1), MS(2)));
    assert_offset(MS(3));
    ck_assert_uint_eq(ours.samples, 1);
    now += MS(1000);
    ck_assert(!sample(0, 0));
    assert_offset(0);
    ck_assert_uint_eq(ours.samples, 2);
    ck_assert_int_eq(ours.step_seen_ns, 0);
    ck_assert_uint_eq(redlock__clock_proven_ppm(&ours), 0);
}
END_TEST

static void assert_step(int64_t true_ns, int64_t width_ns)
{
    ck_assert_int_le(ours.step_least_ns, true_ns);
    ck_assert_int_ge(ours.step_most_ns, true_ns);
    ck_assert_int_eq(ours.step_most_ns - ours.step_least_ns, width_ns + 2000);
    ck_assert_int_eq(ours.step_seen_ns, now);
}

START_TEST(a_step_is_seen_with_its_size)
{
    static const int64_t steps_ms[] = {30000, -30000, 150, -150, 86400000, -86400000};
    sample(MS(1), MS(1));
    now += MS(1000);
    theirs.server_ns += MS(steps_ms[_i]);
    ck_assert(sample(MS(2), MS(3)));
    assert_step(MS(steps_ms[_i]), MS(7));
    int64_t seen = ours.step_seen_ns;
    now += MS(1000);
    ck_assert(!sample(MS(1), MS(1))); /* told once, and kept */
    ck_assert_int_eq(ours.step_seen_ns, seen);
}
END_TEST

START_TEST(a_step_in_what_a_rate_explains_is_no_step)
{
    sample(0, 0);
    now += MS(1000);
    theirs.server_ns += _i == 0 ? MS(100) : -MS(100);
    ck_assert(!sample(0, 0));
    now += MS(1000);
    theirs.server_ns += _i == 0 ? MS(100) + 2000 : -MS(100) - 2000;
    ck_assert(sample(0, 0));
}
END_TEST

/* The delay of one sample bounds what can be said. */
START_TEST(a_step_that_delay_explains_is_no_step)
{
    sample(MS(1), MS(1));
    now += MS(10);
    theirs.server_ns += MS(30);
    ck_assert(!sample(MS(0), MS(40)));
    now += MS(10);
    ck_assert(!sample(MS(0), MS(1)));
}
END_TEST

START_TEST(a_step_begins_the_rate_anew)
{
    setup_with(20000);
    for (int i = 0; i < 15; i++, now += MS(1000))
        ck_assert(!sample(MS(1), MS(1)));
    ck_assert(ours.rated);
    theirs.server_ns += MS(30000);
    ck_assert(sample(MS(1), MS(1)));
    ck_assert(!ours.rated);
    ck_assert_uint_eq(redlock__clock_proven_ppm(&ours), 0);
    for (int i = 0; i < 12; i++) {
        now += MS(1000);
        ck_assert(!sample(MS(1), MS(1)));
    }
    ck_assert(ours.rated);
    ck_assert_int_le(ours.slowest_ppm, 20000);
    ck_assert_int_ge(ours.fastest_ppm, 20000);
    ck_assert_int_gt(ours.slowest_ppm, 19000);
}
END_TEST

START_TEST(reset_forgets_all)
{
    static const struct redlock__clock none;
    for (int i = 0; i < 15; i++, now += MS(1000))
        sample(0, 0);
    theirs.server_ns += MS(30000);
    sample(0, 0);
    redlock__clock_reset(&ours);
    ck_assert_mem_eq(&ours, &none, sizeof(ours));
    theirs.server_ns -= MS(100000);
    ck_assert(!sample(0, 0)); /* the first of another clock */
}
END_TEST

/* ---- rates -------------------------------------------------------------- */

static const double rates[] = {0, 5000, -5000, 20000, -20000, 50000, -50000, 90000, -90000};

/* What the delays at both ends, 4 ms each, and microseconds can hide over ten seconds; and the
 * true rate over the time between the inner and the outer ends. */
static double widest_ppm(double ppm)
{
    double over_ns = (double)MS(REDLOCK__CLOCK_WINDOW_MS);
    double hidden = 2 * ((double)MS(4) + 1000) / over_ns * 1e6;
    return hidden + (ppm < 0 ? -ppm : ppm) * 2 * (double)MS(4) / over_ns * 1.01 + 4 + hidden / 100;
}

START_TEST(a_rate_is_no_step_and_is_proven_in_ten_seconds)
{
    setup_with(rates[_i]);
    for (int64_t gone = 0; gone <= MS(60000); gone += MS(500)) {
        ck_assert(!sample(MS(1), MS(3)));
        now += MS(496);
        ck_assert_int_eq(ours.rated, gone >= MS(REDLOCK__CLOCK_WINDOW_MS + 500));
        if (!ours.rated) {
            ck_assert_uint_eq(redlock__clock_proven_ppm(&ours), 0);
            continue;
        }
        ck_assert_double_le((double)ours.slowest_ppm, rates[_i]);
        ck_assert_double_ge((double)ours.fastest_ppm, rates[_i]);
        ck_assert_double_le((double)(ours.fastest_ppm - ours.slowest_ppm), widest_ppm(rates[_i]));
        ck_assert_uint_eq(redlock__clock_proven_ppm(&ours),
                          rates[_i] > 0 ? (uint32_t)ours.slowest_ppm : 0);
    }
}
END_TEST

START_TEST(a_longer_window_says_more)
{
    int32_t first = 0;
    setup_with(5000);
    for (int i = 0; i < 20; i++, now += MS(1000)) {
        sample(MS(5), MS(5));
        if (first == 0 && ours.rated)
            first = ours.fastest_ppm - ours.slowest_ppm;
    }
    ck_assert_int_gt(first, 0);
    ck_assert_int_lt(ours.fastest_ppm - ours.slowest_ppm, first * 6 / 10);
}
END_TEST

START_TEST(an_old_rate_is_forgotten_after_two_windows)
{
    setup_with(50000);
    for (int i = 0; i < 30; i++, now += MS(1000))
        sample(0, 0);
    ck_assert_uint_gt(redlock__clock_proven_ppm(&ours), 49000);
    theirs.ppm = 0;
    for (int i = 0; i < 23; i++, now += MS(1000))
        sample(0, 0);
    ck_assert_uint_eq(redlock__clock_proven_ppm(&ours), 0);
    ck_assert_int_le(ours.fastest_ppm, 1);
}
END_TEST

/* All the delay on one way, changing sides as badly as can be. */
START_TEST(asymmetric_delay_proves_nothing)
{
    static const int64_t delays_ms[] = {1, 20, 300, 900};
    int64_t delay = MS(delays_ms[_i]);
    for (int k = 0; k < 200; k++) {
        bool late_there = k % 2 == 0 ? k % 3 != 0 : k >= 100;
        ck_assert(!sample(late_there ? delay : 0, late_there ? 0 : delay));
        ck_assert_uint_eq(redlock__clock_proven_ppm(&ours), 0);
        if (ours.rated) {
            ck_assert_int_le(ours.slowest_ppm, 0);
            ck_assert_int_ge(ours.fastest_ppm, 0);
        }
        now += MS(1000);
    }
    ck_assert(ours.rated);
}
END_TEST

START_TEST(extremes_of_time_do_no_harm)
{
    static const struct redlock__sample samples[] = {
        {.server_us = 0, .asked_ns = 0, .read_ns = INT64_C(1) << 60},
        {.server_us = INT64_C(8000000000999999),
         .asked_ns = INT64_C(1) << 60,
         .read_ns = (INT64_C(1) << 60) + 1},
        {.server_us = 0, .asked_ns = (INT64_C(1) << 60) + 1, .read_ns = (INT64_C(1) << 60) + 2},
        {.server_us = 1, .asked_ns = (INT64_C(1) << 60) + 2, .read_ns = (INT64_C(1) << 60) + 2},
    };
    ck_assert(!redlock__clock_sample(&ours, &samples[0]));
    ck_assert(redlock__clock_sample(&ours, &samples[1]));
    ck_assert_int_gt(ours.step_least_ns, 0);
    ck_assert(redlock__clock_sample(&ours, &samples[2]));
    ck_assert_int_lt(ours.step_most_ns, 0);
    ck_assert(!redlock__clock_sample(&ours, &samples[3]));
}
END_TEST

/* ---- by lot ------------------------------------------------------------- */

static uint64_t state;

static int64_t draw(int64_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((state >> 33) % (uint64_t)below);
}

static int64_t draw_delay_ns(void)
{
    return draw(8) == 0 ? draw(MS(800)) : draw(MS(2));
}

START_TEST(whatever_the_delays_the_truth_is_inside)
{
    int rated = 0;
    state = (uint64_t)_i;
    setup_with((double)(draw(180001) - 90000));
    for (int k = 0; k < 400; k++) {
        bool stepped = draw(40) == 0;
        int64_t step_ns = (draw(2) == 0 ? 1 : -1) * (MS(3000) + draw(MS(60000)));
        int64_t before = true_offset_ns();
        if (stepped)
            theirs.server_ns += step_ns;
        bool seen = sample(draw_delay_ns(), draw_delay_ns());
        assert_offset(ours.last.read_ns - ours.last.asked_ns);
        if (!stepped)
            ck_assert_msg(k == 0 || !seen, "seed %d: rate %g called a step", _i, theirs.ppm);
        if (seen) {
            ck_assert_int_le(ours.step_least_ns, true_offset_ns() - before);
            ck_assert_int_ge(ours.step_most_ns, true_offset_ns() - before);
            ck_assert((step_ns > 0) == (ours.step_least_ns > 0));
        }
        if (ours.rated && !stepped) {
            rated++;
            ck_assert_msg((double)ours.slowest_ppm <= theirs.ppm + 1 &&
                              (double)ours.fastest_ppm >= theirs.ppm - 1,
                          "seed %d: %d .. %d, but %g", _i, ours.slowest_ppm, ours.fastest_ppm,
                          theirs.ppm);
        }
        if (stepped && !seen) /* hidden by a long gap: not a clock with one rate any more */
            redlock__clock_reset(&ours);
        now += draw(5) == 0 ? draw(MS(20000)) : draw(MS(1500));
    }
    ck_assert_int_gt(rated, 20);
}
END_TEST

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *t = tcase_create("clock");
    tcase_set_timeout(t, 20);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, the_offset_is_as_wide_as_the_round_trip);
    tcase_add_loop_test(t, a_step_is_seen_with_its_size, 0, 6);
    tcase_add_loop_test(t, a_step_in_what_a_rate_explains_is_no_step, 0, 2);
    tcase_add_test(t, a_step_that_delay_explains_is_no_step);
    tcase_add_test(t, a_step_begins_the_rate_anew);
    tcase_add_test(t, reset_forgets_all);
    tcase_add_loop_test(t, a_rate_is_no_step_and_is_proven_in_ten_seconds, 0, LENGTH(rates));
    tcase_add_test(t, a_longer_window_says_more);
    tcase_add_test(t, an_old_rate_is_forgotten_after_two_windows);
    tcase_add_loop_test(t, asymmetric_delay_proves_nothing, 0, 4);
    tcase_add_test(t, extremes_of_time_do_no_harm);
    tcase_add_loop_test(t, whatever_the_delays_the_truth_is_inside, 1, 101);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
