/*
 * Runs the command line tool and looks at what it says.
 *
 * Everything that cannot be done, or takes longer than DRIVER_PATIENCE_MS, fails the running test,
 * so callers check nothing. A tool dies with the test that started it.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    DRIVER_PATIENCE_MS = 20000,
    DRIVER_TEXT_LEN = 128 * 1024,
    DRIVER_WORDS_MAX = 32
};

struct driver_text {
    int fd; /* -1: at its end */
    size_t length;
    char bytes[DRIVER_TEXT_LEN];
};

/* On a terminal everything is in `out`. */
struct driver {
    pid_t pid;
    int status; /* of waitpid(), once it has ended */
    int ended;
    struct driver_text out, err;
};

/* The tool's path, for all that follows. */
void driver_use(const char *path);

/* Which primaries it is to use: REDLOCK_NODES; NULL: none. */
void driver_set_nodes(const char *const *uris, size_t count);

/* Marks those primaries, which nobody has a lock on yet, so that they count at once. */
void driver_mark(void);

/* Starts "redlock words..."; a word NULL ends them. */
void driver_start(struct driver *driver, const char *const *words);

/* Starts any program, words[0]; `terminal`: on a new one, as its session's leader. */
void driver_start_program(struct driver *driver, const char *const *words, int terminal);

/* Waits until `text` is in the output, on either stream. */
void driver_expect(struct driver *driver, const char *text);

/* The same, `times` times over. */
void driver_expect_times(struct driver *driver, const char *text, int times);

/* Waits for the end. Returns the exit status, or minus the signal it died of. */
int driver_wait(struct driver *driver);

/* Start and wait. */
int driver_run(struct driver *driver, const char *const *words);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define START(driver, ...) driver_start(driver, WORDS(__VA_ARGS__))
#define RUN(driver, ...) driver_run(driver, WORDS(__VA_ARGS__))

/* A password of primaries that no command may ever say. */
#define DRIVER_PASSWORD "Xyzzy-plugh-42"

/* No part of it is in the output, on either stream. */
void driver_expect_secret_kept(const struct driver *driver);

/* Nor in what ps(1) shows of a process that was given primaries by --node; nor the user's name. */
void driver_expect_secret_hidden(pid_t pid);

/* Keys pressed on its terminal. */
void driver_type(const struct driver *driver, const char *keys);

/* The number behind the last `"name":` in standard error, -1 if there is none. */
int64_t driver_last_number(const struct driver *driver, const char *name);

int driver_count(const char *text, const char *part);

/* Waits until the condition is true. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        int64_t wait_end_ = driver_now_ns() + DRIVER_PATIENCE_MS * INT64_C(1000000);               \
        while (!(condition)) {                                                                     \
            ck_assert_msg(driver_now_ns() < wait_end_, "never true: %s", #condition);              \
            driver_pause();                                                                        \
        }                                                                                          \
    } while (0)

/* The clock of deadlines. */
int64_t driver_now_ns(void);
void driver_pause(void); /* a millisecond */

/* 1 if the process exists and is no zombie. */
int driver_is_alive(pid_t pid);

/* The only child of a process; 0 if it has none yet. */
pid_t driver_child_of(pid_t parent);

/* Its children, at most `room` of them, zombies too. Returns how many there are. */
int driver_children_of(pid_t parent, pid_t *children, int room);

pid_t driver_parent_of(pid_t pid);

/* A new file with this text. */
const char *driver_file(const char *text, char path[64]);

#endif
