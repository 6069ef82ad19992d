/* Rounds that the tables of works_basic.c name, from the files beside it. */
#ifndef BENCH_WORKS_H
#define BENCH_WORKS_H

#include "bench.h"

/* works_scale.c */
bench_round works_threads, works_loop;
/* works_native.c */
bench_round works_native;
/* works_idle.c */
bench_round works_held, works_waiting;

/* Many against one primary: of --compare. NULL-terminated. */
extern const struct bench_work bench_works_compare[];

#endif
