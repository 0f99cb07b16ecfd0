#include "core/idle.h"
#include "test.h"

static void the_score_weighs_cpu_memory_and_gpu(void **state)
{
    static const struct {
        struct usage usage;
        double want;
    } cases[] = {
        {{.load_1m = 3.34, .cpus = 2, .memory_used = 34, .memory_total = 1000}, 0.586},
        {{.load_1m = 0, .cpus = 4, .memory_used = 0, .memory_total = 1}, 1.0},
        {{.load_1m = 2, .cpus = 4, .memory_used = 1, .memory_total = 2}, 0.6},
        {{.load_1m = 9, .cpus = 4, .memory_used = 2, .memory_total = 1}, 0.2},
        {{.load_1m = 0,
          .cpus = 1,
          .memory_used = 0,
          .memory_total = 1,
          .gpus = {{.busy_pct = 50}, {.busy_pct = 100}},
          .n_gpus = 2},
         0.85},
        /* A GPU with full memory takes no work, and one that cannot be read is not free. */
        {{.cpus = 1,
          .memory_total = 1,
          .gpus = {{.busy_pct = 0, .memory_used_mb = 950, .memory_total_mb = 1000}},
          .n_gpus = 1},
         0.8},
        {{.cpus = 1, .memory_total = 1, .gpus = {{.busy_pct = -1}}, .n_gpus = 1}, 0.8},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        double got = idle_score(&cases[i].usage);

        if (got < cases[i].want - 1e-9 || got > cases[i].want + 1e-9) {
            fail_msg("case %zu: got %f, want %f", i, got, cases[i].want);
        }
    }
}

static void an_unknown_is_never_idle(void **state)
{
    static const struct usage unknown[] = {
        {.load_1m = -1, .cpus = 2, .memory_used = 1, .memory_total = 2},
        {.load_1m = 1, .cpus = -1, .memory_used = 1, .memory_total = 2},
        {.load_1m = 1, .cpus = 2, .memory_used = -1, .memory_total = 2},
        {.load_1m = 1, .cpus = 2, .memory_used = 1, .memory_total = -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(unknown); i++) {
        assert_true(idle_score(&unknown[i]) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_score_weighs_cpu_memory_and_gpu),
        cmocka_unit_test(an_unknown_is_never_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
