/*
 * The queue in front of the bench's floor: who came first is served first, one at a time. The
 * source is included, since the tool is no library.
 */
#include <check.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "../../tools/bench/floor_queue.c"

enum {
    CROWD = 12,
    TURNS = 500
};

static struct floor_queue queue;
static atomic_uint served, inside, together;
static unsigned order[CROWD];

static void setup(void)
{
    floor_queue_init(&queue);
    atomic_store(&served, 0);
    atomic_store(&inside, 0);
    atomic_store(&together, 0);
}

static void teardown(void)
{
    floor_queue_destroy(&queue);
}

static void *come_once(void *argument)
{
    const unsigned *number = argument;

    floor_queue_enter(&queue);
    order[atomic_fetch_add(&served, 1)] = *number;
    floor_queue_leave(&queue);
    return NULL;
}

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
    ck_assert_int_eq(pthread_create(thread, NULL, function, argument), 0);
}

static void await_waiting(unsigned count)
{
    while (floor_queue_waiting(&queue) < count)
        (void)sched_yield();
}

START_TEST(an_empty_queue_is_entered_at_once)
{
    for (int i = 0; i < 3; i++) {
        floor_queue_enter(&queue);
        ck_assert_uint_eq(floor_queue_waiting(&queue), 0);
        floor_queue_leave(&queue);
    }
}
END_TEST

START_TEST(who_came_first_is_served_first)
{
    pthread_t threads[CROWD];
    unsigned numbers[CROWD];

    floor_queue_enter(&queue);
    for (unsigned i = 0; i < CROWD; i++) {
        numbers[i] = i;
        start(&threads[i], come_once, &numbers[i]);
        await_waiting(i + 1);
    }
    ck_assert_uint_eq(atomic_load(&served), 0);
    floor_queue_leave(&queue);
    for (unsigned i = 0; i < CROWD; i++)
        (void)pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < CROWD; i++)
        ck_assert_uint_eq(order[i], i);
    ck_assert_uint_eq(floor_queue_waiting(&queue), 0);
}
END_TEST

START_TEST(who_leaves_and_comes_again_is_last)
{
    pthread_t threads[2];
    unsigned numbers[2] = {7, 8};

    floor_queue_enter(&queue);
    start(&threads[0], come_once, &numbers[0]);
    await_waiting(1);
    start(&threads[1], come_once, &numbers[1]);
    await_waiting(2);
    floor_queue_leave(&queue);
    floor_queue_enter(&queue);
    ck_assert_uint_eq(atomic_load(&served), 2);
    floor_queue_leave(&queue);
    for (unsigned i = 0; i < 2; i++)
        (void)pthread_join(threads[i], NULL);
}
END_TEST

static void *come_often(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < TURNS; i++) {
        floor_queue_enter(&queue);
        if (atomic_fetch_add(&inside, 1) != 0)
            (void)atomic_fetch_add(&together, 1);
        (void)atomic_fetch_add(&served, 1);
        if (i % 16 == 0)
            (void)sched_yield();
        (void)atomic_fetch_sub(&inside, 1);
        floor_queue_leave(&queue);
    }
    return NULL;
}

START_TEST(one_at_a_time)
{
    pthread_t threads[CROWD];

    for (unsigned i = 0; i < CROWD; i++)
        start(&threads[i], come_often, NULL);
    for (unsigned i = 0; i < CROWD; i++)
        (void)pthread_join(threads[i], NULL);
    ck_assert_uint_eq(atomic_load(&together), 0);
    ck_assert_uint_eq(atomic_load(&served), CROWD * TURNS);
    ck_assert_ptr_null(queue.first);
    ck_assert(!queue.taken);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench floor queue");
    TCase *t = tcase_create("floor queue");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_empty_queue_is_entered_at_once);
    tcase_add_test(t, who_came_first_is_served_first);
    tcase_add_test(t, who_leaves_and_comes_again_is_last);
    tcase_add_test(t, one_at_a_time);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
