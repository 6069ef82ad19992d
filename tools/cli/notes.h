/* Everything that happens elsewhere (signals, threads, callbacks) reaches the main loop as a note.
 */
#ifndef CLI_NOTES_H
#define CLI_NOTES_H

#include <stdint.h>

enum note_kind {
    NOTE_SIGNAL = 1, /* value: its number */
    NOTE_ACQUIRED,   /* value: the result of redlock_acquire() */
    NOTE_NO_QUORUM,  /* of a wait for ever: the primaries' reasons are there to be read */
    NOTE_RENEWED,    /* deadline_ns: the new one */
    NOTE_FAILING,
    NOTE_LOST
};

struct note {
    int32_t kind;
    int32_t value;
    int64_t deadline_ns;
};

struct notes {
    int read_fd; /* to poll */
    int write_fd;
};

/* Returns 0 or -1 with errno. Both ends are close-on-exec and never block. */
int notes_open(struct notes *notes);
void notes_close(struct notes *notes);

/* For signal handlers and callbacks: a note that finds no room is dropped. */
void notes_post(const struct notes *notes, enum note_kind kind, int value, int64_t deadline_ns);

/* For what must arrive: waits for room. */
void notes_post_surely(const struct notes *notes, enum note_kind kind, int value);

/* Returns 1 and the oldest note, or 0 if there is none. */
int notes_next(const struct notes *notes, struct note *note);

/* Close-on-exec, and non-blocking if asked for. Returns 0 or -1 with errno. */
int notes_prepare_fd(int fd, int nonblocking);

#endif
