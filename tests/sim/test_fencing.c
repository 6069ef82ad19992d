/*
 * Fencing tokens only rise (fencing.c), and each weaker way to make them fails in the same
 * simulator.
 *
 * redlock__fence_choose() is replaced by the linker, so that other ways to choose can be tried.
 */
#include <stdlib.h>

#include "fence.h"
#include "fencing.h"
#include "scenario.h"
#include "validity.h"

enum {
    PARTS = 20,
    SEEDS = 400,
    CONTROL_SEEDS = 4000 /* one of them is enough */
};

typedef int64_t choose_fn(const int64_t *numbers, uint32_t granted, uint32_t *settled);

choose_fn __real_redlock__fence_choose, __wrap_redlock__fence_choose;

static choose_fn *choose;

int64_t __wrap_redlock__fence_choose(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    return choose != NULL ? choose(numbers, granted, settled)
                          : __real_redlock__fence_choose(numbers, granted, settled);
}

/* ---- other ways to choose ----------------------------------------------- */

static int64_t choose_sum(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    int64_t sum = 0;
    for (uint32_t i = 0; granted >> i != 0; i++)
        sum += (granted >> i & 1) != 0 ? numbers[i] : 0;
    *settled = granted;
    return sum;
}

/* The plain maximum, given out as it is. */
static int64_t choose_maximum(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    int64_t token = __real_redlock__fence_choose(numbers, granted, settled);
    *settled = granted;
    return token;
}

/* The quorum-th smallest, with all grants counted. */
static int64_t choose_middle(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    int64_t best = INT64_MAX;
    *settled = granted;
    for (uint32_t i = 0; granted >> i != 0; i++) {
        uint32_t below = 0;
        for (uint32_t j = 0; granted >> j != 0; j++)
            below += (granted >> j & 1) != 0 && numbers[j] <= numbers[i];
        if ((granted >> i & 1) != 0 && below >= redlock__count(granted) / 2 + 1)
            best = redlock__min(best, numbers[i]);
    }
    return best;
}

/* A clock, here one that is a little different wherever it is asked. */
static int64_t choose_time(const int64_t *numbers, uint32_t granted, uint32_t *settled)
{
    static uint64_t calls;
    (void)numbers;
    *settled = granted;
    return INT64_C(1700000000000) + (int64_t)(++calls * 7 % 1000);
}

/* ---- tests -------------------------------------------------------------- */

static uint64_t seeds_in_all(void)
{
    const char *text = getenv("REDLOCK_SIM_SEEDS");
    return text != NULL ? strtoull(text, NULL, 0) : SEEDS;
}

static void keep_rising(int part, uint64_t base, uint64_t seeds,
                        const struct fencing_config *config)
{
    uint64_t count = getenv("REDLOCK_SIM_SEED") != NULL ? part == 0 : seeds / PARTS;
    uint64_t acquired = 0, settled = 0, forgot = 0, recovered = 0, transactions = 0;

    for (uint64_t k = 0; k < count; k++) {
        uint64_t seed = scenario_seed(base + k * PARTS + (uint64_t)part);
        struct fencing_result result = fencing_run(seed, config);
        if (result.violation[0] != '\0')
            ck_abort_msg("seed %#llx: %s", (unsigned long long)seed, result.violation);
        acquired += result.acquired;
        settled += result.settled;
        forgot += result.forgot;
        recovered += result.recovered;
        transactions += result.transactions;
    }
    if (count < 20)
        return;
    ck_assert_uint_gt(acquired, 5 * count);
    ck_assert_uint_gt(settled, count / 4);
    ck_assert_uint_gt(transactions, count);
    if (config->forget)
        ck_assert_uint_gt(recovered, forgot / 40);
}

START_TEST(tokens_rise_whatever_vanishes)
{
    struct fencing_config config = {.settle = SIM_SETTLE_SOUND};
    keep_rising(_i, 8000000, seeds_in_all(), &config);
}
END_TEST

START_TEST(tokens_rise_while_members_forget_and_recover)
{
    struct fencing_config config = {.settle = SIM_SETTLE_SOUND, .forget = true};
    keep_rising(_i, 9000000, seeds_in_all() / 10, &config);
}
END_TEST

START_TEST(tokens_rise_where_counters_are_below_their_base)
{
    struct fencing_config config = {.settle = SIM_SETTLE_SOUND, .rebase = true};
    keep_rising(_i, 7000000, seeds_in_all() / 4, &config);
}
END_TEST

static const struct {
    choose_fn *choose;
    struct fencing_config config;
} broken[] = {
    {choose_sum, {.settle = SIM_SETTLE_SOUND}},
    {choose_maximum, {.settle = SIM_SETTLE_SOUND}}, /* and so: answered first, settled later */
    {choose_middle, {.settle = SIM_SETTLE_SOUND}},
    {choose_time, {.settle = SIM_SETTLE_SOUND}},
    {NULL, {.settle = SIM_SETTLE_NOTHING}},
    {NULL, {.settle = SIM_SETTLE_BLIND}},
    {NULL, {.settle = SIM_SETTLE_LOWERS}},
    {NULL, {.settle = SIM_SETTLE_FORGETS}},
    {NULL, {.settle = SIM_SETTLE_SOUND, .forget = true, .unguarded_recovery = true}},
    {NULL, {.count_up = SIM_COUNT_MAKES}},
};

START_TEST(a_weaker_way_fails)
{
    if (seeds_in_all() < SEEDS) /* where each run is slow: it is found out without */
        return;
    choose = broken[_i].choose;
    for (uint64_t k = 0; k < CONTROL_SEEDS; k++)
        if (strstr(fencing_run(8500000 + k, &broken[_i].config).violation, "after") != NULL)
            return;
    ck_abort_msg("tokens rise in %d seeds", CONTROL_SEEDS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fencing");
    TCase *t = scenario_case(suite, "promises", 250);
    tcase_add_loop_test(t, tokens_rise_whatever_vanishes, 0, PARTS);
    tcase_add_loop_test(t, tokens_rise_while_members_forget_and_recover, 0, PARTS);

    tcase_add_loop_test(t, tokens_rise_where_counters_are_below_their_base, 0, PARTS);

    t = scenario_case(suite, "controls", 250);
    tcase_add_loop_test(t, a_weaker_way_fails, 0, (int)(sizeof(broken) / sizeof(broken[0])));
    return scenario_main(suite);
}
