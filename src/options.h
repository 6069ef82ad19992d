/*
 * What the application asked for, checked, completed and copied; token texts. Pure.
 *
 * Versions. A struct's `size` is that of the caller's version. What an older (smaller) one
 * doesn't have gets its default; a newer (larger) one is accepted as long as all that
 * this version doesn't know is zero, and refused as UNSUPPORTED otherwise: an option that
 * was asked for is never silently ignored.
 */
#ifndef REDLOCK__OPTIONS_H
#define REDLOCK__OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "endpoint.h"
#include "redlock.h"
#include "tls_options.h"

enum {
    REDLOCK__MAX_NAME_LEN = 64,       /* of client_name */
    REDLOCK__MAX_TIMEOUT_MS = 600000, /* of node, connect and silence: ten minutes */
    REDLOCK__MAX_REPLICAS = 64,       /* that a lock can be made to wait for */
    REDLOCK__TOKEN_VALUE_LEN = 32     /* hexadecimal digits of a stored value */
};

/* redlock_options, checked; owns all it points to but the log's context. */
struct redlock__settings {
    uint32_t n, quorum, drift_ppm; /* quorum 0: as marked, or a majority */
    int64_t max_ttl_ms;            /* 0: as marked, or 60000 */
    int64_t restart_guard_ms;      /* below 0: by max_ttl */
    int64_t node_timeout_ms, connect_timeout_ms, silence_limit_ms;
    uint32_t replicas;
    int64_t replica_timeout_ms;
    char *prefix; /* may be "" */
    size_t prefix_len;
    char *client_name;
    redlock_log_fn *log;
    void *log_context;
    bool external_loop;
    struct redlock__tls_settings tls;
    uint32_t fingerprint; /* of the list of endpoints, in their order */
    struct redlock__endpoint endpoints[REDLOCK_MAX_NODES];
};

/* 0, or an error with text (if not NULL) saying which option or node, and what is allowed;
 * settings are then untouched. Quotes nothing from an endpoint that was not understood, since
 * that may be a password. */
int redlock__settings_new(const redlock_options *options, struct redlock__settings **settings,
                          char *text, size_t text_size);
void redlock__settings_free(struct redlock__settings *settings); /* NULL accepted */

/* The caller's lock options, of whatever version and NULL for none, as a full struct with
 * everything checked. 0, ERR_ARGUMENT, ERR_TTL or ERR_UNSUPPORTED. */
int redlock__lock_options_check(const struct redlock__settings *settings,
                                const redlock_lock_options *options, redlock_lock_options *checked);

/* The same for redlock_init(). 0, ERR_ARGUMENT or ERR_UNSUPPORTED. */
int redlock__init_options_check(const struct redlock__settings *settings,
                                const redlock_init_options *options, redlock_init_options *checked);

/* ERR_TTL unless 1 <= ttl <= max_ttl (where that is not left to the primaries' markers) and more
 * than min_validity is left after drift. */
int redlock__ttl_check(const struct redlock__settings *settings, int64_t ttl_ms,
                       int64_t min_validity_ms);

/* A key as the primaries have it. */
struct redlock__full_key {
    const char *text; /* the caller's, or in `room` */
    size_t len;
    char room[REDLOCK_MAX_KEY_LEN];
};

/* prefix + key. ERR_KEY: empty, too long, or reserved. */
int redlock__full_key(const struct redlock__settings *settings, const void *key, size_t key_len,
                      struct redlock__full_key *full);

/* The token text, "value:set-list": the stored value, the counted primaries as a mask and the
 * fingerprint of the list, in hexadecimal. */
void redlock__token_format(const struct redlock__settings *settings, const char *value,
                           uint32_t counted, char text[REDLOCK_TOKEN_LEN]);
/* Adds to it where, and for how much, an extend could be cut by an earlier one: "-cut-ms". */
void redlock__token_warn(char text[REDLOCK_TOKEN_LEN], uint32_t cut, int64_t cut_ms);
/* What was added; 0 primaries: nothing, or not readable. */
uint32_t redlock__token_warning(const char *text, int64_t *cut_ms);
/* 0; ERR_TOKEN; ERR_MEMBERS where it was made with another list, or in another order. */
int redlock__token_parse(const struct redlock__settings *settings, const char *text,
                         char value[REDLOCK__TOKEN_VALUE_LEN + 1], uint32_t *counted);

#endif
