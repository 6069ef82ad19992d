/*
 * One quorum round: a command sent to all primaries, one verdict.
 *
 * Votes are masks over the configured primaries. A round has three verdicts, and is
 * sealed as soon as it is certain which: WON when quorum counted votes are ours; BUSY
 * when that can't be reached any more and at least quorum primaries gave a lock
 * answer (ours, free or foreign); NO_QUORUM when neither can be reached. So it
 * never waits for a straggler that could not change the verdict, and the
 * verdict doesn't depend on which of two decisive answers came first. Once
 * sealed, it stays; late answers only fill in the record.
 */
#ifndef REDLOCK__ROUND_H
#define REDLOCK__ROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

enum __attribute__((packed)) redlock__verdict {
    REDLOCK__ROUND_OPEN,
    REDLOCK__ROUND_WON,
    REDLOCK__ROUND_BUSY,
    REDLOCK__ROUND_NO_QUORUM
};

struct redlock__round {
    int64_t start_ns;
    uint32_t counted;             /* whose "ours" counts */
    uint32_t owed;                /* asked, not answered, not given up */
    uint32_t ours, free, foreign; /* all others have failed */
    uint8_t quorum;
    enum redlock__verdict verdict;
};

/* asked: to whom the command goes; everybody else is recorded by _answer. */
void redlock__round_begin(struct redlock__round *round, uint32_t quorum, uint32_t counted,
                          uint32_t asked, int64_t start_ns);

/* The vote of some primaries: the first, a late one after SILENT, or DOWN after any, where they
 * forgot what they said. True if it sealed the verdict. */
bool redlock__round_answer(struct redlock__round *round, uint32_t nodes, redlock_vote vote);

/* Time is up: all that still owe are failed. True if that sealed the verdict. */
bool redlock__round_give_up(struct redlock__round *round);

#endif
