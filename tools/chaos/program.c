/*
 * See program.h. Between fork() and exec only async-signal-safe calls: the harness has threads, and
 * any of them may have held any lock. What the child needs is made before the fork.
 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    PATH_SIZE = 4096,
    SLICE_MS = 50,     /* an interruption is noticed within */
    EXIT_PAUSE_MS = 2, /* between the end of a program's output and its own */
    NOT_EXECUTED = 127
};

/* ---- interruption ------------------------------------------------------------ */

static volatile sig_atomic_t interrupted;

void program_interrupt(void)
{
    interrupted = 1;
}

bool program_interrupted(void)
{
    return interrupted != 0;
}

int64_t program_now_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool program_pause(int ms)
{
    if (!program_interrupted())
        (void)poll(NULL, 0, ms);
    return !program_interrupted();
}

/* ---- in the child --------------------------------------------------------------- */

static void take_signals_back(void)
{
    struct sigaction normal = {.sa_handler = SIG_DFL};
    sigset_t none;

    (void)sigaction(SIGPIPE, &normal, NULL); /* handlers go with exec; what is ignored doesn't */
    (void)sigaction(SIGINT, &normal, NULL);
    (void)sigaction(SIGTERM, &normal, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool gate_opens(int gate)
{
    char byte;
    ssize_t n;

    if (gate < 0)
        return true;
    do
        n = read(gate, &byte, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static void become(const struct program_setup *setup, pid_t parent)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(NOT_EXECUTED);
    (void)setpgid(0, 0);
    take_signals_back();
    (void)dup2(null, STDIN_FILENO);
    (void)dup2(setup->output_fd < 0 ? null : setup->output_fd, STDOUT_FILENO);
    (void)dup2(setup->error_fd < 0 ? null : setup->error_fd, STDERR_FILENO);
    if (gate_opens(setup->gate))
        (void)execve(setup->path, setup->arguments, setup->environment);
    _exit(NOT_EXECUTED);
}

pid_t program_fork(const struct program_setup *setup)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0)
        become(setup, parent);
    if (pid > 0)
        (void)setpgid(pid, pid); /* whoever is first: the group is there when this returns */
    return pid;
}

/* ---- finding and starting ----------------------------------------------------------- */

static int is_program(const char *path)
{
    return access(path, X_OK) == 0 ? 0 : -1;
}

int program_find(const char *name, char *path, size_t size)
{
    const char *from = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        (void)snprintf(path, size, "%s", name);
        return is_program(path);
    }
    for (from = from == NULL ? "/usr/bin:/bin" : from; *from != '\0';) {
        size_t len = strcspn(from, ":");
        int n = snprintf(path, size, "%.*s/%s", (int)len, from, name);
        if (len > 0 && n > 0 && (size_t)n < size && is_program(path) == 0)
            return 0;
        from += len + (from[len] == ':');
    }
    return -1;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            (void)close(pair[i]);
}

void program_start(struct program *program, const char *const *arguments)
{
    char path[PATH_SIZE];
    int output[2] = {-1, -1}, errors[2] = {-1, -1};
    struct program_setup setup = {.path = path,
                                  .arguments = (char *const *)(uintptr_t)arguments,
                                  .environment = environ,
                                  .gate = -1};

    *program = (struct program){.name = arguments[0], .output_fd = -1, .error_fd = -1};
    if (program_find(arguments[0], path, sizeof path) != 0) {
        (void)snprintf(program->errors, sizeof program->errors, "there is no program %s",
                       arguments[0]);
        return;
    }
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) {
        (void)snprintf(program->errors, sizeof program->errors, "pipe: %s", strerror(errno));
        close_pair(output);
        return;
    }
    setup.output_fd = output[1];
    setup.error_fd = errors[1];
    program->pid = program_fork(&setup);
    if (program->pid > 0) {
        program->output_fd = output[0];
        program->error_fd = errors[0];
        output[0] = errors[0] = -1;
    } else {
        (void)snprintf(program->errors, sizeof program->errors, "fork: %s", strerror(errno));
        program->pid = 0;
    }
    close_pair(output);
    close_pair(errors);
}

/* ---- waiting ---------------------------------------------------------------------- */

/* What there is. Closes at the end. */
static void drain(int *fd, char *to, size_t size)
{
    char chunk[4096];
    size_t used = strlen(to), room = size - 1 - used;
    ssize_t n = read(*fd, chunk, sizeof chunk);

    if (n > 0) {
        room = (size_t)n < room ? (size_t)n : room;
        (void)memcpy(to + used, chunk, room);
        to[used + room] = '\0';
    } else if (n == 0 || errno != EINTR) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* False: it takes too long. */
static bool listen_to(struct program *program, int64_t until_ms, bool to_the_end)
{
    while (program->output_fd >= 0 || program->error_fd >= 0) {
        struct pollfd fds[] = {{.fd = program->output_fd, .events = POLLIN},
                               {.fd = program->error_fd, .events = POLLIN}};

        if ((program_interrupted() && !to_the_end) || program_now_ms() >= until_ms)
            return false;
        if (poll(fds, 2, SLICE_MS) <= 0)
            continue;
        if (fds[0].revents != 0)
            drain(&program->output_fd, program->output, sizeof program->output);
        if (fds[1].revents != 0)
            drain(&program->error_fd, program->errors, sizeof program->errors);
    }
    return true;
}

static bool await_exit(struct program *program, int64_t until_ms, bool to_the_end, int *status)
{
    while (waitpid(program->pid, status, WNOHANG) == 0) {
        if ((program_interrupted() && !to_the_end) || program_now_ms() >= until_ms)
            return false;
        (void)poll(NULL, 0, EXIT_PAUSE_MS);
    }
    return true;
}

static void close_both(struct program *program)
{
    int pair[] = {program->output_fd, program->error_fd};

    close_pair(pair);
    program->output_fd = program->error_fd = -1;
}

static int give_up(struct program *program, int timeout_ms)
{
    (void)kill(-program->pid, SIGKILL);
    (void)waitpid(program->pid, NULL, 0);
    close_both(program);
    if (program_interrupted())
        (void)snprintf(program->errors, sizeof program->errors, "interrupted");
    else
        (void)snprintf(program->errors, sizeof program->errors, "%s took longer than %d ms",
                       program->name, timeout_ms);
    return -1;
}

int program_finish(struct program *program, int timeout_ms, bool to_the_end)
{
    int64_t until_ms = program_now_ms() + timeout_ms;
    int status = 0;

    if (program->pid == 0)
        return -1;
    if (!listen_to(program, until_ms, to_the_end) ||
        !await_exit(program, until_ms, to_the_end, &status))
        return give_up(program, timeout_ms);
    program->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (program->errors[0] == '\0')
        (void)snprintf(program->errors, sizeof program->errors, "%s failed with status %d",
                       program->name, WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return -1;
}

int program_run(struct program *program, int timeout_ms, const char *const *arguments)
{
    program_start(program, arguments);
    return program_finish(program, timeout_ms, false);
}

/* ---- processes by name for ever --------------------------------------------------------- */

/* Of /proc/PID/stat; the name in it may hold blanks and brackets. */
int program_stat(pid_t pid, uint64_t *start, char *state)
{
    char path[64], line[1024] = "", *at;
    FILE *from;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    from = fopen(path, "re");
    if (from == NULL)
        return -1;
    if (fgets(line, sizeof line, from) == NULL)
        line[0] = '\0';
    (void)fclose(from);
    at = strrchr(line, ')');
    if (at == NULL || at[1] == '\0')
        return -1;
    *state = at[2];
    for (int field = 2; field < 22 && at != NULL; field++) /* the start is the 22nd */
        at = strchr(at + 1, ' ');
    if (at == NULL)
        return -1;
    *start = strtoull(at, NULL, 10);
    return 0;
}

bool program_lives(pid_t pid, uint64_t start)
{
    uint64_t now = 0;
    char state = 0;

    return program_stat(pid, &now, &state) == 0 && now == start && state != 'Z' && state != 'X';
}
