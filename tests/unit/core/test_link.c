/* test_link.c - links to files: good for what they were made for, and nothing else. */
#include <fcntl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "core/link.h"
#include "core/token.h"
#include "test.h"

struct fixture {
    char dir[64];
    struct arena arena;
    struct config config;
    struct services services;
};

static int set_up(void **state)
{
    struct fixture *fx = calloc(1, sizeof(*fx));

    (void)snprintf(fx->dir, sizeof(fx->dir), "/tmp/test-link-XXXXXX");
    assert_non_null(mkdtemp(fx->dir));
    arena_init(&fx->arena, 8u << 20);
    fx->config.http_link_ttl_s = 60;
    fx->services.config = &fx->config;
    fx->services.tokens = tokens_new(str_from(fx->dir));
    *state = fx;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fx = *state;
    struct err e;

    tokens_free(fx->services.tokens);
    arena_fini(&fx->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->dir, &e), &e);
    free(fx);
    return 0;
}

static struct str make(struct fixture *fx, struct str owner, struct str path)
{
    struct link_to to = {.owner = owner, .box = S("b0b0"), .path = path};
    struct str url = STR_EMPTY;
    struct err e;

    assert_ok(link_make(&fx->services, S("http://h:1"), &to, &fx->arena, &url, &e), &e);
    return url;
}

/* What is behind "&link=". */
static struct str text_of(struct str url)
{
    struct str rest = url;

    while (rest.p != NULL) {
        struct str part = str_cut(rest, '&', &rest);

        if (str_starts(part, S("link="))) {
            return str_skip(part, 5);
        }
    }
    return STR_EMPTY;
}

static enum err_kind check(struct fixture *fx, struct str text, struct str box, struct str path,
                           struct str *owner)
{
    struct link_to to = {.box = box, .path = path};
    struct err e = {0};

    if (link_check(&fx->services, text, &fx->arena, &to, &e) == 0) {
        *owner = to.owner;
        return ERR_NONE;
    }
    return e.kind;
}

static void a_link_says_whose_file_it_is(void **state)
{
    struct fixture *fx = *state;
    struct str owner = STR_EMPTY;
    struct str text = text_of(make(fx, S("key:ann"), S("/tmp/a b\n&c=\xff")));

    assert_int_equal(check(fx, text, S("b0b0"), S("/tmp/a b\n&c=\xff"), &owner), ERR_NONE);
    assert_str(owner, S("key:ann"));
    text = text_of(make(fx, STR_EMPTY, S("x")));
    assert_int_equal(check(fx, text, S("b0b0"), S("x"), &owner), ERR_NONE);
    assert_str(owner, STR_EMPTY);
}

static void a_path_is_escaped_in_the_url(void **state)
{
    struct str url = make(*state, STR_EMPTY, S("/a b/\"%\n&link=x#\xc3\xa9"));

    assert_true(str_starts(url, S("http://h:1/sandbox/file?sandbox_id=b0b0&file_path="
                                  "/a%20b/%22%25%0A%26link%3Dx%23%C3%A9&link=")));
}

static void a_link_is_good_for_one_file_only(void **state)
{
    struct fixture *fx = *state;
    struct str owner = STR_EMPTY;
    struct str text = text_of(make(fx, S("key:ann"), S("a")));
    char *changed = strndup(text.p, text.len);

    assert_int_equal(check(fx, text, S("b0b0"), S("b"), &owner), ERR_DENIED);
    assert_int_equal(check(fx, text, S("b0b1"), S("a"), &owner), ERR_DENIED);
    assert_int_equal(check(fx, text, S("b0b"), S("0a"), &owner), ERR_DENIED);
    assert_int_equal(check(fx, STR_EMPTY, S("b0b0"), S("a"), &owner), ERR_DENIED);
    for (size_t i = 0; i < text.len; i++) {
        char was = changed[i];

        changed[i] = was == 'A' ? 'B' : 'A';
        assert_int_equal(check(fx, str_from(changed), S("b0b0"), S("a"), &owner), ERR_DENIED);
        changed[i] = was;
    }
    free(changed);
}

static void a_link_expires(void **state)
{
    struct fixture *fx = *state;
    struct str owner = STR_EMPTY;

    fx->config.http_link_ttl_s = -2;
    assert_int_equal(check(fx, text_of(make(fx, S("o"), S("a"))), S("b0b0"), S("a"), &owner),
                     ERR_GONE);
}

static void no_other_signed_text_is_a_link(void **state)
{
    struct fixture *fx = *state;
    struct str owner = STR_EMPTY;
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, TOKEN_TEXT_MAX);
    assert_ok(
        token_make(fx->services.tokens, TOKEN_FILE, S("short"), clock_wall_ms() + 9000, &text, &e),
        &e);
    assert_int_equal(check(fx, buf_str(&text), S("b0b0"), S("a"), &owner), ERR_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_link_says_whose_file_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_is_escaped_in_the_url, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_is_good_for_one_file_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_other_signed_text_is_a_link, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
