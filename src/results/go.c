/*
 * go.c - go test -json: one event a line. Tests and their parts are all counted, as -v shows them;
 * of those that failed a test is told by its parts. A package that cannot be built is an error.
 */
#include "json/js.h"
#include "results/results.h"

#define OUTPUTS 256 /* tests whose output is remembered at a time */
#define KEPT    4000

struct output {
    struct str package, test;
    struct buf text;
    bool has_failed_part;
};

struct reading {
    struct arena *arena;
    struct test_results *out;
    struct output outputs[OUTPUTS];
    size_t n;
    bool is_go;
};

static struct output *output_of(struct reading *r, struct str package, struct str test)
{
    struct output *o;

    for (size_t i = 0; i < r->n; i++) {
        if (str_eq(r->outputs[i].test, test) && str_eq(r->outputs[i].package, package)) {
            return &r->outputs[i];
        }
    }
    if (r->n == OUTPUTS) {
        return NULL;
    }
    o = &r->outputs[r->n++];
    *o =
        (struct output){.package = arena_str(r->arena, package), .test = arena_str(r->arena, test)};
    buf_init(&o->text, KEPT);
    return o;
}

static void forget(struct reading *r, struct output *o)
{
    buf_fini(&o->text);
    *o = r->outputs[--r->n];
}

/* Lines of the framework say nothing: "=== RUN   TestX", "--- FAIL: TestX (0.00s)". */
static bool is_frame(struct str text)
{
    struct str bare = str_trim(text);

    return str_starts(bare, S("=== ")) || str_starts(bare, S("--- ")) || str_eq(bare, S("FAIL")) ||
           str_starts(bare, S("FAIL\t"));
}

static void mark_parents(struct reading *r, struct str package, struct str test)
{
    for (size_t i = test.len; i > 0; i--) {
        if (test.p[i - 1] == '/') {
            struct output *o = output_of(r, package, str_head(test, i - 1));

            if (o != NULL) {
                o->has_failed_part = true;
            }
        }
    }
}

/* said: whose output tells why; of a package that could not be built, its build's. */
static void failed(struct reading *r, struct str package, struct str test, struct str said)
{
    struct output *o = output_of(r, said, test);
    struct test_failure *f;

    mark_parents(r, package, test);
    if (o != NULL && o->has_failed_part && str_trim(buf_str(&o->text)).len == 0) {
        return;
    }
    f = results_fail(r->arena, r->out);
    if (f == NULL) {
        return;
    }
    f->name = test.len > 0 ? arena_printf(r->arena, "%.*s.%.*s", STR_ARG(str_head(package, 1000)),
                                          STR_ARG(str_head(test, 1000)))
                           : arena_str(r->arena, package);
    if (o != NULL) {
        f->message = results_message(arena_str(r->arena, buf_str(&o->text)));
        results_place(f->message, false, f);
    }
    if (f->message.len == 0 && test.len == 0) {
        f->message = S("it could not be built, or ended outside of its tests: see stderr");
    }
}

static void add_time(struct test_results *out, const json_t *elapsed)
{
    double seconds = json_number_value(elapsed);

    if (json_is_number(elapsed) && seconds >= 0 && seconds < 1e9) {
        out->duration_ms =
            (out->duration_ms < 0 ? 0 : out->duration_ms) + (int64_t)(seconds * 1000 + 0.5);
    }
}

static void take_event(struct reading *r, const json_t *event)
{
    struct str action = js_str(js_get(event, "Action"));
    struct str package = js_str(js_get(event, "Package"));
    struct str test = js_str(js_get(event, "Test"));
    struct str text = js_str(js_get(event, "Output"));
    struct str build = js_str(js_get(event, "FailedBuild"));
    bool is_end =
        str_eq(action, S("pass")) || str_eq(action, S("fail")) || str_eq(action, S("skip"));
    struct output *o;

    r->is_go = r->is_go || action.len > 0;
    if (str_eq(action, S("output")) && !is_frame(text)) {
        o = output_of(r, package, test);
        if (o != NULL) {
            buf_add(&o->text, text);
        }
    }
    if (str_eq(action, S("build-output")) && !str_starts(text, S("# "))) {
        o = output_of(r, js_str(js_get(event, "ImportPath")), STR_EMPTY);
        if (o != NULL) {
            buf_add(&o->text, text);
        }
    }
    if (!is_end) {
        return;
    }
    if (test.len > 0) {
        r->out->passed += str_eq(action, S("pass"));
        r->out->skipped += str_eq(action, S("skip"));
        r->out->failed += str_eq(action, S("fail"));
    }
    if (str_eq(action, S("fail"))) {
        o = output_of(r, package, STR_EMPTY);
        if (test.len > 0) {
            failed(r, package, test, package);
            if (o != NULL) {
                o->has_failed_part = true;
            }
        } else if (o == NULL || !o->has_failed_part) {
            r->out->errors++;
            failed(r, package, test, build.len > 0 ? build : package);
        }
    }
    if (test.len == 0) {
        add_time(r->out, js_get(event, "Elapsed"));
    }
    o = output_of(r, package, test);
    if (o != NULL && test.len > 0) {
        forget(r, o);
    }
}

bool results_go(struct arena *a, struct str text, struct test_results *out)
{
    struct reading *r = arena_new(a, struct reading);
    struct str line;

    r->arena = a;
    r->out = out;
    results_init(out);
    while (results_line(&text, &line)) {
        struct err ignored;
        json_t *event own_json =
            str_starts(line, S("{\"")) ? js_parse(line.p, line.len, &ignored) : NULL;

        if (json_is_object(event)) {
            take_event(r, event);
        }
    }
    while (r->n > 0) {
        forget(r, &r->outputs[0]);
    }
    return r->is_go;
}
