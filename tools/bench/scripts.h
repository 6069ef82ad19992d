/*
 * The library's scripts that extend and release, letter for letter: to measure them against the
 * servers' own commands. The tool has the library's public header only; tests/unit compares.
 */
#ifndef BENCH_SCRIPTS_H
#define BENCH_SCRIPTS_H

#define SCRIPTS_EXTEND                                                                             \
    "local owner = redis.call('GET', KEYS[1]) "                                                    \
    "if owner == ARGV[1] then "                                                                    \
    "local left = redis.call('PTTL', KEYS[1]) "                                                    \
    "if left >= tonumber(ARGV[2]) then "                                                           \
    "if ARGV[3] then redis.call('PEXPIRE', KEYS[1], left) end "                                    \
    "return 1 end "                                                                                \
    "return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "                                          \
    "if owner then return -1 end "                                                                 \
    "return 0"

#define SCRIPTS_RELEASE                                                                            \
    "local owner = redis.call('GET', KEYS[1]) "                                                    \
    "local gone = 0 "                                                                              \
    "if owner == ARGV[1] then gone = redis.call('DEL', KEYS[1]) "                                  \
    "elseif owner then gone = -1 end "                                                             \
    "if not ARGV[2] or redis.pcall('GET', ARGV[2]) ~= '1' then return gone end "                   \
    "return gone < 0 and -2 or 3 - gone"

#endif
