/*
 * When a command has to end.
 *
 *     IDLE -> RUNNING -> TERMINATING -> KILLING
 *                  \__________________/
 *
 * While the lease is renewed, the deadline moves on and nothing happens. At deadline - grace
 * without a newer one the command is asked to end; from there a late renewal does not bring it
 * back, for it has begun to clean up, and it must not be able to stretch that for ever. At deadline
 * - margin it is killed. The margin is what the system may need to make killed processes disappear,
 * and validity ends only after it.
 *
 * Whoever runs this machine may have been asleep: both times are looked at on every call, and a
 * KILL that is due is never put behind a TERM.
 */
#include "watch.h"

#include "clock.h"

#define MARGIN_MS INT64_C(100)

int64_t watch_margin_ms(int64_t ttl_ms)
{
    return ttl_ms / 10 < MARGIN_MS ? ttl_ms / 10 : MARGIN_MS;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a - b for b >= 0, held at the lower end: a deadline of 0 means "long past". */
static int64_t before(int64_t a, int64_t b)
{
    return a < INT64_MIN + b ? INT64_MIN : a - b;
}

void watch_init(struct watch *watch, int64_t grace_ns, int64_t margin_ns)
{
    *watch = (struct watch){.state = WATCH_IDLE,
                            .grace_ns = grace_ns,
                            .margin_ns = margin_ns,
                            .terminate_ns = CLOCK_NEVER,
                            .kill_ns = CLOCK_NEVER};
}

static void set_deadline(struct watch *watch, int64_t deadline_ns)
{
    watch->deadline_ns = deadline_ns;
    watch->kill_ns = before(deadline_ns, watch->margin_ns);
    watch->terminate_ns = earlier(before(deadline_ns, watch->grace_ns), watch->kill_ns);
}

void watch_start(struct watch *watch, int64_t deadline_ns)
{
    watch->state = WATCH_RUNNING;
    set_deadline(watch, deadline_ns);
}

void watch_renewed(struct watch *watch, int64_t deadline_ns)
{
    if (watch->state == WATCH_RUNNING)
        set_deadline(watch, deadline_ns);
}

void watch_lost(struct watch *watch, int64_t now_ns)
{
    if (watch->state != WATCH_RUNNING && watch->state != WATCH_TERMINATING)
        return;
    watch->terminate_ns = earlier(watch->terminate_ns, now_ns);
    watch->kill_ns = earlier(watch->kill_ns, now_ns + watch->grace_ns);
}

void watch_orphaned(struct watch *watch, int64_t now_ns)
{
    if (watch->state != WATCH_IDLE)
        watch->kill_ns = earlier(watch->kill_ns, now_ns);
}

int64_t watch_next_ns(const struct watch *watch)
{
    switch (watch->state) {
    case WATCH_RUNNING:
        return earlier(watch->terminate_ns, watch->kill_ns);
    case WATCH_TERMINATING:
        return watch->kill_ns;
    case WATCH_IDLE:
    case WATCH_KILLING:
        break;
    }
    return CLOCK_NEVER;
}

enum watch_action watch_due(struct watch *watch, int64_t now_ns)
{
    if (watch->state == WATCH_IDLE || watch->state == WATCH_KILLING)
        return WATCH_NOTHING;
    if (now_ns >= watch->kill_ns) {
        watch->state = WATCH_KILLING;
        return WATCH_KILL;
    }
    if (watch->state == WATCH_RUNNING && now_ns >= watch->terminate_ns) {
        watch->state = WATCH_TERMINATING;
        return WATCH_TERMINATE;
    }
    return WATCH_NOTHING;
}
