/*
 * The public facade: argument checks, waiting, cancelling, callbacks, under one mutex.
 *
 * Who works. The mutex guards the engine, the links and all that is below. It is never held across
 * a poll that waits, or while code of the application runs. Whoever holds it may process: queue,
 * send, read. "Driver" is only the caller who sits in poll. A caller that finds no driver drives
 * until its own verdict, so a lone caller reads its answers itself and no thread is switched on its
 * path. All others sleep, each on its own condition, and are signalled when their verdict is there.
 *
 * Who is woken. Three rules, checked by whoever changed something, before it lets the mutex go.
 * settle_locked(): a driver in poll is woken if its watch misses a link or a deadline, or if its
 * own verdict came through another thread. leave_locked(), where there is no driver: another
 * waiting caller is woken, to drive; that one does the same when it leaves, also if it finds its
 * own verdict there. So whenever the mutex is free, there is a driver, or somebody woken, or nobody
 * waiting. If nobody waits, the background thread is woken, unless its next look is soon enough:
 * by the next deadline, and within STRAGGLER_MS while answers are owed. Connections that are being
 * set up it watches anyway.
 *
 * Who sends. Callers announce themselves before they wait for the mutex, and those woken with
 * their verdict are known to come through it. Whoever sees others coming leaves the sending to
 * them, so that the writes of a crowd go out together; a brief poll of the driver bounds the delay.
 *
 * Cancelling. A handle knows the locks that carry it. Order of mutexes: the handle's, then the
 * client's; a lock is registered and unregistered while the client's is not held.
 *
 * Fork. In a child nothing is locked or sent: a thread that held the mutex does not exist there.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "io.h"
#include "options.h"
#include "redlock.h"
#include "validity.h"

enum {
    STRAGGLER_MS = 10, /* answers owed to nobody who waits are read within this */
    DEFER_MS = 1,      /* what is to be sent waits no longer for more to be sent with it */
    IDLE_MS = 50,      /* links not looked at for this long may have been closed */
    FLUSH_MS = 500     /* of redlock_client_free(), unless a node timeout is set */
};

/* Events of one lock, in order, each kind once. */
struct events {
    unsigned count;
    redlock_event kinds[4];
};

/* What somebody waits for, on the waiter's stack. */
struct call {
    const struct redlock__lease *lease;
    const struct redlock__inspection *inspection; /* if lease is NULL */
    bool detaching;                               /* waits for a renewal to end */
    bool asleep;                                  /* in the client's list, on its condition */
    bool woken;                                   /* signalled, since its verdict is there */
    struct call *next, *prev;
    pthread_cond_t verdict;
};

struct redlock_client {
    struct redlock__settings *settings;
    struct redlock__origin *origin;
    atomic_uint arriving; /* callers on their way to the mutex */

    pthread_mutex_t mutex; /* guards all that follows */
    struct redlock__engine *engine;
    struct redlock__io *io;
    struct call *driver;
    struct call *asleep_head, *asleep_tail;
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
};

struct redlock_lock {
    redlock_client *client;
    struct redlock__lease *lease; /* NULL before it begins and after it is forgotten */
    struct call *call;            /* who waits for its operation */
    bool started;                 /* its operation was begun by redlock_start_* */
    bool called;                  /* in the client's list of callbacks due */
    redlock_lock *next_call;
    struct events to_call, unread;
    struct redlock__signal signal; /* raised while `unread` has some */
    redlock_lock_options options;  /* whose on_event is NULL once released */
    redlock_lock *next_carrier, *prev_carrier;
};

struct redlock_cancel_handle {
    struct redlock__origin *origin;
    atomic_bool cancelled;
    pthread_mutex_t mutex; /* guards the list */
    redlock_lock *carriers;
};

static bool is_here(const redlock_client *client)
{
    return redlock__origin_here(client->origin);
}

/* ---- events ------------------------------------------------------------- */

static void push_event(struct events *events, redlock_event kind)
{
    for (unsigned i = 0; i < events->count; i++)
        if (events->kinds[i] == kind)
            return;
    assert(events->count < sizeof events->kinds / sizeof events->kinds[0]);
    events->kinds[events->count++] = kind;
}

static redlock_event pop_event(struct events *events)
{
    redlock_event first = events->kinds[0];

    if (events->count == 0)
        return REDLOCK_EVENT_NONE;
    events->count--;
    memmove(events->kinds, events->kinds + 1, events->count * sizeof events->kinds[0]);
    return first;
}

static void queue_callback_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    if (lock->called || lock->to_call.count == 0)
        return;
    lock->called = true;
    lock->next_call = NULL;
    if (client->to_call_head == NULL)
        client->to_call_head = lock;
    else
        client->to_call_tail->next_call = lock;
    client->to_call_tail = lock;
}

static void unqueue_callback_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    redlock_lock **link = &client->to_call_head, *before = NULL;

    if (!lock->called)
        return;
    for (; *link != lock; link = &(*link)->next_call)
        before = *link;
    *link = lock->next_call;
    if (client->to_call_tail == lock)
        client->to_call_tail = before;
    lock->called = false;
}

static void wake_party_locked(redlock_client *client, enum redlock__party party, int64_t until_ns)
{
    if (redlock__io_stale(client->io, party, until_ns))
        redlock__io_wake(client->io, party);
}

static void wake_call_locked(redlock_client *client, struct call *call)
{
    if (call->asleep && !call->woken) {
        call->woken = true;
        client->woken++;
        (void)pthread_cond_signal(&call->verdict);
    }
    if (call == client->driver)
        wake_party_locked(client, REDLOCK__DRIVER, INT64_MIN);
}

static void end_start_locked(redlock_lock *lock)
{
    if (lock->started)
        lock->client->started--;
    lock->started = false;
}

static void route_event_locked(redlock_lock *lock, redlock_event event)
{
    if (event == REDLOCK_EVENT_DONE) {
        if (lock->call != NULL)
            wake_call_locked(lock->client, lock->call);
        if (!lock->started)
            return;
        end_start_locked(lock);
    }
    if (event != REDLOCK_EVENT_RENEWED) {
        push_event(&lock->unread, event);
        if (lock->signal.fds[0] >= 0)
            redlock__signal_raise(&lock->signal);
    }
    if (lock->options.on_event != NULL) {
        push_event(&lock->to_call, event);
        queue_callback_locked(lock);
    }
}

static bool call_is_over(const struct call *call)
{
    if (call->lease == NULL)
        return call->inspection->started && call->inspection->owed == 0;
    if (call->detaching)
        return call->lease->state != REDLOCK__LEASE_RENEWING;
    return call->lease->op == REDLOCK__OP_NONE;
}

static void take_events_locked(redlock_client *client)
{
    struct redlock__lease *lease;
    redlock_event event;

    while ((event = redlock__engine_pull_event(client->engine, &lease)) != REDLOCK_EVENT_NONE)
        route_event_locked(lease->user, event);
    if (client->unannounced > 0)
        for (struct call *call = client->asleep_head; call != NULL; call = call->next)
            if (call_is_over(call))
                wake_call_locked(client, call);
    if (client->unannounced > 0 && client->driver != NULL && call_is_over(client->driver))
        wake_call_locked(client, client->driver);
    if (client->settings->log != NULL && !client->line_waits)
        client->line_waits =
            redlock__engine_pull_log(client->engine, &client->line_level, client->line);
}

/* Something is due to the application. */
static bool owes_callback_locked(const redlock_client *client)
{
    return client->to_call_head != NULL || client->line_waits;
}

/* Somebody is about to come through settle_locked(): a caller that waits for the mutex, or one
 * that the scheduler has still to run, which the driver does not wait for longer than DEFER_MS. */
static bool others_will_send_locked(const redlock_client *client)
{
    bool driver_in_poll = redlock__io_stale(client->io, REDLOCK__DRIVER, INT64_MIN);

    return atomic_load(&client->arriving) > 0 ||
           (client->woken > 0 && (client->brief || !driver_in_poll));
}

/* After every change: sends, tells who waits, wakes the driver if it would miss something. */
static void settle_locked(redlock_client *client)
{
    if (!others_will_send_locked(client))
        redlock__io_flush(client->io);
    take_events_locked(client);
    wake_party_locked(client, REDLOCK__DRIVER, redlock__engine_next_deadline(client->engine));
    if (owes_callback_locked(client)) {
        if (client->threaded)
            wake_party_locked(client, REDLOCK__BACKGROUND, INT64_MIN);
        else
            redlock__io_wake(client->io, REDLOCK__BACKGROUND);
    }
}

/* ---- waiting ------------------------------------------------------------ */

/* When somebody has to look at the sockets at the latest if nobody waits for them. */
static int64_t next_look_locked(const redlock_client *client)
{
    int64_t next_ns = redlock__engine_next_deadline(client->engine);
    int64_t soon_ns = redlock__ms_to_ns(STRAGGLER_MS);

    if (redlock__engine_owed(client->engine))
        next_ns = redlock__min(next_ns, redlock__clock_ns() + soon_ns);
    return next_ns;
}

static void leave_locked(redlock_client *client)
{
    if (client->driver != NULL)
        return;
    if (client->asleep_head != NULL)
        (void)pthread_cond_signal(&client->asleep_head->verdict);
    else
        wake_party_locked(client, REDLOCK__BACKGROUND, next_look_locked(client));
}

static void drive_locked(redlock_client *client, struct call *call)
{
    client->driver = call;
    while (!call_is_over(call)) {
        int64_t until_ns = redlock__engine_next_deadline(client->engine);
        bool brief = client->woken > 0;
        if (brief)
            until_ns = redlock__min(until_ns, redlock__clock_ns() + redlock__ms_to_ns(DEFER_MS));
        client->brief = brief;
        redlock__io_watch(client->io, REDLOCK__DRIVER, REDLOCK__WATCH_ALL, until_ns);
        (void)pthread_mutex_unlock(&client->mutex);
        redlock__io_poll(client->io, REDLOCK__DRIVER);
        (void)pthread_mutex_lock(&client->mutex);
        redlock__io_read(client->io, REDLOCK__DRIVER);
        client->brief = false;
        if (brief)
            redlock__io_flush(client->io);
        settle_locked(client);
    }
    client->driver = NULL;
}

static void sleep_locked(redlock_client *client, struct call *call)
{
    (void)pthread_cond_init(&call->verdict, NULL);
    call->asleep = true;
    call->next = NULL;
    call->prev = client->asleep_tail;
    *(call->prev != NULL ? &call->prev->next : &client->asleep_head) = call;
    client->asleep_tail = call;
    (void)pthread_cond_wait(&call->verdict, &client->mutex);
    *(call->prev != NULL ? &call->prev->next : &client->asleep_head) = call->next;
    *(call->next != NULL ? &call->next->prev : &client->asleep_tail) = call->prev;
    call->asleep = false;
    if (call->woken)
        client->woken--;
    call->woken = false;
    (void)pthread_cond_destroy(&call->verdict);
}

static void wait_locked(redlock_client *client, struct call *call)
{
    settle_locked(client);
    while (!call_is_over(call)) {
        if (client->driver == NULL)
            drive_locked(client, call);
        else
            sleep_locked(client, call);
    }
}

/* Takes the mutex for an operation. Returns what leave() needs. */
static int enter(redlock_client *client)
{
    int cancel_state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)atomic_fetch_add(&client->arriving, 1);
    (void)pthread_mutex_lock(&client->mutex);
    (void)atomic_fetch_sub(&client->arriving, 1);
    if (client->driver == NULL &&
        redlock__clock_ns() - redlock__io_looked_ns(client->io) >= redlock__ms_to_ns(IDLE_MS))
        redlock__io_look(client->io);
    return cancel_state;
}

static void leave(redlock_client *client, int cancel_state)
{
    settle_locked(client);
    leave_locked(client);
    (void)pthread_mutex_unlock(&client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
}

/* ---- the background thread ---------------------------------------------- */

/* Runs one callback that is due. */
static void call_back_locked(redlock_client *client, redlock_lock *lock)
{
    redlock_event_fn *on_event = lock->options.on_event;
    void *context = lock->options.event_context;
    redlock_event event = pop_event(&lock->to_call);

    unqueue_callback_locked(lock);
    queue_callback_locked(lock);
    client->calling = lock;
    client->calling_thread = pthread_self();
    (void)pthread_mutex_unlock(&client->mutex);
    on_event(context, lock, event);
    (void)pthread_mutex_lock(&client->mutex);
    client->calling = NULL;
    (void)pthread_cond_broadcast(&client->called);
}

/* True if code of the application ran, for which the mutex was let go. */
static bool dispatch_locked(redlock_client *client)
{
    bool any = owes_callback_locked(client);

    while (client->to_call_head != NULL)
        call_back_locked(client, client->to_call_head);
    while (client->line_waits) {
        (void)pthread_mutex_unlock(&client->mutex);
        client->settings->log(client->settings->log_context, client->line_level, client->line);
        (void)pthread_mutex_lock(&client->mutex);
        client->line_waits =
            redlock__engine_pull_log(client->engine, &client->line_level, client->line);
    }
    return any;
}

/* Sleeps in poll until its next look; between two looks it watches what is being set up, and
 * everything only while a started operation has nobody else who reads its answers. */
static void background_turn_locked(redlock_client *client)
{
    bool all = client->started > 0;

    redlock__io_watch(client->io, REDLOCK__BACKGROUND,
                      all ? REDLOCK__WATCH_ALL : REDLOCK__WATCH_UNSETTLED,
                      next_look_locked(client));
    (void)pthread_mutex_unlock(&client->mutex);
    redlock__io_poll(client->io, REDLOCK__BACKGROUND);
    (void)pthread_mutex_lock(&client->mutex);
    redlock__io_read(client->io, REDLOCK__BACKGROUND);
    if (client->driver == NULL && !all)
        redlock__io_look(client->io);
}

static void *run_background(void *argument)
{
    redlock_client *client = argument;

    (void)pthread_mutex_lock(&client->mutex);
    while (!client->stopping) {
        settle_locked(client);
        if (!dispatch_locked(client))
            background_turn_locked(client);
    }
    (void)pthread_mutex_unlock(&client->mutex);
    return NULL;
}

/* ---- client ------------------------------------------------------------- */

static struct redlock__engine *make_engine(const redlock_client *client)
{
    const struct redlock__settings *settings = client->settings;
    struct redlock__node_config nodes[REDLOCK_MAX_NODES] = {0};
    struct redlock__engine_config config = {.n = settings->n,
                                            .nodes = nodes,
                                            .quorum = settings->quorum,
                                            .drift_ppm = settings->drift_ppm,
                                            .max_ttl_ms = settings->max_ttl_ms,
                                            .node_timeout_ms = settings->node_timeout_ms,
                                            .entropy = redlock__origin_entropy,
                                            .entropy_context = client->origin};

    for (uint32_t i = 0; i < settings->n; i++) {
        const struct redlock__endpoint *endpoint = &settings->endpoints[i];
        memcpy(nodes[i].address, endpoint->address, sizeof nodes[i].address);
        nodes[i].user = endpoint->user;
        nodes[i].password = endpoint->password;
        nodes[i].client_name = settings->client_name;
        nodes[i].database = endpoint->database;
        nodes[i].connect_timeout_ns = redlock__ms_to_ns(settings->connect_timeout_ms);
        nodes[i].silence_limit_ns = redlock__ms_to_ns(settings->silence_limit_ms);
        redlock__origin_entropy(client->origin, &nodes[i].seed, sizeof nodes[i].seed);
    }
    return redlock__engine_new(&config, redlock__clock_ns());
}

static void say(char *text, size_t text_size, const char *what)
{
    if (text != NULL)
        (void)snprintf(text, text_size, "%s", what);
}

static void free_parts(redlock_client *client)
{
    redlock__io_free(client->io, true);
    redlock__engine_free(client->engine);
    redlock__origin_free(client->origin);
    redlock__settings_free(client->settings);
    (void)pthread_cond_destroy(&client->called);
    (void)pthread_mutex_destroy(&client->mutex);
    free(client);
}

static int start_client(redlock_client *client, char *text, size_t text_size)
{
    int rc;

    client->origin = redlock__origin_new();
    if (client->origin == NULL) {
        say(text, text_size, "the system gives no entropy");
        return REDLOCK_ERR_SYSTEM;
    }
    client->engine = make_engine(client);
    if (client->engine == NULL) {
        say(text, text_size, "out of memory");
        return REDLOCK_ERR_MEMORY;
    }
    say(text, text_size, "the system gives no descriptor");
    rc = redlock__io_new(client->settings, client->engine, &client->io, text, text_size);
    if (rc != 0)
        return rc;
    if (client->settings->external_loop) {
        settle_locked(client);
        return 0;
    }
    client->threaded = true;
    if (redlock__start_thread(&client->background, false, run_background, client) != 0) {
        client->threaded = false;
        say(text, text_size, "the system gives no thread");
        return REDLOCK_ERR_SYSTEM;
    }
    return 0;
}

int redlock_client_new(const redlock_options *options, redlock_client **client, char *text,
                       size_t text_size)
{
    redlock_client *made;
    int rc;

    say(text, text_size, "");
    if (options == NULL || client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return REDLOCK_ERR_MEMORY;
    (void)pthread_mutex_init(&made->mutex, NULL);
    (void)pthread_cond_init(&made->called, NULL);
    rc = redlock__settings_new(options, &made->settings, text, text_size);
    if (rc == 0)
        rc = start_client(made, text, text_size);
    if (rc != 0) {
        free_parts(made);
        return rc;
    }
    say(text, text_size, "");
    *client = made;
    return 0;
}

/* Removals already under way, also behind answers that are owed. */
static void flush_removals(redlock_client *client)
{
    int64_t most_ms = client->settings->node_timeout_ms;
    int64_t end_ns = redlock__clock_ns() + redlock__ms_to_ns(most_ms != 0 ? most_ms : FLUSH_MS);

    redlock__io_flush(client->io);
    while (redlock__engine_flushing(client->engine) && redlock__clock_ns() < end_ns) {
        int64_t next_ns = redlock__engine_next_deadline(client->engine);
        redlock__io_watch(client->io, REDLOCK__DRIVER, REDLOCK__WATCH_ALL,
                          redlock__min(next_ns, end_ns));
        redlock__io_poll(client->io, REDLOCK__DRIVER);
        redlock__io_read(client->io, REDLOCK__DRIVER);
        redlock__io_flush(client->io);
    }
}

void redlock_client_free(redlock_client *client)
{
    int cancel_state;

    if (client == NULL)
        return;
    if (!is_here(client)) { /* the engine may be half way through a change: left as it is */
        redlock__io_free(client->io, false);
        redlock__origin_free(client->origin);
        redlock__settings_free(client->settings);
        free(client);
        return;
    }
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (client->threaded) {
        (void)pthread_mutex_lock(&client->mutex);
        client->stopping = true;
        redlock__io_wake(client->io, REDLOCK__BACKGROUND);
        (void)pthread_mutex_unlock(&client->mutex);
        (void)pthread_join(client->background, NULL);
    }
    flush_removals(client);
    free_parts(client);
    (void)pthread_setcancelstate(cancel_state, NULL);
}

size_t redlock_health(const redlock_client *client, redlock_node_health *nodes, size_t count)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;

    if (client == NULL || !is_here(client))
        return 0;
    if (nodes == NULL)
        count = 0;
    (void)pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < c->settings->n && i < count; i++) {
        const struct redlock__node *node = redlock__engine_node(c->engine, i);
        enum redlock__node_phase phase = redlock__node_phase(node);
        nodes[i].state = phase == REDLOCK__NODE_PHASE_DOWN    ? REDLOCK_NODE_DOWN
                         : phase == REDLOCK__NODE_PHASE_READY ? REDLOCK_NODE_READY
                                                              : REDLOCK_NODE_CONNECTING;
        nodes[i].pending = redlock__node_pending(node);
        nodes[i].connects = redlock__node_connects(node);
        memcpy(nodes[i].address, c->settings->endpoints[i].address, sizeof nodes[i].address);
        say(nodes[i].text, sizeof nodes[i].text, redlock__node_text(node));
    }
    (void)pthread_mutex_unlock(&c->mutex);
    return client->settings->n;
}

int redlock_stats_get(const redlock_client *client, redlock_stats *stats)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    redlock_stats all = {.size = sizeof all};
    size_t size;

    if (client == NULL || stats == NULL || stats->size < sizeof stats->size)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    (void)pthread_mutex_lock(&c->mutex);
    redlock__engine_stats(c->engine, &all);
    (void)pthread_mutex_unlock(&c->mutex);
    size = stats->size;
    if (size > sizeof all)
        memset((char *)stats + sizeof all, 0, size - sizeof all);
    memcpy(stats, &all, size < sizeof all ? size : sizeof all);
    stats->size = size;
    return 0;
}

/* ---- cancelling --------------------------------------------------------- */

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

static bool is_cancelled(const redlock_lock *lock)
{
    return lock->options.cancel != NULL && atomic_load(&lock->options.cancel->cancelled);
}

/* Ends the operation that runs, if its handle was cancelled. */
static void stop_if_cancelled_locked(redlock_lock *lock)
{
    if (is_cancelled(lock) && lock->lease != NULL && lock->lease->op != REDLOCK__OP_NONE)
        redlock__engine_stop(lock->client->engine, lock->lease, REDLOCK_CANCELLED,
                             redlock__clock_ns());
}

static void cancel_lock(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    int cancel_state = enter(client);

    stop_if_cancelled_locked(lock);
    if (!client->threaded)
        redlock__io_wake(client->io, REDLOCK__BACKGROUND);
    leave(client, cancel_state);
}

void redlock_cancel(redlock_cancel_handle *cancel)
{
    if (cancel == NULL || !redlock__origin_here(cancel->origin))
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    atomic_store(&cancel->cancelled, true);
    for (redlock_lock *lock = cancel->carriers; lock != NULL; lock = lock->next_carrier)
        cancel_lock(lock);
    (void)pthread_mutex_unlock(&cancel->mutex);
}

static void register_carrier(redlock_lock *lock)
{
    redlock_cancel_handle *cancel = lock->options.cancel;

    if (cancel == NULL)
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    lock->next_carrier = cancel->carriers;
    if (cancel->carriers != NULL)
        cancel->carriers->prev_carrier = lock;
    cancel->carriers = lock;
    (void)pthread_mutex_unlock(&cancel->mutex);
}

static void unregister_carrier(redlock_lock *lock)
{
    redlock_cancel_handle *cancel = lock->options.cancel;

    if (cancel == NULL)
        return;
    (void)pthread_mutex_lock(&cancel->mutex);
    if (lock->prev_carrier != NULL)
        lock->prev_carrier->next_carrier = lock->next_carrier;
    else
        cancel->carriers = lock->next_carrier;
    if (lock->next_carrier != NULL)
        lock->next_carrier->prev_carrier = lock->prev_carrier;
    (void)pthread_mutex_unlock(&cancel->mutex);
}

/* ---- locks: life -------------------------------------------------------- */

/* Checks the arguments of acquire and adopt, and makes a handle without a lease. */
static int lock_new(redlock_client *client, const void *key, size_t key_len,
                    const redlock_lock_options *options, char name[REDLOCK_MAX_KEY_LEN],
                    size_t *name_len, redlock_lock **lock)
{
    redlock_lock *made;
    int rc;

    if (client == NULL || key == NULL || lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    rc = redlock__full_key(client->settings, key, key_len, name, name_len);
    if (rc != 0)
        return rc;
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return REDLOCK_ERR_MEMORY;
    rc = redlock__lock_options_check(client->settings, options, &made->options);
    if (rc != 0) {
        free(made);
        return rc;
    }
    made->client = client;
    made->signal = (struct redlock__signal){.fds = {-1, -1}};
    register_carrier(made);
    *lock = made;
    return 0;
}

static void lock_free(redlock_lock *lock)
{
    unregister_carrier(lock);
    redlock__signal_close(&lock->signal);
    free(lock);
}

/* In a forked child. A cancel handle's list can't be locked there, so what is in one stays. */
static int discard(redlock_lock *lock)
{
    redlock__signal_close(&lock->signal);
    if (lock->options.cancel == NULL)
        free(lock);
    return REDLOCK_ERR_FORKED;
}

/* From here on no callback of this lock starts; one that runs in another thread is waited for. */
static void silence_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    lock->options.on_event = NULL;
    unqueue_callback_locked(lock);
    if (lock->call != NULL && lock->lease != NULL) /* in that callback */
        redlock__engine_stop(client->engine, lock->lease, REDLOCK_CANCELLED, redlock__clock_ns());
    settle_locked(client);
    while (client->calling == lock && !pthread_equal(client->calling_thread, pthread_self()))
        (void)pthread_cond_wait(&client->called, &client->mutex);
}

static void forget_locked(redlock_lock *lock, bool leave_keys)
{
    end_start_locked(lock);
    if (lock->lease != NULL)
        redlock__engine_forget(lock->client->engine, lock->lease, leave_keys, redlock__clock_ns());
    lock->lease = NULL;
}

/* ---- locks: results ----------------------------------------------------- */

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
        results[i].vote = lock->lease->votes[i].vote;
        results[i].elapsed_us = lock->lease->votes[i].elapsed_us;
        memcpy(results[i].text, lock->lease->votes[i].text, sizeof results[i].text);
    }
}

static void store_results_locked(const redlock_lock *lock)
{
    if (lock->options.results != NULL)
        copy_results_locked(lock, lock->options.results, lock->options.result_count);
}

/* Waits for the operation that runs. */
static int wait_for_operation_locked(redlock_lock *lock)
{
    struct call call = {.lease = lock->lease};

    lock->call = &call;
    stop_if_cancelled_locked(lock);
    wait_locked(lock->client, &call);
    lock->call = NULL;
    store_results_locked(lock);
    return lock->lease->result;
}

static void start_operation_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;

    lock->started = true;
    client->started++;
    stop_if_cancelled_locked(lock);
    wake_party_locked(client, REDLOCK__BACKGROUND, INT64_MIN); /* it is to read the answers */
}

/* ---- locks: operations -------------------------------------------------- */

static struct redlock__lease_config lease_config(const redlock_lock *lock)
{
    const redlock_lock_options *o = &lock->options;

    return (struct redlock__lease_config){
        .ttl_ms = o->ttl_ms,
        .wait_ms = o->wait_ms,
        .retry_base_ms = o->retry_base_ms,
        .retry_cap_ms = o->retry_cap_ms,
        .min_validity_ms = o->min_validity_ms,
        .max_hold_ms = o->max_hold_ms,
        .node_timeout_ms = redlock__node_timeout_ms(lock->client->settings, o->ttl_ms),
        .renew = o->renew != 0};
}

/* The clock is read here, before the first byte of the attempt is queued. */
static int begin_acquire_locked(redlock_lock *lock, const char *name, size_t name_len)
{
    struct redlock__lease_config config = lease_config(lock);
    int rc = redlock__engine_acquire(lock->client->engine, name, name_len, &config,
                                     redlock__clock_ns(), &lock->lease);

    if (rc == 0)
        lock->lease->user = lock;
    return rc;
}

int redlock_acquire(redlock_client *client, const void *key, size_t key_len,
                    const redlock_lock_options *options, redlock_lock **lock)
{
    char name[REDLOCK_MAX_KEY_LEN];
    size_t name_len;
    redlock_lock *made;
    int cancel_state, rc;

    rc = lock == NULL ? REDLOCK_ERR_ARGUMENT
                      : lock_new(client, key, key_len, options, name, &name_len, &made);
    if (rc != 0)
        return rc;
    cancel_state = enter(client);
    if (!client->threaded) {
        rc = REDLOCK_ERR_STATE;
    } else if (is_cancelled(made)) {
        rc = REDLOCK_CANCELLED;
        store_results_locked(made);
    } else {
        rc = begin_acquire_locked(made, name, name_len);
        if (rc == 0)
            rc = wait_for_operation_locked(made);
    }
    if (rc != 0)
        forget_locked(made, false);
    leave(client, cancel_state);
    if (rc != 0)
        lock_free(made);
    else
        *lock = made;
    return rc;
}

int redlock_start_acquire(redlock_client *client, const void *key, size_t key_len,
                          const redlock_lock_options *options, redlock_lock **lock)
{
    char name[REDLOCK_MAX_KEY_LEN];
    size_t name_len;
    redlock_lock *made;
    int cancel_state, rc;

    rc = lock == NULL ? REDLOCK_ERR_ARGUMENT
                      : lock_new(client, key, key_len, options, name, &name_len, &made);
    if (rc != 0)
        return rc;
    cancel_state = enter(client);
    rc = is_cancelled(made) ? REDLOCK_CANCELLED : begin_acquire_locked(made, name, name_len);
    if (rc == 0)
        start_operation_locked(made);
    leave(client, cancel_state);
    if (rc != 0)
        lock_free(made);
    else
        *lock = made;
    return rc;
}

int redlock_adopt(redlock_client *client, const void *key, size_t key_len, const char *token,
                  const redlock_lock_options *options, redlock_lock **lock)
{
    char name[REDLOCK_MAX_KEY_LEN], value[REDLOCK__TOKEN_VALUE_LEN + 1];
    size_t name_len;
    uint32_t counted;
    redlock_lock *made;
    int cancel_state, rc;

    if (token == NULL || lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    rc = lock_new(client, key, key_len, options, name, &name_len, &made);
    if (rc != 0)
        return rc;
    rc = redlock__token_parse(client->settings, token, value, &counted);
    if (rc == 0) {
        struct redlock__lease_config config = lease_config(made);
        cancel_state = enter(client);
        rc = redlock__engine_adopt(client->engine, name, name_len, value, counted, &config,
                                   redlock__clock_ns(), &made->lease);
        if (rc == 0)
            made->lease->user = made;
        leave(client, cancel_state);
    }
    if (rc != 0)
        lock_free(made);
    else
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
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    if (ttl_ms != 0 && redlock__ttl_check(client->settings, ttl_ms, lock->options.min_validity_ms))
        return REDLOCK_ERR_TTL;
    cancel_state = enter(client);
    if (lock->lease == NULL || (wait && !client->threaded)) {
        rc = REDLOCK_ERR_STATE;
    } else if (is_cancelled(lock)) {
        rc = REDLOCK_CANCELLED;
    } else {
        rc = redlock__engine_extend(client->engine, lock->lease, ttl_ms, redlock__clock_ns());
        if (rc == 0 && wait)
            rc = wait_for_operation_locked(lock);
        else if (rc == 0)
            start_operation_locked(lock);
    }
    leave(client, cancel_state);
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
        redlock__engine_stop(client->engine, lease, REDLOCK_CANCELLED, redlock__clock_ns());
    if (lease->op != REDLOCK__OP_RELEASE && lease->state == REDLOCK__LEASE_ENDED)
        return lease->result;
    if (lease->op != REDLOCK__OP_RELEASE)
        rc = redlock__engine_release(client->engine, lease, redlock__clock_ns());
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
    if (!is_here(client))
        return discard(lock);
    cancel_state = enter(client);
    silence_locked(lock);
    rc = release_locked(lock);
    forget_locked(lock, false);
    leave(client, cancel_state);
    lock_free(lock);
    return rc;
}

int redlock_start_release(redlock_lock *lock)
{
    redlock_client *client;
    int cancel_state, rc;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    client = lock->client;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    cancel_state = enter(client);
    if (lock->lease == NULL || lock->lease->op != REDLOCK__OP_NONE)
        rc = REDLOCK_ERR_STATE;
    else
        rc = redlock__engine_release(client->engine, lock->lease, redlock__clock_ns());
    if (rc == 0)
        start_operation_locked(lock);
    leave(client, cancel_state);
    return rc;
}

/* 0 if the token of this lock is worth something to another process. */
static int check_handover(const redlock_lock *lock)
{
    const struct redlock__lease *lease = lock->lease;

    if (lease == NULL || lease->op != REDLOCK__OP_NONE)
        return REDLOCK_ERR_STATE;
    if (lease->state == REDLOCK__LEASE_LOST)
        return lease->lost_reason;
    if (lease->grant == NULL || lease->state == REDLOCK__LEASE_ENDED)
        return REDLOCK_ERR_STATE;
    if (lease->deadline_ns != 0 && !redlock__lease_held(lease, redlock__clock_ns()))
        return REDLOCK_EXPIRED;
    return 0;
}

static int detach_locked(redlock_lock *lock, char *token)
{
    redlock_client *client = lock->client;
    struct call call = {.lease = lock->lease, .detaching = true};
    int rc = check_handover(lock);

    if (rc != 0)
        return rc;
    if (!redlock__engine_detach(client->engine, lock->lease, redlock__clock_ns())) {
        client->unannounced++;
        wait_locked(client, &call);
        client->unannounced--;
        rc = check_handover(lock);
        if (rc != 0)
            return rc;
    }
    redlock__token_format(client->settings, lock->lease->grant->token, lock->lease->counted, token);
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
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    cancel_state = enter(client);
    rc = detach_locked(lock, token);
    leave(client, cancel_state);
    if (rc == 0)
        lock_free(lock);
    return rc;
}

/* ---- locks: questions --------------------------------------------------- */

/* The lease with the mutex held; NULL without it: none, or a forked child. */
static const struct redlock__lease *look_at(const redlock_lock *lock)
{
    if (lock == NULL || !is_here(lock->client))
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

int redlock_token(const redlock_lock *lock, char *token, size_t token_size)
{
    const struct redlock__lease *lease;
    int rc = REDLOCK_ERR_STATE;

    if (lock == NULL || token == NULL || token_size < REDLOCK_TOKEN_LEN)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(lock->client))
        return REDLOCK_ERR_FORKED;
    lease = look_at(lock);
    if (lease == NULL)
        return rc;
    if (lease->grant != NULL && lease->counted != 0) {
        redlock__token_format(lock->client->settings, lease->grant->token, lease->counted, token);
        rc = 0;
    }
    (void)pthread_mutex_unlock(&lock->client->mutex);
    return rc;
}

size_t redlock_node_results(const redlock_lock *lock, redlock_node_result *results, size_t count)
{
    if (lock == NULL || !is_here(lock->client))
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
    if (!is_here(lock->client))
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
    int cancel_state, rc = REDLOCK_ERR_SYSTEM;

    if (lock == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(lock->client))
        return REDLOCK_ERR_FORKED;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&lock->client->mutex);
    if (lock->signal.fds[0] < 0 && redlock__signal_open(&lock->signal) && lock->unread.count > 0)
        redlock__signal_raise(&lock->signal);
    if (lock->signal.fds[0] >= 0)
        rc = lock->signal.fds[0];
    (void)pthread_mutex_unlock(&lock->client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return rc;
}

redlock_event redlock_next_event(redlock_lock *lock)
{
    redlock_event event;
    int cancel_state;

    if (lock == NULL || !is_here(lock->client))
        return REDLOCK_EVENT_NONE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&lock->client->mutex);
    event = pop_event(&lock->unread);
    if (lock->unread.count == 0 && lock->signal.raised)
        redlock__signal_lower(&lock->signal);
    (void)pthread_mutex_unlock(&lock->client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return event;
}

/* ---- without a handle --------------------------------------------------- */

static void copy_inspection(const redlock_client *client,
                            const struct redlock__inspection *inspection,
                            redlock_node_inspection *nodes, size_t count)
{
    for (uint32_t i = 0; i < client->settings->n && i < count; i++) {
        nodes[i] = inspection->nodes[i];
        memcpy(nodes[i].result.address, client->settings->endpoints[i].address,
               sizeof nodes[i].result.address);
    }
}

int redlock_inspect(redlock_client *client, const void *key, size_t key_len,
                    redlock_inspection *sum, redlock_node_inspection *nodes, size_t node_count)
{
    char name[REDLOCK_MAX_KEY_LEN];
    size_t name_len;
    struct redlock__inspection *inspection;
    int cancel_state, rc;

    if (client == NULL || key == NULL || sum == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    if (!client->threaded)
        return REDLOCK_ERR_STATE;
    rc = redlock__full_key(client->settings, key, key_len, name, &name_len);
    if (rc != 0)
        return rc;
    cancel_state = enter(client);
    rc = redlock__engine_inspect(client->engine, name, name_len, redlock__clock_ns(), &inspection);
    if (rc == 0) {
        struct call call = {.inspection = inspection};
        client->unannounced++;
        wait_locked(client, &call);
        client->unannounced--;
        copy_inspection(client, inspection, nodes, nodes == NULL ? 0 : node_count);
        redlock__inspection_sum_up(inspection, client->settings->quorum, sum);
        redlock__engine_forget_inspection(client->engine, inspection);
    }
    leave(client, cancel_state);
    return rc;
}

/* ---- an application's own event loop ------------------------------------ */

int redlock_fd(const redlock_client *client)
{
    if (client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    return client->threaded ? REDLOCK_ERR_STATE : redlock__io_loop_fd(client->io);
}

int64_t redlock_next_timeout_ms(const redlock_client *client)
{
    redlock_client *c = (redlock_client *)(uintptr_t)client;
    int64_t next_ns, left_ns, timeout_ms = -1;

    if (client == NULL || !is_here(client) || client->threaded)
        return -1;
    (void)pthread_mutex_lock(&c->mutex);
    next_ns = redlock__engine_next_deadline(c->engine);
    left_ns = redlock__max(0, redlock__add(next_ns, -redlock__clock_ns()));
    if (owes_callback_locked(client))
        timeout_ms = 0;
    else if (next_ns != REDLOCK__NEVER)
        timeout_ms = redlock__add(left_ns, REDLOCK__MS - 1) / REDLOCK__MS;
    (void)pthread_mutex_unlock(&c->mutex);
    return timeout_ms;
}

int redlock_process(redlock_client *client)
{
    int cancel_state, rc = 0;

    if (client == NULL)
        return REDLOCK_ERR_ARGUMENT;
    if (!is_here(client))
        return REDLOCK_ERR_FORKED;
    if (client->threaded)
        return REDLOCK_ERR_STATE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    (void)pthread_mutex_lock(&client->mutex);
    if (client->calling != NULL) {
        rc = REDLOCK_ERR_STATE;
    } else {
        redlock__io_watch(client->io, REDLOCK__BACKGROUND, REDLOCK__WATCH_ALL, 0);
        redlock__io_poll(client->io, REDLOCK__BACKGROUND);
        redlock__io_read(client->io, REDLOCK__BACKGROUND);
        do
            settle_locked(client);
        while (dispatch_locked(client));
    }
    (void)pthread_mutex_unlock(&client->mutex);
    (void)pthread_setcancelstate(cancel_state, NULL);
    return rc;
}
