/*
 * Members of a fleet told by hand what primaries say: facts, time, steps. For the tests of
 * member.c and fleet.c.
 */
#ifndef FLEET_DRIVER_H
#define FLEET_DRIVER_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member.h"
#include "validity.h"

#define S(n) ((n)*INT64_C(1000) * REDLOCK__MS)

enum {
    MEMBERS = 5
};

/* Of the default max_ttl: 60 s, 1 %, 2 ms, 1 s; 62 s in texts. */
static const int64_t guard_ns = INT64_C(61602) * REDLOCK__MS;

static struct redlock__fleet fleet;
static struct redlock__member members[MEMBERS];
static int64_t now;

/* Run ids differ in their last letter: runs 'a' and 'b' of primary 2 are 2a and 2b. */
static inline void name_run(char run_id[REDLOCK_RUN_ID_LEN], uint32_t i, char run)
{
    snprintf(run_id, REDLOCK_RUN_ID_LEN, "00000000000000000000000000000000000000%u%c", i + 1, run);
}

/* Of run `run`, up for long, a plain primary without replicas and without a marker. */
static inline struct redlock__facts facts_of(uint32_t i, char run)
{
    struct redlock__facts facts = {.uptime_s = 1000000, .uptime_read_ns = now, .second_offset = -1};
    name_run(facts.run_id, i, run);
    facts.given[REDLOCK__FACT_SERVER] = facts.given[REDLOCK__FACT_REPLICATION] = true;
    facts.given[REDLOCK__FACT_SETTINGS] = facts.given[REDLOCK__FACT_MARKER] = true;
    return facts;
}

static inline struct redlock__marker marker_of(uint32_t i, char run)
{
    struct redlock__marker marker = {.second_offset = -1,
                                     .fleet = UINT64_C(0xfee1000000000001),
                                     .member = i + 1,
                                     .n = MEMBERS,
                                     .quorum = 3,
                                     .max_ttl_ms = 60000};
    name_run(marker.run_id, i, run);
    return marker;
}

static inline void put_marker(struct redlock__facts *facts, const struct redlock__marker *marker)
{
    facts->given[REDLOCK__FACT_MARKER] = true;
    facts->marked = true;
    redlock__marker_format(marker, facts->marker_text);
}

/* Of run `run`, with the marker of run `marked`. */
static inline struct redlock__facts marked_facts_of(uint32_t i, char run, char marked)
{
    struct redlock__facts facts = facts_of(i, run);
    struct redlock__marker marker = marker_of(i, marked);
    put_marker(&facts, &marker);
    return facts;
}

static inline bool greeted(uint32_t i, const struct redlock__facts *facts)
{
    return redlock__member_greeted(&members[i], facts, now);
}

static inline void settle(void)
{
    redlock__fleet_settle(&fleet, members, (1u << MEMBERS) - 1);
}

static inline struct redlock__standing standing_of(uint32_t i)
{
    return redlock__member_standing(&members[i], &fleet, now);
}

static inline void assert_kind(uint32_t i, redlock_standing kind)
{
    struct redlock__standing standing = standing_of(i);
    ck_assert_msg(standing.kind == kind, "kind %d, not %d: %s", (int)standing.kind, (int)kind,
                  standing.text);
    ck_assert_int_eq(standing.counts,
                     kind == REDLOCK_STANDING_COUNTS || kind == REDLOCK_STANDING_UNCONFIRMED);
}

static inline void assert_says(uint32_t i, const char *part)
{
    struct redlock__standing standing = standing_of(i);
    ck_assert_msg(strstr(standing.text, part) != NULL, "'%s' is not in '%s'", part, standing.text);
}

static inline void setup(void)
{
    now = S(1000);
    fleet = (struct redlock__fleet){.n = MEMBERS, .drift_ppm = 10000, .asked_guard_ms = -1};
    for (uint32_t i = 0; i < MEMBERS; i++) {
        char address[32];
        snprintf(address, sizeof(address), "10.0.0.%u:6379", i + 1);
        redlock__member_init(&members[i], i + 1, address);
    }
    settle();
}

/* Members 1 .. 4 marked, each for the run it is in; 0 is left to the test. */
static inline void mark_others(void)
{
    for (uint32_t i = 1; i < MEMBERS; i++) {
        struct redlock__facts facts = marked_facts_of(i, 'a', 'a');
        greeted(i, &facts);
    }
    settle();
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
