/*
 * See dial.h. Understands the endpoints that the library does, but for rediss://: the floor would
 * measure the encryption.
 */
#include "dial.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum {
    PART_SIZE = 1024,
    PATIENCE_MS = 2000
};

struct endpoint {
    char host[PART_SIZE]; /* or the path of a socket */
    char user[PART_SIZE], password[PART_SIZE];
    int port; /* 0: a path */
    int database;
};

static int hex(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

/* Percent-escapes decoded. False: it doesn't fit. */
static bool take(char to[PART_SIZE], const char *from, size_t length)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        if (used == PART_SIZE - 1)
            return false;
        if (from[i] == '%' && i + 2 < length && isxdigit((unsigned char)from[i + 1]) &&
            isxdigit((unsigned char)from[i + 2])) {
            to[used++] = (char)(hex(from[i + 1]) * 16 + hex(from[i + 2]));
            i += 2;
        } else {
            to[used++] = from[i];
        }
    }
    to[used] = '\0';
    return true;
}

/* "user:password@" at the start of `rest`; returns what follows, NULL: too long. */
static const char *take_login(struct endpoint *to, const char *rest)
{
    const char *at = strrchr(rest, '@'), *colon;

    if (!at)
        return rest;
    colon = memchr(rest, ':', (size_t)(at - rest));
    if (!take(to->user, rest, (size_t)((colon ? colon : at) - rest)))
        return NULL;
    if (colon && !take(to->password, colon + 1, (size_t)(at - colon - 1)))
        return NULL;
    return at + 1;
}

static bool parse_path(struct endpoint *to, const char *rest)
{
    size_t length = strcspn(rest, "?");
    const char *database = strstr(rest + length, "db=");

    to->port = 0;
    to->database = database ? atoi(database + 3) : 0;
    return take(to->host, rest, length);
}

static bool parse_host(struct endpoint *to, const char *rest)
{
    const char *end = rest + strcspn(rest, "/"), *colon;
    const char *host = rest, *host_end;

    if (*rest == '[') {
        host = rest + 1;
        host_end = strchr(host, ']');
        if (!host_end)
            return false;
        colon = host_end[1] == ':' ? host_end + 1 : NULL;
    } else {
        colon = memchr(rest, ':', (size_t)(end - rest));
        host_end = colon ? colon : end;
    }
    to->port = colon ? atoi(colon + 1) : 6379;
    to->database = *end == '/' ? atoi(end + 1) : 0;
    return take(to->host, host, (size_t)(host_end - host));
}

static const char *parse(struct endpoint *to, const char *uri)
{
    static const char tcp[] = "redis://", path[] = "unix://";
    bool is_path = strncmp(uri, path, strlen(path)) == 0;
    const char *rest;

    memset(to, 0, sizeof *to);
    if (strncmp(uri, "rediss://", strlen("rediss://")) == 0)
        return "the floor doesn't encrypt: name primaries by redis:// or unix://";
    if (!is_path && strncmp(uri, tcp, strlen(tcp)) != 0)
        return "its URI cannot be understood";
    rest = take_login(to, uri + strlen(is_path ? path : tcp));
    if (!rest || !(is_path ? parse_path(to, rest) : parse_host(to, rest)))
        return "its URI cannot be understood";
    return NULL;
}

/* NULL, or why not. Frees the reply. */
static const char *refusal(redisContext *context, redisReply *reply, char *problem, size_t size)
{
    if (!reply) {
        snprintf(problem, size, "%s", context->errstr);
        return problem;
    }
    if (reply->type == REDIS_REPLY_ERROR) {
        snprintf(problem, size, "%.200s", reply->str);
        freeReplyObject(reply);
        return problem;
    }
    freeReplyObject(reply);
    return NULL;
}

/* An answer to AUTH may repeat what it was asked, or the beginning of it. */
static bool may_repeat(const char *text, const char *password)
{
    return strstr(text, "with args") != NULL || strstr(text, password) != NULL;
}

static const char *log_in(redisContext *context, const char *user, const char *password,
                          char *problem, size_t size)
{
    redisReply *reply = user[0] ? redisCommand(context, "AUTH %s %s", user, password)
                                : redisCommand(context, "AUTH %s", password);
    const char *why = refusal(context, reply, problem, size);

    return why && may_repeat(why, password) ? "AUTH is refused" : why;
}

static const char *greet(const struct bench *bench, const struct endpoint *to,
                         redisContext *context, char *problem, size_t size)
{
    const char *password = to->password[0] ? to->password : bench->password;
    const char *why = NULL;

    if (password)
        why = log_in(context, to->user, password, problem, size);
    if (!why && to->database > 0)
        why = refusal(context, redisCommand(context, "SELECT %d", to->database), problem, size);
    return why;
}

redisContext *dial(const struct bench *bench, unsigned i, char *problem, size_t size)
{
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000,
                                     .tv_usec = PATIENCE_MS % 1000 * 1000};
    redisContext *context = NULL;
    struct endpoint to;
    const char *why = parse(&to, bench->uris[i]);

    if (!why) {
        context = to.port == 0 ? redisConnectUnixWithTimeout(to.host, patience)
                               : redisConnectWithTimeout(to.host, to.port, patience);
        why = !context ? "out of memory" : context->err ? context->errstr : NULL;
    }
    if (!why && redisSetTimeout(context, patience) != REDIS_OK)
        why = context->errstr;
    if (!why)
        why = greet(bench, &to, context, problem, size);
    if (!why)
        return context;
    if (why != problem)
        snprintf(problem, size, "%s", why);
    if (context)
        redisFree(context);
    return NULL;
}

long long dial_number(redisContext *context, const char *command)
{
    redisReply *reply = redisCommand(context, command);
    long long number = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;

    if (reply)
        freeReplyObject(reply);
    return number;
}

static long long count_of(const char *stats, const char *command)
{
    char wanted[64];
    const char *at;

    snprintf(wanted, sizeof wanted, "cmdstat_%s:calls=", command);
    at = strstr(stats, wanted);
    return at ? strtoll(at + strlen(wanted), NULL, 10) : 0;
}

long long dial_commands(const struct bench *bench, unsigned i)
{
    static const char *const counted[] = {"set", "eval", "evalsha", "delex", "delifeq"};
    char problem[256];
    redisContext *context = dial(bench, i, problem, sizeof problem);
    redisReply *reply = context ? redisCommand(context, "INFO commandstats") : NULL;
    long long sum = -1;

    if (reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)) {
        sum = 0;
        for (size_t k = 0; k < sizeof counted / sizeof counted[0]; k++)
            sum += count_of(reply->str, counted[k]);
    }
    if (reply)
        freeReplyObject(reply);
    if (context)
        redisFree(context);
    return sum;
}
