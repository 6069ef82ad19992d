/*
 * Many acquisitions by several clients while durable primaries die and come back: each token is
 * larger than all that were told before its acquisition began, and none is told twice.
 *
 * REDLOCK_TEST_FENCED says how many; the default is small enough for every day.
 */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fenced.h"
#include "locking.h"
#include "servers.h"

enum {
    THREADS = 4,
    DEFAULT = 3000,
    LIFE = 100, /* acquisitions between two deaths */
    DEATH = 20  /* and while one is dead */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t wanted, *tokens, largest, stored;
static size_t count;
static int failed;
static char failure[256];

static void say(const char *what, int64_t token, int64_t before)
{
    if (failed++ == 0)
        (void)snprintf(failure, sizeof failure, "%s: %lld after %lld", what, (long long)token,
                       (long long)before);
}

static size_t done(void)
{
    size_t so_far;

    (void)pthread_mutex_lock(&mutex);
    so_far = failed ? (size_t)wanted : count;
    (void)pthread_mutex_unlock(&mutex);
    return so_far;
}

/* What is guarded takes what is not below all it has seen; a holder that is held is never late. */
static void note(const redlock_lock *lock, int64_t before)
{
    int64_t token = redlock_fence(lock);

    (void)pthread_mutex_lock(&mutex);
    if (token <= before)
        say("a token fell", token, before);
    if (token < stored && redlock_remaining_ms(lock) > FENCED_TTL_MS / 2)
        say("a holder was refused", token, stored);
    stored = token > stored ? token : stored;
    largest = token > largest ? token : largest;
    if (count < (size_t)wanted)
        tokens[count++] = token;
    (void)pthread_mutex_unlock(&mutex);
}

static void *work(void *context)
{
    redlock_client *client = context;
    redlock_lock_options options = fenced_options(10000);

    options.results = NULL;
    options.result_count = 0;
    options.retry_base_ms = 1;
    options.retry_cap_ms = 5;
    while (done() < (size_t)wanted) {
        redlock_lock *lock = NULL;
        int64_t before;
        int rc;

        (void)pthread_mutex_lock(&mutex);
        before = largest;
        (void)pthread_mutex_unlock(&mutex);
        rc = redlock_acquire(client, "job", 3, &options, &lock);
        if (rc != 0)
            continue; /* two dead at once, and the like: nothing is promised then */
        note(lock, before);
        (void)redlock_release(lock);
    }
    return NULL;
}

static void await_more(size_t more)
{
    size_t from = done();
    int64_t give_up_ms = servers_now_ms() + 60000;

    while (done() < from + more && done() < (size_t)wanted) {
        ck_assert_msg(servers_now_ms() < give_up_ms, "it stands at %zu", done());
        (void)poll(NULL, 0, 1);
    }
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

START_TEST(tokens_rise_while_primaries_die)
{
    pthread_t threads[THREADS];
    redlock_client *clients[THREADS];
    unsigned seed = 1;
    int deaths = 0;

    tokens = calloc((size_t)wanted, sizeof *tokens);
    ck_assert_ptr_nonnull(tokens);
    servers_start_durable(N);
    fenced_mark(N);
    for (int i = 0; i < THREADS; i++) {
        clients[i] = fenced_client(servers_uris(), N);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work, clients[i]), 0);
    }
    for (; done() < (size_t)wanted; deaths++) {
        int victim = rand_r(&seed) % N;

        await_more(LIFE);
        servers_kill(victim);
        await_more(DEATH);
        servers_revive(victim);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
        redlock_client_free(clients[i]);
    }
    servers_stop();
    ck_assert_msg(failed == 0, "%d times, first %s", failed, failure);
    ck_assert_int_gt(deaths, (int)(wanted / (LIFE + DEATH) / 10));
    qsort(tokens, count, sizeof *tokens, by_value);
    for (size_t i = 1; i < count; i++)
        ck_assert_msg(tokens[i] > tokens[i - 1], "%lld twice", (long long)tokens[i]);
    (void)fprintf(stderr, "%zu acquisitions, %d deaths, tokens up to %lld\n", count, deaths,
                  (long long)tokens[count - 1]);
    free(tokens);
}
END_TEST

int main(void)
{
    const char *text = getenv("REDLOCK_TEST_FENCED");
    Suite *suite = suite_create("fencing, long");
    TCase *tcase = tcase_create("long");
    SRunner *runner = srunner_create(suite);
    int failures;

    wanted = text != NULL ? strtoll(text, NULL, 10) : DEFAULT;
    tcase_set_timeout(tcase, (double)(240 + wanted / 50));
    tcase_add_test(tcase, tokens_rise_while_primaries_die);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
