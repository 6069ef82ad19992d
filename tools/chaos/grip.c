/* See grip.h. */
#include "grip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "history.h"

enum {
    STOPPED_MS = 250 /* nobody who is running is that late */
};

/* ---- calls ---------------------------------------------------------------- */

static json_t *call_record(const char *type, int64_t t, const char *op, int64_t number,
                           const char *name)
{
    return json_pack("{s:s, s:I, s:s, s:I, s:s}", "type", type, "t", (json_int_t)t, "op", op, "try",
                     (json_int_t)number, "name", name);
}

static void tell_invoke(const struct worker_self *self, const char *op, const struct wish *wish)
{
    json_t *record = call_record("invoke", history_now(), op, wish->number, wish->name);

    (void)json_object_update_new(
        record, json_pack("{s:I, s:I, s:b, s:b}", "ttl_ms", (json_int_t)wish->ttl_ms, "wait_ms",
                          (json_int_t)wish->wait_ms, "fence", wish->fence, "renew", wish->renew));
    worker_tell(self, record);
}

static void tell_return(const struct worker_self *self, const char *op, const struct wish *wish,
                        int64_t t, struct outcome *outcome, json_t **kept)
{
    json_t *record = call_record("return", t, op, wish->number, wish->name);

    (void)json_object_update_new(record, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "rc",
                                                   outcome->rc, "owner", outcome->owner, "fence",
                                                   (json_int_t)outcome->fence, "validity_ms",
                                                   (json_int_t)outcome->validity_ms, "deadline_ns",
                                                   (json_int_t)outcome->deadline_ns, "attempts",
                                                   (json_int_t)outcome->attempts));
    if (outcome->nodes != NULL)
        (void)json_object_set_new(record, "node", outcome->nodes);
    if (outcome->text[0] != '\0')
        (void)json_object_set_new(record, "text", json_string(outcome->text));
    if (kept != NULL)
        *kept = json_incref(record);
    worker_tell(self, record);
}

struct grip *grip_acquire(struct worker_self *self, struct wish *wish, json_t **record)
{
    struct outcome outcome = {.rc = "error"};
    struct grip *grip = calloc(1, sizeof *grip);
    struct hold *hold = NULL;
    int slot = shared_slot(self->shared, wish->name);
    int64_t t;

    wish->number = ++self->tries;
    tell_invoke(self, "acquire", wish);
    if (slot < 0)
        (void)snprintf(self->locker->failure, LOCKER_TEXT_LEN, "more than %d names", SHARED_NAMES);
    else if (grip != NULL)
        self->locker->kind->acquire(self->locker, wish, &outcome, &hold);
    t = history_now();
    tell_return(self, "acquire", wish, t, &outcome, record);
    if (hold == NULL) {
        free(grip);
        return NULL;
    }
    *grip = (struct grip){.self = self,
                          .hold = hold,
                          .slot = slot,
                          .session = shared_session(self->shared),
                          .held = true,
                          .asked_ns = t};
    (void)snprintf(grip->name, sizeof grip->name, "%s", wish->name);
    return grip;
}

bool grip_extend(struct grip *grip, int64_t ttl_ms, json_t **record)
{
    struct wish wish = {.name = grip->name,
                        .number = grip->hold->number,
                        .ttl_ms = ttl_ms,
                        .fence = grip->hold->fence > 0};
    struct outcome outcome;

    tell_invoke(grip->self, "extend", &wish);
    grip->self->locker->kind->extend(grip->hold, ttl_ms, &outcome);
    tell_return(grip->self, "extend", &wish, history_now(), &outcome, record);
    return strcmp(outcome.rc, "ok") == 0;
}

void grip_release(struct grip *grip, json_t **record)
{
    struct wish wish = {
        .name = grip->name, .number = grip->hold->number, .fence = grip->hold->fence > 0};
    struct outcome outcome;

    if (grip->inside)
        (void)grip_leave(grip, false);
    tell_invoke(grip->self, "release", &wish);
    grip->self->locker->kind->release(grip->hold, &outcome);
    tell_return(grip->self, "release", &wish, history_now(), &outcome, record);
    free(grip);
}

bool grip_check(struct grip *grip, bool tell)
{
    const struct worker_self *self = grip->self;
    int64_t now_ns = history_now(); /* before: what is true afterwards was true then */
    bool held = self->locker->kind->held(grip->hold);

    tell = tell || held != grip->held || now_ns - grip->asked_ns > STOPPED_MS * (int64_t)NS_PER_MS;
    grip->held = held;
    grip->asked_ns = now_ns;
    if (tell)
        worker_tell(self,
                    json_pack("{s:s, s:I, s:I, s:b}", "type", "check", "t", (json_int_t)now_ns,
                              "try", (json_int_t)grip->hold->number, "held", held));
    return held;
}

/* ---- what the lock guards ---------------------------------------------------- */

static json_t *inside_record(const struct grip *grip, const char *type)
{
    return json_pack("{s:s, s:I, s:I, s:s}", "type", type, "t", (json_int_t)history_now(), "try",
                     (json_int_t)grip->hold->number, "name", grip->name);
}

struct entry grip_enter(struct grip *grip)
{
    const struct worker_self *self = grip->self;
    struct entry entry = shared_enter(self->shared, grip->slot, self->spec.number);
    json_t *record = inside_record(grip, "enter");

    grip->inside = true;
    grip->counting = true;
    grip->counted = shared_count_begin(self->shared, grip->slot);
    (void)json_object_update_new(
        record, json_pack("{s:b, s:I}", "ok", entry.ok, "other", (json_int_t)entry.other));
    worker_tell(self, record);
    return entry;
}

void grip_count(struct grip *grip)
{
    if (grip->counting && !shared_count_end(grip->self->shared, grip->slot, grip->counted))
        grip->lost_update = true;
    grip->counting = false;
}

struct left grip_leave(struct grip *grip, bool blind)
{
    const struct worker_self *self = grip->self;
    struct left left;
    json_t *record;

    if (blind || grip_check(grip, false))
        grip_count(grip);
    grip->counting = grip->inside = false;
    left.lost_update = grip->lost_update;
    left.ok = shared_leave(self->shared, grip->slot, self->spec.number);
    record = inside_record(grip, "leave");
    (void)json_object_update_new(
        record, json_pack("{s:b, s:b}", "ok", left.ok, "lost_update", left.lost_update));
    worker_tell(self, record);
    return left;
}

bool grip_write(struct grip *grip, bool fenced, bool blind, struct written *written)
{
    const struct worker_self *self = grip->self;
    int64_t fence = grip->hold->fence;
    bool believed = grip_check(grip, false);
    json_t *record;

    if ((!believed && !blind) || (fenced && fence == 0))
        return false;
    *written = shared_write(self->shared, grip->slot, fenced, fence, grip->session);
    record = inside_record(grip, "write");
    (void)json_object_update_new(
        record, json_pack("{s:b, s:I, s:I, s:b, s:b, s:b}", "fenced", fenced, "fence",
                          (json_int_t)fence, "sequence", (json_int_t)written->sequence, "accepted",
                          written->accepted, "stale", written->stale, "believed", believed));
    worker_tell(self, record);
    return true;
}
