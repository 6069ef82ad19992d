/*
 * Transactions of a model primary. See server.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fence.h"
#include "server.h"

static void say(struct sim_reply *reply, const char *text)
{
    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "%s\r\n", text);
}

static void keep(struct sim_peer *peer, const char *data, size_t len)
{
    if (len > sizeof(peer->queued) - peer->queued_len) {
        peer->aborted = true;
        return;
    }
    memcpy(peer->queued + peer->queued_len, data, len);
    peer->queued_len += len;
}

static void keep_command(struct sim_peer *peer, const struct sim_args *args)
{
    char head[32];

    keep(peer, head, (size_t)snprintf(head, sizeof(head), "*%zu\r\n", args->count));
    for (size_t i = 0; i < args->count; i++) {
        keep(peer, head, (size_t)snprintf(head, sizeof(head), "$%zu\r\n", args->len[i]));
        keep(peer, args->data[i], args->len[i]);
        keep(peer, "\r\n", 2);
    }
    peer->queued_count++;
}

static void begin(struct sim_peer *peer)
{
    peer->multi = true;
    peer->aborted = false;
    peer->queued_len = peer->queued_count = 0;
}

/* One after the other, with nothing in between. */
static void execute_queued(struct sim_server *server, struct sim_peer *peer, int64_t now_ns,
                           struct sim_reply *reply)
{
    size_t at = 0;

    reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "*%u\r\n", peer->queued_count);
    if (server->count_up == SIM_COUNT_SINGLY) { /* it has been done */
        memcpy(reply->data + reply->len, peer->queued, peer->queued_len);
        reply->len += peer->queued_len;
        return;
    }
    while (at < peer->queued_len) {
        struct sim_reply one = {0};
        struct sim_args args;

        at += sim_parse(peer->queued + at, peer->queued_len - at, &args);
        sim_execute_one(server, peer, sim_classify(&args), &args, now_ns, &one);
        server->transactions += sim_word(&args, 0, "SET") && one.data[0] == '+';
        memcpy(reply->data + reply->len, one.data, one.len);
        reply->len += one.len;
    }
}

void sim_execute_multi(struct sim_server *server, struct sim_peer *peer, enum sim_command command,
                       const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_reply one = {0};

    if (command == SIM_MULTI) {
        begin(peer);
        say(reply, "+OK");
    } else if (command == SIM_DISCARD) {
        say(reply, peer->multi ? "+OK" : "-ERR DISCARD without MULTI");
        peer->multi = false;
    } else if (command != SIM_EXEC && server->count_up == SIM_COUNT_SINGLY) {
        sim_execute_one(server, peer, command, args, now_ns, &one);
        keep(peer, one.data, one.len);
        peer->queued_count++;
        say(reply, "+QUEUED");
    } else if (command != SIM_EXEC) {
        keep_command(peer, args);
        say(reply, "+QUEUED");
    } else if (!peer->multi) {
        say(reply, "-ERR EXEC without MULTI");
    } else {
        peer->multi = false;
        if (peer->aborted)
            say(reply, "-EXECABORT Transaction discarded because of previous errors.");
        else
            execute_queued(server, peer, now_ns, reply);
    }
}

void sim_execute_zadd(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply)
{
    bool counter = sim_text_is(args, 5, REDLOCK__COUNTER_MEMBER);
    struct sim_entry *set =
        sim_server_find(server, peer->database, args->data[1], args->len[1], now_ns);
    char text[24];

    if (!sim_starts_with(args, 1, "redlock:f") || !sim_text_is(args, 4, "1"))
        server->foul = "a score nobody should write";
    if (set == NULL && counter && server->count_up == SIM_COUNT_MAKES) {
        set = sim_server_add(server, peer->database, args->data[1], args->len[1], "n", 1, now_ns);
        set->other_type = set->sorted = true;
    }
    if (set != NULL && !set->sorted) {
        say(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value");
    } else if (set == NULL || !sim_text_is(args, 5, set->value)) {
        say(reply, "$-1");
    } else {
        (void)snprintf(text, sizeof(text), "%" PRId64, ++set->score);
        sim_say_bulk(reply, text);
    }
}
