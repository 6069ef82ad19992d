/*
 * A node driven by hand: the test is driver, engine and clock. For the test programs of
 * src/node.c, each of which includes it once.
 */
#ifndef NODE_DRIVER_H
#define NODE_DRIVER_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "node.h"
#include "validity.h"

#define MS(n) ((n)*REDLOCK__MS)

/* What a plain primary without a marker answers to the greeting: to its name, and to the
 * questions behind it. Literals, so that tests can put them into longer ones. */
#define RUN_ID "0123456789abcdef0123456789abcdef01234567"
#define SAYS_SERVER "$72\r\nrun_id:" RUN_ID "\r\nuptime_in_seconds:100\r\n\r\n"
#define SAYS_REPLICATION "$56\r\nrole:master\r\nconnected_slaves:0\r\nsecond_repl_offset:-1\r\n\r\n"
#define SAYS_SETTINGS                                                                              \
    "*6\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"               \
    "$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n"
#define SAYS_MARKER "$-1\r\n"
#define SAYS_NUMBERS "*0\r\n" /* base and floor */
#define SAYS_TIME "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n"
#define INTRODUCED SAYS_SERVER SAYS_REPLICATION SAYS_SETTINGS SAYS_MARKER SAYS_NUMBERS SAYS_TIME
#define GREETED "+OK\r\n" INTRODUCED

static int64_t now;
static struct redlock__node *node;
static char trace[8192]; /* one letter a result, its round number, its text */

static const struct redlock__node_config plain = {
    .address = "redis://10.0.0.1:6379",
    .client_name = "lib",
    .connect_timeout_ns = MS(1000),
    .silence_limit_ns = MS(2000),
    .seed = 7,
};

static inline void setup_with(const struct redlock__node_config *config)
{
    now = MS(1000000);
    trace[0] = '\0';
    node = redlock__node_new(config);
    ck_assert_ptr_nonnull(node);
}

static inline void setup(void)
{
    setup_with(&plain);
}

static inline void teardown(void)
{
    redlock__node_free(node);
}

static inline void note_event(const struct redlock__node_event *event)
{
    char letter = "ALTD"[event->result];
    size_t used = strlen(trace);
    snprintf(trace + used, sizeof(trace) - used, "%c%u%s%s%s%s;", letter, event->tag.round,
             event->answer.vote == REDLOCK_VOTE_OURS ? "+" : "", event->written ? "w" : "",
             event->timed_out ? "t" : "", event->answer.text[0] != '\0' ? event->answer.text : "");
}

/* As the engine does: the usual answers by their bytes. */
static inline bool pull(struct redlock__node_event *event)
{
    const struct redlock__tag *tag;
    bool more;

    tag = redlock__node_pull_yes(node, &more);
    if (tag == NULL)
        return redlock__node_pull(node, now, event);
    *event = (struct redlock__node_event){.result = REDLOCK__RESULT_ANSWER, .tag = *tag};
    redlock__decode_plain_yes(tag->command, &event->answer);
    if (!more)
        ck_assert(!redlock__node_pull(node, now, &(struct redlock__node_event){.written = false}));
    return true;
}

static inline const char *pull_all(void)
{
    struct redlock__node_event event;
    trace[0] = '\0';
    while (pull(&event))
        note_event(&event);
    return trace;
}

/* After all that was received has been handed over. */
static inline const char *pull_due(void)
{
    redlock__node_handle_deadline(node, now);
    return pull_all();
}

static inline size_t sent_all(void)
{
    size_t len;
    redlock__node_output(node, &len);
    redlock__node_sent(node, len);
    return len;
}

static inline void receive(const char *text)
{
    redlock__node_receive(node, text, strlen(text), now);
}

static inline void connect_node(void)
{
    ck_assert_int_eq(redlock__node_take_task(node, now), REDLOCK__TASK_CONNECT);
    redlock__node_connected(node, now);
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_GREETING);
}

static inline void make_ready(void)
{
    connect_node();
    sent_all();
    receive(GREETED);
    ck_assert_str_eq(pull_all(), "");
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_READY);
}

#define NODE_TOKEN "0123456789abcdef0123456789abcdef"

static inline bool ask(enum redlock__command command, uint32_t round, int64_t timeout_ms)
{
    struct redlock__bytes bytes;
    struct redlock__tag tag = {.owner = &trace, .command = command, .round = round};
    bool queued;

    if (command == REDLOCK__CMD_SET)
        redlock__encode_set(&bytes, "key", 3, NODE_TOKEN, 1000);
    else
        redlock__encode_release(&bytes, "key", 3, NODE_TOKEN);
    queued = redlock__node_request(node, &tag, &bytes, now + MS(timeout_ms), now);
    redlock__bytes_free(&bytes);
    return queued;
}

static inline void assert_down(const char *text)
{
    ck_assert_int_eq(redlock__node_phase(node), REDLOCK__NODE_PHASE_DOWN);
    ck_assert_str_eq(redlock__node_text(node), text);
}

#endif
