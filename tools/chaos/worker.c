/* A worker's process: see worker.h for what it is told, worker_self.h for what it is made of. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "history.h"
#include "worker_lines.h"
#include "worker_self.h"

enum {
    READY_MS = 1000, /* so long the connections may take */
    READY_PAUSE_MS = 5,
    EXIT_FAILED = 70
};

/* ---- stopping, pausing, waiting -------------------------------------------- */

/* By the kernel's own clock, which is what the condition goes by, whatever a clock plan shows. */
static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

bool worker_stops(struct worker_self *self)
{
    bool stopping;

    pthread_mutex_lock(&self->mutex);
    stopping = self->stopping;
    pthread_mutex_unlock(&self->mutex);
    return stopping || self->locker->failure[0] != '\0';
}

bool worker_sleep(struct worker_self *self, int64_t until_ns)
{
    struct timespec until = timespec_of(until_ns);
    bool stopping;

    pthread_mutex_lock(&self->mutex);
    while (!self->stopping &&
           pthread_cond_timedwait(&self->changed, &self->mutex, &until) != ETIMEDOUT) {
    }
    stopping = self->stopping;
    pthread_mutex_unlock(&self->mutex);
    return !stopping;
}

bool worker_may_begin(struct worker_self *self)
{
    pthread_mutex_lock(&self->mutex);
    while (self->paused && !self->stopping)
        pthread_cond_wait(&self->changed, &self->mutex);
    pthread_mutex_unlock(&self->mutex);
    return !worker_stops(self);
}

json_t *worker_command(struct worker_self *self)
{
    json_t *command = NULL;

    pthread_mutex_lock(&self->mutex);
    while (json_array_size(self->commands) == 0 && !self->stopping)
        pthread_cond_wait(&self->changed, &self->mutex);
    if (!self->stopping) {
        command = json_incref(json_array_get(self->commands, 0));
        (void)json_array_remove(self->commands, 0);
    }
    pthread_mutex_unlock(&self->mutex);
    return command;
}

static void set_state(struct worker_self *self, bool stopping, bool paused)
{
    pthread_mutex_lock(&self->mutex);
    self->stopping = self->stopping || stopping;
    self->paused = paused;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    if (stopping && self->locker->kind->cancel != NULL)
        self->locker->kind->cancel(self->locker);
}

/* ---- the control socket ----------------------------------------------------- */

void worker_reply(struct worker_self *self, json_t *answer)
{
    char *text = json_dumps(answer, JSON_COMPACT);
    size_t len = text != NULL ? strlen(text) : 0;

    json_decref(answer);
    if (text == NULL)
        return;
    text[len++] = '\n'; /* in the place of the NUL: it goes out as bytes */
    pthread_mutex_lock(&self->mutex);
    (void)lines_write(WORKER_CONTROL_FD, text, len);
    pthread_mutex_unlock(&self->mutex);
    free(text);
}

/* Takes it over: a command that waits belongs to the thread that will perform it. */
static void obey(struct worker_self *self, json_t *command)
{
    const char *what = json_string_value(json_object_get(command, "do"));
    bool stop = what != NULL && strcmp(what, "stop") == 0;
    bool pause = what != NULL && strcmp(what, "pause") == 0;
    bool resume = what != NULL && strcmp(what, "resume") == 0;

    if (self->spec.role == ROLE_ACTOR && !stop && !pause && !resume) {
        pthread_mutex_lock(&self->mutex);
        (void)json_array_append_new(self->commands, command);
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->mutex);
        return; /* it answers itself */
    }
    json_decref(command);
    if (stop || pause || resume)
        set_state(self, stop, pause);
    if (pause || resume)
        worker_reply(self, json_pack("{s:b}", "ok", 1));
    else if (!stop)
        worker_reply(self, json_pack("{s:s}", "error", "not known to this role"));
}

/* Until the harness closes its end, which it does not do before the worker has ended, unless it has
 * died: then there is nobody to work for. */
static void *read_control(void *context)
{
    struct worker_self *self = context;
    struct lines lines;
    char *line;

    lines_init(&lines, WORKER_CONTROL_FD);
    while ((line = lines_next(&lines, INT64_MAX)) != NULL)
        obey(self, json_loads(line, 0, NULL));
    lines_free(&lines);
    set_state(self, true, false);
    return NULL;
}

/* ---- beginning and end ------------------------------------------------------ */

static void on_event(void *context, int64_t number, const char *event, int64_t deadline_ns)
{
    const struct worker_self *self = context;

    worker_tell(self, json_pack("{s:s, s:I, s:s, s:I}", "type", "event", "try", (json_int_t)number,
                                "event", event, "deadline_ns", (json_int_t)deadline_ns));
}

static bool limit(const struct worker_spec *spec, char *text, size_t size)
{
    struct rlimit rlimit = {.rlim_cur = (rlim_t)spec->nofile, .rlim_max = (rlim_t)spec->nofile};

    if (spec->nofile == 0 || setrlimit(RLIMIT_NOFILE, &rlimit) == 0)
        return true;
    (void)snprintf(text, size, "nofile %" PRId64 ": %s", spec->nofile, strerror(errno));
    return false;
}

static void keep_from_peers(void)
{
    for (int fd = WORKER_HISTORY_FD; fd <= WORKER_CONTROL_FD; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void tell_worker(const struct worker_self *self)
{
    json_t *names = json_array();

    for (size_t i = 0; i < self->spec.name_count; i++)
        (void)json_array_append_new(names, json_string(self->spec.names[i]));
    worker_tell(self, json_pack("{s:s, s:s, s:s, s:I, s:o}", "type", "worker", "role",
                                role_name(self->spec.role), "group", self->spec.group, "pid",
                                (json_int_t)getpid(), "names", names));
}

/* What can be asked of this process only once; what fails leaves the rest to close_self(). */
static bool open_self(struct worker_self *self, char *text, size_t size)
{
    char stream[SPEC_NAME_LEN + 16];
    pthread_condattr_t by_monotonic;

    self->started_ns = history_now();
    (void)snprintf(stream, sizeof stream, "worker %s", self->spec.worker);
    self->stream = stream_of(self->spec.seed, stream);
    self->commands = json_array();
    (void)pthread_condattr_init(&by_monotonic);
    (void)pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->changed, &by_monotonic);
    (void)pthread_condattr_destroy(&by_monotonic);
    self->shared = shared_map(WORKER_SHARED_FD);
    if (self->shared == NULL) {
        (void)snprintf(text, size, "shared memory: %s", strerror(errno));
        return false;
    }
    if (!limit(&self->spec, text, size))
        return false;
    self->locker = self->spec.peer_count > 0 ? locker_peer(&self->spec, text, size)
                                             : locker_own(&self->spec, on_event, self, text, size);
    return self->locker != NULL;
}

static void close_self(struct worker_self *self)
{
    if (self->locker != NULL)
        self->locker->kind->free(self->locker);
    shared_unmap(self->shared);
    json_decref(self->commands);
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->mutex);
}

static void await_connections(const struct worker_self *self)
{
    struct timespec pause = timespec_of(READY_PAUSE_MS * (int64_t)NS_PER_MS);
    int64_t until_ns = history_now() + READY_MS * (int64_t)NS_PER_MS;

    while (!self->locker->kind->ready(self->locker) && history_now() < until_ns)
        (void)nanosleep(&pause, NULL);
}

static void work(struct worker_self *self)
{
    static void (*const roles[])(struct worker_self *) = {
        [ROLE_CONTENDER] = contender_run, [ROLE_PROBER] = prober_run, [ROLE_ACTOR] = actor_run};
    json_t *counters;

    roles[self->spec.role](self);
    if (!self->begun)
        worker_tell_hygiene(self, "begin");
    worker_tell_hygiene(self, "end");
    counters = self->locker->kind->counters(self->locker);
    if (counters != NULL) {
        (void)json_object_set_new(counters, "type", json_string("count"));
        worker_tell(self, counters);
    }
}

/* False: it failed, and has said why. */
static bool run(struct worker_self *self)
{
    bool ok;

    await_connections(self);
    worker_reply(self, json_pack("{s:b}", "ready", 1));
    if (pthread_create(&self->reader, NULL, read_control, self) != 0) {
        worker_tell_error(self, "no thread");
        return false;
    }
    work(self);
    ok = self->locker->failure[0] == '\0';
    if (!ok)
        worker_tell_error(self, self->locker->failure);
    (void)shutdown(WORKER_CONTROL_FD, SHUT_RD); /* wakes the reader */
    (void)pthread_join(self->reader, NULL);
    return ok;
}

int worker_main(const char *spec)
{
    struct worker_self self = {.spec.json = NULL};
    char text[256] = "out of memory";
    bool ok = false;

    (void)signal(SIGPIPE, SIG_IGN);
    keep_from_peers();
    (void)pthread_mutex_init(&self.mutex, NULL);
    if (!worker_spec_read(json_loads(spec, 0, NULL), &self.spec, text, sizeof text)) {
        worker_reply(&self, json_pack("{s:b, s:s}", "ready", 0, "text", text));
        return EXIT_FAILED;
    }
    if (open_self(&self, text, sizeof text)) {
        tell_worker(&self);
        ok = run(&self);
    } else
        worker_reply(&self, json_pack("{s:b, s:s}", "ready", 0, "text", text));
    close_self(&self);
    worker_spec_free(&self.spec);
    return ok ? EXIT_SUCCESS : EXIT_FAILED;
}
