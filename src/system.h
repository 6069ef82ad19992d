/*
 * What the system gives besides sockets: a clock, entropy, the mark of this process, wake
 * pipes, waiting for descriptors, threads.
 */
#ifndef REDLOCK__SYSTEM_H
#define REDLOCK__SYSTEM_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of the clock that counts suspend. */
int64_t redlock__clock_ns(void);
/* The time of day, since 1970: for people. */
int64_t redlock__wall_ns(void);

/* ---- this process, and entropy ------------------------------------------ */

/* A page that the kernel wipes in a forked child, where it can: telling a child from its
 * parent then costs no system call, and no two processes draw from one block of entropy. */
struct redlock__origin;

struct redlock__origin *redlock__origin_new(void); /* NULL: no memory or no entropy */
void redlock__origin_free(struct redlock__origin *origin);
/* False in a forked child. */
bool redlock__origin_here(const struct redlock__origin *origin);
/* For redlock__engine_config: kernel entropy, read in blocks. One thread at a time. */
void redlock__origin_entropy(void *origin, void *buf, size_t len);

/* ---- a descriptor that is readable while raised ------------------------- */

struct redlock__signal {
    int fds[2]; /* read, write */
    bool raised;
};

bool redlock__signal_open(struct redlock__signal *signal);
void redlock__signal_close(struct redlock__signal *signal);
void redlock__signal_raise(struct redlock__signal *signal);
void redlock__signal_lower(struct redlock__signal *signal);

/* ---- waiting for descriptors -------------------------------------------- */

/* Of poll(): the peer has closed, told also to who does not ask for input. 0 where there is nothing
 * like that. */
#if defined(POLLRDHUP)
#define REDLOCK__POLL_CLOSED POLLRDHUP
#else
#define REDLOCK__POLL_CLOSED 0
#endif

/* poll(), for timeout_ns (rounded up where the system knows only milliseconds; negative: for ever).
 * Its clock may stand still in suspend. Should it not work, it pauses, so that nobody spins. */
void redlock__poll(struct pollfd *fds, unsigned count, int64_t timeout_ns);

/* For an external loop: a descriptor that is readable when one of those in it is ready, of which
 * `first` is one. False: errno. Where the system has nothing like that, true, and *loop_fd is -1.
 */
bool redlock__loop_open(int *loop_fd, int first);
/* Waits there for `wanted` (POLLIN, POLLOUT; 0: not at all) of fd instead of `before`; returns what
 * it waits for now. */
uint32_t redlock__loop_change(int loop_fd, int fd, uint32_t before, uint32_t wanted);

/* ---- threads, descriptors, errors --------------------------------------- */

/* A thread with all signals blocked, so that it never takes the application's. 0 or an errno. */
int redlock__start_thread(pthread_t *thread, bool detached, void *(*run)(void *), void *argument);

/* Not blocking, closed on exec; for descriptors the system can't open like that. */
bool redlock__set_up_descriptor(int fd);

enum {
    REDLOCK__ERRNO_LEN = 32
};

/* The errors a connection meets, in words, the same on all systems; of another one the number,
 * which is written to room. */
const char *redlock__errno_text(int number, char room[REDLOCK__ERRNO_LEN]);

#endif
