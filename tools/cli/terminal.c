/*
 * The foreground of the terminal.
 *
 * The command is in a process group of its own, so it would be a background job: it could not read
 * from the terminal, and Ctrl-C would not reach it. So the wrapper, if it is in the foreground
 * itself, hands its place over and takes it back when the command stops or ends.
 *
 * Not always at once, though. In `redlock run k -- make | less` the wrapper's group is that of less
 * too, which must not become a background job. There the command gets the terminal only when it
 * asks for it, that is, when it was stopped by SIGTTIN or SIGTTOU; until then the wrapper passes
 * Ctrl-C on. SIGTTOU is ignored in the wrapper, so it can take the terminal back from the
 * background.
 */
#include "terminal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void terminal_open(struct terminal *terminal)
{
    memset(terminal, 0, sizeof *terminal);
    terminal->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    terminal->wanted = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->fd >= 0)
        close(terminal->fd);
    terminal->fd = -1;
}

int terminal_is_ours(const struct terminal *terminal)
{
    return terminal->fd >= 0 && tcgetpgrp(terminal->fd) == getpgrp();
}

int terminal_give(struct terminal *terminal, pid_t group)
{
    if (!terminal_is_ours(terminal))
        return -1;
    if (!terminal->known)
        terminal->known = tcgetattr(terminal->fd, &terminal->modes) == 0;
    if (tcsetpgrp(terminal->fd, group) != 0)
        return -1;
    terminal->given = 1;
    terminal->wanted = 1;
    return 0;
}

void terminal_take(struct terminal *terminal, int reset)
{
    if (!terminal->given)
        return;
    terminal->given = 0;
    tcsetpgrp(terminal->fd, getpgrp());
    if (reset && terminal->known)
        tcsetattr(terminal->fd, TCSADRAIN, &terminal->modes);
}
