/*
 * A lease is a bar while it is claimed. Behind the bar a thin tail goes on to where others could
 * have it; if that is before the bar's end, the part between is what the checkers call a violation
 * and is drawn over the bar.
 */
#include "lease_plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"
#include "html.h"
#include "words.h"

enum {
    HALF_BAR = 5
};

/* ---- the choice ------------------------------------------------------------- */

static int by_name_and_time(const void *left, const void *right, void *context)
{
    const struct lease *leases = context;
    size_t a = *(const size_t *)left, b = *(const size_t *)right;
    int names = strcmp(leases[a].name, leases[b].name);

    if (names != 0)
        return names;
    if (leases[a].held_ns != leases[b].held_ns)
        return leases[a].held_ns < leases[b].held_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool make_order(struct lease_choice *choice, const struct analysis *analysis)
{
    size_t count = analysis->lease_count;

    choice->mark = calloc(count + 1, 1);
    choice->order = calloc(count + 1, sizeof *choice->order);
    if (choice->mark == NULL || choice->order == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        choice->order[i] = i;
    qsort_r(choice->order, count, sizeof *choice->order, by_name_and_time, analysis->leases);
    return true;
}

static void show(struct lease_choice *choice, size_t which, enum lease_mark mark)
{
    if (choice->mark[which] == LEASE_HIDDEN)
        choice->shown++;
    if (choice->mark[which] < mark)
        choice->mark[which] = (unsigned char)mark;
}

static void show_violating(struct lease_choice *choice, const struct analysis *analysis)
{
    for (size_t i = 0; i < analysis->violation_count; i++)
        for (size_t k = 0; k < 2; k++) {
            long which = analysis->violations[i].leases[k];
            if (which >= 0 && (size_t)which < analysis->lease_count)
                show(choice, (size_t)which, LEASE_VIOLATING);
        }
}

/* Of the same name; that one ends and the next begins is what a violation is about. */
static void show_neighbours(struct lease_choice *choice, const struct analysis *analysis)
{
    for (size_t i = 0; i + 1 < analysis->lease_count && choice->shown < LEASE_BOXES; i++) {
        size_t one = choice->order[i], next = choice->order[i + 1];
        if (strcmp(analysis->leases[one].name, analysis->leases[next].name) != 0)
            continue;
        if (choice->mark[next] == LEASE_VIOLATING)
            show(choice, one, LEASE_SHOWN);
        if (choice->mark[one] == LEASE_VIOLATING)
            show(choice, next, LEASE_SHOWN);
    }
}

static void show_some(struct lease_choice *choice, size_t count)
{
    size_t room = choice->shown < LEASE_BOXES ? LEASE_BOXES - choice->shown : 0;
    size_t hidden = count - choice->shown, seen = 0;

    for (size_t i = 0; i < count; i++)
        if (choice->mark[i] == LEASE_HIDDEN) {
            if (hidden <= room || (seen + 1) * room / hidden != seen * room / hidden)
                show(choice, i, LEASE_SHOWN);
            seen++;
        }
}

static void find_names(struct lease_choice *choice, const struct analysis *analysis)
{
    for (size_t i = 0; i < analysis->lease_count; i++) {
        const struct lease *lease = &analysis->leases[i];
        if (choice->name_count == LEASE_COLOURS)
            break;
        if (lease->worker < analysis->worker_count && analysis->roles[lease->worker] != NULL &&
            strcmp(analysis->roles[lease->worker], "prober") == 0)
            continue;
        if (lease_colour(choice, lease->name) == 0)
            choice->names[choice->name_count++] = lease->name;
    }
}

bool lease_choose(struct lease_choice *choice, const struct analysis *analysis)
{
    *choice = (struct lease_choice){0};
    if (!make_order(choice, analysis))
        return false;
    show_violating(choice, analysis);
    show_neighbours(choice, analysis);
    show_some(choice, analysis->lease_count);
    find_names(choice, analysis);
    return true;
}

void lease_choice_free(struct lease_choice *choice)
{
    free(choice->mark);
    free(choice->order);
}

unsigned lease_colour(const struct lease_choice *choice, const char *name)
{
    for (size_t i = 0; i < choice->name_count; i++)
        if (strcmp(choice->names[i], name) == 0)
            return (unsigned)i + 1;
    return 0;
}

/* ---- the drawing ---------------------------------------------------------------- */

static bool is_known(const struct lease *lease)
{
    return lease->true_ns != INT64_MIN;
}

static const char *ending(const struct lease *lease)
{
    if (lease->killed)
        return "its worker was killed";
    if (lease->lost)
        return "told to be lost";
    return lease->released ? "released" : "ran out";
}

static void put_title(const struct plot *plot, const struct lease *lease)
{
    const struct analysis *analysis = plot->analysis;
    double held_ms = (double)(lease->until_ns - lease->held_ns) / 1e6;
    double wait_ms = (double)(lease->held_ns - lease->asked_ns) / 1e6;

    html_put(plot->stream, "<title>%s, %s, try %ld\nheld %s to %s (%s) after a wait of %s; %s\n",
             lease->name,
             lease->worker < analysis->worker_count ? analysis->workers[lease->worker] : "?",
             (long)lease->number, words_seconds(lease->held_ns - analysis->begin_ns).text,
             words_seconds(lease->until_ns - analysis->begin_ns).text,
             words_duration(&held_ms).text, words_duration(&wait_ms).text, ending(lease));
    html_put(plot->stream, "deadline claimed %s",
             words_seconds(lease->claimed_ns - analysis->begin_ns).text);
    if (is_known(lease))
        html_put(plot->stream, ", others could have it from %s",
                 words_seconds(lease->true_ns - analysis->begin_ns).text);
    html_put(plot->stream, "\nowner %s", lease->owner);
    if (lease->fence != 0)
        html_put(plot->stream, ", fence %ld", (long)lease->fence);
    (void)fputs("</title>", plot->stream);
}

/* From a to b, but only what lies in the drawing. */
static void put_bar(const struct plot *plot, const char *class, int64_t a, int64_t b, double y,
                    double height)
{
    double from = plot_x(plot, a), to = plot_x(plot, b);

    if (b < plot->begin_ns || a > plot->end_ns)
        return;
    html_put(plot->stream,
             "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"/>", class,
             from, y, fmax(1.2, to - from), height);
}

static void put_tick(const struct plot *plot, const char *class, int64_t t, double middle)
{
    double x = plot_x_free(plot, t);

    if (t < plot->begin_ns || t > plot->end_ns)
        return;
    html_put(plot->stream, "<path class=\"%s\" d=\"M%.1f %.1fv%d\"/>", class, x,
             middle - HALF_BAR - 2, 2 * HALF_BAR + 4);
}

static void put_ending(const struct plot *plot, const struct lease *lease, double middle)
{
    double x = plot_x(plot, lease->until_ns);

    if (lease->until_ns > plot->end_ns || lease->until_ns < plot->begin_ns)
        return;
    if (lease->lost)
        html_put(plot->stream, "<path class=\"lost\" d=\"M%.1f %.1fl4 -7h-8z\"/>", x, middle + 3);
    if (lease->killed)
        html_put(plot->stream, "<path class=\"killed\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\"/>", x - 4,
                 middle - 4);
}

void lease_draw(const struct plot *plot, const struct lease_choice *choice, size_t which,
                double middle, bool details)
{
    const struct lease *lease = &plot->analysis->leases[which];
    char class[16];

    (void)snprintf(class, sizeof class, "n%u", lease_colour(choice, lease->name));
    html_put(plot->stream, "<g class=\"lease%s\">",
             choice->mark[which] == LEASE_VIOLATING ? " bad" : "");
    put_title(plot, lease);
    if (details)
        put_bar(plot, "wait", lease->asked_ns, lease->held_ns, middle - 1, 2);
    if (is_known(lease) && lease->true_ns > lease->until_ns && (details || !lease->released))
        put_bar(plot, "tail", lease->until_ns, lease->true_ns, middle - 1, 2);
    put_bar(plot, class, lease->held_ns, lease->until_ns, middle - HALF_BAR, 2 * HALF_BAR);
    if (is_known(lease) && lease->true_ns < lease->until_ns)
        put_bar(plot, "untrue", lease->true_ns > lease->held_ns ? lease->true_ns : lease->held_ns,
                lease->until_ns, middle - HALF_BAR, 2 * HALF_BAR);
    if (!lease->released)
        put_tick(plot, "claimed", lease->claimed_ns, middle);
    if (is_known(lease) && (details || !lease->released))
        put_tick(plot, "true", lease->true_ns, middle);
    put_ending(plot, lease, middle);
    (void)fputs("</g>\n", plot->stream);
}
