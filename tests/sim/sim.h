/*
 * A simulator of clients, network and primaries in virtual time.
 *
 * Each client is one real engine (src/engine.h), driven as the library's driver does it;
 * each primary is a model with its own wall clock (server.h); between them are links with
 * latency, that can hold, swallow, refuse or cut. Time is true time in nanoseconds from 0,
 * known to nobody in there: clients and primaries have clocks with offsets and rates of
 * their own. Everything comes from one seed; `hash` is over everything that happened.
 *
 * Checkers run at every instant at which something can have changed (check.c) and count
 * what they find; a test asks for it with sim_violation().
 *
 * Tests call sim_acquire() and friends for a client as an application would, between
 * the events, and let time pass with sim_run() or sim_wait().
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "server.h"

enum {
    SIM_MAX_CLIENTS = 8,
    SIM_MAX_NODES = 9,
    SIM_ALL = -1
};

#define SIM_US INT64_C(1000)
#define SIM_MS INT64_C(1000000)
#define SIM_S INT64_C(1000000000)

struct sim;

/* ---- random numbers (random.c) ------------------------------------------ */

struct sim_random {
    uint64_t state;
};

uint64_t sim_random(struct sim_random *random);
/* low <= result <= high */
int64_t sim_between(struct sim_random *random, int64_t low, int64_t high);
bool sim_chance(struct sim_random *random, uint32_t percent);

/* ---- events (events.c) -------------------------------------------------- */

typedef void sim_call_fn(struct sim *sim, void *context);

enum sim_event_kind {
    SIM_EV_CONNECT,
    SIM_EV_UP,
    SIM_EV_DOWN,
    SIM_EV_WAKE,
    SIM_EV_CALL
};

struct sim_event {
    int64_t at_ns;
    uint64_t order; /* first scheduled, first served */
    enum sim_event_kind kind;
    uint64_t id; /* of a connection, or a client's wake */
    uint32_t client;
    sim_call_fn *call;
    void *context;
};

struct sim_heap {
    struct sim_event *events;
    size_t count, size;
    uint64_t order;
};

void sim_heap_push(struct sim_heap *heap, struct sim_event event);
struct sim_event sim_heap_pop(struct sim_heap *heap);

/* ---- links and connections (net.c) -------------------------------------- */

enum {
    SIM_UP = 1,
    SIM_DOWN = 2,
    SIM_BOTH = 3
};

struct sim_segment;

struct sim_pipe {
    struct sim_segment *first, *last;
    int64_t last_due_ns;
    bool held;      /* nothing is delivered; it waits */
    bool swallowed; /* bytes vanish until the connection ends */
};

struct sim_buffer {
    char *data;
    size_t len, size;
};

struct sim_conn {
    struct sim_conn *next;
    uint64_t id;
    uint32_t client, link, node;  /* links beyond the primaries' are side links */
    uint64_t blocked;             /* in BLPOP: when it came there, among others; 0: not */
    struct sim_buffer blocked_on; /* the key */
    bool connected;
    bool client_open, server_open;
    bool told;     /* the client's engine knows that it is connected */
    bool survives; /* what was sent arrives, although the client aborts */
    struct sim_pipe up, down;
    struct sim_buffer entering;             /* sent by the client, not yet a whole command */
    struct sim_buffer at_server, at_client; /* arrived, not yet read */
    bool end_at_client;
    struct sim_peer peer;
};

enum sim_action {
    SIM_HOLD_REQUEST, /* it and all behind it waits for sim_deliver() */
    SIM_HOLD_REPLY,
    SIM_SWALLOW_REQUEST, /* from it on the connection is a black hole upwards */
    SIM_SWALLOW_REPLY,
    SIM_CUT_AT_REQUEST, /* the connection dies before it arrives */
    SIM_CUT_AT_REPLY,   /* it is executed, then the connection dies */
    SIM_CUT_LATE        /* the client sees the connection die, the bytes wait as held */
};

struct sim_trigger {
    bool armed;
    enum sim_command command;
    uint32_t skip; /* so many of that command first */
    enum sim_action action;
};

enum {
    SIM_MAX_TRIGGERS = 4
};

/* Between one client and one primary. */
struct sim_link {
    int64_t min_ns, max_ns; /* one way */
    bool hold_up, hold_down;
    bool black_hole;    /* connects get no answer, connections swallow */
    bool accept_silent; /* connects succeed, and then nothing */
    bool refuse;
    bool slice;
    bool proxy; /* bytes sent survive the client's abort, and may land late */
    struct sim_trigger triggers[SIM_MAX_TRIGGERS];
};

/* ---- clients and locks (client.c) --------------------------------------- */

/* One lock as the application sees it. */
struct sim_lock {
    struct sim_lock *next;
    uint32_t client;
    char key[32];
    struct redlock__lease *lease;
    bool running;     /* an operation, and its result is not there yet */
    bool interrupted; /* by a release, and its DONE event is not there yet */
    bool awaits_done; /* its DONE event is not there yet */
    int result;
    int64_t due_ns;      /* of the operation, on the client's clock */
    bool waits;          /* the operation is an acquire with a wait */
    bool acquired;       /* was told 0 */
    bool releasing;      /* or released, or cancelled: claims nothing any more */
    int64_t deadline_ns; /* the newest known, on the client's clock */
    int64_t min_validity_ms, longest_ttl_ms;
    bool over;             /* acquired, and then not held any more */
    bool released_in_time; /* while it was held */
    uint32_t dones, renewed, failing, lost;
    int64_t lost_ns, failing_ns; /* on the client's clock */
    void *user;
};

struct sim_client {
    struct redlock__engine *engine; /* NULL: gone */
    int64_t clock_ns, rate_ppm;     /* of its clock: at instant 0, and how it runs */
    bool frozen, closing;
    int64_t close_by_ns;
    struct sim_random entropy, random;
    uint64_t wake; /* id of the wake-up that counts */
    int64_t wake_ns;
    int64_t lateness_ns; /* of its timers, at most */
    int64_t spin_ns;
    uint32_t spins;
    bool driving;
};

/* ---- the whole ---------------------------------------------------------- */

struct sim_config {
    uint32_t n, clients;
    uint32_t quorum; /* 0: majority; may be too small, for checks of the checkers */
    uint32_t drift_ppm;
    int64_t max_ttl_ms, node_timeout_ms, connect_timeout_ms, silence_limit_ms;
    int64_t restart_guard_ms; /* 0: off; REDLOCK_GUARD_AUTO */
    int64_t latency_min_ns, latency_max_ns;
    const char *password;
    uint32_t database;
    bool early;      /* primaries expire as Redis 8 */
    uint32_t native; /* REDLOCK__CAN_*: what primaries have, at first; see sim_server_kind() */
    bool slice;
    int64_t lateness_ns;
    uint64_t seed;
};

enum {
    SIM_CHECK_EXCLUSIVE = 1, /* no two hold one name at the same instant */
    SIM_CHECK_VALIDITY = 2,  /* who holds has its key on more than N - quorum primaries */
    SIM_CHECK_ORPHANS = 4,   /* after quiescence no key is left (sim_check_orphans) */
    SIM_CHECK_BOUNDS = 8,    /* each operation ends by its deadline */
    SIM_CHECK_EVENTS = 16,   /* DONE once an operation; nothing after forget */
    SIM_CHECK_LOST = 32,     /* told once, no later than the deadline, never taken back */
    SIM_CHECK_WIRE = 64,     /* nothing is sent that could touch another's key */
    SIM_CHECK_SPIN = 128,    /* no timer stays due, nothing goes round in circles */
    SIM_CHECK_ALL = 255
};

struct sim {
    struct sim_config config;
    struct redlock__node_config node_configs[SIM_MAX_CLIENTS][SIM_MAX_NODES];
    int64_t now_ns;
    struct sim_heap heap;
    struct sim_random random;
    struct sim_client clients[SIM_MAX_CLIENTS];
    struct sim_server servers[SIM_MAX_NODES];
    struct sim_link links[SIM_MAX_CLIENTS][SIM_MAX_NODES];
    struct sim_conn *conns;
    uint64_t next_id;
    struct sim_lock *locks;
    uint32_t checks;
    uint32_t violations[8]; /* by bit of SIM_CHECK_* */
    char first_violation[256];
    uint64_t hash;
    uint64_t steps;
    const char *log_wanted; /* counted in log_seen; NULL: nothing */
    uint32_t log_seen;
    bool trace; /* REDLOCK_SIM_TRACE: print what happens */
    /* Called for each event of each lock, outside the engine; may be NULL. */
    void (*on_event)(struct sim *sim, struct sim_lock *lock, redlock_event event);
};

/* n primaries with one-way latency 0.1 to 0.5 ms, true clocks; of the kind that the environment
 * variable REDLOCK_SIM_NATIVE says (sim_server_kind()), else without native commands. */
struct sim_config sim_defaults(uint32_t n, uint32_t clients, uint64_t seed);
struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *sim);

/* One event; false: none left before until_ns (then now is until_ns). */
bool sim_step(struct sim *sim, int64_t until_ns);
void sim_run(struct sim *sim, int64_t for_ns);
/* Until cond() holds after an event; false: it didn't for so long. */
typedef bool sim_condition_fn(struct sim *sim, void *context);
bool sim_run_until(struct sim *sim, sim_condition_fn *cond, void *context, int64_t for_ns);
void sim_at(struct sim *sim, int64_t in_ns, sim_call_fn *call, void *context);

void sim_note(struct sim *sim, uint64_t what, uint64_t a, uint64_t b);
void sim_tell(struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- applications ------------------------------------------------------- */

/* ttl, wait 0, base 10, cap 100, no renewal */
struct redlock__lease_config sim_lock_config(int64_t ttl_ms);
/* *rc, if not NULL: what the engine said; NULL returned unless 0. */
struct sim_lock *sim_acquire(struct sim *sim, uint32_t client, const char *key,
                             const struct redlock__lease_config *config, int *rc);
/* A lock of another process: stored value and counted set. */
struct sim_lock *sim_adopt(struct sim *sim, uint32_t client, const char *key, const char *value,
                           uint32_t counted, int64_t ttl_ms);
int sim_extend(struct sim *sim, struct sim_lock *lock, int64_t ttl_ms);
int sim_release(struct sim *sim, struct sim_lock *lock);
void sim_cancel(struct sim *sim, struct sim_lock *lock);
/* The handle is gone after this. */
void sim_forget(struct sim *sim, struct sim_lock *lock, bool leave_keys);
/* Lets time pass until the running operation has its result. */
int sim_wait(struct sim *sim, struct sim_lock *lock);
bool sim_held(const struct sim *sim, const struct sim_lock *lock);
const char *sim_token(const struct sim_lock *lock);

/* Short forms: start and wait. */
struct sim_lock *sim_lock_now(struct sim *sim, uint32_t client, const char *key, int64_t ttl_ms);
int sim_try(struct sim *sim, uint32_t client, const char *key, int64_t ttl_ms);
int sim_extend_now(struct sim *sim, struct sim_lock *lock, int64_t ttl_ms);
int sim_release_now(struct sim *sim, struct sim_lock *lock); /* forgets it, too */

int64_t sim_clock(const struct sim_client *client, int64_t now_ns);
/* The first instant at which the client's clock shows at least clock_ns. */
int64_t sim_instant(const struct sim_client *client, int64_t clock_ns);

/* ---- faults ------------------------------------------------------------- */

void sim_freeze_client(struct sim *sim, uint32_t client);
void sim_thaw_client(struct sim *sim, uint32_t client);
void sim_kill_client(struct sim *sim, uint32_t client);
/* As redlock_client_free(): flushes at most a node timeout, then closes in order. */
void sim_close_client(struct sim *sim, uint32_t client);
/* A new process with a new engine; what ran there before is killed. */
void sim_start_client(struct sim *sim, uint32_t client);
void sim_drive(struct sim *sim, uint32_t client);

void sim_freeze_server(struct sim *sim, uint32_t node);
void sim_thaw_server(struct sim *sim, uint32_t node);
void sim_stop_server(struct sim *sim, uint32_t node);
void sim_start_server(struct sim *sim, uint32_t node, bool keep_data);
void sim_restart_server(struct sim *sim, uint32_t node, bool keep_data);
void sim_error(struct sim *sim, uint32_t node, enum sim_command command, const char *text);

/* client, node: SIM_ALL for all */
void sim_hold(struct sim *sim, int client, int node, int directions);
void sim_deliver(struct sim *sim, int client, int node);
void sim_black_hole(struct sim *sim, int client, int node, bool on);
void sim_cut(struct sim *sim, int client, int node, bool bytes_survive);
void sim_refuse(struct sim *sim, int client, int node, bool on);
void sim_accept_silent(struct sim *sim, int client, int node, bool on);
void sim_latency(struct sim *sim, int client, int node, int64_t min_ns, int64_t max_ns);
/* The k-th (1: next) such command between the two. */
void sim_trigger(struct sim *sim, int client, int node, enum sim_command command, uint32_t k,
                 enum sim_action action);
void sim_disarm(struct sim *sim, int client, int node);
void sim_heal(struct sim *sim); /* all links and primaries; latencies stay */

/* ---- what is where ------------------------------------------------------ */

/* NULL: not there */
const char *sim_value(struct sim *sim, uint32_t node, const char *key);
bool sim_has(struct sim *sim, uint32_t node, const struct sim_lock *lock);
uint32_t sim_where(struct sim *sim, const struct sim_lock *lock); /* mask of nodes */
uint32_t sim_present(struct sim *sim, const char *key);           /* mask of nodes with any owner */
int64_t sim_pttl(struct sim *sim, uint32_t node, const char *key);
void sim_vanish(struct sim *sim, uint32_t node, const char *key);
void sim_set_foreign(struct sim *sim, uint32_t node, const char *key, int64_t ttl_ms);
uint64_t sim_count(const struct sim *sim, int node, enum sim_command command);
redlock_stats sim_stats(const struct sim *sim, uint32_t client);

/* ---- checkers (check.c) ------------------------------------------------- */

void sim_violate(struct sim *sim, uint32_t check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
uint32_t sim_violations(const struct sim *sim, uint32_t checks);
/* NULL: none */
const char *sim_violation(const struct sim *sim);
void sim_check_before(struct sim *sim, int64_t until_ns); /* the instants up to it */
void sim_check_now(struct sim *sim);
/* Keys of ours that nobody holds: call when all locks are gone and things are quiet. */
void sim_check_orphans(struct sim *sim);

/* ---- between net.c and client.c ----------------------------------------- */

struct sim_conn *sim_conn_of(struct sim *sim, uint32_t client, uint32_t link); /* the open one */
void sim_net_connect(struct sim *sim, uint32_t client, uint32_t link);
void sim_net_send(struct sim *sim, struct sim_conn *conn, const char *data, size_t len);
void sim_net_close(struct sim *sim, struct sim_conn *conn, bool abort);
void sim_net_event(struct sim *sim, const struct sim_event *event);
void sim_net_free(struct sim *sim);
/* After the engine has been heard: operations that ended, deadlines that moved (app.c). */
void sim_locks_thawed(struct sim *sim, uint32_t client);
void sim_locks_settle(struct sim *sim, uint32_t client);
void sim_client_connected(struct sim *sim, struct sim_conn *conn);
void sim_client_readable(struct sim *sim, struct sim_conn *conn);
void sim_client_wake(struct sim *sim, uint32_t client, uint64_t id);
void sim_clients_free(struct sim *sim);

void sim_buffer_add(struct sim_buffer *buffer, const char *data, size_t len);
void sim_buffer_drop(struct sim_buffer *buffer, size_t len);

#endif
