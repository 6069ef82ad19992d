/*
 * Real redis-server processes that listen with TLS, next to the plain ports of servers.h, which
 * tests go on using to look at them; and certificates of all kinds, made with the openssl command.
 *
 * As in servers.h everything that can't be done fails the running test.
 */
#ifndef TLS_SERVERS_H
#define TLS_SERVERS_H

/*
 * Certificates, made anew by tls_files_make() in a directory that is removed when the process ends:
 *
 *   ca.crt        the authority of the servers and of client.crt
 *   stranger.crt  an authority that signed nothing that counts
 *   server        for localhost and 127.0.0.1
 *   foreign       as server, signed by the stranger
 *   other         for other.example
 *   expired       as server, but over
 *   own           as server, signed by itself
 *   client        of a client; intruder: of a client, signed by the stranger
 *   locked        only a key: that of client, with a passphrase
 *
 * Each has NAME.crt and NAME.key.
 */
void tls_files_make(void);
/* The path of one of them. Valid for ever. */
const char *tls_file(const char *name);

/* servers_start(n) and a TLS port for each, with the certificate `server`. */
void tls_servers_start(int n);
/* Lets server i show that certificate from now on, and ask for one: "no", "yes" or "optional". */
void tls_servers_use(int i, const char *certificate, const char *ask);
/* After servers_kill(): on the same ports, empty. */
void tls_servers_revive(int i);

const char *tls_uri(int i);         /* rediss://127.0.0.1:port */
const char *tls_uri_by_name(int i); /* rediss://localhost:port */
const char *const *tls_uris(void);  /* all of the first kind */

/* An endpoint of servers.h with "rediss" instead of "redis". Valid until the eighth next call. */
const char *tls_uri_of(const char *uri);

#endif
