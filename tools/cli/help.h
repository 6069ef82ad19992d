/* --help. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "args.h"

/* The page of one command, or the general one for COMMAND_NONE. */
void help_print(FILE *stream, enum cli_command command);

#endif
