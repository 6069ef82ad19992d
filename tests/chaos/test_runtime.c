/*
 * The runtimes with real servers. What both kinds promise is in the parts below; as processes each
 * is a test, in containers one test goes through them all, since those take seconds to be made.
 * Directories of runs are in a TMPDIR of the test's own: a sweep finds what the test left, and
 * nothing else.
 */
#include "runtime.h"

#include "clock_plan.h"
#include "program.h"
#include "rundir.h"
#include "tree.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODES = 3,
    PATH_SIZE = 512,
    HOUR_S = 3600
};

static char tmp[PATH_SIZE];       /* TMPDIR */
static char directory[PATH_SIZE]; /* of the run */
static struct runtime *runtime;

#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, runtime_text(runtime))

/* ---- fixtures ------------------------------------------------------------------- */

static void make_directory(void)
{
    char text[512];

    ck_assert_msg(runtime_directory(directory, sizeof directory, text, sizeof text) == 0, "%s",
                  text);
}

static bool own_network; /* is asked for */

static struct runtime *make_runtime(enum runtime_kind kind, unsigned nodes)
{
    struct runtime_options options = {
        .kind = kind, .nodes = nodes, .directory = directory, .own_network = own_network};
    char text[1024];
    struct runtime *made = runtime_new(&options, text, sizeof text);

    ck_assert_msg(made != NULL, "%s", text);
    return made;
}

static void begin(void)
{
    make_directory();
}

static void finish(void)
{
    runtime_free(runtime);
    runtime = NULL;
    runtime_remove_directory(directory);
}

/* ---- small words ------------------------------------------------------------------- */

static long long number(unsigned node, const char *command)
{
    redisReply *reply = runtime_command(runtime, node, command);
    long long value;

    ck_assert_msg(reply != NULL, "%s: %s", command, runtime_text(runtime));
    ck_assert_msg(reply->type == REDIS_REPLY_INTEGER, "%s: %s", command, reply->str);
    value = reply->integer;
    freeReplyObject(reply);
    return value;
}

static void assert_text(unsigned node, const char *command, const char *wanted)
{
    redisReply *reply = runtime_command(runtime, node, command);

    ck_assert_msg(reply != NULL, "%s: %s", command, runtime_text(runtime));
    ck_assert_ptr_nonnull(reply->str);
    ck_assert_msg(strstr(reply->str, wanted) != NULL, "%s: %s", command, reply->str);
    freeReplyObject(reply);
}

static long long time_of(unsigned node)
{
    redisReply *reply = runtime_command(runtime, node, "TIME");
    long long seconds;

    ck_assert_msg(reply != NULL, "%s", runtime_text(runtime));
    seconds = strtoll(reply->element[0]->str, NULL, 10);
    freeReplyObject(reply);
    return seconds;
}

static void run_id(unsigned node, char id[41])
{
    redisReply *reply = runtime_command(runtime, node, "INFO server");

    ck_assert_msg(reply != NULL, "%s", runtime_text(runtime));
    ck_assert_ptr_nonnull(strstr(reply->str, "run_id:"));
    (void)snprintf(id, 41, "%s", strstr(reply->str, "run_id:") + strlen("run_id:"));
    freeReplyObject(reply);
}

static bool answers(unsigned node)
{
    redisContext *context = runtime_connect(runtime, node, 200);
    redisReply *reply = context == NULL ? NULL : redisCommand(context, "PING");
    bool answered = reply != NULL;

    freeReplyObject(reply);
    redisFree(context);
    return answered;
}

static void assert_contains(const char *text, const char *wanted)
{
    ck_assert_msg(strstr(text, wanted) != NULL, "'%s' is not in: %s", wanted, text);
}

/* ---- parts: what both kinds promise --------------------------------------------------- */

static void all_are_fresh(void)
{
    char before[41], after[41];
    int ports[NODES];

    OK(runtime_fresh(runtime, PERSIST_NONE));
    for (unsigned i = 1; i <= NODES; i++) {
        ports[i - 1] = runtime_port(runtime, i);
        OK(runtime_do(runtime, i, "SET here %u", i));
        ck_assert_int_eq(runtime_state(runtime, i), NODE_UP);
    }
    clock_plan_step(runtime_clock(runtime, 2), -HOUR_S * CLOCK_NS_PER_S);
    OK(runtime_do(runtime, 2, "CONFIG SET maxmemory-policy allkeys-lru"));
    run_id(2, before);
    OK(runtime_kill(runtime, 1));
    OK(runtime_freeze(runtime, 3));
    OK(runtime_fresh(runtime, PERSIST_NONE));
    for (unsigned i = 1; i <= NODES; i++) {
        ck_assert_int_eq(runtime_port(runtime, i), ports[i - 1]);
        ck_assert_int_eq(number(i, "DBSIZE"), 0);
        ck_assert_int_le(llabs(time_of(i) - time(NULL)), 1);
    }
    run_id(2, after); /* another one also where it runs in the same container as before */
    ck_assert_str_ne(before, after);
    OK(runtime_do(runtime, 2, "SET key value"));
    assert_contains(runtime_version(runtime), ".");
}

static void debug_works(void)
{
    OK(runtime_fresh(runtime, PERSIST_NONE));
    OK(runtime_do(runtime, 1, "DEBUG SLEEP 0"));
    OK(runtime_do(runtime, 1, "CONFIG SET dir /"));
    ck_assert_int_eq(runtime_do(runtime, 1, "NO-SUCH-COMMAND"), -1);
    assert_contains(runtime_text(runtime), "NO-SUCH-COMMAND");
}

static void a_killed_one_is_dead(void)
{
    OK(runtime_fresh(runtime, PERSIST_ALWAYS));
    OK(runtime_do(runtime, 1, "SET key value"));
    OK(runtime_kill(runtime, 1));
    ck_assert_int_eq(runtime_state(runtime, 1), NODE_DOWN);
    ck_assert(!answers(1));
    ck_assert_int_eq(runtime_do(runtime, 1, "PING"), -1);
    OK(runtime_kill(runtime, 1)); /* once more */
    ck_assert_int_eq(runtime_await(runtime, 1, 50), -1);
    ck_assert_int_eq(runtime_freeze(runtime, 1), -1);
    ck_assert(answers(2));
}

static void revived_with_what_it_had(void)
{
    OK(runtime_fresh(runtime, PERSIST_EVERYSEC));
    OK(runtime_do(runtime, 1, "SET key value"));
    ck_assert_int_eq(runtime_revive(runtime, 1, REVIVE_KEPT, NULL), -1); /* it isn't down */
    OK(runtime_kill(runtime, 1));
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, NULL));
    assert_text(1, "GET key", "value");
    OK(runtime_kill(runtime, 1));
    OK(runtime_revive(runtime, 1, REVIVE_EMPTY, NULL));
    ck_assert_int_eq(number(1, "DBSIZE"), 0);
    OK(runtime_do(runtime, 1, "SET key other")); /* can write to what was emptied */
}

static void revived_with_what_it_had_then(void)
{
    OK(runtime_fresh(runtime, PERSIST_ALWAYS));
    OK(runtime_do(runtime, 2, "SET key old"));
    OK(runtime_kill(runtime, 2));
    ck_assert_int_eq(runtime_revive(runtime, 2, REVIVE_OLDER, NULL), -1); /* nothing was kept */
    OK(runtime_revive(runtime, 2, REVIVE_KEPT, NULL));
    OK(runtime_remember(runtime, 2));
    OK(runtime_do(runtime, 2, "SET key new"));
    OK(runtime_kill(runtime, 2));
    for (int i = 0; i < 2; i++) { /* as often as one likes */
        OK(runtime_revive(runtime, 2, REVIVE_OLDER, NULL));
        assert_text(2, "GET key", "old");
        OK(runtime_do(runtime, 2, "SET key newer"));
        OK(runtime_kill(runtime, 2));
    }
    OK(runtime_revive(runtime, 2, REVIVE_EMPTY, NULL));
    OK(runtime_do(runtime, 2, "SET key other")); /* can write to what was emptied */
    ck_assert_int_eq(number(2, "DBSIZE"), 1);
}

/* Some ten seconds of loading, if it were let. */
static void revived_to_load_for_long(void)
{
    static const char *const arguments[] = {
        "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024", NULL};

    OK(runtime_fresh(runtime, PERSIST_ALWAYS));
    OK(runtime_do(runtime, 1, "DEBUG POPULATE 10000 key 64"));
    OK(runtime_do(runtime, 1, "CONFIG SET appendonly no"));
    OK(runtime_do(runtime, 1, "CONFIG SET appendonly yes")); /* written anew, with them all */
    for (int i = 0; number(1, "DBSIZE") != 10000 || i < 500; i++) {
        redisReply *reply = runtime_command(runtime, 1, "INFO persistence");
        bool done = reply != NULL && strstr(reply->str, "aof_rewrite_in_progress:0") != NULL &&
                    strstr(reply->str, "aof_rewrite_scheduled:0") != NULL;
        freeReplyObject(reply);
        if (done)
            break;
        ck_assert(program_pause(10));
    }
    OK(runtime_kill(runtime, 1));
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, arguments));
    ck_assert_int_eq(runtime_await(runtime, 1, 100), -1);
    ck_assert_int_eq(runtime_do(runtime, 1, "GET key:1"), -1);
    assert_contains(runtime_text(runtime), "LOADING");
    OK(runtime_kill(runtime, 1));
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, NULL)); /* without the arguments */
    ck_assert_int_eq(number(1, "DBSIZE"), 10000);
}

static void a_frozen_one_does_nothing(void)
{
    OK(runtime_fresh(runtime, PERSIST_NONE));
    ck_assert_int_eq(runtime_thaw(runtime, 1), -1); /* it isn't frozen */
    OK(runtime_freeze(runtime, 1));
    ck_assert_int_eq(runtime_state(runtime, 1), NODE_FROZEN);
    ck_assert(!answers(1));
    OK(runtime_thaw(runtime, 1));
    ck_assert_int_eq(runtime_state(runtime, 1), NODE_UP);
    OK(runtime_await(runtime, 1, 5000));
    OK(runtime_freeze(runtime, 1));
    OK(runtime_kill(runtime, 1)); /* frozen as it is */
    ck_assert_int_eq(runtime_state(runtime, 1), NODE_DOWN);
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, NULL));
}

static void its_clock_is_ours(void)
{
    OK(runtime_fresh(runtime, PERSIST_NONE));
    OK(runtime_do(runtime, 1, "SET key value PX 60000"));
    clock_plan_step(runtime_clock(runtime, 1), HOUR_S * CLOCK_NS_PER_S);
    ck_assert_int_le(llabs(time_of(1) - time(NULL) - HOUR_S), 1);
    ck_assert_int_le(llabs(time_of(2) - time(NULL)), 1);
    ck_assert_int_eq(number(1, "EXISTS key"), 0);
    OK(runtime_kill(runtime, 1)); /* a plan outlives the server */
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, NULL));
    ck_assert_int_le(llabs(time_of(1) - time(NULL) - HOUR_S), 1);
}

static void a_replica_follows_and_is_promoted(void)
{
    OK(runtime_fresh(runtime, PERSIST_NONE));
    OK(runtime_do(runtime, 1, "SET key value"));
    OK(runtime_replicate(runtime, 2, 1));
    assert_text(2, "GET key", "value");
    ck_assert_int_eq(runtime_do(runtime, 2, "SET key other"), -1);
    assert_contains(runtime_text(runtime), "READONLY");
    ck_assert_int_eq(number(1, "WAIT 1 5000"), 1);
    OK(runtime_cut_replica(runtime, 2));
    OK(runtime_do(runtime, 1, "SET key later"));
    assert_text(2, "GET key", "value");
    OK(runtime_kill(runtime, 1));
    OK(runtime_promote(runtime, 2));
    OK(runtime_do(runtime, 2, "SET key other"));
    OK(runtime_fresh(runtime, PERSIST_NONE)); /* all are equal again */
    ck_assert_int_eq(number(2, "DBSIZE"), 0);
    OK(runtime_do(runtime, 2, "SET key other"));
}

static void packets_are_dropped_or_it_says_why(void)
{
    redisContext *context;
    redisReply *reply;

    OK(runtime_fresh(runtime, PERSIST_NONE));
    if (!runtime_can_drop(runtime)) {
        ck_assert_int_eq(runtime_drop(runtime, 1, true), -1);
        assert_contains(runtime_text(runtime), "root");
        return;
    }
    context = runtime_connect(runtime, 1, 300);
    ck_assert_ptr_nonnull(context);
    OK(runtime_drop(runtime, 1, true));
    ck_assert_ptr_null(redisCommand(context, "SET key value"));
    redisFree(context);
    OK(runtime_drop(runtime, 1, false));
    OK(runtime_await(runtime, 1, 5000));
    for (int i = 0; i < 500 && number(1, "EXISTS key") == 0; i++)
        ck_assert(program_pause(10));
    reply = runtime_command(runtime, 1, "GET key"); /* what was on its way arrived after all */
    ck_assert_str_eq(reply->str, "value");
    freeReplyObject(reply);
}

static void nothing_is_left(void)
{
    if (runtime_kind(runtime) == RUNTIME_PROCESS)
        OK(runtime_fresh(runtime, PERSIST_NONE));
    ck_assert_uint_eq(runtime_left_behind(runtime), 0);
    ck_assert(!answers(1));
    runtime_free(runtime);
    runtime = NULL;
    ck_assert_int_eq(access(directory, F_OK), 0); /* it is the caller's */
    runtime_remove_directory(directory);
    ck_assert_int_ne(access(directory, F_OK), 0);
}

static const struct {
    void (*play)(void);
    bool in_containers; /* others show nothing that these don't, and each takes seconds there */
} parts[] = {
    {all_are_fresh, true},
    {debug_works, false},
    {a_killed_one_is_dead, false},
    {revived_with_what_it_had, false},
    {revived_with_what_it_had_then, true},
    {revived_to_load_for_long, true},
    {a_frozen_one_does_nothing, true},
    {its_clock_is_ours, false}, /* it is proven by the first runtime_fresh() */
    {a_replica_follows_and_is_promoted, true},
    {packets_are_dropped_or_it_says_why, false},
    {nothing_is_left, true},
};
enum {
    PARTS = sizeof parts / sizeof parts[0]
};

START_TEST(process_part)
{
    /* Not where the tests after it would be in that network as well. */
    own_network = parts[_i].play == packets_are_dropped_or_it_says_why && getenv("CK_FORK") == NULL;
    runtime = make_runtime(RUNTIME_PROCESS, NODES);
    parts[_i].play();
}
END_TEST

static bool have_engine(void)
{
    struct program program;

    /* Under sanitizers, which have nothing to find in another program's containers. */
    if (getenv("REDLOCK_TEST_DOCKER") != NULL)
        return strcmp(getenv("REDLOCK_TEST_DOCKER"), "no") != 0;
    return program_run(&program, 5000, (const char *const[]){"docker", "info", NULL}) == 0;
}

START_TEST(docker_parts)
{
    if (!have_engine()) {
        (void)fprintf(stderr, "no Docker engine answers: containers are not tested\n");
        return;
    }
    runtime = make_runtime(RUNTIME_DOCKER, NODES);
    for (int i = 0; i < PARTS; i++)
        if (parts[i].in_containers)
            parts[i].play();
}
END_TEST

/* ---- two at once -------------------------------------------------------------------- */

START_TEST(two_at_once_do_not_meet)
{
    char first[PATH_SIZE];
    struct runtime *other;

    runtime = make_runtime(RUNTIME_PROCESS, NODES);
    (void)memcpy(first, directory, sizeof first);
    make_directory();
    other = make_runtime(RUNTIME_PROCESS, NODES);
    OK(runtime_fresh(runtime, PERSIST_NONE));
    ck_assert_int_eq(runtime_fresh(other, PERSIST_NONE), 0);
    OK(runtime_do(runtime, 1, "SET key value"));
    ck_assert_uint_eq(runtime_sweep(stderr), 0); /* both are alive */
    runtime_free(other);
    runtime_remove_directory(directory);
    (void)memcpy(directory, first, sizeof directory);
    assert_text(1, "GET key", "value");
    ck_assert_int_eq(runtime_state(runtime, NODES), NODE_UP);
}
END_TEST

/* ---- what is left by those that were killed --------------------------------------------- */

/* A harness that has servers up, and is killed. Its directory's name is in `left`. */
static void kill_a_harness(enum runtime_kind kind, char left[PATH_SIZE])
{
    int from[2];
    pid_t pid;

    ck_assert_int_eq(pipe(from), 0);
    pid = fork();
    if (pid == 0) {
        make_directory();
        runtime = make_runtime(kind, 2);
        if (runtime_fresh(runtime, PERSIST_NONE) != 0 ||
            write(from[1], directory, sizeof directory) != (ssize_t)sizeof directory)
            _exit(1);
        (void)pause();
        _exit(0);
    }
    ck_assert_int_gt(pid, 0);
    (void)close(from[1]);
    ck_assert_int_eq(read(from[0], left, PATH_SIZE), PATH_SIZE);
    (void)close(from[0]);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* The servers die with the harness, or soon after it. */
static void await_alive(const char *left, unsigned wanted)
{
    for (int i = 0; i < 500 && rundir_servers_alive(left) != wanted; i++)
        ck_assert(program_pause(10));
    ck_assert_uint_eq(rundir_servers_alive(left), wanted);
}

static unsigned sweep(char *said, size_t size)
{
    FILE *stream = fmemopen(said, size, "w");
    unsigned removed;

    ck_assert_ptr_nonnull(stream);
    said[0] = '\0';
    removed = runtime_sweep(stream);
    (void)fclose(stream);
    return removed;
}

static pid_t start_sleeper(void)
{
    char *arguments[] = {"sleep", "600", NULL};
    char path[PATH_SIZE];
    struct program_setup setup = {.path = path,
                                  .arguments = arguments,
                                  .environment = environ,
                                  .output_fd = -1,
                                  .error_fd = -1,
                                  .gate = -1};

    ck_assert_int_eq(program_find("sleep", path, sizeof path), 0);
    return program_fork(&setup);
}

START_TEST(a_sweep_ends_what_a_killed_one_left)
{
    char left[PATH_SIZE], said[2048];
    pid_t sleeper = start_sleeper(), bystander = start_sleeper();
    int status;

    kill_a_harness(RUNTIME_PROCESS, left);
    ck_assert_int_eq(access(left, F_OK), 0);
    ck_assert_int_eq(rundir_note_server(left, sleeper), 0); /* one that did not die with it */
    await_alive(left, 1);
    ck_assert_uint_eq(sweep(said, sizeof said), 2);
    assert_contains(said, "removed the server process");
    assert_contains(said, left);
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_int_eq(access(directory, F_OK), 0); /* that of this process */
    ck_assert_int_eq(waitpid(sleeper, &status, 0), sleeper);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(waitpid(bystander, &status, WNOHANG), 0);
    ck_assert_int_eq(kill(bystander, SIGKILL), 0);
    ck_assert_int_eq(waitpid(bystander, NULL, 0), bystander);
    ck_assert_uint_eq(sweep(said, sizeof said), 0);
}
END_TEST

/* The pid alone would be somebody else's by now. */
START_TEST(a_sweep_goes_by_pid_and_start)
{
    char left[PATH_SIZE], line[PATH_SIZE], path[PATH_SIZE + 16], said[2048];
    pid_t bystander = start_sleeper();
    FILE *owner;

    kill_a_harness(RUNTIME_PROCESS, left);
    (void)snprintf(path, sizeof path, "%s/owner", left);
    owner = fopen(path, "a");
    ck_assert_ptr_nonnull(owner);
    (void)snprintf(line, sizeof line, "server %ld 12345\n", (long)bystander);
    ck_assert_int_ge(fputs(line, owner), 0);
    (void)fclose(owner);
    await_alive(left, 0);
    ck_assert_uint_eq(sweep(said, sizeof said), 1); /* the directory */
    ck_assert_int_eq(waitpid(bystander, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(bystander, SIGKILL), 0);
    ck_assert_int_eq(waitpid(bystander, NULL, 0), bystander);
}
END_TEST

START_TEST(a_sweep_removes_containers)
{
    char left[PATH_SIZE], said[4096];

    if (!have_engine())
        return;
    kill_a_harness(RUNTIME_DOCKER, left);
    ck_assert_uint_ge(sweep(said, sizeof said), 4); /* two containers, network, directory */
    assert_contains(said, "removed the container redlock-chaos-");
    assert_contains(said, "removed the network redlock-chaos-");
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_uint_eq(sweep(said, sizeof said), 0);
}
END_TEST

START_TEST(a_shared_place_is_refused)
{
    char base[PATH_SIZE + 64], text[512] = "", path[PATH_SIZE];

    (void)snprintf(base, sizeof base, "%s/redlock-chaos-%ld", tmp, (long)geteuid());
    ck_assert_int_eq(chmod(base, 0777), 0);
    ck_assert_int_eq(runtime_directory(path, sizeof path, text, sizeof text), -1);
    assert_contains(text, "TMPDIR");
    ck_assert_int_eq(chmod(base, 0700), 0);
}
END_TEST

/* ---- what is missing ------------------------------------------------------------------ */

static void assert_refused(const struct runtime_options *options, const char *wanted)
{
    char text[1024] = "";

    ck_assert_ptr_null(runtime_new(options, text, sizeof text));
    assert_contains(text, wanted);
}

START_TEST(a_bad_server_is_told)
{
    struct runtime_options options = {
        .kind = RUNTIME_PROCESS, .nodes = 1, .directory = directory, .server = "/no/such/server"};

    assert_refused(&options, "/no/such/server");
    options.server = "true";
    assert_refused(&options, "no Redis or Valkey server");
    options.server = NULL;
    options.nodes = 0;
    assert_refused(&options, "nodes");
    options.nodes = 1;
    options.directory = "/no/such/directory";
    assert_refused(&options, "/no/such/directory");
}
END_TEST

START_TEST(nothing_installed_is_told)
{
    struct runtime_options options = {.kind = RUNTIME_PROCESS, .nodes = 1, .directory = directory};
    char *path = strdup(getenv("PATH"));

    ck_assert_int_eq(setenv("PATH", tmp, 1), 0);
    assert_refused(&options, "tools/install-deps.sh");
    options.kind = RUNTIME_DOCKER;
    assert_refused(&options, "--runtime process");
    options.kind = RUNTIME_AUTO;
    assert_refused(&options, "no Docker engine answers");
    ck_assert_int_eq(setenv("PATH", path, 1), 0);
    free(path);
}
END_TEST

/* As one that is linked statically, or against another C library. */
START_TEST(a_server_with_a_clock_of_its_own_is_told)
{
    static const char script[] = "#!/bin/sh\nunset LD_PRELOAD\nexec redis-server \"$@\"\n";
    char path[PATH_SIZE + 16], text[512];
    struct runtime_options options = {
        .kind = RUNTIME_PROCESS, .nodes = 1, .directory = directory, .server = path};

    (void)snprintf(path, sizeof path, "%s/server", tmp);
    ck_assert_int_eq(tree_write(path, 0755, script, sizeof script - 1), 0);
    runtime = runtime_new(&options, text, sizeof text);
    ck_assert_msg(runtime != NULL, "%s", text);
    ck_assert_int_eq(runtime_fresh(runtime, PERSIST_NONE), -1);
    assert_contains(runtime_text(runtime), "clock");
}
END_TEST

START_TEST(last_words_are_told)
{
    static const char *const arguments[] = {"--no-such-option", "1", NULL};

    runtime = make_runtime(RUNTIME_PROCESS, 1);
    OK(runtime_fresh(runtime, PERSIST_NONE));
    OK(runtime_kill(runtime, 1));
    ck_assert_int_eq(runtime_revive(runtime, 1, REVIVE_KEPT, arguments), -1);
    assert_contains(runtime_text(runtime), "no-such-option");
    OK(runtime_revive(runtime, 1, REVIVE_KEPT, NULL));
}
END_TEST

/* ---- interruption -------------------------------------------------------------------- */

static void on_alarm(int signal)
{
    (void)signal;
    runtime_interrupt();
}

static int interrupted_child(void)
{
    struct sigaction action = {.sa_handler = on_alarm};
    int64_t from_ms;

    runtime = make_runtime(RUNTIME_PROCESS, 1);
    if (runtime_fresh(runtime, PERSIST_NONE) != 0 || runtime_kill(runtime, 1) != 0 ||
        sigaction(SIGALRM, &action, NULL) != 0 || ualarm(50000, 0) != 0)
        return 1;
    from_ms = program_now_ms();
    if (runtime_await(runtime, 1, 60000) != -1 || program_now_ms() - from_ms > 10000)
        return 2;
    if (runtime_fresh(runtime, PERSIST_NONE) != -1)
        return 3;
    if (runtime_left_behind(runtime) != 0)
        return 4;
    runtime_free(runtime);
    return 0;
}

/* In a process of its own: it is for good. */
START_TEST(waits_end_early)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0)
        _exit(interrupted_child());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* ------------------------------------------------------------------------------------ */

static TCase *add_case(Suite *suite, const char *name, int seconds)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, seconds);
    tcase_add_checked_fixture(tcase, begin, finish);
    suite_add_tcase(suite, tcase);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *process = add_case(suite, "process", 30), *left = add_case(suite, "left", 60);
    TCase *missing = add_case(suite, "missing", 30), *docker = add_case(suite, "docker", 240);
    SRunner *runner = srunner_create(suite);
    int failed;

    (void)snprintf(tmp, sizeof tmp, "/tmp/redlock-test-XXXXXX");
    if (mkdtemp(tmp) == NULL || setenv("TMPDIR", tmp, 1) != 0)
        return EXIT_FAILURE;
    tcase_add_loop_test(process, process_part, 0, PARTS);
    tcase_add_test(process, two_at_once_do_not_meet);
    tcase_add_test(process, last_words_are_told);
    tcase_add_test(process, waits_end_early);
    tcase_add_test(left, a_sweep_ends_what_a_killed_one_left);
    tcase_add_test(left, a_sweep_goes_by_pid_and_start);
    tcase_add_test(left, a_shared_place_is_refused);
    tcase_add_test(missing, a_bad_server_is_told);
    tcase_add_test(missing, nothing_installed_is_told);
    tcase_add_test(missing, a_server_with_a_clock_of_its_own_is_told);
    tcase_add_test(docker, docker_parts);
    tcase_add_test(docker, a_sweep_removes_containers);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    (void)runtime_sweep(stderr); /* of tests that failed */
    (void)tree_remove(tmp);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
