/*
 * One connection as a machine without I/O.
 *
 * Queue. Every request without an answer has an entry in one ring, in the order written, and a
 * reply belongs to the oldest entry. Greeting commands are entries too, in front, never shown to
 * the caller. When the link fails all its requests become `dropped`: they stay at the head until
 * pulled, and those of the next link queue up behind them. So nothing needs memory then.
 *
 * Written. Each entry knows at which byte of the connection's output it begins; the driver says how
 * many it took (node_output.c). A reply to a request of which no byte was taken was unasked, and
 * fails the link.
 *
 * Pauses. Each failure but the first after a link that served for a while doubles them.
 */
#include "node.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node_state.h"
#include "random.h"
#include "validity.h"

/* ---- queue and output --------------------------------------------------- */

static uint32_t owed(const struct redlock__node *node)
{
    return node->ring.count - node->dropped;
}

/* ---- deadlines ----------------------------------------------------------- */

static int64_t connect_deadline(const struct redlock__node *node)
{
    return redlock__add(node->connecting_since_ns, node->config.connect_timeout_ns);
}

static int64_t silence_deadline(const struct redlock__node *node)
{
    if (owed(node) == 0)
        return REDLOCK__NEVER;
    int64_t since_ns =
        redlock__max(node->received_ns, redlock__ring_at(&node->ring, node->dropped)->queued_ns);
    return redlock__add(since_ns, node->config.silence_limit_ns);
}

/* What it is now; what others see may be earlier. */
static int64_t next_deadline(const struct redlock__node *node)
{
    if (node->seen.phase == REDLOCK__NODE_PHASE_DOWN)
        return node->seen.retry_ns;
    if (node->seen.phase != REDLOCK__NODE_PHASE_READY)
        return connect_deadline(node);
    return redlock__min(node->ring.min_deadline_ns, silence_deadline(node));
}

static void set_deadline(struct redlock__node *node, int64_t deadline_ns)
{
    node->seen.deadline_ns = deadline_ns;
    if (node->config.all != NULL)
        node->config.all->deadline_ns = redlock__min(node->config.all->deadline_ns, deadline_ns);
}

/* ---- phases ------------------------------------------------------------- */

static void note_ready(struct redlock__node *node)
{
    struct redlock__nodes *all = node->config.all;

    if (all == NULL)
        return;
    all->ready &= ~node->config.bit;
    if (node->seen.phase == REDLOCK__NODE_PHASE_READY)
        all->ready |= node->config.bit;
}

/* A quarter less to a quarter more, so that clients do not come back in step. */
static int64_t jittered_ns(struct redlock__node *node, int64_t pause_ms)
{
    int64_t pause_ns = redlock__ms_to_ns(pause_ms);
    uint64_t part = redlock__random(&node->random) % ((uint64_t)pause_ns / 2 + 1);

    return pause_ns - pause_ns / 4 + (int64_t)part;
}

static void schedule_retry(struct redlock__node *node, int64_t now_ns)
{
    bool was_ready = node->seen.phase == REDLOCK__NODE_PHASE_READY;
    if (was_ready && now_ns - node->ready_since_ns >= REDLOCK__BACKOFF_CAP_MS * REDLOCK__MS)
        node->pause_ms = 0;
    if (!was_ready)
        node->pause_ms = redlock__max(node->pause_ms, REDLOCK__BACKOFF_BASE_MS);
    node->seen.retry_ns = redlock__add(now_ns, jittered_ns(node, node->pause_ms));
    node->pause_ms = redlock__min(redlock__max(node->pause_ms * 2, REDLOCK__BACKOFF_BASE_MS),
                                  REDLOCK__BACKOFF_CAP_MS);
}

/* The one place where the phase changes. */
static void enter(struct redlock__node *node, enum redlock__node_phase next, int64_t now_ns)
{
    assert(next == REDLOCK__NODE_PHASE_DOWN ? node->seen.phase != next
                                            : node->seen.phase + 1 == next);
    switch (next) {
    case REDLOCK__NODE_PHASE_DOWN:
        if (node->seen.phase == REDLOCK__NODE_PHASE_READY)
            node->disconnects++;
        schedule_retry(node, now_ns);
        break;
    case REDLOCK__NODE_PHASE_CONNECTING:
        node->connecting_since_ns = now_ns;
        node->securing = false;
        break;
    case REDLOCK__NODE_PHASE_GREETING:
        node->sent = node->end = 0;
        break;
    case REDLOCK__NODE_PHASE_READY:
        node->connects++;
        node->ready_since_ns = now_ns;
        node->received_ns = now_ns;
        break;
    }
    node->seen.phase = next;
    node->seen.changes++;
    note_ready(node);
    set_deadline(node, next_deadline(node));
}

/* Marks what the failed link owed, and says whether a SET may still be on its way. */
static bool drop_requests(struct redlock__node *node)
{
    bool set_in_flight = false;
    node->ring.count -= node->greeting; /* nothing queues behind a greeting */
    node->greeting = 0;
    for (uint32_t i = node->dropped; i < node->ring.count; i++) {
        struct redlock__pending *e = redlock__ring_at(&node->ring, i);
        e->written = node->sent > e->begin;
        if (e->written &&
            (e->tag.command == REDLOCK__CMD_SET || e->tag.command == REDLOCK__CMD_GRANT ||
             e->tag.command == REDLOCK__CMD_EXTEND_NATIVE))
            set_in_flight = true;
    }
    node->dropped = node->ring.count;
    node->uneven = true;
    redlock__ring_disarm(&node->ring);
    return set_in_flight;
}

/* The one way down. */
__attribute__((cold, format(printf, 3, 4))) static void
fail(struct redlock__node *node, int64_t now_ns, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(node->text, sizeof(node->text), format, arguments);
    va_end(arguments);
    redlock__printable(node->text, sizeof(node->text), node->text, strlen(node->text));

    node->seen.closing = drop_requests(node) ? REDLOCK__TASK_ABORT : REDLOCK__TASK_CLOSE;
    free(node->seen.out);
    node->seen.from = node->seen.out = NULL;
    node->seen.out_size = node->seen.out_head = node->seen.out_tail = 0;
    redlock__replies_close(&node->replies);
    node->reading.queued = 0;
    enter(node, REDLOCK__NODE_PHASE_DOWN, now_ns);
}

/* ---- greeting ----------------------------------------------------------- */

static void fail_refused(struct redlock__node *node, struct redlock__answer *answer, int64_t now_ns)
{
    /* Some servers and proxies repeat the arguments of a command they refuse. */
    redlock__conceal(answer->text, sizeof(answer->text), node->config.password);
    fail(node, now_ns, "%s", answer->text);
}

static void greeting_answered(struct redlock__node *node, const struct redisReply *reply,
                              int64_t now_ns)
{
    struct redlock__answer answer;

    if (!redlock__greeting_answered(node, reply, now_ns, &answer))
        fail_refused(node, &answer, now_ns);
    else if (node->greeting == 0)
        enter(node, REDLOCK__NODE_PHASE_READY, now_ns);
}

/* ---- replies ------------------------------------------------------------ */

/* A primary that is full says so unasked and hangs up. */
static void fail_unasked(struct redlock__node *node, const redisReply *reply, int64_t now_ns)
{
    struct redlock__answer answer;
    redlock__decode(REDLOCK__CMD_AUTH, reply, &answer);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_refused(node, &answer, now_ns);
    else
        fail(node, now_ns, "protocol error: an answer to nothing asked");
}

/* The next reply, to the first entry; NULL: none, or the link has failed. */
static redisReply *next_reply(struct redlock__node *node, int64_t now_ns)
{
    const char *problem;
    struct redlock__pending *e = node->ring.count > 0 ? redlock__ring_at(&node->ring, 0) : NULL;
    bool asked = e != NULL && node->sent > e->begin;
    redisReply *reply =
        asked ? redlock__reading_last(&node->reading, &node->replies, &e->tag, &problem)
              : redlock__replies_next(&node->replies, &problem);
    if (reply == NULL && problem != NULL)
        fail(node, now_ns, "%s", problem);
    if (reply == NULL)
        return NULL;
    if (!asked) {
        fail_unasked(node, reply, now_ns);
        redlock__replies_done(&node->replies, reply);
        return NULL;
    }
    return reply;
}

/* Consumes the greeting's answers received so far, and nothing behind them. */
static void settle_greeting(struct redlock__node *node, int64_t now_ns)
{
    while (node->seen.phase == REDLOCK__NODE_PHASE_GREETING && node->dropped == 0) {
        redisReply *reply = next_reply(node, now_ns);
        if (reply == NULL)
            return;
        greeting_answered(node, reply, now_ns);
        redlock__replies_done(&node->replies, reply);
    }
}

/* Of the oldest entry, from the reply that was read. */
static void take_answer(struct redlock__node *node, const struct redlock__pending *e,
                        redisReply *reply, int64_t now_ns, struct redlock__answer *answer)
{
    redlock__reading_decode(&node->reading, &e->tag, reply, answer);
    if (reply->type == REDIS_REPLY_ERROR || e->tag.command >= REDLOCK__CMD_INFO_SERVER)
        redlock__facts_take(&node->facts, e->tag.command, reply, e->queued_ns, now_ns);
    redlock__replies_done(&node->replies, reply);
}

static bool pull_answer(struct redlock__node *node, int64_t now_ns,
                        struct redlock__node_event *event)
{
    const struct redlock__pending *e;
    redisReply *reply = NULL;
    bool usual;

    if (node->seen.phase != REDLOCK__NODE_PHASE_READY)
        return false;
    e = redlock__ring_at(&node->ring, 0);
    usual = node->ring.count > 0 && node->sent > e->begin &&
            redlock__reading_counts(&node->replies, &e->tag, &event->answer);
    if (!usual)
        reply = next_reply(node, now_ns);
    if (!usual && reply == NULL)
        return false;
    event->result = e->timed_out ? REDLOCK__RESULT_LATE : REDLOCK__RESULT_ANSWER;
    event->tag = e->tag;
    event->written = event->timed_out = false;
    if (!usual)
        take_answer(node, e, reply, now_ns, &event->answer);
    redlock__ring_pop(&node->ring);
    return true;
}

/* ---- timeouts and drops ------------------------------------------------- */

static bool pull_timeout(struct redlock__node *node, struct redlock__node_event *event)
{
    const struct redlock__pending *e = redlock__ring_overdue(&node->ring, node->overdue_ns);
    if (e == NULL && node->seen.deadline_ns <= node->overdue_ns)
        set_deadline(node, next_deadline(node));
    if (e == NULL)
        return false;
    *event = (struct redlock__node_event){.result = REDLOCK__RESULT_TIMEOUT, .tag = e->tag};
    event->answer.vote = REDLOCK_VOTE_SILENT;
    snprintf(event->answer.text, sizeof(event->answer.text), "no answer within %" PRId64 " ms",
             redlock__remaining_ms(e->deadline_ns, e->queued_ns));
    return true;
}

static bool pull_dropped(struct redlock__node *node, struct redlock__node_event *event)
{
    if (node->dropped == 0)
        return false;
    node->dropped--;
    const struct redlock__pending *e = redlock__ring_at(&node->ring, 0);
    *event = (struct redlock__node_event){.result = REDLOCK__RESULT_DROPPED, .tag = e->tag};
    event->answer.vote = REDLOCK_VOTE_DOWN;
    memcpy(event->answer.text, node->text, sizeof(event->answer.text));
    event->written = e->written;
    event->timed_out = e->timed_out;
    redlock__ring_pop(&node->ring);
    return true;
}

/* ---- for the engine ----------------------------------------------------- */

struct redlock__node *redlock__node_new(const struct redlock__node_config *config)
{
    struct redlock__node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    node->config = *config;
    node->random = config->seed;
    node->connecting_since_ns = INT64_MIN;
    set_deadline(node, next_deadline(node));
    redlock__ring_init(&node->ring);
    return node;
}

void redlock__node_free(struct redlock__node *node)
{
    if (node == NULL)
        return;
    redlock__replies_destroy(&node->replies);
    free(node->seen.out);
    redlock__ring_destroy(&node->ring);
    free(node);
}

const char *redlock__node_address(const struct redlock__node *node)
{
    return node->config.address;
}

const char *redlock__node_text(const struct redlock__node *node)
{
    return node->text;
}

uint32_t redlock__node_pending(const struct redlock__node *node)
{
    return owed(node) - node->greeting;
}

uint64_t redlock__node_connects(const struct redlock__node *node)
{
    return node->connects;
}

uint64_t redlock__node_disconnects(const struct redlock__node *node)
{
    return node->disconnects;
}

const struct redlock__facts *redlock__node_facts(const struct redlock__node *node)
{
    return &node->facts;
}

bool redlock__node_owes(const struct redlock__node *node)
{
    return owed(node) > 0;
}

/* Room doubles, so it is seldom that the limits have to be looked at. False: see
 * redlock__node_request(). */
__attribute__((cold)) static bool make_room_within_limits(struct redlock__node *node, size_t len,
                                                          int64_t now_ns)
{
    if (owed(node) >= REDLOCK__NODE_MAX_PENDING) {
        fail(node, now_ns, "more than %d requests without an answer", REDLOCK__NODE_MAX_PENDING);
        return false;
    }
    if (node->seen.out_tail - node->seen.out_head + len > REDLOCK__NODE_MAX_OUT) {
        fail(node, now_ns, "more than %d bytes waiting to be sent", REDLOCK__NODE_MAX_OUT);
        return false;
    }
    return redlock__node_make_room(node, len);
}

/* soon_ns: no later than its deadline, and than its link has been silent for too long. */
__attribute__((always_inline)) static inline bool
request(struct redlock__node *node, const struct redlock__tag *tag, const char *data, size_t len,
        bool lent, int64_t deadline_ns, int64_t soon_ns, int64_t now_ns)
{
    assert(node->seen.phase == REDLOCK__NODE_PHASE_READY);
    if (!redlock__node_has_room(node, len) && !make_room_within_limits(node, len, now_ns))
        return false;
    redlock__node_append(node, tag, data, len, lent, deadline_ns, now_ns);
    if (soon_ns < node->seen.deadline_ns)
        set_deadline(node, soon_ns);
    return true;
}

static int64_t soonest(const struct redlock__node *node, int64_t deadline_ns, int64_t now_ns)
{
    return redlock__min(deadline_ns, redlock__add(now_ns, node->config.silence_limit_ns));
}

const struct redlock__tag *redlock__node_pull_yes(struct redlock__node *node, bool *more)
{
    const struct redlock__pending *e;

    if (node->uneven || node->ring.count == 0)
        return NULL;
    e = redlock__ring_first(&node->ring); /* of the greeting no command is one of those */
    if (e->timed_out || node->sent <= e->begin ||
        !redlock__reading_yes(&node->replies, e->tag.command))
        return NULL;
    redlock__ring_pop(&node->ring);
    *more = redlock__replies_received(&node->replies);
    return &e->tag;
}

bool redlock__node_request(struct redlock__node *node, const struct redlock__tag *tag,
                           const struct redlock__bytes *bytes, int64_t deadline_ns, int64_t now_ns)
{
    return node->seen.phase == REDLOCK__NODE_PHASE_READY && bytes->len != 0 &&
           request(node, tag, redlock__bytes_data(bytes), bytes->len, false, deadline_ns,
                   soonest(node, deadline_ns, now_ns), now_ns);
}

uint32_t redlock__node_request_all(struct redlock__node *const nodes[], uint32_t mask,
                                   const struct redlock__tag *tag,
                                   const struct redlock__bytes *bytes, int64_t deadline_ns,
                                   int64_t now_ns)
{
    const char *data = redlock__bytes_data(bytes);
    const struct redlock__tag copy = *tag; /* what is written to nodes can't change it */
    size_t len = bytes->len;
    int64_t soon_ns;

    if (len == 0 || mask == 0)
        return 0;
    soon_ns = soonest(nodes[redlock__first(mask)], deadline_ns, now_ns);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
        if (!request(nodes[redlock__first(rest)], &copy, data, len, true, deadline_ns, soon_ns,
                     now_ns))
            mask &= ~(rest & (~rest + 1)); /* its bit, the lowest */
    return mask;
}

bool redlock__node_pull(struct redlock__node *node, int64_t now_ns,
                        struct redlock__node_event *event)
{
    if (node->uneven && (pull_dropped(node, event) || pull_timeout(node, event)))
        return true;
    node->uneven = false;
    if (!redlock__replies_any(&node->replies))
        return false;
    if (node->seen.phase != REDLOCK__NODE_PHASE_READY)
        settle_greeting(node, now_ns);
    /* Reading may fail the link, and then there is something dropped to tell. */
    return pull_answer(node, now_ns, event) || pull_dropped(node, event);
}

void redlock__node_hurry(struct redlock__node *node, int64_t now_ns)
{
    int64_t since_ns = redlock__add(node->connecting_since_ns, REDLOCK__HURRY_MS * REDLOCK__MS);
    if (node->seen.phase == REDLOCK__NODE_PHASE_DOWN && now_ns > since_ns) {
        node->seen.retry_ns = redlock__min(node->seen.retry_ns, now_ns);
        set_deadline(node, node->seen.retry_ns);
    }
}

void redlock__node_rest(struct redlock__node *node, int64_t now_ns)
{
    if (node->seen.phase != REDLOCK__NODE_PHASE_DOWN)
        fail(node, now_ns, "not needed any more");
    node->seen.deadline_ns = node->seen.retry_ns = REDLOCK__NEVER;
}

void redlock__node_handle_deadline(struct redlock__node *node, int64_t now_ns)
{
    settle_greeting(node, now_ns);
    node->overdue_ns = now_ns;
    node->uneven = true;
    bool ready = node->seen.phase == REDLOCK__NODE_PHASE_READY;
    bool greeting = node->seen.phase == REDLOCK__NODE_PHASE_GREETING;
    if (ready && now_ns >= silence_deadline(node))
        fail(node, now_ns, "silent for %" PRId64 " ms",
             node->config.silence_limit_ns / REDLOCK__MS);
    if ((greeting || node->seen.phase == REDLOCK__NODE_PHASE_CONNECTING) &&
        now_ns >= connect_deadline(node))
        fail(node, now_ns, "%s within %" PRId64 " ms%s",
             greeting ? "no answer to the greeting" : "no connection",
             node->config.connect_timeout_ns / REDLOCK__MS,
             node->securing && !greeting ? ": TLS has no answer, is it a TLS port?" : "");
}

/* ---- for the driver ----------------------------------------------------- */

enum redlock__node_task redlock__node_take_task(struct redlock__node *node, int64_t now_ns)
{
    enum redlock__node_task task = node->seen.closing;
    node->seen.closing = REDLOCK__TASK_NONE;
    if (task != REDLOCK__TASK_NONE || !redlock__node_has_task(node, now_ns))
        return task;
    enter(node, REDLOCK__NODE_PHASE_CONNECTING, now_ns);
    return REDLOCK__TASK_CONNECT;
}

void redlock__node_securing(struct redlock__node *node)
{
    node->securing = node->seen.phase == REDLOCK__NODE_PHASE_CONNECTING;
}

void redlock__node_connected(struct redlock__node *node, int64_t now_ns)
{
    if (node->seen.phase != REDLOCK__NODE_PHASE_CONNECTING)
        return;
    enter(node, REDLOCK__NODE_PHASE_GREETING, now_ns);
    node->facts = (struct redlock__facts){0};
    if (!redlock__replies_open(&node->replies) || !redlock__greeting_send(node, now_ns))
        fail(node, now_ns, "out of memory");
}

void redlock__node_fail(struct redlock__node *node, const char *text, int64_t now_ns)
{
    /* What the primary said before it hung up tells more than that it did. */
    settle_greeting(node, now_ns);
    if (node->seen.phase != REDLOCK__NODE_PHASE_DOWN)
        fail(node, now_ns, "%s", text);
}

char *redlock__node_room(struct redlock__node *node, size_t *len)
{
    return redlock__replies_room(&node->replies, len);
}

void redlock__node_received(struct redlock__node *node, size_t len, int64_t now_ns)
{
    node->received_ns = now_ns;
    if (!redlock__replies_take(&node->replies, len))
        fail(node, now_ns, "out of memory");
}

void redlock__node_receive(struct redlock__node *node, const char *data, size_t len, int64_t now_ns)
{
    while (len > 0 && node->seen.phase != REDLOCK__NODE_PHASE_DOWN) {
        size_t part = 0;
        char *room = redlock__node_room(node, &part);

        if (room == NULL) {
            fail(node, now_ns, "out of memory");
            return;
        }
        part = part < len ? part : len;
        memcpy(room, data, part);
        redlock__node_received(node, part, now_ns);
        data += part;
        len -= part;
    }
}
