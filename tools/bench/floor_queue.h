/*
 * First come, first served, for threads of one process: what stands in front of a floor that many
 * threads share. Whoever leaves hands over to the one that came first, which is the only one that
 * is woken.
 */
#ifndef BENCH_FLOOR_QUEUE_H
#define BENCH_FLOOR_QUEUE_H

#include <pthread.h>
#include <stdbool.h>

struct floor_queue_place; /* of one that waits, on its own stack */

struct floor_queue {
    pthread_mutex_t mutex;
    bool taken;
    unsigned waiting;
    struct floor_queue_place *first, *last;
};

void floor_queue_init(struct floor_queue *queue);
void floor_queue_destroy(struct floor_queue *queue); /* nobody is in it */

void floor_queue_enter(struct floor_queue *queue); /* blocks until it is this thread's turn */
void floor_queue_leave(struct floor_queue *queue);
unsigned floor_queue_waiting(struct floor_queue *queue); /* behind the one whose turn it is */

#endif
