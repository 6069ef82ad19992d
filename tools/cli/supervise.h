/* The wrapper while its command runs. */
#ifndef CLI_SUPERVISE_H
#define CLI_SUPERVISE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#include "family.h"
#include "session.h"
#include "terminal.h"
#include "text.h"
#include "watch.h"

#define SUPERVISE_REASON_LEN 1024

struct wrapper {
    struct session *session;
    const struct cli_args *args;
    const struct notes *notes;
    redlock_lock *lock;
    struct terminal terminal;

    /* The renewal callback runs in a thread of the library: what it shares is under the mutex. */
    pthread_mutex_t mutex;
    int channel;           /* to the guardian; -1 once it is gone */
    int armed;             /* the guardian knows of the lease: tell it of renewals */
    int64_t hold_until_ns; /* --max-hold; CLOCK_NEVER without */

    struct family family;
    pid_t guardian;
    pid_t group;                       /* the command's; 0: not started */
    struct watch backup;               /* for a guardian that does not do its work */
    int ended;                         /* status is valid */
    int status;                        /* exit status, or minus the signal it died of */
    char reason[SUPERVISE_REASON_LEN]; /* why renewal is failing; "" while it is not */
    char heard[SUPERVISE_REASON_LEN];  /* the same as the library's thread has it: by the mutex */
    int margin;                        /* the last that was told */
    int lease_ended;                   /* the command was made to end */
    int guardian_failed;
};

/* For redlock_lock_options; its context is the wrapper. */
void supervise_on_event(void *context, redlock_lock *lock, redlock_event event);

/* The lease's end, or that of --max-hold if it comes first. */
int64_t supervise_deadline_ns(const struct wrapper *wrapper);

/* Starts the command with a held lock and stays until nothing of it is left to wait for. */
void supervise(struct wrapper *wrapper);

/* Begins an event of --json; to be ended by json_end() on standard error. */
void supervise_begin_event(const struct wrapper *wrapper, struct json *json, const char *event);

#endif
