/* The roles that work by themselves: contender and prober. See worker.h. */
#include <string.h>

#include "grip.h"
#include "history.h"
#include "worker_self.h"

enum {
    STEP_MS = 5,        /* how often a holder asks whether it still holds */
    REFUSED_MS = 100,   /* after an answer that waiting doesn't change */
    EXTENDED_PART = 10, /* of the holds that aren't renewed, one of so many is extended */
    LONGEST_TTLS = 3    /* of a renewed hold */
};

struct plan {
    bool renew, extend;
    int64_t hold_ms;
    int64_t count_ms, extend_ms; /* into the hold */
};

static int64_t after_ms(int64_t from_ns, int64_t ms)
{
    return from_ns + ms * NS_PER_MS;
}

/* ---- contender ------------------------------------------------------------ */

static struct plan draw(struct worker_self *self)
{
    const struct worker_spec *spec = &self->spec;
    struct plan plan = {.renew =
                            stream_unit(&self->stream) < spec->renew && self->locker->kind->renews};

    plan.hold_ms = plan.renew
                       ? stream_between(&self->stream, spec->ttl_ms, LONGEST_TTLS * spec->ttl_ms)
                       : stream_between(&self->stream, spec->hold_ms[0], spec->hold_ms[1]);
    plan.extend = stream_below(&self->stream, EXTENDED_PART) == 0 && !plan.renew;
    plan.count_ms = stream_between(&self->stream, 0, plan.hold_ms);
    plan.extend_ms = stream_between(&self->stream, 0, plan.hold_ms);
    return plan;
}

/* Whoever doesn't ask goes on whatever the answer. */
static bool may_go_on(struct grip *grip)
{
    const struct worker_self *self = grip->self;
    bool held = grip_check(grip, false);

    return self->spec.blind ||
           (held && self->locker->kind->remaining_ms(grip->hold) > self->spec.margin_ms);
}

static void write_both(struct grip *grip)
{
    bool blind = grip->self->spec.blind;
    struct written written;

    (void)grip_write(grip, false, blind, &written);
    (void)grip_write(grip, true, blind, &written);
}

static void work_inside(struct grip *grip, const struct plan *plan)
{
    struct worker_self *self = grip->self;
    int64_t begin_ns = history_now(), end_ns = after_ms(begin_ns, plan->hold_ms);
    int64_t extend_ns = plan->extend ? after_ms(begin_ns, plan->extend_ms) : INT64_MAX;
    int64_t now_ns;

    while (may_go_on(grip) && (now_ns = history_now()) < end_ns) {
        int64_t step_ns = after_ms(now_ns, STEP_MS);

        if (now_ns >= extend_ns) {
            (void)grip_extend(grip, self->spec.ttl_ms, NULL);
            extend_ns = INT64_MAX;
            continue;
        }
        if (now_ns >= after_ms(begin_ns, plan->count_ms) && may_go_on(grip))
            grip_count(grip);
        if (!worker_sleep(self, step_ns < end_ns ? step_ns : end_ns))
            break;
    }
}

static void hold(struct grip *grip, const struct plan *plan)
{
    if (grip_check(grip, false) || grip->self->spec.blind) {
        (void)grip_enter(grip);
        write_both(grip);
        work_inside(grip, plan);
        write_both(grip);
        (void)grip_leave(grip, grip->self->spec.blind);
    }
    grip_release(grip, NULL);
}

/* Some answers come at once and again and again. */
static bool is_answer_of_others(const json_t *record)
{
    const char *rc = json_string_value(json_object_get(record, "rc"));

    return rc != NULL && (strcmp(rc, "busy") == 0 || strcmp(rc, "expired") == 0);
}

static void contend(struct worker_self *self)
{
    const struct worker_spec *spec = &self->spec;
    struct plan plan = draw(self);
    struct wish wish = {.name = spec->names[stream_below(&self->stream, spec->name_count)],
                        .ttl_ms = spec->ttl_ms,
                        .wait_ms = spec->wait_ms,
                        .renew = plan.renew,
                        .fence = spec->fence};
    int64_t begin_ns = history_now();
    json_t *record = NULL;
    struct grip *grip = grip_acquire(self, &wish, &record);

    if (grip != NULL)
        hold(grip, &plan);
    else if (!is_answer_of_others(record) || spec->wait_ms == 0)
        (void)worker_sleep(self, after_ms(begin_ns, REFUSED_MS));
    json_decref(record);
}

void contender_run(struct worker_self *self)
{
    while (worker_may_begin(self)) {
        contend(self);
        worker_cycle(self);
    }
}

/* ---- prober --------------------------------------------------------------- */

void prober_run(struct worker_self *self)
{
    const struct worker_spec *spec = &self->spec;
    int64_t next_ns = history_now();

    while (worker_may_begin(self)) {
        struct wish wish = {.name = spec->names[0], .ttl_ms = spec->ttl_ms, .fence = spec->fence};
        struct grip *grip = grip_acquire(self, &wish, NULL);

        if (grip != NULL)
            grip_release(grip, NULL);
        worker_cycle(self);
        do /* what was missed isn't made up for */
            next_ns = after_ms(next_ns, spec->every_ms);
        while (next_ns < history_now());
        (void)worker_sleep(self, next_ns);
    }
}
