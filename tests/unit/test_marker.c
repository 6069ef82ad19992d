/* The marker's text: what is written is read back, and nothing else is. */
#include "marker.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID "0123456789abcdef0123456789abcdef01234567"
#define GOOD                                                                                       \
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 "           \
    "retired=0 run=" RUN_ID " offset=-1"

static const struct redlock__marker good = {.fleet = 0xff,
                                            .member = 2,
                                            .n = 5,
                                            .quorum = 3,
                                            .max_ttl_ms = 60000,
                                            .durable = true,
                                            .run_id = RUN_ID,
                                            .second_offset = -1};

static void assert_same(const struct redlock__marker *a, const struct redlock__marker *b)
{
    ck_assert_uint_eq(a->fleet, b->fleet);
    ck_assert_uint_eq(a->member, b->member);
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_eq(a->quorum, b->quorum);
    ck_assert_int_eq(a->max_ttl_ms, b->max_ttl_ms);
    ck_assert_int_eq(a->durable, b->durable);
    ck_assert_int_eq(a->retired, b->retired);
    ck_assert_str_eq(a->run_id, b->run_id);
    ck_assert_int_eq(a->second_offset, b->second_offset);
}

START_TEST(the_text_is_for_people_too)
{
    char text[REDLOCK__MARKER_LEN];
    redlock__marker_format(&good, text);
    ck_assert_str_eq(text, GOOD);
}
END_TEST

static const struct redlock__marker markers[] = {
    {.fleet = 1, .member = 1, .n = 1, .quorum = 1, .max_ttl_ms = 1, .run_id = "a"},
    {.fleet = UINT64_MAX,
     .member = 31,
     .n = 31,
     .quorum = 31,
     .max_ttl_ms = REDLOCK_MAX_TTL_MS,
     .durable = true,
     .retired = true,
     .run_id = "ffffffffffffffffffffffffffffffffffffffff"},
    {.fleet = 0,
     .member = 99999, /* five digits are read */
     .n = 99999,
     .quorum = 99999,
     .max_ttl_ms = 60000,
     .retired = true,
     .run_id = "0"},
    {.fleet = UINT64_C(1) << 63,
     .n = 5,
     .quorum = 3,
     .max_ttl_ms = 2,
     .durable = true,
     .run_id = "Z9",
     .second_offset = 123456789012345},
};

START_TEST(what_is_written_is_read_back)
{
    char text[REDLOCK__MARKER_LEN];
    struct redlock__marker back = good;
    redlock__marker_format(&markers[_i], text);
    ck_assert(redlock__marker_parse(text, &back));
    assert_same(&back, &markers[_i]);
}
END_TEST

static const char *const malformed[] = {
    "",
    "redlock",
    "redlock=1",
    "redlock=1 ",
    " " GOOD,
    GOOD " ",
    GOOD "\n",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID "8 offset=-1", /* of 41 */
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID,
    GOOD "x",
    GOOD " shard=1",
    "redlock=2 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=10 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1  fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 run=" RUN_ID
    " offset=-1",
    "redlock=1 fleet=00000000000000FF member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=0x000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=000000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=000000000000zzff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=02 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=-2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=+5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=100000 quorum=3 max_ttl_ms=60000 durable=1 "
    "retired=0 run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n= quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 quorum=3 n=5 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=0 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=-1 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=31536000001 durable=1 "
    "retired=0 run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=99999999999999999999 "
    "durable=1 retired=0 run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=2 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=2 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=01 retired=0 "
    "run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=yes "
    "retired=0 run=" RUN_ID " offset=-1",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=01234 6789",
    "redlock=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=01234\xff",
    "REDLOCK=1 fleet=00000000000000ff member=2 n=5 quorum=3 max_ttl_ms=60000 durable=1 retired=0 "
    "run=" RUN_ID " offset=-1",
};

START_TEST(what_is_malformed_is_not_understood)
{
    struct redlock__marker marker = markers[1];
    ck_assert(!redlock__marker_parse(malformed[_i], &marker));
    assert_same(&marker, &markers[1]); /* untouched */
}
END_TEST

START_TEST(every_cut_and_every_other_byte_is_not_understood)
{
    char text[REDLOCK__MARKER_LEN];
    struct redlock__marker marker = good;
    ck_assert(redlock__marker_parse(GOOD, &marker)); /* what follows breaks something */
    for (size_t len = 0; len + 40 < sizeof(GOOD); len++) {
        snprintf(text, sizeof(text), "%.*s", (int)len, GOOD);
        ck_assert_msg(!redlock__marker_parse(text, &marker), "%s", text);
    }
    for (size_t i = 0; i < sizeof(GOOD) - 1; i++) {
        strcpy(text, GOOD);
        text[i] = '?';
        ck_assert_msg(!redlock__marker_parse(text, &marker), "%s", text);
    }
}
END_TEST

START_TEST(a_text_that_fills_its_room_is_not_understood)
{
    char text[REDLOCK__MARKER_LEN];
    struct redlock__marker marker;
    memset(text, 'f', sizeof(text));
    memcpy(text, GOOD, sizeof(GOOD) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert(!redlock__marker_parse(text, &marker));
    memset(text, ' ', sizeof(text) - 1);
    ck_assert(!redlock__marker_parse(text, &marker));
}
END_TEST

START_TEST(the_longest_text_has_room)
{
    struct redlock__marker longest = {.fleet = UINT64_MAX,
                                      .member = UINT32_MAX,
                                      .n = UINT32_MAX,
                                      .quorum = UINT32_MAX,
                                      .max_ttl_ms = INT64_MIN,
                                      .durable = true,
                                      .retired = true,
                                      .second_offset = INT64_MIN};
    char text[REDLOCK__MARKER_LEN];
    memset(longest.run_id, 'f', sizeof(longest.run_id) - 1);
    redlock__marker_format(&longest, text);
    ck_assert_uint_lt(strlen(text), sizeof(text) - 1);
    ck_assert_str_eq(strstr(text, "run="),
                     "run=ffffffffffffffffffffffffffffffffffffffff offset=-9223372036854775808");
}
END_TEST

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

int main(void)
{
    Suite *suite = suite_create("marker");
    TCase *texts = tcase_create("texts");
    tcase_add_test(texts, the_text_is_for_people_too);
    tcase_add_loop_test(texts, what_is_written_is_read_back, 0, LENGTH(markers));
    tcase_add_loop_test(texts, what_is_malformed_is_not_understood, 0, LENGTH(malformed));
    tcase_add_test(texts, every_cut_and_every_other_byte_is_not_understood);
    tcase_add_test(texts, a_text_that_fills_its_room_is_not_understood);
    tcase_add_test(texts, the_longest_text_has_room);
    suite_add_tcase(suite, texts);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
