/*
 * The servers of a run: local redis-server processes or containers, behind one interface. Each is
 * reached on a port of 127.0.0.1, has a wall clock of its own (clock_plan.h) and its own data.
 *
 * Everything a run starts is found again by what it wrote down in its directory before (and by a
 * label on containers), so that the next start removes what a killed one left.
 *
 * Calls return 0, or -1 with the reason in runtime_text(). Nodes are numbered from 1. One thread at
 * a time, except runtime_port(), runtime_clock(), runtime_interrupt() and connections made by
 * runtime_connect(). The thread that calls runtime_fresh(), runtime_revive() or runtime_replicate()
 * must live as long as the servers are to: they die with it (PR_SET_PDEATHSIG).
 */
#ifndef CHAOS_RUNTIME_H
#define CHAOS_RUNTIME_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct runtime;
struct clock_plan;

enum runtime_kind {
    RUNTIME_AUTO, /* containers where an engine answers, else processes */
    RUNTIME_PROCESS,
    RUNTIME_DOCKER
};

enum persistence {
    PERSIST_NONE,
    PERSIST_EVERYSEC, /* append-only file, fsync each second */
    PERSIST_ALWAYS
};

struct runtime_options {
    enum runtime_kind kind;
    unsigned nodes;
    const char *directory; /* of the run, made by the caller; for data, logs, plans, sockets */
    const char *server;    /* a redis-server or valkey-server; NULL: found on PATH */
    bool own_network; /* processes: in a network namespace of their own, with the calling thread and
                         all it starts, if it may; for runtime_drop() */
    const char *image; /* NULL: $REDLOCK_IMAGE, else the project's order (see docs) */
};

/* ---- directories of runs -------------------------------------------------------- */

/* Makes a directory for a run of this process, below ${TMPDIR:-/tmp}/redlock-chaos-<uid>/, where
 * runtime_sweep() looks for it when this process is dead and removes it, with all that is in it:
 * what is to be kept belongs elsewhere. -1: text says why. */
int runtime_directory(char *path, size_t size, char *text, size_t text_size);
/* With all that is in it; after runtime_free(). */
void runtime_remove_directory(const char *path);

/* ---- a runtime ------------------------------------------------------------------- */

/* Starts no servers yet; finds out that it can. May take minutes where an image has to be had, and
 * says so on stderr. NULL: text says what is missing and what to do. */
struct runtime *runtime_new(const struct runtime_options *options, char *text, size_t text_size);
/* Ends and removes everything it started, and what it put in its directory. NULL is fine. */
void runtime_free(struct runtime *runtime);
/* The same for what runs that were killed left behind (a run that is alive is left alone). How many
 * things were removed; what they were is written to `stream` a line each. */
unsigned runtime_sweep(FILE *stream);
/* Ends everything, as runtime_free() will, and looks: how many of the things this runtime started,
 * processes, containers, networks, volumes, are still there. 0 is right. */
unsigned runtime_left_behind(struct runtime *runtime);

/* From now on calls that wait give up, with -1, except those that end things. For all runtimes of
 * the process, also one that is being made, and for good. Async-signal-safe. */
void runtime_interrupt(void);

const char *runtime_text(const struct runtime *runtime);
enum runtime_kind runtime_kind(const struct runtime *runtime);
/* To start a server takes seconds, and both hands of a small machine. */
bool runtime_is_slow(const struct runtime *runtime);
const char *runtime_version(const struct runtime *runtime); /* "Redis 7.0.15" */

/* All nodes afresh: empty, right clocks, this persistence, and answering when it returns. Whatever
 * ran before is ended. Called before each scenario; keeps ports, and containers where that is
 * faster. The first time it also finds out whether the servers show the clocks of their plans. */
int runtime_fresh(struct runtime *runtime, enum persistence persistence);

int runtime_port(const struct runtime *runtime, unsigned node);
struct clock_plan *runtime_clock(struct runtime *runtime, unsigned node);

/* ---- life and death --------------------------------------------------------- */

enum revival {
    REVIVE_KEPT,  /* with what is in its directory */
    REVIVE_EMPTY, /* with nothing */
    REVIVE_OLDER  /* with what was there at runtime_remember() */
};
int runtime_kill(struct runtime *runtime, unsigned node); /* SIGKILL; it is dead at return */
/* It answers at return (unless it is made to load for long: `arguments`). NULL-terminated extra
 * arguments for the server, or NULL. */
int runtime_revive(struct runtime *runtime, unsigned node, enum revival revival,
                   const char *const *arguments);
/* Keeps a copy of the node's data as they are on disk now: what a power cut leaves of
 * writes that were not yet on the disk, or a backup. */
int runtime_remember(struct runtime *runtime, unsigned node);
int runtime_freeze(struct runtime *runtime, unsigned node); /* it does nothing at return */
int runtime_thaw(struct runtime *runtime, unsigned node);

enum node_state {
    NODE_DOWN,
    NODE_UP,
    NODE_FROZEN
};
enum node_state runtime_state(struct runtime *runtime, unsigned node);

/* ---- talking to a node, past the links --------------------------------------- */

/* A new connection with this time limit for each command; NULL: runtime_text() is NOT set. Any
 * thread. */
redisContext *runtime_connect(const struct runtime *runtime, unsigned node, int timeout_ms);
/* One command on a connection of the runtime's own, which is renewed as needed; 2 s. Caller frees.
 * NULL: no answer. printf-like as redisCommand(). */
redisReply *runtime_command(struct runtime *runtime, unsigned node, const char *format, ...);
/* The same, 0 if it answered without an error. */
int runtime_do(struct runtime *runtime, unsigned node, const char *format, ...);
/* Until it answers PING; -1 after timeout_ms. */
int runtime_await(struct runtime *runtime, unsigned node, int timeout_ms);

/* ---- replication -------------------------------------------------------------- */

/* Makes `node` a replica of `of`; it has all of its data at return. In every runtime over loopback:
 * a container is made anew for that, with the host's network, until the next runtime_fresh(). */
int runtime_replicate(struct runtime *runtime, unsigned node, unsigned of);
/* The replica stops hearing from its primary and keeps what it has. */
int runtime_cut_replica(struct runtime *runtime, unsigned node);
int runtime_promote(struct runtime *runtime, unsigned node);

/* ---- the kernel's packets (K17) ------------------------------------------------ */

/* Whether requests to a node can be dropped in the kernel, inside namespaces of our own. */
bool runtime_can_drop(const struct runtime *runtime);
/* TCP segments with data that go to the node are dropped from now on, or no longer; connections
 * stay, and what was sent meanwhile arrives after it. Ends with the node's server. */
int runtime_drop(struct runtime *runtime, unsigned node, bool on);

#endif
