/* From top to bottom: phases, labels of faults, violations, nodes, workers, seconds. */
#include "timeline.h"

#include <math.h>
#include <string.h>

#include "analysis.h"
#include "html.h"
#include "words.h"

enum {
    NODE_ROW = 27,
    WORKER_ROW = 18,
    GAP = 10,
    MARKS = 18, /* height of the line of violations */
    NEAR_ROWS = 8,
    STATE_LETTER = 7 /* width of one, at least */
};
#define NOTICEABLE_NS 1e6 /* an offset that is worth a curve */

struct layout {
    double phases, lanes, marks, nodes, workers;
};

/* ---- nodes: states ---------------------------------------------------------- */

static const char *state_class(const char *what)
{
    static const char *const known[] = {"down", "frozen", "barred"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(what, known[i]) == 0)
            return known[i];
    return "other";
}

static void draw_states(const struct plot *plot, const struct layout *layout)
{
    for (size_t i = 0; i < plot->analysis->span_count; i++) {
        const struct span *span = &plot->analysis->spans[i];
        double from = plot_x(plot, span->begin_ns), to = plot_x(plot, span->end_ns);
        double top = layout->nodes + (span->node - 1.0) * NODE_ROW + 4;
        if (span->node < 1 || span->node > plot->analysis->node_count)
            continue;
        html_put(plot->stream,
                 "<g class=\"state %s\"><title>node %u %s, %s to %s</title><rect x=\"%.1f\" "
                 "y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>",
                 state_class(span->what), span->node, span->what,
                 words_seconds(span->begin_ns - plot->analysis->begin_ns).text,
                 words_seconds(span->end_ns - plot->analysis->begin_ns).text, from, top,
                 fmax(1.5, to - from), NODE_ROW - 8);
        if (to - from > (double)words_length(span->what) * STATE_LETTER + 8)
            html_put(plot->stream, "<text x=\"%.1f\" y=\"%.1f\">%s</text>", from + 6, top + 13.5,
                     span->what);
        (void)fputs("</g>\n", plot->stream);
    }
}

/* ---- nodes: clocks ------------------------------------------------------------ */

struct curve { /* being drawn; of each column of pixels the extremes only */
    const struct plot *plot;
    double middle, scale; /* pixels per ns */
    double x, first, low, high, last;
    bool begun, told;
};

static void curve_flush(struct curve *curve)
{
    if (!curve->begun)
        return;
    html_put(curve->plot->stream, "L%.1f %.1f", curve->x, curve->first);
    if (curve->high - curve->low > 0.05)
        html_put(curve->plot->stream, "V%.1fV%.1fV%.1f", curve->low, curve->high, curve->last);
}

static void curve_to(struct curve *curve, int64_t t, double offset_ns)
{
    double x = plot_x(curve->plot, t), y = curve->middle - offset_ns * curve->scale;

    if (!curve->begun)
        html_put(curve->plot->stream, "M%.1f %.1f", x, y);
    else if (x - curve->x < 1) {
        curve->low = fmin(curve->low, y);
        curve->high = fmax(curve->high, y);
        curve->last = y;
        return;
    }
    curve_flush(curve);
    curve->begun = true;
    curve->x = x;
    curve->first = curve->low = curve->high = curve->last = y;
}

/* The offset of a node's clock, as long as this entry holds: until its next one. */
struct stretch {
    int64_t begin_ns, end_ns;
    double from_ns, to_ns;
};

static bool next_stretch(const struct analysis *analysis, unsigned node, size_t *at,
                         struct stretch *stretch)
{
    const struct offset *offset = NULL;
    size_t i = *at;

    for (; i < analysis->offset_count && offset == NULL; i++)
        if (analysis->offsets[i].node == node)
            offset = &analysis->offsets[i];
    *at = i;
    if (offset == NULL)
        return false;
    while (i < analysis->offset_count && analysis->offsets[i].node != node)
        i++;
    stretch->begin_ns = offset->t;
    stretch->end_ns = i < analysis->offset_count ? analysis->offsets[i].t : analysis->end_ns;
    stretch->from_ns = (double)offset->offset_ns;
    stretch->to_ns =
        stretch->from_ns + (double)(stretch->end_ns - offset->t) * (double)offset->rate_ppb / 1e9;
    return true;
}

/* The one farthest from 0. */
static double extreme_offset(const struct analysis *analysis, unsigned node)
{
    struct stretch stretch;
    double extreme = 0;

    for (size_t at = 0; next_stretch(analysis, node, &at, &stretch);) {
        if (fabs(stretch.from_ns) > fabs(extreme))
            extreme = stretch.from_ns;
        if (fabs(stretch.to_ns) > fabs(extreme))
            extreme = stretch.to_ns;
    }
    return extreme;
}

static void draw_clock(const struct plot *plot, unsigned node, double middle)
{
    double extreme = extreme_offset(plot->analysis, node), ms = extreme / 1e6;
    struct curve curve = {.plot = plot, .middle = middle};
    struct stretch stretch;

    if (fabs(extreme) < NOTICEABLE_NS)
        return;
    curve.scale = (NODE_ROW / 2.0 - 3) / fabs(extreme);
    html_put(plot->stream,
             "<g class=\"clock\"><title>the wall clock of node %u against the first node's: "
             "%s at most</title><path d=\"",
             node, words_duration(&ms).text);
    curve_to(&curve, plot->begin_ns, 0);
    for (size_t at = 0; next_stretch(plot->analysis, node, &at, &stretch);) {
        if (!curve.told) /* what nothing was said of yet */
            curve_to(&curve, stretch.begin_ns, 0);
        curve.told = true;
        curve_to(&curve, stretch.begin_ns, stretch.from_ns);
        curve_to(&curve, stretch.end_ns, stretch.to_ns);
    }
    curve_flush(&curve);
    html_put(plot->stream, "\"/><text x=\"%.0f\" y=\"%.1f\">%s%s</text></g>\n",
             plot->width - PLOT_RIGHT + 8, middle + 4, extreme > 0 ? "+" : "",
             words_duration(&ms).text);
}

static void draw_nodes(const struct plot *plot, const struct layout *layout)
{
    for (unsigned node = 1; node <= plot->analysis->node_count; node++) {
        char name[32];
        (void)snprintf(name, sizeof name, "node %u", node);
        plot_row(plot, layout->nodes + (node - 0.5) * NODE_ROW, name);
    }
    draw_states(plot, layout);
    for (unsigned node = 1; node <= plot->analysis->node_count; node++)
        draw_clock(plot, node, layout->nodes + (node - 0.5) * NODE_ROW);
}

/* The nodes that a fault is about, darker than the band across everything. */
static void draw_hit_nodes(const struct plot *plot, const struct layout *layout)
{
    for (size_t i = 0; i < plot->analysis->fault_count; i++) {
        const struct fault *fault = &plot->analysis->faults[i];
        double from = plot_x(plot, fault->begin_ns), to = plot_x(plot, fault->end_ns);
        for (unsigned node = 0; node < plot->analysis->node_count && node < 64; node++)
            if ((fault->nodes >> node & 1) != 0)
                html_put(
                    plot->stream,
                    "<rect class=\"hit\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n",
                    from, layout->nodes + node * NODE_ROW + 1, fmax(1.5, to - from), NODE_ROW - 2);
    }
}

/* ---- workers ------------------------------------------------------------------- */

static double worker_middle(const struct layout *layout, unsigned worker)
{
    return layout->workers + (worker + 0.5) * WORKER_ROW;
}

/* One path for all that went the same way: probes are many and look alike. */
static void draw_probes(const struct plot *plot, const struct layout *layout, bool ok)
{
    const struct analysis *analysis = plot->analysis;
    double half = ok ? 3 : 5;

    if (analysis->probe_count == 0)
        return;
    html_put(plot->stream, "<path class=\"%s\" d=\"M0 0", ok ? "probed" : "unprobed");
    for (size_t i = 0; i < analysis->probe_count; i++)
        if (analysis->probes[i].ok == ok && analysis->probes[i].worker < analysis->worker_count)
            html_put(plot->stream, "M%.1f %.1fv%.0f", plot_x(plot, analysis->probes[i].end_ns),
                     worker_middle(layout, analysis->probes[i].worker) - half, 2 * half);
    (void)fputs("\"/>\n", plot->stream);
}

static void draw_workers(const struct plot *plot, const struct layout *layout,
                         const struct lease_choice *choice)
{
    const struct analysis *analysis = plot->analysis;

    for (unsigned i = 0; i < analysis->worker_count; i++) {
        size_t count = 0;
        for (size_t k = 0; k < analysis->lease_count; k++)
            count += analysis->leases[k].worker == i;
        plot_row(plot, worker_middle(layout, i), analysis->workers[i]);
        html_put(plot->stream, "<text class=\"count\" x=\"%.0f\" y=\"%.1f\">%zu</text>\n",
                 plot->width - PLOT_RIGHT + 8, worker_middle(layout, i) + 4, count);
    }
    draw_probes(plot, layout, true);
    draw_probes(plot, layout, false);
    for (int mark = LEASE_SHOWN; mark <= LEASE_VIOLATING; mark++) /* violating ones on top */
        for (size_t i = 0; i < analysis->lease_count; i++)
            if (choice->mark[i] == mark && analysis->leases[i].worker < analysis->worker_count)
                lease_draw(plot, choice, i, worker_middle(layout, analysis->leases[i].worker),
                           false);
}

static void draw_marks(const struct plot *plot, const struct layout *layout)
{
    for (size_t i = 0; i < plot->analysis->violation_count; i++) {
        const struct violation *violation = &plot->analysis->violations[i];
        double x = plot_x(plot, violation->t), y = layout->marks + MARKS / 2.0;
        html_put(plot->stream,
                 "<a href=\"#c%zu-v%zu\"><g class=\"mark\" id=\"c%zu-m%zu\"><title>C%d at %s: "
                 "%s</title><path class=\"line\" d=\"M%.1f %.1fV%.1f\"/><path class=\"point\" "
                 "d=\"M%.1f %.1fl6 6-6 6-6-6z\"/></g></a>\n",
                 plot->chapter, i + 1, plot->chapter, i + 1, violation->checker,
                 words_seconds(violation->t - plot->analysis->begin_ns).text, violation->text, x, y,
                 plot->bottom, x, y - 6);
    }
}

/* ---- the whole -------------------------------------------------------------------- */

static struct layout lay_out(const struct plot *plot)
{
    const struct analysis *analysis = plot->analysis;
    struct layout layout = {0};

    layout.lanes = PLOT_PHASES;
    layout.marks = layout.lanes + plot_lanes(plot) * PLOT_LANE + 2;
    layout.nodes = layout.marks + (analysis->violation_count > 0 ? MARKS : 0) + 2;
    layout.workers = layout.nodes + analysis->node_count * NODE_ROW + GAP;
    return layout;
}

void timeline_draw(const struct plot *whole, const struct lease_choice *choice)
{
    struct plot plot = *whole;
    struct layout layout = lay_out(&plot);

    plot.top = PLOT_PHASES;
    plot.bottom = layout.workers + (double)plot.analysis->worker_count * WORKER_ROW + 4;
    plot_open(&plot, plot.bottom + PLOT_AXIS, "timeline", "Timeline of nodes and workers");
    plot_bands(&plot);
    plot_axis(&plot);
    plot_phases(&plot, layout.phases);
    draw_hit_nodes(&plot, &layout);
    plot_fault_labels(&plot, layout.lanes);
    draw_nodes(&plot, &layout);
    draw_workers(&plot, &layout, choice);
    draw_marks(&plot, &layout);
    plot_close(&plot);
}

/* ---- from near ---------------------------------------------------------------------- */

struct near {
    size_t leases[NEAR_ROWS];
    size_t count;
    int64_t begin_ns, end_ns;
};

static void add_near(struct near *near, size_t which)
{
    for (size_t i = 0; i < near->count; i++)
        if (near->leases[i] == which)
            return;
    if (near->count < NEAR_ROWS)
        near->leases[near->count++] = which;
}

static int64_t end_of(const struct lease *lease)
{
    int64_t end = lease->until_ns;

    if (lease->true_ns != INT64_MIN && lease->true_ns > end)
        end = lease->true_ns;
    return end;
}

/* The time in which all of the violation happens, and a little more. */
static void find_window(const struct analysis *analysis, struct near *near)
{
    int64_t margin;

    near->begin_ns = INT64_MAX;
    near->end_ns = INT64_MIN;
    for (size_t i = 0; i < near->count; i++) {
        const struct lease *lease = &analysis->leases[near->leases[i]];
        if (lease->asked_ns < near->begin_ns)
            near->begin_ns = lease->asked_ns;
        if (end_of(lease) > near->end_ns)
            near->end_ns = end_of(lease);
    }
    margin = (near->end_ns - near->begin_ns) / 12 + 1000;
    near->begin_ns -= margin;
    near->end_ns += margin;
}

static struct near find_near(const struct analysis *analysis, const struct lease_choice *choice,
                             const struct violation *violation)
{
    struct near near = {0};

    for (size_t i = 0; i < 2; i++)
        if (violation->leases[i] >= 0 && (size_t)violation->leases[i] < analysis->lease_count)
            add_near(&near, (size_t)violation->leases[i]);
    if (near.count == 0)
        return near;
    find_window(analysis, &near);
    for (size_t i = 0; i < analysis->lease_count; i++) {
        const struct lease *lease = &analysis->leases[choice->order[i]];
        if (strcmp(lease->name, analysis->leases[near.leases[0]].name) == 0 &&
            lease->held_ns < near.end_ns && end_of(lease) > near.begin_ns)
            add_near(&near, choice->order[i]);
    }
    return near;
}

void timeline_draw_near(const struct plot *whole, const struct lease_choice *choice,
                        size_t violation)
{
    struct plot plot = *whole;
    const struct violation *what = &plot.analysis->violations[violation];
    struct near near = find_near(plot.analysis, choice, what);
    double x;

    if (near.count == 0)
        return;
    plot.begin_ns = near.begin_ns;
    plot.end_ns = near.end_ns;
    plot.width = PLOT_WIDTH;
    plot.top = 2;
    plot.bottom = plot.top + (double)near.count * (WORKER_ROW + 4) + 4;
    plot_open(&plot, plot.bottom + PLOT_AXIS, "near", "The leases of this violation");
    plot_bands(&plot);
    plot_axis(&plot);
    for (size_t i = 0; i < near.count; i++) {
        const struct lease *lease = &plot.analysis->leases[near.leases[i]];
        double middle = plot.top + ((double)i + 0.5) * (WORKER_ROW + 4) + 2;
        plot_row(&plot, middle,
                 lease->worker < plot.analysis->worker_count ? plot.analysis->workers[lease->worker]
                                                             : "?");
        lease_draw(&plot, choice, near.leases[i], middle, true);
    }
    x = plot_x(&plot, what->t);
    html_put(plot.stream, "<path class=\"line\" d=\"M%.1f %.1fV%.1f\"/>\n", x, plot.top,
             plot.bottom);
    plot_close(&plot);
}
