/*
 * Samples and what is made of them. A ratio is taken within its round, where ours and the base had
 * the same machine under them; the median of these ratios is not the ratio of the medians.
 */
#include "results.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

int64_t bench_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double microseconds(const struct timeval *time)
{
    return (double)time->tv_sec * 1e6 + (double)time->tv_usec;
}

double bench_cpu_us(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return microseconds(&usage.ru_utime) + microseconds(&usage.ru_stime);
}

bool bench_fail(struct bench *bench, const char *format, ...)
{
    const struct bench_work *work = bench->results->work;
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (bench->results->say)
        fprintf(stderr, "redlock: %s%s%s\n", work ? work->name : "", work ? ": " : "", text);
    return false;
}

void bench_tell(const struct bench *bench, const char *format, ...)
{
    bool overwrite = isatty(STDERR_FILENO) != 0;
    char text[512];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (bench->results->say)
        fprintf(stderr, "%s%s: round %u of %u: %s%s",
                overwrite ? "\r\033[K" : "redlock: ", bench->results->work->name, bench->round + 1,
                bench->rounds, text, overwrite ? "" : "\n");
}

/* ---- samples ------------------------------------------------------------------ */

static struct bench_figure *find(struct bench_results *results, const char *name,
                                 const char *base_name)
{
    for (unsigned i = 0; i < results->count; i++) {
        struct bench_figure *figure = &results->figures[i];

        if (figure->work == results->work->name && strcmp(figure->name, name) == 0 &&
            strcmp(figure->base_name, base_name) == 0)
            return figure;
    }
    return NULL;
}

static struct bench_figure *add(struct bench_results *results, const char *name)
{
    struct bench_figure *figures =
        realloc(results->figures, (results->count + 1) * sizeof *results->figures);
    char *copy = strdup(name);

    if (figures)
        results->figures = figures;
    if (!figures || !copy) {
        free(copy);
        return NULL;
    }
    figures[results->count] = (struct bench_figure){.work = results->work->name, .name = copy};
    return &figures[results->count++];
}

void bench_sample(struct bench *bench, const char *figure, const char *unit, double ours,
                  double base, const char *base_name, double limit)
{
    struct bench_figure *at = find(bench->results, figure, base_name ? base_name : "");
    struct bench_sample_pair *samples;

    if (!at)
        at = add(bench->results, figure);
    samples = at ? realloc(at->samples, (at->count + 1) * sizeof *samples) : NULL;
    if (!samples) {
        bench_fail(bench, "out of memory: a figure is left out");
        return;
    }
    at->samples = samples;
    at->unit = unit;
    at->base_name = base_name ? base_name : "";
    at->limit = limit;
    samples[at->count++] = (struct bench_sample_pair){ours, base};
}

double bench_crowd_limit(const struct bench *bench, double limit)
{
    return bench->workers == BENCH_WORKERS ? limit : 0;
}

void bench_results_free(struct bench_results *results)
{
    for (unsigned i = 0; i < results->count; i++) {
        free(results->figures[i].name);
        free(results->figures[i].samples);
    }
    free(results->figures);
    results->figures = NULL;
    results->count = 0;
}

/* ---- medians -------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Sorts. */
static double median(double *values, unsigned count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof *values, compare);
    return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void bench_medians_of(const struct bench_figure *figure, struct bench_medians *medians)
{
    double *values = malloc(figure->count * sizeof *values);
    unsigned ours = 0, base = 0, ratios = 0;

    *medians = (struct bench_medians){NAN, NAN, NAN, NAN, NAN};
    if (!values)
        return;
    for (unsigned i = 0; i < figure->count; i++)
        if (!isnan(figure->samples[i].ours))
            values[ours++] = figure->samples[i].ours;
    medians->ours = median(values, ours);
    for (unsigned i = 0; i < figure->count; i++)
        if (!isnan(figure->samples[i].base))
            values[base++] = figure->samples[i].base;
    medians->base = median(values, base);
    for (unsigned i = 0; i < figure->count; i++) {
        double ratio = figure->samples[i].ours / figure->samples[i].base;

        if (isfinite(ratio))
            values[ratios++] = ratio;
    }
    medians->ratio = median(values, ratios);
    if (ratios > 0) {
        medians->ratio_least = values[0];
        medians->ratio_most = values[ratios - 1];
    }
    free(values);
}

const char *bench_verdict(const struct bench_figure *figure, const struct bench_medians *medians)
{
    if (figure->limit == 0 || isnan(medians->ratio))
        return NULL;
    if (figure->limit > 0)
        return medians->ratio <= figure->limit ? "met" : "missed";
    return medians->ratio >= -figure->limit ? "met" : "missed";
}

bool bench_any_missed(const struct bench_results *results)
{
    for (unsigned i = 0; i < results->count; i++) {
        struct bench_medians medians;
        const char *verdict;

        bench_medians_of(&results->figures[i], &medians);
        verdict = bench_verdict(&results->figures[i], &medians);
        if (verdict && strcmp(verdict, "missed") == 0)
            return true;
    }
    return false;
}
