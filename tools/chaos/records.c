/* One function for each type of record: checks its fields, makes a row. See history.h. */
#include "book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

static const struct range times = {0, TIME_MAX};
static const struct range counts = {0, INT64_C(1) << 53};
static const struct range durations = {-1, DURATION_MAX_MS};
static const struct range nodes_range = {1, NODES_MAX};
static const struct range whens_ms = {0, TIME_MAX / MS};
static const struct range rates = {-1000000000, INT64_C(1000000000000)};

/* What every record has. */
struct stamp {
    int64_t i, t;
};

typedef void take(struct book *book, struct line *line, struct stamp stamp);

/* ---- helpers ---------------------------------------------------------------- */

static const struct word *word_in(struct book *book, struct line *line, const char *field)
{
    return book_word(book, field_text(line, field));
}

static unsigned worker_in(struct book *book, struct line *line, struct stamp stamp)
{
    return book_worker(book, word_in(book, line, "worker"), stamp.i);
}

static unsigned node_in(struct book *book, struct line *line)
{
    unsigned node = (unsigned)field_int(line, "node", nodes_range);

    if (node > book->analysis.node_count)
        book->analysis.node_count = node;
    return node;
}

static unsigned code_in(struct book *book, struct line *line, const char *field,
                        struct codes *codes, const char *text)
{
    int code = book_code(codes, book_word(book, text));

    if (code < 0)
        line_wrong(line, field, "has more than %d different values", CODES_MAX);
    return code < 0 ? 0 : (unsigned)code;
}

static uint64_t mask_in(struct line *line, const char *field)
{
    const json_t *array = field_array_or_none(line, field);
    uint64_t mask = 0;
    size_t count = json_array_size(array);

    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(array, i);
        json_int_t node = json_integer_value(element);
        if (!json_is_integer(element) || node < 1 || node > NODES_MAX)
            line_wrong(line, field, "has an element that is not a node's number");
        else
            mask |= UINT64_C(1) << (node - 1);
    }
    return mask;
}

/* ---- the run ---------------------------------------------------------------- */

static void take_run(struct book *book, struct line *line, struct stamp stamp)
{
    static const struct range ppm = {0, 1000000};
    bool single = strncmp(field_text_or(line, "mode", ""), "single", 6) == 0;
    unsigned nodes = (unsigned)field_int(line, "nodes", nodes_range);
    unsigned quorum = (unsigned)field_int_or(line, "quorum", (struct range){0, (int64_t)nodes}, 0);

    if (book->analysis.run != NULL) {
        line_wrong(line, "type", "is there for the second time");
        return;
    }
    book->nodes = single ? 1 : nodes;
    book->quorum = single ? 1 : quorum > 0 ? quorum : nodes / 2 + 1;
    if (nodes > book->analysis.node_count)
        book->analysis.node_count = nodes;
    book->run_ns = stamp.t;
    book->wall_ns = field_int(line, "wall_ns", times);
    book->ttl_ms = field_int(line, "ttl_ms", durations);
    book->max_ttl_ms = field_int_or(line, "max_ttl_ms", durations, 0);
    if (book->max_ttl_ms < book->ttl_ms)
        book->max_ttl_ms = book->ttl_ms;
    book->guard_ms = field_int_or(line, "guard_ms", durations, 0);
    book->drift_ppm = field_int_or(line, "drift_ppm", ppm, 0);
    book->node_timeout_ms = field_int(line, "node_timeout_ms", durations);
    book->analysis.run = json_deep_copy(line->record);
}

static void take_phase(struct book *book, struct line *line, struct stamp stamp)
{
    struct phase_row row = {.t = stamp.t, .i = stamp.i, .name = word_in(book, line, "name")};

    row.group = 1;
    if (strcmp(row.name->text, "end") != 0) {
        while (row.group < book->group_count && book->groups[row.group] != row.name->text)
            row.group++;
        if (row.group > PHASES_MAX) {
            line_wrong(line, "name", "is one more than the %d there may be", PHASES_MAX);
            return;
        }
        if (row.group == book->group_count)
            book->groups[book->group_count++] = row.name->text;
    }
    *TABLE_ADD(&book->turns) = row;
}

static void take_end(struct book *book, struct line *line, struct stamp stamp)
{
    (void)stamp;
    book->ended = true;
    if (field_bool_or(line, "interrupted", false))
        book->analysis.interrupted = true;
}

static void take_error(struct book *book, struct line *line, struct stamp stamp)
{
    const struct word *text = word_in(book, line, "text");

    (void)stamp;
    if (!book->broken)
        book->first_error = text;
    book->broken = true;
}

/* ---- workers ---------------------------------------------------------------- */

static void take_worker(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const roles[] = {"contender", "prober", "actor", NULL};
    unsigned worker = worker_in(book, line, stamp);
    struct person *person = &book->people.row[worker];

    (void)field_choice(line, "role", roles);
    if (person->declared) {
        line_wrong(line, "worker", "is there for the second time");
        return;
    }
    person->declared = true;
    person->role = word_in(book, line, "role");
    /* Records are in the order of numbers. */
    person->number = field_int_or(line, "number", counts, (int64_t)worker + 1);
}

/* One that could not begin is gone before it has told of itself; an error says why. */
static void take_gone(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const hows[] = {"left", "killed", "failed", NULL};
    bool left = field_choice(line, "how", hows) == 0;
    long worker = word_in(book, line, "worker")->worker;

    if (worker < 0)
        return;
    book->people.row[worker].left = left;
    book->people.row[worker].gone_ns = stamp.t;
}

/* What an invoke and a return have in common. */
static struct call call_in(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const ops[] = {"acquire", "extend", "release", NULL};
    struct call call = {
        .worker = worker_in(book, line, stamp),
        .op = (enum op)field_choice(line, "op", ops),
        .number = field_int(line, "try", counts),
        .name = word_in(book, line, "name"),
        .invoked_ns = stamp.t,
        .returned_ns = NEVER,
        .invoked_i = stamp.i,
        .returned_i = -1,
        .ttl_ms = -1,
        .wait_ms = -1,
        .owner = book->empty,
    };
    return call;
}

static void take_invoke(struct book *book, struct line *line, struct stamp stamp)
{
    struct call call = call_in(book, line, stamp);

    call.ttl_ms = field_int_or(line, "ttl_ms", durations, -1);
    call.wait_ms = field_int_or(line, "wait_ms", durations, -1);
    call.fenced = field_bool_or(line, "fence", false);
    call.renewed = field_bool_or(line, "renew", false);
    *TABLE_ADD(&book->calls) = call;
}

static void take_answers(struct book *book, struct line *line, struct call *call)
{
    const json_t *array = field_array_or_none(line, "node");

    call->answers = book->answers.count;
    call->answer_count = json_array_size(array);
    for (size_t i = 0; i < call->answer_count; i++) {
        struct line inside = line_inside(line, json_array_get(array, i), "node");
        struct answer answer = {.node = node_in(book, &inside)};

        answer.vote =
            code_in(book, &inside, "vote", &book->votes, field_text_or(&inside, "vote", ""));
        answer.text = book_word(book, field_text_or(&inside, "text", ""));
        *TABLE_ADD(&book->answers) = answer;
        line->wrong |= inside.wrong;
    }
}

static void take_return(struct book *book, struct line *line, struct stamp stamp)
{
    struct call call = call_in(book, line, stamp);
    const char *rc = field_text(line, "rc");

    call.is_return = true;
    call.returned_ns = stamp.t;
    call.returned_i = stamp.i;
    call.ok = strcmp(rc, "ok") == 0;
    call.code = code_in(book, line, "rc", &book->results, rc);
    call.owner = book_owner(book, field_text_or(line, "owner", ""));
    call.fence = field_int_or(line, "fence", counts, 0);
    call.validity_ms = field_int_or(line, "validity_ms", durations, 0);
    call.attempts = field_int_or(line, "attempts", counts, 0);
    if (call.ok && call.op != OP_RELEASE) /* a lease without an end can't be judged */
        call.deadline_ns = field_int(line, "deadline_ns", times);
    take_answers(book, line, &call);
    *TABLE_ADD(&book->calls) = call;
}

static void take_event(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const events[] = {"renewed", "failing", "lost", NULL};
    static const enum notice_kind kinds[] = {NOTICE_RENEWED, NOTICE_FAILING, NOTICE_LOST};
    struct notice notice = {.t = stamp.t, .i = stamp.i};

    notice.worker = worker_in(book, line, stamp);
    notice.number = field_int(line, "try", counts);
    notice.kind = kinds[field_choice(line, "event", events)];
    if (notice.kind == NOTICE_RENEWED)
        notice.deadline_ns = field_int(line, "deadline_ns", times);
    *TABLE_ADD(&book->notices) = notice;
}

static void take_check(struct book *book, struct line *line, struct stamp stamp)
{
    struct notice notice = {.t = stamp.t, .i = stamp.i};

    notice.worker = worker_in(book, line, stamp);
    notice.number = field_int(line, "try", counts);
    notice.kind = field_bool(line, "held") ? NOTICE_HELD : NOTICE_NOT_HELD;
    *TABLE_ADD(&book->notices) = notice;
}

static struct step step_in(struct book *book, struct line *line, struct stamp stamp)
{
    struct step step = {.t = stamp.t, .i = stamp.i};

    step.worker = worker_in(book, line, stamp);
    step.number = field_int(line, "try", counts);
    step.name = word_in(book, line, "name");
    step.ok = field_bool(line, "ok");
    return step;
}

static void take_enter(struct book *book, struct line *line, struct stamp stamp)
{
    struct step step = step_in(book, line, stamp);

    step.other = field_int_or(line, "other", counts, 0);
    *TABLE_ADD(&book->steps) = step;
}

static void take_leave(struct book *book, struct line *line, struct stamp stamp)
{
    struct step step = step_in(book, line, stamp);

    step.leave = true;
    step.lost_update = field_bool_or(line, "lost_update", false);
    *TABLE_ADD(&book->steps) = step;
}

static void take_write(struct book *book, struct line *line, struct stamp stamp)
{
    struct written_row row = {.t = stamp.t, .i = stamp.i};

    row.worker = worker_in(book, line, stamp);
    row.name = word_in(book, line, "name");
    row.fenced = field_bool(line, "fenced");
    row.fence = field_int_or(line, "fence", counts, 0);
    row.sequence = field_int(line, "sequence", counts);
    row.accepted = field_bool(line, "accepted");
    row.stale = field_bool(line, "stale");
    *TABLE_ADD(&book->writes) = row;
}

static void take_hygiene(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const whens[] = {"begin", "end", NULL};
    struct weight weight = {.t = stamp.t, .i = stamp.i};

    weight.process = word_in(book, line, "worker");
    weight.end = field_choice(line, "when", whens) == 1;
    weight.fds = field_int(line, "fds", counts);
    weight.threads = field_int(line, "threads", counts);
    weight.rss_kb = field_int(line, "rss_kb", counts);
    *TABLE_ADD(&book->weights) = weight;
}

/* ---- nodes ------------------------------------------------------------------ */

static void take_key(struct book *book, struct line *line, struct stamp stamp)
{
    struct mark mark = {.t = stamp.t, .i = stamp.i, .kind = MARK_KEY};

    mark.node = node_in(book, line);
    mark.name = word_in(book, line, "name");
    mark.owner = book_owner(book, field_text(line, "owner"));
    mark.when_ms = field_int(line, "when_ms", whens_ms);
    *TABLE_ADD(&book->marks) = mark;
}

static void take_keygone(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const hows[] = {"del", "expired", "evicted", "flushed", NULL};
    static const enum mark_kind kinds[] = {MARK_DEL, MARK_EXPIRED, MARK_TAKEN, MARK_TAKEN};
    struct mark mark = {.t = stamp.t, .i = stamp.i};

    mark.node = node_in(book, line);
    mark.name = word_in(book, line, "name");
    mark.owner = book_owner(book, field_text_or(line, "owner", ""));
    mark.kind = kinds[field_choice(line, "how", hows)];
    *TABLE_ADD(&book->marks) = mark;
}

static void take_node(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const states[] = {"up", "down", "frozen", "thawed", "cut", NULL};
    struct change change = {.t = stamp.t, .i = stamp.i};

    change.node = node_in(book, line);
    change.state = (enum state)field_choice(line, "state", states);
    change.kept = field_bool_or(line, "kept", true);
    *TABLE_ADD(&book->changes) = change;
}

static void take_clock(struct book *book, struct line *line, struct stamp stamp)
{
    struct piece piece = {.i = stamp.i};

    piece.node = node_in(book, line);
    piece.from_ns = field_int(line, "mono_ns", times);
    piece.wall_ns = field_int(line, "wall_ns", times);
    piece.rate_ppb = field_int(line, "rate_ppb", rates);
    *TABLE_ADD(&book->pieces) = piece;
}

/* ---- what the harness did and wants ------------------------------------------- */

/* In words: "worker w1, ms 300". */
static const struct word *params_text(struct book *book, const json_t *params)
{
    char text[400] = "";
    size_t used = 0;
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)params, key, value)
    {
        char *dump = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
        int more = snprintf(text + used, sizeof text - used, "%s%s %s", used > 0 ? ", " : "", key,
                            dump != NULL            ? dump
                            : json_is_string(value) ? json_string_value(value)
                                                    : "?");
        free(dump);
        used += more > 0 ? (size_t)more : 0;
        if (used >= sizeof text)
            break;
    }
    return book_word(book, text);
}

static void take_fault(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const states[] = {"start", "stop", NULL};
    const json_t *params = field_object_or_none(line, "params");
    const char *text = field_text_or(line, "text", "");
    struct fault_half half = {.t = stamp.t, .i = stamp.i};

    half.number = field_int(line, "fault", counts);
    half.action = word_in(book, line, "action");
    half.stop = field_choice(line, "state", states) == 1;
    half.nodes = mask_in(line, "nodes");
    half.verified = field_bool_or(line, "verified", true);
    half.text = text[0] != '\0' ? book_word(book, text) : params_text(book, params);
    if (strcmp(half.action->text, "freeze-worker") == 0 &&
        json_is_string(json_object_get(params, "worker")))
        half.frozen = book_word(book, json_string_value(json_object_get(params, "worker")));
    *TABLE_ADD(&book->halves) = half;
}

static void take_measure(struct book *book, struct line *line, struct stamp stamp)
{
    struct value_row row = {.t = stamp.t, .i = stamp.i};

    row.name = word_in(book, line, "name");
    row.phase = book_word(book, field_text_or(line, "phase", ""));
    row.value = field_real(line, "value");
    *TABLE_ADD(&book->values) = row;
}

static void take_expect(struct book *book, struct line *line, struct stamp stamp)
{
    static const char *const ops[] = {"eq", "ne", "ge", "le", "gt", "lt", NULL};
    static const char *const kinds[] = {"safety", "liveness", "effect", NULL};
    struct expectation *expectation = TABLE_ADD(&book->expectations);

    (void)stamp;
    (void)field_choice(line, "op", ops);
    (void)field_choice(line, "kind", kinds);
    expectation->metric = (char *)(uintptr_t)word_in(book, line, "metric")->text;
    expectation->phase = (char *)(uintptr_t)book_word(book, field_text_or(line, "phase", ""))->text;
    expectation->op = (char *)(uintptr_t)word_in(book, line, "op")->text;
    expectation->kind = (char *)(uintptr_t)word_in(book, line, "kind")->text;
    expectation->text = (char *)(uintptr_t)book_word(book, field_text_or(line, "text", ""))->text;
    expectation->value = field_real(line, "value");
}

static void take_reason(struct book *book, struct line *line, struct stamp stamp)
{
    struct reason_row row = {.t = stamp.t, .i = stamp.i};

    row.node = node_in(book, line);
    row.phase = book_word(book, field_text_or(line, "phase", ""));
    row.text = word_in(book, line, "word");
    *TABLE_ADD(&book->reasons) = row;
}

static void take_nothing(struct book *book, struct line *line, struct stamp stamp)
{
    (void)book;
    (void)line;
    (void)stamp;
}

/* ---- all types --------------------------------------------------------------- */

static const struct {
    const char *type;
    take *take;
} types[] = {
    {"key", take_key},       {"keygone", take_keygone}, {"invoke", take_invoke},
    {"return", take_return}, {"event", take_event},     {"check", take_check},
    {"enter", take_enter},   {"leave", take_leave},     {"write", take_write},
    {"clock", take_clock},   {"node", take_node},       {"fault", take_fault},
    {"run", take_run},       {"phase", take_phase},     {"worker", take_worker},
    {"gone", take_gone},     {"hygiene", take_hygiene}, {"measure", take_measure},
    {"expect", take_expect}, {"reason", take_reason},   {"error", take_error},
    {"end", take_end},       {"link", take_nothing},    {"count", take_nothing},
};

void book_record(struct book *book, struct line *line)
{
    struct stamp stamp;
    const char *type = field_text(line, "type");

    line->type = type;
    stamp.i = field_int(line, "i", counts);
    stamp.t = field_int(line, "t", times);
    if (line->wrong)
        return;
    book->analysis.records++;
    if (book->analysis.begin_ns == 0 || stamp.t < book->analysis.begin_ns)
        book->analysis.begin_ns = stamp.t;
    if (stamp.t > book->analysis.end_ns)
        book->analysis.end_ns = stamp.t;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(type, types[i].type) == 0) {
            types[i].take(book, line, stamp);
            return;
        }
    line_wrong(line, "type", "is not known");
}
