/* See worker_spec.h. */
#include "worker_spec.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const role_names[] = {"contender", "prober", "actor"};

const char *role_name(enum role role)
{
    return role_names[role];
}

__attribute__((format(printf, 3, 4))) static bool wrong(char *text, size_t size, const char *format,
                                                        ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, size, format, arguments);
    va_end(arguments);
    return false;
}

static const char *text_of(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

static int64_t number_of(const json_t *json, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(json, key);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static bool truth_of(const json_t *json, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(json, key);

    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* False: too many of them, or one is no text. */
static bool texts_of(const json_t *json, const char *key, const char **texts, size_t room,
                     size_t *count)
{
    const json_t *array = json_object_get(json, key);

    *count = json_array_size(array);
    if (*count > room)
        return false;
    for (size_t i = 0; i < *count; i++)
        if ((texts[i] = json_string_value(json_array_get(array, i))) == NULL)
            return false;
    return true;
}

static bool read_who(const json_t *json, struct worker_spec *spec, char *text, size_t size)
{
    const char *role = text_of(json, "role");
    int64_t number = number_of(json, "number", 0);

    spec->worker = text_of(json, "worker");
    spec->group = text_of(json, "group") != NULL ? text_of(json, "group") : "";
    spec->prefix = text_of(json, "prefix");
    spec->control = text_of(json, "control");
    spec->clock = text_of(json, "clock");
    if (spec->worker == NULL || number < 1 || number > UINT32_MAX)
        return wrong(text, size, "a worker needs a name and a number above 0");
    spec->number = (uint32_t)number;
    for (size_t i = 0; role != NULL && i < sizeof role_names / sizeof role_names[0]; i++)
        if (strcmp(role, role_names[i]) == 0) {
            spec->role = (enum role)i;
            return true;
        }
    return wrong(text, size, "role: contender, prober or actor");
}

static bool read_lists(const json_t *json, struct worker_spec *spec, char *text, size_t size)
{
    if (!texts_of(json, "nodes", spec->nodes, SPEC_NODES, &spec->node_count) ||
        spec->node_count == 0)
        return wrong(text, size, "nodes: 1 to %d texts", SPEC_NODES);
    if (!texts_of(json, "names", spec->names, SPEC_NAMES, &spec->name_count) ||
        (spec->name_count == 0 && spec->role != ROLE_ACTOR))
        return wrong(text, size, "names: 1 to %d texts", SPEC_NAMES);
    for (size_t i = 0; i < spec->name_count; i++)
        if (strlen(spec->names[i]) >= SPEC_NAME_LEN)
            return wrong(text, size, "names: of less than %d bytes", SPEC_NAME_LEN);
    if (!texts_of(json, "peer", spec->peer, SPEC_PEER_WORDS, &spec->peer_count))
        return wrong(text, size, "peer: at most %d words", SPEC_PEER_WORDS);
    return true;
}

static void read_numbers(const json_t *json, struct worker_spec *spec)
{
    const json_t *hold = json_object_get(json, "hold_ms"), *renew = json_object_get(json, "renew");
    const json_t *least = json_array_get(hold, 0), *most = json_array_get(hold, 1);

    spec->ttl_ms = number_of(json, "ttl_ms", 2000);
    spec->max_ttl_ms = number_of(json, "max_ttl_ms", spec->ttl_ms);
    spec->wait_ms = number_of(json, "wait_ms", 1000);
    spec->node_timeout_ms = number_of(json, "node_timeout_ms", 100);
    spec->drift_ppm = number_of(json, "drift_ppm", 10000);
    spec->guard_ms = number_of(json, "guard_ms", -1);
    spec->quorum = number_of(json, "quorum", 0);
    spec->replicas = number_of(json, "replicas", 0);
    spec->margin_ms = number_of(json, "margin_ms", spec->ttl_ms / 5);
    spec->every_ms = number_of(json, "every_ms", 100);
    spec->seed = (uint64_t)number_of(json, "seed", 0);
    spec->fence = truth_of(json, "fence", true);
    spec->blind = truth_of(json, "blind", false);
    spec->renew = json_is_number(renew) ? json_number_value(renew) : 0.2;
    spec->nofile = number_of(json_object_get(json, "limits"), "nofile", 0);
    spec->hold_ms[0] = least != NULL ? json_integer_value(least) : 5;
    spec->hold_ms[1] = most != NULL ? json_integer_value(most) : 50;
}

bool worker_spec_read(json_t *json, struct worker_spec *spec, char *text, size_t size)
{
    *spec = (struct worker_spec){.json = json};
    if (read_who(json, spec, text, size) && read_lists(json, spec, text, size)) {
        read_numbers(json, spec);
        if (spec->hold_ms[0] >= 0 && spec->hold_ms[0] <= spec->hold_ms[1] && spec->every_ms > 0)
            return true;
        (void)wrong(text, size, "hold_ms: [least, most]; every_ms: above 0");
    }
    worker_spec_free(spec);
    return false;
}

void worker_spec_free(struct worker_spec *spec)
{
    json_decref(spec->json);
    spec->json = NULL;
}
