/*
 * TLS as a transformer of bytes, between io.c's sockets and the nodes:
 *
 *     socket --ciphertext--> redlock__tls_take    redlock__tls_read   --plaintext--> node
 *     socket <-ciphertext--- redlock__tls_output  redlock__tls_write  <-plaintext--- node
 *
 * No socket, no clock and no waiting in it. Whoever moves the bytes waits for the socket to be
 * readable, always, and to be writable only while output is left that it did not take: there is no
 * other state in which a stream waits, so nothing can spin.
 *
 * The peer is always verified: its chain of certificates, and its name, which is a host name or an
 * address. Nothing turns that off.
 *
 * One struct redlock__tls a client; streams of one client are used by one thread at a time.
 * In a build without TLS tls_none.c stands in for tls.c, and nothing but redlock__tls_new() is
 * called.
 */
#ifndef REDLOCK__TLS_H
#define REDLOCK__TLS_H

#include <stdbool.h>
#include <stddef.h>

#include "redlock.h"
#include "tls_options.h"

struct redlock__tls;        /* what the connections of one client have in common */
struct redlock__tls_stream; /* one connection */

enum redlock__tls_state {
    REDLOCK__TLS_HANDSHAKE,
    REDLOCK__TLS_OPEN,
    REDLOCK__TLS_ENDED, /* the peer said goodbye; what it sent before has been read */
    REDLOCK__TLS_FAILED /* see redlock__tls_text(); output may hold what is to be told the peer */
};

/* Reads the files; settings outlive it. 0; ERR_ARGUMENT with the option, the file and the reason in
 * text (NULL: no text); ERR_MEMORY; ERR_UNSUPPORTED. */
int redlock__tls_new(const struct redlock__tls_settings *settings, struct redlock__tls **tls,
                     char *text, size_t text_size);
void redlock__tls_free(struct redlock__tls *tls); /* NULL accepted */

/* Begins a handshake: its first bytes are in the output. host: an endpoint's. NULL: out of memory.
 */
struct redlock__tls_stream *redlock__tls_open(struct redlock__tls *tls, const char *host);
void redlock__tls_close(struct redlock__tls_stream *stream); /* frees; NULL accepted */

enum redlock__tls_state redlock__tls_state(const struct redlock__tls_stream *stream);
/* Why it FAILED, in less than REDLOCK_TEXT_LEN bytes. */
const char *redlock__tls_text(const struct redlock__tls_stream *stream);
/* What it means that the connection ended now without a word of TLS; NULL: nothing special. */
const char *redlock__tls_guess(const struct redlock__tls_stream *stream);

/* Takes ciphertext received and carries on with the handshake. */
void redlock__tls_take(struct redlock__tls_stream *stream, const char *data, size_t len);
/* Plaintext; 0: none is left, see the state. To be called until then after each take. */
size_t redlock__tls_read(struct redlock__tls_stream *stream, char *to, size_t size);
/* How much of the plaintext was taken: one record at most, 0 unless OPEN. To be called when all
 * output was sent, so that a peer that doesn't read makes no heap of ciphertext. */
size_t redlock__tls_write(struct redlock__tls_stream *stream, const char *data, size_t len);

/* Ciphertext to be sent, valid until the next call but this one and _sent. */
const char *redlock__tls_output(struct redlock__tls_stream *stream, size_t *len);
void redlock__tls_sent(struct redlock__tls_stream *stream, size_t len);

/* If OPEN, appends a goodbye to the output; nothing can be written any more. */
void redlock__tls_goodbye(struct redlock__tls_stream *stream);

#endif
