/*
 * redlock: the library on the command line.
 *
 *     main -> args -> command_...  -> session -> the library
 *                     command_run  -> guardian (a process) -> the command (a process group)
 *
 * Every function that can fail has said why before it returns, and returns the exit status; so
 * there is one exit, here.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "args.h"
#include "commands.h"
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
    case COMMAND_NONE:
    case COMMAND_ALL:
        break;
    }
    return CLI_INTERNAL;
}

/* Started with standard descriptors closed, a pipe of ours would become one of them. The command
 * finds them as closed as they were. */
static void fill_standard_fds(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    struct cli_args args;
    int status;

    fill_standard_fds();
    status = args_parse(argc, argv, &args);
    if (status == CLI_CONTINUE)
        status = dispatch(&args);
    args_clear(&args);
    if (fflush(stdout) != 0 && status == CLI_OK)
        status = CLI_INTERNAL;
    return status;
}
