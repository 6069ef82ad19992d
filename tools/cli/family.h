/* A process group, and what has left it. */
#ifndef CLI_FAMILY_H
#define CLI_FAMILY_H

#include <stddef.h>
#include <sys/types.h>

#define FAMILY_UNKNOWN (-1)
#define FAMILY_OTHERS_MAX 64

/* Children that were there before: a shell may have left us some by exec. They are none of our
 * business. */
struct family {
    int group_only; /* nothing else can be reached */
    pid_t others[FAMILY_OTHERS_MAX];
    size_t other_count;
};

/* Notes the children that are there. From now on, orphaned descendants of this process become its
 * children, where the system can do that. */
void family_adopt(struct family *family);

/*
 * Sends a signal (0: none) to the process group, and to every descendant of this process that is
 * not in it. `leader`, which must not have been reaped, keeps the group's number from being given
 * away; 0: no group. Zombie children other than it are reaped. Returns how many live, or
 * FAMILY_UNKNOWN where only the group can be reached.
 */
int family_signal(const struct family *family, pid_t leader, int number);

#endif
