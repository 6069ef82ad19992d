/* See docker_engine.h. The order of images is that of tools/primaries. */
#include "docker_engine.h"

#include "program.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef CHAOS_SOURCE_DIR
#define CHAOS_SOURCE_DIR ""
#endif

enum {
    INFO_MS = 5000,
    INSPECT_MS = 30000, /* the older Compose is slow to start, and a busy machine slower */
    REMOVE_MS = 60000,
    PULL_MS = 60000,
    BUILD_MS = 600000,
    REMOVE_TRIES = 10,
    REMOVE_PAUSE_MS = 200,
    NAMES_MAX = 64,
    LABEL_SIZE = 256
};

static const char usual_image[] = "redis:8", local_image[] = "redlock-redis:local";

bool docker_answers(void)
{
    struct program program;

    return program_run(&program, INFO_MS, (const char *const[]){"docker", "info", NULL}) == 0;
}

int docker_find_compose(const char *words[2])
{
    struct program program;

    words[0] = "docker";
    words[1] = "compose";
    if (program_run(&program, INSPECT_MS,
                    (const char *const[]){"docker", "compose", "version", NULL}) == 0)
        return 0;
    words[0] = "docker-compose";
    words[1] = NULL;
    return program_run(&program, INSPECT_MS,
                       (const char *const[]){"docker-compose", "version", NULL});
}

/* ---- images -------------------------------------------------------------------- */

static bool have_image(const char *image)
{
    struct program program;

    return program_run(&program, INSPECT_MS,
                       (const char *const[]){"docker", "image", "inspect", "--format", "{{.Id}}",
                                             image, NULL}) == 0;
}

static bool pull(const char *image)
{
    struct program program;

    (void)fprintf(stderr, "pulling %s (for a minute at most)\n", image);
    return program_run(&program, PULL_MS,
                       (const char *const[]){"docker", "pull", "-q", image, NULL}) == 0;
}

static int build(char *text, size_t text_size)
{
    const char *script = CHAOS_SOURCE_DIR "/tools/build-image.sh";
    struct program program;

    if (access(script, X_OK) != 0) {
        (void)snprintf(
            text, text_size,
            "there is no image %s, no registry can be reached, and %s, which builds one, "
            "is not there; name an image with REDLOCK_IMAGE, or use --runtime process",
            usual_image, script);
        return -1;
    }
    (void)fprintf(stderr, "no registry can be reached; building an image (about half a minute)\n");
    if (program_run(&program, BUILD_MS, (const char *const[]){script, NULL}) == 0)
        return 0;
    (void)snprintf(text, text_size, "tools/build-image.sh: %.300s; or use --runtime process",
                   program.errors);
    return -1;
}

static int choose_wanted(const char *wanted, char *text, size_t text_size)
{
    if (have_image(wanted) || pull(wanted))
        return 0;
    (void)snprintf(text, text_size,
                   "the image %s is not here and cannot be pulled; name another with --image or "
                   "REDLOCK_IMAGE, or use --runtime process",
                   wanted);
    return -1;
}

int docker_choose_image(const char *wanted, char *image, size_t size, char *text, size_t text_size)
{
    const char *asked = getenv("REDLOCK_IMAGE");

    if (wanted == NULL && asked != NULL && asked[0] != '\0')
        wanted = asked;
    (void)snprintf(image, size, "%s", wanted == NULL ? usual_image : wanted);
    if (wanted != NULL)
        return choose_wanted(wanted, text, text_size);
    if (have_image(usual_image))
        return 0;
    if (have_image(local_image) || (!pull(usual_image) && !program_interrupted())) {
        (void)snprintf(image, size, "%s", local_image);
        return have_image(local_image) ? 0 : build(text, text_size);
    }
    (void)snprintf(text, text_size, "interrupted");
    return program_interrupted() ? -1 : 0;
}

/* ---- what bears a project's label ------------------------------------------------------ */

/* How a kind of thing is listed by name, and removed. */
struct thing {
    const char *name;
    const char *list[4], *remove[4]; /* ends with NULL */
    const char *format;
};

static const struct thing things[] = {
    {"container", {"ps", "--all", NULL}, {"rm", "--force", "--volumes", NULL}, "{{.Names}}"},
    {"network", {"network", "ls", NULL}, {"network", "rm", NULL}, "{{.Name}}"},
    {"volume", {"volume", "ls", NULL}, {"volume", "rm", NULL}, "{{.Name}}"},
};

static int list_things(struct program *program, const struct thing *thing, const char *project)
{
    const char *arguments[16] = {"docker"};
    char filter[LABEL_SIZE];
    int n = 1;

    (void)snprintf(filter, sizeof filter, "label=" DOCKER_LABEL "=%s", project);
    for (int i = 0; thing->list[i] != NULL; i++)
        arguments[n++] = thing->list[i];
    arguments[n++] = "--filter";
    arguments[n++] = filter;
    arguments[n++] = "--format";
    arguments[n] = thing->format;
    program_start(program, arguments);
    return program_finish(program, INSPECT_MS, true);
}

/* Splits the lines of a list in place. */
static int split_names(char *list, const char *names[NAMES_MAX])
{
    char *rest = list, *name;
    int n = 0;

    while (n < NAMES_MAX && (name = strsep(&rest, "\n")) != NULL)
        if (name[0] != '\0')
            names[n++] = name;
    return n;
}

static int remove_things(const struct thing *thing, const char *project, FILE *stream,
                         unsigned *removed)
{
    const char *names[NAMES_MAX], *arguments[NAMES_MAX + 8] = {"docker"};
    struct program list, remover;
    int n = 1, count;

    if (list_things(&list, thing, project) != 0)
        return -1;
    count = split_names(list.output, names);
    if (count == 0)
        return 0;
    for (int i = 0; thing->remove[i] != NULL; i++)
        arguments[n++] = thing->remove[i];
    for (int i = 0; i < count; i++)
        arguments[n++] = names[i];
    program_start(&remover, arguments);
    if (program_finish(&remover, REMOVE_MS, true) != 0)
        return -1;
    for (int i = 0; stream != NULL && i < count; i++)
        (void)fprintf(stream, "removed the %s %s\n", thing->name, names[i]);
    *removed += (unsigned)count;
    return 0;
}

/* The engine may still be at work on what was begun by one that was killed, or at removing it. */
static int remove_patiently(const struct thing *thing, const char *project, FILE *stream,
                            unsigned *removed)
{
    for (int i = 1; remove_things(thing, project, stream, removed) != 0; i++) {
        if (i == REMOVE_TRIES)
            return -1;
        (void)poll(NULL, 0, REMOVE_PAUSE_MS);
    }
    return 0;
}

int docker_remove(const char *project, FILE *stream, unsigned *removed)
{
    int rc = 0;

    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        if (remove_patiently(&things[i], project, stream, removed) == 0)
            continue;
        rc = -1;
        if (stream != NULL)
            (void)fprintf(stream,
                          "the %ss of %s cannot be removed now; if the engine answers (docker "
                          "info), the next start does it\n",
                          things[i].name, project);
    }
    return rc;
}

unsigned docker_count(const char *project)
{
    const char *names[NAMES_MAX];
    struct program list;
    unsigned count = 0;

    for (size_t i = 0; i < sizeof things / sizeof things[0]; i++) {
        if (list_things(&list, &things[i], project) != 0)
            count++;
        else
            count += (unsigned)split_names(list.output, names);
    }
    return count;
}
