/* Texts of the base, each that somebody else wrote, and what a set of grants makes of a token. */
#include "fence.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN "89457ccbecf70183a277a64fa256ad1ff9713a15"

START_TEST(a_base_comes_back_from_its_text)
{
    static const int64_t numbers[] = {0, 1, 1767225600000, REDLOCK__FENCE_MAX};
    struct redlock__base base = {.number = numbers[_i], .run_id = RUN}, read;
    char text[REDLOCK__BASE_LEN], expected[REDLOCK__BASE_LEN];

    redlock__base_format(&base, text);
    snprintf(expected, sizeof(expected), "run=" RUN " base=%" PRId64, numbers[_i]);
    ck_assert_str_eq(text, expected);
    ck_assert(redlock__base_parse(text, &read));
    ck_assert_int_eq(read.number, base.number);
    ck_assert_str_eq(read.run_id, RUN);
}
END_TEST

static const char *const bad[] = {
    "",
    " ",
    "run=",
    "run= base=1",
    "run=" RUN,
    "run=" RUN " base=",
    "run=" RUN " base=x",
    "run=" RUN " base=-1",
    "run=" RUN " base=+1",
    "run=" RUN " base=01",
    "run=" RUN " base= 1",
    "run=" RUN " base=1 ",
    "run=" RUN " base=1\n",
    "run=" RUN " base=1.5",
    "run=" RUN " base=1e3",
    "run=" RUN "  base=1",
    "run=" RUN "\tbase=1",
    " run=" RUN " base=1",
    "run=" RUN "a base=1",
    "run=" RUN " base=4503599627370497", /* 2^52 + 1 */
    "run=" RUN " base=9999999999999999",
    "run=" RUN " base=18446744073709551617",
    "RUN=" RUN " base=1",
    "run=" RUN " BASE=1",
    "base=1 run=" RUN,
    "run=8945_7cc base=1",
    "run=" RUN " base=1 floor=2",
    "12",
};

START_TEST(a_text_that_is_none_is_refused)
{
    struct redlock__base base = {.number = 77, .run_id = "untouched"};

    ck_assert(!redlock__base_parse(bad[_i], &base));
    ck_assert_int_eq(base.number, 77);
    ck_assert_str_eq(base.run_id, "untouched");
}
END_TEST

/* All sets of up to five grants with numbers 1 .. 4; of the others any number is ignored. */
START_TEST(the_token_is_the_largest_and_who_has_it_is_settled)
{
    int64_t numbers[5];
    uint32_t settled;

    for (int code = 0; code < 4 * 4 * 4 * 4 * 4; code++) {
        for (int i = 0, rest = code; i < 5; i++, rest /= 4)
            numbers[i] = rest % 4 + 1;
        for (uint32_t granted = 0; granted < 32; granted++) {
            int64_t token = redlock__fence_choose(numbers, granted, &settled), largest = 0;

            for (int i = 0; i < 5; i++)
                if ((granted >> i & 1) != 0 && numbers[i] > largest)
                    largest = numbers[i];
            ck_assert_int_eq(token, largest);
            for (int i = 0; i < 5; i++)
                ck_assert_int_eq(settled >> i & 1, (granted >> i & 1) && numbers[i] == largest);
        }
    }
}
END_TEST

START_TEST(all_that_there_may_be_are_looked_at)
{
    int64_t numbers[REDLOCK_MAX_NODES] = {0};
    uint32_t settled;

    numbers[REDLOCK_MAX_NODES - 1] = REDLOCK__FENCE_MAX;
    ck_assert_int_eq(redlock__fence_choose(numbers, UINT32_C(0x7fffffff), &settled),
                     REDLOCK__FENCE_MAX);
    ck_assert_uint_eq(settled, UINT32_C(1) << (REDLOCK_MAX_NODES - 1));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fence");
    TCase *t = tcase_create("fence");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_loop_test(t, a_base_comes_back_from_its_text, 0, 4);
    tcase_add_loop_test(t, a_text_that_is_none_is_refused, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_test(t, the_token_is_the_largest_and_who_has_it_is_settled);
    tcase_add_test(t, all_that_there_may_be_are_looked_at);
    suite_add_tcase(suite, t);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
