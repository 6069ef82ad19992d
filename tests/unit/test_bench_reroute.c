/* URIs of primaries that the bench leads through a proxy. The source is included. */
#include <check.h>
#include <stdlib.h>

#include "../../tools/bench/reroute.c"

static const struct taken {
    const char *uri;
    int port;
    const char *rerouted; /* to 4000 */
} taken[] = {
    {"redis://127.0.0.1:7001", 7001, "redis://127.0.0.1:4000"},
    {"redis://127.0.0.1", 6379, "redis://127.0.0.1:4000"},
    {"redis://localhost:65535/3", 65535, "redis://127.0.0.1:4000/3"},
    {"redis://LocalHost/0", 6379, "redis://127.0.0.1:4000/0"},
    {"redis://:secret@127.0.0.1:7001", 7001, "redis://:secret@127.0.0.1:4000"},
    {"redis://who:a%2Fb:c@127.0.0.1:7001/1", 7001, "redis://who:a%2Fb:c@127.0.0.1:4000/1"},
    {"redis://who:p@10.0.0.1@localhost:1", 1, "redis://who:p@10.0.0.1@127.0.0.1:4000"},
};

static const struct left {
    const char *uri, *why;
} left[] = {
    {"rediss://127.0.0.1:7001", "its connections are encrypted"},
    {"unix:///tmp/redis.sock", "it is not reached by TCP"},
    {"redis://10.0.0.1:7001", "it is not on 127.0.0.1"},
    {"redis://127.0.0.11:7001", "it is not on 127.0.0.1"},
    {"redis://127.0.0.1@elsewhere:7001", "it is not on 127.0.0.1"},
    {"redis://[::1]:7001", "it is not on 127.0.0.1"},
    {"redis://localhost:0", "its port is not one"},
    {"redis://localhost:65536", "its port is not one"},
    {"redis://localhost:", "its port is not one"},
};

START_TEST(one_on_this_machine_is_rerouted)
{
    const struct taken *at = &taken[_i];
    const char *why;
    char text[REROUTE_URI_LEN];

    ck_assert_int_eq(reroute_port(at->uri, &why), at->port);
    ck_assert_ptr_null(why);
    ck_assert(reroute_uri(at->uri, 4000, text, sizeof text));
    ck_assert_str_eq(text, at->rerouted);
}
END_TEST

START_TEST(another_is_not)
{
    const char *why;

    ck_assert_int_eq(reroute_port(left[_i].uri, &why), 0);
    ck_assert_str_eq(why, left[_i].why);
}
END_TEST

START_TEST(one_that_does_not_fit_is_said)
{
    char text[23];

    ck_assert(!reroute_uri("redis://127.0.0.1:7001/1", 4000, text, sizeof text));
    ck_assert(reroute_uri("redis://127.0.0.1:7001", 4000, text, sizeof text));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench reroute");
    TCase *t = tcase_create("reroute");
    tcase_add_loop_test(t, one_on_this_machine_is_rerouted, 0, sizeof taken / sizeof taken[0]);
    tcase_add_loop_test(t, another_is_not, 0, sizeof left / sizeof left[0]);
    tcase_add_test(t, one_that_does_not_fit_is_said);
    suite_add_tcase(suite, t);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
