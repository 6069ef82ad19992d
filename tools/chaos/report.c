/*
 * The terminal's table. No line is wider than 100 columns, but for the command that replays a
 * scenario, which is to be copied. Texts may come from servers: what could steer a terminal is
 * replaced.
 */
#include "report.h"

#include <string.h>

#include "analysis.h"
#include "comparison.h"
#include "words.h"

enum {
    COLUMNS = 100,
    FIXED_COLUMNS = 65, /* of the table, all but scenario and mode */
    FIRST_VIOLATIONS = 3
};

struct terminal {
    FILE *stream;
    bool colour;
};

int report_status(const struct report *report)
{
    static const enum verdict worst_first[] = {VERDICT_UNSAFE, VERDICT_UNAVAILABLE,
                                               VERDICT_INCONCLUSIVE};

    for (size_t i = 0; i < sizeof worst_first / sizeof *worst_first; i++)
        for (size_t k = 0; k < report->count; k++)
            if (report->chapters[k].analysis->verdict == worst_first[i])
                return (int)worst_first[i];
    return VERDICT_EXPECTED;
}

/* ---- text of a known width ---------------------------------------------------- */

static void put_character(FILE *stream, uint32_t character)
{
    char bytes[4] = {0};
    size_t count = words_put(character == '\n' ? ' ' : character, bytes);

    (void)fwrite(bytes, 1, count, stream);
}

/* Left-aligned; what is longer than the width is cut. Returns the columns taken. */
static size_t put_left(FILE *stream, const char *text, size_t width)
{
    size_t length = words_length(text), count = length <= width ? length : width - 1;

    for (size_t i = 0; i < count; i++)
        put_character(stream, words_next(&text));
    if (count < length)
        put_character(stream, 0x2026);
    for (size_t i = length; i < width; i++)
        (void)putc(' ', stream);
    return width;
}

static void put_right(FILE *stream, const char *text, size_t width)
{
    for (size_t i = words_length(text); i < width; i++)
        (void)putc(' ', stream);
    (void)put_left(stream, text, words_length(text));
}

static void put_all(FILE *stream, const char *text)
{
    (void)put_left(stream, text, words_length(text));
}

static size_t word_length(const char *text)
{
    size_t length = 0;
    uint32_t character;

    while ((character = words_next(&text)) != 0 && character != ' ' && character != '\n')
        length++;
    return length;
}

/* From a column on, with the lines that follow indented by `indent`; ends the line. A word that
 * has no room on a line of its own is cut. */
static void put_wrapped(FILE *stream, const char *text, size_t column, size_t indent)
{
    uint32_t character = ' ';
    bool begins = true;

    while (*text != '\0' && character != 0) {
        size_t length = word_length(text);
        if (!begins && column + 1 + length > COLUMNS) {
            (void)fprintf(stream, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!begins) {
            (void)putc(' ', stream);
            column++;
        }
        while ((character = words_next(&text)) != 0 && character != ' ' && character != '\n')
            if (column++ < COLUMNS)
                put_character(stream, character);
        begins = false;
    }
    (void)putc('\n', stream);
}

static void put_colour(const struct terminal *terminal, const char *code)
{
    if (terminal->colour)
        (void)fprintf(terminal->stream, "\033[%sm", code);
}

static const char *verdict_colour(enum verdict verdict)
{
    static const char *const codes[] = {"32", "1;31", "33", "1;35"};

    return codes[verdict];
}

/* In a comparison all chapters are of one scenario, and it is the fault that tells them apart. */
static const char *title_of(const struct chapter *chapter)
{
    return chapter->row != NULL ? chapter->row : chapter->scenario;
}

/* ---- the table ------------------------------------------------------------------ */

static size_t mode_width(const struct report *report)
{
    size_t width = strlen("mode");

    for (size_t i = 0; i < report->count; i++)
        if (words_length(report->chapters[i].mode) > width)
            width = words_length(report->chapters[i].mode);
    return width < 19 ? width : 19;
}

static size_t scenario_width(const struct report *report, size_t limit)
{
    size_t width = strlen("scenario");

    for (size_t i = 0; i < report->count; i++)
        if (words_length(title_of(&report->chapters[i])) > width)
            width = words_length(title_of(&report->chapters[i]));
    return width < limit ? width : limit;
}

static double metric_or_0(const struct analysis *analysis, const char *name)
{
    const double *value = analysis_metric(analysis, name, "");

    return value != NULL ? *value : 0;
}

static struct words stale_words(const struct analysis *analysis)
{
    struct words words;

    if (analysis_metric(analysis, "stale.plain", "") == NULL &&
        analysis_metric(analysis, "c5.accepted_stale", "") == NULL)
        return words_number(NULL);
    (void)snprintf(words.text, sizeof words.text, "%.0f/%.0f", metric_or_0(analysis, "stale.plain"),
                   metric_or_0(analysis, "c5.accepted_stale"));
    return words;
}

static struct words plain_ms(const double *value)
{
    struct words words = words_number(value);

    if (value != NULL && *value < 1e6 && *value > -1e6)
        (void)snprintf(words.text, sizeof words.text, "%.1f", *value);
    return words;
}

static void print_row(const struct terminal *terminal, const struct chapter *chapter,
                      size_t scenario, size_t mode)
{
    const struct analysis *analysis = chapter->analysis;
    const char *const names[] = {"acquire.ok",     "probe.availability", "acquire.p50_ms",
                                 "acquire.p99_ms", "c1.overlaps",        "c3.min_ms"};
    const double *value[6];

    for (size_t i = 0; i < 6; i++)
        value[i] = analysis_metric(analysis, names[i], "");
    (void)put_left(terminal->stream, title_of(chapter), scenario);
    (void)putc(' ', terminal->stream);
    (void)put_left(terminal->stream, chapter->mode, mode);
    (void)putc(' ', terminal->stream);
    put_colour(terminal, verdict_colour(analysis->verdict));
    (void)put_left(terminal->stream, verdict_name(analysis->verdict), 12);
    put_colour(terminal, "0");
    put_right(terminal->stream, words_number(value[0]).text, 8);
    put_right(terminal->stream, words_percent(value[1]).text, 8);
    put_right(terminal->stream, plain_ms(value[2]).text, 8);
    put_right(terminal->stream, plain_ms(value[3]).text, 8);
    put_right(terminal->stream, words_number(value[4]).text, 6);
    put_right(terminal->stream, stale_words(analysis).text, 7);
    put_right(terminal->stream, plain_ms(value[5]).text, 9);
    (void)putc('\n', terminal->stream);
}

static void print_table(const struct terminal *terminal, const struct report *report)
{
    size_t mode = mode_width(report);
    size_t scenario = scenario_width(report, COLUMNS - FIXED_COLUMNS - mode - 2);

    put_colour(terminal, "1");
    (void)put_left(terminal->stream, "scenario", scenario);
    (void)putc(' ', terminal->stream);
    (void)put_left(terminal->stream, "mode", mode);
    (void)fprintf(terminal->stream, " %-12s%8s%8s%8s%8s%6s%7s%9s\n", "verdict", "acquired",
                  "avail.", "p50 ms", "p99 ms", "over.", "stale", "C3 min");
    put_colour(terminal, "0");
    for (size_t i = 0; i < report->count; i++)
        print_row(terminal, &report->chapters[i], scenario, mode);
    put_wrapped(terminal->stream,
                "over.: claims that overlap. stale: stale writes taken, unfenced/fenced. "
                "C3 min: how many ms the shortest lease lasted beyond its claim.",
                0, 0);
}

/* ---- the comparison ---------------------------------------------------------------- */

static void print_compared(const struct terminal *terminal, const struct report *report,
                           const char *row, size_t measure)
{
    const struct comparison_measure *what = &comparison_measures[measure];

    (void)put_left(terminal->stream, measure == 0 ? row : "", 17);
    (void)fprintf(terminal->stream, " %-16s", what->title);
    for (size_t i = comparison_next_mode(report, 0); i < report->count;
         i = comparison_next_mode(report, i + 1)) {
        const struct chapter *chapter = comparison_at(report, row, report->chapters[i].mode);
        const double *value = chapter != NULL ? comparison_value(chapter, what) : NULL;
        size_t width = words_length(report->chapters[i].mode);
        bool harmful = what->harm && value != NULL && *value > 0;
        put_colour(terminal, harmful ? "1;31" : "0");
        put_right(terminal->stream, words_value(what->metric, value).text,
                  2 + (width < 9    ? 9
                       : width < 19 ? width
                                    : 19));
        put_colour(terminal, "0");
    }
    (void)putc('\n', terminal->stream);
}

static void print_comparison(const struct terminal *terminal, const struct report *report)
{
    put_colour(terminal, "1");
    (void)fprintf(terminal->stream, "\n%-17s %-16s", "fault", "");
    for (size_t i = comparison_next_mode(report, 0); i < report->count;
         i = comparison_next_mode(report, i + 1)) {
        size_t width = words_length(report->chapters[i].mode);
        (void)fputs("  ", terminal->stream);
        put_right(terminal->stream, report->chapters[i].mode, width < 9 ? 9 : width);
    }
    (void)putc('\n', terminal->stream);
    put_colour(terminal, "0");
    for (size_t i = comparison_next_row(report, 0); i < report->count;
         i = comparison_next_row(report, i + 1)) {
        for (size_t measure = 0; measure < COMPARISON_MEASURES; measure++)
            print_compared(terminal, report, report->chapters[i].row, measure);
        (void)putc('\n', terminal->stream);
    }
}

/* ---- why ------------------------------------------------------------------------------ */

static void print_expectation(FILE *stream, const struct expectation *expectation)
{
    char text[256];
    const char *phase = expectation->phase != NULL ? expectation->phase : "";
    const double *actual = expectation->known ? &expectation->actual : NULL;
    bool described = expectation->text != NULL && expectation->text[0] != '\0';

    (void)snprintf(text, sizeof text, "%s%s%s %s %s: %s%s%s%s", expectation->metric,
                   phase[0] != '\0' ? " in " : "", phase, words_op(expectation->op),
                   words_value(expectation->metric, &expectation->value).text,
                   actual != NULL ? "was " : "nothing to measure",
                   actual != NULL ? words_value(expectation->metric, actual).text : "",
                   described ? " \u2013 " : "", described ? expectation->text : "");
    (void)fputs("  not met  ", stream);
    put_wrapped(stream, text, 11, 13);
}

static void print_violations(FILE *stream, const struct analysis *analysis)
{
    char text[512];
    size_t found = 0;

    for (size_t i = 0; i < CHECKERS; i++)
        found += analysis->checkers[i].found;
    for (size_t i = 0; i < analysis->violation_count && i < FIRST_VIOLATIONS; i++) {
        const struct violation *violation = &analysis->violations[i];
        (void)snprintf(text, sizeof text, "C%d at %s: %s", violation->checker,
                       words_seconds(violation->t - analysis->begin_ns).text, violation->text);
        (void)fputs("  found    ", stream);
        put_wrapped(stream, text, 11, 13);
    }
    if (found > FIRST_VIOLATIONS)
        (void)fprintf(stream, "           and %zu more\n", found - FIRST_VIOLATIONS);
}

static void print_reasons(const struct terminal *terminal, const struct chapter *chapter)
{
    const struct analysis *analysis = chapter->analysis;
    FILE *stream = terminal->stream;

    (void)putc('\n', stream);
    put_colour(terminal, verdict_colour(analysis->verdict));
    (void)fputs(verdict_name(analysis->verdict), stream);
    put_colour(terminal, "0");
    (void)fputs("  ", stream);
    put_all(stream, title_of(chapter));
    (void)fputs(", ", stream);
    put_all(stream, chapter->mode);
    (void)fputs("\n  reason   ", stream);
    put_wrapped(stream, analysis->reason != NULL ? analysis->reason : "", 11, 13);
    for (size_t i = 0; i < analysis->expectation_count; i++)
        if (!analysis->expectations[i].met)
            print_expectation(stream, &analysis->expectations[i]);
    print_violations(stream, analysis);
    if (chapter->again[0] != '\0') {
        (void)fputs("  again    ", stream);
        put_all(stream, chapter->again);
        (void)putc('\n', stream);
    }
    (void)fputs("  history  ", stream);
    put_all(stream, chapter->history);
    (void)putc('\n', stream);
}

void report_print(const struct report *report, FILE *stream, bool colour)
{
    const struct terminal terminal = {stream, colour};

    print_table(&terminal, report);
    if (report->comparison)
        print_comparison(&terminal, report);
    for (size_t i = 0; i < report->count; i++)
        if (report->chapters[i].analysis->verdict != VERDICT_EXPECTED)
            print_reasons(&terminal, &report->chapters[i]);
}
