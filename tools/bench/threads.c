/*
 * A stack of the usual 8 MB is only address space, but a thousand of them are 8 GB of it, which a
 * limit may refuse. What runs on these is shallow.
 */
#include "threads.h"

enum {
    STACK_BYTES = 256 * 1024
};

int bench_thread_create(pthread_t *thread, void *(*run)(void *), void *argument)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);

    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (error == 0)
        error = pthread_create(thread, &attributes, run, argument);
    (void)pthread_attr_destroy(&attributes);
    return error;
}
