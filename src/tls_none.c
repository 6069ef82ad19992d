/*
 * Stands in for tls.c in a build without TLS. Endpoints that want it are refused before a client is
 * made, so there is never a stream.
 */
#include <stdio.h>

#include "tls.h"

int redlock_has_tls(void)
{
    return 0;
}

int redlock__tls_new(const struct redlock__tls_settings *settings, struct redlock__tls **tls,
                     char *text, size_t text_size)
{
    (void)settings;
    (void)tls;
    if (text != NULL)
        (void)snprintf(text, text_size, "TLS is not in this build");
    return REDLOCK_ERR_UNSUPPORTED;
}

void redlock__tls_free(struct redlock__tls *tls)
{
    (void)tls;
}

struct redlock__tls_stream *redlock__tls_open(struct redlock__tls *tls, const char *host)
{
    (void)tls;
    (void)host;
    return NULL;
}

void redlock__tls_close(struct redlock__tls_stream *stream)
{
    (void)stream;
}

enum redlock__tls_state redlock__tls_state(const struct redlock__tls_stream *stream)
{
    (void)stream;
    return REDLOCK__TLS_FAILED;
}

const char *redlock__tls_text(const struct redlock__tls_stream *stream)
{
    (void)stream;
    return "not in this build";
}

const char *redlock__tls_guess(const struct redlock__tls_stream *stream)
{
    (void)stream;
    return NULL;
}

void redlock__tls_take(struct redlock__tls_stream *stream, const char *data, size_t len)
{
    (void)stream;
    (void)data;
    (void)len;
}

size_t redlock__tls_read(struct redlock__tls_stream *stream, char *to, size_t size)
{
    (void)stream;
    (void)to;
    (void)size;
    return 0;
}

size_t redlock__tls_write(struct redlock__tls_stream *stream, const char *data, size_t len)
{
    (void)stream;
    (void)data;
    (void)len;
    return 0;
}

const char *redlock__tls_output(struct redlock__tls_stream *stream, size_t *len)
{
    (void)stream;
    *len = 0;
    return "";
}

void redlock__tls_sent(struct redlock__tls_stream *stream, size_t len)
{
    (void)stream;
    (void)len;
}

void redlock__tls_goodbye(struct redlock__tls_stream *stream)
{
    (void)stream;
}
