/* Workers whose locks another program takes: the two examples, and peers that don't behave. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"

enum {
    STOP_MS = 20000,
    TIMEOUT_S = 120
};

#define PEERS REDLOCK_SOURCE_DIR "/tools/chaos/peers/"

static const char single[] = "{\"peer\": [\"python3\", \"" PEERS "single.py\"], \"ttl_ms\": 500}";
static const char naive[] = "{\"peer\": [\"python3\", \"" PEERS "naive.py\"], \"ttl_ms\": 500}";
static const char acquire_k[] = "{\"do\": \"acquire\", \"name\": \"k\"}";
static const char release_k[] = "{\"do\": \"release\", \"lock\": 1}";
static const char check_k[] = "{\"do\": \"check\", \"lock\": 1}";

static void set_up(void)
{
    servers_start(1);
    crew_open();
}

static void tear_down(void)
{
    crew_close();
    servers_stop();
}

/* A peer that is a shell script. */
static json_t *script(const char *worker, const char *role, const char *text)
{
    json_t *spec = crew_spec(worker, role, 1, "{}");

    (void)json_object_set_new(spec, "peer", json_pack("[s, s, s]", "sh", "-c", text));
    return spec;
}

START_TEST(examples_lock)
{
    struct worker *worker = crew_actor("a", 1, _i == 0 ? single : naive);
    json_t *answer = crew_do(worker, acquire_k);
    const char *owner = json_string_value(json_object_get(answer, "owner"));

    ck_assert_str_eq(json_string_value(json_object_get(answer, "rc")), "ok");
    ck_assert_uint_eq(strlen(owner), 16);
    ck_assert_int_eq(strncmp(servers_command(0, "GET", "k", NULL), owner, 16), 0);
    ck_assert_int_gt(json_integer_value(json_object_get(answer, "validity_ms")), 300);
    json_decref(answer);
    ck_assert(crew_true(worker, check_k, "held"));
    ck_assert_str_eq(crew_rc(worker, "{\"do\": \"extend\", \"lock\": 1, \"ttl_ms\": 900}"), "ok");
    ck_assert_int_gt(crew_number(worker, check_k, "remaining_ms"), 500);
    ck_assert_str_eq(crew_rc(worker, acquire_k), "busy");
    ck_assert_str_eq(crew_rc(worker, release_k), "ok");
    ck_assert_int_eq(servers_with_key("k"), 0);
    ck_assert_ptr_nonnull(json_string_value(
        json_object_get(answer = crew_do(worker, "{\"do\": \"health\"}"), "error")));
    json_decref(answer);
    ck_assert_int_eq(worker_stop(worker, STOP_MS), 0);
}
END_TEST

/* The lock is another's when the first lets go: one of the two looks. */
START_TEST(only_one_of_them_removes_what_is_not_its_own)
{
    struct worker *worker = crew_actor("a", 1, _i == 0 ? single : naive);

    ck_assert_str_eq(crew_rc(worker, acquire_k), "ok");
    (void)servers_command(0, "SET", "k", "another's", NULL);
    ck_assert_str_eq(crew_rc(worker, release_k), _i == 0 ? "lost" : "ok");
    ck_assert_int_eq(servers_with_key("k"), _i == 0);
    ck_assert_int_eq(worker_stop(worker, STOP_MS), 0);
}
END_TEST

START_TEST(contenders_with_a_peer)
{
    struct worker *workers[2];

    for (int i = 0; i < 2; i++)
        workers[i] = crew_start(crew_spec(i == 0 ? "a" : "b", "contender", 1, single));
    AWAIT(crew_count("{\"type\": \"leave\"}") >= 10);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(worker_stop(workers[i], STOP_MS), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"enter\", \"ok\": false}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"leave\", \"lost_update\": true}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"write\", \"fenced\": true}"), 0);
    ck_assert_int_gt(crew_count("{\"type\": \"write\", \"fenced\": false, \"stale\": false}"), 0);
    ck_assert_int_eq(crew_count("{\"type\": \"error\"}"), 0);
    ck_assert_int_eq(servers_with_key("a"), 0);
}
END_TEST

START_TEST(without_its_server_it_says_so)
{
    struct worker *worker = crew_actor("a", 1, _i == 0 ? single : naive);
    json_t *answer;

    servers_kill(0);
    answer = crew_do(worker, acquire_k);
    ck_assert_str_eq(json_string_value(json_object_get(answer, "rc")), "error");
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(answer, "text")), "refused"));
    json_decref(answer);
    servers_revive(0);
    ck_assert_str_eq(crew_rc(worker, acquire_k), "ok");
    ck_assert_int_eq(worker_stop(worker, STOP_MS), 0);
}
END_TEST

/* The peer is frozen and killed with its worker. */
START_TEST(it_shares_its_workers_fate)
{
    struct worker *worker = crew_start(script("a", "actor",
                                              "read nodes; echo ok 0; (while sleep 0.01; do echo "
                                              ">>/tmp/redlock-crew-$PPID; done) & cat"));
    char path[64];
    long before;
    FILE *file;

    (void)snprintf(path, sizeof path, "/tmp/redlock-crew-%d", (int)worker_pid(worker));
    AWAIT(access(path, F_OK) == 0);
    for (int i = 0; i < 2; i++) {
        if (i == 0)
            worker_freeze(worker);
        else
            worker_kill(worker);
        file = fopen(path, "re");
        ck_assert_ptr_nonnull(file);
        (void)fseek(file, 0, SEEK_END);
        before = ftell(file);
        (void)poll(NULL, 0, 100);
        (void)fseek(file, 0, SEEK_END);
        ck_assert_int_eq(ftell(file), before);
        (void)fclose(file);
        if (i == 0)
            worker_thaw(worker);
    }
    (void)unlink(path);
}
END_TEST

static void expect_failure(struct worker *worker, const char *text)
{
    json_t *records, *record;
    size_t i;
    int found = 0;

    AWAIT(!worker_runs(worker));
    records = crew_records();
    json_array_foreach(records, i, record)
    {
        const char *is = json_string_value(json_object_get(record, "text"));
        const char *type = json_string_value(json_object_get(record, "type"));
        found += strcmp(type, "error") == 0 && strstr(is, text) != NULL;
    }
    json_decref(records);
    ck_assert_int_eq(found, 1);
    ck_assert_int_eq(crew_count("{\"type\": \"gone\", \"how\": \"failed\"}"), 1);
}

START_TEST(a_silent_one_fails_its_worker)
{
    expect_failure(
        crew_start(script("a", "prober", "read nodes; echo ok 0; while read line; do :; done")),
        "peer sh: no answer within 5000 ms to: acquire 1 a 1000 0");
}
END_TEST

START_TEST(so_does_one_that_ends)
{
    expect_failure(crew_start(script("a", "prober", "read nodes; echo ok 0; read line")),
                   "peer sh: gone");
}
END_TEST

START_TEST(so_does_one_that_answers_something_else)
{
    static const char *const answers[] = {"ok 2", "ok", "ok x", "fine 1", ""};
    char text[128];

    (void)snprintf(text, sizeof text, "read nodes; echo ok 0; read line; echo %s; cat",
                   answers[_i]);
    expect_failure(crew_start(script("a", "prober", text)),
                   _i == 3 ? "unknown answer fine" : "not an answer to 1");
}
END_TEST

START_TEST(one_that_cannot_start_says_why)
{
    ck_assert_ptr_null(worker_start(
        crew_workers(), crew_spec("a", "actor", 1, "{\"peer\": [\"/no/such/program\"]}")));
    ck_assert_ptr_nonnull(strstr(worker_error(crew_workers()), "peer /no/such/program: gone"));
    ck_assert_ptr_null(worker_start(
        crew_workers(), script("b", "actor", "read nodes; echo error 0 too many; cat")));
    ck_assert_ptr_nonnull(strstr(worker_error(crew_workers()), "nodes refused: too many"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("peers");
    TCase *tcase = tcase_create("peers");

    tcase_set_timeout(tcase, TIMEOUT_S);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, examples_lock, 0, 2);
    tcase_add_loop_test(tcase, only_one_of_them_removes_what_is_not_its_own, 0, 2);
    tcase_add_test(tcase, contenders_with_a_peer);
    tcase_add_loop_test(tcase, without_its_server_it_says_so, 0, 2);
    tcase_add_test(tcase, it_shares_its_workers_fate);
    tcase_add_test(tcase, a_silent_one_fails_its_worker);
    tcase_add_test(tcase, so_does_one_that_ends);
    tcase_add_loop_test(tcase, so_does_one_that_answers_something_else, 0, 5);
    tcase_add_test(tcase, one_that_cannot_start_says_why);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(int argc, char **argv)
{
    return crew_main(argc, argv, make_suite);
}
