/*
 * See worker.h. A beat is one store of the clock's time, some hundred microseconds apart: the last
 * one a dead process has written is the latest time it is known to have lived.
 */
#include "worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

#define BEAT_NS 300000

static char program[512];
static char board_path[64];
static struct worker *myself;

/* ---- the worker ----------------------------------------------------------- */

static struct worker_board *map_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *memory =
        fd < 0 ? MAP_FAILED
               : mmap(NULL, sizeof(struct worker_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Notes it and dies of it. */
static void on_signal(int number)
{
    myself->signal = number;
    signal(number, SIG_DFL);
    raise(number);
}

static void set_signals(int stubborn)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], stubborn ? SIG_IGN : on_signal);
}

/* Becomes the last of the chain, or stays what it is above its child. Returns its flags. */
static const char *begin(struct worker_board *board, char **flags)
{
    for (int slot = 0; slot < WORKER_MAX; slot++, flags++) {
        myself = &board->workers[slot];
        if (strchr(*flags, 'g'))
            setpgid(0, 0);
        if (strchr(*flags, 'd'))
            setsid();
        set_signals(strchr(*flags, 's') != NULL);
        if (!flags[1] || fork() != 0)
            break;
    }
    return *flags;
}

static int work(struct worker_board *board, char **flags)
{
    const char *mine = begin(board, flags);

    myself->beat = driver_now_ns();
    myself->pid = getpid();
    if (strchr(mine, 'o')) {
        while (myself[1].pid == 0)
            driver_pause();
        return 0;
    }
    while (board->stop == 0) {
        nanosleep(&(struct timespec){.tv_nsec = BEAT_NS}, NULL);
        myself->beat = driver_now_ns();
    }
    return board->stop - 1;
}

/* ---- the test ------------------------------------------------------------- */

int worker_main(int argc, char **argv, const char *tool, Suite *(*suite)(void))
{
    SRunner *runner;
    int failed;

    if (argc > 3 && strcmp(argv[1], "--worker") == 0) {
        struct worker_board *board = map_board(argv[2]);

        _exit(board ? work(board, argv + 3) : 98);
    }
    if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
        return EXIT_FAILURE;
    driver_use(tool);
    runner = srunner_create(suite());
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

struct worker_board *worker_board_new(void)
{
    struct worker_board *board;

    driver_file("", board_path);
    ck_assert_int_eq(truncate(board_path, sizeof *board), 0);
    board = map_board(board_path);
    ck_assert_ptr_nonnull(board);
    return board;
}

void worker_board_free(struct worker_board *board)
{
    unlink(board_path);
    munmap(board, sizeof *board);
}

const char *worker_board_path(void)
{
    return board_path;
}

const char *worker_program(void)
{
    return program;
}

void worker_wait(const struct worker_board *board, int count)
{
    for (int i = 0; i < count; i++)
        WAIT_UNTIL(board->workers[i].pid != 0);
}

int64_t worker_last_beat(const struct worker_board *board)
{
    int64_t last = 0;

    for (int i = 0; i < WORKER_MAX; i++)
        if (board->workers[i].beat > last)
            last = board->workers[i].beat;
    return last;
}

void worker_wait_dead(const struct worker_board *board)
{
    for (int i = 0; i < WORKER_MAX; i++)
        if (board->workers[i].pid != 0)
            WAIT_UNTIL(!driver_is_alive(board->workers[i].pid));
}
