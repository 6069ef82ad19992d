/* One connection: greeting, requests, answers and timeouts, in chunks of any size. */
#include "node.h"

#include <check.h>
#include <stdlib.h>

#include "node_driver.h"

enum {
    SECONDS = 60
};

/* ---- greeting ----------------------------------------------------------- */

START_TEST(a_new_node_is_down_and_due)
{
    size_t len;
    assert_down("");
    ck_assert(redlock__node_has_task(node, 0));
    ck_assert_int_le(redlock__node_next_deadline(node), 0);
    ck_assert(!ask(REDLOCK__CMD_SET, 1, 50));
    redlock__node_fail(node, "nothing going on", now);
    receive("+OK\r\n");
    redlock__node_output(node, &len);
    ck_assert_uint_eq(len, 0);
    ck_assert_str_eq(pull_all(), "");
    assert_down("");
    ck_assert_str_eq(redlock__node_address(node), plain.address);
    redlock__node_free(NULL);
}
END_TEST

static const struct redlock__node_config guarded = {
    .user = "me",
    .password = "hunter2",
    .client_name = "lib",
    .database = 3,
    .connect_timeout_ns = MS(1000),
    .silence_limit_ns = MS(2000),
};

/* In this order: see redlock__encode_fact(). */
#define QUESTIONS                                                                                  \
    "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"                                                         \
    "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n"                                                   \
    "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$12\r\n*a[px][pm]e*\r\n"                                   \
    "*2\r\n$3\r\nGET\r\n$13\r\nredlock:fleet\r\n"                                                  \
    "*5\r\n$6\r\nZRANGE\r\n$13\r\nredlock:floor\r\n$1\r\n0\r\n$2\r\n-1\r\n$10\r\nWITHSCORES\r\n"   \
    "*1\r\n$4\r\nTIME\r\n"

START_TEST(greets_with_auth_select_and_name)
{
    static const char greeting[] = "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$7\r\nhunter2\r\n"
                                   "*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n"
                                   "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\nlib\r\n" QUESTIONS;
    static const char rest[] = INTRODUCED;
    size_t len;
    setup_with(&guarded);
    connect_node();
    const char *out = redlock__node_output(node, &len);
    ck_assert_uint_eq(len, sizeof(greeting) - 1);
    ck_assert_mem_eq(out, greeting, len);
    redlock__node_sent(node, len);

    ck_assert(redlock__node_owes(node));
    ck_assert_uint_eq(redlock__node_pending(node), 0);
    receive("+OK\r\n+OK\r\n-NOPERM no client rights\r");
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_GREETING);
    ck_assert(!ask(REDLOCK__CMD_SET, 1, 50));
    receive("\n");
    redlock__node_receive(node, rest, sizeof(rest) - 2, now);
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_GREETING);
    ck_assert(!ask(REDLOCK__CMD_SET, 1, 50));
    receive(rest + sizeof(rest) - 2); /* the last byte of the last answer */
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
    ck_assert(!redlock__node_owes(node));
    ck_assert_uint_eq(redlock__node_connects(node), 1);
    teardown();
}
END_TEST

static const struct {
    const char *replies;
    const char *text;
} refusals[] = {
    {"-WRONGPASS invalid username-password pair\r\n", "WRONGPASS invalid username-password pair"},
    {"-ERR unknown command 'AUTH', args: 'me' 'hunter2'\r\n",
     "ERR unknown command 'AUTH', args: 'me' '..."},
    {"+OK\r\n-ERR DB index is out of range\r\n", "ERR DB index is out of range"},
    {"+OK\r\n+OK\r\n-NOAUTH Authentication required.\r\n", "NOAUTH Authentication required."},
    {"+OK\r\n+OK\r\n-LOADING Redis is loading\r\n", "LOADING Redis is loading"},
    {"+OK\r\n+OK\r\n+OK\r\n-LOADING Redis is loading\r\n", "LOADING Redis is loading"},
    {"+OK\r\n+OK\r\n+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS
     "-LOADING Valkey is loading the dataset in memory\r\n",
     "LOADING Valkey is loading the dataset in memory"},
    {"+OK\r\n+OK\r\n+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS
     "-NOAUTH Authentication required.\r\n",
     "NOAUTH Authentication required."},
    {"-ERR max number of clients reached\r\n", "ERR max number of clients reached"},
    {":1\r\n", "unexpected reply integer 1"},
    {"HTTP/1.1 400 Bad Request\r\n", "protocol error: a reply starts with byte 0x48"},
};

START_TEST(a_refused_greeting_fails_with_the_servers_text)
{
    setup_with(&guarded);
    connect_node();
    sent_all();
    receive(refusals[_i].replies);
    ck_assert_str_eq(pull_all(), "");
    assert_down(refusals[_i].text);
    ck_assert_ptr_null(strstr(redlock__node_text(node), "hunter"));
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CLOSE);
    ck_assert_uint_eq(redlock__node_connects(node), 0);
    ck_assert_uint_eq(redlock__node_disconnects(node), 0);
    teardown();
}
END_TEST

START_TEST(the_servers_last_words_beat_its_hanging_up)
{
    setup_with(&guarded);
    connect_node();
    sent_all();
    receive(refusals[_i].replies);
    redlock__node_fail(node, "closed by the server", now);
    assert_down(refusals[_i].text);
    teardown();
}
END_TEST

START_TEST(a_full_server_may_speak_before_it_is_asked)
{
    connect_node();
    receive("-ERR max number of clients reached\r\n");
    redlock__node_fail(node, "closed by the server", now);
    assert_down("ERR max number of clients reached");
}
END_TEST

START_TEST(nothing_unasked_passes_for_the_greeting)
{
    connect_node();
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "");
    assert_down("protocol error: an answer to nothing asked");
}
END_TEST

START_TEST(connect_and_greeting_share_one_timeout)
{
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    int64_t deadline = now + MS(1000);
    ck_assert_int_eq(redlock__node_next_deadline(node), deadline);
    redlock__node_handle_deadline(node, deadline - 1);
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_CONNECTING);
    redlock__node_handle_deadline(node, deadline);
    assert_down("no connection within 1000 ms");
    redlock__node_connected(node, deadline); /* too late, and told to close */
    assert_down("no connection within 1000 ms");
    ck_assert_int_eq(redlock__node_take_task(node, deadline), REDLOCK__TASK_CLOSE);

    now = redlock__node_next_deadline(node);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    deadline = now + MS(1000);
    now += MS(900);
    redlock__node_connected(node, now);
    ck_assert_int_eq(redlock__node_next_deadline(node), deadline);
    redlock__node_handle_deadline(node, deadline);
    assert_down("no answer to the greeting within 1000 ms");
}
END_TEST

/* ---- what the greeting says ---------------------------------------------- */

static bool is_asked_later(int fact)
{
    return fact == REDLOCK__FACT_SEEN || fact == REDLOCK__FACT_MULTI;
}

START_TEST(the_greeting_is_kept_as_facts)
{
    const struct redlock__facts *facts = redlock__node_facts(node);
    int64_t asked = now;
    connect_node();
    sent_all();
    now += MS(3);
    receive(GREETED);
    pull_all();
    for (int i = 0; i < REDLOCK__FACTS; i++) {
        ck_assert_int_eq(facts->given[i], !is_asked_later(i));
        ck_assert_str_eq(facts->refusal[i], "");
    }
    ck_assert_str_eq(facts->run_id, RUN_ID);
    ck_assert_int_eq(facts->uptime_s, 100);
    ck_assert_int_eq(facts->uptime_read_ns, now);
    ck_assert(facts->durable && !facts->replica && !facts->marked);
    ck_assert_int_eq(facts->sample.server_us, INT64_C(1700000000123456));
    ck_assert_int_eq(facts->sample.asked_ns, asked); /* before it was queued */
    ck_assert_int_eq(facts->sample.read_ns, now);
}
END_TEST

/* Users without a right may still lock, as far as the connection goes. */
static const struct {
    const char *replies;
    enum redlock__fact refused;
    const char *text;
} refused_facts[] = {
    {"+OK\r\n-NOPERM no info\r\n" SAYS_REPLICATION SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS SAYS_TIME,
     REDLOCK__FACT_SERVER, "NOPERM no info"},
    {"+OK\r\n" SAYS_SERVER "-NOPERM no info\r\n" SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS SAYS_TIME,
     REDLOCK__FACT_REPLICATION, "NOPERM no info"},
    {"+OK\r\n" SAYS_SERVER SAYS_REPLICATION
     "-ERR unknown command 'CONFIG'\r\n" SAYS_MARKER SAYS_NUMBERS SAYS_TIME,
     REDLOCK__FACT_SETTINGS, "ERR unknown command 'CONFIG'"},
    {"+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS
     "-NOPERM no get\r\n" SAYS_NUMBERS SAYS_TIME,
     REDLOCK__FACT_MARKER, "NOPERM no get"},
    {"+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS
     "-WRONGTYPE a hash\r\n" SAYS_NUMBERS SAYS_TIME,
     REDLOCK__FACT_MARKER, "WRONGTYPE a hash"},
    {"+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS
     "-NOPERM no time\r\n",
     REDLOCK__FACT_CLOCK, "NOPERM no time"},
    {"+OK\r\n" SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS
     ":1700000000\r\n",
     REDLOCK__FACT_CLOCK, "an answer that can't be understood"},
};

START_TEST(a_refused_fact_is_noted_and_the_link_is_ready)
{
    const struct redlock__facts *facts = redlock__node_facts(node);
    connect_node();
    sent_all();
    receive(refused_facts[_i].replies);
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
    for (int i = 0; i < REDLOCK__FACTS; i++) {
        bool refused = i == (int)refused_facts[_i].refused;
        ck_assert_int_eq(facts->given[i], !refused && !is_asked_later(i));
        ck_assert_str_eq(facts->refusal[i], refused ? refused_facts[_i].text : "");
    }
}
END_TEST

START_TEST(a_new_connection_knows_nothing_of_the_last_ones_facts)
{
    make_ready();
    redlock__node_fail(node, "closed by the server", now);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CLOSE);
    now = redlock__node_next_deadline(node);
    connect_node();
    ck_assert_str_eq(redlock__node_facts(node)->run_id, "");
    ck_assert(!redlock__node_facts(node)->given[REDLOCK__FACT_SERVER]);
    ck_assert(!redlock__node_facts(node)->given[REDLOCK__FACT_CLOCK]);
}
END_TEST

static void ask_time(uint32_t round)
{
    struct redlock__bytes bytes;
    struct redlock__tag tag = {.command = REDLOCK__CMD_TIME, .round = round};
    ck_assert(redlock__node_request(node, &tag, redlock__encode_fact(&bytes, REDLOCK__CMD_TIME),
                                    now + MS(50), now));
    redlock__bytes_free(&bytes);
}

/* Its length as in SAYS_TIME. */
static const char later_time[] = "*2\r\n$10\r\n1700000009\r\n$6\r\n000042\r\n";

START_TEST(an_array_may_be_split_at_every_byte)
{
    const struct redlock__facts *facts = redlock__node_facts(node);
    size_t first = (size_t)_i;
    make_ready();
    ask_time(1);
    ask(REDLOCK__CMD_SET, 2, 50);
    sent_all();
    redlock__node_receive(node, later_time, first, now);
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(facts->sample.server_us, INT64_C(1700000000123456));
    now += MS(1);
    receive(later_time + first);
    ck_assert_str_eq(pull_all(), "A1+;");
    ck_assert_int_eq(facts->sample.server_us, INT64_C(1700000009000042));
    ck_assert_int_eq(facts->sample.asked_ns, now - MS(1));
    ck_assert_int_eq(facts->sample.read_ns, now);
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "A2+;");
}
END_TEST

START_TEST(a_late_fact_is_a_fact)
{
    make_ready();
    ask_time(1);
    sent_all();
    now += MS(50);
    ck_assert_str_eq(pull_due(), "T1no answer within 50 ms;");
    receive(later_time);
    ck_assert_str_eq(pull_all(), "L1+;");
    ck_assert_int_eq(redlock__node_facts(node)->sample.server_us, INT64_C(1700000009000042));
    ck_assert_int_eq(redlock__node_facts(node)->sample.asked_ns, now - MS(50));
}
END_TEST

/* An array is understood where facts are asked for, and a vote nowhere. */
START_TEST(an_array_is_no_vote)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    ask(REDLOCK__CMD_RELEASE, 2, 50);
    sent_all();
    receive("*1\r\n+OK\r\n*0\r\n");
    ck_assert_str_eq(pull_all(), "A1unexpected reply type array;A2unexpected reply type array;");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
}
END_TEST

/* ---- requests and answers ----------------------------------------------- */

START_TEST(nil_has_no_text_of_an_earlier_reply)
{
    struct redlock__node_event event;
    struct redlock__tag tag = {.owner = &trace, .command = REDLOCK__CMD_GET};
    struct redlock__bytes bytes;

    make_ready();
    redlock__encode_get(&bytes, "key", 3);
    for (int i = 0; i < 2; i++)
        ck_assert(redlock__node_request(node, &tag, &bytes, now + MS(100), now));
    redlock__bytes_free(&bytes);
    sent_all();
    receive("$5\r\ntoken\r\n");
    ck_assert(redlock__node_pull(node, now, &event));
    ck_assert_str_eq(event.answer.text, "token");
    receive("$-1\r\n");
    ck_assert(redlock__node_pull(node, now, &event));
    ck_assert_int_eq(event.answer.vote, REDLOCK_VOTE_FREE);
    ck_assert_str_eq(event.answer.text, "");
}
END_TEST

START_TEST(answers_come_in_the_order_asked)
{
    make_ready();
    ck_assert(ask(REDLOCK__CMD_SET, 1, 50));
    ck_assert(ask(REDLOCK__CMD_RELEASE, 2, 50));
    ck_assert(ask(REDLOCK__CMD_SET, 3, 50));
    ck_assert_uint_eq(redlock__node_pending(node), 3);
    sent_all();
    receive("+OK\r\n:0\r\n-OOM no memory\r\n");
    ck_assert_str_eq(pull_all(), "A1+;A2;A3OOM no memory;");
    ck_assert_uint_eq(redlock__node_pending(node), 0);
    now = redlock__node_next_deadline(node); /* of those, too early at worst */
    ck_assert_str_eq(pull_due(), "");
    ck_assert_int_eq(redlock__node_next_deadline(node), REDLOCK__NEVER);
}
END_TEST

START_TEST(a_late_reply_is_consumed_by_its_own_request)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    sent_all();
    ck_assert_int_eq(redlock__node_next_deadline(node), now + MS(50));
    now += MS(50);
    redlock__node_handle_deadline(node, now);
    ck_assert_str_eq(pull_all(), "T1no answer within 50 ms;");
    ck_assert_str_eq(pull_all(), ""); /* once */

    ask(REDLOCK__CMD_SET, 2, 50);
    sent_all();
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "L1+;");
    receive("$-1\r\n");
    ck_assert_str_eq(pull_all(), "A2;");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
}
END_TEST

/* What is late is decided by who looks at the clock, after reading what there is to read. */
START_TEST(an_answer_that_waited_in_the_socket_is_in_time)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    ask(REDLOCK__CMD_SET, 2, 50);
    sent_all();
    now += MS(60);
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "A1+;");
    ck_assert_str_eq(pull_due(), "T2no answer within 50 ms;");
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "L2+;");
}
END_TEST

/* What was due before it came is told first. */
START_TEST(a_usual_answer_waits_for_its_turn)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    ask(REDLOCK__CMD_SET, 2, 100);
    sent_all();
    now += MS(60);
    redlock__node_handle_deadline(node, now);
    receive("+OK\r\n+OK\r\n");
    ck_assert_str_eq(pull_all(), "T1no answer within 50 ms;L1+;A2+;");
}
END_TEST

/* More than there is room for. */
START_TEST(a_crowds_answers_are_all_read)
{
    enum {
        CROWD = 30000 /* 150 kB of them */
    };
    static char answers[CROWD * 5 + 1];
    struct redlock__node_event event;
    uint32_t pulled = 0;

    make_ready();
    for (uint32_t i = 0; i < CROWD; i++) {
        ck_assert(ask(REDLOCK__CMD_SET, i, 5000));
        memcpy(answers + 5 * (size_t)i, "+OK\r\n", 6);
    }
    sent_all();
    receive(answers);
    for (; pull(&event); pulled++)
        ck_assert_uint_eq(event.tag.round, pulled);
    ck_assert_uint_eq(pulled, CROWD);
    ck_assert(!redlock__node_owes(node));
}
END_TEST

START_TEST(each_request_has_its_own_deadline)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 80);
    ask(REDLOCK__CMD_SET, 2, 20);
    ask(REDLOCK__CMD_SET, 3, 50);
    sent_all();
    now += MS(20);
    ck_assert_int_eq(redlock__node_next_deadline(node), now);
    ck_assert_str_eq(pull_due(), "T2no answer within 20 ms;");
    ck_assert_int_eq(redlock__node_next_deadline(node), now + MS(30));
    now += MS(60);
    ck_assert_str_eq(pull_due(), "T1no answer within 80 ms;T3no answer within 50 ms;");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
}
END_TEST

/* The clock may go on between two pulls: what was found late stays late. */
START_TEST(time_may_go_on_during_a_sweep)
{
    struct redlock__node_event event;
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 30);
    ask(REDLOCK__CMD_SET, 2, 20);
    ask(REDLOCK__CMD_SET, 3, 20);
    sent_all();
    receive("+OK\r\n+OK\r\n+OK\r\n");
    now += MS(20);
    redlock__node_handle_deadline(node, now);
    ck_assert(redlock__node_pull(node, now, &event));
    ck_assert_uint_eq(event.tag.round, 2);
    now += MS(10);
    ck_assert_str_eq(pull_due(), "T3no answer within 20 ms;T1no answer within 30 ms;"
                                 "L1+;L2+;L3+;");
}
END_TEST

/* The engine's clock never goes back; a driver that mixes two of them loses nothing. */
START_TEST(a_step_back_during_a_sweep_loses_no_timeout)
{
    struct redlock__node_event event;
    make_ready();
    for (uint32_t round = 1; round <= 3; round++)
        ask(REDLOCK__CMD_SET, round, 20);
    sent_all();
    receive("+OK\r\n");
    redlock__node_handle_deadline(node, now + MS(20));
    ck_assert(redlock__node_pull(node, now + MS(20), &event));
    ck_assert_str_eq(pull_due(), "L1+;");
    now += MS(20);
    ck_assert_str_eq(pull_due(), "T2no answer within 20 ms;T3no answer within 20 ms;");
}
END_TEST

/* ---- chunks ------------------------------------------------------------- */

enum {
    GREETED_LEN = sizeof(GREETED) - 1
};

static const char stream[] =
    GREETED "+OK\r\n$-1\r\n:1\r\n-MISCONF disk\r\n:-1\r\n+OK\r\n$3\r\nabc\r\n";
static const char whole[] = "A1+;A2;A3+;A4MISCONF disk;A5;A6+;A7unexpected reply type string;";

static void ask_seven(void)
{
    for (uint32_t round = 1; round <= 7; round++)
        ask(round == 3 || round == 5 ? REDLOCK__CMD_RELEASE : REDLOCK__CMD_SET, round, 50);
    sent_all();
}

/* Feeds a stream in the chunks that next_len() gives, and pulls after each, in one way or the
 * other. */
static void assert_same_in_chunks(size_t (*next_len)(size_t offset), bool slowly)
{
    char all[sizeof(trace)] = "";
    struct redlock__node_event event;
    connect_node();
    sent_all();
    for (size_t at = 0; at < sizeof(stream) - 1;) {
        size_t len = next_len(at);
        redlock__node_receive(node, stream + at, len, now);
        at += len;
        trace[0] = '\0';
        while (slowly ? redlock__node_pull(node, now, &event) : pull(&event))
            note_event(&event);
        snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s", trace);
        if (at == GREETED_LEN)
            ask_seven();
    }
    ck_assert_str_eq(all, whole);
    ck_assert(!redlock__node_owes(node));
}

static size_t parameter;

static size_t at_most(size_t offset, size_t len)
{
    size_t rest = (offset < GREETED_LEN ? GREETED_LEN : sizeof(stream) - 1) - offset;
    return len < rest ? len : rest;
}

static size_t one_byte(size_t offset)
{
    return at_most(offset, 1);
}

static size_t split_once(size_t offset)
{
    return at_most(offset, offset < parameter ? parameter - offset : sizeof(stream));
}

static size_t random_len(size_t offset)
{
    parameter = parameter * 1103515245 + 12345;
    return at_most(offset, 1 + (parameter >> 16) % 9);
}

START_TEST(byte_by_byte_is_the_same)
{
    assert_same_in_chunks(one_byte, _i == 1);
}
END_TEST

START_TEST(every_split_in_two_is_the_same)
{
    for (parameter = 0; parameter < sizeof(stream); parameter++) {
        teardown();
        setup();
        assert_same_in_chunks(split_once, _i == 1);
    }
}
END_TEST

START_TEST(random_chunks_are_the_same)
{
    parameter = (size_t)_i;
    assert_same_in_chunks(random_len, _i % 2 == 1);
}
END_TEST

/* ------------------------------------------------------------------------- */

static Suite *node_suite(void)
{
    Suite *suite = suite_create("node");
    TCase *guard = tcase_create("guard");
    tcase_set_timeout(guard, SECONDS);
    tcase_add_test(guard, greets_with_auth_select_and_name);
    tcase_add_loop_test(guard, a_refused_greeting_fails_with_the_servers_text, 0,
                        (int)(sizeof(refusals) / sizeof(refusals[0])));
    tcase_add_loop_test(guard, the_servers_last_words_beat_its_hanging_up, 0,
                        (int)(sizeof(refusals) / sizeof(refusals[0])));
    suite_add_tcase(suite, guard);

    TCase *greeting = tcase_create("greeting");
    tcase_set_timeout(greeting, SECONDS);
    tcase_add_checked_fixture(greeting, setup, teardown);
    tcase_add_test(greeting, a_new_node_is_down_and_due);
    tcase_add_test(greeting, a_full_server_may_speak_before_it_is_asked);
    tcase_add_test(greeting, nothing_unasked_passes_for_the_greeting);
    tcase_add_test(greeting, connect_and_greeting_share_one_timeout);
    suite_add_tcase(suite, greeting);

    TCase *facts = tcase_create("facts");
    tcase_set_timeout(facts, SECONDS);
    tcase_add_checked_fixture(facts, setup, teardown);
    tcase_add_test(facts, the_greeting_is_kept_as_facts);
    tcase_add_loop_test(facts, a_refused_fact_is_noted_and_the_link_is_ready, 0,
                        (int)(sizeof(refused_facts) / sizeof(refused_facts[0])));
    tcase_add_test(facts, a_new_connection_knows_nothing_of_the_last_ones_facts);
    tcase_add_loop_test(facts, an_array_may_be_split_at_every_byte, 0, (int)sizeof(later_time) - 1);
    tcase_add_test(facts, a_late_fact_is_a_fact);
    tcase_add_test(facts, an_array_is_no_vote);
    suite_add_tcase(suite, facts);

    TCase *answers = tcase_create("answers");
    tcase_set_timeout(answers, SECONDS);
    tcase_add_checked_fixture(answers, setup, teardown);
    tcase_add_test(answers, nil_has_no_text_of_an_earlier_reply);
    tcase_add_test(answers, answers_come_in_the_order_asked);
    tcase_add_test(answers, a_late_reply_is_consumed_by_its_own_request);
    tcase_add_test(answers, an_answer_that_waited_in_the_socket_is_in_time);
    tcase_add_test(answers, a_usual_answer_waits_for_its_turn);
    tcase_add_test(answers, a_crowds_answers_are_all_read);
    tcase_add_test(answers, each_request_has_its_own_deadline);
    tcase_add_test(answers, time_may_go_on_during_a_sweep);
    tcase_add_test(answers, a_step_back_during_a_sweep_loses_no_timeout);
    suite_add_tcase(suite, answers);

    TCase *chunks = tcase_create("chunks");
    tcase_set_timeout(chunks, SECONDS);
    tcase_add_checked_fixture(chunks, setup, teardown);
    tcase_add_loop_test(chunks, byte_by_byte_is_the_same, 0, 2);
    tcase_add_loop_test(chunks, every_split_in_two_is_the_same, 0, 2);
    tcase_add_loop_test(chunks, random_chunks_are_the_same, 0, 200);
    suite_add_tcase(suite, chunks);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(node_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
