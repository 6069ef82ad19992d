/*
 * Signals, as three kinds of process want them.
 *
 * The wrapper turns signals into notes and passes them on; the guardian ignores them all; the
 * command gets what the wrapper itself was started with, so that `nohup redlock run` or a shell's
 * `&` mean for the command what they mean without redlock. What was ignored at the start is
 * therefore left ignored.
 *
 * The handler needs to know its pipe: that is a variable outside of a function.
 */
#include "signals.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    ENDS = 1,
    CATCH = 2,
    IGNORE = 4,
    GUARD = 8
};

struct signal_rule {
    int number;
    int what;
    const char *name;
};

static const struct signal_rule rules[SIGNALS_COUNT] = {
    {SIGTERM, ENDS | CATCH | GUARD, "TERM"},
    {SIGINT, ENDS | CATCH | GUARD, "INT"},
    {SIGHUP, ENDS | CATCH | GUARD, "HUP"},
    {SIGQUIT, ENDS | CATCH | GUARD, "QUIT"},
    {SIGUSR1, ENDS | CATCH | GUARD, "USR1"},
    {SIGUSR2, ENDS | CATCH | GUARD, "USR2"},
    {SIGALRM, GUARD, "ALRM"},
    {SIGWINCH, CATCH, "WINCH"},
    {SIGCONT, CATCH, "CONT"},
    {SIGTSTP, CATCH | GUARD, "TSTP"},
    {SIGTTIN, GUARD, "TTIN"},
    {SIGTTOU, IGNORE | GUARD, "TTOU"},
    {SIGPIPE, IGNORE | GUARD, "PIPE"},
    {SIGCHLD, 0, "CHLD"},
};

static struct notes handler_notes = {-1, -1};

static void handle(int number)
{
    notes_post(&handler_notes, NOTE_SIGNAL, number, 0);
}

static void set(int number, void (*handler)(int))
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

void signals_save(struct signals *signals)
{
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        sigaction(rules[i].number, NULL, &signals->saved[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &signals->mask);
}

int signals_ignored(const struct signals *signals, int number)
{
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        if (rules[i].number == number)
            return signals->saved[i].sa_handler == SIG_IGN;
    return 0;
}

void signals_restore(const struct signals *signals)
{
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        sigaction(rules[i].number, &signals->saved[i], NULL);
    pthread_sigmask(SIG_SETMASK, &signals->mask, NULL);
}

void signals_block(sigset_t *old)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, old);
}

void signals_unblock(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

void signals_catch(const struct signals *signals, const struct notes *notes)
{
    handler_notes = *notes;
    for (size_t i = 0; i < SIGNALS_COUNT; i++) {
        if (rules[i].what & IGNORE)
            set(rules[i].number, SIG_IGN);
        else if ((rules[i].what & CATCH) && signals->saved[i].sa_handler != SIG_IGN)
            set(rules[i].number, handle);
    }
    set(SIGCHLD, SIG_DFL); /* ignored, it would take our children's statuses away */
}

void signals_guard(const struct notes *notes)
{
    sigset_t child;

    handler_notes = *notes;
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        if (rules[i].what & GUARD)
            set(rules[i].number, SIG_IGN);
    set(SIGCHLD, handle);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &child, NULL);
}

int signals_ends(int number)
{
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        if (rules[i].number == number)
            return (rules[i].what & ENDS) != 0;
    return 0;
}

void signals_stop(int number)
{
    struct sigaction before;
    sigset_t only, old;

    if (number == SIGSTOP) {
        kill(getpid(), SIGSTOP);
        return;
    }
    sigaction(number, NULL, &before);
    set(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    pthread_sigmask(SIG_UNBLOCK, &only, &old);
    kill(0, number);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(number, &before, NULL);
}

/* What a shell goes by is how its child died: by Ctrl-C, then it stops its loop, or not. */
void signals_die(int number, int whole_group)
{
    struct rlimit no_core = {0, 0};
    sigset_t only;

    setrlimit(RLIMIT_CORE, &no_core); /* of the command there may be one, of us it is no use */
    set(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    kill(whole_group ? 0 : getpid(), number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
}

const char *signals_name(int number, char text[16])
{
    for (size_t i = 0; i < SIGNALS_COUNT; i++)
        if (rules[i].number == number)
            return rules[i].name;
    if (number == SIGKILL)
        return "KILL";
    if (number == SIGSTOP)
        return "STOP";
    snprintf(text, 16, "%d", number);
    return text;
}
