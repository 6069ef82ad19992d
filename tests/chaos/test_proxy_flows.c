/* Lasting faults of what passes through a link: held, lost, delayed, in slices, slowly. */
#include "proxy_driver.h"

static void swallow(enum way way)
{
    link_flow(link_, way, FLOW_SWALLOW);
}

static void hold(enum way way)
{
    link_flow(link_, way, FLOW_HOLD);
}

static uint64_t held(enum way way)
{
    return link_count(link_).held[way];
}

/* ---- hold, swallow ------------------------------------------------------------------ */

START_TEST(test_hold)
{
    enum way way = _i % 2 == 0 ? REQUESTS : REPLIES;
    int from = way == REQUESTS ? client : server, to = way == REQUESTS ? server : client;

    hold(way);
    say(from, PING);
    AWAIT(held(way) == strlen(PING));
    say(from, GET_A);
    AWAIT(held(way) == strlen(PING GET_A));
    hear_nothing(to);
    say(to, "+OK\r\n"); /* not the other way */
    hear(from, "+OK\r\n");
    if (_i < 2)
        link_flow(link_, way, FLOW_PASS);
    else
        link_heal(link_);
    hear(to, PING GET_A);
    pass_both_ways();
    ck_assert_uint_eq(held(way), strlen(PING GET_A));
}
END_TEST

/* Who connects meanwhile is subject to it. */
START_TEST(test_hold_new_connection)
{
    hold(REPLIES);
    shut(&client);
    shut(&server);
    open_pair();
    say(server, "+OK\r\n");
    AWAIT(held(REPLIES) == 5);
    hear_nothing(client);
    link_heal(link_);
    hear(client, "+OK\r\n");
}
END_TEST

/* Requests outlive their client if it only closed the connection, ... */
START_TEST(test_closed_client_is_delivered)
{
    hold(REQUESTS);
    say(client, SET_A);
    AWAIT(held(REQUESTS) == strlen(SET_A));
    shut(&client);
    say(server, "+OK\r\n"); /* makes the client's kernel reset: it has closed before */
    AWAIT(link_count(link_).bytes[REPLIES] == 5);
    hear_nothing(server);
    link_heal(link_);
    hear(server, SET_A);
    hear_end(server);
    shut(&server);
    AWAIT(link_count(link_).open == 0);
}
END_TEST

/* ... not if it abandoned it. */
START_TEST(test_abandoned_requests_are_dropped)
{
    int descriptors;

    hold(REQUESTS);
    say(client, SET_A);
    AWAIT(held(REQUESTS) == strlen(SET_A));
    descriptors = count_descriptors();
    shut_with_reset(&client);
    AWAIT(count_descriptors() == descriptors - 2); /* ours, and then that of the proxy */
    hear_nothing(server);                          /* the reset is held, too */
    link_heal(link_);
    hear_reset(server);
    AWAIT(link_count(link_).open == 0);
}
END_TEST

/* Delayed bytes are on their way already, ahead of the reset. */
START_TEST(test_abandoned_requests_that_are_delayed_arrive)
{
    link_delay(link_, REQUESTS, (struct delay){.base_ns = 30 * MS});
    say(client, SET_A);
    AWAIT(link_count(link_).delayed[REQUESTS] == strlen(SET_A));
    shut_with_reset(&client);
    hear(server, SET_A);
    hear_reset(server);
}
END_TEST

START_TEST(test_swallow)
{
    enum way way = _i % 2 == 0 ? REQUESTS : REPLIES;
    int from = way == REQUESTS ? client : server, to = way == REQUESTS ? server : client;
    int idle_client = client, idle_server = server;

    open_pair(); /* the one that will lose bytes */
    from = way == REQUESTS ? client : server;
    to = way == REQUESTS ? server : client;
    swallow(way);
    say(from, PING);
    AWAIT(link_count(link_).swallowed[way] == strlen(PING));
    hear_nothing(to);
    say(to, "+OK\r\n");
    hear(from, "+OK\r\n");
    if (_i < 2)
        link_flow(link_, way, FLOW_PASS);
    else
        link_heal(link_);
    hear_reset(client);
    hear_reset(server);
    ck_assert_uint_eq(link_count(link_).resets, 1);
    shut(&client);
    shut(&server);
    client = idle_client;
    server = idle_server;
    pass_both_ways(); /* it hasn't lost anything */
}
END_TEST

/* The end of a connection is lost as well. */
START_TEST(test_swallow_end)
{
    int first = client;

    swallow(REPLIES);
    if (_i == 0)
        shut(&server);
    else
        shut_with_reset(&server);
    open_pair();
    say(client, PING); /* came later, so that end has been dealt with */
    hear(server, PING);
    hear_nothing(first);
    link_heal(link_);
    hear_reset(first);
    shut(&first);
    pass_both_ways();
}
END_TEST

START_TEST(test_swallow_what_is_held)
{
    hold(REQUESTS);
    say(client, PING);
    AWAIT(held(REQUESTS) == strlen(PING));
    swallow(REQUESTS);
    ck_assert_uint_eq(link_count(link_).swallowed[REQUESTS], strlen(PING));
    hold(REQUESTS);
    say(client, PING); /* what follows lost bytes is lost */
    AWAIT(link_count(link_).swallowed[REQUESTS] == 2 * strlen(PING));
    hear_nothing(server);
    link_heal(link_);
    hear_reset(client);
}
END_TEST

/* An end that is held is lost with the bytes before it. */
START_TEST(test_swallow_end_that_is_held)
{
    int first = client;

    hold(REPLIES);
    say(server, "+OK\r\n");
    shut(&server);
    open_pair();
    say(client, PING); /* came later, so that end has been dealt with */
    hear(server, PING);
    swallow(REPLIES);
    ck_assert_uint_eq(link_count(link_).swallowed[REPLIES], 5);
    hear_nothing(first);
    link_heal(link_);
    hear_reset(first);
    shut(&first);
}
END_TEST

/* ---- delays, slices, bandwidth --------------------------------------------------------- */

START_TEST(test_delay)
{
    int64_t before = now_ns();

    link_delay(link_, REQUESTS, (struct delay){.base_ns = 20 * MS});
    link_delay(link_, REPLIES,
               (struct delay){.law = LAW_UNIFORM, .base_ns = 20 * MS, .spread_ns = MS});
    pass_both_ways();
    ck_assert_int_ge(now_ns() - before, 39 * MS);
    ck_assert_uint_eq(link_count(link_).delayed[REQUESTS], strlen(PING));
    ck_assert_uint_eq(link_count(link_).delayed[REPLIES], 7);
    link_heal(link_);
    pass_both_ways();
    ck_assert_uint_eq(link_count(link_).delayed[REQUESTS], strlen(PING));
}
END_TEST

/* However they are drawn, bytes stay in order; the end comes behind them. */
START_TEST(test_delay_keeps_order)
{
    char text[301];

    for (int i = 0; i < 300; i++)
        text[i] = (char)('a' + i % 26);
    text[300] = '\0';
    link_delay(link_, REPLIES, (struct delay){LAW_PARETO, 0, MS / 4});
    spell(server, text);
    shut(&server);
    hear(client, text);
    hear_end(client);
}
END_TEST

/* Healing delivers what has been delayed for longer. */
START_TEST(test_heal_hurries)
{
    link_delay(link_, REQUESTS, (struct delay){.base_ns = 60000 * MS});
    say(client, PING);
    AWAIT(link_count(link_).delayed[REQUESTS] == strlen(PING));
    hear_nothing(server);
    link_heal(link_);
    hear(server, PING);
}
END_TEST

START_TEST(test_slice)
{
    int64_t before = now_ns();
    char piece[8];
    ssize_t n, most = 0;

    link_slice(link_, REQUESTS, 3, 2 * MS);
    say(client, SET_A); /* 27 bytes: nine slices, eight gaps */
    for (size_t got = 0; got < strlen(SET_A); got += (size_t)n) {
        n = recv(server, piece, sizeof piece, 0);
        ck_assert_int_gt(n, 0);
        ck_assert_int_eq(memcmp(piece, &SET_A[got], (size_t)n), 0);
        most = n > most ? n : most;
    }
    ck_assert_int_ge(most, 3);
    ck_assert_int_ge(now_ns() - before, 16 * MS);
    say(server, "+OK\r\n");
    hear(client, "+OK\r\n");
}
END_TEST

START_TEST(test_bandwidth)
{
    char text[1001];
    int64_t before = now_ns();

    memset(text, 'x', 1000);
    text[1000] = '\0';
    link_bandwidth(link_, REPLIES, 20000); /* 50 ms for all, the last piece's 10 ms apart */
    say(server, text);
    hear(client, text);
    ck_assert_int_ge(now_ns() - before, 35 * MS);
}
END_TEST

static void add_flow_tests(TCase *flows)
{
    tcase_add_loop_test(flows, test_hold, 0, 4);
    tcase_add_test(flows, test_hold_new_connection);
    tcase_add_test(flows, test_closed_client_is_delivered);
    tcase_add_test(flows, test_abandoned_requests_are_dropped);
    tcase_add_test(flows, test_abandoned_requests_that_are_delayed_arrive);
    tcase_add_loop_test(flows, test_swallow, 0, 4);
    tcase_add_loop_test(flows, test_swallow_end, 0, 2);
    tcase_add_test(flows, test_swallow_what_is_held);
    tcase_add_test(flows, test_swallow_end_that_is_held);
    tcase_add_test(flows, test_delay);
    tcase_add_test(flows, test_delay_keeps_order);
    tcase_add_test(flows, test_heal_hurries);
    tcase_add_test(flows, test_slice);
    tcase_add_test(flows, test_bandwidth);
}

int main(void)
{
    Suite *suite = suite_create("proxy_flows");
    TCase *flows = tcase_create("flows");

    suite_add_tcase(suite, flows);
    tcase_set_timeout(flows, 60);
    tcase_add_checked_fixture(flows, setup, teardown);
    add_flow_tests(flows);
    return run_suite(suite);
}
