/*
 * Other programs: started, listened to, waited for with a time limit. They end with the thread
 * that started them (PR_SET_PDEATHSIG), so that nothing goes on working for a harness that was
 * killed. They have process groups of their own: a terminal's Ctrl-C is the harness's business.
 */
#ifndef CHAOS_PROGRAM_H
#define CHAOS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PROGRAM_OUTPUT = 8192, /* kept of what a program writes; the rest is read and forgotten */
    PROGRAM_ERRORS = 2048
};

/* ---- interruption ------------------------------------------------------------ */

/* From now on everything that waits gives up. For the whole process; async-signal-safe. */
void program_interrupt(void);
bool program_interrupted(void);

/* ---- a program that does its work and ends ------------------------------------- */

struct program {
    const char *name;
    pid_t pid; /* 0: it did not start */
    int output_fd, error_fd;
    char output[PROGRAM_OUTPUT]; /* of stdout; a string */
    char errors[PROGRAM_ERRORS]; /* of stderr, or why it could not be run or waited for */
};

/* Looks on PATH, unless there is a slash in the name. 0 and the path, or -1. */
int program_find(const char *name, char *path, size_t size);

/* NULL-terminated. Several can be started before the first is waited for. A failure shows in
 * program_finish(). */
void program_start(struct program *program, const char *const *arguments);
/* 0: it exited with 0. Otherwise -1, and `errors` is not empty. It is ended if it takes longer, or
 * on an interruption unless it is to run `to_the_end`. */
int program_finish(struct program *program, int timeout_ms, bool to_the_end);
/* Both. */
int program_run(struct program *program, int timeout_ms, const char *const *arguments);

/* ---- a program that stays ---------------------------------------------------- */

struct program_setup {
    const char *path;
    char *const *arguments, *const *environment;
    int output_fd, error_fd; /* -1: /dev/null */
    int gate; /* -1, or the reading end of a pipe: the program begins when a byte has come, and
               * not at all if the pipe is closed without one */
};
/* A pid, or -1 with errno. A path that cannot be executed shows as exit status 127. */
pid_t program_fork(const struct program_setup *setup);

/* A process for ever: its pid and when it started, in the kernel's ticks since boot. 0 and the
 * start and the state's letter, or -1: there is no such process. */
int program_stat(pid_t pid, uint64_t *start, char *state);
/* It is that process, and not a zombie. */
bool program_lives(pid_t pid, uint64_t start);

/* A pause in waiting; false: interrupted. */
bool program_pause(int ms);
int64_t program_now_ms(void);

#endif
