/*
 * Histories made by hand: each test writes the records that matter to it, and hears what the
 * analysis says. Times are in ms from the start of the run unless a name says ns; records are
 * JSON with ' for ".
 */
#ifndef SYNTHETIC_H
#define SYNTHETIC_H

#include <check.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis.h"

#define START INT64_C(5000000000000)   /* of the run, monotonic ns */
#define WALL_MS INT64_C(1795988578000) /* at the start */
#define MS_NS INT64_C(1000000)
#define AT(ms) (START + (int64_t)((ms)*1e6)) /* ms may be a fraction */
#define ALL_NODES 0x1fu

static struct {
    FILE *stream;
    char path[64];
    int64_t next;
} script;

/* One record; "i" is added. */
__attribute__((format(printf, 1, 2))) static inline void put(const char *format, ...)
{
    char text[2000];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\'')
            *c = '"';
    ck_assert_int_gt(fprintf(script.stream, "{\"i\":%" PRId64 ",%s}\n", script.next++, text), 0);
}

static inline void open_script(void)
{
    int fd;

    (void)snprintf(script.path, sizeof script.path, "/tmp/synthetic-XXXXXX");
    fd = mkstemp(script.path);
    ck_assert_int_ge(fd, 0);
    script.stream = fdopen(fd, "w");
    ck_assert_ptr_nonnull(script.stream);
    script.next = 0;
}

static inline void put_run(const char *mode, int nodes, int quorum)
{
    put("'type':'run','t':%" PRId64 ",'wall_ns':%" PRId64 ",'mode':'%s','nodes':%d,'quorum':%d,"
        "'ttl_ms':2000,'max_ttl_ms':2000,'drift_ppm':10000,'guard_ms':3022,"
        "'node_timeout_ms':100",
        START, WALL_MS * MS_NS, mode, nodes, quorum);
}

static inline void put_worker(const char *name, int number, const char *role)
{
    put("'type':'worker','t':%" PRId64 ",'worker':'%s','number':%d,'role':'%s'", AT(0), name,
        number, role);
}

/* A run of five nodes with workers w1 to w3 and the probers p4 and p5. */
static inline void begin(void)
{
    open_script();
    put_run("redlock", 5, 3);
    put_worker("w1", 1, "contender");
    put_worker("w2", 2, "contender");
    put_worker("w3", 3, "contender");
    put_worker("p4", 4, "prober");
    put_worker("p5", 5, "prober");
}

static inline struct analysis *try_script(char *text, size_t size)
{
    struct analysis *analysis;

    ck_assert_int_eq(fclose(script.stream), 0);
    analysis = analysis_of(script.path, text, size);
    ck_assert_int_eq(unlink(script.path), 0);
    return analysis;
}

/* What the analysis says; the run ends at this time. */
static inline struct analysis *end_at(double ms)
{
    char text[300] = "";
    struct analysis *analysis;

    put("'type':'end','t':%" PRId64 ",'interrupted':false", AT(ms));
    analysis = try_script(text, sizeof text);
    ck_assert_msg(analysis != NULL, "%s", text);
    return analysis;
}

/* ---- calls ------------------------------------------------------------------ */

static inline void invoke(const char *worker, int try, const char *op, const char *name, double ms)
{
    put("'type':'invoke','t':%" PRId64 ",'worker':'%s','try':%d,'op':'%s','name':'%s',"
        "'ttl_ms':2000,'wait_ms':1000",
        AT(ms), worker, try, op, name);
}

static inline void returned(const char *worker, int try, const char *op, const char *name,
                            double ms, const char *rc)
{
    put("'type':'return','t':%" PRId64 ",'worker':'%s','try':%d,'op':'%s','name':'%s','rc':'%s'",
        AT(ms), worker, try, op, name, rc);
}

static inline void granted_ns(const char *worker, int try, const char *name, int64_t held_ns,
                              int64_t deadline_ns, int fence, const char *owner)
{
    put("'type':'return','t':%" PRId64 ",'worker':'%s','try':%d,'op':'acquire','name':'%s',"
        "'rc':'ok','owner':'%s','fence':%d,'validity_ms':1970,'deadline_ns':%" PRId64
        ",'attempts':1",
        held_ns, worker, try, name, owner, fence, deadline_ns);
}

/* A lease of name "a", claimed for 1978 ms from when it was asked for. */
static inline void lease(const char *worker, int try, double asked, double held, int fence)
{
    char owner[40];

    (void)snprintf(owner, sizeof owner, "%s-%d", worker, try);
    invoke(worker, try, "acquire", "a", asked);
    granted_ns(worker, try, "a", AT(held), AT(asked + 1978), fence, owner);
}

static inline void release(const char *worker, int try, double ms)
{
    invoke(worker, try, "release", "a", ms);
    returned(worker, try, "release", "a", ms + 1, "ok");
}

static inline void extend(const char *worker, int try, double ms, const char *rc, double deadline)
{
    invoke(worker, try, "extend", "a", ms);
    put("'type':'return','t':%" PRId64 ",'worker':'%s','try':%d,'op':'extend','name':'a',"
        "'rc':'%s','deadline_ns':%" PRId64,
        AT(ms + 1), worker, try, rc, AT(deadline));
}

static inline void probe(const char *worker, int try, double ms, double took, const char *rc)
{
    char name[40];

    (void)snprintf(name, sizeof name, "probe-%s", worker);
    invoke(worker, try, "acquire", name, ms);
    if (strcmp(rc, "ok") == 0)
        granted_ns(worker, try, name, AT(ms + took), AT(ms + 1978), 0, "");
    else
        returned(worker, try, "acquire", name, ms + took, rc);
}

static inline void event(const char *worker, int try, const char *what, double ms, double deadline)
{
    put("'type':'event','t':%" PRId64 ",'worker':'%s','try':%d,'event':'%s','deadline_ns':%" PRId64,
        AT(ms), worker, try, what, AT(deadline));
}

/* ---- nodes ------------------------------------------------------------------ */

/* An owner's key of "a", seen at each node of the mask; expires at when_ms by the right time. */
static inline void keys(unsigned mask, const char *owner, double ms, double when_ms)
{
    for (int node = 1; node <= 8; node++)
        if ((mask >> (node - 1) & 1) != 0)
            put("'type':'key','t':%" PRId64 ",'node':%d,'name':'a','owner':'%s','when_ms':%" PRId64,
                AT(ms), node, owner, WALL_MS + (int64_t)when_ms);
}

static inline void keysgone(unsigned mask, const char *how, double ms)
{
    for (int node = 1; node <= 8; node++)
        if ((mask >> (node - 1) & 1) != 0)
            put("'type':'keygone','t':%" PRId64 ",'node':%d,'name':'a','how':'%s'", AT(ms), node,
                how);
}

/* From this time on a node's clock is so much ahead. */
static inline void clock_at(int node, double ms, double ahead_ms, int64_t rate_ppb)
{
    put("'type':'clock','t':%" PRId64 ",'node':%d,'mono_ns':%" PRId64 ",'wall_ns':%" PRId64
        ",'rate_ppb':%" PRId64,
        AT(ms), node, AT(ms), WALL_MS * MS_NS + AT(ms + ahead_ms) - START, rate_ppb);
}

static inline void node(int number, const char *state, double ms, bool kept)
{
    put("'type':'node','t':%" PRId64 ",'node':%d,'state':'%s','run_id':'x','kept':%s", AT(ms),
        number, state, kept ? "true" : "false");
}

/* A run in which w1 holds "a" at these nodes, to the end of its claim: asked for at 0 with a ttl of
 * 2000 ms, its keys set at 1 ms, so that they expire at 2001, and claimed until 1978. */
static inline void begin_held(unsigned mask)
{
    begin();
    lease("w1", 1, 0, 5, 1);
    keys(mask, "w1-1", 6, 2001);
}

static inline void phase(const char *name, double ms)
{
    put("'type':'phase','t':%" PRId64 ",'name':'%s'", AT(ms), name);
}

static inline void expect(const char *metric, const char *op, double value, const char *kind)
{
    put("'type':'expect','t':%" PRId64 ",'metric':'%s','phase':'','op':'%s','value':%f,"
        "'kind':'%s','text':'as it must'",
        AT(0), metric, op, value, kind);
}

/* ---- what came out ------------------------------------------------------------ */

static inline size_t found(const struct analysis *analysis, int checker)
{
    return analysis->checkers[checker - 1].found;
}

static inline void assert_metric_in(const struct analysis *analysis, const char *name,
                                    const char *where, double value)
{
    const double *actual = analysis_metric(analysis, name, where);

    ck_assert_msg(actual != NULL, "%s is absent", name);
    ck_assert_msg(*actual > value - 1e-6 && *actual < value + 1e-6, "%s is %.9g, not %.9g", name,
                  *actual, value);
}

static inline void assert_metric(const struct analysis *analysis, const char *name, double value)
{
    assert_metric_in(analysis, name, "", value);
}

static inline void assert_absent(const struct analysis *analysis, const char *name)
{
    ck_assert_msg(analysis_metric(analysis, name, "") == NULL, "%s is there", name);
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}

#endif
