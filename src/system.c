/*
 * See system.h.
 */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#elif defined(__linux__)
#include <sys/epoll.h>
#endif

#if defined(CLOCK_BOOTTIME)
#define LEASE_CLOCK CLOCK_BOOTTIME
#else
#define LEASE_CLOCK CLOCK_MONOTONIC
#endif

enum {
    BLOCK = 256,        /* what getentropy() gives at once */
    POLL_FAILED_MS = 10 /* don't spin */
};

int64_t redlock__clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(LEASE_CLOCK, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t redlock__wall_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- this process, and entropy ------------------------------------------ */

struct redlock__origin {
    bool here; /* wiped in a child */
    bool by_pid;
    pid_t pid;
    size_t used;
    unsigned char block[BLOCK];
};

static size_t page_size(void)
{
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

struct redlock__origin *redlock__origin_new(void)
{
    void *page =
        mmap(NULL, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct redlock__origin *origin = page;

    if (page == MAP_FAILED)
        return NULL;
#if defined(MADV_WIPEONFORK)
    origin->by_pid = madvise(page, page_size(), MADV_WIPEONFORK) != 0;
#else
    origin->by_pid = true;
#endif
    origin->pid = getpid();
    origin->here = true;
    if (getentropy(origin->block, BLOCK) != 0) {
        redlock__origin_free(origin);
        return NULL;
    }
    return origin;
}

void redlock__origin_free(struct redlock__origin *origin)
{
    if (origin != NULL)
        (void)munmap(origin, page_size());
}

bool redlock__origin_here(const struct redlock__origin *origin)
{
    return origin->here && (!origin->by_pid || getpid() == origin->pid);
}

/* A source that worked once and then fails is documented for no system. Should it happen all the
 * same (a sandbox entered later), the last block is stretched: still unlike any other process's. */
static void refill(struct redlock__origin *origin)
{
    if (getentropy(origin->block, BLOCK) != 0) {
        uint64_t state = (uint64_t)redlock__clock_ns();
        for (size_t i = 0; i < BLOCK; i++) {
            state = (state ^ origin->block[i]) * UINT64_C(0x9e3779b97f4a7c15);
            origin->block[(i + 1) % BLOCK] ^= (unsigned char)(state >> 56);
        }
    }
    origin->used = 0;
}

void redlock__origin_entropy(void *origin, void *buf, size_t len)
{
    struct redlock__origin *o = origin;
    unsigned char *to = buf;

    while (len > 0) {
        size_t n = BLOCK - o->used < len ? BLOCK - o->used : len;
        memcpy(to, o->block + o->used, n);
        o->used += n;
        to += n;
        len -= n;
        if (o->used == BLOCK)
            refill(o);
    }
}

/* ---- descriptors -------------------------------------------------------- */

bool redlock__signal_open(struct redlock__signal *signal)
{
    signal->raised = false;
#if defined(__APPLE__)
    if (pipe(signal->fds) == 0) {
        if (redlock__set_up_descriptor(signal->fds[0]) &&
            redlock__set_up_descriptor(signal->fds[1]))
            return true;
        redlock__signal_close(signal);
    }
#else
    if (pipe2(signal->fds, O_CLOEXEC | O_NONBLOCK) == 0)
        return true;
#endif
    signal->fds[0] = signal->fds[1] = -1;
    return false;
}

void redlock__signal_close(struct redlock__signal *signal)
{
    for (int i = 0; i < 2; i++) {
        if (signal->fds[i] >= 0)
            (void)close(signal->fds[i]);
        signal->fds[i] = -1;
    }
}

void redlock__signal_raise(struct redlock__signal *signal)
{
    if (!signal->raised)
        signal->raised = write(signal->fds[1], "", 1) == 1 || errno == EAGAIN;
}

void redlock__signal_lower(struct redlock__signal *signal)
{
    char bytes[64];

    signal->raised = false;
    while (read(signal->fds[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
    }
}

/* ---- waiting for descriptors -------------------------------------------- */

void redlock__poll(struct pollfd *fds, unsigned count, int64_t timeout_ns)
{
    struct timespec pause = {.tv_nsec = POLL_FAILED_MS * 1000000L};
    int rc;
#if defined(__linux__)
    struct timespec timeout = {.tv_nsec = (long)timeout_ns};

    if (timeout_ns >= 1000000000) { /* seldom: and dividing takes a while */
        timeout.tv_sec = (time_t)(timeout_ns / 1000000000);
        timeout.tv_nsec = (long)(timeout_ns % 1000000000);
    }
    rc = ppoll(fds, count, timeout_ns < 0 ? NULL : &timeout, NULL);
#else
    rc = poll(fds, count, timeout_ns < 0 ? -1 : (int)((timeout_ns + 999999) / 1000000));
#endif
    if (rc < 0 && errno != EINTR)
        (void)nanosleep(&pause, NULL);
    for (unsigned i = 0; rc < 0 && i < count; i++)
        fds[i].revents = 0; /* as left by an earlier call */
}

bool redlock__loop_open(int *loop_fd, int first)
{
#if defined(__linux__)
    *loop_fd = epoll_create1(EPOLL_CLOEXEC);
    return *loop_fd >= 0 && redlock__loop_change(*loop_fd, first, 0, POLLIN) == POLLIN;
#else
    (void)first;
    *loop_fd = -1;
    return true;
#endif
}

uint32_t redlock__loop_change(int loop_fd, int fd, uint32_t before, uint32_t wanted)
{
#if defined(__linux__)
    struct epoll_event event = {.events = (wanted & POLLIN ? EPOLLIN : 0u) |
                                          (wanted & POLLOUT ? EPOLLOUT : 0u)};
    int how = before == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    if (wanted == 0)
        how = EPOLL_CTL_DEL;
    return wanted == before || epoll_ctl(loop_fd, how, fd, &event) == 0 ? wanted : before;
#else
    (void)loop_fd;
    (void)fd;
    (void)before;
    return wanted;
#endif
}

/* ---- threads, descriptors, errors --------------------------------------- */

int redlock__start_thread(pthread_t *thread, bool detached, void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    rc = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (rc != 0)
        return rc;
    rc = pthread_create(thread, NULL, run, argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0 && detached)
        (void)pthread_detach(*thread);
    return rc;
}

bool redlock__set_up_descriptor(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

const char *redlock__errno_text(int number, char room[REDLOCK__ERRNO_LEN])
{
    static const struct {
        int number;
        const char *text;
    } texts[] = {
        {ECONNREFUSED, "connection refused"},
        {ECONNRESET, "connection reset"},
        {ETIMEDOUT, "timed out"},
        {EHOSTUNREACH, "host unreachable"},
        {ENETUNREACH, "network unreachable"},
        {EPIPE, "closed by the primary"},
        {ENOENT, "no such socket"},
        {EACCES, "permission denied"},
        {EMFILE, "too many open files"},
        {ENFILE, "too many open files in the system"},
        {EADDRNOTAVAIL, "no local port is free"},
        {EAGAIN, "the listener's queue is full"},
        {EPERM, "not permitted"},
        {EAFNOSUPPORT, "address family not supported"},
        {ELOOP, "connected to itself"},
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].number == number)
            return texts[i].text;
    (void)snprintf(room, REDLOCK__ERRNO_LEN, "error %d", number);
    return room;
}
