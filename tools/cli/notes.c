/*
 * A pipe of small records.
 *
 * A record is far smaller than PIPE_BUF, so writers of several threads and a signal handler never
 * mix, and reading one record's size reads one record. Nobody but the main loop acts on what is
 * said, which therefore needs no locks.
 */
#include "notes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

int notes_prepare_fd(int fd, int nonblocking)
{
    int flags;

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return -1;
    if (!nonblocking)
        return 0;
    flags = fcntl(fd, F_GETFL);
    return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int notes_open(struct notes *notes)
{
    int fds[2];

    if (pipe(fds) != 0)
        return -1;
    notes->read_fd = fds[0];
    notes->write_fd = fds[1];
    if (notes_prepare_fd(fds[0], 1) < 0 || notes_prepare_fd(fds[1], 1) < 0) {
        notes_close(notes);
        return -1;
    }
    return 0;
}

void notes_close(struct notes *notes)
{
    close(notes->read_fd);
    close(notes->write_fd);
    notes->read_fd = notes->write_fd = -1;
}

void notes_post(const struct notes *notes, enum note_kind kind, int value, int64_t deadline_ns)
{
    struct note note = {.kind = (int32_t)kind, .value = value, .deadline_ns = deadline_ns};
    int saved = errno;
    ssize_t ignored = write(notes->write_fd, &note, sizeof note);

    (void)ignored;
    errno = saved;
}

void notes_post_surely(const struct notes *notes, enum note_kind kind, int value)
{
    struct note note = {.kind = (int32_t)kind, .value = value};

    while (write(notes->write_fd, &note, sizeof note) < 0 && (errno == EAGAIN || errno == EINTR)) {
        struct pollfd room = {.fd = notes->write_fd, .events = POLLOUT};

        poll(&room, 1, -1);
    }
}

int notes_next(const struct notes *notes, struct note *note)
{
    ssize_t n;

    do
        n = read(notes->read_fd, note, sizeof *note);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *note;
}
