/*
 * results.h - what test runners say, as counts and failures.
 *
 * Each reader takes what one runner writes (a report, or its whole output) and either
 * understands it or says so by false: nothing is guessed. Texts may come from anybody, be cut
 * anywhere and lie; what is read of them is bounded. Strings of the results point into the
 * text or live in the arena.
 */
#ifndef RESULTS_RESULTS_H
#define RESULTS_RESULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define RESULTS_FAILURES 50
#define RESULTS_MESSAGE  2000 /* bytes */

struct test_failure {
    struct str name;
    struct str file; /* empty: not known */
    int64_t line;    /* 0: not known */
    struct str message;
};

struct test_results {
    int64_t passed, failed, skipped, errors;
    int64_t duration_ms; /* -1: not told */
    struct test_failure *failures;
    size_t n_failures; /* at most RESULTS_FAILURES */
    bool more;         /* there were more */
};

/* JUnit's XML, of pytest, ctest, vitest and most others. */
bool results_junit(struct arena *a, struct str text, struct test_results *out);
/* The Test Anything Protocol: node --test, prove, many a make check. Lines of others are skipped. */
bool results_tap(struct arena *a, struct str text, struct test_results *out);
/* python3 -m unittest -v */
bool results_unittest(struct arena *a, struct str text, struct test_results *out);
/* go test -json */
bool results_go(struct arena *a, struct str text, struct test_results *out);
/* cargo test */
bool results_cargo(struct arena *a, struct str text, struct test_results *out);
/* jest --json */
bool results_jest(struct arena *a, struct str text, struct test_results *out);
/* The summary of automake's parallel tests: "# PASS:  3". */
bool results_automake(struct arena *a, struct str text, struct test_results *out);
/* The last lines of pytest, jest, vitest, mocha and ctest, as they print them for people. */
bool results_summary(struct arena *a, struct str text, struct test_results *out);

/* ---- for the readers ------------------------------------------------------------------ */

void results_init(struct test_results *r);
/* The next one's place, or NULL when there are enough. */
struct test_failure *results_fail(struct arena *a, struct test_results *r);
/* Cuts a line off the text; false: there is none left. The line has no end of line. */
bool results_line(struct str *text, struct str *line);
/* A whole number at the beginning of the text; -1: there is none. */
int64_t results_number(struct str text);
/* "dir/file.ext:12" in a text: the first, or the last; those of a runner's own insides do not
 * count. Leaves *f alone when there is none. */
void results_place(struct str text, bool last, struct test_failure *f);
/* The last 'File "x", line 3' of a Python traceback that is not of a library. */
void results_python_place(struct str text, struct test_failure *f);
/* Without what surrounds it, and not longer than a message is. */
struct str results_message(struct str text);

#endif
