/*
 * Who counts, as the command line shows it: marking with init, restarts, replacing a member.
 *
 * Where a guard has to pass, the primaries are marked for a ttl of a second, and what is waited for
 * is asked again by commands that each begin from nothing. Where one must not have passed, they are
 * marked for the default of a minute, so that no machine is too slow for the test.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

enum {
    N = 5,
    SPARE = N, /* one more server, in no list at first */
    TEXT_LEN = 256
};

#define MARKER "redlock:fleet"
#define MARKED "2" /* keys: marker, floor */
#define MARKED_AND_LOCKED "3"

static struct driver driver, other;

static void set_up(void)
{
    servers_start(N + 1);
    driver_set_nodes(servers_uris(), N);
}

static void set_up_durable(void)
{
    servers_start_durable(N + 1);
    driver_set_nodes(servers_uris(), N);
    driver_mark();
}

static void tear_down(void)
{
    servers_stop();
}

static const char *address(int i)
{
    return servers_uri(i) + strlen("redis://");
}

static void expect_said(const char *text)
{
    ck_assert_msg(strstr(driver.out.bytes, text) || strstr(driver.err.bytes, text),
                  "no \"%s\" in:\n%s%s", text, driver.out.bytes, driver.err.bytes);
}

/* "" where there is none. */
static const char *marker(int i, char text[TEXT_LEN])
{
    const char *value = servers_command(i, "GET", MARKER, NULL);

    snprintf(text, TEXT_LEN, "%s", value ? value : "");
    return text;
}

static int count_markers(void)
{
    return servers_with_key(MARKER);
}

static int marker_has(int i, const char *part)
{
    char text[TEXT_LEN];

    return strstr(marker(i, text), part) != NULL;
}

static void mark_for_a_second(void)
{
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--max-ttl", "1s"), 0);
}

static void restart_empty(int i)
{
    servers_kill(i);
    servers_revive(i);
}

/* How many count, as a new process sees it. */
static int64_t counting(void)
{
    const char *at;

    RUN(&other, "show", "--json");
    at = strstr(other.out.bytes, "\"counting\":");
    ck_assert_ptr_nonnull(at);
    return strtoll(at + strlen("\"counting\":"), NULL, 10);
}

/* A list of these servers: i, or its other name. */
static void use_list(const char *const *uris, size_t count)
{
    driver_set_nodes(uris, count);
}

/* ---- marking ------------------------------------------------------------------ */

START_TEST(test_fresh_primaries_do_not_count_and_what_to_type_is_said)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 69);
    expect_said("no quorum for 'k': 0 of 5 primaries gave an answer, the votes of 5 do not count");
    for (int i = 0; i < N; i++)
        expect_said(address(i));
    expect_said("counts in 6");
    expect_said("redlock init --no-leases-out");
    expect_said("enough of them count in ");
    ck_assert_int_eq(RUN(&driver, "acquire", "--json", "k"), 69);
    expect_said("\"vote\":\"barred\"");
    ck_assert_int_eq(RUN(&driver, "show"), 69);
    expect_said("0 of 5 primaries count, 3 are needed; enough in ");
    START(&driver, "run", "k", "--", "true");
    driver_expect(&driver, "waiting for 'k': too few primaries count (");
    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
}
END_TEST

START_TEST(test_init_marks_and_again_changes_nothing)
{
    char before[N][TEXT_LEN], after[TEXT_LEN];

    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked\n"), N);
    ck_assert_str_eq(driver.err.bytes, "");
    for (int i = 0; i < N; i++)
        ck_assert_int_gt((int)strlen(marker(i, before[i])), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "show"), 0);
    expect_said("5 of 5 primaries count, 3 are needed\n");

    ck_assert_int_eq(RUN(&driver, "init"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked before\n"), N);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--json"), 0);
    expect_said("{\"command\":\"init\",\"result\":\"ok\",");
    ck_assert_int_eq(RUN(&driver, "init", "-q"), 0);
    ck_assert_str_eq(driver.out.bytes, "");
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(marker(i, after), before[i]);
}
END_TEST

START_TEST(test_init_without_a_promise_watches_first)
{
    ck_assert_int_eq(RUN(&driver, "init", "--max-ttl", "1s"), 0);
    expect_said("watching 5 primaries for "); /* 3 s, or 2 if it took a moment to ask */
    expect_said(" s, so that no lease can be out; if none can be: --no-leases-out");
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked\n"), N);
    ck_assert_int_eq(marker_has(0, " max_ttl_ms=1000 "), 1);
}
END_TEST

/* As a start script would after a crash. */
START_TEST(test_init_waives_nothing_for_those_that_came_back_empty)
{
    int empty = _i;

    driver_mark();
    for (int i = 0; i < empty; i++)
        restart_empty(i);
    START(&driver, "init", "--no-leases-out");
    driver_expect(&driver, "that may have forgotten a lease");
    ck_assert_int_eq(counting(), N - empty);
    ck_assert_int_eq(count_markers(), N - empty);
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_int_eq(count_markers(), N - empty);
}
END_TEST

START_TEST(test_init_waits_for_those_that_came_back_empty)
{
    mark_for_a_second();
    restart_empty(0);
    ck_assert_int_eq(RUN(&driver, "init"), 0);
    expect_said("waiting 3 s for 1 primary that may have forgotten a lease");
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked before\n"), N - 1);
    ck_assert_int_eq(driver_count(driver.out.bytes, ": marked\n"), 1);
    ck_assert_int_eq(count_markers(), N);
}
END_TEST

START_TEST(test_signal_ends_the_wait_of_init)
{
    START(&driver, "init");
    driver_expect(&driver, "watching 5 primaries for ");
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_int_eq(count_markers(), 0);

    driver_start_program(&driver, WORDS(REDLOCK_CLI_PATH, "init"), 1);
    driver_expect_times(&driver, "\r6", 2); /* it counts down */
    driver_type(&driver, "\x03");
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_int_eq(count_markers(), 0);
}
END_TEST

START_TEST(test_init_with_one_down_writes_nothing)
{
    servers_kill(3);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out"), 69);
    expect_said("nothing was marked");
    expect_said(address(3));
    ck_assert_ptr_null(strstr(driver.err.bytes, address(2)));
    ck_assert_int_eq(count_markers(), 0);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--json"), 69);
    expect_said("\"result\":\"no_quorum\"");
    ck_assert_str_eq(driver.err.bytes, "");
}
END_TEST

START_TEST(test_init_that_is_refused_says_by_whom_and_which_right)
{
    servers_command(2, "ACL", "SETUSER", "default", "-eval", NULL);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--max-ttl", "1s"), 69);
    expect_said("not all are marked");
    expect_said(address(2));
    expect_said("grant +eval");
    servers_command(2, "ACL", "SETUSER", "default", "+eval", NULL);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--max-ttl", "1s"), 0);
    ck_assert_int_eq(count_markers(), N);
}
END_TEST

/* ---- what does not fit together -------------------------------------------------- */

/* Every command says the same, and writes nothing. */
static void expect_misfit(const char *const *words, const char *text, const char *more)
{
    const char *const commands[][3] = {{"acquire", "k"}, {"init", "--no-leases-out"}, {"show"}};

    for (size_t i = 0; i < 3; i++) {
        const char *all[DRIVER_WORDS_MAX] = {commands[i][0]};
        size_t count = 1;

        if (commands[i][1])
            all[count++] = commands[i][1];
        for (size_t j = 0; words && words[j]; j++)
            all[count++] = words[j];
        ck_assert_int_eq(driver_run(&driver, all), 78);
        expect_said(text);
        expect_said(more);
    }
}

START_TEST(test_a_member_twice_is_misconfigured)
{
    char name[64];

    snprintf(name, sizeof name, "redis://localhost:%d", servers_port(0));
    use_list((const char *const[]){servers_uri(0), name, servers_uri(2)}, 3);
    snprintf(name, sizeof name, "redis://localhost:%d", servers_port(0));
    expect_misfit(NULL, "the same server as 127.0.0.1", name + strlen("redis://"));
    ck_assert_int_eq(count_markers(), 0);
}
END_TEST

START_TEST(test_a_replica_as_member_is_misconfigured)
{
    servers_replicate(1, 0);
    expect_misfit(NULL, "a replica of another server", address(1));
    ck_assert_int_eq(count_markers(), 0);
}
END_TEST

START_TEST(test_what_clients_have_to_agree_on)
{
    driver_mark();
    expect_misfit(WORDS("--max-ttl", "30s"), "marked for max_ttl 60000 ms", "asks for 30000 ms");
    expect_misfit(WORDS("--quorum", "4"), "marked for a quorum of 3", "asks for 4");
    use_list(servers_uris(), 3);
    expect_misfit(NULL, "marked as one of 5 primaries", "this list has 3");
    use_list(servers_uris(), N);
    ck_assert_int_eq(RUN(&driver, "acquire", "--max-ttl", "1m", "--quorum", "3", "k"), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "2m", "k2"), 64);
    expect_said("renew it (run renews by itself)");
    ck_assert_int_eq(RUN(&driver, "run", "--ttl", "2m", "k2", "--", "true"), 64);
    expect_said("longer than these primaries are marked for");
}
END_TEST

START_TEST(test_primaries_of_another_fleet_are_misconfigured)
{
    use_list(servers_uris() + 3, 3);
    driver_mark();
    use_list(servers_uris(), 3);
    driver_mark();
    use_list(servers_uris() + 1, 3);
    expect_misfit(NULL, "of fleet ", address(3));
}
END_TEST

/* ---- restarts ------------------------------------------------------------------- */

START_TEST(test_one_restarted_empty_is_left_out_and_said)
{
    driver_mark();
    restart_empty(0);
    ck_assert_int_eq(RUN(&driver, "run", "k", "--", "sh", "-c", "exit 5"), 5);
    ck_assert_int_eq(RUN(&driver, "acquire", "-v", "k"), 0);
    ck_assert_ptr_null(servers_command(0, "GET", "k", NULL));
    ck_assert_int_eq(RUN(&driver, "show", "k"), 0);
    expect_said("does not count: has no marker: it is new, or lost its data; counts in 6");
    ck_assert_int_eq(RUN(&driver, "show"), 0);
    expect_said("4 of 5 primaries count, 3 are needed\n");
    ck_assert_int_eq(RUN(&driver, "show", "--json", "k"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"counts\":0,\"counts_in_ms\":6"), 1);
    ck_assert_int_eq(driver_count(driver.out.bytes, "\"counts\":1,\"counts_in_ms\":0,"), 4);
}
END_TEST

START_TEST(test_one_restarted_empty_counts_after_the_guard_and_is_marked)
{
    mark_for_a_second();
    restart_empty(0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "500ms", "k"), 0);
    ck_assert_int_eq(count_markers(), N - 1);
    WAIT_UNTIL(counting() == N);
    ck_assert_int_eq(count_markers(), N);
    ck_assert_int_eq(RUN(&driver, "show"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, "counts: marked: "), N);
}
END_TEST

/* By commands alone, none of which lives for long: the guard is kept by the primaries. */
START_TEST(test_three_restarted_empty_are_an_outage_for_a_guard)
{
    mark_for_a_second();
    for (int i = 0; i < 3; i++)
        restart_empty(i);
    ck_assert_int_eq(RUN(&driver, "acquire", "--ttl", "500ms", "k"), 69);
    expect_said("0 of 5 primaries gave an answer, the votes of 3 do not count");
    WAIT_UNTIL(RUN(&driver, "acquire", "--ttl", "500ms", "k") == 0);
    ck_assert_int_eq(RUN(&driver, "show"), 0);
}
END_TEST

START_TEST(test_a_flush_begins_the_guard_anew)
{
    char since[3][TEXT_LEN], key[TEXT_LEN];

    driver_mark();
    restart_empty(0);
    for (int i = 0; i < 3; i++) {
        const char *value;

        ck_assert_int_eq(counting(), N - 1);
        snprintf(key, sizeof key, "%s", servers_command(0, "KEYS", "redlock:*", NULL));
        key[strcspn(key, "\n")] = '\0';
        value = servers_command(0, "GET", key, NULL);
        ck_assert_ptr_nonnull(value);
        snprintf(since[i], sizeof since[i], "%s", value);
        ck_assert_int_eq(counting(), N - 1);
        ck_assert_str_eq(servers_command(0, "GET", key, NULL), since[i]);
        if (i > 0)
            ck_assert_int_gt(strtoll(since[i], NULL, 10), strtoll(since[i - 1], NULL, 10));
        servers_command(0, "FLUSHALL", NULL);
    }
}
END_TEST

START_TEST(test_without_a_guard_is_said_once)
{
    ck_assert_int_eq(RUN(&driver, "acquire", "--restart-guard", "0", "k"), 0);
    ck_assert_int_eq(driver_count(driver.err.bytes, "can vote twice"), 1);
    ck_assert_int_eq(RUN(&driver, "acquire", "-v", "--restart-guard", "0", "k2"), 0);
    ck_assert_int_eq(driver_count(driver.err.bytes, "can vote twice"), 1);
    ck_assert_int_eq(RUN(&driver, "run", "--restart-guard", "0", "k3", "--", "true"), 0);
    ck_assert_int_eq(driver_count(driver.err.bytes, "can vote twice"), 1);
    ck_assert_int_eq(RUN(&driver, "acquire", "-q", "--restart-guard", "0", "k4"), 0);
    ck_assert_str_eq(driver.err.bytes, "");
    ck_assert_int_eq(count_markers(), 0);
}
END_TEST

/* ---- durable ones ----------------------------------------------------------------- */

START_TEST(test_a_durable_one_counts_after_a_restart)
{
    ck_assert_int_eq(marker_has(0, " durable=1 "), 1);
    servers_kill(0);
    servers_revive(0);
    ck_assert_int_eq(RUN(&driver, "show"), 0);
    expect_said("5 of 5 primaries count");
    servers_kill(0);
    servers_empty(0);
    servers_revive(0);
    ck_assert_int_eq(counting(), N - 1);
}
END_TEST

START_TEST(test_a_promoted_replica_does_not_count)
{
    const char *after[N];

    servers_replicate(SPARE, 0);
    servers_kill(0);
    servers_promote(SPARE);
    ck_assert_int_eq(marker_has(SPARE, "redlock=1 "), 1);
    for (int i = 0; i < N; i++)
        after[i] = servers_uri(i == 0 ? SPARE : i);
    use_list(after, N);
    ck_assert_int_eq(counting(), N - 1);
    RUN(&driver, "show");
    expect_said("does not count: restarted ");
}
END_TEST

/* ---- replacing -------------------------------------------------------------------- */

static void use_list_with_spare(void)
{
    const char *after[N];

    for (int i = 0; i < N; i++)
        after[i] = servers_uri(i == 1 ? SPARE : i);
    use_list(after, N);
}

START_TEST(test_replace_retires_the_old_one_and_marks_the_new)
{
    mark_for_a_second();
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(RUN(&driver, "init", "--replace", "2", servers_uri(SPARE)), 0);
        expect_said(": retired");
        if (!again)
            expect_said("watching 1 primary for ");
        expect_said("export REDLOCK_NODES=\"");
        expect_said(servers_uri(SPARE));
        ck_assert_ptr_null(strstr(driver.out.bytes, address(1)));
        ck_assert_int_eq(marker_has(1, " retired=1 "), 1);
        ck_assert_int_eq(marker_has(SPARE, " member=2 n=5 "), 1);
    }
    ck_assert_int_eq(counting(), N - 1); /* with the old list */
    RUN(&driver, "show");
    expect_said("does not count: retired by 'redlock init'");
    use_list_with_spare();
    ck_assert_int_eq(counting(), N);
    ck_assert_int_eq(RUN(&driver, "show"), 0);
}
END_TEST

START_TEST(test_replace_of_a_dead_one_says_that_it_must_stay_off)
{
    driver_mark();
    servers_kill(1);
    ck_assert_int_eq(RUN(&driver, "init", "--replace", "2", "--no-leases-out", servers_uri(SPARE)),
                     0);
    expect_said("could not be retired");
    expect_said("must stay off");
    use_list_with_spare();
    ck_assert_int_eq(counting(), N);
}
END_TEST

START_TEST(test_replace_in_a_list_that_has_the_new_one)
{
    driver_mark();
    use_list_with_spare();
    START(&driver, "init", "--replace", "2");
    driver_expect(&driver, "watching 1 primary for 6");
    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
    ck_assert_int_eq(counting(), N - 1);
    ck_assert_int_eq(RUN(&driver, "init", "--replace", "2", "--no-leases-out"), 0);
    ck_assert_int_eq(counting(), N);
    ck_assert_int_eq(RUN(&driver, "init", "--replace", "2", servers_uri(0)), 78);
}
END_TEST

START_TEST(test_replace_with_one_of_another_fleet)
{
    use_list((const char *const[]){servers_uri(SPARE)}, 1);
    driver_mark();
    use_list(servers_uris(), N);
    driver_mark();
    use_list_with_spare();
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out"), 78);
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--replace", "2"), 0);
    ck_assert_int_eq(counting(), N);
}
END_TEST

/* ---- clocks and margin --------------------------------------------------------------- */

START_TEST(test_sample_measures_clocks_and_leaves_nothing)
{
    driver_mark();
    ck_assert_int_eq(RUN(&driver, "show", "--sample", "50ms"), 0);
    ck_assert_int_eq(driver_count(driver.out.bytes, "clock: "), N);
    ck_assert_int_eq(RUN(&driver, "show", "--sample", "50ms", "k"), 1);
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "DBSIZE", NULL), MARKED);
    START(&driver, "show", "--sample", "1h");
    WAIT_UNTIL(strcmp(servers_command(0, "DBSIZE", NULL), MARKED_AND_LOCKED) == 0);
    kill(driver.pid, SIGINT);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGINT);
    ck_assert_str_eq(servers_command(0, "DBSIZE", NULL), MARKED);
}
END_TEST

START_TEST(test_run_tells_its_margin_when_that_changes)
{
    driver_mark();
    START(&driver, "run", "--json", "--ttl", "1s", "k", "--", "sleep", "60");
    driver_expect(&driver, "\"margin\":2");
    servers_kill(0);
    driver_expect(&driver, "{\"event\":\"margin\",\"key\":\"k\",\"margin\":1}");
    kill(driver.pid, SIGTERM);
    ck_assert_int_eq(driver_wait(&driver), 128 + SIGTERM);
}
END_TEST

static void add_cases(TCase *members)
{
    tcase_add_test(members, test_fresh_primaries_do_not_count_and_what_to_type_is_said);
    tcase_add_test(members, test_init_marks_and_again_changes_nothing);
    tcase_add_test(members, test_init_without_a_promise_watches_first);
    tcase_add_loop_test(members, test_init_waives_nothing_for_those_that_came_back_empty, 1, 4);
    tcase_add_test(members, test_init_waits_for_those_that_came_back_empty);
    tcase_add_test(members, test_signal_ends_the_wait_of_init);
    tcase_add_test(members, test_init_with_one_down_writes_nothing);
    tcase_add_test(members, test_init_that_is_refused_says_by_whom_and_which_right);
    tcase_add_test(members, test_a_member_twice_is_misconfigured);
    tcase_add_test(members, test_a_replica_as_member_is_misconfigured);
    tcase_add_test(members, test_what_clients_have_to_agree_on);
    tcase_add_test(members, test_primaries_of_another_fleet_are_misconfigured);
    tcase_add_test(members, test_one_restarted_empty_is_left_out_and_said);
    tcase_add_test(members, test_one_restarted_empty_counts_after_the_guard_and_is_marked);
    tcase_add_test(members, test_three_restarted_empty_are_an_outage_for_a_guard);
    tcase_add_test(members, test_a_flush_begins_the_guard_anew);
    tcase_add_test(members, test_without_a_guard_is_said_once);
    tcase_add_test(members, test_replace_retires_the_old_one_and_marks_the_new);
    tcase_add_test(members, test_replace_of_a_dead_one_says_that_it_must_stay_off);
    tcase_add_test(members, test_replace_in_a_list_that_has_the_new_one);
    tcase_add_test(members, test_replace_with_one_of_another_fleet);
    tcase_add_test(members, test_sample_measures_clocks_and_leaves_nothing);
    tcase_add_test(members, test_run_tells_its_margin_when_that_changes);
}

static Suite *members_suite(void)
{
    Suite *suite = suite_create("cli members");
    TCase *members = tcase_create("members");
    TCase *durable = tcase_create("durable");

    tcase_add_checked_fixture(members, set_up, tear_down);
    tcase_set_timeout(members, 60);
    add_cases(members);
    suite_add_tcase(suite, members);
    tcase_add_checked_fixture(durable, set_up_durable, tear_down);
    tcase_set_timeout(durable, 60);
    tcase_add_test(durable, test_a_durable_one_counts_after_a_restart);
    tcase_add_test(durable, test_a_promoted_replica_does_not_count);
    suite_add_tcase(suite, durable);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, members_suite);
}
