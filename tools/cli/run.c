/*
 * redlock run: a command under a lock.
 *
 *     wrapper (this process)      keeps the lease: the library's client, renewal, signals, terminal
 *       `- guardian               holds the deadline and owns the command
 *            `- the command       a process group of its own
 *
 * Order matters. The guardian is forked first, while there are no threads and no sockets it could
 * inherit. Then signals are caught, the lock is waited for, and only a lease with more than its
 * grace left starts the command. At the end the terminal comes back, the lock is released, then the
 * guardian is no longer needed, and clean-up is flushed. If the command ended by itself, the exit
 * status is its own, whatever release says: the work was done under the lock.
 *
 * --max-hold is kept by the guardian alone: a lock that is held a little longer than that, until
 * the last process is gone, does no harm.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "duration.h"
#include "guardian.h"
#include "report.h"
#include "signals.h"
#include "status.h"
#include "supervise.h"

/* Before anything else: see above. Returns CLI_CONTINUE or an exit status. */
static int prepare(struct wrapper *wrapper, const struct cli_args *args, struct signals *signals,
                   struct notes *notes)
{
    int64_t margin_ns = clock_ms_to_ns(watch_margin_ms(args->ttl_ms));
    int64_t grace_ns = clock_ms_to_ns(args->grace_ms);
    struct guardian_plan plan = {.argv = args->argv,
                                 .key = args->key,
                                 .grace_ns = grace_ns,
                                 .margin_ns = margin_ns,
                                 .signals = signals,
                                 .quiet = args->quiet > 0,
                                 .json = args->json > 0};
    sigset_t old;

    wrapper->args = args;
    wrapper->notes = notes;
    wrapper->hold_until_ns = CLOCK_NEVER;
    watch_init(&wrapper->backup, grace_ns + margin_ns / 2, margin_ns / 2);
    family_adopt(&wrapper->family); /* should the guardian die, what it guarded falls to us */
    terminal_open(&wrapper->terminal);
    signals_save(signals);
    signals_block(&old);
    wrapper->guardian = guardian_start(&plan, &wrapper->channel);
    if (wrapper->guardian > 0 && notes_open(notes) == 0)
        signals_catch(signals, notes);
    else
        wrapper->guardian_failed = 1;
    signals_unblock(&old);
    if (wrapper->guardian_failed || pthread_mutex_init(&wrapper->mutex, NULL) != 0) {
        report_say(args, "cannot begin: %s", strerror(errno));
        return CLI_INTERNAL;
    }
    return CLI_CONTINUE;
}

static void say_acquired(struct wrapper *wrapper)
{
    const struct session *session = wrapper->session;
    char key[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];
    struct json json;

    wrapper->margin = redlock_margin(wrapper->lock);
    if (wrapper->args->json) {
        supervise_begin_event(wrapper, &json, "acquired");
        json_integer(&json, "deadline_ns", supervise_deadline_ns(wrapper));
        json_text(&json, "clock", clock_name());
        json_integer(&json, "validity_ms", redlock_remaining_ms(wrapper->lock));
        json_integer(&json, "ttl_ms", wrapper->args->ttl_ms);
        if (wrapper->args->fence)
            json_integer(&json, "fence", redlock_fence(wrapper->lock));
        json_integer(&json, "margin", wrapper->margin);
        report_json_nodes(&json, session->results, session->node_count);
        json_end(&json, STDERR_FILENO);
    }
    report_detail(wrapper->args, "%s acquired, valid for %s",
                  text_quote(wrapper->args->key, session->key_len, key),
                  duration_text(redlock_remaining_ms(wrapper->lock), left));
    report_votes(session);
}

static int fail(struct wrapper *wrapper, int rc)
{
    struct session *session = wrapper->session;
    int status = session_status(session, rc);
    struct json json;

    if (!wrapper->args->json) {
        report_failure(session, rc);
        return status;
    }
    supervise_begin_event(wrapper, &json, "failed");
    json_text(&json, "result", report_result_name(rc));
    json_text(&json, "text", redlock_strerror(rc));
    json_integer(&json, "status", status);
    report_json_nodes(&json, session->results, session->node_count);
    json_end(&json, STDERR_FILENO);
    return status;
}

/* A lock that was hard to get may have little left. The command would be asked to end at once. */
static int top_up(const struct wrapper *wrapper)
{
    int rc;

    if (redlock_remaining_ms(wrapper->lock) > wrapper->args->grace_ms)
        return REDLOCK_OK;
    rc = redlock_extend(wrapper->lock, 0);
    if (rc == REDLOCK_OK && redlock_remaining_ms(wrapper->lock) <= wrapper->args->grace_ms)
        rc = REDLOCK_EXPIRED;
    return rc;
}

/* Returns CLI_CONTINUE with the lock held, or an exit status. */
static int take_lock(struct wrapper *wrapper)
{
    struct session *session = wrapper->session;
    redlock_lock_options options;
    int number, rc;

    session_lock_options(session, &options);
    options.renew = 1;
    options.on_event = supervise_on_event;
    options.event_context = wrapper;
    rc = session_acquire(session, &options, wrapper->notes, &wrapper->lock, &number);
    if (number != 0)
        return CLI_SIGNAL_BASE + number;
    if (rc == REDLOCK_OK) {
        if (wrapper->args->max_hold_ms > 0) {
            pthread_mutex_lock(&wrapper->mutex);
            wrapper->hold_until_ns = clock_now_ns() + clock_ms_to_ns(wrapper->args->max_hold_ms);
            pthread_mutex_unlock(&wrapper->mutex);
        }
        rc = top_up(wrapper);
    }
    if (rc != REDLOCK_OK)
        return fail(wrapper, rc);
    say_acquired(wrapper);
    return CLI_CONTINUE;
}

static void release(struct wrapper *wrapper)
{
    char key[TEXT_QUOTED_LEN];
    struct json json;
    int rc;

    if (!wrapper->lock)
        return;
    rc = redlock_release(wrapper->lock);
    wrapper->lock = NULL;
    if (wrapper->args->json) {
        supervise_begin_event(wrapper, &json, "released");
        json_text(&json, "result", report_result_name(rc));
        report_json_nodes(&json, wrapper->session->results, wrapper->session->node_count);
        json_end(&json, STDERR_FILENO);
    }
    text_quote(wrapper->args->key, wrapper->session->key_len, key);
    if ((rc == REDLOCK_LOST || rc == REDLOCK_EXPIRED) && wrapper->ended && !wrapper->lease_ended)
        report_say(wrapper->args, "the lock %s was not held any more when the command ended", key);
    report_detail(wrapper->args, "%s released: %s", key, redlock_strerror(rc));
    report_votes(wrapper->session);
}

static int status_of(const struct wrapper *wrapper)
{
    if (wrapper->lease_ended)
        return CLI_LOST;
    if (wrapper->guardian_failed)
        return CLI_INTERNAL;
    return wrapper->status < 0 ? CLI_SIGNAL_BASE - wrapper->status : wrapper->status;
}

/* Ctrl-C on the terminal that was the command's alone: what the shell or script that started us
 * would have got from it too. */
static int fatal_key(const struct wrapper *wrapper, const struct signals *signals)
{
    int number = -wrapper->status;

    if (!wrapper->ended || wrapper->lease_ended || wrapper->guardian_failed ||
        !wrapper->terminal.given || (number != SIGINT && number != SIGQUIT))
        return 0;
    return signals_ignored(signals, number) ? 0 : number;
}

static void finish(struct wrapper *wrapper)
{
    terminal_take(&wrapper->terminal, wrapper->status < 0);
    release(wrapper);
    if (wrapper->guardian > 0) { /* it has nothing left to guard */
        kill(wrapper->guardian, SIGKILL);
        waitpid(wrapper->guardian, NULL, 0);
    }
    terminal_close(&wrapper->terminal);
}

int command_run(const struct cli_args *args)
{
    struct session session;
    struct signals signals;
    struct notes notes = {-1, -1};
    struct wrapper wrapper;
    int status, key;

    memset(&session, 0, sizeof session);
    memset(&wrapper, 0, sizeof wrapper);
    wrapper.session = &session;
    status = prepare(&wrapper, args, &signals, &notes);
    if (status == CLI_CONTINUE)
        status = session_open(&session, args);
    if (status == CLI_CONTINUE)
        status = take_lock(&wrapper);
    if (status == CLI_CONTINUE) {
        supervise(&wrapper);
        status = status_of(&wrapper);
    }
    key = fatal_key(&wrapper, &signals);
    finish(&wrapper);
    session_close(&session);
    notes_close(&notes);
    if (key != 0)
        signals_die(key, 1);
    return status;
}
