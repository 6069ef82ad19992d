/*
 * Leases as their workers claimed them. A claim begins when acquire has returned, and ends at the
 * last deadline told, or before it, when the worker begins to release, is told that the lease is
 * lost, finds that it isn't held, or is dead. A frozen worker goes on claiming until its deadline:
 * it can't know better.
 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint64_t granted_by(const struct book *book, const struct call *call)
{
    uint64_t mask = 0;

    for (size_t k = call->answers; k < call->answers + call->answer_count; k++) {
        const struct answer *answer = &book->answers.row[k];
        if (strcmp(book->votes.word[answer->vote]->text, "ours") == 0)
            mask |= UINT64_C(1) << (answer->node - 1);
    }
    return mask;
}

static struct holding holding_of(const struct book *book, size_t index)
{
    const struct call *call = &book->calls.row[index];
    struct holding holding = {.name = call->name,
                              .owner = call->owner,
                              .call = index,
                              .asked_ns = call->invoked_ns,
                              .sent_ns = call->returned_ns,
                              .ttl_ms = call->ttl_ms >= 0 ? call->ttl_ms : book->ttl_ms,
                              .release_ns = NEVER,
                              .released_ns = NEVER,
                              .told_ns = NEVER,
                              .granted = granted_by(book, call)};
    struct lease *lease = &holding.lease;

    lease->worker = call->worker;
    lease->name = call->name->text;
    memcpy(lease->owner, call->owner->text, strlen(call->owner->text) + 1);
    lease->number = call->number;
    lease->fence = call->fence;
    lease->asked_ns = call->invoked_ns;
    lease->held_ns = call->returned_ns;
    lease->claimed_ns = call->deadline_ns;
    lease->true_ns = INT64_MIN;
    lease->record = call->returned_i;
    return holding;
}

/* When the worker learnt that it holds nothing; without its deadline and its death. */
struct course {
    int64_t claim_ns; /* when the deadline in force was told */
    int64_t over_ns;
};

static void claim(struct holding *holding, struct course *course, int64_t t, int64_t deadline_ns)
{
    if (t < course->claim_ns)
        return; /* an older word */
    course->claim_ns = t;
    holding->lease.claimed_ns = deadline_ns;
    holding->extended = true;
}

static void apply_call(const struct book *book, struct holding *holding, struct course *course,
                       const struct call *call)
{
    const char *rc = book->results.count > 0 ? book->results.word[call->code]->text : "";

    holding->sent_ns =
        later(holding->sent_ns, call->returned_ns != NEVER ? call->returned_ns : call->invoked_ns);
    holding->ttl_ms = later(holding->ttl_ms, call->ttl_ms);
    if (call->op == OP_RELEASE) {
        holding->found |= granted_by(book, call);
        holding->release_ns = earlier(holding->release_ns, call->invoked_ns);
        holding->released_ns = earlier(holding->released_ns, call->returned_ns);
    } else if (call->op == OP_EXTEND && call->returned_ns != NEVER) {
        if (call->ok)
            claim(holding, course, call->returned_ns, call->deadline_ns);
        else if (strcmp(rc, "lost") == 0 || strcmp(rc, "expired") == 0)
            course->over_ns = earlier(course->over_ns, call->returned_ns);
    }
}

static void apply_notice(struct holding *holding, struct course *course,
                         const struct notice *notice)
{
    if (notice->kind == NOTICE_RENEWED) {
        claim(holding, course, notice->t, notice->deadline_ns);
        holding->sent_ns = later(holding->sent_ns, notice->t);
    } else if (notice->kind == NOTICE_HELD) {
        holding->believed_ns = later(holding->believed_ns, notice->t);
    } else if (notice->kind == NOTICE_LOST || notice->kind == NOTICE_NOT_HELD) {
        course->over_ns = earlier(course->over_ns, notice->t);
        if (notice->kind == NOTICE_LOST)
            holding->told_ns = earlier(holding->told_ns, notice->t);
    }
}

static void conclude(const struct book *book, struct holding *holding, struct course *course)
{
    struct lease *lease = &holding->lease;
    int64_t gone_ns = book->people.row[lease->worker].gone_ns;
    int64_t end_ns = earlier(earlier(course->over_ns, holding->release_ns), lease->claimed_ns);

    lease->released = holding->release_ns != NEVER;
    lease->lost = holding->told_ns != NEVER;
    lease->killed = gone_ns < end_ns && !book->people.row[lease->worker].left;
    end_ns = earlier(end_ns, gone_ns);
    lease->until_ns = later(end_ns, lease->held_ns); /* may be over before it is known */
}

static int by_notice(const void *a, const void *b)
{
    const struct notice *x = a, *y = b;
    int order;

    if ((order = order_of(x->worker, y->worker)) != 0 ||
        (order = order_of(x->number, y->number)) != 0 || (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static bool belongs(const struct lease *lease, unsigned worker, int64_t number)
{
    return lease->worker == worker && lease->number == number;
}

/* The first notice of this try or of a later one. */
static size_t first_notice(const struct book *book, const struct lease *lease)
{
    size_t low = 0, high = book->notices.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct notice *notice = &book->notices.row[middle];
        if (notice->worker < lease->worker ||
            (notice->worker == lease->worker && notice->number < lease->number))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void follow(const struct book *book, struct holding *holding)
{
    struct course course = {.claim_ns = holding->lease.held_ns, .over_ns = NEVER};
    const struct lease *lease = &holding->lease;

    for (size_t i = holding->call + 1; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        if (!belongs(lease, call->worker, call->number) || call->op == OP_ACQUIRE)
            break;
        apply_call(book, holding, &course, call);
    }
    for (size_t i = first_notice(book, lease); i < book->notices.count; i++) {
        const struct notice *notice = &book->notices.row[i];
        if (!belongs(lease, notice->worker, notice->number))
            break;
        apply_notice(holding, &course, notice);
    }
    conclude(book, holding, &course);
}

static int by_held(const void *a, const void *b)
{
    const struct lease *x = &((const struct holding *)a)->lease;
    const struct lease *y = &((const struct holding *)b)->lease;
    int order = order_of(x->held_ns, y->held_ns);

    return order != 0 ? order : order_of(x->record, y->record);
}

struct keyed {
    unsigned worker;
    int64_t number;
    size_t index;
};

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    int order;

    if ((order = order_of(x->worker, y->worker)) != 0 ||
        (order = order_of(x->number, y->number)) != 0)
        return order;
    return order_of((int64_t)x->index, (int64_t)y->index);
}

static void index_tries(struct book *book)
{
    size_t count = book->holdings.count;
    struct keyed *keyed = table_take(count, sizeof *keyed);

    for (size_t i = 0; i < count; i++) {
        const struct lease *lease = &book->holdings.row[i].lease;
        keyed[i] = (struct keyed){lease->worker, lease->number, i};
    }
    table_sort(keyed, count, sizeof *keyed, by_key);
    for (size_t i = 0; i < count; i++)
        *TABLE_ADD(&book->by_try) = keyed[i].index;
    free(keyed);
}

long book_holding(const struct book *book, unsigned worker, int64_t number)
{
    size_t low = 0, high = book->by_try.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct lease *lease = &book->holdings.row[book->by_try.row[middle]].lease;
        if (lease->worker < worker || (lease->worker == worker && lease->number < number))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == book->by_try.count ||
        !belongs(&book->holdings.row[book->by_try.row[low]].lease, worker, number))
        return -1;
    return (long)book->by_try.row[low];
}

void book_leases(struct book *book)
{
    TABLE_SORT(&book->notices, by_notice);
    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        if (call->op == OP_ACQUIRE && call->returned_ns != NEVER && call->ok) {
            struct holding holding = holding_of(book, i);
            follow(book, &holding);
            *TABLE_ADD(&book->holdings) = holding;
        }
    }
    TABLE_SORT(&book->holdings, by_held);
    index_tries(book);
}
