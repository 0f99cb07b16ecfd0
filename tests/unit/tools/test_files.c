/* test_files.c - list, read and write, and how paths are read. */
#include "fake.h"
#include "tools/files.h"

static void paths_are_normalised_as_they_were_typed(void **state)
{
    static const char *const cases[][2] = {
        {"", "."},          {" . ", "."},       {"a//b/../c/", "a/c"}, {"/x/./y/", "/x/y"},
        {"../up", "../up"}, {"~", "~"},         {"~/", "~"},           {"~/a/../b", "~/b"},
        {"~/..", "~/.."},   {"~user", "~user"}, {"a ~", "a ~"},
    };
    struct arena a own_arena = {0};

    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        assert_str(files_path(&a, str_from(cases[i][0])), str_from(cases[i][1]));
    }
}

static struct fake *with_box(void **state)
{
    struct fake *f = *state;

    json_decref(fake_ok(f, "create_sandbox", "{\"name\":\"a\"}"));
    return f;
}

static void list_shows_what_things_are(void **state)
{
    struct fake *f = with_box(state);
    own_json json_t *o = NULL;
    own_json json_t *cut = NULL;
    own_json json_t *exact = NULL;
    const json_t *e;

    fake_add(f, "d", FILE_DIR, STR_EMPTY);
    fake_add(f, "f\xff", FILE_REGULAR, S("12345"));
    fake_add(f, "l", FILE_SYMLINK, S("f"));
    o = fake_ok(f, "list_remote_files", NULL);
    assert_json(o, "truncated", json_false());
    assert_int_equal(json_array_size(js_get(o, "entries")), 3);
    e = json_array_get(js_get(o, "entries"), 0);
    assert_json(e, "path", json_string("./d"));
    assert_json(e, "is_dir", json_true());
    assert_null(js_get(e, "type"));
    e = json_array_get(js_get(o, "entries"), 1);
    assert_json(e, "path", json_string("./f\xef\xbf\xbd"));
    assert_json(e, "is_dir", json_false());
    assert_json(e, "size", json_integer(5));
    assert_json(e, "mtime", json_integer(1000000000));
    assert_json(json_array_get(js_get(o, "entries"), 2), "type", json_string("symlink"));
    cut = fake_ok(f, "list_remote_files", "{\"path\":\"x/\",\"max_entries\":2}");
    assert_json(cut, "truncated", json_true());
    assert_json(json_array_get(js_get(cut, "entries"), 0), "path", json_string("x/d"));
    exact = fake_ok(f, "list_remote_files", "{\"max_entries\":\"3\"}");
    assert_json(exact, "truncated", json_false());
}

static void a_wrong_kind_of_path_is_explained(void **state)
{
    struct fake *f = with_box(state);

    fake_add(f, "d", FILE_DIR, STR_EMPTY);
    fake_add(f, "f", FILE_REGULAR, S("12345"));
    json_decref(fake_fails(f, "list_remote_files", "{\"remote_path\":\"f\"}", "invalid",
                           "f is a file, not a folder"));
    json_decref(fake_fails(f, "read_remote_file", "{\"remote_path\":\"d\"}", "invalid",
                           "d is a folder, not a file"));
    json_decref(fake_fails(f, "write_remote_file", "{\"remote_path\":\"d\",\"content\":\"\"}",
                           "invalid", "d is a folder, not a file"));
    json_decref(fake_fails(f, "read_remote_file", "{\"remote_path\":\"/no\"}", "not_found", "/no"));
    json_decref(fake_fails(f, "read_remote_file", "{\"remote_path\":\" \"}", "invalid", "empty"));
    json_decref(fake_fails(f, "read_remote_file", "{}", "invalid", "remote_path is required"));
    json_decref(fake_fails(f, "read_remote_file", "{\"remote_path\":\"output:../../x\"}",
                           "not_found", "there is no output"));
}

static void reading_makes_no_box(void **state)
{
    struct fake *f = *state;

    json_decref(fake_fails(f, "list_remote_files", NULL, "not_found", "create_sandbox"));
    json_decref(fake_fails(f, "read_remote_file", "{\"remote_path\":\"x\"}", "not_found",
                           "create_sandbox"));
    assert_int_equal(f->n_boxes, 0);
}

static void text_is_read_in_pieces_of_whole_characters(void **state)
{
    struct fake *f = with_box(state);
    own_json json_t *whole = NULL;
    own_json json_t *cut = NULL;
    own_json json_t *rest = NULL;
    own_json json_t *past = NULL;
    own_json json_t *inside = NULL;

    fake_add(f, "u", FILE_REGULAR, S("ab\xc3\xa9\xe2\x82\xac\x1b[0m"));
    whole = fake_ok(f, "read_remote_file", "{\"remote_path\":\"./u\"}");
    assert_json(whole, "content", json_string("ab\u00e9\u20ac\x1b[0m"));
    assert_json(whole, "size", json_integer(11));
    assert_json(whole, "file_size", json_integer(11));
    assert_json(whole, "offset", json_integer(0));
    assert_json(whole, "truncated", json_false());
    assert_json(whole, "encoding", json_string("utf-8"));
    assert_null(js_get(whole, "next_offset"));
    cut = fake_ok(f, "read_remote_file", "{\"remote_path\":\"u\",\"max_bytes\":6}");
    assert_json(cut, "content", json_string("ab\u00e9"));
    assert_json(cut, "size", json_integer(4));
    assert_json(cut, "truncated", json_true());
    assert_json(cut, "next_offset", json_integer(4));
    rest = fake_ok(f, "read_remote_file", "{\"remote_path\":\"u\",\"offset\":4,\"max_bytes\":3}");
    assert_json(rest, "content", json_string("\u20ac"));
    past = fake_ok(f, "read_remote_file", "{\"remote_path\":\"u\",\"offset\":99}");
    assert_json(past, "content", json_string(""));
    assert_json(past, "size", json_integer(0));
    assert_json(past, "truncated", json_false());
    inside = fake_ok(f, "read_remote_file", "{\"remote_path\":\"u\",\"offset\":3}");
    assert_json(inside, "content", json_string("\ufffd\u20ac\x1b[0m"));
}

/* A reader that follows next_offset must reach the end, however small its pieces. */
static void every_piece_size_gets_through_a_file(void **state)
{
    struct fake *f = with_box(state);

    fake_add(f, "u", FILE_REGULAR, S("\xf0\x9f\x8e\x89\xe2\x82\xac\xc3\xa9x\xf0\x9f\x8e\x89"));
    for (int size = 1; size <= 15; size++) {
        json_int_t offset = 0;
        int pieces = 0;
        bool more = true;

        while (more) {
            char arguments[96];
            own_json json_t *o = NULL;

            (void)snprintf(arguments, sizeof(arguments),
                           "{\"remote_path\":\"u\",\"max_bytes\":%d,\"offset\":%lld}", size,
                           (long long)offset);
            o = fake_ok(f, "read_remote_file", arguments);
            more = json_is_true(js_get(o, "truncated"));
            assert_true(json_integer_value(js_get(o, "size")) > 0);
            offset += json_integer_value(js_get(o, "size"));
            assert_true(++pieces <= 14);
        }
        assert_int_equal(offset, 14);
    }
}

static void binary_is_base64_by_itself_and_on_demand(void **state)
{
    struct fake *f = with_box(state);
    own_json json_t *nul = NULL;
    own_json json_t *invalid = NULL;
    own_json json_t *forced = NULL;
    own_json json_t *scrubbed = NULL;

    fake_add(f, "nul", FILE_REGULAR, S("a\0b"));
    fake_add(f, "bad", FILE_REGULAR, S("a\xff"));
    fake_add(f, "text", FILE_REGULAR, S("foo"));
    nul = fake_ok(f, "read_remote_file", "{\"remote_path\":\"nul\"}");
    assert_json(nul, "content", json_string("YQBi"));
    assert_json(nul, "encoding", json_string("base64"));
    assert_json(nul, "size", json_integer(3));
    invalid = fake_ok(f, "read_remote_file", "{\"remote_path\":\"bad\"}");
    assert_json(invalid, "content", json_string("Yf8="));
    forced = fake_ok(f, "read_remote_file", "{\"remote_path\":\"text\",\"encoding\":\"base64\"}");
    assert_json(forced, "content", json_string("Zm9v"));
    scrubbed = fake_ok(f, "read_remote_file", "{\"remote_path\":\"bad\",\"encoding\":\"utf-8\"}");
    assert_json(scrubbed, "content", json_string("a\ufffd"));
}

static void an_answer_fits_whatever_the_file_holds(void **state)
{
    static const char fill[] = {'x', '\n', '\x01', '\x7f', '\xff', '\0'};
    struct fake *f = with_box(state);
    size_t len = 2 << 20;
    own_mem char *bytes = xmalloc(len);

    for (size_t i = 0; i < sizeof(fill); i++) {
        own_json json_t *o = NULL;
        own_json json_t *text = NULL;

        memset(bytes, fill[i], len);
        fake_add(f, "big", FILE_REGULAR, (struct str){bytes, len});
        o = fake_ok(f, "read_remote_file", "{\"remote_path\":\"big\",\"max_bytes\":99999999}");
        assert_json(o, "truncated", json_true());
        assert_true(json_integer_value(js_get(o, "size")) >= 100000);
        assert_json(o, "next_offset", json_integer(json_integer_value(js_get(o, "size"))));
        text = fake_ok(f, "read_remote_file",
                       "{\"remote_path\":\"big\",\"max_bytes\":99999999,\"encoding\":\"utf-8\"}");
        assert_true(json_integer_value(js_get(text, "size")) >= 100000);
    }
}

static void what_is_written_is_there(void **state)
{
    struct fake *f = with_box(state);
    own_json json_t *o = NULL;
    own_json json_t *more = NULL;
    own_json json_t *binary = NULL;

    o = fake_ok(f, "write_remote_file",
                "{\"remote_path\":\"./d/../a.txt\",\"content\":\"gr\u00fc\u00dfe, some words\","
                "\"mode\":\"0755\"}");
    assert_json(o, "path", json_string("a.txt"));
    assert_json(o, "size", json_integer(19));
    assert_json(o, "status", json_string("written"));
    assert_null(js_get(o, "note"));
    assert_int_equal(fake_get(f, S("a.txt"))->mode, 0755);
    more =
        fake_ok(f, "write_remote_file", "{\"path\":\"a.txt\",\"content\":\"!\",\"append\":true}");
    assert_json(more, "size", json_integer(20));
    binary = fake_ok(f, "write_remote_file",
                     "{\"remote_path\":\"b\",\"content\":\"AP8=\",\"encoding\":\"base64\"}");
    assert_json(binary, "size", json_integer(2));
    assert_memory_equal(fake_get(f, S("b"))->bytes, "\0\xff", 2);
    json_decref(fake_ok(f, "write_remote_file", "{\"remote_path\":\"e\",\"content\":\"\"}"));
    assert_int_equal(fake_get(f, S("e"))->len, 0);
}

static void a_wrong_write_writes_nothing(void **state)
{
    static const char *const cases[][2] = {
        {"{\"remote_path\":\"x\",\"content\":\"not base64!\",\"encoding\":\"base64\"}",
         "content was not written"},
        {"{\"remote_path\":\"x\",\"content\":\"\",\"mode\":\"rwx\"}", "mode must be"},
        {"{\"remote_path\":\"x\",\"content\":\"\",\"mode\":\"999\"}", "mode must be"},
        {"{\"remote_path\":\"x\",\"content\":\"\",\"mode\":\"77777\"}", "mode must be"},
        {"{\"remote_path\":\"x\",\"content\":\"\",\"mode\":\"0\"}", "mode must be"},
        {"{\"remote_path\":\"x\",\"content\":\"\",\"encoding\":\"latin1\"}", "encoding must be"},
        {"{\"remote_path\":\"x/\",\"content\":\"\"}", "must name a file"},
        {"{\"remote_path\":\"\",\"content\":\"\"}", "must name a file"},
        {"{\"remote_path\":\"output:0123456789ab\",\"content\":\"\"}", "can only be read"},
        {"{\"remote_path\":\"x\",\"content\":\"a\\u0000b\"}", "content must not contain NUL"},
        {"{\"remote_path\":\"x\"}", "content is required"},
        {"{\"content\":\"x\"}", "remote_path is required"},
    };
    struct fake *f = *state;

    for (size_t i = 0; i < COUNTOF(cases); i++) {
        json_decref(fake_fails(f, "write_remote_file", cases[i][0], "invalid", cases[i][1]));
    }
    assert_int_equal(f->n_files, 0);
    assert_int_equal(f->n_boxes, 0);
}

static void writing_makes_a_box_and_remakes_one_that_ended(void **state)
{
    struct fake *f = *state;
    own_json json_t *first = NULL;
    own_json json_t *second = NULL;

    first = fake_ok(f, "write_remote_file", "{\"remote_path\":\"x\",\"content\":\"1\"}");
    assert_non_null(strstr(json_string_value(js_get(first, "note")), "a sandbox was made"));
    f->boxes[0]->gone = true;
    second = fake_ok(f, "write_remote_file", "{\"remote_path\":\"x\",\"content\":\"22\"}");
    assert_json(second, "size", json_integer(2));
    assert_non_null(strstr(json_string_value(js_get(second, "note")), "had ended"));
    assert_int_equal(f->n_boxes, 2);
    f->boxes[1]->gone = true;
    json_decref(
        fake_fails(f, "read_remote_file", "{\"remote_path\":\"x\"}", "gone", "the test said so"));
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(paths_are_normalised_as_they_were_typed),
        FAKE_TEST(list_shows_what_things_are),
        FAKE_TEST(a_wrong_kind_of_path_is_explained),
        FAKE_TEST(reading_makes_no_box),
        FAKE_TEST(text_is_read_in_pieces_of_whole_characters),
        FAKE_TEST(every_piece_size_gets_through_a_file),
        FAKE_TEST(binary_is_base64_by_itself_and_on_demand),
        FAKE_TEST(an_answer_fits_whatever_the_file_holds),
        FAKE_TEST(what_is_written_is_there),
        FAKE_TEST(a_wrong_write_writes_nothing),
        FAKE_TEST(writing_makes_a_box_and_remakes_one_that_ended),
    };

    return cmocka_run_group_tests(all, NULL, NULL);
}
