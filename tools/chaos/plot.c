/*
 * Nothing measures text here, so labels are placed by an estimate on the wide side: fonts of all
 * systems have to fit.
 */
#include "plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "analysis.h"
#include "html.h"
#include "words.h"

#define CHARACTER_WIDTH 6.7 /* at the size of labels; on the wide side */

enum {
    LONG_RUN_S = 60,
    LONG_RUN_PIXELS = 18, /* a second of a long run */
    WIDEST = 9000,
    LANES = 12,
    LABEL_LENGTH = 64,
    LABEL_PADDING = 12,
    GRID_LINES = 16 /* at least so many */
};

struct plot plot_of(FILE *stream, const struct analysis *analysis, size_t chapter)
{
    struct plot plot = {.stream = stream,
                        .analysis = analysis,
                        .chapter = chapter,
                        .begin_ns = analysis->begin_ns,
                        .end_ns = analysis->end_ns,
                        .width = PLOT_WIDTH};
    double seconds;

    if (plot.end_ns <= plot.begin_ns)
        plot.end_ns = plot.begin_ns + 1000000000;
    seconds = (double)(plot.end_ns - plot.begin_ns) / 1e9;
    if (seconds > LONG_RUN_S)
        plot.width = fmin(WIDEST, PLOT_WIDTH + (seconds - LONG_RUN_S) * LONG_RUN_PIXELS);
    return plot;
}

double plot_x_free(const struct plot *plot, int64_t t)
{
    double part = ((double)t - (double)plot->begin_ns) / (double)(plot->end_ns - plot->begin_ns);

    return PLOT_LEFT + part * (plot->width - PLOT_LEFT - PLOT_RIGHT);
}

double plot_x(const struct plot *plot, int64_t t)
{
    return fmax(PLOT_LEFT, fmin(plot->width - PLOT_RIGHT, plot_x_free(plot, t)));
}

void plot_open(const struct plot *plot, double height, const char *kind, const char *title)
{
    html_put(plot->stream,
             "<div class=\"scroll\"><svg class=\"plot %s\" role=\"img\" viewBox=\"0 0 %.0f %.0f\" "
             "width=\"%.0f\" height=\"%.0f\" style=\"min-width:%.0fpx\" aria-label=\"%s\">\n",
             kind, plot->width, height, plot->width, height,
             plot->width > PLOT_WIDTH ? plot->width : 900, title);
}

void plot_close(const struct plot *plot)
{
    (void)fputs("</svg></div>\n", plot->stream);
}

/* ---- the time axis ----------------------------------------------------------- */

/* A round number of seconds, such that there are enough lines and not too many. */
static double grid_step(double seconds, double wanted)
{
    static const double round[] = {1, 2, 5, 10};
    double step = pow(10, floor(log10(seconds / wanted)));

    for (size_t i = 0; i < sizeof round / sizeof *round; i++)
        if (seconds / (step * round[i]) <= wanted)
            return step * round[i];
    return step * 10;
}

void plot_axis(const struct plot *plot)
{
    double seconds = (double)(plot->end_ns - plot->begin_ns) / 1e9;
    double origin = (double)(plot->begin_ns - plot->analysis->begin_ns) / 1e9;
    double step = grid_step(seconds, GRID_LINES * plot->width / PLOT_WIDTH);
    int digits = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);

    (void)fputs("<g class=\"grid\">", plot->stream);
    for (double at = ceil(origin / step - 1e-9); at * step <= origin + seconds * 1.0000001; at++) {
        int64_t t = plot->analysis->begin_ns + (int64_t)llround(at * step * 1e9);
        double x = plot_x(plot, t);
        html_put(plot->stream,
                 "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.0f\" y2=\"%.0f\"/>"
                 "<text x=\"%.1f\" y=\"%.0f\">",
                 x, x, plot->top, plot->bottom, x, plot->bottom + 16);
        (void)fprintf(plot->stream, "%.*f</text>", digits > 6 ? 6 : digits, fabs(at * step));
    }
    html_put(plot->stream, "<text class=\"unit\" x=\"%.0f\" y=\"%.0f\">seconds</text></g>\n",
             plot->width - PLOT_RIGHT + 12, plot->bottom + 16);
}

/* ---- phases ------------------------------------------------------------------------ */

void plot_phases(const struct plot *plot, double y)
{
    for (size_t i = 0; i < plot->analysis->phase_count; i++) {
        const struct phase *phase = &plot->analysis->phases[i];
        double from = plot_x(plot, phase->begin_ns), to = plot_x(plot, phase->end_ns);
        size_t room = (size_t)fmax(0, (to - from - 8) / CHARACTER_WIDTH);
        html_put(plot->stream,
                 "<g class=\"phase\"><title>phase %s, %s to %s</title><rect x=\"%.1f\" "
                 "y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>",
                 phase->name, words_seconds(phase->begin_ns - plot->analysis->begin_ns).text,
                 words_seconds(phase->end_ns - plot->analysis->begin_ns).text, from + 0.5, y + 1,
                 fmax(0, to - from - 1), PLOT_PHASES - 4);
        if (room >= 3) {
            html_put(plot->stream, "<text x=\"%.1f\" y=\"%.1f\">", (from + to) / 2, y + 14);
            html_short(plot->stream, phase->name, room);
            (void)fputs("</text>", plot->stream);
        }
        (void)fputs("</g>\n", plot->stream);
    }
}

/* ---- faults -------------------------------------------------------------------------- */

static bool is_shown(const struct plot *plot, const struct fault *fault)
{
    return fault->begin_ns < plot->end_ns && fault->end_ns >= plot->begin_ns;
}

void plot_bands(const struct plot *plot)
{
    for (size_t i = 0; i < plot->analysis->fault_count; i++) {
        const struct fault *fault = &plot->analysis->faults[i];
        double from = plot_x(plot, fault->begin_ns), to = plot_x(plot, fault->end_ns);
        if (!is_shown(plot, fault))
            continue;
        html_put(
            plot->stream,
            "<g class=\"band%s\"><title>%s %s</title><rect x=\"%.1f\" y=\"%.1f\" "
            "width=\"%.1f\" height=\"%.1f\"/><path d=\"M%.1f %.1fV%.1fM%.1f %.1fV%.1f\"/></g>\n",
            fault->verified ? "" : " unverified", fault->action, fault->text, from, plot->top,
            fmax(1.5, to - from), plot->bottom - plot->top, from, plot->top, plot->bottom, to,
            plot->top, plot->bottom);
    }
}

struct label {
    char text[256];
    size_t length; /* as shown */
    double x, width;
    unsigned lane; /* LANES: none was free */
};

/* Runs of three and more are put as "1-5". */
static void nodes_text(uint64_t nodes, char *text, size_t size)
{
    const char *separator = (nodes & (nodes - 1)) != 0 ? " \u00b7 nodes " : " \u00b7 node ";
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0, last; i < 64 && used < size; i = last + 1) {
        last = i;
        if ((nodes >> i & 1) == 0)
            continue;
        while (last < 63 && (nodes >> (last + 1) & 1) != 0)
            last++;
        if (last < i + 2)
            last = i;
        used += (size_t)snprintf(text + used, size - used, "%s%d", separator, i + 1);
        if (last > i && used < size)
            used += (size_t)snprintf(text + used, size - used, "\u2013%d", last + 1);
        separator = ", ";
    }
}

static void label_text(const struct fault *fault, struct label *label)
{
    char nodes[192];
    const char *text = fault->text != NULL ? fault->text : "";

    nodes_text(fault->nodes, nodes, sizeof nodes);
    (void)snprintf(label->text, sizeof label->text, "%s%s%s%s%s",
                   fault->verified ? "" : "did not take: ", fault->action,
                   text[0] != '\0' ? " " : "", text, nodes);
    label->length = words_length(label->text);
    if (label->length > LABEL_LENGTH)
        label->length = LABEL_LENGTH;
}

/* Puts the label into the first lane that is free there; `taken` is where each one's last ends. */
static struct label place(const struct plot *plot, const struct fault *fault, double taken[LANES])
{
    struct label label = {.lane = 0};
    double limit = plot->width - PLOT_RIGHT;

    label_text(fault, &label);
    label.width = (double)label.length * CHARACTER_WIDTH + LABEL_PADDING;
    label.x = plot_x(plot, fault->begin_ns);
    if (label.x + label.width > limit)
        label.x = fmax(PLOT_LEFT, limit - label.width);
    for (label.lane = 0; label.lane < LANES && label.x < taken[label.lane]; label.lane++)
        ;
    if (label.lane < LANES)
        taken[label.lane] = label.x + label.width + 6;
    return label;
}

unsigned plot_lanes(const struct plot *plot)
{
    double taken[LANES] = {0};
    unsigned lanes = 0;

    for (size_t i = 0; i < plot->analysis->fault_count; i++) {
        unsigned lane = place(plot, &plot->analysis->faults[i], taken).lane;
        if (lane < LANES && lane + 1 > lanes)
            lanes = lane + 1;
    }
    return lanes;
}

void plot_fault_labels(const struct plot *plot, double y)
{
    double taken[LANES] = {0};

    for (size_t i = 0; i < plot->analysis->fault_count; i++) {
        const struct fault *fault = &plot->analysis->faults[i];
        struct label label = place(plot, fault, taken);
        double top = y + label.lane * PLOT_LANE;
        html_put(plot->stream, "<g class=\"fault%s\" id=\"c%zu-f%ld\"><title>%s\n%s to %s</title>",
                 fault->verified ? "" : " unverified", plot->chapter, (long)fault->number,
                 label.text, words_seconds(fault->begin_ns - plot->analysis->begin_ns).text,
                 words_seconds(fault->end_ns - plot->analysis->begin_ns).text);
        if (label.lane < LANES) {
            html_put(plot->stream,
                     "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"3\"/>"
                     "<text x=\"%.1f\" y=\"%.1f\">",
                     label.x, top + 1, label.width, PLOT_LANE - 4, label.x + 6, top + 12.5);
            html_short(plot->stream, label.text, label.length);
            (void)fputs("</text>", plot->stream);
        }
        (void)fputs("</g>\n", plot->stream);
    }
}

void plot_row(const struct plot *plot, double middle, const char *name)
{
    html_put(plot->stream,
             "<line class=\"base\" x1=\"%d\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
             "<text class=\"name\" x=\"%d\" y=\"%.1f\"><title>%s</title>",
             PLOT_LEFT, plot->width - PLOT_RIGHT, middle, middle, PLOT_LEFT - 10, middle + 4, name);
    html_short(plot->stream, name, 15);
    (void)fputs("</text>\n", plot->stream);
}
