/* The scripts that the bench measures are the library's. */
#include <check.h>
#include <stdlib.h>

#include "../../tools/bench/scripts.h"
#include "command.h"

START_TEST(they_are_the_librarys)
{
    ck_assert_str_eq(SCRIPTS_EXTEND, redlock__extend_script);
    ck_assert_str_eq(SCRIPTS_RELEASE, redlock__release_script);
}
END_TEST

static Suite *bench_scripts_suite(void)
{
    Suite *suite = suite_create("bench scripts");
    TCase *t = tcase_create("bench scripts");

    tcase_add_test(t, they_are_the_librarys);
    suite_add_tcase(suite, t);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(bench_scripts_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
