/* Texts of the base, each that somebody else wrote; the number a grant asks for; and what a set of
 * grants makes of a token. */
#include "fence.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

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

START_TEST(a_score_is_read_as_servers_write_it)
{
    static const struct {
        const char *text;
        int64_t number; /* -1: none */
    } cases[] = {{"0", 0},
                 {"1", 1},
                 {"41", 41},
                 {"1000000000000", 1000000000000},
                 {"1e+12", 1000000000000},
                 {"1.7e+12", 1700000000000},
                 {"1.767225600001e+12", 1767225600001},
                 {"4503599627370496", REDLOCK__FENCE_MAX},
                 {"4.503599627370496e+15", REDLOCK__FENCE_MAX},
                 {"0e+0", 0},
                 {"1.0", 1},
                 {"4503599627370497", -1},
                 {"4.503599627370497e+15", -1},
                 {"1e+16", -1},
                 {"9e+99", -1},
                 {"9e+999", -1},
                 {"99999999999999999999", -1},
                 {"1.5", -1},
                 {"1.55e+1", -1},
                 {"1e-2", -1},
                 {"1e12", -1},
                 {"1e+", -1},
                 {"1e+x", -1},
                 {"1.7.7", -1},
                 {"0x10", -1},
                 {"-1", -1},
                 {"+1", -1},
                 {" 1", -1},
                 {"1 ", -1},
                 {"", -1},
                 {".5", -1},
                 {"inf", -1},
                 {"nan", -1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t number = -1;
        ck_assert_msg(redlock__fence_parse(cases[i].text, &number) == (cases[i].number >= 0), "%s",
                      cases[i].text);
        ck_assert_msg(number == cases[i].number, "%s", cases[i].text);
    }
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

/* The number before the base's text, and its length. */
START_TEST(a_grant_asks_for_more_than_was_heard_of_and_the_base)
{
    static const struct {
        int64_t heard;
        const char *base, *wanted; /* NULL: nothing is sent */
    } cases[] = {
        {0, "run=a base=0", "\r\n$1\r\n1\r\n$12\r\n"},
        {0, "run=a base=1764490000000", "\r\n$13\r\n1764490000001\r\n$24\r\n"},
        {9, "run=a base=10", "\r\n$2\r\n11\r\n$13\r\n"},
        {10, "run=a base=9", "\r\n$2\r\n11\r\n$12\r\n"},
        {INT64_C(1) << 52, "run=a base=0", "\r\n$16\r\n4503599627370497\r\n$12\r\n"},
        {0, "run=a base=4503599627370496", "\r\n$16\r\n4503599627370497\r\n$27\r\n"},
        {0, "run=a base=4503599627370497", NULL},
        {0, "run=a base=99999999999999999999999", NULL},
        {0, "run=a base", NULL},
        {0, "", NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct redlock__bytes bytes;

        redlock__encode_grant(&bytes, "k", 1, "t", 5000, cases[i].heard, cases[i].base);
        ck_assert_int_eq(bytes.len != 0, cases[i].wanted != NULL);
        if (cases[i].wanted != NULL)
            ck_assert_ptr_nonnull(memmem(redlock__bytes_data(&bytes), bytes.len, cases[i].wanted,
                                         strlen(cases[i].wanted)));
        redlock__bytes_free(&bytes);
    }
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
    tcase_add_test(t, a_score_is_read_as_servers_write_it);
    tcase_add_test(t, the_token_is_the_largest_and_who_has_it_is_settled);
    tcase_add_test(t, all_that_there_may_be_are_looked_at);
    tcase_add_test(t, a_grant_asks_for_more_than_was_heard_of_and_the_base);
    suite_add_tcase(suite, t);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
