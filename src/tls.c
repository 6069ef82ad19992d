/*
 * See tls.h. A stream is OpenSSL's machine between two buffers in memory. OpenSSL reads from `in`,
 * which redlock__tls_take() fills, and never finds its end there, only that there is nothing yet.
 * It writes to `out`, which always has room. So the only thing it ever waits for is more
 * ciphertext.
 *
 * Errors. OpenSSL keeps a queue of errors per thread, and what an earlier call has left there
 * would be taken for this one's. It is emptied before each call, and after it, since the thread
 * may be an application's with TLS of its own.
 *
 * Texts. OpenSSL's reasons differ from version to version, and some say little to who has to mend
 * it; those that matter are told from the codes. With TLS 1.3 a client's handshake is over before
 * the server has looked at its certificate, so "you have no certificate" may come as the
 * first thing read, or not at all, if the server's reset overtakes it: that the server asked for
 * one is therefore remembered. What doesn't begin like TLS is told from the first byte.
 *
 * Renegotiation and compression are off. There is no resumption of sessions: a connection lives
 * long, and a resumed session would not be verified anew.
 */
#include "tls.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "endpoint.h"

enum {
    RECORD = 16384, /* plaintext in one record, at most */
    RECORD_ALERT = 0x15,
    RECORD_HANDSHAKE = 0x16,
    REASON_LEN = 256
};

struct redlock__tls {
    SSL_CTX *context;
    const struct redlock__tls_settings *settings;
};

struct redlock__tls_stream {
    SSL *ssl;
    BIO *in, *out; /* the ssl's */
    size_t sent;   /* of what is in out */
    enum redlock__tls_state state;
    bool heard;                           /* the peer has sent anything */
    bool read;                            /* any plaintext */
    bool asked;                           /* for a certificate, and we have none that would do */
    bool has_certificate;                 /* of our own */
    char name[REDLOCK__MAX_HOST_LEN + 1]; /* that the peer must have */
    char text[REDLOCK_TEXT_LEN];
};

int redlock_has_tls(void)
{
    return 1;
}

/* ---- what went wrong ---------------------------------------------------- */

/* The first error of the queue, in words. */
static void first_reason(char reason[REASON_LEN])
{
    unsigned long code = ERR_peek_error();
    const char *known = code == 0 ? "unknown" : ERR_reason_error_string(code);
    char whole[REASON_LEN];

    if (known == NULL) { /* the operating system's: the text is the last part of the whole */
        ERR_error_string_n(code, whole, sizeof whole);
        known = strrchr(whole, ':') != NULL ? strrchr(whole, ':') + 1 : whole;
    }
    (void)snprintf(reason, REASON_LEN, "%s", known);
}

static void describe_certificate(struct redlock__tls_stream *stream, long result)
{
    static const char failed[] = "certificate verify failed: ";

    if (result == X509_V_ERR_HOSTNAME_MISMATCH)
        (void)snprintf(stream->text, sizeof stream->text, "%shostname mismatch, not for %.60s",
                       failed, stream->name);
    else if (result == X509_V_ERR_IP_ADDRESS_MISMATCH)
        (void)snprintf(stream->text, sizeof stream->text, "%sIP address mismatch, not for %.60s",
                       failed, stream->name);
    else
        (void)snprintf(stream->text, sizeof stream->text, "%s%s", failed,
                       X509_verify_cert_error_string(result));
}

static bool is_about_certificates(int alert)
{
    return (alert >= SSL_AD_BAD_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
           alert == SSL_AD_UNKNOWN_CA || alert == SSL_AD_ACCESS_DENIED;
}

/* Why the peer gave up, as far as it told. */
static void describe_alert(struct redlock__tls_stream *stream, int alert)
{
    const char *what = SSL_alert_desc_string_long(alert);

    if (alert == SSL_AD_CERTIFICATE_REQUIRED || (stream->asked && !stream->read))
        (void)snprintf(stream->text, sizeof stream->text, "the server wants %s client certificate",
                       stream->has_certificate ? "another" : "a");
    else if (stream->has_certificate && is_about_certificates(alert))
        (void)snprintf(stream->text, sizeof stream->text, "the server refuses our certificate: %s",
                       what);
    else
        (void)snprintf(stream->text, sizeof stream->text, "the server gave up: %s", what);
}

static void fail(struct redlock__tls_stream *stream)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_LIB(code) == ERR_LIB_SSL ? ERR_GET_REASON(code) : 0;
    long result = SSL_get_verify_result(stream->ssl);
    char text[REASON_LEN];

    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && result != X509_V_OK) {
        describe_certificate(stream, result);
    } else if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + UCHAR_MAX) {
        describe_alert(stream, reason - SSL_AD_REASON_OFFSET);
    } else {
        first_reason(text);
        (void)snprintf(stream->text, sizeof stream->text, "%.*s", (int)sizeof stream->text - 1,
                       text);
    }
    stream->state = REDLOCK__TLS_FAILED;
}

/* After a call that returned rc. */
static void look_at(struct redlock__tls_stream *stream, int rc)
{
    int error = SSL_get_error(stream->ssl, rc);

    if (error == SSL_ERROR_ZERO_RETURN)
        stream->state = REDLOCK__TLS_ENDED;
    else if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_READ &&
             error != SSL_ERROR_WANT_WRITE)
        fail(stream);
    ERR_clear_error();
}

/* ---- of a client -------------------------------------------------------- */

/* why: what the file should have been. One that can't be read says so by itself. */
static int refuse_file(char *text, size_t text_size, const char *option, const char *file,
                       const char *why)
{
    bool by_system = ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SYS;
    char reason[REASON_LEN];

    first_reason(reason);
    if (text != NULL && by_system)
        (void)snprintf(text, text_size, "%s %s: %s", option, file, reason);
    else if (text != NULL)
        (void)snprintf(text, text_size, "%s %s: %s (%s)", option, file, why, reason);
    return REDLOCK_ERR_ARGUMENT;
}

static int load_authorities(SSL_CTX *context, const char *file, char *text, size_t text_size)
{
    if (file == NULL) {
        if (SSL_CTX_set_default_verify_paths(context) == 1)
            return 0;
        if (text != NULL)
            (void)snprintf(text, text_size, "the system's store of certificates cannot be used");
        return REDLOCK_ERR_SYSTEM;
    }
    if (SSL_CTX_load_verify_locations(context, file, NULL) == 1)
        return 0;
    return refuse_file(text, text_size, "ca_file", file, "no usable certificate in it");
}

/* Instead of OpenSSL's own, which asks on the terminal. */
static int refuse_passphrase(char *buffer, int size, int writing, void *context)
{
    bool *wanted = context;

    (void)buffer;
    (void)size;
    (void)writing;
    *wanted = true;
    return -1;
}

static int load_key(SSL_CTX *context, const struct redlock__tls_settings *settings, char *text,
                    size_t text_size)
{
    const char *file = settings->key_file, *why = "no usable private key in it";
    bool passphrase = false, good;

    SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &passphrase);
    good = SSL_CTX_use_PrivateKey_file(context, file, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (good && SSL_CTX_check_private_key(context) == 1)
        return 0;
    if (passphrase)
        why = "it has a passphrase, which is not supported";
    else if (good || ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_X509)
        why = "it does not belong to the certificate in cert_file";
    return refuse_file(text, text_size, "key_file", file, why);
}

static int load_files(SSL_CTX *context, const struct redlock__tls_settings *settings, char *text,
                      size_t text_size)
{
    int rc = load_authorities(context, settings->ca_file, text, text_size);

    if (rc != 0 || settings->cert_file == NULL)
        return rc;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, settings->cert_file) != 1)
        return refuse_file(text, text_size, "cert_file", settings->cert_file,
                           "no usable certificate in it");
    ERR_clear_error();
    return load_key(context, settings, text, text_size);
}

/* Called only where the server asks and we have nothing that it would take. */
static int note_request(SSL *ssl, X509 **certificate, EVP_PKEY **key)
{
    struct redlock__tls_stream *stream = SSL_get_app_data(ssl);

    (void)certificate;
    (void)key;
    stream->asked = true;
    return 0;
}

static SSL_CTX *new_context(const struct redlock__tls_settings *settings)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int least = settings->min_version == 13 ? TLS1_3_VERSION : TLS1_2_VERSION;

    if (context == NULL)
        return NULL;
    /* What the system's configuration asks for beyond that stands. */
    if (SSL_CTX_get_min_proto_version(context) < least &&
        SSL_CTX_set_min_proto_version(context, least) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_client_cert_cb(context, note_request);
    return context;
}

int redlock__tls_new(const struct redlock__tls_settings *settings, struct redlock__tls **tls,
                     char *text, size_t text_size)
{
    struct redlock__tls *made = calloc(1, sizeof *made);
    uint64_t how = 0;
    int rc = REDLOCK_ERR_MEMORY;

#if defined(OPENSSL_INIT_NO_ATEXIT)
    /* A program may exit with a client's thread at work: nothing must be torn down under it. */
    how = OPENSSL_INIT_NO_ATEXIT;
#endif
    ERR_clear_error();
    if (made != NULL && OPENSSL_init_ssl(how, NULL) == 1)
        made->context = new_context(settings);
    if (made != NULL && made->context != NULL) {
        made->settings = settings;
        rc = load_files(made->context, settings, text, text_size);
    }
    ERR_clear_error();
    if (rc != 0)
        redlock__tls_free(made);
    else
        *tls = made;
    return rc;
}

void redlock__tls_free(struct redlock__tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->context);
    free(tls);
}

/* ---- of a connection ---------------------------------------------------- */

/* The name to verify, and for a host name also the name to ask for. */
static bool set_name(struct redlock__tls_stream *stream, const char *name)
{
    size_t len = strlen(name);

    if (len > 1 && name[len - 1] == '.') /* the root's dot is in no certificate */
        len--;
    if (len >= sizeof stream->name)
        return false;
    memcpy(stream->name, name, len);
    stream->name[len] = '\0';
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(stream->ssl), stream->name) == 1)
        return true;
    SSL_set_hostflags(stream->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(stream->ssl, stream->name) == 1 &&
           SSL_set_tlsext_host_name(stream->ssl, stream->name) == 1;
}

/* The machine and its two buffers. */
static bool set_up(struct redlock__tls_stream *stream, const struct redlock__tls *tls)
{
    stream->ssl = SSL_new(tls->context);
    stream->in = BIO_new(BIO_s_mem());
    stream->out = BIO_new(BIO_s_mem());
    if (stream->ssl == NULL || stream->in == NULL || stream->out == NULL) {
        (void)BIO_free(stream->in);
        (void)BIO_free(stream->out);
        return false;
    }
    SSL_set_bio(stream->ssl, stream->in, stream->out);
    (void)BIO_set_mem_eof_return(stream->in, -1);
    (void)SSL_set_app_data(stream->ssl, stream);
    SSL_set_connect_state(stream->ssl);
    return true;
}

static void shake_hands(struct redlock__tls_stream *stream)
{
    int rc;

    ERR_clear_error();
    rc = SSL_do_handshake(stream->ssl);
    if (rc == 1)
        stream->state = REDLOCK__TLS_OPEN;
    else
        look_at(stream, rc);
}

struct redlock__tls_stream *redlock__tls_open(struct redlock__tls *tls, const char *host)
{
    struct redlock__tls_stream *stream = calloc(1, sizeof *stream);
    const char *name = tls->settings->server_name != NULL ? tls->settings->server_name : host;

    if (stream == NULL)
        return NULL;
    stream->has_certificate = tls->settings->cert_file != NULL;
    ERR_clear_error();
    if (!set_up(stream, tls) || !set_name(stream, name)) {
        ERR_clear_error();
        redlock__tls_close(stream);
        return NULL;
    }
    shake_hands(stream);
    return stream;
}

void redlock__tls_close(struct redlock__tls_stream *stream)
{
    if (stream == NULL)
        return;
    SSL_free(stream->ssl); /* and its buffers */
    free(stream);
}

enum redlock__tls_state redlock__tls_state(const struct redlock__tls_stream *stream)
{
    return stream->state;
}

const char *redlock__tls_text(const struct redlock__tls_stream *stream)
{
    return stream->text;
}

const char *redlock__tls_guess(const struct redlock__tls_stream *stream)
{
    if (stream->asked && !stream->read)
        return stream->has_certificate
                   ? "closed by the server, which wants another client certificate"
                   : "closed by the server, which wants a client certificate";
    return stream->state == REDLOCK__TLS_HANDSHAKE ? "closed by the server during the handshake"
                                                   : NULL;
}

/* ---- bytes -------------------------------------------------------------- */

void redlock__tls_take(struct redlock__tls_stream *stream, const char *data, size_t len)
{
    unsigned char first = len > 0 ? (unsigned char)data[0] : 0;

    if (len == 0 || len > INT_MAX || stream->state == REDLOCK__TLS_FAILED)
        return;
    if (!stream->heard && first != RECORD_HANDSHAKE && first != RECORD_ALERT) {
        (void)snprintf(stream->text, sizeof stream->text,
                       "the peer does not speak TLS: its first byte is 0x%02x", (unsigned)first);
        stream->state = REDLOCK__TLS_FAILED;
        return;
    }
    stream->heard = true;
    if (BIO_write(stream->in, data, (int)len) != (int)len) {
        ERR_clear_error();
        (void)snprintf(stream->text, sizeof stream->text, "out of memory");
        stream->state = REDLOCK__TLS_FAILED;
    } else if (stream->state == REDLOCK__TLS_HANDSHAKE) {
        shake_hands(stream);
    }
}

size_t redlock__tls_read(struct redlock__tls_stream *stream, char *to, size_t size)
{
    size_t n = 0;
    int rc;

    if (stream->state != REDLOCK__TLS_OPEN)
        return 0;
    ERR_clear_error();
    rc = SSL_read_ex(stream->ssl, to, size, &n);
    if (rc == 1) {
        stream->read = true;
        return n;
    }
    look_at(stream, rc);
    return 0;
}

size_t redlock__tls_write(struct redlock__tls_stream *stream, const char *data, size_t len)
{
    size_t n = 0;
    int rc;

    if (stream->state != REDLOCK__TLS_OPEN || len == 0)
        return 0;
    ERR_clear_error();
    rc = SSL_write_ex(stream->ssl, data, len < RECORD ? len : RECORD, &n);
    if (rc == 1)
        return n;
    look_at(stream, rc);
    return 0;
}

const char *redlock__tls_output(struct redlock__tls_stream *stream, size_t *len)
{
    char *data = NULL;
    long all = BIO_get_mem_data(stream->out, &data);

    *len = all > 0 ? (size_t)all - stream->sent : 0;
    return *len > 0 ? data + stream->sent : "";
}

void redlock__tls_sent(struct redlock__tls_stream *stream, size_t len)
{
    size_t left;

    (void)redlock__tls_output(stream, &left);
    stream->sent += len;
    if (len < left)
        return;
    (void)BIO_reset(stream->out);
    stream->sent = 0;
}

void redlock__tls_goodbye(struct redlock__tls_stream *stream)
{
    if (stream->state != REDLOCK__TLS_OPEN)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(stream->ssl);
    ERR_clear_error();
    stream->state = REDLOCK__TLS_ENDED;
}
