/*
 * One lease, told everything by hand: calls, answers and time. What the engine would do is
 * played by a few helpers; the wishes, events and results are what tests look at.
 */
#ifndef LEASE_DRIVER_H
#define LEASE_DRIVER_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lease.h"
#include "pause.h"
#include "validity.h"

enum {
    MAX_N = 5,
    TTL_MS = 1000,
    DRIFT_PPM = 10000
};

static const int64_t t0 = 1000 * REDLOCK__MS; /* when everything begins */

static const struct redlock__lease_config config = {.ttl_ms = TTL_MS};
static struct redlock__lease *lease;
static int64_t wait_ms;   /* of an acquire */
static uint32_t counting; /* in an extend */
static uint32_t node_ppm[MAX_N];
static uint64_t random_state; /* of pauses */
static struct redlock__lease_terms terms;
static struct redlock__grant grant;

static inline void make(uint32_t n)
{
    terms = (struct redlock__lease_terms){
        .retry_base_ms = 10, .retry_cap_ms = 100, .node_ppm = node_ppm};
    lease = calloc(1, redlock__lease_size(n, true));
    ck_assert_ptr_nonnull(lease);
    grant = (struct redlock__grant){.lease = lease};
    redlock__lease_init(lease, n, &config, &terms);
    lease->quorum = (uint8_t)redlock__majority(n);
    for (uint32_t i = 0; i < MAX_N; i++)
        node_ppm[i] = DRIFT_PPM;
    terms.node_ppm = node_ppm;
    wait_ms = 0;
    random_state = 0;
    counting = UINT32_MAX;
}

static inline void setup(void)
{
    make(MAX_N);
}

static inline void teardown(void)
{
    redlock__lease_clear(lease);
    free(lease);
}

static inline int64_t at(int64_t ms)
{
    return t0 + ms * REDLOCK__MS;
}

static inline void answer_round(uint32_t round_no, uint32_t node, redlock_vote vote, int64_t ms)
{
    struct redlock__lease_news news = {.nodes = UINT32_C(1) << node,
                                       .command = lease->round_command,
                                       .round_no = round_no,
                                       .vote = vote,
                                       .text = "",
                                       .random = &random_state};
    if (news.command == REDLOCK__CMD_SET)
        redlock__grant_set_answer(&grant, UINT32_C(1) << node, vote);
    if (news.command == REDLOCK__CMD_EXTEND)
        redlock__grant_extend_answer(&grant, UINT32_C(1) << node, vote);
    redlock__lease_answer(lease, &news, at(ms));
}

static inline void answer(uint32_t node, redlock_vote vote, int64_t ms)
{
    answer_round(lease->round_no, node, vote, ms);
}

static inline void answers(const char *votes, int64_t ms)
{
    for (uint32_t i = 0; votes[i] != '\0'; i++)
        if (votes[i] != '.')
            answer(i,
                   votes[i] == 'o'   ? REDLOCK_VOTE_OURS
                   : votes[i] == 'f' ? REDLOCK_VOTE_FREE
                   : votes[i] == 'x' ? REDLOCK_VOTE_FOREIGN
                   : votes[i] == 'e' ? REDLOCK_VOTE_ERROR
                                     : REDLOCK_VOTE_SILENT,
                   ms);
}

static inline uint32_t take_events(void)
{
    uint32_t events = lease->events;
    lease->events = 0;
    return events;
}

static inline uint32_t take_wants(void)
{
    uint32_t wants = lease->wants;
    lease->wants = 0;
    return wants;
}

static inline void attempt(int64_t ms)
{
    ck_assert(redlock__lease_due(lease, at(ms)));
    grant = (struct redlock__grant){.lease = lease};
    redlock__grant_set(&grant, (UINT32_C(1) << lease->n) - 1, lease->ttl_ms, at(ms));
    redlock__lease_begin_attempt(lease, &grant, at(ms));
}

/* Held since 0 with the votes given, heard at 1 ms. */
static inline void hold(const char *votes)
{
    redlock__lease_start_acquire(lease, wait_ms, at(0));
    attempt(0);
    answers(votes, 1);
    ck_assert_int_eq(lease->state, REDLOCK__LEASE_HELD);
    ck_assert_uint_eq(take_events(), REDLOCK__EVENT_BIT_DONE);
}

static inline void begin_extend(int64_t ms)
{
    ck_assert((take_wants() & REDLOCK__WANT_EXTEND) != 0);
    redlock__lease_begin_extend(lease, DRIFT_PPM, counting, at(ms));
}

static inline void extend(int64_t ttl_ms, int64_t ms)
{
    redlock__lease_start_extend(lease, ttl_ms);
    begin_extend(ms);
}

static inline void tick(int64_t ms)
{
    redlock__lease_handle_deadline(lease, &random_state, at(ms));
}

/* A failed attempt's grant is gone before the next one, as in the engine. */
static inline void abandon(void)
{
    ck_assert((take_wants() & REDLOCK__WANT_ABANDON) != 0);
    lease->grant = NULL;
}

/* As hold(), with all five in the counted set: the grants heard after the verdict count
 * from the first renewal on that sees them again. */
static inline void hold_all(void)
{
    hold("ooo");
    answers("...oo", 1);
    extend(TTL_MS, 2);
    answers("ooooo", 3);
    ck_assert_uint_eq(lease->counted, 0x1f);
    (void)take_events();
}

static inline TCase *add_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, 10);
    tcase_add_checked_fixture(tcase, setup, teardown);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
