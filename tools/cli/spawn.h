/* The command itself, up to exec. */
#ifndef CLI_SPAWN_H
#define CLI_SPAWN_H

#include <sys/types.h>

#include "channel.h"
#include "guardian.h"

/*
 * Forks the command into a process group of its own, where it waits for a byte on *channel. What is
 * to be read from there then: nothing but the end if exec succeeded, else its errno, an int.
 * Returns the process id, or -1 with errno.
 */
pid_t spawn_command(const struct guardian_plan *plan, const struct message *start, int *channel);

#endif
