/*
 * A worker is a process that takes locks, as a user's program would: it can be frozen and killed.
 * It is this same program, started by worker_start() and told by one JSON object what to do. What
 * it does goes into the history, stamped by itself before each call and after each return.
 *
 * Roles
 *   contender  takes one of its names, works in it, lets go, again and again
 *   prober     one try each 100 ms on a name of its own: is the lock available?
 *   actor      does what it is told, one command at a time: for exact schedules
 *
 * Spec (defaults in brackets)
 *   worker "w1", number 1, role, group "P"; nodes ["redis://127.0.0.1:..", ..]; names [..]
 *   ttl_ms 2000, max_ttl_ms [ttl_ms], wait_ms 1000, node_timeout_ms [100], drift_ppm [10000],
 *   guard_ms [-1: by itself], quorum [0], replicas [0], fence [true], prefix
 *   hold_ms [5, 50] (a contender's), margin_ms [ttl/5: leave while so much is left]
 *   renew [0.2: this part of the holds is renewed, and three ttls long at most]
 *   every_ms [100] (a prober's), seed
 *   blind [false: writes without asking is_held(), as K7 wants]
 *   peer ["program", "argument", ..]: another client, by the line protocol of docs/harness.md
 *   control "K2": a weakened client; the program is then redlock-chaos-control
 *   clock "path": a clock plan, for this worker's own clocks
 *   limits {nofile: n}
 *
 * Commands to an actor, one JSON object a line, each answered by one line:
 *   {do: acquire, name, ttl_ms, wait_ms, renew, fence}  the return record, see history.h; plus
 * lock: try {do: extend, lock, ttl_ms}  {do: release, lock}     the return record {do: check, lock}
 * {held, remaining_ms, deadline_ns, margin} {do: write, lock, blind} both cells: {plain: {..},
 * fenced: {..}} {do: enter, lock} {do: leave, lock}                  {ok} {do: poll, name,
 * every_ms, until_ms, ttl_ms}         tries until it has it: the return record {do: health} {nodes:
 * [{standing, text, step_ms, ppm}]} {do: init, ...}                                      {rc, text}
 * To all: {do: stop}: lets go of what it holds and ends; {do: pause}, {do: resume}: contenders and
 * probers begin nothing new in between.
 */
#ifndef CHAOS_WORKER_H
#define CHAOS_WORKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct history;
struct workers;
struct worker;

/* All workers of a run; a thread of it reads what they tell, into the history. NULL: errno. */
struct workers *workers_new(struct history *history);
/* Kills what still runs. */
void workers_free(struct workers *workers);
/* Of struct shared; see shared.h. */
int workers_shared_fd(const struct workers *workers);

/* Takes the spec over. NULL: errno, and in words worker_error(). Returns when the worker has told
 * that it is ready: connected to its nodes, or has tried for a second. To be called by a thread
 * that lives as long as the run, such as main()'s: workers die with the thread that started them.
 */
struct worker *worker_start(struct workers *workers, json_t *spec);
/* Why the last worker_start() failed; "" if it did not. */
const char *worker_error(const struct workers *workers);
pid_t worker_pid(const struct worker *worker);
const char *worker_name(const struct worker *worker);

/* An actor's command; takes it over. worker_do() waits for the answer (to be freed; NULL: none
 * within timeout_ms, or the worker is gone). worker_ask() and worker_answer() do it in two halves.
 */
json_t *worker_do(struct worker *worker, json_t *command, int timeout_ms);
int worker_ask(struct worker *worker, json_t *command);
json_t *worker_answer(struct worker *worker, int timeout_ms);

void worker_freeze(struct worker *worker); /* SIGSTOP, with its peer; stopped at return */
void worker_thaw(struct worker *worker);
void worker_kill(struct worker *worker); /* SIGKILL; gone at return, its witnesses cleared */
/* {do: stop}, and waits; killed after timeout_ms. 0: it left by itself, in order. */
int worker_stop(struct worker *worker, int timeout_ms);
bool worker_runs(struct worker *worker);

/* main() of a worker: argv[2] is the spec, descriptors 3 the history, 4 shared, 5 control. */
int worker_main(const char *spec);

#endif
