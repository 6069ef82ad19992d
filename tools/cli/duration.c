/*
 * Reading and writing durations.
 *
 * A unit is required, because "10" means seconds to users of flock(1), milliseconds to users of
 * Redis, and a lease that is a thousand times too long or too short is worse than an error.
 * Decimals are exact: the fraction is multiplied by its unit as an integer and refused where less
 * than a millisecond is left over. Everything that does not fit in an int64_t of milliseconds is
 * refused, never wrapped.
 */
#include "duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_FRACTION_DIGITS 9

struct unit {
    const char *name;
    int64_t ms;
};

static const struct unit units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads digits into *value; returns their end, or NULL where they do not fit. */
static const char *read_digits(const char *at, int64_t *value)
{
    *value = 0;
    for (; is_digit(*at); at++) {
        int digit = *at - '0';

        if (*value > (INT64_MAX - digit) / 10)
            return NULL;
        *value = *value * 10 + digit;
    }
    return at;
}

/* The fraction after a point, without trailing zeros, as numerator / 10^digits. */
static const char *read_fraction(const char *at, int64_t *numerator, int64_t *denominator)
{
    const char *end = at;
    const char *last;

    while (is_digit(*end))
        end++;
    for (last = end; last > at && last[-1] == '0'; last--)
        ;
    *numerator = 0;
    *denominator = 1;
    if (end == at || last - at > MAX_FRACTION_DIGITS)
        return NULL;
    for (; at < last; at++) {
        *numerator = *numerator * 10 + (*at - '0');
        *denominator *= 10;
    }
    return end;
}

static const struct unit *find_unit(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

static int refuse(char problem[DURATION_PROBLEM_LEN], const char *reason)
{
    snprintf(problem, DURATION_PROBLEM_LEN, "%s", reason);
    return -1;
}

int duration_parse(const char *text, int64_t *ms, char problem[DURATION_PROBLEM_LEN])
{
    const struct unit *unit;
    int64_t whole, rest, numerator = 0, denominator = 1;
    const char *at;

    if (*text == '-')
        return refuse(problem, "it is negative");
    if (!is_digit(*text))
        return refuse(problem, "write a number and a unit: 500ms, 1.5s, 2m, 1h");
    at = read_digits(text, &whole);
    if (at && *at == '.') {
        at = read_fraction(at + 1, &numerator, &denominator);
        if (!at)
            return refuse(problem,
                          "write a number and a unit, no finer than 1ms: 500ms, 1.5s, 2m, 1h");
    }
    if (!at)
        return refuse(problem, "it is too long");
    if (*at == '\0' && (whole != 0 || numerator != 0)) {
        snprintf(problem, DURATION_PROBLEM_LEN, "the unit is missing; seconds are written %.20ss",
                 text);
        return -1;
    }
    unit = *at == '\0' ? &units[0] : find_unit(at);
    if (!unit)
        return refuse(problem, "its unit must be ms, s, m or h, for example 500ms, 1.5s, 2m, 1h");
    if (numerator * unit->ms % denominator != 0)
        return refuse(problem, "it is finer than 1ms");
    rest = numerator * unit->ms / denominator;
    if (whole > (INT64_MAX - rest) / unit->ms)
        return refuse(problem, "it is too long");
    *ms = whole * unit->ms + rest;
    return 0;
}

int number_parse(const char *text, int64_t min, int64_t max, int64_t *value)
{
    int64_t number;
    const char *end;

    if (!is_digit(*text))
        return -1;
    end = read_digits(text, &number);
    if (!end || *end != '\0' || number < min || number > max)
        return -1;
    *value = number;
    return 0;
}

const char *duration_text(int64_t ms, char text[DURATION_TEXT_LEN])
{
    if (ms < 1000)
        snprintf(text, DURATION_TEXT_LEN, "%" PRId64 " ms", ms);
    else if (ms < 60000)
        snprintf(text, DURATION_TEXT_LEN, "%" PRId64 ".%" PRId64 " s", ms / 1000, ms % 1000 / 100);
    else if (ms < 3600000)
        snprintf(text, DURATION_TEXT_LEN, "%" PRId64 " m %" PRId64 " s", ms / 60000,
                 ms / 1000 % 60);
    else
        snprintf(text, DURATION_TEXT_LEN, "%" PRId64 " h %" PRId64 " m", ms / 3600000,
                 ms / 60000 % 60);
    return text;
}
