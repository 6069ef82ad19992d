/* Violations come first, then what was expected, then the drawings, then the rest of the numbers.
 */
#include "report_chapter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"
#include "charts.h"
#include "html.h"
#include "lease_plot.h"
#include "timeline.h"
#include "words.h"

enum {
    NEAR_DRAWINGS = 12, /* violations shown from near */
    OPEN_VIOLATIONS = 20
};

const char *report_verdict_sign(int status)
{
    static const char *const signs[] = {"\u2713", "\u2715", "?", "!"};

    return signs[status];
}

void report_verdict(const struct chapter *chapter, FILE *stream)
{
    enum verdict verdict = chapter->analysis->verdict;

    html_put(stream, "<span class=\"verdict v%d\">%s %s</span>", (int)verdict,
             report_verdict_sign((int)verdict), verdict_name(verdict));
}

/* ---- facts ---------------------------------------------------------------- */

static void put_fact(FILE *stream, const char *name, struct words words)
{
    html_put(stream, "<div><dt>%s</dt><dd>%s</dd></div>", name, words.text);
}

static void put_facts(const struct analysis *analysis, FILE *stream)
{
    static const char *const facts[][2] = {{"acquired", "acquire.ok"},
                                           {"acquired per s", "acquire.per_s"},
                                           {"available", "probe.availability"},
                                           {"longest outage", "probe.outage_ms"},
                                           {"acquire p50", "acquire.p50_ms"},
                                           {"acquire p99", "acquire.p99_ms"},
                                           {"overlaps", "c1.overlaps"},
                                           {"stale, unfenced", "stale.plain"},
                                           {"stale, fenced", "c5.accepted_stale"},
                                           {"C3 min", "c3.min_ms"}};
    double ms = (double)(analysis->end_ns - analysis->begin_ns) / 1e6;
    double records = (double)analysis->records;

    (void)fputs("<dl class=\"facts\">", stream);
    put_fact(stream, "duration", words_duration(&ms));
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const double *value = analysis_metric(analysis, facts[i][1], "");
        if (value != NULL)
            put_fact(stream, facts[i][0], words_value(facts[i][1], value));
    }
    put_fact(stream, "records", words_number(&records));
    (void)fputs("</dl>\n", stream);
}

static void put_head(const struct chapter *chapter, size_t number, FILE *stream)
{
    const struct analysis *analysis = chapter->analysis;
    const char *title = json_string_value(json_object_get(analysis->run, "title"));

    html_put(stream, "<section class=\"chapter\" id=\"c%zu\"><div class=\"head\"><h2>%s", number,
             chapter->scenario);
    if (chapter->row != NULL)
        html_put(stream, ": %s", chapter->row);
    html_put(stream, " <span class=\"mode\">%s</span></h2>", chapter->mode);
    report_verdict(chapter, stream);
    (void)fputs("<a class=\"top\" href=\"#top\">all scenarios</a></div>\n", stream);
    if (title != NULL)
        html_put(stream, "<p class=\"soft\">%s</p>\n", title);
    if (analysis->reason != NULL && analysis->reason[0] != '\0')
        html_put(stream, "<p class=\"reason\">%s</p>\n", analysis->reason);
    if (analysis->interrupted)
        (void)fputs("<p class=\"reason\">The run was interrupted.</p>\n", stream);
    put_facts(analysis, stream);
}

/* ---- violations -------------------------------------------------------------- */

static void put_records(const struct violation *violation, FILE *stream)
{
    const char *separator = " <span class=\"note\">history, i = ";

    for (size_t i = 0; i < 2; i++) {
        if (violation->records[i] < 0)
            continue;
        (void)fputs(separator, stream);
        html_put(stream, "%ld", (long)violation->records[i]);
        separator = " and ";
    }
    if (violation->records[0] >= 0 || violation->records[1] >= 0)
        (void)fputs("</span>", stream);
}

static void put_violation(const struct plot *plot, const struct lease_choice *choice, size_t which)
{
    const struct violation *violation = &plot->analysis->violations[which];

    html_put(plot->stream,
             "<li id=\"c%zu-v%zu\"><a class=\"where\" href=\"#c%zu-m%zu\">%s in the timeline</a>"
             "<span class=\"tag\">C%d</span>%s",
             plot->chapter, which + 1, plot->chapter, which + 1,
             words_seconds(violation->t - plot->analysis->begin_ns).text, violation->checker,
             violation->text);
    put_records(violation, plot->stream);
    if (which < NEAR_DRAWINGS)
        timeline_draw_near(plot, choice, which);
    (void)fputs("</li>\n", plot->stream);
}

static void put_violations(const struct plot *plot, const struct lease_choice *choice)
{
    const struct analysis *analysis = plot->analysis;
    size_t found = 0;

    for (size_t i = 0; i < CHECKERS; i++)
        found += analysis->checkers[i].found;
    if (analysis->violation_count == 0)
        return;
    html_put(plot->stream, "<h3>Violations</h3>\n");
    if (found > analysis->violation_count)
        html_put(plot->stream, "<p class=\"note\">The first %zu of %zu.</p>\n",
                 analysis->violation_count, found);
    (void)fputs("<ol class=\"violations\">\n", plot->stream);
    for (size_t i = 0; i < analysis->violation_count; i++) {
        if (i == OPEN_VIOLATIONS)
            html_put(plot->stream,
                     "</ol>\n<details><summary>%zu more</summary><ol class=\"violations\">\n",
                     analysis->violation_count - OPEN_VIOLATIONS);
        put_violation(plot, choice, i);
    }
    (void)fputs(analysis->violation_count > OPEN_VIOLATIONS ? "</ol></details>\n" : "</ol>\n",
                plot->stream);
}

/* ---- expectations --------------------------------------------------------------- */

static void put_expectation(const struct expectation *expectation, FILE *stream)
{
    const double *actual = expectation->known ? &expectation->actual : NULL;

    html_put(stream,
             "<tr class=\"%s\"><td class=\"met\">%s</td><td><code>%s</code></td><td>%s</td>"
             "<td class=\"num\">%s %s</td><td class=\"num\">%s</td><td>%s</td><td>%s</td></tr>\n",
             expectation->met ? "" : "missed", expectation->met ? "\u2713 met" : "\u2715 not met",
             expectation->metric, expectation->phase, words_op(expectation->op),
             words_value(expectation->metric, &expectation->value).text,
             actual != NULL ? words_value(expectation->metric, actual).text : "nothing to measure",
             expectation->kind, expectation->text);
}

static void put_expectations(const struct analysis *analysis, FILE *stream)
{
    if (analysis->expectation_count == 0)
        return;
    (void)fputs("<h3>Expected</h3>\n<div class=\"scroll\"><table class=\"small\"><thead><tr>"
                "<th></th><th>metric</th><th>phase</th><th class=\"num\">expected</th>"
                "<th class=\"num\">was</th><th>kind</th><th></th></tr></thead><tbody>\n",
                stream);
    for (size_t i = 0; i < analysis->expectation_count; i++) /* what was missed first */
        if (!analysis->expectations[i].met)
            put_expectation(&analysis->expectations[i], stream);
    for (size_t i = 0; i < analysis->expectation_count; i++)
        if (analysis->expectations[i].met)
            put_expectation(&analysis->expectations[i], stream);
    (void)fputs("</tbody></table></div>\n", stream);
}

/* ---- drawings --------------------------------------------------------------------- */

static void put_legend_names(const struct lease_choice *choice, FILE *stream)
{
    for (size_t i = 0; i < choice->name_count; i++) {
        html_put(stream,
                 "<li><svg width=\"16\" height=\"10\"><rect class=\"n%zu\" width=\"16\" "
                 "height=\"10\"/></svg>",
                 i + 1);
        html_short(stream, choice->names[i], 40);
        (void)fputs("</li>", stream);
    }
}

static void put_timeline_legend(const struct lease_choice *choice, FILE *stream)
{
    (void)fputs("<ul class=\"legend\"><li>held:</li>", stream);
    put_legend_names(choice, stream);
    (void)fputs(
        "<li><svg width=\"16\" height=\"10\"><rect class=\"n0\" width=\"16\" height=\"10\"/></svg>"
        "other names</li>"
        "<li><svg width=\"6\" height=\"14\"><path class=\"claimed\" d=\"M3 0v14\"/></svg>"
        "deadline claimed</li>"
        "<li><svg width=\"6\" height=\"14\"><path class=\"true\" d=\"M3 0v14\"/></svg>"
        "others could have it</li>"
        "<li><svg width=\"16\" height=\"10\"><rect class=\"untrue\" width=\"16\" height=\"10\"/>"
        "</svg>claimed in vain</li>"
        "<li><svg width=\"10\" height=\"8\"><path class=\"lost\" d=\"M5 8l4-7h-8z\"/></svg>told to "
        "be lost</li>"
        "<li><svg width=\"10\" height=\"10\"><path class=\"killed\" d=\"M1 1l8 8m0-8l-8 8\"/></svg>"
        "killed</li>"
        "<li><svg width=\"6\" height=\"12\"><path class=\"probed\" d=\"M3 3v6\"/></svg>probe</li>"
        "<li><svg width=\"6\" height=\"12\"><path class=\"unprobed\" d=\"M3 1v10\"/></svg>"
        "failed probe</li></ul>\n"
        "<ul class=\"legend\"><li>nodes:</li>"
        "<li class=\"state down\"><svg width=\"16\" height=\"10\"><rect width=\"16\" "
        "height=\"10\"/></svg>down</li>"
        "<li class=\"state frozen\"><svg width=\"16\" height=\"10\"><rect width=\"16\" "
        "height=\"10\"/></svg>frozen</li>"
        "<li class=\"state barred\"><svg width=\"16\" height=\"10\"><rect width=\"16\" "
        "height=\"10\"/></svg>barred by the restart guard</li>"
        "<li class=\"clock\"><svg width=\"16\" height=\"10\"><path d=\"M0 8h6v-6h10\"/></svg>wall "
        "clock against the first node's</li></ul>\n",
        stream);
}

static void put_timeline(const struct plot *plot, const struct lease_choice *choice)
{
    html_put(plot->stream, "<figure><figcaption>Timeline");
    if (choice->shown < plot->analysis->lease_count)
        html_put(plot->stream,
                 " <span class=\"note\">%zu of %zu leases are drawn: those of violations, their "
                 "neighbours, and an even choice of the rest</span>",
                 choice->shown, plot->analysis->lease_count);
    (void)fputs("</figcaption>\n", plot->stream);
    timeline_draw(plot, choice);
    put_timeline_legend(choice, plot->stream);
    (void)fputs("</figure>\n", plot->stream);
}

static void put_shown(FILE *stream, size_t shown, size_t count, const char *which)
{
    if (shown < count)
        html_put(stream, "<p class=\"note\">%zu of %zu dots are drawn: %s.</p>\n", shown, count,
                 which);
}

static void put_latency(const struct plot *plot)
{
    size_t count = plot->analysis->point_count + plot->analysis->probe_count, shown;

    if (count == 0)
        return;
    (void)fputs("<figure><figcaption>Latency <span class=\"note\">of contended acquires and of "
                "probes, logarithmic; lines: percentiles of acquires in each phase"
                "</span></figcaption>\n",
                plot->stream);
    shown = charts_latency(plot);
    (void)fputs(
        "<ul class=\"legend\"><li><svg width=\"8\" height=\"10\"><path class=\"dot acquire\" "
        "d=\"M4 5h0\"/></svg>acquire</li><li><svg width=\"8\" height=\"10\"><path class=\"dot "
        "probe\" d=\"M4 5h0\"/></svg>probe</li><li><svg width=\"8\" height=\"10\"><path "
        "class=\"dot "
        "failed\" d=\"M1 2l6 6m0-6l-6 6\"/></svg>failed</li></ul>\n",
        plot->stream);
    put_shown(plot->stream, shown, count, "of each few in a row the slowest");
    (void)fputs("</figure>\n", plot->stream);
}

static void put_availability(const struct plot *plot)
{
    if (plot->analysis->probe_count == 0)
        return;
    (void)fputs("<figure><figcaption>Availability <span class=\"note\">probes of names nobody else "
                "wants; above: the part of each phase that got its lock</span></figcaption>\n",
                plot->stream);
    charts_availability(plot);
    (void)fputs("<ul class=\"legend\"><li><svg width=\"16\" height=\"10\"><rect class=\"ok\" "
                "width=\"16\" height=\"10\"/></svg>got it</li><li><svg width=\"16\" height=\"10\">"
                "<rect class=\"no\" width=\"16\" height=\"10\"/></svg>did not</li></ul></figure>\n",
                plot->stream);
}

static void put_fences(const struct plot *plot, const struct lease_choice *choice)
{
    size_t count = 0, shown;

    for (size_t i = 0; i < plot->analysis->lease_count; i++)
        count += plot->analysis->leases[i].fence != 0;
    if (count == 0)
        return;
    (void)fputs("<figure><figcaption>Fencing tokens <span class=\"note\">have to rise for each "
                "name</span></figcaption>\n",
                plot->stream);
    shown = charts_fences(plot, choice);
    (void)fputs("<ul class=\"legend\">", plot->stream);
    put_legend_names(choice, plot->stream);
    (void)fputs("</ul>\n", plot->stream);
    put_shown(plot->stream, shown, count, "those of violations and an even choice of the rest");
    (void)fputs("</figure>\n", plot->stream);
}

/* ---- the rest of the numbers ----------------------------------------------------------- */

static void put_checkers(const struct analysis *analysis, FILE *stream)
{
    (void)fputs("<div><h3>Checkers</h3><table class=\"wide small checkers\"><thead><tr><th></th>"
                "<th></th>"
                "<th class=\"num\">checked</th><th class=\"num\">found</th></tr></thead><tbody>\n",
                stream);
    for (size_t i = 0; i < CHECKERS; i++) {
        const struct checker *checker = &analysis->checkers[i];
        double checked = (double)checker->checked, found = (double)checker->found;
        html_put(stream, "<tr><td>C%zu</td><td>%s</td>", i + 1, checker->title);
        if (!checker->ran)
            (void)fputs("<td class=\"num none\" colspan=\"2\">nothing to check</td></tr>\n",
                        stream);
        else
            html_put(stream, "<td class=\"num\">%s</td><td class=\"num %s\">%s</td></tr>\n",
                     words_number(&checked).text, found > 0 ? "harm" : "",
                     words_number(&found).text);
    }
    (void)fputs("</tbody></table></div>\n", stream);
}

static void put_fault(const struct analysis *analysis, const struct fault *fault, size_t number,
                      FILE *stream)
{
    const char *separator = "";

    html_put(stream, "<tr><td><a href=\"#c%zu-f%ld\">%s</a> %s%s</td><td>", number,
             (long)fault->number, fault->action, fault->text,
             fault->verified ? "" : " (did not take)");
    for (unsigned i = 0; i < 64; i++)
        if ((fault->nodes >> i & 1) != 0) {
            html_put(stream, "%s%u", separator, i + 1);
            separator = ", ";
        }
    html_put(stream, "</td><td class=\"num\">%s</td><td class=\"num\">%s</td></tr>\n",
             words_seconds(fault->begin_ns - analysis->begin_ns).text,
             words_seconds(fault->end_ns - analysis->begin_ns).text);
}

static void put_faults(const struct analysis *analysis, size_t number, FILE *stream)
{
    (void)fputs("<div><h3>Faults</h3>\n", stream);
    if (analysis->fault_count == 0)
        (void)fputs("<p class=\"soft\">None.</p>", stream);
    else
        (void)fputs("<table class=\"wide small\"><thead><tr><th></th><th>nodes</th>"
                    "<th class=\"num\">from</th><th class=\"num\">to</th></tr></thead><tbody>\n",
                    stream);
    for (size_t i = 0; i < analysis->fault_count; i++)
        put_fault(analysis, &analysis->faults[i], number, stream);
    (void)fputs(analysis->fault_count == 0 ? "</div>\n" : "</tbody></table></div>\n", stream);
}

static bool is_first_of_name(const struct analysis *analysis, size_t which)
{
    for (size_t i = 0; i < which; i++)
        if (strcmp(analysis->metrics[i].name, analysis->metrics[which].name) == 0)
            return false;
    return true;
}

static void put_metric(const struct analysis *analysis, const char *name, FILE *stream)
{
    html_put(stream, "<tr><td><code>%s</code></td><td class=\"num\">%s</td>", name,
             words_value(name, analysis_metric(analysis, name, "")).text);
    for (size_t i = 0; i < analysis->phase_count; i++) {
        const double *value = analysis_metric(analysis, name, analysis->phases[i].name);
        html_put(stream, "<td class=\"num\">%s</td>", words_value(name, value).text);
    }
    (void)fputs("</tr>\n", stream);
}

static void put_metrics(const struct analysis *analysis, FILE *stream)
{
    (void)fputs("<details><summary>All metrics, by phase</summary><div class=\"scroll\"><table>"
                "<thead><tr><th></th><th class=\"num\">whole run</th>",
                stream);
    for (size_t i = 0; i < analysis->phase_count; i++)
        html_put(stream, "<th class=\"num\">%s</th>", analysis->phases[i].name);
    (void)fputs("</tr></thead><tbody>\n", stream);
    for (size_t i = 0; i < analysis->metric_count; i++)
        if (is_first_of_name(analysis, i))
            put_metric(analysis, analysis->metrics[i].name, stream);
    (void)fputs("</tbody></table></div></details>\n", stream);
}

static void put_run_field(const char *name, json_t *value, FILE *stream)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const char *plain = json_string_value(value);

    html_put(stream, "<tr><td>%s</td><td class=\"code\">%s</td></tr>\n", name,
             plain != NULL ? plain : text);
    free(text);
}

static void put_run(const struct chapter *chapter, FILE *stream)
{
    json_t *run = chapter->analysis->run;

    (void)fputs("<details><summary>The run</summary><table>\n", stream);
    for (void *at = json_object_iter(run); at != NULL; at = json_object_iter_next(run, at))
        put_run_field(json_object_iter_key(at), json_object_iter_value(at), stream);
    (void)fputs("</table></details>\n<h3>Again</h3>\n", stream);
    html_put(stream,
             "<pre><code>%s</code></pre>\n<p class=\"note\">What happened, line by line: "
             "<a href=\"",
             chapter->again);
    html_path(stream, chapter->history);
    html_put(stream, "\">%s</a></p></section>\n", chapter->history);
}

int report_chapter(const struct chapter *chapter, size_t number, FILE *stream)
{
    const struct plot plot = plot_of(stream, chapter->analysis, number);
    struct lease_choice choice;
    int error = lease_choose(&choice, chapter->analysis) ? 0 : ENOMEM;

    if (error == 0) {
        put_head(chapter, number, stream);
        put_violations(&plot, &choice);
        put_expectations(chapter->analysis, stream);
        put_timeline(&plot, &choice);
        put_latency(&plot);
        put_availability(&plot);
        put_fences(&plot, &choice);
        (void)fputs("<div class=\"two\">\n", stream);
        put_checkers(chapter->analysis, stream);
        put_faults(chapter->analysis, number, stream);
        (void)fputs("</div>\n", stream);
        put_metrics(chapter->analysis, stream);
        put_run(chapter, stream);
    }
    lease_choice_free(&choice);
    return error;
}
