/*
 * What a history says, as tables of rows: the inside of the analysis, shared by its reader and its
 * checkers. The stages, each of which needs those before it:
 *
 *   book_read()      file -> rows as they were written (read.c, records.c)
 *   book_arrange()   rows -> calls, phases, faults, spans, clocks, leases (tables.c, leases.c)
 *   book_lives()     rows -> lives of keys (lives.c)
 *   check_..()       violations, and the metrics that belong to them
 *   measure()        the other metrics
 *   judge()          expectations and verdict
 *
 * Lines come in the order in which they reached the writer, which is not that of the times in them:
 * everything is sorted by time before it is used, and by "i" where times are equal.
 *
 * Strings are kept once (struct word), so that equal ones are the same pointer. Times are bounded
 * when they are read, so that sums and differences of them need no thought about overflow.
 */
#ifndef CHAOS_BOOK_H
#define CHAOS_BOOK_H

#include "analysis.h"

enum {
    NODES_MAX = 64,   /* bits of a mask */
    PHASES_MAX = 256, /* different names */
    CODES_MAX = 32,   /* different results, different votes */
    VIOLATIONS_MAX = 1000,
    OWNER_SIZE = 17 /* the first 16 characters, and the end */
};

#define MS INT64_C(1000000)                   /* in ns */
#define TIME_MAX INT64_C(4000000000000000000) /* ns, of both clocks: until the year 2096 */
#define DURATION_MAX_MS INT64_C(100000000000) /* three years */
#define NEVER INT64_MAX                       /* later than every time */

/* ---- memory --------------------------------------------------------------- */

/* Rows that grow. Where there is no memory for it, the program ends: there is nothing to save. */
#define TABLE(type)                                                                                \
    struct {                                                                                       \
        type *row;                                                                                 \
        size_t count, room;                                                                        \
    }
/* A new row, all zero; pointers to older ones are void. */
#define TABLE_ADD(table)                                                                           \
    ((table)->row =                                                                                \
         table_room((table)->row, (table)->count, &(table)->room, sizeof *(table)->row),           \
     &(table)->row[(table)->count++])
#define TABLE_SORT(table, order)                                                                   \
    table_sort((table)->row, (table)->count, sizeof *(table)->row, order)

typedef int table_order(const void *a, const void *b);
void *table_room(void *rows, size_t count, size_t *room, size_t size);
void *table_take(size_t count, size_t size); /* zeroed; count may be 0 */
void table_sort(void *rows, size_t count, size_t size, table_order *order);

static inline int order_of(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

struct word {
    uint32_t number; /* in order of appearance */
    uint32_t hash;
    long worker; /* index of the worker of that name, or -1 */
    char text[];
};

/* The short lists of words that are counted. */
struct codes {
    const struct word *word[CODES_MAX];
    unsigned count;
};

/* ---- rows ----------------------------------------------------------------- */

struct person { /* a worker */
    const struct word *name, *role;
    int64_t number;
    int64_t gone_ns;     /* NEVER: it isn't */
    bool declared, left; /* left: in order */
    int64_t mentioned;   /* i of the first record that names it */
};

enum op {
    OP_ACQUIRE,
    OP_EXTEND,
    OP_RELEASE
};

/* As read: an invoke or a return. Arranged: both. */
struct call {
    unsigned worker;
    enum op op;
    int64_t number; /* try */
    bool is_return; /* as read only */
    const struct word *name;
    int64_t invoked_ns, returned_ns; /* NEVER: it did not return */
    int64_t invoked_i, returned_i;
    int64_t ttl_ms, wait_ms; /* -1: not said */
    bool fenced;             /* a token was asked for */
    bool renewed;            /* it is to be */
    /* of the return */
    unsigned code; /* into results */
    bool ok;
    const struct word *owner;
    int64_t fence, validity_ms, deadline_ns, attempts;
    size_t answers, answer_count; /* into answers */
};

struct answer { /* of a node, in a return */
    unsigned node, vote;
    const struct word *text;
};

enum notice_kind {
    NOTICE_RENEWED,
    NOTICE_FAILING,
    NOTICE_LOST,
    NOTICE_NOT_HELD,
    NOTICE_HELD /* is_held() said so */
};

struct notice { /* events, and checks that said no */
    unsigned worker;
    int64_t number, t, i, deadline_ns;
    enum notice_kind kind;
};

struct step { /* into the witness, or out of it */
    unsigned worker;
    int64_t number, t, i, other;
    const struct word *name;
    bool leave, ok, lost_update;
};

struct written_row {
    const struct word *name;
    unsigned worker;
    int64_t t, i, fence, sequence;
    bool fenced, accepted, stale;
};

struct weight { /* hygiene */
    const struct word *process;
    int64_t t, i, fds, threads, rss_kb;
    bool end;
};

enum mark_kind {
    MARK_KEY,
    MARK_DEL,
    MARK_EXPIRED,
    MARK_TAKEN /* evicted, flushed */
};

struct mark { /* on a key of a node */
    unsigned node;
    const struct word *name, *owner;
    int64_t t, i, when_ms;
    enum mark_kind kind;
};

enum state {
    STATE_UP,
    STATE_DOWN,
    STATE_FROZEN,
    STATE_THAWED,
    STATE_CUT
};

struct change { /* of a node */
    unsigned node;
    int64_t t, i;
    enum state state;
    bool kept;
    bool restart; /* up after it was down */
};

/* From `from` on the wall clock is wall_ns + (t - from) (1 + rate). */
struct piece {
    unsigned node;
    int64_t from_ns, wall_ns, rate_ppb, i;
};

struct fault_half {
    int64_t number, t, i;
    bool stop, verified;
    const struct word *action, *text, *frozen; /* frozen: the worker that is; NULL: none */
    uint64_t nodes;
};

struct freeze {  /* of a worker */
    long worker; /* -1: any */
    int64_t begin_ns, end_ns;
};

struct phase_row {
    int64_t t, i;
    const struct word *name;
    unsigned group; /* into metrics: 0 is the whole run */
};

struct reason_row {
    unsigned node;
    int64_t t, i;
    const struct word *phase, *text;
};

struct value_row { /* a measure */
    const struct word *name, *phase;
    double value;
    int64_t t, i;
};

/* A lease, with what only the checkers want to know. */
struct holding {
    struct lease lease;
    const struct word *name, *owner;
    size_t call;                     /* its acquire */
    int64_t asked_ns;                /* = lease.asked_ns */
    int64_t sent_ns;                 /* when something was last asked for it, or answered */
    int64_t ttl_ms;                  /* the longest asked for */
    int64_t release_ns, released_ns; /* invoked, returned; NEVER */
    int64_t told_ns;                 /* that it is lost; NEVER */
    int64_t believed_ns;             /* the last time is_held() was known to be true; 0: never */
    uint64_t found;                  /* nodes where its release found its key */
    bool extended;                   /* a deadline was moved */
    uint64_t granted;                /* nodes whose key was ours in the return */
    uint64_t credited;               /* nodes whose removal of its key was seen */
};

/* One life of a key of one owner at one node. */
struct life {
    unsigned node;
    const struct word *name, *owner;
    long holding, call; /* whose it is; -1: not known */
    int64_t seen_ns, i; /* the first record */
    int64_t when_ms;    /* the largest seen */
    int64_t renewed_ns; /* when that was seen */
    int64_t gone_ns;    /* otherwise than by its ttl; NEVER */
    bool removed;       /* by DEL */
    bool forgotten;     /* by a restart: until its guard is over, the node votes for nobody */
};

struct book {
    struct analysis analysis; /* first: what analysis_of() gives away */
    size_t line;              /* now read */
    bool ended, cut;          /* there is an end; the last line is not whole */
    bool broken;              /* an "error" record */
    const struct word *first_error;
    struct word **words; /* hash table */
    size_t word_count, word_room;
    const struct word *empty;
    struct codes results, votes;

    int64_t run_ns, wall_ns; /* the same moment on both clocks */
    unsigned nodes, quorum;  /* those that vote */
    int64_t ttl_ms, max_ttl_ms, node_timeout_ms, drift_ppm, guard_ms;

    TABLE(struct person) people;
    TABLE(struct call) calls; /* arranged: by worker, number, time */
    TABLE(struct answer) answers;
    TABLE(struct notice) notices; /* by worker, number, time */
    TABLE(struct step) steps;
    TABLE(struct written_row) writes;
    TABLE(struct weight) weights;
    TABLE(struct mark) marks;
    TABLE(struct change) changes; /* by node, time */
    TABLE(struct piece) pieces;   /* by node, time */
    TABLE(struct fault_half) halves;
    TABLE(struct freeze) freezes;
    TABLE(struct phase_row) turns; /* by time; with "end" */
    TABLE(struct reason_row) reasons;
    TABLE(struct value_row) values;
    TABLE(struct holding) holdings; /* by the time they were got */
    TABLE(size_t) by_try;           /* holdings by worker, number */
    TABLE(struct life) lives;       /* by node, name, time */

    TABLE(struct phase) phases;
    const char *groups[PHASES_MAX + 1]; /* names of phases; [0] is "" */
    unsigned group_count;
    TABLE(struct fault) faults;
    TABLE(struct probe) probes;
    TABLE(struct point) points;
    TABLE(struct span) spans;
    TABLE(struct offset) offsets;
    TABLE(struct violation) violations;
    TABLE(struct metric) metrics;
    TABLE(struct expectation) expectations;
};

/* ---- stages --------------------------------------------------------------- */

struct book *book_new(void);
void book_free(struct book *book);
const struct word *book_word(struct book *book, const char *text);
const struct word *book_owner(struct book *book, const char *text); /* of its first 16 characters */
/* -1: CODES_MAX are in use. */
int book_code(struct codes *codes, const struct word *word);
unsigned book_worker(struct book *book, const struct word *name, int64_t i);
/* The worker with this number, or -1. */
long book_numbered(const struct book *book, int64_t number);

/* False: text says why. */
bool book_read(struct book *book, const char *path, char *text, size_t text_size);
struct line;
void book_record(struct book *book, struct line *line);

/* False: text says why. */
bool book_arrange(struct book *book, char *text, size_t text_size);
void book_leases(struct book *book);
void book_lives(struct book *book);
/* The lease of a worker's try, or -1. */
long book_holding(const struct book *book, unsigned worker, int64_t number);
/* The group of the phase that t is in; 0: none. */
unsigned book_group(const struct book *book, int64_t t);

/* The first moment >= from at which the node's wall clock shows when_ms or more, if its clock does
 * after `horizon` what it did before; NEVER. */
int64_t clock_reaches(const struct book *book, unsigned node, int64_t from, int64_t when_ms,
                      int64_t horizon);
int64_t clock_shows(const struct book *book, unsigned node, int64_t t); /* ns */

void check_claims(struct book *book);  /* C1 */
void check_witness(struct book *book); /* C2 */
void check_truth(struct book *book);   /* C3; sets true_ns */
void check_fences(struct book *book);  /* C4 */
void check_writes(struct book *book);  /* C5 */
void check_orphans(struct book *book); /* C6 */
void check_deadlines(struct book *book);
void check_liveness(struct book *book);
void check_reasons(struct book *book);
void check_hygiene(struct book *book); /* C10 */
void measure(struct book *book);
void judge(struct book *book);

/* ---- results -------------------------------------------------------------- */

void book_metric(struct book *book, unsigned group, double value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* How many were looked at, and how many found, in each group. */
struct tally {
    size_t checked[PHASES_MAX + 1], found[PHASES_MAX + 1];
};
/* Of each phase in which something was looked at. */
void book_tally(struct book *book, const struct tally *tally, const char *name);

/* Where a violation was found; fields as in struct violation. */
struct place {
    int64_t t, records[2];
    long leases[2];
};
void book_violation(struct book *book, int checker, struct place place, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The names of the faults in effect between the two moments, for a text: ", during x, y" or "". */
const char *book_faults(const struct book *book, int64_t from, int64_t to, char *text, size_t size);

#endif
