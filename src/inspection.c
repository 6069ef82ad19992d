/*
 * See inspection.h. A primary's entry is FOREIGN where GET found a value, whoever owns
 * it; the sum groups entries by that value.
 */
#include "inspection.h"

#include <string.h>

#include "validity.h"

static void settle(struct redlock__inspection *inspection, uint32_t node,
                   const struct redlock__answer *answer, int64_t now_ns)
{
    redlock_node_result *result = &inspection->nodes[node].result;

    result->vote = answer->vote;
    result->elapsed_us = -1;
    if (answer->vote != REDLOCK_VOTE_DOWN && answer->vote != REDLOCK_VOTE_SILENT)
        result->elapsed_us = (now_ns - inspection->start_ns) / 1000;
    if (answer->vote == REDLOCK_VOTE_FOREIGN)
        redlock__printable(inspection->nodes[node].owner, sizeof inspection->nodes[node].owner,
                           answer->text, strlen(answer->text));
    else
        redlock__printable(result->text, sizeof result->text, answer->text, strlen(answer->text));
}

void redlock__inspection_answer(struct redlock__inspection *inspection, uint32_t node,
                                enum redlock__command command, const struct redlock__answer *answer,
                                int64_t now_ns)
{
    redlock_node_inspection *entry = &inspection->nodes[node];
    uint32_t bit = UINT32_C(1) << node;

    if ((inspection->owed & bit) == 0)
        return;
    if (command == REDLOCK__CMD_GET) {
        settle(inspection, node, answer, now_ns);
        if (answer->vote == REDLOCK_VOTE_DOWN || answer->vote == REDLOCK_VOTE_SILENT)
            inspection->owed &= ~bit;
        return;
    }
    inspection->owed &= ~bit;
    if (entry->result.vote != REDLOCK_VOTE_FOREIGN)
        return;
    if (answer->vote == REDLOCK_VOTE_FOREIGN)
        entry->remaining_ms = answer->value;
    else
        settle(inspection, node, answer, now_ns);
}

static bool same_owner(const redlock_node_inspection *a, const redlock_node_inspection *b)
{
    return b->result.vote == REDLOCK_VOTE_FOREIGN && strcmp(a->owner, b->owner) == 0;
}

/* Until fewer than quorum of the owner's keys are left: the quorum-th longest life. */
static int64_t remaining(const struct redlock__inspection *inspection, uint32_t owner,
                         uint32_t quorum)
{
    const redlock_node_inspection *nodes = inspection->nodes;
    int64_t best = 0;

    for (uint32_t i = 0; i < inspection->n; i++) {
        int64_t life = nodes[i].remaining_ms < 0 ? INT64_MAX : nodes[i].remaining_ms;
        uint32_t longer = 0;

        if (!same_owner(&nodes[owner], &nodes[i]))
            continue;
        for (uint32_t j = 0; j < inspection->n; j++)
            longer += same_owner(&nodes[owner], &nodes[j]) &&
                      (nodes[j].remaining_ms < 0 || nodes[j].remaining_ms >= life);
        if (longer >= quorum)
            best = redlock__max(best, life);
    }
    return best == INT64_MAX ? -1 : best;
}

/* Of all owners: the one with the most votes. */
static uint32_t most_votes(const struct redlock__inspection *inspection, uint32_t *owner)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < inspection->n; i++) {
        uint32_t votes = 0;

        for (uint32_t j = 0; j < inspection->n; j++)
            votes += inspection->nodes[i].result.vote == REDLOCK_VOTE_FOREIGN &&
                     same_owner(&inspection->nodes[i], &inspection->nodes[j]);
        if (votes > most) {
            most = votes;
            *owner = i;
        }
    }
    return most;
}

/* "Nobody" only if those that gave no answer could not make anybody's majority. */
void redlock__inspection_sum_up(const struct redlock__inspection *inspection, uint32_t quorum,
                                redlock_inspection *sum)
{
    uint32_t silent = inspection->n, owner = 0, votes = most_votes(inspection, &owner);

    memset(sum, 0, sizeof *sum);
    for (uint32_t i = 0; i < inspection->n; i++)
        silent -= inspection->nodes[i].result.vote == REDLOCK_VOTE_FREE ||
                  inspection->nodes[i].result.vote == REDLOCK_VOTE_FOREIGN;
    if (votes >= quorum) {
        sum->holder = REDLOCK_HOLDER_ONE;
        sum->votes = votes;
        memcpy(sum->owner, inspection->nodes[owner].owner, sizeof sum->owner);
        sum->remaining_ms = remaining(inspection, owner, quorum);
    } else if (votes + silent < quorum) {
        sum->holder = REDLOCK_HOLDER_NONE;
    }
}
