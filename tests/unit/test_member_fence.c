/*
 * Whether a member remembers its fencing numbers, and from whom it takes them over. Member 0 is the
 * one in question: it restarted into run b, sat out its guard, and counts since 2000 s. The others
 * remember.
 */
#include "fleet_driver.h"

enum {
    ALL = (1 << MEMBERS) - 1
};

static struct redlock__base base;

static void put_base(struct redlock__facts *facts, uint32_t i, char run, int64_t number)
{
    struct redlock__base is = {.number = number};

    name_run(is.run_id, i, run);
    redlock__base_format(&is, facts->base_text);
    facts->given[REDLOCK__FACT_FLOOR] = true;
}

static void put_floor(struct redlock__facts *facts, int64_t floor, int64_t asked_ns)
{
    facts->floor = floor;
    facts->floor_asked_ns = asked_ns;
    facts->given[REDLOCK__FACT_FLOOR] = true;
}

/* What another says at now: floor 100 * i, and 10 * i its base. */
static void tell_floor(uint32_t i)
{
    struct redlock__facts facts = members[i].facts;

    put_floor(&facts, 100 * i, now);
    (void)redlock__member_told(&members[i], REDLOCK__CMD_FLOOR, &facts, now);
}

static void setup_forgot(void)
{
    setup();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct redlock__facts facts = marked_facts_of(i, i == 0 ? 'b' : 'a', i == 0 ? 'b' : 'a');

        put_floor(&facts, i == 0 ? -1 : (int64_t)(50 * i), now);
        if (i != 0)
            put_base(&facts, i, 'a', 10 * i);
        (void)greeted(i, &facts);
        members[i].counts_since_ns = i == 0 ? S(2000) : now;
    }
    settle();
    now = S(2001);
}

static bool wants(uint32_t ready)
{
    return redlock__member_wants_base(members, 0, &fleet, ready, &base);
}

/* ---- remembering -------------------------------------------------------- */

START_TEST(it_remembers_with_a_base_of_this_run)
{
    static const struct {
        char run; /* of the base; 0: there is none, '?': nobody understands it */
        int64_t floor;
        bool remembers;
    } cases[] = {{'b', 0, true}, {'b', 9, true}, {'a', 9, false}, {0, -1, false}, {'?', 9, false}};
    struct redlock__facts facts = members[0].facts;

    if (cases[_i].run == '?')
        snprintf(facts.base_text, sizeof(facts.base_text), "run=b base=-7");
    else if (cases[_i].run != 0)
        put_base(&facts, 0, cases[_i].run, 5);
    put_floor(&facts, cases[_i].floor, now);
    (void)redlock__member_told(&members[0], REDLOCK__CMD_FLOOR, &facts, now);
    ck_assert_int_eq(redlock__member_remembers(&members[0]), cases[_i].remembers);
    for (uint32_t i = 1; i < MEMBERS; i++)
        tell_floor(i);
    /* What nobody understands may be of a later version: left alone. */
    ck_assert_int_eq(wants(ALL), !cases[_i].remembers && cases[_i].run != '?');
}
END_TEST

/* ---- taking over -------------------------------------------------------- */

START_TEST(it_takes_the_largest_of_a_quorum_of_the_others)
{
    for (uint32_t i = 1; i <= 3; i++) {
        ck_assert(!wants(ALL));
        tell_floor(i);
    }
    ck_assert(wants(ALL));
    ck_assert_int_eq(base.number, 300);
    ck_assert_str_eq(base.run_id, members[0].facts.run_id);
    tell_floor(4);
    ck_assert(wants(ALL));
    ck_assert_int_eq(base.number, 400);
}
END_TEST

START_TEST(a_larger_base_counts_as_well)
{
    struct redlock__facts facts = members[2].facts;

    put_base(&facts, 2, 'a', 7777);
    (void)redlock__member_told(&members[2], REDLOCK__CMD_FLOOR, &facts, now);
    for (uint32_t i = 1; i < 4; i++)
        tell_floor(i);
    ck_assert(wants(ALL));
    ck_assert_int_eq(base.number, 7777);
    facts = members[0].facts;
    put_base(&facts, 0, 'a', 8888); /* its own, of the run before */
    (void)redlock__member_told(&members[0], REDLOCK__CMD_FLOOR, &facts, now);
    ck_assert(wants(ALL));
    ck_assert_int_eq(base.number, 8888);
}
END_TEST

START_TEST(only_those_connected_are_heard)
{
    for (uint32_t i = 1; i < MEMBERS; i++)
        tell_floor(i);
    for (uint32_t ready = 0; ready <= ALL; ready++)
        ck_assert_int_eq(wants(ready), redlock__count(ready & ~1u) >= 3);
}
END_TEST

static void does_not_count(void)
{
    members[2].counts_since_ns = REDLOCK__NEVER;
}

static void forgot_its_own(void)
{
    members[2].based = false;
}

static void has_another_base(void)
{
    members[2].base.run_id[0] = 'x';
}

static void was_asked_before_the_guard_was_over(void)
{
    members[2].facts.floor_asked_ns = S(2000) - 1;
}

static void was_asked_before_it_was_known_to_have_forgotten(void)
{
    members[0].forgot_ns = now + 1;
    members[1].facts.floor_asked_ns = members[3].facts.floor_asked_ns = now + 1;
}

static void (*const unheard[])(void) = {does_not_count, forgot_its_own, has_another_base,
                                        was_asked_before_the_guard_was_over,
                                        was_asked_before_it_was_known_to_have_forgotten};

START_TEST(one_that_cannot_vouch_is_not_heard)
{
    for (uint32_t i = 1; i < 4; i++)
        tell_floor(i);
    ck_assert(wants(ALL));
    unheard[_i]();
    ck_assert(!wants(ALL));
}
END_TEST

static void is_not_marked(void)
{
    fleet.marked = false;
}

static void has_no_guard(void)
{
    fleet.guard_ns = 0;
}

static void is_in_its_guard(void)
{
    members[0].counts_since_ns = REDLOCK__NEVER;
}

/* Counted by what this client saw; nobody has written it down yet, or it was flushed since. */
static void has_no_marker_of_its_own(void)
{
    members[0].parsed = false;
}

static void refuses_floor(void)
{
    members[0].facts.given[REDLOCK__FACT_FLOOR] = false;
}

static void refuses_to_recover(void)
{
    members[0].facts.recover_refused = true;
}

static void (*const hindrances[])(void) = {is_not_marked,   has_no_guard,
                                           is_in_its_guard, has_no_marker_of_its_own,
                                           refuses_floor,   refuses_to_recover};

START_TEST(it_takes_nothing_over)
{
    for (uint32_t i = 1; i < MEMBERS; i++)
        tell_floor(i);
    ck_assert(wants(ALL));
    hindrances[_i]();
    ck_assert(!wants(ALL));
}
END_TEST

/* ---- with its data ------------------------------------------------------ */

START_TEST(a_durable_one_needs_nobody)
{
    put_base(&members[0].facts, 0, 'a', 5);
    put_floor(&members[0].facts, 60, now);
    ck_assert(!redlock__member_told(&members[0], REDLOCK__CMD_FLOOR, &members[0].facts, now));
    ck_assert(!wants(1));
    members[0].waived = true;
    ck_assert(wants(1));
    ck_assert_int_eq(base.number, 5); /* the counters are there: only the run is new */
    ck_assert_str_eq(base.run_id, members[0].facts.run_id);
    members[0].based = false; /* something is gone all the same */
    ck_assert(!wants(1));
}
END_TEST

START_TEST(a_single_one_has_nobody_to_ask)
{
    fleet.n = fleet.quorum = 1;
    ck_assert(!wants(1));
    put_base(&members[0].facts, 0, 'b', 5);
    put_floor(&members[0].facts, 60, now);
    (void)redlock__member_told(&members[0], REDLOCK__CMD_FLOOR, &members[0].facts, now);
    ck_assert(redlock__member_remembers(&members[0]));
}
END_TEST

/* A flush, without a restart. */
START_TEST(it_is_noted_when_numbers_are_seen_to_be_gone)
{
    struct redlock__facts facts = members[1].facts;

    ck_assert_int_eq(members[1].forgot_ns, INT64_MIN);
    facts.base_text[0] = '\0';
    put_floor(&facts, -1, now);
    (void)redlock__member_told(&members[1], REDLOCK__CMD_FLOOR, &facts, now);
    ck_assert(!redlock__member_remembers(&members[1]));
    ck_assert_int_eq(members[1].forgot_ns, now);
    now = S(2002);
    (void)redlock__member_told(&members[1], REDLOCK__CMD_FLOOR, &facts, now);
    ck_assert_int_eq(members[1].forgot_ns, S(2001)); /* once */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("member, fencing");
    TCase *t = tcase_create("fencing");

    tcase_add_checked_fixture(t, setup_forgot, NULL);
    tcase_add_loop_test(t, it_remembers_with_a_base_of_this_run, 0, 5);
    tcase_add_test(t, it_takes_the_largest_of_a_quorum_of_the_others);
    tcase_add_test(t, a_larger_base_counts_as_well);
    tcase_add_test(t, only_those_connected_are_heard);
    tcase_add_loop_test(t, one_that_cannot_vouch_is_not_heard, 0, 5);
    tcase_add_loop_test(t, it_takes_nothing_over, 0, 6);
    tcase_add_test(t, a_durable_one_needs_nobody);
    tcase_add_test(t, a_single_one_has_nobody_to_ask);
    tcase_add_test(t, it_is_noted_when_numbers_are_seen_to_be_gone);
    suite_add_tcase(suite, t);
    return run_suite(suite);
}
