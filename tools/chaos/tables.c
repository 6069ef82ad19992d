/*
 * From rows as they were written to things with a beginning and an end: calls, phases, faults,
 * states of nodes. What has no end yet ends with the history.
 */
#include "book.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- workers and calls ------------------------------------------------------ */

static bool all_declared(struct book *book, char *text, size_t text_size)
{
    for (size_t i = 0; i < book->people.count; i++) {
        const struct person *person = &book->people.row[i];
        if (!person->declared) {
            (void)snprintf(text, text_size,
                           "record %" PRId64 ": worker \"%.60s\" has no record of its own",
                           person->mentioned, person->name->text);
            return false;
        }
    }
    return true;
}

static int64_t moment_of(const struct call *call)
{
    return call->is_return ? call->returned_ns : call->invoked_ns;
}

static int by_try_and_time(const void *a, const void *b)
{
    const struct call *x = a, *y = b;
    int order;

    if ((order = order_of(x->worker, y->worker)) != 0 ||
        (order = order_of(x->number, y->number)) != 0 ||
        (order = order_of(moment_of(x), moment_of(y))) != 0 ||
        (order = order_of(x->is_return, y->is_return)) != 0)
        return order;
    return order_of(x->invoked_i, y->invoked_i);
}

/* A worker's calls about one try don't overlap: a return belongs to the last invoke before it. */
static bool answers_to(const struct call *invoke, const struct call *half)
{
    return invoke != NULL && !invoke->is_return && invoke->returned_ns == NEVER &&
           invoke->worker == half->worker && invoke->number == half->number &&
           invoke->op == half->op && invoke->name == half->name;
}

static void complete(struct call *invoke, const struct call *half)
{
    struct call whole = *half;

    whole.is_return = false;
    whole.invoked_ns = invoke->invoked_ns;
    whole.invoked_i = invoke->invoked_i;
    whole.ttl_ms = invoke->ttl_ms;
    whole.wait_ms = invoke->wait_ms;
    whole.fenced = invoke->fenced;
    whole.renewed = invoke->renewed;
    *invoke = whole;
}

static bool pair_calls(struct book *book, char *text, size_t text_size)
{
    size_t kept = 0;

    TABLE_SORT(&book->calls, by_try_and_time);
    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *half = &book->calls.row[i];
        struct call *last = kept > 0 ? &book->calls.row[kept - 1] : NULL;
        if (!half->is_return) {
            book->calls.row[kept++] = *half;
        } else if (answers_to(last, half)) {
            complete(last, half);
        } else {
            (void)snprintf(text, text_size, "record %" PRId64 ": a return without its invoke",
                           half->returned_i);
            return false;
        }
    }
    book->calls.count = kept;
    return true;
}

static void list_attempts(struct book *book)
{
    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        const char *role = book->people.row[call->worker].role->text;
        if (call->op != OP_ACQUIRE || call->returned_ns == NEVER)
            continue;
        if (strcmp(role, "prober") == 0)
            *TABLE_ADD(&book->probes) = (struct probe){.worker = call->worker,
                                                       .begin_ns = call->invoked_ns,
                                                       .end_ns = call->returned_ns,
                                                       .ok = call->ok};
        else if (strcmp(role, "contender") == 0)
            *TABLE_ADD(&book->points) =
                (struct point){.t = call->invoked_ns,
                               .latency_ns = call->returned_ns - call->invoked_ns,
                               .ok = call->ok};
    }
}

static int by_begin(const void *a, const void *b)
{
    const struct probe *x = a, *y = b;
    int order = order_of(x->begin_ns, y->begin_ns);

    return order != 0 ? order : order_of(x->worker, y->worker);
}

static int by_moment(const void *a, const void *b)
{
    const struct point *x = a, *y = b;
    int order = order_of(x->t, y->t);

    return order != 0 ? order : order_of(x->latency_ns, y->latency_ns);
}

/* ---- phases ----------------------------------------------------------------- */

static int by_turn(const void *a, const void *b)
{
    const struct phase_row *x = a, *y = b;
    int order = order_of(x->t, y->t);

    return order != 0 ? order : order_of(x->i, y->i);
}

static void arrange_phases(struct book *book)
{
    TABLE_SORT(&book->turns, by_turn);
    for (size_t i = 0; i < book->turns.count; i++) {
        const struct phase_row *row = &book->turns.row[i];
        bool last = i + 1 == book->turns.count;
        if (strcmp(row->name->text, "end") == 0)
            continue;
        *TABLE_ADD(&book->phases) =
            (struct phase){.name = (char *)(uintptr_t)row->name->text,
                           .begin_ns = row->t,
                           .end_ns = last ? book->analysis.end_ns : book->turns.row[i + 1].t};
    }
}

unsigned book_group(const struct book *book, int64_t t)
{
    size_t low = 0, high = book->turns.count;

    while (low < high) { /* the last turn that is not after t */
        size_t middle = low + (high - low) / 2;
        if (book->turns.row[middle].t <= t)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || strcmp(book->turns.row[low - 1].name->text, "end") == 0)
        return 0;
    return book->turns.row[low - 1].group;
}

/* ---- faults ----------------------------------------------------------------- */

static int by_fault(const void *a, const void *b)
{
    const struct fault_half *x = a, *y = b;
    int order;

    if ((order = order_of(x->number, y->number)) != 0 || (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static struct fault fault_of(const struct book *book, const struct fault_half *half)
{
    return (struct fault){.number = half->number,
                          .action = (char *)(uintptr_t)half->action->text,
                          .text = (char *)(uintptr_t)half->text->text,
                          .nodes = half->nodes,
                          .begin_ns = half->t,
                          .end_ns = half->stop ? half->t : book->analysis.end_ns,
                          .verified = half->verified};
}

static void add_freeze(struct book *book, const struct fault_half *half, const struct fault *fault)
{
    if (strcmp(fault->action, "freeze-worker") != 0)
        return;
    *TABLE_ADD(&book->freezes) = (struct freeze){
        .worker = half->frozen != NULL && half->frozen->worker >= 0 ? half->frozen->worker : -1,
        .begin_ns = fault->begin_ns,
        .end_ns = fault->end_ns};
}

static void arrange_faults(struct book *book)
{
    const struct fault_half *rows = book->halves.row;
    size_t i = 0;

    TABLE_SORT(&book->halves, by_fault);
    while (i < book->halves.count) {
        const struct fault_half *first = &rows[i++];
        struct fault fault = fault_of(book, first);
        /* The same number may start again after its stop: another fault. */
        if (!first->stop && i < book->halves.count && rows[i].number == first->number &&
            rows[i].stop) {
            fault.end_ns = rows[i].t;
            fault.verified = fault.verified && rows[i].verified;
            i++;
        }
        add_freeze(book, first, &fault);
        *TABLE_ADD(&book->faults) = fault;
    }
}

/* ---- nodes ------------------------------------------------------------------ */

static int by_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    int order;

    if ((order = order_of(x->node, y->node)) != 0 || (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

/* What a node is from this change on; NULL: nothing special. */
static const char *standing(enum state state)
{
    return state == STATE_DOWN ? "down" : state == STATE_FROZEN ? "frozen" : NULL;
}

static void arrange_changes(struct book *book)
{
    const struct change *open = NULL;

    TABLE_SORT(&book->changes, by_change);
    for (size_t i = 0; i <= book->changes.count; i++) {
        const struct change *change = i < book->changes.count ? &book->changes.row[i] : NULL;
        bool same = open != NULL && change != NULL && change->node == open->node;
        if (change != NULL && same && (change->state == STATE_CUT || change->state == open->state))
            continue; /* says nothing about its life, or nothing new */
        if (open != NULL)
            *TABLE_ADD(&book->spans) =
                (struct span){.node = open->node,
                              .what = standing(open->state),
                              .begin_ns = open->t,
                              .end_ns = change != NULL && same ? change->t : book->analysis.end_ns};
        open = change != NULL && standing(change->state) != NULL ? change : NULL;
    }
}

static int by_node_and_begin(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    int order = order_of(x->node, y->node);

    return order != 0 ? order : order_of(x->begin_ns, y->begin_ns);
}

/* Nobody tells when a node's vote counts again; while it doesn't, each answer says so. */
static void arrange_barred(struct book *book)
{
    TABLE(struct span) barred = {0};
    struct span *last = NULL;

    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        for (size_t k = call->answers; k < call->answers + call->answer_count; k++) {
            const struct answer *answer = &book->answers.row[k];
            if (strcmp(book->votes.word[answer->vote]->text, "barred") == 0)
                *TABLE_ADD(&barred) = (struct span){.node = answer->node,
                                                    .what = "barred",
                                                    .begin_ns = call->invoked_ns,
                                                    .end_ns = call->returned_ns};
        }
    }
    TABLE_SORT(&barred, by_node_and_begin);
    for (size_t i = 0; i < barred.count; i++) {
        const struct span *span = &barred.row[i];
        if (last != NULL && last->node == span->node && span->begin_ns <= last->end_ns + 500 * MS) {
            last->end_ns = span->end_ns > last->end_ns ? span->end_ns : last->end_ns;
            continue;
        }
        last = TABLE_ADD(&book->spans);
        *last = *span;
    }
    free(barred.row);
}

/* ---- clocks ----------------------------------------------------------------- */

static int by_piece(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order;

    if ((order = order_of(x->node, y->node)) != 0 ||
        (order = order_of(x->from_ns, y->from_ns)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static void arrange_clocks(struct book *book)
{
    const struct piece *first = NULL;

    TABLE_SORT(&book->pieces, by_piece);
    for (size_t i = 0; i < book->pieces.count; i++) {
        const struct piece *piece = &book->pieces.row[i];
        if (first == NULL || first->node != piece->node)
            first = piece;
        *TABLE_ADD(&book->offsets) = (struct offset){
            .node = piece->node,
            .t = piece->from_ns,
            .offset_ns = (piece->wall_ns - first->wall_ns) - (piece->from_ns - first->from_ns),
            .rate_ppb = piece->rate_ppb};
    }
}

/* ---- all -------------------------------------------------------------------- */

bool book_arrange(struct book *book, char *text, size_t text_size)
{
    if (!all_declared(book, text, text_size) || !pair_calls(book, text, text_size))
        return false;
    list_attempts(book);
    TABLE_SORT(&book->probes, by_begin);
    TABLE_SORT(&book->points, by_moment);
    arrange_phases(book);
    arrange_faults(book);
    arrange_changes(book);
    arrange_barred(book);
    arrange_clocks(book);
    book_leases(book);
    return true;
}
