/* Numbers are rounded towards the worse: what is not all is never shown as all. */
#include "words.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT 0xFFFDu

/* ---- numbers -------------------------------------------------------------- */

static struct words dash(void)
{
    return (struct words){"\u2013"};
}

static struct words group_thousands(double value)
{
    struct words digits, words;
    size_t length, to = 0;

    (void)snprintf(digits.text, 24, "%.0f", fabs(value));
    length = strlen(digits.text);
    if (signbit(value) != 0 && value != 0)
        words.text[to++] = '-';
    for (size_t i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            words.text[to++] = ',';
        words.text[to++] = digits.text[i];
    }
    words.text[to] = '\0';
    return words;
}

struct words words_number(const double *value)
{
    struct words words;
    double size;

    if (value == NULL || !isfinite(*value))
        return dash();
    size = fabs(*value);
    if (size >= 1e15)
        (void)snprintf(words.text, sizeof words.text, "%.4g", *value);
    else if (size >= 1000 || *value == round(*value))
        return group_thousands(*value);
    else
        (void)snprintf(words.text, sizeof words.text, "%.*f",
                       size < 1     ? 3
                       : size < 100 ? 2
                                    : 1,
                       *value);
    return words;
}

struct words words_percent(const double *part)
{
    struct words words;
    double percent;

    if (part == NULL || !isfinite(*part))
        return dash();
    percent = floor(*part * 1000 + 1e-9) / 10;
    (void)snprintf(words.text, sizeof words.text, *part == 1 || *part == 0 ? "%.0f %%" : "%.1f %%",
                   *part > 0 && percent < 0.1 ? 0.1 : percent);
    return words;
}

struct words words_duration(const double *ms)
{
    struct words words;
    double size;

    if (ms == NULL || !isfinite(*ms))
        return dash();
    size = fabs(*ms);
    if (size >= 120e3)
        (void)snprintf(words.text, sizeof words.text, "%.1f min", *ms / 60e3);
    else if (size >= 1000)
        (void)snprintf(words.text, sizeof words.text, "%.*f s", size < 10e3 ? 2 : 1, *ms / 1e3);
    else if (*ms == 0)
        (void)snprintf(words.text, sizeof words.text, "0 ms");
    else
        (void)snprintf(words.text, sizeof words.text, "%.*f ms", size < 10 ? 2 : size < 100, *ms);
    return words;
}

struct words words_seconds(int64_t ns)
{
    struct words words;

    (void)snprintf(words.text, sizeof words.text, "%.3f s", (double)ns / 1e9);
    return words;
}

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text), wanted = strlen(end);

    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

struct words words_value(const char *metric, const double *value)
{
    if (metric != NULL && ends_in(metric, "_ms"))
        return words_duration(value);
    if (metric != NULL && (ends_in(metric, "probe.availability") || ends_in(metric, "probe.low") ||
                           ends_in(metric, "probe.high")))
        return words_percent(value);
    return words_number(value);
}

const char *words_op(const char *op)
{
    static const char *const signs[][2] = {{"eq", "="},      {"ne", "\u2260"}, {"ge", "\u2265"},
                                           {"le", "\u2264"}, {"gt", ">"},      {"lt", "<"}};

    for (size_t i = 0; op != NULL && i < sizeof signs / sizeof *signs; i++)
        if (strcmp(op, signs[i][0]) == 0)
            return signs[i][1];
    return op != NULL ? op : "?";
}

/* ---- text ----------------------------------------------------------------- */

/* How many bytes follow the first; -1: no character begins so. */
static int following(unsigned char first)
{
    if (first < 0x80)
        return 0;
    if (first >= 0xC2 && first < 0xE0)
        return 1;
    if (first >= 0xE0 && first < 0xF0)
        return 2;
    return first >= 0xF0 && first < 0xF5 ? 3 : -1;
}

static bool is_plain(uint32_t character, int more)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};

    if (character < least[more] || character > 0x10FFFF || (character & 0xFFFFFFFEu) == 0xFFFE)
        return false; /* overlong, or no character at all */
    if (character >= 0xD800 && character < 0xE000)
        return false; /* half of a pair */
    if (character >= 0x202A && character <= 0x202E)
        return false; /* would turn round what is written after it */
    return character == '\n' || (character >= 0x20 && (character < 0x7F || character >= 0xA0));
}

uint32_t words_next(const char **text)
{
    const unsigned char *bytes = (const unsigned char *)*text;
    int more = following(*bytes);
    uint32_t character;

    if (*bytes == '\0')
        return 0;
    *text += 1;
    if (more < 0)
        return REPLACEMENT;
    character = more == 0 ? *bytes : *bytes & (0x3Fu >> more);
    for (int i = 1; i <= more; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return REPLACEMENT;
        character = character << 6 | (bytes[i] & 0x3Fu);
    }
    *text += more;
    return is_plain(character, more) ? character : REPLACEMENT;
}

size_t words_put(uint32_t character, char bytes[4])
{
    static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
    size_t more = character < 0x80 ? 0 : character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;

    for (size_t i = more; i > 0; i--) {
        bytes[i] = (char)(0x80 | (character & 0x3F));
        character >>= 6;
    }
    bytes[0] = (char)(lead[more] | character);
    return more + 1;
}

size_t words_length(const char *text)
{
    size_t length = 0;

    while (text != NULL && words_next(&text) != 0)
        length++;
    return length;
}

char *words_clean(const char *text)
{
    /* A byte can become one replacement of three. */
    char *copy = malloc(text != NULL ? 3 * strlen(text) + 1 : 1), *to = copy;
    uint32_t character;

    if (copy == NULL)
        return NULL;
    while (text != NULL && (character = words_next(&text)) != 0)
        to += words_put(character, to);
    *to = '\0';
    return copy;
}
