/*
 * summary.c - the lines that runners end with for people: pytest, jest, vitest, mocha and ctest.
 *
 * They are read where there is no report: of commands that the caller gave, and of runners
 * behind a script that knows no options of ours. Each kind has one line that counts, which must
 * be whole; lines with names of failures are taken as they come.
 */
#include <string.h>

#include "results/results.h"

enum kind { PYTEST, JEST, VITEST, MOCHA, CTEST, KINDS };

struct reading {
    struct arena *arena;
    struct test_results *out; /* its failures; the counts are those of the kind that is found */
    struct test_results counts[KINDS];
    bool found[KINDS];
};

static const struct {
    const char *word;
    int place; /* passed, failed, skipped, errors; -1: no test of its own */
} words[] = {
    {"passed", 0},    {"failed", 1}, {"skipped", 2},     {"todo", 2},
    {"error", 3},     {"errors", 3}, {"xpassed", 0},     {"xfailed", 2},
    {"pending", 2},   {"total", -1}, {"deselected", -1}, {"warning", -1},
    {"warnings", -1}, {"rerun", -1}, {"passing", 0},     {"failing", 1},
};

static void add(struct test_results *r, int place, int64_t n)
{
    int64_t *const counts[] = {&r->passed, &r->failed, &r->skipped, &r->errors};

    if (place >= 0) {
        *counts[place] += n;
    }
}

/* "4 failed": false when it is not a number and a word that we know. */
static bool take_count(struct str part, struct test_results *r)
{
    struct str word;
    int64_t n = results_number(part);

    (void)str_cut(part, ' ', &word);
    for (size_t i = 0; n >= 0 && i < COUNTOF(words); i++) {
        if (str_eq(str_trim(word), str_from(words[i].word))) {
            add(r, words[i].place, n);
            return true;
        }
    }
    return false;
}

static bool take_counts(struct str list, char separator, struct test_results *r)
{
    results_init(r);
    if (str_trim(list).len == 0) {
        return false;
    }
    while (list.len > 0) {
        if (!take_count(str_trim(str_cut(list, separator, &list)), r)) {
            return false;
        }
    }
    return true;
}

static struct str without(struct str s, char c)
{
    while (s.len > 0 && (s.p[0] == c || s.p[0] == ' ')) {
        s = str_skip(s, 1);
    }
    while (s.len > 0 && (s.p[s.len - 1] == c || s.p[s.len - 1] == ' ')) {
        s.len--;
    }
    return s;
}

/* "== 3 failed, 8 passed, 1 error in 0.04s ==", with -q without the rules. */
static bool take_pytest(struct reading *r, struct str line)
{
    struct str bare = without(line, '=');
    const char *at = memmem(bare.p, bare.len, " in ", 4);
    struct str seconds, rest;
    struct test_results *to = &r->counts[PYTEST];
    struct err ignored;
    double took;

    if (at == NULL || results_number(bare) < 0) {
        return false;
    }
    seconds = str_cut(str_skip(bare, (size_t)(at - bare.p) + 4), 's', &rest);
    if (str_to_f64(seconds, &took, &ignored) < 0 || took < 0 || took > 1e9 ||
        !take_counts(str_head(bare, (size_t)(at - bare.p)), ',', to)) {
        return false;
    }
    to->duration_ms = (int64_t)(took * 1000 + 0.5);
    return true;
}

/* "Tests  4 failed | 5 passed (11)" of vitest, "Tests:  4 failed, 11 total" of jest. */
static bool take_js(struct reading *r, struct str bare, enum kind kind)
{
    struct str rest;

    if (kind == JEST) {
        return str_starts(bare, S("Tests: ")) &&
               take_counts(str_skip(bare, 7), ',', &r->counts[JEST]);
    }
    return str_starts(bare, S("Tests  ")) &&
           take_counts(str_trim(str_cut(str_skip(bare, 7), '(', &rest)), '|', &r->counts[VITEST]);
}

/* "5 passing (10ms)", "1 failing": a line each. */
static bool take_mocha(struct reading *r, struct str bare)
{
    static const char *const ends[] = {" passing", " failing", " pending"};
    struct str rest;
    struct str count = str_trim(str_cut(bare, '(', &rest));

    for (size_t i = 0; i < COUNTOF(ends); i++) {
        if (str_ends(count, str_from(ends[i])) && (i == 0 || r->found[MOCHA])) {
            if (!r->found[MOCHA]) {
                results_init(&r->counts[MOCHA]);
            }
            return take_count(count, &r->counts[MOCHA]);
        }
    }
    return false;
}

/* "25% tests passed, 3 tests failed out of 4" */
static bool take_ctest(struct reading *r, struct str bare)
{
    struct str head = S(" tests failed out of ");
    const char *at = memmem(bare.p, bare.len, head.p, head.len);
    struct str rest;
    int64_t failed, total;

    (void)str_cut(bare, ',', &rest);
    if (at == NULL || results_number(bare) < 0) {
        return false;
    }
    failed = results_number(str_trim(rest));
    total = results_number(str_skip(bare, (size_t)(at - bare.p) + head.len));
    if (failed < 0 || total < failed) {
        return false;
    }
    results_init(&r->counts[CTEST]);
    r->counts[CTEST].failed = failed;
    r->counts[CTEST].passed = total - failed;
    return true;
}

/* ---- names --------------------------------------------------------------------------------- */

/* "FAILED a/test_x.py::test_a[1] - AssertionError: no" */
static void name_pytest(struct reading *r, struct str rest)
{
    const char *bracket = memchr(rest.p, '[', rest.len);
    const char *close = bracket == NULL ? NULL : memmem(rest.p, rest.len, "] - ", 4);
    const char *dash = close != NULL ? close + 1 : memmem(rest.p, rest.len, " - ", 3);
    struct str name = dash == NULL ? rest : str_head(rest, (size_t)(dash - rest.p));
    struct str end;
    struct test_failure *f;

    if (memmem(name.p, name.len, ".py", 3) == NULL) {
        return;
    }
    f = results_fail(r->arena, r->out);
    if (f != NULL) {
        f->name = str_trim(name);
        f->file = str_cut(f->name, ':', &end);
        f->message = results_message(dash == NULL ? STR_EMPTY : str_skip(rest, name.len + 3));
    }
}

/* "FAIL  a.test.js > group > name" */
static void name_vitest(struct reading *r, struct str rest)
{
    const char *at = memmem(rest.p, rest.len, " > ", 3);
    struct test_failure *f = results_fail(r->arena, r->out);

    if (f != NULL) {
        f->name = str_trim(rest);
        f->file = at == NULL ? STR_EMPTY : str_trim(str_head(rest, (size_t)(at - rest.p)));
    }
}

/* jest tells many failures twice. */
static void name_jest(struct reading *r, struct str name)
{
    struct test_failure *f;

    for (size_t i = 0; i < r->out->n_failures; i++) {
        if (str_eq(r->out->failures[i].name, name)) {
            return;
        }
    }
    f = results_fail(r->arena, r->out);
    if (f != NULL) {
        f->name = name;
    }
}

/* "  2 - bad (Failed)" */
static void name_ctest(struct reading *r, struct str bare)
{
    const char *dash = memmem(bare.p, bare.len, " - ", 3);
    struct str name, why;
    struct test_failure *f;

    if (dash == NULL || results_number(bare) < 0 || !str_ends(bare, S(")"))) {
        return;
    }
    name = str_cut(str_skip(bare, (size_t)(dash - bare.p) + 3), '(', &why);
    f = results_fail(r->arena, r->out);
    if (f != NULL) {
        f->name = str_trim(name);
        f->message = str_head(why, why.len - 1);
    }
}

static void take_name(struct reading *r, struct str line, struct str bare)
{
    if (str_starts(line, S("FAILED ")) || str_starts(line, S("ERROR "))) {
        name_pytest(r, str_skip(line, str_starts(line, S("FAILED ")) ? 7 : 6));
    } else if (str_starts(line, S(" FAIL  "))) {
        name_vitest(r, str_skip(line, 7));
    } else if (str_starts(bare, S("\xe2\x97\x8f ")) && bare.p != line.p) {
        name_jest(r, str_trim(str_skip(bare, 4)));
    } else if (r->found[CTEST]) {
        name_ctest(r, bare);
    }
}

bool results_summary(struct arena *a, struct str text, struct test_results *out)
{
    struct reading r = {.arena = a, .out = out};
    struct str line;

    results_init(out);
    while (results_line(&text, &line)) {
        struct str bare = str_trim(line);

        r.found[PYTEST] |= take_pytest(&r, line);
        r.found[JEST] |= take_js(&r, bare, JEST);
        r.found[VITEST] |= take_js(&r, bare, VITEST);
        r.found[MOCHA] |= take_mocha(&r, bare);
        r.found[CTEST] |= take_ctest(&r, bare);
        take_name(&r, line, bare);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        if (r.found[kind]) {
            const struct test_results *c = &r.counts[kind];

            out->passed = c->passed;
            out->failed = c->failed;
            out->skipped = c->skipped;
            out->errors = c->errors;
            out->duration_ms = c->duration_ms;
            return true;
        }
    }
    return false;
}
