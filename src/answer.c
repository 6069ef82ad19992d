/*
 * What a primary's answers mean: see command.h.
 *
 * Each command has its rule in vote_of(). What the rule doesn't name is
 * an error: a vote is only ever made from a reply that this file expected. That covers
 * every error reply (MISCONF, OOM, LOADING and so on: their text is for people, the core
 * never looks into it), a reply of a wrong type and a value out of the script's range.
 */
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "fence.h"

void redlock__printable(char *to, size_t size, const char *from, size_t len)
{
    size_t n = 0;
    if (size == 0)
        return;
    for (; n < len && n < size - 1; n++)
        to[n] = from[n] >= ' ' && from[n] <= '~' ? from[n] : '?';
    to[n] = '\0';
}

void redlock__conceal(char *text, size_t size, const char *secret)
{
    char shown[REDLOCK_TEXT_LEN];
    if (secret == NULL || secret[0] == '\0')
        return;
    redlock__printable(shown, sizeof(shown), secret, strlen(secret));
    size_t len = strlen(shown);
    size_t text_len = strlen(text);
    for (size_t i = 0; i < text_len; i++) {
        size_t rest = text_len - i;
        bool cut_off = text_len == size - 1 && rest < len;
        if (strncmp(text + i, shown, cut_off ? rest : len) == 0) {
            snprintf(text + i, size - i, "...");
            return;
        }
    }
}

bool redlock__is_refusal(const char *text)
{
    static const char *const words[] = {"ERR unknown command", "ERR syntax error",
                                        "ERR The user executing the script"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return true;
    return strncmp(text, "NOPERM", 6) == 0 && strstr(text, " to run the ") != NULL;
}

static bool starts_with(const struct redisReply *reply, const char *prefix)
{
    size_t len = strlen(prefix);
    return reply->str != NULL && reply->len >= len && memcmp(reply->str, prefix, len) == 0;
}

/* Users without the right to name their connection may still lock, so most errors pass.
 * These do not: they say that no further command will do either. The last two come
 * unasked, as the first and last thing on a new connection. */
static bool refuses_all(const struct redisReply *reply)
{
    return starts_with(reply, "NOAUTH") || starts_with(reply, "LOADING") ||
           starts_with(reply, "DENIED") || starts_with(reply, "ERR max number of clients");
}

static redlock_vote if_ok(const struct redisReply *reply)
{
    bool ok =
        reply->type == REDIS_REPLY_STATUS && reply->len == 2 && memcmp(reply->str, "OK", 2) == 0;

    return ok ? REDLOCK_VOTE_OURS : REDLOCK_VOTE_ERROR;
}

/* Of a number: `votes` are for `first` and those behind it. */
static redlock_vote by_number(const struct redisReply *reply, const redlock_vote *votes,
                              unsigned long long count, long long first)
{
    unsigned long long i = (unsigned long long)reply->integer - (unsigned long long)first;

    return reply->type == REDIS_REPLY_INTEGER && i < count ? votes[i] : REDLOCK_VOTE_ERROR;
}

static redlock_vote by_grant(const struct redisReply *reply)
{
    bool fence = reply->integer > 0 && reply->integer <= REDLOCK__FENCE_MAX;

    if (reply->type != REDIS_REPLY_INTEGER)
        return REDLOCK_VOTE_ERROR;
    if (reply->integer == -1)
        return REDLOCK_VOTE_FOREIGN;
    return fence ? REDLOCK_VOTE_OURS : REDLOCK_VOTE_ERROR;
}

/* `empty` where the reply has the type `none`, `full` where it has the type `some`. */
static redlock_vote by_type(const struct redisReply *reply, int none, redlock_vote empty, int some,
                            redlock_vote full)
{
    if (reply->type == none)
        return empty;
    return reply->type == some ? full : REDLOCK_VOTE_ERROR;
}

#define BY_NUMBER(votes, first) by_number(reply, votes, sizeof(votes) / sizeof((votes)[0]), first)

static redlock_vote vote_of(enum redlock__command command, const struct redisReply *reply)
{
    static const redlock_vote release[] = {REDLOCK_VOTE_FOREIGN, REDLOCK_VOTE_FOREIGN,
                                           REDLOCK_VOTE_FREE,    REDLOCK_VOTE_OURS,
                                           REDLOCK_VOTE_OURS,    REDLOCK_VOTE_FREE};
    static const redlock_vote extend[] = {REDLOCK_VOTE_FOREIGN, REDLOCK_VOTE_FREE,
                                          REDLOCK_VOTE_OURS};
    static const redlock_vote settle[] = {REDLOCK_VOTE_FREE, REDLOCK_VOTE_FREE, REDLOCK_VOTE_OURS};
    static const redlock_vote native[] = {REDLOCK_VOTE_FREE, REDLOCK_VOTE_OURS};

    switch (command) {
    case REDLOCK__CMD_SET:
        return reply->type == REDIS_REPLY_NIL ? REDLOCK_VOTE_FOREIGN : if_ok(reply);
    case REDLOCK__CMD_RELEASE:
        return BY_NUMBER(release, -2);
    case REDLOCK__CMD_EXTEND:
        return BY_NUMBER(extend, -1);
    case REDLOCK__CMD_GRANT:
        return by_grant(reply);
    case REDLOCK__CMD_SETTLE:
        return BY_NUMBER(settle, -1);
    case REDLOCK__CMD_RELEASE_NATIVE:
        return BY_NUMBER(native, 0);
    case REDLOCK__CMD_PTTL:
    case REDLOCK__CMD_HINT:
    case REDLOCK__CMD_PROBE:
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer == -2)
            return REDLOCK_VOTE_FREE;
        return reply->type == REDIS_REPLY_INTEGER ? REDLOCK_VOTE_FOREIGN : REDLOCK_VOTE_ERROR;
    case REDLOCK__CMD_GET:
    case REDLOCK__CMD_OWNER:
    case REDLOCK__CMD_EXTEND_NATIVE:
        return by_type(reply, REDIS_REPLY_NIL, REDLOCK_VOTE_FREE, REDIS_REPLY_STRING,
                       REDLOCK_VOTE_FOREIGN);
    case REDLOCK__CMD_BLOCK:
        return by_type(reply, REDIS_REPLY_NIL, REDLOCK_VOTE_FREE, REDIS_REPLY_ARRAY,
                       REDLOCK_VOTE_OURS);
    case REDLOCK__CMD_PUSH:
    case REDLOCK__CMD_PUSHED:
    case REDLOCK__CMD_REPLICAS:
        return reply->type == REDIS_REPLY_INTEGER ? REDLOCK_VOTE_OURS : REDLOCK_VOTE_ERROR;
    case REDLOCK__CMD_AUTH:
    case REDLOCK__CMD_SELECT:
    case REDLOCK__CMD_WAITING:
        return if_ok(reply);
    case REDLOCK__CMD_SETNAME:
    case REDLOCK__CMD_INFO_SERVER:
    case REDLOCK__CMD_INFO_REPLICATION:
    case REDLOCK__CMD_SETTINGS:
    case REDLOCK__CMD_MARKER:
    case REDLOCK__CMD_TIME:
    case REDLOCK__CMD_SEEN:
    case REDLOCK__CMD_MARK:
    case REDLOCK__CMD_FLOOR:
    case REDLOCK__CMD_RECOVER:
    case REDLOCK__CMD_MULTI:
        if (reply->type != REDIS_REPLY_ERROR || !refuses_all(reply))
            return REDLOCK_VOTE_OURS;
        break;
    }
    return REDLOCK_VOTE_ERROR;
}

static void copy_text(struct redlock__answer *answer, const struct redisReply *reply)
{
    if (reply->str != NULL)
        redlock__printable(answer->text, sizeof(answer->text), reply->str, reply->len);
}

static const char *type_name(int type)
{
    switch (type) {
    case REDIS_REPLY_STRING:
        return "string";
    case REDIS_REPLY_ARRAY:
        return "array";
    case REDIS_REPLY_NIL:
        return "nil";
    default:
        return "unknown";
    }
}

static void describe_error(struct redlock__answer *answer, const struct redisReply *reply)
{
    char *text = answer->text;
    size_t size = sizeof(answer->text);
    char status[REDLOCK_TEXT_LEN / 2] = "";

    switch (reply->type) {
    case REDIS_REPLY_ERROR:
        copy_text(answer, reply);
        if (text[0] == '\0')
            snprintf(text, size, "error without a text");
        break;
    case REDIS_REPLY_STATUS:
        if (reply->str != NULL)
            redlock__printable(status, sizeof(status), reply->str, reply->len);
        snprintf(text, size, "unexpected reply status %s", status);
        break;
    case REDIS_REPLY_INTEGER:
        snprintf(text, size, "unexpected reply integer %lld", reply->integer);
        break;
    default:
        snprintf(text, size, "unexpected reply type %s", type_name(reply->type));
        break;
    }
}

void redlock__decode_plain_yes(enum redlock__command command, struct redlock__answer *answer)
{
    answer->vote = REDLOCK_VOTE_OURS;
    answer->value = 0;
    answer->waits =
        command == REDLOCK__CMD_RELEASE ? REDLOCK__WAITS_NOBODY : REDLOCK__WAITS_UNKNOWN;
    answer->behind = false;
    answer->text[0] = '\0';
}

static void forgot(struct redlock__answer *answer)
{
    answer->value = REDLOCK__GRANT_FORGOT;
    snprintf(answer->text, sizeof(answer->text), "it forgot its fencing numbers just now");
}

static void decode_error(enum redlock__command command, const struct redisReply *reply,
                         struct redlock__answer *answer)
{
    if (command != REDLOCK__CMD_GRANT || reply->type != REDIS_REPLY_INTEGER ||
        reply->integer != REDLOCK__GRANT_FORGOT) {
        describe_error(answer, reply);
        return;
    }
    forgot(answer);
}

/* Nothing of it is known yet. */
static void begin_answer(struct redlock__answer *answer)
{
    answer->vote = REDLOCK_VOTE_ERROR;
    answer->value = 0;
    answer->waits = REDLOCK__WAITS_UNKNOWN;
    answer->behind = false;
    answer->text[0] = '\0';
}

void redlock__decode(enum redlock__command command, const struct redisReply *reply,
                     struct redlock__answer *answer)
{
    begin_answer(answer);
    if (reply == NULL) {
        snprintf(answer->text, sizeof(answer->text), "no reply");
        return;
    }
    answer->vote = vote_of(command, reply);
    if (answer->vote == REDLOCK_VOTE_ERROR)
        decode_error(command, reply, answer);
    else if (command == REDLOCK__CMD_RELEASE)
        answer->waits = reply->integer > 1 || reply->integer < -1 ? REDLOCK__WAITS_SOMEBODY
                                                                  : REDLOCK__WAITS_NOBODY;
    else if (command == REDLOCK__CMD_PTTL || command == REDLOCK__CMD_HINT ||
             command == REDLOCK__CMD_GRANT || command == REDLOCK__CMD_PUSHED ||
             command == REDLOCK__CMD_PROBE || command == REDLOCK__CMD_REPLICAS)
        answer->value = reply->integer;
    else if (command == REDLOCK__CMD_GET || command == REDLOCK__CMD_OWNER ||
             command == REDLOCK__CMD_EXTEND_NATIVE)
        copy_text(answer, reply);
}

/* ---- transactions ------------------------------------------------------- */

/* A score after it was counted up; 0: nil. */
static bool read_score(const struct redisReply *reply, int64_t *number)
{
    *number = 0;
    return reply->type == REDIS_REPLY_NIL ||
           (reply->type == REDIS_REPLY_STRING && strlen(reply->str) == reply->len &&
            redlock__fence_parse(reply->str, number) && *number > 0);
}

static void no_number(struct redlock__answer *answer)
{
    snprintf(answer->text, sizeof(answer->text), "a fencing number that can't be one");
}

void redlock__decode_counts(int64_t counter, int64_t floor, int64_t number,
                            struct redlock__answer *answer)
{
    int64_t least = counter > 0 ? counter : floor;

    begin_answer(answer);
    answer->vote = REDLOCK_VOTE_OURS;
    answer->behind = !redlock__fence_reached(counter, floor, number);
    answer->value = least < number ? number : least;
    if (answer->value > REDLOCK__FENCE_MAX || floor > REDLOCK__FENCE_MAX) {
        begin_answer(answer);
        no_number(answer);
    }
}

/* The first error in it, or none. */
static const struct redisReply *error_in(const struct redisReply *reply)
{
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_ERROR)
            return reply->element[i];
    return NULL;
}

void redlock__decode_transaction(const struct redisReply *reply, const char *refusal,
                                 int64_t number, struct redlock__answer *answer)
{
    const struct redisReply *error = NULL;
    int64_t counter, floor;

    begin_answer(answer);
    if (refusal[0] != '\0') {
        snprintf(answer->text, sizeof(answer->text), "%s", refusal);
        return;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        (error = error_in(reply)) != NULL) {
        describe_error(answer, error != NULL ? error : reply);
        return;
    }
    if (!read_score(reply->element[1], &counter) || !read_score(reply->element[2], &floor))
        no_number(answer);
    else if (floor == 0)
        forgot(answer);
    else if (if_ok(reply->element[0]) == REDLOCK_VOTE_OURS)
        redlock__decode_counts(counter, floor, number, answer);
    else if (reply->element[0]->type != REDIS_REPLY_NIL)
        describe_error(answer, reply->element[0]);
    else
        answer->vote = REDLOCK_VOTE_FOREIGN;
}

bool redlock__decode_queued(const struct redisReply *reply, bool first, char text[REDLOCK_TEXT_LEN])
{
    const char *expected = first ? "OK" : "QUEUED";
    struct redlock__answer answer;

    if (reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, expected) == 0)
        return true;
    begin_answer(&answer);
    describe_error(&answer, reply);
    memcpy(text, answer.text, REDLOCK_TEXT_LEN);
    return false;
}
