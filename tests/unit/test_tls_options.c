/*
 * rediss:// endpoints and the options that go with them: what is accepted and what each refusal
 * says. In a build without TLS everything is refused as that.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static char text[256];
static const char *const mixed[] = {"redis://a", "rediss://b", "unix:///run/c.sock"};
static const char *const plain[] = {"redis://a", "unix:///run/c.sock"};

static redlock_options with_nodes(const char *const *nodes, size_t count)
{
    redlock_options options;

    redlock_options_init(&options);
    options.nodes = nodes;
    options.node_count = count;
    return options;
}

static int try(const redlock_options *options)
{
    struct redlock__settings *settings = NULL;
    int rc;

    memset(text, 0, sizeof text);
    rc = redlock__settings_new(options, &settings, text, sizeof text);
    redlock__settings_free(settings);
    return rc;
}

static void assert_refused(const redlock_options *options, int rc, const char *part)
{
    if (!redlock_has_tls()) {
        ck_assert_int_eq(try(options), REDLOCK_ERR_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(text, "TLS is not in this build"));
        return;
    }
    ck_assert_int_eq(try(options), rc);
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in '%s'", part, text);
}

/* ---- endpoints ---------------------------------------------------------- */

static const struct good {
    const char *uri, *address, *host, *user, *password;
    unsigned port, database;
    bool numeric;
} good[] = {
    {"rediss://h", "h:6379", "h", NULL, NULL, 6379, 0, false},
    {"REDISS://Host.Example:1/15", "host.example:1/15", "host.example", NULL, NULL, 1, 15, false},
    {"rediss://10.0.0.1:7000", "10.0.0.1:7000", "10.0.0.1", NULL, NULL, 7000, 0, true},
    {"rediss://u:p%40w@[::1]", "[::1]:6379", "::1", "u", "p@w", 6379, 0, true},
};

START_TEST(test_endpoint_is_taken_apart)
{
    const struct good *g = &good[_i];
    struct redlock__endpoint endpoint;
    const char *reason = NULL;
    int rc = redlock__endpoint_parse(g->uri, &endpoint, &reason);

    if (!redlock_has_tls()) {
        ck_assert_int_eq(rc, REDLOCK_ERR_UNSUPPORTED);
        return;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert(endpoint.tls);
    ck_assert(!endpoint.local);
    ck_assert(endpoint.numeric == g->numeric);
    ck_assert_str_eq(endpoint.address, g->address);
    ck_assert_str_eq(endpoint.host, g->host);
    ck_assert_pstr_eq(endpoint.user, g->user);
    ck_assert_pstr_eq(endpoint.password, g->password);
    ck_assert_uint_eq(endpoint.port, g->port);
    ck_assert_uint_eq(endpoint.database, g->database);
    redlock__endpoint_clear(&endpoint);
}
END_TEST

START_TEST(test_endpoint_is_refused)
{
    static const char *const bad[] = {"rediss:/h",          "rediss://",         "rediss:///run/x",
                                      "rediss://unix:///x", "redissredis://h",   "redisss://h",
                                      "rediss://h:0",       "rediss://redis://h"};
    struct redlock__endpoint endpoint;
    const char *reason = NULL;
    int rc = redlock__endpoint_parse(bad[_i], &endpoint, &reason);

    ck_assert(rc == REDLOCK_ERR_URI || (rc == REDLOCK_ERR_UNSUPPORTED && !redlock_has_tls()));
    ck_assert_ptr_nonnull(reason);
}
END_TEST

START_TEST(test_other_endpoints_are_plain)
{
    struct redlock__endpoint endpoint;
    const char *reason = NULL;

    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(redlock__endpoint_parse(plain[i], &endpoint, &reason), 0);
        ck_assert(!endpoint.tls);
        redlock__endpoint_clear(&endpoint);
    }
}
END_TEST

/* Encrypted or not, a primary has one vote, and a token is of the same list. */
START_TEST(test_scheme_is_no_part_of_the_address)
{
    static const char *const twice[] = {"redis://h:1", "rediss://H:1"};
    static const char *const with[] = {"rediss://h:1"}, *const without[] = {"redis://h:1"};
    redlock_options options = with_nodes(twice, 2);
    struct redlock__settings *a, *b;

    assert_refused(&options, REDLOCK_ERR_DUPLICATE, "one server");
    if (!redlock_has_tls())
        return;
    options = with_nodes(with, 1);
    ck_assert_int_eq(redlock__settings_new(&options, &a, NULL, 0), 0);
    options = with_nodes(without, 1);
    ck_assert_int_eq(redlock__settings_new(&options, &b, NULL, 0), 0);
    ck_assert_uint_eq(a->fingerprint, b->fingerprint);
    redlock__settings_free(a);
    redlock__settings_free(b);
}
END_TEST

/* ---- options ------------------------------------------------------------ */

START_TEST(test_options_are_copied)
{
    char ca[] = "ca", cert[] = "cert", key[] = "key", name[] = "name";
    redlock_options options = with_nodes(mixed, 3);
    struct redlock__settings *settings;

    if (!redlock_has_tls())
        return;
    options.ca_file = ca;
    options.cert_file = cert;
    options.key_file = key;
    options.server_name = name;
    options.tls_min = 13;
    ck_assert_int_eq(redlock__settings_new(&options, &settings, text, sizeof text), 0);
    ca[0] = cert[0] = key[0] = name[0] = 'X';
    ck_assert(settings->tls.wanted);
    ck_assert_str_eq(settings->tls.ca_file, "ca");
    ck_assert_str_eq(settings->tls.cert_file, "cert");
    ck_assert_str_eq(settings->tls.key_file, "key");
    ck_assert_str_eq(settings->tls.server_name, "name");
    ck_assert_uint_eq(settings->tls.min_version, 13);
    redlock__settings_free(settings);
}
END_TEST

START_TEST(test_default_is_no_tls)
{
    redlock_options options = with_nodes(plain, 2);
    struct redlock__settings *settings;

    ck_assert_int_eq(redlock__settings_new(&options, &settings, text, sizeof text), 0);
    ck_assert(!settings->tls.wanted);
    ck_assert_ptr_null(settings->tls.ca_file);
    redlock__settings_free(settings);
    options.size = offsetof(redlock_options, ca_file); /* an application of before */
    options.ca_file = "not read";
    ck_assert_int_eq(try(&options), 0);
}
END_TEST

/* Whoever gives one believes that something is encrypted. */
START_TEST(test_options_without_an_endpoint_are_refused)
{
    redlock_options options = with_nodes(plain, 2);

    options.ca_file = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "ca_file is for rediss:// endpoints");
    options.ca_file = NULL;
    options.cert_file = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "cert_file is for rediss:// endpoints");
    options.cert_file = NULL;
    options.key_file = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "key_file is for rediss:// endpoints");
    options.key_file = NULL;
    options.server_name = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "server_name is for rediss:// endpoints");
    options.server_name = NULL;
    options.tls_min = 12;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "tls_min is for rediss:// endpoints");
}
END_TEST

START_TEST(test_values_are_checked)
{
    redlock_options options = with_nodes(mixed, 3);
    char name[REDLOCK__MAX_HOST_LEN + 2];

    options.cert_file = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "together");
    options.cert_file = NULL;
    options.key_file = "x";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "together");
    options.key_file = NULL;
    options.tls_min = 11;
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "tls_min must be 12 (TLS 1.2), 13");
    options.tls_min = 0;
    options.server_name = "";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "server_name is empty");
    options.server_name = "a b";
    assert_refused(&options, REDLOCK_ERR_ARGUMENT, "no host name has");
    memset(name, 'n', sizeof name);
    name[REDLOCK__MAX_HOST_LEN + 1] = '\0';
    options.server_name = name;
    assert_refused(&options, REDLOCK_ERR_LIMIT, "238");
    name[REDLOCK__MAX_HOST_LEN] = '\0';
    if (redlock_has_tls())
        ck_assert_int_eq(try(&options), 0);
}
END_TEST

static Suite *tls_options_suite(void)
{
    Suite *suite = suite_create("tls_options");
    TCase *endpoints = tcase_create("endpoints"), *options = tcase_create("options");

    tcase_add_loop_test(endpoints, test_endpoint_is_taken_apart, 0,
                        (int)(sizeof good / sizeof good[0]));
    tcase_add_loop_test(endpoints, test_endpoint_is_refused, 0, 8);
    tcase_add_test(endpoints, test_other_endpoints_are_plain);
    tcase_add_test(endpoints, test_scheme_is_no_part_of_the_address);
    suite_add_tcase(suite, endpoints);
    tcase_add_test(options, test_options_are_copied);
    tcase_add_test(options, test_default_is_no_tls);
    tcase_add_test(options, test_options_without_an_endpoint_are_refused);
    tcase_add_test(options, test_values_are_checked);
    suite_add_tcase(suite, options);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(tls_options_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
