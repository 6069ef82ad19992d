/* A process group, and what has left it. */
#ifndef CLI_FAMILY_H
#define CLI_FAMILY_H

#include <sys/types.h>

#define FAMILY_UNKNOWN (-1)

/* From now on, orphaned descendants of this process become its children, where the system can do
 * that. */
void family_adopt(void);

/*
 * Sends a signal (0: none) to the process group, and to every descendant of this process that is
 * not in it. `leader`, which must not have been reaped, keeps the group's number from being given
 * away; 0: no group. Zombie children other than it are reaped. Returns how many live, or
 * FAMILY_UNKNOWN where only the group can be reached.
 */
int family_signal(pid_t leader, int number);

#endif
