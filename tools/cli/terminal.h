/* Who may use the terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd;     /* the controlling terminal; -1: none */
    int wanted; /* the command is to have it whenever we have */
    int given;  /* the command has it */
    int known;  /* modes are those from before the command */
    struct termios modes;
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);

/* 1 if our own process group is in the foreground. */
int terminal_is_ours(const struct terminal *terminal);

/* From us to the command's group. Returns 0, or -1 if it is not ours to give. */
int terminal_give(struct terminal *terminal, pid_t group);

/* Back, if the command has it. `reset` puts the modes back too: the command had no chance to do it.
 */
void terminal_take(struct terminal *terminal, int reset);

#endif
