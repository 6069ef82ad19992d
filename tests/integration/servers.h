/*
 * Real redis-server processes for tests, each on a free loopback port, with nothing on disk unless
 * they are asked to be durable.
 *
 * One set per process. Everything fails the running test (ck_abort) that can't be done, so
 * callers check nothing. The processes die with the process that started them, whatever ends it.
 */
#ifndef SERVERS_H
#define SERVERS_H

#include <check.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SERVERS_MAX = 16
};

/* Waits until the condition holds; fails the test if that takes longer than ten seconds. */
#define AWAIT(condition)                                                                           \
    do {                                                                                           \
        int64_t give_up_ms_ = servers_now_ms() + 10000;                                            \
        int64_t pause_ns_ = 0;                                                                     \
        while (!(condition)) {                                                                     \
            ck_assert_msg(servers_now_ms() < give_up_ms_, "never: %s", #condition);                \
            servers_pause(&pause_ns_);                                                             \
        }                                                                                          \
    } while (0)

/* A clock for such bounds. */
int64_t servers_now_ms(void);
/* Between two looks. Short at first, as most of what is awaited takes no millisecond, then one. */
void servers_pause(int64_t *pause_ns);

/*
 * What later starts run: a flavour that tools/servers.sh knows, or for NULL, as at first, the
 * machine's redis-server. False, and nothing changes, if the cache doesn't have that flavour.
 */
bool servers_use(const char *flavour);
/* Starts n servers and waits until each answers. */
void servers_start(int n);
/* The same, with more arguments for each redis-server; NULL ends them. */
void servers_start_with(int n, const char *const *arguments);
/* The same as servers_start(), but what a server has answered to survives its death. */
void servers_start_durable(int n);
/* The same as servers_start(), but each has a wall clock of its own; right at first. */
void servers_start_with_clocks(int n);
/* Ends them all. Also when they are frozen or dead, or when there are none. */
void servers_stop(void);

int servers_port(int i);
const char *servers_uri(int i);        /* redis://127.0.0.1:port */
const char *const *servers_uris(void); /* all of them, in order */

void servers_kill(int i);   /* at once, without a goodbye */
void servers_revive(int i); /* on the same port, empty unless durable; waits until it answers */
void servers_freeze(int i); /* its connections stay, it does nothing */
void servers_thaw(int i);
const char *servers_directory(int i); /* where a durable one keeps its data */
void servers_empty(int i); /* a durable one, while it is dead: the next life starts with nothing */

/*
 * Of servers with clocks, alive or dead: what a clock shows outlives its server. A step keeps the
 * rate, a rate starts from what the clock shows. Parts per million faster than real time;
 * -1000000: it stands.
 */
void servers_clock_step(int i, int64_t ms);
void servers_clock_rate(int i, int64_t ppm);

/* Makes i a replica of a primary; waits until it has all the primary has. Later writes follow on
 * their own. Lasts until the replica is promoted or killed: it revives as a primary. */
void servers_replicate(int i, int of);
void servers_promote(int i); /* the replica becomes a primary, with what it has */

/*
 * Sends one command (arguments up to NULL) on a connection of its own and gives the reply as
 * text: a status, a number, a value; NULL for nil; "-..." for an error; the elements of an array
 * one a line. Valid until the next call.
 */
__attribute__((sentinel)) const char *servers_command(int i, const char *first, ...);

/* How often the server was asked `command` (lower case) since it started or since
 * servers_reset_counts(). */
long servers_count(int i, const char *command);
void servers_reset_counts(void);

/* How many of the running servers have the key. */
int servers_with_key(const char *key);

/* Endpoints where nobody answers, until servers_stop(). */
const char *servers_black_hole(void); /* accepts connections, then is silent */
const char *servers_refused(void);    /* refuses connections */

#endif
