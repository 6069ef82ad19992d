/*
 * See rundir.h and the part on directories in runtime.h. All runs of a user are below one
 * directory, which nobody else can write to. A lock there keeps a sweep from looking at a directory
 * whose owner is about to write its name into it.
 *
 * A process is known by its pid and its start, which together are never given twice, on this boot
 * and in this pid namespace: of what was written elsewhere nothing can be told, and so nothing is
 * touched.
 */
#include "rundir.h"

#include "docker_engine.h"
#include "program.h"
#include "runtime.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINE_SIZE = 512,
    PROJECTS_MAX = 16,
    LOCK_MS = 60000,
    LOCK_PAUSE_MS = 20,
    GONE_MS = 5000,
    GONE_PAUSE_MS = 5
};

static const char owner_name[] = "owner", run_prefix[] = "run-";

/* ---- writing ------------------------------------------------------------------- */

static void owner_path(char *path, const char *directory)
{
    (void)snprintf(path, PATH_MAX, "%s/%s", directory, owner_name);
}

/* In one write: who reads sees whole lines. */
__attribute__((format(printf, 2, 3))) static int note(const char *directory, const char *format,
                                                      ...)
{
    char path[PATH_MAX], line[LINE_SIZE];
    va_list values;
    ssize_t n;
    int fd, len;

    va_start(values, format);
    len = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    owner_path(path, directory);
    fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    n = write(fd, line, (size_t)len);
    (void)close(fd);
    return n == len ? 0 : -1;
}

static int note_process(const char *directory, const char *what, pid_t pid)
{
    uint64_t start = 0;
    char state;

    if (program_stat(pid, &start, &state) != 0) {
        errno = ESRCH;
        return -1;
    }
    return note(directory, "%s %ld %llu\n", what, (long)pid, (unsigned long long)start);
}

int rundir_note_server(const char *directory, pid_t pid)
{
    return note_process(directory, "server", pid);
}

int rundir_note_project(const char *directory, const char *project)
{
    return note(directory, "project %s\n", project);
}

/* "BOOT-ID PID-NAMESPACE": where a pid and its start mean something. */
static void where(char *text, size_t size)
{
    char boot[64] = "?", space[64] = "?";
    FILE *from = fopen("/proc/sys/kernel/random/boot_id", "re");
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);

    if (from != NULL && fgets(boot, sizeof boot, from) != NULL)
        boot[strcspn(boot, "\n")] = '\0';
    if (from != NULL)
        (void)fclose(from);
    if (n > 0)
        space[n] = '\0';
    (void)snprintf(text, size, "%s %s", boot, space);
}

int rundir_own(const char *directory)
{
    char path[PATH_MAX], here[LINE_SIZE / 2];

    owner_path(path, directory);
    if (access(path, F_OK) == 0)
        return 0;
    where(here, sizeof here);
    return note(directory, "where %s\n", here) == 0 &&
                   note_process(directory, "harness", getpid()) == 0
               ? 0
               : -1;
}

/* ---- reading ------------------------------------------------------------------- */

/* Called with each line's first word and the rest. */
typedef void owner_reader(void *context, const char *word, const char *rest);

static int read_owner(const char *directory, owner_reader *reader, void *context)
{
    char path[PATH_MAX], line[LINE_SIZE], *rest;
    FILE *from;

    owner_path(path, directory);
    from = fopen(path, "re");
    if (from == NULL)
        return -1;
    while (fgets(line, sizeof line, from) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        rest = strchr(line, ' ');
        if (rest == NULL)
            continue;
        *rest++ = '\0';
        reader(context, line, rest);
    }
    (void)fclose(from);
    return 0;
}

static bool parse_process(const char *rest, pid_t *pid, uint64_t *start)
{
    char *end = NULL;

    *pid = (pid_t)strtol(rest, &end, 10);
    *start = strtoull(end, NULL, 10);
    return *pid > 1;
}

static void count_alive(void *context, const char *word, const char *rest)
{
    unsigned *alive = context;
    uint64_t start;
    pid_t pid;

    if (strcmp(word, "server") == 0 && parse_process(rest, &pid, &start))
        *alive += program_lives(pid, start);
}

unsigned rundir_servers_alive(const char *directory)
{
    unsigned alive = 0;

    (void)read_owner(directory, count_alive, &alive);
    return alive;
}

/* ---- the directory of them all ------------------------------------------------------- */

static void base_path(char *path)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(path, PATH_MAX, "%s/redlock-chaos-%ld",
                   tmp == NULL || tmp[0] != '/' ? "/tmp" : tmp, (long)geteuid());
}

/* Ours, and nobody else's to put something in. */
static bool is_ours(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
           (status.st_mode & 022) == 0;
}

/* A descriptor to be closed, or -1: interrupted, or nobody gave it up for a minute. */
static int lock_base(const char *base)
{
    int64_t until_ms = program_now_ms() + LOCK_MS;
    char path[PATH_MAX];
    int fd;

    if (snprintf(path, sizeof path, "%s/lock", base) >= PATH_MAX)
        return -1;
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (program_now_ms() < until_ms && program_pause(LOCK_PAUSE_MS))
            continue;
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int make_directory(const char *base, char *path, size_t size, char *text, size_t text_size)
{
    if (snprintf(path, size, "%s/%sXXXXXX", base, run_prefix) >= (int)size) {
        (void)snprintf(text, text_size, "the name of %s is too long; set a shorter TMPDIR", base);
        return -1;
    }
    if (mkdtemp(path) != NULL && rundir_own(path) == 0)
        return 0;
    (void)snprintf(text, text_size, "no directory can be made in %s: %s", base, strerror(errno));
    return -1;
}

int runtime_directory(char *path, size_t size, char *text, size_t text_size)
{
    char base[PATH_MAX];
    int lock, rc;

    base_path(base);
    if (mkdir(base, 0700) != 0 && errno != EEXIST) {
        (void)snprintf(text, text_size,
                       "%s cannot be made: %s; set TMPDIR to a directory that can "
                       "be written to",
                       base, strerror(errno));
        return -1;
    }
    if (!is_ours(base)) {
        (void)snprintf(text, text_size,
                       "%s is not a directory that only you can write to; remove "
                       "it, or set TMPDIR to another place",
                       base);
        return -1;
    }
    lock = lock_base(base);
    if (lock < 0) {
        (void)snprintf(
            text, text_size, "%s",
            program_interrupted()
                ? "interrupted"
                : "another redlock-chaos has been sweeping for a minute; try again later");
        return -1;
    }
    rc = make_directory(base, path, size, text, text_size);
    (void)close(lock);
    return rc;
}

void runtime_remove_directory(const char *path)
{
    if (path != NULL && path[0] != '\0')
        (void)tree_remove(path);
}

/* ---- sweeping --------------------------------------------------------------------- */

/* What a directory's owner file tells. */
struct remains {
    const char *directory;
    FILE *stream;
    bool elsewhere, alive;
    unsigned removed;
    int failed;
};

static void judge(void *context, const char *word, const char *rest)
{
    struct remains *remains = context;
    char here[LINE_SIZE / 2];
    uint64_t start;
    pid_t pid;

    if (strcmp(word, "where") == 0) {
        where(here, sizeof here);
        /* After a boot none of its processes is alive; on this boot they may be, out of sight. */
        if (strcmp(here, rest) != 0)
            remains->elsewhere = strncmp(here, rest, strcspn(rest, " ")) == 0;
    } else if (strcmp(word, "harness") == 0 && parse_process(rest, &pid, &start)) {
        remains->alive = program_lives(pid, start);
    }
}

static void end_process(struct remains *remains, pid_t pid, uint64_t start)
{
    int64_t until_ms = program_now_ms() + GONE_MS;

    if (!program_lives(pid, start))
        return;
    if (getpgid(pid) == pid)
        (void)kill(-pid, SIGKILL); /* with the child that writes its snapshot */
    (void)kill(pid, SIGKILL);
    while (program_lives(pid, start) && program_now_ms() < until_ms)
        (void)program_pause(GONE_PAUSE_MS);
    if (program_lives(pid, start)) {
        (void)fprintf(remains->stream, "process %ld of %s does not end\n", (long)pid,
                      remains->directory);
        remains->failed = 1;
        return;
    }
    (void)fprintf(remains->stream, "removed the server process %ld of %s\n", (long)pid,
                  remains->directory);
    remains->removed++;
}

static void remove_noted(void *context, const char *word, const char *rest)
{
    struct remains *remains = context;
    uint64_t start;
    pid_t pid;

    if (strcmp(word, "server") == 0 && parse_process(rest, &pid, &start))
        end_process(remains, pid, start);
    else if (strcmp(word, "project") == 0 &&
             docker_remove(rest, remains->stream, &remains->removed) != 0)
        remains->failed = 1;
}

/* What is not to be removed yet keeps its directory, for the next sweep. */
static unsigned sweep_directory(const char *directory, FILE *stream)
{
    struct remains remains = {.directory = directory, .stream = stream};

    (void)read_owner(directory, judge, &remains);
    if (remains.alive || remains.elsewhere)
        return 0;
    (void)read_owner(directory, remove_noted, &remains);
    if (remains.failed)
        return remains.removed;
    if (tree_remove(directory) != 0) {
        (void)fprintf(stream, "%s cannot be removed: %s\n", directory, strerror(errno));
        return remains.removed;
    }
    (void)fprintf(stream, "removed %s, of a run that was killed\n", directory);
    return remains.removed + 1;
}

unsigned runtime_sweep(FILE *stream)
{
    char base[PATH_MAX], path[PATH_MAX];
    struct dirent *entry;
    unsigned removed = 0;
    DIR *directory;
    int lock;

    base_path(base);
    if (!is_ours(base) || (lock = lock_base(base)) < 0)
        return 0;
    directory = opendir(base);
    while (directory != NULL && !program_interrupted() && (entry = readdir(directory)) != NULL)
        if (strncmp(entry->d_name, run_prefix, sizeof run_prefix - 1) == 0 &&
            snprintf(path, sizeof path, "%s/%s", base, entry->d_name) < PATH_MAX)
            removed += sweep_directory(path, stream);
    if (directory != NULL)
        (void)closedir(directory);
    (void)close(lock);
    return removed;
}
