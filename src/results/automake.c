/* automake.c - the summary of automake's tests, and the names that it gives above it. */
#include "results/results.h"

static int64_t behind(struct str line, struct str word)
{
    return str_starts(line, word) ? results_number(str_trim(str_skip(line, word.len))) : -1;
}

static void add_failure(struct arena *a, struct test_results *out, struct str name)
{
    struct test_failure *f = results_fail(a, out);

    if (f != NULL) {
        f->name = str_trim(name);
        f->message = S("see its .log and test-suite.log");
    }
}

bool results_automake(struct arena *a, struct str text, struct test_results *out)
{
    const struct {
        const char *word;
        int64_t *count;
    } words[] = {
        {"# PASS:", &out->passed},  {"# FAIL:", &out->failed},  {"# SKIP:", &out->skipped},
        {"# XFAIL:", &out->passed}, {"# XPASS:", &out->failed}, {"# ERROR:", &out->errors},
    };
    struct str line;
    bool found = false;

    results_init(out);
    while (results_line(&text, &line)) {
        for (size_t i = 0; i < COUNTOF(words); i++) {
            int64_t n = behind(line, str_from(words[i].word));

            if (n >= 0) {
                *words[i].count += n;
                found = true;
            }
        }
        if (str_starts(line, S("FAIL: ")) || str_starts(line, S("ERROR: "))) {
            add_failure(a, out, str_skip(line, str_starts(line, S("FAIL")) ? 6 : 7));
        }
    }
    return found;
}
