/*
 * Numbers that are not a checker's: for the whole run and for each phase. What began in a phase
 * belongs to it. A phase may come more than once; all its times count together.
 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

#include "numbers.h"

struct list { /* of numbers, with room for as many as there are calls */
    int64_t *row;
    size_t count;
};

/* Of one phase, or of the run. */
struct sums {
    struct book *book;
    unsigned group;
    struct list probes, latencies, validities; /* ns, ns, ms */
    size_t probe_count, returned, failed_split, attempts;
    size_t acquired; /* by all but probers */
    size_t extended, not_extended;
    size_t codes[CODES_MAX];
    size_t votes[NODES_MAX + 1][CODES_MAX];
    size_t *shares; /* of each worker */
};

static bool is_prober(const struct book *book, unsigned worker)
{
    return strcmp(book->people.row[worker].role->text, "prober") == 0;
}

static void push(struct list *list, int64_t value)
{
    list->row[list->count++] = value;
}

/* ---- summing up --------------------------------------------------------------- */

static bool count_votes(struct sums *sums, const struct call *call)
{
    const struct book *book = sums->book;
    bool ours = false;

    for (size_t k = call->answers; k < call->answers + call->answer_count; k++) {
        const struct answer *answer = &book->answers.row[k];
        sums->votes[answer->node][answer->vote]++;
        ours |= strcmp(book->votes.word[answer->vote]->text, "ours") == 0;
    }
    return ours;
}

static void add_acquire(struct sums *sums, const struct call *call)
{
    bool ours = count_votes(sums, call), prober = is_prober(sums->book, call->worker);
    int64_t took_ns = call->returned_ns - call->invoked_ns;

    sums->returned++;
    sums->codes[call->code]++;
    sums->probe_count += prober;
    sums->failed_split += ours && !call->ok;
    if (!call->ok)
        return;
    push(&sums->validities, call->validity_ms);
    if (prober) {
        push(&sums->probes, took_ns);
        return;
    }
    push(&sums->latencies, took_ns);
    sums->acquired++;
    sums->attempts += (size_t)(call->attempts > 0 ? call->attempts : 1);
    sums->shares[call->worker]++;
}

/* A probe belongs to a phase if all of it was in it: what began under a fault and ended after it
 * says nothing of either. */
static bool in_group(const struct sums *sums, int64_t t)
{
    return sums->group == 0 || book_group(sums->book, t) == sums->group;
}

static void add_all(struct sums *sums)
{
    const struct book *book = sums->book;

    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        if (call->returned_ns == NEVER || !in_group(sums, call->invoked_ns) ||
            (is_prober(sums->book, call->worker) && !in_group(sums, call->returned_ns)))
            continue;
        if (call->op == OP_ACQUIRE)
            add_acquire(sums, call);
        else if (call->op == OP_EXTEND && call->ok)
            sums->extended++;
        else if (call->op == OP_EXTEND)
            sums->not_extended++;
    }
    for (size_t i = 0; i < book->notices.count; i++) {
        const struct notice *notice = &book->notices.row[i];
        if (!in_group(sums, notice->t))
            continue;
        sums->extended += notice->kind == NOTICE_RENEWED;
        sums->not_extended += notice->kind == NOTICE_FAILING;
    }
}

/* ---- telling ------------------------------------------------------------------ */

static void tell_percentile(const struct sums *sums, const struct list *list, const char *name,
                            double part, double unit)
{
    if (list->count > 0)
        book_metric(sums->book, sums->group,
                    (double)numbers_percentile(list->row, list->count, part) / unit, "%s", name);
}

/* From the first failed probe to the beginning of the next good one, of the prober that had to do
 * without for longest. Probes are sorted by their beginnings. */
static double longest_outage_ms(const struct sums *sums)
{
    const struct book *book = sums->book;
    int64_t *since = table_take(book->people.count, sizeof *since), longest_ns = 0;

    for (size_t i = 0; i < book->probes.count; i++) {
        const struct probe *probe = &book->probes.row[i];
        int64_t *begin = &since[probe->worker];
        int64_t until_ns = probe->ok ? probe->begin_ns : probe->end_ns;
        if (!in_group(sums, probe->begin_ns))
            continue;
        if (*begin == 0 && !probe->ok)
            *begin = probe->begin_ns;
        if (*begin != 0 && until_ns - *begin > longest_ns)
            longest_ns = until_ns - *begin;
        if (probe->ok)
            *begin = 0;
    }
    free(since);
    return (double)longest_ns / (double)MS;
}

static void tell_probes(struct sums *sums)
{
    size_t good = sums->probes.count, all = sums->probe_count;
    struct interval interval;

    if (all == 0)
        return;
    interval = numbers_wilson(good, all);
    book_metric(sums->book, sums->group, (double)all, "probe.count");
    book_metric(sums->book, sums->group, (double)good / (double)all, "probe.availability");
    book_metric(sums->book, sums->group, interval.low, "probe.low");
    book_metric(sums->book, sums->group, interval.high, "probe.high");
    book_metric(sums->book, sums->group, longest_outage_ms(sums), "probe.outage_ms");
    numbers_sort(sums->probes.row, good);
    tell_percentile(sums, &sums->probes, "probe.p50_ms", 0.5, (double)MS);
    tell_percentile(sums, &sums->probes, "probe.p99_ms", 0.99, (double)MS);
}

static int64_t length_ns(const struct sums *sums)
{
    const struct book *book = sums->book;
    int64_t sum = 0;

    if (sums->group == 0)
        return book->analysis.end_ns - book->analysis.begin_ns;
    for (size_t i = 0; i < book->phases.count; i++)
        if (book->phases.row[i].name == book->groups[sums->group])
            sum += book->phases.row[i].end_ns - book->phases.row[i].begin_ns;
    return sum;
}

static void tell_fairness(struct sums *sums)
{
    const struct book *book = sums->book;
    size_t contenders = 0;

    for (size_t i = 0; i < book->people.count; i++)
        if (strcmp(book->people.row[i].role->text, "contender") == 0)
            sums->shares[contenders++] = sums->shares[i]; /* never ahead of i */
    if (contenders > 0 && numbers_jain(sums->shares, contenders) > 0)
        book_metric(sums->book, sums->group, numbers_jain(sums->shares, contenders),
                    "acquire.jain");
}

static void tell_acquires(struct sums *sums)
{
    static const struct {
        const char *name;
        double part;
    } points[] = {{"acquire.p50_ms", 0.5},
                  {"acquire.p90_ms", 0.9},
                  {"acquire.p99_ms", 0.99},
                  {"acquire.p999_ms", 0.999},
                  {"acquire.max_ms", 1}};
    int64_t ns = length_ns(sums);

    if (sums->returned == 0)
        return;
    book_metric(sums->book, sums->group, (double)sums->returned, "acquire.returned");
    book_metric(sums->book, sums->group, (double)sums->failed_split, "acquire.split");
    book_metric(sums->book, sums->group, (double)sums->acquired, "acquire.ok");
    if (ns > 0)
        book_metric(sums->book, sums->group, (double)sums->acquired * 1e9 / (double)ns,
                    "acquire.per_s");
    if (sums->acquired > 0)
        book_metric(sums->book, sums->group, (double)sums->attempts / (double)sums->acquired,
                    "acquire.attempts");
    tell_fairness(sums);
    numbers_sort(sums->latencies.row, sums->latencies.count);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        tell_percentile(sums, &sums->latencies, points[i].name, points[i].part, (double)MS);
    numbers_sort(sums->validities.row, sums->validities.count);
    tell_percentile(sums, &sums->validities, "validity.min_ms", 0, 1);
    tell_percentile(sums, &sums->validities, "validity.p50_ms", 0.5, 1);
}

static void tell_codes(struct sums *sums)
{
    const struct book *book = sums->book;

    for (unsigned k = 0; k < book->results.count; k++)
        if (sums->codes[k] > 0)
            book_metric(sums->book, sums->group, (double)sums->codes[k], "rc.%s",
                        book->results.word[k]->text);
    for (unsigned node = 1; node <= book->analysis.node_count; node++)
        for (unsigned k = 0; k < book->votes.count; k++)
            if (sums->votes[node][k] > 0)
                book_metric(sums->book, sums->group, (double)sums->votes[node][k], "vote.%u.%s",
                            node, book->votes.word[k]->text);
}

static void tell_extensions(struct sums *sums)
{
    if (sums->extended + sums->not_extended == 0 && sums->returned == 0)
        return;
    book_metric(sums->book, sums->group, (double)sums->extended, "extend.ok");
    book_metric(sums->book, sums->group, (double)sums->not_extended, "extend.failed");
}

static void measure_group(struct sums *sums)
{
    add_all(sums);
    tell_probes(sums);
    tell_acquires(sums);
    tell_codes(sums);
    tell_extensions(sums);
}

/* ---- the whole run ------------------------------------------------------------ */

/* Told that a lease is lost although a majority still stood, with time left: a false one. The
 * last moments before the deadline are the client's to give up in. */
static bool is_false_loss(const struct book *book, const struct holding *holding)
{
    int64_t last_ns = holding->ttl_ms * MS / 1000000 * book->drift_ppm + 100 * MS;
    const struct lease *lease = &holding->lease;

    return lease->true_ns != INT64_MIN && lease->true_ns > holding->told_ns + last_ns &&
           lease->claimed_ns > holding->told_ns + last_ns;
}

static void measure_losses(struct book *book)
{
    size_t lost = 0, wrongly = 0;

    for (size_t i = 0; i < book->holdings.count; i++) {
        const struct holding *holding = &book->holdings.row[i];
        lost += holding->told_ns != NEVER;
        wrongly += holding->told_ns != NEVER && is_false_loss(book, holding);
    }
    if (book->holdings.count == 0)
        return;
    book_metric(book, 0, (double)(lost - wrongly), "lost.true");
    book_metric(book, 0, (double)wrongly, "lost.false");
}

static void measure_faults(struct book *book)
{
    size_t unverified = 0;

    for (size_t i = 0; i < book->faults.count; i++)
        unverified += !book->faults.row[i].verified;
    book_metric(book, 0, (double)unverified, "fault.unverified");
}

/* What the scenario has measured itself: its phases need not be the run's. */
static void copy_values(struct book *book)
{
    for (size_t i = 0; i < book->values.count; i++) {
        const struct value_row *row = &book->values.row[i];
        book_metric(book, 0, row->value, "%s", row->name->text);
        book->metrics.row[book->metrics.count - 1].phase = (char *)(uintptr_t)row->phase->text;
    }
}

void measure(struct book *book)
{
    struct sums sums;
    int64_t *room = table_take(3 * book->calls.count, sizeof *room);
    size_t *shares = table_take(book->people.count, sizeof *shares);

    for (unsigned group = 0; group < book->group_count; group++) {
        memset(shares, 0, book->people.count * sizeof *shares);
        memset(&sums, 0, sizeof sums);
        sums.book = book;
        sums.group = group;
        sums.shares = shares;
        sums.probes.row = room;
        sums.latencies.row = room + book->calls.count;
        sums.validities.row = room + 2 * book->calls.count;
        measure_group(&sums);
    }
    free(room);
    free(shares);
    measure_losses(book);
    measure_faults(book);
    copy_values(book);
}
