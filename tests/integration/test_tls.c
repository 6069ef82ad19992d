/*
 * rediss:// on real servers: that it locks as without TLS, that nothing but the right peer is
 * spoken to, and that each refusal says what to mend.
 *
 * The servers' certificate is for localhost and 127.0.0.1; see tls_servers.h for all others.
 */
#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"
#include "tls_servers.h"

enum {
    CROWD = 8,
    LOCKS = 25, /* of each of the crowd, at once */
    CPU_WAIT_MS = 1500
};

static void start_five(void)
{
    tls_servers_start(N);
}

static redlock_options tls_options(const char *const *uris, size_t n)
{
    redlock_options options = options_for(uris, n);

    options.ca_file = tls_file("ca.crt");
    options.node_timeout_ms = 1000;
    return options;
}

static redlock_client *tls_client(void)
{
    redlock_options options = tls_options(tls_uris(), N);
    return new_client(&options);
}

/* ---- locking ------------------------------------------------------------ */

START_TEST(test_acquire_extend_release)
{
    redlock_client *client = tls_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = acquire(client, &options);
    char token[REDLOCK_TOKEN_LEN];

    AWAIT(servers_with_key("job") == N);
    assert_rc(try_lock(client, &options), REDLOCK_BUSY);
    assert_rc(redlock_extend(lock, 20000), REDLOCK_OK);
    ck_assert_int_gt(redlock_remaining_ms(lock), 15000);
    ck_assert_int_eq(redlock_detach(lock, token, sizeof token), 0);
    assert_rc(redlock_adopt(client, "job", 3, token, &options, &lock), REDLOCK_OK);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

static void count_renewals(void *context, redlock_lock *lock, redlock_event event)
{
    (void)lock;
    if (event == REDLOCK_EVENT_RENEWED)
        (void)atomic_fetch_add((atomic_int *)context, 1);
}

START_TEST(test_renewal)
{
    redlock_client *client = tls_client();
    redlock_lock_options options = lock_options(600, 0);
    atomic_int renewed = 0;
    redlock_lock *lock;

    options.renew = 1;
    options.on_event = count_renewals;
    options.event_context = &renewed;
    lock = acquire(client, &options);
    AWAIT(atomic_load(&renewed) >= 6);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* By name, by address, and one without TLS: a list may be mixed. */
START_TEST(test_names_and_mixed_lists)
{
    const char *uris[N] = {tls_uri_by_name(0), tls_uri_by_name(1), tls_uri(2), tls_uri(3),
                           servers_uri(4)};
    redlock_options options = tls_options(uris, N);
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client = new_client(&options);

    AWAIT(is_settled(client, N));
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    redlock_client_free(client);
    options.tls_min = 13;
    client = new_client(&options);
    AWAIT(is_settled(client, N));
    redlock_client_free(client);
}
END_TEST

/* A connection that holds a lock is lost with its server, and made anew. */
START_TEST(test_a_server_dies_and_comes_back)
{
    redlock_client *client = tls_client();
    redlock_lock_options options = lock_options(10000, 0);
    redlock_node_health health[N];
    redlock_lock *lock;

    AWAIT(is_settled(client, N));
    lock = acquire(client, &options);
    AWAIT(servers_with_key("job") == N);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    for (int i = 0; i < 2; i++)
        servers_kill(i);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    for (int i = 0; i < 2; i++)
        tls_servers_revive(i);
    AWAIT(is_settled(client, N));
    (void)redlock_health(client, health, N);
    ck_assert_uint_eq(health[0].connects, 2);
    ck_assert_uint_eq(health[2].connects, 1);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* ---- many at once ------------------------------------------------------- */

struct member {
    pthread_t thread;
    redlock_client *client;
    int number, failures;
};

static void *hold_many(void *argument)
{
    struct member *member = argument;
    redlock_lock_options options;
    redlock_lock *locks[LOCKS] = {0};
    char key[32];

    redlock_lock_options_init(&options);
    options.ttl_ms = 30000;
    options.wait_ms = 10000;
    for (int i = 0; i < LOCKS; i++) {
        int len = snprintf(key, sizeof key, "job-%d-%d", member->number, i);
        member->failures +=
            redlock_start_acquire(member->client, key, (size_t)len, &options, &locks[i]) != 0;
    }
    for (int i = 0; i < LOCKS; i++)
        AWAIT(redlock_poll_result(locks[i]) != REDLOCK_PENDING);
    for (int i = 0; i < LOCKS; i++)
        member->failures += redlock_poll_result(locks[i]) != REDLOCK_OK;
    for (int i = 0; i < LOCKS; i++)
        member->failures += redlock_extend(locks[i], 0) != REDLOCK_OK;
    for (int i = 0; i < LOCKS; i++)
        member->failures += redlock_release(locks[i]) != REDLOCK_OK;
    return NULL;
}

/* 200 locks from eight threads on one connection per server. */
START_TEST(test_a_crowd_on_one_client)
{
    redlock_options options = tls_options(tls_uris(), N);
    struct member crowd[CROWD];
    redlock_client *client;
    redlock_stats stats = {.size = sizeof stats};

    options.node_timeout_ms = 5000;
    options.silence_limit_ms = 60000;
    client = new_client(&options);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = (struct member){.client = client, .number = i};
        ck_assert_int_eq(pthread_create(&crowd[i].thread, NULL, hold_many, &crowd[i]), 0);
    }
    for (int i = 0; i < CROWD; i++) {
        ck_assert_int_eq(pthread_join(crowd[i].thread, NULL), 0);
        ck_assert_int_eq(crowd[i].failures, 0);
    }
    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    ck_assert_uint_eq(stats.acquired, CROWD * LOCKS);
    ck_assert_uint_eq(stats.disconnects, 0);
    redlock_client_free(client);
}
END_TEST

/* While a server stands still, more is written than the kernel keeps, so that records are sent in
 * parts; afterwards every answer comes, in order. */
START_TEST(test_output_that_the_kernel_does_not_take)
{
    enum {
        MANY = 3000
    };
    static char key[REDLOCK_MAX_KEY_LEN];
    static redlock_lock *locks[MANY];
    redlock_options options = tls_options(tls_uris(), 1);
    redlock_lock_options lock = lock_options(60000, REDLOCK_WAIT_FOREVER);
    redlock_client *client;
    redlock_stats stats = {.size = sizeof stats};

    lock.results = NULL;
    lock.result_count = 0;
    options.node_timeout_ms = 60000;
    options.silence_limit_ms = 60000;
    client = new_client(&options);
    AWAIT(is_settled(client, 1));
    memset(key, 'k', sizeof key);
    servers_freeze(0);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(key, 16, "%015d", i);
        ck_assert_int_eq(redlock_start_acquire(client, key, sizeof key, &lock, &locks[i]), 0);
    }
    servers_thaw(0);
    for (int i = 0; i < MANY; i++) {
        AWAIT(redlock_poll_result(locks[i]) != REDLOCK_PENDING);
        ck_assert_int_eq(redlock_poll_result(locks[i]), REDLOCK_OK);
    }
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(redlock_release(locks[i]), REDLOCK_OK);
    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    ck_assert_uint_eq(stats.disconnects, 0);
    ck_assert_str_eq(servers_command(0, "DBSIZE", NULL), "0");
    redlock_client_free(client);
}
END_TEST

/* ---- refusals ----------------------------------------------------------- */

/* All of the client's nodes have been down, each for this reason: what it says of itself, since an
 * attempt may meet it on its way to the next connect. */
static void assert_texts(const redlock_client *client, const char *part)
{
    redlock_node_health health[N];
    size_t n = redlock_health(client, health, N);

    for (size_t i = 0; i < n; i++) {
        AWAIT(redlock_health(client, health, N) == n && health[i].text[0] != '\0');
        ck_assert_msg(strstr(health[i].text, part) != NULL, "'%s' is not in '%s'", part,
                      health[i].text);
    }
}

/* None of the five can be used, and each says why. */
static void assert_all_say(const redlock_options *options, const char *part)
{
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client = new_client(options);

    assert_rc(try_lock(client, &lock), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(results[i].vote, REDLOCK_VOTE_DOWN);
    assert_texts(client, part);
    ck_assert_int_eq(servers_with_key("job"), 0);
    redlock_client_free(client);
}

static void assert_works(const redlock_options *options)
{
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client = new_client(options);

    AWAIT(is_settled(client, N));
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    redlock_client_free(client);
}

static void use(const char *certificate, const char *ask)
{
    for (int i = 0; i < N; i++)
        tls_servers_use(i, certificate, ask);
}

START_TEST(test_authorities)
{
    redlock_options options = tls_options(tls_uris(), N);

    options.ca_file = tls_file("stranger.crt"); /* the servers send theirs, which is no reason */
    assert_all_say(&options, "TLS: certificate verify failed: self");
    options.ca_file = NULL; /* the system's don't know ours */
    assert_all_say(&options, "TLS: certificate verify failed: self");
    for (int i = 0; i < N; i++)
        tls_servers_use(i, "foreign", "no");
    options.ca_file = tls_file("ca.crt");
    assert_all_say(&options,
                   "TLS: certificate verify failed: unable to get local issuer certificate");
    options.ca_file = tls_file("ca.crt");
    use("own", "no");
    assert_all_say(&options, "TLS: certificate verify failed: self");
    options.ca_file = tls_file("own.crt");
    assert_works(&options);
    use("expired", "no");
    options.ca_file = tls_file("ca.crt");
    assert_all_say(&options, "TLS: certificate verify failed: certificate has expired");
}
END_TEST

START_TEST(test_names)
{
    const char *by_name[N];
    redlock_options options = tls_options(tls_uris(), N);

    for (int i = 0; i < N; i++)
        by_name[i] = tls_uri_by_name(i);
    use("other", "no");
    assert_all_say(&options,
                   "TLS: certificate verify failed: IP address mismatch, not for 127.0.0.1");
    options.nodes = by_name;
    assert_all_say(&options,
                   "TLS: certificate verify failed: hostname mismatch, not for localhost");
    options.server_name = "other.example";
    assert_works(&options);
    options.server_name = "another.example";
    assert_all_say(&options,
                   "TLS: certificate verify failed: hostname mismatch, not for another.example");
    use("server", "no");
    options.server_name = "127.0.0.1";
    assert_works(&options);
    options.server_name = "127.0.0.2";
    assert_all_say(&options, "IP address mismatch");
}
END_TEST

/* With TLS 1.3 (loop 0) the server looks at it after our handshake is over, with 1.2 before. */
START_TEST(test_client_certificates)
{
    redlock_options options = tls_options(tls_uris(), N);

    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "CONFIG", "SET", "tls-protocols",
                                         _i == 0 ? "TLSv1.3" : "TLSv1.2", NULL),
                         "OK");
    use("server", "yes");
    assert_all_say(&options, "wants a client certificate");
    options.cert_file = tls_file("intruder.crt");
    options.key_file = tls_file("intruder.key");
    assert_all_say(&options, "TLS: the server refuses our certificate: unknown CA");
    options.cert_file = tls_file("client.crt");
    options.key_file = tls_file("client.key");
    assert_works(&options);
    use("server", "optional");
    options.cert_file = options.key_file = NULL;
    assert_works(&options);
    options.tls_min = 13;
    if (_i == 1)
        assert_all_say(&options, "TLS: ");
}
END_TEST

/* "OPTION FILE: WHY..." */
static void assert_no_client(const redlock_options *options, const char *option, const char *file,
                             const char *why)
{
    redlock_client *client = NULL;
    char text[256] = "", wanted[256];

    (void)snprintf(wanted, sizeof wanted, "%s %s: %s", option, file, why);
    ck_assert_int_eq(redlock_client_new(options, &client, text, sizeof text), REDLOCK_ERR_ARGUMENT);
    ck_assert_msg(strncmp(text, wanted, strlen(wanted)) == 0, "'%s', not '%s'", text, wanted);
}

START_TEST(test_files_that_cannot_be_used)
{
    const char *const uris[] = {"rediss://127.0.0.1:1"};
    redlock_options options = tls_options(uris, 1);
    const char *text_file = tls_file("log");

    options.ca_file = "/does/not/exist";
    assert_no_client(&options, "ca_file", options.ca_file, "No such file or directory");
    options.ca_file = text_file;
    assert_no_client(&options, "ca_file", text_file, "no usable certificate in it");
    options.ca_file = tls_file("ca.crt");
    options.cert_file = "/does/not/exist";
    options.key_file = tls_file("client.key");
    assert_no_client(&options, "cert_file", options.cert_file, "No such file or directory");
    options.cert_file = text_file;
    assert_no_client(&options, "cert_file", text_file, "no usable certificate in it");
    options.cert_file = tls_file("client.crt");
    options.key_file = "/does/not/exist";
    assert_no_client(&options, "key_file", options.key_file, "No such file or directory");
    options.key_file = text_file;
    assert_no_client(&options, "key_file", text_file, "no usable private key in it");
    options.key_file = tls_file("server.key");
    assert_no_client(&options, "key_file", options.key_file,
                     "it does not belong to the certificate in cert_file");
    options.key_file = tls_file("locked.key");
    assert_no_client(&options, "key_file", options.key_file, "it has a passphrase");
}
END_TEST

/* ---- peers that are no TLS servers -------------------------------------- */

START_TEST(test_plaintext_meets_tls)
{
    const char *uris[N] = {0};
    redlock_options options = tls_options(uris, N);

    for (int i = 0; i < N; i++)
        uris[i] = tls_uri_of(servers_uri(i));
    options.connect_timeout_ms = 300; /* they wait for the end of a line */
    assert_all_say(&options, "no connection within 300 ms: TLS has no answer, is it a TLS port?");
    for (int i = 0; i < N; i++) { /* and the other way round */
        static char plain[N][64];
        (void)snprintf(plain[i], sizeof plain[i], "redis:%s", tls_uri(i) + strlen("rediss:"));
        uris[i] = plain[i];
    }
    options.ca_file = NULL;
    assert_all_say(&options, "TLS port");
}
END_TEST

START_TEST(test_a_silent_peer_is_over_in_time)
{
    const char *uris[] = {tls_uri_of(servers_black_hole())};
    redlock_options options = tls_options(uris, 1);
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client;

    options.connect_timeout_ms = 300;
    client = new_client(&options);
    assert_rc(try_lock(client, &lock), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_DOWN);
    assert_texts(client, "no connection within 300 ms: TLS has no answer, is it a TLS port?");
    redlock_client_free(client);
}
END_TEST

static int64_t cpu_us(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    return (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 +
           used.ru_utime.tv_usec + used.ru_stime.tv_usec;
}

/* In the middle of a handshake, with nobody calling and with somebody who waits. */
START_TEST(test_a_silent_peer_costs_no_cpu)
{
    const char *uris[] = {tls_uri_of(servers_black_hole())};
    redlock_options options = tls_options(uris, 1);
    redlock_lock_options lock = lock_options(5000, CPU_WAIT_MS);
    redlock_node_health health;
    redlock_client *client;
    int64_t begun_us;

    options.connect_timeout_ms = 60000;
    client = new_client(&options);
    do
        (void)redlock_health(client, &health, 1);
    while (health.state != REDLOCK_NODE_CONNECTING);
    (void)poll(NULL, 0, 50);
    begun_us = cpu_us();
    if (_i == 0)
        (void)poll(NULL, 0, CPU_WAIT_MS);
    else
        (void)try_lock(client, &lock);
    ck_assert_int_lt(cpu_us() - begun_us, CPU_WAIT_MS * 1000 / 100);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_three_good_ones_are_enough)
{
    const char *uris[N] = {tls_uri_of(servers_black_hole()), tls_uri(1), tls_uri(2), tls_uri(3),
                           tls_uri_of(servers_uri(4))};
    redlock_options options = tls_options(uris, N);
    redlock_lock_options lock_for = lock_options(5000, 0);
    redlock_client *client = new_client(&options);
    redlock_lock *lock = acquire(client, &lock_for);

    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_DOWN);
    ck_assert_int_eq(results[4].vote, REDLOCK_VOTE_DOWN);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* What a peer says in the place of its handshake, and then the end. */
static const char *const noises[] = {
    "",
    "\x16",
    "\x16\x03\x03\x00\x04\x02\x00\x00\x00",                 /* an empty hello */
    "\x16\x03\x03\xff\xff\x02\x00\xff\xff",                 /* a record that is too long */
    "\x16\x03\x01\x00\x05\x02\x00\x00\x01\x7f",             /* a hello that is too short */
    "\x15\x03\x03\x00\x02\x02\x28",                         /* a fatal alert */
    "\x15\x03\x03\x00\x02\x01\x5a\x15\x03\x03\x00\x02\x01", /* warnings */
    "\x17\x03\x03\x00\x01x",                                /* data before any key */
    "-ERR max number of clients reached\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
};

static const size_t noise_lens[] = {0, 1, 9, 9, 10, 7, 13, 6, 36, 28};

static const char *const reasons[] = {
    "TLS: closed by the server during the handshake",
    "TLS: closed by the server during the handshake",
    "TLS: ",
    "TLS: ",
    "TLS: ",
    "TLS: the server gave up: handshake failure",
    "TLS: ",
    "TLS: the peer does not speak TLS: its first byte is 0x17",
    "TLS: the peer does not speak TLS: its first byte is 0x2d",
    "TLS: the peer does not speak TLS: its first byte is 0x48",
};

struct noisy {
    int listener, which;
};

static void *make_noise(void *argument)
{
    const struct noisy *noisy = argument;
    char bytes[2048];
    int fd;

    while ((fd = accept(noisy->listener, NULL, NULL)) >= 0) {
        (void)!recv(fd, bytes, sizeof bytes, 0);
        (void)send(fd, noises[noisy->which], noise_lens[noisy->which], MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

START_TEST(test_noise)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    struct noisy noisy = {.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .which = _i};
    char uri[64];
    const char *uris[] = {uri};
    redlock_options options = tls_options(uris, 1);
    redlock_lock_options lock = lock_options(5000, 0);
    redlock_client *client;
    pthread_t thread;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(noisy.listener, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(noisy.listener, 16), 0);
    ck_assert_int_eq(getsockname(noisy.listener, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d", ntohs(address.sin_port));
    ck_assert_int_eq(pthread_create(&thread, NULL, make_noise, &noisy), 0);
    client = new_client(&options);
    assert_rc(try_lock(client, &lock), REDLOCK_NO_QUORUM);
    ck_assert_int_eq(results[0].vote, REDLOCK_VOTE_DOWN);
    assert_texts(client, reasons[_i]);
    redlock_client_free(client);
    (void)shutdown(noisy.listener, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(noisy.listener);
}
END_TEST

/* ---- loops and children ------------------------------------------------- */

static int finish(redlock_client *client, redlock_lock *lock)
{
    int64_t give_up_ms = servers_now_ms() + 10000;

    while (redlock_poll_result(lock) == REDLOCK_PENDING) {
        struct pollfd fd = {.fd = redlock_fd(client), .events = POLLIN};
        int64_t timeout_ms = redlock_next_timeout_ms(client);
        ck_assert_int_lt(servers_now_ms(), give_up_ms);
        (void)poll(&fd, 1, timeout_ms < 0 || timeout_ms > 1000 ? 1000 : (int)timeout_ms);
        ck_assert_int_eq(redlock_process(client), 0);
    }
    return redlock_poll_result(lock);
}

START_TEST(test_external_loop)
{
    const char *uris[N] = {tls_uri(0), tls_uri(1), tls_uri(2), tls_uri(3),
                           tls_uri_of(servers_black_hole())};
    redlock_options options = tls_options(uris, N);
    redlock_lock_options wanted = lock_options(5000, 0);
    redlock_client *client;
    redlock_lock *lock = NULL;

    options.external_loop = 1;
    client = new_client(&options);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &wanted, &lock), 0);
    assert_rc(finish(client, lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_start_extend(lock, 0), 0);
    assert_rc(finish(client, lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    assert_rc(finish(client, lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* A child that frees its copy says nothing on the parent's connections. */
START_TEST(test_a_child_says_no_goodbye)
{
    redlock_client *client = tls_client();
    redlock_lock_options options = lock_options(5000, 0);
    redlock_stats stats = {.size = sizeof stats};
    redlock_lock *lock = acquire(client, &options);
    int status;
    pid_t child;

    AWAIT(servers_with_key("job") == N);
    child = fork();
    if (child == 0) {
        (void)redlock_release(lock);
        redlock_client_free(client);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    ck_assert_uint_eq(stats.disconnects, 0);
    redlock_client_free(client);
}
END_TEST

static Suite *tls_suite(void)
{
    Suite *suite = suite_create("tls");
    TCase *plain = tcase_create("plain"), *crowds = tcase_create("crowds");
    TCase *refusals = tcase_create("refusals"), *peers = tcase_create("peers");

    tcase_add_checked_fixture(plain, start_five, servers_stop);
    tcase_set_timeout(plain, 60);
    tcase_add_test(plain, test_acquire_extend_release);
    tcase_add_test(plain, test_renewal);
    tcase_add_test(plain, test_names_and_mixed_lists);
    tcase_add_test(plain, test_a_server_dies_and_comes_back);
    tcase_add_test(plain, test_external_loop);
    tcase_add_test(plain, test_a_child_says_no_goodbye);
    suite_add_tcase(suite, plain);
    tcase_add_checked_fixture(crowds, start_five, servers_stop);
    tcase_set_timeout(crowds, 120);
    tcase_add_test(crowds, test_a_crowd_on_one_client);
    tcase_add_test(crowds, test_output_that_the_kernel_does_not_take);
    suite_add_tcase(suite, crowds);
    tcase_add_checked_fixture(refusals, start_five, servers_stop);
    tcase_set_timeout(refusals, 60);
    tcase_add_test(refusals, test_authorities);
    tcase_add_test(refusals, test_names);
    tcase_add_loop_test(refusals, test_client_certificates, 0, 2);
    tcase_add_test(refusals, test_files_that_cannot_be_used);
    suite_add_tcase(suite, refusals);
    tcase_add_checked_fixture(peers, start_five, servers_stop);
    tcase_set_timeout(peers, 60);
    tcase_add_test(peers, test_plaintext_meets_tls);
    tcase_add_test(peers, test_a_silent_peer_is_over_in_time);
    tcase_add_loop_test(peers, test_a_silent_peer_costs_no_cpu, 0, 2);
    tcase_add_test(peers, test_three_good_ones_are_enough);
    tcase_add_loop_test(peers, test_noise, 0, (int)(sizeof noises / sizeof noises[0]));
    suite_add_tcase(suite, peers);
    return suite;
}

int main(void)
{
    SRunner *runner;
    int failed;

    if (!redlock_has_tls()) {
        puts("TLS is not in this build");
        return EXIT_SUCCESS;
    }
    tls_files_make();
    runner = srunner_create(tls_suite());
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
