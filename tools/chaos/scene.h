/*
 * A scenario being played: its servers, links, workers and history, and the verbs in which
 * scenarios are written. A scenario is straight code; when something can't be done, or the user
 * interrupts, the scene is over: every verb then returns at once, and the record says why.
 *
 * Nodes are given as masks, bit 0 for node 1: NODE(1) | NODE(2). Main thread only.
 */
#ifndef CHAOS_SCENE_H
#define CHAOS_SCENE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "proxy.h"
#include "runtime.h"
#include "seed.h"

struct history;
struct scene;
struct worker;

enum {
    SCENE_NODES = 5,
    SCENE_NAMES = 4
};

#define NODE(n) (1u << ((n)-1))
#define ALL_NODES 31u

enum mode {
    MODE_REDLOCK,     /* five primaries */
    MODE_SINGLE,      /* one */
    MODE_REPLICA,     /* one with an asynchronous replica, which takes its place */
    MODE_REPLICA_WAIT /* the same, and WAIT 1 */
};
const char *mode_name(enum mode mode);

/* What a scenario is played with; 0 stands for the default in brackets. */
struct conditions {
    enum persistence persistence; /* none */
    int64_t ttl_ms;               /* [2000] */
    int64_t max_ttl_ms;           /* [ttl_ms] */
    int64_t node_timeout_ms;      /* [100] */
    /* The same where servers take seconds to start; 0: no others. A lease must outlast the restart
     * that it is to live through. */
    int64_t slow_ttl_ms, slow_node_timeout_ms;
    bool unfenced;           /* [fenced, where the mode can] */
    bool no_guard, no_drift; /* [by itself; 10,000 ppm] */
    const char *control;     /* a weakened client, see worker.h */
    double renew;            /* [0.01] of a contender's holds; below 0: none */
};

struct stage { /* what stays the same for all scenes of a command */
    struct runtime *runtime;
    uint64_t seed;
    const char *directory;   /* for what the run needs while it runs */
    bool quick;              /* short phases */
    int64_t storm_ms;        /* how long the storm lasts */
    const char *const *peer; /* another client's program; NULL: the library */
    int argc;
    char **argv;
    volatile int *interrupted;
    void (*progress)(void *context, const struct scene *scene); /* once a second */
    void *progress_context;
};

/* Makes the history, then brings up fresh servers. NULL: text; a history that was begun stays. */
struct scene *scene_new(const struct stage *stage, const char *name, const char *title,
                        enum mode mode, const struct conditions *conditions,
                        const char *history_path, char *text, size_t text_size);
/* Ends workers and links, closes the history; 0 or an errno of writing it. */
int scene_free(struct scene *scene);

bool scene_goes_on(const struct scene *scene);
const struct stage *scene_stage(const struct scene *scene);
struct runtime *scene_runtime(const struct scene *scene);
enum mode scene_mode(const struct scene *scene);
const char *scene_name(const struct scene *scene);
int64_t scene_ttl(const struct scene *scene);
bool scene_fenced(const struct scene *scene);
unsigned scene_nodes(const struct scene *scene); /* how many the clients use */
/* Restart guard of clients of this scene: max_ttl + drift + 1 s. */
int64_t scene_guard_ms(const struct scene *scene);
struct stream *scene_stream(struct scene *scene); /* of the schedule */
/* The error record: the run proves nothing. */
void scene_fail(struct scene *scene, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- time ------------------------------------------------------------------ */

void scene_phase(struct scene *scene, const char *name);
/* ms as they are; scene_span(): `long_ms`, or `quick_ms` where the user wants it quick */
void scene_wait(struct scene *scene, int64_t ms);
void scene_span(struct scene *scene, int64_t long_ms, int64_t quick_ms);
int64_t scene_since_ms(int64_t t_ns);

/* ---- what must come out ------------------------------------------------------ */

enum kind {
    SAFETY,
    LIVENESS,
    EFFECT /* else the run proves nothing */
};
void scene_expect(struct scene *scene, enum kind kind, const char *metric, const char *phase,
                  const char *op, double value);
/* The clean set: C1, C2, C4, C5 nothing, C3 never negative, C7 and C10 hold. */
void scene_expect_clean(struct scene *scene);
/* Of it what C1, C2 and C3 say of the leases that were granted in this phase; "": of all. */
void scene_expect_true(struct scene *scene, const char *phase);
/* The same without what clocks decide: fences only. */
void scene_expect_fenced(struct scene *scene);
/* At least this part of the probes of the phase got their lock, by the upper end of the interval in
 * which their share lies with 95 %. */
void scene_expect_available(struct scene *scene, const char *phase, double least);
void scene_expect_reason(struct scene *scene, unsigned nodes, const char *phase, const char *word);
void scene_measure(struct scene *scene, const char *name, double value);
/* A measure, and that it must be 1. */
void scene_check(struct scene *scene, enum kind kind, const char *name, bool holds);

/* ---- workers ------------------------------------------------------------------- */

/* A link per node, made at the first use of the group's name. node from 1. */
struct link *scene_link(struct scene *scene, const char *group, unsigned node);

/* A worker's spec with this scene's conditions; to be changed before it's started. Of the group
 * "direct" it goes past the links. */
json_t *scene_spec(struct scene *scene, const char *worker, const char *role, const char *group);
/* NULL: the scene is over. Takes the spec over. */
struct worker *scene_start(struct scene *scene, json_t *spec);
/* The usual crowd: contenders on four names, probers each on its own. */
void scene_crowd(struct scene *scene, const char *group, unsigned contenders, unsigned probers);
struct worker *scene_actor(struct scene *scene, const char *worker, const char *group);

/* Successful acquires of a worker (NULL: of all of that role) so far. */
uint64_t scene_acquired(struct scene *scene, const char *worker, const char *role);
/* Until each prober has got its lock again, from now on: ms, or -1 after limit_ms. */
int64_t scene_until_probed(struct scene *scene, int64_t limit_ms);
/* Ends the crowd in order, lets probers try once more: the last phase. */
void scene_liveness(struct scene *scene);

/* ---- actors ------------------------------------------------------------------------ */

/* The answer lives until the scene's next answer; NULL: none came, or that it can't be done (the
 * scene is over). Takes the command over. */
const json_t *scene_do(struct scene *scene, struct worker *actor, json_t *command);
/* These give the try's number, or -1 and *rc, if rc isn't NULL. */
int64_t act_acquire(struct scene *scene, struct worker *actor, const char *name, int64_t wait_ms,
                    const char **rc);
/* Waits for it as long as it takes a moment, and has its client renew it. */
int64_t act_keep(struct scene *scene, struct worker *actor, const char *name);
/* Tries every every_ms, until it has it or limit_ms are over. */
int64_t act_poll(struct scene *scene, struct worker *actor, const char *name, int64_t every_ms,
                 int64_t limit_ms);
const char *act_extend(struct scene *scene, struct worker *actor, int64_t lock);
const char *act_release(struct scene *scene, struct worker *actor, int64_t lock);
bool act_held(struct scene *scene, struct worker *actor, int64_t lock);
/* Milliseconds it claims to have. */
int64_t act_remaining(struct scene *scene, struct worker *actor, int64_t lock);
void act_enter(struct scene *scene, struct worker *actor, int64_t lock);
void act_leave(struct scene *scene, struct worker *actor, int64_t lock);
void act_write(struct scene *scene, struct worker *actor, int64_t lock, bool blind);
/* What its client says of a node: health's fields; NULL: no answer. */
const json_t *act_health(struct scene *scene, struct worker *actor, unsigned node);
/* Until the client counts all of these nodes: ms, or -1. */
int64_t act_until_counted(struct scene *scene, struct worker *actor, unsigned nodes,
                          int64_t limit_ms);

/* ---- faults -------------------------------------------------------------------------- */

void scene_kill(struct scene *scene, unsigned nodes);
void scene_revive(struct scene *scene, unsigned nodes, enum revival revival);
void scene_freeze(struct scene *scene, unsigned nodes);
void scene_thaw(struct scene *scene, unsigned nodes);
void scene_clock_step(struct scene *scene, unsigned nodes, int64_t ms);
void scene_clock_rate(struct scene *scene, unsigned nodes, int64_t ppm);
/* A step that is one of very many: recorded as such, not verified. */
void scene_clock_jerk(struct scene *scene, unsigned nodes, int64_t ms);
/* Packets with requests to these nodes are dropped in the kernel, or pass again. */
void scene_drop(struct scene *scene, unsigned nodes, bool on);
void scene_flush(struct scene *scene, unsigned nodes);
/* Commands that change how nodes answer, and those that undo it: NULL-terminated lists. What
 * follows a | is one last word, blanks and all. */
void scene_ail(struct scene *scene, unsigned nodes, const char *action,
               const char *const *commands);
void scene_cure(struct scene *scene, unsigned nodes, const char *const *commands);
/* The primary of a mode with a replica dies, its replica takes its place. */
void scene_failover(struct scene *scene);
void scene_cut_replica(struct scene *scene);

void scene_freeze_worker(struct scene *scene, struct worker *worker);
void scene_thaw_worker(struct scene *scene, struct worker *worker);
void scene_kill_worker(struct scene *scene, struct worker *worker);
void scene_stop_worker(struct scene *scene, struct worker *worker); /* in order; no fault */

enum toxic_kind {
    TOXIC_DELAY,
    TOXIC_HOLD,
    TOXIC_SWALLOW,
    TOXIC_REFUSE, /* new connections; those that are open are reset */
    TOXIC_SILENT, /* the same */
    TOXIC_HALF_OPEN,
    TOXIC_SLICE,
    TOXIC_TRICKLE,
    TOXIC_RESETS
};
enum {
    BOTH_WAYS = 3,
    ONLY_REQUESTS = 1,
    ONLY_REPLIES = 2
};
struct toxic {
    enum toxic_kind kind;
    int ways;           /* 0: both */
    struct delay delay; /* DELAY */
    double amount;      /* SLICE: bytes; TRICKLE: bytes a second; RESETS: chance */
};
void scene_infect(struct scene *scene, const char *group, unsigned nodes,
                  const struct toxic *toxic);
/* From now on a fault of links that nothing came by is none that did not take. */
void scene_many_faults(struct scene *scene);
/* All of those links whole again. */
void scene_heal(struct scene *scene, const char *group, unsigned nodes);
/* A trigger, told of in the history once it is pulled. */
void scene_trigger(struct scene *scene, const char *group, unsigned node,
                   const struct trigger *trigger);
bool scene_await_trigger(struct scene *scene, const char *group, unsigned node);

/* ---- for the progress line --------------------------------------------------------------- */

struct glance {
    const char *phase;
    int64_t elapsed_ms;
    unsigned faults;
    uint64_t acquired, probes, probed, violations; /* violations: of the witness */
};
struct glance scene_glance(const struct scene *scene);

#endif
