/*
 * The ring of requests without an answer: order, growth, and who is late. A seeded run compares
 * it with a plain list.
 */
#include "ring.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "validity.h"

static struct redlock__ring ring;

static void setup(void)
{
    redlock__ring_init(&ring);
}

static void teardown(void)
{
    redlock__ring_destroy(&ring);
}

static void push(uint32_t round, int64_t deadline_ns)
{
    ck_assert(redlock__ring_reserve(&ring));
    redlock__ring_push(&ring, deadline_ns)->tag = (struct redlock__tag){.round = round};
}

static struct redlock__pending pop(void)
{
    struct redlock__pending first = *redlock__ring_at(&ring, 0);
    redlock__ring_pop(&ring);
    return first;
}

static uint32_t overdue(int64_t now_ns)
{
    const struct redlock__pending *late = redlock__ring_overdue(&ring, now_ns);
    return late == NULL ? 0 : late->tag.round;
}

START_TEST(an_empty_ring_has_no_deadline)
{
    ck_assert_uint_eq(ring.count, 0);
    ck_assert_int_eq(ring.min_deadline_ns, REDLOCK__NEVER);
    ck_assert_uint_eq(overdue(INT64_MAX - 1), 0);
    redlock__ring_destroy(&ring); /* twice is no harm */
    ck_assert_ptr_null(ring.entries);
}
END_TEST

START_TEST(first_in_first_out_whatever_it_grew_to)
{
    uint32_t in = 0, out = 0;
    for (int turn = 0; turn < 200; turn++) { /* three in, two out: the head goes around */
        for (int k = 0; k < 3; k++)
            push(++in, REDLOCK__NEVER);
        for (int k = 0; k < 2; k++)
            ck_assert_uint_eq(pop().tag.round, ++out);
        ck_assert_uint_eq(ring.count, in - out);
        ck_assert_uint_eq(ring.size & (ring.size - 1), 0);
        for (uint32_t i = 0; i < ring.count; i++)
            ck_assert_uint_eq(redlock__ring_at(&ring, i)->tag.round, out + i + 1);
    }
    ck_assert_uint_ge(ring.size, 200);
}
END_TEST

START_TEST(room_that_is_there_is_not_made_again)
{
    push(1, 5);
    const struct redlock__pending *entries = ring.entries;
    for (uint32_t i = 0; i < 10000; i++) {
        push(i, 5);
        redlock__ring_pop(&ring);
    }
    ck_assert_ptr_eq(ring.entries, entries);
}
END_TEST

START_TEST(the_earliest_deadline_is_known)
{
    push(1, 50);
    push(2, 20);
    push(3, 70);
    ck_assert_int_eq(ring.min_deadline_ns, 20);
    redlock__ring_pop(&ring);
    redlock__ring_pop(&ring);
    ck_assert_int_le(ring.min_deadline_ns, 70); /* too early at worst */
    ck_assert_uint_eq(overdue(69), 0);
    ck_assert_int_eq(ring.min_deadline_ns, 70); /* a sweep that found nobody knows better */
    redlock__ring_pop(&ring);
    ck_assert_uint_eq(overdue(70), 0);
    ck_assert_int_eq(ring.min_deadline_ns, REDLOCK__NEVER);
}
END_TEST

START_TEST(the_late_are_told_once_and_stay_where_they_are)
{
    push(1, 50);
    push(2, 20);
    push(3, 20);
    ck_assert_uint_eq(overdue(19), 0);
    ck_assert_uint_eq(overdue(20), 2);
    ck_assert_uint_eq(overdue(20), 3);
    ck_assert_uint_eq(overdue(20), 0);
    ck_assert_int_eq(ring.min_deadline_ns, 50);
    ck_assert_uint_eq(overdue(50), 1);
    ck_assert_uint_eq(overdue(INT64_MAX - 1), 0);
    for (uint32_t round = 1; round <= 3; round++) {
        struct redlock__pending pending = pop();
        ck_assert_uint_eq(pending.tag.round, round);
        ck_assert(pending.timed_out);
    }
}
END_TEST

START_TEST(a_greeting_is_never_late)
{
    push(1, REDLOCK__NEVER);
    push(2, 20);
    ck_assert_uint_eq(overdue(20), 2);
    ck_assert_uint_eq(overdue(INT64_MAX - 1), 0);
}
END_TEST

/* Answers, requests and time go on between two calls of one sweep. */
START_TEST(a_sweep_survives_what_happens_meanwhile)
{
    for (uint32_t round = 1; round <= 4; round++)
        push(round, 20);
    ck_assert_uint_eq(overdue(20), 1);
    ck_assert_uint_eq(overdue(20), 2);
    redlock__ring_pop(&ring);
    ck_assert_uint_eq(overdue(20), 3);
    push(5, 15);
    push(6, 30);
    ck_assert_uint_eq(overdue(20), 4);
    ck_assert_uint_eq(overdue(20), 5);
    ck_assert_uint_eq(overdue(20), 0);
    ck_assert_int_eq(ring.min_deadline_ns, 30);
    ck_assert_uint_eq(overdue(30), 6);
}
END_TEST

START_TEST(nobody_is_due_after_disarm)
{
    push(1, 20);
    push(2, 20);
    ck_assert_uint_eq(overdue(20), 1);
    redlock__ring_disarm(&ring);
    ck_assert_uint_eq(overdue(INT64_MAX - 1), 0);
    ck_assert_uint_eq(ring.count, 2);
    push(3, 40); /* of the next connection */
    ck_assert_int_eq(ring.min_deadline_ns, 40);
}
END_TEST

/* ---- against a list ----------------------------------------------------- */

enum {
    MOST = 2000
};

static struct {
    int64_t deadline_ns;
    bool late;
} list[MOST];
static uint32_t first, behind; /* list[first .. behind) are pending */
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void assert_late(uint32_t index, int64_t now_ns)
{
    ck_assert(index >= first && index < behind);
    ck_assert(!list[index].late);
    ck_assert_int_le(list[index].deadline_ns, now_ns);
    list[index].late = true;
}

static void assert_nobody_late(int64_t now_ns)
{
    bool late = false;
    for (uint32_t i = first; i < behind; i++)
        late = late || (!list[i].late && list[i].deadline_ns <= now_ns);
    ck_assert(!late);
}

static uint32_t mixed; /* so many of a hundred come out of order */

static void step(int64_t now_ns)
{
    uint32_t kind = draw(10);
    if (kind < 4 && behind < MOST) {
        list[behind].deadline_ns = now_ns + (draw(100) < mixed ? draw(60) - 5 : 40);
        push(behind, list[behind].deadline_ns);
        behind++;
    } else if (kind < 7 && first < behind) {
        struct redlock__pending pending = pop();
        ck_assert_uint_eq(pending.tag.round, first);
        ck_assert_int_eq(pending.timed_out, list[first].late);
        first++;
    } else {
        const struct redlock__pending *late = redlock__ring_overdue(&ring, now_ns);
        if (late != NULL)
            assert_late(late->tag.round, now_ns);
        else
            assert_nobody_late(now_ns);
    }
    bool too_late = false;
    for (uint32_t i = first; i < behind; i++)
        too_late = too_late || (!list[i].late && ring.min_deadline_ns > list[i].deadline_ns);
    ck_assert(!too_late);
}

START_TEST(it_says_what_a_list_would_say)
{
    int64_t now_ns = 1000;
    memset(list, 0, sizeof(list)); /* without forks the one before left it */
    state = (uint64_t)_i;
    mixed = (uint32_t)_i % 3 * 50; /* of a hundred */
    first = behind = 0;
    for (int turn = 0; turn < MOST; turn++) {
        now_ns += draw(4) == 0 ? draw(20) : 0;
        step(now_ns);
    }
    ck_assert_uint_gt(first, 100); /* it did something */
}
END_TEST

static uint32_t overdue_until(int64_t now_ns)
{
    uint32_t count = 0;

    while (redlock__ring_overdue(&ring, now_ns) != NULL)
        count++;
    return count;
}

START_TEST(in_order_only_late_ones_are_looked_at)
{
    for (uint32_t i = 0; i < 1000; i++)
        push(i, 100 + i / 2);
    for (int64_t now_ns = 100; now_ns < 200; now_ns++) {
        for (int k = 0; k < 2; k++) {
            ck_assert_ptr_nonnull(redlock__ring_overdue(&ring, now_ns));
            ck_assert_uint_le(ring.sweep - ring.late, 1);
        }
        ck_assert_ptr_null(redlock__ring_overdue(&ring, now_ns));
        ck_assert_uint_le(ring.sweep - ring.late, 1);
        ck_assert_int_eq(ring.min_deadline_ns, now_ns + 1);
    }
    push(1000, 201); /* before those in front of it */
    ck_assert_uint_eq(overdue_until(201), 4 + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ring");
    TCase *t = tcase_create("ring");
    tcase_set_timeout(t, 20);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, an_empty_ring_has_no_deadline);
    tcase_add_test(t, in_order_only_late_ones_are_looked_at);
    tcase_add_test(t, first_in_first_out_whatever_it_grew_to);
    tcase_add_test(t, room_that_is_there_is_not_made_again);
    tcase_add_test(t, the_earliest_deadline_is_known);
    tcase_add_test(t, the_late_are_told_once_and_stay_where_they_are);
    tcase_add_test(t, a_greeting_is_never_late);
    tcase_add_test(t, a_sweep_survives_what_happens_meanwhile);
    tcase_add_test(t, nobody_is_due_after_disarm);
    tcase_add_loop_test(t, it_says_what_a_list_would_say, 1, 21);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
