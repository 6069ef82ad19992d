/* The stages of an analysis in their order; see book.h. */
#include "book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const titles[CHECKERS] = {
    "claimed overlap", "witness overlap", "validity truth", "fence order", "fence effect",
    "orphans",         "deadlines",       "liveness",       "reasons",     "hygiene",
};

static void check_all(struct book *book)
{
    for (int i = 0; i < CHECKERS; i++)
        book->analysis.checkers[i].title = titles[i];
    check_claims(book);
    check_witness(book);
    check_truth(book);
    check_fences(book);
    check_writes(book);
    check_orphans(book);
    check_deadlines(book);
    check_liveness(book);
    check_reasons(book);
    check_hygiene(book);
}

static void publish_people(struct book *book)
{
    struct analysis *analysis = &book->analysis;

    analysis->worker_count = book->people.count;
    analysis->workers = table_take(book->people.count, sizeof(char *));
    analysis->roles = table_take(book->people.count, sizeof(char *));
    for (size_t i = 0; i < book->people.count; i++) {
        analysis->workers[i] = (char *)(uintptr_t)book->people.row[i].name->text;
        analysis->roles[i] = (char *)(uintptr_t)book->people.row[i].role->text;
    }
}

static void publish_leases(struct book *book)
{
    struct analysis *analysis = &book->analysis;

    analysis->lease_count = book->holdings.count;
    analysis->leases = table_take(book->holdings.count, sizeof(struct lease));
    for (size_t i = 0; i < book->holdings.count; i++)
        analysis->leases[i] = book->holdings.row[i].lease;
}

/* The rows stay the book's. */
#define PUBLISH(table, rows, number)                                                               \
    (analysis->rows = book->table.row, analysis->number = book->table.count)

static void publish(struct book *book)
{
    struct analysis *analysis = &book->analysis;

    publish_people(book);
    publish_leases(book);
    PUBLISH(phases, phases, phase_count);
    PUBLISH(faults, faults, fault_count);
    PUBLISH(probes, probes, probe_count);
    PUBLISH(points, points, point_count);
    PUBLISH(spans, spans, span_count);
    PUBLISH(offsets, offsets, offset_count);
    PUBLISH(violations, violations, violation_count);
    PUBLISH(metrics, metrics, metric_count);
    PUBLISH(expectations, expectations, expectation_count);
}

struct analysis *analysis_of(const char *path, char *text, size_t text_size)
{
    struct book *book = book_new();

    if (!book_read(book, path, text, text_size) || !book_arrange(book, text, text_size)) {
        book_free(book);
        return NULL;
    }
    book_lives(book);
    check_all(book);
    measure(book);
    publish(book);
    judge(book);
    return &book->analysis;
}

void analysis_free(struct analysis *analysis)
{
    book_free((struct book *)analysis); /* its first member */
}
