/*
 * A network that costs nothing: for one thread, what it sends is answered at once and in memory. So
 * what that thread executes for a lock is the same each time, to the instruction, whatever the
 * machine does meanwhile. Only commands of a lock are known; anything else is a failure.
 *
 * Linked with --wrap=send,--wrap=recv,--wrap=ppoll. Connections are made, and greetings exchanged,
 * with real servers before.
 */
#ifndef COST_NETWORK_H
#define COST_NETWORK_H

#include <stdbool.h>

struct network_calls {
    unsigned long sends, receives, polls;
};

/* For the calling thread: on and off. Counts begin at 0. */
void network_instead(bool on);
bool network_is_instead(void);
struct network_calls network_calls(void);

/* Since the last call, something was sent for real that asks what time it is. */
bool network_saw_sample(void);

#endif
