/*
 * One lock's life: WAITING -> ACQUIRING -> HELD <-> RENEWING -> LOST or RELEASING -> ENDED.
 * ADOPTED is a lease from another process before its first extend.
 *
 * Pure: it gets calls, answers and time, and leaves what it wants in `wants` for
 * the engine to pull, events in `events`, and the result of the running operation in
 * `result`. It knows nothing of connections.
 *
 * The counted set. A lease counts the primaries whose grant was read before the
 * verdict. A renewal succeeds with quorum primaries OF THAT SET where the key is
 * still ours. A primary seen as ours in a successful renewal joins the set only if it
 * was known ours before that renewal began; one that answered free or foreign leaves
 * it. Otherwise a holder could go on after another client came and went
 * (docs/safety.md has the two trails). When fewer than quorum are left in the set no
 * renewal can ever succeed: the lease is lost at once, not only at its deadline.
 *
 * The deadline. Each counted primary has an end of its own: start + ttl - drift of the last
 * round in which it was ours, less what its clock was seen to jump. The hold ends with the
 * quorum-th latest of them.
 *
 * Fencing. A fenced lock's attempt asks for grants with numbers; the token is the largest of them
 * (fence.h). If not a quorum has it already, a second round settles it, and only then the lock
 * is held, by the time of the first. The rest is settled in the background.
 *
 * A set of just a quorum survives no failure. So a lease that renews does so for the first time as
 * soon as everybody has answered its SET, if grants came after the verdict.
 */
#ifndef REDLOCK__LEASE_H
#define REDLOCK__LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command.h"
#include "grant.h"
#include "record.h"
#include "redlock.h"
#include "round.h"
#include "timers.h"

enum __attribute__((packed)) redlock__lease_state {
    REDLOCK__LEASE_WAITING,   /* for its turn, its retry time, or connections */
    REDLOCK__LEASE_ACQUIRING, /* a SET round is open */
    REDLOCK__LEASE_HELD,
    REDLOCK__LEASE_ADOPTED,   /* validity unknown, so 0 */
    REDLOCK__LEASE_RENEWING,  /* an extend round is open; held as before, or adopted */
    REDLOCK__LEASE_RELEASING, /* a release round is open */
    REDLOCK__LEASE_LOST,      /* was held, isn't any more */
    REDLOCK__LEASE_ENDED      /* never held, or released */
};

enum __attribute__((packed)) redlock__lease_op {
    REDLOCK__OP_NONE,
    REDLOCK__OP_ACQUIRE,
    REDLOCK__OP_EXTEND,
    REDLOCK__OP_RELEASE
};

/* What the lease wants the engine to do; pulled and cleared there. */
enum {
    REDLOCK__WANT_ABANDON = 1, /* remove the grant's keys everywhere */
    REDLOCK__WANT_EXTEND = 2,  /* begin an extend round (redlock__lease_begin_extend) */
    REDLOCK__WANT_RELEASE = 4, /* begin a release round */
    REDLOCK__WANT_REFILL = 8,  /* set the key again on `refill` */
    REDLOCK__WANT_PTTL = 16,   /* ask `busy_at` how long the foreign keys live */
    REDLOCK__WANT_SETTLE = 32  /* raise the counters of `unsettled` to the fencing token */
};

enum { /* the first is told first */
    REDLOCK__EVENT_BIT_FAILING = 1,
    REDLOCK__EVENT_BIT_RENEWED = 2,
    REDLOCK__EVENT_BIT_LOST = 4,
    REDLOCK__EVENT_BIT_DONE = 8
};

struct redlock__lease_config {
    int64_t ttl_ms;
    int64_t wait_ms; /* 0: one attempt; REDLOCK_WAIT_FOREVER */
    int64_t retry_base_ms, retry_cap_ms;
    int64_t min_validity_ms;
    int64_t max_hold_ms; /* 0: no cap */
    bool renew;
    bool fence; /* with a fencing token */
};

/* What leases are made with beside their ttl: those with the same options have it in common. */
struct redlock__lease_terms {
    int64_t min_validity_ms, max_hold_ms;
    int64_t retry_base_ms, retry_cap_ms;
    const uint32_t *node_ppm; /* of each primary: what its clock is allowed to drift */
    uint32_t users;           /* leases, and the engine for the newest */
};

/* There may be very many: so fields of which only some are needed at a time share memory, counts
 * take a byte, what only fenced locks have comes last, and what hardly any lease has is elsewhere.
 */
struct redlock__lease {
    struct redlock__timer timer;       /* the engine's: set whenever it has served the lease */
    struct redlock__timer pace;        /* the engine's: its renewal waits for others */
    struct redlock__lease *next_event; /* in the engine's event list */
    struct redlock__lease *next_work;  /* in the engine's work list */
    struct redlock__name *name;
    struct redlock__grant *grant; /* NULL between attempts and after the end */
    struct redlock__lease_terms *terms;
    struct redlock__lease_rare *rare; /* n; NULL: nothing of the kind */
    void *user;                       /* the facade's handle */
    struct redlock__round round;

    int64_t ttl_ms;
    int64_t gate_ns;     /* a round that waits for connections begins no later than this */
    int64_t deadline_ns; /* 0: not held */
    int64_t cap_ns;      /* of the hold; NEVER */
    union {
        struct {                                 /* until it is held for the first time */
            struct redlock__lease *next_waiting; /* in its name's queue */
            int64_t wait_until_ns; /* the wait is over: NEVER for one attempt and for ever */
            int64_t retry_ns;      /* no attempt before this */
            uint32_t busy_at;
            uint8_t tries; /* attempts that failed, as far as delays grow with them */
        };
        struct {                   /* from then on, and if it is adopted */
            int64_t renew_ns;      /* next renewal; NEVER */
            int64_t wanted_ttl_ms; /* of the extend that was asked for: kept if it succeeds */
            int64_t extend_ttl_ms; /* of the running extend round */
            uint32_t may_join;     /* they count, and had the key before the current round began */
            uint32_t refill;
        };
    };
    uint32_t counted;
    uint32_t round_no; /* from 1; answers of other rounds don't vote */
    uint32_t turn;     /* waits for a connection of its own, since (replicas.c); 0: no */

    int8_t result;      /* of op, or of the last one */
    int8_t last_reason; /* of the last attempt; PENDING: none yet */
    uint8_t n, quorum;
    uint8_t wants, events;
    enum redlock__command round_command : 8;
    enum redlock__lease_state state;
    enum redlock__lease_state counted_state; /* what the engine's counters have seen */
    enum redlock__lease_op op;
    bool in_events : 1, in_work : 1;
    bool queued : 1;       /* in its name's queue */
    bool once : 1;         /* one attempt, no wait */
    bool slowed : 1;       /* since its last round it polls less (wake.c) */
    bool renews : 1;       /* by itself */
    bool fenced : 1;       /* with a fencing token */
    bool automatic : 1;    /* the running extend round is the lease's own */
    bool failing : 1;      /* the last renewal failed: said once */
    bool adopted : 1;      /* from another process: sets nothing again */
    bool seen_foreign : 1; /* an extend met another owner's key */
    bool outlived : 1;     /* LOST, since its time was over */

    /* n: until when each primary keeps the key, on our clock, if it is counted. Behind them, n of
     * what each said, and then a fenced lock's numbers. */
    int64_t ends_ns[];
};

/* Of a fenced lock. */
struct redlock__lease_fencing {
    int64_t token;      /* 0: none, or not settled yet */
    uint32_t unsettled; /* primaries whose counter may be below the token */
    uint32_t behind;    /* of this round's grants: their counters haven't the numbers */
    int64_t numbers[];  /* n: of this round's grants; 0: none read */
};

/* Bytes of a lease. */
size_t redlock__lease_size(uint32_t n, bool fence);
/* Of n primaries, from memory that is all zero; terms are those of the config. */
void redlock__lease_init(struct redlock__lease *lease, uint32_t n,
                         const struct redlock__lease_config *config,
                         struct redlock__lease_terms *terms);
/* What it has beside its own memory, which it is as if new after. */
void redlock__lease_clear(struct redlock__lease *lease);

/* n: what each primary said in the newest round. */
static inline struct redlock__lease_said *redlock__lease_said(const struct redlock__lease *lease)
{
    return (struct redlock__lease_said *)(uintptr_t)&lease->ends_ns[lease->n];
}

/* Of a fenced lock only. */
struct redlock__lease_fencing *redlock__lease_fencing(const struct redlock__lease *lease);

/* LOST: EXPIRED or LOST. */
static inline int redlock__lease_lost_reason(const struct redlock__lease *lease)
{
    return lease->outlived ? REDLOCK_EXPIRED : REDLOCK_LOST;
}

/* The longest time it may have asked primaries for. */
int64_t redlock__lease_longest_ttl_ms(const struct redlock__lease *lease);

/* Begins to wait for the first attempt: for wait_ms, as in the config. */
void redlock__lease_start_acquire(struct redlock__lease *lease, int64_t wait_ms, int64_t now_ns);
/* From another process: counted set and grant are given. */
void redlock__lease_start_adopted(struct redlock__lease *lease, uint32_t counted);
void redlock__lease_start_extend(struct redlock__lease *lease, int64_t ttl_ms);
void redlock__lease_start_release(struct redlock__lease *lease);
/* Ends the running operation with `reason`: CANCELLED, or an error. */
void redlock__lease_stop(struct redlock__lease *lease, int reason);
/* Stops renewing, for detach. */
void redlock__lease_stop_renewing(struct redlock__lease *lease);

/*
 * The engine is about to send to some primaries, and reports every one it can't send to
 * with redlock__lease_answer(): DOWN. now_ns was read before anything is queued.
 */
void redlock__lease_begin_attempt(struct redlock__lease *lease, struct redlock__grant *grant,
                                  int64_t now_ns);
/* The second round of a fenced attempt. */
void redlock__lease_begin_settle(struct redlock__lease *lease);
/* drift_ppm: what every clock is allowed to drift; counting: the primaries whose votes count. */
void redlock__lease_begin_extend(struct redlock__lease *lease, uint32_t drift_ppm,
                                 uint32_t counting, int64_t now_ns);
void redlock__lease_begin_release(struct redlock__lease *lease, int64_t now_ns);

/* News of a request, the same of some primaries: an answer, a missed deadline (SILENT), a lost
 * connection (DOWN). */
struct redlock__lease_news {
    uint32_t nodes;                /* whose; just one to GRANT and SETTLE */
    enum redlock__command command; /* SET, GRANT, SETTLE, EXTEND or RELEASE */
    uint32_t round_no;
    redlock_vote vote;
    int64_t number; /* of a GRANT that is OURS */
    bool behind;    /* its counter hasn't that number */
    const char *text;
    uint64_t *random; /* random.h: taken from if this ends an attempt */
};
void redlock__lease_answer(struct redlock__lease *lease, const struct redlock__lease_news *news,
                           int64_t now_ns);

/* A primary's clock jumped forward by step_ns (or ran that much faster than was allowed for)
 * since the present round, or the one before, began. */
void redlock__lease_stepped(struct redlock__lease *lease, uint32_t node, int64_t step_ns,
                            int64_t now_ns);
/* A primary forgot what it said. May seal the round that is open. */
void redlock__lease_forgotten(struct redlock__lease *lease, uint32_t node, uint64_t *random,
                              int64_t now_ns);
/* How many counted primaries could go before the quorum is gone; -1: not held. */
int redlock__lease_margin(const struct redlock__lease *lease, int64_t now_ns);

bool redlock__lease_held(const struct redlock__lease *lease, int64_t now_ns);
/* WAITING and its retry time has come. */
bool redlock__lease_due(const struct redlock__lease *lease, int64_t now_ns);

int64_t redlock__lease_next_deadline(const struct redlock__lease *lease);
/* A renewal of another lease begins: this one's does as well if it is due soon. */
bool redlock__lease_join_renewal(struct redlock__lease *lease, int64_t now_ns);
/* Loss first, then the wait's end, then renewal. */
void redlock__lease_handle_deadline(struct redlock__lease *lease, uint64_t *random, int64_t now_ns);

#endif
