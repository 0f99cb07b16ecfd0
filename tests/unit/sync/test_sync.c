#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "folder_box.h"
#include "sync/sync.h"
#include "test.h"
#include "tree/walk.h"

/* ---- a folder here, and one that plays the box ------------------------------------------- */

struct world {
    struct arena arena;
    struct ctx ctx;
    char top[64];
    struct folder_box far;
};

static int start(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    char folder[] = "/tmp/anybox-sync-XXXXXX";
    char real[PATH_MAX];

    if (mkdtemp(folder) == NULL || realpath(folder, real) == NULL) {
        return -1;
    }
    (void)snprintf(w->top, sizeof w->top, "%.60s", real);
    arena_init(&w->arena, (size_t)64 << 20);
    w->ctx.arena = &w->arena;
    *state = w;
    struct str far = arena_printf(&w->arena, "%s/far", w->top);
    folder_box_init(&w->far, far);
    return mkdir(far.p, 0755) | mkdir(arena_printf(&w->arena, "%s/here", w->top).p, 0755);
}

static int stop(void **state)
{
    struct world *w = *state;
    struct err e;
    int rc = fd_remove_tree(AT_FDCWD, w->top, &e);

    arena_fini(&w->arena);
    free(w);
    return rc;
}

static const char *at(struct world *w, const char *rel)
{
    return arena_printf(&w->arena, "%s/%s", w->top, rel).p;
}

static void put(struct world *w, const char *rel, const char *text)
{
    struct err e;
    const char *path = at(w, rel);
    char *folder = strdup(path);

    *strrchr(folder, '/') = '\0';
    assert_ok(fd_mkdirs(folder, 0755, &e), &e);
    free(folder);
    assert_ok(fd_replace_file(AT_FDCWD, path, str_from(text), 0644, &e), &e);
}

static void age(struct world *w, const char *rel, long seconds)
{
    struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};

    assert_int_equal(utimensat(AT_FDCWD, at(w, rel), times, AT_SYMLINK_NOFOLLOW), 0);
}

static bool exists(struct world *w, const char *rel)
{
    struct stat st;

    return lstat(at(w, rel), &st) == 0;
}

static struct str content(struct world *w, const char *rel)
{
    struct str text = STR_EMPTY;
    struct err e;

    assert_ok(fd_read_file(AT_FDCWD, at(w, rel), 1 << 20, &w->arena, &text, &e), &e);
    return text;
}

static int add_line(void *arg, const struct tree_entry *t, struct err *e)
{
    (void)e;
    if (t->path.len > 0) {
        buf_addf(arg, "%.*s|%d|%o|%llu|%.*s|%lld|", STR_ARG(t->path), t->type, t->mode,
                 (unsigned long long)t->size, STR_ARG(t->target),
                 t->type == TREE_LINK ? 0 : (long long)t->mtime_ns);
        for (size_t i = 0; i < TREE_SUM; i++) {
            buf_addf(arg, "%02x", t->sum[i]);
        }
        buf_addc(arg, '\n');
    }
    return 0;
}

/* All that is to be the same, as text. */
static struct str tree_text(struct world *w, const char *rel)
{
    int fd own_fd = open(at(w, rel), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct walk_req req = {.root_fd = fd, .sums = true};
    struct buf text own_buf = {0};
    struct err e;

    buf_init(&text, 16 << 20);
    assert_ok(tree_walk(&req, add_line, &text, &e), &e);
    return arena_str(&w->arena, buf_str(&text));
}

static struct sync_job job_up(struct world *w)
{
    return (struct sync_job){
        .direction = SYNC_UP, .local = str_from(at(w, "here")), .remote = S("copy")};
}

static struct sync_job job_down(struct world *w)
{
    return (struct sync_job){
        .direction = SYNC_DOWN, .local = str_from(at(w, "back")), .remote = S("copy")};
}

static struct sync_result run(struct world *w, const struct sync_job *job)
{
    struct sync_result result;
    struct err e;
    struct sync_plan *p = sync_look(&w->far.box, &w->ctx, job, &e);

    if (p == NULL) {
        fail_msg("look: %s", e.msg);
    }
    assert_ok(sync_apply(p, &w->far.box, &w->ctx, NULL, NULL, &result, &e), &e);
    sync_plan_free(p);
    return result;
}

static void refused(struct world *w, const struct sync_job *job, enum err_kind kind,
                    const char *says)
{
    struct err e = {0};
    struct sync_plan *p = sync_look(&w->far.box, &w->ctx, job, &e);

    assert_null(p);
    assert_int_equal(e.kind, kind);
    if (strstr(e.msg, says) == NULL) {
        fail_msg("\"%s\" says nothing of \"%s\"", e.msg, says);
    }
}

/* ---- folders ----------------------------------------------------------------------------- */

static void fill(struct world *w)
{
    put(w, "here/a.txt", "hello");
    put(w, "here/sub/b\n\"'.txt", "odd");
    put(w, "here/sub/-rf", "dash");
    put(w, "here/sub/\xff\xfe", "bytes");
    put(w, "here/empty.txt", "");
    assert_int_equal(mkdir(at(w, "here/void"), 0700), 0);
    assert_int_equal(symlink("../a.txt", at(w, "here/sub/link")), 0);
    assert_int_equal(symlink("/nowhere", at(w, "here/dangling")), 0);
    assert_int_equal(chmod(at(w, "here/a.txt"), 0755), 0);
    age(w, "here/a.txt", 1000000000);
    age(w, "here/sub", 1100000000);
}

static void up_and_back_is_the_same(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);
    struct sync_result r;

    fill(w);
    r = run(w, &up);
    assert_int_equal(r.done.files, 5);
    assert_int_equal(r.done.links, 2);
    assert_int_equal(r.done.dirs, 3);
    assert_int_equal(r.failed, 0);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
    r = run(w, &down);
    assert_int_equal(r.done.files, 5);
    assert_int_equal(r.done.dirs, 3);
    assert_str(tree_text(w, "back"), tree_text(w, "here"));
}

static void what_goes_over_several_connections_is_the_same(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_result r;

    fill(w);
    w->far.splits = true;
    for (int round = 0; round < 2; round++) {
        w->far.loses = round == 1; /* then all files go again, over the first alone */
        r = run(w, &up);
        assert_int_equal(r.done.files, 5);
        assert_int_equal(r.done.links, 2);
        assert_int_equal(r.done.dirs, 3);
        assert_int_equal(r.done.bytes, 17);
        assert_int_equal(r.failed, 0);
        assert_int_equal(w->far.puts, round == 1 ? 3 : 2);
        assert_int_equal(w->far.shares[0], TREE_FOLDERS);
        assert_int_equal(w->far.shares[1], TREE_FILES);
        assert_int_equal(w->far.shares[2], TREE_ALL);
        assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
        assert_int_equal(run(w, &up).done.files, 0);
        assert_int_equal(rename(at(w, "far/copy"), at(w, round == 0 ? "far/first" : "far/second")),
                         0);
        w->far.puts = 0;
    }
    put(w, "here/sub/more", "more");
    age(w, "here/sub", 1100000000);
    assert_int_equal(rename(at(w, "far/second"), at(w, "far/copy")), 0);
    w->far.loses = false;
    assert_int_equal(run(w, &up).done.files, 1);
    assert_int_equal(w->far.puts, 1); /* there is no folder to make */
    assert_int_equal(w->far.shares[0], TREE_FILES);
}

static void a_folder_that_nobody_may_enter_is_not_split(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);

    if (geteuid() != 0) {
        skip(); /* who cannot read it leaves it out */
    }
    fill(w);
    w->far.splits = true;
    assert_int_equal(chmod(at(w, "here/void"), 0600), 0);
    assert_int_equal(run(w, &up).done.files, 5);
    assert_int_equal(w->far.puts, 1);
    assert_int_equal(w->far.shares[0], TREE_ALL);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
}

static void what_is_the_same_is_not_sent(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);
    struct sync_result r;

    fill(w);
    (void)run(w, &up);
    (void)run(w, &down);
    w->far.puts = w->far.gets = 0;
    r = run(w, &up);
    assert_int_equal(r.done.unchanged, 7);
    assert_int_equal(r.done.files, 0);
    (void)run(w, &down);
    assert_int_equal(w->far.puts + w->far.gets + w->far.prunes, 0);
}

static void only_what_changed_is_sent(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_result r;

    fill(w);
    (void)run(w, &up);
    put(w, "here/a.txt", "hello, world");
    age(w, "here/a.txt", 1200000000);
    age(w, "here/sub", 1100000000);
    r = run(w, &up);
    assert_int_equal(r.done.files, 1);
    assert_int_equal(r.done.bytes, 12);
    assert_int_equal(r.done.unchanged, 6);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
}

static void a_mode_alone_sends_no_contents(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);
    struct sync_result r;

    fill(w);
    (void)run(w, &up);
    (void)run(w, &down);
    assert_int_equal(chmod(at(w, "here/empty.txt"), 0600), 0);
    r = run(w, &up);
    assert_int_equal(r.done.files, 0);
    assert_int_equal(r.done.metadata, 1);
    assert_int_equal(r.failed, 0);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
    w->far.gets = 0;
    (void)run(w, &down);
    assert_int_equal(w->far.gets, 0);
    assert_str(tree_text(w, "back"), tree_text(w, "here"));
}

static void checksums_see_what_times_hide(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_result r;

    put(w, "here/x", "one");
    put(w, "here/y", "same");
    age(w, "here/x", 1000);
    (void)run(w, &up);
    put(w, "here/x", "two");
    age(w, "here/x", 1000);
    age(w, "here/y", 5000);
    r = run(w, &up);
    assert_str(content(w, "far/copy/x"), S("one"));
    age(w, "far/copy/y", 9000);
    up.checksum = true;
    r = run(w, &up);
    assert_int_equal(r.done.files, 1);
    assert_int_equal(r.done.metadata, 1);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
}

static void kinds_may_change(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);

    put(w, "here/file", "f");
    put(w, "here/folder/in", "i");
    assert_int_equal(symlink("file", at(w, "here/link")), 0);
    (void)run(w, &up);
    assert_int_equal(unlink(at(w, "here/file")), 0);
    put(w, "here/file/now/deep", "d");
    assert_int_equal(unlink(at(w, "here/folder/in")) | rmdir(at(w, "here/folder")), 0);
    put(w, "here/folder", "a file now");
    assert_int_equal(unlink(at(w, "here/link")), 0);
    put(w, "here/link/was/one", "x");
    up.delete_extras = true;
    struct sync_result r = run(w, &up);
    assert_int_equal(r.failed, 0);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
}

static void a_full_folder_in_the_way_is_told(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);

    put(w, "here/x", "file");
    put(w, "here/y", "other");
    put(w, "far/copy/x/kept", "k");
    struct sync_result r = run(w, &up);
    assert_int_equal(r.failed, 1);
    assert_int_equal(r.done.files, 1);
    assert_non_null(strstr(r.first_failed.p, "x: "));
    assert_true(exists(w, "far/copy/x/kept"));
    assert_str(content(w, "far/copy/y"), S("other"));
}

/* ---- deleting ------------------------------------------------------------------------------ */

static void extras_go_and_what_is_excluded_stays(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    const struct str excludes[] = {S("*.log")};

    put(w, "here/a", "a");
    put(w, "far/copy/a", "old");
    put(w, "far/copy/x/y/z", "extra");
    put(w, "far/copy/x/run.log", "log");
    put(w, "far/copy/node_modules/m/i.js", "js");
    up.excludes = excludes;
    up.n_excludes = 1;
    struct sync_result r = run(w, &up);
    assert_true(exists(w, "far/copy/x/y/z"));
    assert_int_equal(r.done.delete_files, 0);
    up.delete_extras = true;
    r = run(w, &up);
    assert_int_equal(r.done.delete_files, 1);
    assert_int_equal(r.done.delete_dirs, 1);
    assert_false(exists(w, "far/copy/x/y"));
    assert_true(exists(w, "far/copy/x/run.log"));
    assert_true(exists(w, "far/copy/node_modules/m/i.js"));
}

static void what_the_source_ignores_stays_in_the_destination(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);

    put(w, "here/.gitignore", "/build/\n*.o\n");
    put(w, "here/sub/.gitignore", "data\n");
    put(w, "here/sub/x", "x");
    put(w, "far/copy/build/out", "artefact");
    put(w, "far/copy/sub/m.o", "object");
    put(w, "far/copy/sub/data", "data");
    put(w, "far/copy/sub/extra", "extra");
    up.gitignore = up.delete_extras = true;
    struct sync_result r = run(w, &up);
    assert_int_equal(r.done.delete_files, 1);
    assert_true(exists(w, "far/copy/build/out"));
    assert_true(exists(w, "far/copy/sub/m.o"));
    assert_true(exists(w, "far/copy/sub/data"));
    assert_false(exists(w, "far/copy/sub/extra"));
    put(w, "back/build/out", "mine");
    put(w, "back/extra", "mine");
    down.gitignore = down.delete_extras = true;
    r = run(w, &down);
    assert_int_equal(r.done.delete_files, 1);
    assert_true(exists(w, "back/build/out"));
    assert_false(exists(w, "back/sub/m.o"));
}

static void nothing_goes_when_the_source_was_not_read_whole(void **state)
{
    struct world *w = *state;
    struct sync_job down = job_down(w);
    struct err e;
    struct sync_plan *p;

    put(w, "far/copy/a", "a");
    put(w, "back/extra", "mine");
    w->far.unreadable = 2;
    down.delete_extras = true;
    p = sync_look(&w->far.box, &w->ctx, &down, &e);
    assert_non_null(p);
    assert_int_equal(sync_plan_counts(p)->delete_files, 0);
    assert_int_equal(sync_plan_counts(p)->unreadable, 2);
    assert_non_null(strstr(sync_plan_held(p).p, "secret: Permission denied"));
    sync_plan_free(p);
}

static void dangerous_folders_are_refused(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);

    put(w, "far/copy/a", "a");
    put(w, "back/mine", "m");
    up.delete_extras = down.delete_extras = true;
    w->far.home = str_from(at(w, "far/copy"));
    refused(w, &up, ERR_INVALID, "home folder");
    up.remote = S("/");
    refused(w, &up, ERR_INVALID, "system");
    down.home = str_from(at(w, "back"));
    refused(w, &down, ERR_INVALID, "home folder");
    down.home = STR_EMPTY;
    down.state_dir = str_from(at(w, "back/state"));
    refused(w, &down, ERR_INVALID, "state");
    assert_true(exists(w, "back/mine"));
}

/* ---- one file ---------------------------------------------------------------------------------- */

static void a_file_goes_where_it_is_meant(void **state)
{
    static const struct {
        const char *remote, *arrives;
    } rows[] = {
        {"plain.txt", "far/plain.txt"}, {"folder", "far/folder/a.txt"},
        {"new/", "far/new/a.txt"},      {"deep/new/b.txt", "far/deep/new/b.txt"},
        {"link", "far/folder/a.txt"},   {".", "far/a.txt"},
    };
    struct world *w = *state;

    put(w, "here/a.txt", "hello");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sync_job up = {.direction = SYNC_UP,
                              .local = str_from(at(w, "here/a.txt")),
                              .remote = str_from(rows[i].remote)};

        if (!exists(w, "far/folder")) {
            assert_int_equal(
                mkdir(at(w, "far/folder"), 0755) | symlink("folder", at(w, "far/link")), 0);
        }
        struct sync_result r = run(w, &up);
        assert_int_equal(r.done.files, 1);
        assert_str(content(w, rows[i].arrives), S("hello"));
        r = run(w, &up);
        assert_int_equal(r.done.files, 0);
        assert_int_equal(r.done.unchanged, 1);
        assert_int_equal(unlink(at(w, rows[i].arrives)), 0);
    }
}

static void a_file_comes_where_it_is_meant(void **state)
{
    static const struct {
        const char *local, *arrives;
    } rows[] = {
        {"back.txt", "back.txt"},
        {"here", "here/a.txt"},
        {"new/", "new/a.txt"},
        {"deep/new/b", "deep/new/b"},
    };
    struct world *w = *state;

    put(w, "far/copy/a.txt", "hello");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sync_job down = {.direction = SYNC_DOWN,
                                .local = str_from(at(w, rows[i].local)),
                                .remote = S("copy/a.txt")};
        struct sync_result r = run(w, &down);

        assert_int_equal(r.done.files, 1);
        assert_str(content(w, rows[i].arrives), S("hello"));
        down.checksum = true;
        r = run(w, &down);
        assert_int_equal(r.done.files, 0);
        assert_int_equal(r.done.unchanged, 1);
    }
}

static void what_does_not_fit_is_refused(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_job down = job_down(w);

    put(w, "here/a", "a");
    put(w, "far/copy", "a file");
    put(w, "back", "a file");
    refused(w, &up, ERR_INVALID, "is a file");
    up.remote = S("copy/");
    up.local = str_from(at(w, "here/a"));
    refused(w, &up, ERR_INVALID, "is a file, not a folder");
    up.local = str_from(at(w, "missing"));
    refused(w, &up, ERR_NOT_FOUND, "missing");
    down.remote = S("missing");
    refused(w, &down, ERR_NOT_FOUND, "missing");
    down.remote = S(".");
    refused(w, &down, ERR_INVALID, "is a file");
    down.remote = S("copy");
    down.delete_extras = true;
    refused(w, &down, ERR_INVALID, "one file");
    up.local = str_from(at(w, "pipe"));
    assert_int_equal(mkfifo(at(w, "pipe"), 0644), 0);
    refused(w, &up, ERR_INVALID, "neither a file nor a folder");
}

/* ---- what goes wrong ------------------------------------------------------------------------------ */

static void what_vanishes_meanwhile_is_told(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_result r;
    struct err e;

    fill(w);
    struct sync_plan *p = sync_look(&w->far.box, &w->ctx, &up, &e);
    assert_non_null(p);
    assert_int_equal(unlink(at(w, "here/a.txt")) | unlink(at(w, "here/empty.txt")), 0);
    assert_int_equal(symlink("/etc/passwd", at(w, "here/empty.txt")), 0);
    assert_ok(sync_apply(p, &w->far.box, &w->ctx, NULL, NULL, &r, &e), &e);
    sync_plan_free(p);
    assert_int_equal(r.failed, 2);
    assert_int_equal(r.done.files, 3);
    assert_str(r.first_failed, S("a.txt: it vanished meanwhile"));
    assert_false(exists(w, "far/copy/empty.txt"));
}

static int stop_at_second(void *arg, const struct sync_progress *now, struct err *e)
{
    int *calls = arg;

    assert_int_equal(now->files_total, 7);
    return ++*calls == 2 ? err_set(e, ERR_CANCELLED, "enough") : 0;
}

static void who_listens_can_stop_it_and_it_goes_on_later(void **state)
{
    struct world *w = *state;
    struct sync_job up = job_up(w);
    struct sync_result r;
    struct err e;
    int calls = 0;

    fill(w);
    struct sync_plan *p = sync_look(&w->far.box, &w->ctx, &up, &e);
    assert_int_equal(sync_apply(p, &w->far.box, &w->ctx, stop_at_second, &calls, &r, &e), -1);
    assert_int_equal(e.kind, ERR_CANCELLED);
    sync_plan_free(p);
    r = run(w, &up);
    assert_str(tree_text(w, "far/copy"), tree_text(w, "here"));
}

static void a_box_that_lists_nonsense_is_not_believed(void **state)
{
    static const char *const paths[] = {"../evil", "/etc/passwd", "a", "a/../../b", "x//y"};
    struct world *w = *state;
    struct sync_job down = job_down(w);

    put(w, "far/copy/b", "b");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        static struct tree_entry lie = {.type = TREE_FILE, .size = 1};

        lie.path = str_from(paths[i]);
        w->far.lie = &lie;
        refused(w, &down, ERR_PROTOCOL, "");
    }
    assert_false(exists(w, "back"));
}

static void a_box_that_sends_something_else_is_not_believed(void **state)
{
    struct world *w = *state;
    struct sync_job down = job_down(w);
    static struct tree_entry other = {.path = {"c", 1}, .type = TREE_FILE, .size = 1};
    struct sync_result r;
    struct err e;

    put(w, "far/copy/b", "b");
    w->far.other = &other;
    for (int i = 0; i < 2; i++) {
        struct sync_plan *p = sync_look(&w->far.box, &w->ctx, &down, &e);

        assert_non_null(p);
        assert_int_equal(sync_apply(p, &w->far.box, &w->ctx, NULL, NULL, &r, &e), -1);
        assert_int_equal(e.kind, ERR_PROTOCOL);
        assert_str(tree_text(w, "back"), STR_EMPTY);
        sync_plan_free(p);
        other.path = S("b"); /* the right one, and endless */
        w->far.other_bytes = (uint64_t)1 << 40;
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
    const struct CMUnitTest tests[] = {
        TEST(up_and_back_is_the_same),
        TEST(what_goes_over_several_connections_is_the_same),
        TEST(a_folder_that_nobody_may_enter_is_not_split),
        TEST(what_is_the_same_is_not_sent),
        TEST(only_what_changed_is_sent),
        TEST(a_mode_alone_sends_no_contents),
        TEST(checksums_see_what_times_hide),
        TEST(kinds_may_change),
        TEST(a_full_folder_in_the_way_is_told),
        TEST(extras_go_and_what_is_excluded_stays),
        TEST(what_the_source_ignores_stays_in_the_destination),
        TEST(nothing_goes_when_the_source_was_not_read_whole),
        TEST(dangerous_folders_are_refused),
        TEST(a_file_goes_where_it_is_meant),
        TEST(a_file_comes_where_it_is_meant),
        TEST(what_does_not_fit_is_refused),
        TEST(what_vanishes_meanwhile_is_told),
        TEST(who_listens_can_stop_it_and_it_goes_on_later),
        TEST(a_box_that_lists_nonsense_is_not_believed),
        TEST(a_box_that_sends_something_else_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
