/*
 * What a model primary says about itself. See server.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "server.h"

static const char *version_of(const struct sim_server *server)
{
    if ((server->native & REDLOCK__CAN_DELIFEQ) != 0)
        return "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.1\r\n";
    if ((server->native & REDLOCK__CAN_DELEX) != 0)
        return "redis_version:8.4.0\r\n";
    if ((server->native & REDLOCK__CAN_SET_IFEQ) != 0)
        return "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n";
    return "redis_version:7.0.15\r\n";
}

void sim_say_info(const struct sim_server *server, enum sim_command command, int64_t now_ns,
                  struct sim_reply *reply)
{
    char text[256], run_id[41];

    sim_server_run_id(server, run_id);
    if (command == SIM_INFO_SERVER)
        (void)snprintf(text, sizeof(text),
                       "# Server\r\n%srun_id:%s\r\nuptime_in_seconds:%" PRId64 "\r\n",
                       version_of(server), run_id,
                       sim_server_wall_ms(server, now_ns) / 1000 - server->started_wall_s);
    else
        (void)snprintf(text, sizeof(text),
                       "# Replication\r\nrole:%s\r\nconnected_slaves:%" PRId64
                       "\r\nsecond_repl_offset:%" PRId64 "\r\n",
                       server->replica ? "slave" : "master", server->replicas,
                       server->second_offset);
    sim_say_bulk(reply, text);
}

static int64_t wall_us(const struct sim_server *server, int64_t now_ns)
{
    return (server->wall_ns + sim_scale(now_ns, server->rate_ppm)) / 1000;
}

void sim_say_time(const struct sim_server *server, int64_t now_ns, struct sim_reply *reply)
{
    char seconds[24], micros[24];
    int64_t us = wall_us(server, now_ns);

    (void)snprintf(seconds, sizeof(seconds), "%" PRId64, us / 1000000);
    (void)snprintf(micros, sizeof(micros), "%" PRId64, us % 1000000);
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data), "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                         strlen(seconds), seconds, strlen(micros), micros);
}

void sim_say_settings(const struct sim_server *server, struct sim_reply *reply)
{
    const char *aof = server->durable ? "$3\r\nyes" : "$2\r\nno";

    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data),
                         "*6\r\n$10\r\nappendonly\r\n%s\r\n$11\r\nappendfsync\r\n"
                         "$6\r\nalways\r\n$25\r\nno-appendfsync-on-rewrite\r\n$2\r\nno\r\n",
                         aof);
}

void sim_execute_seen(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply)
{
    char now[24], text[64];
    struct sim_entry *e =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);

    (void)snprintf(now, sizeof(now), "%" PRId64, wall_us(server, now_ns));
    if (e == NULL)
        e = sim_server_add(server, peer->database, args->data[3], args->len[3], now, strlen(now),
                           now_ns);
    e->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 4);
    (void)snprintf(text, sizeof(text), "%.24s %s", e->value, now);
    sim_say_bulk(reply, text);
}

void sim_execute_mark(struct sim_server *server, struct sim_peer *peer, const struct sim_args *args,
                      int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *marker =
        sim_server_find(server, peer->database, args->data[3], args->len[3], now_ns);
    struct sim_entry *seen =
        sim_server_find(server, peer->database, args->data[4], args->len[4], now_ns);
    const char *there = marker == NULL ? "" : marker->value;

    if (!sim_text_is(args, 5, there) ||
        (args->len[6] != 0 && (seen == NULL || !sim_text_is(args, 6, seen->value)))) {
        sim_say_bulk(reply, there);
        return;
    }
    sim_server_remove(server, args->data[3], args->len[3]);
    sim_server_remove(server, args->data[4], args->len[4]);
    marker = sim_server_add(server, peer->database, args->data[3], args->len[3], args->data[7],
                            args->len[7], now_ns);
    sim_say_bulk(reply, marker->value);
}
