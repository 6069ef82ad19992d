/* Words for people and JSON for programs. */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_QUOTED_LEN 256

/* Any bytes as one printable word in quotes, cut where they are long. Returns `out`. */
const char *text_quote(const char *bytes, size_t length, char out[TEXT_QUOTED_LEN]);

/* One JSON object, written to its descriptor as one line by json_end(). */
struct json {
    FILE *stream;
    char *text;
    size_t size;
    int needs_comma;
};

/* Every function accepts a json that could not be begun and then does nothing. */
void json_begin(struct json *json);
void json_text(struct json *json, const char *name, const char *text);
void json_integer(struct json *json, const char *name, int64_t value);
/* Nine digits, without trailing zeros; null for what is no number. */
void json_real(struct json *json, const char *name, double value);

/* Bytes as text. Where they are not UTF-8, each wrong one becomes U+FFFD and NAME_hex follows with
 * all of them as they are. */
void json_bytes(struct json *json, const char *name, const char *bytes, size_t length);

void json_begin_array(struct json *json, const char *name);
void json_end_array(struct json *json);
void json_begin_object(struct json *json);
void json_end_object(struct json *json);

/* Returns 0 once everything is written, else -1 with errno. To standard error as output_report().
 */
int json_end(struct json *json, int fd);

/* All of it, whatever write(2) takes at a time, and however long that takes. Returns 0 or -1 with
 * errno. */
int text_write(int fd, const char *text, size_t length);

#endif
