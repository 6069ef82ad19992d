/*
 * Links to the primaries through the harness's TCP proxy, which runs in a process of its own, so
 * that what it costs is not counted as ours. That process ends with links_close(), or with this
 * one.
 */
#ifndef BENCH_LINKS_H
#define BENCH_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

enum {
    LINKS_MAX = 16
};

struct links;

/* One link for each URI; they must be on this machine. NULL: said by bench_fail(). While this
 * process has one thread. */
struct links *links_open(struct bench *bench, const char *const *uris, unsigned n);
void links_close(struct links *links);

const char *const *links_uris(const struct links *links); /* through the links */
int links_port(const struct links *links, unsigned i);

enum links_state {
    LINKS_WELL,    /* connections that lost something are reset */
    LINKS_FARTHER, /* ns more for a round trip */
    LINKS_SILENT,  /* accepts, and swallows everything */
    LINKS_REFUSE,  /* connections are reset, and nobody listens */
    LINKS_SLOW     /* answers come ns later */
};
/* It is so when this returns. False: said. */
bool links_set(struct links *links, unsigned i, enum links_state state, int64_t ns);

#endif
