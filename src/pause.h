/*
 * When a lease that waits asks again: pauses of random length, whose upper end doubles with each
 * attempt, from the base to the cap.
 */
#ifndef REDLOCK__PAUSE_H
#define REDLOCK__PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "lease.h"

/* The upper end, now. */
int64_t redlock__pause_longest_ms(const struct redlock__lease *lease);

/* An attempt failed: WAITING for the next one. The last one is placed so that it can still answer
 * before the wait is over; false: there is no time for another. */
bool redlock__pause_begin(struct redlock__lease *lease, uint64_t *random, int64_t now_ns);

/* WAITING, and an attempt now would be in vain: the next pause, as after one; upper_half: of those
 * it could be. */
void redlock__pause_prolong(struct redlock__lease *lease, bool upper_half, uint64_t *random,
                            int64_t now_ns);

/* A foreign key on a primary lives for pttl_ms more (-1: for ever): don't sleep beyond that. */
void redlock__pause_cut(struct redlock__lease *lease, int64_t pttl_ms, uint64_t *random,
                        int64_t now_ns);

#endif
