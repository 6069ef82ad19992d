/*
 * The private half of runtime.h: what the common part (runtime.c) and the two kinds of runtime
 * (process.c, docker.c) share. A kind starts and ends servers; what a server is to be like is in
 * its configuration file, and its data are in a directory: both are the common part's business.
 *
 * A node's directory, <run>/nN: etc/ with conf, plan (of its clock) and preload.so, which is all a
 * server has to see; data/; older/, what runtime_remember() kept; log.
 */
#ifndef CHAOS_RUNTIME_STATE_H
#define CHAOS_RUNTIME_STATE_H

#include "runtime.h"

#include <limits.h>
#include <sys/types.h>

enum {
    RUNTIME_NODES_MAX = 31, /* a set of them is a word: bit node - 1 */
    RUNTIME_TEXT = 1024,
    RUNTIME_NAME = 256,
    SERVER_READY_MS = 30000
};

struct runtime_node {
    int port;
    int reserved; /* a socket that keeps the port for us while no server has it */
    struct clock_plan *clock;
    redisContext *side; /* NULL: to be made */
    bool dropping;
    /* of processes */
    pid_t pid; /* 0: there is none */
    uint64_t start;
    /* of containers */
    bool made, on_host; /* it exists; with the host's network */
};

struct runtime;

/* All return 0, or -1 with the text set. */
struct runtime_ops {
    bool slow; /* to start one */
    /* Whether it can be done here; the version. */
    int (*prepare)(struct runtime *runtime);
    /* Starts these, which are down and configured; they need not answer yet. */
    int (*launch)(struct runtime *runtime, uint32_t set);
    /* SIGKILL; they are dead at return. Fine if they were. */
    int (*end)(struct runtime *runtime, uint32_t set);
    int (*freeze)(struct runtime *runtime, unsigned node);
    int (*thaw)(struct runtime *runtime, unsigned node);
    enum node_state (*state)(struct runtime *runtime, unsigned node);
    /* The end of what the server wrote. */
    void (*words)(struct runtime *runtime, unsigned node, char *text, size_t size);
    /* Whether it reaches 127.0.0.1 from its next launch on; it is down. NULL: it does anyway. */
    int (*reach_host)(struct runtime *runtime, unsigned node, bool on);
    int (*drop)(struct runtime *runtime, unsigned node, bool on);
    /* Ends and removes everything, whatever comes. How many things are left. */
    unsigned (*clear)(struct runtime *runtime);
};

extern const struct runtime_ops process_ops, docker_ops;

struct runtime {
    const struct runtime_ops *ops;
    enum runtime_kind kind;
    unsigned nodes;
    struct runtime_node node[RUNTIME_NODES_MAX]; /* [0] is node 1 */
    enum persistence persistence;
    bool clocks_proven;
    bool ending;      /* interruptions don't count any more */
    bool own_network; /* is wanted */
    bool can_drop;
    int nowhere, nowhere_port; /* a port on which nobody listens */
    unsigned major;            /* of the server's version */
    char directory[PATH_MAX];
    char server[PATH_MAX];
    char image[RUNTIME_NAME], project[RUNTIME_NAME];
    const char *compose[2];
    char compose_file[PATH_MAX];
    const char *wanted_server, *wanted_image; /* while it is being made */
    char version[64];
    char text[RUNTIME_TEXT];
};

/* Sets the text; -1. */
__attribute__((format(printf, 2, 3))) int runtime_fail(struct runtime *runtime, const char *format,
                                                       ...);
/* "<run>/nN/<name>"; -1 if that is too long, with the text. */
int runtime_path(struct runtime *runtime, unsigned node, const char *name, char *path, size_t size);
/* Makes or removes it. */
int runtime_on_path(struct runtime *runtime, unsigned node, const char *name,
                    int (*action)(const char *path));
/* SIGKILL to all of the set, and what is known of them forgotten. */
int runtime_end(struct runtime *runtime, uint32_t set);

enum answer {
    SILENT,
    LOADING,
    REFUSES, /* PING with some other error */
    PONGS
};
enum answer runtime_probe(struct runtime *runtime, unsigned node);
/* Takes a version out of "Redis server v=7.0.15 sha=...". */
int runtime_take_version(struct runtime *runtime, const char *said);

static inline struct runtime_node *runtime_at(struct runtime *runtime, unsigned node)
{
    return &runtime->node[node - 1];
}

static inline uint32_t runtime_set(unsigned node)
{
    return UINT32_C(1) << (node - 1);
}

static inline uint32_t runtime_all(const struct runtime *runtime)
{
    return (uint32_t)((UINT64_C(1) << runtime->nodes) - 1);
}

/* ---- config.c: what is in etc/ ---------------------------------------------------- */

/* The node's directories, clock plan and preload library. Once. */
int config_prepare(struct runtime *runtime, unsigned node);
/* The configuration file for the next start; `arguments` as for runtime_revive(). */
int config_write(struct runtime *runtime, unsigned node, const char *const *arguments);

#endif
