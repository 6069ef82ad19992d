/*
 * See options.h. The database is left out where duplicates are looked for: two databases of one
 * server have one vote between them.
 */
#include "options.h"

#include <inttypes.h>
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
    options->restart_guard_ms = REDLOCK_GUARD_AUTO;
    options->connect_timeout_ms = 1000;
    options->silence_limit_ms = 2000;
    options->replica_timeout_ms = 100;
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
        !in_range("max_ttl_ms", o->max_ttl_ms, 0, REDLOCK_MAX_TTL_MS, text, size) ||
        !in_range("restart_guard_ms", o->restart_guard_ms, REDLOCK_GUARD_AUTO,
                  2 * REDLOCK_MAX_TTL_MS, text, size) ||
        !in_range("node_timeout_ms", o->node_timeout_ms, 0, REDLOCK__MAX_TIMEOUT_MS, text, size) ||
        !in_range("connect_timeout_ms", o->connect_timeout_ms, 1, REDLOCK__MAX_TIMEOUT_MS, text,
                  size) ||
        !in_range("replicas", o->replicas, 0, REDLOCK__MAX_REPLICAS, text, size) ||
        !in_range("replica_timeout_ms", o->replica_timeout_ms, 1, REDLOCK__MAX_TIMEOUT_MS, text,
                  size) ||
        !in_range("silence_limit_ms", o->silence_limit_ms, 1, REDLOCK__MAX_TIMEOUT_MS, text, size))
        return REDLOCK_ERR_ARGUMENT;
    if (o->replicas != 0 && n != 1) {
        say(text, size, "replicas go with a single node; there are %u", (unsigned)n);
        return REDLOCK_ERR_ARGUMENT;
    }
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

/* If any node wants it. */
static int fill_tls(struct redlock__settings *settings, const redlock_options *o, char *text,
                    size_t size)
{
    bool wanted = false;

    for (uint32_t i = 0; i < settings->n; i++)
        wanted = wanted || settings->endpoints[i].tls;
    return redlock__tls_settings_fill(o, wanted, &settings->tls, text, size);
}

static int fill_settings(struct redlock__settings *settings, const redlock_options *o)
{
    const char *prefix = o->prefix == NULL ? "" : o->prefix;
    const char *name = o->client_name == NULL ? "libredlock" : o->client_name;

    settings->quorum = o->quorum;
    settings->restart_guard_ms = o->restart_guard_ms;
    settings->drift_ppm = o->drift_ppm;
    settings->max_ttl_ms = o->max_ttl_ms;
    settings->node_timeout_ms = o->node_timeout_ms;
    settings->connect_timeout_ms = o->connect_timeout_ms;
    settings->silence_limit_ms = o->silence_limit_ms;
    settings->replicas = o->replicas;
    settings->replica_timeout_ms = o->replica_timeout_ms;
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
        rc = fill_tls(made, &full, text, text_size);
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
    redlock__tls_settings_clear(&settings->tls);
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

void redlock_init_options_init(redlock_init_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
}

int redlock__init_options_check(const struct redlock__settings *settings,
                                const redlock_init_options *options, redlock_init_options *checked)
{
    int rc = 0;

    redlock_init_options_init(checked);
    if (options != NULL)
        rc = copy_versioned(checked, sizeof *checked, options, options->size,
                            offsetof(redlock_init_options, retire));
    checked->size = sizeof *checked;
    if (rc == 0 && (checked->retire > settings->n || checked->replace > settings->n ||
                    (checked->retire != 0 && checked->retire == checked->replace)))
        rc = REDLOCK_ERR_ARGUMENT;
    return rc;
}

int redlock__ttl_check(const struct redlock__settings *settings, int64_t ttl_ms,
                       int64_t min_validity_ms)
{
    int64_t most_ms = settings->max_ttl_ms != 0 ? settings->max_ttl_ms : REDLOCK_MAX_TTL_MS;

    if (ttl_ms < 1 || ttl_ms > most_ms)
        return REDLOCK_ERR_TTL;
    if (redlock__usable_ms(ttl_ms, settings->drift_ppm) <= min_validity_ms)
        return REDLOCK_ERR_TTL;
    return 0;
}

int redlock__lock_options_check(const struct redlock__settings *settings,
                                const redlock_lock_options *options, redlock_lock_options *checked)
{
    redlock_lock_options *o = checked;
    int rc = 0;

    if (options != NULL && options->size == sizeof *o) { /* as from the same header */
        *o = *options;
    } else {
        redlock_lock_options_init(o);
        if (options != NULL)
            rc = copy_versioned(o, sizeof *o, options, options->size,
                                offsetof(redlock_lock_options, wait_ms));
        if (rc != 0)
            return rc;
        o->size = sizeof *o;
    }
    if (o->wait_ms < REDLOCK_WAIT_FOREVER || o->wait_ms > REDLOCK_MAX_WAIT_MS ||
        o->retry_base_ms < 1 || o->retry_cap_ms < o->retry_base_ms ||
        o->retry_cap_ms > REDLOCK_MAX_WAIT_MS || o->min_validity_ms < 0 || o->max_hold_ms < 0 ||
        o->max_hold_ms > REDLOCK_MAX_WAIT_MS || (o->results == NULL && o->result_count != 0))
        return REDLOCK_ERR_ARGUMENT;
    if (o->fence && settings->replicas != 0) /* a promoted one may lack the last numbers */
        return REDLOCK_ERR_UNSUPPORTED;
    return redlock__ttl_check(settings, o->ttl_ms, o->min_validity_ms);
}

/* ---- keys and tokens ---------------------------------------------------- */

static bool is_reserved(const char *key, size_t len)
{
    return len >= sizeof reserved - 1 && memcmp(key, reserved, sizeof reserved - 1) == 0;
}

int redlock__full_key(const struct redlock__settings *settings, const void *key, size_t key_len,
                      struct redlock__full_key *full)
{
    size_t prefix_len = settings->prefix_len;

    if (key_len == 0 || key_len > REDLOCK_MAX_KEY_LEN - prefix_len || is_reserved(key, key_len))
        return REDLOCK_ERR_KEY;
    full->text = key;
    full->len = prefix_len + key_len;
    if (prefix_len == 0)
        return 0;
    memcpy(full->room, settings->prefix, prefix_len);
    memcpy(full->room + prefix_len, key, key_len);
    full->text = full->room;
    return is_reserved(full->text, full->len) ? REDLOCK_ERR_KEY : 0;
}

void redlock__token_format(const struct redlock__settings *settings, const char *value,
                           uint32_t counted, char text[REDLOCK_TOKEN_LEN])
{
    (void)snprintf(text, REDLOCK_TOKEN_LEN, "%s:%x-%08x", value, (unsigned)counted,
                   (unsigned)settings->fingerprint);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Lower-case hexadecimal digits up to `end`, between least and 8 of them. */
static bool parse_hex(const char *text, const char *end, size_t least, uint32_t *number)
{
    if (end < text || (size_t)(end - text) < least || end - text > 8)
        return false;
    *number = 0;
    for (; text < end; text++) {
        if (hex_value(*text) < 0)
            return false;
        *number = *number << 4 | (uint32_t)hex_value(*text);
    }
    return true;
}

void redlock__token_warn(char text[REDLOCK_TOKEN_LEN], uint32_t cut, int64_t cut_ms)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, REDLOCK_TOKEN_LEN - used, "-%x-%" PRIx64, (unsigned)cut,
                   (uint64_t)cut_ms);
}

/* Behind the list: nothing, or "-cut-ms", the time in up to ten digits. */
static const char *find_warning(const char *text)
{
    const char *dash = strchr(text, '-');

    return dash == NULL ? NULL : strchr(dash + 1, '-');
}

uint32_t redlock__token_warning(const char *text, int64_t *cut_ms)
{
    const char *at = find_warning(text), *dash;
    uint32_t cut;

    dash = at == NULL ? NULL : strchr(at + 1, '-');
    if (dash == NULL || !parse_hex(at + 1, dash, 1, &cut))
        return 0;
    *cut_ms = 0;
    for (at = dash + 1; *at != '\0'; at++) {
        if (hex_value(*at) < 0 || at - dash > 10)
            return 0;
        *cut_ms = *cut_ms * 16 + hex_value(*at);
    }
    return *cut_ms > 0 && *cut_ms <= REDLOCK_MAX_TTL_MS ? cut : 0;
}

int redlock__token_parse(const struct redlock__settings *settings, const char *text,
                         char value[REDLOCK__TOKEN_VALUE_LEN + 1], uint32_t *counted)
{
    const char *set = text + REDLOCK__TOKEN_VALUE_LEN + 1;
    uint32_t mask, list, cut = 0;
    const char *dash, *warning;
    int64_t cut_ms;

    for (size_t i = 0; i < REDLOCK__TOKEN_VALUE_LEN; i++)
        if (hex_value(text[i]) < 0)
            return REDLOCK_ERR_TOKEN;
    if (text[REDLOCK__TOKEN_VALUE_LEN] != ':')
        return REDLOCK_ERR_TOKEN;
    dash = strchr(set, '-');
    warning = find_warning(set);
    if (dash == NULL || !parse_hex(set, dash, 1, &mask) ||
        !parse_hex(dash + 1, warning != NULL ? warning : dash + 1 + strlen(dash + 1), 8, &list))
        return REDLOCK_ERR_TOKEN;
    if (warning != NULL && (cut = redlock__token_warning(text, &cut_ms)) == 0)
        return REDLOCK_ERR_TOKEN;
    if (list != settings->fingerprint)
        return REDLOCK_ERR_MEMBERS;
    if (mask == 0 || (mask | cut) >> settings->n != 0)
        return REDLOCK_ERR_TOKEN;
    memcpy(value, text, REDLOCK__TOKEN_VALUE_LEN);
    value[REDLOCK__TOKEN_VALUE_LEN] = '\0';
    *counted = mask;
    return 0;
}
