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

const char *redlock__lease_text(const struct redlock__lease *lease, uint32_t node)
{
    return lease->votes[node].reason == REDLOCK__REASON_OWN
               ? lease->texts[node]
               : redlock__reason_text(lease->votes[node].reason);
}

/* Where there is no memory, only the text is lost. */
static enum redlock__reason keep_text(struct redlock__lease *lease, uint32_t node, const char *text)
{
    size_t len;

    if (text[0] == '\0')
        return REDLOCK__REASON_NONE;
    len = strlen(text);
    for (unsigned i = REDLOCK__REASON_NO_ANSWER; i < REDLOCK__REASON_OWN; i++)
        if (strcmp(text, redlock__reason_text((enum redlock__reason)i)) == 0)
            return (enum redlock__reason)i;
    if (lease->texts == NULL)
        lease->texts = calloc(lease->n, sizeof lease->texts[0]);
    if (lease->texts == NULL)
        return REDLOCK__REASON_NONE;
    if (len >= sizeof lease->texts[0])
        len = sizeof lease->texts[0] - 1;
    memcpy(lease->texts[node], text, len);
    lease->texts[node][len] = '\0';
    return REDLOCK__REASON_OWN;
}

void redlock__lease_record(struct redlock__lease *lease, uint32_t node, redlock_vote vote,
                           const char *text, int64_t now_ns)
{
    struct redlock__lease_vote *entry = &lease->votes[node];

    entry->vote = (uint8_t)vote;
    entry->elapsed_us = -1;
    if (vote == REDLOCK_VOTE_OURS || vote == REDLOCK_VOTE_FREE || vote == REDLOCK_VOTE_FOREIGN ||
        vote == REDLOCK_VOTE_ERROR)
        entry->elapsed_us =
            (int32_t)redlock__min((now_ns - lease->round.start_ns) / 1000, INT32_MAX);
    entry->reason = keep_text(lease, node, text);
}

/* Memory for texts goes with the first round that follows one without any. */
static void forget_texts(struct redlock__lease *lease)
{
    for (uint32_t i = 0; i < lease->n; i++)
        if (lease->votes[i].reason == REDLOCK__REASON_OWN)
            return;
    redlock__lease_clear(lease);
}

void redlock__lease_begin_record(struct redlock__lease *lease)
{
    if (lease->texts != NULL)
        forget_texts(lease);
    for (uint32_t i = 0; i < lease->n; i++)
        lease->votes[i] = (struct redlock__lease_vote){.vote = REDLOCK_VOTE_NONE,
                                                       .elapsed_us = -1,
                                                       .reason = REDLOCK__REASON_NO_ANSWER,
                                                       .end_ns = lease->votes[i].end_ns};
}
