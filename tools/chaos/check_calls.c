/* C7 to C10: time limits, liveness, reasons, hygiene. */
#include "book.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECT_MS = 1000, /* the longest a call may wait for a connection */
    SLACK_MS = 1500,   /* for a loaded machine */
    FDS_MORE = 8,      /* links for waiting are made when they are needed, and kept */
    THREADS_MORE = 2,
    RSS_MORE_KB = 4096 /* and half as much again */
};

/* ---- C7 --------------------------------------------------------------------- */

static int by_freeze(const void *a, const void *b)
{
    const struct freeze *x = a, *y = b;

    return order_of(x->begin_ns, y->begin_ns);
}

/* How long the worker was frozen between the two; freezes are sorted. */
static int64_t frozen_ns(const struct book *book, unsigned worker, int64_t from, int64_t to)
{
    int64_t sum = 0, at = from;

    for (size_t i = 0; i < book->freezes.count && book->freezes.row[i].begin_ns < to; i++) {
        const struct freeze *freeze = &book->freezes.row[i];
        int64_t begin = freeze->begin_ns > at ? freeze->begin_ns : at;
        int64_t end = freeze->end_ns < to ? freeze->end_ns : to;
        if ((freeze->worker >= 0 && freeze->worker != (long)worker) || end <= begin)
            continue;
        sum += end - begin;
        at = end;
    }
    return sum;
}

static int64_t wait_of(const struct call *call)
{
    return call->wait_ms > 0 ? call->wait_ms : 0;
}

static const char *op_name(enum op op)
{
    return op == OP_ACQUIRE ? "acquire" : op == OP_EXTEND ? "extend" : "release";
}

/* When the call returned, or could have at the latest; 0: it can't be judged. */
static int64_t judged_until(const struct book *book, const struct call *call)
{
    int64_t gone_ns;

    if (call->returned_ns != NEVER)
        return call->returned_ns;
    /* Those of a broken run don't get the time to; those of a dead worker had it until it died. */
    if (!book->ended)
        return 0;
    gone_ns = book->people.row[call->worker].gone_ns;
    return gone_ns < book->analysis.end_ns ? gone_ns : book->analysis.end_ns;
}

static void judge_deadline(struct book *book, const struct call *call, int64_t *worst_ns)
{
    int64_t until_ns = judged_until(book, call), took_ns, wait_ns = wait_of(call) * MS;
    int64_t limit_ns = wait_ns + (CONNECT_MS + book->node_timeout_ms + SLACK_MS) * MS;

    if (until_ns == 0)
        return;
    took_ns = until_ns - call->invoked_ns;
    took_ns -= frozen_ns(book, call->worker, call->invoked_ns, until_ns);
    if (call->returned_ns != NEVER) {
        book->analysis.checkers[6].checked++;
        if (took_ns - wait_ns > *worst_ns)
            *worst_ns = took_ns - wait_ns;
    }
    if (took_ns <= limit_ns)
        return;
    book_violation(book, 7,
                   (struct place){.t = call->invoked_ns,
                                  .records = {call->invoked_i, call->returned_i},
                                  .leases = {-1, -1}},
                   "%s: %s (try %" PRId64 ") %s %.0f ms, it may wait %" PRId64 " ms",
                   book->people.row[call->worker].name->text, op_name(call->op), call->number,
                   call->returned_ns != NEVER ? "took" : "has not returned for",
                   (double)took_ns / (double)MS, wait_of(call));
}

void check_deadlines(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[6];
    int64_t worst_ns = INT64_MIN;

    TABLE_SORT(&book->freezes, by_freeze);
    for (size_t i = 0; i < book->calls.count; i++)
        judge_deadline(book, &book->calls.row[i], &worst_ns);
    checker->ran = checker->checked > 0 || checker->found > 0;
    if (!checker->ran)
        return;
    book_metric(book, 0, (double)checker->found, "c7.late");
    if (checker->checked > 0)
        book_metric(book, 0, (double)worst_ns / (double)MS, "c7.worst_ms");
}

/* ---- C8 --------------------------------------------------------------------- */

static const struct phase *liveness_phase(const struct book *book)
{
    for (size_t i = 0; i < book->phases.count; i++)
        if (strcmp(book->phases.row[i].name, "liveness") == 0)
            return &book->phases.row[i];
    return NULL;
}

/* For each worker, the end of its first success within the phase; NEVER. */
static int64_t *first_successes(const struct book *book, const struct phase *phase)
{
    int64_t *first = table_take(book->people.count, sizeof *first);

    for (size_t i = 0; i < book->people.count; i++)
        first[i] = NEVER;
    for (size_t i = 0; i < book->probes.count; i++) {
        const struct probe *probe = &book->probes.row[i];
        if (probe->ok && probe->begin_ns >= phase->begin_ns && probe->end_ns <= phase->end_ns &&
            probe->end_ns < first[probe->worker])
            first[probe->worker] = probe->end_ns;
    }
    return first;
}

void check_liveness(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[7];
    const struct phase *phase = liveness_phase(book);
    int64_t *first, worst_ns = -1;

    if (phase == NULL)
        return;
    first = first_successes(book, phase);
    for (size_t i = 0; i < book->people.count; i++) {
        const struct person *person = &book->people.row[i];
        if (strcmp(person->role->text, "prober") != 0 ||
            (person->gone_ns < phase->begin_ns && person->left))
            continue;
        checker->checked++;
        if (first[i] == NEVER)
            book_violation(book, 8, (struct place){phase->begin_ns, {-1, -1}, {-1, -1}},
                           "%s had no success after the faults", person->name->text);
        else if (first[i] - phase->begin_ns > worst_ns)
            worst_ns = first[i] - phase->begin_ns;
    }
    free(first);
    checker->ran = checker->checked > 0;
    if (!checker->ran)
        return;
    book_metric(book, 0, (double)checker->found, "c8.missing");
    if (worst_ns >= 0)
        book_metric(book, 0, (double)worst_ns / (double)MS, "c8.worst_ms");
}

/* ---- C9 --------------------------------------------------------------------- */

static bool in_phase(const struct book *book, const struct call *call, const char *phase)
{
    return phase[0] == '\0' ||
           strcmp(book->groups[book_group(book, call->invoked_ns)], phase) == 0 ||
           strcmp(book->groups[book_group(book, call->returned_ns)], phase) == 0;
}

static bool is_given(const struct book *book, const struct reason_row *reason)
{
    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        for (size_t k = call->answers; k < call->answers + call->answer_count; k++) {
            const struct answer *answer = &book->answers.row[k];
            if (answer->node == reason->node &&
                strstr(answer->text->text, reason->text->text) != NULL &&
                in_phase(book, call, reason->phase->text))
                return true;
        }
    }
    return false;
}

void check_reasons(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[8];

    for (size_t i = 0; i < book->reasons.count; i++) {
        const struct reason_row *reason = &book->reasons.row[i];
        if (!is_given(book, reason))
            book_violation(book, 9, (struct place){reason->t, {reason->i, -1}, {-1, -1}},
                           "node %u never answered \"%s\"%s%s", reason->node, reason->text->text,
                           reason->phase->text[0] != '\0' ? " in phase " : "", reason->phase->text);
    }
    checker->checked = book->reasons.count;
    checker->ran = checker->checked > 0;
    if (checker->ran)
        book_metric(book, 0, (double)checker->found, "c9.wrong");
}

/* ---- C10 -------------------------------------------------------------------- */

static int by_process(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    int order;

    if ((order = order_of(x->process->number, y->process->number)) != 0 ||
        (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

struct growth {
    int64_t fds, threads, rss_kb; /* the most of all processes */
};

static void larger(int64_t *most, int64_t value)
{
    if (value > *most)
        *most = value;
}

static void judge_growth(struct book *book, const struct weight *begin, const struct weight *end,
                         struct growth *most)
{
    struct growth growth = {end->fds - begin->fds, end->threads - begin->threads,
                            end->rss_kb - begin->rss_kb};
    bool fat = growth.rss_kb > RSS_MORE_KB && growth.rss_kb > begin->rss_kb / 2;

    book->analysis.checkers[9].checked++;
    larger(&most->fds, growth.fds);
    larger(&most->threads, growth.threads);
    larger(&most->rss_kb, growth.rss_kb);
    if (growth.fds > FDS_MORE || growth.threads > THREADS_MORE || fat)
        book_violation(book, 10, (struct place){end->t, {begin->i, end->i}, {-1, -1}},
                       "%s grew by %" PRId64 " descriptors, %" PRId64 " threads, %" PRId64 " kB",
                       end->process->text, growth.fds, growth.threads, growth.rss_kb);
}

/* From the first "begin" to the last "end" of each process. */
static void check_growth(struct book *book)
{
    const struct weight *begin = NULL, *end = NULL;
    struct growth most = {INT64_MIN, INT64_MIN, INT64_MIN};

    TABLE_SORT(&book->weights, by_process);
    for (size_t i = 0; i <= book->weights.count; i++) {
        const struct weight *weight = i < book->weights.count ? &book->weights.row[i] : NULL;
        if (begin != NULL && (weight == NULL || weight->process != begin->process)) {
            if (end != NULL)
                judge_growth(book, begin, end, &most);
            begin = end = NULL;
        }
        if (weight != NULL && weight->end)
            end = begin != NULL ? weight : NULL;
        else if (weight != NULL && begin == NULL)
            begin = weight;
    }
    if (book->analysis.checkers[9].checked == 0)
        return;
    book_metric(book, 0, (double)most.fds, "c10.fds");
    book_metric(book, 0, (double)most.threads, "c10.threads");
    book_metric(book, 0, (double)most.rss_kb, "c10.rss_kb");
}

void check_hygiene(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[9];
    const struct value_row *left = NULL;

    check_growth(book);
    for (size_t i = 0; i < book->values.count; i++)
        if (strcmp(book->values.row[i].name->text, "left") == 0)
            left = &book->values.row[i];
    if (left != NULL) {
        checker->checked++;
        book_metric(book, 0, left->value, "c10.left");
        if (left->value > 0)
            book_violation(book, 10, (struct place){left->t, {left->i, -1}, {-1, -1}},
                           "%.0f processes, containers or files were left behind", left->value);
    }
    checker->ran = checker->checked > 0;
}
