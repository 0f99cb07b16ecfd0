/* Pages of a package index: which files they offer, and where those are. */
#include "core/index_page.h"
#include "test.h"

static void addresses_are_read_strictly(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "ftp://h/",
        "HTTP://h/",
        "http://",
        "http:///x",
        "http://h:0/",
        "http://h:65536/",
        "http://h:+1/",
        "http://h:x/",
        "http://h x/",
        "http://h/a b",
        "http://h/a\\b",
        "http://h/a\nb",
        "http://h/\xc3\xa9",
        "http://h/\"",
        "http://h/<",
        "http://a@b@c/",
        "http://h\\@c/",
        "http://[::1",
        "http://[::1]x/",
        "http://[]/",
        "http://[g;h]/",
        "http://h?x",
        "http://h%2f/",
    };
    struct index_url u;
    struct err e = {0};

    (void)state;
    assert_ok(index_url_read(S("https://us%40er:pa:ss@Host.example:8443/a/b?c=d#f"), &u, &e), &e);
    assert_true(u.tls);
    assert_str(u.user, S("us%40er:pa:ss"));
    assert_str(u.host, S("Host.example"));
    assert_int_equal(u.port, 8443);
    assert_str(u.path, S("/a/b?c=d"));
    assert_ok(index_url_read(S("http://[::1]:80"), &u, &e), &e);
    assert_str(u.host, S("[::1]"));
    assert_str(u.path, S("/"));
    assert_int_equal(u.port, 80);
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        if (index_url_read(str_from(bad[i]), &u, &e) == 0) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
}

static void a_secret_is_in_no_message(void **state)
{
    struct index_url u;
    struct err e = {0};

    (void)state;
    assert_true(index_url_read(S("http://user:geheim@h/a b"), &u, &e) < 0);
    assert_null(strstr(e.msg, "geheim"));
}

static void links_mean_what_they_mean_on_their_page(void **state)
{
    static const struct {
        const char *link, *want;
    } rows[] = {
        {"x.whl", "http://h:81/simple/p/x.whl"},
        {"./x.whl", "http://h:81/simple/p/x.whl"},
        {"../../files/x.whl", "http://h:81/files/x.whl"},
        {"../../../../x.whl", "http://h:81/x.whl"},
        {"/x/../y.whl", "http://h:81/y.whl"},
        {"//other/x.whl", "http://other/x.whl"},
        {"https://user:pw@other:443/x.whl", "https://other/x.whl"},
        {"http://h:80/a/../x.whl", "http://h/a/../x.whl"},
        {"?q", "http://h:81/simple/p/?q"},
        {"x.whl?a/../b", "http://h:81/simple/p/x.whl?a/../b"},
        {"a//b", "http://h:81/simple/p/a/b"},
    };
    static const char *const bad[] = {
        "mailto:x", "javascript:x/y", "file:///etc/passwd", "gopher://h/", "x y", "//h x/y",
        "http:x",   "data:,x"};
    struct arena a own_arena = {0};
    struct index_url base;
    struct err e = {0};
    struct str out;
    struct str fragment;

    (void)state;
    arena_init(&a, 1 << 20);
    assert_ok(index_url_read(S("http://u:p@h:81/simple/p/"), &base, &e), &e);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        assert_ok(index_url_join(&a, &base, str_from(rows[i].link), &out, &fragment, &e), &e);
        assert_str(out, str_from(rows[i].want));
    }
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        if (index_url_join(&a, &base, str_from(bad[i]), &out, &fragment, &e) == 0) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
    assert_ok(index_url_join(&a, &base, S("x.whl#sha256=ab"), &out, &fragment, &e), &e);
    assert_str(fragment, S("sha256=ab"));
}

static int write_link(void *arg, const struct index_link *link, struct err *e)
{
    struct buf *to = arg;

    (void)e;
    buf_addf(to, "%.*s|%.*s|%.*s|%.*s|%.*s|%s\n", STR_ARG(link->file), STR_ARG(link->url),
             STR_ARG(link->hash), STR_ARG(link->python), STR_ARG(link->metadata),
             link->yanked ? "yanked" : "");
    return 0;
}

static void read_page(const char *html, struct buf *to)
{
    struct index_url base;
    struct err e = {0};

    buf_clear(to);
    assert_ok(index_url_read(S("https://h/simple/p/"), &base, &e), &e);
    assert_ok(index_page_read(str_from(html), &base, write_link, to, &e), &e);
}

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void a_page_is_read_however_it_is_written(void **state)
{
    struct buf to own_buf = {0};

    (void)state;
    buf_init(&to, 1 << 16);
    read_page("<html><A HREF='p-1-py3-none-any.whl#sha256=" HASH
              "' data-requires-python=\"&gt;=3.8\" data-core-metadata=true>any text</A>",
              &to);
    assert_str(buf_str(&to),
               S("p-1-py3-none-any.whl|https://h/simple/p/p-1-py3-none-any.whl|sha256=" HASH
                 "|>=3.8|true|\n"));
    read_page("<a\n data-yanked\n href=p-1.tar.gz ><a href=\"p-1%2Bx.zip?a=1&amp;b&#61;2\"/>", &to);
    assert_str(buf_str(&to), S("p-1.tar.gz|https://h/simple/p/p-1.tar.gz||||yanked\n"
                               "p-1+x.zip|https://h/simple/p/p-1%2Bx.zip?a=1&b=2||||\n"));
    read_page("<!-- <a href=\"c.whl\"> --><base href=\"https://f/x/\"><abbr href=\"d.whl\">"
              "<a href=\"e.whl\" data-dist-info-metadata=\"sha256=" HASH "\">",
              &to);
    assert_str(buf_str(&to), S("e.whl|https://f/x/e.whl|||sha256=" HASH "|\n"));
}

static void what_is_no_file_is_passed_over(void **state)
{
    struct buf to own_buf = {0};

    (void)state;
    buf_init(&to, 1 << 16);
    read_page("<a><a href><a href=\"\"><a href=\"..\"><a href=\"x.exe\"><a href=\".whl\">"
              "<a href=\"a%2F..%2Fb.whl\"><a href=\"javascript:x.whl\"><a href=\"x y.whl\">"
              "<a href=\"&#10;.whl\"><a href=\"..\\x.whl\"><a href=\"x.whl\" <a href=\"y.whl\"",
              &to);
    assert_str(buf_str(&to), S("y.whl|https://h/simple/p/y.whl||||\n"));
    read_page("<a href=\"x.whl#sha256=zz\" data-core-metadata=\"a&quot;b\">", &to);
    assert_str(buf_str(&to), S("x.whl|https://h/simple/p/x.whl||||\n"));
    read_page("<", &to);
    assert_str(buf_str(&to), STR_EMPTY);
    read_page("<!--", &to);
    assert_str(buf_str(&to), STR_EMPTY);
}

static void a_page_of_ours_reads_as_it_was_meant(void **state)
{
    const struct index_link link = {.url = S("https://elsewhere/x"),
                                    .file = S("p-1.whl"),
                                    .hash = S("sha256=" HASH),
                                    .python = S(">=3 \"<\">&'"),
                                    .metadata = S("true"),
                                    .yanked = true};
    struct buf page own_buf = {0};
    struct buf to own_buf = {0};

    (void)state;
    buf_init(&page, 1 << 16);
    buf_init(&to, 1 << 16);
    index_page_begin(&page);
    index_page_add(&page, &link, S("../../file/abc/p-1.whl"));
    index_page_end(&page);
    read_page(page.p, &to);
    assert_str(buf_str(&to),
               S("p-1.whl|https://h/file/abc/p-1.whl|sha256=" HASH "|>=3 \"<\">&'|true|yanked\n"));
}

static void many_attributes_cost_nothing(void **state)
{
    struct buf page own_buf = {0};
    struct buf to own_buf = {0};

    (void)state;
    buf_init(&page, 64u << 20);
    buf_init(&to, 1 << 16);
    buf_add(&page, S("<a"));
    for (int i = 0; i < 100000; i++) {
        buf_add(&page, S(" href=\"&amp;&amp;&amp;&amp;&amp;&amp;&amp;&amp;&amp;&amp;&amp;&amp;\" "
                         "data-requires-python='&lt;&lt;&lt;&lt;&lt;&lt;'"));
    }
    buf_add(&page, S(" href=x.whl>"));
    read_page(page.p, &to);
    assert_str(buf_str(&to), S("x.whl|https://h/simple/p/x.whl||<<<<<<||\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_read_strictly),
        cmocka_unit_test(a_secret_is_in_no_message),
        cmocka_unit_test(links_mean_what_they_mean_on_their_page),
        cmocka_unit_test(a_page_is_read_however_it_is_written),
        cmocka_unit_test(what_is_no_file_is_passed_over),
        cmocka_unit_test(a_page_of_ours_reads_as_it_was_meant),
        cmocka_unit_test(many_attributes_cost_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
