/*
 * Each control is as weak as it is meant to be, and the real client, asked the same, is not. These
 * are the plainest cases; what harm comes of it is for scenarios to show.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_plan.h"
#include "crew.h"

enum {
    FIVE = 5,
    THREE = 3,
    STOP_MS = 20000,
    TIMEOUT_S = 120
};

#define PLAIN "\"fence\": false, \"guard_ms\": 0"

static const char acquire_k[] = "{\"do\": \"acquire\", \"name\": \"k\"}";
static const char release_k[] = "{\"do\": \"release\", \"lock\": 1}";

static void tear_down(void)
{
    crew_close();
    servers_stop();
}

static void set_up(int n)
{
    servers_start(n);
    crew_open();
}

/* A spec with a control (NULL: the real client), on these nodes. */
static struct worker *start(const char *control, json_t *nodes, const char *more)
{
    json_t *spec = crew_spec(control != NULL ? control : "real", "actor", 0, more);

    (void)json_object_set_new(spec, "nodes", nodes);
    if (control != NULL)
        (void)json_object_set_new(spec, "control", json_string(control));
    return crew_start(spec);
}

static json_t *servers(int n)
{
    json_t *nodes = json_array();

    for (int i = 0; i < n; i++)
        (void)json_array_append_new(nodes, json_string(servers_uri(i)));
    return nodes;
}

static void end(struct worker *worker)
{
    ck_assert_int_eq(worker_stop(worker, STOP_MS), 0);
}

/* What a client gets when it asks for the lock once. */
static void expect_acquire(const char *control, json_t *nodes, const char *more, const char *rc)
{
    struct worker *worker = start(control, nodes, more);

    ck_assert_str_eq(crew_rc(worker, acquire_k), rc);
    end(worker);
}

START_TEST(k1_takes_two_of_five)
{
    set_up(FIVE);
    for (int i = 2; i < FIVE; i++)
        servers_kill(i);
    expect_acquire(NULL, servers(FIVE), "{" PLAIN "}", "no_quorum");
    expect_acquire("K1", servers(FIVE), "{" PLAIN "}", "ok");
    tear_down();
}
END_TEST

START_TEST(k9_takes_those_that_evict)
{
    set_up(THREE);
    crew_mark(THREE, "{}");
    for (int i = 0; i < THREE; i++) {
        (void)servers_command(i, "CONFIG", "SET", "maxmemory", "100mb", NULL);
        (void)servers_command(i, "CONFIG", "SET", "maxmemory-policy", "allkeys-random", NULL);
    }
    expect_acquire(NULL, servers(THREE), "{}", "misconfigured");
    expect_acquire("K9", servers(THREE), "{}", "ok");
    tear_down();
}
END_TEST

/* One client reaches the last two primaries, of which one has counted further; the next reaches the
 * first two. The second token. */
static int64_t token_after(const char *control)
{
    json_t *nodes = json_pack("[s, s, s]", servers_refused(), servers_uri(1), servers_uri(2));
    struct worker *first = start(control, nodes, "{}"), *second;
    int64_t before, after;

    (void)servers_command(2, "ZADD", "redlock:fence:{k}", "10", "n", NULL);
    before = crew_number(first, acquire_k, "fence");
    ck_assert_int_eq(before, 11);
    ck_assert_str_eq(crew_rc(first, release_k), "ok");
    end(first);
    nodes = json_pack("[s, s, s]", servers_uri(0), servers_uri(1), servers_refused());
    second = start(control, nodes, "{}");
    after = crew_number(second, acquire_k, "fence");
    ck_assert_str_eq(crew_rc(second, release_k), "ok");
    end(second);
    return after;
}

START_TEST(k10_goes_back)
{
    set_up(THREE);
    crew_mark(THREE, "{}");
    ck_assert_int_eq(token_after("K10"), 2);
    ck_assert_int_gt(token_after(NULL), 11);
    tear_down();
}
END_TEST

/* The script a client settles with is known to the server afterwards, by its text. */
extern const char redlock__settle_script[];

static bool knows_script(int server, const char *script)
{
    char hash[64];

    (void)snprintf(hash, sizeof hash, "%s", servers_command(0, "SCRIPT", "LOAD", script, NULL));
    return servers_command(server, "SCRIPT", "EXISTS", hash, NULL)[0] == '1';
}

static void expect_script(const char *control, const char *script, const char *other)
{
    struct worker *worker = start(control, servers(THREE), "{}");

    for (int i = 1; i < THREE; i++)
        (void)servers_command(i, "SCRIPT", "FLUSH", NULL);
    (void)servers_command(2, "ZADD", "redlock:fence:{k}", "0", "n", NULL);
    (void)servers_command(1, "ZADD", "redlock:fence:{k}", "100", "n", NULL);
    servers_kill(0);
    ck_assert_int_eq(crew_number(worker, acquire_k, "fence"), 101);
    servers_revive(0); /* to hash the text */
    ck_assert(knows_script(2, script));
    ck_assert(!knows_script(2, other));
    end(worker);
}

START_TEST(k11_settles_blindly)
{
    char blind[2048], *at;

    set_up(THREE);
    crew_mark(THREE, "{}");
    (void)snprintf(blind, sizeof blind, "%s", redlock__settle_script);
    at = strstr(blind, "return -1");
    ck_assert_ptr_nonnull(at);
    memcpy(at, "return  1", 9);
    if (_i == 0)
        expect_script("K11", blind, redlock__settle_script);
    else
        expect_script(NULL, redlock__settle_script, blind);
    tear_down();
}
END_TEST

/* Two of three are stopped while they are asked, and do it when they go on. How many keys stay. */
static int left_behind(const char *control)
{
    struct worker *worker = start(control, servers(THREE), "{\"ttl_ms\": 4000, " PLAIN "}");
    int left;

    servers_freeze(1);
    servers_freeze(2);
    ck_assert_str_eq(crew_rc(worker, acquire_k), "no_quorum");
    servers_thaw(1);
    servers_thaw(2);
    end(worker);
    left = servers_with_key("k");
    for (int i = 0; i < THREE; i++)
        (void)servers_command(i, "DEL", "k", NULL);
    return left;
}

START_TEST(k12_leaves_what_it_did_not_see)
{
    set_up(THREE);
    ck_assert_int_eq(left_behind(NULL), 0);
    ck_assert_int_eq(left_behind("K12"), 2);
    tear_down();
}
END_TEST

/* The answers come 600 ms late: how much validity is left. */
static int64_t validity_after_delay(const char *control)
{
    struct worker *worker =
        start(control, servers(THREE), "{\"ttl_ms\": 2000, \"node_timeout_ms\": 2000, " PLAIN "}");
    json_t *answer;
    int64_t validity_ms;

    for (int i = 0; i < THREE; i++)
        servers_freeze(i);
    ck_assert_int_eq(worker_ask(worker, json_loads(acquire_k, 0, NULL)), 0);
    (void)poll(NULL, 0, 600);
    for (int i = 0; i < THREE; i++)
        servers_thaw(i);
    answer = worker_answer(worker, STOP_MS);
    validity_ms = json_integer_value(json_object_get(answer, "validity_ms"));
    ck_assert_str_eq(json_string_value(json_object_get(answer, "rc")), "ok");
    json_decref(answer);
    ck_assert_str_eq(crew_rc(worker, release_k), "ok");
    end(worker);
    return validity_ms;
}

START_TEST(k13_forgets_the_way_there)
{
    set_up(THREE);
    ck_assert_int_lt(validity_after_delay(NULL), 2000 - 22 - 300);
    ck_assert_int_gt(validity_after_delay("K13"), 2000 - 22 - 300);
    tear_down();
}
END_TEST

/* Ten seconds pass in suspend: does it still believe? */
static bool believes_after_suspend(const char *control)
{
    char path[64], more[160];
    struct clock_plan *plan;
    struct worker *worker;
    bool held;

    (void)snprintf(path, sizeof path, "/tmp/redlock-crew-clock-%d", (int)getpid());
    (void)snprintf(more, sizeof more, "{\"clock\": \"%s\", \"ttl_ms\": 5000, " PLAIN "}", path);
    plan = clock_plan_create(path);
    ck_assert_ptr_nonnull(plan);
    worker = start(control, servers(THREE), more);
    ck_assert_str_eq(crew_rc(worker, acquire_k), "ok");
    clock_plan_offsets(plan, 0, INT64_C(10000000000));
    held = crew_true(worker, "{\"do\": \"check\", \"lock\": 1}", "held");
    (void)crew_rc(worker, release_k);
    end(worker);
    clock_plan_close(plan);
    (void)unlink(path);
    return held;
}

START_TEST(k14_sleeps_through_the_end)
{
    set_up(THREE);
    ck_assert(!believes_after_suspend(NULL));
    ck_assert(believes_after_suspend("K14"));
    tear_down();
}
END_TEST

static json_t *twins(void)
{
    char twin[64];

    (void)snprintf(twin, sizeof twin, "redis://localhost:%d", servers_port(0));
    return json_pack("[s, s, s]", servers_uri(0), twin, servers_uri(1));
}

START_TEST(k15_takes_one_server_for_two)
{
    set_up(2);
    expect_acquire(NULL, twins(), "{" PLAIN "}", "misconfigured");
    expect_acquire("K15", twins(), "{" PLAIN "}", "ok");
    tear_down();
}
END_TEST

/* ---- K17 ------------------------------------------------------------------------ */

/* The port from which the server's client of that name has come. */
static int client_port(const char *name)
{
    const char *list = servers_command(0, "CLIENT", "LIST", NULL);
    char wanted[64];
    const char *line = list, *at, *address = NULL;
    int port = 0;

    (void)snprintf(wanted, sizeof wanted, " name=%s ", name);
    at = strstr(list, wanted);
    ck_assert_ptr_nonnull(at);
    while ((line = strstr(line, " addr=")) != NULL && line < at)
        address = line++;
    ck_assert_ptr_nonnull(address);
    ck_assert_int_eq(sscanf(address, " addr=127.0.0.1:%d", &port), 1);
    return port;
}

/* What the kernel knows of the server's end of that connection; 0: nothing any more. */
static unsigned tcp_state(int local, int remote)
{
    FILE *file = fopen("/proc/net/tcp", "re");
    char line[512];
    unsigned state = 0;

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned from, to, found;
        if (sscanf(line, " %*d: %*8x:%x %*8x:%x %x", &from, &to, &found) == 3 &&
            from == (unsigned)local && to == (unsigned)remote)
            state = found;
    }
    (void)fclose(file);
    return state;
}

/* A server is stopped with an unanswered request, until the client gives the connection up. */
static unsigned state_when_given_up(const char *control)
{
    enum {
        ESTABLISHED = 1
    };
    struct worker *worker = start(control, servers(1), "{" PLAIN "}");
    int port = client_port(control != NULL ? control : "real");
    unsigned state;

    servers_freeze(0);
    ck_assert_str_eq(crew_rc(worker, acquire_k), "no_quorum");
    AWAIT((state = tcp_state(servers_port(0), port)) != ESTABLISHED);
    servers_thaw(0);
    end(worker);
    return state;
}

START_TEST(k17_lets_go_without_a_reset)
{
    enum {
        CLOSE_WAIT = 8
    };

    set_up(1);
    ck_assert_uint_ne(state_when_given_up(NULL), CLOSE_WAIT);
    ck_assert_uint_eq(state_when_given_up("K17"), CLOSE_WAIT);
    tear_down();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("controls");
    TCase *tcase = tcase_create("controls");

    tcase_set_timeout(tcase, TIMEOUT_S);
    tcase_add_test(tcase, k1_takes_two_of_five);
    tcase_add_test(tcase, k9_takes_those_that_evict);
    tcase_add_test(tcase, k10_goes_back);
    tcase_add_loop_test(tcase, k11_settles_blindly, 0, 2);
    tcase_add_test(tcase, k12_leaves_what_it_did_not_see);
    tcase_add_test(tcase, k13_forgets_the_way_there);
    tcase_add_test(tcase, k14_sleeps_through_the_end);
    tcase_add_test(tcase, k15_takes_one_server_for_two);
    tcase_add_test(tcase, k17_lets_go_without_a_reset);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    (void)setenv("REDLOCK_CHAOS_CONTROL", redlock_chaos_control_path, 1);
    return crew_main(argc, argv, make_suite);
}
