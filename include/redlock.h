/*
 * libredlock: a lock with a time limit, held on a majority of independent
 * Redis or Valkey primaries.
 *
 * WHAT A LEASE DOES NOT GUARANTEE
 *
 * A lease is a promise about time, made by clocks. It is good for efficiency:
 * it keeps two workers from doing the same work. On its own it is not good
 * enough where two holders at once would destroy data. Read this first:
 *
 *  - It ends by itself. A process that is paused (SIGSTOP, swap, a debugger, a
 *    suspended laptop, a paused virtual machine) can wake up after its lease
 *    ended and go on. The library notices before it touches a key, and
 *    redlock_is_held() says so, but it cannot stop your code in between two
 *    instructions. Ask before every step that matters, and leave a margin.
 *  - It trusts that clocks run at about the same rate. The drift allowance
 *    (1 % of the ttl and 2 ms, by default, more where more was measured) covers
 *    rates, not steps: Redis and Valkey expire keys by wall clock, and a primary
 *    whose clock is stepped forward forgets the lock early. A client that holds
 *    leases looks at the primaries' clocks once a second and takes such a vote
 *    away; until then, and in a process that lives shorter, a step goes unseen.
 *  - It trusts primaries to remember. One that restarted without its data would
 *    vote twice, so its vote does not count for max_ttl + drift + 1 s (the restart
 *    guard), unless it can prove that it forgot nothing. A primary that loses keys
 *    without restarting (eviction, DEL, FLUSHALL) is seen up to a second late, or
 *    not at all; evicting one lock key is never seen.
 *  - It is not a fence. Writes already on their way when a lease ends still
 *    arrive. Only the guarded resource can refuse them, by comparing a number
 *    that grows with each holder: redlock_fence() gives one.
 *  - It is not a strict queue. Waiters of one client are served in order; those of
 *    several clients are woken in order where the primaries allow it, but whoever
 *    asks at the right moment may come in between.
 *  - It is not reentrant, and it protects nothing from code that does not ask.
 *
 * docs/safety.md has the assumptions and the argument in full.
 *
 * WHAT IT DOES GUARANTEE
 *
 * While redlock_is_held() is true, at least quorum primaries, a majority of the
 * configured list, were seen to keep this lock's key, and by their own clocks
 * will keep it at least until redlock_deadline_ns(), provided no clock stepped,
 * no rate differed by more than the drift allowance and no primary forgot.
 *
 * RESULTS
 *
 * Functions that return int: 0 is the only value that means "you hold it" (or
 * extended, released, done). Everything else is negative: outcomes, which are a
 * normal part of locking, and errors; redlock_is_outcome() tells them apart.
 *
 * THREADS
 *
 * Any thread may use a client and its locks. One lock must not be released or
 * detached while another thread still uses that lock. No function here blocks
 * longer than it says. The library's own threads block all signals.
 *
 * UNITS
 *
 * Durations are int64_t milliseconds and say so in their names (_ms).
 * Absolute times are nanoseconds (_ns) of the clock that counts suspend:
 * CLOCK_BOOTTIME on Linux, CLOCK_MONOTONIC elsewhere.
 *
 * FORK
 *
 * A client belongs to the process that made it. In a child process every call
 * returns REDLOCK_ERR_FORKED; freeing there closes descriptors, sends nothing.
 */
#ifndef REDLOCK_H
#define REDLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define REDLOCK_API __attribute__((visibility("default")))
#define REDLOCK_MUST_USE __attribute__((warn_unused_result))
#else
#define REDLOCK_API
#define REDLOCK_MUST_USE
#endif

/* ---- limits: each has an error of its own ------------------------------- */

#define REDLOCK_MAX_NODES 31            /* primaries of one client */
#define REDLOCK_MAX_KEY_LEN 4096        /* bytes of a lock name, prefix included */
#define REDLOCK_MAX_PREFIX_LEN 256      /* bytes of the key prefix */
#define REDLOCK_MAX_TTL_MS 31536000000  /* 365 days: upper bound of max_ttl_ms */
#define REDLOCK_MAX_WAIT_MS 31536000000 /* longer waits: REDLOCK_WAIT_FOREVER */
#define REDLOCK_MAX_DRIFT_PPM 500000    /* half the ttl */
#define REDLOCK_MAX_LOCKS 1048576       /* locks, and keys still being removed, of one client */
#define REDLOCK_TEXT_LEN 128            /* bytes of a node's text, final NUL included */
#define REDLOCK_ADDRESS_LEN 256         /* bytes of a node's address, final NUL included */
#define REDLOCK_TOKEN_LEN 80            /* bytes of a token text, final NUL included */
#define REDLOCK_RUN_ID_LEN 41           /* bytes of a primary's run id, final NUL included */

#define REDLOCK_WAIT_FOREVER INT64_C(-1)
#define REDLOCK_GUARD_AUTO INT64_C(-1)

/* ---- results ------------------------------------------------------------ */

typedef enum redlock_result {
    REDLOCK_OK = 0, /* you hold it; extended; released; done */

    /* Outcomes: what locking is about. */
    REDLOCK_PENDING = -1,       /* started with redlock_start_*, no verdict yet */
    REDLOCK_BUSY = -2,          /* somebody else holds it, or a split vote */
    REDLOCK_NO_QUORUM = -3,     /* fewer than quorum primaries gave a lock answer */
    REDLOCK_WAIT_DEADLINE = -4, /* the wait ended before any attempt had a verdict */
    REDLOCK_EXPIRED = -5,       /* the validity had run out */
    REDLOCK_LOST = -6,          /* the majority is gone: removed, or another owner's */
    REDLOCK_CANCELLED = -7,     /* redlock_cancel() was called */

    /* Errors: something to repair. */
    REDLOCK_ERR_ARGUMENT = -20,     /* an argument or option is out of its range */
    REDLOCK_ERR_URI = -21,          /* an endpoint cannot be understood */
    REDLOCK_ERR_DUPLICATE = -22,    /* an endpoint is listed twice */
    REDLOCK_ERR_QUORUM = -23,       /* a quorum under a majority, or over N */
    REDLOCK_ERR_TTL = -24,          /* ttl < 1, not above its own drift, or > max_ttl_ms */
    REDLOCK_ERR_KEY = -25,          /* empty, too long, or starts with "redlock:" */
    REDLOCK_ERR_TOKEN = -26,        /* a token text cannot be understood */
    REDLOCK_ERR_MEMBERS = -27,      /* a token from another list of primaries */
    REDLOCK_ERR_STATE = -28,        /* not now: an operation is running, or no loop/thread */
    REDLOCK_ERR_LIMIT = -29,        /* over REDLOCK_MAX_LOCKS or another named limit */
    REDLOCK_ERR_MEMORY = -30,       /* out of memory */
    REDLOCK_ERR_SYSTEM = -31,       /* threads, descriptors, clock or entropy failed: errno */
    REDLOCK_ERR_FORKED = -32,       /* the client belongs to the parent process */
    REDLOCK_ERR_UNSUPPORTED = -33,  /* not in this build or on this system */
    REDLOCK_ERR_MISCONFIGURED = -34 /* the primaries do not fit together */
} redlock_result;

/* A short English text for a result; never NULL, static, no newline.
 * Threads: any. Blocks: never. */
REDLOCK_API const char *redlock_strerror(int rc);

/* 1 for outcomes (and for REDLOCK_OK), 0 for errors. Threads: any. */
REDLOCK_API int redlock_is_outcome(int rc);

/* "major.minor.patch" of the library in use. Threads: any. */
REDLOCK_API const char *redlock_version(void);

/* 1 if this build understands rediss:// endpoints. Threads: any. */
REDLOCK_API int redlock_has_tls(void);

/* ---- client ------------------------------------------------------------- */

/* N primaries, one connection each, one background thread. */
typedef struct redlock_client redlock_client;

/* One lock's life: acquiring, held, renewed, then lost or released. */
typedef struct redlock_lock redlock_lock;

/* Wakes every call that carries it. */
typedef struct redlock_cancel_handle redlock_cancel_handle;

enum {
    REDLOCK_LOG_ERROR = 0,
    REDLOCK_LOG_WARNING = 1,
    REDLOCK_LOG_INFO = 2,
    REDLOCK_LOG_DEBUG = 3
};

/* Receives one line without newline. Never a password or a whole token.
 * Runs where the other callbacks run (see redlock_event_fn), and may do so before
 * redlock_client_new() has returned. */
typedef void redlock_log_fn(void *context, int level, const char *line);

/*
 * Options of a client. Always start from redlock_options_init(): `size` lets
 * later versions append fields. The struct owns nothing: strings are copied by
 * redlock_client_new() and may be freed after it.
 */
typedef struct redlock_options {
    size_t size; /* set by redlock_options_init() */

    /*
     * Endpoints, one per primary, all independent of each other:
     *   redis://[user[:password]@]host[:port][/database]
     *   rediss://...                the same, encrypted: see ca_file below
     *   redis://[::1]:6379          IPv6 in brackets
     *   unix:///path/to/socket[?db=n]   (unix://user:password@/path to log in)
     * Percent-escapes are decoded in user, password and path.
     */
    const char *const *nodes;
    size_t node_count;    /* 1 is single-instance mode, through the same path */
    const char *password; /* used where a URI has none; NULL: no AUTH */

    /*
     * What all clients of the same primaries have to agree on. Where redlock_init() has
     * marked the primaries, 0 takes what they are marked with, and any other value must
     * equal it, else acquire and extend return MISCONFIGURED.
     */
    uint32_t quorum;    /* 0: as marked, or a majority. Else n/2+1 .. n */
    int64_t max_ttl_ms; /* 0: as marked, or 60000. A longer ttl is refused: renew instead */

    uint32_t drift_ppm;         /* summed rate error of client and primary: 10000 (1 %) */
    int64_t node_timeout_ms;    /* 0: clamp(ttl / 20, 20, 500), per lock */
    int64_t connect_timeout_ms; /* 1000: name, connect, TLS and greeting together */
    int64_t silence_limit_ms;   /* 2000: a link with a request pending this long closes */

    const char *prefix;      /* put before every key; NULL: none */
    const char *client_name; /* CLIENT SETNAME; NULL: "libredlock" */

    redlock_log_fn *log; /* NULL: silent */
    void *log_context;

    /*
     * 1: no background thread; the application's own event loop drives the
     * client (redlock_fd() below). Endpoints must then be numeric or unix.
     */
    int external_loop;

    /*
     * How long the vote of a primary that may have forgotten a lease doesn't count.
     * REDLOCK_GUARD_AUTO: max_ttl + drift + 1 s, which is what makes it safe. 0: no guard, said
     * once in the log; then a primary that restarts empty can vote twice.
     */
    int64_t restart_guard_ms;

    /*
     * For rediss:// nodes; an error if there are none. A primary's certificate is always verified,
     * its chain and its name. All files are in PEM form and read by redlock_client_new().
     */
    const char *ca_file;   /* authorities to trust; NULL: the system's */
    const char *cert_file; /* a certificate of our own, with its chain; NULL: none */
    const char *key_file;  /* its private key, without a passphrase; with cert_file or not at all */
    const char *server_name; /* the name in all primaries' certificates; NULL: the node's host */
    uint32_t tls_min;        /* 12: TLS 1.2 and later. 13: 1.3. 0: 12, or what the system demands */

    /*
     * With a single node only: an acquire or extend succeeds only if that many replicas of it have
     * acknowledged it (WAIT), within replica_timeout_ms; else it is NO_QUORUM, with the number in
     * the node's text, and the key is removed again. A replica that is promoted then has the lock,
     * if it is one of those that acknowledged; nothing here sees to that. At most 8 such operations
     * of a client are under way at a time, each on a connection of its own.
     */
    uint32_t replicas;          /* 0: none is waited for */
    int64_t replica_timeout_ms; /* 100: of the node's answer, besides its own time limit */
} redlock_options;

/* Threads: any. Blocks: never. */
REDLOCK_API void redlock_options_init(redlock_options *options);

/*
 * Makes a client and starts to connect in the background.
 * Threads: any. Blocks: no network is waited for; TLS's files are read.
 * Returns 0 and *client; or an error with *client untouched, and, if text is not
 * NULL, up to text_size bytes saying what is wrong and where (never a password):
 * ARGUMENT, URI, DUPLICATE, QUORUM, UNSUPPORTED, LIMIT, MEMORY, SYSTEM.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_client_new(const redlock_options *options,
                                                    redlock_client **client, char *text,
                                                    size_t text_size);

/*
 * Frees a client. Removals of keys already under way are flushed first, also to
 * primaries that owe an answer or are being connected to: at most one node timeout
 * (500 ms unless set).
 * Every lock handle must have been released or detached before (what a detached
 * lock left on the primaries stays until its ttl); calls in other threads must
 * have ended. NULL is accepted. In a forked child: closes descriptors, sends nothing.
 * Threads: one. Blocks: at most a node timeout. No callback runs after it.
 */
REDLOCK_API void redlock_client_free(redlock_client *client);

/* ---- cancelling --------------------------------------------------------- */

/* Threads: any. Returns 0, ERR_ARGUMENT or ERR_MEMORY. */
REDLOCK_API REDLOCK_MUST_USE int redlock_cancel_new(redlock_cancel_handle **cancel);

/*
 * Every call that carries this handle, now and later, in any client, returns
 * REDLOCK_CANCELLED at once. What the call already asked of the primaries is
 * still removed in the background.
 * Threads: any, not from a signal handler. Blocks: never on the network.
 */
REDLOCK_API void redlock_cancel(redlock_cancel_handle *cancel);

/* No call and no lock may carry it any more. NULL is accepted. */
REDLOCK_API void redlock_cancel_free(redlock_cancel_handle *cancel);

/* ---- what each primary said --------------------------------------------- */

typedef enum redlock_vote {
    REDLOCK_VOTE_NONE = 0,    /* not asked, or no answer before the verdict: see text */
    REDLOCK_VOTE_OURS = 1,    /* granted, extended or removed: the key was ours */
    REDLOCK_VOTE_FREE = 2,    /* there was no key */
    REDLOCK_VOTE_FOREIGN = 3, /* the key is another owner's */
    REDLOCK_VOTE_ERROR = 4,   /* the primary answered with an error: see text */
    REDLOCK_VOTE_SILENT = 5,  /* no answer within the node timeout */
    REDLOCK_VOTE_DOWN = 6,    /* no connection: see text */
    REDLOCK_VOTE_BARRED = 7   /* not asked, since its vote doesn't count now: see text */
} redlock_vote;

typedef struct redlock_node_result {
    char address[REDLOCK_ADDRESS_LEN]; /* as configured, without user and password */
    redlock_vote vote;
    int64_t elapsed_us;          /* from the round's start to this answer; -1: no answer */
    char text[REDLOCK_TEXT_LEN]; /* the reason in words; "" where the vote says it all */
} redlock_node_result;

/* ---- locks -------------------------------------------------------------- */

typedef enum redlock_event {
    REDLOCK_EVENT_NONE = 0,
    REDLOCK_EVENT_DONE = 1,            /* an operation begun by redlock_start_* has its result */
    REDLOCK_EVENT_RENEWED = 2,         /* automatic renewal moved the deadline */
    REDLOCK_EVENT_RENEWAL_FAILING = 3, /* a renewal failed; tried again while validity lasts */
    REDLOCK_EVENT_LOST = 4             /* not held any more, once, no later than the deadline */
} redlock_event;

/*
 * Runs in the client's background thread, or inside redlock_process(); never
 * inside another call. None runs after redlock_release(), redlock_detach() or
 * redlock_client_free() returned. It may call anything on this or other locks but
 * must not wait (no redlock_acquire with a wait, no redlock_client_free), since
 * renewals of other locks wait behind it. It may release its own lock.
 */
typedef void redlock_event_fn(void *context, redlock_lock *lock, redlock_event event);

typedef struct redlock_lock_options {
    size_t size; /* set by redlock_lock_options_init() */

    int64_t ttl_ms;  /* 10000: how long the primaries keep the key */
    int64_t wait_ms; /* 0: exactly one attempt. D: all over by D. REDLOCK_WAIT_FOREVER */

    /* Between two polls of a lock that is busy: an attempt, or a look at enough primaries to know
     * that one would be in vain. */
    int64_t retry_base_ms; /* 10: least delay, > 0 */
    int64_t retry_cap_ms;  /* 1000: delays grow up to this, with jitter */

    int64_t min_validity_ms; /* 0: held only while more than this is left */

    /* 1: renew in the background, at a third of the ttl. With renewals of others that begin at most
     * 10 ms, and a 64th of the ttl, before: together with those. */
    int renew;
    int64_t max_hold_ms; /* 0: no cap. Else renewal ends and the lock is lost after this */

    redlock_event_fn *on_event; /* NULL: none */
    void *event_context;

    redlock_cancel_handle *cancel; /* NULL: none. Must outlive the lock */

    /*
     * NULL, or room for result_count entries, written whenever redlock_acquire(),
     * redlock_extend() or redlock_release() of this lock returns with anything but
     * an argument error: one entry per primary, in the order configured. The
     * only way to see why an acquire failed, since that returns no handle. Must
     * outlive the lock.
     */
    redlock_node_result *results;
    size_t result_count;

    /*
     * 1: with a fencing token, see redlock_fence(). The primaries must have been marked by
     * redlock_init(), and allow scripts; needs the restart guard. Not with options.replicas
     * (UNSUPPORTED): a replica that is promoted may lack the last numbers.
     */
    int fence;
} redlock_lock_options;

/* Threads: any. Blocks: never. */
REDLOCK_API void redlock_lock_options_init(redlock_lock_options *options);

/*
 * Acquires `key` (key_len bytes, any bytes) on a majority of the primaries, by
 * SET key token NX PX ttl on every one of them in parallel.
 * Source: "Distributed Locks with Redis", redis.io, section "The Redlock algorithm".
 *
 * options may be NULL for the defaults.
 * Threads: any. Blocks: wait_ms; with wait 0 at most connect timeout + node timeout, and with a
 * fence one node timeout more, where the numbers of the primaries have to be settled.
 * Returns:
 *   0             you hold it; *lock is the handle
 *   BUSY          somebody else holds it, or the votes were split
 *   NO_QUORUM     too few primaries answered; options->results says why
 *   WAIT_DEADLINE the wait ended before an attempt had a verdict (queued behind
 *                 another caller of this client)
 *   EXPIRED       the quorum answered only when the validity was used up
 *   CANCELLED     by redlock_cancel()
 *   errors        ARGUMENT, TTL, KEY, LIMIT, MEMORY, SYSTEM, FORKED, STATE, MISCONFIGURED
 *                 (the primaries don't fit together, options->results says why: the same
 *                 server twice, a replica, other markers; only until a first lock was held:
 *                 later such a vote is left out)
 * On anything but 0 *lock is untouched and every key this call may have left
 * behind is being removed.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_acquire(redlock_client *client, const void *key,
                                                 size_t key_len,
                                                 const redlock_lock_options *options,
                                                 redlock_lock **lock);

/*
 * Sets the lock's time to ttl_ms from now (0: its last ttl), on the primaries that are
 * counted (docs/safety.md) and where the key is still ours; never creates a key on a
 * failed round, and never shortens what a primary keeps: a shorter ttl lowers this
 * handle's deadline, at once and whatever becomes of the round.
 * Until a first success only the quorum that answered the acquire first is counted,
 * and one of those dead means NO_QUORUM though others have the key; renewal takes
 * care of that by itself.
 * Threads: any, one operation per lock at a time (else ERR_STATE); a renewal
 * under way is waited for. Blocks: at most connect timeout + node timeout.
 * Returns 0 with a new deadline; EXPIRED, LOST, CANCELLED; NO_QUORUM (the deadline
 * stands, but for a shorter ttl_ms; the keys stay); errors TTL, STATE, MEMORY, FORKED,
 * MISCONFIGURED (as redlock_acquire).
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_extend(redlock_lock *lock, int64_t ttl_ms);

/*
 * Removes the key from every primary it was ever written to, and frees the handle
 * in every case. NULL is accepted (ERR_ARGUMENT).
 * Threads: any, as the last use of the handle. Blocks: at most a node timeout, and one
 * more while connections are being set up (an adopted lock: connect timeout + node timeout);
 * primaries that have not answered by then get the removal in the background.
 * Returns 0 if a majority still had it; else what was found:
 * EXPIRED, LOST, NO_QUORUM, CANCELLED; error FORKED.
 */
REDLOCK_API int redlock_release(redlock_lock *lock);

/*
 * Hands the lock on: stops renewing, writes the token text, frees the handle and
 * leaves the keys to their ttl. The text (value:set) holds the stored value and
 * the counted set; whoever has it can extend and release the lock. Where an extend sent before may
 * still arrive at some primaries, it names them too: they are not extended to more than that.
 * token_size must be at least REDLOCK_TOKEN_LEN. On an error the handle lives on.
 * Threads: as redlock_release. Blocks: only for a renewal or an extend under way, at most a node
 * timeout.
 * Returns 0; EXPIRED or LOST if nothing is left to hand on; errors ARGUMENT,
 * STATE, FORKED.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_detach(redlock_lock *lock, char *token, size_t token_size);

/*
 * Makes a handle from a token text of redlock_token() or redlock_detach(). Its
 * validity is 0 until a first redlock_extend() succeeds: only the primaries know
 * what is left. Sends nothing. An adopted lock is not renewed before that.
 * Threads: any. Blocks: never.
 * Returns 0; errors TOKEN, MEMBERS (the token was made with another list of
 * primaries, or the same in another order), and those of redlock_acquire.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_adopt(redlock_client *client, const void *key,
                                               size_t key_len, const char *token,
                                               const redlock_lock_options *options,
                                               redlock_lock **lock);

/*
 * 1 while the lease is valid by this machine's clock, read now, with more than
 * min_validity_ms left; else 0. In a forked child 0.
 * Threads: any. Blocks: never on the network.
 */
REDLOCK_API int redlock_is_held(const redlock_lock *lock);

/* Milliseconds of validity left, rounded down; 0 if not held (or less than
 * min_validity_ms is left). Threads: any. Blocks: never on the network. */
REDLOCK_API int64_t redlock_remaining_ms(const redlock_lock *lock);

/* The instant the lease ends, on the clock named above; 0 if it is not held yet, or
 * lost, or its release has begun. Only for comparing with the same clock on the same machine.
 * Threads: any. Blocks: never on the network. */
REDLOCK_API int64_t redlock_deadline_ns(const redlock_lock *lock);

/* Writes the token text (value:set) without giving the lock away. token_size must
 * be at least REDLOCK_TOKEN_LEN. Threads: any. Blocks: never on the network.
 * Returns 0; errors STATE (not acquired, or lost, or its release has begun), ARGUMENT, FORKED. */
REDLOCK_API int redlock_token(const redlock_lock *lock, char *token, size_t token_size);

/*
 * The fencing token of a lock acquired with options.fence: larger than that of every earlier holder
 * of this name, whatever clocks do, as long as not a majority of the primaries forgot. Give
 * it to the guarded resource with each write, and have that refuse a smaller one than it has
 * seen: UPDATE ... SET ..., fence = f WHERE ... AND fence <= f. It stays the same while the
 * lock is held; numbers may be left out. docs/safety.md has the argument.
 * Threads: any. Blocks: never on the network.
 * Returns the token, > 0, also of a lock that is lost or being released; or a negative error: STATE
 * (not a fenced lock, or one that was never held), ARGUMENT, FORKED.
 */
REDLOCK_API int64_t redlock_fence(const redlock_lock *lock);

/*
 * How many of the primaries that keep the lock could fail before the quorum is gone; -1 if it is
 * not held. Renewal raises it again when primaries come back. Threads: any. Blocks: never on the
 * network.
 */
REDLOCK_API int redlock_margin(const redlock_lock *lock);

/* A word for a vote: "ours", "free", "foreign", ... Never NULL. Threads: any. */
REDLOCK_API const char *redlock_vote_name(redlock_vote vote);

/*
 * Copies the newest round's result per primary, in the order configured.
 * Answers that came after the verdict are in it too. Returns the number of
 * primaries; at most `count` are written.
 * Threads: any. Blocks: never on the network.
 */
REDLOCK_API size_t redlock_node_results(const redlock_lock *lock, redlock_node_result *results,
                                        size_t count);

/* ---- signals as a descriptor -------------------------------------------- */

/*
 * A descriptor that is readable while an event of this lock is unread:
 * RENEWAL_FAILING, LOST (and DONE). Made at the first call, closed with the
 * handle. Do not read or close it; call redlock_next_event().
 * Threads: any. Blocks: never. Returns the descriptor, or ARGUMENT, SYSTEM, FORKED.
 */
REDLOCK_API int redlock_event_fd(redlock_lock *lock);

/* The oldest unread event, or REDLOCK_EVENT_NONE. RENEWED events are not kept.
 * Threads: any. Blocks: never. */
REDLOCK_API redlock_event redlock_next_event(redlock_lock *lock);

/* ---- without a handle --------------------------------------------------- */

typedef enum redlock_holder {
    REDLOCK_HOLDER_UNKNOWN = 0, /* fewer than quorum primaries answered */
    REDLOCK_HOLDER_NONE = 1,    /* no one owner has a majority */
    REDLOCK_HOLDER_ONE = 2      /* one owner has the key on a majority */
} redlock_holder;

typedef struct redlock_inspection {
    redlock_holder holder;
    int64_t remaining_ms;          /* ONE: until fewer than quorum keys are left, by the primaries'
                                      own clocks; -1: a key without a ttl */
    uint32_t votes;                /* primaries that have the majority owner's key */
    char owner[REDLOCK_TOKEN_LEN]; /* ONE: the start of the stored value, printable, cut */
} redlock_inspection;

typedef struct redlock_node_inspection {
    redlock_node_result result; /* FREE, OURS never, FOREIGN: a key is there; or a reason */
    int64_t remaining_ms;       /* FOREIGN: by the primary's clock; -1: no ttl */
    char owner[REDLOCK_TOKEN_LEN];
} redlock_node_inspection;

/*
 * Who holds `key`, per primary and by majority. Advisory: it may have changed
 * before this returns. nodes may be NULL; else it has room for node_count.
 * Threads: any. Blocks: at most connect timeout + node timeout.
 * Returns 0 when the question was put, whatever was found; errors KEY, ARGUMENT,
 * MEMORY, STATE (external_loop), FORKED.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_inspect(redlock_client *client, const void *key,
                                                 size_t key_len, redlock_inspection *inspection,
                                                 redlock_node_inspection *nodes, size_t node_count);

typedef enum redlock_node_state {
    REDLOCK_NODE_DOWN = 0,       /* waiting to connect again */
    REDLOCK_NODE_CONNECTING = 1, /* name, connect or greeting under way */
    REDLOCK_NODE_READY = 2
} redlock_node_state;

typedef enum redlock_standing {
    REDLOCK_STANDING_UNKNOWN = 0, /* not connected yet */
    REDLOCK_STANDING_COUNTS = 1,
    REDLOCK_STANDING_UNCONFIRMED = 2, /* counts, by its uptime alone */
    REDLOCK_STANDING_GUARD = 3,       /* it may have forgotten a lease */
    REDLOCK_STANDING_STEPPED = 4,     /* its clock was: keys set before died early */
    REDLOCK_STANDING_RETIRED = 5,     /* by redlock_init() */
    REDLOCK_STANDING_UNREADABLE = 6,  /* refuses to say what is needed to know */
    REDLOCK_STANDING_REPLICA = 7,     /* from here on: it doesn't belong in the list */
    REDLOCK_STANDING_TWIN = 8,        /* the same server as an earlier one */
    REDLOCK_STANDING_MISFIT = 9,      /* its marker and ours, or the others', differ */
    REDLOCK_STANDING_EVICTING = 10    /* it may evict locks: maxmemory with such a policy */
} redlock_standing;

typedef struct redlock_node_health {
    char address[REDLOCK_ADDRESS_LEN];
    redlock_node_state state;
    uint32_t pending;            /* requests without an answer */
    uint64_t connects;           /* connections made */
    char text[REDLOCK_TEXT_LEN]; /* why it was last down; "" if never */

    redlock_standing kind;
    int counts;           /* 1: its vote counts for new locks, while it is READY */
    int64_t counts_in_ms; /* until it does, if nothing else happens; -1: not by waiting */
    char standing[REDLOCK_TEXT_LEN]; /* why it counts, or why not */
    char run_id[REDLOCK_RUN_ID_LEN]; /* of the server process; "" if not known */

    /* Its wall clock against this machine's, measured at most once a second while locks are
     * held or a guard runs. */
    int64_t offset_us, offset_bound_us; /* its clock - ours, +- ; bound -1: never measured */
    int64_t step_us;                    /* the last step seen, forward positive; 0: none */
    int64_t step_age_ms;                /* how long ago; -1: none */
    int32_t rate_ppm, rate_bound_ppm;   /* how much faster it runs, +- ; bound -1: not yet */
} redlock_node_health;

/* State per primary; returns their number, writes at most `count`.
 * Threads: any. Blocks: never on the network. */
REDLOCK_API size_t redlock_health(const redlock_client *client, redlock_node_health *nodes,
                                  size_t count);

/* What the clients of these primaries have to agree on, as far as this one knows: as marked, or as
 * asked for, or the defaults. Set `size` before the call. */
typedef struct redlock_fleet {
    size_t size;
    int marked; /* some primary is */
    uint32_t quorum;
    int64_t max_ttl_ms;
    int64_t guard_ms; /* of this client */
} redlock_fleet;

/* Threads: any. Blocks: never on the network. Returns 0, ARGUMENT or FORKED. */
REDLOCK_API int redlock_fleet_get(const redlock_client *client, redlock_fleet *fleet);

/* ---- marking the primaries ---------------------------------------------- */

/*
 * A small key without a ttl on each primary, "redlock:fleet", says which primaries belong
 * together, what all clients have to agree on, and in which run of the server process it was
 * written. So a primary that still runs is known to remember all it granted and counts at
 * once, also for a process that has just started; one that restarted is found out.
 */
typedef struct redlock_init_options {
    size_t size; /* set by redlock_init_options_init() */

    /* 1: you promise that no lease is held by anybody on these primaries. They are marked at
     * once. 0: each is marked when this client has watched it for a whole restart guard. */
    int no_leases_out;

    /* Of member k (from 1, in the order configured), 0: none. */
    uint32_t retire;  /* marks it as one that doesn't count any more, for every client */
    uint32_t replace; /* it is a new server in the place of another: whatever marker it has is
                         overwritten, when it has been watched for a whole restart guard */

    /* 1: primaries that forgot their fencing numbers, where too few others know them, go on from
     * the time of day in milliseconds, the largest that any primary shows. You promise that no
     * clock was set back since the last fenced lock, and that fewer than a thousand a second were
     * asked for, of all names together and on average. */
    int fence_base;
} redlock_init_options;

/* Threads: any. Blocks: never. */
REDLOCK_API void redlock_init_options_init(redlock_init_options *options);

/*
 * Marks the primaries. All of them must be reachable; where markers agree already nothing is
 * changed. One without a marker among marked ones is not marked by this, whatever the options
 * say: this client marks it, as every other does, once it has sat out the restart guard. results:
 * NULL, or room for count entries. Threads: any. Blocks: at most connect timeout + 4 node timeouts.
 * Returns 0: all that was to be marked is; PENDING: some have to be watched for *wait_ms more,
 * with this client: call again then; NO_QUORUM: one is not reachable or refused the write (results
 * says which), nothing or not all was marked, call again; MISCONFIGURED: they don't fit together,
 * nothing was marked. Errors ARGUMENT, MEMORY, STATE (external_loop), FORKED.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_init(redlock_client *client,
                                              const redlock_init_options *options,
                                              redlock_node_result *results, size_t count,
                                              int64_t *wait_ms);

/* Counters since redlock_client_new(). Set `size` before the call. */
typedef struct redlock_stats {
    size_t size;
    uint64_t attempts;      /* acquire attempts sent */
    uint64_t acquired;      /* that ended held */
    uint64_t busy;          /* attempts answered busy */
    uint64_t no_quorum;     /* attempts without a quorum */
    uint64_t extended;      /* successful extends and renewals */
    uint64_t extend_failed; /* rounds that were not */
    uint64_t lost;          /* leases lost */
    uint64_t released;      /* leases released */
    uint64_t requests;      /* commands written to primaries */
    uint64_t late_replies;  /* replies after their node timeout */
    uint64_t connects;      /* connections made */
    uint64_t disconnects;   /* connections given up or closed by a primary */
    uint64_t leases;        /* now: locks known to the client */
    uint64_t cleanups;      /* now: keys still being removed */
} redlock_stats;

/* Threads: any. Blocks: never on the network. Returns 0, ARGUMENT or FORKED. */
REDLOCK_API int redlock_stats_get(const redlock_client *client, redlock_stats *stats);

/* ---- an application's own event loop ------------------------------------ */

/*
 * A client made with external_loop has no thread. The application polls
 * redlock_fd() for reading, at most redlock_next_timeout_ms(), and then calls
 * redlock_process(), which sends, receives, runs timers and callbacks, and never
 * blocks. All calls on such a client and its locks come from one thread at a
 * time; redlock_cancel() may come from any.
 */

/* Threads: any. ERR_STATE without external_loop; ERR_UNSUPPORTED where the
 * system has neither epoll nor kqueue. */
REDLOCK_API int redlock_fd(const redlock_client *client);

/* Until redlock_process() must be called next, rounded up; -1: never (or a client
 * with a thread). Threads: one at a time. Blocks: never. */
REDLOCK_API int64_t redlock_next_timeout_ms(const redlock_client *client);

/* Sends, receives, runs timers and callbacks. Threads: one at a time, not from a
 * callback (STATE). Blocks: never. Returns 0; errors STATE, FORKED, ARGUMENT. */
REDLOCK_API int redlock_process(redlock_client *client);

/*
 * As redlock_acquire, redlock_extend and redlock_release, without waiting; they work
 * on a client with a thread too. Threads: any (external_loop: one at a time).
 * Blocks: never. Return
 * 0 when started (redlock_start_acquire sets *lock) or an error. REDLOCK_EVENT_DONE
 * follows; redlock_poll_result() then gives the result. A lock whose acquire
 * failed is still to be released (which sends nothing more). After
 * redlock_start_release is DONE, redlock_release() frees the handle and returns
 * that same result. With external_loop a redlock_release() of a lock still held
 * returns REDLOCK_PENDING and frees the handle; the removals go out with the next calls of
 * redlock_process(). So do all requests: what is started in one turn of the loop leaves together,
 * and redlock_fd() is readable until then. A lease's time counts from its start all the same.
 *
 * A primary that owes 65536 answers takes no more: its connection is given up. Renewals and
 * removals keep well below that by themselves; who starts more locks than that at once has to wait
 * for some of them in between.
 */
REDLOCK_API REDLOCK_MUST_USE int redlock_start_acquire(redlock_client *client, const void *key,
                                                       size_t key_len,
                                                       const redlock_lock_options *options,
                                                       redlock_lock **lock);
REDLOCK_API REDLOCK_MUST_USE int redlock_start_extend(redlock_lock *lock, int64_t ttl_ms);
REDLOCK_API REDLOCK_MUST_USE int redlock_start_release(redlock_lock *lock);

/* The result of the operation last started, or REDLOCK_PENDING. Threads: any.
 * Blocks: never on the network. Errors STATE, ARGUMENT, FORKED. */
REDLOCK_API int redlock_poll_result(const redlock_lock *lock);

#ifdef __cplusplus
}
#endif

#endif
