/*
 * One primary with replicas: a lock is one, and an extend counts, only when enough replicas have
 * acknowledged it.
 *
 * WAIT blocks its connection, and with it everybody behind. So a SET or an extend and the WAIT
 * behind it go over a side link, REDLOCK__TURNS of them at a time; who finds them all in use waits
 * its turn. Everything else, removals too, goes over the primary's own connection. A removal that
 * may overtake a SET is what it is for a SET whose connection died: sent once more.
 *
 * WAIT speaks of the last write of its own connection; so both go over the same one, and an extend
 * writes even where it changes nothing.
 */
#ifndef REDLOCK__REPLICAS_H
#define REDLOCK__REPLICAS_H

#include <stdbool.h>
#include <stdint.h>

#include "command.h"
#include "side.h"

enum {
    REDLOCK__TURNS = 8 /* operations of one client that wait for replicas at the same time */
};

struct redlock__grant;
struct redlock__lease;

struct redlock__turn {
    struct redlock__side *side; /* NULL: none */
    bool busy;
    enum redlock__command command; /* of the round: SET or EXTEND */
    uint32_t round_no;
    int64_t idle_until_ns;
};

struct redlock__replicas {
    uint32_t wanted; /* 0: none of this applies */
    int64_t timeout_ms;
    uint32_t arrivals;
    struct redlock__turn turns[REDLOCK__TURNS];
};

/* Whether a round may begin: there is a free connection for it, or no use in waiting for one. */
bool redlock__replicas_gate(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns);
/* Sends SET or EXTEND to the one primary. The mask of those that took it. */
uint32_t redlock__replicas_send(struct redlock__engine *engine, struct redlock__grant *grant,
                                enum redlock__command command, uint32_t round_no, int64_t ttl_ms,
                                int64_t now_ns);

/* Some answer is owed. */
bool redlock__replicas_owed(const struct redlock__engine *engine);
bool redlock__replicas_pump(struct redlock__engine *engine, int64_t now_ns);
void redlock__replicas_handle_deadline(struct redlock__engine *engine, int64_t now_ns);

#endif
