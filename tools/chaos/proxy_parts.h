/*
 * What the files of the proxy share.
 *
 *   link      a listener, its rules, its trigger, its account
 *   session   a client's connection and the one to the server
 *   end       one of these two: ends[w] is the source of lanes[w], ends[1 - w] where it leads
 *   lane      a session's bytes one way, with what is special about this session
 *
 * One mutex guards all of it; functions that end in _locked need it held. Whoever changes something
 * does all that follows from it at once, be it the proxy's thread or a caller's; only memory of
 * sessions is freed by the thread alone, since it may hold events for them.
 */
#ifndef CHAOS_PROXY_PARTS_H
#define CHAOS_PROXY_PARTS_H

#include <pthread.h>
#include <sys/types.h>

#include "byte_queue.h"
#include "proxy.h"
#include "resp.h"
#include "seed.h"

enum {
    PROXY_SESSIONS_MAX = 4096,          /* of a proxy; further ones are reset */
    PROXY_LANE_BYTES = 8 * 1024 * 1024, /* in memory, then its source is not read */
    PROXY_EFFECTS_MAX = 8,              /* of a session, waiting for their replies; more: reset */
    PROXY_NAMES_MAX = 256               /* of commands that are counted each */
};

#define PROXY_NEVER INT64_MAX
#define PROXY_NOWHERE UINT64_MAX

/* Something epoll watches. */
struct watch {
    enum {
        WATCH_TIMER,
        WATCH_LISTENER,
        WATCH_CLIENT,
        WATCH_SERVER
    } kind;
    int fd; /* -1: closed */
    void *owner;
    bool watched; /* errors always are, then */
    uint32_t events;
};

enum ending {
    ENDING_NONE,
    ENDING_FIN,
    ENDING_RESET
};

struct lane {
    struct byte_queue queue;
    uint64_t counted_held; /* up to here bytes are in the account already */
    uint64_t stop;         /* a trigger holds what is from here on, until ... */
    int64_t stop_until;
    uint64_t cut;       /* when all before this has left: reset */
    enum ending ending; /* what is passed on behind the last byte, ... */
    int64_t ending_due; /* ... not sooner than this */
    bool ending_passed;
    bool closed;       /* half closed by us: what comes now is lost */
    bool lost;         /* something was: so is all that follows, as without a retransmission */
    bool by_flow;      /* it was FLOW_SWALLOW that lost it */
    bool blocked;      /* the socket takes no more just now */
    int64_t next_send; /* slices, bandwidth */
};

struct end {
    struct watch watch;
    bool read_ended, write_ended;
};

/* What is to happen to a reply. */
struct effect {
    uint64_t index;  /* of the command on its connection, from 0 */
    uint64_t serial; /* of the trigger; 0: it was chance */
    enum trigger_action action;
    int64_t hold_ns;
    unsigned bytes;
};

enum mute {
    NOT_MUTE,
    MUTE_SILENT,   /* link_silent(): never had a server */
    MUTE_HALF_OPEN /* link_half_open(): has none any more */
};

struct session {
    struct session *next;
    struct link *link;
    uint64_t number; /* on its link, from 1 */
    struct end ends[2];
    struct lane lanes[2];
    bool connecting, dead;
    enum mute mute;
    struct resp_commands commands;
    struct resp_replies replies;
    uint64_t commands_begun, replies_begun;
    struct effect effects[PROXY_EFFECTS_MAX];
    unsigned effects_count;
    struct effect cutting; /* why there is a cut in the replies */
    int64_t drain_until;   /* a reset waits so long for what was sent before it; 0: none waits */
    int64_t next_at;       /* when there is something to do unasked */
};

struct armed_trigger {
    bool armed, done;
    uint64_t serial;        /* of the last one, armed or not */
    struct trigger trigger; /* without its strings */
    bool any_command, any_key;
    size_t key_len;
    char command[RESP_NAME_MAX + 1], key[RESP_KEY_MAX + 1];
};

struct name_count {
    char name[RESP_NAME_MAX + 1];
    uint64_t n;
};

struct link {
    struct link *next;
    struct proxy *proxy;
    char *name;
    int port, target;
    int keeper; /* a second socket that is bound to the port: it stays ours without a listener */
    struct watch listener;
    int64_t deaf_until; /* no descriptor was free: accepts again then */
    struct session *sessions;

    struct stream delays[2], resets;
    struct delay delay[2];
    enum flow flow[2];
    unsigned slice[2];
    int64_t gap_ns[2], bandwidth[2];
    double reset_chance;
    bool refuse, silent;

    struct armed_trigger trigger;
    struct link_count count;
    struct name_count *names;
    size_t names_count;
};

/* ---- proxy.c ---------------------------------------------------------------- */

int64_t proxy_now(void);
void proxy_enter(struct proxy *proxy);
void proxy_leave(struct proxy *proxy);        /* and the thread looks at its timers again */
bool proxy_admit_locked(struct proxy *proxy); /* one more session. False: too many */
/* What the listener will be told. */
void proxy_note_locked(struct link *link, const char *what, uint64_t n);
/* Something is done that a caller may wait for; that wait, false: in vain. */
void proxy_changed_locked(struct proxy *proxy);
bool proxy_wait_locked(struct proxy *proxy, int64_t until);
/* From now on, these events and errors. */
void watch_want_locked(struct proxy *proxy, struct watch *watch, uint32_t events);
void watch_forget_locked(struct proxy *proxy, struct watch *watch);
void watch_close_locked(struct proxy *proxy, struct watch *watch, bool reset);

/* ---- proxy_link.c ----------------------------------------------------------- */

void link_accept_locked(struct link *link);
void link_listen_locked(struct link *link); /* or not, as its rules and deaf_until are now */
/* Listens, but isn't watched yet. NULL: errno. */
struct link *link_new(struct proxy *proxy, const char *name, int target, uint64_t seed);
void link_free(struct link *link); /* when no thread is left */

/* ---- proxy_session.c -------------------------------------------------------- */

void session_begin_locked(struct link *link, int client);
void session_event_locked(struct session *session, enum way from, uint32_t events);
/* Passes on what may leave now, and finds out when the next may. */
void session_pump_locked(struct session *session);
void session_reset_locked(struct session *session); /* an injected one: both sides, at once */
void session_close_end_locked(struct session *session, enum way from);
bool session_torn_locked(const struct session *session);

/* ---- proxy_lane.c ----------------------------------------------------------- */

/* Bytes that were read, and how that came to an end. */
void lane_take_locked(struct session *session, enum way way, const char *data, size_t n);
void lane_end_locked(struct session *session, enum way way, enum ending ending);
/* The first byte that may not leave for now, whatever its time. */
uint64_t lane_limit_locked(const struct session *session, enum way way);
bool lane_held_locked(const struct session *session, enum way way);
void lane_count_held_locked(struct session *session, enum way way);
void lane_lose_locked(struct session *session, enum way way, uint64_t position);

/* ---- proxy_trigger.c -------------------------------------------------------- */

void trigger_command_locked(struct session *session); /* name and key are known */
void trigger_reply_locked(struct session *session);   /* one begins */
void trigger_reply_end_locked(struct session *session);
void trigger_done_locked(struct session *session, uint64_t serial);

#endif
