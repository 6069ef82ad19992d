/*
 * Acquires and releases a lock over a network that costs nothing, inside a function of its own, so
 * that callgrind counts that alone: see check_cost.sh.
 *
 *     cost plain|unguarded|fenced|extend|loop ENDPOINT...
 *
 * loop: an event loop without threads, with several locks in flight. Says how many cycles were
 * counted, and how many system calls they made.
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network.h"
#include "redlock.h"

enum {
    CYCLES = 400,
    WARM = 800,
    LANES = 16,
    SAMPLE_MS = 5000
};

struct work {
    redlock_client *client;
    redlock_lock_options options;
    bool extend, loop;
    int to_begin, in_flight; /* of the loop */
};

/* Of the loop: takes and gives back a lock, again and again. */
struct lane {
    struct work *work;
    redlock_lock_options options;
    char key[8];
    bool held;
};

void measured(struct work *work);

static void check(int rc, const char *what)
{
    if (rc == REDLOCK_OK)
        return;
    fprintf(stderr, "cost: %s: %s\n", what, redlock_strerror(rc));
    exit(EXIT_FAILURE);
}

/* ---- one thread ---------------------------------------------------------------- */

static void cycle(const struct work *work)
{
    redlock_lock *lock;

    check(redlock_acquire(work->client, "cost", 4, &work->options, &lock), "acquire");
    if (work->extend)
        check(redlock_extend(lock, 0), "extend");
    check(redlock_release(lock), "release");
}

/* ---- an event loop ------------------------------------------------------------- */

static void begin(struct lane *lane)
{
    redlock_lock *lock;

    if (lane->work->to_begin == 0)
        return;
    lane->work->to_begin--;
    lane->work->in_flight++;
    lane->held = false;
    check(redlock_start_acquire(lane->work->client, lane->key, strlen(lane->key), &lane->options,
                                &lock),
          "acquire");
}

static void on_event(void *context, redlock_lock *lock, redlock_event event)
{
    struct lane *lane = context;

    if (event != REDLOCK_EVENT_DONE)
        return;
    check(redlock_poll_result(lock), "loop");
    if (!lane->held) {
        lane->held = true;
        check(redlock_start_release(lock), "release");
        return;
    }
    check(redlock_release(lock), "release");
    lane->work->in_flight--;
    begin(lane);
}

static void loop(struct work *work, int cycles)
{
    static struct lane lanes[LANES];

    work->to_begin = cycles;
    for (int i = 0; i < LANES; i++) {
        lanes[i].work = work;
        lanes[i].options = work->options;
        lanes[i].options.on_event = on_event;
        lanes[i].options.event_context = &lanes[i];
        (void)snprintf(lanes[i].key, sizeof lanes[i].key, "cost%d", i);
        begin(&lanes[i]);
    }
    while (work->in_flight > 0) {
        struct pollfd fd = {.fd = redlock_fd(work->client), .events = POLLIN};

        if (!network_is_instead())
            (void)poll(&fd, 1, (int)redlock_next_timeout_ms(work->client));
        check(redlock_process(work->client), "process");
    }
}

/* ---- what is counted ------------------------------------------------------------- */

static void cycles(struct work *work, int count)
{
    if (work->loop) {
        loop(work, count);
        return;
    }
    for (int i = 0; i < count; i++)
        cycle(work);
}

__attribute__((noinline)) void measured(struct work *work)
{
    cycles(work, CYCLES);
}

static struct work work_of(int argc, char **argv)
{
    struct work work = {.extend = strcmp(argv[1], "extend") == 0,
                        .loop = strcmp(argv[1], "loop") == 0};
    redlock_options options;

    redlock_options_init(&options);
    options.nodes = (const char *const *)argv + 2;
    options.node_count = (size_t)argc - 2;
    options.external_loop = work.loop;
    if (strcmp(argv[1], "unguarded") == 0)
        options.restart_guard_ms = 0;
    check(redlock_client_new(&options, &work.client, NULL, 0), "client");
    redlock_lock_options_init(&work.options);
    work.options.ttl_ms = 30000;
    work.options.wait_ms = 60000;
    work.options.fence = strcmp(argv[1], "fenced") == 0;
    return work;
}

int main(int argc, char **argv)
{
    struct network_calls calls;
    struct work work;

    if (argc < 3) {
        fprintf(stderr, "usage: cost plain|unguarded|fenced|extend|loop ENDPOINT...\n");
        return 64;
    }
    work = work_of(argc, argv);
    cycles(&work, WARM);
    /* Once a second the primaries are asked for the time; that just happened. */
    (void)network_saw_sample();
    for (int i = 0; i < SAMPLE_MS && !network_saw_sample(); i++) {
        cycles(&work, LANES);
        (void)poll(NULL, 0, 1);
    }
    (void)poll(NULL, 0, 50); /* and was answered */
    cycles(&work, LANES);
    (void)poll(NULL, 0, 50);
    network_instead(true);
    cycles(&work, LANES); /* what was left to read */
    network_instead(true);
    measured(&work);
    calls = network_calls();
    printf("cycles %d\nsends %.2f\nreceives %.2f\npolls %.2f\n", CYCLES,
           (double)calls.sends / CYCLES, (double)calls.receives / CYCLES,
           (double)calls.polls / CYCLES);
    network_instead(false);
    redlock_client_free(work.client);
    return EXIT_SUCCESS;
}
