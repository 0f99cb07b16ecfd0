/* test_output.c - what a command printed: in the answer, on disk, and afterwards. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "core/output.h"
#include "test.h"

#define BOX "0123456789abcdef0123456789abcdef"

static char dir[] = "/tmp/anybox-output-XXXXXX";

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir + strlen(dir) - 6, 7, "XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    struct err e = {0};

    (void)state;
    return fd_remove_tree(AT_FDCWD, dir, &e);
}

static struct output *new_output(int64_t max_chars)
{
    return output_new(str_from(dir), S(BOX), max_chars);
}

static void feed(struct output *o, enum stream which, struct str bytes)
{
    struct sink sink = output_sink(o);
    struct err e = {0};

    assert_ok(sink.write(sink.arg, which, bytes, &e), &e);
}

static struct str text_of(struct output *o, enum stream which, struct buf *to, bool *cut)
{
    buf_init(to, 1 << 20);
    output_text(o, which, to, cut);
    return buf_str(to);
}

static size_t files_kept(void)
{
    char path[128];
    size_t n = 0;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/outputs/" BOX, dir);
    d = opendir(path);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry != NULL; entry = readdir(d)) {
        n += entry->d_name[0] != '.';
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

/* The id behind "output:" in a marker. */
static struct str marker_id(struct str text)
{
    const char *at = text.p ? strstr(text.p, "\"output:") : NULL;

    assert_non_null(at);
    at += strlen("\"output:");
    return (struct str){at, strcspn(at, "\"")};
}

static void read_all(struct str id, struct arena *a, struct str *bytes)
{
    struct err e = {0};
    int64_t size = 0;

    assert_ok(output_read(str_from(dir), id, 0, OUTPUT_FILE_MAX, a, bytes, &size, &e), &e);
    assert_int_equal(size, bytes->len);
}

static void what_fits_is_given_whole_and_touches_no_disk(void **state)
{
    struct output *o = new_output(20);
    struct buf out own_buf = {0};
    struct buf err own_buf = {0};
    struct buf none own_buf = {0};
    bool cut = true;

    (void)state;
    assert_str(text_of(o, STREAM_OUT, &none, &cut), STR_EMPTY);
    assert_false(cut);
    feed(o, STREAM_OUT, S("gr\xc3"));
    feed(o, STREAM_OUT, S("\xbc\xc3\x9f \x1b[31mred\x1b[0m\n"));
    feed(o, STREAM_ERR, S("10%\r20%\n\0"));
    assert_str(text_of(o, STREAM_OUT, &out, &cut), S("gr\u00fc\u00df red\n"));
    assert_false(cut);
    assert_str(text_of(o, STREAM_ERR, &err, &cut), S("20%\n"));
    assert_false(cut);
    assert_int_equal(output_lines(o), 2);
    assert_int_equal(files_kept(), 0);
    output_free(o);
}

static void characters_are_counted_not_bytes(void **state)
{
    struct output *o = new_output(100);
    struct buf text own_buf = {0};
    bool cut = true;

    (void)state;
    for (int i = 0; i < 100; i++) {
        feed(o, STREAM_OUT, S("\xf0\x9f\x8e\x89"));
    }
    assert_int_equal(text_of(o, STREAM_OUT, &text, &cut).len, 400);
    assert_false(cut);
    assert_int_equal(files_kept(), 0);
    output_free(o);
}

static void a_little_too_long_is_cut_in_the_middle_and_kept(void **state)
{
    struct output *o = new_output(10);
    struct arena a own_arena = {0};
    struct buf text own_buf = {0};
    struct str whole;
    struct str got;
    bool cut = false;

    (void)state;
    arena_init(&a, 64 << 20);
    feed(o, STREAM_OUT, S("abcdefghijklmnopqrstuvwxyz"));
    got = text_of(o, STREAM_OUT, &text, &cut);
    assert_true(cut);
    assert_true(str_starts(got, S("abcde\n... [16 bytes cut here; read_remote_file(\"output:")));
    assert_true(str_ends(got, S("\") has all of it] ...\nvwxyz")));
    read_all(marker_id(got), &a, &whole);
    assert_str(whole, S("abcdefghijklmnopqrstuvwxyz"));
    output_free(o);
}

static void a_long_stream_is_bounded_and_whole_on_disk(void **state)
{
    struct output *o = new_output(1000);
    struct arena a own_arena = {0};
    struct buf text own_buf = {0};
    struct buf want own_buf = {0};
    struct str whole;
    struct str got;
    struct stat st;
    char path[256];
    bool cut = false;

    (void)state;
    arena_init(&a, 64 << 20);
    buf_init(&want, 4 << 20);
    for (int i = 0; i < 100000; i++) {
        char line[16];
        int len = snprintf(line, sizeof(line), "%d\n", i);

        feed(o, STREAM_ERR, (struct str){line, (size_t)len});
        buf_add(&want, (struct str){line, (size_t)len});
    }
    got = text_of(o, STREAM_ERR, &text, &cut);
    assert_true(cut);
    assert_true(got.len < 1200);
    assert_true(str_starts(got, S("0\n1\n2\n")));
    assert_true(str_ends(got, S("99998\n99999\n")));
    assert_true(str_ends(marker_id(got), S(".err")));
    read_all(marker_id(got), &a, &whole);
    assert_str(whole, buf_str(&want));
    assert_int_equal(output_lines(o), 100000);
    (void)snprintf(path, sizeof(path), "%s/outputs/" BOX "/%.*s", dir, STR_ARG(marker_id(got)));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)snprintf(path, sizeof(path), "%s/outputs/" BOX, dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    output_free(o);
}

static void the_room_of_the_answer_is_kept_too(void **state)
{
    struct output *o = new_output(100000);
    struct buf text own_buf = {0};
    bool cut = false;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        feed(o, STREAM_OUT, S("\xe4\xbd\xa0\xe5\xa5\xbd\n"));
    }
    buf_init(&text, 20000);
    output_text(o, STREAM_OUT, &text, &cut);
    assert_true(cut);
    assert_false(text.cut);
    assert_true(text.len > 15000 && text.len <= 20000);
    assert_true(str_ends(buf_str(&text), S("\xe5\xa5\xbd\n")));
    output_free(o);
}

static void a_file_ends_at_its_maximum_and_the_marker_says_so(void **state)
{
    struct output *o = new_output(100);
    struct arena a own_arena = {0};
    struct buf text own_buf = {0};
    static char chunk[1 << 20];
    struct str whole;
    struct str got;
    bool cut = false;

    (void)state;
    arena_init(&a, 64 << 20);
    memset(chunk, 'y', sizeof(chunk));
    for (int i = 0; i < 18; i++) {
        feed(o, STREAM_OUT, (struct str){chunk, sizeof(chunk)});
    }
    got = text_of(o, STREAM_OUT, &text, &cut);
    assert_non_null(strstr(got.p, "has the first 16 MiB"));
    read_all(marker_id(got), &a, &whole);
    assert_int_equal(whole.len, OUTPUT_FILE_MAX);
    output_free(o);
}

static void pieces_are_read_from_an_offset(void **state)
{
    struct output *o = new_output(4);
    struct arena a own_arena = {0};
    struct buf text own_buf = {0};
    struct err e = {0};
    struct str bytes = STR_EMPTY;
    struct str id;
    int64_t size = 0;
    bool cut = false;

    (void)state;
    arena_init(&a, 64 << 20);
    feed(o, STREAM_OUT, S("0123456789"));
    id = marker_id(text_of(o, STREAM_OUT, &text, &cut));
    assert_ok(output_read(str_from(dir), id, 3, 4, &a, &bytes, &size, &e), &e);
    assert_str(bytes, S("3456"));
    assert_int_equal(size, 10);
    assert_ok(output_read(str_from(dir), id, 99, 4, &a, &bytes, &size, &e), &e);
    assert_str(bytes, STR_EMPTY);
    assert_ok(output_read(str_from(dir), id, INT64_MAX, 4, &a, &bytes, &size, &e), &e);
    assert_str(bytes, STR_EMPTY);
    output_free(o);
}

static void only_the_last_ones_are_kept(void **state)
{
    struct arena a own_arena = {0};
    struct err e = {0};
    char first[40] = "", last[40] = "";
    struct str bytes = STR_EMPTY;
    int64_t size;

    (void)state;
    arena_init(&a, 64 << 20);
    for (int i = 0; i < OUTPUT_FILES + 5; i++) {
        struct output *o = new_output(4);
        struct buf text own_buf = {0};
        struct buf unused own_buf = {0};
        bool cut = false;
        struct timespec gap = {.tv_nsec = 12000000}; /* file times tick that coarsely */
        struct str id;

        feed(o, STREAM_OUT, S("0123456789"));
        feed(o, STREAM_ERR, S("0123456789"));
        id = marker_id(text_of(o, STREAM_OUT, &text, &cut));
        (void)text_of(o, STREAM_ERR, &unused, &cut);
        (void)snprintf(i == 0 ? first : last, sizeof(first), "%.*s", STR_ARG(id));
        output_free(o);
        (void)nanosleep(&gap, NULL);
    }
    assert_int_equal(files_kept(), 2 * OUTPUT_FILES);
    assert_ok(output_read(str_from(dir), str_from(last), 0, 10, &a, &bytes, &size, &e), &e);
    assert_fails(output_read(str_from(dir), str_from(first), 0, 10, &a, &bytes, &size, &e), &e,
                 ERR_NOT_FOUND, "there is no output");
}

static void names_that_are_no_ids_reach_nothing(void **state)
{
    static const char *const tricks[] = {
        "",
        ".",
        "..",
        "../../x",
        "/etc/passwd",
        "abc",
        "ABCDEF012345",
        "0123456789ab/..",
        "0123456789ab.err/",
        "0123456789ab.txt",
        "0123456789abcdef",
        "............",
        "*",
    };
    struct arena a own_arena = {0};
    struct str bytes;
    int64_t size;

    (void)state;
    arena_init(&a, 64 << 20);
    for (size_t i = 0; i < COUNTOF(tricks); i++) {
        struct err e = {0};

        assert_fails(output_read(str_from(dir), str_from(tricks[i]), 0, 10, &a, &bytes, &size, &e),
                     &e, ERR_NOT_FOUND, "there is no output");
    }
}

static void a_box_whose_id_is_no_file_name_keeps_nothing(void **state)
{
    struct output *o = output_new(str_from(dir), S("../../evil"), 4);
    struct buf text own_buf = {0};
    bool cut = false;

    (void)state;
    feed(o, STREAM_OUT, S("0123456789"));
    assert_str(text_of(o, STREAM_OUT, &text, &cut), S("01\n... [6 bytes cut here] ...\n89"));
    assert_true(cut);
    output_free(o);
}

static void a_disk_that_cannot_be_written_costs_only_the_whole(void **state)
{
    struct output *o;
    struct buf text own_buf = {0};
    char path[128];
    bool cut = false;
    int fd;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/outputs", dir);
    fd = open(path, O_CREAT | O_WRONLY, 0600); /* a file where the folder should be */
    assert_true(fd >= 0);
    (void)close(fd);
    o = new_output(4);
    for (int i = 0; i < 10000; i++) {
        feed(o, STREAM_OUT, S("0123456789"));
    }
    assert_str(text_of(o, STREAM_OUT, &text, &cut), S("01\n... [99996 bytes cut here] ...\n89"));
    output_free(o);
}

static void dropping_a_box_removes_its_outputs(void **state)
{
    struct output *o = new_output(4);
    struct buf text own_buf = {0};
    bool cut = false;

    (void)state;
    feed(o, STREAM_OUT, S("0123456789"));
    (void)text_of(o, STREAM_OUT, &text, &cut);
    output_free(o);
    assert_int_equal(files_kept(), 1);
    output_drop(str_from(dir), S("../outputs"));
    assert_int_equal(files_kept(), 1);
    output_drop(str_from(dir), S(BOX));
    assert_int_equal(files_kept(), 0);
    output_drop(str_from(dir), S(BOX));
}

static void the_last_line_is_the_latest_and_short(void **state)
{
    struct output *o = new_output(100);
    struct buf line own_buf = {0};

    (void)state;
    buf_init(&line, 4096);
    output_last_line(o, &line);
    assert_str(buf_str(&line), STR_EMPTY);
    feed(o, STREAM_OUT, S("one\ntwo"));
    feed(o, STREAM_OUT, S(" and a half\n\n"));
    output_last_line(o, &line);
    assert_str(buf_str(&line), S("two and a half"));
    buf_clear(&line);
    feed(o, STREAM_ERR, S("\x1b[1m50%\r60%"));
    output_last_line(o, &line);
    assert_str(buf_str(&line), S("60%"));
    buf_clear(&line);
    for (int i = 0; i < 2000; i++) {
        feed(o, STREAM_ERR, S("\xc3\xa9"));
    }
    output_last_line(o, &line);
    assert_true(line.len > 100 && line.len <= 200);
    output_free(o);
}

static void what_was_lost_on_the_way_is_told(void **state)
{
    struct output *o = new_output(1000);
    struct sink sink = output_sink(o);
    struct buf text own_buf = {0};
    bool cut = false;

    (void)state;
    feed(o, STREAM_OUT, S("before"));
    sink.lost(sink.arg, STREAM_OUT, 4096);
    feed(o, STREAM_OUT, S("after"));
    assert_non_null(
        strstr(text_of(o, STREAM_OUT, &text, &cut).p, "before\n... [4096 bytes lost here"));
    output_free(o);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_fits_is_given_whole_and_touches_no_disk),
        TEST(characters_are_counted_not_bytes),
        TEST(a_little_too_long_is_cut_in_the_middle_and_kept),
        TEST(a_long_stream_is_bounded_and_whole_on_disk),
        TEST(the_room_of_the_answer_is_kept_too),
        TEST(a_file_ends_at_its_maximum_and_the_marker_says_so),
        TEST(pieces_are_read_from_an_offset),
        TEST(only_the_last_ones_are_kept),
        TEST(names_that_are_no_ids_reach_nothing),
        TEST(a_box_whose_id_is_no_file_name_keeps_nothing),
        TEST(a_disk_that_cannot_be_written_costs_only_the_whole),
        TEST(dropping_a_box_removes_its_outputs),
        TEST(the_last_line_is_the_latest_and_short),
        TEST(what_was_lost_on_the_way_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
