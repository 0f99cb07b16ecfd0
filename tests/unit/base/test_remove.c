#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/own.h"
#include "test.h"

struct fixture {
    char path[64];
    int dir;
};

static int set_up(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    (void)snprintf(f->path, sizeof(f->path), "/tmp/anybox-test-XXXXXX");
    if (mkdtemp(f->path) == NULL) {
        return -1;
    }
    f->dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f own_mem = *state;
    struct err e;

    (void)close(f->dir);
    return fd_remove_tree(AT_FDCWD, f->path, &e);
}

static void make_file(int dir, const char *path)
{
    int fd own_fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
}

static bool exists(int dir, const char *path)
{
    struct stat st;

    return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static size_t count_fds(void)
{
    size_t n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void removes_files_folders_and_links(void **state)
{
    struct fixture *f = *state;
    size_t fds = count_fds();
    struct err e;

    assert_int_equal(mkdirat(f->dir, "tree", 0700), 0);
    assert_int_equal(mkdirat(f->dir, "tree/a", 0700), 0);
    assert_int_equal(mkdirat(f->dir, "tree/a/b", 0700), 0);
    make_file(f->dir, "tree/a/b/file");
    assert_int_equal(mkfifoat(f->dir, "tree/fifo", 0600), 0);
    assert_int_equal(symlinkat("nowhere", f->dir, "tree/link"), 0);
    assert_ok(fd_remove_tree(f->dir, "tree", &e), &e);
    assert_false(exists(f->dir, "tree"));
    make_file(f->dir, "file");
    assert_ok(fd_remove_tree(f->dir, "file", &e), &e);
    assert_false(exists(f->dir, "file"));
    assert_int_equal(count_fds(), fds);
}

static void what_is_missing_is_removed(void **state)
{
    struct fixture *f = *state;
    struct err e;

    assert_ok(fd_remove_tree(f->dir, "none", &e), &e);
    assert_ok(fd_remove_tree(f->dir, "none/of/these", &e), &e);
    make_file(f->dir, "file");
    assert_ok(fd_remove_tree(f->dir, "file/x", &e), &e);
    assert_true(exists(f->dir, "file"));
}

static void follows_no_link(void **state)
{
    struct fixture *f = *state;
    struct err e;

    assert_int_equal(mkdirat(f->dir, "kept", 0700), 0);
    make_file(f->dir, "kept/file");
    assert_int_equal(mkdirat(f->dir, "tree", 0700), 0);
    assert_int_equal(symlinkat("../kept", f->dir, "tree/link"), 0);
    assert_int_equal(symlinkat("kept", f->dir, "top"), 0);
    assert_ok(fd_remove_tree(f->dir, "tree", &e), &e);
    assert_ok(fd_remove_tree(f->dir, "top", &e), &e);
    assert_false(exists(f->dir, "top"));
    assert_true(exists(f->dir, "kept/file"));
}

static void opens_locked_folders(void **state)
{
    struct fixture *f = *state;
    struct err e;

    assert_int_equal(mkdirat(f->dir, "tree", 0700), 0);
    assert_int_equal(mkdirat(f->dir, "tree/a", 0700), 0);
    make_file(f->dir, "tree/a/file");
    assert_int_equal(mkdirat(f->dir, "tree/b", 0700), 0);
    make_file(f->dir, "tree/b/file");
    assert_int_equal(fchmodat(f->dir, "tree/a", 0000, 0), 0);
    assert_int_equal(fchmodat(f->dir, "tree/b", 0500, 0), 0);
    assert_int_equal(fchmodat(f->dir, "tree", 0500, 0), 0);
    assert_ok(fd_remove_tree(f->dir, "tree", &e), &e);
    assert_false(exists(f->dir, "tree"));
}

/* Deeper than PATH_MAX and than the descriptors there are. */
static void removes_a_very_deep_tree(void **state)
{
    struct fixture *f = *state;
    struct rlimit old, few;
    int at = dup(f->dir);
    struct err e;

    for (int i = 0; i < 3000; i++) {
        int next;

        assert_int_equal(mkdirat(at, "deep", 0700), 0);
        make_file(at, "file");
        next = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
        assert_true(at >= 0);
    }
    (void)close(at);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_ok(fd_remove_tree(f->dir, "deep", &e), &e);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_false(exists(f->dir, "deep"));
}

static void removes_a_wide_tree(void **state)
{
    struct fixture *f = *state;
    char name[64];
    struct err e;

    assert_int_equal(mkdirat(f->dir, "tree", 0700), 0);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(name, sizeof(name), "tree/%d", i);
        if (i % 3 == 0) {
            assert_int_equal(mkdirat(f->dir, name, 0700), 0);
        } else {
            make_file(f->dir, name);
        }
    }
    assert_ok(fd_remove_tree(f->dir, "tree", &e), &e);
    assert_false(exists(f->dir, "tree"));
}

/* Of the same file system, as `mount --bind` makes it. */
static void leaves_what_is_mounted(void **state)
{
    struct fixture *f = *state;
    char from[96];
    char to[96];
    struct err e;

    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        skip();
    }
    int dir own_fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* of these mounts */
    assert_int_equal(mkdirat(f->dir, "precious", 0700), 0);
    make_file(f->dir, "precious/file");
    assert_int_equal(mkdirat(f->dir, "tree", 0700), 0);
    assert_int_equal(mkdirat(f->dir, "tree/mnt", 0700), 0);
    (void)snprintf(from, sizeof(from), "%s/precious", f->path);
    (void)snprintf(to, sizeof(to), "%s/tree/mnt", f->path);
    assert_int_equal(mount(from, to, NULL, MS_BIND, NULL), 0);
    assert_fails(fd_remove_tree(dir, "tree", &e), &e, ERR_SYSTEM, "mounted at mnt");
    assert_int_equal(umount(to), 0);
    assert_true(exists(f->dir, "precious/file"));
}

static void says_what_cannot_be_removed(void **state)
{
    struct err e;

    (void)state;
    assert_fails(fd_remove_tree(AT_FDCWD, "/proc/self/fdinfo", &e), &e, ERR_DENIED,
                 "remove /proc/self/fdinfo: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(removes_files_folders_and_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_missing_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(follows_no_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opens_locked_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removes_a_very_deep_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removes_a_wide_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leaves_what_is_mounted, set_up, tear_down),
        cmocka_unit_test(says_what_cannot_be_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
