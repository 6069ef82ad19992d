/*
 * Output that cannot be broken by what is in it.
 *
 * Lock names are any bytes, and the words of primaries are a stranger's. On a terminal, bytes that
 * are not printable UTF-8 are written as \xNN. In JSON, strings are valid UTF-8 with the escapes of
 * RFC 8259; a name that is not UTF-8 is given in hexadecimal too, so that nothing is lost. An
 * object is built in memory and leaves in one write, so lines of two processes do not mix.
 */
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"

/* The length of the UTF-8 sequence at `at` (RFC 3629: shortest form, no surrogates), 0 if it is
 * none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    uint32_t code, least;
    size_t length;

    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf)
        length = 2, least = 0x80, code = at[0] & 0x1fU;
    else if ((at[0] & 0xf0) == 0xe0)
        length = 3, least = 0x800, code = at[0] & 0x0fU;
    else if (at[0] >= 0xf0 && at[0] <= 0xf4)
        length = 4, least = 0x10000, code = at[0] & 0x07U;
    else
        return 0;
    if (length > left)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3fU);
    }
    if (code < least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return 0;
    return length;
}

/* Controls, of both the ASCII and the Latin-1 page, can move a terminal's cursor or worse. */
static int is_control(const unsigned char *at, size_t length)
{
    return (length == 1 && (at[0] < 0x20 || at[0] == 0x7f)) ||
           (length == 2 && at[0] == 0xc2 && at[1] < 0xa0);
}

const char *text_quote(const char *bytes, size_t length, char out[TEXT_QUOTED_LEN])
{
    static const char ending[] = "...'";
    const unsigned char *at = (const unsigned char *)bytes;
    size_t used = 0;

    out[used++] = '\'';
    while (length > 0) {
        size_t step = utf8_length(at, length);

        if (used + 4 + sizeof ending > TEXT_QUOTED_LEN) {
            memcpy(out + used, ending, sizeof ending);
            return out;
        }
        if (step == 0 || is_control(at, step)) {
            step = 1;
            used += (size_t)snprintf(out + used, 5, "\\x%02x", at[0]);
        } else {
            memcpy(out + used, at, step);
            used += step;
        }
        at += step;
        length -= step;
    }
    out[used++] = '\'';
    out[used] = '\0';
    return out;
}

int text_write(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, text, length);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};

            poll(&room, 1, -1);
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

/* ---- JSON ---------------------------------------------------------------- */

static void put_string(struct json *json, const char *bytes, size_t length, int *exact)
{
    const unsigned char *at = (const unsigned char *)bytes;

    *exact = 1;
    putc('"', json->stream);
    while (length > 0) {
        size_t step = utf8_length(at, length);

        if (step == 0) {
            step = 1;
            *exact = 0;
            fputs("\\ufffd", json->stream);
        } else if (*at == '"' || *at == '\\') {
            fprintf(json->stream, "\\%c", *at);
        } else if (is_control(at, step)) {
            fprintf(json->stream, "\\u%04x", step == 1 ? at[0] : at[1]);
        } else {
            fwrite(at, 1, step, json->stream);
        }
        at += step;
        length -= step;
    }
    putc('"', json->stream);
}

static void put_name(struct json *json, const char *name)
{
    if (json->needs_comma)
        putc(',', json->stream);
    if (name)
        fprintf(json->stream, "\"%s\":", name);
    json->needs_comma = 1;
}

void json_begin(struct json *json)
{
    memset(json, 0, sizeof *json);
    json->stream = open_memstream(&json->text, &json->size);
    if (json->stream)
        putc('{', json->stream);
}

void json_bytes(struct json *json, const char *name, const char *bytes, size_t length)
{
    int exact;

    if (!json->stream)
        return;
    put_name(json, name);
    put_string(json, bytes, length, &exact);
    if (exact)
        return;
    fprintf(json->stream, ",\"%s_hex\":\"", name);
    for (size_t i = 0; i < length; i++)
        fprintf(json->stream, "%02x", (unsigned char)bytes[i]);
    putc('"', json->stream);
}

void json_text(struct json *json, const char *name, const char *text)
{
    int exact;

    if (!json->stream)
        return;
    put_name(json, name);
    put_string(json, text, strlen(text), &exact);
}

void json_integer(struct json *json, const char *name, int64_t value)
{
    if (!json->stream)
        return;
    put_name(json, name);
    fprintf(json->stream, "%" PRId64, value);
}

void json_real(struct json *json, const char *name, double value)
{
    if (!json->stream)
        return;
    put_name(json, name);
    if (value - value == 0) /* finite */
        fprintf(json->stream, "%.9g", value);
    else
        fputs("null", json->stream);
}

static void open_bracket(struct json *json, const char *name, char bracket)
{
    if (!json->stream)
        return;
    put_name(json, name);
    putc(bracket, json->stream);
    json->needs_comma = 0;
}

static void close_bracket(struct json *json, char bracket)
{
    if (!json->stream)
        return;
    putc(bracket, json->stream);
    json->needs_comma = 1;
}

void json_begin_array(struct json *json, const char *name)
{
    open_bracket(json, name, '[');
}

void json_end_array(struct json *json)
{
    close_bracket(json, ']');
}

void json_begin_object(struct json *json)
{
    open_bracket(json, NULL, '{');
}

void json_end_object(struct json *json)
{
    close_bracket(json, '}');
}

int json_end(struct json *json, int fd)
{
    int failed = 1, saved;

    if (json->stream) {
        fputs("}\n", json->stream);
        failed = ferror(json->stream);
        failed |= fclose(json->stream);
        if (!failed && fd == STDERR_FILENO)
            failed = output_report(json->text, json->size, 1);
        else if (!failed)
            failed = text_write(fd, json->text, json->size);
    }
    saved = errno;
    free(json->text);
    memset(json, 0, sizeof *json);
    errno = saved;
    return failed ? -1 : 0;
}
