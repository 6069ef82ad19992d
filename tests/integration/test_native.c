/*
 * Extending and releasing by the servers' own compare-and-act commands, on real servers of each
 * version that is there: results in every state, who was asked by which command, and what happens
 * where a user lacks a right. The restart guard is off: it would ask by script, too.
 */
#include <check.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    QUORUM = 3,
    STATES = 243, /* 3 to the 5th */
    NODE_MS = 1000,
    CALLS = 400
};
enum {
    OURS,
    MISSING,
    FOREIGN
};

static const struct flavour {
    const char *name; /* NULL: the machine's */
    bool extend;
    const char *release; /* NULL: by script */
} flavours[] = {{NULL, false, NULL},
                {"redis-8.0", false, NULL},
                {"redis-8.6", true, "delex"},
                {"valkey-8.1", true, NULL},
                {"valkey-9.1", true, "delifeq"}};
enum {
    FLAVOURS = sizeof flavours / sizeof flavours[0]
};

/* ---- setting up ------------------------------------------------------------ */

static bool start(const struct flavour *flavour)
{
    if (!servers_use(flavour->name)) {
        (void)printf("skipped: %s is not in the cache; tools/servers.sh get %s\n", flavour->name,
                     flavour->name);
        return false;
    }
    servers_start(N);
    return true;
}

static void stop(void)
{
    servers_stop();
    (void)servers_use(NULL);
}

static redlock_client *client_at(const char *const *uris)
{
    redlock_options options = options_for(uris, N);
    redlock_client *client;

    options.node_timeout_ms = NODE_MS;
    options.silence_limit_ms = 60000;
    options.restart_guard_ms = 0;
    client = new_client(&options);
    AWAIT(is_settled(client, N));
    return client;
}

/* Of a user with all rights but `minus`. */
static redlock_client *client_without(const char *minus)
{
    static char texts[N][64];
    static const char *uris[N];

    for (int i = 0; i < N; i++) {
        ck_assert_pstr_eq(servers_command(i, "ACL", "SETUSER", "u", "reset", "on", ">pw", "~*",
                                          "+@all", minus, NULL),
                          "OK");
        (void)snprintf(texts[i], sizeof texts[i], "redis://u:pw@127.0.0.1:%d", servers_port(i));
        uris[i] = texts[i];
    }
    return client_at(uris);
}

/* Held and counted by all five. */
static redlock_lock *hold(redlock_client *client, int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *lock = acquire(client, &options);

    AWAIT(is_settled(client, N));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    AWAIT(is_settled(client, N) && redlock_margin(lock) == N - QUORUM);
    return lock;
}

static long count(const char *command)
{
    long sum = 0;

    for (int i = 0; i < N; i++)
        sum += servers_count(i, command);
    return sum;
}

/* ---- every state ----------------------------------------------------------- */

static int state_of(int mask, int i)
{
    for (; i > 0; i--)
        mask /= 3;
    return mask % 3;
}

static int in_state(int mask, int state)
{
    int sum = 0;

    for (int i = 0; i < N; i++)
        sum += state_of(mask, i) == state;
    return sum;
}

static void make_states(int mask)
{
    for (int i = 0; i < N; i++) {
        if (state_of(mask, i) == MISSING)
            ck_assert_pstr_eq(servers_command(i, "DEL", "job", NULL), "1");
        if (state_of(mask, i) == FOREIGN)
            ck_assert_pstr_eq(
                servers_command(i, "SET", "job", "somebody-else", "PX", "600000", NULL), "OK");
    }
}

static void check_foreign(int mask)
{
    for (int i = 0; i < N; i++) {
        if (state_of(mask, i) != FOREIGN)
            continue;
        ck_assert_pstr_eq(servers_command(i, "GET", "job", NULL), "somebody-else");
        ck_assert_int_gt(strtol(servers_command(i, "PTTL", "job", NULL), NULL, 10), 580000);
        ck_assert_pstr_eq(servers_command(i, "DEL", "job", NULL), "1");
    }
}

/* With everybody reachable, fewer than a quorum ours is lost for good. */
static void extend_in(redlock_client *client, int mask)
{
    redlock_lock *lock = hold(client, 20000);
    int64_t before_ns = redlock_deadline_ns(lock);
    int rc, ours = in_state(mask, OURS);

    make_states(mask);
    rc = redlock_extend(lock, 0);
    if (rc != (ours >= QUORUM ? REDLOCK_OK : REDLOCK_LOST))
        ck_abort_msg("mask %d: %s", mask, redlock_strerror(rc));
    AWAIT(is_settled(client, N));
    ck_assert_int_eq(redlock_is_held(lock), ours >= QUORUM);
    if (rc == REDLOCK_OK)
        ck_assert_int_gt(redlock_deadline_ns(lock), before_ns);
    (void)redlock_release(lock);
    AWAIT(is_settled(client, N));
    AWAIT(servers_with_key("job") == in_state(mask, FOREIGN));
    check_foreign(mask);
}

static void release_in(redlock_client *client, int mask)
{
    redlock_lock *lock = hold(client, 20000);
    int ours = in_state(mask, OURS), missing = in_state(mask, MISSING);
    bool fits;
    int rc;

    make_states(mask);
    rc = redlock_release(lock);
    fits = ours >= QUORUM ? rc == REDLOCK_OK
           : in_state(mask, FOREIGN) == 0
               ? rc == REDLOCK_EXPIRED
               : rc == REDLOCK_LOST || (rc == REDLOCK_EXPIRED && ours + missing >= QUORUM);
    if (!fits)
        ck_abort_msg("mask %d: %s", mask, redlock_strerror(rc));
    AWAIT(is_settled(client, N));
    ck_assert_int_eq(servers_with_key("job"), in_state(mask, FOREIGN));
    check_foreign(mask);
}

START_TEST(test_every_state_has_its_result)
{
    const struct flavour *flavour = &flavours[_i];
    redlock_client *client;

    if (!start(flavour))
        return;
    client = client_at(servers_uris());
    servers_reset_counts();
    for (int mask = 0; mask < STATES; mask++) {
        extend_in(client, mask);
        release_in(client, mask);
    }
    if (flavour->extend && flavour->release != NULL) /* one of N removals asks who waits */
        ck_assert_int_le(count("eval"), 2 * STATES);
    else
        ck_assert_int_gt(count("eval"), N * STATES);
    if (flavour->release != NULL)
        ck_assert_int_gt(count(flavour->release), (N - 1) * STATES);
    redlock_client_free(client);
}
END_TEST

/* ---- which commands -------------------------------------------------------- */

static void assert_counts(const char *command, long wanted)
{
    if (command != NULL && count(command) != wanted)
        ck_abort_msg("%s: %ld times, not %ld", command, count(command), wanted);
}

START_TEST(test_native_commands_are_used_where_they_are)
{
    const struct flavour *flavour = &flavours[_i];
    redlock_client *client;
    redlock_lock *lock;

    if (!start(flavour))
        return;
    client = client_at(servers_uris());
    servers_reset_counts();
    lock = hold(client, 5000); /* one SET and one extend each */
    assert_counts("set", flavour->extend ? 2 * N : N);
    assert_counts("eval", flavour->extend ? 0 : N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(is_settled(client, N));
    /* One removal asks whether somebody waits, which takes a script. */
    assert_counts(flavour->release, N - 1);
    assert_counts("eval", (flavour->extend ? 0 : N) + (flavour->release != NULL ? 1 : N));
    redlock_client_free(client);
}
END_TEST

static long pttl(int i)
{
    return strtol(servers_command(i, "PTTL", "job", NULL), NULL, 10);
}

START_TEST(test_time_is_raised_and_never_taken)
{
    redlock_client *client;
    redlock_lock *lock;

    if (!start(&flavours[_i]))
        return;
    client = client_at(servers_uris());
    lock = hold(client, 5000);
    assert_rc(redlock_extend(lock, 30000), REDLOCK_OK);
    ck_assert_int_gt(redlock_remaining_ms(lock), 25000);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < N; i++)
        ck_assert_int_gt(pttl(i), 25000);
    assert_rc(redlock_extend(lock, 2000), REDLOCK_OK);
    ck_assert_int_le(redlock_remaining_ms(lock), 2000);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < N; i++)
        ck_assert_int_gt(pttl(i), 20000);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(is_settled(client, N));
    ck_assert_int_eq(servers_with_key("job"), 0);
    redlock_client_free(client);
}
END_TEST

/* ---- rights ---------------------------------------------------------------- */

static void lock_and_keep(redlock_client *client)
{
    redlock_lock_options options = lock_options(300, 0);
    redlock_lock *lock = hold(client, 5000);

    assert_rc(redlock_extend(lock, 30000), REDLOCK_OK);
    assert_rc(redlock_extend(lock, 2000), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(is_settled(client, N) && servers_with_key("job") == 0);
    options.renew = 1;
    lock = acquire(client, &options);
    for (int64_t until_ms = servers_now_ms() + 1000; servers_now_ms() < until_ms;) {
        ck_assert(redlock_is_held(lock));
        (void)poll(NULL, 0, 1);
    }
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(is_settled(client, N) && servers_with_key("job") == 0);
}

static void assert_names_the_right(void)
{
    int named = 0;

    for (int i = 0; i < N; i++)
        named += results[i].vote == REDLOCK_VOTE_ERROR &&
                 strstr(results[i].text, "NOPERM") != NULL &&
                 strstr(results[i].text, "grant +eval, or use a server with native commands "
                                         "(Redis 8.4, Valkey 9.0)") != NULL;
    ck_assert_msg(named >= QUORUM, "%s", results[0].text);
}

START_TEST(test_a_user_without_scripting)
{
    const struct flavour *flavour = &flavours[_i];
    redlock_lock_options options = lock_options(500, 0);
    redlock_client *client;
    redlock_lock *lock;

    if (!start(flavour))
        return;
    client = client_without("-@scripting");
    if (flavour->release != NULL) {
        lock_and_keep(client);
        assert_counts("eval", 0); /* refused before they are counted as calls */
    } else {
        lock = acquire(client, &options);
        AWAIT(is_settled(client, N));
        assert_rc(redlock_extend(lock, 0), flavour->extend ? REDLOCK_OK : REDLOCK_NO_QUORUM);
        if (!flavour->extend)
            assert_names_the_right();
        assert_rc(redlock_release(lock), REDLOCK_NO_QUORUM);
        assert_names_the_right();
        AWAIT(servers_with_key("job") == 0);
    }
    redlock_client_free(client);
}
END_TEST

START_TEST(test_a_user_without_the_native_command)
{
    const struct flavour *flavour = &flavours[_i];
    redlock_client *client;
    char minus[16];

    if (!start(flavour))
        return;
    if (flavour->release == NULL) {
        (void)printf("skipped: it has none\n");
        return;
    }
    (void)snprintf(minus, sizeof minus, "-%s", flavour->release);
    client = client_without(minus);
    servers_reset_counts();
    lock_and_keep(client);
    assert_counts(flavour->release, 0);
    ck_assert_int_ge(count("eval"), 2 * N);
    redlock_client_free(client);
}
END_TEST

/* ---- what it costs ---------------------------------------------------------- */

static double cost_us(const char *command)
{
    double sum = 0;

    for (int i = 0; i < N; i++) {
        char wanted[64];
        const char *stats = servers_command(i, "INFO", "commandstats", NULL), *at;

        (void)snprintf(wanted, sizeof wanted, "cmdstat_%s:", command);
        at = strstr(stats, wanted);
        at = at == NULL ? NULL : strstr(at, "usec_per_call=");
        sum += at == NULL ? 0 : strtod(at + sizeof "usec_per_call=" - 1, NULL) / N;
    }
    return sum;
}

static double cost_of_releases(const char *minus, const char *command)
{
    redlock_lock_options options = lock_options(5000, 0);
    redlock_client *client = client_without(minus);

    servers_reset_counts();
    for (int i = 0; i < CALLS; i++) {
        assert_rc(redlock_release(acquire(client, &options)), REDLOCK_OK);
        AWAIT(is_settled(client, N));
    }
    redlock_client_free(client);
    return cost_us(command);
}

/* Less time than before is asked for by script. */
static double cost_of_extends(int64_t ttl_ms, const char *command)
{
    redlock_client *client = client_without("+@all");
    redlock_lock *lock = hold(client, 20000);

    servers_reset_counts();
    for (int i = 0; i < CALLS; i++) {
        assert_rc(redlock_extend(lock, ttl_ms), REDLOCK_OK);
        AWAIT(is_settled(client, N));
    }
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
    return cost_us(command);
}

/* For people who ask for it with REDLOCK_TEST_COSTS: it asserts nothing. */
START_TEST(test_what_it_costs)
{
    const struct flavour *flavour = &flavours[_i];
    char minus[16];
    double native, script;

    if (!start(flavour) || !flavour->extend)
        return;
    native = cost_of_extends(20000, "set");
    script = cost_of_extends(19000, "eval");
    (void)printf("%s: an extend costs the server %.2f us, by script %.2f us: 1 to %.1f\n",
                 flavour->name, native, script, native > 0 ? script / native : 0);
    if (flavour->release == NULL)
        return;
    (void)snprintf(minus, sizeof minus, "-%s", flavour->release);
    native = cost_of_releases("+@all", flavour->release);
    script = cost_of_releases(minus, "eval");
    (void)printf("%s: a release costs the server %.2f us, by script %.2f us: 1 to %.1f\n",
                 flavour->name, native, script, native > 0 ? script / native : 0);
}
END_TEST

static Suite *native_suite(void)
{
    Suite *suite = suite_create("native");
    TCase *states = tcase_create("states"), *cases = tcase_create("cases");

    tcase_add_checked_fixture(states, NULL, stop);
    tcase_set_timeout(states, 240);
    tcase_add_loop_test(states, test_every_state_has_its_result, 0, FLAVOURS);
    suite_add_tcase(suite, states);

    tcase_add_checked_fixture(cases, NULL, stop);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, test_native_commands_are_used_where_they_are, 0, FLAVOURS);
    tcase_add_loop_test(cases, test_time_is_raised_and_never_taken, 0, FLAVOURS);
    tcase_add_loop_test(cases, test_a_user_without_scripting, 0, FLAVOURS);
    tcase_add_loop_test(cases, test_a_user_without_the_native_command, 0, FLAVOURS);
    if (getenv("REDLOCK_TEST_COSTS") != NULL)
        tcase_add_loop_test(cases, test_what_it_costs, 0, FLAVOURS);
    suite_add_tcase(suite, cases);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(native_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
