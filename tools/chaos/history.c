/* One mutex: numbering, listening and writing happen in one order. */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock_plan.h"

struct history {
    pthread_mutex_t mutex;
    FILE *stream;
    json_int_t next;
    int error;
    history_listener *listener;
    void *context;
};

int64_t history_now(void)
{
    return clock_real_ns(CLOCK_MONOTONIC);
}

struct history *history_create(const char *path)
{
    struct history *history = calloc(1, sizeof *history);
    int fd;

    if (history == NULL)
        return NULL;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0)
        history->stream = fdopen(fd, "w");
    if (history->stream == NULL) {
        if (fd >= 0)
            close(fd);
        free(history);
        return NULL;
    }
    (void)pthread_mutex_init(&history->mutex, NULL);
    return history;
}

void history_listen(struct history *history, history_listener *listener, void *context)
{
    history->listener = listener;
    history->context = context;
}

static void write_locked(struct history *history, const json_t *record)
{
    if (history->error != 0)
        return;
    errno = 0;
    if (json_dumpf(record, history->stream, JSON_COMPACT) != 0 ||
        putc('\n', history->stream) == EOF)
        history->error = errno != 0 ? errno : EIO;
}

void history_put(struct history *history, json_t *record)
{
    int64_t now = history_now();

    if (record == NULL) { /* no memory for it */
        pthread_mutex_lock(&history->mutex);
        if (history->error == 0)
            history->error = ENOMEM;
        pthread_mutex_unlock(&history->mutex);
        return;
    }
    pthread_mutex_lock(&history->mutex);
    (void)json_object_set_new(record, "i", json_integer(history->next++));
    if (json_object_get(record, "t") == NULL)
        (void)json_object_set_new(record, "t", json_integer(now));
    if (history->listener != NULL)
        history->listener(history->context, record);
    write_locked(history, record);
    pthread_mutex_unlock(&history->mutex);
    json_decref(record);
}

int history_error(struct history *history)
{
    int error;

    pthread_mutex_lock(&history->mutex);
    error = history->error;
    pthread_mutex_unlock(&history->mutex);
    return error;
}

int history_close(struct history *history)
{
    int error = history->error;

    errno = 0;
    if (fclose(history->stream) != 0 && error == 0)
        error = errno != 0 ? errno : EIO;
    (void)pthread_mutex_destroy(&history->mutex);
    free(history);
    return error;
}
