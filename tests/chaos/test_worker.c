/* Workers on real servers: what they tell, what they do when told, how they end. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock_plan.h"
#include "crew.h"
#include "history.h"
#include "shared.h"

enum {
    SERVERS = 3,
    STOP_MS = 20000,
    TIMEOUT_S = 120
};

static void set_up(void)
{
    servers_start(SERVERS);
    crew_open();
}

static void tear_down(void)
{
    crew_close();
    servers_stop();
}

static int64_t number_of(const json_t *record, const char *key)
{
    return json_integer_value(json_object_get(record, key));
}

static const char *text_of(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));

    return text != NULL ? text : "";
}

static bool is(const json_t *record, const char *key, const char *text)
{
    return strcmp(text_of(record, key), text) == 0;
}

static void stop(struct worker *worker)
{
    ck_assert_int_eq(worker_stop(worker, STOP_MS), 0);
    ck_assert(!worker_runs(worker));
}

/* ---- contenders and probers -------------------------------------------------- */

/* Each invoke is followed by its return, with a later time; leases are within what was asked. */
static void check_calls(json_t *records, const char *worker)
{
    json_t *record, *open = NULL;
    size_t i;

    json_array_foreach(records, i, record)
    {
        if (!is(record, "worker", worker))
            continue;
        if (is(record, "type", "invoke")) {
            ck_assert_ptr_null(open);
            open = record;
        } else if (is(record, "type", "return")) {
            ck_assert_ptr_nonnull(open);
            ck_assert_str_eq(text_of(open, "op"), text_of(record, "op"));
            ck_assert_int_eq(number_of(open, "try"), number_of(record, "try"));
            ck_assert_int_le(number_of(open, "t"), number_of(record, "t"));
            ck_assert_uint_eq(json_array_size(json_object_get(record, "node")), SERVERS);
            if (is(record, "rc", "ok") && !is(record, "op", "release")) {
                int64_t most_ns = number_of(open, "t") + number_of(open, "ttl_ms") * 1000000;
                int64_t slack_ns = number_of(record, "t") - number_of(open, "t") + 20000000;
                int64_t deadline_ns = number_of(record, "deadline_ns");
                ck_assert_uint_eq(strlen(text_of(record, "owner")), 16);
                ck_assert_int_gt(number_of(record, "fence"), 0);
                ck_assert_int_le(deadline_ns, most_ns + slack_ns);
                ck_assert_int_gt(deadline_ns, number_of(record, "t"));
                ck_assert_int_gt(number_of(record, "validity_ms"), 0);
            }
            open = NULL;
        }
    }
    ck_assert_ptr_null(open);
}

/* No two overlap, by the history's order of what each tells about the moments inside. */
static void check_fences(json_t *records)
{
    json_t *record;
    size_t i;
    int64_t last = 0, last_t = 0;

    json_array_foreach(records, i, record)
    {
        if (!is(record, "type", "write") || !json_is_true(json_object_get(record, "fenced")))
            continue;
        if (number_of(record, "t") > last_t) {
            ck_assert_int_ge(number_of(record, "fence"), last);
            last = number_of(record, "fence");
            last_t = number_of(record, "t");
        }
    }
    ck_assert_int_gt(last, 1);
}

static int64_t hygiene(json_t *records, const char *worker, const char *when, const char *what)
{
    json_t *record;
    size_t i;

    json_array_foreach(records, i, record)
    {
        if (is(record, "type", "hygiene") && is(record, "worker", worker) &&
            is(record, "when", when))
            return number_of(record, what);
    }
    ck_abort_msg("%s: no hygiene at its %s", worker, when);
    return 0;
}

START_TEST(contenders_and_a_prober_tell_what_they_do)
{
    const char *more = "{\"seed\": 42, \"renew\": 0.2, \"ttl_ms\": 400}";
    struct worker *workers[3];
    json_t *records;

    crew_mark(SERVERS, "{\"ttl_ms\": 400}");
    workers[0] = crew_start(crew_spec("w1", "contender", SERVERS, more));
    workers[1] = crew_start(crew_spec("w2", "contender", SERVERS, more));
    workers[2] = crew_start(crew_spec("p1", "prober", SERVERS,
                                      "{\"ttl_ms\": 400, \"names\": [\"p\"], \"every_ms\": 20}"));
    AWAIT(crew_count("{\"type\": \"leave\"}") >= 12 &&
          crew_count("{\"type\": \"event\", \"event\": \"renewed\"}") > 0);
    for (int i = 0; i < 3; i++)
        stop(workers[i]);
    records = crew_records();
    check_calls(records, "w1");
    check_calls(records, "w2");
    check_calls(records, "p1");
    check_fences(records);
    for (int i = 0; i < 3; i++) {
        const char *name = worker_name(workers[i]);
        ck_assert_int_eq(hygiene(records, name, "begin", "threads"),
                         hygiene(records, name, "end", "threads"));
        /* Its client may have one more while it waits for a lock. */
        ck_assert_int_le(hygiene(records, name, "end", "fds"),
                         hygiene(records, name, "begin", "fds") + 1);
        ck_assert_int_gt(hygiene(records, name, "end", "rss_kb"), 100);
    }
    json_decref(records);
    ck_assert_int_eq(crew_count("{\"type\": \"enter\", \"ok\": false}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"leave\", \"ok\": false}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"leave\", \"lost_update\": true}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"enter\"}"), crew_count("{\"type\": \"leave\"}"));
    ck_assert_int_eq(crew_count("{\"type\": \"write\", \"stale\": true}"), 0);
    ck_assert_int_gt(crew_count("{\"type\": \"write\", \"fenced\": false, \"believed\": true}"), 0);
    ck_assert_int_gt(crew_count("{\"worker\": \"p1\", \"op\": \"acquire\", \"rc\": \"ok\"}"), 5);
    ck_assert_int_eq(crew_count("{\"type\": \"enter\", \"worker\": \"p1\"}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"worker\"}"), 4);
    ck_assert_int_eq(crew_count("{\"type\": \"count\"}"), 4);
    ck_assert_int_eq(crew_count("{\"type\": \"gone\", \"how\": \"left\", \"text\": \"\"}"), 4);
    ck_assert_int_eq(crew_count("{\"type\": \"error\"}"), 0);
    ck_assert_int_eq(servers_with_key("a"), 0);
}
END_TEST

START_TEST(paused_ones_begin_nothing)
{
    struct worker *worker = crew_start(
        crew_spec("p1", "prober", SERVERS, "{\"guard_ms\": 0, \"fence\": false, \"every_ms\": 5}"));
    int before;

    ck_assert(crew_true(worker, "{\"do\": \"pause\"}", "ok"));
    ck_assert(crew_true(worker, "{\"do\": \"pause\"}", "ok"));
    (void)poll(NULL, 0, 100); /* what had begun ends */
    before = crew_count("{\"type\": \"invoke\"}");
    (void)poll(NULL, 0, 100);
    ck_assert_int_eq(crew_count("{\"type\": \"invoke\"}"), before);
    ck_assert(crew_true(worker, "{\"do\": \"resume\"}", "ok"));
    AWAIT(crew_count("{\"type\": \"invoke\"}") > before + 2);
    ck_assert(!crew_true(worker, "{\"do\": \"health\"}", "ok"));
    stop(worker);
}
END_TEST

START_TEST(without_servers_they_go_on_and_say_why)
{
    json_t *spec = crew_spec("w1", "contender", 0, "{\"fence\": false, \"wait_ms\": 100}");
    json_t *nodes =
        json_pack("[s, s, s]", servers_refused(), servers_black_hole(), "redis://127.0.0.1:1");
    struct worker *worker;
    json_t *records, *record;
    size_t i;

    (void)json_object_set_new(spec, "nodes", nodes);
    worker = crew_start(spec);
    AWAIT(crew_count("{\"type\": \"return\", \"rc\": \"no_quorum\"}") >= 3);
    stop(worker);
    records = crew_records();
    json_array_foreach(records, i, record)
    {
        const json_t *first = json_array_get(json_object_get(record, "node"), 0);
        if (!is(record, "type", "return") || !is(record, "rc", "no_quorum"))
            continue;
        ck_assert_int_eq(number_of(first, "node"), 1);
        ck_assert_str_eq(text_of(first, "vote"), "down");
        ck_assert_str_ne(text_of(first, "text"), "");
    }
    json_decref(records);
    ck_assert_int_eq(crew_count("{\"type\": \"enter\"}"), 0);
}
END_TEST

START_TEST(what_cannot_start_says_why)
{
    ck_assert_ptr_null(worker_start(crew_workers(), crew_spec("w1", "idler", SERVERS, "{}")));
    ck_assert_ptr_nonnull(strstr(worker_error(crew_workers()), "role"));
    ck_assert_ptr_null(
        worker_start(crew_workers(), crew_spec("w2", "actor", SERVERS, "{\"quorum\": 1}")));
    ck_assert_ptr_nonnull(strstr(worker_error(crew_workers()), "quorum"));
    ck_assert_ptr_null(worker_start(crew_workers(), crew_spec("w3", "actor", 0, "{}")));
    ck_assert_ptr_null(
        worker_start(crew_workers(), crew_spec("w4", "actor", SERVERS, "{\"control\": \"K99\"}")));
    ck_assert_int_eq(crew_count("{\"type\": \"gone\", \"how\": \"failed\"}"), 4);
    ck_assert_ptr_nonnull(crew_actor("w5", SERVERS, "{\"fence\": false}"));
    ck_assert_str_eq(worker_error(crew_workers()), "");
}
END_TEST

/* ---- actors ------------------------------------------------------------------ */

START_TEST(an_actor_does_as_it_is_told)
{
    struct worker *actor = crew_actor("x", SERVERS, "{}");
    json_t *answer, *nodes;
    int64_t t, deadline_ns;

    ck_assert_str_eq(crew_rc(actor, "{\"do\": \"acquire\", \"name\": \"a\"}"), "misconfigured");
    ck_assert_str_eq(crew_rc(actor, "{\"do\": \"init\"}"), "ok");
    answer = crew_do(actor, "{\"do\": \"acquire\", \"name\": \"a\", \"ttl_ms\": 900}");
    ck_assert_str_eq(text_of(answer, "rc"), "ok");
    ck_assert_int_eq(number_of(answer, "lock"), 2);
    ck_assert_int_eq(number_of(answer, "attempts"), 1);
    ck_assert_int_eq(strncmp(servers_command(0, "GET", "a", NULL), text_of(answer, "owner"), 16),
                     0);
    t = number_of(answer, "t");
    deadline_ns = number_of(answer, "deadline_ns");
    ck_assert_int_le(deadline_ns, t + 900 * INT64_C(1000000));
    ck_assert_int_gt(deadline_ns, t);
    json_decref(answer);
    answer = crew_do(actor, "{\"do\": \"check\", \"lock\": 2}");
    ck_assert(json_is_true(json_object_get(answer, "held")));
    ck_assert_int_le(llabs(number_of(answer, "deadline_ns") - deadline_ns), 200000);
    json_decref(answer);
    ck_assert(crew_true(actor, "{\"do\": \"enter\", \"lock\": 2}", "ok"));
    answer = crew_do(actor, "{\"do\": \"write\", \"lock\": 2}");
    ck_assert(json_is_true(json_object_get(json_object_get(answer, "plain"), "accepted")));
    ck_assert(json_is_true(json_object_get(json_object_get(answer, "fenced"), "accepted")));
    json_decref(answer);
    ck_assert_str_eq(crew_rc(actor, "{\"do\": \"extend\", \"lock\": 2, \"ttl_ms\": 1000}"), "ok");
    ck_assert(crew_true(actor, "{\"do\": \"leave\", \"lock\": 2}", "ok"));
    ck_assert_str_eq(crew_rc(actor, "{\"do\": \"release\", \"lock\": 2}"), "ok");
    answer = crew_do(actor, "{\"do\": \"health\"}");
    nodes = json_object_get(answer, "nodes");
    ck_assert_uint_eq(json_array_size(nodes), SERVERS);
    ck_assert_str_eq(text_of(json_array_get(nodes, 0), "standing"), "counts");
    json_decref(answer);
    answer = crew_do(actor, "{\"do\": \"check\", \"lock\": 2}");
    ck_assert_str_eq(text_of(answer, "error"), "no such lock");
    json_decref(answer);
    answer = crew_do(actor, "{\"do\": \"dance\"}");
    ck_assert_str_eq(text_of(answer, "error"), "no such command");
    json_decref(answer);
    stop(actor);
}
END_TEST

START_TEST(an_actor_polls_and_is_answered_later)
{
    struct worker *a, *b;
    json_t *answer;

    crew_mark(SERVERS, "{}");
    a = crew_actor("a", SERVERS, "{}");
    b = crew_actor("b", SERVERS, "{}");
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"acquire\", \"name\": \"k\"}"), "ok");
    ck_assert_str_eq(crew_rc(b, "{\"do\": \"poll\", \"name\": \"k\", \"every_ms\": 10,"
                                " \"until_ms\": 30}"),
                     "busy");
    ck_assert_int_eq(worker_ask(b, json_pack("{s:s, s:s, s:i, s:i}", "do", "poll", "name", "k",
                                             "every_ms", 10, "until_ms", 10000)),
                     0);
    ck_assert_ptr_null(worker_answer(b, 50));
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"release\", \"lock\": 1}"), "ok");
    answer = worker_answer(b, 5000);
    ck_assert_str_eq(text_of(answer, "rc"), "ok");
    ck_assert_int_gt(number_of(answer, "lock"), 1);
    json_decref(answer);
    /* Nobody releases that one; to be stopped, a doesn't wait for it any more. */
    ck_assert_int_eq(worker_ask(a, json_pack("{s:s, s:s, s:i, s:i}", "do", "acquire", "name", "k",
                                             "wait_ms", 600000, "ttl_ms", 1000)),
                     0);
    ck_assert_ptr_null(worker_answer(a, 20));
    stop(a);
    stop(b);
    ck_assert_int_eq(servers_with_key("k"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"gone\", \"how\": \"left\"}"), 3);
}
END_TEST

/* ---- freezing, killing ---------------------------------------------------------- */

START_TEST(one_that_was_frozen_knows_that_it_is_over)
{
    struct worker *a, *b;
    json_t *answer;

    crew_mark(SERVERS, "{\"ttl_ms\": 300}");
    a = crew_actor("a", SERVERS, "{\"ttl_ms\": 300}");
    b = crew_actor("b", SERVERS, "{\"ttl_ms\": 300}");
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"acquire\", \"name\": \"k\"}"), "ok");
    worker_freeze(a);
    worker_freeze(a);
    ck_assert_str_eq(crew_rc(b, "{\"do\": \"poll\", \"name\": \"k\", \"every_ms\": 20}"), "ok");
    ck_assert_int_eq(crew_count("{\"type\": \"check\", \"worker\": \"a\"}"), 0);
    worker_thaw(a);
    ck_assert(!crew_true(a, "{\"do\": \"check\", \"lock\": 1}", "held"));
    AWAIT(crew_count("{\"type\": \"check\", \"worker\": \"a\", \"held\": false}") == 1);
    answer = crew_do(a, "{\"do\": \"write\", \"lock\": 1}");
    ck_assert(json_is_null(json_object_get(answer, "plain")));
    json_decref(answer);
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"release\", \"lock\": 1}"), "expired");
    stop(a);
    stop(b);
}
END_TEST

START_TEST(a_blind_one_does_the_harm_that_fencing_prevents)
{
    struct worker *a, *b;
    json_t *answer, *command;

    crew_mark(SERVERS, "{\"ttl_ms\": 300}");
    a = crew_actor("a", SERVERS, "{\"ttl_ms\": 300, \"blind\": true}");
    b = crew_actor("b", SERVERS, "{\"ttl_ms\": 300, \"blind\": true}");
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"acquire\", \"name\": \"k\"}"), "ok");
    worker_freeze(a);
    answer = crew_do(b, "{\"do\": \"poll\", \"name\": \"k\", \"every_ms\": 20}");
    ck_assert_str_eq(text_of(answer, "rc"), "ok");
    command = json_pack("{s:s, s:I}", "do", "write", "lock", (json_int_t)number_of(answer, "lock"));
    json_decref(answer);
    answer = worker_do(b, command, STOP_MS);
    ck_assert(json_is_false(json_object_get(json_object_get(answer, "plain"), "stale")));
    json_decref(answer);
    worker_thaw(a);
    answer = crew_do(a, "{\"do\": \"write\", \"lock\": 1}");
    ck_assert(json_is_true(json_object_get(json_object_get(answer, "plain"), "stale")));
    ck_assert(json_is_true(json_object_get(json_object_get(answer, "plain"), "accepted")));
    ck_assert(json_is_false(json_object_get(json_object_get(answer, "fenced"), "accepted")));
    json_decref(answer);
    stop(a);
    stop(b);
}
END_TEST

START_TEST(the_killed_leave_no_witness)
{
    struct worker *a, *b;
    pid_t pid;

    crew_mark(SERVERS, "{}");
    a = crew_actor("a", SERVERS, "{}");
    b = crew_actor("b", SERVERS, "{}");
    pid = worker_pid(a);
    ck_assert_str_eq(crew_rc(a, "{\"do\": \"acquire\", \"name\": \"k\"}"), "ok");
    ck_assert(crew_true(a, "{\"do\": \"enter\", \"lock\": 1}", "ok"));
    worker_freeze(a);
    worker_kill(a);
    ck_assert(!worker_runs(a));
    ck_assert_int_eq(kill(pid, 0), -1);
    ck_assert_int_eq(crew_count("{\"type\": \"gone\", \"worker\": \"a\", \"how\": \"killed\"}"), 1);
    ck_assert_ptr_null(worker_do(a, json_pack("{s:s}", "do", "health"), 100));
    ck_assert_int_gt(servers_with_key("k"), 0);
    ck_assert_str_eq(crew_rc(b, "{\"do\": \"acquire\", \"name\": \"k\", \"wait_ms\": 5000}"), "ok");
    ck_assert(crew_true(b, "{\"do\": \"enter\", \"lock\": 1}", "ok"));
    stop(b);
    ck_assert_int_eq(worker_stop(a, 100), -1);
}
END_TEST

START_TEST(one_that_dies_by_itself_has_failed)
{
    struct worker *worker = crew_actor("a", SERVERS, "{\"fence\": false}");

    ck_assert_int_eq(kill(worker_pid(worker), SIGTERM), 0);
    AWAIT(!worker_runs(worker));
    ck_assert_int_eq(
        crew_count("{\"type\": \"gone\", \"how\": \"failed\", \"text\": \"signal 15\"}"), 1);
}
END_TEST

/* ---- clocks --------------------------------------------------------------------- */

START_TEST(a_suspended_one_has_lost_its_time)
{
    char path[64], more[160];
    struct clock_plan *plan;
    struct worker *actor;
    json_t *answer;

    (void)snprintf(path, sizeof path, "/tmp/redlock-crew-clock-%d", (int)getpid());
    (void)snprintf(more, sizeof more,
                   "{\"clock\": \"%s\", \"fence\": false, \"guard_ms\": 0, \"ttl_ms\": 5000}",
                   path);
    plan = clock_plan_create(path);
    ck_assert_ptr_nonnull(plan);
    clock_plan_offsets(plan, 0, INT64_C(3600) * 1000000000);
    actor = crew_actor("a", SERVERS, more);
    answer = crew_do(actor, "{\"do\": \"acquire\", \"name\": \"k\"}");
    ck_assert_str_eq(text_of(answer, "rc"), "ok");
    ck_assert_int_lt(number_of(answer, "deadline_ns"), history_now() + 5000 * INT64_C(1000000));
    ck_assert_int_gt(number_of(answer, "deadline_ns"), history_now());
    json_decref(answer);
    ck_assert(crew_true(actor, "{\"do\": \"check\", \"lock\": 1}", "held"));
    clock_plan_offsets(plan, 0, INT64_C(3610) * 1000000000);
    ck_assert(!crew_true(actor, "{\"do\": \"check\", \"lock\": 1}", "held"));
    stop(actor);
    clock_plan_close(plan);
    (void)unlink(path);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("worker");
    TCase *tcase = tcase_create("worker");

    tcase_set_timeout(tcase, TIMEOUT_S);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, contenders_and_a_prober_tell_what_they_do);
    tcase_add_test(tcase, paused_ones_begin_nothing);
    tcase_add_test(tcase, without_servers_they_go_on_and_say_why);
    tcase_add_test(tcase, what_cannot_start_says_why);
    tcase_add_test(tcase, an_actor_does_as_it_is_told);
    tcase_add_test(tcase, an_actor_polls_and_is_answered_later);
    tcase_add_test(tcase, one_that_was_frozen_knows_that_it_is_over);
    tcase_add_test(tcase, a_blind_one_does_the_harm_that_fencing_prevents);
    tcase_add_test(tcase, the_killed_leave_no_witness);
    tcase_add_test(tcase, one_that_dies_by_itself_has_failed);
    tcase_add_test(tcase, a_suspended_one_has_lost_its_time);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
#ifdef redlock_chaos_control_path
    (void)setenv("REDLOCK_CHAOS_CONTROL", redlock_chaos_control_path, 1);
#endif
    return crew_main(argc, argv, make_suite);
}
