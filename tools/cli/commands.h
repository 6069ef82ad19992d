/* The commands: each returns the exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "args.h"
#include "session.h"

int command_run(const struct cli_args *args);
int command_acquire(const struct cli_args *args);
int command_extend(const struct cli_args *args);
int command_release(const struct cli_args *args);
int command_show(const struct cli_args *args);
int command_init(const struct cli_args *args);
int command_bench(const struct cli_args *args);

/* Says a failure where it belongs, as an object too. Returns its exit status. */
int command_fail(const struct session *session, int rc);

#endif
