/*
 * Servers of other versions than the machine's, from tools/servers.sh: that they are what their
 * name says, which compare-and-set commands they know, and that the library works on them.
 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    THREE = 3,
    NODE_MS = 1000
};

struct flavour {
    const char *name;
    const char *version; /* as INFO begins to tell it */
    bool set_ifeq, delex, delifeq;
};

static const struct flavour flavours[] = {
    {"redis-8.0", "\nredis_version:8.0.", false, false, false},
    {"redis-8.6", "\nredis_version:8.6.", true, true, false},
    {"valkey-8.1", "\nvalkey_version:8.1.", true, false, false},
    {"valkey-9.1", "\nvalkey_version:9.1.", true, false, true},
};
enum {
    FLAVOURS = sizeof flavours / sizeof flavours[0]
};

static bool start(const struct flavour *flavour)
{
    if (!servers_use(flavour->name)) {
        (void)printf("skipped: %s is not in the cache; tools/servers.sh get %s\n", flavour->name,
                     flavour->name);
        return false;
    }
    servers_start(THREE);
    return true;
}

static void stop(void)
{
    servers_stop();
    (void)servers_use(NULL);
}

/* A reply that says the server doesn't know the command, or not with these words. */
static bool is_unknown(const char *reply)
{
    return reply != NULL && (strncmp(reply, "-ERR unknown command", 20) == 0 ||
                             strcmp(reply, "-ERR syntax error") == 0);
}

static bool knows_set_ifeq(int i)
{
    const char *reply;

    ck_assert_str_eq(servers_command(i, "SET", "k", "x", NULL), "OK");
    reply = servers_command(i, "SET", "k", "y", "IFEQ", "x", NULL);
    if (is_unknown(reply))
        return false;
    ck_assert_pstr_eq(reply, "OK");
    ck_assert_pstr_eq(servers_command(i, "SET", "k", "z", "IFEQ", "x", NULL), NULL);
    ck_assert_pstr_eq(servers_command(i, "GET", "k", NULL), "y");
    return true;
}

/* COMMAND k VALUE, with `word` before the value if there is one. */
static bool knows_removal(int i, const char *command, const char *word)
{
    static const char *const values[] = {"other", "x"};
    char kept[2][256];

    ck_assert_str_eq(servers_command(i, "SET", "k", "x", NULL), "OK");
    for (int at = 0; at < 2; at++) {
        const char *reply = word == NULL ? servers_command(i, command, "k", values[at], NULL)
                                         : servers_command(i, command, "k", word, values[at], NULL);
        (void)snprintf(kept[at], sizeof kept[at], "%s", reply == NULL ? "nil" : reply);
    }
    if (is_unknown(kept[0]))
        return false;
    ck_assert_str_eq(kept[0], "0");
    ck_assert_str_eq(kept[1], "1");
    ck_assert_str_eq(servers_command(i, "EXISTS", "k", NULL), "0");
    return true;
}

START_TEST(test_is_what_its_name_says)
{
    const struct flavour *flavour = &flavours[_i];
    bool set_ifeq, delex, delifeq;

    if (!start(flavour))
        return;
    for (int i = 0; i < THREE; i++) {
        const char *info = servers_command(i, "INFO", "server", NULL);
        const char *at = strstr(info, flavour->version);

        ck_assert_msg(at != NULL, "%s says it is:\n%s", flavour->name, info);
        if (i == 0)
            (void)printf("%s: %.*s", flavour->name, (int)strcspn(at + 1, "\r\n"), at + 1);
    }
    set_ifeq = knows_set_ifeq(0);
    delex = knows_removal(0, "DELEX", "IFEQ");
    delifeq = knows_removal(0, "DELIFEQ", NULL);
    (void)printf("; SET IFEQ %s, DELEX %s, DELIFEQ %s\n", set_ifeq ? "yes" : "no",
                 delex ? "yes" : "no", delifeq ? "yes" : "no");
    ck_assert_int_eq(set_ifeq, flavour->set_ifeq);
    ck_assert_int_eq(delex, flavour->delex);
    ck_assert_int_eq(delifeq, flavour->delifeq);
}
END_TEST

START_TEST(test_acquire_extend_release)
{
    redlock_lock_options options = lock_options(5000, 0);
    redlock_client *client, *other;
    redlock_lock *lock;

    if (!start(&flavours[_i]))
        return;
    client = client_of(servers_uris(), THREE, NODE_MS);
    other = client_of(servers_uris(), THREE, NODE_MS);
    AWAIT(is_settled(client, THREE) && is_settled(other, THREE));
    lock = acquire(client, &options);
    AWAIT(servers_with_key("job") == THREE);
    assert_rc(try_lock(other, &options), REDLOCK_BUSY);
    assert_rc(redlock_extend(lock, 20000), REDLOCK_OK);
    ck_assert_int_gt(redlock_remaining_ms(lock), 5000);
    for (int i = 0; i < THREE; i++)
        AWAIT(strtol(servers_command(i, "PTTL", "job", NULL), NULL, 10) > 5000);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    assert_rc(try_lock(other, &options), REDLOCK_OK);
    redlock_client_free(other);
    redlock_client_free(client);
}
END_TEST

/* A flavour nobody knows leaves the machine's server in use; so does the way back to it. */
START_TEST(test_unknown_flavour)
{
    ck_assert(!servers_use("redis-0.0"));
    servers_start(1);
    ck_assert_pstr_eq(servers_command(0, "PING", NULL), "PONG");
    ck_assert(servers_use(NULL));
}
END_TEST

static Suite *flavours_suite(void)
{
    Suite *suite = suite_create("flavours");
    TCase *cases = tcase_create("cases");

    tcase_add_checked_fixture(cases, NULL, stop);
    tcase_set_timeout(cases, 60);
    tcase_add_loop_test(cases, test_is_what_its_name_says, 0, FLAVOURS);
    tcase_add_loop_test(cases, test_acquire_extend_release, 0, FLAVOURS);
    tcase_add_test(cases, test_unknown_flavour);
    suite_add_tcase(suite, cases);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(flavours_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
