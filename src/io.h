/*
 * The border to the operating system: clock, entropy, process, descriptors, sockets, poll.
 * With resolver.c and system.c the only code that makes system calls. It decides nothing: it does
 * the nodes' tasks, moves bytes (through tls.c where an endpoint wants that), and tells the engine
 * what happened and when.
 *
 * One turn of whoever sits in poll, with the client's mutex held but for the middle:
 *
 *   redlock__io_flush       tasks, then what is to be sent
 *   redlock__io_watch       which descriptors, until when
 *     (unlock) redlock__io_poll (lock)
 *   redlock__io_read        bytes, each with a clock read after it, then deadlines; the engine
 *                           looks at a lease's own deadline before it takes in an answer
 *
 * Three parties look at the sockets, each with a watch of its own: the DRIVER (a caller that
 * waits for its answer), the BACKGROUND thread, and anybody for a LOOK that doesn't wait. While a
 * party is in poll others go on working under the mutex: they may queue and send, close and open
 * connections. What its watch says may be outdated when it comes back, so each link has a
 * generation, and readiness of an older one is ignored; redlock__io_stale() tells who changed
 * things whether the party has to be woken.
 */
#ifndef REDLOCK__IO_H
#define REDLOCK__IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "options.h"
#include "system.h"

enum redlock__party {
    REDLOCK__DRIVER,
    REDLOCK__BACKGROUND,
    REDLOCK__LOOK,
    REDLOCK__PARTIES
};

enum redlock__scope {
    REDLOCK__WATCH_ALL,
    /* Links being set up, links with output that the kernel did not take; of the others only that
     * they are closed, where poll can tell. So answers don't wake the watcher. */
    REDLOCK__WATCH_UNSETTLED
};

struct redlock__io;

/* settings and engine outlive it. 0; ERR_URI or ARGUMENT (TLS's files) with the reason in text;
 * MEMORY; SYSTEM. */
int redlock__io_new(const struct redlock__settings *settings, struct redlock__engine *engine,
                    struct redlock__io **io, char *text, size_t text_size);
/* Closes everything. here: false in a forked child, where only descriptors are closed, since
 * another thread may have been at work at the time of the fork. NULL accepted. */
void redlock__io_free(struct redlock__io *io, bool here);

/* Does all tasks and sends all output, as far as it goes without waiting. */
void redlock__io_flush(struct redlock__io *io);

/* until_ns: poll no longer, 0: not at all. The party counts as in poll until redlock__io_read(). */
void redlock__io_watch(struct redlock__io *io, enum redlock__party party, enum redlock__scope scope,
                       int64_t until_ns);
/* Without the mutex. A clock that stood still (suspend) makes it return late, by a second at most.
 */
void redlock__io_poll(struct redlock__io *io, enum redlock__party party);
/* Returns when it had read, before it took in what that was. */
int64_t redlock__io_read(struct redlock__io *io, enum redlock__party party);
/* All three at once, without waiting. */
void redlock__io_look(struct redlock__io *io);
/* When all sockets were last looked at. */
int64_t redlock__io_looked_ns(const struct redlock__io *io);

/* redlock__io_flush() has something to do. */
bool redlock__io_has_news(struct redlock__io *io);
bool redlock__io_in_poll(const struct redlock__io *io, enum redlock__party party);
/* The party is in poll and would miss something, or wake after until_ns. */
bool redlock__io_stale(const struct redlock__io *io, enum redlock__party party, int64_t until_ns);
void redlock__io_wake(struct redlock__io *io, enum redlock__party party);

/* Of an external loop: the descriptor to poll, readable when there is something to do or BACKGROUND
 * was woken. Negative: ERR_UNSUPPORTED. */
int redlock__io_loop_fd(const struct redlock__io *io);

#endif
