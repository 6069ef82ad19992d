/*
 * Fields of a record of unknown origin. The first one that is missing, of another type or out of
 * its range makes the line wrong, and the text says which; whoever reads goes on with harmless
 * values, and looks at `wrong` at the end. null counts as missing.
 */
#ifndef CHAOS_FIELDS_H
#define CHAOS_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct line {
    size_t number;        /* from 1 */
    const json_t *record; /* an object */
    const char *type;     /* of the record, for the text */
    char *text;
    size_t text_size;
    bool wrong;
};

void line_wrong(struct line *line, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Another object of the same line, e.g. an element of an array; the line goes wrong with it. */
struct line line_inside(struct line *line, const json_t *object, const char *field);

struct range {
    int64_t low, high;
};
int64_t field_int(struct line *line, const char *field, struct range range);
int64_t field_int_or(struct line *line, const char *field, struct range range, int64_t otherwise);
double field_real(struct line *line, const char *field);
bool field_bool(struct line *line, const char *field);
bool field_bool_or(struct line *line, const char *field, bool otherwise);
const char *field_text(struct line *line, const char *field);
const char *field_text_or(struct line *line, const char *field, const char *otherwise);
/* An index into the NULL-terminated list. */
int field_choice(struct line *line, const char *field, const char *const *choices);
/* NULL: there is none. */
const json_t *field_array_or_none(struct line *line, const char *field);
const json_t *field_object_or_none(struct line *line, const char *field);

#endif
