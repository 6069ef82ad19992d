/*
 * Many leases over the same sockets. Each wire answers in the order it was asked, so a ring of what
 * was asked tells whom an answer belongs to. All wires get the same bytes: what the lanes want to
 * send is gathered in one buffer, and written to each wire once per turn; where the lanes are so
 * many that a wire takes only part of it, the rest follows as soon as there is room.
 */
#include "floor_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RING = 65536, /* commands of one wire that are not answered yet */
    LOOP_TTL_MS = 30000
};

struct asked {
    uint32_t lane, operation; /* the lane's, counted; NOBODY: it is of before */
};

#define NOBODY UINT32_MAX

struct ring {
    uint32_t head, tail; /* of the oldest, and behind the newest; they run on */
    struct asked items[RING];
};

struct lane {
    uint32_t operation; /* the present one; an even one acquires, an odd one releases */
    unsigned good, all; /* its answers */
    bool idle;
    struct floor_text set, removal;
};

struct loop {
    struct floor *floor;
    unsigned lane_count;
    struct lane *lanes;
    struct ring *rings;
    size_t used;
    char *output;                   /* room for a command of each lane */
    size_t sent[REDLOCK_MAX_NODES]; /* of it, to each wire */
    uint64_t cycles;
    unsigned busy; /* lanes that are not idle */
    bool ending;   /* what is held is released, nothing is begun */
};

static void append(struct loop *loop, const struct floor_text *text)
{
    memcpy(loop->output + loop->used, text->bytes, text->length);
    loop->used += text->length;
}

static bool ask(struct loop *loop, uint32_t which)
{
    struct lane *lane = &loop->lanes[which];

    lane->good = lane->all = 0;
    for (unsigned i = 0; i < loop->floor->n; i++) {
        struct ring *ring = &loop->rings[i];

        if (!loop->floor->wires[i].context)
            continue;
        if (ring->tail - ring->head == RING)
            return floor_fail(loop->floor, "a primary is tens of thousands of commands behind");
        ring->items[ring->tail++ % RING] = (struct asked){which, lane->operation};
    }
    append(loop, lane->operation % 2 == 0 ? &lane->set : &lane->removal);
    return true;
}

static bool acquire(struct loop *loop, uint32_t which)
{
    struct lane *lane = &loop->lanes[which];
    char token[FLOOR_TOKEN];

    floor_new_token(&loop->floor->random, token);
    memcpy(lane->set.bytes + lane->set.token_at, token, FLOOR_TOKEN);
    memcpy(lane->removal.bytes + lane->removal.token_at, token, FLOOR_TOKEN);
    return ask(loop, which);
}

static bool go_on(struct loop *loop, uint32_t which)
{
    struct lane *lane = &loop->lanes[which];

    lane->operation++;
    if (lane->operation % 2 != 0)
        return ask(loop, which);
    loop->cycles++;
    if (!loop->ending)
        return acquire(loop, which);
    lane->idle = true;
    loop->busy--;
    return true;
}

static bool answered(struct loop *loop, unsigned i)
{
    struct ring *ring = &loop->rings[i];
    const struct floor_wire *wire = &loop->floor->wires[i];
    struct asked asked = ring->items[ring->head++ % RING];
    struct lane *lane = &loop->lanes[asked.lane];

    if (asked.operation != lane->operation || lane->idle)
        return true; /* late: the lane is further */
    lane->all++;
    lane->good += lane->operation % 2 == 0 ? floor_is_ours(wire) : !floor_is_error(wire);
    if (lane->good >= loop->floor->quorum)
        return go_on(loop, asked.lane);
    if (lane->good + floor_up(loop->floor) - lane->all < loop->floor->quorum)
        return floor_fail(loop->floor, "a name of its own is not free");
    return true;
}

static bool receive(struct loop *loop, unsigned i)
{
    struct floor *floor = loop->floor;
    size_t length = floor_receive(floor, i);
    const char *at = floor->input;

    if (!floor->wires[i].context)
        return floor_fail(floor, "a connection broke");
    while (length > 0)
        if (floor_line(&floor->wires[i], &at, &length) && !answered(loop, i))
            return false;
    return true;
}

static bool send_some(struct loop *loop, unsigned i)
{
    const struct floor_wire *wire = &loop->floor->wires[i];
    size_t *sent = &loop->sent[i];
    ssize_t n;

    if (!wire->context || *sent == loop->used)
        return true;
    n = send(wire->fd, loop->output + *sent, loop->used - *sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        *sent += (size_t)n;
    return n > 0 || errno == EAGAIN || errno == EINTR ||
           floor_fail(loop->floor, "a connection broke");
}

/* Those that have not taken all of it. */
static unsigned collect_unsent(const struct loop *loop, struct pollfd fds[REDLOCK_MAX_NODES])
{
    unsigned count = 0;

    for (unsigned i = 0; i < loop->floor->n; i++)
        if (loop->floor->wires[i].context && loop->sent[i] < loop->used)
            fds[count++] = (struct pollfd){.fd = loop->floor->wires[i].fd, .events = POLLOUT};
    return count;
}

static bool await_room(const struct loop *loop, struct pollfd *fds, unsigned count)
{
    for (unsigned tries = 0; tries < FLOOR_PATIENCES; tries++) {
        if (poll(fds, count, FLOOR_PATIENCE_MS) > 0)
            return true;
        if (*loop->floor->bench->interrupted != 0)
            return false;
    }
    return floor_fail(loop->floor, "a connection isn't read");
}

static bool send_gathered(struct loop *loop)
{
    struct pollfd unsent[REDLOCK_MAX_NODES];
    unsigned count;

    memset(loop->sent, 0, sizeof loop->sent);
    do {
        for (unsigned i = 0; i < loop->floor->n; i++)
            if (!send_some(loop, i))
                return false;
        count = collect_unsent(loop, unsent);
        if (count > 0 && !await_room(loop, unsent, count))
            return false;
    } while (count > 0);
    loop->used = 0;
    return true;
}

static bool turn(struct loop *loop)
{
    struct floor *floor = loop->floor;

    if (floor_poll(floor) == 0)
        return false;
    for (unsigned i = 0; i < floor->n; i++)
        if (floor->fds[i].fd >= 0 && floor->fds[i].revents != 0 && !receive(loop, i))
            return false;
    return send_gathered(loop);
}

/* Counted are the cycles that end in time; the others are ended as well. */
static uint64_t run(struct loop *loop, int64_t duration_ns)
{
    int64_t end_ns = bench_now_ns() + duration_ns;
    uint64_t cycles;

    for (uint32_t i = 0; i < loop->lane_count; i++)
        if (!acquire(loop, i))
            return 0;
    loop->busy = loop->lane_count;
    if (!send_gathered(loop))
        return 0;
    while (bench_now_ns() < end_ns && *loop->floor->bench->interrupted == 0)
        if (!turn(loop))
            return 0;
    cycles = loop->cycles;
    loop->ending = true;
    while (loop->busy > 0)
        if (!turn(loop))
            return 0;
    return cycles;
}

static bool prepare(struct loop *loop)
{
    struct floor *floor = loop->floor;
    char key[FLOOR_KEY];

    loop->lanes = calloc(loop->lane_count, sizeof *loop->lanes);
    loop->rings = calloc(floor->n, sizeof *loop->rings);
    loop->output = malloc((size_t)loop->lane_count * 2 * FLOOR_TEXT);
    if (!loop->lanes || !loop->rings || !loop->output)
        return floor_fail(floor, "out of memory");
    for (unsigned i = 0; i < loop->lane_count; i++) {
        snprintf(key, sizeof key, "redlock-bench:%ld:lane:%u", (long)getpid(), i);
        floor_compose_set(&loop->lanes[i].set, key, LOOP_TTL_MS);
        floor_compose_removal(&loop->lanes[i].removal, key);
    }
    for (unsigned i = 0; i < floor->n; i++) {
        floor->fds[i].fd = floor->wires[i].fd;
        while (floor->wires[i].sent > floor->wires[i].got) {
            floor->wires[i].sent--;
            loop->rings[i].items[loop->rings[i].tail++ % RING] = (struct asked){0, NOBODY};
        }
    }
    return true;
}

/* What is still to be answered is owed, as after a round. */
static void settle(struct loop *loop)
{
    for (unsigned i = 0; loop->rings && i < loop->floor->n; i++) {
        loop->floor->wires[i].got = 0;
        loop->floor->wires[i].sent = loop->rings[i].tail - loop->rings[i].head;
    }
}

uint64_t floor_loop(struct floor *floor, unsigned lanes, int64_t duration_ns)
{
    struct loop loop = {.floor = floor, .lane_count = lanes};
    uint64_t cycles = 0;

    if (prepare(&loop))
        cycles = run(&loop, duration_ns);
    settle(&loop);
    free(loop.lanes);
    free(loop.rings);
    free(loop.output);
    return cycles;
}
