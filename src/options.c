/*
 * See options.h. An endpoint is read from left to right by one cursor:
 *
 *   scheme  "://"  [user [":" password] "@"]  host [":" port] ["/" database]
 *   "unix://"      [user [":" password] "@"]  "/" path ["?db=" database]
 *
 * Two decisions. The user part ends at the last "@" before the first "/", as people do
 * paste passwords with an "@" unescaped. And a reason never quotes the text it complains about:
 * in a URI that could not be understood nobody can say which part was the password.
 *
 * Addresses are written in one form (host in lower case, port always, database unless 0), which is
 * what people see, what tells duplicates, and what the list's fingerprint is made of. The database
 * is left out where duplicates are looked for: two databases of one server have one vote between
 * them.
 */
#include "options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "validity.h"

static const char reserved[] = "redlock:";

/* ---- texts -------------------------------------------------------------- */

static char *copy_text(const char *from, size_t len)
{
    char *to = malloc(len + 1);
    if (to == NULL)
        return NULL;
    memcpy(to, from, len);
    to[len] = '\0';
    return to;
}

__attribute__((format(printf, 3, 4))) static void say(char *text, size_t text_size,
                                                      const char *format, ...)
{
    va_list arguments;

    if (text == NULL || text_size == 0)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, text_size, format, arguments);
    va_end(arguments);
}

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
    if (has_scheme(&uri, "rediss://")) {
        *reason = "TLS is not in this build";
        return REDLOCK_ERR_UNSUPPORTED;
    }
    if (has_scheme(&uri, "unix://")) {
        local = true;
    } else if (!has_scheme(&uri, "redis://")) {
        *reason = "an endpoint must start with redis:// or unix://";
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

static bool same_server(const struct redlock__endpoint *a, const struct redlock__endpoint *b)
{
    return a->local == b->local && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* FNV-1a over the addresses, each with its final NUL. Source: Fowler, Noll, Vo, RFC 9923. */
static uint32_t fingerprint(const struct redlock__settings *settings)
{
    uint32_t hash = UINT32_C(2166136261);

    for (uint32_t i = 0; i < settings->n; i++) {
        const char *byte = settings->endpoints[i].address;
        do
            hash = (hash ^ (uint8_t)*byte) * UINT32_C(16777619);
        while (*byte++ != '\0');
    }
    return hash;
}

/* ---- client options ----------------------------------------------------- */

/* The caller's struct, of whatever version, over the defaults in *full. */
static int copy_versioned(void *full, size_t full_size, const void *from, size_t size, size_t least)
{
    const unsigned char *bytes = from;

    if (size < least || size > 65536)
        return REDLOCK_ERR_ARGUMENT;
    for (size_t i = full_size; i < size; i++)
        if (bytes[i] != 0)
            return REDLOCK_ERR_UNSUPPORTED;
    memcpy(full, from, size < full_size ? size : full_size);
    return 0;
}

void redlock_options_init(redlock_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->drift_ppm = 10000;
    options->max_ttl_ms = 60000;
    options->connect_timeout_ms = 1000;
    options->silence_limit_ms = 2000;
}

static bool in_range(const char *name, int64_t value, int64_t least, int64_t most, char *text,
                     size_t text_size)
{
    if (value >= least && value <= most)
        return true;
    say(text, text_size, "%s is %lld; it must be from %lld to %lld", name, (long long)value,
        (long long)least, (long long)most);
    return false;
}

static int check_numbers(const redlock_options *o, char *text, size_t size)
{
    uint32_t n = (uint32_t)o->node_count;

    if (!in_range("drift_ppm", o->drift_ppm, 0, REDLOCK_MAX_DRIFT_PPM, text, size) ||
        !in_range("max_ttl_ms", o->max_ttl_ms, 1, REDLOCK_MAX_TTL_MS, text, size) ||
        !in_range("node_timeout_ms", o->node_timeout_ms, 0, REDLOCK__MAX_TIMEOUT_MS, text, size) ||
        !in_range("connect_timeout_ms", o->connect_timeout_ms, 1, REDLOCK__MAX_TIMEOUT_MS, text,
                  size) ||
        !in_range("silence_limit_ms", o->silence_limit_ms, 1, REDLOCK__MAX_TIMEOUT_MS, text, size))
        return REDLOCK_ERR_ARGUMENT;
    if (o->quorum != 0 && !in_range("quorum", o->quorum, redlock__majority(n), n, text, size))
        return REDLOCK_ERR_QUORUM;
    return 0;
}

static int check_strings(const redlock_options *o, char *text, size_t size)
{
    const char *name = o->client_name == NULL ? "" : o->client_name;

    if (o->prefix != NULL && strlen(o->prefix) > REDLOCK_MAX_PREFIX_LEN) {
        say(text, size, "prefix has %zu bytes; it may have at most %d", strlen(o->prefix),
            REDLOCK_MAX_PREFIX_LEN);
        return REDLOCK_ERR_LIMIT;
    }
    if (o->prefix != NULL && strncmp(o->prefix, reserved, sizeof reserved - 1) == 0) {
        say(text, size, "prefix must not start with %s", reserved);
        return REDLOCK_ERR_ARGUMENT;
    }
    if (o->password != NULL && strlen(o->password) > REDLOCK__MAX_SECRET_LEN) {
        say(text, size, "password may have at most %d bytes", REDLOCK__MAX_SECRET_LEN);
        return REDLOCK_ERR_LIMIT;
    }
    if (strlen(name) > REDLOCK__MAX_NAME_LEN) {
        say(text, size, "client_name may have at most %d bytes", REDLOCK__MAX_NAME_LEN);
        return REDLOCK_ERR_LIMIT;
    }
    for (; *name != '\0'; name++)
        if (*name <= ' ' || *name > '~') {
            say(text, size, "client_name must be printable ASCII without blanks");
            return REDLOCK_ERR_ARGUMENT;
        }
    return 0;
}

static int check_node(struct redlock__settings *settings, uint32_t i, const redlock_options *o,
                      char *text, size_t size)
{
    struct redlock__endpoint *endpoint = &settings->endpoints[i];
    const char *reason = "it is NULL";
    int rc = o->nodes[i] == NULL ? REDLOCK_ERR_URI
                                 : redlock__endpoint_parse(o->nodes[i], endpoint, &reason);

    settings->n = i + 1;
    if (rc != 0) {
        say(text, size, "node %u: %s", (unsigned)i + 1, reason);
        return rc;
    }
    if (o->external_loop && !endpoint->numeric) {
        say(text, size, "node %u, %s: with external_loop a host must be a numeric address",
            (unsigned)i + 1, endpoint->address);
        return REDLOCK_ERR_ARGUMENT;
    }
    if (endpoint->password == NULL && o->password != NULL) {
        endpoint->password = copy_text(o->password, strlen(o->password));
        if (endpoint->password == NULL)
            return REDLOCK_ERR_MEMORY;
    }
    if (endpoint->user != NULL && endpoint->password == NULL) {
        say(text, size, "node %u, %s: a user needs a password", (unsigned)i + 1, endpoint->address);
        return REDLOCK_ERR_URI;
    }
    for (uint32_t j = 0; j < i; j++)
        if (same_server(&settings->endpoints[j], endpoint)) {
            say(text, size, "nodes %u (%s) and %u (%s) are one server, which has one vote",
                (unsigned)j + 1, settings->endpoints[j].address, (unsigned)i + 1,
                endpoint->address);
            return REDLOCK_ERR_DUPLICATE;
        }
    return 0;
}

static int check_nodes(struct redlock__settings *settings, const redlock_options *o, char *text,
                       size_t size)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < o->node_count; i++)
        rc = check_node(settings, i, o, text, size);
    return rc;
}

static int fill_settings(struct redlock__settings *settings, const redlock_options *o)
{
    const char *prefix = o->prefix == NULL ? "" : o->prefix;
    const char *name = o->client_name == NULL ? "libredlock" : o->client_name;

    settings->quorum = o->quorum != 0 ? o->quorum : redlock__majority(settings->n);
    settings->drift_ppm = o->drift_ppm;
    settings->max_ttl_ms = o->max_ttl_ms;
    settings->node_timeout_ms = o->node_timeout_ms;
    settings->connect_timeout_ms = o->connect_timeout_ms;
    settings->silence_limit_ms = o->silence_limit_ms;
    settings->log = o->log;
    settings->log_context = o->log_context;
    settings->external_loop = o->external_loop != 0;
    settings->fingerprint = fingerprint(settings);
    settings->prefix_len = strlen(prefix);
    settings->prefix = copy_text(prefix, settings->prefix_len);
    settings->client_name = copy_text(name, strlen(name));
    return settings->prefix == NULL || settings->client_name == NULL ? REDLOCK_ERR_MEMORY : 0;
}

int redlock__settings_new(const redlock_options *options, struct redlock__settings **settings,
                          char *text, size_t text_size)
{
    struct redlock__settings *made;
    redlock_options full;
    int rc;

    redlock_options_init(&full);
    rc = copy_versioned(&full, sizeof full, options, options->size,
                        offsetof(redlock_options, password));
    if (rc != 0) {
        say(text, text_size,
            rc == REDLOCK_ERR_UNSUPPORTED ? "an option is set that this version does not know"
                                          : "options were not made by redlock_options_init()");
        return rc;
    }
    if (full.nodes == NULL || full.node_count == 0 || full.node_count > REDLOCK_MAX_NODES) {
        say(text, text_size, "node_count is %zu; it must be from 1 to %d",
            full.nodes == NULL ? 0 : full.node_count, REDLOCK_MAX_NODES);
        return full.node_count > REDLOCK_MAX_NODES ? REDLOCK_ERR_LIMIT : REDLOCK_ERR_ARGUMENT;
    }
    made = calloc(1, sizeof *made);
    rc = made == NULL ? REDLOCK_ERR_MEMORY : check_numbers(&full, text, text_size);
    if (rc == 0)
        rc = check_strings(&full, text, text_size);
    if (rc == 0)
        rc = check_nodes(made, &full, text, text_size);
    if (rc == 0)
        rc = fill_settings(made, &full);
    if (rc == REDLOCK_ERR_MEMORY)
        say(text, text_size, "out of memory");
    if (rc != 0)
        redlock__settings_free(made);
    else
        *settings = made;
    return rc;
}

void redlock__settings_free(struct redlock__settings *settings)
{
    if (settings == NULL)
        return;
    for (uint32_t i = 0; i < settings->n; i++)
        redlock__endpoint_clear(&settings->endpoints[i]);
    free(settings->prefix);
    free(settings->client_name);
    free(settings);
}

/* ---- lock options ------------------------------------------------------- */

void redlock_lock_options_init(redlock_lock_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->ttl_ms = 10000;
    options->retry_base_ms = 10;
    options->retry_cap_ms = 1000;
}

int redlock__ttl_check(const struct redlock__settings *settings, int64_t ttl_ms,
                       int64_t min_validity_ms)
{
    if (ttl_ms < 1 || ttl_ms > settings->max_ttl_ms)
        return REDLOCK_ERR_TTL;
    if (ttl_ms - redlock__drift_ms(ttl_ms, settings->drift_ppm) <= min_validity_ms)
        return REDLOCK_ERR_TTL;
    return 0;
}

int redlock__lock_options_check(const struct redlock__settings *settings,
                                const redlock_lock_options *options, redlock_lock_options *checked)
{
    redlock_lock_options *o = checked;
    int rc;

    redlock_lock_options_init(o);
    if (options != NULL) {
        rc = copy_versioned(o, sizeof *o, options, options->size,
                            offsetof(redlock_lock_options, wait_ms));
        if (rc != 0)
            return rc;
    }
    o->size = sizeof *o;
    if (o->wait_ms < REDLOCK_WAIT_FOREVER || o->wait_ms > REDLOCK_MAX_WAIT_MS ||
        o->retry_base_ms < 1 || o->retry_cap_ms < o->retry_base_ms ||
        o->retry_cap_ms > REDLOCK_MAX_WAIT_MS || o->min_validity_ms < 0 || o->max_hold_ms < 0 ||
        o->max_hold_ms > REDLOCK_MAX_WAIT_MS || (o->results == NULL && o->result_count != 0))
        return REDLOCK_ERR_ARGUMENT;
    return redlock__ttl_check(settings, o->ttl_ms, o->min_validity_ms);
}

int64_t redlock__node_timeout_ms(const struct redlock__settings *settings, int64_t ttl_ms)
{
    if (settings->node_timeout_ms != 0)
        return settings->node_timeout_ms;
    return redlock__max(20, redlock__min(500, ttl_ms / 20));
}

/* ---- keys and tokens ---------------------------------------------------- */

static bool is_reserved(const char *key, size_t len)
{
    return len >= sizeof reserved - 1 && memcmp(key, reserved, sizeof reserved - 1) == 0;
}

int redlock__full_key(const struct redlock__settings *settings, const void *key, size_t key_len,
                      char name[REDLOCK_MAX_KEY_LEN], size_t *name_len)
{
    if (key_len == 0 || key_len > REDLOCK_MAX_KEY_LEN - settings->prefix_len)
        return REDLOCK_ERR_KEY;
    memcpy(name, settings->prefix, settings->prefix_len);
    memcpy(name + settings->prefix_len, key, key_len);
    *name_len = settings->prefix_len + key_len;
    return is_reserved(key, key_len) || is_reserved(name, *name_len) ? REDLOCK_ERR_KEY : 0;
}

void redlock__token_format(const struct redlock__settings *settings, const char *value,
                           uint32_t counted, char text[REDLOCK_TOKEN_LEN])
{
    (void)snprintf(text, REDLOCK_TOKEN_LEN, "%s:%x-%08x", value, (unsigned)counted,
                   (unsigned)settings->fingerprint);
}

/* Lower-case hexadecimal digits up to `end`, between least and 8 of them. */
static bool parse_hex(const char *text, const char *end, size_t least, uint32_t *number)
{
    if (end < text || (size_t)(end - text) < least || end - text > 8)
        return false;
    *number = 0;
    for (; text < end; text++) {
        if (hex_digit(*text) < 0 || lower(*text) != *text)
            return false;
        *number = *number << 4 | (uint32_t)hex_digit(*text);
    }
    return true;
}

int redlock__token_parse(const struct redlock__settings *settings, const char *text,
                         char value[REDLOCK__TOKEN_VALUE_LEN + 1], uint32_t *counted)
{
    const char *set = text + REDLOCK__TOKEN_VALUE_LEN + 1;
    uint32_t mask, list;
    const char *dash;

    for (size_t i = 0; i < REDLOCK__TOKEN_VALUE_LEN; i++)
        if (hex_digit(text[i]) < 0 || lower(text[i]) != text[i])
            return REDLOCK_ERR_TOKEN;
    if (text[REDLOCK__TOKEN_VALUE_LEN] != ':')
        return REDLOCK_ERR_TOKEN;
    dash = strchr(set, '-');
    if (dash == NULL || !parse_hex(set, dash, 1, &mask) ||
        !parse_hex(dash + 1, dash + 1 + strlen(dash + 1), 8, &list))
        return REDLOCK_ERR_TOKEN;
    if (list != settings->fingerprint)
        return REDLOCK_ERR_MEMBERS;
    if (mask == 0 || mask >> settings->n != 0)
        return REDLOCK_ERR_TOKEN;
    memcpy(value, text, REDLOCK__TOKEN_VALUE_LEN);
    value[REDLOCK__TOKEN_VALUE_LEN] = '\0';
    *counted = mask;
    return 0;
}
