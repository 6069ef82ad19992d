/*
 * What the floor's loop has gathered for its wires arrives whole, also where a wire takes only part
 * of it at first. The source is included, with a floor that is none.
 */
#include <check.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include "../../tools/bench/floor_loop.c"

enum {
    WIRES = 3,
    LENGTH = 4 << 20 /* more than the kernel keeps for a socket */
};

static int interrupted;
static struct bench bench = {.interrupted = &interrupted};
static struct floor wires;
static const char *failure;

bool floor_fail(struct floor *floor, const char *why)
{
    ck_assert_ptr_eq(floor, &wires);
    failure = why;
    return false;
}

/* ---- not called here ------------------------------------------------------------------- */

int64_t bench_now_ns(void)
{
    abort();
}

void floor_compose_set(struct floor_text *text, const char *key, int64_t ttl_ms)
{
    (void)text, (void)key, (void)ttl_ms;
    abort();
}

void floor_compose_removal(struct floor_text *text, const char *key)
{
    (void)text, (void)key;
    abort();
}

void floor_new_token(uint64_t *random, char token[FLOOR_TOKEN])
{
    (void)random, (void)token;
    abort();
}

unsigned floor_up(const struct floor *floor)
{
    (void)floor;
    abort();
}

int floor_poll(struct floor *floor)
{
    (void)floor;
    abort();
}

size_t floor_receive(struct floor *floor, unsigned i)
{
    (void)floor, (void)i;
    abort();
}

bool floor_line(struct floor_wire *wire, const char **at, size_t *length)
{
    (void)wire, (void)at, (void)length;
    abort();
}

/* ---- the other ends ---------------------------------------------------------------------- */

struct reader {
    int fd; /* -1: the wire is none */
    pthread_t thread;
    size_t got;
    bool differs;
};

static struct reader readers[WIRES];
static struct loop loop;
static redisContext context; /* that there is one says that the wire is there */

static void *read_all(void *argument)
{
    struct reader *reader = argument;
    char bytes[4096];
    ssize_t n;

    while ((n = recv(reader->fd, bytes, sizeof bytes, 0)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            reader->differs |= bytes[i] != loop.output[(reader->got + (size_t)i) % LENGTH];
        reader->got += (size_t)n;
    }
    return NULL;
}

static void connect_wires(void)
{
    for (unsigned i = 0; i < WIRES; i++) {
        int ends[2];

        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        wires.wires[i] = (struct floor_wire){.context = &context, .fd = ends[0]};
        readers[i] = (struct reader){.fd = ends[1]};
    }
}

static void gather(void)
{
    for (size_t i = 0; i < LENGTH; i++)
        loop.output[i] = (char)(i * 31 >> 8);
    loop.used = LENGTH;
}

static void set_up(void)
{
    interrupted = 0;
    failure = NULL;
    wires = (struct floor){.bench = &bench, .n = WIRES, .quorum = WIRES / 2 + 1};
    loop = (struct loop){.floor = &wires, .output = malloc(LENGTH)};
    ck_assert_ptr_nonnull(loop.output);
    connect_wires();
    gather();
}

static void tear_down(void)
{
    for (unsigned i = 0; i < WIRES; i++) {
        (void)close(wires.wires[i].fd);
        (void)close(readers[i].fd);
    }
    free(loop.output);
}

static void start_reading(unsigned i)
{
    ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
}

static void end_reading(unsigned i)
{
    ck_assert_int_eq(shutdown(wires.wires[i].fd, SHUT_WR), 0);
    ck_assert_int_eq(pthread_join(readers[i].thread, NULL), 0);
}

START_TEST(all_of_it_arrives_on_each_wire_in_order)
{
    for (unsigned i = 0; i < WIRES; i++)
        start_reading(i);
    for (unsigned turns = 0; turns < 2; turns++) {
        ck_assert_msg(send_gathered(&loop), "%s", failure);
        ck_assert_uint_eq(loop.used, 0);
        loop.used = LENGTH;
    }
    for (unsigned i = 0; i < WIRES; i++) {
        end_reading(i);
        ck_assert_uint_eq(readers[i].got, 2 * (size_t)LENGTH);
        ck_assert(!readers[i].differs);
    }
}
END_TEST

START_TEST(a_wire_that_is_none_gets_nothing)
{
    wires.wires[1].context = NULL;
    for (unsigned i = 0; i < WIRES; i++)
        start_reading(i);
    ck_assert_msg(send_gathered(&loop), "%s", failure);
    for (unsigned i = 0; i < WIRES; i++) {
        end_reading(i);
        ck_assert_uint_eq(readers[i].got, i == 1 ? 0 : LENGTH);
    }
}
END_TEST

START_TEST(one_that_broke_is_said)
{
    ck_assert_int_eq(close(readers[2].fd), 0);
    readers[2].fd = -1;
    ck_assert(!send_gathered(&loop));
    ck_assert_str_eq(failure, "a connection broke");
}
END_TEST

/* Nobody reads: it is left without a word. */
START_TEST(an_interruption_ends_the_wait)
{
    interrupted = 2;
    ck_assert(!send_gathered(&loop));
    ck_assert_ptr_null(failure);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench floor loop");
    TCase *t = tcase_create("floor loop");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, all_of_it_arrives_on_each_wire_in_order);
    tcase_add_test(t, a_wire_that_is_none_gets_nothing);
    tcase_add_test(t, one_that_broke_is_said);
    tcase_add_test(t, an_interruption_ends_the_wait);
    suite_add_tcase(suite, t);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
