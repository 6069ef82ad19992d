/*
 * The engine's own state, shared by its parts: calls.c (what the facade asks), engine.c (news and
 * timers), serve.c (what leases and grants want sent), and those below. Nobody else includes this.
 */
#ifndef REDLOCK__ENGINE_STATE_H
#define REDLOCK__ENGINE_STATE_H

#include "engine.h"
#include "init.h"
#include "member.h"
#include "pool.h"
#include "queue.h"
#include "replicas.h"
#include "side.h"
#include "timers.h"
#include "wake.h"

enum {
    REDLOCK__CALM_NAMES = 64 /* a power of two */
};

/* A name that nobody else wants, it seems. */
struct redlock__calm {
    uint64_t hash; /* its own; 0: none */
    int64_t until_ns;
};

struct redlock__log_line {
    int level;
    char text[REDLOCK__LOG_LEN];
};

/* Primaries that said yes to one request of a grant. */
struct redlock__yes {
    struct redlock__tag tag;
    uint32_t nodes;
};

enum {
    REDLOCK__YES_AT_ONCE = 64 /* requests */
};

struct redlock__engine {
    struct redlock__engine_seen seen; /* comes first: see engine.h */
    uint32_t n, drift_ppm;
    uint32_t every; /* mask: all primaries */
    int64_t node_timeout_ms, connect_timeout_ns;
    void (*entropy)(void *context, void *buf, size_t len);
    void *entropy_context;
    uint64_t random; /* state of random.h's generator */

    int64_t created_ns;
    int64_t grace_ns;    /* late connections are waited for until then; NEVER: no quorum yet */
    int64_t earliest_ns; /* a lower bound of the next deadline of all but leases and grants */
    int64_t look_ns;     /* of the lease being served: what it waits for may be there then */
    struct redlock__timers lease_timers; /* of all leases */
    struct redlock__timers grant_timers; /* of the grants of which something is left to remove */
    struct redlock__timers paced; /* renewals that wait, by the ends of their holds (pace.c) */
    uint32_t renewing;            /* extends under way */
    struct redlock__names names;
    struct redlock__pool spare_grants, spare_leases, spare_fenced; /* the latter: leases */
    struct redlock__inspection *inspections;
    struct redlock__lease_terms *terms; /* of the newest lease; NULL: there was none */
    struct redlock__pool spare_terms;
    uint32_t lease_count, grant_count, max_locks;
    struct redlock__lease *events_head, *events_tail;
    struct redlock__lease *work_head, *work_tail;
    redlock_stats stats;
    struct redlock__log_line log[REDLOCK__LOG_LINES];
    uint32_t log_first, log_count;
    enum redlock__node_phase phases[REDLOCK_MAX_NODES]; /* as last seen */
    uint32_t changes[REDLOCK_MAX_NODES];                /* of phases, as last seen */
    /* From 1 on yes_count of them: read, not taken in yet. The first is no answer to anything. */
    struct redlock__yes yes[1 + REDLOCK__YES_AT_ONCE];
    uint32_t yes_count;
    uint32_t news;    /* primaries whose nodes may have something to tell */
    uint32_t owed;    /* requests to them whose last result wasn't pulled yet */
    uint32_t stirred; /* see redlock__engine_stirred() */
    /* The newest two requests that went to several primaries, and who may have borrowed them: as
     * many as a release takes. */
    struct redlock__bytes bytes[2];
    uint32_t lent[2];
    uint32_t newest;
    struct redlock__node **nodes; /* those of the primaries, in `seen` */

    struct redlock__node_config *configs; /* n: of the nodes, for side links */
    struct redlock__side sides[REDLOCK__SIDE_LINKS];
    uint64_t sides_taken;
    struct redlock__waker wake;
    struct redlock__replicas replicas;

    /* watch.c */
    struct redlock__fleet fleet;         /* quorum and max_ttl_ms are here */
    struct redlock__member *members;     /* n */
    struct redlock__standing *standings; /* n: as last computed */
    uint32_t counting;                   /* whose votes count, if they are READY */
    uint32_t node_ppm[REDLOCK_MAX_NODES];
    int64_t mark_ns[REDLOCK_MAX_NODES]; /* not marked again before */
    int64_t base_ns[REDLOCK_MAX_NODES]; /* nor its base written */
    uint32_t probes[REDLOCK_MAX_NODES]; /* requests of ours on their way */
    uint32_t bases_owed;                /* mask: writing the base */
    uint32_t times_owed, marks_owed;    /* masks: TIME, and writing the marker */
    uint32_t doubted;                   /* mask: asked anew what it remembers */
    bool oblivion;                      /* some member that counts forgot its fencing numbers */
    bool misfit;                        /* some primary doesn't belong in the list */
    bool longer_told;                   /* somebody's lease outlives the guard: said once */
    bool began;                    /* a lock was held: from then on a misfit only loses its vote */
    int64_t sampled_ns, sample_ns; /* last, and next by timer: NEVER */
    int64_t standing_ns;           /* some standing changes then by itself */
    struct redlock__init *init;    /* NULL: none runs */

    uint32_t native; /* mask: primaries with commands that make scripts needless (native.c) */

    /* fenced.c */
    struct redlock__calm calm[REDLOCK__CALM_NAMES];
    uint32_t multi_asked; /* mask: whether it takes transactions, on this connection */
};

/* Something of which there are few is due then: whoever handles it says so again until it is. */
static inline void redlock__engine_touch(struct redlock__engine *engine, int64_t deadline_ns)
{
    if (deadline_ns < engine->earliest_ns)
        engine->earliest_ns = deadline_ns;
}

/* Primaries whose nodes are READY. */
static inline uint32_t redlock__engine_ready(const struct redlock__engine *engine)
{
    return engine->seen.all.ready;
}

/* Of those, the ones whose votes count for new locks. */
static inline uint32_t redlock__engine_counting(const struct redlock__engine *engine)
{
    return engine->seen.all.ready & engine->counting;
}

/* The lease being served is looked at again then. */
static inline void redlock__engine_look(struct redlock__engine *engine, int64_t then_ns)
{
    if (then_ns < engine->look_ns)
        engine->look_ns = then_ns;
}

/* All of them, for i from 0 on; NULL: there are no more. */
static inline struct redlock__lease *redlock__engine_lease(const struct redlock__engine *engine,
                                                           uint32_t i)
{
    return (struct redlock__lease *)redlock__timers_at(&engine->lease_timers, i);
}

/* Of the grants of which something is left to remove. */
static inline struct redlock__grant *redlock__engine_remains(const struct redlock__engine *engine,
                                                             uint32_t i)
{
    return (struct redlock__grant *)redlock__timers_at(&engine->grant_timers, i);
}

/* ---- engine_state.c ---- */

/* Every node is ready and has told since when it runs, or is down and not about to connect. */
bool redlock__engine_settled(const struct redlock__engine *engine, int64_t now_ns);

/* redlock__node_request() to a primary. */
bool redlock__engine_request(struct redlock__engine *engine, uint32_t i,
                             const struct redlock__tag *tag, const struct redlock__bytes *bytes,
                             int64_t deadline_ns, int64_t now_ns);

/* Where a request is to be encoded that redlock__engine_send() sends next. */
struct redlock__bytes *redlock__engine_bytes(struct redlock__engine *engine);

/* That, a request of the grant, to every primary in `nodes`; returns those that took it. */
uint32_t redlock__engine_send(struct redlock__engine *engine, struct redlock__grant *grant,
                              const struct redlock__tag *tag, uint32_t nodes, int64_t deadline_ns,
                              int64_t now_ns);

/* redlock__node_hurry() for all. */
void redlock__engine_hurry(struct redlock__engine *engine, int64_t now_ns);

/* Why nothing can be sent to a node that is not ready. */
const char *redlock__engine_absence(const struct redlock__node *node);

/* Whether a round of the lease being served, which waits for connections, may begin, at gate_ns at
 * the latest: a quorum of those that count is ready and the slower ones had their time, or no
 * connection is being set up any more. If not, the engine looks again when a connection changes its
 * phase, or in time. */
bool redlock__engine_gate_open(struct redlock__engine *engine, uint32_t counted, int64_t gate_ns,
                               int64_t now_ns);

int64_t redlock__engine_node_deadline(const struct redlock__engine *engine, int64_t ttl_ms,
                                      int64_t now_ns);

/* After anything about a grant has changed: its timer. */
void redlock__engine_arm_grant(struct redlock__engine *engine, struct redlock__grant *grant,
                               int64_t now_ns);

/* Puts a lease on the work list, once. NULL is accepted. */
void redlock__engine_work_on(struct redlock__engine *engine, struct redlock__lease *lease);

/* Keeps a line for the application's log. */
void redlock__engine_say(struct redlock__engine *engine, int level, const char *address,
                         const char *what);

/* ---- engine.c ---- */

/* Takes in what the nodes have to tell and serves the work list, until both are empty. */
void redlock__engine_run(struct redlock__engine *engine, int64_t now_ns);

/* A node became ready or went down: rounds that waited for it, removals it was owed. */
void redlock__engine_phase_changed(struct redlock__engine *engine, uint32_t i, int64_t now_ns);

void redlock__engine_start_inspection(struct redlock__engine *engine,
                                      struct redlock__inspection *inspection, int64_t now_ns);
void redlock__engine_free_inspection_if_done(struct redlock__engine *engine,
                                             struct redlock__inspection *inspection);

/* ---- news.c ---- */

/* Takes in all that nodes in `news` have to tell. False: it was only what was expected. */
bool redlock__news_take(struct redlock__engine *engine, int64_t now_ns);

/* To the owner of a request of a grant: what node i said to it. */
void redlock__engine_deliver(struct redlock__engine *engine, uint32_t node,
                             const struct redlock__node_event *event, int64_t now_ns);

/* ---- watch.c ---- */

bool redlock__watch_new(struct redlock__engine *engine,
                        const struct redlock__engine_config *config);
void redlock__watch_free(struct redlock__engine *engine);

/* A node became READY. */
void redlock__watch_greeted(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
/* News of a request that asks for a fact. */
void redlock__watch_news(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__node_event *event, int64_t now_ns);
/* Standings, and all that follows from them: after anything about a member has changed. */
void redlock__watch_settle(struct redlock__engine *engine, int64_t now_ns);
/* A round goes out: samples go with it if the last ones are old. */
void redlock__watch_round(struct redlock__engine *engine, int64_t now_ns);
/* A lease is held: samples are taken once a second. */
void redlock__watch_hold(struct redlock__engine *engine, int64_t now_ns);
void redlock__watch_handle_deadline(struct redlock__engine *engine, int64_t now_ns);
/* Writes a marker. False: it could not be sent. */
bool redlock__watch_mark(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__marker *marker, const char *seen, int64_t now_ns);

/* Whether it may grant fenced locks; if not, why. */
bool redlock__watch_remembers(const struct redlock__engine *engine, uint32_t i);
const char *redlock__watch_oblivion(const struct redlock__engine *engine, uint32_t i);
/* Asks it for marker and floor, in this order. */
bool redlock__watch_reread(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
/* It may have forgotten its numbers without a restart: the same, once until answered. */
void redlock__watch_doubt(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
/* Asks it, once a connection, whether it takes transactions. */
void redlock__watch_multi(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
/* Writes a base. */
bool redlock__watch_base(struct redlock__engine *engine, uint32_t i,
                         const struct redlock__base *base, int64_t now_ns);

/* ---- fenced.c ---- */

/* GRANT or SETTLE, to every node in `nodes`, each with what it is to remember; returns those that
 * took it. */
uint32_t redlock__fenced_send(struct redlock__engine *engine, struct redlock__lease *lease,
                              enum redlock__command command, uint32_t round_no, uint32_t nodes,
                              int64_t now_ns);
/* An answer to GRANT. */
void redlock__fenced_answer(struct redlock__engine *engine, const struct redlock__grant *grant,
                            const struct redlock__answer *answer);
/* A transaction, or the question for one, was refused. */
void redlock__fenced_refused(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
/* A fenced lease's attempt is over. */
void redlock__fenced_over(struct redlock__engine *engine, const struct redlock__lease *lease);

/* ---- init.c ---- */

void redlock__init_news(struct redlock__engine *engine, int64_t now_ns);

/* ---- native.c ---- */

/* A node became READY, or was asked anew: it has told what it can. */
void redlock__native_greeted(struct redlock__engine *engine, uint32_t i);
/* Sends EXTEND or RELEASE to every node in `nodes`, to each as it suits that server; returns those
 * that took it. */
uint32_t redlock__native_send(struct redlock__engine *engine, struct redlock__grant *grant,
                              enum redlock__command command, uint32_t round_no, uint32_t nodes,
                              int64_t ttl_ms, int64_t now_ns);
/* News of a grant's request, made into news of a plain EXTEND or RELEASE. True: it is none yet, the
 * node was asked once more. */
bool redlock__native_news(struct redlock__engine *engine, uint32_t node,
                          struct redlock__node_event *event, int64_t now_ns);

/* ---- pace.c ---- */

/* Whether the lease being served may begin its renewal now. If not, it is put to work when it
 * may. */
bool redlock__pace_renewal(struct redlock__engine *engine, struct redlock__lease *lease,
                           int64_t now_ns);
/* Puts the next renewal that waits to work, if it may begin. */
void redlock__pace_next(struct redlock__engine *engine, int64_t now_ns);
/* Ready primaries that take more removals now. */
uint32_t redlock__pace_removals(const struct redlock__engine *engine);

/* ---- probe.c ---- */

/* It is the turn of a lease that waits. True: primaries are asked whether an attempt would be in
 * vain, and it waits on. */
bool redlock__probe(struct redlock__engine *engine, struct redlock__lease *lease, int64_t now_ns);
void redlock__probe_answered(struct redlock__engine *engine, uint32_t node,
                             const struct redlock__node_event *event, int64_t now_ns);

/* ---- serve.c ---- */

/* A grant with a new token, or with `value` if that isn't NULL. */
struct redlock__grant *redlock__grant_new(struct redlock__engine *engine,
                                          struct redlock__lease *lease, const char *value);
void redlock__grant_free_if_done(struct redlock__engine *engine, struct redlock__grant *grant);
/* From here on all that is left of it is to remove. */
void redlock__engine_abandon(struct redlock__engine *engine, struct redlock__grant *grant);

/* Sends the removals that are due to every ready primary. */
void redlock__serve_removals(struct redlock__engine *engine, struct redlock__grant *grant,
                             int64_t now_ns);

/* Why a command wasn't sent to those not in `sent`, into the lease's votes. */
void redlock__explain_unsent(struct redlock__engine *engine, struct redlock__lease *lease,
                             enum redlock__command command, uint32_t sent);

/* Does what the lease wants, begins its attempt if it is its turn, posts its events, sets its
 * timer. */
void redlock__serve_lease(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns);

#endif
