/*
 * See record.h.
 */
#include "record.h"

#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "validity.h"

const char *redlock__reason_text(enum redlock__reason reason)
{
    static const char *const texts[] = {
        [REDLOCK__REASON_NONE] = "",
        [REDLOCK__REASON_NO_ANSWER] = "no answer before the verdict",
        [REDLOCK__REASON_FORGOT] = "it restarted or was flushed since",
        [REDLOCK__REASON_KEY_NOT_OURS] = "not asked: its key can't be ours",
        [REDLOCK__REASON_NO_REPLICA_LINK] = "not asked: no connection to wait for replicas on",
        [REDLOCK__REASON_NOT_WRITTEN] = "not asked: nothing was written there",
        [REDLOCK__REASON_TOO_FEW_COUNT] = "not asked: too few of those that count could be",
        [REDLOCK__REASON_TOO_FEW_OTHERS] = "not asked: too few others could be",
        [REDLOCK__REASON_MAY_BE_CUT] =
            "not asked: an extend to less, sent before, may still arrive there",
        [REDLOCK__REASON_OWN] = ""};

    return texts[reason];
}

enum {
    MOST = (1 << 24) - 2 /* ms or us: what takes longer is not told from it */
};

_Static_assert(REDLOCK_VOTE_BARRED < 8 && REDLOCK__REASON_OWN < 16, "they fit in their bits");

const char *redlock__lease_text(const struct redlock__lease *lease, uint32_t node)
{
    enum redlock__reason reason = (enum redlock__reason)redlock__lease_said(lease)[node].reason;

    return reason == REDLOCK__REASON_OWN ? lease->rare[node].text : redlock__reason_text(reason);
}

int64_t redlock__lease_elapsed_us(const struct redlock__lease *lease, uint32_t node)
{
    const struct redlock__lease_said *said = &redlock__lease_said(lease)[node];
    int64_t elapsed = (int64_t)said->elapsed - 1;

    return said->slow ? elapsed * 1000 : elapsed;
}

__attribute__((cold)) static bool make_rare(struct redlock__lease *lease)
{
    if (lease->rare == NULL)
        lease->rare = calloc(lease->n, sizeof lease->rare[0]);
    return lease->rare != NULL;
}

bool redlock__lease_shift(struct redlock__lease *lease, uint32_t node, int64_t step_ns)
{
    if (!make_rare(lease))
        return false;
    lease->rare[node].shift_ns = redlock__add(lease->rare[node].shift_ns, step_ns);
    return true;
}

/* Where there is no memory, only the text is lost. */
__attribute__((noinline)) static enum redlock__reason keep_text(struct redlock__lease *lease,
                                                                uint32_t nodes, const char *text)
{
    size_t len = strlen(text);

    for (unsigned i = REDLOCK__REASON_NO_ANSWER; i < REDLOCK__REASON_OWN; i++)
        if (strcmp(text, redlock__reason_text((enum redlock__reason)i)) == 0)
            return (enum redlock__reason)i;
    if (!make_rare(lease))
        return REDLOCK__REASON_NONE;
    if (len >= sizeof lease->rare[0].text)
        len = sizeof lease->rare[0].text - 1;
    for (; nodes != 0; nodes &= nodes - 1) {
        char *kept = lease->rare[redlock__first(nodes)].text;

        memcpy(kept, text, len);
        kept[len] = '\0';
    }
    return REDLOCK__REASON_OWN;
}

void redlock__lease_record(struct redlock__lease *lease, uint32_t nodes, redlock_vote vote,
                           const char *text, int64_t now_ns)
{
    uint32_t elapsed = 0, slow = 0, reason = REDLOCK__REASON_NONE;
    struct redlock__lease_said said, *all;

    if (text[0] != '\0')
        reason = keep_text(lease, nodes, text);

    if (vote == REDLOCK_VOTE_OURS || vote == REDLOCK_VOTE_FREE || vote == REDLOCK_VOTE_FOREIGN ||
        vote == REDLOCK_VOTE_ERROR) {
        int64_t elapsed_us = (now_ns - lease->round.start_ns) / 1000;

        slow = elapsed_us > MOST;
        elapsed = (uint32_t)(slow ? redlock__min(elapsed_us / 1000, MOST) : elapsed_us) + 1;
    }
    said = (struct redlock__lease_said){.vote = (uint32_t)vote & 7,
                                        .reason = reason & 15,
                                        .slow = slow & 1,
                                        .elapsed = elapsed & 0xffffff};
    for (all = redlock__lease_said(lease); nodes != 0; nodes &= nodes - 1)
        memcpy(&all[redlock__first(nodes)], &said, sizeof said); /* as a whole */
}

/* The memory goes with the first round that follows one without any. */
static void forget_rare(struct redlock__lease *lease)
{
    bool any = false;

    for (uint32_t i = 0; i < lease->n; i++) {
        any |= lease->rare[i].shift_ns != 0 ||
               redlock__lease_said(lease)[i].reason == REDLOCK__REASON_OWN;
        lease->rare[i].shift_ns = 0;
    }
    if (!any)
        redlock__lease_clear(lease);
}

void redlock__lease_begin_record(struct redlock__lease *lease)
{
    static const struct redlock__lease_said nothing = {.vote = REDLOCK_VOTE_NONE,
                                                       .reason = REDLOCK__REASON_NO_ANSWER};

    struct redlock__lease_said *all = redlock__lease_said(lease);
    uint32_t n = lease->n;

    if (lease->rare != NULL)
        forget_rare(lease);
    for (uint32_t i = 0; i < n; i++)
        all[i] = nothing;
}
