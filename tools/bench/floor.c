/*
 * See floor.h. Every answer that is expected is one line (+OK, :1, :0, $-1), so that counting lines
 * tells which command is answered: the newest when as many have come as were sent. Commands are
 * encoded when the name changes; each cycle only puts a new token into them.
 */
#include "floor_parts.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "dial.h"

enum {
    OTHER_DESCRIPTORS = 128 /* the client's, its own servers', standard streams */
};

static const char removal_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
static const char extension_script[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) "
    "else return 0 end";
static const char fenced_script[] =
    "if redis.call('set',KEYS[1],ARGV[1],'NX','PX',ARGV[2]) then return "
    "redis.call('incr',KEYS[2]) else return false end";

/* ---- commands -------------------------------------------------------------- */

void floor_text_begin(struct floor_text *text, unsigned arguments)
{
    text->length = (size_t)snprintf(text->bytes, sizeof text->bytes, "*%u\r\n", arguments);
}

void floor_text_put(struct floor_text *text, const char *argument)
{
    text->length += (size_t)snprintf(text->bytes + text->length, sizeof text->bytes - text->length,
                                     "$%zu\r\n%s\r\n", strlen(argument), argument);
}

void floor_text_number(struct floor_text *text, int64_t number)
{
    char digits[24];

    snprintf(digits, sizeof digits, "%lld", (long long)number);
    floor_text_put(text, digits);
}

void floor_text_token(struct floor_text *text)
{
    char zeros[FLOOR_TOKEN + 1];

    memset(zeros, '0', FLOOR_TOKEN);
    zeros[FLOOR_TOKEN] = '\0';
    floor_text_put(text, zeros);
    text->token_at = text->length - FLOOR_TOKEN - 2;
}

void floor_compose_set(struct floor_text *text, const char *key, int64_t ttl_ms)
{
    floor_text_begin(text, 6);
    floor_text_put(text, "SET");
    floor_text_put(text, key);
    floor_text_token(text);
    floor_text_put(text, "NX");
    floor_text_put(text, "PX");
    floor_text_number(text, ttl_ms);
}

void floor_compose_removal(struct floor_text *text, const char *key)
{
    floor_text_begin(text, 5);
    floor_text_put(text, "EVAL");
    floor_text_put(text, removal_script);
    floor_text_put(text, "1");
    floor_text_put(text, key);
    floor_text_token(text);
}

static void compose_extension(struct floor_text *text, const char *key, int64_t ttl_ms)
{
    floor_text_begin(text, 6);
    floor_text_put(text, "EVAL");
    floor_text_put(text, extension_script);
    floor_text_put(text, "1");
    floor_text_put(text, key);
    floor_text_token(text);
    floor_text_number(text, ttl_ms);
}

static void counter_name(const char *key, char name[FLOOR_KEY + 8])
{
    snprintf(name, FLOOR_KEY + 8, "%s:count", key);
}

static void compose_fenced(struct floor_text *text, const char *key, int64_t ttl_ms)
{
    char counter[FLOOR_KEY + 8];

    counter_name(key, counter);
    floor_text_begin(text, 7);
    floor_text_put(text, "EVAL");
    floor_text_put(text, fenced_script);
    floor_text_put(text, "2");
    floor_text_put(text, key);
    floor_text_put(text, counter);
    floor_text_token(text);
    floor_text_number(text, ttl_ms);
}

/* xorshift64*: cheap, and never the same twice in a run. */
void floor_new_token(uint64_t *random, char token[FLOOR_TOKEN])
{
    static const char digits[] = "0123456789abcdef";

    for (unsigned half = 0; half < 2; half++) {
        uint64_t x = *random, bits;

        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        *random = x;
        bits = x * UINT64_C(2685821657736338717);
        for (unsigned i = 0; i < FLOOR_TOKEN / 2; i++, bits >>= 4)
            token[half * FLOOR_TOKEN / 2 + i] = digits[bits & 15];
    }
}

static void patch(struct floor_text *text, const char token[FLOOR_TOKEN])
{
    memcpy(text->bytes + text->token_at, token, FLOOR_TOKEN);
}

/* ---- connections ------------------------------------------------------------- */

bool floor_fail(struct floor *floor, const char *why)
{
    if (!floor->failed && *floor->bench->interrupted == 0)
        bench_fail(floor->bench, "the floor: %s", why);
    floor->failed = true;
    return false;
}

void floor_drop(struct floor *floor, unsigned i)
{
    struct floor_wire *wire = &floor->wires[i];

    if (wire->context)
        redisFree(wire->context);
    wire->context = NULL;
    wire->fd = -1;
    floor->fds[i].fd = -1;
}

unsigned floor_up(const struct floor *floor)
{
    unsigned up = 0;

    for (unsigned i = 0; i < floor->n; i++)
        up += floor->wires[i].context != NULL;
    return up;
}

static void connect_wire(struct floor *floor, unsigned i, char *problem, size_t size)
{
    struct floor_wire *wire = &floor->wires[i];
    int on = 1;

    floor->fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    wire->fd = -1;
    wire->context = dial(floor->bench, i, problem, size);
    if (!wire->context)
        return;
    wire->fd = wire->context->fd;
    (void)setsockopt(wire->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a path has none */
}

bool floor_room(struct bench *bench, unsigned count, unsigned n)
{
    rlim_t need = (rlim_t)count * n + OTHER_DESCRIPTORS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= need)
        return true; /* or it is found out */
    if (limit.rlim_max < need)
        return bench_fail(bench,
                          "%u floors with %u connections each need %llu descriptors, and at most "
                          "%llu are allowed (ulimit -Hn): take fewer --workers",
                          count, n, (unsigned long long)need, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = need;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0 ||
           bench_fail(bench, "%llu descriptors cannot be had: %s", (unsigned long long)need,
                      strerror(errno));
}

struct floor *floor_open(struct bench *bench, unsigned n)
{
    struct floor *floor = calloc(1, sizeof *floor);
    char problem[256] = "";

    if (!floor) {
        bench_fail(bench, "out of memory");
        return NULL;
    }
    floor->bench = bench;
    floor->n = n;
    floor->quorum = n / 2 + 1;
    floor->random = (uint64_t)bench_now_ns() ^ (uint64_t)(uintptr_t)floor << 16 ^ 1;
    for (unsigned i = 0; i < n; i++)
        connect_wire(floor, i, problem, sizeof problem);
    if (floor_up(floor) >= floor->quorum)
        return floor;
    bench_fail(bench, "the floor cannot connect to enough primaries: %s", problem);
    floor_close(floor);
    return NULL;
}

/* ---- answers ------------------------------------------------------------------- */

int floor_poll(struct floor *floor)
{
    for (unsigned tries = 0; tries < FLOOR_PATIENCES; tries++) {
        int ready = poll(floor->fds, floor->n, FLOOR_PATIENCE_MS);

        if (ready > 0)
            return ready;
        if (ready < 0 && errno != EINTR)
            break;
        if (*floor->bench->interrupted != 0)
            return 0;
    }
    floor_fail(floor, "too few primaries answer");
    return 0;
}

size_t floor_receive(struct floor *floor, unsigned i)
{
    ssize_t n = recv(floor->wires[i].fd, floor->input, sizeof floor->input, MSG_DONTWAIT);

    if (n > 0)
        return (size_t)n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    floor_drop(floor, i);
    return 0;
}

bool floor_line(struct floor_wire *wire, const char **at, size_t *length)
{
    const char *end = memchr(*at, '\n', *length);
    size_t part = end ? (size_t)(end + 1 - *at) : *length;

    for (size_t i = 0; i < part && wire->heads < sizeof wire->head; i++)
        wire->head[wire->heads++] = (*at)[i];
    *at += part;
    *length -= part;
    if (!end)
        return false;
    wire->heads = 0;
    wire->got++;
    return true;
}

/* ---- rounds ---------------------------------------------------------------------- */

struct tally {
    unsigned asked, ours, others;
};

static void send_all(struct floor *floor, const struct floor_text *text, struct tally *tally)
{
    for (unsigned i = 0; i < floor->n; i++) {
        struct floor_wire *wire = &floor->wires[i];

        if (!wire->context)
            continue;
        if (send(wire->fd, text->bytes, text->length, MSG_DONTWAIT | MSG_NOSIGNAL) !=
            (ssize_t)text->length) { /* broken, or it hasn't read for thousands of commands */
            floor_drop(floor, i);
            continue;
        }
        wire->sent++;
        floor->fds[i].fd = wire->fd;
        tally->asked++;
    }
}

static void receive(struct floor *floor, unsigned i, bool any, struct tally *tally)
{
    struct floor_wire *wire = &floor->wires[i];
    size_t length = floor_receive(floor, i);
    const char *at = floor->input;

    if (!wire->context)
        tally->others++;
    while (length > 0) {
        if (!floor_line(wire, &at, &length) || wire->got != wire->sent)
            continue;
        floor->fds[i].fd = -1;
        if (any ? !floor_is_error(wire) : floor_is_ours(wire))
            tally->ours++;
        else
            tally->others++;
    }
}

/* Back at the `need`-th good answer; false: so many will not come. any: all but errors are good. */
static bool run_round(struct floor *floor, const struct floor_text *text, unsigned need, bool any)
{
    struct tally tally = {0};

    send_all(floor, text, &tally);
    if (tally.asked < need && floor_up(floor) < floor->quorum)
        return floor_fail(floor, "too few connections are left");
    while (tally.ours < need) {
        if (tally.asked - tally.others < need)
            return false;
        if (floor_poll(floor) == 0)
            return false;
        for (unsigned i = 0; i < floor->n; i++)
            if (floor->fds[i].fd >= 0 && floor->fds[i].revents != 0)
                receive(floor, i, any, &tally);
    }
    return true;
}

/* What is still to come is read, so that closing doesn't reset a connection under a command. */
static void drain(struct floor *floor)
{
    int64_t end_ns = bench_now_ns() + FLOOR_PATIENCE_MS * INT64_C(1000000);
    struct tally ignored = {0};
    unsigned owed;

    do {
        owed = 0;
        for (unsigned i = 0; i < floor->n; i++) {
            struct floor_wire *wire = &floor->wires[i];

            floor->fds[i].fd = wire->context && wire->got < wire->sent ? wire->fd : -1;
            owed += floor->fds[i].fd >= 0;
        }
        if (owed > 0 && poll(floor->fds, floor->n, FLOOR_PATIENCE_MS / 10) > 0)
            for (unsigned i = 0; i < floor->n; i++)
                if (floor->fds[i].fd >= 0 && floor->fds[i].revents != 0)
                    receive(floor, i, true, &ignored);
    } while (owed > 0 && bench_now_ns() < end_ns);
}

/* The counter has no ttl. */
static void forget_counter(struct floor *floor)
{
    char counter[FLOOR_KEY + 8];

    if (!floor->counts)
        return;
    floor->counts = false;
    counter_name(floor->key, counter);
    floor_text_begin(&floor->set, 2);
    floor_text_put(&floor->set, "DEL");
    floor_text_put(&floor->set, counter);
    run_round(floor, &floor->set, floor->quorum, true);
    floor->key[0] = '\0';
}

void floor_close(struct floor *floor)
{
    if (!floor)
        return;
    forget_counter(floor);
    drain(floor);
    for (unsigned i = 0; i < floor->n; i++)
        floor_drop(floor, i);
    free(floor);
}

/* ---- the lock --------------------------------------------------------------------- */

static bool prepare(struct floor *floor, const char *key, int64_t ttl_ms)
{
    if (ttl_ms == floor->ttl_ms && strcmp(key, floor->key) == 0)
        return true;
    if (strlen(key) >= FLOOR_KEY)
        return floor_fail(floor, "a name is too long");
    forget_counter(floor);
    strcpy(floor->key, key);
    floor->ttl_ms = ttl_ms;
    floor_compose_set(&floor->set, key, ttl_ms);
    floor_compose_removal(&floor->removal, key);
    compose_fenced(&floor->fenced, key, ttl_ms);
    compose_extension(&floor->extension, key, ttl_ms);
    return true;
}

static bool acquire(struct floor *floor, struct floor_text *text)
{
    floor_new_token(&floor->random, floor->token);
    patch(text, floor->token);
    patch(&floor->removal, floor->token);
    if (run_round(floor, text, floor->quorum, false))
        return true;
    if (!floor->failed)
        floor_release(floor);
    return false;
}

bool floor_acquire(struct floor *floor, const char *key, int64_t ttl_ms)
{
    return prepare(floor, key, ttl_ms) && acquire(floor, &floor->set);
}

bool floor_acquire_fenced(struct floor *floor, const char *key, int64_t ttl_ms)
{
    if (!prepare(floor, key, ttl_ms))
        return false;
    floor->counts = true;
    return acquire(floor, &floor->fenced);
}

bool floor_extend(struct floor *floor)
{
    patch(&floor->extension, floor->token);
    return run_round(floor, &floor->extension, floor->quorum, false);
}

bool floor_release(struct floor *floor)
{
    return run_round(floor, &floor->removal, floor->quorum, true);
}
