/* test_local_path.c - which paths of this machine a call may use, and who is asked for more. */
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake.h"
#include "tools/local_path.h"

struct world {
    struct arena arena;
    struct ctx ctx;
    struct config config;
    struct services services;
    struct call call;
    char top[PATH_MAX];
    const char *reply; /* of the client to roots/list; NULL: none */
    bool later;
    int asks;
    json_t *answer;
};

static int ask_roots(struct call *c, struct question *q, size_t n, struct err *e)
{
    struct world *w = CONTAINER_OF(c, struct world, call);

    assert_int_equal(n, 1);
    assert_int_equal(q->kind, CAN_ROOTS);
    w->asks++;
    if (w->later) {
        return ASK_LATER;
    }
    json_decref(w->answer);
    w->answer = w->reply != NULL ? js_parse(w->reply, strlen(w->reply), e) : NULL;
    q->answer = w->answer;
    return ASK_ANSWERED;
}

static const char *at(struct world *w, const char *rel)
{
    return arena_printf(&w->arena, "%s/%s", w->top, rel).p;
}

static int start(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char folder[] = "/tmp/anybox-local-XXXXXX";

    if (mkdtemp(folder) == NULL || realpath(folder, w->top) == NULL) {
        return -1;
    }
    arena_init(&w->arena, 8 << 20);
    w->ctx.arena = &w->arena;
    w->services.config = &w->config;
    w->call = (struct call){.ctx = &w->ctx,
                            .services = &w->services,
                            .transport = "stdio",
                            .can = CAN_ROOTS,
                            .ask = ask_roots};
    w->config = (struct config){.folder = str_from(at(w, "proj")),
                                .home = str_from(at(w, "home")),
                                .state_dir = str_from(at(w, "home/state")),
                                .file = S("/etc/anybox/anybox.toml")};
    *state = w;
    return mkdir(at(w, "proj"), 0755) | mkdir(at(w, "home"), 0755) | mkdir(at(w, "a b"), 0755) |
           mkdir(at(w, "home/data"), 0755) | mkdir(at(w, "home/state"), 0700);
}

static int stop(void **state)
{
    struct world *w = *state;
    struct err e;
    int rc = fd_remove_tree(AT_FDCWD, w->top, &e);

    json_decref(w->answer);
    arena_fini(&w->arena);
    free(w);
    return rc;
}

static enum err_kind resolve(struct world *w, const char *path, const char *want)
{
    struct str got = STR_EMPTY;
    bool later = false;
    struct err e = {0};

    if (local_path(&w->call, str_from(path), &got, &later, &e) < 0) {
        return e.kind;
    }
    assert_int_equal(later, w->later && w->asks > 0);
    if (want != NULL) {
        assert_str(got, str_from(at(w, want)));
    }
    return ERR_NONE;
}

static void the_folder_and_the_configuration_need_no_question(void **state)
{
    struct world *w = *state;

    w->config.sync_roots = arena_printf(&w->arena, " ~/data ,relative, %s", at(w, "a b"));
    assert_int_equal(resolve(w, ".", "proj"), ERR_NONE);
    assert_int_equal(resolve(w, "x/y/", "proj/x/y/"), ERR_NONE);
    assert_int_equal(resolve(w, "~/data/z", "home/data/z"), ERR_NONE);
    assert_int_equal(resolve(w, at(w, "a b"), "a b"), ERR_NONE);
    assert_int_equal(w->asks, 0);
}

static void the_clients_roots_are_asked_for_when_they_are_needed(void **state)
{
    struct world *w = *state;

    w->reply =
        arena_printf(&w->arena,
                     "{\"roots\":[{\"uri\":\"https://x\"},{},7,{\"uri\":\"file://%s/a%%20b\"}]}",
                     w->top)
            .p;
    assert_int_equal(resolve(w, at(w, "a b/c"), "a b/c"), ERR_NONE);
    assert_int_equal(w->asks, 1);
    assert_int_equal(resolve(w, at(w, "home/data"), NULL), ERR_DENIED);
    w->reply = NULL;
    assert_int_equal(resolve(w, at(w, "a b"), NULL), ERR_DENIED);
    w->later = true;
    assert_int_equal(resolve(w, at(w, "a b"), NULL), ERR_NONE);
    w->call.can = CAN_FORM;
    w->later = false;
    w->asks = 0;
    assert_int_equal(resolve(w, at(w, "a b"), NULL), ERR_DENIED);
    assert_int_equal(w->asks, 0);
}

static void over_http_only_the_configuration_counts(void **state)
{
    struct world *w = *state;

    w->call.transport = "http";
    w->config.sync_roots = str_from(at(w, "a b"));
    w->reply = "{\"roots\":[{\"uri\":\"file:///\"}]}";
    assert_int_equal(resolve(w, ".", NULL), ERR_DENIED);
    assert_int_equal(resolve(w, at(w, "a b"), "a b"), ERR_NONE);
    assert_int_equal(w->asks, 0);
}

static void a_home_and_what_it_lies_in_is_no_folder(void **state)
{
    struct world *w = *state;
    const struct str folders[] = {w->config.home, S("/"), str_from(w->top)};

    w->call.can = 0;
    for (size_t i = 0; i < COUNTOF(folders); i++) {
        w->config.folder = folders[i];
        assert_int_equal(resolve(w, at(w, "home/data"), NULL), ERR_DENIED);
    }
    w->config.folder = str_from(at(w, "home/data"));
    assert_int_equal(resolve(w, ".", "home/data"), ERR_NONE);
}

static void addresses_of_files(void **state)
{
    static const struct {
        const char *uri, *path;
    } rows[] = {
        {"file:///a/b", "/a/b"},
        {"FILE:///a", "/a"},
        {"file://localhost/a%2Fb%c3%a9", "/a/b\xc3\xa9"},
        {"file:///a%zz%4", "/a%zz%4"},
        {"file://host/a", NULL},
        {"file:///a%00b", NULL},
        {"file:", NULL},
        {"http:///a", NULL},
        {"", NULL},
    };
    struct world *w = *state;

    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct str path;
        bool is = local_path_of_uri(&w->arena, str_from(rows[i].uri), &path);

        assert_int_equal(is, rows[i].path != NULL);
        if (is) {
            assert_str(path, str_from(rows[i].path));
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(the_folder_and_the_configuration_need_no_question),
        TEST(the_clients_roots_are_asked_for_when_they_are_needed),
        TEST(over_http_only_the_configuration_counts),
        TEST(a_home_and_what_it_lies_in_is_no_folder),
        TEST(addresses_of_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
