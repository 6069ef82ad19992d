/* The arithmetic of the report's numbers. */
#ifndef CHAOS_NUMBERS_H
#define CHAOS_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Of count > 0 values in rising order: the smallest one that at least this part of them does not
 * exceed. */
int64_t numbers_percentile(const int64_t *sorted, size_t count, double part);
void numbers_sort(int64_t *values, size_t count);

/* (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything. 0: nobody has. */
double numbers_jain(const size_t *shares, size_t count);

struct interval {
    double low, high;
};
/* Of a probability, from hits in count > 0 tries, 95 %, by Wilson. */
struct interval numbers_wilson(size_t hits, size_t count);

#endif
