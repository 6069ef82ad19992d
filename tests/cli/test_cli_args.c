/*
 * What the command line accepts, and what it says about the rest. No primary is needed: where a
 * command line is right, nobody answers on the port given, and that is another exit status.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver.h"
#include "worker.h"

#define NOBODY "redis://127.0.0.1:1"
#define USAGE 64
#define NO_QUORUM 69

static struct driver driver;

static void name_nobody(void)
{
    static const char *const uris[] = {NOBODY};

    driver_set_nodes(uris, 1);
}

/* Runs it; the exit status must be `status`, and standard error must have `text` in it. */
static void expect(int status, const char *text, const char *const *words)
{
    int got = driver_run(&driver, words);

    ck_assert_msg(got == status && strstr(driver.err.bytes, text),
                  "%s %s %s %s: %d instead of %d, or no \"%s\" in:\n%s", words[0] ? words[0] : "",
                  words[0] && words[1] ? words[1] : "",
                  words[0] && words[1] && words[2] ? words[2] : "",
                  words[0] && words[1] && words[2] && words[3] ? words[3] : "", got, status, text,
                  driver.err.bytes);
}

/* ---- words ---------------------------------------------------------------- */

struct usage_case {
    const char *words[8];
    const char *text;
};

static const struct usage_case usage_cases[] = {
    {{NULL}, "Usage: redlock COMMAND"},
    {{"frob", "k"}, "unknown command"},
    {{"--json"}, "the command is missing"},
    {{"acquire"}, "the KEY is missing"},
    {{"acquire", ""}, "1 to 4096 bytes"},
    {{"acquire", "k", "more"}, "too many words"},
    {{"show", "k", "more"}, "too many words"},
    {{"extend", "k"}, "the TOKEN is missing"},
    {{"release", "k"}, "the TOKEN is missing"},
    {{"extend", "k", "t", "more"}, "too many words"},
    {{"run"}, "the KEY is missing"},
    {{"run", "k"}, "the command to run is missing"},
    {{"run", "k", "--"}, "the command to run is missing"},
    {{"run", "--", "sleep", "6"}, "redlock run KEY -- CMD"},
    {{"run", "--frob", "k", "true"}, "unknown option --frob"},
    {{"acquire", "-x", "k"}, "unknown option -x"},
    {{"acquire", "k", "--ttl"}, "--ttl needs a value"},
    {{"acquire", "k", "--json=1"}, "--json takes no value"},
    {{"show", "k", "--ttl", "1s"}, "show has no option --ttl"},
    {{"release", "k", "t", "-n"}, "release has no option --nonblock"},
    {{"acquire", "k", "--grace", "1s"}, "acquire has no option --grace"},
    {{"acquire", "k", "--max-hold", "1s"}, "acquire has no option --max-hold"},
    {{"acquire", "k", "--ttl", "61s", "--max-ttl", "1m"}, "is above --max-ttl"},
    {{"acquire", "k", "--ttl", "61s"}, "marked for"},
    {{"acquire", "k", "--restart-guard", "60"}, "the unit is missing"},
    {{"acquire", "k", "--sample", "1s"}, "acquire has no option --sample"},
    {{"show", "k", "--no-leases-out"}, "show has no option --no-leases-out"},
    {{"acquire", "k", "--workers", "3"}, "acquire has no option --workers"},
    {{"show", "redlock:k"}, "is reserved"},
    {{"show", ""}, "1 to 4096 bytes"},
    {{"init", "redis://user:Xyzzy@h"}, "--replace N"},
    {{"init", "--replace", "2"}, "there are 1 primaries"},
    {{"init", "--replace", "0"}, "whole number"},
    {{"init", "--replace", "1", "redis://h", "more"}, "too many words"},
    {{"init", "--restart-guard", "0"}, "init has no option --restart-guard"},
    {{"init", "--ttl", "1s"}, "init has no option --ttl"},
    {{"run", "k", "--grace", "6s", "true"}, "at most half of the ttl"},
    {{"run", "k", "--max-hold", "2s", "true"}, "longer than the grace"},
    {{"run", "k", "--drift-ppm", "500000", "true"}, "shorten --grace"},
    {{"run", "k", "--ttl", "4ms", "true"}, "lengthen --ttl"},
    {{"acquire", "redlock:k"}, "is reserved"},
    {{"acquire", "-q", "redlock:k"}, "is reserved"},
    {{"acquire", "k", "--ttl", "1ms"}, "below the least, 4 ms"},
    {{"acquire", "k", "--ttl", "5ms", "--drift-ppm", "500000"}, "below the least, 6 ms"},
    {{"extend", "k", "not-a-token"}, "token"},
    {{"acquire", "k", "--node", "http://127.0.0.1"}, "node 1"},
    {{"acquire", "k", "--node", NOBODY, "--node", "nonsense"}, "node 2"},
    {{"acquire", "k", "--node", NOBODY, "--nodes-file", "x"}, "not both"},
    {{"acquire", "k", "--nodes-file", "/does/not/exist"}, "No such file"},
    {{"acquire", "k", "--password-file", "/does/not/exist"}, "No such file"},
    {{"acquire", "k", "--nodes-file", "/"}, "/: it is a directory"},
    {{"acquire", "k", "--password-file", "/"}, "/: it is a directory"},
    {{"acquire", "k", "--nodes-file", "/dev/zero"}, "neither a file nor a pipe"},
    {{"acquire", "k", "--quorum", "2"}, "quorum"},
};

START_TEST(test_mistakes_are_named)
{
    const struct usage_case *one = &usage_cases[_i];

    name_nobody();
    expect(USAGE, one->text, one->words);
}
END_TEST

START_TEST(test_commands_of_later_versions_are_known)
{
    expect(USAGE, "is not in this version", WORDS("doctor"));
}
END_TEST

START_TEST(test_no_primaries_named_gives_the_line_to_type)
{
    driver_set_nodes(NULL, 0);
    expect(USAGE, "export REDLOCK_NODES=", WORDS("acquire", "k"));
    expect(USAGE, "export REDLOCK_NODES=", WORDS("run", "k", "--", "true"));
    setenv("REDLOCK_NODES", " , ", 1);
    expect(USAGE, "export REDLOCK_NODES=", WORDS("show", "k"));
}
END_TEST

START_TEST(test_options_stand_before_or_after_the_key)
{
    name_nobody();
    expect(NO_QUORUM, "", WORDS("acquire", "--ttl", "1s", "k"));
    expect(NO_QUORUM, "", WORDS("acquire", "k", "--ttl=1s"));
    expect(NO_QUORUM, "", WORDS("--ttl", "1s", "acquire", "k"));
    expect(NO_QUORUM, "", WORDS("acquire", "--", "-k"));
    expect(NO_QUORUM, "", WORDS("run", "-n", "k", "--ttl", "1s", "--", "sh", "-c", "exit 3"));
    expect(NO_QUORUM, "", WORDS("run", "k", "-n", "sh", "-c", "exit 3"));
    expect(NO_QUORUM, "", WORDS("run", "-n", "k", "sh", "--ttl", "nonsense of its own"));
    expect(NO_QUORUM, "", WORDS("run", "-n", "--", "-k", "--", "true"));
    expect(NO_QUORUM, "", WORDS("run", "-nE5", "k", "true"));
    expect(NO_QUORUM, "", WORDS("run", "-w", "0", "-E", "5", "k", "true"));
}
END_TEST

START_TEST(test_quiet_says_nothing)
{
    name_nobody();
    ck_assert_int_eq(RUN(&driver, "acquire", "-q", "k"), NO_QUORUM);
    ck_assert_str_eq(driver.err.bytes, "");
    ck_assert_str_eq(driver.out.bytes, "");
    ck_assert_int_eq(RUN(&driver, "run", "-qn", "k", "--", "true"), NO_QUORUM);
    ck_assert_str_eq(driver.err.bytes, "");
    expect(USAGE, "the KEY is missing", WORDS("acquire", "-q"));
}
END_TEST

/* ---- values --------------------------------------------------------------- */

struct value_case {
    const char *value;
    int status;
    const char *text;
};

static const struct value_case ttls[] = {
    {"500ms", NO_QUORUM, ""},
    {"10s", NO_QUORUM, ""},
    {"1.5s", NO_QUORUM, ""},
    {"0.500s", NO_QUORUM, ""},
    {"0.25m", NO_QUORUM, ""},
    {"1m", NO_QUORUM, ""},
    {"0.01h", NO_QUORUM, ""},
    {"1.0000000000000s", NO_QUORUM, ""},
    {"10", USAGE, "written 10s"},
    {"1.5", USAGE, "written 1.5s"},
    {"0", USAGE, "at least 1ms"},
    {"0s", USAGE, "at least 1ms"},
    {"-1s", USAGE, "negative"},
    {"-0s", USAGE, "negative"},
    {"1.5ms", USAGE, "finer than 1ms"},
    {"0.0005s", USAGE, "finer than 1ms"},
    {"1.0000000001s", USAGE, "no finer than 1ms"},
    {"s", USAGE, "a number and a unit"},
    {"", USAGE, "a number and a unit"},
    {"+1s", USAGE, "a number and a unit"},
    {" 1s", USAGE, "a number and a unit"},
    {".5s", USAGE, "a number and a unit"},
    {"1.s", USAGE, "a number and a unit"},
    {"1s ", USAGE, "its unit must be"},
    {"1S", USAGE, "its unit must be"},
    {"1sec", USAGE, "its unit must be"},
    {"1d", USAGE, "its unit must be"},
    {"1e3s", USAGE, "its unit must be"},
    {"0x10s", USAGE, "its unit must be"},
    {"1,5s", USAGE, "its unit must be"},
    {"1s500ms", USAGE, "its unit must be"},
    {"1.5.5s", USAGE, "its unit must be"},
    {"nan", USAGE, "a number and a unit"},
    {"forever", USAGE, "a number and a unit"},
    {"9223372036854775807ms", USAGE, "at most"},
    {"9223372036854775808ms", USAGE, "too long"},
    {"9223372036854775807s", USAGE, "too long"},
    {"2562047788015h", USAGE, "at most"},
    {"2562047788016h", USAGE, "too long"},
    {"99999999999999999999999999h", USAGE, "too long"},
};

START_TEST(test_durations)
{
    const struct value_case *one = &ttls[_i];

    name_nobody();
    expect(one->status, one->text, WORDS("acquire", "k", "--ttl", one->value));
}
END_TEST

START_TEST(test_waits)
{
    name_nobody();
    expect(NO_QUORUM, "", WORDS("acquire", "k", "--wait", "0"));
    expect(NO_QUORUM, "", WORDS("acquire", "k", "--wait", "20ms"));
    expect(USAGE, "written 1s", WORDS("acquire", "k", "-w", "1"));
    expect(USAGE, "or write forever", WORDS("acquire", "k", "--wait", "100000h"));
    expect(USAGE, "a number and a unit", WORDS("acquire", "k", "--wait", "Forever"));
}
END_TEST

struct number_case {
    const char *option, *value;
    int status;
};

static const struct number_case numbers[] = {
    {"--conflict-exit-code", "0", NO_QUORUM},
    {"--conflict-exit-code", "255", NO_QUORUM},
    {"--conflict-exit-code", "256", USAGE},
    {"--conflict-exit-code", "-1", USAGE},
    {"--conflict-exit-code", "1x", USAGE},
    {"--conflict-exit-code", "", USAGE},
    {"--conflict-exit-code", "4294967297", USAGE},
    {"--conflict-exit-code", "18446744073709551617", USAGE},
    {"--quorum", "1", NO_QUORUM},
    {"--quorum", "0", USAGE},
    {"--quorum", "32", USAGE},
    {"--drift-ppm", "20000", NO_QUORUM},
    {"--drift-ppm", "500001", USAGE},
    {"--drift-ppm", "1.5", USAGE},
};

START_TEST(test_numbers)
{
    const struct number_case *one = &numbers[_i];

    name_nobody();
    expect(one->status, one->status == USAGE ? "whole number" : "",
           WORDS("acquire", "k", one->option, one->value));
}
END_TEST

/* ---- primaries from elsewhere ---------------------------------------------- */

static void with_file(const char *text, int status, const char *say)
{
    char path[64];

    driver_file(text, path);
    expect(status, say, WORDS("show", "k", "--nodes-file", path));
    unlink(path);
}

START_TEST(test_nodes_file)
{
    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(setenv("REDLOCK_NODES", "nonsense", 1), 0); /* not looked at */
    with_file("# three\n\n  " NOBODY "\t\n" NOBODY "1 # the second\r\nredis://127.0.0.1:12",
              NO_QUORUM, "");
    ck_assert_int_eq(driver_count(driver.out.bytes, "127.0.0.1:1"), 3);
    with_file("# none\n\n", USAGE, "names no primary");
    with_file("", USAGE, "names no primary");
    with_file(NOBODY "\n" NOBODY " " NOBODY "\n", USAGE, "line 2: more than one");
    with_file("# three\n" NOBODY "\n\nhttp://h\n", USAGE, ", line 4: ");
    with_file("# three\n" NOBODY "\n\n" NOBODY "\n", 78, ", line 4: ");
    with_file("\xef\xbb\xbf" NOBODY "\n", NO_QUORUM, "");
}
END_TEST

START_TEST(test_nodes_from_a_pipe)
{
    char path[64], script[1024];

    driver_set_nodes(NULL, 0);
    unlink(driver_file("", path));
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    expect(USAGE, "names no primary", WORDS("show", "k", "--nodes-file", path)); /* no waiting */
    unlink(path);
    snprintf(script, sizeof script, "echo %s | %s show k --nodes-file /dev/stdin", NOBODY,
             REDLOCK_CLI_PATH);
    driver_start_program(&driver, WORDS("sh", "-c", script), 0);
    ck_assert_int_eq(driver_wait(&driver), NO_QUORUM);
}
END_TEST

START_TEST(test_nodes_from_the_environment)
{
    driver_set_nodes(NULL, 0);
    setenv("REDLOCK_NODES", " " NOBODY "1," NOBODY "2 , " NOBODY "3\n", 1);
    expect(NO_QUORUM, "", WORDS("show", "k"));
    ck_assert_int_eq(driver_count(driver.out.bytes, "127.0.0.1:1"), 3);
    expect(NO_QUORUM, "", WORDS("show", "k", "--node", NOBODY)); /* instead */
    ck_assert_int_eq(driver_count(driver.out.bytes, "127.0.0.1:1"), 1);
}
END_TEST

START_TEST(test_one_primary_twice_is_misconfigured)
{
    expect(78, "twice", WORDS("show", "k", "--node", NOBODY, "--node", NOBODY));
}
END_TEST

START_TEST(test_more_primaries_than_allowed)
{
    char text[4096] = "";
    size_t used = 0;

    for (int i = 1; i <= 32; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "redis://127.0.0.1:%d\n", i);
    with_file(text, USAGE, "more than 31");
}
END_TEST

/* ---- help ------------------------------------------------------------------ */

START_TEST(test_help_of_every_command)
{
    static const char *const names[] = {"run", "acquire", "extend", "release", "show", "init"};

    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(RUN(&driver, "--help"), 0);
    ck_assert_ptr_nonnull(strstr(driver.out.bytes, "redlock run KEY -- CMD"));
    ck_assert_str_eq(driver.err.bytes, "");
    for (size_t i = 0; i < 6; i++) {
        char usage[64];

        snprintf(usage, sizeof usage, "Usage: redlock %s ", names[i]);
        ck_assert_int_eq(RUN(&driver, names[i], "--help"), 0);
        ck_assert_ptr_nonnull(strstr(driver.out.bytes, usage));
        ck_assert_ptr_nonnull(strstr(driver.out.bytes, "--node URI"));
        ck_assert_int_eq(RUN(&driver, names[i], "-h"), 0);
    }
}
END_TEST

START_TEST(test_version)
{
    driver_set_nodes(NULL, 0);
    ck_assert_int_eq(RUN(&driver, "--version"), 0);
    ck_assert_int_eq(strncmp(driver.out.bytes, "redlock ", 8), 0);
    ck_assert_int_eq(RUN(&driver, "-V"), 0);
}
END_TEST

START_TEST(test_help_of_run_belongs_to_the_command_after_it)
{
    name_nobody();
    expect(NO_QUORUM, "", WORDS("run", "-n", "k", "ls", "--help"));
    expect(NO_QUORUM, "", WORDS("run", "-n", "k", "--", "--help"));
}
END_TEST

#define COUNT(table) (int)(sizeof(table) / sizeof((table)[0]))

static Suite *args_suite(void)
{
    Suite *suite = suite_create("cli arguments");
    TCase *words = tcase_create("words");
    TCase *values = tcase_create("values");

    tcase_set_timeout(words, 60);
    tcase_add_loop_test(words, test_mistakes_are_named, 0, COUNT(usage_cases));
    tcase_add_test(words, test_commands_of_later_versions_are_known);
    tcase_add_test(words, test_no_primaries_named_gives_the_line_to_type);
    tcase_add_test(words, test_options_stand_before_or_after_the_key);
    tcase_add_test(words, test_quiet_says_nothing);
    tcase_add_test(words, test_help_of_every_command);
    tcase_add_test(words, test_version);
    tcase_add_test(words, test_help_of_run_belongs_to_the_command_after_it);
    suite_add_tcase(suite, words);
    tcase_set_timeout(values, 60);
    tcase_add_loop_test(values, test_durations, 0, COUNT(ttls));
    tcase_add_test(values, test_waits);
    tcase_add_loop_test(values, test_numbers, 0, COUNT(numbers));
    tcase_add_test(values, test_nodes_file);
    tcase_add_test(values, test_nodes_from_a_pipe);
    tcase_add_test(values, test_nodes_from_the_environment);
    tcase_add_test(values, test_one_primary_twice_is_misconfigured);
    tcase_add_test(values, test_more_primaries_than_allowed);
    suite_add_tcase(suite, values);
    return suite;
}

int main(int argc, char **argv)
{
    return worker_main(argc, argv, REDLOCK_CLI_PATH, args_suite);
}
