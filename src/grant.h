/*
 * What may exist on the primaries under one token, and how it goes away again.
 *
 * A lease lives with the caller; a grant lives with the servers, and often longer:
 * each attempt has a token, and so a grant, of its own, and every primary to which
 * a SET was ever written has to be told to remove it, also those that never
 * answered. Until that is done, or until the key's time is over, the grant stays.
 *
 * Per primary (masks): `written` a SET went out; `unanswered` no answer to it, and the
 * key not seen since: it may still arrive late, so it is never set again there;
 * `known` the key was seen to be ours. After abandon(): `owed` a removal has not
 * been confirmed; `in_flight` one is on its way; `moved` the connection
 * the SET went out on is gone, so a removal might overtake it (a proxy in between):
 * it is sent once more, a node timeout after it was answered.
 *
 * A native extend sets the time whatever it is (native.c), so one left behind by a dead connection
 * may cut what a later one promised. `late`: one for ttl_ms may still arrive; `cut`: one for less,
 * cut_ms at the least. `asked` one is unanswered, on a connection that lives: it can't be
 * overtaken. Of an abandoned grant nobody asks that any more, and its memory has what is to be
 * removed.
 */
#ifndef REDLOCK__GRANT_H
#define REDLOCK__GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "redlock.h"
#include "timers.h"

struct redlock__lease;
struct redlock__name;

struct redlock__grant {
    struct redlock__timer timer; /* the engine's: while something is left to remove */
    uint32_t requests;           /* on their way, carrying this grant */
    struct redlock__name *name;
    struct redlock__lease *lease; /* whose answers these are; NULL once nobody asks */
    uint32_t written, unanswered, known;
    uint32_t moved, asked;
    uint32_t asked_round; /* of the newest native extend */
    union {
        struct { /* until it is abandoned */
            uint32_t late, cut;
            int64_t asked_ms; /* the least of those in `asked` */
            int64_t cut_ms;
            int64_t last_write_ns;
        };
        struct { /* afterwards */
            uint32_t owed, in_flight, again, repeated;
            int64_t again_ns; /* when `again` is to be sent */
            int64_t gone_ns;  /* no key of this token can exist from then on */
        };
    };
    int64_t ttl_ms; /* the longest asked for */
    uint8_t token[REDLOCK__TOKEN_HEX / 2];
    uint8_t yes_at;    /* of those the engine is about to take in, + 1; 0: it isn't among them */
    uint8_t asked_at;  /* primary + 1 that is to tell whether somebody waits; 0: none */
    uint8_t waits_at;  /* primary + 1 that said somebody waits, who hasn't been woken; 0: none */
    bool extended : 1; /* or it was tried */
    bool shared : 1;   /* other processes may have the token, and extend */
    bool abandoned : 1;
    bool held : 1; /* the lock was held by it: others may be woken once it is gone */
};

/* Its token as the primaries have it. */
struct redlock__token_text {
    char hex[REDLOCK__TOKEN_HEX + 1];
};
struct redlock__token_text redlock__grant_token(const struct redlock__grant *grant);
/* The token of another process. */
void redlock__grant_take_token(struct redlock__grant *grant, const char *hex);

/* A SET (or a removal's target) was handed to the connection of `nodes`. */
void redlock__grant_set(struct redlock__grant *grant, uint32_t nodes, int64_t ttl_ms,
                        int64_t now_ns);
void redlock__grant_extended(struct redlock__grant *grant, int64_t ttl_ms, int64_t now_ns);

/* Answers of some primaries to SET and EXTEND. */
void redlock__grant_set_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote);
void redlock__grant_extend_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote);

/* A native extend for ttl_ms went out; was answered; was left behind by its connection. */
void redlock__grant_asked(struct redlock__grant *grant, uint32_t nodes, uint32_t round_no,
                          int64_t ttl_ms, int64_t now_ns);
void redlock__grant_told(struct redlock__grant *grant, uint32_t node, uint32_t round_no);
void redlock__grant_left(struct redlock__grant *grant, uint32_t node, int64_t ttl_ms);

/* Where an extend to ttl_ms could be cut: it must not be sent there. */
uint32_t redlock__grant_cut(const struct redlock__grant *grant, int64_t ttl_ms);
/* The token is given to others: what they have to know is the primaries where an extend to more
 * than *cut_ms could be cut. */
uint32_t redlock__grant_share(struct redlock__grant *grant, int64_t *cut_ms);
/* That, on the other side. */
void redlock__grant_warn(struct redlock__grant *grant, uint32_t nodes, int64_t cut_ms);
/* To SETTLE: ours, or not known (its counter may just have been higher). */
void redlock__grant_settle_answer(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote);
/* A SET that a removal may have overtaken has arrived: one more is owed. */
void redlock__grant_landed(struct redlock__grant *grant, uint32_t node);

/* The primary lost its keys, or is another one now. */
void redlock__grant_forgotten(struct redlock__grant *grant, uint32_t node);

/* The connection with a request of this grant on it is gone. written: it may have
 * reached the primary. */
void redlock__grant_dropped(struct redlock__grant *grant, uint32_t node, bool set, bool written);

/* From here on all that is left is to remove. orphan_ms bounds how long a SET
 * without an answer can stay on its way (TCP_USER_TIMEOUT of the connections). */
void redlock__grant_abandon(struct redlock__grant *grant, int64_t orphan_ms);

/* Primaries that need a removal sent now; the caller sends, then tells. */
uint32_t redlock__grant_to_remove(const struct redlock__grant *grant, int64_t now_ns);
void redlock__grant_removing(struct redlock__grant *grant, uint32_t nodes);
/* Those it returns are to be sent another, not before again_ns, which is the caller's to set. */
uint32_t redlock__grant_removed(struct redlock__grant *grant, uint32_t nodes, redlock_vote vote);

/* `again` and `gone`. */
int64_t redlock__grant_next_deadline(const struct redlock__grant *grant);
void redlock__grant_handle_deadline(struct redlock__grant *grant, int64_t now_ns);

/* Nothing refers to it and nothing is owed: it can be freed. */
bool redlock__grant_done(const struct redlock__grant *grant);

#endif
