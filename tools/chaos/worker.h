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
 *   control "K1": a weakened client (control.c); the program is then redlock-chaos-control, beside
 *     this one or where REDLOCK_CHAOS_CONTROL says
 *   clock "path": a clock plan, for this worker's own clocks
 *   limits {nofile: n}
 *
 * Commands to an actor, one JSON object a line, each answered by one line; what can't be done is
 * answered by {error}. A lock is named by the number of the try that got it.
 *   {do: acquire, name, ttl_ms, wait_ms, renew, fence}  the return record (history.h), and `lock`
 *   {do: poll, name, every_ms, until_ms, ttl_ms}        tries until it has it: the last of those
 *   {do: extend, lock, ttl_ms}  {do: release, lock}     the return record
 *   {do: check, lock}         {held, remaining_ms, deadline_ns, margin}
 *   {do: write, lock, blind}  {plain: {sequence, accepted, stale}, fenced: {..}}; null for a cell
 *                             not written: not held, or no fence for it
 *   {do: enter, lock}         {ok, other}
 *   {do: leave, lock}         {ok, lost_update}
 *   {do: health}              {nodes: [{standing, text, ready, counts, step_ms, ppm}]}
 *   {do: init, no_leases_out [true], retire, replace, fence_base}  {rc, text, wait_ms, node[]}
 *
 * To all: {do: stop}: lets go of what it holds and ends, without an answer; {do: pause} and
 * {do: resume}, answered {ok}: contenders and probers begin nothing new in between.
 *
 * A worker's answer may be there before its records are in the history, which another thread reads;
 * when it is gone, all of them are.
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
 * that it is ready: connected to its nodes, or has tried for a second. To be called by main()'s
 * thread: workers die with the thread that started them, not only with the process. */
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
