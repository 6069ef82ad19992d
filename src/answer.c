/*
 * What a primary's answers mean: see command.h.
 *
 * An answer is looked up in one table of rules, first match wins. What no rule names is
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

enum match {
    MATCH_TYPE,    /* any reply of this type */
    MATCH_OK,      /* a status, and that says OK */
    MATCH_INTEGER, /* this integer */
    MATCH_NUMBER,  /* a fencing number */
};

static const struct rule {
    enum redlock__command command;
    int type;
    enum match match;
    long long integer;
    redlock_vote vote;
} rules[] = {
    /* the most frequent first */
    {REDLOCK__CMD_SET, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SET, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 2, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 3, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_GRANT, REDIS_REPLY_INTEGER, MATCH_NUMBER, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_GRANT, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_AUTH, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SELECT, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PTTL, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_PTTL, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_HINT, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_HINT, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_GET, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_GET, REDIS_REPLY_STRING, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_EXTEND_NATIVE, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_EXTEND_NATIVE, REDIS_REPLY_STRING, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_RELEASE_NATIVE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_RELEASE_NATIVE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_OWNER, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_OWNER, REDIS_REPLY_STRING, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_WAITING, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_BLOCK, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_BLOCK, REDIS_REPLY_ARRAY, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PUSH, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_REPLICAS, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PUSHED, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PROBE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_PROBE, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
};

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

static bool rule_matches(const struct rule *rule, const struct redisReply *reply)
{
    if (rule->type != reply->type)
        return false;
    switch (rule->match) {
    case MATCH_OK:
        return reply->len == 2 && memcmp(reply->str, "OK", 2) == 0;
    case MATCH_INTEGER:
        return rule->integer == reply->integer;
    case MATCH_NUMBER:
        return reply->integer > 0 && reply->integer <= REDLOCK__FENCE_MAX;
    case MATCH_TYPE:
        break;
    }
    return true;
}

/* Users without the right to name their connection may still lock, so most errors pass.
 * These do not: they say that no further command will do either. The last two come
 * unasked, as the first and last thing on a new connection. */
static bool refuses_all(const struct redisReply *reply)
{
    return starts_with(reply, "NOAUTH") || starts_with(reply, "LOADING") ||
           starts_with(reply, "DENIED") || starts_with(reply, "ERR max number of clients");
}

static redlock_vote vote_of(enum redlock__command command, const struct redisReply *reply)
{
    if (command == REDLOCK__CMD_SETNAME || command >= REDLOCK__CMD_INFO_SERVER)
        return reply->type == REDIS_REPLY_ERROR && refuses_all(reply) ? REDLOCK_VOTE_ERROR
                                                                      : REDLOCK_VOTE_OURS;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].command == command && rule_matches(&rules[i], reply))
            return rules[i].vote;
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

void redlock__decode(enum redlock__command command, const struct redisReply *reply,
                     struct redlock__answer *answer)
{
    answer->vote = REDLOCK_VOTE_ERROR;
    answer->value = 0;
    answer->waits = REDLOCK__WAITS_UNKNOWN;
    answer->text[0] = '\0';
    if (reply == NULL) {
        snprintf(answer->text, sizeof(answer->text), "no reply");
        return;
    }
    answer->vote = vote_of(command, reply);
    if (command == REDLOCK__CMD_GRANT && reply->type == REDIS_REPLY_INTEGER &&
        reply->integer == REDLOCK__GRANT_FORGOT) {
        answer->value = REDLOCK__GRANT_FORGOT;
        snprintf(answer->text, sizeof(answer->text), "it forgot its fencing numbers just now");
        return;
    }
    if (answer->vote == REDLOCK_VOTE_ERROR)
        describe_error(answer, reply);
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
