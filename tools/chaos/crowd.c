/* Workers of a scene: how they are told about it, and what they got so far. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "scene_state.h"
#include "worker.h"

int scene__group(struct scene *scene, const char *name)
{
    struct group *group;

    for (unsigned i = 0; i < scene->group_count; i++)
        if (strcmp(scene->groups[i].name, name) == 0)
            return (int)i;
    if (scene->group_count == GROUPS_MAX) {
        scene_fail(scene, "more than %d groups of clients", GROUPS_MAX);
        return -1;
    }
    group = &scene->groups[scene->group_count];
    (void)snprintf(group->name, sizeof group->name, "%s", name);
    for (unsigned i = 0; i < scene_nodes(scene); i++) {
        char link[16];

        (void)snprintf(link, sizeof link, "%s:%u", name, i + 1);
        group->links[i] = proxy_link(scene->proxy, link, runtime_port(scene->runtime, i + 1));
        if (group->links[i] == NULL) {
            scene_fail(scene, "link %s: %s", link, strerror(errno));
            return -1;
        }
    }
    return (int)scene->group_count++;
}

struct link *scene_link(struct scene *scene, const char *group, unsigned node)
{
    int i = scene__group(scene, group);

    return i < 0 ? NULL : scene->groups[i].links[node - 1];
}

json_t *scene_spec(struct scene *scene, const char *worker, const char *role, const char *group)
{
    const struct conditions *c = &scene->conditions;
    int i = scene__group(scene, group);
    json_t *nodes = json_array();
    json_t *spec;

    for (unsigned node = 0; i >= 0 && node < scene_nodes(scene); node++)
        json_array_append_new(
            nodes, json_sprintf("redis://127.0.0.1:%d", link_port(scene->groups[i].links[node])));
    spec = json_pack("{s:s, s:i, s:s, s:s, s:o, s:I, s:I, s:i, s:I, s:I, s:i, s:i, s:b, s:f, s:I}",
                     "worker", worker, "number", (int)++scene->worker_number, "role", role, "group",
                     group, "nodes", nodes, "ttl_ms", (json_int_t)c->ttl_ms, "max_ttl_ms",
                     (json_int_t)c->max_ttl_ms, "wait_ms", 1000, "node_timeout_ms",
                     (json_int_t)c->node_timeout_ms, "guard_ms", (json_int_t)(c->no_guard ? 0 : -1),
                     "drift_ppm", c->no_drift ? 0 : 10000, "replicas",
                     scene->mode == MODE_REPLICA_WAIT ? 1 : 0, "fence", scene_fenced(scene),
                     "renew", c->renew, "seed", (json_int_t)(scene->stage->seed >> 1));
    if (c->control != NULL)
        json_object_set_new(spec, "control", json_string(c->control));
    if (scene->stage->peer != NULL) {
        json_t *peer = json_array();

        for (const char *const *word = scene->stage->peer; *word != NULL; word++)
            json_array_append_new(peer, json_string(*word));
        json_object_set_new(spec, "peer", peer);
    }
    return spec;
}

struct worker *scene_start(struct scene *scene, json_t *spec)
{
    struct member *member = &scene->members[scene->member_count];

    if (!scene__goes_on(scene) || scene->member_count == WORKERS_MAX) {
        if (!scene->over)
            scene_fail(scene, "more than %d workers", WORKERS_MAX);
        json_decref(spec);
        return NULL;
    }
    pthread_mutex_lock(&scene->mutex);
    memset(member, 0, sizeof *member);
    (void)snprintf(member->name, sizeof member->name, "%s",
                   json_string_value(json_object_get(spec, "worker")));
    (void)snprintf(member->role, sizeof member->role, "%s",
                   json_string_value(json_object_get(spec, "role")));
    scene->member_count++;
    pthread_mutex_unlock(&scene->mutex);
    member->worker = worker_start(scene->workers, spec);
    if (member->worker == NULL) {
        const char *why = worker_error(scene->workers);

        scene_fail(scene, "worker %s: %s", member->name, why[0] != '\0' ? why : strerror(errno));
        return NULL;
    }
    member->running = true;
    return member->worker;
}

void scene_crowd(struct scene *scene, const char *group, unsigned contenders, unsigned probers)
{
    char name[16];

    if (contenders > 0)
        scene->entered = scene->wrote = true;
    for (unsigned i = 0; i < contenders; i++) {
        json_t *spec, *names = json_array();

        (void)snprintf(name, sizeof name, "%s%u", strcmp(group, "P") == 0 ? "w" : group, i + 1);
        spec = scene_spec(scene, name, "contender", group);
        for (int k = 0; k < SCENE_NAMES; k++)
            json_array_append_new(names, json_sprintf("job-%d", k + 1));
        json_object_set_new(spec, "names", names);
        scene_start(scene, spec);
    }
    for (unsigned i = 0; i < probers; i++) {
        json_t *spec;

        (void)snprintf(name, sizeof name, "%sp%u", strcmp(group, "P") == 0 ? "" : group, i + 1);
        spec = scene_spec(scene, name, "prober", group);
        json_object_set_new(spec, "names", json_pack("[o]", json_sprintf("probe-%s", name)));
        scene_start(scene, spec);
    }
}

struct worker *scene_actor(struct scene *scene, const char *worker, const char *group)
{
    return scene_start(scene, scene_spec(scene, worker, "actor", group));
}

struct member *scene__member(struct scene *scene, const struct worker *worker)
{
    for (unsigned i = 0; i < scene->member_count; i++)
        if (scene->members[i].worker == worker)
            return &scene->members[i];
    return NULL;
}

uint64_t scene_acquired(struct scene *scene, const char *worker, const char *role)
{
    uint64_t sum = 0;

    pthread_mutex_lock(&scene->mutex);
    for (unsigned i = 0; i < scene->member_count; i++) {
        const struct member *member = &scene->members[i];

        if (worker != NULL ? strcmp(member->name, worker) == 0 : strcmp(member->role, role) == 0)
            sum += member->acquired;
    }
    pthread_mutex_unlock(&scene->mutex);
    return sum;
}

static bool all_probed(struct scene *scene, int64_t since_ns)
{
    bool all = true;

    pthread_mutex_lock(&scene->mutex);
    for (unsigned i = 0; i < scene->member_count; i++) {
        const struct member *member = &scene->members[i];

        if (member->running && strcmp(member->role, "prober") == 0 &&
            member->acquired_ns < since_ns)
            all = false;
    }
    pthread_mutex_unlock(&scene->mutex);
    return all;
}

int64_t scene_until_probed(struct scene *scene, int64_t limit_ms)
{
    int64_t begin_ns = history_now();

    while (scene__goes_on(scene) && !all_probed(scene, begin_ns)) {
        if (scene_since_ms(begin_ns) > limit_ms)
            return -1;
        scene_wait(scene, 5);
    }
    return scene->over ? -1 : scene_since_ms(begin_ns);
}

void scene_liveness(struct scene *scene)
{
    scene_phase(scene, "liveness");
    (void)scene_until_probed(scene, 10000);
    scene_span(scene, 2000, 500);
    scene_expect(scene, LIVENESS, "c8.missing", "", "eq", 0);
}
