#include "works_client.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PATIENCE_MS = 20000,
    LOOK_MS = 5
};

#define NS_PER_MS INT64_C(1000000)
#define TRIAL_SECONDS 0.5

void works_sleep(int64_t ns)
{
    struct timespec time = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    if (ns > 0)
        (void)nanosleep(&time, NULL);
}

void works_sleep_until(int64_t ns)
{
    works_sleep(ns - bench_now_ns());
}

void works_key(char key[WORKS_KEY_LEN], const char *name)
{
    (void)snprintf(key, WORKS_KEY_LEN, "redlock-bench:%ld:%s", (long)getpid(), name);
}

double works_seconds(const struct bench *bench, double least)
{
    if (bench->seconds < TRIAL_SECONDS || bench->seconds > least)
        return bench->seconds;
    return least;
}

/* "": they are all connected, and count. */
static void look(const redlock_client *client, unsigned n, char text[WORKS_TEXT_LEN])
{
    redlock_node_health nodes[REDLOCK_MAX_NODES];
    size_t count = redlock_health(client, nodes, n);

    text[0] = '\0';
    for (size_t i = 0; i < count && i < n; i++) {
        if (nodes[i].state == REDLOCK_NODE_READY && nodes[i].counts)
            continue;
        (void)snprintf(text, WORKS_TEXT_LEN, "%s: %s", nodes[i].address,
                       nodes[i].state != REDLOCK_NODE_READY ? "not connected" : nodes[i].standing);
        return;
    }
}

static void try_once(redlock_client *client, char text[WORKS_TEXT_LEN])
{
    redlock_lock *lock;
    char key[WORKS_KEY_LEN];
    int rc;

    works_key(key, "warm");
    rc = redlock_acquire(client, key, strlen(key), NULL, &lock);
    if (rc == REDLOCK_OK)
        rc = redlock_release(lock);
    if (rc != REDLOCK_OK)
        (void)snprintf(text, WORKS_TEXT_LEN, "%s", redlock_strerror(rc));
}

redlock_client *works_client(const struct bench *bench, const char *const *uris, unsigned n,
                             char text[WORKS_TEXT_LEN])
{
    int64_t end_ns = bench_now_ns() + PATIENCE_MS * NS_PER_MS;
    redlock_options options;
    redlock_client *client;

    redlock_options_init(&options);
    options.nodes = uris;
    options.node_count = n;
    options.password = bench->password;
    options.client_name = "redlock-bench";
    if (redlock_client_new(&options, &client, text, WORKS_TEXT_LEN) != REDLOCK_OK)
        return NULL;
    for (;;) {
        look(client, n, text);
        if (text[0] == '\0')
            try_once(client, text);
        if (text[0] == '\0')
            return client;
        if (bench_now_ns() > end_ns || *bench->interrupted != 0)
            break;
        works_sleep(LOOK_MS * NS_PER_MS);
    }
    redlock_client_free(client);
    return NULL;
}
