/*
 * C3: how long a lease was exclusive in truth. Another client can have a quorum as soon as no more
 * than N - quorum nodes hold the lease's key. A node stops holding it when its clock reaches the
 * key's expiry (a step may take it there at once), when it comes up without data and its guard is
 * over (before that it can't vote for others), or when the key is deleted, evicted or flushed by
 * another than its owner.
 *
 * Nearly all leases are released long before their end, and then nothing more is known of their
 * keys. So the truth is told as if nothing had happened after the claim ended: no removal, no
 * restart, no change of a clock. Before that moment it is exact.
 */
#include "book.h"

#include <inttypes.h>
#include <stdlib.h>

#include "numbers.h"

enum {
    TOLD_MS = 100, /* between what a client does and what its callback says */
    JOIN_MS = 100  /* a key seen so shortly after the grant was there at the grant */
};

struct turn { /* a node begins or ceases to hold */
    int64_t t;
    int change;
};

struct truth {
    struct book *book;
    size_t *order; /* lives by holding, node, time */
    struct turn *turns;
    struct excess { /* true end - claimed end, of the leases where that is known */
        int64_t ns;
        unsigned group; /* of the phase in which it was granted */
    } * excess;
    int64_t *sorted; /* room for those of a phase */
    size_t excess_count, unmeasured;
    struct tally tally; /* by the same phase */
};

/* qsort has no context: what is sorted brings its keys along. */
struct life_key {
    long holding;
    unsigned node;
    int64_t seen_ns;
    size_t index;
};

static int by_holding(const void *a, const void *b)
{
    const struct life_key *x = a, *y = b;
    int order;

    if ((order = order_of(x->holding, y->holding)) != 0 ||
        (order = order_of(x->node, y->node)) != 0 ||
        (order = order_of(x->seen_ns, y->seen_ns)) != 0)
        return order;
    return order_of((int64_t)x->index, (int64_t)y->index);
}

static size_t *lives_in_order(const struct book *book)
{
    size_t count = book->lives.count;
    struct life_key *keys = table_take(count, sizeof *keys);
    size_t *order = table_take(count, sizeof *order);

    for (size_t i = 0; i < count; i++) {
        const struct life *life = &book->lives.row[i];
        keys[i] = (struct life_key){life->holding, life->node, life->seen_ns, i};
    }
    table_sort(keys, count, sizeof *keys, by_holding);
    for (size_t i = 0; i < count; i++)
        order[i] = keys[i].index;
    free(keys);
    return order;
}

static bool is_granted(const struct holding *holding, unsigned node)
{
    return (holding->granted >> (node - 1) & 1) != 0;
}

static int64_t death_of(const struct book *book, const struct holding *holding,
                        const struct life *life)
{
    int64_t until_ns = holding->lease.until_ns, gone_ns = life->gone_ns;
    int64_t death_ns = clock_reaches(book, life->node, life->seen_ns, life->when_ms, until_ns);
    /* The word that the key before it is gone may come late, up to the node's own word that it
     * has granted this one. */
    bool found = (holding->found >> (life->node - 1) & 1) != 0; /* its own release found it */
    bool earlier_key =
        life->removed && ((found && gone_ns <= holding->release_ns) ||
                          (gone_ns <= holding->lease.held_ns && is_granted(holding, life->node)));
    /* It is let go the moment it is found to be lost, and told a little later. */
    bool own_removal =
        life->removed && holding->told_ns != NEVER && gone_ns + TOLD_MS * MS > holding->told_ns;

    if (life->forgotten)
        gone_ns = life->gone_ns + book->guard_ms * MS;
    if (gone_ns < until_ns && gone_ns < death_ns && !earlier_key && !own_removal)
        death_ns = gone_ns;
    return death_ns;
}

static int by_turn(const void *a, const void *b)
{
    const struct turn *x = a, *y = b;
    int order = order_of(x->t, y->t);

    return order != 0 ? order : order_of(y->change, x->change); /* births first */
}

/* At the grant: the client says so, or it was seen, or its expiry tells that it had been set, which
 * an observer that is late sees all the same. */
static bool was_there(const struct book *book, const struct holding *holding,
                      const struct life *life)
{
    int64_t held_ns = holding->lease.held_ns;

    return is_granted(holding, life->node) || life->seen_ns <= held_ns + JOIN_MS * MS ||
           (life->seen_ns <= held_ns + holding->ttl_ms * MS &&
            clock_shows(book, life->node, held_ns) >= (life->when_ms - holding->ttl_ms) * MS);
}

/* The nodes holding at the grant or soon after: those seen, and those that said so. */
struct census {
    uint64_t seen;
    size_t turns;
    int holding;
};

static struct census take_census(struct truth *truth, const struct holding *holding, size_t first,
                                 size_t end)
{
    const struct book *book = truth->book;
    struct census census = {0};

    for (size_t i = first; i < end; i++) {
        const struct life *life = &book->lives.row[truth->order[i]];
        const struct life *next = i + 1 < end ? &book->lives.row[truth->order[i + 1]] : NULL;
        int64_t death_ns = death_of(book, holding, life);
        uint64_t bit = UINT64_C(1) << (life->node - 1);
        bool from_start = (census.seen & bit) == 0 && was_there(book, holding, life);

        census.seen |= bit;
        if (from_start)
            census.holding++;
        else
            truth->turns[census.turns++] = (struct turn){life->seen_ns, 1};
        if (next != NULL && next->node == life->node && next->seen_ns < death_ns)
            death_ns = next->seen_ns; /* a node counts once */
        truth->turns[census.turns++] = (struct turn){death_ns, -1};
    }
    table_sort(truth->turns, census.turns, sizeof *truth->turns, by_turn);
    return census;
}

/* When too few hold it, from the grant on; NEVER. `unseen` nodes hold it all the time. */
static int64_t end_of_majority(const struct truth *truth, const struct census *census, int unseen,
                               int64_t held_ns)
{
    int enough = (int)(truth->book->nodes - truth->book->quorum) + 1;
    int count = census->holding + unseen;

    for (size_t i = 0; i < census->turns && truth->turns[i].t <= held_ns; i++)
        count += truth->turns[i].change;
    if (count < enough)
        return held_ns;
    for (size_t i = 0; i < census->turns; i++) {
        if (truth->turns[i].t <= held_ns)
            continue;
        count += truth->turns[i].change;
        if (count < enough)
            return truth->turns[i].t;
    }
    return NEVER;
}

static int bits_of(uint64_t mask)
{
    return __builtin_popcountll(mask);
}

static void judge_lease(struct truth *truth, struct holding *holding, bool certain)
{
    struct lease *lease = &holding->lease;
    struct book *book = truth->book;
    int64_t excess = lease->true_ns - lease->claimed_ns;
    long index = (long)(holding - book->holdings.row);
    bool broken = lease->true_ns < lease->until_ns;
    unsigned group = book_group(book, lease->held_ns);
    char faults[300];

    truth->tally.checked[group]++;
    truth->tally.found[group] += broken;
    if (broken)
        book_violation(
            book, 3,
            (struct place){
                .t = lease->true_ns, .records = {lease->record, -1}, .leases = {index, -1}},
            "\"%s\": %s (try %" PRId64 ") claimed it for %.3f ms after others could have it%s",
            lease->name, book->people.row[lease->worker].name->text, lease->number,
            (double)(lease->until_ns - lease->true_ns) / (double)MS,
            book_faults(book, lease->held_ns, lease->until_ns, faults, sizeof faults));
    book->analysis.checkers[2].checked++;
    /* An extension whose keys were let go before they were seen looks too short. */
    if (!certain ||
        (excess < 0 && !broken && holding->extended && lease->until_ns < lease->claimed_ns)) {
        truth->unmeasured++;
        return;
    }
    truth->excess[truth->excess_count++] = (struct excess){excess, group};
}

/* False: it claims a lease that fewer than a quorum have granted, by its own account. One that is
 * renewed may already be asking again when its caller is told; the account is of the newest round.
 */
static bool has_quorum(struct truth *truth, const struct holding *holding)
{
    struct book *book = truth->book;
    const struct lease *lease = &holding->lease;
    const struct call *call = &book->calls.row[holding->call];

    if (call->answer_count == 0 || call->renewed || bits_of(holding->granted) >= (int)book->quorum)
        return true;
    book->analysis.checkers[2].checked++;
    truth->tally.checked[book_group(book, lease->held_ns)]++;
    truth->tally.found[book_group(book, lease->held_ns)]++;
    book_violation(book, 3,
                   (struct place){.t = lease->held_ns,
                                  .records = {lease->record, -1},
                                  .leases = {(long)(holding - book->holdings.row), -1}},
                   "\"%s\": %s (try %" PRId64 ") claims it with %d of the %u grants it needs",
                   lease->name, book->people.row[lease->worker].name->text, lease->number,
                   bits_of(holding->granted), book->quorum);
    return false;
}

static void find_truth(struct truth *truth, struct holding *holding, size_t first, size_t end)
{
    struct census census = take_census(truth, holding, first, end);
    int unseen = bits_of(holding->granted & ~census.seen);
    int64_t end_ns;

    if (!has_quorum(truth, holding)) {
        truth->unmeasured++;
        return;
    }

    /* Those not seen can only make the truth earlier than it looks: still a proof if it is too
     * early, but no measurement. */
    if (bits_of(census.seen) < (int)truth->book->quorum) {
        truth->unmeasured++;
        return;
    }
    end_ns = end_of_majority(truth, &census, unseen, holding->lease.held_ns);
    if (end_ns == NEVER) {
        truth->unmeasured++;
        return;
    }
    holding->lease.true_ns = end_ns;
    judge_lease(truth, holding, unseen == 0);
}

/* Of a phase, or group 0: of all. */
static void report_group(struct truth *truth, unsigned group)
{
    static const struct {
        const char *name;
        double part;
    } points[] = {{"c3.min_ms", 0}, {"c3.p1_ms", 0.01}, {"c3.p50_ms", 0.5}};
    size_t count = 0;

    for (size_t i = 0; i < truth->excess_count; i++)
        if (group == 0 || truth->excess[i].group == group)
            truth->sorted[count++] = truth->excess[i].ns;
    if (count == 0)
        return;
    book_metric(truth->book, group, (double)count, "c3.leases");
    numbers_sort(truth->sorted, count);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        book_metric(truth->book, group,
                    (double)numbers_percentile(truth->sorted, count, points[i].part) / (double)MS,
                    "%s", points[i].name);
}

static void report(struct truth *truth)
{
    struct book *book = truth->book;

    book->analysis.checkers[2].ran = book->analysis.checkers[2].checked > 0;
    if (book->holdings.count > 0)
        book_metric(book, 0, (double)truth->unmeasured, "c3.unmeasured");
    if (!book->analysis.checkers[2].ran)
        return;
    book_metric(book, 0, (double)book->analysis.checkers[2].found, "c3.negative");
    book_tally(book, &truth->tally, "c3.negative");
    for (unsigned group = 0; group < book->group_count; group++)
        report_group(truth, group);
}

void check_truth(struct book *book)
{
    struct truth truth = {.book = book,
                          .order = lives_in_order(book),
                          .turns = table_take(2 * book->lives.count, sizeof(struct turn)),
                          .excess = table_take(book->holdings.count, sizeof(struct excess)),
                          .sorted = table_take(book->holdings.count, sizeof(int64_t))};
    size_t at = 0;

    while (at < book->lives.count && book->lives.row[truth.order[at]].holding < 0)
        at++;
    for (size_t i = 0; i < book->holdings.count; i++) {
        size_t first = at;
        while (at < book->lives.count && book->lives.row[truth.order[at]].holding == (long)i)
            at++;
        find_truth(&truth, &book->holdings.row[i], first, at);
    }
    report(&truth);
    free(truth.order);
    free(truth.turns);
    free(truth.excess);
    free(truth.sorted);
}
