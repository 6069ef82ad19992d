/*
 * Waking across processes, on real servers: how many attempts fail, in what order waiters are
 * served, what a lone waiter gets against a crowd, and that nothing of it is needed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    PROCESSES = 16,
    ROUNDS = 40,
    THREADS = 16,
    TURNS = 1200
};

/* Of all processes of a test. */
static struct shared {
    _Atomic int ready, go, stop, inside, most_inside, wrong;
    _Atomic long ticket, acquired, failed, overtaken;
    _Atomic long arrival[PROCESSES]; /* 0: doesn't wait */
    _Atomic long turns[2];           /* the process's, the threads' */
} * shared;

static void start(void)
{
    servers_start(N);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
}

static void stop(void)
{
    servers_stop();
    (void)munmap(shared, sizeof *shared);
}

/* For which a loaded machine is no silent one, and servers that have just started are no old ones.
 */
static redlock_client *patient_client_of(const char *const *uris, redlock_log_fn *log)
{
    redlock_options options = options_for(uris, N);

    options.node_timeout_ms = 2000;
    options.silence_limit_ms = 60000;
    options.restart_guard_ms = 0;
    options.log = log;
    return new_client(&options);
}

/* In a thread or process of its own: leaves the results of locking.h alone. */
static redlock_lock_options quiet_options(int64_t wait_ms)
{
    redlock_lock_options options = lock_options(30000, wait_ms);

    options.results = NULL;
    options.result_count = 0;
    return options;
}

static redlock_client *patient_client(void)
{
    return patient_client_of(servers_uris(), NULL);
}

static void hold(redlock_client *client, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int inside;

    if (redlock_acquire(client, "job", 3, options, &lock) != 0) {
        atomic_store(&shared->wrong, 1);
        return;
    }
    inside = atomic_fetch_add(&shared->inside, 1) + 1;
    if (inside > atomic_load(&shared->most_inside))
        atomic_store(&shared->most_inside, inside);
    (void)poll(NULL, 0, 1);
    atomic_fetch_sub(&shared->inside, 1);
    if (redlock_release(lock) != 0)
        atomic_store(&shared->wrong, 1);
}

static void finish_children(int count)
{
    for (int i = 0; i < count; i++) {
        int status = 1;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_int_eq(shared->wrong, 0);
    ck_assert_int_eq(shared->most_inside, 1);
}

/* ---- processes ---------------------------------------------------------- */

/* How many that came earlier still wait. */
static long overtaken_by(int self, long mine)
{
    long count = 0;

    for (int k = 0; k < PROCESSES; k++) {
        long arrival = atomic_load(&shared->arrival[k]);
        count += k != self && arrival != 0 && arrival < mine;
    }
    return count;
}

static void contend(int self)
{
    redlock_client *client = patient_client();
    redlock_lock_options options = quiet_options(60000);
    redlock_stats stats = {.size = sizeof stats};

    AWAIT(is_settled(client, N));
    atomic_fetch_add(&shared->ready, 1);
    AWAIT(atomic_load(&shared->go));
    for (int round = 0; round < ROUNDS; round++) {
        long mine = atomic_fetch_add(&shared->ticket, 1) + 1;
        redlock_lock *lock = NULL;
        int rc, inside;

        atomic_store(&shared->arrival[self], mine);
        rc = redlock_acquire(client, "job", 3, &options, &lock);
        atomic_store(&shared->arrival[self], 0);
        if (rc != 0) {
            atomic_store(&shared->wrong, 1);
            break;
        }
        inside = atomic_fetch_add(&shared->inside, 1) + 1;
        if (inside > atomic_load(&shared->most_inside))
            atomic_store(&shared->most_inside, inside);
        atomic_fetch_add(&shared->overtaken, overtaken_by(self, mine));
        (void)poll(NULL, 0, 1);
        atomic_fetch_sub(&shared->inside, 1);
        if (redlock_release(lock) != 0)
            atomic_store(&shared->wrong, 1);
    }
    (void)redlock_stats_get(client, &stats);
    atomic_fetch_add(&shared->acquired, (long)stats.acquired);
    atomic_fetch_add(&shared->failed, (long)(stats.attempts - stats.acquired));
    redlock_client_free(client);
}

START_TEST(test_sixteen_processes_take_turns)
{
    for (int k = 0; k < PROCESSES; k++)
        if (fork() == 0) {
            contend(k);
            _exit(0);
        }
    AWAIT(atomic_load(&shared->ready) == PROCESSES);
    atomic_store(&shared->go, 1);
    finish_children(PROCESSES);
    ck_assert_int_eq(shared->acquired, PROCESSES * ROUNDS);
    printf("%d processes, %ld acquisitions: %.2f failed attempts each, overtaken %.2f of %d\n",
           PROCESSES, shared->acquired, (double)shared->failed / (double)shared->acquired,
           (double)shared->overtaken / (double)shared->acquired, PROCESSES - 1);
    ck_assert_int_le(shared->failed, 4 * shared->acquired);
    ck_assert_int_le(shared->overtaken, 8 * shared->acquired); /* by lot it would be 7.5 */
    ck_assert_int_gt(servers_count(0, "lpush") + servers_count(1, "lpush") +
                         servers_count(2, "lpush") + servers_count(3, "lpush") +
                         servers_count(4, "lpush"),
                     0);
}
END_TEST

/* ---- threads against a process ------------------------------------------ */

static void *run_thread(void *argument)
{
    redlock_lock_options options = quiet_options(60000);

    while (atomic_load(&shared->stop) == 0) {
        hold(argument, &options);
        if (atomic_fetch_add(&shared->turns[1], 1) + 1 + atomic_load(&shared->turns[0]) >= TURNS)
            atomic_store(&shared->stop, 1);
    }
    return NULL;
}

START_TEST(test_a_process_gets_its_share_against_sixteen_threads)
{
    pthread_t ids[THREADS];
    redlock_client *client;
    long all;

    if (fork() == 0) {
        redlock_lock_options options = quiet_options(60000);
        client = patient_client();
        AWAIT(is_settled(client, N));
        atomic_fetch_add(&shared->ready, 1);
        while (atomic_load(&shared->stop) == 0) {
            hold(client, &options);
            atomic_fetch_add(&shared->turns[0], 1);
        }
        redlock_client_free(client);
        _exit(0);
    }
    client = patient_client();
    AWAIT(is_settled(client, N) && atomic_load(&shared->ready) == 1);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&ids[i], NULL, run_thread, client), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(ids[i], NULL);
    finish_children(1);
    all = shared->turns[0] + shared->turns[1];
    printf("one process against %d threads: %ld of %ld\n", THREADS, shared->turns[0], all);
    ck_assert_int_ge(shared->turns[0], all / 40);
    redlock_client_free(client);
}
END_TEST

/* ---- without any of it -------------------------------------------------- */

START_TEST(test_alone_nothing_is_added)
{
    enum {
        CYCLES = 200
    };
    redlock_client *client = patient_client();
    redlock_lock_options options = lock_options(30000, 1000);

    AWAIT(is_settled(client, N));
    servers_reset_counts();
    for (int k = 0; k < CYCLES; k++)
        assert_rc(try_lock(client, &options), REDLOCK_OK);
    AWAIT(is_settled(client, N));
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(servers_count(i, "set"), CYCLES);
        ck_assert_int_eq(servers_count(i, "eval"), CYCLES);
        ck_assert_int_eq(servers_count(i, "blpop"), 0);
        ck_assert_int_eq(servers_count(i, "lpush"), 0);
        ck_assert_int_eq(servers_count(i, "pexpire"), 0);
    }
    redlock_client_free(client);
}
END_TEST

struct waiter {
    redlock_client *client;
    redlock_lock_options options;
    int rc;
};

static void *run_waiter(void *argument)
{
    struct waiter *waiter = argument;

    waiter->rc = try_lock(waiter->client, &waiter->options);
    return NULL;
}

static long count_all(const char *command)
{
    long sum = 0;

    for (int i = 0; i < N; i++)
        sum += servers_count(i, command);
    return sum;
}

/* A client of another make: SET NX PX, and DEL when done. */
START_TEST(test_a_foreign_release_is_found_by_polling)
{
    redlock_client *client = patient_client();
    struct waiter waiter = {client, quiet_options(REDLOCK_WAIT_FOREVER), 1};
    pthread_t id;

    for (int i = 0; i < N; i++)
        (void)servers_command(i, "SET", "job", "foreign", "NX", "PX", "60000", NULL);
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(count_all("blpop") == 1);
    for (int i = 0; i < N; i++)
        (void)servers_command(i, "DEL", "job", NULL);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    redlock_client_free(client);
}
END_TEST

static _Atomic int complaints;

static void on_line(void *context, int level, const char *line)
{
    (void)context;
    (void)level;
    if (strstr(line, "+blpop") != NULL)
        atomic_fetch_add(&complaints, 1);
}

START_TEST(test_without_the_right_to_block)
{
    redlock_client *client = patient_client(), *poor = NULL;
    redlock_lock_options options = lock_options(30000, 0);
    struct waiter waiter = {.options = quiet_options(REDLOCK_WAIT_FOREVER), .rc = 1};
    char uris[N][64];
    const char *list[N];
    pthread_t id;

    for (int i = 0; i < N; i++) {
        (void)servers_command(i, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "+@all", "-blpop",
                              NULL);
        (void)snprintf(uris[i], sizeof uris[i], "redis://poor:pw@127.0.0.1:%d", servers_port(i));
        list[i] = uris[i];
    }
    poor = waiter.client = patient_client_of(list, on_line);
    for (int round = 0; round < 3; round++) {
        redlock_lock *lock = acquire(client, &options);
        ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
        AWAIT(atomic_load(&complaints) == 1);
        ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
        (void)pthread_join(id, NULL);
        ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    }
    ck_assert_int_eq(complaints, 1);
    redlock_client_free(poor);
    redlock_client_free(client);
}
END_TEST

/* Rights on the names of locks only: the release must not suffer from what it asks. */
START_TEST(test_without_any_right_on_own_keys)
{
    char uris[N][64];
    const char *list[N];
    redlock_client *poor, *client = patient_client();
    struct waiter waiter = {client, quiet_options(REDLOCK_WAIT_FOREVER), 1};
    redlock_lock_options plain = lock_options(30000, 0);
    redlock_lock *lock;
    pthread_t id;

    for (int i = 0; i < N; i++) {
        (void)servers_command(i, "ACL", "SETUSER", "poor", "on", ">pw", "~job", "+@all", NULL);
        (void)snprintf(uris[i], sizeof uris[i], "redis://poor:pw@127.0.0.1:%d", servers_port(i));
        list[i] = uris[i];
    }
    poor = patient_client_of(list, NULL);
    lock = acquire(poor, &plain);
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(count_all("blpop") == 1);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(poor);
    redlock_client_free(client);
}
END_TEST

/* The set docs/operations.md names is enough; polls are too far apart to help. */
START_TEST(test_the_documented_rights_are_enough)
{
    char uris[N][64];
    const char *list[N];
    redlock_lock_options options = lock_options(60000, 0);
    struct waiter waiter = {.options = quiet_options(REDLOCK_WAIT_FOREVER), .rc = 1};
    redlock_client *client;
    redlock_lock *lock;
    pthread_t id;

    for (int i = 0; i < N; i++) {
        (void)servers_command(i, "ACL", "SETUSER", "locks", "on", ">pw", "~job", "~redlock:*",
                              "+info", "+config|get", "+get", "+set", "+pttl", "+eval", "+del",
                              "+pexpire", "+time", "+blpop", "+lpush", "+client|setname", NULL);
        (void)snprintf(uris[i], sizeof uris[i], "redis://locks:pw@127.0.0.1:%d", servers_port(i));
        list[i] = uris[i];
    }
    client = patient_client_of(list, NULL);
    waiter.client = patient_client_of(list, NULL);
    waiter.options.retry_base_ms = waiter.options.retry_cap_ms = 600000;
    lock = acquire(client, &options);
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(count_all("blpop") == 1);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    redlock_client_free(waiter.client);
    redlock_client_free(client);
}
END_TEST

static int64_t cpu_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

START_TEST(test_waiting_costs_little)
{
    redlock_client *client = patient_client(), *other = patient_client();
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, &options);
    struct waiter waiter = {other, quiet_options(REDLOCK_WAIT_FOREVER), 1};
    redlock_stats before = {.size = sizeof before}, after = {.size = sizeof after};
    int64_t cpu;
    pthread_t id;

    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(count_all("blpop") == 1);
    (void)redlock_stats_get(other, &before);
    cpu = cpu_ms();
    AWAIT(count_all("blpop") == 3); /* some six seconds */
    cpu = cpu_ms() - cpu;
    (void)redlock_stats_get(other, &after);
    printf("waiting through two renewals: %lu requests to %d primaries, %ld ms of CPU\n",
           (unsigned long)(after.requests - before.requests), N, (long)cpu);
    ck_assert_uint_le(after.requests - before.requests, 600);
    ck_assert_int_le(cpu, 3000); /* with the waiting test itself, which asks every millisecond */
    ck_assert_uint_eq(after.leases, 1);
    ck_assert_uint_le(after.cleanups, 2);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    redlock_client_free(other);
    redlock_client_free(client);
}
END_TEST

/* The background thread does the rest of a release nobody waits for. */
START_TEST(test_a_started_release_wakes_too)
{
    redlock_client *client = patient_client(), *other = patient_client();
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, &options);
    struct waiter waiter = {other, quiet_options(REDLOCK_WAIT_FOREVER), 1};
    pthread_t id;

    waiter.options.retry_base_ms = waiter.options.retry_cap_ms = 60000;
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(count_all("blpop") == 1);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    AWAIT(redlock_poll_result(lock) != REDLOCK_PENDING);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_OK);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_OK);
    ck_assert_int_ge(count_all("lpush"), 1); /* and one of its own */
    redlock_client_free(other);
    redlock_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wake");
    TCase *crowds = tcase_create("crowds"), *plain = tcase_create("plain");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(crowds, start, stop);
    tcase_set_timeout(crowds, 120);
    tcase_add_test(crowds, test_sixteen_processes_take_turns);
    tcase_add_test(crowds, test_a_process_gets_its_share_against_sixteen_threads);
    suite_add_tcase(suite, crowds);
    tcase_add_checked_fixture(plain, start, stop);
    tcase_set_timeout(plain, 60);
    tcase_add_test(plain, test_alone_nothing_is_added);
    tcase_add_test(plain, test_a_foreign_release_is_found_by_polling);
    tcase_add_test(plain, test_without_the_right_to_block);
    tcase_add_test(plain, test_without_any_right_on_own_keys);
    tcase_add_test(plain, test_the_documented_rights_are_enough);
    tcase_add_test(plain, test_waiting_costs_little);
    tcase_add_test(plain, test_a_started_release_wakes_too);
    suite_add_tcase(suite, plain);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
