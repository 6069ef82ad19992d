/*
 * C6: keys that outlive what they were for.
 *
 * A ghost is a key that lives on after the call that should have removed it has returned (a failed
 * acquire, a release). An orphan is one that lives longer than its ttl and a second after anything
 * was last sent for it; if its node was down or frozen meanwhile, or its clock slow or set back,
 * that is what such a fault does, and it is counted apart. A late birth is a key that appears when
 * even a key set by the last thing sent would be over: a request that waited somewhere.
 *
 * An attempt that fails does not tell its owner. Its keys are known by name and time only: the call
 * that may have made them is the last to return of those that had begun.
 */
#include "book.h"

#include <inttypes.h>
#include <stdlib.h>

#include "numbers.h"

enum {
    ORPHAN_SLACK_MS = 1000,
    GHOST_SLACK_MS = 50 /* the observer is told a little later than the client */
};

/* Acquires of a name in the order of their beginning, each with the last end so far. */
struct reach {
    const struct word *name;
    int64_t begin_ns, end_ns, ttl_ms;
};

struct keys {
    struct book *book;
    struct reach *reaches;
    size_t reach_count;
    int64_t *ages; /* of ghosts */
    size_t ages_count, late, excused;
};

static int by_reach(const void *a, const void *b)
{
    const struct reach *x = a, *y = b;
    int order = order_of(x->name->number, y->name->number);

    return order != 0 ? order : order_of(x->begin_ns, y->begin_ns);
}

static struct reach reach_of(const struct book *book, size_t index)
{
    const struct call *call = &book->calls.row[index];
    int64_t gone_ns = book->people.row[call->worker].gone_ns;
    struct reach reach = {.name = call->name,
                          .begin_ns = call->invoked_ns,
                          .end_ns = call->returned_ns,
                          .ttl_ms = call->ttl_ms >= 0 ? call->ttl_ms : book->max_ttl_ms};

    /* A client that tells no owners: its leases' keys are among these. */
    if (call->ok && call->returned_ns != NEVER && call->owner == book->empty) {
        const struct holding *holding =
            &book->holdings.row[book_holding(book, call->worker, call->number)];
        reach.end_ns = holding->sent_ns;
        if (holding->lease.until_ns > reach.end_ns)
            reach.end_ns = holding->lease.until_ns;
    }
    if (gone_ns < reach.end_ns)
        reach.end_ns = gone_ns > reach.begin_ns ? gone_ns : reach.begin_ns;
    return reach;
}

static void find_reaches(struct keys *keys)
{
    struct book *book = keys->book;

    keys->reaches = table_take(book->calls.count, sizeof *keys->reaches);
    for (size_t i = 0; i < book->calls.count; i++)
        if (book->calls.row[i].op == OP_ACQUIRE)
            keys->reaches[keys->reach_count++] = reach_of(book, i);
    table_sort(keys->reaches, keys->reach_count, sizeof *keys->reaches, by_reach);
    for (size_t i = 1; i < keys->reach_count; i++) {
        struct reach *reach = &keys->reaches[i];
        const struct reach *before = reach - 1;
        if (before->name != reach->name)
            continue;
        if (before->end_ns > reach->end_ns)
            reach->end_ns = before->end_ns;
        if (before->ttl_ms > reach->ttl_ms)
            reach->ttl_ms = before->ttl_ms;
    }
}

/* Of the acquires of this name that had begun at t; NULL: there was none. */
static const struct reach *reach_at(const struct keys *keys, const struct word *name, int64_t t)
{
    struct reach wanted = {.name = name, .begin_ns = t};
    size_t low = 0, high = keys->reach_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_reach(&keys->reaches[middle], &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && keys->reaches[low - 1].name == name ? &keys->reaches[low - 1] : NULL;
}

/* What is known of the attempt behind a key. */
struct attempt {
    int64_t sent_ns;  /* nothing was sent for it later; NEVER: it goes on */
    int64_t over_ns;  /* its keys should be gone; NEVER: it is held */
    int64_t alive_ns; /* keys may be born until a ttl after this; NEVER */
    int64_t ttl_ms;
    long lease;
};

static struct attempt of_holding(const struct book *book, const struct life *life)
{
    const struct holding *holding = &book->holdings.row[life->holding];
    int64_t sent_ns = holding->sent_ns, until_ns = holding->lease.until_ns;

    return (struct attempt){.sent_ns = sent_ns,
                            .over_ns = holding->released_ns,
                            .alive_ns = sent_ns > until_ns ? sent_ns : until_ns,
                            .ttl_ms = holding->ttl_ms,
                            .lease = life->holding};
}

static struct attempt of_call(const struct book *book, const struct life *life)
{
    const struct call *call = &book->calls.row[life->call];

    return (struct attempt){.sent_ns = call->returned_ns,
                            .over_ns = call->returned_ns,
                            .alive_ns = call->returned_ns,
                            .ttl_ms = call->ttl_ms >= 0 ? call->ttl_ms : book->max_ttl_ms,
                            .lease = -1};
}

static struct attempt of_nobody(const struct keys *keys, const struct life *life)
{
    const struct reach *reach = reach_at(keys, life->name, life->seen_ns);
    int64_t end_ns = reach != NULL ? reach->end_ns : NEVER;

    return (struct attempt){.sent_ns = life->renewed_ns, /* something was, shortly before */
                            .over_ns = end_ns,
                            .alive_ns = end_ns,
                            .ttl_ms = reach != NULL ? reach->ttl_ms : keys->book->max_ttl_ms,
                            .lease = -1};
}

static struct attempt attempt_of(const struct keys *keys, const struct life *life)
{
    if (life->holding >= 0)
        return of_holding(keys->book, life);
    return life->call >= 0 ? of_call(keys->book, life) : of_nobody(keys, life);
}

/* Down or frozen at some time between. */
static bool was_away(const struct book *book, unsigned node, int64_t from, int64_t to)
{
    for (size_t i = 0; i < book->spans.count; i++) {
        const struct span *span = &book->spans.row[i];
        if (span->node == node && span->what[0] != 'b' && span->begin_ns <= to &&
            span->end_ns >= from)
            return true;
    }
    return false;
}

static bool is_excused(const struct book *book, const struct life *life, int64_t from, int64_t to,
                       int64_t limit_ns)
{
    int64_t passed_ns = clock_shows(book, life->node, to) - clock_shows(book, life->node, from);

    return passed_ns <= limit_ns || was_away(book, life->node, from, to);
}

static struct place at_key(const struct life *life, const struct attempt *attempt)
{
    return (struct place){
        .t = life->seen_ns, .records = {life->i, -1}, .leases = {attempt->lease, -1}};
}

static void judge_orphan(struct keys *keys, const struct life *life, const struct attempt *attempt,
                         int64_t end_ns)
{
    struct book *book = keys->book;
    int64_t limit_ns = (attempt->ttl_ms + ORPHAN_SLACK_MS) * MS;

    if (attempt->sent_ns == NEVER || end_ns - attempt->sent_ns <= limit_ns)
        return;
    if (is_excused(book, life, attempt->sent_ns, end_ns, limit_ns)) {
        keys->excused++;
        return;
    }
    book_violation(book, 6, at_key(life, attempt),
                   "\"%s\": node %u kept the key of %s for %.0f ms after the last request, ttl "
                   "%" PRId64 " ms",
                   life->name->text, life->node, life->owner->text,
                   (double)(end_ns - attempt->sent_ns) / (double)MS, attempt->ttl_ms);
}

static void judge_life(struct keys *keys, const struct life *life)
{
    struct book *book = keys->book;
    struct attempt attempt = attempt_of(keys, life);
    int64_t end_ns = clock_reaches(book, life->node, life->seen_ns, life->when_ms, NEVER);

    end_ns = life->gone_ns < end_ns ? life->gone_ns : end_ns;
    end_ns = book->analysis.end_ns < end_ns ? book->analysis.end_ns : end_ns;
    if (attempt.over_ns != NEVER && end_ns - attempt.over_ns > GHOST_SLACK_MS * MS)
        keys->ages[keys->ages_count++] = end_ns - attempt.over_ns;
    if (attempt.alive_ns != NEVER && life->seen_ns - attempt.alive_ns > attempt.ttl_ms * MS)
        keys->late++;
    judge_orphan(keys, life, &attempt, end_ns);
}

void check_orphans(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[5];
    struct keys keys = {.book = book, .ages = table_take(book->lives.count, sizeof(int64_t))};

    find_reaches(&keys);
    for (size_t i = 0; i < book->lives.count; i++)
        judge_life(&keys, &book->lives.row[i]);
    checker->checked = book->lives.count;
    checker->ran = checker->checked > 0;
    if (checker->ran) {
        book_metric(book, 0, (double)checker->found, "c6.orphans");
        book_metric(book, 0, (double)keys.excused, "c6.excused");
        book_metric(book, 0, (double)keys.ages_count, "c6.ghosts");
        book_metric(book, 0, (double)keys.late, "c6.late_births");
    }
    if (keys.ages_count > 0) {
        numbers_sort(keys.ages, keys.ages_count);
        book_metric(book, 0,
                    (double)numbers_percentile(keys.ages, keys.ages_count, 0.99) / (double)MS,
                    "c6.ghost_p99_ms");
    }
    free(keys.reaches);
    free(keys.ages);
}
