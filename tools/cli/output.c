/*
 * Reports that never block.
 *
 * Standard error may be a pipe that nobody reads, or a terminal that was halted with Ctrl-S. Who
 * holds a lease cannot wait for that: signals, the end of the command and the library's own thread,
 * which logs, would wait too. The descriptor is shared with the command and whoever started us, so
 * it must not be made non-blocking; polling it is not enough, for the command may take the room
 * that poll has seen. So, where it is a pipe or a terminal, a description of our own of the same
 * file is opened for each line, and a socket is written to with a flag. Where that is refused, poll
 * has to do.
 *
 * The first line that finds no room waits a moment for it; after that one is dropped, none waits
 * until one has been written again. What is dropped is counted, for the next line to say.
 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

#define PATIENCE_NS (100 * CLOCK_NS_PER_MS)
#define PIECE 512 /* what poll says there is room for: the least PIPE_BUF there may be */

static _Atomic int64_t dropped;
static _Atomic int full;   /* the last line found no room */
static _Atomic int broken; /* its beginning was written */

enum kind {
    KIND_PLAIN, /* never waits for a reader */
    KIND_OWN,   /* opened for this line, non-blocking */
    KIND_SOCKET,
    KIND_SHARED
};

static int open_own(enum kind *kind)
{
    struct stat status;
    int fd;

    *kind = KIND_PLAIN;
    if (fstat(STDERR_FILENO, &status) != 0 || S_ISREG(status.st_mode))
        return STDERR_FILENO;
    *kind = KIND_SOCKET;
    if (S_ISSOCK(status.st_mode))
        return STDERR_FILENO;
    *kind = KIND_SHARED;
#ifdef __linux__
    fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
#else
    fd = -1; /* elsewhere /dev/fd/2 is no new description */
#endif
    if (fd < 0)
        return STDERR_FILENO;
    *kind = KIND_OWN;
    return fd;
}

static ssize_t put(int fd, enum kind kind, const char *at, size_t length)
{
    struct pollfd room = {.fd = fd, .events = POLLOUT};

    if (kind == KIND_SOCKET)
        return send(fd, at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (kind != KIND_SHARED)
        return write(fd, at, length);
    if (poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, at, length < PIECE ? length : PIECE);
}

/* Returns how much of it was written. */
static size_t put_all(int fd, enum kind kind, const char *line, size_t length, int patient)
{
    int64_t end_ns = !patient || atomic_load(&full) ? 0 : clock_now_ns() + PATIENCE_NS;
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    size_t done = 0;

    while (done < length) {
        ssize_t n = put(fd, kind, line + done, length - done);
        int64_t now_ns;

        if (n > 0) {
            done += (size_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
            break;
        now_ns = clock_now_ns();
        if (now_ns >= end_ns)
            break;
        poll(&room, 1, clock_poll_timeout(end_ns, now_ns));
    }
    return done;
}

int output_report(const char *line, size_t length, int patient)
{
    int saved = errno;
    enum kind kind;
    int fd = open_own(&kind);
    size_t done = 0;

    if (!atomic_load(&broken) || put_all(fd, kind, "\n", 1, patient) == 1) {
        atomic_store(&broken, 0);
        done = put_all(fd, kind, line, length, patient);
    }
    if (done > 0 && done < length)
        atomic_store(&broken, 1);
    atomic_store(&full, done < length);
    atomic_store(&dropped, done < length ? atomic_load(&dropped) + 1 : 0);
    if (kind == KIND_OWN)
        close(fd);
    errno = saved;
    return done < length ? -1 : 0;
}

int64_t output_dropped(void)
{
    return atomic_load(&dropped);
}
