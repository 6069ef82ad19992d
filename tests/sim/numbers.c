/*
 * Fencing numbers of a model primary: the scripts, as what they mean, and variants that must fail.
 * See server.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

static struct sim_entry *arg_entry(struct sim_server *server, const struct sim_peer *peer,
                                   const struct sim_args *args, size_t i, int64_t now_ns)
{
    return sim_server_find(server, peer->database, args->data[i], args->len[i], now_ns);
}

static void write_number(struct sim_server *server, const struct sim_peer *peer,
                         const struct sim_args *args, size_t i, int64_t number, int64_t now_ns)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64, number);

    sim_server_remove(server, args->data[i], args->len[i]);
    (void)sim_server_add(server, peer->database, args->data[i], args->len[i], text, (size_t)len,
                         now_ns);
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Keys: 3 lock, 4 counter, 5 base, 6 floor. Argument 9: above what was heard of, and the base. */
void sim_execute_grant(struct sim_server *server, struct sim_peer *peer,
                       const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *base = arg_entry(server, peer, args, 5, now_ns);
    struct sim_entry *floor = arg_entry(server, peer, args, 6, now_ns);
    struct sim_entry *counter = arg_entry(server, peer, args, 4, now_ns), *lock;
    int64_t number, top;

    if (floor == NULL || base == NULL || !sim_text_is(args, 10, base->value)) {
        sim_say_integer(reply, -2);
        return;
    }
    if (arg_entry(server, peer, args, 3, now_ns) != NULL) {
        sim_say_integer(reply, -1);
        return;
    }
    top = strtoll(floor->value, NULL, 10);
    number = server->settle == SIM_SETTLE_FORGETS ? 0 : top;
    if (counter != NULL)
        number = strtoll(counter->value, NULL, 10);
    number = max_of(number + 1, sim_number(args, 9));
    sim_server_remove(server, args->data[3], args->len[3]);
    lock = sim_server_add(server, peer->database, args->data[3], args->len[3], args->data[7],
                          args->len[7], now_ns);
    lock->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 8);
    lock->late = peer->late;
    write_number(server, peer, args, 4, number, now_ns);
    write_number(server, peer, args, 6, max_of(top, number), now_ns);
    sim_say_integer(reply, number);
}

void sim_execute_settle(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *base = arg_entry(server, peer, args, 5, now_ns);
    struct sim_entry *floor = arg_entry(server, peer, args, 6, now_ns);
    struct sim_entry *counter = arg_entry(server, peer, args, 4, now_ns);
    struct sim_entry *lock = arg_entry(server, peer, args, 3, now_ns);
    int64_t token = sim_number(args, 8), number, top;
    bool ours = lock != NULL && sim_text_is(args, 7, lock->value);

    if (floor == NULL || base == NULL || !sim_text_is(args, 9, base->value) ||
        (!ours && server->settle != SIM_SETTLE_BLIND)) {
        sim_say_integer(reply, 0);
        return;
    }
    top = strtoll(floor->value, NULL, 10);
    number = counter != NULL ? strtoll(counter->value, NULL, 10) : top;
    if (number > token && server->settle != SIM_SETTLE_LOWERS &&
        server->settle != SIM_SETTLE_NOTHING) {
        sim_say_integer(reply, -1);
        return;
    }
    if (server->settle != SIM_SETTLE_NOTHING) {
        write_number(server, peer, args, 4, token, now_ns);
        write_number(server, peer, args, 6, max_of(top, token), now_ns);
    }
    sim_say_integer(reply, 1);
}

/* Keys: 3 base, 4 floor, 5 marker. */
void sim_execute_recover(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *base = arg_entry(server, peer, args, 3, now_ns);
    struct sim_entry *marker = arg_entry(server, peer, args, 5, now_ns);
    const char *there = base == NULL ? "" : base->value;

    if (!sim_text_is(args, 9, marker == NULL ? "" : marker->value)) {
        sim_say_bulk(reply, "");
        return;
    }
    if (!sim_text_is(args, 6, there)) {
        sim_say_bulk(reply, there);
        return;
    }
    if (arg_entry(server, peer, args, 4, now_ns) == NULL)
        write_number(server, peer, args, 4, sim_number(args, 8), now_ns);
    sim_server_remove(server, args->data[3], args->len[3]);
    base = sim_server_add(server, peer->database, args->data[3], args->len[3], args->data[7],
                          args->len[7], now_ns);
    sim_say_bulk(reply, base->value);
}
