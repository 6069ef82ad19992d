/*
 * What members have in common and what they have not: quorum, max_ttl and guard, misfits and who
 * is the odd one, twins; and whether it was our clock that stood still.
 */
#include "fleet_driver.h"

enum {
    ALL = (1u << MEMBERS) - 1
};

static void greet_marked(uint32_t i, const struct redlock__marker *marker)
{
    struct redlock__facts facts = facts_of(i, 'a');
    put_marker(&facts, marker);
    greeted(i, &facts);
}

/* All five, marked; mask: which of them are changed by change(). */
static void greet_all(uint32_t mask, void (*change)(struct redlock__marker *))
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct redlock__marker marker = marker_of(i, 'a');
        if ((mask >> i & 1) != 0)
            change(&marker);
        greet_marked(i, &marker);
    }
    settle();
}

static void nothing(struct redlock__marker *marker)
{
    (void)marker;
}

static void another_fleet(struct redlock__marker *marker)
{
    marker->fleet = UINT64_C(0x00000bad00000000);
}

static void another_n(struct redlock__marker *marker)
{
    marker->n = 4;
}

static void another_quorum(struct redlock__marker *marker)
{
    marker->quorum = 4;
}

static void another_max_ttl(struct redlock__marker *marker)
{
    marker->max_ttl_ms = 30000;
}

static void retired(struct redlock__marker *marker)
{
    another_fleet(marker);
    marker->retired = true;
}

static void quorum_too_small(struct redlock__marker *marker)
{
    marker->quorum = 2;
}

static void quorum_too_large(struct redlock__marker *marker)
{
    marker->quorum = 6;
}

/* ---- common ------------------------------------------------------------- */

static void assert_common(uint32_t quorum, int64_t max_ttl_ms, int64_t guard_ms)
{
    ck_assert_uint_eq(fleet.quorum, quorum);
    ck_assert_int_eq(fleet.max_ttl_ms, max_ttl_ms);
    ck_assert_int_eq(fleet.guard_ns, guard_ms * REDLOCK__MS);
}

START_TEST(unmarked_is_as_asked_or_by_default)
{
    ck_assert(!fleet.marked);
    assert_common(3, 60000, 61602);
    fleet.asked_quorum = 4;
    fleet.asked_max_ttl_ms = 10000;
    settle();
    assert_common(4, 10000, 11102);
    fleet.asked_guard_ms = 0;
    settle();
    assert_common(4, 10000, 0);
    fleet.asked_guard_ms = 123456;
    settle();
    assert_common(4, 10000, 123456);
    fleet.asked_guard_ms = -1;
    fleet.asked_max_ttl_ms = INT64_MAX; /* nothing wraps */
    settle();
    ck_assert_int_eq(fleet.guard_ns, INT64_MAX);
}
END_TEST

static void four_and_half_a_minute(struct redlock__marker *marker)
{
    another_quorum(marker);
    another_max_ttl(marker);
}

START_TEST(what_was_not_asked_for_is_as_marked)
{
    greet_all(ALL, four_and_half_a_minute);
    ck_assert(fleet.marked);
    assert_common(4, 30000, 31302);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(one_marker_is_enough_and_is_remembered)
{
    struct redlock__marker marker = marker_of(4, 'a');
    four_and_half_a_minute(&marker);
    greet_marked(4, &marker);
    settle();
    ck_assert(fleet.marked);
    assert_common(4, 30000, 31302);
    struct redlock__facts facts = facts_of(4, 'a');
    greeted(4, &facts); /* it is gone */
    settle();
    ck_assert(fleet.marked);
    assert_common(4, 30000, 31302);
}
END_TEST

START_TEST(what_was_asked_for_and_is_marked_fits)
{
    fleet.asked_quorum = 4;
    fleet.asked_max_ttl_ms = 30000;
    greet_all(ALL, four_and_half_a_minute);
    assert_common(4, 30000, 31302);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(all_are_seen_or_not)
{
    redlock__fleet_settle(&fleet, members, ALL);
    ck_assert(fleet.all_seen);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        redlock__fleet_settle(&fleet, members, ALL & ~(1u << i));
        ck_assert(!fleet.all_seen);
    }
}
END_TEST

/* ---- misfits ------------------------------------------------------------ */

static const struct {
    void (*change)(struct redlock__marker *);
    uint32_t quorum;
    int64_t max_ttl_ms;
    const char *text;
} differences[] = {
    {another_n, 0, 0, "marked as one of 4 primaries, but this list has 5"},
    {another_quorum, 3, 0, "marked for a quorum of 4, but this client asks for 3"},
    {another_max_ttl, 0, 60000, "marked for max_ttl 30000 ms, but this client asks for 60000 ms"},
    {quorum_too_small, 0, 0, "its marker asks for a quorum of 2 of 5"},
    {quorum_too_large, 0, 0, "its marker asks for a quorum of 6 of 5"},
};

START_TEST(all_that_differ_from_what_was_asked_are_misfits)
{
    fleet.asked_quorum = differences[_i].quorum;
    fleet.asked_max_ttl_ms = differences[_i].max_ttl_ms;
    greet_all(ALL, differences[_i].change);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_kind(i, REDLOCK_STANDING_MISFIT);
        ck_assert_str_eq(standing_of(i).text, differences[_i].text);
    }
    ck_assert_uint_eq(fleet.quorum, 3); /* never less than a majority, nor more than all */
}
END_TEST

static const struct {
    void (*change)(struct redlock__marker *);
    const char *text;
} odd[] = {
    {another_fleet, "of fleet 00000bad, but 10.0.0.1:6379 is of fleet fee10000"},
    {another_quorum, "marked for a quorum of 4, 10.0.0.1:6379 for 3"},
    {another_max_ttl, "marked for max_ttl 30000 ms, 10.0.0.1:6379 for 60000 ms"},
};

START_TEST(the_odd_one_is_the_minority)
{
    greet_all(1u << 3, odd[_i].change);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, i == 3 ? REDLOCK_STANDING_MISFIT : REDLOCK_STANDING_COUNTS);
    ck_assert_str_eq(standing_of(3).text, odd[_i].text);
    ck_assert_str_eq(members[3].address, "10.0.0.4:6379"); /* by which it is told */
    assert_common(3, 60000, 61602);
}
END_TEST

START_TEST(the_odd_one_may_be_the_first)
{
    greet_all(1u << 0, odd[_i].change);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, i == 0 ? REDLOCK_STANDING_MISFIT : REDLOCK_STANDING_COUNTS);
    ck_assert_ptr_nonnull(strstr(standing_of(0).text, "10.0.0.2:6379"));
    assert_common(3, 60000, 61602);
}
END_TEST

START_TEST(who_fits_this_list_alone_fits_nobody)
{
    greet_all(0x1e, another_n);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, REDLOCK_STANDING_MISFIT);
    ck_assert_str_eq(standing_of(0).text,
                     "marked as one of 5 primaries, 10.0.0.2:6379 as one of 4");
    ck_assert_uint_eq(fleet.quorum, 3);
}
END_TEST

START_TEST(of_two_fleets_the_larger_one_is_ours)
{
    greet_all(_i == 0 ? 0x13 : 0x03, another_fleet);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        bool ours = (i < 2 || (i == 4 && _i == 0)) == (_i == 0);
        assert_kind(i, ours ? REDLOCK_STANDING_COUNTS : REDLOCK_STANDING_MISFIT);
    }
}
END_TEST

START_TEST(of_equals_the_first_is_ours)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct redlock__marker marker = marker_of(i, 'a');
        if (i == 0 || i == 3)
            another_fleet(&marker);
        greet_marked(i, &marker);
    }
    settle();
    for (uint32_t i = 0; i < 4; i++)
        assert_kind(i, i == 0 || i == 3 ? REDLOCK_STANDING_COUNTS : REDLOCK_STANDING_MISFIT);
    ck_assert_uint_eq(fleet.marker.fleet, UINT64_C(0x00000bad00000000));
}
END_TEST

START_TEST(a_misfit_that_was_marked_anew_fits)
{
    greet_all(1u << 3, another_fleet);
    assert_kind(3, REDLOCK_STANDING_MISFIT);
    struct redlock__marker marker = marker_of(3, 'a');
    greet_marked(3, &marker);
    settle();
    assert_kind(3, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(the_retired_have_no_say)
{
    greet_all(_i == 0 ? 0x07 : 0x01, retired);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, i == 0 || (i < 3 && _i == 0) ? REDLOCK_STANDING_RETIRED
                                                    : REDLOCK_STANDING_COUNTS);
    ck_assert_uint_eq(fleet.marker.fleet, marker_of(0, 'a').fleet);
}
END_TEST

START_TEST(only_retired_ones_make_no_fleet)
{
    greet_all(ALL, retired);
    ck_assert(!fleet.marked);
}
END_TEST

START_TEST(an_unknown_text_is_a_misfit_and_has_no_say)
{
    greet_all(0, nothing);
    for (uint32_t i = 0; i < 3; i++) {
        struct redlock__facts facts = facts_of(i, 'a');
        facts.marked = true;
        strcpy(facts.marker_text, "redlock=2 of a later version");
        greeted(i, &facts);
    }
    settle();
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, i < 3 ? REDLOCK_STANDING_MISFIT : REDLOCK_STANDING_COUNTS);
    ck_assert_str_eq(standing_of(0).text,
                     "its key redlock:fleet can't be understood: of a later version?");
}
END_TEST

/* ---- twins -------------------------------------------------------------- */

static void greet_run(uint32_t i, uint32_t run_of)
{
    struct redlock__facts facts = marked_facts_of(run_of, 'a', 'a');
    greeted(i, &facts);
}

START_TEST(one_server_has_one_vote)
{
    greet_all(0, nothing);
    greet_run(3, 1);
    greet_run(4, 1);
    settle();
    assert_kind(1, REDLOCK_STANDING_COUNTS);
    assert_kind(3, REDLOCK_STANDING_TWIN);
    assert_kind(4, REDLOCK_STANDING_TWIN);
    ck_assert_str_eq(standing_of(4).text,
                     "the same server as 10.0.0.2:6379 (run id 000000000000...)");
}
END_TEST

/* One that isn't connected may be another server by now. */
START_TEST(only_the_connected_are_twins)
{
    greet_all(0, nothing);
    greet_run(3, 1);
    redlock__fleet_settle(&fleet, members, ALL & ~(1u << 1));
    assert_kind(3, REDLOCK_STANDING_COUNTS);
    redlock__fleet_settle(&fleet, members, ALL & ~(1u << 3));
    assert_kind(3, REDLOCK_STANDING_COUNTS);
    settle();
    assert_kind(3, REDLOCK_STANDING_TWIN);
}
END_TEST

START_TEST(those_who_do_not_say_are_no_twins)
{
    fleet.asked_guard_ms = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct redlock__facts facts = facts_of(i, 'a');
        facts.run_id[0] = '\0';
        facts.given[REDLOCK__FACT_SERVER] = false;
        greeted(i, &facts);
    }
    settle();
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_kind(i, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* ---- our own clock ------------------------------------------------------ */

static const int64_t recent_ns = S(5);

/* By 30 s +- 2 ms, a second ago. */
static void all_stepped(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct redlock__clock *clock = &members[i].clock;
        clock->samples = 2;
        clock->step_least_ns = S(30) - 2 * REDLOCK__MS;
        clock->step_most_ns = S(30) + 2 * REDLOCK__MS;
        clock->step_seen_ns = now - S(1);
    }
}

static bool stood_still(uint32_t ready)
{
    return redlock__fleet_stood_still(&fleet, members, ready, recent_ns, now);
}

static void move_step(uint32_t i, int64_t by_ns)
{
    members[i].clock.step_least_ns += by_ns;
    members[i].clock.step_most_ns += by_ns;
}

START_TEST(all_clocks_at_once_is_ours)
{
    all_stepped();
    ck_assert(stood_still(ALL));
    move_step(1, 4 * REDLOCK__MS); /* the intervals still touch */
    ck_assert(stood_still(ALL));
}
END_TEST

START_TEST(one_that_did_not_step_tells_on_the_others)
{
    all_stepped();
    members[2].clock.step_seen_ns = 0;
    ck_assert(!stood_still(ALL));
    ck_assert(stood_still(ALL & ~(1u << 2))); /* if it is connected */
    members[2].clock.samples = 1;             /* and measured */
    ck_assert(stood_still(ALL));
}
END_TEST

START_TEST(fewer_than_a_quorum_tell_nothing)
{
    all_stepped();
    ck_assert(stood_still(0x7));
    ck_assert(!stood_still(0x3));
    ck_assert(!stood_still(0));
    members[0].clock.samples = 1;
    ck_assert(!stood_still(0x7));
    fleet.quorum = 2;
    ck_assert(stood_still(0x7));
}
END_TEST

START_TEST(different_amounts_are_not_ours)
{
    all_stepped();
    move_step(1, 4 * REDLOCK__MS + 1);
    ck_assert(!stood_still(ALL));
    all_stepped();
    move_step(0, 3 * REDLOCK__MS); /* each pair but one still meets */
    move_step(1, -3 * REDLOCK__MS);
    ck_assert(!stood_still(ALL));
}
END_TEST

START_TEST(long_ago_is_another_time)
{
    all_stepped();
    now += S(4);
    ck_assert(stood_still(ALL));
    now++;
    ck_assert(!stood_still(ALL));
    for (uint32_t i = 1; i < MEMBERS; i++)
        members[i].clock.step_seen_ns = now;
    ck_assert(!stood_still(ALL)); /* one of them */
}
END_TEST

START_TEST(backward_or_nowhere_is_not_standing_still)
{
    all_stepped();
    for (uint32_t i = 0; i < MEMBERS; i++)
        move_step(i, -S(60));
    ck_assert(!stood_still(ALL));
    all_stepped();
    move_step(3, 2 * REDLOCK__MS - S(30)); /* from 0 */
    members[3].clock.step_most_ns = S(31);
    ck_assert(stood_still(ALL));
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].clock.step_least_ns = 0;
    ck_assert(!stood_still(ALL));
}
END_TEST

/* ------------------------------------------------------------------------- */

static void add_common(TCase *t)
{
    tcase_add_test(t, unmarked_is_as_asked_or_by_default);
    tcase_add_test(t, what_was_not_asked_for_is_as_marked);
    tcase_add_test(t, one_marker_is_enough_and_is_remembered);
    tcase_add_test(t, what_was_asked_for_and_is_marked_fits);
    tcase_add_test(t, all_are_seen_or_not);
}

static void add_misfits(TCase *t)
{
    tcase_add_loop_test(t, all_that_differ_from_what_was_asked_are_misfits, 0, 5);
    tcase_add_loop_test(t, the_odd_one_is_the_minority, 0, 3);
    tcase_add_loop_test(t, the_odd_one_may_be_the_first, 0, 3);
    tcase_add_test(t, who_fits_this_list_alone_fits_nobody);
    tcase_add_loop_test(t, of_two_fleets_the_larger_one_is_ours, 0, 2);
    tcase_add_test(t, of_equals_the_first_is_ours);
    tcase_add_test(t, a_misfit_that_was_marked_anew_fits);
    tcase_add_loop_test(t, the_retired_have_no_say, 0, 2);
    tcase_add_test(t, only_retired_ones_make_no_fleet);
    tcase_add_test(t, an_unknown_text_is_a_misfit_and_has_no_say);
    tcase_add_test(t, one_server_has_one_vote);
    tcase_add_test(t, only_the_connected_are_twins);
    tcase_add_test(t, those_who_do_not_say_are_no_twins);
}

static void add_still(TCase *t)
{
    tcase_add_test(t, all_clocks_at_once_is_ours);
    tcase_add_test(t, one_that_did_not_step_tells_on_the_others);
    tcase_add_test(t, fewer_than_a_quorum_tell_nothing);
    tcase_add_test(t, different_amounts_are_not_ours);
    tcase_add_test(t, long_ago_is_another_time);
    tcase_add_test(t, backward_or_nowhere_is_not_standing_still);
}

static void add_case(Suite *suite, const char *name, void (*add)(TCase *))
{
    TCase *tcase = tcase_create(name);
    tcase_add_checked_fixture(tcase, setup, NULL);
    add(tcase);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("fleet");
    add_case(suite, "common", add_common);
    add_case(suite, "misfits", add_misfits);
    add_case(suite, "still", add_still);
    return run_suite(suite);
}
