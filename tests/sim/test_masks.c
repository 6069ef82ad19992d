/*
 * Every state in which five primaries can be when a lease is extended or released: ours,
 * missing, foreign or unreachable on each, 1024 of them, the unreachable ones in three ways; by
 * script, and on servers with native commands.
 * What must come of it is computed here from the rules in redlock.h.
 */
#include <string.h>

#include "scenario.h"
#include "validity.h"

enum {
    N = 5,
    QUORUM = 3,
    MASKS = 1024,
    PARTS = 16
};
enum {
    OURS,
    MISSING,
    FOREIGN,
    UNREACHABLE
};
enum {
    FROZEN,
    BLACK_HOLE,
    STOPPED,
    WAYS
};

/* kind: of servers, sim_server_kind(); the last is one of each of the others. */
enum {
    KINDS = 5
};

static struct sim *world(uint32_t mask, int way, uint32_t kind)
{
    struct sim_config config = sim_defaults(N, 1, scenario_seed(mask * WAYS + (uint32_t)way));
    struct sim *sim;

    if (kind != 0)
        config.native = sim_server_kind(kind);
    sim = sim_new(&config);
    for (uint32_t i = 0; i < N && kind == KINDS - 1; i++)
        sim->servers[i].native = sim_server_kind(i);
    scenario_connect(sim);
    return sim;
}

static uint32_t state_of(uint32_t mask, uint32_t node)
{
    return mask >> (2 * node) & 3;
}

static uint32_t nodes_in(uint32_t mask, uint32_t state)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < N; i++)
        if (state_of(mask, i) == state)
            nodes |= UINT32_C(1) << i;
    return nodes;
}

static void make_unreachable(struct sim *sim, uint32_t node, int way)
{
    if (way == FROZEN)
        sim_freeze_server(sim, node);
    else if (way == BLACK_HOLE)
        sim_black_hole(sim, 0, (int)node, true);
    else
        sim_stop_server(sim, node);
}

static struct sim_lock *prepare(struct sim *sim, uint32_t mask, int way)
{
    struct sim_lock *lock = scenario_hold_all(sim, 20000);
    sim->checks &= ~(uint32_t)SIM_CHECK_VALIDITY; /* primaries forget */
    for (uint32_t i = 0; i < N; i++) {
        switch (state_of(mask, i)) {
        case OURS:
            break;
        case MISSING:
            sim_vanish(sim, i, "k");
            break;
        case FOREIGN:
            sim_set_foreign(sim, i, "k", 600000);
            break;
        default:
            make_unreachable(sim, i, way);
            break;
        }
    }
    sim_run(sim, 2 * SIM_MS);
    return lock;
}

static void check_foreign(struct sim *sim, uint32_t mask)
{
    for (uint32_t i = 0; i < N; i++) {
        if (state_of(mask, i) != FOREIGN)
            continue;
        const char *value = sim_value(sim, i, "k");
        if (value == NULL || strcmp(value, "somebody-else") != 0 || sim_pttl(sim, i, "k") < 580000)
            ck_abort_msg("mask %#x: the foreign key on %u was touched", mask, i);
    }
}

/* ---- extend ------------------------------------------------------------- */

/* A quorum ours: extended. Else, fewer than a quorum that could still be ours: lost. (The
 * call may return NO_QUORUM a moment before, when the round has failed and the answer that
 * makes it a loss is still to come. Then the event tells.) */
static int expected_extend(uint32_t mask)
{
    uint32_t ours = redlock__count(nodes_in(mask, OURS));
    uint32_t unknown = redlock__count(nodes_in(mask, UNREACHABLE));
    if (ours >= QUORUM)
        return REDLOCK_OK;
    return ours + unknown < QUORUM ? REDLOCK_LOST : REDLOCK_NO_QUORUM;
}

/* Where our key must be once all reachable primaries did what they were told. */
static uint32_t expected_keys(uint32_t mask, int result)
{
    if (result == REDLOCK_LOST)
        return nodes_in(mask, UNREACHABLE);
    if (result == REDLOCK_NO_QUORUM)
        return nodes_in(mask, OURS) | nodes_in(mask, UNREACHABLE);
    return nodes_in(mask, OURS) | nodes_in(mask, MISSING) | nodes_in(mask, UNREACHABLE);
}

static void extend_in(uint32_t mask, int way, uint32_t kind)
{
    struct sim *sim = world(mask, way, kind);
    struct sim_lock *lock = prepare(sim, mask, way);
    char token[64];
    strncpy(token, sim_token(lock), sizeof(token) - 1);
    token[sizeof(token) - 1] = '\0';
    int64_t before_ns = lock->deadline_ns;
    int result = sim_extend_now(sim, lock, 0);
    int expected = expected_extend(mask);
    sim_run(sim, 20 * SIM_MS);

    uint32_t keys = 0;
    for (uint32_t i = 0; i < N; i++) {
        const char *value = sim_value(sim, i, "k");
        if (value != NULL && strcmp(value, token) == 0)
            keys |= UINT32_C(1) << i;
    }
    bool fits = result == expected || (expected == REDLOCK_LOST && result == REDLOCK_NO_QUORUM);
    if (!fits || keys != expected_keys(mask, expected))
        ck_abort_msg("mask %#x, way %d: result %d, expected %d; keys %#x, expected %#x", mask, way,
                     result, expected, keys, expected_keys(mask, expected));
    ck_assert_int_eq(sim_held(sim, lock), expected != REDLOCK_LOST);
    ck_assert_int_eq(lock->lost, expected == REDLOCK_LOST);
    if (expected == REDLOCK_OK)
        ck_assert_int_gt(lock->deadline_ns, before_ns);
    else
        ck_assert_int_eq(lock->deadline_ns, before_ns); /* the old one stands */
    check_foreign(sim, mask);
    sim_forget(sim, lock, true);
    sim->checks &= ~(uint32_t)SIM_CHECK_ORPHANS;
    scenario_end(sim);
}

START_TEST(extending_gives_the_exact_result_in_every_state)
{
    for (uint32_t mask = (uint32_t)_i; mask < MASKS; mask += PARTS)
        for (int way = 0; way < WAYS; way++)
            extend_in(mask, way, 0);
    for (uint32_t mask = (uint32_t)_i; mask < MASKS; mask += PARTS)
        for (uint32_t kind = 1; kind < KINDS; kind++)
            extend_in(mask, (int)((mask / PARTS + kind) % WAYS), kind);
}
END_TEST

/* ---- release ------------------------------------------------------------ */

/* "0 if a majority still had it; else what was found." Where some are missing and some are
 * foreign it depends on who answers first. */
static bool fits_release(uint32_t mask, int result)
{
    uint32_t ours = redlock__count(nodes_in(mask, OURS));
    uint32_t missing = redlock__count(nodes_in(mask, MISSING));
    uint32_t foreign = redlock__count(nodes_in(mask, FOREIGN));
    if (ours >= QUORUM)
        return result == REDLOCK_OK;
    if (ours + missing + foreign < QUORUM)
        return result == REDLOCK_NO_QUORUM;
    if (foreign == 0)
        return result == REDLOCK_EXPIRED;
    return result == REDLOCK_LOST || (result == REDLOCK_EXPIRED && ours + missing >= QUORUM);
}

static void release_in(uint32_t mask, int way, uint32_t kind)
{
    struct sim *sim = world(mask, way, kind);
    struct sim_lock *lock = prepare(sim, mask, way);
    int result = sim_release_now(sim, lock);
    sim_run(sim, 5 * SIM_MS);
    uint32_t left = sim_present(sim, "k");
    uint32_t expected = nodes_in(mask, FOREIGN) | nodes_in(mask, UNREACHABLE);
    if (!fits_release(mask, result) || left != expected)
        ck_abort_msg("mask %#x, way %d: result %d; keys %#x, expected %#x", mask, way, result, left,
                     expected);
    check_foreign(sim, mask);
    /* The unreachable ones hear of it when they are back. */
    sim_heal(sim);
    sim_run(sim, 5 * SIM_S);
    if (sim_present(sim, "k") != nodes_in(mask, FOREIGN))
        ck_abort_msg("mask %#x, way %d: keys %#x are left", mask, way, sim_present(sim, "k"));
    check_foreign(sim, mask);
    scenario_end(sim);
}

START_TEST(releasing_gives_the_exact_result_in_every_state_and_reaches_everybody)
{
    for (uint32_t mask = (uint32_t)_i; mask < MASKS; mask += PARTS)
        for (int way = 0; way < WAYS; way++)
            release_in(mask, way, 0);
    for (uint32_t mask = (uint32_t)_i; mask < MASKS; mask += PARTS)
        for (uint32_t kind = 1; kind < KINDS; kind++)
            release_in(mask, (int)((mask / PARTS + kind) % WAYS), kind);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("masks");
    TCase *t = scenario_case(suite, "five primaries", 60);
    tcase_add_loop_test(t, extending_gives_the_exact_result_in_every_state, 0, PARTS);
    tcase_add_loop_test(t, releasing_gives_the_exact_result_in_every_state_and_reaches_everybody, 0,
                        PARTS);
    return scenario_main(suite);
}
