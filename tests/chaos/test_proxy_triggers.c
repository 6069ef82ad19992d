/* Faults at exact commands: for each of them, however the streams are cut. */
#include "proxy_driver.h"

#include <stdio.h>

#define OK "+OK\r\n"
#define COMMANDS 4

/* Ways in which bytes can come. */
enum chunking {
    WHOLE,
    BYTES,
    HALVES, /* every piece ends in the middle of a command */
    CHUNKINGS
};

/* The proxy may have reset the connection by now: then what is heard tells. */
static void send_in(int fd, const char *text, enum chunking chunking)
{
    size_t len = strlen(text), piece = chunking == WHOLE ? len : chunking == BYTES ? 1 : 13;

    for (size_t at = 0; at < len; at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        if (send(fd, text + at, n, MSG_NOSIGNAL) != (ssize_t)n)
            ck_assert(errno == EPIPE || errno == ECONNRESET);
    }
}

/* n times. */
static const char *times(const char *text, int n)
{
    static char many[1024];

    many[0] = '\0';
    while (n-- > 0)
        strcat(many, text);
    return many;
}

static void arm(struct trigger trigger)
{
    link_trigger(link_, &trigger);
}

static bool fired(void)
{
    return link_await_trigger(link_, LONG);
}

/* Loops over k and the chunkings. */
#define K (_i / CHUNKINGS + 1)
#define CHUNKING ((enum chunking)(_i % CHUNKINGS))
#define LOOPS (COMMANDS * CHUNKINGS)

/* ---- requests ------------------------------------------------------------------ */

START_TEST(test_drop_request)
{
    size_t lost = strlen(SET_A) * (size_t)(COMMANDS - K + 1);

    arm((struct trigger){.command = "SET", .k = K, .action = TRIGGER_DROP_REQUEST});
    send_in(client, times(SET_A, COMMANDS), CHUNKING);
    hear(server, times(SET_A, K - 1));
    ck_assert(fired());
    AWAIT(link_count(link_).swallowed[REQUESTS] == lost);
    hear_nothing(server);
    ck_assert_uint_eq(link_commands(link_, "SET"), COMMANDS);
    say(server, OK); /* the other way it is as before */
    hear(client, OK);
    link_heal(link_);
    hear_reset(client);
    hear_reset(server);
}
END_TEST

START_TEST(test_hold_request)
{
    size_t held = strlen(SET_A) * (size_t)(COMMANDS - K + 1);

    arm((struct trigger){.command = "SET", .k = K, .action = TRIGGER_HOLD_REQUEST});
    send_in(client, times(SET_A, COMMANDS), CHUNKING);
    hear(server, times(SET_A, K - 1));
    ck_assert(fired());
    AWAIT(link_count(link_).held[REQUESTS] == held);
    hear_nothing(server);
    if (_i % 2 == 0)
        link_release(link_);
    else
        link_heal(link_);
    hear(server, times(SET_A, COMMANDS - K + 1));
    pass_both_ways();
}
END_TEST

START_TEST(test_hold_request_for_a_time)
{
    int64_t before = now_ns();

    arm((struct trigger){.k = 1, .action = TRIGGER_HOLD_REQUEST, .hold_ns = 30 * MS});
    say(client, PING);
    hear(server, PING);
    ck_assert_int_ge(now_ns() - before, 30 * MS);
    pass_both_ways();
}
END_TEST

/* ---- replies ------------------------------------------------------------------- */

/* All requests at once, all replies at once. */
static void run_pipeline(enum chunking chunking)
{
    send_in(client, times(SET_A, COMMANDS), chunking);
    hear(server, times(SET_A, COMMANDS));
    send_in(server, times(OK, COMMANDS), chunking);
}

START_TEST(test_drop_reply)
{
    arm((struct trigger){.command = "SET", .k = K, .action = TRIGGER_DROP_REPLY});
    run_pipeline(CHUNKING);
    hear(client, times(OK, K - 1));
    ck_assert(fired());
    AWAIT(link_count(link_).swallowed[REPLIES] == 5 * (size_t)(COMMANDS - K + 1));
    hear_nothing(client);
    say(client, PING); /* requests still arrive */
    hear(server, PING);
    link_heal(link_);
    hear_reset(client);
    hear_reset(server);
}
END_TEST

START_TEST(test_hold_reply)
{
    arm((struct trigger){.command = "SET", .k = K, .action = TRIGGER_HOLD_REPLY});
    run_pipeline(CHUNKING);
    hear(client, times(OK, K - 1));
    ck_assert(fired());
    AWAIT(link_count(link_).held[REPLIES] == 5 * (size_t)(COMMANDS - K + 1));
    hear_nothing(client);
    link_release(link_);
    hear(client, times(OK, COMMANDS - K + 1));
    pass_both_ways();
}
END_TEST

START_TEST(test_hold_reply_for_a_time)
{
    int64_t before;

    arm((struct trigger){
        .command = "GET", .k = 1, .action = TRIGGER_HOLD_REPLY, .hold_ns = 30 * MS});
    say(client, GET_A);
    hear(server, GET_A);
    before = now_ns();
    say(server, "$-1\r\n");
    hear(client, "$-1\r\n");
    ck_assert_int_ge(now_ns() - before, 30 * MS);
}
END_TEST

START_TEST(test_cut)
{
    arm((struct trigger){.command = "SET", .k = K, .action = TRIGGER_CUT});
    run_pipeline(CHUNKING);
    ck_assert(fired());
    hear(client, times(OK, K - 1));
    hear_reset(client);
    ck_assert_uint_eq(link_count(link_).resets, 1);
    ck_assert_uint_eq(link_count(link_).open, 0);
    open_pair();
    pass_both_ways();
}
END_TEST

/* At each byte of a reply, also behind its end. */
START_TEST(test_cut_reply)
{
    const char *reply = "*2\r\n$1\r\nx\r\n:1\r\n";
    char part[32];

    arm((struct trigger){.k = 2, .action = TRIGGER_CUT_REPLY, .bytes = (unsigned)_i});
    say(client, GET_A GET_A GET_A);
    hear(server, GET_A GET_A GET_A);
    say(server, OK);
    send_in(server, reply, _i % 2 == 0 ? WHOLE : HALVES);
    send_in(server, OK, WHOLE);
    hear(client, OK);
    (void)snprintf(part, sizeof part, "%.*s", _i, reply);
    hear(client, part);
    hear_reset(client);
    ck_assert(fired());
}
END_TEST

/* ---- which command --------------------------------------------------------------- */

START_TEST(test_key)
{
    arm((struct trigger){.command = "SET", .key = "b", .k = 1, .action = TRIGGER_DROP_REQUEST});
    say(client, SET_A "*2\r\n$3\r\nGET\r\n$1\r\nb\r\n" SET_B);
    ck_assert(fired());
    hear(server, SET_A "*2\r\n$3\r\nGET\r\n$1\r\nb\r\n");
    hear_nothing(server);
    ck_assert_uint_eq(link_count(link_).swallowed[REQUESTS], strlen(SET_B));
    ck_assert_uint_eq(link_commands(link_, "SET"), 2);
    ck_assert_uint_eq(link_commands(link_, "GET"), 1);
    ck_assert_uint_eq(link_commands(link_, "DEL"), 0);
    ck_assert_uint_eq(link_count(link_).commands, 3);
}
END_TEST

#define EVAL "*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n"
#define EVALSHA "*4\r\n$7\r\nEVALSHA\r\n$4\r\n0123\r\n$1\r\n1\r\n$1\r\nk\r\n"

START_TEST(test_key_of_script)
{
    const char *before = EVALSHA EVAL "$1\r\n0\r\n$1\r\nk\r\n";
    const char *meant = EVAL "$1\r\n1\r\n$1\r\nk\r\n";

    arm((struct trigger){.command = "EVAL", .key = "k", .k = 1, .action = TRIGGER_HOLD_REQUEST});
    spell(client, before);
    spell(client, meant);
    hear(server, before);
    ck_assert(fired());
    hear_nothing(server);
    link_release(link_);
    hear(server, meant);
}
END_TEST

/* Counted over all connections of the link, from when it was armed. */
START_TEST(test_counts_over_connections)
{
    int first_client = client, first_server = server;

    say(client, SET_A);
    hear(server, SET_A);
    arm((struct trigger){.command = "SET", .k = 3, .action = TRIGGER_DROP_REQUEST});
    open_pair();
    for (int i = 0; i < 2; i++) {
        say(i == 0 ? client : first_client, SET_A);
        hear(i == 0 ? server : first_server, SET_A);
    }
    ck_assert(!link_await_trigger(link_, 0));
    say(client, SET_A);
    ck_assert(fired());
    hear_nothing(server);
    say(first_client, SET_A); /* the other connection isn't concerned */
    hear(first_server, SET_A);
    link_heal(link_);
    hear_reset(client);
    say(first_client, SET_A);
    hear(first_server, SET_A);
    shut(&first_client);
    shut(&first_server);
}
END_TEST

START_TEST(test_replaced_and_forgotten)
{
    arm((struct trigger){.command = "SET", .k = 1, .action = TRIGGER_DROP_REQUEST});
    arm((struct trigger){.command = "GET", .k = 1, .action = TRIGGER_DROP_REQUEST});
    say(client, SET_A);
    hear(server, SET_A);
    link_heal(link_);
    say(client, GET_A);
    hear(server, GET_A);
    ck_assert(!link_await_trigger(link_, MS));
    ck_assert_uint_eq(link_count(link_).triggered, 0);
}
END_TEST

/* What waits for its reply is forgotten by healing, too. */
START_TEST(test_heal_before_reply)
{
    arm((struct trigger){.command = "SET", .k = 1, .action = TRIGGER_CUT});
    say(client, SET_A);
    hear(server, SET_A);
    link_heal(link_);
    say(server, OK);
    hear(client, OK);
    pass_both_ways();
}
END_TEST

/* Two effects on one connection, in the order of the replies. */
START_TEST(test_one_after_another)
{
    arm((struct trigger){.command = "SET", .k = 1, .action = TRIGGER_HOLD_REPLY});
    say(client, SET_A);
    hear(server, SET_A);
    arm((struct trigger){.command = "GET", .k = 1, .action = TRIGGER_DROP_REPLY});
    say(client, GET_A);
    hear(server, GET_A);
    say(server, OK "$-1\r\n");
    ck_assert(fired());
    ck_assert_uint_eq(link_count(link_).triggered, 2);
    hear_nothing(client);
    link_release(link_);
    hear(client, OK);
    ck_assert_uint_eq(link_count(link_).swallowed[REPLIES], 5);
}
END_TEST

/* What isn't the protocol passes, and isn't counted. */
START_TEST(test_opaque)
{
    arm((struct trigger){.k = 1, .action = TRIGGER_DROP_REQUEST});
    say(client, "\x16\x03\x01 PING\r\n" PING);
    hear(server, "\x16\x03\x01 PING\r\n" PING);
    say(server, "?\r\n" OK);
    hear(client, "?\r\n" OK);
    ck_assert_uint_eq(link_count(link_).commands, 0);
}
END_TEST

/* Half a command of a client that ends arrives, as half a command. */
START_TEST(test_half_a_command)
{
    say(client, PING "*2\r\n$3\r\nGE");
    hear(server, PING);
    shut(&client);
    hear(server, "*2\r\n$3\r\nGE");
    hear_end(server);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("proxy_triggers");
    TCase *each = tcase_create("each"), *which = tcase_create("which");

    suite_add_tcase(suite, each);
    tcase_set_timeout(each, 60);
    tcase_add_checked_fixture(each, setup, teardown);
    tcase_add_loop_test(each, test_drop_request, 0, LOOPS);
    tcase_add_loop_test(each, test_hold_request, 0, LOOPS);
    tcase_add_test(each, test_hold_request_for_a_time);
    tcase_add_loop_test(each, test_drop_reply, 0, LOOPS);
    tcase_add_loop_test(each, test_hold_reply, 0, LOOPS);
    tcase_add_test(each, test_hold_reply_for_a_time);
    tcase_add_loop_test(each, test_cut, 0, LOOPS);
    tcase_add_loop_test(each, test_cut_reply, 0, 20);
    suite_add_tcase(suite, which);
    tcase_set_timeout(which, 60);
    tcase_add_checked_fixture(which, setup, teardown);
    tcase_add_test(which, test_key);
    tcase_add_test(which, test_key_of_script);
    tcase_add_test(which, test_counts_over_connections);
    tcase_add_test(which, test_replaced_and_forgotten);
    tcase_add_test(which, test_heal_before_reply);
    tcase_add_test(which, test_one_after_another);
    tcase_add_test(which, test_opaque);
    tcase_add_test(which, test_half_a_command);
    return run_suite(suite);
}
