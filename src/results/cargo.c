/* cargo.c - cargo test: the results of each binary added up, and what the failed tests printed. */
#include <string.h>

#include "results/results.h"

/* The number in front of " word" in "1 passed; 2 failed;"; 0: not there. */
static int64_t counted(struct str summary, const char *word)
{
    const char *at = memmem(summary.p, summary.len, word, strlen(word));
    size_t begin = at == NULL ? 0 : (size_t)(at - summary.p);
    int64_t n;

    while (begin > 0 && summary.p[begin - 1] >= '0' && summary.p[begin - 1] <= '9') {
        begin--;
    }
    n = at == NULL ? 0 : results_number(str_skip(summary, begin));
    return n > 0 ? n : 0;
}

static void take_summary(struct str line, struct test_results *out)
{
    const char *at = memmem(line.p, line.len, "finished in ", 12);
    struct str seconds, rest;
    struct err ignored;
    double took;

    out->passed += counted(line, " passed;");
    out->failed += counted(line, " failed;");
    out->skipped += counted(line, " ignored;");
    if (at == NULL) {
        return;
    }
    seconds = str_cut(str_skip(line, (size_t)(at - line.p) + 12), 's', &rest);
    if (str_to_f64(seconds, &took, &ignored) == 0 && took >= 0 && took < 1e9) {
        out->duration_ms =
            (out->duration_ms < 0 ? 0 : out->duration_ms) + (int64_t)(took * 1000 + 0.5);
    }
}

/* "---- tests::fails stdout ----", behind which is what it printed. */
static bool is_head(struct str line, struct str *name)
{
    struct str end = S(" stdout ----");

    if (!str_starts(line, S("---- ")) || !str_ends(line, end) || line.len < 5 + end.len) {
        return false;
    }
    *name = str_head(str_skip(line, 5), line.len - 5 - end.len);
    return true;
}

static struct str block_of(struct str text)
{
    struct str rest = text, line, name;

    while (results_line(&rest, &line)) {
        if (is_head(line, &name) || str_eq(line, S("failures:")) ||
            str_starts(line, S("stack backtrace:")) ||
            str_starts(line, S("note: run with `RUST_BACKTRACE"))) {
            return str_head(text, (size_t)(line.p - text.p));
        }
    }
    return text;
}

bool results_cargo(struct arena *a, struct str text, struct test_results *out)
{
    struct str line, name;
    bool is_cargo = false;

    results_init(out);
    while (results_line(&text, &line)) {
        if (str_starts(line, S("test result: "))) {
            is_cargo = true;
            take_summary(line, out);
        } else if (is_head(line, &name)) {
            struct test_failure *f = results_fail(a, out);

            if (f != NULL) {
                f->name = name;
                f->message = results_message(block_of(text));
                results_place(block_of(text), false, f);
            }
        }
    }
    return is_cargo;
}
