/* fuzz_results.c - readers of what test runners say: the first byte chooses which. */
#include <stdint.h>
#include <stdlib.h>

#include "results/results.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool (*const readers[])(struct arena *, struct str, struct test_results *) = {
        results_junit, results_tap,  results_unittest, results_go,
        results_cargo, results_jest, results_automake, results_summary,
    };
    struct arena arena own_arena = {0};
    struct test_results r;
    struct str text;

    if (size == 0) {
        return 0;
    }
    arena_init(&arena, (size_t)256 << 20);
    text = (struct str){(const char *)data + 1, size - 1};
    if (readers[data[0] % COUNTOF(readers)](&arena, text, &r)) {
        must(r.passed >= 0 && r.failed >= 0 && r.skipped >= 0 && r.errors >= 0);
        must(r.n_failures <= RESULTS_FAILURES);
        for (size_t i = 0; i < r.n_failures; i++) {
            must(r.failures[i].line >= 0 && r.failures[i].message.len <= RESULTS_MESSAGE);
        }
    }
    return 0;
}
