/*
 * A thread and two connections a node: one hears keyspace events, the other asks what the key's
 * value and its expiry are. A key that changed in between tells its newer state, which has an
 * event of its own to come: a record may come twice, never wrong.
 *
 * The word that a key was removed doesn't say whose it was: a try that failed may have set and
 * removed one before the first question about it was asked. So it is asked who owns the key now.
 * What has come together is answered by one question a key: a node with much to tell on a busy
 * machine is not to be seconds ahead of the records about it.
 */
#include "observer.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history.h"
#include "runtime.h"

enum {
    LOOK_MS = 100,    /* how often a silent watcher looks whether it is over */
    AGAIN_MS = 20,    /* between attempts to connect */
    ANSWER_MS = 1000, /* of a node that isn't frozen */
    OWNER_LEN = 16,
    PENDING_MAX = 16 /* keys asked about at a time, once each, however much happened to them */
};

struct pending {
    redisReply *key;
    bool removed;
};

struct watcher {
    struct observer *observer;
    unsigned node;
    pthread_t thread;
    redisContext *events, *questions;
    struct pending pending[PENDING_MAX];
    unsigned pending_count;
    bool told; /* that it watches */
};

struct observer {
    struct runtime *runtime;
    struct history *history;
    atomic_bool over;
    sem_t watching;
    unsigned nodes;
    struct watcher watchers[]; /* nodes */
};

static void disconnect(struct watcher *watcher)
{
    while (watcher->pending_count > 0)
        freeReplyObject(watcher->pending[--watcher->pending_count].key);
    if (watcher->events != NULL)
        redisFree(watcher->events);
    if (watcher->questions != NULL)
        redisFree(watcher->questions);
    watcher->events = watcher->questions = NULL;
}

static bool asked(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);
    bool fine = reply != NULL && reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return fine;
}

static bool connect_both(struct watcher *watcher)
{
    const struct runtime *runtime = watcher->observer->runtime;

    watcher->events = runtime_connect(runtime, watcher->node, ANSWER_MS);
    watcher->questions = runtime_connect(runtime, watcher->node, ANSWER_MS);
    return watcher->events != NULL && watcher->questions != NULL &&
           asked(watcher->questions, "CONFIG SET notify-keyspace-events KEA") &&
           asked(watcher->events, "PSUBSCRIBE __keyevent@0__:*");
}

/* Keys and values that aren't text are not those of a lock of ours: no record. */
static void put(struct watcher *watcher, json_t *record)
{
    if (record != NULL)
        history_put(watcher->observer->history, record);
}

static size_t owner_length(const redisReply *owner)
{
    return owner->len < OWNER_LEN ? owner->len : OWNER_LEN;
}

static void record_gone(struct watcher *watcher, const redisReply *key, const char *how,
                        const redisReply *owner)
{
    json_t *record = json_pack("{s:s, s:i, s:s%, s:s}", "type", "keygone", "node",
                               (int)watcher->node, "name", key->str, key->len, "how", how);

    if (record != NULL && owner != NULL)
        (void)json_object_set_new(record, "owner", json_stringn(owner->str, owner_length(owner)));
    put(watcher, record);
}

static void record_there(struct watcher *watcher, const redisReply *key, const redisReply *owner,
                         const redisReply *when)
{
    put(watcher, json_pack("{s:s, s:i, s:s%, s:s%, s:I}", "type", "key", "node", (int)watcher->node,
                           "name", key->str, key->len, "owner", owner->str, owner_length(owner),
                           "when_ms", (json_int_t)when->integer));
}

/* Who owns the key now, after something happened to it; `removed`: it was removed. False: the
 * connection is gone. A script, as a server that is out of memory queues nothing for MULTI, but
 * extends leases all the same. */
static bool record_key(struct watcher *watcher, const redisReply *key, bool removed)
{
    static const char script[] =
        "return {redis.call('GET', KEYS[1]), redis.call('PEXPIRETIME', KEYS[1])}";
    redisReply *found =
        redisCommand(watcher->questions, "EVAL_RO %s 1 %b", script, key->str, key->len);
    bool connected = found != NULL;
    bool there = connected && found->type == REDIS_REPLY_ARRAY && found->elements == 2 &&
                 found->element[0]->type == REDIS_REPLY_STRING &&
                 found->element[1]->type == REDIS_REPLY_INTEGER && found->element[1]->integer > 0;

    if (removed)
        record_gone(watcher, key, "del", there ? found->element[0] : NULL);
    if (there)
        record_there(watcher, key, found->element[0], found->element[1]);
    freeReplyObject(found);
    return connected;
}

/* False: the connection is gone. */
static bool ask_all(struct watcher *watcher)
{
    bool connected = true;

    for (unsigned i = 0; i < watcher->pending_count; i++) {
        struct pending *pending = &watcher->pending[i];

        connected = connected && record_key(watcher, pending->key, pending->removed);
        freeReplyObject(pending->key);
    }
    watcher->pending_count = 0;
    return connected;
}

static bool is_same(const redisReply *a, const redisReply *b)
{
    return a->len == b->len && memcmp(a->str, b->str, a->len) == 0;
}

/* Takes the key over. False: the connection is gone. */
static bool add_pending(struct watcher *watcher, redisReply *key, bool removed)
{
    for (unsigned i = 0; i < watcher->pending_count; i++) {
        struct pending *pending = &watcher->pending[i];

        if (is_same(pending->key, key)) {
            pending->removed = pending->removed || removed;
            freeReplyObject(key);
            return true;
        }
    }
    watcher->pending[watcher->pending_count++] = (struct pending){key, removed};
    return watcher->pending_count < PENDING_MAX || ask_all(watcher);
}

/* SET with a time and PEXPIRE both tell "expire". */
static bool heard(struct watcher *watcher, redisReply *reply)
{
    const char *event;
    redisReply *key;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4 ||
        reply->element[2]->type != REDIS_REPLY_STRING ||
        reply->element[3]->type != REDIS_REPLY_STRING)
        return true;
    event = strchr(reply->element[2]->str, ':');
    key = reply->element[3];
    if (event == NULL || strncmp(key->str, "redlock:", 8) == 0)
        return true;
    event++;
    if (strcmp(event, "expire") == 0 || strcmp(event, "del") == 0) {
        reply->element[3] = NULL; /* it is kept */
        return add_pending(watcher, key, strcmp(event, "del") == 0);
    }
    if (strcmp(event, "expired") == 0 || strcmp(event, "evicted") == 0)
        record_gone(watcher, key, event, NULL);
    return true;
}

/* Waits for input by poll(), so that a frozen node isn't taken for a dead one. */
static bool hear_some(struct watcher *watcher)
{
    struct pollfd input = {.fd = watcher->events->fd, .events = POLLIN};
    redisReply *reply = NULL;
    bool connected = true;

    if (poll(&input, 1, LOOK_MS) <= 0)
        return true;
    if (redisBufferRead(watcher->events) != REDIS_OK)
        return false;
    while (connected &&
           (connected = redisGetReplyFromReader(watcher->events, (void **)&reply) == REDIS_OK) &&
           reply != NULL) {
        connected = heard(watcher, reply);
        freeReplyObject(reply);
    }
    return ask_all(watcher) && connected;
}

static void *watch(void *context)
{
    struct watcher *watcher = context;
    struct observer *observer = watcher->observer;

    while (!atomic_load(&observer->over)) {
        if (connect_both(watcher)) {
            if (!watcher->told)
                sem_post(&observer->watching);
            watcher->told = true;
            while (!atomic_load(&observer->over) && hear_some(watcher))
                ;
        }
        disconnect(watcher);
        if (!atomic_load(&observer->over))
            (void)poll(NULL, 0, AGAIN_MS);
    }
    return NULL;
}

struct observer *observer_new(struct runtime *runtime, unsigned nodes, struct history *history)
{
    struct observer *observer = calloc(1, sizeof *observer + nodes * sizeof observer->watchers[0]);

    if (observer == NULL)
        return NULL;
    observer->runtime = runtime;
    observer->history = history;
    (void)sem_init(&observer->watching, 0, 0);
    for (; observer->nodes < nodes; observer->nodes++) {
        struct watcher *watcher = &observer->watchers[observer->nodes];
        int error;

        watcher->observer = observer;
        watcher->node = observer->nodes + 1;
        error = pthread_create(&watcher->thread, NULL, watch, watcher);
        if (error != 0) {
            observer_free(observer);
            errno = error;
            return NULL;
        }
    }
    for (unsigned i = 0; i < nodes; i++)
        while (sem_wait(&observer->watching) != 0)
            ;
    return observer;
}

void observer_free(struct observer *observer)
{
    if (observer == NULL)
        return;
    atomic_store(&observer->over, true);
    for (unsigned i = 0; i < observer->nodes; i++)
        (void)pthread_join(observer->watchers[i].thread, NULL);
    (void)sem_destroy(&observer->watching);
    free(observer);
}
