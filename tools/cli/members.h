/* The primaries as members: whose votes count, why or why not, and what their clocks do. */
#ifndef CLI_MEMBERS_H
#define CLI_MEMBERS_H

#include <stdio.h>

#include "redlock.h"
#include "session.h"
#include "text.h"

struct members {
    redlock_node_health nodes[REDLOCK_MAX_NODES];
    size_t count;
};

/* As they are known now. */
void members_read(const struct session *session, struct members *members);

/* The same, when each has told what it is or cannot be reached: after a connect timeout and an
 * answer's time at most. */
void members_wait(const struct session *session, struct members *members);

/* How many votes are needed, as far as the options say. */
size_t members_quorum(const struct session *session);

/* How many are connected and count. */
size_t members_counting(const struct members *members);

/* Until `quorum` of those connected count, if nothing else happens; 0: they do; -1: not by waiting.
 */
int64_t members_wait_ms(const struct members *members, size_t quorum);

/* 1 if some do not go together with the rest, or with the options. */
int members_misfit(const struct members *members);

/* Two lines, three with --verbose: standing, clock, run. Of one that is not connected: nothing. */
void members_print(FILE *stream, const struct cli_args *args, const redlock_node_health *node);

/* All of it, into an object that is open. */
void members_json(struct json *json, const redlock_node_health *node);

#endif
