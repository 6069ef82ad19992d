/*
 * A list of those who wait, each with a condition of its own. The turn is never free while somebody
 * waits: it goes from hand to hand, so nobody who comes later gets in between.
 */
#include "floor_queue.h"

#include <stddef.h>

struct floor_queue_place {
    struct floor_queue_place *next;
    pthread_cond_t called;
    bool turn;
};

void floor_queue_init(struct floor_queue *queue)
{
    *queue = (struct floor_queue){.taken = false};
    (void)pthread_mutex_init(&queue->mutex, NULL);
}

void floor_queue_destroy(struct floor_queue *queue)
{
    (void)pthread_mutex_destroy(&queue->mutex);
}

static void wait_locked(struct floor_queue *queue)
{
    struct floor_queue_place place = {.turn = false};

    (void)pthread_cond_init(&place.called, NULL);
    *(queue->last != NULL ? &queue->last->next : &queue->first) = &place;
    /* cppcheck-suppress autoVariables ; it is out of the queue again when its turn has come */
    queue->last = &place;
    queue->waiting++;
    while (!place.turn)
        (void)pthread_cond_wait(&place.called, &queue->mutex);
    (void)pthread_cond_destroy(&place.called);
}

void floor_queue_enter(struct floor_queue *queue)
{
    (void)pthread_mutex_lock(&queue->mutex);
    if (queue->taken)
        wait_locked(queue);
    queue->taken = true;
    (void)pthread_mutex_unlock(&queue->mutex);
}

void floor_queue_leave(struct floor_queue *queue)
{
    struct floor_queue_place *next;

    (void)pthread_mutex_lock(&queue->mutex);
    next = queue->first;
    if (next == NULL) {
        queue->taken = false;
    } else {
        queue->first = next->next;
        if (queue->first == NULL)
            queue->last = NULL;
        queue->waiting--;
        next->turn = true;
        (void)pthread_cond_signal(&next->called);
    }
    (void)pthread_mutex_unlock(&queue->mutex);
}

unsigned floor_queue_waiting(struct floor_queue *queue)
{
    unsigned waiting;

    (void)pthread_mutex_lock(&queue->mutex);
    waiting = queue->waiting;
    (void)pthread_mutex_unlock(&queue->mutex);
    return waiting;
}
