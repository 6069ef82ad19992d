/*
 * What one connection has to send. The bytes are the node's own, in one block that is moved as
 * seldom as it was sent; or, where it has no others, they are where the engine encoded them, for as
 * many nodes as are to have them, until somebody needs that room (redlock__node_keep()).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node_state.h"

#define FIRST_OUT ((size_t)4096)

__attribute__((cold)) static bool grow_out(struct redlock__node *node, size_t len)
{
    size_t size = node->seen.out_size == 0 ? FIRST_OUT : node->seen.out_size;
    char *out;

    while (size - node->seen.out_tail < len)
        size *= 2;
    redlock__node_keep(node);
    out = realloc(node->seen.out, size);
    if (out == NULL)
        return false;
    node->seen.from = node->seen.out = out;
    node->seen.out_size = size;
    return true;
}

void redlock__node_keep(struct redlock__node *node)
{
    struct redlock__node_seen *seen = &node->seen;

    if (seen->from != seen->out)
        memcpy(seen->out + seen->out_head, seen->from + seen->out_head,
               seen->out_tail - seen->out_head);
    seen->from = seen->out;
}

bool redlock__node_make_room(struct redlock__node *node, size_t len)
{
    return redlock__ring_reserve(&node->ring) &&
           (node->seen.out_size - node->seen.out_tail >= len || grow_out(node, len));
}

void redlock__node_sent_all(struct redlock__node *node)
{
    node->sent = node->end;
    node->seen.from = node->seen.out;
    node->seen.out_head = node->seen.out_tail = 0;
}

void redlock__node_sent(struct redlock__node *node, size_t len)
{
    size_t rest = node->seen.out_tail - node->seen.out_head - len;

    assert(len <= node->seen.out_tail - node->seen.out_head);
    if (rest == 0) {
        redlock__node_sent_all(node);
        return;
    }
    redlock__node_keep(node);
    node->sent += len;
    node->seen.out_head += len;
    if (rest > node->seen.out_head)
        return;
    /* No byte is moved more often than another was sent. */
    memcpy(node->seen.out, node->seen.out + node->seen.out_head, rest);
    node->seen.out_head = 0;
    node->seen.out_tail = rest;
}
