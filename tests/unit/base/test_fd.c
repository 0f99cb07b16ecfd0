#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

static size_t count_entries(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fdopendir(fd);
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) {
        n++;
    }
    (void)closedir(d);
    return n - 2;
}

static void replaces_and_reads_a_file(void **state)
{
    struct fixture *f = *state;
    struct arena a own_arena = {.limit = 1 << 20};
    struct str got;
    struct stat st;
    struct err e;

    assert_ok(fd_replace_file(f->dir, "file", S("one"), 0640, &e), &e);
    assert_ok(fd_replace_file(f->dir, "file", S("t\0wo"), 0604, &e), &e);
    assert_ok(fd_read_file(f->dir, "file", 4, &a, &got, &e), &e);
    assert_str(got, S("t\0wo"));
    assert_int_equal(fstatat(f->dir, "file", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0604);
    assert_int_equal(count_entries(f->dir), 1);
    assert_fails(fd_read_file(f->dir, "file", 3, &a, &got, &e), &e, ERR_LIMIT,
                 "file is longer than 3 bytes");
    assert_fails(fd_read_file(f->dir, "none", 3, &a, &got, &e), &e, ERR_NOT_FOUND, "open none");
    assert_ok(fd_replace_file(f->dir, "file", S(""), 0600, &e), &e);
    assert_ok(fd_read_file(f->dir, "file", 0, &a, &got, &e), &e);
    assert_int_equal(got.len, 0);
}

static void reads_files_of_unknown_size(void **state)
{
    struct arena a own_arena = {.limit = 1 << 20};
    struct str got;
    struct err e;

    (void)state;
    assert_ok(fd_read_file(AT_FDCWD, "/proc/self/status", 1 << 16, &a, &got, &e), &e);
    assert_true(str_starts(got, S("Name:")));
    assert_fails(fd_read_file(AT_FDCWD, "/proc", 100, &a, &got, &e), &e, ERR_SYSTEM, "/proc: read");
}

static void leaves_nothing_when_replacing_fails(void **state)
{
    struct fixture *f = *state;
    struct err e;

    assert_int_equal(mkdirat(f->dir, "folder", 0700), 0);
    assert_fails(fd_replace_file(f->dir, "folder", S("x"), 0600, &e), &e, ERR_SYSTEM,
                 "write folder: rename");
    assert_int_equal(count_entries(f->dir), 1);
    assert_fails(fd_replace_file(f->dir, "none/file", S("x"), 0600, &e), &e, ERR_NOT_FOUND,
                 "write none/file: open its folder");
}

static void replaces_by_path_as_well(void **state)
{
    struct fixture *f = *state;
    struct arena a own_arena = {.limit = 1 << 20};
    struct str path = arena_printf(&a, "%s/deep/er/file", f->path);
    struct str got;
    struct err e;

    assert_ok(fd_mkdirs(arena_printf(&a, "%s/deep//er/", f->path).p, 0700, &e), &e);
    assert_ok(fd_mkdirs(arena_printf(&a, "%s/deep/er", f->path).p, 0700, &e), &e);
    assert_ok(fd_replace_file(AT_FDCWD, path.p, S("x"), 0600, &e), &e);
    assert_ok(fd_read_file(f->dir, "deep/er/file", 10, &a, &got, &e), &e);
    assert_str(got, S("x"));
    assert_fails(fd_mkdirs(path.p, 0700, &e), &e, ERR_EXISTS, "is not a folder");
    assert_fails(fd_mkdirs(arena_printf(&a, "%s/x", path.p).p, 0700, &e), &e, ERR_NOT_FOUND,
                 "make the folder");
}

struct reader {
    int fd;
    size_t got;
};

static void *read_slowly(void *arg)
{
    struct reader *r = arg;
    char bytes[777];
    struct err e;
    ssize_t n;

    do {
        n = fd_read(r->fd, bytes, sizeof(bytes), &e);
        r->got += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    return NULL;
}

static void writes_everything_to_a_nonblocking_pipe(void **state)
{
    const size_t size = 1 << 20;
    char *bytes own_mem = xcalloc(1, size);
    struct reader reader = {0};
    pthread_t thread;
    struct err e;
    int p[2];

    (void)state;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_ok(fd_set_nonblock(p[1], true, &e), &e);
    assert_true((fcntl(p[1], F_GETFL) & O_NONBLOCK) != 0);
    reader.fd = p[0];
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    assert_ok(fd_write_all(p[1], (struct str){bytes, size}, &e), &e);
    assert_ok(fd_set_nonblock(p[1], false, &e), &e);
    assert_true((fcntl(p[1], F_GETFL) & O_NONBLOCK) == 0);
    (void)close(p[1]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reader.got, size);
    (void)close(p[0]);
}

static void says_what_failed(void **state)
{
    char c;
    struct err e;

    (void)state;
    assert_fails(fd_write_all(-1, S("x"), &e), &e, ERR_SYSTEM, "write: Bad file descriptor");
    assert_fails(fd_read(-1, &c, 1, &e), &e, ERR_SYSTEM, "read: Bad file descriptor");
    assert_fails(fd_set_nonblock(-1, true, &e), &e, ERR_SYSTEM, "Bad file descriptor");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(replaces_and_reads_a_file, set_up, tear_down),
        cmocka_unit_test(reads_files_of_unknown_size),
        cmocka_unit_test_setup_teardown(leaves_nothing_when_replacing_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(replaces_by_path_as_well, set_up, tear_down),
        cmocka_unit_test(writes_everything_to_a_nonblocking_pipe),
        cmocka_unit_test(says_what_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
