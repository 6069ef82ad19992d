/*
 * Who works, who sleeps, who is woken: the facade's threads, under one mutex.
 *
 * Who works. The mutex guards the engine, the links and all that is below. It is never held across
 * a poll that waits, or while code of the application runs. Whoever holds it may process: queue,
 * send, read. "Driver" is only the caller who sits in poll. A caller that finds no driver drives
 * until its own verdict, so a lone caller reads its answers itself and no thread is switched on its
 * path. All others sleep, each on its own condition, and are signalled when their verdict is there:
 * once the mutex is free, or they would wake up only to wait for it.
 *
 * Who is woken. Three rules, checked by whoever changed something, before it lets the mutex go.
 * redlock__settle_locked(): a driver in poll is woken if its watch misses a link or a deadline, or
 * if its own verdict came through another thread. leave_locked(), where there is no driver: another
 * waiting caller is woken, to drive; that one does the same when it leaves, also if it finds its
 * own verdict there. So whenever the mutex is free, there is a driver, or somebody woken, or nobody
 * waiting. If nobody waits, the background thread is woken, unless its next look is soon enough:
 * by the next deadline, and within STRAGGLER_MS while answers are owed. Connections that are being
 * set up it watches anyway.
 *
 * Who sends. Callers announce themselves before they wait for the mutex, and those woken with
 * their verdict are known to come through it. Whoever sees others coming leaves the sending to
 * them, so that the writes of a crowd go out together; the driver, which polls no longer than
 * DEFER_MS then, bounds the delay.
 * Without a thread, redlock_process() sends, for the same reason; its descriptor is made readable.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "client_state.h"
#include "validity.h"

enum {
    STRAGGLER_MS = 10, /* answers owed to nobody who waits are read within this */
    DEFER_MS = 1,      /* what is to be sent waits no longer for more to be sent with it */
    IDLE_MS = 50       /* links not looked at for this long may have been closed */
};

/* ---- events ------------------------------------------------------------- */

static void push_event(struct redlock__events *events, redlock_event kind)
{
    for (unsigned i = 0; i < events->count; i++)
        if (events->kinds[i] == kind)
            return;
    assert(events->count < sizeof events->kinds / sizeof events->kinds[0]);
    events->kinds[events->count++] = (uint8_t)kind;
}

redlock_event redlock__pop_event(struct redlock__events *events)
{
    redlock_event first = (redlock_event)events->kinds[0];

    if (events->count == 0)
        return REDLOCK_EVENT_NONE;
    events->count--;
    memmove(events->kinds, events->kinds + 1, events->count * sizeof events->kinds[0]);
    return first;
}

static void queue_callback_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    struct redlock__lock_extras *extras = lock->extras;

    if (extras == NULL || extras->called || extras->to_call.count == 0)
        return;
    extras->called = true;
    extras->next_call = NULL;
    if (client->to_call_head == NULL)
        client->to_call_head = lock;
    else
        client->to_call_tail->extras->next_call = lock;
    client->to_call_tail = lock;
}

void redlock__unqueue_callback_locked(redlock_lock *lock)
{
    redlock_client *client = lock->client;
    redlock_lock **link = &client->to_call_head, *before = NULL;

    if (lock->extras == NULL || !lock->extras->called)
        return;
    for (; *link != lock; link = &(*link)->extras->next_call)
        before = *link;
    *link = lock->extras->next_call;
    if (client->to_call_tail == lock)
        client->to_call_tail = before;
    lock->extras->called = false;
}

void redlock__wake_party_locked(redlock_client *client, enum redlock__party party, int64_t until_ns)
{
    if (redlock__io_stale(client->io, party, until_ns))
        redlock__io_wake(client->io, party);
}

void redlock__signal_locked(redlock_client *client)
{
    while (client->signals > 0)
        (void)pthread_cond_signal(&client->to_signal[--client->signals]->verdict);
}

__attribute__((noinline)) static void unlock_and_signal(redlock_client *client)
{
    struct redlock__seat *seats[REDLOCK__SIGNALS];
    uint32_t count = client->signals;

    for (uint32_t i = 0; i < count; i++)
        seats[i] = client->to_signal[i];
    client->signals = 0;
    (void)pthread_mutex_unlock(&client->mutex);
    for (uint32_t i = 0; i < count; i++)
        (void)pthread_cond_signal(&seats[i]->verdict);
}

void redlock__unlock(redlock_client *client)
{
    if (client->signals > 0)
        unlock_and_signal(client);
    else
        (void)pthread_mutex_unlock(&client->mutex);
}

static void signal_later_locked(redlock_client *client, struct redlock__seat *seat)
{
    if (client->signals == REDLOCK__SIGNALS)
        redlock__signal_locked(client);
    client->to_signal[client->signals++] = seat;
}

static void wake_call_locked(redlock_client *client, struct redlock__call *call)
{
    if (call->asleep && !call->woken) {
        call->woken = true;
        client->woken++;
        signal_later_locked(client, call->seat);
    }
    if (call == client->driver)
        redlock__wake_party_locked(client, REDLOCK__DRIVER, INT64_MIN);
}

void redlock__end_start_locked(redlock_lock *lock)
{
    if (lock->started)
        lock->client->started--;
    lock->started = false;
}

static void route_event_locked(redlock_lock *lock, redlock_event event)
{
    struct redlock__lock_extras *extras = lock->extras;

    if (event == REDLOCK_EVENT_DONE) {
        if (lock->call != NULL)
            wake_call_locked(lock->client, lock->call);
        if (!lock->started)
            return;
        redlock__end_start_locked(lock);
    }
    if (event != REDLOCK_EVENT_RENEWED) {
        push_event(&lock->unread, event);
        if (extras != NULL && extras->signal.fds[0] >= 0)
            redlock__signal_raise(&extras->signal);
    }
    if (extras != NULL && extras->on_event != NULL) {
        push_event(&extras->to_call, event);
        queue_callback_locked(lock);
    }
}

static bool call_is_over(const struct redlock__call *call)
{
    if (call->lease != NULL)
        return call->detaching ? !redlock__engine_handing_on(call->lease)
                               : call->lease->op == REDLOCK__OP_NONE;
    if (call->inspection != NULL)
        return call->inspection->started && call->inspection->owed == 0;
    return call->init->done;
}

__attribute__((noinline)) static void wake_unannounced_locked(redlock_client *client)
{
    for (struct redlock__call *call = client->asleep_head; call != NULL; call = call->next)
        if (call_is_over(call))
            wake_call_locked(client, call);
    if (client->driver != NULL && call_is_over(client->driver))
        wake_call_locked(client, client->driver);
}

static void take_events_locked(redlock_client *client)
{
    struct redlock__lease *lease;
    redlock_event event;

    while ((event = redlock__engine_pull_event(client->engine, &lease)) != REDLOCK_EVENT_NONE)
        route_event_locked(lease->user, event);
    if (client->unannounced > 0)
        wake_unannounced_locked(client);
    if (client->settings->log != NULL && !client->line_waits)
        client->line_waits =
            redlock__engine_pull_log(client->engine, &client->line_level, client->line);
}

/* Something is due to the application. */
bool redlock__owes_callback_locked(const redlock_client *client)
{
    return client->to_call_head != NULL || client->line_waits;
}

/* Somebody is about to come through redlock__settle_locked(): a caller that waits for the mutex, or
 * one that the scheduler has still to run, which the driver does not wait for longer than DEFER_MS.
 */
static bool others_will_send_locked(const redlock_client *client)
{
    return atomic_load(&client->arriving) > 0 ||
           (client->woken > 0 &&
            (client->brief || !redlock__io_in_poll(client->io, REDLOCK__DRIVER)));
}

/* After every change: sends, tells who waits, wakes the driver if it would miss something. */
void redlock__settle_locked(redlock_client *client)
{
    if (redlock__io_has_news(client->io)) {
        if (client->threaded && !others_will_send_locked(client))
            redlock__io_flush(client->io);
        else if (!client->threaded && !client->processing)
            redlock__io_wake(client->io, REDLOCK__BACKGROUND);
    }
    take_events_locked(client);
    if (redlock__io_in_poll(client->io, REDLOCK__DRIVER))
        redlock__wake_party_locked(client, REDLOCK__DRIVER,
                                   redlock__engine_next_deadline(client->engine));
    if (redlock__owes_callback_locked(client)) {
        if (client->threaded)
            redlock__wake_party_locked(client, REDLOCK__BACKGROUND, INT64_MIN);
        else if (!client->processing)
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
        next_ns = redlock__min(next_ns, client->now_ns + soon_ns);
    return next_ns;
}

static void leave_locked(redlock_client *client)
{
    if (client->driver != NULL)
        return;
    if (client->asleep_head != NULL)
        signal_later_locked(client, client->asleep_head->seat);
    else
        redlock__wake_party_locked(client, REDLOCK__BACKGROUND, next_look_locked(client));
}

/* Until the call, which isn't over yet, is. */
static void drive_locked(redlock_client *client, struct redlock__call *call)
{
    int64_t sends_ns = REDLOCK__NEVER; /* what woken callers are waited for with is sent then */

    client->driver = call;
    client->drives++;
    do {
        int64_t until_ns = redlock__engine_next_deadline(client->engine);

        client->brief = client->woken > 0;
        if (!client->brief)
            sends_ns = REDLOCK__NEVER;
        else if (sends_ns == REDLOCK__NEVER)
            sends_ns = redlock__add(redlock__clock_ns(), redlock__ms_to_ns(DEFER_MS));
        until_ns = redlock__min(until_ns, sends_ns);
        redlock__io_watch(client->io, REDLOCK__DRIVER, REDLOCK__WATCH_ALL, until_ns);
        redlock__unlock(client);
        redlock__io_poll(client->io, REDLOCK__DRIVER);
        (void)pthread_mutex_lock(&client->mutex);
        client->now_ns = redlock__io_read(client->io, REDLOCK__DRIVER);
        if (sends_ns != REDLOCK__NEVER && redlock__clock_ns() >= sends_ns) {
            sends_ns = REDLOCK__NEVER;
            redlock__io_flush(client->io);
        }
        redlock__settle_locked(client);
    } while (!call_is_over(call));
    client->brief = false;
    client->driver = NULL;
}

static struct redlock__seat *take_seat_locked(redlock_client *client)
{
    struct redlock__seat *seat = client->seats;

    if (seat != NULL) {
        client->seats = seat->next;
        return seat;
    }
    seat = calloc(1, sizeof *seat);
    if (seat != NULL)
        (void)pthread_cond_init(&seat->verdict, NULL);
    return seat;
}

void redlock__free_seats(redlock_client *client)
{
    while (client->seats != NULL) {
        struct redlock__seat *seat = client->seats;

        client->seats = seat->next;
        (void)pthread_cond_destroy(&seat->verdict);
        free(seat);
    }
}

static void sleep_locked(redlock_client *client, struct redlock__call *call)
{
    redlock__signal_locked(client);
    call->seat = take_seat_locked(client);
    if (call->seat == NULL) { /* without one it can only look again */
        (void)pthread_mutex_unlock(&client->mutex);
        redlock__poll(NULL, 0, redlock__ms_to_ns(DEFER_MS));
        (void)pthread_mutex_lock(&client->mutex);
        client->now_ns = redlock__clock_ns();
        return;
    }
    call->asleep = true;
    call->next = NULL;
    call->prev = client->asleep_tail;
    *(call->prev != NULL ? &call->prev->next : &client->asleep_head) = call;
    client->asleep_tail = call;
    (void)pthread_cond_wait(&call->seat->verdict, &client->mutex);
    client->now_ns = redlock__clock_ns();
    *(call->prev != NULL ? &call->prev->next : &client->asleep_head) = call->next;
    *(call->next != NULL ? &call->next->prev : &client->asleep_tail) = call->prev;
    call->asleep = false;
    if (call->woken)
        client->woken--;
    call->woken = false;
    call->seat->next = client->seats;
    client->seats = call->seat;
}

void redlock__wait_locked(redlock_client *client, struct redlock__call *call)
{
    redlock__settle_locked(client);
    while (!call_is_over(call)) {
        if (client->driver == NULL) {
            drive_locked(client, call);
            return;
        }
        sleep_locked(client, call);
        redlock__settle_locked(client); /* others may have left the sending to it */
    }
}

/* Takes the mutex for an operation. Returns what redlock__leave() needs. */
int redlock__enter(redlock_client *client)
{
    int cancel_state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (client->threaded)
        (void)atomic_fetch_add(&client->arriving, 1);
    (void)pthread_mutex_lock(&client->mutex);
    if (client->threaded)
        (void)atomic_fetch_sub(&client->arriving, 1);
    client->now_ns = redlock__clock_ns();
    if (client->driver == NULL &&
        client->now_ns - redlock__io_looked_ns(client->io) >= redlock__ms_to_ns(IDLE_MS)) {
        redlock__io_look(client->io);
        client->now_ns = redlock__clock_ns();
    }
    return cancel_state;
}

void redlock__leave_settled(redlock_client *client, int cancel_state)
{
    leave_locked(client);
    redlock__unlock(client);
    (void)pthread_setcancelstate(cancel_state, NULL);
}

void redlock__leave(redlock_client *client, int cancel_state)
{
    redlock__settle_locked(client);
    redlock__leave_settled(client, cancel_state);
}

/* ---- the background thread ---------------------------------------------- */

/* Runs one callback that is due. */
static void call_back_locked(redlock_client *client, redlock_lock *lock)
{
    redlock_event_fn *on_event = lock->extras->on_event;
    void *context = lock->extras->event_context;
    redlock_event event = redlock__pop_event(&lock->extras->to_call);

    redlock__unqueue_callback_locked(lock);
    queue_callback_locked(lock);
    client->calling = lock;
    client->calling_thread = pthread_self();
    redlock__unlock(client);
    on_event(context, lock, event);
    (void)pthread_mutex_lock(&client->mutex);
    client->calling = NULL;
    (void)pthread_cond_broadcast(&client->called);
}

/* True if code of the application ran, for which the mutex was let go. */
bool redlock__dispatch_locked(redlock_client *client)
{
    bool any = redlock__owes_callback_locked(client);

    while (client->to_call_head != NULL)
        call_back_locked(client, client->to_call_head);
    while (client->line_waits) {
        redlock__unlock(client);
        client->settings->log(client->settings->log_context, client->line_level, client->line);
        (void)pthread_mutex_lock(&client->mutex);
        client->line_waits =
            redlock__engine_pull_log(client->engine, &client->line_level, client->line);
    }
    return any;
}

/* A driver that was there at the last look as well is one that waits for long. It looks after
 * everything, and wakes the background thread when it leaves. */
static bool driver_stays_locked(redlock_client *client)
{
    bool stays = client->driver != NULL && client->drives == client->drives_seen;

    client->drives_seen = client->drives;
    return stays;
}

/* Sleeps in poll until its next look; between two looks it watches what is being set up, and
 * everything only while a started operation has nobody else who reads its answers. */
static void background_turn_locked(redlock_client *client)
{
    bool all = client->started > 0, needed = !driver_stays_locked(client) || all;

    client->now_ns = redlock__clock_ns(); /* callbacks may have run */
    redlock__io_watch(client->io, REDLOCK__BACKGROUND,
                      all ? REDLOCK__WATCH_ALL : REDLOCK__WATCH_UNSETTLED,
                      needed ? next_look_locked(client) : REDLOCK__NEVER);
    redlock__unlock(client);
    redlock__io_poll(client->io, REDLOCK__BACKGROUND);
    (void)pthread_mutex_lock(&client->mutex);
    client->now_ns = redlock__io_read(client->io, REDLOCK__BACKGROUND);
    if (client->driver == NULL && !all)
        redlock__io_look(client->io);
}

void *redlock__run_background(void *argument)
{
    redlock_client *client = argument;

    (void)pthread_mutex_lock(&client->mutex);
    while (!client->stopping) {
        redlock__settle_locked(client);
        if (!redlock__dispatch_locked(client))
            background_turn_locked(client);
    }
    redlock__unlock(client);
    return NULL;
}
