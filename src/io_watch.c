/*
 * Who looks at which descriptors, until when, and whether what they look at is outdated: the part
 * of io.h that reads nothing and sends nothing.
 */
#include "io_state.h"

#include "validity.h"

enum {
    LONGEST_POLL_MS = 1000 /* poll's clock stops in suspend, ours doesn't */
};

/* Being set up, or with output that waits. */
static bool is_unsettled(const struct redlock__io *io, uint32_t i)
{
    const struct link *link = &io->links[i];

    if (link->state == LINK_OPEN)
        return link->blocked || redlock__node_phase(redlock__engine_node(io->engine, i)) !=
                                    REDLOCK__NODE_PHASE_READY;
    return link->state == LINK_CONNECTING || link->state == LINK_SECURING;
}

void redlock__io_watch(struct redlock__io *io, enum redlock__party party, enum redlock__scope scope,
                       int64_t until_ns)
{
    struct watch *watch = &io->watches[party];
    int64_t longest_ns = redlock__ms_to_ns(LONGEST_POLL_MS);

    watch->until_ns = until_ns;
    watch->timeout_ns = until_ns == REDLOCK__NEVER ? -1 : 0;
    if (until_ns > 0 && until_ns != REDLOCK__NEVER)
        watch->timeout_ns =
            redlock__max(0, redlock__min(longest_ns, redlock__add(until_ns, -redlock__clock_ns())));
    watch->in_poll = true;
    if (scope == REDLOCK__WATCH_ALL && watch->scope == scope && watch->changes == io->changes &&
        watch->count == redlock__engine_links(io->engine))
        return; /* as last time */
    watch->scope = scope;
    watch->changes = io->changes;
    watch->fds[0] = (struct pollfd){.fd = watch->signal.fds[0], .events = POLLIN};
    watch->count = redlock__engine_links(io->engine);
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct link *link = &io->links[i];
        uint32_t events = redlock__link_interest(link);
        int fd = events == 0 ? -1 : link->fd;
        if (scope == REDLOCK__WATCH_UNSETTLED && !is_unsettled(io, i))
            events = REDLOCK__POLL_CLOSED;
        watch->fds[1 + i] = (struct pollfd){.fd = fd, .events = (short)events};
        watch->generation[i] = link->generation;
    }
}

void redlock__io_poll(struct redlock__io *io, enum redlock__party party)
{
    redlock__poll(io->watches[party].fds, 1 + io->watches[party].count,
                  io->watches[party].timeout_ns);
}

void redlock__io_look(struct redlock__io *io)
{
    redlock__io_watch(io, REDLOCK__LOOK, REDLOCK__WATCH_ALL, 0);
    redlock__io_poll(io, REDLOCK__LOOK);
    (void)redlock__io_read(io, REDLOCK__LOOK);
}

int64_t redlock__io_looked_ns(const struct redlock__io *io)
{
    return io->looked_ns;
}

bool redlock__io_in_poll(const struct redlock__io *io, enum redlock__party party)
{
    return io->watches[party].in_poll;
}

bool redlock__io_stale(const struct redlock__io *io, enum redlock__party party, int64_t until_ns)
{
    const struct watch *watch = &io->watches[party];

    if (!watch->in_poll)
        return false;
    if (watch->until_ns > until_ns)
        return true;
    if (watch->changes == io->changes)
        return false;
    for (uint32_t i = 0; i < redlock__engine_links(io->engine); i++) {
        uint32_t wanted = redlock__link_interest(&io->links[i]);
        bool known = i < watch->count && watch->generation[i] == io->links[i].generation;
        if (wanted == 0 || (watch->scope == REDLOCK__WATCH_UNSETTLED && !is_unsettled(io, i)))
            continue;
        if (!known || (wanted & ~(uint32_t)watch->fds[1 + i].events) != 0)
            return true;
    }
    return false;
}

void redlock__io_wake(struct redlock__io *io, enum redlock__party party)
{
    redlock__signal_raise(&io->watches[party].signal);
}
