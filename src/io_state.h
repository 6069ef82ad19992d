/*
 * What io.c, io_link.c and io_watch.c share: links, and who watches them. Nobody else includes
 * this.
 */
#ifndef REDLOCK__IO_STATE_H
#define REDLOCK__IO_STATE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "io.h"
#include "resolver.h"
#include "tls.h"

#if !defined(MSG_NOSIGNAL) /* SO_NOSIGPIPE does it */
#define MSG_NOSIGNAL 0
#endif

enum {
    REDLOCK__IO_BUFFER = 64 * 1024
};

enum link_state {
    LINK_CLOSED,
    LINK_RESOLVING,
    LINK_CONNECTING,
    LINK_SECURING,
    LINK_OPEN,
    LINK_BROKEN
};

struct link {
    enum link_state state;
    int fd;              /* -1: none */
    uint32_t generation; /* changes with fd and with state */
    bool blocked;        /* the kernel took no more */
    uint32_t registered; /* with epoll; 0: not */
    const struct redlock__endpoint *endpoint;
    struct redlock__tls_stream *tls; /* NULL: none, or not yet */
    struct redlock__lookup *lookup;  /* NULL: none running */
    uint32_t first, tried;           /* addresses: where to begin, how many were tried */
    struct redlock__addresses addresses;
};

struct watch {
    bool in_poll;
    enum redlock__scope scope;
    int64_t until_ns, timeout_ns;
    uint32_t changes; /* of links, as far as it knows */
    struct redlock__signal signal;
    uint32_t count;                            /* of links */
    struct pollfd fds[1 + REDLOCK__MAX_LINKS]; /* the signal, then the links */
    uint32_t generation[REDLOCK__MAX_LINKS];
};

struct redlock__io {
    struct redlock__engine *engine;
    struct redlock__tls *tls; /* NULL: no endpoint wants it */
    uint32_t n;
    int64_t user_timeout_ms;
    int64_t looked_ns;
    int loop_fd;
    uint32_t changes;    /* of what links are polled for, so far */
    uint32_t registered; /* those that the external loop knows */
    /* As redlock__engine_stirred(), and STIRRED if something happened to a link but that it was
     * read: there may be more to do, also for others. */
    uint32_t news;
    uint64_t plain; /* mask: links that are OPEN, and not encrypted */
    struct link links[REDLOCK__MAX_LINKS];
    struct watch watches[REDLOCK__PARTIES];
    char *buffer; /* for what is encrypted; NULL: nothing is */
};

/* What poll is asked for. */
static inline uint32_t redlock__link_interest(const struct link *link)
{
    if (link->state == LINK_CONNECTING)
        return POLLOUT;
    if (link->state == LINK_OPEN || link->state == LINK_SECURING)
        return (uint32_t)(POLLIN | (link->blocked ? POLLOUT : 0));
    return 0;
}

/* ---- io_link.c ---- */

/* It has failed: `what`, and why, or if that is NULL what errno's number says. */
void redlock__link_break(struct redlock__io *io, uint32_t i, const char *what, const char *why,
                         int number);
/* The connection came to its end (number 0), or to an error. */
void redlock__link_lose(struct redlock__io *io, uint32_t i, const char *what, int number);
/* It is OPEN now. */
void redlock__link_connected(struct redlock__io *io, uint32_t i);
/* Poll has found that connecting is over, one way or the other. */
void redlock__link_finish_connect(struct redlock__io *io, uint32_t i);
void redlock__link_close(struct redlock__io *io, struct link *link, bool abort_it);
/* What the node wants done: connecting, closing. */
void redlock__link_do_tasks(struct redlock__io *io, uint32_t i);

#endif
