/* The deadline of a running command as a small machine: time is an argument, actions are its
 * results. */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdint.h>

enum watch_state {
    WATCH_IDLE,        /* no command yet */
    WATCH_RUNNING,     /* the lease is kept */
    WATCH_TERMINATING, /* asked to end: no way back */
    WATCH_KILLING      /* being killed */
};

enum watch_action {
    WATCH_NOTHING,
    WATCH_TERMINATE,
    WATCH_KILL
};

struct watch {
    enum watch_state state;
    int64_t grace_ns;     /* TERM comes this long before the deadline */
    int64_t margin_ns;    /* KILL comes this long before it */
    int64_t deadline_ns;  /* the last one in force */
    int64_t terminate_ns; /* when to act; derived */
    int64_t kill_ns;
};

/* The margin before a deadline in which killed processes disappear: 100 ms, less for tiny leases.
 */
int64_t watch_margin_ms(int64_t ttl_ms);

void watch_init(struct watch *watch, int64_t grace_ns, int64_t margin_ns);
void watch_start(struct watch *watch, int64_t deadline_ns);

/* The lease was renewed. Changes nothing for a command that was already asked to end. */
void watch_renewed(struct watch *watch, int64_t deadline_ns);

/* The lease is gone: TERM now, KILL after the grace, and never later than it was going to be. */
void watch_lost(struct watch *watch, int64_t now_ns);

/* Nobody renews any more: KILL now. */
void watch_orphaned(struct watch *watch, int64_t now_ns);

/* When watch_due() must be called next; CLOCK_NEVER if not at all. */
int64_t watch_next_ns(const struct watch *watch);

/* What is to be done now. WATCH_KILL is given once; a killed group is killed until it is gone. */
enum watch_action watch_due(struct watch *watch, int64_t now_ns);

#endif
