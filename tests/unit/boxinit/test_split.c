/* Many files over several connections, from one end of the protocol to the other: the provider's
 * side here, workers of a box in child processes, some of which are killed. */
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "../tree/scratch.h"
#include "boxinit/files.h"
#include "provider/over_agent.h"
#include "tree/dirs.h"

#define LANES   3
#define PEOPLE  16
#define FOLDERS 12
#define EACH    6 /* entries of a folder, with itself */
#define N       (1 + FOLDERS * EACH + 1)
#define LENGTH  60000
#define MIDDLE  ((uint64_t)10 * LENGTH)
#define GROUP   20000 /* of the first worker, where we may choose */

struct fixture {
    struct agent_box box;
    struct scratch here, there;
    struct arena arena;
    struct ctx ctx;
    struct err e;
    struct put_result put;
    pid_t workers[PEOPLE]; /* all of them, in the order of their births */
    size_t n_workers;
    pid_t lanes[LANES];
    unsigned asked; /* for lanes */
    bool has_none;
    bool kills;   /* the lanes, in the middle */
    bool starves; /* workers have room for small files only */
    struct cancel *cancel;
    uint64_t moved;
    char names[N][32];
};

static struct fixture *now;

/* ---- the other side ---------------------------------------------------------------------------- */

static void serve(size_t number)
{
    _Atomic int64_t used = 0;
    struct spec spec = {.is_plain = true, .home = "/nonexistent-home", .work_dir = now->there.path};
    struct buf in;
    struct worker w = {.spec = &spec, .fd = 3, .in = &in, .used_ms = &used};
    if (geteuid() == 0) {
        assert_int_equal(setegid(GROUP + (gid_t)number), 0); /* tells who made a file */
    }
    if (now->starves) {
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, 1000}), 0);
    }
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
        serve(now->n_workers);
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

/* ---- this side ------------------------------------------------------------------------------------ */

static void make_one(struct fixture *fx, const char *path, uint32_t dice)
{
    static char block[LENGTH];
    for (size_t i = 0; i < sizeof block; i++) {
        dice = dice * 1664525u + 1013904223u;
        block[i] = (char)(dice >> 24);
    }
    make_file(fx->here.fd, path, (struct str){block, sizeof block}, 0640);
}

/* Files of a folder lie before and after those of the folder in it. */
static void make_tree(struct fixture *fx)
{
    static const char *const names[EACH] = {"", "/a", "/l", "/m", "/m/x", "/z"};
    size_t n = 1;
    for (unsigned i = 0; i < FOLDERS; i++) {
        for (size_t k = 0; k < EACH; k++, n++) {
            char *name = fx->names[n];
            (void)snprintf(name, sizeof fx->names[n], "f%02u%s", i, names[k]);
            if (k == 0 || k == 3) {
                assert_int_equal(mkdirat(fx->here.fd, name, 0755), 0);
            } else if (k == 2) {
                assert_int_equal(symlinkat("../there", fx->here.fd, name), 0);
            } else {
                make_one(fx, name, (uint32_t)n);
            }
        }
    }
    (void)snprintf(fx->names[n], sizeof fx->names[n], "r");
    make_one(fx, "r", 1);
    for (n = N; n-- > 0;) {
        set_time(fx->here.fd, n == 0 ? "." : fx->names[n], 1500000000000000000 + (int64_t)n * 7);
    }
    assert_int_equal(fchmodat(fx->here.fd, "f03", 0555, 0), 0);
}

struct pulled {
    size_t next;
    enum tree_share share;
    struct tree_reader *files;
};

static int source_next(void *arg, struct tree_entry *out, struct err *e)
{
    struct pulled *s = arg;
    while (s->next < N) {
        if (tree_reader_open(s->files, str_from(now->names[s->next++]), out, e) < 0) {
            return -1;
        }
        if ((s->share == TREE_FOLDERS) == (out->type == TREE_DIR)) {
            return 1;
        }
    }
    return 0;
}

/* Something happens when so much was moved. */
static void count(uint64_t n)
{
    bool was_before = now->moved < MIDDLE;
    now->moved += n;
    if (!was_before || now->moved < MIDDLE) {
        return;
    }
    for (size_t i = 0; now->kills && i < LANES; i++) {
        if (now->lanes[i] > 0) {
            kill(now->lanes[i], SIGKILL);
        }
    }
    if (now->cancel != NULL) {
        cancel_fire(now->cancel);
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

static int put(struct fixture *fx, enum tree_share share)
{
    struct pulled s = {.share = share, .files = tree_reader_new(fx->here.fd)};
    struct tree_source from = {.next = source_next, .read = source_read, .share = share, .arg = &s};
    int rc = trees_over_agent.put(&fx->box.box, &fx->ctx, S("."), &from, &fx->put, &fx->e);
    tree_reader_free(s.files);
    return rc;
}

static void put_folders(struct fixture *fx)
{
    assert_ok(put(fx, TREE_FOLDERS), &fx->e);
    assert_int_equal(fx->n_workers, 1);
    reap(fx);
}

static bool saw_temp;

static bool look_for_temp(void *arg, const char *name)
{
    (void)arg;
    saw_temp = saw_temp || strncmp(name, TREE_TEMP_PREFIX, strlen(TREE_TEMP_PREFIX)) == 0;
    return true;
}

/* What is there is whole, and nothing of it temporary unless `killed`. How many files that is. */
static size_t whole_files(struct fixture *fx, bool killed)
{
    size_t found = 0;
    saw_temp = false;
    for (size_t i = 0; i < N; i++) {
        struct stat is;
        if (fstatat(fx->there.fd, i == 0 ? "." : fx->names[i], &is, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (S_ISREG(is.st_mode)) {
            assert_int_equal(is.st_size, LENGTH);
            found++;
        } else if (S_ISDIR(is.st_mode)) {
            int dir = openat(fx->there.fd, i == 0 ? "." : fx->names[i], O_RDONLY | O_DIRECTORY);
            assert_int_equal(dirs_each_name(dir, look_for_temp, NULL), 0);
            close(dir);
        }
    }
    assert_true(killed || !saw_temp);
    return found;
}

static gid_t group_of(struct fixture *fx, size_t i)
{
    struct stat is;
    assert_int_equal(fstatat(fx->there.fd, fx->names[i], &is, 0), 0);
    return is.st_gid;
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
    make_tree(fx);
    put_folders(fx);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fx = *state;
    reap(fx);
    assert_int_equal(fchmodat(fx->here.fd, "f03", 0755, 0), 0);
    assert_int_equal(fchmodat(fx->there.fd, "f03", 0755, 0), 0);
    scratch_end(&fx->here);
    scratch_end(&fx->there);
    arena_fini(&fx->arena);
    free(fx);
    return 0;
}

/* ---- tests ------------------------------------------------------------------------------------------ */

static void all_of_it_arrives(struct fixture *fx)
{
    assert_ok(put(fx, TREE_FILES), &fx->e);
    assert_int_equal(fx->put.files, 3 * FOLDERS + 1);
    assert_int_equal(fx->put.links, FOLDERS);
    assert_int_equal(fx->put.bytes, (3 * FOLDERS + 1) * LENGTH);
    assert_int_equal(fx->put.dirs, 0);
    assert_int_equal(fx->put.skipped, 0);
    assert_same_tree(fx->here.fd, fx->there.fd);
    assert_int_equal(whole_files(fx, false), 3 * FOLDERS + 1);
}

static void each_folder_goes_over_one_of_several(void **state)
{
    struct fixture *fx = *state;
    bool differ = false;
    all_of_it_arrives(fx);
    assert_in_range(fx->n_workers, 2, 3);
    for (size_t i = 1; i + EACH <= N && geteuid() == 0; i += EACH) {
        assert_int_equal(group_of(fx, i + 1), group_of(fx, i + 5)); /* a and z */
        differ = differ || group_of(fx, i + 1) != group_of(fx, 2);
    }
    assert_true(differ || geteuid() != 0);
}

static void packed_as_well(void **state)
{
    struct fixture *fx = *state;
    fx->box.slow = true;
    all_of_it_arrives(fx);
}

static void without_any_all_goes_over_the_first(void **state)
{
    struct fixture *fx = *state;
    fx->has_none = true;
    all_of_it_arrives(fx);
    assert_int_equal(fx->n_workers, 1);
}

static void a_lost_connection_is_the_end_of_it_and_it_can_be_made_again(void **state)
{
    struct fixture *fx = *state;
    fx->kills = true;
    assert_fails(put(fx, TREE_FILES), &fx->e, ERR_UNREACHABLE, "connections was lost");
    fx->kills = false;
    reap(fx);
    assert_true(whole_files(fx, true) < 3 * FOLDERS + 1);
    fx->has_none = true;
    all_of_it_arrives(fx);
}

static void a_cancelled_one_leaves_whole_files(void **state)
{
    struct fixture *fx = *state;
    struct cancel cancel;
    assert_ok(cancel_init(&cancel, &fx->e), &fx->e);
    fx->ctx.cancel = fx->cancel = &cancel;
    assert_fails(put(fx, TREE_FILES), &fx->e, ERR_CANCELLED, "");
    fx->ctx.cancel = fx->cancel = NULL;
    reap(fx);
    assert_true(whole_files(fx, false) < 3 * FOLDERS + 1);
    cancel_fini(&cancel);
}

static void what_could_not_be_written_is_added_up(void **state)
{
    struct fixture *fx = *state;
    fx->starves = true;
    assert_ok(put(fx, TREE_FILES), &fx->e);
    assert_int_equal(fx->put.skipped, 3 * FOLDERS + 1);
    assert_int_equal(fx->put.links, FOLDERS);
    assert_int_equal(fx->put.files, 0);
    assert_true(str_ends(fx->put.first_skipped, S("File too large")));
    assert_int_equal(whole_files(fx, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_folder_goes_over_one_of_several, setup, teardown),
        cmocka_unit_test_setup_teardown(packed_as_well, setup, teardown),
        cmocka_unit_test_setup_teardown(without_any_all_goes_over_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_connection_is_the_end_of_it_and_it_can_be_made_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_one_leaves_whole_files, setup, teardown),
        cmocka_unit_test_setup_teardown(what_could_not_be_written_is_added_up, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
