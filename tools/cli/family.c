/*
 * Everything a command has started.
 *
 * A process group is signalled by one call, and nothing that is forked meanwhile escapes. But
 * processes leave it: timeout(1) and every interactive shell put what they run into groups of its
 * own, daemons into sessions. A lease that has ended must have ended for them too. On Linux a
 * process can be made the one to which its descendants' orphans fall, so they stay reachable
 * through /proc by their parents' numbers, whatever groups they are in. A pass may miss what is
 * forked during it: callers that kill repeat it until a pass finds none alive.
 *
 * Elsewhere, or without /proc, there is the group only.
 */
#include "family.h"

#include <signal.h>

#ifdef __linux__

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAT_LEN 512

struct process {
    pid_t pid, parent, group;
    char state;
    char ours;
};

struct processes {
    struct process *list;
    size_t count, room;
};

/* A pass over /proc whose processes do not fit together is made again, so often. */
#define TORN_TRIES 5

/* The second field of stat, a name in parentheses, may itself hold blanks and parentheses. Returns
 * 1, 0 for a process that is gone meanwhile, -1 if it cannot be told. */
static int read_stat(int proc, const char *name, struct process *process)
{
    char path[32], text[STAT_LEN], *fields;
    long parent, group;
    ssize_t length;
    int fd;

    snprintf(path, sizeof path, "%.20s/stat", name);
    fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH || errno == EACCES || errno == EPERM ? 0 : -1;
    length = read(fd, text, sizeof text - 1);
    if (length < 0)
        length = errno == ESRCH ? 0 : -1;
    close(fd);
    if (length <= 0)
        return (int)length;
    text[length] = '\0';
    fields = strrchr(text, ')');
    if (!fields || sscanf(fields, ") %c %ld %ld", &process->state, &parent, &group) != 3)
        return -1;
    process->pid = (pid_t)strtol(name, NULL, 10);
    process->parent = (pid_t)parent;
    process->group = (pid_t)group;
    process->ours = 0;
    return 1;
}

static int append(struct processes *all, const struct process *process)
{
    if (all->count == all->room) {
        size_t room = all->room ? all->room * 2 : 256;
        struct process *list = realloc(all->list, room * sizeof *list);

        if (!list)
            return -1;
        all->list = list;
        all->room = room;
    }
    all->list[all->count++] = *process;
    return 0;
}

static int compare(const void *a, const void *b)
{
    pid_t left = ((const struct process *)a)->pid, right = ((const struct process *)b)->pid;

    return (left > right) - (left < right);
}

static const struct process *find(const struct processes *all, pid_t pid)
{
    struct process key = {.pid = pid};

    return bsearch(&key, all->list, all->count, sizeof *all->list, compare);
}

static int read_once(struct processes *all)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    struct process process;
    int rc = 0;

    all->count = 0;
    if (!proc)
        return -1;
    while (rc == 0 && (entry = readdir(proc))) {
        int found = isdigit((unsigned char)entry->d_name[0])
                        ? read_stat(dirfd(proc), entry->d_name, &process)
                        : 0;

        rc = found > 0 ? append(all, &process) : found;
    }
    closedir(proc);
    if (all->count > 0)
        qsort(all->list, all->count, sizeof *all->list, compare);
    return all->count > 0 ? rc : -1;
}

/* A process was read, then its parent died, was reaped, and is not in the list: it seems to be
 * nobody's. */
static int is_torn(const struct processes *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].parent > 0 && !find(all, all->list[i].parent))
            return 1;
    return 0;
}

/* Returns 0, or -1 if the system does not show its processes. The list is to be freed in either
 * case. */
static int read_all(struct processes *all)
{
    int rc = read_once(all);

    for (int i = 1; i < TORN_TRIES && rc == 0 && is_torn(all); i++)
        rc = read_once(all);
    return rc;
}

void family_adopt(struct family *family)
{
    struct processes all = {NULL, 0, 0};

    *family = (struct family){.group_only = read_all(&all) != 0};
    for (size_t i = 0; i < all.count; i++) {
        if (all.list[i].parent != getpid())
            continue;
        if (family->other_count == FAMILY_OTHERS_MAX)
            family->group_only = 1;
        else
            family->others[family->other_count++] = all.list[i].pid;
    }
    free(all.list);
    /* Whoever adopts must reap, and finds whom to reap in /proc. */
    if (!family->group_only)
        prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
}

static int is_other(const struct family *family, pid_t pid)
{
    for (size_t i = 0; i < family->other_count; i++)
        if (family->others[i] == pid)
            return 1;
    return 0;
}

static int is_ours(const struct processes *all, pid_t pid)
{
    const struct process *found = find(all, pid);

    return found && found->ours;
}

/* Children may have lower numbers than their parents: repeated until nothing is added. */
static void mark_descendants(const struct family *family, const struct processes *all, pid_t root)
{
    int more = 1;

    while (more) {
        more = 0;
        for (size_t i = 0; i < all->count; i++) {
            struct process *process = &all->list[i];

            if (process->ours || (process->parent == root ? is_other(family, process->pid)
                                                          : !is_ours(all, process->parent)))
                continue;
            process->ours = 1;
            more = 1;
        }
    }
}

int family_signal(const struct family *family, pid_t leader, int number)
{
    struct processes all = {NULL, 0, 0};
    int living = family->group_only ? FAMILY_UNKNOWN : 1; /* one at least, if that fails */

    if (number != 0 && leader > 0)
        kill(-leader, number);
    if (family->group_only || read_all(&all) != 0)
        goto out;
    mark_descendants(family, &all, getpid());
    living = 0;
    for (size_t i = 0; i < all.count; i++) {
        const struct process *process = &all.list[i];
        int dead = process->state == 'Z' || process->state == 'X';

        if (!process->ours)
            continue;
        if (dead && process->parent == getpid() && process->pid != leader)
            waitpid(process->pid, NULL, WNOHANG);
        if (dead)
            continue;
        living++;
        if (number != 0 && process->group != leader)
            kill(process->pid, number);
    }
out:
    free(all.list);
    return living;
}

#else

void family_adopt(struct family *family)
{
    *family = (struct family){.group_only = 1};
}

int family_signal(const struct family *family, pid_t leader, int number)
{
    (void)family;
    if (number != 0 && leader > 0)
        kill(-leader, number);
    return FAMILY_UNKNOWN;
}

#endif
