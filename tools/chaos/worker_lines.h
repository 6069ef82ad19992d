/*
 * Lines out of a pipe or a socket, however they were cut on their way. One thread at a time.
 */
#ifndef CHAOS_WORKER_LINES_H
#define CHAOS_WORKER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines {
    int fd; /* stays the caller's */
    bool ended;
    char *data;
    size_t begin, used, room; /* what is not given out yet: from begin to used */
};

void lines_init(struct lines *lines, int fd);
void lines_free(struct lines *lines);

/* The next line, without its end, valid until the next call; waited for until deadline_ns of
 * history_now(). NULL: there is none, and `ended` says whether there will be. */
char *lines_next(struct lines *lines, int64_t deadline_ns);

/* Writes all of it, to a socket or pipe. False: the other end is gone (a pipe's writer has to
 * ignore SIGPIPE). */
bool lines_write(int fd, const char *data, size_t len);

#endif
