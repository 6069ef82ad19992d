/* The file, line by line. Only whole lines count: a run that was killed leaves a part of one. */
#include "book.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

/* A line that does not end is the last one, and is not wrong if the run did not end either. */
static bool is_cut(const struct book *book, const char *bytes, size_t length)
{
    return bytes[length - 1] != '\n' && !book->ended;
}

static bool read_line(struct book *book, const char *bytes, size_t length, struct line *line)
{
    json_error_t error;
    json_t *record = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &error);

    line->number = ++book->line;
    line->type = "record";
    if (record == NULL && is_cut(book, bytes, length)) {
        book->cut = true;
        return true;
    }
    if (json_is_object(record)) {
        line->record = record;
        book_record(book, line);
    } else {
        line->wrong = true;
        (void)snprintf(
            line->text, line->text_size, "line %zu: %s%s", line->number,
            record != NULL ? "not an object" : "not JSON: ", record != NULL ? "" : error.text);
    }
    json_decref(record);
    return !line->wrong;
}

static bool read_lines(struct book *book, FILE *stream, char *text, size_t text_size)
{
    struct line line = {.text = text, .text_size = text_size};
    char *bytes = NULL;
    size_t room = 0;
    ssize_t length;
    bool good = true;

    while (good && (length = getline(&bytes, &room, stream)) > 0)
        good = read_line(book, bytes, (size_t)length, &line);
    if (good && ferror(stream)) {
        (void)snprintf(text, text_size, "after line %zu: %s", book->line, strerror(errno));
        good = false;
    }
    free(bytes);
    return good;
}

bool book_read(struct book *book, const char *path, char *text, size_t text_size)
{
    FILE *stream = fopen(path, "re");
    bool good;

    if (stream == NULL) {
        (void)snprintf(text, text_size, "%s", strerror(errno));
        return false;
    }
    good = read_lines(book, stream, text, text_size);
    (void)fclose(stream);
    if (good && book->analysis.run == NULL) {
        (void)snprintf(text, text_size, "there is no record of type \"run\" in it");
        good = false;
    }
    return good;
}
