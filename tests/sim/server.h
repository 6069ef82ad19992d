/*
 * A model primary: what Redis does with the few commands this library sends, executed
 * from their real bytes, with a wall clock of its own.
 *
 * Expiry is by that clock, in whole milliseconds, as in Redis: a key set with PX t at
 * wall instant u dies at ms floor(u / 1 ms) + t. Up to 7.4 it is readable throughout that
 * millisecond; from 8.0 on the active cycle may delete it when that millisecond begins, up
 * to 1 ms before t is over: `early`.
 */
#ifndef SIM_SERVER_H
#define SIM_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIM_MAX_ARGS = 16,
    SIM_MAX_ENTRIES = 256
};

enum sim_command {
    SIM_AUTH,
    SIM_SELECT,
    SIM_SETNAME,
    SIM_PING,
    SIM_SET,
    SIM_GET,
    SIM_PTTL,
    SIM_DEL,
    SIM_EXTEND,
    SIM_RELEASE,
    SIM_GRANT,
    SIM_SETTLE,
    SIM_FLUSHALL,
    SIM_INFO_SERVER,
    SIM_INFO_REPLICATION,
    SIM_SETTINGS,
    SIM_MARKER,
    SIM_TIME,
    SIM_SEEN,
    SIM_MARK,
    SIM_RECOVER,
    SIM_WAITING, /* SET of redlock:waiting:... */
    SIM_BLPOP,
    SIM_LPUSH,
    SIM_PEXPIRE,
    SIM_MULTI,
    SIM_ZADD, /* XX INCR */
    SIM_EXEC,
    SIM_DISCARD,
    SIM_UNKNOWN,
    SIM_COMMANDS,
    SIM_ANY = SIM_COMMANDS
};

struct sim_args {
    size_t count;
    const char *data[SIM_MAX_ARGS];
    size_t len[SIM_MAX_ARGS];
};

/* Bytes of the first whole command in data; 0: not whole yet; SIZE_MAX: no command. */
size_t sim_parse(const char *data, size_t len, struct sim_args *args);
enum sim_command sim_classify(const struct sim_args *args);
/* Whether argument i is this, in any case or exactly; its number. */
bool sim_word(const struct sim_args *args, size_t i, const char *text);
bool sim_starts_with(const struct sim_args *args, size_t i, const char *text);
bool sim_text_is(const struct sim_args *args, size_t i, const char *text);
int64_t sim_number(const struct sim_args *args, size_t i);
/* Which of REDLOCK__CAN_* it needs; of extends and releases, which argument is the key. */
uint32_t sim_need(const struct sim_args *args);
size_t sim_key_at(const struct sim_args *args);

struct sim_entry {
    char *key, *value; /* value: NUL-terminated; keys are binary */
    size_t key_len;
    uint32_t database;
    int64_t when_ms; /* on the wall clock; INT64_MAX: no ttl */
    int64_t written_ns;
    bool other_type;   /* a list or sorted set: GET says WRONGTYPE */
    bool sorted;       /* a set of one member, its value */
    int64_t score;     /* of that */
    uint32_t elements; /* of it */
    bool planted;      /* by the test, not by a client */
    bool late;         /* by a connection its client had given up */
    bool refused;      /* a removal of it got an error reply */
};

enum sim_settle {
    SIM_SETTLE_SOUND,
    SIM_SETTLE_NOTHING, /* says yes and leaves the counter: no settling, or after the answer */
    SIM_SETTLE_BLIND,   /* writes without a look at the lock */
    SIM_SETTLE_LOWERS,  /* writes below a counter that is higher */
    SIM_SETTLE_FORGETS  /* the counter is lost with the lock: a ttl, or evicted */
};

enum sim_count {
    SIM_COUNT_SOUND,
    SIM_COUNT_SINGLY, /* what is between MULTI and EXEC is executed as it comes */
    SIM_COUNT_MAKES   /* a counter that isn't there begins at 0 */
};

struct sim_server {
    int64_t wall_ns; /* of the clock at instant 0 */
    int64_t rate_ppm;
    bool early;
    bool frozen, down;
    uint32_t number, run;   /* make the run id; run counts its starts */
    int64_t started_wall_s; /* what INFO's uptime is counted from */
    bool durable;           /* what its settings say; data is kept by who restarts it */
    bool replica;
    int64_t replicas, second_offset; /* what INFO says */
    uint32_t native;                 /* REDLOCK__CAN_*: what it has, as its version says */
    uint32_t forbidden;              /* REDLOCK__CAN_*: what its user may not */
    bool unknown;                    /* what is forbidden it doesn't even know */
    bool cutting;                    /* its scripts set the time as SET does: a naive client's */
    uint64_t natives, scripts;       /* extends and releases it executed, each way */
    enum sim_settle settle;          /* how it settles: as it should, or a variant that must fail */
    enum sim_count count_up;         /* the same of transactions */
    uint64_t transactions;           /* that set a lock */
    const char *password;            /* NULL: none */
    const char *error[SIM_COMMANDS]; /* "-MISCONF ..." without the dash; NULL: none */
    uint64_t count[SIM_COMMANDS];    /* executed, refused ones included */
    uint64_t commands;               /* but those that ask who it is and what its clock shows */
    int64_t last_extend;             /* what it said to the newest one */
    const char *foul;                /* a command no client of ours may send; NULL: none */
    size_t entry_count;
    struct sim_entry entries[SIM_MAX_ENTRIES];
};

/* One connection, as the server sees it. */
struct sim_peer {
    bool authenticated;
    bool late;
    uint32_t database;
    bool multi, aborted; /* between MULTI and EXEC; something in it was refused */
    size_t queued_len;
    char queued[1024]; /* commands, or where they are executed as they come, replies */
    uint32_t queued_count;
};

struct sim_reply {
    size_t len;
    bool blocks; /* no reply yet: BLPOP of an empty list, for so long */
    int64_t block_ms;
    char data[512];
};

/* number: another for each server of a simulation. It starts at now_ns. */
void sim_server_init(struct sim_server *server, uint32_t number);
/* A new run of the process. */
void sim_server_start(struct sim_server *server, int64_t now_ns);
/* What may be in `native`: nothing, and what each version since has. */
uint32_t sim_server_kind(uint32_t kind);
void sim_server_run_id(const struct sim_server *server, char run_id[41]);
void sim_server_destroy(struct sim_server *server);

int64_t sim_server_wall_ms(const struct sim_server *server, int64_t now_ns);
void sim_server_step(struct sim_server *server, int64_t step_ns);
/* From now on; the clock doesn't jump. */
void sim_server_rate(struct sim_server *server, int64_t ppm, int64_t now_ns);

void sim_server_execute(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);

/* One element for a BLPOP that waits; false: there is none. */
bool sim_server_pop(struct sim_server *server, uint32_t database, const char *key, size_t key_len,
                    int64_t now_ns, struct sim_reply *reply);

/* NULL: no such key at that instant. */
struct sim_entry *sim_server_find(struct sim_server *server, uint32_t database, const char *key,
                                  size_t key_len, int64_t now_ns);
struct sim_entry *sim_server_plant(struct sim_server *server, const char *key, const char *value,
                                   int64_t ttl_ms, int64_t now_ns);
/* A sorted set of that one member. */
struct sim_entry *sim_server_plant_score(struct sim_server *server, const char *key,
                                         const char *member, int64_t score, int64_t now_ns);
bool sim_server_vanish(struct sim_server *server, const char *key);
void sim_server_flush(struct sim_server *server);

/* ---- between server.c, about.c, numbers.c and multi.c -------------------- */

/* But those of transactions. */
void sim_execute_one(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                     const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);

struct sim_entry *sim_server_add(struct sim_server *server, uint32_t database, const char *key,
                                 size_t key_len, const char *value, size_t value_len,
                                 int64_t now_ns);
void sim_server_remove(struct sim_server *server, const char *key, size_t len);
void sim_say_integer(struct sim_reply *reply, int64_t value);
void sim_say_bulk(struct sim_reply *reply, const char *text);
/* Its member and that one's score; NULL: no such set. */
void sim_say_scores(const struct sim_entry *entry, struct sim_reply *reply);

void sim_say_info(const struct sim_server *server, enum sim_command command, int64_t now_ns,
                  struct sim_reply *reply);
void sim_say_time(const struct sim_server *server, int64_t now_ns, struct sim_reply *reply);
void sim_say_settings(const struct sim_server *server, struct sim_reply *reply);
void sim_execute_seen(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply);
void sim_execute_mark(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply);
/* MULTI, EXEC, or what is in between. */
void sim_execute_multi(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                       const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);
/* ZADD key XX INCR 1 member. */
void sim_execute_zadd(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply);
void sim_execute_recover(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);
void sim_execute_grant(struct sim_server *server, struct sim_peer *peer,
                       const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);
void sim_execute_settle(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply);

/* T + T * ppm / 10^6, without overflow. */
int64_t sim_scale(int64_t duration_ns, int64_t ppm);

#endif
