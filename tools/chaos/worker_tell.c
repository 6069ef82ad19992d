/*
 * What a worker tells the history: one write a line, short enough for the pipe to take it in one
 * piece or, if the worker is killed in it, not at all.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history.h"
#include "worker_self.h"

_Static_assert(PIPE_BUF >= WORKER_LINE_MAX, "a line is written in one piece");

static void cut_text(json_t *object, size_t keep)
{
    json_t *text = json_object_get(object, "text");

    if (json_string_length(text) > keep) /* not in the middle of a character */
        (void)json_object_set_new(object, "text", json_pack("s%", json_string_value(text), keep));
}

/* 31 nodes with long texts are too much. */
static void cut(json_t *record, size_t keep)
{
    json_t *nodes = json_object_get(record, "node");

    cut_text(record, keep);
    for (size_t i = 0; i < json_array_size(nodes); i++)
        cut_text(json_array_get(nodes, i), keep);
}

void worker_tell(const struct worker_self *self, json_t *record)
{
    static const size_t keeps[] = {64, 24, 0};
    char line[WORKER_LINE_MAX];
    size_t room = sizeof line - 1, len;

    if (record == NULL)
        return;
    (void)json_object_set_new(record, "worker", json_string(self->spec.worker));
    if (json_object_get(record, "t") == NULL)
        (void)json_object_set_new(record, "t", json_integer(history_now()));
    len = json_dumpb(record, line, room, JSON_COMPACT | JSON_ENSURE_ASCII);
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0] && len > room; i++) {
        cut(record, keeps[i]);
        len = json_dumpb(record, line, room, JSON_COMPACT | JSON_ENSURE_ASCII);
    }
    json_decref(record);
    if (len == 0 || len > room)
        len = (size_t)snprintf(line, sizeof line, "{\"t\":%" PRId64 "%s}", history_now(),
                               ",\"type\":\"error\",\"text\":\"a worker's record is too long\"");
    line[len++] = '\n';
    while (write(WORKER_HISTORY_FD, line, len) < 0 && errno == EINTR) {
    }
}

void worker_tell_error(const struct worker_self *self, const char *text)
{
    worker_tell(self, json_pack("{s:s, s:s}", "type", "error", "text", text));
}

/* ---- hygiene -------------------------------------------------------------- */

static long count_entries(const char *path)
{
    DIR *directory = opendir(path);
    long count = 0;

    if (directory == NULL)
        return -1;
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(directory);
    return count;
}

static long resident_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (file == NULL)
        return -1;
    if (fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

void worker_tell_hygiene(const struct worker_self *self, const char *when)
{
    long fds = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");

    if (fds <= 0 || threads <= 0) /* where there is no descriptor left to look by */
        return;
    /* Without the descriptor that reads the directory. */
    worker_tell(self, json_pack("{s:s, s:s, s:I, s:I, s:I}", "type", "hygiene", "when", when, "fds",
                                (json_int_t)fds - 1, "threads", (json_int_t)threads, "rss_kb",
                                (json_int_t)resident_kb()));
}

void worker_cycle(struct worker_self *self)
{
    enum {
        CYCLES = 20,
        WARM_UP_MS = 1000
    };

    self->cycles++;
    if (self->begun || (self->cycles < CYCLES &&
                        history_now() - self->started_ns < WARM_UP_MS * (int64_t)NS_PER_MS))
        return;
    self->begun = true;
    worker_tell_hygiene(self, "begin");
}
