/*
 * What was read goes into its lane, or is lost. Bytes of a command are in the lane before
 * it is known which it is, but don't leave it until then: so a trigger finds all of its command.
 */
#include "proxy_parts.h"

#include "delay.h"

bool lane_held_locked(const struct session *session, enum way way)
{
    return session->link->flow[way] == FLOW_HOLD || session->lanes[way].stop != PROXY_NOWHERE;
}

uint64_t lane_limit_locked(const struct session *session, enum way way)
{
    const struct lane *lane = &session->lanes[way];
    uint64_t limit = lane->stop < lane->cut ? lane->stop : lane->cut;

    if (session->link->flow[way] == FLOW_HOLD)
        return lane->queue.out;
    if (way == REQUESTS && lane->ending == ENDING_NONE && resp_undecided(&session->commands) &&
        session->commands.resp.start < limit)
        return session->commands.resp.start;
    return limit;
}

void lane_count_held_locked(struct session *session, enum way way)
{
    struct lane *lane = &session->lanes[way];
    uint64_t from = lane->queue.out;

    if (session->link->flow[way] != FLOW_HOLD && lane->stop > from)
        from = lane->stop;
    if (from < lane->counted_held)
        from = lane->counted_held;
    if (from >= lane->queue.in)
        return;
    session->link->count.held[way] += lane->queue.in - from;
    lane->counted_held = lane->queue.in;
}

/* All from this position on is lost, and all that will come. */
void lane_lose_locked(struct session *session, enum way way, uint64_t position)
{
    struct lane *lane = &session->lanes[way];

    if (!lane->lost)
        session->link->count.swallowed[way] += byte_queue_cut(&lane->queue, position);
    lane->lost = true;
}

/* Nothing that comes now arrives; true: remembered as such. */
static bool loses(struct session *session, enum way way)
{
    struct lane *lane = &session->lanes[way];

    if (session->link->flow[way] == FLOW_SWALLOW && !lane->lost)
        lane->lost = lane->by_flow = true;
    return lane->lost;
}

static void scan_requests(struct session *session, const char *data, size_t n)
{
    enum resp_event event;

    while (n > 0 && !session->dead) {
        size_t used = resp_commands(&session->commands, data, n, &event);
        if (event == RESP_COMMAND)
            trigger_command_locked(session);
        data += used;
        n -= used;
    }
}

static void scan_replies(struct session *session, const char *data, size_t n)
{
    enum resp_event event;

    while (n > 0 && !session->dead) {
        size_t used = resp_replies(&session->replies, data, n, &event);
        if (event == RESP_REPLY)
            trigger_reply_locked(session);
        else if (event == RESP_REPLY_END)
            trigger_reply_end_locked(session);
        data += used;
        n -= used;
    }
}

static int64_t draw_due(struct session *session, enum way way, size_t n)
{
    struct link *link = session->link;
    int64_t drawn = delay_draw(&link->delays[way], link->delay[way]);

    if (drawn > 0)
        link->count.delayed[way] += n;
    return proxy_now() + drawn;
}

void lane_take_locked(struct session *session, enum way way, const char *data, size_t n)
{
    struct link *link = session->link;
    struct lane *lane = &session->lanes[way];

    link->count.bytes[way] += n;
    if (session->mute != NOT_MUTE) {
        link->count.swallowed[way] += n;
        return;
    }
    if (session->ends[1 - way].watch.fd < 0)
        return; /* nobody is there any more */
    if (lane->closed)
        lane->lost = true;
    if (loses(session, way)) {
        link->count.swallowed[way] += n;
    } else if (!byte_queue_put(&lane->queue, data, n, draw_due(session, way, n))) {
        session_reset_locked(session);
        return;
    }
    if (way == REQUESTS)
        scan_requests(session, data, n);
    else
        scan_replies(session, data, n);
    if (!session->dead && lane_held_locked(session, way))
        lane_count_held_locked(session, way);
}

/*
 * A client's reset takes requests with it that are held: a kernel that is told to abandon
 * a connection drops what it hasn't got through, and a held byte stands for one it has to send
 * again. Bytes that are only delayed are in the network, ahead of the reset. After a FIN there is
 * no such order to drop anything: the reset only says that nobody reads replies any more.
 */
void lane_end_locked(struct session *session, enum way way, enum ending ending)
{
    struct lane *lane = &session->lanes[way];
    uint64_t from = lane->queue.out;

    if (loses(session, way))
        return;
    if (lane->ending == ENDING_NONE) {
        lane->ending = ending;
        lane->ending_due = draw_due(session, way, 0);
        if (lane->ending_due < lane->queue.latest)
            lane->ending_due = lane->queue.latest;
        if (way != REQUESTS || ending != ENDING_RESET || !lane_held_locked(session, way))
            return;
        if (session->link->flow[way] != FLOW_HOLD && lane->stop > from)
            from = lane->stop;
        (void)byte_queue_cut(&lane->queue, from);
    } else if (lane->ending_passed && ending == ENDING_RESET) {
        lane->ending = ENDING_RESET;
        lane->ending_due = 0;
        lane->ending_passed = false;
    }
}
