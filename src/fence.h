/*
 * Fencing numbers. Pure.
 *
 * Each primary keeps a counter per name; a grant raises it and gives the number. The fencing token
 * is the largest number of the grants, once a quorum of the primaries has it as its counter while
 * the lock's key was there ("settled"). Why that only rises: docs/safety.md.
 *
 * A counter is a sorted set with one member, whose score is the number: an increment of it makes
 * none where there is none (ZADD XX INCR).
 *
 * One small key a primary besides, of the same kind: its score, the floor, is no less than any
 * number it ever gave, in any name. Its member is the base, a text that says from which number it
 * counts at least, and in which run of the server that was written. A primary whose base names
 * another run, or which has none, forgot its counters.
 */
#ifndef REDLOCK__FENCE_H
#define REDLOCK__FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

#define REDLOCK__FLOOR_KEY "redlock:floor"
#define REDLOCK__COUNTER_MEMBER "n"

/* Numbers in Lua, and scores, are exact to 2^53; what is above this was not made by us. */
#define REDLOCK__FENCE_MAX (INT64_C(1) << 52)

/* Of a name's counter: a week after its last grant. Text, being part of a script. */
#define REDLOCK__FENCE_TTL_MS "604800000"

enum {
    REDLOCK__BASE_LEN = 80 /* bytes of its text, final NUL included */
};

struct redlock__base {
    int64_t number;
    char run_id[REDLOCK_RUN_ID_LEN];
};

void redlock__base_format(const struct redlock__base *base, char text[REDLOCK__BASE_LEN]);
bool redlock__base_parse(const char *text, struct redlock__base *base);

/* A score as servers write it: digits or, some of them, "1.7e+12". False: it isn't a whole number
 * from 0 to REDLOCK__FENCE_MAX. */
bool redlock__fence_parse(const char *text, int64_t *number);

/*
 * A grant by transaction counted up counter and floor, which were there or not (counter 0: it
 * wasn't). Whether the counter is a number that may count as given: what was asked for at least,
 * and not above the floor, from where it would go on if it was lost.
 */
bool redlock__fence_reached(int64_t counter, int64_t floor, int64_t number);

/*
 * The token a set of grants would have, and which of them are settled at it already. numbers has
 * an entry for each primary; of those in `granted` none is below 1.
 */
int64_t redlock__fence_choose(const int64_t *numbers, uint32_t granted, uint32_t *settled);

#endif
