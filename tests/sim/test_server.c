/*
 * The model primary does what Redis does: expiry to the millisecond, commands by their
 * bytes, errors in their own words.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "scenario.h"

/* Tokens. */
#define ME "0123456789abcdef0123456789abcdef"
#define YOU "fedcba9876543210fedcba9876543210"

static struct sim_server server;
static struct sim_peer peer;
static struct sim_reply reply;
static struct redlock__bytes wire;

static void setup(void)
{
    sim_server_init(&server, 0);
    peer = (struct sim_peer){0};
}

static void teardown(void)
{
    sim_server_destroy(&server);
}

static const char *ask(struct redlock__bytes *bytes, int64_t now_ns)
{
    struct sim_args args;
    size_t used = sim_parse(redlock__bytes_data(bytes), bytes->len, &args);
    ck_assert_uint_eq(used, bytes->len);
    sim_server_execute(&server, &peer, &args, now_ns, &reply);
    redlock__bytes_free(bytes);
    ck_assert_uint_gt(reply.len, 2);
    reply.data[reply.len - 2] = '\0';
    return reply.data;
}

static const char *set(const char *token, int64_t ttl_ms, int64_t now_ns)
{
    return ask(redlock__encode_set(&wire, "k", 1, token, ttl_ms), now_ns);
}

static const char *get(int64_t now_ns)
{
    return ask(redlock__encode_get(&wire, "k", 1), now_ns);
}

START_TEST(a_command_is_whole_or_it_waits)
{
    struct sim_args args;
    redlock__encode_set(&wire, "a\r\n\0b", 5, ME, 1000);
    for (size_t len = 0; len < wire.len; len++)
        ck_assert_uint_eq(sim_parse(redlock__bytes_data(&wire), len, &args), 0);
    ck_assert_uint_eq(sim_parse(redlock__bytes_data(&wire), wire.len, &args), wire.len);
    ck_assert_uint_eq(args.count, 6);
    ck_assert_uint_eq(args.len[1], 5);
    ck_assert_int_eq(memcmp(args.data[1], "a\r\n\0b", 5), 0);
    redlock__bytes_free(&wire);
}
END_TEST

START_TEST(bytes_that_are_no_command_are_refused)
{
    static const char *const wrong[] = {"PING\r\n",
                                        "*0\r\n",
                                        "*1\r\n+PING\r\n",
                                        "*1\r\n$x\r\n",
                                        "*99\r\n$4\r\nPING\r\n",
                                        "*1\r\n$4\r\nPINGxx",
                                        "*1\rx$4\r\nPING\r\n",
                                        "*\r\n"};
    struct sim_args args;
    ck_assert_uint_eq(sim_parse(wrong[_i], strlen(wrong[_i]), &args), SIZE_MAX);
}
END_TEST

START_TEST(a_key_lives_its_ttl_by_the_wall_clock)
{
    int64_t odd_ns = 300 * SIM_US; /* within a millisecond of the wall clock */
    server.early = _i == 1;
    ck_assert_str_eq(set(ME, 50, odd_ns), "+OK");
    ck_assert_str_eq(set(YOU, 50, odd_ns), "$-1");
    int64_t last_ns = server.early ? 50 * SIM_MS - 1 : 51 * SIM_MS - 1;
    ck_assert_str_eq(get(last_ns), "$32\r\n" ME);
    ck_assert_str_eq(get(last_ns + 1), "$-1");
    ck_assert_str_eq(set(YOU, 50, last_ns + 1), "+OK");
}
END_TEST

START_TEST(steps_and_rates_move_the_end_of_keys)
{
    ck_assert_str_eq(set(ME, 1000, 0), "+OK");
    sim_server_step(&server, 500 * SIM_MS);
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), 0), ":500");
    sim_server_step(&server, -SIM_S);
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), 0), ":1500");
    sim_server_rate(&server, 500000, 0);
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), SIM_S), ":0");
    ck_assert_str_eq(get(SIM_S + SIM_MS), "$-1");
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), SIM_S + SIM_MS), ":-2");
}
END_TEST

START_TEST(the_scripts_compare_before_they_act)
{
    ck_assert_str_eq(ask(redlock__encode_extend(&wire, "k", 1, ME, 500), 0), ":0");
    ck_assert_str_eq(set(ME, 100, 0), "+OK");
    ck_assert_str_eq(ask(redlock__encode_extend(&wire, "k", 1, YOU, 500), 0), ":-1");
    ck_assert_str_eq(ask(redlock__encode_extend(&wire, "k", 1, ME, 500), 50 * SIM_MS), ":1");
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), 50 * SIM_MS), ":500");
    ck_assert_str_eq(ask(redlock__encode_release(&wire, "k", 1, YOU), 0), ":-1");
    ck_assert_str_eq(ask(redlock__encode_release(&wire, "k", 1, ME), 0), ":1");
    ck_assert_str_eq(ask(redlock__encode_release(&wire, "k", 1, ME), 0), ":0");
}
END_TEST

START_TEST(databases_are_apart)
{
    ck_assert_str_eq(set(ME, 100, 0), "+OK");
    ck_assert_str_eq(ask(redlock__encode_select(&wire, 3), 0), "+OK");
    ck_assert_str_eq(set(YOU, 100, 0), "+OK");
    ck_assert_str_eq(get(0), "$32\r\n" YOU);
}
END_TEST

START_TEST(a_password_is_wanted_first)
{
    server.password = "secret";
    ck_assert_int_eq(strncmp(set(ME, 100, 0), "-NOAUTH", 7), 0);
    ck_assert_int_eq(strncmp(ask(redlock__encode_auth(&wire, NULL, "wrong"), 0), "-WRONGPASS", 10),
                     0);
    ck_assert_int_eq(strncmp(set(ME, 100, 0), "-NOAUTH", 7), 0);
    ck_assert_str_eq(ask(redlock__encode_auth(&wire, "default", "secret"), 0), "+OK");
    ck_assert_str_eq(set(ME, 100, 0), "+OK");
}
END_TEST

START_TEST(a_key_of_another_type_is_an_error_for_scripts_and_taken_for_set)
{
    sim_server_plant(&server, "k", "", 0, 0)->other_type = true;
    ck_assert_str_eq(set(ME, 100, 0), "$-1");
    ck_assert_int_eq(
        strncmp(ask(redlock__encode_extend(&wire, "k", 1, ME, 5), 0), "-WRONGTYPE", 10), 0);
    ck_assert_int_eq(strncmp(get(0), "-WRONGTYPE", 10), 0);
    ck_assert_str_eq(ask(redlock__encode_pttl(&wire, "k", 1), 0), ":-1");
}
END_TEST

START_TEST(chosen_commands_are_refused_in_chosen_words)
{
    server.error[SIM_SET] = "MISCONF Errors writing to the AOF file";
    ck_assert_str_eq(set(ME, 100, 0), "-MISCONF Errors writing to the AOF file");
    ck_assert_str_eq(get(0), "$-1");
    ck_assert_uint_eq(server.count[SIM_SET], 1);
    ck_assert_uint_eq(server.entry_count, 0);
}
END_TEST

START_TEST(expired_keys_do_not_pile_up)
{
    char token[32];
    for (int k = 0; k < 10 * (int)SIM_MAX_ENTRIES; k++) {
        snprintf(token, sizeof(token), "t%d", k);
        ck_assert_str_eq(set(token, 1, k * 10 * SIM_MS), "+OK");
    }
    ck_assert_uint_eq(server.entry_count, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("model of a primary");
    TCase *t = scenario_case(suite, "server", 10);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_command_is_whole_or_it_waits);
    tcase_add_loop_test(t, bytes_that_are_no_command_are_refused, 0, 8);
    tcase_add_loop_test(t, a_key_lives_its_ttl_by_the_wall_clock, 0, 2);
    tcase_add_test(t, steps_and_rates_move_the_end_of_keys);
    tcase_add_test(t, the_scripts_compare_before_they_act);
    tcase_add_test(t, databases_are_apart);
    tcase_add_test(t, a_password_is_wanted_first);
    tcase_add_test(t, a_key_of_another_type_is_an_error_for_scripts_and_taken_for_set);
    tcase_add_test(t, chosen_commands_are_refused_in_chosen_words);
    tcase_add_test(t, expired_keys_do_not_pile_up);
    return scenario_main(suite);
}
