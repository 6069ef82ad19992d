#include "numbers.h"

#include <math.h>
#include <stdlib.h>

int64_t numbers_percentile(const int64_t *sorted, size_t count, double part)
{
    double rank = ceil(part * (double)count - 1e-9); /* 0.99 * 100 is a bit more than 99 */
    size_t index = rank < 1 ? 0 : (size_t)rank - 1;

    return sorted[index < count ? index : count - 1];
}

static int rising(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void numbers_sort(int64_t *values, size_t count)
{
    if (count > 1)
        qsort(values, count, sizeof *values, rising);
}

double numbers_jain(const size_t *shares, size_t count)
{
    double sum = 0, squares = 0;

    for (size_t i = 0; i < count; i++) {
        sum += (double)shares[i];
        squares += (double)shares[i] * (double)shares[i];
    }
    return squares > 0 ? sum * sum / ((double)count * squares) : 0;
}

struct interval numbers_wilson(size_t hits, size_t count)
{
    const double z = 1.959963984540054; /* of the normal distribution, 97.5 % */
    double n = (double)count, p = (double)hits / n;
    double middle = p + z * z / (2 * n);
    double reach = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    double whole = 1 + z * z / n;
    struct interval interval = {.low = (middle - reach) / whole, .high = (middle + reach) / whole};

    /* Rounding must not say 99.99.. % of what never failed. */
    if (hits == 0)
        interval.low = 0;
    if (hits == count)
        interval.high = 1;
    return interval;
}
