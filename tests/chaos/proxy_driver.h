/*
 * A link of a proxy with the test at both ends: it is client and server, on blocking sockets that
 * fail it after ten seconds. For the test programs of the proxy, each of which includes it once.
 */
#ifndef PROXY_DRIVER_H
#define PROXY_DRIVER_H

#include <arpa/inet.h>
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proxy.h"

#define MS INT64_C(1000000)
#define LONG (10000 * MS)
#define SET_A "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
#define SET_B "*3\r\n$3\r\nset\r\n$1\r\nb\r\n$1\r\n1\r\n"
#define GET_A "*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"

/* A readiness signal where there is no event to wait for: looked at each millisecond. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t until_ = now_ns() + LONG;                                                          \
        while (!(condition) && now_ns() < until_)                                                  \
            (void)nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);                              \
        ck_assert_msg((condition), "not within ten seconds: " #condition);                         \
    } while (0)

static struct proxy *proxy;
static struct link *link_;
static int listening, client, server; /* the last connection's two ends */

static int64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * MS + now.tv_nsec;
}

static int prepared(int fd)
{
    struct timeval patience = {.tv_sec = 10};
    int one = 1;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

/* A listener on any port. */
static int listen_anywhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = prepared(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 64), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/* -1: errno. */
static int try_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    int fd = prepared(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static void open_client(void)
{
    client = try_connect(link_port(link_));
    ck_assert_int_ge(client, 0);
}

static void open_pair(void)
{
    open_client();
    server = prepared(accept4(listening, NULL, NULL, SOCK_CLOEXEC));
}

static void setup(void)
{
    int port;

    listening = listen_anywhere(&port);
    proxy = proxy_new(1, NULL, NULL);
    ck_assert_ptr_nonnull(proxy);
    link_ = proxy_link(proxy, "a to 1", port);
    ck_assert_ptr_nonnull(link_);
    open_pair();
}

static inline void shut(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static inline void shut_with_reset(int *fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    shut(fd);
}

static void teardown(void)
{
    shut(&client);
    shut(&server);
    shut(&listening);
    proxy_free(proxy);
}

static inline void say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* A byte at a time, each in a segment of its own. */
static inline void spell(int fd, const char *text)
{
    for (; *text != '\0'; text++)
        ck_assert_int_eq(send(fd, text, 1, MSG_NOSIGNAL), 1);
}

/* Exactly this is what comes next. */
static inline void hear(int fd, const char *text)
{
    size_t len = strlen(text);
    char *heard = calloc(1, len + 1);

    ck_assert_ptr_nonnull(heard);
    for (size_t got = 0; got < len;) {
        ssize_t n = recv(fd, heard + got, len - got, 0);
        ck_assert_msg(n > 0, "\"%s\" and then %s, not \"%s\"", heard,
                      n == 0 ? "the end" : strerror(errno), text);
        got += (size_t)n;
    }
    ck_assert_str_eq(heard, text);
    free(heard);
}

/* For now. Meant for when an account says that all there was has been dealt with. */
static inline void hear_nothing(int fd)
{
    char byte;

    ck_assert_int_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    ck_assert_int_eq(errno, EAGAIN);
}

static inline void hear_end(int fd)
{
    char byte;

    ck_assert_int_eq(recv(fd, &byte, 1, 0), 0);
}

static inline void hear_reset(int fd)
{
    char byte;

    ck_assert_int_eq(recv(fd, &byte, 1, 0), -1);
    ck_assert_int_eq(errno, ECONNRESET);
}

static inline void pass_both_ways(void)
{
    say(client, PING);
    hear(server, PING);
    say(server, "+PONG\r\n");
    hear(client, "+PONG\r\n");
}

static inline int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int n = 0;

    ck_assert_ptr_nonnull(directory);
    while (readdir(directory) != NULL)
        n++;
    (void)closedir(directory);
    return n;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
