/*
 * The key that marks a primary as a member of a fleet: who belongs together, what all clients
 * have to agree on, and the run of the server process it was written in. Pure.
 *
 * A marker that names the run a primary is in proves that it has not restarted since. One that
 * names another run proves only that some server had this data once: a promoted replica and
 * a restored snapshot carry it as well.
 */
#ifndef REDLOCK__MARKER_H
#define REDLOCK__MARKER_H

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

#define REDLOCK__MARKER_KEY "redlock:fleet"

enum {
    REDLOCK__MARKER_LEN = 256 /* bytes of the text, final NUL included */
};

struct redlock__marker {
    uint64_t fleet;  /* random, the same on all members */
    uint32_t member; /* its place in the list of who marked it, from 1: for people */
    uint32_t n, quorum;
    int64_t max_ttl_ms;
    bool durable; /* kept on disk before it is acknowledged, and no replicas, as far as seen */
    bool retired; /* doesn't count any more, for anybody */
    char run_id[REDLOCK_RUN_ID_LEN];
    int64_t second_offset; /* second_repl_offset: another one is another server's data */
};

void redlock__marker_format(const struct redlock__marker *marker, char text[REDLOCK__MARKER_LEN]);

/* False: not understood, or of a later version. */
bool redlock__marker_parse(const char *text, struct redlock__marker *marker);

#endif
