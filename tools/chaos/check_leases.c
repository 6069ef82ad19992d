/* C1, C4, C5: leases of a name against each other, as their workers saw them. */
#include "book.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *who(const struct book *book, const struct lease *lease)
{
    return book->people.row[lease->worker].name->text;
}

static double in_ms(int64_t ns)
{
    return (double)ns / (double)MS;
}

static struct place between(const struct book *book, size_t a, size_t b, int64_t t)
{
    return (struct place){
        .t = t,
        .records = {book->holdings.row[a].lease.record, book->holdings.row[b].lease.record},
        .leases = {(long)a, (long)b}};
}

/* Indices of holdings, sorted by name and by something else. Holdings are sorted by the time they
 * were got, and so are indices, where nothing else decides. */
struct entry_row {
    uint32_t name;
    int64_t key;
    size_t index;
};

static int by_entry(const void *a, const void *b)
{
    const struct entry_row *x = a, *y = b;
    int order;

    if ((order = order_of(x->name, y->name)) != 0 || (order = order_of(x->key, y->key)) != 0)
        return order;
    return order_of((int64_t)x->index, (int64_t)y->index);
}

typedef int64_t key_of(const struct lease *lease);

static int64_t held_of(const struct lease *lease)
{
    return lease->held_ns;
}

static int64_t asked_of(const struct lease *lease)
{
    return lease->asked_ns;
}

static int64_t fence_of(const struct lease *lease)
{
    return lease->fence;
}

static struct entry_row *sorted(const struct book *book, key_of *key, bool fenced, size_t *count)
{
    struct entry_row *rows = table_take(book->holdings.count, sizeof *rows);

    *count = 0;
    for (size_t i = 0; i < book->holdings.count; i++) {
        const struct holding *holding = &book->holdings.row[i];
        if (!fenced || holding->lease.fence > 0)
            rows[(*count)++] = (struct entry_row){holding->name->number, key(&holding->lease), i};
    }
    table_sort(rows, *count, sizeof *rows, by_entry);
    return rows;
}

/* ---- C1 --------------------------------------------------------------------- */

static int64_t overlap(struct book *book, size_t first, size_t second)
{
    const struct lease *a = &book->holdings.row[first].lease;
    const struct lease *b = &book->holdings.row[second].lease;
    int64_t end_ns = a->until_ns < b->until_ns ? a->until_ns : b->until_ns;
    char faults[300];

    if (end_ns <= b->held_ns)
        return 0; /* touching is not overlapping */
    book_violation(
        book, 1, between(book, first, second, b->held_ns),
        "\"%s\": %s (try %" PRId64 ") and %s (try %" PRId64 ") both claim it for %.6f ms%s",
        a->name, who(book, a), a->number, who(book, b), b->number, in_ms(end_ns - b->held_ns),
        book_faults(book, b->held_ns, end_ns, faults, sizeof faults));
    return end_ns - b->held_ns;
}

/* A client may claim longer than it says: when is_held() is true after the deadline. A millisecond
 * is for the two clocks that the deadline was carried between. */
static bool check_belief(struct book *book, size_t index)
{
    const struct holding *holding = &book->holdings.row[index];
    const struct lease *lease = &holding->lease;

    if (holding->believed_ns <= lease->claimed_ns + MS)
        return false;
    book_violation(
        book, 1,
        (struct place){
            .t = holding->believed_ns, .records = {lease->record, -1}, .leases = {(long)index, -1}},
        "\"%s\": %s (try %" PRId64 ") believes in it %.3f ms after its deadline", lease->name,
        who(book, lease), lease->number, in_ms(holding->believed_ns - lease->claimed_ns));
    return true;
}

static unsigned group_of(const struct book *book, size_t index)
{
    return book_group(book, book->holdings.row[index].lease.held_ns);
}

void check_claims(struct book *book)
{
    size_t count, last = 0;
    struct entry_row *rows = sorted(book, held_of, false, &count);
    struct checker *checker = &book->analysis.checkers[0];
    struct tally tally = {0};
    int64_t longest_ns = 0;

    checker->checked = count;
    checker->ran = count > 0;
    for (size_t i = 0; i < count; i++) { /* last: the one of this name that claims longest */
        const struct lease *lease = &book->holdings.row[rows[i].index].lease;
        unsigned group = group_of(book, rows[i].index);
        tally.checked[group]++;
        tally.found[group] += check_belief(book, rows[i].index);
        if (i > 0 && rows[i].name == rows[last].name) {
            int64_t ns = overlap(book, rows[last].index, rows[i].index);
            longest_ns = ns > longest_ns ? ns : longest_ns;
            tally.found[group_of(book, rows[last].index)] += ns > 0;
            if (lease->until_ns <= book->holdings.row[rows[last].index].lease.until_ns)
                continue;
        }
        last = i;
    }
    free(rows);
    if (!checker->ran)
        return;
    book_metric(book, 0, (double)checker->found, "c1.overlaps");
    book_metric(book, 0, in_ms(longest_ns), "c1.longest_ms");
    book_tally(book, &tally, "c1.overlaps");
}

/* ---- C4 --------------------------------------------------------------------- */

static void check_distinct(struct book *book)
{
    size_t count;
    struct entry_row *rows = sorted(book, fence_of, true, &count);

    for (size_t i = 1; i < count; i++) {
        const struct lease *a = &book->holdings.row[rows[i - 1].index].lease;
        const struct lease *b = &book->holdings.row[rows[i].index].lease;
        if (rows[i].name == rows[i - 1].name && a->fence == b->fence)
            book_violation(book, 4, between(book, rows[i - 1].index, rows[i].index, b->held_ns),
                           "\"%s\": %s and %s both have the token %" PRId64, a->name, who(book, a),
                           who(book, b), a->fence);
    }
    free(rows);
}

/* Those that had returned before another was asked for have smaller tokens. */
static void check_rising(struct book *book)
{
    size_t count, next = 0, top = 0;
    struct entry_row *asked = sorted(book, asked_of, true, &count);
    struct entry_row *held = sorted(book, held_of, true, &count);
    bool any = false; /* top is one of this name */

    for (size_t i = 0; i < count; i++) {
        const struct lease *b = &book->holdings.row[asked[i].index].lease, *a;
        if (i > 0 && asked[i].name != asked[i - 1].name)
            any = false;
        while (next < count &&
               (held[next].name < asked[i].name ||
                (held[next].name == asked[i].name && held[next].key < b->asked_ns))) {
            size_t index = held[next].index;
            if (held[next].name == asked[i].name &&
                (!any ||
                 book->holdings.row[index].lease.fence > book->holdings.row[top].lease.fence)) {
                top = index;
                any = true;
            }
            next++;
        }
        a = &book->holdings.row[top].lease;
        if (any && a->fence > b->fence)
            book_violation(book, 4, between(book, top, asked[i].index, b->held_ns),
                           "\"%s\": %s had the token %" PRId64 " before %s asked and got %" PRId64,
                           a->name, who(book, a), a->fence, who(book, b), b->fence);
    }
    book->analysis.checkers[3].checked = count;
    free(asked);
    free(held);
}

static void check_given(struct book *book)
{
    for (size_t i = 0; i < book->holdings.count; i++) {
        const struct holding *holding = &book->holdings.row[i];
        const struct lease *lease = &holding->lease;
        if (book->calls.row[holding->call].fenced && lease->fence <= 0)
            book_violation(book, 4,
                           (struct place){.t = lease->held_ns,
                                          .records = {lease->record, -1},
                                          .leases = {(long)i, -1}},
                           "\"%s\": %s (try %" PRId64 ") asked for a token and got none",
                           lease->name, who(book, lease), lease->number);
    }
}

void check_fences(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[3];

    check_given(book);
    check_distinct(book);
    check_rising(book);
    checker->ran = checker->checked > 0;
    if (!checker->ran)
        return;
    book_metric(book, 0, (double)checker->found, "c4.disorders");
    book_metric(book, 0, (double)checker->checked, "c4.tokens");
}

/* ---- C5 --------------------------------------------------------------------- */

static int by_sequence(const void *a, const void *b)
{
    const struct written_row *x = a, *y = b;
    int order;

    if ((order = order_of(x->name->number, y->name->number)) != 0 ||
        (order = order_of(x->fenced, y->fenced)) != 0 ||
        (order = order_of(x->sequence, y->sequence)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static void check_accepted(struct book *book)
{
    const struct written_row *top = NULL;

    for (size_t i = 0; i < book->writes.count; i++) {
        const struct written_row *row = &book->writes.row[i];
        if (!row->fenced || !row->accepted)
            continue;
        if (top != NULL && top->name == row->name && row->fence < top->fence) {
            book_violation(
                book, 5, (struct place){row->t, {top->i, row->i}, {-1, -1}},
                "\"%s\": %s's write with the token %" PRId64 " was taken after one with %" PRId64,
                row->name->text, book->people.row[row->worker].name->text, row->fence, top->fence);
            continue;
        }
        top = row;
    }
}

void check_writes(struct book *book)
{
    struct checker *checker = &book->analysis.checkers[4];
    size_t fenced = 0, plain_stale = 0, refused = 0;

    TABLE_SORT(&book->writes, by_sequence);
    check_accepted(book);
    for (size_t i = 0; i < book->writes.count; i++) {
        const struct written_row *row = &book->writes.row[i];
        fenced += row->fenced;
        plain_stale += !row->fenced && row->stale && row->accepted;
        refused += row->fenced && row->stale && !row->accepted;
    }
    checker->checked = fenced;
    checker->ran = fenced > 0;
    if (checker->ran)
        book_metric(book, 0, (double)checker->found, "c5.accepted_stale");
    if (book->writes.count == 0)
        return;
    book_metric(book, 0, (double)plain_stale, "stale.plain");
    book_metric(book, 0, (double)refused, "stale.refused");
    book_metric(book, 0, (double)(book->writes.count - fenced), "writes.plain");
    book_metric(book, 0, (double)fenced, "writes.fenced");
}
