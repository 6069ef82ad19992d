/*
 * Workers for a test, and what they told. One crew at a time; it uses the servers of servers.h.
 * Whatever can't be done fails the running test.
 */
#ifndef CREW_H
#define CREW_H

#include <check.h>
#include <jansson.h>

#include "servers.h"
#include "worker.h"

/* main() of a test, which is a worker's program as well. Its exit status. */
int crew_main(int argc, char **argv, Suite *(*suite)(void));

void crew_open(void);
/* Ends all workers; crew_records() stays until the next crew_open(). */
void crew_close(void);
struct workers *crew_workers(void);

/* A spec for the running servers, n of them, to be changed as a test likes; JSON text in `more` is
 * laid over it. Workers are numbered in the order of these calls. */
json_t *crew_spec(const char *worker, const char *role, int n, const char *more);
struct worker *crew_start(json_t *spec); /* takes it over */
/* Both in one, on n servers. */
struct worker *crew_actor(const char *worker, int n, const char *more);

/* A command in JSON, and its answer, to be freed. */
json_t *crew_do(struct worker *worker, const char *command);
/* The same; the rc, or "" . Valid until the next call. */
const char *crew_rc(struct worker *worker, const char *command);
/* The answer's truth or number under a key. */
bool crew_true(struct worker *worker, const char *command, const char *key);
int64_t crew_number(struct worker *worker, const char *command, const char *key);
/* Marks the servers, n of them, for fencing, by an actor of its own. */
void crew_mark(int n, const char *more);

/* What is in the history by now. A listener's copy, in order: an array; to be freed. */
json_t *crew_records(void);
/* How many records say so: JSON text of an object, of which all must be equal in the record. */
int crew_count(const char *like);

#endif
