/*
 * TCP links between clients and servers, all in one thread, each with faults of its own that
 * can be changed while it runs. Bytes leave in the order they came. What a link decides by chance,
 * it decides from its own stream of the run's seed.
 *
 * All calls: any thread; none blocks but those that say "await". Times are ns.
 */
#ifndef CHAOS_PROXY_H
#define CHAOS_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct proxy;
struct link;

/* Something worth an account: "connected", "refused", "trigger", "reset" (by a fault), "closed" (by
 * a peer), with the number of the connection on its link, from 1. From the proxy's thread, and
 * never while a lock is held: it may call everything but proxy_free(). */
typedef void proxy_listener(void *context, const char *link, const char *what, int64_t n);

struct proxy *proxy_new(uint64_t seed, proxy_listener *listener, void *context); /* NULL: errno */
void proxy_free(struct proxy *proxy);

/* Listens on a free port of 127.0.0.1 and passes on to 127.0.0.1:target. `name` is copied.
 * NULL: errno. Links live as long as the proxy. */
struct link *proxy_link(struct proxy *proxy, const char *name, int target);
int link_port(const struct link *link);
const char *link_name(const struct link *link);

enum way {
    REQUESTS, /* client to server */
    REPLIES   /* server to client */
};

/* ---- lasting faults: until changed, or link_heal() ----------------------- */

enum law {
    LAW_CONSTANT,    /* base */
    LAW_UNIFORM,     /* base - spread .. base + spread */
    LAW_NORMAL,      /* mean base, deviation spread */
    LAW_EXPONENTIAL, /* base + exponential of mean spread */
    LAW_PARETO       /* base + Pareto of scale spread, shape 1.5 */
};
struct delay {
    enum law law;
    int64_t base_ns, spread_ns; /* what comes out is cut to 0 .. 60 s; both 0: none */
};
void link_delay(struct link *link, enum way way, struct delay delay);

enum flow {
    FLOW_PASS,
    FLOW_HOLD,   /* kept, and passed on in order afterwards: a partition that TCP outlives */
    FLOW_SWALLOW /* lost, also what was held or delayed, and the end of a connection. One that lost
                    anything stays silent, and is reset when the link is healed or passes again */
};
void link_flow(struct link *link, enum way way, enum flow flow);

void link_slice(struct link *link, enum way way, unsigned most, int64_t gap_ns); /* 0: whole */
void link_bandwidth(struct link *link, enum way way, int64_t bytes_per_s);       /* 0: no limit */
/* Of a reset, for each command: half of them before it is passed on, half instead of its reply. */
void link_reset_chance(struct link *link, double chance);
void link_refuse(struct link *link, bool refuse); /* new connections: nobody listens */
void link_silent(struct link *link, bool silent); /* new ones: accepted, then silence */

/* Everything above off, held and delayed bytes delivered, connections that lost bytes or were half
 * open reset, triggers forgotten. */
void link_heal(struct link *link);

/* ---- at once ------------------------------------------------------------- */

void link_reset(struct link *link); /* RST to both sides of all connections */
void link_half_open(
    struct link *link); /* the server's side is closed, the client's stays, silent */
void link_half_close(struct link *link, enum way way); /* FIN that way, the other way goes on */
void link_target(struct link *link, int port); /* resets all connections; new ones go there */

/* ---- triggers: a fault at an exact command -------------------------------- */

enum trigger_action {
    TRIGGER_DROP_REPLY,   /* the request is passed on; its reply, and what follows on that
                             connection, is lost until the link is healed */
    TRIGGER_HOLD_REPLY,   /* the same, but kept until link_release() or `hold_ns` went by */
    TRIGGER_DROP_REQUEST, /* this request and what follows is lost */
    TRIGGER_HOLD_REQUEST, /* kept, as HOLD_REPLY */
    TRIGGER_CUT,          /* the request is passed on; then, when its reply has come, reset */
    TRIGGER_CUT_REPLY     /* the first `bytes` bytes of the reply are passed on, then reset */
};
struct trigger {
    const char *command; /* upper case, "SET"; "EVAL" also stands for nothing but EVAL. NULL: any */
    const char *key;     /* the key of SET, DEL, GET, ..., or KEYS[1] of an EVAL. NULL: any */
    long k;              /* the k-th such command on this link from now on, from 1 */
    enum trigger_action action;
    int64_t hold_ns; /* 0: until link_release() or link_heal() */
    unsigned bytes;
};
/* Replaces the link's one that hasn't fired. Strings are copied. */
void link_trigger(struct link *link, const struct trigger *trigger);
/* False: not within timeout_ns. For replies: when the reply has come and is held, lost, cut. */
bool link_await_trigger(struct link *link, int64_t timeout_ns);
void link_release(struct link *link);

/* ---- account --------------------------------------------------------------- */

struct link_count {
    uint64_t accepted, refused, resets, commands;
    uint64_t open;                                        /* now */
    uint64_t bytes[2], swallowed[2], held[2], delayed[2]; /* bytes, by way, so far */
    uint64_t triggered;
};
struct link_count link_count(struct link *link);
/* So often was a command of this name (upper case) read from clients. */
uint64_t link_commands(struct link *link, const char *command);

#endif
