/* What no command may ever say: a password. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "servers.h"
#include "worker.h"

#define PASSWORD DRIVER_PASSWORD

static struct driver driver;
static struct worker_board *board;

static void set_up(void)
{
    servers_start_with(3, WORDS("--requirepass", PASSWORD));
    driver_set_nodes(servers_uris(), 3);
    setenv("REDLOCK_PASSWORD", PASSWORD, 1);
    driver_mark();
    unsetenv("REDLOCK_PASSWORD");
    board = worker_board_new();
}

static void tear_down(void)
{
    worker_board_free(board);
    servers_stop();
}

static const char *address(int i)
{
    return servers_uri(i) + strlen("redis://");
}

static void expect_secret_kept(void)
{
    driver_expect_secret_kept(&driver);
}

static void expect_said(const char *text)
{
    ck_assert_msg(strstr(driver.out.bytes, text) != NULL, "no %s in: %s", text, driver.out.bytes);
}

/* Every command, talkative, with the password from wherever the words before say. */
static void use_everything(const char *option, const char *value, int works)
{
    const char *const more = option ? option : "-v";
    const char *const more_value = option ? value : "-v";
    char token[256];
    const char *at;

    ck_assert_int_eq(RUN(&driver, "acquire", "-vv", "--json", more, more_value, "k"),
                     works ? 0 : 69);
    expect_secret_kept();
    at = strstr(driver.out.bytes, "\"token\":\"");
    snprintf(token, sizeof token, "%.*s", at ? (int)strcspn(at + 9, "\"") : 0, at ? at + 9 : "");
    RUN(&driver, "show", "-vv", more, more_value, "k");
    expect_secret_kept();
    RUN(&driver, "extend", "-vv", more, more_value, "k", token);
    expect_secret_kept();
    RUN(&driver, "release", "-vv", "--json", more, more_value, "k", token);
    expect_secret_kept();
    RUN(&driver, "run", "-vvn", more, more_value, "k", "--", "true");
    expect_secret_kept();
    RUN(&driver, "run", "-vvn", "--json", more, more_value, "k", "--", "true");
    expect_secret_kept();
}

START_TEST(test_password_from_the_environment)
{
    setenv("REDLOCK_PASSWORD", PASSWORD, 1);
    use_everything(NULL, NULL, 1);
}
END_TEST

START_TEST(test_password_from_a_file)
{
    char path[64];

    setenv("REDLOCK_PASSWORD", "another", 1);
    use_everything("--password-file", driver_file(PASSWORD "\nsecond line\n", path), 1);
    unlink(path);
}
END_TEST

START_TEST(test_wrong_password_is_not_told_either)
{
    setenv("REDLOCK_PASSWORD", PASSWORD "x", 1);
    use_everything(NULL, NULL, 0);
    ck_assert_int_eq(RUN(&driver, "acquire", "k"), 69);
    ck_assert_ptr_nonnull(strstr(driver.err.bytes, "WRONGPASS"));
}
END_TEST

START_TEST(test_password_in_an_argument_is_overwritten)
{
    char uris[3][128];

    for (int i = 0; i < 3; i++)
        snprintf(uris[i], sizeof uris[i], "redis://default:%s@%s", PASSWORD, address(i));
    START(&driver, "run", "-vv", "--json", "--node", uris[0], "--node", uris[1], "k", "--node",
          uris[2], "--", worker_program(), "--worker", worker_board_path(), "-");
    worker_wait(board, 1);
    driver_expect_secret_hidden(driver.pid);
    driver_expect_secret_hidden(driver_child_of(driver.pid));
    board->stop = 1 + 2;
    ck_assert_int_eq(driver_wait(&driver), 2);
    expect_secret_kept();
}
END_TEST

START_TEST(test_mistakes_do_not_tell_the_password)
{
    const char *secret = "redis://user:" PASSWORD "@127.0.0.1:1";
    char path[64];

    ck_assert_int_eq(RUN(&driver, "show", "k", secret), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, secret), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "acquire", "k", "--ttl", secret), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "acquire", "k", "--nod=redis://user:" PASSWORD "@h"), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "acquire", "k", "--json=redis://user:" PASSWORD "@h"), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "show", "k", "--node", "redis://user:" PASSWORD "@h:nonsense"),
                     64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "show", "k", "--node", secret, "--node", secret), 78);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "init", secret), 64);
    expect_secret_kept();
    ck_assert_int_eq(RUN(&driver, "init", "--replace", "4", secret), 64);
    expect_secret_kept();
    driver_file("redis://user:" PASSWORD "@h:nonsense", path);
    ck_assert_int_eq(RUN(&driver, "show", "k", "--nodes-file", path), 64);
    expect_secret_kept();
    unlink(path);
    setenv("REDLOCK_NODES", "redis://user:" PASSWORD "@h:nonsense", 1);
    ck_assert_int_eq(RUN(&driver, "show", "k"), 64);
    expect_secret_kept();
}
END_TEST

/* The list to copy is without it, too. */
START_TEST(test_replace_does_not_print_the_password)
{
    char uri[128];

    setenv("REDLOCK_PASSWORD", PASSWORD, 1);
    snprintf(uri, sizeof uri, "redis://default:%s@%s", PASSWORD, address(0));
    ck_assert_int_eq(RUN(&driver, "init", "--no-leases-out", "--replace", "1", uri), 0);
    expect_secret_kept();
    expect_said("export REDLOCK_NODES=\"redis://***@127.0.0.1:");
    expect_said(servers_uri(2));
}
END_TEST

static Suite *passwords_suite(void)
{
    Suite *suite = suite_create("cli passwords");
    TCase *secret = tcase_create("password");

    tcase_add_checked_fixture(secret, set_up, tear_down);
    tcase_set_timeout(secret, 60);
    tcase_add_test(secret, test_password_from_the_environment);
    tcase_add_test(secret, test_password_from_a_file);
    tcase_add_test(secret, test_wrong_password_is_not_told_either);
    tcase_add_test(secret, test_password_in_an_argument_is_overwritten);
    tcase_add_test(secret, test_mistakes_do_not_tell_the_password);
    tcase_add_test(secret, test_replace_does_not_print_the_password);
    suite_add_tcase(suite, secret);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, passwords_suite);
}
