#include "trouble.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "works_client.h"

enum {
    PING_PATIENCE_S = 5
};

void cycles_clear(struct cycles *cycles)
{
    cycles->tried = cycles->held = 0;
    cycles->rc = REDLOCK_OK;
    hist_clear(&cycles->acquire);
    hist_clear(&cycles->release);
}

void cycles_run(struct cycles *cycles, redlock_client *client, const char *key)
{
    redlock_lock_options options;
    redlock_lock *lock;
    int64_t start_ns, held_ns;
    int rc;

    redlock_lock_options_init(&options);
    options.ttl_ms = WORKS_TTL_MS;
    cycles->tried++;
    start_ns = bench_now_ns();
    rc = redlock_acquire(client, key, strlen(key), &options, &lock);
    held_ns = bench_now_ns();
    if (rc == REDLOCK_OK) {
        hist_add(&cycles->acquire, held_ns - start_ns);
        rc = redlock_release(lock);
        hist_add(&cycles->release, bench_now_ns() - held_ns);
    }
    cycles->held += rc == REDLOCK_OK;
    if (rc != REDLOCK_OK)
        cycles->rc = rc;
}

void cycles_run_for(struct cycles *cycles, redlock_client *client, const char *key,
                    int64_t duration_ns, volatile const int *interrupted)
{
    int64_t end_ns = bench_now_ns() + duration_ns;

    do
        cycles_run(cycles, client, key);
    while (bench_now_ns() < end_ns && *interrupted == 0);
}

int ping_open(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)port)};
    struct timeval patience = {.tv_sec = PING_PATIENCE_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, error;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    error = errno;
    if (fd >= 0)
        (void)close(fd);
    errno = error;
    return -1;
}

bool ping(int fd, int64_t *ns)
{
    static const char question[] = "*1\r\n$4\r\nPING\r\n";
    int64_t start_ns = bench_now_ns();
    char answer[256], last = '\0';

    if (send(fd, question, sizeof question - 1, MSG_NOSIGNAL) != (ssize_t)sizeof question - 1)
        return false;
    while (last != '\n') {
        ssize_t n = recv(fd, answer, sizeof answer, 0);

        if (n <= 0)
            return false;
        last = answer[n - 1];
    }
    *ns = bench_now_ns() - start_ns;
    return true;
}
