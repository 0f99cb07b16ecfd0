#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "scratch.h"

/* Pushes one entry and, for a file, its bytes. */
static int push(const struct tree_sink *to, struct tree_entry entry, struct str bytes,
                struct err *e)
{
    if (to->entry(to->arg, &entry, e) < 0) {
        return -1;
    }
    if (entry.type != TREE_FILE) {
        return 0;
    }
    if (to->data(to->arg, bytes, e) < 0) {
        return -1;
    }
    return to->done(to->arg, true, STR_EMPTY, e);
}

static struct tree_entry a_file(const char *path)
{
    return (struct tree_entry){
        .path = str_from(path), .type = TREE_FILE, .mode = 0644, .mtime_ns = 1000000000};
}

static struct tree_entry a_dir(const char *path)
{
    return (struct tree_entry){
        .path = str_from(path), .type = TREE_DIR, .mode = 0755, .mtime_ns = 1000000000};
}

static struct tree_entry a_link(const char *path, const char *target)
{
    return (struct tree_entry){
        .path = str_from(path), .type = TREE_LINK, .target = str_from(target)};
}

static void check_file(int at, const char *path, const char *want)
{
    struct arena a;
    struct str got;
    struct err e;
    arena_init(&a, 1 << 20);
    assert_ok(fd_read_file(at, path, 1 << 16, &a, &got, &e), &e);
    assert_str(got, str_from(want));
    arena_fini(&a);
}

static int count_names(int at)
{
    struct dump d = dump_tree(&(struct walk_req){.root_fd = at}, false);
    int n = -1; /* the root */
    for (size_t i = 0; i < d.text.len; i++) {
        n += d.text.p[i] == '\n';
    }
    buf_fini(&d.text);
    return n;
}

/* ---- the same tree again ----------------------------------------------------------- */

static void random_trees_arrive_as_they_are(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        if (getuid() == 0) { /* whom rights mean nothing */
            assert_int_equal(seteuid(round % 2 ? 65534 : 0), 0);
        }
        struct scratch from = scratch_new();
        struct scratch to = scratch_new();
        random_fill(from.fd, 3);
        if (round % 3 == 0) {
            random_fill(to.fd, 2); /* other things are in the way, and stay where they are not */
            struct apply *a = apply_open(&(struct apply_req){.root_fd = to.fd});
            struct err e = {0};
            struct copying c = {.from = tree_reader_new(from.fd), .to = apply_sink(a)};
            int rc = tree_walk(&(struct walk_req){.root_fd = from.fd}, copy_entry, &c, &e);
            assert_true(rc == 0 || strstr(e.msg, "irectory") != NULL);
            tree_reader_free(c.from);
            assert_ok(apply_close(a, rc == 0, &e), &e);
        } else {
            struct apply_stats stats;
            copy_tree(from.fd, to.fd, &stats);
            assert_same_tree(from.fd, to.fd);
            copy_tree(from.fd, to.fd, &stats); /* over itself */
            assert_int_equal(stats.dirs, 0);
            assert_same_tree(from.fd, to.fd);
        }
        scratch_end(&from);
        scratch_end(&to);
    }
    assert_int_equal(seteuid(getuid()), 0);
}

static void holes_stay_holes(void **state)
{
    (void)state;
    struct scratch from = scratch_new();
    struct scratch to = scratch_new();
    struct stat is;
    int fd = openat(from.fd, "big", O_RDWR | O_CREAT, 0644);
    assert_int_equal(ftruncate(fd, (off_t)5 << 30), 0);
    assert_int_equal(pwrite(fd, "x", 1, (off_t)3 << 30), 1);
    close(fd);
    copy_tree(from.fd, to.fd, NULL);
    assert_int_equal(fstatat(to.fd, "big", &is, 0), 0);
    assert_int_equal(is.st_size, (off_t)5 << 30);
    assert_true(is.st_blocks < 2048);
    fd = openat(to.fd, "big", O_RDONLY);
    char c = 0;
    assert_int_equal(pread(fd, &c, 1, (off_t)3 << 30), 1);
    assert_int_equal(c, 'x');
    close(fd);
    scratch_end(&from);
    scratch_end(&to);
}

static void zeros_become_holes_wherever_they_are(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        static char bytes[100000];
        static char got[100000];
        struct scratch to = scratch_new();
        struct err e;
        size_t len = below(sizeof bytes);
        memset(bytes, 'x', sizeof bytes);
        for (int i = 0; i < 3; i++) {
            size_t at = below(sizeof bytes);
            memset(bytes + at, 0, below((uint32_t)(sizeof bytes - at)));
        }
        struct apply *a = apply_open(&(struct apply_req){.root_fd = to.fd});
        const struct tree_sink *sink = apply_sink(a);
        struct tree_entry f = a_file("f");
        assert_ok(sink->entry(sink->arg, &f, &e), &e);
        for (size_t at = 0; at < len;) {
            size_t n = 1 + below(20000);
            n = n < len - at ? n : len - at;
            assert_ok(sink->data(sink->arg, (struct str){bytes + at, n}, &e), &e);
            at += n;
        }
        assert_ok(sink->done(sink->arg, true, STR_EMPTY, &e), &e);
        assert_int_equal(apply_stats(a)->bytes, len);
        assert_ok(apply_close(a, true, &e), &e);
        int fd = openat(to.fd, "f", O_RDONLY);
        assert_int_equal(read(fd, got, sizeof got), len);
        assert_memory_equal(got, bytes, len);
        close(fd);
        scratch_end(&to);
    }
}

/* ---- hostile sequences ----------------------------------------------------------------- */

struct told {
    int n;
    char last[512];
};

static int note_failed(void *arg, struct str path, struct str why, struct err *e)
{
    struct told *t = arg;
    (void)e;
    t->n++;
    snprintf(t->last, sizeof t->last, "%.*s: %.*s", STR_ARG(str_head(path, 100)), STR_ARG(why));
    return 0;
}

static void names_that_lead_out_are_refused(void **state)
{
    (void)state;
    const char *const bad[] = {"..",  "../x", "a/../../x", "/etc/x", "a//b", "a/",
                               "./x", ".",    "",          "a/./b",  "a/..", TREE_TEMP_PREFIX "1"};
    struct scratch s = scratch_new();
    make_dir(s.fd, "in", 0755);
    int in = openat(s.fd, "in", O_RDONLY | O_DIRECTORY);
    struct told told = {0};
    struct err e;
    struct apply *a =
        apply_open(&(struct apply_req){.root_fd = in, .failed = note_failed, .arg = &told});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_ok(push(apply_sink(a), a_file(bad[i]), S("evil"), &e), &e);
        assert_int_equal(told.n, 2 * i + 1);
        assert_ok(push(apply_sink(a), a_link(bad[i], "x"), STR_EMPTY, &e), &e);
        assert_int_equal(told.n, 2 * i + 2);
    }
    struct tree_entry nul = a_file("x");
    nul.path = S("a\0b");
    assert_ok(push(apply_sink(a), nul, S("evil"), &e), &e);
    struct tree_entry other = a_file("dev");
    other.type = TREE_OTHER;
    assert_ok(push(apply_sink(a), other, STR_EMPTY, &e), &e);
    assert_ok(push(apply_sink(a), a_link("l", ""), STR_EMPTY, &e), &e);
    assert_int_equal(apply_stats(a)->skipped, 2 * sizeof bad / sizeof *bad + 3);
    assert_ok(apply_close(a, true, &e), &e);
    assert_int_equal(count_names(s.fd), 1);
    close(in);
    scratch_end(&s);
}

static void links_in_the_way_are_replaced_and_not_followed(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct err e;
    make_dir(s.fd, "in", 0755);
    make_dir(s.fd, "out", 0755);
    make_file(s.fd, "victim", S("safe"), 0644);
    int in = openat(s.fd, "in", O_RDONLY | O_DIRECTORY);
    assert_int_equal(symlinkat("../out", in, "d"), 0);
    assert_int_equal(symlinkat("../out", in, "e"), 0);
    assert_int_equal(symlinkat("../victim", in, "f"), 0);
    assert_int_equal(linkat(s.fd, "victim", in, "hard", 0), 0);
    struct apply *a = apply_open(&(struct apply_req){.root_fd = in});
    const struct tree_sink *sink = apply_sink(a);
    assert_ok(push(sink, a_dir("d"), STR_EMPTY, &e), &e);
    assert_ok(push(sink, a_file("d/x"), S("1"), &e), &e);
    assert_ok(push(sink, a_file("e/x"), S("2"), &e), &e);
    assert_ok(push(sink, a_file("f"), S("3"), &e), &e);
    assert_ok(push(sink, a_file("hard"), S("4"), &e), &e);
    /* A link that the sequence itself made leads nowhere either. */
    assert_ok(push(sink, a_link("g", "../out"), STR_EMPTY, &e), &e);
    assert_ok(push(sink, a_file("g/x"), S("5"), &e), &e);
    assert_ok(apply_close(a, true, &e), &e);
    check_file(s.fd, "victim", "safe");
    check_file(in, "d/x", "1");
    check_file(in, "e/x", "2");
    check_file(in, "f", "3");
    check_file(in, "g/x", "5");
    assert_int_equal(faccessat(s.fd, "out/x", F_OK, 0), -1);
    close(in);
    scratch_end(&s);
}

static void kinds_replace_each_other_but_no_full_folder(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct told told = {0};
    struct err e;
    make_dir(s.fd, "empty", 0755);
    make_dir(s.fd, "full", 0755);
    make_file(s.fd, "full/x", S("x"), 0644);
    make_file(s.fd, "file", S("old"), 0644);
    struct apply *a =
        apply_open(&(struct apply_req){.root_fd = s.fd, .failed = note_failed, .arg = &told});
    const struct tree_sink *sink = apply_sink(a);
    assert_ok(push(sink, a_file("empty"), S("now a file"), &e), &e);
    assert_ok(push(sink, a_file("full"), S("no"), &e), &e);
    assert_int_equal(told.n, 1);
    assert_non_null(strstr(told.last, "in the way"));
    assert_ok(push(sink, a_link("full", "no"), STR_EMPTY, &e), &e);
    assert_int_equal(told.n, 2);
    assert_ok(push(sink, a_file("file/below"), S("y"), &e), &e);
    assert_ok(apply_close(a, true, &e), &e);
    check_file(s.fd, "empty", "now a file");
    check_file(s.fd, "full/x", "x");
    check_file(s.fd, "file/below", "y");
    scratch_end(&s);
}

static void special_bits_are_never_set(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct stat is;
    struct err e;
    make_dir(s.fd, "shared", 02775);
    struct apply *a = apply_open(&(struct apply_req){.root_fd = s.fd});
    struct tree_entry f = a_file("f");
    struct tree_entry d = a_dir("d");
    struct tree_entry shared = a_dir("shared");
    f.mode = 06755;
    d.mode = 03777;
    shared.mode = 0750;
    assert_ok(push(apply_sink(a), d, STR_EMPTY, &e), &e);
    assert_ok(push(apply_sink(a), f, S("#!"), &e), &e);
    assert_ok(push(apply_sink(a), shared, STR_EMPTY, &e), &e);
    assert_ok(apply_close(a, true, &e), &e);
    assert_int_equal(fstatat(s.fd, "f", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0755);
    assert_int_equal(fstatat(s.fd, "d", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0777);
    assert_int_equal(fstatat(s.fd, "shared", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 02750);
    scratch_end(&s);
}

/* Another process swaps a folder for a link to the outside, as fast as it can. */
static void modes_and_times_alone_leave_the_contents(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct told told = {0};
    struct stat is;
    struct err e;
    make_file(s.fd, "kept", S("old"), 0);
    make_file(s.fd, "behind", S("old"), 0600);
    assert_int_equal(symlinkat("behind", s.fd, "link"), 0);
    struct apply *a =
        apply_open(&(struct apply_req){.root_fd = s.fd, .failed = note_failed, .arg = &told});
    const char *const paths[] = {"kept", "link", "missing"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct tree_entry entry = a_file(paths[i]);
        entry.meta_only = true;
        entry.mode = 04755;
        assert_ok(apply_sink(a)->entry(apply_sink(a)->arg, &entry, &e), &e);
        assert_int_equal(told.n, i);
    }
    assert_int_equal(apply_stats(a)->files, 0);
    assert_ok(apply_close(a, true, &e), &e);
    check_file(s.fd, "kept", "old");
    assert_int_equal(fstatat(s.fd, "kept", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0755);
    assert_int_equal(is.st_mtim.tv_sec, 1);
    assert_int_equal(fstatat(s.fd, "behind", &is, 0), 0);
    assert_int_equal(is.st_mode & 07777, 0600);
    assert_int_equal(count_names(s.fd), 3);
    scratch_end(&s);
}

static void a_race_leads_nowhere(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    make_dir(s.fd, "in", 0755);
    make_dir(s.fd, "out", 0755);
    int in = openat(s.fd, "in", O_RDONLY | O_DIRECTORY);
    make_dir(in, "d", 0755);
    assert_int_equal(symlinkat("../out", in, "l"), 0);
    pid_t rogue = fork();
    if (rogue == 0) {
        for (;;) {
            (void)!renameat2(in, "d", in, "l", RENAME_EXCHANGE);
        }
    }
    assert_true(rogue > 0);
    for (int i = 0; i < 3000; i++) {
        struct told told = {0};
        struct err e;
        char path[32];
        struct apply *a =
            apply_open(&(struct apply_req){.root_fd = in, .failed = note_failed, .arg = &told});
        snprintf(path, sizeof path, "d/x%d", i % 10);
        assert_ok(push(apply_sink(a), a_file(path), S("1"), &e), &e);
        assert_ok(apply_close(a, true, &e), &e);
        struct str gone = str_from(path);
        struct prune_stats pruned;
        (void)!tree_prune(in, &gone, 1, &pruned, &e);
        (void)!symlinkat("../out", in, "l");
    }
    kill(rogue, SIGKILL);
    assert_int_equal(waitpid(rogue, NULL, 0), rogue);
    int out = openat(s.fd, "out", O_RDONLY | O_DIRECTORY);
    assert_int_equal(count_names(out), 0);
    close(out);
    close(in);
    scratch_end(&s);
}

/* ---- old or new, never half --------------------------------------------------------------- */

static void what_is_broken_off_leaves_the_old(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct told told = {0};
    struct err e;
    make_file(s.fd, "f", S("old"), 0644);
    make_file(s.fd, "g", S("old"), 0644);
    struct apply *a =
        apply_open(&(struct apply_req){.root_fd = s.fd, .failed = note_failed, .arg = &told});
    const struct tree_sink *sink = apply_sink(a);
    struct tree_entry f = a_file("f");
    struct tree_entry g = a_file("g");
    assert_ok(sink->entry(sink->arg, &f, &e), &e);
    assert_ok(sink->data(sink->arg, S("ne"), &e), &e);
    assert_ok(sink->done(sink->arg, false, S("it shrank"), &e), &e);
    assert_string_equal(told.last, "f: it shrank");
    assert_int_equal(apply_stats(a)->skipped, 1);
    assert_ok(sink->entry(sink->arg, &g, &e), &e);
    assert_ok(sink->data(sink->arg, S("ne"), &e), &e);
    assert_ok(apply_close(a, false, &e), &e);
    check_file(s.fd, "f", "old");
    check_file(s.fd, "g", "old");
    assert_int_equal(count_names(s.fd), 2);
    scratch_end(&s);
}

static int count_temps(int at)
{
    char command[128];
    snprintf(command, sizeof command, "ls -A /proc/%d/fd/%d/ | grep -c '^" TREE_TEMP_PREFIX "'",
             getpid(), at);
    FILE *f = popen(command, "r");
    int n = -1;
    assert_int_equal(fscanf(f, "%d", &n), 1);
    pclose(f);
    return n;
}

static void leftovers_of_the_dead_are_removed_and_those_of_the_living_stay(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct err e;
    make_dir(s.fd, "d", 0755);
    int d = openat(s.fd, "d", O_RDONLY | O_DIRECTORY);
    pid_t child = fork();
    if (child == 0) {
        struct apply *dying = apply_open(&(struct apply_req){.root_fd = s.fd});
        const struct tree_sink *sink = apply_sink(dying);
        struct tree_entry f = a_file("d/f");
        (void)!sink->entry(sink->arg, &f, &e);
        (void)!sink->data(sink->arg, S("half"), &e);
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(count_temps(d), 1);
    struct apply *first = apply_open(&(struct apply_req){.root_fd = s.fd});
    struct apply *second = apply_open(&(struct apply_req){.root_fd = s.fd});
    const struct tree_sink *sink = apply_sink(first);
    struct tree_entry f = a_file("d/f");
    assert_ok(sink->entry(sink->arg, &f, &e), &e);
    assert_int_equal(count_temps(d), 1);
    assert_ok(push(apply_sink(second), a_file("d/g"), S("g"), &e), &e);
    assert_int_equal(count_temps(d), 1);
    assert_ok(sink->data(sink->arg, S("whole"), &e), &e);
    assert_ok(sink->done(sink->arg, true, STR_EMPTY, &e), &e);
    assert_ok(apply_close(first, true, &e), &e);
    assert_ok(apply_close(second, true, &e), &e);
    assert_int_equal(count_temps(d), 0);
    check_file(d, "f", "whole");
    close(d);
    scratch_end(&s);
}

static void folders_that_are_only_passed_keep_their_time(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct stat is;
    struct err e;
    struct str paths[] = {S("d"), S("d/e"), S("d/e/old"), S("gone")};
    struct prune_stats pruned;
    make_dir(s.fd, "d", 0755);
    make_dir(s.fd, "d/e", 0755);
    make_file(s.fd, "d/e/old", S(""), 0644);
    assert_int_equal(fchmodat(s.fd, "d/e", 0555, 0), 0);
    set_time(s.fd, "d/e", 5000000000);
    set_time(s.fd, "d", 7000000000);
    struct apply *a = apply_open(&(struct apply_req){.root_fd = s.fd});
    assert_ok(push(apply_sink(a), a_file("d/e/new"), S("x"), &e), &e);
    assert_ok(apply_close(a, true, &e), &e);
    assert_ok(tree_prune(s.fd, paths, 4, &pruned, &e), &e);
    assert_int_equal(pruned.files, 1);
    assert_int_equal(pruned.dirs, 0);
    assert_int_equal(pruned.kept_dirs, 2);
    assert_int_equal(fstatat(s.fd, "d/e", &is, 0), 0);
    assert_int_equal(is.st_mtim.tv_sec, 5);
    assert_int_equal(is.st_mode & 07777, 0555);
    assert_int_equal(fstatat(s.fd, "d", &is, 0), 0);
    assert_int_equal(is.st_mtim.tv_sec, 7);
    scratch_end(&s);
}

static void a_full_disk_ends_it_and_keeps_the_old(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct told told = {0};
    struct err e;
    static char much[3 << 20];
    if (mount("none", s.path, "tmpfs", 0, "size=1m") != 0) {
        scratch_end(&s);
        skip();
    }
    int in = open(s.path, O_RDONLY | O_DIRECTORY);
    memset(much, 'x', sizeof much);
    make_file(in, "f", S("old"), 0644);
    struct apply *a =
        apply_open(&(struct apply_req){.root_fd = in, .failed = note_failed, .arg = &told});
    assert_fails(push(apply_sink(a), a_file("f"), (struct str){much, sizeof much}, &e), &e,
                 ERR_LIMIT, "o space left");
    assert_int_equal(told.n, 0);
    assert_ok(apply_close(a, false, &e), &e);
    check_file(in, "f", "old");
    assert_int_equal(count_temps(in), 0);
    close(in);
    assert_int_equal(umount(s.path), 0);
    scratch_end(&s);
}

/* ---- prune ------------------------------------------------------------------------------------ */

static void prune_follows_no_link_and_takes_only_what_is_named(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct err e;
    struct prune_stats got;
    make_dir(s.fd, "in", 0755);
    make_dir(s.fd, "out", 0755);
    make_file(s.fd, "out/x", S("safe"), 0644);
    int in = openat(s.fd, "in", O_RDONLY | O_DIRECTORY);
    assert_int_equal(symlinkat("../out", in, "l"), 0);
    make_dir(in, "d", 0755);
    make_file(in, "d/a", S(""), 0644);
    make_file(in, "d/b", S(""), 0644);
    make_dir(in, "e", 0755);
    make_file(in, "e/a", S(""), 0644);
    const struct str paths[] = {S("d"), S("d/a"), S("d/b"), S("e"), S("l"), S("l/x"), S("none/x")};
    assert_ok(tree_prune(in, paths, COUNTOF(paths), &got, &e), &e);
    assert_int_equal(got.files, 3);
    assert_int_equal(got.dirs, 1);
    assert_int_equal(got.kept_dirs, 1);
    check_file(s.fd, "out/x", "safe");
    const struct str bad[] = {S("../out/x"), S("e"), S("e/a")};
    assert_fails(tree_prune(in, bad, COUNTOF(bad), &got, &e), &e, ERR_SYSTEM, "../out/x");
    assert_int_equal(got.files + got.dirs, 2);
    check_file(s.fd, "out/x", "safe");
    close(in);
    scratch_end(&s);
}

static void the_reader_follows_no_link(void **state)
{
    (void)state;
    struct scratch s = scratch_new();
    struct tree_entry is;
    struct err e;
    char byte;
    make_dir(s.fd, "d", 0755);
    make_file(s.fd, "d/f", S("x"), 0644);
    assert_int_equal(symlinkat("d", s.fd, "l"), 0);
    assert_int_equal(symlinkat("d/f", s.fd, "m"), 0);
    struct tree_reader *r = tree_reader_new(s.fd);
    assert_fails(tree_reader_open(r, S("l/f"), &is, &e), &e, ERR_NOT_FOUND, "l/f");
    assert_ok(tree_reader_open(r, S("m"), &is, &e), &e);
    assert_int_equal(is.type, TREE_LINK);
    assert_str(is.target, S("d/f"));
    assert_int_equal(tree_reader_read(r, &byte, 1, &e), 0);
    assert_ok(tree_reader_open(r, S("d/f"), &is, &e), &e);
    assert_int_equal(tree_reader_read(r, &byte, 1, &e), 1);
    assert_fails(tree_reader_open(r, S("../x"), &is, &e), &e, ERR_SYSTEM, "../x");
    tree_reader_free(r);
    scratch_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_arrive_as_they_are),
        cmocka_unit_test(holes_stay_holes),
        cmocka_unit_test(zeros_become_holes_wherever_they_are),
        cmocka_unit_test(names_that_lead_out_are_refused),
        cmocka_unit_test(links_in_the_way_are_replaced_and_not_followed),
        cmocka_unit_test(kinds_replace_each_other_but_no_full_folder),
        cmocka_unit_test(special_bits_are_never_set),
        cmocka_unit_test(modes_and_times_alone_leave_the_contents),
        cmocka_unit_test(a_race_leads_nowhere),
        cmocka_unit_test(what_is_broken_off_leaves_the_old),
        cmocka_unit_test(leftovers_of_the_dead_are_removed_and_those_of_the_living_stay),
        cmocka_unit_test(folders_that_are_only_passed_keep_their_time),
        cmocka_unit_test(a_full_disk_ends_it_and_keeps_the_old),
        cmocka_unit_test(prune_follows_no_link_and_takes_only_what_is_named),
        cmocka_unit_test(the_reader_follows_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
