/* Actors: one command, one answer. */
#include <stdio.h>
#include <string.h>

#include "scene_state.h"
#include "worker.h"

enum {
    ANSWER_MS = 30000
};

const json_t *scene_do(struct scene *scene, struct worker *actor, json_t *command)
{
    const char *error;
    char verb[16];

    json_decref(scene->answer);
    scene->answer = NULL;
    if (!scene__goes_on(scene) || actor == NULL) {
        json_decref(command);
        return NULL;
    }
    (void)snprintf(verb, sizeof verb, "%s", json_string_value(json_object_get(command, "do")));
    scene->answer = worker_do(actor, command, ANSWER_MS);
    if (scene->answer == NULL && scene__goes_on(scene))
        scene_fail(scene, "actor %s gave no answer", worker_name(actor));
    error = json_string_value(json_object_get(scene->answer, "error"));
    if (error != NULL)
        scene_fail(scene, "actor %s can't %s: %s", worker_name(actor), verb, error);
    return error == NULL ? scene->answer : NULL;
}

static const char *code_of(const json_t *answer)
{
    const char *rc = json_string_value(json_object_get(answer, "rc"));

    return rc != NULL ? rc : "none";
}

static int64_t number_of(const json_t *answer, const char *field)
{
    return json_integer_value(json_object_get(answer, field));
}

static int64_t lock_of(const json_t *answer, const char **rc)
{
    const char *code = code_of(answer);

    if (rc != NULL)
        *rc = code;
    return strcmp(code, "ok") == 0 ? number_of(answer, "try") : -1;
}

int64_t act_acquire(struct scene *scene, struct worker *actor, const char *name, int64_t wait_ms,
                    const char **rc)
{
    return lock_of(scene_do(scene, actor,
                            json_pack("{s:s, s:s, s:I}", "do", "acquire", "name", name, "wait_ms",
                                      (json_int_t)wait_ms)),
                   rc);
}

int64_t act_keep(struct scene *scene, struct worker *actor, const char *name)
{
    return lock_of(scene_do(scene, actor,
                            json_pack("{s:s, s:s, s:i, s:b}", "do", "acquire", "name", name,
                                      "wait_ms", 2000, "renew", 1)),
                   NULL);
}

int64_t act_poll(struct scene *scene, struct worker *actor, const char *name, int64_t every_ms,
                 int64_t limit_ms)
{
    return lock_of(
        scene_do(scene, actor,
                 json_pack("{s:s, s:s, s:I, s:I}", "do", "poll", "name", name, "every_ms",
                           (json_int_t)every_ms, "until_ms", (json_int_t)limit_ms)),
        NULL);
}

static const json_t *do_lock(struct scene *scene, struct worker *actor, const char *verb,
                             int64_t lock)
{
    return scene_do(scene, actor, json_pack("{s:s, s:I}", "do", verb, "lock", (json_int_t)lock));
}

const char *act_extend(struct scene *scene, struct worker *actor, int64_t lock)
{
    return code_of(do_lock(scene, actor, "extend", lock));
}

const char *act_release(struct scene *scene, struct worker *actor, int64_t lock)
{
    return code_of(do_lock(scene, actor, "release", lock));
}

bool act_held(struct scene *scene, struct worker *actor, int64_t lock)
{
    return json_is_true(json_object_get(do_lock(scene, actor, "check", lock), "held"));
}

int64_t act_remaining(struct scene *scene, struct worker *actor, int64_t lock)
{
    return number_of(do_lock(scene, actor, "check", lock), "remaining_ms");
}

void act_enter(struct scene *scene, struct worker *actor, int64_t lock)
{
    scene->entered = true;
    (void)do_lock(scene, actor, "enter", lock);
}

void act_leave(struct scene *scene, struct worker *actor, int64_t lock)
{
    (void)do_lock(scene, actor, "leave", lock);
}

void act_write(struct scene *scene, struct worker *actor, int64_t lock, bool blind)
{
    scene->wrote = true;
    (void)scene_do(
        scene, actor,
        json_pack("{s:s, s:I, s:b}", "do", "write", "lock", (json_int_t)lock, "blind", blind));
}

const json_t *act_health(struct scene *scene, struct worker *actor, unsigned node)
{
    const json_t *nodes =
        json_object_get(scene_do(scene, actor, json_pack("{s:s}", "do", "health")), "nodes");

    return json_array_get(nodes, node - 1);
}

int64_t act_until_counted(struct scene *scene, struct worker *actor, unsigned nodes,
                          int64_t limit_ms)
{
    int64_t begin_ns = history_now();

    for (unsigned node = 1; node <= scene_nodes(scene); node++) {
        while ((nodes & NODE(node)) && scene__goes_on(scene)) {
            const json_t *health = act_health(scene, actor, node);

            if (json_is_true(json_object_get(health, "ready")) &&
                json_is_true(json_object_get(health, "counts")))
                break;
            if (scene_since_ms(begin_ns) > limit_ms)
                return -1;
            scene_wait(scene, 20);
        }
    }
    return scene->over ? -1 : scene_since_ms(begin_ns);
}
