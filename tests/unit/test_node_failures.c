/*
 * One connection: how it fails, what that does to its requests, when it comes back.
 *
 * Allocation failures need the linker's --wrap=malloc --wrap=calloc --wrap=realloc; a
 * program linked without them skips that one test and says so.
 */
#include "node.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_driver.h"
#include "replies.h"
#include "validity.h"

enum {
    SECONDS = 60
};

/* ---- failures ----------------------------------------------------------- */

START_TEST(silence_closes_the_link)
{
    make_ready();
    now += MS(5000); /* idle is not silent */
    ck_assert_int_eq(redlock__node_next_deadline(node), REDLOCK__NEVER);
    ask(REDLOCK__CMD_SET, 1, 50);
    ask(REDLOCK__CMD_SET, 2, 3000);
    sent_all();
    now += MS(1500);
    receive("+"); /* any byte counts */
    ck_assert_str_eq(pull_due(), "T1no answer within 50 ms;");
    int64_t deadline = now + MS(2000);
    redlock__node_handle_deadline(node, deadline - 1);
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
    now += MS(1600);
    ck_assert_str_eq(pull_due(), "T2no answer within 3000 ms;");
    ck_assert_int_eq(redlock__node_next_deadline(node), deadline);
    now = deadline;
    redlock__node_handle_deadline(node, now);
    assert_down("silent for 2000 ms");
    ck_assert_str_eq(pull_all(), "D1wtsilent for 2000 ms;D2wtsilent for 2000 ms;");
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_ABORT);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
}
END_TEST

START_TEST(dropped_says_exactly_what_was_written)
{
    size_t len;
    make_ready();
    ask(REDLOCK__CMD_RELEASE, 1, 50);
    redlock__node_output(node, &len);
    ask(REDLOCK__CMD_SET, 2, 50);
    ask(REDLOCK__CMD_RELEASE, 3, 50);
    redlock__node_sent(node, len + (size_t)_i); /* so many bytes of the SET */
    redlock__node_fail(node, "reset\n", now);
    ck_assert_uint_eq(redlock__node_pending(node), 0);
    ck_assert(!redlock__node_owes(node));
    redlock__node_output(node, &len);
    ck_assert_uint_eq(len, 0);
    ck_assert_str_eq(pull_all(),
                     _i == 0 ? "D1wreset?;D2reset?;D3reset?;" : "D1wreset?;D2wreset?;D3reset?;");
    ck_assert(redlock__node_has_task(node, now));
    ck_assert_int_eq(redlock__node_take_task(node, now),
                     _i == 0 ? REDLOCK__TASK_CLOSE : REDLOCK__TASK_ABORT);
}
END_TEST

START_TEST(an_answered_set_needs_no_abort)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    ask(REDLOCK__CMD_RELEASE, 2, 50);
    sent_all();
    receive("+OK\r\n:"); /* and dies in the middle of a reply */
    ck_assert_str_eq(pull_all(), "A1+;");
    redlock__node_fail(node, "closed by the server", now);
    redlock__node_fail(node, "and once more", now);
    assert_down("closed by the server");
    ck_assert_str_eq(pull_all(), "D2wclosed by the server;");
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CLOSE);
    ck_assert_uint_eq(redlock__node_disconnects(node), 1);
    connect_node();
    sent_all();
    receive("1\r\n"); /* the rest of the old reply is not taken up by the new link */
    pull_all();
    assert_down("protocol error: a reply starts with byte 0x31");
}
END_TEST

static const struct {
    const char *bytes;
    const char *trace;
} garbage[] = {
    {"\n", "D1wprotocol error: a reply starts with byte 0x0a;"},
    {"*1\r\n*1\r\n+OK\r\n", "D1wprotocol error: a long or nested array;"},
    {"*2\r\n+OK\r\n*0\r\n", "D1wprotocol error: a long or nested array;"},
    {"*65\r\n", "D1wprotocol error: a long or nested array;"},
    {"*1000000\r\n", "D1wprotocol error: a long or nested array;"},
    {"*1\r\n*1000000\r\n", "D1wprotocol error: a long or nested array;"},
    {"*x\r\n", "D1wprotocol error: Bad multi-bulk length;"},
    {"*-2\r\n", "D1wprotocol error: Multi-bulk length out of range;"},
    {"%1\r\n", "D1wprotocol error: a reply starts with byte 0x25;"},
    {">2\r\n", "D1wprotocol error: a reply starts with byte 0x3e;"},
    {"+OK\r\n+OK\r\n", "A1+;"},
    {"+OK\r\n\xff", "A1+;"},
    {"+OK\r\n:x\r\n", "A1+;"},
    {"$abc\r\n", "D1wprotocol error: Bad bulk string length;"},
    {":1x\r\n", "D1wprotocol error: Bad integer value;"},
    {":99999999999999999999\r\n", "D1wprotocol error: Bad integer value;"},
    {"$-2\r\n", "D1wprotocol error: Bulk string length out of range;"},
};

START_TEST(garbage_fails_the_link)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    sent_all();
    receive(garbage[_i].bytes);
    ck_assert_str_eq(pull_all(), garbage[_i].trace);
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_DOWN);
    ck_assert_int_eq(strncmp(redlock__node_text(node), "protocol error: ", 16), 0);
}
END_TEST

/* Nor does it take memory for what the peer says will come: hiredis' calloc is this one, where
 * nobody else wants its place. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SEES_CALLOC 1
#else
#define SEES_CALLOC 0
#endif

static size_t most_taken; /* by one calloc */

#if SEES_CALLOC
void *__libc_calloc(size_t count, size_t size);

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    if (count * size > most_taken)
        most_taken = count * size;
    return __libc_calloc(count, size);
}
#endif

START_TEST(a_long_array_takes_no_memory)
{
    static const struct {
        const char *bytes;
        enum redlock__node_phase phase;
    } arrays[] = {{"*64\r\n", REDLOCK__NODE_PHASE_READY}, /* what is allowed, for comparison */
                  {"*65\r\n", REDLOCK__NODE_PHASE_DOWN},
                  {"*1000000\r\n", REDLOCK__NODE_PHASE_DOWN},
                  {"*1\r\n*1000000\r\n", REDLOCK__NODE_PHASE_DOWN}};
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    sent_all();
    most_taken = 0;
    receive(arrays[_i].bytes);
    pull_all();
    size_t taken = most_taken;
    ck_assert_int_eq(redlock__node_phase(node), arrays[_i].phase);
    if (SEES_CALLOC)
        ck_assert((taken >= 64 * sizeof(void *)) == (_i == 0));
}
END_TEST

START_TEST(a_reply_to_a_request_not_yet_sent_fails_the_link)
{
    make_ready();
    ask(REDLOCK__CMD_SET, 1, 50);
    receive("+OK\r\n");
    ck_assert_str_eq(pull_all(), "D1protocol error: an answer to nothing asked;");
}
END_TEST

START_TEST(a_giant_reply_fails_the_link)
{
    static char block[64 * 1024];
    memset(block, 'x', sizeof(block));
    make_ready();
    ask(REDLOCK__CMD_RELEASE, 1, 5000);
    sent_all();
    receive("$2000000000\r\n");
    for (size_t fed = 0; fed + sizeof(block) < REDLOCK__MAX_REPLY; fed += sizeof(block)) {
        redlock__node_receive(node, block, sizeof(block), now);
        ck_assert_str_eq(pull_all(), "");
    }
    redlock__node_receive(node, block, sizeof(block), now);
    ck_assert_str_eq(pull_all(), "D1wprotocol error: a reply of more than 1048576 bytes;");
}
END_TEST

START_TEST(an_overfull_queue_fails_the_link)
{
    struct redlock__node_event event;
    make_ready();
    for (uint32_t i = 0; i < REDLOCK__NODE_MAX_PENDING; i++)
        ck_assert(ask(REDLOCK__CMD_RELEASE, i, i % 7 + 1));
    now += MS(7);
    redlock__node_handle_deadline(node, now);
    for (uint32_t i = 0; i < REDLOCK__NODE_MAX_PENDING; i++) {
        ck_assert(redlock__node_pull(node, now, &event));
        ck_assert_int_eq(event.result, REDLOCK__RESULT_TIMEOUT);
    }
    ck_assert(!redlock__node_pull(node, now, &event));
    ck_assert(!ask(REDLOCK__CMD_RELEASE, 99, 10));
    assert_down("more than 65536 requests without an answer");
    for (uint32_t i = 0; i < REDLOCK__NODE_MAX_PENDING; i++) {
        ck_assert(redlock__node_pull(node, now, &event));
        ck_assert_int_eq(event.result, REDLOCK__RESULT_DROPPED);
        ck_assert_uint_eq(event.tag.round, i);
    }
    ck_assert(!redlock__node_pull(node, now, &event));
}
END_TEST

START_TEST(too_much_output_fails_the_link)
{
    static char block[1024 * 1024];
    struct redlock__bytes bytes = {.len = sizeof(block), .heap = block};
    struct redlock__tag tag = {.command = REDLOCK__CMD_GET};
    make_ready();
    for (int i = 0; i < 64; i++)
        ck_assert(redlock__node_request(node, &tag, &bytes, now + MS(50), now));
    ck_assert(!redlock__node_request(node, &tag, &bytes, now + MS(50), now));
    assert_down("more than 67108864 bytes waiting to be sent");
}
END_TEST

/* Bytes that were sent are not moved out of the way: the room for what waits is larger then. */
START_TEST(too_much_output_fails_a_link_that_took_some)
{
    static char block[1024 * 1024];
    struct redlock__bytes bytes = {.len = sizeof(block), .heap = block};
    struct redlock__tag tag = {.command = REDLOCK__CMD_GET};
    int waiting = 60 - 10;

    make_ready();
    for (int i = 0; i < 60; i++)
        ck_assert(redlock__node_request(node, &tag, &bytes, now + MS(50), now));
    redlock__node_sent(node, 10 * sizeof(block));
    while (waiting <= 128 && redlock__node_request(node, &tag, &bytes, now + MS(50), now))
        waiting++;
    ck_assert_int_ge(waiting, 64);
    ck_assert_int_le(waiting, 128);
    assert_down("more than 67108864 bytes waiting to be sent");
}
END_TEST

/* ---- back-off ----------------------------------------------------------- */

static void assert_pause(int64_t pause_ms)
{
    int64_t pause = redlock__node_next_deadline(node) - now;
    ck_assert_int_ge(pause, MS(pause_ms) * 3 / 4);
    ck_assert_int_le(pause, MS(pause_ms) * 5 / 4);
    ck_assert_int_ne(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    ck_assert(pause == 0 || !redlock__node_has_task(node, now + pause - 1));
    now += pause;
}

static void fail_to_connect(int64_t expected_pause_ms)
{
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_NONE);
    redlock__node_fail(node, "refused", now);
    assert_pause(expected_pause_ms);
}

START_TEST(pauses_grow_to_a_cap)
{
    static const int64_t pauses[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++)
        fail_to_connect(pauses[i]);
    make_ready();
    now += MS(REDLOCK__BACKOFF_CAP_MS);
    redlock__node_fail(node, "closed by the server", now);
    assert_pause(0); /* after a link that served, at once; then from the start */
    fail_to_connect(20);
    fail_to_connect(40);
}
END_TEST

START_TEST(a_server_that_greets_and_drops_makes_no_tight_loop)
{
    static const int64_t pauses[] = {0, 20, 40, 80, 160, 320, 640, 1000, 1000};
    for (size_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
        make_ready();
        now += MS(REDLOCK__BACKOFF_CAP_MS) - 1;
        redlock__node_fail(node, "closed by the server", now);
        assert_pause(pauses[i]);
    }
}
END_TEST

START_TEST(jitter_differs_by_seed)
{
    struct redlock__node_config config = plain;
    int64_t first = 0;
    int equal = 0;
    for (config.seed = 0; config.seed < 20; config.seed++) {
        setup_with(&config);
        ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
        redlock__node_fail(node, "refused", now);
        equal += redlock__node_next_deadline(node) == first ? 1 : 0;
        first = redlock__node_next_deadline(node);
        teardown();
    }
    ck_assert_int_eq(equal, 0);
}
END_TEST

START_TEST(hurry_shortens_a_pause_but_not_too_often)
{
    for (int64_t pause = 20; pause < 1000; pause *= 2)
        fail_to_connect(pause);
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    redlock__node_hurry(node, now); /* no effect while connecting */
    redlock__node_fail(node, "refused", now);
    redlock__node_take_task(node, now);
    now += MS(REDLOCK__HURRY_MS);
    redlock__node_hurry(node, now);
    ck_assert(!redlock__node_has_task(node, now));
    redlock__node_hurry(node, now + 1);
    ck_assert_int_eq(redlock__node_take_task(node, now + 1), REDLOCK__TASK_CONNECT);
}
END_TEST

/* ---- allocations -------------------------------------------------------- */

void *__real_malloc(size_t size) __attribute__((weak));
void *__real_calloc(size_t count, size_t size) __attribute__((weak));
void *__real_realloc(void *old, size_t size) __attribute__((weak));
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static long countdown = -1; /* the allocation that reaches 0 fails; negative: none */
static long allocations;

static bool fails(void)
{
    allocations++;
    return countdown > 0 && --countdown == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

/* What must hold whatever failed: each request queued has one last result, and the link is
 * down in the end. Asserts nothing itself, since Check allocates too. */
static bool run_with_failures(long fail_at)
{
    bool right = true;
    struct redlock__node_event event;
    uint32_t queued = 0, ended = 0;
    countdown = fail_at;
    node = redlock__node_new(&plain);
    for (int round = 0; node != NULL && round < 3; round++) {
        now = redlock__max(now, redlock__node_next_deadline(node)) + MS(2000);
        redlock__node_take_task(node, now);
        redlock__node_take_task(node, now);
        redlock__node_connected(node, now);
        sent_all();
        receive(GREETED);
        while (redlock__node_pull(node, now, &event))
            ended++;
        for (uint32_t i = 0; i < 200; i++)
            queued += ask(REDLOCK__CMD_SET, i, 50) ? 1 : 0;
        sent_all();
        receive("+OK\r\n$-1\r\n-ERR x\r\n");
        while (redlock__node_pull(node, now, &event))
            ended++;
        redlock__node_fail(node, "closed by the server", now);
        while (redlock__node_pull(node, now, &event))
            ended++;
        right = right && queued == ended && redlock__node_pending(node) == 0 &&
                redlock__node_phase(node) == REDLOCK__NODE_PHASE_DOWN;
    }
    redlock__node_free(node);
    node = NULL;
    countdown = -1;
    return right && (fail_at > 0 || queued == 600);
}

START_TEST(any_allocation_may_fail)
{
    now = MS(1000);
    allocations = 0;
    bool right = run_with_failures(-1);
    long total = allocations;
    ck_assert(right);
    if (total == 0) {
        puts("skipped: any_allocation_may_fail (not linked with --wrap=malloc,calloc,realloc)");
        return;
    }
    for (long k = 1; k <= total; k++)
        ck_assert_msg(run_with_failures(k), "allocation %ld", k);
}
END_TEST

/* ------------------------------------------------------------------------- */

static Suite *failures_suite(void)
{
    Suite *suite = suite_create("node_failures");
    TCase *failures = tcase_create("failures");
    tcase_set_timeout(failures, SECONDS);
    tcase_add_checked_fixture(failures, setup, teardown);
    tcase_add_test(failures, silence_closes_the_link);
    tcase_add_loop_test(failures, dropped_says_exactly_what_was_written, 0, 3);
    tcase_add_test(failures, an_answered_set_needs_no_abort);
    tcase_add_loop_test(failures, garbage_fails_the_link, 0,
                        (int)(sizeof(garbage) / sizeof(garbage[0])));
    tcase_add_loop_test(failures, a_long_array_takes_no_memory, 0, 4);
    tcase_add_test(failures, a_reply_to_a_request_not_yet_sent_fails_the_link);
    tcase_add_test(failures, a_giant_reply_fails_the_link);
    tcase_add_test(failures, an_overfull_queue_fails_the_link);
    tcase_add_test(failures, too_much_output_fails_the_link);
    tcase_add_test(failures, too_much_output_fails_a_link_that_took_some);
    suite_add_tcase(suite, failures);

    TCase *pauses = tcase_create("pauses");
    tcase_set_timeout(pauses, SECONDS);
    tcase_add_checked_fixture(pauses, setup, teardown);
    tcase_add_test(pauses, pauses_grow_to_a_cap);
    tcase_add_test(pauses, a_server_that_greets_and_drops_makes_no_tight_loop);
    tcase_add_test(pauses, hurry_shortens_a_pause_but_not_too_often);
    suite_add_tcase(suite, pauses);

    TCase *alone = tcase_create("alone");
    tcase_set_timeout(alone, SECONDS);
    tcase_add_test(alone, jitter_differs_by_seed);
    tcase_add_test(alone, any_allocation_may_fail);
    suite_add_tcase(suite, alone);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(failures_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
