/*
 * Lives of keys at nodes, from what an observer saw there: from the first sight of an owner's key
 * until it was gone otherwise than by its ttl. When a ttl ends is not taken from what the
 * observer saw (a key may be past its time and not yet removed) but from the node's clock, which
 * is known exactly.
 *
 * What makes this less than plain: the observer hears of a change some time after it. It then asks
 * who owns the key, so the answer may be about a later owner than the change was; and the word that
 * a key is gone has no owner in it, so that it may be about an earlier one than the key last seen:
 *  - a key seen again with the same expiry was never gone (a new grant has a later one),
 *  - a new owner's key means that the one before is gone, and the word of that may follow,
 *  - a lease released just before, at a node that had granted it, explains one removal there,
 *  - a removal after which the key last seen is still there was another's.
 */
#include "book.h"

#include <stdlib.h>
#include <string.h>

enum {
    OBSERVER_MS = 100, /* how much later than it happened a word may come */
    RELEASES_MAX = 16  /* looked at for one removal */
};

/* ---- clocks ----------------------------------------------------------------- */

__extension__ typedef __int128 wide;

/* The pieces of a node; those after the first begin where the one before ends. */
struct pieces {
    const struct piece *row;
    size_t count;
};

static size_t first_piece(const struct book *book, unsigned node)
{
    size_t low = 0, high = book->pieces.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (book->pieces.row[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct pieces pieces_of(const struct book *book, unsigned node)
{
    size_t begin = first_piece(book, node), end = first_piece(book, node + 1);

    return (struct pieces){.row = book->pieces.row + begin, .count = end - begin};
}

static wide shown_by(const struct piece *piece, int64_t t)
{
    int64_t passed = t - piece->from_ns;

    return (wide)piece->wall_ns + passed + (wide)passed * piece->rate_ppb / 1000000000;
}

/* The index of the piece in force at t; the first one also rules the time before it. */
static size_t piece_at(struct pieces pieces, int64_t t)
{
    size_t low = 0, high = pieces.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pieces.row[middle].from_ns <= t)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? low - 1 : 0;
}

/* Without a word of it a node's clock is the machine's. */
static struct pieces known_pieces(const struct book *book, unsigned node, struct piece *plain)
{
    struct pieces pieces = pieces_of(book, node);

    *plain = (struct piece){.node = node, .from_ns = book->run_ns, .wall_ns = book->wall_ns};
    return pieces.count > 0 ? pieces : (struct pieces){.row = plain, .count = 1};
}

static int64_t clamped(wide value)
{
    return value > TIME_MAX ? TIME_MAX : value < -TIME_MAX ? -TIME_MAX : (int64_t)value;
}

int64_t clock_shows(const struct book *book, unsigned node, int64_t t)
{
    struct piece plain;
    struct pieces pieces = known_pieces(book, node, &plain);

    return clamped(shown_by(&pieces.row[piece_at(pieces, t)], t));
}

/* Within one piece: the first t >= from at which it shows so much, NEVER. */
static int64_t reached_in(const struct piece *piece, int64_t from, int64_t wall_ns)
{
    wide missing = (wide)wall_ns - piece->wall_ns;
    wide speed = (wide)1000000000 + piece->rate_ppb, t;

    if (shown_by(piece, from) >= wall_ns)
        return from;
    if (speed <= 0)
        return NEVER; /* it stands */
    t = piece->from_ns + (missing * 1000000000 + speed - 1) / speed;
    return t > TIME_MAX ? NEVER : t < from ? from : (int64_t)t;
}

int64_t clock_reaches(const struct book *book, unsigned node, int64_t from, int64_t when_ms,
                      int64_t horizon)
{
    struct piece plain;
    struct pieces pieces = known_pieces(book, node, &plain);
    size_t i = piece_at(pieces, from);

    for (;; i++) {
        const struct piece *piece = &pieces.row[i];
        bool last = i + 1 == pieces.count || pieces.row[i + 1].from_ns > horizon;
        int64_t t = reached_in(piece, from, when_ms * MS);
        if (last || t < pieces.row[i + 1].from_ns)
            return t;
        from = pieces.row[i + 1].from_ns > from ? pieces.row[i + 1].from_ns : from;
    }
}

/* ---- whose a key is ----------------------------------------------------------- */

struct origin { /* of an owner's keys */
    const struct word *name, *owner;
    int64_t asked_ns;
    long call, holding;
};

/* Releases of a name in time: what explains that a key is gone. */
struct release {
    const struct word *name;
    int64_t t;
    size_t holding;
};

struct sources {
    struct origin *origins;
    size_t origin_count;
    struct release *releases;
    size_t release_count;
};

static int by_owner(const void *a, const void *b)
{
    const struct origin *x = a, *y = b;
    int order;

    if ((order = order_of(x->name->number, y->name->number)) != 0 ||
        (order = order_of(x->owner->number, y->owner->number)) != 0)
        return order;
    return order_of(x->asked_ns, y->asked_ns);
}

static int by_release(const void *a, const void *b)
{
    const struct release *x = a, *y = b;
    int order = order_of(x->name->number, y->name->number);

    return order != 0 ? order : order_of(x->t, y->t);
}

static void find_sources(const struct book *book, struct sources *sources)
{
    sources->origins = table_take(book->calls.count, sizeof *sources->origins);
    sources->releases = table_take(book->holdings.count, sizeof *sources->releases);
    for (size_t i = 0; i < book->calls.count; i++) {
        const struct call *call = &book->calls.row[i];
        if (call->op == OP_ACQUIRE && call->owner != book->empty)
            sources->origins[sources->origin_count++] = (struct origin){
                .name = call->name,
                .owner = call->owner,
                .asked_ns = call->invoked_ns,
                .call = (long)i,
                .holding = call->ok ? book_holding(book, call->worker, call->number) : -1};
    }
    for (size_t i = 0; i < book->holdings.count; i++) {
        const struct holding *holding = &book->holdings.row[i];
        if (holding->release_ns != NEVER)
            sources->releases[sources->release_count++] =
                (struct release){.name = holding->name, .t = holding->release_ns, .holding = i};
    }
    table_sort(sources->origins, sources->origin_count, sizeof *sources->origins, by_owner);
    table_sort(sources->releases, sources->release_count, sizeof *sources->releases, by_release);
}

/* The owner's last acquire that began before t. */
static const struct origin *origin_of(const struct sources *sources, const struct mark *mark)
{
    struct origin wanted = {.name = mark->name, .owner = mark->owner, .asked_ns = mark->t};
    size_t low = 0, high = sources->origin_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_owner(&sources->origins[middle], &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || sources->origins[low - 1].name != mark->name ||
        sources->origins[low - 1].owner != mark->owner)
        return NULL;
    return &sources->origins[low - 1];
}

/* A lease of another owner, released just before, whose key this removal may have been. */
static bool explained(struct book *book, const struct sources *sources, const struct mark *mark,
                      const struct life *life)
{
    struct release wanted = {.name = mark->name, .t = mark->t};
    uint64_t bit = UINT64_C(1) << (mark->node - 1);
    size_t low = 0, high = sources->release_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_release(&sources->releases[middle], &wanted) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t looked = 0; low > 0 && looked < RELEASES_MAX; looked++) {
        const struct release *release = &sources->releases[--low];
        struct holding *holding = &book->holdings.row[release->holding];
        if (release->name != mark->name || release->t < mark->t - OBSERVER_MS * MS)
            return false;
        if ((long)release->holding == life->holding || (holding->granted & bit) == 0 ||
            (holding->credited & bit) != 0)
            continue;
        holding->credited |= bit;
        return true;
    }
    return false;
}

/* ---- lives ------------------------------------------------------------------ */

/* Starts without data, by node and time. */
struct births {
    const struct change *row;
    size_t count;
};

/* Of one name at one node, so far. */
struct scene {
    const struct sources *sources;
    struct births births; /* of this node */
    size_t current;       /* index of a life */
    bool any;             /* there is a current one */
    unsigned owed;        /* removals whose word may still come */
    int64_t owed_until;
};

/* When the node lost its data after the life was last seen; NEVER. */
static const struct change *first_amnesia(struct births births, const struct life *life)
{
    size_t low = 0, high = births.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (births.row[middle].t < life->renewed_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < births.count ? &births.row[low] : NULL;
}

static int64_t amnesia(struct births births, const struct life *life)
{
    const struct change *birth = first_amnesia(births, life);

    return birth != NULL ? birth->t : NEVER;
}

static bool released_by(const struct book *book, const struct life *life, int64_t t)
{
    return life->holding >= 0 && book->holdings.row[life->holding].release_ns <= t;
}

static void credit(struct book *book, const struct life *life)
{
    if (life->holding >= 0)
        book->holdings.row[life->holding].credited |= UINT64_C(1) << (life->node - 1);
}

static void begin_life(struct book *book, struct scene *scene, const struct mark *mark)
{
    const struct origin *origin = origin_of(scene->sources, mark);

    scene->current = book->lives.count;
    scene->any = true;
    *TABLE_ADD(&book->lives) = (struct life){.node = mark->node,
                                             .name = mark->name,
                                             .owner = mark->owner,
                                             .holding = origin != NULL ? origin->holding : -1,
                                             .call = origin != NULL ? origin->call : -1,
                                             .seen_ns = mark->t,
                                             .i = mark->i,
                                             .when_ms = mark->when_ms,
                                             .renewed_ns = mark->t,
                                             .gone_ns = NEVER};
}

/* The same owner's key again: is it another life? */
static bool is_new_life(const struct book *book, const struct scene *scene, struct life *life,
                        const struct mark *mark)
{
    int64_t lost_ns = amnesia(scene->births, life), expired_ns;

    if (life->gone_ns != NEVER) {
        if (mark->when_ms > life->when_ms)
            return true;
        life->gone_ns = NEVER; /* it was never gone */
        life->removed = false;
        return false;
    }
    if (lost_ns <= mark->t && mark->when_ms > life->when_ms) {
        life->gone_ns = lost_ns;
        return true;
    }
    expired_ns = clock_reaches(book, life->node, life->seen_ns, life->when_ms, mark->t);
    return mark->when_ms > life->when_ms && expired_ns < mark->t - OBSERVER_MS * MS;
}

static void replace(struct book *book, struct scene *scene, struct life *life,
                    const struct mark *mark)
{
    int64_t lost_ns = amnesia(scene->births, life);

    if (life->gone_ns != NEVER)
        return;
    if (lost_ns <= mark->t) {
        life->gone_ns = lost_ns;
        return;
    }
    if (clock_reaches(book, life->node, life->seen_ns, life->when_ms, mark->t) <= mark->t)
        return; /* by its ttl */
    life->gone_ns = mark->t;
    life->removed = true;
    credit(book, life);
    scene->owed++;
    scene->owed_until = mark->t + OBSERVER_MS * MS;
}

static void see_key(struct book *book, struct scene *scene, const struct mark *mark)
{
    struct life *life = scene->any ? &book->lives.row[scene->current] : NULL;

    if (life != NULL && life->owner == mark->owner) {
        if (is_new_life(book, scene, life, mark)) {
            begin_life(book, scene, mark);
        } else if (mark->when_ms > life->when_ms) {
            life->when_ms = mark->when_ms;
            life->renewed_ns = mark->t;
        }
        return;
    }
    if (life != NULL)
        replace(book, scene, life, mark);
    begin_life(book, scene, mark);
}

static void see_gone(struct book *book, struct scene *scene, const struct mark *mark)
{
    struct life *life = scene->any ? &book->lives.row[scene->current] : NULL;
    bool own;

    if (life == NULL || life->gone_ns != NEVER || mark->kind == MARK_EXPIRED)
        return; /* that one is known from the clock */
    if (mark->owner != book->empty && mark->owner == life->owner)
        return; /* it is still there: that was another's, before it */
    if (mark->kind == MARK_DEL) {
        own = released_by(book, life, mark->t);
        if (!own && scene->owed > 0 && mark->t <= scene->owed_until) {
            scene->owed--;
            return;
        }
        scene->owed = 0;
        if (!own && explained(book, scene->sources, mark, life))
            return;
        if (own)
            credit(book, life);
        life->removed = true;
    }
    life->gone_ns = mark->t;
}

static int by_place(const void *a, const void *b)
{
    const struct mark *x = a, *y = b;
    int order;

    if ((order = order_of(x->node, y->node)) != 0 ||
        (order = order_of(x->name->number, y->name->number)) != 0 ||
        (order = order_of(x->t, y->t)) != 0)
        return order;
    return order_of(x->i, y->i);
}

static struct births find_births(const struct book *book, struct change *room)
{
    size_t count = 0;

    for (size_t i = 0; i < book->changes.count; i++)
        if (book->changes.row[i].state == STATE_UP && !book->changes.row[i].kept) {
            const struct change *before = i > 0 ? &book->changes.row[i - 1] : NULL;

            room[count] = book->changes.row[i];
            room[count++].restart = before != NULL && before->node == book->changes.row[i].node &&
                                    before->state == STATE_DOWN;
        }
    return (struct births){.row = room, .count = count};
}

static size_t first_birth(struct births all, unsigned node)
{
    size_t low = 0, high = all.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all.row[middle].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct births births_of(struct births all, unsigned node)
{
    size_t begin = first_birth(all, node), end = first_birth(all, node + 1);

    return (struct births){.row = all.row + begin, .count = end - begin};
}

/* Lives that no later word has ended, end with the next loss of data. */
static void end_with_data(struct book *book, struct births all)
{
    for (size_t i = 0; i < book->lives.count; i++) {
        struct life *life = &book->lives.row[i];
        const struct change *birth = first_amnesia(births_of(all, life->node), life);

        if (birth != NULL && birth->t < life->gone_ns) {
            life->gone_ns = birth->t;
            life->removed = false;
            life->forgotten = birth->restart;
        }
    }
}

static void see_marks(struct book *book, const struct sources *sources, struct births all)
{
    const struct mark *last = NULL;
    struct scene scene = {.sources = sources};

    for (size_t i = 0; i < book->marks.count; i++) {
        const struct mark *mark = &book->marks.row[i];
        if (last == NULL || last->node != mark->node || last->name != mark->name)
            scene = (struct scene){.sources = sources, .births = births_of(all, mark->node)};
        if (mark->kind == MARK_KEY)
            see_key(book, &scene, mark);
        else
            see_gone(book, &scene, mark);
        last = mark;
    }
}

void book_lives(struct book *book)
{
    struct sources sources = {0};
    struct change *room = table_take(book->changes.count, sizeof *room);
    struct births births = find_births(book, room);

    find_sources(book, &sources);
    TABLE_SORT(&book->marks, by_place);
    see_marks(book, &sources, births);
    end_with_data(book, births);
    free(room);
    free(sources.origins);
    free(sources.releases);
}
