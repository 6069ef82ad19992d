/*
 * Reading the command line.
 *
 * Options may stand anywhere up to the command of `run`, which begins after `--`, or with the first
 * word after KEY that is no option. A table says for each option what its value is, where it is
 * stored, and which commands know it. Nothing here prints an
 * endpoint or a word that might be one, for there may be a password in it.
 */
#include "args.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "help.h"
#include "redlock.h"
#include "status.h"

#define WORDS_MAX BENCH_WORKS_MAX
#define LOCKING (COMMAND_ALL & ~COMMAND_BENCH) /* what is measured is the library as it comes */
#define NOT_INIT (LOCKING & ~COMMAND_INIT)     /* it would vouch for others by its own guard */
#define UNSET (-2)
#define SHOWN_LEN 24
#define RESERVED "redlock:" /* what such keys begin with */

enum value_kind {
    VALUE_NONE, /* a flag: counts how often it was given */
    VALUE_TEXT,
    VALUE_NODE,
    VALUE_NUMBER,
    VALUE_DURATION,
    VALUE_WAIT, /* a duration or "forever" */
    VALUE_NO_WAIT
};

struct option {
    const char *name;
    char letter;
    enum value_kind kind;
    unsigned commands;
    size_t offset; /* in struct cli_args */
    int64_t min, max;
};

#define AT(field) offsetof(struct cli_args, field)
#define RUN_OR_ACQUIRE (COMMAND_RUN | COMMAND_ACQUIRE)
#define WITH_TTL (RUN_OR_ACQUIRE | COMMAND_EXTEND)

static const struct option options[] = {
    {"node", 0, VALUE_NODE, COMMAND_ALL, 0, 0, 0},
    {"nodes-file", 0, VALUE_TEXT, COMMAND_ALL, AT(nodes_file), 0, 0},
    {"password-file", 0, VALUE_TEXT, COMMAND_ALL, AT(password_file), 0, 0},
    {"prefix", 0, VALUE_TEXT, LOCKING, AT(prefix), 0, 0},
    {"quorum", 0, VALUE_NUMBER, LOCKING, AT(quorum), 1, REDLOCK_MAX_NODES},
    {"node-timeout", 0, VALUE_DURATION, LOCKING, AT(node_timeout_ms), 1, REDLOCK_MAX_WAIT_MS},
    {"connect-timeout", 0, VALUE_DURATION, LOCKING, AT(connect_timeout_ms), 1, REDLOCK_MAX_WAIT_MS},
    {"drift-ppm", 0, VALUE_NUMBER, LOCKING, AT(drift_ppm), 0, REDLOCK_MAX_DRIFT_PPM},
    {"max-ttl", 0, VALUE_DURATION, LOCKING, AT(max_ttl_ms), 1, REDLOCK_MAX_TTL_MS},
    {"restart-guard", 0, VALUE_DURATION, NOT_INIT, AT(restart_guard_ms), 0, REDLOCK_MAX_WAIT_MS},
    {"sample", 0, VALUE_DURATION, COMMAND_SHOW, AT(sample_ms), 1, REDLOCK_MAX_WAIT_MS},
    {"no-leases-out", 0, VALUE_NONE, COMMAND_INIT, AT(no_leases_out), 0, 0},
    {"replace", 0, VALUE_NUMBER, COMMAND_INIT, AT(replace), 1, REDLOCK_MAX_NODES},
    {"ttl", 0, VALUE_DURATION, WITH_TTL, AT(ttl_ms), 1, REDLOCK_MAX_TTL_MS},
    {"wait", 'w', VALUE_WAIT, RUN_OR_ACQUIRE, AT(wait_ms), 0, REDLOCK_MAX_WAIT_MS},
    {"nonblock", 'n', VALUE_NO_WAIT, RUN_OR_ACQUIRE, 0, 0, 0},
    {"conflict-exit-code", 'E', VALUE_NUMBER, RUN_OR_ACQUIRE, AT(busy_status), 0, 255},
    {"grace", 0, VALUE_DURATION, COMMAND_RUN, AT(grace_ms), 0, REDLOCK_MAX_TTL_MS},
    {"max-hold", 0, VALUE_DURATION, COMMAND_RUN, AT(max_hold_ms), 1, REDLOCK_MAX_WAIT_MS},
    {"json", 0, VALUE_NONE, COMMAND_ALL, AT(json), 0, 0},
    {"quiet", 'q', VALUE_NONE, COMMAND_ALL, AT(quiet), 0, 0},
    {"verbose", 'v', VALUE_NONE, COMMAND_ALL, AT(verbose), 0, 0},
    {"help", 'h', VALUE_NONE, COMMAND_ALL, AT(help), 0, 0},
    {"version", 'V', VALUE_NONE, COMMAND_ALL, AT(version), 0, 0},
    {"fence", 0, VALUE_NONE, RUN_OR_ACQUIRE, AT(fence), 0, 0},
    {"fence-base", 0, VALUE_NONE, COMMAND_INIT, AT(fence_base), 0, 0},
    {"replicas", 0, VALUE_NUMBER, NOT_INIT, AT(replicas), 0, 64},
    {"replica-timeout", 0, VALUE_DURATION, NOT_INIT, AT(replica_timeout_ms), 1, 600000},
    {"cacert", 0, VALUE_TEXT, LOCKING, AT(ca_file), 0, 0},
    {"cert", 0, VALUE_TEXT, LOCKING, AT(cert_file), 0, 0},
    {"key-file", 0, VALUE_TEXT, LOCKING, AT(key_file), 0, 0},
    {"sni", 0, VALUE_TEXT, LOCKING, AT(server_name), 0, 0},
    {"rounds", 0, VALUE_NUMBER, COMMAND_BENCH, AT(rounds), 1, 1000},
    {"seconds", 0, VALUE_DURATION, COMMAND_BENCH, AT(seconds_ms), 1, 3600000},
    {"leases", 0, VALUE_NUMBER, COMMAND_BENCH, AT(leases), 1, 1000000},
    {"workers", 0, VALUE_NUMBER, COMMAND_BENCH, AT(workers), 2, 1000},
    {"list", 0, VALUE_NONE, COMMAND_BENCH, AT(list), 0, 0},
    {"compare", 0, VALUE_NONE, COMMAND_BENCH, AT(compare), 0, 0},
    {"check", 0, VALUE_NONE, COMMAND_BENCH, AT(check), 0, 0},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

struct command_word {
    const char *name;
    enum cli_command command;
    size_t least, most; /* words */
    const char *takes;
};

static const struct command_word commands[] = {
    {"run", COMMAND_RUN, 1, 1, "a KEY"},
    {"acquire", COMMAND_ACQUIRE, 1, 1, "a KEY"},
    {"extend", COMMAND_EXTEND, 2, 2, "a KEY and a TOKEN"},
    {"release", COMMAND_RELEASE, 2, 2, "a KEY and a TOKEN"},
    {"show", COMMAND_SHOW, 0, 1, "a KEY, or nothing"},
    {"init", COMMAND_INIT, 0, 1, "nothing, or --replace N and a URI"},
    {"bench", COMMAND_BENCH, 0, BENCH_WORKS_MAX, "names of works"},
};

struct parser {
    struct cli_args *args;
    char **argv;
    int argc, at;
    const struct command_word *command;
    char *words[WORDS_MAX];
    size_t word_count;
    uint64_t used; /* a bit for each option */
};

/* Says what is wrong and where help is. Returns CLI_USAGE. */
static int usage(const struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int usage(const struct parser *parser, const char *format, ...)
{
    va_list list;

    fputs("redlock: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nTry 'redlock %s%s--help'.\n", parser->command ? parser->command->name : "",
            parser->command ? " " : "");
    return CLI_USAGE;
}

/* ---- options ------------------------------------------------------------- */

static const struct option *find_name(const char *name, size_t length)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0)
            return &options[i];
    return NULL;
}

static const struct option *find_letter(char letter)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (options[i].letter == letter)
            return &options[i];
    return NULL;
}

static int takes_value(const struct option *option)
{
    return option->kind != VALUE_NONE && option->kind != VALUE_NO_WAIT;
}

/* A value in a message, if it can be no endpoint. */
static const char *shown(const char *value, char text[SHOWN_LEN])
{
    static const char plain[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-_";

    snprintf(text, SHOWN_LEN, "%s%.20s", *value ? " " : "", value);
    return strlen(value) > 20 || value[strspn(value, plain)] ? "" : text;
}

static int store_duration(const struct parser *parser, const struct option *option,
                          const char *value, int64_t *ms)
{
    char problem[DURATION_PROBLEM_LEN], limit[DURATION_TEXT_LEN], text[SHOWN_LEN];

    if (duration_parse(value, ms, problem) != 0)
        return usage(parser, "--%s%s: %s", option->name, shown(value, text), problem);
    if (*ms < option->min)
        return usage(parser, "--%s%s: it must be at least %" PRId64 "ms", option->name,
                     shown(value, text), option->min);
    if (*ms > option->max)
        return usage(parser, "--%s%s: it must be at most %s%s", option->name, shown(value, text),
                     duration_text(option->max, limit),
                     option->kind == VALUE_WAIT ? "; or write forever" : "");
    return CLI_CONTINUE;
}

static int store(struct parser *parser, const struct option *option, char *value)
{
    void *field = (char *)parser->args + option->offset;
    char problem[NODES_PROBLEM_LEN], text[SHOWN_LEN];

    switch (option->kind) {
    case VALUE_NONE:
        ++*(int64_t *)field;
        break;
    case VALUE_NO_WAIT:
        parser->args->wait_ms = 0;
        break;
    case VALUE_TEXT:
        *(const char **)field = value;
        break;
    case VALUE_NODE:
        if (nodes_add_argument(&parser->args->nodes, value, problem) != 0)
            return usage(parser, "--node: %s", problem);
        break;
    case VALUE_NUMBER:
        if (number_parse(value, option->min, option->max, field) != 0)
            return usage(parser, "--%s%s: it must be a whole number from %" PRId64 " to %" PRId64,
                         option->name, shown(value, text), option->min, option->max);
        break;
    case VALUE_WAIT:
        if (strcmp(value, "forever") == 0) {
            parser->args->wait_ms = REDLOCK_WAIT_FOREVER;
            break;
        }
        return store_duration(parser, option, value, field);
    case VALUE_DURATION:
        return store_duration(parser, option, value, field);
    }
    return CLI_CONTINUE;
}

static int take_option(struct parser *parser, const struct option *option, char *value)
{
    int rc;

    if (takes_value(option) && !value) {
        if (parser->at == parser->argc)
            return usage(parser, "--%s needs a value", option->name);
        value = parser->argv[parser->at++];
    }
    rc = store(parser, option, value);
    parser->used |= UINT64_C(1) << (option - options);
    return rc;
}

static int take_long(struct parser *parser, char *word)
{
    char *value = strchr(word, '=');
    size_t length = value ? (size_t)(value - word) : strlen(word);
    const struct option *option = find_name(word, length);

    if (!option)
        return usage(parser, "unknown option --%.*s", length > 40 ? 40 : (int)length, word);
    if (value && !takes_value(option))
        return usage(parser, "--%s takes no value", option->name);
    return take_option(parser, option, value ? value + 1 : NULL);
}

/* -q, -qn, -E5, -E 5, -nE5 */
static int take_short(struct parser *parser, char *letters)
{
    int rc = CLI_CONTINUE;

    while (*letters && rc == CLI_CONTINUE) {
        const struct option *option = find_letter(*letters);

        if (!option)
            return usage(parser, "unknown option -%c",
                         *letters > ' ' && *letters < 0x7f ? *letters : '?');
        letters++;
        if (takes_value(option))
            return take_option(parser, option, *letters ? letters : NULL);
        rc = take_option(parser, option, NULL);
    }
    return rc;
}

static int is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

/* ---- words --------------------------------------------------------------- */

static int take_command(struct parser *parser, const char *word)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, word) == 0) {
            parser->command = &commands[i];
            parser->args->command = commands[i].command;
            parser->args->name = commands[i].name;
            return CLI_CONTINUE;
        }
    }
    if (strcmp("doctor", word) == 0) {
        fprintf(stderr, "redlock: the command %s is not in this version\n", word);
        return CLI_USAGE;
    }
    return usage(parser, "unknown command; known are run, acquire, extend, release, show, init, "
                         "bench");
}

static int take_word(struct parser *parser, char *word)
{
    if (!parser->command)
        return take_command(parser, word);
    if (parser->word_count == parser->command->most)
        return usage(parser, "too many words: %s takes %s", parser->command->name,
                     parser->command->takes);
    parser->words[parser->word_count++] = word;
    return CLI_CONTINUE;
}

static int has_key_of_run(const struct parser *parser)
{
    return parser->args->command == COMMAND_RUN && parser->word_count == 1;
}

/* `--` ends the options. For run it stands before the command; before KEY only in "-- KEY -- CMD".
 */
static int take_rest(struct parser *parser)
{
    int rc = CLI_CONTINUE;

    if (parser->args->command == COMMAND_RUN && !has_key_of_run(parser)) {
        if (parser->at + 1 >= parser->argc || strcmp(parser->argv[parser->at + 1], "--") != 0)
            return usage(parser, "the KEY is missing: redlock run KEY -- CMD");
        parser->words[parser->word_count++] = parser->argv[parser->at];
        parser->at += 2;
    }
    if (has_key_of_run(parser)) {
        parser->args->argv = parser->argv + parser->at;
        parser->at = parser->argc;
    }
    while (parser->at < parser->argc && rc == CLI_CONTINUE)
        rc = take_word(parser, parser->argv[parser->at++]);
    return rc;
}

static int take_all(struct parser *parser)
{
    int rc = CLI_CONTINUE;

    while (parser->at < parser->argc && rc == CLI_CONTINUE) {
        char *word = parser->argv[parser->at++];

        if (parser->args->help || parser->args->version)
            break;
        if (strcmp(word, "--") == 0)
            return take_rest(parser);
        if (strncmp(word, "--", 2) == 0) {
            rc = take_long(parser, word + 2);
        } else if (is_option(word)) {
            rc = take_short(parser, word + 1);
        } else if (has_key_of_run(parser)) {
            parser->at--;
            return take_rest(parser);
        } else {
            rc = take_word(parser, word);
        }
    }
    return rc;
}

/* ---- what they mean together ---------------------------------------------- */

/* Those that hang on others. */
static void set_defaults(struct cli_args *args)
{
    if (args->wait_ms == UNSET)
        args->wait_ms = args->command == COMMAND_RUN ? REDLOCK_WAIT_FOREVER : 0;
    if (args->grace_ms == UNSET)
        args->grace_ms = args->ttl_ms / 5;
}

/* As the library reckons. */
static int64_t drift_ms(const struct cli_args *args, int64_t ttl_ms)
{
    return (ttl_ms * args->drift_ppm + 999999) / 1000000 + 2;
}

static int64_t least_ttl_ms(const struct cli_args *args)
{
    int64_t ttl_ms = 1;

    while (ttl_ms <= drift_ms(args, ttl_ms)) /* few: at most half of a ttl is allowed for */
        ttl_ms++;
    return ttl_ms;
}

static int check_times(const struct parser *parser)
{
    const struct cli_args *args = parser->args;
    char ttl[DURATION_TEXT_LEN], limit[DURATION_TEXT_LEN];

    if (!(args->command & WITH_TTL))
        return CLI_CONTINUE;
    if (args->max_ttl_ms != 0 && args->ttl_ms > args->max_ttl_ms)
        return usage(
            parser,
            "the ttl, %s, is above --max-ttl, %s: renew a shorter one, or raise --max-ttl for "
            "every user of these primaries",
            duration_text(args->ttl_ms, ttl), duration_text(args->max_ttl_ms, limit));
    if (args->ttl_ms <= drift_ms(args, args->ttl_ms))
        return usage(
            parser, "the ttl, %s, is below the least, %s: the allowance for clocks would use it up",
            duration_text(args->ttl_ms, ttl), duration_text(least_ttl_ms(args), limit));
    if (args->fence && args->replicas > 0)
        return usage(parser, "--fence and --replicas don't go together: a replica that is promoted "
                             "may lack the last numbers");
    if (args->grace_ms > args->ttl_ms / 2)
        return usage(parser, "--grace must be at most half of the ttl, %s",
                     duration_text(args->ttl_ms / 2, limit));
    if (args->max_hold_ms > 0 && args->max_hold_ms <= args->grace_ms)
        return usage(parser, "--max-hold must be longer than the grace, %s",
                     duration_text(args->grace_ms, limit));
    return CLI_CONTINUE;
}

/* Renewal begins at a third of the ttl: before that nobody must have given up already. */
static int check_grace(const struct parser *parser)
{
    const struct cli_args *args = parser->args;
    if (args->command == COMMAND_RUN &&
        args->ttl_ms - drift_ms(args, args->ttl_ms) - 1 - args->grace_ms <= args->ttl_ms / 3)
        return usage(parser,
                     "nothing is left between the first renewal and the grace: shorten --grace, "
                     "or lengthen --ttl");
    return CLI_CONTINUE;
}

static int check_key(const struct parser *parser, const char *key)
{
    if (strlen(key) == 0 || strlen(key) > REDLOCK_MAX_KEY_LEN)
        return usage(parser, "the KEY must have 1 to %d bytes", REDLOCK_MAX_KEY_LEN);
    if (strncmp(key, RESERVED, strlen(RESERVED)) == 0)
        return usage(parser, "the KEY begins with \"" RESERVED
                             "\", which is reserved for redlock itself: use another name");
    return CLI_CONTINUE;
}

/* A primary that forgot its numbers is known by its restart. */
static int check_fence(const struct parser *parser)
{
    if (parser->args->fence > 0 && parser->args->restart_guard_ms == 0)
        return usage(parser, "--fence needs the restart guard: without it a primary that forgot "
                             "its numbers would give them again; leave --restart-guard 0 out");
    return CLI_CONTINUE;
}

static int check_init(const struct parser *parser)
{
    if (parser->word_count > 0 && parser->args->replace == 0)
        return usage(parser, "init takes no word but the URI of a new primary, and then --replace "
                             "N says whose place it takes");
    return CLI_CONTINUE;
}

static int check_bench(const struct parser *parser)
{
    if (parser->args->compare && parser->word_count > 0)
        return usage(parser, "--compare is a work of its own: leave the others out");
    return CLI_CONTINUE;
}

static int check(const struct parser *parser)
{
    const struct cli_args *args = parser->args;

    if (!parser->command)
        return usage(parser, "the command is missing: run, acquire, extend, release, show, init or "
                             "bench");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if ((parser->used & UINT64_C(1) << i) && !(options[i].commands & args->command))
            return usage(parser, "%s has no option --%s", args->name, options[i].name);
    if (parser->word_count < parser->command->least)
        return usage(parser, parser->word_count == 0
                                 ? "the KEY is missing"
                                 : "the TOKEN is missing: it is what acquire printed");
    if (args->command == COMMAND_INIT)
        return check_init(parser);
    if (args->command == COMMAND_BENCH)
        return check_bench(parser);
    if (args->command == COMMAND_RUN && (!args->argv || !args->argv[0]))
        return usage(parser, "the command to run is missing: redlock run KEY -- CMD");
    if (parser->word_count > 0 && check_key(parser, parser->words[0]) != CLI_CONTINUE)
        return CLI_USAGE;
    if (check_fence(parser) != CLI_CONTINUE)
        return CLI_USAGE;
    return check_times(parser) == CLI_CONTINUE ? check_grace(parser) : CLI_USAGE;
}

/* ---- nodes and password -------------------------------------------------- */

static int no_nodes(const struct cli_args *args)
{
    fprintf(stderr,
            "redlock: it is not said which primaries to use. Name all of them, for example:\n"
            "  export REDLOCK_NODES=\"redis://redis-a redis://redis-b redis://redis-c\"\n"
            "or with --node for each, or --nodes-file. Try 'redlock %s --help'.\n",
            args->name);
    return CLI_USAGE;
}

static int collect_nodes(const struct parser *parser)
{
    struct cli_args *args = parser->args;
    const char *list = getenv("REDLOCK_NODES");
    char problem[NODES_PROBLEM_LEN];

    if (args->nodes_file && args->nodes.count > 0)
        return usage(parser, "give --node or --nodes-file, not both");
    if (args->nodes_file) {
        if (nodes_add_file(&args->nodes, args->nodes_file, problem) != 0)
            return usage(parser, "--nodes-file: %s", problem);
        if (args->nodes.count == 0)
            return usage(parser, "--nodes-file: %.300s names no primary", args->nodes_file);
    } else if (args->nodes.count == 0 && list && nodes_add_list(&args->nodes, list, problem) != 0) {
        return usage(parser, "REDLOCK_NODES: %s", problem);
    }
    return args->nodes.count == 0 && args->command != COMMAND_BENCH ? no_nodes(args) : CLI_CONTINUE;
}

static int collect_replacement(const struct parser *parser)
{
    struct cli_args *args = parser->args;
    char problem[NODES_PROBLEM_LEN];

    if (args->replace > (int64_t)args->nodes.count)
        return usage(parser, "--replace %" PRId64 ": there are %zu primaries", args->replace,
                     args->nodes.count);
    if (parser->word_count > 0 &&
        nodes_add_argument(&args->replacement, parser->words[0], problem) != 0)
        return usage(parser, "the URI: %s", problem);
    return CLI_CONTINUE;
}

static int collect_password(const struct parser *parser)
{
    struct cli_args *args = parser->args;
    const char *password = getenv("REDLOCK_PASSWORD");
    char problem[NODES_PROBLEM_LEN];

    if (args->password_file) {
        if (nodes_read_password(&args->nodes, args->password_file, problem) != 0)
            return usage(parser, "--password-file: %s", problem);
    } else if (password && *password) {
        if (nodes_set_password(&args->nodes, password, problem) != 0)
            return usage(parser, "REDLOCK_PASSWORD: %s", problem);
    }
    return CLI_CONTINUE;
}

int args_parse(int argc, char **argv, struct cli_args *args)
{
    struct parser parser = {.args = args, .argv = argv, .argc = argc, .at = 1};
    int rc;

    *args = (struct cli_args){.ttl_ms = 10000,
                              .restart_guard_ms = REDLOCK_GUARD_AUTO,
                              .connect_timeout_ms = 1000,
                              .replica_timeout_ms = 100,
                              .wait_ms = UNSET,
                              .grace_ms = UNSET,
                              .drift_ppm = 10000,
                              .busy_status = CLI_BUSY,
                              .rounds = 5,
                              .seconds_ms = 1000,
                              .leases = 10000,
                              .workers = 16};
    nodes_init(&args->nodes);
    nodes_init(&args->replacement);
    rc = take_all(&parser);
    if (rc != CLI_CONTINUE)
        return rc;
    if (args->version) {
        printf("redlock %s\n", redlock_version());
        return CLI_OK;
    }
    if (args->help || argc < 2) {
        help_print(args->help ? stdout : stderr, args->command);
        return args->help ? CLI_OK : CLI_USAGE;
    }
    set_defaults(args);
    rc = check(&parser);
    if (rc == CLI_CONTINUE)
        rc = collect_nodes(&parser);
    if (rc == CLI_CONTINUE)
        rc = collect_password(&parser);
    if (args->command == COMMAND_INIT)
        return rc == CLI_CONTINUE ? collect_replacement(&parser) : rc;
    if (args->command == COMMAND_BENCH) {
        memcpy(args->works, parser.words, sizeof args->works);
        args->work_count = parser.word_count;
        return rc;
    }
    args->key = parser.words[0];
    args->token = parser.words[1];
    return rc;
}

void args_clear(struct cli_args *args)
{
    nodes_clear(&args->nodes);
    nodes_clear(&args->replacement);
}
