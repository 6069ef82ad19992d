/*
 * Values are medians over the rounds, and so is a ratio, of those within a round; behind it stand
 * the least and the largest of them. The object has all samples as well.
 */
#include "bench_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"
#include "text.h"

enum {
    NUMBER_LEN = 32
};

/* ---- a table ----------------------------------------------------------------------- */

static const char *number(double value, const char *unit, char text[NUMBER_LEN])
{
    int decimals = value >= 1000 ? 0 : value >= 10 ? 1 : value >= 0.1 ? 2 : 4;

    if (isnan(value))
        return "";
    snprintf(text, NUMBER_LEN, "%.*f%s%s", decimals, value, *unit ? " " : "", unit);
    return text;
}

static void show_ratio(const struct bench_figure *figure, const struct bench_medians *medians)
{
    const char *verdict = bench_verdict(figure, medians);

    printf("  %6.3f (%.3f-%.3f)", medians->ratio, medians->ratio_least, medians->ratio_most);
    if (verdict)
        printf("  %s %g %s", figure->limit > 0 ? "<=" : ">=", fabs(figure->limit), verdict);
}

static void show_figure(const struct bench_figure *figure)
{
    struct bench_medians medians;
    char ours[NUMBER_LEN], base[NUMBER_LEN];

    bench_medians_of(figure, &medians);
    printf("  %-30s %12s", figure->name, number(medians.ours, figure->unit, ours));
    if (!isnan(medians.base))
        printf(" %12s %-11s", number(medians.base, figure->unit, base), figure->base_name);
    if (!isnan(medians.ratio))
        show_ratio(figure, &medians);
    putchar('\n');
}

static void show_table(const struct bench *bench)
{
    const struct bench_results *results = bench->results;
    const char *work = "";

    printf("%u primaries%s, medians of %u rounds of %g s a side", bench->n,
           bench->own ? " of its own on loopback" : "", bench->rounds, bench->seconds);
    if (bench->workers != BENCH_WORKERS)
        printf(", crowds of %u", bench->workers);
    putchar('\n');
    for (unsigned i = 0; i < results->count; i++) {
        if (strcmp(results->figures[i].work, work) != 0) {
            work = results->figures[i].work;
            printf("%s\n  %-30s %12s %12s %-11s  %s\n", work, "", "ours", "base", "", "ratio");
        }
        show_figure(&results->figures[i]);
    }
}

/* ---- an object ---------------------------------------------------------------------- */

static void put_figure(struct json *json, const struct bench_figure *figure)
{
    struct bench_medians medians;
    const char *verdict;

    bench_medians_of(figure, &medians);
    verdict = bench_verdict(figure, &medians);
    json_begin_object(json);
    json_text(json, "work", figure->work);
    json_text(json, "figure", figure->name);
    json_text(json, "unit", figure->unit);
    json_real(json, "ours", medians.ours);
    json_real(json, "base", medians.base);
    json_text(json, "base_name", figure->base_name);
    json_real(json, "ratio", medians.ratio);
    json_real(json, "ratio_least", medians.ratio_least);
    json_real(json, "ratio_most", medians.ratio_most);
    json_real(json, "limit", figure->limit == 0 ? NAN : figure->limit);
    json_text(json, "verdict", verdict ? verdict : "");
    json_begin_array(json, "samples");
    for (unsigned i = 0; i < figure->count; i++) {
        json_begin_object(json);
        json_real(json, "ours", figure->samples[i].ours);
        json_real(json, "base", figure->samples[i].base);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

static void show_object(const struct bench *bench, int interrupted)
{
    struct json json;

    json_begin(&json);
    json_text(&json, "version", redlock_version());
    json_integer(&json, "primaries", bench->n);
    json_integer(&json, "own_servers", bench->own);
    json_integer(&json, "rounds", bench->rounds);
    json_real(&json, "seconds", bench->seconds);
    json_integer(&json, "workers", bench->workers);
    json_integer(&json, "interrupted", interrupted);
    json_begin_array(&json, "figures");
    for (unsigned i = 0; i < bench->results->count; i++)
        put_figure(&json, &bench->results->figures[i]);
    json_end_array(&json);
    json_end(&json, STDOUT_FILENO);
}

void bench_show(const struct bench *bench, const struct cli_args *args, int interrupted)
{
    if (args->json)
        show_object(bench, interrupted);
    else if (bench->results->count > 0)
        show_table(bench);
    else if (interrupted != 0) /* else it was said why there is none */
        report_say(args, "nothing was measured yet");
}

/* ---- the works ------------------------------------------------------------------------ */

void bench_show_list(const struct bench_work *const *works, unsigned count,
                     const struct cli_args *args)
{
    struct json json;

    for (unsigned i = 0; i < count && !args->json; i++)
        printf("%-18s %s\n", works[i]->name, works[i]->what);
    if (!args->json)
        return;
    json_begin(&json);
    json_begin_array(&json, "works");
    for (unsigned i = 0; i < count; i++) {
        json_begin_object(&json);
        json_text(&json, "name", works[i]->name);
        json_text(&json, "what", works[i]->what);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end(&json, STDOUT_FILENO);
}
