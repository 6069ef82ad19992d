/* What the wrapper and its guardian tell each other. */
#ifndef CLI_CHANNEL_H
#define CLI_CHANNEL_H

#include <stdint.h>

#include "redlock.h"

enum message_kind {
    /* wrapper to guardian */
    MESSAGE_START = 1, /* fork the command: deadline_ns, token */
    MESSAGE_GO,        /* it may begin: the terminal is its own */
    MESSAGE_DEADLINE,  /* renewed: deadline_ns */
    MESSAGE_LOST,      /* the lease is gone */
    MESSAGE_SIGNAL,    /* value: for the command's group */
    /* guardian to wrapper */
    MESSAGE_STARTED,     /* value: the command's process and group */
    MESSAGE_NOT_STARTED, /* value: errno of fork */
    MESSAGE_NO_EXEC,     /* value: errno of exec */
    MESSAGE_STOPPED,     /* value: by which signal */
    MESSAGE_TERMINATING, /* TERM was sent: deadline_ns in force */
    MESSAGE_KILLED,      /* KILL was sent: deadline_ns in force */
    MESSAGE_EXITED       /* value: its status, or minus the signal it died of */
};

struct message {
    int32_t kind;
    int32_t value;
    int64_t deadline_ns;
    int64_t fence; /* with the token; 0: none */
    char token[REDLOCK_TOKEN_LEN];
};

/* Two connected ends, close-on-exec. Returns 0 or -1 with errno. */
int channel_open(int ends[2]);

/* Never blocks. Returns 0, or -1 if there is no room or nobody listens. */
int channel_send(int fd, const struct message *message);

/* When fd is readable. Returns 1, or 0 if the other side is gone. */
int channel_receive(int fd, struct message *message);

#endif
