/*
 * A worker from the inside: what its role works with.
 *
 * Two threads of its own: the one that works, and one that reads the control socket, so that a
 * worker can be told to stop or to pause whatever it is doing. Events of leases come from the
 * client's thread; all three tell the history by worker_tell().
 */
#ifndef CHAOS_WORKER_SELF_H
#define CHAOS_WORKER_SELF_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "locker.h"
#include "seed.h"
#include "shared.h"
#include "worker_spec.h"

enum {
    WORKER_HISTORY_FD = 3,
    WORKER_SHARED_FD = 4,
    WORKER_CONTROL_FD = 5,
    WORKER_LINE_MAX = 4096, /* of the history, with its end: what a pipe takes in one piece */
    NS_PER_MS = 1000000
};

struct worker_self {
    struct worker_spec spec;
    struct shared *shared;
    struct locker *locker;
    struct stream stream;
    int64_t tries; /* numbers given to acquires */

    int64_t started_ns;
    int64_t cycles;
    bool begun; /* the first hygiene record is told */

    pthread_t reader;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    bool stopping, paused;
    json_t *commands; /* of an actor, in order */
};

/* A line of the history, with the worker's name and, if it has no "t", the time. Takes it over; any
 * thread. A line that would be too long loses the ends of its texts. */
void worker_tell(const struct worker_self *self, json_t *record);
/* An "error" record. */
void worker_tell_error(const struct worker_self *self, const char *text);
/* Descriptors, threads, memory. */
void worker_tell_hygiene(const struct worker_self *self, const char *when);
/* One round of the role's work is over: the first hygiene record is due after 20, or a second. */
void worker_cycle(struct worker_self *self);

/* True: told to stop; or the client failed for good. */
bool worker_stops(struct worker_self *self);
/* Waits until then, or less if told to stop: then false. */
bool worker_sleep(struct worker_self *self, int64_t until_ns);
/* Waits while paused. False: told to stop. */
bool worker_may_begin(struct worker_self *self);
/* The next command, waited for; NULL: told to stop. */
json_t *worker_command(struct worker_self *self);
/* One line to the harness; takes it over. */
void worker_reply(struct worker_self *self, json_t *answer);

/* The roles; each returns when told to stop, with nothing held. */
void contender_run(struct worker_self *self);
void prober_run(struct worker_self *self);
void actor_run(struct worker_self *self);

#endif
