/* Names and places of images, what is a root file system, and where packages come from.
 * Making one and boxes of one are in the end-to-end tests. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "provider/local/image.h"
#include "test.h"

struct fixture {
    char root[64];
    struct arena arena;
    struct ctx ctx;
    struct provider *provider;
    struct uid_range who;
    struct str found;
    struct err e;
};

static const char *in_root(struct fixture *fx, const char *below)
{
    return arena_printf(&fx->arena, "%s/%s", fx->root, below).p;
}

static void put(struct fixture *fx, const char *path, const char *text, mode_t mode)
{
    struct str dir = str_from(in_root(fx, path));
    while (dir.len > 0 && dir.p[dir.len - 1] != '/') {
        dir.len--;
    }
    assert_ok(fd_mkdirs(arena_cstr(&fx->arena, dir), 0755, &fx->e), &fx->e);
    assert_ok(fd_replace_file(AT_FDCWD, in_root(fx, path), str_from(text), mode, &fx->e), &fx->e);
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    (void)snprintf(fx->root, sizeof fx->root, "/tmp/anybox-test-XXXXXX");
    assert_non_null(mkdtemp(fx->root));
    arena_init(&fx->arena, 16u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena};
    /* Whoever runs the test may have images of its own. */
    fx->who = geteuid() == 0
                  ? (struct uid_range){.mode = UID_ROOT}
                  : (struct uid_range){.mode = UID_SUBUIDS, .uid = 700000000, .count = UID_RANGE};
    const struct provider_conf conf = {.name = S("here"),
                                       .state_dir = str_from(in_root(fx, "state")),
                                       .program_dir = str_from(fx->root)};
    assert_ok(fd_mkdirs(conf.state_dir.p, 0700, &fx->e), &fx->e);
    fx->provider = provider_type(S("local"))->open(&conf, &fx->e);
    assert_non_null(fx->provider);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    fx->provider->ops->close(fx->provider);
    assert_ok(fd_remove_tree(AT_FDCWD, fx->root, &fx->e), &fx->e);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

static int resolve(struct fixture *fx, const char *wanted)
{
    return image_resolve(local_of(fx->provider), &fx->who, &fx->arena, str_from(wanted), &fx->found,
                         &fx->e);
}

/* ---- names ------------------------------------------------------------------------- */

static void test_names(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "9", "debian", "debian-12.5_x", "0.a"};
    static const char *const bad[] = {"",   ".",   "..", ".a",  "-a",
                                      "_a", "a/b", "A",  "a b", "\303\251"};
    for (size_t i = 0; i < COUNTOF(good); i++) {
        assert_true(image_name_ok(str_from(good[i])));
    }
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_false(image_name_ok(str_from(bad[i])));
    }
    assert_false(image_name_ok((struct str){"a\0b", 3}));
    char many[IMAGE_NAME_MAX + 1];
    memset(many, 'a', sizeof many);
    assert_true(image_name_ok((struct str){many, IMAGE_NAME_MAX}));
    assert_false(image_name_ok((struct str){many, IMAGE_NAME_MAX + 1}));
}

/* ---- resolving ----------------------------------------------------------------------- */

static void test_a_name_and_a_path(void **state)
{
    struct fixture *fx = *state;
    put(fx, "state/images/small/bin/sh", "#!", 0755);
    put(fx, "other/usr/bin/bash", "#!", 0755);
    assert_int_equal(symlink("usr/bin", in_root(fx, "other/bin")), 0);
    assert_ok(resolve(fx, "small"), &fx->e);
    assert_str(fx->found, str_from(in_root(fx, "state/images/small")));
    assert_ok(resolve(fx, in_root(fx, "other/../other/")), &fx->e);
    assert_str(fx->found, str_from(in_root(fx, "other")));
    assert_ok(resolve(fx, in_root(fx, "state/images/small")), &fx->e);
}

static void test_a_shells_link_is_followed_inside_the_folder(void **state)
{
    struct fixture *fx = *state;
    put(fx, "img/usr/dash", "#!", 0755);
    put(fx, "outside", "#!", 0755);
    assert_ok(fd_mkdirs(in_root(fx, "img/bin"), 0755, &fx->e), &fx->e);
    assert_int_equal(symlink("/usr/dash", in_root(fx, "img/bin/sh")), 0);
    assert_ok(resolve(fx, in_root(fx, "img")), &fx->e);
    assert_int_equal(unlink(in_root(fx, "img/bin/sh")), 0);
    assert_int_equal(symlink("../../outside", in_root(fx, "img/bin/sh")), 0);
    assert_fails(resolve(fx, in_root(fx, "img")), &fx->e, ERR_INVALID, "no root file system");
}

static void test_what_is_no_image_is_told(void **state)
{
    struct fixture *fx = *state;
    put(fx, "file", "x", 0644);
    put(fx, "noshell/usr/bin/true", "x", 0755);
    put(fx, "notrun/bin/sh", "x", 0644);
    assert_ok(fd_mkdirs(in_root(fx, "empty"), 0755, &fx->e), &fx->e);
    assert_ok(fd_mkdirs(in_root(fx, "folder/bin/sh"), 0755, &fx->e), &fx->e);
    assert_fails(resolve(fx, "nope"), &fx->e, ERR_NOT_FOUND, "anybox image make");
    assert_fails(resolve(fx, "a/b"), &fx->e, ERR_INVALID, "relative path");
    assert_fails(resolve(fx, "python:3.12"), &fx->e, ERR_UNSUPPORTED, "provider=docker");
    assert_fails(resolve(fx, "./a"), &fx->e, ERR_INVALID, "relative path");
    assert_fails(resolve(fx, "~/a"), &fx->e, ERR_INVALID, "relative path");
    assert_fails(resolve(fx, ".hidden"), &fx->e, ERR_INVALID, "a name is");
    assert_fails(resolve(fx, in_root(fx, "file")), &fx->e, ERR_INVALID, "not a folder");
    assert_fails(resolve(fx, in_root(fx, "missing")), &fx->e, ERR_NOT_FOUND, "no such folder");
    assert_fails(resolve(fx, in_root(fx, "empty")), &fx->e, ERR_INVALID, "no root file system");
    assert_fails(resolve(fx, in_root(fx, "noshell")), &fx->e, ERR_INVALID, "neither /bin/bash");
    assert_fails(resolve(fx, in_root(fx, "notrun")), &fx->e, ERR_INVALID, "neither /bin/bash");
    assert_fails(resolve(fx, in_root(fx, "folder")), &fx->e, ERR_INVALID, "neither /bin/bash");
}

static void test_places_that_are_closed(void **state)
{
    struct fixture *fx = *state;
    put(fx, "state/boxes/x/bin/sh", "#!", 0755);
    put(fx, "state/images/.a.partial/bin/sh", "#!", 0755);
    put(fx, "state/images/a/sub/bin/sh", "#!", 0755);
    put(fx, "bin/sh", "#!", 0755);
    put(fx, "line\nbreak/bin/sh", "#!", 0755);
    assert_fails(resolve(fx, in_root(fx, "line\nbreak")), &fx->e, ERR_DENIED, "control character");
    assert_int_equal(symlink("line\nbreak", in_root(fx, "innocent")), 0);
    assert_fails(resolve(fx, in_root(fx, "innocent")), &fx->e, ERR_DENIED, "control character");
    assert_int_equal(symlink("/", in_root(fx, "slash")), 0);
    assert_fails(resolve(fx, "/"), &fx->e, ERR_DENIED, "own root");
    assert_fails(resolve(fx, in_root(fx, "slash")), &fx->e, ERR_DENIED, "own root");
    assert_fails(resolve(fx, "/proc/self/root"), &fx->e, ERR_DENIED, "own root");
    assert_fails(resolve(fx, "/dev/shm"), &fx->e, ERR_DENIED, "/dev");
    assert_fails(resolve(fx, "/proc/self"), &fx->e, ERR_DENIED, "/proc");
    assert_fails(resolve(fx, "/usr"), &fx->e, ERR_DENIED, "/usr");
    assert_fails(resolve(fx, fx->root), &fx->e, ERR_DENIED, "state is below");
    assert_fails(resolve(fx, in_root(fx, "state")), &fx->e, ERR_DENIED, "state is below");
    assert_fails(resolve(fx, in_root(fx, "state/images")), &fx->e, ERR_DENIED, "images/");
    assert_fails(resolve(fx, in_root(fx, "state/boxes/x")), &fx->e, ERR_DENIED, "images/");
    assert_fails(resolve(fx, in_root(fx, "state/images/.a.partial")), &fx->e, ERR_DENIED, "whole");
    assert_fails(resolve(fx, in_root(fx, "state/images/a/sub")), &fx->e, ERR_DENIED, "images/");
}

static void test_somebody_elses_folder(void **state)
{
    struct fixture *fx = *state;
    put(fx, "img/bin/sh", "#!", 0755);
    fx->who = (struct uid_range){.mode = UID_SUBUIDS, .uid = 700000000, .count = UID_RANGE};
    if (geteuid() != 0) {
        fx->who = (struct uid_range){.mode = UID_ROOT};
        assert_fails(resolve(fx, in_root(fx, "img")), &fx->e, ERR_INVALID, "belong to root");
        return;
    }
    assert_int_equal(chown(in_root(fx, "img"), 4711, 4711), 0);
    assert_fails(resolve(fx, in_root(fx, "img")), &fx->e, ERR_INVALID, "somebody else");
    assert_int_equal(chown(in_root(fx, "img"), 700000001, 700000001), 0);
    assert_ok(resolve(fx, in_root(fx, "img")), &fx->e);
    assert_int_equal(chown(in_root(fx, "img/bin/sh"), 4711, 4711), 0);
    assert_fails(resolve(fx, in_root(fx, "img")), &fx->e, ERR_INVALID, "shell belongs");
}

static void test_the_error_names_what_there_is(void **state)
{
    struct fixture *fx = *state;
    put(fx, "state/images/zeta/bin/sh", "#!", 0755);
    put(fx, "state/images/alpha/bin/sh", "#!", 0755);
    put(fx, "state/images/.beta.partial/bin/sh", "#!", 0755);
    assert_fails(resolve(fx, "nope"), &fx->e, ERR_NOT_FOUND, "there are alpha, zeta;");
}

/* ---- list and remove --------------------------------------------------------------------- */

struct seen {
    struct image_info items[8];
    size_t n;
};

static int see(void *arg, const struct image_info *info, struct err *e)
{
    struct seen *s = arg;
    (void)e;
    s->items[s->n++] = *info;
    return 0;
}

static void test_list(void **state)
{
    struct fixture *fx = *state;
    struct seen seen = {0};
    assert_ok(provider_image_list(fx->provider, &fx->ctx, see, &seen, &fx->e), &fx->e);
    assert_int_equal(seen.n, 0);
    put(fx, "state/images/b/usr/lib/os-release", "ID=x\nPRETTY_NAME=\"X 1\"\n", 0644);
    put(fx, "state/images/a/usr/lib/os-release", "VERSION_CODENAME=bookworm\n", 0644);
    assert_ok(fd_mkdirs(in_root(fx, "state/images/a/etc"), 0755, &fx->e), &fx->e);
    assert_int_equal(symlink("/usr/lib/os-release", in_root(fx, "state/images/a/etc/os-release")),
                     0);
    assert_ok(fd_mkdirs(in_root(fx, "state/images/c"), 0755, &fx->e), &fx->e);
    put(fx, "state/images/.d.partial/bin/sh", "#!", 0755);
    assert_ok(provider_image_list(fx->provider, &fx->ctx, see, &seen, &fx->e), &fx->e);
    assert_int_equal(seen.n, 3);
    assert_str(seen.items[0].name, S("a"));
    assert_str(seen.items[0].system, S("bookworm"));
    assert_true(seen.items[0].bytes > 0 && seen.items[0].made_at > 0);
    assert_str(seen.items[1].system, S("X 1"));
    assert_str(seen.items[2].name, S("c"));
    assert_int_equal(seen.items[2].system.len, 0);
}

static void test_remove(void **state)
{
    struct fixture *fx = *state;
    put(fx, "state/images/a/bin/sh", "#!", 0755);
    put(fx, "state/images/.b.partial/bin/sh", "#!", 0755);
    assert_ok(provider_image_remove(fx->provider, &fx->ctx, S("a"), &fx->e), &fx->e);
    assert_int_equal(access(in_root(fx, "state/images/a"), F_OK), -1);
    assert_int_equal(access(in_root(fx, "state/images/.a.partial"), F_OK), -1);
    assert_ok(provider_image_remove(fx->provider, &fx->ctx, S("b"), &fx->e), &fx->e);
    assert_int_equal(access(in_root(fx, "state/images/.b.partial"), F_OK), -1);
    assert_fails(provider_image_remove(fx->provider, &fx->ctx, S("a"), &fx->e), &fx->e,
                 ERR_NOT_FOUND, "anybox image list");
    assert_fails(provider_image_remove(fx->provider, &fx->ctx, S("../x"), &fx->e), &fx->e,
                 ERR_INVALID, "no name");
}

static void test_one_that_is_being_made_is_left_alone(void **state)
{
    struct fixture *fx = *state;
    put(fx, "state/images/.a.partial/bin/sh", "#!", 0755);
    int fd = open(in_root(fx, "state/images/.a.partial"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_fails(provider_image_remove(fx->provider, &fx->ctx, S("a"), &fx->e), &fx->e, ERR_EXISTS,
                 "right now");
    assert_int_equal(access(in_root(fx, "state/images/.a.partial/bin/sh"), F_OK), 0);
    (void)close(fd);
}

static void no_phase(void *arg, struct str phase)
{
    (void)arg;
    (void)phase;
}

static void test_orders_that_are_wrong(void **state)
{
    struct fixture *fx = *state;
    static const struct {
        struct image_order order;
        const char *word;
    } wrong[] = {
        {{.name = {"A", 1}}, "no name for an image"},
        {{.name = {"../a", 4}}, "no name for an image"},
        {{.suite = {"--help", 6}}, "suite"},
        {{.suite = {"a b", 3}}, "suite"},
        {{.mirror = {"ftp://x", 7}}, "mirror"},
        {{.mirror = {"http://x y", 10}}, "mirror"},
        {{.packages = {"git make", 8}}, "packages"},
        {{.packages = {"-git", 4}}, "packages"},
    };
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        assert_fails(
            provider_image_make(fx->provider, &fx->ctx, &wrong[i].order, no_phase, NULL, &fx->e),
            &fx->e, ERR_INVALID, wrong[i].word);
    }
    assert_int_equal(access(in_root(fx, "state/images"), F_OK), -1);
}

/* ---- what this machine is ------------------------------------------------------------------ */

static void test_os_release(void **state)
{
    (void)state;
    struct str text = S("# x\nID=debian\nPRETTY_NAME=\"A 'b' C\"\nVERSION='1'\nEMPTY=\nQ=\"");
    assert_str(image_os_value(text, S("ID")), S("debian"));
    assert_str(image_os_value(text, S("PRETTY_NAME")), S("A 'b' C"));
    assert_str(image_os_value(text, S("VERSION")), S("1"));
    assert_str(image_os_value(text, S("EMPTY")), S(""));
    assert_str(image_os_value(text, S("Q")), S("\""));
    assert_str(image_os_value(text, S("NONE")), S(""));
    assert_str(image_os_value(STR_EMPTY, S("ID")), S(""));
}

static void assert_mirror(const char *text, bool deb822, const char *want)
{
    struct str uri = S("untouched");
    bool found = image_parse_sources(str_from(text), deb822, S("bookworm"), &uri);
    assert_int_equal(found, want[0] != '\0');
    assert_str(uri, str_from(want));
}

static void test_sources_of_one_line(void **state)
{
    (void)state;
    assert_mirror("deb http://a/debian bookworm main\n", false, "http://a/debian");
    assert_mirror("# deb http://a/debian bookworm main\n\n"
                  "deb-src http://b/debian bookworm main\n"
                  "deb http://s/security bookworm-security main\n"
                  "deb  [arch=amd64 signed-by=/x]\thttps://c/debian  bookworm  main contrib\n",
                  false, "https://c/debian");
    assert_mirror("deb cdrom:[Debian]/ bookworm main\ndeb file:///srv/debian bookworm main", false,
                  "file:///srv/debian");
    assert_mirror("deb http://a/debian trixie main\n", false, "");
    assert_mirror("deb\ndeb [\ndeb [x]\ndeb http://a", false, "");
    assert_mirror("", false, "");
}

static void test_sources_in_stanzas(void **state)
{
    (void)state;
    assert_mirror("Types: deb\n# http://old\nURIs: http://a/debian\n"
                  "Suites: bookworm bookworm-updates\nComponents: main\n",
                  true, "http://a/debian");
    assert_mirror("Types: deb\nURIs: http://s/x\nSuites: bookworm-security\n\n"
                  "types: deb deb-src\nuris: cdrom:x https://b/debian\nsuites: bookworm\n",
                  true, "https://b/debian");
    assert_mirror("Enabled: no\nTypes: deb\nURIs: http://a\nSuites: bookworm\n", true, "");
    assert_mirror("Types: deb-src\nURIs: http://a\nSuites: bookworm\n", true, "");
    assert_mirror("Types: deb\nURIs:\n http://a/debian\nSuites:\n trixie\n bookworm\n", true,
                  "http://a/debian");
    assert_mirror(" x\n:\n\n\n", true, "");
    assert_mirror("Types: deb\nSuites: bookworm\n\nURIs: http://a\n", true, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test_setup_teardown(test_a_name_and_a_path, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_shells_link_is_followed_inside_the_folder, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_image_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_places_that_are_closed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_somebody_elses_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_error_names_what_there_is, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_remove, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_being_made_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_orders_that_are_wrong, setup, teardown),
        cmocka_unit_test(test_os_release),
        cmocka_unit_test(test_sources_of_one_line),
        cmocka_unit_test(test_sources_in_stanzas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
