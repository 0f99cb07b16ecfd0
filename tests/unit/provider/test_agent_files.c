/* Files over the agent's protocol, against scripted agents. */
#include "fake_agent.h"
#include "test.h"

struct fixture {
    struct fake_agent fake;
    struct arena arena;
    struct ctx ctx;
    struct box *box;
    struct buf got;
    struct file_info info[8];
    size_t n_info;
    struct err e;
};

static int setup(void **state)
{
    struct fixture *fx = calloc(1, sizeof *fx);
    fake_init(&fx->fake);
    arena_init(&fx->arena, 16u << 20);
    fx->ctx = (struct ctx){.arena = &fx->arena};
    fx->box = &fx->fake.agent.box;
    buf_init(&fx->got, 1u << 20);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    fake_fini(&fx->fake);
    arena_fini(&fx->arena);
    buf_fini(&fx->got);
    free(fx);
    return 0;
}

static int keep(void *arg, const struct file_info *info, struct err *e)
{
    struct fixture *fx = arg;
    if (fx->n_info == COUNTOF(fx->info)) {
        return err_set(e, ERR_LIMIT, "the test wants no more");
    }
    fx->info[fx->n_info++] = *info;
    return 0;
}

static int sink_write(void *arg, enum stream from, struct str bytes, struct err *e)
{
    (void)from, (void)e;
    buf_add(&((struct fixture *)arg)->got, bytes);
    return 0;
}

static void test_stat(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_STAT);
    fake_entry(&fx->fake, 0, "/workspace/a", ENTRY_FILE, 42);
    struct file_info info;
    assert_ok(files_over_agent.stat(fx->box, &fx->ctx, S("a"), &info, &fx->e), &fx->e);
    assert_str(info.path, S("/workspace/a"));
    assert_int_equal(info.type, FILE_REGULAR);
    assert_int_equal(info.mode, 0640);
    assert_int_equal(info.size, 42);
    assert_int_equal(info.mtime_s, 1700000000);
}

static void test_bad_paths(void **state)
{
    struct fixture *fx = *state;
    struct file_info info;
    static char deep[PATH_MAX_BYTES + 1];
    memset(deep, 'd', sizeof deep);
    const struct str bad[] = {STR_EMPTY, S("a\0b"), {deep, sizeof deep}};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        assert_fails(files_over_agent.stat(fx->box, &fx->ctx, bad[i], &info, &fx->e), &fx->e,
                     ERR_INVALID, "path");
    }
    assert_int_equal(fx->fake.n_opened, 0);
}

static void test_list(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_entry(&fx->fake, 0, "d/a", ENTRY_DIR, 0);
    fake_entry(&fx->fake, 0, "d/l", ENTRY_LINK, 0);
    fake_entry(&fx->fake, 0, "d/s", ENTRY_OTHER, 0);
    fake_ok(&fx->fake, 0, 1);
    bool more = false;
    struct list_req req = {.dir = S("d"), .recursive = true, .max = 3};
    assert_ok(files_over_agent.list(fx->box, &fx->ctx, &req, keep, fx, &more, &fx->e), &fx->e);
    assert_true(more);
    assert_int_equal(fx->n_info, 3);
    assert_int_equal(fx->info[0].type, FILE_DIR);
    assert_int_equal(fx->info[1].type, FILE_SYMLINK);
    assert_int_equal(fx->info[2].type, FILE_OTHER);
    assert_str(fx->info[2].path, S("d/s"));
}

static void test_list_with_too_many(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_entry(&fx->fake, 0, "a", ENTRY_FILE, 0);
    fake_entry(&fx->fake, 0, "b", ENTRY_FILE, 0);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    bool more = false;
    struct list_req req = {.dir = S("d"), .recursive = true, .max = 1};
    assert_fails(files_over_agent.list(fx->box, &fx->ctx, &req, keep, fx, &more, &fx->e), &fx->e,
                 ERR_PROTOCOL, "more files");
}

static int read_file(struct fixture *fx, int64_t max)
{
    struct sink sink = {.write = sink_write, .arg = fx};
    return files_over_agent.read(fx->box, &fx->ctx, S("f"), 5, max, &sink, &fx->info[0], &fx->e);
}

static void test_read(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_READ);
    fake_entry(&fx->fake, 0, "f", ENTRY_FILE, 100);
    fake_chunk(&fx->fake, 0, S("some "));
    fake_chunk(&fx->fake, 0, S("bytes"));
    fake_ok(&fx->fake, 0, 0);
    assert_ok(read_file(fx, 10), &fx->e);
    assert_str(buf_str(&fx->got), S("some bytes"));
    assert_int_equal(fx->info[0].size, 100);
}

static void test_read_of_more_than_asked(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_entry(&fx->fake, 0, "f", ENTRY_FILE, 100);
    fake_chunk(&fx->fake, 0, S("some "));
    fake_chunk(&fx->fake, 0, S("bytes"));
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_fails(read_file(fx, 9), &fx->e, ERR_PROTOCOL, "piece of a file");
    assert_str(buf_str(&fx->got), S("some "));
}

static void test_read_that_breaks_off(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_entry(&fx->fake, 0, "f", ENTRY_FILE, 100);
    fake_chunk(&fx->fake, 0, S("some "));
    assert_fails(read_file(fx, 9), &fx->e, ERR_GONE, "ended");
}

static void test_read_whose_worker_was_killed(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_entry(&fx->fake, 0, "f", ENTRY_FILE, 100);
    fake_hello(&fx->fake, 1);
    fake_add(&fx->fake, 1, FAKE_LISTEN);
    assert_fails(read_file(fx, 9), &fx->e, ERR_UNREACHABLE, "the sandbox itself goes on");
}

static ssize_t blocks(void *arg, char *to, size_t cap, struct err *e)
{
    (void)e;
    size_t *left = arg;
    size_t n = *left < cap ? *left : cap;
    memset(to, 'b', n);
    *left -= n;
    return (ssize_t)n;
}

static void test_write(void **state)
{
    struct fixture *fx = *state;
    size_t size = 700000;
    size_t left = size;
    struct source source = {.read = blocks, .arg = &left, .fd = -1};
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_WRITE);
    fake_add(&fx->fake, 0, FAKE_SLEEP)->ms = 30; /* the socket fills up */
    for (size_t i = 0; i <= size / (16u << 10) && i < 20; i++) {
        fake_hear(&fx->fake, 0, FRAME_CHUNK);
    }
    fake_entry(&fx->fake, 0, "f", ENTRY_FILE, size);
    fake_add(&fx->fake, 0, FAKE_LISTEN);
    assert_ok(files_over_agent.write(fx->box, &fx->ctx, S("f"), 0755, FILE_PARENTS | FILE_NEW,
                                     &source, &fx->info[0], &fx->e),
              &fx->e);
    fake_join(&fx->fake);
    struct frame f;
    assert_true(fake_heard(&fx->fake, 0, FRAME_WRITE, 0, &f));
    struct wire_in r = wire_read(f.fields);
    assert_str(wire_get_str(&r), S("f"));
    assert_int_equal(wire_get_u32(&r), 0755);
    assert_int_equal(wire_get_u8(&r), WRITE_PARENTS | WRITE_NEW);
    assert_int_equal(fx->info[0].size, size);
}

static void test_write_refused_early(void **state)
{
    struct fixture *fx = *state;
    size_t left = 64u << 20;
    struct source source = {.read = blocks, .arg = &left, .fd = -1};
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_WRITE);
    fake_fail(&fx->fake, 0, ERR_LIMIT, "the disk is full");
    fake_add(&fx->fake, 0, FAKE_SLEEP)->ms = 100;
    assert_fails(
        files_over_agent.write(fx->box, &fx->ctx, S("f"), 0, 0, &source, &fx->info[0], &fx->e),
        &fx->e, ERR_LIMIT, "the disk is full");
    assert_true(left > 0);
}

static void test_mkdir_and_remove(void **state)
{
    struct fixture *fx = *state;
    fake_hello(&fx->fake, 0);
    fake_hear(&fx->fake, 0, FRAME_MKDIR);
    fake_ok(&fx->fake, 0, 0);
    fake_hello(&fx->fake, 1);
    fake_hear(&fx->fake, 1, FRAME_REMOVE);
    fake_fail(&fx->fake, 1, ERR_DENIED, "read-only");
    assert_ok(files_over_agent.mkdir(fx->box, &fx->ctx, S("a/b"), &fx->e), &fx->e);
    assert_fails(files_over_agent.remove(fx->box, &fx->ctx, S("/usr"), &fx->e), &fx->e, ERR_DENIED,
                 "read-only");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_stat),
        T(test_bad_paths),
        T(test_list),
        T(test_list_with_too_many),
        T(test_read),
        T(test_read_of_more_than_asked),
        T(test_read_that_breaks_off),
        T(test_read_whose_worker_was_killed),
        T(test_write),
        T(test_write_refused_early),
        T(test_mkdir_and_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
