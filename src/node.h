/*
 * One connection to one primary, as a machine without I/O: bytes in, bytes out,
 * time as an argument, results pulled.
 *
 *   DOWN --(retry time)--> CONNECTING --connected--> GREETING --greeted--> READY
 *     ^                        |                        |                    |
 *     +---------- redlock__node_fail (every failure, one function) ----------+
 *
 * Requests wait in one queue, in the order written, and the order in which a primary
 * answers. A request that missed its deadline costs a vote, not the connection: it
 * keeps its place, its late answer is consumed there. Only silence (no
 * byte received, with a request pending, for longer than the silence limit), a
 * protocol error or an overfull queue closes the link.
 *
 * The driver (io.c, or a test's simulator) does what redlock__node_task() says,
 * moves bytes, and reports; the engine queues requests and pulls results.
 */
#ifndef REDLOCK__NODE_H
#define REDLOCK__NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "facts.h"
#include "redlock.h"
#include "ring.h"

enum {
    REDLOCK__NODE_MAX_PENDING = 65536,        /* requests without an answer */
    REDLOCK__NODE_MAX_OUT = 64 * 1024 * 1024, /* bytes waiting to be sent: up to twice that, where
                                                 some of them were sent in between */
    REDLOCK__BACKOFF_BASE_MS = 20,            /* first pause after a failed connect */
    REDLOCK__BACKOFF_CAP_MS = 1000,           /* longest, before a jitter of a quarter */
    REDLOCK__HURRY_MS = 100                   /* a call may ask for a connect this often */
};

/* What all nodes of one client keep up to date together. */
struct redlock__nodes {
    uint32_t ready;      /* their bits, while they are READY */
    int64_t deadline_ns; /* no later than the next of any: whoever waits for it begins it anew */
};

struct redlock__node_config {
    char address[REDLOCK_ADDRESS_LEN]; /* for people: no user, no password */
    const char *user;                  /* NULL: none. Strings live as long as the node */
    const char *password;              /* NULL: no AUTH */
    const char *client_name;
    uint32_t database; /* 0: no SELECT */
    int64_t connect_timeout_ns;
    int64_t silence_limit_ns;
    uint64_t seed;              /* for the jitter of the back-off */
    bool plain;                 /* the greeting asks nothing about the primary */
    struct redlock__nodes *all; /* NULL: it is of none */
    uint32_t bit;               /* its own there */
};

enum redlock__node_phase {
    REDLOCK__NODE_PHASE_DOWN,
    REDLOCK__NODE_PHASE_CONNECTING,
    REDLOCK__NODE_PHASE_GREETING,
    REDLOCK__NODE_PHASE_READY
};

/* What the driver has to do for this node now. */
enum redlock__node_task {
    REDLOCK__TASK_NONE,
    REDLOCK__TASK_CONNECT, /* open a connection, then _node_connected() or _node_fail() */
    REDLOCK__TASK_CLOSE,   /* close it in order */
    REDLOCK__TASK_ABORT    /* close it with SO_LINGER 0: a SET may be in the send queue */
};

enum redlock__node_result {
    REDLOCK__RESULT_ANSWER,  /* in time: see answer */
    REDLOCK__RESULT_LATE,    /* after RESULT_TIMEOUT of the same request: see answer */
    REDLOCK__RESULT_TIMEOUT, /* deadline missed; ANSWER will not come, LATE or DROPPED will */
    REDLOCK__RESULT_DROPPED  /* the connection is gone, no answer will come; see answer.text */
};

struct redlock__node_event {
    enum redlock__node_result result;
    struct redlock__tag tag;
    struct redlock__answer answer; /* vote OURS, FREE, FOREIGN, ERROR; SILENT; DOWN. To a command
                                      that asks for a fact: see redlock__node_facts() */
    bool written;                  /* DROPPED: at least one byte had been given to the driver */
    bool timed_out;                /* DROPPED: TIMEOUT was reported before */
};

struct redlock__node;

/* The part of a node that its driver asks for at every turn: read through the functions below,
 * without a call. Written by node.c alone. */
struct redlock__node_seen {
    enum redlock__node_phase phase;
    uint32_t changes;                /* of it, so far */
    enum redlock__node_task closing; /* CLOSE or ABORT not yet told, else NONE */
    int64_t retry_ns;                /* when DOWN */
    int64_t deadline_ns;             /* no later than the next */
    const char *from;                /* out_head .. out_tail there waits to be sent */
    char *out;                       /* the node's own, where `from` is unless bytes are lent */
    size_t out_size, out_head, out_tail;
};

static inline const struct redlock__node_seen *redlock__node_see(const struct redlock__node *node)
{
    return (const struct redlock__node_seen *)(const void *)node; /* its first member */
}

/* NULL: out of memory. Starts DOWN and due at once. */
struct redlock__node *redlock__node_new(const struct redlock__node_config *config);
void redlock__node_free(struct redlock__node *node); /* NULL accepted; pending is forgotten */

/* --- for the engine --- */

static inline enum redlock__node_phase redlock__node_phase(const struct redlock__node *node)
{
    return redlock__node_see(node)->phase;
}
static inline uint32_t redlock__node_changes(const struct redlock__node *node) /* of the phase */
{
    return redlock__node_see(node)->changes;
}
const char *redlock__node_address(const struct redlock__node *node);
const char *redlock__node_text(const struct redlock__node *node);     /* why last down; "" */
uint32_t redlock__node_pending(const struct redlock__node *node);     /* owed, greeting excluded */
uint64_t redlock__node_connects(const struct redlock__node *node);    /* links that became READY */
uint64_t redlock__node_disconnects(const struct redlock__node *node); /* of those, lost again */
/* What it said about itself on this connection: complete when READY, renewed by every answer to a
 * command that asks for a fact. */
const struct redlock__facts *redlock__node_facts(const struct redlock__node *node);
bool redlock__node_owes(const struct redlock__node *node); /* any answer owed, greeting too */

/*
 * Appends a request to the output. Only in READY. False if it was not queued: out
 * of memory, or a limit was passed (then the link fails, with that text).
 */
bool redlock__node_request(struct redlock__node *node, const struct redlock__tag *tag,
                           const struct redlock__bytes *bytes, int64_t deadline_ns, int64_t now_ns);
/* The same to every node in the mask: all READY, with one silence limit. Returns those that took
 * it. Nodes without other output borrow the bytes: they have to stay as they are until the node has
 * sent them or was told to keep them. */
uint32_t redlock__node_request_all(struct redlock__node *const nodes[], uint32_t mask,
                                   const struct redlock__tag *tag,
                                   const struct redlock__bytes *bytes, int64_t deadline_ns,
                                   int64_t now_ns);

/* It has output to send that it only borrowed. */
static inline bool redlock__node_borrows(const struct redlock__node *node)
{
    const struct redlock__node_seen *seen = redlock__node_see(node);

    return seen->from != seen->out && seen->out_head != seen->out_tail;
}
/* Copies what it has borrowed, if anything. Never fails: there was room when it was lent. */
void redlock__node_keep(struct redlock__node *node);

/*
 * The next result. DROPPED results of a failed link come first, in queue order,
 * then TIMEOUT of all that were due at the last _handle_deadline(), then answers read. False:
 * none.
 * A protocol error fails the link from here. Replies are parsed here and nowhere else,
 * the greeting's too: call it after each receive, and before a failure is reported
 * behind bytes received, or answers in them come out as DROPPED.
 */
bool redlock__node_pull(struct redlock__node *node, int64_t now_ns,
                        struct redlock__node_event *event);

/*
 * The same of the usual: an answer in time whose bytes say it all (redlock__decode_plain_yes()), if
 * it is the next result. Gives its tag, to be read before anything else is done with the node.
 * NULL: it is something else, or nothing. *more: there may be something to pull after it.
 */
const struct redlock__tag *redlock__node_pull_yes(struct redlock__node *node, bool *more);

/* Somebody wants the node: a DOWN node whose last connect began more than
 * REDLOCK__HURRY_MS ago becomes due now. */
void redlock__node_hurry(struct redlock__node *node, int64_t now_ns);

/* Nobody wants it any more: closes the connection in order, and connects no more. */
void redlock__node_rest(struct redlock__node *node, int64_t now_ns);

/* Earliest of: retry time, connect deadline, request deadline, silence; or earlier: what a request
 * was waited for until, that has been answered since. */
static inline int64_t redlock__node_next_deadline(const struct redlock__node *node)
{
    return redlock__node_see(node)->deadline_ns;
}
void redlock__node_handle_deadline(struct redlock__node *node, int64_t now_ns);

/* --- for the driver --- */

/* Reading it takes it: CLOSE and ABORT are told once, CONNECT once per connect. CLOSE
 * or ABORT comes before the CONNECT that follows it. */
enum redlock__node_task redlock__node_take_task(struct redlock__node *node, int64_t now_ns);
static inline bool redlock__node_has_task(const struct redlock__node *node, int64_t now_ns)
{
    const struct redlock__node_seen *seen = redlock__node_see(node);

    return seen->closing != REDLOCK__TASK_NONE ||
           (seen->phase == REDLOCK__NODE_PHASE_DOWN && now_ns >= seen->retry_ns);
}

/* While CONNECTING: the peer took the connection, and TLS's handshake has begun. */
void redlock__node_securing(struct redlock__node *node);
void redlock__node_connected(struct redlock__node *node, int64_t now_ns);

/* Failure of whatever was going on: name, connect, send, recv, end of file; nothing when
 * DOWN. After READY the first new connect is due at once, then the pauses grow; a link
 * that was READY for less than BACKOFF_CAP_MS does not start them anew. */
void redlock__node_fail(struct redlock__node *node, const char *text, int64_t now_ns);

/* Bytes to send: *len may be 0. Then say how many were taken. They may be borrowed: those that
 * aren't taken now are to be kept (redlock__node_keep()) before the engine is called again. */
static inline const char *redlock__node_output(const struct redlock__node *node, size_t *len)
{
    const struct redlock__node_seen *seen = redlock__node_see(node);

    *len = seen->out_tail - seen->out_head;
    return *len > 0 ? seen->from + seen->out_head : "";
}
void redlock__node_sent(struct redlock__node *node, size_t len);
void redlock__node_sent_all(struct redlock__node *node);

/* Where bytes may be received to: *len of them, NULL: out of memory. Then say how many came. */
char *redlock__node_room(struct redlock__node *node, size_t *len);
void redlock__node_received(struct redlock__node *node, size_t len, int64_t now_ns);

/* The same of bytes that are elsewhere. */
void redlock__node_receive(struct redlock__node *node, const char *data, size_t len,
                           int64_t now_ns);

#endif
