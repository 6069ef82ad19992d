/*
 * Who has a vote, on real servers: markers, the restart guard, durable primaries, replicas, rights.
 *
 * Where the guard has to run out its max_ttl is small; where nothing may be waited for it is so
 * long (60 s and more) that AWAIT would give up first. Each guard has a negative control: the same
 * trail without it ends with two holders.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "proxy.h"
#include "redlock.h"
#include "servers.h"

enum {
    SHORT_TTL_MS = 1500,
    GUARD_MS = SHORT_TTL_MS + 15 + 2 + 1000, /* what REDLOCK_GUARD_AUTO makes of it */
    LONG_TTL_MS = 60000,
    NODE_MS = 1000 /* a loaded machine is no silent one */
};

/* ---- helpers ------------------------------------------------------------ */

static redlock_options guarded(const char *const *uris, size_t n, int64_t max_ttl_ms)
{
    redlock_options options = options_for(uris, n);

    options.restart_guard_ms = REDLOCK_GUARD_AUTO;
    options.max_ttl_ms = max_ttl_ms;
    options.node_timeout_ms = NODE_MS;
    return options;
}

static int init(redlock_client *client, int no_leases_out, int64_t *wait_ms)
{
    redlock_init_options options;
    int64_t ignored;

    redlock_init_options_init(&options);
    options.no_leases_out = no_leases_out;
    memset(results, 0, sizeof results);
    return redlock_init(client, &options, results, N, wait_ms != NULL ? wait_ms : &ignored);
}

static void mark_with(const redlock_options *options)
{
    redlock_client *client = new_client(options);

    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    redlock_client_free(client);
}

static void mark_all(int64_t max_ttl_ms)
{
    redlock_options options = guarded(servers_uris(), N, max_ttl_ms);

    mark_with(&options);
}

static redlock_client *guarded_client(int64_t max_ttl_ms)
{
    redlock_options options = guarded(servers_uris(), N, max_ttl_ms);

    return new_client(&options);
}

static const char *marker(int i)
{
    const char *text = servers_command(i, "GET", "redlock:fleet", NULL);

    return text != NULL ? text : "";
}

/* The marker names the run it is read in. */
static bool marked_now(int i)
{
    char wanted[64], run[41];
    const char *at = strstr(servers_command(i, "INFO", "server", NULL), "run_id:");

    ck_assert_ptr_nonnull(at);
    (void)snprintf(run, sizeof run, "%.40s", at + strlen("run_id:"));
    (void)snprintf(wanted, sizeof wanted, "run=%s", run);
    return strstr(marker(i), wanted) != NULL;
}

/* Neither marked nor locked. */
static bool bare(int i)
{
    return strcmp(servers_command(i, "EXISTS", "redlock:fleet", "job", NULL), "0") == 0;
}

static redlock_node_health health_of(const redlock_client *client, int i)
{
    redlock_node_health health[N];

    ck_assert_int_lt(i, (int)redlock_health(client, health, N));
    return health[i];
}

static bool counts(const redlock_client *client, int i)
{
    redlock_node_health health = health_of(client, i);

    return health.state == REDLOCK_NODE_READY && health.counts;
}

/* Connected, and its vote doesn't count, for a reason with these words. */
static bool barred(const redlock_client *client, int i, const char *words)
{
    redlock_node_health health = health_of(client, i);

    return health.state == REDLOCK_NODE_READY && !health.counts &&
           strstr(health.standing, words) != NULL;
}

static bool ready(const redlock_client *client, int n)
{
    return is_settled(client, (size_t)n);
}

static bool all_count(const redlock_client *client)
{
    int counting = 0;

    for (int i = 0; i < N; i++)
        counting += counts(client, i);
    return counting == N;
}

static void assert_result(int i, redlock_vote vote, const char *words)
{
    ck_assert_msg(results[i].vote == vote && strstr(results[i].text, words) != NULL,
                  "%d: %s '%s', not %s '%s'", i, redlock_vote_name(results[i].vote),
                  results[i].text, redlock_vote_name(vote), words);
}

static int try_key(redlock_client *client, const char *key)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, key, strlen(key), &options, &lock);

    return rc == 0 ? redlock_release(lock) : rc;
}

static void plant(int i)
{
    ck_assert_str_eq(servers_command(i, "SET", "job", "foreign", NULL), "OK");
}

static void uproot(int i)
{
    ck_assert_str_eq(servers_command(i, "DEL", "job", NULL), "1");
}

/* "job", counted on 0, 1 and 2, and nowhere else: the other two are free. */
static redlock_lock *hold_three(redlock_client *client, int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *lock;

    AWAIT(ready(client, N));
    plant(3);
    plant(4);
    lock = acquire(client, &options);
    uproot(3);
    uproot(4);
    ck_assert_int_eq(servers_with_key("job"), 3);
    ck_assert_int_eq(redlock_margin(lock), 0);
    return lock;
}

/* "job", renewed, counted on all five. */
static redlock_lock *hold_five(redlock_client *client, int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);
    redlock_lock *lock;

    AWAIT(ready(client, N));
    options.renew = 1;
    lock = acquire(client, &options);
    AWAIT(redlock_margin(lock) == 2);
    return lock;
}

static void restart(int i)
{
    servers_kill(i);
    servers_revive(i);
}

/* ---- a second client that wants what is held ---------------------------- */

/* In a thread of its own; tries without a pause, so that no moment is left out. */
struct taker {
    pthread_t thread;
    redlock_options options;
    int64_t ttl_ms;
    bool short_lived; /* a new client for each attempt */
    redlock_lock *held;
    atomic_bool stop;
    atomic_int attempts, taken, both; /* both: while the other one held it, too */
    atomic_llong first_ms;            /* when it was taken first */
    int error;                        /* that no attempt may have */
};

static void take(struct taker *taker, redlock_client *client)
{
    redlock_lock_options options;
    redlock_lock *lock = NULL;
    int rc;

    redlock_lock_options_init(&options);
    options.ttl_ms = taker->ttl_ms;
    rc = redlock_acquire(client, "job", 3, &options, &lock);
    if (rc == 0) {
        /* First the other's, then ours, which was held before that. */
        taker->both += redlock_is_held(taker->held) && redlock_is_held(lock);
        if (taker->taken++ == 0)
            taker->first_ms = servers_now_ms();
        (void)redlock_release(lock);
    } else if (!redlock_is_outcome(rc)) {
        taker->error = rc;
    }
    taker->attempts++;
}

static void *run_taker(void *argument)
{
    struct taker *taker = argument;
    redlock_client *client = NULL;

    while (!taker->stop) {
        if (client == NULL && redlock_client_new(&taker->options, &client, NULL, 0) != 0)
            break;
        take(taker, client);
        if (taker->short_lived) {
            redlock_client_free(client);
            client = NULL;
        }
        (void)poll(NULL, 0, 1);
    }
    redlock_client_free(client);
    return NULL;
}

static void start_taker(struct taker *taker, redlock_lock *held)
{
    taker->held = held;
    ck_assert_int_eq(pthread_create(&taker->thread, NULL, run_taker, taker), 0);
    AWAIT(taker->attempts >= 2);
}

static void end_taker(struct taker *taker)
{
    taker->stop = true;
    ck_assert_int_eq(pthread_join(taker->thread, NULL), 0);
    ck_assert_msg(taker->error == 0, "%s", redlock_strerror(taker->error));
}

/* ---- marking ------------------------------------------------------------ */

static void start_five(void)
{
    servers_start(N);
}

START_TEST(test_init_marks_once)
{
    redlock_client *client = guarded_client(SHORT_TTL_MS);
    char before[N][300];

    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    for (int i = 0; i < N; i++) {
        assert_result(i, REDLOCK_VOTE_OURS, "marked");
        ck_assert(marked_now(i));
        (void)snprintf(before[i], sizeof before[i], "%s", marker(i));
        ck_assert_ptr_nonnull(strstr(before[i], " n=5 quorum=3 max_ttl_ms=1500 durable=0 "));
        ck_assert_int_eq(strncmp(before[i], before[0], strlen("redlock=1 fleet=0123456789abcdef")),
                         0);
        ck_assert(counts(client, i));
    }
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    redlock_client_free(client);
    client = guarded_client(SHORT_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    assert_rc(init(client, 0, NULL), REDLOCK_OK);
    for (int i = 0; i < N; i++) {
        ck_assert_str_eq(marker(i), before[i]);
        ck_assert_str_eq(servers_command(i, "TTL", "redlock:fleet", NULL), "-1");
        ck_assert_str_eq(servers_command(i, "DBSIZE", NULL), "2"); /* and the floor */
    }
    redlock_client_free(client);
}
END_TEST

START_TEST(test_init_watches_for_a_guard)
{
    int64_t wait_ms = 0, begun_ms = servers_now_ms(), asked_ms;
    redlock_client *client = guarded_client(SHORT_TTL_MS);

    AWAIT(ready(client, N));
    asked_ms = servers_now_ms();
    assert_rc(init(client, 0, &wait_ms), REDLOCK_PENDING);
    ck_assert_int_gt(wait_ms, 0);
    ck_assert_int_le(wait_ms, GUARD_MS);
    for (int i = 0; i < N; i++)
        ck_assert(bare(i));
    AWAIT(init(client, 0, NULL) != REDLOCK_PENDING);
    ck_assert_int_ge(servers_now_ms() - asked_ms, wait_ms - 1);
    ck_assert_int_ge(servers_now_ms() - begun_ms, GUARD_MS - 1);
    assert_rc(init(client, 0, NULL), REDLOCK_OK);
    for (int i = 0; i < N; i++)
        ck_assert(marked_now(i));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_init_needs_all)
{
    redlock_client *client;

    servers_kill(2);
    client = guarded_client(SHORT_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_NO_QUORUM);
    assert_result(2, REDLOCK_VOTE_DOWN, "refused");
    for (int i = 0; i < N; i++)
        if (i != 2)
            ck_assert(bare(i));
    servers_revive(2);
    AWAIT(ready(client, N));
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    for (int i = 0; i < N; i++)
        ck_assert(marked_now(i));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_no_round_trip_more)
{
    static const char *const wanted[] = {
        "set:calls=1,", "eval:calls=1,",           "info:calls=2,", "config|get:calls=1,",
        "get:calls=",   "client|setname:calls=1,", "time:calls=1,", "config|resetstat:calls=1,",
        "del:calls=1,", "zrange:calls=1,"};
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;
    long gets = 0;

    mark_all(SHORT_TTL_MS);
    servers_reset_counts();
    client = guarded_client(SHORT_TTL_MS);
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    AWAIT(is_settled(client, N) && servers_with_key("job") == 0);
    redlock_client_free(client);
    for (int i = 0; i < N; i++) {
        const char *stats = servers_command(i, "INFO", "commandstats", NULL);
        size_t kinds = 0;

        for (const char *at = stats; (at = strstr(at, "cmdstat_")) != NULL; at++)
            kinds += strncmp(at, "cmdstat_exists:", strlen("cmdstat_exists:")) != 0; /* ours */
        for (size_t k = 0; k < sizeof wanted / sizeof wanted[0]; k++) {
            char text[64];

            (void)snprintf(text, sizeof text, "cmdstat_%s", wanted[k]);
            ck_assert_msg(strstr(stats, text) != NULL, "%s in %s", text, stats);
        }
        gets += servers_count(i, "get");
        /* The script's GET and DEL are counted, as the commands they are. */
        ck_assert_msg(kinds == sizeof wanted / sizeof wanted[0], "%s", stats);
    }
    /* Marker; the owner in the script; and on one whether somebody waits. */
    ck_assert_int_eq(gets, 2 * N + 1);
}
END_TEST

/* ---- what markers say --------------------------------------------------- */

static void assert_misfit(const redlock_options *options, int i, const char *words)
{
    redlock_lock_options lock = lock_options(1000, 0);
    redlock_client *client = new_client(options);

    AWAIT(ready(client, (int)options->node_count));
    memset(results, 0, sizeof results);
    assert_rc(try_lock(client, &lock), REDLOCK_ERR_MISCONFIGURED);
    assert_result(i, REDLOCK_VOTE_BARRED, words);
    assert_rc(init(client, 1, NULL), REDLOCK_ERR_MISCONFIGURED);
    assert_result(i, REDLOCK_VOTE_BARRED, words);
    ck_assert_int_eq(servers_with_key("job"), 0);
    redlock_client_free(client);
}

START_TEST(test_other_options_than_marked)
{
    redlock_options options = guarded(servers_uris(), N, SHORT_TTL_MS);
    char text[300], *digit;

    mark_all(SHORT_TTL_MS);
    options.quorum = 4;
    assert_misfit(&options, 4, "marked for a quorum of 3, but this client asks for 4");
    options = guarded(servers_uris(), N, 2000);
    assert_misfit(&options, 0, "marked for max_ttl 1500 ms, but this client asks for 2000 ms");
    options = guarded(servers_uris(), 3, SHORT_TTL_MS);
    assert_misfit(&options, 1, "marked as one of 5 primaries, but this list has 3");
    (void)snprintf(text, sizeof text, "%s", marker(2));
    digit = text + strlen("redlock=1 fleet=");
    *digit = *digit == '1' ? '2' : '1';
    (void)servers_command(2, "SET", "redlock:fleet", text, NULL);
    options = guarded(servers_uris(), N, SHORT_TTL_MS);
    assert_misfit(&options, 2, *digit == '1' ? "of fleet 1" : "of fleet 2");
    ck_assert_ptr_nonnull(strstr(results[2].text, servers_uri(0) + strlen("redis://")));
    text[strlen("redlock=")] = '2';
    (void)servers_command(2, "SET", "redlock:fleet", text, NULL);
    assert_misfit(&options, 2, "can't be understood");
}
END_TEST

START_TEST(test_unset_options_are_the_fleets)
{
    redlock_options options = guarded(servers_uris(), N, 120000);
    redlock_lock_options lock = lock_options(90000, 0);
    redlock_client *client;

    options.quorum = 4;
    mark_with(&options);
    options = guarded(servers_uris(), N, 0);
    client = new_client(&options);
    AWAIT(ready(client, N));
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    lock.ttl_ms = 120000;
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    lock.ttl_ms = 121000;
    assert_rc(try_lock(client, &lock), REDLOCK_ERR_TTL);
    lock.ttl_ms = 90000;
    AWAIT(servers_with_key("job") == 0);
    plant(0);
    assert_rc(try_lock(client, &lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 1);
    plant(1); /* three votes are a majority, and not enough */
    assert_rc(try_lock(client, &lock), REDLOCK_BUSY);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_one_server_under_two_addresses)
{
    const char *uris[N] = {servers_uri(0), NULL, servers_uri(1), servers_uri(2), servers_uri(3)};
    char local[64];
    redlock_options options = guarded(uris, N, SHORT_TTL_MS);

    (void)snprintf(local, sizeof local, "redis://localhost:%d", servers_port(0));
    uris[1] = local;
    for (int off = 0; off < 2; off++) {
        assert_misfit(&options, 1, "the same server as");
        ck_assert_ptr_nonnull(strstr(results[1].text, servers_uri(0) + strlen("redis://")));
        ck_assert_ptr_nonnull(strstr(results[1].address, "localhost"));
        ck_assert(bare(0));
        options.restart_guard_ms = 0; /* whoever counts once counts once */
    }
}
END_TEST

START_TEST(test_replica_at_start)
{
    redlock_options options = guarded(servers_uris(), N, SHORT_TTL_MS);

    servers_replicate(4, 0);
    assert_misfit(&options, 4, "a replica of another server");
    options.restart_guard_ms = 0;
    assert_misfit(&options, 4, "a replica of another server");
}
END_TEST

/* Its connections stay and its run goes on, but its keys are another's from then on. Watching it
 * for long before that is worth nothing. */
START_TEST(test_replica_while_held)
{
    redlock_client *client;
    redlock_lock_options options = lock_options(1000, 0);
    redlock_lock *held, *other = NULL;
    int64_t watched_ms, promoted_ms;

    mark_all(SHORT_TTL_MS);
    client = guarded_client(SHORT_TTL_MS);
    AWAIT(ready(client, N));
    watched_ms = servers_now_ms() + GUARD_MS;
    AWAIT(servers_now_ms() > watched_ms);
    held = hold_five(client, SHORT_TTL_MS);
    servers_replicate(4, 0);
    AWAIT(redlock_margin(held) == 1);
    ck_assert_int_eq(redlock_is_held(held), 1);
    ck_assert(barred(client, 4, "a replica of another server"));
    assert_rc(redlock_acquire(client, "other", 5, &options, &other), REDLOCK_OK);
    assert_result(4, REDLOCK_VOTE_BARRED, "a replica of another server");
    assert_rc(redlock_release(other), REDLOCK_OK);
    promoted_ms = servers_now_ms();
    servers_promote(4);
    AWAIT(counts(client, 4));
    ck_assert_int_ge(servers_now_ms() - promoted_ms, GUARD_MS);
    AWAIT(redlock_margin(held) == 2);
    AWAIT(marked_now(4));
    assert_rc(redlock_release(held), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* ---- the guard ---------------------------------------------------------- */

START_TEST(test_unmarked_fleet_waits)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client = guarded_client(SHORT_TTL_MS), *second;
    bool unconfirmed = false;

    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++) {
        assert_result(i, REDLOCK_VOTE_BARRED, " s; if no lease can be out: redlock init");
        ck_assert_ptr_nonnull(strstr(results[i].text, "counts in"));
        ck_assert(bare(i));
    }
    AWAIT(all_count(client));
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    for (int i = 0; i < N; i++)
        ck_assert(strstr(health_of(client, i).standing, "watched") != NULL ||
                  strstr(health_of(client, i).standing, "unconfirmed") != NULL);
    second = guarded_client(SHORT_TTL_MS);
    AWAIT(all_count(second));
    for (int i = 0; i < N; i++)
        unconfirmed = unconfirmed || strstr(health_of(second, i).standing, "unconfirmed") != NULL;
    ck_assert(unconfirmed);
    assert_rc(try_lock(second, &options), REDLOCK_OK);
    redlock_client_free(second);
    redlock_client_free(client);
}
END_TEST

/* What waits in a queue is served as soon as the guard is over. */
START_TEST(test_waiting_lasts_as_long_as_the_guard)
{
    redlock_lock_options options = lock_options(1000, 10000);
    redlock_client *client = guarded_client(SHORT_TTL_MS);

    assert_rc(try_lock(client, &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static const struct contest {
    int64_t holder_ttl_ms, taker_ttl_ms;
    bool short_lived;
} contests[] = {
    {1000, 1000, false}, {1000, 1000, true}, {SHORT_TTL_MS, 300, false}, {SHORT_TTL_MS, 300, true}};

enum {
    CONTESTS = (int)(sizeof contests / sizeof contests[0])
};

static struct taker taker_of(const struct contest *contest)
{
    return (struct taker){.options = guarded(servers_uris(), N, SHORT_TTL_MS),
                          .ttl_ms = contest->taker_ttl_ms,
                          .short_lived = contest->short_lived};
}

/* Two restart empty, one right after the other: a renewing holder goes on with the other three. */
START_TEST(test_holder_outlives_two_restarts)
{
    const struct contest *contest = &contests[_i];
    struct taker taker = taker_of(contest);
    redlock_client *client;
    redlock_lock *lock;

    mark_all(SHORT_TTL_MS);
    client = guarded_client(SHORT_TTL_MS);
    lock = hold_five(client, contest->holder_ttl_ms);
    start_taker(&taker, lock);
    restart(0);
    AWAIT(barred(client, 0, "has no marker"));
    AWAIT(redlock_margin(lock) == 1);
    restart(1);
    AWAIT(redlock_margin(lock) == 0);
    AWAIT(all_count(client));
    AWAIT(marked_now(0) && marked_now(1));
    end_taker(&taker);
    ck_assert_int_eq(taker.taken, 0);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    AWAIT(redlock_margin(lock) == 2);
    ck_assert_int_eq(servers_with_key("job"), N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* Three do: the holder says so at once, and nobody else gets the lock before a guard. */
START_TEST(test_three_restarts_end_a_hold)
{
    const struct contest *contest = &contests[_i];
    struct taker taker = taker_of(contest);
    redlock_client *client;
    redlock_lock *lock;
    int64_t first_ms;

    mark_all(SHORT_TTL_MS);
    client = guarded_client(SHORT_TTL_MS);
    lock = hold_five(client, contest->holder_ttl_ms);
    start_taker(&taker, lock);
    first_ms = servers_now_ms();
    for (int i = 0; i < 3; i++)
        restart(i);
    AWAIT(redlock_next_event(lock) == REDLOCK_EVENT_LOST);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    AWAIT(taker.taken > 0);
    end_taker(&taker);
    ck_assert_int_eq(taker.both, 0);
    ck_assert_int_ge(taker.first_ms - first_ms, GUARD_MS);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_LOST);
    redlock_client_free(client);
}
END_TEST

/*
 * The trail the guard is for: held on a bare majority, of which one forgets; it and the other two
 * are another majority. The holder can't hear of it: its way to that one is cut.
 */
struct trail {
    struct proxy *proxy;
    redlock_client *client;
    redlock_lock *lock;
};

static void begin_trail(struct trail *trail, struct taker *taker, int64_t max_ttl_ms,
                        int64_t holder_ttl_ms)
{
    const char *uris[N] = {NULL};
    redlock_options options = guarded(uris, N, max_ttl_ms);

    mark_all(max_ttl_ms);
    taker->options.max_ttl_ms = max_ttl_ms;
    trail->proxy = proxy_new(servers_port(0));
    uris[0] = proxy_uri(trail->proxy);
    for (int i = 1; i < N; i++)
        uris[i] = servers_uri(i);
    trail->client = new_client(&options);
    trail->lock = hold_three(trail->client, holder_ttl_ms);
    start_taker(taker, trail->lock);
    ck_assert_int_eq(taker->taken, 0);
    proxy_refuse(trail->proxy, 1);
    restart(0);
}

static void end_trail(struct trail *trail, struct taker *taker)
{
    end_taker(taker);
    (void)redlock_release(trail->lock);
    redlock_client_free(trail->client);
    proxy_free(trail->proxy);
}

/* As long as it is held. */
START_TEST(test_bare_majority_and_a_restart)
{
    struct taker taker = taker_of(&contests[_i]);
    struct trail trail;
    int enough;

    begin_trail(&trail, &taker, LONG_TTL_MS, LONG_TTL_MS);
    enough = taker.attempts + 50;
    AWAIT(taker.attempts >= enough);
    ck_assert_int_eq(redlock_is_held(trail.lock), 1);
    ck_assert_int_eq(taker.taken, 0);
    end_trail(&trail, &taker);
}
END_TEST

/* To the end of the hold, and beyond the guard. */
START_TEST(test_bare_majority_to_its_end)
{
    struct taker taker = taker_of(&contests[_i]);
    redlock_options options = guarded(servers_uris(), N, SHORT_TTL_MS);
    redlock_client *watcher;
    struct trail trail;

    begin_trail(&trail, &taker, SHORT_TTL_MS, contests[_i].holder_ttl_ms);
    watcher = new_client(&options);
    AWAIT(taker.taken > 0);
    AWAIT(all_count(watcher));
    end_trail(&trail, &taker);
    ck_assert_int_eq(taker.both, 0);
    redlock_client_free(watcher);
}
END_TEST

/* Negative controls: no guard, and one as long as the taker's own ttl but shorter than the
 * holder's. */
START_TEST(test_without_a_guard_two_hold)
{
    struct taker taker = taker_of(&contests[_i]);
    struct trail trail;

    taker.options.restart_guard_ms = 0;
    begin_trail(&trail, &taker, LONG_TTL_MS, LONG_TTL_MS);
    AWAIT(taker.both > 0);
    end_trail(&trail, &taker);
}
END_TEST

START_TEST(test_with_a_short_guard_two_hold)
{
    struct taker taker = taker_of(&contests[_i]);
    struct trail trail;

    taker.options.restart_guard_ms = taker.ttl_ms = 500;
    begin_trail(&trail, &taker, LONG_TTL_MS, LONG_TTL_MS);
    AWAIT(taker.both > 0);
    end_trail(&trail, &taker);
}
END_TEST

/* One of a bare majority becomes a copy of another one, and a primary again, between two samples:
 * the same run, on the same connections, with a marker; but it forgot the lease. The taker has
 * watched it for a guard, and counts it by its marker (0) or marked it itself (1). Until it looks
 * again, with a round after two seconds, it can't know. */
START_TEST(test_copied_over_while_held)
{
    enum {
        TTL_MS = 4000,
        LONGER_GUARD_MS = TTL_MS + 42 + 1000
    };
    redlock_client *holder, *taker;
    redlock_lock_options options = lock_options(1000, 0);
    redlock_lock *held;
    int64_t watched_ms;

    if (_i == 0)
        mark_all(TTL_MS);
    holder = guarded_client(TTL_MS);
    taker = guarded_client(TTL_MS);
    AWAIT(ready(taker, N) && ready(holder, N));
    watched_ms = servers_now_ms() + LONGER_GUARD_MS;
    AWAIT(servers_now_ms() > watched_ms);
    AWAIT(all_count(taker) && all_count(holder));
    assert_rc(init(taker, 0, NULL), REDLOCK_OK); /* unless that was done */
    held = hold_three(holder, TTL_MS);
    servers_replicate(0, 3);
    servers_promote(0);
    AWAIT(try_key(taker, "other") == 0 && barred(taker, 0, "may have forgotten a lease"));
    while (redlock_is_held(held)) {
        ck_assert_int_ne(try_lock(taker, &options) == 0 && redlock_is_held(held), 1);
        (void)poll(NULL, 0, 1);
    }
    (void)redlock_release(held);
    redlock_client_free(holder);
    redlock_client_free(taker);
}
END_TEST

START_TEST(test_flushed_while_held)
{
    redlock_client *client;
    redlock_lock *lock;

    mark_all(SHORT_TTL_MS);
    client = guarded_client(SHORT_TTL_MS);
    lock = hold_five(client, SHORT_TTL_MS);
    (void)servers_command(1, "FLUSHALL", NULL);
    AWAIT(barred(client, 1, "has no marker"));
    ck_assert_int_eq(redlock_margin(lock), 1);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    AWAIT(health_of(client, 1).counts_in_ms < GUARD_MS / 2);
    (void)servers_command(1, "FLUSHALL", NULL);
    AWAIT(health_of(client, 1).counts_in_ms > GUARD_MS - 500); /* anew */
    AWAIT(counts(client, 1) && redlock_margin(lock) == 2);
    AWAIT(marked_now(1));
    ck_assert_int_eq(servers_with_key("job"), N);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* ---- durable primaries -------------------------------------------------- */

static void start_durable(void)
{
    servers_start_durable(N + 1);
}

START_TEST(test_durable_counts_at_once)
{
    redlock_client *client;
    redlock_lock *lock;

    mark_all(LONG_TTL_MS); /* its guard is longer than AWAIT */
    ck_assert_ptr_nonnull(strstr(marker(0), " durable=1 "));
    client = guarded_client(LONG_TTL_MS);
    lock = hold_three(client, LONG_TTL_MS);
    restart(0);
    AWAIT(counts(client, 0) && health_of(client, 0).connects == 2);
    AWAIT(marked_now(0));
    ck_assert_ptr_nonnull(strstr(marker(0), " durable=1 "));
    assert_rc(redlock_extend(lock, 0), REDLOCK_OK); /* it is still one of three */
    assert_rc(redlock_release(lock), REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    lock = hold_three(client, LONG_TTL_MS);
    servers_kill(0);
    servers_empty(0);
    servers_revive(0);
    AWAIT(barred(client, 0, "has no marker"));
    ck_assert_int_gt(health_of(client, 0).counts_in_ms, LONG_TTL_MS - 10000);
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_LOST);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_held_heals)
{
    redlock_client *client;
    redlock_lock *lock;

    mark_all(LONG_TTL_MS);
    client = guarded_client(LONG_TTL_MS);
    lock = hold_five(client, 3000);
    servers_kill(1);
    servers_kill(3);
    AWAIT(redlock_margin(lock) == 0);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    servers_revive(1);
    servers_revive(3);
    AWAIT(redlock_margin(lock) == 2);
    AWAIT(servers_with_key("job") == N);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* A copy of member 0's data in its place, made before the lock was. It has the marker, and that it
 * is durable; but another run wrote that, and it wasn't this server's past. */
START_TEST(test_promoted_replica)
{
    const char *uris[N] = {servers_uri(N), servers_uri(1), servers_uri(2), servers_uri(3),
                           servers_uri(4)};
    redlock_options options = guarded(uris, N, LONG_TTL_MS);
    redlock_lock_options lock = lock_options(1000, 0);
    redlock_client *client, *other;
    redlock_lock *held, *second;
    const char *offset;
    char text[300], run[41];

    mark_all(LONG_TTL_MS);
    servers_replicate(N, 0);
    servers_promote(N);
    (void)snprintf(text, sizeof text, "%s", marker(0));
    ck_assert_str_eq(marker(N), text);
    client = guarded_client(LONG_TTL_MS);
    held = hold_three(client, LONG_TTL_MS);
    other = new_client(&options);
    AWAIT(barred(other, 0, "may have forgotten a lease"));
    ck_assert_int_gt(health_of(other, 0).counts_in_ms, LONG_TTL_MS - 10000);
    assert_rc(try_lock(other, &lock), REDLOCK_BUSY);
    assert_result(0, REDLOCK_VOTE_BARRED, "may have forgotten a lease");
    redlock_client_free(other);
    /* Negative control: its marker taken for a memory. */
    (void)snprintf(run, sizeof run, "%.40s",
                   strstr(servers_command(N, "INFO", "server", NULL), "run_id:") + 7);
    memcpy(strstr(text, "run=") + 4, run, 40);
    offset = strstr(servers_command(N, "INFO", "replication", NULL), "second_repl_offset:");
    (void)snprintf(strstr(text, "offset=") + 7, 20, "%ld", strtol(offset + 19, NULL, 10));
    (void)servers_command(N, "SET", "redlock:fleet", text, NULL);
    other = new_client(&options);
    AWAIT(all_count(other));
    AWAIT(servers_with_key("job") == 3);
    second = acquire(other, &lock);
    ck_assert_int_eq(redlock_is_held(held) && redlock_is_held(second), 1);
    (void)redlock_release(second);
    redlock_client_free(other);
    (void)redlock_release(held);
    redlock_client_free(client);
}
END_TEST

/* One that had a replica may have been replaced by it: not durable any more, for good. */
START_TEST(test_replicated_is_not_durable)
{
    redlock_client *client;
    redlock_lock *lock;

    mark_all(LONG_TTL_MS);
    client = guarded_client(LONG_TTL_MS);
    lock = hold_five(client, 3000);
    servers_replicate(N, 0);
    AWAIT(strstr(marker(0), " durable=0 "));
    ck_assert(counts(client, 0));
    servers_kill(N);
    restart(0);
    AWAIT(barred(client, 0, "may have forgotten a lease"));
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* ---- rights ------------------------------------------------------------- */

/* User "u" has exactly the rights that are needed, but one. At once: who connects in between would
 * take the others for refused. */
static void grant_rights(int i, const char *but)
{
    const char *r[] = {"+auth",    "+select", "+client|setname", "+info", "+config|get",
                       "+get",     "+set",    "+pttl",           "+eval", "+del",
                       "+pexpire", "+time",   "+zrange",         "+zadd"};

    for (size_t k = 0; but != NULL && k < sizeof r / sizeof r[0]; k++)
        if (strcmp(but, r[k]) == 0)
            r[k] = "on"; /* which it is anyway */
    ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "u", "reset", "on", ">pw", "~app:*",
                                     "~redlock:*", r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7],
                                     r[8], r[9], r[10], r[11], r[12], r[13], NULL),
                     "OK");
}

static char user_uris[N][96];

static redlock_client *user_client(int64_t max_ttl_ms)
{
    const char *uris[N] = {NULL};
    redlock_options options = guarded(uris, N, max_ttl_ms);

    for (int i = 0; i < N; i++) {
        (void)snprintf(user_uris[i], sizeof user_uris[i], "redis://u:pw@127.0.0.1:%d",
                       servers_port(i));
        uris[i] = user_uris[i];
    }
    options.prefix = "app:";
    return new_client(&options);
}

static void grant_all(const char *but)
{
    for (int i = 0; i < N; i++)
        grant_rights(i, but);
}

START_TEST(test_these_rights_are_enough)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;
    redlock_lock *lock;
    int64_t deadline_ns;

    grant_all(NULL);
    client = user_client(SHORT_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    lock = acquire(client, &options);
    ck_assert_int_ge(servers_with_key("app:job"), 3);
    assert_rc(redlock_extend(lock, SHORT_TTL_MS), REDLOCK_OK);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    lock = hold_five(client, SHORT_TTL_MS);
    deadline_ns = redlock_deadline_ns(lock);
    AWAIT(redlock_deadline_ns(lock) > deadline_ns);
    ck_assert_int_ge(health_of(client, 0).offset_bound_us, 0);
    restart(0);
    grant_rights(0, NULL);
    AWAIT(barred(client, 0, "has no marker"));
    AWAIT(counts(client, 0) && marked_now(0));
    AWAIT(redlock_margin(lock) == 2);
    for (int i = 0; i < N; i++) { /* nothing was refused but, for a moment, the user */
        const char *log = servers_command(i, "ACL", "LOG", NULL);

        ck_assert_msg(strstr(log, "reason\ncommand") == NULL && strstr(log, "reason\nkey") == NULL,
                      "%s", log);
    }
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_without_info_no_vote)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;

    grant_all("+info");
    client = user_client(SHORT_TTL_MS);
    AWAIT(ready(client, N));
    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++)
        assert_result(i, REDLOCK_VOTE_BARRED, "grant +info");
    assert_rc(init(client, 1, NULL), REDLOCK_NO_QUORUM);
    assert_result(0, REDLOCK_VOTE_ERROR, "grant +info");
    ck_assert(bare(0));
    redlock_client_free(client);
}
END_TEST

START_TEST(test_without_the_marker_no_vote)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;

    grant_all(NULL);
    mark_all(SHORT_TTL_MS);
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "ACL", "SETUSER", "u", "resetkeys", "~app:*", NULL);
    client = user_client(SHORT_TTL_MS);
    AWAIT(ready(client, N));
    assert_rc(try_lock(client, &options), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++)
        assert_result(i, REDLOCK_VOTE_BARRED, "+get ~redlock:*");
    redlock_client_free(client);
}
END_TEST

START_TEST(test_unwritable_marker_is_said)
{
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;

    grant_all("+set");
    for (int i = 0; i < N; i++)
        ck_assert_str_eq(servers_command(i, "ACL", "SETUSER", "u", "(+set +get +del ~app:*)", NULL),
                         "OK");
    client = user_client(SHORT_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_NO_QUORUM);
    for (int i = 0; i < N; i++) {
        assert_result(i, REDLOCK_VOTE_ERROR, "refused to be marked");
        ck_assert(bare(i));
    }
    AWAIT(all_count(client)); /* it works without, after a guard */
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

/* What is nice to have: without it one thing less is known. */
START_TEST(test_rights_one_can_do_without)
{
    static const char *const rights[] = {"+client|setname", "+time", "+config|get", "+select"};
    redlock_lock_options options = lock_options(1000, 0);
    redlock_client *client;
    redlock_lock *lock;

    grant_all(rights[_i]);
    client = user_client(SHORT_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    assert_rc(try_lock(client, &options), REDLOCK_OK);
    lock = hold_five(client, SHORT_TTL_MS);
    ck_assert_int_eq(health_of(client, 0).offset_bound_us == -1, _i == 1);
    restart(0);
    grant_rights(0, rights[_i]);
    AWAIT(barred(client, 0, "has no marker"));
    AWAIT(counts(client, 0) && marked_now(0));
    ck_assert_int_eq(redlock_is_held(lock), 1);
    assert_rc(redlock_release(lock), REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_unseen_settings_are_not_durable)
{
    redlock_client *client;

    grant_all("+config|get");
    client = user_client(LONG_TTL_MS);
    assert_rc(init(client, 1, NULL), REDLOCK_OK);
    for (int i = 0; i < N; i++)
        ck_assert_ptr_nonnull(strstr(marker(i), " durable=0 "));
    restart(0);
    grant_rights(0, "+config|get");
    AWAIT(barred(client, 0, "may have forgotten a lease"));
    ck_assert_int_gt(health_of(client, 0).counts_in_ms, LONG_TTL_MS - 10000);
    redlock_client_free(client);
}
END_TEST

static TCase *new_case(Suite *suite, const char *name, void start(void))
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, start, servers_stop);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* ---- what is written ---------------------------------------------------- */

/* Since when a run is known is kept for as long as somebody asks, then it goes: no primary keeps
 * one such key for each of its restarts. */
START_TEST(test_what_was_seen_is_kept_while_it_is_asked_for)
{
    redlock_client *client = guarded_client(LONG_TTL_MS);
    char key[64], value[32];
    const char *at;

    at = strstr(servers_command(0, "INFO", "server", NULL), "run_id:");
    ck_assert_ptr_nonnull(at);
    (void)snprintf(key, sizeof key, "redlock:seen:%.40s", at + strlen("run_id:"));
    AWAIT(servers_command(0, "GET", key, NULL) != NULL);
    (void)snprintf(value, sizeof value, "%s", servers_command(0, "GET", key, NULL));
    ck_assert_int_gt(atoll(servers_command(0, "PTTL", key, NULL)), INT64_C(6) * 86400000);
    (void)servers_command(0, "PEXPIRE", key, "9000", NULL);
    AWAIT(atoll(servers_command(0, "PTTL", key, NULL)) > 9000);
    ck_assert_str_eq(servers_command(0, "GET", key, NULL), value);
    redlock_client_free(client);
}
END_TEST

static Suite *members_suite(void)
{
    Suite *suite = suite_create("members");
    TCase *marking = new_case(suite, "marking", start_five);
    TCase *guard = new_case(suite, "guard", start_five);
    TCase *durable = new_case(suite, "durable", start_durable);
    TCase *rights = new_case(suite, "rights", start_five);

    tcase_add_test(marking, test_init_marks_once);
    tcase_add_test(marking, test_init_watches_for_a_guard);
    tcase_add_test(marking, test_init_needs_all);
    tcase_add_test(marking, test_no_round_trip_more);
    tcase_add_test(marking, test_other_options_than_marked);
    tcase_add_test(marking, test_unset_options_are_the_fleets);
    tcase_add_test(marking, test_one_server_under_two_addresses);
    tcase_add_test(marking, test_replica_at_start);
    tcase_add_test(marking, test_replica_while_held);
    tcase_add_test(guard, test_unmarked_fleet_waits);
    tcase_add_test(guard, test_waiting_lasts_as_long_as_the_guard);
    tcase_add_loop_test(guard, test_holder_outlives_two_restarts, 0, CONTESTS);
    tcase_add_loop_test(guard, test_three_restarts_end_a_hold, 0, CONTESTS);
    tcase_add_loop_test(guard, test_bare_majority_and_a_restart, 0, CONTESTS);
    tcase_add_loop_test(guard, test_bare_majority_to_its_end, 0, CONTESTS);
    tcase_add_loop_test(guard, test_without_a_guard_two_hold, 0, CONTESTS);
    tcase_add_loop_test(guard, test_with_a_short_guard_two_hold, 0, CONTESTS);
    tcase_add_loop_test(guard, test_copied_over_while_held, 0, 2);
    tcase_add_test(guard, test_flushed_while_held);
    tcase_add_test(guard, test_what_was_seen_is_kept_while_it_is_asked_for);
    tcase_add_test(durable, test_durable_counts_at_once);
    tcase_add_test(durable, test_held_heals);
    tcase_add_test(durable, test_promoted_replica);
    tcase_add_test(durable, test_replicated_is_not_durable);
    tcase_add_test(durable, test_unseen_settings_are_not_durable);
    tcase_add_test(rights, test_these_rights_are_enough);
    tcase_add_test(rights, test_without_info_no_vote);
    tcase_add_test(rights, test_without_the_marker_no_vote);
    tcase_add_test(rights, test_unwritable_marker_is_said);
    tcase_add_loop_test(rights, test_rights_one_can_do_without, 0, 4);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(members_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
