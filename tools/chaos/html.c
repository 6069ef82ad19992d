/* See html.h. */
#include "html.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#include "words.h"

static void put_character(FILE *stream, uint32_t character)
{
    char bytes[4];

    switch (character) {
    case '&':
        (void)fputs("&amp;", stream);
        break;
    case '<':
        (void)fputs("&lt;", stream);
        break;
    case '>':
        (void)fputs("&gt;", stream);
        break;
    case '"':
        (void)fputs("&quot;", stream);
        break;
    case '\'':
        (void)fputs("&#39;", stream);
        break;
    default:
        (void)fwrite(bytes, 1, words_put(character, bytes), stream);
    }
}

static void put_text(FILE *stream, const char *text)
{
    uint32_t character;

    while (text != NULL && (character = words_next(&text)) != 0)
        put_character(stream, character);
}

void html_short(FILE *stream, const char *text, size_t limit)
{
    size_t length = words_length(text), count = length <= limit ? length : limit - 1;

    for (size_t i = 0; i < count; i++)
        put_character(stream, words_next(&text));
    if (count < length)
        (void)fputs("\u2026", stream);
}

void html_path(FILE *stream, const char *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "-_.~/";

    if (path == NULL)
        return;
    if (*path != '/')
        (void)fputs("./", stream);
    for (; *path != '\0'; path++) {
        if (strchr(plain, *path) != NULL)
            (void)putc(*path, stream);
        else
            (void)fprintf(stream, "%%%02X", (unsigned)(unsigned char)*path);
    }
}

/* The conversion after a '%', of the few there are. Returns what comes after it. The list of
 * arguments is passed by its address, so that the caller goes on behind what was taken. */
static const char *put_argument(FILE *stream, const char *format, va_list *list)
{
    switch (*format) {
    case '%':
        (void)putc('%', stream);
        return format + 1;
    case 's':
        put_text(stream, va_arg(*list, const char *));
        return format + 1;
    case 'd':
        (void)fprintf(stream, "%d", va_arg(*list, int));
        return format + 1;
    case 'u':
        (void)fprintf(stream, "%u", va_arg(*list, unsigned));
        return format + 1;
    case 'l':
        assert(format[1] == 'd');
        (void)fprintf(stream, "%ld", va_arg(*list, long));
        return format + 2;
    case 'z':
        assert(format[1] == 'u');
        (void)fprintf(stream, "%zu", va_arg(*list, size_t));
        return format + 2;
    default:
        assert(format[0] == '.' && format[2] == 'f');
        (void)fprintf(stream, "%.*f", format[1] - '0', va_arg(*list, double));
        return format + 3;
    }
}

void html_put(FILE *stream, const char *format, ...)
{
    va_list list;
    size_t length;

    va_start(list, format);
    for (; *format != '\0'; format += length) {
        length = strcspn(format, "%");
        (void)fwrite(format, 1, length, stream);
        if (format[length] == '\0')
            break;
        format = put_argument(stream, format + length + 1, &list);
        length = 0;
    }
    va_end(list);
}
