/*
 * The library against real servers: what callers see when all goes well, and when servers die,
 * hang, are silent, or belong to somebody else for a while.
 *
 * This program has a getaddrinfo() of its own: names ending in ".hang" never resolve, as with a
 * dead name server; "pair.test" has two addresses, of which nobody listens on the first.
 */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    NODE_MS = 1000,
    CONNECT_MS = 1000, /* the default */
    SLACK_MS = 2000,   /* what a loaded machine may add to any bound */
    PATIENCE_MS = 10000
};

int getaddrinfo(const char *restrict name, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    size_t len = strlen(name);
    int rc;

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    while (len > 5 && strcmp(name + len - 5, ".hang") == 0)
        (void)pause();
    if (strcmp(name, "pair.test") != 0)
        return real(name, port, hints, found);
    rc = real("127.0.0.2", port, hints, found);
    return rc != 0 ? rc : real("127.0.0.1", port, hints, &(*found)->ai_next);
}

/* ---- helpers ------------------------------------------------------------ */

static redlock_options patient_options(const char *const *uris, size_t n)
{
    redlock_options options = options_for(uris, n);

    options.node_timeout_ms = NODE_MS; /* so that a loaded machine is no silent one */
    return options;
}

static redlock_lock *acquire_key(redlock_client *client, const char *key,
                                 const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;

    assert_rc(redlock_acquire(client, key, strlen(key), options, &lock), REDLOCK_OK);
    return lock;
}

static int try_key(redlock_client *client, const char *key, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, key, strlen(key), options, &lock);

    ck_assert((rc == 0) == (lock != NULL));
    return rc == 0 ? redlock_release(lock) : rc;
}

static redlock_node_state state_of(const redlock_client *client, int i)
{
    redlock_node_health health[N];

    ck_assert_uint_eq(redlock_health(client, health, N), N);
    return health[i].state;
}

static int ready_nodes(const redlock_client *client)
{
    int ready = 0;

    for (int i = 0; i < N; i++)
        ready += state_of(client, i) == REDLOCK_NODE_READY;
    return ready;
}

static redlock_client *client_of_all(void)
{
    redlock_options options = patient_options(servers_uris(), N);
    return new_client(&options);
}

/* For tests that want the key on every server. */
static redlock_client *settled_client(void)
{
    redlock_client *client = client_of_all();

    AWAIT(ready_nodes(client) == N);
    return client;
}

static void start_five(void)
{
    servers_start(N);
}

/* ---- the plain way ------------------------------------------------------ */

START_TEST(test_acquire_extend_release)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = acquire_key(client, "job", &options);
    char token[REDLOCK_TOKEN_LEN];
    int64_t before_ns;

    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_le(redlock_remaining_ms(lock), 5000 - 52);
    ck_assert_int_gt(redlock_remaining_ms(lock), 0);
    ck_assert_int_eq(redlock_token(lock, token, sizeof token), 0);
    AWAIT(servers_with_key("job") == N);
    for (int i = 0; i < N; i++)
        ck_assert_mem_eq(servers_command(i, "GET", "job", NULL), token, 32);
    before_ns = redlock_deadline_ns(lock);
    assert_rc(redlock_extend(lock, 20000), REDLOCK_OK);
    ck_assert_int_gt(redlock_deadline_ns(lock), before_ns);
    ck_assert_int_gt(redlock_remaining_ms(lock), 5000);
    assert_rc(redlock_extend(lock, 60001), REDLOCK_ERR_TTL);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* SET once a server and nothing else; the same for the removal. */
START_TEST(test_one_command_per_server)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock;

    servers_reset_counts();
    lock = acquire_key(client, "job", &options);
    AWAIT(servers_with_key("job") == N);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(servers_count(i, "set"), 1);
        ck_assert_int_eq(servers_count(i, "eval"), 0);
        ck_assert_int_eq(servers_count(i, "get"), 0);
    }
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(servers_count(i, "eval"), 1);
    redlock_client_free(client);
}
END_TEST

static uint32_t owed_answers(const redlock_client *client)
{
    redlock_node_health health[N];
    uint32_t owed = 0;

    ck_assert_uint_eq(redlock_health(client, health, N), N);
    for (int i = 0; i < N; i++)
        owed += health[i].pending;
    return owed;
}

/* Answers that came after the verdict are read although nobody calls any more, and long before
 * their node timeout. */
START_TEST(test_late_answers_are_read)
{
    redlock_options slow = patient_options(servers_uris(), N);
    redlock_lock_options options = lock_options(5000, 0);
    int64_t start_ms = servers_now_ms();
    redlock_client *client;

    slow.node_timeout_ms = 5000;
    client = new_client(&slow);
    for (int round = 0; round < 30; round++) {
        assert_rc(try_key(client, "job", &options), REDLOCK_OK);
        AWAIT(owed_answers(client) == 0);
    }
    ck_assert_int_lt(servers_now_ms() - start_ms, 5000);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_names_are_binary_and_prefixed)
{
    redlock_options options = patient_options(servers_uris(), N);
    redlock_client *client;
    redlock_lock *lock = NULL;

    options.prefix = "app:";
    client = new_client(&options);
    assert_rc(redlock_acquire(client, "\0\r\n\xff", 4, NULL, &lock), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    assert_rc(redlock_acquire(client, "x", 1, NULL, &lock), REDLOCK_OK);
    AWAIT(servers_with_key("app:x") == N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_acquire(client, "redlock:x", 9, NULL, &lock), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock_acquire(client, "", 0, NULL, &lock), REDLOCK_ERR_KEY);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_descriptors_and_threads_stay_constant)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0);
    int before[2] = {0, 0}, after[2] = {0, 0};
    static const char *const folders[] = {"/proc/self/fd", "/proc/self/task"};

    for (int round = 0; round < 10000; round++) {
        assert_rc(try_key(client, "job", &options), REDLOCK_OK);
        for (int i = 0; i < 2 && (round == 100 || round == 9999); i++) {
            DIR *folder = opendir(folders[i]);
            while (readdir(folder) != NULL)
                ++*(round == 100 ? &before[i] : &after[i]);
            (void)closedir(folder);
        }
    }
    ck_assert_int_eq(before[0], after[0]);
    ck_assert_int_eq(before[1], after[1]);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_other_clients_exclude_us_and_we_them)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock;
    int refused = 0;

    for (int i = 0; i < 3; i++)
        (void)servers_command(i, "SET", "job", "somebody", "NX", "PX", "60000", NULL);
    assert_rc(try_key(client, "job", &options), REDLOCK_BUSY);
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(servers_command(i, "GET", "job", NULL), "somebody");
    AWAIT(servers_with_key("job") == 3); /* ours on the other two is gone */
    lock = acquire_key(client, "other", &options);
    for (int i = 0; i < N; i++)
        refused +=
            servers_command(i, "SET", "other", "somebody", "NX", "PX", "60000", NULL) == NULL;
    ck_assert_int_ge(refused, 3);
    (void)redlock_release(lock);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_inspect)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = acquire_key(client, "job", &options);
    redlock_inspection sum;
    redlock_node_inspection nodes[N];
    char token[REDLOCK_TOKEN_LEN];

    ck_assert_int_eq(redlock_token(lock, token, sizeof token), 0);
    AWAIT(servers_with_key("job") == N);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, nodes, N), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_ONE);
    ck_assert_uint_eq(sum.votes, N);
    ck_assert_int_gt(sum.remaining_ms, 0);
    ck_assert_int_le(sum.remaining_ms, 5000);
    ck_assert_mem_eq(sum.owner, token, 32);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(nodes[i].result.vote, REDLOCK_VOTE_FOREIGN);
        ck_assert_ptr_nonnull(strstr(servers_uri(i), nodes[i].result.address));
    }
    ck_assert_int_eq(redlock_inspect(client, "free", 4, &sum, NULL, 0), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_NONE);
    for (int i = 0; i < 3; i++)
        servers_kill(i);
    AWAIT(ready_nodes(client) == 2);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, nodes, N), 0);
    ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_UNKNOWN);
    (void)redlock_release(lock);
    redlock_client_free(client);
}
END_TEST

/* As if nothing was ever held, although the quorum is still to say that the keys are gone. */
START_TEST(test_a_lock_being_released_is_nobodys)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = acquire_key(client, "job", &options);
    char token[REDLOCK_TOKEN_LEN] = "untouched";

    for (int i = 0; i < 3; i++)
        servers_freeze(i);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    ck_assert_int_eq(redlock_poll_result(lock), REDLOCK_PENDING);
    for (int round = 0; round < 2; round++) { /* the second time it is released */
        ck_assert_int_eq(redlock_token(lock, token, sizeof token), REDLOCK_ERR_STATE);
        ck_assert_str_eq(token, "untouched");
        ck_assert_int_eq(redlock_detach(lock, token, sizeof token), REDLOCK_ERR_STATE);
        ck_assert_int_eq(redlock_deadline_ns(lock), 0);
        ck_assert_int_eq(redlock_remaining_ms(lock), 0);
        ck_assert_int_eq(redlock_is_held(lock), 0);
        ck_assert_int_eq(redlock_margin(lock), -1);
        ck_assert_int_eq(redlock_fence(lock), REDLOCK_ERR_STATE);
        for (int i = 0; i < 3; i++)
            servers_thaw(i);
        AWAIT(redlock_poll_result(lock) != REDLOCK_PENDING);
    }
    (void)redlock_release(lock);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_detach_and_adopt)
{
    redlock_client *client = client_of_all(), *other = client_of_all(), *stranger;
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = acquire_key(client, "job", &options), *adopted = NULL;
    const char *turned[N];
    redlock_options turned_options = patient_options(turned, N);
    char token[REDLOCK_TOKEN_LEN], again[REDLOCK_TOKEN_LEN];

    ck_assert_int_eq(redlock_detach(lock, token, sizeof token - 1), REDLOCK_ERR_ARGUMENT);
    ck_assert_int_eq(redlock_detach(lock, token, sizeof token), 0);
    for (int i = 0; i < N; i++)
        turned[i] = servers_uri(N - 1 - i);
    stranger = new_client(&turned_options);
    ck_assert_int_eq(redlock_adopt(stranger, "job", 3, token, &options, &adopted),
                     REDLOCK_ERR_MEMBERS);
    ck_assert_int_eq(redlock_adopt(other, "job", 3, "nonsense", &options, &adopted),
                     REDLOCK_ERR_TOKEN);
    ck_assert_int_eq(redlock_adopt(other, "job", 3, token, &options, &adopted), 0);
    ck_assert_int_eq(redlock_is_held(adopted), 0);
    assert_rc(try_key(client, "job", &options), REDLOCK_BUSY);
    assert_rc(redlock_extend(adopted, 0), REDLOCK_OK);
    ck_assert_int_eq(redlock_is_held(adopted), 1);
    ck_assert_int_eq(redlock_token(adopted, again, sizeof again), 0);
    ck_assert_mem_eq(again, token, 32);
    assert_rc(redlock_release(adopted), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(stranger);
    redlock_client_free(other);
    redlock_client_free(client);
}
END_TEST

/* ---- servers that fail -------------------------------------------------- */

START_TEST(test_two_of_five_down)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0);

    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    servers_kill(1);
    servers_kill(4);
    for (int round = 0; round < 20; round++) {
        redlock_lock *lock;
        AWAIT(ready_nodes(client) == 3);
        lock = acquire_key(client, "job", &options);
        ck_assert_int_eq(results[1].vote, REDLOCK_VOTE_DOWN);
        ck_assert_str_ne(results[1].text, "");
        assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
        assert_rc(redlock_release(lock), REDLOCK_OK);
    }
    redlock_client_free(client);
}
END_TEST

START_TEST(test_majority_goes_and_comes_back)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0), patient = lock_options(5000, PATIENCE_MS);
    redlock_node_health health[N];

    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    for (int i = 0; i < 3; i++)
        servers_kill(i);
    for (int i = 0; i < 3; i++)
        AWAIT(redlock_health(client, health, N) == N && strstr(health[i].text, "refused") != NULL);
    assert_rc(try_key(client, "job", &options), REDLOCK_NO_QUORUM);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_DOWN);
        ck_assert_ptr_nonnull(strstr(results[i].text, "refused"));
        ck_assert_ptr_nonnull(strstr(servers_uri(i), results[i].address));
    }
    for (int i = 0; i < 3; i++)
        servers_revive(i);
    assert_rc(try_key(client, "job", &patient), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* A black hole and a name server that is dead cost nothing once three are there, and
 * closing doesn't wait for them either. */
START_TEST(test_black_hole_and_hanging_name)
{
    const char *uris[N] = {servers_uri(0), servers_black_hole(), servers_uri(2), "redis://x.hang",
                           servers_uri(4)};
    redlock_options options = patient_options(uris, N);
    redlock_lock_options lock = lock_options(5000, 0);
    int64_t start_ms = servers_now_ms();
    redlock_client *client = new_client(&options);

    for (int round = 0; round < 50; round++)
        assert_rc(try_key(client, "job", &lock), REDLOCK_OK);
    redlock_client_free(client);
    ck_assert_int_lt(servers_now_ms() - start_ms, CONNECT_MS + 2 * NODE_MS + SLACK_MS);
}
END_TEST

START_TEST(test_four_kinds_of_silence)
{
    const char *uris[N] = {servers_uri(0), servers_black_hole(), servers_refused(),
                           "redis://x.hang", "redis://no.such.name.invalid"};
    redlock_options options = patient_options(uris, N);
    redlock_lock_options once = lock_options(5000, 0), short_wait = lock_options(5000, 200);
    redlock_client *client = new_client(&options);
    int64_t start_ms = servers_now_ms();
    int rc = try_key(client, "job", &short_wait);

    ck_assert_msg(rc == REDLOCK_NO_QUORUM || rc == REDLOCK_WAIT_DEADLINE, "%d", rc);
    ck_assert_int_lt(servers_now_ms() - start_ms, 200 + SLACK_MS);
    start_ms = servers_now_ms();
    assert_rc(try_key(client, "job", &once), REDLOCK_NO_QUORUM);
    ck_assert_int_lt(servers_now_ms() - start_ms, CONNECT_MS + NODE_MS + SLACK_MS);
    for (int i = 1; i < N; i++) {
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_DOWN);
        ck_assert_str_ne(results[i].text, "");
    }
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_frozen_servers_are_silent)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0);
    int64_t start_ms;

    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    AWAIT(ready_nodes(client) == N);
    for (int i = 0; i < 3; i++)
        servers_freeze(i);
    start_ms = servers_now_ms();
    assert_rc(try_key(client, "job", &options), REDLOCK_NO_QUORUM);
    ck_assert_int_lt(servers_now_ms() - start_ms, CONNECT_MS + NODE_MS + SLACK_MS);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_SILENT);
        servers_thaw(i);
    }
    AWAIT(servers_with_key("job") == 0); /* what the frozen ones were sent is removed behind */
    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* A server that closes idle connections costs no vote: the next call finds new ones. */
START_TEST(test_closed_connections_are_replaced)
{
    redlock_client *client = client_of_all();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_node_health health[N];

    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    AWAIT(ready_nodes(client) == N);
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "CLIENT", "KILL", "TYPE", "normal", NULL);
    for (int i = 0; i < N; i++)
        AWAIT(redlock_health(client, health, N) == N && health[i].connects == 2 &&
              health[i].state == REDLOCK_NODE_READY);
    assert_rc(try_key(client, "job", &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_second_address_of_a_name)
{
    char uri[64];
    const char *const uris[] = {uri};
    redlock_options options = patient_options(uris, 1);
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client;

    (void)snprintf(uri, sizeof uri, "redis://pair.test:%d", servers_port(0));
    client = new_client(&options);
    assert_rc(try_key(client, "job", &lock), REDLOCK_OK);
    servers_kill(0);
    servers_revive(0);
    lock.wait_ms = PATIENCE_MS;
    assert_rc(try_key(client, "job", &lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_unix_socket_password_and_database)
{
    static char path[64];
    static const char *const arguments[] = {"--requirepass", "s3cret", "--unixsocket", path, NULL};
    char right[128], wrong[128];
    const char *uris[] = {right};
    redlock_options options = patient_options(uris, 1);
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client;

    (void)snprintf(path, sizeof path, "/tmp/redlock-test-%ld.sock", (long)getpid());
    servers_start_with(1, arguments);
    (void)snprintf(right, sizeof right, "unix://:s3cret@%s?db=3", path);
    (void)snprintf(wrong, sizeof wrong, "unix://:wr0ng@%s", path);
    client = new_client(&options);
    assert_rc(try_key(client, "job", &lock), REDLOCK_OK);
    redlock_client_free(client);
    uris[0] = wrong;
    client = new_client(&options);
    assert_rc(try_key(client, "job", &lock), REDLOCK_NO_QUORUM);
    ck_assert_ptr_nonnull(strstr(results[0].text, "WRONGPASS"));
    ck_assert_ptr_null(strstr(results[0].text, "wr0ng"));
    redlock_client_free(client);
    (void)unlink(path);
}
END_TEST

/* Two silent servers and one without a listener: no spinning, with nobody calling. */
START_TEST(test_silence_costs_no_cpu)
{
    const char *uris[N] = {servers_uri(0), servers_black_hole(), servers_refused(),
                           "redis://x.hang", servers_uri(4)};
    redlock_options options = patient_options(uris, N);
    redlock_client *client = new_client(&options);
    struct rusage before, after;
    int64_t used_us;

    (void)getrusage(RUSAGE_SELF, &before);
    (void)poll(NULL, 0, 2000);
    (void)getrusage(RUSAGE_SELF, &after);
    used_us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec) * 1000000 + after.ru_utime.tv_usec -
              before.ru_utime.tv_usec;
    used_us += (after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1000000 + after.ru_stime.tv_usec -
               before.ru_stime.tv_usec;
    ck_assert_int_lt(used_us, 200000); /* a spinning thread uses ten times that */
    redlock_client_free(client);
}
END_TEST

/* ---- forked children ---------------------------------------------------- */

/* In the child; gives the number of what went wrong. */
static int use_in_child(redlock_client *client, redlock_lock *lock, redlock_cancel_handle *cancel)
{
    redlock_inspection sum;
    redlock_lock *other = NULL;
    char token[REDLOCK_TOKEN_LEN];
    redlock_stats stats = {.size = sizeof stats};

    if (redlock_is_held(lock) != 0 || redlock_remaining_ms(lock) != 0)
        return 1;
    if (redlock_acquire(client, "x", 1, NULL, &other) != REDLOCK_ERR_FORKED)
        return 2;
    if (redlock_extend(lock, 0) != REDLOCK_ERR_FORKED)
        return 3;
    if (redlock_detach(lock, token, sizeof token) != REDLOCK_ERR_FORKED)
        return 4;
    if (redlock_inspect(client, "x", 1, &sum, NULL, 0) != REDLOCK_ERR_FORKED)
        return 5;
    if (redlock_stats_get(client, &stats) != REDLOCK_ERR_FORKED)
        return 6;
    redlock_cancel(cancel);
    if (redlock_release(lock) != REDLOCK_ERR_FORKED)
        return 7;
    redlock_cancel_free(cancel);
    redlock_client_free(client);
    return 0;
}

START_TEST(test_child_is_refused_and_harmless)
{
    redlock_client *client = settled_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_cancel_handle *cancel = NULL;
    redlock_lock *lock;
    int status;
    pid_t child;

    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    options.cancel = cancel;
    lock = acquire_key(client, "job", &options);
    AWAIT(servers_with_key("job") == N);
    child = fork();
    if (child == 0)
        _exit(use_in_child(client, lock, cancel));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(servers_with_key("job"), N);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    ck_assert_int_eq(ready_nodes(client), N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

static Suite *client_suite(void)
{
    Suite *suite = suite_create("client");
    TCase *plain = tcase_create("plain"), *failing = tcase_create("failing");
    TCase *child = tcase_create("child");

    tcase_add_checked_fixture(plain, start_five, servers_stop);
    tcase_set_timeout(plain, 60);
    tcase_add_test(plain, test_acquire_extend_release);
    tcase_add_test(plain, test_one_command_per_server);
    tcase_add_test(plain, test_late_answers_are_read);
    tcase_add_test(plain, test_names_are_binary_and_prefixed);
    tcase_add_test(plain, test_descriptors_and_threads_stay_constant);
    tcase_add_test(plain, test_other_clients_exclude_us_and_we_them);
    tcase_add_test(plain, test_inspect);
    tcase_add_test(plain, test_a_lock_being_released_is_nobodys);
    tcase_add_test(plain, test_detach_and_adopt);
    suite_add_tcase(suite, plain);
    tcase_add_checked_fixture(failing, start_five, servers_stop);
    tcase_set_timeout(failing, 60);
    tcase_add_test(failing, test_two_of_five_down);
    tcase_add_test(failing, test_majority_goes_and_comes_back);
    tcase_add_test(failing, test_black_hole_and_hanging_name);
    tcase_add_test(failing, test_four_kinds_of_silence);
    tcase_add_test(failing, test_frozen_servers_are_silent);
    tcase_add_test(failing, test_closed_connections_are_replaced);
    tcase_add_test(failing, test_second_address_of_a_name);
    tcase_add_test(failing, test_unix_socket_password_and_database);
    tcase_add_test(failing, test_silence_costs_no_cpu);
    suite_add_tcase(suite, failing);
    tcase_add_checked_fixture(child, start_five, servers_stop);
    tcase_set_timeout(child, 60);
    tcase_add_test(child, test_child_is_refused_and_harmless);
    suite_add_tcase(suite, child);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(client_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
