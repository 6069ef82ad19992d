/*
 * See server.h. Commands are looked up by their words; the two scripts are recognized
 * by their text and run as what they mean. Expired keys are dropped when something
 * looks at them. Nothing here knows of connections or of the network.
 */
#include "server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "command.h"
#include "marker.h"

/* ---- parsing ------------------------------------------------------------ */

/* "<mark>number\r\n"; returns bytes, 0: not whole, SIZE_MAX: wrong. */
static size_t parse_number(const char *data, size_t len, char mark, size_t *number)
{
    size_t i = 1;
    *number = 0;
    if (len == 0)
        return 0;
    if (data[0] != mark)
        return SIZE_MAX;
    for (; i < len && data[i] >= '0' && data[i] <= '9' && i < 12; i++)
        *number = *number * 10 + (size_t)(data[i] - '0');
    if (i < len && (data[i] != '\r' || i == 1))
        return SIZE_MAX;
    if (i + 1 >= len)
        return 0;
    return data[i + 1] == '\n' ? i + 2 : SIZE_MAX;
}

size_t sim_parse(const char *data, size_t len, struct sim_args *args)
{
    size_t count = 0;
    size_t at = parse_number(data, len, '*', &count);
    if (at == 0 || at == SIZE_MAX)
        return at;
    if (count == 0 || count > SIM_MAX_ARGS)
        return SIZE_MAX;
    args->count = count;
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        size_t head = parse_number(data + at, len - at, '$', &size);
        if (head == 0 || head == SIZE_MAX)
            return head;
        at += head;
        if (len - at < size + 2)
            return 0;
        if (data[at + size] != '\r' || data[at + size + 1] != '\n')
            return SIZE_MAX;
        args->data[i] = data + at;
        args->len[i] = size;
        at += size + 2;
    }
    return at;
}

static bool word(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] == strlen(text) &&
           strncasecmp(args->data[i], text, args->len[i]) == 0;
}

static bool text_is(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] == strlen(text) &&
           memcmp(args->data[i], text, args->len[i]) == 0;
}

static bool starts_with(const struct sim_args *args, size_t i, const char *text)
{
    return i < args->count && args->len[i] >= strlen(text) &&
           memcmp(args->data[i], text, strlen(text)) == 0;
}

enum sim_command sim_classify(const struct sim_args *args)
{
    static const struct {
        const char *name;
        enum sim_command command;
    } names[] = {
        {"AUTH", SIM_AUTH},   {"SELECT", SIM_SELECT},     {"PING", SIM_PING},
        {"SET", SIM_SET},     {"GET", SIM_GET},           {"PTTL", SIM_PTTL},
        {"DEL", SIM_DEL},     {"FLUSHALL", SIM_FLUSHALL}, {"TIME", SIM_TIME},
        {"BLPOP", SIM_BLPOP}, {"LPUSH", SIM_LPUSH},       {"PEXPIRE", SIM_PEXPIRE},
    };
    if (word(args, 0, "SET") && starts_with(args, 1, "redlock:waiting:"))
        return SIM_WAITING;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (word(args, 0, names[i].name))
            return names[i].command == SIM_GET && text_is(args, 1, REDLOCK__MARKER_KEY)
                       ? SIM_MARKER
                       : names[i].command;
    if (word(args, 0, "CLIENT") && word(args, 1, "SETNAME") && args->count == 3)
        return SIM_SETNAME;
    if (word(args, 0, "INFO") && args->count == 2)
        return word(args, 1, "server") ? SIM_INFO_SERVER : SIM_INFO_REPLICATION;
    if (word(args, 0, "CONFIG") && word(args, 1, "GET") && args->count == 3)
        return SIM_SETTINGS;
    if (word(args, 0, "EVAL") && text_is(args, 1, redlock__seen_script) && args->count == 4)
        return SIM_SEEN;
    if (word(args, 0, "EVAL") && text_is(args, 1, redlock__mark_script) && args->count == 8)
        return SIM_MARK;
    if (word(args, 0, "EVAL") && text_is(args, 2, "1") && args->count >= 5) {
        if (text_is(args, 1, redlock__extend_script) && args->count == 6)
            return SIM_EXTEND;
        if (text_is(args, 1, redlock__release_script) && (args->count == 5 || args->count == 6))
            return SIM_RELEASE;
    }
    return SIM_UNKNOWN;
}

/* ---- clock -------------------------------------------------------------- */

int64_t sim_scale(int64_t duration_ns, int64_t ppm)
{
    return duration_ns + duration_ns / 1000000 * ppm + duration_ns % 1000000 * ppm / 1000000;
}

int64_t sim_server_wall_ms(const struct sim_server *server, int64_t now_ns)
{
    return (server->wall_ns + sim_scale(now_ns, server->rate_ppm)) / 1000000;
}

void sim_server_step(struct sim_server *server, int64_t step_ns)
{
    server->wall_ns += step_ns;
}

void sim_server_rate(struct sim_server *server, int64_t ppm, int64_t now_ns)
{
    int64_t before_ns = sim_scale(now_ns, server->rate_ppm);
    server->rate_ppm = ppm;
    server->wall_ns += before_ns - sim_scale(now_ns, ppm);
}

/* ---- keys --------------------------------------------------------------- */

static void drop_entry(struct sim_server *server, size_t i)
{
    free(server->entries[i].key);
    free(server->entries[i].value);
    server->entries[i] = server->entries[--server->entry_count];
}

void sim_server_flush(struct sim_server *server)
{
    while (server->entry_count > 0)
        drop_entry(server, 0);
}

static bool expired(const struct sim_server *server, const struct sim_entry *entry, int64_t wall_ms)
{
    if (entry->when_ms == INT64_MAX)
        return false;
    return server->early ? wall_ms >= entry->when_ms : wall_ms > entry->when_ms;
}

struct sim_entry *sim_server_find(struct sim_server *server, uint32_t database, const char *key,
                                  size_t key_len, int64_t now_ns)
{
    int64_t wall_ms = sim_server_wall_ms(server, now_ns);
    for (size_t i = 0; i < server->entry_count; i++) {
        struct sim_entry *e = &server->entries[i];
        if (e->database != database || e->key_len != key_len || memcmp(e->key, key, key_len) != 0)
            continue;
        return expired(server, e, wall_ms) ? NULL : e;
    }
    return NULL;
}

static char *copy_bytes(const char *data, size_t len)
{
    char *copy = malloc(len + 1);
    if (copy == NULL)
        abort();
    memcpy(copy, data, len);
    copy[len] = '\0';
    return copy;
}

static struct sim_entry *add_entry(struct sim_server *server, uint32_t database, const char *key,
                                   size_t key_len, const char *value, size_t value_len,
                                   int64_t now_ns)
{
    int64_t wall_ms = sim_server_wall_ms(server, now_ns);
    for (size_t i = server->entry_count; i-- > 0;)
        if (expired(server, &server->entries[i], wall_ms))
            drop_entry(server, i);
    if (server->entry_count == SIM_MAX_ENTRIES)
        abort();
    struct sim_entry *e = &server->entries[server->entry_count++];
    *e = (struct sim_entry){.key = copy_bytes(key, key_len),
                            .value = copy_bytes(value, value_len),
                            .key_len = key_len,
                            .database = database,
                            .when_ms = INT64_MAX,
                            .written_ns = now_ns};
    return e;
}

bool sim_server_vanish(struct sim_server *server, const char *key)
{
    for (size_t i = 0; i < server->entry_count; i++)
        if (server->entries[i].key_len == strlen(key) &&
            memcmp(server->entries[i].key, key, strlen(key)) == 0) {
            drop_entry(server, i);
            return true;
        }
    return false;
}

struct sim_entry *sim_server_plant(struct sim_server *server, const char *key, const char *value,
                                   int64_t ttl_ms, int64_t now_ns)
{
    sim_server_vanish(server, key);
    struct sim_entry *e = add_entry(server, 0, key, strlen(key), value, strlen(value), now_ns);
    if (ttl_ms > 0)
        e->when_ms = sim_server_wall_ms(server, now_ns) + ttl_ms;
    e->planted = true;
    return e;
}

void sim_server_init(struct sim_server *server, uint32_t number)
{
    memset(server, 0, sizeof(*server));
    server->wall_ns = INT64_C(1700000000000000000);
    server->number = number;
    server->second_offset = -1;
    sim_server_start(server, 0);
}

void sim_server_start(struct sim_server *server, int64_t now_ns)
{
    server->run++;
    server->started_wall_s = sim_server_wall_ms(server, now_ns) / 1000;
}

void sim_server_run_id(const struct sim_server *server, char run_id[41])
{
    (void)snprintf(run_id, 41, "%020x%020x", (unsigned)server->number, (unsigned)server->run);
}

void sim_server_destroy(struct sim_server *server)
{
    sim_server_flush(server);
}

/* ---- commands ----------------------------------------------------------- */

static void say(struct sim_reply *reply, const char *text)
{
    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "%s\r\n", text);
}

static void say_integer(struct sim_reply *reply, int64_t value)
{
    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), ":%" PRId64 "\r\n", value);
}

static int64_t number_of(const struct sim_args *args, size_t i)
{
    char text[24] = "";
    if (i < args->count && args->len[i] < sizeof(text))
        memcpy(text, args->data[i], args->len[i]);
    return strtoll(text, NULL, 10);
}

static void execute_auth(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, struct sim_reply *reply)
{
    if (server->password == NULL) {
        say(reply, "-ERR AUTH <password> called without any password configured");
    } else if (text_is(args, args->count - 1, server->password)) {
        peer->authenticated = true;
        say(reply, "+OK");
    } else {
        say(reply, "-WRONGPASS invalid username-password pair or user is disabled.");
    }
}

static void execute_set(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    int64_t ttl_ms = number_of(args, 5);
    if (args->count != 6 || !word(args, 3, "NX") || !word(args, 4, "PX")) {
        server->foul = "SET without NX PX";
        say(reply, "-ERR syntax error");
        return;
    }
    if (ttl_ms <= 0) {
        server->foul = "SET with a ttl of 0 or less";
        say(reply, "-ERR invalid expire time in 'set' command");
        return;
    }
    if (sim_server_find(server, peer->database, args->data[1], args->len[1], now_ns) != NULL) {
        say(reply, "$-1");
        return;
    }
    struct sim_entry *e = add_entry(server, peer->database, args->data[1], args->len[1],
                                    args->data[2], args->len[2], now_ns);
    e->when_ms = sim_server_wall_ms(server, now_ns) + ttl_ms;
    e->late = peer->late;
    say(reply, "+OK");
}

/* Only ever longer, as the script does it. */
static void extend_entry(struct sim_entry *entry, int64_t when_ms)
{
    if (entry->when_ms == INT64_MAX || when_ms > entry->when_ms)
        entry->when_ms = when_ms;
}

/* What the release script adds where it is asked whether somebody waits. */
static int64_t release_result(struct sim_server *server, struct sim_peer *peer,
                              const struct sim_args *args, int64_t gone, int64_t now_ns)
{
    if (args->count < 6 || server->error[SIM_WAITING] != NULL ||
        sim_server_find(server, peer->database, args->data[5], args->len[5], now_ns) == NULL)
        return gone;
    return gone < 0 ? -2 : 3 - gone;
}

static void execute_script(struct sim_server *server, struct sim_peer *peer,
                           enum sim_command command, const struct sim_args *args, int64_t now_ns,
                           struct sim_reply *reply)
{
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);
    if (command == SIM_EXTEND)
        server->last_extend = e == NULL ? 0 : text_is(args, 4, e->value) ? 1 : -1;
    bool release = command == SIM_RELEASE;
    if (e == NULL) {
        say_integer(reply, release ? release_result(server, peer, args, 0, now_ns) : 0);
        return;
    }
    if (e->other_type) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value "
                   "script: f, on @user_script:1.");
        return;
    }
    if (!text_is(args, 4, e->value)) {
        say_integer(reply, release ? release_result(server, peer, args, -1, now_ns) : -1);
        return;
    }
    if (release)
        drop_entry(server, (size_t)(e - server->entries));
    else
        extend_entry(e, sim_server_wall_ms(server, now_ns) + number_of(args, 5));
    say_integer(reply, release ? release_result(server, peer, args, 1, now_ns) : 1);
}

static void execute_read(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *e = args->count != 2 ? NULL
                                           : sim_server_find(server, peer->database, args->data[1],
                                                             args->len[1], now_ns);
    if (command == SIM_PTTL) {
        int64_t left_ms = e == NULL ? -2
                          : e->when_ms == INT64_MAX
                              ? -1
                              : e->when_ms - sim_server_wall_ms(server, now_ns);
        say_integer(reply, left_ms);
    } else if (e == NULL) {
        say(reply, "$-1");
    } else if (e->other_type) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    } else {
        reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "$%zu\r\n%.400s\r\n",
                                      strlen(e->value), e->value);
    }
}

/* ---- what it says about itself ------------------------------------------ */

static void say_bulk(struct sim_reply *reply, const char *text)
{
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data), "$%zu\r\n%s\r\n", strlen(text), text);
}

static void say_info(const struct sim_server *server, enum sim_command command, int64_t now_ns,
                     struct sim_reply *reply)
{
    char text[256], run_id[41];

    sim_server_run_id(server, run_id);
    if (command == SIM_INFO_SERVER)
        (void)snprintf(text, sizeof(text),
                       "# Server\r\nrun_id:%s\r\nuptime_in_seconds:%" PRId64 "\r\n", run_id,
                       sim_server_wall_ms(server, now_ns) / 1000 - server->started_wall_s);
    else
        (void)snprintf(text, sizeof(text),
                       "# Replication\r\nrole:%s\r\nconnected_slaves:%" PRId64
                       "\r\nsecond_repl_offset:%" PRId64 "\r\n",
                       server->replica ? "slave" : "master", server->replicas,
                       server->second_offset);
    say_bulk(reply, text);
}

static int64_t wall_us(const struct sim_server *server, int64_t now_ns)
{
    return (server->wall_ns + sim_scale(now_ns, server->rate_ppm)) / 1000;
}

static void say_time(const struct sim_server *server, int64_t now_ns, struct sim_reply *reply)
{
    char seconds[24], micros[24];
    int64_t us = wall_us(server, now_ns);

    (void)snprintf(seconds, sizeof(seconds), "%" PRId64, us / 1000000);
    (void)snprintf(micros, sizeof(micros), "%" PRId64, us % 1000000);
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data), "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                         strlen(seconds), seconds, strlen(micros), micros);
}

static void say_settings(const struct sim_server *server, struct sim_reply *reply)
{
    const char *aof = server->durable ? "$3\r\nyes" : "$2\r\nno";

    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data),
                         "*6\r\n$10\r\nappendonly\r\n%s\r\n$11\r\nappendfsync\r\n"
                         "$6\r\nalways\r\n$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n",
                         aof);
}

static void execute_seen(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    char now[24], text[64];
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);

    (void)snprintf(now, sizeof(now), "%" PRId64, wall_us(server, now_ns));
    if (e == NULL)
        e = add_entry(server, peer->database, args->data[3], args->len[3], now, strlen(now),
                      now_ns);
    (void)snprintf(text, sizeof(text), "%.24s %s", e->value, now);
    say_bulk(reply, text);
}

static void remove_key(struct sim_server *server, const char *key, size_t len)
{
    for (size_t i = server->entry_count; i-- > 0;)
        if (server->entries[i].key_len == len && memcmp(server->entries[i].key, key, len) == 0)
            drop_entry(server, i);
}

static void execute_mark(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *marker =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);
    struct sim_entry *seen =
        sim_server_find(server, peer->database, args->data[4], args->len[4], now_ns);
    const char *there = marker == NULL ? "" : marker->value;

    if (!text_is(args, 5, there) ||
        (args->len[6] != 0 && (seen == NULL || !text_is(args, 6, seen->value)))) {
        say_bulk(reply, there);
        return;
    }
    remove_key(server, args->data[3], args->len[3]);
    remove_key(server, args->data[4], args->len[4]);
    marker = add_entry(server, peer->database, args->data[3], args->len[3], args->data[7],
                       args->len[7], now_ns);
    say_bulk(reply, marker->value);
}

/* ---- waking ------------------------------------------------------------- */

bool sim_server_pop(struct sim_server *server, uint32_t database, const char *key, size_t key_len,
                    int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *e = sim_server_find(server, database, key, key_len, now_ns);

    if (e == NULL || e->elements == 0)
        return false;
    if (--e->elements == 0)
        drop_entry(server, (size_t)(e - server->entries));
    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data),
                                  "*2\r\n$%zu\r\n%.*s\r\n$1\r\n1\r\n", key_len, (int)key_len, key);
    return true;
}

/* Only keys of the library's own: anything else is foul. */
static void execute_wake(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[1], args->len[1], now_ns);
    bool own = starts_with(args, 1, "redlock:w");

    if (!own)
        server->foul = "a command that could touch another owner's key";
    if (command == SIM_BLPOP &&
        !sim_server_pop(server, peer->database, args->data[1], args->len[1], now_ns, reply)) {
        reply->blocks = true;
        reply->block_ms = number_of(args, 2) * 1000;
    } else if (command == SIM_LPUSH) {
        if (e == NULL)
            e = add_entry(server, peer->database, args->data[1], args->len[1], "", 0, now_ns);
        e->other_type = true;
        say_integer(reply, ++e->elements);
    } else if (command == SIM_PEXPIRE) {
        if (e != NULL)
            e->when_ms = sim_server_wall_ms(server, now_ns) + number_of(args, 2);
        say_integer(reply, e != NULL);
    } else if (command == SIM_DEL) {
        remove_key(server, args->data[1], args->len[1]);
        say_integer(reply, e != NULL);
    } else if (command == SIM_WAITING) {
        remove_key(server, args->data[1], args->len[1]);
        e = add_entry(server, peer->database, args->data[1], args->len[1], "1", 1, now_ns);
        e->when_ms = sim_server_wall_ms(server, now_ns) + number_of(args, 4);
        say(reply, "+OK");
    }
}

/* A removal that was refused leaves its key, and that is not the client's fault. */
static void mark_refused(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns)
{
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);
    if (e != NULL && text_is(args, 4, e->value))
        e->refused = true;
}

static bool refuse(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                   const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    if (server->error[command] != NULL) {
        reply->len =
            (size_t)snprintf(reply->data, sizeof(reply->data), "-%s\r\n", server->error[command]);
        if (command == SIM_RELEASE)
            mark_refused(server, peer, args, now_ns);
        return true;
    }
    if (server->password != NULL && !peer->authenticated && command != SIM_AUTH) {
        say(reply, "-NOAUTH Authentication required.");
        return true;
    }
    return false;
}

void sim_server_execute(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    enum sim_command command = sim_classify(args);
    server->count[command]++;
    if (command < SIM_INFO_SERVER || command > SIM_MARK) /* those of locks */
        server->commands++;
    if (refuse(server, peer, command, args, now_ns, reply))
        return;
    switch (command) {
    case SIM_AUTH:
        execute_auth(server, peer, args, reply);
        break;
    case SIM_SELECT:
        peer->database = (uint32_t)number_of(args, 1);
        say(reply, "+OK");
        break;
    case SIM_SETNAME:
        say(reply, "+OK");
        break;
    case SIM_PING:
        say(reply, "+PONG");
        break;
    case SIM_SET:
        execute_set(server, peer, args, now_ns, reply);
        break;
    case SIM_GET:
    case SIM_MARKER:
    case SIM_PTTL:
        execute_read(server, peer, command, args, now_ns, reply);
        break;
    case SIM_EXTEND:
    case SIM_RELEASE:
        execute_script(server, peer, command, args, now_ns, reply);
        break;
    case SIM_INFO_SERVER:
    case SIM_INFO_REPLICATION:
        say_info(server, command, now_ns, reply);
        break;
    case SIM_SETTINGS:
        say_settings(server, reply);
        break;
    case SIM_TIME:
        say_time(server, now_ns, reply);
        break;
    case SIM_SEEN:
        execute_seen(server, peer, args, now_ns, reply);
        break;
    case SIM_MARK:
        execute_mark(server, peer, args, now_ns, reply);
        break;
    case SIM_DEL:
    case SIM_WAITING:
    case SIM_BLPOP:
    case SIM_LPUSH:
    case SIM_PEXPIRE:
        execute_wake(server, peer, command, args, now_ns, reply);
        break;
    case SIM_FLUSHALL:
    case SIM_UNKNOWN:
    case SIM_COMMANDS:
        server->foul = "a command that could touch another owner's key, or an unknown one";
        say(reply, "-ERR unknown command");
        break;
    }
}
