/* The named scenarios: what is done, and what must come of it. */
#ifndef CHAOS_SCENARIOS_H
#define CHAOS_SCENARIOS_H

#include <stdbool.h>
#include <stddef.h>

#include "scene.h"

/* Of the availability of a lock with a majority alive: all, but for what noise on a small
 * machine costs. */
#define NEARLY_ALL 0.98

struct scenario {
    const char *name;
    const char *title; /* what is done, in a line */
    bool control;      /* something must break, or the checkers are blind */
    bool smoke;
    bool apart;       /* not one of "all": it is played for long */
    bool own_network; /* drops packets in the kernel: in a network of its own */
    bool own; /* about what only our own client has: renewal, health, fences, its words, options */
    enum mode mode;
    struct conditions conditions;
    void (*play)(struct scene *scene);
};

extern const struct scenario scenarios[];
extern const size_t scenario_count;
const struct scenario *scenario_named(const char *name); /* NULL: none */

/* A comparison's rows: one fault each, for every mode. */
struct row {
    const char *name, *title;
    struct conditions conditions;
    bool as_used; /* one instance without the restart guard, as its clients are. With it what comes
                     back empty, or is promoted, would not count for ttl + 1 s */
    void (*play)(struct scene *scene);
};
extern const struct row rows[];
extern const size_t row_count;

/* An actor with a lock that is renewed as long as the scene lasts: its client goes on asking all
 * primaries. -1 in *lock, if lock isn't NULL: it has none, and the run proves nothing. */
struct worker *keep_watch(struct scene *scene, int64_t *lock);

/* Plays, one each. */
typedef void play(struct scene *scene);
play play_calm, play_kill_minority, play_kill_majority, play_empty_guard, play_empty_noguard,
    play_older_guard, play_older_noguard, play_mixed_guard, play_mixed_noguard,
    play_durable_restart, play_single_restart, play_failover, play_failover_wait;
play play_freeze_holder, play_freeze_blind, play_freeze_in_acquire, play_client_crash, play_renewal,
    play_suspend, play_suspend_control, play_exhaust;
play play_step_one, play_step_bare, play_step_majority, play_clock_back, play_rate, play_rate_fast,
    play_rate_measured, play_strobe_one, play_strobe_three;
play play_ghost_grant, play_partition, play_ring, play_delay, play_slow_majority, play_blackhole,
    play_half_open, play_reset_storm, play_slices, play_swizzle, play_late_set,
    play_late_set_control;
play play_server_errors, play_evict, play_evict_control, play_flush_one, play_flush_three,
    play_duplicates, play_duplicates_control, play_wrong_members;
play play_fence_skew, play_fence_skew_control, play_quorum_control, play_release_unseen,
    play_release_unseen_control, play_start_late_control, play_fence_twice,
    play_fence_twice_control;
play play_storm;

#endif
