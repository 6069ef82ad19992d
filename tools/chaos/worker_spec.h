/*
 * A worker's spec (worker.h), read, with the defaults filled in.
 */
#ifndef CHAOS_WORKER_SPEC_H
#define CHAOS_WORKER_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum role {
    ROLE_CONTENDER,
    ROLE_PROBER,
    ROLE_ACTOR
};

enum {
    SPEC_NODES = 31,
    SPEC_NAMES = 64,
    SPEC_NAME_LEN = 128,
    SPEC_PEER_WORDS = 32
};

struct worker_spec {
    json_t *json; /* owns the texts below */
    const char *worker, *group, *prefix, *control, *clock;
    uint32_t number;
    enum role role;
    const char *nodes[SPEC_NODES], *names[SPEC_NAMES];
    const char *peer[SPEC_PEER_WORDS + 1]; /* ends with NULL; none: our own client */
    size_t node_count, name_count, peer_count;
    int64_t ttl_ms, max_ttl_ms, wait_ms, node_timeout_ms, guard_ms, margin_ms, every_ms;
    int64_t drift_ppm, quorum, replicas, nofile, hold_ms[2];
    uint64_t seed;
    bool fence, blind;
    double renew;
};

/* "contender", "prober", "actor". */
const char *role_name(enum role role);

/* Takes json over. False: text says what is wrong; nothing is to be freed. */
bool worker_spec_read(json_t *json, struct worker_spec *spec, char *text, size_t size);
void worker_spec_free(struct worker_spec *spec);

#endif
