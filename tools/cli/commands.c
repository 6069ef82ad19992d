/*
 * acquire, extend, release: one question to the primaries, one answer on standard output.
 *
 * A token is worth nothing to anybody if it cannot be printed, so acquire gives the lock back when
 * its output is closed or full, instead of leaving it locked for a ttl. With --json every command
 * prints exactly one object, whatever the result; without it, acquire and extend print the token
 * and nothing else, but for a second line of acquire --fence: the fencing token.
 */
#include "commands.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "duration.h"
#include "report.h"
#include "signals.h"
#include "status.h"

#define SETTLE_MS 20 /* for answers after the verdict */

/* What an object says about a lock that was got. */
struct grant {
    char token[REDLOCK_TOKEN_LEN];
    int64_t fence; /* 0: none was asked for */
    int64_t validity_ms;
    int64_t deadline_ns;
};

static int print_object(const struct session *session, int rc, int status,
                        const struct grant *grant)
{
    struct json json;

    json_begin(&json);
    json_text(&json, "command", session->args->name);
    report_json_key(&json, session);
    json_text(&json, "result", report_result_name(rc));
    json_text(&json, "text", redlock_strerror(rc));
    json_integer(&json, "status", status);
    if (grant) {
        json_text(&json, "token", grant->token);
        if (grant->fence > 0)
            json_integer(&json, "fence", grant->fence);
        json_integer(&json, "ttl_ms", session->args->ttl_ms);
        json_integer(&json, "validity_ms", grant->validity_ms);
        json_integer(&json, "deadline_ns", grant->deadline_ns);
        json_text(&json, "clock", clock_name());
    }
    report_json_nodes(&json, session->results, session->node_count);
    return json_end(&json, STDOUT_FILENO);
}

static int print_grant(const struct session *session, const struct grant *grant)
{
    char lines[REDLOCK_TOKEN_LEN + 24];
    int length;

    if (session->args->json)
        return print_object(session, REDLOCK_OK, CLI_OK, grant);
    length = snprintf(lines, sizeof lines, "%s\n", grant->token);
    if (grant->fence > 0)
        length +=
            snprintf(lines + length, sizeof lines - (size_t)length, "%" PRId64 "\n", grant->fence);
    return text_write(STDOUT_FILENO, lines, (size_t)length);
}

int command_fail(const struct session *session, int rc)
{
    int status = session_status(session, rc);

    if (session->args->json)
        print_object(session, rc, status, NULL);
    else
        report_failure(session, rc);
    return status;
}

static int read_grant(const redlock_lock *lock, struct grant *grant)
{
    grant->validity_ms = redlock_remaining_ms(lock);
    grant->deadline_ns = redlock_deadline_ns(lock);
    grant->fence = redlock_fence(lock);
    if (grant->fence < 0) /* of a plain lock, or one handed on */
        grant->fence = 0;
    return redlock_token(lock, grant->token, sizeof grant->token);
}

static void say_grant(const struct session *session, const char *what, const struct grant *grant)
{
    char key[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];

    report_detail(session->args, "%s %s, valid for %s",
                  text_quote(session->args->key, session->key_len, key), what,
                  duration_text(grant->validity_ms, left));
    report_votes(session);
}

/* Gives those primaries a moment that have not answered when the verdict was there. */
static void settle(const struct session *session, const redlock_lock *lock)
{
    redlock_node_result results[REDLOCK_MAX_NODES];

    for (int ms = 0; ms < SETTLE_MS; ms++) {
        size_t owed = 0;

        memset(results, 0, sizeof results);
        redlock_node_results(lock, results, REDLOCK_MAX_NODES);
        for (size_t i = 0; i < session->node_count; i++)
            owed += results[i].vote == REDLOCK_VOTE_NONE;
        if (owed == 0)
            return;
        poll(NULL, 0, 1);
    }
}

/* A verdict comes with the first quorum of answers, and only those primaries are in the token: one
 * of them down, and nobody could extend the lock, though a majority has its key. The next round
 * counts those that answered later, too. If that round has no quorum, the lock is as good as it was
 * before. */
static int widen(const struct session *session, redlock_lock *lock)
{
    int rc;

    settle(session, lock);
    rc = redlock_extend(lock, 0);
    if (rc == REDLOCK_OK)
        settle(session, lock);
    return rc == REDLOCK_NO_QUORUM ? REDLOCK_OK : rc;
}

/* ---- acquire ------------------------------------------------------------- */

static int hand_out(struct session *session, redlock_lock *lock)
{
    struct grant grant;
    int rc = widen(session, lock);

    if (rc == REDLOCK_OK)
        rc = read_grant(lock, &grant);
    if (rc != REDLOCK_OK) {
        int status = command_fail(session, rc);

        redlock_release(lock);
        return status;
    }
    if (print_grant(session, &grant) != 0) {
        report_output_failed(session->args, "the lock is released again");
        redlock_release(lock);
        return CLI_INTERNAL;
    }
    say_grant(session, "acquired", &grant);
    rc = redlock_detach(lock, grant.token, sizeof grant.token);
    if (rc != REDLOCK_OK) {
        report_detail(session->args, "the lock ended meanwhile: %s", redlock_strerror(rc));
        redlock_release(lock);
    }
    return session_status(session, rc);
}

int command_acquire(const struct cli_args *args)
{
    struct session session;
    struct signals signals;
    struct notes notes;
    redlock_lock_options options;
    redlock_lock *lock = NULL;
    int number = 0, rc, status;

    if (notes_open(&notes) != 0) {
        report_say(args, "out of descriptors");
        return CLI_INTERNAL;
    }
    signals_save(&signals);
    signals_catch(&signals, &notes);
    status = session_open(&session, args);
    if (status != CLI_CONTINUE)
        goto out;
    session_lock_options(&session, &options);
    rc = session_acquire(&session, &options, &notes, &lock, &number);
    if (number != 0) {
        if (rc == REDLOCK_OK)
            redlock_release(lock);
        status = CLI_SIGNAL_BASE + number;
    } else if (rc == REDLOCK_OK) {
        status = hand_out(&session, lock);
    } else {
        status = command_fail(&session, rc);
    }
out:
    session_close(&session);
    notes_close(&notes);
    return status;
}

/* ---- extend, release ----------------------------------------------------- */

static int no_output(const struct cli_args *args)
{
    report_output_failed(args, NULL);
    return CLI_INTERNAL;
}

static int adopt(struct session *session, redlock_lock **lock)
{
    const struct cli_args *args = session->args;
    redlock_lock_options options;

    session_lock_options(session, &options);
    return redlock_adopt(session->client, args->key, session->key_len, args->token, &options, lock);
}

/* A lock that is gone is cleaned up. One that the primaries did not answer for keeps its keys and
 * its ttl. */
static int fail_extend(const struct session *session, redlock_lock *lock, int rc)
{
    char token[REDLOCK_TOKEN_LEN];
    int status = command_fail(session, rc);

    if (rc == REDLOCK_EXPIRED || rc == REDLOCK_LOST || redlock_detach(lock, token, sizeof token))
        redlock_release(lock);
    return status;
}

static int extend(struct session *session)
{
    struct grant grant;
    redlock_lock *lock;
    int rc = adopt(session, &lock);
    int status = CLI_OK;

    if (rc != REDLOCK_OK)
        return command_fail(session, rc);
    rc = redlock_extend(lock, session->args->ttl_ms);
    if (rc == REDLOCK_OK)
        rc = widen(session, lock);
    if (rc == REDLOCK_OK)
        rc = read_grant(lock, &grant);
    if (rc != REDLOCK_OK)
        return fail_extend(session, lock, rc);
    if (print_grant(session, &grant) != 0) {
        report_output_failed(session->args, "the token is lost");
        status = CLI_INTERNAL;
    }
    say_grant(session, "extended", &grant);
    rc = redlock_detach(lock, grant.token, sizeof grant.token);
    return rc == REDLOCK_OK ? status : fail_extend(session, lock, rc);
}

int command_extend(const struct cli_args *args)
{
    struct session session;
    int status = session_open(&session, args);

    if (status == CLI_CONTINUE)
        status = extend(&session);
    session_close(&session);
    return status;
}

int command_release(const struct cli_args *args)
{
    struct session session;
    redlock_lock *lock;
    int status = session_open(&session, args);
    int rc;

    if (status == CLI_CONTINUE) {
        rc = adopt(&session, &lock);
        if (rc == REDLOCK_OK)
            rc = redlock_release(lock);
        status = session_status(&session, rc);
        if (rc != REDLOCK_OK)
            status = command_fail(&session, rc);
        else if (args->json && print_object(&session, rc, status, NULL) != 0)
            status = no_output(args);
        if (rc == REDLOCK_OK)
            report_votes(&session);
    }
    session_close(&session);
    return status;
}
