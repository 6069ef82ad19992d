#include "book.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory --------------------------------------------------------------- */

static void *checked(void *memory)
{
    if (memory != NULL)
        return memory;
    (void)fputs("redlock-chaos: out of memory\n", stderr);
    abort();
}

void *table_take(size_t count, size_t size)
{
    return checked(calloc(count > 0 ? count : 1, size));
}

void *table_room(void *rows, size_t count, size_t *room, size_t size)
{
    if (count == *room) {
        *room = *room > 0 ? *room * 2 : 16;
        rows = checked(reallocarray(rows, *room, size));
    }
    memset((char *)rows + count * size, 0, size);
    return rows;
}

void table_sort(void *rows, size_t count, size_t size, table_order *order)
{
    if (count > 1)
        qsort(rows, count, size, order);
}

/* ---- words ---------------------------------------------------------------- */

static uint32_t hash_of(const char *text, size_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static struct word **slot_of(struct book *book, uint32_t hash, const char *text, size_t length)
{
    size_t mask = book->word_room - 1, at = hash & mask;

    for (; book->words[at] != NULL; at = (at + 1) & mask) {
        const struct word *word = book->words[at];
        if (word->hash == hash && strncmp(word->text, text, length) == 0 &&
            word->text[length] == '\0')
            break;
    }
    return &book->words[at];
}

static void rehash(struct book *book)
{
    struct word **old = book->words;
    size_t room = book->word_room;

    book->word_room = room * 2;
    book->words = table_take(book->word_room, sizeof(struct word *));
    for (size_t i = 0; i < room; i++)
        if (old[i] != NULL)
            *slot_of(book, old[i]->hash, old[i]->text, strlen(old[i]->text)) = old[i];
    free(old);
}

static const struct word *word_of(struct book *book, const char *text, size_t length)
{
    uint32_t hash = hash_of(text, length);
    struct word **slot = slot_of(book, hash, text, length);
    struct word *word = *slot;

    if (word != NULL)
        return word;
    word = table_take(1, sizeof *word + length + 1);
    word->number = (uint32_t)book->word_count++;
    word->hash = hash;
    word->worker = -1;
    memcpy(word->text, text, length);
    *slot = word;
    if (book->word_count * 2 > book->word_room)
        rehash(book);
    return word;
}

const struct word *book_word(struct book *book, const char *text)
{
    return word_of(book, text, strlen(text));
}

const struct word *book_owner(struct book *book, const char *text)
{
    return word_of(book, text, strnlen(text, OWNER_SIZE - 1));
}

int book_code(struct codes *codes, const struct word *word)
{
    unsigned i = 0;

    while (i < codes->count && codes->word[i] != word)
        i++;
    if (i == CODES_MAX)
        return -1;
    if (i == codes->count)
        codes->word[codes->count++] = word;
    return (int)i;
}

unsigned book_worker(struct book *book, const struct word *name, int64_t i)
{
    struct word *word = *slot_of(book, name->hash, name->text, strlen(name->text));
    struct person *person;

    if (word->worker < 0) {
        word->worker = (long)book->people.count;
        person = TABLE_ADD(&book->people);
        person->name = name;
        person->role = book->empty;
        person->gone_ns = NEVER;
        person->mentioned = i;
    }
    return (unsigned)word->worker;
}

long book_numbered(const struct book *book, int64_t number)
{
    for (size_t i = 0; i < book->people.count; i++)
        if (book->people.row[i].number == number)
            return (long)i;
    return -1;
}

/* ---- the book --------------------------------------------------------------- */

struct book *book_new(void)
{
    struct book *book = table_take(1, sizeof *book);

    book->word_room = 1024;
    book->words = table_take(book->word_room, sizeof(struct word *));
    book->empty = book_word(book, "");
    book->groups[0] = book->empty->text;
    book->group_count = 1;
    return book;
}

static void free_rows(struct book *book)
{
    free(book->people.row);
    free(book->calls.row);
    free(book->answers.row);
    free(book->notices.row);
    free(book->steps.row);
    free(book->writes.row);
    free(book->weights.row);
    free(book->marks.row);
    free(book->changes.row);
    free(book->pieces.row);
    free(book->halves.row);
    free(book->freezes.row);
    free(book->turns.row);
    free(book->reasons.row);
    free(book->values.row);
    free(book->holdings.row);
    free(book->by_try.row);
    free(book->lives.row);
}

static void free_results(struct book *book)
{
    for (size_t i = 0; i < book->violations.count; i++)
        free(book->violations.row[i].text);
    for (size_t i = 0; i < book->metrics.count; i++)
        free(book->metrics.row[i].name);
    free(book->phases.row);
    free(book->faults.row);
    free(book->probes.row);
    free(book->points.row);
    free(book->spans.row);
    free(book->offsets.row);
    free(book->violations.row);
    free(book->metrics.row);
    free(book->expectations.row);
    free(book->analysis.workers);
    free(book->analysis.roles);
    free(book->analysis.leases);
    free(book->analysis.reason);
    json_decref(book->analysis.run);
}

void book_free(struct book *book)
{
    if (book == NULL)
        return;
    free_rows(book);
    free_results(book);
    for (size_t i = 0; i < book->word_room; i++)
        free(book->words[i]);
    free(book->words);
    free(book);
}

/* ---- results ---------------------------------------------------------------- */

__attribute__((format(printf, 1, 0))) static char *print(const char *format, va_list arguments)
{
    char *text = NULL;

    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    return checked(text);
}

void book_metric(struct book *book, unsigned group, double value, const char *format, ...)
{
    struct metric *metric = TABLE_ADD(&book->metrics);
    va_list arguments;

    va_start(arguments, format);
    metric->name = print(format, arguments);
    va_end(arguments);
    /* A word's text or a constant: never written to, though the interface says char. */
    metric->phase = (char *)(uintptr_t)book->groups[group];
    metric->value = value;
}

void book_tally(struct book *book, const struct tally *tally, const char *name)
{
    for (unsigned group = 1; group < book->group_count; group++)
        if (tally->checked[group] > 0)
            book_metric(book, group, (double)tally->found[group], "%s", name);
}

void book_violation(struct book *book, int checker, struct place place, const char *format, ...)
{
    struct violation *violation;
    va_list arguments;

    book->analysis.checkers[checker - 1].found++;
    if (book->violations.count >= VIOLATIONS_MAX)
        return;
    violation = TABLE_ADD(&book->violations);
    violation->checker = checker;
    violation->t = place.t;
    for (int i = 0; i < 2; i++) {
        violation->records[i] = place.records[i];
        violation->leases[i] = place.leases[i];
    }
    va_start(arguments, format);
    violation->text = print(format, arguments);
    va_end(arguments);
}

const char *book_faults(const struct book *book, int64_t from, int64_t to, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < book->faults.count && used < size; i++) {
        const struct fault *fault = &book->faults.row[i];
        if (fault->begin_ns <= to && fault->end_ns >= from)
            used += (size_t)snprintf(text + used, size - used, "%s%s",
                                     used > 0 ? ", " : ", during ", fault->action);
    }
    return text;
}
