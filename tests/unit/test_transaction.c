/*
 * Grants by transaction on one connection: what is sent, and its five replies, whole and in pieces,
 * in time and late, as expected and not.
 */
#include "fence.h"
#include "node_driver.h"

#define LENGTH(array) (int)(sizeof(array) / sizeof((array)[0]))
#define BASE "run=a base=40"
#define QUEUED "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
#define FORGOT "it forgot its fencing numbers just now"
#define NO_NUMBER "a fencing number that can't be one"

/* ---- what is sent -------------------------------------------------------- */

static struct redlock__bytes request;

/* Literally: servers are to see just this. */
START_TEST(it_counts_up_what_is_there)
{
    static const char wire[] =
        "*1\r\n$5\r\nMULTI\r\n"
        "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nt\r\n$2\r\nNX\r\n$2\r\nPX\r\n$4\r\n5000\r\n"
        "*6\r\n$4\r\nZADD\r\n$17\r\nredlock:fence:{k}\r\n$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n"
        "$1\r\nn\r\n"
        "*6\r\n$4\r\nZADD\r\n$13\r\nredlock:floor\r\n$2\r\nXX\r\n$4\r\nINCR\r\n$1\r\n1\r\n"
        "$13\r\n" BASE "\r\n"
        "*1\r\n$4\r\nEXEC\r\n";

    redlock__encode_transaction(&request, "k", 1, "t", 5000, BASE);
    ck_assert_uint_eq(request.len, sizeof(wire) - 1);
    ck_assert_mem_eq(redlock__bytes_data(&request), wire, sizeof(wire) - 1);
    ck_assert_ptr_null(request.heap);
    redlock__bytes_free(&request);
}
END_TEST

START_TEST(any_name_has_its_counter)
{
    static char key[REDLOCK_MAX_KEY_LEN + 1] = "a\0}\r\n{";
    static const char counter[] = "$22\r\nredlock:fence:{a\0}\r\n{}\r\n";

    redlock__encode_transaction(&request, key, 6, "t", 1, BASE);
    ck_assert_ptr_nonnull(
        memmem(redlock__bytes_data(&request), request.len, counter, sizeof(counter) - 1));
    redlock__bytes_free(&request);
    redlock__encode_transaction(&request, key, REDLOCK_MAX_KEY_LEN, "t", 1, BASE);
    ck_assert_uint_gt(request.len, 2 * REDLOCK_MAX_KEY_LEN);
    ck_assert_ptr_nonnull(request.heap);
    ck_assert_mem_eq(request.heap + request.len - 14, "*1\r\n$4\r\nEXEC\r\n", 14);
    redlock__bytes_free(&request);
    ck_assert_uint_eq(redlock__encode_transaction(&request, key, sizeof(key), "t", 1, BASE)->len,
                      0);
}
END_TEST

START_TEST(nothing_is_asked_in_between_to_see_whether_it_is_let)
{
    redlock__encode_fact(&request, REDLOCK__CMD_MULTI);
    ck_assert_uint_eq(request.len, 29);
    ck_assert_mem_eq(redlock__bytes_data(&request), "*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n",
                     29);
    redlock__bytes_free(&request);
}
END_TEST

START_TEST(a_number_is_above_the_base_and_what_was_heard)
{
    ck_assert_int_eq(redlock__grant_number(0, BASE), 41);
    ck_assert_int_eq(redlock__grant_number(40, BASE), 41);
    ck_assert_int_eq(redlock__grant_number(41, BASE), 42);
    ck_assert_int_eq(redlock__grant_number(41, ""), 0);
    ck_assert_int_eq(redlock__grant_number(41, "run=a base="), 0);
    ck_assert_int_eq(redlock__grant_number(41, "run=a base=4503599627370497"), 0);
}
END_TEST

/* ---- what it means ------------------------------------------------------- */

static const struct {
    const char *wire;
    redlock_vote vote;
    int64_t value;
    const char *text;
    bool behind;
} answers[] = {
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n$2\r\n41\r\n", REDLOCK_VOTE_OURS, 41, "", false},
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n$4\r\n4711\r\n", REDLOCK_VOTE_OURS, 41, "", false},
    {QUEUED "*3\r\n+OK\r\n$2\r\n99\r\n$3\r\n100\r\n", REDLOCK_VOTE_OURS, 99, "", false},
    {QUEUED "*3\r\n+OK\r\n$5\r\n1e+12\r\n$5\r\n1e+12\r\n", REDLOCK_VOTE_OURS, 1000000000000, "",
     false},
    {QUEUED "*3\r\n+OK\r\n$16\r\n4503599627370496\r\n$16\r\n4503599627370496\r\n",
     REDLOCK_VOTE_OURS, REDLOCK__FENCE_MAX, "", false},
    /* below what was asked for, not there, above its floor */
    {QUEUED "*3\r\n+OK\r\n$2\r\n40\r\n$2\r\n40\r\n", REDLOCK_VOTE_OURS, 41, "", true},
    {QUEUED "*3\r\n+OK\r\n$1\r\n7\r\n$2\r\n99\r\n", REDLOCK_VOTE_OURS, 41, "", true},
    {QUEUED "*3\r\n+OK\r\n$-1\r\n$2\r\n99\r\n", REDLOCK_VOTE_OURS, 99, "", true},
    {QUEUED "*3\r\n+OK\r\n$-1\r\n$1\r\n9\r\n", REDLOCK_VOTE_OURS, 41, "", true},
    {QUEUED "*3\r\n+OK\r\n$2\r\n42\r\n$2\r\n41\r\n", REDLOCK_VOTE_OURS, 42, "", true},
    /* somebody else's */
    {QUEUED "*3\r\n$-1\r\n$2\r\n50\r\n$2\r\n99\r\n", REDLOCK_VOTE_FOREIGN, 0, "", false},
    {QUEUED "*3\r\n$-1\r\n$-1\r\n$2\r\n99\r\n", REDLOCK_VOTE_FOREIGN, 0, "", false},
    /* another base, or none */
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n$-1\r\n", REDLOCK_VOTE_ERROR, -2, FORGOT, false},
    {QUEUED "*3\r\n+OK\r\n$-1\r\n$-1\r\n", REDLOCK_VOTE_ERROR, -2, FORGOT, false},
    {QUEUED "*3\r\n$-1\r\n$-1\r\n$-1\r\n", REDLOCK_VOTE_ERROR, -2, FORGOT, false},
    /* numbers that are none */
    {QUEUED "*3\r\n+OK\r\n$3\r\n1.5\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0, NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n$2\r\n-1\r\n", REDLOCK_VOTE_ERROR, 0, NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n$1\r\n0\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0, NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n$16\r\n4503599627370497\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0,
     NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n$16\r\n4503599627370497\r\n", REDLOCK_VOTE_ERROR, 0,
     NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n$3\r\ninf\r\n$3\r\ninf\r\n", REDLOCK_VOTE_ERROR, 0, NO_NUMBER, false},
    {QUEUED "*3\r\n+OK\r\n:41\r\n:41\r\n", REDLOCK_VOTE_ERROR, 0, NO_NUMBER, false},
    /* errors at each place */
    {QUEUED "*3\r\n-WRONGTYPE a\r\n$2\r\n41\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGTYPE a",
     false},
    {QUEUED "*3\r\n+OK\r\n-WRONGTYPE b\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGTYPE b",
     false},
    {QUEUED "*3\r\n+OK\r\n$2\r\n41\r\n-WRONGTYPE c\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGTYPE c",
     false},
    {QUEUED "*3\r\n+OK\r\n-WRONGTYPE b\r\n-WRONGTYPE c\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGTYPE b",
     false},
    {QUEUED "*3\r\n+OK\r\n-WRONGTYPE b\r\n$-1\r\n", REDLOCK_VOTE_ERROR, 0, "WRONGTYPE b", false},
    {"+OK\r\n-OOM a\r\n+QUEUED\r\n+QUEUED\r\n-EXECABORT x\r\n", REDLOCK_VOTE_ERROR, 0, "OOM a",
     false},
    {"+OK\r\n+QUEUED\r\n-OOM b\r\n+QUEUED\r\n-EXECABORT x\r\n", REDLOCK_VOTE_ERROR, 0, "OOM b",
     false},
    {"+OK\r\n+QUEUED\r\n+QUEUED\r\n-OOM c\r\n-EXECABORT x\r\n", REDLOCK_VOTE_ERROR, 0, "OOM c",
     false},
    {"+OK\r\n+QUEUED\r\n-OOM b\r\n-OOM c\r\n-EXECABORT x\r\n", REDLOCK_VOTE_ERROR, 0, "OOM b",
     false},
    {QUEUED "-EXECABORT x\r\n", REDLOCK_VOTE_ERROR, 0, "EXECABORT x", false},
    {QUEUED "*-1\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type nil", false},
    {QUEUED "*2\r\n+OK\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type array",
     false},
    {QUEUED "*0\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply type array", false},
    {QUEUED "+OK\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK", false},
    {QUEUED ":41\r\n", REDLOCK_VOTE_ERROR, 0, "unexpected reply integer 41", false},
    {QUEUED "*3\r\n+YES\r\n$2\r\n41\r\n$2\r\n41\r\n", REDLOCK_VOTE_ERROR, 0,
     "unexpected reply status YES", false},
    /* no transaction at all: each did what it says */
    {"-NOPERM a\r\n+OK\r\n$2\r\n41\r\n$2\r\n41\r\n-ERR EXEC without MULTI\r\n", REDLOCK_VOTE_ERROR,
     0, "NOPERM a", false},
    {"+OK\r\n+OK\r\n$2\r\n41\r\n$2\r\n41\r\n*3\r\n+OK\r\n$2\r\n41\r\n$2\r\n41\r\n",
     REDLOCK_VOTE_ERROR, 0, "unexpected reply status OK", false},
    {"+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n$2\r\n41\r\n$2\r\n41\r\n",
     REDLOCK_VOTE_ERROR, 0, "unexpected reply status QUEUED", false},
};

static void grant(uint32_t round)
{
    struct redlock__tag tag = {.owner = &trace,
                               .command = REDLOCK__CMD_GRANT,
                               .round = round,
                               .before = REDLOCK__BEFORE_GRANT,
                               .number = 41};

    redlock__encode_transaction(&request, "k", 1, "t", 1000, BASE);
    ck_assert(redlock__node_request(node, &tag, &request, now + MS(50), now));
    redlock__bytes_free(&request);
}

static void assert_answer(const struct redlock__node_event *event, int i)
{
    ck_assert_int_eq(event->tag.command, REDLOCK__CMD_GRANT);
    ck_assert_int_eq(event->answer.vote, answers[i].vote);
    ck_assert_int_eq(event->answer.value, answers[i].value);
    ck_assert_str_eq(event->answer.text, answers[i].text);
    ck_assert_int_eq(event->answer.behind, answers[i].behind);
}

/* With requests of another kind before and behind it: each gets its own. */
START_TEST(whole_or_cut_anywhere_it_is_the_same)
{
    char wire[512];
    size_t len = (size_t)snprintf(wire, sizeof wire, "+OK\r\n%s:1\r\n", answers[_i].wire);

    make_ready();
    for (size_t cut = 0; cut <= len; cut++) {
        struct redlock__node_event event;
        uint32_t next = 1;

        ck_assert(ask(REDLOCK__CMD_SET, 1, 50));
        grant(2);
        ck_assert(ask(REDLOCK__CMD_RELEASE, 3, 50));
        sent_all();
        for (int part = 0; part < 2; part++) {
            redlock__node_receive(node, part == 0 ? wire : wire + cut, part == 0 ? cut : len - cut,
                                  now);
            while (redlock__node_pull(node, now, &event)) {
                ck_assert_int_eq(event.result, REDLOCK__RESULT_ANSWER);
                ck_assert_uint_eq(event.tag.round, next++);
                if (event.tag.round == 2)
                    assert_answer(&event, _i);
                else
                    ck_assert_int_eq(event.answer.vote, REDLOCK_VOTE_OURS);
            }
        }
        ck_assert_uint_eq(next, 4);
        ck_assert(!redlock__node_owes(node));
    }
}
END_TEST

START_TEST(byte_by_byte_and_late_it_is_the_same)
{
    struct redlock__node_event event;
    size_t len = strlen(answers[_i].wire);

    make_ready();
    grant(1);
    sent_all();
    for (size_t k = 0; k < len; k++) {
        ck_assert(!redlock__node_pull(node, now, &event));
        redlock__node_receive(node, answers[_i].wire + k, 1, now);
        if (k == len / 2) { /* in the middle of it */
            now += MS(51);
            ck_assert_str_eq(pull_due(), "T1no answer within 50 ms;");
        }
    }
    ck_assert(redlock__node_pull(node, now, &event));
    ck_assert_int_eq(event.result, REDLOCK__RESULT_LATE);
    assert_answer(&event, _i);
    ck_assert(!redlock__node_owes(node));
}
END_TEST

/* Also where they follow each other: what one of them was refused is no matter to the next. */
START_TEST(a_refusal_is_forgotten_with_its_request)
{
    struct redlock__node_event event;

    make_ready();
    for (int i = 0; i < LENGTH(answers); i++) {
        char wire[512];
        snprintf(wire, sizeof wire, "%s%s", answers[i].wire, answers[0].wire);
        grant(1);
        grant(2);
        sent_all();
        for (size_t k = 0; k < strlen(wire); k++)
            redlock__node_receive(node, wire + k, 1, now);
        ck_assert(redlock__node_pull(node, now, &event));
        assert_answer(&event, i);
        ck_assert(redlock__node_pull(node, now, &event));
        assert_answer(&event, 0);
        ck_assert(!redlock__node_pull(node, now, &event));
    }
}
END_TEST

START_TEST(nothing_above_the_largest_is_given)
{
    struct redlock__answer answer;

    redlock__decode_counts(7, 7, REDLOCK__FENCE_MAX, &answer);
    ck_assert_int_eq(answer.vote, REDLOCK_VOTE_OURS);
    ck_assert_int_eq(answer.value, REDLOCK__FENCE_MAX);
    redlock__decode_counts(7, 7, REDLOCK__FENCE_MAX + 1, &answer);
    ck_assert_int_eq(answer.vote, REDLOCK_VOTE_ERROR);
    ck_assert_int_eq(answer.value, 0);
    ck_assert_str_eq(answer.text, NO_NUMBER);
}
END_TEST

/* ---- when the link fails ------------------------------------------------- */

START_TEST(what_was_begun_is_dropped_as_a_whole)
{
    struct redlock__node_event event;

    make_ready();
    grant(1);
    grant(2);
    redlock__node_sent(node, 3); /* of the first: the server may have begun */
    redlock__node_fail(node, "gone", now);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_ABORT);
    ck_assert_str_eq(pull_all(), "D1wgone;D2gone;");

    now += MS(1);
    make_ready();
    grant(3);
    sent_all();
    receive("+OK\r\n-OOM a\r\n+QUE");
    ck_assert_str_eq(pull_all(), "");
    redlock__node_fail(node, "gone again", now);
    ck_assert_str_eq(pull_all(), "D3wgone again;");
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_ABORT);

    now += MS(2000);
    make_ready();
    grant(4);
    sent_all();
    receive(answers[0].wire);
    ck_assert(redlock__node_pull(node, now, &event));
    assert_answer(&event, 0);
}
END_TEST

START_TEST(a_reply_before_it_was_sent_was_not_asked_for)
{
    make_ready();
    grant(1);
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "D1protocol error: an answer to nothing asked;");
}
END_TEST

/* ---- whether it takes them ----------------------------------------------- */

static const struct {
    const char *wire;
    bool given;
} offers[] = {
    {"+OK\r\n*0\r\n", true},
    {"-NOPERM User u has no permissions to run the 'multi' command\r\n-ERR EXEC without MULTI\r\n",
     false},
    {"-ERR unknown command 'MULTI', with args\r\n-ERR unknown command 'EXEC', with args\r\n",
     false},
    {"+OK\r\n-NOPERM User u has no permissions to run the 'exec' command\r\n", false},
    {"+OK\r\n*1\r\n+OK\r\n", false},
    {"+OK\r\n+OK\r\n", false},
    {"+OK\r\n*-1\r\n", false},
};

static bool takes_them(void)
{
    return redlock__node_facts(node)->given[REDLOCK__FACT_MULTI];
}

static void offer(const char *wire)
{
    struct redlock__tag tag = {.command = REDLOCK__CMD_MULTI, .before = REDLOCK__BEFORE_NOTHING};

    redlock__encode_fact(&request, REDLOCK__CMD_MULTI);
    ck_assert(redlock__node_request(node, &tag, &request, now + MS(50), now));
    redlock__bytes_free(&request);
    sent_all();
    receive(wire);
    pull_all();
    ck_assert(!redlock__node_owes(node));
}

START_TEST(nothing_done_without_an_error_says_yes)
{
    make_ready();
    ck_assert(!takes_them());
    offer(offers[_i].wire);
    ck_assert_int_eq(takes_them(), offers[_i].given);
}
END_TEST

START_TEST(a_refusal_later_says_no)
{
    static const struct {
        const char *wire;
        bool given;
    } cases[] = {
        {"-NOPERM a\r\n+OK\r\n$1\r\n1\r\n$1\r\n1\r\n-ERR EXEC without MULTI\r\n", false},
        {QUEUED "-NOPERM User u has no permissions to run the 'exec' command\r\n", false},
        {QUEUED "-EXECABORT Transaction discarded because of: NOPERM User u has no permissions to "
                "run the 'exec' command\r\n",
         false},
        {QUEUED "-EXECABORT x\r\n", true}, /* full, say, and for a while */
        {QUEUED "*3\r\n+OK\r\n-WRONGTYPE b\r\n$1\r\n1\r\n", true},
        {QUEUED "*3\r\n+OK\r\n$1\r\n1\r\n$1\r\n1\r\n", true}};

    make_ready();
    for (int i = 0; i < LENGTH(cases); i++) {
        offer("+OK\r\n*0\r\n");
        ck_assert(takes_them());
        grant(1);
        sent_all();
        receive(cases[i].wire);
        pull_all();
        ck_assert_int_eq(takes_them(), cases[i].given);
    }
    redlock__node_fail(node, "gone", now);
    (void)redlock__node_take_task(node, now);
    now += MS(2000);
    make_ready();
    ck_assert(!takes_them()); /* another connection */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transaction");
    TCase *sent = tcase_create("sent"), *read = tcase_create("read");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(sent, it_counts_up_what_is_there);
    tcase_add_test(sent, any_name_has_its_counter);
    tcase_add_test(sent, nothing_is_asked_in_between_to_see_whether_it_is_let);
    tcase_add_test(sent, a_number_is_above_the_base_and_what_was_heard);
    suite_add_tcase(suite, sent);
    tcase_add_checked_fixture(read, setup, teardown);
    tcase_add_loop_test(read, whole_or_cut_anywhere_it_is_the_same, 0, LENGTH(answers));
    tcase_add_loop_test(read, byte_by_byte_and_late_it_is_the_same, 0, LENGTH(answers));
    tcase_add_test(read, nothing_above_the_largest_is_given);
    tcase_add_test(read, a_refusal_is_forgotten_with_its_request);
    tcase_add_test(read, what_was_begun_is_dropped_as_a_whole);
    tcase_add_test(read, a_reply_before_it_was_sent_was_not_asked_for);
    tcase_add_loop_test(read, nothing_done_without_an_error_says_yes, 0, LENGTH(offers));
    tcase_add_test(read, a_refusal_later_says_no);
    suite_add_tcase(suite, read);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
