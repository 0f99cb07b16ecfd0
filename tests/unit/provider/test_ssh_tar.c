#include "../tree/scratch.h"
#include "provider/tar.h"

/* ---- with the real tar ------------------------------------------------------------------ */

struct archive {
    struct buf bytes;
    struct tree_reader *files;
};

static int add(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct archive *a = arg;
    struct tree_entry is;
    char some[4096];
    if (entry->path.len == 0) {
        return 0;
    }
    tar_put(&a->bytes, entry);
    if (entry->type != TREE_FILE) {
        return 0;
    }
    assert_ok(tree_reader_open(a->files, entry->path, &is, e), e);
    for (;;) {
        ssize_t n = tree_reader_read(a->files, some, sizeof some, e);
        assert_true(n >= 0);
        if (n == 0) {
            break;
        }
        buf_add(&a->bytes, (struct str){some, (size_t)n});
    }
    tar_pad(&a->bytes, entry->size);
    return 0;
}

/* In this folder, with tar's options. */
static void run_tar(const char *folder, const char *options, const char *file)
{
    char command[256];
    snprintf(command, sizeof command, "cd %s && tar %s -f %s%s", folder, options, file,
             options[1] == 'c' ? " ./" : "");
    assert_int_equal(system(command), 0);
}

static void whole_seconds(int fd)
{
    char command[128];
    snprintf(command, sizeof command,
             "cd /proc/%d/fd/%d/ && find . -depth -exec touch -h -d @1234567890 {} +", getpid(),
             fd);
    assert_int_equal(system(command), 0);
}

static void what_we_write_tar_reads_and_the_other_way_round(void **state)
{
    (void)state;
    for (int round = 0; round < 6; round++) {
        struct scratch from = scratch_new();
        struct scratch to = scratch_new();
        struct scratch back = scratch_new();
        struct scratch files = scratch_new();
        struct archive a = {0};
        char path[128];
        struct err e = {0};
        random_fill(from.fd, 3);
        make_dir(from.fd, "deep", 0755);
        char deep[300] = "deep/";
        memset(deep + 5, 'x', 200);
        make_file(from.fd, deep, S("long name"), 0644);
        memset(deep, 'y', 299);
        deep[299] = '\0';
        assert_int_equal(symlinkat(deep, from.fd, "deep/link"), 0);
        whole_seconds(from.fd);
        /* Ours, read by tar. */
        buf_init(&a.bytes, 64 << 20);
        a.files = tree_reader_new(from.fd);
        assert_ok(tree_walk(&(struct walk_req){.root_fd = from.fd}, add, &a, &e), &e);
        tar_end(&a.bytes, a.bytes.len);
        assert_int_equal(a.bytes.len % TAR_RECORD, 0);
        assert_ok(fd_replace_file(files.fd, "ours", buf_str(&a.bytes), 0600, &e), &e);
        snprintf(path, sizeof path, "%s/ours", files.path);
        run_tar(to.path, "-x -p --no-same-owner", path);
        whole_seconds(to.fd);
        assert_same_tree(from.fd, to.fd);
        /* Theirs, read by us, in pieces of any size. */
        snprintf(path, sizeof path, "%s/theirs", files.path);
        run_tar(from.path,
                round % 2 ? "-c --format=gnu --sort=name" : "-c --format=posix --sort=name", path);
        struct arena arena;
        struct str theirs;
        arena_init(&arena, 256 << 20);
        assert_ok(fd_read_file(files.fd, "theirs", 64 << 20, &arena, &theirs, &e), &e);
        struct tar_in in;
        tar_in_init(&in);
        struct apply *apply = apply_open(&(struct apply_req){.root_fd = back.fd});
        while (theirs.len > 0) {
            size_t n = 1 + below(below(2) ? 700 : 30000);
            assert_ok(tar_read(&in, str_head(theirs, n), apply_sink(apply), &e), &e);
            theirs = str_skip(theirs, n);
        }
        assert_true(tar_is_done(&in));
        tar_in_fini(&in);
        assert_ok(apply_close(apply, true, &e), &e);
        whole_seconds(back.fd);
        assert_same_tree(from.fd, back.fd);
        arena_fini(&arena);
        tree_reader_free(a.files);
        buf_fini(&a.bytes);
        scratch_end(&from);
        scratch_end(&to);
        scratch_end(&back);
        scratch_end(&files);
    }
}

/* ---- a host that lies ---------------------------------------------------------------------- */

static int ignore_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)e;
    assert_true(tree_path_ok(entry->path));
    *(struct tree_entry *)arg = *entry;
    return 0;
}

static int ignore_data(void *arg, struct str bytes, struct err *e)
{
    (void)arg, (void)bytes, (void)e;
    return 0;
}

static int ignore_done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)arg, (void)ok, (void)why, (void)e;
    return 0;
}

static int read_one(struct str bytes, struct tree_entry *out, struct err *e)
{
    struct tree_sink to = {
        .entry = ignore_entry, .data = ignore_data, .done = ignore_done, .arg = out};
    struct tar_in in;
    tar_in_init(&in);
    int rc = tar_read(&in, bytes, &to, e);
    tar_in_fini(&in);
    return rc;
}

static void names_that_lead_out_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"../x", "/etc/passwd", "a/../../x", "a//b"};
    for (size_t i = 0; i < 4; i++) {
        struct buf b;
        struct tree_entry got;
        struct err e;
        buf_init(&b, 1 << 20);
        tar_put(&b, &(struct tree_entry){.path = str_from(bad[i])});
        assert_fails(read_one(buf_str(&b), &got, &e), &e, ERR_PROTOCOL, "path");
        buf_fini(&b);
    }
}

static void headers_that_cannot_be_right_are_refused(void **state)
{
    (void)state;
    struct buf b;
    struct tree_entry got = {0};
    struct err e;
    buf_init(&b, 1 << 20);
    tar_put(&b, &(struct tree_entry){.path = S("a"), .size = 5, .mode = 0644});
    assert_ok(read_one(buf_str(&b), &got, &e), &e);
    assert_int_equal(got.size, 5);
    b.p[0] = 'b'; /* the sum is another one now */
    assert_fails(read_one(buf_str(&b), &got, &e), &e, ERR_PROTOCOL, "header");
    buf_clear(&b);
    tar_put(&b, &(struct tree_entry){.path = S("big"), .size = UINT64_C(1) << 40});
    assert_ok(read_one(buf_str(&b), &got, &e), &e);
    assert_int_equal(got.size, UINT64_C(1) << 40);
    memcpy(b.p + TAR_BLOCK, "99 size=1", 9); /* longer than what is there */
    assert_fails(read_one(buf_str(&b), &got, &e), &e, ERR_PROTOCOL, "record");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_we_write_tar_reads_and_the_other_way_round),
        cmocka_unit_test(names_that_lead_out_are_refused),
        cmocka_unit_test(headers_that_cannot_be_right_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
