/*
 * Two machines with the same steps: a line with a type and a number, then so many bytes of data, or
 * so many further values. Values within values need no stack: what counts is how many are
 * still to come in all. An attribute of RESP3 is no value of its own, but so many more before the
 * one it describes.
 */
#include "resp.h"

#include <ctype.h>
#include <string.h>

enum {
    AT_TYPE, /* of the next line */
    IN_LINE,
    AT_LINE_END, /* '\n' */
    IN_DATA,
    AT_DATA_CR,
    AT_DATA_END
};

/* ---- lines with a number --------------------------------------------------- */

static void begin_line(struct resp *resp, char type)
{
    resp->type = type;
    resp->number = 0;
    resp->negative = false;
    resp->state = IN_LINE;
}

/* One byte of a number's line; true: the line is over. */
static bool in_number(struct resp *resp, char byte)
{
    if (resp->state == AT_LINE_END) {
        resp->opaque = byte != '\n';
        if (resp->negative)
            resp->number = -1;
        return !resp->opaque;
    }
    if (byte == '\r') {
        resp->state = AT_LINE_END;
    } else if (byte == '-' && resp->number == 0) {
        resp->negative = true;
    } else if (byte >= '0' && byte <= '9') {
        resp->number = resp->number * 10 + (byte - '0');
        resp->opaque = resp->number > RESP_LENGTH_MAX;
    } else {
        resp->opaque = true;
    }
    return false;
}

/* The two bytes behind data; true: the second. */
static bool in_data_end(struct resp *resp, char byte)
{
    resp->opaque = byte != (resp->state == AT_DATA_CR ? '\r' : '\n');
    if (resp->state == AT_DATA_END)
        return !resp->opaque;
    resp->state = AT_DATA_END;
    return false;
}

static void begin_data(struct resp *resp)
{
    resp->data = resp->number;
    resp->state = resp->data > 0 ? IN_DATA : AT_DATA_CR;
}

/* Of n bytes, those that belong to the data. */
static size_t in_data(struct resp *resp, size_t n)
{
    if ((uint64_t)resp->data < n)
        n = (size_t)resp->data;
    resp->data -= (int64_t)n;
    resp->at += n;
    if (resp->data == 0)
        resp->state = AT_DATA_CR;
    return n;
}

/* ---- requests ---------------------------------------------------------------- */

static void begin_command(struct resp_commands *commands)
{
    struct resp resp = commands->resp;

    *commands = (struct resp_commands){.resp = resp, .key_index = 1};
    commands->resp.start = resp.at;
    begin_line(&commands->resp, '*');
}

static void take_name(struct resp_commands *commands, const char *data, size_t n)
{
    for (; n > 0 && commands->name_len < RESP_NAME_MAX; n--)
        commands->name[commands->name_len++] = (char)toupper((unsigned char)*data++);
}

static void take_key(struct resp_commands *commands, const char *data, size_t n)
{
    if (commands->key_len + n > RESP_KEY_MAX) {
        commands->key_index = -1;
        return;
    }
    memcpy(commands->key + commands->key_len, data, n);
    commands->key_len += n;
}

static bool is_script(const char *name)
{
    static const char *const names[] = {"EVAL",       "EVALSHA", "EVAL_RO",
                                        "EVALSHA_RO", "FCALL",   "FCALL_RO"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Data of the argument at `index`, in pieces. */
static void take_argument(struct resp_commands *commands, const char *data, size_t n)
{
    if (commands->decided)
        return;
    if (commands->index == 0)
        take_name(commands, data, n);
    else if (commands->index == commands->key_index)
        take_key(commands, data, n);
    else if (commands->index == 2 && commands->key_index > 2)
        for (size_t i = 0; i < n && commands->numkeys < RESP_LENGTH_MAX; i++)
            commands->numkeys = commands->numkeys * 10 + (uint64_t)(data[i] - '0');
}

/* True: nothing that follows says more about the command. */
static bool end_argument(struct resp_commands *commands)
{
    struct resp *resp = &commands->resp;

    if (commands->index == 0 && is_script(commands->name))
        commands->key_index = 3;
    if (commands->index == 2 && commands->key_index == 3 && commands->numkeys == 0)
        commands->key_index = -1;
    if (commands->index > 0 && commands->index == commands->key_index)
        commands->has_key = true;
    commands->index++;
    resp->left--;
    resp->state = AT_TYPE;
    return commands->has_key || commands->key_index < 0 || resp->left == 0;
}

static bool decide(struct resp_commands *commands)
{
    bool before = commands->decided;

    commands->decided = true;
    return !before;
}

/* One byte that isn't an argument's data. True: the command is decided. */
static bool command_byte(struct resp_commands *commands, char byte)
{
    struct resp *resp = &commands->resp;

    if (resp->state == AT_TYPE) {
        resp->opaque = byte != (resp->left == 0 ? '*' : '$');
        if (resp->left == 0)
            begin_command(commands);
        else
            begin_line(resp, byte);
    } else if (resp->state == AT_DATA_CR || resp->state == AT_DATA_END) {
        return in_data_end(resp, byte) && end_argument(commands) && decide(commands);
    } else if (in_number(resp, byte)) {
        if (resp->type == '$') {
            resp->opaque = resp->number < 0;
            begin_data(resp);
        } else { /* no argument at all is no command: servers pass over it */
            resp->left = resp->number > 0 ? resp->number : 0;
            resp->state = AT_TYPE;
        }
    }
    return false;
}

bool resp_undecided(const struct resp_commands *commands)
{
    const struct resp *resp = &commands->resp;

    return !resp->opaque && !commands->decided && (resp->left > 0 || resp->state != AT_TYPE);
}

size_t resp_commands(struct resp_commands *commands, const char *data, size_t n,
                     enum resp_event *event)
{
    struct resp *resp = &commands->resp;
    size_t used = 0;

    *event = RESP_MORE;
    while (used < n && !resp->opaque) {
        bool decided = false;

        if (resp->state == IN_DATA) {
            size_t part = in_data(resp, n - used);
            take_argument(commands, data + used, part);
            used += part;
        } else {
            decided = command_byte(commands, data[used++]);
            resp->at++;
        }
        if (resp_undecided(commands) && resp->at - resp->start > RESP_UNDECIDED_MAX)
            decided = decide(commands);
        if (decided) {
            *event = RESP_COMMAND;
            return used;
        }
    }
    return n;
}

/* ---- replies ------------------------------------------------------------------ */

/* A value has ended, or turned out to be `more` others. */
static void end_value(struct resp *resp, int64_t more)
{
    resp->left += more - 1;
    resp->state = AT_TYPE;
    resp->opaque = resp->left > RESP_LENGTH_MAX;
}

static bool is_aggregate(char type)
{
    return strchr("*~>%|", type) != NULL;
}

static void end_number(struct resp *resp)
{
    int64_t n = resp->number > 0 ? resp->number : 0;

    if (!is_aggregate(resp->type) && resp->number >= 0)
        begin_data(resp);
    else if (resp->type == '|')
        end_value(resp, 2 * n + 1);
    else
        end_value(resp, resp->type == '%' ? 2 * n : n);
}

/* True: a value of its own, or a reply, begins. */
static bool begin_value(struct resp_replies *replies, char type)
{
    struct resp *resp = &replies->resp;

    resp->opaque = type == '\0' || strchr("+-:_,#($=!*~>%|", type) == NULL;
    begin_line(resp, type);
    if (resp->left > 0 || resp->opaque)
        return false;
    resp->left = 1;
    resp->start = resp->at;
    replies->push = type == '>';
    return !replies->push;
}

static bool has_number(char type)
{
    return type == '$' || type == '=' || type == '!' || is_aggregate(type);
}

static void reply_byte(struct resp *resp, char byte)
{
    if (resp->state == AT_DATA_CR || resp->state == AT_DATA_END) {
        if (in_data_end(resp, byte))
            end_value(resp, 0);
    } else if (has_number(resp->type)) {
        if (in_number(resp, byte))
            end_number(resp);
    } else if (byte == '\n') {
        end_value(resp, 0);
    }
}

size_t resp_replies(struct resp_replies *replies, const char *data, size_t n,
                    enum resp_event *event)
{
    struct resp *resp = &replies->resp;
    size_t used = 0;

    *event = RESP_MORE;
    while (used < n && !resp->opaque && *event == RESP_MORE) {
        if (resp->state == IN_DATA) {
            used += in_data(resp, n - used);
            continue;
        }
        if (resp->state == AT_TYPE) {
            if (begin_value(replies, data[used]))
                *event = RESP_REPLY;
        } else {
            reply_byte(resp, data[used]);
            if (resp->left == 0 && !resp->opaque && !replies->push)
                *event = RESP_REPLY_END;
        }
        used++;
        resp->at++;
    }
    return *event == RESP_MORE ? n : used;
}
