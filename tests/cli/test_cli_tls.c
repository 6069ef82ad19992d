/*
 * The command line on rediss:// primaries: its four options, and what it says when they are wrong.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "redlock.h"
#include "servers.h"
#include "tls_servers.h"
#include "worker.h"

enum {
    N = 3,
    USAGE = 64,
    NO_QUORUM = 69
};

static struct driver driver;

static void set_up(void)
{
    tls_servers_start(N);
    driver_set_nodes(tls_uris(), N);
}

static void expect_err(const char *text)
{
    ck_assert_msg(strstr(driver.err.bytes, text) != NULL, "no '%s' in: %s", text, driver.err.bytes);
}

/* What was printed: one line. */
static void take_token(char token[128])
{
    ck_assert_int_eq(driver_count(driver.out.bytes, "\n"), 1);
    ck_assert_uint_lt(driver.out.length, 128);
    memcpy(token, driver.out.bytes, driver.out.length);
    token[driver.out.length - 1] = '\0';
}

/* ---- right -------------------------------------------------------------- */

START_TEST(test_acquire_extend_release_and_run)
{
    const char *ca = tls_file("ca.crt");
    char token[128];

    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--cacert", ca), 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", ca, "k"), 0);
    ck_assert_str_eq(driver.err.bytes, "");
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "show", "--cacert", ca, "k"), 0);
    ck_assert_int_eq(RUN(&driver, "extend", "--cacert", ca, "k", token), 0);
    take_token(token);
    ck_assert_int_eq(RUN(&driver, "release", "--cacert", ca, "k", token), 0);
    ck_assert_int_eq(servers_with_key("k"), 0);
    ck_assert_int_eq(RUN(&driver, "run", "--cacert", ca, "k", "--", "sh", "-c", "exit 7"), 7);
    ck_assert_int_eq(servers_with_key("k"), 0);
}
END_TEST

START_TEST(test_certificate_and_name)
{
    const char *ca = tls_file("ca.crt"), *cert = tls_file("client.crt");
    const char *key = tls_file("client.key");

    for (int i = 0; i < N; i++)
        tls_servers_use(i, "other", "yes");
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--cacert", ca, "--cert", cert,
                         "--key-file", key, "--sni", "other.example"),
                     0);
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", ca, "--cert", cert, "--key-file", key,
                         "--sni", "other.example", "k"),
                     0);
    ck_assert_int_eq(
        RUN(&driver, "acquire", "--cacert", ca, "--cert", cert, "--key-file", key, "j"), NO_QUORUM);
    expect_err("TLS: certificate verify failed: IP address mismatch, not for 127.0.0.1");
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", ca, "--sni", "other.example", "j"),
                     NO_QUORUM);
    expect_err("wants a client certificate");
}
END_TEST

/* ---- wrong -------------------------------------------------------------- */

START_TEST(test_mistakes_are_named)
{
    const char *ca = tls_file("ca.crt");

    ck_assert_int_eq(RUN(&driver, "acquire", "k"), NO_QUORUM);
    expect_err("TLS: certificate verify failed: self");
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", "/does/not/exist", "k"), USAGE);
    expect_err("/does/not/exist: No such file or directory");
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", ca, "--cert", ca, "k"), USAGE);
    expect_err("cert_file and key_file are given together or not at all");
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert"), USAGE);
    expect_err("--cacert needs a value");
    driver_set_nodes(servers_uris(), N);
    ck_assert_int_eq(RUN(&driver, "acquire", "--cacert", ca, "k"), USAGE);
    expect_err("ca_file is for rediss:// endpoints, and there is none");
    ck_assert_int_eq(servers_with_key("k"), 0);
}
END_TEST

static Suite *tls_suite(void)
{
    Suite *suite = suite_create("cli_tls");
    TCase *tests = tcase_create("tests");

    tcase_add_checked_fixture(tests, set_up, servers_stop);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, test_acquire_extend_release_and_run);
    tcase_add_test(tests, test_certificate_and_name);
    tcase_add_test(tests, test_mistakes_are_named);
    suite_add_tcase(suite, tests);
    return suite;
}

int main(int argc, char **argv)
{
    if (!redlock_has_tls()) {
        puts("TLS is not in this build");
        return EXIT_SUCCESS;
    }
    tls_files_make();
    return worker_main(argc, argv, REDLOCK_CLI_PATH, tls_suite);
}
