/*
 * The guardian: a small process that outlives a dead wrapper and does not sleep with a stopped one.
 *
 * The wrapper keeps the lease; the guardian owns the command and holds the deadline. It knows only
 * what it is told: the command may run until the last deadline it has read. Nobody has to be alive,
 * awake or able to reach a primary for the command to end in time, but this process, which does
 * nothing else, has no threads, and ignores every signal a terminal or a careless kill may send it.
 *
 *     wrapper  --START, DEADLINE, LOST, SIGNAL-->  guardian  --fork-->  command
 *              <--STARTED, STOPPED, EXITED, ...--
 *
 * End of the stream: the wrapper is dead, nobody renews or releases, so everything is killed at
 * once. The command is not reaped while its group may still be signalled: its zombie keeps the
 * group's number from being given to somebody else. When the command ended by itself the lock is
 * given back, whatever it left in the background; when it was ended for the lease, its end is
 * reported only after all of that is gone too.
 */
#include "guardian.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/prctl.h>
#include <sys/timerfd.h>
#endif

#include "channel.h"
#include "clock.h"
#include "family.h"
#include "output.h"
#include "spawn.h"
#include "text.h"
#include "watch.h"

#define KILL_AGAIN_NS                                                                              \
    (2 * CLOCK_NS_PER_MS) /* between two passes over what is not dead yet, at first */
#define KILL_SELDOM_NS (128 * CLOCK_NS_PER_MS)
#define REPORT_AGAIN_NS (50 * CLOCK_NS_PER_MS) /* to a wrapper whose socket is full */

struct guardian {
    const struct guardian_plan *plan;
    struct watch watch;
    struct family family;
    struct notes notes; /* SIGCHLD */
    int wrapper;        /* -1: dead */
    int timer;          /* -1: none, the timeout of poll has to do */
    pid_t command;      /* 0: not started */
    int starting;       /* channel to the command before exec, -1: none */
    int ended;          /* status is valid */
    int status;         /* as in MESSAGE_EXITED */
    int reported;       /* the wrapper knows it */
    int64_t pause_ns;   /* until what is not dead yet is killed again: grows */
    int gone;           /* ended for the lease, and so is all it started */
};

static int report(struct guardian *guardian, enum message_kind kind, int value)
{
    struct message message = {.kind = (int32_t)kind, .value = value};

    message.deadline_ns = guardian->watch.deadline_ns;
    return guardian->wrapper < 0 ? -1 : channel_send(guardian->wrapper, &message);
}

/* ---- time ---------------------------------------------------------------- */

static int open_timer(void)
{
#ifdef __linux__
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
#else
    return -1;
#endif
}

/* poll(2) does not count suspend. This does: it fires right after a resume if its time has passed.
 */
static void set_timer(int timer, int64_t at_ns)
{
#ifdef __linux__
    const int64_t second = 1000 * CLOCK_NS_PER_MS;
    struct itimerspec when;

    memset(&when, 0, sizeof when);
    if (at_ns != CLOCK_NEVER) {
        at_ns = at_ns > 0 ? at_ns : 1;
        when.it_value.tv_sec = (time_t)(at_ns / second);
        when.it_value.tv_nsec = (long)(at_ns % second);
    }
    if (timer >= 0)
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
#else
    (void)timer;
    (void)at_ns;
#endif
}

static int64_t next_ns(const struct guardian *guardian, int64_t now_ns)
{
    if (guardian->watch.state == WATCH_KILLING && !guardian->gone)
        return now_ns + guardian->pause_ns;
    if (guardian->ended && !guardian->reported && guardian->wrapper >= 0)
        return now_ns + REPORT_AGAIN_NS;
    return watch_next_ns(&guardian->watch);
}

/* ---- the command --------------------------------------------------------- */

static void start(struct guardian *guardian, const struct message *message)
{
    if (guardian->command > 0)
        return;
    guardian->command = spawn_command(guardian->plan, message, &guardian->starting);
    if (guardian->command < 0) {
        guardian->command = 0;
        report(guardian, MESSAGE_NOT_STARTED, errno);
        return;
    }
    watch_start(&guardian->watch, message->deadline_ns);
    report(guardian, MESSAGE_STARTED, guardian->command);
}

static void let_go(const struct guardian *guardian)
{
    ssize_t ignored = guardian->starting >= 0 ? send(guardian->starting, "", 1, 0) : 0;

    (void)ignored;
}

/* The command's channel: an errno if exec failed, the end if it succeeded or died before. */
static void look_at_start(struct guardian *guardian)
{
    int reason;
    ssize_t n = recv(guardian->starting, &reason, sizeof reason, 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof reason)
        report(guardian, MESSAGE_NO_EXEC, reason);
    close(guardian->starting);
    guardian->starting = -1;
}

static void look_at_command(struct guardian *guardian)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    if (waitid(P_PID, (id_t)guardian->command, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid != 0)
        report(guardian, MESSAGE_STOPPED, info.si_status);
    memset(&info, 0, sizeof info);
    if (guardian->ended ||
        waitid(P_PID, (id_t)guardian->command, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    if (guardian->starting >= 0)
        look_at_start(guardian);
    guardian->ended = 1;
    guardian->status = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

/* After TERM or KILL: kills again what a pass may have missed, and sees whether anything is left.
 */
static void look_at_family(struct guardian *guardian)
{
    int killing = guardian->watch.state == WATCH_KILLING;
    int left = family_signal(&guardian->family, guardian->command, killing ? SIGKILL : 0);

    if (killing && guardian->pause_ns < KILL_SELDOM_NS)
        guardian->pause_ns *= 2;
    guardian->gone = guardian->ended && (left == 0 || (left == FAMILY_UNKNOWN && killing));
}

/* ---- the loop ------------------------------------------------------------ */

static void act(struct guardian *guardian, int64_t now_ns)
{
    switch (watch_due(&guardian->watch, now_ns)) {
    case WATCH_TERMINATE:
        family_signal(&guardian->family, guardian->command, SIGTERM);
        family_signal(&guardian->family, guardian->command, SIGCONT);
        report(guardian, MESSAGE_TERMINATING, 0);
        break;
    case WATCH_KILL:
        family_signal(&guardian->family, guardian->command, SIGKILL);
        report(guardian, MESSAGE_KILLED, 0);
        break;
    case WATCH_NOTHING:
        break;
    }
    if (guardian->watch.state >= WATCH_TERMINATING && !guardian->gone)
        look_at_family(guardian);
}

static void take_message(struct guardian *guardian)
{
    struct message message;

    if (!channel_receive(guardian->wrapper, &message)) {
        close(guardian->wrapper);
        guardian->wrapper = -1;
        watch_orphaned(&guardian->watch, clock_now_ns());
        return;
    }
    switch (message.kind) {
    case MESSAGE_START:
        start(guardian, &message);
        break;
    case MESSAGE_GO:
        let_go(guardian);
        break;
    case MESSAGE_DEADLINE:
        watch_renewed(&guardian->watch, message.deadline_ns);
        break;
    case MESSAGE_LOST:
        watch_lost(&guardian->watch, clock_now_ns());
        break;
    case MESSAGE_SIGNAL:
        if (guardian->command > 0)
            kill(-guardian->command, message.value);
        break;
    default:
        break;
    }
}

static void wait_for_news(struct guardian *guardian)
{
    struct pollfd fds[4] = {{.fd = guardian->wrapper, .events = POLLIN},
                            {.fd = guardian->notes.read_fd, .events = POLLIN},
                            {.fd = guardian->starting, .events = POLLIN},
                            {.fd = guardian->timer, .events = POLLIN}};
    int64_t now_ns = clock_now_ns();
    int64_t at_ns = next_ns(guardian, now_ns);
    struct note note;

    set_timer(guardian->timer, at_ns);
    if (poll(fds, 4, clock_poll_timeout(at_ns, now_ns)) <= 0)
        return;
    while (fds[0].revents && guardian->wrapper >= 0) { /* all: the last deadline counts */
        take_message(guardian);
        fds[0].revents = 0;
        poll(fds, 1, 0);
    }
    if (fds[2].revents && guardian->starting >= 0)
        look_at_start(guardian);
    while (notes_next(&guardian->notes, &note))
        if (guardian->command > 0)
            family_signal(&guardian->family, guardian->command, 0); /* reaps */
}

/* Nobody else is left who could say it. */
static void say_orphaned(const struct guardian *guardian)
{
    static const char line[] =
        "redlock: the process that held the lock died; its command was killed\n";
    struct json json;

    if (guardian->command == 0 || guardian->plan->quiet)
        return;
    if (!guardian->plan->json) {
        output_report(line, sizeof line - 1, 1);
        return;
    }
    json_begin(&json);
    json_text(&json, "event", "orphaned");
    json_bytes(&json, "key", guardian->plan->key, strlen(guardian->plan->key));
    json_integer(&json, "deadline_ns", guardian->watch.deadline_ns);
    json_end(&json, STDERR_FILENO);
}

static void guard(struct guardian *guardian)
{
    while (guardian->wrapper >= 0 || (guardian->command > 0 && !guardian->gone)) {
        wait_for_news(guardian);
        if (guardian->command > 0)
            look_at_command(guardian);
        act(guardian, clock_now_ns());
        if (guardian->ended && !guardian->reported &&
            (guardian->watch.state == WATCH_RUNNING || guardian->gone))
            guardian->reported = report(guardian, MESSAGE_EXITED, guardian->status) == 0;
    }
    if (guardian->gone)
        waitpid(guardian->command, NULL, 0);
    say_orphaned(guardian);
}

/* Who kills "redlock" by name means the wrapper. */
static void take_name(void)
{
#ifdef __linux__
    prctl(PR_SET_NAME, "rlk-guardian");
#endif
}

/* A copy of the wrapper so far; never returns into it. */
static void become(const struct guardian_plan *plan, int wrapper)
{
    struct guardian guardian = {
        .plan = plan, .wrapper = wrapper, .starting = -1, .pause_ns = KILL_AGAIN_NS};

    setpgid(0, 0);
    take_name();
    if (notes_open(&guardian.notes) != 0)
        _exit(1);
    signals_guard(&guardian.notes);
    family_adopt(&guardian.family);
    guardian.timer = open_timer();
    watch_init(&guardian.watch, plan->grace_ns, plan->margin_ns);
    guard(&guardian);
    _exit(0);
}

pid_t guardian_start(const struct guardian_plan *plan, int *channel)
{
    int ends[2];
    pid_t pid;

    if (channel_open(ends) != 0)
        return -1;
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        become(plan, ends[1]);
    }
    close(ends[1]);
    if (pid > 0)
        *channel = ends[0];
    else
        close(ends[0]);
    return pid;
}
