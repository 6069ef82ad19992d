/*
 * See round.h. Everything is derived from four disjoint masks; the only state that
 * is kept besides is the sealed verdict.
 */
#include "round.h"

#include "validity.h"

#define TWO(n) (n), (n) + 1, (n) + 1, (n) + 2
#define FOUR(n) TWO(n), TWO((n) + 1), TWO((n) + 1), TWO((n) + 2)
#define SIX(n) FOUR(n), FOUR((n) + 1), FOUR((n) + 1), FOUR((n) + 2)

const uint8_t redlock__counts[256] = {SIX(0), SIX(1), SIX(1), SIX(2)};

static enum redlock__verdict verdict(const struct redlock__round *round)
{
    uint32_t answers;

    if (redlock__count(round->ours & round->counted) >= round->quorum)
        return REDLOCK__ROUND_WON;
    if (redlock__count((round->ours | round->owed) & round->counted) >= round->quorum)
        return REDLOCK__ROUND_OPEN;
    answers = redlock__count(round->ours | round->free | round->foreign);
    if (answers >= round->quorum)
        return REDLOCK__ROUND_BUSY;
    if (answers + redlock__count(round->owed) < round->quorum)
        return REDLOCK__ROUND_NO_QUORUM;
    return REDLOCK__ROUND_OPEN;
}

static bool seal(struct redlock__round *round)
{
    if (round->verdict != REDLOCK__ROUND_OPEN)
        return false;
    round->verdict = verdict(round);
    return round->verdict != REDLOCK__ROUND_OPEN;
}

void redlock__round_begin(struct redlock__round *round, uint32_t quorum, uint32_t counted,
                          uint32_t asked, int64_t start_ns)
{
    *round = (struct redlock__round){
        .quorum = (uint8_t)quorum, .counted = counted, .owed = asked, .start_ns = start_ns};
    round->verdict = verdict(round);
}

bool redlock__round_answer(struct redlock__round *round, uint32_t nodes, redlock_vote vote)
{
    round->owed &= ~nodes;
    round->ours &= ~nodes;
    round->free &= ~nodes;
    round->foreign &= ~nodes;
    switch (vote) {
    case REDLOCK_VOTE_OURS:
        round->ours |= nodes;
        break;
    case REDLOCK_VOTE_FREE:
        round->free |= nodes;
        break;
    case REDLOCK_VOTE_FOREIGN:
        round->foreign |= nodes;
        break;
    case REDLOCK_VOTE_NONE:
    case REDLOCK_VOTE_ERROR:
    case REDLOCK_VOTE_SILENT:
    case REDLOCK_VOTE_DOWN:
    case REDLOCK_VOTE_BARRED:
        break;
    }
    return seal(round);
}

bool redlock__round_give_up(struct redlock__round *round)
{
    round->owed = 0;
    return seal(round);
}
