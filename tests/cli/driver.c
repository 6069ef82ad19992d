/*
 * See driver.h. Output is read while it comes, into fixed buffers; a tool that says more than fits
 * fails its test. The end of a tool is seen by waitpid(), not by the end of its output: what it
 * left in the background may hold that open.
 */
#include "driver.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *tool;

void driver_use(const char *path)
{
    tool = path;
}

void driver_set_nodes(const char *const *uris, size_t count)
{
    char list[4096] = "";
    size_t used = 0;

    unsetenv("REDLOCK_NODES");
    unsetenv("REDLOCK_PASSWORD");
    for (size_t i = 0; uris && i < count; i++) {
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "", uris[i]);
        ck_assert_uint_lt(used, sizeof list);
    }
    if (uris)
        setenv("REDLOCK_NODES", list, 1);
}

void driver_mark(void)
{
    static struct driver driver;
    int status = RUN(&driver, "init", "--no-leases-out");

    ck_assert_msg(status == 0, "init: %d\n%s", status, driver.err.bytes);
}

/* ---- time ----------------------------------------------------------------- */

int64_t driver_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void driver_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- processes ------------------------------------------------------------ */

static int read_stat(const char *pid, char *state, long *parent)
{
    char path[300], text[512], *fields;
    FILE *file;
    size_t length;

    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    file = fopen(path, "re");
    if (!file)
        return -1;
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    fields = strrchr(text, ')');
    return fields && sscanf(fields, ") %c %ld", state, parent) == 2 ? 0 : -1;
}

int driver_is_alive(pid_t pid)
{
    char name[16], state;
    long parent;

    snprintf(name, sizeof name, "%ld", (long)pid);
    return read_stat(name, &state, &parent) == 0 && state != 'Z' && state != 'X';
}

int driver_children_of(pid_t parent, pid_t *children, int room)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int count = 0;
    char state;
    long its_parent;

    ck_assert_ptr_nonnull(proc);
    while (count < room && (entry = readdir(proc)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_stat(entry->d_name, &state, &its_parent) == 0 && its_parent == parent)
            children[count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    closedir(proc);
    return count;
}

pid_t driver_child_of(pid_t parent)
{
    pid_t child;

    return driver_children_of(parent, &child, 1) == 1 ? child : 0;
}

pid_t driver_parent_of(pid_t pid)
{
    char name[16], state;
    long parent = 0;

    snprintf(name, sizeof name, "%ld", (long)pid);
    ck_assert_int_eq(read_stat(name, &state, &parent), 0);
    return (pid_t)parent;
}

/* ---- start ---------------------------------------------------------------- */

static void exec_child(const char *const *words)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(words[0], (char *const *)(uintptr_t)words);
    _exit(127);
}

static void start_on_pipes(struct driver *driver, const char *const *words)
{
    int out[2], err[2];

    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        ck_abort_msg("pipe: %s", strerror(errno));
    driver->pid = fork();
    if (driver->pid == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        dup2(null, STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        exec_child(words);
    }
    close(out[1]);
    close(err[1]);
    driver->out.fd = out[0];
    driver->err.fd = err[0];
}

static void start_on_terminal(struct driver *driver, const char *const *words)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    char name[64];

    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0 ||
        ptsname_r(master, name, sizeof name) != 0)
        ck_abort_msg("no terminal: %s", strerror(errno));
    driver->pid = fork();
    if (driver->pid == 0) {
        int slave;

        setsid();
        slave = open(name, O_RDWR | O_CLOEXEC); /* becomes the controlling terminal */
        ioctl(slave, TIOCSCTTY, 0);
        for (int fd = 0; fd < 3; fd++)
            dup2(slave, fd);
        exec_child(words);
    }
    driver->out.fd = master;
    driver->err.fd = -1;
}

void driver_start_program(struct driver *driver, const char *const *words, int terminal)
{
    memset(driver, 0, sizeof *driver);
    if (terminal)
        start_on_terminal(driver, words);
    else
        start_on_pipes(driver, words);
    ck_assert_int_gt(driver->pid, 0);
    if (driver->out.fd >= 0)
        fcntl(driver->out.fd, F_SETFL, O_NONBLOCK);
    if (driver->err.fd >= 0)
        fcntl(driver->err.fd, F_SETFL, O_NONBLOCK);
}

void driver_start(struct driver *driver, const char *const *words)
{
    const char *all[DRIVER_WORDS_MAX + 1] = {tool};
    size_t count = 1;

    for (; *words; words++) {
        ck_assert_uint_lt(count, DRIVER_WORDS_MAX);
        all[count++] = *words;
    }
    driver_start_program(driver, all, 0);
}

/* ---- output --------------------------------------------------------------- */

static void read_text(struct driver_text *text)
{
    ssize_t n;

    while (text->fd >= 0) {
        ck_assert_msg(text->length < DRIVER_TEXT_LEN - 1, "it says too much");
        n = read(text->fd, text->bytes + text->length, DRIVER_TEXT_LEN - 1 - text->length);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) { /* EIO: nobody has the terminal any more */
            close(text->fd);
            text->fd = -1;
            return;
        }
        for (ssize_t i = 0; i < n; i++) /* kept a string */
            if (text->bytes[text->length + (size_t)i] == '\0')
                text->bytes[text->length + (size_t)i] = '?';
        text->length += (size_t)n;
    }
}

static void look(struct driver *driver)
{
    if (!driver->ended)
        driver->ended = waitpid(driver->pid, &driver->status, WNOHANG) == driver->pid;
    read_text(&driver->out);
    read_text(&driver->err);
}

static void look_later(struct driver *driver)
{
    struct pollfd fds[2] = {{.fd = driver->out.fd, .events = POLLIN},
                            {.fd = driver->err.fd, .events = POLLIN}};

    poll(fds, 2, 5);
    look(driver);
}

static void give_up(const struct driver *driver, const char *what, const char *text)
{
    kill(driver->pid, SIGKILL);
    ck_abort_msg("%s%s\nstdout: %s\nstderr: %s", what, text, driver->out.bytes, driver->err.bytes);
}

int driver_count(const char *text, const char *part)
{
    int count = 0;

    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

void driver_expect_times(struct driver *driver, const char *text, int times)
{
    int64_t end_ns = driver_now_ns() + DRIVER_PATIENCE_MS * INT64_C(1000000);

    for (;;) {
        int ended = driver->ended;

        look(driver);
        if (driver_count(driver->out.bytes, text) + driver_count(driver->err.bytes, text) >= times)
            return;
        if (ended || driver_now_ns() > end_ns)
            give_up(driver, ended ? "it ended without: " : "it does not say: ", text);
        look_later(driver);
    }
}

void driver_expect(struct driver *driver, const char *text)
{
    driver_expect_times(driver, text, 1);
}

int driver_wait(struct driver *driver)
{
    int64_t end_ns = driver_now_ns() + DRIVER_PATIENCE_MS * INT64_C(1000000);

    while (!driver->ended) {
        if (driver_now_ns() > end_ns)
            give_up(driver, "it does not end", "");
        look_later(driver);
    }
    look(driver);
    if (driver->out.fd >= 0)
        close(driver->out.fd);
    if (driver->err.fd >= 0)
        close(driver->err.fd);
    driver->out.fd = driver->err.fd = -1;
    return WIFEXITED(driver->status) ? WEXITSTATUS(driver->status) : -WTERMSIG(driver->status);
}

int driver_run(struct driver *driver, const char *const *words)
{
    driver_start(driver, words);
    return driver_wait(driver);
}

void driver_type(const struct driver *driver, const char *keys)
{
    ck_assert_int_eq(write(driver->out.fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

int64_t driver_last_number(const struct driver *driver, const char *name)
{
    char field[64];
    const char *at = driver->err.bytes, *last = NULL;

    snprintf(field, sizeof field, "\"%s\":", name);
    for (; (at = strstr(at, field)); at++)
        last = at + strlen(field);
    return last ? strtoll(last, NULL, 10) : -1;
}

/* ---- secrets --------------------------------------------------------------- */

static void expect_secret_not_in(const char *text)
{
    static const char *const parts[] = {"Xyzzy", "plugh"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *at = strstr(text, parts[i]);

        ck_assert_msg(at == NULL, "%.80s", at);
    }
}

void driver_expect_secret_kept(const struct driver *driver)
{
    expect_secret_not_in(driver->out.bytes);
    expect_secret_not_in(driver->err.bytes);
}

void driver_expect_secret_hidden(pid_t pid)
{
    char path[64], text[4096];
    FILE *file;
    size_t length;

    snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t i = 0; i < length; i++)
        text[i] = text[i] == '\0' ? ' ' : text[i];
    text[length] = '\0';
    ck_assert_ptr_nonnull(strstr(text, "--node"));
    expect_secret_not_in(text);
    ck_assert_ptr_null(strstr(text, "default"));
}

/* ---- files ----------------------------------------------------------------- */

const char *driver_file(const char *text, char path[64])
{
    int fd;

    snprintf(path, 64, "/tmp/redlock-test-XXXXXX");
    fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}
