/* Numbers, strange text, markup: what the reports are put together from. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "html.h"
#include "words.h"

START_TEST(numbers_read_well)
{
    const double values[] = {0, 3, 0.25, 12345, -1228, 41.7, NAN, 0.99999, 1, 2300, 0.00001};

    ck_assert_str_eq(words_number(&values[0]).text, "0");
    ck_assert_str_eq(words_number(&values[2]).text, "0.250");
    ck_assert_str_eq(words_number(&values[3]).text, "12,345");
    ck_assert_str_eq(words_number(&values[4]).text, "-1,228");
    ck_assert_str_eq(words_number(&values[6]).text, "\u2013");
    ck_assert_str_eq(words_number(NULL).text, "\u2013");
    ck_assert_str_eq(words_percent(&values[7]).text, "99.9 %"); /* not all is never 100 % */
    ck_assert_str_eq(words_percent(&values[8]).text, "100 %");
    ck_assert_str_eq(words_percent(&values[10]).text, "0.1 %"); /* nor some 0 */
    ck_assert_str_eq(words_duration(&values[9]).text, "2.30 s");
    ck_assert_str_eq(words_value("c3.min_ms", &values[4]).text, "-1.23 s");
    ck_assert_str_eq(words_value("probe.availability", &values[8]).text, "100 %");
    ck_assert_str_eq(words_value("acquire.ok", &values[1]).text, "3");
    ck_assert_str_eq(words_op("ge"), "\u2265");
}
END_TEST

START_TEST(text_becomes_utf8)
{
    static const char *const texts[][2] = {
        {"plain \u2026 \U0001F600", "plain \u2026 \U0001F600"},
        {"\xff\xc0\xaf", "\uFFFD\uFFFD\uFFFD"}, /* never begins a character; overlong */
        {"cut \xe2\x80", "cut \uFFFD\uFFFD"},   /* ends early */
        {"\xed\xa0\x80", "\uFFFD"},             /* half of a pair */
        {"a\x1b[2Jb\x7f\xc2\x9b", "a\uFFFD[2Jb\uFFFD\uFFFD"}, /* steers a terminal */
        {"two\nlines\t", "two\nlines\uFFFD"},
        {"\u202Eback", "\uFFFD"
                       "back"}};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *clean = words_clean(texts[i][0]);
        ck_assert_str_eq(clean, texts[i][1]);
        free(clean);
    }
}
END_TEST

START_TEST(markup_is_escaped)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    html_put(stream, "<b a=\"%s\">%d %ld %zu %.2f %u%%</b>", "\"><i>&'", -3, -4L, (size_t)5, 1.5,
             7u);
    html_short(stream, "<<<<<", 3);
    html_path(stream, "java\"script:x y");
    (void)fclose(stream);
    ck_assert_str_eq(text, "<b a=\"&quot;&gt;&lt;i&gt;&amp;&#39;\">-3 -4 5 1.50 7%</b>"
                           "&lt;&lt;\u2026./java%22script%3Ax%20y");
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("words");
    TCase *words = tcase_create("words");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(words, numbers_read_well);
    tcase_add_test(words, text_becomes_utf8);
    tcase_add_test(words, markup_is_escaped);
    suite_add_tcase(suite, words);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
