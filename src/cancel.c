/*
 * Cancelling. A handle knows the locks that carry it. Order of mutexes: the handle's, then the
 * client's; a lock is registered and unregistered while the client's is not held.
 */
#include <stdlib.h>

#include "client_state.h"

int redlock_cancel_new(redlock_cancel_handle **cancel)
{
    redlock_cancel_handle *made;

    if (cancel == NULL)
        return REDLOCK_ERR_ARGUMENT;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return REDLOCK_ERR_MEMORY;
    made->origin = redlock__origin_new();
    if (made->origin == NULL) {
        free(made);
        return REDLOCK_ERR_MEMORY;
    }
    (void)pthread_mutex_init(&made->mutex, NULL);
    *cancel = made;
    return 0;
}

void redlock_cancel_free(redlock_cancel_handle *cancel)
{
    if (cancel == NULL)
        return;
    if (redlock__origin_here(cancel->origin))
        (void)pthread_mutex_destroy(&cancel->mutex);
    redlock__origin_free(cancel->origin);
    free(cancel);
}

bool redlock__is_cancelled(const redlock_lock *lock)
{
    const struct redlock__lock_extras *extras = lock->extras;

    return extras != NULL && extras->cancel != NULL && atomic_load(&extras->cancel->cancelled);
}

/* Ends the operation that runs, if its handle was cancelled. */
void redlock__stop_if_cancelled_locked(redlock_lock *lock)
{
    if (redlock__is_cancelled(lock) && lock->lease != NULL && lock->lease->op != REDLOCK__OP_NONE)
        redlock__engine_stop(lock->client->engine, lock->lease, REDLOCK_CANCELLED,
                             redlock__clock_ns());
}

static void cancel_lock(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    int cancel_state = redlock__enter(client);

    redlock__stop_if_cancelled_locked(lock);
    if (!client->threaded)
        redlock__io_wake(client->io, REDLOCK__BACKGROUND);
    redlock__leave(client, cancel_state);
}

void redlock_cancel(redlock_cancel_handle *cancel)
{
    if (cancel == NULL || !redlock__origin_here(cancel->origin))
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    atomic_store(&cancel->cancelled, true);
    for (redlock_lock *lock = cancel->carriers; lock != NULL; lock = lock->extras->next_carrier)
        cancel_lock(lock);
    (void)pthread_mutex_unlock(&cancel->mutex);
}

void redlock__register_carrier(redlock_lock *lock)
{
    redlock_cancel_handle *cancel = lock->extras != NULL ? lock->extras->cancel : NULL;

    if (cancel == NULL)
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    lock->extras->next_carrier = cancel->carriers;
    if (cancel->carriers != NULL)
        cancel->carriers->extras->prev_carrier = lock;
    cancel->carriers = lock;
    (void)pthread_mutex_unlock(&cancel->mutex);
}

void redlock__unregister_carrier(redlock_lock *lock)
{
    struct redlock__lock_extras *extras = lock->extras;
    redlock_cancel_handle *cancel = extras != NULL ? extras->cancel : NULL;

    if (cancel == NULL)
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    if (extras->prev_carrier != NULL)
        extras->prev_carrier->extras->next_carrier = extras->next_carrier;
    else
        cancel->carriers = extras->next_carrier;
    if (extras->next_carrier != NULL)
        extras->next_carrier->extras->prev_carrier = extras->prev_carrier;
    (void)pthread_mutex_unlock(&cancel->mutex);
}
