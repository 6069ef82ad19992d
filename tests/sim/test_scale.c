/*
 * Very many leases in one client. The checkers of the simulator look at every lock after every
 * event, so this has a world of its own: one engine, and primaries that keep when each key ends,
 * take some microseconds for a command, and answer in order.
 *
 * That no work is done for leases of which nothing is due is counted, not measured: this program
 * is linked with a wrapper around the function that looks at a lease's deadlines.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "server.h"
#include "sim.h"
#include "validity.h"

enum {
    N = 3,
    LEASES = 100000,
    BATCH = 10000, /* acquired at once */
    TTL_MS = 30000,
    LATENCY_US = 500,
    SERVICE_US = 5
};

struct answer {
    int64_t due_ns;
    size_t len;
};

struct primary {
    struct sim_server server; /* for what it is asked about itself */
    struct sim_peer peer;
    int64_t busy_ns;
    char *data; /* answers on their way */
    size_t begin, end, size;
    struct answer *answers;
    size_t first, count, room;
    int64_t *until_ns; /* of each key; 0: there is none */
    uint64_t late;     /* extends that came when there was none any more */
};

static struct {
    struct redlock__engine *engine;
    struct redlock__lease **leases;
    struct primary primaries[N];
    struct redlock__node_config nodes[N];
    uint32_t max_leases;
    int64_t now_ns;
    struct sim_random random;
    uint64_t dones, renewed, failing, lost;
} world;

/* ---- counting ----------------------------------------------------------- */

static uint64_t looks;

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
void __real_redlock__lease_handle_deadline(struct redlock__lease *lease, uint64_t *random,
                                           int64_t now_ns);
void __wrap_redlock__lease_handle_deadline(struct redlock__lease *lease, uint64_t *random,
                                           int64_t now_ns);

void __wrap_redlock__lease_handle_deadline(struct redlock__lease *lease, uint64_t *random,
                                           int64_t now_ns)
{
    looks++;
    __real_redlock__lease_handle_deadline(lease, random, now_ns);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- primaries ---------------------------------------------------------- */

static void *grown(void *data, size_t size)
{
    void *more = realloc(data, size);

    ck_assert_ptr_nonnull(more);
    return more;
}

static void say(struct primary *primary, int64_t due_ns, const char *data, size_t len)
{
    if (primary->first == primary->count)
        primary->first = primary->count = primary->begin = primary->end = 0;
    if (primary->end + len > primary->size) {
        primary->size = 2 * (primary->end + len);
        primary->data = grown(primary->data, primary->size);
    }
    if (primary->count == primary->room) {
        primary->room = 2 * primary->room + 1024;
        primary->answers = grown(primary->answers, primary->room * sizeof(*primary->answers));
    }
    memcpy(primary->data + primary->end, data, len);
    primary->end += len;
    primary->answers[primary->count++] = (struct answer){.due_ns = due_ns, .len = len};
}

/* SET, extends and releases, of keys whose names are numbers. */
static const char *execute(struct primary *primary, const struct sim_args *args,
                           enum sim_command command, int64_t now_ns)
{
    size_t key_at = command == SIM_SET ? 1 : 3;
    int64_t *until_ns, ttl_ns;
    uint32_t number;

    if (args->len[key_at] != sizeof number)
        ck_abort_msg("a key that is no number");
    memcpy(&number, args->data[key_at], sizeof number);
    if (number >= world.max_leases)
        ck_abort_msg("a key of nobody");
    until_ns = &primary->until_ns[number];
    ttl_ns = command == SIM_RELEASE ? 0 : sim_number(args, 5) * SIM_MS;
    if (command == SIM_SET) {
        *until_ns = now_ns + ttl_ns;
        return "+OK\r\n";
    }
    if (*until_ns <= now_ns) {
        primary->late += command == SIM_EXTEND;
        *until_ns = 0;
        return ":0\r\n";
    }
    *until_ns = command == SIM_RELEASE ? 0 : redlock__max(*until_ns, now_ns + ttl_ns);
    return ":1\r\n";
}

static void hear(struct primary *primary, const struct sim_args *args)
{
    enum sim_command command = sim_classify(args);
    int64_t arrived_ns = world.now_ns + LATENCY_US * SIM_US;
    const char *word;
    struct sim_reply reply;

    primary->busy_ns = redlock__max(primary->busy_ns, arrived_ns) + SERVICE_US * SIM_US;
    if (command == SIM_SET || command == SIM_EXTEND || command == SIM_RELEASE) {
        word = execute(primary, args, command, primary->busy_ns);
        say(primary, primary->busy_ns + LATENCY_US * SIM_US, word, strlen(word));
        return;
    }
    sim_server_execute(&primary->server, &primary->peer, args, primary->busy_ns, &reply);
    say(primary, primary->busy_ns + LATENCY_US * SIM_US, reply.data, reply.len);
}

/* ---- the world ---------------------------------------------------------- */

static void entropy(void *context, void *buf, size_t len)
{
    unsigned char *bytes = buf;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (unsigned char)sim_random(context);
}

static void make(uint32_t max_leases, uint32_t max_locks)
{
    struct redlock__engine_config config = {.n = N,
                                            .nodes = world.nodes,
                                            .drift_ppm = 10000,
                                            .max_ttl_ms = 60000,
                                            .max_locks = max_locks,
                                            .entropy = entropy,
                                            .entropy_context = &world.random};

    memset(&world, 0, sizeof world);
    world.max_leases = max_leases;
    world.now_ns = 1000 * SIM_S;
    world.leases = calloc(max_leases, sizeof(struct redlock__lease *));
    ck_assert_ptr_nonnull(world.leases);
    for (uint32_t i = 0; i < N; i++) {
        world.nodes[i] = (struct redlock__node_config){.client_name = "scale",
                                                       .connect_timeout_ns = SIM_S,
                                                       .silence_limit_ns = 10 * SIM_S,
                                                       .seed = i};
        sim_server_init(&world.primaries[i].server, i);
        world.primaries[i].until_ns = calloc(max_leases, sizeof(int64_t));
        ck_assert_ptr_nonnull(world.primaries[i].until_ns);
    }
    world.engine = redlock__engine_new(&config, world.now_ns);
    ck_assert_ptr_nonnull(world.engine);
    looks = 0;
}

static void end(void)
{
    redlock__engine_free(world.engine);
    for (uint32_t i = 0; i < N; i++) {
        sim_server_destroy(&world.primaries[i].server);
        free(world.primaries[i].until_ns);
        free(world.primaries[i].answers);
        free(world.primaries[i].data);
    }
    free(world.leases);
}

static void pull_events(void)
{
    struct redlock__lease *lease;
    redlock_event event;

    while ((event = redlock__engine_pull_event(world.engine, &lease)) != REDLOCK_EVENT_NONE) {
        world.dones += event == REDLOCK_EVENT_DONE;
        world.renewed += event == REDLOCK_EVENT_RENEWED;
        world.failing += event == REDLOCK_EVENT_RENEWAL_FAILING;
        world.lost += event == REDLOCK_EVENT_LOST;
    }
}

/* Connects at once, and hands over all that is to be sent. */
static void drive(void)
{
    for (uint32_t i = 0; i < N; i++) {
        struct redlock__node *node = redlock__engine_node(world.engine, i);
        struct sim_args args;
        size_t len, used, at = 0;
        const char *data;

        if (redlock__node_take_task(node, world.now_ns) == REDLOCK__TASK_CONNECT)
            redlock__engine_connected(world.engine, i, world.now_ns);
        data = redlock__node_output(node, &len);
        for (; at < len; at += used) {
            used = sim_parse(data + at, len - at, &args);
            if (used == 0) /* each assertion that holds costs a system call */
                ck_abort_msg("half a command");
            hear(&world.primaries[i], &args);
        }
        redlock__node_sent(node, len);
    }
    pull_events();
}

static void deliver(uint32_t i)
{
    struct primary *primary = &world.primaries[i];
    size_t len = 0;

    for (; primary->first < primary->count; primary->first++) {
        if (primary->answers[primary->first].due_ns > world.now_ns)
            break;
        len += primary->answers[primary->first].len;
    }
    if (len > 0)
        redlock__engine_receive(world.engine, i, primary->data + primary->begin, len, world.now_ns);
    primary->begin += len;
}

static bool is_quiet(void)
{
    for (uint32_t i = 0; i < N; i++)
        if (world.primaries[i].first < world.primaries[i].count)
            return false;
    return true;
}

/* By milliseconds while answers are on their way, else from deadline to deadline. */
static void run(int64_t for_ms)
{
    int64_t end_ns = world.now_ns + for_ms * SIM_MS;

    while (world.now_ns < end_ns) {
        int64_t next_ns = redlock__engine_next_deadline(world.engine);

        if (!is_quiet())
            next_ns = redlock__min(next_ns, world.now_ns + SIM_MS);
        world.now_ns = redlock__min(redlock__max(next_ns, world.now_ns + SIM_US), end_ns);
        for (uint32_t i = 0; i < N; i++)
            deliver(i);
        redlock__engine_handle_deadline(world.engine, world.now_ns);
        drive();
    }
}

/* ---- applications ------------------------------------------------------- */

static int acquire(uint32_t i, const struct redlock__lease_config *config)
{
    return redlock__engine_acquire(world.engine, &i, sizeof i, config, world.now_ns,
                                   &world.leases[i]);
}

static uint32_t held(uint32_t count)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += redlock__lease_held(world.leases[i], world.now_ns);
    return sum;
}

static void hold_all(uint32_t count)
{
    struct redlock__lease_config config = sim_lock_config(TTL_MS);

    config.renew = true;
    drive();
    run(100);
    for (uint32_t i = 0; i < count; i++) {
        if (acquire(i, &config) != REDLOCK_OK)
            ck_abort_msg("not begun");
        if ((i + 1) % BATCH != 0 && i + 1 < count)
            continue;
        drive();
        run(200);
    }
    ck_assert_uint_eq(held(count), count);
    ck_assert_uint_eq(world.lost + world.failing, 0);
    world.renewed = looks = 0;
}

static redlock_stats stats(void)
{
    redlock_stats all = {.size = sizeof all};

    redlock__engine_stats(world.engine, &all);
    return all;
}

static void forget_all(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        redlock__engine_forget(world.engine, world.leases[i], true, world.now_ns);
}

static uint64_t late_extends(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < N; i++)
        sum += world.primaries[i].late;
    return sum;
}

/* ---- tests -------------------------------------------------------------- */

START_TEST(a_hundred_thousand_are_kept_and_only_those_due_are_looked_at)
{
    make(LEASES, 0);
    hold_all(LEASES);
    run(3 * TTL_MS);
    ck_assert_uint_eq(held(LEASES), LEASES);
    ck_assert_uint_eq(world.lost + world.failing + late_extends(), 0);
    ck_assert_uint_ge(world.renewed, 8 * (uint64_t)LEASES);
    ck_assert_uint_le(world.renewed, 10 * (uint64_t)LEASES);
    ck_assert_uint_le(looks, world.renewed + LEASES);
    ck_assert_uint_eq(stats().disconnects, 0);
    forget_all(LEASES);
    end();
}
END_TEST

/* All are due when it goes on, more than primaries answer within a node timeout. */
START_TEST(after_a_pause_all_are_renewed_and_none_waits_too_long)
{
    static const int64_t pauses_ms[] = {12000, 20000, 26000};

    make(LEASES, 0);
    hold_all(LEASES);
    world.now_ns += pauses_ms[_i] * SIM_MS;
    redlock__engine_handle_deadline(world.engine, world.now_ns);
    drive();
    ck_assert_uint_le(redlock__node_pending(redlock__engine_node(world.engine, 0)), LEASES / 10);
    run(1500);
    ck_assert_uint_eq(held(LEASES), LEASES);
    ck_assert_uint_eq(world.renewed, LEASES);
    ck_assert_uint_eq(world.lost + world.failing + late_extends(), 0);
    forget_all(LEASES);
    end();
}
END_TEST

/* All are lost at once. */
START_TEST(after_a_longer_pause_all_are_lost_and_the_connections_stay)
{
    make(LEASES, 0);
    hold_all(LEASES);
    world.now_ns += TTL_MS * SIM_MS;
    redlock__engine_handle_deadline(world.engine, world.now_ns);
    drive();
    ck_assert_uint_eq(world.lost, LEASES);
    ck_assert_uint_lt(redlock__node_pending(redlock__engine_node(world.engine, 0)), LEASES / 2);
    run(20000);
    ck_assert_uint_eq(stats().disconnects, 0);
    ck_assert_uint_eq(stats().cleanups, 0);
    forget_all(LEASES);
    end();
}
END_TEST

/* Not just the quorum that decided: whoever is read in the same turn. */
START_TEST(what_one_turn_brings_counts_together)
{
    struct redlock__lease_config config = sim_lock_config(TTL_MS);
    const struct redlock__lease *lease;

    make(1, 0);
    drive();
    run(100);
    ck_assert_int_eq(acquire(0, &config), REDLOCK_OK);
    lease = world.leases[0];
    drive();
    run(10);
    ck_assert_uint_eq(held(1), 1);
    ck_assert_uint_eq(lease->counted, (1 << N) - 1);
    ck_assert_uint_eq(lease->round.owed, 0);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_int_eq((redlock_vote)redlock__lease_said(lease)[i].vote, REDLOCK_VOTE_OURS);
    forget_all(1);
    end();
}
END_TEST

/* The same turn brings a yes to the SET and one to its removal, of each. */
START_TEST(answers_to_two_requests_stay_apart)
{
    struct redlock__lease_config config = sim_lock_config(TTL_MS);

    make(1, 0);
    drive();
    run(100);
    ck_assert_int_eq(acquire(0, &config), REDLOCK_OK);
    redlock__engine_forget(world.engine, world.leases[0], false, world.now_ns);
    drive();
    ck_assert_uint_eq(stats().cleanups, 1);
    run(10);
    ck_assert_uint_eq(stats().cleanups, 0);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_int_eq(world.primaries[i].until_ns[0], 0);
    end();
}
END_TEST

/* Requests are borrowed by those who send them. A driver may say that it has sent one when the next
 * is there already, or say nothing. */
START_TEST(a_request_goes_out_as_it_was_made)
{
    struct redlock__lease_config config = sim_lock_config(TTL_MS);
    uint32_t primaries;

    make(3, 0);
    drive();
    run(100);
    (void)redlock__engine_stirred(world.engine);
    ck_assert_int_eq(acquire(0, &config), REDLOCK_OK);
    primaries = redlock__engine_stirred(world.engine);
    ck_assert_uint_eq(primaries, (1 << N) - 1);
    drive();
    if (_i == 0)
        redlock__engine_sent(world.engine, primaries);
    ck_assert_int_eq(acquire(1, &config), REDLOCK_OK);
    ck_assert(redlock__node_borrows(redlock__engine_node(world.engine, 0)));
    if (_i == 1)
        redlock__engine_sent(world.engine, primaries);
    ck_assert_int_eq(acquire(2, &config), REDLOCK_OK);
    drive();
    run(10);
    ck_assert_uint_eq(held(3), 3);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < 3; k++)
            ck_assert_int_gt(world.primaries[i].until_ns[k], world.now_ns);
    forget_all(3);
    end();
}
END_TEST

/* Each asks another primary than the others whether somebody waits: those borrow what no other has.
 */
START_TEST(releases_go_out_as_they_were_made)
{
    enum {
        SOME = 50
    };
    make(SOME, 0);
    hold_all(SOME);
    for (uint32_t k = 0; k < SOME; k++)
        ck_assert_int_eq(redlock__engine_release(world.engine, world.leases[k], world.now_ns),
                         REDLOCK_OK);
    drive();
    run(10);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t k = 0; k < SOME; k++)
            ck_assert_int_eq(world.primaries[i].until_ns[k], 0);
    forget_all(SOME);
    end();
}
END_TEST

START_TEST(there_is_a_limit)
{
    enum {
        LIMIT = 1000
    };
    struct redlock__lease_config config = sim_lock_config(TTL_MS);

    make(LIMIT + 1, LIMIT);
    config.wait_ms = REDLOCK_WAIT_FOREVER;
    for (uint32_t i = 0; i < LIMIT; i++)
        ck_assert_int_eq(acquire(i, &config), REDLOCK_OK);
    ck_assert_int_eq(acquire(LIMIT, &config), REDLOCK_ERR_LIMIT);
    ck_assert_uint_eq(stats().leases, LIMIT);
    redlock__engine_forget(world.engine, world.leases[LIMIT - 1], false, world.now_ns);
    ck_assert_int_eq(acquire(LIMIT, &config), REDLOCK_OK);
    world.leases[LIMIT - 1] = world.leases[LIMIT];
    forget_all(LIMIT);
    ck_assert_uint_eq(stats().leases, 0);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scale");
    TCase *tcase = tcase_create("scale");
    SRunner *runner;
    int failed;

    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, a_hundred_thousand_are_kept_and_only_those_due_are_looked_at);
    tcase_add_loop_test(tcase, after_a_pause_all_are_renewed_and_none_waits_too_long, 0, 3);
    tcase_add_test(tcase, after_a_longer_pause_all_are_lost_and_the_connections_stay);
    tcase_add_test(tcase, what_one_turn_brings_counts_together);
    tcase_add_test(tcase, answers_to_two_requests_stay_apart);
    tcase_add_loop_test(tcase, a_request_goes_out_as_it_was_made, 0, 3);
    tcase_add_test(tcase, releases_go_out_as_they_were_made);
    tcase_add_test(tcase, there_is_a_limit);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
