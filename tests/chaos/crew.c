/* See crew.h. */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history.h"

enum {
    ANSWER_MS = 20000
};

static struct {
    struct history *history;
    struct workers *workers;
    char path[64];
    int number;
    pthread_mutex_t mutex;
    json_t *records;
} crew = {.mutex = PTHREAD_MUTEX_INITIALIZER};

int crew_main(int argc, char **argv, Suite *(*suite)(void))
{
    SRunner *runner;
    int failed;

    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return worker_main(argv[2]);
    runner = srunner_create(suite());
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    json_decref(crew.records);
    return failed != 0;
}

static void keep(void *context, const json_t *record)
{
    (void)context;
    pthread_mutex_lock(&crew.mutex);
    (void)json_array_append_new(crew.records, json_deep_copy(record));
    pthread_mutex_unlock(&crew.mutex);
}

void crew_open(void)
{
    json_decref(crew.records);
    crew.records = json_array();
    crew.number = 0;
    (void)snprintf(crew.path, sizeof crew.path, "/tmp/redlock-crew-%d.jsonl", (int)getpid());
    (void)unlink(crew.path);
    crew.history = history_create(crew.path);
    ck_assert_ptr_nonnull(crew.history);
    history_listen(crew.history, keep, NULL);
    crew.workers = workers_new(crew.history);
    ck_assert_ptr_nonnull(crew.workers);
}

void crew_close(void)
{
    workers_free(crew.workers);
    ck_assert_int_eq(history_close(crew.history), 0);
    (void)unlink(crew.path);
    crew.workers = NULL;
}

struct workers *crew_workers(void)
{
    return crew.workers;
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, 0, &error);

    ck_assert_msg(json != NULL, "%s: %s", text, error.text);
    return json;
}

json_t *crew_spec(const char *worker, const char *role, int n, const char *more)
{
    json_t *nodes = json_array(), *spec, *over = parse(more);

    for (int i = 0; i < n; i++)
        (void)json_array_append_new(nodes, json_string(servers_uri(i)));
    /* A node timeout that no busy machine needs: what is tested here is not how fast it is. */
    spec = json_pack("{s:s, s:i, s:s, s:s, s:o, s:[s], s:i, s:i}", "worker", worker, "number",
                     ++crew.number, "role", role, "group", "P", "nodes", nodes, "names", "a",
                     "ttl_ms", 1000, "node_timeout_ms", 2000);
    (void)json_object_update(spec, over);
    json_decref(over);
    return spec;
}

struct worker *crew_start(json_t *spec)
{
    struct worker *worker = worker_start(crew.workers, spec);

    ck_assert_msg(worker != NULL, "%s", worker_error(crew.workers));
    return worker;
}

struct worker *crew_actor(const char *worker, int n, const char *more)
{
    return crew_start(crew_spec(worker, "actor", n, more));
}

json_t *crew_do(struct worker *worker, const char *command)
{
    json_t *answer = worker_do(worker, parse(command), ANSWER_MS);

    ck_assert_msg(answer != NULL, "%s: no answer to %s", worker_name(worker), command);
    return answer;
}

const char *crew_rc(struct worker *worker, const char *command)
{
    static char rc[32];
    json_t *answer = crew_do(worker, command);
    const char *text = json_string_value(json_object_get(answer, "rc"));

    (void)snprintf(rc, sizeof rc, "%s", text != NULL ? text : "");
    json_decref(answer);
    return rc;
}

bool crew_true(struct worker *worker, const char *command, const char *key)
{
    json_t *answer = crew_do(worker, command);
    bool truth = json_is_true(json_object_get(answer, key));

    json_decref(answer);
    return truth;
}

int64_t crew_number(struct worker *worker, const char *command, const char *key)
{
    json_t *answer = crew_do(worker, command);
    int64_t number = json_integer_value(json_object_get(answer, key));

    json_decref(answer);
    return number;
}

void crew_mark(int n, const char *more)
{
    struct worker *worker = crew_actor("marker", n, more);
    const char *rc = crew_rc(worker, "{\"do\": \"init\"}");

    ck_assert_str_eq(rc, "ok");
    ck_assert_int_eq(worker_stop(worker, ANSWER_MS), 0);
}

json_t *crew_records(void)
{
    json_t *copy;

    pthread_mutex_lock(&crew.mutex);
    copy = json_deep_copy(crew.records);
    pthread_mutex_unlock(&crew.mutex);
    return copy;
}

static bool is_like(json_t *record, json_t *like)
{
    const char *key;
    json_t *value;

    json_object_foreach(like, key, value)
    {
        if (!json_equal(json_object_get(record, key), value))
            return false;
    }
    return true;
}

int crew_count(const char *text)
{
    json_t *like = parse(text), *records = crew_records(), *record;
    size_t i;
    int count = 0;

    json_array_foreach(records, i, record)
    {
        count += is_like(record, like);
    }
    json_decref(records);
    json_decref(like);
    return count;
}
