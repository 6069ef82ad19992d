/*
 * Results and votes in words. Const tables only: the texts are static, the same in every locale,
 * and never NULL, also for numbers this version doesn't know (a program may be linked with
 * a newer library than it was compiled for).
 */
#include "redlock.h"

#include <stddef.h>

#ifndef REDLOCK_VERSION_STRING
#define REDLOCK_VERSION_STRING "0.0.0"
#endif

enum {
    FIRST_ERROR = REDLOCK_ERR_ARGUMENT
};

static const struct {
    int rc;
    const char *text;
} results[] = {
    {REDLOCK_OK, "success"},
    {REDLOCK_PENDING, "no verdict yet"},
    {REDLOCK_BUSY, "somebody else holds the lock"},
    {REDLOCK_NO_QUORUM, "too few primaries answered"},
    {REDLOCK_WAIT_DEADLINE, "the wait ended before an attempt had a verdict"},
    {REDLOCK_EXPIRED, "the lease has expired"},
    {REDLOCK_LOST, "the lease is lost: too few primaries still have the key"},
    {REDLOCK_CANCELLED, "cancelled"},
    {REDLOCK_ERR_ARGUMENT, "an argument or option is out of its range"},
    {REDLOCK_ERR_URI, "an endpoint cannot be understood"},
    {REDLOCK_ERR_DUPLICATE, "an endpoint is listed twice"},
    {REDLOCK_ERR_QUORUM, "the quorum must be from a majority up to the number of primaries"},
    {REDLOCK_ERR_TTL, "the ttl is too short to leave any validity, or longer than max_ttl"},
    {REDLOCK_ERR_KEY, "the name is empty, too long, or starts with \"redlock:\""},
    {REDLOCK_ERR_TOKEN, "the token cannot be understood"},
    {REDLOCK_ERR_MEMBERS, "the token was made with another list of primaries"},
    {REDLOCK_ERR_STATE, "not possible in this state"},
    {REDLOCK_ERR_LIMIT, "a limit of the library is exceeded"},
    {REDLOCK_ERR_MEMORY, "out of memory"},
    {REDLOCK_ERR_SYSTEM, "the operating system refused a thread, descriptor, clock or entropy"},
    {REDLOCK_ERR_FORKED, "the client belongs to the parent process"},
    {REDLOCK_ERR_UNSUPPORTED, "not supported by this build or system"},
    {REDLOCK_ERR_MISCONFIGURED, "the primaries do not fit together"},
};

static const char *const votes[] = {
    [REDLOCK_VOTE_NONE] = "no vote", [REDLOCK_VOTE_OURS] = "ours",
    [REDLOCK_VOTE_FREE] = "free",    [REDLOCK_VOTE_FOREIGN] = "foreign",
    [REDLOCK_VOTE_ERROR] = "error",  [REDLOCK_VOTE_SILENT] = "silent",
    [REDLOCK_VOTE_DOWN] = "down",    [REDLOCK_VOTE_BARRED] = "barred",
};

const char *redlock_strerror(int rc)
{
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        if (results[i].rc == rc)
            return results[i].text;
    return "unknown result";
}

int redlock_is_outcome(int rc)
{
    return rc <= 0 && rc > FIRST_ERROR;
}

const char *redlock_version(void)
{
    return REDLOCK_VERSION_STRING;
}

const char *redlock_vote_name(redlock_vote vote)
{
    size_t i = (size_t)vote;
    return i < sizeof votes / sizeof votes[0] ? votes[i] : "unknown";
}
