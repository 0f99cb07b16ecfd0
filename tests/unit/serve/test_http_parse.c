/* Headers and URLs: what is accepted, what is refused, and what must not be mistaken. */
#include "base/mime.h"
#include "serve/http/parse.h"
#include "test.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 16u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

/* ---- media types --------------------------------------------------------------------- */

static bool is_json(const char *value)
{
    struct media_type m;
    struct err e;

    return http_media_type(str_from(value), &m, &e) == 0 &&
           media_type_is(&m, S("application/json"));
}

static void a_media_type_is_its_essence(void **state)
{
    (void)state;
    assert_true(is_json("application/json"));
    assert_true(is_json(" Application/JSON "));
    assert_true(is_json("application/json;charset=utf-8"));
    assert_true(is_json("application/json ; charset=\"utf-8\" ;x=y;"));
    assert_true(is_json("application/json; a=\"text/plain, \\\" x\""));
    assert_false(is_json("application/json-seq"));
    assert_false(is_json("application/jsonp"));
    assert_false(is_json("text/plain; x=application/json"));
    assert_false(is_json("text/plain; x=\"application/json\""));
    assert_false(is_json("application/x-json"));
    assert_false(is_json("xapplication/json"));
}

static void refuses_what_is_no_media_type(void **state)
{
    static const char *const wrong[] = {
        "",
        " ",
        "application",
        "application/",
        "/json",
        "application /json",
        "application/ json",
        "application/json, text/plain",
        "application/json text/plain",
        "application/json; charset",
        "application/json; charset=",
        "application/json; charset=\"utf-8",
        "application/json; charset=utf 8",
        "application/json; a=\"\x01\"",
        "application/json; a=\"b\"c",
        "application/json; =x",
    };
    struct media_type m;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        if (http_media_type(str_from(wrong[i]), &m, &e) == 0) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
        assert_int_equal(e.kind, ERR_INVALID);
    }
}

static void finds_parameters_unquoted(void **state)
{
    struct media_type m;
    struct err e;
    struct str v;

    (void)state;
    assert_ok(
        http_media_type(S("multipart/x; A=1; Boundary=\"a \\\"b\\\" ; c\"; boundary=2"), &m, &e),
        &e);
    assert_true(media_type_param(&m, S("boundary"), &arena, &v));
    assert_str(v, S("a \"b\" ; c"));
    assert_true(media_type_param(&m, S("a"), &arena, &v));
    assert_str(v, S("1"));
    assert_false(media_type_param(&m, S("c"), &arena, &v));
    assert_false(media_type_param(&m, S(""), &arena, &v));
}

static void accept_is_decided_by_the_most_specific_range(void **state)
{
    static const struct {
        const char *accept;
        int json, stream;
    } known[] = {
        {"", 1000, 1000},
        {"*/*", 1000, 1000},
        {"application/json", 1000, 0},
        {"application/json, text/event-stream", 1000, 1000},
        {"text/event-stream;q=0.5, application/*;q=0.25", 250, 500},
        {"text/*;q=0.3, text/event-stream;q=0, */*;q=0.1", 100, 0},
        {"application/json;q=0, */*", 0, 1000},
        {"APPLICATION/JSON;Q=0.123", 123, 0},
        {"application/json;version=1;q=0.7", 700, 0},
        {"application/json;a=\",text/event-stream\"", 1000, 0},
        {"application/json-seq, xtext/event-stream", 0, 0},
        {"application/json;q=2", 1000, 1000}, /* no range at all: as if it were not there */
        {"application/json;q=2, text/html", 0, 0},
        {"application/json;q=0.1, application/json;q=0.9", 900, 0},
        {"garbage, ,;;, text/event-stream", 0, 1000},
        {"*/json, */*;q=0.2", 200, 200},
        {"application/json;q=1.001", 1000, 1000},
        {"application/json;q=0.1234", 1000, 1000},
        {"text/html", 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(known); i++) {
        struct str accept = str_from(known[i].accept);

        if (http_accept_q(accept, S("application/json")) != known[i].json ||
            http_accept_q(accept, S("text/event-stream")) != known[i].stream) {
            fail_msg("\"%s\": %d %d", known[i].accept, http_accept_q(accept, S("application/json")),
                     http_accept_q(accept, S("text/event-stream")));
        }
    }
}

/* ---- hosts and origins ------------------------------------------------------------------ */

static void reads_hosts(void **state)
{
    static const struct {
        const char *value, *name;
        enum host_kind kind;
        int port;
        bool loopback;
    } known[] = {
        {"localhost", "localhost", HOST_NAME, 0, true},
        {"LocalHost:8080", "LocalHost", HOST_NAME, 8080, true},
        {"localhost.", "localhost", HOST_NAME, 0, true},
        {"127.0.0.1:1", "127.0.0.1", HOST_IPV4, 1, true},
        {"127.9.9.9", "127.9.9.9", HOST_IPV4, 0, true},
        {"[::1]:65535", "::1", HOST_IPV6, 65535, true},
        {"[0:0:0:0:0:0:0:1]", "0:0:0:0:0:0:0:1", HOST_IPV6, 0, true},
        {"[::ffff:127.0.0.1]", "::ffff:127.0.0.1", HOST_IPV6, 0, false},
        {"10.0.0.1", "10.0.0.1", HOST_IPV4, 0, false},
        {"[fe80::1]", "fe80::1", HOST_IPV6, 0, false},
        {"my_box.example-1.com:443", "my_box.example-1.com", HOST_NAME, 443, false},
        {" localhost ", "localhost", HOST_NAME, 0, true},
        {"localhost.evil.com", "localhost.evil.com", HOST_NAME, 0, false},
        {"127.0.0.1.nip.io", "127.0.0.1.nip.io", HOST_NAME, 0, false},
        {"notlocalhost", "notlocalhost", HOST_NAME, 0, false},
    };
    struct http_host h;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(known); i++) {
        assert_ok(http_host(str_from(known[i].value), &h, &e), &e);
        assert_str(h.name, str_from(known[i].name));
        assert_int_equal(h.kind, known[i].kind);
        assert_int_equal(h.port, known[i].port);
        assert_int_equal(http_host_is_loopback(&h), known[i].loopback);
    }
}

static void refuses_what_is_more_than_a_host(void **state)
{
    static const struct str wrong[] = {
        {"", 0},
        {"localhost:", 10},
        {"localhost:0", 11},
        {"localhost:65536", 15},
        {"localhost:99999999999999999999", 30},
        {"localhost:80:80", 15},
        {"localhost:8a", 12},
        {"localhost: 80", 13},
        {"localhost:+80", 13},
        {":80", 3},
        {"user@localhost", 14},
        {"localhost/", 10},
        {"http://localhost", 16},
        {"local host", 10},
        {"localhost,evil.com", 18},
        {"localhost?x", 11},
        {"localhost#x", 11},
        {"localhost\0.evil.com", 19},
        {"localhost\r\nX: y", 15},
        {"..", 2},
        {".", 1},
        {"a..b", 4},
        {".a", 2},
        {"::1", 3},
        {"[::1", 4},
        {"[::1]x", 6},
        {"[::1]:", 6},
        {"[127.0.0.1]", 11},
        {"[fe80::1%eth0]", 14},
        {"[]", 2},
        {"127.1", 5},
        {"2130706433", 10},
        {"0x7f000001", 10},
        {"0177.0.0.1", 10},
        {"127.0.0.1.", 10},
        {"127.0.0.256", 11},
        {"1.2.3.4.5", 9},
        {"b\303\274cher.de", 10},
        {"%6cocalhost", 11},
    };
    struct http_host h;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        if (http_host(wrong[i], &h, &e) == 0) {
            fail_msg("\"%.*s\" was accepted", STR_ARG(wrong[i]));
        }
        assert_int_equal(e.kind, ERR_INVALID);
    }
}

static bool same_origin(const char *a, const char *b)
{
    struct http_origin x, y;
    struct err e;

    assert_ok(http_origin(str_from(a), &x, &e), &e);
    assert_ok(http_origin(str_from(b), &y, &e), &e);
    return http_origin_same(&x, &y);
}

static void compares_origins_by_scheme_host_and_port(void **state)
{
    (void)state;
    assert_true(same_origin("http://localhost:80", "HTTP://LOCALHOST"));
    assert_true(same_origin("https://a.example", "https://a.example:443"));
    assert_true(same_origin("http://[::1]:8000", "http://[0:0::1]:8000"));
    assert_false(same_origin("http://localhost", "https://localhost"));
    assert_false(same_origin("http://localhost:8000", "http://localhost:8001"));
    assert_false(same_origin("http://localhost", "http://127.0.0.1"));
    assert_false(same_origin("http://a.example", "http://a.example.evil.com"));
    assert_false(same_origin("null", "null"));
    assert_false(same_origin("null", "http://null"));
    assert_true(same_origin("vscode-webview://abc", "vscode-webview://abc"));
}

static void refuses_what_is_no_origin(void **state)
{
    static const char *const wrong[] = {
        "",           "localhost",        "http:localhost",     "http:/localhost", "//localhost",
        "http://",    "http://a/",        "http://a/b",         "http://a?b",      "http://u@a",
        "http://a b", "http:// a",        "http://a, http://b", "1http://a",       "ht tp://a",
        "NULL",       "null, http://a.b", "http://a:x",         "file://",         "http://a#",
    };
    struct http_origin o;
    struct err e;

    (void)state;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        if (http_origin(str_from(wrong[i]), &o, &e) == 0) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
    }
}

/* ---- Authorization --------------------------------------------------------------------------- */

static void authorization_is_a_scheme_and_one_token(void **state)
{
    static const char *const wrong[] = {
        "",           "Bearer",       "Bearer ",    "Basic abc",    "Bearerabc",
        "Bearer a b", "Bearer a,b",   "Bearer a=b", "Bearer \"a\"", "abc",
        "Bearer =",   "Bearer a\x01", "Bearer: a",  "Bearer\013a",  "Bearer a\xc3\xa9",
    };
    struct str token;
    struct err e;

    (void)state;
    assert_ok(http_authorization(S("Bearer abx_-._~+/9=="), S("Bearer"), &token, &e), &e);
    assert_str(token, S("abx_-._~+/9=="));
    assert_ok(http_authorization(S("  bEARER   k\t"), S("Bearer"), &token, &e), &e);
    assert_str(token, S("k"));
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        if (http_authorization(str_from(wrong[i]), S("Bearer"), &token, &e) == 0) {
            fail_msg("\"%s\" was accepted", wrong[i]);
        }
    }
}

static void a_wrong_key_is_not_repeated(void **state)
{
    struct str token;
    struct err e;

    (void)state;
    assert_fails(http_authorization(S("Bearer hunter2 hunter2"), S("Bearer"), &token, &e), &e,
                 ERR_INVALID, "one key");
    assert_null(strstr(e.msg, "hunter2"));
}

/* ---- ranges --------------------------------------------------------------------------------------- */

static void reads_ranges(void **state)
{
    static const struct {
        const char *value;
        uint64_t size;
        enum range_kind kind;
        uint64_t first, last;
    } known[] = {
        {"", 10, RANGE_WHOLE, 0, 0},
        {"bytes=0-3", 10, RANGE_PART, 0, 3},
        {"bytes=3-3", 10, RANGE_PART, 3, 3},
        {" Bytes = 2- ", 10, RANGE_PART, 2, 9},
        {"bytes=5-99", 10, RANGE_PART, 5, 9},
        {"bytes=9-9", 10, RANGE_PART, 9, 9},
        {"bytes=10-", 10, RANGE_NONE, 0, 0},
        {"bytes=10-20", 10, RANGE_NONE, 0, 0},
        {"bytes=0-", 0, RANGE_NONE, 0, 0},
        {"bytes=-3", 10, RANGE_PART, 7, 9},
        {"bytes=-99", 10, RANGE_PART, 0, 9},
        {"bytes=-0", 10, RANGE_NONE, 0, 0},
        {"bytes=-5", 0, RANGE_NONE, 0, 0},
        {"bytes=99999999999999999999999-", 10, RANGE_NONE, 0, 0},
        {"bytes=0-99999999999999999999999", 10, RANGE_PART, 0, 9},
        {"bytes=18446744073709551615-", UINT64_MAX, RANGE_NONE, 0, 0},
        {"bytes=4-3", 10, RANGE_WHOLE, 0, 0},
        {"bytes=0-1,3-4", 10, RANGE_WHOLE, 0, 0},
        {"bytes=a-b", 10, RANGE_WHOLE, 0, 0},
        {"bytes=", 10, RANGE_WHOLE, 0, 0},
        {"bytes=-", 10, RANGE_WHOLE, 0, 0},
        {"bytes=--1", 10, RANGE_WHOLE, 0, 0},
        {"bytes=1", 10, RANGE_WHOLE, 0, 0},
        {"bytes=1-2-", 10, RANGE_WHOLE, 0, 0},
        {"bytes=+1-2", 10, RANGE_WHOLE, 0, 0},
        {"items=0-1", 10, RANGE_WHOLE, 0, 0},
        {"bytes 0-1", 10, RANGE_WHOLE, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNTOF(known); i++) {
        struct http_range r;
        enum range_kind kind = http_range(str_from(known[i].value), known[i].size, &r);

        if (kind != known[i].kind || r.first != known[i].first || r.last != known[i].last) {
            fail_msg("\"%s\": %d %llu %llu", known[i].value, (int)kind, (unsigned long long)r.first,
                     (unsigned long long)r.last);
        }
    }
}

/* ---- MCP ------------------------------------------------------------------------------------------------ */

static void decodes_mcp_header_values(void **state)
{
    static const char *const literal[] = {
        "exec_bash",       "=?base64?Zg==", "Zg==?=", "=?Base64?Zg==?=",
        "=?BASE64?Zg==?=", "=?base64?=",    "?="};
    static const char *const wrong[] = {"=?base64?Zg?=",   "=?base64?Zg=?=",  "=?base64?Z g=?=",
                                        "=?base64?Zh==?=", "=?base64?-_8=?=", "=?base64?=?="};
    struct str out;
    struct err e;

    (void)state;
    assert_ok(http_mcp_value(&arena, S(" =?base64?Y2Fmw6k=?= "), &out, &e), &e);
    assert_str(out, S("caf\xc3\xa9"));
    assert_ok(http_mcp_value(&arena,
                             S("=?base64?"
                               "?="),
                             &out, &e),
              &e);
    assert_int_equal(out.len, 0);
    for (size_t i = 0; i < COUNTOF(literal); i++) {
        assert_ok(http_mcp_value(&arena, str_from(literal[i]), &out, &e), &e);
        assert_str(out, str_from(literal[i]));
    }
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_fails(http_mcp_value(&arena, str_from(wrong[i]), &out, &e), &e, ERR_INVALID,
                     "base64");
    }
}

static void revisions_are_dates(void **state)
{
    static const char *const wrong[] = {"",           "v999.0.0",   "2026-7-28",  "2026-07-2",
                                        "2026-13-01", "2026-00-01", "2026-02-30", "2026-07-28x",
                                        "20260728",   "2026/07/28", "0000-01-01", "-026-07-28"};

    (void)state;
    assert_int_equal(http_revision_date(S("2026-07-28")), 20260728);
    assert_int_equal(http_revision_date(S(" 2024-11-05\t")), 20241105);
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_int_equal(http_revision_date(str_from(wrong[i])), 0);
    }
}

/* ---- files ------------------------------------------------------------------------------------------------ */

static void active_files_are_never_inline(void **state)
{
    static const char *const active[] = {
        "a.html", "a.HTM", "a.svg", "a.xhtml", "a.xml", "a.pdf",   "a.js", "a.mjs",
        "a.css",  "a",     ".html", "a.b/c",   "a.exe", "a.html.", "",     "dir.png/.png"};

    (void)state;
    for (size_t i = 0; i < COUNTOF(active); i++) {
        if (mime_of(str_from(active[i])).passive) {
            fail_msg("%s is inline", active[i]);
        }
    }
    assert_true(mime_of(S("/a/plot.PNG")).passive);
    assert_string_equal(mime_of(S("/a/plot.PNG")).type, "image/png");
    assert_string_equal(mime_of(S("x.tar.gz")).type, "application/gzip");
    assert_string_equal(mime_of(S("a.py")).type, "text/plain; charset=utf-8");
    assert_string_equal(mime_of(S("Makefile")).type, "application/octet-stream");
    assert_string_equal(mime_of(S("a.html")).type, "text/html; charset=utf-8");
}

static void check_disposition(struct str path, bool shown_inline, const char *want)
{
    struct buf out own_buf = {0};

    buf_init(&out, 8192);
    http_disposition(&out, path, shown_inline);
    assert_str(buf_str(&out), str_from(want));
}

static void download_names_are_harmless(void **state)
{
    (void)state;
    check_disposition(S("/workspace/plot.png"), true, "inline; filename=\"plot.png\"");
    check_disposition(S("a b;c.txt"), false, "attachment; filename=\"a b;c.txt\"");
    check_disposition(S("x\"\r\nSet-Cookie: a=b"), false,
                      "attachment; filename=\"x___Set-Cookie_ a=b\"");
    check_disposition(S("..\\..\\evil.exe"), false, "attachment; filename=\"evil.exe\"");
    check_disposition(S("/a/.."), false, "attachment; filename=\"file\"");
    check_disposition(S("/"), false, "attachment; filename=\"file\"");
    check_disposition(S(""), false, "attachment; filename=\"file\"");
    check_disposition(S("dir/"), false, "attachment; filename=\"dir\"");
    check_disposition(S("caf\xc3\xa9 100%.txt"), false,
                      "attachment; filename=\"caf_ 100_.txt\"; "
                      "filename*=UTF-8''caf%C3%A9%20100%25.txt");
    /* A direction override would show "exe.txt" as another kind of file. */
    check_disposition(S("a\xe2\x80\xaetxt.exe"), false, "attachment; filename=\"a_txt.exe\"");
    check_disposition(S("bad\xff\xfe.bin"), false, "attachment; filename=\"bad__.bin\"");
}

static void long_names_are_cut_between_characters(void **state)
{
    char path[3001];
    struct buf out own_buf = {0};

    (void)state;
    for (size_t i = 0; i < 3000; i += 3) {
        memcpy(path + i, "\xe2\x82\xac", 3);
    }
    buf_init(&out, 8192);
    http_disposition(&out, (struct str){path, 3000}, false);
    assert_false(out.cut);
    assert_true(str_ends(buf_str(&out), S("%E2%82%AC")));
    assert_true(out.len < 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_media_type_is_its_essence),
        cmocka_unit_test(refuses_what_is_no_media_type),
        cmocka_unit_test(finds_parameters_unquoted),
        cmocka_unit_test(accept_is_decided_by_the_most_specific_range),
        cmocka_unit_test(reads_hosts),
        cmocka_unit_test(refuses_what_is_more_than_a_host),
        cmocka_unit_test(compares_origins_by_scheme_host_and_port),
        cmocka_unit_test(refuses_what_is_no_origin),
        cmocka_unit_test(authorization_is_a_scheme_and_one_token),
        cmocka_unit_test(a_wrong_key_is_not_repeated),
        cmocka_unit_test(reads_ranges),
        cmocka_unit_test(decodes_mcp_header_values),
        cmocka_unit_test(revisions_are_dates),
        cmocka_unit_test(active_files_are_never_inline),
        cmocka_unit_test(download_names_are_harmless),
        cmocka_unit_test(long_names_are_cut_between_characters),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
