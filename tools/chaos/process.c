/*
 * Servers as processes of this one; see runtime_state.h. Each begins only when it has been written
 * down in the run's directory, and dies with the thread that started it. It leads a process group,
 * so that the child that copies its data ends with it.
 */
#include "clock_plan.h"
#include "program.h"
#include "rundir.h"
#include "runtime_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VERSION_MS = 10000,
    STOP_MS = 5000, /* a thread that waits for the disk stops when it has it */
    STOP_PAUSE_MS = 1,
    ENVIRONMENT_MAX = 4096
};

/* ---- what is here ---------------------------------------------------------------------- */

static int find_server(struct runtime *runtime)
{
    const char *wanted = runtime->wanted_server;

    if (wanted != NULL && program_find(wanted, runtime->server, sizeof runtime->server) != 0)
        return runtime_fail(runtime,
                            "%s cannot be executed: %s; name a redis-server or "
                            "valkey-server with --server",
                            wanted, strerror(errno));
    if (wanted != NULL ||
        program_find("redis-server", runtime->server, sizeof runtime->server) == 0 ||
        program_find("valkey-server", runtime->server, sizeof runtime->server) == 0)
        return 0;
    return runtime_fail(runtime, "there is no redis-server and no valkey-server on PATH; install "
                                 "it with tools/install-deps.sh or use --runtime docker");
}

/* ---- a network of our own ----------------------------------------------------------------- */

static bool bring_up_loopback(void)
{
    struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool up;

    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "lo");
    up = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        (void)close(fd);
    return up;
}

/* For this thread and what it starts from now on. False where the kernel or the user may not. */
static bool enter_own_network(void)
{
    char path[PATH_MAX];

    return geteuid() == 0 && program_find("iptables", path, sizeof path) == 0 &&
           unshare(CLONE_NEWNET) == 0 && bring_up_loopback();
}

/* By PSH, which the last segment of whatever is sent at once has; handshakes and acknowledgements
 * don't, so connections stay. */
static int process_drop(struct runtime *runtime, unsigned node, bool on)
{
    struct program program;
    char port[16];

    (void)snprintf(port, sizeof port, "%d", runtime_port(runtime, node));
    if (program_run(&program, VERSION_MS,
                    (const char *const[]){"iptables", "-w", on ? "-I" : "-D", "INPUT", "-p", "tcp",
                                          "--dport", port, "--tcp-flags", "PSH", "PSH", "-j",
                                          "DROP", NULL}) != 0)
        return runtime_fail(runtime, "iptables: %.200s", program.errors);
    return 0;
}

static int process_prepare(struct runtime *runtime)
{
    struct program program;

    if (find_server(runtime) != 0)
        return -1;
    if (program_run(&program, VERSION_MS,
                    (const char *const[]){runtime->server, "--version", NULL}) != 0)
        return runtime_fail(runtime, "%s --version: %.200s", runtime->server, program.errors);
    if (runtime_take_version(runtime, program.output) != 0)
        return runtime_fail(runtime, "%s is no Redis or Valkey server: it calls itself '%.60s'",
                            runtime->server, program.output);
    runtime->can_drop = runtime->own_network && enter_own_network();
    return 0;
}

/* ---- starting ----------------------------------------------------------------------------- */

static bool is_variable(const char *entry, const char *name)
{
    size_t len = strlen(name);

    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* What this process has, with the clock's library; whatever else was preloaded here (a sanitizer's
 * runtime, say) is none of the server's. */
static void make_environment(char *environment[ENVIRONMENT_MAX], char *preload, char *plan)
{
    int n = 0;

    environment[n++] = preload;
    environment[n++] = plan;
    for (char **at = environ; at != NULL && *at != NULL && n < ENVIRONMENT_MAX - 1; at++)
        if (!is_variable(*at, "LD_PRELOAD") && !is_variable(*at, CLOCK_PLAN_VARIABLE))
            environment[n++] = *at;
    environment[n] = NULL;
}

static int open_log(struct runtime *runtime, unsigned node)
{
    char path[PATH_MAX];
    int fd;

    if (runtime_path(runtime, node, "log", path, sizeof path) != 0)
        return -1;
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        (void)runtime_fail(runtime, "%s: %s", path, strerror(errno));
    return fd;
}

static pid_t fork_server(struct runtime *runtime, unsigned node, int log, int gate)
{
    char preload[PATH_MAX + 16] = "LD_PRELOAD=", plan[PATH_MAX + 32] = CLOCK_PLAN_VARIABLE "=";
    char conf[PATH_MAX], *environment[ENVIRONMENT_MAX];
    char *arguments[] = {runtime->server, conf, NULL};
    struct program_setup setup = {.path = runtime->server,
                                  .arguments = arguments,
                                  .environment = environment,
                                  .output_fd = log,
                                  .error_fd = log,
                                  .gate = gate};

    if (runtime_path(runtime, node, "etc/conf", conf, sizeof conf) != 0 ||
        runtime_path(runtime, node, "etc/preload.so", preload + strlen(preload), PATH_MAX) != 0 ||
        runtime_path(runtime, node, "etc/plan", plan + strlen(plan), PATH_MAX) != 0)
        return -1;
    make_environment(environment, preload, plan);
    return program_fork(&setup);
}

/* It waits at the gate until it is on record. */
static int start_on_record(struct runtime *runtime, unsigned node, int log, int gate[2])
{
    struct runtime_node *at = runtime_at(runtime, node);
    pid_t pid = fork_server(runtime, node, log, gate[0]);
    char state;

    if (pid < 0)
        return runtime_fail(runtime, "node %u cannot be started: %s", node, strerror(errno));
    at->pid = pid;
    if (program_stat(pid, &at->start, &state) == 0 &&
        rundir_note_server(runtime->directory, pid) == 0 && write(gate[1], "", 1) == 1)
        return 0;
    return runtime_fail(runtime, "%s/owner: %s", runtime->directory, strerror(errno));
}

static int launch_one(struct runtime *runtime, unsigned node)
{
    int log = open_log(runtime, node), gate[2], rc;

    if (log < 0)
        return -1;
    if (pipe2(gate, O_CLOEXEC) != 0) {
        (void)close(log);
        return runtime_fail(runtime, "pipe: %s", strerror(errno));
    }
    rc = start_on_record(runtime, node, log, gate);
    (void)close(gate[0]);
    (void)close(gate[1]); /* without a byte the child ends here */
    (void)close(log);
    return rc;
}

static int process_launch(struct runtime *runtime, uint32_t set)
{
    for (unsigned i = 1; i <= runtime->nodes; i++)
        if ((set & runtime_set(i)) != 0 && launch_one(runtime, i) != 0)
            return -1;
    return 0;
}

/* ---- state -------------------------------------------------------------------------------- */

/* Every thread of it: one may still be waiting for the disk, and write when it gets it. */
static bool is_stopped(pid_t pid)
{
    char path[64], state = 'T';
    struct dirent *entry;
    DIR *tasks;
    bool stopped = true;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    tasks = opendir(path);
    if (tasks == NULL)
        return false;
    while (stopped && (entry = readdir(tasks)) != NULL) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        uint64_t start;
        if (thread > 0)
            stopped = program_stat(thread, &start, &state) != 0 || state == 'T';
    }
    (void)closedir(tasks);
    return stopped;
}

/* Reaps it if it ended on its own. */
static enum node_state process_state(struct runtime *runtime, unsigned node)
{
    struct runtime_node *at = runtime_at(runtime, node);

    if (at->pid != 0 && waitpid(at->pid, NULL, WNOHANG) == at->pid) {
        (void)kill(-at->pid, SIGKILL);
        at->pid = 0;
    }
    if (at->pid == 0)
        return NODE_DOWN;
    return is_stopped(at->pid) ? NODE_FROZEN : NODE_UP;
}

static int await_state(struct runtime *runtime, unsigned node, enum node_state wanted)
{
    int64_t until_ms = program_now_ms() + STOP_MS;
    enum node_state state;

    while ((state = process_state(runtime, node)) != wanted) {
        if (state == NODE_DOWN)
            return runtime_fail(runtime, "node %u ended", node);
        if (program_now_ms() >= until_ms)
            return runtime_fail(runtime, "node %u does not %s within %d s", node,
                                wanted == NODE_FROZEN ? "stop" : "go on", STOP_MS / 1000);
        if (!program_pause(STOP_PAUSE_MS))
            return runtime_fail(runtime, "interrupted");
    }
    return 0;
}

static int process_freeze(struct runtime *runtime, unsigned node)
{
    (void)kill(-runtime_at(runtime, node)->pid, SIGSTOP);
    return await_state(runtime, node, NODE_FROZEN);
}

static int process_thaw(struct runtime *runtime, unsigned node)
{
    (void)kill(-runtime_at(runtime, node)->pid, SIGCONT);
    return await_state(runtime, node, NODE_UP);
}

/* SIGKILL to all before any is waited for: on a busy machine that makes a difference. */
static int process_end(struct runtime *runtime, uint32_t set)
{
    for (unsigned i = 0; i < runtime->nodes; i++)
        if ((set & runtime_set(i + 1)) != 0 && runtime->node[i].pid > 0)
            (void)kill(-runtime->node[i].pid, SIGKILL);
    for (unsigned i = 0; i < runtime->nodes; i++)
        if ((set & runtime_set(i + 1)) != 0 && runtime->node[i].pid > 0) {
            while (waitpid(runtime->node[i].pid, NULL, 0) < 0 && errno == EINTR)
                ;
            runtime->node[i].pid = 0;
        }
    return 0;
}

static unsigned process_clear(struct runtime *runtime)
{
    return process_end(runtime, runtime_all(runtime)) == 0 ? 0 : 1;
}

/* ---- what it said ---------------------------------------------------------------------------- */

static void process_words(struct runtime *runtime, unsigned node, char *text, size_t size)
{
    char path[PATH_MAX];
    size_t used = 0;
    FILE *from;

    text[0] = '\0';
    if (runtime_path(runtime, node, "log", path, sizeof path) != 0)
        return;
    from = fopen(path, "re");
    if (from == NULL)
        return;
    if (fseek(from, -(long)(size - 1), SEEK_END) != 0)
        (void)fseek(from, 0, SEEK_SET);
    used = fread(text, 1, size - 1, from);
    text[used] = '\0';
    (void)fclose(from);
}

const struct runtime_ops process_ops = {
    .drop = process_drop,
    .prepare = process_prepare,
    .launch = process_launch,
    .end = process_end,
    .freeze = process_freeze,
    .thaw = process_thaw,
    .state = process_state,
    .words = process_words,
    .clear = process_clear,
};
