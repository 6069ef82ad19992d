/*
 * redlock-chaos-control: a worker whose client is weakened, one safeguard at a time, to show that
 * the checkers notice what that safeguard prevents. The spec's "control" says which.
 *
 * The linker puts the functions below in the place of the library's own where another file calls
 * them (tools/CMakeLists.txt); the library itself has no switch for any of this. K2 to K4 are mere
 * options, and need no other client.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "command.h"
#include "facts.h"
#include "fence.h"
#include "grant.h"
#include "lease.h"
#include "member.h"
#include "system.h"
#include "worker.h"

enum {
    EXIT_USAGE = 64
};

enum weakness {
    NONE,
    QUORUM_OF_TWO,       /* K1 */
    EVICTION_ALLOWED,    /* K9 */
    TOKENS_UNSETTLED,    /* K10 */
    SETTLE_BLIND,        /* K11: the key being ours is enough, whatever its counter */
    RELEASE_WHERE_SEEN,  /* K12 */
    START_AT_REPLY,      /* K13 */
    CLOCK_STOPS,         /* K14: in suspend */
    TWINS_COUNT,         /* K15 */
    CONNECTIONS_DANGLING /* K17 */
};

static const struct {
    const char *name;
    enum weakness weakness;
} controls[] = {{"K1", QUORUM_OF_TWO}, {"K9", EVICTION_ALLOWED},    {"K10", TOKENS_UNSETTLED},
                {"K11", SETTLE_BLIND}, {"K12", RELEASE_WHERE_SEEN}, {"K13", START_AT_REPLY},
                {"K14", CLOCK_STOPS},  {"K15", TWINS_COUNT},        {"K17", CONNECTIONS_DANGLING}};

static enum weakness weakness; /* set once, before the worker begins */

/* A function of the library, and what is called instead. */
#define WRAPPED(type, name, arguments)                                                             \
    type __real_##name arguments;                                                                  \
    type __wrap_##name arguments;                                                                  \
    type __wrap_##name arguments

/* ---- whom it trusts ------------------------------------------------------- */

WRAPPED(void, redlock__fleet_settle,
        (struct redlock__fleet * fleet, struct redlock__member *members, uint32_t ready))
{
    __real_redlock__fleet_settle(fleet, members, ready);
    if (weakness == QUORUM_OF_TWO)
        fleet->quorum = 2;
    for (uint32_t i = 0; i < fleet->n && weakness == TWINS_COUNT; i++)
        members[i].twin = NULL;
}

WRAPPED(void, redlock__facts_take,
        (struct redlock__facts * facts, enum redlock__command command,
         const struct redisReply *reply, int64_t asked_ns, int64_t read_ns))
{
    __real_redlock__facts_take(facts, command, reply, asked_ns, read_ns);
    if (weakness == EVICTION_ALLOWED)
        facts->policy[0] = '\0';
}

/* ---- fencing --------------------------------------------------------------- */

WRAPPED(int64_t, redlock__fence_choose,
        (const int64_t *numbers, uint32_t granted, uint32_t *settled))
{
    int64_t token = __real_redlock__fence_choose(numbers, granted, settled);

    if (weakness == TOKENS_UNSETTLED)
        *settled = granted;
    return token;
}

/* In the script, within the request's bytes, and so by a text of the same length. */
static void answer_yes(struct redlock__bytes *bytes)
{
    static const char no[] = ">0 then return -1 end", yes[] = ">0 then return  1 end";
    char *data = bytes->heap != NULL ? bytes->heap : bytes->room;
    char *at = memmem(data, bytes->len, no, sizeof no - 1);

    _Static_assert(sizeof no == sizeof yes, "its length was told before");
    if (at != NULL)
        memcpy(at, yes, sizeof yes - 1);
}

WRAPPED(struct redlock__bytes *, redlock__encode_settle,
        (struct redlock__bytes * bytes, const void *key, size_t key_len, const char *token,
         int64_t fence, const char *base))
{
    (void)__real_redlock__encode_settle(bytes, key, key_len, token, fence, base);
    if (weakness == SETTLE_BLIND)
        answer_yes(bytes);
    return bytes;
}

/* ---- releasing --------------------------------------------------------------- */

WRAPPED(void, redlock__grant_abandon, (struct redlock__grant * grant, int64_t orphan_ms))
{
    __real_redlock__grant_abandon(grant, orphan_ms);
    if (weakness == RELEASE_WHERE_SEEN)
        grant->owed &= grant->known;
}

/* What a connection had sent goes on its way, however long that is, whoever gave it up. The timeout
 * is the other half of that safeguard: it ends what SO_LINGER can't, in a process that was killed.
 */
WRAPPED(int, setsockopt, (int fd, int level, int option, const void *value, socklen_t len))
{
    if (weakness == CONNECTIONS_DANGLING && ((level == SOL_SOCKET && option == SO_LINGER) ||
                                             (level == IPPROTO_TCP && option == TCP_USER_TIMEOUT)))
        return 0;
    return __real_setsockopt(fd, level, option, value, len);
}

/* ---- time -------------------------------------------------------------------- */

/* An attempt's start is moved to its first reply. */
WRAPPED(void, redlock__lease_answer,
        (struct redlock__lease * lease, const struct redlock__lease_news *news, int64_t now_ns))
{
    const struct redlock__round *round = &lease->round;
    bool replied = news->vote == REDLOCK_VOTE_OURS || news->vote == REDLOCK_VOTE_FOREIGN;

    if (weakness == START_AT_REPLY && replied && lease->state == REDLOCK__LEASE_ACQUIRING &&
        news->round_no == lease->round_no && (round->ours | round->foreign) == 0)
        lease->round.start_ns = now_ns;
    __real_redlock__lease_answer(lease, news, now_ns);
}

WRAPPED(int64_t, redlock__clock_ns, (void))
{
    struct timespec now = {0};

    if (weakness != CLOCK_STOPS)
        return __real_redlock__clock_ns();
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- main -------------------------------------------------------------------- */

static bool weaken(const char *spec)
{
    json_t *json = json_loads(spec, 0, NULL);
    const char *control = json_string_value(json_object_get(json, "control"));

    for (size_t i = 0; control != NULL && i < sizeof controls / sizeof controls[0]; i++)
        if (strcmp(controls[i].name, control) == 0)
            weakness = controls[i].weakness;
    if (weakness == NONE)
        (void)fprintf(stderr, "redlock-chaos-control: no control %s\n",
                      control != NULL ? control : "in the spec");
    json_decref(json);
    return weakness != NONE;
}

int main(int argc, char **argv)
{
    if (argc != 3 || strcmp(argv[1], "worker") != 0) {
        (void)fprintf(stderr, "redlock-chaos-control: started by redlock-chaos alone\n");
        return EXIT_USAGE;
    }
    return weaken(argv[2]) ? worker_main(argv[2]) : EXIT_USAGE;
}
