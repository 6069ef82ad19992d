/*
 * Many leases in one client, on real servers. It keeps two processors busy, so nothing runs beside
 * it.
 */
#include <check.h>
#include <poll.h>
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
    AT_ONCE = 500 /* begun before they are waited for */
};

static void hold_many(redlock_client *client, redlock_lock *locks[MANY],
                      const redlock_lock_options *options)
{
    for (uint32_t begun = 0; begun < MANY; begun += AT_ONCE) {
        for (uint32_t i = begun; i < begun + AT_ONCE; i++)
            if (redlock_start_acquire(client, &i, sizeof i, options, &locks[i]) != 0)
                ck_abort_msg("not begun");
        for (uint32_t i = begun; i < begun + AT_ONCE; i++)
            AWAIT(redlock_poll_result(locks[i]) != REDLOCK_PENDING);
    }
}

static void release_many(redlock_lock *locks[MANY])
{
    for (uint32_t begun = 0; begun < MANY; begun += AT_ONCE) {
        for (uint32_t i = begun; i < begun + AT_ONCE; i++)
            if (redlock_start_release(locks[i]) != 0)
                ck_abort_msg("no release begun");
        for (uint32_t i = begun; i < begun + AT_ONCE; i++) {
            int rc = redlock_release(locks[i]);

            if (rc != REDLOCK_OK)
                ck_abort_msg("not released: %s", redlock_strerror(rc));
        }
    }
}

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

START_TEST(test_many_leases_are_renewed)
{
    static redlock_lock *locks[MANY];
    redlock_options slow = options_for(servers_uris(), N);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_client *client;
    uint32_t held = 0;

    slow.node_timeout_ms = 5000;
    client = new_client(&slow);
    options.renew = 1;
    options.results = NULL;
    options.result_count = 0;
    AWAIT(is_settled(client, N));
    hold_many(client, locks, &options);
    AWAIT(counters(client).extended >= 2 * (uint64_t)MANY);
    for (uint32_t i = 0; i < MANY; i++)
        held += redlock_is_held(locks[i]) != 0;
    ck_assert_uint_eq(held, MANY);
    ck_assert_uint_eq(counters(client).lost, 0);
    ck_assert_uint_eq(counters(client).disconnects, 0);
    release_many(locks);
    for (int i = 0; i < N; i++)
        AWAIT(strcmp(servers_command(i, "DBSIZE", NULL), "0") == 0);
    ck_assert_uint_eq(counters(client).leases, 0);
    redlock_client_free(client);
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
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
