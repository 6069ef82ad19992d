/*
 * report.html: one file that needs nothing else, no network and no script. The policy in its head
 * has a browser refuse both, should strange text ever get through unescaped.
 */
#include <string.h>

#include "analysis.h"
#include "comparison.h"
#include "html.h"
#include "report.h"
#include "report_chapter.h"
#include "report_file.h"
#include "report_style.h"
#include "words.h"

static void put_begin(const struct report *report, FILE *stream)
{
    html_put(stream,
             "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "style-src 'unsafe-inline'; img-src data:\"/>\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
             "<link rel=\"icon\" href=\"data:,\"/>\n<title>%s</title>\n<style>\n",
             report->title);
    for (size_t i = 0; report_style[i] != NULL; i++)
        (void)fprintf(stream, "%s\n", report_style[i]);
    (void)fprintf(stream, "</style></head><body>\n%s<main id=\"top\">\n", report_patterns);
    html_put(stream, "<h1>%s</h1>\n<p class=\"soft\"><code>%s</code></p>\n", report->title,
             report->command);
}

/* ---- the banner -------------------------------------------------------------- */

static size_t count_of(const struct report *report, enum verdict verdict)
{
    size_t count = 0;

    for (size_t i = 0; i < report->count; i++)
        count += report->chapters[i].analysis->verdict == verdict;
    return count;
}

static void put_banner(const struct report *report, FILE *stream)
{
    static const char *const words[] = {"Everything came out as expected",
                                        "A safety expectation was not met",
                                        "Inconclusive: something proves nothing",
                                        "A liveness or availability expectation was not met"};
    int status = report_status(report);
    const char *separator = "";

    html_put(
        stream,
        "<div class=\"banner v%d\" role=\"status\"><span class=\"sign\">%s</span><div><b>%s</b>"
        "<span class=\"soft\">%zu scenario%s: ",
        status, report_verdict_sign(status), words[status], report->count,
        report->count == 1 ? "" : "s");
    for (int i = 0; i <= VERDICT_UNAVAILABLE; i++) {
        size_t count = count_of(report, (enum verdict)i);
        if (count > 0) {
            html_put(stream, "%s%zu %s", separator, count, verdict_name((enum verdict)i));
            separator = ", ";
        }
    }
    (void)fputs("</span></div></div>\n", stream);
}

/* ---- the summary --------------------------------------------------------------- */

static void put_number(const struct analysis *analysis, const char *metric, bool harm, FILE *stream)
{
    const double *value = analysis_metric(analysis, metric, "");

    html_put(stream, "<td class=\"num %s\">%s</td>",
             value == NULL        ? "none"
             : harm && *value > 0 ? "harm"
                                  : "",
             words_value(metric, value).text);
}

static void put_summary_row(const struct chapter *chapter, size_t number, FILE *stream)
{
    const struct analysis *analysis = chapter->analysis;
    const double *least = analysis_metric(analysis, "c3.min_ms", "");

    html_put(stream, "<tr><td><a href=\"#c%zu\">%s</a></td><td class=\"mode\">%s</td><td>", number,
             chapter->row != NULL ? chapter->row : chapter->scenario, chapter->mode);
    report_verdict(chapter, stream);
    (void)fputs("</td>", stream);
    put_number(analysis, "acquire.ok", false, stream);
    put_number(analysis, "probe.availability", false, stream);
    put_number(analysis, "acquire.p50_ms", false, stream);
    put_number(analysis, "acquire.p99_ms", false, stream);
    put_number(analysis, "c1.overlaps", true, stream);
    put_number(analysis, "stale.plain", true, stream);
    put_number(analysis, "c5.accepted_stale", true, stream);
    html_put(stream, "<td class=\"num %s\">%s</td></tr>\n",
             least == NULL ? "none"
             : *least < 0  ? "harm"
                           : "",
             words_duration(least).text);
}

static void put_summary(const struct report *report, FILE *stream)
{
    (void)fputs("<section><div class=\"scroll\"><table class=\"wide\"><thead><tr><th>scenario</th>"
                "<th>mode</th><th>verdict</th><th class=\"num\">acquired</th>"
                "<th class=\"num\">available</th><th class=\"num\">p50</th>"
                "<th class=\"num\">p99</th><th class=\"num\">overlaps</th>"
                "<th class=\"num\">stale, unfenced</th><th class=\"num\">stale, fenced</th>"
                "<th class=\"num\">C3 min</th></tr></thead><tbody>\n",
                stream);
    for (size_t i = 0; i < report->count; i++)
        put_summary_row(&report->chapters[i], i + 1, stream);
    (void)fputs(
        "</tbody></table></div>\n<p class=\"note\">p50, p99: latency of contended acquires. "
        "Stale: writes taken although a later holder had written before. C3 min: how long "
        "the shortest lease lasted beyond what its client claimed.</p></section>\n",
        stream);
}

/* ---- the comparison ---------------------------------------------------------------- */

static void put_measure(const struct chapter *chapter, const struct comparison_measure *measure,
                        FILE *stream)
{
    const double *value = comparison_value(chapter, measure);
    bool harmful = measure->harm && value != NULL && *value > 0;

    html_put(stream, "<dt>%s</dt><dd class=\"%s\">%s</dd>", measure->title,
             harmful                        ? "harm"
             : value == NULL || *value == 0 ? "none"
                                            : "",
             words_value(measure->metric, value).text);
}

static void put_cell(const struct report *report, const struct chapter *chapter, FILE *stream)
{
    const double *part;

    if (chapter == NULL) {
        (void)fputs("<td class=\"none\">\u2013</td>", stream);
        return;
    }
    part = comparison_value(chapter, &comparison_measures[0]);
    html_put(stream, "<td><a class=\"big\" href=\"#c%zu\">%s</a>",
             (size_t)(chapter - report->chapters) + 1, words_percent(part).text);
    if (part != NULL)
        html_put(stream, "<span class=\"bar\"><i style=\"width:%.1f%%\"></i></span>", *part * 100);
    (void)fputs("<dl>", stream);
    for (size_t i = 1; i < COMPARISON_MEASURES; i++)
        put_measure(chapter, &comparison_measures[i], stream);
    (void)fputs("</dl></td>", stream);
}

static void put_comparison(const struct report *report, FILE *stream)
{
    (void)fputs(
        "<section class=\"compare\" id=\"comparison\"><h2>Comparison</h2>\n<p class=\"soft\">"
        "The same faults at the same times. Large: the part of probes that got their lock "
        "while the fault was there."
        "</p><div class=\"scroll\"><table class=\"wide\"><thead><tr><th>fault</th>",
        stream);
    for (size_t mode = comparison_next_mode(report, 0); mode < report->count;
         mode = comparison_next_mode(report, mode + 1))
        html_put(stream, "<th>%s</th>", report->chapters[mode].mode);
    (void)fputs("</tr></thead><tbody>\n", stream);
    for (size_t row = comparison_next_row(report, 0); row < report->count;
         row = comparison_next_row(report, row + 1)) {
        html_put(stream, "<tr><th class=\"fault\">%s</th>", report->chapters[row].row);
        for (size_t mode = comparison_next_mode(report, 0); mode < report->count;
             mode = comparison_next_mode(report, mode + 1))
            put_cell(report,
                     comparison_at(report, report->chapters[row].row, report->chapters[mode].mode),
                     stream);
        (void)fputs("</tr>\n", stream);
    }
    (void)fputs("</tbody></table></div></section>\n", stream);
}

static int write_html(const void *context, FILE *stream)
{
    const struct report *report = context;
    int error = 0;

    put_begin(report, stream);
    put_banner(report, stream);
    put_summary(report, stream);
    if (report->comparison)
        put_comparison(report, stream);
    for (size_t i = 0; i < report->count && error == 0; i++)
        error = report_chapter(&report->chapters[i], i + 1, stream);
    html_put(stream,
             "<footer>redlock-chaos %s. Nothing in this file needs a network or a script."
             "</footer>\n</main></body></html>\n",
             CHAOS_VERSION);
    return error;
}

int report_html(const struct report *report, const char *path)
{
    return report_file(path, write_html, report);
}
