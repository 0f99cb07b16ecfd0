#include "base/buf.h"
#include "config/toml.h"
#include "test.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 64u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static const struct toml_value *get(const struct toml_value *table, const char *key)
{
    for (const struct toml_value *v = table->first; v != NULL; v = v->next) {
        if (str_eq(v->key, str_from(key))) {
            return v;
        }
    }
    fail_msg("there is no key \"%s\"", key);
    return NULL;
}

static struct toml_value *parse(const char *text)
{
    struct err e;
    struct toml_value *root = toml_parse(&arena, S("f.toml"), str_from(text), &e);

    if (root == NULL) {
        fail_msg("%s: %s", text, e.msg);
    }
    return root;
}

static void an_empty_file_is_an_empty_table(void **state)
{
    (void)state;
    assert_null(parse("")->first);
    assert_null(parse("\n\r\n  \t# only a comment")->first);
    assert_null(parse("\xef\xbb\xbf# behind a byte order mark\n")->first);
}

static void scalars_have_their_types(void **state)
{
    struct toml_value *root = parse("s = \"text\"\nl = 'C:\\raw'\ni = -1_000\nf = 1.5e3\n"
                                    "t = true # yes\nn=false\nh = 0xFF_ff\no = 0o17\nb = 0b1_01\n"
                                    "z = 0\nplus = +7\nempty = \"\"\nmin = -9223372036854775808\n"
                                    "max = 9223372036854775807\ne = 6.02E-2\n");

    (void)state;
    assert_int_equal(get(root, "s")->type, TOML_STRING);
    assert_str(get(root, "s")->string, S("text"));
    assert_str(get(root, "l")->string, S("C:\\raw"));
    assert_int_equal(get(root, "i")->type, TOML_INTEGER);
    assert_int_equal(get(root, "i")->integer, -1000);
    assert_int_equal(get(root, "f")->type, TOML_FLOAT);
    assert_true(get(root, "f")->real == 1500.0);
    assert_int_equal(get(root, "t")->type, TOML_BOOLEAN);
    assert_true(get(root, "t")->boolean);
    assert_false(get(root, "n")->boolean);
    assert_int_equal(get(root, "h")->integer, 65535);
    assert_int_equal(get(root, "o")->integer, 15);
    assert_int_equal(get(root, "b")->integer, 5);
    assert_int_equal(get(root, "z")->integer, 0);
    assert_int_equal(get(root, "plus")->integer, 7);
    assert_str(get(root, "empty")->string, S(""));
    assert_true(get(root, "min")->integer == INT64_MIN);
    assert_true(get(root, "max")->integer == INT64_MAX);
    assert_true(get(root, "e")->real > 0.0601 && get(root, "e")->real < 0.0603);
}

static void escapes_are_read(void **state)
{
    struct toml_value *root =
        parse("a = \"q\\\" b\\\\ t\\t n\\n \\u00e9 \\U0001F600 \\b\\f\\r\"\n'a b' = 'no \\n'\n"
              "\"k\\u0065y\" = \"\xc3\xa9\"\n");

    (void)state;
    assert_str(get(root, "a")->string, S("q\" b\\ t\t n\n \xc3\xa9 \xf0\x9f\x98\x80 \b\f\r"));
    assert_str(get(root, "a b")->string, S("no \\n"));
    assert_str(get(root, "key")->string, S("\xc3\xa9"));
}

static void tables_nest(void **state)
{
    struct toml_value *root = parse("top = 1\n[a]\nx = 1\n[a.b . \"c d\"]\ny = 2\n[ z ]\n"
                                    "p.q.r = 3\np.q.s = 4\n[z.p.more]\nw = 5\n[a.b]\nv = 6\n");
    const struct toml_value *b = get(get(root, "a"), "b");

    (void)state;
    assert_int_equal(get(root, "top")->integer, 1);
    assert_int_equal(get(get(root, "a"), "x")->integer, 1);
    assert_int_equal(get(get(b, "c d"), "y")->integer, 2);
    assert_int_equal(get(b, "v")->integer, 6);
    assert_int_equal(get(get(get(get(root, "z"), "p"), "q"), "r")->integer, 3);
    assert_int_equal(get(get(get(get(root, "z"), "p"), "q"), "s")->integer, 4);
    assert_int_equal(get(get(get(get(root, "z"), "p"), "more"), "w")->integer, 5);
}

static void arrays_of_tables_grow(void **state)
{
    struct toml_value *root = parse("[[ssh]]\nname = \"a\"\n[ssh.opts]\nx = 1\n[[ssh]]\nname = "
                                    "\"b\"\n[ssh.opts]\nx = 2\n[[ssh.keys]]\n[[ssh.keys]]\n");
    const struct toml_value *ssh = get(root, "ssh");

    (void)state;
    assert_int_equal(ssh->type, TOML_TABLES);
    assert_str(get(ssh->first, "name")->string, S("a"));
    assert_str(get(ssh->last, "name")->string, S("b"));
    assert_int_equal(get(get(ssh->last, "opts"), "x")->integer, 2);
    assert_ptr_equal(get(ssh->last, "keys")->first->next, get(ssh->last, "keys")->last);
}

static void arrays_are_flat_and_alike(void **state)
{
    struct toml_value *root =
        parse("a = [ \"x\", 'y', # why\n\n \"z\" , ]\nb = []\nc = [1,2_0,\r\n0x3]\n");
    const struct toml_value *a = get(root, "a");

    (void)state;
    assert_int_equal(a->type, TOML_ARRAY);
    assert_str(a->first->string, S("x"));
    assert_str(a->first->next->string, S("y"));
    assert_str(a->last->string, S("z"));
    assert_null(get(root, "b")->first);
    assert_int_equal(get(root, "c")->first->next->integer, 20);
    assert_int_equal(get(root, "c")->last->integer, 3);
}

static void places_count_lines_and_characters(void **state)
{
    struct toml_value *root = parse("# x\n[t]\r\n  \"\xc3\xa9\xc3\xa9\" =  12 # y\n");
    const struct toml_value *v = get(get(root, "t"), "\xc3\xa9\xc3\xa9");

    (void)state;
    assert_int_equal(get(root, "t")->key_at.line, 2);
    assert_int_equal(get(root, "t")->key_at.column, 2);
    assert_int_equal(v->key_at.line, 3);
    assert_int_equal(v->key_at.column, 3);
    assert_int_equal(v->at.line, 3);
    assert_int_equal(v->at.column, 11);
}

static void mistakes_are_told_with_their_place(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a", "f.toml:1:2: '=' is missing behind the key \"a\""},
        {"a b = 1", "f.toml:1:3: '=' is missing behind the key \"a\""},
        {"= 1", "f.toml:1:1: a key is missing here; a key is made of letters, digits, '_' and '-', "
                "or stands in quotes"},
        {"a. = 1", "f.toml:1:4: a key is missing here; a key is made of letters, digits, '_' and "
                   "'-', or stands in quotes"},
        {"a =", "f.toml:1:4: a value is missing here"},
        {"a = \nb = 1", "f.toml:1:5: a value is missing here"},
        {"a = 1 b = 2", "f.toml:1:7: unexpected text; only a comment may follow on this line"},
        {"[a] b", "f.toml:1:5: unexpected text; only a comment may follow on this line"},
        {"a = 1\nb = 2\na = 3", "f.toml:3:1: the key \"a\" stands here twice, first in line 1"},
        {"[a]\n[b]\n[a]\n", "f.toml:3:2: \"a\" is already a table, in line 1"},
        {"[[a]]\n[a]\n", "f.toml:2:2: \"a\" is already an array of tables, in line 1"},
        {"[a]\n[[a]]\n", "f.toml:2:3: \"a\" is already a table, in line 1"},
        {"a = 1\n[a]\n", "f.toml:2:2: \"a\" is already an integer, in line 1"},
        {"a = 1\n[a.b]\n", "f.toml:2:2: \"a\" is already an integer, in line 1"},
        {"a = 1\na.b = 2\n", "f.toml:2:1: \"a\" is already an integer, in line 1"},
        {"[t]\na.b = 1\n[t.a]\n", "f.toml:3:4: \"a\" is already a table, in line 2"},
        {"[a.b]\n[a]\nb.c = 1\n", "f.toml:3:1: \"b\" is already a table, in line 1"},
        {"[a", "f.toml:1:3: ']' is missing at the end of this header"},
        {"[[a]", "f.toml:1:4: ']]' is missing at the end of this header"},
        {"a = \"x", "f.toml:1:5: this string is not closed on its line"},
        {"a = 'x\n'", "f.toml:1:5: this string is not closed on its line"},
        {"a = \"\\q\"",
         "f.toml:1:6: unknown escape in a string; accepted are \\b \\t \\n \\f \\r "
         "\\\" \\\\ \\uXXXX \\UXXXXXXXX (a literal string in '...' takes no escapes)"},
        {"a = \"\\u12g4\"", "f.toml:1:6: \\u needs 4 hexadecimal digits"},
        {"a = \"\\uD800\"", "f.toml:1:6: \\uD800 is not a character"},
        {"a = \"\\U00110000\"", "f.toml:1:6: \\U00110000 is not a character"},
        {"a = \"\\u0000\"", "f.toml:1:6: \\u0000 is not a character"},
        {"a = \"x\x01\"",
         "f.toml:1:7: a control character (0x01) in a string; write it as \\u0001"},
        {"# \x02", "f.toml:1:3: a control character (0x02) in a comment"},
        {"a = \"\"\"x\"\"\"", "f.toml:1:5: multi-line strings are not supported here; use \\n in a "
                              "string on one line"},
        {"a = 1979-05-27", "f.toml:1:5: dates and times are not supported here; write it as a "
                           "string in quotes"},
        {"a = 07:32:00", "f.toml:1:5: dates and times are not supported here; write it as a string "
                         "in quotes"},
        {"a = {b = 1}", "f.toml:1:5: inline tables are not supported here; write a [table] of its "
                        "own"},
        {"a = [[1]]", "f.toml:1:6: arrays in arrays are not supported here"},
        {"a = [1, \"x\"]", "f.toml:1:9: a string in an array that begins with an integer; all must "
                           "be alike"},
        {"a = [true]", "f.toml:1:6: a boolean in an array; strings or integers are accepted"},
        {"a = [1", "f.toml:1:5: this array is not closed with ']'"},
        {"a = [1 2]", "f.toml:1:8: ',' or ']' is missing in this array"},
        {"a = [,]", "f.toml:1:6: a value is missing here"},
        {"a = yes", "f.toml:1:5: \"yes\" is not a value; text stands in quotes: \"yes\""},
        {"a = inf", "f.toml:1:5: inf and nan are not supported here; write a number"},
        {"a = 1__0", "f.toml:1:5: \"1__0\" is not a number: '_' may only stand between digits"},
        {"a = 1_", "f.toml:1:5: \"1_\" is not a number: '_' may only stand between digits"},
        {"a = 1_e5", "f.toml:1:5: \"1_e5\" is not a number: '_' may only stand between digits"},
        {"a = 01", "f.toml:1:5: \"01\" is not a number; accepted are integers of 64 bits such as "
                   "42, 1_000 or 0x1f and floats such as 1.5 (text stands in quotes)"},
        {"a = 9223372036854775808", "f.toml:1:5: \"9223372036854775808\" is not a number; accepted "
                                    "are integers of 64 bits such as 42, 1_000 or 0x1f and floats "
                                    "such as 1.5 (text stands in quotes)"},
        {"a = 1.", "f.toml:1:5: \"1.\" is not a number; accepted are integers of 64 bits such as "
                   "42, 1_000 or 0x1f and floats such as 1.5 (text stands in quotes)"},
        {"a = 512m", "f.toml:1:5: \"512m\" is not a number; accepted are integers of 64 bits such "
                     "as 42, 1_000 or 0x1f and floats such as 1.5 (text stands in quotes)"},
        {"ok = 1\nx = \"\xff\"", "f.toml:2:6: a byte (0xff) that is not UTF-8"},
        {"a = 1\rb = 2", "f.toml:1:6: unexpected text; only a comment may follow on this line"},
        {"a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1", "f.toml:1:33: a key has at most 16 parts"},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        struct err e = {0};

        if (toml_parse(&arena, S("f.toml"), str_from(cases[i].text), &e) != NULL) {
            fail_msg("accepted: %s", cases[i].text);
        }
        assert_int_equal(e.kind, ERR_INVALID);
        assert_string_equal(e.msg, cases[i].message);
    }
}

static void a_nul_byte_is_no_text(void **state)
{
    static const char text[] = "a = \"x\0y\"";
    struct err e;

    (void)state;
    assert_null(toml_parse(&arena, S("f"), (struct str){text, sizeof(text) - 1}, &e));
    assert_string_equal(e.msg,
                        "f:1:7: a control character (0x00) in a string; write it as \\u0000");
}

static void what_is_too_big_is_refused(void **state)
{
    struct buf text own_buf = {0};
    struct err e;

    (void)state;
    buf_init(&text, 4u << 20);
    buf_addf(&text, "a = [");
    for (int i = 0; i < TOML_MAX_VALUES; i++) {
        buf_addf(&text, "1,");
    }
    buf_addf(&text, "]");
    assert_null(toml_parse(&arena, S("f"), buf_str(&text), &e));
    assert_int_equal(e.kind, ERR_LIMIT);
    assert_string_equal(e.msg, "f:1: more than 8192 values in one file");

    buf_clear(&text);
    for (int i = 0; i <= 1 << 20; i++) {
        buf_addc(&text, '\n');
    }
    assert_null(toml_parse(&arena, S("f"), buf_str(&text), &e));
    assert_int_equal(e.kind, ERR_LIMIT);
    assert_string_equal(e.msg, "f: longer than 1048576 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_is_an_empty_table),
        cmocka_unit_test(scalars_have_their_types),
        cmocka_unit_test(escapes_are_read),
        cmocka_unit_test(tables_nest),
        cmocka_unit_test(arrays_of_tables_grow),
        cmocka_unit_test(arrays_are_flat_and_alike),
        cmocka_unit_test(places_count_lines_and_characters),
        cmocka_unit_test(mistakes_are_told_with_their_place),
        cmocka_unit_test(a_nul_byte_is_no_text),
        cmocka_unit_test(what_is_too_big_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
