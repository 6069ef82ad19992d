/*
 * Commands and their answers.
 *
 * A request is a list of arguments that hiredis' formatter turns into bytes. Scripts
 * always go out as EVAL with their text: they are short, and a primary that restarted
 * or flushed its script cache needs no second try.
 *
 * An answer is looked up in one table of rules, first match wins. What no rule names is
 * an error: a vote is only ever made from a reply that this file expected. That covers
 * every error reply (MISCONF, OOM, LOADING and so on: their text is for people, the core
 * never looks into it), a reply of a wrong type and a value out of the script's range.
 */
#include "command.h"

#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "fence.h"
#include "marker.h"

enum {
    MAX_ARGS = 12,
    NUMBER_LEN = 24,
    SEEN_KEY_LEN = 64
};

/* Compare, then set the time: a key that is gone stays gone. The time is only ever made longer. A
 * command that a dead connection left behind may arrive after a later one, and must not cut what
 * that one promised; a holder who wants less time lowers its own deadline. */
const char redlock__extend_script[] =
    "local owner = redis.call('GET', KEYS[1]) "
    "if owner == ARGV[1] then "
    "if redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then return 1 end "
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
    "if owner then return -1 end "
    "return 0";

const char redlock__release_script[] =
    "local owner = redis.call('GET', KEYS[1]) "
    "if owner == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
    "if owner then return -1 end "
    "return 0";

/* Since when this run of the server is known to run, by its own clock, and what that shows now. A
 * script, so that the time written is the time of writing, however long the asker sleeps. */
const char redlock__seen_script[] =
    "local t = redis.call('TIME') "
    "local now = string.format('%.0f', t[1] * 1000000 + t[2]) "
    "local seen = redis.call('GET', KEYS[1]) "
    "if not seen then redis.call('SET', KEYS[1], now) seen = now end "
    "return seen .. ' ' .. now";

/* What was read as evidence must still be there. */
const char redlock__mark_script[] =
    "local marker = redis.call('GET', KEYS[1]) or '' "
    "if marker ~= ARGV[1] then return marker end "
    "if ARGV[2] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[2] then return marker end "
    "redis.call('SET', KEYS[1], ARGV[3]) "
    "redis.call('DEL', KEYS[2]) "
    "return ARGV[3]";

/* Source of the three: docs/safety.md, "Fencing". The key comes last: an error in between leaves no
 * lock without its number. A counter that is missing, expired or evicted, starts at the floor. */
const char redlock__grant_script[] =
    "local floor = redis.call('GET', KEYS[4]) "
    "if not floor or redis.call('GET', KEYS[3]) ~= ARGV[4] then return -2 end "
    "if redis.call('GET', KEYS[1]) then return -1 end "
    "local base = string.match(ARGV[4], '%d+$') "
    "local f = math.max(tonumber(redis.call('GET', KEYS[2]) or floor), tonumber(base), "
    "tonumber(ARGV[3])) + 1 "
    "local text = string.format('%.0f', f) "
    "redis.call('SET', KEYS[2], text, 'PX', ARGV[5]) "
    "if f > tonumber(floor) then redis.call('SET', KEYS[4], text) end "
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) "
    "return f";

const char redlock__settle_script[] =
    "local floor = redis.call('GET', KEYS[4]) "
    "if not floor or redis.call('GET', KEYS[3]) ~= ARGV[3] then return 0 end "
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "local f = tonumber(ARGV[2]) "
    "if tonumber(redis.call('GET', KEYS[2]) or floor) > f then return -1 end "
    "redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[4]) "
    "if f > tonumber(floor) then redis.call('SET', KEYS[4], ARGV[2]) end "
    "return 1";

const char redlock__recover_script[] =
    "local base = redis.call('GET', KEYS[1]) or '' "
    "if base ~= ARGV[1] then return base end "
    "if not redis.call('GET', KEYS[2]) then redis.call('SET', KEYS[2], ARGV[3]) end "
    "redis.call('SET', KEYS[1], ARGV[2]) "
    "return ARGV[2]";

/* ---- requests ----------------------------------------------------------- */

struct args {
    int count;
    const char *data[MAX_ARGS];
    size_t len[MAX_ARGS];
};

static void add_bytes(struct args *args, const void *data, size_t len)
{
    args->data[args->count] = data;
    args->len[args->count] = len;
    args->count++;
}

static void add(struct args *args, const char *text)
{
    add_bytes(args, text, strlen(text));
}

static struct redlock__bytes encode(struct args *args)
{
    struct redlock__bytes bytes = {NULL, 0};
    char *data = NULL;
    /* int in hiredis 0.14, long long since 1.0. */
    long long len = redisFormatCommandArgv(&data, args->count, args->data, args->len);
    if (len >= 0) {
        bytes.data = data;
        bytes.len = (size_t)len;
    }
    return bytes;
}

struct redlock__bytes redlock__encode_auth(const char *user, const char *password)
{
    struct args args = {0};
    add(&args, "AUTH");
    if (user != NULL)
        add(&args, user);
    add(&args, password);
    return encode(&args);
}

struct redlock__bytes redlock__encode_select(uint32_t database)
{
    struct args args = {0};
    char number[NUMBER_LEN];
    snprintf(number, sizeof(number), "%" PRIu32, database);
    add(&args, "SELECT");
    add(&args, number);
    return encode(&args);
}

struct redlock__bytes redlock__encode_setname(const char *name)
{
    struct args args = {0};
    add(&args, "CLIENT");
    add(&args, "SETNAME");
    add(&args, name);
    return encode(&args);
}

struct redlock__bytes redlock__encode_set(const void *key, size_t key_len, const char *token,
                                          int64_t ttl_ms)
{
    struct args args = {0};
    char ttl[NUMBER_LEN];
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    add(&args, "SET");
    add_bytes(&args, key, key_len);
    add(&args, token);
    add(&args, "NX");
    add(&args, "PX");
    add(&args, ttl);
    return encode(&args);
}

static void add_script(struct args *args, const char *script, const void *key, size_t key_len,
                       const char *token)
{
    add(args, "EVAL");
    add(args, script);
    add(args, "1");
    add_bytes(args, key, key_len);
    add(args, token);
}

struct redlock__bytes redlock__encode_extend(const void *key, size_t key_len, const char *token,
                                             int64_t ttl_ms)
{
    struct args args = {0};
    char ttl[NUMBER_LEN];
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    add_script(&args, redlock__extend_script, key, key_len, token);
    add(&args, ttl);
    return encode(&args);
}

struct redlock__bytes redlock__encode_release(const void *key, size_t key_len, const char *token)
{
    struct args args = {0};
    add_script(&args, redlock__release_script, key, key_len, token);
    return encode(&args);
}

struct redlock__bytes redlock__encode_extend_native(const void *key, size_t key_len,
                                                    const char *token, int64_t ttl_ms)
{
    struct args args = {0};
    char ttl[NUMBER_LEN];
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    add(&args, "SET");
    add_bytes(&args, key, key_len);
    add(&args, token);
    add(&args, "IFEQ");
    add(&args, token);
    add(&args, "GET");
    add(&args, "PX");
    add(&args, ttl);
    return encode(&args);
}

struct redlock__bytes redlock__encode_delifeq(const void *key, size_t key_len, const char *token)
{
    struct args args = {0};
    add(&args, "DELIFEQ");
    add_bytes(&args, key, key_len);
    add(&args, token);
    return encode(&args);
}

struct redlock__bytes redlock__encode_delex(const void *key, size_t key_len, const char *token)
{
    struct args args = {0};
    add(&args, "DELEX");
    add_bytes(&args, key, key_len);
    add(&args, "IFEQ");
    add(&args, token);
    return encode(&args);
}

struct redlock__bytes redlock__encode_pttl(const void *key, size_t key_len)
{
    struct args args = {0};
    add(&args, "PTTL");
    add_bytes(&args, key, key_len);
    return encode(&args);
}

struct redlock__bytes redlock__encode_get(const void *key, size_t key_len)
{
    struct args args = {0};
    add(&args, "GET");
    add_bytes(&args, key, key_len);
    return encode(&args);
}

struct redlock__bytes redlock__encode_fact(enum redlock__command command)
{
    static const struct {
        enum redlock__command command;
        const char *words[3];
    } texts[] = {{REDLOCK__CMD_INFO_SERVER, {"INFO", "server"}},
                 {REDLOCK__CMD_INFO_REPLICATION, {"INFO", "replication"}},
                 {REDLOCK__CMD_SETTINGS, {"CONFIG", "GET", "*append*"}},
                 {REDLOCK__CMD_MARKER, {"GET", REDLOCK__MARKER_KEY}},
                 {REDLOCK__CMD_TIME, {"TIME"}},
                 {REDLOCK__CMD_BASE, {"GET", REDLOCK__BASE_KEY}},
                 {REDLOCK__CMD_FLOOR, {"GET", REDLOCK__FLOOR_KEY}}};
    struct args args = {0};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t k = 0; k < 3 && texts[i].command == command && texts[i].words[k] != NULL; k++)
            add(&args, texts[i].words[k]);
    return encode(&args);
}

/* The keys of a fenced lock: its own, its counter, base and floor. */
static bool add_fenced(struct args *args, const char *script, const void *key, size_t key_len,
                       char *counter)
{
    static const char before[] = "redlock:fence:{", after[] = "}";
    size_t len = sizeof(before) - 1;

    if (key_len > REDLOCK_MAX_KEY_LEN)
        return false;
    memcpy(counter, before, len);
    memcpy(counter + len, key, key_len);
    len += key_len;
    memcpy(counter + len, after, sizeof(after) - 1);
    len += sizeof(after) - 1;
    add(args, "EVAL");
    add(args, script);
    add(args, "4");
    add_bytes(args, key, key_len);
    add_bytes(args, counter, len);
    add(args, REDLOCK__BASE_KEY);
    add(args, REDLOCK__FLOOR_KEY);
    return true;
}

struct redlock__bytes redlock__encode_grant(const void *key, size_t key_len, const char *token,
                                            int64_t ttl_ms, int64_t heard, const char *base)
{
    struct args args = {0};
    char counter[REDLOCK_MAX_KEY_LEN + 32], ttl[NUMBER_LEN], number[NUMBER_LEN], keep[NUMBER_LEN];
    if (!add_fenced(&args, redlock__grant_script, key, key_len, counter))
        return (struct redlock__bytes){0};
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    snprintf(number, sizeof(number), "%" PRId64, heard);
    snprintf(keep, sizeof(keep), "%d", REDLOCK__FENCE_TTL_MS);
    add(&args, token);
    add(&args, ttl);
    add(&args, number);
    add(&args, base);
    add(&args, keep);
    return encode(&args);
}

struct redlock__bytes redlock__encode_settle(const void *key, size_t key_len, const char *token,
                                             int64_t fence, const char *base)
{
    struct args args = {0};
    char counter[REDLOCK_MAX_KEY_LEN + 32], number[NUMBER_LEN], keep[NUMBER_LEN];
    if (!add_fenced(&args, redlock__settle_script, key, key_len, counter))
        return (struct redlock__bytes){0};
    snprintf(number, sizeof(number), "%" PRId64, fence);
    snprintf(keep, sizeof(keep), "%d", REDLOCK__FENCE_TTL_MS);
    add(&args, token);
    add(&args, number);
    add(&args, base);
    add(&args, keep);
    return encode(&args);
}

struct redlock__bytes redlock__encode_recover(const char *old, const char *base, int64_t number)
{
    struct args args = {0};
    char floor[NUMBER_LEN];
    snprintf(floor, sizeof(floor), "%" PRId64, number);
    add(&args, "EVAL");
    add(&args, redlock__recover_script);
    add(&args, "2");
    add(&args, REDLOCK__BASE_KEY);
    add(&args, REDLOCK__FLOOR_KEY);
    add(&args, old);
    add(&args, base);
    add(&args, floor);
    return encode(&args);
}

static void seen_key(char key[SEEN_KEY_LEN], const char *run_id)
{
    snprintf(key, SEEN_KEY_LEN, "redlock:seen:%.40s", run_id);
}

struct redlock__bytes redlock__encode_seen(const char *run_id)
{
    struct args args = {0};
    char key[SEEN_KEY_LEN];
    seen_key(key, run_id);
    add(&args, "EVAL");
    add(&args, redlock__seen_script);
    add(&args, "1");
    add(&args, key);
    return encode(&args);
}

struct redlock__bytes redlock__encode_mark(const char *run_id, const char *old, const char *seen,
                                           const char *marker)
{
    struct args args = {0};
    char key[SEEN_KEY_LEN];
    seen_key(key, run_id);
    add(&args, "EVAL");
    add(&args, redlock__mark_script);
    add(&args, "2");
    add(&args, REDLOCK__MARKER_KEY);
    add(&args, key);
    add(&args, old);
    add(&args, seen);
    add(&args, marker);
    return encode(&args);
}

void redlock__bytes_free(struct redlock__bytes *bytes)
{
    if (bytes->data != NULL)
        redisFreeCommand(bytes->data);
    bytes->data = NULL;
    bytes->len = 0;
}

/* ---- answers ------------------------------------------------------------ */

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
    {REDLOCK__CMD_AUTH, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SELECT, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SET, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SET, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_EXTEND, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_GRANT, REDIS_REPLY_INTEGER, MATCH_NUMBER, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_GRANT, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 1, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_SETTLE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -1, REDLOCK_VOTE_FREE},
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
        return reply->len == 2 && starts_with(reply, "OK");
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
    memset(answer, 0, sizeof(*answer));
    answer->vote = REDLOCK_VOTE_ERROR;
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
    else if (command == REDLOCK__CMD_PTTL || command == REDLOCK__CMD_HINT ||
             command == REDLOCK__CMD_GRANT)
        answer->value = reply->integer;
    else if (command == REDLOCK__CMD_GET || command == REDLOCK__CMD_OWNER ||
             command == REDLOCK__CMD_EXTEND_NATIVE)
        copy_text(answer, reply);
}
