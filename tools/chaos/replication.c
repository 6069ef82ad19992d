/* Replication between nodes; see runtime.h. Always over ports of 127.0.0.1. */
#include "program.h"
#include "runtime_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SYNC_MS = 15000,
    SYNC_PAUSE_MS = 10,
    VALUE_SIZE = 64
};

/* A field of INFO replication. -1: no answer, or no such field. */
static int get_field(struct runtime *runtime, unsigned node, const char *name,
                     char value[VALUE_SIZE])
{
    redisReply *reply = runtime_command(runtime, node, "INFO replication");
    const char *at;
    char wanted[VALUE_SIZE];
    int rc = -1;

    (void)snprintf(wanted, sizeof wanted, "\n%s:", name);
    if (reply != NULL && reply->type == REDIS_REPLY_STRING &&
        (at = strstr(reply->str, wanted)) != NULL) {
        at += strlen(wanted);
        (void)snprintf(value, VALUE_SIZE, "%.*s", (int)strcspn(at, "\r\n"), at);
        rc = 0;
    }
    freeReplyObject(reply);
    return rc;
}

static bool has_link(struct runtime *runtime, unsigned node)
{
    char value[VALUE_SIZE];

    return get_field(runtime, node, "master_link_status", value) == 0 && strcmp(value, "up") == 0;
}

/* -1: unknown. */
static long long offset_of(struct runtime *runtime, unsigned node, const char *name)
{
    char value[VALUE_SIZE];

    return get_field(runtime, node, name, value) == 0 ? strtoll(value, NULL, 10) : -1;
}

/* Has all that its primary had at some time after the link was up. */
static int await_sync(struct runtime *runtime, unsigned node, unsigned of)
{
    int64_t until_ms = program_now_ms() + SYNC_MS;
    long long wanted = -1;

    while (wanted < 0 || offset_of(runtime, node, "slave_repl_offset") < wanted) {
        if (program_now_ms() >= until_ms)
            return runtime_fail(runtime, "node %u does not become a replica of node %u within %d s",
                                node, of, SYNC_MS / 1000);
        if (wanted < 0 && has_link(runtime, node))
            wanted = offset_of(runtime, of, "master_repl_offset");
        else if (!program_pause(SYNC_PAUSE_MS))
            return runtime_fail(runtime, "interrupted");
    }
    return 0;
}

/* Starts it again, if that is what it takes to reach other nodes' ports. */
static int reach_host(struct runtime *runtime, unsigned node)
{
    if (runtime->ops->reach_host == NULL || runtime_at(runtime, node)->on_host)
        return 0;
    if (runtime_kill(runtime, node) != 0 || runtime->ops->reach_host(runtime, node, true) != 0)
        return -1;
    return runtime_revive(runtime, node, REVIVE_KEPT, NULL);
}

int runtime_replicate(struct runtime *runtime, unsigned node, unsigned of)
{
    if (node == of)
        return runtime_fail(runtime, "node %u cannot be a replica of itself", node);
    if (reach_host(runtime, node) != 0 ||
        runtime_do(runtime, node, "REPLICAOF 127.0.0.1 %d", runtime_port(runtime, of)) != 0)
        return -1;
    return await_sync(runtime, node, of);
}

/* It looks for a primary where there is none, and remains a replica with the data it has. */
int runtime_cut_replica(struct runtime *runtime, unsigned node)
{
    return runtime_do(runtime, node, "REPLICAOF 127.0.0.1 %d", runtime->nowhere_port);
}

int runtime_promote(struct runtime *runtime, unsigned node)
{
    return runtime_do(runtime, node, "REPLICAOF NO ONE");
}
