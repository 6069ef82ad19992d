/* The command line, checked. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdint.h>

#include "nodes.h"

enum cli_command {
    COMMAND_NONE = 0, /* a bit each: options say where they belong */
    COMMAND_RUN = 1,
    COMMAND_ACQUIRE = 2,
    COMMAND_EXTEND = 4,
    COMMAND_RELEASE = 8,
    COMMAND_SHOW = 16,
    COMMAND_INIT = 32,
    COMMAND_BENCH = 64,
    COMMAND_ALL = 127
};

enum {
    BENCH_WORKS_MAX = 64
};

/* Points into argv and the environment; owns only `nodes` and `replacement`. */
struct cli_args {
    enum cli_command command;
    const char *name;  /* the command's word */
    const char *key;   /* NULL: init, or show of the primaries alone, or bench */
    const char *token; /* extend, release */
    char **argv;       /* run: the command and its arguments, NULL at the end */

    struct nodes nodes;
    struct nodes replacement; /* init --replace N URI: the one URI, or none */
    const char *nodes_file, *password_file, *prefix;
    const char *ca_file, *cert_file, *key_file, *server_name; /* of TLS */

    int64_t ttl_ms, wait_ms, node_timeout_ms, connect_timeout_ms;
    int64_t max_ttl_ms, quorum; /* 0: as the primaries are marked */
    int64_t restart_guard_ms;   /* REDLOCK_GUARD_AUTO without an option */
    int64_t grace_ms, max_hold_ms;
    int64_t drift_ppm;
    int64_t replicas, replica_timeout_ms;
    int64_t sample_ms;              /* show */
    int64_t fence;                  /* run, acquire: with a fencing token */
    int64_t no_leases_out, replace; /* init; replace counts from 1, 0: none */
    int64_t fence_base;             /* init */
    int64_t busy_status;            /* -E */

    const char *works[BENCH_WORKS_MAX]; /* bench: what to measure; none: everything */
    size_t work_count;
    int64_t rounds, seconds_ms, leases, workers, list, compare, check;

    int64_t json, quiet, verbose, help, version;
};

/*
 * Reads argv, the environment and the files named there. Returns CLI_CONTINUE with *args filled in,
 * or an exit status: everything is said already. args_clear() in either case.
 */
int args_parse(int argc, char **argv, struct cli_args *args);
void args_clear(struct cli_args *args);

#endif
