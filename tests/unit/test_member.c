/*
 * Whether a primary's vote counts: each kind of evidence, what breaks it, what it says to people,
 * and when its marker should say something else. Member 0 is the one in question; the others are
 * marked where the fleet is.
 */
#include "fleet_driver.h"

static struct redlock__facts facts; /* what member 0 said last */

static bool told(enum redlock__command command)
{
    return redlock__member_told(&members[0], command, &facts, now);
}

static bool told_replicas(int64_t replicas)
{
    facts.replicas = replicas;
    facts.given[REDLOCK__FACT_REPLICATION] = true;
    return told(REDLOCK__CMD_INFO_REPLICATION);
}

/* The primary's key says so: written since_s ago. */
static bool told_seen(const char *value, int64_t since_s)
{
    facts.given[REDLOCK__FACT_SEEN] = true;
    facts.refusal[REDLOCK__FACT_SEEN][0] = '\0';
    snprintf(facts.seen, sizeof(facts.seen), "%s", value);
    facts.seen_age_us = since_s * 1000000;
    facts.seen_asked_ns = now;
    return told(REDLOCK__CMD_SEEN);
}

static bool told_no_marker(void)
{
    facts.marked = false;
    facts.marker_text[0] = '\0';
    facts.given[REDLOCK__FACT_MARKER] = true;
    return told(REDLOCK__CMD_MARKER);
}

static bool told_marker(const struct redlock__marker *marker)
{
    put_marker(&facts, marker);
    return told(REDLOCK__CMD_MARKER);
}

static bool wants(struct redlock__marker *marker)
{
    return redlock__member_wants_mark(&members[0], &fleet, now, marker);
}

static bool on_probation(void)
{
    return redlock__member_on_probation(&members[0], &fleet, now);
}

/* Member 0 restarted into run b, its marker still names run a. */
static void restarted(void)
{
    mark_others();
    facts = marked_facts_of(0, 'b', 'a');
    facts.uptime_s = 5;
    ck_assert(!greeted(0, &facts));
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
}

static void durable_settings(void)
{
    facts.given[REDLOCK__FACT_SETTINGS] = facts.durable = true;
}

/* The same, but its marker says durable and its settings still do. */
static void came_back_durable(void)
{
    struct redlock__marker marker = marker_of(0, 'a');
    mark_others();
    marker.durable = true;
    facts = facts_of(0, 'b');
    durable_settings();
    put_marker(&facts, &marker);
}

/* ---- what it is --------------------------------------------------------- */

static void is_not_greeted(void)
{
    members[0].greeted = false;
}

static void is_replica(void)
{
    facts.replica = true;
}

static void is_twin(void)
{
    name_run(facts.run_id, 3, 'a');
}

static void is_misfit(void)
{
    snprintf(facts.marker_text, sizeof(facts.marker_text), "redlock=2 anything");
}

static void is_retired(void)
{
    struct redlock__marker marker = marker_of(0, 'a');
    marker.retired = true;
    put_marker(&facts, &marker);
}

static void refuse(enum redlock__fact fact)
{
    facts.given[fact] = false;
    snprintf(facts.refusal[fact], sizeof(facts.refusal[fact]), "NOPERM this user may not");
}

static void refuses_server(void)
{
    facts.run_id[0] = '\0';
    refuse(REDLOCK__FACT_SERVER);
}

static void refuses_replication(void)
{
    refuse(REDLOCK__FACT_REPLICATION);
}

static void refuses_marker(void)
{
    facts.marked = false;
    refuse(REDLOCK__FACT_MARKER);
}

static void is_fine(void)
{
}

static void is_without_marker(void)
{
    facts.marked = false;
    facts.marker_text[0] = '\0';
}

static const struct {
    void (*change)(void);
    redlock_standing kind;
    bool by_waiting;
    const char *says;
} kinds[] = {
    {is_not_greeted, REDLOCK_STANDING_UNKNOWN, false, "not connected yet"},
    {is_replica, REDLOCK_STANDING_REPLICA, false, "list that one, and only primaries"},
    {is_twin, REDLOCK_STANDING_TWIN, false,
     "the same server as 10.0.0.4:6379 (run id 000000000000...)"},
    {is_misfit, REDLOCK_STANDING_MISFIT, false, "can't be understood: of a later version?"},
    {is_retired, REDLOCK_STANDING_RETIRED, false, "another primary has its place"},
    {refuses_server, REDLOCK_STANDING_UNREADABLE, false,
     "grant +info: without it its vote can't count (NOPERM this user may not)"},
    {refuses_replication, REDLOCK_STANDING_UNREADABLE, false, "grant +info: "},
    {refuses_marker, REDLOCK_STANDING_UNREADABLE, false, "grant +get ~redlock:*: "},
    {is_fine, REDLOCK_STANDING_COUNTS, true, "marked: it has not restarted since"},
    {is_without_marker, REDLOCK_STANDING_GUARD, true,
     "has no marker: it is new, or lost its data; counts in 62 s"},
};

static void become(size_t kind)
{
    for (uint32_t i = MEMBERS; i-- > 1;) { /* so that the later one is the twin */
        struct redlock__facts others = marked_facts_of(i, 'a', 'a');
        greeted(i, &others);
    }
    facts = marked_facts_of(0, 'a', 'a');
    kinds[kind].change();
    greeted(0, &facts);
    if (kinds[kind].change == is_not_greeted)
        is_not_greeted();
    settle();
    if (kinds[kind].kind == REDLOCK_STANDING_TWIN) /* the first in the list has the vote */
        members[0].twin = &members[3];
}

START_TEST(each_kind_says_what_to_do)
{
    become((size_t)_i);
    struct redlock__standing standing = standing_of(0);
    assert_kind(0, kinds[_i].kind);
    ck_assert_int_eq(standing.counts_at_ns != REDLOCK__NEVER, kinds[_i].by_waiting);
    assert_says(0, kinds[_i].says);
}
END_TEST

/* It says nothing of what a primary is; only what it may remember is trusted. */
START_TEST(without_a_guard_all_but_strangers_count)
{
    fleet.asked_guard_ms = 0;
    become((size_t)_i);
    redlock_standing kind = kinds[_i].kind;
    if (kind == REDLOCK_STANDING_UNREADABLE || kind == REDLOCK_STANDING_GUARD)
        kind = REDLOCK_STANDING_COUNTS;
    assert_kind(0, kind);
    if (kinds[_i].kind == REDLOCK_STANDING_UNREADABLE)
        assert_says(0, "without it nobody checks who this is");
    if (kinds[_i].kind == REDLOCK_STANDING_GUARD)
        assert_says(0, "the restart guard is off");
    struct redlock__marker marker;
    ck_assert(!wants(&marker));
    ck_assert(!on_probation());
}
END_TEST

START_TEST(without_a_guard_a_step_bars_nobody)
{
    fleet.asked_guard_ms = 0;
    become(8);
    redlock__member_bar(&members[0], now);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* ---- this run, another run ---------------------------------------------- */

START_TEST(a_marker_of_this_run_counts_at_once)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    facts.uptime_s = 0;
    ck_assert(!greeted(0, &facts)); /* nothing was granted to this client */
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    ck_assert(!on_probation());
    now += S(1);
    ck_assert(!greeted(0, &facts)); /* a new connection to the same run */
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(a_marker_of_another_run_does_not)
{
    restarted();
    assert_says(0, "restarted 5 s ago and may have forgotten a lease: counts in 62 s");
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    ck_assert(on_probation());
    now += S(10);
    assert_says(0, "restarted 15 s ago and may have forgotten a lease: counts in 52 s");
}
END_TEST

START_TEST(a_restart_seen_by_this_client_forgets)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    now += S(1);
    facts = marked_facts_of(0, 'b', 'a');
    ck_assert(greeted(0, &facts));
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += S(1);
    ck_assert(!greeted(0, &facts)); /* once */
    assert_kind(0, REDLOCK_STANDING_GUARD);
}
END_TEST

START_TEST(what_was_said_before_its_greeting_is_not_taken_in)
{
    restarted();
    struct redlock__facts newer = marked_facts_of(0, 'c', 'c');
    ck_assert(!redlock__member_told(&members[0], REDLOCK__CMD_MARKER, &newer, now));
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_str_eq(members[0].facts.run_id, facts.run_id);
}
END_TEST

/* ---- probation ---------------------------------------------------------- */

START_TEST(time_alone_ends_no_probation)
{
    restarted();
    now += 2 * guard_ns;
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_gt(standing_of(0).counts_at_ns, now);
}
END_TEST

START_TEST(probation_ends_when_the_key_is_still_there_after_a_guard)
{
    int64_t since = now;
    restarted();
    told_seen("77", 0);
    now = since + guard_ns - 1;
    told_seen("77", (now - since) / S(1));
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now = since + guard_ns;
    told_seen("77", (now - since) / S(1));
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    assert_says(0, "restarted longer ago than any lease lasts");
    ck_assert(on_probation()); /* until its marker names this run */
}
END_TEST

/* Another process watched before: what the key says is a second worse. */
START_TEST(the_primarys_own_key_ends_probation_for_a_new_client)
{
    restarted();
    told_seen("77", 61);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now - S(61) + guard_ns + S(1));
    now += S(1);
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += S(1);
    told_seen("77", 63);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(a_key_of_the_future_says_nothing)
{
    restarted();
    told_seen("77", -1000); /* the primary's clock went back */
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    told_seen("77", INT64_MAX / 1000000);
    assert_kind(0, REDLOCK_STANDING_COUNTS); /* and nothing wraps */
}
END_TEST

START_TEST(another_key_begins_anew)
{
    restarted();
    told_seen("77", 0);
    now += guard_ns - S(1);
    told_seen("88", 0); /* flushed, and the script wrote it again */
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    now += S(2);
    told_seen("88", 2);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += guard_ns - S(2);
    told_seen("99", 0); /* and once more */
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += guard_ns;
    told_seen("99", 61);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(a_new_connection_has_to_be_confirmed)
{
    restarted();
    told_seen("77", 0);
    now += guard_ns;
    told_seen("77", 61);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    ck_assert(!greeted(0, &facts));
    assert_kind(0, REDLOCK_STANDING_GUARD); /* who knows what happened meanwhile */
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + 1);
    assert_says(0, "counts in 1 s");
    told_seen("77", 61);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    greeted(0, &facts);
    told_seen("88", 0);
    assert_kind(0, REDLOCK_STANDING_GUARD);
}
END_TEST

/* Without the right to write the key, the marker is all there is to look at. */
START_TEST(where_the_key_is_refused_the_marker_has_to_stay)
{
    struct redlock__marker marker = marker_of(0, 'a');
    restarted();
    now += guard_ns;
    told_marker(&marker);
    assert_kind(0, REDLOCK_STANDING_GUARD); /* no refusal yet: the key will tell */
    refuse(REDLOCK__FACT_SEEN);
    told(REDLOCK__CMD_SEEN);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    told_marker(&marker);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    told_no_marker();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
}
END_TEST

/* ---- markers that vanish ------------------------------------------------ */

START_TEST(a_marker_that_vanished_took_the_leases_with_it)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    now += S(5);
    ck_assert(_i == 0 ? told_no_marker() : (is_without_marker(), greeted(0, &facts)));
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    assert_says(0, "has no marker: it is new, or lost its data; counts in 62 s");
    ck_assert(!told_no_marker()); /* once */
}
END_TEST

/* As when it became a replica for a moment: the same run, with another server's data. */
START_TEST(a_marker_of_another_run_in_its_place_is_no_better)
{
    struct redlock__marker others = marker_of(0, 'c');
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    now += S(500);
    ck_assert(told_marker(&others));
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    ck_assert(!told_marker(&others));
}
END_TEST

/* Master, replica, master again, in one run: it has the other's data, and the same marker. */
START_TEST(who_was_a_replica_for_a_while_begins_anew)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    now += S(500);
    if (_i == 0) { /* seen as one */
        facts.replica = true;
        ck_assert(told(REDLOCK__CMD_INFO_REPLICATION));
        settle();
        assert_kind(0, REDLOCK_STANDING_REPLICA);
        facts.replica = false;
    }
    facts.second_offset = 4711;
    ck_assert(_i == 2 ? greeted(0, &facts) : told(REDLOCK__CMD_INFO_REPLICATION));
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    now += guard_ns;
    told_seen("77", 62);
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* The key that vouched went when the marker was written: it is no condition for the next one. */
START_TEST(a_demotion_after_a_probation_has_no_stale_condition)
{
    struct redlock__marker marker;
    restarted();
    facts.durable = true;
    now += guard_ns;
    told_seen("77", 62);
    told_seen("77", 62);
    ck_assert(wants(&marker));
    told_marker(&marker);
    ck_assert_str_eq(members[0].seen, "");
}
END_TEST

START_TEST(a_marker_nobody_could_read_did_not_vanish)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    refuse(REDLOCK__FACT_MARKER);
    ck_assert(!told(REDLOCK__CMD_MARKER));
    struct redlock__marker marker = marker_of(0, 'a');
    facts.refusal[REDLOCK__FACT_MARKER][0] = '\0';
    ck_assert(!told_marker(&marker));
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* -BUSY is an answer to GET as well, while some script runs. */
START_TEST(a_marker_refused_for_once_makes_no_misfit)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    refuse(REDLOCK__FACT_MARKER);
    told(REDLOCK__CMD_MARKER);
    settle();
    ck_assert_str_eq(members[0].misfit, "");
    assert_kind(0, REDLOCK_STANDING_UNREADABLE);
}
END_TEST

/* The last marker of a fleet: that there was one is known still. */
START_TEST(in_a_known_fleet_uptime_is_not_trusted_any_more)
{
    facts = marked_facts_of(0, 'a', 'a');
    greeted(0, &facts);
    settle();
    told_no_marker();
    settle();
    ck_assert(fleet.marked);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += guard_ns;
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* Nobody's fleet yet, but something was there and was flushed. */
START_TEST(a_text_that_vanished_takes_the_trust_in_uptime_along)
{
    facts = facts_of(0, 'a');
    facts.marked = true;
    strcpy(facts.marker_text, "redlock=2 of a later version");
    greeted(0, &facts);
    settle();
    ck_assert(!fleet.marked);
    assert_kind(0, REDLOCK_STANDING_MISFIT);
    ck_assert(told_no_marker());
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
}
END_TEST

START_TEST(two_flushes_are_two)
{
    restarted();
    told_seen("77", 0);
    ck_assert(told_no_marker());
    told_seen("88", 0);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    now += guard_ns - S(1);
    told_seen("88", 60);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    told_seen("99", 0);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    now += guard_ns;
    told_seen("99", 61);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* ---- durable ------------------------------------------------------------ */

START_TEST(a_durable_primary_counts_after_a_restart)
{
    came_back_durable();
    ck_assert(!greeted(0, &facts));
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    assert_says(0, "restarted, and is durable: it kept its data");
    ck_assert(!on_probation());
    greeted(0, &facts); /* the same run again */
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(a_durable_restart_that_was_seen_forgets_nothing)
{
    struct redlock__marker marker = marker_of(0, 'a');
    mark_others();
    marker.durable = true;
    facts = facts_of(0, 'a');
    put_marker(&facts, &marker);
    durable_settings();
    greeted(0, &facts);
    redlock__member_bar(&members[0], now);
    members[0].clock.samples = 7;
    name_run(facts.run_id, 0, 'b');
    ck_assert(!greeted(0, &facts));
    settle();
    ck_assert_uint_eq(members[0].clock.samples, 7); /* its keys go on by the same clock */
    assert_kind(0, REDLOCK_STANDING_STEPPED);
    now += guard_ns;
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

static void marker_is_not_durable(void)
{
    struct redlock__marker marker = marker_of(0, 'a');
    put_marker(&facts, &marker);
}

static void settings_are_not(void)
{
    facts.durable = false;
}

static void settings_are_unknown(void)
{
    facts.given[REDLOCK__FACT_SETTINGS] = false;
}

static void has_replicas(void)
{
    facts.replicas = 1;
}

static void was_promoted(void)
{
    facts.second_offset = 14;
}

static void had_replicas_before(void)
{
    struct redlock__facts earlier = facts;
    name_run(earlier.run_id, 0, 'a');
    greeted(0, &earlier);
    earlier.replicas = 1;
    redlock__member_told(&members[0], REDLOCK__CMD_INFO_REPLICATION, &earlier, now);
}

static void was_a_replica_before(void)
{
    struct redlock__facts earlier = facts;
    name_run(earlier.run_id, 0, 'a');
    earlier.replica = true;
    greeted(0, &earlier);
}

static void marker_is_gone(void)
{
    facts.marked = false;
}

static void marker_is_retired(void)
{
    struct redlock__marker marker = marker_of(0, 'a');
    marker.durable = marker.retired = true;
    put_marker(&facts, &marker);
}

static const struct {
    void (*change)(void);
    redlock_standing kind;
} breaks_durable[] = {
    {marker_is_not_durable, REDLOCK_STANDING_GUARD},
    {settings_are_not, REDLOCK_STANDING_GUARD},
    {settings_are_unknown, REDLOCK_STANDING_GUARD},
    {has_replicas, REDLOCK_STANDING_GUARD},
    {was_promoted, REDLOCK_STANDING_GUARD},
    {had_replicas_before, REDLOCK_STANDING_GUARD},
    {was_a_replica_before, REDLOCK_STANDING_GUARD},
    {marker_is_gone, REDLOCK_STANDING_GUARD},
    {marker_is_retired, REDLOCK_STANDING_RETIRED},
    {refuses_replication, REDLOCK_STANDING_UNREADABLE},
    {is_replica, REDLOCK_STANDING_REPLICA},
};

START_TEST(whatever_breaks_it_no_data_was_kept)
{
    came_back_durable();
    breaks_durable[_i].change();
    greeted(0, &facts);
    settle();
    assert_kind(0, breaks_durable[_i].kind);
}
END_TEST

START_TEST(a_durable_one_that_was_flushed_has_lost_it_all)
{
    came_back_durable();
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    ck_assert(told_no_marker());
    assert_kind(0, REDLOCK_STANDING_GUARD);
}
END_TEST

/* ---- a fleet without markers -------------------------------------------- */

START_TEST(without_markers_uptime_counts_unconfirmed)
{
    facts = facts_of(0, 'a');
    facts.uptime_s = 62; /* whole seconds: a second less is proven */
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns + S(1) - S(62));
    assert_says(0, "started 62 s ago, counts in 1 s; "
                   "if no lease can be out: redlock init --no-leases-out");
    now = standing_of(0).counts_at_ns - 1;
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert(on_probation());
    now++;
    assert_kind(0, REDLOCK_STANDING_UNCONFIRMED);
    assert_says(0, "unconfirmed: up for long enough, as it says itself; see 'redlock init'");
    ck_assert(!on_probation());
    now = S(1000) + guard_ns;
    assert_kind(0, REDLOCK_STANDING_UNCONFIRMED); /* nobody looked meanwhile */
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    assert_says(0, "watched for longer than any lease lasts");
}
END_TEST

/* Those that can't be reached may be the marked ones. */
START_TEST(uptime_is_for_those_who_see_all_members)
{
    facts = facts_of(0, 'a');
    greeted(0, &facts);
    redlock__fleet_settle(&fleet, members, 0xf);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    ck_assert(on_probation());
    told_seen("77", 63); /* another client watched */
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(without_markers_a_flush_is_seen_by_the_key)
{
    facts = facts_of(0, 'b');
    facts.uptime_s = 0;
    greeted(0, &facts);
    settle();
    told_seen("77", 0);
    now += guard_ns - S(1);
    told_seen("88", 0);
    members[0].succeeded = true; /* so that uptime doesn't matter */
    now += S(1);
    told_seen("88", 1);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += guard_ns - S(1);
    told_seen("88", 61);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(who_knew_the_old_run_does_not_trust_uptime)
{
    facts = facts_of(0, 'a');
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_UNCONFIRMED);
    facts = facts_of(0, 'b'); /* up for days, it says */
    ck_assert(greeted(0, &facts));
    assert_kind(0, REDLOCK_STANDING_GUARD);
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    greeted(0, &facts);
    assert_kind(0, REDLOCK_STANDING_GUARD);
    now += guard_ns;
    assert_kind(0, REDLOCK_STANDING_GUARD);
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(an_uptime_beyond_all_bounds_does_no_harm)
{
    facts = facts_of(0, 'a');
    facts.uptime_s = _i == 0 ? INT64_MAX : INT64_MAX / 1000 + 1;
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_UNCONFIRMED);
}
END_TEST

/* ---- stepped ------------------------------------------------------------ */

START_TEST(a_step_bars_for_a_guard)
{
    become(8);
    members[0].clock.step_least_ns = S(30) - REDLOCK__MS;
    members[0].clock.step_most_ns = S(30) + REDLOCK__MS;
    redlock__member_bar(&members[0], now);
    assert_kind(0, REDLOCK_STANDING_STEPPED);
    assert_says(0, "its clock was stepped by +30000 ms 0 s ago, counts in 62 s");
    ck_assert_int_eq(standing_of(0).counts_at_ns, now + guard_ns);
    now += guard_ns - 1;
    assert_kind(0, REDLOCK_STANDING_STEPPED);
    now++;
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

START_TEST(a_bar_can_be_lifted)
{
    become(8);
    redlock__member_bar(&members[0], now);
    redlock__member_unbar(&members[0]);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* What was set before the restart is gone; and it is another clock, maybe. */
START_TEST(a_restart_lifts_the_bar)
{
    become(8);
    members[0].clock.samples = 7;
    redlock__member_bar(&members[0], now);
    greeted(0, &facts);
    assert_kind(0, REDLOCK_STANDING_STEPPED); /* a new connection doesn't */
    ck_assert_uint_eq(members[0].clock.samples, 7);
    facts = marked_facts_of(0, 'b', 'b');
    greeted(0, &facts);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    ck_assert_uint_eq(members[0].clock.samples, 0);
}
END_TEST

/* ---- what the marker should say ----------------------------------------- */

static void assert_wanted(char run, bool durable, uint32_t number)
{
    struct redlock__marker marker, expected = marker_of(0, run);
    ck_assert(wants(&marker));
    ck_assert_uint_eq(marker.fleet, expected.fleet);
    ck_assert_uint_eq(marker.n, expected.n);
    ck_assert_uint_eq(marker.quorum, expected.quorum);
    ck_assert_int_eq(marker.max_ttl_ms, expected.max_ttl_ms);
    ck_assert_str_eq(marker.run_id, expected.run_id);
    ck_assert_uint_eq(marker.member, number);
    ck_assert_int_eq(marker.durable, durable);
    ck_assert(!marker.retired);
}

static void end_probation(void)
{
    now += guard_ns;
    told_seen("77", 62);
    told_seen("77", 62);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}

START_TEST(a_marker_that_says_it_all_is_left)
{
    struct redlock__marker marker;
    become(8);
    ck_assert(!wants(&marker));
}
END_TEST

START_TEST(a_fleet_without_markers_is_left_to_init)
{
    struct redlock__marker marker;
    facts = facts_of(0, 'a');
    greeted(0, &facts);
    settle();
    end_probation();
    ck_assert(!wants(&marker));
}
END_TEST

START_TEST(this_run_is_marked_when_probation_is_over)
{
    struct redlock__marker marker;
    restarted();
    ck_assert(!wants(&marker));
    durable_settings();
    end_probation();
    assert_wanted('b', false, 1); /* init alone says durable again */
}
END_TEST

START_TEST(a_marker_keeps_its_number)
{
    struct redlock__marker marker = marker_of(0, 'a');
    restarted();
    marker.member = 4; /* in the list of who marked it */
    told_marker(&marker);
    end_probation();
    assert_wanted('b', false, 4);
}
END_TEST

START_TEST(a_new_member_is_marked_as_the_others)
{
    mark_others();
    facts = facts_of(0, 'a');
    if (_i == 1)
        durable_settings();
    if (_i == 2) {
        durable_settings();
        facts.replicas = 1;
    }
    if (_i == 3) {
        durable_settings();
        refuse(REDLOCK__FACT_SETTINGS);
    }
    greeted(0, &facts);
    settle();
    end_probation();
    assert_wanted('a', _i == 1, 1);
}
END_TEST

START_TEST(a_durable_one_stays_durable)
{
    came_back_durable();
    greeted(0, &facts);
    settle();
    assert_wanted('b', true, 1);
    told_replicas(1);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    assert_wanted('b', false, 1);
}
END_TEST

START_TEST(durable_with_replicas_is_taken_back)
{
    struct redlock__marker marker = marker_of(0, 'a');
    came_back_durable();
    marker.durable = true;
    name_run(facts.run_id, 0, 'a');
    greeted(0, &facts);
    settle();
    ck_assert(!wants(&marker));
    told_replicas(1);
    assert_wanted('a', false, 1);
    told_replicas(0); /* they were there */
    assert_wanted('a', false, 1);
    marker = marker_of(0, 'a');
    told_marker(&marker);
    ck_assert(!wants(&marker)); /* done */
}
END_TEST

START_TEST(who_refuses_is_not_asked_again)
{
    struct redlock__marker marker;
    restarted();
    end_probation();
    ck_assert(wants(&marker));
    facts.mark_refused = true;
    told(REDLOCK__CMD_MARK);
    ck_assert(!wants(&marker));
    facts.mark_refused = false; /* on a new connection it may be asked */
    greeted(0, &facts);
    told_seen("77", 62);
    ck_assert(wants(&marker));
}
END_TEST

START_TEST(who_may_evict_keys_does_not_count)
{
    mark_others();
    facts = marked_facts_of(0, 'a', 'a');
    (void)snprintf(facts.policy, sizeof(facts.policy), "allkeys-lru");
    greeted(0, &facts);
    settle();
    assert_kind(0, REDLOCK_STANDING_EVICTING);
    assert_says(0, "it may evict locks: set maxmemory-policy noeviction instead of allkeys-lru");
    fleet.asked_guard_ms = 0; /* told to trust */
    settle();
    assert_kind(0, REDLOCK_STANDING_COUNTS);
}
END_TEST

/* Others believe what is marked, also those who ask for the whole guard. */
START_TEST(who_waits_less_than_the_others_marks_nothing_for_them)
{
    struct redlock__marker marker;
    restarted();
    fleet.asked_guard_ms = 1000;
    settle();
    now += S(3);
    told_seen("77", 3);
    assert_kind(0, REDLOCK_STANDING_COUNTS);
    ck_assert(!wants(&marker));
    fleet.asked_guard_ms = 0;
    settle();
    ck_assert(!wants(&marker));
    now += S(60);
    told_seen("77", 63);
    ck_assert(wants(&marker));
}
END_TEST

START_TEST(who_does_not_count_is_not_marked)
{
    struct redlock__marker marker;
    become((size_t)_i);
    ck_assert(!wants(&marker));
    ck_assert_int_eq(on_probation(), kinds[_i].kind == REDLOCK_STANDING_GUARD);
}
END_TEST

START_TEST(while_its_clock_bars_it_it_is_not_marked)
{
    struct redlock__marker marker;
    restarted();
    end_probation();
    redlock__member_bar(&members[0], now);
    ck_assert(!wants(&marker));
}
END_TEST

/* ------------------------------------------------------------------------- */

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

static void add_runs(TCase *t)
{
    tcase_add_loop_test(t, each_kind_says_what_to_do, 0, LENGTH(kinds));
    tcase_add_loop_test(t, without_a_guard_all_but_strangers_count, 0, LENGTH(kinds));
    tcase_add_test(t, without_a_guard_a_step_bars_nobody);
    tcase_add_test(t, a_marker_of_this_run_counts_at_once);
    tcase_add_test(t, a_marker_of_another_run_does_not);
    tcase_add_test(t, a_restart_seen_by_this_client_forgets);
    tcase_add_test(t, what_was_said_before_its_greeting_is_not_taken_in);
}

static void add_probation(TCase *t)
{
    tcase_add_test(t, time_alone_ends_no_probation);
    tcase_add_test(t, probation_ends_when_the_key_is_still_there_after_a_guard);
    tcase_add_test(t, the_primarys_own_key_ends_probation_for_a_new_client);
    tcase_add_test(t, a_key_of_the_future_says_nothing);
    tcase_add_test(t, another_key_begins_anew);
    tcase_add_test(t, a_new_connection_has_to_be_confirmed);
    tcase_add_test(t, where_the_key_is_refused_the_marker_has_to_stay);
    tcase_add_loop_test(t, a_marker_that_vanished_took_the_leases_with_it, 0, 2);
    tcase_add_test(t, a_marker_of_another_run_in_its_place_is_no_better);
    tcase_add_loop_test(t, who_was_a_replica_for_a_while_begins_anew, 0, 3);
    tcase_add_test(t, a_demotion_after_a_probation_has_no_stale_condition);
    tcase_add_test(t, a_marker_nobody_could_read_did_not_vanish);
    tcase_add_test(t, a_marker_refused_for_once_makes_no_misfit);
    tcase_add_test(t, in_a_known_fleet_uptime_is_not_trusted_any_more);
    tcase_add_test(t, a_text_that_vanished_takes_the_trust_in_uptime_along);
    tcase_add_test(t, two_flushes_are_two);
}

static void add_durable(TCase *t)
{
    tcase_add_test(t, a_durable_primary_counts_after_a_restart);
    tcase_add_test(t, a_durable_restart_that_was_seen_forgets_nothing);
    tcase_add_loop_test(t, whatever_breaks_it_no_data_was_kept, 0, LENGTH(breaks_durable));
    tcase_add_test(t, a_durable_one_that_was_flushed_has_lost_it_all);
}

static void add_others(TCase *t)
{
    tcase_add_test(t, without_markers_uptime_counts_unconfirmed);
    tcase_add_test(t, uptime_is_for_those_who_see_all_members);
    tcase_add_test(t, without_markers_a_flush_is_seen_by_the_key);
    tcase_add_test(t, who_knew_the_old_run_does_not_trust_uptime);
    tcase_add_loop_test(t, an_uptime_beyond_all_bounds_does_no_harm, 0, 2);
    tcase_add_test(t, a_step_bars_for_a_guard);
    tcase_add_test(t, a_bar_can_be_lifted);
    tcase_add_test(t, a_restart_lifts_the_bar);
}

static void add_marks(TCase *t)
{
    tcase_add_test(t, a_marker_that_says_it_all_is_left);
    tcase_add_test(t, a_fleet_without_markers_is_left_to_init);
    tcase_add_test(t, this_run_is_marked_when_probation_is_over);
    tcase_add_test(t, a_marker_keeps_its_number);
    tcase_add_loop_test(t, a_new_member_is_marked_as_the_others, 0, 4);
    tcase_add_test(t, a_durable_one_stays_durable);
    tcase_add_test(t, durable_with_replicas_is_taken_back);
    tcase_add_test(t, who_may_evict_keys_does_not_count);
    tcase_add_test(t, who_refuses_is_not_asked_again);
    tcase_add_test(t, who_waits_less_than_the_others_marks_nothing_for_them);
    tcase_add_loop_test(t, who_does_not_count_is_not_marked, 0, LENGTH(kinds));
    tcase_add_test(t, while_its_clock_bars_it_it_is_not_marked);
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
    Suite *suite = suite_create("member");
    add_case(suite, "runs", add_runs);
    add_case(suite, "probation", add_probation);
    add_case(suite, "durable", add_durable);
    add_case(suite, "others", add_others);
    add_case(suite, "marks", add_marks);
    return run_suite(suite);
}
