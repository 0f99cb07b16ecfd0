/* unittest.c - python3 -m unittest: the summary at the end, and the blocks of failures. */
#include <string.h>

#include "results/results.h"

static const struct str rule = {
    "======================================================================", 70};
static const struct str thin_rule = {
    "----------------------------------------------------------------------", 70};

/* The number behind "word=" in "FAILED (failures=1, errors=2)"; 0: not there. */
static int64_t counted(struct str summary, const char *word)
{
    const char *at = memmem(summary.p, summary.len, word, strlen(word));
    int64_t n =
        at == NULL ? 0 : results_number(str_skip(summary, (size_t)(at - summary.p) + strlen(word)));

    return n > 0 ? n : 0;
}

/* The last paragraph: "AssertionError: 2 != 3". */
static struct str last_words(struct str block)
{
    struct str rest = block, line, words = STR_EMPTY;

    while (results_line(&rest, &line)) {
        if (line.len > 0 && line.p[0] != ' ' && !str_starts(line, S("Traceback "))) {
            words = str_head(str_skip(block, (size_t)(line.p - block.p)), block.len);
            break;
        }
    }
    return words.len > 0 ? words : block;
}

static void add_failure(struct arena *a, struct test_results *out, struct str head,
                        struct str block)
{
    struct test_failure *f = results_fail(a, out);
    struct str rest;

    if (f == NULL) {
        return;
    }
    (void)str_cut(head, ':', &rest);
    f->name = str_trim(rest);
    results_python_place(block, f);
    f->message = results_message(last_words(block));
}

/* A rule, "FAIL: name", a thin rule, and the block up to the next rule of either kind. */
static void read_failures(struct arena *a, struct str text, struct test_results *out)
{
    struct str line;

    while (results_line(&text, &line)) {
        struct str head, block;

        if (!str_eq(line, rule) || !results_line(&text, &head) ||
            (!str_starts(head, S("FAIL: ")) && !str_starts(head, S("ERROR: ")))) {
            continue;
        }
        while (results_line(&text, &line) && !str_eq(line, thin_rule)) {
        }
        block = text;
        while (text.len > 0 && !str_starts(text, rule) && !str_starts(text, thin_rule)) {
            (void)results_line(&text, &line);
        }
        block.len = text.len > 0 ? (size_t)(text.p - block.p) : block.len;
        add_failure(a, out, head, block);
    }
}

bool results_unittest(struct arena *a, struct str text, struct test_results *out)
{
    struct str rest = text, line, seconds;
    int64_t ran = -1;

    results_init(out);
    while (results_line(&rest, &line)) {
        if (str_starts(line, S("Ran ")) && results_number(str_skip(line, 4)) >= 0) {
            struct err ignored;
            double took;

            ran = results_number(str_skip(line, 4));
            while (str_has(line, ' ')) {
                (void)str_cut(line, ' ', &line);
            }
            seconds = str_ends(line, S("s")) ? str_head(line, line.len - 1) : line;
            if (str_to_f64(seconds, &took, &ignored) == 0 && took >= 0 && took < 1e9) {
                out->duration_ms = (int64_t)(took * 1000 + 0.5);
            }
        } else if (ran >= 0 && (str_starts(line, S("OK")) || str_starts(line, S("FAILED")) ||
                                str_starts(line, S("NO TESTS RAN")))) {
            out->failed = counted(line, "failures=") + counted(line, "unexpected successes=");
            out->errors = counted(line, "errors=");
            out->skipped = counted(line, "skipped=");
        }
    }
    if (ran < 0) {
        return false;
    }
    out->passed = ran - out->failed - out->errors - out->skipped;
    out->passed = out->passed < 0 ? 0 : out->passed;
    read_failures(a, text, out);
    return true;
}
