/*
 * What a server is told before it starts: a configuration file, the plan of its clock and the
 * library that follows the plan. In a container it sees them, and its data, at fixed places.
 */
#include "clock_plan.h"
#include "place.h"
#include "runtime_state.h"
#include "tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CONFIG_SIZE = 32768
};

/* ---- the library ----------------------------------------------------------------- */

static int copy_preload(struct runtime *runtime, unsigned node)
{
    char from[PATH_MAX], to[PATH_MAX];

    if (!place_preload(from, sizeof from))
        return runtime_fail(runtime,
                            "the library that bends the servers' clocks is not there: %s; build "
                            "it, or install again",
                            from);
    if (runtime_path(runtime, node, "etc/preload.so", to, sizeof to) != 0)
        return -1;
    if (tree_copy_file(from, to, 0755) != 0)
        return runtime_fail(runtime, "%s: %s", to, strerror(errno));
    return 0;
}

/* ---- directories ------------------------------------------------------------------- */

/* Others may read etc and write data: in a container the server is some other user. Nobody gets
 * there from outside, as the run's directory is closed. */
static int make_directories(struct runtime *runtime, unsigned node)
{
    static const struct {
        const char *name;
        mode_t mode;
    } directories[] = {{"", 0755}, {"etc", 0755}, {"data", 0777}};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        if (runtime_path(runtime, node, directories[i].name, path, sizeof path) != 0)
            return -1;
        if (tree_make(path, directories[i].mode) != 0)
            return runtime_fail(runtime, "%s: %s", path, strerror(errno));
    }
    return 0;
}

int config_prepare(struct runtime *runtime, unsigned node)
{
    char path[PATH_MAX];

    if (make_directories(runtime, node) != 0 || copy_preload(runtime, node) != 0 ||
        runtime_path(runtime, node, "etc/plan", path, sizeof path) != 0)
        return -1;
    runtime_at(runtime, node)->clock = clock_plan_create(path);
    if (runtime_at(runtime, node)->clock == NULL || chmod(path, 0644) != 0)
        return runtime_fail(runtime, "%s: %s", path, strerror(errno));
    return 0;
}

/* ---- the configuration file ----------------------------------------------------------- */

struct config {
    size_t used;
    char text[CONFIG_SIZE];
};

__attribute__((format(printf, 2, 3))) static void add(struct config *config, const char *format,
                                                      ...)
{
    va_list values;
    int n;

    va_start(values, format);
    n = vsnprintf(config->text + config->used, CONFIG_SIZE - config->used, format, values);
    va_end(values);
    config->used += (size_t)n;
    if (config->used >= CONFIG_SIZE) /* is noticed at the end */
        config->used = CONFIG_SIZE - 1;
}

static void add_quoted(struct config *config, const char *value)
{
    add(config, " \"");
    for (; *value != '\0'; value++)
        add(config, strchr("\"\\", *value) == NULL ? "%c" : "\\%c", *value);
    add(config, "\"");
}

static void add_place(struct config *config, struct runtime *runtime, unsigned node)
{
    struct runtime_node *at = runtime_at(runtime, node);
    bool inside = runtime->kind == RUNTIME_DOCKER;
    char data[PATH_MAX] = "/data";

    if (!inside)
        (void)runtime_path(runtime, node, "data", data, sizeof data);
    add(config, "dir");
    add_quoted(config, data);
    if (inside && !at->on_host)
        add(config, "\nport 6379\n");
    else
        add(config, "\nport %d\nbind 127.0.0.1\n", at->port);
}

/* A copy for a replica goes through the socket, at once: by default a primary waits seconds for
 * more of them. Append-only files are never rewritten on their own: what is on the disk is the
 * scenarios' business. */
static void add_settings(struct config *config, const struct runtime *runtime)
{
    bool durable = runtime->persistence != PERSIST_NONE;

    add(config, "daemonize no\nprotected-mode no\nsave \"\"\n");
    add(config, "appendonly %s\nappendfsync %s\n", durable ? "yes" : "no",
        runtime->persistence == PERSIST_ALWAYS ? "always" : "everysec");
    add(config, "no-appendfsync-on-rewrite no\nauto-aof-rewrite-percentage 0\n");
    add(config, "maxmemory-policy noeviction\n");
    add(config, "repl-diskless-sync yes\nrepl-diskless-sync-delay 0\n");
    if (runtime->major >= 6)
        add(config, "repl-diskless-load swapdb\n");
    if (runtime->major >= 7)
        add(config, "enable-debug-command yes\nenable-protected-configs yes\n");
}

/* As the server itself makes lines of its arguments. What is given twice, counts the last time. */
static void add_arguments(struct config *config, const char *const *arguments)
{
    for (; arguments != NULL && *arguments != NULL; arguments++)
        if (strncmp(*arguments, "--", 2) == 0)
            add(config, "\n%s", *arguments + 2);
        else
            add_quoted(config, *arguments);
    add(config, "\n");
}

int config_write(struct runtime *runtime, unsigned node, const char *const *arguments)
{
    static const mode_t mode = 0644;
    struct config config = {0};
    char path[PATH_MAX];

    if (runtime_path(runtime, node, "etc/conf", path, sizeof path) != 0)
        return -1;
    add_place(&config, runtime, node);
    add_settings(&config, runtime);
    add_arguments(&config, arguments);
    if (config.used >= CONFIG_SIZE - 1)
        return runtime_fail(runtime, "the arguments for node %u are longer than %d bytes", node,
                            CONFIG_SIZE);
    if (tree_write(path, mode, config.text, config.used) != 0)
        return runtime_fail(runtime, "%s: %s", path, strerror(errno));
    return 0;
}
