/* A large file over several connections, from one end of the protocol to the other: the
 * provider's side here, workers of a box in child processes, some of which are killed. */
#include <sys/socket.h>
#include <sys/wait.h>

#include "../tree/scratch.h"
#include "boxinit/files.h"
#include "provider/over_agent.h"
#include "tree/dirs.h"

#define LARGE   ((off_t)PART_FILE_MIN + (5 << 20) + 12345)
#define LANES   3
#define PEOPLE  16
#define KILL_AT (12u << 20)

struct fixture {
    struct agent_box box;
    struct scratch here, there;
    struct arena arena;
    struct ctx ctx;
    struct err e;
    pid_t workers[PEOPLE]; /* all of them, in the order of their births */
    size_t n_workers;
    pid_t lanes[LANES];
    unsigned asked; /* for lanes */
    bool has_none;
    bool kills; /* the lanes, in the middle */
    uint64_t moved;
    struct cancel *cancel;
    bool shrinks;
};

static struct fixture *now;

/* ---- the other side ---------------------------------------------------------------------------- */

static void serve(void)
{
    _Atomic int64_t used = 0;
    struct spec spec = {.is_plain = true, .home = "/nonexistent-home", .work_dir = now->there.path};
    struct buf in;
    struct worker w = {.spec = &spec, .fd = 3, .in = &in, .used_ms = &used};
    buf_init(&in, FRAME_MAX + (1u << 20));
    buf_init(&w.out, 1u << 20);
    arena_init(&w.arena, 64u << 20);
    struct wire_out o = wire_begin(&w.out, FRAME_HELLO);
    wire_u32(&o, AGENT_VERSION);
    wire_u32(&o, AGENT_LOWEST);
    assert_true(wire_end(&o));
    if (worker_flush(&w, &now->e) == 0) { /* else it comes too late: all is done */
        worker_serve(&w);
    }
    _exit(0);
}

static int start_worker(pid_t *pid)
{
    int ends[2];
    struct err e;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *pid = fork();
    if (*pid == 0) {
        /* It must not hold the ends of others. */
        dup2(ends[1], 3);
        close_range(4, ~0u, 0);
        serve();
    }
    close(ends[1]);
    assert_true(now->n_workers < PEOPLE);
    now->workers[now->n_workers++] = *pid;
    assert_ok(fd_set_nonblock(ends[0], true, &e), &e);
    return ends[0];
}

static int connect_box(struct box *b, const struct ctx *ctx, struct err *e)
{
    pid_t pid;
    (void)b, (void)ctx, (void)e;
    return start_worker(&pid);
}

/* One is there at once, one later (perhaps too late), one never. */
static int lane(struct box *b, unsigned i)
{
    (void)b;
    assert_true(i < LANES);
    if (now->has_none || i == 2) {
        return AGENT_LANE_NONE;
    }
    return i == 0 && now->asked++ == 0 ? AGENT_LANE_LATER : start_worker(&now->lanes[i]);
}

static void kill_lanes(void)
{
    for (size_t i = 0; i < LANES; i++) {
        if (now->lanes[i] > 0) {
            kill(now->lanes[i], SIGKILL);
        }
    }
}

static void reap(struct fixture *fx)
{
    for (size_t i = 0; i < fx->n_workers; i++) {
        int status;
        assert_int_equal(waitpid(fx->workers[i], &status, 0), fx->workers[i]);
        assert_true(status == 0 || WIFSIGNALED(status));
    }
    fx->n_workers = 0;
    memset(fx->lanes, 0, sizeof fx->lanes);
    fx->asked = 0;
    fx->moved = 0;
}

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    fx->box.connect = connect_box;
    fx->box.lane = lane;
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

/* ---- this side ------------------------------------------------------------------------------------ */

/* Bytes that cannot be packed, some that can, and holes. */
static void make_large(int at, const char *path, uint32_t dice)
{
    static char block[1 << 20];
    int fd = openat(at, path, O_RDWR | O_CREAT | O_TRUNC, 0640);
    assert_true(fd >= 0);
    for (off_t off = 0; off < LARGE; off += sizeof block) {
        int what = (int)(off / (off_t)sizeof block) % 8;
        for (size_t i = 0; i < sizeof block; i++) {
            dice = dice * 1664525u + 1013904223u;
            block[i] = what == 5 ? 'x' : (char)(dice >> 24);
        }
        size_t n = LARGE - off < (off_t)sizeof block ? (size_t)(LARGE - off) : sizeof block;
        if (what != 3) {
            assert_int_equal(pwrite(fd, block, n, off), n);
        }
    }
    close(fd);
    set_time(at, path, 1600000000123456789);
}

static void make_tree(struct fixture *fx, uint32_t dice)
{
    (void)mkdirat(fx->here.fd, "d", 0755);
    make_file(fx->here.fd, "d/a", S("before"), 0644);
    make_large(fx->here.fd, "d/large", dice);
    make_file(fx->here.fd, "d/z", S("after"), 0600);
    set_time(fx->here.fd, "d", 1500000000000000000);
}

static const char *const names[] = {"", "d", "d/a", "d/large", "d/z"};

struct pulled {
    size_t next;
    struct tree_reader *files;
};

static int source_next(void *arg, struct tree_entry *out, struct err *e)
{
    struct pulled *s = arg;
    if (s->next == COUNTOF(names)) {
        return 0;
    }
    return tree_reader_open(s->files, str_from(names[s->next++]), out, e) < 0 ? -1 : 1;
}

/* Something happens when so much was moved. */
static void count(uint64_t n)
{
    bool was_before = now->moved < KILL_AT;
    now->moved += n;
    if (!was_before || now->moved < KILL_AT) {
        return;
    }
    if (now->kills) {
        kill_lanes();
    }
    if (now->cancel != NULL) {
        cancel_fire(now->cancel);
    }
    if (now->shrinks) {
        int fd = openat(now->here.fd, "d/large", O_WRONLY);
        assert_int_equal(ftruncate(fd, 20 << 20), 0);
        close(fd);
    }
}

static ssize_t source_read(void *arg, char *to, size_t cap, bool *skip, struct err *e)
{
    struct pulled *s = arg;
    ssize_t n = tree_reader_read(s->files, to, cap, e);
    (void)skip;
    count(n > 0 ? (uint64_t)n : 0);
    return n;
}

static uint64_t source_hole(void *arg)
{
    return tree_reader_hole(((struct pulled *)arg)->files);
}

static int source_seek(void *arg, uint64_t offset, struct err *e)
{
    (void)e;
    tree_reader_seek(((struct pulled *)arg)->files, offset);
    return 0;
}

static int put(struct fixture *fx, struct put_result *out)
{
    struct pulled s = {.files = tree_reader_new(fx->here.fd)};
    struct tree_source from = {.next = source_next,
                               .read = source_read,
                               .hole = source_hole,
                               .seek = source_seek,
                               .arg = &s};
    int rc = trees_over_agent.put(&fx->box.box, &fx->ctx, S("."), &from, out, &fx->e);
    tree_reader_free(s.files);
    return rc;
}

static const struct tree_sink *into;

static int sink_entry(void *arg, const struct tree_entry *entry, struct err *e)
{
    (void)arg;
    return into->entry(into->arg, entry, e);
}

static int sink_data(void *arg, struct str bytes, struct err *e)
{
    (void)arg;
    count(bytes.len);
    return into->data(into->arg, bytes, e);
}

static int sink_hole(void *arg, uint64_t n, struct err *e)
{
    (void)arg;
    return into->hole(into->arg, n, e);
}

static int sink_at(void *arg, uint64_t offset, struct err *e)
{
    (void)arg;
    return into->at(into->arg, offset, e);
}

static int sink_done(void *arg, bool ok, struct str why, struct err *e)
{
    (void)arg;
    return into->done(into->arg, ok, why, e);
}

static int get(struct fixture *fx, int fd)
{
    struct apply *a = apply_open(&(struct apply_req){.root_fd = fd});
    struct tree_sink to = {.entry = sink_entry,
                           .data = sink_data,
                           .hole = sink_hole,
                           .at = sink_at,
                           .done = sink_done};
    struct str paths[COUNTOF(names)];
    struct err ignored;
    for (size_t i = 0; i < COUNTOF(names); i++) {
        paths[i] = str_from(names[i]);
    }
    into = apply_sink(a);
    int rc =
        trees_over_agent.get(&fx->box.box, &fx->ctx, S("."), paths, COUNTOF(names), &to, &fx->e);
    assert_ok(apply_close(a, rc == 0, &ignored), &ignored);
    return rc;
}

static void there_and_back(struct fixture *fx)
{
    struct put_result wrote;
    struct scratch back = scratch_new();
    struct stat is;
    make_tree(fx, 7);
    assert_ok(put(fx, &wrote), &fx->e);
    assert_int_equal(wrote.files, 3);
    assert_int_equal(wrote.skipped, 0);
    assert_int_equal(wrote.bytes, LARGE + 11);
    /* One for the tree, one for the file, and the lanes. */
    assert_in_range(fx->n_workers, fx->has_none ? 2 : 3, fx->has_none ? 2 : 4);
    assert_same_tree(fx->here.fd, fx->there.fd);
    assert_int_equal(fstatat(fx->there.fd, "d/large", &is, 0), 0);
    assert_true(is.st_blocks * 512 < LARGE - (2 << 20));
    reap(fx);
    assert_ok(get(fx, back.fd), &fx->e);
    assert_in_range(fx->n_workers, fx->has_none ? 2 : 3, fx->has_none ? 2 : 4);
    assert_same_tree(fx->there.fd, back.fd);
    scratch_end(&back);
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void a_large_file_goes_over_several_connections(void **state)
{
    struct fixture *fx = *state;
    there_and_back(fx);
    reap(fx);
    fx->box.slow = true;
    there_and_back(fx);
}

static void without_any_it_goes_over_the_first(void **state)
{
    struct fixture *fx = *state;
    fx->has_none = true;
    there_and_back(fx);
}

static void what_a_lost_connection_owed_goes_over_the_others(void **state)
{
    struct fixture *fx = *state;
    fx->kills = true;
    there_and_back(fx);
}

static void a_file_that_shrinks_meanwhile_is_left_as_it_was(void **state)
{
    struct fixture *fx = *state;
    struct put_result wrote;
    make_tree(fx, 1);
    assert_int_equal(mkdirat(fx->there.fd, "d", 0755), 0);
    make_file(fx->there.fd, "d/large", S("old"), 0644);
    fx->shrinks = true;
    assert_ok(put(fx, &wrote), &fx->e);
    assert_int_equal(wrote.files, 2);
    assert_int_equal(wrote.skipped, 1);
    assert_str(wrote.first_skipped, S("d/large: it became shorter while it was read"));
    struct stat is;
    assert_int_equal(fstatat(fx->there.fd, "d/large", &is, 0), 0);
    assert_int_equal(is.st_size, 3);
}

static bool saw_temp;

static bool look_for_temp(void *arg, const char *name)
{
    (void)arg;
    saw_temp = saw_temp || strncmp(name, TREE_TEMP_PREFIX, strlen(TREE_TEMP_PREFIX)) == 0;
    return true;
}

static void a_cancelled_one_leaves_the_old_and_nothing_else(void **state)
{
    struct fixture *fx = *state;
    struct cancel cancel;
    struct put_result wrote;
    struct stat is;
    make_tree(fx, 2);
    assert_int_equal(mkdirat(fx->there.fd, "d", 0755), 0);
    make_file(fx->there.fd, "d/large", S("old"), 0644);
    assert_ok(cancel_init(&cancel, &fx->e), &fx->e);
    fx->ctx.cancel = fx->cancel = &cancel;
    assert_fails(put(fx, &wrote), &fx->e, ERR_CANCELLED, "");
    fx->ctx.cancel = fx->cancel = NULL;
    reap(fx);
    assert_int_equal(fstatat(fx->there.fd, "d/large", &is, 0), 0);
    assert_int_equal(is.st_size, 3);
    int dir = openat(fx->there.fd, "d", O_RDONLY | O_DIRECTORY);
    saw_temp = false;
    assert_int_equal(dirs_each_name(dir, look_for_temp, NULL), 0);
    assert_false(saw_temp);
    close(dir);
    cancel_fini(&cancel);
}

/* ---- a client that lies to a worker ------------------------------------------------------------------ */

static struct frame ask(int fd, struct buf *request, struct buf *answer)
{
    struct frame f = {0};
    struct err e;
    size_t used = 0;
    assert_ok(fd_set_nonblock(fd, false, &e), &e);
    assert_ok(fd_write_all(fd, buf_str(request), &e), &e);
    for (;;) {
        ssize_t n = wire_parse(str_skip(buf_str(answer), used), &f, &e);
        assert_true(n >= 0);
        used += (size_t)n;
        if (n > 0 && f.type != FRAME_HELLO) {
            return f;
        }
        if (n == 0) {
            char some[4096];
            ssize_t got = read(fd, some, sizeof some);
            assert_true(got > 0);
            buf_add(answer, (struct str){some, (size_t)got});
        }
    }
}

static uint8_t try_part(const char *name, const char *temp)
{
    struct buf request;
    struct buf answer;
    pid_t pid;
    int fd = start_worker(&pid);
    buf_init(&request, 1u << 20);
    buf_init(&answer, 1u << 20);
    struct wire_out w = wire_begin(&request, FRAME_TREE_PART_PUT);
    wire_str(&w, S("."));
    wire_u8(&w, 0);
    wire_str(&w, str_from(name));
    wire_str(&w, str_from(temp));
    assert_true(wire_end(&w));
    w = wire_begin(&request, FRAME_TREE_SLICE);
    wire_u64(&w, 1);
    wire_u32(&w, 0);
    wire_str(&w, S("evil"));
    assert_true(wire_end(&w));
    uint8_t type = ask(fd, &request, &answer).type;
    close(fd);
    buf_fini(&request);
    buf_fini(&answer);
    return type;
}

static void only_temporary_files_are_written_and_no_link_is_followed(void **state)
{
    struct fixture *fx = *state;
    int at = fx->there.fd;
    struct stat is;
    make_dir(at, "d", 0755);
    make_dir(at, "out", 0755);
    make_file(at, "d/.anybox-sync-1", S(""), 0600);
    make_file(at, "d/own", S("own"), 0600);
    make_file(at, "out/.anybox-sync-1", S(""), 0600);
    assert_int_equal(symlinkat("out", at, "link"), 0);
    assert_int_equal(symlinkat("own", at, "d/.anybox-sync-2"), 0);
    assert_int_equal(mkfifoat(at, "d/.anybox-sync-3", 0600), 0);
    assert_int_equal(try_part("d/f", ".anybox-sync-1"), FRAME_TREE_WRITTEN);
    assert_int_equal(fstatat(at, "d/.anybox-sync-1", &is, 0), 0);
    assert_int_equal(is.st_size, 5);
    assert_int_equal(try_part("d/f", "own"), FRAME_FAIL);
    assert_int_equal(try_part("d/f", ".anybox-sync-2"), FRAME_FAIL);
    assert_int_equal(try_part("d/f", ".anybox-sync-3"), FRAME_FAIL);
    assert_int_equal(try_part("d/f", ".anybox-sync-none"), FRAME_FAIL);
    assert_int_equal(try_part("d/f", "../out/.anybox-sync-1"), FRAME_FAIL);
    assert_int_equal(try_part("link/f", ".anybox-sync-1"), FRAME_FAIL);
    assert_int_equal(try_part("../f", ".anybox-sync-1"), FRAME_FAIL);
    assert_int_equal(fstatat(at, "out/.anybox-sync-1", &is, 0), 0);
    assert_int_equal(is.st_size, 0);
    assert_int_equal(fstatat(at, "d/own", &is, 0), 0);
    assert_int_equal(is.st_size, 3);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_large_file_goes_over_several_connections),
        T(without_any_it_goes_over_the_first),
        T(what_a_lost_connection_owed_goes_over_the_others),
        T(a_file_that_shrinks_meanwhile_is_left_as_it_was),
        T(a_cancelled_one_leaves_the_old_and_nothing_else),
        T(only_temporary_files_are_written_and_no_link_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
