/*
 * Primaries whose clocks jump or run at another rate, on real servers with clocks of their own:
 * what holders notice, and what it does to their leases.
 *
 * Real time is read from CLOCK_BOOTTIME, which is also the library's; a reading lies between two of
 * it, and what is asserted holds at the worse end.
 */
#include <check.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    NODE_MS = 1000,     /* a loaded machine is no silent one */
    PATIENCE_MS = 30000 /* a rate needs a window of ten seconds */
};

static const int64_t ms = 1000000;

/* ---- helpers ------------------------------------------------------------ */

static redlock_client *guarded_client(void)
{
    redlock_options options = options_for(servers_uris(), N);

    options.restart_guard_ms = REDLOCK_GUARD_AUTO;
    options.node_timeout_ms = NODE_MS;
    return new_client(&options);
}

static void start_marked(void)
{
    redlock_init_options options;
    redlock_client *client;
    int64_t wait_ms;

    servers_start_with_clocks(N);
    client = guarded_client();
    redlock_init_options_init(&options);
    options.no_leases_out = 1;
    assert_rc(redlock_init(client, &options, results, N, &wait_ms), REDLOCK_OK);
    redlock_client_free(client);
}

static redlock_node_health health_of(const redlock_client *client, int i)
{
    redlock_node_health health[N];

    ck_assert_uint_eq(redlock_health(client, health, N), N);
    return health[i];
}

static int counting(const redlock_client *client)
{
    int count = 0;

    for (int i = 0; i < N; i++)
        count += health_of(client, i).counts;
    return count;
}

static int stepped(const redlock_client *client)
{
    int count = 0;

    for (int i = 0; i < N; i++)
        count += health_of(client, i).step_age_ms >= 0;
    return count;
}

static redlock_lock *acquire_key(redlock_client *client, const char *key,
                                 const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;

    assert_rc(redlock_acquire(client, key, strlen(key), options, &lock), REDLOCK_OK);
    return lock;
}

/* Counted on all five: renewal joins those that were late. */
static redlock_lock *hold_five(redlock_client *client, const char *key, int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *lock;

    AWAIT(is_settled(client, N));
    options.renew = 1;
    lock = acquire_key(client, key, &options);
    AWAIT(redlock_margin(lock) == 2);
    return lock;
}

/* Counted on all but two of them. */
static redlock_lock *hold_without(redlock_client *client, const char *key, int64_t ttl_ms, int one,
                                  int other)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *lock;

    AWAIT(is_settled(client, N));
    ck_assert_str_eq(servers_command(one, "SET", key, "foreign", NULL), "OK");
    ck_assert_str_eq(servers_command(other, "SET", key, "foreign", NULL), "OK");
    lock = acquire_key(client, key, &options);
    ck_assert_int_eq(redlock_margin(lock), 0);
    return lock;
}

static int64_t now_ns(void)
{
    struct timespec now;

    ck_assert_int_eq(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- steps -------------------------------------------------------------- */

START_TEST(test_step_forward_costs_a_vote)
{
    redlock_client *client = guarded_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *five = hold_five(client, "five", 20000), *lock;
    redlock_lock *brief = hold_without(client, "brief", 20000, 3, 4);
    redlock_lock *lasting = hold_without(client, "lasting", 50000, 3, 4);
    redlock_lock *aside = hold_without(client, "aside", 20000, 0, 4);
    int64_t five_ns = redlock_deadline_ns(five), lasting_ns = redlock_deadline_ns(lasting);
    int64_t aside_ns = redlock_deadline_ns(aside), shorter_ns;
    redlock_node_health health;

    servers_clock_step(0, 30000);
    AWAIT(!health_of(client, 0).counts);
    health = health_of(client, 0);
    ck_assert_msg(strstr(health.standing, "its clock was stepped by +") != NULL, "%s",
                  health.standing);
    ck_assert_int_gt(health.counts_in_ms, 50000); /* a guard */
    ck_assert_int_eq(counting(client), N - 1);
    ck_assert_int_eq(redlock_is_held(five), 1);
    ck_assert_int_ge(redlock_deadline_ns(five), five_ns);
    ck_assert_int_eq(redlock_deadline_ns(aside), aside_ns);
    ck_assert_int_eq(redlock_is_held(brief), 0);
    ck_assert_int_eq(redlock_next_event(brief), REDLOCK_EVENT_LOST);
    ck_assert_int_eq(redlock_is_held(lasting), 1);
    shorter_ns = lasting_ns - redlock_deadline_ns(lasting);
    ck_assert_int_ge(shorter_ns, 30000 * ms);
    ck_assert_int_le(shorter_ns, 30000 * ms + NODE_MS * ms);
    ck_assert_int_eq(redlock_margin(five), 1);
    lock = acquire_key(client, "new", &options);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_BARRED);
    ck_assert_str_eq(results[0].address, strstr(servers_uri(0), "//") + 2);
    ck_assert_ptr_nonnull(strstr(results[0].text, "its clock was stepped by +"));
    assert_rc(redlock_release(lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_release(brief), REDLOCK_EXPIRED);
    assert_rc(redlock_release(lasting), REDLOCK_OK);
    assert_rc(redlock_release(aside), REDLOCK_OK);
    assert_rc(redlock_release(five), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* The two samples a step lies between. */
static redlock_node_health await_step(const redlock_client *client, int i, redlock_node_health *was)
{
    redlock_node_health health;

    *was = health_of(client, i);
    AWAIT((health = health_of(client, i)).step_age_ms >= 0 || (*was = health, false));
    return health;
}

START_TEST(test_step_back_costs_nothing)
{
    redlock_client *client = guarded_client();
    redlock_lock *five = hold_five(client, "five", 20000);
    redlock_lock *three = hold_without(client, "three", 20000, 3, 4);
    int64_t deadline_ns = redlock_deadline_ns(three), error_us;
    redlock_node_health was, health;

    servers_clock_step(1, -30000);
    health = await_step(client, 1, &was);
    error_us = llabs(health.step_us + 30000000);
    ck_assert_int_le(error_us, was.offset_bound_us + health.offset_bound_us + 1);
    ck_assert_int_le(llabs(health.offset_us - was.offset_us + 30000000),
                     was.offset_bound_us + health.offset_bound_us + 1);
    ck_assert_int_eq(counting(client), N);
    ck_assert_int_eq(redlock_margin(five), 2);
    ck_assert_int_eq(redlock_deadline_ns(three), deadline_ns);
    ck_assert_int_eq(redlock_is_held(three), 1);
    assert_rc(redlock_release(three), REDLOCK_OK);
    assert_rc(redlock_release(five), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* What it looks like when our own clock stood still. They are stopped meanwhile, so that no sample
 * comes in between. */
START_TEST(test_all_stepped_alike)
{
    redlock_client *client = guarded_client();
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *five = hold_five(client, "five", 20000), *lock;
    redlock_lock *three = hold_without(client, "three", 20000, 3, 4);
    int64_t deadline_ns = redlock_deadline_ns(three), shorter_ns;

    for (int i = 0; i < N; i++)
        servers_freeze(i);
    for (int i = 0; i < N; i++)
        servers_clock_step(i, 3000);
    for (int i = 0; i < N; i++)
        servers_thaw(i);
    AWAIT(stepped(client) == N);
    AWAIT(counting(client) == N);
    shorter_ns = deadline_ns - redlock_deadline_ns(three);
    ck_assert_int_ge(shorter_ns, 3000 * ms);
    ck_assert_int_le(shorter_ns, 3000 * ms + 2 * NODE_MS * ms);
    ck_assert_int_eq(redlock_is_held(three), 1);
    ck_assert_int_eq(redlock_is_held(five), 1);
    lock = acquire_key(client, "new", &options);
    for (int i = 0; i < N; i++)
        ck_assert_int_ne(results[i].vote, REDLOCK_VOTE_BARRED);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    assert_rc(redlock_release(three), REDLOCK_OK);
    assert_rc(redlock_release(five), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* Four of five, or all five but each by another time: that is not our clock. */
START_TEST(test_most_stepped_or_unlike)
{
    redlock_client *client = guarded_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *five = hold_five(client, "five", 20000), *lock = NULL;
    int n = _i == 0 ? N - 1 : N;

    for (int i = 0; i < n; i++)
        servers_freeze(i);
    for (int i = 0; i < n; i++)
        servers_clock_step(i, _i == 0 ? 3000 : 3000 * (i + 1));
    for (int i = 0; i < n; i++)
        servers_thaw(i);
    AWAIT(stepped(client) == n);
    AWAIT(counting(client) == N - n);
    ck_assert_int_eq(redlock_is_held(five), 1); /* by what is left of their keys */
    assert_rc(redlock_acquire(client, "new", 3, &options, &lock), REDLOCK_NO_QUORUM);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_BARRED);
    (void)redlock_release(five);
    redlock_client_free(client);
}
END_TEST

/* ---- rates -------------------------------------------------------------- */

static const int64_t rates_ppm[N] = {5000, 20000, 50000, -20000, 0};

/* Each rate is known this well. */
static bool rates_within(const redlock_client *client, int bound_ppm)
{
    for (int i = 0; i < N; i++) {
        int32_t bound = health_of(client, i).rate_bound_ppm;

        if (bound < 0 || bound >= bound_ppm)
            return false;
    }
    return true;
}

static void await_rates(const redlock_client *client)
{
    int64_t give_up_ms = servers_now_ms() + PATIENCE_MS;

    while (!rates_within(client, 1000)) {
        ck_assert_int_lt(servers_now_ms(), give_up_ms);
        (void)poll(NULL, 0, 10);
    }
}

/* The life of a key of ttl_ms, by real time, on a server that runs so fast. */
static int64_t life_ns(int64_t ttl_ms, int64_t ppm)
{
    return ttl_ms * ms / (1000000 + ppm) * 1000000;
}

/* When the key on i was gone, by the first answer that said so. */
static int64_t await_gone(int i, const char *key)
{
    while (strcmp(servers_command(i, "EXISTS", key, NULL), "0") != 0)
        (void)poll(NULL, 0, 1);
    return now_ns();
}

/* When it will be, at the earliest: the best of many answers. Redis 8 may be 1 ms early. */
static int64_t earliest_end(int i, const char *key, int64_t ppm)
{
    int64_t best = 0;

    for (int k = 0; k < 50; k++) {
        int64_t asked_ns = now_ns(), end_ns;
        int64_t pttl_ms = strtoll(servers_command(i, "PTTL", key, NULL), NULL, 10);

        end_ns = asked_ns + life_ns(pttl_ms - 1, ppm);
        best = end_ns > best ? end_ns : best;
    }
    return best;
}

START_TEST(test_rates_are_measured_and_allowed_for)
{
    static const int64_t ttl_ms = 5000;
    redlock_client *client;
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *five, *lock;
    int64_t start_ns, acquired_ns, deadline_ns, fixed_ns, gone_ns, slack_ns;

    for (int i = 0; i < N; i++)
        servers_clock_rate(i, rates_ppm[i]);
    client = guarded_client();
    five = hold_five(client, "five", 20000);
    await_rates(client);
    for (int i = 0; i < N; i++) {
        redlock_node_health health = health_of(client, i);

        ck_assert_msg(llabs(health.rate_ppm - rates_ppm[i]) <= health.rate_bound_ppm,
                      "%d: %d +- %d ppm", i, health.rate_ppm, health.rate_bound_ppm);
        ck_assert_int_lt(health.rate_bound_ppm, 2000);
        ck_assert_int_eq(health.step_age_ms, -1);
    }
    ck_assert_int_eq(counting(client), N);
    ck_assert_int_eq(redlock_is_held(five), 1);

    ck_assert_str_eq(servers_command(0, "SET", "lock", "foreign", NULL), "OK");
    ck_assert_str_eq(servers_command(3, "SET", "lock", "foreign", NULL), "OK");
    start_ns = now_ns();
    lock = acquire_key(client, "lock", &options);
    acquired_ns = now_ns();
    deadline_ns = redlock_deadline_ns(lock);
    slack_ns = ttl_ms * 2 * 1000; /* twice the bound: the lower end is taken */
    ck_assert_int_ge(deadline_ns, start_ns + ttl_ms * ms * 95 / 100 - 3 * ms);
    ck_assert_int_le(deadline_ns, acquired_ns + ttl_ms * ms * 95 / 100 - 2 * ms + slack_ns);
    ck_assert_int_le(deadline_ns, earliest_end(2, "lock", rates_ppm[2]));
    ck_assert_int_le(deadline_ns, earliest_end(1, "lock", rates_ppm[1]));
    fixed_ns = start_ns + ttl_ms * ms * 99 / 100 - 2 * ms;
    gone_ns = await_gone(2, "lock");
    ck_assert_int_lt(gone_ns, fixed_ns); /* with 1 % alone it would still be held */
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    assert_rc(redlock_release(five), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static Suite *drift_suite(void)
{
    Suite *suite = suite_create("drift");
    TCase *steps = tcase_create("steps"), *rates = tcase_create("rates");

    tcase_add_checked_fixture(steps, start_marked, servers_stop);
    tcase_set_timeout(steps, 60);
    tcase_add_test(steps, test_step_forward_costs_a_vote);
    tcase_add_test(steps, test_step_back_costs_nothing);
    tcase_add_test(steps, test_all_stepped_alike);
    tcase_add_loop_test(steps, test_most_stepped_or_unlike, 0, 2);
    suite_add_tcase(suite, steps);
    tcase_add_checked_fixture(rates, start_marked, servers_stop);
    tcase_set_timeout(rates, 90);
    tcase_add_test(rates, test_rates_are_measured_and_allowed_for);
    suite_add_tcase(suite, rates);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(drift_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
