/*
 * C2: two were inside. No clock is asked whether they were; only, of a pair that was, whether both
 * had a claim. If the claim of one was over already (a process that was frozen after its last
 * look), that is damage by a pause, which no lock can prevent and a fencing token does; it is
 * counted apart.
 */
#include "book.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A worker between its enter and its leave. */
struct visit {
    bool inside, refused;
    int64_t number;
    const struct word *name;
    int64_t until_ns; /* of its claim */
    int64_t held_ns;  /* since when it has it */
    int64_t first_ns; /* the earliest held_ns of those that were inside with it, and its own */
    long holding;
    bool met_believer, met_other; /* who else was inside: with a claim, without */
};

struct witness {
    struct book *book;
    struct visit *visits; /* one a worker */
    size_t overlaps, lost_updates, paused;
    struct tally overlapping, losing; /* by the phase in which the first of them got it */
};

static int by_step(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    int order;

    if ((order = order_of(x->name->number, y->name->number)) != 0 ||
        (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static void found(struct witness *witness, const struct step *step, long other, const char *what)
{
    struct book *book = witness->book;
    long own = book_holding(book, step->worker, step->number);
    long record = other >= 0 ? (long)book->holdings.row[other].lease.record : -1;
    char faults[300];

    book_violation(
        book, 2, (struct place){.t = step->t, .records = {record, step->i}, .leases = {other, own}},
        "\"%s\": %s (try %" PRId64 ") %s%s", step->name->text,
        book->people.row[step->worker].name->text, step->number, what,
        book_faults(book, step->t, step->t, faults, sizeof faults));
}

/* Marks all that are inside with the newcomer. */
static void meet(struct witness *witness, struct visit *visit, int64_t t)
{
    for (size_t i = 0; i < witness->book->people.count; i++) {
        struct visit *other = &witness->visits[i];
        if (other == visit || !other->inside || other->name != visit->name ||
            witness->book->people.row[i].gone_ns < t)
            continue;
        if (visit->held_ns < other->first_ns)
            other->first_ns = visit->held_ns;
        if (other->held_ns < visit->first_ns)
            visit->first_ns = other->held_ns;
        if (other->until_ns >= t && visit->until_ns >= t)
            other->met_believer = visit->met_believer = true;
        else
            other->met_other = visit->met_other = true;
    }
}

static struct visit begin_visit(const struct witness *witness, const struct step *step)
{
    long holding = book_holding(witness->book, step->worker, step->number);
    int64_t held_ns = holding >= 0 ? witness->book->holdings.row[holding].lease.held_ns : step->t;

    return (struct visit){
        .inside = true,
        .held_ns = held_ns,
        .first_ns = held_ns,
        .refused = !step->ok,
        .number = step->number,
        .name = step->name,
        .holding = holding,
        /* Without a lease known it believes for ever: better one violation too many. */
        .until_ns = holding >= 0 ? witness->book->holdings.row[holding].lease.until_ns : NEVER};
}

static void enter(struct witness *witness, const struct step *step)
{
    struct visit *visit = &witness->visits[step->worker];
    long number = step->other > 0 ? book_numbered(witness->book, step->other) : -1;
    const struct visit *other = number >= 0 ? &witness->visits[number] : NULL;
    bool known = other != NULL && other->inside && other->name == step->name;

    *visit = begin_visit(witness, step);
    meet(witness, visit, step->t);
    witness->overlapping.checked[book_group(witness->book, visit->held_ns)]++;
    if (step->ok)
        return;
    if (visit->until_ns < step->t || (known && other->until_ns < step->t)) {
        witness->paused++;
        return;
    }
    witness->overlaps++;
    witness->overlapping.found[book_group(witness->book, visit->first_ns)]++;
    found(witness, step, known ? other->holding : -1, "went in while another was inside");
}

static void leave(struct witness *witness, const struct step *step)
{
    struct visit *visit = &witness->visits[step->worker];
    bool known = visit->inside && visit->number == step->number && visit->name == step->name;
    struct visit own = known ? *visit : begin_visit(witness, step);
    bool swapped = !step->ok && !own.refused; /* a refused one has been counted */
    bool excused = own.until_ns < step->t || (own.met_other && !own.met_believer);
    unsigned group = book_group(witness->book, own.first_ns);

    if (known)
        visit->inside = false;
    if (!swapped && !step->lost_update)
        return;
    if (excused) {
        witness->paused++;
        return;
    }
    if (swapped) {
        witness->overlaps++;
        witness->overlapping.found[group]++;
        found(witness, step, -1, "found another inside when it left");
    }
    if (step->lost_update) {
        witness->lost_updates++;
        witness->losing.found[group]++;
        found(witness, step, -1, "lost an update to another");
    }
}

void check_witness(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[1];
    struct witness witness = {.book = book,
                              .visits = table_take(book->people.count, sizeof(struct visit))};

    TABLE_SORT(&book->steps, by_step);
    for (size_t i = 0; i < book->steps.count; i++) {
        const struct step *step = &book->steps.row[i];
        checker->checked += !step->leave;
        if (step->leave)
            leave(&witness, step);
        else
            enter(&witness, step);
    }
    free(witness.visits);
    checker->ran = checker->checked > 0;
    if (!checker->ran)
        return;
    book_metric(book, 0, (double)witness.overlaps, "c2.overlaps");
    book_metric(book, 0, (double)witness.lost_updates, "c2.lost_updates");
    book_metric(book, 0, (double)witness.paused, "c2.paused");
    memcpy(witness.losing.checked, witness.overlapping.checked, sizeof witness.losing.checked);
    book_tally(book, &witness.overlapping, "c2.overlaps");
    book_tally(book, &witness.losing, "c2.lost_updates");
}
