#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "sync/roots.h"
#include "test.h"

static struct arena arena;
static struct str top; /* a folder with: work/sub, work-evil, state, work/out -> .., work/file */

static const char *at(const char *rel)
{
    return arena_printf(&arena, "%.*s/%s", STR_ARG(top), rel).p;
}

static int start(void **state)
{
    char folder[] = "/tmp/anybox-roots-XXXXXX";
    char real[PATH_MAX];

    (void)state;
    arena_init(&arena, 1 << 22);
    if (mkdtemp(folder) == NULL || realpath(folder, real) == NULL) {
        return -1;
    }
    top = arena_str(&arena, str_from(real));
    return mkdir(at("work"), 0755) | mkdir(at("work/sub"), 0755) | mkdir(at("work-evil"), 0755) |
           mkdir(at("work/state"), 0700) | symlink("..", at("work/out")) |
           symlink("sub", at("work/in")) | symlink("/nowhere/at/all", at("work/dangling")) |
           symlink(at("work"), at("alias")) | symlink("loop", at("work/loop")) |
           close(creat(at("work/file"), 0644));
}

static int stop(void **state)
{
    struct err e;

    (void)state;
    (void)!fd_remove_tree(AT_FDCWD, top.p, &e);
    arena_fini(&arena);
    return 0;
}

static int resolve(const char *root, const char *path, struct str *out, struct err *e)
{
    struct str paths[] = {str_from(root)};
    struct roots roots = {.paths = paths,
                          .n = 1,
                          .state_dir = str_from(at("work/state")),
                          .config_file = S("/etc/anybox/anybox.toml")};

    return roots_resolve(&roots, &arena, str_from(at("work")), str_from(at("work/sub")),
                         str_from(path), out, e);
}

static void what_lies_below_a_root_is_allowed(void **state)
{
    const struct {
        const char *path, *want;
    } rows[] = {
        {"sub", "work/sub"},
        {"in", "work/sub"},
        {"file", "work/file"},
        {"sub/", "work/sub"},
        {"~", "work/sub"},
        {"~/x", "work/sub/x"},
        {"new/deep/er", "work/new/deep/er"},
        {"sub/../file", "work/file"},
        {"in/new", "work/sub/new"},
        {"new/./a//b", "work/new/a/b"},
        {"out/work/sub", "work/sub"},
    };
    struct str got;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(resolve(at("work"), rows[i].path, &got, &e), &e);
        assert_str(got, str_from(at(rows[i].want)));
    }
    assert_ok(resolve(at("alias"), at("work/sub"), &got, &e), &e);
    assert_ok(resolve(at("work"), at("alias/sub"), &got, &e), &e);
    assert_str(got, str_from(at("work/sub")));
    assert_ok(resolve("/", "/usr", &got, &e), &e);
}

static void what_leads_out_is_refused(void **state)
{
    const char *bad[] = {"..",   "../work-evil", "out",      "out/work-evil",
                         "/etc", "out/new",      "sub/../.."};
    struct str got;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (resolve(at("work"), bad[i], &got, &e) == 0) {
            fail_msg("%s was allowed as %.*s", bad[i], STR_ARG(got));
        }
        assert_int_equal(e.kind, ERR_DENIED);
        assert_non_null(strstr(e.msg, "sync.allowed_roots"));
        assert_non_null(strstr(e.msg, "allowed_roots = [\""));
        assert_non_null(strstr(e.msg, "/etc/anybox/anybox.toml"));
    }
}

static void what_cannot_be_resolved_is_explained(void **state)
{
    const struct {
        const char *path, *says;
    } rows[] = {
        {"dangling", "leads nowhere"},   {"dangling/x", "leads nowhere"}, {"file/x", "is a file"},
        {"loop", "cannot be looked at"}, {"new/../../..", "goes up"},
    };
    struct str got;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(resolve(at("work"), rows[i].path, &got, &e), -1);
        if (strstr(e.msg, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].path, e.msg);
        }
    }
}

static void our_state_is_closed(void **state)
{
    const char *bad[] = {"state", "state/anything", "."};
    struct str got;
    struct err e;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(resolve(at("work"), bad[i], &got, &e), -1);
        assert_int_equal(e.kind, ERR_DENIED);
        assert_non_null(strstr(e.msg, "state folder"));
    }
}

static void without_roots_nothing_is_allowed(void **state)
{
    struct roots none = {.config_file = S("/c.toml"), .over_http = true};
    struct str got;
    struct err e;

    (void)state;
    assert_int_equal(
        roots_resolve(&none, &arena, STR_EMPTY, STR_EMPTY, str_from(at("work")), &got, &e), -1);
    assert_int_equal(e.kind, ERR_DENIED);
    assert_non_null(strstr(e.msg, "over HTTP (there are none)"));
    assert_int_equal(roots_resolve(&none, &arena, STR_EMPTY, STR_EMPTY, S("rel"), &got, &e), -1);
    assert_int_equal(e.kind, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_below_a_root_is_allowed),
        cmocka_unit_test(what_leads_out_is_refused),
        cmocka_unit_test(what_cannot_be_resolved_is_explained),
        cmocka_unit_test(our_state_is_closed),
        cmocka_unit_test(without_roots_nothing_is_allowed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
