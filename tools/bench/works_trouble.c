/*
 * Primaries that are far, or broken, behind the harness's proxy. All is measured through it, the
 * base as well; what the proxy costs the machine is in all figures, so there are none of CPU.
 *
 * unequal: the five are 1, 2, 5, 50 and 200 ms farther. A PING over the third link, by turns with
 * the cycles, is what a majority costs.
 *
 * broken: two clients, each with links of its own to the same primaries. The base's are well; one
 * or two of the other's are hurt. First comes the first acquire after that, then a while until the
 * library has noticed all there is to notice (a link that is silent for two seconds is closed),
 * then both are measured by turns. All cycles of the hurt client count as tried.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "links.h"
#include "ours.h"
#include "trouble.h"
#include "works_client.h"

enum {
    PRIMARIES = 5,
    THIRD = 2,
    LEAST_CYCLES = 5,
    TURNS = 10 /* of each client, in what is measured */
};

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S 1e9
#define LEAST_SECONDS 1.0
#define SETTLE_SECONDS 2.5

static double ms(int64_t ns)
{
    return (double)ns / (double)NS_PER_MS;
}

static bool prepare(struct bench *bench)
{
    if (bench->n >= PRIMARIES)
        return ours_mark(bench, PRIMARIES);
    return bench_fail(bench, "this work needs %d primaries on 127.0.0.1, there are %u", PRIMARIES,
                      bench->n);
}

static redlock_client *client_over(struct bench *bench, const char *const *uris)
{
    char text[WORKS_TEXT_LEN];
    redlock_client *client = works_client(bench, uris, PRIMARIES, text);

    if (client == NULL && *bench->interrupted == 0)
        (void)bench_fail(bench, "through the proxy: %s", text);
    return client;
}

/* ---- unequal -------------------------------------------------------------------------------- */

struct unequal {
    struct cycles cycles;
    struct hist pings;
};

static bool measure_unequal(struct bench *bench, redlock_client *client, int fd, struct unequal *at)
{
    double seconds = works_seconds(bench, LEAST_SECONDS);
    int64_t end_ns = bench_now_ns() + (int64_t)(seconds * NS_PER_S), ns;
    char key[WORKS_KEY_LEN];

    works_key(key, "unequal");
    while (bench_now_ns() < end_ns || at->cycles.tried < LEAST_CYCLES) {
        if (*bench->interrupted != 0)
            return false;
        cycles_run(&at->cycles, client, key);
        if (!ping(fd, &ns))
            return bench_fail(bench, "no answer to a PING over the third link");
        hist_add(&at->pings, ns);
    }
    if (at->cycles.held == at->cycles.tried)
        return true;
    return bench_fail(bench, "%llu of %llu cycles failed: %s",
                      (unsigned long long)(at->cycles.tried - at->cycles.held),
                      (unsigned long long)at->cycles.tried, redlock_strerror(at->cycles.rc));
}

static void sample_unequal(struct bench *bench, const struct unequal *at)
{
    static const char base[] = "third RTT";

    bench_sample(bench, "acquire p50", "ms", ms(hist_percentile_ns(&at->cycles.acquire, 50)),
                 ms(hist_percentile_ns(&at->pings, 50)), base, 1.1);
    bench_sample(bench, "release p50", "ms", ms(hist_percentile_ns(&at->cycles.release, 50)),
                 ms(hist_percentile_ns(&at->pings, 50)), base, 1.1);
    bench_sample(bench, "acquire p99", "ms", ms(hist_percentile_ns(&at->cycles.acquire, 99)),
                 ms(hist_percentile_ns(&at->pings, 99)), base, 0);
    bench_sample(bench, "release p99", "ms", ms(hist_percentile_ns(&at->cycles.release, 99)),
                 ms(hist_percentile_ns(&at->pings, 99)), base, 0);
}

static bool unequal_over(struct bench *bench, struct links *links, struct unequal *at)
{
    redlock_client *client = client_over(bench, links_uris(links));
    bool done = false;
    int fd;

    if (client == NULL)
        return false;
    fd = ping_open(links_port(links, THIRD));
    if (fd < 0)
        (void)bench_fail(bench, "the third link: %s", strerror(errno));
    else
        done = measure_unequal(bench, client, fd, at);
    if (fd >= 0)
        (void)close(fd);
    redlock_client_free(client);
    return done;
}

static bool unequal(struct bench *bench)
{
    static const int64_t added_ms[PRIMARIES] = {1, 2, 5, 50, 200};
    struct unequal *at;
    struct links *links;
    bool done = true;

    if (!prepare(bench))
        return false;
    at = calloc(1, sizeof *at);
    links = links_open(bench, bench->uris, PRIMARIES);
    for (unsigned i = 0; i < PRIMARIES && links != NULL && done; i++)
        done = links_set(links, i, LINKS_FARTHER, added_ms[i] * NS_PER_MS);
    done = done && at != NULL && links != NULL && unequal_over(bench, links, at);
    if (done)
        sample_unequal(bench, at);
    links_close(links);
    free(at);
    return done;
}

/* ---- broken --------------------------------------------------------------------------------- */

static const struct fault {
    const char *name;
    enum links_state state;
    int64_t ns;
} faults[] = {{"black-holed", LINKS_SILENT, 0},
              {"refusing", LINKS_REFUSE, 0},
              {"slow", LINKS_SLOW, 1000 * NS_PER_MS}};

struct broken {
    struct bench *bench;
    struct links *links; /* the first PRIMARIES are well, the others are to be hurt */
    redlock_client *well, *hurt;
    char well_key[WORKS_KEY_LEN], hurt_key[WORKS_KEY_LEN];
    struct cycles first, settling, base, ours;
};

static bool hurt(struct broken *broken, const struct fault *fault, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!links_set(broken->links, PRIMARIES + i, fault->state, fault->ns))
            return false;
    return true;
}

static bool mend(struct broken *broken, unsigned count)
{
    static const struct fault none = {"", LINKS_WELL, 0};

    return hurt(broken, &none, count);
}

static bool measure_broken(struct broken *broken)
{
    const struct bench *bench = broken->bench;
    double seconds = works_seconds(bench, LEAST_SECONDS);
    double settle = works_seconds(bench, SETTLE_SECONDS);
    int64_t turn_ns = (int64_t)(seconds * NS_PER_S) / TURNS;

    cycles_run(&broken->first, broken->hurt, broken->hurt_key);
    cycles_run_for(&broken->settling, broken->hurt, broken->hurt_key, (int64_t)(settle * NS_PER_S),
                   bench->interrupted);
    for (unsigned i = 0; i < 2 * TURNS && *bench->interrupted == 0; i++)
        if ((i + bench->round) % 2 == 0)
            cycles_run_for(&broken->ours, broken->hurt, broken->hurt_key, turn_ns,
                           bench->interrupted);
        else
            cycles_run_for(&broken->base, broken->well, broken->well_key, turn_ns,
                           bench->interrupted);
    return *bench->interrupted == 0;
}

/* In microseconds; base 0: nothing to compare with. */
static void sample_time(struct bench *bench, const char *variant, const char *what, int64_t ours_ns,
                        int64_t base_ns, double limit)
{
    char figure[96];

    (void)snprintf(figure, sizeof figure, "%s: %s", variant, what);
    bench_sample(bench, figure, "us", 1000 * ms(ours_ns), base_ns > 0 ? 1000 * ms(base_ns) : NAN,
                 base_ns > 0 ? "no fault" : "", limit);
}

static void sample_success(const struct broken *broken, const char *variant)
{
    double tried = (double)(broken->first.tried + broken->settling.tried + broken->ours.tried);
    double held = (double)(broken->first.held + broken->settling.held + broken->ours.held);
    char figure[96];

    (void)snprintf(figure, sizeof figure, "%s: success", variant);
    bench_sample(broken->bench, figure, "", held / tried, 1, "target", -1);
}

static void sample_broken(const struct broken *broken, const char *variant)
{
    struct bench *bench = broken->bench;
    const struct cycles *ours = &broken->ours, *base = &broken->base;

    sample_time(bench, variant, "acquire p50", hist_percentile_ns(&ours->acquire, 50),
                hist_percentile_ns(&base->acquire, 50), 1.15);
    sample_time(bench, variant, "acquire p99", hist_percentile_ns(&ours->acquire, 99),
                hist_percentile_ns(&base->acquire, 99), 2);
    sample_time(bench, variant, "release p50", hist_percentile_ns(&ours->release, 50),
                hist_percentile_ns(&base->release, 50), 1.15);
    sample_success(broken, variant);
    if (broken->first.acquire.count > 0)
        sample_time(bench, variant, "first acquire", broken->first.acquire.most_ns, 0, 0);
}

static void clear_broken(struct broken *broken)
{
    cycles_clear(&broken->first);
    cycles_clear(&broken->settling);
    cycles_clear(&broken->base);
    cycles_clear(&broken->ours);
}

/* With a new client, so that nothing is left of the fault before. */
static bool break_some(struct broken *broken, const struct fault *fault, unsigned count)
{
    char variant[64];
    bool done;

    clear_broken(broken);
    broken->hurt = client_over(broken->bench, links_uris(broken->links) + PRIMARIES);
    if (broken->hurt == NULL)
        return false;
    done = hurt(broken, fault, count) && measure_broken(broken);
    done = mend(broken, count) && done;
    redlock_client_free(broken->hurt);
    if (!done)
        return false;
    (void)snprintf(variant, sizeof variant, "%s %s", count == 1 ? "one" : "two", fault->name);
    sample_broken(broken, variant);
    return true;
}

static bool break_all(struct broken *broken)
{
    bool done = true;

    broken->well = client_over(broken->bench, links_uris(broken->links));
    if (broken->well == NULL)
        return false;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0] && done; i++)
        done = break_some(broken, &faults[i], 1) && break_some(broken, &faults[i], 2);
    redlock_client_free(broken->well);
    return done;
}

static bool broken(struct bench *bench)
{
    const char *uris[2 * PRIMARIES];
    struct broken *broken;
    bool done;

    if (!prepare(bench))
        return false;
    for (unsigned i = 0; i < 2 * PRIMARIES; i++)
        uris[i] = bench->uris[i % PRIMARIES];
    broken = calloc(1, sizeof *broken);
    if (broken == NULL)
        return bench_fail(bench, "no memory");
    broken->bench = bench;
    works_key(broken->well_key, "well");
    works_key(broken->hurt_key, "hurt");
    broken->links = links_open(bench, uris, 2 * PRIMARIES);
    done = broken->links != NULL && break_all(broken);
    links_close(broken->links);
    free(broken);
    return done;
}

const struct bench_work bench_works_trouble[] = {
    {.name = "unequal",
     .what = "five primaries that are 1, 2, 5, 50 and 200 ms farther away",
     .round = unequal},
    {.name = "broken",
     .what = "one and two of five primaries black-holed, refusing, answering after 1 s",
     .round = broken},
    {.name = NULL}};
