/*
 * Children of this process, one for each worker, with a page of memory that all share. A child says
 * there how far it is; it ends when it is done, when the page says so, or with its parent. It is
 * this process that signals of the terminal are for: children ignore them, and are told, or killed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "crowd.h"
#include "works_client.h"

enum {
    LOOK_MS = 5,
    SOON_MS = 50,
    READY_S = 15, /* until all are connected */
    GRACE_S = 10, /* after the end, for those who still wait */
    STOP_S = 2    /* to end, when told to */
};

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S INT64_C(1000000000)

enum state {
    STARTING,
    READY,
    DONE,
    FAILED /* and says why */
};

struct member {
    atomic_int state;
    char text[WORKS_TEXT_LEN];
    uint64_t attempts, acquired;
};

struct page {
    atomic_bool go, stop;
    struct crowd_span span;
    struct member members[CROWD_PROCESSES_MAX];
    struct crowd_tally tallies[CROWD_PROCESSES_MAX];
};

struct family {
    struct bench *bench;
    struct page *page;
    unsigned count;
    pid_t children[CROWD_PROCESSES_MAX]; /* 0: none, or waited for */
    int lost;                            /* status of one that ended before it was done; 0: none */
    int error;                           /* errno of one that could not be started */
};

/* ---- in a child --------------------------------------------------------------------------- */

static void live_with(pid_t parent)
{
#ifdef __linux__
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGQUIT, SIG_IGN);
    if (getppid() != parent)
        _exit(1);
}

static redlock_stats stats_of(const redlock_client *client)
{
    redlock_stats stats = {.size = sizeof stats};

    (void)redlock_stats_get(client, &stats);
    return stats;
}

static bool await_go(struct page *page, pid_t parent)
{
    while (!atomic_load(&page->go) && !atomic_load(&page->stop) && getppid() == parent)
        works_sleep(NS_PER_MS);
    return atomic_load(&page->go);
}

static void take_part(struct page *page, unsigned i, redlock_client *client, const char *key)
{
    struct member *member = &page->members[i];
    struct crowd_ours ours = {.client = client, .key = key};
    struct crowd_lock lock = crowd_lock_of(&ours);
    redlock_stats before = stats_of(client), after;

    crowd_work(&lock, &page->span, &page->stop, &page->tallies[i]);
    after = stats_of(client);
    member->attempts = after.attempts - before.attempts;
    member->acquired = after.acquired - before.acquired;
    if (page->tallies[i].failed)
        (void)snprintf(member->text, sizeof member->text, "%s",
                       redlock_strerror(atomic_load(&ours.rc)));
}

/* Ends the process. */
static void live(const struct family *family, unsigned i, const char *key, pid_t parent)
{
    const struct bench *bench = family->bench;
    struct page *page = family->page;
    struct member *member = &page->members[i];
    redlock_client *client;

    live_with(parent);
    client = works_client(bench, bench->uris, bench->n, member->text);
    if (client == NULL) {
        atomic_store(&member->state, FAILED);
        _exit(1);
    }
    atomic_store(&member->state, READY);
    if (await_go(page, parent))
        take_part(page, i, client, key);
    redlock_client_free(client);
    atomic_store(&member->state, page->tallies[i].failed ? FAILED : DONE);
    _exit(0);
}

/* ---- in the parent ------------------------------------------------------------------------ */

static void reap(struct family *family, unsigned i, int options)
{
    int status = 0;

    if (family->children[i] == 0 ||
        waitpid(family->children[i], &status, options) != family->children[i])
        return;
    family->children[i] = 0;
    if (atomic_load(&family->page->members[i].state) < DONE)
        family->lost = status;
}

static bool goes_well(struct family *family)
{
    for (unsigned i = 0; i < family->count; i++) {
        reap(family, i, WNOHANG);
        if (atomic_load(&family->page->members[i].state) == FAILED)
            return false;
    }
    return family->lost == 0 && *family->bench->interrupted == 0;
}

static bool all_are(const struct family *family, enum state state)
{
    for (unsigned i = 0; i < family->count; i++)
        if (atomic_load(&family->page->members[i].state) < (int)state)
            return false;
    return true;
}

static bool await(struct family *family, enum state state, int64_t until_ns)
{
    while (goes_well(family)) {
        if (all_are(family, state))
            return true;
        if (bench_now_ns() > until_ns)
            return false;
        works_sleep(LOOK_MS * NS_PER_MS);
    }
    return false;
}

static bool any_left(struct family *family)
{
    bool any = false;

    for (unsigned i = 0; i < family->count; i++) {
        reap(family, i, WNOHANG);
        any = any || family->children[i] != 0;
    }
    return any;
}

/* None is left afterwards. */
static void end_all(struct family *family)
{
    int64_t until_ns = bench_now_ns() + STOP_S * NS_PER_S;

    atomic_store(&family->page->stop, true);
    while (any_left(family) && bench_now_ns() < until_ns)
        works_sleep(LOOK_MS * NS_PER_MS);
    for (unsigned i = 0; i < family->count; i++) {
        if (family->children[i] == 0)
            continue;
        (void)kill(family->children[i], SIGKILL);
        while (waitpid(family->children[i], NULL, 0) < 0 && errno == EINTR)
            ;
        family->children[i] = 0;
    }
}

static bool start_all(struct family *family, const char *key)
{
    pid_t parent = getpid();

    for (unsigned i = 0; i < family->count; i++) {
        pid_t child = fork();

        if (child == 0)
            live(family, i, key, parent);
        if (child < 0) {
            family->error = errno;
            return false;
        }
        family->children[i] = child;
    }
    return true;
}

static bool run(struct family *family, const char *key, double seconds)
{
    struct page *page = family->page;

    if (!start_all(family, key) || !await(family, READY, bench_now_ns() + READY_S * NS_PER_S))
        return false;
    page->span.start_ns = bench_now_ns() + SOON_MS * NS_PER_MS;
    page->span.end_ns = page->span.start_ns + (int64_t)(seconds * (double)NS_PER_S);
    atomic_store(&page->go, true);
    return await(family, DONE, page->span.end_ns + GRACE_S * NS_PER_S);
}

static bool say_why(const struct family *family)
{
    if (*family->bench->interrupted != 0)
        return false;
    if (family->error != 0)
        return bench_fail(family->bench, "no process can be started: %s", strerror(family->error));
    /* First: the others were told to stop then, wherever they were. */
    if (WIFSIGNALED(family->lost))
        return bench_fail(family->bench, "a process of the crowd ended by signal %d",
                          WTERMSIG(family->lost));
    for (unsigned i = 0; i < family->count; i++)
        if (family->page->members[i].text[0] != '\0')
            return bench_fail(family->bench, "a process of the crowd failed: %s",
                              family->page->members[i].text);
    return bench_fail(family->bench, "a process of the crowd did not get done");
}

static bool add_up(const struct family *family, struct crowd_result *result,
                   struct crowd_costs *costs)
{
    const struct page *page = family->page;
    uint64_t failed = 0, acquired = 0;

    for (unsigned i = 0; i < family->count; i++) {
        failed += page->members[i].attempts - page->members[i].acquired;
        acquired += page->members[i].acquired;
    }
    costs->failed_per_turn = (double)failed / (double)(acquired > 0 ? acquired : 1);
    return crowd_sum(page->tallies, family->count, &page->span, result);
}

bool crowd_of_processes(struct bench *bench, const char *key, double seconds,
                        struct crowd_result *result, struct crowd_costs *costs)
{
    struct family family = {.bench = bench, .count = bench->workers};
    bool done;

    if (family.count > CROWD_PROCESSES_MAX)
        return bench_fail(bench, "at most %d processes", CROWD_PROCESSES_MAX);
    family.page =
        mmap(NULL, sizeof *family.page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (family.page == MAP_FAILED)
        return bench_fail(bench, "no memory for a crowd");
    done = run(&family, key, seconds);
    end_all(&family);
    if (done)
        done = add_up(&family, result, costs);
    if (!done)
        (void)say_why(&family);
    (void)munmap(family.page, sizeof *family.page);
    return done;
}
