/*
 * What a client asks the system's allocator for. This program is linked with wrappers around it,
 * for the calls of the library's own code: what hiredis allocates for itself is not seen.
 */
#include <check.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "locking.h"
#include "redlock.h"
#include "servers.h"

enum {
    WARM = 100,
    CYCLES = 1000,
    HELD = 4000,
    AT_ONCE = 8,     /* few: a connection keeps the room that its requests once took */
    MOST_BYTES = 680 /* of a lease on five primaries, beyond its name; a seventh is what connections
                        keep room for */
};

static atomic_bool counting;
static atomic_int allocations;

static void note(void)
{
    if (atomic_load(&counting))
        (void)atomic_fetch_add(&allocations, 1);
}

/* The linker's names. NOLINTBEGIN(bugprone-reserved-identifier) */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *data, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *data, size_t size);

void *__wrap_malloc(size_t size)
{
    note();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    note();
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *data, size_t size)
{
    note();
    return __real_realloc(data, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static void start_five(void)
{
    servers_start(N);
}

static void ignore(void *context, redlock_lock *lock, redlock_event event)
{
    (void)context;
    (void)lock;
    (void)event;
}

static void cycle(redlock_client *client, const redlock_lock_options *options)
{
    redlock_lock *lock = NULL;

    if (redlock_acquire(client, "job", 3, options, &lock) != 0 || redlock_extend(lock, 0) != 0 ||
        redlock_release(lock) != 0)
        ck_abort_msg("a cycle failed");
}

#if defined(__SANITIZE_ADDRESS__) /* which nothing is kept from */
#define KEPT 0
#else
#define KEPT 1
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* with allocators of their own  \
                                                                   */
#define MEASURED 0
#else
#define MEASURED 1
#endif

/* Of plain locks; and of those with a callback, a cancel handle and results. There may be one now
 * and then, where more answers are late than ever before. */
START_TEST(test_warm_cycles_allocate_nothing)
{
    redlock_client *client = settled_five();
    redlock_lock_options options = lock_options(10000, 0);
    redlock_cancel_handle *cancel = NULL;

    if (_i == 0) {
        options.results = NULL;
        options.result_count = 0;
    } else {
        ck_assert_int_eq(redlock_cancel_new(&cancel), 0);
        options.cancel = cancel;
        options.on_event = ignore;
    }
    for (int i = 0; i < WARM; i++)
        cycle(client, &options);
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    for (int i = 0; i < CYCLES; i++)
        cycle(client, &options);
    atomic_store(&counting, false);
    if (KEPT)
        ck_assert_int_lt(atomic_load(&allocations), CYCLES / 10);
    else
        ck_assert_int_gt(atomic_load(&allocations), 0);
    redlock_client_free(client);
    redlock_cancel_free(cancel);
}
END_TEST

/* By all of this process's memory in use, with what malloc adds to each piece. */
START_TEST(test_memory_of_a_held_lease)
{
    static redlock_lock *locks[HELD];
    redlock_client *client = settled_five();
    redlock_lock_options options;
    size_t before, bytes;

    redlock_lock_options_init(&options);
    options.ttl_ms = 30000;
    options.renew = 1;
    for (int i = 0; i < WARM; i++)
        assert_rc(try_lock(client, NULL), REDLOCK_OK);
    before = mallinfo2().uordblks;
    acquire_all(client, locks, HELD, AT_ONCE, &options);
    AWAIT(is_settled(client, N));
    bytes = (mallinfo2().uordblks - before) / HELD - sizeof(uint32_t);
    printf("a held lease: %zu bytes\n", bytes);
    if (MEASURED)
        ck_assert_uint_le(bytes, MOST_BYTES);
    release_all(locks, HELD, AT_ONCE);
    redlock_client_free(client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allocations");
    TCase *tcase = tcase_create("allocations");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tcase, start_five, servers_stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_warm_cycles_allocate_nothing, 0, 2);
    tcase_add_test(tcase, test_memory_of_a_held_lease);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
