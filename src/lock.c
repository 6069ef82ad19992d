/*
 * Locks: argument checks, and one call after the other into the engine, under the client's
 * mutex. The clock is read right before each, so that what the engine takes for the start lies
 * before the first byte.
 */
#include <stdio.h>
#include <string.h>

#include "client_state.h"
#include "validity.h"

/* ---- life -------------------------------------------------------- */

/* From here on no callback of this lock starts; one that runs in another thread is waited for. */
static void silence_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    if (lock->extras == NULL)
        return; /* it never had one */
    lock->extras->on_event = NULL;
    redlock__unqueue_callback_locked(lock);
    if (lock->call != NULL && lock->lease != NULL) /* in that callback */
        redlock__engine_stop(client->engine, lock->lease, REDLOCK_CANCELLED, client->now_ns);
    redlock__settle_locked(client);
    redlock__signal_locked(client);
    while (client->calling == lock && !pthread_equal(client->calling_thread, pthread_self()))
        (void)pthread_cond_wait(&client->called, &client->mutex);
    if (client->threaded) /* links may have been looked after meanwhile */
        client->now_ns = redlock__clock_ns();
}

static void forget_locked(redlock_lock *lock, bool leave_keys)
{
    redlock__end_start_locked(lock);
    if (lock->lease != NULL)
        redlock__engine_forget(lock->client->engine, lock->lease, leave_keys, lock->client->now_ns);
    lock->lease = NULL;
}

/* ---- results ----------------------------------------------------- */

static void copy_results_locked(const redlock_lock *lock, redlock_node_result *results,
                                size_t count)
{
    const struct redlock__settings *settings = lock->client->settings;

    for (uint32_t i = 0; i < settings->n && i < count; i++) {
        memcpy(results[i].address, settings->endpoints[i].address, sizeof results[i].address);
        results[i].vote = REDLOCK_VOTE_NONE;
        results[i].elapsed_us = -1;
        results[i].text[0] = '\0';
        if (lock->lease == NULL)
            continue;
        results[i].vote = (redlock_vote)redlock__lease_said(lock->lease)[i].vote;
        results[i].elapsed_us = redlock__lease_elapsed_us(lock->lease, i);
        (void)snprintf(results[i].text, sizeof results[i].text, "%s",
                       redlock__lease_text(lock->lease, i));
    }
}

static void store_results_locked(const redlock_lock *lock)
{
    const struct redlock__lock_extras *extras = lock->extras;

    if (extras != NULL && extras->results != NULL)
        copy_results_locked(lock, extras->results, extras->result_count);
}

/* Waits for the operation that runs. */
static int wait_for_operation_locked(redlock_lock *lock)
{
    struct redlock__call call = {.lease = lock->lease};

    lock->call = &call;
    redlock__stop_if_cancelled_locked(lock);
    redlock__wait_locked(lock->client, &call);
    lock->call = NULL;
    store_results_locked(lock);
    return lock->lease->result;
}

static void start_operation_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    lock->started = true;
    client->started++;
    redlock__stop_if_cancelled_locked(lock);
    redlock__wake_party_locked(client, REDLOCK__BACKGROUND,
                               INT64_MIN); /* it is to read the answers */
}

/* ---- operations -------------------------------------------------- */

static struct redlock__lease_config lease_config(const redlock_lock_options *o)
{
    return (struct redlock__lease_config){.ttl_ms = o->ttl_ms,
                                          .wait_ms = o->wait_ms,
                                          .retry_base_ms = o->retry_base_ms,
                                          .retry_cap_ms = o->retry_cap_ms,
                                          .min_validity_ms = o->min_validity_ms,
                                          .max_hold_ms = o->max_hold_ms,
                                          .renew = o->renew != 0,
                                          .fence = o->fence != 0};
}

/* The clock was read when the mutex was taken, before the first byte of the attempt is queued. */
static int begin_acquire_locked(redlock_lock *lock, const struct redlock__request *request)
{
    struct redlock__lease_config config = lease_config(&request->options);
    int rc = redlock__engine_acquire(lock->client->engine, request->key.text, request->key.len,
                                     &config, lock->client->now_ns, &lock->lease);

    if (rc == 0)
        lock->lease->user = lock;
    return rc;
}

static int acquire_locked(redlock_lock *lock, const struct redlock__request *request, bool wait)
{
    int rc;

    if (wait && !lock->client->threaded)
        return REDLOCK_ERR_STATE;
    if (redlock__is_cancelled(lock)) {
        store_results_locked(lock);
        return REDLOCK_CANCELLED;
    }
    rc = begin_acquire_locked(lock, request);
    if (rc == 0 && wait)
        return wait_for_operation_locked(lock);
    if (rc == 0)
        start_operation_locked(lock);
    return rc;
}

static int acquire(redlock_client *client, const void *key, size_t key_len,
                   const redlock_lock_options *options, redlock_lock **lock, bool wait)
{
    struct redlock__request request;
    redlock_lock *made;
    int cancel_state, rc = redlock__request_check(client, key, key_len, options, lock, &request);

    if (rc != 0)
        return rc;
    made = redlock__enter_with_lock(client, &request.options, &cancel_state);
    rc = made != NULL ? acquire_locked(made, &request, wait) : REDLOCK_ERR_MEMORY;
    if (rc != 0 && made != NULL) {
        forget_locked(made, false);
        redlock__leave_without_lock(made, cancel_state);
        return rc;
    }
    if (rc == 0 && wait)
        redlock__leave_settled(client, cancel_state);
    else
        redlock__leave(client, cancel_state);
    if (rc == 0)
        *lock = made;
    return rc;
}

int redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                    const redlock_lock_options *options, redlock_lock **lock)
{
    return acquire(client, key, key_len, options, lock, true);
}

int redlock_start_acquire(redlock_client *client, const void *key, size_t key_len,
                          const redlock_lock_options *options, redlock_lock **lock)
{
    return acquire(client, key, key_len, options, lock, false);
}

static int adopt_locked(redlock_lock *lock, const struct redlock__request *request,
                        const char *token, const char *value, uint32_t counted)
{
    struct redlock__lease_config config = lease_config(&request->options);
    int64_t cut_ms = 0;
    uint32_t cut = redlock__token_warning(token, &cut_ms);
    int rc = redlock__engine_adopt(lock->client->engine, request->key.text, request->key.len, value,
                                   counted, &config, lock->client->now_ns, &lock->lease);

    if (rc != 0)
        return rc;
    lock->lease->user = lock;
    redlock__grant_warn(lock->lease->grant, cut, cut_ms);
    return 0;
}

int redlock_adopt(redlock_client *client, const void *key, size_t key_len, const char *token,
                  const redlock_lock_options *options, redlock_lock **lock)
{
    struct redlock__request request;
    char value[REDLOCK__TOKEN_VALUE_LEN + 1];
    uint32_t counted;
    redlock_lock *made;
    int cancel_state, rc;

    if (token == NULL)
        return REDLOCK_ERR_ARGUMENT;
    rc = redlock__request_check(client, key, key_len, options, lock, &request);
    if (rc == 0)
        rc = redlock__token_parse(client->settings, token, value, &counted);
    if (rc != 0)
        return rc;
    made = redlock__enter_with_lock(client, &request.options, &cancel_state);
    rc = made != NULL ? adopt_locked(made, &request, token, value, counted) : REDLOCK_ERR_MEMORY;
    if (rc != 0 && made != NULL) {
        redlock__leave_without_lock(made, cancel_state);
        return rc;
    }
    redlock__leave(client, cancel_state);
    if (rc == 0)
        *lock = made;
    return rc;
}

static int extend(redlock_lock *lock, int64_t ttl_ms, bool wait)
{
    redlock_client *client;
    int cancel_state, rc;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    client = lock->client;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    cancel_state = redlock__enter(client);
    if (lock->lease == NULL) {
        rc = REDLOCK_ERR_STATE;
    } else if (ttl_ms != 0 && redlock__ttl_check(client->settings, ttl_ms,
                                                 lock->lease->terms->min_validity_ms) != 0) {
        rc = REDLOCK_ERR_TTL;
    } else if (wait && !client->threaded) {
        rc = REDLOCK_ERR_STATE;
    } else if (redlock__is_cancelled(lock)) {
        rc = REDLOCK_CANCELLED;
    } else {
        /* What has been answered by now, a grant that came after the verdict, is to count. */
        if (client->driver == NULL)
            redlock__io_look(client->io);
        client->now_ns = redlock__clock_ns();
        rc = redlock__engine_extend(client->engine, lock->lease, ttl_ms, client->now_ns);
        if (rc == 0 && wait)
            rc = wait_for_operation_locked(lock);
        else if (rc == 0)
            start_operation_locked(lock);
    }
    redlock__leave(client, cancel_state);
    return rc;
}

int redlock_extend(redlock_lock *lock, int64_t ttl_ms)
{
    return extend(lock, ttl_ms, true);
}

int redlock_start_extend(redlock_lock *lock, int64_t ttl_ms)
{
    return extend(lock, ttl_ms, false);
}

/* Also after redlock_start_*: an acquire or extend under way is ended, a release under
 * way is waited for, and what has ended already gives its result. */
static int release_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    struct redlock__lease *lease = lock->lease;
    int rc = 0;

    if (lease->op == REDLOCK__OP_ACQUIRE)
        redlock__engine_stop(client->engine, lease, REDLOCK_CANCELLED, client->now_ns);
    if (lease->op != REDLOCK__OP_RELEASE && lease->state == REDLOCK__LEASE_ENDED)
        return lease->result;
    if (lease->op != REDLOCK__OP_RELEASE)
        rc = redlock__engine_release(client->engine, lease, client->now_ns);
    if (rc == 0 && client->threaded)
        return wait_for_operation_locked(lock);
    if (rc == 0)
        return lease->op == REDLOCK__OP_NONE ? lease->result : REDLOCK_PENDING;
    return rc;
}

int redlock_release(redlock_lock *lock)
{
    redlock_client *client;
    int cancel_state, rc;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    client = lock->client;
    if (!redlock__client_here(client))
        return redlock__lock_discard(lock);
    cancel_state = redlock__enter(client);
    silence_locked(lock);
    rc = release_locked(lock);
    forget_locked(lock, false);
    redlock__leave_without_lock(lock, cancel_state);
    return rc;
}

int redlock_start_release(redlock_lock *lock)
{
    redlock_client *client;
    int cancel_state, rc;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    client = lock->client;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    cancel_state = redlock__enter(client);
    if (lock->lease == NULL || lock->lease->op != REDLOCK__OP_NONE)
        rc = REDLOCK_ERR_STATE;
    else
        rc = redlock__engine_release(client->engine, lock->lease, client->now_ns);
    if (rc == 0)
        start_operation_locked(lock);
    redlock__leave(client, cancel_state);
    return rc;
}

/* 0 if the token of this lock is worth something to another process. */
static int check_handover(const redlock_lock *lock)
{
    const struct redlock__lease *lease = lock->lease;

    if (lease == NULL || lease->op != REDLOCK__OP_NONE)
        return REDLOCK_ERR_STATE;
    if (lease->state == REDLOCK__LEASE_LOST)
        return redlock__lease_lost_reason(lease);
    if (lease->grant == NULL || lease->state == REDLOCK__LEASE_ENDED)
        return REDLOCK_ERR_STATE;
    if (lease->deadline_ns != 0 && !redlock__lease_held(lease, redlock__clock_ns()))
        return REDLOCK_EXPIRED;
    return 0;
}

static void write_token(const redlock_client *client, const struct redlock__lease *lease,
                        char *token)
{
    int64_t cut_ms;
    uint32_t cut = redlock__engine_share(client->engine, lease, &cut_ms);

    redlock__token_format(client->settings, redlock__grant_token(lease->grant).hex, lease->counted,
                          token);
    if (cut != 0)
        redlock__token_warn(token, cut, cut_ms);
}

static int detach_locked(redlock_lock *lock, char *token)
{
    redlock_client *client = lock->client;
    struct redlock__call call = {.lease = lock->lease, .detaching = true};
    int rc = check_handover(lock);

    if (rc != 0)
        return rc;
    if (!redlock__engine_detach(client->engine, lock->lease, client->now_ns)) {
        client->unannounced++;
        redlock__wait_locked(client, &call);
        client->unannounced--;
        rc = check_handover(lock);
        if (rc != 0)
            return rc;
    }
    write_token(client, lock->lease, token);
    forget_locked(lock, true);
    silence_locked(lock);
    return 0;
}

int redlock_detach(redlock_lock *lock, char *token, size_t token_size)
{
    redlock_client *client;
    int cancel_state, rc;

    if (lock == NULL || token == NULL || token_size < REDLOCK_TOKEN_LEN)
        return REDLOCK_ERR_ARGUMENT;
    client = lock->client;
    if (!redlock__client_here(client))
        return REDLOCK_ERR_FORKED;
    cancel_state = redlock__enter(client);
    rc = detach_locked(lock, token);
    if (rc == 0)
        redlock__leave_without_lock(lock, cancel_state);
    else
        redlock__leave(client, cancel_state);
    return rc;
}

/* ---- questions --------------------------------------------------- */

/* The lease with the mutex held; NULL without it: none, or a forked child. */
static const struct redlock__lease *look_at(const redlock_lock *lock)
{
    if (lock == NULL || !redlock__client_here(lock->client))
        return NULL;
    (void)pthread_mutex_lock(&lock->client->mutex);
    if (lock->lease == NULL)
        (void)pthread_mutex_unlock(&lock->client->mutex);
    return lock->lease;
}

int64_t redlock_remaining_ms(const redlock_lock *lock)
{
    const struct redlock__lease *lease = look_at(lock);
    int64_t now_ns, remaining_ms;

    if (lease == NULL)
        return 0;
    now_ns = redlock__clock_ns();
    remaining_ms = redlock__remaining_ms(lease->deadline_ns, now_ns);
    if (!redlock__lease_held(lease, now_ns))
        remaining_ms = 0;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return remaining_ms;
}

int redlock_is_held(const redlock_lock *lock)
{
    return redlock_remaining_ms(lock) > 0;
}

int64_t redlock_deadline_ns(const redlock_lock *lock)
{
    const struct redlock__lease *lease = look_at(lock);
    int64_t deadline_ns;

    if (lease == NULL)
        return 0;
    deadline_ns = lease->deadline_ns;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return deadline_ns;
}

int64_t redlock_fence(const redlock_lock *lock)
{
    const struct redlock__lease *lease;
    int64_t fence = REDLOCK_ERR_STATE;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(lock->client))
        return REDLOCK_ERR_FORKED;
    lease = look_at(lock);
    if (lease == NULL)
        return fence;
    if (lease->fenced && redlock__lease_fencing(lease)->token != 0 &&
        lease->state != REDLOCK__LEASE_ACQUIRING)
        fence = redlock__lease_fencing(lease)->token;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return fence;
}

int redlock_margin(const redlock_lock *lock)
{
    const struct redlock__lease *lease = look_at(lock);
    int margin;

    if (lease == NULL)
        return -1;
    margin = redlock__lease_margin(lease, redlock__clock_ns());
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return margin;
}

int redlock_token(const redlock_lock *lock, char *token, size_t token_size)
{
    const struct redlock__lease *lease;
    int rc = REDLOCK_ERR_STATE;

    if (lock == NULL || token == NULL || token_size < REDLOCK_TOKEN_LEN)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(lock->client))
        return REDLOCK_ERR_FORKED;
    lease = look_at(lock);
    if (lease == NULL)
        return rc;
    if (lease->state == REDLOCK__LEASE_HELD || lease->state == REDLOCK__LEASE_RENEWING ||
        lease->state == REDLOCK__LEASE_ADOPTED) {
        write_token(lock->client, lease, token);
        rc = 0;
    }
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return rc;
}

size_t redlock_node_results(const redlock_lock *lock, redlock_node_result *results, size_t count)
{
    if (lock == NULL || !redlock__client_here(lock->client))
        return 0;
    (void)pthread_mutex_lock(&lock->client->mutex);
    if (results != NULL)
        copy_results_locked(lock, results, count);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return lock->client->settings->n;
}

int redlock_poll_result(const redlock_lock *lock)
{
    const struct redlock__lease *lease;
    int rc;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(lock->client))
        return REDLOCK_ERR_FORKED;
    lease = look_at(lock);
    if (lease == NULL)
        return REDLOCK_ERR_STATE;
    rc = lease->op == REDLOCK__OP_NONE ? lease->result : REDLOCK_PENDING;
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return rc;
}

int redlock_event_fd(redlock_lock *lock)
{
    struct redlock__signal *signal;
    int cancel_state, rc = REDLOCK_ERR_SYSTEM;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!redlock__client_here(lock->client))
        return REDLOCK_ERR_FORKED;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&lock->client->mutex);
    if (lock->extras == NULL)
        lock->extras = redlock__extras_new_locked(lock->client);
    signal = lock->extras != NULL ? &lock->extras->signal : NULL;
    if (signal != NULL && signal->fds[0] < 0 && redlock__signal_open(signal) &&
        lock->unread.count > 0)
        redlock__signal_raise(signal);
    if (signal == NULL)
        rc = REDLOCK_ERR_MEMORY;
    else if (signal->fds[0] >= 0)
        rc = signal->fds[0];
    (void)pthread_mutex_unlock(&lock->client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return rc;
}

redlock_event redlock_next_event(redlock_lock *lock)
{
    redlock_event event;
    int cancel_state;

    if (lock == NULL || !redlock__client_here(lock->client))
        return REDLOCK_EVENT_NONE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&lock->client->mutex);
    event = redlock__pop_event(&lock->unread);
    if (lock->unread.count == 0 && lock->extras != NULL && lock->extras->signal.raised)
        redlock__signal_lower(&lock->extras->signal);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return event;
}
