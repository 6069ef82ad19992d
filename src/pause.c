/*
 * See pause.h.
 */
#include "pause.h"

#include <assert.h>

#include "random.h"
#include "validity.h"

enum {
    MOST_TRIES = 40 /* that make pauses longer: from a millisecond to the longest cap */
};

int64_t redlock__pause_longest_ms(const struct redlock__lease *lease)
{
    int64_t cap = lease->terms->retry_cap_ms, pause_ms = lease->terms->retry_base_ms;

    for (uint32_t i = 0; i < lease->tries && pause_ms < cap; i++)
        pause_ms = redlock__min(cap, pause_ms > cap / 2 ? cap : 2 * pause_ms);
    return pause_ms;
}

/* base <= pause <= cap, drawn anew each time, and not below least_ms; the upper end doubles. */
static int64_t draw(const struct redlock__lease *lease, int64_t least_ms, uint64_t *random)
{
    int64_t spread = redlock__max(redlock__pause_longest_ms(lease) - least_ms, 0) + 1;

    return redlock__ms_to_ns(least_ms + (int64_t)(redlock__random(random) % (uint64_t)spread));
}

static void grow(struct redlock__lease *lease)
{
    if (lease->tries < MOST_TRIES)
        lease->tries++;
}

bool redlock__pause_begin(struct redlock__lease *lease, uint64_t *random, int64_t now_ns)
{
    int64_t base = lease->terms->retry_base_ms;
    int64_t round_trip = redlock__add(now_ns, -lease->round.start_ns);
    int64_t base_end = redlock__add(now_ns, redlock__ms_to_ns(base));
    int64_t last = lease->wait_until_ns;

    if (last != REDLOCK__NEVER)
        last -= redlock__max(2 * round_trip, REDLOCK__MS);
    if (lease->once || last < base_end)
        return false;
    grow(lease);
    lease->state = REDLOCK__LEASE_WAITING;
    lease->retry_ns = redlock__add(now_ns, draw(lease, base, random));
    lease->retry_ns = redlock__min(lease->retry_ns, last);
    return true;
}

void redlock__pause_prolong(struct redlock__lease *lease, bool upper_half, uint64_t *random,
                            int64_t now_ns)
{
    int64_t least = lease->terms->retry_base_ms;

    assert(lease->state == REDLOCK__LEASE_WAITING);
    grow(lease);
    if (upper_half)
        least = redlock__max(least, redlock__pause_longest_ms(lease) / 2);
    lease->retry_ns = redlock__add(now_ns, draw(lease, least, random));
}

void redlock__pause_cut(struct redlock__lease *lease, int64_t pttl_ms, uint64_t *random,
                        int64_t now_ns)
{
    uint64_t base = (uint64_t)lease->terms->retry_base_ms;
    int64_t wake;

    if (lease->state != REDLOCK__LEASE_WAITING || pttl_ms == -1)
        return;
    wake = redlock__add(redlock__max(pttl_ms, 0), 1 + (int64_t)(redlock__random(random) % base));
    wake = redlock__add(now_ns, redlock__ms_to_ns(wake));
    lease->retry_ns = redlock__min(lease->retry_ns, wake);
}
