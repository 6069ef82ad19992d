/*
 * Fencing numbers of a model primary: the scripts, as what they mean, and variants that must fail.
 * See server.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server.h"

static struct sim_entry *arg_entry(struct sim_server *server, const struct sim_peer *peer,
                                   const struct sim_args *args, size_t i, int64_t now_ns)
{
    return sim_server_find(server, peer->database, args->data[i], args->len[i], now_ns);
}

/* The only member of a set, which is made where it isn't. A set keeps its ttl. */
static void write_score(struct sim_server *server, const struct sim_peer *peer,
                        const struct sim_args *args, size_t i, const char *member, int64_t score,
                        int64_t now_ns)
{
    struct sim_entry *set = arg_entry(server, peer, args, i, now_ns);

    if (set == NULL) {
        sim_server_remove(server, args->data[i], args->len[i]);
        set = sim_server_add(server, peer->database, args->data[i], args->len[i], member,
                             strlen(member), now_ns);
    }
    set->other_type = set->sorted = true;
    set->score = score;
}

/* Its score under the name in argument `member`; -1: there is no such. */
static int64_t score_of(struct sim_server *server, const struct sim_peer *peer,
                        const struct sim_args *args, size_t i, size_t member, int64_t now_ns)
{
    struct sim_entry *set = arg_entry(server, peer, args, i, now_ns);

    return set != NULL && set->sorted && sim_text_is(args, member, set->value) ? set->score : -1;
}

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void sim_say_scores(const struct sim_entry *entry, struct sim_reply *reply)
{
    char score[24];

    if (entry == NULL) {
        reply->len = (size_t)snprintf(reply->data, sizeof(reply->data), "*0\r\n");
        return;
    }
    (void)snprintf(score, sizeof(score), "%" PRId64, entry->score);
    reply->len =
        (size_t)snprintf(reply->data, sizeof(reply->data), "*2\r\n$%zu\r\n%.100s\r\n$%zu\r\n%s\r\n",
                         strlen(entry->value), entry->value, strlen(score), score);
}

/* Keys: 3 lock, 4 counter, 5 floor. Arguments: 6 value, 7 ttl, 8 a number above what was heard of,
 * and the base, 9 base. */
void sim_execute_grant(struct sim_server *server, struct sim_peer *peer,
                       const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *counter = arg_entry(server, peer, args, 4, now_ns), *lock;
    int64_t top = score_of(server, peer, args, 5, 9, now_ns), number;
    char base[100];

    if (top < 0) {
        sim_say_integer(reply, -2);
        return;
    }
    if (arg_entry(server, peer, args, 3, now_ns) != NULL) {
        sim_say_integer(reply, -1);
        return;
    }
    number = server->settle == SIM_SETTLE_FORGETS ? 0 : top;
    if (counter != NULL)
        number = counter->score;
    number = max_of(number + 1, sim_number(args, 8));
    (void)snprintf(base, sizeof(base), "%.*s", (int)args->len[9], args->data[9]);
    sim_server_remove(server, args->data[3], args->len[3]);
    lock = sim_server_add(server, peer->database, args->data[3], args->len[3], args->data[6],
                          args->len[6], now_ns);
    lock->when_ms = sim_server_wall_ms(server, now_ns) + sim_number(args, 7);
    lock->late = peer->late;
    write_score(server, peer, args, 4, "n", number, now_ns);
    write_score(server, peer, args, 5, base, max_of(top, number), now_ns);
    sim_say_integer(reply, number);
}

/* Keys as above. Arguments: 6 value, 7 token, 8 base. */
void sim_execute_settle(struct sim_server *server, struct sim_peer *peer,
                        const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *counter = arg_entry(server, peer, args, 4, now_ns);
    struct sim_entry *lock = arg_entry(server, peer, args, 3, now_ns);
    int64_t top = score_of(server, peer, args, 5, 8, now_ns);
    int64_t token = sim_number(args, 7), number;
    bool ours = lock != NULL && sim_text_is(args, 6, lock->value);

    if (top < 0 || (!ours && server->settle != SIM_SETTLE_BLIND)) {
        sim_say_integer(reply, 0);
        return;
    }
    number = counter != NULL ? counter->score : top;
    if (number > token && server->settle != SIM_SETTLE_LOWERS &&
        server->settle != SIM_SETTLE_NOTHING) {
        sim_say_integer(reply, -1);
        return;
    }
    if (server->settle != SIM_SETTLE_NOTHING) {
        write_score(server, peer, args, 4, "n", token, now_ns);
        write_score(server, peer, args, 5, "", max_of(top, token), now_ns); /* it is there */
    }
    sim_say_integer(reply, 1);
}

/* Keys: 3 floor, 4 marker. Arguments: 5 base that was read, 6 new base, 7 number, 8 marker. */
void sim_execute_recover(struct sim_server *server, struct sim_peer *peer,
                         const struct sim_args *args, int64_t now_ns, struct sim_reply *reply)
{
    struct sim_entry *there = arg_entry(server, peer, args, 3, now_ns);
    struct sim_entry *marker = arg_entry(server, peer, args, 4, now_ns);
    int64_t floor = max_of(there == NULL ? 0 : there->score, sim_number(args, 7));
    char base[100];

    if (!sim_text_is(args, 8, marker == NULL ? "" : marker->value)) {
        sim_say_scores(NULL, reply);
        return;
    }
    if (sim_text_is(args, 5, there == NULL ? "" : there->value)) {
        (void)snprintf(base, sizeof(base), "%.*s", (int)args->len[6], args->data[6]);
        sim_server_remove(server, args->data[3], args->len[3]);
        write_score(server, peer, args, 3, base, floor, now_ns);
        there = arg_entry(server, peer, args, 3, now_ns);
    }
    sim_say_scores(there, reply);
}
