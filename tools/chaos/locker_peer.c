/*
 * A peer: a child that speaks the line protocol of locker.h. It belongs to the worker's process
 * group, so that who freezes or kills the worker reaches it, and dies with the worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "history.h"
#include "locker.h"
#include "worker_lines.h"

enum {
    PATIENCE_MS = 5000, /* on top of what it was told to wait */
    BEGIN_MS = 10000,   /* and for an interpreter to begin */
    QUIT_MS = 1000,
    LINE_LEN = 4096,
    NS_PER_MS = 1000000
};

struct peer {
    struct locker base;
    const struct worker_spec *spec;
    pid_t pid;
    int to; /* its standard input */
    struct lines from;
};

struct peer_hold {
    struct hold base;
    int64_t ttl_ms;
    int64_t deadline_ns; /* 0: not held */
};

/* An answer line, taken apart in place. */
struct reply {
    const char *word;
    char *rest; /* behind the id */
    int64_t asked_ns;
};

static struct peer *peer_of(const struct hold *hold)
{
    return (struct peer *)hold->locker;
}

/* ---- asking --------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void fail(struct peer *peer, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (peer->base.failure[0] == '\0')
        (void)vsnprintf(peer->base.failure, sizeof peer->base.failure, format, arguments);
    va_end(arguments);
}

/* A peer may send anything, and the history is text. */
static void make_printable(char *line)
{
    for (; *line != '\0'; line++)
        if (*line < ' ' || *line > '~')
            *line = '?';
}

/* "word id rest"; false: it is none, or of another command. */
static bool take_apart(char *line, int64_t id, struct reply *reply)
{
    char *number = strchr(line, ' '), *end;

    if (number == NULL)
        return false;
    *number++ = '\0';
    reply->word = line;
    errno = 0;
    if (strtoll(number, &end, 10) != id || end == number || errno != 0 ||
        (*end != '\0' && *end != ' '))
        return false;
    reply->rest = *end == ' ' ? end + 1 : end;
    return true;
}

/* False: it has failed, for good. */
static bool ask(struct peer *peer, int64_t id, int64_t wait_ms, const char *command,
                struct reply *reply)
{
    int64_t patience_ms = wait_ms + PATIENCE_MS;
    char *line;

    if (peer->base.failure[0] != '\0')
        return false;
    reply->asked_ns = history_now();
    if (!lines_write(peer->to, command, strlen(command))) {
        fail(peer, "peer %s: gone", peer->spec->peer[0]);
        return false;
    }
    line = lines_next(&peer->from, reply->asked_ns + patience_ms * NS_PER_MS);
    if (line != NULL)
        make_printable(line);
    if (line == NULL && peer->from.ended)
        fail(peer, "peer %s: gone", peer->spec->peer[0]);
    else if (line == NULL)
        fail(peer, "peer %s: no answer within %" PRId64 " ms to: %.60s", peer->spec->peer[0],
             patience_ms, command);
    else if (take_apart(line, id, reply))
        return true;
    else
        fail(peer, "peer %s: not an answer to %" PRId64 ": %.80s", peer->spec->peer[0], id, line);
    return false;
}

/* ---- answers -------------------------------------------------------------- */

/* "ok": the validity, owner and fence, as far as they are there. */
static void take_grant(struct peer_hold *hold, char *rest, int64_t asked_ns)
{
    int64_t validity_ms = hold->ttl_ms;
    char owner[LINE_LEN] = "";
    int64_t fence = 0;
    int taken = sscanf(rest, "%" SCNd64 " %4095s %" SCNd64, &validity_ms, owner, &fence);

    hold->deadline_ns = asked_ns + validity_ms * NS_PER_MS;
    if (taken >= 2)
        (void)snprintf(hold->base.owner, sizeof hold->base.owner, "%.*s", LOCKER_OWNER_LEN, owner);
    if (taken == 3)
        hold->base.fence = fence;
}

static int64_t peer_remaining_ms(const struct hold *hold)
{
    int64_t left_ns = ((const struct peer_hold *)hold)->deadline_ns - history_now();

    return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

static int64_t peer_deadline_ns(const struct hold *hold)
{
    return ((const struct peer_hold *)hold)->deadline_ns;
}

static bool peer_held(const struct hold *hold)
{
    return peer_deadline_ns(hold) > history_now();
}

static void add_hold(const struct hold *hold, struct outcome *outcome)
{
    memcpy(outcome->owner, hold->owner, sizeof outcome->owner);
    outcome->fence = hold->fence;
    outcome->validity_ms = peer_remaining_ms(hold);
    outcome->deadline_ns = peer_deadline_ns(hold);
}

/* What isn't "ok". */
static void judge(struct peer *peer, const struct reply *reply, struct outcome *outcome)
{
    outcome->rc = "error";
    if (peer->base.failure[0] != '\0')
        memcpy(outcome->text, peer->base.failure, sizeof outcome->text);
    else if (strcmp(reply->word, "busy") == 0 || strcmp(reply->word, "lost") == 0)
        outcome->rc = reply->word[0] == 'b' ? "busy" : "lost";
    else if (strcmp(reply->word, "error") == 0)
        (void)snprintf(outcome->text, sizeof outcome->text, "%s", reply->rest);
    else {
        fail(peer, "peer %s: unknown answer %.40s", peer->spec->peer[0], reply->word);
        memcpy(outcome->text, peer->base.failure, sizeof outcome->text);
    }
}

static bool is_ok(bool answered, const struct reply *reply)
{
    return answered && strcmp(reply->word, "ok") == 0;
}

static void peer_acquire(struct locker *locker, const struct wish *wish, struct outcome *outcome,
                         struct hold **hold)
{
    struct peer *peer = (struct peer *)locker;
    struct peer_hold *made = calloc(1, sizeof *made);
    struct reply reply = {0};
    char command[LINE_LEN];

    *outcome = (struct outcome){.rc = "error", .text = "out of memory", .attempts = 1};
    if (made == NULL)
        return;
    outcome->text[0] = '\0';
    made->base = (struct hold){.locker = locker, .number = wish->number};
    made->ttl_ms = wish->ttl_ms;
    (void)snprintf(command, sizeof command, "acquire %" PRId64 " %s %" PRId64 " %" PRId64 "\n",
                   wish->number, wish->name, wish->ttl_ms, wish->wait_ms);
    if (!is_ok(ask(peer, wish->number, wish->wait_ms, command, &reply), &reply)) {
        judge(peer, &reply, outcome);
        free(made);
        return;
    }
    take_grant(made, reply.rest, reply.asked_ns);
    outcome->rc = "ok";
    add_hold(&made->base, outcome);
    *hold = &made->base;
}

static void peer_extend(struct hold *hold, int64_t ttl_ms, struct outcome *outcome)
{
    struct peer_hold *ours = (struct peer_hold *)hold;
    struct reply reply = {0};
    char command[LINE_LEN];

    *outcome = (struct outcome){.rc = "ok", .attempts = 1};
    (void)snprintf(command, sizeof command, "extend %" PRId64 " %" PRId64 "\n", hold->number,
                   ttl_ms);
    if (is_ok(ask(peer_of(hold), hold->number, 0, command, &reply), &reply)) {
        ours->ttl_ms = ttl_ms;
        take_grant(ours, reply.rest, reply.asked_ns);
    } else
        judge(peer_of(hold), &reply, outcome);
    if (strcmp(outcome->rc, "lost") == 0)
        ours->deadline_ns = 0;
    add_hold(hold, outcome);
}

static void peer_release(struct hold *hold, struct outcome *outcome)
{
    struct peer_hold *ours = (struct peer_hold *)hold;
    struct reply reply = {0};
    char command[LINE_LEN];

    *outcome = (struct outcome){.rc = "ok", .attempts = 1};
    ours->deadline_ns = 0;
    (void)snprintf(command, sizeof command, "release %" PRId64 "\n", hold->number);
    if (!is_ok(ask(peer_of(hold), hold->number, 0, command, &reply), &reply))
        judge(peer_of(hold), &reply, outcome);
    add_hold(hold, outcome);
    free(hold);
}

static int peer_margin(const struct hold *hold)
{
    (void)hold;
    return -1;
}

static json_t *peer_nothing(struct locker *locker)
{
    (void)locker;
    return NULL;
}

static json_t *peer_init(struct locker *locker, const json_t *command)
{
    (void)command;
    return peer_nothing(locker);
}

/* ---- life ----------------------------------------------------------------- */

static bool peer_ready(struct locker *locker)
{
    (void)locker;
    return true;
}

static void await_end(struct peer *peer)
{
    int64_t deadline_ns = history_now() + QUIT_MS * (int64_t)NS_PER_MS;

    while (!peer->from.ended && lines_next(&peer->from, deadline_ns) == NULL)
        if (!peer->from.ended) /* it takes too long */
            break;
    if (!peer->from.ended)
        (void)kill(peer->pid, SIGKILL);
    while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void peer_free(struct locker *locker)
{
    struct peer *peer = (struct peer *)locker;

    if (peer->to >= 0) {
        (void)lines_write(peer->to, "quit\n", 5);
        (void)close(peer->to);
    }
    if (peer->pid > 0)
        await_end(peer);
    if (peer->from.fd >= 0)
        (void)close(peer->from.fd);
    lines_free(&peer->from);
    free(peer);
}

/* In the child: nothing but system calls. */
static void become(const struct worker_spec *spec, int in, int out, pid_t parent)
{
    sigset_t none;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(in, 0) < 0 || dup2(out, 1) < 0)
        _exit(126);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)execvp(spec->peer[0], (char *const *)(uintptr_t)spec->peer);
    _exit(127);
}

static bool start(struct peer *peer)
{
    int in[2], out[2];
    pid_t parent = getpid();

    if (pipe2(in, O_CLOEXEC) != 0)
        return false;
    if (pipe2(out, O_CLOEXEC) != 0) {
        (void)close(in[0]);
        (void)close(in[1]);
        return false;
    }
    peer->pid = fork();
    if (peer->pid == 0)
        become(peer->spec, in[0], out[1], parent);
    (void)close(in[0]);
    (void)close(out[1]);
    peer->to = in[1];
    lines_init(&peer->from, out[0]);
    return peer->pid > 0;
}

static bool tell_nodes(struct peer *peer)
{
    char command[LINE_LEN] = "nodes";
    size_t used = strlen(command);
    struct reply reply = {0};

    for (size_t i = 0; i < peer->spec->node_count && used < sizeof command; i++)
        used +=
            (size_t)snprintf(command + used, sizeof command - used, " %s", peer->spec->nodes[i]);
    if (used + 2 > sizeof command) {
        fail(peer, "peer %s: the nodes don't fit into a line", peer->spec->peer[0]);
        return false;
    }
    memcpy(command + used, "\n", 2);
    if (is_ok(ask(peer, 0, BEGIN_MS, command, &reply), &reply))
        return true;
    fail(peer, "peer %s: nodes refused: %s", peer->spec->peer[0],
         reply.rest != NULL ? reply.rest : "");
    return false;
}

static const struct locker_kind peer_kind = {.renews = false,
                                             .free = peer_free,
                                             .ready = peer_ready,
                                             .acquire = peer_acquire,
                                             .extend = peer_extend,
                                             .release = peer_release,
                                             .held = peer_held,
                                             .remaining_ms = peer_remaining_ms,
                                             .deadline_ns = peer_deadline_ns,
                                             .margin = peer_margin,
                                             .cancel = NULL,
                                             .health = peer_nothing,
                                             .init = peer_init,
                                             .counters = peer_nothing};

struct locker *locker_peer(const struct worker_spec *spec, char *text, size_t size)
{
    struct peer *peer = calloc(1, sizeof *peer);

    if (peer == NULL)
        return NULL;
    *peer = (struct peer){.base.kind = &peer_kind, .spec = spec, .to = -1, .from.fd = -1};
    if (start(peer) && tell_nodes(peer))
        return &peer->base;
    (void)snprintf(text, size, "%s",
                   peer->base.failure[0] != '\0' ? peer->base.failure : strerror(errno));
    peer_free(&peer->base);
    return NULL;
}
