/*
 * The floor: the least code that could do the same work. Raw non-blocking sockets to each primary,
 * commands composed once per name, one send and one recv per primary and round, poll in between,
 * back at the quorum; late answers are read with the next round. No time limits, no counted set, no
 * clean-up: it is what the network and the kernel cost, not a lock to use.
 */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

struct floor;

/* Connections of its own to the first n primaries; to those that refuse it, none, as long as a
 * quorum is left. NULL: said by bench_fail(). */
struct floor *floor_open(struct bench *bench, unsigned n);
/* Descriptors for `count` floors at a time: raises the limit of them if it has to. False: said. */
bool floor_room(struct bench *bench, unsigned count, unsigned n);
void floor_close(struct floor *floor);

/* SET key token NX PX ttl everywhere, back at the quorum-th answer that is ours. False: it was not
 * ours on a quorum (the rest has been removed), or a connection failed. A new token each time. */
bool floor_acquire(struct floor *floor, const char *key, int64_t ttl_ms);
/* Compare and delete, by script, everywhere; back at the quorum-th answer. */
bool floor_release(struct floor *floor);
/* Compare and set the time again, by script; back at the quorum-th that is ours. */
bool floor_extend(struct floor *floor);

/* The same with a fencing number: one script that sets the key and counts. */
bool floor_acquire_fenced(struct floor *floor, const char *key, int64_t ttl_ms);

/* Many leases in flight over the same sockets, by one thread: `lanes` keys, each acquired and
 * released again and again, what is to be sent written once per turn and primary. Runs for
 * duration_ns; returns the cycles done, 0: a connection failed. */
uint64_t floor_loop(struct floor *floor, unsigned lanes, int64_t duration_ns);

#endif
