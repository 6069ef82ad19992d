/* See worker_lines.h. */
#include "worker_lines.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "history.h"

enum {
    CHUNK = 16 * 1024,
    LONGEST = 1024 * 1024 /* a longer line is nothing we know */
};

void lines_init(struct lines *lines, int fd)
{
    *lines = (struct lines){.fd = fd};
}

void lines_free(struct lines *lines)
{
    free(lines->data);
    lines->data = NULL;
}

/* True: there is something to read, or the end. */
static bool await_input(int fd, int64_t deadline_ns)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};

    for (;;) {
        int64_t left_ms = 0, now_ns = history_now();
        int rc;

        if (deadline_ns > now_ns)
            left_ms = (deadline_ns - now_ns) / 1000000 + 1;
        rc = poll(&entry, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
        if (left_ms == 0)
            return false;
    }
}

static bool make_room(struct lines *lines)
{
    char *data;

    memmove(lines->data, lines->data + lines->begin, lines->used - lines->begin);
    lines->used -= lines->begin;
    lines->begin = 0;
    if (lines->room - lines->used >= CHUNK)
        return true;
    if (lines->room > LONGEST || (data = realloc(lines->data, lines->room + CHUNK)) == NULL)
        return false;
    lines->data = data;
    lines->room += CHUNK;
    return true;
}

static void read_more(struct lines *lines)
{
    ssize_t got;

    if (lines->data == NULL) {
        lines->data = malloc(CHUNK);
        lines->room = lines->data != NULL ? CHUNK : 0;
    }
    if (lines->data == NULL || !make_room(lines)) {
        lines->ended = true;
        return;
    }
    got = read(lines->fd, lines->data + lines->used, lines->room - lines->used);
    if (got > 0)
        lines->used += (size_t)got;
    else if (got == 0 || (errno != EINTR && errno != EAGAIN))
        lines->ended = true;
}

char *lines_next(struct lines *lines, int64_t deadline_ns)
{
    size_t looked = 0; /* behind begin */

    for (;;) {
        size_t waiting = lines->used - lines->begin;
        char *end = NULL;

        if (waiting > looked)
            end = memchr(lines->data + lines->begin + looked, '\n', waiting - looked);
        if (end != NULL) {
            char *line = lines->data + lines->begin;
            *end = '\0';
            lines->begin = (size_t)(end - lines->data) + 1;
            return line;
        }
        looked = waiting;
        if (lines->ended || !await_input(lines->fd, deadline_ns))
            return NULL;
        read_more(lines);
    }
}

bool lines_write(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t written = send(fd, data, len, MSG_NOSIGNAL);
        if (written < 0 && errno == ENOTSOCK)
            written = write(fd, data, len);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            data += written;
            len -= (size_t)written;
        }
    }
    return true;
}
