/*
 * run_tests_report.c - what became of the tests.
 *
 * The script's folder has: framework, command, problem, note, others (tests that were not run),
 * junit.xml, jest.json, go.json, coverage.json (coverage.py), coverage/coverage-summary.json (istanbul),
 * go.cover, uncovered. Who only prints is read from what it printed. What nobody told is null, never
 * guessed.
 */
#include <string.h>

#include "base/plain.h"
#include "base/utf8.h"
#include "provider/sink.h"
#include "results/results.h"
#include "tools/run_tests.h"

#define SMALL_MAX    4096
#define MESSAGES_MAX 20000 /* bytes of all messages: what an agent wants to read of hundreds */
#define MESSAGE_MIN  200

struct report {
    struct call *call;
    struct box *box;
    struct tests_run *run;
    struct str framework;
    struct test_results results;
    struct str printed[2]; /* by enum stream; read by printed() */
    bool known;
};

/* ---- files ------------------------------------------------------------------------------- */

/* In the arena; empty when it is not there. */
static struct str read_file(struct report *r, const char *name, size_t max)
{
    struct arena *a = r->call->ctx->arena;
    struct buf bytes own_buf = {0};
    const struct sink sink = sink_stdout(&bytes);
    struct file_info info;
    struct err ignored;

    buf_init(&bytes, max);
    if (box_file_read(r->box, r->call->ctx, arena_printf(a, "%.*s/%s", STR_ARG(r->run->dir), name),
                      0, (int64_t)max, &sink, &info, &ignored) < 0) {
        return STR_EMPTY;
    }
    return arena_str(a, buf_str(&bytes));
}

/* ---- counts ------------------------------------------------------------------------------- */

typedef bool reader(struct arena *a, struct str text, struct test_results *out);

/* As a person reads it: without colours. In the arena, since results point into it. */
static struct str printed(struct report *r, enum stream which)
{
    struct buf text own_buf = {0};

    if (r->printed[which].p == NULL) {
        buf_init(&text, (size_t)2 * TESTS_TEXT_MAX);
        plain_text(buf_str(&r->run->output->streams[which]), &text);
        r->printed[which] = arena_str(r->call->ctx->arena, buf_str(&text));
    }
    return r->printed[which];
}

static bool read_output(struct report *r, reader *read_it)
{
    for (int i = STREAM_OUT; i <= STREAM_ERR; i++) {
        if (read_it(r->call->ctx->arena, printed(r, (enum stream)i), &r->results)) {
            return true;
        }
    }
    return false;
}

/* What some runner may have printed, of which nobody says which one it is. */
static bool read_any(struct report *r)
{
    static reader *const readers[] = {results_go,       results_cargo,   results_unittest,
                                      results_automake, results_summary, results_tap};

    for (size_t i = 0; i < COUNTOF(readers); i++) {
        if (read_output(r, readers[i])) {
            return true;
        }
    }
    return false;
}

static void find_counts(struct report *r)
{
    static const struct {
        const char *framework, *file;
        reader *read_it;
    } rows[] = {
        {"pytest", "junit.xml", results_junit}, {"vitest", "junit.xml", results_junit},
        {"ctest", "junit.xml", results_junit},  {"jest", "jest.json", results_jest},
        {"go", "go.json", results_go},          {"unittest", NULL, results_unittest},
        {"cargo", NULL, results_cargo},         {"node", NULL, results_tap},
    };
    struct arena *a = r->call->ctx->arena;

    for (size_t i = 0; i < COUNTOF(rows); i++) {
        if (!str_eq(r->framework, str_from(rows[i].framework))) {
            continue;
        }
        r->known = rows[i].file != NULL
                       ? rows[i].read_it(a, read_file(r, rows[i].file, TESTS_TEXT_MAX), &r->results)
                       : read_output(r, rows[i].read_it);
        r->known = r->known || read_output(r, results_summary);
        return;
    }
    r->known = read_any(r);
}

static json_t *count(const struct report *r, int64_t n)
{
    return r->known ? json_integer(n) : json_null();
}

static json_t *summary(const struct report *r)
{
    const struct test_results *t = &r->results;
    json_t *o = json_object();

    (void)json_object_set_new(o, "passed", count(r, t->passed));
    (void)json_object_set_new(o, "failed", count(r, t->failed));
    (void)json_object_set_new(o, "skipped", count(r, t->skipped));
    (void)json_object_set_new(o, "errors", count(r, t->errors));
    (void)json_object_set_new(o, "total", count(r, t->passed + t->failed + t->skipped + t->errors));
    (void)json_object_set_new(o, "duration",
                              r->known && t->duration_ms >= 0 ? answer_seconds(t->duration_ms)
                                                              : json_null());
    return o;
}

/* Output of programs: made harmless like any. */
static void put_plain(json_t *o, const char *key, struct str s)
{
    struct buf text own_buf = {0};

    buf_init(&text, (size_t)4 * RESULTS_MESSAGE);
    plain_text(s, &text);
    answer_str(o, key, buf_str(&text));
}

static json_t *failures(const struct report *r)
{
    size_t n = r->results.n_failures;
    size_t share = n > 0 ? MESSAGES_MAX / n : 0;
    json_t *list = json_array();

    share = share < MESSAGE_MIN ? MESSAGE_MIN : share;
    for (size_t i = 0; r->known && i < r->results.n_failures; i++) {
        const struct test_failure *f = &r->results.failures[i];
        json_t *o = json_object();

        put_plain(o, "name", f->name);
        if (f->file.len > 0) {
            put_plain(o, "file", f->file);
        } else {
            (void)json_object_set_new(o, "file", json_null());
        }
        (void)json_object_set_new(o, "line", f->line > 0 ? json_integer(f->line) : json_null());
        put_plain(o, "message", utf8_head(f->message, share));
        (void)json_array_append_new(list, o);
    }
    return list;
}

/* ---- coverage ------------------------------------------------------------------------------ */

/* The percentage in a line that has this word: "total: (statements) 87.5%", and node's
 * "# all files | 87.50 | ...". */
static double percent_in(struct str text, const char *word)
{
    struct str line;

    while (results_line(&text, &line)) {
        const char *at = memmem(line.p, line.len, word, strlen(word));
        struct str rest, end;
        struct err ignored;
        double value;

        if (at == NULL) {
            continue;
        }
        rest = str_skip(line, (size_t)(at - line.p) + strlen(word));
        while (rest.len > 0 && !(rest.p[0] >= '0' && rest.p[0] <= '9')) {
            rest = str_skip(rest, 1);
        }
        rest = str_cut(str_cut(rest, '%', &end), '|', &end);
        if (str_to_f64(rest, &value, &ignored) == 0 && value >= 0 && value <= 100) {
            return value;
        }
    }
    return -1;
}

static double json_percent(struct str text, const char *a, const char *b, const char *c)
{
    struct err ignored;
    json_t *report own_json = text.len > 0 ? js_parse(text.p, text.len, &ignored) : NULL;
    const json_t *v = c != NULL ? js_path(report, a, b, c, NULL) : js_path(report, a, b, NULL);

    return json_is_number(v) ? json_number_value(v) : -1;
}

static double coverage(struct report *r)
{
    double percent = json_percent(read_file(r, "coverage.json", TESTS_TEXT_MAX), "totals",
                                  "percent_covered", NULL);

    if (percent < 0) {
        percent = json_percent(read_file(r, "coverage/coverage-summary.json", TESTS_TEXT_MAX),
                               "total", "lines", "pct");
    }
    if (percent < 0) {
        percent = percent_in(read_file(r, "go.cover", SMALL_MAX), "(statements)");
    }
    if (percent < 0) {
        percent = percent_in(printed(r, STREAM_OUT), "all files");
    }
    return percent;
}

static void put_coverage(struct report *r, json_t *o)
{
    struct str why;

    if (!r->run->coverage) {
        return;
    }
    (void)json_object_set_new(o, "coverage_percent", answer_round(coverage(r), 2));
    why = str_trim(read_file(r, "uncovered", SMALL_MAX));
    if (why.len > 0) {
        put_plain(o, "coverage_note", why);
    }
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* go prints JSON, which is for us; a person wants the words in it. */
static void show_go(struct report *r, json_t *answer)
{
    struct str text = read_file(r, "go.json", TESTS_TEXT_MAX);
    struct buf words own_buf = {0};
    struct buf shown own_buf = {0};
    struct str line;

    buf_init(&words, 64u << 10);
    while (results_line(&text, &line)) {
        struct err ignored;
        json_t *event own_json = js_parse(line.p, line.len, &ignored);

        buf_add(&words, js_str(js_get(event, "Output")));
    }
    buf_init(&shown, 128u << 10);
    plain_text(buf_str(&words), &shown);
    answer_str(answer, "stdout", buf_str(&shown));
    if (words.cut) {
        (void)json_object_set_new(answer, "truncated", json_true());
    }
}

/* What the counts do not say. */
static void put_note(struct report *r, json_t *answer, int64_t code)
{
    const struct test_results *t = &r->results;
    struct str said = str_trim(read_file(r, "note", SMALL_MAX));
    struct str rest = str_trim(read_file(r, "others", SMALL_MAX));
    struct buf text own_buf = {0};

    buf_init(&text, (size_t)2 * SMALL_MAX);
    if (said.len > 0) {
        buf_add(&text, said);
    } else if (!r->known && code != 0 && !json_is_true(js_get(answer, "timed_out"))) {
        buf_addf(&text,
                 "no results were told, and it ended with exit code %lld: see stdout and stderr",
                 (long long)code);
    } else if (r->known && t->passed + t->failed + t->skipped + t->errors == 0) {
        buf_add(&text, S("no test was run: give the file or folder with the tests as path, or the "
                         "command"));
    }
    if (rest.len > 0) {
        buf_addf(&text, "%snot run, but there are also: ", text.len > 0 ? "; " : "");
    }
    while (rest.len > 0) {
        buf_add(&text, str_trim(str_cut(rest, '\n', &rest)));
        buf_add(&text, rest.len > 0 ? S(", ") : S(" (choose by path or framework)"));
    }
    if (text.len > 0) {
        put_plain(answer, "note", buf_str(&text));
    }
}

static void put_answer(struct report *r, json_t *answer)
{
    const struct test_results *t = &r->results;
    int64_t code = json_integer_value(js_get(answer, "exit_code"));
    struct str command = str_trim(read_file(r, "command", SMALL_MAX));

    find_counts(r);
    (void)json_object_set_new(answer, "success",
                              json_boolean(code == 0 && (!r->known || t->failed + t->errors == 0)));
    answer_str(answer, "framework", r->framework);
    put_plain(answer, "command", command);
    (void)json_object_set_new(answer, "summary", summary(r));
    (void)json_object_set_new(answer, "failures", failures(r));
    if (t->more) {
        (void)json_object_set_new(answer, "failures_truncated", json_true());
    }
    if (str_eq(r->framework, S("go"))) {
        show_go(r, answer);
    }
    put_coverage(r, answer);
    put_note(r, answer, code);
}

int tests_collect(struct call *c, struct box *b, struct tests_run *run, json_t *answer,
                  struct err *e)
{
    struct report r = {.call = c, .box = b, .run = run};
    struct str problem = read_file(&r, "problem", SMALL_MAX);
    struct err ignored;

    r.framework = str_trim(read_file(&r, "framework", SMALL_MAX));
    if (problem.len == 0) {
        put_answer(&r, answer);
    }
    (void)!box_file_remove(b, c->ctx, run->dir, &ignored);
    if (problem.len > 0) {
        struct buf text own_buf = {0};

        buf_init(&text, SMALL_MAX);
        plain_text(problem, &text);
        return err_set(e, ERR_INVALID, "%.*s", STR_ARG(buf_str(&text)));
    }
    return 0;
}
