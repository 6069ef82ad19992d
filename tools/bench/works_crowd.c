#include "bench.h"

const struct bench_work bench_works_crowd[] = {
    {NULL, NULL, NULL},
};
