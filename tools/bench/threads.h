/* Threads that work for the bench: there may be a thousand. */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <pthread.h>

/* pthread_create() with a small stack. */
int bench_thread_create(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
