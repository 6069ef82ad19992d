/*
 * One play: fresh servers, the scenario's own code, then the verdict, from the history file alone.
 * What is there when the user interrupts is reported; what was being played then is not.
 */
#include "series.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis.h"
#include "clock_plan.h"
#include "report.h"
#include "scenarios.h"

enum {
    PATH_LEN = 4096,
    TEXT_LEN = 1024
};

struct series {
    const struct args *args;
    struct stage stage;
    char directory[PATH_LEN];
    char out[PATH_LEN];
    bool out_made; /* by us */
    struct chapter *chapters;
    size_t count;
    bool terminal;
    bool own_network; /* a scenario wants to drop packets */
    int last_second;
};

/* For the handler. */
static volatile int interrupted;

static void on_signal(int number)
{
    interrupted = number;
    runtime_interrupt();
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
    action.sa_handler = SIG_IGN;
    (void)sigaction(SIGPIPE, &action, NULL);
    (void)sigaction(SIGXFSZ, &action, NULL); /* then a file that gets too large is an error */
}

/* ---- the line of the moment -------------------------------------------------- */

static void show_progress(void *context, const struct scene *scene)
{
    struct series *series = context;
    struct glance glance = scene_glance(scene);
    int second = (int)(glance.elapsed_ms / 1000);

    if (second == series->last_second)
        return;
    series->last_second = second;
    (void)fprintf(
        stderr,
        "%s%-22s %3d s  %-16.16s faults %u  locks %llu  probes %llu/%llu  violations %llu%s",
        series->terminal ? "\r" : "", scene_name(scene), second, glance.phase, glance.faults,
        (unsigned long long)glance.acquired, (unsigned long long)glance.probed,
        (unsigned long long)glance.probes, (unsigned long long)glance.violations,
        series->terminal ? "\x1b[K" : "\n");
}

static void say_verdict(const struct series *series, const struct chapter *chapter)
{
    const struct analysis *analysis = chapter->analysis;

    if (series->args->quiet)
        return;
    (void)fprintf(stderr, "%s%-22s %-20s %s%s%s\n", series->terminal ? "\r\x1b[K" : "",
                  chapter->row != NULL ? chapter->row : chapter->scenario, chapter->mode,
                  verdict_name(analysis->verdict), analysis->reason[0] != '\0' ? ": " : "",
                  analysis->reason);
}

/* ---- the places ------------------------------------------------------------------ */

static bool is_empty(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    bool empty = directory != NULL;

    while (empty && (entry = readdir(directory)) != NULL)
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    if (directory != NULL)
        (void)closedir(directory);
    return empty;
}

/* New, or an empty directory. */
static int make_out(struct series *series)
{
    const char *wanted = series->args->out;
    char name[64];
    time_t now = time(NULL);
    struct tm local;

    if (wanted == NULL) {
        (void)strftime(name, sizeof name, "redlock-chaos-%Y%m%d-%H%M%S", localtime_r(&now, &local));
        wanted = name;
    }
    (void)snprintf(series->out, sizeof series->out, "%s", wanted);
    series->out_made = mkdir(series->out, 0777) == 0;
    if (series->out_made)
        return -1;
    if (errno != EEXIST) {
        (void)fprintf(stderr, "redlock-chaos: %s: %s; give another --out\n", series->out,
                      strerror(errno));
        return EXIT_INTERNAL;
    }
    if (is_empty(series->out))
        return -1;
    (void)fprintf(stderr, "redlock-chaos: %s is no empty directory; give another --out\n",
                  series->out);
    return EXIT_USAGE;
}

static int begin(struct series *series)
{
    const struct args *args = series->args;
    struct runtime_options options = {.kind = args->runtime,
                                      .nodes = SCENE_NODES,
                                      .server = args->server,
                                      .image = args->image,
                                      .directory = series->directory,
                                      .own_network = series->own_network};
    char text[TEXT_LEN];
    int status;

    catch_signals();
    status = make_out(series); /* what is quick is found out first */
    if (status >= 0)
        return status;
    (void)runtime_sweep(stderr);
    if (runtime_directory(series->directory, sizeof series->directory, text, sizeof text) != 0) {
        (void)fprintf(stderr, "redlock-chaos: %s\n", text);
        return interrupted ? EXIT_SIGNAL + interrupted : EXIT_INTERNAL;
    }
    series->stage.runtime = runtime_new(&options, text, sizeof text);
    if (series->stage.runtime == NULL) {
        (void)fprintf(stderr, "redlock-chaos: %s\n", text);
        return interrupted ? EXIT_SIGNAL + interrupted : EXIT_MISSING;
    }
    if (!args->quiet)
        (void)fprintf(stderr, "%s, %s, seed %llu; report: %s\n",
                      runtime_kind(series->stage.runtime) == RUNTIME_DOCKER ? "containers"
                                                                            : "local processes",
                      runtime_version(series->stage.runtime),
                      (unsigned long long)series->stage.seed, series->out);
    return -1;
}

/* ---- one play ------------------------------------------------------------------------ */

struct part { /* what is to be played */
    const char *name, *title, *row;
    enum mode mode;
    const struct conditions *conditions;
    play *play;
};

/* The command that plays the same schedule. */
static char *again_of(const struct series *series, const struct part *part)
{
    const struct args *args = series->args;
    bool row = part->row != NULL;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    if (stream == NULL)
        return NULL;
    (void)fprintf(stream, "redlock-chaos %s --seed %llu --runtime %s", row ? "compare" : "run",
                  (unsigned long long)series->stage.seed,
                  runtime_kind(series->stage.runtime) == RUNTIME_DOCKER ? "docker" : "process");
    if (args->quick)
        (void)fputs(" --quick", stream);
    if (!row && args->mode_given)
        (void)fprintf(stream, " --mode %s", mode_name(part->mode));
    if (args->seconds != 0)
        (void)fprintf(stream, " --seconds %lld", (long long)args->seconds);
    if (args->server != NULL)
        (void)fprintf(stream, " --server '%s'", args->server);
    if (args->image != NULL)
        (void)fprintf(stream, " --image '%s'", args->image);
    for (const char **word = args->peer; word != NULL && *word != NULL; word++)
        (void)fprintf(stream, "%s%s", word == args->peer ? " --peer '" : " ", *word);
    (void)fprintf(stream, "%s '%s'", args->peer != NULL ? "'" : "", row ? part->row : part->name);
    return fclose(stream) == 0 ? text : NULL;
}

static void add_chapter(struct series *series, const struct part *part, const char *file,
                        struct analysis *analysis)
{
    struct chapter *chapter = &series->chapters[series->count++];

    chapter->scenario = part->name;
    chapter->mode = mode_name(part->mode);
    chapter->row = part->row;
    chapter->history = strdup(file);
    chapter->again = again_of(series, part);
    chapter->analysis = analysis;
    say_verdict(series, chapter);
}

/* -1: go on; else an exit status. */
static int play_part(struct series *series, const struct part *part)
{
    char path[PATH_LEN + 128], file[128], text[TEXT_LEN];
    struct analysis *analysis;
    struct scene *scene;
    int error;

    (void)snprintf(file, sizeof file, "%02zu-%s-%s.jsonl", series->count + 1, part->name,
                   mode_name(part->mode));
    for (char *c = file; *c != '\0'; c++)
        if (*c == ' ')
            *c = '-';
    (void)snprintf(path, sizeof path, "%s/%s", series->out, file);
    scene = scene_new(&series->stage, part->name, part->title, part->mode, part->conditions, path,
                      text, sizeof text);
    if (scene == NULL) {
        bool begun = unlink(path) == 0; /* the file is made first */

        if (interrupted)
            return EXIT_SIGNAL + interrupted;
        (void)fprintf(stderr, "redlock-chaos: %s: %s\n", part->name, text);
        return begun ? EXIT_MISSING : EXIT_INTERNAL;
    }
    part->play(scene);
    error = scene_free(scene);
    if (error != 0 || interrupted) {
        (void)unlink(path); /* nothing half-written */
        if (interrupted)
            return EXIT_SIGNAL + interrupted;
        (void)fprintf(stderr, "redlock-chaos: %s: %s\n", path, strerror(error));
        return EXIT_INTERNAL;
    }
    analysis = analysis_of(path, text, sizeof text);
    if (analysis == NULL) {
        (void)fprintf(stderr, "redlock-chaos: %s: %s\n", path, text);
        return EXIT_INTERNAL;
    }
    add_chapter(series, part, file, analysis);
    return -1;
}

/* ---- the report ------------------------------------------------------------------------- */

static int write_report(const struct series *series, const struct report *report)
{
    static const char *const names[] = {"report.json", "report.html"};
    char path[PATH_LEN + 16];

    for (int i = 0; i < 2; i++) {
        int error;

        (void)snprintf(path, sizeof path, "%s/%s", series->out, names[i]);
        error = i == 0 ? report_json(report, path) : report_html(report, path);
        if (error != 0) {
            (void)fprintf(stderr, "redlock-chaos: %s: %s\n", path, strerror(error));
            return EXIT_INTERNAL;
        }
    }
    (void)fprintf(stderr, "report: %s\n", path);
    return -1;
}

static int print_json(const struct report *report)
{
    int error = report_print_json(report, stdout);

    if (error == 0 && fflush(stdout) != 0)
        error = errno;
    if (error == 0)
        return -1;
    (void)fprintf(stderr, "redlock-chaos: standard output: %s\n", strerror(error));
    return EXIT_INTERNAL;
}

static char *command_line(int argc, char **argv)
{
    size_t size = 1;
    char *text;

    for (int i = 0; i < argc; i++)
        size += strlen(argv[i]) + 1;
    text = calloc(1, size);
    for (int i = 0; i < argc && text != NULL; i++) {
        (void)strncat(text, argv[i], size - strlen(text) - 1);
        if (i + 1 < argc)
            (void)strncat(text, " ", size - strlen(text) - 1);
    }
    return text;
}

static int finish(struct series *series, int status, bool comparison, int argc, char **argv)
{
    char *command = command_line(argc, argv);
    struct report report = {.title = comparison ? "Redlock and one instance, under the same faults"
                                                : "What the lock did when things broke",
                            .command = command != NULL ? command : "",
                            .chapters = series->chapters,
                            .count = series->count,
                            .comparison = comparison};

    runtime_free(series->stage.runtime);
    if (series->directory[0] != '\0')
        (void)runtime_remove_directory(series->directory);
    if (series->count > 0) {
        int written = write_report(series, &report);

        if (!series->args->json)
            report_print(&report, stdout, isatty(STDOUT_FILENO));
        else if (written < 0)
            written = print_json(&report);
        if (status < 0)
            status = written < 0 ? report_status(&report) : written;
        else if (status < EXIT_SIGNAL && report_status(&report) == VERDICT_UNSAFE)
            status = VERDICT_UNSAFE; /* what was found stays found */
    } else if (series->out_made) {
        (void)rmdir(series->out);
    }
    if (status > EXIT_SIGNAL)
        (void)fprintf(stderr, "redlock-chaos: interrupted; everything it started is ended\n");
    for (size_t i = 0; i < series->count; i++) {
        free((char *)series->chapters[i].history);
        free((char *)series->chapters[i].again);
        analysis_free((struct analysis *)series->chapters[i].analysis);
    }
    free(series->chapters);
    free(command);
    return status < 0 ? EXIT_INTERNAL : status;
}

static bool prepare(struct series *series, const struct args *args, int argc, char **argv,
                    size_t most)
{
    *series = (struct series){.args = args, .last_second = -1};
    series->stage = (struct stage){
        .seed = args->seeded ? args->seed : (uint64_t)clock_real_ns(CLOCK_REALTIME) % 1000000007,
        .directory = series->directory,
        .quick = args->quick,
        .storm_ms = (args->seconds != 0 ? args->seconds : 600) * 1000,
        .peer = args->peer,
        .argc = argc,
        .argv = argv,
        .interrupted = &interrupted,
        .progress = args->quiet ? NULL : show_progress,
        .progress_context = series};
    series->terminal = isatty(STDERR_FILENO);
    series->chapters = calloc(most, sizeof *series->chapters);
    return series->chapters != NULL;
}

/* ---- run ------------------------------------------------------------------------------------ */

static bool wanted(const struct args *args, const struct scenario *scenario)
{
    for (int i = 0; i < args->name_count; i++) {
        const char *name = args->names[i];

        if (strcmp(name, scenario->name) == 0 || (strcmp(name, "all") == 0 && !scenario->apart) ||
            (strcmp(name, "smoke") == 0 && scenario->smoke))
            return true;
    }
    return false;
}

static bool known(const struct args *args)
{
    bool all = true;

    for (int i = 0; i < args->name_count; i++) {
        const char *name = args->names[i];

        if (strcmp(name, "all") != 0 && strcmp(name, "smoke") != 0 &&
            scenario_named(name) == NULL) {
            (void)fprintf(stderr,
                          "redlock-chaos: there is no scenario '%s'; see: redlock-chaos list\n",
                          name);
            all = false;
        }
    }
    return all;
}

static int play_scenario(struct series *series, const struct scenario *scenario)
{
    struct part part = {.name = scenario->name,
                        .title = scenario->title,
                        .mode = series->args->mode_given ? series->args->mode : scenario->mode,
                        .conditions = &scenario->conditions,
                        .play = scenario->play};

    if (scenario->own_network && !runtime_can_drop(series->stage.runtime)) {
        (void)fprintf(stderr,
                      "%-22s skipped: it drops packets in a network of its own, which needs "
                      "--runtime process, root and iptables\n",
                      scenario->name);
        return -1;
    }
    if ((scenario->own || scenario->conditions.control != NULL) && series->args->peer != NULL) {
        (void)fprintf(stderr, "%-22s skipped: it is about %s\n", scenario->name,
                      scenario->own ? "what only our own client has or says"
                                    : "a weakened client of our own");
        return -1;
    }
    return play_part(series, &part);
}

int series_run(const struct args *args, int argc, char **argv)
{
    struct series series;
    int status;

    if (!known(args))
        return EXIT_USAGE;
    if (!prepare(&series, args, argc, argv, scenario_count))
        return EXIT_INTERNAL;
    for (size_t i = 0; i < scenario_count; i++)
        series.own_network =
            series.own_network || (scenarios[i].own_network && wanted(args, &scenarios[i]));
    status = begin(&series);
    for (size_t i = 0; i < scenario_count && status < 0; i++)
        if (wanted(args, &scenarios[i]))
            status = play_scenario(&series, &scenarios[i]);
    if (status < 0 && series.count == 0)
        status = EXIT_MISSING; /* all were skipped */
    return finish(&series, status, false, argc, argv);
}

/* ---- compare -----------------------------------------------------------------------------------
 */

static bool row_wanted(const struct args *args, const char *name)
{
    for (int i = 0; i < args->name_count; i++)
        if (strcmp(args->names[i], name) == 0)
            return true;
    return args->name_count == 0;
}

static bool rows_known(const struct args *args)
{
    for (int i = 0; i < args->name_count; i++) {
        bool found = false;

        for (size_t k = 0; k < row_count; k++)
            found = found || strcmp(args->names[i], rows[k].name) == 0;
        if (!found) {
            (void)fprintf(stderr, "redlock-chaos: there is no row '%s'; see: redlock-chaos list\n",
                          args->names[i]);
            return false;
        }
    }
    return true;
}

int series_compare(const struct args *args, int argc, char **argv)
{
    struct series series;
    int status;

    if (!rows_known(args))
        return EXIT_USAGE;
    if (!prepare(&series, args, argc, argv, row_count * 4))
        return EXIT_INTERNAL;
    status = begin(&series);
    for (size_t i = 0; i < row_count; i++) {
        for (enum mode mode = MODE_REDLOCK; mode <= MODE_REPLICA_WAIT && status < 0; mode++) {
            struct conditions conditions = rows[i].conditions;
            struct part part = {.name = rows[i].name,
                                .title = rows[i].title,
                                .row = rows[i].name,
                                .mode = mode,
                                .conditions = &conditions,
                                .play = rows[i].play};

            conditions.no_guard = rows[i].as_used && mode != MODE_REDLOCK;
            if (row_wanted(args, rows[i].name))
                status = play_part(&series, &part);
        }
    }
    return finish(&series, status, true, argc, argv);
}

/* ---- check
 * ---------------------------------------------------------------------------------------- */

int series_check(const struct args *args)
{
    struct chapter *chapters = calloc((size_t)args->name_count, sizeof *chapters);
    struct report report = {
        .title = "Judged again", .command = "redlock-chaos check", .chapters = chapters};
    int status = -1;

    for (int i = 0; chapters != NULL && i < args->name_count; i++) {
        char text[TEXT_LEN];
        struct analysis *analysis = analysis_of(args->names[i], text, sizeof text);
        const char *name;

        if (analysis == NULL) {
            (void)fprintf(stderr, "redlock-chaos: %s: %s\n", args->names[i], text);
            status = EXIT_USAGE;
            break;
        }
        name = json_string_value(json_object_get(analysis->run, "scenario"));
        chapters[report.count++] =
            (struct chapter){.scenario = name != NULL ? name : "?",
                             .mode = json_string_value(json_object_get(analysis->run, "mode")),
                             .history = args->names[i],
                             .again = "",
                             .analysis = analysis};
    }
    if (chapters == NULL)
        status = EXIT_INTERNAL;
    if (status < 0) {
        if (args->json)
            status = print_json(&report);
        else
            report_print(&report, stdout, isatty(STDOUT_FILENO));
    }
    if (status < 0)
        status = report_status(&report);
    for (size_t i = 0; i < report.count; i++)
        analysis_free((struct analysis *)chapters[i].analysis);
    free(chapters);
    return status;
}
