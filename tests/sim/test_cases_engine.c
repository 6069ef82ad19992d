/*
 * What users of other lock clients reported, as far as it takes many worlds or much time: splits of
 * votes in which somebody might wait for ever, and waiting that grows.
 *
 * Memory is counted with the linker's --wrap=malloc,calloc,realloc,free: the bytes that this
 * program has and didn't give back, other than those of shared libraries.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"
#include "validity.h"

enum {
    MAX_N = SIM_MAX_NODES
};

/* ---- every split of votes ----------------------------------------------- */

struct split {
    uint32_t n, free, foreign; /* the others are silent */
};

/* The masks of who is foreign and who is silent; `turn` says who is first. */
static uint32_t mask_of(const struct split *split, uint32_t from, uint32_t to, uint32_t turn)
{
    uint32_t mask = 0;
    for (uint32_t i = from; i < to; i++)
        mask |= UINT32_C(1) << (i + turn) % split->n;
    return mask;
}

static int expected(const struct split *split)
{
    uint32_t quorum = split->n / 2 + 1;
    if (split->free >= quorum)
        return REDLOCK_OK;
    return split->free + split->foreign >= quorum ? REDLOCK_BUSY : REDLOCK_NO_QUORUM;
}

/* An attempt ends in time (the checkers see to that), with the right result, and keeps nothing. */
static void play(const struct split *split, uint32_t turn)
{
    struct sim *sim = scenario_new(split->n, 1, 1700 + turn);
    uint32_t answering = split->free + split->foreign;
    uint32_t foreign = mask_of(split, split->free, answering, turn);
    uint32_t silent = mask_of(split, answering, split->n, turn);
    for (uint32_t i = 0; i < split->n; i++) {
        if ((foreign >> i & 1) != 0)
            sim_set_foreign(sim, i, "k", 600000);
        if ((silent >> i & 1) != 0)
            sim_freeze_server(sim, i);
    }
    int result = sim_try(sim, 0, "k", 20000);
    sim_heal(sim);
    sim_run(sim, 5 * SIM_S);
    if (result != expected(split) || sim_present(sim, "k") != foreign)
        ck_abort_msg("%u of %u free, %u foreign: result %d, expected %d; keys %#x, foreign %#x",
                     split->free, split->n, split->foreign, result, expected(split),
                     sim_present(sim, "k"), foreign);
    scenario_end(sim);
}

START_TEST(every_split_of_one_to_nine_primaries_ends_with_its_result)
{
    struct split split = {.n = (uint32_t)_i};
    for (split.free = 0; split.free <= split.n; split.free++)
        for (split.foreign = 0; split.free + split.foreign <= split.n; split.foreign++)
            for (uint32_t turn = 0; turn < split.n; turn += 2)
                play(&split, turn);
}
END_TEST

/* ---- waiting without an end --------------------------------------------- */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);

static int64_t bytes; /* in use */

static int64_t size_of(void *memory)
{
    return memory == NULL ? 0 : (int64_t)malloc_usable_size(memory);
}

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);
    bytes += size_of(memory);
    return memory;
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = __real_calloc(count, size);
    bytes += size_of(memory);
    return memory;
}

void *__wrap_realloc(void *old, size_t size)
{
    int64_t before = size_of(old);
    void *memory = __real_realloc(old, size);
    if (memory != NULL)
        bytes += size_of(memory) - before;
    return memory;
}

void __wrap_free(void *memory)
{
    bytes -= size_of(memory);
    __real_free(memory);
}

/* The least that is in use in a minute, between attempts. */
static int64_t least_bytes(struct sim *sim)
{
    int64_t least = INT64_MAX;
    for (int k = 0; k < 60; k++) {
        sim_run(sim, SIM_S);
        least = redlock__min(least, bytes);
    }
    return least;
}

/* 0: the key is another's for ever, and looked at again and again; 1: three primaries are away for
 * ever, and found to be so again and again; 2: as 0, where only attempts can tell. */
START_TEST(endless_waiting_takes_no_more_memory)
{
    struct sim *sim = scenario_new(5, 1, 1790);
    struct redlock__lease_config config = sim_lock_config(10000);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    for (uint32_t i = 0; i < 3; i++) {
        if (_i == 1)
            sim_stop_server(sim, i);
        else
            sim_set_foreign(sim, i, "k", 0);
        if (_i == 2)
            sim_error(sim, i, SIM_PTTL, "NOPERM no permissions to run it");
    }
    struct sim_lock *lock = sim_acquire(sim, 0, "k", &config, NULL);
    int64_t before = least_bytes(sim);
    uint64_t attempts = sim_stats(sim, 0).attempts, looks = sim_count(sim, SIM_ALL, SIM_PTTL);
    sim_run(sim, 600 * SIM_S);
    ck_assert_int_gt(before, 0);
    ck_assert_int_le(least_bytes(sim), before + 1024); /* a few bytes an attempt would be more */
    if (_i == 0)
        ck_assert_uint_gt(sim_count(sim, SIM_ALL, SIM_PTTL), looks + 3 * 300);
    else
        ck_assert_uint_gt(sim_stats(sim, 0).attempts, attempts + 300);
    ck_assert(lock->running);
    sim_cancel(sim, lock);
    sim_forget(sim, lock, false);
    sim_heal(sim);
    sim_run(sim, 5 * SIM_S);
    scenario_end(sim);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cases");
    tcase_add_loop_test(scenario_case(suite, "splits", 60),
                        every_split_of_one_to_nine_primaries_ends_with_its_result, 1, MAX_N + 1);
    tcase_add_loop_test(scenario_case(suite, "waiting", 60), endless_waiting_takes_no_more_memory,
                        0, 3);
    return scenario_main(suite);
}
