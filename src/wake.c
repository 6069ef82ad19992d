/*
 * See wake.h. One struct for each name waited for:
 *
 *   free -> waiting: connecting -> blocked -> (popped: the head asks) -> blocked ... -> idle ->
 * free
 *
 * redlock__wake_settle() looks at the name's queue and brings its struct in line; everything that
 * changes a queue ends there. A wait that ends while the connection is blocked closes it, so that
 * the server gives the next element to somebody else; else it is kept for a while, and so is what
 * is known of the name.
 *
 * Crowded. PEXPIRE behind the push finds no list where the element went to somebody who was
 * blocked. So a client knows that others stand in line; for a second it leaves the name to them
 * after a release, stands in line itself before it asks, and polls at long intervals.
 */
#include "wake.h"

#include <string.h>

#include "engine_state.h"
#include "pause.h"
#include "random.h"
#include "validity.h"

enum {
    BLOCK_S = 3,        /* then the key is renewed */
    WAITING_MS = 5000,  /* how long that key outlives a waiter */
    SAID_MS = 1000,     /* who blocks again so soon after, does so without renewing it */
    PUSHED_MS = 1000,   /* how long an element waits for somebody between two attempts */
    IDLE_MS = 3000,     /* a connection is kept after its wait */
    SPARED = 8,         /* of so many gaps for others one is kept where nobody is known to wait */
    SHORTER = 4,        /* and that one takes this part of the time */
    CROWDED_MS = 1000,  /* what is known of others is believed */
    REFUSED_MS = 10000, /* a primary that refused is left alone */
    PARTS = 3           /* of a push */
};

static bool is_free(const struct redlock__wake *wake)
{
    return wake->name == NULL;
}

/* ---- which primary ------------------------------------------------------ */

void redlock__wake_greeted(struct redlock__engine *engine, uint32_t i)
{
    const char *id = redlock__node_facts(engine->nodes[i])->run_id;
    uint64_t hash = UINT64_C(14695981039346656037);

    if (id[0] == '\0')
        id = redlock__node_address(engine->nodes[i]);
    for (; *id != '\0'; id++)
        hash = (hash ^ (unsigned char)*id) * UINT64_C(1099511628211);
    engine->wake.hashes[i] = hash;
}

/* The first of `nodes`; n: none. */
static uint32_t first_of(const struct redlock__engine *engine, const struct redlock__name *name,
                         uint32_t nodes)
{
    uint32_t best = engine->n;
    uint64_t most = 0;

    for (uint32_t i = 0; i < engine->n; i++) {
        uint64_t weight = (name->hash ^ engine->wake.hashes[i]) * UINT64_C(0x9e3779b97f4a7c15);

        if (weight >= most && (nodes >> i & 1) != 0) {
            best = i;
            most = weight;
        }
    }
    return best;
}

static uint32_t primary_of(const struct redlock__engine *engine, const struct redlock__name *name)
{
    return first_of(engine, name, redlock__engine_ready(engine));
}

/* Missing rights, or whatever else: not again for a while. Said once. */
static void refused(struct redlock__engine *engine, int64_t until_ns[], uint32_t primary,
                    const char *why, int64_t now_ns)
{
    bool rights = strncmp(why, "NOPERM", 6) == 0;

    until_ns[primary] = redlock__add(now_ns, redlock__ms_to_ns(REFUSED_MS));
    if (engine->wake.said)
        return;
    engine->wake.said = true;
    redlock__engine_say(engine, REDLOCK_LOG_WARNING, redlock__node_address(engine->nodes[primary]),
                        rights
                            ? "waiters can't be woken: grant +blpop +lpush +pexpire +del +set on "
                              "~redlock:*; until then they poll"
                            : why);
}

/* ---- pushing ------------------------------------------------------------ */

/* The list never holds more than one: a second would be a wake-up from a release long past. The
 * three commands leave in one buffer. Where the last doesn't arrive, or is refused, an element
 * stays without a ttl until somebody waits for the name again, who then asks once in vain. To have
 * it go by itself would take a script, and with that nobody could be told from the one who was
 * woken. */
void redlock__wake_push(struct redlock__engine *engine, struct redlock__name *name,
                        uint32_t primary, int64_t now_ns)
{
    int64_t deadline_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);

    const struct redlock__wake *wake = redlock__name_known(name)->wake;
    uint32_t in_line = wake != NULL && wake->blocked; /* so it may be ours */

    if (now_ns < engine->wake.no_push_until_ns[primary])
        return;
    for (uint32_t part = 0; part < PARTS; part++) {
        bool last = part + 1 == PARTS;
        struct redlock__tag tag = {.owner = last ? name : NULL,
                                   .command = last ? REDLOCK__CMD_PUSHED : REDLOCK__CMD_PUSH,
                                   .round = in_line};
        struct redlock__bytes bytes;
        bool sent = redlock__engine_request(
            engine, primary, &tag,
            redlock__encode_push(&bytes, name->key, name->len, part, PUSHED_MS), deadline_ns,
            now_ns);

        redlock__bytes_free(&bytes);
        if (!sent)
            return;
        engine->stats.requests++;
        name->refs += last;
    }
}

/* The struct is for this name; `others` are the name's. */
static void set_up(struct redlock__wake *wake, struct redlock__name *name,
                   struct redlock__others *others)
{
    *wake = (struct redlock__wake){.name = name};
    name->refs++;
    others->wake = wake;
}

/* Others stand in line. What is known of the name outlives the present call, in a free struct. */
static void note_crowd(struct redlock__engine *engine, struct redlock__name *name, int64_t now_ns)
{
    struct redlock__others *others = redlock__name_others(&engine->names, name);
    int64_t until_ns = redlock__add(now_ns, redlock__ms_to_ns(CROWDED_MS));

    if (others == NULL)
        return;
    others->crowded_ns = until_ns;
    if (others->wake != NULL)
        return;
    for (uint32_t i = 0; i < REDLOCK__WAKES; i++) {
        struct redlock__wake *wake = &engine->wake.wakes[i];

        if (!is_free(wake))
            continue;
        set_up(wake, name, others);
        wake->idle_until_ns = until_ns;
        redlock__engine_touch(engine, until_ns);
        return;
    }
}

/* When the gap for others that has begun is over, if nobody stands in line: those who can't, other
 * clients and users without the rights, still get one now and then, and not a long one. */
static int64_t gap_end(struct redlock__name *name, int64_t now_ns)
{
    const struct redlock__lease *head = redlock__queue_head(name);
    int64_t gap_ns, end_ns = name->others->not_before_ns;

    if (head == NULL || end_ns <= now_ns || ++name->spared % SPARED != 0)
        return 0;
    gap_ns = redlock__ms_to_ns(head->terms->retry_base_ms) / SHORTER;
    return redlock__min(end_ns, redlock__add(now_ns, gap_ns));
}

/* Nobody does: who stood back for them needs not. */
__attribute__((noinline)) static void no_crowd(struct redlock__engine *engine,
                                               struct redlock__name *name, int64_t now_ns)
{
    struct redlock__lease *head = redlock__queue_head(name);

    if (name->others != NULL) {
        name->others->crowded_ns = 0;
        name->others->not_before_ns = gap_end(name, now_ns);
    }
    if (head != NULL && head->last_reason == REDLOCK_PENDING)
        head->retry_ns = redlock__min(head->retry_ns, now_ns);
    redlock__engine_work_on(engine, head);
}

void redlock__wake_pushed(struct redlock__engine *engine, uint32_t node,
                          const struct redlock__node_event *event, int64_t now_ns)
{
    struct redlock__name *name = event->tag.owner;

    if (event->result == REDLOCK__RESULT_TIMEOUT)
        return;
    if (event->result != REDLOCK__RESULT_DROPPED && event->answer.vote == REDLOCK_VOTE_ERROR)
        refused(engine, engine->wake.no_push_until_ns, node, event->answer.text, now_ns);
    if (name == NULL)
        return;
    if (event->result == REDLOCK__RESULT_ANSWER && event->answer.vote == REDLOCK_VOTE_OURS) {
        if (event->answer.value != 0)
            no_crowd(engine, name, now_ns);
        else if (event->tag.round == 0)
            note_crowd(engine, name, now_ns);
        redlock__wake_settle(engine, name, now_ns);
    }
    redlock__name_unref(&engine->names, name);
}

/* ---- releasing ---------------------------------------------------------- */

/* Others stand in line at that primary, as far as is known, and with these removals it is free. */
static bool has_line(const struct redlock__engine *engine, const struct redlock__grant *grant,
                     uint32_t primary, uint32_t nodes, int64_t now_ns)
{
    uint32_t left = grant->owed & ~nodes;

    return now_ns < redlock__name_known(grant->name)->crowded_ns && (nodes >> primary & 1) != 0 &&
           engine->n - redlock__count(left) >= engine->fleet.quorum &&
           primary_of(engine, grant->name) == primary;
}

uint32_t redlock__wake_removing(const struct redlock__engine *engine, struct redlock__grant *grant,
                                uint32_t nodes, bool first, int64_t now_ns)
{
    uint32_t primary;

    if (!grant->held || redlock__queue_follows(grant->name, grant->lease, now_ns))
        return engine->n;
    primary = first_of(engine, grant->name, grant->written & redlock__engine_ready(engine));
    if (primary == engine->n)
        return engine->n;
    if (first && has_line(engine, grant, primary, nodes, now_ns))
        return primary;
    grant->asked_at = (uint8_t)(primary + 1);
    return engine->n;
}

/* Where that is not the first connected one, those who wait may be at the first. */
void redlock__wake_released(struct redlock__engine *engine, struct redlock__grant *grant,
                            uint32_t nodes, enum redlock__waits waits, int64_t now_ns)
{
    bool asked = grant->asked_at != 0 && (nodes >> (grant->asked_at - 1) & 1) != 0;

    if (waits == REDLOCK__WAITS_SOMEBODY)
        grant->waits_at = (uint8_t)(redlock__first(nodes) + 1);
    else if (waits == REDLOCK__WAITS_NOBODY && asked &&
             (grant->name->others != NULL || grant->name->last != NULL) &&
             primary_of(engine, grant->name) + 1 == grant->asked_at)
        no_crowd(engine, grant->name, now_ns);
    if (grant->waits_at == 0 || redlock__count(engine->every & ~grant->owed) < engine->fleet.quorum)
        return;
    redlock__wake_push(engine, grant->name, grant->waits_at - 1, now_ns);
    grant->waits_at = 0;
}

/* ---- waiting ------------------------------------------------------------ */

bool redlock__wake_trusted(const struct redlock__name *name, int64_t now_ns)
{
    const struct redlock__others *others = redlock__name_known(name);

    return now_ns < others->crowded_ns && others->wake != NULL && others->wake->blocked &&
           !others->wake->eager;
}

static bool is_wanted(const struct redlock__name *name, int64_t now_ns)
{
    const struct redlock__others *others = redlock__name_known(name);
    const struct redlock__lease *head = redlock__queue_head(name);
    bool already = others->wake != NULL && others->wake->waiting;

    if (name->owner != NULL)
        return already && name->owner->state == REDLOCK__LEASE_ACQUIRING;
    if (head == NULL || head->state != REDLOCK__LEASE_WAITING || head->once)
        return false;
    return head->last_reason == REDLOCK_BUSY ||
           (head->last_reason == REDLOCK_PENDING && (already || now_ns < others->crowded_ns));
}

static void leave_side(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    if (wake->side != NULL)
        redlock__side_leave(engine, wake->side, now_ns);
    wake->side = NULL;
    wake->blocked = false;
    wake->said_ns = 0;
}

static void forget(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__name *name = wake->name;

    leave_side(engine, wake, now_ns);
    *wake = (struct redlock__wake){0};
    name->others->wake = NULL;
    redlock__name_unref(&engine->names, name);
}

/* A struct for the name: a free one, or that of the name whose wait is over longest. */
static struct redlock__wake *take(struct redlock__engine *engine, struct redlock__name *name,
                                  int64_t now_ns)
{
    struct redlock__others *others = redlock__name_others(&engine->names, name);
    struct redlock__wake *best = NULL;

    for (uint32_t i = 0; i < REDLOCK__WAKES; i++) {
        struct redlock__wake *wake = &engine->wake.wakes[i];

        if (is_free(wake)) {
            best = wake;
            break;
        }
        if (!wake->waiting && (best == NULL || wake->idle_until_ns < best->idle_until_ns))
            best = wake;
    }
    if (best == NULL || others == NULL)
        return NULL;
    if (!is_free(best))
        forget(engine, best, now_ns);
    set_up(best, name, others);
    return best;
}

/* A wake-up the name's waiters had no use for is somebody else's. */
static void end_wait(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__name *name = wake->name;
    bool used = name->owner != NULL && name->owner->state != REDLOCK__LEASE_ACQUIRING;

    if (wake->got && !used && wake->side != NULL)
        redlock__wake_push(engine, name, wake->side->primary, now_ns);
    wake->waiting = wake->got = wake->eager = false;
    if (wake->side != NULL &&
        (wake->blocked || redlock__node_phase(wake->side->node) != REDLOCK__NODE_PHASE_READY))
        leave_side(engine, wake, now_ns);
    wake->idle_until_ns = redlock__add(now_ns, redlock__ms_to_ns(IDLE_MS));
    redlock__engine_touch(engine, wake->idle_until_ns);
}

/* A wake-up may have been sent along with the removals (redlock__wake_removing()), and have
 * overtaken some of them. So the pauses begin anew; as long as they are short nothing else makes
 * them longer, nor is what was found free by a look somebody else's. */
static void begin_anew(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__lease *head = redlock__queue_head(wake->name);
    int64_t before_ns = head->retry_ns;

    wake->got = false;
    wake->eager = true;
    head->tries = 0;
    redlock__pause_prolong(head, false, &engine->random, now_ns);
    head->retry_ns = redlock__min(head->retry_ns, before_ns);
    redlock__engine_work_on(engine, head);
}

/* The head asks at once. An attempt that began later and found it busy has used the wake-up. */
static void use(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__name *name = wake->name;
    struct redlock__lease *head = redlock__queue_head(name);

    if (!wake->got || name->owner != NULL)
        return;
    if (head->last_reason == REDLOCK_BUSY && head->round.start_ns >= wake->got_ns) {
        begin_anew(engine, wake, now_ns);
        return;
    }
    if (redlock__queue_due(name) <= now_ns)
        return;
    name->others->not_before_ns = redlock__min(name->others->not_before_ns, now_ns);
    head->retry_ns = redlock__min(head->retry_ns, now_ns);
    redlock__engine_work_on(engine, head);
}

static bool ask_side(struct redlock__engine *engine, struct redlock__wake *wake,
                     enum redlock__command command, struct redlock__bytes *bytes,
                     int64_t deadline_ns, int64_t now_ns)
{
    struct redlock__tag tag = {.command = command};
    bool sent = bytes->len != 0 &&
                redlock__side_request(engine, wake->side, &tag, bytes, deadline_ns, now_ns);

    redlock__bytes_free(bytes);
    engine->stats.requests += sent;
    return sent;
}

/* Asks the server to wake us; behind the key that says so, which must be there first. */
static void block(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__name *name = wake->name;
    int64_t deadline_ns = redlock__engine_node_deadline(engine, engine->fleet.max_ttl_ms, now_ns);
    struct redlock__bytes bytes;

    if (now_ns >= wake->said_ns) {
        redlock__encode_waiting(&bytes, name->key, name->len, WAITING_MS);
        if (!ask_side(engine, wake, REDLOCK__CMD_WAITING, &bytes, deadline_ns, now_ns))
            return;
        wake->said_ns = redlock__add(now_ns, redlock__ms_to_ns(SAID_MS));
    }
    wake->blocked = ask_side(engine, wake, REDLOCK__CMD_BLOCK,
                             redlock__encode_block(&bytes, name->key, name->len, BLOCK_S),
                             REDLOCK__NEVER, now_ns);
}

/* A connection to the right primary, and blocked there, unless it is our turn to ask. */
static void stand_in_line(struct redlock__engine *engine, struct redlock__wake *wake,
                          int64_t now_ns)
{
    uint32_t primary = primary_of(engine, wake->name);
    int64_t block_ns = redlock__ms_to_ns(INT64_C(1000) * BLOCK_S);

    if (wake->side != NULL && wake->side->primary != primary)
        leave_side(engine, wake, now_ns);
    if (primary == engine->n || now_ns < engine->wake.no_block_until_ns[primary])
        return;
    if (wake->side == NULL)
        wake->side = redlock__side_take(engine, primary, block_ns);
    if (wake->side != NULL && !wake->blocked && !wake->got && wake->name->owner == NULL &&
        redlock__node_phase(wake->side->node) == REDLOCK__NODE_PHASE_READY)
        block(engine, wake, now_ns);
}

/* As long as wake-ups come, asking again is only for when one gets lost. */
static void poll_less(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__lease *head = redlock__queue_head(wake->name);
    int64_t part_ms, last_ns, next_ns;

    part_ms = redlock__max(head->terms->retry_cap_ms / 8, head->terms->retry_base_ms);
    if (redlock__pause_longest_ms(head) > part_ms)
        wake->eager = false;
    if (!redlock__wake_trusted(wake->name, now_ns) || wake->got || head->retry_ns <= now_ns ||
        head->slowed)
        return;
    head->slowed = true; /* once a round, or news would put it off for ever */
    last_ns = redlock__add(now_ns, redlock__ms_to_ns(part_ms));
    if (head->retry_ns >= last_ns)
        return;
    next_ns = redlock__add(last_ns, (int64_t)(redlock__random(&engine->random) %
                                              (uint64_t)redlock__ms_to_ns(part_ms)));
    if (head->wait_until_ns != REDLOCK__NEVER)
        next_ns = redlock__min(next_ns, head->wait_until_ns - (head->wait_until_ns - now_ns) / 4);
    head->retry_ns = redlock__max(head->retry_ns, next_ns);
}

void redlock__wake_settle(struct redlock__engine *engine, struct redlock__name *name,
                          int64_t now_ns)
{
    struct redlock__wake *wake = redlock__name_known(name)->wake;

    if (!is_wanted(name, now_ns)) {
        if (wake != NULL && wake->waiting)
            end_wait(engine, wake, now_ns);
        return;
    }
    if (wake == NULL)
        wake = take(engine, name, now_ns);
    if (wake == NULL)
        return;
    wake->waiting = true;
    use(engine, wake, now_ns);
    stand_in_line(engine, wake, now_ns);
    if (name->owner == NULL)
        poll_less(engine, wake, now_ns);
}

void redlock__wake_arrive(struct redlock__engine *engine, struct redlock__lease *lease,
                          int64_t now_ns)
{
    const struct redlock__name *name = lease->name;
    const struct redlock__others *others = redlock__name_known(name);

    if (lease->once || now_ns >= others->crowded_ns || others->wake == NULL ||
        name->owner != NULL || name->last != NULL)
        return;
    lease->retry_ns = redlock__add(now_ns, redlock__ms_to_ns(lease->terms->retry_base_ms));
    if (lease->wait_until_ns != REDLOCK__NEVER)
        lease->retry_ns = redlock__min(lease->retry_ns,
                                       lease->wait_until_ns - (lease->wait_until_ns - now_ns) / 4);
    redlock__engine_touch(engine, lease->retry_ns);
}

/* ---- news --------------------------------------------------------------- */

static void take_news(struct redlock__engine *engine, struct redlock__wake *wake,
                      const struct redlock__node_event *event, int64_t now_ns)
{
    bool answered =
        event->result == REDLOCK__RESULT_ANSWER || event->result == REDLOCK__RESULT_LATE;

    if (answered && event->answer.vote == REDLOCK_VOTE_ERROR)
        refused(engine, engine->wake.no_block_until_ns, wake->side->primary, event->answer.text,
                now_ns);
    if (event->tag.command != REDLOCK__CMD_BLOCK || event->result == REDLOCK__RESULT_TIMEOUT)
        return;
    wake->blocked = false;
    if (answered && event->answer.vote == REDLOCK_VOTE_OURS) {
        wake->got = true;
        wake->got_ns = now_ns;
    }
}

static bool pump(struct redlock__engine *engine, struct redlock__wake *wake, int64_t now_ns)
{
    struct redlock__side *side = wake->side;
    struct redlock__node_event event;
    enum redlock__node_phase phase;
    bool news = false;

    while (redlock__node_pull(side->node, now_ns, &event)) {
        take_news(engine, wake, &event, now_ns);
        news = true;
    }
    phase = redlock__node_phase(side->node);
    news = news || phase != side->phase;
    side->phase = phase;
    if (!news)
        return false;
    if (wake->waiting)
        redlock__wake_settle(engine, wake->name, now_ns);
    else if (phase != REDLOCK__NODE_PHASE_READY)
        leave_side(engine, wake, now_ns);
    return true;
}

bool redlock__wake_pump(struct redlock__engine *engine, int64_t now_ns)
{
    bool news = false;

    for (uint32_t i = 0; i < REDLOCK__WAKES; i++)
        if (engine->wake.wakes[i].side != NULL)
            news |= pump(engine, &engine->wake.wakes[i], now_ns);
    redlock__side_tidy(engine, now_ns);
    return news;
}

void redlock__wake_handle_deadline(struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = 0; i < REDLOCK__WAKES; i++) {
        struct redlock__wake *wake = &engine->wake.wakes[i];

        if (is_free(wake) || wake->waiting)
            continue;
        if (now_ns >= wake->idle_until_ns)
            forget(engine, wake, now_ns);
        else
            redlock__engine_touch(engine, wake->idle_until_ns);
    }
}
