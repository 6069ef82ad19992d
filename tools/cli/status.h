/* Exit statuses of the command line. They are part of its contract: see redlock(1). */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

enum {
    CLI_OK = 0,
    CLI_FREE = 1,             /* show: nobody holds it */
    CLI_MISSED = 1,           /* bench --check: a limit was missed */
    CLI_USAGE = 64,           /* the command line, or an option's value, is wrong */
    CLI_NO_QUORUM = 69,       /* too few primaries answered */
    CLI_INTERNAL = 70,        /* memory, threads, descriptors, the guardian */
    CLI_LOST = 73,            /* the lease expired or was lost */
    CLI_BUSY = 75,            /* somebody else holds it; -E changes this one */
    CLI_MISCONFIGURED = 78,   /* the primaries do not fit together */
    CLI_NOT_EXECUTABLE = 126, /* as in the shell */
    CLI_NOT_FOUND = 127,
    CLI_SIGNAL_BASE = 128 /* 128 + n: ended by signal n */
};

/* "Go on": never an exit status. */
#define CLI_CONTINUE (-1)

#endif
