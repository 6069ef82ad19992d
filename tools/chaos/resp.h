/*
 * Finds out, byte by byte and without keeping them, where commands and replies begin in the two
 * streams of a connection. What isn't the protocol makes the rest of a stream opaque: it
 * has no more boundaries, and is nobody's error (TLS, for example).
 */
#ifndef CHAOS_RESP_H
#define CHAOS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RESP_NAME_MAX = 31,                 /* a longer name is cut */
    RESP_KEY_MAX = 1024,                /* a longer key isn't known */
    RESP_UNDECIDED_MAX = 1024 * 1024,   /* nor is one that comes behind so many bytes */
    RESP_LENGTH_MAX = 512 * 1024 * 1024 /* of an argument, as servers have it, and of an array */
};

enum resp_event {
    RESP_MORE,    /* all bytes were used */
    RESP_COMMAND, /* name and key of a command are known; others of its bytes may follow */
    RESP_REPLY,   /* a reply begins: with the last byte that was used */
    RESP_REPLY_END
};

/* What either stream needs to know. Zero is the beginning of a stream. */
struct resp {
    bool opaque;
    uint64_t at;    /* bytes seen */
    uint64_t start; /* of the command or reply that `at` is in, or that came last */

    int state;
    bool negative;
    char type;
    int64_t number; /* of the line that is being read */
    int64_t data;   /* bytes of the argument or string still to come */
    int64_t left;   /* arguments or values still to come */
};

/* ---- requests: arrays of strings ---------------------------------------- */

struct resp_commands {
    struct resp resp;
    bool decided;             /* of the command that `at` is in: its RESP_COMMAND has come */
    int64_t index, key_index; /* of arguments; -1: there is no key */
    uint64_t numkeys;
    size_t name_len, key_len;
    char name[RESP_NAME_MAX + 1]; /* upper case */
    bool has_key;
    char key[RESP_KEY_MAX + 1]; /* of SET, GET, DEL, ...: what follows the name; of EVAL: KEYS[1] */
};

/* Uses some of the bytes, up to an event at most. Returns how many. */
size_t resp_commands(struct resp_commands *commands, const char *data, size_t n,
                     enum resp_event *event);
/* From resp.start on there are bytes of a command whose RESP_COMMAND hasn't come. */
bool resp_undecided(const struct resp_commands *commands);

/* ---- replies: RESP2 and RESP3 --------------------------------------------- */

struct resp_replies {
    struct resp resp;
    bool push; /* what `at` is in was not asked for: no reply */
};

size_t resp_replies(struct resp_replies *replies, const char *data, size_t n,
                    enum resp_event *event);

#endif
