/*
 * How a crowd's turns and waits are counted and added up, and how it ends, with locks that are
 * none. Sources are included, since the tool is no library.
 */
#include <check.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "../../tools/bench/crowd.c"
#include "../../tools/bench/hist.c"
#include "../../tools/bench/threads.c"

enum {
    WORKERS = 16,
    MANY = 40
};

static int interrupted;
static struct bench bench;
static char said[256];
static int64_t clock_ns; /* of workers that run in no time; 0: the machine's */

int64_t bench_now_ns(void)
{
    struct timespec now;

    if (clock_ns != 0)
        return clock_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

bool bench_fail(struct bench *failed, const char *format, ...)
{
    va_list list;

    ck_assert_ptr_eq(failed, &bench);
    va_start(list, format);
    (void)vsnprintf(said, sizeof said, format, list);
    va_end(list);
    return false;
}

void works_sleep(int64_t ns)
{
    if (clock_ns != 0)
        clock_ns += ns;
    else
        (void)sched_yield();
}

void works_sleep_until(int64_t ns)
{
    if (clock_ns != 0)
        clock_ns = ns;
}

static void setup(void)
{
    interrupted = 0;
    bench = (struct bench){.interrupted = &interrupted, .workers = WORKERS};
    clock_ns = 0;
    said[0] = '\0';
}

/* ---- one worker ------------------------------------------------------------------------- */

/* That is had after `wait_ns`, and fails with the turn after `good`. */
struct toll {
    int64_t wait_ns;
    unsigned good, entered, left;
    bool leave_fails;
};

static bool pay(void *context, void **grip)
{
    struct toll *toll = context;

    *grip = toll;
    clock_ns += toll->wait_ns;
    return toll->entered++ < toll->good;
}

static bool pass(void *context, void *grip)
{
    struct toll *toll = context;

    ck_assert_ptr_eq(grip, toll);
    toll->left++;
    return !toll->leave_fails;
}

static struct crowd_tally work(struct toll *toll, int64_t end_ns)
{
    struct crowd_lock lock = {.context = toll, .enter = pay, .leave = pass};
    struct crowd_span span = {.start_ns = 1000, .end_ns = end_ns};
    struct crowd_tally tally = {.turns = 0};
    atomic_bool stop = false;

    clock_ns = 1;
    crowd_work(&lock, &span, &stop, &tally);
    return tally;
}

START_TEST(turns_count_that_begin_in_time_and_all_waits)
{
    struct toll toll = {.wait_ns = CROWD_HOLD_NS, .good = 100};
    /* has it at 1, 3, 5 ms, and a fourth time at 7 ms, which is asked for in time */
    struct crowd_tally tally = work(&toll, 1000 + 6 * CROWD_HOLD_NS + 1);

    ck_assert_uint_eq(tally.turns, 3);
    ck_assert_uint_eq(tally.waits.count, 4);
    ck_assert_uint_eq(toll.left, 4);
    ck_assert_int_eq(tally.waits.most_ns, CROWD_HOLD_NS);
    ck_assert(!tally.failed);
}
END_TEST

START_TEST(a_failure_ends_a_worker)
{
    struct toll in = {.wait_ns = 1, .good = 2},
                out = {.wait_ns = 1, .good = 9, .leave_fails = true};
    struct crowd_tally tally = work(&in, INT64_MAX);

    ck_assert(tally.failed);
    ck_assert_uint_eq(in.left, 2);
    tally = work(&out, INT64_MAX);
    ck_assert(tally.failed);
    ck_assert_uint_eq(out.left, 1);
}
END_TEST

/* ---- adding up ---------------------------------------------------------------------------- */

static struct crowd_tally tallies[WORKERS];
static const struct crowd_span second = {.start_ns = 5, .end_ns = 5 + NS_PER_S};

static bool sum(struct crowd_result *result)
{
    return crowd_sum(tallies, WORKERS, &second, result);
}

static void give_turns(uint64_t turns)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        tallies[i] = (struct crowd_tally){.turns = turns};
        hist_add(&tallies[i].waits, (int64_t)(i + 1) * NS_PER_MS);
    }
}

START_TEST(turns_and_waits_are_added_up)
{
    struct crowd_result result;

    give_turns(10);
    tallies[3].turns = 12;
    tallies[4].turns = 8;
    ck_assert(sum(&result));
    ck_assert_double_eq_tol(result.turns, 160, 1e-9);
    ck_assert_double_eq_tol(result.per_second, 160, 1e-9);
    ck_assert_double_eq_tol(result.evenness, 1.5, 1e-9);
    ck_assert_double_eq_tol(result.longest_ms, WORKERS, 1e-9);
    ck_assert_double_eq_tol(result.p99_ms, WORKERS, WORKERS / 64.0);
}
END_TEST

START_TEST(only_who_is_in_the_crowd_counts)
{
    struct crowd_result result;

    give_turns(10);
    tallies[3].failed = true;
    ck_assert(crowd_sum(tallies, 3, &second, &result));
    ck_assert_double_eq_tol(result.turns, 30, 1e-9);
    ck_assert_double_eq_tol(result.longest_ms, 3, 1e-9);
}
END_TEST

START_TEST(one_without_a_turn_counts_as_half_of_one)
{
    struct crowd_result result;

    give_turns(10);
    tallies[0].turns = 0;
    ck_assert(sum(&result));
    ck_assert_double_eq_tol(result.evenness, 20, 1e-9);
}
END_TEST

START_TEST(a_failed_worker_or_none_with_a_turn_is_no_result)
{
    struct crowd_result result;

    give_turns(0);
    ck_assert(!sum(&result));
    give_turns(10);
    tallies[15].failed = true;
    ck_assert(!sum(&result));
}
END_TEST

/* ---- threads -------------------------------------------------------------------------------- */

struct gate {
    atomic_bool open; /* who enters waits for it */
    bool fails;       /* then */
    atomic_uint entered, left;
};

static bool enter_gate(void *context, void **grip)
{
    struct gate *gate = context;

    *grip = NULL;
    (void)atomic_fetch_add(&gate->entered, 1);
    while (!atomic_load(&gate->open))
        (void)sched_yield();
    return !gate->fails;
}

static bool leave_gate(void *context, void *grip)
{
    struct gate *gate = context;

    (void)grip;
    (void)atomic_fetch_add(&gate->left, 1);
    return true;
}

static void open_gate(void *context)
{
    struct gate *gate = context;

    atomic_store(&gate->open, true);
}

static struct crowd_lock lock_of(struct gate *gate)
{
    return (struct crowd_lock){
        .context = gate, .enter = enter_gate, .leave = leave_gate, .give_up = open_gate};
}

START_TEST(a_crowd_of_threads_has_turns)
{
    struct gate gate = {.open = true};
    struct crowd_lock lock = lock_of(&gate);
    struct crowd_result result;

    ck_assert_msg(crowd_of_threads(&bench, &lock, 0.05, &result), "%s", said);
    ck_assert_double_gt(result.turns, 0);
    ck_assert_uint_eq(atomic_load(&gate.left), atomic_load(&gate.entered));
}
END_TEST

START_TEST(an_interrupted_crowd_is_made_to_give_up)
{
    struct gate gate = {.fails = true};
    struct crowd_lock lock = lock_of(&gate);
    struct crowd_result result;

    interrupted = 2;
    ck_assert(!crowd_of_threads(&bench, &lock, 1000, &result));
    ck_assert_str_eq(said, "");
}
END_TEST

START_TEST(one_that_fails_ends_the_crowd)
{
    struct gate gate = {.open = true, .fails = true};
    struct crowd_lock lock = lock_of(&gate);
    struct crowd_result result;

    ck_assert(!crowd_of_threads(&bench, &lock, 1000, &result));
    ck_assert_uint_le(atomic_load(&gate.entered), WORKERS);
}
END_TEST

/* All wait until the last of them is there, and none asks again. */
static bool enter_last(void *context, void **grip)
{
    struct gate *gate = context;

    *grip = NULL;
    if (atomic_fetch_add(&gate->entered, 1) + 1 == bench.workers)
        atomic_store(&gate->open, true);
    while (!atomic_load(&gate->open))
        (void)sched_yield();
    return false;
}

START_TEST(a_crowd_is_as_large_as_it_is_asked_to_be)
{
    static const unsigned sizes[] = {2, MANY};
    struct gate gate = {.open = false};
    struct crowd_lock lock = lock_of(&gate);
    struct crowd_result result;

    lock.enter = enter_last;
    bench.workers = sizes[_i];
    ck_assert(!crowd_of_threads(&bench, &lock, 1000, &result));
    ck_assert_uint_eq(atomic_load(&gate.entered), sizes[_i]);
    ck_assert_str_eq(said, "");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench crowd");
    TCase *t = tcase_create("crowd");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, turns_count_that_begin_in_time_and_all_waits);
    tcase_add_test(t, a_failure_ends_a_worker);
    tcase_add_test(t, turns_and_waits_are_added_up);
    tcase_add_test(t, only_who_is_in_the_crowd_counts);
    tcase_add_test(t, one_without_a_turn_counts_as_half_of_one);
    tcase_add_test(t, a_failed_worker_or_none_with_a_turn_is_no_result);
    tcase_add_test(t, a_crowd_of_threads_has_turns);
    tcase_add_test(t, an_interrupted_crowd_is_made_to_give_up);
    tcase_add_test(t, one_that_fails_ends_the_crowd);
    tcase_add_loop_test(t, a_crowd_is_as_large_as_it_is_asked_to_be, 0, 2);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
