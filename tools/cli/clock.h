/* The clock of every absolute time here: the library's, so that deadlines can be compared. */
#ifndef CLI_CLOCK_H
#define CLI_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_MS INT64_C(1000000)
#define CLOCK_NEVER INT64_MAX

/* Now, in nanoseconds of a clock that counts suspend where the system has one. */
int64_t clock_now_ns(void);

/* Its name as in clock_gettime(2), for people and scripts that want to compare. */
const char *clock_name(void);

/* A timeout for poll(2) until `at_ns`: rounded up, 0 if past, -1 for CLOCK_NEVER. */
int clock_poll_timeout(int64_t at_ns, int64_t now_ns);

/* milliseconds to nanoseconds, saturating. */
int64_t clock_ms_to_ns(int64_t ms);

#endif
