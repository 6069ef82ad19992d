/*
 * See facts.h. Replies come from servers of many versions and from proxies in front of them: a
 * field that is missing or can't be read is a refusal, never a guess.
 */
#include "facts.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SECONDS INT64_C(8000000000) /* year 2223 */

enum redlock__fact redlock__fact_of(enum redlock__command command)
{
    switch (command) {
    case REDLOCK__CMD_INFO_SERVER:
        return REDLOCK__FACT_SERVER;
    case REDLOCK__CMD_INFO_REPLICATION:
        return REDLOCK__FACT_REPLICATION;
    case REDLOCK__CMD_SETTINGS:
        return REDLOCK__FACT_SETTINGS;
    case REDLOCK__CMD_MARKER:
    case REDLOCK__CMD_MARK:
        return REDLOCK__FACT_MARKER;
    case REDLOCK__CMD_SEEN:
        return REDLOCK__FACT_SEEN;
    case REDLOCK__CMD_TIME:
        return REDLOCK__FACT_CLOCK;
    case REDLOCK__CMD_FLOOR:
    case REDLOCK__CMD_RECOVER:
        return REDLOCK__FACT_FLOOR;
    case REDLOCK__CMD_MULTI:
        return REDLOCK__FACT_MULTI;
    case REDLOCK__CMD_AUTH:
    case REDLOCK__CMD_SELECT:
    case REDLOCK__CMD_SETNAME:
    case REDLOCK__CMD_SET:
    case REDLOCK__CMD_EXTEND:
    case REDLOCK__CMD_RELEASE:
    case REDLOCK__CMD_PTTL:
    case REDLOCK__CMD_HINT:
    case REDLOCK__CMD_GET:
    case REDLOCK__CMD_EXTEND_NATIVE:
    case REDLOCK__CMD_RELEASE_NATIVE:
    case REDLOCK__CMD_OWNER:
    case REDLOCK__CMD_GRANT:
    case REDLOCK__CMD_SETTLE:
    case REDLOCK__CMD_WAITING:
    case REDLOCK__CMD_BLOCK:
    case REDLOCK__CMD_PUSH:
    case REDLOCK__CMD_PUSHED:
    case REDLOCK__CMD_PROBE:
    case REDLOCK__CMD_REPLICAS:
        break;
    }
    return REDLOCK__FACTS;
}

/* ---- reading ------------------------------------------------------------ */

static bool is_string(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STRING && reply->str != NULL &&
           strlen(reply->str) == reply->len;
}

/* A whole number from least to most, up to `end`. */
static bool read_number(const char *text, char end, int64_t least, int64_t most, int64_t *number,
                        const char **rest)
{
    char *stop;

    *number = strtoll(text, &stop, 10);
    if (rest != NULL)
        *rest = stop;
    return stop != text && *stop == end && *number >= least && *number <= most;
}

/* The value of a line "name:value" of INFO, up to its end; NULL: none. */
static const char *info_line(const redisReply *reply, const char *name)
{
    size_t len = strlen(name);

    for (const char *line = reply->str; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            return line + len + 1;
    }
    return NULL;
}

static bool info_number(const redisReply *reply, const char *name, int64_t *number)
{
    const char *text = info_line(reply, name);
    char *end;

    if (text == NULL)
        return false;
    *number = strtoll(text, &end, 10);
    return end != text && (*end == '\r' || *end == '\n' || *end == '\0');
}

/* "8.4.1" as 804; 0: there is no such line, or no such number. */
static long info_version(const redisReply *reply, const char *name)
{
    const char *text = info_line(reply, name);
    char *end;
    long major, minor;

    if (text == NULL)
        return 0;
    major = strtol(text, &end, 10);
    if (end == text || *end != '.' || major < 0 || major > 1000)
        return 0;
    text = end + 1;
    minor = strtol(text, &end, 10);
    return end == text || minor < 0 || minor > 99 ? 0 : 100 * major + minor;
}

/* A line "product_version:" of a product that is neither: it speaks of a Redis it is not. */
static bool is_another_product(const redisReply *reply)
{
    static const char ending[] = "_version";

    for (const char *line = reply->str; line != NULL; line = strchr(line, '\n')) {
        size_t len = strcspn(line += *line == '\n', ":\r\n");
        size_t least = sizeof ending - 1;

        if (line[len] == ':' && len > least && strncmp(line + len - least, ending, least) == 0 &&
            strncmp(line, "redis_", 6) != 0 && strncmp(line, "gcc_", 4) != 0)
            return true;
    }
    return false;
}

/* Valkey tells both versions, and means its own by its own. */
static uint32_t native_commands(const redisReply *reply)
{
    long valkey = info_version(reply, "valkey_version");
    long redis = info_version(reply, "redis_version");

    if (info_line(reply, "valkey_version") != NULL)
        return (valkey >= 801 ? REDLOCK__CAN_SET_IFEQ : 0u) |
               (valkey >= 900 ? REDLOCK__CAN_DELIFEQ : 0u) |
               (valkey >= 902 ? REDLOCK__CAN_DELEX : 0u);
    if (redis < 804 || is_another_product(reply))
        return 0;
    return REDLOCK__CAN_SET_IFEQ | REDLOCK__CAN_DELEX;
}

static bool take_server(struct redlock__facts *facts, const redisReply *reply, int64_t read_ns)
{
    const char *run_id = is_string(reply) ? info_line(reply, "run_id") : NULL;
    size_t len = run_id == NULL ? 0 : strspn(run_id, "0123456789abcdefABCDEF");

    if (len == 0 || len >= sizeof facts->run_id ||
        !info_number(reply, "uptime_in_seconds", &facts->uptime_s))
        return false;
    if (facts->uptime_s < 0) /* its clock was set back since it started */
        facts->uptime_s = 0;
    if (facts->uptime_s > MAX_SECONDS)
        facts->uptime_s = MAX_SECONDS;
    facts->native = native_commands(reply);
    memcpy(facts->run_id, run_id, len);
    facts->run_id[len] = '\0';
    facts->uptime_read_ns = read_ns;
    return true;
}

static bool take_replication(struct redlock__facts *facts, const redisReply *reply)
{
    const char *role = is_string(reply) ? info_line(reply, "role") : NULL;

    if (role == NULL || !info_number(reply, "connected_slaves", &facts->replicas) ||
        !info_number(reply, "second_repl_offset", &facts->second_offset))
        return false;
    facts->replica = strncmp(role, "master", 6) != 0;
    return true;
}

/* NULL: it isn't there. */
static const char *setting(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        if (is_string(reply->element[i]) && is_string(reply->element[i + 1]) &&
            strcmp(reply->element[i]->str, name) == 0)
            return reply->element[i + 1]->str;
    return NULL;
}

static bool setting_is(const redisReply *reply, const char *name, const char *value)
{
    const char *text = setting(reply, name);

    return text != NULL && strcmp(text, value) == 0;
}

/* Only where there is a limit at all. */
static void take_policy(struct redlock__facts *facts, const redisReply *reply)
{
    const char *policy = setting(reply, "maxmemory-policy");
    bool limited = setting(reply, "maxmemory") != NULL && !setting_is(reply, "maxmemory", "0");

    facts->policy[0] = '\0';
    if (limited && policy != NULL && strcmp(policy, "noeviction") != 0)
        redlock__printable(facts->policy, sizeof facts->policy, policy, strlen(policy));
}

static bool take_settings(struct redlock__facts *facts, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return false;
    facts->durable = setting_is(reply, "appendonly", "yes") &&
                     setting_is(reply, "appendfsync", "always") &&
                     setting_is(reply, "no-appendfsync-on-rewrite", "no");
    take_policy(facts, reply);
    return true;
}

static bool take_marker(struct redlock__facts *facts, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_NIL && !is_string(reply))
        return false;
    facts->marked = is_string(reply) && reply->str[0] != '\0';
    facts->marker_text[0] = '\0';
    if (facts->marked)
        (void)snprintf(facts->marker_text, sizeof facts->marker_text, "%s", reply->str);
    return true;
}

/* "since now", both in microseconds of the primary's clock. */
static bool take_seen(struct redlock__facts *facts, const redisReply *reply, int64_t asked_ns)
{
    const char *rest;
    int64_t since, now, most = MAX_SECONDS * 1000000;

    if (!is_string(reply) || !read_number(reply->str, ' ', 1, most, &since, &rest) ||
        (size_t)(rest - reply->str) >= sizeof facts->seen ||
        !read_number(rest + 1, '\0', 1, most, &now, NULL))
        return false;
    memcpy(facts->seen, reply->str, (size_t)(rest - reply->str));
    facts->seen[rest - reply->str] = '\0';
    facts->seen_age_us = now - since;
    facts->seen_asked_ns = asked_ns;
    return true;
}

/* The base and its score. Several bases are nobody's we know. */
static bool take_floor(struct redlock__facts *facts, const redisReply *reply, int64_t asked_ns)
{
    facts->floor = -1;
    facts->floor_asked_ns = asked_ns;
    facts->base_text[0] = '\0';
    if (reply->type != REDIS_REPLY_ARRAY || (reply->elements != 0 && reply->elements != 2))
        return false;
    if (reply->elements == 0)
        return true;
    if (!is_string(reply->element[0]) || !is_string(reply->element[1]) ||
        !redlock__fence_parse(reply->element[1]->str, &facts->floor))
        return false;
    (void)snprintf(facts->base_text, sizeof facts->base_text, "%s", reply->element[0]->str);
    return true;
}

/* Two strings: seconds and microseconds. */
static bool take_time(struct redlock__facts *facts, const redisReply *reply, int64_t asked_ns,
                      int64_t read_ns)
{
    int64_t seconds, micros;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || !is_string(reply->element[0]) ||
        !is_string(reply->element[1]) ||
        !read_number(reply->element[0]->str, '\0', 0, MAX_SECONDS, &seconds, NULL) ||
        !read_number(reply->element[1]->str, '\0', 0, 999999, &micros, NULL))
        return false;
    facts->sample = (struct redlock__sample){
        .server_us = seconds * 1000000 + micros, .asked_ns = asked_ns, .read_ns = read_ns};
    return true;
}

static bool take(struct redlock__facts *facts, enum redlock__fact fact, const redisReply *reply,
                 int64_t asked_ns, int64_t read_ns)
{
    switch (fact) {
    case REDLOCK__FACT_SERVER:
        return take_server(facts, reply, read_ns);
    case REDLOCK__FACT_REPLICATION:
        return take_replication(facts, reply);
    case REDLOCK__FACT_SETTINGS:
        return take_settings(facts, reply);
    case REDLOCK__FACT_MARKER:
        return take_marker(facts, reply);
    case REDLOCK__FACT_SEEN:
        return take_seen(facts, reply, asked_ns);
    case REDLOCK__FACT_CLOCK:
        return take_time(facts, reply, asked_ns, read_ns);
    case REDLOCK__FACT_FLOOR:
        return take_floor(facts, reply, asked_ns);
    case REDLOCK__FACT_MULTI:
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 0;
    case REDLOCK__FACTS:
        break;
    }
    return false;
}

/* Of EXEC. What was queued may be refused for a while alone. */
static bool refuses_transactions(const char *text)
{
    static const char aborted[] = "EXECABORT Transaction discarded because of: ";

    if (strncmp(text, aborted, sizeof aborted - 1) == 0)
        text += sizeof aborted - 1;
    return redlock__is_refusal(text) || strncmp(text, "ERR EXEC without MULTI", 22) == 0;
}

static void note_refusal(struct redlock__facts *facts, enum redlock__command command,
                         const redisReply *reply)
{
    char text[REDLOCK_TEXT_LEN];

    if (reply->type != REDIS_REPLY_ERROR || reply->str == NULL)
        return;
    redlock__printable(text, sizeof text, reply->str, reply->len);
    if (command == REDLOCK__CMD_GRANT && refuses_transactions(text))
        facts->given[REDLOCK__FACT_MULTI] = false;
    if (!redlock__is_refusal(text))
        return;
    if (command == REDLOCK__CMD_EXTEND || command == REDLOCK__CMD_RELEASE)
        facts->refused |= REDLOCK__CAN_EVAL;
    else if (command == REDLOCK__CMD_EXTEND_NATIVE)
        facts->refused |= REDLOCK__CAN_SET_IFEQ;
    else if (command == REDLOCK__CMD_RELEASE_NATIVE)
        facts->refused |= REDLOCK__CAN_DELIFEQ | REDLOCK__CAN_DELEX;
}

void redlock__facts_take(struct redlock__facts *facts, enum redlock__command command,
                         const struct redisReply *reply, int64_t asked_ns, int64_t read_ns)
{
    enum redlock__fact fact = redlock__fact_of(command);

    if (fact >= REDLOCK__FACTS) {
        note_refusal(facts, command, reply);
        return;
    }
    if (command == REDLOCK__CMD_MARK && reply->type == REDIS_REPLY_ERROR) {
        facts->mark_refused = true; /* the marker is what it was */
        return;
    }
    if (command == REDLOCK__CMD_RECOVER && reply->type == REDIS_REPLY_ERROR) {
        facts->recover_refused = true;
        return;
    }
    facts->given[fact] = take(facts, fact, reply, asked_ns, read_ns);
    facts->refusal[fact][0] = '\0';
    if (facts->given[fact])
        return;
    if (reply->type == REDIS_REPLY_ERROR && reply->str != NULL)
        redlock__printable(facts->refusal[fact], sizeof facts->refusal[fact], reply->str,
                           reply->len);
    else
        (void)snprintf(facts->refusal[fact], sizeof facts->refusal[fact],
                       "an answer that can't be understood");
}
