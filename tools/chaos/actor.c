/*
 * An actor: one command after the other, each answered by one line; see worker.h. A lock is named
 * by the number of the try that got it.
 */
#include <string.h>

#include "grip.h"
#include "history.h"
#include "worker_self.h"

enum {
    LOCKS = 64
};

struct actor {
    struct worker_self *self;
    struct grip *grips[LOCKS];
};

static json_t *wrong(const char *text)
{
    return json_pack("{s:s}", "error", text);
}

static int64_t number_of(const json_t *command, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(command, key);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

/* The entry of the lock that the command names; NULL: there is none. */
static struct grip **find(struct actor *actor, const json_t *command)
{
    int64_t number = number_of(command, "lock", 0);

    for (int i = 0; i < LOCKS; i++)
        if (actor->grips[i] != NULL && actor->grips[i]->hold->number == number)
            return &actor->grips[i];
    return NULL;
}

static struct grip **find_room(struct actor *actor)
{
    for (int i = 0; i < LOCKS; i++)
        if (actor->grips[i] == NULL)
            return &actor->grips[i];
    return NULL;
}

/* ---- getting one ------------------------------------------------------------ */

/* False: the command is incomplete. */
static bool wish_of(const struct worker_self *self, const json_t *command, struct wish *wish)
{
    const json_t *fence = json_object_get(command, "fence");

    *wish = (struct wish){.name = json_string_value(json_object_get(command, "name")),
                          .ttl_ms = number_of(command, "ttl_ms", self->spec.ttl_ms),
                          .wait_ms = number_of(command, "wait_ms", 0),
                          .renew = json_is_true(json_object_get(command, "renew")),
                          .fence = fence != NULL ? json_is_true(fence) : self->spec.fence};
    return wish->name != NULL && strlen(wish->name) < SPEC_NAME_LEN;
}

static void add_lock(json_t *record, const struct grip *grip)
{
    if (grip != NULL)
        (void)json_object_set_new(record, "lock", json_integer((json_int_t)grip->hold->number));
}

static json_t *acquire(struct actor *actor, const json_t *command)
{
    struct grip **room = find_room(actor);
    json_t *record = NULL;
    struct wish wish;

    if (!wish_of(actor->self, command, &wish))
        return wrong("acquire: name");
    if (room == NULL)
        return wrong("too many locks");
    *room = grip_acquire(actor->self, &wish, &record);
    add_lock(record, *room);
    return record;
}

static json_t *poll_lock(struct actor *actor, const json_t *command)
{
    int64_t begin_ns = history_now(), next_ns = begin_ns;
    int64_t end_ns = begin_ns + number_of(command, "until_ms", 10000) * NS_PER_MS;
    int64_t every_ns = number_of(command, "every_ms", 50) * NS_PER_MS;
    struct grip **room = find_room(actor);
    json_t *record = NULL;
    struct wish wish;

    if (!wish_of(actor->self, command, &wish) || every_ns <= 0)
        return wrong("poll: name, every_ms");
    if (room == NULL)
        return wrong("too many locks");
    do {
        json_decref(record);
        record = NULL;
        *room = grip_acquire(actor->self, &wish, &record);
        next_ns += every_ns;
    } while (*room == NULL && next_ns < end_ns && worker_sleep(actor->self, next_ns) &&
             !worker_stops(actor->self));
    add_lock(record, *room);
    return record;
}

/* ---- with one --------------------------------------------------------------- */

static json_t *extend(struct actor *actor, struct grip **grip, const json_t *command)
{
    json_t *record = NULL;

    (void)grip_extend(*grip, number_of(command, "ttl_ms", actor->self->spec.ttl_ms), &record);
    return record;
}

static json_t *release(struct actor *actor, struct grip **grip, const json_t *command)
{
    json_t *record = NULL;

    (void)actor;
    (void)command;
    grip_release(*grip, &record);
    *grip = NULL;
    return record;
}

static json_t *check(struct actor *actor, struct grip **grip, const json_t *command)
{
    const struct locker_kind *kind = actor->self->locker->kind;
    const struct hold *hold = (*grip)->hold;
    bool held = grip_check(*grip, true);

    (void)command;
    return json_pack("{s:b, s:I, s:I, s:i}", "held", held, "remaining_ms",
                     (json_int_t)kind->remaining_ms(hold), "deadline_ns",
                     (json_int_t)kind->deadline_ns(hold), "margin", kind->margin(hold));
}

static json_t *write_cell(struct grip *grip, bool fenced, bool blind)
{
    struct written written;

    if (!grip_write(grip, fenced, blind, &written))
        return json_null();
    return json_pack("{s:I, s:b, s:b}", "sequence", (json_int_t)written.sequence, "accepted",
                     written.accepted, "stale", written.stale);
}

static json_t *write_cells(struct actor *actor, struct grip **grip, const json_t *command)
{
    const json_t *given = json_object_get(command, "blind");
    bool blind = given != NULL ? json_is_true(given) : actor->self->spec.blind;
    json_t *plain = write_cell(*grip, false, blind), *fenced = write_cell(*grip, true, blind);

    return json_pack("{s:o, s:o}", "plain", plain, "fenced", fenced);
}

static json_t *enter(struct actor *actor, struct grip **grip, const json_t *command)
{
    struct entry entry;

    (void)actor;
    (void)command;
    if ((*grip)->inside)
        return wrong("it is inside");
    entry = grip_enter(*grip);
    return json_pack("{s:b, s:I}", "ok", entry.ok, "other", (json_int_t)entry.other);
}

static json_t *leave(struct actor *actor, struct grip **grip, const json_t *command)
{
    struct left left;

    if (!(*grip)->inside)
        return wrong("it isn't inside");
    left = grip_leave(*grip,
                      actor->self->spec.blind || json_is_true(json_object_get(command, "blind")));
    return json_pack("{s:b, s:b}", "ok", left.ok, "lost_update", left.lost_update);
}

/* ---- commands --------------------------------------------------------------- */

static json_t *health(struct actor *actor, const json_t *command)
{
    struct locker *locker = actor->self->locker;

    (void)command;
    return locker->kind->health(locker);
}

static json_t *init(struct actor *actor, const json_t *command)
{
    struct locker *locker = actor->self->locker;

    return locker->kind->init(locker, command);
}

typedef json_t *without_lock(struct actor *actor, const json_t *command);
typedef json_t *with_lock(struct actor *actor, struct grip **grip, const json_t *command);

static const struct {
    const char *name;
    without_lock *without;
    with_lock *with;
} commands[] = {{"acquire", acquire, NULL}, {"poll", poll_lock, NULL},
                {"health", health, NULL},   {"init", init, NULL},
                {"extend", NULL, extend},   {"release", NULL, release},
                {"check", NULL, check},     {"write", NULL, write_cells},
                {"enter", NULL, enter},     {"leave", NULL, leave}};

static json_t *perform(struct actor *actor, const json_t *command)
{
    const char *name = json_string_value(json_object_get(command, "do"));
    struct grip **grip = find(actor, command);

    for (size_t i = 0; name != NULL && i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) != 0)
            continue;
        if (commands[i].without != NULL)
            return commands[i].without(actor, command);
        return grip != NULL ? commands[i].with(actor, grip, command) : wrong("no such lock");
    }
    return wrong("no such command");
}

void actor_run(struct worker_self *self)
{
    struct actor actor = {.self = self};
    json_t *command;

    while ((command = worker_command(self)) != NULL) {
        json_t *answer = perform(&actor, command);

        worker_reply(self, answer != NULL ? answer : wrong("not with this client"));
        json_decref(command);
        worker_cycle(self);
        if (worker_stops(self))
            break;
    }
    for (int i = 0; i < LOCKS; i++)
        if (actor.grips[i] != NULL)
            grip_release(actor.grips[i], NULL);
}
