/*
 * The harness's side of workers: see worker.h.
 *
 * All workers write their lines into one pipe, each in one piece, and one thread puts them into the
 * history. The same thread sees a worker's control socket close when it has died. What that worker
 * had to tell is in the pipe by then: it is taken in first, then `gone` is told, so that nothing of
 * a worker comes after that. Whoever waits for an end waits for this.
 */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "history.h"
#include "shared.h"
#include "worker_lines.h"
#include "workers_spawn.h"

enum {
    WORKERS_MAX = 256,
    START_MS = 30000,    /* until it says that it is ready; under a sanitizer that takes long */
    GIVING_UP_MS = 2000, /* for one that has said why it can't begin */
    FREEZE_MS = 5000,
    TEXT_LEN = 512,
    NS_PER_MS = 1000000
};

struct worker {
    struct workers *workers;
    char name[128];
    uint32_t number;
    pid_t pid;
    int control; /* our end */
    struct lines answers;
    bool gone;   /* of workers->mutex, as all below */
    bool killed; /* by us */
    int status;  /* as waitpid() gave it */
};

struct workers {
    struct history *history;
    int shared_fd, pipe[2], wake_fd;
    struct shared *shared;
    struct lines lines;
    pthread_t reader;
    bool reading; /* the thread was started */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopping;
    struct worker *list[WORKERS_MAX];
    size_t count;
    char error[TEXT_LEN];
};

/* ---- the reader ------------------------------------------------------------- */

static void put_error(struct workers *workers, const char *what, const char *text)
{
    char line[TEXT_LEN];

    (void)snprintf(line, sizeof line, "%.32s: %.400s", what, text);
    history_put(workers->history, json_pack("{s:s, s:s}", "type", "error", "text", line));
}

/* All lines that are in the pipe now. */
static void take_lines(struct workers *workers)
{
    char *line;

    while ((line = lines_next(&workers->lines, 0)) != NULL) {
        json_t *record = json_loads(line, 0, NULL);
        if (record != NULL)
            history_put(workers->history, record);
        else
            put_error(workers, "not a record of a worker", line);
    }
}

static const char *how_gone(const struct worker *worker, char *text, size_t size)
{
    int status = worker->status;

    text[0] = '\0';
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return "left";
    if (WIFEXITED(status))
        (void)snprintf(text, size, "exit status %d", WEXITSTATUS(status));
    else
        (void)snprintf(text, size, "signal %d", WTERMSIG(status));
    return worker->killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? "killed"
                                                                                : "failed";
}

/* Its socket has closed: it is dead, or as good as that. Its group goes with it: the number stays
 * taken until its leader is reaped. */
static void bury(struct worker *worker)
{
    struct workers *workers = worker->workers;
    siginfo_t info;
    char text[64];
    const char *how;

    while (waitid(P_PID, (id_t)worker->pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
    take_lines(workers);
    (void)shared_clear(workers->shared, worker->number);
    pthread_mutex_lock(&workers->mutex);
    (void)kill(-worker->pid, SIGKILL);
    while (waitpid(worker->pid, &worker->status, 0) < 0 && errno == EINTR) {
    }
    how = how_gone(worker, text, sizeof text);
    history_put(workers->history, json_pack("{s:s, s:s, s:s, s:s}", "type", "gone", "worker",
                                            worker->name, "how", how, "text", text));
    if (strcmp(how, "failed") == 0)
        put_error(workers, worker->name, text);
    worker->gone = true;
    pthread_cond_broadcast(&workers->changed);
    pthread_mutex_unlock(&workers->mutex);
}

/* Those that run, with what tells of their end. */
static size_t collect(struct workers *workers, struct pollfd *fds, struct worker **running)
{
    size_t n = 0;

    pthread_mutex_lock(&workers->mutex);
    for (size_t i = 0; i < workers->count; i++)
        if (!workers->list[i]->gone) {
            fds[n] = (struct pollfd){.fd = workers->list[i]->control}; /* for its hang-up only */
            running[n++] = workers->list[i];
        }
    pthread_mutex_unlock(&workers->mutex);
    return n;
}

static bool is_stopping(struct workers *workers)
{
    bool stopping;

    pthread_mutex_lock(&workers->mutex);
    stopping = workers->stopping;
    pthread_mutex_unlock(&workers->mutex);
    return stopping;
}

static void *read_all(void *context)
{
    struct workers *workers = context;

    while (!is_stopping(workers)) {
        struct pollfd fds[WORKERS_MAX + 2];
        struct worker *running[WORKERS_MAX];
        size_t n = collect(workers, fds, running);
        uint64_t wakes;

        fds[n] = (struct pollfd){.fd = workers->pipe[0], .events = POLLIN};
        fds[n + 1] = (struct pollfd){.fd = workers->wake_fd, .events = POLLIN};
        if (poll(fds, n + 2, -1) < 0)
            continue;
        if (fds[n + 1].revents != 0)
            (void)!read(workers->wake_fd, &wakes, sizeof wakes);
        if (fds[n].revents != 0)
            take_lines(workers);
        for (size_t i = 0; i < n; i++)
            if ((fds[i].revents & (POLLHUP | POLLERR)) != 0)
                bury(running[i]);
    }
    return NULL;
}

static void wake_reader(struct workers *workers)
{
    (void)!write(workers->wake_fd, &(uint64_t){1}, sizeof(uint64_t));
}

/* ---- all of them -------------------------------------------------------------- */

static bool open_workers(struct workers *workers)
{
    workers->shared_fd = shared_create();
    if (workers->shared_fd < 0 || (workers->shared = shared_map(workers->shared_fd)) == NULL)
        return false;
    if (pipe2(workers->pipe, O_CLOEXEC) != 0)
        return false;
    workers->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (workers->wake_fd < 0)
        return false;
    lines_init(&workers->lines, workers->pipe[0]);
    errno = pthread_create(&workers->reader, NULL, read_all, workers);
    workers->reading = errno == 0;
    return workers->reading;
}

struct workers *workers_new(struct history *history)
{
    struct workers *workers = calloc(1, sizeof *workers);
    pthread_condattr_t by_monotonic;
    int error;

    if (workers == NULL)
        return NULL;
    *workers =
        (struct workers){.history = history, .shared_fd = -1, .pipe = {-1, -1}, .wake_fd = -1};
    (void)pthread_mutex_init(&workers->mutex, NULL);
    (void)pthread_condattr_init(&by_monotonic);
    (void)pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&workers->changed, &by_monotonic);
    (void)pthread_condattr_destroy(&by_monotonic);
    if (open_workers(workers))
        return workers;
    error = errno;
    workers_free(workers);
    errno = error;
    return NULL;
}

static void close_descriptor(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

static void free_worker(struct worker *worker)
{
    close_descriptor(worker->control);
    lines_free(&worker->answers);
    free(worker);
}

void workers_free(struct workers *workers)
{
    if (workers == NULL)
        return;
    for (size_t i = 0; i < workers->count; i++)
        worker_kill(workers->list[i]);
    pthread_mutex_lock(&workers->mutex);
    workers->stopping = true;
    pthread_mutex_unlock(&workers->mutex);
    if (workers->reading) {
        wake_reader(workers);
        (void)pthread_join(workers->reader, NULL);
    }
    for (size_t i = 0; i < workers->count; i++)
        free_worker(workers->list[i]);
    lines_free(&workers->lines);
    shared_unmap(workers->shared);
    close_descriptor(workers->shared_fd);
    close_descriptor(workers->pipe[0]);
    close_descriptor(workers->pipe[1]);
    close_descriptor(workers->wake_fd);
    (void)pthread_cond_destroy(&workers->changed);
    (void)pthread_mutex_destroy(&workers->mutex);
    free(workers);
}

int workers_shared_fd(const struct workers *workers)
{
    return workers->shared_fd;
}

const char *worker_error(const struct workers *workers)
{
    return workers->error;
}

/* ---- beginning ------------------------------------------------------------------ */

static struct worker *new_worker(struct workers *workers, const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "worker"));
    struct worker *worker = calloc(1, sizeof *worker);

    if (worker == NULL)
        return NULL;
    worker->workers = workers;
    worker->number = (uint32_t)json_integer_value(json_object_get(spec, "number"));
    worker->control = -1;
    (void)snprintf(worker->name, sizeof worker->name, "%s", name != NULL ? name : "");
    return worker;
}

/* From here on the reader looks after its end. */
static void add(struct workers *workers, struct worker *worker)
{
    pthread_mutex_lock(&workers->mutex);
    workers->list[workers->count++] = worker;
    pthread_mutex_unlock(&workers->mutex);
    wake_reader(workers);
}

static bool spawn(struct worker *worker, const json_t *spec)
{
    struct workers *workers = worker->workers;
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        (void)snprintf(workers->error, TEXT_LEN, "socketpair: %s", strerror(errno));
        return false;
    }
    worker->control = ends[0];
    lines_init(&worker->answers, ends[0]);
    worker->pid = workers_spawn(spec, (const int[]){workers->pipe[1], workers->shared_fd, ends[1]},
                                workers->error, TEXT_LEN);
    (void)close(ends[1]);
    return worker->pid > 0;
}

/* False: it still runs. */
static bool await_end(struct worker *worker, int64_t deadline_ns)
{
    struct workers *workers = worker->workers;
    struct timespec until = {.tv_sec = deadline_ns / 1000000000,
                             .tv_nsec = deadline_ns % 1000000000};
    bool gone;

    pthread_mutex_lock(&workers->mutex);
    while (!worker->gone &&
           pthread_cond_timedwait(&workers->changed, &workers->mutex, &until) != ETIMEDOUT) {
    }
    gone = worker->gone;
    pthread_mutex_unlock(&workers->mutex);
    return gone;
}

static bool await_ready(struct worker *worker)
{
    struct workers *workers = worker->workers;
    json_t *answer = worker_answer(worker, START_MS);
    bool ready = json_is_true(json_object_get(answer, "ready"));
    const char *text = json_string_value(json_object_get(answer, "text"));

    if (!ready)
        (void)snprintf(workers->error, TEXT_LEN, "%s", text != NULL ? text : "didn't start");
    json_decref(answer);
    return ready;
}

struct worker *worker_start(struct workers *workers, json_t *spec)
{
    struct worker *worker = NULL;

    workers->error[0] = '\0';
    if (workers->count < WORKERS_MAX)
        worker = new_worker(workers, spec);
    else
        (void)snprintf(workers->error, TEXT_LEN, "more than %d workers", WORKERS_MAX);
    if (worker == NULL || !spawn(worker, spec)) {
        int error = errno;
        if (worker != NULL)
            free_worker(worker);
        json_decref(spec);
        errno = error;
        return NULL;
    }
    json_decref(spec);
    add(workers, worker);
    if (await_ready(worker))
        return worker;
    (void)await_end(worker, history_now() + GIVING_UP_MS * (int64_t)NS_PER_MS);
    worker_kill(worker); /* stays in the list, as one that is gone */
    errno = ECHILD;
    return NULL;
}

pid_t worker_pid(const struct worker *worker)
{
    return worker->pid;
}

const char *worker_name(const struct worker *worker)
{
    return worker->name;
}

/* ---- commands -------------------------------------------------------------------- */

int worker_ask(struct worker *worker, json_t *command)
{
    char *text = json_dumps(command, JSON_COMPACT);
    bool ok = false;

    json_decref(command);
    if (text != NULL) {
        size_t len = strlen(text);
        text[len] = '\n'; /* in the place of the NUL: it goes out as bytes */
        ok = lines_write(worker->control, text, len + 1);
    }
    free(text);
    return ok ? 0 : -1;
}

json_t *worker_answer(struct worker *worker, int timeout_ms)
{
    const char *line =
        lines_next(&worker->answers, history_now() + timeout_ms * (int64_t)NS_PER_MS);

    return line != NULL ? json_loads(line, JSON_DECODE_ANY, NULL) : NULL;
}

json_t *worker_do(struct worker *worker, json_t *command, int timeout_ms)
{
    return worker_ask(worker, command) == 0 ? worker_answer(worker, timeout_ms) : NULL;
}

/* ---- stopping and ending ----------------------------------------------------------- */

/* To the worker and its peer; not once it is reaped, when its number may be another's. */
static void send_signal(struct worker *worker, int number)
{
    struct workers *workers = worker->workers;

    pthread_mutex_lock(&workers->mutex);
    if (!worker->gone)
        (void)kill(-worker->pid, number);
    if (number == SIGKILL)
        worker->killed = true;
    pthread_mutex_unlock(&workers->mutex);
}

bool worker_runs(struct worker *worker)
{
    bool runs;

    pthread_mutex_lock(&worker->workers->mutex);
    runs = !worker->gone;
    pthread_mutex_unlock(&worker->workers->mutex);
    return runs;
}

void worker_freeze(struct worker *worker)
{
    struct timespec pause = {.tv_nsec = 200000};
    int64_t give_up_ns = history_now() + FREEZE_MS * (int64_t)NS_PER_MS;

    send_signal(worker, SIGSTOP);
    while (worker_runs(worker) && !workers_stopped(worker->pid)) {
        if (history_now() > give_up_ns) {
            put_error(worker->workers, worker->name, "didn't stop");
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
}

void worker_thaw(struct worker *worker)
{
    send_signal(worker, SIGCONT);
}

void worker_kill(struct worker *worker)
{
    send_signal(worker, SIGKILL);
    (void)await_end(worker, INT64_MAX);
}

int worker_stop(struct worker *worker, int timeout_ms)
{
    int64_t deadline_ns = history_now() + timeout_ms * (int64_t)NS_PER_MS;
    bool asked = worker_ask(worker, json_pack("{s:s}", "do", "stop")) == 0;

    if (!asked || !await_end(worker, deadline_ns))
        worker_kill(worker);
    return WIFEXITED(worker->status) && WEXITSTATUS(worker->status) == 0 ? 0 : -1;
}
