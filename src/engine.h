/*
 * Nodes, leases, grants, timers and counters: the machine that both io.c and the
 * simulator drive.
 *
 * Data flow of one acquire. redlock__engine_acquire() makes a lease; when it is its
 * turn and enough connections are settled, an attempt begins: a new token, one SET
 * encoded once and queued on every ready node. The driver sends what
 * redlock__node_output() holds and hands back what it received with
 * redlock__engine_receive(); the engine pulls the node's answers, gives each to its
 * grant and lease, and then serves what the lease wants next. The result is pulled as an
 * event.
 *
 * Time and entropy are arguments. Calls that take `now_ns` look at every lease's deadline up to
 * it before anything else, so a long pause is seen before any answer that was waiting behind it.
 * The engine calls nobody.
 */
#ifndef REDLOCK__ENGINE_H
#define REDLOCK__ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "init.h"
#include "inspection.h"
#include "lease.h"
#include "node.h"
#include "redlock.h"
#include "side.h"

enum {
    REDLOCK__LOG_LINES = 64, /* kept until pulled; the oldest are dropped */
    REDLOCK__LOG_LEN = 512
};

struct redlock__engine_config {
    uint32_t n;
    const struct redlock__node_config *nodes; /* n; strings must outlive the engine */
    uint32_t quorum;                          /* 0: as marked, or a majority */
    uint32_t drift_ppm;
    int64_t max_ttl_ms;       /* 0: as marked, or 60000 */
    int64_t restart_guard_ms; /* below 0: by max_ttl_ms. 0: none */
    int64_t node_timeout_ms;  /* 0: by ttl */
    uint32_t replicas;        /* of the one primary that must acknowledge; 0: none */
    int64_t replica_timeout_ms;
    uint32_t max_locks; /* 0: REDLOCK_MAX_LOCKS */
    /* Fills buf; never fails (the driver has checked its source). */
    void (*entropy)(void *context, void *buf, size_t len);
    void *entropy_context;
};

struct redlock__engine;

/* NULL: out of memory. */
struct redlock__engine *redlock__engine_new(const struct redlock__engine_config *config,
                                            int64_t now_ns);
void redlock__engine_free(struct redlock__engine *engine);

/* ---- for the driver ---- */

/* Links: those of the primaries come first, then side links (side.h). How many there can be, and
 * are now. */
enum {
    REDLOCK__MAX_LINKS = REDLOCK_MAX_NODES + REDLOCK__SIDE_LINKS
};

/* What the driver asks for at every turn: read through the two functions below, without a call.
 * Written by the engine alone. */
struct redlock__engine_seen {
    uint32_t links;
    struct redlock__nodes all; /* the primaries' bits are as everywhere */
    uint32_t behind;           /* primaries whose last request took too long, or still does: those
                                  that are to be sent something get it after the others */
    struct redlock__node *nodes[REDLOCK__MAX_LINKS];
};

static inline const struct redlock__engine_seen *
redlock__engine_see(const struct redlock__engine *engine)
{
    return (const struct redlock__engine_seen *)(const void *)engine; /* its first member */
}

static inline uint32_t redlock__engine_links(const struct redlock__engine *engine)
{
    return redlock__engine_see(engine)->links;
}
/* Which primary's endpoint a link is to. */
uint32_t redlock__engine_primary(const struct redlock__engine *engine, uint32_t i);

/* Of a link; NULL where a side link isn't in use.
 * For tasks and output (node.h, "for the driver"); anything that brings news goes through
 * the four calls below instead of the node's own. */
static inline struct redlock__node *redlock__engine_node(const struct redlock__engine *engine,
                                                         uint32_t i)
{
    return redlock__engine_see(engine)->nodes[i];
}
void redlock__engine_connected(struct redlock__engine *engine, uint32_t i, int64_t now_ns);
void redlock__engine_node_failed(struct redlock__engine *engine, uint32_t i, const char *text,
                                 int64_t now_ns);
/* Hand over all that can be read, with a time that is not later, and then call
 * redlock__engine_handle_deadline(), with the time after that, which takes in what they say. What
 * was read into redlock__node_room() and told by redlock__node_received(), of which links. */
void redlock__engine_received(struct redlock__engine *engine, uint64_t links);
void redlock__engine_receive(struct redlock__engine *engine, uint32_t i, const char *data,
                             size_t len, int64_t now_ns);
void redlock__engine_handle_deadline(struct redlock__engine *engine, int64_t now_ns);
/* No later than the next, but maybe earlier: that of a request that has been answered since. */
int64_t redlock__engine_next_deadline(const struct redlock__engine *engine);
/* What gives the driver something to do for nodes, since it was last asked: a mask of primaries for
 * which there are requests to send, and STIRRED if any node may have got other output, or a task.
 */
#define REDLOCK__STIRRED (UINT32_C(1) << REDLOCK_MAX_NODES)
uint32_t redlock__engine_stirred(struct redlock__engine *engine);
/* They have sent what they had, or keep it. It need not be told, but saves copying. */
void redlock__engine_sent(struct redlock__engine *engine, uint32_t primaries);
/* Some answer is owed. */
bool redlock__engine_owed(const struct redlock__engine *engine);
/* Requests to READY nodes are on their way, or removals wait for a connection that is being made:
 * worth waiting for before the connections are closed. */
bool redlock__engine_flushing(const struct redlock__engine *engine);

/* ---- for the facade ---- */

/* Arguments have been checked, but for what only the engine knows: TTL, KEY (prefix
 * "redlock:"), LIMIT, MEMORY. On 0 the operation runs: see lease->op and result. */
int redlock__engine_acquire(struct redlock__engine *engine, const void *key, size_t key_len,
                            const struct redlock__lease_config *config, int64_t now_ns,
                            struct redlock__lease **lease);
int redlock__engine_adopt(struct redlock__engine *engine, const void *key, size_t key_len,
                          const char *value, uint32_t counted,
                          const struct redlock__lease_config *config, int64_t now_ns,
                          struct redlock__lease **lease);
/* ttl_ms 0: the last one. STATE if an operation runs. */
int redlock__engine_extend(struct redlock__engine *engine, struct redlock__lease *lease,
                           int64_t ttl_ms, int64_t now_ns);
int redlock__engine_release(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns);
/* Ends the running operation with reason (CANCELLED); its keys are removed where it was
 * an acquire or a release. */
void redlock__engine_stop(struct redlock__engine *engine, struct redlock__lease *lease, int reason,
                          int64_t now_ns);
/* Stops renewal. True once none is under way (redlock__engine_handing_on()); the keys may then be
 * left. */
bool redlock__engine_detach(struct redlock__engine *engine, struct redlock__lease *lease,
                            int64_t now_ns);
/* Its renewal is under way, or a native extend that others had better not overtake. */
bool redlock__engine_handing_on(const struct redlock__lease *lease);
/* Its token is given to others. They must not extend it to more than *cut_ms on these primaries. */
uint32_t redlock__engine_share(const struct redlock__engine *engine,
                               const struct redlock__lease *lease, int64_t *cut_ms);
/* The handle is going away. leave_keys: after detach, or at client_free; else
 * whatever is left is removed. */
void redlock__engine_forget(struct redlock__engine *engine, struct redlock__lease *lease,
                            bool leave_keys, int64_t now_ns);

/* The next event of any lease; NONE when there are no more. */
redlock_event redlock__engine_pull_event(struct redlock__engine *engine,
                                         struct redlock__lease **lease);
/* The next log line; false: none. */
bool redlock__engine_pull_log(struct redlock__engine *engine, int *level,
                              char line[REDLOCK__LOG_LEN]);

/* Done when inspection->owed is 0 and it has started. */
int redlock__engine_inspect(struct redlock__engine *engine, const void *key, size_t key_len,
                            int64_t now_ns, struct redlock__inspection **inspection);
void redlock__engine_forget_inspection(struct redlock__engine *engine,
                                       struct redlock__inspection *inspection);
/* Done when init->done. NULL: out of memory; one at a time, else STATE in *rc. */
struct redlock__init *redlock__engine_init(struct redlock__engine *engine,
                                           const struct redlock__init_config *config,
                                           int64_t now_ns, int *rc);
void redlock__engine_forget_init(struct redlock__engine *engine, struct redlock__init *init);

void redlock__engine_fleet(const struct redlock__engine *engine, redlock_fleet *fleet);

/* What is known of a primary, but for its connection. Its clock's offset is against ours, which
 * counts from the boot of the machine. */
void redlock__engine_health(const struct redlock__engine *engine, uint32_t i,
                            redlock_node_health *health, int64_t now_ns);
void redlock__engine_stats(const struct redlock__engine *engine, redlock_stats *stats);
uint32_t redlock__engine_n(const struct redlock__engine *engine);
uint32_t redlock__engine_quorum(const struct redlock__engine *engine);

#endif
