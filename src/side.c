/*
 * See side.h. A node goes when its link was left, the driver has closed it, and all it had to tell
 * was pulled; so a number never means two connections at once.
 */
#include "side.h"

#include <stdlib.h>
#include <string.h>

#include "engine_state.h"
#include "validity.h"

bool redlock__side_new(struct redlock__engine *engine, const struct redlock__node_config *configs)
{
    engine->configs = calloc(engine->n, sizeof engine->configs[0]);
    if (engine->configs == NULL)
        return false;
    memcpy(engine->configs, configs, engine->n * sizeof engine->configs[0]);
    return true;
}

void redlock__side_free(struct redlock__engine *engine)
{
    for (uint32_t i = 0; i < REDLOCK__SIDE_LINKS; i++)
        redlock__node_free(engine->sides[i].node);
    free(engine->configs);
}

/* Frees a node that was left and that nothing is to be done for. */
static void tidy(struct redlock__side *side, int64_t now_ns)
{
    struct redlock__node_event event;

    if (side->node == NULL || !side->left)
        return;
    while (redlock__node_pull(side->node, now_ns, &event))
        continue;
    if (redlock__node_has_task(side->node, now_ns))
        return;
    redlock__node_free(side->node);
    side->node = NULL;
}

void redlock__side_tidy(struct redlock__engine *engine, int64_t now_ns)
{
    for (uint32_t i = engine->n; i < engine->seen.links; i++) {
        tidy(&engine->sides[i - engine->n], now_ns);
        engine->seen.nodes[i] = engine->sides[i - engine->n].node;
    }
    while (engine->seen.links > engine->n && engine->seen.nodes[engine->seen.links - 1] == NULL)
        engine->seen.links--;
}

struct redlock__side *redlock__side_take(struct redlock__engine *engine, uint32_t primary,
                                         int64_t more_silence_ns)
{
    for (uint32_t i = 0; i < REDLOCK__SIDE_LINKS; i++) {
        struct redlock__side *side = &engine->sides[i];
        struct redlock__node_config config = engine->configs[primary];

        if (side->node != NULL)
            continue;
        config.plain = true;
        config.all = &engine->seen.all;
        config.bit = 0; /* it is no primary's */
        config.silence_limit_ns = redlock__add(config.silence_limit_ns, more_silence_ns);
        config.seed += ++engine->sides_taken * UINT64_C(0xd1342543de82ef95);
        *side = (struct redlock__side){.node = redlock__node_new(&config), .primary = primary};
        if (side->node == NULL)
            return NULL;
        engine->stirred |= REDLOCK__STIRRED;
        engine->seen.nodes[engine->n + i] = side->node;
        if (engine->seen.links <= engine->n + i)
            engine->seen.links = engine->n + i + 1;
        return side;
    }
    return NULL;
}

void redlock__side_leave(struct redlock__engine *engine, struct redlock__side *side, int64_t now_ns)
{
    side->left = true;
    redlock__node_rest(side->node, now_ns);
    engine->stirred |= REDLOCK__STIRRED;
}

bool redlock__side_request(struct redlock__engine *engine, struct redlock__side *side,
                           const struct redlock__tag *tag, const struct redlock__bytes *bytes,
                           int64_t deadline_ns, int64_t now_ns)
{
    engine->stirred |= REDLOCK__STIRRED;
    return redlock__node_request(side->node, tag, bytes, deadline_ns, now_ns);
}
