/*
 * What takes the locks in a worker: our own client, or a peer, another program that speaks the line
 * protocol below. One thread at a time, but for cancel() and what locker_told is called from.
 *
 * The line protocol, on the peer's standard input and output; one answer line to each line:
 *   nodes URI...                        ok 0
 *   acquire ID NAME TTL_MS WAIT_MS      ok ID [VALIDITY_MS [OWNER [FENCE]]] | busy ID | error ID
 * TEXT extend ID TTL_MS                    ok ID [VALIDITY_MS] | lost ID | error ID TEXT release ID
 * ok ID | lost ID | error ID TEXT quit                                nothing: it ends ID is a
 * number that names the lock, given anew to each acquire. Names have no blanks. VALIDITY_MS counts
 * from the moment in which the command was written; left out, it is the ttl.
 */
#ifndef CHAOS_LOCKER_H
#define CHAOS_LOCKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker_spec.h"

enum {
    LOCKER_TEXT_LEN = 160,
    LOCKER_OWNER_LEN = 16
};

struct wish {
    const char *name;
    int64_t number, ttl_ms, wait_ms;
    bool renew, fence;
};

struct outcome {
    const char *rc; /* as in a return record */
    char text[LOCKER_TEXT_LEN];
    char owner[LOCKER_OWNER_LEN + 1];
    int64_t fence, validity_ms;
    int64_t deadline_ns; /* by history_now(); 0: not held */
    int64_t attempts;
    json_t *nodes; /* to be freed by the caller; NULL: nothing known */
};

/* From a thread of the client: renewed, failing or lost. */
typedef void locker_told(void *context, int64_t number, const char *event, int64_t deadline_ns);

struct locker;

/* What both kinds of locks begin with. */
struct hold {
    struct locker *locker;
    int64_t number; /* of the wish */
    char owner[LOCKER_OWNER_LEN + 1];
    int64_t fence;
};

/* What both kinds of lockers begin with: */
struct locker {
    const struct locker_kind *kind;
    char failure[LOCKER_TEXT_LEN]; /* not "": it can't go on */
};

struct locker_kind {
    bool renews; /* heeds wish.renew */
    void (*free)(struct locker *locker);
    /* Connected to all nodes. */
    bool (*ready)(struct locker *locker);
    /* *hold is set if outcome->rc is "ok". */
    void (*acquire)(struct locker *locker, const struct wish *wish, struct outcome *outcome,
                    struct hold **hold);
    void (*extend)(struct hold *hold, int64_t ttl_ms, struct outcome *outcome);
    /* Frees the hold in every case. */
    void (*release)(struct hold *hold, struct outcome *outcome);
    bool (*held)(const struct hold *hold);
    int64_t (*remaining_ms)(const struct hold *hold);
    int64_t (*deadline_ns)(const struct hold *hold); /* by history_now(); 0: not held */
    int (*margin)(const struct hold *hold);          /* -1: not held, or not known */
    /* Any thread: an acquire that waits, or comes later, returns "cancelled". NULL: it can't. */
    void (*cancel)(struct locker *locker);
    /* New references, for an actor's answers and the record "count"; NULL: it has none. */
    json_t *(*health)(struct locker *locker);
    json_t *(*init)(struct locker *locker, const json_t *command);
    json_t *(*counters)(struct locker *locker);
};

/* The spec must outlive it. NULL: text. */
struct locker *locker_own(const struct worker_spec *spec, locker_told *told, void *context,
                          char *text, size_t size);
struct locker *locker_peer(const struct worker_spec *spec, char *text, size_t size);

#endif
