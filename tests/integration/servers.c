/*
 * See servers.h. A free port is one the kernel gave to a socket that was closed again; should
 * somebody else be quicker, the server ends at once and the next port is tried. A server counts as
 * started when it answers INFO with the process id we know, so that it's never somebody else's, and
 * has loaded its data.
 *
 * What has to outlive a server's process, a data directory or a clock's plan, is in one temporary
 * directory for them all, which goes with servers_stop(). A test that fails leaves it in /tmp.
 */
#include "servers.h"

#include "clock_plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SERVERS_CLOCK_PRELOAD
#define SERVERS_CLOCK_PRELOAD "" /* built without the tools */
#endif

enum {
    PORT_TRIES = 20,
    ANSWER_TRIES = 2000, /* ANSWER_PAUSE_MS apart: ten seconds */
    ANSWER_PAUSE_MS = 5,
    FIRST_PAUSE_NS = 50000,
    LONGEST_PAUSE_NS = 1000000,
    ARGUMENTS_MAX = 32,
    REPLY_MAX = 256 * 1024,
    PATH_SIZE = 64,
    OPEN_DIRECTORIES = 8
};

enum kind {
    PLAIN,
    DURABLE,
    WITH_CLOCK
};

struct server {
    pid_t pid; /* 0: not running */
    int port;
    char uri[64];
    char path[PATH_SIZE]; /* of its data directory or its clock's plan */
    struct clock_plan *clock;
};

/* Endpoints without a server: the socket that keeps the port. */
struct reserved {
    int fd;
    char uri[64];
};

static struct server servers[SERVERS_MAX];
static const char *uris[SERVERS_MAX];
static const char *const *more_arguments;
static enum kind kind;
static char directory[PATH_SIZE]; /* empty: there is none */
static int count;
static pid_t owner;
static struct reserved black_hole = {.fd = -1}, refused = {.fd = -1};
static char reply[REPLY_MAX];

int64_t servers_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void servers_pause(int64_t *pause_ns)
{
    *pause_ns = *pause_ns == 0 ? FIRST_PAUSE_NS : *pause_ns * 2;
    if (*pause_ns > LONGEST_PAUSE_NS)
        *pause_ns = LONGEST_PAUSE_NS;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)*pause_ns}, NULL);
}

/* ---- sockets ------------------------------------------------------------ */

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A socket bound to a port the kernel chose. */
static int bind_anywhere(int *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        ck_abort_msg("no loopback port");
    *port = ntohs(address.sin_port);
    return fd;
}

static const char *reserve(struct reserved *reserved, int listening)
{
    int port;

    if (reserved->fd >= 0)
        return reserved->uri;
    reserved->fd = bind_anywhere(&port);
    if (listening && listen(reserved->fd, 128) != 0)
        ck_abort_msg("listen");
    (void)snprintf(reserved->uri, sizeof reserved->uri, "redis://127.0.0.1:%d", port);
    return reserved->uri;
}

const char *servers_black_hole(void)
{
    return reserve(&black_hole, 1);
}

const char *servers_refused(void)
{
    return reserve(&refused, 0);
}

/* ---- commands ----------------------------------------------------------- */

static size_t encode(char *to, size_t size, const char *first, va_list rest)
{
    const char *arguments[ARGUMENTS_MAX];
    size_t used;
    int n = 0;

    for (const char *argument = first; argument != NULL; argument = va_arg(rest, const char *)) {
        ck_assert_int_lt(n, ARGUMENTS_MAX);
        arguments[n++] = argument;
    }
    used = (size_t)snprintf(to, size, "*%d\r\n", n);
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(to + used, size - used, "$%zu\r\n%s\r\n", strlen(arguments[i]),
                                 arguments[i]);
        ck_assert_uint_lt(used, size);
    }
    return used;
}

/* One reply, without its type; NULL: nil. */
static const char *read_reply(FILE *from, char *to, size_t size)
{
    char line[1024];
    long n;

    if (fgets(line, sizeof line, from) == NULL)
        return "-closed";
    line[strcspn(line, "\r\n")] = '\0';
    n = strtol(line + 1, NULL, 10);
    if (line[0] == '$' && n >= 0) {
        ck_assert_int_lt(n + 2, (long)size);
        if (fread(to, 1, (size_t)n + 2, from) != (size_t)n + 2)
            return "-closed";
        to[n] = '\0';
    } else if (line[0] == '*' && n >= 0) {
        size_t used = 0;
        to[0] = '\0';
        for (long i = 0; i < n; i++) {
            const char *element = read_reply(from, to + used, size - used - 2);
            if (element == to + used)
                used += strlen(to + used);
            else
                used +=
                    (size_t)snprintf(to + used, size - used, "%s", element == NULL ? "" : element);
            to[used++] = '\n';
            to[used] = '\0';
        }
    } else if (line[0] == '$' || line[0] == '*') {
        return NULL;
    } else {
        (void)snprintf(to, size, "%s", line[0] == '-' ? line : line + 1);
    }
    return to;
}

/* NULL in *text and false: no connection. */
static int ask(int port, const char **text, const char *request, size_t len)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FILE *stream;

    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    stream = fdopen(fd, "r");
    if (stream == NULL)
        ck_abort_msg("fdopen");
    *text = read_reply(stream, reply, sizeof reply);
    (void)fclose(stream);
    return 1;
}

const char *servers_command(int i, const char *first, ...)
{
    static char request[64 * 1024];
    const char *text = NULL;
    va_list rest;
    size_t len;

    va_start(rest, first);
    len = encode(request, sizeof request, first, rest);
    va_end(rest);
    if (!ask(servers[i].port, &text, request, len))
        ck_abort_msg("server %d does not answer", i);
    return text;
}

long servers_count(int i, const char *command)
{
    char wanted[64];
    const char *stats = servers_command(i, "INFO", "commandstats", NULL), *at;

    (void)snprintf(wanted, sizeof wanted, "cmdstat_%s:calls=", command);
    at = strstr(stats, wanted);
    return at == NULL ? 0 : strtol(at + strlen(wanted), NULL, 10);
}

int servers_with_key(const char *key)
{
    int with = 0;

    for (int i = 0; i < count; i++)
        if (servers[i].pid != 0)
            with += strcmp(servers_command(i, "EXISTS", key, NULL), "1") == 0;
    return with;
}

void servers_reset_counts(void)
{
    for (int i = 0; i < count; i++)
        (void)servers_command(i, "CONFIG", "RESETSTAT", NULL);
}

/* ---- what outlives a process ---------------------------------------------- */

/* Everything but the directory the walk began with. */
static int remove_inner(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status;
    (void)type;
    return at->level > 0 && remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static int empty_directory(const char *path)
{
    return nftw(path, remove_inner, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS);
}

/* In memory where that is to be had: what is wanted of a disk here is that it outlives a process.
 */
static void make_directory(void)
{
    (void)snprintf(directory, sizeof directory, "/dev/shm/redlock-servers-XXXXXX");
    if (mkdtemp(directory) != NULL)
        return;
    (void)snprintf(directory, sizeof directory, "/tmp/redlock-servers-XXXXXX");
    if (mkdtemp(directory) == NULL)
        ck_abort_msg("mkdtemp: %s", strerror(errno));
}

static void remove_directory(void)
{
    if (directory[0] != '\0' && empty_directory(directory) == 0)
        (void)rmdir(directory);
    directory[0] = '\0';
}

static void make_durable(struct server *server, int i)
{
    (void)snprintf(server->path, sizeof server->path, "%.40s/%d", directory, i);
    if (mkdir(server->path, 0700) != 0)
        ck_abort_msg("%s: %s", server->path, strerror(errno));
}

static void make_clock(struct server *server, int i)
{
    (void)snprintf(server->path, sizeof server->path, "%.40s/%d.clock", directory, i);
    server->clock = clock_plan_create(server->path);
    if (server->clock == NULL)
        ck_abort_msg("%s: %s", server->path, strerror(errno));
}

const char *servers_directory(int i)
{
    ck_assert(kind == DURABLE);
    return servers[i].path;
}

void servers_empty(int i)
{
    ck_assert(kind == DURABLE);
    ck_assert_int_eq(servers[i].pid, 0);
    if (empty_directory(servers[i].path) != 0)
        ck_abort_msg("%s: %s", servers[i].path, strerror(errno));
}

void servers_clock_step(int i, int64_t ms)
{
    ck_assert_ptr_nonnull(servers[i].clock);
    clock_plan_step(servers[i].clock, ms * 1000000);
}

void servers_clock_rate(int i, int64_t ppm)
{
    ck_assert_ptr_nonnull(servers[i].clock);
    clock_plan_rate(servers[i].clock, ppm);
}

/* ---- replicas ----------------------------------------------------------- */

static void configure(int i, const char *name, const char *value)
{
    ck_assert_str_eq(servers_command(i, "CONFIG", "SET", name, value, NULL), "OK");
}

/* The whole copy goes through the socket, at once: a file would be in /tmp for everybody to load
 * at the next start, and by default the primary waits seconds for more replicas. */
void servers_replicate(int i, int of)
{
    char port[16];

    (void)snprintf(port, sizeof port, "%d", servers[of].port);
    configure(of, "repl-diskless-sync", "yes");
    configure(of, "repl-diskless-sync-delay", "0");
    configure(i, "repl-diskless-load", "swapdb");
    ck_assert_str_eq(servers_command(i, "REPLICAOF", "127.0.0.1", port, NULL), "OK");
    AWAIT(strstr(servers_command(i, "INFO", "replication", NULL), "master_link_status:up"));
}

void servers_promote(int i)
{
    ck_assert_str_eq(servers_command(i, "REPLICAOF", "NO", "ONE", NULL), "OK");
}

/* ---- processes ---------------------------------------------------------- */

static char program[4096] = "redis-server";

bool servers_use(const char *flavour)
{
    char command[4096], path[sizeof program] = "redis-server\n";
    FILE *from;
    bool found;

    if (flavour != NULL) {
        (void)snprintf(command, sizeof command, "'%s/tools/servers.sh' path %s 2>/dev/null",
                       REDLOCK_SOURCE_DIR, flavour);
        from = popen(command, "re");
        if (from == NULL)
            ck_abort_msg("popen");
        found = fgets(path, sizeof path, from) != NULL;
        if (pclose(from) != 0 || !found)
            return false;
    }
    path[strcspn(path, "\n")] = '\0';
    (void)memcpy(program, path, sizeof program);
    return true;
}

/* In the child's own environment. */
static void preload_clock(const char *plan)
{
    if (setenv("LD_PRELOAD", SERVERS_CLOCK_PRELOAD, 1) != 0 ||
        setenv(CLOCK_PLAN_VARIABLE, plan, 1) != 0)
        _exit(125);
}

/* Where an option is given twice, redis-server takes the last one. */
static int add_arguments(char **arguments, int n, const char *const *more)
{
    for (int i = 0; more != NULL && more[i] != NULL; i++) {
        if (n + 1 >= ARGUMENTS_MAX)
            _exit(124);
        arguments[n++] = (char *)(uintptr_t)more[i];
    }
    return n;
}

static void run_server(const struct server *server, pid_t parent)
{
    char port_text[16];
    char *arguments[ARGUMENTS_MAX] = {NULL};
    const char *basic[] = {"redis-server", "--port",       port_text, "--bind",
                           "127.0.0.1",    "--save",       "",        "--dir",
                           "/tmp",         "--appendonly", "no",      "--daemonize",
                           "no",           "--logfile",    "",        NULL};
    const char *durable[] = {"--dir",
                             server->path,
                             "--appendonly",
                             "yes",
                             "--appendfsync",
                             "always",
                             "--no-appendfsync-on-rewrite",
                             "no",
                             NULL};
    int n = add_arguments(arguments, 0, basic), null = open("/dev/null", O_RDWR);
    sigset_t none;

    (void)snprintf(port_text, sizeof port_text, "%d", server->port);
    if (kind == DURABLE)
        n = add_arguments(arguments, n, durable);
    if (kind == WITH_CLOCK)
        preload_clock(server->path);
    (void)add_arguments(arguments, n, more_arguments);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(126);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setpgid(0, 0); /* a terminal's Ctrl-C is the test's business */
    (void)dup2(null, 0);
    (void)dup2(null, 1);
    (void)dup2(null, 2);
    (void)execvp(program, arguments);
    _exit(127);
}

static int has_ended(struct server *server)
{
    if (waitpid(server->pid, NULL, WNOHANG) != server->pid)
        return 0;
    server->pid = 0;
    return 1;
}

/* It answers that it is this very process, and has loaded its data: until then INFO is about all
 * that a durable one would answer. */
static int is_up(const struct server *server)
{
    static const char info[] = "INFO server\r\n", ping[] = "PING\r\n";
    char wanted[32];
    const char *text = NULL;

    (void)snprintf(wanted, sizeof wanted, "process_id:%ld\r\n", (long)server->pid);
    if (!ask(server->port, &text, info, sizeof info - 1) || text == NULL ||
        (strstr(text, wanted) == NULL && strncmp(text, "-NOAUTH", 7) != 0))
        return 0;
    return ask(server->port, &text, ping, sizeof ping - 1) && text != NULL &&
           strncmp(text, "-LOADING", 8) != 0 && strcmp(text, "-closed") != 0;
}

/* Until it is up; false if it ended. */
static int wait_for_answer(struct server *server)
{
    for (int i = 0; i < ANSWER_TRIES; i++) {
        if (has_ended(server))
            return 0;
        if (is_up(server))
            return 1;
        (void)poll(NULL, 0, ANSWER_PAUSE_MS);
    }
    ck_abort_msg("redis-server on port %d does not answer", server->port);
    return 0;
}

static void launch(struct server *server)
{
    pid_t parent = getpid();

    server->pid = fork();
    if (server->pid == 0)
        run_server(server, parent);
    if (server->pid < 0)
        ck_abort_msg("fork");
}

/* One that was launched and may not have its port yet. */
static bool is_meant_for_another(const struct server *server)
{
    for (int i = 0; i < count; i++)
        if (&servers[i] != server && servers[i].port == server->port)
            return true;
    return false;
}

static void launch_anywhere(struct server *server)
{
    do
        (void)close(bind_anywhere(&server->port));
    while (is_meant_for_another(server));
    (void)snprintf(server->uri, sizeof server->uri, "redis://127.0.0.1:%d", server->port);
    launch(server);
}

/* Until it is up, after its first launch; on other ports if somebody was quicker. */
static void settle_anywhere(struct server *server)
{
    for (int i = 1; !wait_for_answer(server); i++) {
        if (i == PORT_TRIES)
            ck_abort_msg("redis-server does not start; is it installed?");
        launch_anywhere(server);
    }
}

static void start(int n, enum kind wanted, const char *const *arguments)
{
    static int registered;

    servers_stop();
    ck_assert_int_le(n, SERVERS_MAX);
    if (!registered++)
        (void)atexit(servers_stop);
    more_arguments = arguments;
    kind = wanted;
    owner = getpid();
    if (kind == WITH_CLOCK && access(SERVERS_CLOCK_PRELOAD, R_OK) != 0)
        ck_abort_msg("no library for bent clocks: '%s'", SERVERS_CLOCK_PRELOAD);
    directory[0] = '\0'; /* a parent's is not ours to remove */
    if (kind != PLAIN)
        make_directory();
    for (count = 0; count < n; count++) {
        struct server *server = &servers[count];
        *server = (struct server){0};
        if (kind == DURABLE)
            make_durable(server, count);
        if (kind == WITH_CLOCK)
            make_clock(server, count);
        launch_anywhere(server);
        uris[count] = server->uri;
    }
    for (int i = 0; i < count; i++)
        settle_anywhere(&servers[i]);
}

void servers_start(int n)
{
    start(n, PLAIN, NULL);
}

void servers_start_with(int n, const char *const *arguments)
{
    start(n, PLAIN, arguments);
}

void servers_start_durable(int n)
{
    start(n, DURABLE, NULL);
}

void servers_start_with_clocks(int n)
{
    start(n, WITH_CLOCK, NULL);
}

static void release_port(struct reserved *reserved)
{
    if (reserved->fd >= 0)
        (void)close(reserved->fd);
    reserved->fd = -1;
}

void servers_stop(void)
{
    if (owner != getpid()) /* a forked child's exit is not the end of the test */
        return;
    for (int i = 0; i < count; i++) {
        servers_kill(i);
        clock_plan_close(servers[i].clock);
    }
    count = 0;
    remove_directory();
    release_port(&black_hole);
    release_port(&refused);
}

void servers_kill(int i)
{
    struct server *server = &servers[i];

    if (server->pid == 0)
        return;
    (void)kill(-server->pid, SIGKILL); /* the group: with the child that copies for a replica */
    (void)kill(server->pid, SIGKILL);  /* if it is too young to have a group */
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void servers_revive(int i)
{
    ck_assert_int_eq(servers[i].pid, 0);
    for (int try = 0; try < PORT_TRIES; try++) {
        launch(&servers[i]);
        if (wait_for_answer(&servers[i]))
            return;
        (void)poll(NULL, 0, ANSWER_PAUSE_MS); /* somebody has the port for a moment */
    }
    ck_abort_msg("redis-server does not come back on port %d", servers[i].port);
}

void servers_freeze(int i)
{
    int status;

    ck_assert_int_eq(kill(servers[i].pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(servers[i].pid, &status, WUNTRACED), servers[i].pid);
    ck_assert(WIFSTOPPED(status));
}

void servers_thaw(int i)
{
    ck_assert_int_eq(kill(servers[i].pid, SIGCONT), 0);
}

int servers_port(int i)
{
    return servers[i].port;
}

const char *servers_uri(int i)
{
    return servers[i].uri;
}

const char *const *servers_uris(void)
{
    return uris;
}
