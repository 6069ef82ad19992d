#include "fields.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void line_wrong(struct line *line, const char *field, const char *format, ...)
{
    char what[160];
    va_list arguments;

    if (line->wrong)
        return; /* the first one is the one to tell */
    line->wrong = true;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    (void)snprintf(line->text, line->text_size, "line %zu: %s: %s %s", line->number, line->type,
                   field, what);
}

struct line line_inside(struct line *line, const json_t *object, const char *field)
{
    struct line inside = *line;

    if (!json_is_object(object)) {
        line_wrong(line, field, "has an element that is not an object");
        inside = *line;
    }
    inside.record = object;
    return inside;
}

static const json_t *value_of(const struct line *line, const char *field)
{
    const json_t *value = json_object_get(line->record, field);

    return json_is_null(value) ? NULL : value;
}

static const json_t *needed(struct line *line, const char *field)
{
    const json_t *value = value_of(line, field);

    if (value == NULL)
        line_wrong(line, field, "is missing");
    return value;
}

static int64_t int_of(struct line *line, const char *field, const json_t *value, struct range range)
{
    int64_t number = json_integer_value(value);

    if (json_is_integer(value) && number >= range.low && number <= range.high)
        return number;
    line_wrong(line, field, "is not a whole number from %" PRId64 " to %" PRId64, range.low,
               range.high);
    return range.low;
}

int64_t field_int(struct line *line, const char *field, struct range range)
{
    const json_t *value = needed(line, field);

    return value != NULL ? int_of(line, field, value, range) : range.low;
}

int64_t field_int_or(struct line *line, const char *field, struct range range, int64_t otherwise)
{
    const json_t *value = value_of(line, field);

    return value != NULL ? int_of(line, field, value, range) : otherwise;
}

double field_real(struct line *line, const char *field)
{
    const json_t *value = needed(line, field);

    if (value != NULL && !json_is_number(value))
        line_wrong(line, field, "is not a number");
    return json_number_value(value);
}

static bool bool_of(struct line *line, const char *field, const json_t *value)
{
    if (!json_is_boolean(value))
        line_wrong(line, field, "is not true or false");
    return json_is_true(value);
}

bool field_bool(struct line *line, const char *field)
{
    const json_t *value = needed(line, field);

    return value != NULL && bool_of(line, field, value);
}

bool field_bool_or(struct line *line, const char *field, bool otherwise)
{
    const json_t *value = value_of(line, field);

    return value != NULL ? bool_of(line, field, value) : otherwise;
}

static const char *text_of(struct line *line, const char *field, const json_t *value)
{
    if (json_is_string(value))
        return json_string_value(value);
    line_wrong(line, field, "is not text");
    return "";
}

const char *field_text(struct line *line, const char *field)
{
    const json_t *value = needed(line, field);

    return value != NULL ? text_of(line, field, value) : "";
}

const char *field_text_or(struct line *line, const char *field, const char *otherwise)
{
    const json_t *value = value_of(line, field);

    return value != NULL ? text_of(line, field, value) : otherwise;
}

int field_choice(struct line *line, const char *field, const char *const *choices)
{
    const char *text = field_text(line, field);

    for (int i = 0; choices[i] != NULL; i++)
        if (strcmp(text, choices[i]) == 0)
            return i;
    line_wrong(line, field, "is \"%.40s\", which is not known", text);
    return 0;
}

const json_t *field_array_or_none(struct line *line, const char *field)
{
    const json_t *value = value_of(line, field);

    if (value == NULL || json_is_array(value))
        return value;
    line_wrong(line, field, "is not an array");
    return NULL;
}

const json_t *field_object_or_none(struct line *line, const char *field)
{
    const json_t *value = value_of(line, field);

    if (value == NULL || json_is_object(value))
        return value;
    line_wrong(line, field, "is not an object");
    return NULL;
}
