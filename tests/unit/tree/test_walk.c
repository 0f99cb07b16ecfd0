#include "scratch.h"

static void entries_come_in_order_with_what_they_are(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    make_dir(s.fd, "a", 0755);
    make_file(s.fd, "a/z", S("zz"), 0644);
    make_file(s.fd, "a.txt", S("abc"), 04755);
    make_dir(s.fd, "a b", 0700);
    assert_int_equal(symlinkat("/nowhere", s.fd, "l"), 0);
    assert_int_equal(mkfifoat(s.fd, "p", 0600), 0);
    make_file(s.fd, TREE_TEMP_PREFIX "0123", S("left"), 0600);
    assert_int_equal(fchmod(s.fd, 0755), 0);
    struct dump d = dump_tree(&(struct walk_req){.root_fd = s.fd, .sums = true}, false);
    assert_str(
        buf_str(&d.text),
        S("\t1 755 0  -\n"
          "a\t1 755 0  -\n"
          "a/z\t0 644 2  4a60bf7d4bc1e485744cf7e8d0860524752fca1ce42331be7c439fd23043f151\n"
          "a b\t1 700 0  -\n"
          "a.txt\t0 755 3  ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"
          "l\t2 0 0 /nowhere -\n"
          "p\t3 600 0  -\n"));
    buf_fini(&d.text);
    scratch_end(&s);
}

static void a_file_as_root_is_one_entry(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    make_file(s.fd, "f", S("abc"), 0644);
    int fd = openat(s.fd, "f", O_RDONLY);
    struct dump d = dump_tree(&(struct walk_req){.root_fd = fd, .sums = true}, false);
    assert_str(buf_str(&d.text),
               S("\t0 644 3  ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\n"));
    buf_fini(&d.text);
    close(fd);
    scratch_end(&s);
}

static void count_excluded(void *arg, struct str path, bool is_dir)
{
    (void)path;
    ((int *)arg)[is_dir ? 1 : 0]++;
}

static void gitignore_files_count_and_excludes_stand_above_them(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct arena a;
    struct err e;
    int counts[2] = {0, 0};
    arena_init(&a, 1 << 20);
    struct exclude *x = exclude_new(&a, EXCLUDE_GIT);
    assert_ok(exclude_add(x, STR_EMPTY, S("!kept.o"), &e), &e);
    assert_ok(exclude_add(x, STR_EMPTY, S("skip/"), &e), &e);
    make_file(s.fd, ".gitignore", S("*.o\n/only\n"), 0644);
    make_file(s.fd, "kept.o", S(""), 0644);
    make_file(s.fd, "x.o", S(""), 0644);
    make_dir(s.fd, "skip", 0755);
    make_file(s.fd, "skip/y", S(""), 0644);
    make_dir(s.fd, "d", 0755);
    make_file(s.fd, "d/.gitignore", S("!x.o\nq\n"), 0644);
    make_file(s.fd, "d/x.o", S(""), 0644);
    make_file(s.fd, "d/only", S(""), 0644);
    make_file(s.fd, "d/q", S(""), 0644);
    struct walk_req req = {.root_fd = s.fd,
                           .exclude = x,
                           .gitignore = true,
                           .excluded = count_excluded,
                           .arg = counts};
    struct dump d = dump_tree(&req, false);
    assert_null(strstr(d.text.p, "\nx.o\t"));
    assert_null(strstr(d.text.p, "skip"));
    assert_null(strstr(d.text.p, "d/q"));
    assert_non_null(strstr(d.text.p, "\nkept.o\t"));
    assert_non_null(strstr(d.text.p, "d/x.o"));
    assert_non_null(strstr(d.text.p, "d/only"));
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 1);
    buf_fini(&d.text);
    arena_fini(&a);
    scratch_end(&s);
}

static void a_link_to_a_list_is_no_list(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    make_file(s.fd, "list", S("x\n"), 0644);
    make_file(s.fd, "x", S(""), 0644);
    assert_int_equal(symlinkat("list", s.fd, ".gitignore"), 0);
    struct dump d = dump_tree(&(struct walk_req){.root_fd = s.fd, .gitignore = true}, false);
    assert_non_null(strstr(d.text.p, "\nx\t"));
    buf_fini(&d.text);
    scratch_end(&s);
}

static void more_folders_deep_than_descriptors(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct err e;
    int fd = dup(s.fd);
    for (int i = 0; i < 1500; i++) {
        assert_int_equal(mkdirat(fd, "d", 0755), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        make_file(fd, "z", S("z"), 0644);
        close(fd);
        fd = next;
    }
    close(fd);
    struct dump d = dump_tree(&(struct walk_req){.root_fd = s.fd}, false);
    size_t lines = 0;
    for (size_t i = 0; i < d.text.len; i++) {
        lines += d.text.p[i] == '\n';
    }
    assert_int_equal(lines, 3001);
    buf_fini(&d.text);
    struct scratch copy = scratch_new();
    copy_tree(s.fd, copy.fd, NULL);
    assert_same_tree(s.fd, copy.fd);
    scratch_end(&copy);
    d = (struct dump){0};
    buf_init(&d.text, 64 << 20);
    struct walk_req few = {.root_fd = s.fd, .max_entries = 3000};
    assert_fails(tree_walk(&few, dump_entry, &d, &e), &e, ERR_LIMIT, "3000");
    buf_fini(&d.text);
    scratch_end(&s);
}

static int note_unreadable(void *arg, struct str path, int errnum, struct err *e)
{
    (void)e;
    assert_str(path, S("closed"));
    assert_int_equal(errnum, EACCES);
    ++*(int *)arg;
    return 0;
}

static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    if (geteuid() == 0 && seteuid(65534) != 0) {
        skip();
    }
    struct scratch s = scratch_new();
    int told = 0;
    make_dir(s.fd, "closed", 0);
    make_file(s.fd, "open", S(""), 0644);
    struct walk_req req = {.root_fd = s.fd, .unreadable = note_unreadable, .arg = &told};
    struct dump d = dump_tree(&req, false);
    assert_int_equal(told, 1);
    assert_null(strstr(d.text.p, "closed"));
    assert_non_null(strstr(d.text.p, "open"));
    buf_fini(&d.text);
    if (getuid() == 0) {
        assert_int_equal(seteuid(0), 0);
    }
    scratch_end(&s);
}

static int stop(void *arg, struct err *e)
{
    (void)arg;
    return err_set(e, ERR_CANCELLED, "enough");
}

static void a_walk_can_be_ended(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct err e;
    struct dump d = {0};
    make_file(s.fd, "x", S("x"), 0644);
    buf_init(&d.text, 4096);
    assert_fails(tree_walk(&(struct walk_req){.root_fd = s.fd, .tick = stop}, dump_entry, &d, &e),
                 &e, ERR_CANCELLED, "enough");
    buf_fini(&d.text);
    scratch_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_in_order_with_what_they_are),
        cmocka_unit_test(a_file_as_root_is_one_entry),
        cmocka_unit_test(gitignore_files_count_and_excludes_stand_above_them),
        cmocka_unit_test(a_link_to_a_list_is_no_list),
        cmocka_unit_test(more_folders_deep_than_descriptors),
        cmocka_unit_test(what_cannot_be_read_is_told),
        cmocka_unit_test(a_walk_can_be_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
