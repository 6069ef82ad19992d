/*
 * That the servers tests break do break as promised: clocks that jump, stand or run at another
 * rate, durable data, replicas. Other tests rely on it.
 *
 * Where time has to pass, a reading of it lies between two of the real clock, one before the
 * question and one after the answer: the bounds hold however long the machine takes. An exact
 * boundary is looked at with the server's clock standing still.
 */
#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock_plan.h"
#include "servers.h"

enum {
    STOPPED_PPM = -1000000,
    FAST_PPM = 500000,
    SLOW_PPM = -500000,
    TICK_US = 2 /* what rounding to microseconds may add at both ends */
};

/* ---- helpers ------------------------------------------------------------ */

static void set_key(int i, const char *ttl_ms)
{
    ck_assert_str_eq(servers_command(i, "SET", "key", "value", "PX", ttl_ms, NULL), "OK");
}

static int has_key(int i)
{
    return strcmp(servers_command(i, "EXISTS", "key", NULL), "1") == 0;
}

static long pttl(int i)
{
    return strtol(servers_command(i, "PTTL", "key", NULL), NULL, 10);
}

static void await_ms(int64_t ms)
{
    int64_t until_ms = servers_now_ms() + ms;

    AWAIT(servers_now_ms() >= until_ms);
}

static int64_t real_us(void)
{
    return clock_real_ns(CLOCK_MONOTONIC) / 1000;
}

/* What TIME says, and the real time before and after. */
struct reading {
    int64_t before_us, shown_us, after_us;
};

static struct reading read_time(int i)
{
    struct reading reading = {.before_us = real_us()};
    const char *text = servers_command(i, "TIME", NULL);

    ck_assert_int_eq(sscanf(text, "%" SCNd64 "\n", &reading.shown_us), 1);
    reading.shown_us = reading.shown_us * 1000000 + strtoll(strchr(text, '\n'), NULL, 10);
    reading.after_us = real_us();
    return reading;
}

static int64_t shown_between(const struct reading *from, const struct reading *to)
{
    return to->shown_us - from->shown_us;
}

static int64_t shortest(const struct reading *from, const struct reading *to)
{
    return to->before_us - from->after_us;
}

static int64_t longest(const struct reading *from, const struct reading *to)
{
    return to->after_us - from->before_us;
}

static int64_t scaled(int64_t us, int64_t ppm)
{
    return us + us * ppm / 1000000;
}

/* ---- clocks --------------------------------------------------------------- */

static void start_one(void)
{
    servers_start_with_clocks(1);
}

START_TEST(test_clock_is_right_at_first)
{
    int64_t before_us = clock_real_ns(CLOCK_REALTIME) / 1000, after_us;
    struct reading now = read_time(0);

    after_us = clock_real_ns(CLOCK_REALTIME) / 1000;
    /* The plan's point is two readings of real clocks: a pause in between is its error. */
    ck_assert_int_gt(now.shown_us, before_us - 1000000);
    ck_assert_int_lt(now.shown_us, after_us + 1000000);
}
END_TEST

START_TEST(test_step_forward_expires_at_once)
{
    set_key(0, "10000");
    ck_assert(has_key(0));
    servers_clock_step(0, 30000);
    ck_assert(!has_key(0));
    ck_assert_int_eq(pttl(0), -2);
}
END_TEST

START_TEST(test_step_back_lengthens_a_life)
{
    int64_t before_ms = servers_now_ms(), passed_ms;
    long before, after;

    set_key(0, "60000");
    before = pttl(0);
    servers_clock_step(0, -20000);
    after = pttl(0);
    passed_ms = servers_now_ms() - before_ms + 1;
    ck_assert_int_le(after - before, 20000);
    ck_assert_int_ge(after - before, 20000 - passed_ms);
}
END_TEST

START_TEST(test_boundary_on_a_standing_clock)
{
    struct reading from, to;

    servers_clock_rate(0, STOPPED_PPM);
    set_key(0, "1000");
    from = read_time(0);
    ck_assert_int_eq(pttl(0), 1000);
    await_ms(50);
    to = read_time(0);
    ck_assert_int_eq(shown_between(&from, &to), 0);
    ck_assert_int_eq(pttl(0), 1000);
    servers_clock_step(0, 999);
    ck_assert_int_eq(pttl(0), 1);
    ck_assert(has_key(0));
    servers_clock_step(0, 1);
    ck_assert_int_eq(pttl(0), 0); /* the last millisecond: Redis wants it to be over */
    ck_assert(has_key(0));
    servers_clock_step(0, 1);
    ck_assert(!has_key(0));
}
END_TEST

START_TEST(test_fast_and_slow_clocks)
{
    int64_t ppm = _i == 0 ? FAST_PPM : SLOW_PPM;
    struct reading from, to;

    servers_clock_rate(0, ppm);
    from = read_time(0);
    await_ms(300);
    to = read_time(0);
    ck_assert_int_ge(shown_between(&from, &to), scaled(shortest(&from, &to), ppm) - TICK_US);
    ck_assert_int_le(shown_between(&from, &to), scaled(longest(&from, &to), ppm) + TICK_US);
}
END_TEST

/* A change of rate that changed the past would show as a jump of 50 to 100 ms. */
START_TEST(test_rate_changes_without_a_jump)
{
    static const int64_t rates_ppm[] = {FAST_PPM, SLOW_PPM, FAST_PPM, STOPPED_PPM, 0};

    for (size_t i = 0; i < sizeof rates_ppm / sizeof rates_ppm[0]; i++) {
        struct reading from, to;

        await_ms(100);
        from = read_time(0);
        servers_clock_rate(0, rates_ppm[i]);
        to = read_time(0);
        ck_assert_int_ge(shown_between(&from, &to), 0);
        ck_assert_int_le(shown_between(&from, &to),
                         scaled(longest(&from, &to), FAST_PPM) + TICK_US);
    }
}
END_TEST

START_TEST(test_clock_outlives_its_server)
{
    struct reading from = read_time(0), to;

    servers_clock_step(0, 3600 * 1000);
    servers_kill(0);
    servers_clock_step(0, 3600 * 1000);
    servers_revive(0);
    to = read_time(0);
    ck_assert_int_ge(shown_between(&from, &to),
                     INT64_C(7200000000) + shortest(&from, &to) - TICK_US);
    ck_assert_int_le(shown_between(&from, &to),
                     INT64_C(7200000000) + longest(&from, &to) + TICK_US);
}
END_TEST

/* Each has its own. */
START_TEST(test_clocks_are_apart)
{
    servers_start_with_clocks(2);
    set_key(0, "10000");
    set_key(1, "10000");
    servers_clock_rate(0, STOPPED_PPM);
    servers_clock_rate(1, STOPPED_PPM);
    servers_clock_step(1, 10001);
    ck_assert(has_key(0));
    ck_assert(!has_key(1));
}
END_TEST

/* ---- the library itself --------------------------------------------------- */

typedef int clock_function(clockid_t clock, struct timespec *now);

static int64_t shown_ns(clock_function *get, clockid_t clock)
{
    struct timespec now;

    ck_assert_int_eq(get(clock, &now), 0);
    ck_assert_int_ge(now.tv_nsec, 0);
    ck_assert_int_lt(now.tv_nsec, CLOCK_NS_PER_S);
    return now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec;
}

static void assert_offset(clock_function *get, clockid_t clock, int64_t offset_ns)
{
    int64_t before_ns = clock_real_ns(clock), ns = shown_ns(get, clock);

    ck_assert_int_ge(ns, before_ns + offset_ns);
    ck_assert_int_le(ns, clock_real_ns(clock) + offset_ns);
}

/* Asked directly, not by way of a server: the clocks a server does not care about. */
START_TEST(test_other_clocks_have_offsets)
{
    static const char path[] = "clock_faults.plan";
    struct clock_plan *plan;
    clock_function *get;
    void *library;

    (void)unlink(path);
    plan = clock_plan_create(path);
    ck_assert_ptr_nonnull(plan);
    ck_assert_ptr_null(clock_plan_create(path));
    ck_assert_int_eq(setenv(CLOCK_PLAN_VARIABLE, path, 1), 0);
    library = dlopen(SERVERS_CLOCK_PRELOAD, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    *(void **)&get = dlsym(library, "clock_gettime");
    ck_assert(get != NULL);

    assert_offset(get, CLOCK_MONOTONIC, 0);
    assert_offset(get, CLOCK_BOOTTIME, 0);
    clock_plan_offsets(plan, 5 * CLOCK_NS_PER_S, 3600 * CLOCK_NS_PER_S);
    assert_offset(get, CLOCK_MONOTONIC, 5 * CLOCK_NS_PER_S);
    assert_offset(get, CLOCK_BOOTTIME, 3600 * CLOCK_NS_PER_S);
    assert_offset(get, CLOCK_MONOTONIC_RAW, 0);

    clock_plan_freeze(plan);
    ck_assert_int_eq(shown_ns(get, CLOCK_REALTIME), clock_plan_now(plan));
    ck_assert_int_eq(shown_ns(get, CLOCK_REALTIME_COARSE), clock_plan_now(plan));
    clock_plan_step(plan, -clock_plan_now(plan) - 1);
    ck_assert_int_eq(shown_ns(get, CLOCK_REALTIME), -1); /* before 1970 */

    ck_assert_int_eq(unsetenv(CLOCK_PLAN_VARIABLE), 0);
    ck_assert_int_eq(dlclose(library), 0);
    clock_plan_close(plan);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

/* ---- what a server keeps --------------------------------------------------- */

START_TEST(test_durable_servers_keep_and_empty_ones_do_not)
{
    servers_start_durable(2);
    /* A killed process cannot show that this is so: the kernel keeps what it wrote. */
    ck_assert_str_eq(servers_command(0, "CONFIG", "GET", "appendfsync", NULL),
                     "appendfsync\nalways\n");
    set_key(0, "600000");
    set_key(1, "600000");
    servers_kill(0);
    servers_kill(1);
    servers_empty(1);
    servers_revive(0);
    servers_revive(1);
    ck_assert(has_key(0));
    ck_assert(!has_key(1));
    set_key(1, "600000"); /* emptied, it is durable as before */
    servers_kill(1);
    servers_revive(1);
    ck_assert(has_key(1));
}
END_TEST

START_TEST(test_plain_servers_keep_nothing)
{
    servers_start(1);
    set_key(0, "600000");
    servers_kill(0);
    servers_revive(0);
    ck_assert(!has_key(0));
}
END_TEST

static void (*const start_two[])(int) = {servers_start, servers_start_durable};

START_TEST(test_promoted_replicas_have_the_key)
{
    start_two[_i](2);
    set_key(0, "600000");
    ck_assert(!has_key(1));
    servers_replicate(1, 0);
    ck_assert(has_key(1));
    ck_assert_str_eq(servers_command(0, "SET", "later", "value", NULL), "OK");
    AWAIT(strcmp(servers_command(1, "EXISTS", "later", NULL), "1") == 0);
    ck_assert(strncmp(servers_command(1, "DEL", "key", NULL), "-READONLY", 9) == 0);
    servers_kill(0);
    servers_promote(1);
    ck_assert(has_key(1));
    ck_assert_str_eq(servers_command(1, "DEL", "key", NULL), "1");
}
END_TEST

/* ------------------------------------------------------------------------- */

static Suite *clock_faults_suite(void)
{
    Suite *suite = suite_create("clock_faults");
    TCase *clocks = tcase_create("clocks"), *library = tcase_create("library");
    TCase *kept = tcase_create("kept");

    tcase_add_checked_fixture(clocks, start_one, servers_stop);
    tcase_set_timeout(clocks, 60);
    tcase_add_test(clocks, test_clock_is_right_at_first);
    tcase_add_test(clocks, test_step_forward_expires_at_once);
    tcase_add_test(clocks, test_step_back_lengthens_a_life);
    tcase_add_test(clocks, test_boundary_on_a_standing_clock);
    tcase_add_loop_test(clocks, test_fast_and_slow_clocks, 0, 2);
    tcase_add_test(clocks, test_rate_changes_without_a_jump);
    tcase_add_test(clocks, test_clock_outlives_its_server);
    tcase_add_test(clocks, test_clocks_are_apart);
    suite_add_tcase(suite, clocks);
    tcase_add_test(library, test_other_clocks_have_offsets);
    suite_add_tcase(suite, library);
    tcase_add_checked_fixture(kept, NULL, servers_stop);
    tcase_set_timeout(kept, 60);
    tcase_add_test(kept, test_durable_servers_keep_and_empty_ones_do_not);
    tcase_add_test(kept, test_plain_servers_keep_nothing);
    tcase_add_loop_test(kept, test_promoted_replicas_have_the_key, 0, 2);
    suite_add_tcase(suite, kept);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(clock_faults_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
