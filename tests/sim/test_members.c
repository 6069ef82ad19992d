/*
 * Primaries that forget (amnesia.c): nobody gets a lock that somebody else still holds, whatever
 * restarts, and each way to do without one of the rules fails in the same simulator.
 *
 * REDLOCK_SIM_SEED=s runs that seed alone; REDLOCK_SIM_SEEDS=n sets how many each test takes.
 */
#include <stdlib.h>

#include "amnesia.h"
#include "scenario.h"

enum {
    PARTS = 20,
    SEEDS = 200,
    CONTROL_SEEDS = 300 /* one of them is enough */
};

static uint64_t seeds_in_all(void)
{
    const char *text = getenv("REDLOCK_SIM_SEEDS");
    return text != NULL ? strtoull(text, NULL, 0) : SEEDS;
}

static void keep_promises(int part, uint64_t base, const struct amnesia_config *config)
{
    uint64_t count = getenv("REDLOCK_SIM_SEED") != NULL ? part == 0 : seeds_in_all() / PARTS;
    uint64_t acquired = 0, forgot = 0;

    for (uint64_t k = 0; k < count; k++) {
        uint64_t seed = scenario_seed(base + k * PARTS + (uint64_t)part);
        struct amnesia_result result = amnesia_run(seed, config);
        if (result.violation[0] != '\0')
            ck_abort_msg("%s", result.violation);
        acquired += result.acquired;
        forgot += result.forgot;
    }
    if (count < 20)
        return;
    /* Where nothing is held and nothing forgets, nothing is proven. */
    ck_assert_uint_gt(acquired, 4 * count);
    ck_assert_uint_gt(forgot, count / 4);
}

static void break_one(uint64_t base, const struct amnesia_config *config)
{
    for (uint64_t k = 0; k < CONTROL_SEEDS; k++) {
        struct amnesia_result result = amnesia_run(base + k, config);
        if (strstr(result.violation, "both hold") != NULL)
            return;
    }
    ck_abort_msg("no second holder in %d seeds", CONTROL_SEEDS);
}

/* ---- as it is meant to be ----------------------------------------------- */

static const struct amnesia_config sound[] = {
    {.kind = AMNESIA_EMPTY, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = true},
    {.kind = AMNESIA_EMPTY, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = false},
    {.kind = AMNESIA_DURABLE, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = true},
    {.kind = AMNESIA_PROMOTED, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = true},
    {.kind = AMNESIA_CORRECTED, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = true},
};

enum {
    SOUND = sizeof(sound) / sizeof(sound[0])
};

START_TEST(primaries_that_forget_make_no_second_holder)
{
    int kind = _i / PARTS, part = _i % PARTS;
    keep_promises(part, 5000000 + 100000 * (uint64_t)kind, &sound[kind]);
}
END_TEST

/* ---- without one of the rules ------------------------------------------- */

static const struct amnesia_config broken[] = {
    /* no guard */
    {.kind = AMNESIA_EMPTY, .max_ttl_ms = 600, .guard_ms = 0, .marked = true},
    /* a guard of one's own ttl, while others have longer ones */
    {.kind = AMNESIA_EMPTY, .max_ttl_ms = 8000, .guard_ms = 100, .marked = true},
    /* uptime believed after the clock was set */
    {.kind = AMNESIA_CORRECTED, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = false},
    /* a marker taken as proof of memory on a promoted replica */
    {.kind = AMNESIA_PROMOTED,
     .max_ttl_ms = 600,
     .guard_ms = REDLOCK_GUARD_AUTO,
     .marked = true,
     .credulous = true},
    /* what no guard can see: keys that vanish while the process runs on */
    {.kind = AMNESIA_FLUSHED, .max_ttl_ms = 600, .guard_ms = REDLOCK_GUARD_AUTO, .marked = false},
};

START_TEST(without_the_rule_there_is_a_second_holder)
{
    break_one(6000000 + 1000 * (uint64_t)_i, &broken[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("members");
    TCase *t = scenario_case(suite, "promises", 250);
    tcase_add_loop_test(t, primaries_that_forget_make_no_second_holder, 0, SOUND * PARTS);

    t = scenario_case(suite, "controls", 250);
    tcase_add_loop_test(t, without_the_rule_there_is_a_second_holder, 0,
                        (int)(sizeof(broken) / sizeof(broken[0])));
    return scenario_main(suite);
}
