/*
 * Handles of locks: how they come and go, and what is checked before. Their memory is the client's,
 * under its mutex.
 */
#include "client_state.h"

int redlock__request_check(redlock_client *client, const void *key, size_t key_len,
                           const redlock_lock_options *options, redlock_lock *const *lock,
                           struct redlock__request *request)
{
    int rc;

    if (client == NULL || key == NULL || lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    rc = redlock__full_key(client->settings, key, key_len, &request->key);
    if (rc != 0)
        return rc;
    return redlock__lock_options_check(client->settings, options, &request->options);
}

struct redlock__lock_extras *redlock__extras_new_locked(redlock_client *client)
{
    struct redlock__lock_extras *extras = redlock__pool_take(&client->spare_extras, sizeof *extras);

    if (extras != NULL)
        extras->signal = (struct redlock__signal){.fds = {-1, -1}};
    return extras;
}

/* A handle without a lease; NULL: out of memory. */
static redlock_lock *lock_new_locked(redlock_client *client, const redlock_lock_options *options)
{
    redlock_lock *lock = redlock__pool_take(&client->spare_locks, sizeof *lock);

    if (lock == NULL)
        return NULL;
    lock->client = client;
    if (options->on_event == NULL && options->cancel == NULL && options->results == NULL)
        return lock;
    lock->extras = redlock__extras_new_locked(client);
    if (lock->extras == NULL) {
        redlock__pool_give(&client->spare_locks, lock);
        return NULL;
    }
    lock->extras->on_event = options->on_event;
    lock->extras->event_context = options->event_context;
    lock->extras->cancel = options->cancel;
    lock->extras->results = options->results;
    lock->extras->result_count = options->result_count;
    return lock;
}

static void lock_free_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    redlock__pool_give(&client->spare_extras, lock->extras);
    redlock__pool_give(&client->spare_locks, lock);
}

/* The mutex, with a new handle. One that carries a cancel handle is registered there before: that
 * one's mutex comes first. */
redlock_lock *redlock__enter_with_lock(redlock_client *client, const redlock_lock_options *options,
                                       int *cancel_state)
{
    redlock_lock *lock;

    if (options->cancel != NULL) {
        (void)pthread_mutex_lock(&client->mutex);
        lock = lock_new_locked(client, options);
        (void)pthread_mutex_unlock(&client->mutex);
        if (lock != NULL)
            redlock__register_carrier(lock);
        *cancel_state = redlock__enter(client);
    } else {
        *cancel_state = redlock__enter(client);
        lock = lock_new_locked(client, options);
    }
    return lock;
}

/* Lets the mutex go, and the handle: what needs a mutex that comes before, or may take long, comes
 * after. */
void redlock__leave_without_lock(redlock_lock *lock, int cancel_state)
{
    redlock_client *client = lock->client;
    struct redlock__lock_extras *extras = lock->extras;

    if (extras == NULL || (extras->cancel == NULL && extras->signal.fds[0] < 0)) {
        lock_free_locked(lock);
        redlock__leave(client, cancel_state);
        return;
    }
    redlock__leave(client, cancel_state);
    redlock__unregister_carrier(lock);
    redlock__signal_close(&extras->signal);
    (void)pthread_mutex_lock(&client->mutex);
    lock_free_locked(lock);
    (void)pthread_mutex_unlock(&client->mutex);
}

/* In a forked child. Its memory is the client's, whose mutex can't be taken there. */
int redlock__lock_discard(redlock_lock *lock)
{
    if (lock->extras != NULL)
        redlock__signal_close(&lock->extras->signal);
    return REDLOCK_ERR_FORKED;
}
