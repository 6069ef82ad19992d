/*
 * The library's client with this program's options, and its results as exit statuses.
 *
 * The thread that waits for a lock is not the one that listens: redlock_cancel() must not be called
 * from a signal handler, and Ctrl-C must work at once while primaries are slow. So
 * redlock_acquire() runs in a thread of its own, with all signals blocked, and the main thread
 * turns a signal into a cancel. Whatever keys the attempt has left are removed by
 * redlock_client_free(), which every way out of here goes through.
 */
#include "session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "duration.h"
#include "report.h"
#include "signals.h"
#include "status.h"

#define NOTICE_AFTER_NS (300 * CLOCK_NS_PER_MS)
#define NOTICE_SELDOM_NS (60000 * CLOCK_NS_PER_MS)
#define SLICE_MS INT64_C(10000) /* a wait for ever is made of these, so that it can say why */
#define FIRST_SLICE_MS INT64_C(3000)
#define RETRY_MS INT64_C(500)             /* the least pause between attempts after the first */
#define AGAIN_NS (9000 * CLOCK_NS_PER_MS) /* a little less than a slice */
#define REASON_LEN 2048

static void log_line(void *context, int level, const char *line)
{
    const struct cli_args *args = context;

    if (args->verbose > 1 || level <= REDLOCK_LOG_INFO)
        report_log(args, "%s", line);
}

static int make_client(struct session *session, char *reason, size_t size)
{
    const struct cli_args *args = session->args;
    redlock_options options;
    const char *uris[REDLOCK_MAX_NODES];

    for (size_t i = 0; i < args->nodes.count; i++)
        uris[i] = args->nodes.uris[i];
    redlock_options_init(&options);
    options.nodes = uris;
    options.node_count = args->nodes.count;
    options.password = args->nodes.password;
    options.quorum = (uint32_t)args->quorum;
    options.drift_ppm = (uint32_t)args->drift_ppm;
    options.max_ttl_ms = args->max_ttl_ms;
    options.restart_guard_ms = args->restart_guard_ms;
    options.node_timeout_ms = args->node_timeout_ms;
    options.connect_timeout_ms = args->connect_timeout_ms;
    options.replicas = (uint32_t)args->replicas;
    options.replica_timeout_ms = args->replica_timeout_ms;
    options.prefix = args->prefix;
    options.client_name = "redlock-cli";
    options.ca_file = args->ca_file;
    options.cert_file = args->cert_file;
    options.key_file = args->key_file;
    options.server_name = args->server_name;
    if (args->verbose) {
        options.log = log_line;
        options.log_context = (void *)(uintptr_t)args;
    }
    return redlock_client_new(&options, &session->client, reason, size);
}

/* The library counts primaries; who wrote a file counts lines. */
static void say_place(const struct cli_args *args, const char *reason, char *place, size_t size)
{
    size_t number;

    place[0] = '\0';
    if (args->nodes_file &&
        (sscanf(reason, "node %zu", &number) == 1 ||
         sscanf(reason, "nodes %*u (%*[^)]) and %zu", &number) == 1) &&
        number >= 1 && number <= args->nodes.count)
        snprintf(place, size, "%.300s, line %zu: ", args->nodes_file,
                 args->nodes.lines[number - 1]);
}

int session_open(struct session *session, const struct cli_args *args)
{
    char reason[REASON_LEN] = "", place[NODES_PROBLEM_LEN];
    int rc, status;

    memset(session, 0, sizeof *session);
    session->args = args;
    session->key_len = args->key ? strlen(args->key) : 0;
    session->node_count = args->nodes.count;
    rc = redlock_cancel_new(&session->cancel);
    if (rc == REDLOCK_OK)
        rc = make_client(session, reason, sizeof reason);
    if (rc == REDLOCK_OK && args->restart_guard_ms == 0 &&
        !args->verbose) /* else it is in the log */
        report_say(args, "the restart guard is off: a primary that restarts without its data can "
                         "vote twice");
    if (rc == REDLOCK_OK)
        return CLI_CONTINUE;
    status = session_status(session, rc);
    say_place(args, reason, place, sizeof place);
    if (status == CLI_USAGE || !args->quiet)
        report_always("%s%s%s%s", place, redlock_strerror(rc), reason[0] ? ": " : "", reason);
    return status;
}

void session_close(struct session *session)
{
    redlock_client_free(session->client);
    redlock_cancel_free(session->cancel);
    session->client = NULL;
    session->cancel = NULL;
}

void session_lock_options(struct session *session, redlock_lock_options *options)
{
    redlock_lock_options_init(options);
    options->ttl_ms = session->args->ttl_ms;
    options->wait_ms = session->args->wait_ms;
    options->cancel = session->cancel;
    options->results = session->results;
    options->result_count = REDLOCK_MAX_NODES;
    options->fence = session->args->fence > 0;
}

int session_status(const struct session *session, int rc)
{
    switch (rc) {
    case REDLOCK_OK:
        return CLI_OK;
    case REDLOCK_BUSY:
    case REDLOCK_WAIT_DEADLINE:
        return (int)session->args->busy_status;
    case REDLOCK_NO_QUORUM:
        return CLI_NO_QUORUM;
    case REDLOCK_EXPIRED:
    case REDLOCK_LOST:
        return CLI_LOST;
    case REDLOCK_ERR_DUPLICATE:
    case REDLOCK_ERR_MEMBERS:
    case REDLOCK_ERR_MISCONFIGURED:
        return CLI_MISCONFIGURED;
    case REDLOCK_ERR_ARGUMENT:
    case REDLOCK_ERR_URI:
    case REDLOCK_ERR_QUORUM:
    case REDLOCK_ERR_TTL:
    case REDLOCK_ERR_KEY:
    case REDLOCK_ERR_TOKEN:
    case REDLOCK_ERR_UNSUPPORTED:
        return CLI_USAGE;
    default:
        return CLI_INTERNAL;
    }
}

/* ---- waiting ------------------------------------------------------------- */

struct attempt {
    struct session *session;
    const redlock_lock_options *options;
    const struct notes *notes;
    redlock_lock *lock;
    pthread_mutex_t mutex;
    redlock_node_result refusals[REDLOCK_MAX_NODES]; /* under the mutex: of the last slice */
};

/* 1 if a wait for ever goes on after it. */
static int is_worth_waiting(int rc)
{
    return rc == REDLOCK_BUSY || rc == REDLOCK_NO_QUORUM || rc == REDLOCK_WAIT_DEADLINE ||
           rc == REDLOCK_EXPIRED;
}

/* Only a result tells what the primaries say to a SET, such as that it is not allowed. So a wait
 * for ever ends now and then, reports, and goes on. */
static int acquire_for_ever(struct attempt *attempt)
{
    struct session *session = attempt->session;
    redlock_lock_options options = *attempt->options;
    int rc;

    options.wait_ms = FIRST_SLICE_MS;
    for (;;) {
        rc = redlock_acquire(session->client, session->args->key, session->key_len, &options,
                             &attempt->lock);
        if (!is_worth_waiting(rc))
            return rc;
        if (rc == REDLOCK_NO_QUORUM) {
            pthread_mutex_lock(&attempt->mutex);
            memcpy(attempt->refusals, session->results, sizeof attempt->refusals);
            pthread_mutex_unlock(&attempt->mutex);
            notes_post(attempt->notes, NOTE_NO_QUORUM, rc, 0);
        }
        options.wait_ms = SLICE_MS;
        options.retry_base_ms = RETRY_MS;
    }
}

static void *attempt_main(void *context)
{
    struct attempt *attempt = context;
    struct session *session = attempt->session;
    int rc;

    if (attempt->options->wait_ms == REDLOCK_WAIT_FOREVER)
        rc = acquire_for_ever(attempt);
    else
        rc = redlock_acquire(session->client, session->args->key, session->key_len,
                             attempt->options, &attempt->lock);
    notes_post_surely(attempt->notes, NOTE_ACQUIRED, rc);
    return NULL;
}

static void say_holder(const struct session *session, const redlock_inspection *found)
{
    char key[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];

    text_quote(session->args->key, session->key_len, key);
    if (found->holder == REDLOCK_HOLDER_ONE && found->remaining_ms >= 0)
        report_say(session->args, "waiting for %s: held by %.8s... on %u of %zu, %s left", key,
                   found->owner, (unsigned)found->votes, session->node_count,
                   duration_text(found->remaining_ms, left));
    else if (found->holder == REDLOCK_HOLDER_ONE)
        report_say(session->args, "waiting for %s: held by %.8s... without an end", key,
                   found->owner);
    else
        report_say(session->args, "waiting for %s: several are trying to get it", key);
}

/* `results` is changed: an answer is no reason. */
static void say_outage(const struct session *session, redlock_node_result *results)
{
    char key[TEXT_QUOTED_LEN], summary[REASON_LEN];

    for (size_t i = 0; i < session->node_count; i++)
        if (results[i].vote == REDLOCK_VOTE_FREE || results[i].vote == REDLOCK_VOTE_FOREIGN)
            results[i].vote = REDLOCK_VOTE_NONE;
    text_quote(session->args->key, session->key_len, key);
    report_summary(results, session->node_count, summary, sizeof summary);
    report_say(session->args, "waiting for %s: too few primaries %s (%s)", key,
               report_barred(results, session->node_count) > 0 ? "count" : "answer", summary);
}

static void say_waiting(const struct session *session, const redlock_inspection *found,
                        redlock_node_result *results)
{
    const struct cli_args *args = session->args;
    struct json json;

    if (args->json && args->command == COMMAND_RUN) {
        json_begin(&json);
        json_text(&json, "event", "waiting");
        report_json_key(&json, session);
        json_text(&json, "holder", report_holder_name(found->holder));
        json_integer(&json, "votes", found->votes);
        json_integer(&json, "remaining_ms", found->remaining_ms);
        report_json_nodes(&json, results, session->node_count);
        json_end(&json, STDERR_FILENO);
    } else if (found->holder == REDLOCK_HOLDER_UNKNOWN) {
        say_outage(session, results);
    } else if (args->verbose || isatty(STDERR_FILENO)) {
        say_holder(session, found);
    }
}

/* What the wait is for, said when it has become noticeable, and again when that is something else:
 * an outage is over, or has begun. */
struct notice {
    int64_t at_ns; /* of the next look */
    int64_t pause_ns;
    int said;          /* -1: nothing yet, 0: that it is held, 1: that too few answer */
    int64_t outage_ns; /* when that was said last */
};

/* An outage, said to everybody, since it may be in nobody's view. */
static void say_no_quorum(struct attempt *attempt, struct notice *notice)
{
    redlock_node_result results[REDLOCK_MAX_NODES];
    redlock_inspection nobody = {.holder = REDLOCK_HOLDER_UNKNOWN};

    if (attempt->session->args->quiet ||
        (notice->said == 1 && clock_now_ns() < notice->outage_ns + AGAIN_NS))
        return;
    pthread_mutex_lock(&attempt->mutex);
    memcpy(results, attempt->refusals, sizeof results);
    pthread_mutex_unlock(&attempt->mutex);
    notice->said = 1;
    notice->outage_ns = clock_now_ns();
    say_waiting(attempt->session, &nobody, results);
}

/* To a person on a terminal, or to who asked for details. An outage is said to everybody, since it
 * may be in nobody's view. */
static void look_what_for(const struct session *session, struct notice *notice)
{
    const struct cli_args *args = session->args;
    redlock_node_inspection nodes[REDLOCK_MAX_NODES];
    redlock_node_result results[REDLOCK_MAX_NODES];
    redlock_inspection found;

    memset(&found, 0, sizeof found);
    memset(nodes, 0, sizeof nodes);
    if (redlock_inspect(session->client, args->key, session->key_len, &found, nodes,
                        session->node_count) == REDLOCK_OK &&
        !(notice->said == 1 && found.holder == REDLOCK_HOLDER_NONE) && /* it may be read only */
        notice->said != (found.holder == REDLOCK_HOLDER_UNKNOWN)) {
        for (size_t i = 0; i < session->node_count; i++)
            results[i] = nodes[i].result;
        notice->said = found.holder == REDLOCK_HOLDER_UNKNOWN;
        notice->outage_ns = notice->said ? clock_now_ns() : 0;
        say_waiting(session, &found, results);
    }
    notice->pause_ns =
        notice->pause_ns < NOTICE_SELDOM_NS / 2 ? notice->pause_ns * 2 : NOTICE_SELDOM_NS;
    notice->at_ns = clock_now_ns() + notice->pause_ns;
}

static void on_waiting_signal(struct session *session, int got, int *number)
{
    if (got == SIGTSTP) {
        signals_stop(SIGTSTP);
    } else if (signals_ends(got) && *number == 0) {
        *number = got;
        redlock_cancel(session->cancel);
    }
}

/* Returns the result of the attempt once it has one. */
static int listen_until_done(struct attempt *attempt, int *number)
{
    struct session *session = attempt->session;
    const struct notes *notes = attempt->notes;
    struct pollfd fd = {.fd = notes->read_fd, .events = POLLIN};
    struct notice notice = {.at_ns = CLOCK_NEVER, .pause_ns = NOTICE_AFTER_NS, .said = -1};
    struct note note;

    if (attempt->options->wait_ms != 0 && !session->args->quiet)
        notice.at_ns = clock_now_ns() + NOTICE_AFTER_NS;
    for (;;) {
        while (notes_next(notes, &note)) {
            if (note.kind == NOTE_ACQUIRED)
                return note.value;
            if (note.kind == NOTE_NO_QUORUM)
                say_no_quorum(attempt, &notice);
            if (note.kind == NOTE_SIGNAL)
                on_waiting_signal(session, note.value, number);
        }
        if (*number != 0)
            notice.at_ns = CLOCK_NEVER;
        else if (clock_now_ns() >= notice.at_ns)
            look_what_for(session, &notice);
        poll(&fd, 1, clock_poll_timeout(notice.at_ns, clock_now_ns()));
    }
}

/* 1 if the command of an outer run asks for the very key of that run, on the same primaries: the
 * stored value is the one in its token. An environment that outlived its run matches nobody. */
static int is_held_outside(const struct session *session)
{
    const char *key = getenv("REDLOCK_KEY"), *token = getenv("REDLOCK_TOKEN");
    redlock_inspection found;
    size_t length;

    if (!key || !token || strcmp(key, session->args->key) != 0)
        return 0;
    length = strcspn(token, ":");
    memset(&found, 0, sizeof found);
    return length > 0 &&
           redlock_inspect(session->client, key, session->key_len, &found, NULL, 0) == REDLOCK_OK &&
           found.holder == REDLOCK_HOLDER_ONE && strlen(found.owner) == length &&
           memcmp(found.owner, token, length) == 0;
}

int session_sleep(const struct notes *notes, int64_t until_ns)
{
    struct pollfd fd = {.fd = notes->read_fd, .events = POLLIN};
    struct note note;

    for (;;) {
        int64_t now_ns = clock_now_ns();

        while (notes_next(notes, &note)) {
            if (note.kind != NOTE_SIGNAL)
                continue;
            if (note.value == SIGTSTP)
                signals_stop(SIGTSTP);
            else if (signals_ends(note.value))
                return note.value;
        }
        if (now_ns >= until_ns)
            return 0;
        poll(&fd, 1, clock_poll_timeout(until_ns, now_ns));
    }
}

int session_acquire(struct session *session, const redlock_lock_options *options,
                    const struct notes *notes, redlock_lock **lock, int *number)
{
    struct attempt attempt = {.session = session, .options = options, .notes = notes};
    pthread_t thread;
    sigset_t old;
    int rc;

    *number = 0;
    memset(session->results, 0, sizeof session->results);
    if (options->wait_ms == REDLOCK_WAIT_FOREVER && is_held_outside(session)) {
        session->nested = 1;
        return REDLOCK_BUSY;
    }
    rc = pthread_mutex_init(&attempt.mutex, NULL);
    if (rc != 0) {
        errno = rc;
        return REDLOCK_ERR_SYSTEM;
    }
    signals_block(&old);
    rc = pthread_create(&thread, NULL, attempt_main, &attempt);
    signals_unblock(&old);
    if (rc != 0) {
        pthread_mutex_destroy(&attempt.mutex);
        errno = rc;
        return REDLOCK_ERR_SYSTEM;
    }
    rc = listen_until_done(&attempt, number);
    pthread_join(thread, NULL);
    pthread_mutex_destroy(&attempt.mutex);
    if (rc == REDLOCK_OK)
        *lock = attempt.lock;
    return rc;
}
