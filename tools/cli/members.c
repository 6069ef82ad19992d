/*
 * What the library knows of each primary, for people and for programs.
 *
 * A primary that may have forgotten a lease has no vote for a while, so whoever looks at primaries
 * wants to know more than whether they answer. All of it is redlock_health()'s; nothing is asked
 * here. A client that has just begun knows nothing yet, so it is given the time to.
 */
#include "members.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "clock.h"
#include "duration.h"

#define ANSWER_MS 600 /* the longest node timeout there is without an option, and some more */
#define LOOK_MS 2
#define INDENT "      "

void members_read(const struct session *session, struct members *members)
{
    memset(members, 0, sizeof *members);
    members->count = redlock_health(session->client, members->nodes, REDLOCK_MAX_NODES);
}

/* Whether nothing is asked of it any more, or it cannot be asked. */
static int has_told(const redlock_node_health *node)
{
    return node->state == REDLOCK_NODE_READY ? node->pending == 0 : node->text[0] != '\0';
}

void members_wait(const struct session *session, struct members *members)
{
    int64_t answer_ms = ANSWER_MS, end_ns;

    if (session->args->node_timeout_ms > answer_ms)
        answer_ms = session->args->node_timeout_ms;
    end_ns = clock_now_ns() + clock_ms_to_ns(session->args->connect_timeout_ms + answer_ms);
    for (;;) {
        size_t told = 0;

        members_read(session, members);
        for (size_t i = 0; i < members->count; i++)
            told += (size_t)has_told(&members->nodes[i]);
        if (told == members->count || clock_now_ns() >= end_ns)
            return;
        poll(NULL, 0, LOOK_MS);
    }
}

/* ---- all of them ----------------------------------------------------------- */

size_t members_quorum(const struct session *session)
{
    redlock_fleet fleet = {.size = sizeof fleet};

    if (redlock_fleet_get(session->client, &fleet) == REDLOCK_OK)
        return fleet.quorum;
    return session->args->quorum ? (size_t)session->args->quorum : session->node_count / 2 + 1;
}

size_t members_counting(const struct members *members)
{
    size_t counting = 0;

    for (size_t i = 0; i < members->count; i++)
        counting += members->nodes[i].state == REDLOCK_NODE_READY && members->nodes[i].counts;
    return counting;
}

/* How many of those connected count in so many milliseconds. */
static size_t counting_in(const struct members *members, int64_t ms)
{
    size_t counting = 0;

    for (size_t i = 0; i < members->count; i++) {
        const redlock_node_health *node = &members->nodes[i];

        counting += node->state == REDLOCK_NODE_READY &&
                    (node->counts || (node->counts_in_ms >= 0 && node->counts_in_ms <= ms));
    }
    return counting;
}

int64_t members_wait_ms(const struct members *members, size_t quorum)
{
    int64_t least = -1;

    if (members_counting(members) >= quorum)
        return 0;
    for (size_t i = 0; i < members->count; i++) {
        int64_t ms = members->nodes[i].counts_in_ms;

        if (ms >= 0 && (least < 0 || ms < least) && counting_in(members, ms) >= quorum)
            least = ms;
    }
    return least;
}

static int is_misfit(const redlock_node_health *node)
{
    return node->state == REDLOCK_NODE_READY && node->kind >= REDLOCK_STANDING_REPLICA;
}

int members_misfit(const struct members *members)
{
    int misfits = 0;

    for (size_t i = 0; i < members->count; i++)
        misfits += is_misfit(&members->nodes[i]);
    return misfits > 0;
}

/* ---- one ------------------------------------------------------------------- */

/* "1.250 ms" of microseconds, without a sign. */
static const char *milliseconds(int64_t us, char text[DURATION_TEXT_LEN])
{
    us = us < 0 ? -us : us;
    snprintf(text, DURATION_TEXT_LEN, "%" PRId64 ".%03" PRId64 " ms", us / 1000, us % 1000);
    return text;
}

static void print_clock(FILE *stream, const redlock_node_health *node)
{
    char offset[DURATION_TEXT_LEN], bound[DURATION_TEXT_LEN], ago[DURATION_TEXT_LEN];

    if (node->offset_bound_us < 0) {
        fputs(INDENT "clock: never measured\n", stream);
        return;
    }
    fprintf(stream, INDENT "clock: %s %s, +-%s", milliseconds(node->offset_us, offset),
            node->offset_us < 0 ? "behind" : "ahead", milliseconds(node->offset_bound_us, bound));
    if (node->step_age_ms >= 0)
        fprintf(stream, "; stepped %s by %s, %s ago", node->step_us < 0 ? "back" : "forward",
                milliseconds(node->step_us, offset), duration_text(node->step_age_ms, ago));
    if (node->rate_bound_ppm >= 0)
        fprintf(stream, "; rate %+" PRId32 " ppm, +-%" PRId32, node->rate_ppm,
                node->rate_bound_ppm);
    else
        fputs("; rate not measured", stream);
    putc('\n', stream);
}

void members_print(FILE *stream, const struct cli_args *args, const redlock_node_health *node)
{
    char text[TEXT_QUOTED_LEN];

    if (node->state != REDLOCK_NODE_READY)
        return;
    text_quote(node->standing, strlen(node->standing),
               text); /* there may be a primary's words in it */
    text[strlen(text) - 1] = '\0';
    fprintf(stream, INDENT "%s: %s\n", node->counts ? "counts" : "does not count", text + 1);
    print_clock(stream, node);
    if (args->verbose)
        fprintf(stream, INDENT "run id: %s\n", node->run_id[0] ? node->run_id : "not known");
}

static const char *state_name(redlock_node_state state)
{
    switch (state) {
    case REDLOCK_NODE_READY:
        return "ready";
    case REDLOCK_NODE_CONNECTING:
        return "connecting";
    case REDLOCK_NODE_DOWN:
        break;
    }
    return "down";
}

void members_json(struct json *json, const redlock_node_health *node)
{
    json_text(json, "state", state_name(node->state));
    json_integer(json, "counts", node->state == REDLOCK_NODE_READY && node->counts);
    json_integer(json, "counts_in_ms", node->counts_in_ms);
    json_text(json, "standing", node->standing);
    json_text(json, "run_id", node->run_id);
    json_integer(json, "offset_us", node->offset_us);
    json_integer(json, "offset_bound_us", node->offset_bound_us);
    json_integer(json, "step_us", node->step_us);
    json_integer(json, "step_age_ms", node->step_age_ms);
    json_integer(json, "rate_ppm", node->rate_ppm);
    json_integer(json, "rate_bound_ppm", node->rate_bound_ppm);
}
