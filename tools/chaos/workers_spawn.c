/*
 * See workers_spawn.h. All that allocates is done before the fork: other threads may hold any lock
 * at that moment, and the child has only system calls until it is another program.
 */
#include "workers_spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock_plan.h"
#include "place.h"

enum {
    PATH_LEN = 4096,
    FIRST_FD = 3,
    FDS = 3,
    ENVIRONMENT_ROOM = 4, /* variables added, and the NULL */
    CLOSE_ON_EXEC = 4     /* CLOSE_RANGE_CLOEXEC */
};

struct program {
    char path[PATH_LEN];
    char *spec;
    char clock[PATH_LEN], preload[PATH_LEN], sanitizer[PATH_LEN];
    char **environment;
};

/* ---- what is to be run -------------------------------------------------------- */

/* False: errno. */
static bool find_program(bool control, char path[PATH_LEN])
{
    static const char name[] = "redlock-chaos-control";
    const char *given = getenv(WORKERS_CONTROL_VARIABLE);
    ssize_t len = readlink("/proc/self/exe", path, PATH_LEN - sizeof name);
    char *slash;

    if (len < 0)
        return false;
    path[len] = '\0';
    if (!control)
        return true;
    slash = strrchr(path, '/');
    if (given != NULL)
        (void)snprintf(path, PATH_LEN, "%s", given);
    else if (slash != NULL)
        memcpy(slash + 1, name, sizeof name);
    return access(path, X_OK) == 0;
}

static size_t count_of(char **texts)
{
    size_t count = 0;

    while (texts[count] != NULL)
        count++;
    return count;
}

static bool make_environment(struct program *program, const char *clock)
{
    size_t count = count_of(environ), used = 0;
    const char *options = getenv("ASAN_OPTIONS");
    static const char preload[] = "LD_PRELOAD=";

    program->environment = calloc(count + ENVIRONMENT_ROOM, sizeof program->environment[0]);
    if (program->environment == NULL)
        return false;
    if (clock != NULL) {
        (void)snprintf(program->clock, PATH_LEN, CLOCK_PLAN_VARIABLE "=%s", clock);
        memcpy(program->preload, preload, sizeof preload);
        errno = ENOENT;
        if (!place_preload(program->preload + strlen(preload), PATH_LEN - strlen(preload))) {
            memcpy(program->path, program->preload + strlen(preload), PATH_LEN - strlen(preload));
            return false;
        }
        /* That one's runtime wants to be the first library. */
        (void)snprintf(program->sanitizer, PATH_LEN, "ASAN_OPTIONS=%s:verify_asan_link_order=0",
                       options != NULL ? options : "");
        program->environment[used++] = program->clock;
        program->environment[used++] = program->preload;
        program->environment[used++] = program->sanitizer;
    }
    for (size_t i = 0; i < count; i++) {
        bool replaced = clock != NULL && (strncmp(environ[i], "LD_PRELOAD=", 11) == 0 ||
                                          strncmp(environ[i], "ASAN_OPTIONS=", 13) == 0);
        if (!replaced)
            program->environment[used++] = environ[i];
    }
    return true;
}

static void free_program(struct program *program)
{
    free(program->environment);
    free(program->spec);
}

/* False: errno. */
static bool make_program(struct program *program, const json_t *spec)
{
    const char *clock = json_string_value(json_object_get(spec, "clock"));

    program->path[0] = '\0';
    program->environment = NULL;
    program->spec = json_dumps(spec, JSON_COMPACT);
    errno = ENOMEM;
    if (program->spec != NULL && make_environment(program, clock) &&
        find_program(json_object_get(spec, "control") != NULL, program->path))
        return true;
    free_program(program);
    return false;
}

/* ---- in the child --------------------------------------------------------------- */

/* Where the descriptors come from may be where they go to, so they are moved away first. */
static bool place(const int fds[FDS])
{
    int moved[FDS];

    for (int i = 0; i < FDS; i++)
        if ((moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FIRST_FD + FDS)) < 0)
            return false;
    for (int i = 0; i < FDS; i++)
        if (dup2(moved[i], FIRST_FD + i) < 0)
            return false;
#if defined(SYS_close_range)
    (void)syscall(SYS_close_range, FIRST_FD + FDS, ~0u, CLOSE_ON_EXEC);
#endif
    return true;
}

static void become(const struct program *program, const int fds[FDS], pid_t parent)
{
    char *arguments[] = {(char *)(uintptr_t)program->path, (char *)(uintptr_t) "worker",
                         program->spec, NULL};
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !place(fds))
        _exit(126);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execve(program->path, arguments, program->environment);
    _exit(127);
}

pid_t workers_spawn(const json_t *spec, const int fds[3], char *text, size_t size)
{
    struct program *program = malloc(sizeof *program);
    pid_t parent = getpid(), pid = -1;

    if (program == NULL || !make_program(program, spec)) {
        (void)snprintf(text, size, "%s: %s", program != NULL ? program->path : "", strerror(errno));
        free(program);
        return -1;
    }
    pid = fork();
    if (pid == 0)
        become(program, fds, parent);
    if (pid > 0)
        (void)setpgid(pid, pid); /* whoever of the two comes first */
    else
        (void)snprintf(text, size, "fork: %s", strerror(errno));
    free_program(program);
    free(program);
    return pid;
}

/* ---- what the system tells --------------------------------------------------------- */

/* 'T' stopped, 'Z' ended, ...; 0: there is none. The name in the second field may be anything. */
static char state_of(const char *path)
{
    char line[512];
    FILE *file = fopen(path, "re");
    char *end = NULL;

    if (file == NULL)
        return 0;
    if (fgets(line, sizeof line, file) != NULL)
        end = strrchr(line, ')');
    (void)fclose(file);
    return end != NULL && end[1] == ' ' ? end[2] : 0;
}

static bool stands(char state)
{
    return state == 0 || state == 'T' || state == 't' || state == 'Z' || state == 'X';
}

static bool children_stopped(pid_t pid, const char *task)
{
    char path[512];
    FILE *file;
    int child;
    bool all = true;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, task);
    file = fopen(path, "re");
    while (file != NULL && fscanf(file, "%d", &child) == 1)
        all = workers_stopped(child) && all;
    if (file != NULL)
        (void)fclose(file);
    return all;
}

bool workers_stopped(pid_t pid)
{
    char path[512];
    DIR *tasks;
    bool all = true;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (tasks == NULL)
        return true;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%.32s/stat", (int)pid, task->d_name);
        all = all && stands(state_of(path)) && children_stopped(pid, task->d_name);
    }
    (void)closedir(tasks);
    return all;
}
