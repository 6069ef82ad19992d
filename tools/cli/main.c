/*
 * redlock: the library on the command line.
 *
 *     main -> args -> command_...  -> session -> the library
 *                     command_run  -> guardian (a process) -> the command (a process group)
 *
 * Every function that can fail has said why before it returns, and returns the exit status; so
 * there is one exit, here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "args.h"
#include "commands.h"
#include "report.h"
#include "status.h"

static int dispatch(const struct cli_args *args)
{
    switch (args->command) {
    case COMMAND_RUN:
        return command_run(args);
    case COMMAND_ACQUIRE:
        return command_acquire(args);
    case COMMAND_EXTEND:
        return command_extend(args);
    case COMMAND_RELEASE:
        return command_release(args);
    case COMMAND_SHOW:
        return command_show(args);
    case COMMAND_INIT:
        return command_init(args);
    case COMMAND_BENCH:
        return command_bench(args);
    case COMMAND_NONE:
    case COMMAND_ALL:
        break;
    }
    return CLI_INTERNAL;
}

/* Started with standard descriptors closed, a pipe of ours would become one of them. Each is filled
 * the wrong way round, so that using it still fails: a token that went to /dev/null would be a lock
 * nobody can release. The command finds them as closed as they were. */
static void fill_standard_fds(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0)
            return;
}

/* What was printed with stdio: help, version, show. */
static int flush_output(const struct cli_args *args, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    report_output_failed(args, NULL);
    return CLI_INTERNAL;
}

int main(int argc, char **argv)
{
    struct cli_args args;
    int status;

    fill_standard_fds();
    status = args_parse(argc, argv, &args);
    if (status == CLI_CONTINUE)
        status = dispatch(&args);
    status = flush_output(&args, status);
    args_clear(&args);
    return status;
}
