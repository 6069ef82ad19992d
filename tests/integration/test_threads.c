/*
 * Everything that happens in more than one thread, or in nobody's: callers that share a client,
 * callbacks, renewal, cancelling, and an application's own loop instead of the background thread.
 *
 * The crowd. Threads enter and leave at random, on one name and on many. A lost wake-up shows
 * as a call that doesn't return by its deadline; two holders show in a counter without any
 * lock of its own. The seed is printed with a failure. While a crowd is at work, whoever lets
 * a mutex go or enters poll is held up at random there, so that others get in between.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "redlock.h"
#include "servers.h"

enum {
    N = 5,
    SLACK_MS = 3000,
    CROWD_MAX = 16,
    CROWD_ROUNDS = 150
};

/* ---- helpers ------------------------------------------------------------ */

static redlock_client *new_client_of(uint32_t n, int external_loop, int64_t node_timeout_ms)
{
    redlock_options options;
    redlock_client *client = NULL;
    char text[256];
    int rc;

    redlock_options_init(&options);
    options.nodes = servers_uris();
    options.node_count = n;
    options.external_loop = external_loop;
    options.node_timeout_ms = node_timeout_ms;
    options.restart_guard_ms = 0; /* see options_for() */
    rc = redlock_client_new(&options, &client, text, sizeof text);
    ck_assert_msg(rc == 0, "%s: %s", redlock_strerror(rc), text);
    return client;
}

static redlock_client *new_client_with(int external_loop, int64_t node_timeout_ms)
{
    return new_client_of(N, external_loop, node_timeout_ms);
}

static redlock_client *new_client(int external_loop)
{
    return new_client_with(external_loop, 0);
}

/* For which a loaded machine is no silent one. */
static redlock_client *new_patient_client(void)
{
    return new_client_with(0, 1000);
}

static redlock_lock_options lock_options(int64_t ttl_ms, int64_t wait_ms)
{
    redlock_lock_options options;

    redlock_lock_options_init(&options);
    options.ttl_ms = ttl_ms;
    options.wait_ms = wait_ms;
    return options;
}

static redlock_lock *acquire(redlock_client *client, const char *key,
                             const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, key, strlen(key), options, &lock);

    ck_assert_msg(rc == 0, "%s", redlock_strerror(rc));
    return lock;
}

static int try(redlock_client *client, const char *key, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;
    int rc = redlock_acquire(client, key, strlen(key), options, &lock);

    return rc == 0 ? redlock_release(lock) : rc;
}

static uint64_t leases_of(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    ck_assert_int_eq(redlock_stats_get(client, &stats), 0);
    return stats.leases;
}

static void start_five(void)
{
    servers_start(N);
}

static bool is_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    return poll(&poll_fd, 1, 0) == 1;
}

/* ---- a shaken scheduler ------------------------------------------------- */

#if !defined(__SANITIZE_THREAD__) /* which has these two functions for itself */
static atomic_bool shaking;
static _Atomic uint32_t shakes;

/* A nap, since sched_yield() on a loaded machine can take seconds. */
static void shake(void)
{
    uint32_t random = (atomic_fetch_add(&shakes, 1) + 1) * 2654435761u;

    if (atomic_load(&shaking) && random >> 24 < 32)
        (void)nanosleep(&(struct timespec){.tv_nsec = random >> 24 < 28 ? 1 : 100000}, NULL);
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static int (*_Atomic real)(pthread_mutex_t *);
    int rc;

    if (real == NULL) {
        void *found = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
        int (*function)(pthread_mutex_t *);
        memcpy(&function, &found, sizeof function);
        real = function;
    }
    rc = real(mutex);
    shake();
    return rc;
}

int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    int rc;

    shake();
    rc = (int)syscall(SYS_ppoll, fds, n, timeout, mask, _NSIG / 8);
    shake();
    return rc;
}
#else
static atomic_bool shaking;
#endif

/* ---- a crowd ------------------------------------------------------------ */

struct crowd {
    redlock_client *client;
    int names; /* how many the threads share */
    _Atomic long acquired, gave_up;
    _Atomic int inside[CROWD_MAX]; /* holders, by name */
    _Atomic int most_inside;
    _Atomic int64_t worst_late_ms;
    atomic_bool wrong_result;
};

struct member {
    struct crowd *crowd;
    uint32_t random;
};

static uint32_t draw(struct member *member, uint32_t below)
{
    member->random = member->random * 1664525u + 1013904223u;
    return (member->random >> 16) % below;
}

static void hold(struct crowd *crowd, struct member *member, int name, redlock_lock *lock)
{
    int inside = atomic_fetch_add(&crowd->inside[name], 1) + 1;

    if (inside > atomic_load(&crowd->most_inside))
        atomic_store(&crowd->most_inside, inside);
    if (draw(member, 4) == 0)
        (void)poll(NULL, 0, (int)draw(member, 3));
    if (!redlock_is_held(lock))
        atomic_store(&crowd->wrong_result, true);
    atomic_fetch_sub(&crowd->inside[name], 1);
    if (redlock_release(lock) != 0)
        atomic_store(&crowd->wrong_result, true);
}

static void *run_member(void *argument)
{
    static const int64_t waits_ms[] = {0, 1, 50, 3000};
    struct member *member = argument;
    struct crowd *crowd = member->crowd;

    for (int round = 0; round < CROWD_ROUNDS; round++) {
        int name = (int)draw(member, (uint32_t)crowd->names);
        redlock_lock_options options = lock_options(30000, waits_ms[draw(member, 4)]);
        int64_t start_ms = servers_now_ms(), late_ms;
        redlock_lock *lock;
        char key[24];
        int rc;

        (void)snprintf(key, sizeof key, "crowd-%d", name);
        rc = redlock_acquire(crowd->client, key, strlen(key), &options, &lock);
        late_ms = servers_now_ms() - start_ms - (options.wait_ms == 0 ? 2000 : options.wait_ms);
        if (late_ms > atomic_load(&crowd->worst_late_ms))
            atomic_store(&crowd->worst_late_ms, late_ms);
        if (rc == 0) {
            atomic_fetch_add(&crowd->acquired, 1);
            hold(crowd, member, name, lock);
        } else {
            atomic_fetch_add(&crowd->gave_up, 1);
            if (rc != REDLOCK_BUSY && rc != REDLOCK_WAIT_DEADLINE && rc != REDLOCK_NO_QUORUM)
                atomic_store(&crowd->wrong_result, true);
        }
        if (draw(member, 8) == 0) /* leave for a while */
            (void)poll(NULL, 0, (int)draw(member, 20));
    }
    return NULL;
}

static void run_crowd(int threads, int names, uint32_t seed)
{
    struct crowd crowd = {.client = new_patient_client(), .names = names};
    struct member members[CROWD_MAX];
    pthread_t ids[CROWD_MAX];

    atomic_store(&shaking, true);
    for (int i = 0; i < threads; i++) {
        members[i] = (struct member){.crowd = &crowd, .random = seed * 7919u + (uint32_t)i};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, run_member, &members[i]), 0);
    }
    for (int i = 0; i < threads; i++)
        (void)pthread_join(ids[i], NULL);
    atomic_store(&shaking, false);
    ck_assert_msg(crowd.most_inside == 1, "seed %u: %d holders", seed, crowd.most_inside);
    ck_assert_msg(!crowd.wrong_result, "seed %u: a wrong result", seed);
    ck_assert_msg(crowd.worst_late_ms < SLACK_MS, "seed %u: %ld ms late", seed,
                  (long)crowd.worst_late_ms);
    ck_assert_int_eq(crowd.acquired + crowd.gave_up, threads * CROWD_ROUNDS);
    ck_assert_int_gt(crowd.acquired, 0);
    redlock_client_free(crowd.client);
    for (int i = 0; i < names; i++) {
        char key[24];
        (void)snprintf(key, sizeof key, "crowd-%d", i);
        AWAIT(servers_with_key(key) == 0);
    }
}

static const int sizes[] = {1, 2, 3, 8, CROWD_MAX};

START_TEST(test_crowd_on_one_name)
{
    run_crowd(sizes[_i], 1, (uint32_t)_i);
}
END_TEST

START_TEST(test_crowd_on_many_names)
{
    run_crowd(sizes[_i], CROWD_MAX, 100 + (uint32_t)_i);
}
END_TEST

/* While servers come and go under it, every call still returns. */
START_TEST(test_crowd_with_failing_servers)
{
    struct crowd crowd = {.client = new_patient_client(), .names = 4};
    struct member members[8];
    pthread_t ids[8];

    for (int i = 0; i < 8; i++) {
        members[i] = (struct member){.crowd = &crowd, .random = (uint32_t)i};
        ck_assert_int_eq(pthread_create(&ids[i], NULL, run_member, &members[i]), 0);
    }
    for (int round = 0; round < 4; round++) {
        servers_kill(round % N);
        servers_freeze((round + 1) % N);
        (void)poll(NULL, 0, 20);
        servers_thaw((round + 1) % N);
        servers_revive(round % N);
    }
    for (int i = 0; i < 8; i++)
        (void)pthread_join(ids[i], NULL);
    ck_assert_int_lt(crowd.worst_late_ms, SLACK_MS);
    ck_assert_int_gt(crowd.acquired, 0);
    redlock_client_free(crowd.client);
}
END_TEST

/* ---- cancelling --------------------------------------------------------- */

struct waiter {
    redlock_client *client;
    redlock_lock_options options;
    int rc;
};

static void *run_waiter(void *argument)
{
    struct waiter *waiter = argument;

    waiter->rc = try(waiter->client, "job", &waiter->options);
    return NULL;
}

START_TEST(test_cancel_wakes_waiters)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = acquire(client, "job", &options);
    redlock_cancel_handle *cancel = NULL;
    struct waiter waiters[4];
    pthread_t ids[4];

    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    for (int i = 0; i < 4; i++) {
        waiters[i] = (struct waiter){client, lock_options(30000, REDLOCK_WAIT_FOREVER), 0};
        waiters[i].options.cancel = cancel;
        ck_assert_int_eq(pthread_create(&ids[i], NULL, run_waiter, &waiters[i]), 0);
    }
    AWAIT(leases_of(client) == 5);
    redlock_cancel(cancel);
    for (int i = 0; i < 4; i++) {
        (void)pthread_join(ids[i], NULL);
        ck_assert_int_eq(waiters[i].rc, REDLOCK_CANCELLED);
    }
    options.cancel = cancel;
    servers_reset_counts();
    ck_assert_int_eq(try(client, "other", &options), REDLOCK_CANCELLED);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(servers_count(i, "set"), 0);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

/* Also the one that sits in poll: no call returns only because its poll has an end. */
START_TEST(test_cancel_is_prompt)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, "job", &options);
    int64_t start_ms = servers_now_ms();

    for (int round = 0; round < 20; round++) {
        struct waiter waiter = {client, lock_options(30000, REDLOCK_WAIT_FOREVER), 0};
        pthread_t id;
        ck_assert_int_eq(redlock_cancel_new(&waiter.options.cancel), 0);
        ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
        AWAIT(leases_of(client) == 2);
        redlock_cancel(waiter.options.cancel);
        (void)pthread_join(id, NULL);
        ck_assert_int_eq(waiter.rc, REDLOCK_CANCELLED);
        redlock_cancel_free(waiter.options.cancel);
    }
    ck_assert_int_lt(servers_now_ms() - start_ms, SLACK_MS);
    ck_assert_int_eq(redlock_release(lock), 0);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_cancelled_release_does_not_wait)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(60000, 0);
    redlock_cancel_handle *cancel = NULL;
    redlock_lock *lock;

    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    options.cancel = cancel;
    lock = acquire(client, "job", &options);
    redlock_cancel(cancel);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(redlock_extend(lock, 0), REDLOCK_CANCELLED);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_CANCELLED);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

/* A call without a lock, while another one sits in poll for ever. */
START_TEST(test_inspect_beside_a_waiter)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, "job", &options);
    struct waiter waiter = {client, lock_options(30000, REDLOCK_WAIT_FOREVER), 0};
    redlock_inspection sum;
    pthread_t id;

    ck_assert_int_eq(redlock_cancel_new(&waiter.options.cancel), 0);
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(leases_of(client) == 2);
    for (int round = 0; round < 100; round++) {
        ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, NULL, 0), 0);
        ck_assert_int_eq(sum.holder, REDLOCK_HOLDER_ONE);
    }
    redlock_cancel(waiter.options.cancel);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(redlock_release(lock), 0);
    redlock_client_free(client);
    redlock_cancel_free(waiter.options.cancel);
}
END_TEST

/* The key is another client's, and the waiter can't see that without asking for it, which it does
 * again and again. */
START_TEST(test_cancel_leaves_no_key)
{
    redlock_client *client = new_client(0);
    redlock_cancel_handle *cancel = NULL;
    struct waiter waiter = {client, lock_options(30000, REDLOCK_WAIT_FOREVER), 0};
    pthread_t id;

    for (int i = 0; i < N; i++)
        (void)servers_command(i, "ACL", "SETUSER", "default", "-pttl", NULL);
    for (int i = 0; i < 3; i++)
        (void)servers_command(i, "SET", "job", "somebody", NULL);
    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    waiter.options.cancel = cancel;
    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    AWAIT(servers_count(0, "set") >= 5);
    redlock_cancel(cancel);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(waiter.rc, REDLOCK_CANCELLED);
    AWAIT(servers_with_key("job") == 3);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

/* A thread that is cancelled by pthread_cancel() finishes its call first. */
START_TEST(test_pthread_cancel_is_held_back)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(30000, 0);
    redlock_lock *lock = acquire(client, "job", &options);
    struct waiter waiter = {client, lock_options(30000, 200), 1};
    pthread_t id;

    ck_assert_int_eq(pthread_create(&id, NULL, run_waiter, &waiter), 0);
    (void)pthread_cancel(id);
    (void)pthread_join(id, NULL);
    ck_assert(waiter.rc == 1 || waiter.rc == REDLOCK_BUSY || waiter.rc == REDLOCK_WAIT_DEADLINE);
    ck_assert_int_eq(redlock_release(lock), 0);
    ck_assert_int_eq(try(client, "job", &options), 0);
    redlock_client_free(client);
}
END_TEST

/* ---- renewal and events ------------------------------------------------- */

struct witness {
    sem_t entered, go_on;
    atomic_int events[5];
    atomic_int running;
    atomic_int release_result;
    bool block, release;
    bool signals_open;
};

static void on_event(void *context, redlock_lock *lock, redlock_event event)
{
    struct witness *witness = context;
    sigset_t blocked;

    atomic_fetch_add(&witness->running, 1);
    atomic_fetch_add(&witness->events[event], 1);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    witness->signals_open = !sigismember(&blocked, SIGTERM);
    if (witness->block) {
        (void)sem_post(&witness->entered);
        (void)sem_wait(&witness->go_on);
        (void)poll(NULL, 0, 50); /* the other thread is in redlock_release() meanwhile */
    }
    atomic_fetch_sub(&witness->running, 1);
    if (witness->release) {
        atomic_store(&witness->release_result, redlock_release(lock));
        (void)sem_post(&witness->entered);
    }
}

static redlock_lock_options witnessed(struct witness *witness, int64_t ttl_ms)
{
    redlock_lock_options options = lock_options(ttl_ms, 0);

    options.renew = 1;
    options.on_event = on_event;
    options.event_context = witness;
    (void)sem_init(&witness->entered, 0, 0);
    (void)sem_init(&witness->go_on, 0, 0);
    return options;
}

START_TEST(test_renewal_outlives_the_ttl)
{
    redlock_client *client = new_client(0);
    struct witness witness = {0};
    redlock_lock_options options = witnessed(&witness, 600);
    redlock_lock *lock = acquire(client, "job", &options);
    int renewed;

    AWAIT(atomic_load(&witness.events[REDLOCK_EVENT_RENEWED]) >= 6); /* twice the ttl */
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert(!witness.signals_open);
    ck_assert_int_eq(redlock_release(lock), 0);
    renewed = atomic_load(&witness.events[REDLOCK_EVENT_RENEWED]);
    AWAIT(servers_with_key("job") == 0);
    (void)poll(NULL, 0, 600);
    ck_assert_int_eq(atomic_load(&witness.events[REDLOCK_EVENT_RENEWED]), renewed);
    ck_assert_int_eq(atomic_load(&witness.events[REDLOCK_EVENT_LOST]), 0);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_lost_is_told_by_callback_and_descriptor)
{
    redlock_client *client = new_client(0);
    struct witness witness = {0};
    redlock_lock_options options = witnessed(&witness, 900);
    redlock_lock *lock = acquire(client, "job", &options);
    int fd = redlock_event_fd(lock);

    ck_assert_int_ge(fd, 0);
    ck_assert(!is_readable(fd));
    for (int i = 0; i < 3; i++)
        servers_freeze(i);
    AWAIT(is_readable(fd));
    ck_assert_int_eq(redlock_next_event(lock), REDLOCK_EVENT_RENEWAL_FAILING);
    AWAIT(is_readable(fd));
    ck_assert_int_eq(redlock_is_held(lock), 0);
    ck_assert_int_eq(redlock_remaining_ms(lock), 0);
    ck_assert_int_eq(redlock_next_event(lock), REDLOCK_EVENT_LOST);
    ck_assert(!is_readable(fd));
    ck_assert_int_eq(redlock_next_event(lock), REDLOCK_EVENT_NONE);
    AWAIT(atomic_load(&witness.events[REDLOCK_EVENT_LOST]) == 1);
    ck_assert_int_eq(atomic_load(&witness.events[REDLOCK_EVENT_RENEWAL_FAILING]), 1);
    for (int i = 0; i < 3; i++)
        servers_thaw(i);
    ck_assert_int_eq(redlock_extend(lock, 0), REDLOCK_EXPIRED); /* never taken back */
    ck_assert_int_eq(redlock_release(lock), REDLOCK_EXPIRED);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_release_waits_for_a_running_callback)
{
    redlock_client *client = new_client(0);
    struct witness witness = {.block = true};
    redlock_lock_options options = witnessed(&witness, 600);
    redlock_lock *lock = acquire(client, "job", &options);

    ck_assert_int_eq(sem_wait(&witness.entered), 0);
    ck_assert_int_eq(atomic_load(&witness.running), 1);
    (void)sem_post(&witness.go_on);
    (void)redlock_release(lock);
    ck_assert_int_eq(atomic_load(&witness.running), 0);
    redlock_client_free(client);
}
END_TEST

START_TEST(test_release_inside_its_own_callback)
{
    redlock_client *client = new_client(0);
    struct witness witness = {.release = true, .release_result = 1};
    redlock_lock_options options = witnessed(&witness, 600);

    (void)acquire(client, "job", &options);
    ck_assert_int_eq(sem_wait(&witness.entered), 0);
    ck_assert_int_eq(atomic_load(&witness.release_result), 0);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* Releasing at the very moment a renewal fires: no key survives, no false loss. */
START_TEST(test_release_meets_renewal)
{
    redlock_client *client = new_patient_client();
    struct witness witness = {0};

    for (int round = 0; round < 300; round++) {
        redlock_lock_options options = witnessed(&witness, 100);
        redlock_lock *lock;
        int rc;

        options.wait_ms = 5000; /* where it took longer than that to hear of it, again */
        lock = acquire(client, "job", &options);
        (void)poll(NULL, 0, 32 + round % 4); /* a third of the ttl */
        rc = redlock_release(lock);
        ck_assert_msg(rc == 0 || rc == REDLOCK_EXPIRED, "%s", redlock_strerror(rc));
    }
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* ---- started operations ------------------------------------------------- */

START_TEST(test_started_operations_with_a_thread)
{
    redlock_client *client = new_client(0);
    redlock_lock_options options = lock_options(5000, 0);
    redlock_lock *lock = NULL;
    int fd;

    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    fd = redlock_event_fd(lock);
    AWAIT(is_readable(fd));
    ck_assert_int_eq(redlock_next_event(lock), REDLOCK_EVENT_DONE);
    ck_assert_int_eq(redlock_poll_result(lock), 0);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(redlock_start_extend(lock, 9000), 0);
    AWAIT(redlock_poll_result(lock) != REDLOCK_PENDING);
    ck_assert_int_eq(redlock_poll_result(lock), 0);
    ck_assert_int_gt(redlock_remaining_ms(lock), 5000);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    ck_assert_int_eq(redlock_release(lock), 0); /* waits for it */
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    (void)redlock_release(lock); /* ends it half way */
    AWAIT(servers_with_key("job") == 0);
    ck_assert_int_eq(redlock_fd(client), REDLOCK_ERR_STATE);
    ck_assert_int_eq(redlock_process(client), REDLOCK_ERR_STATE);
    redlock_client_free(client);
}
END_TEST

/* Its verdict comes from the thread that cancels; the callback from the background thread, which
 * has no reason of its own to wake up. */
START_TEST(test_cancelled_start_is_told_at_once)
{
    redlock_client *client = new_client(0);
    redlock_lock_options plain = lock_options(60000, 0);
    redlock_lock *lock = acquire(client, "job", &plain);
    int64_t start_ms = servers_now_ms();

    for (int round = 0; round < 20; round++) {
        struct witness witness = {0};
        redlock_lock_options options = witnessed(&witness, 30000);
        redlock_lock *second = NULL;
        options.wait_ms = REDLOCK_WAIT_FOREVER;
        ck_assert_int_eq(redlock_cancel_new(&options.cancel), 0);
        ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &second), 0);
        (void)poll(NULL, 0, 10); /* the background thread falls asleep */
        redlock_cancel(options.cancel);
        AWAIT(atomic_load(&witness.events[REDLOCK_EVENT_DONE]) == 1);
        ck_assert_int_eq(redlock_release(second), REDLOCK_CANCELLED);
        redlock_cancel_free(options.cancel);
    }
    ck_assert_int_lt(servers_now_ms() - start_ms, SLACK_MS);
    ck_assert_int_eq(redlock_release(lock), 0);
    redlock_client_free(client);
}
END_TEST

/* One turn of the application's loop. */
static void turn(redlock_client *client)
{
    struct pollfd poll_fd = {.fd = redlock_fd(client), .events = POLLIN};
    int64_t timeout_ms = redlock_next_timeout_ms(client);

    ck_assert_int_ge(poll_fd.fd, 0);
    (void)poll(&poll_fd, 1, timeout_ms < 0 || timeout_ms > 1000 ? 1000 : (int)timeout_ms);
    ck_assert_int_eq(redlock_process(client), 0);
}

static int finish(redlock_client *client, redlock_lock *lock)
{
    int64_t give_up_ms = servers_now_ms() + 10000;

    while (redlock_poll_result(lock) == REDLOCK_PENDING) {
        ck_assert_int_lt(servers_now_ms(), give_up_ms);
        turn(client);
    }
    return redlock_poll_result(lock);
}

START_TEST(test_external_loop)
{
    redlock_client *client = new_client_with(1, 1000);
    struct witness witness = {0};
    redlock_lock_options options = witnessed(&witness, 600);
    redlock_lock *lock = NULL, *second = NULL;
    redlock_lock_options plain = lock_options(5000, 0);
    redlock_inspection sum;

    ck_assert_int_eq(redlock_acquire(client, "job", 3, &options, &lock), REDLOCK_ERR_STATE);
    ck_assert_int_eq(redlock_inspect(client, "job", 3, &sum, NULL, 0), REDLOCK_ERR_STATE);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    ck_assert_int_eq(finish(client, lock), 0);
    while (atomic_load(&witness.events[REDLOCK_EVENT_RENEWED]) < 4)
        turn(client);
    ck_assert_int_eq(atomic_load(&witness.events[REDLOCK_EVENT_DONE]), 1);
    ck_assert_int_eq(redlock_is_held(lock), 1);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &plain, &second), 0);
    ck_assert_int_eq(finish(client, second), REDLOCK_BUSY);
    ck_assert_int_eq(redlock_release(second), REDLOCK_BUSY);
    servers_kill(0);
    servers_kill(1);
    ck_assert_int_eq(redlock_start_extend(lock, 0), 0);
    ck_assert_int_eq(finish(client, lock), 0);
    ck_assert_int_eq(redlock_start_release(lock), 0);
    ck_assert_int_eq(finish(client, lock), 0);
    ck_assert_int_eq(redlock_release(lock), 0);
    AWAIT(servers_with_key("job") == 0);
    redlock_client_free(client);
}
END_TEST

/* Callbacks that a turn has run leave nothing to do in another one. Of one primary no answers are
 * left to read; but its clock may have been asked for. */
START_TEST(test_a_turn_leaves_nothing_to_do)
{
    redlock_client *client = new_client_of(1, 1, 1000);
    struct witness witness = {0};
    redlock_lock_options options = witnessed(&witness, 60000);
    redlock_lock *lock = NULL;
    int readable = 0, turns = 20;

    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
    ck_assert_int_eq(finish(client, lock), 0);
    for (int i = 0; i < turns; i++) {
        struct pollfd poll_fd = {.fd = redlock_fd(client), .events = POLLIN};
        ck_assert_int_eq(redlock_start_extend(lock, 0), 0);
        ck_assert_int_eq(finish(client, lock), 0);
        readable += poll(&poll_fd, 1, 0);
    }
    ck_assert_int_eq(atomic_load(&witness.events[REDLOCK_EVENT_DONE]), 1 + turns);
    ck_assert_int_lt(readable, turns / 2);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_PENDING);
    redlock_client_free(client);
}
END_TEST

static void count_refusals(void *context, int level, const char *line)
{
    (void)level;
    *(int *)context += strstr(line, "refused") != NULL;
}

/* Answers that lie in their sockets count, although their time is over, also where something else
 * is found in the same turn: here that a primary refuses the connection. */
START_TEST(test_answers_count_that_came_while_it_was_stopped)
{
    enum {
        TIMEOUT_MS = 50,
        TIMES = 3
    };
    int refusals = 0, met = 0;
    redlock_options client_options;
    redlock_client *client = NULL;
    redlock_lock_options options = lock_options(5000, 0);
    int64_t give_up_ms = servers_now_ms() + 30000;

    redlock_options_init(&client_options);
    client_options.nodes = servers_uris();
    client_options.node_count = 3;
    client_options.external_loop = 1;
    client_options.node_timeout_ms = TIMEOUT_MS;
    client_options.restart_guard_ms = 0;
    client_options.log = count_refusals;
    client_options.log_context = &refusals;
    ck_assert_int_eq(redlock_client_new(&client_options, &client, NULL, 0), 0);
    servers_kill(2);
    while (met < TIMES) {
        redlock_lock *lock = NULL;
        int before = refusals;

        ck_assert_int_lt(servers_now_ms(), give_up_ms);
        while (refusals == before)
            turn(client);
        while (redlock_next_timeout_ms(client) != 0) /* until it is tried again */
            (void)poll(NULL, 0, 1);
        before = refusals;
        ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &options, &lock), 0);
        ck_assert_int_eq(redlock_process(client), 0);
        (void)poll(NULL, 0, 2 * TIMEOUT_MS); /* as if it were stopped */
        if (refusals == before) {
            turn(client);
            met += refusals > before; /* with the answers */
        }
        ck_assert_int_eq(finish(client, lock), 0);
        ck_assert_int_eq(redlock_start_release(lock), 0);
        ck_assert_int_eq(finish(client, lock), 0);
        ck_assert_int_eq(redlock_release(lock), 0);
    }
    redlock_client_free(client);
}
END_TEST

static void *run_cancel(void *argument)
{
    (void)poll(NULL, 0, 20);
    redlock_cancel(argument);
    return NULL;
}

/* From another thread; the loop sleeps without a time limit of its own. */
START_TEST(test_cancel_wakes_an_external_loop)
{
    redlock_client *client = new_client(1);
    redlock_lock_options plain = lock_options(60000, 0);
    redlock_lock_options patient = lock_options(60000, REDLOCK_WAIT_FOREVER);
    redlock_lock *lock = NULL, *second = NULL;
    redlock_cancel_handle *cancel = NULL;
    pthread_t id;

    ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
    patient.cancel = cancel;
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &plain, &lock), 0);
    ck_assert_int_eq(finish(client, lock), 0);
    ck_assert_int_eq(redlock_start_acquire(client, "job", 3, &patient, &second), 0);
    ck_assert_int_eq(pthread_create(&id, NULL, run_cancel, cancel), 0);
    ck_assert_int_eq(finish(client, second), REDLOCK_CANCELLED);
    (void)pthread_join(id, NULL);
    ck_assert_int_eq(redlock_release(second), REDLOCK_CANCELLED);
    ck_assert_int_eq(redlock_release(lock), REDLOCK_PENDING); /* the loop may do the rest */
    for (int i = 0; i < 100 && servers_with_key("job") > 0; i++)
        turn(client);
    ck_assert_int_eq(servers_with_key("job"), 0);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

static Suite *threads_suite(void)
{
    Suite *suite = suite_create("threads");
    TCase *crowds = tcase_create("crowds"), *cancels = tcase_create("cancels");
    TCase *events = tcase_create("events"), *loops = tcase_create("loops");

    tcase_add_checked_fixture(crowds, start_five, servers_stop);
    tcase_set_timeout(crowds, 120);
    tcase_add_loop_test(crowds, test_crowd_on_one_name, 0, 5);
    tcase_add_loop_test(crowds, test_crowd_on_many_names, 0, 5);
    tcase_add_test(crowds, test_crowd_with_failing_servers);
    suite_add_tcase(suite, crowds);
    tcase_add_checked_fixture(cancels, start_five, servers_stop);
    tcase_set_timeout(cancels, 60);
    tcase_add_test(cancels, test_cancel_wakes_waiters);
    tcase_add_test(cancels, test_cancel_is_prompt);
    tcase_add_test(cancels, test_cancelled_release_does_not_wait);
    tcase_add_test(cancels, test_inspect_beside_a_waiter);
    tcase_add_test(cancels, test_cancel_leaves_no_key);
    tcase_add_test(cancels, test_pthread_cancel_is_held_back);
    suite_add_tcase(suite, cancels);
    tcase_add_checked_fixture(events, start_five, servers_stop);
    tcase_set_timeout(events, 60);
    tcase_add_test(events, test_renewal_outlives_the_ttl);
    tcase_add_test(events, test_lost_is_told_by_callback_and_descriptor);
    tcase_add_test(events, test_release_waits_for_a_running_callback);
    tcase_add_test(events, test_release_inside_its_own_callback);
    tcase_add_test(events, test_release_meets_renewal);
    suite_add_tcase(suite, events);
    tcase_add_checked_fixture(loops, start_five, servers_stop);
    tcase_set_timeout(loops, 60);
    tcase_add_test(loops, test_started_operations_with_a_thread);
    tcase_add_test(loops, test_cancelled_start_is_told_at_once);
    tcase_add_test(loops, test_external_loop);
    tcase_add_test(loops, test_a_turn_leaves_nothing_to_do);
    tcase_add_test(loops, test_answers_count_that_came_while_it_was_stopped);
    tcase_add_test(loops, test_cancel_wakes_an_external_loop);
    suite_add_tcase(suite, loops);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(threads_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
