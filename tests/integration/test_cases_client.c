/*
 * What users of other lock clients reported, on real servers, as far as no other test has it: parts
 * that are away in several ways, a wall clock that is set, sleeps that must be cut short, threads
 * that must not pile up, and who holds a name.
 *
 * This program has a clock_gettime() of its own, in which the wall clock can be set; clocks that
 * can't be set are as they are.
 */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    HOUR_S = 3600,
    HOUR_MS = 3600000,
    NODE_MS = 2000, /* so that a loaded machine is no silent one */
    LOCKS = 200
};

static atomic_int wall_step_s;

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*_Atomic real)(clockid_t, struct timespec *);
    int rc;

    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "clock_gettime");
        int (*function)(clockid_t, struct timespec *);
        memcpy(&function, &found, sizeof function);
        real = function;
    }
    rc = real(id, now);
    if (rc == 0 && id == CLOCK_REALTIME)
        now->tv_sec += atomic_load(&wall_step_s);
    return rc;
}

/* ---- helpers ------------------------------------------------------------ */

static void start_five(void)
{
    atomic_store(&wall_step_s, 0);
    servers_start(N);
}

static redlock_stats stats_of(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    return stats;
}

static redlock_client *settled_client(void)
{
    redlock_client *client = client_of(servers_uris(), N, NODE_MS);

    AWAIT(is_settled(client, N));
    return client;
}

/* ---- two of five -------------------------------------------------------- */

static void assert_away(const redlock_node_result *nodes)
{
    for (int i = 3; i < N; i++) {
        ck_assert_int_eq(nodes[i].vote, REDLOCK_VOTE_DOWN);
        ck_assert_str_ne(nodes[i].text, "");
    }
    ck_assert_msg(strstr(nodes[4].text, "refused") != NULL, "%s", nodes[4].text);
    ck_assert_str_ne(nodes[3].text, nodes[4].text);
}

/* The name of one cannot be resolved, the port of another is closed: all works on the other three,
 * and of each it is said why it is away. */
START_TEST(test_a_wrong_name_and_a_closed_port_are_no_matter)
{
    const char *uris[N] = {servers_uri(0), servers_uri(1), servers_uri(2),
                           "redis://no.such.name.invalid", servers_refused()};
    redlock_client *client = client_of(uris, N, NODE_MS);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_node_health health[N];
    redlock_lock *lock;

    for (int i = 3; i < N; i++) /* the name server may take its time */
        AWAIT(redlock_health(client, health, N) == N && health[i].text[0] != '\0');
    AWAIT(is_settled(client, 3));
    lock = acquire(client, &options);
    assert_away(results);
    AWAIT(servers_with_key("job") == 3);
    assert_rc(redlock_extend(lock, 30000), REDLOCK_OK);
    assert_away(results);
    ck_assert_int_gt(redlock_remaining_ms(lock), 20000);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    assert_away(results);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* 0: all are dead, 1: all are frozen. A release says so, and the process goes on. With three away
 * there is a verdict, so two may be left without a word. */
START_TEST(test_a_release_that_reaches_nobody_returns)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *lock = acquire(client, &options);
    int away = 0;

    for (int i = 0; i < N; i++) {
        if (_i == 0)
            servers_kill(i);
        else
            servers_freeze(i);
    }
    assert_rc(redlock_release(lock), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++) {
        if (results[i].vote == REDLOCK_VOTE_NONE)
            continue;
        ck_assert(results[i].vote == REDLOCK_VOTE_DOWN || results[i].vote == REDLOCK_VOTE_SILENT);
        ck_assert_str_ne(results[i].text, "");
        away++;
    }
    ck_assert_int_ge(away, 3);
    redlock_client_free(client);
}
END_TEST

/* ---- the wall clock ----------------------------------------------------- */

static void set_wall_clock(int step_s)
{
    time_t before, after;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    before = now.tv_sec;
    atomic_store(&wall_step_s, step_s);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    after = now.tv_sec;
    ck_assert_int_ge(llabs((long long)(after - before)), HOUR_S - 60);
}

/* The clock of the client's machine is set by an hour while it holds, 0: forward, 1: back. What is
 * renewed stays, what isn't ends when it should, and nobody else comes in. */
START_TEST(test_setting_the_wall_clock_changes_nothing)
{
    redlock_client *client = settled_client(), *other = settled_client();
    redlock_lock_options renewing = lock_options(6000, 0), options = lock_options(3000, 0);
    redlock_lock *renewed, *lock = NULL;
    int64_t deadline_ns;
    uint64_t extended;

    renewing.renew = 1;
    renewed = acquire(client, &renewing);
    assert_rc(redlock_acquire(client, "short", 5, &options, &lock), REDLOCK_OK);
    deadline_ns = redlock_deadline_ns(lock);
    extended = stats_of(client).extended;
    set_wall_clock(_i == 0 ? HOUR_S : -HOUR_S);
    ck_assert_int_eq(redlock_deadline_ns(lock), deadline_ns);
    ck_assert_int_le(redlock_remaining_ms(lock), 3000);
    ck_assert_int_eq(redlock_is_held(renewed), 1);
    AWAIT(!redlock_is_held(lock)); /* also back by an hour */
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    assert_rc(try_lock(other, &options), REDLOCK_BUSY);
    AWAIT(stats_of(client).extended >= extended + 2);
    ck_assert_int_eq(redlock_is_held(renewed), 1);
    ck_assert_uint_eq(stats_of(client).lost, 1); /* the short one */
    assert_rc(redlock_release(renewed), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    assert_rc(try_lock(other, &options), REDLOCK_OK);
    redlock_client_free(other);
    redlock_client_free(client);
}
END_TEST

/* ---- sleeping ----------------------------------------------------------- */

struct waiter {
    redlock_client *client;
    redlock_lock_options options;
    int rc;
};

static void *run_waiter(void *argument)
{
    struct waiter *waiter = argument;

    waiter->rc = try_lock(waiter->client, &waiter->options);
    return NULL;
}

/* It would sleep for an hour before it tries again. */
START_TEST(test_cancel_wakes_a_sleeper)
{
    redlock_client *client = settled_client();
    struct waiter waiter = {client, lock_options(20000, REDLOCK_WAIT_FOREVER), 0};
    pthread_t id;

    waiter.options.retry_base_ms = HOUR_MS;
    waiter.options.retry_cap_ms = HOUR_MS;
    ck_assert_int_eq(redlock_cancel_new(&waiter.options.cancel), 0);
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "SET", "job", "other", NULL);
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(stats_of(client).busy == 1 && is_settled(client, N));
    redlock_cancel(waiter.options.cancel);
    ck_assert_int_eq(pthread_join(id, NULL), 0);
    ck_assert_int_eq(waiter.rc, REDLOCK_CANCELLED);
    ck_assert_uint_eq(stats_of(client).attempts, 1);
    redlock_client_free(client);
    redlock_cancel_free(waiter.options.cancel);
}
END_TEST

/* ---- threads ------------------------------------------------------------ */

static int threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;

    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL)
        count++;
    (void)closedir(folder);
    return count;
}

/* However many locks are renewed, and after all of them were released. */
START_TEST(test_renewing_takes_no_threads)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(6000, 0);
    static redlock_lock *locks[LOCKS];
    int before = threads();

    options.renew = 1;
    for (uint32_t i = 0; i < LOCKS; i++)
        assert_rc(redlock_acquire(client, &i, sizeof i, &options, &locks[i]), REDLOCK_OK);
    ck_assert_int_eq(threads(), before);
    AWAIT(stats_of(client).extended >= 2 * LOCKS);
    ck_assert_int_eq(threads(), before);
    for (int i = 0; i < LOCKS; i++)
        assert_rc(redlock_release(locks[i]), REDLOCK_OK);
    ck_assert_int_eq(threads(), before);
    ck_assert_uint_eq(stats_of(client).lost, 0);
    redlock_client_free(client);
}
END_TEST

/* ---- who holds it ------------------------------------------------------- */

static void set_owner(int i, const char *owner, const char *ttl_ms)
{
    ck_assert_str_eq(servers_command(i, "SET", "job", owner, "PX", ttl_ms, NULL), "OK");
}

static void assert_left(int64_t left_ms, int64_t ttl_ms)
{
    ck_assert_int_le(left_ms, ttl_ms);
    ck_assert_int_gt(left_ms, ttl_ms - 100000); /* what a loaded machine may take */
}

/* One has three of five: until the first of its three goes. Then two against two against one. */
START_TEST(test_the_holder_is_told_by_node_and_by_majority)
{
    static const char *const owners[N] = {"anna", "anna", "ben", "anna", "ben"};
    static const char *const ttls[N] = {"3000000", "1000000", "5000000", "2000000", "4000000"};
    redlock_client *client = settled_client();
    redlock_node_inspection nodes[N];
    redlock_inspection sum;

    for (int i = 0; i < N; i++)
        set_owner(i, owners[i], ttls[i]);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, nodes, N), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_ONE);
    ck_assert_uint_eq(sum.votes, 3);
    ck_assert_str_eq(sum.owner, "anna");
    assert_left(sum.remaining_ms, 1000000);
    for (int i = 0; i < N; i++) {
        ck_assert_str_eq(nodes[i].owner, owners[i]);
        assert_left(nodes[i].remaining_ms, strtol(ttls[i], NULL, 10));
    }
    (void)servers_command(3, "SET", "job", "carl", NULL);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, nodes, N), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_NONE);
    ck_assert_str_eq(nodes[3].owner, "carl");
    ck_assert_int_eq(nodes[3].remaining_ms, -1);
    redlock_client_free(client);
}
END_TEST

/* ---- eviction ----------------------------------------------------------- */

START_TEST(test_a_primary_that_may_evict_locks_is_refused)
{
    redlock_options options = options_for(servers_uris(), N);
    redlock_lock_options lock_options_now = lock_options(1000, 0);
    redlock_client *client;
    redlock_lock *lock;

    (void)servers_command(2, "CONFIG", "SET", "maxmemory", "100mb", NULL);
    (void)servers_command(2, "CONFIG", "SET", "maxmemory-policy", "volatile-lru", NULL);
    options.restart_guard_ms = REDLOCK_GUARD_AUTO;
    client = new_client(&options);
    assert_rc(redlock_acquire(client, "job", 3, &lock_options_now, &lock),
              REDLOCK_ERR_MISCONFIGURED);
    ck_assert_int_eq(results[2].vote, REDLOCK_VOTE_BARRED);
    ck_assert_str_eq(results[2].text,
                     "it may evict locks: set maxmemory-policy noeviction instead of volatile-lru");
    redlock_client_free(client);
    (void)servers_command(2, "CONFIG", "SET", "maxmemory", "0", NULL); /* then it evicts nothing */
    options.restart_guard_ms = 0;
    client = new_client(&options);
    lock = acquire(client, &lock_options_now);
    AWAIT(servers_with_key("job") == N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static Suite *cases_suite(void)
{
    Suite *suite = suite_create("cases");
    TCase *five = tcase_create("five");

    tcase_add_checked_fixture(five, start_five, servers_stop);
    tcase_set_timeout(five, 60);
    tcase_add_test(five, test_a_wrong_name_and_a_closed_port_are_no_matter);
    tcase_add_loop_test(five, test_a_release_that_reaches_nobody_returns, 0, 2);
    tcase_add_loop_test(five, test_setting_the_wall_clock_changes_nothing, 0, 2);
    tcase_add_test(five, test_cancel_wakes_a_sleeper);
    tcase_add_test(five, test_renewing_takes_no_threads);
    tcase_add_test(five, test_a_primary_that_may_evict_locks_is_refused);
    tcase_add_test(five, test_the_holder_is_told_by_node_and_by_majority);
    suite_add_tcase(suite, five);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(cases_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
