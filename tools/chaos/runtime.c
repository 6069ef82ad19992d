/*
 * The common part of both kinds of runtime; see runtime.h and runtime_state.h.
 *
 * Ports are the kernel's choice and stay ours for the whole run, also while a node is down: a bound
 * socket that doesn't listen keeps everybody else away, even the kernel itself, which might
 * give the port to an outgoing connection (which might then be connected to itself). A server binds
 * to it all the same, as both sides say SO_REUSEADDR.
 *
 * Nothing is waited for by a fixed sleep: a server is up when it answers PING, and dead when it is
 * gone.
 */
#include "runtime_state.h"

#include "clock_plan.h"
#include "program.h"
#include "rundir.h"
#include "tree.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    COMMAND_MS = 2000,
    PROBE_MS = 500,
    AWAIT_PAUSE_MS = 5,
    STATE_EVERY_MS = 250, /* while waiting: asking for it costs more than a PING */
    WORDS_SIZE = 400
};

/* ---- texts ------------------------------------------------------------------------ */

int runtime_fail(struct runtime *runtime, const char *format, ...)
{
    char text[RUNTIME_TEXT]; /* the old text may be among the values */
    va_list values;

    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    (void)memcpy(runtime->text, text, sizeof text);
    return -1;
}

const char *runtime_text(const struct runtime *runtime)
{
    return runtime->text;
}

static int fail_with_words(struct runtime *runtime, unsigned node, const char *what)
{
    char words[WORDS_SIZE] = "";

    runtime->ops->words(runtime, node, words, sizeof words);
    return runtime_fail(runtime, "node %u on port %d %s; its last words: %s", node,
                        runtime_port(runtime, node), what, words);
}

int runtime_path(struct runtime *runtime, unsigned node, const char *name, char *path, size_t size)
{
    if (snprintf(path, size, "%s/n%u/%s", runtime->directory, node, name) < (int)size)
        return 0;
    return runtime_fail(runtime, "%s is too long a name for a directory", runtime->directory);
}

int runtime_on_path(struct runtime *runtime, unsigned node, const char *name,
                    int (*action)(const char *path))
{
    char path[PATH_MAX];

    if (runtime_path(runtime, node, name, path, sizeof path) != 0)
        return -1;
    if (action(path) != 0)
        return runtime_fail(runtime, "%s: %s", path, strerror(errno));
    return 0;
}

int runtime_take_version(struct runtime *runtime, const char *said)
{
    const char *number = strstr(said, "v=");
    int name = (int)strcspn(said, " \n");

    if (number == NULL || name == 0 || name > 20)
        return -1;
    number += 2;
    runtime->major = (unsigned)strtoul(number, NULL, 10);
    (void)snprintf(runtime->version, sizeof runtime->version, "%.*s %.*s", name, said,
                   (int)strcspn(number, " \n"), number);
    return 0;
}

/* ---- ports ------------------------------------------------------------------------ */

/* A socket bound to a port of 127.0.0.1 that nobody else has; -1 with the text. */
static int reserve_port(struct runtime *runtime, int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        (void)runtime_fail(runtime, "no port of 127.0.0.1 can be had: %s", strerror(errno));
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

static int reserve_ports(struct runtime *runtime)
{
    runtime->nowhere = reserve_port(runtime, &runtime->nowhere_port);
    if (runtime->nowhere < 0)
        return -1;
    for (unsigned i = 0; i < runtime->nodes; i++) {
        runtime->node[i].reserved = reserve_port(runtime, &runtime->node[i].port);
        if (runtime->node[i].reserved < 0)
            return -1;
    }
    return 0;
}

int runtime_port(const struct runtime *runtime, unsigned node)
{
    return runtime->node[node - 1].port;
}

struct clock_plan *runtime_clock(struct runtime *runtime, unsigned node)
{
    return runtime_at(runtime, node)->clock;
}

/* ---- making and ending one ----------------------------------------------------------- */

static int prepare_kind(struct runtime *runtime, enum runtime_kind kind)
{
    runtime->kind = kind;
    runtime->ops = kind == RUNTIME_DOCKER ? &docker_ops : &process_ops;
    return runtime->ops->prepare(runtime);
}

/* Containers first; what was wrong with them matters if processes don't work out either. */
static int prepare_auto(struct runtime *runtime)
{
    char why[RUNTIME_TEXT];

    if (prepare_kind(runtime, RUNTIME_DOCKER) == 0)
        return 0;
    (void)memcpy(why, runtime->text, sizeof why);
    if (program_interrupted())
        return -1;
    (void)runtime->ops->clear(runtime);
    if (runtime->compose[0] != NULL) /* there is an engine, so they are what one would expect */
        (void)fprintf(stderr, "using local processes, not containers: %s\n", why);
    if (prepare_kind(runtime, RUNTIME_PROCESS) == 0)
        return 0;
    return runtime_fail(runtime, "processes: %.450s; containers: %.450s", runtime->text, why);
}

static int prepare(struct runtime *runtime, const struct runtime_options *options)
{
    if (options->nodes < 1 || options->nodes > RUNTIME_NODES_MAX)
        return runtime_fail(runtime, "nodes: 1 to %d", RUNTIME_NODES_MAX);
    if (realpath(options->directory, runtime->directory) == NULL)
        return runtime_fail(runtime, "%s: %s", options->directory, strerror(errno));
    if (rundir_own(runtime->directory) != 0)
        return runtime_fail(runtime, "%s cannot be written to: %s", runtime->directory,
                            strerror(errno));
    if (reserve_ports(runtime) != 0)
        return -1;
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if (config_prepare(runtime, i) != 0)
            return -1;
    if (options->kind == RUNTIME_AUTO)
        return prepare_auto(runtime);
    return prepare_kind(runtime, options->kind);
}

struct runtime *runtime_new(const struct runtime_options *options, char *text, size_t text_size)
{
    struct runtime *runtime = calloc(1, sizeof *runtime);

    if (runtime == NULL) {
        (void)snprintf(text, text_size, "out of memory");
        return NULL;
    }
    runtime->nodes = options->nodes;
    runtime->nowhere = -1;
    runtime->wanted_server = options->server;
    runtime->wanted_image = options->image;
    runtime->own_network = options->own_network;
    for (unsigned i = 0; i < RUNTIME_NODES_MAX; i++)
        runtime->node[i].reserved = -1;
    if (prepare(runtime, options) == 0)
        return runtime;
    (void)snprintf(text, text_size, "%s", runtime->text);
    runtime_free(runtime);
    return NULL;
}

static void close_side(struct runtime_node *node)
{
    redisFree(node->side); /* NULL is fine */
    node->side = NULL;
}

static unsigned end_everything(struct runtime *runtime)
{
    bool ending = runtime->ending;
    unsigned left = 0;

    runtime->ending = true;
    for (unsigned i = 0; i < RUNTIME_NODES_MAX; i++)
        close_side(&runtime->node[i]);
    if (runtime->ops != NULL)
        left = runtime->ops->clear(runtime);
    runtime->ending = ending;
    return left;
}

unsigned runtime_left_behind(struct runtime *runtime)
{
    return end_everything(runtime) + rundir_servers_alive(runtime->directory);
}

static void forget_node(struct runtime *runtime, unsigned node)
{
    struct runtime_node *at = runtime_at(runtime, node);

    clock_plan_close(at->clock);
    if (at->reserved < 0) /* it was never made */
        return;
    (void)close(at->reserved);
    (void)runtime_on_path(runtime, node, "", tree_remove);
}

void runtime_free(struct runtime *runtime)
{
    if (runtime == NULL)
        return;
    (void)end_everything(runtime);
    for (unsigned i = 1; i <= RUNTIME_NODES_MAX; i++)
        forget_node(runtime, i);
    if (runtime->nowhere >= 0)
        (void)close(runtime->nowhere);
    free(runtime);
}

void runtime_interrupt(void)
{
    program_interrupt();
}

enum runtime_kind runtime_kind(const struct runtime *runtime)
{
    return runtime->kind;
}

bool runtime_is_slow(const struct runtime *runtime)
{
    return runtime->ops->slow;
}

const char *runtime_version(const struct runtime *runtime)
{
    return runtime->version;
}

/* ---- talking to a node ----------------------------------------------------------------- */

redisContext *runtime_connect(const struct runtime *runtime, unsigned node, int timeout_ms)
{
    struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    redisContext *context =
        redisConnectWithTimeout("127.0.0.1", runtime_port(runtime, node), limit);

    if (context != NULL && context->err == 0 && redisSetTimeout(context, limit) == REDIS_OK)
        return context;
    redisFree(context);
    return NULL;
}

/* The server closed it, or said something nobody asked for. */
static bool is_stale(const redisContext *context)
{
    char byte;
    ssize_t n = recv(context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* A command is never sent twice: who asks for one that must not be repeated need not think about
 * it. So whether the connection is still good is found out before. */
static redisReply *ask(struct runtime *runtime, unsigned node, const char *format, va_list values)
{
    struct runtime_node *at = runtime_at(runtime, node);
    redisReply *reply;

    if (at->side != NULL && is_stale(at->side))
        close_side(at);
    if (at->side == NULL)
        at->side = runtime_connect(runtime, node, COMMAND_MS);
    if (at->side == NULL) {
        (void)runtime_fail(runtime, "node %u on port %d cannot be reached", node, at->port);
        return NULL;
    }
    reply = redisvCommand(at->side, format, values);
    if (reply == NULL) {
        (void)runtime_fail(runtime, "node %u on port %d does not answer: %.100s", node, at->port,
                           at->side->errstr);
        close_side(at);
    }
    return reply;
}

redisReply *runtime_command(struct runtime *runtime, unsigned node, const char *format, ...)
{
    redisReply *reply;
    va_list values;

    va_start(values, format);
    reply = ask(runtime, node, format, values);
    va_end(values);
    return reply;
}

int runtime_do(struct runtime *runtime, unsigned node, const char *format, ...)
{
    redisReply *reply;
    va_list values;
    int rc = 0;

    va_start(values, format);
    reply = ask(runtime, node, format, values);
    va_end(values);
    if (reply == NULL)
        return -1;
    if (reply->type == REDIS_REPLY_ERROR)
        rc = runtime_fail(runtime, "node %u: %.*s: %.300s", node, (int)strcspn(format, " "), format,
                          reply->str);
    freeReplyObject(reply);
    return rc;
}

/* ---- waiting for an answer --------------------------------------------------------------- */

/* On a connection of its own: one that was made while nobody listened behind a container's port
 * tells nothing. */
enum answer runtime_probe(struct runtime *runtime, unsigned node)
{
    redisContext *context = runtime_connect(runtime, node, PROBE_MS);
    enum answer answer = SILENT;
    redisReply *reply;

    if (context == NULL)
        return SILENT;
    reply = redisCommand(context, "PING");
    if (reply != NULL && reply->type != REDIS_REPLY_ERROR)
        answer = PONGS;
    else if (reply != NULL)
        answer = strncmp(reply->str, "LOADING", 7) == 0 ? LOADING : REFUSES;
    freeReplyObject(reply);
    redisFree(context);
    return answer;
}

static int await(struct runtime *runtime, unsigned node, int timeout_ms, enum answer least)
{
    int64_t now_ms = program_now_ms(), until_ms = now_ms + timeout_ms;
    int64_t look_ms = now_ms + STATE_EVERY_MS;

    while (runtime_probe(runtime, node) < least) {
        now_ms = program_now_ms();
        if (now_ms >= look_ms && runtime->ops->state(runtime, node) == NODE_DOWN)
            return fail_with_words(runtime, node, "ended before it answered");
        if (now_ms >= look_ms)
            look_ms = now_ms + STATE_EVERY_MS;
        if (now_ms >= until_ms)
            return fail_with_words(runtime, node, "does not answer");
        if (!program_pause(AWAIT_PAUSE_MS))
            return runtime_fail(runtime, "interrupted");
    }
    return 0;
}

int runtime_await(struct runtime *runtime, unsigned node, int timeout_ms)
{
    return await(runtime, node, timeout_ms, PONGS);
}

/* ---- life and death ---------------------------------------------------------------------- */

int runtime_end(struct runtime *runtime, uint32_t set)
{
    if (!runtime->ending && program_interrupted())
        return runtime_fail(runtime, "interrupted");
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0) {
            close_side(runtime_at(runtime, i));
            runtime_at(runtime, i)->dropping = false;
        }
    return runtime->ops->end(runtime, set);
}

enum node_state runtime_state(struct runtime *runtime, unsigned node)
{
    return runtime->ops->state(runtime, node);
}

int runtime_kill(struct runtime *runtime, unsigned node)
{
    return runtime_end(runtime, runtime_set(node));
}

int runtime_remember(struct runtime *runtime, unsigned node)
{
    char data[PATH_MAX], older[PATH_MAX];

    if (runtime_on_path(runtime, node, "older", tree_remove) != 0 ||
        runtime_path(runtime, node, "data", data, sizeof data) != 0 ||
        runtime_path(runtime, node, "older", older, sizeof older) != 0)
        return -1;
    if (tree_make(older, 0755) != 0 || tree_copy(data, older) != 0)
        return runtime_fail(runtime, "%s: %s", older, strerror(errno));
    return 0;
}

static int put_back(struct runtime *runtime, unsigned node)
{
    char data[PATH_MAX], older[PATH_MAX];

    if (runtime_path(runtime, node, "data", data, sizeof data) != 0 ||
        runtime_path(runtime, node, "older", older, sizeof older) != 0)
        return -1;
    if (access(older, F_OK) != 0)
        return runtime_fail(runtime, "no data of node %u were kept to go back to", node);
    if (tree_empty(data) != 0 || tree_copy(older, data) != 0)
        return runtime_fail(runtime, "%s: %s", data, strerror(errno));
    return 0;
}

int runtime_revive(struct runtime *runtime, unsigned node, enum revival revival,
                   const char *const *arguments)
{
    enum answer least = arguments == NULL ? PONGS : LOADING;

    if (runtime_state(runtime, node) != NODE_DOWN)
        return runtime_fail(runtime, "node %u is not down", node);
    if (runtime_end(runtime, runtime_set(node)) !=
        0) /* what is left of one that ended on its own */
        return -1;
    if (revival == REVIVE_EMPTY && runtime_on_path(runtime, node, "data", tree_empty) != 0)
        return -1;
    if (revival == REVIVE_OLDER && put_back(runtime, node) != 0)
        return -1;
    if (config_write(runtime, node, arguments) != 0 ||
        runtime->ops->launch(runtime, runtime_set(node)) != 0)
        return -1;
    return await(runtime, node, SERVER_READY_MS, least);
}

int runtime_freeze(struct runtime *runtime, unsigned node)
{
    if (runtime_state(runtime, node) != NODE_UP)
        return runtime_fail(runtime, "node %u is not up", node);
    return runtime->ops->freeze(runtime, node);
}

int runtime_thaw(struct runtime *runtime, unsigned node)
{
    if (runtime_state(runtime, node) != NODE_FROZEN)
        return runtime_fail(runtime, "node %u is not frozen", node);
    return runtime->ops->thaw(runtime, node);
}

bool runtime_can_drop(const struct runtime *runtime)
{
    return runtime->can_drop;
}

int runtime_drop(struct runtime *runtime, unsigned node, bool on)
{
    if (!runtime->can_drop)
        return runtime_fail(runtime, "packets can only be dropped in a network of one's own: by "
                                     "root, with iptables and --runtime process");
    if (runtime_state(runtime, node) == NODE_DOWN)
        return runtime_fail(runtime, "node %u is down", node);
    if (runtime_at(runtime, node)->dropping == on)
        return 0;
    if (runtime->ops->drop(runtime, node, on) != 0)
        return -1;
    runtime_at(runtime, node)->dropping = on;
    return 0;
}
