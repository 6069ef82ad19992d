/* The commands: each returns the exit status. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "args.h"

int command_run(const struct cli_args *args);
int command_acquire(const struct cli_args *args);
int command_extend(const struct cli_args *args);
int command_release(const struct cli_args *args);
int command_show(const struct cli_args *args);

#endif
