/*
 * The facade's state, shared by its five files: drive.c (who works, sleeps, and is woken),
 * client.c (a client's life, and questions to it), handle.c and lock.c (locks), cancel.c. Nobody
 * else includes this.
 *
 * Functions that end in _locked want the client's mutex held.
 */
#ifndef REDLOCK__CLIENT_STATE_H
#define REDLOCK__CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "io.h"
#include "options.h"
#include "pool.h"
#include "redlock.h"

/* Events of one lock, in order, each kind once. */
struct redlock__events {
    uint8_t count;
    uint8_t kinds[4]; /* of redlock_event */
};

enum {
    REDLOCK__SIGNALS = 32 /* sleepers woken together */
};

/* Where a caller sleeps. The client keeps it: it may be signalled a moment after the call. */
struct redlock__seat {
    struct redlock__seat *next; /* of those that are free */
    pthread_cond_t verdict;
};

/* What somebody waits for, on the waiter's stack. */
struct redlock__call {
    const struct redlock__lease *lease;
    const struct redlock__inspection *inspection; /* if lease is NULL */
    const struct redlock__init *init;             /* if both are NULL */
    bool detaching;                               /* waits for a renewal to end */
    bool asleep;                                  /* in the client's list, on its condition */
    bool woken;                                   /* signalled, since its verdict is there */
    struct redlock__call *next, *prev;
    struct redlock__seat *seat;
};

struct redlock_client {
    struct redlock__settings *settings;
    struct redlock__origin *origin;
    atomic_uint arriving; /* callers on their way to the mutex */

    pthread_mutex_t mutex; /* guards all that follows */
    struct redlock__engine *engine;
    struct redlock__io *io;
    struct redlock__pool spare_locks, spare_extras;
    struct redlock__call *driver;
    int64_t now_ns; /* the newest reading of the clock: the mutex was taken then, or sockets read */
    uint32_t drives, drives_seen; /* how many drove; when the background thread last looked */
    struct redlock__call *asleep_head, *asleep_tail;
    struct redlock__seat *seats;                       /* that are free */
    struct redlock__seat *to_signal[REDLOCK__SIGNALS]; /* as soon as the mutex is free */
    uint32_t signals;                                  /* of those */
    uint32_t woken;       /* sleepers whose verdict is there, and who have not come yet */
    bool brief;           /* the driver polls for DEFER_MS at most, and then sends */
    uint32_t unannounced; /* calls that end without an event of a lock */
    uint32_t started;     /* operations of redlock_start_* without a verdict */

    redlock_lock *to_call_head, *to_call_tail; /* whose callbacks are due */
    redlock_lock *calling;                     /* whose callback runs, in calling_thread */
    pthread_t calling_thread;
    pthread_cond_t called;
    bool line_waits;
    int line_level;
    char line[REDLOCK__LOG_LEN];

    pthread_t background;
    bool threaded, stopping;
    bool processing; /* in redlock_process() */
};

/* What a lock has only if it is asked for: a callback, a cancel handle, results, a descriptor. */
struct redlock__lock_extras {
    redlock_event_fn *on_event; /* NULL: none, or released */
    void *event_context;
    struct redlock__events to_call;
    bool called; /* in the client's list of callbacks due */
    redlock_lock *next_call;

    redlock_cancel_handle *cancel;
    redlock_lock *next_carrier, *prev_carrier;

    redlock_node_result *results;
    size_t result_count;

    struct redlock__signal signal; /* raised while `unread` has some */
};

struct redlock_lock {
    redlock_client *client;
    struct redlock__lease *lease;        /* NULL before it begins and after it is forgotten */
    struct redlock__call *call;          /* who waits for its operation */
    struct redlock__lock_extras *extras; /* NULL: none */
    struct redlock__events unread;
    bool started; /* its operation was begun by redlock_start_* */
};

struct redlock_cancel_handle {
    struct redlock__origin *origin;
    atomic_bool cancelled;
    pthread_mutex_t mutex; /* guards the list */
    redlock_lock *carriers;
};

/* False in a forked child. */
static inline bool redlock__client_here(const redlock_client *client)
{
    return redlock__origin_here(client->origin);
}

/* ---- drive.c ---- */

/* Takes the mutex for an operation, with cancellation of the thread disabled; _leave wants
 * what it returns. */
int redlock__enter(redlock_client *client);
void redlock__leave(redlock_client *client, int cancel_state);
/* The same where nothing has changed since redlock__wait_locked(). */
void redlock__leave_settled(redlock_client *client, int cancel_state);

/* Lets the mutex go, and then wakes whom redlock__settle_locked() found the verdict of: they want
 * the mutex. Before any wait that lets it go, redlock__signal_locked() does the same. */
void redlock__unlock(redlock_client *client);
void redlock__signal_locked(redlock_client *client);
void redlock__free_seats(redlock_client *client);

/* After every change: sends, tells who waits, wakes the driver if it would miss something. */
void redlock__settle_locked(redlock_client *client);

/* Drives, or sleeps while somebody else does, until the call has its verdict. All is settled then.
 */
void redlock__wait_locked(redlock_client *client, struct redlock__call *call);

/* Wakes a party that is in poll and would miss something, or wake after until_ns. */
void redlock__wake_party_locked(redlock_client *client, enum redlock__party party,
                                int64_t until_ns);

redlock_event redlock__pop_event(struct redlock__events *events);
void redlock__end_start_locked(redlock_lock *lock);

/* Callbacks and log lines. */
bool redlock__owes_callback_locked(const redlock_client *client);
void redlock__unqueue_callback_locked(redlock_lock *lock);
/* Runs all that are due; true if code of the application ran, for which the mutex was let go. */
bool redlock__dispatch_locked(redlock_client *client);

/* The background thread; the argument is the client. */
void *redlock__run_background(void *client);

/* ---- handle.c ---- */

/* What a caller of acquire or adopt wants, checked. */
struct redlock__request {
    redlock_lock_options options;
    struct redlock__full_key key;
};

/* Checks the arguments. */
int redlock__request_check(redlock_client *client, const void *key, size_t key_len,
                           const redlock_lock_options *options, redlock_lock *const *lock,
                           struct redlock__request *request);

/* redlock__enter(), with a new handle that has no lease yet; NULL: out of memory. */
redlock_lock *redlock__enter_with_lock(redlock_client *client, const redlock_lock_options *options,
                                       int *cancel_state);
/* redlock__leave(), and the handle is gone. */
void redlock__leave_without_lock(redlock_lock *lock, int cancel_state);
/* The handle is gone, in a forked child: FORKED. */
int redlock__lock_discard(redlock_lock *lock);
/* NULL: out of memory. */
struct redlock__lock_extras *redlock__extras_new_locked(redlock_client *client);

/* ---- cancel.c ---- */

void redlock__register_carrier(redlock_lock *lock);
void redlock__unregister_carrier(redlock_lock *lock);
bool redlock__is_cancelled(const redlock_lock *lock);
/* Ends the operation that runs, if its handle was cancelled. */
void redlock__stop_if_cancelled_locked(redlock_lock *lock);

#endif
