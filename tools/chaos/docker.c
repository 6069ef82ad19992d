/*
 * Servers in containers, made from the project's docker-compose.yml; see runtime_state.h. What a
 * run has of its own is in a second file for Compose, written here: names, labels, ports, the
 * node's own directories instead of volumes, and the library that bends the clock.
 *
 * Compose makes containers, which takes seconds. From then on they are killed, started and paused
 * through `docker`, several at a time. A container that is killed keeps its port and its name; what
 * its server is to be like at the next start is in the node's directory, outside.
 *
 * Of a user who is not root, the server runs under that user's id, so that the data can be removed
 * afterwards. Root can do so anyway, and leaves the server's user to the image.
 */
#include "clock_plan.h"
#include "docker_engine.h"
#include "place.h"
#include "program.h"
#include "rundir.h"
#include "runtime_state.h"
#include "tree.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    COMPOSE_SERVICES = 5, /* n1 to n5 are in the file; more are added to it */
    COMPOSE_MS = 180000,
    COMMAND_MS = 30000,
    CLEAR_TRIES = 10, /* the engine may still be busy with what was interrupted */
    CLEAR_PAUSE_MS = 200,
    ARGUMENTS_MAX = 2 * RUNTIME_NODES_MAX + 32,
    SHORT = 48
};

static void container_name(const struct runtime *runtime, unsigned node, char *name, size_t size)
{
    (void)snprintf(name, size, "%s-n%u", runtime->project, node);
}

static int fail_with(struct runtime *runtime, const char *what, const struct program *program)
{
    return runtime_fail(runtime, "%s: %.400s", what, program->errors);
}

/* ---- what is here ----------------------------------------------------------------------- */

/* Two runtimes of one process have projects of their own. */
static int name_project(struct runtime *runtime)
{
    static unsigned counter;
    uint64_t start = 0;
    char state;

    (void)program_stat(getpid(), &start, &state);
    (void)snprintf(runtime->project, sizeof runtime->project, "redlock-chaos-%ld-%llu-%u",
                   (long)getpid(), (unsigned long long)start, counter++);
    if (rundir_note_project(runtime->directory, runtime->project) != 0)
        return runtime_fail(runtime, "%s: %s", runtime->directory, strerror(errno));
    return 0;
}

/* Of the program that `entry` is, with these arguments. */
static int run_once(struct runtime *runtime, struct program *program, const char *entry,
                    const char *first, const char *second)
{
    char label[RUNTIME_NAME + SHORT];

    (void)snprintf(label, sizeof label, DOCKER_LABEL "=%s", runtime->project);
    return program_run(program, COMMAND_MS,
                       (const char *const[]){"docker", "run", "--rm", "--label", label, "--network",
                                             "none", "--entrypoint", entry, runtime->image, first,
                                             second, NULL});
}

/* And where it is: only by its path can a server execute itself again. */
static int find_version(struct runtime *runtime)
{
    struct program program;
    const char *said = program.output;

    (void)snprintf(runtime->server, sizeof runtime->server, "redis-server");
    if (run_once(runtime, &program, "sh", "-c",
                 "command -v redis-server && redis-server --version") == 0 &&
        said[0] == '/' && strchr(said, '\n') != NULL) {
        (void)snprintf(runtime->server, sizeof runtime->server, "%.*s", (int)strcspn(said, "\n"),
                       said);
        said = strchr(said, '\n') + 1;
    } else if (run_once(runtime, &program, "redis-server", "--version", NULL) != 0) {
        return runtime_fail(runtime, "the image %s does not run redis-server: %.300s",
                            runtime->image, program.errors);
    }
    if (runtime_take_version(runtime, said) != 0)
        return runtime_fail(runtime, "the redis-server in %s calls itself '%.60s'", runtime->image,
                            said);
    return 0;
}

static int docker_prepare(struct runtime *runtime)
{
    if (!docker_answers())
        return runtime_fail(runtime,
                            "no Docker engine answers; start it, or use --runtime process");
    if (docker_find_compose(runtime->compose) != 0)
        return runtime_fail(runtime, "there is neither docker compose nor docker-compose; install "
                                     "one of them, or use --runtime process");
    if (!place_compose(runtime->compose_file, sizeof runtime->compose_file))
        return runtime_fail(runtime,
                            "%s is not there, from which containers are made; install again, or "
                            "use --runtime process",
                            runtime->compose_file);
    if (docker_choose_image(runtime->wanted_image, runtime->image, sizeof runtime->image,
                            runtime->text, sizeof runtime->text) != 0 ||
        name_project(runtime) != 0 || find_version(runtime) != 0)
        return -1;
    return 0;
}

/* ---- a file for Compose -------------------------------------------------------------------- */

/* As a quoted string; Compose would put variables in for dollars. */
static void put_string(FILE *file, const char *string)
{
    (void)fputc('"', file);
    for (; *string != '\0'; string++) {
        if (*string == '"' || *string == '\\')
            (void)fputc('\\', file);
        if (*string == '$')
            (void)fputc('$', file);
        (void)fputc(*string, file);
    }
    (void)fputc('"', file);
}

static void put_bind(FILE *file, struct runtime *runtime, unsigned node, const char *name,
                     const char *target, bool read_only)
{
    char path[PATH_MAX] = "";

    (void)runtime_path(runtime, node, name, path, sizeof path);
    (void)fprintf(file, "      - {type: bind, target: %s, read_only: %s, source: ", target,
                  read_only ? "true" : "false");
    put_string(file, path);
    (void)fputs("}\n", file);
}

/* The check of the file would look at the clock of a server every two seconds, by way of a shell.
 * (Not all versions of Compose can switch one off in a second file.) */
static void put_service(FILE *file, struct runtime *runtime, unsigned node)
{
    (void)fprintf(file, "  n%u:\n    container_name: %s-n%u\n", node, runtime->project, node);
    if (node > COMPOSE_SERVICES)
        (void)fprintf(file,
                      "    image: ${REDLOCK_IMAGE}\n    restart: \"no\"\n"
                      "    ports: [\"127.0.0.1:%d:6379\"]\n",
                      runtime_port(runtime, node));
    if (geteuid() != 0)
        (void)fprintf(file, "    user: \"%ld:%ld\"\n", (long)geteuid(), (long)getegid());
    (void)fprintf(file,
                  "    command: [%s, /redlock/conf]\n"
                  "    healthcheck: {test: [CMD, \"true\"], interval: 24h}\n"
                  "    labels: {" DOCKER_LABEL ": %s}\n"
                  "    environment: {LD_PRELOAD: /redlock/preload.so, " CLOCK_PLAN_VARIABLE
                  ": /redlock/plan}\n"
                  "    volumes:\n",
                  runtime->server, runtime->project);
    put_bind(file, runtime, node, "etc", "/redlock", true);
    put_bind(file, runtime, node, "data", "/data", false);
}

static void put_all(FILE *file, struct runtime *runtime)
{
    (void)fputs("services:\n", file);
    for (unsigned i = 1; i <= runtime->nodes; i++)
        put_service(file, runtime, i);
    (void)fprintf(file, "networks:\n  default:\n    labels: {" DOCKER_LABEL ": %s}\n",
                  runtime->project);
    (void)fputs("volumes:\n", file); /* unused, but some versions of Compose make them all */
    for (unsigned i = 1; i <= COMPOSE_SERVICES; i++)
        (void)fprintf(file, "  n%u: {labels: {" DOCKER_LABEL ": %s}}\n", i, runtime->project);
}

static void override_path(const struct runtime *runtime, char path[PATH_MAX + SHORT])
{
    (void)snprintf(path, PATH_MAX + SHORT, "%s/compose-%s.yml", runtime->directory,
                   runtime->project + strlen("redlock-chaos-"));
}

static int write_override(struct runtime *runtime, const char *path)
{
    FILE *file = fopen(path, "we");
    bool failed;

    if (file == NULL)
        return runtime_fail(runtime, "%s: %s", path, strerror(errno));
    put_all(file, runtime);
    failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return runtime_fail(runtime, "%s cannot be written", path);
    return 0;
}

/* ---- making containers ------------------------------------------------------------------- */

static int compose_up(struct runtime *runtime, uint32_t set)
{
    char override[PATH_MAX + SHORT], variables[RUNTIME_NODES_MAX + 1][RUNTIME_NAME + SHORT];
    char services[RUNTIME_NODES_MAX][8];
    const char *arguments[ARGUMENTS_MAX] = {"env", variables[0]};
    struct program program;
    int n = 2;

    override_path(runtime, override);
    if (write_override(runtime, override) != 0)
        return -1;
    (void)snprintf(variables[0], sizeof variables[0], "REDLOCK_IMAGE=%s", runtime->image);
    for (unsigned i = 1; i <= runtime->nodes && i <= COMPOSE_SERVICES; i++) {
        (void)snprintf(variables[i], sizeof variables[i], "REDLOCK_PORT_%u=%d", i,
                       runtime_port(runtime, i));
        arguments[n++] = variables[i];
    }
    for (int i = 0; i < 2 && runtime->compose[i] != NULL; i++)
        arguments[n++] = runtime->compose[i];
    for (size_t i = 0; i < 8; i++)
        arguments[n++] = (const char *const[]){"-p", runtime->project, "-f", runtime->compose_file,
                                               "-f", override,         "up", "-d"}[i];
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0) {
            (void)snprintf(services[i - 1], sizeof services[0], "n%u", i);
            arguments[n++] = services[i - 1];
            runtime_at(runtime, i)->made = true;
        }
    if (program_run(&program, COMPOSE_MS, arguments) != 0)
        return fail_with(runtime, "the containers cannot be made", &program);
    return 0;
}

/* What Compose cannot do: a service of that file has a published port, and so a network of its
 * own. */
static int run_on_host(struct runtime *runtime, unsigned node)
{
    char name[RUNTIME_NAME + SHORT], label[RUNTIME_NAME + SHORT], user[SHORT] = "";
    char etc[PATH_MAX + SHORT] = "type=bind,readonly,target=/redlock,source=";
    char data[PATH_MAX + SHORT] = "type=bind,target=/data,source=";
    const char *arguments[ARGUMENTS_MAX] = {"docker",
                                            "run",
                                            "-d",
                                            "--name",
                                            name,
                                            "--label",
                                            label,
                                            "--network",
                                            "host",
                                            "--mount",
                                            etc,
                                            "--mount",
                                            data,
                                            "-e",
                                            "LD_PRELOAD=/redlock/preload.so",
                                            "-e",
                                            CLOCK_PLAN_VARIABLE "=/redlock/plan"};
    struct program program;
    int n = 17;

    container_name(runtime, node, name, sizeof name);
    (void)snprintf(label, sizeof label, DOCKER_LABEL "=%s", runtime->project);
    if (runtime_path(runtime, node, "etc", etc + strlen(etc), PATH_MAX) != 0 ||
        runtime_path(runtime, node, "data", data + strlen(data), PATH_MAX) != 0)
        return -1;
    if (geteuid() != 0) {
        (void)snprintf(user, sizeof user, "--user=%ld:%ld", (long)geteuid(), (long)getegid());
        arguments[n++] = user;
    }
    arguments[n++] = runtime->image;
    arguments[n++] = runtime->server;
    arguments[n] = "/redlock/conf";
    runtime_at(runtime, node)->made = true;
    if (program_run(&program, COMMAND_MS, arguments) != 0)
        return fail_with(runtime, "a container with the host's network cannot be made", &program);
    return 0;
}

static int docker_reach_host(struct runtime *runtime, unsigned node, bool on)
{
    char name[RUNTIME_NAME + SHORT];
    struct program program;

    container_name(runtime, node, name, sizeof name);
    if (runtime_at(runtime, node)->made &&
        program_run(&program, COMMAND_MS,
                    (const char *const[]){"docker", "rm", "-f", "-v", name, NULL}) != 0)
        return fail_with(runtime, "the container cannot be removed", &program);
    runtime_at(runtime, node)->made = false;
    runtime_at(runtime, node)->on_host = on;
    return 0;
}

/* ---- containers that are there ------------------------------------------------------------ */

/* `docker <verb> <container>` for each of the set, all at once. The first failure is told. */
static int for_each(struct runtime *runtime, uint32_t set, const char *verb)
{
    struct program *programs = calloc(runtime->nodes, sizeof *programs);
    char name[RUNTIME_NAME + SHORT];
    int rc = 0;

    if (programs == NULL)
        return runtime_fail(runtime, "out of memory");
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0) {
            container_name(runtime, i, name, sizeof name);
            program_start(&programs[i - 1], (const char *const[]){"docker", verb, name, NULL});
        }
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0 &&
            program_finish(&programs[i - 1], COMMAND_MS, runtime->ending) != 0 && rc == 0)
            rc = runtime_fail(runtime, "docker %s of node %u: %.400s", verb, i,
                              programs[i - 1].errors);
    free(programs);
    return rc;
}

static uint32_t made_ones(const struct runtime *runtime, uint32_t set, bool made)
{
    uint32_t found = 0;

    for (unsigned i = 1; i <= runtime->nodes; i++)
        if (runtime->node[i - 1].made == made)
            found |= runtime_set(i);
    return found & set;
}

static int docker_launch(struct runtime *runtime, uint32_t set)
{
    uint32_t made = made_ones(runtime, set, true), missing = made_ones(runtime, set, false);

    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((missing & runtime_set(i)) != 0 && runtime_at(runtime, i)->on_host) {
            missing &= ~runtime_set(i);
            if (run_on_host(runtime, i) != 0)
                return -1;
        }
    if (missing != 0 && compose_up(runtime, missing) != 0)
        return -1;
    return made == 0 ? 0 : for_each(runtime, made, "start");
}

/* -1: the engine doesn't tell. */
static int inspect(struct runtime *runtime, unsigned node, const char *format,
                   struct program *program)
{
    char name[RUNTIME_NAME + SHORT];

    container_name(runtime, node, name, sizeof name);
    program_start(program, (const char *const[]){"docker", "inspect", "-f", format, name, NULL});
    return program_finish(program, COMMAND_MS, runtime->ending);
}

static enum node_state docker_state(struct runtime *runtime, unsigned node)
{
    struct program program;

    if (!runtime_at(runtime, node)->made ||
        inspect(runtime, node, "{{.State.Status}}", &program) != 0)
        return NODE_DOWN;
    if (strncmp(program.output, "running", 7) == 0)
        return NODE_UP;
    return strncmp(program.output, "paused", 6) == 0 ? NODE_FROZEN : NODE_DOWN;
}

/* Killing what isn't running fails, and is fine: what counts is that they are down afterwards. A
 * paused one dies before it does anything else. */
static int docker_end(struct runtime *runtime, uint32_t set)
{
    uint32_t made = made_ones(runtime, set, true);

    if (made == 0 || for_each(runtime, made, "kill") == 0)
        return 0;
    if (program_interrupted() && !runtime->ending)
        return -1;
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((made & runtime_set(i)) != 0 && docker_state(runtime, i) != NODE_DOWN)
            return -1;
    return 0;
}

static int change(struct runtime *runtime, unsigned node, const char *verb, enum node_state wanted)
{
    if (for_each(runtime, runtime_set(node), verb) != 0)
        return -1;
    if (docker_state(runtime, node) != wanted)
        return runtime_fail(runtime, "docker %s had no effect on node %u", verb, node);
    return 0;
}

static int docker_freeze(struct runtime *runtime, unsigned node)
{
    return change(runtime, node, "pause", NODE_FROZEN);
}

static int docker_thaw(struct runtime *runtime, unsigned node)
{
    return change(runtime, node, "unpause", NODE_UP);
}

static void docker_words(struct runtime *runtime, unsigned node, char *text, size_t size)
{
    char name[RUNTIME_NAME + SHORT];
    struct program program;

    container_name(runtime, node, name, sizeof name);
    (void)program_run(&program, COMMAND_MS,
                      (const char *const[]){"docker", "logs", "--tail", "5", name, NULL});
    (void)snprintf(text, size, "%s%s", program.output, program.errors);
}

/* ---- the end --------------------------------------------------------------------------- */

static unsigned docker_clear(struct runtime *runtime)
{
    char override[PATH_MAX + SHORT];
    unsigned removed = 0, left;

    if (runtime->project[0] == '\0')
        return 0;
    (void)docker_remove(runtime->project, NULL, &removed);
    for (int i = 0; (left = docker_count(runtime->project)) != 0 && i < CLEAR_TRIES; i++) {
        (void)poll(NULL, 0, CLEAR_PAUSE_MS);
        (void)docker_remove(runtime->project, NULL, &removed);
    }
    for (unsigned i = 0; i < runtime->nodes; i++)
        runtime->node[i].made = runtime->node[i].on_host = false;
    override_path(runtime, override);
    (void)unlink(override);
    return left;
}

const struct runtime_ops docker_ops = {
    .slow = true,
    .prepare = docker_prepare,
    .launch = docker_launch,
    .end = docker_end,
    .freeze = docker_freeze,
    .thaw = docker_thaw,
    .state = docker_state,
    .words = docker_words,
    .reach_host = docker_reach_host,
    .clear = docker_clear,
};
