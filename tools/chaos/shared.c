/*
 * No locks: a process may be killed or stopped at any instruction in here, and no other may have to
 * wait for it. All that belongs together is in one word, which changes by compare and exchange.
 *
 * A name is known by its hash; with 64 of them, two that are alike don't happen.
 */
#include "shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* A cell's word: who orders the holders, above, and how many writes there were. Fencing tokens
 * start at milliseconds of the time of day at the most, which are below 2^42 until the year 2109.
 */
#define SEQUENCE_BITS 22
#define SEQUENCE_MASK ((UINT64_C(1) << SEQUENCE_BITS) - 1)
#define ORDER_MAX (UINT64_MAX >> SEQUENCE_BITS)

struct resource {
    _Atomic uint64_t name;
    _Atomic uint32_t witness;
    _Atomic uint64_t counter;
    _Atomic uint64_t cells[2]; /* plain, fenced */
};

struct shared {
    _Atomic uint64_t sessions;
    struct resource resources[SHARED_NAMES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "atomics work across processes");

int shared_create(void)
{
    int fd = memfd_create("redlock-chaos", MFD_CLOEXEC), error;

    if (fd < 0)
        return -1;
    if (ftruncate(fd, sizeof(struct shared)) == 0)
        return fd;
    error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

struct shared *shared_map(int fd)
{
    void *mapping = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return mapping != MAP_FAILED ? mapping : NULL;
}

void shared_unmap(struct shared *shared)
{
    if (shared != NULL)
        (void)munmap(shared, sizeof *shared);
}

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash != 0 ? hash : 1;
}

int shared_slot(struct shared *shared, const char *name)
{
    uint64_t hash = hash_of(name);

    for (int i = 0; i < SHARED_NAMES; i++) {
        uint64_t free = 0;
        if (atomic_compare_exchange_strong(&shared->resources[i].name, &free, hash) || free == hash)
            return i;
    }
    return -1;
}

/* ---- the witness ---------------------------------------------------------- */

struct entry shared_enter(struct shared *shared, int slot, uint32_t worker)
{
    uint32_t other = 0;
    bool ok = atomic_compare_exchange_strong(&shared->resources[slot].witness, &other, worker);

    return (struct entry){.ok = ok, .other = ok ? 0 : other};
}

bool shared_leave(struct shared *shared, int slot, uint32_t worker)
{
    return atomic_compare_exchange_strong(&shared->resources[slot].witness, &worker, 0);
}

unsigned shared_clear(struct shared *shared, uint32_t worker)
{
    unsigned cleared = 0;

    for (int i = 0; i < SHARED_NAMES; i++)
        cleared += shared_leave(shared, i, worker);
    return cleared;
}

uint64_t shared_count_begin(struct shared *shared, int slot)
{
    return atomic_load(&shared->resources[slot].counter);
}

/* As a program without a lock would do it: what came in between is gone. */
bool shared_count_end(struct shared *shared, int slot, uint64_t seen)
{
    return atomic_exchange(&shared->resources[slot].counter, seen + 1) == seen;
}

/* ---- the guarded resource ------------------------------------------------- */

struct written shared_write(struct shared *shared, int slot, bool fenced, int64_t fence,
                            uint64_t session)
{
    _Atomic uint64_t *cell = &shared->resources[slot].cells[fenced];
    uint64_t order = fence > 0 ? (uint64_t)fence : fenced ? 0 : session;
    uint64_t was = atomic_load(cell), is, newest;
    struct written written;

    if (order > ORDER_MAX)
        order = ORDER_MAX;
    do {
        newest = was >> SEQUENCE_BITS;
        written.stale = order < newest;
        written.accepted = !fenced || !written.stale;
        written.sequence = (was + 1) & SEQUENCE_MASK;
        is = (written.stale ? newest : order) << SEQUENCE_BITS | written.sequence;
    } while (!atomic_compare_exchange_weak(cell, &was, is));
    return written;
}

uint64_t shared_session(struct shared *shared)
{
    return atomic_fetch_add(&shared->sessions, 1) + 1;
}
