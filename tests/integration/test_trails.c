/*
 * Leases over time, on real servers and through the public interface: the two trails of
 * docs/safety.md by which a holder could go on after another one came and went, and what a renewal
 * does when members leave and come back.
 *
 * "Vanishes" is a DEL by a connection of the test's own. A step that needs a slow network is made
 * by a proxy; each client has its own, so that one's network can be slow while the other's is
 * not. Patient clients have node timeouts so long that only the test decides what comes when.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "proxy.h"
#include "redlock.h"
#include "servers.h"

enum {
    SLACK_MS = 2000, /* what a loaded machine may add to any bound */
    PATIENCE_MS = 10000,
    LONG_MS = 60000
};

/* ---- helpers ------------------------------------------------------------ */

static void assert_owner(int i, const redlock_lock *lock)
{
    char token[REDLOCK_TOKEN_LEN];
    const char *value = servers_command(i, "GET", "job", NULL);

    ck_assert_int_eq(redlock_token(lock, token, sizeof token), 0);
    ck_assert_msg(value != NULL && strncmp(value, token, strlen(value)) == 0,
                  "server %d has %s, not %s", i, value == NULL ? "nothing" : value, token);
}

static redlock_event await_event(redlock_lock *lock)
{
    struct pollfd event = {.fd = redlock_event_fd(lock), .events = POLLIN};

    ck_assert_int_eq(poll(&event, 1, PATIENCE_MS), 1);
    return redlock_next_event(lock);
}

/* A call in a thread of its own, so that the test can act in between. */
struct call {
    pthread_t thread;
    redlock_client *client;
    redlock_lock_options options;
    redlock_lock *lock; /* set: extend, else acquire */
    atomic_bool over;
    int rc;
};

static void *run_call(void *argument)
{
    struct call *call = argument;

    if (call->lock != NULL)
        call->rc = redlock_extend(call->lock, 0);
    else
        call->rc = redlock_acquire(call->client, "job", 3, &call->options, &call->lock);
    atomic_store(&call->over, true);
    return NULL;
}

static void start_call(struct call *call)
{
    ck_assert_int_eq(pthread_create(&call->thread, NULL, run_call, call), 0);
}

static int end_call(struct call *call)
{
    ck_assert_int_eq(pthread_join(call->thread, NULL), 0);
    return call->rc;
}

static void start_three(void)
{
    servers_start(3);
}

static void start_five(void)
{
    servers_start(N);
}

/* ---- trail (a): five primaries, a vanished key -------------------------- */

static struct proxy *others[2];

/* Held on {1,2,3}; 4 and 5 are reachable again. */
static redlock_lock *hold_bare_majority(redlock_client **client, redlock_lock_options *options)
{
    const char *uris[N] = {servers_uri(0), servers_uri(1), servers_uri(2)};
    redlock_lock *lock;

    for (int i = 0; i < 2; i++) {
        others[i] = proxy_new(servers_port(3 + i));
        uris[3 + i] = proxy_uri(others[i]);
        proxy_refuse(others[i], 1);
    }
    *client = client_of(uris, N, 500);
    lock = acquire(*client, options);
    ck_assert_int_eq(servers_with_key("job"), 3);
    for (int i = 0; i < 2; i++)
        proxy_refuse(others[i], 0);
    AWAIT(is_settled(*client, N));
    return lock;
}

static void free_bare_majority(redlock_client *client)
{
    redlock_client_free(client);
    proxy_free(others[0]);
    proxy_free(others[1]);
}

/* The situation after B: A has keys on 2 and 3, and believes in 1; B was there. */
static redlock_lock *walk_trail_a(redlock_client **a, redlock_lock_options *options)
{
    redlock_client *b = client_of(servers_uris(), N, 0);
    /* A holds {1,2,3}: 4 and 5 were out of its reach, and are back. */
    redlock_lock *lock_a = hold_bare_majority(a, options), *lock_b;

    /* Its key on 1 vanishes. */
    ck_assert_str_eq(servers_command(0, "DEL", "job", NULL), "1");
    /* B takes {1,4,5}, holds, and releases. */
    AWAIT(is_settled(b, N));
    lock_b = acquire(b, options);
    AWAIT(servers_with_key("job") == N);
    for (int i = 0; i < N; i++)
        assert_owner(i, i == 1 || i == 2 ? lock_a : lock_b);
    assert_rc(redlock_release(lock_b), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 2);
    redlock_client_free(b);
    return lock_a;
}

START_TEST(test_trail_a_vanished_key)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = walk_trail_a(&client, &options);

    servers_reset_counts();
    /* Now A renews: only 2 and 3 of its set are left, whatever 1, 4 and 5 would give it. */
    assert_rc(redlock_extend(lock, 0), REDLOCK_LOST);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_deadline_ns(lock), 0);
    assert_rc(redlock_extend(lock, 0), REDLOCK_LOST);
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_LOST);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(servers_count(i, "set"), 0);
    free_bare_majority(client);
}
END_TEST

/* The same where A renews by itself: told by an event, well before its deadline. */
START_TEST(test_trail_a_renewing)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(9000, 0);
    redlock_lock *lock;
    int64_t deadline_ms;

    options.renew = 1;
    lock = walk_trail_a(&client, &options);
    deadline_ms = servers_now_ms() + redlock_remaining_ms(lock);
    ck_assert_int_eq(await_event(lock), REDLOCK_EVENT_LOST);
    ck_assert_int_lt(servers_now_ms(), deadline_ms);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_LOST);
    AWAIT(servers_with_key("job") == 0);
    free_bare_majority(client);
}
END_TEST

/* ---- trail (b): three primaries, a slow SET ----------------------------- */

START_TEST(test_trail_b_slow_set)
{
    struct proxy *a1 = proxy_new(servers_port(0)), *a3 = proxy_new(servers_port(2));
    struct proxy *b3 = proxy_new(servers_port(2));
    const char *uris_a[] = {proxy_uri(a1), servers_uri(1), proxy_uri(a3)};
    const char *uris_b[] = {servers_uri(0), servers_uri(1), proxy_uri(b3)};
    redlock_client *a = client_of(uris_a, 3, LONG_MS), *b = client_of(uris_b, 3, LONG_MS);
    redlock_lock_options options = lock_options(LONG_MS, 0);
    redlock_node_result now[3];
    struct call extend = {0}, take = {.client = b};

    redlock_lock_options_init(&take.options);
    take.options.ttl_ms = LONG_MS;
    AWAIT(is_settled(a, 3) && is_settled(b, 3));
    /* A's SET to 1 is slow. A holds {2,3}. */
    proxy_set(a1, PROXY_REQUESTS, PROXY_HOLD);
    extend.lock = acquire(a, &options);
    proxy_await_command(a1, "SET", 1);
    AWAIT(has_key(1) && has_key(2));
    assert_owner(1, extend.lock);
    assert_owner(2, extend.lock);
    /* B is granted 1 and refused by 2; its SET to 3 is on its way, so its attempt stays open. */
    proxy_set_at(b3, "SET", 1, PROXY_REQUESTS, PROXY_HOLD);
    start_call(&take);
    proxy_await_command(b3, "SET", 1);
    AWAIT(has_key(0));
    /* A renews. 2 and 3 answer "ours", but 3's answer is on its way: the round stays open. */
    proxy_set_at(a3, "EVAL", 1, PROXY_REPLIES, PROXY_HOLD);
    start_call(&extend);
    proxy_await_held(a3, PROXY_REPLIES, 4); /* ":1\r\n" */
    /* A's key on 3 vanishes. B takes 3 and holds {1,3}. */
    ck_assert_str_eq(servers_command(2, "DEL", "job", NULL), "1");
    proxy_set(b3, PROXY_REQUESTS, PROXY_PASS);
    ck_assert_int_eq(end_call(&take), REDLOCK_OK);
    assert_owner(0, take.lock);
    assert_owner(2, take.lock);
    /* B works, and releases. */
    ck_assert_int_eq(redlock_release(take.lock), REDLOCK_OK);
    AWAIT(!has_key(0) && !has_key(2));
    /* A's slow SET now lands on 1, and A sees its own key there before its round is over: the
     * renewal went to 1 behind the SET and is answered "ours" in this very round. */
    proxy_set(a1, PROXY_REQUESTS, PROXY_PASS);
    AWAIT(redlock_node_results(extend.lock, now, 3) == 3 && now[0].vote == REDLOCK_VOTE_OURS);
    assert_owner(0, extend.lock);
    ck_assert_int_eq(atomic_load(&extend.over), false);
    /* 3's old answer comes: this round is won by {2,3}, as it must be, not by {1,2}. */
    proxy_set(a3, PROXY_REPLIES, PROXY_PASS);
    assert_rc(end_call(&extend), REDLOCK_OK);
    ck_assert(!has_key(2));
    /* The next round: 1 and 2 answer "ours", 3 has nothing. 1 doesn't count, so A is told. */
    assert_rc(redlock_extend(extend.lock, 0), REDLOCK_LOST);
    ck_assert_int_eq(redlock_is_held(extend.lock), 0);
    ck_assert_int_eq(redlock_release(extend.lock), REDLOCK_LOST);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(a);
    redlock_client_free(b);
    proxy_free(a1);
    proxy_free(a3);
    proxy_free(b3);
}
END_TEST

/* What the rule must not forbid: a late grant known before a round that succeeds without it
 * counts in the one after. */
START_TEST(test_late_grant_counts_after_a_whole_round)
{
    struct proxy *slow = proxy_new(servers_port(0));
    const char *uris[] = {proxy_uri(slow), servers_uri(1), servers_uri(2)};
    redlock_client *client = client_of(uris, 3, 2000);
    redlock_lock_options options = lock_options(LONG_MS, 0);
    redlock_lock *lock;

    AWAIT(is_settled(client, 3));
    proxy_set(slow, PROXY_REQUESTS, PROXY_HOLD);
    lock = acquire(client, &options);
    proxy_set(slow, PROXY_REQUESTS, PROXY_PASS);
    AWAIT(is_settled(client, 3));
    assert_owner(0, lock);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    AWAIT(is_settled(client, 3));
    ck_assert_str_eq(servers_command(2, "DEL", "job", NULL), "1");
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
    proxy_free(slow);
}
END_TEST

/* Where a SET is neither answered nor its key seen since, none is sent again: it may still come. */
START_TEST(test_nothing_is_set_again_behind_an_unanswered_set)
{
    struct proxy *slow = proxy_new(servers_port(0));
    const char *uris[] = {proxy_uri(slow), servers_uri(1), servers_uri(2)};
    redlock_client *client = client_of(uris, 3, 2000);
    redlock_lock_options options = lock_options(LONG_MS, 0);
    redlock_lock *lock;

    AWAIT(is_settled(client, 3));
    servers_reset_counts();
    proxy_set(slow, PROXY_REQUESTS, PROXY_HOLD);
    lock = acquire(client, &options);
    proxy_await_command(slow, "SET", 1);
    proxy_cut(slow);
    for (int round = 0; round < 3; round++) {
        AWAIT(is_settled(client, 3));
        assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* 1 is free, all the while */
        AWAIT(is_settled(client, 3));
        ck_assert_int_eq(servers_count(0, "set"), 0);
    }
    proxy_deliver(slow);
    assert_owner(0, lock);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* seen */
    AWAIT(is_settled(client, 3));
    (void)servers_command(0, "DEL", "job", NULL);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* so now it is set again */
    AWAIT(has_key(0));
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
    proxy_free(slow);
}
END_TEST

/* ---- members that leave and come back ----------------------------------- */

START_TEST(test_bare_majority_is_topped_up)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = hold_bare_majority(&client, &options);

    ck_assert_int_eq(redlock_margin(lock), 0);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* sets 4 and 5 again */
    AWAIT(servers_with_key("job") == N);
    for (int i = 3; i < N; i++) {
        assert_owner(i, lock);
        ck_assert_int_gt(strtol(servers_command(i, "PTTL", "job", NULL), NULL, 10), 20000);
    }
    AWAIT(is_settled(client, N));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* finds them ours: they count */
    AWAIT(is_settled(client, N));
    ck_assert_int_eq(redlock_margin(lock), 2);
    servers_kill(0); /* no loss */
    servers_kill(1);
    AWAIT(is_settled(client, 3));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    for (int i = 2; i < N; i++)
        AWAIT(!has_key(i));
    free_bare_majority(client);
}
END_TEST

START_TEST(test_member_lost_before_the_top_up)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(1500, 0);
    redlock_lock *lock;
    int64_t deadline_ms, deadline_ns;

    options.renew = 1;
    lock = hold_bare_majority(&client, &options);
    servers_reset_counts();
    servers_kill(0);
    deadline_ns = redlock_deadline_ns(lock);
    deadline_ms = servers_now_ms() + redlock_remaining_ms(lock);
    ck_assert_int_eq(await_event(lock), REDLOCK_EVENT_RENEWAL_FAILING);
    ck_assert_int_eq(redlock_is_held(lock), 1); /* the old deadline stands */
    ck_assert_int_eq(redlock_deadline_ns(lock), deadline_ns);
    ck_assert_int_eq(await_event(lock), REDLOCK_EVENT_LOST);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_lt(servers_now_ms(), deadline_ms + SLACK_MS);
    for (int i = 1; i < N; i++) {
        AWAIT(!has_key(i));
        ck_assert_int_eq(servers_count(i, "set"), 0); /* nothing re-created */
    }
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    free_bare_majority(client);
}
END_TEST

/* ---- renewal ------------------------------------------------------------ */

static atomic_int renewed, failing, lost;

static void count_event(void *context, redlock_lock *lock, redlock_event event)
{
    (void)context;
    (void)lock;
    if (event == REDLOCK_EVENT_RENEWED)
        (void)atomic_fetch_add(&renewed, 1);
    if (event == REDLOCK_EVENT_RENEWAL_FAILING)
        (void)atomic_fetch_add(&failing, 1);
    if (event == REDLOCK_EVENT_LOST)
        (void)atomic_fetch_add(&lost, 1);
}

static redlock_lock_options renewing(int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);

    atomic_store(&renewed, 0);
    atomic_store(&failing, 0);
    atomic_store(&lost, 0);
    options.renew = 1;
    options.on_event = count_event;
    return options;
}

/* Three of five stand still beyond the deadline: failing is said early, lost in time, and
 * nothing is taken back when they wake. */
START_TEST(test_majority_pauses_too_long)
{
    redlock_client *client = client_of(servers_uris(), N, 0);
    redlock_lock_options options = renewing(1000);
    redlock_lock *lock = acquire(client, &options);
    int64_t start_ms = servers_now_ms();

    for (int i = 2; i < N; i++)
        servers_freeze(i);
    AWAIT(atomic_load(&failing) == 1);
    ck_assert_int_lt(servers_now_ms() - start_ms, 333 + 50 + SLACK_MS);
    AWAIT(atomic_load(&lost) == 1);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_lt(servers_now_ms() - start_ms, 1000 + SLACK_MS);
    for (int i = 2; i < N; i++)
        servers_thaw(i);
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    assert_rc(redlock_extend(lock, 0), REDLOCK_EXPIRED);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    ck_assert_int_eq(atomic_load(&failing) + atomic_load(&lost), 2);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_majority_pauses_briefly)
{
    redlock_client *client = client_of(servers_uris(), N, 0);
    redlock_lock_options options = renewing(6000);
    redlock_lock *lock = acquire(client, &options);

    for (int i = 2; i < N; i++)
        servers_freeze(i);
    AWAIT(atomic_load(&failing) == 1);
    for (int i = 2; i < N; i++)
        servers_thaw(i);
    atomic_store(&renewed, 0);
    AWAIT(atomic_load(&renewed) >= 2); /* the schedule goes on */
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(atomic_load(&lost), 0);
    ck_assert_int_eq(servers_with_key("job"), N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* One after the other restarts empty, with renewals in between: no loss, keys set again. */
START_TEST(test_members_restart_one_by_one)
{
    redlock_client *client = client_of(servers_uris(), N, 500);
    redlock_lock_options options = renewing(3000);
    redlock_lock *lock = acquire(client, &options);

    /* Before the first renewal only the three that were quickest count. */
    AWAIT(atomic_load(&renewed) >= 1 && is_settled(client, N));
    for (int i = 2; i < N; i++) {
        servers_kill(i);
        servers_revive(i);
        AWAIT(has_key(i));
        assert_owner(i, lock);
        atomic_store(&renewed, 0); /* one round finds it ours, then it counts */
        AWAIT(atomic_load(&renewed) >= 2);
    }
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(atomic_load(&lost), 0);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* A failed extend takes nothing away, except that a shorter ttl is shorter at once. */
START_TEST(test_failed_extend_keeps_the_lease)
{
    redlock_client *client = client_of(servers_uris(), N, 200);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *lock;
    int64_t before_ns;

    AWAIT(is_settled(client, N));
    lock = acquire(client, &options);
    before_ns = redlock_deadline_ns(lock);
    AWAIT(servers_with_key("job") == N);
    for (int i = 2; i < N; i++)
        servers_freeze(i);
    assert_rc(redlock_extend(lock, 30000), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(redlock_deadline_ns(lock), before_ns);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert(has_key(0) && has_key(1));
    assert_rc(redlock_extend(lock, 10000), REDLOCK_NO_QUORUM);
    ck_assert_int_lt(redlock_deadline_ns(lock), before_ns);
    ck_assert_int_le(redlock_remaining_ms(lock), 10000 - 102);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    for (int i = 2; i < N; i++)
        servers_thaw(i);
    assert_rc(redlock_extend(lock, 20000), REDLOCK_OK);
    ck_assert_int_gt(redlock_remaining_ms(lock), 10000);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static Suite *trails_suite(void)
{
    Suite *suite = suite_create("trails");
    TCase *three = tcase_create("three"), *five = tcase_create("five");

    tcase_add_checked_fixture(three, start_three, servers_stop);
    tcase_set_timeout(three, 60);
    tcase_add_test(three, test_trail_b_slow_set);
    tcase_add_test(three, test_late_grant_counts_after_a_whole_round);
    tcase_add_test(three, test_nothing_is_set_again_behind_an_unanswered_set);
    suite_add_tcase(suite, three);
    tcase_add_checked_fixture(five, start_five, servers_stop);
    tcase_set_timeout(five, 60);
    tcase_add_test(five, test_trail_a_vanished_key);
    tcase_add_test(five, test_trail_a_renewing);
    tcase_add_test(five, test_bare_majority_is_topped_up);
    tcase_add_test(five, test_member_lost_before_the_top_up);
    tcase_add_test(five, test_majority_pauses_too_long);
    tcase_add_test(five, test_majority_pauses_briefly);
    tcase_add_test(five, test_members_restart_one_by_one);
    tcase_add_test(five, test_failed_extend_keeps_the_lease);
    suite_add_tcase(suite, five);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(trails_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
