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
    json_t *numbered;

    if (record == NULL) { /* no memory for it */
        pthread_mutex_lock(&history->mutex);
        if (history->error == 0)
            history->error = ENOMEM;
        pthread_mutex_unlock(&history->mutex);
        return;
    }
    pthread_mutex_lock(&history->mutex);
    numbered = json_pack("{s:I, s:I}", "i", (json_int_t)history->next++, "t", (json_int_t)now);
    (void)json_object_update(numbered, record); /* its own t, if it has one */
    if (history->listener != NULL)
        history->listener(history->context, numbered);
    write_locked(history, numbered);
    pthread_mutex_unlock(&history->mutex);
    json_decref(numbered);
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
