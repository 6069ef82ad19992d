/* See charts.h. */
#include "charts.h"

#include <math.h>
#include <string.h>

#include "analysis.h"
#include "html.h"
#include "words.h"

enum {
    LATENCY_HEIGHT = 190,
    STRIP_HEIGHT = 44,
    FENCE_HEIGHT = 170,
    BINS = 125,
    LABEL_ROOM = 90 /* a phase narrower than that has no words on its lines */
};

/* ---- latency -------------------------------------------------------------------- */

struct scale { /* logarithmic */
    double low, high, top, bottom;
};

static double scale_y(const struct scale *scale, double ms)
{
    double part = (log10(fmax(ms, 1e-6)) - scale->low) / (scale->high - scale->low);

    return scale->bottom - fmax(0, fmin(1, part)) * (scale->bottom - scale->top);
}

struct dot {
    int64_t t;
    double ms;
    const char *class;
};

/* Points of contenders first, then probes. */
static struct dot dot_of(const struct analysis *analysis, size_t which)
{
    if (which < analysis->point_count) {
        const struct point *point = &analysis->points[which];
        return (struct dot){point->t, (double)point->latency_ns / 1e6,
                            point->ok ? "acquire" : "acquire failed"};
    }
    const struct probe *probe = &analysis->probes[which - analysis->point_count];
    return (struct dot){probe->end_ns, (double)(probe->end_ns - probe->begin_ns) / 1e6,
                        probe->ok ? "probe" : "probe failed"};
}

static struct scale latency_scale(const struct analysis *analysis)
{
    double least = 1, most = 10;

    for (size_t i = 0; i < analysis->point_count + analysis->probe_count; i++) {
        struct dot dot = dot_of(analysis, i);
        if (dot.ms > 0) {
            least = fmin(least, dot.ms);
            most = fmax(most, dot.ms);
        }
    }
    return (struct scale){fmax(-3, floor(log10(least))), ceil(log10(most)), PLOT_PHASES + 6,
                          LATENCY_HEIGHT};
}

static void draw_decades(const struct plot *plot, const struct scale *scale)
{
    (void)fputs("<g class=\"scale\">", plot->stream);
    for (double power = scale->low; power <= scale->high; power++) {
        double ms = pow(10, power), y = scale_y(scale, ms);
        html_put(plot->stream,
                 "<line x1=\"%d\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/><text x=\"%d\" y=\"%.1f\">",
                 PLOT_LEFT, plot->width - PLOT_RIGHT, y, y, PLOT_LEFT - 10, y + 4);
        if (ms >= 1000)
            html_put(plot->stream, "%.0f s</text>", ms / 1000);
        else if (ms < 1)
            (void)fprintf(plot->stream, "%g ms</text>", ms);
        else
            html_put(plot->stream, "%.0f ms</text>", ms);
    }
    (void)fputs("</g>\n", plot->stream);
}

/* A dot is a cross where it failed, so that it doesn't take a colour to tell. */
static void draw_dot(const struct plot *plot, const struct scale *scale, const struct dot *dot)
{
    double x = plot_x(plot, dot->t), y = scale_y(scale, dot->ms), ms = dot->ms;

    if (strstr(dot->class, "failed") != NULL)
        html_put(plot->stream, "<path class=\"dot %s\" d=\"M%.1f %.1fl5 5m0-5l-5 5\">", dot->class,
                 x - 2.5, y - 2.5);
    else
        html_put(plot->stream, "<path class=\"dot %s\" d=\"M%.1f %.1fh0\">", dot->class, x, y);
    html_put(plot->stream, "<title>%s, %s at %s</title></path>\n", dot->class,
             words_duration(&ms).text, words_seconds(dot->t - plot->analysis->begin_ns).text);
}

/* Of each few that follow one another only the slowest, if there are too many. */
static size_t draw_dots(const struct plot *plot, const struct scale *scale)
{
    size_t count = plot->analysis->point_count + plot->analysis->probe_count, shown = 0;
    size_t few = (count + LATENCY_DOTS - 1) / LATENCY_DOTS;

    for (size_t i = 0; i < count; i += few) {
        struct dot slowest = dot_of(plot->analysis, i);
        for (size_t k = i + 1; k < i + few && k < count; k++) {
            struct dot dot = dot_of(plot->analysis, k);
            if (dot.ms > slowest.ms)
                slowest = dot;
        }
        draw_dot(plot, scale, &slowest);
        shown++;
    }
    return shown;
}

/* The words stand above the line of p99 and below that of p50: they never meet. */
static void draw_percentile(const struct plot *plot, const struct scale *scale,
                            const struct phase *phase, const char *metric, const char *name,
                            double words_at)
{
    const double *ms = analysis_metric(plot->analysis, metric, phase->name);
    double from = plot_x(plot, phase->begin_ns), to = plot_x(plot, phase->end_ns), y;

    if (ms == NULL || to - from < 2)
        return;
    y = scale_y(scale, *ms);
    html_put(plot->stream,
             "<g class=\"percentile %s\"><title>%s in %s: %s</title><path d=\"M%.1f %.1fH%.1f\"/>",
             name, name, phase->name, words_duration(ms).text, from + 1, y, to - 1);
    if (to - from >= LABEL_ROOM)
        html_put(plot->stream, "<text x=\"%.1f\" y=\"%.1f\">%s %s</text>", to - 6, y + words_at,
                 name, words_duration(ms).text);
    (void)fputs("</g>\n", plot->stream);
}

size_t charts_latency(const struct plot *whole)
{
    struct plot plot = *whole;
    struct scale scale = latency_scale(plot.analysis);
    size_t shown;

    if (plot.analysis->point_count + plot.analysis->probe_count == 0)
        return 0;
    plot.top = PLOT_PHASES;
    plot.bottom = LATENCY_HEIGHT;
    plot_open(&plot, plot.bottom + PLOT_AXIS, "latency", "Latency of acquires and probes");
    plot_bands(&plot);
    plot_axis(&plot);
    plot_phases(&plot, 0);
    draw_decades(&plot, &scale);
    shown = draw_dots(&plot, &scale);
    for (size_t i = 0; i < plot.analysis->phase_count; i++) {
        const struct phase *phase = &plot.analysis->phases[i];
        draw_percentile(&plot, &scale, phase, "acquire.p99_ms", "p99", -5);
        draw_percentile(&plot, &scale, phase, "acquire.p50_ms", "p50", 14);
    }
    plot_close(&plot);
    return shown;
}

/* ---- availability -------------------------------------------------------------------- */

struct bin {
    size_t ok, all;
};

static void fill_bins(const struct plot *plot, struct bin bins[BINS])
{
    double length = (double)(plot->end_ns - plot->begin_ns);

    for (size_t i = 0; i < plot->analysis->probe_count; i++) {
        const struct probe *probe = &plot->analysis->probes[i];
        double part = (double)(probe->begin_ns - plot->begin_ns) / length * BINS;
        size_t bin = part < 0 ? 0 : part >= BINS ? BINS - 1 : (size_t)part;
        bins[bin].all++;
        bins[bin].ok += probe->ok;
    }
}

static void draw_bin(const struct plot *plot, size_t which, const struct bin *bin)
{
    int64_t width_ns = (plot->end_ns - plot->begin_ns) / BINS;
    int64_t begin_ns = plot->begin_ns + (int64_t)which * width_ns;
    double from = plot_x(plot, begin_ns), to = plot_x(plot, begin_ns + width_ns);
    double height = plot->bottom - plot->top, ok = height * (double)bin->ok / (double)bin->all;

    html_put(plot->stream, "<g><title>%s to %s: %zu of %zu probes got their lock</title>",
             words_seconds(begin_ns - plot->analysis->begin_ns).text,
             words_seconds(begin_ns + width_ns - plot->analysis->begin_ns).text, bin->ok, bin->all);
    if (bin->ok > 0)
        html_put(plot->stream,
                 "<rect class=\"ok\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", from,
                 plot->bottom - ok, to - from - 0.6, ok);
    if (bin->ok < bin->all)
        html_put(plot->stream,
                 "<rect class=\"no\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", from,
                 plot->top, to - from - 0.6, height - ok);
    (void)fputs("</g>\n", plot->stream);
}

static void draw_phase_part(const struct plot *plot, const struct phase *phase)
{
    const double *part = analysis_metric(plot->analysis, "probe.availability", phase->name);
    double from = plot_x(plot, phase->begin_ns), to = plot_x(plot, phase->end_ns);

    if (part != NULL && to - from >= LABEL_ROOM / 2.0)
        html_put(plot->stream, "<text class=\"part\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                 (from + to) / 2, 14, words_percent(part).text);
}

void charts_availability(const struct plot *whole)
{
    struct plot plot = *whole;
    struct bin bins[BINS] = {{0, 0}};

    if (plot.analysis->probe_count == 0)
        return;
    plot.top = PLOT_PHASES;
    plot.bottom = plot.top + STRIP_HEIGHT;
    fill_bins(&plot, bins);
    plot_open(&plot, plot.bottom + PLOT_AXIS, "strip", "Availability over time");
    html_put(plot.stream, "<text class=\"name\" x=\"%d\" y=\"%.1f\">probes</text>", PLOT_LEFT - 10,
             (plot.top + plot.bottom) / 2 + 4);
    plot_axis(&plot);
    for (size_t i = 0; i < BINS; i++)
        if (bins[i].all > 0)
            draw_bin(&plot, i, &bins[i]);
    for (size_t i = 0; i < plot.analysis->phase_count; i++)
        draw_phase_part(&plot, &plot.analysis->phases[i]);
    plot_bands(&plot);
    plot_close(&plot);
}

/* ---- fencing tokens -------------------------------------------------------------------- */

struct range {
    double least, most;
    size_t count;
};

static struct range fence_range(const struct analysis *analysis)
{
    struct range range = {INFINITY, -INFINITY, 0};

    for (size_t i = 0; i < analysis->lease_count; i++) {
        double fence = (double)analysis->leases[i].fence;
        if (fence == 0)
            continue;
        range.least = fmin(range.least, fence);
        range.most = fmax(range.most, fence);
        range.count++;
    }
    return range;
}

static double fence_y(const struct plot *plot, const struct range *range, int64_t fence)
{
    double part = ((double)fence - range->least) / fmax(1, range->most - range->least);

    return plot->bottom - 8 - part * (plot->bottom - plot->top - 16);
}

static void draw_fence_scale(const struct plot *plot, const struct range *range)
{
    double middle = floor((range->least + range->most) / 2);
    const double at[] = {range->least, middle, range->most};

    (void)fputs("<g class=\"scale\">", plot->stream);
    for (size_t i = 0; i < 3; i++) {
        double y = fence_y(plot, range, (int64_t)at[i]);
        if (i == 0 || at[i] != at[i - 1])
            html_put(plot->stream,
                     "<line x1=\"%d\" x2=\"%.0f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                     "<text x=\"%d\" y=\"%.1f\">%s</text>",
                     PLOT_LEFT, plot->width - PLOT_RIGHT, y, y, PLOT_LEFT - 10, y + 4,
                     words_number(&at[i]).text);
    }
    (void)fputs("</g>\n", plot->stream);
}

static void draw_fence(const struct plot *plot, const struct range *range,
                       const struct lease_choice *choice, size_t which)
{
    const struct lease *lease = &plot->analysis->leases[which];
    bool bad = choice->mark[which] == LEASE_VIOLATING;

    html_put(plot->stream,
             "<path class=\"dot s%u%s\" d=\"M%.1f %.1fh0\"><title>%s, fence %ld at "
             "%s, %s</title></path>\n",
             lease_colour(choice, lease->name), bad ? " bad" : "", plot_x(plot, lease->held_ns),
             fence_y(plot, range, lease->fence), lease->name, (long)lease->fence,
             words_seconds(lease->held_ns - plot->analysis->begin_ns).text,
             lease->worker < plot->analysis->worker_count ? plot->analysis->workers[lease->worker]
                                                          : "?");
}

size_t charts_fences(const struct plot *whole, const struct lease_choice *choice)
{
    struct plot plot = *whole;
    struct range range = fence_range(plot.analysis);
    size_t few = (range.count + FENCE_DOTS - 1) / FENCE_DOTS, seen = 0, shown = 0;

    if (range.count == 0)
        return 0;
    plot.top = PLOT_PHASES;
    plot.bottom = FENCE_HEIGHT;
    plot_open(&plot, plot.bottom + PLOT_AXIS, "fences", "Fencing tokens over time");
    plot_bands(&plot);
    plot_axis(&plot);
    plot_phases(&plot, 0);
    draw_fence_scale(&plot, &range);
    for (size_t i = 0; i < plot.analysis->lease_count; i++) {
        size_t which = choice->order[i];
        if (plot.analysis->leases[which].fence == 0)
            continue;
        if (seen++ % few != 0 && choice->mark[which] != LEASE_VIOLATING)
            continue;
        draw_fence(&plot, &range, choice, which);
        shown++;
    }
    plot_close(&plot);
    return shown;
}
