/*
 * How numbers and strange text are put for people: on a terminal and in HTML the same. What the
 * harness shows may come from a server or a file name, so no byte of it is trusted.
 */
#ifndef CHAOS_WORDS_H
#define CHAOS_WORDS_H

#include <stddef.h>
#include <stdint.h>

struct words {
    char text[48];
};

/* Where NULL is taken, it stands for "could not be had" and gives a dash. */
struct words words_number(const double *value); /* 3, 0.25, 12,345 */
struct words words_percent(const double *part); /* 0.9996: 99.9 %; 100 % only if it is all */
struct words words_duration(const double *ms);  /* 0.42 ms, 340 ms, 2.3 s, 4.0 min */
struct words words_seconds(int64_t ns);         /* 3.120 s */
struct words words_value(const char *metric, const double *value); /* by the metric's name */
const char *words_op(const char *op);                              /* "ge": ">=" in one character */

/* Takes the next character from *text; 0 at the end. Control characters (but a newline) and what is
 * not UTF-8 come as U+FFFD. */
uint32_t words_next(const char **text);
/* Writes it as UTF-8 and returns how many bytes that took, at most 4. */
size_t words_put(uint32_t character, char bytes[4]);
/* How many characters; NULL has none. */
size_t words_length(const char *text);
/* A copy that is UTF-8 throughout, to be freed; NULL: no memory. NULL is copied as "". */
char *words_clean(const char *text);

#endif
