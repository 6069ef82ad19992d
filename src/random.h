/*
 * Random numbers for pauses and orders, never for tokens: splitmix64 (Steele, Lea, Flood, "Fast
 * splittable pseudorandom number generators", 2014). The state is the caller's.
 */
#ifndef REDLOCK__RANDOM_H
#define REDLOCK__RANDOM_H

#include <stdint.h>

/* Numbers that are near to each other become ones that have nothing to do with each other. */
static inline uint64_t redlock__mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t redlock__random(uint64_t *state)
{
    return redlock__mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
