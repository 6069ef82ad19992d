/* A client of the library, as the command line asks for it. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "args.h"
#include "notes.h"
#include "redlock.h"

struct session {
    const struct cli_args *args;
    size_t key_len;
    redlock_client *client;
    redlock_cancel_handle *cancel;
    redlock_node_result results[REDLOCK_MAX_NODES]; /* of the last operation */
    size_t node_count;
    int nested; /* redlock_acquire() was not called: an outer run has the lock */
};

/* Returns CLI_CONTINUE, or an exit status: everything is said. session_close() in either case. */
int session_open(struct session *session, const struct cli_args *args);

/* Waits, a node timeout at most, for keys that are still being removed. */
void session_close(struct session *session);

/* Options for a lock of this session: ttl, wait, cancel, results. */
void session_lock_options(struct session *session, redlock_lock_options *options);

/* Until then, or until a signal that ends a process: its number, else 0. For signals_catch(). */
int session_sleep(const struct notes *notes, int64_t until_ns);

/* The exit status that stands for a result of the library. */
int session_status(const struct session *session, int rc);

/*
 * redlock_acquire() while signals are listened to. Says what it waits for where somebody may want
 * to know. A signal that ends a process cancels it and is left in *number, which is 0 else; then,
 * too, the result may be 0 with *lock set.
 * A wait for ever for what an outer "redlock run" holds is refused: BUSY, with session->nested.
 */
int session_acquire(struct session *session, const redlock_lock_options *options,
                    const struct notes *notes, redlock_lock **lock, int *number);

#endif
