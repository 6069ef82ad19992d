/*
 * Sentences and objects about results.
 *
 * A failure names the lock, says what it means, and, where primaries are the reason, what each of
 * them said. With --json the same facts are in the object, so the sentences are left out. Usage
 * errors are not said here: those are always said.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "members.h"
#include "output.h"
#include "status.h"

struct result_name {
    int rc;
    const char *name;
};

static const struct result_name result_names[] = {
    {REDLOCK_OK, "ok"},
    {REDLOCK_ERR_TTL, "ttl"},
    {REDLOCK_BUSY, "busy"},
    {REDLOCK_NO_QUORUM, "no_quorum"},
    {REDLOCK_WAIT_DEADLINE, "wait_deadline"},
    {REDLOCK_EXPIRED, "expired"},
    {REDLOCK_LOST, "lost"},
    {REDLOCK_CANCELLED, "cancelled"},
    {REDLOCK_ERR_MISCONFIGURED, "misconfigured"},
    {REDLOCK_ERR_MEMBERS, "members"},
    {REDLOCK_ERR_TOKEN, "token"},
};

const char *report_result_name(int rc)
{
    for (size_t i = 0; i < sizeof result_names / sizeof result_names[0]; i++)
        if (result_names[i].rc == rc)
            return result_names[i].name;
    return "error";
}

const char *report_holder_name(redlock_holder holder)
{
    switch (holder) {
    case REDLOCK_HOLDER_ONE:
        return "one";
    case REDLOCK_HOLDER_NONE:
        return "none";
    case REDLOCK_HOLDER_UNKNOWN:
        break;
    }
    return "unknown";
}

/* Returns -1 if there is still no room. */
static int say_dropped(int patient)
{
    int64_t lines = output_dropped();
    char text[80];
    int length;

    if (lines == 0)
        return 0;
    length = snprintf(text, sizeof text,
                      "redlock: nobody read standard error: %" PRId64 " lines left out\n", lines);
    return output_report(text, (size_t)length, patient);
}

/* One write a line, whole also where several processes share the descriptor. */
static void say(int patient, const char *format, va_list list)
    __attribute__((format(printf, 2, 0)));

static void say(int patient, const char *format, va_list list)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);

    if (!stream)
        return;
    fputs("redlock: ", stream);
    vfprintf(stream, format, list);
    putc('\n', stream);
    if (fclose(stream) == 0 && say_dropped(patient) == 0)
        output_report(text, size, patient);
    free(text);
}

void report_always(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(1, format, list);
    va_end(list);
}

void report_output_failed(const struct cli_args *args, const char *more)
{
    const char *reason = strerror(errno);

    if (!args->quiet)
        report_always("cannot write to standard output: %s%s%s", reason, more ? ": " : "",
                      more ? more : "");
}

void report_say(const struct cli_args *args, const char *format, ...)
{
    va_list list;

    if (args->quiet || args->json)
        return;
    va_start(list, format);
    say(1, format, list);
    va_end(list);
}

void report_log(const struct cli_args *args, const char *format, ...)
{
    va_list list;

    if (args->quiet || !args->verbose)
        return;
    va_start(list, format);
    say(0, format, list);
    va_end(list);
}

void report_detail(const struct cli_args *args, const char *format, ...)
{
    va_list list;

    if (args->quiet || !args->verbose)
        return;
    va_start(list, format);
    say(1, format, list);
    va_end(list);
}

/* ---- nodes --------------------------------------------------------------- */

static int is_answer(redlock_vote vote)
{
    return vote == REDLOCK_VOTE_OURS || vote == REDLOCK_VOTE_FREE || vote == REDLOCK_VOTE_FOREIGN;
}

static size_t count_answers(const struct session *session)
{
    size_t answers = 0;

    for (size_t i = 0; i < session->node_count; i++)
        answers += (size_t)is_answer(session->results[i].vote);
    return answers;
}

size_t report_barred(const redlock_node_result *results, size_t count)
{
    size_t barred = 0;

    for (size_t i = 0; i < count; i++)
        barred += results[i].vote == REDLOCK_VOTE_BARRED;
    return barred;
}

/* "silent", "down, connection refused". A primary's own words may hold anything. */
static const char *describe(const redlock_node_result *result, char text[TEXT_QUOTED_LEN + 32])
{
    char quoted[TEXT_QUOTED_LEN];
    const char *vote = redlock_vote_name(result->vote);

    if (result->text[0] == '\0')
        return vote;
    text_quote(result->text, strlen(result->text), quoted);
    quoted[strlen(quoted) - 1] = '\0';
    snprintf(text, TEXT_QUOTED_LEN + 32, "%s, %s", vote, quoted + 1);
    return text;
}

static void say_nodes(const struct session *session,
                      void (*print)(const struct cli_args *, const char *, ...))
{
    char text[TEXT_QUOTED_LEN + 32];

    for (size_t i = 0; i < session->node_count; i++) {
        const redlock_node_result *result = &session->results[i];

        if (result->address[0] == '\0')
            continue;
        if (result->elapsed_us >= 0)
            print(session->args, "  %s: %s (%" PRId64 ".%03" PRId64 " ms)", result->address,
                  describe(result, text), result->elapsed_us / 1000, result->elapsed_us % 1000);
        else
            print(session->args, "  %s: %s", result->address, describe(result, text));
    }
}

void report_votes(const struct session *session)
{
    say_nodes(session, report_detail);
}

void report_summary(const redlock_node_result *results, size_t count, char *text, size_t size)
{
    char reason[TEXT_QUOTED_LEN + 32];
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        if (results[i].vote != REDLOCK_VOTE_OURS && results[i].vote != REDLOCK_VOTE_NONE)
            used += (size_t)snprintf(text + used, size - used, "%s%s %s", used ? "; " : "",
                                     results[i].address, describe(&results[i], reason));
}

/* ---- results ------------------------------------------------------------- */

static void say_no_quorum(const struct session *session, const char *key)
{
    size_t barred = report_barred(session->results, session->node_count);
    size_t quorum = members_quorum(session);
    char more[80] = "", left[DURATION_TEXT_LEN];
    struct members members;
    int64_t ms;

    if (barred > 0)
        snprintf(more, sizeof more, ", the votes of %zu do not count", barred);
    report_say(session->args,
               "no quorum for %s: %zu of %zu primaries gave an answer%s, %zu are needed", key,
               count_answers(session), session->node_count, more, quorum);
    say_nodes(session, report_say);
    members_read(session, &members);
    ms = barred > 0 ? members_wait_ms(&members, quorum) : -1;
    if (ms > 0)
        report_say(session->args, "enough of them count in %s, if nothing else happens",
                   duration_text(ms, left));
}

static void say_misconfigured(const struct session *session, const char *key)
{
    report_say(session->args, "%s: %s", key, redlock_strerror(REDLOCK_ERR_MISCONFIGURED));
    say_nodes(session, report_say);
}

void report_failure(const struct session *session, int rc)
{
    const struct cli_args *args = session->args;
    char key[TEXT_QUOTED_LEN], duration[DURATION_TEXT_LEN];

    text_quote(args->key, session->key_len, key);
    switch (rc) {
    case REDLOCK_BUSY:
    case REDLOCK_WAIT_DEADLINE:
        if (session->nested)
            report_say(args, "an outer 'redlock run' already holds %s; this would wait for ever",
                       key);
        else if (args->wait_ms > 0)
            report_say(args, "%s is still held by somebody else after %s", key,
                       duration_text(args->wait_ms, duration));
        else
            report_say(args, "%s is held by somebody else", key);
        report_votes(session);
        break;
    case REDLOCK_NO_QUORUM:
        say_no_quorum(session, key);
        break;
    case REDLOCK_EXPIRED:
        if (args->command == COMMAND_EXTEND || args->command == COMMAND_RELEASE)
            report_say(args, "the lease on %s has expired", key);
        else
            report_say(args, "the primaries answered too late for %s: nothing is left of its ttl",
                       key);
        say_nodes(session, report_say);
        break;
    case REDLOCK_LOST:
        report_say(args, "the lock %s is lost: removed, or another owner's", key);
        say_nodes(session, report_say);
        break;
    case REDLOCK_ERR_MISCONFIGURED:
        say_misconfigured(session, key);
        break;
    case REDLOCK_ERR_TTL: /* all else about a ttl is found before primaries are asked */
        report_always("%s: the ttl, %s, is longer than these primaries are marked for: use a "
                      "shorter --ttl and renew it (run renews by itself), or mark them for more "
                      "with 'redlock init --max-ttl', see redlock(1)",
                      key, duration_text(args->ttl_ms, duration));
        break;
    case REDLOCK_CANCELLED:
        break;
    default:
        if (session_status(session, rc) == CLI_USAGE) /* also with --quiet */
            report_always("%s: %s", key, redlock_strerror(rc));
        else
            report_say(args, "%s: %s", key, redlock_strerror(rc));
        break;
    }
}

/* ---- JSON ---------------------------------------------------------------- */

void report_json_key(struct json *json, const struct session *session)
{
    if (session->args->key)
        json_bytes(json, "key", session->args->key, session->key_len);
}

void report_json_nodes(struct json *json, const redlock_node_result *results, size_t count)
{
    json_begin_array(json, "nodes");
    for (size_t i = 0; i < count; i++) {
        if (results[i].address[0] == '\0')
            continue;
        json_begin_object(json);
        json_text(json, "address", results[i].address);
        json_text(json, "vote", redlock_vote_name(results[i].vote));
        if (results[i].elapsed_us >= 0)
            json_integer(json, "elapsed_us", results[i].elapsed_us);
        json_text(json, "text", results[i].text);
        json_end_object(json);
    }
    json_end_array(json);
}
