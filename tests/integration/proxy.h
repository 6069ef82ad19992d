/*
 * A TCP proxy between a client and one server, in a thread of the test process.
 *
 * It passes bytes on until the test says otherwise: hold them, lose them, reset the connection,
 * refuse new ones; now, or from the k-th command of a name on. Of the protocol it knows what
 * a command is and how it's called, so that it never parts one.
 *
 * Everything fails the running test (ck_abort) that can't be done or doesn't come in ten seconds.
 * Only the test's own thread calls these functions.
 */
#ifndef PROXY_H
#define PROXY_H

#include <stddef.h>

struct proxy;

enum proxy_way {
    PROXY_REQUESTS, /* client to server */
    PROXY_REPLIES   /* server to client */
};

enum proxy_mode {
    PROXY_PASS,   /* what was held goes first, in order */
    PROXY_HOLD,   /* kept until PROXY_PASS */
    PROXY_SWALLOW /* lost. To be cut before it passes again: replies would be one off */
};

struct proxy *proxy_new(int port); /* to 127.0.0.1:port */
void proxy_free(struct proxy *proxy);
const char *proxy_uri(const struct proxy *proxy); /* redis://127.0.0.1:port of its own */

/* From now on. */
void proxy_set(struct proxy *proxy, enum proxy_way way, enum proxy_mode mode);

/* From the k-th `command` (upper case) that is received after this call: this one itself
 * is held or lost if `way` is requests, whatever is answered after it if it's replies. A
 * later such call replaces one that is still waiting. */
void proxy_set_at(struct proxy *proxy, const char *command, long k, enum proxy_way way,
                  enum proxy_mode mode);

/* Resets all connections, and passes in new ones. Requests that were held are kept:
 * the client believes them on their way. */
void proxy_cut(struct proxy *proxy);
/* Now such requests reach the server; returns when it has executed them. */
void proxy_deliver(struct proxy *proxy);

/* Refuses new connections, or accepts them again. */
void proxy_refuse(struct proxy *proxy, int refuse);

/* How many commands of that name were received so far, passed or not. */
long proxy_count(struct proxy *proxy, const char *command);

/* Until k of them were, until n bytes were, until at least n bytes are held. */
void proxy_await_command(struct proxy *proxy, const char *command, long k);
void proxy_await_bytes(struct proxy *proxy, enum proxy_way way, size_t n);
void proxy_await_held(struct proxy *proxy, enum proxy_way way, size_t n);

#endif
