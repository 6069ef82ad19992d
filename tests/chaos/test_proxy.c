/* Connections through links, and faults of whole connections. At the end, with a real server. */
#include "proxy_driver.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MANY 200000 /* bytes: more than one read */

/* ---- passing on ------------------------------------------------------------------ */

START_TEST(test_pass)
{
    struct link_count count;

    pass_both_ways();
    count = link_count(link_);
    ck_assert_uint_eq(count.accepted, 1);
    ck_assert_uint_eq(count.open, 1);
    ck_assert_uint_eq(count.commands, 1);
    ck_assert_uint_eq(count.bytes[REQUESTS], strlen(PING));
    ck_assert_uint_eq(count.bytes[REPLIES], 7);
    ck_assert_str_eq(link_name(link_), "a to 1");
}
END_TEST

/* What the client ends reaches the server, and the other way round; then nothing is left. */
START_TEST(test_fin)
{
    int *from = _i == 0 ? &client : &server, *to = _i == 0 ? &server : &client;

    say(*from, PING);
    ck_assert_int_eq(shutdown(*from, SHUT_WR), 0);
    hear(*to, PING);
    hear_end(*to);
    say(*to, "+PONG\r\n"); /* the other way goes on */
    hear(*from, "+PONG\r\n");
    shut(to);
    hear_end(*from);
    AWAIT(link_count(link_).open == 0);
    ck_assert_uint_eq(link_count(link_).resets, 0);
}
END_TEST

START_TEST(test_reset_by_peer)
{
    int *from = _i == 0 ? &client : &server, *to = _i == 0 ? &server : &client;

    say(*from, PING);
    hear(*to, PING);
    shut_with_reset(from);
    hear_reset(*to);
    AWAIT(link_count(link_).open == 0);
}
END_TEST

/* A client that goes on writing to a server that is gone is reset, as by that server. */
START_TEST(test_server_gone)
{
    say(server, "+OK\r\n");
    shut(&server);
    hear(client, "+OK\r\n");
    hear_end(client);
    say(client, PING);
    AWAIT(link_count(link_).open == 0);
    ck_assert_int_eq(send(client, PING, 1, MSG_NOSIGNAL), -1);
}
END_TEST

START_TEST(test_target_refuses)
{
    shut(&listening);
    open_client();
    hear_reset(client);
    ck_assert_uint_eq(link_count(link_).refused, 1);
    ck_assert_uint_eq(link_count(link_).open, 1); /* the first connection lives */
}
END_TEST

/* A reader that doesn't read stops the writer, and gets everything in the end. */
START_TEST(test_back_pressure)
{
    static char block[1024 * 1024];
    size_t written = 0, got = 0;
    ssize_t n;

    link_flow(link_, REPLIES, FLOW_HOLD);
    for (int quiet = 0; quiet < 20 || link_count(link_).bytes[REPLIES] < 7 * sizeof block;) {
        n = send(server, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
        written += n > 0 ? (size_t)n : 0;
        quiet = n > 0 ? 0 : quiet + 1;
        (void)nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    }
    ck_assert_uint_lt(link_count(link_).bytes[REPLIES], 9 * sizeof block);
    ck_assert_uint_gt(written, link_count(link_).bytes[REPLIES]);
    link_heal(link_);
    for (; got < written; got += (size_t)n) {
        n = recv(client, block, sizeof block, 0);
        ck_assert_int_gt(n, 0);
    }
    ck_assert_uint_eq(got, written);
}
END_TEST

/* ---- connections ------------------------------------------------------------------------ */

START_TEST(test_reset)
{
    int first_client = client, first_server = server;

    open_pair();
    open_client(); /* accepted or not: it is connected */
    link_reset(link_);
    hear_reset(first_client);
    hear_reset(first_server);
    hear_reset(server);
    hear_reset(client);
    ck_assert_uint_eq(link_count(link_).open, 0);
    ck_assert_uint_eq(link_count(link_).resets, 3);
    shut(&first_client);
    shut(&first_server);
}
END_TEST

START_TEST(test_refuse)
{
    int port = link_port(link_);

    for (int i = 0; i < 3; i++) {
        link_refuse(link_, true);
        link_refuse(link_, true);
        ck_assert_int_eq(try_connect(port), -1);
        ck_assert_int_eq(errno, ECONNREFUSED);
        pass_both_ways(); /* who is connected stays */
        if (i % 2 == 0)
            link_refuse(link_, false);
        else
            link_heal(link_);
        shut(&client);
        shut(&server);
        open_pair();
        pass_both_ways();
    }
}
END_TEST

START_TEST(test_refused_port_is_kept)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = prepared(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

    link_refuse(link_, true);
    address.sin_port = htons((in_port_t)link_port(link_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), -1);
    ck_assert_int_eq(errno, EADDRINUSE);
    shut(&fd);
}
END_TEST

START_TEST(test_silent)
{
    int mute;

    link_silent(link_, true);
    open_client();
    mute = client;
    say(mute, PING);
    AWAIT(link_count(link_).swallowed[REQUESTS] == strlen(PING));
    hear_nothing(mute);
    ck_assert_int_eq(poll(&(struct pollfd){.fd = listening, .events = POLLIN}, 1, 0), 0);
    if (_i == 0)
        link_silent(link_, false);
    else
        link_heal(link_);
    hear_reset(mute);
    shut(&mute);
    shut(&server);
    open_pair();
    pass_both_ways();
}
END_TEST

START_TEST(test_silent_client_leaves)
{
    link_silent(link_, true);
    open_client();
    AWAIT(link_count(link_).open == 2);
    shut(&client);
    AWAIT(link_count(link_).open == 1);
}
END_TEST

START_TEST(test_half_open)
{
    link_half_open(link_);
    hear_end(server);
    say(client, PING);
    AWAIT(link_count(link_).swallowed[REQUESTS] == strlen(PING));
    hear_nothing(client);
    shut(&server);
    link_silent(link_, false); /* is something else */
    hear_nothing(client);
    link_heal(link_);
    hear_reset(client);
    shut(&client);
    open_pair();
    pass_both_ways();
}
END_TEST

START_TEST(test_half_close)
{
    enum way way = _i == 0 ? REQUESTS : REPLIES;
    int from = way == REQUESTS ? client : server, to = way == REQUESTS ? server : client;

    link_half_close(link_, way);
    hear_end(to);
    say(to, "+OK\r\n");
    hear(from, "+OK\r\n");
    say(from, PING);
    AWAIT(link_count(link_).swallowed[way] == strlen(PING));
    link_heal(link_);
    hear_reset(from);
}
END_TEST

/* What was on its way before arrives before the end. */
START_TEST(test_half_close_behind_bytes)
{
    link_delay(link_, REQUESTS, (struct delay){.base_ns = 20 * MS});
    say(client, PING);
    AWAIT(link_count(link_).delayed[REQUESTS] == strlen(PING));
    link_half_close(link_, REQUESTS);
    say(client, PING);
    hear(server, PING);
    hear_end(server);
}
END_TEST

START_TEST(test_target)
{
    int port, other = listen_anywhere(&port);

    link_target(link_, port);
    hear_reset(client);
    hear_reset(server);
    shut(&client);
    shut(&server);
    shut(&listening);
    listening = other;
    open_pair();
    pass_both_ways();
}
END_TEST

START_TEST(test_reset_chance)
{
    int before = 0, instead = 0;

    link_reset_chance(link_, 1);
    for (int i = 0; i < 30; i++) {
        char byte;
        shut(&client);
        shut(&server);
        open_pair();
        say(client, PING);
        if (recv(server, &byte, 1, 0) == 1) {
            (void)send(server, "+PONG\r\n", 7, MSG_NOSIGNAL);
            instead++;
        } else {
            before++;
        }
        hear_reset(client);
    }
    ck_assert_int_gt(before, 3);
    ck_assert_int_gt(instead, 3);
    ck_assert_uint_eq(link_count(link_).resets, 30);
}
END_TEST

/* ---- the proxy ---------------------------------------------------------------------------- */

static pthread_mutex_t told_mutex = PTHREAD_MUTEX_INITIALIZER;
static char told[1024];

static void listener(void *context, const char *link, const char *what, int64_t n)
{
    char line[64];

    (void)snprintf(line, sizeof line, "%s %s %d, ", link, what, (int)n);
    (void)pthread_mutex_lock(&told_mutex);
    strcat(told, line);
    (void)pthread_mutex_unlock(&told_mutex);
    if (*(struct link **)context != NULL) /* it may call */
        (void)link_count(*(struct link **)context);
}

START_TEST(test_listener)
{
    struct link *known = NULL;
    int port;

    told[0] = '\0';
    listening = listen_anywhere(&port);
    proxy = proxy_new(1, listener, &known);
    link_ = known = proxy_link(proxy, "L", port);
    open_pair();
    link_trigger(link_, &(struct trigger){.k = 1, .action = TRIGGER_HOLD_REQUEST});
    say(client, PING);
    ck_assert(link_await_trigger(link_, LONG));
    link_reset(link_);
    shut(&server);
    shut(&client);
    shut(&listening);
    open_client();
    hear_reset(client);
    proxy_free(proxy);
    ck_assert_str_eq(told, "L connected 1, L trigger 1, L reset 1, L connected 2, L refused 2, "
                           "L closed 2, ");
    shut(&client);
}
END_TEST

/* With connections in every state. */
START_TEST(test_no_descriptor_left)
{
    int before = count_descriptors(), pairs[8][2];

    setup();
    shut(&client);
    shut(&server);
    for (int i = 0; i < 8; i++) {
        open_pair();
        pairs[i][0] = client;
        pairs[i][1] = server;
        say(client, PING);
        if (i == 1)
            shut_with_reset(&pairs[i][0]);
        else if (i == 2)
            shut(&pairs[i][1]);
        else if (i == 3)
            link_flow(link_, REQUESTS, FLOW_HOLD);
        else if (i == 5)
            link_half_open(link_);
        else if (i == 6)
            link_reset(link_);
    }
    for (int i = 0; i < 8; i++)
        for (int side = 0; side < 2; side++)
            shut(&pairs[i][side]);
    client = server = -1;
    proxy_free(proxy);
    proxy = NULL;
    shut(&listening);
    ck_assert_int_eq(count_descriptors(), before);
}
END_TEST

/* ---- a real server ----------------------------------------------------------------------------
 */

static int free_port(void)
{
    int port, fd = listen_anywhere(&port);

    (void)close(fd);
    return port;
}

static pid_t start_server(int port)
{
    pid_t pid = fork();
    char text[16];
    int fd;

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)snprintf(text, sizeof text, "%d", port);
        (void)execlp("redis-server", "redis-server", "--port", text, "--bind", "127.0.0.1",
                     "--save", "", "--logfile", "/dev/null", (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(pid, 0);
    AWAIT((fd = try_connect(port)) >= 0);
    (void)close(fd);
    return pid;
}

static redisContext *connect_redis(void)
{
    redisContext *redis =
        redisConnectWithTimeout("127.0.0.1", link_port(link_), (struct timeval){.tv_sec = 10});

    ck_assert_ptr_nonnull(redis);
    ck_assert_int_eq(redis->err, 0);
    ck_assert_int_eq(redisSetTimeout(redis, (struct timeval){.tv_sec = 10}), REDIS_OK);
    return redis;
}

static void expect(redisContext *redis, const char *command, const char *text)
{
    redisReply *reply = redisCommand(redis, command);

    ck_assert_msg(reply != NULL, "%s: %s", command, redis->errstr);
    ck_assert_str_eq(reply->str, text);
    freeReplyObject(reply);
}

/* A value of many bytes comes back as it was, in one-byte slices both ways too. */
static void echo_many(redisContext *redis, size_t n)
{
    char *text = malloc(n);
    redisReply *reply;

    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)(i * 7 + i / 251);
    reply = redisCommand(redis, "SET many %b", text, n);
    ck_assert_ptr_nonnull(reply);
    freeReplyObject(reply);
    reply = redisCommand(redis, "GET many");
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->len, n);
    ck_assert_int_eq(memcmp(reply->str, text, n), 0);
    freeReplyObject(reply);
    free(text);
}

START_TEST(test_real_server)
{
    int port = free_port();
    pid_t pid = start_server(port);
    redisContext *redis;

    proxy = proxy_new(1, NULL, NULL);
    link_ = proxy_link(proxy, "real", port);
    redis = connect_redis();
    echo_many(redis, MANY);
    link_slice(link_, REQUESTS, 1, 0);
    link_slice(link_, REPLIES, 1, 0);
    echo_many(redis, 3000);
    link_heal(link_);
    link_trigger(link_, &(struct trigger){"SET", "x", 2, TRIGGER_DROP_REPLY, 0, 0});
    expect(redis, "SET x 1", "OK");
    ck_assert_int_eq(redisAppendCommand(redis, "SET x 2"), REDIS_OK);
    ck_assert_int_eq(redisBufferWrite(redis, NULL), REDIS_OK);
    ck_assert(link_await_trigger(link_, LONG));
    redisFree(redis);
    link_heal(link_);
    redis = connect_redis();
    expect(redis, "GET x", "2"); /* done, and never told */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_ptr_null(redisCommand(redis, "GET x"));
    redisFree(redis);
    proxy_free(proxy);
}
END_TEST

static void add_connection_tests(TCase *connections)
{
    tcase_add_test(connections, test_pass);
    tcase_add_loop_test(connections, test_fin, 0, 2);
    tcase_add_loop_test(connections, test_reset_by_peer, 0, 2);
    tcase_add_test(connections, test_server_gone);
    tcase_add_test(connections, test_target_refuses);
    tcase_add_test(connections, test_back_pressure);
    tcase_add_test(connections, test_reset);
    tcase_add_test(connections, test_refuse);
    tcase_add_test(connections, test_refused_port_is_kept);
    tcase_add_loop_test(connections, test_silent, 0, 2);
    tcase_add_test(connections, test_silent_client_leaves);
    tcase_add_test(connections, test_half_open);
    tcase_add_loop_test(connections, test_half_close, 0, 2);
    tcase_add_test(connections, test_half_close_behind_bytes);
    tcase_add_test(connections, test_target);
    tcase_add_test(connections, test_reset_chance);
}

int main(void)
{
    Suite *suite = suite_create("proxy");
    TCase *connections = tcase_create("connections"), *whole = tcase_create("proxy");

    suite_add_tcase(suite, connections);
    tcase_set_timeout(connections, 60);
    tcase_add_checked_fixture(connections, setup, teardown);
    add_connection_tests(connections);
    suite_add_tcase(suite, whole);
    tcase_set_timeout(whole, 60);
    tcase_add_test(whole, test_listener);
    tcase_add_test(whole, test_no_descriptor_left);
    tcase_add_test(whole, test_real_server);
    return run_suite(suite);
}
