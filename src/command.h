/*
 * What is said to a primary, and what its answers mean.
 *
 * Requests are encoded here, without memory from the heap for keys of a usual length; replies are
 * decoded in node.c, by hiredis' reader unless they are of the shortest kinds. The table from reply
 * to vote is here and nowhere else. Pure.
 */
#ifndef REDLOCK__COMMAND_H
#define REDLOCK__COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

struct redisReply;

/* One pattern, since servers before 7 take no more: of append... and maxmemory... settings. */
#define REDLOCK__SETTINGS_PATTERN "*a[px][pm]e*"

enum redlock__command {
    REDLOCK__CMD_AUTH,    /* greeting */
    REDLOCK__CMD_SELECT,  /* greeting */
    REDLOCK__CMD_SETNAME, /* greeting */
    REDLOCK__CMD_SET,     /* SET key token NX PX ttl */
    REDLOCK__CMD_EXTEND,  /* compare and PEXPIRE; never creates, never shortens */
    REDLOCK__CMD_RELEASE, /* compare and DEL */
    REDLOCK__CMD_PTTL,    /* how long a key still lives */
    REDLOCK__CMD_HINT,    /* the same PTTL, asked by a waiter (see lease.h) */
    REDLOCK__CMD_GET,     /* who owns it */
    /* the same without a script, where the server can (native.c) */
    REDLOCK__CMD_EXTEND_NATIVE,  /* SET key token IFEQ token GET PX ttl: the time as it is told */
    REDLOCK__CMD_RELEASE_NATIVE, /* DELIFEQ key token, or DELEX key IFEQ token */
    REDLOCK__CMD_OWNER,          /* GET, after one of those that removed nothing */
    REDLOCK__CMD_GRANT,          /* SET for a fenced lock: with a number (fence.h) */
    REDLOCK__CMD_SETTLE,         /* raises the counter to the token while the key is ours */
    REDLOCK__CMD_WAITING,        /* SET: somebody waits (wake.h) */
    REDLOCK__CMD_BLOCK,          /* BLPOP: until somebody is woken */
    REDLOCK__CMD_PUSH,           /* DEL, LPUSH: wakes one */
    REDLOCK__CMD_REPLICAS,       /* WAIT: how many have it (replicas.h) */
    REDLOCK__CMD_PUSHED,         /* PEXPIRE behind it: value 0 where one was woken */
    REDLOCK__CMD_PROBE,          /* PTTL: whether it is still there (probe.c) */
    /* from here on facts (facts.h), in the greeting and in samples */
    REDLOCK__CMD_INFO_SERVER,
    REDLOCK__CMD_INFO_REPLICATION,
    REDLOCK__CMD_SETTINGS, /* CONFIG GET of what is below */
    REDLOCK__CMD_MARKER,   /* GET of the marker */
    REDLOCK__CMD_TIME,
    REDLOCK__CMD_SEEN,    /* since when this run is known; writes that down the first time */
    REDLOCK__CMD_MARK,    /* compare and set the marker; gives what is there then */
    REDLOCK__CMD_FLOOR,   /* ZRANGE of the base and its score */
    REDLOCK__CMD_RECOVER, /* compare and set the base; gives what is there then */
    REDLOCK__CMD_MULTI    /* MULTI, EXEC of nothing: whether it takes transactions */
};

enum {
    REDLOCK__TOKEN_HEX = 32 /* digits of a token as the primaries have it: 128 bits */
};

/* Encoded bytes; free with redlock__bytes_free(). */
struct redlock__bytes {
    size_t len; /* 0: out of memory */
    char *heap; /* NULL: they are in `room` */
    char room[1536];
};

static inline const char *redlock__bytes_data(const struct redlock__bytes *bytes)
{
    return bytes->heap != NULL ? bytes->heap : bytes->room;
}

/* Each gives back the bytes it was given to fill. Where a token is no terminated text it has
 * REDLOCK__TOKEN_HEX digits. */
struct redlock__bytes *redlock__encode_auth(struct redlock__bytes *bytes, const char *user,
                                            const char *password);
struct redlock__bytes *redlock__encode_select(struct redlock__bytes *bytes, uint32_t database);
struct redlock__bytes *redlock__encode_setname(struct redlock__bytes *bytes, const char *name);
struct redlock__bytes *redlock__encode_set(struct redlock__bytes *bytes, const void *key,
                                           size_t key_len, const char *token, int64_t ttl_ms);
struct redlock__bytes *redlock__encode_extend(struct redlock__bytes *bytes, const void *key,
                                              size_t key_len, const char *token, int64_t ttl_ms);
/* The same, and a write also where the key already lives longer, for WAIT to wait for. */
struct redlock__bytes *redlock__encode_extend_writing(struct redlock__bytes *bytes, const void *key,
                                                      size_t key_len, const char *token,
                                                      int64_t ttl_ms);
struct redlock__bytes *redlock__encode_wait(struct redlock__bytes *bytes, uint32_t replicas,
                                            int64_t timeout_ms);
struct redlock__bytes *redlock__encode_release(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, const char *token);
struct redlock__bytes *redlock__encode_extend_native(struct redlock__bytes *bytes, const void *key,
                                                     size_t key_len, const char *token,
                                                     int64_t ttl_ms);
struct redlock__bytes *redlock__encode_delifeq(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, const char *token);
struct redlock__bytes *redlock__encode_delex(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, const char *token);
/* The same; where somebody waits it answers 2 for 1, 3 for 0 and -2 for -1. */
struct redlock__bytes *redlock__encode_release_asking(struct redlock__bytes *bytes, const void *key,
                                                      size_t key_len, const char *token);
/* SET of the key that says that somebody waits, then BLPOP; they count as two requests. */
struct redlock__bytes *redlock__encode_waiting(struct redlock__bytes *bytes, const void *key,
                                               size_t key_len, int64_t life_ms);
struct redlock__bytes *redlock__encode_block(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, int64_t seconds);
/* Pushes one element where there is none: DEL, LPUSH, PEXPIRE. */
struct redlock__bytes *redlock__encode_push(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len, uint32_t part, int64_t life_ms);
struct redlock__bytes *redlock__encode_pttl(struct redlock__bytes *bytes, const void *key,
                                            size_t key_len);
struct redlock__bytes *redlock__encode_get(struct redlock__bytes *bytes, const void *key,
                                           size_t key_len);
/* A fenced lock. base: the text the primary's base must have, or it forgot; nothing is made of one
 * that ends with no number. heard: the largest number known of this name, so that those behind
 * catch up. */
struct redlock__bytes *redlock__encode_grant(struct redlock__bytes *bytes, const void *key,
                                             size_t key_len, const char *token, int64_t ttl_ms,
                                             int64_t heard, const char *base);
/* What it asks for: more than either. 0: the base is none that we would write. */
int64_t redlock__grant_number(int64_t heard, const char *base);
/* The same without a script, MULTI to EXEC: it counts up by one what is there, and makes nothing.
 * So whether the counter reached that number is for the client to see. */
struct redlock__bytes *redlock__encode_transaction(struct redlock__bytes *bytes, const void *key,
                                                   size_t key_len, const char *token,
                                                   int64_t ttl_ms, const char *base);
struct redlock__bytes *redlock__encode_settle(struct redlock__bytes *bytes, const void *key,
                                              size_t key_len, const char *token, int64_t fence,
                                              const char *base);
/* INFO_SERVER, INFO_REPLICATION, SETTINGS, MARKER, TIME, FLOOR, MULTI. */
struct redlock__bytes *redlock__encode_fact(struct redlock__bytes *bytes,
                                            enum redlock__command command);
struct redlock__bytes *redlock__encode_discard(struct redlock__bytes *bytes);
/* life_ms: how long the key outlives the question. */
struct redlock__bytes *redlock__encode_seen(struct redlock__bytes *bytes, const char *run_id,
                                            int64_t life_ms);
/* Writes `marker` if the marker is `old` ("": none) and, unless that is "", the key that says since
 * when the run is known has the value `seen`. */
struct redlock__bytes *redlock__encode_mark(struct redlock__bytes *bytes, const char *run_id,
                                            const char *old, const char *seen, const char *marker);
/* Writes the base `base`, with that number, if it is `old` and the marker is `marker` ("": none);
 * the floor is no less than that then. Where the marker is another one, says that there is no base.
 */
struct redlock__bytes *redlock__encode_recover(struct redlock__bytes *bytes, const char *old,
                                               const char *base, int64_t number,
                                               const char *marker);
void redlock__bytes_free(struct redlock__bytes *bytes);

enum {
    REDLOCK__GRANT_FORGOT = -2, /* GRANT's number where there is no such base */
    /* Replies before the last one: to MULTI and what it queued, of a GRANT, of nothing. */
    REDLOCK__BEFORE_GRANT = 4,
    REDLOCK__BEFORE_NOTHING = 1
};

/* Of the scripts of a lock, what goes out before the key. */
struct redlock__constant {
    const char *text;
    size_t len;
};
extern const struct redlock__constant redlock__extend_start;
extern const struct redlock__constant redlock__release_start;
extern const struct redlock__constant redlock__release_asking_start;

/* The Lua texts, for the simulator, which recognizes them. */
extern const char redlock__extend_script[];
extern const char redlock__release_script[];
extern const char redlock__release_asking_script[];
extern const char redlock__seen_script[];
extern const char redlock__mark_script[];
extern const char redlock__grant_script[];
extern const char redlock__settle_script[];
extern const char redlock__recover_script[];

enum redlock__waits {
    REDLOCK__WAITS_UNKNOWN, /* whoever was asked can't tell */
    REDLOCK__WAITS_NOBODY,
    REDLOCK__WAITS_SOMEBODY
};

/*
 * An answer as the core sees it. `value` is PTTL's number (-1 no ttl, -2 no
 * key), or that of GRANT, PUSHED and REPLICAS; `waits` is RELEASE's, if that was asked; `text` is
 * an error's text, or GET's value, made printable and cut.
 */
struct redlock__answer {
    redlock_vote vote; /* OURS, FREE, FOREIGN, ERROR */
    int64_t value;
    enum redlock__waits waits;
    bool behind; /* of GRANT: its counter hasn't that number, and has to be settled */
    char text[REDLOCK_TEXT_LEN];
};

/*
 * SET:     +OK ours; nil foreign.
 * EXTEND, RELEASE: 1 ours; 0 free; -1 foreign. RELEASE: 2, 3 and -2 are the same, and somebody
 *          waits.
 * GRANT:   n > 0 ours, value set; -1 foreign; -2 error, value set: it forgot its numbers. By
 *          transaction: redlock__decode_transaction().
 * SETTLE:  1 ours; 0 free: the key isn't ours; -1 free as well: its counter is above the token.
 * PTTL, HINT, PROBE: -2 free; else foreign, value set.
 * GET:     nil free; else foreign, text set.
 * EXTEND_NATIVE: nil free; a value foreign, text set: the key's owner before, which may be us.
 * RELEASE_NATIVE: 1 ours; 0 free, which may also be foreign.
 * OWNER:   as GET.
 * WAITING: +OK ours. BLOCK: an element ours; nil free. PUSH, PUSHED, REPLICAS: a
 *          number ours.
 * greeting: +OK ours (SETNAME and all that ask for facts: any reply is ours but an error that says
 *          no other command will be served: NOAUTH, LOADING, DENIED, max number of clients).
 * Everything else, every error reply and every reply of a wrong type: ERROR with
 * its text. Never asserts on what a peer sent.
 */
void redlock__decode(enum redlock__command command, const struct redisReply *reply,
                     struct redlock__answer *answer);

/*
 * GRANT by transaction: EXEC's reply, to SET, and to counting up counter and floor. A nil floor is
 * an error, value set: it forgot. Else +OK ours, value set, and behind where counter or floor are
 * not what they should be; nil foreign. Any error in it is one. number: what was asked for.
 * refusal: of a reply before this one, "" if all was queued.
 */
void redlock__decode_transaction(const struct redisReply *reply, const char *refusal,
                                 int64_t number, struct redlock__answer *answer);
/* The same where SET said +OK, from the numbers; counter 0: there is none. */
void redlock__decode_counts(int64_t counter, int64_t floor, int64_t number,
                            struct redlock__answer *answer);
/* A reply before the last one: +OK to MULTI, which is the first, else +QUEUED. False: it isn't, and
 * the text says what it is. */
bool redlock__decode_queued(const struct redisReply *reply, bool first,
                            char text[REDLOCK_TEXT_LEN]);

/* The usual answers, whose bytes say it all: +OK to a SET, 1 to a RELEASE or an EXTEND. */
void redlock__decode_plain_yes(enum redlock__command command, struct redlock__answer *answer);

/* An error's text that says: this command is not for you, or not known here. Not one about the key
 * it was for. */
bool redlock__is_refusal(const char *text);

/* Copies at most size - 1 bytes, replacing those that are not printable ASCII by
 * '?'. Always terminates. */
void redlock__printable(char *to, size_t size, const char *from, size_t len);

/* Cuts a printable text, in a buffer of size bytes, before the first occurrence of the
 * secret, or, if the text fills its buffer, before a beginning of the secret at its end. */
void redlock__conceal(char *text, size_t size, const char *secret);

#endif
