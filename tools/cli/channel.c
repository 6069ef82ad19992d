/*
 * A socket pair with records of one size.
 *
 * Sending never blocks: the wrapper must not wait for a guardian that was stopped, nor the other
 * way round. The end of the stream is itself a message, the last one: the other side has died.
 */
#include "channel.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "notes.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SIGPIPE is ignored on both sides anyway */
#endif

int channel_open(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
        return -1;
    if (notes_prepare_fd(ends[0], 0) < 0 || notes_prepare_fd(ends[1], 0) < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    return 0;
}

int channel_send(int fd, const struct message *message)
{
    ssize_t n;

    do
        n = send(fd, message, sizeof *message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *message ? 0 : -1;
}

int channel_receive(int fd, struct message *message)
{
    char *at = (char *)message;
    size_t got = 0;

    while (got < sizeof *message) {
        ssize_t n = recv(fd, at + got, sizeof *message - got, MSG_WAITALL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 0;
        got += (size_t)n;
    }
    return 1;
}
