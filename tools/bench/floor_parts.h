/* What floor.c and floor_loop.c share. */
#ifndef BENCH_FLOOR_PARTS_H
#define BENCH_FLOOR_PARTS_H

#include <hiredis/hiredis.h>
#include <poll.h>

#include "floor.h"

enum {
    FLOOR_TOKEN = 32,    /* hexadecimal digits, as many as the library's */
    FLOOR_KEY = 256,     /* bytes of a name, final NUL included */
    FLOOR_TEXT = 2048,   /* of a command */
    FLOOR_INPUT = 16384, /* of one recv */
    FLOOR_PATIENCE_MS = 1000,
    FLOOR_PATIENCES = 10 /* how many of those without an answer make a failure */
};

/* A command, encoded. What changes is the token. */
struct floor_text {
    size_t length, token_at;
    char bytes[FLOOR_TEXT];
};

struct floor_wire {
    redisContext *context; /* NULL: it couldn't be had, or is broken */
    int fd;
    uint64_t sent, got; /* commands, and answers, each of which is one line */
    unsigned heads;     /* how much of `head` is read of the present line */
    char head[2];       /* its first bytes say it all: + :1 :0 $-1 -ERR */
};

struct floor {
    struct bench *bench;
    unsigned n, quorum;
    bool failed; /* which was said */
    struct floor_wire wires[REDLOCK_MAX_NODES];
    struct pollfd fds[REDLOCK_MAX_NODES]; /* fd -1: not waited for */
    uint64_t random;

    char key[FLOOR_KEY]; /* that the commands are for */
    int64_t ttl_ms;
    bool counts; /* there is a counter on the primaries */
    char token[FLOOR_TOKEN];
    struct floor_text set, removal, fenced, extension;
    char input[FLOOR_INPUT];
};

/* Composing: the number of arguments, then each. */
void floor_text_begin(struct floor_text *text, unsigned arguments);
void floor_text_put(struct floor_text *text, const char *argument);
void floor_text_number(struct floor_text *text, int64_t number);
void floor_text_token(struct floor_text *text); /* room for one */
void floor_compose_set(struct floor_text *text, const char *key, int64_t ttl_ms);
void floor_compose_removal(struct floor_text *text, const char *key);

void floor_new_token(uint64_t *random, char token[FLOOR_TOKEN]);

/* Drops the connection. What is left may be enough. */
void floor_drop(struct floor *floor, unsigned i);
unsigned floor_up(const struct floor *floor);
/* Says it once; returns false. */
bool floor_fail(struct floor *floor, const char *why);

/* Waits for input. Returns the number of readable ones, 0: leave, which is said if it is a failure.
 */
int floor_poll(struct floor *floor);
/* All that is there, up to FLOOR_INPUT; 0: the wire is gone. */
size_t floor_receive(struct floor *floor, unsigned i);
/* The next line's end: consumes bytes of *at, and returns true when a line is complete. */
bool floor_line(struct floor_wire *wire, const char **at, size_t *length);

static inline bool floor_is_ours(const struct floor_wire *wire)
{
    return wire->head[0] == '+' || (wire->head[0] == ':' && wire->head[1] != '0');
}

static inline bool floor_is_error(const struct floor_wire *wire)
{
    return wire->head[0] == '-';
}

#endif
