#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: redlock-chaos run [options] SCENARIO... | smoke | all\n"
    "       redlock-chaos compare [options] [ROW...]\n"
    "       redlock-chaos check [--json] HISTORY...\n"
    "       redlock-chaos list [--json]\n"
    "       redlock-chaos sweep\n"
    "\n"
    "Runs workers that lock through five Redis primaries, breaks things on a schedule, and judges\n"
    "from the history what the lock did.\n"
    "  run       plays scenarios; each says before what must come out\n"
    "  compare   the same faults for redlock, one instance, and one with a replica, side by side\n"
    "  check     judges histories again, without a run\n"
    "  list      the scenarios, and the rows of a comparison\n"
    "  sweep     removes what runs that were killed left behind (run and compare do it as well)\n"
    "\n"
    "options of run and compare:\n"
    "  --runtime R   docker, process, or auto: docker where an engine answers (auto)\n"
    "  --seed N      the schedule's seed; the one used is always printed\n"
    "  --out DIR     for report.html, report.json and the histories; made, must be new or empty\n"
    "                (redlock-chaos-DATE-TIME)\n"
    "  --quick       short phases: all of it in a few minutes\n"
    "  --mode M      run: redlock, single, single-replica or single-replica-wait instead of the\n"
    "                scenario's own\n"
    "  --peer CMD    judges another client: a program that speaks the line protocol of\n"
    "                docs/harness.md; words are split at blanks\n"
    "  --server P    process: the redis-server or valkey-server to run (found on PATH)\n"
    "  --image I     docker: the image ($REDLOCK_IMAGE, redis:8, or one built here)\n"
    "  --seconds N   how long the storm lasts (600)\n"
    "  --json        the report on standard output as well\n"
    "  --quiet       no progress\n"
    "  --help, --version\n"
    "\n"
    "Exit status: 0 all as expected; 1 a safety expectation was not met; 2 inconclusive;\n"
    "3 a liveness or availability expectation was not met; 64 usage; 69 something needed is not\n"
    "here; 70 the report could not be written; 130 interrupted. docs/harness.md says what each\n"
    "scenario shows, and what the numbers mean.\n";

enum option_code {
    OPTION_RUNTIME = 256,
    OPTION_SEED,
    OPTION_OUT,
    OPTION_QUICK,
    OPTION_MODE,
    OPTION_PEER,
    OPTION_SERVER,
    OPTION_IMAGE,
    OPTION_SECONDS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_VERSION
};

static const struct option options[] = {{"runtime", required_argument, NULL, OPTION_RUNTIME},
                                        {"seed", required_argument, NULL, OPTION_SEED},
                                        {"out", required_argument, NULL, OPTION_OUT},
                                        {"quick", no_argument, NULL, OPTION_QUICK},
                                        {"mode", required_argument, NULL, OPTION_MODE},
                                        {"peer", required_argument, NULL, OPTION_PEER},
                                        {"server", required_argument, NULL, OPTION_SERVER},
                                        {"image", required_argument, NULL, OPTION_IMAGE},
                                        {"seconds", required_argument, NULL, OPTION_SECONDS},
                                        {"json", no_argument, NULL, OPTION_JSON},
                                        {"quiet", no_argument, NULL, OPTION_QUIET},
                                        {"version", no_argument, NULL, OPTION_VERSION},
                                        {"help", no_argument, NULL, 'h'},
                                        {NULL, 0, NULL, 0}};

static int wrong(const char *what, const char *value, const char *choices)
{
    (void)fprintf(stderr, "redlock-chaos: %s '%s': %s\n", what, value, choices);
    return EXIT_USAGE;
}

/* Index of the word, or -1. */
static int choice(const char *word, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

/* Decimal: what is printed as a seed may be given back as one. */
static int read_number(const char *what, const char *text, uint64_t least, uint64_t most,
                       uint64_t *number)
{
    char *end, range[64];

    errno = 0;
    *number = strtoull(text, &end, 10);
    if (errno == 0 && isdigit((unsigned char)text[0]) && *end == '\0' && *number >= least &&
        *number <= most)
        return -1;
    (void)snprintf(range, sizeof range, "a number from %llu to %llu is wanted",
                   (unsigned long long)least, (unsigned long long)most);
    return wrong(what, text, range);
}

/* At blanks; the words lie in one copy, which the first holds. */
static const char **split(const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    const char **words = copy != NULL ? calloc(strlen(text) / 2 + 2, sizeof *words) : NULL;
    size_t count = 0;

    if (words == NULL) {
        free(copy);
        return NULL;
    }
    for (char *word = strtok_r(copy, " \t", &rest); word != NULL;
         word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    if (count == 0)
        free(copy);
    return words;
}

static int read_option(struct args *args, int code, const char *value)
{
    static const char *const runtimes[] = {"auto", "process", "docker", NULL};
    static const char *const modes[] = {"redlock", "single", "single-replica",
                                        "single-replica-wait", NULL};
    uint64_t number;
    int i, status = -1;

    switch (code) {
    case OPTION_RUNTIME:
        i = choice(value, runtimes);
        if (i < 0)
            return wrong("--runtime", value, "auto, process or docker");
        args->runtime = (enum runtime_kind)i;
        break;
    case OPTION_MODE:
        i = choice(value, modes);
        if (i < 0)
            return wrong("--mode", value, "redlock, single, single-replica or single-replica-wait");
        args->mode = (enum mode)i;
        args->mode_given = true;
        break;
    case OPTION_SEED:
        status = read_number("--seed", value, 0, UINT64_MAX, &args->seed);
        args->seeded = true;
        break;
    case OPTION_SECONDS:
        status = read_number("--seconds", value, 1, 86400, &number);
        args->seconds = (int64_t)number;
        break;
    case OPTION_PEER:
        free(args->peer);
        args->peer = split(value);
        if (args->peer == NULL || args->peer[0] == NULL)
            return wrong("--peer", value, "a program is wanted");
        break;
    case OPTION_OUT:
        args->out = value;
        break;
    case OPTION_SERVER:
        args->server = value;
        break;
    case OPTION_IMAGE:
        args->image = value;
        break;
    case OPTION_QUICK:
        args->quick = true;
        break;
    case OPTION_JSON:
        args->json = true;
        break;
    case OPTION_QUIET:
        args->quiet = true;
        break;
    case OPTION_VERSION:
        (void)printf("redlock-chaos %s\n", CHAOS_VERSION);
        return 0;
    case 'h':
        (void)fputs(usage, stdout);
        return 0;
    default:
        (void)fputs("Try: redlock-chaos --help\n", stderr);
        return EXIT_USAGE;
    }
    return status;
}

static int check_names(const struct args *args)
{
    switch (args->command) {
    case COMMAND_RUN:
        if (args->name_count > 0)
            return -1;
        (void)fputs("redlock-chaos: run what? smoke, all, or some of: redlock-chaos list\n",
                    stderr);
        return EXIT_USAGE;
    case COMMAND_CHECK:
        if (args->name_count > 0)
            return -1;
        (void)fputs("redlock-chaos: check which histories? They lie beside the report: *.jsonl\n",
                    stderr);
        return EXIT_USAGE;
    case COMMAND_LIST:
    case COMMAND_SWEEP:
        if (args->name_count > 0)
            return wrong("too much", args->names[0], "list and sweep take no names");
        break;
    case COMMAND_COMPARE:
        break;
    }
    return -1;
}

int args_read(struct args *args, int argc, char **argv)
{
    static const char *const commands[] = {"run", "compare", "list", "check", "sweep", NULL};
    int code, status, i;

    memset(args, 0, sizeof *args);
    while ((code = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        status = read_option(args, code, optarg);
        if (status >= 0)
            return status;
    }
    if (optind == argc) {
        (void)fputs(usage, stderr);
        return EXIT_USAGE;
    }
    i = choice(argv[optind], commands);
    if (i < 0)
        return wrong("command", argv[optind], "run, compare, check, list or sweep");
    args->command = (enum command)i;
    args->names = argv + optind + 1;
    args->name_count = argc - optind - 1;
    return check_names(args);
}

void args_free(struct args *args)
{
    if (args->peer != NULL)
        free((void *)args->peer[0]);
    free(args->peer);
}
