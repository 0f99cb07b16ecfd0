#include "cli_sync.h"
#include "test.h"

static void expect(const struct sync_progress *now, int64_t ms, int columns, const char *want)
{
    struct buf line own_buf = {0};

    buf_init(&line, 512);
    bar_line(&line, now, ms, columns);
    assert_str(buf_str(&line), str_from(want));
}

static void the_bar_tells_bytes_files_rate_and_time(void **state)
{
    struct sync_progress now = {
        .files = 3, .files_total = 10, .bytes = 25 << 20, .bytes_total = 100 << 20};

    (void)state;
    expect(&now, 500, 0, "[######..................]  25 %  25.0 of 100.0 MiB  3 of 10 files");
    expect(
        &now, 5000, 0,
        "[######..................]  25 %  25.0 of 100.0 MiB  3 of 10 files  5.0 MiB/s  0:15 left");
    expect(&now, 5000, 30, "[######..................]  25");
}

static void files_count_where_there_are_no_bytes(void **state)
{
    struct sync_progress now = {.files = 1, .files_total = 2};
    struct sync_progress nothing = {0};
    struct sync_progress grown = {.files_total = 1, .bytes = 9, .bytes_total = 3};

    (void)state;
    expect(&now, 0, 0, "[############............]  50 %  0.0 of 0.0 MiB  1 of 2 files");
    expect(&nothing, 0, 0, "[########################] 100 %  0.0 of 0.0 MiB  0 of 0 files");
    expect(&grown, 9000, 40, "[########################] 100 %  0.0 of");
}

static void places_are_told_apart(void **state)
{
    static const struct {
        const char *typed, *box, *path;
    } rows[] = {
        {"work:a/b", "work", "a/b"}, {"work:", "work", ""},  {"./a:b", "", "./a:b"},
        {"a/b:c", "", "a/b:c"},      {"plain", "", "plain"}, {":x", "", ":x"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct place p = cli_place(str_from(rows[i].typed));

        assert_str(p.box, str_from(rows[i].box));
        assert_str(p.path, str_from(rows[i].path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bar_tells_bytes_files_rate_and_time),
        cmocka_unit_test(files_count_where_there_are_no_bytes),
        cmocka_unit_test(places_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
