/* See network.h. */
#include "network.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    DESCRIPTORS = 256,
    ROOM = 4096
};

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_recv(int fd, void *data, size_t len, int flags);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask);

static struct {
    size_t len;
    char data[ROOM];
} answers[DESCRIPTORS];

static _Thread_local bool instead;
static struct network_calls calls;
static atomic_bool sampled;

void network_instead(bool on)
{
    instead = on;
    memset(&calls, 0, sizeof calls);
}

bool network_is_instead(void)
{
    return instead;
}

struct network_calls network_calls(void)
{
    return calls;
}

bool network_saw_sample(void)
{
    return atomic_exchange(&sampled, false);
}

static void unknown(const char *what, size_t len)
{
    fprintf(stderr, "cost: not a lock's command: %.*s\n", (int)len, what);
    exit(70);
}

/* Of a transaction at its end: numbers that rise with each, on all connections alike. */
static const char *granted(int fd)
{
    static char text[64];
    static unsigned counts[DESCRIPTORS];
    unsigned number = 10000 + counts[fd]++;

    (void)snprintf(text, sizeof text, "*3\r\n+OK\r\n$5\r\n%u\r\n$5\r\n%u\r\n", number, number);
    return text;
}

static bool begins_with(const char *at, size_t len, const char *command)
{
    return memmem(at, len < 64 ? len : 64, command, strlen(command)) != NULL;
}

/* Of the command at `at`: what a primary says if all goes well. Each fenced grant by script is the
 * first. */
static const char *answer_to(int fd, const char *at, size_t len)
{
    static bool queueing[DESCRIPTORS];

    if (begins_with(at, len < 16 ? len : 16, "$5\r\nMULTI\r\n")) {
        queueing[fd] = true;
        return "+OK\r\n";
    }
    if (begins_with(at, len < 16 ? len : 16, "$4\r\nEXEC\r\n")) {
        queueing[fd] = false;
        return granted(fd);
    }
    if (queueing[fd])
        return "+QUEUED\r\n";
    if (begins_with(at, len, "$3\r\nSET\r\n"))
        return "+OK\r\n";
    if (!begins_with(at, len, "$4\r\nEVAL\r\n"))
        unknown(at, len < 200 ? len : 200);
    return ":1\r\n";
}

/* Past one command: a count of arguments, then each with its length. */
static const char *skip(const char *at)
{
    long count = strtol(at + 1, NULL, 10);

    at = strchr(at, '\n') + 1;
    while (count-- > 0) {
        long len = strtol(at + 1, NULL, 10);

        at = strchr(at, '\n') + 1 + len + 2;
    }
    return at;
}

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    const char *at = data, *end = at + len;

    if (!instead) {
        if (memmem(data, len, "$4\r\nTIME\r\n", 10) != NULL)
            atomic_store(&sampled, true);
        return __real_send(fd, data, len, flags);
    }
    calls.sends++;
    for (; at < end; at = skip(at)) {
        const char *answer = fd < DESCRIPTORS ? answer_to(fd, at, (size_t)(end - at)) : "";
        size_t answer_len = strlen(answer);

        if (answer_len == 0 || answers[fd].len + answer_len > ROOM)
            unknown("too much", 8);
        memcpy(answers[fd].data + answers[fd].len, answer, answer_len);
        answers[fd].len += answer_len;
    }
    return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    size_t ready = fd < DESCRIPTORS ? answers[fd].len : 0;

    if (!instead || ready == 0)
        return __real_recv(fd, data, len, flags);
    calls.receives++;
    if (ready > len)
        ready = len;
    memcpy(data, answers[fd].data, ready);
    memmove(answers[fd].data, answers[fd].data + ready, answers[fd].len - ready);
    answers[fd].len -= ready;
    return (ssize_t)ready;
}

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    int ready = 0;

    if (!instead)
        return __real_ppoll(fds, count, timeout, mask);
    for (nfds_t i = 0; i < count; i++) {
        bool has = fds[i].fd >= 0 && fds[i].fd < DESCRIPTORS && answers[fds[i].fd].len > 0;

        fds[i].revents = has && (fds[i].events & POLLIN) != 0 ? POLLIN : 0;
        ready += fds[i].revents != 0;
    }
    if (ready == 0)
        return __real_ppoll(fds, count, timeout, mask);
    calls.polls++;
    return ready;
}
