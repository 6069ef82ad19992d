/*
 * The wrapper's loop.
 *
 * Three sources: notes (signals, and what the library's thread has to say of the lease), the
 * guardian, and the clock. The renewal callback tells the guardian of a new deadline directly, from
 * the library's thread, so that a wrapper whose standard error is full, or which is busy with the
 * terminal, loses no command. The main loop then says the same to people.
 *
 * The guardian decides when the command has to end. The wrapper only checks on it: if it dies, or
 * is stopped and lets the time of its KILL pass, the wrapper, to which the command then falls as a
 * child, kills it, in the second half of the same margin.
 *
 * Job control: the command's stop becomes ours, so that the shell that started us sees a stopped
 * job, and our continuation becomes the command's. While we are stopped nothing renews. That is
 * said, and the guardian keeps the deadline as always.
 */
#include "supervise.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel.h"
#include "clock.h"
#include "duration.h"
#include "output.h"
#include "report.h"
#include "signals.h"
#include "status.h"

#define KILL_AGAIN_MS 4 /* between two passes over what is not dead yet, at first */
#define KILL_SELDOM_MS 128

/* ---- to the guardian ----------------------------------------------------- */

static int send_locked(const struct wrapper *wrapper, enum message_kind kind, int value,
                       int64_t deadline_ns)
{
    struct message message = {.kind = (int32_t)kind, .value = value, .deadline_ns = deadline_ns};

    return wrapper->channel < 0 ? -1 : channel_send(wrapper->channel, &message);
}

static void tell(struct wrapper *wrapper, enum message_kind kind, int value)
{
    pthread_mutex_lock(&wrapper->mutex);
    send_locked(wrapper, kind, value, 0);
    pthread_mutex_unlock(&wrapper->mutex);
}

/* What the primaries said, in the newest round. */
static void summarize(const redlock_lock *lock, char text[SUPERVISE_REASON_LEN])
{
    redlock_node_result results[REDLOCK_MAX_NODES];
    size_t count;

    memset(results, 0, sizeof results);
    count = redlock_node_results(lock, results, REDLOCK_MAX_NODES);
    report_summary(results, count < REDLOCK_MAX_NODES ? count : REDLOCK_MAX_NODES, text,
                   SUPERVISE_REASON_LEN);
}

/* Why a renewal has failed is asked here: the next one, which may never get an answer, replaces it.
 */
void supervise_on_event(void *context, redlock_lock *lock, redlock_event event)
{
    struct wrapper *wrapper = context;
    int64_t deadline_ns = redlock_deadline_ns(lock);
    char reason[SUPERVISE_REASON_LEN] = "";

    if (event != REDLOCK_EVENT_RENEWED)
        summarize(lock, reason);
    pthread_mutex_lock(&wrapper->mutex);
    if (event == REDLOCK_EVENT_RENEWED || reason[0])
        memcpy(wrapper->heard, reason, sizeof reason);
    if (deadline_ns > wrapper->hold_until_ns)
        deadline_ns = wrapper->hold_until_ns;
    if (wrapper->armed && event == REDLOCK_EVENT_RENEWED)
        send_locked(wrapper, MESSAGE_DEADLINE, 0, deadline_ns);
    else if (wrapper->armed && event == REDLOCK_EVENT_LOST)
        send_locked(wrapper, MESSAGE_LOST, 0, 0);
    pthread_mutex_unlock(&wrapper->mutex);

    if (event == REDLOCK_EVENT_RENEWED)
        notes_post(wrapper->notes, NOTE_RENEWED, 0, deadline_ns);
    else if (event == REDLOCK_EVENT_RENEWAL_FAILING)
        notes_post(wrapper->notes, NOTE_FAILING, 0, 0);
    else if (event == REDLOCK_EVENT_LOST)
        notes_post(wrapper->notes, NOTE_LOST, 0, 0);
}

int64_t supervise_deadline_ns(const struct wrapper *wrapper)
{
    int64_t deadline_ns = redlock_deadline_ns(wrapper->lock);

    return deadline_ns < wrapper->hold_until_ns ? deadline_ns : wrapper->hold_until_ns;
}

/* ---- what is said -------------------------------------------------------- */

void supervise_begin_event(const struct wrapper *wrapper, struct json *json, const char *event)
{
    int64_t dropped = output_dropped();

    json_begin(json);
    json_text(json, "event", event);
    report_json_key(json, wrapper->session);
    if (dropped > 0)
        json_integer(json, "dropped", dropped);
}

static void event_with(const struct wrapper *wrapper, const char *event, const char *name,
                       int64_t value)
{
    struct json json;

    if (!wrapper->args->json)
        return;
    supervise_begin_event(wrapper, &json, event);
    if (name)
        json_integer(&json, name, value);
    json_end(&json, STDERR_FILENO);
}

static const char *quoted_key(const struct wrapper *wrapper, char key[TEXT_QUOTED_LEN])
{
    return text_quote(wrapper->args->key, wrapper->session->key_len, key);
}

static void note_reason(struct wrapper *wrapper)
{
    pthread_mutex_lock(&wrapper->mutex);
    memcpy(wrapper->reason, wrapper->heard, sizeof wrapper->reason);
    pthread_mutex_unlock(&wrapper->mutex);
    if (!wrapper->reason[0])
        summarize(wrapper->lock, wrapper->reason);
}

/* How many primaries may still fail: told when that changes. */
static void say_margin(struct wrapper *wrapper)
{
    char key[TEXT_QUOTED_LEN];
    int margin = redlock_margin(wrapper->lock);

    if (margin == wrapper->margin || margin < 0)
        return;
    wrapper->margin = margin;
    event_with(wrapper, "margin", "margin", margin);
    report_detail(wrapper->args, "%s is kept while no more than %d of its primaries fail",
                  quoted_key(wrapper, key), margin);
}

/* One line, the first time the command is made to end. */
static void say_why(struct wrapper *wrapper, int64_t deadline_ns)
{
    char key[TEXT_QUOTED_LEN];

    if (wrapper->lease_ended)
        return;
    wrapper->lease_ended = 1;
    quoted_key(wrapper, key);
    if (deadline_ns == wrapper->hold_until_ns) {
        report_say(wrapper->args, "%s reaches the limit of --max-hold: the command is ended", key);
        return;
    }
    if (!wrapper->reason[0])
        note_reason(wrapper);
    report_say(wrapper->args, "the lease on %s %s (%s): the command is ended", key,
               redlock_is_held(wrapper->lock) ? "cannot be renewed" : "is lost",
               wrapper->reason[0] ? wrapper->reason : "this process was stopped, or too slow");
}

/* ---- job control --------------------------------------------------------- */

static void resume(struct wrapper *wrapper)
{
    if (wrapper->terminal.wanted && wrapper->group > 0)
        terminal_give(&wrapper->terminal, wrapper->group);
    tell(wrapper, MESSAGE_SIGNAL, SIGCONT);
}

static void on_stopped(struct wrapper *wrapper, int number)
{
    char key[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];

    event_with(wrapper, "stopped", "signal", number);
    if ((number == SIGTTIN || number == SIGTTOU) &&
        terminal_give(&wrapper->terminal, wrapper->group) == 0) {
        tell(wrapper, MESSAGE_SIGNAL, SIGCONT);
        return;
    }
    if (wrapper->terminal.fd < 0) /* nobody is there who could continue us: go on renewing */
        return;
    terminal_take(&wrapper->terminal, 0);
    report_say(wrapper->args,
               "stopped: the lease on %s is not renewed meanwhile, the command is ended in %s",
               quoted_key(wrapper, key), duration_text(redlock_remaining_ms(wrapper->lock), left));
    signals_stop(number);
    resume(wrapper);
}

static void on_signal(struct wrapper *wrapper, int number)
{
    if (number == SIGCONT)
        resume(wrapper);
    else
        tell(wrapper, MESSAGE_SIGNAL, number);
}

/* ---- notes --------------------------------------------------------------- */

static void on_note(struct wrapper *wrapper, const struct note *note)
{
    char key[TEXT_QUOTED_LEN];

    switch (note->kind) {
    case NOTE_SIGNAL:
        on_signal(wrapper, note->value);
        break;
    case NOTE_RENEWED:
        watch_renewed(&wrapper->backup, note->deadline_ns);
        wrapper->reason[0] = '\0';
        event_with(wrapper, "renewed", "deadline_ns", note->deadline_ns);
        report_detail(wrapper->args, "%s renewed", quoted_key(wrapper, key));
        say_margin(wrapper);
        break;
    case NOTE_FAILING:
        note_reason(wrapper);
        event_with(wrapper, "renewal_failing", "remaining_ms", redlock_remaining_ms(wrapper->lock));
        report_detail(wrapper->args, "%s could not be renewed, trying again (%s)",
                      quoted_key(wrapper, key), wrapper->reason);
        say_margin(wrapper);
        break;
    case NOTE_LOST:
        watch_lost(&wrapper->backup, clock_now_ns());
        note_reason(wrapper);
        event_with(wrapper, "lost", NULL, 0);
        break;
    default:
        break;
    }
}

/* ---- from the guardian --------------------------------------------------- */

static void on_started(struct wrapper *wrapper, pid_t group)
{
    wrapper->group = group;
    if (wrapper->terminal.wanted)
        terminal_give(&wrapper->terminal, group);
    event_with(wrapper, "started", "pid", group);
    report_detail(wrapper->args, "the command is process %ld", (long)group);
    tell(wrapper, MESSAGE_GO, 0);
}

static void on_no_exec(const struct wrapper *wrapper, int reason)
{
    char name[TEXT_QUOTED_LEN];
    const char *command = wrapper->args->argv[0];

    text_quote(command, strlen(command), name);
    if (reason == ENOENT && !strchr(command, '/'))
        report_say(wrapper->args, "%s: command not found", name);
    else
        report_say(wrapper->args, "%s: %s", name, strerror(reason));
    event_with(wrapper, "no_exec", "errno", reason);
}

static void on_ended(struct wrapper *wrapper, int status)
{
    wrapper->ended = 1;
    wrapper->status = status;
    event_with(wrapper, "exited", status < 0 ? "signal" : "status", status < 0 ? -status : status);
}

static void on_message(struct wrapper *wrapper, const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_STARTED:
        on_started(wrapper, message->value);
        break;
    case MESSAGE_NOT_STARTED:
        report_say(wrapper->args, "the command cannot be started: %s", strerror(message->value));
        on_ended(wrapper, CLI_INTERNAL);
        break;
    case MESSAGE_NO_EXEC:
        on_no_exec(wrapper, message->value);
        break;
    case MESSAGE_STOPPED:
        on_stopped(wrapper, message->value);
        break;
    case MESSAGE_TERMINATING:
        if (wrapper->backup.state == WATCH_RUNNING)
            wrapper->backup.state = WATCH_TERMINATING; /* no way back for us, too */
        event_with(wrapper, "terminating", "deadline_ns", message->deadline_ns);
        say_why(wrapper, message->deadline_ns);
        break;
    case MESSAGE_KILLED:
        wrapper->backup.state = WATCH_IDLE; /* it does its work */
        event_with(wrapper, "killed", "deadline_ns", message->deadline_ns);
        say_why(wrapper, message->deadline_ns);
        break;
    case MESSAGE_EXITED:
        on_ended(wrapper, message->value);
        break;
    default:
        break;
    }
}

/* ---- without a guardian -------------------------------------------------- */

/* How the command ended, which may have been long before it would have been killed. */
static int command_status(const struct wrapper *wrapper)
{
    int status;

    if (wrapper->group <= 0 || waitpid(wrapper->group, &status, WNOHANG) != wrapper->group)
        return -SIGKILL;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The guardian is dead or does not act. What it guarded falls to us, and is killed. */
static void take_over(struct wrapper *wrapper)
{
    int pause_ms = KILL_AGAIN_MS;

    pthread_mutex_lock(&wrapper->mutex);
    close(wrapper->channel);
    wrapper->channel = -1;
    pthread_mutex_unlock(&wrapper->mutex);
    kill(wrapper->guardian, SIGKILL);
    waitpid(wrapper->guardian, NULL, 0);
    while (family_signal(&wrapper->family, wrapper->group, SIGKILL) > 0) {
        poll(NULL, 0, pause_ms);
        pause_ms = pause_ms < KILL_SELDOM_MS ? pause_ms * 2 : KILL_SELDOM_MS;
    }
    wrapper->guardian = -1;
    wrapper->guardian_failed = 1;
    if (wrapper->group > 0)
        event_with(wrapper, "killed", "deadline_ns", wrapper->backup.deadline_ns);
    on_ended(wrapper, command_status(wrapper));
}

/* The backup kills and does nothing else: asked any sooner, it would be TERMINATING on its own, and
 * deaf to a renewal that the guardian still accepts. */
static int64_t backup_next_ns(const struct wrapper *wrapper)
{
    enum watch_state state = wrapper->backup.state;

    return state == WATCH_RUNNING || state == WATCH_TERMINATING ? wrapper->backup.kill_ns
                                                                : CLOCK_NEVER;
}

/* Notes may have been dropped: before anything is done for a deadline, the lease is asked. */
static void check_guardian(struct wrapper *wrapper)
{
    int64_t now_ns = clock_now_ns();
    int64_t deadline_ns;

    if (now_ns < backup_next_ns(wrapper))
        return;
    deadline_ns = supervise_deadline_ns(wrapper);
    if (deadline_ns > wrapper->backup.deadline_ns)
        watch_renewed(&wrapper->backup, deadline_ns);
    if (now_ns < wrapper->backup.kill_ns || watch_due(&wrapper->backup, now_ns) != WATCH_KILL)
        return;
    say_why(wrapper, wrapper->backup.deadline_ns);
    take_over(wrapper);
}

/* ---- the loop ------------------------------------------------------------ */

static void start(struct wrapper *wrapper)
{
    struct message message = {.kind = MESSAGE_START};
    int rc = redlock_token(wrapper->lock, message.token, sizeof message.token);

    if (wrapper->args->fence)
        message.fence = redlock_fence(wrapper->lock);
    pthread_mutex_lock(&wrapper->mutex);
    message.deadline_ns = supervise_deadline_ns(wrapper);
    watch_start(&wrapper->backup, message.deadline_ns);
    if (rc == REDLOCK_OK)
        rc = channel_send(wrapper->channel, &message);
    wrapper->armed = 1;
    pthread_mutex_unlock(&wrapper->mutex);
    if (rc != 0) {
        report_say(wrapper->args, "the guardian process died: the command is not started");
        take_over(wrapper);
    }
}

/* All of it: a message that waits may say that what seems overdue was done. */
static void hear_guardian(struct wrapper *wrapper)
{
    struct pollfd fd = {.fd = wrapper->channel, .events = POLLIN};
    struct message message;

    while (!wrapper->ended && poll(&fd, 1, 0) > 0) {
        if (channel_receive(wrapper->channel, &message)) {
            on_message(wrapper, &message);
        } else {
            report_say(wrapper->args, "the guardian process died: the command is killed");
            take_over(wrapper);
        }
    }
}

static void wait_for_news(struct wrapper *wrapper)
{
    struct pollfd fds[2] = {{.fd = wrapper->notes->read_fd, .events = POLLIN},
                            {.fd = wrapper->channel, .events = POLLIN}};
    struct note note;

    poll(fds, 2, clock_poll_timeout(backup_next_ns(wrapper), clock_now_ns()));
    while (notes_next(wrapper->notes, &note)) /* they say why the guardian does what it says */
        on_note(wrapper, &note);
    hear_guardian(wrapper);
}

void supervise(struct wrapper *wrapper)
{
    start(wrapper);
    while (!wrapper->ended) {
        wait_for_news(wrapper);
        if (!wrapper->ended)
            check_guardian(wrapper);
    }
}
