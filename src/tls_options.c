/*
 * See tls_options.h. Options are refused in an order that names the first cause: not in this build,
 * then for no endpoint, then each by itself.
 */
#include "tls_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

static int refuse(int rc, char *text, size_t text_size, const char *what, const char *why)
{
    if (text != NULL)
        (void)snprintf(text, text_size, "%s%s", what, why);
    return rc;
}

/* The first option that was given; NULL: none. */
static const char *first_given(const redlock_options *o)
{
    if (o->ca_file != NULL)
        return "ca_file";
    if (o->cert_file != NULL)
        return "cert_file";
    if (o->key_file != NULL)
        return "key_file";
    if (o->server_name != NULL)
        return "server_name";
    return o->tls_min != 0 ? "tls_min" : NULL;
}

static int check_name(const char *name, char *text, size_t text_size)
{
    if (name[0] == '\0')
        return refuse(REDLOCK_ERR_ARGUMENT, text, text_size, "server_name", " is empty");
    if (strlen(name) > REDLOCK__MAX_HOST_LEN)
        return refuse(REDLOCK_ERR_LIMIT, text, text_size, "server_name",
                      " may have at most 238 characters");
    for (; *name != '\0'; name++)
        if (*name <= ' ' || *name > '~')
            return refuse(REDLOCK_ERR_ARGUMENT, text, text_size, "server_name",
                          " has a character that no host name has");
    return 0;
}

static int check(const redlock_options *o, bool wanted, char *text, size_t text_size)
{
    const char *given = first_given(o);

    if (given != NULL && !redlock_has_tls())
        return refuse(REDLOCK_ERR_UNSUPPORTED, text, text_size, given,
                      ": TLS is not in this build");
    if (given != NULL && !wanted)
        return refuse(REDLOCK_ERR_ARGUMENT, text, text_size, given,
                      " is for rediss:// endpoints, and there is none");
    if ((o->cert_file == NULL) != (o->key_file == NULL))
        return refuse(REDLOCK_ERR_ARGUMENT, text, text_size, "cert_file and key_file",
                      " are given together or not at all");
    if (o->tls_min != 0 && o->tls_min != 12 && o->tls_min != 13)
        return refuse(REDLOCK_ERR_ARGUMENT, text, text_size, "tls_min",
                      " must be 12 (TLS 1.2), 13 (TLS 1.3) or 0");
    return o->server_name == NULL ? 0 : check_name(o->server_name, text, text_size);
}

/* False: out of memory. */
static bool copy(char **to, const char *from)
{
    size_t size = from == NULL ? 0 : strlen(from) + 1;

    *to = from == NULL ? NULL : malloc(size);
    if (*to != NULL)
        memcpy(*to, from, size);
    return from == NULL || *to != NULL;
}

int redlock__tls_settings_fill(const redlock_options *options, bool wanted,
                               struct redlock__tls_settings *settings, char *text, size_t text_size)
{
    int rc = check(options, wanted, text, text_size);

    if (rc != 0)
        return rc;
    *settings = (struct redlock__tls_settings){.wanted = wanted, .min_version = options->tls_min};
    if (copy(&settings->ca_file, options->ca_file) &&
        copy(&settings->cert_file, options->cert_file) &&
        copy(&settings->key_file, options->key_file) &&
        copy(&settings->server_name, options->server_name))
        return 0;
    redlock__tls_settings_clear(settings);
    return REDLOCK_ERR_MEMORY;
}

void redlock__tls_settings_clear(struct redlock__tls_settings *settings)
{
    free(settings->ca_file);
    free(settings->cert_file);
    free(settings->key_file);
    free(settings->server_name);
    *settings = (struct redlock__tls_settings){0};
}
