/*
 * From fork to exec.
 *
 * The command is the guardian's child, so that the system itself kills it when the guardian dies
 * (Linux). It does not run before the wrapper knows its number and has given it the terminal: until
 * then it waits on a socket, whose other end closes if the guardian dies. Whatever the wrapper and
 * the guardian changed for themselves is put back: dispositions, mask, group; every descriptor of
 * theirs is close-on-exec.
 */
#include "spawn.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "notes.h"
#include "status.h"

static void die_with(pid_t guardian)
{
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != guardian) /* it died before the line above */
        _exit(CLI_INTERNAL);
}

/* Only what is the command's own: an outer run's number would be taken for it. */
static int set_environment(const struct guardian_plan *plan, const struct message *start)
{
    char fence[24];

    snprintf(fence, sizeof fence, "%" PRId64, start->fence);
    if (setenv("REDLOCK_KEY", plan->key, 1) != 0 || setenv("REDLOCK_TOKEN", start->token, 1) != 0)
        return -1;
    return start->fence > 0 ? setenv("REDLOCK_FENCE", fence, 1) : unsetenv("REDLOCK_FENCE");
}

static void become(const struct guardian_plan *plan, const struct message *start, int channel)
{
    int reason;
    char go;
    ssize_t n;

    do
        n = recv(channel, &go, 1, 0);
    while (n < 0 && errno == EINTR);
    if (n != 1)
        _exit(CLI_INTERNAL);
    if (set_environment(plan, start) == 0) {
        signals_restore(plan->signals);
        execvp(plan->argv[0], plan->argv);
    }
    reason = errno;
    n = send(channel, &reason, sizeof reason, 0);
    _exit(reason == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE);
}

pid_t spawn_command(const struct guardian_plan *plan, const struct message *start, int *channel)
{
    pid_t guardian = getpid();
    pid_t pid;
    sigset_t old;
    int ends[2], saved;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -1;
    if (notes_prepare_fd(ends[0], 1) < 0 || notes_prepare_fd(ends[1], 0) < 0) {
        pid = -1;
        goto out;
    }
    signals_block(&old);
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        setpgid(0, 0);
        die_with(guardian);
        become(plan, start, ends[1]); /* signals stay blocked until exec */
    }
    saved = errno;
    if (pid > 0)
        setpgid(pid, pid); /* on both sides: whoever comes first */
    signals_unblock(&old);
    errno = saved;
out:
    saved = errno;
    close(ends[1]);
    if (pid > 0)
        *channel = ends[0];
    else
        close(ends[0]);
    errno = saved;
    return pid;
}
