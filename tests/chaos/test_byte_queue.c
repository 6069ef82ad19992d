/* byte_queue.c and delay.c: what the proxy's lanes are made of. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "byte_queue.h"
#include "delay.h"

#define MS INT64_C(1000000)
#define DRAWS 20000

static struct byte_queue queue;

static void put(const char *text, int64_t due)
{
    ck_assert(byte_queue_put(&queue, text, strlen(text), due));
}

/* All that may leave now. */
static const char *leaving(int64_t now)
{
    static char text[64];
    size_t used = 0, n;
    const char *data;

    while ((n = byte_queue_due(&queue, now, &data)) > 0) {
        memcpy(text + used, data, n);
        used += n;
        byte_queue_leave(&queue, n);
    }
    text[used] = '\0';
    return text;
}

static void start(void)
{
    queue = (struct byte_queue){0};
}

static void finish(void)
{
    (void)byte_queue_cut(&queue, queue.out);
    ck_assert_uint_eq(queue.memory, 0);
    ck_assert_ptr_null(queue.first);
    ck_assert_ptr_null(queue.last);
}

START_TEST(test_order)
{
    put("ab", 10);
    put("c", 30);
    put("d", 20); /* no sooner than those before it */
    put("", 99);
    ck_assert_int_eq(byte_queue_next(&queue), 10);
    ck_assert_str_eq(leaving(9), "");
    ck_assert_str_eq(leaving(29), "ab");
    ck_assert_int_eq(byte_queue_next(&queue), 30);
    ck_assert_str_eq(leaving(30), "cd");
    ck_assert_int_eq(byte_queue_next(&queue), INT64_MAX);
    ck_assert_uint_eq(queue.in, 4);
    ck_assert_uint_eq(queue.out, 4);
}
END_TEST

START_TEST(test_hurry)
{
    put("ab", 10);
    put("c", 30);
    byte_queue_hurry(&queue);
    ck_assert_str_eq(leaving(0), "abc");
    put("d", 5);
    ck_assert_str_eq(leaving(5), "d");
}
END_TEST

/* At each position, with each number of bytes gone before. */
START_TEST(test_cut)
{
    static const char all[] = "abcdef";
    const char *data;

    for (size_t gone = 0; gone <= 6; gone++) {
        for (size_t position = gone; position <= 6; position++) {
            char expected[8] = "";
            start();
            put("ab", 0);
            put("c", 0);
            put("def", 0);
            for (size_t i = 0; i < gone; i++) {
                ck_assert_uint_gt(byte_queue_due(&queue, 0, &data), 0);
                byte_queue_leave(&queue, 1);
            }
            ck_assert_uint_eq(byte_queue_cut(&queue, position), 6 - position);
            put("X", 0);
            memcpy(expected, all + gone, position - gone);
            expected[position - gone] = 'X';
            ck_assert_str_eq(leaving(0), expected);
            finish();
        }
    }
}
END_TEST

/* ---- delays ------------------------------------------------------------------ */

static const enum law laws[] = {LAW_CONSTANT, LAW_UNIFORM, LAW_NORMAL, LAW_EXPONENTIAL, LAW_PARETO};
/* The mean of each with base 100 ms and spread 10 ms. */
static const double means[] = {100, 100, 100, 110, 130};

START_TEST(test_laws)
{
    struct delay delay = {.law = laws[_i], .base_ns = 100 * MS, .spread_ns = 10 * MS};
    struct stream stream = stream_of(1, "x"), again = stream_of(1, "x"), other = stream_of(2, "x");
    double sum = 0;
    int differ = 0;

    for (int i = 0; i < DRAWS; i++) {
        int64_t drawn = delay_draw(&stream, delay);
        ck_assert_int_eq(drawn, delay_draw(&again, delay));
        differ += drawn != delay_draw(&other, delay);
        sum += (double)drawn;
        if (laws[_i] == LAW_UNIFORM)
            ck_assert(drawn >= 90 * MS && drawn <= 110 * MS);
        if (laws[_i] == LAW_EXPONENTIAL)
            ck_assert_int_ge(drawn, 100 * MS);
        if (laws[_i] == LAW_PARETO)
            ck_assert_int_ge(drawn, 110 * MS);
    }
    ck_assert_double_eq_tol(sum / DRAWS / (double)MS, means[_i], 3);
    ck_assert(laws[_i] == LAW_CONSTANT ? differ == 0 : differ > DRAWS / 2);
}
END_TEST

START_TEST(test_no_delay_draws_nothing)
{
    struct stream stream = stream_of(1, "x"), untouched = stream;

    ck_assert_int_eq(delay_draw(&stream, (struct delay){.law = LAW_NORMAL}), 0);
    ck_assert_uint_eq(stream.state, untouched.state);
}
END_TEST

START_TEST(test_cut_to_range)
{
    struct stream stream = stream_of(1, "x");

    for (int i = 0; i < 1000; i++) {
        int64_t drawn = delay_draw(&stream, (struct delay){LAW_NORMAL, 0, 100000 * MS});
        ck_assert(drawn >= 0 && drawn <= 60000 * MS);
    }
    ck_assert_int_eq(delay_draw(&stream, (struct delay){LAW_CONSTANT, -5, 0}), 0);
    ck_assert_int_eq(delay_draw(&stream, (struct delay){LAW_CONSTANT, 99000 * MS, 0}), 60000 * MS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("byte_queue");
    TCase *bytes = tcase_create("bytes"), *delays = tcase_create("delays");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, bytes);
    tcase_add_checked_fixture(bytes, start, finish);
    tcase_add_test(bytes, test_order);
    tcase_add_test(bytes, test_hurry);
    tcase_add_test(bytes, test_cut);
    suite_add_tcase(suite, delays);
    tcase_add_loop_test(delays, test_laws, 0, 5);
    tcase_add_test(delays, test_no_delay_draws_nothing);
    tcase_add_test(delays, test_cut_to_range);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
