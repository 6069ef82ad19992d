/*
 * Servers that refuse, forget, come back, or answer too late, and connections that die at the
 * worst moment: what the caller is told, and that no key of ours stays and none of anybody else's
 * goes.
 *
 * "Foreign" keys are set by a connection of the test's own. Where bytes have to come late, or an
 * answer is lost, a proxy sits before the server.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "locking.h"
#include "proxy.h"
#include "redlock.h"
#include "servers.h"

enum {
    SLACK_MS = 2000, /* what a loaded machine may add to any bound */
    LONG_MS = 60000
};

/* ---- helpers ------------------------------------------------------------ */

static void take_foreign(int i, const char *ttl_ms)
{
    ck_assert_str_eq(servers_command(i, "SET", "job", "other", "PX", ttl_ms, NULL), "OK");
}

static void assert_foreign(int i)
{
    const char *value = servers_command(i, "GET", "job", NULL);
    ck_assert_msg(value != NULL && strcmp(value, "other") == 0, "server %d", i);
}

static redlock_stats stats_of(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    return stats;
}

/* A call in a thread of its own, so that the test can act in between: an acquire, and the release
 * of what it got; or one of a lock. */
struct call {
    pthread_t thread;
    redlock_client *client;
    redlock_lock_options options;
    redlock_lock *lock;
    bool extending;
    int rc;
};

static void *run_call(void *argument)
{
    struct call *call = argument;

    if (call->lock == NULL)
        call->rc = try_lock(call->client, &call->options);
    else
        call->rc = call->extending ? redlock_extend(call->lock, 0) : redlock_release(call->lock);
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

/* Proxies before the last n of five servers; the first ones are talked to directly. */
static struct proxy *proxies[N];
static const char *uris[N];

static redlock_client *client_through(int n, int64_t node_timeout_ms)
{
    redlock_client *client;

    for (int i = 0; i < N; i++) {
        proxies[i] = i < N - n ? NULL : proxy_new(servers_port(i));
        uris[i] = proxies[i] == NULL ? servers_uri(i) : proxy_uri(proxies[i]);
    }
    client = client_of(uris, N, node_timeout_ms);
    AWAIT(is_settled(client, N));
    return client;
}

static void free_all(redlock_client *client)
{
    redlock_client_free(client);
    for (int i = 0; i < N; i++)
        proxy_free(proxies[i]);
}

static void start_five(void)
{
    servers_start(N);
}

/* ---- partial failure, lost and late answers ----------------------------- */

/* Quorum is three of the five configured, not of the two that were there at first. */
START_TEST(test_two_at_start_are_no_quorum)
{
    redlock_lock_options options = lock_options(5000, 0);
    redlock_client *client;

    for (int i = 2; i < N; i++)
        servers_kill(i);
    client = client_of(servers_uris(), N, 0);
    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    for (int i = 2; i < N; i++) {
        servers_revive(i);
        take_foreign(i, "60000");
    }
    AWAIT(is_settled(client, N));
    assert_rc(try_lock(client, &options), REDLOCK_BUSY);
    AWAIT(!has_key(0) && !has_key(1));
    for (int i = 2; i < N; i++)
        assert_foreign(i);
    redlock_client_free(client);
}
END_TEST

/* C was written and its answer is lost; 0: the connection stays, 1: it dies as well. */
START_TEST(test_lost_answer_leaves_no_key)
{
    redlock_client *client = client_through(3, 300);
    redlock_lock_options options = lock_options(30000, 0);

    take_foreign(3, "60000");
    take_foreign(4, "60000");
    servers_reset_counts();
    proxy_set_at(proxies[2], "SET", 1, PROXY_REPLIES, PROXY_SWALLOW);
    assert_rc(try_lock(client, &options), REDLOCK_BUSY);
    ck_assert_int_eq(results[2].vote, REDLOCK_VOTE_SILENT);
    ck_assert_ptr_nonnull(strstr(results[2].text, "300 ms"));
    ck_assert_int_eq(servers_count(2, "set"), 1);
    if (_i == 1)
        proxy_cut(proxies[2]);
    for (int i = 0; i < 3; i++)
        AWAIT(!has_key(i));
    assert_foreign(3);
    assert_foreign(4);
    free_all(client);
}
END_TEST

/* SETs that arrive after the attempt has failed are removed, with the removal right behind. */
START_TEST(test_ghost_grants_are_removed)
{
    redlock_client *client = client_through(3, 200);
    redlock_lock_options options = lock_options(30000, 0);

    servers_reset_counts();
    for (int i = 2; i < N; i++)
        proxy_set(proxies[i], PROXY_REQUESTS, PROXY_HOLD);
    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    AWAIT(servers_with_key("job") == 0);
    for (int i = 2; i < N; i++) {
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_SILENT);
        proxy_await_command(proxies[i], "EVAL", 1);
        proxy_set(proxies[i], PROXY_REQUESTS, PROXY_PASS);
        AWAIT(servers_count(i, "set") == 1 && servers_count(i, "eval") == 1 && !has_key(i));
    }
    free_all(client);
}
END_TEST

/* The answer to the first name's SET must not be taken for that of the second's. */
START_TEST(test_late_answer_is_not_the_next_ones)
{
    struct proxy *proxy = proxy_new(servers_port(0));
    const char *uri = proxy_uri(proxy);
    redlock_client *client = client_of(&uri, 1, 500);
    redlock_lock_options options = lock_options(30000, 0);
    struct call call = {.client = client, .options = options};
    redlock_lock *lock = NULL;

    call.options.results = NULL;
    call.options.result_count = 0;
    take_foreign(0, "60000");
    AWAIT(is_settled(client, 1));
    proxy_set(proxy, PROXY_REPLIES, PROXY_HOLD);
    ck_assert_int_eq(redlock_acquire(client, "first", 5, &options, &lock), REDLOCK_NO_QUORUM);
    ck_assert_str_eq(servers_command(0, "GET", "job", NULL), "other");
    start_call(&call); /* "job" is foreign; "first" was granted */
    proxy_await_command(proxy, "SET", 2);
    proxy_set(proxy, PROXY_REPLIES, PROXY_PASS);
    ck_assert_int_eq(end_call(&call), REDLOCK_BUSY);
    AWAIT(is_settled(client, 1));
    ck_assert_uint_ge(stats_of(client).late_replies, 1);
    ck_assert_str_eq(servers_command(0, "EXISTS", "first", NULL), "0");
    assert_foreign(0);
    redlock_client_free(client);
    proxy_free(proxy);
}
END_TEST

/* A connection dies with its SET unanswered and still on its way somewhere. The removal overtakes
 * it on a new connection; a second one, a node timeout later, gets the key. */
START_TEST(test_second_removal_gets_what_was_overtaken)
{
    redlock_client *client = client_through(1, 1500);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock;

    servers_reset_counts();
    proxy_set_at(proxies[4], "SET", 1, PROXY_REQUESTS, PROXY_HOLD);
    lock = acquire(client, &options);
    proxy_await_command(proxies[4], "SET", 1);
    proxy_cut(proxies[4]);
    AWAIT(is_settled(client, N));
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_count(4, "eval") == 1);
    ck_assert_int_eq(servers_count(4, "set"), 0);
    proxy_deliver(proxies[4]);
    ck_assert_int_eq(servers_count(4, "set"), 1);
    AWAIT(servers_count(4, "eval") == 2 && !has_key(4));
    AWAIT(stats_of(client).cleanups == 0);
    free_all(client);
}
END_TEST

/* Frozen with SETs in its socket, given up, and thawed long after: it executes them all. */
START_TEST(test_thawed_server_executes_what_was_queued)
{
    redlock_options options = options_for(servers_uris(), N);
    redlock_lock_options lock = lock_options(30000, 0);
    redlock_client *client;

    options.silence_limit_ms = 300;
    options.node_timeout_ms = 100;
    client = new_client(&options);
    AWAIT(is_settled(client, N));
    servers_reset_counts();
    servers_freeze(0);
    servers_freeze(4);
    for (int round = 0; round < 5; round++)
        assert_rc(try_lock(client, &lock), REDLOCK_OK);
    AWAIT(stats_of(client).disconnects == 2);
    servers_thaw(0);
    servers_thaw(4);
    AWAIT(is_settled(client, N) && stats_of(client).cleanups == 0);
    ck_assert_int_ge(servers_count(0, "set"), 1);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* 0: cancelled, 1: the wait is over; both after two of five were granted. */
START_TEST(test_end_after_a_partial_grant)
{
    redlock_client *client = client_through(3, LONG_MS);
    struct call call = {.client = client, .options = lock_options(30000, 0)};
    redlock_cancel_handle *cancel = NULL;
    int64_t start_ms = servers_now_ms();

    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    for (int i = 2; i < N; i++)
        proxy_set(proxies[i], PROXY_REQUESTS, PROXY_HOLD);
    call.options.cancel = cancel;
    call.options.wait_ms = _i == 0 ? 0 : 500;
    start_call(&call);
    AWAIT(servers_with_key("job") == 2);
    if (_i == 0)
        redlock_cancel(cancel);
    assert_rc(end_call(&call), _i == 0 ? REDLOCK_CANCELLED : REDLOCK_NO_QUORUM);
    ck_assert_int_lt(servers_now_ms() - start_ms, 500 + SLACK_MS);
    AWAIT(servers_with_key("job") == 0);
    for (int i = 2; i < N; i++) {
        proxy_set(proxies[i], PROXY_REQUESTS, PROXY_PASS);
        AWAIT(servers_count(i, "eval") == 1 && !has_key(i));
    }
    free_all(client);
    redlock_cancel_free(cancel);
}
END_TEST

/* Says expired at once, after one removal at most from each. */
START_TEST(test_release_of_an_expired_lease)
{
    redlock_client *client = client_of(servers_uris(), N, 0);
    redlock_lock_options options = lock_options(200, 0);
    redlock_lock *lock;
    int64_t start_ms;

    AWAIT(is_settled(client, N));
    lock = acquire(client, &options);
    servers_reset_counts();
    AWAIT(!redlock_is_held(lock) && servers_with_key("job") == 0);
    take_foreign(0, "60000");
    start_ms = servers_now_ms();
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    ck_assert_int_lt(servers_now_ms() - start_ms, SLACK_MS);
    AWAIT(is_settled(client, N) && stats_of(client).cleanups == 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_le(servers_count(i, "eval"), 1);
    assert_foreign(0);
    redlock_client_free(client);
}
END_TEST

/* The answers come when the ttl is over: never held, and no key stays. */
START_TEST(test_quorum_after_the_ttl)
{
    redlock_client *client = client_through(3, LONG_MS);
    struct call call = {.client = client, .options = lock_options(400, 0)};

    for (int i = 2; i < N; i++)
        proxy_set(proxies[i], PROXY_REPLIES, PROXY_HOLD);
    start_call(&call);
    for (int i = 2; i < N; i++)
        proxy_await_held(proxies[i], PROXY_REPLIES, 5);
    AWAIT(servers_with_key("job") == 0);
    for (int i = 2; i < N; i++)
        proxy_set(proxies[i], PROXY_REPLIES, PROXY_PASS);
    assert_rc(end_call(&call), REDLOCK_EXPIRED);
    ck_assert_int_eq(servers_with_key("job"), 0);
    free_all(client);
}
END_TEST

/* ---- every mixture of answers ------------------------------------------- */

enum state {
    OURS,
    MISSING,
    FOREIGN,
    SILENT,
    STATES
};

/* The next of the 56 ways to mix four states over five nodes; false after the last. */
static bool next_mixture(enum state states[N])
{
    int i = N - 1;

    while (i >= 0 && states[i] == STATES - 1)
        i--;
    for (int j = i + 1; j < N && i >= 0; j++)
        states[j] = states[i] + 1;
    if (i >= 0)
        states[i]++;
    return i >= 0;
}

/* Held on all five and all count; then it's as the mixture says, node 0's state at node `turn`. */
static redlock_lock *hold_mixture(redlock_client *client, const redlock_lock_options *options,
                                  const enum state *states, int turn)
{
    redlock_lock *lock = acquire(client, options);

    AWAIT(is_settled(client, N));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < N; i++) {
        int at = (i + turn) % N;
        if (states[i] == MISSING)
            (void)servers_command(at, "DEL", "job", NULL);
        if (states[i] == FOREIGN)
            take_foreign(at, "60000");
        if (states[i] == SILENT)
            proxy_set(proxies[at], PROXY_REQUESTS, PROXY_HOLD);
    }
    return lock;
}

static bool is_right(const int *n, bool extending, int rc)
{
    if (n[OURS] >= 3)
        return rc == REDLOCK_OK;
    if (extending) /* as long as three may have it, nothing is lost */
        return rc == (n[OURS] + n[SILENT] >= 3 ? REDLOCK_NO_QUORUM : REDLOCK_LOST);
    if (n[SILENT] >= 3)
        return rc == REDLOCK_NO_QUORUM;
    /* Which of the two depends on who answers first. */
    return (rc == REDLOCK_LOST && n[FOREIGN] > 0) || (rc == REDLOCK_EXPIRED && n[MISSING] > 0);
}

/* 0: extend, 1: release. The exact result each time, and no foreign key touched. */
START_TEST(test_every_mixture_of_answers)
{
    redlock_client *client = client_through(N, 400);
    redlock_lock_options options = lock_options(30000, 0);
    enum state states[N] = {OURS, OURS, OURS, OURS, OURS};
    int turn = 0;

    do {
        redlock_lock *lock = hold_mixture(client, &options, states, ++turn % N);
        int n[STATES] = {0}, rc = _i == 0 ? redlock_extend(lock, 0) : redlock_release(lock);

        for (int i = 0; i < N; i++)
            n[states[i]]++;
        ck_assert_msg(is_right(n, _i == 0, rc), "%d ours, %d missing, %d foreign, %d silent: %s",
                      n[OURS], n[MISSING], n[FOREIGN], n[SILENT], redlock_strerror(rc));
        if (_i == 0)
            (void)redlock_release(lock);
        for (int i = 0; i < N; i++)
            proxy_set(proxies[i], PROXY_REQUESTS, PROXY_PASS);
        AWAIT(stats_of(client).cleanups == 0 && is_settled(client, N));
        for (int i = 0; i < N; i++) {
            int at = (i + turn) % N;
            if (states[i] == FOREIGN)
                assert_foreign(at);
            ck_assert_int_eq(has_key(at), states[i] == FOREIGN);
            (void)servers_command(at, "DEL", "job", NULL);
        }
    } while (next_mixture(states));
    free_all(client);
}
END_TEST

/* ---- servers that refuse ------------------------------------------------ */

/* A connection that stays open and isn't read; `line` is sent, if any. */
static int open_connection(int i, const char *line)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)servers_port(i))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(send(fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
    return fd;
}

/* Until the server answers anything with this error. */
static void await_error(int i, const char *error)
{
    AWAIT(strncmp(servers_command(i, "GET", "job", NULL), error, strlen(error)) == 0);
}

static void refuse_misconf(int i)
{
    (void)servers_command(i, "CONFIG", "SET", "save", "3600 1000000", NULL);
    (void)servers_command(i, "BGSAVE", NULL); /* into /proc */
    AWAIT(strstr(servers_command(i, "INFO", "persistence", NULL), "bgsave_status:err") != NULL);
}

static void refuse_oom(int i)
{
    (void)servers_command(i, "CONFIG", "SET", "maxmemory", "1", NULL);
}

static void refuse_readonly(int i)
{
    (void)servers_command(i, "REPLICAOF", "127.0.0.1", "1", NULL);
}

static void refuse_noauth(int i)
{
    (void)servers_command(i, "CONFIG", "SET", "requirepass", "x", NULL);
}

static void refuse_noperm(int i)
{
    (void)servers_command(i, "ACL", "SETUSER", "default", "-set", NULL);
}

static void refuse_busy(int i)
{
    (void)servers_command(i, "CONFIG", "SET", "busy-reply-threshold", "1", NULL);
    (void)open_connection(i, "EVAL 'while true do end' 0\r\n");
    AWAIT(strncmp(servers_command(i, "PING", NULL), "-BUSY", 5) == 0);
}

static void refuse_loading(int i)
{
    (void)servers_command(i, "DEBUG", "POPULATE", "100000", NULL);
    (void)servers_command(i, "CONFIG", "SET", "key-load-delay", "500", NULL);
    (void)servers_command(i, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024",
                          NULL);
    (void)open_connection(i, "DEBUG RELOAD\r\n");
    await_error(i, "-LOADING");
}

static void refuse_clients(int i)
{
    (void)servers_command(i, "CONFIG", "SET", "maxclients", "1", NULL);
    (void)open_connection(i, "PING\r\n");
    await_error(i, "-ERR max number of clients");
}

static const struct refusal {
    void (*make)(int i);
    const char *text;
    bool at_connect;     /* only new connections are refused */
    void (*undo)(int i); /* before the next client comes; NULL: that takes it too */
} refusals[] = {
    {refuse_misconf, "MISCONF", false, NULL},
    {refuse_oom, "OOM command not allowed", false, NULL},
    {refuse_readonly, "READONLY", false, servers_promote},
    {refuse_noauth, "NOAUTH", true, NULL},
    {refuse_noperm, "NOPERM", false, NULL},
    {refuse_busy, "BUSY Redis is busy running a script", false, NULL},
    {refuse_loading, "LOADING", false, NULL},
    {refuse_clients, "max number of clients", true, NULL},
};

/* The first n nodes say why, and none of them has a vote. */
static int say_why(const redlock_node_result *nodes, int n, const char *text)
{
    int saying = 0;

    for (int i = 0; i < n; i++)
        saying += (nodes[i].vote == REDLOCK_VOTE_ERROR || nodes[i].vote == REDLOCK_VOTE_DOWN) &&
                  strstr(nodes[i].text, text) != NULL;
    return saying == n;
}

/* Up to two such servers: the lock works. Three: no quorum, which isn't "busy". */
START_TEST(test_refusals_are_errors_of_their_node)
{
    char dir[] = "/tmp/redlock-test-XXXXXX", dump[64];
    const char *arguments[] = {"--enable-debug-command", "local", "--dir", dir, NULL};
    const struct refusal *refusal = &refusals[_i];
    redlock_lock_options options = lock_options(20000, 0);
    redlock_node_result now[N];

    ck_assert_ptr_nonnull(mkdtemp(dir));
    if (refusal->make == refuse_misconf)
        arguments[3] = "/proc";
    servers_start_with(N, arguments);
    for (int bad = 0; bad < 3; bad++) {
        redlock_client *client = NULL;
        redlock_lock *lock;

        for (int i = 0; refusal->undo != NULL && i < bad; i++)
            refusal->undo(i);
        if (!refusal->at_connect) {
            client = client_of(servers_uris(), N, 2000);
            AWAIT(is_settled(client, refusal->make == refuse_loading ? N - (size_t)bad : N));
        }
        for (int i = refusal->undo != NULL ? 0 : bad; i <= bad; i++)
            refusal->make(i);
        if (refusal->at_connect)
            client = client_of(servers_uris(), N, 500);
        if (bad == 2) {
            assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
            ck_assert_msg(say_why(results, 3, refusal->text), "%s", results[0].text);
        } else {
            lock = acquire(client, &options);
            AWAIT(redlock_node_results(lock, now, N) == N && say_why(now, bad + 1, refusal->text));
            assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
            assert_rc(redlock_release(lock), REDLOCK_OK);
        }
        for (int i = 3; i < N; i++)
            AWAIT(!has_key(i));
        redlock_client_free(client);
    }
    servers_stop();
    (void)snprintf(dump, sizeof dump, "%s/dump.rdb", dir);
    (void)unlink(dump);
    (void)rmdir(dir);
}
END_TEST

/* Rights to lock, and none to run scripts: granted, but neither extended nor removed. */
START_TEST(test_no_right_to_run_scripts)
{
    redlock_client *client = client_of(servers_uris(), N, 500);
    redlock_lock_options options = lock_options(2000, 0);
    redlock_lock *lock;

    for (int i = 0; i < 3; i++)
        (void)servers_command(i, "ACL", "SETUSER", "default", "-@scripting", NULL);
    AWAIT(is_settled(client, N));
    lock = acquire(client, &options);
    AWAIT(is_settled(client, N));
    assert_rc(redlock_extend(lock, 0), REDLOCK_NO_QUORUM);
    ck_assert_msg(say_why(results, 3, "NOPERM"), "%s", results[0].text);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_NO_QUORUM);
    ck_assert_msg(say_why(results, 3, "NOPERM"), "%s", results[0].text);
    AWAIT(servers_with_key("job") == 0); /* after the ttl, where it can't be removed */
    AWAIT(stats_of(client).cleanups == 0);
    redlock_client_free(client);
}
END_TEST

/* Somebody made a list of our key: an error of that node, and theirs to keep. */
START_TEST(test_wrong_type_at_our_key)
{
    redlock_client *client = client_of(servers_uris(), N, 500);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *lock = acquire(client, &options);

    AWAIT(is_settled(client, N));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* now all five count */
    AWAIT(is_settled(client, N));
    for (int i = 0; i < 3; i++) {
        (void)servers_command(i, "DEL", "job", NULL);
        (void)servers_command(i, "RPUSH", "job", "x", NULL);
        assert_rc(redlock_extend(lock, 0), i < 2 ? REDLOCK_OK : REDLOCK_NO_QUORUM);
        AWAIT(redlock_node_results(lock, results, N) == N && say_why(results, i + 1, "WRONGTYPE"));
    }
    ck_assert_int_eq(redlock_is_held(lock), 1); /* two still have it, three don't say */
    assert_rc(redlock_release(lock), REDLOCK_NO_QUORUM);
    AWAIT(!has_key(3) && !has_key(4));
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(servers_command(i, "LLEN", "job", NULL), "1");
    redlock_client_free(client);
}
END_TEST

/* ---- servers and connections that come and go --------------------------- */

/* Before acquire, extend and release: scripts flushed everywhere, two of five restarted. */
START_TEST(test_flush_and_restart_go_unnoticed)
{
    redlock_client *client = client_of(servers_uris(), N, 500);
    redlock_lock_options options = lock_options(20000, 0);
    redlock_lock *lock = NULL;

    AWAIT(is_settled(client, N));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N; i++) {
            ck_assert_str_eq(servers_command(i, "SCRIPT", "FLUSH", NULL), "OK");
            if (i != step && i != 3)
                continue;
            servers_kill(i);
            servers_revive(i);
        }
        if (step == 0)
            lock = acquire(client, &options);
        else if (step == 1)
            assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
        else
            assert_rc(redlock_release(lock), REDLOCK_OK);
        for (int i = 0; i < 2 && step < 2; i++) { /* set again, and counted again */
            AWAIT(is_settled(client, N));
            assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
        }
        AWAIT(servers_with_key("job") == (step < 2 ? N : 0) && is_settled(client, N));
    }
    redlock_client_free(client);
}
END_TEST

/* All connections were closed, by a timeout of the servers or a restart that keeps the keys, and
 * new ones are being set up. As an acquire does, 0: an extend, 1: a release waits for them: an
 * extend for those that count, 1 to 3 here, though three others are there first. */
START_TEST(test_new_connections_are_waited_for)
{
    redlock_client *client = client_through(N, 5000);
    redlock_lock_options options = lock_options(20000, 0);
    struct call call = {.extending = _i == 0};

    proxy_set(proxies[3], PROXY_REPLIES, PROXY_HOLD);
    proxy_set(proxies[4], PROXY_REPLIES, PROXY_HOLD);
    call.lock = acquire(client, &options);
    proxy_set(proxies[3], PROXY_REPLIES, PROXY_PASS);
    proxy_set(proxies[4], PROXY_REPLIES, PROXY_PASS);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < N; i++) {
        proxy_refuse(proxies[i], 1);
        proxy_cut(proxies[i]);
        proxy_set(proxies[i], PROXY_REPLIES, PROXY_HOLD);
        proxy_refuse(proxies[i], 0);
    }
    for (int i = 0; i < N; i++)
        proxy_await_held(proxies[i], PROXY_REPLIES, 5); /* "+OK\r\n" to the greeting */
    start_call(&call);
    for (int i = N - 1; i >= 0; i--) {
        (void)poll(NULL, 0, 20);
        proxy_set(proxies[i], PROXY_REPLIES, PROXY_PASS);
    }
    assert_rc(end_call(&call), REDLOCK_OK);
    if (_i == 0)
        assert_rc(redlock_release(call.lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    free_all(client);
}
END_TEST

/* A write to a dead peer raises SIGPIPE, which by default ends the process. */
START_TEST(test_dead_peers_raise_no_signal)
{
    redlock_client *client = client_through(N, 500);
    redlock_lock_options options = lock_options(20000, 5000);

    ck_assert(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < N; i++)
            proxy_cut(proxies[i]);
        assert_rc(try_lock(client, &options), REDLOCK_OK);
    }
    ck_assert_uint_ge(stats_of(client).disconnects, 50);
    AWAIT(servers_with_key("job") == 0);
    free_all(client);
}
END_TEST

/* ---- a holder that stands still ----------------------------------------- */

/* The holder's process; gives the number of what went wrong. It is stopped while it reads. */
static int hold_and_stand_still(int from_test, int to_test)
{
    redlock_client *client = client_of(servers_uris(), N, 0);
    redlock_lock_options options = lock_options(1000, 0);
    redlock_lock *lock = NULL;
    char byte = 'x';

    if (redlock_acquire(client, "job", 3, &options, &lock) != 0 || redlock_is_held(lock) != 1)
        return 1;
    if (write(to_test, &byte, 1) != 1 || read(from_test, &byte, 1) != 1)
        return 2;
    if (redlock_is_held(lock) != 0 || redlock_remaining_ms(lock) != 0)
        return 3;
    if (redlock_extend(lock, 0) != REDLOCK_EXPIRED)
        return 4;
    if (redlock_release(lock) != REDLOCK_EXPIRED)
        return 5;
    AWAIT(stats_of(client).cleanups == 0);
    redlock_client_free(client);
    return 0;
}

/* Stopped for twice its ttl, while another holds the lock, releases it, and somebody else has it
 * when it goes on: not held at once, and no foreign key touched. */
START_TEST(test_stopped_holder)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(20000, 10000);
    int to_holder[2], to_test[2], status;
    char byte = 'x';
    int64_t start_ms;
    pid_t holder;

    ck_assert(pipe(to_holder) == 0 && pipe(to_test) == 0);
    holder = fork();
    if (holder == 0)
        _exit(hold_and_stand_still(to_holder[0], to_test[1]));
    ck_assert_int_eq(read(to_test[0], &byte, 1), 1);
    ck_assert_int_eq(kill(holder, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(holder, &status, WUNTRACED), holder);
    start_ms = servers_now_ms();
    ck_assert_int_eq(write(to_holder[1], &byte, 1), 1); /* it goes on as soon as it runs */
    client = client_of(servers_uris(), N, 0);
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    for (int i = 0; i < N; i++)
        take_foreign(i, "60000");
    AWAIT(servers_now_ms() - start_ms >= 2000);
    ck_assert_int_eq(kill(holder, SIGCONT), 0);
    ck_assert_int_eq(waitpid(holder, &status, 0), holder);
    ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    for (int i = 0; i < N; i++)
        assert_foreign(i);
    redlock_client_free(client);
}
END_TEST

static Suite *failures_suite(void)
{
    Suite *suite = suite_create("failures");
    TCase *partial = tcase_create("partial"), *refusing = tcase_create("refusing");
    TCase *going = tcase_create("going");

    tcase_add_checked_fixture(partial, start_five, servers_stop);
    tcase_set_timeout(partial, 60);
    tcase_add_test(partial, test_two_at_start_are_no_quorum);
    tcase_add_loop_test(partial, test_lost_answer_leaves_no_key, 0, 2);
    tcase_add_test(partial, test_ghost_grants_are_removed);
    tcase_add_test(partial, test_late_answer_is_not_the_next_ones);
    tcase_add_test(partial, test_second_removal_gets_what_was_overtaken);
    tcase_add_test(partial, test_thawed_server_executes_what_was_queued);
    tcase_add_loop_test(partial, test_end_after_a_partial_grant, 0, 2);
    tcase_add_test(partial, test_release_of_an_expired_lease);
    tcase_add_test(partial, test_quorum_after_the_ttl);
    tcase_add_loop_test(partial, test_every_mixture_of_answers, 0, 2);
    suite_add_tcase(suite, partial);
    tcase_set_timeout(refusing, 60);
    tcase_add_loop_test(refusing, test_refusals_are_errors_of_their_node, 0,
                        (int)(sizeof refusals / sizeof refusals[0]));
    suite_add_tcase(suite, refusing);
    tcase_add_checked_fixture(going, start_five, servers_stop);
    tcase_set_timeout(going, 60);
    tcase_add_test(going, test_no_right_to_run_scripts);
    tcase_add_test(going, test_wrong_type_at_our_key);
    tcase_add_test(going, test_flush_and_restart_go_unnoticed);
    tcase_add_loop_test(going, test_new_connections_are_waited_for, 0, 2);
    tcase_add_test(going, test_dead_peers_raise_no_signal);
    tcase_add_test(going, test_stopped_holder);
    suite_add_tcase(suite, going);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(failures_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
