/*
 * The Lua texts of what is said to a primary: see command.h.
 */
#include "command.h"
#include "fence.h"

/* An EVAL as it goes out, up to its one key: so many arguments, a script of so many bytes. */
#define START(count, len, script)                                                                  \
    {                                                                                              \
        "*" count "\r\n$4\r\nEVAL\r\n$" len "\r\n" script "\r\n$1\r\n1\r\n",                       \
            sizeof "*" count "\r\n$4\r\nEVAL\r\n$" len "\r\n" script "\r\n$1\r\n1\r\n" - 1         \
    }

/* A primary hashes the text of a script each time, in blocks of 64 bytes, nine of them its own:
 * those that locks need are kept short. */

/* Compare, then set the time: a key that is gone stays gone. The time is only ever made longer. A
 * command that a dead connection left behind may arrive after a later one, and must not cut what
 * that one promised; a holder who wants less time lowers its own deadline. */
#define EXTEND                                                                                     \
    "local c,k,ttl=redis.call,KEYS[1],ARGV[2] "                                                    \
    "local owner=c('GET',k) "                                                                      \
    "if owner==ARGV[1] then local left=c('PTTL',k) "                                               \
    "if left<ttl+0 then left=ttl elseif not ARGV[3] then return 1 end "                            \
    "return c('PEXPIRE',k,left) end "                                                              \
    "return owner and -1 or 0"
_Static_assert(sizeof EXTEND - 1 == 230, "its head says so");
const char redlock__extend_script[] = EXTEND;
const struct redlock__constant redlock__extend_start = START("6", "230", EXTEND);

#define RELEASE                                                                                    \
    "local c,k=redis.call,KEYS[1] "                                                                \
    "local o=c('GET',k) "                                                                          \
    "if o==ARGV[1] then return c('DEL',k) end "                                                    \
    "return o and -1 or 0"
_Static_assert(sizeof RELEASE - 1 == 109, "its head says so");
const char redlock__release_script[] = RELEASE;
const struct redlock__constant redlock__release_start = START("5", "109", RELEASE);

/* The key that says that somebody waits is no declared one, and asked for with pcall: a user
 * without rights on it must be able to release all the same. GET, since that is a right everybody
 * has. */
#define RELEASE_ASKING                                                                             \
    "local r,k=redis,KEYS[1] "                                                                     \
    "local o=r.call('GET',k) "                                                                     \
    "o=o==ARGV[1] and r.call('DEL',k) or o and -1 or 0 "                                           \
    "if r.pcall('GET',ARGV[2])~='1' then return o end "                                            \
    "return o<0 and -2 or 3-o"
_Static_assert(sizeof RELEASE_ASKING - 1 == 171, "its head says so");
const char redlock__release_asking_script[] = RELEASE_ASKING;
const struct redlock__constant redlock__release_asking_start = START("6", "171", RELEASE_ASKING);

/* Since when this run of the server is known to run, by its own clock, and what that shows now. A
 * script, so that the time written is the time of writing, however long the asker sleeps. The key
 * lives on for as long as it is asked for; where that can't be written its value still counts. */
const char redlock__seen_script[] =
    "local t = redis.call('TIME') "
    "local now = string.format('%.0f', t[1] * 1000000 + t[2]) "
    "local seen = redis.call('GET', KEYS[1]) "
    "if seen then redis.pcall('SET', KEYS[1], seen, 'PX', ARGV[1]) "
    "else redis.call('SET', KEYS[1], now, 'PX', ARGV[1]) seen = now end "
    "return seen .. ' ' .. now";

/* What was read as evidence must still be there. */
const char redlock__mark_script[] =
    "local marker = redis.call('GET', KEYS[1]) or '' "
    "if marker ~= ARGV[1] then return marker end "
    "if ARGV[2] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[2] then return marker end "
    "redis.call('SET', KEYS[1], ARGV[3]) "
    "redis.call('DEL', KEYS[2]) "
    "return ARGV[3]";

/* Source of the three: docs/safety.md, "Fencing". A counter that is missing, expired or evicted,
 * starts at the floor; the floor is only found under the base that is asked for.
 *
 * ARGV: token, ttl, number, base. The number is above the base and all that was heard of; only a
 * primary that is ahead of it makes its own. What can go wrong does so before the first SET, in
 * reading and calculating: an error leaves no lock without its number. A busy one raises nothing:
 * each look at a held lock would write, and might come between its holder's grant and settling. */
const char redlock__grant_script[] = "local c,k,a=redis.call,KEYS,ARGV "
                                     "local floor=c('ZSCORE',k[3],a[4]) "
                                     "if not floor then return -2 end "
                                     "local f,last=a[3],c('ZSCORE',k[2],'n') or floor "
                                     "if last-f>=0 then f=string.format('%.0f',last+1) end "
                                     "local more=f-floor "
                                     "if not c('SET',k[1],a[1],'NX','PX',a[2]) then return -1 end "
                                     "c('ZADD',k[2],f,'n') "
                                     "c('PEXPIRE',k[2],'" REDLOCK__FENCE_TTL_MS "') "
                                     "if more>0 then c('ZADD',k[3],f,a[4]) end "
                                     "return f+0";

const char redlock__settle_script[] =
    "local c,k,a=redis.call,KEYS,ARGV "
    "local floor=c('ZSCORE',k[3],a[3]) "
    "if not floor or c('GET',k[1])~=a[1] then return 0 end "
    "if (c('ZSCORE',k[2],'n') or floor)-a[2]>0 then return -1 end "
    "c('ZADD',k[2],a[2],'n') "
    "c('PEXPIRE',k[2],'" REDLOCK__FENCE_TTL_MS "') "
    "if a[2]-floor>0 then c('ZADD',k[3],a[2],a[3]) end "
    "return 1";

/* The marker first: a base that is missing may be so for another reason than it was. What was
 * flushed since has no marker before it sat out a guard. Then no base is named, so that none is
 * taken for the one asked for. */
const char redlock__recover_script[] =
    "local c,k,a=redis.call,KEYS,ARGV "
    "if (c('GET',k[2]) or '')~=a[4] then return {} end "
    "local there=c('ZRANGE',k[1],'0','-1','WITHSCORES') "
    "if (there[1] or '')~=a[1] or #there>2 then return there end "
    "local floor=there[2] or a[3] "
    "if a[3]-floor>0 then floor=a[3] end "
    "c('DEL',k[1]) "
    "c('ZADD',k[1],floor,a[2]) "
    "return {a[2],floor}";
