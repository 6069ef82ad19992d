/*
 * Reports of analyses made by hand, with every verdict, a comparison, and names that would like to
 * be markup. With CHAOS_REPORT_SAMPLE=path it tests nothing and writes such a report there, to be
 * looked at.
 */
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lease_plot.h"
#include "report_file.h"
#include "report_sample.h"
#include "words.h"

#define HOSTILE "</title><script>alert(\"1\")</script>&'\x1b[2J\xff"

/* ---- reports ---------------------------------------------------------------- */

enum {
    CHAPTERS = 15
};

struct book {
    struct sample *samples[CHAPTERS];
    struct chapter chapters[CHAPTERS];
    struct report report;
};

static void book_add(struct book *book, struct sample *sample, const char *mode, const char *row)
{
    size_t which = book->report.count++;

    book->samples[which] = sample;
    book->chapters[which] = (struct chapter){
        .scenario = json_string_value(json_object_get(sample->analysis.run, "scenario")),
        .mode = mode,
        .row = row,
        .history = "clock-step-bare redlock/history.jsonl",
        .again = "redlock-chaos run clock-step-bare --seed 42 --runtime processes",
        .analysis = &sample->analysis};
}

static struct book *book_new(void)
{
    struct book *book = calloc(1, sizeof *book);

    book->report = (struct report){.title = "redlock-chaos: all scenarios",
                                   .command = "redlock-chaos all --seed 42",
                                   .chapters = book->chapters};
    return book;
}

static void book_free(struct book *book)
{
    for (size_t i = 0; i < book->report.count; i++)
        sample_free(book->samples[i]);
    free(book);
}

static struct book *book_of_all(void)
{
    struct book *book = book_new();

    book_add(book, sample_unsafe(), "redlock", NULL);
    book_add(book, sample_calm("calm"), "redlock", NULL);
    book_add(book, sample_inconclusive(), "redlock", NULL);
    return book;
}

static struct sample *sample_compared(size_t row, size_t mode)
{
    struct sample *sample = sample_new("compare", "The same for each mode", 15, 60);
    bool failed = row == 2 && (mode == 2 || mode == 3);
    double available = row == 0 ? 1 : mode == 0 ? 0.9993 : row == 1 && mode == 1 ? 0.4667 : 0.9518;

    sample_phases(sample);
    if (row > 0)
        sample_fault(sample, row == 1 ? "kill" : "failover", "", 1, 3, 11, true);
    sample_crowd(sample, 15, row > 0 ? 3 : 15, row > 0 ? 4.2 : 15);
    if (failed)
        sample_violation(sample, 1, sample_at(3.4), 3, 9, "two claimed \"orders\" for 1.72 s");
    sample_metrics(sample, available, 12.5 + 4 * (double)mode);
    sample->analysis.verdict = row == 1 && mode == 1 ? VERDICT_UNAVAILABLE : VERDICT_EXPECTED;
    if (sample->analysis.verdict != VERDICT_EXPECTED)
        sample->analysis.reason = (char *)"probe.availability in fault is 0 %";
    return sample;
}

static struct book *book_of_modes(void)
{
    static const char *const rows[] = {"none", "1 down", "failover"};
    static const char *const modes[] = {"redlock", "single", "single-replica",
                                        "single-replica-wait"};
    struct book *book = book_new();

    book->report.comparison = true;
    book->report.title = "redlock-chaos: modes compared";
    for (size_t row = 0; row < 3; row++)
        for (size_t mode = 0; mode < 4; mode++)
            if (row != 2 || mode != 1) /* nothing to fail over to */
                book_add(book, sample_compared(row, mode), modes[mode], rows[row]);
    return book;
}

/* ---- files -------------------------------------------------------------------- */

static char directory[] = "/tmp/redlock-report.XXXXXX", path[64];

static void setup(void)
{
    (void)strcpy(strrchr(directory, '.'), ".XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/report", directory);
}

static void teardown(void)
{
    (void)unlink(path);
    (void)rmdir(directory);
}

static size_t files(void)
{
    size_t count = 0;
    DIR *listing = opendir(directory);

    ck_assert_ptr_nonnull(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(listing);
    return count;
}

static char *contents(void)
{
    char *text;
    size_t size;
    FILE *file = fopen(path, "r");

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size = (size_t)ftell(file);
    rewind(file);
    text = calloc(size + 1, 1);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    (void)fclose(file);
    return text;
}

static char *html_of(const struct report *report)
{
    ck_assert_int_eq(report_html(report, path), 0);
    return contents();
}

static size_t occurrences(const char *text, const char *what)
{
    size_t count = 0;

    while ((text = strstr(text, what)) != NULL) {
        text += strlen(what);
        count++;
    }
    return count;
}

/* ---- a checker of markup ---------------------------------------------------------- */

/* An assertion of Check notes that it was passed, too slow for every character. */
#define must(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

struct nesting {
    char names[64][24];
    size_t depth;
};

static const char *check_tag(struct nesting *nesting, const char *at)
{
    bool closes = at[1] == '/';
    const char *name = at + 1 + closes, *end = name + strspn(name, "abcdefghijklmnopqrstuvwxyz123");
    const char *close = end;

    for (bool quoted = false; quoted || *close != '>'; close++) {
        must(*close != '\0' && *close != '<', "a tag is cut: %.60s", at);
        quoted ^= *close == '"';
    }
    must(end > name && end - name < 24, "no tag: %.60s", at);
    if (closes) {
        must(nesting->depth > 0, "nothing is open: %.60s", at);
        nesting->depth--;
        must(strncmp(nesting->names[nesting->depth], name, (size_t)(end - name)) == 0,
             "<%s> ends as %.60s", nesting->names[nesting->depth], at);
    } else if (close[-1] != '/') {
        must(nesting->depth < 64, "too deep: %.60s", at);
        (void)snprintf(nesting->names[nesting->depth++], 24, "%.*s", (int)(end - name), name);
    }
    return close + 1;
}

/* All tags are closed in order, and nothing else looks like one. */
static void check_markup(const char *text)
{
    struct nesting nesting = {.depth = 0};

    ck_assert_ptr_eq(strstr(text, "<!DOCTYPE html>\n"), text);
    for (text += strlen("<!DOCTYPE html>"); *text != '\0';) {
        unsigned char byte = (unsigned char)*text;
        must(byte >= 0x20 || byte == '\n', "a control character: %.60s", text);
        if (*text == '&')
            must(strcspn(text, ";") < 7, "a bare &: %.60s", text);
        text = *text == '<' ? check_tag(&nesting, text) : text + 1;
    }
    ck_assert_uint_eq(nesting.depth, 0);
}

/* Each id is there once, and each link within the page leads to one. */
static void check_links(const char *text)
{
    char id[64];
    const char *at = text;

    while ((at = strstr(at, "href=\"#")) != NULL) {
        at += strlen("href=\"#");
        (void)snprintf(id, sizeof id, " id=\"%.*s\"", (int)strcspn(at, "\""), at);
        must(occurrences(text, id) == 1, "%zu times%s", occurrences(text, id), id);
    }
}

/* ---- tests ---------------------------------------------------------------------- */

START_TEST(status_is_the_worst)
{
    static const enum verdict verdicts[][2] = {{VERDICT_EXPECTED, VERDICT_EXPECTED},
                                               {VERDICT_INCONCLUSIVE, VERDICT_EXPECTED},
                                               {VERDICT_UNAVAILABLE, VERDICT_INCONCLUSIVE},
                                               {VERDICT_UNAVAILABLE, VERDICT_UNSAFE}};
    static const int status[] = {0, 2, 3, 1};

    for (size_t i = 0; i < 4; i++) {
        struct analysis one = {.verdict = verdicts[i][0]}, other = {.verdict = verdicts[i][1]};
        struct chapter chapters[] = {{.analysis = &one}, {.analysis = &other}};
        struct report report = {.chapters = chapters, .count = 2};
        ck_assert_int_eq(report_status(&report), status[i]);
    }
}
END_TEST

static char *printed(const struct report *report, bool colour)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);

    report_print(report, stream, colour);
    (void)fclose(stream);
    return text;
}

static void check_width(char *text)
{
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        ck_assert_msg(words_length(line) <= 100, "too wide: %s", line);
}

START_TEST(terminal_says_why)
{
    struct book *book = book_of_all();
    char *text;

    book->samples[0]->violations[0].text =
        (char *)"a text that has no room in a line of a hundred characters and is broken where it "
                "has to be \x1b[2Javeryveryveryveryveryveryveryveryveryveryveryveryveryveryvery"
                "veryveryverylongword";
    text = printed(&book->report, false);
    ck_assert_ptr_nonnull(strstr(text, "vote.3.clock in fault \u2265 1: nothing to measure"));
    ck_assert_ptr_nonnull(strstr(text, "c1.overlaps = 0: was 1"));
    ck_assert_ptr_null(strstr(text, "c5.accepted_stale")); /* was met */
    ck_assert_ptr_nonnull(strstr(text, "C3 at 6.750 s: worker-3 claimed"));
    ck_assert_ptr_nonnull(strstr(text, "reason   a fault did not take: delay"));
    ck_assert_uint_eq(occurrences(text, book->chapters[0].again), 2);
    ck_assert_ptr_null(strchr(text, '\x1b'));
    check_width(text);
    free(text);
    text = printed(&book->report, true);
    ck_assert_ptr_nonnull(strstr(text, "\x1b[1;31mUNSAFE"));
    ck_assert_ptr_null(strstr(text, "\x1b[2J"));
    free(text);
    book_free(book);
}
END_TEST

START_TEST(terminal_compares)
{
    struct book *book = book_of_modes();
    char *text = printed(&book->report, false);

    ck_assert_ptr_nonnull(strstr(text, "failover          available            99.8 %"));
    ck_assert_uint_eq(occurrences(text, "longest outage"), 3);
    check_width(text);
    free(text);
    book_free(book);
}
END_TEST

/* The value at a path of keys and indices, e.g. "chapters 0 verdict". */
static json_t *at(json_t *value, const char *keys)
{
    char copy[128], *rest;

    (void)snprintf(copy, sizeof copy, "%s", keys);
    for (char *key = strtok_r(copy, " ", &rest); key != NULL; key = strtok_r(NULL, " ", &rest)) {
        value = isdigit((unsigned char)*key) && json_is_array(value)
                    ? json_array_get(value, (size_t)atoi(key))
                    : json_object_get(value, strcmp(key, "-") == 0 ? "" : key);
        ck_assert_msg(value != NULL, "no %s in %s", key, keys);
    }
    return value;
}

static json_t *json_of(const struct report *report)
{
    json_t *value;
    char *text;

    ck_assert_int_eq(report_json(report, path), 0);
    text = contents();
    value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_ptr_nonnull(value);
    free(text);
    return value;
}

START_TEST(json_has_everything)
{
    struct book *book = book_of_all();
    const struct analysis *analysis = book->chapters[0].analysis;
    json_t *report = json_of(&book->report);
    json_t *chapter = at(report, "chapters 0");

    ck_assert_int_eq(json_integer_value(at(report, "schema")), 1);
    ck_assert_int_eq(json_integer_value(at(report, "status")), 1);
    ck_assert_int_gt(json_integer_value(at(report, "environment cpus")), 0);
    ck_assert_str_eq(json_string_value(at(report, "chapters 2 verdict")), "inconclusive");
    ck_assert(json_is_null(at(chapter, "row")));
    ck_assert_str_eq(json_string_value(at(chapter, "verdict")), "unsafe");
    ck_assert_str_eq(json_string_value(at(chapter, "run scenario")), "clock-step-bare");
    ck_assert_int_eq(json_integer_value(at(chapter, "counts leases")),
                     (json_int_t)analysis->lease_count);
    ck_assert_double_eq_tol(json_number_value(at(chapter, "metrics fault acquire.p50_ms")), 3.4,
                            1e-9);
    ck_assert_double_eq_tol(json_number_value(at(chapter, "metrics - c3.min_ms")), -3120.4, 1e-9);
    ck_assert_str_eq(json_string_value(at(chapter, "checkers 0 id")), "C1");
    ck_assert_int_eq(json_integer_value(at(chapter, "checkers 2 found")), 1);
    ck_assert(json_is_null(at(chapter, "expectations 4 actual")));
    ck_assert(json_is_false(at(chapter, "expectations 0 met")));
    ck_assert_int_eq(json_integer_value(at(chapter, "violations 0 records 1")), 1207);
    ck_assert_str_eq(json_string_value(at(chapter, "violations 0 leases 1 worker")), "worker-6");
    ck_assert_uint_eq(json_array_size(at(chapter, "violations 1 leases")), 1);
    ck_assert_int_eq(json_integer_value(at(chapter, "violations_found")), 2);
    ck_assert_int_eq(json_integer_value(at(chapter, "phases 1 begin_ns")), 3000000000);
    ck_assert_int_eq(json_integer_value(at(chapter, "faults 1 nodes 1")), 2);
    json_decref(report);
    book_free(book);
}
END_TEST

START_TEST(html_is_whole)
{
    struct book *books[] = {book_of_all(), book_of_modes()};
    char id[64];

    for (size_t i = 0; i < 2; i++) {
        char *text = html_of(&books[i]->report);
        check_markup(text);
        check_links(text);
        for (size_t k = 0; k < books[i]->report.count; k++) {
            const struct analysis *analysis = books[i]->chapters[k].analysis;
            for (size_t n = 0; n < analysis->fault_count + 2 * analysis->violation_count; n++) {
                size_t past = n - analysis->fault_count;
                (void)snprintf(id, sizeof id, " id=\"c%zu-%c%zu\"", k + 1,
                               n < analysis->fault_count ? 'f' : "vm"[past % 2],
                               n < analysis -> fault_count ? n + 1 : past / 2 + 1);
                ck_assert_msg(occurrences(text, id) == 1, "no%s", id);
            }
        }
        ck_assert_ptr_null(strstr(text, "<script"));
        ck_assert_ptr_null(strstr(text, "//")); /* nothing is fetched from anywhere */
        ck_assert_uint_eq(occurrences(text, "id=\"comparison\""), i);
        free(text);
        book_free(books[i]);
    }
}
END_TEST

/* Wherever text goes, hostile text. */
static void make_hostile(struct book *book)
{
    struct sample *sample = book->samples[0];
    struct analysis *analysis = &sample->analysis;

    book->report.title = book->report.command = HOSTILE;
    book->chapters[0] = (struct chapter){HOSTILE, HOSTILE, NULL, HOSTILE, HOSTILE, analysis};
    analysis->reason = (char *)HOSTILE;
    (void)json_object_set_new(analysis->run, "title", json_string("<script>"));
    (void)json_object_set_new(analysis->run, "<script>", json_string("<script>"));
    for (size_t i = 0; i < analysis->worker_count; i++)
        sample->workers[i] = (char *)HOSTILE;
    for (size_t i = 0; i < analysis->phase_count; i++)
        sample->phases[i].name = (char *)HOSTILE;
    for (size_t i = 0; i < analysis->fault_count; i++)
        sample->faults[i].action = sample->faults[i].text = (char *)HOSTILE;
    for (size_t i = 0; i < analysis->span_count; i++)
        sample->spans[i].what = HOSTILE;
    for (size_t i = 0; i < analysis->lease_count; i++)
        analysis->leases[i].name = HOSTILE;
    for (size_t i = 0; i < analysis->violation_count; i++)
        sample->violations[i].text = (char *)HOSTILE;
    for (size_t i = 0; i < analysis->expectation_count; i++)
        sample->expectations[i] = (struct expectation){(char *)HOSTILE,
                                                       (char *)HOSTILE,
                                                       (char *)HOSTILE,
                                                       (char *)HOSTILE,
                                                       (char *)HOSTILE,
                                                       NAN,
                                                       true,
                                                       false,
                                                       INFINITY};
    for (size_t i = 0; i < analysis->metric_count; i++)
        sample->metrics[i].name = (char *)HOSTILE;
    for (size_t i = 0; i < CHECKERS; i++)
        analysis->checkers[i].title = HOSTILE;
}

START_TEST(hostile_text_stays_text)
{
    struct book *book = book_of_all();
    json_t *json;
    char *text;

    make_hostile(book);
    text = html_of(&book->report);
    check_markup(text);
    check_links(text);
    ck_assert_ptr_null(strstr(text, "<script"));
    free(text);
    json = json_of(&book->report);
    ck_assert_str_eq(json_string_value(at(json, "title")),
                     "</title><script>alert(\"1\")</script>&'\uFFFD[2J\uFFFD");
    json_decref(json);
    text = printed(&book->report, false);
    ck_assert_ptr_null(strchr(text, '\x1b'));
    free(text);
    book_free(book);
}
END_TEST

START_TEST(boxes_are_capped)
{
    struct sample *sample = sample_new("storm", "All kinds of faults", 700, 20000);
    struct book *book = book_new();
    char *text;

    sample_crowd(sample, 700, 700, 700);
    for (size_t i = 0; i < 50; i++) /* leases that an even choice wouldn't all take */
        sample_violation(sample, 4, sample_at((double)i), (long)(100 + i), (long)(15000 + i), "");
    ck_assert_uint_eq(sample->analysis.lease_count, 20000);
    book_add(book, sample, "redlock", NULL);
    text = html_of(&book->report);
    check_markup(text);
    ck_assert_ptr_nonnull(strstr(text, "2500 of 20000 leases are drawn"));
    ck_assert_uint_ge(occurrences(text, "class=\"lease bad\""), 100);
    text[strstr(text, "dots are drawn") - text] = '\0'; /* up to the latencies */
    ck_assert_uint_le(occurrences(text, "class=\"dot "), 1503);
    ck_assert_uint_le(occurrences(strstr(text, "<svg class=\"plot timeline"), "class=\"lease"),
                      LEASE_BOXES);
    free(text);
    book_free(book);
}
END_TEST

START_TEST(nothing_is_drawn_of_nothing)
{
    struct analysis analysis = {.verdict = VERDICT_INCONCLUSIVE, .reason = (char *)"no records"};
    struct chapter chapter = {"calm", "redlock", NULL, "history.jsonl", "again", &analysis};
    struct report report = {"nothing", "command", &chapter, 1, true};
    char *text = html_of(&report);

    check_markup(text);
    free(text);
    json_decref(json_of(&report));
    free(printed(&report, true));
}
END_TEST

static int fails_late(const void *context, FILE *stream)
{
    (void)fputs("half of it", stream);
    (void)fflush(stream);
    return *(const int *)context;
}

START_TEST(a_failure_leaves_nothing)
{
    struct book *book = book_of_all();
    struct rlimit old, small;
    char *text;
    int error = ENOSPC;

    ck_assert_int_eq(report_file(path, fails_late, &error), ENOSPC);
    ck_assert_uint_eq(files(), 0);
    ck_assert_int_eq(report_html(&book->report, "/nonexistent/report.html"), ENOENT);
    ck_assert_int_eq(report_json(&book->report, path), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){10000, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    error = report_html(&book->report, path);
    ck_assert_int_eq(report_json(&book->report, path), EFBIG);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
    ck_assert_int_eq(error, EFBIG);
    text = contents(); /* what was there before */
    ck_assert_ptr_eq(strchr(text, '{'), text);
    free(text);
    ck_assert_uint_eq(files(), 1);
    book_free(book);
}
END_TEST

START_TEST(files_are_for_others_to_read)
{
    struct book *book = book_of_all();
    struct stat status;

    (void)umask(022);
    ck_assert_int_eq(report_json(&book->report, path), 0);
    ck_assert_int_eq(stat(path, &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0644);
    book_free(book);
}
END_TEST

/* ---- all of it ---------------------------------------------------------------------- */

static int write_sample(const char *to)
{
    struct book *book = book_of_all(), *modes = book_of_modes();
    int error;

    for (size_t i = 0; i < modes->report.count; i++)
        book->chapters[book->report.count++] = modes->chapters[i];
    book->report.comparison = true;
    report_print(&book->report, stdout, isatty(STDOUT_FILENO) != 0);
    error = report_html(&book->report, to);
    book->report.count = 3;
    book_free(book);
    book_free(modes);
    return error;
}

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *terminal = tcase_create("terminal"), *written = tcase_create("written");
    SRunner *runner = srunner_create(suite);
    const char *sample = getenv("CHAOS_REPORT_SAMPLE");
    int failed = 0;

    tcase_add_test(terminal, status_is_the_worst);
    tcase_add_test(terminal, terminal_says_why);
    tcase_add_test(terminal, terminal_compares);
    tcase_add_checked_fixture(written, setup, teardown);
    tcase_add_test(written, json_has_everything);
    tcase_add_test(written, html_is_whole);
    tcase_add_test(written, hostile_text_stays_text);
    tcase_add_test(written, boxes_are_capped);
    tcase_add_test(written, nothing_is_drawn_of_nothing);
    tcase_add_test(written, a_failure_leaves_nothing);
    tcase_add_test(written, files_are_for_others_to_read);
    tcase_set_timeout(written, 60);
    suite_add_tcase(suite, terminal);
    suite_add_tcase(suite, written);
    if (sample != NULL) {
        failed = write_sample(sample);
    } else {
        srunner_run_all(runner, CK_NORMAL);
        failed = srunner_ntests_failed(runner);
    }
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
