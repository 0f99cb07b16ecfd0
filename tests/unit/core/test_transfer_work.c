/* What a worker does, in this process: the box is a folder beside the one that is sent. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/own.h"
#include "config/config.h"
#include "core/boxes_own.h"
#include "core/transfer_own.h"
#include "folder_box.h"
#include "test.h"

struct world {
    char dir[64];
    struct config config;
    struct folder_box far;
    struct provider_ops ops;
    struct services services;
    struct arena arena;
    struct ctx ctx;
    struct cancel cancel;
    struct scope scope;
    int out; /* stdout, while the worker's log goes to a file */
};

static struct world *the_world; /* for the ops, which know their provider only */

static int list(struct provider *p, const struct ctx *ctx, box_info_fn *each, void *arg,
                struct err *e)
{
    const struct box_info info = {.ref = S("far"), .name = S("far"), .state = BOX_RUNNING};

    (void)p;
    (void)ctx;
    return each(arg, &info, e);
}

static struct box *attach(struct provider *p, const struct ctx *ctx, struct str ref, struct err *e)
{
    (void)p;
    (void)ctx;
    (void)ref;
    (void)e;
    return box_ref(&the_world->far.box);
}

static void close_provider(struct provider *p)
{
    (void)p;
}

static void release(struct box *b)
{
    (void)b;
}

static const char *at(struct world *w, const char *name)
{
    return arena_printf(&w->arena, "%s/%s", w->dir, name).p;
}

static void put(struct world *w, const char *name, const char *text)
{
    struct err e;

    assert_ok(fd_replace_file(AT_FDCWD, at(w, name), str_from(text), 0644, &e), &e);
}

static struct str got(struct world *w, const char *name)
{
    struct str text = STR_EMPTY;
    struct err e;

    assert_ok(fd_read_file(AT_FDCWD, at(w, name), 65536, &w->arena, &text, &e), &e);
    return text;
}

static void open_services(struct world *w)
{
    struct provider *p = &w->far.provider;
    struct err e;

    folder_box_init(&w->far, arena_printf(&w->arena, "%s/far", w->dir));
    w->far.box.refs = 1000; /* never released */
    w->ops = *w->far.provider.ops;
    w->ops.list = list;
    w->ops.attach = attach;
    w->ops.close = close_provider;
    w->ops.release = release;
    w->ops.factory = NULL;
    w->far.provider.ops = &w->ops;
    w->far.provider.name = S("ssh");
    w->config.state_dir = arena_printf(&w->arena, "%s/state", w->dir);
    w->services.config = &w->config;
    w->services.store = store_new(w->config.state_dir);
    w->services.boxes = boxes_new_with(&w->config, w->services.store, &p, 1, NULL);
    assert_ok(cancel_init(&w->cancel, &e), &e);
}

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        return -1;
    }
    the_world = w;
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/test-work-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    arena_init(&w->arena, 64u << 20);
    w->ctx = (struct ctx){.arena = &w->arena};
    open_services(w);
    scope_init(&w->scope, STR_EMPTY, S("/"));
    assert_int_equal(mkdir(at(w, "here"), 0755) | mkdir(at(w, "far"), 0755), 0);
    put(w, "here/a", "one");
    put(w, "here/b", "three");
    w->out = dup(STDOUT_FILENO);
    int log own_fd = open(at(w, "log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_int_equal(dup2(log, STDOUT_FILENO), STDOUT_FILENO);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    struct err e;

    assert_int_equal(dup2(w->out, STDOUT_FILENO), STDOUT_FILENO);
    (void)close(w->out);
    scope_fini(&w->scope);
    boxes_free(w->services.boxes);
    store_free(w->services.store);
    cancel_fini(&w->cancel);
    arena_fini(&w->arena);
    assert_ok(fd_remove_tree(AT_FDCWD, w->dir, &e), &e);
    free(w);
    return 0;
}

/* A row that this process holds, as a server's is until its worker claims it. */
static int64_t add(struct world *w, bool down, const char *local, const struct transfer_proc *proc)
{
    const struct sync_job job = {.delete_extras = true};
    struct transfer_row row = {
        .down = down,
        .box_id = S("ssh:far"),
        .box_name = S("far"),
        .local = str_from(at(w, local)),
        .remote = S("proj"),
        .proc = *proc,
        .lease_ms = clock_mono_ms() + TRANSFER_LEASE_MS,
    };
    int64_t id = 0;
    struct err e;

    assert_ok(transfer_pack_job(&job, &w->arena, &row.options, &e), &e);
    assert_ok(store_add_transfer(w->services.store, &row, str_from(w->dir), &id, &e), &e);
    return id;
}

static int64_t add_mine(struct world *w, bool down, const char *local)
{
    const struct transfer_proc self = transfer_self(&w->arena);

    return add(w, down, local, &self);
}

static struct transfer_row row(struct world *w, int64_t id)
{
    struct transfer_row r = {0};
    struct err e;

    assert_ok(store_any_transfer(w->services.store, &w->arena, id, &r, &e), &e);
    return r;
}

static void sends_and_tells_what_it_did(void **state)
{
    struct world *w = *state;
    int64_t id = add_mine(w, false, "here");
    struct transfer_row r;
    struct err e;

    assert_int_equal(mkdir(at(w, "far/proj"), 0755), 0);
    put(w, "far/proj/old", "too much");
    assert_ok(transfer_work(&w->services, &w->cancel, id, false, &e), &e);
    assert_str(got(w, "far/proj/a"), S("one"));
    assert_str(got(w, "far/proj/b"), S("three"));
    assert_int_equal(access(at(w, "far/proj/old"), F_OK), -1);
    r = row(w, id);
    assert_int_equal(r.state, TRANSFER_COMPLETED);
    assert_str(r.progress.phase, S("complete"));
    assert_int_equal(r.progress.files, 2);
    assert_int_equal(r.progress.files_total, 2);
    assert_int_equal(r.progress.bytes, 8);
    assert_int_equal(r.progress.deleted_files, 1);
    assert_false(r.progress.is_file);
    assert_true(r.started_ms > 0 && r.finished_ms >= r.started_ms);
    assert_non_null(strstr(got(w, "log").p, "[transfer] completed after"));
}

static void fetches_what_is_there(void **state)
{
    struct world *w = *state;
    int64_t id = add_mine(w, true, "back");
    struct err e;

    assert_int_equal(mkdir(at(w, "far/proj"), 0755), 0);
    put(w, "far/proj/x", "far away");
    assert_ok(transfer_work(&w->services, &w->cancel, id, false, &e), &e);
    assert_str(got(w, "back/x"), S("far away"));
    assert_int_equal(row(w, id).progress.files, 1);
}

static void what_cannot_be_done_is_a_failure_with_a_sentence(void **state)
{
    struct world *w = *state;
    int64_t id = add_mine(w, false, "missing");
    struct err e;

    assert_int_equal(transfer_work(&w->services, &w->cancel, id, false, &e), -1);
    assert_int_equal(row(w, id).state, TRANSFER_FAILED);
    assert_str(row(w, id).error, str_from(e.msg));
    assert_non_null(strstr(e.msg, "missing"));
    assert_str(row(w, id).progress.phase, S("failed"));
}

static void a_cancelled_one_is_not_begun(void **state)
{
    struct world *w = *state;
    int64_t id = add_mine(w, false, "here");
    struct err e;

    assert_int_equal(store_cancel_transfer(w->services.store, STR_EMPTY, id, &e), 1);
    assert_fails(transfer_work(&w->services, &w->cancel, id, false, &e), &e, ERR_CANCELLED,
                 "nothing was sent");
    assert_int_equal(access(at(w, "far/proj"), F_OK), -1);
}

static void a_signal_makes_it_cancelled(void **state)
{
    struct world *w = *state;
    int64_t id = add_mine(w, false, "here");
    struct err e;

    cancel_fire(&w->cancel);
    assert_int_equal(transfer_work(&w->services, &w->cancel, id, false, &e), -1);
    assert_int_equal(e.kind, ERR_CANCELLED);
    assert_int_equal(row(w, id).state, TRANSFER_CANCELLED);
    assert_str(row(w, id).error, STR_EMPTY);
}

static void a_person_resumes_what_is_not_under_way(void **state)
{
    struct world *w = *state;
    const struct transfer_proc dead = {1, 1, S("an earlier boot")};
    int64_t stale = add(w, false, "here", &dead);
    int64_t mine = add_mine(w, false, "here");
    struct err e;

    assert_fails(transfer_work(&w->services, &w->cancel, mine, true, &e), &e, ERR_EXISTS,
                 "under way");
    assert_int_equal(store_claim_transfer(w->services.store, stale, &dead, 0, &e), 1);
    assert_fails(transfer_work(&w->services, &w->cancel, stale, false, &e), &e, ERR_CANCELLED,
                 "running");
    assert_ok(transfer_work(&w->services, &w->cancel, stale, true, &e), &e);
    assert_int_equal(row(w, stale).state, TRANSFER_COMPLETED);
    assert_str(got(w, "far/proj/a"), S("one"));
    assert_fails(transfer_work(&w->services, &w->cancel, stale, true, &e), &e, ERR_INVALID,
                 "is complete");
}

static void a_number_that_is_none_is_told(void **state)
{
    struct world *w = *state;
    struct err e;

    assert_fails(transfer_work(&w->services, &w->cancel, 77, false, &e), &e, ERR_NOT_FOUND, "77");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sends_and_tells_what_it_did),
        TEST(fetches_what_is_there),
        TEST(what_cannot_be_done_is_a_failure_with_a_sentence),
        TEST(a_cancelled_one_is_not_begun),
        TEST(a_signal_makes_it_cancelled),
        TEST(a_person_resumes_what_is_not_under_way),
        TEST(a_number_that_is_none_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
