/*
 * The library's scripts that extend and release, letter for letter: to measure them against the
 * servers' own commands. The tool has the library's public header only; tests/unit compares.
 */
#ifndef BENCH_SCRIPTS_H
#define BENCH_SCRIPTS_H

#define SCRIPTS_EXTEND                                                                             \
    "local c,k,ttl=redis.call,KEYS[1],ARGV[2] "                                                    \
    "local owner=c('GET',k) "                                                                      \
    "if owner==ARGV[1] then local left=c('PTTL',k) "                                               \
    "if left<ttl+0 then left=ttl elseif not ARGV[3] then return 1 end "                            \
    "return c('PEXPIRE',k,left) end "                                                              \
    "return owner and -1 or 0"

#define SCRIPTS_RELEASE                                                                            \
    "local c,k=redis.call,KEYS[1] "                                                                \
    "local o=c('GET',k) "                                                                          \
    "if o==ARGV[1] then return c('DEL',k) end "                                                    \
    "return o and -1 or 0"

#endif
