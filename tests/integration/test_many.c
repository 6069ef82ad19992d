/*
 * Many leases and many threads of one client, on real servers. It keeps two processors busy, so
 * nothing runs beside it.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MANY 1000
#else
#define MANY 10000
#endif

enum {
    AT_ONCE = 500, /* begun before they are waited for */
    THREADS = 1000,
    STACK = 256 * 1024
};

static redlock_stats counters(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    return stats;
}

static void start_five(void)
{
    servers_start(N);
}

/* Twice within what is awaited, renewed at a third of their ttl. */
START_TEST(test_many_leases_are_renewed)
{
    static redlock_lock *locks[MANY];
    redlock_lock_options options = lock_options(9000, 0);
    redlock_client *client = settled_five();
    uint32_t held = 0;

    options.renew = 1;
    options.results = NULL;
    options.result_count = 0;
    acquire_all(client, locks, MANY, AT_ONCE, &options);
    AWAIT(counters(client).extended >= 2 * (uint64_t)MANY);
    for (uint32_t i = 0; i < MANY; i++)
        held += redlock_is_held(locks[i]) != 0;
    ck_assert_uint_eq(held, MANY);
    ck_assert_uint_eq(counters(client).lost, 0);
    ck_assert_uint_eq(counters(client).disconnects, 0);
    release_all(locks, MANY, AT_ONCE);
    for (int i = 0; i < N; i++)
        AWAIT(strcmp(servers_command(i, "DBSIZE", NULL), "0") == 0);
    ck_assert_uint_eq(counters(client).leases, 0);
    redlock_client_free(client);
}
END_TEST

/* ---- threads -------------------------------------------------------------- */

struct thread {
    pthread_t id;
    uint32_t number;
    int rc; /* the first that was not OK */
};

static struct {
    redlock_client *client;
    pthread_barrier_t all_hold;
} threads;

/* Each has its own; nobody lets go before all have theirs. */
static void *hold_one(void *argument)
{
    struct thread *thread = argument;
    redlock_lock_options options = lock_options(20000, 20000);
    redlock_lock *lock = NULL;
    int released;

    options.results = NULL;
    options.result_count = 0;
    thread->rc =
        redlock_acquire(threads.client, &thread->number, sizeof thread->number, &options, &lock);
    (void)pthread_barrier_wait(&threads.all_hold);
    if (thread->rc != REDLOCK_OK)
        return NULL;
    if (!redlock_is_held(lock))
        thread->rc = REDLOCK_EXPIRED;
    released = redlock_release(lock);
    if (thread->rc == REDLOCK_OK)
        thread->rc = released;
    return NULL;
}

START_TEST(test_a_thousand_threads_share_a_client)
{
    static struct thread all[THREADS];
    redlock_options slow = options_for(servers_uris(), N);
    pthread_attr_t attributes;

    slow.node_timeout_ms = 5000;
    threads.client = new_client(&slow);
    AWAIT(is_settled(threads.client, N));
    ck_assert_int_eq(pthread_barrier_init(&threads.all_hold, NULL, THREADS), 0);
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, STACK), 0);
    for (uint32_t i = 0; i < THREADS; i++) {
        all[i].number = i;
        ck_assert_int_eq(pthread_create(&all[i].id, &attributes, hold_one, &all[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(all[i].id, NULL), 0);
        ck_assert_int_eq(all[i].rc, REDLOCK_OK);
    }
    ck_assert_uint_eq(counters(threads.client).acquired, THREADS);
    ck_assert_uint_eq(counters(threads.client).attempts, THREADS);
    ck_assert_uint_eq(counters(threads.client).disconnects, 0);
    for (int i = 0; i < N; i++)
        AWAIT(strcmp(servers_command(i, "DBSIZE", NULL), "0") == 0);
    ck_assert_uint_eq(counters(threads.client).connects, N); /* one each */
    ck_assert_uint_eq(counters(threads.client).leases, 0);
    redlock_client_free(threads.client);
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_barrier_destroy(&threads.all_hold);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("many");
    TCase *tcase = tcase_create("many");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, start_five, servers_stop);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_many_leases_are_renewed);
    tcase_add_test(tcase, test_a_thousand_threads_share_a_client);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
