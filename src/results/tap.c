/*
 * tap.c - the Test Anything Protocol.
 *
 * Subtests are indented; a runner that counts them says so at its end ("# pass 3", node), and
 * then its word counts. Without it the lines of the outermost level are counted. "ok # SKIP" is
 * skipped, "not ok # todo" is no failure. The YAML behind a failure has its message.
 */
#include "base/buf.h"
#include "results/results.h"

struct reading {
    struct arena *arena;
    struct test_results *out;
    bool is_tap;
    int64_t told[5]; /* pass, fail, skipped, cancelled, todo; -1: not told */
    struct str said; /* the comments just above: what a file printed that could not be run */
    struct test_failure *last;
    struct str yaml; /* of the last failure, as far as it goes */
    bool in_yaml;
};

static const char *const trailers[] = {"# pass ", "# fail ", "# skipped ", "# cancelled ",
                                       "# todo "};

static bool has_directive(struct str line, struct str word)
{
    struct str rest = line;

    while (rest.len > 0) {
        (void)str_cut(rest, '#', &rest);
        if (rest.len >= word.len + 1 && rest.p[0] == ' ' &&
            str_eq_nocase(str_head(str_skip(rest, 1), word.len), word)) {
            return true;
        }
    }
    return false;
}

/* Up to the '#' of a directive; those of the name itself are written "\\#", and '\\' twice. */
static struct str unescaped(struct arena *a, struct str s)
{
    char *to = arena_alloc(a, s.len + 1, 1);
    size_t n = 0;

    for (size_t i = 0; i < s.len && s.p[i] != '#'; i++) {
        if (s.p[i] == '\\' && i + 1 < s.len && (s.p[i + 1] == '#' || s.p[i + 1] == '\\')) {
            i++;
        }
        to[n++] = s.p[i];
    }
    return str_trim((struct str){to, n});
}

/* "2 - name # SKIP why" without the number and what is behind the name. */
static struct str name_of(struct arena *a, struct str s)
{
    s = str_trim(s);
    while (s.len > 0 && s.p[0] >= '0' && s.p[0] <= '9') {
        s = str_skip(s, 1);
    }
    s = str_trim(s);
    if (str_starts(s, S("-"))) {
        s = str_trim(str_skip(s, 1));
    }
    return unescaped(a, s);
}

static void count(struct reading *r, struct str line, bool is_ok, bool is_outer)
{
    struct test_results *out = r->out;

    r->is_tap = true;
    r->last = NULL;
    r->in_yaml = false;
    if (has_directive(line, S("skip"))) {
        out->skipped += is_outer;
    } else if (has_directive(line, S("todo"))) {
        out->skipped += is_outer && !is_ok;
        out->passed += is_outer && is_ok;
    } else if (is_ok) {
        out->passed += is_outer;
    } else {
        out->failed += is_outer;
        r->last = results_fail(r->arena, out);
        if (r->last != NULL) {
            r->last->name = name_of(r->arena, line);
        }
    }
}

/* ---- YAML ----------------------------------------------------------------------------------- */

static struct str unquoted(struct str s)
{
    if (s.len >= 2 && (s.p[0] == '\'' || s.p[0] == '"') && s.p[s.len - 1] == s.p[0]) {
        return str_head(str_skip(s, 1), s.len - 2);
    }
    return s;
}

/* The value of "key:" in a block: on its line, or the indented lines below it. */
static struct str yaml_value(struct str yaml, struct str key)
{
    struct str line;
    struct str rest = yaml;

    while (results_line(&rest, &line)) {
        struct str value;
        struct str k = str_trim(str_cut(line, ':', &value));
        size_t indent = (size_t)(str_trim(line).p - line.p);
        struct str block = rest;

        if (!str_eq(k, key) || str_trim(line).len == 0) {
            continue;
        }
        value = str_trim(value);
        if (!str_starts(value, S("|")) && !str_starts(value, S(">"))) {
            return unquoted(value);
        }
        while (results_line(&rest, &line) &&
               (str_trim(line).len == 0 || (size_t)(str_trim(line).p - line.p) > indent)) {
        }
        return str_head(block, (size_t)(line.p - block.p));
    }
    return STR_EMPTY;
}

/* Comments without their marks. */
static struct str uncommented(struct reading *r)
{
    struct buf text own_buf = {0};
    struct str rest = r->said, line;

    buf_init(&text, RESULTS_MESSAGE);
    while (results_line(&rest, &line)) {
        if (!str_starts(line, S("# Subtest: "))) {
            buf_add(&text, str_skip(line, 2));
            buf_addc(&text, '\n');
        }
    }
    return arena_str(r->arena, buf_str(&text));
}

static void end_yaml(struct reading *r)
{
    struct test_failure *f = r->last;
    struct str message = yaml_value(r->yaml, S("error"));
    struct str at = yaml_value(r->yaml, S("location"));

    if (message.len == 0) {
        message = yaml_value(r->yaml, S("message"));
    }
    /* node, of a file that ended badly: "test failed", and why stands above it. */
    if (yaml_value(r->yaml, S("exitCode")).len > 0 && str_trim(uncommented(r)).len > 0) {
        message = uncommented(r);
    }
    f->message = results_message(message.len > 0 ? message : r->yaml);
    results_place(at.len > 0 ? at : r->yaml, false, f);
    results_place(yaml_value(r->yaml, S("stack")), false, f);
    /* A test of parts that failed is told by its parts. */
    if (str_eq(yaml_value(r->yaml, S("failureType")), S("subtestsFailed"))) {
        r->out->n_failures--;
    }
    r->last = NULL;
    r->in_yaml = false;
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void take_trailer(struct reading *r, struct str line)
{
    for (size_t i = 0; i < COUNTOF(trailers); i++) {
        struct str word = str_from(trailers[i]);

        if (str_starts(line, word)) {
            r->told[i] = results_number(str_skip(line, word.len));
        }
    }
    if (str_starts(line, S("# duration_ms "))) {
        r->out->duration_ms = results_number(str_skip(line, S("# duration_ms ").len));
    }
}

static void take_line(struct reading *r, struct str line)
{
    struct str bare = str_trim(line);
    bool is_outer = bare.p == line.p;
    bool is_comment = str_starts(line, S("# "));

    if (!r->in_yaml && is_comment) {
        const char *end = line.p + line.len + 1;

        r->said = r->said.len > 0 ? (struct str){r->said.p, (size_t)(end - r->said.p)}
                                  : (struct str){line.p, line.len + 1};
    } else if (!r->in_yaml && !str_starts(bare, S("not ok")) && !str_eq(bare, S("---"))) {
        r->said = STR_EMPTY;
    }
    if (r->in_yaml) {
        if (str_eq(bare, S("..."))) {
            end_yaml(r);
            r->said = STR_EMPTY;
        } else {
            r->yaml.len = (size_t)(line.p + line.len + 1 - r->yaml.p);
        }
    } else if (r->last != NULL && str_eq(bare, S("---"))) {
        r->in_yaml = true;
        r->yaml = (struct str){line.p + line.len + 1, 0};
    } else if (str_eq(bare, S("ok")) || str_starts(bare, S("ok "))) {
        count(r, str_skip(bare, 2), true, is_outer);
    } else if (str_eq(bare, S("not ok")) || str_starts(bare, S("not ok "))) {
        count(r, str_skip(bare, 6), false, is_outer);
    } else if (str_starts(line, S("TAP version "))) {
        r->is_tap = true;
    } else if (str_starts(line, S("# "))) {
        take_trailer(r, line);
    } else if (str_starts(line, S("Bail out!"))) {
        struct test_failure *f = results_fail(r->arena, r->out);

        r->out->errors++;
        if (f != NULL) {
            f->name = S("Bail out!");
            f->message = results_message(str_skip(line, S("Bail out!").len));
        }
    }
}

bool results_tap(struct arena *a, struct str text, struct test_results *out)
{
    struct reading r = {.arena = a, .out = out, .told = {-1, -1, -1, -1, -1}};
    struct str line;

    results_init(out);
    while (results_line(&text, &line)) {
        take_line(&r, line);
    }
    if (r.told[0] >= 0 && r.told[1] >= 0) {
        out->passed = r.told[0];
        out->failed = r.told[1];
        out->skipped = (r.told[2] > 0 ? r.told[2] : 0) + (r.told[4] > 0 ? r.told[4] : 0);
        out->errors += r.told[3] > 0 ? r.told[3] : 0;
    }
    return r.is_tap && out->passed + out->failed + out->skipped + out->errors > 0;
}
