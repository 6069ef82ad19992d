/*
 * See fence.h.
 */
#include "fence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "validity.h"

void redlock__base_format(const struct redlock__base *base, char text[REDLOCK__BASE_LEN])
{
    (void)snprintf(text, REDLOCK__BASE_LEN, "run=%.40s base=%" PRId64, base->run_id, base->number);
}

bool redlock__base_parse(const char *text, struct redlock__base *base)
{
    struct redlock__base read = {0};
    char again[REDLOCK__BASE_LEN];

    if (sscanf(text, "run=%40[0-9a-zA-Z] base=%16" SCNd64, read.run_id, &read.number) != 2)
        return false;
    redlock__base_format(&read, again);
    if (strcmp(again, text) != 0 || read.number < 0 || read.number > REDLOCK__FENCE_MAX)
        return false;
    *base = read;
    return true;
}

/* The digits, with those behind a point counted; false: too many. */
static bool read_digits(const char **at, int64_t *value, int *decimals)
{
    bool point = false;

    *value = *decimals = 0;
    for (; (**at >= '0' && **at <= '9') || (**at == '.' && !point); (*at)++) {
        if (**at == '.') {
            point = true;
            continue;
        }
        *value = *value * 10 + (**at - '0');
        *decimals += point;
        if (*value > REDLOCK__FENCE_MAX)
            return false;
    }
    return true;
}

/* Not by strtod(), whose decimal point is the locale's. */
bool redlock__fence_parse(const char *text, int64_t *number)
{
    int decimals, exponent = 0;
    int64_t value;

    if (*text < '0' || *text > '9' || !read_digits(&text, &value, &decimals))
        return false;
    if (text[0] == 'e' && text[1] == '+' && text[2] != '\0')
        for (text += 2; *text >= '0' && *text <= '9' && exponent < 100; text++)
            exponent = exponent * 10 + (*text - '0');
    if (*text != '\0')
        return false;
    for (; decimals > exponent; decimals--, value /= 10)
        if (value % 10 != 0)
            return false;
    for (; decimals < exponent && value <= REDLOCK__FENCE_MAX; decimals++)
        value *= 10;
    if (value > REDLOCK__FENCE_MAX)
        return false;
    *number = value;
    return true;
}

bool redlock__fence_reached(int64_t counter, int64_t floor, int64_t number)
{
    return counter >= number && counter <= floor;
}

int64_t redlock__fence_choose(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    int64_t token = 0;

    for (uint32_t i = 0; granted >> i != 0; i++)
        if ((granted >> i & 1) != 0)
            token = redlock__max(token, numbers[i]);
    *settled = 0;
    for (uint32_t i = 0; granted >> i != 0; i++)
        if ((granted >> i & 1) != 0 && numbers[i] == token)
            *settled |= UINT32_C(1) << i;
    return token;
}
