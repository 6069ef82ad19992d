/*
 * Options, endpoints, keys and token texts: what is accepted and what each refusal says.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static char text[256];

static redlock_options with_nodes(const char *const *nodes, size_t count)
{
    redlock_options options;

    redlock_options_init(&options);
    options.nodes = nodes;
    options.node_count = count;
    return options;
}

static const char *const three[] = {"redis://a", "redis://b:7000/2", "unix:///run/c.sock"};

static struct redlock__settings *settings_of(const char *const *nodes, size_t count)
{
    redlock_options options = with_nodes(nodes, count);
    struct redlock__settings *settings;

    ck_assert_int_eq(redlock__settings_new(&options, &settings, text, sizeof text), 0);
    return settings;
}

/* What making settings from these options gives; they are freed again. */
static int try(const redlock_options *options)
{
    struct redlock__settings *settings = NULL;
    int rc;

    memset(text, 0, sizeof text);
    rc = redlock__settings_new(options, &settings, text, sizeof text);
    ck_assert((rc == 0) == (settings != NULL));
    redlock__settings_free(settings);
    return rc;
}

static void assert_refused(const redlock_options *options, int rc, const char *part)
{
    ck_assert_int_eq(try(options), rc);
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in '%s'", part, text);
}

/* ---- endpoints ---------------------------------------------------------- */

static const struct good {
    const char *uri, *address, *host, *user, *password;
    unsigned port, database;
    bool local, numeric;
} good[] = {
    {"redis://h", "h:6379", "h", NULL, NULL, 6379, 0, false, false},
    {"redis://h/", "h:6379", "h", NULL, NULL, 6379, 0, false, false},
    {"redis://h/0", "h:6379", "h", NULL, NULL, 6379, 0, false, false},
    {"REDIS://Host.Example:1/15", "host.example:1/15", "host.example", NULL, NULL, 1, 15, false,
     false},
    {"redis://10.0.0.1:65535", "10.0.0.1:65535", "10.0.0.1", NULL, NULL, 65535, 0, false, true},
    {"redis://10.0.0.256", "10.0.0.256:6379", "10.0.0.256", NULL, NULL, 6379, 0, false, false},
    {"redis://010.0.0.1", "010.0.0.1:6379", "010.0.0.1", NULL, NULL, 6379, 0, false, false},
    {"redis://[::1]", "[::1]:6379", "::1", NULL, NULL, 6379, 0, false, true},
    {"redis://[FE80::A:1]:7000/3", "[fe80::a:1]:7000/3", "fe80::a:1", NULL, NULL, 7000, 3, false,
     true},
    {"redis://:pw@h", "h:6379", "h", NULL, "pw", 6379, 0, false, false},
    {"redis://u:pw@h:7", "h:7", "h", "u", "pw", 7, 0, false, false},
    {"redis://u:@h", "h:6379", "h", "u", "", 6379, 0, false, false},
    {"redis://:@h", "h:6379", "h", NULL, NULL, 6379, 0, false, false},
    {"redis://u@h", "h:6379", "h", "u", NULL, 6379, 0, false, false},
    {"redis://u:p@w:x@h", "h:6379", "h", "u", "p@w:x", 6379, 0, false, false},
    {"redis://a%40b:c%2fd%25%3a@h", "h:6379", "h", "a@b", "c/d%:", 6379, 0, false, false},
    {"unix:///run/redis.sock", "/run/redis.sock", "/run/redis.sock", NULL, NULL, 0, 0, true, true},
    {"unix:///a%20b?db=4", "/a b?db=4", "/a b", NULL, NULL, 0, 4, true, true},
    {"unix://u:pw@/s", "/s", "/s", "u", "pw", 0, 0, true, true},
    {"unix://:p%2Fw@/s?db=0", "/s", "/s", NULL, "p/w", 0, 0, true, true},
};

static void assert_text(const char *is, const char *should)
{
    if (should == NULL)
        ck_assert_ptr_null(is);
    else
        ck_assert_str_eq(is, should);
}

START_TEST(test_endpoint_is_taken_apart)
{
    const struct good *g = &good[_i];
    struct redlock__endpoint endpoint;
    const char *reason = NULL;

    ck_assert_int_eq(redlock__endpoint_parse(g->uri, &endpoint, &reason), 0);
    ck_assert_str_eq(endpoint.address, g->address);
    ck_assert_str_eq(endpoint.host, g->host);
    assert_text(endpoint.user, g->user);
    assert_text(endpoint.password, g->password);
    ck_assert_uint_eq(endpoint.port, g->port);
    ck_assert_uint_eq(endpoint.database, g->database);
    ck_assert(endpoint.local == g->local);
    ck_assert(endpoint.numeric == g->numeric);
    redlock__endpoint_clear(&endpoint);
}
END_TEST

static const struct bad {
    const char *uri, *part;
} bad[] = {
    {"", "must start with"},
    {"localhost:6379", "must start with"},
    {"http://h", "must start with"},
    {"redis:/h", "must start with"},
    {"redis://", "no host"},
    {"redis://:6379", "no host"},
    {"redis://user@", "no host"},
    {"redis:///0", "no host"},
    {"redis://h:", "port"},
    {"redis://h:0", "port"},
    {"redis://h:65536", "port"},
    {"redis://h:-1", "port"},
    {"redis://h:+1", "port"},
    {"redis://h:0x1", "port"},
    {"redis://h:1 ", "port"},
    {"redis://h:99999999999999999999", "port"},
    {"redis://h/x", "database"},
    {"redis://h/-1", "database"},
    {"redis://h/1/2", "database"},
    {"redis://h/2147483648", "database"},
    {"redis://h/1?db=2", "database"},
    {"redis://h?db=2", "character"},
    {"redis://h#f", "character"},
    {"redis://h h", "character"},
    {"redis://h\nh", "character"},
    {"redis://h\x80", "character"},
    {"redis://[::1", "IPv6"},
    {"redis://[]", "IPv6"},
    {"redis://[1.2.3.4]", "IPv6"},
    {"redis://[fe80::1%25eth0]", "IPv6"},
    {"redis://[::1]x", "port"},
    {"redis://::1", "no host"},
    {"redis://u%:p@h", "user"},
    {"redis://u%4:p@h", "user"},
    {"redis://u%zz:p@h", "user"},
    {"redis://:p%00@h", "password"},
    {"unix://", "path"},
    {"unix:///", "path"},
    {"unix://relative", "path"},
    {"unix://?db=1", "path"},
    {"unix:///s?db=", "?db="},
    {"unix:///s?db=x", "?db="},
    {"unix:///s?dbx=1", "?db="},
    {"unix:///s%0", "path"},
    {"unix:///s%00", "path"},
};

START_TEST(test_endpoint_is_refused)
{
    const char *reason = NULL;
    struct redlock__endpoint endpoint;

    ck_assert_int_eq(redlock__endpoint_parse(bad[_i].uri, &endpoint, &reason), REDLOCK_ERR_URI);
    ck_assert_msg(strstr(reason, bad[_i].part) != NULL, "%s: %s", bad[_i].uri, reason);
}
END_TEST

START_TEST(test_endpoint_too_long)
{
    char uri[8192] = "redis://";
    const char *reason = NULL;
    struct redlock__endpoint endpoint;

    memset(uri + 8, 'a', REDLOCK__MAX_HOST_LEN);
    strcpy(uri + 8 + REDLOCK__MAX_HOST_LEN, ":65535/2147483647");
    ck_assert_int_eq(redlock__endpoint_parse(uri, &endpoint, &reason), 0);
    ck_assert_str_eq(endpoint.address, uri + 8); /* nothing is cut */
    memset(uri + 8, 'a', REDLOCK__MAX_HOST_LEN + 1);
    ck_assert_int_eq(redlock__endpoint_parse(uri, &endpoint, &reason), REDLOCK_ERR_URI);

    strcpy(uri, "unix:///");
    memset(uri + 8, 'a', REDLOCK__MAX_PATH_LEN - 1);
    uri[8 + REDLOCK__MAX_PATH_LEN - 1] = '\0';
    ck_assert_int_eq(redlock__endpoint_parse(uri, &endpoint, &reason), 0);
    strcat(uri, "a");
    ck_assert_int_eq(redlock__endpoint_parse(uri, &endpoint, &reason), REDLOCK_ERR_URI);

    strcpy(uri, "redis://:");
    memset(uri + 9, 'p', REDLOCK__MAX_SECRET_LEN);
    strcpy(uri + 9 + REDLOCK__MAX_SECRET_LEN, "@h");
    ck_assert_int_eq(redlock__endpoint_parse(uri, &endpoint, &reason), REDLOCK_ERR_URI);
}
END_TEST

START_TEST(test_tls_may_not_be_in_this_build)
{
    const char *const nodes[] = {"rediss://:secret@h"};
    redlock_options options = with_nodes(nodes, 1);

    if (redlock_has_tls()) {
        ck_assert_int_eq(try(&options), 0);
        return;
    }
    assert_refused(&options, REDLOCK_ERR_UNSUPPORTED, "TLS is not in this build");
    assert_refused(&options, REDLOCK_ERR_UNSUPPORTED, "node 1");
}
END_TEST

/* No refusal repeats what may be a password. */
START_TEST(test_texts_never_show_a_secret)
{
    static const char *const leaky[] = {
        "redis://user:SECRET",   "redis://:SECRET/@h",      "redis://:pa/SECRET@h",
        "redis://u:SECRET@h:x",  "redis://u:SECRET@",       "redis://u:SECRET@h/x",
        "unix://u:SECRET@s",     "unix://u:SECRET@/s?db=x", "SECRET@h",
        "rediss://u:SECRET@h:x", "redis://u:SECRET%@h",     "redis://u:SECRET@[x]",
        "redis://SECRET@h",
    };
    const char *nodes[2] = {leaky[_i], "redis://b"};
    redlock_options options = with_nodes(nodes, 2);

    ck_assert_int_ne(try(&options), 0);
    ck_assert_ptr_null(strstr(text, "SECRET"));
    ck_assert_ptr_nonnull(strstr(text, "node 1"));
    ck_assert_int_eq(redlock__settings_new(&options, NULL, NULL, 0), try(&options));
}
END_TEST

START_TEST(test_duplicates_are_named)
{
    static const char *const pairs[][2] = {
        {"redis://h", "redis://H:6379"},
        {"redis://h:7/1", "redis://u:SECRET@h:7/2"},
        {"redis://[::1]:1", "redis://[::1]:1"},
        {"unix:///s", "unix://:SECRET@/s?db=1"},
    };
    const char *nodes[3] = {pairs[_i][0], "redis://other", pairs[_i][1]};
    redlock_options options = with_nodes(nodes, 3);

    assert_refused(&options, REDLOCK_ERR_DUPLICATE, "nodes 1 (");
    ck_assert_ptr_nonnull(strstr(text, "and 3 ("));
    ck_assert_ptr_null(strstr(text, "SECRET"));
}
END_TEST

START_TEST(test_password_option_is_for_nodes_without_one)
{
    const char *const nodes[] = {"redis://a", "redis://:own@b", "redis://user@c"};
    redlock_options options = with_nodes(nodes, 3);
    struct redlock__settings *settings;

    assert_refused(&options, REDLOCK_ERR_URI, "node 3, c:6379: a user needs a password");
    options.password = "common";
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_str_eq(settings->endpoints[0].password, "common");
    ck_assert_str_eq(settings->endpoints[1].password, "own");
    ck_assert_str_eq(settings->endpoints[2].password, "common");
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_external_loop_needs_numbers)
{
    const char *const names[] = {"redis://127.0.0.1", "redis://localhost"};
    const char *const numbers[] = {"redis://127.0.0.1", "redis://[::1]", "unix:///s"};
    redlock_options options = with_nodes(names, 2);

    options.external_loop = 1;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "node 2, localhost:6379");
    options = with_nodes(numbers, 3);
    options.external_loop = 1;
    ck_assert_int_eq(try(&options), 0);
}
END_TEST

/* Pieces of endpoints in random order: nothing crashes, nothing leaks, an address always fits. */
START_TEST(test_random_endpoints)
{
    static const char *const pieces[] = {
        "redis://", "unix://", "rediss://", "/",    ":",    "@",  "[",    "]",   "::1",       "h",
        "%",        "%41",     "%00",       "?db=", "6379", "99", "\x01", "a:b", "127.0.0.1", "..",
        "-",        "#",       " ",         "\xff", "1",    "%2", "[::]", "0"};
    char uri[256];
    uint32_t random = (uint32_t)_i * 2654435761u + 1;

    for (int round = 0; round < 2000; round++) {
        struct redlock__endpoint endpoint;
        const char *reason = "";
        int n = round % 12;
        strcpy(uri, round % 3 == 0 ? "" : pieces[round % 2]);
        while (n-- > 0) {
            random = random * 1664525u + 1013904223u;
            strcat(uri, pieces[(random >> 16) % (sizeof pieces / sizeof pieces[0])]);
        }
        if (redlock__endpoint_parse(uri, &endpoint, &reason) == 0) {
            ck_assert_uint_lt(strlen(endpoint.address), sizeof endpoint.address);
            ck_assert_uint_gt(strlen(endpoint.host), 0);
            redlock__endpoint_clear(&endpoint);
        } else {
            ck_assert_uint_gt(strlen(reason), 0);
        }
    }
}
END_TEST

/* ---- client options ----------------------------------------------------- */

START_TEST(test_defaults)
{
    struct redlock__settings *settings = settings_of(three, 3);

    ck_assert_uint_eq(settings->n, 3);
    ck_assert_uint_eq(settings->quorum, 0); /* these two are left to the markers */
    ck_assert_int_eq(settings->max_ttl_ms, 0);
    ck_assert_uint_eq(settings->drift_ppm, 10000);
    ck_assert_int_eq(settings->restart_guard_ms, REDLOCK_GUARD_AUTO);
    ck_assert_int_eq(settings->connect_timeout_ms, 1000);
    ck_assert_int_eq(settings->silence_limit_ms, 2000);
    ck_assert_str_eq(settings->prefix, "");
    ck_assert_str_eq(settings->client_name, "libredlock");
    ck_assert_str_eq(settings->endpoints[1].address, "b:7000/2");
    ck_assert_int_eq(settings->node_timeout_ms, 0);
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_node_count)
{
    static char names[REDLOCK_MAX_NODES + 1][32];
    const char *nodes[REDLOCK_MAX_NODES + 1];
    redlock_options options;

    for (int i = 0; i <= REDLOCK_MAX_NODES; i++) {
        (void)snprintf(names[i], sizeof names[i], "redis://h%d", i);
        nodes[i] = names[i];
    }
    options = with_nodes(nodes, REDLOCK_MAX_NODES);
    ck_assert_int_eq(try(&options), 0);
    options.node_count++;
    assert_refused(&options, REDLOCK_ERR_LIMIT, "from 1 to 31");
    options.node_count = 0;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "node_count is 0");
    options = with_nodes(NULL, 3);
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "node_count");
    nodes[1] = NULL;
    options = with_nodes(nodes, 3);
    assert_refused(&options, REDLOCK_ERR_URI, "node 2: it is NULL");
}
END_TEST

START_TEST(test_quorum_is_at_least_a_majority)
{
    static const char *const nodes[] = {"redis://a", "redis://b", "redis://c",
                                        "redis://d", "redis://e", "redis://f",
                                        "redis://g", "redis://h", "redis://i"};

    for (uint32_t n = 1; n <= 9; n++)
        for (uint32_t q = 0; q <= 10; q++) {
            redlock_options options = with_nodes(nodes, n);
            options.quorum = q;
            if (q == 0 || (q >= n / 2 + 1 && q <= n))
                ck_assert_int_eq(try(&options), 0);
            else
                assert_refused(&options, REDLOCK_ERR_QUORUM, "quorum");
        }
}
END_TEST

START_TEST(test_number_out_of_range)
{
    static const struct {
        const char *name;
        size_t offset;
        int64_t good, low, high;
    } numbers[] = {
        {"max_ttl_ms", offsetof(redlock_options, max_ttl_ms), REDLOCK_MAX_TTL_MS, -1,
         REDLOCK_MAX_TTL_MS + 1},
        {"max_ttl_ms", offsetof(redlock_options, max_ttl_ms), 0, INT64_MIN, INT64_MAX},
        {"restart_guard_ms", offsetof(redlock_options, restart_guard_ms), REDLOCK_GUARD_AUTO, -2,
         2 * REDLOCK_MAX_TTL_MS + 1},
        {"restart_guard_ms", offsetof(redlock_options, restart_guard_ms), 2 * REDLOCK_MAX_TTL_MS,
         INT64_MIN, INT64_MAX},
        {"node_timeout_ms", offsetof(redlock_options, node_timeout_ms), 0, -1, INT64_MAX},
        {"connect_timeout_ms", offsetof(redlock_options, connect_timeout_ms), 1, 0, INT64_MAX},
        {"silence_limit_ms", offsetof(redlock_options, silence_limit_ms), 1, INT64_MIN, 600001},
    };
    redlock_options options = with_nodes(three, 3);
    int64_t *number = (int64_t *)(void *)((char *)&options + numbers[_i].offset);

    *number = numbers[_i].good;
    ck_assert_int_eq(try(&options), 0);
    *number = numbers[_i].low;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, numbers[_i].name);
    *number = numbers[_i].high;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, numbers[_i].name);
    ck_assert_ptr_nonnull(strstr(text, "must be from"));
}
END_TEST

START_TEST(test_strings_out_of_range)
{
    char long_text[8192];
    redlock_options options = with_nodes(three, 3);

    memset(long_text, 'x', sizeof long_text);
    long_text[REDLOCK_MAX_PREFIX_LEN] = '\0';
    options.prefix = long_text;
    ck_assert_int_eq(try(&options), 0);
    long_text[REDLOCK_MAX_PREFIX_LEN] = 'x';
    long_text[REDLOCK_MAX_PREFIX_LEN + 1] = '\0';
    assert_refused(&options, REDLOCK_ERR_LIMIT, "prefix");
    options.client_name = long_text;
    options.prefix = "redlock:";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "prefix must not start with redlock:");
    options.prefix = NULL;
    assert_refused(&options, REDLOCK_ERR_LIMIT, "client_name");
    options.client_name = "two words";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "client_name");
    options.client_name = NULL;
    options.drift_ppm = REDLOCK_MAX_DRIFT_PPM + 1;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "drift_ppm");
}
END_TEST

START_TEST(test_versions_of_options)
{
    struct {
        redlock_options known;
        char later[64];
    } newer;
    redlock_options options = with_nodes(three, 3);
    struct redlock__settings *settings;

    options.size = offsetof(redlock_options, connect_timeout_ms);
    options.connect_timeout_ms = -5; /* not there, as far as the caller's version goes */
    options.quorum = 3;
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(settings->connect_timeout_ms, 1000);
    ck_assert_uint_eq(settings->quorum, 3);
    redlock__settings_free(settings);

    options.size = offsetof(redlock_options, restart_guard_ms);
    options.connect_timeout_ms = 1;
    options.restart_guard_ms = 0;
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(settings->restart_guard_ms, REDLOCK_GUARD_AUTO);
    options.size = sizeof options;
    redlock__settings_free(settings);
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(settings->restart_guard_ms, 0);
    redlock__settings_free(settings);

    memset(&newer, 0, sizeof newer);
    newer.known = with_nodes(three, 3);
    newer.known.size = sizeof newer;
    ck_assert_int_eq(try(&newer.known), 0);
    newer.later[60] = 1;
    assert_refused(&newer.known, REDLOCK_ERR_UNSUPPORTED, "does not know");

    options.size = 0;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "redlock_options_init()");
    options.size = SIZE_MAX;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "redlock_options_init()");
}
END_TEST

/* ---- lock options ------------------------------------------------------- */

static int check_lock(const redlock_lock_options *options, redlock_lock_options *checked)
{
    struct redlock__settings *settings = settings_of(three, 3);
    int rc = redlock__lock_options_check(settings, options, checked);

    redlock__settings_free(settings);
    return rc;
}

START_TEST(test_lock_option_out_of_range)
{
    static const struct {
        size_t offset;
        int64_t value;
        int rc;
    } fields[] = {
        {offsetof(redlock_lock_options, ttl_ms), 0, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, ttl_ms), -1, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, ttl_ms), INT64_MIN, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, ttl_ms), INT64_MAX, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, ttl_ms), REDLOCK_MAX_TTL_MS + 1, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, ttl_ms), REDLOCK_MAX_TTL_MS, 0},
        {offsetof(redlock_lock_options, ttl_ms), 3, REDLOCK_ERR_TTL}, /* drift: 1 + 2 */
        {offsetof(redlock_lock_options, ttl_ms), 4, 0},
        {offsetof(redlock_lock_options, min_validity_ms), -1, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, min_validity_ms), 9898, REDLOCK_ERR_TTL},
        {offsetof(redlock_lock_options, min_validity_ms), 9897, 0},
        {offsetof(redlock_lock_options, wait_ms), -2, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, wait_ms), REDLOCK_WAIT_FOREVER, 0},
        {offsetof(redlock_lock_options, wait_ms), REDLOCK_MAX_WAIT_MS, 0},
        {offsetof(redlock_lock_options, wait_ms), REDLOCK_MAX_WAIT_MS + 1, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, retry_base_ms), 0, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, retry_base_ms), 1000, 0},
        {offsetof(redlock_lock_options, retry_base_ms), 1001, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, retry_cap_ms), INT64_MAX, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, max_hold_ms), -1, REDLOCK_ERR_ARGUMENT},
        {offsetof(redlock_lock_options, max_hold_ms), INT64_MAX, REDLOCK_ERR_ARGUMENT},
    };
    redlock_lock_options options, checked;

    redlock_lock_options_init(&options);
    *(int64_t *)(void *)((char *)&options + fields[_i].offset) = fields[_i].value;
    ck_assert_int_eq(check_lock(&options, &checked), fields[_i].rc);
}
END_TEST

/* Where it isn't, the engine asks the markers, or takes 60000. */
START_TEST(test_max_ttl_that_was_asked_for_bounds_the_ttl)
{
    redlock_options options = with_nodes(three, 3);
    struct redlock__settings *settings;

    options.max_ttl_ms = 60000;
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(settings->max_ttl_ms, 60000);
    ck_assert_int_eq(redlock__ttl_check(settings, 60000, 0), 0);
    ck_assert_int_eq(redlock__ttl_check(settings, 60001, 0), REDLOCK_ERR_TTL);
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_versions_of_lock_options)
{
    struct {
        redlock_lock_options known;
        char later[64];
    } newer;
    redlock_lock_options options, checked;

    ck_assert_int_eq(check_lock(NULL, &checked), 0);
    ck_assert_int_eq(checked.ttl_ms, 10000);
    redlock_lock_options_init(&options);
    options.ttl_ms = 5000;
    options.retry_base_ms = -1;
    options.size = offsetof(redlock_lock_options, retry_base_ms);
    ck_assert_int_eq(check_lock(&options, &checked), 0);
    ck_assert_int_eq(checked.ttl_ms, 5000);
    ck_assert_int_eq(checked.retry_base_ms, 10);
    options.size = sizeof options.size;
    ck_assert_int_eq(check_lock(&options, &checked), REDLOCK_ERR_ARGUMENT);

    memset(&newer, 0, sizeof newer);
    redlock_lock_options_init(&newer.known);
    newer.known.size = sizeof newer;
    ck_assert_int_eq(check_lock(&newer.known, &checked), 0);
    newer.later[0] = 1;
    ck_assert_int_eq(check_lock(&newer.known, &checked), REDLOCK_ERR_UNSUPPORTED);

    redlock_lock_options_init(&options);
    options.result_count = 1;
    ck_assert_int_eq(check_lock(&options, &checked), REDLOCK_ERR_ARGUMENT);
}
END_TEST

/* ---- init options ------------------------------------------------------- */

static int check_init(const redlock_init_options *options, redlock_init_options *checked)
{
    struct redlock__settings *settings = settings_of(three, 3);
    int rc = redlock__init_options_check(settings, options, checked);

    redlock__settings_free(settings);
    return rc;
}

START_TEST(test_init_options)
{
    redlock_init_options options, checked;

    memset(&checked, 0xff, sizeof checked);
    ck_assert_int_eq(check_init(NULL, &checked), 0);
    ck_assert_uint_eq(checked.size, sizeof checked);
    ck_assert_int_eq(checked.no_leases_out, 0);
    ck_assert_uint_eq(checked.retire, 0);
    ck_assert_uint_eq(checked.replace, 0);

    redlock_init_options_init(&options);
    redlock_init_options_init(NULL);
    options.no_leases_out = 1;
    options.retire = 1;
    options.replace = 3;
    ck_assert_int_eq(check_init(&options, &checked), 0);
    ck_assert_int_eq(checked.no_leases_out, 1);
    ck_assert_uint_eq(checked.retire, 1);
    ck_assert_uint_eq(checked.replace, 3);
}
END_TEST

START_TEST(test_init_option_out_of_range)
{
    static const struct {
        uint32_t retire, replace;
        int rc;
    } cases[] = {
        {3, 0, 0},
        {0, 3, 0},
        {2, 1, 0},
        {4, 0, REDLOCK_ERR_ARGUMENT},
        {0, 4, REDLOCK_ERR_ARGUMENT},
        {UINT32_MAX, 0, REDLOCK_ERR_ARGUMENT},
        {0, UINT32_MAX, REDLOCK_ERR_ARGUMENT},
        {2, 2, REDLOCK_ERR_ARGUMENT},
    };
    redlock_init_options options, checked;

    redlock_init_options_init(&options);
    options.retire = cases[_i].retire;
    options.replace = cases[_i].replace;
    ck_assert_int_eq(check_init(&options, &checked), cases[_i].rc);
}
END_TEST

START_TEST(test_versions_of_init_options)
{
    struct {
        redlock_init_options known;
        char later[64];
    } newer;
    redlock_init_options options, checked;

    redlock_init_options_init(&options);
    options.no_leases_out = 1;
    options.retire = 77; /* not there, as far as the caller's version goes */
    options.size = offsetof(redlock_init_options, retire);
    ck_assert_int_eq(check_init(&options, &checked), 0);
    ck_assert_int_eq(checked.no_leases_out, 1);
    ck_assert_uint_eq(checked.retire, 0);
    ck_assert_uint_eq(checked.size, sizeof checked);
    options.size = sizeof options.size;
    ck_assert_int_eq(check_init(&options, &checked), REDLOCK_ERR_ARGUMENT);

    memset(&newer, 0, sizeof newer);
    redlock_init_options_init(&newer.known);
    newer.known.size = sizeof newer;
    ck_assert_int_eq(check_init(&newer.known, &checked), 0);
    newer.later[63] = 1;
    ck_assert_int_eq(check_init(&newer.known, &checked), REDLOCK_ERR_UNSUPPORTED);
}
END_TEST

/* ---- keys and tokens ---------------------------------------------------- */

START_TEST(test_full_key)
{
    static char key[REDLOCK_MAX_KEY_LEN + 1];
    struct redlock__full_key full;
    redlock_options options = with_nodes(three, 3);
    struct redlock__settings *settings;

    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(redlock__full_key(settings, key, sizeof key - 1, &full), 0);
    ck_assert_ptr_eq(full.text, key);
    ck_assert_uint_eq(full.len, sizeof key - 1);
    ck_assert_int_eq(redlock__full_key(settings, key, sizeof key, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, "redlock:", 8, &full), REDLOCK_ERR_KEY);
    redlock__settings_free(settings);
    options.prefix = "red";
    ck_assert_int_eq(redlock__settings_new(&options, &settings, NULL, 0), 0);
    ck_assert_int_eq(redlock__full_key(settings, "a\0b", 3, &full), 0);
    ck_assert_uint_eq(full.len, 6);
    ck_assert_mem_eq(full.text, "reda\0b", 6);
    ck_assert_int_eq(redlock__full_key(settings, "", 0, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, key, sizeof key - 4, &full), 0);
    ck_assert_int_eq(redlock__full_key(settings, key, sizeof key - 3, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, key, SIZE_MAX, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, "redlock:", 8, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, "lock:x", 6, &full), REDLOCK_ERR_KEY);
    ck_assert_int_eq(redlock__full_key(settings, "redlock", 7, &full), 0);
    redlock__settings_free(settings);
}
END_TEST

static const char value[] = "0123456789abcdef0123456789abcdef";

START_TEST(test_token_round_trip)
{
    struct redlock__settings *settings = settings_of(three, 3);

    for (uint32_t mask = 1; mask < 8; mask++) {
        char token[REDLOCK_TOKEN_LEN], back[REDLOCK__TOKEN_VALUE_LEN + 1];
        uint32_t counted = 0;
        redlock__token_format(settings, value, mask, token);
        ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), 0);
        ck_assert_str_eq(back, value);
        ck_assert_uint_eq(counted, mask);
    }
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_token_with_a_warning)
{
    static const char *const wrong[] = {"-",      "-7",   "-7-",      "-7-g",          "-8-3e8",
                                        "-0-3e8", "-7-0", "-7-3e8-1", "-7-fffffffffff"};
    struct redlock__settings *settings = settings_of(three, 3);
    char token[REDLOCK_TOKEN_LEN], back[REDLOCK__TOKEN_VALUE_LEN + 1];
    uint32_t counted;
    int64_t cut_ms = 0;
    size_t len;

    redlock__token_format(settings, value, 5, token);
    len = strlen(token);
    ck_assert_uint_eq(redlock__token_warning(token, &cut_ms), 0);
    redlock__token_warn(token, 6, REDLOCK_MAX_TTL_MS);
    ck_assert_uint_lt(strlen(token), REDLOCK_TOKEN_LEN - 1);
    ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), 0);
    ck_assert_uint_eq(counted, 5);
    ck_assert_uint_eq(redlock__token_warning(token, &cut_ms), 6);
    ck_assert_int_eq(cut_ms, REDLOCK_MAX_TTL_MS);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(token + len, sizeof token - len, "%s", wrong[i]);
        ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    }
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_token_of_another_list)
{
    static const char *const lists[][3] = {
        {"redis://b:7000/2", "redis://a", "unix:///run/c.sock"}, /* another order */
        {"redis://a", "redis://b:7000/1", "unix:///run/c.sock"}, /* another database */
        {"redis://a", "redis://b:7000/2", "unix:///run/d.sock"},
    };
    struct redlock__settings *here = settings_of(three, 3), *there = settings_of(lists[_i], 3);
    char token[REDLOCK_TOKEN_LEN], back[REDLOCK__TOKEN_VALUE_LEN + 1];
    uint32_t counted;

    redlock__token_format(here, value, 7, token);
    ck_assert_int_eq(redlock__token_parse(there, token, back, &counted), REDLOCK_ERR_MEMBERS);
    redlock__settings_free(here);
    redlock__settings_free(there);
}
END_TEST

START_TEST(test_same_list_with_other_passwords)
{
    static const char *const list[] = {"redis://u:p@A:6379/0", "redis://:q@b:7000/2",
                                       "unix://:r@/run/c.sock"};
    struct redlock__settings *here = settings_of(three, 3), *there = settings_of(list, 3);

    ck_assert_uint_eq(here->fingerprint, there->fingerprint);
    redlock__settings_free(here);
    redlock__settings_free(there);
}
END_TEST

START_TEST(test_token_is_refused)
{
    struct redlock__settings *settings = settings_of(three, 3);
    char good_token[REDLOCK_TOKEN_LEN], token[2 * REDLOCK_TOKEN_LEN];
    char back[REDLOCK__TOKEN_VALUE_LEN + 1] = "untouched";
    uint32_t counted = 99;

    redlock__token_format(settings, value, 5, good_token);
    for (size_t len = 0; len < strlen(good_token); len++) {
        memcpy(token, good_token, len);
        token[len] = '\0';
        ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    }
    for (size_t i = 0; i < strlen(good_token); i++) {
        strcpy(token, good_token);
        token[i] = 'G';
        ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    }
    (void)snprintf(token, sizeof token, "%s ", good_token);
    ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    redlock__token_format(settings, value, 0, token); /* nobody counted */
    ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    redlock__token_format(settings, value, 8, token); /* a fourth of three */
    ck_assert_int_eq(redlock__token_parse(settings, token, back, &counted), REDLOCK_ERR_TOKEN);
    ck_assert_str_eq(back, "untouched");
    ck_assert_uint_eq(counted, 99);
    redlock__settings_free(settings);
}
END_TEST

/* ---- texts of results --------------------------------------------------- */

START_TEST(test_every_result_has_a_text)
{
    for (int rc = REDLOCK_ERR_MISCONFIGURED; rc <= REDLOCK_OK; rc++) {
        bool known = rc >= REDLOCK_CANCELLED || rc <= REDLOCK_ERR_ARGUMENT;
        ck_assert_msg((strcmp(redlock_strerror(rc), "unknown result") != 0) == known, "%d", rc);
        ck_assert_int_eq(redlock_is_outcome(rc), rc > REDLOCK_ERR_ARGUMENT);
    }
    ck_assert_int_eq(redlock_is_outcome(1), 0);
    ck_assert_str_eq(redlock_strerror(INT32_MIN), "unknown result");
    for (int vote = REDLOCK_VOTE_NONE; vote <= REDLOCK_VOTE_BARRED; vote++)
        ck_assert_str_ne(redlock_vote_name((redlock_vote)vote), "unknown");
    ck_assert_str_eq(redlock_vote_name((redlock_vote)77), "unknown");
    ck_assert_str_ne(redlock_version(), "");
}
END_TEST

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

static Suite *options_suite(void)
{
    Suite *suite = suite_create("options");
    TCase *endpoints = tcase_create("endpoints"), *client = tcase_create("client");
    TCase *locks = tcase_create("locks"), *results = tcase_create("results");

    tcase_add_loop_test(endpoints, test_endpoint_is_taken_apart, 0, LENGTH(good));
    tcase_add_loop_test(endpoints, test_endpoint_is_refused, 0, LENGTH(bad));
    tcase_add_test(endpoints, test_endpoint_too_long);
    tcase_add_test(endpoints, test_tls_may_not_be_in_this_build);
    tcase_add_loop_test(endpoints, test_texts_never_show_a_secret, 0, 13);
    tcase_add_loop_test(endpoints, test_duplicates_are_named, 0, 4);
    tcase_add_test(endpoints, test_password_option_is_for_nodes_without_one);
    tcase_add_test(endpoints, test_external_loop_needs_numbers);
    tcase_add_loop_test(endpoints, test_random_endpoints, 0, 10);
    suite_add_tcase(suite, endpoints);
    tcase_add_test(client, test_defaults);
    tcase_add_test(client, test_node_count);
    tcase_add_test(client, test_quorum_is_at_least_a_majority);
    tcase_add_loop_test(client, test_number_out_of_range, 0, 7);
    tcase_add_test(client, test_strings_out_of_range);
    tcase_add_test(client, test_versions_of_options);
    suite_add_tcase(suite, client);
    tcase_add_loop_test(locks, test_lock_option_out_of_range, 0, 21);
    tcase_add_test(locks, test_max_ttl_that_was_asked_for_bounds_the_ttl);
    tcase_add_test(locks, test_versions_of_lock_options);
    tcase_add_test(locks, test_init_options);
    tcase_add_loop_test(locks, test_init_option_out_of_range, 0, 8);
    tcase_add_test(locks, test_versions_of_init_options);
    tcase_add_test(locks, test_full_key);
    tcase_add_test(locks, test_token_round_trip);
    tcase_add_test(locks, test_token_with_a_warning);
    tcase_add_loop_test(locks, test_token_of_another_list, 0, 3);
    tcase_add_test(locks, test_same_list_with_other_passwords);
    tcase_add_test(locks, test_token_is_refused);
    suite_add_tcase(suite, locks);
    tcase_add_test(results, test_every_result_has_a_text);
    suite_add_tcase(suite, results);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(options_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
