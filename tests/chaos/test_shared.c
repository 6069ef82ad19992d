/* The witness, the counter and the guarded resource; also by many threads at once. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "shared.h"

enum {
    THREADS = 4,
    ROUNDS = 20000
};

static struct shared *shared;
static int fd;

static void open_shared(void)
{
    fd = shared_create();
    ck_assert_int_ge(fd, 0);
    shared = shared_map(fd);
    ck_assert_ptr_nonnull(shared);
}

static void close_shared(void)
{
    shared_unmap(shared);
    (void)close(fd);
}

START_TEST(a_name_has_one_slot)
{
    struct shared *again = shared_map(fd);
    char name[32];

    ck_assert_int_eq(shared_slot(shared, "a"), 0);
    ck_assert_int_eq(shared_slot(shared, "b"), 1);
    ck_assert_int_eq(shared_slot(again, "a"), 0);
    ck_assert_int_eq(shared_slot(again, ""), 2);
    for (int i = 3; i < SHARED_NAMES; i++) {
        (void)snprintf(name, sizeof name, "name %d", i);
        ck_assert_int_eq(shared_slot(shared, name), i);
    }
    ck_assert_int_eq(shared_slot(shared, "one too many"), -1);
    ck_assert_int_eq(shared_slot(shared, "b"), 1);
    shared_unmap(again);
}
END_TEST

START_TEST(two_inside_are_seen)
{
    struct entry entry = shared_enter(shared, 0, 7);

    ck_assert(entry.ok);
    entry = shared_enter(shared, 0, 8);
    ck_assert(!entry.ok);
    ck_assert_uint_eq(entry.other, 7);
    ck_assert(!shared_leave(shared, 0, 8));
    ck_assert(shared_leave(shared, 0, 7));
    ck_assert(!shared_leave(shared, 0, 7));
    ck_assert(shared_enter(shared, 0, 8).ok);
}
END_TEST

START_TEST(the_dead_leave)
{
    (void)shared_enter(shared, 0, 7);
    (void)shared_enter(shared, 5, 7);
    (void)shared_enter(shared, 6, 8);
    ck_assert_uint_eq(shared_clear(shared, 7), 2);
    ck_assert_uint_eq(shared_clear(shared, 7), 0);
    ck_assert(shared_enter(shared, 0, 9).ok);
    ck_assert(!shared_enter(shared, 6, 9).ok);
}
END_TEST

START_TEST(lost_updates_are_seen)
{
    uint64_t first = shared_count_begin(shared, 0), second = shared_count_begin(shared, 0);

    ck_assert(shared_count_end(shared, 0, first));
    ck_assert(!shared_count_end(shared, 0, second));
    ck_assert(shared_count_end(shared, 0, shared_count_begin(shared, 0)));
    ck_assert_uint_eq(shared_count_begin(shared, 0), 2);
}
END_TEST

static void expect(struct written written, uint64_t sequence, bool accepted, bool stale)
{
    ck_assert_uint_eq(written.sequence, sequence);
    ck_assert_int_eq(written.accepted, accepted);
    ck_assert_int_eq(written.stale, stale);
}

START_TEST(the_plain_cell_takes_all)
{
    expect(shared_write(shared, 0, false, 5, 1), 1, true, false);
    expect(shared_write(shared, 0, false, 7, 2), 2, true, false);
    expect(shared_write(shared, 0, false, 5, 1), 3, true, true);
    expect(shared_write(shared, 0, false, 7, 2), 4, true, false);
    expect(shared_write(shared, 1, false, 1, 1), 1, true, false);
}
END_TEST

START_TEST(without_tokens_sessions_order)
{
    uint64_t first = shared_session(shared), second = shared_session(shared);

    ck_assert_uint_lt(first, second);
    expect(shared_write(shared, 0, false, 0, second), 1, true, false);
    expect(shared_write(shared, 0, false, 0, first), 2, true, true);
}
END_TEST

START_TEST(the_fenced_cell_refuses)
{
    expect(shared_write(shared, 0, true, 5, 9), 1, true, false);
    expect(shared_write(shared, 0, true, 5, 1), 2, true, false);
    expect(shared_write(shared, 0, true, 4, 10), 3, false, true);
    expect(shared_write(shared, 0, true, 6, 1), 4, true, false);
    expect(shared_write(shared, 0, true, 0, 99), 5, false, true);
    expect(shared_write(shared, 0, true, INT64_C(1) << 41, 1), 6, true, false);
    expect(shared_write(shared, 0, true, 7, 1), 7, false, true);
}
END_TEST

/* ---- many at once --------------------------------------------------------- */

struct party {
    pthread_t thread;
    uint32_t number;
    long inside, lost, refused, out_of_order;
};

static void *contend(void *context)
{
    struct party *party = context;
    uint64_t last = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct written written;

        if (shared_enter(shared, 0, party->number).ok) {
            party->inside++;
            party->lost += !shared_count_end(shared, 0, shared_count_begin(shared, 0));
            party->lost += !shared_leave(shared, 0, party->number);
        }
        written = shared_write(shared, 0, true, i + 1, 0);
        party->refused += !written.accepted;
        party->out_of_order += written.sequence <= last;
        last = written.sequence;
    }
    return NULL;
}

START_TEST(many_at_once)
{
    struct party parties[THREADS] = {0};
    long inside = 0;

    for (uint32_t i = 0; i < THREADS; i++) {
        parties[i].number = i + 1;
        ck_assert_int_eq(pthread_create(&parties[i].thread, NULL, contend, &parties[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(parties[i].thread, NULL), 0);
        ck_assert_int_eq(parties[i].lost, 0);
        ck_assert_int_eq(parties[i].out_of_order, 0);
        inside += parties[i].inside;
    }
    ck_assert_int_gt(inside, 0);
    ck_assert_uint_eq(shared_count_begin(shared, 0), (uint64_t)inside);
    expect(shared_write(shared, 0, true, ROUNDS, 0), THREADS * ROUNDS + 1, true, false);
    expect(shared_write(shared, 0, true, ROUNDS - 1, 0), THREADS * ROUNDS + 2, false, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared");
    TCase *tcase = tcase_create("shared");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, open_shared, close_shared);
    tcase_add_test(tcase, a_name_has_one_slot);
    tcase_add_test(tcase, two_inside_are_seen);
    tcase_add_test(tcase, the_dead_leave);
    tcase_add_test(tcase, lost_updates_are_seen);
    tcase_add_test(tcase, the_plain_cell_takes_all);
    tcase_add_test(tcase, without_tokens_sessions_order);
    tcase_add_test(tcase, the_fenced_cell_refuses);
    tcase_add_test(tcase, many_at_once);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
