/* Writing HTML. Errors stay in the stream, as ferror() tells. */
#ifndef CHAOS_HTML_H
#define CHAOS_HTML_H

#include <stdio.h>

/*
 * As fprintf, but what is put for %s is escaped: it can be neither a tag nor leave an attribute in
 * double quotes. Known are %s, %d, %u, %ld, %zu, %.1f and the like with one digit, and %%. A NULL
 * string is "".
 */
void html_put(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* At most so many characters of a text, the last then being an ellipsis. */
void html_short(FILE *stream, const char *text, size_t limit);
/* A path as the value of href: never another scheme, and what is special in URLs is encoded. */
void html_path(FILE *stream, const char *path);

#endif
