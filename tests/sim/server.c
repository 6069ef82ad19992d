/*
 * See server.h. Commands are looked up by their words; the two scripts are recognized
 * by their text and run as what they mean. To extend or release natively is the same command to
 * tests: SIM_EXTEND, SIM_RELEASE. Expired keys are dropped when something
 * looks at them. Nothing here knows of connections or of the network.
 */
#include "server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "facts.h"

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

struct sim_entry *sim_server_add(struct sim_server *server, uint32_t database, const char *key,
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

void sim_server_remove(struct sim_server *server, const char *key, size_t len)
{
    for (size_t i = server->entry_count; i-- > 0;)
        if (server->entries[i].key_len == len && memcmp(server->entries[i].key, key, len) == 0)
            drop_entry(server, i);
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
    struct sim_entry *e = sim_server_add(server, 0, key, strlen(key), value, strlen(value), now_ns);
    if (ttl_ms > 0)
        e->when_ms = sim_server_wall_ms(server, now_ns) + ttl_ms;
    e->planted = true;
    return e;
}

struct sim_entry *sim_server_plant_score(struct sim_server *server, const char *key,
                                         const char *member, int64_t score, int64_t now_ns)
{
    struct sim_entry *e = sim_server_plant(server, key, member, 0, now_ns);
    e->other_type = e->sorted = true;
    e->score = score;
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

void sim_say_integer(struct sim_reply *reply, int64_t value)
{
    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), ":%" PRId64 "\r\n", value);
}

void sim_say_bulk(struct sim_reply *reply, const char *text)
{
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data), "$%zu\r\n%s\r\n", strlen(text), text);
}

static void execute_auth(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, struct sim_reply *reply)
{
    if (server->password == NULL) {
        say(reply, "-ERR AUTH <password> called without any password configured");
    } else if (sim_text_is(args, args->count - 1, server->password)) {
        peer->authenticated = true;
        say(reply, "+OK");
    } else {
        say(reply, "-WRONGPASS invalid username-password pair or user is disabled.");
    }
}

static void execute_set(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    int64_t ttl_ms = sim_number(args, 5);
    if (args->count != 6 || !sim_word(args, 3, "NX") || !sim_word(args, 4, "PX")) {
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
    struct sim_entry *e = sim_server_add(server, peer->database, args->data[1], args->len[1],
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

/* ---- extend and release, natively ---------------------------------------- */

uint32_t sim_server_kind(uint32_t kind)
{
    static const uint32_t kinds[] = {0, REDLOCK__CAN_SET_IFEQ,
                                     REDLOCK__CAN_SET_IFEQ | REDLOCK__CAN_DELIFEQ,
                                     REDLOCK__CAN_SET_IFEQ | REDLOCK__CAN_DELEX};
    return kinds[kind % (sizeof(kinds) / sizeof(kinds[0]))];
}

static bool is_forbidden(struct sim_server *server, const struct sim_args *args,
                         struct sim_reply *reply)
{
    uint32_t need = sim_need(args);

    if ((need & (server->native | REDLOCK__CAN_EVAL)) != need)
        server->foul = "a command its version doesn't have";
    if ((need & server->forbidden) == 0)
        return false;
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data),
                         server->unknown ? "-ERR unknown command '%.*s', with args\r\n"
                                         : "-NOPERM User u has no permissions to run the '%.*s' "
                                           "command\r\n",
                         (int)args->len[0], args->data[0]);
    return true;
}

static bool is_well_formed(const struct sim_args *args)
{
    if (sim_word(args, 0, "SET"))
        return args->count == 8 && args->len[2] == args->len[4] &&
               memcmp(args->data[2], args->data[4], args->len[2]) == 0 &&
               sim_word(args, 5, "GET") && sim_word(args, 6, "PX");
    return sim_word(args, 0, "DELEX") ? args->count == 4 && sim_word(args, 2, "IFEQ")
                                      : args->count == 3;
}

static void execute_native(struct sim_server *server, struct sim_peer *peer,
                           enum sim_command command, const struct sim_args *args, int64_t now_ns,
                           struct sim_reply *reply)
{
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[1], args->len[1], now_ns);
    size_t token = sim_word(args, 0, "DELEX") ? 3 : 2;
    bool ours;

    if (!is_well_formed(args)) {
        server->foul = "a native command of another form";
        say(reply, "-ERR syntax error");
        return;
    }
    ours = e != NULL && !e->other_type && sim_text_is(args, token, e->value);
    if (command == SIM_EXTEND)
        server->last_extend = e == NULL ? 0 : ours ? 1 : -1;
    if (e != NULL && e->other_type) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    } else if (command == SIM_EXTEND) {
        if (e == NULL)
            say(reply, "$-1");
        else
            reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "$%zu\r\n%.400s\r\n",
                                          strlen(e->value), e->value);
        if (ours)
            e->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 7);
    } else {
        if (ours)
            drop_entry(server, (size_t)(e - server->entries));
        sim_say_integer(reply, ours);
    }
}

/* ---- the same by script -------------------------------------------------- */

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
        server->last_extend = e == NULL ? 0 : sim_text_is(args, 4, e->value) ? 1 : -1;
    bool release = command == SIM_RELEASE;
    if (e == NULL) {
        sim_say_integer(reply, release ? release_result(server, peer, args, 0, now_ns) : 0);
        return;
    }
    if (e->other_type) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value "
                   "script: f, on @user_script:1.");
        return;
    }
    if (!sim_text_is(args, 4, e->value)) {
        sim_say_integer(reply, release ? release_result(server, peer, args, -1, now_ns) : -1);
        return;
    }
    if (release)
        drop_entry(server, (size_t)(e - server->entries));
    else if (server->cutting)
        e->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 5);
    else
        extend_entry(e, sim_server_wall_ms(server, now_ns) + sim_number(args, 5));
    sim_say_integer(reply, release ? release_result(server, peer, args, 1, now_ns) : 1);
}

static void execute_read(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *e = args->count < 2 ? NULL
                                          : sim_server_find(server, peer->database, args->data[1],
                                                            args->len[1], now_ns);
    if (sim_word(args, 0, "ZRANGE")) {
        sim_say_scores(e, reply);
        return;
    }
    if (command == SIM_PTTL) {
        int64_t left_ms = e == NULL ? -2
                          : e->when_ms == INT64_MAX
                              ? -1
                              : e->when_ms - sim_server_wall_ms(server, now_ns);
        sim_say_integer(reply, left_ms);
    } else if (e == NULL) {
        say(reply, "$-1");
    } else if (e->other_type) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    } else {
        reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "$%zu\r\n%.400s\r\n",
                                      strlen(e->value), e->value);
    }
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
    bool own = sim_starts_with(args, 1, "redlock:w");

    if (!own)
        server->foul = "a command that could touch another owner's key";
    if (command == SIM_BLPOP &&
        !sim_server_pop(server, peer->database, args->data[1], args->len[1], now_ns, reply)) {
        reply->blocks = true;
        reply->block_ms = sim_number(args, 2) * 1000;
    } else if (command == SIM_LPUSH) {
        if (e == NULL)
            e = sim_server_add(server, peer->database, args->data[1], args->len[1], "", 0, now_ns);
        e->other_type = true;
        sim_say_integer(reply, ++e->elements);
    } else if (command == SIM_PEXPIRE) {
        if (e != NULL)
            e->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 2);
        sim_say_integer(reply, e != NULL);
    } else if (command == SIM_DEL) {
        sim_server_remove(server, args->data[1], args->len[1]);
        sim_say_integer(reply, e != NULL);
    } else if (command == SIM_WAITING) {
        sim_server_remove(server, args->data[1], args->len[1]);
        e = sim_server_add(server, peer->database, args->data[1], args->len[1], "1", 1, now_ns);
        e->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 4);
        say(reply, "+OK");
    }
}

/* A removal that was refused leaves its key, and that is not the client's fault. */
static void mark_refused(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns)
{
    size_t key = sim_key_at(args);
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[key], args->len[key], now_ns);
    if (e != NULL && sim_text_is(args, sim_word(args, 0, "DELEX") ? 3 : key + 1, e->value))
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

static void execute_change(struct sim_server *server, struct sim_peer *peer,
                           enum sim_command command, const struct sim_args *args, int64_t now_ns,
                           struct sim_reply *reply)
{
    bool native = !sim_word(args, 0, "EVAL");

    if (is_forbidden(server, args, reply))
        return;
    server->natives += native;
    server->scripts += !native;
    if (native)
        execute_native(server, peer, command, args, now_ns, reply);
    else
        execute_script(server, peer, command, args, now_ns, reply);
}

void sim_execute_one(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                     const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    switch (command) {
    case SIM_AUTH:
        execute_auth(server, peer, args, reply);
        break;
    case SIM_SELECT:
        peer->database = (uint32_t)sim_number(args, 1);
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
        execute_change(server, peer, command, args, now_ns, reply);
        break;
    case SIM_INFO_SERVER:
    case SIM_INFO_REPLICATION:
        sim_say_info(server, command, now_ns, reply);
        break;
    case SIM_SETTINGS:
        sim_say_settings(server, reply);
        break;
    case SIM_TIME:
        sim_say_time(server, now_ns, reply);
        break;
    case SIM_SEEN:
        sim_execute_seen(server, peer, args, now_ns, reply);
        break;
    case SIM_MARK:
        sim_execute_mark(server, peer, args, now_ns, reply);
        break;
    case SIM_RECOVER:
        sim_execute_recover(server, peer, args, now_ns, reply);
        break;
    case SIM_GRANT:
        sim_execute_grant(server, peer, args, now_ns, reply);
        break;
    case SIM_SETTLE:
        sim_execute_settle(server, peer, args, now_ns, reply);
        break;
    case SIM_DEL:
    case SIM_WAITING:
    case SIM_BLPOP:
    case SIM_LPUSH:
    case SIM_PEXPIRE:
        execute_wake(server, peer, command, args, now_ns, reply);
        break;
    case SIM_ZADD:
        sim_execute_zadd(server, peer, args, now_ns, reply);
        break;
    case SIM_MULTI:
    case SIM_EXEC:
    case SIM_DISCARD:
    case SIM_FLUSHALL:
    case SIM_UNKNOWN:
    case SIM_COMMANDS:
        server->foul = "a command that could touch another owner's key, or an unknown one";
        say(reply, "-ERR unknown command");
        break;
    }
}

void sim_server_execute(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    enum sim_command command = sim_classify(args);
    server->count[command]++;
    if (command < SIM_INFO_SERVER || command > SIM_RECOVER) /* those of locks */
        server->commands++;
    if (refuse(server, peer, command, args, now_ns, reply)) {
        peer->aborted = true;
        return;
    }
    if (peer->multi || command == SIM_MULTI || command == SIM_EXEC || command == SIM_DISCARD)
        sim_execute_multi(server, peer, command, args, now_ns, reply);
    else
        sim_execute_one(server, peer, command, args, now_ns, reply);
}
