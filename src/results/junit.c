/* junit.c - JUnit's XML. Test cases are counted, not the totals that a suite claims to have. */
#include "base/buf.h"
#include "results/results.h"
#include "results/xml.h"

struct reading {
    struct arena *arena;
    struct test_results *out;
    bool is_junit;
    bool in_case;
    struct xml_event test;
    enum { GOOD, FAILED, ERROR, SKIPPED } end;
    struct str part; /* the element of the case that we are in */
    struct str message, body, output;
    struct str suite;
    int depth;         /* suites in suites */
    bool is_told;      /* the outermost element has a time */
    int64_t suites_ms; /* of the outermost suites */
    int64_t time_ms;   /* of the cases */
};

/* "1.234" as milliseconds. */
static int64_t milliseconds(struct str seconds)
{
    struct err ignored;
    double value;

    if (str_to_f64(seconds, &value, &ignored) < 0 || value < 0 || value > 1e9) {
        return 0;
    }
    return (int64_t)(value * 1000 + 0.5);
}

static void begin_case(struct reading *r, const struct xml_event *e)
{
    r->in_case = true;
    r->test = *e;
    r->end = GOOD;
    r->message = r->body = r->output = STR_EMPTY;
    r->time_ms += milliseconds(xml_attribute(r->arena, e, S("time")));
}

static struct str full_name(struct reading *r)
{
    struct str group = xml_attribute(r->arena, &r->test, S("classname"));
    struct str name = xml_attribute(r->arena, &r->test, S("name"));

    if (group.len == 0 || str_eq(group, name)) {
        return name;
    }
    return arena_printf(r->arena, "%.*s.%.*s", STR_ARG(str_head(group, 1000)),
                        STR_ARG(str_head(name, 1000)));
}

/* What pytest says of a file that it could not read: the lines that it marks in the traceback. */
static struct str marked(struct reading *r, struct str body)
{
    struct buf text own_buf = {0};
    struct str line;

    buf_init(&text, RESULTS_MESSAGE);
    while (results_line(&body, &line)) {
        if (str_starts(line, S("E  "))) {
            buf_add(&text, str_skip(line, str_starts(line, S("E   ")) ? 4 : 3));
            buf_addc(&text, '\n');
        }
    }
    return arena_str(r->arena, buf_str(&text));
}

static struct str message_of(struct reading *r)
{
    if (str_eq(r->message, S("collection failure")) && marked(r, r->body).len > 0) {
        return marked(r, r->body);
    }
    return r->message.len > 0          ? r->message
           : str_trim(r->body).len > 0 ? r->body
           : str_trim(r->output).len > 0
               ? r->output
               : S("it printed nothing; what the runner says of it is in stdout");
}

/* "dir/test_a.py:9: AssertionError" is the last line. */
static bool is_pytest(struct str body)
{
    struct str line = STR_EMPTY;
    struct str rest = str_trim(body);
    struct test_failure f = {0};

    while (results_line(&rest, &line)) {
    }
    results_place(line, false, &f);
    return f.line > 0 && f.file.p == line.p;
}

static void add_failure(struct reading *r)
{
    struct test_failure *f = results_fail(r->arena, r->out);

    if (f == NULL) {
        return;
    }
    f->name = full_name(r);
    f->message = results_message(message_of(r));
    f->file = xml_attribute(r->arena, &r->test, S("file"));
    f->line =
        f->file.len > 0 ? results_number(xml_attribute(r->arena, &r->test, S("line"))) + 1 : 0;
    /* The line that failed says more than the one where the test begins. pytest ends with it,
     * others begin their trace with it. */
    results_place(r->body, is_pytest(r->body), f);
    if (f->line <= 0) {
        results_python_place(r->body, f);
    }
}

/* vitest tells a file that cannot be run as a failed test with the name of the file. */
static bool is_whole_suite(struct reading *r)
{
    struct str name = xml_attribute(r->arena, &r->test, S("name"));

    return name.len > 0 && str_eq(name, r->suite) &&
           str_eq(name, xml_attribute(r->arena, &r->test, S("classname")));
}

static void end_case(struct reading *r)
{
    r->in_case = false;
    if (r->end == FAILED && is_whole_suite(r)) {
        r->end = ERROR;
    }
    switch (r->end) {
    case GOOD: r->out->passed++; return;
    case SKIPPED: r->out->skipped++; return;
    case FAILED: r->out->failed++; break;
    case ERROR: r->out->errors++; break;
    }
    add_failure(r);
}

/* An element of a case: what it means. */
static void take_part(struct reading *r, const struct xml_event *e)
{
    if (str_eq(e->name, S("failure")) || str_eq(e->name, S("error"))) {
        r->end = str_eq(e->name, S("failure")) ? FAILED : ERROR;
        r->message = xml_attribute(r->arena, e, S("message"));
    } else if (str_eq(e->name, S("skipped")) && r->end == GOOD) {
        struct str why = xml_attribute(r->arena, e, S("message"));
        bool is_lost = str_eq(xml_attribute(r->arena, &r->test, S("status")), S("notrun")) &&
                       !str_starts(why, S("SKIP_"));

        /* ctest: a test whose program is missing was not skipped by anybody. */
        r->end = is_lost ? ERROR : SKIPPED;
        r->message = is_lost ? why : STR_EMPTY;
    }
    r->part = e->name;
}

static void take_text(struct reading *r, const struct xml_event *e)
{
    if (str_eq(r->part, S("failure")) || str_eq(r->part, S("error"))) {
        r->body = r->body.len == 0 ? xml_text(r->arena, e) : r->body;
    } else if (str_eq(r->part, S("system-out")) && r->output.len == 0) {
        r->output = xml_text(r->arena, e);
    }
}

static void take_suite(struct reading *r, const struct xml_event *e)
{
    int64_t ms = milliseconds(xml_attribute(r->arena, e, S("time")));

    r->is_junit = true;
    if (str_eq(e->name, S("testsuites"))) {
        r->suites_ms = ms;
        r->is_told = ms > 0;
        return;
    }
    r->suite = xml_attribute(r->arena, e, S("name"));
    r->suites_ms += r->depth == 0 && !r->is_told ? ms : 0;
    r->depth++;
}

static void take_event(struct reading *r, const struct xml_event *e)
{
    bool is_case = str_eq(e->name, S("testcase"));

    if (e->kind == XML_TEXT) {
        take_text(r, e);
    } else if (e->kind == XML_CLOSE) {
        r->part = STR_EMPTY;
        r->depth -= str_eq(e->name, S("testsuite"));
        if (is_case && r->in_case) {
            end_case(r);
        }
    } else if (is_case) {
        begin_case(r, e);
    } else if (r->in_case) {
        take_part(r, e);
    } else if (str_eq(e->name, S("testsuite")) || str_eq(e->name, S("testsuites"))) {
        take_suite(r, e);
    }
}

bool results_junit(struct arena *a, struct str text, struct test_results *out)
{
    struct xml x = xml_begin(text);
    struct reading r = {.arena = a, .out = out};

    results_init(out);
    for (;;) {
        struct xml_event e = xml_next(&x);

        if (e.kind == XML_END) {
            break;
        }
        take_event(&r, &e);
    }
    out->duration_ms = !r.is_junit ? -1 : r.suites_ms > r.time_ms ? r.suites_ms : r.time_ms;
    return r.is_junit;
}
