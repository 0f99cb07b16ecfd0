/* Whole trees from one end of the protocol to the other: the provider's side here, the worker
 * of a box in a child process. */
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../tree/scratch.h"
#include "boxinit/files.h"
#include "provider/over_agent.h"
#include "tree/digest.h"

struct fixture {
    struct agent_box box;
    struct scratch here, there;
    struct arena arena;
    struct ctx ctx;
    struct err e;
    bool slow;
    pid_t worker;
};

static struct fixture *now;

/* The other side of a conversation. */
static void serve(int fd)
{
    _Atomic int64_t used = 0;
    struct spec spec = {.is_plain = true, .home = "/nonexistent-home", .work_dir = now->there.path};
    struct buf in;
    struct worker w = {.spec = &spec, .fd = fd, .in = &in, .used_ms = &used};
    buf_init(&in, FRAME_MAX + (1u << 20));
    buf_init(&w.out, 1u << 20);
    arena_init(&w.arena, 64u << 20);
    struct wire_out o = wire_begin(&w.out, FRAME_HELLO);
    wire_u32(&o, AGENT_VERSION);
    wire_u32(&o, AGENT_LOWEST);
    assert_true(wire_end(&o));
    assert_ok(worker_flush(&w, &now->e), &now->e);
    worker_serve(&w);
    buf_fini(&w.out);
    arena_fini(&w.arena);
    buf_fini(&in);
    _exit(0);
}

static void reap(struct fixture *fx)
{
    if (fx->worker > 0) {
        int status;
        assert_int_equal(waitpid(fx->worker, &status, 0), fx->worker);
        assert_int_equal(status, 0);
        fx->worker = 0;
    }
}

static int connect_box(struct box *b, const struct ctx *ctx, struct err *e)
{
    int ends[2];
    (void)b, (void)ctx;
    reap(now);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        return err_sys(e, errno, "socketpair");
    }
    now->worker = fork();
    if (now->worker == 0) {
        close(ends[0]);
        serve(ends[1]);
    }
    close(ends[1]);
    assert_ok(fd_set_nonblock(ends[0], true, e), e);
    return ends[0];
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    fx->box.connect = connect_box;
    fx->here = scratch_new();
    fx->there = scratch_new();
    arena_init(&fx->arena, 64u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena};
    now = fx;
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    reap(fx);
    scratch_end(&fx->here);
    scratch_end(&fx->there);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

/* ---- sequences to send ------------------------------------------------------------------------ */

struct paths {
    struct arena arena;
    struct tree_entry *all;
    struct str *names;
    size_t n, cap;
};

static int add_path(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct paths *p = arg;
    (void)e;
    if (p->n == p->cap) {
        p->cap = p->cap > 0 ? 2 * p->cap : 64;
        p->all = realloc(p->all, p->cap * sizeof *p->all);
        p->names = realloc(p->names, p->cap * sizeof *p->names);
    }
    p->all[p->n] = *entry;
    p->all[p->n].path = arena_str(&p->arena, entry->path);
    p->all[p->n].target = arena_str(&p->arena, entry->target);
    p->names[p->n] = p->all[p->n].path;
    p->n++;
    return 0;
}

static struct paths paths_of(int fd)
{
    struct paths p = {0};
    struct err e;
    arena_init(&p.arena, 64u << 20);
    assert_ok(tree_walk(&(struct walk_req){.root_fd = fd}, add_path, &p, &e), &e);
    return p;
}

static void paths_free(struct paths *p)
{
    free(p->all);
    free(p->names);
    arena_fini(&p->arena);
}

struct pulled {
    struct paths paths;
    size_t next;
    struct tree_reader *files;
    struct str lost; /* a file that cannot be read after all */
    bool is_lost;
    struct cancel *cancel;
};

static int source_next(void *arg, struct tree_entry *out, struct err *e)
{
    struct pulled *s = arg;
    struct tree_entry is;
    if (s->cancel != NULL && s->next > s->paths.n / 2) {
        cancel_fire(s->cancel);
    }
    if (s->next == s->paths.n) {
        return 0;
    }
    *out = s->paths.all[s->next++];
    s->is_lost = s->lost.len > 0 && str_eq(s->lost, out->path);
    return out->type == TREE_FILE && tree_reader_open(s->files, out->path, &is, e) < 0 ? -1 : 1;
}

static ssize_t source_read(void *arg, char *to, size_t cap, bool *skip, struct err *e)
{
    struct pulled *s = arg;
    if (s->is_lost) {
        *skip = true;
        return err_set(e, ERR_SYSTEM, "it melted");
    }
    return tree_reader_read(s->files, to, cap, e);
}

static uint64_t source_hole(void *arg)
{
    return tree_reader_hole(((struct pulled *)arg)->files);
}

static int put(struct fixture *fx, struct pulled *s, const char *root, struct put_result *out)
{
    struct tree_source from = {
        .next = source_next, .read = source_read, .hole = source_hole, .arg = s};
    s->paths = paths_of(fx->here.fd);
    s->files = tree_reader_new(fx->here.fd);
    int rc = trees_over_agent.put(&fx->box.box, &fx->ctx, str_from(root), &from, out, &fx->e);
    tree_reader_free(s->files);
    paths_free(&s->paths);
    return rc;
}

static int list(struct fixture *fx, const struct tree_req *req, struct dump *to,
                struct tree_facts *out)
{
    buf_init(&to->text, 16 << 20);
    return trees_over_agent.list(&fx->box.box, &fx->ctx, req, dump_entry, to, out, &fx->e);
}

/* ---- there and back ------------------------------------------------------------------------------ */

static int whole_seconds(void *arg, const struct tree_entry *entry, struct err *e)
{
    struct tree_entry x = *entry;
    x.mtime_ns = (int64_t)tree_timespec(entry->mtime_ns).tv_sec * 1000000000;
    return dump_entry(arg, &x, e);
}

/* What the box lists is what a walk there finds. */
static void check_list(struct fixture *fx)
{
    struct dump far = {.times = true};
    struct dump near = {.times = true};
    struct tree_facts facts;
    struct tree_req req = {.root = S("new/sub"), .sums = true};
    int fd = openat(fx->there.fd, "new/sub", O_RDONLY | O_DIRECTORY);
    buf_init(&near.text, 16 << 20);
    assert_ok(
        tree_walk(&(struct walk_req){.root_fd = fd, .sums = true}, whole_seconds, &near, &fx->e),
        &fx->e);
    assert_ok(list(fx, &req, &far, &facts), &fx->e);
    assert_str(buf_str(&far.text), buf_str(&near.text));
    assert_true(facts.exists);
    assert_int_equal(facts.type, TREE_DIR);
    assert_true(str_ends(facts.real, S("/new/sub")));
    assert_str(facts.home, S("/nonexistent-home"));
    buf_fini(&far.text);
    buf_fini(&near.text);
    close(fd);
}

static void random_trees_go_there_and_back(void **state)
{
    struct fixture *fx = *state;
    for (int round = 0; round < 8; round++) {
        struct pulled s = {0};
        struct put_result wrote;
        struct prune_result pruned;
        struct scratch back = scratch_new();
        fx->box.slow = round % 2;
        random_fill(fx->here.fd, 3);
        assert_ok(put(fx, &s, "new/sub", &wrote), &fx->e);
        assert_int_equal(wrote.skipped, 0);
        check_list(fx);
        struct paths p = paths_of(fx->here.fd);
        struct apply *a = apply_open(&(struct apply_req){.root_fd = back.fd});
        assert_ok(trees_over_agent.get(&fx->box.box, &fx->ctx, S("new/sub"), p.names, p.n,
                                       apply_sink(a), &fx->e),
                  &fx->e);
        assert_ok(apply_close(a, true, &fx->e), &fx->e);
        assert_same_tree(fx->here.fd, back.fd);
        assert_ok(trees_over_agent.prune(&fx->box.box, &fx->ctx, S("new/sub"), p.names + 1, p.n - 1,
                                         &pruned, &fx->e),
                  &fx->e);
        assert_int_equal(pruned.files + pruned.dirs, p.n - 1);
        assert_int_equal(unlinkat(fx->there.fd, "new/sub", AT_REMOVEDIR), 0);
        paths_free(&p);
        scratch_end(&back);
        scratch_end(&fx->here);
        fx->here = scratch_new();
    }
}

static void holes_travel_as_such(void **state)
{
    struct fixture *fx = *state;
    struct pulled s = {0};
    struct put_result wrote;
    struct stat is;
    int fd = openat(fx->here.fd, "big", O_WRONLY | O_CREAT, 0644);
    assert_int_equal(ftruncate(fd, (off_t)5 << 30), 0);
    assert_int_equal(pwrite(fd, "x", 1, ((off_t)5 << 30) - 1), 1);
    close(fd);
    assert_ok(put(fx, &s, ".", &wrote), &fx->e);
    assert_int_equal(wrote.bytes, (uint64_t)5 << 30);
    assert_int_equal(fstatat(fx->there.fd, "big", &is, 0), 0);
    assert_int_equal(is.st_size, (off_t)5 << 30);
    assert_true(is.st_blocks < 2048);
    struct str path = S("big");
    struct scratch back = scratch_new();
    struct apply *a = apply_open(&(struct apply_req){.root_fd = back.fd});
    assert_ok(trees_over_agent.get(&fx->box.box, &fx->ctx, S("."), &path, 1, apply_sink(a), &fx->e),
              &fx->e);
    assert_ok(apply_close(a, true, &fx->e), &fx->e);
    assert_int_equal(fstatat(back.fd, "big", &is, 0), 0);
    assert_int_equal(is.st_size, (off_t)5 << 30);
    assert_true(is.st_blocks < 2048);
    scratch_end(&back);
}

static int digest_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)e;
    tree_digest_add(arg, entry);
    return 0;
}

static void what_is_expected_is_not_listed(void **state)
{
    struct fixture *fx = *state;
    struct pulled s = {0};
    struct put_result wrote;
    struct tree_digest d;
    uint8_t expected[TREE_SUM];
    random_fill(fx->here.fd, 3);
    assert_ok(put(fx, &s, "x", &wrote), &fx->e);
    tree_digest_init(&d);
    assert_ok(tree_walk(&(struct walk_req){.root_fd = fx->here.fd}, digest_entry, &d, &fx->e),
              &fx->e);
    tree_digest_end(&d, expected);
    for (int same = 1; same >= 0; same--) {
        struct dump got = {0};
        struct tree_facts facts;
        struct tree_req req = {.root = S("x"), .expected = expected};
        assert_ok(list(fx, &req, &got, &facts), &fx->e);
        assert_int_equal(facts.same, same);
        assert_int_equal(got.text.len == 0, same);
        assert_true(facts.exists);
        buf_fini(&got.text);
        expected[0] ^= 1;
    }
}

static void excludes_hold_over_there(void **state)
{
    struct fixture *fx = *state;
    struct dump got = {0};
    struct tree_facts facts;
    const struct str lines[] = {S("*.o"), S("/top/")};
    struct tree_req req = {.root = S("."), .excludes = lines, .n_excludes = 2, .gitignore = true};
    make_dir(fx->there.fd, "top", 0755);
    make_dir(fx->there.fd, "d", 0755);
    make_file(fx->there.fd, "d/x.o", S(""), 0644);
    make_file(fx->there.fd, "d/y", S(""), 0644);
    make_file(fx->there.fd, "d/z", S(""), 0644);
    make_file(fx->there.fd, "d/.gitignore", S("z\n"), 0644);
    assert_ok(list(fx, &req, &got, &facts), &fx->e);
    assert_null(strstr(got.text.p, "x.o"));
    assert_null(strstr(got.text.p, "top"));
    assert_null(strstr(got.text.p, "d/z"));
    assert_non_null(strstr(got.text.p, "d/y"));
    buf_fini(&got.text);
}

static void what_the_root_is(void **state)
{
    struct fixture *fx = *state;
    struct tree_facts facts;
    const struct {
        const char *root, *real;
        bool exists;
        enum tree_type type;
        int lines;
    } rows[] = {
        {"none/at/all", "/none/at/all", false, TREE_OTHER, 0},
        {"file", "/file", true, TREE_FILE, 1},
        {"link", "/dir", true, TREE_DIR, 1},
        {"link/none", "/dir/none", false, TREE_OTHER, 0},
        {"fifo", "/fifo", true, TREE_OTHER, 0},
    };
    make_file(fx->there.fd, "file", S("abc"), 0644);
    make_dir(fx->there.fd, "dir", 0755);
    assert_int_equal(symlinkat("dir", fx->there.fd, "link"), 0);
    assert_int_equal(mkfifoat(fx->there.fd, "fifo", 0600), 0);
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        struct dump got = {0};
        struct tree_req req = {.root = str_from(rows[i].root)};
        assert_ok(list(fx, &req, &got, &facts), &fx->e);
        assert_int_equal(facts.exists, rows[i].exists);
        assert_int_equal(facts.type, rows[i].type);
        assert_true(str_ends(facts.real, str_from(rows[i].real)));
        assert_int_equal(got.text.len > 0, rows[i].lines);
        buf_fini(&got.text);
    }
    struct tree_req through = {.root = S("file/x")};
    struct dump got = {0};
    assert_fails(list(fx, &through, &got, &facts), &fx->e, ERR_INVALID, "not a folder");
    buf_fini(&got.text);
}

/* ---- what goes wrong -------------------------------------------------------------------------------- */

static void a_file_that_cannot_be_read_is_left_as_it_was(void **state)
{
    struct fixture *fx = *state;
    struct pulled s = {.lost = S("b")};
    struct put_result wrote;
    struct stat is;
    make_file(fx->here.fd, "a", S("1"), 0644);
    make_file(fx->here.fd, "b", S("2"), 0644);
    make_file(fx->here.fd, "c", S("3"), 0644);
    make_file(fx->there.fd, "b", S("old bytes"), 0644);
    assert_ok(put(fx, &s, ".", &wrote), &fx->e);
    assert_int_equal(wrote.files, 2);
    assert_int_equal(wrote.skipped, 1);
    assert_str(wrote.first_skipped, S("b: it melted"));
    assert_int_equal(fstatat(fx->there.fd, "b", &is, 0), 0);
    assert_int_equal(is.st_size, 9);
}

struct seen {
    int entries, bad;
    struct buf why;
};

static int seen_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)entry, (void)e;
    ((struct seen *)arg)->entries++;
    return 0;
}

static int seen_data(void *arg, struct str bytes, struct err *e)
{
    (void)arg, (void)bytes, (void)e;
    return 0;
}

static int seen_done(void *arg, bool ok, struct str why, struct err *e)
{
    struct seen *s = arg;
    (void)e;
    s->bad += !ok;
    buf_add(&s->why, why);
    return 0;
}

static void what_is_gone_is_told_one_by_one(void **state)
{
    struct fixture *fx = *state;
    struct seen seen = {0};
    struct tree_sink to = {.entry = seen_entry, .data = seen_data, .done = seen_done, .arg = &seen};
    const struct str paths[] = {S("a"), S("b"), S("l/x"), S("z")};
    make_file(fx->there.fd, "a", S("1"), 0644);
    make_file(fx->there.fd, "z", S("1"), 0644);
    assert_int_equal(symlinkat("/etc", fx->there.fd, "l"), 0);
    buf_init(&seen.why, 4096);
    assert_ok(trees_over_agent.get(&fx->box.box, &fx->ctx, S("."), paths, 4, &to, &fx->e), &fx->e);
    assert_int_equal(seen.entries, 4);
    assert_int_equal(seen.bad, 2);
    assert_non_null(strstr(seen.why.p, "No such file"));
    assert_fails(trees_over_agent.get(&fx->box.box, &fx->ctx, S("none"), paths, 4, &to, &fx->e),
                 &fx->e, ERR_NOT_FOUND, "none");
    buf_fini(&seen.why);
}

/* The box says no while megabytes are still on their way to it. */
static void a_refusal_stops_the_sender(void **state)
{
    struct fixture *fx = *state;
    static char much[8 << 20];
    struct pulled s = {0};
    struct put_result wrote;
    memset(much, 'x', sizeof much);
    make_file(fx->here.fd, "big", (struct str){much, sizeof much}, 0644);
    make_file(fx->there.fd, "file", S(""), 0644);
    assert_fails(put(fx, &s, "file", &wrote), &fx->e, ERR_INVALID, "a file is there");
}

static void a_full_disk_is_told_with_what_was_written(void **state)
{
    struct fixture *fx = *state;
    static char much[8 << 20];
    struct pulled s = {0};
    struct put_result wrote;
    make_dir(fx->there.fd, "small", 0755);
    char path[128];
    snprintf(path, sizeof path, "%s/small", fx->there.path);
    if (mount("none", path, "tmpfs", 0, "size=1m") != 0) {
        skip();
    }
    memset(much, 'x', sizeof much);
    make_file(fx->here.fd, "a", S("little"), 0644);
    make_file(fx->here.fd, "b", (struct str){much, sizeof much}, 0644);
    make_file(fx->here.fd, "c", (struct str){much, sizeof much}, 0644);
    assert_fails(put(fx, &s, "small", &wrote), &fx->e, ERR_LIMIT, "no space left");
    assert_int_equal(wrote.files, 1);
    reap(fx);
    assert_int_equal(faccessat(fx->there.fd, "small/b", F_OK, 0), -1);
    assert_int_equal(umount(path), 0);
}

static void a_cancelled_put_leaves_whole_files(void **state)
{
    struct fixture *fx = *state;
    struct cancel cancel;
    struct pulled s = {.cancel = &cancel};
    struct put_result wrote;
    static char some[300000];
    assert_ok(cancel_init(&cancel, &fx->e), &fx->e);
    memset(some, 'y', sizeof some);
    for (int i = 0; i < 20; i++) {
        char name[8];
        snprintf(name, sizeof name, "f%02d", i);
        make_file(fx->here.fd, name, (struct str){some, sizeof some}, 0644);
    }
    fx->ctx.cancel = &cancel;
    assert_fails(put(fx, &s, ".", &wrote), &fx->e, ERR_CANCELLED, "");
    fx->ctx.cancel = NULL;
    reap(fx);
    struct paths p = paths_of(fx->there.fd);
    for (size_t i = 1; i < p.n; i++) {
        assert_int_equal(p.all[i].size, sizeof some);
    }
    assert_true(p.n < 21);
    paths_free(&p);
    cancel_fini(&cancel);
}

static void what_cannot_be_removed_is_told(void **state)
{
    struct fixture *fx = *state;
    struct prune_result pruned;
    const struct str paths[] = {S("a"), S("b/c")};
    make_file(fx->there.fd, "a", S(""), 0644);
    assert_ok(trees_over_agent.prune(&fx->box.box, &fx->ctx, S("."), paths, 2, &pruned, &fx->e),
              &fx->e);
    assert_int_equal(pruned.files, 1);
    assert_fails(
        trees_over_agent.prune(&fx->box.box, &fx->ctx, S("none"), paths, 2, &pruned, &fx->e),
        &fx->e, ERR_NOT_FOUND, "none");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_trees_go_there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(holes_travel_as_such, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_expected_is_not_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(excludes_hold_over_there, setup, teardown),
        cmocka_unit_test_setup_teardown(what_the_root_is, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_read_is_left_as_it_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_gone_is_told_one_by_one, setup, teardown),
        cmocka_unit_test_setup_teardown(a_refusal_stops_the_sender, setup, teardown),
        cmocka_unit_test_setup_teardown(a_full_disk_is_told_with_what_was_written, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_put_leaves_whole_files, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_is_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
