/* One connection's output: what it copies, what it borrows, and what of it the driver takes. */
#include "node.h"

#include <check.h>
#include <stdlib.h>

#include "node_driver.h"
#include "random.h"

enum {
    SECONDS = 60,
    STEPS = 300,
    MOST = 1500 /* bytes of a request */
};

static uint64_t state;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(redlock__random(&state) % n);
}

/* ---- what went out ------------------------------------------------------- */

static char sent[STEPS * MOST], expected[STEPS * MOST];
static size_t sent_len, expected_len;

static void begin(uint64_t seed)
{
    state = seed;
    sent_len = expected_len = 0;
    make_ready();
}

static void expect(const struct redlock__bytes *bytes)
{
    memcpy(expected + expected_len, redlock__bytes_data(bytes), bytes->len);
    expected_len += bytes->len;
}

/* The driver takes so much of what waits, and keeps the rest. */
static void take(size_t len)
{
    size_t all;
    const char *out = redlock__node_output(node, &all);

    ck_assert_uint_le(len, all);
    memcpy(sent + sent_len, out, len);
    sent_len += len;
    redlock__node_sent(node, len);
    redlock__node_keep(node);
}

static size_t waiting(void)
{
    size_t len;

    (void)redlock__node_output(node, &len);
    return len;
}

static void check_all_is_there(void)
{
    take(waiting());
    ck_assert_uint_eq(sent_len, expected_len);
    ck_assert_mem_eq(sent, expected, expected_len);
}

/* ---- requests ------------------------------------------------------------ */

static void fill(struct redlock__bytes *bytes, size_t len)
{
    bytes->len = len;
    for (size_t i = 0; i < len; i++)
        bytes->room[i] = (char)('a' + below(26));
}

static bool lend(const struct redlock__bytes *bytes)
{
    struct redlock__tag tag = {.owner = &trace, .command = REDLOCK__CMD_SET};

    return redlock__node_request_all(&node, 1, &tag, bytes, now + MS(50), now) != 0;
}

static bool give(const struct redlock__bytes *bytes)
{
    struct redlock__tag tag = {.owner = &trace, .command = REDLOCK__CMD_SET};

    return redlock__node_request(node, &tag, bytes, now + MS(50), now);
}

START_TEST(what_is_alone_is_borrowed_and_sent_from_where_it_is)
{
    struct redlock__bytes bytes = {.heap = NULL};
    size_t len;

    begin(1);
    fill(&bytes, 100);
    ck_assert(lend(&bytes));
    ck_assert(redlock__node_borrows(node));
    ck_assert_ptr_eq(redlock__node_output(node, &len), bytes.room);
    ck_assert_uint_eq(len, 100);
    redlock__node_sent_all(node);
    ck_assert(!redlock__node_borrows(node));
    ck_assert_uint_eq(waiting(), 0);
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "A0+;");
}
END_TEST

START_TEST(what_was_kept_needs_the_bytes_no_more)
{
    struct redlock__bytes bytes = {.heap = NULL};

    begin(2);
    fill(&bytes, 100);
    expect(&bytes);
    ck_assert(lend(&bytes));
    redlock__node_keep(node);
    ck_assert(!redlock__node_borrows(node));
    memset(bytes.room, '#', sizeof bytes.room);
    check_all_is_there();
}
END_TEST

START_TEST(what_comes_next_has_it_copied)
{
    struct redlock__bytes first = {.heap = NULL}, second = {.heap = NULL};

    begin(3);
    fill(&first, 100);
    fill(&second, 50);
    expect(&first);
    expect(&second);
    ck_assert(lend(&first));
    ck_assert(_i == 0 ? lend(&second) : give(&second));
    ck_assert(!redlock__node_borrows(node));
    memset(first.room, '#', sizeof first.room);
    memset(second.room, '#', sizeof second.room);
    check_all_is_there();
}
END_TEST

START_TEST(what_needs_more_room_has_it_copied)
{
    static char block[100000];
    struct redlock__bytes first = {.heap = NULL}, large = {.len = sizeof block, .heap = block};

    begin(6);
    memset(block, 'L', sizeof block);
    fill(&first, 100);
    expect(&first);
    expect(&large);
    ck_assert(lend(&first));
    ck_assert(_i == 0 ? lend(&large) : give(&large));
    memset(first.room, '#', sizeof first.room);
    memset(block, '#', sizeof block);
    check_all_is_there();
}
END_TEST

START_TEST(what_is_left_of_it_is_kept)
{
    struct redlock__bytes bytes = {.heap = NULL};

    begin(4);
    fill(&bytes, 100);
    expect(&bytes);
    ck_assert(lend(&bytes));
    memcpy(sent, redlock__node_output(node, &(size_t){0}), 30);
    sent_len = 30;
    redlock__node_sent(node, 30);
    ck_assert(!redlock__node_borrows(node));
    memset(bytes.room, '#', sizeof bytes.room);
    ck_assert_uint_eq(waiting(), 70);
    check_all_is_there();
}
END_TEST

START_TEST(a_link_that_fails_gives_it_back)
{
    struct redlock__bytes bytes = {.heap = NULL};

    begin(5);
    fill(&bytes, 100);
    ck_assert(lend(&bytes));
    redlock__node_fail(node, "gone", now);
    ck_assert(!redlock__node_borrows(node));
    redlock__node_keep(node);
    ck_assert_uint_eq(waiting(), 0);
    ck_assert_str_eq(pull_all(), "D0gone;");
}
END_TEST

/* As the engine does it: before the bytes are filled anew, whoever has them keeps them. */
START_TEST(output_is_what_was_requested_whatever_is_lent_and_taken)
{
    struct redlock__bytes lent = {.heap = NULL}, own = {.heap = NULL};

    begin((uint64_t)_i + 1);
    for (int step = 0; step < STEPS; step++) {
        switch (below(4)) {
        case 0:
            redlock__node_keep(node);
            fill(&lent, 1 + below(MOST));
            expect(&lent);
            ck_assert(lend(&lent));
            break;
        case 1:
            fill(&own, 1 + below(MOST));
            expect(&own);
            ck_assert(give(&own));
            break;
        case 2:
            take(below((uint32_t)waiting() + 1));
            break;
        default:
            take(waiting());
            break;
        }
        if (!redlock__node_borrows(node))
            memset(lent.room, '#', sizeof lent.room);
        memset(own.room, '#', sizeof own.room);
    }
    check_all_is_there();
}
END_TEST

START_TEST(output_survives_any_partial_sends)
{
    begin((uint64_t)_i + 1);
    for (uint32_t round = 0; round < 20; round++) {
        struct redlock__bytes bytes;

        expect(redlock__encode_set(&bytes, "key", 3, NODE_TOKEN, 1000));
        redlock__bytes_free(&bytes);
        ask(REDLOCK__CMD_SET, round, 50);
        take(below((uint32_t)waiting() + 1));
    }
    check_all_is_there();
}
END_TEST

/* ------------------------------------------------------------------------- */

int main(void)
{
    Suite *suite = suite_create("node_output");
    TCase *output = tcase_create("output");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(output, SECONDS);
    tcase_add_checked_fixture(output, setup, teardown);
    tcase_add_test(output, what_is_alone_is_borrowed_and_sent_from_where_it_is);
    tcase_add_test(output, what_was_kept_needs_the_bytes_no_more);
    tcase_add_loop_test(output, what_comes_next_has_it_copied, 0, 2);
    tcase_add_loop_test(output, what_needs_more_room_has_it_copied, 0, 2);
    tcase_add_test(output, what_is_left_of_it_is_kept);
    tcase_add_test(output, a_link_that_fails_gives_it_back);
    tcase_add_loop_test(output, output_is_what_was_requested_whatever_is_lent_and_taken, 0, 200);
    tcase_add_loop_test(output, output_survives_any_partial_sends, 0, 50);
    suite_add_tcase(suite, output);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
