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

#include "marker.h"

enum {
    MAX_ARGS = 8,
    NUMBER_LEN = 24,
    SEEN_KEY_LEN = 64
};

/* Compare, then set the time: a key that is gone stays gone. The time is only ever made longer. A
 * command that a dead connection left behind may arrive after a later one, and must not cut what
 * that one promised; a holder who wants less time lowers its own deadline. */
const char redlock__extend_script[] = "local owner = redis.call('GET', KEYS[1]) "
                                      "if owner == ARGV[1] then "
                                      "local left = redis.call('PTTL', KEYS[1]) "
                                      "if left >= tonumber(ARGV[2]) then "
                                      "if ARGV[3] then redis.call('PEXPIRE', KEYS[1], left) end "
                                      "return 1 end "
                                      "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
                                      "if owner then return -1 end "
                                      "return 0";

/* The key that says that somebody waits is no declared one, and asked for with pcall: a user
 * without rights on it must be able to release all the same. GET, since that is a right everybody
 * has. */
const char redlock__release_script[] =
    "local owner = redis.call('GET', KEYS[1]) "
    "local gone = 0 "
    "if owner == ARGV[1] then gone = redis.call('DEL', KEYS[1]) "
    "elseif owner then gone = -1 end "
    "if not ARGV[2] or redis.pcall('GET', ARGV[2]) ~= '1' then return gone end "
    "return gone < 0 and -2 or 3 - gone";

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

static const char waiting_prefix[] = "redlock:waiting:";
static const char wake_prefix[] = "redlock:wake:";

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

struct redlock__bytes redlock__encode_extend_writing(const void *key, size_t key_len,
                                                     const char *token, int64_t ttl_ms)
{
    struct args args = {0};
    char ttl[NUMBER_LEN];
    snprintf(ttl, sizeof(ttl), "%" PRId64, ttl_ms);
    add_script(&args, redlock__extend_script, key, key_len, token);
    add(&args, ttl);
    add(&args, "write");
    return encode(&args);
}

struct redlock__bytes redlock__encode_wait(uint32_t replicas, int64_t timeout_ms)
{
    struct args args = {0};
    char count[NUMBER_LEN], timeout[NUMBER_LEN];
    snprintf(count, sizeof(count), "%" PRIu32, replicas);
    snprintf(timeout, sizeof(timeout), "%" PRId64, timeout_ms);
    add(&args, "WAIT");
    add(&args, count);
    add(&args, timeout);
    return encode(&args);
}

struct redlock__bytes redlock__encode_release(const void *key, size_t key_len, const char *token)
{
    struct args args = {0};
    add_script(&args, redlock__release_script, key, key_len, token);
    return encode(&args);
}

/* "redlock:waiting:" and the name: one buffer for each of the two keys of a name. */
struct side_key {
    size_t len;
    char data[sizeof "redlock:waiting:" + REDLOCK_MAX_KEY_LEN];
};

static void make_side_key(struct side_key *side, const char *prefix, const void *key,
                          size_t key_len)
{
    size_t len = strlen(prefix);
    if (key_len > REDLOCK_MAX_KEY_LEN)
        key_len = REDLOCK_MAX_KEY_LEN;
    memcpy(side->data, prefix, len);
    memcpy(side->data + len, key, key_len);
    side->len = len + key_len;
}

static void add_number(struct args *args, char number[NUMBER_LEN], int64_t value)
{
    snprintf(number, NUMBER_LEN, "%" PRId64, value);
    add(args, number);
}

struct redlock__bytes redlock__encode_release_asking(const void *key, size_t key_len,
                                                     const char *token)
{
    struct args args = {0};
    struct side_key waiting;
    make_side_key(&waiting, waiting_prefix, key, key_len);
    add_script(&args, redlock__release_script, key, key_len, token);
    add_bytes(&args, waiting.data, waiting.len);
    return encode(&args);
}

struct redlock__bytes redlock__encode_waiting(const void *key, size_t key_len, int64_t life_ms)
{
    struct args args = {0};
    struct side_key waiting;
    char number[NUMBER_LEN];
    make_side_key(&waiting, waiting_prefix, key, key_len);
    add(&args, "SET");
    add_bytes(&args, waiting.data, waiting.len);
    add(&args, "1");
    add(&args, "PX");
    add_number(&args, number, life_ms);
    return encode(&args);
}

struct redlock__bytes redlock__encode_block(const void *key, size_t key_len, int64_t seconds)
{
    struct args args = {0};
    struct side_key wake;
    char number[NUMBER_LEN];
    make_side_key(&wake, wake_prefix, key, key_len);
    add(&args, "BLPOP");
    add_bytes(&args, wake.data, wake.len);
    add_number(&args, number, seconds);
    return encode(&args);
}

struct redlock__bytes redlock__encode_push(const void *key, size_t key_len, uint32_t part,
                                           int64_t life_ms)
{
    static const char *const names[] = {"DEL", "LPUSH", "PEXPIRE"};
    struct args args = {0};
    struct side_key wake;
    char number[NUMBER_LEN];
    make_side_key(&wake, wake_prefix, key, key_len);
    add(&args, names[part]);
    add_bytes(&args, wake.data, wake.len);
    if (part == 1)
        add(&args, "1");
    if (part == 2)
        add_number(&args, number, life_ms);
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
                 {REDLOCK__CMD_TIME, {"TIME"}}};
    struct args args = {0};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t k = 0; k < 3 && texts[i].command == command && texts[i].words[k] != NULL; k++)
            add(&args, texts[i].words[k]);
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
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 2, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, 3, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_RELEASE, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_PTTL, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_PTTL, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_HINT, REDIS_REPLY_INTEGER, MATCH_INTEGER, -2, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_HINT, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_GET, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_GET, REDIS_REPLY_STRING, MATCH_TYPE, 0, REDLOCK_VOTE_FOREIGN},
    {REDLOCK__CMD_WAITING, REDIS_REPLY_STATUS, MATCH_OK, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_BLOCK, REDIS_REPLY_NIL, MATCH_TYPE, 0, REDLOCK_VOTE_FREE},
    {REDLOCK__CMD_BLOCK, REDIS_REPLY_ARRAY, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PUSH, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_REPLICAS, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
    {REDLOCK__CMD_PUSHED, REDIS_REPLY_INTEGER, MATCH_TYPE, 0, REDLOCK_VOTE_OURS},
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
    if (answer->vote == REDLOCK_VOTE_ERROR)
        describe_error(answer, reply);
    else if (command == REDLOCK__CMD_PTTL || command == REDLOCK__CMD_HINT ||
             command == REDLOCK__CMD_RELEASE || command == REDLOCK__CMD_PUSHED ||
             command == REDLOCK__CMD_REPLICAS)
        answer->value = reply->integer;
    else if (command == REDLOCK__CMD_GET)
        copy_text(answer, reply);
}
