/*
 * A command to run under a lock that shows, in memory shared with the test, that it lives.
 *
 * It is the test program itself, started again: "test --worker BOARD FLAGS [FLAGS...]". Each FLAGS
 * is one process, the parent of the next: s  stubborn: ignores TERM, INT, HUP and QUIT g  leaves
 * the group, as timeout(1) does d  leaves the session, as a daemon does o  ends at once when its
 * child lives, which becomes an orphan
 *   -  nothing of that
 */
#ifndef WORKER_H
#define WORKER_H

#include <check.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    WORKER_MAX = 4
};

struct worker {
    _Atomic int pid;
    _Atomic int signal;   /* the last one it got */
    _Atomic int64_t beat; /* when it lived last, on the clock of deadlines */
};

struct worker_board {
    struct worker workers[WORKER_MAX];
    _Atomic int stop; /* they are to exit with this status, minus one */
};

/* A test program's main(): runs the suite, or is a worker. */
int worker_main(int argc, char **argv, const char *tool, Suite *(*suite)(void));

/* A new board; the file that is to be given to the workers, and their program. */
struct worker_board *worker_board_new(void);
void worker_board_free(struct worker_board *board);
const char *worker_board_path(void);
const char *worker_program(void);

/* Until workers 0 .. count-1 have begun. */
void worker_wait(const struct worker_board *board, int count);

/* The newest sign of life of any. */
int64_t worker_last_beat(const struct worker_board *board);

/* Until none lives any more. */
void worker_wait_dead(const struct worker_board *board);

#endif
