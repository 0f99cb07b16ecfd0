#include "results/results.h"

#include <string.h>

#include "base/utf8.h"

void results_init(struct test_results *r)
{
    *r = (struct test_results){.duration_ms = -1};
}

struct test_failure *results_fail(struct arena *a, struct test_results *r)
{
    if (r->n_failures == RESULTS_FAILURES) {
        r->more = true;
        return NULL;
    }
    if (r->failures == NULL) {
        r->failures = arena_alloc(a, RESULTS_FAILURES, sizeof(*r->failures));
    }
    return &r->failures[r->n_failures++];
}

bool results_line(struct str *text, struct str *line)
{
    if (text->len == 0) {
        return false;
    }
    *line = str_cut(*text, '\n', text);
    if (str_ends(*line, S("\r"))) {
        line->len--;
    }
    return true;
}

int64_t results_number(struct str text)
{
    int64_t n = -1;

    for (size_t i = 0; i < text.len && i < 15 && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
        n = (n < 0 ? 0 : n * 10) + (text.p[i] - '0');
    }
    return n;
}

struct str results_message(struct str text)
{
    return utf8_head(str_trim(text), RESULTS_MESSAGE);
}

/* ---- places ----------------------------------------------------------------------------- */

static bool is_path_byte(char c)
{
    return c > ' ' && strchr("'\"()<>[]{},;:|`=", c) == NULL;
}

/* Where a runner's own code lies, and that of libraries. */
static bool is_foreign(struct str path)
{
    static const char *const parts[] = {"node_modules/",         "site-packages/", "/rustc/",
                                        "/lib/python",           "/src/testing/",  "/src/runtime/",
                                        "/src/internal/runtime/"};

    for (size_t i = 0; i < COUNTOF(parts); i++) {
        if (memmem(path.p, path.len, parts[i], strlen(parts[i])) != NULL) {
            return true;
        }
    }
    return false;
}

/* A name with a short extension, such as "a/b.py". */
static bool is_file(struct str path)
{
    size_t dot = path.len;

    while (dot > 0 && path.p[dot - 1] != '.' && path.p[dot - 1] != '/') {
        dot--;
    }
    return dot > 1 && path.p[dot - 1] == '.' && path.len > dot && path.len - dot <= 5 &&
           !(path.p[dot] >= '0' && path.p[dot] <= '9') && !is_foreign(path);
}

/* The file before the ':' at `at`, when a line's number comes behind it. */
static bool place_at(struct str text, size_t at, struct test_failure *f)
{
    size_t begin = at;
    int64_t line = results_number(str_skip(text, at + 1));
    struct str path;

    while (begin > 0 && at - begin < 1024 && is_path_byte(text.p[begin - 1])) {
        begin--;
    }
    path = str_head(str_skip(text, begin), at - begin);
    if (line <= 0 || !is_file(path) || (begin > 0 && text.p[begin - 1] == ':')) {
        return false;
    }
    f->file = path;
    f->line = line;
    return true;
}

void results_place(struct str text, bool last, struct test_failure *f)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] == ':' && place_at(text, i, f) && !last) {
            return;
        }
    }
}

void results_python_place(struct str text, struct test_failure *f)
{
    struct str line;

    while (results_line(&text, &line)) {
        const char *at = memmem(line.p, line.len, "File \"", 6);
        struct str rest, file;

        if (at == NULL) {
            continue;
        }
        file = str_cut(str_skip(line, (size_t)(at - line.p) + 6), '"', &rest);
        if (str_starts(rest, S(", line ")) && results_number(str_skip(rest, 7)) > 0 &&
            !is_foreign(file)) {
            f->file = file;
            f->line = results_number(str_skip(rest, 7));
        }
    }
}
