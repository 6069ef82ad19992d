/*
 * Random applications under random faults (swarm.c), thousands of seeds. No clock steps, no
 * rate beyond the allowance, no primary forgets: no checker may fire.
 *
 * REDLOCK_SIM_SEED=s runs that seed alone. REDLOCK_SIM_SEEDS=n sets how many each test
 * takes. A failure prints its seed; with REDLOCK_SIM_TRACE=1 as well, all that happened.
 */
#include <stdlib.h>

#include "scenario.h"
#include "swarm.h"

enum {
    PARTS = 20,
    SEEDS = 1000
};

static uint64_t seeds_in_all(void)
{
    const char *text = getenv("REDLOCK_SIM_SEEDS");
    return text != NULL ? strtoull(text, NULL, 0) : SEEDS;
}

/* Of `seeds` those of part `part`, under `faults`; what was seen in all of them. */
static struct swarm_result run_part(int part, uint64_t seeds, uint32_t faults, uint64_t base)
{
    uint64_t count = seeds / PARTS + (seeds % PARTS > (uint64_t)part);
    struct swarm_result sum = {.violation = ""};
    if (getenv("REDLOCK_SIM_SEED") != NULL)
        count = part == 0;
    for (uint64_t k = 0; k < count; k++) {
        uint64_t seed = scenario_seed(base + k * PARTS + (uint64_t)part);
        struct swarm_result result = swarm_run(seed, faults);
        if (result.violation[0] != '\0')
            ck_abort_msg("%s (faults %#x)", result.violation, faults);
        sum.acquired += result.acquired;
        sum.extended += result.extended;
        sum.lost += result.lost;
    }
    return sum;
}

START_TEST(a_swarm_without_faults_keeps_every_promise)
{
    (void)run_part(_i, seeds_in_all() / 5, 0, 1000000);
}
END_TEST

START_TEST(a_swarm_with_all_faults_keeps_every_promise)
{
    struct swarm_result sum = run_part(_i, seeds_in_all(), SWARM_ALL, 2000000);
    if (seeds_in_all() < SEEDS || getenv("REDLOCK_SIM_SEED") != NULL)
        return;
    /* A swarm in which nothing happens proves nothing. */
    ck_assert_uint_gt(sum.acquired, 300);
    ck_assert_uint_gt(sum.extended, 150);
    ck_assert_uint_gt(sum.lost, 15);
}
END_TEST

START_TEST(a_swarm_with_one_kind_of_fault_keeps_every_promise)
{
    for (uint32_t kind = 1; kind < SWARM_ALL; kind *= 2)
        (void)run_part(_i, seeds_in_all() / 20, kind, 3000000 + 100000 * kind);
}
END_TEST

START_TEST(the_same_seed_is_the_same_story)
{
    for (uint64_t k = 0; k < 10; k++) {
        uint64_t seed = scenario_seed(4000000 + 10 * (uint64_t)_i + k);
        struct swarm_result one = swarm_run(seed, SWARM_ALL);
        struct swarm_result two = swarm_run(seed, SWARM_ALL);
        struct swarm_result other = swarm_run(seed + 1, SWARM_ALL);
        ck_assert_uint_eq(one.hash, two.hash);
        ck_assert_uint_eq(one.steps, two.steps);
        ck_assert_uint_ne(one.hash, other.hash);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("swarm");
    TCase *t = scenario_case(suite, "promises", 250);
    tcase_add_loop_test(t, a_swarm_without_faults_keeps_every_promise, 0, PARTS);
    tcase_add_loop_test(t, a_swarm_with_all_faults_keeps_every_promise, 0, PARTS);
    tcase_add_loop_test(t, a_swarm_with_one_kind_of_fault_keeps_every_promise, 0, PARTS);

    t = scenario_case(suite, "determinism", 60);
    tcase_add_loop_test(t, the_same_seed_is_the_same_story, 0, 5);
    return scenario_main(suite);
}
