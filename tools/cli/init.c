/*
 * init: marks the primaries, and puts a new one in the place of another.
 *
 * The library decides what may be marked and for how long it has to be watched before; it is asked
 * again each second, so that a primary that restarts or goes away meanwhile is noticed at once.
 * Signals are only notes here, so Ctrl-C ends the wait between two questions and nothing is left
 * half done: each primary is marked by one command of its own.
 *
 * Replacing takes two clients. One with the old list marks the old server as retired, so that
 * clients which still have that list leave it out; a second one with the new list watches the new
 * server and marks it. Both steps may be repeated.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "duration.h"
#include "nodes.h"
#include "report.h"
#include "signals.h"
#include "status.h"

#define TICK_NS (1000 * CLOCK_NS_PER_MS)
#define LIST_LEN (REDLOCK_MAX_NODES * 320)

struct marking {
    struct session session;
    const struct cli_args *args;
    const struct notes *notes;
    redlock_init_options options;
    uint32_t watched; /* a bit for each that had to be */
    int64_t said_ms;  /* the wait that was told; 0: none yet */
    int number;       /* the signal that ended it */
};

static redlock_node_result *result_of(struct marking *marking, int64_t number)
{
    return &marking->session.results[number - 1];
}

static int is_retired(struct marking *marking)
{
    uint32_t retire = marking->options.retire;

    return retire != 0 && strcmp(result_of(marking, retire)->text, "retired") == 0;
}

/* ---- waiting ----------------------------------------------------------------- */

static int shows_progress(const struct cli_args *args)
{
    return !args->quiet && !args->json && isatty(STDERR_FILENO);
}

static void say_wait(struct marking *marking, int64_t wait_ms)
{
    const struct session *session = &marking->session;
    size_t barred = report_barred(session->results, session->node_count);
    size_t count = barred > 0 ? barred : session->node_count;
    const char *noun = count == 1 ? "primary" : "primaries";
    int64_t seconds = (wait_ms + 999) / 1000;

    if (marking->said_ms == 0 && barred > 0 && marking->options.replace == 0)
        report_say(marking->args,
                   "waiting %" PRId64 " s for %zu %s that may have forgotten a lease", seconds,
                   count, noun);
    else if (marking->said_ms == 0)
        report_say(marking->args,
                   "watching %zu %s for %" PRId64 " s, so that no lease can be out%s", count, noun,
                   seconds,
                   marking->options.no_leases_out ? "" : "; if none can be: --no-leases-out");
    if (shows_progress(marking->args))
        fprintf(stderr, "\r%" PRId64 " s \x1b[K", seconds);
    marking->said_ms = wait_ms > 0 ? wait_ms : 1;
}

static void note_watched(struct marking *marking)
{
    const struct session *session = &marking->session;
    size_t barred = report_barred(session->results, session->node_count);

    for (size_t i = 0; i < session->node_count; i++)
        if (barred == 0 || session->results[i].vote == REDLOCK_VOTE_BARRED)
            marking->watched |= UINT32_C(1) << i;
}

/* Returns the library's result, CANCELLED after a signal. */
static int mark(struct marking *marking)
{
    struct session *session = &marking->session;
    int64_t wait_ms = 0;
    int rc;

    for (;;) {
        memset(session->results, 0, sizeof session->results);
        rc = redlock_init(session->client, &marking->options, session->results, REDLOCK_MAX_NODES,
                          &wait_ms);
        if (rc != REDLOCK_PENDING || is_retired(marking))
            break;
        note_watched(marking);
        say_wait(marking, wait_ms);
        marking->number = session_sleep(
            marking->notes,
            clock_now_ns() + (wait_ms < 1000 ? clock_ms_to_ns(wait_ms + 20) : TICK_NS));
        if (marking->number != 0)
            break;
    }
    if (marking->said_ms != 0 && shows_progress(marking->args))
        fputs("\r\x1b[K", stderr);
    return marking->number != 0 ? REDLOCK_CANCELLED : rc;
}

/* ---- what was done ------------------------------------------------------------ */

static const char *done_text(const struct marking *marking, size_t i)
{
    const char *text = marking->session.results[i].text;

    if (strncmp(text, "marked:", 7) != 0)
        return text;
    return marking->watched >> i & 1 ? "marked" : "marked before";
}

static void say_problems(const struct marking *marking)
{
    const struct session *session = &marking->session;
    char text[TEXT_QUOTED_LEN];

    for (size_t i = 0; i < session->node_count; i++) {
        const redlock_node_result *result = &session->results[i];

        if (result->vote == REDLOCK_VOTE_NONE || result->vote == REDLOCK_VOTE_OURS)
            continue;
        text_quote(result->text, strlen(result->text), text);
        text[strlen(text) - 1] = '\0';
        report_say(marking->args, "  %s: %s%s", result->address,
                   result->vote == REDLOCK_VOTE_DOWN ? "down, " : "", text + 1);
    }
}

static int wrote_some(const struct session *session)
{
    for (size_t i = 0; i < session->node_count; i++)
        if (session->results[i].vote == REDLOCK_VOTE_ERROR ||
            session->results[i].vote == REDLOCK_VOTE_OURS)
            return 1;
    return 0;
}

static void say_failure(const struct marking *marking, int rc)
{
    switch (rc) {
    case REDLOCK_CANCELLED:
        report_say(marking->args, "given up: the time watched is lost, what was marked stays");
        break;
    case REDLOCK_NO_QUORUM:
        report_say(marking->args,
                   "%s: all primaries have to be reachable and to allow it; mend "
                   "that and run this again",
                   wrote_some(&marking->session) ? "not all are marked" : "nothing was marked");
        break;
    case REDLOCK_ERR_MISCONFIGURED:
        report_say(marking->args, "nothing was marked: %s", redlock_strerror(rc));
        break;
    default:
        report_say(marking->args, "cannot mark: %s", redlock_strerror(rc));
        break;
    }
    say_problems(marking);
}

static int put_object(const struct marking *marking, int rc, int status, const char *list)
{
    const struct session *session = &marking->session;
    struct json json;

    json_begin(&json);
    json_text(&json, "command", marking->args->name);
    json_text(&json, "result", report_result_name(rc));
    json_text(&json, "text", redlock_strerror(rc));
    json_integer(&json, "status", status);
    if (list[0] != '\0')
        json_text(&json, "list", list);
    json_begin_array(&json, "nodes");
    for (size_t i = 0; i < session->node_count; i++) {
        json_begin_object(&json);
        json_text(&json, "address", session->results[i].address);
        json_text(&json, "vote", redlock_vote_name(session->results[i].vote));
        json_text(&json, "text", done_text(marking, i));
        json_end_object(&json);
    }
    json_end_array(&json);
    return json_end(&json, STDOUT_FILENO);
}

/* Says how it went. Returns the exit status. */
static int finish(const struct marking *marking, int rc, const char *list)
{
    const struct session *session = &marking->session;
    int status =
        marking->number != 0 ? CLI_SIGNAL_BASE + marking->number : session_status(session, rc);

    if (marking->args->json && put_object(marking, rc, status, list) != 0) {
        report_output_failed(marking->args, NULL);
        return CLI_INTERNAL;
    }
    if (rc != REDLOCK_OK) {
        say_failure(marking, rc);
        return status;
    }
    if (marking->args->json || marking->args->quiet)
        return status;
    for (size_t i = 0; i < session->node_count; i++)
        printf("%s: %s\n", session->results[i].address, done_text(marking, i));
    if (list[0] != '\0')
        printf("The list to use from now on, by all clients:\n"
               "  export REDLOCK_NODES=\"%s\"\n",
               list);
    return status;
}

/* ---- replacing ---------------------------------------------------------------- */

/* 1 if nothing but the one that is to go was in the way: it may be dead. */
static int is_only_problem(struct marking *marking, int rc)
{
    struct session *session = &marking->session;

    if (rc != REDLOCK_NO_QUORUM)
        return 0;
    for (size_t i = 0; i < session->node_count; i++)
        if (i + 1 != marking->options.retire && (session->results[i].vote == REDLOCK_VOTE_DOWN ||
                                                 session->results[i].vote == REDLOCK_VOTE_ERROR))
            return 0;
    return 1;
}

/* Returns CLI_CONTINUE, or an exit status. */
static int retire(const struct cli_args *args, const struct notes *notes)
{
    struct marking marking = {.args = args, .notes = notes};
    const redlock_node_result *old;
    int status = session_open(&marking.session, args);
    int rc;

    if (status != CLI_CONTINUE)
        goto out;
    redlock_init_options_init(&marking.options);
    marking.options.no_leases_out = args->no_leases_out > 0;
    marking.options.retire = (uint32_t)args->replace;
    rc = mark(&marking);
    old = result_of(&marking, args->replace);
    if (is_retired(&marking))
        report_say(args, "%s: retired", old->address);
    else if (is_only_problem(&marking, rc))
        report_say(args,
                   "%s could not be retired (%s): it must stay off from now on, or it votes for "
                   "clients that still have the old list",
                   old->address, old->text);
    else
        status = finish(&marking, rc, "");
out:
    session_close(&marking.session);
    return status;
}

/* Marks them all, with `args->replace` as the new one. */
static int mark_all(const struct cli_args *args, const struct notes *notes, const char *list)
{
    struct marking marking = {.args = args, .notes = notes};
    int status = session_open(&marking.session, args);

    if (status == CLI_CONTINUE) {
        redlock_init_options_init(&marking.options);
        marking.options.no_leases_out = args->no_leases_out > 0;
        marking.options.fence_base = args->fence_base > 0;
        marking.options.replace = (uint32_t)args->replace;
        status = finish(&marking, mark(&marking), list);
    }
    session_close(&marking.session);
    return status;
}

static int replace(const struct cli_args *args, const struct notes *notes)
{
    struct cli_args after = *args; /* owns nothing */
    char list[LIST_LEN];
    int status;

    after.nodes.uris[args->replace - 1] = args->replacement.uris[0];
    nodes_show(&after.nodes, list, sizeof list);
    status = retire(args, notes);
    return status == CLI_CONTINUE ? mark_all(&after, notes, list) : status;
}

int command_init(const struct cli_args *args)
{
    struct signals signals;
    struct notes notes;
    int status;

    if (notes_open(&notes) != 0) {
        report_say(args, "out of descriptors");
        return CLI_INTERNAL;
    }
    signals_save(&signals);
    signals_catch(&signals, &notes);
    status = args->replacement.count > 0 ? replace(args, &notes) : mark_all(args, &notes, "");
    signals_restore(&signals);
    notes_close(&notes);
    return status;
}
