/*
 * Faults at commands. What happens to requests happens when the command's name and key
 * are known; what happens to replies waits as an effect of the session until as many replies have
 * begun as commands before it.
 */
#include "proxy_parts.h"

#include <string.h>

void trigger_done_locked(struct session *session, uint64_t serial)
{
    struct link *link = session->link;

    if (serial == 0)
        return;
    link->count.triggered++;
    link->trigger.done = link->trigger.done || serial == link->trigger.serial;
    proxy_note_locked(link, "trigger", session->number);
    proxy_changed_locked(link->proxy);
}

static void hold_from(struct session *session, enum way way, uint64_t position, int64_t hold_ns)
{
    struct lane *lane = &session->lanes[way];
    int64_t until = hold_ns > 0 ? proxy_now() + hold_ns : PROXY_NEVER;

    if (lane->stop == PROXY_NOWHERE || until > lane->stop_until)
        lane->stop_until = until;
    if (position < lane->stop)
        lane->stop = position;
    lane_count_held_locked(session, way);
}

/* ---- requests ---------------------------------------------------------------- */

static void wait_for_reply(struct session *session, struct effect effect)
{
    if (session->effects_count == PROXY_EFFECTS_MAX)
        session_reset_locked(session);
    else
        session->effects[session->effects_count++] = effect;
}

static bool is_meant(const struct armed_trigger *trigger, const struct resp_commands *commands)
{
    if (!trigger->any_command && strcmp(trigger->command, commands->name) != 0)
        return false;
    return trigger->any_key || (commands->has_key && commands->key_len == trigger->key_len &&
                                memcmp(commands->key, trigger->key, trigger->key_len) == 0);
}

static void fire(struct session *session, uint64_t index)
{
    const struct trigger *trigger = &session->link->trigger.trigger;
    uint64_t serial = session->link->trigger.serial;
    uint64_t start = session->commands.resp.start;

    session->link->trigger.armed = false;
    if (trigger->action == TRIGGER_DROP_REQUEST) {
        lane_lose_locked(session, REQUESTS, start);
        trigger_done_locked(session, serial);
    } else if (trigger->action == TRIGGER_HOLD_REQUEST) {
        if (!session->lanes[REQUESTS].lost)
            hold_from(session, REQUESTS, start, trigger->hold_ns);
        trigger_done_locked(session, serial);
    } else {
        wait_for_reply(session, (struct effect){.index = index,
                                                .serial = serial,
                                                .action = trigger->action,
                                                .hold_ns = trigger->hold_ns,
                                                .bytes = trigger->bytes});
    }
}

static void count_name(struct link *link, const char *name)
{
    size_t i = 0;

    while (i < link->names_count && strcmp(link->names[i].name, name) != 0)
        i++;
    if (i == PROXY_NAMES_MAX)
        return;
    if (i == link->names_count)
        memcpy(link->names[link->names_count++].name, name, RESP_NAME_MAX + 1);
    link->names[i].n++;
}

/* Half of these resets come before the command has been passed on, half instead of its reply. */
static void try_luck(struct session *session, uint64_t index)
{
    struct link *link = session->link;

    if (link->reset_chance <= 0 || stream_unit(&link->resets) >= link->reset_chance)
        return;
    if (stream_below(&link->resets, 2) == 0)
        session_reset_locked(session);
    else
        wait_for_reply(session, (struct effect){.index = index, .action = TRIGGER_CUT});
}

void trigger_command_locked(struct session *session)
{
    struct link *link = session->link;
    struct armed_trigger *trigger = &link->trigger;
    uint64_t index = session->commands_begun++;

    link->count.commands++;
    count_name(link, session->commands.name);
    proxy_changed_locked(link->proxy);
    if (trigger->armed && is_meant(trigger, &session->commands) && --trigger->trigger.k <= 0)
        fire(session, index);
    if (!session->dead)
        try_luck(session, index);
}

/* ---- replies ------------------------------------------------------------------ */

/* The first effect for this reply; false: none. */
static bool take_effect(struct session *session, uint64_t index, struct effect *effect)
{
    for (unsigned i = 0; i < session->effects_count; i++) {
        if (session->effects[i].index != index)
            continue;
        *effect = session->effects[i];
        session->effects[i] = session->effects[--session->effects_count];
        return true;
    }
    return false;
}

static void cut_at(struct session *session, uint64_t position, const struct effect *effect)
{
    if (position >= session->lanes[REPLIES].cut)
        return;
    session->lanes[REPLIES].cut = position;
    session->cutting = *effect;
}

static void happen(struct session *session, const struct effect *effect)
{
    uint64_t start = session->replies.resp.start;

    if (session->lanes[REPLIES].lost) { /* whatever was to happen: it won't arrive */
        trigger_done_locked(session, effect->serial);
        return;
    }
    switch (effect->action) {
    case TRIGGER_HOLD_REPLY:
        hold_from(session, REPLIES, start, effect->hold_ns);
        break;
    case TRIGGER_CUT:
        cut_at(session, start, effect);
        return; /* done when the bytes before have left */
    case TRIGGER_CUT_REPLY:
        cut_at(session, start + effect->bytes, effect);
        return;
    case TRIGGER_DROP_REPLY:
    case TRIGGER_DROP_REQUEST:
    case TRIGGER_HOLD_REQUEST:
        lane_lose_locked(session, REPLIES, start);
        break;
    }
    trigger_done_locked(session, effect->serial);
}

void trigger_reply_locked(struct session *session)
{
    uint64_t index = session->replies_begun++;
    struct effect effect;

    while (!session->dead && take_effect(session, index, &effect))
        happen(session, &effect);
}

/* No cut lies behind the end of its reply: nothing might ever come to reach it. */
void trigger_reply_end_locked(struct session *session)
{
    struct lane *lane = &session->lanes[REPLIES];

    if (lane->cut != PROXY_NOWHERE && lane->cut > session->replies.resp.at &&
        session->cutting.index + 1 == session->replies_begun)
        lane->cut = session->replies.resp.at;
}
