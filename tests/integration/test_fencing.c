/*
 * Fencing tokens on real servers that remember: what they cost, and that they rise whatever becomes
 * of counters, keys and replies. Those that forget are in test_fencing_members.c.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fence.h"
#include "fenced.h"
#include "locking.h"
#include "proxy.h"
#include "servers.h"

enum {
    THREE = 3
};

static redlock_client *client, *other;
static struct proxy *proxies[THREE];

static void begin(int n)
{
    servers_start(n);
    fenced_mark((size_t)n);
    client = fenced_client(servers_uris(), (size_t)n);
    other = fenced_client(servers_uris(), (size_t)n);
    AWAIT(is_settled(client, (size_t)n) && is_settled(other, (size_t)n));
}

static void set_up_five(void)
{
    begin(N);
}

static void set_up_one(void)
{
    begin(1);
}

/* `client` comes by the proxies, `other` doesn't. */
static void set_up_proxies(void)
{
    const char *uris[THREE];

    servers_start(THREE);
    fenced_mark(THREE);
    for (int i = 0; i < THREE; i++) {
        proxies[i] = proxy_new(servers_port(i));
        uris[i] = proxy_uri(proxies[i]);
    }
    client = fenced_client(uris, THREE);
    other = fenced_client(servers_uris(), THREE);
    AWAIT(is_settled(client, THREE) && is_settled(other, THREE));
}

static void tear_down(void)
{
    redlock_client_free(client);
    redlock_client_free(other);
    for (int i = 0; i < THREE && proxies[i] != NULL; i++) {
        proxy_free(proxies[i]);
        proxies[i] = NULL;
    }
    servers_stop();
}

static void set_counter(int i, int64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    (void)servers_command(i, "ZADD", FENCED_COUNTER, text, REDLOCK__COUNTER_MEMBER, NULL);
}

/* Grants and releases: scripts, and transactions, of which one is a request as well. */
static void assert_requests(int n, long each)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(servers_count(i, "eval") + servers_count(i, "exec"), each);
}

/* Until grants of that client go to all n by transaction. */
static void calm(redlock_client *by, int n)
{
    for (int k = 0; k < 100; k++) {
        int all = 1;

        servers_reset_counts();
        (void)fenced_cycle(by);
        AWAIT(is_settled(by, (size_t)n));
        for (int i = 0; i < n; i++)
            all = all && servers_count(i, "eval") == 1 && servers_count(i, "exec") == 1;
        if (all && fenced_in_step(by, (size_t)n))
            return;
    }
    ck_abort_msg("no transactions");
}

/* ---- what it costs ------------------------------------------------------ */

START_TEST(in_step_it_is_one_round_trip)
{
    calm(client, N);
    servers_reset_counts();
    for (int k = 0; k < 20; k++) {
        int64_t before = fenced_last();

        ck_assert_int_eq(fenced_cycle(client), before + 1);
    }
    AWAIT(is_settled(client, N));
    assert_requests(N, 2 * 20); /* GRANT and release */
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(servers_count(i, "exec"), 20);
        ck_assert_int_eq(servers_count(i, "set"), 20);
        ck_assert_int_eq(servers_count(i, "zadd"), 20 * 2); /* counter and floor */
    }
}
END_TEST

/* A slow release would make the other's grant busy there, and its counter stay behind. */
static void take_turns(int rounds)
{
    for (int k = 0; k < rounds; k++) {
        (void)fenced_cycle(client);
        AWAIT(is_settled(client, N));
        (void)fenced_cycle(other);
        AWAIT(is_settled(other, N));
    }
}

START_TEST(clients_that_take_turns_stay_in_step)
{
    take_turns(3);
    for (int k = 0; k < 100 && !fenced_in_step(other, N); k++)
        take_turns(1);
    servers_reset_counts();
    take_turns(20);
    assert_requests(N, 2 * 40);
}
END_TEST

/* Raised by hand, or expired. */
START_TEST(skewed_counters_are_settled_once)
{
    unsigned seed = (unsigned)_i;

    calm(client, N);
    calm(other, N);
    for (int k = 0; k < 40; k++) {
        for (int i = 0; i < N; i++) {
            int64_t now = fenced_number(i, FENCED_COUNTER);
            int what = rand_r(&seed) % 4;

            if (what < 2)
                set_counter(i, (now < 0 ? 0 : now) + rand_r(&seed) % (what == 0 ? 3 : 1000));
            else if (what == 2)
                (void)servers_command(i, "DEL", FENCED_COUNTER, NULL);
        }
        servers_reset_counts();
        (void)fenced_cycle(k % 2 == 0 ? client : other);
        AWAIT(is_settled(client, N) && is_settled(other, N));
        for (int i = 0; i < N; i++)
            ck_assert_int_le(servers_count(i, "eval") + servers_count(i, "exec"), 3);
    }
    /* One whose number comes late, above the token, stays ahead until it is heard in time. */
    for (int k = 0; k < 100 && !fenced_in_step(client, N); k++) {
        (void)fenced_cycle(client);
        AWAIT(is_settled(client, N));
    }
    ck_assert_int_eq(fenced_in_step(client, N), 1);
    servers_reset_counts();
    (void)fenced_cycle(client);
    AWAIT(is_settled(client, N));
    assert_requests(N, 2);
}
END_TEST

/* ---- what went wrong with weaker ways ----------------------------------- */

/* The lost reply is the largest, or as large; each way the others can differ from it by up to two.
 * Then the keys vanish. By script, and by transaction. */
START_TEST(a_grant_whose_reply_is_lost_gives_no_token_twice)
{
    int lost = _i % THREE, script = _i < THREE;

    for (int i = 0; i < THREE && script; i++)
        ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "default", "-multi", NULL), "OK");
    for (int k = 0; k < 9; k++) {
        int64_t base = fenced_last() + 1;
        redlock_lock *lock;

        if (!script) {
            calm(client, THREE);
            base = fenced_last() + 1;
        }
        set_counter(lost, base + 2);
        set_counter((lost + 1) % THREE, base + k % 3);
        set_counter((lost + 2) % THREE, base + k / 3);
        proxy_set_at(proxies[lost], script ? "EVAL" : "EXEC", 1, PROXY_REPLIES, PROXY_SWALLOW);
        lock = fenced_take(client);
        for (int i = 0; i < THREE; i++)
            (void)servers_command(i, "DEL", "job", NULL);
        (void)fenced_cycle(other);
        (void)fenced_cycle(other);
        proxy_cut(proxies[lost]);
        proxy_set(proxies[lost], PROXY_REPLIES, PROXY_PASS);
        (void)redlock_release(lock);
        AWAIT(is_settled(client, THREE) && is_settled(other, THREE));
        (void)fenced_cycle(client);
        AWAIT(is_settled(client, THREE));
    }
}
END_TEST

/* A has it on 0 and 1; on 0 it vanishes, and B comes by 0 and 2 and goes. */
START_TEST(an_extend_after_another_holder_is_lost)
{
    redlock_lock *lock;

    proxy_refuse(proxies[2], 1);
    proxy_cut(proxies[2]);
    AWAIT(is_settled(client, 2));
    lock = fenced_take(client);
    (void)servers_command(0, "DEL", "job", NULL);
    (void)fenced_cycle(other);
    proxy_refuse(proxies[2], 0);
    AWAIT(is_settled(client, THREE));
    ck_assert_int_eq(redlock_extend(lock, 0), REDLOCK_LOST);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_LOST);
    AWAIT(servers_with_key("job") == 0);
}
END_TEST

START_TEST(the_token_stays_the_same_through_extends)
{
    redlock_lock *lock = fenced_take(client);
    int64_t token = redlock_fence(lock);

    for (int k = 0; k < 5; k++) {
        ck_assert_int_eq(redlock_extend(lock, 0), 0);
        ck_assert_int_eq(redlock_fence(lock), token);
    }
    for (int i = 0; i < N; i++)
        ck_assert_int_le(fenced_number(i, FENCED_COUNTER), token);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    ck_assert_int_eq(redlock_fence(lock), token); /* who wrote with it can still say so */
    ck_assert_int_eq(redlock_release(lock), 0);
}
END_TEST

/* ---- with others -------------------------------------------------------- */

START_TEST(fenced_and_plain_locks_exclude_each_other)
{
    redlock_lock_options plain = lock_options(FENCED_TTL_MS, 0), fenced = fenced_options(0);
    redlock_lock *lock = fenced_take(client);

    assert_rc(try_lock(other, &plain), REDLOCK_BUSY);
    assert_rc(try_lock(other, &fenced), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    lock = acquire(other, &plain);
    ck_assert_int_eq(redlock_fence(lock), REDLOCK_ERR_STATE);
    assert_rc(try_lock(client, &fenced), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    (void)fenced_cycle(client);
}
END_TEST

/* What the lock guards: compares and writes in one step. */
struct resource {
    pthread_mutex_t mutex;
    int64_t fence, value;
};

static int write_value(struct resource *resource, int64_t fence, int64_t value)
{
    int passes;

    (void)pthread_mutex_lock(&resource->mutex);
    passes = resource->fence <= fence;
    if (passes) {
        resource->fence = fence;
        resource->value = value;
    }
    (void)pthread_mutex_unlock(&resource->mutex);
    return passes;
}

START_TEST(a_resource_that_compares_refuses_a_holder_that_slept)
{
    struct resource resource = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    redlock_lock_options options = fenced_options(5000);
    redlock_lock *slept, *next;
    int64_t old;

    options.ttl_ms = 200;
    slept = acquire(client, &options);
    old = redlock_fence(slept);
    ck_assert_int_eq(write_value(&resource, old, 1), 1);
    next = fenced_take(other); /* when the ttl is over */
    ck_assert_int_gt(redlock_fence(next), old);
    ck_assert_int_eq(redlock_fence(slept), old);
    ck_assert_int_eq(write_value(&resource, redlock_fence(next), 2), 1);
    ck_assert_int_eq(write_value(&resource, old, 3), 0);
    ck_assert_int_eq(write_value(&resource, redlock_fence(next), 4), 1);
    ck_assert_int_eq(resource.value, 4);
    ck_assert_int_eq(redlock_release(next), 0);
    ck_assert_int_ne(redlock_release(slept), 0);
}
END_TEST

START_TEST(a_single_primary_counts_by_itself)
{
    redlock_lock_options plain = lock_options(FENCED_TTL_MS, 0);
    redlock_lock *lock;

    servers_reset_counts();
    for (int k = 1; k <= 20; k++)
        ck_assert_int_eq(fenced_cycle(k % 2 == 0 ? client : other), k);
    assert_requests(1, 2 * 20 + 2); /* each client asked for transactions once */
    ck_assert_int_eq(servers_count(0, "exec"), 20 - 2 * 2 + 2);
    (void)servers_command(0, "DEL", FENCED_COUNTER, NULL);
    ck_assert_int_eq(fenced_cycle(client), 21);
    lock = fenced_take(client);
    assert_rc(try_lock(other, &plain), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_release(lock), 0);
}
END_TEST

/* ---- transactions ------------------------------------------------------- */

START_TEST(without_the_right_to_transactions_scripts_do)
{
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(
            servers_command(i, "ACL", "SETUSER", "default", i == 0 ? "-multi" : "-exec", NULL),
            "OK");
    servers_reset_counts();
    for (int k = 0; k < 10; k++) {
        (void)fenced_cycle(client);
        AWAIT(is_settled(client, N));
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_ge(servers_count(i, "eval"), 2 * 10);
        ck_assert_int_le(servers_count(i, "exec"), 1); /* asked once */
        ck_assert_int_le(servers_count(i, "multi"), 1);
    }
}
END_TEST

START_TEST(a_right_that_is_withdrawn_costs_one_vote_once)
{
    static const char *const rights[][2] = {{"-multi", "'multi'"}, {"-exec", "'exec'"}};
    redlock_lock *lock;

    calm(client, N);
    ck_assert_str_eq(servers_command(0, "ACL", "SETUSER", "default", rights[_i][0], NULL), "OK");
    lock = fenced_take(client);
    AWAIT(is_settled(client, N));
    (void)redlock_node_results(lock, results, N);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(results[0].text, rights[_i][1]));
    /* Each for itself: then it is set all the same. */
    ck_assert_str_eq(servers_command(0, "EXISTS", "job", NULL), _i == 0 ? "1" : "0");
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0 && is_settled(client, N));
    for (int k = 0; k < 5; k++) {
        lock = fenced_take(client);
        AWAIT(is_settled(client, N));
        (void)redlock_node_results(lock, results, N);
        ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_OURS);
        ck_assert_int_eq(redlock_release(lock), 0);
        AWAIT(is_settled(client, N));
    }
}
END_TEST

START_TEST(a_flush_between_two_transactions_is_seen_by_the_second)
{
    redlock_lock *lock;

    calm(client, N);
    (void)servers_command(0, "FLUSHALL", NULL);
    lock = fenced_take(client);
    AWAIT(is_settled(client, N));
    (void)redlock_node_results(lock, results, N);
    ck_assert_int_ne(results[0].vote, REDLOCK_VOTE_OURS);
    ck_assert_int_eq(fenced_number(0, FENCED_COUNTER), -1); /* made nothing */
    ck_assert_int_eq(fenced_number(0, REDLOCK__FLOOR_KEY), -1);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    (void)fenced_cycle(client);
}
END_TEST

START_TEST(a_floor_that_is_gone_alone_refuses_as_well)
{
    redlock_lock *lock;

    calm(client, N);
    (void)servers_command(0, "DEL", REDLOCK__FLOOR_KEY, NULL);
    lock = fenced_take(client);
    AWAIT(is_settled(client, N));
    (void)redlock_node_results(lock, results, N);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_str_eq(results[0].text, "it forgot its fencing numbers just now");
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    (void)fenced_cycle(client);
}
END_TEST

START_TEST(counters_that_expired_are_settled_above_the_floor)
{
    for (int gone = 1; gone <= N; gone++) {
        int64_t before;

        calm(client, N);
        before = fenced_last();
        for (int i = 0; i < gone; i++)
            ck_assert_str_eq(servers_command(i, "DEL", FENCED_COUNTER, NULL), "1");
        ck_assert_int_eq(fenced_cycle(client), before + 1);
    }
    calm(client, N);
}
END_TEST

START_TEST(a_plain_holder_keeps_a_calm_name)
{
    redlock_lock_options plain = lock_options(FENCED_TTL_MS, 0), fenced = fenced_options(0);
    redlock_lock *lock;

    calm(client, N);
    lock = acquire(other, &plain);
    for (int k = 0; k < 3; k++)
        assert_rc(try_lock(client, &fenced), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    (void)fenced_cycle(client);
}
END_TEST

/* Where it is set without a number it keeps others out, counts for nothing, and goes. */
START_TEST(a_counter_of_another_type_is_said)
{
    redlock_lock_options fenced = fenced_options(0);
    redlock_lock *lock;

    calm(client, N);
    (void)servers_command(0, "SET", FENCED_COUNTER, "7", NULL);
    lock = fenced_take(client);
    AWAIT(is_settled(client, N));
    (void)redlock_node_results(lock, results, N);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_ERROR);
    ck_assert_ptr_nonnull(strstr(results[0].text, "WRONGTYPE"));
    assert_rc(try_lock(other, &fenced), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    ck_assert_str_eq(servers_command(0, "GET", FENCED_COUNTER, NULL), "7");
}
END_TEST

/* On its own it can't be one: all of the only primary. */
START_TEST(a_single_primary_with_such_a_counter_grants_nothing)
{
    redlock_lock_options fenced = fenced_options(0);

    calm(client, 1);
    (void)servers_command(0, "SET", FENCED_COUNTER, "7", NULL);
    for (int k = 0; k < 3; k++) {
        assert_rc(try_lock(client, &fenced), REDLOCK_NO_QUORUM);
        AWAIT(servers_with_key("job") == 0);
    }
    (void)servers_command(0, "DEL", FENCED_COUNTER, NULL);
    (void)fenced_cycle(client);
}
END_TEST

/* ---- what the script does ----------------------------------------------- */

/* As the library sends it. */
static const char *grant(const char *number)
{
    return servers_command(0, "EVAL", redlock__grant_script, "3", "job", FENCED_COUNTER,
                           REDLOCK__FLOOR_KEY, "me", "5000", number, "base", NULL);
}

/* NULL: no such key. */
static void put(const char *counter, const char *floor, const char *base)
{
    (void)servers_command(0, "FLUSHALL", NULL);
    if (counter != NULL)
        (void)servers_command(0, "ZADD", FENCED_COUNTER, counter, REDLOCK__COUNTER_MEMBER, NULL);
    if (floor != NULL)
        (void)servers_command(0, "ZADD", REDLOCK__FLOOR_KEY, floor, base, NULL);
}

/* NULL: none. */
static void assert_number(const char *key, const char *expected)
{
    ck_assert_int_eq(fenced_number(0, key), expected == NULL ? -1 : atoll(expected));
}

static void assert_text(const char *key, const char *expected)
{
    const char *text = servers_command(0, "GET", key, NULL);

    if (expected == NULL)
        ck_assert_ptr_null(text);
    else
        ck_assert_str_eq(text, expected);
}

START_TEST(a_grant_is_above_all_that_is_known)
{
    static const struct {
        const char *counter, *floor, *number, *granted, *floor_after;
    } cases[] = {
        {"7", "7", "8", "8", "8"},
        {"7", "7", "1", "8", "8"},
        {"7", "7", "20", "20", "20"},
        {"7", "30", "8", "8", "30"}, /* another name leads */
        {"7", "30", "31", "31", "31"},
        {"7", "8", "8", "8", "8"},
        {"9", "10", "8", "10", "10"}, /* digits are compared as numbers */
        {"10", "10", "9", "11", "11"},
        {"99", "99", "100", "100", "100"},
        {NULL, "0", "1", "1", "1"},
        {NULL, "41", "1", "42", "42"}, /* it had one, perhaps: from the floor */
        {"99999999", "99999999", "1", "100000000", "100000000"},
        {"999999999999999", "1", "7", "1000000000000000", "1000000000000000"},
        {"4503599627370495", "4503599627370495", "1", "4503599627370496", "4503599627370496"},
        {"4503599627370000", "4503599627370000", "4503599627370495", "4503599627370495",
         "4503599627370495"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(cases[i].counter, cases[i].floor, "base");
        ck_assert_str_eq(grant(cases[i].number), cases[i].granted);
        assert_number(FENCED_COUNTER, cases[i].granted);
        assert_number(REDLOCK__FLOOR_KEY, cases[i].floor_after);
        assert_text("job", "me");
        ck_assert_int_gt(atol(servers_command(0, "PTTL", "job", NULL)), 0);
        ck_assert_int_gt(atol(servers_command(0, "PTTL", FENCED_COUNTER, NULL)), 5000);
        ck_assert_str_eq(servers_command(0, "PTTL", REDLOCK__FLOOR_KEY, NULL), "-1");
    }
}
END_TEST

/* Nothing is written then: least of all a lock without its number. */
START_TEST(a_grant_that_is_none_writes_nothing)
{
    static const struct {
        const char *counter, *floor, *base;
    } cases[] = {{"7", "7", "another"}, {"7", NULL, NULL}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put(cases[i].counter, cases[i].floor, cases[i].base);
        ck_assert_str_eq(grant("9"), "-2");
        assert_text("job", NULL);
        assert_number(FENCED_COUNTER, cases[i].counter);
        assert_number(REDLOCK__FLOOR_KEY, cases[i].floor);
    }
    put(NULL, "7", "base");
    (void)servers_command(0, "SET", FENCED_COUNTER, "7", NULL);
    ck_assert_ptr_nonnull(strstr(grant("9"), "WRONGTYPE"));
    assert_text("job", NULL);
    assert_number(REDLOCK__FLOOR_KEY, "7");
    put("7", NULL, NULL);
    (void)servers_command(0, "SET", REDLOCK__FLOOR_KEY, "7", NULL);
    ck_assert_ptr_nonnull(strstr(grant("9"), "WRONGTYPE"));
    assert_text("job", NULL);
    assert_number(FENCED_COUNTER, "7");
}
END_TEST

START_TEST(a_name_that_is_taken_keeps_its_key_and_numbers)
{
    put("7", "7", "base");
    (void)servers_command(0, "SET", "job", "other", NULL);
    ck_assert_str_eq(grant("9"), "-1");
    assert_text("job", "other");
    (void)servers_command(0, "DEL", "job", NULL);
    (void)servers_command(0, "LPUSH", "job", "an element", NULL); /* as SET NX sees it */
    ck_assert_str_eq(grant("9"), "-1");
    ck_assert_str_eq(servers_command(0, "LLEN", "job", NULL), "1");
    assert_number(FENCED_COUNTER, "7");
    assert_number(REDLOCK__FLOOR_KEY, "7");
}
END_TEST

/* A user who may read the counters but not write them. */
START_TEST(without_a_right_to_count_there_is_no_lock)
{
    put("7", "7", "base");
    ck_assert_str_eq(
        servers_command(0, "ACL", "SETUSER", "default", "resetkeys", "~job", "%R~redlock:*", NULL),
        "OK");
    ck_assert_ptr_nonnull(strstr(grant("9"), "NOPERM"));
    ck_assert_str_eq(servers_command(0, "ACL", "SETUSER", "default", "~*", NULL), "OK");
    assert_text("job", NULL);
    assert_number(FENCED_COUNTER, "7");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fencing");
    TCase *five = tcase_create("five"), *three = tcase_create("three"), *one = tcase_create("one");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(five, set_up_five, tear_down);
    tcase_add_test(five, in_step_it_is_one_round_trip);
    tcase_add_test(five, clients_that_take_turns_stay_in_step);
    tcase_add_loop_test(five, skewed_counters_are_settled_once, 1, 4);
    tcase_add_test(five, the_token_stays_the_same_through_extends);
    tcase_add_test(five, fenced_and_plain_locks_exclude_each_other);
    tcase_add_test(five, a_resource_that_compares_refuses_a_holder_that_slept);
    tcase_add_test(five, without_the_right_to_transactions_scripts_do);
    tcase_add_loop_test(five, a_right_that_is_withdrawn_costs_one_vote_once, 0, 2);
    tcase_add_test(five, a_flush_between_two_transactions_is_seen_by_the_second);
    tcase_add_test(five, a_floor_that_is_gone_alone_refuses_as_well);
    tcase_add_test(five, counters_that_expired_are_settled_above_the_floor);
    tcase_add_test(five, a_plain_holder_keeps_a_calm_name);
    tcase_add_test(five, a_counter_of_another_type_is_said);
    tcase_set_timeout(five, 60);
    suite_add_tcase(suite, five);
    tcase_add_checked_fixture(three, set_up_proxies, tear_down);
    tcase_add_loop_test(three, a_grant_whose_reply_is_lost_gives_no_token_twice, 0, 2 * THREE);
    tcase_add_test(three, an_extend_after_another_holder_is_lost);
    tcase_set_timeout(three, 60);
    suite_add_tcase(suite, three);
    tcase_add_checked_fixture(one, set_up_one, tear_down);
    tcase_add_test(one, a_single_primary_counts_by_itself);
    tcase_add_test(one, a_single_primary_with_such_a_counter_grants_nothing);
    tcase_add_test(one, a_grant_is_above_all_that_is_known);
    tcase_add_test(one, a_grant_that_is_none_writes_nothing);
    tcase_add_test(one, a_name_that_is_taken_keeps_its_key_and_numbers);
    tcase_add_test(one, without_a_right_to_count_there_is_no_lock);
    tcase_set_timeout(one, 60);
    suite_add_tcase(suite, one);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
