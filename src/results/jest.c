/* jest.c - jest --json. A file that cannot be run is an error. */
#include <string.h>

#include "json/js.h"
#include "results/results.h"

static int64_t number(const json_t *report, const char *key)
{
    json_int_t n = json_integer_value(js_get(report, key));

    return n > 0 ? n : 0;
}

/* Without the frames of the runner and of its libraries. */
static struct str before_stack(struct str message)
{
    const char *at = memmem(message.p, message.len, "\n    at ", 8);

    return at == NULL ? message : str_head(message, (size_t)(at - message.p));
}

static void add_failure(struct arena *a, struct test_results *out, struct str name, struct str file,
                        struct str message)
{
    struct test_failure *f = results_fail(a, out);

    if (f == NULL) {
        return;
    }
    f->name = arena_str(a, str_head(name, 1000));
    message = arena_str(a, str_head(message, (size_t)4 * RESULTS_MESSAGE));
    f->message = results_message(before_stack(message));
    f->file = arena_str(a, str_head(file, 4096));
    results_place(message, false, f);
}

static void take_file(struct arena *a, const json_t *file, struct test_results *out)
{
    struct str path = js_str(js_get(file, "name"));
    const json_t *tests = js_get(file, "assertionResults");

    for (size_t i = 0; i < json_array_size(tests); i++) {
        const json_t *test = json_array_get(tests, i);

        if (str_eq(js_str(js_get(test, "status")), S("failed"))) {
            add_failure(a, out, js_str(js_get(test, "fullName")), path,
                        js_str(json_array_get(js_get(test, "failureMessages"), 0)));
        }
    }
    if (json_array_size(tests) == 0 && str_eq(js_str(js_get(file, "status")), S("failed"))) {
        add_failure(a, out, path, path, js_str(js_get(file, "message")));
    }
}

/* From its beginning to the end of the last file. */
static int64_t duration(const json_t *report, const json_t *files)
{
    json_int_t began = json_integer_value(js_get(report, "startTime"));
    json_int_t end = 0;

    for (size_t i = 0; i < json_array_size(files); i++) {
        json_int_t n = json_integer_value(js_get(json_array_get(files, i), "endTime"));

        end = n > end ? n : end;
    }
    return began > 0 && end >= began ? end - began : -1;
}

bool results_jest(struct arena *a, struct str text, struct test_results *out)
{
    struct err ignored;
    json_t *report own_json = js_parse(text.p, text.len, &ignored);
    const json_t *files = js_get(report, "testResults");

    results_init(out);
    if (!json_is_array(files) || !json_is_integer(js_get(report, "numTotalTests"))) {
        return false;
    }
    out->passed = number(report, "numPassedTests");
    out->failed = number(report, "numFailedTests");
    out->skipped = number(report, "numPendingTests") + number(report, "numTodoTests");
    out->errors = number(report, "numRuntimeErrorTestSuites");
    out->duration_ms = duration(report, files);
    for (size_t i = 0; i < json_array_size(files); i++) {
        take_file(a, json_array_get(files, i), out);
    }
    return true;
}
