/* Signals: what this process was started with, and what its parts make of them. */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include <signal.h>

#include "notes.h"

#define SIGNALS_COUNT 14

/* Dispositions and mask as they were at the start: what the command is to find. */
struct signals {
    struct sigaction saved[SIGNALS_COUNT];
    sigset_t mask;
};

void signals_save(struct signals *signals);

/* 1 if it was ignored at the start. */
int signals_ignored(const struct signals *signals, int number);

/* In the command before exec: as they were. */
void signals_restore(const struct signals *signals);

/* Blocks all; *old gets the mask to go back to. Around fork and the start of threads. */
void signals_block(sigset_t *old);
void signals_unblock(const sigset_t *old);

/* Those that end a process and those of job control become notes, unless they were ignored at the
 * start. SIGPIPE and SIGTTOU are ignored. */
void signals_catch(const struct signals *signals, const struct notes *notes);

/* The guardian outlives whatever its wrapper and its terminal get; SIGCHLD becomes a note. */
void signals_guard(const struct notes *notes);

/* 1 for a signal that asks a process to end. */
int signals_ends(int number);

/* Stops this process and its group as the terminal would, by SIGTSTP, SIGTTIN, SIGTTOU or SIGSTOP.
 * Returns when it was continued, or at once where the system does not stop an orphaned group. */
void signals_stop(int number);

/* Ends this process by a signal that ends processes, and its process group with it if asked to. */
void signals_die(int number, int whole_group);

/* "TERM", or its number. Static, or in `text`. */
const char *signals_name(int number, char text[16]);

#endif
