#include "bench.h"

const struct bench_work bench_works_trouble[] = {
    {NULL, NULL, NULL},
};
