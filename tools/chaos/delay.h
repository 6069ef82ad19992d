/* How long a piece of a stream is delayed. */
#ifndef CHAOS_DELAY_H
#define CHAOS_DELAY_H

#include "proxy.h"
#include "seed.h"

/* 0 .. 60 s, and nothing else decides it. Without any delay nothing is drawn. */
int64_t delay_draw(struct stream *stream, struct delay delay);

#endif
