/*
 * Bounds: how long calls take when servers or name servers don't answer, how much of anything
 * there may be, and what is refused before a byte is sent. Endpoints of every kind, too.
 *
 * This program has a getaddrinfo() of its own: names ending in ".hang" never resolve, as with a
 * dead name server; "moving.test" is 127.0.0.1, or an address where nobody listens.
 */
#include <arpa/inet.h>
#include <check.h>
#include <dlfcn.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "locking.h"
#include "proxy.h"
#include "redlock.h"
#include "servers.h"

enum {
    SLACK_MS = 2000, /* what a loaded machine may add to any bound */
    WARM_CYCLES = 200,
    COLD_CYCLES = 20
};

static atomic_bool moved_away;
static atomic_int lookups;

int getaddrinfo(const char *restrict name, const char *restrict port,
                const struct addrinfo *restrict hints, struct addrinfo **restrict found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    size_t len = strlen(name);

    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    while (len > 5 && strcmp(name + len - 5, ".hang") == 0)
        (void)pause();
    if (strcmp(name, "moving.test") != 0)
        return real(name, port, hints, found);
    (void)atomic_fetch_add(&lookups, 1);
    return real(atomic_load(&moved_away) ? "127.0.0.3" : "127.0.0.1", port, hints, found);
}

/* ---- helpers ------------------------------------------------------------ */

static redlock_client *quick_client(const char *const *uris, size_t n)
{
    redlock_options options = options_for(uris, n);
    return new_client(&options);
}

static int try_name(redlock_client *client, const void *key, size_t len,
                    const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, key, len, options, &lock);

    return rc == 0 ? redlock_release(lock) : rc;
}

static size_t ready_nodes(const redlock_client *client)
{
    redlock_node_health health[N];
    size_t n = redlock_health(client, health, N), ready = 0;

    for (size_t i = 0; i < n && i < N; i++)
        ready += health[i].state == REDLOCK_NODE_READY;
    return ready;
}

static redlock_stats stats_of(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    return stats;
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void start_five(void)
{
    servers_start(N);
}

/* ---- bounds in time ----------------------------------------------------- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The quickest of some acquires, each by a client of its own, in microseconds. */
static int64_t cold_us(const char *const *uris)
{
    redlock_lock_options options = lock_options(10000, 0);
    int64_t best = INT64_MAX;

    for (int i = 0; i < COLD_CYCLES; i++) {
        int64_t start_us = now_us();
        redlock_client *client = quick_client(uris, N);
        redlock_lock *lock = acquire(client, &options);
        int64_t took_us = now_us() - start_us;

        ck_assert_int_lt(took_us, (1000 + 500 + SLACK_MS) * 1000);
        best = least(best, took_us);
        assert_rc(redlock_release(lock), REDLOCK_OK);
        redlock_client_free(client);
    }
    return best;
}

/* Acquire and release, on the average. */
static int64_t warm_us(redlock_client *client)
{
    redlock_lock_options options = lock_options(10000, 0);
    int64_t start_us = now_us();

    for (int i = 0; i < WARM_CYCLES; i++)
        assert_rc(try_lock(client, &options), REDLOCK_OK);
    return (now_us() - start_us) / WARM_CYCLES;
}

/* Twenty times as much would be a lot, and a node timeout (500 ms) in each far more. */
static void compare(const char *what, int64_t us, int64_t us_without, int64_t slack_us)
{
    printf("%s: %lld us, %lld us without, ratio %.2f\n", what, (long long)us, (long long)us_without,
           (double)us / (double)us_without);
    ck_assert_int_le(us, 20 * us_without + slack_us);
}

/* One accepts and never answers, another's name never resolves. */
START_TEST(test_two_that_never_answer_cost_little)
{
    const char *uris[N] = {servers_uri(0), servers_black_hole(), servers_uri(2), "redis://x.hang",
                           servers_uri(4)};
    redlock_client *all = quick_client(servers_uris(), N), *three = quick_client(uris, N);

    compare("cold", cold_us(uris), cold_us(servers_uris()), 250000);
    AWAIT(ready_nodes(all) == N && ready_nodes(three) == 3);
    compare("warm", warm_us(three), warm_us(all), 1000);
    redlock_client_free(three);
    redlock_client_free(all);
}
END_TEST

/* The same where two that answered fall silent: a client that knows them, with a lock held. */
START_TEST(test_two_that_fall_silent_cost_little)
{
    redlock_client *client = quick_client(servers_uris(), N);
    int64_t before_us, after_us;

    AWAIT(ready_nodes(client) == N);
    before_us = warm_us(client);
    servers_freeze(1);
    servers_freeze(3);
    after_us = warm_us(client);
    compare("frozen", after_us, before_us, 1000);
    servers_thaw(1);
    servers_thaw(3);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* What a TLS port says to somebody who doesn't speak it: a fatal alert, and the end. */
static void *serve_tls_alerts(void *argument)
{
    static const char alert[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46};
    const int *listener = argument;
    char bytes[64];
    int fd;

    while ((fd = accept(*listener, NULL, NULL)) >= 0) {
        (void)!recv(fd, bytes, sizeof bytes, 0);
        (void)send(fd, alert, sizeof alert, MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

static int listen_anywhere(char *uri, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(uri, size, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

/* Two black holes, a name that never resolves, a TLS port, one up: all over in time, with a reason
 * for each of the four. */
START_TEST(test_a_short_wait_is_kept)
{
    struct proxy *hole = proxy_new(servers_port(1));
    char tls_uri[64];
    int listener = listen_anywhere(tls_uri, sizeof tls_uri);
    const char *uris[N] = {servers_uri(0), servers_black_hole(), proxy_uri(hole), "redis://x.hang",
                           tls_uri};
    redlock_lock_options options = lock_options(10000, 200);
    redlock_client *client;
    pthread_t tls;
    int64_t start_ms;

    proxy_set(hole, PROXY_REQUESTS, PROXY_HOLD);
    ck_assert_int_eq(pthread_create(&tls, NULL, serve_tls_alerts, &listener), 0);
    for (int round = 0; round < 10; round++) {
        start_ms = servers_now_ms();
        client = quick_client(uris, N);
        assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
        ck_assert_int_lt(servers_now_ms() - start_ms, 200 + SLACK_MS);
        for (int i = 1; i < N; i++) {
            ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_DOWN);
            ck_assert_str_ne(results[i].text, "");
        }
        ck_assert_msg(strstr(results[4].text, "0x15") != NULL, "%s", results[4].text);
        redlock_client_free(client);
    }
    ck_assert_str_eq(servers_command(0, "EXISTS", "job", NULL), "0");
    (void)shutdown(listener, SHUT_RDWR);
    ck_assert_int_eq(pthread_join(tls, NULL), 0);
    (void)close(listener);
    proxy_free(hole);
}
END_TEST

/* A ttl of ten hours doesn't make the node timeout half an hour. */
START_TEST(test_long_ttl_has_a_short_node_timeout)
{
    redlock_options options = options_for(servers_uris(), N);
    redlock_lock_options lock = lock_options(36000000, 0);
    redlock_client *client;
    int64_t start_ms;

    options.max_ttl_ms = 36000000;
    client = new_client(&options);
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    AWAIT(ready_nodes(client) == N);
    for (int i = 0; i < 3; i++)
        servers_freeze(i);
    start_ms = servers_now_ms();
    assert_rc(try_lock(client, &lock), REDLOCK_NO_QUORUM);
    ck_assert_int_lt(servers_now_ms() - start_ms, 500 + SLACK_MS);
    ck_assert_ptr_nonnull(strstr(results[0].text, "500 ms"));
    redlock_client_free(client);
}
END_TEST

/* Attempts fail for longer than the ttl; validity counts from the start of the one that won. */
START_TEST(test_validity_counts_from_the_winning_attempt)
{
    redlock_client *client = quick_client(servers_uris(), N);
    redlock_lock_options options = lock_options(1000, 10000);
    redlock_lock *lock;
    int64_t start_ms = servers_now_ms();

    for (int i = 0; i < 3; i++)
        (void)servers_command(i, "SET", "job", "other", "PX", "2000", NULL);
    lock = acquire(client, &options);
    ck_assert_int_ge(servers_now_ms() - start_ms, 1900);
    ck_assert_int_gt(redlock_remaining_ms(lock), 500);
    ck_assert_int_le(redlock_remaining_ms(lock), 1000 - 12);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* A wait of two seconds: over by then, with few commands. */
START_TEST(test_waiting_is_cheap)
{
    redlock_client *client = quick_client(servers_uris(), N);
    redlock_lock_options options = lock_options(10000, 2000);
    int64_t start_ms = servers_now_ms();

    for (int i = 0; i < N; i++)
        (void)servers_command(i, "SET", "job", "other", NULL);
    servers_reset_counts();
    assert_rc(try_lock(client, &options), REDLOCK_BUSY);
    ck_assert_int_lt(servers_now_ms() - start_ms, 2000 + SLACK_MS);
    for (int i = 0; i < N; i++) {
        ck_assert_int_le(servers_count(i, "set"), 40);
        ck_assert_int_ge(servers_count(i, "set"), 2);
        ck_assert_str_eq(servers_command(i, "GET", "job", NULL), "other");
    }
    redlock_client_free(client);
}
END_TEST

/* The wait ends in the middle of an attempt, long before any node timeout. Nobody was found silent,
 * and the only verdict there has been is "busy". */
START_TEST(test_wait_that_ends_in_an_attempt)
{
    struct proxy *proxies[3];
    const char *uris[N] = {servers_uri(0), servers_uri(1)};
    redlock_options slow = options_for(uris, N);
    redlock_lock_options options = lock_options(10000, 500);
    redlock_client *client;

    for (int i = 0; i < N; i++)
        (void)servers_command(i, "SET", "job", "other", NULL);
    for (int i = 0; i < 3; i++) {
        proxies[i] = proxy_new(servers_port(2 + i));
        uris[2 + i] = proxy_uri(proxies[i]);
    }
    slow.node_timeout_ms = 60000;
    client = new_client(&slow);
    AWAIT(is_settled(client, N)); /* or the first attempt may go without a slow connection */
    for (int i = 0; i < 3; i++)   /* from the removal of the first attempt on */
        proxy_set_at(proxies[i], "EVAL", 1, PROXY_REPLIES, PROXY_HOLD);
    assert_rc(try_lock(client, &options), REDLOCK_BUSY);
    /* One of the primaries is also told, by a SET before a BLPOP, that somebody waits. */
    ck_assert_int_eq(proxy_count(proxies[0], "SET") - proxy_count(proxies[0], "BLPOP"), 2);
    for (int i = 0; i < 3; i++)
        proxy_cut(proxies[i]);
    redlock_client_free(client);
    for (int i = 0; i < 3; i++)
        proxy_free(proxies[i]);
}
END_TEST

START_TEST(test_hold_has_a_cap)
{
    redlock_options slow = options_for(servers_uris(), N);
    redlock_lock_options options = lock_options(1200, 0);
    redlock_client *client;
    redlock_lock *lock;
    int64_t start_ms = servers_now_ms();

    slow.node_timeout_ms = 500;
    client = new_client(&slow);
    options.renew = 1;
    options.max_hold_ms = 2000;
    lock = acquire(client, &options);
    AWAIT(redlock_next_event(lock) == REDLOCK_EVENT_LOST);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_ge(servers_now_ms() - start_ms, 2000);
    ck_assert_int_lt(servers_now_ms() - start_ms, 2000 + SLACK_MS);
    ck_assert_uint_ge(stats_of(client).extended, 2);
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    redlock_client_free(client);
}
END_TEST

/* ---- bounds in number --------------------------------------------------- */

START_TEST(test_bad_arguments_are_refused_before_anything_is_sent)
{
    static char key[REDLOCK_MAX_KEY_LEN + 1];
    redlock_client *client = quick_client(servers_uris(), N);
    redlock_lock_options options;
    static const int64_t bad_ttls[] = {0, -1, INT64_MIN, 2, 60001, INT64_MAX};
    redlock_lock *lock = NULL;

    AWAIT(ready_nodes(client) == N);
    servers_reset_counts();
    ck_assert_int_eq(try_name(client, key, sizeof key, NULL), REDLOCK_ERR_KEY);
    ck_assert_int_eq(try_name(client, "", 0, NULL), REDLOCK_ERR_KEY);
    ck_assert_int_eq(try_name(client, "redlock:seen", 12, NULL), REDLOCK_ERR_KEY);
    for (size_t i = 0; i < sizeof bad_ttls / sizeof bad_ttls[0]; i++) {
        options = lock_options(bad_ttls[i], 0);
        ck_assert_int_eq(redlock_acquire(client, "job", 3, &options, &lock), REDLOCK_ERR_TTL);
    }
    options = lock_options(10000, REDLOCK_MAX_WAIT_MS + 1);
    ck_assert_int_eq(try_lock(client, &options), REDLOCK_ERR_ARGUMENT);
    options = lock_options(10000, -2);
    ck_assert_int_eq(try_lock(client, &options), REDLOCK_ERR_ARGUMENT);
    options = lock_options(10000, 0);
    options.min_validity_ms = 10000;
    ck_assert_int_lt(try_lock(client, &options), 0);
    ck_assert_ptr_null(lock);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(servers_count(i, "set") + servers_count(i, "eval"), 0);
    redlock_client_free(client);
}
END_TEST

/* Names of one byte and of the longest length, of any bytes, with and without a prefix. */
START_TEST(test_shortest_and_longest_names)
{
    static char key[REDLOCK_MAX_KEY_LEN], prefix[REDLOCK_MAX_PREFIX_LEN + 1];
    redlock_options options = options_for(servers_uris(), N);
    redlock_client *client = quick_client(servers_uris(), N), *prefixed;
    redlock_lock *lock = NULL;

    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)i;
    memset(prefix, '{', sizeof prefix - 1);
    options.prefix = prefix;
    prefixed = new_client(&options);
    for (size_t len = 1; len <= sizeof key; len += sizeof key - 1)
        ck_assert_int_eq(try_name(client, key, len, NULL), REDLOCK_OK);
    ck_assert_int_eq(try_name(prefixed, key, sizeof key - sizeof prefix + 1, NULL), REDLOCK_OK);
    ck_assert_int_eq(try_name(prefixed, key, sizeof key - sizeof prefix + 2, NULL),
                     REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock_acquire(client, key, 1, NULL, &lock), REDLOCK_OK);
    ck_assert_int_eq(try_name(client, key, 2, NULL), REDLOCK_OK); /* not cut at a NUL */
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(prefixed);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_thousands_of_locks_use_one_connection_each)
{
    redlock_client *client = quick_client(servers_uris(), N);
    redlock_lock_options options = lock_options(10000, 0);

    AWAIT(ready_nodes(client) == N);
    for (int i = 0; i < 2000; i++)
        assert_rc(try_lock(client, &options), REDLOCK_OK);
    ck_assert_uint_eq(stats_of(client).connects, N);
    ck_assert_uint_eq(stats_of(client).disconnects, 0);
    redlock_client_free(client);
}
END_TEST

/* Half against half, and a quorum that's set: never hangs, never less than a majority. */
START_TEST(test_quorums)
{
    redlock_lock_options lock = lock_options(10000, 0);
    redlock_options options = options_for(servers_uris(), N);
    redlock_client *client = NULL;

    for (size_t n = 2; n <= 4; n += 2) {
        for (int i = 0; i < (int)n / 2; i++)
            (void)servers_command(i, "SET", "job", "other", NULL);
        client = quick_client(servers_uris(), n);
        assert_rc(try_lock(client, &lock), REDLOCK_BUSY);
        AWAIT(servers_with_key("job") == (int)n / 2);
        redlock_client_free(client);
    }
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "DEL", "job", NULL);
    options.quorum = 2;
    ck_assert_int_eq(redlock_client_new(&options, &client, NULL, 0), REDLOCK_ERR_QUORUM);
    options.quorum = 6;
    ck_assert_int_eq(redlock_client_new(&options, &client, NULL, 0), REDLOCK_ERR_QUORUM);
    options.quorum = 5;
    client = new_client(&options);
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    (void)servers_command(0, "SET", "job", "other", NULL);
    assert_rc(try_lock(client, &lock), REDLOCK_BUSY);
    AWAIT(servers_with_key("job") == 1);
    redlock_client_free(client);
}
END_TEST

/* Many locks, each released within a millisecond of when its renewal is due. */
START_TEST(test_release_while_a_renewal_fires)
{
    enum {
        LOCKS = 1000,
        ROUNDS = 3
    };
    static redlock_lock *locks[LOCKS];
    static int64_t due_us[LOCKS];
    redlock_options slow = options_for(servers_uris(), N);
    redlock_lock_options options = lock_options(9000, 0);
    redlock_client *client;
    unsigned seed = 1;

    slow.node_timeout_ms = 5000;
    slow.silence_limit_ms = 10000;
    client = new_client(&slow);
    options.renew = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < LOCKS; i++) {
            due_us[i] = now_us() + 3000000 - 1000 + rand_r(&seed) % 2000;
            assert_rc(redlock_acquire(client, &i, sizeof i, &options, &locks[i]), REDLOCK_OK);
        }
        for (uint32_t i = 0; i < LOCKS; i++) {
            while (now_us() < due_us[i])
                if (due_us[i] - now_us() > 3000)
                    (void)poll(NULL, 0, 1);
            assert_rc(redlock_release(locks[i]), REDLOCK_OK);
        }
    }
    AWAIT(stats_of(client).cleanups == 0);
    ck_assert_uint_eq(stats_of(client).lost, 0);
    ck_assert_uint_gt(stats_of(client).extended, 0);
    for (int i = 0; i < N; i++)
        AWAIT(strcmp(servers_command(i, "DBSIZE", NULL), "0") == 0);
    redlock_client_free(client);
}
END_TEST

/* ---- endpoints ---------------------------------------------------------- */

START_TEST(test_user_password_and_database)
{
    char uri[128];
    const char *const uris[] = {uri};
    redlock_client *client;
    redlock_lock_options options = lock_options(10000, 0);
    redlock_lock *lock;
    const char *clients;

    (void)servers_command(0, "ACL", "SETUSER", "al:ice@x", "on", ">p@ss/w:rd%", "~*", "+@all",
                          NULL);
    (void)snprintf(uri, sizeof uri, "redis://al%%3Aice%%40x:p%%40ss%%2Fw%%3Ard%%25@127.0.0.1:%d/3",
                   servers_port(0));
    client = quick_client(uris, 1);
    lock = acquire(client, &options);
    ck_assert_str_eq(servers_command(0, "EVAL",
                                     "redis.call('SELECT', 3) return redis.call('EXISTS', 'job')",
                                     "0", NULL),
                     "1");
    ck_assert_str_eq(servers_command(0, "EXISTS", "job", NULL), "0");
    clients = servers_command(0, "CLIENT", "LIST", NULL);
    ck_assert_ptr_nonnull(strstr(clients, "user=al:ice@x"));
    ck_assert_ptr_nonnull(strstr(clients, "name=libredlock"));
    ck_assert_ptr_null(strstr(results[0].address, "p@ss"));
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* An IPv6 address and a unix socket; skipped without IPv6. */
START_TEST(test_ipv6_and_unix_socket)
{
    char path[64], uris[2][128];
    const char *arguments[] = {"--bind", "127.0.0.1", "::1", "--unixsocket", path, NULL};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    redlock_lock_options options = lock_options(10000, 0);
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), available;

    available = probe >= 0 && bind(probe, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(probe);
    if (!available)
        arguments[2] = "127.0.0.2";
    (void)snprintf(path, sizeof path, "/tmp/redlock test-%ld.sock", (long)getpid());
    servers_start_with(1, arguments);
    (void)snprintf(uris[0], sizeof uris[0], "unix:///tmp/redlock%%20test-%ld.sock?db=2",
                   (long)getpid());
    (void)snprintf(uris[1], sizeof uris[1], "redis://[::1]:%d", servers_port(0));
    for (int i = 0; i < 1 + available; i++) {
        const char *uri = uris[i];
        redlock_client *client = quick_client(&uri, 1);

        assert_rc(try_lock(client, &options), REDLOCK_OK);
        redlock_client_free(client);
    }
    (void)unlink(path);
}
END_TEST

/* A name that moves is looked up again for each connection. */
START_TEST(test_names_are_resolved_again)
{
    char uri[64];
    const char *const uris[] = {uri};
    redlock_client *client;
    redlock_lock_options options = lock_options(10000, 0), patient = lock_options(10000, 10000);
    int before;

    (void)snprintf(uri, sizeof uri, "redis://moving.test:%d", servers_port(0));
    atomic_store(&moved_away, true);
    client = quick_client(uris, 1);
    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    ck_assert_msg(strstr(results[0].text, "refused") != NULL, "%s", results[0].text);
    atomic_store(&moved_away, false);
    assert_rc(try_lock(client, &patient), REDLOCK_OK);
    before = atomic_load(&lookups);
    (void)servers_command(0, "CLIENT", "KILL", "TYPE", "normal", NULL);
    AWAIT(stats_of(client).connects == 2);
    ck_assert_int_gt(atomic_load(&lookups), before);
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static Suite *limits_suite(void)
{
    Suite *suite = suite_create("limits");
    TCase *time = tcase_create("time"), *number = tcase_create("number");
    TCase *endpoints = tcase_create("endpoints");

    tcase_add_checked_fixture(time, start_five, servers_stop);
    tcase_set_timeout(time, 60);
    tcase_add_test(time, test_two_that_never_answer_cost_little);
    tcase_add_test(time, test_two_that_fall_silent_cost_little);
    tcase_add_test(time, test_a_short_wait_is_kept);
    tcase_add_test(time, test_long_ttl_has_a_short_node_timeout);
    tcase_add_test(time, test_validity_counts_from_the_winning_attempt);
    tcase_add_test(time, test_waiting_is_cheap);
    tcase_add_test(time, test_wait_that_ends_in_an_attempt);
    tcase_add_test(time, test_hold_has_a_cap);
    suite_add_tcase(suite, time);
    tcase_add_checked_fixture(number, start_five, servers_stop);
    tcase_set_timeout(number, 120);
    tcase_add_test(number, test_bad_arguments_are_refused_before_anything_is_sent);
    tcase_add_test(number, test_shortest_and_longest_names);
    tcase_add_test(number, test_thousands_of_locks_use_one_connection_each);
    tcase_add_test(number, test_quorums);
    tcase_add_test(number, test_release_while_a_renewal_fires);
    suite_add_tcase(suite, number);
    tcase_add_checked_fixture(endpoints, start_five, servers_stop);
    tcase_set_timeout(endpoints, 60);
    tcase_add_test(endpoints, test_user_password_and_database);
    tcase_add_test(endpoints, test_ipv6_and_unix_socket);
    tcase_add_test(endpoints, test_names_are_resolved_again);
    suite_add_tcase(suite, endpoints);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(limits_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
