/*
 * redlock bench: which works on which primaries, and what is left of it after a signal.
 *
 * The measuring itself is in tools/bench. A signal only leaves its number in a variable, which
 * every work looks at once a cycle or so: what was measured until then is shown, and what was
 * started here is ended, as always. A second signal ends the process at once; its servers die with
 * it.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/crowd.h"
#include "bench/dial.h"
#include "bench/ours.h"
#include "bench/results.h"
#include "bench/servers.h"
#include "bench/works.h"
#include "bench_show.h"
#include "commands.h"
#include "report.h"
#include "signals.h"
#include "status.h"

enum {
    OWN_PRIMARIES = 5
};

static volatile sig_atomic_t interrupted;

static const struct bench_work *const tables[] = {
    bench_works_basic,
    bench_works_crowd,
    bench_works_trouble,
};
#define TABLE_COUNT (sizeof tables / sizeof tables[0])

/* ---- which works ------------------------------------------------------------------ */

struct selection {
    const struct bench_work *works[BENCH_WORKS_MAX];
    unsigned count;
};

static const struct bench_work *find_work(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        for (const struct bench_work *work = tables[i]; work->name; work++)
            if (strcmp(work->name, name) == 0)
                return work;
    return NULL;
}

static void select_table(struct selection *selection, const struct bench_work *table)
{
    for (const struct bench_work *work = table; work->name; work++)
        if (selection->count < BENCH_WORKS_MAX)
            selection->works[selection->count++] = work;
}

static bool is_selected(const struct selection *selection, const char *name)
{
    for (unsigned i = 0; i < selection->count; i++)
        if (strcmp(selection->works[i]->name, name) == 0)
            return true;
    return false;
}

/* A URI whose --node was forgotten may have a password in it: only what could be a work is
 * repeated.
 */
static int no_work(const char *word)
{
    if (word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_0123456789")] == 0)
        report_always("there is no work '%.64s'; redlock bench --list names them", word);
    else
        report_always("that is no work; redlock bench --list names them, --node a primary");
    return CLI_USAGE;
}

static int select_named(struct selection *selection, const struct cli_args *args)
{
    for (size_t i = 0; i < args->work_count; i++) {
        const struct bench_work *work = find_work(args->works[i]);

        if (!work)
            return no_work(args->works[i]);
        if (is_selected(selection, work->name)) {
            report_always("the work %s is named twice", work->name);
            return CLI_USAGE;
        }
        selection->works[selection->count++] = work;
    }
    return CLI_CONTINUE;
}

static void select_all(struct selection *selection)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        select_table(selection, tables[i]);
}

static int check_workers(const struct selection *selection, const struct cli_args *args)
{
    static const char processes[] = "one-key-processes";

    if (args->workers <= CROWD_PROCESSES_MAX || !is_selected(selection, processes))
        return CLI_CONTINUE;
    report_always("--workers %" PRId64 ": the work %s takes at most %d: take fewer, or %s",
                  args->workers, processes, CROWD_PROCESSES_MAX,
                  args->work_count > 0 ? "leave it out" : "name other works");
    return CLI_USAGE;
}

static int select_works(struct selection *selection, const struct cli_args *args)
{
    int status = CLI_CONTINUE;

    if (args->compare) {
        select_table(selection, bench_works_compare);
        return CLI_CONTINUE;
    }
    if (args->work_count > 0)
        status = select_named(selection, args);
    else
        select_all(selection);
    return status == CLI_CONTINUE ? check_workers(selection, args) : status;
}

/* ---- which primaries --------------------------------------------------------------- */

/* What the library says to the list, and what the floor can't do. */
static int check_named(const struct cli_args *args)
{
    struct session session;
    int status;

    for (size_t i = 0; i < args->nodes.count; i++)
        if (strncmp(args->nodes.uris[i], "rediss://", strlen("rediss://")) == 0) {
            report_always(
                "bench doesn't measure encryption: name primaries by redis:// or unix://");
            return CLI_USAGE;
        }
    status = session_open(&session, args);
    session_close(&session);
    return status;
}

static int use_named(struct bench *bench, const struct cli_args *args)
{
    unsigned reached = 0;
    int status = check_named(args);

    if (status != CLI_CONTINUE)
        return status;
    for (size_t i = 0; i < args->nodes.count; i++)
        bench->uris[i] = args->nodes.uris[i];
    bench->n = bench->total = (unsigned)args->nodes.count;
    bench->password = args->nodes.password;
    for (unsigned i = 0; i < bench->n; i++) {
        char problem[256];
        redisContext *context = dial(bench, i, problem, sizeof problem);

        if (context) {
            reached++;
            redisFree(context);
        } else if (!args->quiet) {
            report_always("primary %u of %u: %s", i + 1, bench->n, problem);
        }
    }
    return reached > bench->n / 2 ? CLI_CONTINUE : CLI_NO_QUORUM;
}

static int use_own(struct bench *bench, struct servers *servers, const struct cli_args *args,
                   bool vary)
{
    char problem[512];

    if (servers_find(servers) != 0) {
        report_always("no primaries are named, and there is no redis-server or valkey-server to "
                      "start some of its own: name primaries with --node or REDLOCK_NODES, or "
                      "install one of them");
        return CLI_NOT_FOUND;
    }
    report_say(args, "starting servers of its own: %s", servers->program);
    if (servers_start(servers, vary ? SERVERS_MOST : OWN_PRIMARIES, problem, sizeof problem) != 0) {
        if (interrupted == 0)
            report_always("%s", problem);
        return CLI_INTERNAL;
    }
    for (unsigned i = 0; i < servers->count; i++)
        bench->uris[i] = servers->uris[i];
    bench->n = OWN_PRIMARIES;
    bench->total = servers->count;
    bench->own = true;
    return CLI_CONTINUE;
}

/* ---- the rounds ---------------------------------------------------------------------- */

static void show_progress(const struct bench *bench, const struct cli_args *args)
{
    const struct bench_work *work = bench->results->work;

    if (args->quiet)
        return;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s: round %u of %u", work->name, bench->round + 1, bench->rounds);
    else if (bench->round == 0)
        fprintf(stderr, "redlock: %s: %s\n", work->name, work->what);
}

static void end_progress(const struct cli_args *args)
{
    if (!args->quiet && isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static bool run_work(struct bench *bench, const struct bench_work *work,
                     const struct cli_args *args)
{
    bench->results->work = work;
    for (bench->round = 0; bench->round < bench->rounds; bench->round++) {
        show_progress(bench, args);
        if (interrupted != 0 || !ours_mark(bench, bench->n) || !work->round(bench))
            return false;
    }
    return true;
}

/* Every work is tried, whatever becomes of the others. */
static int run_works(struct bench *bench, const struct selection *selection,
                     const struct cli_args *args)
{
    const struct session session = {.args = args};
    int status = CLI_OK;

    for (unsigned i = 0; i < selection->count && interrupted == 0; i++)
        if (!run_work(bench, selection->works[i], args) && status == CLI_OK)
            status = bench->results->rc == REDLOCK_OK
                         ? CLI_INTERNAL
                         : session_status(&session, bench->results->rc);
    end_progress(args);
    if (interrupted != 0)
        return CLI_SIGNAL_BASE + (int)interrupted;
    if (status == CLI_OK && args->check && bench_any_missed(bench->results))
        return CLI_MISSED;
    return status;
}

/* ---- the command ---------------------------------------------------------------------- */

static void on_signal(int number)
{
    if (interrupted != 0)
        _exit(CLI_SIGNAL_BASE + number);
    interrupted = number;
}

static void listen(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

static int measure(const struct cli_args *args, const struct selection *selection,
                   struct servers *servers)
{
    struct bench_results results = {.say = !args->quiet};
    struct bench bench = {.seconds = (double)args->seconds_ms / 1000,
                          .rounds = (unsigned)args->rounds,
                          .results = &results,
                          .interrupted = &interrupted,
                          .leases = (unsigned)args->leases,
                          .workers = (unsigned)args->workers};
    int status;

    if (args->nodes.count > 0)
        status = use_named(&bench, args);
    else
        status = use_own(&bench, servers, args, is_selected(selection, "nodes"));
    if (status == CLI_CONTINUE) {
        status = run_works(&bench, selection, args);
        bench_show(&bench, args, (int)interrupted);
    } else if (interrupted != 0) {
        status = CLI_SIGNAL_BASE + (int)interrupted;
    }
    bench_results_free(&results);
    return status;
}

int command_bench(const struct cli_args *args)
{
    struct selection selection = {.count = 0};
    struct servers servers = {.count = 0};
    int status;

    if (args->list) {
        select_all(&selection);
        bench_show_list(selection.works, selection.count, args);
        return CLI_OK;
    }
    status = select_works(&selection, args);
    if (status != CLI_CONTINUE)
        return status;
    listen();
    status = measure(args, &selection, &servers);
    servers_end(&servers);
    return status;
}
