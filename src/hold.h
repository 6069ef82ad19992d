/*
 * What a lease rests on: which primaries keep it, until when, and what takes them away. The
 * part of lease.c that every kind of news may touch; nobody else includes this.
 */
#ifndef REDLOCK__HOLD_H
#define REDLOCK__HOLD_H

#include "lease.h"

/* The running operation is over. */
void redlock__hold_finish(struct redlock__lease *lease, int result);
/* The end of a hold, whatever the reason: keys go everywhere, said once. */
void redlock__hold_lose(struct redlock__lease *lease, int reason);

/* Held, or adopted: there is a counted set. */
bool redlock__hold_exists(const struct redlock__lease *lease);

/* The primaries in `nodes` keep the key for ttl_ms from the start of the present round. */
void redlock__hold_keep(struct redlock__lease *lease, uint32_t nodes, int64_t ttl_ms);
/* The deadline that follows from the counted set, or the cap. */
void redlock__hold_set_deadline(struct redlock__lease *lease);
/* No primary is relied on for longer than that. */
void redlock__hold_lower(struct redlock__lease *lease, int64_t deadline_ns);
/* Primaries leave the counted set for good. */
void redlock__hold_uncount(struct redlock__lease *lease, uint32_t nodes, int64_t now_ns);

#endif
