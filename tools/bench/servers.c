/*
 * See servers.h. A free port is one the kernel gave to a socket that was closed again; should
 * somebody else be quicker, the server ends at once and another port is tried. A server counts as
 * started when the one that answers has our process id. Its directory is a temporary one that is
 * removed again at once, before the first server is started: nothing can be written there, and
 * nothing is left of it however this process ends.
 */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PORT_TRIES = 10,
    ANSWER_TRIES = 500,
    ANSWER_PAUSE_MS = 10
};

/* ---- the program ---------------------------------------------------------------- */

/* A place on PATH, named so that it is the same from every directory. False: it doesn't fit. */
static bool name_absolutely(const char *place, size_t length, const char *name, char *path,
                            size_t size)
{
    char here[4096] = "";

    if (*place != '/' && !getcwd(here, sizeof here))
        return false;
    return (size_t)snprintf(path, size, "%s%s%.*s/%s", here, *here ? "/" : "", (int)length, place,
                            name) < size;
}

static int find(const char *name, char *path, size_t size)
{
    const char *at = getenv("PATH");

    if (!at || !*at)
        at = "/usr/local/bin:/usr/bin:/bin";
    while (*at) {
        size_t length = strcspn(at, ":");
        struct stat status;

        if (length > 0 && name_absolutely(at, length, name, path, size) &&
            stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0)
            return 0;
        at += length;
        at += *at == ':';
    }
    return -1;
}

int servers_find(struct servers *servers)
{
    if (find("redis-server", servers->program, sizeof servers->program) == 0)
        return 0;
    return find("valkey-server", servers->program, sizeof servers->program);
}

/* ---- one server ------------------------------------------------------------------ */

static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* In the child: only async-signal-safe calls. A process group of its own: a terminal's Ctrl-C is
 * the bench's business. */
static void become_server(const char *program, char *const *words, int directory, pid_t parent)
{
    sigset_t none;
    int fd;

    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    fd = open("/dev/null", O_RDWR);
    if (fd < 0 || dup2(fd, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
        dup2(fd, STDERR_FILENO) < 0 || fchdir(directory) != 0)
        _exit(1);
    execv(program, words);
    _exit(1);
}

static pid_t spawn(const char *program, int port, int directory)
{
    char digits[12];
    const char *const words[] = {program,  "--port",     digits,         "--bind", "127.0.0.1",
                                 "--save", "",           "--appendonly", "no",     "--daemonize",
                                 "no",     "--loglevel", "warning",      NULL};
    pid_t parent = getpid(), pid;

    snprintf(digits, sizeof digits, "%d", port);
    pid = fork();
    if (pid == 0)
        become_server(program, (char *const *)(uintptr_t)words, directory, parent);
    return pid;
}

/* The process id of who answers at the port; 0: nobody yet. */
static pid_t who_answers(int port)
{
    const struct timeval patience = {.tv_sec = 1};
    redisContext *context = redisConnectWithTimeout("127.0.0.1", port, patience);
    redisReply *reply = NULL;
    const char *at;
    pid_t pid = 0;

    if (context && !context->err && redisSetTimeout(context, patience) == REDIS_OK)
        reply = redisCommand(context, "INFO server");
    at = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "process_id:") : NULL;
    if (at)
        pid = (pid_t)strtol(at + strlen("process_id:"), NULL, 10);
    if (reply)
        freeReplyObject(reply);
    if (context)
        redisFree(context);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* 0, or -1: it ended, or somebody else has the port, or it never answered. */
static int await(pid_t pid, int port)
{
    for (unsigned tries = 0; tries < ANSWER_TRIES; tries++) {
        pid_t who = who_answers(port);

        if (who == pid)
            return 0;
        if (who != 0)
            break;
        if (waitpid(pid, NULL, WNOHANG) == pid)
            return -1;
        poll(NULL, 0, ANSWER_PAUSE_MS);
    }
    end(pid);
    return -1;
}

static int start_one(struct servers *servers, int directory)
{
    for (unsigned tries = 0; tries < PORT_TRIES; tries++) {
        int port = free_port();
        pid_t pid = port > 0 ? spawn(servers->program, port, directory) : -1;

        if (pid < 0)
            return -1;
        if (await(pid, port) != 0)
            continue;
        snprintf(servers->uris[servers->count], SERVERS_URI, "redis://127.0.0.1:%d", port);
        servers->pids[servers->count++] = pid;
        return 0;
    }
    return -1;
}

/* ---- all of them ------------------------------------------------------------------- */

/* A directory that has no name any more, opened; -1 and the reason. */
static int open_nowhere(char *problem, size_t size)
{
    const char *root = getenv("TMPDIR");
    char path[4096];
    int fd;

    snprintf(path, sizeof path, "%s/redlock-bench-XXXXXX", root && *root ? root : "/tmp");
    if (!mkdtemp(path)) {
        snprintf(problem, size, "%.200s: %s", path, strerror(errno));
        return -1;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        snprintf(problem, size, "%.200s: %s", path, strerror(errno));
    rmdir(path);
    return fd;
}

int servers_start(struct servers *servers, unsigned count, char *problem, size_t size)
{
    int directory = open_nowhere(problem, size), rc = 0;

    if (directory < 0)
        return -1;
    while (servers->count < count && rc == 0)
        rc = start_one(servers, directory);
    close(directory);
    if (rc != 0)
        snprintf(problem, size, "%.200s doesn't answer on a loopback port", servers->program);
    return rc;
}

void servers_end(struct servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++)
        end(servers->pids[i]);
    servers->count = 0;
}
