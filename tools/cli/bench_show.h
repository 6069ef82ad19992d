/* What redlock bench found, as a table or as an object. */
#ifndef CLI_BENCH_SHOW_H
#define CLI_BENCH_SHOW_H

#include "args.h"
#include "bench/results.h"

/* On standard output. interrupted: a signal's number, 0: none. */
void bench_show(const struct bench *bench, const struct cli_args *args, int interrupted);
void bench_show_list(const struct bench_work *const *works, unsigned count,
                     const struct cli_args *args);

#endif
