/*
 * The history of a run: one JSON object a line, in the order in which they came to the one writer.
 * Verdicts come from this file alone (analysis.h), during a run and long after it.
 *
 * Every record has "i" (its number, from 0), "type" and "t" (ns of CLOCK_MONOTONIC, which all
 * processes of the machine share; taken where the thing happened). Names of keys are text. Nodes
 * are numbered from 1. A node's "owner" is the first 16 characters of the value of a lock's key.
 *
 * type      fields besides i, t, type
 * run       wall_ns seed args[] scenario title mode runtime server[] nodes quorum ttl_ms max_ttl_ms
 *           drift_ppm guard_ms node_timeout_ms version names[] control fenced
 * phase     name: from now on. The last one is "end"
 * worker    worker number role(contender|prober|actor) group pid names[]
 *           number: what the witness knows it by; without it, its place among these records
 * gone      worker how(left|killed|failed) text
 * invoke    worker op(acquire|extend|release) try name ttl_ms wait_ms fence renew
 *           try: the attempt's number within the worker; extend and release name the acquire's
 * return    worker op try name rc owner fence validity_ms deadline_ns attempts node[]
 *           rc: ok busy no_quorum wait_deadline expired lost cancelled misconfigured error
 *           deadline_ns: the end of the lease as the client claims it, on CLOCK_MONOTONIC
 *           node[]: {node vote us text}, in the words of redlock_vote_name(); only what is not ""
 * event     worker try event(renewed|failing|lost) deadline_ns
 * check     worker try held: whenever is_held() is seen to change, or after a freeze
 * enter     worker try name ok other: the clock-free witness, see shared.h
 * leave     worker try name ok lost_update
 * write     worker try name fenced fence sequence accepted stale believed: to the guarded resource
 *           believed: is_held() said so just before
 * count     worker and all counters of redlock_stats; at the worker's end
 * hygiene   worker(or "harness") when(begin|end) fds threads rss_kb
 * key       node name owner when_ms: a lock's key seen there, and when it expires by that node's
 *           wall clock
 * keygone   node name how(del|expired|evicted|flushed) owner
 *           owner: whose key is there just after a removal, if there is one
 * node      node state(up|down|frozen|thawed|cut) run_id kept: kept false: came up without data
 * clock     node mono_ns wall_ns rate_ppb: from mono_ns on its wall clock is
 *           wall_ns + (t - mono_ns) * (1 + rate_ppb / 10^9)
 * fault     fault(number) action state(start|stop) nodes[] links[] params{} requested_ns verified
 *           text
 *           t: when it was in effect. verified false: it did not take.
 *           action "freeze-worker" has params {worker}; without it, all are taken to be frozen
 * link      link what n: the proxy's own account, when something happened to a connection
 * measure   name phase value: found out by the scenario itself
 * reason    node phase word: at least one call that began or returned in that phase (without one:
 *           in the run) must say of that node a text with this word in it
 * expect    metric phase op(eq|ne|ge|le|gt|lt) value kind(safety|liveness|effect) text
 *           what must come out; metrics: analysis.h. effect: else the run proves nothing
 * error     text: the harness could not do something; the run is inconclusive
 * end       interrupted
 */
#ifndef CHAOS_HISTORY_H
#define CHAOS_HISTORY_H

#include <jansson.h>
#include <stdint.h>

struct history;

/* Makes the file, which must not exist. NULL: errno. */
struct history *history_create(const char *path);

/* Any thread. Takes the record over; gives it "i", and "t" if it has none. */
void history_put(struct history *history, json_t *record);

/* Called with each record, by whoever puts it, one at a time. Set before the first. */
typedef void history_listener(void *context, const json_t *record);
void history_listen(struct history *history, history_listener *listener, void *context);

/* 0, or the errno of the first write that failed; later ones are not tried. */
int history_error(struct history *history);
/* Flushes, closes, frees. 0 or an errno. */
int history_close(struct history *history);

/* Now, on CLOCK_MONOTONIC, never bent. */
int64_t history_now(void);

#endif
