/*
 * Histories broken on purpose: whatever is in a file, the analysis neither crashes nor keeps
 * silent.
 */
#include "synthetic.h"

#include <jansson.h>

/* A history with a record of each kind. */
static void write_sample(void)
{
    begin();
    phase("calm", 0);
    lease("w1", 1, 0, 5, 1);
    keys(0x7, "w1-1", 6, 2001);
    extend("w1", 1, 20, "ok", 1990);
    event("w1", 1, "renewed", 30, 2000);
    put("'type':'check','t':%" PRId64 ",'worker':'w1','try':1,'held':false", AT(50));
    put("'type':'enter','t':%" PRId64 ",'worker':'w1','try':1,'name':'a','ok':false,'other':2",
        AT(7));
    put("'type':'leave','t':%" PRId64 ",'worker':'w1','try':1,'name':'a','ok':true,"
        "'lost_update':true",
        AT(9));
    put("'type':'write','t':%" PRId64 ",'worker':'w1','try':1,'name':'a','fenced':true,'fence':1,"
        "'sequence':1,'accepted':true,'stale':false,'believed':true",
        AT(8));
    put("'type':'hygiene','t':%" PRId64 ",'worker':'w1','when':'begin','fds':1,'threads':1,"
        "'rss_kb':1",
        AT(1));
    put("'type':'hygiene','t':%" PRId64 ",'worker':'w1','when':'end','fds':9,'threads':9,"
        "'rss_kb':9",
        AT(99));
    keysgone(0x2, "del", 40);
    node(3, "up", 41, false);
    clock_at(1, 0, 0, 0);
    clock_at(1, 10, 9000, 1000);
    put("'type':'fault','t':%" PRId64 ",'fault':1,'action':'freeze-worker','state':'start',"
        "'nodes':[1],'links':[],'params':{'worker':'w1'},'verified':true,'text':''",
        AT(3));
    invoke("w1", 2, "acquire", "a", 60);
    put("'type':'return','t':%" PRId64 ",'worker':'w1','try':2,'op':'acquire','name':'a',"
        "'rc':'no_quorum','node':[{'node':4,'vote':'barred','text':'restarted'}]",
        AT(70));
    put("'type':'reason','t':1,'node':4,'phase':'calm','word':'restarted'");
    put("'type':'measure','t':1,'name':'left','phase':'','value':0");
    put("'type':'gone','t':%" PRId64 ",'worker':'w1','how':'killed','text':''", AT(90));
    expect("c1.overlaps", "eq", 0, "safety");
    put("'type':'link','t':1,'link':'l','what':'reset','n':1");
    put("'type':'end','t':%" PRId64 ",'interrupted':false", AT(100));
}

static json_t *read_sample(void)
{
    json_t *records = json_array();
    char line[4000];
    FILE *stream;

    write_sample();
    ck_assert_int_eq(fclose(script.stream), 0);
    stream = fopen(script.path, "r");
    ck_assert_ptr_nonnull(stream);
    while (fgets(line, sizeof line, stream) != NULL)
        ck_assert_int_eq(json_array_append_new(records, json_loads(line, 0, NULL)), 0);
    ck_assert_int_eq(fclose(stream), 0);
    ck_assert_int_eq(unlink(script.path), 0);
    return records;
}

/* Whatever comes out: no crash, and a text if it is nothing. */
static bool is_taken(const json_t *records)
{
    char text[300] = "";
    struct analysis *analysis;
    size_t index;
    json_t *record;

    open_script();
    json_array_foreach((json_t *)(uintptr_t)records, index, record)
    {
        ck_assert_int_eq(json_dumpf(record, script.stream, JSON_ENCODE_ANY | JSON_COMPACT), 0);
        ck_assert_int_eq(putc('\n', script.stream), '\n');
    }
    analysis = try_script(text, sizeof text);
    ck_assert(analysis != NULL || text[0] != '\0');
    ck_assert(analysis != NULL || strstr(text, "line ") != NULL ||
              strstr(text, "record ") != NULL || strstr(text, "\"run\"") != NULL);
    analysis_free(analysis);
    return analysis != NULL;
}

static json_t *mutant_of(int kind)
{
    switch (kind) {
    case 0:
        return json_integer(-1);
    case 1:
        return json_integer(INT64_MAX);
    case 2:
        return json_integer(INT64_MIN);
    case 3:
        return json_integer(0);
    case 4:
        return json_integer(INT64_C(3999999999999999999)); /* the largest time */
    case 5:
        return json_string("");
    case 6:
        return json_string("end");
    case 7:
        return json_true();
    case 8:
        return json_null();
    case 9:
        return json_real(1e300);
    case 10:
        return json_pack("[o]", json_object());
    case 11:
        return json_pack("{s:s}", "node", "x");
    default:
        return NULL; /* no such field at all */
    }
}

START_TEST(the_sample_is_good)
{
    json_t *records = read_sample();

    ck_assert(is_taken(records));
    json_decref(records);
}
END_TEST

/* Each field of each record, by each mutant. */
START_TEST(mutated_fields)
{
    json_t *records = read_sample(), *mutated = json_deep_copy(records);
    size_t refused = 0, tried = 0;

    for (size_t i = 0; i < json_array_size(records); i++) {
        json_t *record = json_array_get(records, i), *value;
        const char *field;
        json_object_foreach(record, field, value)
        {
            json_t *copy = json_copy(record), *mutant = mutant_of(_i);
            if (mutant != NULL)
                ck_assert_int_eq(json_object_set_new(copy, field, mutant), 0);
            else
                ck_assert_int_eq(json_object_del(copy, field), 0);
            ck_assert_int_eq(json_array_set_new(mutated, i, copy), 0);
            refused += !is_taken(mutated);
            tried++;
        }
        ck_assert_int_eq(json_array_set(mutated, i, record), 0);
    }
    ck_assert_uint_gt(tried, 200);
    ck_assert_uint_gt(refused, 5); /* that it is looked at all */
    json_decref(mutated);
    json_decref(records);
}
END_TEST

START_TEST(missing_doubled_and_swapped_lines)
{
    json_t *records = read_sample();
    size_t count = json_array_size(records);

    for (size_t i = 0; i < count; i++) {
        json_t *mutated = json_copy(records);
        ck_assert_int_eq(json_array_append(mutated, json_array_get(records, i)), 0);
        (void)is_taken(mutated);
        ck_assert_int_eq(json_array_remove(mutated, i), 0); /* moved to the end: the same */
        ck_assert_msg(is_taken(mutated), "line %zu moved", i + 1);
        ck_assert_int_eq(json_array_remove(mutated, count - 1), 0);
        (void)is_taken(mutated);
        json_decref(mutated);
    }
    json_decref(records);
}
END_TEST

/* The bytes of the file up to any place. */
START_TEST(cut_anywhere)
{
    char text[300], *bytes = NULL;
    size_t size = 0;
    FILE *memory = open_memstream(&bytes, &size);
    struct analysis *analysis;

    write_sample();
    ck_assert_int_eq(fclose(script.stream), 0);
    script.stream = fopen(script.path, "r");
    for (int c; (c = getc(script.stream)) != EOF;)
        ck_assert_int_ne(putc(c, memory), EOF);
    ck_assert_int_eq(fclose(script.stream), 0);
    ck_assert_int_eq(fclose(memory), 0);
    ck_assert_int_eq(unlink(script.path), 0);
    for (size_t length = 0; length < size; length += 7) {
        open_script();
        ck_assert_uint_eq(fwrite(bytes, 1, length, script.stream), length);
        analysis = try_script(text, sizeof text);
        /* Within the first line there is no run yet. */
        ck_assert_msg((analysis != NULL) == (memchr(bytes, '\n', length) != NULL ||
                                             (length > 0 && bytes[length - 1] == '}')),
                      "%zu: %s", length, text);
        analysis_free(analysis);
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("analysis_broken");
    TCase *broken = tcase_create("broken");

    tcase_set_timeout(broken, 60);
    tcase_add_test(broken, the_sample_is_good);
    tcase_add_loop_test(broken, mutated_fields, 0, 13);
    tcase_add_test(broken, missing_doubled_and_swapped_lines);
    tcase_add_test(broken, cut_anywhere);
    suite_add_tcase(suite, broken);
    return run_suite(suite);
}
