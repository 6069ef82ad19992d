/*
 * show: who holds a lock, and which primaries' votes count.
 *
 * Nothing is written to the primaries but markers of those that count again, as by any client; with
 * --sample there is also a lock on a key of its own, since the library looks at the primaries'
 * clocks while a lock is held.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "commands.h"
#include "duration.h"
#include "members.h"
#include "report.h"
#include "signals.h"
#include "status.h"

#define OWNER_SHOWN 8 /* characters: enough to compare, too few to release with */
#define SAMPLE_TTL_MS 10000
#define SAMPLE_TTL_LEAST_MS 20

static const int holder_statuses[] = {CLI_NO_QUORUM, CLI_FREE, CLI_OK};

/* ---- --sample -------------------------------------------------------------- */

/* Takes a lock nobody else asks for; where the primaries allow a short ttl only, with that. */
static int hold_something(struct session *session, redlock_lock **lock)
{
    const struct cli_args *args = session->args;
    redlock_lock_options options;
    char key[REDLOCK_MAX_KEY_LEN + 64];
    int length =
        snprintf(key, sizeof key, "%.*s%ssample-%ld-%" PRId64, REDLOCK_MAX_KEY_LEN / 2,
                 args->key ? args->key : "", args->key ? "." : "", (long)getpid(), clock_now_ns());
    int rc;

    session_lock_options(session, &options);
    options.renew = 1;
    options.ttl_ms = SAMPLE_TTL_MS;
    do {
        rc = redlock_acquire(session->client, key, (size_t)length, &options, lock);
        options.ttl_ms /= 2;
    } while (rc == REDLOCK_ERR_TTL && options.ttl_ms >= SAMPLE_TTL_LEAST_MS);
    return rc;
}

/* Returns CLI_CONTINUE, or an exit status after a signal. */
static int sample(struct session *session)
{
    struct signals signals;
    struct notes notes;
    redlock_lock *lock = NULL;
    int rc, number = 0;

    if (notes_open(&notes) != 0) {
        report_say(session->args, "out of descriptors");
        return CLI_INTERNAL;
    }
    signals_save(&signals);
    signals_catch(&signals, &notes);
    rc = hold_something(session, &lock);
    if (rc == REDLOCK_OK) {
        number = session_sleep(&notes, clock_now_ns() + clock_ms_to_ns(session->args->sample_ms));
        redlock_release(lock);
    } else {
        report_say(session->args,
                   "clocks are sampled while a lock is held, and none could be had: %s",
                   redlock_strerror(rc));
    }
    signals_restore(&signals);
    notes_close(&notes);
    return number == 0 ? CLI_CONTINUE : CLI_SIGNAL_BASE + number;
}

/* ---- who holds it ------------------------------------------------------------ */

static void print_holding(const redlock_node_inspection *node)
{
    char left[DURATION_TEXT_LEN], text[TEXT_QUOTED_LEN];

    printf("  %s: ", node->result.address);
    if (node->result.vote == REDLOCK_VOTE_FOREIGN && node->remaining_ms >= 0)
        printf("held, %.*s..., %s left\n", OWNER_SHOWN, node->owner,
               duration_text(node->remaining_ms, left));
    else if (node->result.vote == REDLOCK_VOTE_FOREIGN)
        printf("held, %.*s..., without an end\n", OWNER_SHOWN, node->owner);
    else if (node->result.text[0] != '\0')
        printf("%s, %s\n", redlock_vote_name(node->result.vote),
               text_quote(node->result.text, strlen(node->result.text), text));
    else
        printf("%s\n", redlock_vote_name(node->result.vote));
}

static void print_holder(const struct session *session, const redlock_inspection *found,
                         const redlock_node_inspection *nodes, const struct members *members)
{
    char key[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];

    text_quote(session->args->key, session->key_len, key);
    if (found->holder == REDLOCK_HOLDER_UNKNOWN)
        printf("%s: unknown, too few primaries answer\n", key);
    else if (found->holder == REDLOCK_HOLDER_NONE)
        printf("%s: free\n", key);
    else if (found->remaining_ms >= 0)
        printf("%s: held by %.*s... on %u of %zu, %s left\n", key, OWNER_SHOWN, found->owner,
               (unsigned)found->votes, session->node_count,
               duration_text(found->remaining_ms, left));
    else
        printf("%s: held by %.*s... on %u of %zu, without an end\n", key, OWNER_SHOWN, found->owner,
               (unsigned)found->votes, session->node_count);
    for (size_t i = 0; i < session->node_count; i++) {
        print_holding(&nodes[i]);
        members_print(stdout, session->args, &members->nodes[i]);
    }
}

static void put_owner(struct json *json, const char *owner, int64_t remaining_ms)
{
    char cut[OWNER_SHOWN + 1];

    snprintf(cut, sizeof cut, "%.*s", OWNER_SHOWN, owner);
    json_text(json, "owner", cut);
    json_integer(json, "remaining_ms", remaining_ms);
}

static int put_holder(const struct session *session, const redlock_inspection *found,
                      const redlock_node_inspection *nodes, const struct members *members)
{
    struct json json;

    json_begin(&json);
    json_text(&json, "command", session->args->name);
    report_json_key(&json, session);
    json_text(&json, "holder", report_holder_name(found->holder));
    json_integer(&json, "status", holder_statuses[found->holder]);
    json_integer(&json, "votes", found->votes);
    if (found->holder == REDLOCK_HOLDER_ONE)
        put_owner(&json, found->owner, found->remaining_ms);
    json_begin_array(&json, "nodes");
    for (size_t i = 0; i < session->node_count; i++) {
        json_begin_object(&json);
        json_text(&json, "address", nodes[i].result.address);
        json_text(&json, "vote", redlock_vote_name(nodes[i].result.vote));
        if (nodes[i].result.vote == REDLOCK_VOTE_FOREIGN)
            put_owner(&json, nodes[i].owner, nodes[i].remaining_ms);
        json_text(&json, "text", nodes[i].result.text);
        members_json(&json, &members->nodes[i]);
        json_end_object(&json);
    }
    json_end_array(&json);
    return json_end(&json, STDOUT_FILENO);
}

static int show_key(struct session *session)
{
    const struct cli_args *args = session->args;
    redlock_inspection found;
    redlock_node_inspection nodes[REDLOCK_MAX_NODES];
    struct members members;
    int rc;

    memset(&found, 0, sizeof found);
    memset(nodes, 0, sizeof nodes);
    rc = redlock_inspect(session->client, args->key, session->key_len, &found, nodes,
                         session->node_count);
    if (rc != REDLOCK_OK)
        return command_fail(session, rc);
    if (args->json || !args->quiet)
        members_wait(session, &members);
    if (!args->json && !args->quiet)
        print_holder(session, &found, nodes, &members);
    if (args->json && put_holder(session, &found, nodes, &members) != 0) {
        report_output_failed(args, NULL);
        return CLI_INTERNAL;
    }
    return holder_statuses[found.holder];
}

/* ---- the primaries alone ----------------------------------------------------- */

static void print_members(const struct session *session, const struct members *members)
{
    char text[TEXT_QUOTED_LEN], left[DURATION_TEXT_LEN];
    int64_t ms = members_wait_ms(members, members_quorum(session));

    printf("%zu of %zu primaries count, %zu are needed", members_counting(members), members->count,
           members_quorum(session));
    if (members_misfit(members))
        printf("; they do not fit together");
    else if (ms > 0)
        printf("; enough in %s", duration_text(ms, left));
    putchar('\n');
    for (size_t i = 0; i < members->count; i++) {
        const redlock_node_health *node = &members->nodes[i];

        if (node->state == REDLOCK_NODE_READY)
            printf("  %s: up\n", node->address);
        else
            printf("  %s: down, %s\n", node->address,
                   node->text[0] ? text_quote(node->text, strlen(node->text), text)
                                 : "no connection in time");
        members_print(stdout, session->args, node);
    }
}

static int put_members(const struct session *session, const struct members *members, int status)
{
    struct json json;

    json_begin(&json);
    json_text(&json, "command", session->args->name);
    json_integer(&json, "status", status);
    json_integer(&json, "counting", (int64_t)members_counting(members));
    json_integer(&json, "needed", (int64_t)members_quorum(session));
    json_begin_array(&json, "nodes");
    for (size_t i = 0; i < members->count; i++) {
        json_begin_object(&json);
        json_text(&json, "address", members->nodes[i].address);
        json_text(&json, "text", members->nodes[i].text);
        members_json(&json, &members->nodes[i]);
        json_end_object(&json);
    }
    json_end_array(&json);
    return json_end(&json, STDOUT_FILENO);
}

static int show_members(const struct session *session)
{
    const struct cli_args *args = session->args;
    struct members members;
    int status = CLI_OK;

    members_wait(session, &members);
    if (members_misfit(&members))
        status = CLI_MISCONFIGURED;
    else if (members_counting(&members) < members_quorum(session))
        status = CLI_NO_QUORUM;
    if (!args->json && !args->quiet)
        print_members(session, &members);
    if (args->json && put_members(session, &members, status) != 0) {
        report_output_failed(args, NULL);
        return CLI_INTERNAL;
    }
    return status;
}

int command_show(const struct cli_args *args)
{
    struct session session;
    int status = session_open(&session, args);

    if (status == CLI_CONTINUE && args->sample_ms > 0)
        status = sample(&session);
    if (status == CLI_CONTINUE)
        status = args->key ? show_key(&session) : show_members(&session);
    session_close(&session);
    return status;
}
