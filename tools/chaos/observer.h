/*
 * Watches the lock keys on every node, past the links, and writes into the history when they
 * come, until when they stay and how they go: what C3 and C6 are judged by.
 */
#ifndef CHAOS_OBSERVER_H
#define CHAOS_OBSERVER_H

struct history;
struct observer;
struct runtime;

/* Returns when it watches all nodes 1 .. nodes. NULL: errno. Keys that start with "redlock:" are
 * left out. A node that dies is watched again when it is back. */
struct observer *observer_new(struct runtime *runtime, unsigned nodes, struct history *history);
void observer_free(struct observer *observer);

#endif
