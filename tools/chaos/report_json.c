/*
 * report.json, for programs; report.h and docs/harness-report.md say what is in it. Whatever text
 * comes in is made UTF-8 first: jansson would refuse the rest, and a report must not fail because a
 * server said something odd.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "analysis.h"
#include "report.h"
#include "report_file.h"
#include "words.h"

enum {
    SCHEMA = 1,
    REAL_DIGITS = 15
};

/* ---- values -------------------------------------------------------------- */

static json_t *text_value(const char *text)
{
    char *clean = words_clean(text);
    json_t *value = clean != NULL ? json_string(clean) : NULL;

    free(clean);
    return value;
}

static json_t *number_value(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *checker_id(int number)
{
    char id[16];

    (void)snprintf(id, sizeof id, "C%d", number);
    return json_string(id);
}

static json_t *since(const struct analysis *analysis, int64_t t)
{
    return json_integer(t - analysis->begin_ns);
}

/* Appends one object for each of count things. NULL: no memory. */
typedef json_t *make_element(const struct analysis *analysis, size_t which);

static json_t *array_of(const struct analysis *analysis, size_t count, make_element *make)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < count; i++) {
        if (json_array_append_new(array, make(analysis, i)) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

/* ---- what a chapter is made of ----------------------------------------------- */

static json_t *checker_value(const struct analysis *analysis, size_t which)
{
    const struct checker *checker = &analysis->checkers[which];

    return json_pack("{s:o, s:o, s:b, s:I, s:I}", "id", checker_id((int)which + 1), "title",
                     text_value(checker->title), "ran", checker->ran, "checked",
                     (json_int_t)checker->checked, "found", (json_int_t)checker->found);
}

static json_t *expectation_value(const struct analysis *analysis, size_t which)
{
    const struct expectation *expectation = &analysis->expectations[which];

    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "metric",
                     text_value(expectation->metric), "phase", text_value(expectation->phase), "op",
                     text_value(expectation->op), "value", number_value(expectation->value), "kind",
                     text_value(expectation->kind), "text", text_value(expectation->text), "met",
                     expectation->met, "actual",
                     expectation->known ? number_value(expectation->actual) : json_null());
}

static const char *worker_name(const struct analysis *analysis, unsigned worker)
{
    return worker < analysis->worker_count ? analysis->workers[worker] : "";
}

static int append_lease(json_t *leases, const struct analysis *analysis, long which)
{
    const struct lease *lease;

    if (which < 0 || (size_t)which >= analysis->lease_count)
        return 0;
    lease = &analysis->leases[which];
    return json_array_append_new(leases, json_pack("{s:o, s:I, s:o, s:o}", "worker",
                                                   text_value(worker_name(analysis, lease->worker)),
                                                   "try", (json_int_t)lease->number, "name",
                                                   text_value(lease->name), "owner",
                                                   text_value(lease->owner)));
}

static json_t *violation_value(const struct analysis *analysis, size_t which)
{
    const struct violation *violation = &analysis->violations[which];
    json_t *records = json_array(), *leases = json_array();
    int failed = 0;

    for (size_t i = 0; i < 2; i++) {
        if (violation->records[i] >= 0)
            failed |= json_array_append_new(records, json_integer(violation->records[i]));
        failed |= append_lease(leases, analysis, violation->leases[i]);
    }
    if (failed != 0) {
        json_decref(records);
        json_decref(leases);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "checker", checker_id(violation->checker), "t_ns",
                     since(analysis, violation->t), "text", text_value(violation->text), "records",
                     records, "leases", leases);
}

static json_t *phase_value(const struct analysis *analysis, size_t which)
{
    const struct phase *phase = &analysis->phases[which];

    return json_pack("{s:o, s:o, s:o}", "name", text_value(phase->name), "begin_ns",
                     since(analysis, phase->begin_ns), "end_ns", since(analysis, phase->end_ns));
}

static json_t *nodes_value(uint64_t nodes)
{
    json_t *array = json_array();

    for (int i = 0; i < 64; i++)
        if ((nodes >> i & 1) != 0)
            (void)json_array_append_new(array, json_integer(i + 1));
    return array;
}

static json_t *fault_value(const struct analysis *analysis, size_t which)
{
    const struct fault *fault = &analysis->faults[which];

    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:b}", "fault", (json_int_t)fault->number,
                     "action", text_value(fault->action), "text", text_value(fault->text), "nodes",
                     nodes_value(fault->nodes), "begin_ns", since(analysis, fault->begin_ns),
                     "end_ns", since(analysis, fault->end_ns), "verified", fault->verified);
}

/* {phase: {metric: number}}, "" being the whole run. */
static json_t *metrics_value(const struct analysis *analysis)
{
    json_t *metrics = json_object();
    int failed = metrics == NULL;

    for (size_t i = 0; failed == 0 && i < analysis->metric_count; i++) {
        const struct metric *metric = &analysis->metrics[i];
        char *phase = words_clean(metric->phase), *name = words_clean(metric->name);
        if (phase == NULL || name == NULL)
            failed = 1;
        else if (json_object_get(metrics, phase) == NULL)
            failed = json_object_set_new(metrics, phase, json_object());
        if (failed == 0)
            failed = json_object_set_new(json_object_get(metrics, phase), name,
                                         number_value(metric->value));
        free(phase);
        free(name);
    }
    if (failed != 0)
        json_decref(metrics);
    return failed != 0 ? NULL : metrics;
}

/* ---- the report ------------------------------------------------------------------ */

static const char *verdict_word(enum verdict verdict)
{
    static const char *const words[] = {"expected", "unsafe", "inconclusive", "unavailable"};

    return words[verdict];
}

static json_int_t found_count(const struct analysis *analysis)
{
    size_t found = 0;

    for (size_t i = 0; i < CHECKERS; i++)
        found += analysis->checkers[i].found;
    return (json_int_t)found;
}

static json_t *counts_value(const struct analysis *analysis)
{
    return json_pack("{s:I, s:I, s:I}", "leases", (json_int_t)analysis->lease_count, "probes",
                     (json_int_t)analysis->probe_count, "points",
                     (json_int_t)analysis->point_count);
}

static json_t *results_value(const struct analysis *analysis)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "counts", counts_value(analysis),
                     "metrics", metrics_value(analysis), "checkers",
                     array_of(analysis, CHECKERS, checker_value), "expectations",
                     array_of(analysis, analysis->expectation_count, expectation_value),
                     "violations", array_of(analysis, analysis->violation_count, violation_value),
                     "violations_found", found_count(analysis), "phases",
                     array_of(analysis, analysis->phase_count, phase_value), "faults",
                     array_of(analysis, analysis->fault_count, fault_value));
}

static json_t *chapter_value(const struct chapter *chapter)
{
    const struct analysis *analysis = chapter->analysis;
    json_t *results = results_value(analysis);
    json_t *value =
        json_pack("{s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:O, s:I, s:I, s:b, s:I}", "scenario",
                  text_value(chapter->scenario), "mode", text_value(chapter->mode), "row",
                  chapter->row != NULL ? text_value(chapter->row) : json_null(), "verdict",
                  verdict_word(analysis->verdict), "reason", text_value(analysis->reason),
                  "history", text_value(chapter->history), "again", text_value(chapter->again),
                  "run", analysis->run != NULL ? analysis->run : json_null(), "begin_ns",
                  (json_int_t)analysis->begin_ns, "duration_ns",
                  (json_int_t)(analysis->end_ns - analysis->begin_ns), "interrupted",
                  analysis->interrupted, "records", (json_int_t)analysis->records);

    if (value == NULL || results == NULL || json_object_update(value, results) != 0) {
        json_decref(value);
        value = NULL;
    }
    json_decref(results);
    return value;
}

static json_t *chapters_value(const struct report *report)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < report->count; i++) {
        if (json_array_append_new(array, chapter_value(&report->chapters[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *environment_value(void)
{
    struct utsname system;
    char kernel[2 * sizeof system.release];

    if (uname(&system) != 0)
        return NULL;
    (void)snprintf(kernel, sizeof kernel, "%s %s", system.sysname, system.release);
    return json_pack("{s:o, s:o, s:I, s:s, s:s}", "kernel", text_value(kernel), "machine",
                     text_value(system.machine), "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),
                     "version", CHAOS_VERSION, "jansson", JANSSON_VERSION);
}

int report_print_json(const struct report *report, FILE *stream)
{
    json_t *value =
        json_pack("{s:i, s:o, s:o, s:i, s:I, s:o, s:o}", "schema", SCHEMA, "title",
                  text_value(report->title), "command", text_value(report->command), "status",
                  report_status(report), "made_s", (json_int_t)time(NULL), "environment",
                  environment_value(), "chapters", chapters_value(report));
    int error = 0;

    if (value == NULL)
        return ENOMEM;
    errno = 0;
    if (json_dumpf(value, stream, JSON_INDENT(1) | JSON_REAL_PRECISION(REAL_DIGITS)) != 0 ||
        putc('\n', stream) == EOF)
        error = errno != 0 ? errno : EIO;
    json_decref(value);
    return error;
}

static int write_json(const void *context, FILE *stream)
{
    return report_print_json(context, stream);
}

int report_json(const struct report *report, const char *path)
{
    return report_file(path, write_json, report);
}
