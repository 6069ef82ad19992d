/*
 * What primaries say about themselves, as they say it: Redis and Valkey, proxies, and those that
 * refuse. Texts of INFO are cut to a few of their lines.
 */
#include "facts.h"

#include <check.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID "89457ccbecf70183a277a64fa256ad1ff9713a15"
#define NOT_UNDERSTOOD "an answer that can't be understood"

static struct redlock__facts facts;

static void setup(void)
{
    facts = (struct redlock__facts){0};
}

/* As received: bytes of a reply, from wire to facts. */
static void told_bytes(enum redlock__command command, const char *wire, size_t len)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    ck_assert_int_eq(redisReaderFeed(reader, wire, len), REDIS_OK);
    ck_assert_int_eq(redisReaderGetReply(reader, &reply), REDIS_OK);
    ck_assert_ptr_nonnull(reply);
    redlock__facts_take(&facts, command, reply, 1000, 2000);
    freeReplyObject(reply);
    redisReaderFree(reader);
}

static void told(enum redlock__command command, const char *wire)
{
    told_bytes(command, wire, strlen(wire));
}

static void told_text(enum redlock__command command, const char *text)
{
    char wire[4096];
    int len = snprintf(wire, sizeof(wire), "$%zu\r\n%s\r\n", strlen(text), text);
    told_bytes(command, wire, (size_t)len);
}

static void assert_refused(enum redlock__fact fact, const char *text)
{
    ck_assert(!facts.given[fact]);
    ck_assert_str_eq(facts.refusal[fact], text);
}

static void assert_given(enum redlock__fact fact)
{
    ck_assert(facts.given[fact]);
    ck_assert_str_eq(facts.refusal[fact], "");
}

/* ---- INFO server -------------------------------------------------------- */

static const char redis7_server[] =
    "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\n"
    "os:Linux 6.1.0 x86_64\r\narch_bits:64\r\nprocess_id:7343\r\nprocess_supervised:no\r\n"
    "run_id:" RUN_ID "\r\ntcp_port:6379\r\nserver_time_usec:1795988578600219\r\n"
    "uptime_in_seconds:86401\r\nuptime_in_days:1\r\nhz:10\r\nconfigured_hz:10\r\n"
    "executable:/usr/bin/redis-server\r\nconfig_file:\r\nio_threads_active:0\r\n";

static const char valkey8_server[] =
    "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n"
    "valkey_release_stage:ga\r\nserver_mode:standalone\r\nprocess_id:1\r\n"
    "run_id:" RUN_ID "\r\ntcp_port:6379\r\nserver_time_usec:1795988578600219\r\n"
    "uptime_in_seconds:86401\r\nuptime_in_days:1\r\nexecutable:/data/valkey-server\r\n"
    "availability_zone:\r\nlistener0:name=tcp,bind=127.0.0.1,bind=-::1,port=6379\r\n";

/* Another order, other ends of lines, and lines that only look alike. */
static const char proxy_server[] =
    "old_run_id:ffff\nrun_id_2:eeee\nuptime_in_seconds_total:7\nuptime_in_seconds:86401\n"
    "run_id:" RUN_ID;

START_TEST(info_server_is_read)
{
    static const char *const texts[] = {redis7_server, valkey8_server, proxy_server};
    told_text(REDLOCK__CMD_INFO_SERVER, texts[_i]);
    assert_given(REDLOCK__FACT_SERVER);
    ck_assert_str_eq(facts.run_id, RUN_ID);
    ck_assert_int_eq(facts.uptime_s, 86401);
    ck_assert_int_eq(facts.uptime_read_ns, 2000);
}
END_TEST

START_TEST(a_clock_set_back_since_the_start_is_no_refusal)
{
    told_text(REDLOCK__CMD_INFO_SERVER, "run_id:" RUN_ID "\r\nuptime_in_seconds:-3600\r\n");
    assert_given(REDLOCK__FACT_SERVER);
    ck_assert_int_eq(facts.uptime_s, 0);
}
END_TEST

static const char *const bad_servers[] = {
    "",
    "# Server\r\n",
    "run_id:" RUN_ID "\r\n",
    "uptime_in_seconds:1\r\n",
    "run_id:\r\nuptime_in_seconds:1\r\n",
    "run_id: " RUN_ID "\r\nuptime_in_seconds:1\r\n",
    "run_id:xyz\r\nuptime_in_seconds:1\r\n",
    "run_id:" RUN_ID "0\r\nuptime_in_seconds:1\r\n", /* 41 */
    "run_id:" RUN_ID "\r\nuptime_in_seconds:\r\n",
    "run_id:" RUN_ID "\r\nuptime_in_seconds:soon\r\n",
    "run_id:" RUN_ID "\r\nuptime_in_seconds:12.5\r\n",
    "run_id:" RUN_ID "\r\nuptime_in_seconds:12s\r\n",
    "run_id:" RUN_ID "\r\n uptime_in_seconds:1\r\n",
    "run_id:" RUN_ID " uptime_in_seconds:1\r\n",
};

START_TEST(a_server_that_says_too_little_refuses)
{
    told_text(REDLOCK__CMD_INFO_SERVER, bad_servers[_i]);
    assert_refused(REDLOCK__FACT_SERVER, NOT_UNDERSTOOD);
    ck_assert_str_eq(facts.run_id, "");
}
END_TEST

/* ---- INFO replication --------------------------------------------------- */

static const struct {
    const char *text;
    bool replica;
    int64_t replicas, second_offset;
} replications[] = {
    {"# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
     "master_replid:5916913c9588700bb73e0eafa00e6b6288959097\r\n"
     "master_replid2:0000000000000000000000000000000000000000\r\nmaster_repl_offset:0\r\n"
     "second_repl_offset:-1\r\nrepl_backlog_active:0\r\nrepl_backlog_size:1048576\r\n",
     false, 0, -1},
    {"# Replication\r\nrole:master\r\nconnected_slaves:2\r\n"
     "slave0:ip=10.0.0.2,port=6379,state=online,offset=14,lag=0,type=replica\r\n"
     "slave1:ip=10.0.0.3,port=6379,state=online,offset=14,lag=1,type=replica\r\n"
     "replicas_waiting_psync:0\r\nmaster_failover_state:no-failover\r\n"
     "second_repl_offset:-1\r\n",
     false, 2, -1},
    {"# Replication\r\nrole:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n"
     "master_link_status:up\r\nslave_read_only:1\r\nreplica_announced:1\r\n"
     "connected_slaves:0\r\nsecond_repl_offset:-1\r\n",
     true, 0, -1},
    {"# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_repl_offset:812\r\n"
     "second_repl_offset:799\r\n",
     false, 0, 799}, /* promoted */
    {"second_repl_offset:-1\nconnected_slaves:1\nrole:master", false, 1, -1},
};

START_TEST(info_replication_is_read)
{
    told_text(REDLOCK__CMD_INFO_REPLICATION, replications[_i].text);
    assert_given(REDLOCK__FACT_REPLICATION);
    ck_assert_int_eq(facts.replica, replications[_i].replica);
    ck_assert_int_eq(facts.replicas, replications[_i].replicas);
    ck_assert_int_eq(facts.second_offset, replications[_i].second_offset);
}
END_TEST

static const char *const bad_replications[] = {
    "",
    "role:master\r\nconnected_slaves:0\r\n",
    "role:master\r\nsecond_repl_offset:-1\r\n",
    "connected_slaves:0\r\nsecond_repl_offset:-1\r\n",
    "role:master\r\nconnected_slaves:none\r\nsecond_repl_offset:-1\r\n",
    "role:master\r\nconnected_slaves:0\r\nsecond_repl_offset:\r\n",
};

START_TEST(a_replication_that_says_too_little_refuses)
{
    told_text(REDLOCK__CMD_INFO_REPLICATION, bad_replications[_i]);
    assert_refused(REDLOCK__FACT_REPLICATION, NOT_UNDERSTOOD);
}
END_TEST

START_TEST(who_is_no_master_is_a_replica)
{
    static const char *const roles[] = {"slave", "replica", "sentinel", "", "MASTER"};
    char text[128];
    snprintf(text, sizeof(text), "role:%s\r\nconnected_slaves:0\r\nsecond_repl_offset:-1\r\n",
             roles[_i]);
    told_text(REDLOCK__CMD_INFO_REPLICATION, text);
    ck_assert(facts.replica);
}
END_TEST

/* ---- CONFIG GET --------------------------------------------------------- */

#define SETTING(name_len, name, value_len, value)                                                  \
    "$" #name_len "\r\n" name "\r\n$" #value_len "\r\n" value "\r\n"
#define APPEND_ONLY SETTING(10, "appendonly", 3, "yes")
#define FSYNC SETTING(11, "appendfsync", 6, "always")
#define ON_REWRITE SETTING(25, "no-appendfsync-on-rewrite", 2, "no")

static const struct {
    const char *wire;
    bool given, durable;
} settings[] = {
    {"*6\r\n" APPEND_ONLY FSYNC ON_REWRITE, true, true},
    {"*10\r\n" SETTING(13, "appenddirname", 13, "appendonlydir")
         ON_REWRITE SETTING(14, "appendfilename", 14, "appendonly.aof") FSYNC APPEND_ONLY,
     true, true}, /* Redis 7 and Valkey */
    {"*6\r\n" SETTING(10, "appendonly", 2, "no") FSYNC ON_REWRITE, true, false},
    {"*6\r\n" APPEND_ONLY SETTING(11, "appendfsync", 8, "everysec") ON_REWRITE, true, false},
    {"*6\r\n" APPEND_ONLY FSYNC SETTING(25, "no-appendfsync-on-rewrite", 3, "yes"), true, false},
    {"*4\r\n" APPEND_ONLY FSYNC, true, false},
    {"*4\r\n" FSYNC ON_REWRITE, true, false},
    {"*4\r\n" APPEND_ONLY ON_REWRITE, true, false},
    {"*5\r\n" APPEND_ONLY FSYNC "$25\r\nno-appendfsync-on-rewrite\r\n", true, false}, /* odd */
    {"*7\r\n$1\r\nx\r\n" APPEND_ONLY FSYNC ON_REWRITE, true, false},
    {"*6\r\n" APPEND_ONLY FSYNC "$25\r\nno-appendfsync-on-rewrite\r\n:0\r\n", true, false},
    {"*6\r\n" APPEND_ONLY FSYNC ":25\r\n$2\r\nno\r\n", true, false},
    {"*6\r\n" APPEND_ONLY FSYNC "$-1\r\n$-1\r\n", true, false},
    {"*8\r\n" APPEND_ONLY FSYNC ON_REWRITE ":1\r\n:1\r\n", true, true},
    {"*1\r\n$1\r\nx\r\n", true, false},
    {"*0\r\n", false, false},
    {"*-1\r\n", false, false},
    {"$3\r\nyes\r\n", false, false},
    {"+OK\r\n", false, false},
    {":1\r\n", false, false},
};

START_TEST(settings_are_durable_or_not)
{
    told(REDLOCK__CMD_SETTINGS, settings[_i].wire);
    ck_assert_int_eq(facts.given[REDLOCK__FACT_SETTINGS], settings[_i].given);
    ck_assert_int_eq(facts.durable, settings[_i].durable);
    ck_assert_str_eq(facts.refusal[REDLOCK__FACT_SETTINGS],
                     settings[_i].given ? "" : NOT_UNDERSTOOD);
}
END_TEST

START_TEST(durable_is_what_was_said_last)
{
    told(REDLOCK__CMD_SETTINGS, settings[0].wire);
    told(REDLOCK__CMD_SETTINGS, settings[2].wire);
    ck_assert(!facts.durable);
}
END_TEST

/* ---- the marker --------------------------------------------------------- */

START_TEST(a_marker_is_there_or_not)
{
    told(REDLOCK__CMD_MARKER, "$9\r\nredlock=1\r\n");
    assert_given(REDLOCK__FACT_MARKER);
    ck_assert(facts.marked);
    ck_assert_str_eq(facts.marker_text, "redlock=1");
    told(REDLOCK__CMD_MARKER, _i == 0 ? "$-1\r\n" : "$0\r\n\r\n");
    assert_given(REDLOCK__FACT_MARKER);
    ck_assert(!facts.marked);
    ck_assert_str_eq(facts.marker_text, "");
}
END_TEST

START_TEST(a_long_marker_is_cut)
{
    char text[1000];
    memset(text, 'm', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    told_text(REDLOCK__CMD_MARKER, text);
    ck_assert(facts.marked);
    ck_assert_uint_eq(strlen(facts.marker_text), REDLOCK__MARKER_LEN - 1);
}
END_TEST

START_TEST(what_mark_gives_is_the_marker)
{
    told(REDLOCK__CMD_MARKER, "$3\r\nold\r\n");
    told(REDLOCK__CMD_MARK, "$3\r\nnew\r\n");
    ck_assert_str_eq(facts.marker_text, "new");
    ck_assert(!facts.mark_refused);
    told(REDLOCK__CMD_MARK, "$0\r\n\r\n"); /* there was none, and there is none */
    ck_assert(!facts.marked);
}
END_TEST

START_TEST(a_refused_mark_leaves_the_marker)
{
    told(REDLOCK__CMD_MARKER, _i == 0 ? "$3\r\nold\r\n" : "$-1\r\n");
    told(REDLOCK__CMD_MARK, "-NOPERM no eval\r\n");
    assert_given(REDLOCK__FACT_MARKER);
    ck_assert_int_eq(facts.marked, _i == 0);
    ck_assert_str_eq(facts.marker_text, _i == 0 ? "old" : "");
    ck_assert(facts.mark_refused);
}
END_TEST

START_TEST(a_mark_answered_by_nonsense_is_not_understood)
{
    told(REDLOCK__CMD_MARKER, "$3\r\nold\r\n");
    told(REDLOCK__CMD_MARK, ":1\r\n");
    assert_refused(REDLOCK__FACT_MARKER, NOT_UNDERSTOOD);
}
END_TEST

/* ---- since when --------------------------------------------------------- */

static const struct {
    const char *text, *seen;
    int64_t age_us;
} seens[] = {
    {"1795988578600219 1795988578600219", "1795988578600219", 0},
    {"1795988578600219 1795988588600220", "1795988578600219", 10000001},
    {"1795988578600219 1795988578600000", "1795988578600219", -219}, /* its clock went back */
    {"00000000000000000000005 7", "00000000000000000000005", 2},     /* 23 characters have room */
};

START_TEST(since_when_is_read)
{
    told_text(REDLOCK__CMD_SEEN, seens[_i].text);
    assert_given(REDLOCK__FACT_SEEN);
    ck_assert_str_eq(facts.seen, seens[_i].seen);
    ck_assert_int_eq(facts.seen_age_us, seens[_i].age_us);
    ck_assert_int_eq(facts.seen_asked_ns, 1000);
}
END_TEST

static const char *const bad_seens[] = {
    "",     " ",   "5",    "5 ",    " 7",
    "x 7",  "5 x", "5\t7", "5x 7",  "0 7",
    "-5 7", "5 0", "5 -7", "nil 7", "000000000000000000000005 7",
};

START_TEST(a_bad_since_when_is_refused)
{
    told_text(REDLOCK__CMD_SEEN, seens[1].text);
    told_text(REDLOCK__CMD_SEEN, bad_seens[_i]);
    assert_refused(REDLOCK__FACT_SEEN, NOT_UNDERSTOOD);
    ck_assert_str_eq(facts.seen, seens[1].seen); /* the last that was understood */
}
END_TEST

/* ---- fencing numbers ---------------------------------------------------- */

static void told_floor(enum redlock__command command, const char *base, const char *score)
{
    char wire[400];
    int len = snprintf(wire, sizeof(wire), "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(base), base,
                       strlen(score), score);
    told_bytes(command, wire, (size_t)len);
}

#define BASE "run=" RUN_ID " base=5"

START_TEST(base_and_floor_are_there_or_not)
{
    char longer[200];

    told(REDLOCK__CMD_FLOOR, "*0\r\n");
    assert_given(REDLOCK__FACT_FLOOR);
    ck_assert_str_eq(facts.base_text, "");
    ck_assert_int_eq(facts.floor, -1);
    told_floor(REDLOCK__CMD_FLOOR, BASE, "0");
    assert_given(REDLOCK__FACT_FLOOR);
    ck_assert_str_eq(facts.base_text, BASE);
    ck_assert_int_eq(facts.floor, 0);
    told_floor(REDLOCK__CMD_FLOOR, BASE, "4503599627370496");
    ck_assert_int_eq(facts.floor, REDLOCK__FENCE_MAX);
    told_floor(REDLOCK__CMD_FLOOR, BASE, "1.7e+12");
    ck_assert_int_eq(facts.floor, 1700000000000);
    ck_assert_int_eq(facts.floor_asked_ns, 1000);
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    told_floor(REDLOCK__CMD_FLOOR, longer, "7");
    ck_assert_uint_eq(strlen(facts.base_text), REDLOCK__BASE_LEN - 1);
    told(REDLOCK__CMD_FLOOR, "*0\r\n");
    ck_assert_str_eq(facts.base_text, "");
    ck_assert_int_eq(facts.floor, -1);
}
END_TEST

static const char *const bad_floors[] = {"",    "x",  "5x", "5 ", "-1", "4503599627370497",
                                         "1.5", "inf"};

START_TEST(a_bad_floor_is_none)
{
    told_floor(REDLOCK__CMD_FLOOR, BASE, "5");
    told_floor(REDLOCK__CMD_FLOOR, BASE, bad_floors[_i]);
    assert_refused(REDLOCK__FACT_FLOOR, NOT_UNDERSTOOD);
    ck_assert_int_eq(facts.floor, -1);
    ck_assert_str_eq(facts.base_text, "");
}
END_TEST

static const char *const bad_sets[] = {
    ":5\r\n",
    "$-1\r\n",
    "$1\r\n5\r\n",
    "*1\r\n$1\r\na\r\n",
    "*2\r\n:1\r\n$1\r\n5\r\n",
    "*2\r\n$1\r\na\r\n:5\r\n",
    "*2\r\n$3\r\na\0b\r\n$1\r\n5\r\n",
    "*4\r\n$1\r\na\r\n$1\r\n5\r\n$1\r\nb\r\n$1\r\n6\r\n", /* whose is it? */
};

START_TEST(what_is_no_base_with_its_floor_is_not_understood)
{
    told_floor(REDLOCK__CMD_FLOOR, BASE, "5");
    if (_i == 6)
        told_bytes(REDLOCK__CMD_FLOOR, "*2\r\n$3\r\na\0b\r\n$1\r\n5\r\n", 20);
    else
        told(REDLOCK__CMD_FLOOR, bad_sets[_i]);
    assert_refused(REDLOCK__FACT_FLOOR, NOT_UNDERSTOOD);
    ck_assert_int_eq(facts.floor, -1);
    ck_assert_str_eq(facts.base_text, "");
}
END_TEST

START_TEST(a_key_of_another_type_is_told_in_its_words)
{
    told(REDLOCK__CMD_FLOOR, "-WRONGTYPE not a set\r\n");
    assert_refused(REDLOCK__FACT_FLOOR, "WRONGTYPE not a set");
}
END_TEST

START_TEST(what_recover_gives_is_what_is_there)
{
    told(REDLOCK__CMD_FLOOR, "*0\r\n");
    facts.floor_asked_ns = 7;
    told_floor(REDLOCK__CMD_RECOVER, BASE, "6");
    assert_given(REDLOCK__FACT_FLOOR);
    ck_assert_str_eq(facts.base_text, BASE);
    ck_assert_int_eq(facts.floor, 6);
    ck_assert_int_eq(facts.floor_asked_ns, 1000);
    ck_assert(!facts.recover_refused);
    told(REDLOCK__CMD_RECOVER, "*0\r\n"); /* the marker is another one */
    ck_assert_str_eq(facts.base_text, "");
    ck_assert_int_eq(facts.floor, -1);
}
END_TEST

START_TEST(a_refused_recovery_leaves_the_base)
{
    told_floor(REDLOCK__CMD_FLOOR, BASE, "6");
    told(REDLOCK__CMD_RECOVER, "-NOPERM no right\r\n");
    ck_assert(facts.recover_refused);
    assert_given(REDLOCK__FACT_FLOOR);
    ck_assert_str_eq(facts.base_text, BASE);
    ck_assert_int_eq(facts.floor, 6);
}
END_TEST

/* ---- TIME --------------------------------------------------------------- */

static const struct {
    const char *wire;
    int64_t us;
} times[] = {
    {"*2\r\n$10\r\n1795988578\r\n$6\r\n600219\r\n", INT64_C(1795988578600219)},
    {"*2\r\n$10\r\n1795988578\r\n$1\r\n9\r\n", INT64_C(1795988578000009)},
    {"*2\r\n$1\r\n0\r\n$1\r\n0\r\n", 0},
    {"*2\r\n$10\r\n8000000000\r\n$6\r\n999999\r\n", INT64_C(8000000000999999)},
};

START_TEST(time_is_read)
{
    told(REDLOCK__CMD_TIME, times[_i].wire);
    assert_given(REDLOCK__FACT_CLOCK);
    ck_assert_int_eq(facts.sample.server_us, times[_i].us);
    ck_assert_int_eq(facts.sample.asked_ns, 1000);
    ck_assert_int_eq(facts.sample.read_ns, 2000);
}
END_TEST

static const char *const bad_times[] = {
    "*0\r\n",
    "*-1\r\n",
    "*1\r\n$10\r\n1795988578\r\n",
    "*3\r\n$10\r\n1795988578\r\n$1\r\n0\r\n$1\r\n0\r\n",
    "*2\r\n:1795988578\r\n:600219\r\n",
    "*2\r\n$10\r\n1795988578\r\n$-1\r\n",
    "*2\r\n$10\r\n1795988578\r\n$7\r\n1000000\r\n",
    "*2\r\n$10\r\n1795988578\r\n$2\r\n-1\r\n",
    "*2\r\n$2\r\n-1\r\n$1\r\n0\r\n",
    "*2\r\n$10\r\n8000000001\r\n$1\r\n0\r\n",
    "*2\r\n$20\r\n99999999999999999999\r\n$1\r\n0\r\n",
    "*2\r\n$10\r\n1795988578\r\n$20\r\n99999999999999999999\r\n",
    "$10\r\n1795988578\r\n",
    ":1795988578\r\n",
    "+OK\r\n",
    /* no numbers */
    "*2\r\n$4\r\nsoon\r\n$1\r\n0\r\n",
    "*2\r\n$10\r\n1795988578\r\n$0\r\n\r\n",
    "*2\r\n$12\r\n1795988578.5\r\n$1\r\n0\r\n",
};

START_TEST(a_bad_time_is_refused)
{
    told(REDLOCK__CMD_TIME, times[0].wire);
    told(REDLOCK__CMD_TIME, bad_times[_i]);
    assert_refused(REDLOCK__FACT_CLOCK, NOT_UNDERSTOOD);
    ck_assert_int_eq(facts.sample.server_us, times[0].us);
}
END_TEST

/* ---- refusals ----------------------------------------------------------- */

static const struct {
    enum redlock__command command;
    enum redlock__fact fact;
} questions[] = {
    {REDLOCK__CMD_INFO_SERVER, REDLOCK__FACT_SERVER},
    {REDLOCK__CMD_INFO_REPLICATION, REDLOCK__FACT_REPLICATION},
    {REDLOCK__CMD_SETTINGS, REDLOCK__FACT_SETTINGS},
    {REDLOCK__CMD_MARKER, REDLOCK__FACT_MARKER},
    {REDLOCK__CMD_SEEN, REDLOCK__FACT_SEEN},
    {REDLOCK__CMD_TIME, REDLOCK__FACT_CLOCK},
};

START_TEST(an_error_is_kept_for_people_and_touches_nothing_else)
{
    told(questions[_i].command, "-NOPERM this user has \x01no permissions\r\n");
    for (int i = 0; i < REDLOCK__FACTS; i++) {
        ck_assert(!facts.given[i]);
        ck_assert_str_eq(facts.refusal[i], i == (int)questions[_i].fact
                                               ? "NOPERM this user has ?no permissions"
                                               : "");
    }
    ck_assert(!facts.mark_refused);
}
END_TEST

START_TEST(a_reply_of_another_type_is_not_understood)
{
    static const char *const replies[] = {":1\r\n", "+PONG\r\n", "*2\r\n:1\r\n:2\r\n"};
    for (size_t k = 0; k < 3; k++) {
        if (k == 2 && questions[_i].fact == REDLOCK__FACT_SETTINGS)
            continue; /* an array without the settings asked for */
        told(questions[_i].command, replies[k]);
        assert_refused(questions[_i].fact, NOT_UNDERSTOOD);
    }
    if (questions[_i].fact != REDLOCK__FACT_MARKER) {
        told(questions[_i].command, "$-1\r\n");
        assert_refused(questions[_i].fact, NOT_UNDERSTOOD);
    }
}
END_TEST

START_TEST(a_refusal_is_over_when_an_answer_comes)
{
    told(REDLOCK__CMD_INFO_SERVER, "-NOPERM no info\r\n");
    assert_refused(REDLOCK__FACT_SERVER, "NOPERM no info");
    told_text(REDLOCK__CMD_INFO_SERVER, redis7_server);
    assert_given(REDLOCK__FACT_SERVER);
    told(REDLOCK__CMD_INFO_SERVER, "-NOPERM no more\r\n");
    assert_refused(REDLOCK__FACT_SERVER, "NOPERM no more");
    ck_assert_str_eq(facts.run_id, RUN_ID);
}
END_TEST

START_TEST(other_commands_ask_for_no_fact)
{
    static const struct redlock__facts none;
    for (int command = REDLOCK__CMD_AUTH; command <= REDLOCK__CMD_GET; command++) {
        ck_assert_int_eq(redlock__fact_of((enum redlock__command)command), REDLOCK__FACTS);
        told((enum redlock__command)command, "$1\r\nx\r\n");
        told((enum redlock__command)command, "-ERR x\r\n");
    }
    ck_assert_mem_eq(&facts, &none, sizeof(facts));
    ck_assert_int_eq(redlock__fact_of(REDLOCK__CMD_MARK), REDLOCK__FACT_MARKER);
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        ck_assert_int_eq(redlock__fact_of(questions[i].command), questions[i].fact);
}
END_TEST

#define LENGTH(array) ((int)(sizeof(array) / sizeof(array)[0]))

static void add_answers(TCase *t)
{
    tcase_add_loop_test(t, info_server_is_read, 0, 3);
    tcase_add_test(t, a_clock_set_back_since_the_start_is_no_refusal);
    tcase_add_loop_test(t, a_server_that_says_too_little_refuses, 0, LENGTH(bad_servers));
    tcase_add_loop_test(t, info_replication_is_read, 0, LENGTH(replications));
    tcase_add_loop_test(t, a_replication_that_says_too_little_refuses, 0, LENGTH(bad_replications));
    tcase_add_loop_test(t, who_is_no_master_is_a_replica, 0, 5);
    tcase_add_loop_test(t, settings_are_durable_or_not, 0, LENGTH(settings));
    tcase_add_test(t, durable_is_what_was_said_last);
    tcase_add_loop_test(t, a_marker_is_there_or_not, 0, 2);
    tcase_add_test(t, a_long_marker_is_cut);
    tcase_add_test(t, what_mark_gives_is_the_marker);
    tcase_add_loop_test(t, a_refused_mark_leaves_the_marker, 0, 2);
    tcase_add_test(t, a_mark_answered_by_nonsense_is_not_understood);
    tcase_add_loop_test(t, since_when_is_read, 0, LENGTH(seens));
    tcase_add_loop_test(t, a_bad_since_when_is_refused, 0, LENGTH(bad_seens));
    tcase_add_test(t, base_and_floor_are_there_or_not);
    tcase_add_loop_test(t, a_bad_floor_is_none, 0, LENGTH(bad_floors));
    tcase_add_loop_test(t, what_is_no_base_with_its_floor_is_not_understood, 0, LENGTH(bad_sets));
    tcase_add_test(t, a_key_of_another_type_is_told_in_its_words);
    tcase_add_test(t, what_recover_gives_is_what_is_there);
    tcase_add_test(t, a_refused_recovery_leaves_the_base);
    tcase_add_loop_test(t, time_is_read, 0, LENGTH(times));
    tcase_add_loop_test(t, a_bad_time_is_refused, 0, LENGTH(bad_times));
}

static void add_refusals(TCase *t)
{
    tcase_add_loop_test(t, an_error_is_kept_for_people_and_touches_nothing_else, 0,
                        LENGTH(questions));
    tcase_add_loop_test(t, a_reply_of_another_type_is_not_understood, 0, LENGTH(questions));
    tcase_add_test(t, a_refusal_is_over_when_an_answer_comes);
    tcase_add_test(t, other_commands_ask_for_no_fact);
}

int main(void)
{
    Suite *suite = suite_create("facts");
    TCase *answers = tcase_create("answers"), *refusals = tcase_create("refusals");
    tcase_add_checked_fixture(answers, setup, NULL);
    tcase_add_checked_fixture(refusals, setup, NULL);
    add_answers(answers);
    add_refusals(refusals);
    suite_add_tcase(suite, answers);
    suite_add_tcase(suite, refusals);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
