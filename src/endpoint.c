/*
 * See endpoint.h. An endpoint is read from left to right by one cursor:
 *
 *   "redis[s]://"  [user [":" password] "@"]  host [":" port] ["/" database]
 *   "unix://"      [user [":" password] "@"]  "/" path ["?db=" database]
 *
 * Two decisions. The user part ends at the last "@" before the first "/", as people do
 * paste passwords with an "@" unescaped. And a reason never quotes the text it complains about:
 * in a URI that could not be understood nobody can say which part was the password.
 *
 * Addresses are written in one form (host in lower case, port always, database unless 0), which is
 * what people see, what tells duplicates, and what the list's fingerprint is made of. That a
 * connection is encrypted is not in it: a primary remains the same one.
 */
#include "endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters --------------------------------------------------------- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* All of text[0..len) as a decimal number up to max. */
static bool parse_number(const char *text, size_t len, uint32_t max, uint32_t *number)
{
    uint64_t sum = 0;

    if (len == 0 || len > 10)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(text[i]))
            return false;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    if (sum > max)
        return false;
    *number = (uint32_t)sum;
    return true;
}

/* Percent-escapes become bytes. NULL text with *memory: out of it; else malformed. */
static char *decode(const char *from, size_t len, bool *memory)
{
    char *to = malloc(len + 1);
    size_t n = 0;

    *memory = to == NULL;
    for (size_t i = 0; to != NULL && i < len; i++) {
        int high = 0, low = 0;
        if (from[i] != '%') {
            to[n++] = from[i];
            continue;
        }
        if (i + 2 >= len || (high = hex_digit(from[i + 1])) < 0 ||
            (low = hex_digit(from[i + 2])) < 0 || (high | low) == 0) {
            free(to);
            return NULL;
        }
        to[n++] = (char)(high * 16 + low);
        i += 2;
    }
    if (to != NULL)
        to[n] = '\0';
    return to;
}

/* ---- hosts -------------------------------------------------------------- */

/* Without leading zeros, which some systems take for octal. */
static bool is_ipv4(const char *text, size_t len)
{
    size_t at = 0;

    for (int part = 0; part < 4; part++) {
        uint32_t octet;
        size_t digits = 0;
        while (at + digits < len && is_digit(text[at + digits]))
            digits++;
        if (!parse_number(text + at, digits, 255, &octet) || (digits > 1 && text[at] == '0'))
            return false;
        at += digits;
        if (part < 3 && (at >= len || text[at++] != '.'))
            return false;
    }
    return at == len;
}

/* Only by its letters: io.c, which has the system's parser, has the last word. */
static bool looks_like_ipv6(const char *text, size_t len)
{
    size_t colons = 0;

    for (size_t i = 0; i < len; i++) {
        if (text[i] == ':')
            colons++;
        else if (text[i] != '.' && hex_digit(text[i]) < 0)
            return false;
    }
    return colons >= 2 && len <= REDLOCK__MAX_IPV6_LEN;
}

/* [v6], v4 or a name; *at moves behind it. */
static const char *parse_host(const char *text, size_t len, size_t *at,
                              struct redlock__endpoint *endpoint)
{
    size_t n = 0;

    if (len > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', len);
        size_t inside = end == NULL ? 0 : (size_t)(end - text) - 1;
        if (!looks_like_ipv6(text + 1, inside))
            return "what is in brackets must be an IPv6 address, without a zone";
        for (size_t i = 0; i < inside; i++)
            endpoint->host[i] = lower(text[i + 1]);
        endpoint->numeric = true;
        *at = inside + 2;
        return NULL;
    }
    while (n < len && text[n] != ':') {
        if (n == REDLOCK__MAX_HOST_LEN)
            return "the host may have at most 238 characters";
        if (text[n] <= ' ' || text[n] > '~' || strchr("?#@[]%\\\"'<>^`{|}", text[n]) != NULL)
            return "the host has a character that no host name has";
        endpoint->host[n] = lower(text[n]);
        n++;
    }
    endpoint->host[n] = '\0';
    endpoint->numeric = is_ipv4(endpoint->host, n);
    *at = n;
    return n == 0 ? "there is no host" : NULL;
}

/* ---- endpoints ---------------------------------------------------------- */

/* user[:password], decoded. */
static const char *parse_user(const char *text, size_t len, struct redlock__endpoint *endpoint,
                              bool *memory)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon == NULL ? len : (size_t)(colon - text);
    size_t password_len = colon == NULL ? 0 : len - user_len - 1;

    if (len > REDLOCK__MAX_SECRET_LEN)
        return "user and password may have at most 4096 bytes together";
    if (user_len > 0) {
        endpoint->user = decode(text, user_len, memory);
        if (endpoint->user == NULL)
            return "a percent sign in the user must be followed by two hexadecimal digits, not 00";
    }
    if (colon != NULL && (password_len > 0 || user_len > 0)) {
        endpoint->password = decode(colon + 1, password_len, memory);
        if (endpoint->password == NULL)
            return "a percent sign in the password must be followed by two hexadecimal digits, "
                   "not 00";
    }
    return NULL;
}

/* host[:port][/database] */
static const char *parse_redis(const char *text, size_t len, struct redlock__endpoint *endpoint)
{
    const char *slash = memchr(text, '/', len);
    size_t authority = slash == NULL ? len : (size_t)(slash - text);
    size_t at = 0;
    uint32_t port = REDLOCK__DEFAULT_PORT;
    const char *reason = parse_host(text, authority, &at, endpoint);
    const char *brackets = memchr(endpoint->host, ':', sizeof endpoint->host) ? "[]" : "";

    if (reason != NULL)
        return reason;
    if (at < authority &&
        (text[at] != ':' || !parse_number(text + at + 1, authority - at - 1, UINT16_MAX, &port) ||
         port == 0))
        return "the port must be a number from 1 to 65535";
    endpoint->port = (uint16_t)port;
    if (slash != NULL && authority + 1 < len &&
        !parse_number(slash + 1, len - authority - 1, INT32_MAX, &endpoint->database))
        return "what follows the host must be / and the number of a database";
    (void)snprintf(endpoint->address, sizeof endpoint->address, "%.1s%s%s:%u", brackets,
                   endpoint->host, brackets[0] != '\0' ? "]" : "", (unsigned)port);
    return NULL;
}

/* /path[?db=n] */
static const char *parse_unix(const char *text, size_t len, struct redlock__endpoint *endpoint,
                              bool *memory)
{
    const char *query = memchr(text, '?', len);
    size_t path_len = query == NULL ? len : (size_t)(query - text);
    char *path;

    if (path_len < 2 || text[0] != '/')
        return "unix:// must be followed by the absolute path of a socket";
    if (query != NULL &&
        (len - path_len < 4 || memcmp(query, "?db=", 4) != 0 ||
         !parse_number(query + 4, len - path_len - 4, INT32_MAX, &endpoint->database)))
        return "what follows the path must be ?db= and the number of a database";
    path = decode(text, path_len, memory);
    if (path == NULL)
        return "a percent sign in the path must be followed by two hexadecimal digits, not 00";
    path_len = strlen(path);
    if (path_len > REDLOCK__MAX_PATH_LEN) {
        free(path);
        return "the path of a socket may have at most 103 bytes";
    }
    memcpy(endpoint->host, path, path_len + 1);
    memcpy(endpoint->address, path, path_len + 1);
    free(path);
    endpoint->local = true;
    endpoint->numeric = true;
    return NULL;
}

static bool has_scheme(const char **text, const char *scheme)
{
    size_t len = strlen(scheme);

    for (size_t i = 0; i < len; i++)
        if (lower((*text)[i]) != scheme[i])
            return false;
    *text += len;
    return true;
}

/* What follows the scheme. */
static const char *parse_rest(const char *text, bool local, struct redlock__endpoint *endpoint,
                              bool *memory)
{
    size_t len = strlen(text);
    size_t authority = strcspn(text, "/");
    const char *reason = NULL;
    size_t user_end = authority;

    while (user_end > 0 && text[user_end - 1] != '@')
        user_end--;
    if (user_end > 0)
        reason = parse_user(text, user_end - 1, endpoint, memory);
    if (reason == NULL)
        reason = local ? parse_unix(text + user_end, len - user_end, endpoint, memory)
                       : parse_redis(text + user_end, len - user_end, endpoint);
    return reason;
}

int redlock__endpoint_parse(const char *uri, struct redlock__endpoint *endpoint,
                            const char **reason)
{
    bool memory = false, local = false;
    size_t used;

    memset(endpoint, 0, sizeof *endpoint);
    endpoint->tls = has_scheme(&uri, "rediss://");
    if (endpoint->tls && !redlock_has_tls()) {
        *reason = "TLS is not in this build";
        return REDLOCK_ERR_UNSUPPORTED;
    }
    if (has_scheme(&uri, "unix://") && !endpoint->tls) {
        local = true;
    } else if (!endpoint->tls && !has_scheme(&uri, "redis://")) {
        *reason = "an endpoint must start with redis://, rediss:// or unix://";
        return REDLOCK_ERR_URI;
    }
    *reason = parse_rest(uri, local, endpoint, &memory);
    if (*reason != NULL) {
        redlock__endpoint_clear(endpoint);
        return memory ? REDLOCK_ERR_MEMORY : REDLOCK_ERR_URI;
    }
    used = strlen(endpoint->address);
    if (endpoint->database != 0)
        (void)snprintf(endpoint->address + used, sizeof endpoint->address - used,
                       local ? "?db=%u" : "/%u", (unsigned)endpoint->database);
    return 0;
}

void redlock__endpoint_clear(struct redlock__endpoint *endpoint)
{
    free(endpoint->user);
    free(endpoint->password);
    endpoint->user = NULL;
    endpoint->password = NULL;
}
