/*
 * The links that the bench puts before primaries: that each state is what it says. What a link
 * keeps back is shown by another, asked later, that answers first. Sources are included.
 */
#include <check.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>

#include "../../tools/bench/links.c"
#include "../../tools/bench/reroute.c"
#include "servers.h"

#define LONG_NS INT64_C(5000000000)

static char said[256];
static struct bench bench;
static struct links *links;

bool bench_fail(struct bench *failed, const char *format, ...)
{
    va_list list;

    ck_assert_ptr_eq(failed, &bench);
    va_start(list, format);
    (void)vsnprintf(said, sizeof said, format, list);
    va_end(list);
    return false;
}

static void setup(void)
{
    servers_start(2);
    links = links_open(&bench, servers_uris(), 2);
    ck_assert_msg(links != NULL, "%s", said);
}

static void teardown(void)
{
    links_close(links);
    servers_stop();
}

/* A connection to link i; -1: refused. */
static int connect_to(unsigned i)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((in_port_t)links_port(links, i))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_ge(fd, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    ck_assert_int_eq(errno, ECONNREFUSED);
    close(fd);
    return -1;
}

static void ask(int fd)
{
    ck_assert_int_eq(send(fd, "PING\r\n", 6, MSG_NOSIGNAL), 6);
}

static void expect_answer(int fd)
{
    char answer[16] = "";

    ck_assert_int_eq(recv(fd, answer, sizeof answer - 1, 0), 7);
    ck_assert_str_eq(answer, "+PONG\r\n");
}

static void expect_end(int fd)
{
    char answer[16];

    ck_assert_int_le(recv(fd, answer, sizeof answer, 0), 0);
}

/* Asks there, then elsewhere, where the answer comes first. */
static void expect_silence(int fd)
{
    struct pollfd there = {.fd = fd, .events = POLLIN};
    int elsewhere = connect_to(1);

    ask(fd);
    ask(elsewhere);
    expect_answer(elsewhere);
    ck_assert_int_eq(poll(&there, 1, 0), 0);
    close(elsewhere);
}

static void set(enum links_state state, int64_t ns)
{
    ck_assert_msg(links_set(links, 0, state, ns), "%s", said);
}

START_TEST(a_link_leads_to_its_primary)
{
    int fd = connect_to(0);
    char uri[64];

    ask(fd);
    expect_answer(fd);
    close(fd);
    snprintf(uri, sizeof uri, "redis://127.0.0.1:%d", links_port(links, 1));
    ck_assert_str_eq(links_uris(links)[1], uri);
}
END_TEST

START_TEST(a_silent_one_accepts_and_swallows)
{
    int before = connect_to(0), during;

    ask(before);
    expect_answer(before);
    set(LINKS_SILENT, 0);
    expect_silence(before);
    during = connect_to(0);
    ck_assert_int_ge(during, 0);
    expect_silence(during);
    set(LINKS_WELL, 0);
    expect_end(before);
    close(before);
    close(during);
    before = connect_to(0);
    ask(before);
    expect_answer(before);
    close(before);
}
END_TEST

START_TEST(a_refusing_one_ends_what_there_was)
{
    int before = connect_to(0);

    ask(before);
    expect_answer(before);
    set(LINKS_REFUSE, 0);
    expect_end(before);
    close(before);
    ck_assert_int_lt(connect_to(0), 0);
    set(LINKS_WELL, 0);
    before = connect_to(0);
    ask(before);
    expect_answer(before);
    close(before);
}
END_TEST

static const enum links_state late[] = {LINKS_SLOW, LINKS_FARTHER};

START_TEST(a_late_one_answers_in_the_end)
{
    int fd = connect_to(0);

    set(late[_i], LONG_NS);
    expect_silence(fd);
    set(LINKS_WELL, 0);
    expect_answer(fd);
    close(fd);
}
END_TEST

START_TEST(a_slow_one_asks_at_once)
{
    int fd = connect_to(0);

    set(LINKS_SLOW, LONG_NS);
    ck_assert_int_eq(send(fd, "SET k v\r\n", 9, MSG_NOSIGNAL), 9);
    AWAIT(servers_with_key("k") == 1);
    close(fd);
}
END_TEST

START_TEST(what_cannot_be_led_is_said_without_its_password)
{
    const char *uris[] = {servers_uri(0), "redis://:secret@10.0.0.1:1"};

    ck_assert_ptr_null(links_open(&bench, uris, 2));
    ck_assert_str_eq(said, "primary 2 can't be put behind a proxy: it is not on 127.0.0.1");
}
END_TEST

START_TEST(a_proxy_that_ended_is_said)
{
    ck_assert_int_eq(kill(links->child, SIGKILL), 0);
    ck_assert(!links_set(links, 0, LINKS_SILENT, 0));
    ck_assert_str_eq(said, "the proxy ended");
}
END_TEST

START_TEST(closing_ends_the_proxy)
{
    pid_t child = links->child;

    links_close(links);
    links = NULL;
    ck_assert_int_eq(kill(child, 0), -1);
    ck_assert_int_eq(errno, ESRCH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench links");
    TCase *t = tcase_create("links");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, a_link_leads_to_its_primary);
    tcase_add_test(t, a_silent_one_accepts_and_swallows);
    tcase_add_test(t, a_refusing_one_ends_what_there_was);
    tcase_add_loop_test(t, a_late_one_answers_in_the_end, 0, 2);
    tcase_add_test(t, a_slow_one_asks_at_once);
    tcase_add_test(t, what_cannot_be_led_is_said_without_its_password);
    tcase_add_test(t, a_proxy_that_ended_is_said);
    tcase_add_test(t, closing_ends_the_proxy);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
