/*
 * When a command is asked to end and when it is killed: the machine alone, on a clock of its own.
 * The source is included, since the tool is no library.
 */
#include <check.h>
#include <stdlib.h>

#include "../../tools/cli/clock.h"
#include "../../tools/cli/watch.c"

enum {
    GRACE = 2000,
    MARGIN = 100,
    DEADLINE = 10000
};

static struct watch started(void)
{
    struct watch watch;

    watch_init(&watch, GRACE, MARGIN);
    watch_start(&watch, DEADLINE);
    return watch;
}

START_TEST(test_nothing_is_due_without_a_command)
{
    struct watch watch;

    watch_init(&watch, GRACE, MARGIN);
    watch_lost(&watch, 5);
    watch_orphaned(&watch, 5);
    ck_assert_int_eq(watch_next_ns(&watch), CLOCK_NEVER);
    ck_assert_int_eq(watch_due(&watch, INT64_MAX), WATCH_NOTHING);
}
END_TEST

START_TEST(test_term_then_kill_before_the_deadline)
{
    struct watch watch = started();

    ck_assert_int_eq(watch_next_ns(&watch), DEADLINE - GRACE);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE - 1), WATCH_NOTHING);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE), WATCH_TERMINATE);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE), WATCH_NOTHING);
    ck_assert_int_eq(watch_next_ns(&watch), DEADLINE - MARGIN);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - MARGIN - 1), WATCH_NOTHING);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - MARGIN), WATCH_KILL);
    ck_assert_int_eq(watch_due(&watch, DEADLINE), WATCH_NOTHING);
    ck_assert_int_eq(watch_next_ns(&watch), CLOCK_NEVER);
}
END_TEST

START_TEST(test_renewal_moves_both)
{
    struct watch watch = started();

    watch_renewed(&watch, DEADLINE + 500);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE + 499), WATCH_NOTHING);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE + 500), WATCH_TERMINATE);
    ck_assert_int_eq(watch_next_ns(&watch), DEADLINE - MARGIN + 500);
}
END_TEST

START_TEST(test_renewal_after_term_changes_nothing)
{
    struct watch watch = started();

    ck_assert_int_eq(watch_due(&watch, DEADLINE - GRACE), WATCH_TERMINATE);
    watch_renewed(&watch, 2 * DEADLINE);
    ck_assert_int_eq(watch.deadline_ns, DEADLINE);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - MARGIN), WATCH_KILL);
}
END_TEST

START_TEST(test_lost_early_is_term_now_and_kill_after_the_grace)
{
    struct watch watch = started();

    watch_lost(&watch, 1000);
    ck_assert_int_eq(watch_due(&watch, 1000), WATCH_TERMINATE);
    ck_assert_int_eq(watch_next_ns(&watch), 1000 + GRACE);
    ck_assert_int_eq(watch_due(&watch, 1000 + GRACE), WATCH_KILL);
}
END_TEST

START_TEST(test_lost_late_never_moves_the_kill_back)
{
    struct watch watch = started();

    watch_lost(&watch, DEADLINE - 500);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - 500), WATCH_TERMINATE);
    ck_assert_int_eq(watch_next_ns(&watch), DEADLINE - MARGIN);
}
END_TEST

START_TEST(test_orphaned_is_kill_now)
{
    struct watch watch = started();

    watch_orphaned(&watch, 1000);
    ck_assert_int_eq(watch_next_ns(&watch), 1000);
    ck_assert_int_eq(watch_due(&watch, 1000), WATCH_KILL);
}
END_TEST

START_TEST(test_slept_through_term_is_kill)
{
    struct watch watch = started();

    ck_assert_int_eq(watch_due(&watch, DEADLINE + 1), WATCH_KILL);
}
END_TEST

START_TEST(test_deadline_zero_is_long_past)
{
    struct watch watch;

    watch_init(&watch, INT64_MAX, INT64_MAX);
    watch_start(&watch, INT64_MIN);
    ck_assert_int_eq(watch_due(&watch, 0), WATCH_KILL);
    watch_init(&watch, GRACE, MARGIN);
    watch_start(&watch, 0);
    ck_assert_int_eq(watch_due(&watch, 1), WATCH_KILL);
}
END_TEST

START_TEST(test_grace_shorter_than_the_margin)
{
    struct watch watch;

    watch_init(&watch, 0, MARGIN);
    watch_start(&watch, DEADLINE);
    ck_assert_int_eq(watch_next_ns(&watch), DEADLINE - MARGIN);
    ck_assert_int_eq(watch_due(&watch, DEADLINE - MARGIN), WATCH_KILL);
}
END_TEST

START_TEST(test_margin_fits_into_small_ttls)
{
    ck_assert_int_eq(watch_margin_ms(60000), 100);
    ck_assert_int_eq(watch_margin_ms(1000), 100);
    ck_assert_int_eq(watch_margin_ms(100), 10);
    ck_assert_int_eq(watch_margin_ms(5), 0);
}
END_TEST

static Suite *watch_suite(void)
{
    Suite *suite = suite_create("cli watch");
    TCase *tests = tcase_create("watch");

    tcase_add_test(tests, test_nothing_is_due_without_a_command);
    tcase_add_test(tests, test_term_then_kill_before_the_deadline);
    tcase_add_test(tests, test_renewal_moves_both);
    tcase_add_test(tests, test_renewal_after_term_changes_nothing);
    tcase_add_test(tests, test_lost_early_is_term_now_and_kill_after_the_grace);
    tcase_add_test(tests, test_lost_late_never_moves_the_kill_back);
    tcase_add_test(tests, test_orphaned_is_kill_now);
    tcase_add_test(tests, test_slept_through_term_is_kill);
    tcase_add_test(tests, test_deadline_zero_is_long_past);
    tcase_add_test(tests, test_grace_shorter_than_the_margin);
    tcase_add_test(tests, test_margin_fits_into_small_ttls);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(watch_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
