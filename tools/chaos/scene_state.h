/* What scene.c, crowd.c, actor_verbs.c and faults.c share. */
#ifndef CHAOS_SCENE_STATE_H
#define CHAOS_SCENE_STATE_H

#include <pthread.h>

#include "history.h"
#include "scene.h"

enum {
    GROUPS_MAX = 8,
    WORKERS_MAX = 48,
    FAULTS_MAX = 128
};

struct group {
    char name[8];
    struct link *links[SCENE_NODES];
};

struct member { /* a worker, and what was heard of it */
    char name[16];
    char role[12];
    struct worker *worker;
    bool running;
    uint64_t acquired, tried;
    int64_t acquired_ns; /* last */
    int fault;           /* the number of its freeze */
};

struct active { /* a fault that lasts */
    int number;
    char action[24];
    unsigned nodes;
    int group;                  /* -1: of the nodes themselves */
    uint64_t seen[SCENE_NODES]; /* what its links had counted */
    enum toxic_kind kind;
};

struct scene {
    const struct stage *stage;
    const char *name;
    enum mode mode;
    struct conditions conditions;
    struct runtime *runtime;
    struct history *history;
    struct proxy *proxy;
    struct workers *workers;
    struct observer *observer;
    struct stream schedule;
    bool over;
    bool many_faults;    /* so many that some meet no traffic */
    bool reasons;        /* some are expected */
    bool entered, wrote; /* somebody was told to use the witness, the guarded resource */
    int64_t begin_ns;
    char phase[32];

    struct group groups[GROUPS_MAX];
    unsigned group_count;
    unsigned worker_number;
    struct active faults[FAULTS_MAX];
    unsigned fault_count;
    int fault_number;
    json_t *answer;

    pthread_mutex_t mutex; /* what the listener writes */
    struct member members[WORKERS_MAX];
    unsigned member_count;
    uint64_t violations;
};

/* Asks what needs no judge: whether the scene goes on, has not been interrupted. */
bool scene__goes_on(struct scene *scene);
int scene__group(struct scene *scene, const char *name);
json_t *scene__nodes(unsigned nodes); /* the mask as an array of numbers */
struct member *scene__member(struct scene *scene, const struct worker *worker);
/* "node" and "clock" records of its present state. */
void scene__tell_node(struct scene *scene, unsigned node, const char *state, bool kept);
void scene__tell_clock(struct scene *scene, unsigned node);

#endif
