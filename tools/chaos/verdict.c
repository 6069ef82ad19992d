/*
 * Expectations against metrics, and one word for the run. A safety expectation that can't be looked
 * at (its metric is absent) proves nothing: inconclusive. A liveness one that can't is not
 * met: that nothing came is what it is about.
 */
#include "book.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *verdict_name(enum verdict verdict)
{
    switch (verdict) {
    case VERDICT_EXPECTED:
        return "as expected";
    case VERDICT_UNSAFE:
        return "UNSAFE";
    case VERDICT_INCONCLUSIVE:
        return "inconclusive";
    case VERDICT_UNAVAILABLE:
        return "unavailable";
    }
    return "unknown";
}

static const double *find_metric(const struct analysis *analysis, const char *name,
                                 const char *phase)
{
    /* The last one counts: a scenario may measure again. */
    for (size_t i = analysis->metric_count; i > 0; i--) {
        const struct metric *metric = &analysis->metrics[i - 1];
        if (strcmp(metric->name, name) == 0 && strcmp(metric->phase, phase) == 0)
            return &metric->value;
    }
    return NULL;
}

const double *analysis_metric(const struct analysis *analysis, const char *name, const char *phase)
{
    static const double none = 0;
    const double *value = find_metric(analysis, name, phase);

    if (value != NULL)
        return value;
    /* Of results and votes only those that came are listed. */
    if ((strncmp(name, "rc.", 3) == 0 || strncmp(name, "vote.", 5) == 0) &&
        find_metric(analysis, "acquire.returned", phase) != NULL)
        return &none;
    return NULL;
}

static bool holds(double actual, const char *op, double value)
{
    if (strcmp(op, "eq") == 0)
        return actual >= value && actual <= value;
    if (strcmp(op, "ne") == 0)
        return actual < value || actual > value;
    if (strcmp(op, "ge") == 0)
        return actual >= value;
    if (strcmp(op, "le") == 0)
        return actual <= value;
    if (strcmp(op, "gt") == 0)
        return actual > value;
    return actual < value;
}

static void compare(const struct analysis *analysis, struct expectation *expectation)
{
    const double *actual = NULL;

    /* What a scenario measured several times must hold each time. */
    for (size_t i = 0; i < analysis->metric_count; i++) {
        const struct metric *metric = &analysis->metrics[i];
        if (strcmp(metric->name, expectation->metric) != 0 ||
            strcmp(metric->phase, expectation->phase) != 0)
            continue;
        actual = &metric->value;
        if (!holds(*actual, expectation->op, expectation->value))
            break;
    }
    if (actual == NULL)
        actual = analysis_metric(analysis, expectation->metric, expectation->phase);
    expectation->known = actual != NULL;
    expectation->actual = actual != NULL ? *actual : 0;
    expectation->met = expectation->known && holds(*actual, expectation->op, expectation->value);
}

/* ---- verdict ---------------------------------------------------------------- */

/* The worst that was found so far, and the first reason for it. */
struct finding {
    enum verdict verdict;
    char *reason;
    size_t more;
};

static int rank(enum verdict verdict)
{
    static const int ranks[] = {[VERDICT_EXPECTED] = 0,
                                [VERDICT_UNAVAILABLE] = 1,
                                [VERDICT_INCONCLUSIVE] = 2,
                                [VERDICT_UNSAFE] = 3};

    return ranks[verdict];
}

static void find(struct finding *finding, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void find(struct finding *finding, enum verdict verdict, const char *format, ...)
{
    va_list arguments;

    if (rank(verdict) <= rank(finding->verdict)) {
        finding->more += verdict == finding->verdict;
        return;
    }
    free(finding->reason);
    finding->verdict = verdict;
    finding->more = 0;
    va_start(arguments, format);
    if (vasprintf(&finding->reason, format, arguments) < 0)
        finding->reason = NULL;
    va_end(arguments);
}

static enum verdict meaning(const struct expectation *expectation)
{
    if (strcmp(expectation->kind, "liveness") == 0)
        return VERDICT_UNAVAILABLE;
    if (strcmp(expectation->kind, "safety") == 0 && expectation->known)
        return VERDICT_UNSAFE;
    return VERDICT_INCONCLUSIVE;
}

static const char *op_words(const char *op)
{
    static const char *const words[][2] = {{"eq", ""},           {"ne", "not "},
                                           {"ge", "at least "},  {"le", "at most "},
                                           {"gt", "more than "}, {"lt", "less than "}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i][0], op) == 0)
            return words[i][1];
    return "";
}

static void judge_expectation(struct finding *finding, const struct expectation *expectation)
{
    char actual[40] = "absent";
    bool phased = expectation->phase[0] != '\0', told = expectation->text[0] != '\0';

    if (expectation->met)
        return;
    if (expectation->known)
        (void)snprintf(actual, sizeof actual, "%.6g", expectation->actual);
    find(finding, meaning(expectation), "%s%s%s%s is %s, expected %s%.6g%s%s", expectation->metric,
         phased ? " (" : "", phased ? expectation->phase : "", phased ? ")" : "", actual,
         op_words(expectation->op), expectation->value, told ? ": " : "",
         told ? expectation->text : "");
}

static void judge_run(struct finding *finding, const struct book *book)
{
    if (book->broken)
        find(finding, VERDICT_INCONCLUSIVE, "the harness: %s", book->first_error->text);
    if (book->cut)
        find(finding, VERDICT_INCONCLUSIVE, "the history ends in the middle of line %zu",
             book->line);
    else if (!book->ended)
        find(finding, VERDICT_INCONCLUSIVE, "the history has no end");
    else if (book->analysis.interrupted)
        find(finding, VERDICT_INCONCLUSIVE, "the run was interrupted");
    for (size_t i = 0; i < book->faults.count; i++)
        if (!book->faults.row[i].verified)
            find(finding, VERDICT_INCONCLUSIVE, "fault %" PRId64 " (%s) did not take effect",
                 book->faults.row[i].number, book->faults.row[i].action);
    if (book->holdings.count == 0)
        find(finding, VERDICT_INCONCLUSIVE, "no lock was acquired in the whole run");
}

static void one_line(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

void judge(struct book *book)
{
    struct analysis *analysis = &book->analysis;
    struct finding finding = {.verdict = VERDICT_EXPECTED};

    if (!book->ended)
        analysis->interrupted = true;
    judge_run(&finding, book);
    for (size_t i = 0; i < analysis->expectation_count; i++) {
        compare(analysis, &analysis->expectations[i]);
        judge_expectation(&finding, &analysis->expectations[i]);
    }
    analysis->verdict = finding.verdict;
    if (asprintf(&analysis->reason, finding.more > 0 ? "%s (and %zu more)" : "%s",
                 finding.reason != NULL ? finding.reason : "", finding.more) < 0)
        analysis->reason = NULL;
    free(finding.reason);
    if (analysis->reason == NULL)
        analysis->reason = table_take(1, 1);
    one_line(analysis->reason);
}
