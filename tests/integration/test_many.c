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
    redlock_lock_options options = lock_options(20000, 0);
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
