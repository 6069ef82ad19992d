/* Durations as people write them: 500ms, 1.5s, 2m, 1h, 0. */
#ifndef CLI_DURATION_H
#define CLI_DURATION_H

#include <stddef.h>
#include <stdint.h>

#define DURATION_PROBLEM_LEN 96
#define DURATION_TEXT_LEN 32

/* Returns 0 and *ms, or -1 and the reason, which names the fix where there is one. */
int duration_parse(const char *text, int64_t *ms, char problem[DURATION_PROBLEM_LEN]);

/* A whole number of `min`..`max`. Returns 0 and *value, or -1. */
int number_parse(const char *text, int64_t min, int64_t max, int64_t *value);

/* For people: "850 ms", "7.9 s", "2 m 5 s". Returns `text`. */
const char *duration_text(int64_t ms, char text[DURATION_TEXT_LEN]);

#endif
