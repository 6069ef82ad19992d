/*
 * Fencing tokens on real servers that forget: they keep out for the guard, take the numbers over
 * from the others by themselves, and say so where the others don't know them either.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "fence.h"
#include "fenced.h"
#include "locking.h"
#include "marker.h"
#include "servers.h"

static redlock_client *client;

static void begin(void)
{
    fenced_mark(N);
    client = fenced_client(servers_uris(), N);
    AWAIT(is_settled(client, N));
    for (int k = 0; k < 5; k++)
        (void)fenced_cycle(client);
    AWAIT(fenced_in_step(client, N));
}

static void set_up(void)
{
    servers_start(N);
    begin();
}

/* Their data survives, but that they are durable is not in their markers. */
static void set_up_with_files(void)
{
    servers_start_durable(N);
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "CONFIG", "SET", "appendfsync", "no", NULL), "OK");
    begin();
}

static void set_up_durable(void)
{
    servers_start_durable(N);
    begin();
}

static void tear_down(void)
{
    redlock_client_free(client);
    servers_stop();
}

static void restart_empty(int i)
{
    servers_kill(i);
    servers_revive(i);
}

static int64_t connects(int i)
{
    redlock_node_health health[N];

    (void)redlock_health(client, health, N);
    return health[i].state == REDLOCK_NODE_READY ? (int64_t)health[i].connects : 0;
}

static int counting(void)
{
    redlock_node_health health[N];
    int counts = 0;

    (void)redlock_health(client, health, N);
    for (int i = 0; i < N; i++)
        counts += health[i].state == REDLOCK_NODE_READY && health[i].counts;
    return counts;
}

/* Only these, a bare quorum, are left. */
static void leave_only(int a, int b, int c)
{
    for (int i = 0; i < N; i++)
        if (i != a && i != b && i != c)
            servers_freeze(i);
}

static void thaw_all(void)
{
    for (int i = 0; i < N; i++)
        servers_thaw(i);
}

static const redlock_node_result *said_by(const redlock_lock *lock, int i)
{
    static redlock_node_result now[N];

    (void)redlock_node_results(lock, now, N);
    return &now[i];
}

/* This client knows that it remembers. */
static void await_grant_of(redlock_client *by, int i)
{
    redlock_vote vote = REDLOCK_VOTE_NONE;
    int64_t give_up_ms = servers_now_ms() + 10000;

    while (vote != REDLOCK_VOTE_OURS) {
        redlock_lock *lock = fenced_take(by);

        AWAIT(said_by(lock, i)->vote != REDLOCK_VOTE_NONE);
        vote = said_by(lock, i)->vote;
        ck_assert_int_eq(redlock_release(lock), 0);
        AWAIT(is_settled(by, N));
        ck_assert_int_lt(servers_now_ms(), give_up_ms);
    }
}

/* ---- one ---------------------------------------------------------------- */

static void assert_recovers(int i, int64_t least)
{
    AWAIT(fenced_base(i) >= least && is_settled(client, N));
    ck_assert_int_ge(fenced_number(i, "redlock:floor"), 0);
    leave_only(i, 3, 4);
    for (int k = 0; k < 5; k++)
        (void)fenced_cycle(client);
    thaw_all();
}

START_TEST(one_that_came_back_empty_takes_over_from_the_others)
{
    int64_t before = connects(0), token;

    restart_empty(0);
    AWAIT(connects(0) > before);
    token = fenced_cycle(client); /* the others go on */
    ck_assert_int_eq(fenced_base(0), -1);
    ck_assert_int_eq(fenced_number(0, FENCED_COUNTER), -1);
    assert_recovers(0, token);
}
END_TEST

START_TEST(one_with_older_data_takes_over_from_the_others)
{
    char copy[256], command[1024];
    int64_t old, before, token;

    (void)snprintf(copy, sizeof copy, "%s.copy", servers_directory(0));
    (void)snprintf(command, sizeof command, "cp -a '%s' '%s'", servers_directory(0), copy);
    ck_assert_int_eq(system(command), 0);
    old = fenced_last();
    for (int k = 0; k < 10; k++)
        (void)fenced_cycle(client);
    before = connects(0);
    servers_kill(0);
    servers_empty(0);
    (void)snprintf(command, sizeof command, "cp -a '%s'/. '%s'", copy, servers_directory(0));
    ck_assert_int_eq(system(command), 0);
    servers_revive(0);
    ck_assert_int_eq(fenced_number(0, FENCED_COUNTER), old);
    AWAIT(connects(0) > before);
    token = fenced_cycle(client);
    ck_assert_int_eq(fenced_base(0), -1);
    assert_recovers(0, token);
}
END_TEST

START_TEST(a_durable_one_goes_on_at_once)
{
    int64_t before = connects(0);

    servers_kill(0);
    servers_revive(0);
    AWAIT(connects(0) > before);
    AWAIT(fenced_base(0) == 0); /* the old number, and the new run */
    leave_only(0, 1, 2);
    (void)fenced_cycle(client);
    thaw_all();
}
END_TEST

/* Nothing is sampled while nothing is held, so nobody has seen it but the script: a client that has
 * just come knows of no name that is calm. */
START_TEST(a_flush_is_seen_by_the_next_grant)
{
    redlock_lock *lock;
    int64_t token;

    redlock_client_free(client);
    client = fenced_client(servers_uris(), N);
    AWAIT(is_settled(client, N));
    (void)servers_command(0, "FLUSHALL", NULL);
    lock = fenced_take(client);
    token = redlock_fence(lock);
    AWAIT(said_by(lock, 0)->vote != REDLOCK_VOTE_NONE);
    ck_assert_str_eq(said_by(lock, 0)->text, "it forgot its fencing numbers just now");
    ck_assert_ptr_null(servers_command(0, "GET", "job", NULL));
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(counting() == N - 1);
    assert_recovers(0, token);
}
END_TEST

/* While something is held, by the marker. It recovers without a grant that fails first. */
START_TEST(a_flush_that_a_sample_sees_is_asked_about)
{
    redlock_lock_options options = lock_options(FENCED_TTL_MS, 0);
    redlock_lock *lock;

    options.renew = 1;
    lock = acquire(client, &options);
    AWAIT(redlock_margin(lock) == 2); /* a bare quorum would be lost, and no sample taken */
    (void)servers_command(0, "FLUSHALL", NULL);
    AWAIT(counting() == N - 1);
    ck_assert_int_eq(redlock_release(lock), 0);
    assert_recovers(0, fenced_last());
}
END_TEST

/* By a client that is at rest meanwhile, and another that recovers it. */
START_TEST(a_base_that_another_client_wrote_is_found)
{
    redlock_client *other = fenced_client(servers_uris(), N);
    int64_t before = connects(0);

    AWAIT(is_settled(other, N));
    restart_empty(0);
    AWAIT(connects(0) > before && is_settled(other, N));
    AWAIT(fenced_base(0) >= fenced_last());
    await_grant_of(client, 0);
    await_grant_of(other, 0);
    leave_only(0, 3, 4);
    for (int k = 0; k < 4; k++)
        (void)fenced_cycle(k % 2 == 0 ? client : other);
    thaw_all();
    redlock_client_free(other);
}
END_TEST

START_TEST(two_that_slept_catch_up)
{
    int64_t token;

    leave_only(0, 1, 2);
    for (int k = 0; k < 10; k++)
        (void)fenced_cycle(client);
    token = fenced_last();
    servers_thaw(3);
    servers_thaw(4);
    AWAIT(is_settled(client, N));
    servers_freeze(0);
    servers_freeze(1);
    for (int k = 0; k < 3; k++)
        (void)fenced_cycle(client);
    ck_assert_int_ge(fenced_number(3, FENCED_COUNTER), token);
    ck_assert_int_ge(fenced_number(4, FENCED_COUNTER), token);
    thaw_all();
}
END_TEST

/* ---- a majority --------------------------------------------------------- */

static int64_t now_ms(void)
{
    const char *seconds = servers_command(0, "TIME", NULL);

    return strtoll(seconds, NULL, 10) * 1000;
}

static void init_until_done(redlock_client *with, int fence_base, size_t n)
{
    redlock_init_options options;
    int64_t wait_ms = 0;

    redlock_init_options_init(&options);
    options.fence_base = fence_base;
    AWAIT(redlock_init(with, &options, results, n, &wait_ms) == 0);
}

START_TEST(three_that_forgot_together_need_to_be_told)
{
    redlock_lock_options fenced = fenced_options(0), plain = lock_options(FENCED_TTL_MS, 0);

    for (int i = 0; i < 3; i++)
        restart_empty(i);
    AWAIT(counting() == N);
    assert_rc(try_lock(client, &fenced), REDLOCK_NO_QUORUM);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_BARRED);
        ck_assert_ptr_nonnull(strstr(results[i].text, "redlock init --fence-base"));
    }
    assert_rc(try_lock(client, &plain), 0);
    init_until_done(client, 0, N);
    assert_rc(try_lock(client, &fenced), REDLOCK_NO_QUORUM);
    init_until_done(client, 1, N);
    ck_assert_ptr_nonnull(strstr(results[0].text, "fencing goes on above "));
    ck_assert_int_eq(results[4].vote, REDLOCK_VOTE_OURS);
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_gt(fenced_cycle(client), now_ms() - 60000);
    leave_only(0, 3, 4);
    (void)fenced_cycle(client);
    thaw_all();
}
END_TEST

/* As a new process finds them: nothing says that there ever were numbers. */
START_TEST(all_that_forgot_go_on_from_the_time_of_day_if_told_to)
{
    redlock_init_options options;
    int64_t wait_ms;

    for (int i = 0; i < N; i++)
        restart_empty(i);
    redlock_client_free(client);
    client = fenced_client(servers_uris(), N);
    redlock_init_options_init(&options);
    options.no_leases_out = options.fence_base = 1;
    ck_assert_int_eq(redlock_init(client, &options, results, N, &wait_ms), 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_gt(fenced_base(i), now_ms() - 60000);
    ck_assert_int_gt(fenced_cycle(client), now_ms() - 60000);
}
END_TEST

START_TEST(without_preparation_it_is_misconfigured)
{
    redlock_lock_options fenced = fenced_options(0);

    for (int i = 0; i < N; i++)
        (void)servers_command(i, "DEL", "redlock:floor", NULL);
    redlock_client_free(client);
    client = fenced_client(servers_uris(), N);
    assert_rc(try_lock(client, &fenced), REDLOCK_ERR_MISCONFIGURED);
    ck_assert_str_eq(results[0].text, "not prepared for fencing: redlock init");
    init_until_done(client, 0, N);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(fenced_base(i), 0);
    (void)fenced_cycle(client);
}
END_TEST

/* ---- an old client ------------------------------------------------------ */

/* Connected before the primaries were prepared, it has looked at none since. What it last saw of
 * the one that was flushed is what is there now. */
static redlock_client *old_client(void)
{
    redlock_options options = options_for(servers_uris(), N);
    redlock_client *old;

    options.restart_guard_ms = 0; /* so that it doesn't look */
    options.node_timeout_ms = 500;
    old = new_client(&options);
    AWAIT(is_settled(old, N));
    return old;
}

static int init_by(redlock_client *by)
{
    redlock_init_options options;
    int64_t wait_ms;

    redlock_init_options_init(&options);
    options.no_leases_out = 1;
    return redlock_init(by, &options, results, N, &wait_ms);
}

START_TEST(an_old_client_resets_no_numbers_of_one_that_was_flushed)
{
    redlock_client *old;
    int64_t token;

    servers_start(N);
    old = old_client();
    begin();
    token = fenced_cycle(client);
    AWAIT(fenced_in_step(client, N));
    (void)servers_command(0, "FLUSHALL", NULL);
    ck_assert_int_eq(init_by(old), REDLOCK_PENDING);
    ck_assert_ptr_null(servers_command(0, "GET", "redlock:fleet", NULL));
    ck_assert_int_eq(fenced_base(0), -1);
    redlock_client_free(old);
    (void)fenced_cycle(client); /* finds it flushed */
    assert_recovers(0, token);
}
END_TEST

static const char *recover(const char *old, const char *base, const char *number,
                           const char *marker)
{
    return servers_command(0, "EVAL", redlock__recover_script, "2", REDLOCK__FLOOR_KEY,
                           REDLOCK__MARKER_KEY, old, base, number, marker, NULL);
}

/* The same, told too late that the marker is gone: the script looks. */
START_TEST(a_base_is_written_under_the_marker_that_was_read)
{
    static const struct {
        const char *there, *read; /* marker; NULL: none */
        bool written;
    } cases[] = {{"a", "a", true},
                 {NULL, "", true},
                 {NULL, "a", false},
                 {"b", "a", false},
                 {"a", "", false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *said;

        (void)servers_command(0, "FLUSHALL", NULL);
        if (cases[i].there != NULL)
            (void)servers_command(0, "SET", REDLOCK__MARKER_KEY, cases[i].there, NULL);
        said = recover("", "new", "7", cases[i].read);
        ck_assert_str_eq(said, cases[i].written ? "new\n7\n" : "");
        ck_assert_int_eq(fenced_number(0, REDLOCK__FLOOR_KEY), cases[i].written ? 7 : -1);
    }
}
END_TEST

/* And on the base that was read; the floor never falls. */
START_TEST(a_base_takes_the_place_of_the_one_that_was_read)
{
    static const struct {
        const char *floor, *read, *number, *said;
    } cases[] = {{"5", "old", "7", "new\n7\n"},
                 {"9", "old", "7", "new\n9\n"},
                 {"10", "old", "9", "new\n10\n"},
                 {"5", "", "7", "old\n5\n"},
                 {"5", "another", "7", "old\n5\n"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)servers_command(0, "FLUSHALL", NULL);
        (void)servers_command(0, "ZADD", REDLOCK__FLOOR_KEY, cases[i].floor, "old", NULL);
        ck_assert_str_eq(recover(cases[i].read, "new", cases[i].number, ""), cases[i].said);
        ck_assert_str_eq(
            servers_command(0, "ZRANGE", REDLOCK__FLOOR_KEY, "0", "-1", "WITHSCORES", NULL),
            cases[i].said);
    }
    (void)servers_command(0, "ZADD", REDLOCK__FLOOR_KEY, "8", "second", NULL);
    ck_assert_str_eq(recover("old", "new", "7", ""), "old\n5\nsecond\n8\n");
}
END_TEST

static void add(Suite *suite, const char *name, void (*begins)(void), const TTest *const *tests)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, begins, tear_down);
    tcase_set_timeout(tcase, 60);
    for (; *tests != NULL; tests++)
        tcase_add_test(tcase, *tests);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    const TTest *const plain[] = {one_that_came_back_empty_takes_over_from_the_others,
                                  a_flush_is_seen_by_the_next_grant,
                                  a_flush_that_a_sample_sees_is_asked_about,
                                  a_base_that_another_client_wrote_is_found,
                                  two_that_slept_catch_up,
                                  three_that_forgot_together_need_to_be_told,
                                  all_that_forgot_go_on_from_the_time_of_day_if_told_to,
                                  without_preparation_it_is_misconfigured,
                                  a_base_is_written_under_the_marker_that_was_read,
                                  a_base_takes_the_place_of_the_one_that_was_read,
                                  NULL};
    const TTest *const bare[] = {an_old_client_resets_no_numbers_of_one_that_was_flushed, NULL};
    const TTest *const files[] = {one_with_older_data_takes_over_from_the_others, NULL};
    const TTest *const durable[] = {a_durable_one_goes_on_at_once, NULL};
    Suite *suite = suite_create("fencing members");
    SRunner *runner = srunner_create(suite);
    int failed;

    add(suite, "plain", set_up, plain);
    add(suite, "bare", NULL, bare);
    add(suite, "files", set_up_with_files, files);
    add(suite, "durable", set_up_durable, durable);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
