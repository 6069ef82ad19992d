/*
 * The heap of deadlines, against a plain array; and the table of names, which grows.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "timers.h"
#include "validity.h"

enum {
    TIMERS = 500,
    TURNS = 20000,
    NAMES = 20000
};

static struct redlock__timer timers[TIMERS];
static int64_t due_ns[TIMERS]; /* NEVER: not set, or set to that */
static bool is_set[TIMERS];
static uint64_t state;

static uint32_t below(uint32_t limit)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % limit;
}

static int64_t earliest(void)
{
    int64_t least = REDLOCK__NEVER;

    for (uint32_t i = 0; i < TIMERS; i++)
        least = redlock__min(least, due_ns[i]);
    return least;
}

static void take_all(struct redlock__timers *heap, int64_t now_ns)
{
    struct redlock__timer *timer;
    int64_t last_ns = INT64_MIN;

    while ((timer = redlock__timers_take(heap, now_ns)) != NULL) {
        size_t i = (size_t)(timer - timers);

        ck_assert(is_set[i]);
        ck_assert_int_ge(due_ns[i], last_ns);
        ck_assert_int_le(due_ns[i], now_ns);
        ck_assert_uint_eq(timer->place, 0);
        last_ns = due_ns[i];
        due_ns[i] = REDLOCK__NEVER;
        is_set[i] = false;
    }
    ck_assert(earliest() > now_ns || now_ns == REDLOCK__NEVER);
}

/* Each once. */
static void go_through(const struct redlock__timers *heap)
{
    const struct redlock__timer *timer;
    bool met[TIMERS] = {false};

    for (uint32_t k = 0; (timer = redlock__timers_at(heap, k)) != NULL; k++) {
        ck_assert(!met[timer - timers]);
        met[timer - timers] = true;
    }
    ck_assert_mem_eq(met, is_set, sizeof met);
}

static void hasten(struct redlock__timers *heap, int64_t by_ns)
{
    redlock__timers_hasten(heap, by_ns);
    for (uint32_t i = 0; i < TIMERS; i++)
        if (is_set[i])
            due_ns[i] = redlock__min(due_ns[i], by_ns);
}

START_TEST(timers_come_in_the_order_of_their_deadlines_whatever_moves_them)
{
    struct redlock__timers heap = {0};

    state = 1 + (uint64_t)_i;
    memset(timers, 0, sizeof timers);
    memset(is_set, 0, sizeof is_set);
    for (uint32_t i = 0; i < TIMERS; i++)
        due_ns[i] = REDLOCK__NEVER;
    ck_assert_int_eq(redlock__timers_next(&heap), REDLOCK__NEVER);
    ck_assert_ptr_null(redlock__timers_take(&heap, INT64_MAX));
    ck_assert(redlock__timers_reserve(&heap, TIMERS));
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint32_t i = below(TIMERS);

        if (below(8) == 0) {
            redlock__timers_stop(&heap, &timers[i]);
            due_ns[i] = REDLOCK__NEVER;
            is_set[i] = false;
        } else {
            due_ns[i] = below(16) == 0 ? REDLOCK__NEVER : (int64_t)turn + below(2000);
            redlock__timers_set(&heap, &timers[i], due_ns[i]);
            is_set[i] = true;
        }
        ck_assert_uint_eq(timers[i].place != 0, is_set[i]);
        ck_assert_int_eq(redlock__timers_next(&heap), earliest());
        if (below(4) == 0)
            take_all(&heap, (int64_t)turn);
        if (below(64) == 0)
            hasten(&heap, (int64_t)turn + below(1000));
        if (below(64) == 0)
            go_through(&heap);
    }
    take_all(&heap, REDLOCK__NEVER);
    ck_assert_uint_eq(heap.count, 0);
    redlock__timers_destroy(&heap);
}
END_TEST

START_TEST(room_is_made_for_more_and_what_is_set_stays)
{
    struct redlock__timers heap = {0};
    uint32_t size = 0, grown = 0;

    memset(timers, 0, sizeof timers);
    for (uint32_t i = 0; i < TIMERS; i++) {
        ck_assert(redlock__timers_reserve(&heap, i + 1));
        grown += heap.size != size;
        size = heap.size;
        redlock__timers_set(&heap, &timers[i], TIMERS - (int64_t)i);
    }
    ck_assert_uint_lt(grown, 10);
    ck_assert_ptr_eq(redlock__timers_take(&heap, TIMERS), &timers[TIMERS - 1]);
    ck_assert_int_eq(redlock__timers_next(&heap), 2);
    redlock__timers_destroy(&heap);
}
END_TEST

static size_t longest_chain(const struct redlock__names *names)
{
    size_t longest = 0;

    for (uint32_t i = 0; i < names->used; i++) {
        size_t len = 0;

        for (const struct redlock__name *at = names->buckets[i]; at != NULL; at = at->next)
            len++;
        longest = len > longest ? len : longest;
    }
    return longest;
}

START_TEST(the_table_of_names_grows_with_them)
{
    static struct redlock__name *all[NAMES];
    struct redlock__names names = {0};

    for (uint32_t i = 0; i < NAMES; i++) {
        all[i] = redlock__name_ref(&names, &i, sizeof i);
        ck_assert_ptr_nonnull(all[i]);
    }
    for (uint32_t i = 0; i < NAMES; i++)
        ck_assert_ptr_eq(redlock__name_ref(&names, &i, sizeof i), all[i]);
    ck_assert_uint_eq(names.count, NAMES);
    ck_assert_uint_ge(names.used, NAMES);
    ck_assert_uint_lt(longest_chain(&names), 16);
    for (uint32_t i = 0; i < 2 * NAMES; i++)
        redlock__name_unref(&names, all[i % NAMES]);
    ck_assert_uint_eq(names.count, 0);
    redlock__names_free(&names);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timers");
    TCase *tcase = tcase_create("timers");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, timers_come_in_the_order_of_their_deadlines_whatever_moves_them, 0,
                        5);
    tcase_add_test(tcase, room_is_made_for_more_and_what_is_set_stays);
    tcase_add_test(tcase, the_table_of_names_grows_with_them);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
