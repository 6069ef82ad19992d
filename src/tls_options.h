/*
 * The options of encrypted connections, checked and copied. Pure: whether a file is there and good
 * is for tls.c to find out.
 */
#ifndef REDLOCK__TLS_OPTIONS_H
#define REDLOCK__TLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redlock.h"

/* Owns its strings. All zero: no TLS. */
struct redlock__tls_settings {
    bool wanted;          /* some endpoint is rediss:// */
    uint32_t min_version; /* 12 or 13; 0: 12, or more where the system's configuration says so */
    char *ca_file;        /* NULL: the system's store */
    char *cert_file;      /* of our own certificate; NULL: none */
    char *key_file;       /* NULL exactly if cert_file is */
    char *server_name;    /* NULL: each endpoint's host */
};

/* wanted: see above; an option without an endpoint that it is for is refused, since whoever gave it
 * believes that something is encrypted. 0; ERR_ARGUMENT, LIMIT, UNSUPPORTED (not in this build)
 * with the reason in text, if that is not NULL; ERR_MEMORY. On an error nothing needs to be
 * cleared. */
int redlock__tls_settings_fill(const redlock_options *options, bool wanted,
                               struct redlock__tls_settings *settings, char *text,
                               size_t text_size);
void redlock__tls_settings_clear(struct redlock__tls_settings *settings);

#endif
