/*
 * What it costs a primary to extend and to release: by its own commands, as the library does where
 * it may, and by the library's scripts, as it does elsewhere. One connection to the first primary
 * asks for both by turns. What counts is the primary's own account (INFO commandstats): the time it
 * takes to execute a command, without reading it and answering.
 *
 * What a primary can do is found out by asking for it: that tells the user's rights, too.
 */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "dial.h"
#include "ours.h"
#include "scripts.h"
#include "works.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define TTL "30000"
#define LONGER_TTL                                                                                 \
    "60000" /* what a script is asked for: it leaves alone a key that has the time                 \
             */

#define DELIFEQ "delifeq"
#define DELEX "delex"

struct native {
    struct bench *bench;
    redisContext *context;
    char key[OURS_KEY];
    char problem[128];   /* of the last answer that was not as wanted */
    bool extends;        /* natively */
    const char *removal; /* DELIFEQ or DELEX; NULL: neither */
};

/* ---- asking ---------------------------------------------------------------------- */

/* True: an answer of that type, and 1 where it is a number. */
__attribute__((format(printf, 3, 4))) static bool ask(struct native *native, int type,
                                                      const char *format, ...)
{
    redisReply *reply;
    va_list list;
    bool good;

    va_start(list, format);
    reply = redisvCommand(native->context, format, list);
    va_end(list);
    good = reply && reply->type == type && (type != REDIS_REPLY_INTEGER || reply->integer == 1);
    if (!good)
        (void)snprintf(native->problem, sizeof native->problem, "%s",
                       !reply                             ? native->context->errstr
                       : reply->type == REDIS_REPLY_ERROR ? reply->str
                                                          : "the key is not ours");
    if (reply)
        freeReplyObject(reply);
    return good;
}

static bool set(struct native *native)
{
    return ask(native, REDIS_REPLY_STATUS, "SET %s %s PX %s", native->key, TOKEN, TTL);
}

static bool extend_natively(struct native *native)
{
    return ask(native, REDIS_REPLY_STRING, "SET %s %s IFEQ %s GET PX %s", native->key, TOKEN, TOKEN,
               TTL);
}

static bool extend_by_script(struct native *native)
{
    return ask(native, REDIS_REPLY_INTEGER, "EVAL %s 1 %s %s %s", SCRIPTS_EXTEND, native->key,
               TOKEN, LONGER_TTL);
}

static bool remove_natively(struct native *native)
{
    if (strcmp(native->removal, DELEX) == 0)
        return ask(native, REDIS_REPLY_INTEGER, "DELEX %s IFEQ %s", native->key, TOKEN);
    return ask(native, REDIS_REPLY_INTEGER, "DELIFEQ %s %s", native->key, TOKEN);
}

static bool release_natively(struct native *native)
{
    return set(native) && remove_natively(native);
}

static bool release_by_script(struct native *native)
{
    return set(native) &&
           ask(native, REDIS_REPLY_INTEGER, "EVAL %s 1 %s %s", SCRIPTS_RELEASE, native->key, TOKEN);
}

/* False: it doesn't answer, or not even to a SET. */
static bool find_out(struct native *native)
{
    static const char *const removals[] = {DELIFEQ, DELEX}; /* as the library chooses */

    if (!set(native))
        return false;
    native->extends = extend_natively(native);
    for (size_t i = 0; i < sizeof removals / sizeof removals[0]; i++) {
        native->removal = removals[i];
        if (remove_natively(native))
            return true;
    }
    native->removal = NULL;
    return native->context->err == 0;
}

/* ---- the primary's account --------------------------------------------------------- */

struct account {
    long long calls, us;
};

/* Of a command that was asked for. False: it doesn't say. */
static bool account_of(struct native *native, const char *command, struct account *account)
{
    redisReply *reply = redisCommand(native->context, "INFO commandstats");
    char wanted[64];
    const char *at = NULL;
    bool found;

    (void)snprintf(wanted, sizeof wanted, "cmdstat_%s:", command);
    if (reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS))
        at = strstr(reply->str, wanted);
    found = at &&
            sscanf(at + strlen(wanted), "calls=%lld,usec=%lld", &account->calls, &account->us) == 2;
    if (reply)
        freeReplyObject(reply);
    return found ||
           bench_fail(native->bench, "INFO commandstats doesn't say what %s costs", command);
}

static double us_per_call(const struct account account[2])
{
    return (double)(account[1].us - account[0].us) / (double)(account[1].calls - account[0].calls);
}

/* ---- by turns ------------------------------------------------------------------------ */

typedef bool step(struct native *native);

static bool fail(struct native *native)
{
    if (*native->bench->interrupted != 0)
        return false;
    return bench_fail(native->bench, "primary 1: %s", native->problem);
}

static bool take_turns(struct native *native, step *natively, step *by_script)
{
    int64_t end_ns = bench_now_ns() + (int64_t)(native->bench->seconds * 1e9);

    do {
        if (*native->bench->interrupted != 0 || !natively(native) || !by_script(native))
            return fail(native);
    } while (bench_now_ns() < end_ns);
    return true;
}

/* Once before what counts, so that all that is to be accounted for is there. */
static bool measure(struct native *native, const char *figure, const char *command, step *natively,
                    step *by_script)
{
    struct account native_us[2], script_us[2];

    if (!natively(native) || !by_script(native))
        return fail(native);
    if (!account_of(native, command, &native_us[0]) || !account_of(native, "eval", &script_us[0]) ||
        !take_turns(native, natively, by_script) || !account_of(native, command, &native_us[1]) ||
        !account_of(native, "eval", &script_us[1]))
        return false;
    bench_sample(native->bench, figure, "us", us_per_call(native_us), us_per_call(script_us),
                 "script", 0);
    return true;
}

static bool measure_both(struct native *native)
{
    if (native->extends && (!set(native) || !measure(native, "server's time per extend", "set",
                                                     extend_natively, extend_by_script)))
        return false;
    return !native->removal || measure(native, "server's time per release", native->removal,
                                       release_natively, release_by_script);
}

static void say_what_is_missing(struct native *native)
{
    if (native->bench->round != 0 || (native->extends && native->removal))
        return;
    (void)bench_fail(native->bench,
                     "the first primary has no native commands%s, or the user may "
                     "not use them: scripts are used",
                     native->extends   ? " to release by"
                     : native->removal ? " to extend by"
                                       : "");
}

bool works_native(struct bench *bench)
{
    struct native native = {.bench = bench};
    char problem[256];
    bool done;

    native.context = dial(bench, 0, problem, sizeof problem);
    if (!native.context)
        return bench_fail(bench, "primary 1: %s", problem);
    ours_key(native.key, "native", 0);
    done = find_out(&native);
    if (done) {
        say_what_is_missing(&native);
        done = measure_both(&native);
        (void)ask(&native, REDIS_REPLY_INTEGER, "DEL %s", native.key);
    } else {
        (void)fail(&native);
    }
    redisFree(native.context);
    return done;
}
