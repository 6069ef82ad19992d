/*
 * One primary and its replicas, on real servers: what survives a failover with WAIT, and what does
 * not without it; what a missing acknowledgement looks like; and that nobody else waits for it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    PRIMARY = 0,
    REPLICA = 1,
    SECONDS = 60
};

static bool is_text(const char *value, const char *text)
{
    return value != NULL && strcmp(value, text) == 0;
}

static void add_replica(int i)
{
    char probe[16];

    servers_replicate(i, PRIMARY);
    /* What is written reaches it: that begins up to a second after it has all there was. */
    (void)snprintf(probe, sizeof probe, "%d", i);
    (void)servers_command(PRIMARY, "SET", "probe", probe, NULL);
    AWAIT(is_text(servers_command(i, "GET", "probe", NULL), probe));
}

static void start(void)
{
    servers_start(2);
    add_replica(REPLICA);
}

/* A client of one server, which has just started and is no old one. */
static redlock_client *client_at(int i, uint32_t replicas, int64_t timeout_ms)
{
    const char *uri = servers_uri(i);
    redlock_options options = options_for(&uri, 1);

    options.node_timeout_ms = 2000;
    options.silence_limit_ms = 60000;
    options.restart_guard_ms = 0;
    options.replicas = replicas;
    options.replica_timeout_ms = timeout_ms;
    return new_client(&options);
}

/* It follows somebody else, who isn't there, and keeps what it has. */
static void cut_replication(void)
{
    (void)servers_command(REPLICA, "REPLICAOF", "127.0.0.1", "1", NULL);
}

static void fail_over(void)
{
    servers_kill(PRIMARY);
    servers_promote(REPLICA);
}

/* ---- failing over ------------------------------------------------------- */

START_TEST(test_an_acknowledged_lock_survives)
{
    redlock_client *client = client_at(PRIMARY, 1, 5000), *after;
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = acquire(client, &options);

    fail_over();
    after = client_at(REPLICA, 0, 100);
    ck_assert_int_eq(try_lock(after, &options), REDLOCK_BUSY);
    (void)redlock_release(lock);
    redlock_client_free(client);
    redlock_client_free(after);
}
END_TEST

/* Not wanted, but so it is: the reason for the option. */
START_TEST(test_without_wait_there_are_two_holders)
{
    redlock_client *client = client_at(PRIMARY, 0, 100), *after;
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock, *second;

    cut_replication();
    lock = acquire(client, &options);
    fail_over();
    after = client_at(REPLICA, 0, 100);
    second = acquire(after, &options);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(redlock_is_held(second), 1);
    ck_assert_int_eq(redlock_release(second), REDLOCK_OK);
    (void)redlock_release(lock);
    redlock_client_free(client);
    redlock_client_free(after);
}
END_TEST

START_TEST(test_with_wait_there_is_no_first_one)
{
    redlock_client *client = client_at(PRIMARY, 1, 50);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = NULL;

    cut_replication();
    assert_rc(redlock_acquire(client, "job", 3, &options, &lock), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(results[0].text, "1 replica asked for, 0 acknowledged within 50 ms");
    AWAIT(!has_key(PRIMARY));
    redlock_client_free(client);
}
END_TEST

/* ---- too few ------------------------------------------------------------ */

START_TEST(test_too_few_replicas)
{
    redlock_client *client = client_at(PRIMARY, 2, 1000);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = NULL;

    assert_rc(redlock_acquire(client, "job", 3, &options, &lock), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_str_eq(results[0].text, "2 replicas asked for, 1 acknowledged within 1000 ms");
    AWAIT(!has_key(PRIMARY));
    redlock_client_free(client);
}
END_TEST

/* Three acknowledge it, and one was asked for: that is enough. They do it while the primary stands
 * still, which therefore hears all of them at once. */
START_TEST(test_more_replicas_than_asked_for)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = NULL;

    servers_stop();
    servers_start(4);
    for (int i = REPLICA; i < 4; i++)
        add_replica(i);
    client = client_at(PRIMARY, 1, 8000);
    AWAIT(is_settled(client, 1));
    for (int i = REPLICA; i < 4; i++)
        servers_freeze(i);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    AWAIT(strstr(servers_command(PRIMARY, "INFO", "clients", NULL), "blocked_clients:1") != NULL);
    servers_freeze(PRIMARY);
    for (int i = REPLICA; i < 4; i++) {
        servers_thaw(i);
        AWAIT(has_key(i));
        (void)servers_command(i, "PING", NULL); /* what it said before that is on its way */
    }
    servers_thaw(PRIMARY);
    AWAIT(redlock_poll_result(lock) != REDLOCK_PENDING);
    ck_assert_int_eq(redlock_poll_result(lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_a_server_that_knows_no_wait)
{
    static const char *const arguments[] = {"--rename-command", "WAIT", "NOWAIT", NULL};
    redlock_client *client;
    redlock_lock_options options = lock_options(20000, 0);

    servers_stop();
    servers_start_with(2, arguments);
    add_replica(REPLICA);
    client = client_at(PRIMARY, 1, 1000);
    ck_assert_int_eq(try_lock(client, &options), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_msg(strstr(results[0].text, "unknown command") != NULL, "%s", results[0].text);
    AWAIT(!has_key(PRIMARY));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_without_the_right_to_wait)
{
    char uri[64];
    const char *list[] = {uri};
    redlock_options client_options = options_for(list, 1);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = NULL;
    redlock_client *client;

    (void)servers_command(PRIMARY, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "+@all", "-wait",
                          NULL);
    (void)snprintf(uri, sizeof uri, "redis://poor:pw@127.0.0.1:%d", servers_port(PRIMARY));
    client_options.node_timeout_ms = 2000;
    client_options.restart_guard_ms = 0;
    client_options.replicas = 1;
    client_options.replica_timeout_ms = 5000;
    client = new_client(&client_options);
    assert_rc(redlock_acquire(client, "job", 3, &options, &lock), REDLOCK_NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(results[0].text, "wait"));
    AWAIT(!has_key(PRIMARY));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_an_extend_not_acknowledged_moves_nothing)
{
    redlock_client *client = client_at(PRIMARY, 1, 500);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *lock = acquire(client, &options);
    int64_t deadline_ns = redlock_deadline_ns(lock);

    servers_freeze(REPLICA);
    assert_rc(redlock_extend(lock, 40000), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(redlock_deadline_ns(lock), deadline_ns);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    /* The primary keeps it for longer by now, and the replica knows nothing of that. */
    assert_rc(redlock_extend(lock, 30000), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(redlock_deadline_ns(lock), deadline_ns);
    servers_thaw(REPLICA);
    AWAIT(redlock_extend(lock, 30000) == REDLOCK_OK);
    ck_assert_int_gt(redlock_deadline_ns(lock), deadline_ns);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    AWAIT(!has_key(PRIMARY));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_only_with_a_single_node)
{
    redlock_options options = options_for(servers_uris(), 2);
    redlock_client *client = NULL;
    char text[256] = "";

    options.replicas = 1;
    ck_assert_int_eq(redlock_client_new(&options, &client, text, sizeof text),
                     REDLOCK_ERR_ARGUMENT);
    ck_assert_str_eq(text, "replicas go with a single node; there are 2");
    options.node_count = 1;
    options.replica_timeout_ms = 0;
    ck_assert_int_eq(redlock_client_new(&options, &client, text, sizeof text),
                     REDLOCK_ERR_ARGUMENT);
}
END_TEST

/* ---- others ------------------------------------------------------------- */

struct caller {
    redlock_client *client;
    char key[16];
    _Atomic int rc;
    redlock_node_result result;
};

static void *run_caller(void *argument)
{
    struct caller *caller = argument;
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = NULL;

    options.results = &caller->result;
    options.result_count = 1;
    int rc = redlock_acquire(caller->client, caller->key, strlen(caller->key), &options, &lock);
    caller->rc = rc == 0 ? redlock_release(lock) : rc;
    return NULL;
}

/* While one waits for a replica that stands still, releases and questions go on beside it. */
START_TEST(test_nobody_waits_behind_a_wait)
{
    redlock_client *client = client_at(PRIMARY, 1, 3000);
    struct caller caller = {.client = client, .key = "slow", .rc = 1};
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, &options);
    redlock_inspection sum;
    pthread_t id;

    servers_freeze(REPLICA);
    ck_assert_int_eq(pthread_create(&id, NULL, run_caller, &caller), 0);
    AWAIT(strcmp(servers_command(PRIMARY, "EXISTS", "slow", NULL), "1") == 0);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, NULL, 0), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_ONE);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    ck_assert_int_eq(caller.rc, 1); /* still waits */
    servers_thaw(REPLICA);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(caller.rc, REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* More than there are connections for it: each gets its turn. */
START_TEST(test_more_than_eight_at_a_time)
{
    enum {
        CALLERS = 30
    };
    redlock_client *client = client_at(PRIMARY, 1, 500);
    struct caller callers[CALLERS];
    pthread_t ids[CALLERS];
    long before;

    AWAIT(is_settled(client, 1));
    before = atol(
        strstr(servers_command(PRIMARY, "INFO", "stats", NULL), "total_connections_received:") +
        27);
    for (int round = 0; round < 2; round++) {
        if (round == 1)
            servers_freeze(REPLICA);
        for (int i = 0; i < CALLERS; i++) {
            callers[i] = (struct caller){.client = client, .rc = 1};
            (void)snprintf(callers[i].key, sizeof callers[i].key, "k%d", i);
            ck_assert_int_eq(pthread_create(&ids[i], NULL, run_caller, &callers[i]), 0);
        }
        for (int i = 0; i < CALLERS; i++) {
            (void)pthread_join(ids[i], NULL);
            ck_assert_int_eq(callers[i].rc, round == 0 ? REDLOCK_OK : REDLOCK_NO_QUORUM);
        }
    }
    before = atol(strstr(servers_command(PRIMARY, "INFO", "stats", NULL),
                         "total_connections_received:") +
                  27) -
             before;
    ck_assert_int_le(before, 8 + 4); /* and those of this test */
    for (int i = 0; i < CALLERS; i++)
        AWAIT(strcmp(servers_command(PRIMARY, "EXISTS", callers[i].key, NULL), "0") == 0);
    servers_thaw(REPLICA);
    redlock_client_free(client);
}
END_TEST

/* Cancelled while the SET or the WAIT is on its way: nothing is left. */
START_TEST(test_cancelled_while_waiting_for_a_replica)
{
    redlock_client *client = client_at(PRIMARY, 1, 5000);
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = NULL;

    AWAIT(is_settled(client, 1));
    servers_freeze(REPLICA);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    AWAIT(has_key(PRIMARY));
    (void)redlock_release(lock);
    AWAIT(!has_key(PRIMARY));
    servers_freeze(PRIMARY);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    (void)redlock_release(lock);
    servers_thaw(PRIMARY);
    servers_thaw(REPLICA);
    AWAIT(!has_key(PRIMARY) && is_settled(client, 1));
    redlock_client_free(client);
    ck_assert(!has_key(PRIMARY));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("replicas");
    TCase *tcase = tcase_create("replicas");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tcase, start, servers_stop);
    tcase_set_timeout(tcase, SECONDS);
    tcase_add_test(tcase, test_an_acknowledged_lock_survives);
    tcase_add_test(tcase, test_without_wait_there_are_two_holders);
    tcase_add_test(tcase, test_with_wait_there_is_no_first_one);
    tcase_add_test(tcase, test_too_few_replicas);
    tcase_add_test(tcase, test_more_replicas_than_asked_for);
    tcase_add_test(tcase, test_a_server_that_knows_no_wait);
    tcase_add_test(tcase, test_without_the_right_to_wait);
    tcase_add_test(tcase, test_an_extend_not_acknowledged_moves_nothing);
    tcase_add_test(tcase, test_only_with_a_single_node);
    tcase_add_test(tcase, test_nobody_waits_behind_a_wait);
    tcase_add_test(tcase, test_more_than_eight_at_a_time);
    tcase_add_test(tcase, test_cancelled_while_waiting_for_a_replica);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
