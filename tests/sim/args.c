/*
 * A command's words: cut out of its bytes, and what it is. See server.h.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "facts.h"
#include "marker.h"
#include "server.h"

/* "<mark>number\r\n"; returns bytes, 0: not whole, SIZE_MAX: wrong. */
static size_t parse_number(const char *data, size_t len, char mark, size_t *number)
{
    size_t i = 1;
    *number = 0;
    if (len == 0)
        return 0;
    if (data[0] != mark)
        return SIZE_MAX;
    for (; i < len && data[i] >= '0' && data[i] <= '9' && i < 12; i++)
        *number = *number * 10 + (size_t)(data[i] - '0');
    if (i < len && (data[i] != '\r' || i == 1))
        return SIZE_MAX;
    if (i + 1 >= len)
        return 0;
    return data[i + 1] == '\n' ? i + 2 : SIZE_MAX;
}

size_t sim_parse(const char *data, size_t len, struct sim_args *args)
{
    size_t count = 0;
    size_t at = parse_number(data, len, '*', &count);
    if (at == 0 || at == SIZE_MAX)
        return at;
    if (count == 0 || count > SIM_MAX_ARGS)
        return SIZE_MAX;
    args->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        size_t head = parse_number(data + at, len - at, '$', &size);
        if (head == 0 || head == SIZE_MAX)
            return head;
        at += head;
        if (len - at < size + 2)
            return 0;
        if (data[at + size] != '\r' || data[at + size + 1] != '\n')
            return SIZE_MAX;
        args->data[i] = data + at;
        args->len[i] = size;
        at += size + 2;
    }
    return at;
}

bool sim_word(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] == strlen(text) &&
           strncasecmp(args->data[i], text, args->len[i]) == 0;
}

bool sim_text_is(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] == strlen(text) &&
           memcmp(args->data[i], text, args->len[i]) == 0;
}

bool sim_starts_with(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] >= strlen(text) &&
           memcmp(args->data[i], text, strlen(text)) == 0;
}

static bool is_about_itself(const struct sim_args *args)
{
    return sim_text_is(args, 1, REDLOCK__MARKER_KEY) || sim_text_is(args, 1, REDLOCK__FLOOR_KEY);
}

enum sim_command sim_classify(const struct sim_args *args)
{
    static const struct {
        const char *name;
        enum sim_command command;
    } names[] = {
        {"AUTH", SIM_AUTH},   {"SELECT", SIM_SELECT},     {"PING", SIM_PING},
        {"SET", SIM_SET},     {"GET", SIM_GET},           {"PTTL", SIM_PTTL},
        {"DEL", SIM_DEL},     {"FLUSHALL", SIM_FLUSHALL}, {"TIME", SIM_TIME},
        {"BLPOP", SIM_BLPOP}, {"LPUSH", SIM_LPUSH},       {"PEXPIRE", SIM_PEXPIRE},
        {"MULTI", SIM_MULTI}, {"EXEC", SIM_EXEC},         {"DISCARD", SIM_DISCARD},
    };
    if (sim_word(args, 0, "ZRANGE") && is_about_itself(args) && args->count == 5)
        return SIM_MARKER;
    if (sim_word(args, 0, "ZADD") && args->count == 6 && sim_word(args, 2, "XX") &&
        sim_word(args, 3, "INCR"))
        return SIM_ZADD;
    if (sim_word(args, 0, "SET") && sim_starts_with(args, 1, "redlock:waiting:"))
        return SIM_WAITING;
    if (sim_word(args, 0, "SET") && sim_word(args, 3, "IFEQ"))
        return SIM_EXTEND;
    if (sim_word(args, 0, "DELIFEQ") || sim_word(args, 0, "DELEX"))
        return SIM_RELEASE;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (sim_word(args, 0, names[i].name))
            return names[i].command == SIM_GET && is_about_itself(args) ? SIM_MARKER
                                                                        : names[i].command;
    if (sim_word(args, 0, "CLIENT") && sim_word(args, 1, "SETNAME") && args->count == 3)
        return SIM_SETNAME;
    if (sim_word(args, 0, "INFO") && args->count == 2)
        return sim_word(args, 1, "server") ? SIM_INFO_SERVER : SIM_INFO_REPLICATION;
    if (sim_word(args, 0, "CONFIG") && sim_word(args, 1, "GET") && args->count == 3)
        return SIM_SETTINGS;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 1, redlock__seen_script) && args->count == 5)
        return SIM_SEEN;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 1, redlock__mark_script) && args->count == 8)
        return SIM_MARK;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 1, redlock__recover_script) &&
        args->count == 9)
        return SIM_RECOVER;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 1, redlock__grant_script) &&
        args->count == 10)
        return SIM_GRANT;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 1, redlock__settle_script) &&
        args->count == 9)
        return SIM_SETTLE;
    if (sim_word(args, 0, "EVAL") && sim_text_is(args, 2, "1") && args->count >= 5) {
        if (sim_text_is(args, 1, redlock__extend_script) && args->count == 6)
            return SIM_EXTEND;
        if (sim_text_is(args, 1, redlock__release_script) && args->count == 5)
            return SIM_RELEASE;
        if (sim_text_is(args, 1, redlock__release_asking_script) && args->count == 6)
            return SIM_RELEASE;
    }
    return SIM_UNKNOWN;
}

int64_t sim_number(const struct sim_args *args, size_t i)
{
    char text[24] = "";
    if (i < args->count && args->len[i] < sizeof(text))
        memcpy(text, args->data[i], args->len[i]);
    return strtoll(text, NULL, 10);
}

/* Which of REDLOCK__CAN_* a command needs. */
uint32_t sim_need(const struct sim_args *args)
{
    if (sim_word(args, 0, "EVAL"))
        return REDLOCK__CAN_EVAL;
    if (sim_word(args, 0, "SET") && sim_word(args, 3, "IFEQ"))
        return REDLOCK__CAN_SET_IFEQ;
    if (sim_word(args, 0, "DELIFEQ"))
        return REDLOCK__CAN_DELIFEQ;
    return sim_word(args, 0, "DELEX") ? REDLOCK__CAN_DELEX : 0;
}

/* Of extends and releases: which argument is the key; the token is the next one. */
size_t sim_key_at(const struct sim_args *args)
{
    return sim_word(args, 0, "EVAL") ? 3 : 1;
}
